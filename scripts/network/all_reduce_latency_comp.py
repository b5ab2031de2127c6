#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""How much longer do 1000 all-reduces of 4 MB take than one of 4 GB?

The same bytes travel, but each call has a cost of its own. This tool measures both, prints the
durations and bandwidths of all ranks, and fits the model behind it.

Physics
    t(size) = latency + size / bandwidth, fitted to several sizes by least squares of the relative
    errors. N calls of size s then take  N * latency + N * s / bandwidth,  one call of N * s only
    latency + N * s / bandwidth.  Hand check: with 100 us and 100 GB/s one call of 4 GB takes
    40.1 ms, and 1000 calls of 4 MB take 100 + 40 = 140 ms: 3.5 times as long.
    algbw = bytes / seconds; busbw = 2 (n-1) / n * algbw over n ranks, as nccl-tests defines it.
    Sizes here are decimal (4 GB = 1000 * 4 MB) unless they are given as MiB; rates are decimal.

What is timed
    From when all ranks have met in a barrier until the device of this rank has done all calls: one
    all_reduce of the whole tensor, or one of each piece of it, each called when the one before is
    queued (on an accelerator) or done (on a CPU, where gloo waits). By device events on an
    accelerator, by the host's clock on a CPU. Both ways take turns.
What is not timed
    The first iterations, the barrier, writing new numbers into the tensor, and the check of the
    answer: whole numbers, compared element by element on every rank.
What is reported
    For each rank and each way: samples, median, mean, interquartile range, minimum and maximum of
    seconds, and both bandwidths. The ratio of both ways with its spread. The fitted latency and
    bandwidth, how far the model misses the worst size, and what it says both ways should take. On
    an accelerator a queue hides a part of the latency, so the pieces may be faster than that.

How to run
    one node        python all_reduce_latency_comp.py        (starts a rank for each accelerator)
    or              torchrun --nproc_per_node 8 all_reduce_latency_comp.py
    other sizes     python all_reduce_latency_comp.py --payload 1GB --pieces 40
    Slurm           srun --ntasks-per-node 8 --gpus-per-node 8 bash -c 'MASTER_ADDR=$(scontrol \
                        show hostnames $SLURM_JOB_NODELIST | head -n 1) \
                        python all_reduce_latency_comp.py --json out.json'
    pdsh            pdsh -w node[01-04] 'torchrun --nnodes 4 --nproc_per_node 8 --rdzv_id 1 \
                        --rdzv_backend c10d --rdzv_endpoint node01:29500 \
                        /shared/all_reduce_latency_comp.py'
    Ctrl-C, SIGTERM and SIGUSR1 end all ranks after the iteration that runs, and keep what was
    measured.

A good answer: a ratio near 1 says that the pieces are large enough for this network; above 2 more
than half of the time is latency, and buckets should be larger (bucket_cap_mb of DDP, or fewer and
larger collectives). All ranks take the same time, within a few percent.

Seen running so far: gloo on CPUs. The path for accelerators follows PyTorch's documentation and has
not been run on one yet.

Exit status: 0 done, 1 a wrong answer, a rank that failed, nothing measured, or stopped by a
signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import importlib.util
import json
import math
import os
import pickle
import platform
import re
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {
    "toy": ["--device", "cpu", "--payload", "8MB", "--pieces", "100", "--num_iterations", "6"],
    "full": ["--payload", "4GB", "--pieces", "1000", "--num_iterations", "10"],
}
RANKS = {"toy": 2, "full": "accelerators"}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "rank": "1",
    "ranks": "1",
    "calls": "1",
    "call_bytes": "B",
    "total_bytes": "B",
    "samples": "1",
    "seconds_median": "s",
    "seconds_mean": "s",
    "seconds_iqr": "s",
    "seconds_min": "s",
    "seconds_max": "s",
    "spread": "1",
    "drift": "1",
    "algbw_bytes_per_second_median": "B/s",
    "busbw_bytes_per_second_median": "B/s",
    "wrong_elements": "1",
}

# The largest whole number up to which the data type has all of them.
DTYPES = {"float32": 2**24, "float16": 2**11, "bfloat16": 2**8}
DEFAULT_PAYLOAD = {"accelerator": 4 * 1000**3, "cpu": 32 * 1000**2}
DEFAULT_PIECES = {"accelerator": 1000, "cpu": 200}
WAYS = ("whole", "pieces")

BLOCK_ELEMENTS = 65536
CHECKED_ELEMENTS = 16 * 1024**2

