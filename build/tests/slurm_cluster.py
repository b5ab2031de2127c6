"""A real Slurm for tests: a controller and a few nodes on this machine, each with a host name, an
address and a network card of its own.

Every node is a set of namespaces (network, host name, mounts, processes). Nothing of it has a name
outside, so two clusters on one machine cannot meet, and Slurm keeps its usual ports. When the
first process of a node ends, the kernel ends all others of that node and removes its network: that
is how a node dies in a test. The first process of the login node holds a pipe to the tests; when
these let go of it, or are killed, it ends all that is left and removes the folder.

Needs root and the Debian packages of PROGRAMS, and with accounting those of ACCOUNTING_PROGRAMS.

As a pytest plugin this module marks the tests that open a cluster, so that `pytest -m slurm` runs
these.
"""

import contextlib
import functools
import inspect
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import cluster_guard
import pytest

PROGRAMS = {
    "iproute2": ("ip",),
    "munge": ("munged",),
    "slurm-wlm": ("slurmctld", "slurmd", "sbatch"),
    "util-linux": ("nsenter", "setpriv", "unshare"),
}
"""Debian package -> what it has to put on the path."""

ACCOUNTING_PROGRAMS = {
    "mariadb-server": ("mariadbd", "mariadb-install-db"),
    "slurmdbd": ("slurmdbd", "sacct"),
}

LOGIN = "login"
"""Host name of the controller, where users submit."""

CONFIGURATION = """\
ClusterName=book
SlurmctldHost={login}(10.77.0.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
# The nodes share the cores of one machine, and each of them says it has its own.
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
GresTypes=gpu
ReturnToService=2
SlurmdTimeout=3
MessageTimeout=3
TCPTimeout=1
KillWait=8
MpiDefault=none
DefMemPerCPU=200
{settings}
NodeName=node[1-{count}] CPUs={cores} RealMemory=4000 {resources} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=100 State=UP
"""

# A munged of our own is found through the "password" alone.
ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost={login}
AccountingStoragePass={folder}/munge/socket
"""

ACCOUNTING_CONFIGURATION = """\
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
DbdHost={login}
SlurmUser=root
PidFile={folder}/run/slurmdbd.pid
LogFile={folder}/log/slurmdbd.log
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""

ACCOUNTING_DATABASE = """\
create database slurm_acct_db;
create user slurm@'127.0.0.1' identified by 'slurm';
grant all on slurm_acct_db.* to slurm@'127.0.0.1';
create user slurm@localhost identified by 'slurm';
grant all on slurm_acct_db.* to slurm@localhost;
"""

# What makes a host of new namespaces, and becomes its first process.
HOST_START = """
hostname "$1"
mount --bind "$2" /etc/hosts
ip link set lo up
echo ready
shift 2
exec "$@" >&-
"""

# That of a node also collects what has ended, which is the duty of the first process of a process
# namespace.
NODE_STAYS = ("bash", "-c", "while :; do sleep 3600 & wait $!; done")


@dataclass(frozen=True)
class Job:
    """A job, or one task of an array, as squeue shows it."""

    number: str
    state: str
    reason: str
    nodes: str


class ClusterError(Exception):
    """The cluster did not come up, or a part of it did not do what it was told in time."""


