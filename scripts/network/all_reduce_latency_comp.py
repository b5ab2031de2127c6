#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""How much longer do 1000 all-reduces of 4 MB take than one of 4 GB?

Both send the same bytes, but each call has its own cost. This tool times both ways on your
network and fits the two constants behind the difference: the latency of a call and the bandwidth.

## Formulas

`t(size) = latency + size / bandwidth`, so N calls of size s take `N * latency + N * s / bandwidth`,
and one call of N * s takes `latency + N * s / bandwidth`. With 100 µs and 100 GB/s, one call of
4 GB takes 40.1 ms and 1000 calls of 4 MB take 100 + 40 = 140 ms: 3.5 times as long.

`algbw = size / seconds` and `busbw = 2 (n-1) / n * algbw` over n ranks. Rates and sizes are decimal
(4 GB = 1000 * 4 MB).

## What is timed

All ranks meet in a barrier; then each calls all_reduce once for the whole tensor, or once per
piece, one call queued after the other, until its device has finished all of them: device events on
an accelerator, the host clock on a CPU. The two ways take turns. Single calls of several sizes
follow, for the fit (least squares of the relative errors). Not timed: warm-up, the barrier, filling
the tensor, and checking every element of the answer.

## How to run

    # one node: starts a rank per accelerator
    python all_reduce_latency_comp.py --payload 1GB --pieces 40
    # Slurm, a task per GPU
    export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
    srun --ntasks-per-node 8 --gpus-per-node 8 python all_reduce_latency_comp.py --json out.json

## A good answer

A ratio near 1: the pieces are large enough for this network. Above 2, more than half of the time is
latency: use larger buckets (`bucket_cap_mb` in DDP), or fewer and larger collectives. All ranks
take the same time within a few percent. A row is `unsteady` where its samples spread or drift by
more than 5 %.

