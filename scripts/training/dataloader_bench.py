#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""How many DataLoader workers does this training need, and do pinned memory and async copies help?

A trainer that waits for data wastes the accelerator. More workers prepare batches beside it, up to
what the CPUs give; beyond that they cost memory and gain nothing. This tool sweeps num_workers, and
on an accelerator pin_memory with non_blocking, over a synthetic dataset or your own.

Physics
    A worker needs c seconds for a batch, so w workers deliver one each c / w seconds, as long as
    there are as many cores: seconds per step = max(T, c / w), where T is the trainer's own step.
    The trainer waits for data c / w - T seconds of each step, or not at all.  Hand check: 64 items
    of 2 ms are c = 128 ms; a step of 50 ms then needs w = 128 / 50, so 3 workers. With no worker
    at all preparing and training take turns: c + T = 178 ms.

What is timed
    Steps in blocks of a whole number of rounds over all workers, because batches come in bursts: a
    block's seconds over its steps is one sample. A step is the next batch, its copy to the device,
    and --step_ms of sleep in place of a training step. As in training, the host may run one step
    ahead of the device, not further. On a CPU there is no copy.
    Beside that: the time the trainer waits for the next batch, as a share; how long it takes to
    start the workers and until the first batch is there; what memory the workers take. RSS counts
    pages that processes share in each of them, PSS divides them up: the sum of PSS is what is used.
What is not timed
    The warm-up: the first batches were prepared before anybody waited for them (prefetch_factor
    times workers), so at least as many are left out.
    Of the synthetic dataset each item is checked to be the right one, once and in order.

What is recommended
    The fewest workers whose steps take at most 2 % longer than those of the best setting. With
    --step_ms also: whether the loader is the bottleneck, that is whether a step takes more than
    2 % longer than --step_ms. Without it: the shortest step that a setting can feed.

How to run
    a first look    python dataloader_bench.py
    like yours      python dataloader_bench.py --item_cost_ms 8 --item_size 600KiB --batch_size 64 \
                        --step_ms 250 --num_workers 0 1 2 4 8
    your own        python dataloader_bench.py --dataset my_package.data:make_dataset \
                        --dataset_arguments '{"root": "/data"}' --batch_size 64
                    the factory returns a dataset, or a dict of DataLoader's arguments with
                    "dataset" in it (collate_fn, sampler ...)
    Slurm           srun --ntasks 1 --cpus-per-task 12 --gpus 1 python dataloader_bench.py
    pdsh            pdsh -w node[01-08] 'python /shared/dataloader_bench.py \
                        --json /shared/$(hostname).json'
    Give it the CPUs that one rank has in training: 8 ranks share a node's cores and its disks. One
    rank alone on a node measures what no rank of eight will see.

A good answer: a setting with a wait below 2 % for your step time. If more workers do not help, the
cores, the file system or the copy is the limit, not their number. Memory grows with each worker:
a PSS that grows during an epoch is a dataset that holds Python objects (use arrays).

Seen running so far: on CPUs, with fork, forkserver and spawn. pin_memory and non_blocking follow
PyTorch's documentation and have not been run on an accelerator yet.

Exit status: 0 done, 1 a batch was wrong, workers failed or were left over, nothing was measured,
or stopped by a signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import gc
import importlib.util
import itertools
import json
import math
import multiprocessing
import os
import platform
import re
import signal
import statistics
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
# fmt: off
PROFILES = {
    "toy": [
        "--device", "cpu", "--num_workers", "0", "1", "--batch_size", "4", "--item_cost_ms", "1",
        "--item_size", "4KiB", "--blocks", "5", "--block_steps", "4", "--warmup_steps", "4",
    ],
    "full": ["--num_workers", "0", "1", "2", "4", "8", "16", "--step_ms", "100"],
}
# fmt: on

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "workers": "1",
    "batch_size": "1",
    "samples": "1",
    "steps": "1",
    "step_seconds_median": "s",
    "step_seconds_mean": "s",
    "step_seconds_iqr": "s",
    "step_seconds_min": "s",
    "step_seconds_max": "s",
    "spread": "1",
    "drift": "1",
    "steps_per_second": "1/s",
    "wait_seconds": "s",
    "wait_share": "1",
    "first_batch_seconds": "s",
    "worker_start_seconds": "s",
    "worker_rss_bytes": "B",
    "worker_pss_bytes": "B",
    "trainer_rss_bytes": "B",
    "batch_bytes": "B",
    "wrong_batches": "1",
    "workers_left": "1",
}

QUARTILE_SAMPLES = 4
WIDE_SPREAD = 0.05
LARGE_DRIFT = 0.05
# How much longer than the best a step may be for a setting with fewer workers to be preferred.
NEAR_BEST = 0.02
# Of a step: waiting less than this is no bottleneck.
SMALL_WAIT = 0.02
# How long workers that were told to end may take, before they are ended.
END_SECONDS = 10.0

Row = dict[str, Any]


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


class Stopped(Exception):
    """The run ends here, by a signal or by the budget; what was measured is kept."""


class StopSign:
    """Why the run has to end, if it has to: a signal, the budget, or the parent process."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.by_signal = False
        self.deadline: float | None = None

    def listen(self) -> None:
        """End the run on Ctrl-C, on SIGTERM, and on Slurm's early warning."""
        for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._receive)

    def _receive(self, number: int, _frame: Any) -> None:
        self.reason = f"stopped by {signal.Signals(number).name}"
        self.by_signal = True
        # A second signal of the same kind ends a run that hangs.
        signal.signal(number, signal.SIG_DFL)

    def check(self) -> None:
        """Raise Stopped where there is a reason to end."""
        if self.reason is None and self.deadline is not None and time.monotonic() > self.deadline:
            self.reason = "the budget is used up"
        if self.reason is not None:
            raise Stopped(self.reason)


