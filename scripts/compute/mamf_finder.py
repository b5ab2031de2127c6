#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""How many matmul FLOP/s can this accelerator really do, and at which shapes?

A datasheet gives a peak that no program reaches. The rate that a plain dense matrix
multiplication reaches is the ceiling to hold a training run against. This tool measures it over
many shapes and names the best: the maximum achievable matmul FLOPS (MAMF), a term coined by
Stas Bekman, whose book and finder tool started this practice.

Physics
    C = A @ B with A of m x k and B of k x n takes one multiplication and one addition for each
    of the m * n * k products:  operations = 2 * m * n * k   (the convention of every datasheet).
    rate = operations / seconds.  Hand check: m = n = k = 1024 gives 2147483648 operations; in
    1 ms that is 2.1 TFLOPS.  Dense figures only: a datasheet's sparse peak is twice as large.

What is timed
    One torch.mm (torch._scaled_mm for float8) into an output that exists already, between two
    device events on an accelerator, or between two readings of a nanosecond clock on a CPU.
    B is stored as n x k and used transposed, as a linear layer stores its weight. Inputs are
    normally distributed: zeros or constants would draw less power and look faster. Before each
    timing the output gets new random values, and a buffer larger than the last-level cache is
    overwritten, so that inputs come from memory.
What is not timed
    Allocation, filling with random numbers, the cache flush, the accelerator's warm-up, the
    warm-up iterations of each shape, and the check of the answer: the last product of each
    shape is compared, on a slice, with one in float64.
What is reported
    For each shape: samples, median, mean, interquartile range, minimum and maximum of seconds,
    and the rate at the median, the mean and the minimum time. A rate above --peak is flagged and
    kept out of the best, as is a product that is wrong. A `~` before a rate says that its spread
    leaves no digit of it certain. And a verdict, the first of these that applies:
        WRONG ANSWER   the product is not that of float64
        above peak     faster than --peak
        suspect        far slower than other rows show to be possible: see the note
        stopped early  the search saw that it cannot be the best, and measured no further
        one sample, few samples   fewer than 4: no quartiles, so nobody knows the spread
        unsteady       the samples disagree, or the later ones with the earlier ones
        overhead       bound by launch or other overhead, not by arithmetic: a small shape
        ok             none of these

Which shapes are measured (--search)
    exhaustive     all of the grid, in an order that spreads over it
    spread         the first of that order: an even sample, by default a twentieth of the grid
    adaptive       a search for the best shape within a twentieth of the grid, in number and in
                   time: an even sample first, then one shape after the other where a model of
                   the rates expects most. The model (a Gaussian process) knows that like sizes
                   have like rates, that multiples of 64, 128 and 256 stand out, and that shapes
                   of as many tiles fill the device alike. A shape whose warm-up already shows
                   that it is slower than the best ends there. The best is measured like any
                   other row; what was not looked at may hide a better one. Default with
                   --budget on a large grid.

How to run
    one GPU         python mamf_finder.py --m_range 0 16384 1024 --n 4096 8192 --k 4096 8192
    your model      python mamf_finder.py --m 16384 --n 28672 --k 8192 --dtype float8_e4m3fn
    a whole node    python mamf_finder.py --all_devices --json node.json
    ten minutes     python mamf_finder.py --m_range 0 20480 512 --n_range 0 20480 512 \
                        --k_range 0 20480 512 --budget 10m --json out.json
    all of it       the same with --search exhaustive: days instead of minutes
    and go on       the same command with --resume out.json
    Slurm           srun --ntasks-per-node=1 --gpus-per-node=8 --signal=USR1@60 \
                        bash -c 'python mamf_finder.py --all_devices --json $SLURM_NODEID.json'
    pdsh            pdsh -w node[01-08] 'python /shared/mamf_finder.py --all_devices \
                        --json /shared/$(hostname).json'
    is that good?   python env_report.py --json facts.json, and then --compare --facts facts.json:
                        beside recorded runs of the same hardware, data type and shape
    In --m_range START STOP STEP, a START of 0 means STEP, and STOP itself is left out, as in
    Python's range. Ctrl-C, SIGTERM, SIGUSR1 and the end of --budget keep what was measured.

A good answer: no warning of a large spread; all GPUs of a node within a few percent of each
other; the best rate stays the same when the run is repeated; a rate below the datasheet's dense
peak. If it is far below, look at the clocks, the power limit and the throttle reasons of the run
(they are in the JSON where NVML is there), and at cooling, before you blame the software.

Exit status: 0 done (also when --budget ended it), 1 a wrong answer, a rate above --peak, a failed
device, nothing measured, or stopped by a signal, 2 wrong use.
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
import itertools
import json
import math
import os
import platform
import queue
import random
import re
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.2.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
# fmt: off
PROFILES = {
    "toy": [
        "--device", "cpu", "--m", "256", "512", "--n", "256", "512", "--k", "256", "512",
        "--num_iterations", "20", "--num_warmup_iterations", "5",
        "--accelerator_warmup_seconds", "0.5",
    ],
    "full": [
        "--m_range", "0", "20480", "1024", "--n_range", "0", "20480", "1024",
        "--k_range", "0", "20480", "1024", "--budget", "30m",
    ],
}
# fmt: on

# Which results stand beside which, by which column, and what else has to be equal for that.
COMPARE = {
    "keys": ["dtype", "m", "n", "k"],
    "value": "flops_per_second_median",
    "better": "higher",
    "spread": "spread",
    "member": "device",
    "trusted": {"verdict": ["ok", "unsteady", "overhead"]},
    "alike": [
        "details.header.device_kind",
        "details.header.device_model",
        "details.header.threads",
        "details.settings.fast_accumulation",
    ],
}
# Machines of one kind differ by a few percent; what is beyond three times the margin is far off.
COMPARE_TOLERANCE = 0.05
COMPARE_FAR = 3.0
BASELINE_SCHEMA = 1
OWN_BASELINE = Path(__file__).resolve().with_name("mamf_finder.baseline.json")

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "m": "1",
    "n": "1",
    "k": "1",
    "operations": "FLOP",
    "samples": "1",
    "seconds_median": "s",
    "seconds_mean": "s",
    "seconds_iqr": "s",
    "seconds_min": "s",
    "seconds_max": "s",
    "flops_per_second_median": "FLOP/s",
    "flops_per_second_mean": "FLOP/s",
    "flops_per_second_max": "FLOP/s",
    "spread": "1",
    "drift": "1",
    "answer_error": "1",
    "share_of_peak": "1",
    "clock_hertz_median": "Hz",
    "temperature_celsius_max": "degC",
    "power_watts_median": "W",
}

DTYPES = ("bfloat16", "float16", "float32", "tf32", "float8_e4m3fn", "float8_e4m3fnuz")
FLOAT8_DTYPES = ("float8_e4m3fn", "float8_e4m3fnuz")

# Where no shape is asked for: seconds on a large accelerator, about a minute on two CPU cores.
DEFAULT_SHAPES = {
    "accelerator": {"m": list(range(1024, 16385, 1024)), "n": [4096, 8192], "k": [4096, 8192]},
    "cpu": {"m": [512, 1024, 2048], "n": [512, 1024], "k": [512, 1024]},
    "toy": {"m": [64, 128], "n": [64, 128], "k": [64, 128]},
}
DEFAULT_ITERATIONS = {"accelerator": (100, 50), "cpu": (100, 50), "toy": (10, 2)}
DEFAULT_WARMUP_SECONDS = {"accelerator": 30.0, "cpu": 2.0, "toy": 0.1}

MIB = 1024**2
# Larger than the last-level cache of the accelerators known today, so that nothing survives:
# the flush takes a small part of the run and is not timed.
FLUSH_BYTES = {"cpu": 64 * MIB, "accelerator": 256 * MIB, "rocm": 512 * MIB}

# Largest allowed relative error (Frobenius norm) of the checked slice against float64. The
# rounding of the output gives about 2**-9 for bfloat16, which float8 runs write too, and 2**-12
# for float16; the rest is room for partial sums kept in reduced precision. For float32 it stays
# below what tf32 gives (about 3e-4), so that tf32 passing for float32 is found out.
ERROR_LIMITS = {
    "bfloat16": 1e-2,
    "float16": 5e-3,
    "float32": 5e-5,
    "tf32": 3e-3,
    "float8_e4m3fn": 2e-2,
    "float8_e4m3fnuz": 2e-2,
}
CHECKED_ROWS = 16

WIDE_SPREAD = 0.05
LARGE_DRIFT = 0.05
# Below this many samples a quartile is an interpolation between two of them, and no measurement.
QUARTILE_SAMPLES = 4
# How many times longer than other rows show to be possible a time has to be to be suspect. Poor
# kernels and odd sizes cost a factor of 2 to 4; a thread that waits for its turn costs 10 to 1000.
SUSPECT_FACTOR = 5.0
# Times that differ by less than this factor count as the same.
SAME_TIME_FACTOR = 1.25
# A search looks at a twentieth of the grid; below this many shapes it would not be worth its name.
SEARCHED_SHARE = 20
FEWEST_EVALUATIONS = 30
# A grid with more shapes is first searched thinned, and then in full near the best of those.
LARGEST_GRID = 20_000
MOST_EVALUATIONS = 1000
# The even sample at the beginning, as a share of the shapes that are looked at.
SAMPLED_SHARE = 0.15
# How far behind the best the model tells shapes apart, as a natural logarithm: 61 % of it.
LARGEST_LAG = 0.5
# Products of the warm-up after which a shape may be given up; the first ones do not count.
RACE_CHECKS = (8, 16, 32)
RACE_UNCOUNTED = 3
# Standard errors of the median between a shape's time and what the best would have taken.
RACE_ERRORS = 2.5
# A launch takes microseconds; a fixed cost above this is something else.
LAUNCH_SECONDS = 1e-3
# With more rows than this each is compared with the fastest of each region, not with every other.
COMPARED_ROWS = 500
SAMPLING_SECONDS = 0.1
JSON_EVERY_SECONDS = 5.0
WORKER_STOP_SECONDS = 120.0

CRITICAL_ENVIRONMENT = (
    "AMD_SERIALIZE_KERNEL",
    "CUBLASLT_WORKSPACE_SIZE",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "GOMP_CPU_AFFINITY",
    "HIPBLASLT_ALLOW_TF32",
    "HIP_LAUNCH_BLOCKING",
    "KMP_AFFINITY",
    "MKL_NUM_THREADS",
    "NVIDIA_TF32_OVERRIDE",
    "OMP_NUM_THREADS",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "ONEDNN_MAX_CPU_ISA",
    "PT_HPU_LAZY_MODE",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_TUNABLEOP_ENABLED",
    "PYTORCH_TUNABLEOP_FILENAME",
    "PYTORCH_TUNABLEOP_TUNING",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "TORCH_BLAS_PREFER_CUBLASLT",
    "TORCH_BLAS_PREFER_HIPBLASLT",
)

# Bits of nvmlClocksEventReasons in NVIDIA's NVML API reference that slow a busy GPU down.
THROTTLE_BITS = {
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}

Row = dict[str, Any]


class Shape(NamedTuple):
    """A product of an m x k with a k x n matrix."""

    m: int
    n: int
    k: int


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


class Stopped(Exception):
    """The run ends here, by a signal or by the budget; what was measured is kept."""


class Sample(NamedTuple):
    """What NVML said of one GPU at one moment."""

    moment: float
    clock_hertz: float
    temperature_celsius: float
    power_watts: float
    throttle_bits: int


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


def count_operations(m: int, n: int, k: int) -> int:
    """Floating-point operations of a dense m x k by k x n product: 2 * m * n * k."""
    return 2 * m * n * k


def expand_range(start: int, stop: int, step: int, option: str = "a range of") -> list[int]:
    """The sizes start, start + step, ... below stop; a start of 0 means step.

    Raises WrongUse, with the name of the option, where there is no such size.
    """
    given = f"{option} {start} {stop} {step}"
    if step < 1:
        raise WrongUse(f"{given}: STEP has to be at least 1")
    if start < 0:
        raise WrongUse(f"{given}: START has to be at least 0")
    sizes = list(range(start or step, stop, step))
    if not sizes:
        raise WrongUse(
            f"{given}: no size is in it; STOP is left out, so it has to be above START (and a "
            "START of 0 means STEP)"
        )
    return sizes


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


def parse_size(text: str) -> int:
    """A matrix dimension: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' is no matrix size: write a whole number from 1")
    return int(text)


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


def parse_not_negative(text: str) -> float:
    """A finite number from 0."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (value >= 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a number from 0")
    return value


