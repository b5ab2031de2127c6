#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""How many matmul FLOP/s can this accelerator really do, and at which shapes?

A datasheet gives a peak that no program reaches. The rate of a plain dense matmul is the ceiling to
compare a training run with. This tool measures it over many shapes and names the best: the maximum
achievable matmul FLOPS (MAMF), a term by Stas Bekman, whose finder started this practice.

## Formulas

`C = A @ B` with A of m x k and B of k x n takes `2 * m * n * k` FLOPs, as datasheets count them;
`rate = FLOPs / seconds`. The cube of 1024 has 2,147,483,648 FLOPs: in 1 ms that is 2.1 TFLOPS.
Rates are dense. A datasheet's sparse peak is twice as large.

## What is timed

One `torch.mm` (`torch._scaled_mm` for float8) into an output that exists already, between two
device events, or by the host clock on a CPU. B is stored as n x k and used transposed, as a linear
layer stores its weight. Inputs are normally distributed: zeros would draw less power and look
faster. Before each timing the output gets new random values and a buffer larger than the
last-level cache is overwritten, so that inputs come from memory.

Not timed: allocation, random numbers, the cache flush, `--accelerator-warmup-seconds` of load at
the start, `--num-warmup-iterations` per shape, and the check of rows and columns spread over each
result against float64. The verdict of a row is the first of these that applies:

- `WRONG ANSWER`: the result is not that of float64
- `above peak`: faster than `--peak`
- `suspect`: the median is at least 5 times the fastest sample, so something else had the device
- `stopped early`: the search saw that this shape is not the best
- `one sample`, `few samples`: fewer than 4, so the spread is unknown
- `unsteady`: the samples differ by more than 5 %, or drift
- `ok`

## How shapes are searched

`--search exhaustive` measures all shapes, in an order that spreads over the grid: a run that is cut
short has seen all of it thinly. `--search adaptive` (the default for 600 shapes and more with
`--budget`) finds the best in a twentieth of the device time. It looks at every shape for 5 samples;
a grid of more than 8,000 shapes is thinned first, then looked at in full around the best shape
found. Then it measures in full, fastest look first, until no look is within 5 % of the best or a
twentieth of the time is spent. A shape that is slower than the best ends in its warm-up.

## How to run

    # one GPU: shapes of your model, or float8 with its peak
    python mamf_finder.py --m 16384 --n 6144 28672 --k 4096
    python mamf_finder.py --m 8192 --n 8192 --k 8192 --dtype float8_e4m3fn --peak 1979
    # search for ten minutes; the same command goes on where it stopped
    python mamf_finder.py --m-range 0 20480 512 --n-range 0 20480 512 --k-range 0 20480 512 \
        --budget 10m --json out.json --resume out.json
    # all GPUs of a node at once, also by torchrun --nproc-per-node 8
    python mamf_finder.py --all-devices --m 8192 --n 8192 --k 8192 --json node.json
    # Slurm, each node for itself
    srun --ntasks-per-node 1 --gpus-per-node 8 bash -c \
        'python mamf_finder.py --all-devices --json $SLURM_NODEID.json'
    # pdsh
    pdsh -w node[1-8] 'python /shared/mamf_finder.py --all-devices --json /shared/$(hostname).json'

In `--m-range START STOP STEP` a START of 0 means STEP, and STOP is excluded. A signal or the end
of `--budget` keeps what was measured.

## A good answer

No shape is unsteady, the GPUs of a node are within a few percent of each other, the best rate is
the same when the run is repeated, and it is below the datasheet's dense peak. If it is far below,
look at clocks, power and throttle reasons (NVML samples them during the run; they are in the JSON).

