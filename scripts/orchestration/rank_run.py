#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which rank am I, where is rank 0, and which CPUs, network and caches are mine?

Put this in front of a command that a launcher starts once per rank. It sets what torch.distributed
reads and what each rank should have to itself, prints one line about it, and becomes the command.

## What is set, and from what

Variables that are set already stay, except for the ranks.

- RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK: torchrun, Open MPI, PALS, Hydra (Intel
  MPI, MPICH) or Slurm, in this order, because the first ones are often started by the last
- MASTER_ADDR: the first node of the step; MASTER_PORT: 20000 + (16 job + step) mod 10000
- CPU affinity: an equal share of the cores next to the GPU of this rank (see numa_bind.py);
  OMP_NUM_THREADS: these cores
- NCCL_SOCKET_IFNAME (RCCL reads it too), GLOO_SOCKET_IFNAME: the Slingshot NICs (hsn0 ...), or the
  interface that leads to MASTER_ADDR
- MIOPEN_USER_DB_PATH, MIOPEN_CUSTOM_CACHE_DIR, TRITON_CACHE_DIR, TORCHINDUCTOR_CACHE_DIR: folders
  on this node, where the home or the temporary folder is on a shared file system

`--cpus auto` keeps what the launcher has bound, and binds nothing where Slurm gave the job a part
of the node without confining it. `--env` and `--profiler` fill in {rank} {size} {local_rank} {node}
{host}. GPUs are neither hidden nor chosen; the program uses LOCAL_RANK.

## How to run

    srun --ntasks-per-node 8 python rank_run.py train.py --lr 1
    mpirun -n 16 -N 8 --bind-to none python rank_run.py train.py
    srun ... python rank_run.py --profile-rank 14 --profiler 'nsys profile -o trace.{rank}' train.py
    # show what would be set, and the masks for srun --cpu-bind=mask_cpu:
    srun --nodes=1 --exclusive --cpus-per-task=56 python rank_run.py --dry-run --ranks 8

## A good answer

One line per rank, each with its own rank and CPUs, all with the same address and port. If ranks
are `bound by the launcher` to one core instead of eight, use `--cpus exclusive`, or give
`--cpus-per-task` to srun.

