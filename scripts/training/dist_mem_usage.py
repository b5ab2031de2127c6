#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""What do init_process_group and the first collective cost in device memory?

The context with its kernels and the buffers of the communication library take device memory that
torch's own counters do not show. This tool starts a job step by step and reads memory after
each step, while all ranks are idle.

## What is read

`NVML process` is the device memory of the process (needs nvidia-ml-py, and `--pid=host` in a
container), `device used` that of the whole device, `torch reserved` what torch's allocator took
from the driver, `RSS` host memory. A cell is the growth since the step before, over all ranks.

With a device init_process_group connects NCCL at once, else the first collective does. A second
round shows what is freed. Buffers grow with the number of ranks, so use as many as the job.

## How to run

    python dist_mem_usage.py                    # one node: starts a rank per accelerator
    torchrun --nproc-per-node 8 dist_mem_usage.py --device-id off
    srun --nodes 4 --ntasks-per-node 8 --gpus-per-node 8 bash -c 'MASTER_ADDR=$(scontrol show \
        hostnames $SLURM_JOB_NODELIST | head -n 1) python dist_mem_usage.py --json dist.json'

## A good answer

All ranks use about the same, and nothing of the second round stays. Where rank 0 uses more,
other ranks made a context on its device: they have to set their own device first.