@dataclass
class Cluster:
    """A running Slurm. `folder` holds its configuration, state and logs."""

    folder: Path
    nodes: tuple[str, ...]
    has_accounting: bool = False
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    """What was started, by name; a node's first process has the name of the node."""

    def run(
        self,
        command: Sequence[str | Path],
        *,
        on: str = LOGIN,
        folder: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float = 60,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end, as a user of the login node would, or on another node."""
        return subprocess.run(
            self._enter(on, command, folder),
            env=self._environment(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def start(
        self,
        command: Sequence[str | Path],
        *,
        folder: Path | None = None,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[str]:
        """Start a program on the login node. Signals sent to it reach the program itself."""
        return subprocess.Popen(
            self._enter(LOGIN, command, folder),
            env=self._environment(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def jobs(self) -> list[Job]:
        """Every job the controller still knows, ended ones included."""
        text = self.ask("squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%r|%N")
        return [Job(*line.split("|")) for line in text.splitlines()]

    def queue(self) -> list[Job]:
        """The jobs that wait or run."""
        text = self.ask("squeue", "--noheader", "--array", "--format=%i|%T|%r|%N")
        return [Job(*line.split("|")) for line in text.splitlines()]

    def state(self, node: str) -> str:
        """What Slurm says of a node: idle, mixed, down* ..."""
        return self.ask("sinfo", "--noheader", f"--nodes={node}", "--format=%T").strip()

    def ask(self, *command: str) -> str:
        """What a Slurm command printed. Raises ClusterError where it failed."""
        ended = self.run(command)
        if ended.returncode:
            raise ClusterError(f"{command[0]}: {ended.stderr.strip()}")
        return ended.stdout

    def cut(self, node: str) -> None:
        """Let a node die as by a power failure: its link goes first, so that nobody hears of the
        end of its processes."""
        self._nsenter("ip", "link", "set", node, "down")  # the controller's end of the cable
        _end(self.processes.pop(f"slurmd {node}"))
        _end(self.processes.pop(node))

    def restore(self, node: str) -> None:
        """Bring a node that was cut back into service."""
        self._start_node(node)
        self.wait_for(lambda: self.state(node) == "idle", f"{node} did not come back")

    def wait_for(self, holds: Callable[[], object], message: str, seconds: float = 120) -> None:
        """Wait until something holds. Raises ClusterError with the message where it does not."""
        end = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > end:
                raise ClusterError(f"{message}\n{self._read_logs()}")
            time.sleep(0.1)

    def start_up(self) -> None:
        """Start authentication, the controller and the nodes, and wait until all are idle."""
        self._start_login()
        munge = self.folder / "munge"
        files = {"key-file": "key", "socket": "socket", "pid-file": "pid", "seed-file": "seed"}
        options = [f"--{option}={munge / name}" for option, name in files.items()]
        log = self.folder / "log" / "munged.log"
        self._daemon("munged", LOGIN, ["munged", "--foreground", *options, f"--log-file={log}"])
        self.wait_for((munge / "socket").exists, "munged did not start")
        if self.has_accounting:
            self._start_accounting()
        self._daemon("slurmctld", LOGIN, ["slurmctld", "-D"])
        for node in self.nodes:
            self._start_node(node)
        self.wait_for(
            lambda: self.run(["scontrol", "ping"]).returncode == 0, "slurmctld did not start"
        )
        self.wait_for(
            lambda: all(self.state(node) == "idle" for node in self.nodes),
            "the nodes did not come up",
        )

    def stop(self) -> None:
        """End every process of the cluster and remove its folder. Twice is once."""
        if login := self.processes.get(LOGIN):
            assert login.stdin is not None
            login.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                login.wait(timeout=30)
        for name in reversed(list(self.processes)):
            _end(self.processes.pop(name))
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start_login(self) -> None:
        # Without what is installed, and whatever the environment says: it has to start.
        guard = [sys.executable, "-IS", cluster_guard.__file__, str(self.folder)]
        self._start_first(LOGIN, ["unshare"], guard)
        self._nsenter("ip", "link", "add", "switch", "type", "bridge")
        self._nsenter("ip", "addr", "add", "10.77.0.254/24", "dev", "switch")
        self._nsenter("ip", "link", "set", "switch", "up")

    def _start_accounting(self) -> None:
        """A database and slurmdbd, which slurmctld has to find when it starts."""
        data = self.folder / "database"
        data.mkdir()
        shutil.chown(data, "mysql")
        options = ["--no-defaults", "--user=mysql", f"--datadir={data}"]
        install = ["--skip-test-db", "--auth-root-authentication-method=normal"]
        made = self.run(["mariadb-install-db", *options, *install])
        if made.returncode:
            raise ClusterError(f"mariadb-install-db: {made.stderr.strip()}")
        socket = f"--socket={data}/socket"
        limits = ["--innodb-buffer-pool-size=64M", "--innodb-lock-wait-timeout=900"]
        address = ["--port=3306", "--bind-address=127.0.0.1"]
        self._daemon("mariadbd", LOGIN, ["mariadbd", *options, socket, *address, *limits])
        client = ["mariadb", "--no-defaults", socket, "-e"]
        self.wait_for(
            lambda: self.run([*client, "select 1"]).returncode == 0, "mariadbd did not start"
        )
        self.ask(*client, ACCOUNTING_DATABASE)
        self._daemon("slurmdbd", LOGIN, ["slurmdbd", "-D"])
        add = ["sacctmgr", "--immediate", "add", "cluster", "book"]
        self.wait_for(lambda: self.run(add).returncode == 0, "slurmdbd did not start")

    def _start_node(self, node: str) -> None:
        number = node.removeprefix("node")
        # With a process namespace of its own, everything on a node ends with its first process.
        unshare = ["setpriv", "--pdeathsig", "KILL", "unshare", "--pid", "--fork"]
        self._start_first(node, [*unshare, "--kill-child=KILL", "--mount-proc"], NODE_STAYS)
        target = str(self._find_first(node))
        with contextlib.suppress(ClusterError):  # what is left of a node that was cut
            self._nsenter("ip", "link", "delete", node)
        peer = ("peer", "name", "eth0", "netns", target)
        self._nsenter("ip", "link", "add", node, "type", "veth", *peer)
        self._nsenter("ip", "link", "set", node, "master", "switch", "up")
        self._nsenter("ip", "addr", "add", f"10.77.0.{number}/24", "dev", "eth0", on=node)
        self._nsenter("ip", "link", "set", "eth0", "up", on=node)
        self._daemon(f"slurmd {node}", node, ["slurmd", "-D", "-N", node])

    def _start_first(self, name: str, unshare: Sequence[str], stays: Sequence[str]) -> None:
        """The first process of a host, which holds its namespaces as long as it lives."""
        namespaces = ["--net", "--uts", "--mount"]
        hosts = str(self.folder / "hosts")
        process = subprocess.Popen(
            [*unshare, *namespaces, "bash", "-ec", HOST_START, "bash", name, hosts, *stays],
            stdin=subprocess.PIPE if name == LOGIN else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self.processes[name] = process
        assert process.stdout is not None
        line = process.stdout.readline()
        process.stdout.close()
        if line != b"ready\n":
            raise ClusterError(f"the namespaces of {name} could not be made")

    def _find_first(self, name: str) -> int:
        """The process whose namespaces are those of the host: where it has a process namespace,
        the child of the one that was started."""
        process = self.processes[name].pid
        if name == LOGIN:
            return process
        return int(Path(f"/proc/{process}/task/{process}/children").read_text().split()[0])

    def _daemon(self, name: str, on: str, command: Sequence[str]) -> None:
        log = self.folder / "log" / f"{name.replace(' ', '.')}.out"
        with log.open("ab") as output:
            self.processes[name] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *self._enter(on, command, None)],
                env=self._environment(None),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _enter(
        self, name: str, command: Sequence[str | Path], folder: Path | None
    ) -> list[str | Path]:
        if name not in self.processes:
            raise ClusterError(f"{name} is down")
        namespaces = ["--net", "--uts", "--mount", *([] if name == LOGIN else ["--pid"])]
        # To enter mounts is to go to the root folder; nsenter is replaced by the program.
        chdir = ["env", f"--chdir={folder or Path.cwd()}"]
        return ["nsenter", f"--target={self._find_first(name)}", *namespaces, *chdir, *command]

    def _nsenter(self, *command: str, on: str = LOGIN) -> None:
        ended = self.run(command, on=on)
        if ended.returncode:
            raise ClusterError(f"{' '.join(command)}: {ended.stderr.strip()}")

    def _environment(self, more: Mapping[str, str] | None) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
        path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        conf = {"PATH": path, "SLURM_CONF": str(self.folder / "slurm.conf")}
        return {**kept, **conf, **(more or {})}

    def _read_logs(self) -> str:
        """The end of every log, for whoever reads why the cluster failed."""
        logs = sorted((self.folder / "log").iterdir())
        return "\n".join(
            f"{log.name}: {line}"
            for log in logs
            for line in log.read_text(errors="replace").splitlines()[-8:]
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait(timeout=30)


def find_missing_packages(*, accounting: bool = False) -> str:
    """Which Debian packages a cluster would need beside those that are here, or nothing."""
    needed = {**PROGRAMS, **(ACCOUNTING_PROGRAMS if accounting else {})}
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return " ".join(
        package
        for package, programs in needed.items()
        if not all(shutil.which(program, path=path) for program in programs)
    )


@functools.cache
def explain_refusal() -> str:
    """What else than packages this machine lacks to start a cluster, or nothing."""
    trial = ["unshare", "--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc", "true"]
    if os.geteuid() != 0:
        return "root, for namespaces: run the tests as root"
    has_unshare = shutil.which("unshare") is not None
    if has_unshare and subprocess.run(trial, capture_output=True, check=False).returncode:
        return "namespaces, which this machine does not give"
    if not Path("/sys/fs/cgroup").is_dir():
        return "/sys/fs/cgroup to be mounted, for slurmd"
    return ""


def skip_without_cluster(*, accounting: bool = False) -> None:
    """Skip the test where this machine cannot start a cluster, and say all that it would take."""
    is_short = bool(find_missing_packages(accounting=accounting))
    # All tests that are skipped say the same, so that pytest tells it once.
    packages = find_missing_packages(accounting=True) if is_short else ""
    install = f"apt-get install --no-install-recommends {packages}" if packages else ""
    needs = "; and ".join(filter(None, (install, explain_refusal())))
    if needs:
        pytest.skip(f"a Slurm cluster needs: {needs}")


@contextlib.contextmanager
def open_cluster(
    count: int = 2,
    *,
    cores: int = 4,
    gpus: int = 0,
    accounting: bool = False,
    settings: Sequence[str] = (),
) -> Iterator[Cluster]:
    """A cluster of `count` nodes, node1 to node<count>, all idle. With `gpus` each node has so
    many device files that Slurm hands out as GPUs; with `accounting` the cluster keeps accounts
    (sacct). `settings` are further lines of slurm.conf.

    Skips the test as `skip_without_cluster` does. Raises ClusterError where it does not come up.
    """
    skip_without_cluster(accounting=accounting)
    # Not below pytest's folder, which only its owner may enter: munge asks for more, and a
    # socket's path has to be short.
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)
    for name in ("log", "munge", "run", "spool", "state"):
        (folder / name).mkdir(mode=0o755)
    nodes = tuple(f"node{number}" for number in range(1, count + 1))
    addresses = [(LOGIN, 254), *((node, number) for number, node in enumerate(nodes, 1))]
    hosts = ["127.0.0.1 localhost", *(f"10.77.0.{number} {name}" for name, number in addresses)]
    (folder / "hosts").write_text("\n".join(hosts) + "\n")
    key = folder / "munge" / "key"
    key.write_bytes(os.urandom(128))
    key.chmod(0o400)
    for number in range(gpus):
        os.mknod(folder / f"gpu{number}", 0o666 | 0o020000, os.makedev(1, 3))
    if gpus:
        devices = f"Name=gpu Type=fake File={folder}/gpu[0-{gpus - 1}]\n"
        (folder / "gres.conf").write_text(devices)
    accounts = ACCOUNTING.format(folder=folder, login=LOGIN) if accounting else ""
    if accounting:
        dbd = folder / "slurmdbd.conf"
        dbd.write_text(ACCOUNTING_CONFIGURATION.format(folder=folder, login=LOGIN))
        dbd.chmod(0o600)
    (folder / "slurm.conf").write_text(
        CONFIGURATION.format(
            login=LOGIN,
            folder=folder,
            settings="\n".join((*settings, accounts)),
            count=count,
            cores=cores,
            resources=f"Gres=gpu:fake:{gpus}" if gpus else "",
        )
    )
    cluster = Cluster(folder, nodes, accounting)
    try:
        cluster.start_up()
        yield cluster
    finally:
        cluster.stop()


# --- the pytest plugin ---


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that open a cluster, by themselves or by a fixture named `cluster`, before
    anything chooses among them."""
    for item in items:
        if isinstance(item, pytest.Function) and _opens_cluster(item):
            item.add_marker("slurm")
            item.add_marker("nightly")


def _opens_cluster(item: pytest.Function) -> bool:
    names = inspect.unwrap(item.function).__code__.co_names
    return "cluster" in item.fixturenames or open_cluster.__name__ in names


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip here, in one place, so that pytest tells it in one line for all tests."""
    if item.get_closest_marker("slurm"):
        skip_without_cluster()
