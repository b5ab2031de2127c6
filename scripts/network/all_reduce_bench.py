#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""How fast do the ranks of this job really talk to each other, at which payload?

All-reduce is what data-parallel training does after each step. This tool measures it, and the
other collectives, over payloads from 32 KiB to 16 GiB, and gives the bus bandwidth that can be
held against the speed of a link. All it needs is torch.

Physics
    algbw = size / seconds.  busbw = factor * algbw, with the factors of nccl-tests
    (doc/PERFORMANCE.md of that project), n ranks, and "size" as nccl-tests means it:
        collective       factor        size
        all_reduce       2 (n-1) / n   the tensor of each rank
        reduce_scatter   (n-1) / n     the whole input of a rank; it gets an n-th of it back
        all_gather       (n-1) / n     the whole output of a rank; it gives an n-th of it
        all_to_all       (n-1) / n     all that a rank sends, its own part included
        broadcast        1             the tensor, from rank 0
        reduce           1             the tensor, to rank 0
        p2p              1             one message: each rank sends to the next, in a ring
    Hand check: an all_reduce of 1 GiB over 8 ranks in 10 ms has algbw 107.4 GB/s and busbw 187.9.
    Sizes are binary (1 KiB = 1024 B), rates decimal (1 GB/s = 1000000000 B/s).
    A model t = latency + size / bandwidth is fitted to each curve, by least squares of the
    relative errors. Real curves change their algorithm on the way: its worst miss is told.

What is timed
    Blocking: one call, from when all ranks have met in a barrier until the device of this rank has
    done it. Async: --depth calls with a tensor each, queued one after the other, and one wait at
    the end, divided by their number. Both by device events on an accelerator, by the host's clock
    on a CPU. A rank of a broadcast or a reduce is done when its own part is.
What is not timed
    The first iterations (--num_warmup_iterations), the barrier, writing new numbers into the
    tensors before each iteration, and the check of the answer: whole numbers that every data type
    holds exactly, compared element by element on every rank after the warm-up and after the last
    iteration.
What is reported
    For each payload: the mean over the ranks of each iteration, and of these means the median,
    spread, minimum and maximum. The slowest rank: the time of the rank that was last in each
    iteration, the median of these, and behind it the rank that was last most often; so it is never
    faster than the mean. Of a broadcast and a reduce the mean too is the slowest rank, because the
    others are done before the data has arrived. A `~` before a number says that its spread leaves
    no digit of it certain. And a verdict, the first of these that applies:
        WRONG ANSWER   a rank has other numbers than it should
        above peak     faster than --peak
        one sample, few samples   fewer than 4: nobody knows the spread
        unsteady       the samples disagree, or the later ones with the earlier ones
        latency        at least half of the time would be there at any size: the payload is too
                       small to tell a bandwidth. Latency here is all fixed cost: launch, software,
                       network
        ok             none of these

How to run
    one node        python all_reduce_bench.py                (starts a rank for each accelerator)
    or              torchrun --nproc_per_node 8 all_reduce_bench.py
    one payload     python all_reduce_bench.py --payload_size_in_gib 2 --profile_stability \
                        --plot stability.svg
    all of them     python all_reduce_bench.py --collective all --mode both --json out.json
    Slurm           salloc --nodes 4 --ntasks-per-node 1 --gpus-per-node 8
                    srun bash -c 'torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 \
                        --rdzv_backend c10d --rdzv_id $SLURM_JOB_ID --rdzv_endpoint \
                        $(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1):29500 \
                        all_reduce_bench.py --json out.json'
    or without torchrun: one task for each accelerator, with MASTER_ADDR exported
    pdsh            pdsh -w node[01-04] 'torchrun --nnodes 4 --nproc_per_node 8 --rdzv_backend \
                        c10d --rdzv_id 1 --rdzv_endpoint node01:29500 /shared/all_reduce_bench.py'
    is that good?   python env_report.py --json facts.json, and then --compare --facts facts.json:
                        beside recorded runs of the same hardware, ranks and payload
    Ctrl-C, SIGTERM, SIGUSR1 and the end of --budget, on any rank, end all ranks after the
    iteration that runs, and keep what was measured; a signal that comes before the ranks have met
    ends its rank at once. Size and rate are written by rank 0.

A good answer: busbw rises with the payload and stays level from some 100 MB on, near the speed of
the slowest link on the way (NVLink within a node, the network cards between nodes); no warning of
a large spread; all ranks equally fast. In-network reduction (NVLink SHARP, InfiniBand SHARP) may
rise above the link speed, because it sends less than the formula assumes. Where it is low: look at
NCCL_DEBUG=INFO (which network, which algorithm), and run torch_distributed_check.py.

Seen running so far: gloo on CPUs, over loopback and over network namespaces. The path for
accelerators follows PyTorch's documentation and has not been run on one yet.

Exit status: 0 done (also when --budget ended it), 1 a wrong answer, a rate above --peak, a rank
that failed, nothing measured, or stopped by a signal, 2 wrong use.
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
# fmt: off
PROFILES = {
    "toy": [
        "--device", "cpu", "--max_size", "1MiB", "--num_iterations", "10",
        "--num_warmup_iterations", "2",
    ],
    "full": ["--collective", "all", "--mode", "both", "--budget", "30m"],
}
# fmt: on
RANKS = {"toy": 2, "full": "accelerators"}

# Which results stand beside which, by which column, and what else has to be equal for that.
COMPARE = {
    "keys": ["collective", "mode", "dtype", "size_bytes"],
    "value": "busbw_bytes_per_second_median",
    "better": "higher",
    "spread": "spread",
    "trusted": {"verdict": ["ok", "unsteady", "latency"]},
    "alike": [
        "details.header.device_kind",
        "details.header.device_model",
        "details.header.backend",
        "details.settings.depth",
    ],
}
# Machines of one kind differ by a few percent; what is beyond three times the margin is far off.
COMPARE_TOLERANCE = 0.05
COMPARE_FAR = 3.0
BASELINE_SCHEMA = 1
OWN_BASELINE = Path(__file__).resolve().with_name("all_reduce_bench.baseline.json")

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "size_bytes": "B",
    "count": "1",
    "ranks": "1",
    "calls": "1",
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
    "busbw_bytes_per_second_mean": "B/s",
    "busbw_bytes_per_second_max": "B/s",
    "slowest_rank": "1",
    "slowest_rank_share": "1",
    "slowest_rank_seconds_median": "s",
    "slowest_rank_busbw_bytes_per_second": "B/s",
    "wrong_elements": "1",
    "share_of_peak": "1",
}

COLLECTIVES = (
    *("all_reduce", "all_gather", "reduce_scatter", "all_to_all"),
    *("broadcast", "reduce", "p2p"),
)
# The largest whole number up to which the data type has all of them.
DTYPES = {"float32": 2**24, "float16": 2**11, "bfloat16": 2**8}
DTYPE_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2}
# Here a rank may be done long before the data has arrived where it has to go.
ROOTED = ("broadcast", "reduce")
# Numbers that are sent unchanged: a prime below 2**8, so that all data types hold them.
COPY_PERIOD = 251

MIB = 1024**2
GIB = 1024**3
# Sizes, samples and warm-ups where none are asked for.
DEFAULT_SIZES = {"accelerator": (32 * 1024, 16 * GIB), "cpu": (32 * 1024, 64 * MIB)}
DEFAULT_ITERATIONS = 20
DEFAULT_WARMUPS = 5
DEFAULT_DEPTH = 10
# Share of the free memory that the tensors may take. On a CPU the backend copies them once more.
MEMORY_SHARE = {"accelerator": 0.8, "cpu": 0.3}

BLOCK_ELEMENTS = 65536
CHECKED_ELEMENTS = 16 * MIB

WIDE_SPREAD = 0.05
LARGE_DRIFT = 0.05
# Below this many samples a quartile is an interpolation between two of them, and no measurement.
QUARTILE_SAMPLES = 4
# Of the time, the share that is there at any size, from which on a row tells no bandwidth.
LATENCY_SHARE = 0.5
# A rank that is last in this share of the samples is slow; less may be chance.
SLOW_RANK_SHARE = 0.75
# How long a rank that has lost another one looks for who it was, and stays to be seen alive.
LINGER_SECONDS = 1.0
JSON_EVERY_SECONDS = 5.0
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


