#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""How fast can the ranks of this job exchange data, at which payload?

All-reduce is what data-parallel training does after each step. This tool measures it, and the
other collectives, over payloads from 32 KiB to 16 GiB, and prints the bus bandwidth, which can be
compared with the speed of a link.

## Formulas

`algbw = size / seconds` and `busbw = factor * algbw`, as nccl-tests defines them for n ranks:

| collective | factor | size |
|:--|:--|:--|
| all_reduce | 2 (n-1) / n | the tensor of each rank |
| reduce_scatter, all_gather, all_to_all | (n-1) / n | all that a rank sends or receives |
| broadcast, sendrecv | 1 | one message, from rank 0, or from each rank to the next |

Sizes are binary (1 KiB = 1024 B), rates decimal (1 GB/s = 1e9 B/s).

## What is timed

`--mode async` (the default) queues `--depth` calls one after the other, waits once at the end and
divides by their number, as nccl-tests does. `--mode blocking` waits for each call. Both use device
events on an accelerator and the host clock on a CPU. One such measurement is a sample. A row is
the median over the samples of the mean over the ranks; for broadcast it is the slowest rank,
because the others finish before the data has arrived. Not timed: warm-up, the barrier before each
sample, filling the tensors, and checking the answer, element by element before and after.

A line `t = latency + size / bandwidth` is fitted to each curve (least squares of the relative
errors). The verdict of a row is the first of these that applies: `WRONG ANSWER`, `above peak`
(faster than `--peak`), `few samples` (below 4), `unsteady` (the samples differ by more than 5 %, or
drift), `latency` (at least half of the time does not depend on the size), `ok`.

## How to run

    # one node: starts a rank per accelerator
    python all_reduce_bench.py --collective all --mode both --json out.json
    # Slurm, 4 nodes with 8 GPUs each
    srun --nodes 4 --ntasks-per-node 1 --gpus-per-node 8 bash -c 'torchrun \
        --nnodes $SLURM_NNODES --nproc-per-node 8 --rdzv-backend c10d --rdzv-id $SLURM_JOB_ID \
        --rdzv-endpoint $(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1):29500 \
        all_reduce_bench.py --json out.json'
    # pdsh
    pdsh -w node[01-04] 'torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-id 1 \
        --rdzv-endpoint node01:29500 /shared/all_reduce_bench.py'

A signal or the end of `--budget`, on any rank, ends all ranks and keeps what was measured.

## A good answer

busbw rises with the payload and is level from about 100 MB, near the speed of the slowest link on
the way: NVLink within a node, the NICs between nodes. Only in-network reduction (SHARP) can exceed
it. If the level is low, look at `NCCL_DEBUG=INFO` for the network and algorithm in use.

Exit status: 0 done, also when the budget ended it; 1 a wrong answer, a rate above `--peak`, a rank
that failed, or a signal; 2 wrong use.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, natural_int, positive_float, positive_int, size, start
from kit.device import describe_run, free_memory, synchronize
from kit.ranks import Job, add_rank_options, begin_ranks, end_together, exit_status, gather, meet
from kit.report import Progress, Report, Row, format_bytes, format_seconds, format_table
from kit.stats import bus_factor, earned, fit_line, scaled, summarize, verdict_of_samples
from kit.stop import Stop
from kit.timing import Stopwatch

__version__ = "0.2.0"
METHOD = 2  # 2: calls are queued by default, --depth of them whatever their size

PROFILES = {
    "demo": ["--device", "cpu", "--max-size", "1MiB", "--num-iterations", "10"],
    "full": ["--collective", "all", "--mode", "both", "--budget", "30m"],
}
RANKS = {"demo": 2, "full": "accelerators"}
GPUS = {"full": 8}
COMPARE = {
    "keys": ["collective", "mode", "dtype", "size_bytes"],
    "value": "busbw_bytes_per_second_median",
    "better": "higher",
    "spread": "spread",
    "trusted": {"verdict": ["ok", "unsteady", "latency"]},
    "alike": ["details.header.device_kind", "details.header.device_model",
              "details.header.backend", "details.settings.depth"],
}  # fmt: skip
UNITS = {
    "size_bytes": "B",
    **dict.fromkeys(("ranks", "calls", "samples", "spread", "drift"), "1"),
    **dict.fromkeys([f"seconds_{s}" for s in ("median", "mean", "iqr", "min", "max")], "s"),
    "algbw_bytes_per_second_median": "B/s",
    "busbw_bytes_per_second_median": "B/s",
    **dict.fromkeys(("slowest_rank", "wrong_elements"), "1"),
    "slowest_rank_busbw_bytes_per_second": "B/s",
}
COLLECTIVES = (
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "sendrecv"
)  # fmt: skip
SUMS = ("all_reduce", "reduce_scatter")
GIB = 1024**3
LATENCY_SHARE = 0.5