def summarise_seconds(seconds: Sequence[float], operations: int) -> Row:
    """Samples, median, mean, IQR, min, max of seconds, the rates, the spread and the drift.

    The quartiles are those of linear interpolation between the samples (numpy's default). The
    rates are operations over the median, the mean, and the smallest time. `drift` is the median
    of the second half over that of the first half, less one: in a steady state it is near 0.
    Fewer than QUARTILE_SAMPLES samples have no quartiles, so IQR and spread are None.
    """
    ordered = sorted(seconds)
    median = statistics.median(ordered)
    range_of_half = None
    if len(ordered) >= QUARTILE_SAMPLES:
        low, _, high = statistics.quantiles(ordered, n=4, method="inclusive")
        range_of_half = high - low
    half = len(seconds) // 2
    drift = None
    if half >= 5 and statistics.median(seconds[:half]) > 0:
        drift = statistics.median(seconds[-half:]) / statistics.median(seconds[:half]) - 1

    def rate(time_taken: float) -> float | None:
        return operations / time_taken if time_taken > 0 else None

    mean = statistics.fmean(ordered)
    return {
        "samples": len(ordered),
        "seconds_median": median,
        "seconds_mean": mean,
        "seconds_iqr": range_of_half,
        "seconds_min": ordered[0],
        "seconds_max": ordered[-1],
        "flops_per_second_median": rate(median),
        "flops_per_second_mean": rate(mean),
        "flops_per_second_max": rate(ordered[0]),
        "spread": range_of_half / median if range_of_half is not None and median > 0 else None,
        "drift": drift,
    }


def is_steady(row: Row) -> bool | None:
    """The samples agree with each other, the later with the earlier; None: too few to tell."""
    if row["samples"] < QUARTILE_SAMPLES:
        return None
    wide = row["spread"] is None or row["spread"] > WIDE_SPREAD
    drifts = row["drift"] is not None and abs(row["drift"]) > LARGE_DRIFT
    return not wide and not drifts


def is_usable(row: Row) -> bool:
    """A right answer in a time that the clock can see: only such a row counts."""
    return row["answer_ok"] is True and row["flops_per_second_max"] is not None


def estimate_doubt(row: Row) -> float | None:
    """How far the median rate may be off, as a share of it; None where one sample is all.

    Half the IQR, and for 2 or 3 samples half the range, over the median time.
    """
    if row["spread"] is not None:
        return float(row["spread"]) / 2
    if row["samples"] < 2 or row["seconds_median"] <= 0:
        return None
    return float((row["seconds_max"] - row["seconds_min"]) / row["seconds_median"] / 2)


def get_shape(row: Row) -> Shape:
    """The shape that the row is about."""
    return Shape(row["m"], row["n"], row["k"])


