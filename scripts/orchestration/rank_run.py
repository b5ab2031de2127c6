#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which rank am I, where is rank 0, and which CPUs, network and caches are mine?

Put this in front of a command that a launcher starts once per rank. It sets what torch.distributed
reads and what each rank should have of its own, prints one line about it, and becomes the command:
signals reach the command itself, and its exit status is that of the rank.

## What is set, and from what

Variables that are set already stay, except for the ranks: a RANK exported in the batch script
would be the same for all.

- RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK: torchrun, Open MPI, PALS, Hydra (Intel
  MPI, MPICH) or Slurm, in this order, because the first ones are often started by the last
- MASTER_ADDR: `--master-addr`, or the first node of the step. Needs no scontrol, which containers
  lack
- MASTER_PORT: `--master-port`, or 20000 + (16 job + step) mod 10000. Job 1234, step 0 gets 29744.
  Equal on all ranks, and different for 625 consecutive jobs and 16 steps of each
- CPU affinity: an equal share of the cores next to the GPU of this rank (see numa_bind.py)
- OMP_NUM_THREADS: the cores of this rank
- NCCL_SOCKET_IFNAME (RCCL reads it too), GLOO_SOCKET_IFNAME: `--interfaces`, the Slingshot NICs
  (hsn0 ...), or the interface that leads to MASTER_ADDR
- MIOPEN_USER_DB_PATH, MIOPEN_CUSTOM_CACHE_DIR, TRITON_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR: folders
  on this node, because a thousand ranks that compile into one shared folder wait for its locks
- `--env NAME=VALUE`: with {rank} {size} {local_rank} {node} {host} filled in

CPUs: `--cpus auto` keeps what the launcher has bound, and binds nothing where Slurm gave the job
a part of the node without confining it; `exclusive` binds anyway, within the cgroup of the job.
Without a topology the program runs unbound, with a warning. GPUs are neither hidden nor chosen; the
program uses LOCAL_RANK.

Caches: only where the home or the temporary folder is on a shared file system, or with
`--cache-root`, as rank_run-UID in $SLURM_TMPDIR or /tmp. The next job on the node uses them again.

## How to run

    srun --ntasks-per-node 8 python rank_run.py train.py --lr 1
    mpirun -n 16 -N 8 --bind-to none python rank_run.py train.py
    srun ... singularity exec image.sif python rank_run.py --env NCCL_NET_GDR_LEVEL=PHB train.py
    # run one rank under a profiler
    srun ... python rank_run.py --profile-rank 14 --profiler 'nsys profile -o trace.{rank}' train.py
    # show what would be set, here or on all nodes; start nothing
    python rank_run.py --dry-run --ranks 8
    pdsh -w node[01-08] python /shared/rank_run.py --dry-run --ranks 8
    # CPU masks for another machine: `lstopo lumi.xml` writes the file there
    python rank_run.py --dry-run --ranks 8 --topology lumi.xml

## A good answer

One line per rank, each with its own rank and CPUs, all with the same address and port. If ranks
are `bound by the launcher` to one core instead of eight, use `--cpus exclusive`, or give
`--cpus-per-task` to srun.

Exit status: that of the command; with `--dry-run` 0; 2 wrong use.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shlex
import socket
import struct
import sys
import tempfile
import zlib
from argparse import REMAINDER, ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.binding import (
    Binding,
    Gpu,
    apply_binding,
    become,
    choose_visible,
    find_gpus,
    find_near,
    plan_bindings,
    verify_binding,
)
from kit.cli import Parser, UsageError, positive_int, start
from kit.mounts import is_shared
from kit.report import Report, format_table
from kit.slurm import expand_nodelist, read_task
from kit.topology import (
    Cpus,
    Topology,
    format_cpus,
    format_mask,
    parse_cpus,
    read_affinity,
    read_cpu_quota,
    read_hwloc,
    read_text,
    read_topology,
)

__version__ = "0.2.0"