Exit status: 0 done; 1 a wrong answer, a rank that failed, or a signal; 2 usage error.
"""

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, positive_int, size, start
from kit.device import describe_run, synchronize
from kit.ranks import Job, add_rank_options, begin_ranks, end_together, exit_status, gather, meet
from kit.report import Report, Row, format_bytes, format_seconds, format_table
from kit.stats import earned, scaled, summarize, verdict_of_samples
from kit.stop import Stop
from kit.timing import Stopwatch

__version__ = "0.2.0"
METHOD = 1

PROFILES = {
    "demo": ["--device", "cpu", "--payload", "8MB", "--pieces", "100", "--num-iterations", "6"],
    "full": ["--payload", "4GB", "--pieces", "1000", "--num-iterations", "10"],
}
RANKS = {"demo": 2, "full": "accelerators"}
GPUS = {"full": 2}
WARMUP_ITERATIONS = 2
DEFAULTS = {"cpu": (32_000_000, 200), "accelerator": (4_000_000_000, 1000)}  # bytes, pieces


def measure(
    job: Job, stop: Stop, watch: Stopwatch, options: argparse.Namespace, report: Report
) -> None:
    """Time both ways in turn, then single calls of several sizes, into the report."""
    torch, all_reduce = job.torch, job.torch.distributed.all_reduce
    payload, pieces = DEFAULTS["cpu" if job.device.type == "cpu" else "accelerator"]
    payload, pieces = options.payload or payload, options.pieces or pieces
    count = max(1, payload // 4 // pieces)
    tensor = torch.empty(count * pieces, device=job.device)
    pattern = (torch.arange(count * pieces, dtype=torch.int32, device=job.device) % 7).float()
    answer = pattern * job.size + sum(range(job.size))
    ways = {"whole": [tensor], "pieces": list(tensor.split(count))}
    seconds: dict[str, list[list[float]]] = {way: [] for way in ways}
    wrong = {way: [0] * job.size for way in ways}

    def time_once(parts: Sequence[Any]) -> float:
        tensor.copy_(pattern).add_(job.rank)
        synchronize(torch, job.device)
        meet(job, stop)
        return watch.time(lambda: [all_reduce(part) for part in parts])

    for turn in range(WARMUP_ITERATIONS + options.num_iterations):
        for way, parts in ways.items():
            by_rank = gather(job, (time_once(parts), int((tensor != answer).sum())))
            wrong[way] = [a + b for a, (_, b) in zip(wrong[way], by_rank, strict=True)]
            if turn >= WARMUP_ITERATIONS:
                seconds[way].append([taken for taken, _ in by_rank])
        if seconds["whole"]:
            add_results(report, count * 4, pieces, seconds, wrong)
    points = []
    for elements in (max(1, len(tensor) >> shift) for shift in range(0, 10, 2)):  # quarters
        part = [tensor[:elements]]
        samples = [time_once(part) for _ in range(1 + options.num_iterations)][1:]
        means = [statistics.fmean(one) for one in zip(*gather(job, samples), strict=True)]
        points.append((4.0 * elements, statistics.median(means)))
    latency, bandwidth = fit_line(*zip(*points, strict=True)) or (None, None)
    report.details["model"] = {"latency_seconds": latency, "bytes_per_second": bandwidth}


def fit_line(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float | None] | None:
    """Latency in seconds and bandwidth in B/s of t = latency + size / bandwidth, by least squares
    of the relative errors; None below three sizes, bandwidth None where time does not grow."""
    if len(set(sizes)) < 3:
        return None
    weights = [1 / t**2 for t in seconds]
    points = list(zip(weights, sizes, seconds, strict=True))
    total = sum(weights)
    mean_size = sum(w * s for w, s, _ in points) / total
    mean_time = sum(w * t for w, _, t in points) / total
    variance = sum(w * (s - mean_size) ** 2 for w, s, _ in points)
    slope = sum(w * (s - mean_size) * (t - mean_time) for w, s, t in points) / variance
    slope = max(slope, 0.0)
    latency = mean_time - slope * mean_size
    if latency < 0:  # then the line goes through the origin
        latency = 0.0
        slope = sum(w * s * t for w, s, t in points) / sum(w * s * s for w, s, _ in points)
    return latency, 1 / slope if slope else None


def add_results(
    report: Report, piece: int, pieces: int, seconds: dict[str, Any], wrong: dict[str, Any]
) -> None:
    """Set the rows, one per way and rank, and the ratio of the two ways."""
    report.rows.clear()
    ranks, total = len(wrong["whole"]), pieces * piece
    for way, calls in (("whole", 1), ("pieces", pieces)):
        for rank, samples in enumerate(zip(*seconds[way], strict=True)):
            row: Row = {"way": way, "rank": rank, "ranks": ranks, "calls": calls}
            row |= {"call_bytes": total // calls, "total_bytes": total}
            row |= summarize("seconds", samples)
            rate = total / row["seconds_median"]
            row["algbw_bytes_per_second_median"] = rate
            row["busbw_bytes_per_second_median"] = rate * 2 * (ranks - 1) / ranks
            row["wrong_elements"] = wrong[way][rank]
            row["verdict"] = "WRONG ANSWER" if wrong[way][rank] else verdict_of_samples(row)
            report.rows.append(row)
    pairs = zip(seconds["whole"], seconds["pieces"], strict=True)
    ratios = [statistics.fmean(many) / statistics.fmean(one) for one, many in pairs]
    report.details["pieces_over_whole"] = summarize("ratio", ratios)


def print_results(report: Report) -> bool:
    """Print the table, the ratio and the fitted line; True if all answers were right."""
    cells = [
        (
            f"{row['calls']} x {format_bytes(row['call_bytes'])}",
            row["rank"],
            format_seconds(row["seconds_median"]),
            scaled(row, "algbw_bytes_per_second_median", 1e9),
            scaled(row, "busbw_bytes_per_second_median", 1e9),
            "-" if row["spread"] is None else f"{100 * row['spread']:.1f}",
            row["verdict"],
        )
        for row in report.rows
    ]
    headings = ("calls", "rank", "time", "algbw GB/s", "busbw GB/s", "spread %", "verdict")
    print(format_table(headings, cells))
    calls = report.rows[-1]["calls"]
    ratio = scaled(report.details["pieces_over_whole"], "ratio_median")
    print(f"\n{calls} calls take {ratio} times as long as one call of the same bytes")
    if model := report.details.get("model"):
        rate, latency = model["bytes_per_second"], model["latency_seconds"]
        bandwidth = f"{earned(rate / 1e9)} GB/s" if rate else "not measurable"
        print(f"fitted: latency {format_seconds(latency)} per call, bandwidth {bandwidth}")
    wrong = sorted({row["rank"] for row in report.rows if row["wrong_elements"]})
    if wrong:
        report.note(f"WRONG ANSWERS on ranks {wrong}: suspect the network, device or driver")
    return not wrong


def build_parser() -> Parser:
    parser = Parser(__doc__, "all_reduce_latency_comp", __version__, METHOD, PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    add("--payload", type=size, help="total bytes (default: 4GB, on a CPU 32MB)")
    add("--pieces", type=positive_int, metavar="N",
        help="number of small calls (default: 1000, on a CPU 200)")
    add("--num-iterations", type=positive_int, default=10, metavar="N",
        help="samples per way (default: 10)")
    # fmt: on
    add_rank_options(parser)
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    if options.payload and options.payload < 4 * (options.pieces or 1):
        raise UsageError("--payload has fewer elements (4 bytes each) than there are pieces")
    job, stop = begin_ranks(options, arguments)
    watch = Stopwatch(job.torch, job.device)
    report = Report("all_reduce_latency_comp", __version__, METHOD, options.json)
    report.details["header"] = describe_run(
        job.torch, job.device, backend=job.backend, ranks=job.size, clock=watch.clock
    )
    with end_together(job, stop, report):
        measure(job, stop, watch, options, report)
    usable = print_results(report) if job.rank == 0 and report.rows else True
    return exit_status(report, stop, usable=usable)


if __name__ == "__main__":
    start(main)