class SpokenStop(StopSign):
    """A stop sign that says at once that a signal has come: the end may take an iteration.

    Until `is_early` is taken away nothing has begun that others wait for: then it raises Stopped.
    """

    def __init__(self, speaks: bool) -> None:
        super().__init__()
        self.speaks = speaks
        self.is_early = False

    def _receive(self, number: int, frame: Any) -> None:
        super()._receive(number, frame)
        if self.speaks:
            name = signal.Signals(number).name
            text = f"{name}: stopping after what runs now; the same signal again ends it at once\n"
            # Not by print, whose buffer the signal may have interrupted.
            os.write(2, text.encode())
        if self.is_early:
            raise Stopped(self.reason)


class Neighbour(NamedTuple):
    """Where a rank runs: its host, the numbering of processes there, and its own number."""

    host: str
    numbering: str
    process: int


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


def parse_positive(text: str) -> float:
    """A finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a number above 0")
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


def get_bus_factor(collective: str, ranks: int) -> float:
    """busbw over algbw, as nccl-tests defines it for a collective of so many ranks."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    if collective in ("all_gather", "reduce_scatter", "all_to_all"):
        return (ranks - 1) / ranks
    return 1.0


def count_elements(collective: str, size_bytes: int, width: int, ranks: int) -> int:
    """Elements of `width` bytes that a size stands for: of the whole, a multiple of the ranks."""
    count = size_bytes // width
    if collective in ("all_gather", "reduce_scatter", "all_to_all"):
        return count // ranks * ranks
    return count


def estimate_bytes(collective: str, size_bytes: int, ranks: int) -> int:
    """Memory of one rank that the tensors of a collective of this size take."""
    if collective in ("all_to_all", "p2p"):
        return 2 * size_bytes
    if collective in ("all_gather", "reduce_scatter"):
        return size_bytes + size_bytes // ranks
    return size_bytes


def list_sizes(smallest: int, largest: int) -> list[int]:
    """The smallest size, twice of it, four times ... up to the largest."""
    sizes = [smallest]
    while sizes[-1] * 2 <= largest:
        sizes.append(sizes[-1] * 2)
    return sizes


def list_copy_pattern() -> list[int]:
    """One period of the numbers that are sent unchanged; an offset tells who sent them."""
    return list(range(COPY_PERIOD))


def choose_copy_offset(sender: int, receiver: int = 0) -> int:
    """Where in the pattern the numbers from a sender to a receiver begin."""
    return 31 * sender + 7 * receiver


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


class Collective:
    """The tensors of one collective at one size on this rank, the call, and the right answer."""

    def __init__(self, job: Job, name: str, size_bytes: int, dtype: str) -> None:
        torch = job.torch
        self.job = job
        self.name = name
        self.exact = DTYPES[dtype]
        kind = getattr(torch, dtype)
        width = torch.empty((), dtype=kind).element_size()
        self.count = count_elements(name, size_bytes, width, job.size)
        self.size_bytes = self.count * width
        self.part = self.count // job.size

        def allocate(count: int) -> Any:
            return torch.empty(count, dtype=kind, device=job.device)

        self.given = allocate(self.part if name == "all_gather" else self.count)
        if name == "reduce_scatter":
            self.got = allocate(self.part)
        elif name in ("all_gather", "all_to_all", "p2p"):
            self.got = allocate(self.count)
        else:
            self.got = self.given  # the answer comes in place

    def fill(self) -> None:
        """Write the numbers that this rank gives, and empty the place of the answer."""
        torch, rank, ranks = self.job.torch, self.job.rank, self.job.size
        if self.got is not self.given:
            self.got.zero_()
        if self.name in ("all_reduce", "reduce_scatter", "reduce"):
            fill_pattern(torch, self.given, list_sum_pattern(rank, ranks, self.exact))
        elif self.name == "all_to_all":
            for to, part in enumerate(self.given.split(self.part)):
                fill_pattern(torch, part, list_copy_pattern(), choose_copy_offset(rank, to))
        elif self.name == "broadcast" and rank:
            self.given.zero_()
        else:
            fill_pattern(torch, self.given, list_copy_pattern(), choose_copy_offset(rank))

    def start(self) -> list[Any]:
        """Call the collective without waiting; what has to be waited for."""
        distributed, name = self.job.torch.distributed, self.name
        if name == "all_reduce":
            return [distributed.all_reduce(self.given, async_op=True)]
        if name == "all_gather":
            gather = get_tensor_collective(distributed, "all_gather")
            return [gather(self.got, self.given, async_op=True)]
        if name == "reduce_scatter":
            scatter = get_tensor_collective(distributed, "reduce_scatter")
            return [scatter(self.got, self.given, async_op=True)]
        if name == "all_to_all":
            return [distributed.all_to_all_single(self.got, self.given, async_op=True)]
        if name == "broadcast":
            return [distributed.broadcast(self.given, 0, async_op=True)]
        if name == "reduce":
            return [distributed.reduce(self.given, 0, async_op=True)]
        after, before = (self.job.rank + 1) % self.job.size, (self.job.rank - 1) % self.job.size
        send = distributed.P2POp(distributed.isend, self.given, after)
        receive = distributed.P2POp(distributed.irecv, self.got, before)
        return list(distributed.batch_isend_irecv([send, receive]))

    def run(self) -> None:
        """Call the collective, and wait for it as far as torch does: for the device's queue."""
        wait_for(self.start())

    def count_wrong(self) -> int:
        """Elements of this rank's answer that are not what they should be."""
        torch, rank, ranks = self.job.torch, self.job.rank, self.job.size
        copied = list_copy_pattern()
        if self.name == "reduce" and rank:
            return 0  # only rank 0 has an answer
        if self.name in ("all_reduce", "reduce", "reduce_scatter"):
            offset = rank * self.part if self.name == "reduce_scatter" else 0
            return count_unlike(torch, self.got, list_total_pattern(ranks, self.exact), offset)
        if self.name in ("all_gather", "all_to_all"):
            receiver = rank if self.name == "all_to_all" else 0
            return sum(
                count_unlike(torch, part, copied, choose_copy_offset(sender, receiver))
                for sender, part in enumerate(self.got.split(self.part))
            )
        sender = 0 if self.name == "broadcast" else (rank - 1) % ranks
        return count_unlike(torch, self.got, copied, choose_copy_offset(sender))


def get_tensor_collective(distributed: Any, name: str) -> Any:
    """all_gather or reduce_scatter of one tensor, under the name that this torch has for it."""
    older = {"all_gather": "all_gather_into_tensor", "reduce_scatter": "reduce_scatter_tensor"}
    return getattr(distributed, f"{name}_single", None) or getattr(distributed, older[name])


def wait_for(works: Iterable[Any]) -> None:
    """Wait for what was started: on an accelerator its queue does, on a CPU this thread."""
    for work in works:
        if work is not None:
            work.wait()


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


def describe_neighbour() -> Neighbour:
    """Where this rank runs."""
    numbering = ""
    with contextlib.suppress(OSError):
        numbering = str(Path("/proc/self/ns/pid").readlink())
    return Neighbour(socket.gethostname(), numbering, os.getpid())


def has_ended(process: int) -> bool:
    """Whether a process of this host has ended, also where nobody has taken note of it yet."""
    with contextlib.suppress(OSError, IndexError):
        status = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        return status.rpartition(")")[2].split()[0] in ("Z", "X")
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False


def find_ended_ranks(neighbours: Sequence[Neighbour], rank: int, seconds: float) -> list[int]:
    """The ranks on the host of this one whose processes have ended; waits so long for the first."""
    deadline = time.monotonic() + seconds
    while neighbours:
        here = neighbours[rank][:2]
        ended = [
            other
            for other, place in enumerate(neighbours)
            if other != rank and place[:2] == here and has_ended(place.process)
        ]
        if ended or time.monotonic() > deadline:
            return ended
        time.sleep(0.05)
    return []


def describe_rank_failure(rank: int, reason: str, ended: Sequence[int]) -> str:
    """What made a rank fail, the ranks that ended before it first."""
    if not ended:
        return f"rank {rank} failed: {reason}"
    numbers = ", ".join(map(str, ended))
    gone = f"rank {numbers} has ended" if len(ended) == 1 else f"ranks {numbers} have ended"
    return f"{gone}, and rank {rank} has lost it: {reason}"