Exit status: that of the command; with `--dry-run` 0; 2 usage error.
"""

import os
import platform
import shlex
import socket
import sys
import tempfile
import zlib
from argparse import REMAINDER, Namespace
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
    plan_bindings,
    verify_binding,
)
from kit.cli import Parser, UsageError, positive_int, start
from kit.files import is_shared, read_text
from kit.launchers import Task, find_task
from kit.report import Report, format_table
from kit.topology import Cpus, Topology, format_cpus, parse_cpus, read_affinity, read_topology

__version__ = "0.2.0"

PROFILES = {
    "demo": ["--demo", "--dry-run", "--ranks", "2", "--cpus", "exclusive", "--cache-root", "keep"],
    "full": ["--dry-run"],
}
CACHES = {
    "MIOPEN_USER_DB_PATH": "miopen",
    "MIOPEN_CUSTOM_CACHE_DIR": "miopen",
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
}
FIRST_PORT = 20000
PORTS = 10000
STEPS = 16


class Share(NamedTuple):
    """The CPUs of this rank, and what to bind (None: nothing); `plan` has all local ranks."""

    cpus: Cpus
    threads: int
    source: str
    binding: Binding | None
    plan: Sequence[Binding]
    notes: list[str]


class Setting(NamedTuple):
    """A variable of the command, and where its value comes from."""

    name: str
    value: str
    source: str


def find_place(environ: Mapping[str, str], ranks: int | None = None) -> Task:
    """Which rank this is: that of the innermost launcher, or rank 0 of `ranks` on one node."""
    if ranks is not None:
        return Task(0, ranks, 0, ranks, 0, launcher="--ranks")
    place = find_task(environ)
    if not place and (tasks := int(environ.get("SLURM_NTASKS", 1))) > 1:
        raise UsageError(
            f"this is the batch script of a job of {tasks} tasks, not one of these tasks: write "
            "srun before python"
        )
    job = environ.get("SLURM_JOB_ID", "")
    return place or Task(0, 1, 0, 1, 0, job=job, launcher="no launcher")


def find_master(place: Task) -> tuple[str, str]:
    """The address of rank 0, and what says so."""
    if place.hosts:
        return place.hosts[0], "first node"
    if place.size > place.local_size:
        raise UsageError(
            f"{place.launcher} does not say where rank 0 is: set MASTER_ADDR "
            "(mpirun -x MASTER_ADDR=HOST)"
        )
    return "127.0.0.1", "one node"


def choose_port(place: Task) -> tuple[str, str]:
    """A port that all ranks of a step agree on and neighboring jobs do not use, and its source."""
    job = int(place.job) if place.job.isdecimal() else zlib.crc32(place.job.encode())
    port = FIRST_PORT + (STEPS * job + place.step % STEPS) % PORTS
    return str(port), "job and step" if place.job else "no job"


def plan_share(
    place: Task, options: Namespace, topology: Topology, visible: Sequence[Gpu], own: Cpus,
    widest: Cpus, granted: int,
) -> Share:  # fmt: skip
    """The CPUs of this rank, planned for all ranks of its node together: `own` are those it runs
    on, `widest` those it may bind to; Slurm has `granted` so many (0: unknown)."""
    ranks, notes = place.local_size, []
    if 1 < len(visible) < ranks:
        notes.append(f"{len(visible)} GPUs for {ranks} ranks: CPUs were divided without them")
        visible = ()
    one_each = ranks > 1 and len(visible) == 1
    if one_each:
        notes.append("each rank sees one GPU, so ranks share the CPUs next to it")
    plan = plan_bindings(topology, visible, ranks, widest, exclusive=not one_each)
    binding = plan[place.local_rank]
    is_bound = own < widest
    is_part = 0 < granted < topology.count_cores(widest)
    if options.cpus == "auto" and is_part and not is_bound:
        notes.append(f"nothing was bound: Slurm gave this job {granted} CPUs without confining it")
    elif options.cpus == "exclusive" or not is_bound:
        if binding.is_bound:
            source = f"{binding.verdict}: {binding.source}"
            return Share(binding.cpus, binding.omp_threads, source, binding, plan, notes)
        reason = f"is {binding.verdict}" if topology.nodes else "is not shown in /sys"
        notes.append(f"the topology {reason}, so ranks run unbound")
    threads = max(1, topology.count_cores(own) // (1 if is_bound else ranks))
    source = "bound by the launcher" if is_bound else "not bound"
    return Share(own, threads, source, None, plan, notes)


def find_interface(address: str) -> str | None:
    """The network interface by which packets to an address leave: that of the longest route."""
    try:
        packed = socket.inet_aton(socket.gethostbyname(address))
    except OSError:
        return None
    target = int.from_bytes(packed, sys.byteorder)
    routes = [line.split() for line in read_text(Path("/proc/net/route")).splitlines()[1:]]
    found = [(int(mask, 16).bit_count(), name) for name, to, _, _, _, _, _, mask, *_ in routes
             if target & int(mask, 16) == int(to, 16)]  # fmt: skip
    return max(found)[1] if found and packed[0] != 127 else None


def choose_interfaces(address: str, root: Path = Path("/")) -> tuple[list[str], str]:
    """The network interfaces for NCCL and gloo (empty: unknown), and what says so."""
    nics = (root / "sys/class/net").glob("hsn[0-9]*")
    up = [path.name for path in nics if read_text(path / "operstate") == "up"]
    if up:
        return sorted(up, key=lambda name: (len(name), name)), "Slingshot"
    return list(filter(None, [find_interface(address)])), "route to MASTER_ADDR"


def plan_caches(environ: Mapping[str, str], given: str | None) -> tuple[dict[str, str], str]:
    """The variables of caches, and what chose their folder."""
    needed = given or any(map(is_shared, (Path.home(), Path(tempfile.gettempdir()))))
    if not needed or given == "keep":
        return {}, ""
    root = Path(given or environ.get("SLURM_TMPDIR") or "/tmp").resolve()
    own = root / f"rank_run-{os.geteuid()}"
    source = "--cache-root" if given else "the home or temporary folder is shared"
    return {name: str(own / folder) for name, folder in CACHES.items()}, f"node-local, {source}"


def make_caches(folders: Sequence[str]) -> None:
    """Make the folders of caches, for this user alone."""
    for path in map(Path, folders):
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if path.parent.lstat().st_uid != os.geteuid():
            raise UsageError(f"{path.parent} belongs to another user: give --cache-root")
        path.mkdir(mode=0o700, exist_ok=True)


def list_settings(
    place: Task, environ: Mapping[str, str], options: Namespace, share: Share
) -> list[Setting]:
    """All that is set for this rank."""
    numbers = {"RANK": place.rank, "WORLD_SIZE": place.size, "LOCAL_RANK": place.local_rank,
               "LOCAL_WORLD_SIZE": place.local_size, "NODE_RANK": place.node}  # fmt: skip
    settings = [Setting(n, str(v), place.launcher) for n, v in numbers.items() if v is not None]
    share.notes.extend(
        f"{name} was {environ[name]}, which is not what {source} says"
        for name, value, source in settings
        if environ.get(name, value) != value
    )

    def add(name: str, value: str, source: str) -> None:
        known = environ.get(name)
        settings.append(Setting(name, known or value, "set before" if known else source))

    address = environ.get("MASTER_ADDR")
    address, source = (address, "set before") if address else find_master(place)
    add("MASTER_ADDR", address, source)
    add("MASTER_PORT", *choose_port(place))
    add("OMP_NUM_THREADS", str(share.threads), "cores of this rank")
    names, source = choose_interfaces(address)
    if names:
        add("NCCL_SOCKET_IFNAME", f"={','.join(names)}", source)
        add("GLOO_SOCKET_IFNAME", names[0], source)
    elif place.size > place.local_size:
        share.notes.append(
            f"no interface leads to {address}: set NCCL_SOCKET_IFNAME, or another MASTER_ADDR"
        )
    caches, source = plan_caches(environ, options.cache_root)
    for name, value in caches.items():
        add(name, value, source)
    for text in options.env:
        name, _, value = text.partition("=")
        settings.append(Setting(name, fill_in(value, place), "--env"))
    return settings


def fill_in(text: str, place: Task) -> str:
    """The text with {rank}, {size}, {local_rank}, {node} and {host} replaced."""
    host = platform.node().partition(".")[0]
    for name, value in {**place._asdict(), "host": host}.items():
        text = text.replace(f"{{{name}}}", "" if value is None else str(value))
    return text


def show(options: Namespace, place: Task, share: Share, rows: list[Setting]) -> int:
    """Print what would be set; the exit status."""
    report = Report("rank_run", __version__, 1, options.json)
    masks = ",".join(hex(sum(1 << cpu for cpu in binding.cpus)) for binding in share.plan)
    rows.append(Setting("CPUs", format_cpus(share.cpus), share.source))
    rows.append(Setting("mask_cpu", masks, "plan of all local ranks"))
    print(format_table((f"rank {place.rank} of {place.size}", "value", "from"), rows))
    for note in share.notes:
        report.note(note)
    report.rows = [{"rank": place.rank, **row._asdict()} for row in rows]
    report.details = {"shares": [binding.verdict for binding in share.plan]}
    report.complete = True
    report.save()
    return int(options.demo and any(verify_binding(one) is False for one in share.plan))


def become_program(
    program: Sequence[str], options: Namespace, place: Task, share: Share, rows: list[Setting]
) -> int:
    """Set all of it and become the program, on chosen ranks behind the profiler."""
    if share.binding is not None:
        share.notes.extend(filter(None, [apply_binding(share.binding)]))
    known = {row.name: row.value for row in rows}
    make_caches([row.value for row in rows if row.source.startswith("node-local")])
    print(
        f"rank {place.rank} of {place.size} ({place.launcher}): local rank {place.local_rank} of "
        f"{place.local_size}, {known['MASTER_ADDR']}:{known['MASTER_PORT']}, CPUs "
        f"{format_cpus(share.cpus)} ({share.source})",
        file=sys.stderr,
    )
    for note in share.notes if place.rank == 0 else []:
        print(f"note: {note}", file=sys.stderr)
    command = list(program)
    if options.profile_rank is not None and place.rank in options.profile_rank:
        interpreter = [sys.executable] if program[0].endswith(".py") else []
        profiler = [fill_in(word, place) for word in shlex.split(options.profiler)]
        command = [*profiler, *interpreter, *program]
    os.environ.update(known)
    return become(command)


def build_parser() -> Parser:
    parser = Parser(
        __doc__,
        tool="rank_run",
        version=__version__,
        demo=PROFILES["demo"],
        usage="rank_run.py [options] [--] PROGRAM [ARGUMENT ...] | rank_run.py --dry-run",
    )
    add = parser.add_argument
    # fmt: off
    add("--cpus", choices=("auto", "exclusive"), default="auto",
        help="CPU binding; auto is exclusive unless the launcher has bound (default: auto)")
    add("--cache-root", metavar="FOLDER",
        help="node-local folder for compile caches; keep leaves them where they are")
    add("--env", action="append", default=[], metavar="NAME=VALUE", help="set this variable too")
    add("--profile-rank", type=parse_cpus, metavar="LIST",
        help="ranks to run under --profiler: 14 or 0,8-9")
    add("--profiler", metavar="COMMAND", help="command to put before the program")
    add("--dry-run", action="store_true", help="show what would be set, start nothing")
    add("--ranks", type=positive_int, metavar="N",
        help="with --dry-run: as rank 0 of N on one node")
    add("program", nargs=REMAINDER, metavar="PROGRAM", help="program to run, with its arguments")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    parser = build_parser()
    own, program = parser.split_command(arguments)
    options = parser.parse_args(own)
    if (options.profile_rank is None) != (options.profiler is None):
        raise UsageError("--profile-rank and --profiler go together")
    if not (program or options.dry_run):
        raise UsageError("name a program to run, or --dry-run to see what would be set")
    place = find_place(os.environ, options.ranks)
    topology, gpus = read_topology(), choose_visible(None, os.environ)
    granted = int(os.environ.get("SLURM_CPUS_ON_NODE", 0)) if place.launcher == "Slurm" else 0
    share = plan_share(place, options, topology, gpus, *read_affinity(topology), granted)
    rows = list_settings(place, os.environ, options, share)
    if options.dry_run:
        return show(options, place, share, rows)
    return become_program(program, options, place, share, rows)


if __name__ == "__main__":
    start(main)
