"""undrain_good_nodes: what Slurm itself has drained is looked at, ended and given back, and nothing
is done unasked."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from needs import need
from slurm_cluster import Cluster, open_cluster

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "orchestration/undrain_good_nodes.py"
PATH = SCRIPTS / TOOL


@pytest.fixture(scope="module")
def undrain(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    """The tool as a module."""
    return load_tool(TOOL)


def make_probe(processes: list[tuple[int, str, str, int, int, str]], **sections: str) -> str:
    """The text of a probe: number, name, state, parent, user and job of each process."""
    stat = "".join(
        f"{number} ({name}) {state} {parent} " + "0 " * 17 + "500 0 0\n"
        for number, name, state, parent, _, _ in processes
    )
    users = "".join(f"/proc/{number} {user}\n" for number, *_, user, _ in processes)
    jobs = "".join(
        f"/proc/{number}/environ:SLURM_JOB_ID={job}\n" for number, *_, job in processes if job
    )
    commands = "".join(
        f"==> /proc/{number}/cmdline <==\n{name} of {number}\n" for number, name, *_ in processes
    )
    return (
        f"## me 900\n## uptime\n100.0 1.0\n100\n## stat\n{stat}## uid\n{users}## job\n{jobs}"
        f"{sections.get('job', '')}## smi\n{sections.get('smi', '')}## fd\n"
        f"{sections.get('fd', '')}## end\n## cmdline\n{commands}{sections.get('cmdline', '')}"
    )


BASE = [
    (1, "systemd", "S", 0, 0, ""),
    (50, "slurmd", "S", 1, 0, ""),
    (60, "nvidia-persiste", "S", 1, 0, ""),
    (800, "sshd", "S", 1, 0, ""),
    (850, "sshd", "S", 800, 1000, ""),
    (900, "sh", "S", 850, 1000, ""),
    (901, "cat", "R", 900, 1000, ""),
    (70, "systemd", "S", 1, 1000, ""),
    (71, "(sd-pam)", "S", 70, 1000, ""),
    (72, "dnsmasq", "S", 1, 65534, ""),
]


@pytest.mark.parametrize(
    ("more", "sections", "left"),
    [
        ([], {}, []),
        ([(99, "python", "S", 1, 1000, "")], {}, [99]),
        ([(99, "python", "S", 1, 0, "7")], {}, [99]),
        ([(99, "python", "S", 1, 0, "")], {}, []),
        ([(99, "python", "S", 1, 0, "")], {"job": "/proc/99/cgroup:/job_7\n"}, [99]),
        ([(90, "slurmstepd", "S", 1, 0, ""), (99, "sh", "D", 90, 0, "")], {}, [90, 99]),
        ([(99, "python", "Z", 1, 1000, "7")], {}, []),
        ([(99, "nv-hostengine", "S", 1, 0, "")], {"fd": "/proc/99/fd:\nx -> /dev/nvidia0\n"}, []),
        # A command line that pretends to be the rest of the answer.
        (
            [(99, "python", "S", 1, 1000, "")],
            {"cmdline": "## stat\n50 (slurmd) D 1\n## me 99\n## job\n/proc/50/cgroup:/job_1\n"},
            [99],
        ),
    ],
)
def test_who_counts_as_left(
    undrain: ModuleType,
    more: list[tuple[int, str, str, int, int, str]],
    sections: dict[str, str],
    left: list[int],
) -> None:
    """Users' and jobs' processes count; services, logins, this tool and what has ended do not."""
    settings = undrain.DrainSettings(connect=())
    look = undrain.read_probe(make_probe(BASE + more, **sections), settings)
    assert look.failure == ""
    assert [process.number for process in look.processes] == left


def test_slurms_own_holder_of_a_cgroup_is_no_step(undrain: ModuleType) -> None:
    """`slurmstepd infinity` of newer versions is a service."""
    text = make_probe([*BASE, (90, "slurmstepd", "S", 1, 0, "")])
    text = text.replace("slurmstepd of 90", "/usr/sbin/slurmstepd infinity")
    assert undrain.read_probe(text, undrain.DrainSettings(connect=())).processes == ()


@pytest.mark.parametrize(
    ("smi", "verdict", "message"),
    [
        ("", "clean", "--undrain gives it back"),
        ("gpu 520\ngpu 520\nstatus 0\n", "clean", ""),
        ("gpu 70000\ngpu 4\nstatus 0\n", "GPU memory", "memory that no process has"),
        ("gpu 70000\nstatus 0\napp 60, 69000\n", "clean", ""),
        ("gpu 70000\nstatus 0\napp 60, [N/A]\n", "GPU memory", ""),
        ("status 137\n", "no answer", "nvidia-smi hung for 20 s"),
        ("gpu 4\nstatus 9\n", "no answer", "nvidia-smi failed with status 9"),
    ],
)
def test_memory_of_gpus_counts(undrain: ModuleType, smi: str, verdict: str, message: str) -> None:
    """Memory that nobody has, and an nvidia-smi that does not answer, keep a node drained."""
    settings = undrain.DrainSettings(connect=())
    found = undrain.judge_look(undrain.read_probe(make_probe(BASE, smi=smi), settings), settings)
    assert found[0] == verdict
    assert message in found[1]


@given(st.text(max_size=400))
def test_no_text_is_an_error(undrain: ModuleType, text: str) -> None:
    """Whatever a node answers, it is a look, and never a clean one without the probe's end."""
    settings = undrain.DrainSettings(connect=())
    look = undrain.read_probe(text, settings)
    if "## end" not in text:
        assert undrain.judge_look(look, settings)[0] == "no answer"