PROFILES = {
    "demo": ["--demo", "--dry-run", "--ranks", "2", "--cpus", "exclusive", "--cache-root", "keep"],
    "full": ["--dry-run"],
}
LAUNCHERS = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"),
    "Open MPI": tuple(f"OMPI_COMM_WORLD_{x}" for x in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")),
    "PALS": ("PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"),
    "Hydra": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    "Slurm": (),
    "the environment": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
}
"""Variables with rank, size, local rank and local size; a fifth one has to be set too."""
NODE_VARIABLES = {"torchrun": "GROUP_RANK", "PALS": "PALS_NODEID", "the environment": "NODE_RANK"}
JOB_VARIABLES = ("TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "PALS_APID", "SLURM_JOB_ID", "PBS_JOBID")
CACHES = {
    "MIOPEN_USER_DB_PATH": "miopen",
    "MIOPEN_CUSTOM_CACHE_DIR": "miopen",
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
}
FIRST_PORT = 20000
PORTS = 10000
STEPS = 16
GET_INTERFACE_ADDRESS = 0x8915  # ioctl SIOCGIFADDR


class RankPlace(NamedTuple):
    """Which rank this process is, of how many, and who says so."""

    launcher: str
    rank: int
    size: int
    local_rank: int
    local_size: int
    node: int | None
    hosts: tuple[str, ...] = ()
    job: str = ""
    step: int | None = None


class Share(NamedTuple):
    """The CPUs of this rank, and what to bind (None: nothing); `plan` has all local ranks."""

    cpus: Cpus
    threads: int
    source: str
    binding: Binding | None
    plan: Sequence[Binding]
    notes: Sequence[str]


class Setting(NamedTuple):
    """A variable of the command, and where its value comes from."""

    name: str
    value: str
    source: str


def find_place(environ: Mapping[str, str], ranks: int | None = None) -> RankPlace:
    """Which rank this is: that of the innermost launcher, or rank 0 of `ranks` on one node."""
    if ranks is not None:
        return RankPlace("--ranks", 0, ranks, 0, ranks, 0)
    places = (read_place(launcher, environ) for launcher in LAUNCHERS)
    place = next(filter(None, places), RankPlace("no launcher", 0, 1, 0, 1, 0))
    if not (place.rank < place.size and place.local_rank < place.local_size <= place.size):
        raise UsageError(
            f"{place.launcher} says rank {place.rank} of {place.size}, on its node "
            f"{place.local_rank} of {place.local_size}, which does not fit together"
        )
    return place


def read_numbers(environ: Mapping[str, str], names: Sequence[str]) -> list[int] | None:
    """The values of variables; None where one of them is not a number."""
    values = [environ.get(name, "") for name in names]
    return list(map(int, values)) if all(map(str.isdecimal, values)) else None


def read_place(launcher: str, environ: Mapping[str, str]) -> RankPlace | None:
    """What a launcher of LAUNCHERS says; None without it."""
    if launcher == "Slurm":
        task = read_task(environ)
        if task and task.step is None and task.size > 1:
            raise UsageError(
                f"this is the batch script of a job of {task.size} tasks, not one of these tasks: "
                "write srun before python"
            )
        return RankPlace(launcher, *task) if task else None
    names = LAUNCHERS[launcher]
    numbers = read_numbers(environ, names[:4])
    if numbers is None or not all(name in environ for name in names[4:]):
        return None
    rank, size, local_rank, local_size = numbers
    node, rest = divmod(rank - local_rank, max(local_size, 1))
    told = read_numbers(environ, [NODE_VARIABLES.get(launcher, "")])
    hosts: Sequence[str] = ()
    if size > local_size and environ.get("SLURM_JOB_NODELIST"):
        hosts = expand_nodelist(environ["SLURM_JOB_NODELIST"])
    elif size > local_size and environ.get("PBS_NODEFILE"):
        hosts = list(dict.fromkeys(read_text(Path(environ["PBS_NODEFILE"])).split()))
    job = next((environ[name] for name in JOB_VARIABLES if environ.get(name)), "")
    node_rank = told[0] if told else None if rest else node
    return RankPlace(launcher, *numbers, node_rank, tuple(hosts), job)


def find_master(place: RankPlace) -> tuple[str, str]:
    """The address of rank 0, and what says so."""
    if place.hosts:
        return place.hosts[0], "first node"
    if place.size > place.local_size:
        raise UsageError(
            f"{place.launcher} does not say where rank 0 is: give --master-addr, or set "
            "MASTER_ADDR (mpirun -x MASTER_ADDR)"
        )
    return "127.0.0.1", "one node"


def choose_port(place: RankPlace) -> tuple[str, str]:
    """A port that all ranks of a step agree on and neighboring jobs do not use, and its source."""
    job = int(place.job) if place.job.isdecimal() else zlib.crc32(place.job.encode())
    port = FIRST_PORT + (STEPS * job + (place.step or 0) % STEPS) % PORTS
    return str(port), f"job and step of {place.launcher}" if place.job else "no job"


def plan_share(
    place: RankPlace,
    mode: str,
    topology: Topology,
    visible: Sequence[Gpu],
    affinity: tuple[Cpus, Cpus],
    quota: float | None = None,
    granted: int | None = None,
) -> Share:
    """The CPUs of this rank, planned for all ranks of its node together. `affinity` is what it
    runs on and what it could; `granted` is the number of CPUs that Slurm gave to the job."""
    own, widest = affinity
    ranks, notes = place.local_size, []
    if 1 < len(visible) < ranks:
        notes.append(f"{len(visible)} GPUs for {ranks} ranks: CPUs were divided without them")
        visible = ()
    one_each = ranks > 1 and len(visible) == 1
    if one_each:
        notes.append("each rank sees one GPU, so ranks share the CPUs next to it")
    nears = [find_near(topology, visible, rank, ranks) for rank in range(ranks)]
    plan = plan_bindings(topology, nears, widest, exclusive=not one_each, quota=quota)
    binding = plan[place.local_rank]
    is_bound = own < widest
    is_part = granted is not None and granted < topology.count_cores(widest)
    if mode == "auto" and is_part and not is_bound:
        notes.append(f"Slurm gave this job {granted} CPUs without confining it to them, so nothing "
                     "was bound")  # fmt: skip
    elif mode == "exclusive" or (mode == "auto" and not is_bound):
        if binding.is_bound:
            source = f"{binding.verdict}, by {binding.source}"
            return Share(binding.cpus, binding.omp_threads, source, binding, plan, notes)
        reason = f"is {binding.verdict}" if topology.nodes else "is not shown in /sys"
        notes.append(f"the topology {reason}, so ranks run unbound")
    cores = topology.count_cores(own) / (1 if is_bound else ranks)
    threads = max(1, int(cores if quota is None else min(cores, quota / ranks)))
    source = "bound by the launcher" if is_bound else "not bound"
    return Share(own, threads, source, None, plan, notes)


def plan_share_here(place: RankPlace, options: Namespace, environ: Mapping[str, str]) -> Share:
    """The share of a rank of this machine, or of the one in --topology."""
    if options.topology:
        topology, found = read_hwloc(options.topology)
        gpus = [Gpu(n, vendor, device.address, "", device.node, device.cpus, "hwloc")
                for n, (vendor, device) in enumerate(found)]  # fmt: skip
        return plan_share(place, options.cpus, topology, gpus, (topology.cpus, topology.cpus))
    topology = read_topology()
    granted = read_numbers(environ, ["SLURM_CPUS_ON_NODE"]) if place.launcher == "Slurm" else None
    return plan_share(
        place,
        options.cpus,
        topology,
        choose_visible(find_gpus(), environ),
        read_affinity(topology),
        read_cpu_quota(),
        granted[0] if granted else None,
    )


def find_interface(address: str) -> str | None:
    """The network interface by which packets to an address leave; None where that is unknown."""
    try:
        host = socket.gethostbyname(address)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))  # of a datagram socket: nothing is sent
            local = probe.getsockname()[0]
            for _, name in socket.if_nameindex():
                request = struct.pack("256s", name.encode()[:15])
                try:
                    answer = fcntl.ioctl(probe.fileno(), GET_INTERFACE_ADDRESS, request)
                except OSError:  # without an IPv4 address
                    continue
                if socket.inet_ntoa(answer[20:24]) == local:
                    return name
    except OSError:
        return None
    return None