def shorten_error(error: Exception) -> str:
    """The first line of an error, without the C++ frames below it and without addresses."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = re.sub(r"\[[^\]]*\.(?:cc|cpp|h):\d+\]\s*", "", lines[0])
    text = re.sub(r"\[?(?:\d{1,3}\.){3}\d{1,3}\]?(?::\d+)?", "a host", text)
    return text[:120]


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


class BenchSettings(NamedTuple):
    """What decides the numbers of a run, apart from collectives and sizes."""

    dtype: str
    iterations: int
    warmup_iterations: int
    depth: int
    peak_bytes_per_second: float | None


def time_iteration(watch: Stopwatch, batch: Sequence[Collective], mode: str) -> float:
    """Seconds of one call: of one that is waited for, or the share of each in a batch of them."""
    if mode == "blocking":
        return watch.measure(batch[0].run)

    def run_all() -> None:
        for works in [collective.start() for collective in batch]:
            wait_for(works)

    return watch.measure(run_all) / len(batch)


def time_collective(
    meeting: Meeting, watch: Stopwatch, batch: Sequence[Collective], mode: str, iterations: int
) -> list[float]:
    """Seconds of each iteration on this rank, all ranks together. Raises Stopped on all of them."""
    seconds = []
    for _ in range(iterations):
        for collective in batch:
            collective.fill()
        watch.synchronise()
        meeting.hold()
        seconds.append(time_iteration(watch, batch, mode))
    return seconds


def measure_size(
    job: Job,
    meeting: Meeting,
    watch: Stopwatch,
    name: str,
    mode: str,
    size_bytes: int,
    settings: BenchSettings,
    room: int | None,
) -> tuple[Row, list[list[float]]]:
    """One row of results, and the seconds of each iteration by rank; the same on every rank.

    Raises Stopped on all ranks, and what torch raises where memory does not suffice.
    """
    depth = 1
    if mode == "async":
        each = max(1, estimate_bytes(name, size_bytes, job.size))
        depth = settings.depth if room is None else min(settings.depth, max(1, room // each))
    batch = [Collective(job, name, size_bytes, settings.dtype) for _ in range(depth)]
    time_collective(meeting, watch, batch, mode, max(1, settings.warmup_iterations))
    wrong = sum(collective.count_wrong() for collective in batch)
    seconds = time_collective(meeting, watch, batch, mode, settings.iterations)
    wrong += sum(collective.count_wrong() for collective in batch)
    gathered = gather_values(job, (seconds, wrong))
    by_rank = [of_rank for of_rank, _ in gathered]
    row: Row = {
        "collective": name,
        "mode": mode,
        "dtype": settings.dtype,
        "device": job.device.type,
        "size_bytes": batch[0].size_bytes,
        "count": batch[0].count,
        "ranks": job.size,
        "calls": depth,
    }
    row |= summarise_ranks(by_rank, name, batch[0].size_bytes)
    row["wrong_elements"] = sum(of_rank for _, of_rank in gathered)
    row["answer_ok"] = row["wrong_elements"] == 0
    row |= judge_bus_peak(row, settings.peak_bytes_per_second)
    # What comparing with other rows adds, comes at the end of the run.
    row |= {"verdict": None, "verdict_reason": None}
    return row, by_rank


def combine_ranks(by_rank: Sequence[Sequence[float]], collective: str) -> list[float]:
    """Seconds of each iteration: the mean over the ranks, or of a rooted collective the slowest."""
    combine = max if collective in ROOTED else statistics.fmean
    return [combine(of_all) for of_all in zip(*by_rank, strict=True)]


def summarise_ranks(by_rank: Sequence[Sequence[float]], collective: str, size: int) -> Row:
    """Statistics of all ranks together in each iteration, and of the slowest in each.

    Each iteration's slowest takes at least its mean, so the median of the slowest is at least that
    of the means. `slowest_rank` is the one that was it most often, in `slowest_rank_share` of all.
    """
    ranks = len(by_rank)
    row = summarise_samples_of("seconds", combine_ranks(by_rank, collective))
    row["steady"] = is_steady(row)
    factor = get_bus_factor(collective, ranks)

    def rate(seconds: float) -> float | None:
        return size / seconds if seconds > 0 else None

    def bus(seconds: float) -> float | None:
        return factor * size / seconds if seconds > 0 else None

    row["algbw_bytes_per_second_median"] = rate(row["seconds_median"])
    row["busbw_bytes_per_second_median"] = bus(row["seconds_median"])
    row["busbw_bytes_per_second_mean"] = bus(row["seconds_mean"])
    row["busbw_bytes_per_second_max"] = bus(row["seconds_min"])
    last = [max(range(ranks), key=of_all.__getitem__) for of_all in zip(*by_rank, strict=True)]
    totals = [sum(of_rank) for of_rank in by_rank]
    # Of ranks that were it as often, the one that took longer.
    slowest = max(range(ranks), key=lambda rank: (last.count(rank), totals[rank]))
    median = statistics.median(max(of_all) for of_all in zip(*by_rank, strict=True))
    row["slowest_rank"] = slowest
    row["slowest_rank_share"] = last.count(slowest) / len(last)
    # Rounding in the mean of equal times must not put it above the slowest.
    row["slowest_rank_seconds_median"] = max(median, row["seconds_median"])
    row["slowest_rank_busbw_bytes_per_second"] = bus(row["slowest_rank_seconds_median"])
    return row


def judge_bus_peak(row: Row, peak: float | None) -> Row:
    """The share of the peak at the median time, and whether the median rate is above it."""
    rate = row["busbw_bytes_per_second_median"]
    if peak is None or rate is None:
        return {"share_of_peak": None, "above_peak": None}
    return {"share_of_peak": rate / peak, "above_peak": rate > peak}


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


def fit_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The model of each collective and mode with at least three sizes of right answers."""
    fits = []
    for key in dict.fromkeys((row["collective"], row["mode"]) for row in rows):
        ours = [row for row in rows if (row["collective"], row["mode"]) == key and row["answer_ok"]]
        fit = (
            fit_line([row["size_bytes"] for row in ours], [row["seconds_median"] for row in ours])
            if ours
            else None
        )
        if fit is None:
            continue
        factor = get_bus_factor(key[0], ours[0]["ranks"])
        algbw = fit.bytes_per_second
        fits.append(
            {
                "collective": key[0],
                "mode": key[1],
                "latency_seconds": fit.latency_seconds,
                "algbw_bytes_per_second": algbw,
                "busbw_bytes_per_second": algbw and algbw * factor,
                "worst_miss": fit.worst_miss,
            }
        )
    return fits


def judge_bandwidths(rows: Sequence[Row], fits: Sequence[dict[str, Any]]) -> None:
    """Set the verdict of each row: the worst that applies."""
    latencies = {(fit["collective"], fit["mode"]): fit["latency_seconds"] for fit in fits}
    for row in rows:
        latency = latencies.get((row["collective"], row["mode"]), 0.0)
        is_latency = latency >= LATENCY_SHARE * row["seconds_median"]
        row["verdict"] = next(
            word
            for word, applies in (
                ("WRONG ANSWER", not row["answer_ok"]),
                ("above peak", row["above_peak"]),
                ("one sample", row["samples"] == 1),
                ("few samples", row["samples"] < QUARTILE_SAMPLES),
                ("unsteady", not row["steady"]),
                ("latency", is_latency),
                ("ok", True),
            )
            if applies
        )
        row["verdict_reason"] = (
            f"{format_time(latency)} of its {format_time(row['seconds_median'])} would be there "
            "at any size"
            if row["verdict"] == "latency"
            else None
        )


def read_rank_memory(job: Job, local_ranks: int) -> int | None:
    """Bytes that the tensors of this rank may take together, or None where nobody tells."""
    if job.device.type == "cuda":
        free = int(job.torch.cuda.mem_get_info(job.device)[0])
        return int(MEMORY_SHARE["accelerator"] * free)
    if job.device.type != "cpu":
        return None
    with contextlib.suppress(OSError):
        text = Path("/proc/meminfo").read_text()
        found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
        if found:
            return int(MEMORY_SHARE["cpu"] * int(found.group(1)) * 1024 / local_ranks)
    return None


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