Exit status: 0 done, also when the budget ended it; 1 a wrong answer, a rate above `--peak`, a
device that failed, nothing measured, or a signal; 2 wrong use.
"""

from __future__ import annotations

import argparse
import functools
import importlib.util
import itertools
import math
import operator
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, geometric_mean, median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, duration, natural_int, positive_float, positive_int, start
from kit.device import (
    choose_device,
    describe_run,
    import_torch,
    is_out_of_memory,
    name_device,
    synchronize,
)
from kit.nvml import ClockSampler, open_nvml, summarize_clocks
from kit.ranks import first_line, gather, join_ranks, launch_ranks, leave_ranks, read_place
from kit.report import Progress, Report, Row, format_table, read_json
from kit.stats import earned, scaled, summarize, verdict_of_samples
from kit.stop import Stop, Stopped
from kit.timing import Stopwatch, make_cache_flush

__version__ = "0.2.0"
METHOD = 1

PROFILES = {
    "demo": [
        "--device", "cpu", "--m", "256", "512", "--n", "256", "512", "--k", "256", "512",
        "--num-iterations", "20", "--num-warmup-iterations", "5",
        "--accelerator-warmup-seconds", "0.5",
    ],
    "full": [
        "--m-range", "0", "20480", "1024", "--n-range", "0", "20480", "1024",
        "--k-range", "0", "20480", "1024", "--budget", "30m",
    ],
}  # fmt: skip
GPUS = {"full": 1}
COMPARE = {
    "keys": ["dtype", "m", "n", "k"],
    "value": "flops_per_second_median",
    "better": "higher",
    "spread": "spread",
    "trusted": {"verdict": ["ok", "unsteady", "overhead"]},
    "alike": [
        "details.header.device_kind",
        "details.header.device_model",
        "details.header.threads",
        "details.settings.fast_accumulation",
    ],
}
UNITS = {
    **dict.fromkeys(("m", "n", "k", "samples", "spread", "drift"), "1"),
    **dict.fromkeys(("answer_error", "share_of_peak"), "1"),
    "operations": "FLOP",
    **dict.fromkeys([f"seconds_{s}" for s in ("median", "mean", "iqr", "min", "max")], "s"),
    **dict.fromkeys([f"flops_per_second_{s}" for s in ("median", "mean", "max")], "FLOP/s"),
    "clock_hertz_median": "Hz",
    "temperature_celsius_max": "degC",
    "power_watts_median": "W",
}
DEFAULT_SHAPES = {
    "accelerator": {"m": range(1024, 16385, 1024), "n": [4096, 8192], "k": [4096, 8192]},
    "cpu": {"m": [512, 1024, 2048], "n": [512, 1024], "k": [512, 1024]},
}
DEFAULT_WARMUP_SECONDS = {"accelerator": 30.0, "cpu": 2.0}
ERROR_LIMITS = {
    "bfloat16": 1e-2, "float16": 5e-3, "float32": 5e-5, "tf32": 3e-3,
    "float8_e4m3fn": 2e-2, "float8_e4m3fnuz": 2e-2,
}  # fmt: skip
"""Largest relative error (Frobenius norm). Rounding the output gives 2**-9 for bfloat16, which
float8 runs write too, and 2**-12 for float16. tf32 gives 3e-4, which float32 must not."""
CHECKED_ROWS = 16
SUSPECT_FACTOR = 5.0
ADAPTIVE_FROM = 600
LARGEST_GRID = 8000
LOOK = 5
PROMISING = 0.95
TIME_SHARE = 0.95 / 20
RACE_CHECKS = (8, 16, 32)
"""Warm-up samples after which a shape may be given up; UNCOUNTED of them load kernels."""
UNCOUNTED = 3
RACE_ERRORS = 2.5
"""How many standard errors slower than the best its median then has to be."""
JOB_SECONDS = 7 * 86400.0  # how long the devices of a node wait for the slowest one
SETTINGS = ("dtype", "num_iterations", "num_warmup_iterations", "fast_accumulation",
            "accelerator_warmup_seconds", "peak")  # fmt: skip

Grid = Sequence[Sequence[int]]


class Shape(NamedTuple):
    """An m x k matrix times a k x n matrix."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self.m}x{self.n}x{self.k}"

    @property
    def flops(self) -> int:
        """A multiplication and an addition per term."""
        return 2 * self.m * self.n * self.k


def get_shape(row: Row) -> Shape:
    """The shape a row is about."""
    return Shape(row["m"], row["n"], row["k"])