def count_pieces(whole: Shape, piece: Shape) -> int:
    """Products of one shape that do the work of another; 1 where the other fits into it."""
    return math.prod(-(-size // part) for size, part in zip(whole, piece, strict=True))


def choose_references(rows: Sequence[Row]) -> list[Row]:
    """The rows to compare with: all, or of very many the fastest in each octave of the sizes."""
    if len(rows) <= COMPARED_ROWS:
        return list(rows)
    fastest: dict[tuple[int, ...], Row] = {}
    for row in rows:
        octave = tuple(size.bit_length() for size in get_shape(row))
        known = fastest.get(octave)
        if known is None or row["flops_per_second_median"] > known["flops_per_second_median"]:
            fastest[octave] = row
    return list(fastest.values())


def find_suspects(rows: Sequence[Row]) -> dict[Shape, str]:
    """Rows of one device whose time the arithmetic does not explain, each with the reason.

    Two signs. The median is SUSPECT_FACTOR times the row's own fastest sample: most samples had
    to wait. Or another row shows a faster way: any product can be cut into pieces of the size of
    another one, or padded to it, so it should take no longer than so many pieces; a time of
    SUSPECT_FACTOR times that is suspect. Neither sign minds a launch-bound device, where the
    pieces cost a launch each, nor products that are limited by memory.
    """
    references = [
        (get_shape(row), row["seconds_median"])
        for row in choose_references([row for row in rows if not row["above_peak"]])
    ]
    suspects = {}
    for row in rows:
        shape, median, fastest = get_shape(row), row["seconds_median"], row["seconds_min"]
        if median >= SUSPECT_FACTOR * fastest:
            suspects[shape] = (
                f"its median of {format_time(median)} is {median / fastest:.0f} times its own "
                f"fastest sample, {format_time(fastest)}"
            )
            continue
        pieces, other, taken = min(
            ((count_pieces(shape, other), other, taken) for other, taken in references),
            key=lambda way: way[0] * way[2],
            default=(1, shape, median),
        )
        if median >= SUSPECT_FACTOR * pieces * taken:
            whole = f"{format_size(other)}, which it would fit into" if pieces == 1 else ""
            suspects[shape] = (
                f"its {format_time(median)} are {median / (pieces * taken):.0f} times the "
                f"{format_time(pieces * taken)} of "
                + (whole or f"{pieces} pieces of the size {format_size(other)}")
            )
    return suspects


def find_fixed_cost(rows: Sequence[Row]) -> dict[Shape, str]:
    """Rows of one device whose time is a fixed cost instead of arithmetic, each with the reason.

    A fixed cost is part of every time, so it shows in the smallest ones: in those within
    SAME_TIME_FACTOR of the fastest row. Where one of them has twice the m, n and k of another,
    8 times the operations and 4 times the bytes made no difference, and neither arithmetic nor
    memory limits these rows. All three sizes have to grow: more rows alone are free as long as
    the weight's way from memory takes longer, more tiles as long as units of the device idle.
    """
    floor = min((row["seconds_median"] for row in rows), default=0.0)
    low = [row for row in rows if row["seconds_median"] <= SAME_TIME_FACTOR * floor]
    shapes = [get_shape(row) for row in choose_references(low)]
    pairs = (
        (small, large)
        for small in shapes
        for large in shapes
        if all(2 * a <= b for a, b in zip(small, large, strict=True))
    )
    pair = next(pairs, None)
    if pair is None:
        return {}
    reason = (
        f"the time does not depend on the shape: {format_size(pair[0])} and {format_size(pair[1])} "
        f"both take about {format_time(floor)}"
    )
    return {get_shape(row): reason for row in low}


def choose_verdict(row: Row, is_suspect: bool = False, is_overhead: bool = False) -> str:
    """One word or two on how far to trust the row: the worst that applies."""
    samples = row["samples"]
    return next(
        word
        for word, applies in (
            ("WRONG ANSWER", not row["answer_ok"]),
            ("above peak", row["above_peak"]),
            ("suspect", is_suspect),
            ("stopped early", row.get("stopped_early", False)),
            ("one sample", samples == 1),
            ("few samples", samples < QUARTILE_SAMPLES),
            ("unsteady", not row["steady"]),
            ("overhead", is_overhead),
            ("ok", True),
        )
        if applies
    )


def judge_rows(rows: Sequence[Row]) -> None:
    """Set the verdict of each row, with the reason where it follows from comparing times."""
    for device in dict.fromkeys(row["device"] for row in rows):
        ours = [row for row in rows if row["device"] == device]
        usable = [row for row in ours if is_usable(row)]
        suspects = find_suspects(usable)
        fixed = find_fixed_cost([row for row in usable if get_shape(row) not in suspects])
        for row in ours:
            shape = get_shape(row)
            slow = suspects.get(shape)
            same = fixed.get(shape)
            if same and row["seconds_median"] > LAUNCH_SECONDS:
                slow, same = f"{same}, and no launch takes so long", None
            row["verdict"] = choose_verdict(row, slow is not None, same is not None)
            row["verdict_reason"] = {"suspect": slow, "overhead": same}.get(row["verdict"])


def summarise_rows(rows: Sequence[Row], peak: float | None = None) -> dict[str, Any]:
    """Best shape by mean, median and max, and both means of the median rates of all shapes.

    A rate above the peak cannot be the best: something is wrong with it, or with the peak.
    """
    usable = [row for row in rows if is_usable(row)]
    summary: dict[str, Any] = {"shapes": len(rows), "usable_shapes": len(usable)}
    for statistic in ("mean", "median", "max"):
        key = f"flops_per_second_{statistic}"
        whole = [row for row in usable if not row.get("stopped_early", False)]
        believed = [row for row in whole if peak is None or row[key] <= peak]
        best = max(believed, key=lambda row: row[key], default=None)
        summary[f"best_by_{statistic}"] = best and {
            "flops_per_second": best[key],
            "spread": best["spread"],
            "doubt": estimate_doubt(best),
            **{name: best[name] for name in ("m", "n", "k", "device")},
        }
    rates = [row["flops_per_second_median"] for row in usable]
    medians = [rate for rate in rates if peak is None or rate <= peak]
    summary["arithmetic_mean_flops_per_second"] = statistics.fmean(medians) if medians else None
    summary["geometric_mean_flops_per_second"] = (
        statistics.geometric_mean(medians) if medians else None
    )
    return summary


def compare_devices(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Devices by their geometric mean rate over the shapes that all of them measured.

    The slowest comes first; `relative` is the rate over the median device's, less one.
    """
    rates: dict[str, dict[Shape, float]] = {}
    for row in rows:
        if is_usable(row):
            rates.setdefault(row["device"], {})[get_shape(row)] = row["flops_per_second_median"]
    if not rates:
        return []
    common = set.intersection(*(set(of_device) for of_device in rates.values()))
    if not common:
        return []
    means = {
        device: statistics.geometric_mean([of_device[shape] for shape in common])
        for device, of_device in rates.items()
    }
    middle = statistics.median(means.values())
    return [
        {
            "device": device,
            "common_shapes": len(common),
            "geometric_mean_flops_per_second": mean,
            "relative": mean / middle - 1,
        }
        for device, mean in sorted(means.items(), key=lambda item: item[1])
    ]


def search_shapes(
    grid: tuple[Sequence[int], Sequence[int], Sequence[int]],
) -> Iterator[Shape]:
    """All shapes of a grid, in steps of its length over the golden ratio.

    A run that is cut short has seen the whole grid thinly instead of one corner of it, and slow
    heating of the device does not line up with size. The order is the same in each run.
    """
    total = math.prod(len(sizes) for sizes in grid)
    stride = max(1, round(total * 0.6180339887498949))
    while math.gcd(stride, total) != 1:
        stride += 1
    for step in range(total):
        rest, k = divmod((total // 2 + step * stride) % total, len(grid[2]))
        m, n = divmod(rest, len(grid[1]))
        yield Shape(grid[0][m], grid[1][n], grid[2][k])


class Step(NamedTuple):
    """A shape to measure, and the rate that it has to be able to reach to be measured to the end.

    Without a bar it is measured in any case; an infinite one asks for a first look only.
    """

    shape: Shape
    bar: float | None = None


class SearchPlan(NamedTuple):
    """How the shapes are chosen, and how many at most."""

    kind: str
    limit: int
    seed: int


def choose_search(options: argparse.Namespace, shape_count: int) -> SearchPlan:
    """The search that was asked for, or the one that fits. Raises WrongUse where none does."""
    kind = options.search
    if kind is None:
        is_large = shape_count >= SEARCHED_SHARE * FEWEST_EVALUATIONS
        kind = "adaptive" if options.budget and is_large else "exhaustive"
    if options.evaluations is not None and kind == "exhaustive":
        raise WrongUse("--evaluations is for --search adaptive or spread; this one is exhaustive")
    if options.seed is not None and kind != "adaptive":
        raise WrongUse(f"--seed is for --search adaptive, and this search is {kind}")
    limit = shape_count
    if kind != "exhaustive":
        limit = options.evaluations or max(FEWEST_EVALUATIONS, shape_count // SEARCHED_SHARE)
    return SearchPlan(kind, min(limit, shape_count), options.seed or 0)


def measure_alignment(size: int) -> list[float]:
    """How well a size fits tiles: its power of two, and how full its last tile would be."""
    power = min(8, (size & -size).bit_length() - 1)
    return [power / 4, *(4 * size / (-(-size // tile) * tile) for tile in (64, 128, 256))]


class Traits(NamedTuple):
    """What a landscape of rates is like."""

    reach: float  # over how many octaves of a size rates are alike
    alone: float  # share of what is peculiar to one size
    waves: float  # share of what the number of tiles decides
    noise: float


# Smooth and rough landscapes, with waves that matter or do not.
TRAITS = tuple(
    Traits(reach, alone, waves, noise)
    for reach, alone in ((1.0, 0.15), (2.0, 0.03))
    for waves in (0.5, 0.1)
    for noise in (1e-3, 1e-2)
)


class Surrogate:
    """What the rates measured so far tell of the others: a Gaussian process over a grid.

    Two shapes are alike as far as their sizes are alike on each axis (in size and in alignment),
    multiplied over the axes; and as far as they have the same number of tiles of 128 x 128, so
    that they fill the units of the device in as many waves. How much each of these counts is
    what the traits say; choose_model takes those that explain the measurements best.
    """

    ALIGNED = 0.3  # share of alignment in how sizes are alike
    AXIS = 0.7 / 1.7  # share of what one axis decides

    def __init__(self, torch: Any, grid: Sequence[Sequence[int]], traits: Traits) -> None:
        self.torch = torch
        self.grid = grid
        self.traits = traits
        self.lengths = [len(sizes) for sizes in grid]
        self.count = math.prod(self.lengths)
        self.axes = [self._relate(sizes) for sizes in grid]
        tiles = [torch.tensor([-(-size // 128) for size in sizes]) for sizes in grid[:2]]
        self.tiles = tiles[0][:, None] * tiles[1][None, :]
        self.places: list[int] = []
        self.room = 0
        self.lower = self.columns = torch.zeros(0, 0, dtype=torch.float64)
        self.variance = torch.ones(self.count, dtype=torch.float64)

    def _relate(self, sizes: Sequence[int]) -> Any:
        torch = self.torch
        logs = torch.tensor([math.log2(size) for size in sizes], dtype=torch.float64)
        near = torch.exp(-0.5 * ((logs[:, None] - logs[None, :]) / self.traits.reach) ** 2)
        fits = torch.tensor([measure_alignment(size) for size in sizes], dtype=torch.float64)
        like = torch.exp(-0.5 * ((fits[:, None] - fits[None, :]) ** 2).sum(-1))
        same = torch.eye(len(sizes), dtype=torch.float64)
        alone = self.traits.alone
        alike = (1 - self.ALIGNED - alone) * near + self.ALIGNED * like * near
        return 1 - self.AXIS + self.AXIS * (alike + alone * same)

    def _relate_to(self, place: int) -> Any:
        rest, k = divmod(place, self.lengths[2])
        m, n = divmod(rest, self.lengths[1])
        pairs = self.axes[0][m][:, None] * self.axes[1][n][None, :]
        waves = (self.tiles == self.tiles[m, n]).double()
        pairs = (1 - self.traits.waves) * pairs + self.traits.waves * waves
        return (pairs[:, :, None] * self.axes[2][k][None, None, :]).reshape(-1)

    def _make_room(self) -> None:
        self.room = max(64, 2 * self.room)
        for name, width in (("lower", self.room), ("columns", self.count)):
            held = getattr(self, name)
            larger = self.torch.zeros(self.room, width, dtype=self.torch.float64)
            larger[: held.shape[0], : held.shape[1]] = held
            setattr(self, name, larger)

    def learn(self, place: int) -> None:
        """Take in that this place of the grid is measured: one more row of the Cholesky factor."""
        known = len(self.places)
        if known == self.room:
            self._make_room()
        row = self.columns[:known, place].clone()
        diagonal = math.sqrt(max(1e-9, 1 + self.traits.noise - float(row @ row)))
        column = (self._relate_to(place) - row @ self.columns[:known]) / diagonal
        self.lower[known, :known] = row
        self.lower[known, known] = diagonal
        self.columns[known] = column
        self.variance -= column * column
        self.places.append(place)

    def predict(self, values: Sequence[float]) -> tuple[Any, Any]:
        """The expected value at each place of the grid, and its standard deviation.

        `values` are those of the measured places, in the order in which they were learnt.
        """
        known = len(self.places)
        target, centre, scale = self._scale(values)
        lower = self.lower[:known, :known]
        weights = self.torch.linalg.solve_triangular(lower, target, upper=False)[:, 0]
        mean = weights @ self.columns[:known]
        return mean * scale + centre, self.variance.clamp_min(1e-10).sqrt() * scale

    def _scale(self, values: Sequence[float]) -> tuple[Any, float, float]:
        given = self.torch.tensor(values, dtype=self.torch.float64)
        centre, scale = float(given.mean()), float(given.std(correction=0)) + 1e-6
        return ((given - centre) / scale)[:, None], centre, scale

    def explain(self, places: Sequence[int], values: Sequence[float]) -> float:
        """How well these traits explain values at some places: their logarithmic likelihood."""
        torch = self.torch
        where = torch.tensor(places)
        k, rest = where % self.lengths[2], where // self.lengths[2]
        m, n = rest // self.lengths[1], rest % self.lengths[1]
        tiles = self.tiles[m, n]
        pairs = (1 - self.traits.waves) * self.axes[0][m][:, m] * self.axes[1][n][:, n]
        pairs += self.traits.waves * (tiles[:, None] == tiles[None, :])
        noise = self.traits.noise * torch.eye(len(places), dtype=torch.float64)
        lower = torch.linalg.cholesky(pairs * self.axes[2][k][:, k] + noise)
        weights = torch.linalg.solve_triangular(lower, self._scale(values)[0], upper=False)
        return float(-0.5 * (weights**2).sum() - lower.diagonal().log().sum())


def choose_model(model: Surrogate, values: Sequence[float]) -> Surrogate:
    """The model of the same measurements whose traits explain them best."""
    others = [Surrogate(model.torch, model.grid, t) for t in TRAITS if t != model.traits]
    best = max((model, *others), key=lambda other: other.explain(model.places, values))
    for place in model.places if best is not model else ():
        best.learn(place)
    return best


def find_expected_gain(torch: Any, mean: Any, deviation: Any) -> Any:
    """How far each place is expected to be above 0: E[max(x, 0)] of a normal distribution."""
    ratio = mean / deviation
    above = 0.5 * (1 + torch.erf(ratio / math.sqrt(2)))
    density = torch.exp(-0.5 * ratio * ratio) / math.sqrt(2 * math.pi)
    return deviation * (ratio * above + density)


def estimate_reach(row: Row, operations: int) -> float:
    """The highest rate that the samples leave room for: RACE_ERRORS standard errors faster.

    The standard error of a median is 1.2533 times that of a mean; a normal distribution has an
    IQR of 1.349 standard deviations.
    """
    median, spread = row["seconds_median"], row["seconds_iqr"]
    if spread is None or median <= 0:
        return math.inf
    error = 1.2533 * spread / 1.349 / math.sqrt(row["samples"])
    fastest = median - RACE_ERRORS * error
    return operations / fastest if fastest > 0 else math.inf


def sample_evenly(seed: int, lengths: Sequence[int]) -> Iterator[int]:
    """Places of a grid that fill it evenly, without end: a Kronecker sequence of three numbers.

    The steps are the powers of the inverse of the root of x ** 4 = x + 1, which are the most
    evenly spread in three dimensions; the seed decides where it begins.
    """
    begin = [random.Random(f"{seed} {axis}").random() for axis in range(3)]
    for number in itertools.count(1):
        place = 0
        for axis, length in enumerate(lengths):
            share = (begin[axis] + number / 1.2207440846057596 ** (axis + 1)) % 1.0
            place = place * length + int(share * length)
        yield place


def thin_sizes(sizes: Sequence[int], count: int, near: int | None = None) -> list[int]:
    """At most `count` of the sizes: those next to one of them, or else spread over all.

    Of sizes that are spread, the one with the highest power of two stands for its neighbours.
    """
    ordered = sorted(sizes)
    if len(ordered) <= count:
        return ordered
    if near is not None:
        begin = min(max(0, ordered.index(near) - count // 2), len(ordered) - count)
        return ordered[begin : begin + count]
    bounds = [round(part * len(ordered) / count) for part in range(count + 1)]
    groups = [ordered[low:high] for low, high in itertools.pairwise(bounds)]
    return [max(group, key=lambda size: (size & -size, size)) for group in groups]


def search_adaptively(
    torch: Any,
    grid: tuple[Sequence[int], Sequence[int], Sequence[int]],
    rows: Sequence[Row],
    plan: SearchPlan,
    products: int,
) -> Iterator[Step]:
    """The shapes that are worth a look, one at a time; what came of it is the newest of `rows`.

    `products` is how many a shape takes that is measured to the end. The search ends with the
    plan's number of steps, or where the time spent on products reaches its share of the time
    that the whole grid is expected to take.
    """
    count = math.prod(len(sizes) for sizes in grid)
    if count <= LARGEST_GRID:
        yield from search_grid(torch, grid, rows, plan, products)
        return
    width = int(LARGEST_GRID ** (1 / 3) + 0.5)
    half = plan._replace(limit=min(MOST_EVALUATIONS, (plan.limit + 1) // 2))
    coarse = tuple(thin_sizes(sizes, width) for sizes in grid)
    yield from search_grid(torch, coarse, rows, half, products)
    best = choose_best(rows)
    if best is None:
        return
    fine = tuple(
        thin_sizes(sizes, width, size) for sizes, size in zip(grid, get_shape(best), strict=True)
    )
    yield from search_grid(torch, fine, rows, half, products)


def choose_best(rows: Iterable[Row]) -> Row | None:
    """The fastest of the rows that were measured to the end and can be believed."""
    whole = (row for row in rows if is_usable(row) and not row["stopped_early"])
    return max(
        (row for row in whole if not row["above_peak"]),
        key=lambda row: row["flops_per_second_median"],
        default=None,
    )


def search_grid(
    torch: Any,
    grid: Sequence[Sequence[int]],
    rows: Sequence[Row],
    plan: SearchPlan,
    products: int,
) -> Iterator[Step]:
    """The steps of search_adaptively in a grid that the model can hold as a whole."""
    model = Surrogate(torch, grid, TRAITS[0])
    shapes = [Shape(*sizes) for sizes in itertools.product(*grid)]
    places = {shape: place for place, shape in enumerate(shapes)}
    operations = torch.tensor([count_operations(*shape) for shape in shapes], dtype=torch.float64)
    known: dict[int, Row] = {}
    closed: set[int] = set()  # also what did not fit into the memory

    def read_rows() -> None:
        known.update({places[get_shape(r)]: r for r in rows if get_shape(r) in places})
        for place in known.keys() - closed:
            if is_usable(known[place]):
                model.learn(place)
            closed.add(place)

    read_rows()
    left = plan.limit - len(known)
    looked_at = {place for place, row in known.items() if row["stopped_early"]}
    sampled = min(max(8, round(SAMPLED_SHARE * plan.limit)), plan.limit, model.count) - len(known)
    # The largest shape comes first: it is often near the best.
    sample = itertools.chain([model.count - 1], sample_evenly(plan.seed, model.lengths))
    while sampled > 0:
        place = next(sample)
        if place in closed:
            continue
        sampled -= 1
        left -= 1
        yield Step(shapes[place], math.inf)
        read_rows()
        closed.add(place)
        looked_at.add(place)
    chosen_at = 0.0
    while left > 0 and model.places:
        leader = choose_best(known.values())
        best = leader["flops_per_second_median"] if leader else 0.0
        rivals = [
            place
            for place, row in known.items()
            if place in looked_at
            and is_usable(row)
            and row["stopped_early"]
            and estimate_reach(row, row["operations"]) > best
        ]
        fastest = max(known[place]["flops_per_second_median"] for place in model.places)
        values = [estimate_lag(known[place], fastest) for place in model.places]
        if len(values) >= chosen_at:
            model = choose_model(model, values)
            chosen_at = 1.25 * len(values)
        mean, deviation = model.predict(values)
        seconds = products * operations / (fastest * torch.exp(mean.clamp(-LARGEST_LAG, 0.05)))
        if rivals:
            place = max(rivals, key=lambda rival: known[rival]["flops_per_second_median"])
            looked_at.discard(place)
        else:
            gain = find_expected_gain(
                torch, mean - math.log((best or fastest) / fastest), deviation
            )
            gain[torch.tensor(sorted(closed))] = -1.0
            place = int(gain.argmax())
            if place in closed:
                return
        spent = count_seconds(known.values(), products)
        if best and spent + float(seconds[place]) > 0.95 * float(seconds.sum()) / SEARCHED_SHARE:
            return
        left -= 1
        yield Step(shapes[place], best)
        read_rows()
        closed.add(place)


def estimate_lag(row: Row, best: float) -> float:
    """The logarithm of a rate over the best one, cut off where it no longer matters."""
    return max(-LARGEST_LAG, math.log(float(row["flops_per_second_median"]) / best))


def count_seconds(rows: Iterable[Row], products: int) -> float:
    """Seconds of the products that these rows took, of those that were given up as of others."""
    return sum(
        row["seconds_median"]
        * (row["samples"] + RACE_UNCOUNTED if row["stopped_early"] else products)
        for row in rows
    )


def plan_steps(
    torch: Any,
    grid: tuple[Sequence[int], Sequence[int], Sequence[int]],
    rows: Sequence[Row],
    plan: SearchPlan,
    products: int,
) -> Iterator[Step]:
    """What to measure, one step after the other; `rows` grows while the run goes on."""
    if plan.kind == "adaptive":
        yield from search_adaptively(torch, grid, rows, plan, products)
        return
    known = {get_shape(row) for row in rows}
    for shape in itertools.islice(search_shapes(grid), plan.limit):
        if shape not in known:
            yield Step(shape)


def describe_search(
    plan: SearchPlan, grid: Sequence[Sequence[int]], rows: Sequence[Row], products: int
) -> dict[str, Any]:
    """What the search did, for the JSON: shapes and product time, of how many."""
    return {
        **plan._asdict(),
        "grid_shapes": math.prod(len(sizes) for sizes in grid),
        "shapes": len(rows),
        "shapes_stopped_early": sum(row["stopped_early"] for row in rows),
        "product_seconds": count_seconds(rows, products),
    }


def find_environment_traps(
    environ: Mapping[str, str], kind: str, is_rocm: bool, dtype: str, warmups: int
) -> list[str]:
    """Settings of the environment that change the result, each with what to do."""

    def is_on(name: str) -> bool:
        return environ.get(name, "0").lower() not in ("", "0", "false", "off")

    traps = []
    if is_rocm and not is_on("PYTORCH_TUNABLEOP_ENABLED"):
        traps.append(
            "TunableOp is off: on ROCm the default kernel of a shape may be far from the best; "
            "compare with PYTORCH_TUNABLEOP_ENABLED=1 (slow at the first use of each shape)"
        )
    if is_rocm and is_on("PYTORCH_TUNABLEOP_ENABLED"):
        traps.append(
            "TunableOp is on: the first product of each shape is a search for its kernel; these "
            "rates hold only for programs that run with the same tuning"
        )
        if warmups == 0:
            traps.append("TunableOp tunes inside the timing: use --num_warmup_iterations 1 or more")
    for name in ("CUDA_LAUNCH_BLOCKING", "HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL"):
        if kind == "cuda" and is_on(name):
            traps.append(f"{name} is set: launches wait for each other; unset it")
    if dtype == "float32":
        for name in ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"):
            if kind == "cuda" and is_on(name):
                traps.append(f"{name} is set: float32 may run as tf32; unset it")
        if kind == "cpu" and environ.get("ONEDNN_DEFAULT_FPMATH_MODE", "").upper() not in (
            "",
            "STRICT",
        ):
            traps.append("ONEDNN_DEFAULT_FPMATH_MODE is set: float32 may run in lower precision")
    return traps


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


def read_critical_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that change what a matmul does, as far as they are set."""
    return {name: hide_folders(environ[name]) for name in CRITICAL_ENVIRONMENT if name in environ}


def parse_cache_size(text: str) -> int:
    """Bytes of a cache in the notation of /sys: `32768K`, `96M`."""
    found = re.fullmatch(r"(\d+)([KMG]?)", text.strip())
    if found is None:
        return 0
    return int(found.group(1)) * {"": 1, "K": 1024, "M": MIB, "G": 1024**3}[found.group(2)]


def read_cpu_cache_bytes(sysfs: Path = Path("/sys/devices/system/cpu")) -> int:
    """Bytes of all last-level caches of this machine together, or 0 where not known."""
    caches: dict[tuple[int, str], int] = {}
    for folder in sysfs.glob("cpu[0-9]*/cache/index[0-9]*"):
        try:
            level = int((folder / "level").read_text())
            owner = (folder / "shared_cpu_list").read_text().strip()
            caches[level, owner] = parse_cache_size((folder / "size").read_text())
        except (OSError, ValueError):
            continue
    last = max((level for level, _ in caches), default=0)
    return sum(size for (level, _), size in caches.items() if level == last)


class Device:
    """One torch device: what to do on it, how to time it, what it is called."""

    def __init__(self, torch: Any, name: str | None) -> None:
        """Raises WrongUse where this torch has no such device."""
        self.torch = torch
        self.caveats: list[str] = []
        has_accelerator = hasattr(torch, "accelerator") and torch.accelerator.is_available()
        if name is None:
            name = torch.accelerator.current_accelerator().type if has_accelerator else "cpu"
        try:
            device = torch.device(name)
        except RuntimeError as error:
            raise WrongUse(f"--device {name}: {str(error).splitlines()[0]}") from error
        self.kind: str = device.type
        if self.kind != "cpu":
            present = torch.accelerator.current_accelerator() if has_accelerator else None
            if present is None or present.type != self.kind:
                here = present.type if present else "no accelerator, only cpu"
                raise WrongUse(f"--device {name}: this torch sees {here}")
            count = torch.accelerator.device_count()
            if (device.index or 0) >= count:
                raise WrongUse(f"--device {name}: there are only {count} of them, from 0")
            device = torch.device(self.kind, device.index or 0)
            set_device = getattr(torch.get_device_module(self.kind), "set_device", None)
            if set_device:  # a kind that is only ever one device has none
                set_device(device.index)
        elif device.index:
            raise WrongUse(f"--device {name}: the processor is one device, cpu")
        self.device = device
        self.name = str(device)
        self.is_rocm = self.kind == "cuda" and torch.version.hip is not None
        self.properties = self._read_properties()
        self.has_events = self.kind != "cpu" and self._try_events()

    def _read_properties(self) -> Any:
        if self.kind == "cpu":
            return None
        try:
            return self.torch.get_device_module(self.kind).get_device_properties(self.device)
        except (AttributeError, RuntimeError, TypeError):
            return None

    def _try_events(self) -> bool:
        try:
            start, end = self.make_event(), self.make_event()
            start.record()
            end.record()
            self.synchronise()
            start.elapsed_time(end)
        except (RuntimeError, NotImplementedError, TypeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            self.caveats.append(
                f"{self.name} has no events to time with ({reason}): the host's clock is used, "
                "which counts the launch too"
            )
            return False
        return True

    @property
    def tier(self) -> str:
        """Which defaults apply: those of an accelerator, or of a processor."""
        return "cpu" if self.kind == "cpu" else "accelerator"

    @property
    def model(self) -> str:
        """What the vendor calls it."""
        if self.kind == "cpu":
            return platform.machine() or "cpu"
        return str(getattr(self.properties, "name", None) or self.kind)

    def make_event(self) -> Any:
        """An event that takes the time."""
        return self.torch.Event(device=self.device, enable_timing=True)

    def synchronise(self) -> None:
        """Wait until the device has done all that it was given."""
        if self.kind != "cpu":
            self.torch.accelerator.synchronize(self.device)

    def choose_flush_bytes(self) -> int:
        """Size of the buffer whose overwriting empties the last-level cache."""
        if self.kind == "cpu":
            return max(FLUSH_BYTES["cpu"], 2 * read_cpu_cache_bytes())
        known = int(getattr(self.properties, "L2_cache_size", 0) or 0)
        return max(FLUSH_BYTES["rocm" if self.is_rocm else "accelerator"], 4 * known)

    def read_free_bytes(self) -> int | None:
        """Memory that a new shape may use, or None where nobody tells."""
        if self.kind == "cuda":
            return int(self.torch.cuda.mem_get_info(self.device)[0])
        if self.kind == "cpu":
            with contextlib.suppress(OSError, AttributeError):
                text = Path("/proc/meminfo").read_text()
                found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
                return int(found.group(1)) * 1024 if found else None
        return None

    def has_room(self, needed: int) -> bool:
        """Whether so many bytes fit, with a tenth of the free memory left over."""
        free = self.read_free_bytes()
        if free is not None and needed >= 0.9 * free and self.kind != "cpu":
            # What earlier shapes left in torch's cache is not free until it is given back.
            self.torch.get_device_module(self.kind).empty_cache()
            free = self.read_free_bytes()
        return free is None or needed < 0.9 * free

    def check_dtype(self, dtype: str, grid: tuple[Sequence[int], ...]) -> None:
        """Raises WrongUse where this device cannot do the data type, or not at these sizes."""
        if dtype == "tf32":
            if self.kind != "cuda" or self.is_rocm or self.properties.major < 8:
                raise WrongUse(
                    f"--dtype tf32 is a mode of NVIDIA GPUs from compute capability 8.0, not of "
                    f"{self.model}; use float32"
                )
            return
        if dtype not in FLOAT8_DTYPES:
            return
        if not hasattr(self.torch, "_scaled_mm"):
            raise WrongUse(f"--dtype {dtype}: this torch has no _scaled_mm; use a newer one")
        if self.kind == "mps":
            raise WrongUse(f"--dtype {dtype}: {self.model} has no float8 matmul")
        if self.kind != "cuda":
            return
        wanted = "float8_e4m3fn"
        if self.is_rocm:
            architecture = str(getattr(self.properties, "gcnArchName", ""))
            if architecture.startswith("gfx94"):
                wanted = "float8_e4m3fnuz"  # the MI300 series; later ones have the OCP format
        elif (self.properties.major, self.properties.minor) < (8, 9):
            raise WrongUse(
                f"--dtype {dtype} needs compute capability 8.9, and {self.model} has "
                f"{self.properties.major}.{self.properties.minor}; use bfloat16"
            )
        if dtype != wanted:
            raise WrongUse(f"--dtype {dtype} is not the float8 of {self.model}; use {wanted}")
        odd = sorted({size for sizes in grid[1:] for size in sizes if size % 16})
        if odd:
            raise WrongUse(
                f"--dtype {dtype} needs n and k that are multiples of 16 on a GPU, and "
                f"{odd[0]} is not"
            )

    def set_float32_mode(self, dtype: str) -> None:
        """Make float32 products run as float32, or as tf32 where that was asked for."""
        if dtype not in ("float32", "tf32"):
            return
        matmul = self.torch.backends.cuda.matmul
        if hasattr(matmul, "fp32_precision"):
            matmul.fp32_precision = "tf32" if dtype == "tf32" else "ieee"
        else:  # torch before 2.9
            matmul.allow_tf32 = dtype == "tf32"
        on_cpu = getattr(getattr(self.torch.backends, "mkldnn", None), "matmul", None)
        if on_cpu is not None and hasattr(on_cpu, "fp32_precision"):
            on_cpu.fp32_precision = "ieee"


class Problem:
    """The matrices of one shape on one device, and the product to time."""

    def __init__(self, device: Device, shape: Shape, dtype: str, fast_accumulation: bool) -> None:
        torch = device.torch
        place = device.device
        if dtype in FLOAT8_DTYPES:
            kind = getattr(torch, dtype)
            out_kind = torch.bfloat16
            self.a = torch.randn(shape.m, shape.k, dtype=out_kind, device=place).to(kind)
            self.weight = torch.randn(shape.n, shape.k, dtype=out_kind, device=place).to(kind)
            one = torch.ones((), dtype=torch.float32, device=place)
        else:
            out_kind = torch.float32 if dtype == "tf32" else getattr(torch, dtype)
            self.a = torch.randn(shape.m, shape.k, dtype=out_kind, device=place)
            self.weight = torch.randn(shape.n, shape.k, dtype=out_kind, device=place)
        b = self.weight.t()
        self.out = torch.empty(shape.m, shape.n, dtype=out_kind, device=place)

        def multiply_float8() -> None:
            torch._scaled_mm(
                self.a,
                b,
                scale_a=one,
                scale_b=one,
                out_dtype=out_kind,
                use_fast_accum=fast_accumulation,
                out=self.out,
            )

        def multiply() -> None:
            torch.mm(self.a, b, out=self.out)

        self.multiply: Callable[[], None] = multiply_float8 if dtype in FLOAT8_DTYPES else multiply

    @staticmethod
    def estimate_bytes(shape: Shape, dtype: str) -> int:
        """Device memory that the matrices of a shape take, with what making them takes."""
        if dtype in FLOAT8_DTYPES:
            return 3 * (shape.m + shape.n) * shape.k + 2 * shape.m * shape.n
        width = 4 if dtype in ("float32", "tf32") else 2
        return width * ((shape.m + shape.n) * shape.k + shape.m * shape.n)


def pick_evenly(size: int, count: int) -> list[int]:
    """Up to `count` indices below `size`, the first and the last among them."""
    if size <= count:
        return list(range(size))
    return sorted({round(i * (size - 1) / (count - 1)) for i in range(count)})


def measure_error(torch: Any, problem: Problem) -> float:
    """Relative error of a slice of the output against float64; infinite where it is not finite.

    The slice is CHECKED_ROWS rows by as many columns, spread over the matrix with its corners;
    the whole output is looked through for values that are not finite.
    """
    rows = pick_evenly(problem.a.shape[0], CHECKED_ROWS)
    columns = pick_evenly(problem.weight.shape[0], CHECKED_ROWS)

    def fetch(matrix: Any, indices: list[int]) -> Any:
        return torch.stack([matrix[i].to(torch.float32) for i in indices]).cpu().double()

    expected = fetch(problem.a, rows) @ fetch(problem.weight, columns).t()
    found = fetch(problem.out, rows)[:, columns]
    if not bool(torch.isfinite(problem.out).all()):
        return math.inf
    return float((found - expected).norm() / expected.norm().clamp_min(1e-300))


def time_products(
    device: Device, problem: Problem, flush: Any, iterations: int, stop: StopSign
) -> list[float]:
    """Seconds of each product; before each, the output is randomised and the cache emptied."""
    if not device.has_events:
        seconds = []
        for _ in range(iterations):
            stop.check()
            problem.out.uniform_()
            flush.zero_()
            device.synchronise()
            started = time.perf_counter_ns()
            problem.multiply()
            device.synchronise()
            seconds.append((time.perf_counter_ns() - started) / 1e9)
        return seconds
    # All is queued at once: while the device empties its cache the host runs ahead, so that the
    # time between the events holds the product and no wait for its launch.
    pairs = [(device.make_event(), device.make_event()) for _ in range(iterations)]
    for start, end in pairs:
        stop.check()
        problem.out.uniform_()
        flush.zero_()
        start.record()
        problem.multiply()
        end.record()
    device.synchronise()
    return [start.elapsed_time(end) / 1e3 for start, end in pairs]


class Sampler(threading.Thread):
    """Reads clock, temperature, power and throttle reasons of one NVIDIA GPU in the background."""

    def __init__(self, pynvml: Any, handle: Any) -> None:
        super().__init__(daemon=True)
        self.pynvml = pynvml
        self.handle = handle
        self.samples: list[Sample] = []
        self.failures = 0
        self.done = threading.Event()

    def run(self) -> None:
        nvml = self.pynvml
        ask_reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None) or getattr(
            nvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None
        )
        while not self.done.wait(SAMPLING_SECONDS):
            try:
                clock = nvml.nvmlDeviceGetClockInfo(self.handle, nvml.NVML_CLOCK_SM) * 1e6
                heat = nvml.nvmlDeviceGetTemperature(self.handle, nvml.NVML_TEMPERATURE_GPU)
                power = nvml.nvmlDeviceGetPowerUsage(self.handle) / 1000
                bits = int(ask_reasons(self.handle)) if ask_reasons else 0
            except nvml.NVMLError:
                self.failures += 1
                continue
            self.samples.append(Sample(time.monotonic(), clock, heat, power, bits))

    def between(self, begin: float, end: float) -> list[Sample]:
        """The samples of a stretch of time.monotonic()."""
        return [sample for sample in list(self.samples) if begin <= sample.moment <= end]


def start_sampler(device: Device) -> Sampler | None:
    """A running sampler, or None with a caveat that says why there is none."""
    if device.kind != "cuda" or device.is_rocm:
        device.caveats.append(
            f"clocks, temperature, power and throttle reasons of {device.name} were not sampled: "
            "there is no NVML for it"
        )
        return None
    try:
        import pynvml
    except ImportError:
        device.caveats.append(
            "clocks, temperature, power and throttle reasons were not sampled: "
            "pip install nvidia-ml-py"
        )
        return None
    try:
        pynvml.nvmlInit()
        # torch counts only the visible GPUs, NVML counts all: the identifier joins them.
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{device.properties.uuid}")
    except (pynvml.NVMLError, AttributeError) as error:
        device.caveats.append(f"clocks, temperature and power were not sampled: NVML says {error}")
        return None
    sampler = Sampler(pynvml, handle)
    sampler.start()
    return sampler


def summarise_samples(samples: Sequence[Sample]) -> Row:
    """Median clock and power, highest temperature, throttle reasons; null without samples."""
    if not samples:
        return {
            "clock_hertz_median": None,
            "temperature_celsius_max": None,
            "power_watts_median": None,
            "throttle_reasons": None,
        }
    bits = 0
    for sample in samples:
        bits |= sample.throttle_bits
    return {
        "clock_hertz_median": statistics.median(s.clock_hertz for s in samples),
        "temperature_celsius_max": max(s.temperature_celsius for s in samples),
        "power_watts_median": statistics.median(s.power_watts for s in samples),
        "throttle_reasons": " ".join(name for bit, name in THROTTLE_BITS.items() if bits & bit),
    }


class Settings(NamedTuple):
    """What decides the numbers of a run, apart from the shapes: equal settings, like numbers."""

    dtype: str
    iterations: int
    warmup_iterations: int
    warmup_seconds: float
    fast_accumulation: bool
    peak_flops_per_second: float | None


def measure_shape(
    device: Device,
    shape: Shape,
    settings: Settings,
    flush: Any,
    stop: StopSign,
    sampler: Sampler | None,
    bar: float | None = None,
) -> Row:
    """One row of results. Raises Stopped, and what torch raises where memory does not suffice.

    With a bar it may end in the warm-up, where that shows that the shape does not reach it.
    """
    problem = Problem(device, shape, settings.dtype, settings.fast_accumulation)
    operations = count_operations(*shape)

    def time_more(count: int) -> list[float]:
        return time_products(device, problem, flush, count, stop)

    begin = time.monotonic()
    seconds = race(time_more, operations, settings.warmup_iterations, bar)
    is_stopped = seconds is not None
    if seconds is None:
        begin = time.monotonic()
        seconds = time_more(settings.iterations)
    samples = sampler.between(begin, time.monotonic()) if sampler else []
    error = measure_error(device.torch, problem)
    row: Row = {**shape._asdict(), "dtype": settings.dtype, "device": device.name}
    row["operations"] = operations
    row |= summarise_seconds(seconds, operations)
    row["steady"] = is_steady(row)
    row["stopped_early"] = is_stopped
    row["answer_ok"] = error <= ERROR_LIMITS[settings.dtype]
    row["answer_error"] = error if math.isfinite(error) else None
    row |= judge_peak(row, settings.peak_flops_per_second)
    row |= summarise_samples(samples)
    # What comparing with other rows adds, comes at the end of the run.
    row["verdict"] = choose_verdict(row)
    row["verdict_reason"] = None
    row["resumed"] = False
    return row


def race(
    time_more: Callable[[int], list[float]], operations: int, warmups: int, bar: float | None
) -> list[float] | None:
    """Warm a shape up; the seconds so far where they show that it does not reach the bar.

    None where it may reach it, or where there is no bar or no warm-up to tell from. `time_more`
    takes so many more products and gives their seconds.
    """
    ends = [count for count in RACE_CHECKS if count <= warmups]
    if bar is None or not ends:
        time_more(warmups)
        return None
    seconds: list[float] = []
    for end in dict.fromkeys((*ends, warmups)):
        seconds += time_more(end - len(seconds))
        counted = seconds[RACE_UNCOUNTED:]
        if estimate_reach(summarise_seconds(counted, operations), operations) < bar:
            return counted
    return None


def judge_peak(row: Row, peak: float | None) -> Row:
    """The share of the theoretical peak at the median time, and whether any rate is above it."""
    if peak is None or row["flops_per_second_median"] is None:
        return {"share_of_peak": None, "above_peak": None}
    return {
        "share_of_peak": row["flops_per_second_median"] / peak,
        "above_peak": row["flops_per_second_max"] is None or row["flops_per_second_max"] > peak,
    }


def warm_up(
    device: Device, grid: Sequence[Sequence[int]], settings: Settings, stop: StopSign
) -> None:
    """Keep the device busy until its clocks have settled, with a product of the run's own kind."""
    if settings.warmup_seconds <= 0:
        return
    large = [max((size for size in sizes if size <= 8192), default=min(sizes)) for sizes in grid]
    shape = Shape(*large)
    problem = Problem(device, shape, settings.dtype, settings.fast_accumulation)
    until = time.monotonic() + settings.warmup_seconds
    while time.monotonic() < until:
        stop.check()
        for _ in range(1 if device.kind == "cpu" else 10):
            problem.multiply()
        device.synchronise()


class Plan(NamedTuple):
    """What a run is going to do: settings, sizes, and where it writes."""

    settings: Settings
    grid: tuple[list[int], list[int], list[int]]
    search: SearchPlan
    json_path: Path | None
    label: str | None

    @property
    def shape_count(self) -> int:
        """Number of different shapes of the grid."""
        return math.prod(len(sizes) for sizes in self.grid)


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


class Journal:
    """The results of a run so far, and the JSON file that always holds them."""

    def __init__(self, plan: Plan, command: list[str], origin: float) -> None:
        self.plan = plan
        self.command = command
        self.origin = origin
        now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(
            seconds=time.monotonic() - origin
        )
        self.started = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        self.rows: list[Row] = []
        self.caveats: list[str] = []
        self.header: dict[str, Any] = {}
        self.devices: list[dict[str, Any]] = []
        self.skipped: list[list[int]] = []
        self.planned = plan.search.limit
        self.complete = False
        self.failure: str | None = None
        self.comparison: dict[str, Any] | None = None
        self.written = 0.0
        self.unwritten: str | None = None

    @property
    def products(self) -> int:
        """Products that a shape takes which is measured to the end."""
        return self.plan.settings.warmup_iterations + self.plan.settings.iterations

    def take(self, row: Row) -> None:
        """Keep a row; one of the same shape, which was only looked at, gives way to it."""
        if row["stopped_early"] or any(known["stopped_early"] for known in self.rows):
            shape = get_shape(row)
            self.rows[:] = [known for known in self.rows if get_shape(known) != shape]
        self.rows.append(row)

    def to_document(self) -> dict[str, Any]:
        """The JSON document: base units, no NaN."""
        rows = sorted(self.rows, key=lambda r: (r["device"], r["m"], r["n"], r["k"]))
        settings = self.plan.settings
        return {
            "tool": "mamf_finder",
            "version": __version__,
            "method": METHOD,
            "command": self.command,
            "started": self.started,
            "seconds": round(time.monotonic() - self.origin, 3),
            "complete": self.complete,
            "units": UNITS,
            "results": rows,
            "caveats": list(dict.fromkeys(self.caveats)),
            "details": {
                "header": self.header,
                "settings": settings._asdict(),
                "search": describe_search(self.plan.search, self.plan.grid, rows, self.products),
                "shapes_planned": self.planned,
                "shapes_skipped": self.skipped,
                "summary": summarise_rows(rows, settings.peak_flops_per_second),
                "devices": self.devices,
                **({"comparison": self.comparison} if self.comparison else {}),
            },
        }

    def write(self, force: bool = True) -> None:
        """Write the JSON file whole; without force only where the last one is seconds old.

        Where it cannot be, on a disk that has filled, the run goes on, and says so at its end.
        """
        path = self.plan.json_path
        if path is None or (not force and time.monotonic() - self.written < JSON_EVERY_SECONDS):
            return
        try:
            write_document(path, self.to_document())
            self.unwritten = None
        except WrongUse as error:
            self.unwritten = str(error)
        self.written = time.monotonic()


def describe_run(device: Device, settings: Settings) -> dict[str, Any]:
    """Platform, software and critical environment of this run; env_report tells the rest."""
    torch = device.torch
    return {
        "device_kind": device.kind,
        "device_model": device.model,
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "rocm": torch.version.hip,
        "timer": "device events" if device.has_events else "host clock",
        "threads": torch.get_num_threads() if device.kind == "cpu" else None,
        "flush_bytes": device.choose_flush_bytes(),
        "environment": read_critical_environment(os.environ),
    }


def read_resumed(path: Path, label: str, header: dict[str, Any], settings: Settings) -> list[Row]:
    """The rows of an earlier run on this device. Raises WrongUse where they are not like these."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongUse(f"--resume: could not read {path}: {error.strerror}") from error
    except ValueError as error:
        raise WrongUse(f"--resume: {path} is not the JSON of a run: {error}") from error
    if not isinstance(document, dict) or document.get("tool") != "mamf_finder":
        raise WrongUse(f"--resume: {path} was not written by mamf_finder --json")
    if document.get("method") != METHOD:
        raise WrongUse(
            f"--resume: {path} was measured with method {document.get('method')}, this is method "
            f"{METHOD}: the numbers cannot be mixed; start anew without --resume"
        )
    details = document.get("details", {})
    earlier = {**details.get("settings", {}), **details.get("header", {})}
    current = {**settings._asdict(), **header}
    for name in (
        *("dtype", "iterations", "warmup_iterations", "fast_accumulation"),
        *("device_kind", "device_model", "torch", "threads"),
    ):
        if earlier.get(name) != current[name]:
            raise WrongUse(
                f"--resume: {path} has {name} {earlier.get(name)}, this run has {current[name]}: "
                "the numbers cannot be mixed; start anew without --resume"
            )
    rows = [row for row in document.get("results", []) if row.get("device") == label]
    for row in rows:
        row |= judge_peak(row, settings.peak_flops_per_second)
        if row["samples"] < QUARTILE_SAMPLES:  # earlier versions wrote an IQR
            row |= {"seconds_iqr": None, "spread": None, "steady": None}
        row.setdefault("stopped_early", False)
        row["resumed"] = True
    return rows


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


def choose_settings(options: argparse.Namespace, tier: str) -> tuple[Settings, Any]:
    """Settings and grid: what was asked for, else the defaults of the device's tier."""
    tier = "toy" if options.toy else tier
    iterations, warmups = DEFAULT_ITERATIONS[tier]
    grid = []
    for name in ("m", "n", "k"):
        sizes = getattr(options, name)
        bounds = getattr(options, f"{name}_range")
        if bounds is not None:
            start, stop, step = bounds
            sizes = expand_range(start, stop, step, f"--{name}_range")
        grid.append(sorted(set(sizes or DEFAULT_SHAPES[tier][name])))
    given = options.accelerator_warmup_seconds
    settings = Settings(
        dtype=options.dtype,
        iterations=options.num_iterations or iterations,
        warmup_iterations=(
            warmups if options.num_warmup_iterations is None else options.num_warmup_iterations
        ),
        warmup_seconds=DEFAULT_WARMUP_SECONDS[tier] if given is None else given,
        fast_accumulation=options.fast_accumulation,
        peak_flops_per_second=options.peak * 1e12 if options.peak else None,
    )
    return settings, tuple(grid)


def import_torch() -> Any:
    """The torch module; raises WrongUse with what to do where there is none."""
    try:
        import torch
    except ImportError as error:
        raise WrongUse(
            f"torch does not import ({error}); install it: https://pytorch.org/get-started/locally"
        ) from error
    return torch


def run_device(
    options: argparse.Namespace,
    command: list[str],
    stop: StopSign,
    origin: float,
    wait_for_start: Callable[[], None] | None = None,
    report: Callable[[int, int, str], None] | None = None,
) -> Journal:
    """Measure all shapes on one device; the journal with its JSON file written.

    `wait_for_start` is called when all is ready to run, and `report` after each shape.
    """
    torch = import_torch()
    device = Device(torch, "cpu" if options.toy and options.device is None else options.device)
    settings, grid = choose_settings(options, device.tier)
    device.check_dtype(settings.dtype, grid)
    device.set_float32_mode(settings.dtype)
    if options.worker:
        device.name = options.worker
    search = choose_search(options, math.prod(len(sizes) for sizes in grid))
    plan = Plan(settings, grid, search, options.json, options.worker)
    journal = Journal(plan, command, origin)
    journal.header = describe_run(device, settings)
    journal.caveats += find_environment_traps(
        os.environ, device.kind, device.is_rocm, settings.dtype, settings.warmup_iterations
    )
    if options.resume and options.resume.exists():
        earlier = read_resumed(options.resume, device.name, journal.header, settings)
        journal.rows = [
            row
            for row in earlier
            if all(row[name] in sizes for name, sizes in zip("mnk", grid, strict=True))
        ]
        journal.caveats.append(
            f"{len(journal.rows)} of {plan.shape_count} shapes on {device.name} were measured in "
            "an earlier run (--resume)"
        )
    elif options.resume:
        write_note(f"there is no {options.resume} to resume from yet: starting anew")
    torch.manual_seed(0)
    sampler = start_sampler(device)
    journal.caveats += device.caveats
    progress = Progress(journal.planned, "shapes", is_quiet=options.worker is not None)
    if wait_for_start:
        wait_for_start()
    try:
        flush = torch.empty(journal.header["flush_bytes"], dtype=torch.uint8, device=device.device)
        if len(journal.rows) < journal.planned:
            warm_up(device, grid, settings, stop)
        for shape, bar in plan_steps(torch, grid, journal.rows, search, journal.products):
            stop.check()
            row = None
            if device.has_room(Problem.estimate_bytes(shape, settings.dtype)):
                try:
                    row = measure_shape(device, shape, settings, flush, stop, sampler, bar)
                except RuntimeError as error:
                    if not is_out_of_memory(error):
                        raise
            if row is None:
                journal.skipped.append(list(shape))
                continue
            journal.take(row)
            journal.write(force=False)
            rate = row["flops_per_second_median"] or 0.0
            text = f"{device.name} {format_shape(row)}: {rate / 1e12:.4g} TFLOPS"
            progress.show(len(journal.rows), text)
            if report:
                report(len(journal.rows), journal.planned, text)
        journal.complete = not journal.skipped
    except Stopped as stopped:
        journal.caveats.append(f"{stopped}, after {len(journal.rows)} of {journal.planned} shapes")
    except (RuntimeError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0] if str(error) else type(error).__name__
        journal.failure = f"{device.name} failed at {settings.dtype} products: {reason}"
        journal.caveats.append(journal.failure)
    finally:
        progress.close()
        if sampler:
            sampler.done.set()
    if search.kind != "exhaustive":
        journal.caveats.append(explain_search(search, plan.shape_count, journal.rows, device.name))
    if journal.skipped:
        journal.caveats.append(
            f"{len(journal.skipped)} shapes were left out because {device.name} has no memory "
            "for them"
        )
    run_samples = sampler.samples if sampler else []
    journal.devices = [
        {
            "device": device.name,
            "model": device.model,
            "samples_of_clocks": len(run_samples),
            **summarise_samples(run_samples),
        }
    ]
    judge_rows(journal.rows)
    journal.write()
    return journal


def explain_search(plan: SearchPlan, shape_count: int, rows: Sequence[Row], name: str) -> str:
    """What was not looked at, in one sentence."""
    seed = f", seed {plan.seed}" if plan.kind == "adaptive" else ""
    stopped = sum(row["stopped_early"] for row in rows)
    given_up = f", {stopped} of them only until they were hopeless" if stopped else ""
    return (
        f"{plan.kind} search on {name}{seed}: {len(rows)} of {shape_count} shapes were measured"
        f"{given_up}; the best is the best of these, and the means are theirs"
    )


def list_devices(options: argparse.Namespace) -> list[str]:
    """The devices of a run of several processes, in order. Raises WrongUse where there is none."""
    if options.devices:
        names = list(options.devices)
        if len({name.split(":")[0] for name in names}) > 1:
            raise WrongUse(f"--devices {' '.join(names)}: name devices of one kind")
        twice = sorted({name for name in names if names.count(name) > 1 and name != "cpu"})
        if twice:
            raise WrongUse(f"--devices: {twice[0]} is named twice")
        return names
    torch = import_torch()
    if not (hasattr(torch, "accelerator") and torch.accelerator.is_available()):
        raise WrongUse(
            "--all_devices: this torch sees no accelerator; leave it out to measure the processor"
        )
    kind = torch.accelerator.current_accelerator().type
    return [f"{kind}:{index}" for index in range(torch.accelerator.device_count())]


def make_worker_arguments(
    options: argparse.Namespace, search: SearchPlan, name: str, label: str, path: Path
) -> list[str]:
    """The command line of the process that measures one device."""
    arguments = ["--device", name, "--worker", label, "--json", str(path)]
    arguments += ["--dtype", options.dtype, "--search", search.kind]
    arguments += ["--evaluations", str(search.limit)] if search.kind != "exhaustive" else []
    arguments += ["--seed", str(search.seed)] if search.kind == "adaptive" else []
    for size in ("m", "n", "k"):
        for option in (size, f"{size}_range"):
            if getattr(options, option) is not None:
                arguments += [f"--{option}", *map(str, getattr(options, option))]
    for option in ("num_iterations", "num_warmup_iterations", "accelerator_warmup_seconds", "peak"):
        if getattr(options, option) is not None:
            arguments += [f"--{option}", str(getattr(options, option))]
    arguments += ["--fast_accumulation"] if options.fast_accumulation else []
    arguments += ["--toy"] if options.toy else []
    if options.resume and options.resume.exists():
        arguments += ["--resume", str(options.resume.absolute())]
    return arguments


class Worker:
    """The process that measures one device, and the pipe by which it is told to go and to end."""

    def __init__(self, label: str, arguments: list[str], folder: Path, threads: int | None) -> None:
        self.label = label
        self.path = folder / f"{re.sub('[^a-z0-9]', '_', label)}.json"
        self.log = folder / f"{self.path.stem}.log"
        environ = dict(os.environ)
        if threads:
            environ.setdefault("OMP_NUM_THREADS", str(threads))
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).resolve()), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environ,
                # Ctrl-C reaches the parent alone, which then ends all workers in the same way.
                start_new_session=True,
            )
        self.messages: queue.Queue[str | None] = queue.Queue()
        self.reader = threading.Thread(target=self._listen, daemon=True)
        self.reader.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.messages.put(line.strip())
        self.messages.put(None)

    def tell(self, line: str) -> None:
        """Send one line; a worker that is gone is found out by its exit status."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()

    def end(self) -> None:
        """Let the worker keep what it has and end: the closed pipe is its signal."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def read_document(self) -> dict[str, Any] | None:
        """The JSON that the worker left, or None where it left none."""
        try:
            document: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return document

    def read_last_words(self) -> str:
        """How the worker ended: the signal that ended it, or the last line of its stderr."""
        status = self.process.returncode
        if status < 0:
            return f"ended by {signal.Signals(-status).name}"
        lines = self.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {status}, no message"