def describe_run(job: Job, watch: Stopwatch, nodes: int) -> dict[str, Any]:
    """Platform, software and critical environment of this run; env_report tells the rest."""
    torch = job.torch
    library = None
    if job.backend == "nccl":
        with contextlib.suppress(AttributeError, RuntimeError, TypeError):
            library = ".".join(str(part) for part in torch.cuda.nccl.version())
    return {
        "device_kind": job.device.type,
        "device_model": describe_device(torch, job.device),
        "backend": job.backend,
        "backend_version": library,
        "ranks": job.size,
        "nodes": nodes,
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "rocm": torch.version.hip,
        "timer": watch.name,
        "environment": read_network_environment(os.environ),
    }


class BenchJournal:
    """The results of a run so far, and the JSON file that holds them."""

    def __init__(self, command: list[str], origin: float, path: Path | None) -> None:
        self.command = command
        self.origin = origin
        self.path = path
        self.rows: list[Row] = []
        self.iterations: list[dict[str, Any]] = []
        self.caveats: list[str] = []
        self.header: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self.fits: list[dict[str, Any]] = []
        self.planned = 0
        self.complete = False
        self.failure: str | None = None
        self.comparison: dict[str, Any] | None = None
        self.neighbours: list[Neighbour] = []
        self.written = -math.inf
        self.unwritten: str | None = None

    def to_document(self) -> dict[str, Any]:
        """The JSON document: base units, no NaN."""
        head = make_document_head(
            "all_reduce_bench", (__version__, METHOD), self.command, self.origin
        )
        return {
            **head,
            "complete": self.complete,
            "units": UNITS,
            "results": self.rows,
            "caveats": list(dict.fromkeys(self.caveats)),
            "details": {
                "header": self.header,
                "settings": self.settings,
                "rows_planned": self.planned,
                "fits": self.fits,
                **({"iterations": self.iterations} if self.iterations else {}),
                **({"comparison": self.comparison} if self.comparison else {}),
            },
        }

    def finish(self, force: bool = True) -> None:
        """Judge the rows by each other, and write the JSON; without force only now and then."""
        if not force and time.monotonic() - self.written < JSON_EVERY_SECONDS:
            return
        self.fits = fit_rows(self.rows)
        judge_bandwidths(self.rows, self.fits)
        self.write()
        self.written = time.monotonic()

    def write(self) -> None:
        """Write the JSON file, where one is wanted. Where it cannot be, on a disk that has filled,
        the run goes on, and says so at its end."""
        if self.path is None:
            return
        try:
            write_document(self.path, self.to_document())
            self.unwritten = None
        except WrongUse as error:
            self.unwritten = str(error)


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


def choose_sizes(options: argparse.Namespace, tier: str) -> list[int]:
    """The payloads in bytes: what was asked for, else the defaults of the device's tier."""
    if options.payload_size_in_gib is not None:
        return [round(options.payload_size_in_gib * GIB)]
    smallest, largest = DEFAULT_SIZES[tier]
    smallest = options.min_size or min(smallest, options.max_size or smallest)
    return list_sizes(smallest, options.max_size or max(largest, smallest))


def check_payload(options: argparse.Namespace, ranks: int) -> None:
    """Raises WrongUse where the smallest payload is less than an element, or than one per rank."""
    size = choose_sizes(options, "cpu")[0]
    width = DTYPE_BYTES[options.dtype]
    for name, _, _ in list_plan(options, [size]):
        if count_elements(name, size, width, ranks) < 1:
            each = "" if size < width else f" for each of {ranks} ranks, as {name} needs it"
            raise WrongUse(
                f"a payload of {format_bytes(size)} has less than one element of {options.dtype}"
                + each
            )


def list_plan(options: argparse.Namespace, sizes: Sequence[int]) -> list[tuple[str, str, int]]:
    """Collective, mode and size of each row, the large sizes last."""
    names = COLLECTIVES if "all" in options.collective else tuple(options.collective)
    modes = ("blocking", "async") if options.mode == "both" else (options.mode,)
    return [(name, mode, size) for name in names for mode in modes for size in sizes]


def run_bench_rank(
    options: argparse.Namespace,
    place: tuple[int, int, int],
    command: list[str],
    stop: SpokenStop,
    origin: float,
) -> BenchJournal:
    """Measure as one of the ranks; the journal, which rank 0 has written."""
    journal = BenchJournal(command, origin, options.json if place[0] == 0 else None)
    try:
        stop.is_early = True
        stop.check()
        torch = import_torch()
        stop.is_early = False
        stop.check()
    except Stopped as stopped:
        stop.is_early = False
        journal.caveats.append(f"{stopped}, before the ranks had met")
        journal.finish()
        return journal
    job = join_job(torch, place, options.device, options.timeout)
    progress = Progress(0, "payloads", is_quiet=not job.is_first)
    try:
        measure_payloads(job, options, stop, journal, progress)
    except Stopped as stopped:
        journal.caveats.append(f"{stopped}, after {len(journal.rows)} of {journal.planned} rows")
        # A rank that heard of it from another one ends as that one does.
        stop.by_signal = stop.by_signal or stop.reason is None
    except (RuntimeError, NotImplementedError) as error:
        ended = find_ended_ranks(journal.neighbours, job.rank, LINGER_SECONDS)
        journal.failure = describe_rank_failure(job.rank, shorten_error(error), ended)
        journal.caveats.append(journal.failure)
    finally:
        progress.close()
    journal.finish()
    if journal.failure is None:
        leave_job(job)
    elif job.backend == "gloo" and not job.is_first:
        # Its connections close, so that ranks that wait for this one hear of it; its process stays
        # a while, so that they do not take it for the one that ended first.
        with contextlib.suppress(RuntimeError, ValueError):
            torch.distributed.destroy_process_group()
        time.sleep(2 * LINGER_SECONDS)
    return journal


def measure_payloads(
    job: Job, options: argparse.Namespace, stop: StopSign, journal: BenchJournal, progress: Progress
) -> None:
    """All rows of the plan, into the journal. Raises Stopped on all ranks."""
    tier = "cpu" if job.device.type == "cpu" else "accelerator"
    watch = Stopwatch(job.torch, job.device)
    meeting = Meeting(job, stop)
    journal.neighbours = gather_values(job, describe_neighbour())
    hosts = [neighbour.host for neighbour in journal.neighbours]
    settings = BenchSettings(
        options.dtype,
        options.num_iterations,
        options.num_warmup_iterations,
        options.depth,
        options.peak * 1e9 if options.peak else None,
    )
    journal.header = describe_run(job, watch, len(set(hosts)))
    journal.settings = settings._asdict()
    if job.device.type != "cpu" and not watch.has_events:
        journal.caveats.append(
            f"{job.device.type} has no events to time with: the host's clock is used, which counts "
            "the launch too"
        )
    rooms = gather_values(job, read_rank_memory(job, hosts.count(socket.gethostname())))
    room = None if None in rooms else min(rooms)
    plan: list[tuple[str, str, int]] = []
    too_large: list[tuple[str, str, int]] = []
    for entry in list_plan(options, choose_sizes(options, tier)):
        name, _, size = entry
        fits = room is None or estimate_bytes(name, size, job.size) <= room
        (plan if fits else too_large).append(entry)
    was_asked = bool(options.max_size or options.payload_size_in_gib)
    journal.planned = len(plan) + (len(too_large) if was_asked else 0)
    if too_large:
        journal.caveats.append(
            f"left out for want of memory: {len(too_large)} rows, from "
            f"{format_bytes(min(size for _, _, size in too_large))} on"
        )
    progress.total = journal.planned
    for name, mode, size in plan:
        try:
            row, by_rank = measure_size(job, meeting, watch, name, mode, size, settings, room)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise RuntimeError(
                f"no memory for {name} of {format_bytes(size)}: use a smaller --max_size"
            ) from error
        journal.rows.append(row)
        if options.profile_stability:
            journal.iterations.append(
                {
                    "collective": name,
                    "mode": mode,
                    "size_bytes": row["size_bytes"],
                    "seconds_of_each_rank": by_rank,
                }
            )
        journal.finish(force=False)
        rate = (row["busbw_bytes_per_second_median"] or 0.0) / 1e9
        progress.show(len(journal.rows), f"{name} {format_bytes(size)}: {rate:.4g} GB/s")
    journal.complete = len(journal.rows) == journal.planned


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


