#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""How much memory do a command and all its processes need at their peak?

Wraps any command, samples it and everything it starts (torchrun's ranks, DataLoader workers, also
processes whose parent has ended), prints a line every `--report` and the peaks at the end.
The command keeps its input, output, signals and exit status.

## What is measured

- RSS: memory in RAM, added up over all processes. Shared memory counts in each of them.
- PSS: the same with shared memory divided among those who share it, so the sum is right.
- GPU: what NVML says that these processes have on all GPUs (needs nvidia-ml-py).
- peak RSS of a process: from the kernel, which misses nothing. A peak of a sum that is shorter than
  `--interval` is not seen.

PSS makes the kernel walk the page tables. The cost is printed at the end, and the interval is
stretched to keep it below a tenth of a core.

## How to run

    python mem_watch.py -- python train.py --lr 1
    python mem_watch.py --interval 1s --report 30s --json mem.json -- \
        torchrun --nproc-per-node 8 train.py
    # Slurm, one per node
    srun --ntasks-per-node 1 python mem_watch.py -- torchrun --nproc-per-node 8 train.py

## A good answer

A peak well below the node's memory, or the limit of the job, and PSS that stays level from the
second epoch on. PSS that grows for hours is a leak, often in DataLoader workers.

Exit status: that of the command (128 plus the number of the signal that ended it); 2 usage error.
"""

import argparse
import contextlib
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, duration, start
from kit.procs import Process, find_tree, identify, read_words, start_wrapped
from kit.report import Report, Row, format_bytes, format_seconds, format_table

__version__ = "0.2.0"
METHOD = 1

PROFILES = {"demo": ["--demo"], "full": ["--demo"]}
COLUMNS = {"rss_bytes": "RSS", "pss_bytes": "PSS", "gpu_bytes": "GPU"}
KEPT_SAMPLES = 2000
MOST_COST = 0.1
DEMO_MIB = (48, 32)
# Holds memory, and starts itself once more to hold less.
DEMO_PROGRAM = """
import subprocess, sys, time
block = bytearray(b"x") * (int(sys.argv[2]) << 20)
if len(sys.argv) > 3:
    subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[1], sys.argv[3]])
