#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which CPUs are next to the GPU of this rank, and does the rank run on them?

In a server with several NUMA nodes, a rank that runs on CPUs far from its GPU copies over the link
between the sockets, which all ranks share. This tool binds each rank to the CPUs next to its GPU,
as a wrapper around the program, or as a call in it. Expect a few percent or nothing: copies from
the host, data loading and kernel launches get faster, kernels do not.

## How the CPUs of a rank are chosen

1. Its GPU: the visible one with the number of the local rank (CUDA_VISIBLE_DEVICES, or
   ROCR_VISIBLE_DEVICES and then HIP_VISIBLE_DEVICES). Partitions of an MI300 are GPUs of their own.
2. The NUMA node of that GPU, as the kernel knows it from its PCI address.
3. The CPUs of that node that this process may use: what a cgroup, Slurm or taskset excludes stays
   excluded. Ranks of the same node share them; rank_run.py gives each rank its own cores.

Ranks without GPUs are spread over the NUMA nodes; `--node-map` names the nodes instead. The kernel
takes memory of the same node first. OMP_NUM_THREADS is set too, unless it is set already.

## How to run

    # show what would be bound, and check it with one process per rank
    python numa_bind.py --show --verify
    torchrun --nproc-per-node 8 --no-python python numa_bind.py train.py --lr 1
    srun --ntasks-per-node 8 --cpu-bind=none python numa_bind.py train.py
    # a LUMI node, as its documentation lists the NUMA nodes of GPUs 0 to 7
    python numa_bind.py --show --node-map 3,3,1,1,0,0,2,2

In a program: `from numa_bind import bind; bind()`, before torch is imported.

## A good answer

`ok` for every rank. `one node`: there is nothing to choose. Unbound are `unknown`, where the
firmware does not report the node of the GPU (use `--node-map`), and `not allowed`, where the
launcher or a container gave this rank CPUs far from its GPU.