def choose_interfaces(
    given: str | None, address: str, root: Path = Path("/")
) -> tuple[list[str], str]:
    """The network interfaces for NCCL and gloo (empty: unknown), and what says so."""
    if given:
        return given.split(","), "--interfaces"
    nics = (root / "sys/class/net").glob("hsn[0-9]*")
    up = [path.name for path in nics if read_text(path / "operstate") == "up"]
    if up:
        return sorted(up, key=lambda name: (len(name), name)), "Slingshot"
    name = find_interface(address)
    return [name] if name and name != "lo" else [], "route to MASTER_ADDR"


def plan_caches(environ: Mapping[str, str], given: str | None) -> tuple[dict[str, str], str]:
    """The variables of caches, and what chose their folder."""
    needed = given or any(map(is_shared, (Path.home(), Path(tempfile.gettempdir()))))
    if not needed or given == "keep":
        return {}, ""
    root = Path(given or environ.get("SLURM_TMPDIR") or "/tmp").resolve()
    if not os.access(root, os.W_OK):
        raise UsageError(f"--cache-root: there is no folder {root} that I can write to")
    own = root / f"rank_run-{os.geteuid()}"
    source = "--cache-root" if given else "the home or temporary folder is shared"
    return {name: str(own / folder) for name, folder in CACHES.items()}, f"node-local, {source}"