class Setting(NamedTuple):
    """One way to load data."""

    workers: int
    pin_memory: bool
    non_blocking: bool


class SyntheticDataset:
    """Items of a size that cost a given time of a CPU, and of waiting.

    The first 8 bytes of an item are its number, so that whoever gets it can check it.
    """

    def __init__(self, length: int, item_bytes: int, cost_seconds: float, wait_seconds: float):
        self.length = length
        self.item_bytes = item_bytes
        self.cost_seconds = cost_seconds
        self.wait_seconds = wait_seconds

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, number: int) -> Any:
        import torch

        if not 0 <= number < self.length:
            raise IndexError(number)
        if self.wait_seconds:
            time.sleep(self.wait_seconds)
        # The thread's own time, so that a busy machine does not make an item cheaper.
        end = time.thread_time() + self.cost_seconds
        while time.thread_time() < end:
            pass
        item = torch.zeros(self.item_bytes // 8, dtype=torch.int64)
        item[0] = number
        return item


class WorkerStart:
    """What a worker does first: leave signals to the trainer, which ends it, and then what the
    dataset's own function wants."""

    def __init__(self, own: Any = None) -> None:
        self.own = own

    def __call__(self, worker: int) -> None:
        for name in ("SIGINT", "SIGUSR1"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_IGN)
        # The trainer's handler, which fork hands on, would keep a worker alive.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if self.own is not None:
            self.own(worker)


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def parse_count_or_none(text: str) -> int:
    """A number of things to do that may be none: a whole number from 0."""
    if not re.fullmatch(r"0|[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 0")
    return int(text)


def parse_not_negative(text: str) -> float:
    """A finite number from 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (value >= 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a number from 0")
    return value


def parse_bytes(text: str) -> int:
    """Bytes from `32KiB`, `16G` (binary, as nccl-tests has it), `4GB` (decimal), or `8`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)(B?)", text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no size: write 32KiB, 4MB or 16GiB")
    number, prefix, binary, unit = found.groups()
    base = 1000 if unit and not binary else 1024
    size = float(number) * base ** " KMGT".index(prefix.upper() or " ")
    if (binary and not prefix) or size < 1 or size != int(size):
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number of bytes from 1")
    return int(size)


def format_bytes(size: int) -> str:
    """`32 KiB`, `4 MB`, `12345 B`: exactly so many bytes, in the unit with the fewest digits."""
    texts = [f"{size} B"]
    for base, units in ((1024, ("KiB", "MiB", "GiB", "TiB")), (1000, ("kB", "MB", "GB", "TB"))):
        for power, unit in enumerate(units, start=1):
            if size % base**power == 0 and size:
                texts.append(f"{size // base**power} {unit}")
    return min(texts, key=lambda text: len(text.split()[0]))


def parse_factory(text: str) -> tuple[str, str]:
    """`module:factory`."""
    module, colon, name = text.partition(":")
    if not (colon and module and name.isidentifier()):
        raise argparse.ArgumentTypeError(f"'{text}': write MODULE:FACTORY")
    return module, name


def parse_json_object(text: str) -> dict[str, Any]:
    """A JSON object: the arguments of a factory by name."""
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f'\'{text}\' is no JSON object like {{"root": "/data"}}')
    return value