def format_bench_rows(rows: Sequence[Row]) -> str:
    """The table of all rows, in GB/s."""
    several = len({(row["collective"], row["mode"]) for row in rows}) > 1
    has_peak = any(row["share_of_peak"] is not None for row in rows)
    lines = []
    for row in rows:
        doubt = estimate_doubt(row)

        def show(rate: float | None, share: float | None = doubt, like: float | None = None) -> str:
            doubted = None if share is None or rate is None else share * (like or rate) / 1e9
            return "-" if rate is None else format_earned(rate / 1e9, doubted)

        # Rounded to the same place as busbw, it is not above that on paper either.
        busbw, slowest = (
            row[f"{name}_bytes_per_second{end}"]
            for name, end in (("busbw", "_median"), ("slowest_rank_busbw", ""))
        )

        lines.append(
            [
                format_bytes(row["size_bytes"]),
                *([row["collective"], row["mode"]] if several else []),
                show(busbw),
                show(row["algbw_bytes_per_second_median"]),
                f"{show(slowest, like=busbw)} ({row['slowest_rank']})",
                format_time(row["seconds_median"]),
                str(row["samples"]),
                "-" if row["spread"] is None else f"{100 * row['spread']:.1f}",
                *([format_share(row["share_of_peak"])] if has_peak else []),
                row["verdict"],
            ]
        )
    headings = [
        "Size",
        *(["Collective", "Mode"] if several else []),
        *("busbw, GB/s", "algbw, GB/s", "Slowest rank", "Time", "Samples", "IQR, %"),
        *(["% of peak"] if has_peak else []),
        "Verdict",
    ]
    return format_table(headings, lines)


def format_fits(fits: Sequence[dict[str, Any]]) -> str:
    """The table of the fitted models."""

    def show(rate: float | None) -> str:
        return format_earned(rate / 1e9, rate / 1e9 * 1e-2) if rate else "-"

    return format_table(
        ["Model: latency + size / bandwidth", "Latency", "algbw, GB/s", "busbw, GB/s", "Miss, %"],
        [
            [
                f"{fit['collective']}, {fit['mode']}",
                format_time(fit["latency_seconds"]) if fit["latency_seconds"] else "0",
                show(fit["algbw_bytes_per_second"]),
                show(fit["busbw_bytes_per_second"]),
                f"{100 * fit['worst_miss']:.0f}",
            ]
            for fit in fits
        ],
    )


def find_bench_problems(journal: BenchJournal) -> list[str]:
    """What is wrong with the results themselves: each of them makes the exit status 1."""
    problems = []
    wrong = [row for row in journal.rows if not row["answer_ok"]]
    if wrong:
        places = ", ".join(
            f"{row['collective']} {format_bytes(row['size_bytes'])}" for row in wrong
        )
        problems.append(
            f"{len(wrong)} of {len(journal.rows)} rows have wrong answers ({places}): do not trust "
            "this network, device, driver or library before that is explained"
        )
    above = [row for row in journal.rows if row["above_peak"]]
    if above:
        problems.append(
            f"{len(above)} rows are above --peak. Is it the bandwidth of one direction, in GB/s, "
            "of the slowest link on the way? In-network reduction (SHARP) may rise above it, "
            "because the formula of busbw does not know of it; anything else may not"
        )
    if journal.failure:
        problems.append(journal.failure)
    if not journal.rows:
        problems.append("nothing was measured")
    return problems


def find_bench_remarks(journal: BenchJournal) -> list[str]:
    """What a reader should know about the quality of the numbers, and what to try."""
    remarks, rows = [], journal.rows
    unsteady = [row for row in rows if row["steady"] is False]
    if unsteady:
        worst = max(unsteady, key=lambda row: (row["spread"] or 0.0, abs(row["drift"] or 0.0)))
        remarks.append(
            f"{len(unsteady)} of {len(rows)} rows are not steady (worst: {worst['collective']} "
            f"{format_bytes(worst['size_bytes'])}, IQR {100 * (worst['spread'] or 0.0):.0f} % of "
            "the median). Try: nothing else on these nodes and links, more --num_iterations and "
            "--num_warmup_iterations, larger payloads"
        )
    if any(row["samples"] < QUARTILE_SAMPLES for row in rows):
        remarks.append(
            f"fewer than {QUARTILE_SAMPLES} samples: nothing tells how far to trust them. Use "
            "--num_iterations 10 or more"
        )
    remarks += find_latency_remarks(rows)
    for fit in journal.fits:
        if fit["worst_miss"] > POOR_FIT:
            remarks.append(
                f"the model of {fit['collective']}, {fit['mode']}, misses a size by "
                f"{100 * fit['worst_miss']:.0f} %: the library changes its algorithm with the "
                "size, or the times are not steady; trust the table"
            )
    medians = [
        (row["slowest_rank_seconds_median"] / row["seconds_median"], row)
        for row in rows
        if row["seconds_median"] > 0
        and row["slowest_rank_share"] >= SLOW_RANK_SHARE
        and row["collective"] in ("all_reduce", "all_to_all", "p2p")
    ]
    apart = [(ratio, row) for ratio, row in medians if ratio > 1.25 and row["verdict"] == "ok"]
    if apart:
        ratio, row = max(apart, key=lambda pair: pair[0])
        remarks.append(
            f"rank {row['slowest_rank']} was the slowest in {100 * row['slowest_rank_share']:.0f} "
            f"% of the samples of {row['collective']} of {format_bytes(row['size_bytes'])}; the "
            f"slowest took {100 * (ratio - 1):.0f} % longer than the mean rank: look at its node, "
            "and see node_pairs.py"
        )
    return remarks


def find_latency_remarks(rows: Sequence[Row]) -> list[str]:
    """Notes on payloads too small to tell a bandwidth, and what of it is the launch."""
    bound = [row for row in rows if row["verdict"] == "latency"]
    if not bound:
        return []
    largest = max(bound, key=lambda row: row["size_bytes"])
    remark = (
        f"{len(bound)} of {len(rows)} rows are bound by latency or launch, up to "
        f"{format_bytes(largest['size_bytes'])} ({largest['verdict_reason']}): their rate says "
        "what a call costs, and nothing of the link. Use larger payloads, or fewer, larger calls"
    )
    remarks = [remark]
    times = {(row["collective"], row["mode"], row["size_bytes"]): row for row in rows}
    for row in bound:
        queued = times.get((row["collective"], "async", row["size_bytes"]))
        if row["mode"] == "blocking" and queued and queued["seconds_median"] > 0:
            ratio = row["seconds_median"] / queued["seconds_median"]
            remarks.append(
                f"{row['collective']} of {format_bytes(row['size_bytes'])} takes "
                f"{format_time(row['seconds_median'])} when each call is waited for, and "
                f"{format_time(queued['seconds_median'])} in a queue: "
                + (
                    "most of it is launch and waiting, which a queue hides"
                    if ratio >= 2
                    else "a queue hides little of it"
                )
            )
            break
    return remarks


def print_bench_header(journal: BenchJournal) -> None:
    """Command line, platform, software and environment of the run, for a saved log."""
    print(f"all_reduce_bench {__version__} (method {METHOD})", file=sys.stderr)
    print(f"command: {' '.join(journal.command)}", file=sys.stderr)
    for name, value in {**journal.header, **journal.settings}.items():
        if name == "environment":
            value = " ".join(f"{k}={v}" for k, v in value.items()) or "nothing set"
        print(f"{name.replace('_', ' ')}: {value}", file=sys.stderr)


def print_report(journal: BenchJournal) -> int:
    """Tables to stdout, notes to stderr; the number of problems."""
    print_bench_header(journal)
    if journal.rows:
        print(format_bench_rows(journal.rows))
        if journal.fits:
            print(f"\n{format_fits(journal.fits)}")
        print(
            "\nSizes are binary (1 KiB = 1024 B), rates decimal (1 GB/s = 1000000000 B/s). "
            f"Median over the samples of the mean over {journal.header['ranks']} ranks; slowest "
            "rank: median of the slowest in each sample (the rank that it was most often)."
        )
    problems = find_bench_problems(journal)
    for text in (*dict.fromkeys(journal.caveats), *find_bench_remarks(journal)):
        if text != journal.failure:  # which is a problem, below
            write_note(text)
    for text in problems:
        print(f"problem: {text}", file=sys.stderr)
    return len(problems)