def make_caches(variables: Mapping[str, str]) -> None:
    """Make the folders of caches, for this user alone. Raises UsageError where someone else has
    that name."""
    for path in dict.fromkeys(map(Path, variables.values())):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        status = path.parent.lstat()
        if path.parent.is_symlink() or status.st_uid != os.geteuid():
            raise UsageError(f"{path.parent} belongs to another user: give --cache-root")
        path.mkdir(mode=0o700, exist_ok=True)


def list_settings(
    place: RankPlace, environ: Mapping[str, str], options: Namespace, share: Share
) -> tuple[list[Setting], list[str]]:
    """All that is set for this rank, and notes."""
    numbers = {"RANK": place.rank, "WORLD_SIZE": place.size, "LOCAL_RANK": place.local_rank,
               "LOCAL_WORLD_SIZE": place.local_size, "NODE_RANK": place.node}  # fmt: skip
    settings = [Setting(n, str(v), place.launcher) for n, v in numbers.items() if v is not None]
    notes = [
        f"{name} was {environ[name]}, which is not what {source} says"
        for name, value, source in settings
        if environ.get(name, value) != value
    ]

    def add(name: str, value: str, source: str, given: str | None = None) -> str:
        if given:
            value, source = given, f"--{name.lower().replace('_', '-')}"
        elif environ.get(name) and source != "--interfaces":
            value, source = environ[name], "set before"
        settings.append(Setting(name, value, source))
        return value

    known = options.master_addr or environ.get("MASTER_ADDR")
    address = add("MASTER_ADDR", *(("", "") if known else find_master(place)), options.master_addr)
    add("MASTER_PORT", *choose_port(place), options.master_port)
    add("OMP_NUM_THREADS", str(share.threads), "cores of this rank")
    if options.interfaces != "keep":
        names, source = choose_interfaces(options.interfaces, address)
        if names:
            add("NCCL_SOCKET_IFNAME", f"={','.join(names)}", source)
            add("GLOO_SOCKET_IFNAME", names[0], source)
        elif place.size > place.local_size:
            notes.append(f"no network interface leads to {address}: check /etc/hosts, or give "
                         "--interfaces or --master-addr")  # fmt: skip
    caches, source = plan_caches(environ, options.cache_root)
    for name, value in caches.items():
        add(name, value, source)
    for name, text in options.env:
        settings.append(Setting(name, fill_in(text, place), "--env"))
    return settings, notes


def fill_in(text: str, place: RankPlace) -> str:
    """The text with {rank}, {size}, {local_rank}, {node} and {host} replaced."""
    host = platform.node().partition(".")[0]
    for name, value in {**place._asdict(), "host": host}.items():
        text = text.replace(f"{{{name}}}", "" if value is None else str(value))
    return text


def make_command(program: Sequence[str], place: RankPlace, options: Namespace) -> list[str]:
    """The program, on chosen ranks behind the profiler."""
    if options.profile_rank is None or place.rank not in options.profile_rank:
        return list(program)
    command = [sys.executable, *program] if program[:1] and program[0].endswith(".py") else program
    return [*(fill_in(word, place) for word in shlex.split(options.profiler)), *command]