def run_workers(
    options: argparse.Namespace, command: list[str], stop: StopSign, origin: float
) -> Journal:
    """Measure all devices of the node at the same time; the journal with its JSON file written."""
    names = list_devices(options)
    labels = [f"{n}#{names[:i].count(n)}" if names.count(n) > 1 else n for i, n in enumerate(names)]
    tier = "cpu" if all(name == "cpu" for name in names) else "accelerator"
    settings, grid = choose_settings(options, tier)
    search = choose_search(options, math.prod(len(sizes) for sizes in grid))
    plan = Plan(settings, grid, search, options.json, None)
    journal = Journal(plan, command, origin)
    journal.planned = search.limit * len(names)
    threads = None
    if names.count("cpu") > 1:
        threads = max(1, (os.cpu_count() or 1) // names.count("cpu"))
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="mamf_") as folder:
        workers: list[Worker] = []
        for name, label in zip(names, labels, strict=True):
            path = Path(folder) / f"{re.sub('[^a-z0-9]', '_', label)}.json"
            arguments = make_worker_arguments(options, search, name, label, path)
            is_cpu = name == "cpu"
            workers.append(Worker(label, arguments, Path(folder), threads if is_cpu else None))
        try:
            follow_workers(workers, journal, stop, failures)
        finally:
            for worker in workers:
                worker.end()
                try:
                    worker.process.wait(timeout=WORKER_STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    worker.process.kill()
                    worker.process.wait()
                worker.reader.join(timeout=5)
        collect_workers(workers, journal, failures)
    if stop.reason:
        journal.caveats.append(
            f"{stop.reason}, after {len(journal.rows)} of {journal.planned} shapes"
        )
    journal.failure = "; ".join(failures) or None
    journal.complete = journal.complete and not failures
    journal.write()
    return journal


def follow_workers(
    workers: list[Worker], journal: Journal, stop: StopSign, failures: list[str]
) -> None:
    """Start the workers together when all are ready, and wait until they have ended."""
    waiting = {worker.label for worker in workers}
    running = {worker.label for worker in workers}
    done: dict[str, int] = {}
    told = False
    progress = Progress(journal.planned, "shapes")
    while running:
        try:
            stop.check()
        except Stopped:
            for worker in workers:
                worker.end()
        for worker in workers:
            with contextlib.suppress(queue.Empty):
                while worker.label in running:
                    message = worker.messages.get_nowait()
                    if message is None:
                        running.discard(worker.label)
                        waiting.discard(worker.label)
                    elif message == "ready":
                        waiting.discard(worker.label)
                    elif message.startswith("done "):
                        _, count, text = message.split(" ", 2)
                        done[worker.label] = int(count)
                        progress.show(sum(done.values()), text)
        if not waiting and not told and stop.reason is None:
            # Together, so that they share the node's power and cooling as in a real job.
            for worker in workers:
                left = stop.deadline - time.monotonic() if stop.deadline else math.inf
                worker.tell(f"go {left:.3f}" if stop.deadline else "go")
            told = True
        time.sleep(0.05)
    progress.close()


def collect_workers(workers: list[Worker], journal: Journal, failures: list[str]) -> None:
    """Put the results of the workers together; a worker that failed is named with its reason.

    Raises WrongUse where all of them refused the command line.
    """
    if all(worker.process.returncode == 2 for worker in workers):
        words = workers[0].read_last_words()
        raise WrongUse(words.removeprefix("mamf_finder.py: error: "))
    journal.complete = True
    for worker in workers:
        document = worker.read_document()
        journal.complete &= document is not None and document["complete"]
        if document is None or worker.process.returncode != 0:
            failures.append(f"{worker.label} failed: {worker.read_last_words()}")
        if document is None:
            continue
        journal.rows += document["results"]
        details = document["details"]
        journal.header = journal.header or details["header"]
        journal.skipped += details["shapes_skipped"]
        journal.devices += details["devices"]
        journal.caveats += document["caveats"]
    judge_rows(journal.rows)  # again: a worker that was killed had not come to it
    journal.caveats += [failure for failure in failures if failure not in journal.caveats]
    compared = {entry["device"]: entry for entry in compare_devices(journal.rows)}
    journal.devices = [
        {
            "common_shapes": 0,
            "geometric_mean_flops_per_second": None,
            "relative": None,
            **entry,
            **compared.get(entry["device"], {}),
        }
        for entry in journal.devices
    ]
    journal.devices.sort(key=lambda entry: entry["relative"] or 0.0)


def run_worker(options: argparse.Namespace, command: list[str], stop: StopSign) -> int:
    """Measure one device as one of several processes, led through the standard streams."""
    begun = threading.Event()

    def listen() -> None:
        for line in sys.stdin:
            words = line.split()
            if words[:1] == ["go"]:
                if len(words) > 1:
                    stop.deadline = time.monotonic() + float(words[1])
                begun.set()
        # The parent closed the pipe, or is gone: either way nobody waits for more.
        stop.reason = stop.reason or "stopped by the process that started it"
        begun.set()

    def wait_for_start() -> None:
        print("ready", flush=True)
        while not begun.wait(0.1):
            pass

    def report(done: int, _total: int, text: str) -> None:
        with contextlib.suppress(OSError):
            print(f"done {done} {text}", flush=True)

    threading.Thread(target=listen, daemon=True).start()
    journal = run_device(options, command, stop, time.monotonic(), wait_for_start, report)
    if journal.failure:
        print(journal.failure, file=sys.stderr)
    return 1 if journal.failure else 0


def format_shape(row: Mapping[str, Any]) -> str:
    """`4096x8192x1024`: m, n and k."""
    return format_size(Shape(row["m"], row["n"], row["k"]))


def format_size(shape: Shape) -> str:
    """`4096x8192x1024`: m, n and k."""
    return f"{shape.m}x{shape.n}x{shape.k}"


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


def choose_unit(rows: Sequence[Row]) -> tuple[str, float]:
    """TFLOPS, or GFLOPS where nothing reaches one TFLOPS."""
    rates = [row["flops_per_second_max"] or 0.0 for row in rows]
    return ("TFLOPS", 1e12) if max(rates, default=0.0) >= 1e12 else ("GFLOPS", 1e9)


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


def format_best(summary: dict[str, Any], unit: str, factor: float, peak: float | None) -> str:
    """The table of the best shapes and of the means over all shapes."""
    several = len({(summary[f"best_by_{s}"] or {}).get("device") for s in ("mean", "max")}) > 1

    def share(rate: float | None) -> str:
        return format_share(rate / peak if peak and rate else None)

    lines = []
    for statistic in ("median", "mean", "max"):
        best = summary[f"best_by_{statistic}"]
        if best is None:
            lines.append([f"best by {statistic}", "-", "-", "-"])
            continue
        rate = best["flops_per_second"]
        where = format_shape(best) + (f" on {best['device']}" if several else "")
        doubt = None if best["doubt"] is None else best["doubt"] * rate / factor
        shown = format_earned(rate / factor, doubt)
        lines.append([f"best by {statistic}", shown, where, share(rate)])
    count = f"{summary['usable_shapes']} results"
    for mean in ("arithmetic", "geometric"):
        rate = summary[f"{mean}_mean_flops_per_second"]
        # A mean over unlike shapes is no measurement of one thing: three digits place it.
        shown = format_earned(rate / factor, rate / factor * 1e-2) if rate else "-"
        lines.append([f"{mean} mean of medians", shown, count, share(rate)])
    return format_table(["Rate", unit, "Shape MxNxK", "% of peak"], lines)


def format_rows(rows: Sequence[Row], top: int, unit: str, factor: float) -> str:
    """The table of the fastest results, by median."""

    def order(row: Row) -> float:
        return -(row["flops_per_second_median"] or 0.0)

    lines = []
    for row in sorted(rows, key=order)[:top]:
        median = row["flops_per_second_median"]
        doubt = estimate_doubt(row)
        uncertainty = None if doubt is None else doubt * (median or 0.0) / factor

        def show(rate: float | None, uncertainty: float | None = uncertainty) -> str:
            return "-" if rate is None else format_earned(rate / factor, uncertainty)

        lines.append(
            [
                format_shape(row),
                row["device"],
                str(row["samples"]),
                show(median),
                show(row["flops_per_second_mean"]),
                show(row["flops_per_second_max"]),
                "-" if row["spread"] is None else f"{100 * row['spread']:.1f}",
                row["verdict"],
            ]
        )
    headings = ["Shape MxNxK", "Device", "Samples", f"Median, {unit}", "Mean", "Max"]
    return format_table([*headings, "IQR, %", "Verdict"], lines)


def format_devices(devices: Sequence[dict[str, Any]], unit: str, factor: float) -> str:
    """The table of the devices, the slowest first."""
    lines = []
    for entry in devices:
        rate, relative = entry["geometric_mean_flops_per_second"], entry["relative"]
        lines.append(
            [
                entry["device"],
                str(entry["model"]),
                str(entry["common_shapes"]),
                format_earned(rate / factor, rate / factor * 1e-2) if rate else "-",
                f"{100 * relative:+.1f}" if relative is not None else "-",
            ]
        )
    headings = ["Device", "Model", "Shapes", f"Geometric mean, {unit}", "% from median device"]
    return format_table(headings, lines)


def find_problems(journal: Journal) -> list[str]:
    """What is wrong with the results themselves: each of them makes the exit status 1."""
    problems = []
    wrong = [row for row in journal.rows if not row["answer_ok"]]
    above = [row for row in journal.rows if row["above_peak"]]
    if wrong:
        shapes = ", ".join(f"{format_shape(row)} on {row['device']}" for row in wrong[:3])
        problems.append(
            f"{len(wrong)} of {len(journal.rows)} products are wrong ({shapes}): do not trust "
            "this device, driver or library before that is explained"
        )
    if above:
        problems.append(
            f"{len(above)} results are above --peak: is it the dense peak, of this data type, at "
            "the clocks that this device runs at? They are not among the best"
        )
    if journal.failure:
        problems.append(journal.failure)
    if not journal.rows:
        problems.append("nothing was measured")
    return problems


def find_remarks(journal: Journal) -> list[str]:
    """What a reader should know about the quality of the numbers, and what to try."""
    remarks = []
    rows = journal.rows
    unsteady = [row for row in rows if row["steady"] is False and not row.get("stopped_early")]
    if unsteady:
        worst = max(unsteady, key=lambda row: (row["spread"] or 0.0, abs(row["drift"] or 0.0)))
        drift = "" if worst["drift"] is None else f", drift {100 * worst['drift']:+.0f} %"
        remarks.append(
            f"{len(unsteady)} of {len(rows)} results are not steady (worst: {format_shape(worst)}, "
            f"IQR {100 * (worst['spread'] or 0.0):.0f} % of the median{drift}). Try: nothing else "
            "running, more --num_warmup_iterations and --accelerator_warmup_seconds, locked "
            "clocks (nvidia-smi -lgc), larger shapes; on a CPU also one thread per core"
        )
    few = [row for row in rows if row["samples"] < QUARTILE_SAMPLES]
    if few:
        remarks.append(
            f"{len(few)} of {len(rows)} results have fewer than {QUARTILE_SAMPLES} samples: "
            "nothing tells how far to trust them. Use --num_iterations 10 or more"
        )
    remarks += find_time_remarks(rows)
    seen = [entry.get("throttle_reasons") or "" for entry in (*rows, *journal.devices)]
    throttled = sorted({name for names in seen for name in names.split()})
    if throttled:
        remarks.append(
            f"clocks were held back during the run: {', '.join(throttled)} (sw_power_cap is usual "
            "under a full matmul load; a thermal or hw reason is not)"
        )
    compared = [entry for entry in journal.devices if entry.get("relative") is not None]
    if len(compared) > 1:
        slowest = compared[0]
        remarks.append(
            f"slowest device: {slowest['device']}, {100 * slowest['relative']:+.1f} % from the "
            f"median device over {slowest['common_shapes']} common shapes"
        )
    return remarks


def find_time_remarks(rows: Sequence[Row]) -> list[str]:
    """Notes on the times that arithmetic does not explain, and what to do about them."""
    remarks = []
    suspects = [row for row in rows if row["verdict"] == "suspect"]
    if suspects:
        worst = min(suspects, key=lambda row: row["flops_per_second_median"])
        remarks.append(
            f"{len(suspects)} of {len(rows)} results are suspect (the slowest: "
            f"{format_shape(worst)} on {worst['device']}, {worst['verdict_reason']}): arithmetic "
            "does not explain the time. Either something else had the device or the processor: "
            "end it and measure these shapes again, on a CPU also with fewer threads "
            "(OMP_NUM_THREADS below the number of idle cores); or, where it comes out the same on "
            "an idle machine, the library is slow at this shape: pad it to a larger one"
        )
    bound = [row for row in rows if row["verdict"] == "overhead"]
    if bound:
        remarks.append(
            f"{len(bound)} of {len(rows)} results are bound by launch or other overhead, not by "
            f"arithmetic ({bound[0]['verdict_reason']}). That is usual for small shapes: the rate "
            "tells what a call costs, and nothing of the arithmetic. Use larger shapes"
        )
    return remarks


def print_header(journal: Journal) -> None:
    """Command line, platform, software and environment of the run, for a saved log."""
    print(
        f"mamf_finder {__version__} (method {METHOD}), started {journal.started}", file=sys.stderr
    )
    print(f"command: {' '.join(journal.command)}", file=sys.stderr)
    for name, value in {**journal.header, **journal.plan.settings._asdict()}.items():
        if name == "environment":
            value = " ".join(f"{k}={v}" for k, v in value.items()) or "nothing set"
        print(f"{name.replace('_', ' ')}: {value}", file=sys.stderr)


def print_report(journal: Journal, top: int) -> int:
    """Tables to stdout, notes to stderr; the number of problems."""
    print_header(journal)
    rows, peak = journal.rows, journal.plan.settings.peak_flops_per_second
    if rows:
        unit, factor = choose_unit(rows)
        summary = summarise_rows(rows, peak)
        tables = [format_best(summary, unit, factor, peak), format_rows(rows, top, unit, factor)]
        if len(journal.devices) > 1:
            tables.insert(1, format_devices(journal.devices, unit, factor))
        print("\n\n".join(tables))
    problems = find_problems(journal)
    for text in (*dict.fromkeys(journal.caveats), *find_remarks(journal)):
        write_note(text)
    for text in problems:
        print(f"problem: {text}", file=sys.stderr)
    return len(problems)


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


def read_baseline(path: Path) -> dict[str, Any]:
    """Recorded runs to compare with. Raises WrongUse where this is no baseline of this tool."""
    if path == OWN_BASELINE and not path.is_file():
        raise WrongUse(
            f"--compare: there is no {path.name} beside this tool; copy it there, or name it"
        )
    baseline = read_json_option("--compare", path)
    records = baseline.get("records")
    if baseline.get("tool") != "mamf_finder" or not isinstance(records, list):
        raise WrongUse(f"--compare: {path} is no baseline of mamf_finder")
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


def find_differences(
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
    for noun in ("node", "rank"):
        count = record[f"{noun}s"]
        if count != 1:
            pairs.append((f"of {count} {noun}s", f"of 1 {noun}"))
    ours = read_alike(document)
    for place, theirs in record["settings"].items():
        name, mine = place.rpartition(".")[2], ours.get(place)
        if (isinstance(mine, bool), mine) != (isinstance(theirs, bool), theirs):
            pairs.append((f"with {name} {show_scalar(theirs)}", f"with {name} {show_scalar(mine)}"))
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


def compare_run(
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
    alike = [record for record in records if not find_differences(document, record, *facts)]
    for record in alike:
        rows, left_out = match_rows(document, record)
        if rows:
            break
    else:
        return {"record": None, "sentences": explain_unlike(document, records, alike, *facts)}
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
    if len(rows) == 1:
        unit, factor = choose_compared_unit(rows)
        yours, _, _, expected = show_compared(rows[0], factor)
        head = f"your {yours} {unit} stands at {100 * ratio:.1f} % of {what} ({record['name']})"
        sentences = [f"{head}; expected {expected}: {verdict}"]
    else:
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


def explain_unlike(
    document: dict[str, Any],
    records: list[dict[str, Any]],
    alike: list[dict[str, Any]],
    hardware: str | None,
    power_limit: str,
) -> list[str]:
    """Why no record can stand beside this run, the nearest first."""
    if not records:
        return ["there is no whole record of mamf_finder"]
    if not alike:
        kinds: dict[tuple[tuple[str, str], ...], str] = {}
        for record in records:
            pairs = tuple(find_differences(document, record, hardware, power_limit))
            kinds.setdefault(pairs, record["name"])
        reasons = []
        for pairs, name in sorted(kinds.items(), key=lambda item: len(item[0]))[:3]:
            theirs, ours = (", ".join(side) for side in zip(*pairs, strict=True))
            reasons.append(f"{name} is {theirs}, yours is {ours}: not compared")
        return reasons
    record, keys = alike[0], COMPARE["keys"]
    if not document["results"]:
        return [f"yours has no rows to compare with {record['name']}"]
    reason = f"none of your rows can stand beside one of {record['name']}"
    _, left_out = match_rows(document, record)
    if any(not text.endswith("no such row") for text in left_out):
        return [reason, *shorten(left_out)]

    def list_some(values: Iterable[Any]) -> str:
        listed = list(dict.fromkeys(map(show_scalar, values)))
        return (", ".join(listed[:3]) + (", ..." if len(listed) > 3 else "")) or "nothing"

    apart = []
    for index, name in enumerate(keys):
        ours_have = [row[name] for row in document["results"]]
        theirs_have = [row[index] for row in record["rows"]]
        if not set(ours_have) & set(theirs_have):
            apart.append(
                f"{name} is {list_some(ours_have)} in yours and {list_some(theirs_have)} there"
            )
    return [f"{reason}: {'; '.join(apart) or 'no combination of them is in both'}"]


def choose_compared_unit(rows: list[dict[str, Any]]) -> tuple[str, float]:
    """TFLOPS, or GFLOPS where no recorded rate reaches one TFLOPS."""
    largest = max(row["recorded"] for row in rows)
    return ("TFLOPS", 1e12) if largest >= 1e12 else ("GFLOPS", 1e9)


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


def list_compared(rows: list[dict[str, Any]]) -> list[list[str]]:
    """The compared rows as a table of texts, its head first."""
    unit, factor = choose_compared_unit(rows)
    head = [*COMPARE["keys"], "device", f"yours, {unit}"]
    cells = [[*head, "recorded", "%", "expected", "verdict"]]
    for row in rows:
        names = [show_scalar(row[name]) for name in (*COMPARE["keys"], "device")]
        cells.append([*names, *show_compared(row, factor), row["verdict"]])
    return cells


def print_comparison(comparison: dict[str, Any], top: int) -> None:
    """The verdict below the tables of the run, and the rows that it stands on."""
    sentences = comparison["sentences"]
    print(
        "\n"
        + "\n".join(sentences if comparison["record"] else ["nothing to compare with", *sentences])
    )
    if comparison["record"]:
        head, *cells = list_compared(comparison["rows"])
        print("\n" + format_table(head, cells[:top]))
        if len(cells) > top:
            print(f"\nand {len(cells) - top} more rows: see --top, and details in the JSON")


def draw_heat_map(rows: Sequence[Row], path: Path) -> bool:
    """Write the picture of the best rate over each pair of sizes; False where one shape is all.

    Each cell is the best over the third size (and over devices). Where only one size varies, the
    picture is a line.
    """
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "mamf_finder"
    from matplotlib import pyplot

    usable = [row for row in rows if is_usable(row)]
    unit, factor = choose_unit(usable)
    varying = [name for name in "mnk" if len({row[name] for row in usable}) > 1]
    if not varying:
        return False
    pairs = list(itertools.combinations(varying, 2))
    figure, axes = pyplot.subplots(
        1, max(1, len(pairs)), figsize=(5.2 * max(1, len(pairs)), 4.4), squeeze=False
    )
    if not pairs:
        draw_line(axes[0][0], usable, varying[0], factor)
        axes[0][0].set_ylabel(f"median rate, {unit}")
    top = max(row["flops_per_second_median"] for row in usable) / factor
    for axis, (down, across) in zip(axes[0], pairs, strict=False):
        downs = sorted({row[down] for row in usable})
        acrosses = sorted({row[across] for row in usable})
        cells = [[math.nan] * len(acrosses) for _ in downs]
        for row in usable:
            i, j = downs.index(row[down]), acrosses.index(row[across])
            rate = row["flops_per_second_median"] / factor
            if math.isnan(cells[i][j]) or rate > cells[i][j]:
                cells[i][j] = rate
        image = axis.imshow(cells, origin="lower", aspect="auto", cmap="viridis", vmin=0, vmax=top)
        for label, sizes, setter in (
            (across, acrosses, axis.set_xticks),
            (down, downs, axis.set_yticks),
        ):
            step = max(1, math.ceil(len(sizes) / 8))
            places = range(0, len(sizes), step)
            setter(list(places), [str(sizes[place]) for place in places])
            (axis.set_xlabel if label == across else axis.set_ylabel)(label)
        axis.tick_params(axis="x", rotation=45)
        figure.colorbar(image, ax=axis, label=f"best median rate, {unit}")
    figure.suptitle(f"Matmul rate by shape, {usable[0]['dtype']}")
    figure.tight_layout()
    # Without a date the same results give the same bytes.
    metadata = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, metadata=metadata)
    pyplot.close(figure)
    return True


def draw_line(axis: Any, rows: Sequence[Row], name: str, factor: float) -> None:
    """The median rate over one size, with a band between the slowest and the fastest sample."""
    for device in sorted({row["device"] for row in rows}):
        ours = sorted((row for row in rows if row["device"] == device), key=lambda r: r[name])
        sizes = [row[name] for row in ours]
        axis.plot(sizes, [r["flops_per_second_median"] / factor for r in ours], "o-", label=device)
        slow = [r["operations"] / r["seconds_max"] / factor for r in ours]
        fast = [r["flops_per_second_max"] / factor for r in ours]
        axis.fill_between(sizes, slow, fast, alpha=0.2)
    axis.set_xlabel(name)
    axis.set_ylim(bottom=0)
    axis.legend()


def run_self_test() -> int:
    """Check formula, statistics and real products on the CPU; 0, or 1 where a check fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    check("2 * 3 * 4 * 5 = 120 operations", count_operations(3, 4, 5) == 120)
    summary = summarise_seconds([4.0, 1.0, 2.0, 3.0], 12)
    expected = {
        "samples": 4,
        "seconds_median": 2.5,
        "seconds_mean": 2.5,
        "seconds_iqr": 1.5,
        "seconds_min": 1.0,
        "seconds_max": 4.0,
        "flops_per_second_max": 12.0,
        "flops_per_second_median": 4.8,
        "spread": 0.6,
    }
    check("statistics of 4, 1, 2, 3", all(summary[k] == v for k, v in expected.items()))
    check("a range of 0 10 4 is 4 8", expand_range(0, 10, 4) == [4, 8])
    times = {Shape(8, 8, 8): 9e-3, Shape(8, 8, 16): 2e-4, Shape(16, 16, 16): 8e-4}
    rows: list[Row] = []
    for shape, seconds in times.items():
        row = {**shape._asdict(), "device": "cpu", "answer_ok": True, "above_peak": None}
        row |= summarise_seconds([seconds] * 4, count_operations(*shape))
        rows.append(row | {"steady": True})
    judge_rows(rows)
    verdicts = [row["verdict"] for row in rows]
    check("a small product slower than a large one is suspect", verdicts == ["suspect", "ok", "ok"])
    torch = import_torch()
    device = Device(torch, "cpu")
    flush = torch.empty(MIB, dtype=torch.uint8)
    for dtype in DTYPES:
        if dtype == "tf32":
            continue
        settings = Settings(dtype, 5, 1, 0.0, False, None)
        row = measure_shape(device, Shape(48, 32, 64), settings, flush, StopSign(), None)
        check(f"{dtype} 48x32x64: the answer is right", row["answer_ok"])
        check(
            f"{dtype} 48x32x64: the rate is its operations over its time",
            row["flops_per_second_median"] == 2 * 48 * 32 * 64 / row["seconds_median"],
        )
    problem = Problem(device, Shape(48, 32, 64), "float32", False)
    problem.multiply()
    right = measure_error(torch, problem)
    problem.out[-1, -1] += 1.0
    wrong = measure_error(torch, problem)
    limit = ERROR_LIMITS["float32"]
    check("one wrong element in a checked place is found", right <= limit < wrong)
    problem.out[20, 20] = math.nan
    check("a NaN anywhere is found", measure_error(torch, problem) == math.inf)
    with tempfile.TemporaryDirectory(prefix="mamf_") as folder:
        path = Path(folder) / "run.json"
        options = build_parser().parse_args(["--toy", "--json", str(path)])
        journal = run_device(options, ["self-test"], StopSign(), time.monotonic())
        document = json.loads(path.read_text(encoding="utf-8"))
    check("the toy run is complete, with its 8 shapes", journal.complete and len(journal.rows) == 8)
    check(
        "the JSON holds what was measured", document["results"] == journal.to_document()["results"]
    )
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="mamf_finder.py",
        description="Measure the maximum achievable matmul FLOPS of a device over many shapes.",
        epilog="The docstring at the top of this file tells what is timed and how to run it.",
        allow_abbrev=False,
    )
    shapes = parser.add_argument_group("shapes: C[m, n] = A[m, k] @ B[k, n]")
    for name in ("m", "n", "k"):
        either = shapes.add_mutually_exclusive_group()
        either.add_argument(
            f"--{name}", type=parse_size, nargs="+", metavar="SIZE", help=f"sizes of {name}"
        )
        either.add_argument(
            f"--{name}_range",
            type=int,
            nargs=3,
            metavar=("START", "STOP", "STEP"),
            help=f"sizes of {name}: START 0 means STEP, STOP is left out",
        )
    shapes.add_argument(
        "--dtype", choices=DTYPES, default="bfloat16", help="data type (default: bfloat16)"
    )
    shapes.add_argument(
        "--fast_accumulation",
        action="store_true",
        help="float8: let the device add up in less precision, as some training recipes do",
    )
    timing = parser.add_argument_group("timing")
    timing.add_argument(
        "--num_iterations", type=parse_count, metavar="N", help="samples per shape (default: 100)"
    )
    timing.add_argument(
        "--num_warmup_iterations",
        type=parse_count_or_none,
        metavar="N",
        help="untimed products before them (default: 50)",
    )
    timing.add_argument(
        "--accelerator_warmup_seconds",
        type=parse_not_negative,
        metavar="SECONDS",
        help="load before the first shape (default: 30 on an accelerator, 2 on a CPU)",
    )
    timing.add_argument(
        "--budget",
        type=parse_duration,
        metavar="DURATION",
        help="end after this wall-clock time with the results so far: 90s, 10m, 1h30m",
    )
    search = parser.add_argument_group("search")
    search.add_argument(
        "--search",
        choices=("adaptive", "exhaustive", "spread"),
        help="all shapes, an even sample of them, or a search for the best within a twentieth of "
        "the grid (default: exhaustive, and adaptive for a large grid with --budget)",
    )
    search.add_argument(
        "--evaluations",
        type=parse_count,
        metavar="N",
        help="shapes that adaptive and spread look at (default: a twentieth of the grid)",
    )
    search.add_argument(
        "--seed", type=parse_count_or_none, metavar="N", help="where adaptive begins (default: 0)"
    )
    devices = parser.add_argument_group("devices").add_mutually_exclusive_group()
    devices.add_argument("--device", metavar="DEVICE", help="cuda:1, xpu, cpu (default: the first)")
    devices.add_argument(
        "--devices", nargs="+", metavar="DEVICE", help="these, at once, one process for each"
    )
    devices.add_argument(
        "--all_devices",
        action="store_true",
        help="all accelerators of the node at once; names the slowest",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    output.add_argument(
        "--resume",
        type=Path,
        metavar="PATH",
        help="take over the shapes that are in this JSON of an earlier run",
    )
    output.add_argument(
        "--compare",
        nargs="?",
        type=Path,
        const=OWN_BASELINE,
        metavar="FILE",
        help="say how the run stands beside recorded ones, by default those in "
        "mamf_finder.baseline.json beside this file",
    )
    output.add_argument(
        "--facts",
        type=Path,
        metavar="FILE",
        help="JSON of env_report.py on this machine, for --compare to know the hardware",
    )
    output.add_argument("--plot", type=Path, metavar="PATH", help="heat map, SVG or PNG")
    output.add_argument(
        "--peak",
        type=parse_positive,
        metavar="TFLOPS",
        help="theoretical dense peak: adds a share of it, and flags what is above",
    )
    output.add_argument(
        "--top", type=parse_count, default=10, metavar="N", help="results shown (default: 10)"
    )
    other = parser.add_argument_group("other")
    other.add_argument(
        "--toy",
        "--dry-run",
        action="store_true",
        help="small sizes, few samples, on the CPU unless a device is named",
    )
    # For the processes of --devices and --all_devices, which this tool starts itself.
    other.add_argument("--worker", metavar="LABEL", help=argparse.SUPPRESS)
    other.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    other.add_argument(
        "--version", action="version", version=f"mamf_finder {__version__} (method {METHOD})"
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense, before anything is measured or imported."""
    if options.fast_accumulation and options.dtype not in FLOAT8_DTYPES:
        raise WrongUse(f"--fast_accumulation is for float8, not for {options.dtype}")
    for name in ("m", "n", "k"):
        if getattr(options, f"{name}_range") is not None:
            start, stop, step = getattr(options, f"{name}_range")
            expand_range(start, stop, step, f"--{name}_range")
    check_json_path(options.json)
    if options.plot:
        if not options.plot.absolute().parent.is_dir():
            raise WrongUse(f"--plot: there is no folder {options.plot.parent}; make it first")
        if options.plot.is_dir():
            raise WrongUse(f"--plot: {options.plot} is a folder; name a file")
        if options.plot.suffix.lower() not in (".svg", ".png"):
            raise WrongUse(f"--plot: {options.plot} has to end in .svg or .png")
        given = [getattr(options, name) for name in ("m", "n", "k")]
        if all(sizes is not None and len(set(sizes)) == 1 for sizes in given):
            raise WrongUse("--plot: one shape makes no picture; give more sizes or leave it out")
        if importlib.util.find_spec("matplotlib") is None:
            raise WrongUse("--plot needs matplotlib: pip install matplotlib")
    if options.facts and not options.compare:
        raise WrongUse("--facts is for --compare; give both")
    if options.resume and not options.resume.exists() and options.resume != options.json:
        raise WrongUse(f"--resume: there is no {options.resume}")


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
        baseline = read_baseline(options.compare) if options.compare else None
        facts = read_hardware(options.facts) if options.facts else (None, "")
        stop.deadline = origin + options.budget if options.budget else None
        stop.listen()
        if options.worker:
            return run_worker(options, command, stop)
        if options.devices or options.all_devices:
            journal = run_workers(options, command, stop, origin)
        else:
            journal = run_device(options, command, stop, origin)
        if baseline:
            journal.comparison = compare_run(journal.to_document(), baseline, *facts)
            journal.write()
        problems = print_report(journal, options.top)
        if journal.comparison:
            print_comparison(journal.comparison, options.top)
        if options.plot and not draw_heat_map(journal.rows, options.plot):
            write_note("--plot: fewer than two shapes were measured, so there is no picture")
        if journal.unwritten:
            write_note(f"{journal.unwritten}; the JSON has less than the table")
            problems += 1
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a run listens for signals itself
        print("stopped", file=sys.stderr)
        return 1
    return 1 if problems or (stop.by_signal and not journal.complete) else 0


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