Exit status: 0 done; 1 a wrong answer, a rank that failed, or a signal; 2 usage error.
"""

import argparse
import contextlib
import datetime
import gc
import itertools
import json
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, positive_int, size, start
from kit.device import choose_device, describe_run, import_torch, synchronize
from kit.nvml import open_nvml
from kit.ranks import (
    add_rank_options,
    can_bind_device,
    choose_backend,
    first_line,
    open_store,
    place_or_launch,
)
from kit.report import Report, Row, format_table
from kit.stop import Stop, Stopped

__version__ = "0.2.0"
METHOD = 1
PROFILES = {
    "demo": ["--device", "cpu", "--rounds", "1", "--payload", "1MiB", "--timeout", "60s"],
    "full": ["--rounds", "2", "--payload", "64MiB"],
}
RANKS = {"demo": 2, "full": "accelerators"}
GPUS = {"full": 8}
MEASURES = {
    "process_device_bytes": "NVML process",
    "device_used_bytes": "device used",
    "torch_reserved_bytes": "torch reserved",
    "rss_bytes": "RSS",
}

Step = tuple[str, int]


def read_memory(torch: Any, device: Any, nvml: tuple[Any, Any] | None) -> Row:
    """All memory as it is now; None where nothing says."""
    row: Row = dict.fromkeys(MEASURES)
    with contextlib.suppress(OSError):
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
        row["rss_bytes"] = int(pages) * resource.getpagesize()
    if device is None or device.type == "cpu":
        return row
    module = torch.get_device_module(device.type)
    with contextlib.suppress(AttributeError, RuntimeError):
        row["torch_reserved_bytes"] = int(module.memory_reserved(device))
        free, total = module.mem_get_info(device)
        row["device_used_bytes"] = int(total - free)
    if nvml:
        library, gpu = nvml
        with contextlib.suppress(library.NVMLError):
            processes = library.nvmlDeviceGetComputeRunningProcesses(gpu)
            used = {process.pid: process.usedGpuMemory for process in processes}
            row["process_device_bytes"] = used.get(os.getpid())
    return row


def walk(torch: Any, options: argparse.Namespace, stop: Stop, report: Report) -> None:
    """Go through the steps as one rank, with a row of memory after each. Raises Stopped."""
    distributed, (rank, ranks, local_rank) = torch.distributed, options.place
    timeout = datetime.timedelta(seconds=options.timeout)
    device = nvml = store = None

    def meet(name: str) -> None:
        if store is None:
            return
        store.set(f"{name} {rank}", "stop" if stop.is_due() else "go")
        keys = [f"{name} {other}" for other in range(ranks)]
        try:
            store.wait(keys, timeout)
        except RuntimeError as error:
            missing = [other for other, key in enumerate(keys) if not store.check([key])]
            raise RuntimeError(f"ranks {missing} did not come {name}") from error
        if b"stop" in store.multi_get(keys):
            raise Stopped(stop.reason or "another rank was stopped")

    def read(number: int, step: str, answer_ok: bool | None = None) -> None:
        if device:
            synchronize(torch, device)
            gc.collect()
            getattr(torch.get_device_module(device.type), "empty_cache", int)()
        meet(f"after {step}, round {number}")
        row = {"rank": rank, "round": number, "step": step, "answer_ok": answer_ok}
        report.rows.append(row | read_memory(torch, device, nvml))
        meet(f"read after {step}, round {number}")

    read(0, "start")
    device = choose_device(torch, options.device, local_rank)
    torch.ones(1024, device=device).sum().item()
    with contextlib.suppress(LookupError):
        nvml = open_nvml(torch, device)
        report.rows[0]["process_device_bytes"] = 0  # nothing is there before the context
    read(0, "device")
    options.store = store = open_store(torch, options.place, "dist_mem_usage", options.timeout)
    read(0, "store")
    backend = choose_backend(torch, device)
    bound = options.device_id == "auto" and can_bind_device(torch, backend)
    facts = {"backend": backend, "device_id": bound, "ranks": ranks}
    report.details["header"] = describe_run(torch, device, **facts)
    for number in range(1, options.rounds + 1):
        own = distributed.PrefixStore(f"round {number}", store)
        more = {"store": own, "rank": rank, "world_size": ranks, "timeout": timeout}
        distributed.init_process_group(backend, device_id=device if bound else None, **more)
        read(number, "group")
        for step in ("barrier", "barrier again"):
            # Without its index NCCL may make a context on another device.
            distributed.barrier(device_ids=None if device.type == "cpu" else [device.index])
            read(number, step)
        block = torch.full((max(1, options.payload // 4),), float(rank + 1), device=device)
        distributed.all_reduce(block)
        is_right = bool((block == ranks * (ranks + 1) / 2).all())
        del block
        read(number, "all_reduce", is_right)
        distributed.destroy_process_group()
        read(number, "destroy")


def format_growth(rows: Sequence[Row], measure: str, first: Step, last: Step) -> str | None:
    """`1,200.0 to 1,536.0 MiB`: how much a measure grew per rank between two steps."""
    sizes = {(row["rank"], row["step"], row["round"]): row[measure] for row in rows}
    pairs = [(sizes.get((r, *first)), sizes.get((r, *last))) for r in {row["rank"] for row in rows}]
    growths = [after - before for before, after in pairs if None not in (before, after)]
    if not growths:
        return None
    low, high = (f"{value / 1024**2:,.1f}" for value in (min(growths), max(growths)))
    return f"{low} MiB" if low == high else f"{low} to {high} MiB"


def print_results(report: Report) -> None:
    """Print the table of growth and what stays."""
    rows = report.rows
    known = [name for name in MEASURES if any(row[name] is not None for row in rows)]
    steps = list(dict.fromkeys((row["step"], row["round"]) for row in rows))
    cells = [
        (*step, *(format_growth(rows, name, before, step) for name in known))
        for before, step in itertools.pairwise(steps)
    ]
    print(format_table(("step", "round", *(MEASURES[name] for name in known)), cells))
    for number in [number for step, number in steps if step == "destroy"]:
        before = ("destroy", number - 1) if number > 1 else ("store", 0)
        taken = format_growth(rows, known[0], before, ("all_reduce", number))
        stays = format_growth(rows, known[0], before, ("destroy", number))
        text = f"round {number} ({MEASURES[known[0]]}): group and collectives take {taken} per rank"
        report.note(f"{text}; {stays} stays after destroy_process_group")


def build_parser() -> Parser:
    parser = Parser(__doc__, "dist_mem_usage", __version__, METHOD, PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    add("--rounds", type=positive_int, default=2, help="init/destroy cycles (default: 2)")
    add("--payload", type=size, default=64 * 1024**2, help="all_reduce size (default: 64MiB)")
    add("--device-id", choices=("auto", "off"), default="auto",
        help="give init_process_group the device (default: where this torch takes it safely)")
    # fmt: on
    add_rank_options(parser)
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    options.place = place = place_or_launch(options, arguments, 1)
    report = Report("dist_mem_usage", __version__, METHOD, options.json)
    stop = Stop(options.budget)
    stop.listen(quiet=place.rank > 0)
    try:
        walk(import_torch(), options, stop, report)
        report.complete = True
    except Stopped as stopped:
        report.notes.append(str(stopped))
    except RuntimeError as error:
        print(f"rank {place.rank} failed: {first_line(error)}", file=sys.stderr)
        return 1
    options.store.set(f"rows {place.rank}", json.dumps(report.rows))
    if place.rank:
        return int(not report.complete)
    texts = options.store.multi_get([f"rows {rank}" for rank in range(place.size)])
    report.rows = [row for text in texts for row in json.loads(text)]
    print_results(report)
    report.save()
    return int(not report.complete or any(row["answer_ok"] is False for row in report.rows))


if __name__ == "__main__":
    start(main)