def draw_bandwidth(journal: BenchJournal, path: Path) -> None:
    """Write the picture: bus bandwidth over size, or of a stability profile over iterations."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "all_reduce_bench"
    from matplotlib import pyplot

    figure, axis = pyplot.subplots(figsize=(7.2, 4.4))
    if journal.iterations:
        for entry in journal.iterations:
            by_rank = entry["seconds_of_each_rank"]
            factor = get_bus_factor(entry["collective"], len(by_rank)) * entry["size_bytes"] / 1e9
            taken = combine_ranks(by_rank, entry["collective"])
            name = f"{entry['collective']}, {entry['mode']}, {format_bytes(entry['size_bytes'])}"
            axis.plot([factor / seconds for seconds in taken], ".-", label=name)
        axis.set_xlabel("iteration")
    else:
        for key in dict.fromkeys((row["collective"], row["mode"]) for row in journal.rows):
            ours = [row for row in journal.rows if (row["collective"], row["mode"]) == key]
            sizes = [row["size_bytes"] for row in ours]
            rates = [(row["busbw_bytes_per_second_median"] or 0.0) / 1e9 for row in ours]
            axis.plot(sizes, rates, "o-", label=", ".join(key))
            slow = [
                r * row["seconds_median"] / row["seconds_max"]
                for r, row in zip(rates, ours, strict=True)
            ]
            fast = [(row["busbw_bytes_per_second_max"] or 0.0) / 1e9 for row in ours]
            axis.fill_between(sizes, slow, fast, alpha=0.2)
        axis.set_xscale("log", base=2)
        ticks = sorted({row["size_bytes"] for row in journal.rows})
        ticks = ticks[:: max(1, math.ceil(len(ticks) / 10))]
        axis.set_xticks(ticks, [format_bytes(size) for size in ticks], rotation=45)
        axis.set_xlabel("payload")
    axis.set_ylabel("busbw, GB/s")
    axis.set_ylim(bottom=0)
    axis.legend()
    axis.set_title(f"{journal.header['ranks']} ranks on {journal.header['nodes']} nodes")
    figure.tight_layout()
    # Without a date the same results give the same bytes.
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def read_json_option(option: str, path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises WrongUse where there is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongUse(f"{option}: could not read {path}: {error.strerror}") from error
    except ValueError as error:
        raise WrongUse(f"{option}: {path} is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise WrongUse(f"{option}: {path} holds no object")
    return document


def read_records(path: Path) -> dict[str, Any]:
    """Recorded runs to compare with. Raises WrongUse where this is no baseline of this tool."""
    if path == OWN_BASELINE and not path.is_file():
        raise WrongUse(
            f"--compare: there is no {path.name} beside this tool; copy it there, or name it"
        )
    baseline = read_json_option("--compare", path)
    records = baseline.get("records")
    if baseline.get("tool") != "all_reduce_bench" or not isinstance(records, list):
        raise WrongUse(f"--compare: {path} is no baseline of all_reduce_bench")
    if baseline.get("schema") != BASELINE_SCHEMA or baseline.get("keys") != COMPARE["keys"]:
        raise WrongUse(f"--compare: {path} was made for another version of this tool")
    needed = set("name started method hardware nodes ranks settings rows untrusted".split())
    if not all(isinstance(record, dict) and record.keys() >= needed for record in records):
        raise WrongUse(f"--compare: {path} was changed by hand; take the file as it came")
    return baseline


def read_hardware(path: Path) -> tuple[str, str]:
    """What decides how fast a machine is, from the JSON of env_report: its hardware, and the
    power limit of its accelerators, empty where that is not known.

    Raises WrongUse where it tells nothing of a machine.
    """
    machine = read_json_option("--facts", path).get("machine")
    if not isinstance(machine, dict) or not isinstance(machine.get("cpu"), dict):
        raise WrongUse(f"--facts: {path} was not written by env_report.py --json")
    return describe_hardware(machine), describe_power_limit(machine)


def describe_hardware(machine: dict[str, Any]) -> str:
    """`8 x NVIDIA H100 80GB HBM3`, or of a machine without accelerators its processor."""
    counts: dict[str, int] = {}
    for accelerator in machine.get("accelerators") or ():
        name = accelerator.get("model") or accelerator.get("vendor") or "unknown accelerator"
        counts[name] = counts.get(name, 0) + 1
    if counts:
        return ", ".join(f"{count} x {name}" for name, count in counts.items())
    cpu = machine["cpu"]
    unknown = f"unknown {cpu.get('architecture') or ''}".rstrip() + " processor"
    parts = [cpu.get("model") or unknown]
    if cpu.get("instruction_sets"):
        parts[0] += f" with {cpu['instruction_sets'][-1]}"
    core = "thread" if cpu.get("cores") is None else "core"
    cores = cpu.get("cores") or cpu.get("threads")
    for count, noun in ((cpu.get("sockets"), "socket"), (cores, core)):
        if count is not None:
            parts.append(f"{count} {noun}{'' if count == 1 else 's'}")
    return ", ".join(parts)


def describe_power_limit(machine: dict[str, Any]) -> str:
    """`700 W`, or `2 x 500 W, 6 x 700 W`; empty where it is not known of every accelerator."""
    limits = [entry.get("power_limit_watts") for entry in machine.get("accelerators") or ()]
    if not limits or not all(isinstance(limit, (int, float)) for limit in limits):
        return ""
    counts: dict[int, int] = {}
    for limit in sorted(map(round, limits)):
        counts[limit] = counts.get(limit, 0) + 1
    if len(counts) == 1:
        return f"{next(iter(counts))} W"
    return ", ".join(f"{count} x {limit} W" for limit, count in counts.items())


def read_alike(document: dict[str, Any]) -> dict[str, Any]:
    """What has to be equal in two runs, by its place in the JSON."""
    found = {}
    for place in COMPARE["alike"]:
        value: Any = document
        for part in place.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        found[place] = value
    return found


def show_scalar(value: Any) -> str:
    """A value in a sentence, as JSON writes it but without quotes."""
    return value if isinstance(value, str) else json.dumps(value)


def find_job_differences(
    document: dict[str, Any], record: dict[str, Any], hardware: str | None, power_limit: str
) -> list[tuple[str, str]]:
    """What keeps a record from standing beside this run: of the record, and of the run."""
    pairs = []
    if document["method"] != record["method"]:
        pairs.append((f"of method {record['method']}", f"of method {document['method']}"))
    if hardware is not None and hardware.casefold() != record["hardware"].casefold():
        pairs.append((f"on {record['hardware']}", f"on {hardware}"))
    elif power_limit and record.get("power_limit", power_limit) != power_limit:
        theirs = f"at a power limit of {record['power_limit']}"
        pairs.append((theirs, f"at one of {power_limit}"))
    header = document["details"]["header"]
    for noun in ("node", "rank"):
        count, mine = record[f"{noun}s"], header.get(f"{noun}s")
        if count != mine:
            texts = [f"of {n} {noun}{'' if n == 1 else 's'}" for n in (count, mine)]
            pairs.append((texts[0], texts[1]))
    ours = read_alike(document)
    for place, theirs in record["settings"].items():
        name, own = place.rpartition(".")[2], ours.get(place)
        if (isinstance(own, bool), own) != (isinstance(theirs, bool), theirs):
            pairs.append((f"with {name} {show_scalar(theirs)}", f"with {name} {show_scalar(own)}"))
    return pairs


def judge_ratio(ratio: float, margin: float) -> str:
    """Where a rate stands: within what is expected, below, above, or far off."""
    if abs(ratio - 1) <= margin:
        return "within"
    far = "far " if abs(ratio - 1) > COMPARE_FAR * margin else ""
    return far + ("below" if ratio < 1 else "above")


def match_rows(
    document: dict[str, Any], record: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows that both have, and the rows that are left out, each with the reason."""
    keys, value = COMPARE["keys"], COMPARE["value"]
    recorded = {tuple(row[: len(keys)]): row[len(keys) :] for row in record["rows"]}
    untrusted = {tuple(row[: len(keys)]): row[-1] for row in record["untrusted"]}
    rows, left_out = [], []
    for row in document["results"]:
        key = tuple(row[name] for name in keys)
        label = ", ".join(f"{name} {row[name]}" for name in keys) + f" on {row['device']}"
        if row["verdict"] not in COMPARE["trusted"]["verdict"]:
            left_out.append(f"{label}: verdict is '{row['verdict']}' in yours")
        elif not row[value]:
            left_out.append(f"{label}: {value} is {show_scalar(row[value])} in yours")
        elif key in untrusted:
            left_out.append(f"{label}: {untrusted[key]} in the record")
        elif key not in recorded:
            left_out.append(f"{label}: the record has no such row")
        else:
            expected, spread = recorded[key]
            margin = max(COMPARE_TOLERANCE, spread or 0.0)
            ratio = row[value] / expected
            rows.append(
                {name: row[name] for name in (*keys, "device")}
                | {"yours": row[value], "recorded": expected, "ratio": ratio}
                | {"low": max(0.0, expected * (1 - margin)), "high": expected * (1 + margin)}
                | {"verdict": judge_ratio(ratio, margin), "margin": margin}
                | {"spread": row["spread"], "recorded_spread": spread}
            )
    order = ("far below", "below", "far above", "above", "within")
    rows.sort(key=lambda entry: order.index(entry["verdict"]))
    return rows, left_out