def load_factory(module: str, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """DataLoader's arguments from somebody's factory, at least "dataset". Raises WrongUse."""
    sys.path.insert(0, str(Path.cwd()))
    try:
        factory = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise WrongUse(f"--dataset: {module} does not import: {error}") from error
    except AttributeError as error:
        raise WrongUse(f"--dataset: {module} has no {name}") from error
    try:
        made = factory(**arguments)
    except Exception as error:
        kind = type(error).__name__
        raise WrongUse(f"--dataset: {module}:{name} failed with {kind}: {error}") from error
    given = dict(made) if isinstance(made, dict) else {"dataset": made}
    if "dataset" not in given:
        raise WrongUse(f'--dataset: the dict of {module}:{name} has no "dataset" in it')
    ours = {"num_workers", "pin_memory", "prefetch_factor", "multiprocessing_context"} & set(given)
    if ours:
        raise WrongUse(f"--dataset: {', '.join(sorted(ours))} are what this tool sweeps or sets")
    return given


def summarise_samples_of(name: str, samples: Sequence[float]) -> Row:
    """`NAME_median`, mean, iqr, min and max of the samples, their number, spread and drift.

    The quartiles are those of linear interpolation between the samples (numpy's default); fewer
    than QUARTILE_SAMPLES samples have none, so IQR and spread are None. `spread` is the IQR over
    the median. `drift` is the median of the second half over that of the first half, less one.
    """
    ordered = sorted(samples)
    median = statistics.median(ordered)
    iqr = None
    if len(ordered) >= QUARTILE_SAMPLES:
        low, _, high = statistics.quantiles(ordered, n=4, method="inclusive")
        iqr = high - low
    half = len(samples) // 2
    drift = None
    if half >= 5 and statistics.median(samples[:half]) > 0:
        drift = statistics.median(samples[-half:]) / statistics.median(samples[:half]) - 1
    return {
        "samples": len(ordered),
        f"{name}_median": median,
        f"{name}_mean": statistics.fmean(ordered),
        f"{name}_iqr": iqr,
        f"{name}_min": ordered[0],
        f"{name}_max": ordered[-1],
        "spread": iqr / median if iqr is not None and median > 0 else None,
        "drift": drift,
    }


def is_steady(row: Row) -> bool | None:
    """The samples agree with each other, the later with the earlier; None: too few to tell."""
    if row["samples"] < QUARTILE_SAMPLES:
        return None
    wide = row["spread"] is None or row["spread"] > WIDE_SPREAD
    drifts = row["drift"] is not None and abs(row["drift"]) > LARGE_DRIFT
    return not wide and not drifts


def count_block_steps(wanted: int, workers: int) -> int:
    """Steps of a block: at least those wanted and two rounds, in whole rounds over all workers."""
    if workers < 2:
        return wanted
    return max(2, math.ceil(wanted / workers)) * workers


def count_warmup_steps(wanted: int, workers: int, prefetch: int) -> int:
    """Steps before the first block: those wanted, and no fewer than were prepared ahead."""
    return max(wanted, workers * (prefetch + 1))


def parse_smaps(text: str) -> tuple[int, int] | None:
    """RSS and PSS in bytes from /proc/PID/smaps_rollup; None where they are not both there."""
    found = dict(re.findall(r"^(Rss|Pss):\s+(\d+) kB", text, re.MULTILINE))
    if len(found) < 2:
        return None
    return 1024 * int(found["Rss"]), 1024 * int(found["Pss"])


def read_process_memory(pid: int) -> tuple[int, int] | None:
    """RSS and PSS of a process; None where the system does not tell."""
    try:
        return parse_smaps(Path(f"/proc/{pid}/smaps_rollup").read_text())
    except OSError:
        return None


def sum_worker_memory() -> tuple[int | None, int | None]:
    """RSS and PSS of all workers that run now; None where one of them cannot be read."""
    rss = pss = 0
    for process in multiprocessing.active_children():
        memory = read_process_memory(process.pid) if process.pid else None
        if memory is None:
            return None, None
        rss, pss = rss + memory[0], pss + memory[1]
    return rss, pss


def end_workers() -> int:
    """Wait for all workers to end, end those that do not, and say how many had to be."""
    deadline = time.monotonic() + END_SECONDS
    for process in multiprocessing.active_children():
        process.join(max(0.0, deadline - time.monotonic()))
    left = multiprocessing.active_children()
    for process in left:
        process.kill()
        process.join(END_SECONDS)
    return len(left)


def find_tensors(batch: Any) -> Iterator[Any]:
    """All tensors of a batch: of lists, tuples, dicts and what has the method `to`."""
    if hasattr(batch, "untyped_storage"):
        yield batch
    elif isinstance(batch, Mapping):
        for value in batch.values():
            yield from find_tensors(value)
    elif isinstance(batch, list | tuple):
        for value in batch:
            yield from find_tensors(value)


def move_batch(batch: Any, device: Any, non_blocking: bool) -> Any:
    """The batch on the device, with what holds its tensors."""
    if hasattr(batch, "to"):
        return batch.to(device, non_blocking=non_blocking)
    if isinstance(batch, Mapping):
        return {key: move_batch(value, device, non_blocking) for key, value in batch.items()}
    if isinstance(batch, list | tuple):
        moved = [move_batch(value, device, non_blocking) for value in batch]
        if hasattr(batch, "_fields"):
            return type(batch)(*moved)
        return type(batch)(moved)
    return batch


def is_right_batch(batch: Any, step: int, options: argparse.Namespace) -> bool:
    """Whether this synthetic batch has the items of its step, in order."""
    size = options.batch_size
    expected = [(step * size + place) % options.length for place in range(size)]
    return bool(batch[:, 0].tolist() == expected)


class Trainer:
    """Takes batches as a training loop does, and measures how long that takes."""

    def __init__(
        self, torch: Any, device: Any, options: argparse.Namespace, given: dict[str, Any]
    ) -> None:
        self.torch = torch
        self.device = device
        self.options = options
        self.given = given
        self.is_synthetic = options.dataset is None
        self.workers_left = 0

    def make_loader(self, setting: Setting) -> Any:
        """A DataLoader for a setting."""
        more: dict[str, Any] = {"batch_size": self.options.batch_size}
        if setting.workers:
            more |= {
                "prefetch_factor": self.options.prefetch_factor,
                "persistent_workers": True,
                "multiprocessing_context": self.options.start_method,
            }
        given = {**more, **self.given}
        if "batch_sampler" in given:
            del given["batch_size"]
        given["worker_init_fn"] = WorkerStart(self.given.get("worker_init_fn"))
        return self.torch.utils.data.DataLoader(
            num_workers=setting.workers, pin_memory=setting.pin_memory, **given
        )

    def measure(self, setting: Setting, stop: StopSign) -> Row:
        """One row of results. Raises Stopped, and RuntimeError where a worker fails."""
        options = self.options
        loader = self.make_loader(setting)
        started = time.perf_counter()
        batches = iter(loader)
        worker_start = time.perf_counter() - started
        try:
            row = self._take_steps(setting, loader, batches, started, stop)
        except Exception as error:
            # Frames that the error remembers would keep the workers.
            traceback.clear_frames(error.__traceback__)
            raise
        finally:
            # Dropping both ends the workers; a reference left behind would keep them.
            del batches, loader
            gc.collect()
            left = end_workers()
            self.workers_left += left
        row["worker_start_seconds"] = worker_start if setting.workers else None
        row["workers_left"] = left
        row["batch_size"] = options.batch_size
        row["verdict"] = choose_loader_verdict(row)
        return row

    def _take_steps(
        self, setting: Setting, loader: Any, batches: Any, started: float, stop: StopSign
    ) -> Row:
        options = self.options
        block = count_block_steps(options.block_steps, setting.workers)
        warmup = count_warmup_steps(
            options.warmup_steps, setting.workers, options.prefetch_factor if setting.workers else 0
        )
        total = warmup + options.blocks * block
        samples: list[float] = []
        waits: list[float] = []
        first = batch_bytes = 0.0
        wrong = 0
        before: Any = None
        block_started = 0.0
        for step in range(total):
            stop.check()
            if step >= warmup and (step - warmup) % block == 0:
                block_started = time.perf_counter()
            asked = time.perf_counter()
            try:
                batch = next(batches)
            except StopIteration:
                # The next epoch, with the same workers.
                batches = iter(loader)
                batch = self._take_first(batches)
            waited = time.perf_counter() - asked
            if step == 0:
                first = time.perf_counter() - started
                batch_bytes = sum(t.numel() * t.element_size() for t in find_tensors(batch))
            if self.is_synthetic and not is_right_batch(batch, step, options):
                wrong += 1
            before = self._train(batch, setting, before)
            if step >= warmup:
                waits.append(waited)
                if (step - warmup) % block == block - 1:
                    self._finish(before)
                    before = None
                    samples.append((time.perf_counter() - block_started) / block)
        rss, pss = sum_worker_memory() if setting.workers else (0, 0)
        own = read_process_memory(os.getpid())
        row: Row = {**setting._asdict(), "steps": options.blocks * block}
        row |= summarise_samples_of("step_seconds", samples)
        row["steady"] = is_steady(row)
        mean = statistics.fmean(samples)
        row["steps_per_second"] = 1 / row["step_seconds_median"]
        row["wait_seconds"] = statistics.fmean(waits)
        row["wait_share"] = min(1.0, statistics.fmean(waits) / mean)
        row["first_batch_seconds"] = first
        row["worker_rss_bytes"], row["worker_pss_bytes"] = rss, pss
        row["trainer_rss_bytes"] = own[0] if own else None
        row["batch_bytes"] = int(batch_bytes)
        row["wrong_batches"] = wrong
        row["answer_ok"] = not wrong if self.is_synthetic else None
        return row

    def _take_first(self, batches: Any) -> Any:
        try:
            return next(batches)
        except StopIteration:
            raise WrongUse(
                "the dataset gives no batch: it is empty, or smaller than a batch with drop_last"
            ) from None

    def _train(self, batch: Any, setting: Setting, before: Any) -> Any:
        """A step: copy, wait for the step before, sleep. What to wait for at the next step."""
        mark = None
        if self.device.type != "cpu":
            moved = move_batch(batch, self.device, setting.non_blocking)
            mark = (self._mark(), moved)
            self._finish(before)
        if self.options.step_ms:
            time.sleep(self.options.step_ms / 1e3)
        return mark

    def _mark(self) -> Any:
        try:
            event = self.torch.Event(device=self.device)
            event.record()
        except (RuntimeError, NotImplementedError, TypeError):
            return None
        return event

    def _finish(self, mark: Any) -> None:
        """Wait until the device has the batch of a step."""
        if mark is None:
            return
        if mark[0] is None:
            self.torch.accelerator.synchronize(self.device)
        else:
            mark[0].synchronize()


def choose_loader_verdict(row: Row) -> str:
    """One or two words on how far to trust a row: the worst that applies."""
    if row["wrong_batches"]:
        return "WRONG BATCH"
    if row["workers_left"]:
        return "workers left"
    if row["samples"] < QUARTILE_SAMPLES:
        return "one sample" if row["samples"] == 1 else "few samples"
    return "ok" if row["steady"] else "unsteady"


def recommend_setting(rows: Sequence[Row]) -> tuple[Row, Row] | None:
    """The best row, and the one with the fewest workers whose steps take at most 2 % longer.

    Among rows of as many workers the simplest is taken: nothing pinned, then no asynchronous copy.
    """
    usable = [row for row in rows if not row["wrong_batches"]]
    if not usable:
        return None
    best = min(usable, key=lambda row: row["step_seconds_median"])
    limit = best["step_seconds_median"] * (1 + NEAR_BEST)
    near = [row for row in usable if row["step_seconds_median"] <= limit]
    chosen = min(near, key=lambda r: (r["workers"], r["pin_memory"], r["non_blocking"]))
    return best, chosen


def is_bottleneck(row: Row, step_seconds: float) -> bool:
    """Whether loading makes a step of so many seconds longer by more than 2 %."""
    return bool(row["step_seconds_median"] > step_seconds * (1 + SMALL_WAIT))


def name_setting(row: Row, has_accelerator: bool) -> str:
    """`num_workers=4, pin_memory=True, non_blocking=True`."""
    parts = [f"num_workers={row['workers']}"]
    if has_accelerator:
        parts += [f"pin_memory={row['pin_memory']}", f"non_blocking={row['non_blocking']}"]
    return ", ".join(parts)


def describe_recommendation(
    rows: Sequence[Row], step_ms: float, has_accelerator: bool
) -> list[str]:
    """What to set, in sentences."""
    found = recommend_setting(rows)
    if found is None:
        return []
    best, chosen = found
    name = name_setting(chosen, has_accelerator)
    took = format_time(chosen["step_seconds_median"])
    texts = [f"recommended: {name}: {took} a step"]
    if chosen is not best:
        texts[0] += f", within {100 * NEAR_BEST:.0f} % of {name_setting(best, has_accelerator)}"
    if step_ms:
        if is_bottleneck(chosen, step_ms / 1e3):
            texts.append(
                f"the loader is the bottleneck for steps of {step_ms:g} ms: with {name} waiting "
                f"for data takes {100 * chosen['wait_share']:.0f} % of the time"
            )
        else:
            texts.append(f"the loader is not the bottleneck for steps of {step_ms:g} ms")
    else:
        texts.append(f"it feeds steps of {took} and longer; --step_ms tells for yours")
    most = max(row["workers"] for row in rows)
    if chosen["workers"] == most and most and len({row["workers"] for row in rows}) > 1:
        texts.append(f"the most workers tried are recommended: try more than {most}")
    doubtful = [row for row in (best, chosen) if row["verdict"] not in ("ok", "WRONG BATCH")]
    if doubtful:
        texts.append("these rows are not steady: repeat with more --blocks before you rely on it")
    return texts


def choose_device(torch: Any, name: str | None, local_rank: int = 0) -> Any:
    """The torch.device asked for, or the accelerator of this rank, or the CPU.

    Raises WrongUse where this torch has no such device.
    """
    has_accelerator = hasattr(torch, "accelerator") and torch.accelerator.is_available()
    present = torch.accelerator.current_accelerator().type if has_accelerator else "cpu"
    try:
        device = torch.device(name or present)
    except RuntimeError as error:
        known = f"{present} or cpu" if has_accelerator else "cpu"
        raise WrongUse(f"--device {name}: no device of torch; here it is {known}") from error
    if device.type == "cpu":
        return device
    if device.type != present:
        here = present if has_accelerator else "no accelerator, only cpu"
        raise WrongUse(f"--device {name}: this torch sees {here}")
    count = torch.accelerator.device_count()
    index = device.index if device.index is not None else local_rank
    if index >= count:
        raise WrongUse(f"device {index} of {device.type} is not there: there are {count}, from 0")
    device = torch.device(device.type, index)
    set_device = getattr(torch.get_device_module(device.type), "set_device", None)
    if set_device:  # a kind that is only ever one device has none
        set_device(index)
    return device


def describe_device(torch: Any, device: Any) -> str:
    """What the vendor calls the device."""
    if device.type == "cpu":
        return platform.machine() or "cpu"
    try:
        properties = torch.get_device_module(device.type).get_device_properties(device)
    except (AttributeError, RuntimeError, TypeError):
        return str(device.type)
    return str(getattr(properties, "name", None) or device.type)


def hide_folders(text: str) -> str:
    """The text with absolute paths cut down to their last part: folders name people and hosts."""
    name, equals, value = text.partition("=")
    if equals and value.startswith(("/", "~")):
        return f"{name}={Path(value).name}"
    return Path(text).name if text.startswith(("/", "~")) else text


def make_portable_command(arguments: Sequence[str]) -> list[str]:
    """The command line as another machine would type it, without absolute paths."""
    script = Path(__file__)
    with contextlib.suppress(ValueError, OSError):  # a folder that was deleted has no name
        script = script.resolve().relative_to(Path.cwd().resolve())
    name = script.name if script.is_absolute() else script.as_posix()
    return ["python", name, *(hide_folders(argument) for argument in arguments)]


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write the JSON whole: under another name, then moved; a pipe or a device is written to, and
    a symbolic link followed. Raises WrongUse where it cannot be."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    target = path.resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def check_json_path(path: Path | None) -> None:
    """Raises WrongUse where --json names a folder, or a file in a folder that is not there or takes
    no files."""
    if path is None:
        return
    if path.is_dir():
        raise WrongUse(f"--json: {path} is a folder; name a file in it")
    target = path.resolve()
    if not target.parent.is_dir():
        raise WrongUse(f"--json: there is no folder {target.parent}")
    if path.exists() and not path.is_file():  # a pipe or a device, which writing shows
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def make_document_head(
    tool: str, numbers: tuple[str, int], command: Sequence[str], origin: float
) -> dict[str, Any]:
    """The opening of the JSON: tool, version and method, command, start, and seconds until now.

    `origin` is the reading of time.monotonic() when the run began.
    """
    seconds = time.monotonic() - origin
    started = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    return {
        "tool": tool,
        "version": numbers[0],
        "method": numbers[1],
        "command": list(command),
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(seconds, 3),
    }


def check_output_paths(json_path: Path | None, plot_path: Path | None = None) -> None:
    """Raises WrongUse where --json or --plot cannot be written, before anything is measured."""
    check_json_path(json_path)
    if plot_path is None:
        return
    if plot_path.suffix.lower() not in (".svg", ".png"):
        raise WrongUse(f"--plot: {plot_path} has to end in .svg or .png")
    if plot_path.is_dir() or not plot_path.resolve().parent.is_dir():
        raise WrongUse(f"--plot: there is no folder {plot_path.resolve().parent}")
    if importlib.util.find_spec("matplotlib") is None:
        raise WrongUse("--plot needs matplotlib: pip install matplotlib")


class Progress:
    """A line on the terminal that is rewritten, or now and then a line in a log."""

    def __init__(self, total: int, noun: str, is_quiet: bool = False) -> None:
        self.total = total
        self.noun = noun
        self.is_quiet = is_quiet
        self.on_terminal = sys.stderr.isatty()
        self.shown = time.monotonic()

    def show(self, done: int, text: str) -> None:
        """Tell how far the run is."""
        if self.is_quiet:
            return
        line = f"{done}/{self.total} {self.noun}, {text}"
        if self.on_terminal:
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self.shown > 30:
            print(line, file=sys.stderr, flush=True)
            self.shown = time.monotonic()

    def close(self) -> None:
        """Leave the terminal on an empty line."""
        if self.on_terminal and not self.is_quiet:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def write_note(text: str) -> None:
    """One note for the reader, beside the table."""
    print(f"note: {text}", file=sys.stderr)


def import_torch() -> Any:
    """The torch module; raises WrongUse with what to do where there is none."""
    try:
        import torch
    except ImportError as error:
        raise WrongUse(
            f"torch does not import ({error}); install it: https://pytorch.org/get-started/locally"
        ) from error
    return torch


def format_time(seconds: float) -> str:
    """`12.0 µs`, `8.02 ms` or `2.3 s`: a time in a sentence, to about one percent."""
    factor, unit = next(
        ((f, u) for f, u in ((1.0, "s"), (1e-3, "ms")) if seconds >= 0.9995 * f), (1e-6, "µs")
    )
    return f"{format_earned(seconds / factor, 1e-2 * seconds / factor)} {unit}"


def format_earned(value: float | None, uncertainty: float | None) -> str:
    """The value with the digits that its uncertainty leaves, one per thousand at best.

    The last digit shown stands where the first digit of the uncertainty stands. Where the
    uncertainty is as large as the value it leaves none: then one digit after a `~` says how
    large the value is, roughly. Where nobody knows the uncertainty, it is two digits after a `~`.
    """
    if value is None or not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    size = abs(value)
    doubt = 0.1 * size if uncertainty is None else max(abs(uncertainty), size * 1e-3)
    is_rough = uncertainty is None or doubt >= size
    decimals = -math.floor(math.log10(min(doubt, size)))
    # Rounding first: 9.99 to one digit is 10, and then no digit after the point.
    rounded = round(value, decimals)
    return f"{'~' if is_rough else ''}{rounded:.{max(decimals, 0)}f}"


def format_share(share: float | None) -> str:
    """A share in percent with one digit after the point; `<0.1` where that would be none."""
    if share is None:
        return "-"
    return f"{100 * share:.1f}" if share >= 0.0005 else "<0.1"


def format_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and all others to the right."""
    cells = [list(headings), *(list(row) for row in rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(headings))]

    def join(row: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [f":{'-' * (w - 1)}" if i == 0 else f"{'-' * (w - 1)}:" for i, w in enumerate(widths)]
    return "\n".join([join(cells[0]), f"| {' | '.join(rule)} |", *map(join, cells[1:])])


class LoaderStudy:
    """What was measured so far."""

    def __init__(self) -> None:
        self.header: dict[str, Any] = {}
        self.rows: list[Row] = []
        self.caveats: list[str] = []
        self.advice: list[str] = []
        self.complete = False
        self.failure: str | None = None
        self.workers_left = 0


def list_settings(options: argparse.Namespace, has_accelerator: bool) -> list[Setting]:
    """All settings to measure: pinning and asynchronous copies have a meaning on accelerators."""
    if not has_accelerator:
        return [Setting(workers, False, False) for workers in options.num_workers]
    pins = [value == "on" for value in options.pin_memory]
    blocks = [value == "on" for value in options.non_blocking]
    return [Setting(*parts) for parts in itertools.product(options.num_workers, pins, blocks)]


def study_settings(options: argparse.Namespace, stop: StopSign) -> LoaderStudy:
    """Measure all settings. Raises WrongUse."""
    torch = import_torch()
    importlib.import_module("torch.utils.data")

    device = choose_device(torch, options.device)
    has_accelerator = device.type != "cpu"
    study = LoaderStudy()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    study.header = {
        "device_kind": device.type,
        "device_model": describe_device(torch, device),
        "cpus": cores,
        "start_method": options.start_method or multiprocessing.get_start_method(),
        "prefetch_factor": options.prefetch_factor,
        "step_ms": options.step_ms,
        "dataset": ":".join(options.dataset) if options.dataset else "synthetic",
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    if options.dataset:
        module, name = options.dataset
        given = load_factory(module, name, options.dataset_arguments or {})
    else:
        study.header |= {
            "item_bytes": options.item_size,
            "item_cost_ms": options.item_cost_ms,
            "item_wait_ms": options.item_wait_ms,
        }
        cost, wait = options.item_cost_ms / 1e3, options.item_wait_ms / 1e3
        given = {"dataset": SyntheticDataset(options.length, options.item_size, cost, wait)}
    settings = list_settings(options, has_accelerator)
    if not has_accelerator:
        study.caveats.append(
            "on a CPU there is no copy: pin_memory and non_blocking were not swept"
        )
    if cores is not None and max(options.num_workers) > cores:
        study.caveats.append(f"there are more workers than the {cores} CPUs this process may use")
    trainer = Trainer(torch, device, options, given)
    progress = Progress(len(settings), "settings")
    try:
        for number, setting in enumerate(settings):
            progress.show(number, f"{setting.workers} workers")
            study.rows.append(trainer.measure(setting, stop))
        study.complete = True
    except Stopped as stopped:
        study.caveats.append(f"{stopped}, after {len(study.rows)} of {len(settings)} settings")
    except WrongUse:
        raise
    except Exception as error:
        study.failure = describe_failure(error)
        study.caveats.append(study.failure)
    finally:
        progress.close()
        study.workers_left = trainer.workers_left
    step_ms = options.step_ms
    study.advice = describe_recommendation(study.rows, step_ms, has_accelerator)
    return study


def describe_failure(error: Exception) -> str:
    """Why loading failed, in one line, with what to do where that is known."""
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    # An error of a worker has its traceback in its words, and its kind in the last line.
    kind, last = type(error).__name__, lines[-1] if lines else ""
    text = f"loading failed: {last if last.startswith(kind) else f'{kind}: {last}'}".rstrip(": ")
    if "Bus error" in str(error) or "shared memory" in str(error):
        text += "; /dev/shm is too small: docker run --shm-size, or fewer workers"
    elif "pickle" in str(error):
        text += "; with spawn and forkserver a dataset has to be picklable: try --start_method fork"
    return text


def format_memory(size: float | None) -> str:
    """`2.87 GiB`: three digits in the binary unit that leaves 1 to 1023; a dash for None."""
    if size is None:
        return "-"
    power = 0
    while abs(size) >= 999.5 and power < 4:
        size /= 1024
        power += 1
    digits = 0 if power == 0 else max(0, 2 - math.floor(math.log10(max(abs(size), 1.0))))
    return f"{size:.{digits}f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def print_report(study: LoaderStudy, command: Sequence[str]) -> int:
    """The table to stdout, notes to stderr; the number of problems."""
    print(f"dataloader_bench {__version__} (method {METHOD})", file=sys.stderr)
    print(f"command: {' '.join(command)}", file=sys.stderr)
    for name, value in study.header.items():
        print(f"{name.replace('_', ' ')}: {value}", file=sys.stderr)
    has_accelerator = study.header["device_kind"] != "cpu"
    lines = []
    for row in study.rows:
        half = None if row["step_seconds_iqr"] is None else row["spread"] / 2
        doubt = None if half is None else row["steps_per_second"] * half
        line = [str(row["workers"])]
        if has_accelerator:
            line += ["yes" if row[name] else "no" for name in ("pin_memory", "non_blocking")]
        start = row["worker_start_seconds"]
        line += [
            format_earned(row["steps_per_second"], doubt),
            format_time(row["step_seconds_median"]),
            format_share(row["wait_share"]),
            format_time(row["first_batch_seconds"]),
            "-" if start is None else format_time(start),
            format_memory(row["worker_rss_bytes"]),
            format_memory(row["worker_pss_bytes"]),
        ]
        lines.append([*line, row["verdict"]])
    headings = ["Workers", *(["Pinned", "Non-blocking"] if has_accelerator else [])]
    headings += ["Steps/s", "Step", "Wait, %", "First batch", "Start", "RSS", "PSS", "Verdict"]
    if lines:
        print(format_table(headings, lines))
    for text in study.caveats:
        write_note(text)
    if any(row["verdict"] == "unsteady" for row in study.rows):
        write_note("some rows vary widely: is something else running? Try more --blocks")
    problems = [study.failure] if study.failure else []
    wrong = sum(row["wrong_batches"] for row in study.rows)
    if wrong:
        problems.append(f"{wrong} batches have other items than they should")
    if study.workers_left:
        problems.append(f"{study.workers_left} workers did not end by themselves and were killed")
    if not study.rows:
        problems.append("nothing was measured")
    for text in study.advice:
        print(text, file=sys.stderr)
    for text in problems:
        print(f"problem: {text}", file=sys.stderr)
    return len(problems)


def make_loader_document(
    study: LoaderStudy, command: Sequence[str], origin: float
) -> dict[str, Any]:
    """The JSON document: base units, no NaN."""
    head = make_document_head("dataloader_bench", (__version__, METHOD), command, origin)
    return {
        **head,
        "complete": study.complete,
        "units": UNITS,
        "results": study.rows,
        "caveats": study.caveats,
        "details": {"header": study.header, "recommendation": study.advice},
    }


def draw_steps(rows: Sequence[Row], step_ms: float, path: Path) -> None:
    """The picture of steps per second over workers, one line for each way to copy."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "dataloader_bench"
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(6.4, 4.4))
    ways = sorted({(row["pin_memory"], row["non_blocking"]) for row in rows})
    for pin, non_blocking in ways:
        own = [
            row for row in rows if (row["pin_memory"], row["non_blocking"]) == (pin, non_blocking)
        ]
        own.sort(key=lambda row: int(row["workers"]))
        workers = [row["workers"] for row in own]
        axis.plot(
            workers,
            [row["steps_per_second"] for row in own],
            "o-",
            label=f"pin_memory={pin}, non_blocking={non_blocking}",
        )
        slow = [1 / row["step_seconds_max"] for row in own]
        axis.fill_between(workers, slow, [1 / row["step_seconds_min"] for row in own], alpha=0.2)
    if step_ms:
        axis.axhline(1e3 / step_ms, linestyle="--", color="grey", label=f"steps of {step_ms:g} ms")
    axis.set_xlabel("workers")
    axis.set_ylabel("steps per second")
    axis.set_ylim(bottom=0)
    axis.grid(alpha=0.3)
    axis.legend()
    figure.tight_layout()
    # Without a date the same results give the same bytes.
    figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
    pyplot.close(figure)


