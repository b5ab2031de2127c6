#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""How many DataLoader workers does this training need, and do pinned memory and async copies help?

This tool sweeps `num_workers`, and on an accelerator `pin_memory` and `non_blocking`, over a
synthetic dataset or your own.

## Formula

If a batch costs c seconds of CPU time and the training step takes T, then w workers give
`seconds per step = max(T, c / w)`; without workers, loading and training alternate: `c + T`.
Example: 64 items of 2 ms cost c = 128 ms; a step of 50 ms needs w = 128 / 50, so 3 workers.

## What is timed

Blocks of steps. A step is the next batch, its copy to the device, and `--step-ms` of sleep, which
simulates the training step. As in training, the host runs at most one step ahead of the device.
Batches arrive in bursts, so a block is a whole number of rounds over all workers; its seconds
divided by its steps is one sample. `wait` is the share of the time spent in `next(batches)`. Not
timed: the warm-up. Batches of the synthetic dataset are checked: the right items, once, in order.

The recommendation is the fewest workers whose step is within 2 % of the best.

## How to run

    python dataloader_bench.py --item-cost-ms 8 --item-size 600KiB --batch-size 64 --step-ms 250
    # your own dataset: the function returns it, or a dict of DataLoader arguments
    python dataloader_bench.py --dataset my_package.data:make_dataset --batch-size 64 --step-ms 250
    # Slurm: with the CPUs that one rank has in training
    srun --ntasks 1 --cpus-per-task 12 --gpus 1 python dataloader_bench.py

## A good answer

A setting with a wait below 2 % at your step time.