def test_reasons_and_states(undrain: ModuleType) -> None:
    """Only the very reason counts; a node in two partitions is one node; signs behind the state do
    not matter."""
    text = "".join(
        f"{name}|{state}|2026-01-01T00:00:00|{reason}\n"
        for name, state, reason in (
            ("n1", "drained", "Kill task failed"),
            ("n1", "drained", "Kill task failed"),
            ("n2", "drained*", "Kill task failed"),
            ("n3", "draining", "Kill task failed"),
            ("n4", "drained", "Kill task failed | bad GPU"),
            ("n5", "drained", "kill"),
            ("n6", "idle", "Kill task failed"),
            ("n7", "down*", "Kill task failed"),
        )
    )
    nodes = undrain.parse_sinfo(text)
    assert [n.name for n in nodes if undrain.is_drained_for(n, undrain.REASON)] == [
        "n1",
        "n2",
        "n3",
    ]
    assert nodes[3].reason == "Kill task failed | bad GPU"
    settings = undrain.DrainSettings(connect=("false",))
    stop = undrain.StopSign()
    assert undrain.treat_node(nodes[1], settings, stop).verdict == "no answer"
    assert undrain.treat_node(nodes[2], settings, stop).verdict == "busy"


def test_what_was_not_looked_at_has_no_numbers(
    undrain: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the shell is refused, or the node is busy, nobody knows what is left: no 0, but a dash,
    null, and a caveat; a node with nothing left has its 0."""
    settings = undrain.DrainSettings(connect=("sh", "-c", "echo refused >&2; exit 255; : {node}"))
    reason = undrain.REASON
    nodes = [undrain.DrainedNode(f"n{i}", state, "before", reason)
             for i, state in enumerate(("drained", "draining", "drained"))]  # fmt: skip
    outcomes = [undrain.treat_node(node, settings, undrain.StopSign()) for node in nodes[:2]]
    seen = undrain.read_probe(make_probe([]), settings)
    outcomes.append(undrain.NodeOutcome(nodes[2], seen, *undrain.judge_look(seen, settings)))
    rows = undrain.make_node_rows(outcomes, True)
    keys = ("processes", "stuck", "gpu_processes", "killed")
    numbers = [[row[key] for key in keys] for row in rows]
    assert numbers == [[None, None, None, 0], [None, None, None, 0], [0, 0, 0, 0]]
    undrain.print_report(outcomes)
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [line.split("|")[3].strip() for line in lines] == ["-", "-", "0"]
    assert undrain.list_unseen(outcomes) == [
        "2 nodes were not looked at: what is left there is not known"
    ]


def test_a_node_that_hangs_ends_in_time(undrain: ModuleType) -> None:
    """A shell that never answers, and one that fails, are findings of their node."""
    settings = undrain.DrainSettings(connect=("sh", "-c", "sleep 60; : {node}"), timeout=0.5)
    look = undrain.look_at("n1", settings)
    assert look.failure == "no answer within 0 s" or look.failure.startswith("no answer")
    settings = settings._replace(connect=("sh", "-c", "echo no such host >&2; exit 255"))
    assert undrain.look_at("n1", settings).failure == "no such host"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--connect", "ssh node"), "names no node: write {node} in it"),
        (("--connect", "'"), "no closing quotation"),
        (("--nodes", "n[1-"), "is no list of hosts"),
        (("--demonstrate", "--kill"), "--demonstrate is about no node"),
        (("--names",), "--names is for --json"),
        (("--parallel", "0"), "has to be a whole number from 1"),
        # An empty variable is not all nodes, and root's processes are no leftovers.
        (("--nodes", "", "--kill", "--undrain"), "is no list of hosts"),
        (("--first_uid", "0"), "has to be a whole number from 1"),
    ],
)
def test_wrong_use_is_told(
    call_tool: Callable[..., Any], arguments: tuple[str, ...], message: str
) -> None:
    """What cannot be meant ends with status 2 and one line."""
    done = call_tool(TOOL, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


# Takes a name with an end of line in it, which looks like the next section of the answer.
NAMED = r"""
import ctypes, sys, time
ctypes.CDLL(None).prctl(15, b"a\n## uid", 0, 0, 0)
print("named", flush=True)
time.sleep(60)
"""


def test_a_name_hides_nobody(undrain: ModuleType) -> None:
    """A process whose name has an end of line in it is found like any other, and ended."""
    job = str(4_100_000_000 + os.getpid())
    settings = undrain.DrainSettings(connect=(), only_job=job)
    child = subprocess.Popen(
        [sys.executable, "-c", NAMED],
        env={**os.environ, "SLURM_JOB_ID": job},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "named\n"
        look = undrain.look_at("here", settings)
        assert [process.number for process in look.processes] == [child.pid]
        assert undrain.kill_left("here", look.processes, "TERM", settings) == {child.pid}
        assert child.wait(timeout=10) == -signal.SIGTERM
    finally:
        child.kill()
        child.communicate(timeout=10)


def test_nvidia_smi_that_hangs_is_asked_once(
    undrain: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that the look ends within its own time, and tells that."""
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/asked\nexec sleep 60\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(undrain, "PROBE", undrain.PROBE.replace("-s KILL 20", "-s KILL 1"))
    look = undrain.look_at("here", undrain.DrainSettings(connect=(), timeout=30.0))
    assert look.failure == "nvidia-smi hung for 20 s"
    assert (tmp_path / "asked").read_text() == "asked\n"


def test_gpus_are_read_from_what_nvidia_smi_prints(
    undrain: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two GPUs, and a process with memory of one of them; the rest belongs to nobody."""
    program = tmp_path / "nvidia-smi"
    answers = "--query-gpu=memory.used) echo 5000; echo 4;; *) echo '1, 4500';;"
    program.write_text(f"#!/bin/sh\ncase $1 in {answers} esac\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    look = undrain.look_at("here", undrain.DrainSettings(connect=(), only_job="none"))
    assert (look.failure, look.gpu_bytes) == ("", 504 << 20)


def test_what_was_done_before_the_end_is_told(undrain: ModuleType) -> None:
    """Stopped while one node is slow: it and the other one are told of, a third is not begun."""
    slow = 'test "$0" = n1 && sleep 2; exec "$@"'
    settings = undrain.DrainSettings(connect=("sh", "-c", slow, "{node}"), only_job="none")
    nodes = [undrain.DrainedNode(f"n{i}", "drained", "", undrain.REASON) for i in (1, 2)]
    stop = undrain.StopSign()
    timer = threading.Timer(1.0, setattr, (stop, "reason", "stopped by SIGINT"))
    timer.start()
    outcomes, reason = undrain.treat_all(nodes, settings, 2, stop)
    timer.join()
    assert reason == "stopped by SIGINT"
    assert [(each.node.name, each.verdict) for each in outcomes] == [
        ("n1", "clean"),
        ("n2", "clean"),
    ]
    assert undrain.treat_all(nodes, settings, 2, stop) == ([], "stopped by SIGINT")


def test_a_signal_that_was_sent_is_counted_at_the_end(undrain: ModuleType) -> None:
    """Stopped between SIGTERM and SIGKILL: the first is told of, the second is not sent."""
    job = str(4_200_000_000 + os.getpid())
    settings = undrain.DrainSettings(connect=(), only_job=job, kills=True, grace=30.0)
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    child = subprocess.Popen(
        [sys.executable, "-c", f"{code}; time.sleep(60)"],
        env={**os.environ, "SLURM_JOB_ID": job},
        stdout=subprocess.PIPE,
    )
    stop = undrain.StopSign()
    timer = threading.Timer(1.0, setattr, (stop, "reason", "stopped by SIGTERM"))
    try:
        assert child.stdout is not None
        child.stdout.readline()
        timer.start()
        node = undrain.DrainedNode("here", "drained", "", undrain.REASON)
        outcome = undrain.treat_node(node, settings, stop)
        assert (outcome.verdict, outcome.killed) == ("leftovers", 1)
        assert child.poll() is None
    finally:
        timer.join()
        child.kill()
        child.communicate(timeout=10)


def test_nodes_and_gateways_are_hidden(undrain: ModuleType) -> None:
    """Without --names the JSON's command has neither, however they were written."""
    words = ["--nodes=n1", "--connect", "ssh -J gate {node}", "--nodes", "n2", "--kill"]
    hidden = ["--nodes=HIDDEN", "--connect", "HIDDEN", "--nodes", "HIDDEN", "--kill"]
    assert undrain.hide_node_names(words) == hidden


def test_without_slurm_it_is_one_line(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """Where there is no sinfo, that is said."""
    done = call_tool(TOOL, environ={"PATH": str(tmp_path)})
    assert done.returncode == 2
    assert "sinfo is not here: run this where Slurm's commands are" in done.stderr


class Admin:
    """Whoever runs the tool on the login node; its remote shell enters a node's namespaces."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster = cluster
        lines = []
        for node in cluster.nodes:
            # What the cluster itself enters a node by, without the program at its end.
            first = cluster.processes[node].pid
            children = Path(f"/proc/{first}/task/{first}/children").read_text()
            lines.append(f"{node}) target={children.split()[0]};;")
        self.shell = folder / "reach"
        self.shell.write_text(
            "#!/bin/bash\ncase $1 in\n" + "\n".join(lines) + "\nesac\nshift\n"
            'exec nsenter --target=$target --net --uts --mount --pid env -u SLURM_JOB_ID "$@"\n'
        )
        self.shell.chmod(0o755)

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """The tool's status, table and notes."""
        connect = ["--connect", f"{self.shell} {{node}}", "--grace", "1s"]
        done = self.cluster.run([sys.executable, PATH, *connect, *arguments])
        assert "Traceback" not in done.stderr
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes whose Slurm is soon out of patience."""
    with open_cluster(2, settings=("UnkillableStepTimeout=1", "KillWait=1")) as opened:
        yield opened


@pytest.fixture
def admin(cluster: Cluster, tmp_path: Path) -> Admin:
    """An administrator on the login node."""
    return Admin(cluster, tmp_path)


def wait_for_idle(cluster: Cluster, node: str) -> None:
    """A node that was given back is `idle*` until the controller has heard of it."""
    cluster.wait_for(lambda: cluster.state(node) == "idle", f"{node} is not idle")


@contextlib.contextmanager
def freeze(cluster: Cluster, node: str, folder: Path) -> Iterator[Path]:
    """A disk on a node that lets nobody write: who tries waits in the kernel, beyond SIGKILL."""
    need("mkfs.ext4", "fsfreeze")
    image, point = folder / "disk", folder / "point"
    with image.open("wb") as opened:
        opened.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True, timeout=60)
    point.mkdir()
    mounted = cluster.run(["mount", "-o", "loop", image, point], on=node)
    if mounted.returncode:
        pytest.skip(f"no disk of a file can be mounted here: {mounted.stderr.strip()}")
    # Outside of the node's processes: it lets them go where this test itself is killed.
    thaw = f"sleep 120; fsfreeze --unfreeze {point}"
    rescue = subprocess.Popen(
        ["nsenter", f"--target={cluster.processes[node].pid}", "--mount", "sh", "-c", thaw],
        start_new_session=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert cluster.run(["fsfreeze", "--freeze", point], on=node).returncode == 0
        try:
            yield point
        finally:
            cluster.run(["fsfreeze", "--unfreeze", point], on=node)
            os.killpg(rescue.pid, signal.SIGKILL)
            rescue.wait()
    finally:
        unmount = ["umount", point]
        cluster.wait_for(lambda: cluster.run(unmount, on=node).returncode == 0, "it stays mounted")


@pytest.mark.nightly
def test_a_node_that_slurm_drained(
    cluster: Cluster, admin: Admin, tmp_path: Path, read_json: Callable[[Path], Any]
) -> None:
    """Slurm drains a node because a process of a job is stuck in the kernel. While it is, the node
    stays drained whatever is asked; when it is gone, it is called clean, and given back when
    asked."""
    status, out, notes = admin.run("--undrain")
    assert (status, out, notes) == (0, "", 'no node is drained for "Kill task failed"\n')
    with freeze(cluster, "node1", tmp_path) as disk:
        script = tmp_path / "job.sh"
        script.write_text(f"#!/bin/sh\necho x > {disk}/file\n")
        options = ["--parsable", "--nodelist=node1", "--output=/dev/null"]
        job = cluster.ask("sbatch", *options, str(script)).strip()
        cluster.wait_for(lambda: cluster.state("node1") != "idle", "the job does not start")
        time.sleep(0.5)
        # SIGKILL at once, so that the time that KillWait gives it does not pass.
        cluster.ask("scancel", "--full", "--signal=KILL", job)
        cluster.ask("scancel", job)
        cluster.wait_for(lambda: cluster.state("node1") == "drained", "it is not drained", 60)
        path = tmp_path / "x.json"
        status, out, notes = admin.run("--kill", "--undrain", "--json", str(path), "--names")
        assert status == 1
        assert "| stuck |" in " ".join(out.split())
        assert f"of job {job}, user 0, state D" in notes
        (row,) = read_json(path)["results"]
        assert (row["name"], row["verdict"], row["stuck"]) == ("node1", "stuck", 1)
        assert cluster.state("node1") == "drained"
    status, out, _ = admin.run()
    assert (status, "clean" in out) == (0, True), out
    assert cluster.state("node1") == "drained", "a look changes nothing"
    status, out, _ = admin.run("--undrain", "--json", str(path))
    assert (status, "undrained" in out) == (0, True), out
    wait_for_idle(cluster, "node1")
    assert "node1" not in path.read_text()


@pytest.mark.nightly
def test_what_is_left_is_ended_only_when_told(
    cluster: Cluster, admin: Admin, tmp_path: Path
) -> None:
    """A user's process that ignores SIGTERM is named, stays until --kill, and the node is given
    back after it; the reason of another administrator is respected."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True)"
    command = ["setpriv", "--reuid=4242", "--clear-groups", sys.executable, "-c"]
    script = 'nohup "$@" > "$0" 2> /dev/null & until test -s "$0"; do sleep 0.1; done; echo $!'
    left = cluster.run(
        ["sh", "-c", script, tmp_path / "up", *command, f"{code}; time.sleep(600)"], on="node2"
    )
    number = left.stdout.strip()

    def lives() -> bool:
        done = cluster.run(["test", "-d", f"/proc/{number}/fd"], on="node2")
        return done.returncode == 0

    def drain(reason: str) -> None:
        words = ["nodename=node2", "state=drain", f"reason={reason}"]
        cluster.ask("scontrol", "update", *words)
        cluster.wait_for(lambda: cluster.state("node2") == "drained", "it is not drained")

    drain("Kill task failed")
    status, out, notes = admin.run("--undrain")
    assert (status, "leftovers" in out) == (1, True), out
    # It may still be on its way to its sleep.
    assert re.search(f"node2: {number}, user 4242, state [RS]", notes), notes
    assert lives()
    drain("Kill task failed, and a bad disk")
    status, out, notes = admin.run("--kill", "--undrain")
    assert (status, out) == (0, "")
    assert lives()
    drain("Kill task failed")
    status, out, notes = admin.run("--nodes", "node1", "--kill", "--undrain")
    assert (status, out) == (0, "")
    assert lives()
    status, out, notes = admin.run("--kill", "--undrain")
    assert (status, "undrained" in out) == (0, True), out + notes
    assert not lives()
    wait_for_idle(cluster, "node2")


@pytest.mark.nightly
def test_who_may_not_is_told(
    cluster: Cluster, admin: Admin, undrain: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that Slurm does not know is wrong use, and no good answer; whom Slurm does not let
    give a clean node back is told that, and it stays drained."""
    status, out, notes = admin.run("--nodes", "node[1-3]")
    assert (status, out) == (2, "")
    assert "--nodes: sinfo shows no node node3" in notes
    words = ["nodename=node1", "state=drain", "reason=Kill task failed"]
    cluster.ask("scontrol", "update", *words)
    cluster.wait_for(lambda: cluster.state("node1") == "drained", "it is not drained")
    user = ("setpriv", "--reuid=4242", "--clear-groups")

    # Slurm's commands as they are, by a user without rights, on the login node.
    def ask(*command: str) -> str:
        done = cluster.run([*user, *command], folder=Path("/"))
        if done.returncode:
            raise undrain.WrongUse(done.stderr.strip())
        return done.stdout

    monkeypatch.setattr(undrain, "ask_slurm_command", ask)
    (node,) = undrain.list_nodes(["node1"])
    connect = (str(admin.shell), "{node}")
    settings = undrain.DrainSettings(connect=connect, undrains=True, only_job="none")
    outcome = undrain.treat_node(node, settings, undrain.StopSign())
    assert outcome.verdict == "still drained"
    assert "slurm_update error" in outcome.advice
    assert cluster.state("node1") == "drained"
    cluster.ask("scontrol", "update", "nodename=node1", "state=resume")
    wait_for_idle(cluster, "node1")


@pytest.mark.nightly
def test_a_reason_that_changes_meanwhile_is_respected(
    cluster: Cluster, admin: Admin, undrain: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look and the end somebody gives the node another reason: it stays drained."""
    words = ["nodename=node2", "state=drain"]
    cluster.ask("scontrol", "update", *words, "reason=Kill task failed")
    cluster.wait_for(lambda: cluster.state("node2") == "drained", "it is not drained")

    def ask(*command: str) -> str:
        return cluster.ask(*command)

    # The commands are real; they are only started on the login node.
    monkeypatch.setattr(undrain, "ask_slurm_command", ask)
    (node,) = undrain.list_nodes(["node2"])
    cluster.ask("scontrol", "update", *words, "reason=bad disk")
    assert undrain.undrain(node) == "its state or reason changed meanwhile"
    assert cluster.state("node2") == "drained"
    (node,) = undrain.list_nodes(["node2"])
    assert undrain.undrain(node) == ""
    wait_for_idle(cluster, "node2")


def test_a_number_that_is_another_process_by_now_is_left_alone(undrain: ModuleType) -> None:
    """A process is ended only if it started when it was seen."""
    here = undrain.DrainSettings(connect=(), timeout=20.0)
    child = subprocess.Popen(["sleep", "60"])
    try:
        stat = undrain.parse_stat(Path(f"/proc/{child.pid}/stat").read_text())
        seen = undrain.LeftProcess(child.pid, stat[4] + 1, "S", 0.0, 0, "", False, "")
        assert undrain.kill_left("here", [seen], "TERM", here) == set()
        assert child.poll() is None
        right = seen._replace(started=stat[4])
        assert undrain.kill_left("here", [right], "TERM", here) == {child.pid}
        assert child.wait(timeout=10) == -15
    finally:
        child.kill()
        child.wait()


def test_the_demonstration_touches_nobody_else(call_tool: Callable[..., Any]) -> None:
    """A process with another job's number survives the demonstration beside it."""
    other = subprocess.Popen(["sleep", "60"], env={**os.environ, "SLURM_JOB_ID": "77"})
    try:
        done = call_tool(TOOL, "--demonstrate")
        assert done.returncode == 0, done.stderr
        assert "leftovers" in done.stdout
        assert "clean" in done.stdout
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()