def show(options: Namespace, program: Sequence[str]) -> int:
    """Print what would be set; the exit status."""
    report = Report("rank_run", __version__, 1, {"rank": "1"}, options.json)
    place = find_place(os.environ, options.ranks)
    share = plan_share_here(place, options, os.environ)
    settings, notes = list_settings(place, os.environ, options, share)
    masks = ",".join(format_mask(binding.cpus) for binding in share.plan)
    rows = [
        *settings,
        Setting("CPUs", format_cpus(share.cpus), share.source),
        Setting("mask_cpu", masks, "plan of all local ranks"),
    ]
    if program:
        command = shlex.join(make_command(program, place, options))
        rows.append(Setting("command", command, "arguments"))
    print(format_table((f"rank {place.rank} of {place.size}", "value", "from"), rows))
    for note in (*notes, *share.notes):
        report.note(note)
    report.rows = [{"rank": place.rank, **row._asdict()} for row in rows]
    report.details = {"shares": [binding.verdict for binding in share.plan]}
    checks = [verify_binding(binding) for binding in share.plan] if options.demo else []
    if False in checks:
        report.note("a process did not get the CPUs of the plan")
    report.complete = True
    report.save()
    return int(False in checks)


def run(options: Namespace, program: Sequence[str]) -> int:
    """Set all of it and become the program."""
    place = find_place(os.environ)
    share = plan_share_here(place, options, os.environ)
    settings, notes = list_settings(place, os.environ, options, share)
    notes += share.notes
    if share.binding is not None:
        notes += filter(None, [apply_binding(share.binding)])
    known = {setting.name: setting.value for setting in settings}
    caches = {s.name: s.value for s in settings if s.source.startswith("node-local")}
    make_caches(caches)
    if not options.quiet:
        node = "" if place.node is None else f" of node {place.node}"
        print(
            f"rank {place.rank} of {place.size} ({place.launcher}): local rank {place.local_rank} "
            f"of {place.local_size}{node}, {known['MASTER_ADDR']}:{known['MASTER_PORT']}, CPUs "
            f"{format_cpus(share.cpus)} ({share.source})",
            file=sys.stderr,
        )
        for note in notes if place.rank == 0 else []:
            print(f"note: {note}", file=sys.stderr)
        if caches and place.local_rank == 0:
            folder = Path(next(iter(caches.values()))).parent
            print(f"note: caches of this node are in {folder}", file=sys.stderr)
    command = make_command(program, place, options)
    os.environ.update(known)
    return become(command)


def parse_variable(text: str) -> tuple[str, str]:
    """`NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise ArgumentTypeError(f"'{text}': write NAME=VALUE")
    return name, value


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(
        __doc__,
        tool="rank_run",
        version=__version__,
        demo=PROFILES["demo"],
        usage="rank_run.py [options] [--] PROGRAM [ARGUMENT ...] | rank_run.py --dry-run",
    )
    add = parser.add_argument
    # fmt: off
    add("--master-addr", metavar="HOST", help="address of rank 0 (default: the first node)")
    add("--master-port", metavar="PORT", help="port of rank 0")
    add("--cpus", choices=("auto", "exclusive", "keep"), default="auto",
        help="CPU binding; auto is exclusive unless the launcher has bound (default: auto)")
    add("--interfaces", metavar="NAMES",
        help="network interfaces for NCCL, RCCL and gloo: hsn0,hsn1, or keep to set none")
    add("--cache-root", metavar="FOLDER",
        help="node-local folder for compile caches; keep leaves them where they are")
    add("--env", type=parse_variable, action="append", default=[], metavar="NAME=VALUE",
        help="set this variable too")
    add("--profile-rank", type=parse_cpus, metavar="LIST",
        help="ranks to run under --profiler: 14 or 0,8-9")
    add("--profiler", metavar="COMMAND", help="command to put before the program")
    add("--dry-run", action="store_true", help="show what would be set, start nothing")
    add("--ranks", type=positive_int, metavar="N",
        help="with --dry-run: as rank 0 of N on one node")
    add("--topology", type=Path, metavar="XML",
        help="with --ranks: plan for the machine in this file of lstopo")
    add("--quiet", action="store_true", help="do not print the line about this rank")
    add("program", nargs=REMAINDER, metavar="PROGRAM", help="program to run, with its arguments")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    parser = build_parser()
    own, program = parser.split_command(arguments)
    options = parser.parse_args(own)
    if (options.profile_rank is None) != (options.profiler is None):
        raise UsageError("--profile-rank and --profiler go together")
    if options.topology and not options.ranks:
        raise UsageError("--topology needs --ranks: how many ranks run on that machine?")
    if options.dry_run:
        return show(options, program)
    if options.json or options.ranks:
        raise UsageError("--json and --ranks need --dry-run")
    if not program:
        raise UsageError("name a program to run, or --dry-run to see what would be set")
    return run(options, program)


if __name__ == "__main__":
    start(main)