def shorten(left_out: list[str]) -> list[str]:
    """The first few of what is left out, and how many more there are."""
    shown = [f"left out: {text}" for text in left_out[:5]]
    rest = len(left_out) - len(shown)
    return [*shown, f"left out: {rest} more"] if rest else shown


def compare_job(
    document: dict[str, Any],
    baseline: dict[str, Any],
    hardware: str | None,
    power_limit: str = "",
) -> dict[str, Any]:
    """This run beside the newest recorded one that is like it, with the verdict in sentences.

    Expected is recorded * (1 +- max(5 %, spread)): the median of another run on such a machine
    leaves the middle half of the recorded samples for a reason only, and 5 % is what two machines
    of one kind may differ by. The run is judged by the geometric mean of yours over recorded.
    """
    records = sorted(baseline["records"], key=lambda r: (r["started"], r["name"]), reverse=True)
    facts = (hardware, power_limit)
    alike = [record for record in records if not find_job_differences(document, record, *facts)]
    for record in alike:
        rows, left_out = match_rows(document, record)
        if rows:
            break
    else:
        return {"record": None, "sentences": explain_no_match(document, records, alike, *facts)}
    ratio = math.exp(statistics.fmean(math.log(row["ratio"]) for row in rows))
    margin = statistics.median(row["margin"] for row in rows)
    verdict = judge_ratio(ratio, margin)
    comparison = {
        "record": record["name"],
        "started": record["started"],
        "hardware": record["hardware"],
        "hardware_checked": hardware is not None,
        "tolerance": COMPARE_TOLERANCE,
        "ratio": ratio,
        "verdict": verdict,
        "worse": "below" in verdict or any(row["verdict"] == "far below" for row in rows),
        "rows": rows,
        "left_out": left_out,
    }
    what = f"the recorded run of {record['started'][:10]} on {record['hardware']}"
    low, high = (100 * max(0.0, 1 + sign * margin) for sign in (-1, 1))
    verdicts = [row["verdict"] for row in rows]
    counts = [f"{verdicts.count(word)} {word}" for word in dict.fromkeys(verdicts)]
    head = f"your run stands at {100 * ratio:.1f} % of {what} ({record['name']}), as geometric "
    head += f"mean over {len(rows)} rows; expected {low:.1f} to {high:.1f} %: {verdict}"
    sentences = [head, f"rows: {', '.join(counts)}"]
    if any(row["verdict"] == "far above" for row in rows):
        sentences.append("far better than recorded needs a reason as much as far worse does")
    wide = sum(row["margin"] >= 1 for row in rows)
    if wide:
        sentences.append(
            f"{wide} of the recorded rows spread as widely as their value: no lower bound"
        )
    if not document["complete"]:
        sentences.append("yours is partial: not all was measured that was asked for")
    if hardware is None:
        sentences.append(
            f"not checked: whether yours is {record['hardware']} too; give the facts of the "
            "machine (env_report.py --json FILE) with --facts FILE"
        )
    elif record.get("power_limit") and not power_limit:
        sentences.append(
            f"not checked: whether yours has a power limit of {record['power_limit']} too"
        )
    return comparison | {"sentences": sentences + shorten(left_out)}


def explain_no_match(
    document: dict[str, Any],
    records: list[dict[str, Any]],
    alike: list[dict[str, Any]],
    hardware: str | None,
    power_limit: str,
) -> list[str]:
    """Why no record can stand beside this run, the nearest first."""
    if not records:
        return ["there is no whole record of all_reduce_bench"]
    if not alike:
        kinds: dict[tuple[tuple[str, str], ...], str] = {}
        for record in records:
            pairs = tuple(find_job_differences(document, record, hardware, power_limit))
            kinds.setdefault(pairs, record["name"])
        reasons = []
        for pairs, name in sorted(kinds.items(), key=lambda item: len(item[0]))[:3]:
            theirs, ours = (", ".join(side) for side in zip(*pairs, strict=True))
            reasons.append(f"{name} is {theirs}, yours is {ours}: not compared")
        return reasons
    if not document["results"]:
        return [f"yours has no rows to compare with {alike[0]['name']}"]
    _, left_out = match_rows(document, alike[0])
    return [f"none of your rows can stand beside one of {alike[0]['name']}", *shorten(left_out)]