time.sleep(0.5)
"""


def read_process(pid: int) -> dict[str, int]:
    """Bytes by name as the kernel has them: VmRSS, VmHWM (the peak), Rss, Pss, each if known."""
    found: dict[str, int] = {}
    for name in ("status", "smaps_rollup"):
        try:
            text = Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
        except OSError:  # it has ended, or is another user's
            continue
        found |= {key: 1024 * int(kib) for key, kib in re.findall(r"(\w+):\s+(\d+) kB", text)}
    return found


def read_gpus(pids: Sequence[int]) -> int | None:
    """Bytes that these processes have on all GPUs, by NVML; None without it."""
    try:
        import pynvml  # nvidia-ml-py

        pynvml.nvmlInit()
        handles = map(pynvml.nvmlDeviceGetHandleByIndex, range(pynvml.nvmlDeviceGetCount()))
        used = [p for h in handles for p in pynvml.nvmlDeviceGetComputeRunningProcesses(h)]
    except Exception:  # no package, no driver, not permitted
        return None
    return sum(process.usedGpuMemory or 0 for process in used if process.pid in pids)


def watch(options: argparse.Namespace, report: Report) -> int:
    """Run the command and sample all its processes until it has ended; its status."""
    command, ends = start_wrapped(options.command)
    tree = [identify(command.pid) or Process(command.pid, 0)]
    peaks: Row = {}
    processes: dict[Process, Row] = {}
    cost, count, began = 0.0, 0, time.monotonic()
    told = began
    while command.poll() is None:
        worked = time.process_time()
        tree = find_tree(tree)  # what has lost its parent stays in it
        row: Row = {"seconds": time.monotonic() - began, "processes": len(tree)}
        memory = [read_process(process.pid) for process in tree]
        shares = [found.get("Pss") for found in memory]
        row["rss_bytes"] = sum(found.get("Rss", found.get("VmRSS", 0)) for found in memory)
        row["pss_bytes"] = None if None in shares else sum(share or 0 for share in shares)
        row["gpu_bytes"] = read_gpus([process.pid for process in tree])
        for process, found in zip(tree, memory, strict=True):
            words = read_words(process.pid, "cmdline")
            one = processes.setdefault(process, {"name": "?", "peak_rss_bytes": 0})
            one["name"] = Path(words[0]).name if words else one["name"]
            # The newest: between fork and exec a child shows the memory of its parent.
            one["peak_rss_bytes"] = found.get("VmHWM", one["peak_rss_bytes"])
        peaks |= {name: max(peaks.get(name, 0), row[name]) for name in COLUMNS if row[name]}
        report.rows.append(row)
        if len(report.rows) > KEPT_SAMPLES:
            report.rows = report.rows[::2]
        count, cost = count + 1, cost + time.process_time() - worked
        if time.monotonic() - told >= options.report:
            told, clock = time.monotonic(), time.strftime("%H:%M:%S")
            tell(f"{clock} {len(tree)} processes: {format_row(row)}")
        with contextlib.suppress(subprocess.TimeoutExpired):
            command.wait(max(options.interval, cost / count / MOST_COST))
    seconds = time.monotonic() - began
    tell(f"peak of the sums: {format_row(peaks)}")
    took = f"sampling took {cost / seconds:.1%} of a core"
    tell(f"{count} samples in {format_seconds(seconds)}; {took}")
    largest = sorted(processes.values(), key=lambda one: -one["peak_rss_bytes"])
    cells = [(one["name"], format_bytes(one["peak_rss_bytes"])) for one in largest[:8]]
    tell(format_table(("process", "peak RSS"), cells))
    report.complete = not ends and command.returncode >= 0
    report.details |= {"cost_seconds": cost, "peaks": peaks, "processes": largest}
    return command.returncode if command.returncode >= 0 else 128 - command.returncode


def format_row(row: Row) -> str:
    """`RSS 1.2 GiB, PSS 1.1 GiB, GPU 40 GiB`."""
    known = [f"{text} {format_bytes(row[name])}" for name, text in COLUMNS.items() if row.get(name)]
    return ", ".join(known)


def tell(text: str) -> None:
    """Print to stderr: stdout is the command's."""
    print(text, file=sys.stderr, flush=True)


def build_parser() -> Parser:
    parser = Parser(__doc__, tool="mem_watch", version=__version__, method=METHOD, demo=[])
    add = parser.add_argument
    # fmt: off
    add("--interval", type=duration, default=1.0, metavar="TIME", help="(default: 1s)")
    add("--report", type=duration, default=60.0, metavar="TIME",
        help="time between two printed lines (default: 60s)")
    add("command", nargs="*", metavar="-- COMMAND", help="the command and its arguments")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    parser = build_parser()
    own, command = parser.split_command(arguments)
    options = parser.parse_args(own)
    options.command = command
    if options.demo:
        sizes = map(str, DEMO_MIB)
        options.command = [sys.executable, "-c", DEMO_PROGRAM, DEMO_PROGRAM, *sizes]
        options.interval = 0.1
    if not options.command:
        raise UsageError("name the command: mem_watch.py -- python train.py")
    report = Report("mem_watch", __version__, METHOD, options.json)
    status = watch(options, report)
    report.save()
    if options.demo:
        wanted, seen = sum(DEMO_MIB) << 20, report.details["peaks"]["pss_bytes"]
        print(f"{format_bytes(wanted)} and two Pythons were taken; the peak: {format_bytes(seen)}")
        return int(not wanted <= seen <= wanted + (32 << 20))
    return status


if __name__ == "__main__":
    start(main)
