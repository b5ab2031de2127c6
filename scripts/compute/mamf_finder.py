#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""How many matmul FLOP/s can this accelerator really do, and at which shapes?

Measures dense matmuls over many shapes and names the best: the maximum achievable matmul FLOPS
(MAMF), a term by Stas Bekman. Compare a training run with it.

## Formulas

`C = A @ B` with A of m x k and B of k x n takes `2 * m * n * k` FLOPs; `rate = FLOPs / seconds`.
1024 x 1024 x 1024 takes 2,147,483,648 FLOPs: in 1 ms that is 2.1 TFLOPS.

## What is timed

One `torch.mm` (`torch._scaled_mm` for float8) into an existing output, by device events, or by the
host clock on a CPU. Inputs are normally distributed; B is stored as n x k, like a linear layer's
weight. Before each timing the output gets new random values and a buffer larger than the last-level
cache is overwritten. Not timed: this, warm-up, and checking sampled rows and columns in float64.

Verdicts: `suspect` if the median is at least 5 times the fastest sample: something else used the
device; `stopped early` after the search's samples; `unsteady` if samples differ by more than 5 %.

All shapes are measured, in a random order. A grid of 600 shapes and more with `--budget` is
searched: a few samples of each shape, then the most promising in full, in a twentieth of the time.

## How to run

    python mamf_finder.py --m 8192 --n 8192 --k 8192 --dtype float8_e4m3fn --peak 1979
    # search for ten minutes; the same command goes on where it stopped
    python mamf_finder.py --m-range 0 16384 1024 --n-range 0 16384 1024 --k-range 0 16384 1024 \
        --budget 10m --json out.json --resume out.json
    # all GPUs of a node at once; on many nodes by srun --ntasks-per-node 1, or pdsh
    python mamf_finder.py --all-devices --m 8192 --n 8192 --k 8192 --json $(hostname).json

In `--m-range START STOP STEP` a START of 0 means STEP, and STOP is excluded.

## A good answer

The GPUs of a node are within a few percent of each other, and a second run finds the same best
rate. If that is far below the dense peak, look at clocks, power and throttle reasons in the JSON.