WIDE_SPREAD = 0.05
LARGE_DRIFT = 0.05
# Below this many samples a quartile is an interpolation between two of them, and no measurement.
QUARTILE_SAMPLES = 4
# A fitted line that misses a point by more than this is no model of the curve.
POOR_FIT = 0.5

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


class Job(NamedTuple):
    """This rank's place among all ranks, and what it talks through."""

    torch: Any
    device: Any
    backend: str
    rank: int
    size: int
    local_rank: int

    @property
    def is_first(self) -> bool:
        """Whether this is the rank that prints and writes."""
        return self.rank == 0


class Fit(NamedTuple):
    """The model t = latency + size / bandwidth, and how far the worst point is off, relatively."""

    latency_seconds: float
    bytes_per_second: float | None
    worst_miss: float


def parse_duration(text: str) -> float:
    """Seconds from `90`, `45s`, `10m`, `1h30m`."""
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", text.strip())
    if not text.strip() or found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no duration: write 90s, 10m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    total = 3600 * hours + 60 * minutes + seconds
    if total <= 0:
        raise argparse.ArgumentTypeError(f"'{text}': a duration has to be longer than nothing")
    return total


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


def fit_line(sizes: Sequence[float], seconds: Sequence[float]) -> Fit | None:
    """Least squares of the relative errors of t = latency + size / bandwidth.

    Relative, because the times span decades: the latency shows in the small ones. A latency below
    nothing is set to 0, and then the line goes through the origin. None below three sizes; a
    bandwidth of None where the time does not grow with the size.
    """
    if len(set(sizes)) < 3 or min(seconds) <= 0:
        return None
    weights = [1 / second**2 for second in seconds]
    total = sum(weights)
    mean_size = sum(w * s for w, s in zip(weights, sizes, strict=True)) / total
    mean_time = sum(w * t for w, t in zip(weights, seconds, strict=True)) / total
    points = list(zip(weights, sizes, seconds, strict=True))
    spread = sum(w * (s - mean_size) ** 2 for w, s, _ in points)
    slope = sum(w * (s - mean_size) * (t - mean_time) for w, s, t in points) / spread
    if slope <= 0:
        slope = 0.0
    latency = mean_time - slope * mean_size
    if latency < 0:
        latency = 0.0
        slope = sum(w * s * t for w, s, t in points) / sum(w * s * s for w, s, _ in points)
    miss = max(abs(latency + slope * s - t) / t for _, s, t in points)
    return Fit(latency, 1 / slope if slope > 0 else None, miss)


def predict_seconds(fit: Fit, calls: int, call_bytes: int) -> float | None:
    """What so many calls of this size take by the model; None where it has no bandwidth."""
    if fit.bytes_per_second is None:
        return None
    return calls * (fit.latency_seconds + call_bytes / fit.bytes_per_second)