class Call:
    """The tensors of one collective at one size on this rank, the call, and the right answer."""

    def __init__(self, job: Job, name: str, size_bytes: int, dtype: str) -> None:
        self.job, self.name = job, name
        kind = getattr(job.torch, dtype)
        count = size_bytes // kind.itemsize // job.size * job.size
        self.size_bytes, self.count, self.part = count * kind.itemsize, count, count // job.size
        sent = self.part if name == "all_gather" else count
        self.sent = job.torch.empty(sent, dtype=kind, device=job.device)
        self.received = self.sent
        if name in ("all_gather", "all_to_all", "sendrecv"):
            self.received = job.torch.empty(count, dtype=kind, device=job.device)
        elif name == "reduce_scatter":
            self.received = job.torch.empty(self.part, dtype=kind, device=job.device)

    def start(self) -> list[Any]:
        """Start the collective; returns what has to be waited for."""
        dist, rank, ranks = self.job.torch.distributed, self.job.rank, self.job.size
        if self.name == "all_reduce":
            return [dist.all_reduce(self.sent, async_op=True)]
        if self.name == "all_gather":
            return [dist.all_gather_into_tensor(self.received, self.sent, async_op=True)]
        if self.name == "reduce_scatter":
            return [dist.reduce_scatter_tensor(self.received, self.sent, async_op=True)]
        if self.name == "all_to_all":
            return [dist.all_to_all_single(self.received, self.sent, async_op=True)]
        if self.name == "broadcast":
            return [dist.broadcast(self.sent, 0, async_op=True)]
        send = dist.P2POp(dist.isend, self.sent, (rank + 1) % ranks)
        receive = dist.P2POp(dist.irecv, self.received, (rank - 1) % ranks)
        return list(dist.batch_isend_irecv([send, receive]))

    def message(self, sender: int, receiver: int = 0) -> Any:
        """What one rank sends to another: numbers below 251, which every data type holds."""
        count = self.part if self.name in ("all_gather", "all_to_all") else self.count
        index = self.job.torch.arange(count, device=self.job.device)
        return (index + 31 * sender + 7 * receiver) % 251

    def total(self) -> tuple[Any, Any]:
        """The sum of all ranks, and what this rank adds to it: every n-th element, the others are
        zeros, so that no data type rounds the sum, and each rank counts."""
        index = self.job.torch.arange(self.count, device=self.job.device)
        is_own = index % self.job.size == self.job.rank
        right = index.floor_divide_(self.job.size).remainder_(7).add_(1).to(self.job.torch.uint8)
        return right, right * is_own

    def count_wrong(self) -> int:
        """Run once, blocking; the elements of this rank's answer that are wrong."""
        torch, rank, ranks = self.job.torch, self.job.rank, self.job.size
        self.received.zero_()
        if self.name in SUMS:
            right, own = self.total()
            if self.name == "reduce_scatter":
                right = right[rank * self.part : (rank + 1) * self.part]
            self.sent.copy_(own)
        elif self.name == "all_to_all":
            self.sent.copy_(torch.cat([self.message(rank, to) for to in range(ranks)]))
            right = torch.cat([self.message(other, rank) for other in range(ranks)])
        elif self.name == "all_gather":
            self.sent.copy_(self.message(rank))
            right = torch.cat([self.message(other) for other in range(ranks)])
        else:
            right = self.message(0 if self.name == "broadcast" else (rank - 1) % ranks)
            if self.name == "sendrecv" or rank == 0:
                self.sent.copy_(self.message(rank))
        for work in self.start():
            work.wait()
        return int((self.received != right).sum())


def time_call(
    job: Job, stop: Stop, watch: Stopwatch, call: Call, mode: str, samples: int, depth: int
) -> list[float]:
    """Seconds per call on this rank, one number per sample. Raises Stopped on all ranks.

    Summing collectives run on zeros, so that repeated sums neither grow nor overflow; what a
    collective sends does not change its speed.
    """
    if call.name in SUMS:
        call.sent.zero_()
    calls = depth if mode == "async" else 1
    seconds = []

    def work() -> None:
        for pending in [call.start() for _ in range(calls)]:
            for one in pending:
                one.wait()  # on an accelerator this only orders the stream

    for _ in range(samples):
        synchronize(job.torch, job.device)
        meet(job, stop)
        seconds.append(watch.time(work) / calls)
    return seconds