Exit status: 0 done, also when the budget ended it; 1 a wrong answer, a rate above `--peak`, a
device that failed, nothing measured, or a signal; 2 usage error.
"""

import argparse
import contextlib
import functools
import itertools
import math
import operator
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, geometric_mean, median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, duration, natural_int, positive_float, positive_int, start
from kit.device import choose_device, describe_run, import_torch, is_out_of_memory
from kit.files import read_text
from kit.nvml import ClockSampler, open_nvml
from kit.plot import draw_map
from kit.ranks import first_line, gather, join_ranks, launch_ranks, leave_ranks, read_place
from kit.report import Progress, Report, Row, format_table, read_json
from kit.stats import earned, scaled, summarize, verdict_of_samples
from kit.stop import Stop, Stopped
from kit.timing import Stopwatch

__version__ = "0.2.0"
METHOD = 1

PROFILES = {
    "demo": [
        "--device", "cpu", "--m", "256", "512", "--n", "256", "512", "--k", "256", "512",
        "--num-iterations", "20", "--accelerator-warmup-seconds", "0.5", "--threads", "1",
    ],
    "full": ["--m-range", "0", "20480", "1024", "--n-range", "0", "20480", "1024",
             "--k-range", "0", "20480", "1024", "--budget", "30m"],
}  # fmt: skip
GPUS = {"full": 1}
COMPARE = {
    "keys": ["dtype", "m", "n", "k"],
    "value": "flops_per_second_median",
    "better": "higher",
    "spread": "spread",
    "trusted": {"verdict": ["ok", "unsteady"]},
    "alike": ["details.header.device_kind", "details.header.device_model",
              "details.header.threads", "details.settings.fast_accumulation"],
}  # fmt: skip
ERROR_LIMITS = {
    "bfloat16": 1e-2, "float16": 5e-3, "float32": 5e-5, "tf32": 3e-3,
    "float8_e4m3fn": 2e-2, "float8_e4m3fnuz": 2e-2,
}  # fmt: skip
"""Largest relative error (Frobenius norm). Rounding the output gives 2**-9 for bfloat16, which
float8 runs write too, and 2**-12 for float16. tf32 gives 3e-4, which float32 must not."""
CHECKED_ROWS = 16
PRINTED_ROWS = 10
SUSPECT_FACTOR = 5.0
ADAPTIVE_FROM = 600
LOOK = 5
"""Samples of each shape in an adaptive search; the first one is dropped."""
TIME_SHARE = 0.9 / 20
JOB_SECONDS = 7 * 86400.0  # how long the devices of a node wait for the slowest one
IMPOSSIBLE = ("WRONG ANSWER", "above peak")
SETTINGS = ("dtype", "num_iterations", "num_warmup_iterations", "fast_accumulation",
            "accelerator_warmup_seconds", "peak")  # fmt: skip

Grid = Sequence[Sequence[int]]
Shape = tuple[int, int, int]
"""m, n and k of an m x k matrix times a k x n matrix."""


def get_shape(row: Row) -> Shape:
    """The shape a row is about."""
    return row["m"], row["n"], row["k"]


def name_shape(row: Row) -> str:
    """`4096x4096x8192`."""
    return "x".join(map(str, get_shape(row)))


class Bench:
    """A device, ready to measure shapes. Raises UsageError where it lacks the data type."""

    def __init__(self, torch: Any, device: Any, options: argparse.Namespace, stop: Stop) -> None:
        check_dtype(torch, device, options.dtype)
        torch.set_float32_matmul_precision("high" if options.dtype == "tf32" else "highest")
        torch.manual_seed(0)
        self.torch, self.device, self.options, self.stop = torch, device, options, stop
        self.watch, self.flush = Stopwatch(torch, device), make_cache_flush(torch, device)

    def build(self, shape: Shape) -> tuple[Any, Any, Any, Callable[[], Any]]:
        """A, the transposed B, and C with random values, and the call that is timed."""
        torch, device, dtype = self.torch, self.device, self.options.dtype
        is_float8 = dtype.startswith("float8")
        kind = getattr(torch, {"tf32": "float32"}.get(dtype, "bfloat16" if is_float8 else dtype))
        m, n, k = shape
        a = torch.randn(m, k, dtype=kind, device=device)
        b = torch.randn(n, k, dtype=kind, device=device)
        c = torch.empty(m, n, dtype=kind, device=device)
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
            self.watch.time_each(multiply, 1 if self.device.type == "cpu" else 10)

    def measure(self, shape: Shape, look: bool = False) -> Row:
        """One row, of a few samples only for a look. Raises Stopped, and RuntimeError of torch."""
        options = self.options
        a, b, c, multiply = self.build(shape)

        def refresh() -> None:
            self.stop.check()
            c.uniform_()
            self.flush()

        flops = 2 * math.prod(shape)  # a multiplication and an addition per term
        warmups, count = options.num_warmup_iterations, options.num_iterations
        warmups, count = (1, LOOK - 1) if look else (warmups, count)
        self.watch.time_each(multiply, warmups, refresh)
        seconds = self.watch.time_each(multiply, count, refresh)
        error = measure_error(a, b, c)
        row: Row = {
            **dict(zip("mnk", shape, strict=True)),
            "dtype": options.dtype,
            "operations": flops,
            **summarize("seconds", seconds),
            "stopped_early": look,
            "answer_ok": error <= ERROR_LIMITS[options.dtype],
            "answer_error": error if math.isfinite(error) else None,
        }
        for name, time_of in (("median", "median"), ("mean", "mean"), ("max", "min")):
            row[f"flops_per_second_{name}"] = flops / row[f"seconds_{time_of}"]
        return row | judge(row, options.peak and options.peak * 1e12)


def make_cache_flush(torch: Any, device: Any) -> Callable[[], None]:
    """A function that overwrites more memory than the last-level caches hold."""
    size = 512 * 1024**2 if device.type != "cpu" else max(64 * 1024**2, 2 * read_cpu_cache())
    buffer = torch.empty(size, dtype=torch.uint8, device=device)
    return lambda: buffer.zero_()


def read_cpu_cache(sysfs: Path = Path("/sys/devices/system/cpu")) -> int:
    """Bytes of all level-3 caches of this machine; 0 where the system does not say."""
    sizes: dict[str, int] = {}
    for folder in sysfs.glob("cpu[0-9]*/cache/index3"):
        with contextlib.suppress(ValueError):
            owners = read_text(folder / "shared_cpu_list")
            sizes[owners] = int(read_text(folder / "size").strip("K")) * 1024
    return sum(sizes.values())


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


def judge(row: Row, peak: float | None) -> Row:
    """The verdict of a row, and its share of the peak."""
    verdict = "stopped early" if row["stopped_early"] else verdict_of_samples(row)
    if row["seconds_median"] >= SUSPECT_FACTOR * row["seconds_min"]:
        verdict = "suspect"
    if peak and row["flops_per_second_max"] > peak:
        verdict = "above peak"
    return {
        "share_of_peak": peak and row["flops_per_second_median"] / peak,
        "verdict": verdict if row["answer_ok"] else "WRONG ANSWER",
    }


def can_be_best(row: Row) -> bool:
    """Measured in full, right, and not above the peak."""
    return not row["stopped_early"] and row["verdict"] not in IMPOSSIBLE


def shuffle_shapes(grid: Grid) -> list[Shape]:
    """All shapes of a grid; a run that is cut short has seen all of it thinly."""
    shapes = [(m, n, k) for m, n, k in itertools.product(*grid)]
    random.Random(0).shuffle(shapes)
    return shapes


def search(measure: Callable[..., Row | None], grid: Grid, calls: int, until: float) -> None:
    """Find the best shape in a twentieth of the time of the whole grid; looks end at `until`."""
    looks: list[Row] = []
    for shape in shuffle_shapes(grid):
        row = measure(shape, True)
        if row and row["verdict"] not in IMPOSSIBLE:
            looks.append(row)
        if time.monotonic() > until:
            break
    left = sum(row["seconds_median"] * (TIME_SHARE * calls - LOOK) for row in looks)
    for look in sorted(looks, key=lambda row: -row["flops_per_second_median"]):
        measure(get_shape(look), False)
        left -= look["seconds_median"] * calls
        if left < 0:
            break


def check_dtype(torch: Any, device: Any, dtype: str) -> None:
    """Raise UsageError without this data type: tf32 elsewhere would silently be float32."""
    is_cuda, is_rocm = device.type == "cuda", torch.version.hip is not None
    facts = torch.cuda.get_device_properties(device) if is_cuda else None
    if dtype == "tf32" and (not is_cuda or is_rocm or facts.major < 8):
        raise UsageError("--dtype tf32 is for NVIDIA GPUs from compute capability 8.0; use float32")
    if is_cuda and dtype.startswith("float8"):
        is_mi300 = is_rocm and facts.gcnArchName.startswith("gfx94")  # later ones have the OCP one
        wanted = "float8_e4m3fnuz" if is_mi300 else "float8_e4m3fn"
        if dtype != wanted:
            raise UsageError(f"--dtype {dtype} is not the float8 of {facts.name}; use {wanted}")


def read_resumed(path: str, label: str, details: Mapping[str, Any]) -> dict[Shape, Row]:
    """The rows of an earlier run on this device. Raises UsageError where that run is not alike."""
    document = read_json("--resume", path)
    if document.get("tool") != "mamf_finder":
        raise UsageError(f"--resume: {path} was not written by mamf_finder --json")
    before, now = (one["settings"] | one["header"] for one in (document["details"], details))
    for name in (*SETTINGS[:4], "device_kind", "device_model", "torch", "threads"):
        if before.get(name) != now[name]:
            was = f"{path} has {name} {before.get(name)}"
            raise UsageError(f"--resume: {was}, this run has {now[name]}; start without --resume")
    return {get_shape(row): row for row in document["results"] if row["device"] == label}


def measure_grid(grid: Grid, bench: Bench, label: str, report: Report) -> None:
    """Measure the shapes on one device, into the report, which is saved from time to time."""
    options, total = bench.options, math.prod(map(len, grid))
    kind = "adaptive" if options.budget and total >= ADAPTIVE_FROM else "exhaustive"
    header = describe_run(bench.torch, bench.device, timer=bench.watch.clock)
    device = {"device": label, "model": header["device_model"]}
    report.details |= {
        "header": header,
        "settings": {name: getattr(options, name) for name in SETTINGS},
        "search": {"kind": kind, "grid_shapes": total},
        "devices": [device],
    }
    if bench.torch.version.hip:
        tuned = f"PYTORCH_TUNABLEOP_ENABLED={os.environ.get('PYTORCH_TUNABLEOP_ENABLED', '0')}"
        report.notes.append(f"{tuned}: compare only runs with the same tuning")
    sampler: ClockSampler | None = None
    try:
        sampler = ClockSampler(*open_nvml(bench.torch, bench.device))
        sampler.start()
    except LookupError as error:
        what = "clocks, temperature, power and throttle reasons"
        report.notes.append(f"{what} were not sampled: {error}")
    rows: dict[Shape, Row] = {}
    if options.resume and (Path(options.resume).exists() or options.resume != options.json):
        rows = read_resumed(options.resume, label, report.details)
        report.notes.append(f"{len(rows)} shapes of {label} come from --resume")
    progress = Progress(total, "shapes", quiet=bench.stop.quiet)
    skipped: list[Shape] = []

    def measure(shape: Shape, look: bool = False) -> Row | None:
        known = rows.get(shape)
        if known and (look or not known["stopped_early"]):
            return known
        bench.stop.check()
        try:
            row = rows[shape] = bench.measure(shape, look) | {"device": label}
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            skipped.append(shape)
            return None
        progress.show(len(rows), f"{name_shape(row)}: {row['flops_per_second_median']:.4g} FLOP/s")
        report.rows = list(rows.values())
        report.save(force=False)
        return row

    try:
        m, n, k = (max((s for s in sizes if s <= 8192), default=sizes[0]) for sizes in grid)
        bench.warm_up((m, n, k))
        if kind == "adaptive":
            until = (time.monotonic() + bench.stop.deadline) / 2
            search(measure, grid, options.num_warmup_iterations + options.num_iterations, until)
            whole = sum(not row["stopped_early"] for row in rows.values())
            report.notes.append(f"{len(rows)} of {total} shapes seen, {whole} measured in full")
        else:
            for shape in shuffle_shapes(grid):
                measure(shape)
        report.complete = not skipped
        if skipped:
            report.notes.append(f"{len(skipped)} of {total} shapes skipped: not enough memory")
    except Stopped as stopped:
        report.notes.append(f"{stopped}, after {len(rows)} of {total} shapes")
    except (RuntimeError, NotImplementedError) as error:
        report.failed = True
        device["failure"] = f"failed at {options.dtype} matmuls: {first_line(error)}"
    progress.close()
    report.rows = list(rows.values())
    device |= sampler.summarize() if sampler else {}


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


def merge(documents: Sequence[dict[str, Any]], report: Report) -> list[str]:
    """Put the documents of all devices into the report, with notes; returns what is wrong."""
    rows = [row for document in documents for row in document["results"]]
    devices = [device for document in documents for device in document["details"]["devices"]]
    report.rows = sorted(rows, key=lambda row: (row["device"], *get_shape(row)))
    report.details["devices"] = devices
    report.complete = all(document["complete"] for document in documents)
    report.notes = []
    for text in itertools.chain.from_iterable(document["caveats"] for document in documents):
        report.note(text)
    counts = Counter(row["verdict"] for row in rows)
    if counts["unsteady"] or counts["suspect"]:
        noisy = f"{counts['unsteady']} unsteady and {counts['suspect']} suspect"
        report.note(f"{noisy} of {len(rows)} results: stop everything else on the device")
    for device in devices:
        if reasons := device.get("throttle_reasons"):
            report.note(f"{device['device']}: clocks held back by {reasons}")
    compared = compare_devices(rows)
    if len(compared) > 1:
        texts = [f"{device} {100 * relative:+.1f} %" for device, relative in compared.items()]
        report.note(f"slowest device first, from the median device: {', '.join(texts)}")
    problems = [f"{one['device']} {one['failure']}" for one in devices if "failure" in one]
    problems += [f"{counts[v]} results: {v}" for v in IMPOSSIBLE if counts[v]]
    return problems if rows else [*problems, "nothing was measured"]


def print_results(report: Report) -> None:
    """Print the header to stderr; the table of the best, and that of the fastest rows."""
    rows, details = report.rows, report.details
    header = {"command": " ".join(report.document()["command"])}
    for name, value in {**header, **details["header"], **details["settings"]}.items():
        print(f"{name.replace('_', ' ')}: {value}", file=sys.stderr)
    largest = max((row["flops_per_second_max"] for row in rows), default=0.0)
    unit, factor = ("TFLOPS", 1e12) if largest >= 1e12 else ("GFLOPS", 1e9)
    peak = (details["settings"]["peak"] or math.nan) * 1e10
    cells: list[tuple[object, ...]] = []
    for name in ("median", "mean", "max"):
        column = f"flops_per_second_{name}"
        best = max(filter(can_be_best, rows), key=operator.itemgetter(column), default=None)
        if best:
            where, share = f"{name_shape(best)} on {best['device']}", best[column] / peak
            cells.append((f"best {name}", scaled(best, column, factor), where, earned(share, 0.1)))
    rates = [r["flops_per_second_median"] for r in rows if r["verdict"] not in IMPOSSIBLE]
    for name, mean in (("arithmetic", fmean), ("geometric", geometric_mean)) if rates else ():
        rate = mean(rates)
        shown, share = earned(rate / factor, rate / factor / 100), earned(rate / peak, 0.1)
        cells.append((f"{name} mean of medians", shown, f"{len(rates)} results", share))
    print(format_table(("rate", unit, "shape MxNxK", "% of peak"), cells))
    cells = []
    for row in sorted(rows, key=lambda r: (r["stopped_early"], -r["flops_per_second_median"])):
        rate = scaled(row, "flops_per_second_median", factor)
        spread = None if row["spread"] is None else f"{100 * row['spread']:.1f}"
        cells.append((name_shape(row), row["device"], rate, spread, row["verdict"]))
    headings = ("shape MxNxK", "device", f"median, {unit}", "IQR %", "verdict")
    print("\n" + format_table(headings, cells[:PRINTED_ROWS]))


def build_parser() -> Parser:
    parser = Parser(__doc__, "mamf_finder", __version__, METHOD, PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    for name in "mnk":
        either = parser.add_mutually_exclusive_group()
        either.add_argument(f"--{name}", type=positive_int, nargs="+", metavar="SIZE",
                            default=[2048, 4096, 8192], help="(default: 2048 4096 8192)")
        either.add_argument(f"--{name}-range", type=natural_int, nargs=3,
                            metavar=("START", "STOP", "STEP"), help=f"sizes of {name} as a range")
    add("--dtype", choices=tuple(ERROR_LIMITS), default="bfloat16", help="(default: bfloat16)")
    add("--fast-accumulation", action="store_true",
        help="float8: accumulate with less precision, as some training recipes do")
    add("--num-iterations", type=positive_int, default=100, help="samples per shape (default: 100)")
    add("--num-warmup-iterations", type=natural_int, default=50,
        help="untimed matmuls before them (default: 50)")
    add("--accelerator-warmup-seconds", type=float, default=30.0, metavar="SECONDS",
        help="load before the first shape (default: 30)")
    add("--budget", type=duration, help="stop after this long with the results so far: 10m")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--device", help="cuda:1, xpu, cpu (default: the accelerator, else the CPU)")
    which.add_argument("--all-devices", action="store_true",
                       help="all accelerators of this node at once; names the slowest")
    add("--threads", type=positive_int, metavar="N", help="threads on a CPU (default: torch's)")
    add("--resume", metavar="PATH", help="take over the shapes of an earlier run's JSON")
    add("--peak", type=positive_float, metavar="TFLOPS",
        help="theoretical dense peak: prints the share of it and flags rates above it")
    add("--plot", metavar="PATH", help="draw heat maps of the shapes as SVG or PNG")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    for name in "mnk":
        if getattr(options, f"{name}_range"):
            first, last, step = getattr(options, f"{name}_range")
            setattr(options, name, range(first or step, last, step))
            if not getattr(options, name):
                raise UsageError(f"--{name}-range {first} {last} {step} is empty: STOP is excluded")
    torch = import_torch()
    torch.set_num_threads(options.threads or torch.get_num_threads())
    is_rank = "LOCAL_WORLD_SIZE" in os.environ  # started by torchrun, or by launch_ranks
    if options.all_devices and not is_rank:
        if not torch.accelerator.is_available():
            raise UsageError("--all-devices: torch sees no accelerator")
        return launch_ranks(torch.accelerator.device_count(), arguments)
    place = read_place() if is_rank else None
    rank = place.rank if place else 0
    path = None if rank else options.json
    report = Report("mamf_finder", __version__, METHOD, path, COMPARE, {"operations": "FLOP"})
    stop = Stop(options.budget)
    stop.listen(quiet=rank > 0)
    # Ranks talk over gloo. They start together, to share power and cooling as in a real job.
    job = join_ranks(torch, place, "cpu", JOB_SECONDS) if place else None
    device = choose_device(torch, options.device, place.local_rank if place else 0)
    grid = [sorted(set(getattr(options, name))) for name in "mnk"]
    bench = Bench(torch, device, options, stop)
    label = f"rank {rank}, cpu" if job and device.type == "cpu" else str(device)
    measure_grid(grid, bench, label, report)
    documents = [report.document()]
    if job:
        documents = gather(job, report.document())
        leave_ranks(job)
    if rank:
        return 0  # rank 0 reports for all
    problems = merge(documents, report)
    print_results(report)
    report.save()
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    if options.plot and report.rows:
        best: dict[tuple[int, int], float] = {}
        for row in report.rows:
            cell, rate = (row["m"], row["n"]), row["flops_per_second_median"] / 1e12
            best[cell] = max(best.get(cell, 0.0), rate)
        draw_map(options.plot, best, "m n", "best median rate over k, TFLOPS")
    return int(bool(problems) or (stop.by_signal and not report.complete))


if __name__ == "__main__":
    start(main)