def list_fit_sizes(piece: int, whole: int) -> list[int]:
    """Sizes to fit the model to: a quarter of a piece, a piece, 4, 16 ... pieces, the whole."""
    sizes = [max(1, piece // 4), piece]
    while sizes[-1] * 4 < whole:
        sizes.append(sizes[-1] * 4)
    return sorted({*sizes, whole})


def list_sum_pattern(rank: int, ranks: int, exact: int) -> list[int]:
    """What a rank adds to a sum, one period of it: small whole numbers, another row per rank.

    `exact` is the largest whole number up to which the data type has all of them. Where the sum of
    all ranks stays below it every element is from 1 to at most 7; of very many ranks each one has
    a number in every RANKS-th place only, and nothing elsewhere, so that no sum is rounded.
    """
    period = min(7, exact // ranks)
    if period >= 3:
        return [1 + (index + rank) % period for index in range(period)]
    return [1 + index // ranks if index % ranks == rank else 0 for index in range(7 * ranks)]


def list_total_pattern(ranks: int, exact: int) -> list[int]:
    """The sum of list_sum_pattern over all ranks."""
    period = min(7, exact // ranks)
    if period >= 3:
        return [
            sum(1 + (index + rank) % period for rank in range(ranks)) for index in range(period)
        ]
    return [1 + index // ranks for index in range(7 * ranks)]


def make_block(torch: Any, pattern: Sequence[int], offset: int, like: Any) -> Any:
    """A stretch of the repeated pattern, from `offset` on, some thousand elements long."""
    start = offset % len(pattern)
    turned = [*pattern[start:], *pattern[:start]]
    one = torch.tensor(turned, dtype=like.dtype, device=like.device)
    return one.repeat(max(1, BLOCK_ELEMENTS // len(turned)))


def fill_pattern(torch: Any, tensor: Any, pattern: Sequence[int], offset: int = 0) -> None:
    """Write the repeated pattern, from `offset` on, over the whole of a flat tensor."""
    block = make_block(torch, pattern, offset, tensor)
    whole = tensor.numel() // block.numel() * block.numel()
    tensor[:whole].view(-1, block.numel()).copy_(block)
    tensor[whole:].copy_(block[: tensor.numel() - whole])


def count_unlike(torch: Any, tensor: Any, pattern: Sequence[int], offset: int = 0) -> int:
    """Elements of a flat tensor that are not those of the repeated pattern from `offset` on."""
    block = make_block(torch, pattern, offset, tensor)
    whole = tensor.numel() // block.numel() * block.numel()
    rows = tensor[:whole].view(-1, block.numel())
    step = max(1, CHECKED_ELEMENTS // block.numel())
    unlike = sum(
        int((rows[first : first + step] != block).sum()) for first in range(0, len(rows), step)
    )
    return unlike + int((tensor[whole:] != block[: tensor.numel() - whole]).sum())


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


def choose_backend(torch: Any, device: Any) -> str:
    """The backend of a process group on this kind of device: gloo for CPU, nccl for CUDA and ROCm.

    Raises WrongUse where this torch has none.
    """
    distributed = torch.distributed
    if not distributed.is_available():
        raise WrongUse("this torch was built without torch.distributed")
    known = getattr(distributed.Backend, "default_device_backend_map", {})
    backend = known.get(device.type) or {"cpu": "gloo", "cuda": "nccl"}.get(device.type)
    if backend is None:
        raise WrongUse(f"torch.distributed has no backend for {device.type}; use --device cpu")
    is_there = getattr(distributed, f"is_{backend}_available", None)
    if is_there is not None and not is_there():
        raise WrongUse(f"this torch was built without {backend}, the backend of {device.type}")
    return str(backend)


def may_bind_device(version: str, backend: str) -> bool:
    """Whether device_id may be given to init_process_group: nccl from torch 2.8 on.

    With it some versions before hang now and then (pytorch issue 153960). Without it nothing here
    has to guess a device: each tensor names its own.
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    return backend == "nccl" and found is not None and tuple(map(int, found.groups())) >= (2, 8)


def join_job(
    torch: Any, place: tuple[int, int, int], device_name: str | None, timeout: float
) -> Job:
    """Meet the other ranks; `timeout` seconds is what they, and each collective, may take.

    Raises WrongUse where the device or its backend is not there, and RuntimeError where the other
    ranks do not come.
    """
    rank, size, local_rank = place
    device = choose_device(torch, device_name, local_rank)
    backend = choose_backend(torch, device)
    os.environ.setdefault("MASTER_PORT", "29500")
    bound = {"device_id": device} if may_bind_device(torch.__version__, backend) else {}
    torch.distributed.init_process_group(
        backend,
        init_method="env://",
        rank=rank,
        world_size=size,
        timeout=datetime.timedelta(seconds=timeout),
        **bound,
    )
    return Job(torch, device, backend, rank, size, local_rank)


def leave_job(job: Job) -> None:
    """Take leave of the other ranks; one that is gone already is no reason to fail.

    From here on a signal comes too late to matter, and would only kill Python while it ends.
    """
    with contextlib.suppress(RuntimeError, ValueError):
        job.torch.distributed.destroy_process_group()
    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def gather_values(job: Job, value: Any) -> list[Any]:
    """What every rank has, on every rank, in the order of the ranks.

    As all_gather_object does it, but for that torch's own needs NumPy.
    """
    torch, distributed = job.torch, job.torch.distributed
    data = pickle.dumps(value)
    size = torch.tensor([len(data)], dtype=torch.int64, device=job.device)
    sizes = [torch.zeros_like(size) for _ in range(job.size)]
    distributed.all_gather(sizes, size)
    lengths = [int(one.item()) for one in sizes]
    longest = max(lengths)
    padded = bytearray(data.ljust(longest, b"\0"))
    mine = torch.frombuffer(padded, dtype=torch.uint8).to(job.device)
    theirs = [torch.empty_like(mine) for _ in range(job.size)]
    distributed.all_gather(theirs, mine)
    values = []
    for length, one in zip(lengths, theirs, strict=True):
        buffer = bytearray(longest)
        torch.frombuffer(buffer, dtype=torch.uint8).copy_(one)
        values.append(pickle.loads(buffer[:length]))
    return values


class Meeting:
    """A barrier of all ranks that also tells every one of them whether one has to end."""

    def __init__(self, job: Job, stop: StopSign) -> None:
        self.job = job
        self.stop = stop
        self.flag = job.torch.zeros(1, dtype=job.torch.int32, device=job.device)

    def hold(self) -> None:
        """Wait for all ranks. Raises Stopped on all of them where one has a reason to end."""
        with contextlib.suppress(Stopped):
            self.stop.check()
        self.flag.fill_(0 if self.stop.reason is None else 1)
        self.job.torch.distributed.all_reduce(self.flag)
        if int(self.flag.item()):
            raise Stopped(self.stop.reason or "another rank was stopped")


class Stopwatch:
    """Times work on a device: by its events where it has them, else by the host's clock."""

    def __init__(self, torch: Any, device: Any) -> None:
        self.torch = torch
        self.device = device
        self.has_events = device.type != "cpu" and self._try_events()

    def _try_events(self) -> bool:
        try:
            start, end = self._make_events()
            start.record()
            end.record()
            self.synchronise()
            start.elapsed_time(end)
        except (RuntimeError, NotImplementedError, TypeError):
            return False
        return True

    def _make_events(self) -> tuple[Any, Any]:
        start, end = (
            self.torch.Event(device=self.device, enable_timing=True) for _ in ("start", "end")
        )
        return start, end

    @property
    def name(self) -> str:
        """What takes the time."""
        return "device events" if self.has_events else "host clock"

    def synchronise(self) -> None:
        """Wait until the device has done all that it was given."""
        if self.device.type != "cpu":
            self.torch.accelerator.synchronize(self.device)

    def measure(self, work: Callable[[], None]) -> float:
        """Seconds from the call of `work` until the device has done it."""
        if self.has_events:
            start, end = self._make_events()
            start.record()
            work()
            end.record()
            self.synchronise()
            return float(start.elapsed_time(end)) / 1e3
        self.synchronise()
        started = time.perf_counter_ns()
        work()
        self.synchronise()
        return (time.perf_counter_ns() - started) / 1e9


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


def estimate_doubt(row: Row) -> float | None:
    """How far the median rate may be off, as a share of it; None where one sample is all.

    Half the IQR, and for 2 or 3 samples half the range, over the median time.
    """
    if row["spread"] is not None:
        return float(row["spread"]) / 2
    if row["samples"] < 2 or row["seconds_median"] <= 0:
        return None
    return float((row["seconds_max"] - row["seconds_min"]) / row["seconds_median"] / 2)


class Payload:
    """The tensor that is reduced, as a whole or in pieces of equal size."""

    def __init__(self, job: Job, total_bytes: int, pieces: int, dtype: str) -> None:
        """Raises WrongUse where a piece would have no element."""
        kind = getattr(job.torch, dtype)
        self.job = job
        self.exact = DTYPES[dtype]
        self.width = job.torch.empty((), dtype=kind).element_size()
        self.piece = total_bytes // self.width // pieces
        if self.piece < 1:
            raise WrongUse(
                f"--pieces {pieces}: {format_bytes(total_bytes)} has fewer elements of {dtype}"
            )
        self.tensor = job.torch.empty(self.piece * pieces, dtype=kind, device=job.device)
        self.parts = {"whole": [self.tensor], "pieces": list(self.tensor.split(self.piece))}

    def fill(self) -> None:
        """Write the numbers that this rank adds."""
        pattern = list_sum_pattern(self.job.rank, self.job.size, self.exact)
        fill_pattern(self.job.torch, self.tensor, pattern)

    def reduce(self, way: str) -> None:
        """Add up all of it over the ranks, one call for each part."""
        for part in self.parts[way]:
            self.job.torch.distributed.all_reduce(part)

    def count_wrong(self) -> int:
        """Elements that are not the sum over the ranks."""
        pattern = list_total_pattern(self.job.size, self.exact)
        return count_unlike(self.job.torch, self.tensor, pattern)


class Findings:
    """What was measured so far; on every rank the same."""

    def __init__(self) -> None:
        self.header: dict[str, Any] = {}
        self.seconds: dict[str, list[list[float]]] = {way: [] for way in WAYS}
        """By way, for each iteration, of each rank."""
        self.wrong: dict[str, list[int]] = {}
        """By way, wrong elements of each rank."""
        self.calls: dict[str, tuple[int, int]] = {}
        """By way, the number of calls and the bytes of each."""
        self.points: list[tuple[int, float]] = []
        """Size of one call, and its median time: what the model is fitted to."""
        self.caveats: list[str] = []
        self.complete = False
        self.failure: str | None = None


def measure_both_ways(
    job: Job, options: argparse.Namespace, stop: StopSign, found: Findings
) -> None:
    """Time the whole and the pieces by turns, then single calls of several sizes, into `found`.

    Raises Stopped on all ranks where one of them has a reason to end.
    """
    tier = "cpu" if job.device.type == "cpu" else "accelerator"
    watch = Stopwatch(job.torch, job.device)
    meeting = Meeting(job, stop)
    pieces = options.pieces or DEFAULT_PIECES[tier]
    payload = Payload(job, options.payload or DEFAULT_PAYLOAD[tier], pieces, options.dtype)
    size = payload.piece * payload.width
    found.calls = {"whole": (1, pieces * size), "pieces": (pieces, size)}
    hosts = gather_values(job, socket.gethostname())
    found.header = {
        "device_kind": job.device.type,
        "device_model": describe_device(job.torch, job.device),
        "backend": job.backend,
        "ranks": job.size,
        "nodes": len(set(hosts)),
        "dtype": options.dtype,
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": job.torch.__version__,
        "timer": watch.name,
        "environment": read_network_environment(os.environ),
    }
    for turn in range(options.num_warmup_iterations + options.num_iterations):
        for way in WAYS:
            payload.fill()
            watch.synchronise()
            meeting.hold()
            seconds = watch.measure(lambda way=way: payload.reduce(way))  # type: ignore[misc]
            gathered = gather_values(job, (seconds, payload.count_wrong()))
            wrong = found.wrong.setdefault(way, [0] * job.size)
            found.wrong[way] = [a + b for a, (_, b) in zip(wrong, gathered, strict=True)]
            if turn >= options.num_warmup_iterations:
                found.seconds[way].append([of_rank for of_rank, _ in gathered])
    for call_bytes in list_fit_sizes(size, pieces * size):
        part = payload.tensor[: max(1, call_bytes // payload.width)]
        samples = []
        for turn in range(1 + options.num_iterations):
            payload.fill()
            watch.synchronise()
            meeting.hold()
            seconds = watch.measure(lambda part=part: job.torch.distributed.all_reduce(part))  # type: ignore[misc]
            samples.append(statistics.fmean(gather_values(job, seconds)))
            if not turn:
                samples.clear()
        found.points.append((part.numel() * payload.width, statistics.median(samples)))
    found.complete = True


def make_rows(found: Findings) -> list[Row]:
    """A row for each way and rank that has samples."""
    rows = []
    for way in WAYS:
        for rank, of_rank in enumerate(zip(*found.seconds[way], strict=True)):
            calls, call_bytes = found.calls[way]
            ranks = found.header["ranks"]
            row: Row = {"way": way, "rank": rank, "ranks": ranks, "calls": calls}
            row |= {"call_bytes": call_bytes, "total_bytes": calls * call_bytes}
            row |= summarise_samples_of("seconds", of_rank)
            row["steady"] = is_steady(row)
            median = row["seconds_median"]
            rate = calls * call_bytes / median if median > 0 else None
            row["algbw_bytes_per_second_median"] = rate
            row["busbw_bytes_per_second_median"] = rate and rate * 2 * (ranks - 1) / ranks
            row["wrong_elements"] = found.wrong[way][rank]
            row["answer_ok"] = not row["wrong_elements"]
            row["verdict"] = next(
                word
                for word, applies in (
                    ("WRONG ANSWER", not row["answer_ok"]),
                    ("one sample", row["samples"] == 1),
                    ("few samples", row["samples"] < QUARTILE_SAMPLES),
                    ("unsteady", not row["steady"]),
                    ("ok", True),
                )
                if applies
            )
            rows.append(row)
    return rows


def compare_ways(found: Findings) -> Row | None:
    """How many times longer the pieces take, iteration by iteration; None without a pair."""
    pairs = zip(found.seconds["whole"], found.seconds["pieces"], strict=False)
    ratios = [
        statistics.fmean(pieces) / statistics.fmean(whole)
        for whole, pieces in pairs
        if statistics.fmean(whole) > 0
    ]
    return summarise_samples_of("ratio", ratios) if ratios else None


def describe_model(found: Findings) -> dict[str, Any] | None:
    """The fitted model, and what it says of both ways; None where too little was measured."""
    fit = fit_line([size for size, _ in found.points], [t for _, t in found.points])
    if fit is None:
        return None
    return {
        **fit._asdict(),
        "points": [{"call_bytes": size, "seconds": taken} for size, taken in found.points],
        "predicted_seconds": {way: predict_seconds(fit, *found.calls[way]) for way in WAYS},
    }


def make_comparison_document(
    found: Findings, command: Sequence[str], origin: float
) -> dict[str, Any]:
    """The JSON document: base units, no NaN."""
    head = make_document_head("all_reduce_latency_comp", (__version__, METHOD), command, origin)
    return {
        **head,
        "complete": found.complete,
        "units": UNITS,
        "results": make_rows(found),
        "caveats": found.caveats,
        "details": {
            "header": found.header,
            "pieces_over_whole": compare_ways(found),
            "model": describe_model(found),
        },
    }


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


def read_network_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that steer the communication libraries, as far as they are set."""
    prefixes = ("NCCL_", "RCCL_", "GLOO_", "TORCH_NCCL_", "UCX_", "FI_", "CCL_", "HCCL_")
    names = (*("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_MAX_CONNECTIONS"), "OMP_NUM_THREADS")
    hosts = ("NCCL_COMM_ID", "NCCL_HOSTID")  # these name machines
    return {
        name: hide_folders(value)
        for name, value in sorted(environ.items())
        if (name.startswith(prefixes) or name in names) and name not in hosts
    }


def describe_device(torch: Any, device: Any) -> str:
    """What the vendor calls the device."""
    if device.type == "cpu":
        return platform.machine() or "cpu"
    try:
        properties = torch.get_device_module(device.type).get_device_properties(device)
    except (AttributeError, RuntimeError, TypeError):
        return str(device.type)
    return str(getattr(properties, "name", None) or device.type)


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


def write_note(text: str) -> None:
    """One note for the reader, beside the table."""
    print(f"note: {text}", file=sys.stderr)


def is_out_of_memory(error: RuntimeError) -> bool:
    """The device, or the machine, has no memory for this shape."""
    text = str(error).lower()
    return type(error).__name__ == "OutOfMemoryError" or "allocate memory" in text


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


def format_ways(rows: Sequence[Row]) -> str:
    """The table of all ranks: both ways side by side."""
    by_rank: dict[int, dict[str, Row]] = {}
    for row in rows:
        by_rank.setdefault(row["rank"], {})[row["way"]] = row

    def show(row: Row | None, key: str) -> str:
        if row is None or row[key] is None:
            return "-"
        doubt = estimate_doubt(row)
        value = row[key] / 1e9 if key.endswith("per_second_median") else 1e3 * row[key]
        return format_earned(value, None if doubt is None else doubt * value)

    names = {row["way"]: f"{row['calls']} x {format_bytes(row['call_bytes'])}" for row in rows}
    headings = ["Rank"]
    for way in WAYS:
        if way in names:
            headings += [f"{names[way]}, ms", "algbw, GB/s", "busbw, GB/s", "Verdict"]
    lines = []
    for rank, ways in sorted(by_rank.items()):
        line = [str(rank)]
        for way in names:
            one = ways.get(way)
            line += [show(one, "seconds_median"), show(one, "algbw_bytes_per_second_median")]
            line += [show(one, "busbw_bytes_per_second_median"), one["verdict"] if one else "-"]
        lines.append(line)
    return format_table(headings, lines)


def print_report(found: Findings, command: Sequence[str]) -> int:
    """Tables to stdout, notes to stderr; the number of problems."""
    print(f"all_reduce_latency_comp {__version__} (method {METHOD})", file=sys.stderr)
    print(f"command: {' '.join(command)}", file=sys.stderr)
    for name, value in found.header.items():
        if name == "environment":
            value = " ".join(f"{k}={v}" for k, v in value.items()) or "nothing set"
        print(f"{name.replace('_', ' ')}: {value}", file=sys.stderr)
    rows, ratio, model = make_rows(found), compare_ways(found), describe_model(found)
    if rows:
        print(format_ways(rows))
    if ratio:
        half = None if ratio["ratio_iqr"] is None else ratio["ratio_iqr"] / 2
        calls, size = found.calls["pieces"]
        print(
            f"\n{calls} x {format_bytes(size)} take {format_earned(ratio['ratio_median'], half)} "
            "times as long as one call of the same bytes"
            + ("" if half is None else f" (IQR {ratio['ratio_iqr']:.2g})")
        )
    if model:
        rate = model["bytes_per_second"]
        print(
            f"model: latency {format_time(model['latency_seconds'])} per call, algbw "
            + (f"{format_earned(rate / 1e9, rate / 1e11)} GB/s" if rate else "not found")
            + f"; it misses a size by up to {100 * model['worst_miss']:.0f} %"
        )
        for way, predicted in model["predicted_seconds"].items():
            taken = [statistics.fmean(of_all) for of_all in found.seconds[way]]
            if predicted and taken:
                print(
                    f"{way}: the model says {format_time(predicted)}, measured "
                    f"{format_time(statistics.median(taken))}"
                )
    problems = [found.failure] if found.failure else []
    if any(not row["answer_ok"] for row in rows):
        ranks = sorted({row["rank"] for row in rows if not row["answer_ok"]})
        problems.append(f"wrong sums on ranks {', '.join(map(str, ranks))}: trust none of this")
    if not rows:
        problems.append("nothing was measured")
    for text in (*found.caveats, *find_comparison_remarks(rows, model)):
        write_note(text)
    for text in problems:
        print(f"problem: {text}", file=sys.stderr)
    return len(problems)


def find_comparison_remarks(rows: Sequence[Row], model: dict[str, Any] | None) -> list[str]:
    """What a reader should know about the quality of the numbers, and what to try."""
    remarks = []
    if any(row["steady"] is False for row in rows):
        remarks.append(
            "some times are not steady. Try: nothing else on these nodes and links, more "
            "--num_iterations"
        )
    if any(row["samples"] < QUARTILE_SAMPLES for row in rows):
        remarks.append("too few samples to know their spread: use --num_iterations 10 or more")
    if model and model["worst_miss"] > POOR_FIT:
        remarks.append(
            "the model is far off at one size: the library changes its algorithm with the size, "
            "or the times are not steady"
        )
    return remarks


def run_comparison_rank(
    options: argparse.Namespace, place: tuple[int, int, int], stop: StopSign
) -> Findings:
    """Measure as one of the ranks; what was found, whole or in part."""
    job = join_job(import_torch(), place, options.device, options.timeout)
    found = Findings()
    try:
        measure_both_ways(job, options, stop, found)
    except Stopped as stopped:
        found.caveats.append(f"{stopped}, after {len(found.seconds['pieces'])} iterations")
        # A rank that heard of it from another one ends as that one does.
        stop.by_signal = stop.by_signal or stop.reason is None
    except RuntimeError as error:
        reason = str(error).strip().splitlines()[0] if str(error) else type(error).__name__
        is_full = is_out_of_memory(error)
        advice = "; use a smaller --payload" if is_full else ""
        found.failure = f"rank {job.rank} failed: {reason}{advice}"
        found.caveats.append(found.failure)
    if found.failure is None:
        leave_job(job)
    return found


def find_free_port() -> int:
    """A TCP port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def read_rank(environ: Mapping[str, str]) -> tuple[int, int, int] | None:
    """Rank, world size and local rank from torchrun, Slurm or Open MPI; None without a launcher."""
    for names in (
        ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
        ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ):
        # A shell inside an allocation has SLURM_PROCID too: it is a rank only beside an address.
        if all(environ.get(name, "").isdigit() for name in names) and "MASTER_ADDR" in environ:
            rank, size, local = (int(environ[name]) for name in names)
            return rank, size, local
    return None


def count_local_ranks(wanted: int | None, device_name: str | None) -> int:
    """How many ranks to start here: as asked for, else one for each accelerator, or 2 on a CPU."""
    if wanted:
        return wanted
    if device_name is not None and device_name.startswith("cpu"):
        return 2
    torch = import_torch()
    if hasattr(torch, "accelerator") and torch.accelerator.is_available():
        return int(torch.accelerator.device_count())
    return 2


def launch_ranks(count: int, arguments: Sequence[str]) -> int:
    """Run this file once for each rank on this machine, and return the exit status of the job.

    The first rank that fails ends the others, and is named. A signal goes to all of them.
    """
    port = find_free_port()
    ranks: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _frame: Any) -> None:
        for process in ranks:
            if process.poll() is None:
                process.send_signal(number)

    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), pass_on)
    for rank in range(count):
        environ = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(count),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        environ.setdefault("OMP_NUM_THREADS", "1")
        # A group of its own: Ctrl-C at the terminal reaches a rank once, through pass_on.
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), *arguments],
            env=environ,
            start_new_session=True,
        )
        ranks.append(process)
    failed: tuple[int, int] | None = None
    deadline: float | None = None
    while any(process.poll() is None for process in ranks):
        for rank, process in enumerate(ranks):
            if process.poll() and failed is None:
                failed = (rank, process.returncode)
                deadline = time.monotonic() + 5.0
        if deadline is not None and time.monotonic() > deadline:
            for process in ranks:
                if process.poll() is None:
                    process.kill()
        time.sleep(0.02)
    statuses = [process.returncode for process in ranks]
    if failed is None:
        failed = next(((rank, status) for rank, status in enumerate(statuses) if status), None)
    if failed is None:
        return 0
    rank, status = failed
    if status < 0:
        print(f"rank {rank} was ended by {signal.Signals(-status).name}", file=sys.stderr)
        return 1
    if status not in (1, 2):
        print(f"rank {rank} ended with status {status}", file=sys.stderr)
        return 1
    return status


def run_self_test() -> int:
    """Check the model, the statistics and a real run of two ranks; 0, or 1 where one fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    fit = Fit(1e-4, 1e11, 0.0)
    one, many = predict_seconds(fit, 1, 4 * 10**9), predict_seconds(fit, 1000, 4 * 10**6)
    check("100 us, 100 GB/s: 4 GB take 40.1 ms", math.isclose(one or 0.0, 0.0401))
    check("and 1000 times 4 MB take 140 ms", math.isclose(many or 0.0, 0.14))
    again = fit_line([10, 20, 40], [3.0, 4.0, 6.0])
    check(
        "2 s + size / 10 B/s is found again",
        again is not None
        and math.isclose(again.latency_seconds, 2.0)
        and math.isclose(again.bytes_per_second or 0.0, 10.0),
    )
    check("4 GB is 1000 times 4 MB", parse_bytes("4GB") == 1000 * parse_bytes("4MB"))
    with tempfile.TemporaryDirectory(prefix="latency_") as folder:
        path = Path(folder) / "run.json"
        command = [sys.executable, str(Path(__file__).resolve()), *PROFILES["toy"], "--ranks", "2"]
        environ = {k: v for k, v in os.environ.items() if k not in ("RANK", "SLURM_PROCID")}
        done = subprocess.run(
            [*command, "--payload", "1MB", "--json", str(path)],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            env=environ,
        )
        if done.returncode:
            print(done.stderr, file=sys.stderr)
        document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    rows = document.get("results", [])
    check("two ranks and two ways make four rows", len(rows) == 4)
    check("every sum is right", bool(rows) and all(row["answer_ok"] for row in rows))
    check("both ways move 1 MB", {row["total_bytes"] for row in rows} == {1000000})
    check("a model was fitted", bool((document.get("details") or {}).get("model")))
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="all_reduce_latency_comp.py",
        description="Compare one large all-reduce with many small ones of the same bytes.",
        epilog="The docstring at the top of this file tells what is timed and how to run it.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--payload", type=parse_bytes, metavar="SIZE", help="all bytes (default: 4GB; CPU: 32MB)"
    )
    parser.add_argument(
        "--pieces", type=parse_count, metavar="N", help="calls (default: 1000; on a CPU 200)"
    )
    parser.add_argument("--dtype", choices=tuple(DTYPES), default="float32", help="data type")
    parser.add_argument(
        "--num_iterations", type=parse_count, default=10, metavar="N", help="samples (default: 10)"
    )
    parser.add_argument(
        "--num_warmup_iterations",
        type=parse_count_or_none,
        default=2,
        metavar="N",
        help="first iterations, which do not count (default: 2)",
    )
    parser.add_argument("--device", metavar="KIND", help="cuda, xpu, cpu (default: what is there)")
    parser.add_argument(
        "--ranks",
        type=parse_count,
        metavar="N",
        help="without a launcher: start so many here (default: all accelerators, or 2 on a CPU)",
    )
    parser.add_argument(
        "--timeout",
        type=parse_duration,
        default=300.0,
        metavar="DURATION",
        help="what the other ranks, or one call, may take (default: 5m)",
    )
    # Old launchers add it; the environment says the same.
    parser.add_argument("--local_rank", "--local-rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version",
        action="version",
        version=f"all_reduce_latency_comp {__version__} (method {METHOD})",
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    command = make_portable_command(arguments)
    stop = StopSign()
    place = read_rank(os.environ)
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_output_paths(options.json)
        stop.listen()
        if place is None or place[1] == 1:
            count = count_local_ranks(options.ranks, options.device)
            if place is not None or count == 1:
                raise WrongUse("one rank has nobody to talk to; use --ranks 2, or more nodes")
            return 1 if stop.by_signal else launch_ranks(count, arguments)
        found = run_comparison_rank(options, place, stop)
        if place[0] != 0:
            if found.failure:
                print(found.failure, file=sys.stderr)
            return 0 if found.complete and not found.failure else 1
        problems = run_to_stdout(lambda: print_report(found, command))
        if options.json:
            write_document(options.json, make_comparison_document(found, command, origin))
    except WrongUse as error:
        if place is not None and place[0] != 0:
            print(f"rank {place[0]}: {error}", file=sys.stderr)
            return 2
        parser.error(str(error))
    except RuntimeError as error:
        words = str(error).strip().splitlines() or [type(error).__name__]
        print(f"the ranks did not come together: {words[0]}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # in a self-test: a run listens for signals itself
        print("stopped", file=sys.stderr)
        return 1
    return 0 if found.complete and not problems else 1


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