class Bench(NamedTuple):
    """A device, and what it takes to measure a shape on it."""

    torch: Any
    device: Any
    options: argparse.Namespace
    stop: Stop
    watch: Stopwatch
    flush: Callable[[], None]
    sampler: ClockSampler | None

    def build(self, shape: Shape) -> tuple[Any, Any, Any, Callable[[], Any]]:
        """A, the transposed B, and C with random values, and the call that is timed."""
        torch, device, dtype = self.torch, self.device, self.options.dtype
        is_float8 = dtype.startswith("float8")
        kind = getattr(torch, {"tf32": "float32"}.get(dtype, "bfloat16" if is_float8 else dtype))
        a = torch.randn(shape.m, shape.k, dtype=kind, device=device)
        b = torch.randn(shape.n, shape.k, dtype=kind, device=device)
        c = torch.empty(shape.m, shape.n, dtype=kind, device=device)
        if not is_float8:
            return a, b, c, functools.partial(torch.mm, a, b.t(), out=c)
        a, b = a.to(getattr(torch, dtype)), b.to(getattr(torch, dtype))
        one = torch.ones((), device=device)
        more = {"out_dtype": kind, "use_fast_accum": self.options.fast_accumulation, "out": c}
        return a, b, c, functools.partial(torch._scaled_mm, a, b.t(), one, one, **more)

    def warm_up(self, shape: Shape) -> None:
        """Keep the device busy until its clocks have settled."""
        *_, multiply = self.build(shape)
        end = time.monotonic() + self.options.accelerator_warmup_seconds
        while time.monotonic() < end:
            self.stop.check()
            for _ in range(1 if self.device.type == "cpu" else 10):
                multiply()
            synchronize(self.torch, self.device)

    def measure(self, shape: Shape, bar: float | None = None) -> Row:
        """One row. With a bar (FLOP/s), a shape that does not reach it ends in its warm-up; an
        infinite bar asks for a look. Raises Stopped, and RuntimeError where memory is short."""
        options = self.options
        a, b, c, multiply = self.build(shape)

        def refresh() -> None:
            self.stop.check()
            c.uniform_()
            self.flush()

        def run(count: int) -> list[float]:
            return self.watch.time_each(multiply, count, refresh)

        seconds = race(run, shape.flops, options.num_warmup_iterations, bar)
        stopped_early = bool(seconds)
        began = time.monotonic()
        seconds = seconds or run(options.num_iterations)
        samples = self.sampler.samples if self.sampler else []
        error = measure_error(a, b, c)
        row: Row = {
            **shape._asdict(),
            "dtype": options.dtype,
            "operations": shape.flops,
            **summarize("seconds", seconds),
            "stopped_early": stopped_early,
            "answer_ok": error <= ERROR_LIMITS[options.dtype],
            "answer_error": error if math.isfinite(error) else None,
            **summarize_clocks([sample for sample in samples if sample.moment >= began]),
        }
        for name, time_of in (("median", "median"), ("mean", "mean"), ("max", "min")):
            row[f"flops_per_second_{name}"] = shape.flops / row[f"seconds_{time_of}"]
        return row | judge(row, options.peak and options.peak * 1e12)