def measure(
    job: Job, stop: Stop, watch: Stopwatch, entry: tuple[str, str, int], options: argparse.Namespace
) -> Row:
    """One row: a collective in a mode at a size, over all ranks. Raises Stopped on all ranks."""
    name, mode, size_bytes = entry
    call = Call(job, name, size_bytes, options.dtype)
    wrong = call.count_wrong()
    time_call(job, stop, watch, call, mode, max(1, options.num_warmup_iterations), 1)
    seconds = time_call(job, stop, watch, call, mode, options.num_iterations, options.depth)
    wrong += call.count_wrong()
    by_rank = gather(job, (seconds, wrong))
    row: Row = {
        "collective": name,
        "mode": mode,
        "dtype": options.dtype,
        "size_bytes": call.size_bytes,
        "ranks": job.size,
        "calls": options.depth if mode == "async" else 1,
        **summarize_ranks([times for times, _ in by_rank], name, call.size_bytes),
        "wrong_elements": sum(count for _, count in by_rank),
    }
    rate = row["busbw_bytes_per_second_median"]
    row["above_peak"] = bool(options.peak and rate > options.peak * 1e9)
    return row


def summarize_ranks(by_rank: Sequence[Sequence[float]], collective: str, size_bytes: int) -> Row:
    """Statistics over the samples, of all ranks together and of the slowest rank."""
    samples = list(zip(*by_rank, strict=True))
    combine = max if collective == "broadcast" else statistics.fmean
    row = summarize("seconds", [combine(sample) for sample in samples])
    factor = bus_factor(collective, len(by_rank))
    row["algbw_bytes_per_second_median"] = size_bytes / row["seconds_median"]
    row["busbw_bytes_per_second_median"] = factor * size_bytes / row["seconds_median"]
    medians = [statistics.median(seconds) for seconds in by_rank]
    row["slowest_rank"] = medians.index(max(medians))
    slowest = statistics.median(map(max, samples))
    row["slowest_rank_busbw_bytes_per_second"] = factor * size_bytes / slowest
    return row