Exit status: that of the program; with `--show` 0 done, 1 a rank is `not allowed` or failed its
check; 2 usage error.
"""

import os
import re
import sys
from argparse import REMAINDER, ArgumentTypeError, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.binding import (
    Binding,
    Gpu,
    apply_binding,
    become,
    choose_visible,
    find_gpus,
    plan_bindings,
    verify_binding,
)
from kit.cli import Parser, UsageError, start
from kit.launchers import find_task
from kit.report import Report, Row, format_table
from kit.topology import Cpus, format_cpus, read_affinity, read_topology

__version__ = "0.2.0"

PROFILES = {"demo": ["--show", "--verify"], "full": ["--show", "--verify"]}
SHOWN = ("local_rank", "device", "pci_address", "numa_node", "cpus", "core_count", "omp_threads",
         "source", "verified", "verdict")  # fmt: skip


def read_local_place(environ: Mapping[str, str]) -> tuple[int, int | None]:
    """Local rank and number of local ranks (None: unknown); rank 0 of 1 without a launcher."""
    if task := find_task(environ):
        return task.local_rank, task.local_size
    return int(environ.get("LOCAL_RANK", 0)), None if "LOCAL_RANK" in environ else 1


def plan(
    ranks: int,
    nodes: Sequence[int] | None = None,
    root: Path = Path("/"),
    allowed: Cpus | None = None,
) -> tuple[list[Binding], list[str]]:
    """What each local rank is bound to, and notes about it. `nodes` are those of --node-map."""
    topology = read_topology(root)
    gpus = find_gpus(root)
    visible = choose_visible(gpus, os.environ)
    if nodes:
        if unknown := set(nodes) - set(topology.nodes):
            raise UsageError(f"--node-map: no NUMA node {min(unknown)}")
        if len(nodes) < ranks:
            given = len(nodes)
            raise UsageError(f"--node-map has {given} entries, and none for local rank {given}")
        gpus = visible = [Gpu(n, "", "", "", node, "given node") for n, node in enumerate(nodes)]
    allowed = read_affinity(topology)[0] if allowed is None else allowed
    bindings = plan_bindings(topology, visible, ranks, allowed)
    notes = []
    verdicts = {binding.verdict for binding in bindings}
    if not topology.nodes:
        notes.append("this machine does not show its CPUs in /sys, so ranks run unbound")
    elif "unknown" in verdicts:
        notes.append("the NUMA node of some GPUs is unknown: those ranks run unbound; --node-map")
    if "not allowed" in verdicts:
        notes.append("some ranks may use none of the CPUs next to their GPU, and run unbound: with "
                     "Slurm use srun --cpu-bind=none")  # fmt: skip
    if gpus and not visible:
        notes.append("none of the GPUs is visible (or only MIG devices): spread over NUMA nodes")
    return bindings, notes


def bind(nodes: Sequence[int] | None = None) -> Binding:
    """Bind this process to the CPUs next to its GPU, or of the NUMA nodes given per local rank, and
    say so on stderr; in a program, call it before torch is imported. What cannot be bound stays as
    it is; the verdict of the binding says why."""
    rank, size = read_local_place(os.environ)
    bindings, notes = plan(size or rank + 1, nodes)
    binding = bindings[rank]
    failure = apply_binding(binding)
    gpu = f"GPU {binding.gpu.number}, " if binding.gpu else ""
    node = f"NUMA node {format_cpus(binding.nodes)}, " if binding.nodes else ""
    where = f"{gpu}{node}CPUs {format_cpus(binding.cpus)}"
    how = f" ({binding.verdict}: {binding.source})" if binding.is_bound else ""
    print(f"local rank {rank}: {where}{how}", file=sys.stderr)
    for note in filter(None, [failure, *(notes if rank == 0 else [])]):
        print(f"note: local rank {rank}: {note}", file=sys.stderr)
    return binding


def show(options: Namespace) -> int:
    """Print the plan for all local ranks; the exit status."""
    report = Report("numa_bind", __version__, 1, options.json)
    ranks = read_local_place(os.environ)[1] or 1
    if ranks == 1:
        ranks = len(options.node_map or choose_visible(find_gpus(), os.environ)) or 2
    bindings, notes = plan(ranks, options.node_map)
    for binding in bindings:
        gpu = binding.gpu
        row: Row = {
            "local_rank": binding.local_rank,
            "device": gpu and gpu.number,
            "pci_address": (gpu and gpu.address) or None,
            "numa_node": binding.nodes[0] if len(binding.nodes) == 1 else None,
            "cpus": format_cpus(binding.cpus),
            "cpu_count": len(binding.cpus),
            "core_count": binding.cores,
            "ranks_sharing": binding.sharing,
            "omp_threads": binding.omp_threads,
            "source": binding.source,
            "verdict": binding.verdict,
            "verified": verify_binding(binding) if options.verify else None,
        }
        report.rows.append(row)
    headings = [name.replace("_", " ") for name in SHOWN]
    print(format_table(headings, [[row[name] for name in SHOWN] for row in report.rows]))
    for note in notes:
        report.note(note)
    wrong = [str(row["local_rank"]) for row in report.rows if row["verified"] is False]
    if wrong:
        report.note(f"ranks {', '.join(wrong)} did not get the CPUs of the plan")
    report.complete = True
    report.save()
    return int(bool(wrong) or any(b.verdict == "not allowed" for b in bindings))


def node_map(text: str) -> tuple[int, ...]:
    """`3,3,1,1`: the NUMA node of each local rank."""
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise ArgumentTypeError(f"'{text}' is not a list of NUMA nodes: write 0,0,1,1")
    return tuple(map(int, text.split(",")))


def build_parser() -> Parser:
    usage = "numa_bind.py [options] [--] PROGRAM [ARGUMENT ...] | numa_bind.py --show"
    demo = PROFILES["demo"]
    parser = Parser(__doc__, tool="numa_bind", version=__version__, demo=demo, usage=usage)
    add = parser.add_argument
    # fmt: off
    add("--node-map", type=node_map, metavar="N,N", help="NUMA node of each local rank")
    add("--show", action="store_true",
        help="print the plan for all local ranks (without a launcher: one per GPU), start nothing")
    add("--verify", action="store_true", help="with --show: check it with a process per rank")
    add("program", nargs=REMAINDER, metavar="PROGRAM", help="program to run, with its arguments")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    parser = build_parser()
    own, program = parser.split_command(arguments)
    options = parser.parse_args(own)
    if options.show == bool(program):
        raise UsageError("name a program to run, or --show to see what would be bound")
    if options.show:
        return show(options)
    if options.verify or options.json:
        raise UsageError("--verify and --json need --show")
    binding = bind(options.node_map)
    os.environ.setdefault("OMP_NUM_THREADS", str(binding.omp_threads))
    return become(program)


if __name__ == "__main__":
    start(main)