Exit status: 0 done; 1 a batch was wrong, loading failed, or a signal; 2 usage error.
"""

import argparse
import importlib
import itertools
import math
import signal
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, natural_int, positive_int, size, start
from kit.device import choose_device, describe_run, import_torch
from kit.report import Report, Row, format_seconds, format_table
from kit.stats import scaled, summarize, verdict_of_samples
from kit.stop import Stop, until_stopped

__version__ = "0.2.0"
METHOD = 1
PROFILES = {
    "demo": [
        "--device", "cpu", "--num-workers", "0", "1", "--batch-size", "4", "--item-cost-ms", "1",
        "--item-size", "4KiB", "--blocks", "5", "--block-steps", "4",
    ],
    "full": ["--num-workers", "0", "1", "2", "4", "8", "16", "--step-ms", "100"],
}  # fmt: skip
SETTING = ("workers", "pin_memory", "non_blocking")
PREFETCH = 2  # the default of DataLoader
NEAR_BEST = 0.02
"""Fewer workers are preferred if they make a step at most this much longer."""


class SyntheticDataset:
    """Items of a size that cost CPU time; the first 8 bytes are the item's number."""

    def __init__(self, length: int, item_bytes: int, cost: float) -> None:
        self.length, self.item_bytes, self.cost = length, item_bytes, cost

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, number: int) -> Any:
        torch = import_torch()
        end = time.thread_time() + self.cost  # CPU time: a busy machine makes no item cheaper
        while time.thread_time() < end:
            pass
        item = torch.zeros(self.item_bytes // 8, dtype=torch.int64)
        item[0] = number
        return item


def leave_signals(_worker: int) -> None:
    """What a worker does first: the trainer alone reacts to signals, and ends its workers."""
    for number in (signal.SIGINT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def measure(
    torch: Any, device: Any, setting: Row, options: argparse.Namespace, given: Row, stop: Stop
) -> Row:
    """The row of a setting; `given` are DataLoader arguments. Raises Stopped."""
    workers, block = setting["workers"], options.block_steps
    if workers > 1:
        block = max(2, math.ceil(block / workers)) * workers
    warmup = max(options.block_steps, workers * (PREFETCH + 1))
    arguments: Row = {"worker_init_fn": leave_signals, "batch_size": options.batch_size}
    arguments["persistent_workers"] = workers > 0
    arguments |= given | {"num_workers": workers, "pin_memory": setting["pin_memory"]}
    loader = torch.utils.data.DataLoader(**arguments)
    began = time.perf_counter()
    batches = iter(loader)
    samples: list[float] = []
    waits: list[float] = []
    wrong = 0
    copied = None  # the event behind the copy of the step before, and the batch
    for step in range(warmup + options.blocks * block):
        stop.check()
        if step >= warmup and (step - warmup) % block == 0:
            block_began = time.perf_counter()
        asked = time.perf_counter()
        batch = next(batches, None)
        if batch is None:  # the next epoch, with the same workers
            batches = iter(loader)
            batch = next(batches, None)
        if batch is None:
            raise RuntimeError("the dataset yields no batch: is it smaller than --batch-size?")
        waits.append(time.perf_counter() - asked)
        if step == 0:
            first_batch = time.perf_counter() - began
        if options.dataset is None:
            first = step * options.batch_size % options.length
            wrong += batch[:, 0].tolist() != list(range(first, first + options.batch_size))
        if device.type != "cpu":
            moved = move_batch(batch, device, setting["non_blocking"])
            event = torch.Event(device)
            event.record()
            if copied:
                copied[0].synchronize()
            copied = (event, moved)
        time.sleep(options.step_ms / 1e3)
        if step >= warmup and (step - warmup) % block == block - 1:
            if copied:
                copied[0].synchronize()
            samples.append((time.perf_counter() - block_began) / block)
    row = setting | {"batch_size": options.batch_size, "steps": options.blocks * block}
    row |= summarize("step_seconds", samples)
    row["steps_per_second"] = 1 / row["step_seconds_median"]
    row["wait_seconds"] = statistics.fmean(waits[warmup:])
    row["wait_share"] = min(1.0, row["wait_seconds"] / row["step_seconds_mean"])
    row["first_batch_seconds"] = first_batch
    row["wrong_batches"] = wrong
    row["answer_ok"] = not wrong if options.dataset is None else None
    row["verdict"] = "WRONG BATCH" if wrong else verdict_of_samples(row)
    return row


def move_batch(batch: Any, device: Any, non_blocking: bool) -> Any:
    """The batch on the device; containers become lists."""
    if hasattr(batch, "to"):
        return batch.to(device, non_blocking=non_blocking)
    if isinstance(batch, Mapping | list | tuple):
        values = batch.values() if isinstance(batch, Mapping) else batch
        return [move_batch(value, device, non_blocking) for value in values]
    return batch


def load_dataset(options: argparse.Namespace) -> Row:
    """DataLoader arguments: synthetic, or from --dataset. Raises UsageError."""
    if options.dataset is None:
        cost = options.item_cost_ms / 1e3
        return {"dataset": SyntheticDataset(options.length, options.item_size, cost)}
    module, _, name = options.dataset.partition(":")
    sys.path.insert(0, str(Path.cwd()))
    try:
        made = getattr(importlib.import_module(module), name)()
    except Exception as error:  # the user's own code raises what it likes
        text = f"--dataset {options.dataset} failed with {type(error).__name__}: {error}"
        raise UsageError(text) from error
    return dict(made) if isinstance(made, dict) else {"dataset": made}


def recommend(rows: Sequence[Row]) -> Row:
    """The row within 2 % of the best with the fewest workers, then without pinning."""
    limit = min(row["step_seconds_median"] for row in rows) * (1 + NEAR_BEST)
    near = [row for row in rows if row["step_seconds_median"] <= limit]
    return min(near, key=lambda row: [row[name] for name in SETTING])


def advise(rows: Sequence[Row], step_ms: float, names: Sequence[str]) -> list[str]:
    """What to set, in sentences."""
    chosen = recommend(rows)
    step = chosen["step_seconds_median"]
    texts = ["recommended: num_" + ", ".join(f"{name}={chosen[name]}" for name in names)]
    if not step_ms:
        texts.append(f"it feeds training steps of {format_seconds(step)}; set --step-ms to yours")
    elif step > step_ms / 1e3 * (1 + NEAR_BEST):
        wait = f"{100 * chosen['wait_share']:.0f} %"
        texts.append(f"the loader is a bottleneck: the trainer waits {wait} of the time")
    else:
        texts.append(f"the loader is not a bottleneck for steps of {step_ms:g} ms")
    if len(rows) > 1 and chosen["workers"] == max(row["workers"] for row in rows):
        texts.append("the largest number of workers was the best: try more")
    return texts


def print_results(report: Report, step_ms: float, names: Sequence[str]) -> None:
    """Print the table and the advice; `names` are the columns of the settings that were swept."""
    headings = [*names, "steps/s", "step", "wait %", "first batch", "verdict"]
    cells = [
        [
            *(row[name] for name in names),
            scaled(row, "steps_per_second"),
            format_seconds(row["step_seconds_median"]),
            f"{100 * row['wait_share']:.1f}",
            format_seconds(row["first_batch_seconds"]),
            row["verdict"],
        ]
        for row in report.rows
    ]
    print(format_table(headings, cells))
    report.details["recommendation"] = advise(report.rows, step_ms, names)
    print("\n".join(report.details["recommendation"]), file=sys.stderr)


def build_parser() -> Parser:
    parser = Parser(__doc__, "dataloader_bench", __version__, METHOD, PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    add("--dataset", metavar="MODULE:FACTORY", help="your dataset (default: synthetic)")
    add("--batch-size", type=positive_int, default=32, help="(default: 32)")
    add("--item-cost-ms", type=float, default=2.0, help="CPU time per synthetic item (default: 2)")
    add("--item-size", type=size, default=600 * 1024, help="synthetic item (default: 600KiB)")
    add("--num-workers", type=natural_int, nargs="+", default=[0, 1, 2, 4],
        help="numbers of workers to try (default: 0 1 2 4)")
    add("--step-ms", type=float, default=0.0, help="duration of your training step (default: 0)")
    add("--blocks", type=positive_int, default=10, help="samples per setting (default: 10)")
    add("--block-steps", type=positive_int, default=8, help="steps per sample (default: 8)")
    add("--device", help="cuda, xpu, cpu (default: the accelerator, else the CPU)")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    report = Report("dataloader_bench", __version__, METHOD, options.json)
    options.length = 1024 * options.batch_size  # a multiple, so that every batch is whole
    torch = import_torch()
    device = choose_device(torch, options.device)
    on_device = device.type != "cpu"
    switch = [False, True] if on_device else [False]
    sweep = itertools.product(options.num_workers, switch, switch)
    settings = [dict(zip(SETTING, values, strict=True)) for values in sweep]
    given = load_dataset(options)
    shown = ("dataset", "item_cost_ms", "item_size", "batch_size", "step_ms")
    settled = {name: getattr(options, name) for name in shown}
    report.details["header"] = describe_run(torch, device, **settled)
    try:
        with until_stopped(report) as stop:
            for setting in settings:
                report.rows.append(measure(torch, device, setting, options, given, stop))
                report.save(force=False)
    except Exception as error:  # a worker passes on whatever the dataset raises
        last_line = str(error).strip().rpartition("\n")[2]
        report.note(f"loading failed: {type(error).__name__}: {last_line}")
    if report.rows:
        print_results(report, options.step_ms, SETTING if on_device else SETTING[:1])
    report.save()
    wrong = any(row["wrong_batches"] for row in report.rows)
    return int(wrong or not report.complete)


if __name__ == "__main__":
    start(main)