def judge(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Set the verdict of each row; returns the fitted line of each collective and mode."""
    fits = []
    for key in dict.fromkeys((row["collective"], row["mode"]) for row in rows):
        ours = [row for row in rows if (row["collective"], row["mode"]) == key]
        fit = fit_line([r["size_bytes"] for r in ours], [r["seconds_median"] for r in ours])
        if fit:
            latency, algbw = fit
            busbw = algbw and algbw * bus_factor(key[0], ours[0]["ranks"])
            fits.append({"collective": key[0], "mode": key[1], "latency_seconds": latency,
                         "busbw_bytes_per_second": busbw})  # fmt: skip
        for row in ours:
            verdict = verdict_of_samples(row)
            if verdict == "ok" and fit and fit[0] >= LATENCY_SHARE * row["seconds_median"]:
                verdict = "latency"
            if row["above_peak"]:
                verdict = "above peak"
            row["verdict"] = "WRONG ANSWER" if row["wrong_elements"] else verdict
    return fits


def list_plan(options: argparse.Namespace, job: Job) -> list[tuple[str, str, int]]:
    """Collective, mode and size in bytes of each row, of the sizes for which all ranks have memory.

    Raises UsageError where not even the smallest size can be measured.
    """
    on_cpu = job.device.type == "cpu"
    rooms = gather(job, free_memory(job.torch, job.device))
    share = 0.3 / job.size if on_cpu else 0.8
    room = math.inf if None in rooms else share * min(rooms)
    names = COLLECTIVES if "all" in options.collective else options.collective
    modes = ("async", "blocking") if options.mode == "both" else (options.mode,)
    smallest, largest = options.min_size, options.max_size or (64 * 1024**2 if on_cpu else 16 * GIB)
    if options.payload_size_in_gib:
        smallest = largest = round(options.payload_size_in_gib * GIB)
    if smallest < job.size * 4:
        raise UsageError(f"a payload of {format_bytes(smallest)} is too small for {job.size} ranks")
    sizes = [smallest << power for power in range(64) if smallest << power <= largest]
    # The tensors take up to twice the payload, the check of the answer 8 bytes per element twice.
    width = getattr(job.torch, options.dtype).itemsize
    fitting = [one for one in sizes if one * (2 + 24 / width) <= room]
    if not fitting:
        raise UsageError(f"not enough memory for a payload of {format_bytes(sizes[0])}")
    return [(name, mode, one) for name in names for mode in modes for one in fitting]


def run_rank(job: Job, stop: Stop, options: argparse.Namespace, report: Report) -> None:
    """Measure as one of the ranks, into the report."""
    watch, plan = Stopwatch(job.torch, job.device), list_plan(options, job)
    wanted = ("num_iterations", "num_warmup_iterations", "depth", "peak")
    report.details |= {
        "header": describe_run(
            job.torch, job.device, backend=job.backend, ranks=job.size, clock=watch.clock
        ),
        "settings": {name: getattr(options, name) for name in wanted},
    }
    progress = Progress(len(plan), "rows", quiet=job.rank > 0)
    with end_together(job, stop, report):
        for entry in plan:
            row = measure(job, stop, watch, entry, options)
            report.rows.append(row)
            report.details["fits"] = judge(report.rows)
            report.save(force=False)
            rate = row["busbw_bytes_per_second_median"] / 1e9
            progress.show(len(report.rows), f"{entry[0]} {format_bytes(entry[2])} {rate:.4g} GB/s")
    progress.close()


def print_results(report: Report) -> bool:
    """Print the tables and notes; True if the numbers can be used."""
    rows = report.rows
    headings = ("collective", "mode", "payload", "time", "algbw GB/s", "busbw GB/s",
                "slowest rank", "spread %", "verdict")  # fmt: skip
    cells = [
        (
            row["collective"],
            f"{row['mode']} x{row['calls']}",
            format_bytes(row["size_bytes"]),
            format_seconds(row["seconds_median"]),
            scaled(row, "algbw_bytes_per_second_median", 1e9),
            scaled(row, "busbw_bytes_per_second_median", 1e9),
            f"{scaled(row, 'slowest_rank_busbw_bytes_per_second', 1e9)} ({row['slowest_rank']})",
            "-" if row["spread"] is None else f"{100 * row['spread']:.1f}",
            row["verdict"],
        )
        for row in rows
    ]
    print(format_table(headings, cells))
    for fit in report.details.get("fits", []):
        rate = fit["busbw_bytes_per_second"]
        bandwidth = f"{earned(rate / 1e9)} GB/s" if rate else "no measurable bandwidth"
        latency = format_seconds(fit["latency_seconds"])
        print(f"\n{fit['collective']}, {fit['mode']}: latency {latency}, then {bandwidth}")
    wrong = [row for row in rows if row["wrong_elements"]]
    if wrong:
        places = ", ".join(f"{r['collective']} {format_bytes(r['size_bytes'])}" for r in wrong)
        report.note(f"WRONG ANSWERS ({places}): suspect the network, device, driver or library")
    above = sum(row["above_peak"] for row in rows)
    if above:
        report.note(f"{above} rows are above --peak: is it GB/s in one direction, without SHARP?")
    return not wrong and not above


def draw(report: Report, path: str) -> None:
    """Plot busbw over payload as SVG or PNG."""
    from matplotlib.figure import Figure

    curves: dict[str, dict[int, float]] = {}
    for row in report.rows:
        curve = curves.setdefault(f"{row['collective']}, {row['mode']}", {})
        curve[row["size_bytes"]] = row["busbw_bytes_per_second_median"] / 1e9
    axes = (figure := Figure(figsize=(8, 5))).subplots()
    for name, curve in curves.items():
        axes.plot(curve.keys(), curve.values(), marker="o", label=name)
    axes.set(xscale="log", xlabel="payload, bytes", ylabel="busbw, GB/s", ylim=(0, None))
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, bbox_inches="tight")


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(__doc__, "all_reduce_bench", __version__, METHOD, PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    add("--collective", nargs="+", choices=(*COLLECTIVES, "all"), default=["all_reduce"],
        help="collectives to measure (default: all_reduce)")
    add("--mode", choices=("async", "blocking", "both"), default="async",
        help="queue --depth calls, or wait for each call (default: async)")
    add("--depth", type=positive_int, default=20, help="calls per queue (default: 20)")
    add("--min-size", type=size, default=32 * 1024, help="smallest payload (default: 32KiB)")
    add("--max-size", type=size, help="largest payload (default: 16GiB, on a CPU 64MiB)")
    add("--payload-size-in-gib", type=positive_float, help="measure only this payload")
    add("--dtype", choices=("float32", "float16", "bfloat16"), default="float32",
        help="(default: float32)")
    add("--num-iterations", type=positive_int, default=5, help="samples per row (default: 5)")
    add("--num-warmup-iterations", type=natural_int, default=2,
        help="calls before the first sample (default: 2, at least 1)")
    add("--peak", type=positive_float, metavar="GB/S",
        help="speed of the slowest link in one direction; flags rates above it")
    add("--plot", metavar="PATH", help="plot busbw over payload as SVG or PNG")
    # fmt: on
    add_rank_options(parser)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    options = build_parser().parse_args(arguments)
    job, stop = begin_ranks(options, arguments)
    report = Report("all_reduce_bench", __version__, METHOD, UNITS, options.json, COMPARE)
    run_rank(job, stop, options, report)
    usable = True
    if job.rank == 0 and report.rows:
        usable = print_results(report)
        if options.plot:
            draw(report, options.plot)
    return exit_status(report, stop, usable=usable)


if __name__ == "__main__":
    start(main)