def measure_error(a: Any, b: Any, c: Any) -> float:
    """Relative error of some rows and columns of c, the last ones among them, against float64;
    infinite where anything in the whole of c is not finite. b is transposed."""

    def pick(matrix: Any) -> Any:
        step = max(1, matrix.shape[0] // CHECKED_ROWS)
        return matrix[(matrix.shape[0] - 1) % step :: step].float()

    if not bool(c.isfinite().all()):
        return math.inf
    a, b, found = (x.cpu().double() for x in (pick(a), pick(b), pick(pick(c).t()).t()))
    expected = a @ b.t()
    return float((found - expected).norm() / expected.norm().clamp_min(1e-300))


def race(
    run: Callable[[int], list[float]], flops: int, warmups: int, bar: float | None
) -> list[float]:
    """Warm a shape up. Returns its seconds so far if it is given up, else nothing.

    It is given up where its median is RACE_ERRORS standard errors slower than the bar. The
    standard error of a median is 1.2533 times that of a mean, and an IQR is 1.349 standard
    deviations.
    """
    if bar == math.inf:
        return run(LOOK)[1:]
    seconds: list[float] = []
    for count in [count for count in RACE_CHECKS if bar and count <= warmups]:
        seconds += run(count - len(seconds))
        row = summarize("seconds", seconds[UNCOUNTED:])
        error = 1.2533 * row["seconds_iqr"] / 1.349 / math.sqrt(row["samples"])
        if bar * (row["seconds_median"] - RACE_ERRORS * error) > flops:
            return seconds[UNCOUNTED:]
    run(warmups - len(seconds))
    return []


def judge(row: Row, peak: float | None) -> Row:
    """The verdict of a row, and its share of the peak."""
    above = peak and row["flops_per_second_max"] > peak
    verdict = "stopped early" if row["stopped_early"] else verdict_of_samples(row)
    if row["seconds_median"] >= SUSPECT_FACTOR * row["seconds_min"]:
        verdict = "suspect"
    if above:
        verdict = "above peak"
    return {
        "share_of_peak": peak and row["flops_per_second_median"] / peak,
        "above_peak": above,
        "verdict": verdict if row["answer_ok"] else "WRONG ANSWER",
    }


def can_be_best(row: Row) -> bool:
    """Measured in full, right, and not above the peak."""
    return bool(row["answer_ok"]) and not (row["stopped_early"] or row["above_peak"])


def find_best(rows: Sequence[Row], name: str = "median") -> Row | None:
    """The fastest row."""
    whole = filter(can_be_best, rows)
    return max(whole, key=lambda row: row[f"flops_per_second_{name}"], default=None)


def spread_shapes(grid: Grid) -> Iterator[Shape]:
    """All shapes of a grid, in steps of its size over the golden ratio."""
    total = math.prod(map(len, grid))
    stride = max(1, round(total * 0.6180339887498949))
    while math.gcd(stride, total) != 1:
        stride += 1
    for step in range(total):
        rest, k = divmod((total // 2 + step * stride) % total, len(grid[2]))
        m, n = divmod(rest, len(grid[1]))
        yield Shape(grid[0][m], grid[1][n], grid[2][k])


def thin_grid(grid: Grid, near: Shape | None = None) -> Grid:
    """At most LARGEST_GRID shapes: those around a shape, or else spread over the grid, of each
    group of neighbouring sizes the one with the most factors of two."""
    widths = range(1, max(map(len, grid)) + 1)
    width = max(w for w in widths if math.prod(min(len(s), w) for s in grid) <= LARGEST_GRID)
    thinned = []
    for axis, sizes in enumerate(grid):
        count = min(width, len(sizes))
        bounds = [round(part * len(sizes) / count) for part in range(count + 1)]
        if near:
            first = min(max(0, sizes.index(near[axis]) - count // 2), len(sizes) - count)
            bounds = list(range(first, first + count + 1))
        groups = [sizes[low:high] for low, high in itertools.pairwise(bounds)]
        thinned.append([max(group, key=lambda size: (size & -size, size)) for group in groups])
    return thinned


def search(
    measure: Callable[[Shape, float], Row | None], grid: Grid, calls: int, until: float
) -> Row | None:
    """The best shape of a grid, in a twentieth of the time that measuring all of it would take.

    `measure(shape, bar)` looks at a shape (infinite bar), or measures it in full unless it does
    not reach the bar; None where memory is short. `calls` is the number of matmuls that a shape
    takes in full. Looking ends at `until` of time.monotonic().
    """
    if math.prod(map(len, grid)) > LARGEST_GRID:
        best = search(measure, thin_grid(grid), calls, (time.monotonic() + until) / 2)
        grid = thin_grid(grid, get_shape(best)) if best else thin_grid(grid)
    looks: list[Row] = []
    for shape in spread_shapes(grid):
        row = measure(shape, math.inf)
        if row and row["answer_ok"] and not row["above_peak"]:
            looks.append(row)
        if time.monotonic() > until:
            break
    looks.sort(key=lambda row: -row["flops_per_second_median"])
    left = sum(row["seconds_median"] * (TIME_SHARE * calls - LOOK) for row in looks)
    best, bar = None, 0.0
    for look in looks:
        if best and (left < 0 or look["flops_per_second_median"] < PROMISING * bar):
            break
        row = measure(get_shape(look), bar)
        if row:
            taken = row["samples"] + UNCOUNTED if row["stopped_early"] else calls
            left -= row["seconds_median"] * taken
            best = find_best([row, best] if best else [row])
            bar = best["flops_per_second_median"] if best else 0.0
    return best


def check_dtype(torch: Any, device: Any, dtype: str, grid: Grid) -> None:
    """Raise UsageError where this device does not have that data type, or not at these sizes."""
    is_cuda, is_rocm = device.type == "cuda", torch.version.hip is not None
    facts = torch.cuda.get_device_properties(device) if is_cuda else None
    if dtype == "tf32" and (not is_cuda or is_rocm or facts.major < 8):
        raise UsageError("--dtype tf32 is for NVIDIA GPUs from compute capability 8.0; use float32")
    if not (is_cuda and dtype.startswith("float8")):
        return
    if not is_rocm and (facts.major, facts.minor) < (8, 9):
        raise UsageError(f"--dtype {dtype} needs compute capability 8.9; {facts.name} is older")
    is_mi300 = is_rocm and facts.gcnArchName.startswith("gfx94")  # later ones have the OCP format
    wanted = "float8_e4m3fnuz" if is_mi300 else "float8_e4m3fn"
    if dtype != wanted:
        raise UsageError(f"--dtype {dtype} is not the float8 of {facts.name}; use {wanted}")
    uneven = [size for sizes in grid[1:] for size in sizes if size % 16]
    if uneven:
        raise UsageError(f"--dtype {dtype}: n and k have to be multiples of 16, not {uneven[0]}")


def find_traps(torch: Any, environ: Mapping[str, str]) -> list[str]:
    """Settings of the environment that change the result."""
    if torch.version.hip is None:
        return []
    if environ.get("PYTORCH_TUNABLEOP_ENABLED", "0") not in ("", "0"):
        return ["TunableOp is on: programs without the same tuning will be slower"]
    advice = "compare with PYTORCH_TUNABLEOP_ENABLED=1 (slow at the first use of each shape)"
    return [f"TunableOp is off: the default kernel may be far from the best; {advice}"]


def read_resumed(path: str, label: str, details: Mapping[str, Any]) -> dict[Shape, Row]:
    """The rows of an earlier run on this device. Raises UsageError where that run is not alike."""
    document = read_json("--resume", path)
    if not isinstance(document, dict) or document.get("tool") != "mamf_finder":
        raise UsageError(f"--resume: {path} was not written by mamf_finder --json")
    earlier = document["details"]
    before = {"method": document["method"], **earlier["settings"], **earlier["header"]}
    now = {"method": METHOD, **details["settings"], **details["header"]}
    for name in ("method", *SETTINGS[:4], "device_kind", "device_model", "torch", "threads"):
        if before.get(name) != now[name]:
            raise UsageError(
                f"--resume: {path} has {name} {before.get(name)}, this run has {now[name]}; "
                "start again without --resume"
            )
    rows = [row for row in document["results"] if row["device"] == label]
    return {get_shape(row): {**row, "resumed": True} for row in rows}


def prepare(
    options: argparse.Namespace, torch: Any, device: Any, stop: Stop
) -> tuple[Grid, Bench, dict[str, Any]]:
    """The shapes, the device ready to measure them, and details for the JSON. Raises UsageError."""
    tier = "cpu" if device.type == "cpu" else "accelerator"
    grid = [sorted(set(getattr(options, name) or DEFAULT_SHAPES[tier][name])) for name in "mnk"]
    check_dtype(torch, device, options.dtype, grid)
    if hasattr(torch.backends.cuda.matmul, "fp32_precision"):
        torch.backends.cuda.matmul.fp32_precision = "tf32" if options.dtype == "tf32" else "ieee"
    else:  # torch before 2.9
        torch.backends.cuda.matmul.allow_tf32 = options.dtype == "tf32"
    torch.manual_seed(0)
    if options.accelerator_warmup_seconds is None:
        options.accelerator_warmup_seconds = DEFAULT_WARMUP_SECONDS[tier]
    watch, sampler = Stopwatch(torch, device), None
    notes = find_traps(torch, os.environ)
    try:
        sampler = ClockSampler(*open_nvml(torch, device))
        sampler.start()
    except LookupError as error:
        notes.append(f"clocks, temperature, power and throttle reasons were not sampled: {error}")
    bench = Bench(torch, device, options, stop, watch, make_cache_flush(torch, device), sampler)
    settings = {name: getattr(options, name) for name in SETTINGS}
    details = {"header": describe_run(torch, device, timer=watch.clock), "settings": settings}
    return grid, bench, {"details": details, "notes": notes}


def measure_grid(
    grid: Grid, bench: Bench, label: str, result: dict[str, Any], report: Report | None
) -> None:
    """Measure the shapes on one device, into the result; a report is saved from time to time."""
    options = bench.options
    total = math.prod(map(len, grid))
    is_large = bool(options.budget) and total >= ADAPTIVE_FROM
    kind = options.search or ("adaptive" if is_large else "exhaustive")
    result["details"]["search"] = {"kind": kind, "grid_shapes": total}
    rows: dict[Shape, Row] = {}
    if options.resume and Path(options.resume).exists():
        rows = read_resumed(options.resume, label, result["details"])
        rows = {s: row for s, row in rows.items() if all(map(operator.contains, grid, s))}
        result["notes"].append(f"{len(rows)} shapes of {label} come from --resume")
    skipped: list[Shape] = []
    progress = Progress(total, "shapes", quiet=report is None)

    def measure(shape: Shape, bar: float | None = None) -> Row | None:
        known = rows.get(shape)
        if known and (bar == math.inf or not known["stopped_early"]):
            return known
        bench.stop.check()
        try:
            row = bench.measure(shape, bar) | {"device": label, "resumed": False}
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            skipped.append(shape)
            return None
        rows[shape] = row
        progress.show(len(rows), f"{shape}: {row['flops_per_second_median'] / 1e12:.4g} TFLOPS")
        if report:
            report.rows, report.details = list(rows.values()), report.details | result["details"]
            report.save(force=False)
        return row

    failure = None
    try:
        bench.warm_up(Shape(*(max((s for s in g if s <= 8192), default=g[0]) for g in grid)))
        if kind == "adaptive":
            until = (time.monotonic() + (bench.stop.deadline or math.inf)) / 2
            search(measure, grid, options.num_warmup_iterations + options.num_iterations, until)
        else:
            for shape in spread_shapes(grid):
                measure(shape)
    except Stopped as stopped:
        failure = ""
        result["notes"].append(f"{stopped}, after {len(rows)} of {total} shapes")
    except (RuntimeError, NotImplementedError) as error:
        failure = f"{label} failed at {options.dtype} matmuls: {first_line(error)}"
    progress.close()
    if kind == "adaptive":
        whole = sum(not row["stopped_early"] for row in rows.values())
        seen = f"{len(rows)} of {total} shapes seen, {whole} measured in full"
        result["notes"].append(f"adaptive search on {label}: {seen}")
    if skipped:
        result["notes"].append(f"{len(skipped)} shapes skipped: not enough memory")
        result["details"]["shapes_skipped"] = skipped
    samples = bench.sampler.samples if bench.sampler else []
    model = name_device(bench.torch, bench.device)
    result |= {
        "rows": list(rows.values()),
        "device": {"device": label, "model": model, **summarize_clocks(samples)},
        "complete": failure is None and not skipped,
        "failure": failure,
    }


def compare_devices(rows: Sequence[Row]) -> dict[str, float]:
    """How far the rates of each device are from the median device, the slowest first: by their
    geometric mean over the shapes that all devices measured in full."""
    rates: dict[str, dict[Shape, float]] = {}
    for row in filter(can_be_best, rows):
        rates.setdefault(row["device"], {})[get_shape(row)] = row["flops_per_second_median"]
    common = set.intersection(*map(set, rates.values())) if rates else set()
    means = {d: geometric_mean([own[s] for s in common]) for d, own in rates.items() if common}
    middle = median(means.values()) if means else 1.0
    return {d: mean / middle - 1 for d, mean in sorted(means.items(), key=lambda item: item[1])}


def merge(results: Sequence[dict[str, Any]], report: Report) -> list[str]:
    """Put what all devices measured into the report; returns what is wrong with it."""
    rows = [row for result in results for row in result["rows"]]
    report.rows = sorted(rows, key=lambda row: (row["device"], *get_shape(row)))
    report.details |= results[0]["details"]
    report.details["devices"] = [result["device"] for result in results]
    report.complete = all(result["complete"] for result in results)
    problems = [result["failure"] for result in results if result["failure"]]
    wrong = [row for row in rows if not row["answer_ok"]]
    if wrong:
        where = f"{get_shape(wrong[0])} on {wrong[0]['device']}"
        problems.append(f"{len(wrong)} wrong answers ({where}): suspect device, driver or library")
    above = sum(bool(row["above_peak"]) for row in rows)
    if above:
        problems.append(f"{above} results above --peak: is it the dense peak of this data type?")
    return problems if rows else [*problems, "nothing was measured"]


def add_notes(results: Sequence[dict[str, Any]], report: Report) -> None:
    """Say what limits the numbers, and which device is the slowest."""
    rows = report.rows
    for note in [note for result in results for note in result["notes"]]:
        report.note(note)
    for verdict, advice in (
        ("unsteady", "stop everything else on the device, warm up longer, or use larger shapes"),
        ("suspect", "something else had the device; on a CPU set OMP_NUM_THREADS to idle cores"),
    ):
        count = sum(row["verdict"] == verdict for row in rows)
        if count:
            report.note(f"{count} of {len(rows)} results are {verdict}: {advice}")
    clocks = [*rows, *report.details["devices"]]
    reasons = {name for entry in clocks for name in (entry["throttle_reasons"] or "").split()}
    if reasons:
        report.note(
            f"clocks were held back by {', '.join(sorted(reasons))} (sw_power_cap is usual under "
            "a full matmul load, a thermal or hw reason is not)"
        )
    compared = compare_devices(rows)
    if len(compared) > 1:
        texts = [f"{device} {100 * relative:+.1f} %" for device, relative in compared.items()]
        report.note(f"slowest device first, from the median device: {', '.join(texts)}")


def print_results(report: Report, top: int) -> None:
    """Print the header to stderr; the table of the best, and that of the fastest rows."""
    rows, details = report.rows, report.details
    print(f"command: {' '.join(report.document()['command'])}", file=sys.stderr)
    for name, value in {**details["header"], **details["settings"]}.items():
        shown = " ".join(f"{k}={v}" for k, v in value.items()) if name == "environment" else value
        print(f"{name.replace('_', ' ')}: {shown}", file=sys.stderr)
    largest = max((row["flops_per_second_max"] for row in rows), default=0.0)
    unit, factor = ("TFLOPS", 1e12) if largest >= 1e12 else ("GFLOPS", 1e9)
    peak = details["settings"]["peak"]

    def share(rate: float) -> str | None:
        return peak and f"{rate / peak / 1e10:.1f}"

    cells: list[tuple[object, ...]] = []
    for name in ("median", "mean", "max"):
        best, column = find_best(rows, name), f"flops_per_second_{name}"
        if best:
            where = f"{get_shape(best)} on {best['device']}"
            cells.append((f"best {name}", scaled(best, column, factor), where, share(best[column])))
    rates = [r["flops_per_second_median"] for r in rows if r["answer_ok"] and not r["above_peak"]]
    for name, mean in (("arithmetic", fmean), ("geometric", geometric_mean)) if rates else ():
        rate = mean(rates)
        shown = earned(rate / factor, rate / factor / 100)
        cells.append((f"{name} mean of medians", shown, f"{len(rates)} results", share(rate)))
    print(format_table(("rate", unit, "shape MxNxK", "% of peak"), cells))
    cells = [
        (
            get_shape(row),
            row["device"],
            row["samples"],
            *(scaled(row, f"flops_per_second_{s}", factor) for s in ("median", "mean", "max")),
            None if row["spread"] is None else f"{100 * row['spread']:.1f}",
            row["verdict"],
        )
        for row in sorted(rows, key=lambda r: (r["stopped_early"], -r["flops_per_second_median"]))
    ]
    headings = ("shape MxNxK", "device", "samples", f"median, {unit}", "mean", "max", "IQR %",
                "verdict")  # fmt: skip
    print("\n" + format_table(headings, cells[:top]))


def draw(rows: Sequence[Row], path: str) -> None:
    """Draw a heat map for each pair of dimensions: the best rate over the third one."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(16, 4))
    pairs = itertools.combinations("mnk", 2)
    for axes, (across, down) in zip(figure.subplots(1, 3), pairs, strict=True):
        best: dict[tuple[int, int], float] = {}
        for row in rows:
            place = row[across], row[down]
            best[place] = max(best.get(place, 0.0), row["flops_per_second_median"] / 1e12)
        columns, lines = (sorted(set(sizes)) for sizes in zip(*best, strict=True))
        cells = [[best.get((c, line), math.nan) for c in columns] for line in lines]
        image = axes.imshow(cells, origin="lower", aspect="auto", vmin=0)
        axes.set(xlabel=across, ylabel=down)
        axes.set_xticks(range(len(columns)), columns, rotation=90)
        axes.set_yticks(range(len(lines)), lines)
        figure.colorbar(image, ax=axes, label="best median rate, TFLOPS")
    figure.savefig(path, bbox_inches="tight")


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(
        __doc__, tool="mamf_finder", version=__version__, method=METHOD, demo=PROFILES["demo"]
    )
    add = parser.add_argument
    # fmt: off
    for name in "mnk":
        either = parser.add_mutually_exclusive_group()
        either.add_argument(f"--{name}", type=positive_int, nargs="+", metavar="SIZE",
                            help=f"sizes of {name}")
        either.add_argument(f"--{name}-range", type=natural_int, nargs=3,
                            metavar=("START", "STOP", "STEP"), help=f"sizes of {name} as a range")
    add("--dtype", choices=tuple(ERROR_LIMITS), default="bfloat16", help="(default: bfloat16)")
    add("--fast-accumulation", action="store_true",
        help="float8: accumulate with less precision, as some training recipes do")
    add("--num-iterations", type=positive_int, default=100, help="samples per shape (default: 100)")
    add("--num-warmup-iterations", type=natural_int, default=50,
        help="untimed matmuls before them (default: 50)")
    add("--accelerator-warmup-seconds", type=float, metavar="SECONDS",
        help="load before the first shape (default: 30, on a CPU 2)")
    add("--budget", type=duration, help="stop after this long with the results so far: 10m")
    add("--search", choices=("adaptive", "exhaustive"),
        help="(default: exhaustive; adaptive for a large grid with --budget)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--device", help="cuda:1, xpu, cpu (default: the accelerator, else the CPU)")
    which.add_argument("--all-devices", action="store_true",
                       help="all accelerators of this node at once; names the slowest")
    add("--resume", metavar="PATH", help="take over the shapes of an earlier run's JSON")
    add("--peak", type=positive_float, metavar="TFLOPS",
        help="theoretical dense peak: prints the share of it and flags rates above it")
    add("--top", type=positive_int, default=10, help="rows printed (default: 10)")
    add("--plot", metavar="PATH", help="draw heat maps of the shapes as SVG or PNG")
    # fmt: on
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Expand the ranges. Raises UsageError before anything is measured."""
    for name in "mnk":
        if getattr(options, f"{name}_range"):
            first, last, step = getattr(options, f"{name}_range")
            sizes = range(first or step, last, step) if step else range(0)
            if not sizes:
                raise UsageError(f"--{name}-range {first} {last} {step} is empty: STOP is excluded")
            setattr(options, name, sizes)
    if options.resume and not Path(options.resume).exists() and options.resume != options.json:
        raise UsageError(f"--resume: there is no {options.resume}")
    if options.plot and importlib.util.find_spec("matplotlib") is None:
        raise UsageError("--plot needs matplotlib: pip install matplotlib")


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    options = build_parser().parse_args(arguments)
    check_options(options)
    torch = import_torch()
    is_rank = "LOCAL_WORLD_SIZE" in os.environ  # started by torchrun, or by launch_ranks
    if options.all_devices and not is_rank:
        if not torch.accelerator.is_available():
            raise UsageError("--all-devices: torch sees no accelerator")
        return launch_ranks(torch.accelerator.device_count(), arguments)
    place = read_place() if is_rank else None
    rank = place.rank if place else 0
    path = None if rank else options.json
    report = Report("mamf_finder", __version__, METHOD, UNITS, path, COMPARE)
    stop = Stop(options.budget)
    stop.listen(quiet=rank > 0)
    # Ranks talk over gloo. They start together, to share power and cooling as in a real job.
    job = join_ranks(torch, place, "cpu", JOB_SECONDS) if place else None
    device = choose_device(torch, options.device, place.local_rank if place else 0)
    grid, bench, result = prepare(options, torch, device, stop)
    devices = gather(job, str(device)) if job else [str(device)]
    label = str(device) if devices.count(str(device)) == 1 else f"rank {rank}, {device}"
    measure_grid(grid, bench, label, result, None if rank else report)
    results = gather(job, result) if job else [result]
    if job:
        leave_ranks(job)
    if rank:
        return 0  # the first rank speaks for all
    problems = merge(results, report)
    print_results(report, options.top)
    add_notes(results, report)
    report.save()
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    if options.plot and report.rows:
        draw(report.rows, options.plot)
    return int(bool(problems) or (stop.by_signal and not report.complete))


if __name__ == "__main__":
    start(main)