def run_self_test() -> int:
    """Check the sums, and real workers on a dataset of known cost; 0, or 1 where a check fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    check("7 steps in rounds of 3 workers are 9", count_block_steps(7, 3) == 9)
    check("2 workers with 2 batches each ahead warm up for 6", count_warmup_steps(1, 2, 2) == 6)
    memory = parse_smaps("Rss:    12 kB\nPss:     5 kB\nPss_Dirty:  1 kB\n")
    check("RSS and PSS are read", memory == (12288, 5120))
    times = {0: 1.0, 1: 0.5, 2: 0.255, 4: 0.251, 8: 0.25}
    rows: list[Row] = [
        {"workers": workers, "pin_memory": False, "non_blocking": False, "wrong_batches": 0}
        | {"step_seconds_median": seconds}
        for workers, seconds in times.items()
    ]
    found = recommend_setting(rows)
    check("2 workers are within 2 % of 8", found is not None and found[1]["workers"] == 2)
    check("0.255 s is no bottleneck for steps of 0.25 s", not is_bottleneck(rows[2], 0.25))
    with tempfile.TemporaryDirectory(prefix="loader_") as folder:
        path = Path(folder) / "run.json"
        arguments = [*PROFILES["toy"], "--json", str(path)]
        options = build_parser().parse_args(arguments)
        check_options(options)
        study = study_settings(options, StopSign())
        write_document(path, make_loader_document(study, ["self-test"], time.monotonic()))
        results = json.loads(path.read_text(encoding="utf-8"))["results"]
    check("both settings were measured", [row["workers"] for row in results] == [0, 1])
    check("every batch has its items in order", all(row["answer_ok"] for row in results))
    costs = [row["step_seconds_median"] >= 4e-3 for row in results]
    check("a batch of 4 items of 1 ms takes 4 ms of one process", all(costs))
    check("no worker is left over", not multiprocessing.active_children())
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="dataloader_bench.py",
        description="Sweep num_workers, pin_memory and non_blocking of a DataLoader.",
        epilog="The docstring at the top of this file tells what is timed and how to run it.",
        allow_abbrev=False,
    )
    data = parser.add_argument_group("data")
    data.add_argument(
        "--dataset", type=parse_factory, metavar="MODULE:FACTORY", help="(default: synthetic)"
    )
    data.add_argument(
        "--dataset_arguments", type=parse_json_object, metavar="JSON", help="for the factory"
    )
    data.add_argument("--batch_size", type=parse_count, default=32, metavar="N")
    data.add_argument(
        "--item_cost_ms", type=parse_not_negative, metavar="MS", help="CPU time (default: 2)"
    )
    data.add_argument(
        "--item_wait_ms", type=parse_not_negative, metavar="MS", help="waiting (default: 0)"
    )
    data.add_argument(
        "--item_size", type=parse_bytes, metavar="SIZE", help="bytes (default: 600KiB)"
    )
    sweep = parser.add_argument_group("sweep: each with each")
    sweep.add_argument(
        "--num_workers", type=parse_count_or_none, nargs="+", metavar="N", help="(default: 0 1 2 4)"
    )
    for name in ("pin_memory", "non_blocking"):
        sweep.add_argument(
            f"--{name}", choices=("off", "on"), nargs="+", default=["off", "on"], help="(both)"
        )
    loader = parser.add_argument_group("loader")
    loader.add_argument("--prefetch_factor", type=parse_count, default=2, metavar="N")
    loader.add_argument(
        "--start_method", choices=("fork", "forkserver", "spawn"), help="(default: Python's)"
    )
    timing = parser.add_argument_group("timing")
    timing.add_argument(
        "--step_ms", type=parse_not_negative, default=0.0, metavar="MS", help="the trainer's step"
    )
    timing.add_argument("--blocks", type=parse_count, default=10, metavar="N", help="samples")
    timing.add_argument("--block_steps", type=parse_count, default=8, metavar="N")
    timing.add_argument("--warmup_steps", type=parse_count, default=8, metavar="N")
    parser.add_argument("--device", metavar="DEVICE", help="cuda:1, xpu, cpu (default: the first)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="steps per second, SVG or PNG")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"dataloader_bench {__version__} (method {METHOD})"
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Fill defaults in. Raises WrongUse for what makes no sense, before torch is imported."""
    check_output_paths(options.json, options.plot)
    synthetic = {"item_cost_ms": 2.0, "item_wait_ms": 0.0, "item_size": 600 * 1024}
    for name, default in synthetic.items():
        if getattr(options, name) is None:
            setattr(options, name, default)
        elif options.dataset:
            raise WrongUse(f"--{name} is for the synthetic dataset; --dataset has its own")
    if options.dataset_arguments and not options.dataset:
        raise WrongUse("--dataset_arguments are for the factory of --dataset")
    if options.item_size < 8:
        raise WrongUse("--item_size: an item has its number in it, so at least 8 bytes")
    options.num_workers = options.num_workers or [0, 1, 2, 4]
    for name in ("num_workers", "pin_memory", "non_blocking"):
        given = getattr(options, name)
        if len(set(given)) < len(given):
            raise WrongUse(f"--{name} names something twice")
    # A multiple of the batch size, so that every batch is whole.
    options.length = 1024 * options.batch_size


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    command = make_portable_command(arguments)
    stop = StopSign()
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_options(options)
        stop.listen()
        study = study_settings(options, stop)
        problems = run_to_stdout(lambda: print_report(study, command))
        if options.json:
            write_document(options.json, make_loader_document(study, command, origin))
        if options.plot and study.rows:
            draw_steps(study.rows, options.step_ms, options.plot)
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a run listens for signals itself
        print("stopped", file=sys.stderr)
        return 1
    return 1 if problems or not study.complete else 0


def run_to_stdout(run: Callable[[], int]) -> int:
    """What `run` returns, once all that it printed is written; where stdout takes no more, a full
    disk or a closed pipe, one line says so, and it is 1."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, by `>&-`: then nobody wants to read it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - to the end
    try:
        try:
            status = run()
        except SystemExit as ended:  # --help, --version, and wrong use
            status = int(ended.code or 0)
        sys.stdout.flush()
    except OSError as error:
        kinds = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        if error.filename is not None or error.errno not in kinds:
            raise
        # What still waits would be complained of again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"stdout could not be written: {error.strerror}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(run_to_stdout(main))