def list_compared_rows(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The compared rows as a table of texts, its head first."""
    cells = [[*COMPARE["keys"], "yours, GB/s", "recorded", "%", "expected", "verdict"]]
    for row in rows:
        names = [show_scalar(row[name]) for name in COMPARE["keys"]]
        cells.append([*names, *show_compared(row, 1e9), row["verdict"]])
    return cells


def show_compared(row: dict[str, Any], factor: float) -> tuple[str, str, str, str]:
    """Yours, recorded, percent, and what is expected."""

    def show(rate: float, spread: float | None) -> str:
        return format_earned(rate / factor, None if spread is None else spread * rate / factor / 2)

    step = row["margin"] * row["recorded"] / factor / 10
    low, high = (format_earned(row[name] / factor, step) for name in ("low", "high"))
    return (
        show(row["yours"], row["spread"]),
        show(row["recorded"], row["recorded_spread"]),
        f"{100 * row['ratio']:.1f}",
        f"{low} to {high}",
    )


def print_job_comparison(comparison: dict[str, Any]) -> None:
    """The verdict below the tables of the run, and the rows that it stands on."""
    sentences = comparison["sentences"]
    lead = [] if comparison["record"] else ["nothing to compare with"]
    print("\n" + "\n".join([*lead, *sentences]))
    if comparison["record"]:
        head, *cells = list_compared_rows(comparison["rows"])
        print("\n" + format_table(head, cells))


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
    """Check formulas, patterns and a real run of two ranks on the CPU; 0, or 1 where one fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    check("busbw of all_reduce over 8 ranks is 1.75 algbw", get_bus_factor("all_reduce", 8) == 1.75)
    check("busbw of all_gather over 4 ranks is 0.75 algbw", get_bus_factor("all_gather", 4) == 0.75)
    row = summarise_ranks([[1.0, 2.0], [3.0, 4.0]], "all_reduce", 100)
    check("means over ranks 2 and 3 have median 2.5", row["seconds_median"] == 2.5)
    check("100 bytes in 2.5 s over 2 ranks: 40 B/s", row["busbw_bytes_per_second_median"] == 40.0)
    check("rank 1 is the slowest", row["slowest_rank"] == 1)
    fit = fit_line([10, 20, 40], [3.0, 4.0, 6.0])
    check(
        "2 s + size / 10 B/s is found again",
        fit is not None
        and math.isclose(fit.latency_seconds, 2.0)
        and math.isclose(fit.bytes_per_second or 0.0, 10.0),
    )
    torch = import_torch()
    for ranks, dtype in ((2, "float32"), (300, "bfloat16")):
        kind = getattr(torch, dtype)
        total = torch.zeros(5000, dtype=kind)
        for rank in range(ranks):
            part = torch.empty(5000, dtype=kind)
            fill_pattern(torch, part, list_sum_pattern(rank, ranks, DTYPES[dtype]))
            total += part
        expected = list_total_pattern(ranks, DTYPES[dtype])
        wrong = count_unlike(torch, total, expected)
        total[4321] += 1
        check(
            f"the sum of {ranks} ranks in {dtype} is exact, one wrong element is found",
            (wrong, count_unlike(torch, total, expected)) == (0, 1),
        )
    with tempfile.TemporaryDirectory(prefix="bench_") as folder:
        path = Path(folder) / "run.json"
        command = [sys.executable, str(Path(__file__).resolve()), *PROFILES["toy"]]
        command += ["--collective", "all", "--mode", "both", "--max_size", "64KiB"]
        command += ["--ranks", "2", "--num_iterations", "5", "--json", str(path)]
        environ = {k: v for k, v in os.environ.items() if k not in ("RANK", "SLURM_PROCID")}
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=240, check=False, env=environ
        )
        if done.returncode:
            print(done.stderr, file=sys.stderr)
        document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    rows = document.get("results", [])
    check("two ranks measure 7 collectives, 2 modes, 2 sizes", len(rows) == 28)
    for name in COLLECTIVES:
        ours = [row for row in rows if row["collective"] == name]
        check(f"{name}: every answer is right", bool(ours) and all(r["answer_ok"] for r in ours))
    check(
        "busbw is the factor times size over time",
        bool(rows)
        and all(
            math.isclose(
                row["busbw_bytes_per_second_median"] * row["seconds_median"],
                get_bus_factor(row["collective"], 2) * row["size_bytes"],
            )
            for row in rows
        ),
    )
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="all_reduce_bench.py",
        description="Measure the bus bandwidth of all-reduce and other collectives over payloads.",
        epilog="The docstring at the top of this file tells what is timed and how to run it.",
        allow_abbrev=False,
    )
    what = parser.add_argument_group("what")
    what.add_argument(
        "--collective",
        nargs="+",
        choices=(*COLLECTIVES, "all"),
        default=["all_reduce"],
        metavar="NAME",
        help=f"{', '.join(COLLECTIVES)}, or all of them (default: all_reduce)",
    )
    what.add_argument(
        "--mode",
        choices=("blocking", "async", "both"),
        default="blocking",
        help="wait for each call, or for a queue of --depth calls (default: blocking)",
    )
    what.add_argument(
        "--min_size", type=parse_bytes, metavar="SIZE", help="smallest payload (default: 32KiB)"
    )
    what.add_argument(
        "--max_size",
        type=parse_bytes,
        metavar="SIZE",
        help="largest payload, by doubling (default: 16GiB, on a CPU 64MiB, and what fits)",
    )
    what.add_argument(
        "--payload_size_in_gib", type=parse_positive, metavar="GIB", help="this payload alone"
    )
    what.add_argument(
        "--dtype", choices=tuple(DTYPES), default="float32", help="data type (default: float32)"
    )
    timing = parser.add_argument_group("timing")
    timing.add_argument(
        "--num_iterations",
        type=parse_count,
        default=DEFAULT_ITERATIONS,
        metavar="N",
        help=f"samples per payload (default: {DEFAULT_ITERATIONS})",
    )
    timing.add_argument(
        "--num_warmup_iterations",
        type=parse_count_or_none,
        default=DEFAULT_WARMUPS,
        metavar="N",
        help=f"first iterations, which do not count; at least one (default: {DEFAULT_WARMUPS})",
    )
    timing.add_argument(
        "--depth",
        type=parse_count,
        default=DEFAULT_DEPTH,
        metavar="N",
        help=f"calls in the queue of --mode async, as far as memory allows "
        f"(default: {DEFAULT_DEPTH})",
    )
    timing.add_argument(
        "--profile_stability",
        action="store_true",
        help="keep each iteration of each rank in the JSON, and plot them",
    )
    timing.add_argument(
        "--budget",
        type=parse_duration,
        metavar="DURATION",
        help="end after this wall-clock time with the results so far: 90s, 10m, 1h30m",
    )
    ranks = parser.add_argument_group("ranks")
    ranks.add_argument("--device", metavar="KIND", help="cuda, xpu, cpu (default: what is there)")
    ranks.add_argument(
        "--ranks",
        type=parse_count,
        metavar="N",
        help="without a launcher: start so many here (default: all accelerators, or 2 on a CPU)",
    )
    ranks.add_argument(
        "--timeout",
        type=parse_duration,
        default=300.0,
        metavar="DURATION",
        help="what the other ranks, or one call, may take (default: 5m)",
    )
    # Old launchers add it; the environment says the same.
    ranks.add_argument("--local_rank", "--local-rank", type=int, help=argparse.SUPPRESS)
    output = parser.add_argument_group("output")
    output.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    output.add_argument("--plot", type=Path, metavar="PATH", help="busbw over payload, SVG or PNG")
    output.add_argument(
        "--peak",
        type=parse_positive,
        metavar="GB/S",
        help="what the slowest link can do in one direction: adds a share, flags what is above",
    )
    output.add_argument(
        "--compare",
        nargs="?",
        type=Path,
        const=OWN_BASELINE,
        metavar="FILE",
        help="say how the run stands beside recorded ones, by default those in "
        "all_reduce_bench.baseline.json beside this file",
    )
    output.add_argument(
        "--facts",
        type=Path,
        metavar="FILE",
        help="JSON of env_report.py on this machine, for --compare to know the hardware",
    )
    other = parser.add_argument_group("other")
    other.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    other.add_argument(
        "--version", action="version", version=f"all_reduce_bench {__version__} (method {METHOD})"
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense, before anything is measured or imported."""
    check_output_paths(options.json, options.plot)
    if "all" in options.collective and len(options.collective) > 1:
        raise WrongUse("--collective all is all of them; name no other beside it")
    if options.payload_size_in_gib is not None and (options.min_size or options.max_size):
        raise WrongUse("--payload_size_in_gib is one payload; leave --min_size and --max_size out")
    smallest = options.min_size or 0
    if options.max_size and smallest > options.max_size:
        raise WrongUse("--min_size is above --max_size")
    if options.facts and not options.compare:
        raise WrongUse("--facts is for --compare; give both")
    if options.ranks == 1:
        raise WrongUse("--ranks 1: one rank has nobody to talk to; use 2 or more")


def was_stopped(journal: BenchJournal, stop: StopSign) -> bool:
    """Whether a signal has cost results; one that came after the last of them has not."""
    return stop.by_signal and not journal.complete


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    command = make_portable_command(arguments)
    place = read_rank(os.environ)
    # The ranks that this process starts speak for themselves.
    stop = SpokenStop(speaks=place is not None and place[0] == 0)
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_options(options)
        baseline = read_records(options.compare) if options.compare else None
        facts = read_hardware(options.facts) if options.facts else (None, "")
        stop.listen()
        if place is None or place[1] == 1:
            count = count_local_ranks(options.ranks, options.device)
            if place is not None or count == 1:
                raise WrongUse("one rank has nobody to talk to; use --ranks 2, or more nodes")
            check_payload(options, count)
            return 1 if stop.by_signal else launch_ranks(count, arguments)
        check_payload(options, place[1])
        stop.deadline = origin + options.budget if options.budget else None
        journal = run_bench_rank(options, place, command, stop, origin)
        if place[0] != 0:
            if journal.failure:
                print(journal.failure, file=sys.stderr)
            return 1 if journal.failure or was_stopped(journal, stop) else 0
        if baseline:
            journal.comparison = compare_job(journal.to_document(), baseline, *facts)
            journal.write()
        problems = print_report(journal)
        if journal.comparison:
            print_job_comparison(journal.comparison)
        if options.plot and journal.rows:
            draw_bandwidth(journal, options.plot)
        if journal.unwritten:
            write_note(f"{journal.unwritten}; the JSON has less than the table")
            problems += 1
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
    return 1 if problems or was_stopped(journal, stop) else 0


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
