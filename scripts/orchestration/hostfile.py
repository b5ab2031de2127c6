#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which hosts does this Slurm job have, as the hostfile that my launcher reads?

DeepSpeed, mpirun and pdsh want a line per host. Slurm gives one variable, `gpu[08-11,17]`, and the
numbers per node in another notation, `8(x4),4`. This tool turns one into the other without
scontrol, which containers and Kubernetes pods lack.

- Hosts: `--nodelist`, or SLURM_JOB_NODELIST, in the order of `scontrol show hostnames`.
- Slots: `--slots`, or the GPUs per node that the job asked for (SLURM_GPUS_PER_NODE, or those of
  this node), or else its tasks (SLURM_TASKS_PER_NODE).

## How to run

    python hostfile.py --nodelist 'gpu[08-11]' --slots 8           # print a table
    # in a batch script, before the launcher
    python hostfile.py --output hostfile && deepspeed --hostfile hostfile train.py
    python hostfile.py --output - | grep -v gpu10 > hostfile    # without gpu10
    # pdsh
    python hostfile.py --form plain --output hosts; WCOLL=hosts pdsh hostname

## A good answer

As many hosts as the job has nodes, and the slots that the launcher should fill.

Exit status: 0 done; 1 the demo is wrong; 2 usage error, or not a node list.
"""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, positive_int, start
from kit.report import Report, check_writable, format_table
from kit.slurm import expand_counts, expand_nodelist

__version__ = "0.2.0"

PROFILES = {
    "demo": ["--demo", "--nodelist", "gpu[08-09],rack[1-2]-[1,3]-ib", "--slots", "8"],
    "full": [],
}
DEMO_HOSTS = "gpu08 gpu09 rack1-1-ib rack1-3-ib rack2-1-ib rack2-3-ib".split()
FORMS = {
    "deepspeed": "{host} slots={slots}",
    "openmpi": "{host} slots={slots}",
    "mpich": "{host}:{slots}",
    "intel": "{host}:{slots}",
    "plain": "{host}",
}


def find_slots(environ: Mapping[str, str], wanted: int | None, hosts: int) -> tuple[list[int], str]:
    """The slots of each host, and what says so."""
    if wanted:
        return [wanted] * hosts, "--slots"
    for name in ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"):  # 8 or a100:4,v100:2
        counts = re.findall(r"(?:^|:|,)(\d+)(?=,|$)", environ.get(name, ""))
        if count := sum(map(int, counts)):
            return [count] * hosts, name
    name = "SLURM_TASKS_PER_NODE"
    counts = expand_counts(environ[name]) if environ.get(name) else []
    if len(counts) != hosts:
        said = f"{name} has {len(counts)} numbers for {hosts} hosts"
        raise UsageError(f"{said if counts else 'nothing says how many slots'}: give --slots N")
    return counts, name


def build_parser() -> Parser:
    parser = Parser(__doc__, tool="hostfile", version=__version__, demo=PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    add("--nodelist", metavar="LIST", help="hosts in Slurm's notation (default: those of the job)")
    add("--slots", type=positive_int, metavar="N", help="slots per host (default: GPUs, or tasks)")
    add("--form", choices=FORMS, default="deepspeed", help="hostfile format (default: deepspeed)")
    add("--output", metavar="PATH", help="write the hostfile; - prints it instead of the table")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    report = Report("hostfile", __version__, 1, options.json)
    nodelist = options.nodelist or os.environ.get("SLURM_JOB_NODELIST")
    if not nodelist:
        raise UsageError("SLURM_JOB_NODELIST is not set: run this in a job, or give --nodelist")
    hosts = expand_nodelist(nodelist)
    slots, source = find_slots(os.environ, options.slots, len(hosts))
    chosen = dict(zip(hosts, slots, strict=True))
    lines = [FORMS[options.form].format(host=host, slots=n) for host, n in chosen.items()]
    text = "\n".join(lines) + "\n"
    if options.output == "-":
        sys.stdout.write(text)
    else:
        print(format_table(("host", "slots"), chosen.items()))
    if options.output not in (None, "-"):
        check_writable("--output", options.output).write_text(text, encoding="utf-8")
    print(f"{len(chosen)} hosts, {sum(chosen.values())} slots by {source}", file=sys.stderr)
    if source == "SLURM_GPUS_ON_NODE" and len(chosen) > 1:
        report.note("the GPUs of this node were counted for all nodes")
    rows = enumerate(chosen.items())
    report.rows = [{"node": n, "host": host, "slots": count} for n, (host, count) in rows]
    report.details = {"form": options.form, "slots_by": source}
    report.complete = True
    report.save()
    return int(options.demo and list(chosen) != DEMO_HOSTS)


if __name__ == "__main__":
    start(main)
