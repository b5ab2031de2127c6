#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""How fast can the ranks of this job exchange data, at which payload?

Measures all-reduce, which data-parallel training runs after each step, and the other collectives
over payloads from 32 KiB to 16 GiB, and prints the bus bandwidth, to compare with a link's speed.

## Formulas

`algbw = size / seconds` and `busbw = factor * algbw`, as nccl-tests defines them for n ranks:

| collective | factor | size |
|:--|:--|:--|
| all_reduce | 2 (n-1) / n | the tensor of each rank |
| reduce_scatter, all_gather, all_to_all | (n-1) / n | all that a rank sends or receives |
| broadcast, sendrecv | 1 | one message, from rank 0, or from each rank to the next |

Sizes are binary (1 KiB = 1024 B), rates decimal (1 GB/s = 1e9 B/s).

## What is timed

`--mode async` (the default) queues `--depth` calls, waits once at the end and divides by their
number, as nccl-tests does. `--mode blocking` waits for each call. Both use device events, or the
host clock on a CPU. A row is the median over these samples of the mean over the ranks; for
broadcast it is the slowest rank, because the others finish before the data has arrived. Not timed:
warm-up, the barrier before each sample, and checking every element before and after.

The verdict of a row is the first of these that applies: `WRONG ANSWER`, `above peak` (faster than
`--peak`), `few samples` (below 4), `unsteady` (the samples differ by more than 5 %, or drift),
`latency` (at least half of the time does not depend on the size, because twice the size takes at
most 1.5 times as long), `ok`. all_reduce_latency_comp.py fits latency and bandwidth.

## How to run

    # one node: starts a rank per accelerator
    python all_reduce_bench.py --collective all --mode both --json out.json
    # Slurm, 4 nodes with 8 GPUs each
    export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
    srun --ntasks-per-node 8 --gpus-per-node 8 python all_reduce_bench.py --json out.json
    # pdsh
    pdsh -w node[01-04] 'torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-id 1 \
        --rdzv-endpoint node01:29500 /shared/all_reduce_bench.py'

A signal or the end of `--budget`, on any rank, ends all ranks and keeps what was measured.

## A good answer

busbw rises with the payload and is level from about 100 MB, near the speed of the slowest link on
the way: NVLink within a node, the NICs between nodes. Only in-network reduction (SHARP) can exceed
it. If the level is low, look at `NCCL_DEBUG=INFO` for the network and algorithm in use.

Exit status: 0 done, also when the budget ended it; 1 a wrong answer, a rate above `--peak`, a rank
that failed, or a signal; 2 usage error.
"""

import argparse
import functools
import itertools
import math
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, natural_int, positive_float, positive_int, size, start
from kit.device import describe_run, free_memory, synchronize
from kit.plot import draw_curves
from kit.ranks import Job, add_rank_options, begin_ranks, end_together, exit_status, gather, meet
from kit.report import Progress, Report, Row, format_bytes, format_seconds, format_table
from kit.stats import bus_factor, scaled, summarize, verdict_of_samples
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
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "sendrecv")
SUMS = ("all_reduce", "reduce_scatter")
GIB = 1024**3
BLOCK = 2**22
"""Elements that are checked at a time."""


class Call:
    """The tensors of one collective at one size on this rank, the call, and the right answer."""

    def __init__(self, job: Job, name: str, size_bytes: int, dtype: str) -> None:
        self.job, self.name = job, name
        kind = getattr(job.torch, dtype)
        count = size_bytes // kind.itemsize // job.size * job.size
        self.size_bytes, self.part = count * kind.itemsize, count // job.size
        sent = self.part if name == "all_gather" else count
        self.sent = self.received = job.torch.empty(sent, dtype=kind, device=job.device)
        if name not in ("all_reduce", "broadcast"):
            received = self.part if name == "reduce_scatter" else count
            self.received = job.torch.empty(received, dtype=kind, device=job.device)

    def start(self) -> list[Any]:
        """Start the collective; returns the handles to wait for."""
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

    def sent_value(self, index: Any) -> Any:
        """What this rank sends at an index. In a sum one rank sends a number and the rest zeros, so
        that no data type rounds the sum, and each rank counts."""
        rank = self.job.rank
        if self.name in SUMS:
            return number(index, rank) * (index % self.job.size == rank)
        return number(index, rank) * (self.name != "broadcast" or rank == 0)

    def right_value(self, index: Any) -> Any:
        """What this rank has to receive at an index."""
        rank, ranks, part = self.job.rank, self.job.size, self.part
        if self.name in SUMS:
            index = index + rank * part if self.name == "reduce_scatter" else index
            return number(index, index % ranks)
        if self.name in ("all_gather", "all_to_all"):
            first = rank * part if self.name == "all_to_all" else 0
            return number(first + index % part, index // part)
        return number(index, 0 if self.name == "broadcast" else (rank - 1) % ranks)

    def count_wrong(self) -> int:
        """Run once, blocking; the elements of this rank's answer that are wrong."""
        torch, device = self.job.torch, self.job.device
        self.received.zero_()
        for begin, block in enumerate(self.sent.split(BLOCK)):
            block.copy_(self.sent_value(begin * BLOCK + torch.arange(len(block), device=device)))
        for work in self.start():
            work.wait()
        wrong = 0
        for begin, block in enumerate(self.received.split(BLOCK)):
            right = self.right_value(begin * BLOCK + torch.arange(len(block), device=device))
            wrong += int((block != right).sum())
        return wrong


def number(index: Any, sender: Any) -> Any:
    """What a rank sends at an index: from 1 to 251, which every data type holds."""
    return (index + 31 * sender) % 251 + 1


def measure(
    job: Job, stop: Stop, watch: Stopwatch, entry: tuple[str, str, int], options: argparse.Namespace
) -> tuple[Row, list[list[float]]]:
    """One row: a collective in a mode at a size, over all ranks, and the seconds per call of each
    rank's samples. Raises Stopped on all ranks."""
    name, mode, size_bytes = entry
    call = Call(job, name, size_bytes, options.dtype)
    depth = options.depth if mode == "async" else 1

    def run_calls(count: int) -> None:
        queue = [call.start() for _ in range(count)]
        for handle in itertools.chain.from_iterable(queue):
            handle.wait()  # on an accelerator this only orders the stream

    wrong = call.count_wrong()
    if name in SUMS:
        call.sent.zero_()  # repeated sums of zeros do not overflow, and take as long
    for _ in range(options.num_warmup_iterations):
        meet(job, stop)
        run_calls(1)
    seconds = []  # per call, of each sample
    for _ in range(options.num_iterations):
        synchronize(job.torch, job.device)
        meet(job, stop)  # a barrier
        seconds.append(watch.time(functools.partial(run_calls, depth)) / depth)
    wrong += call.count_wrong()
    by_rank = gather(job, (seconds, wrong))
    row: Row = {
        "collective": name,
        "mode": mode,
        "dtype": options.dtype,
        "size_bytes": call.size_bytes,
        "ranks": job.size,
        "calls": depth,
        **summarize_ranks([times for times, _ in by_rank], name, call.size_bytes),
        "wrong_elements": sum(wrong for _, wrong in by_rank),
    }
    rate = row["busbw_bytes_per_second_median"]
    row["above_peak"] = bool(options.peak and rate > options.peak * 1e9)
    return row, [times for times, _ in by_rank]


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


def judge(rows: Sequence[Row]) -> None:
    """Set the verdict of each row; the rows of a collective and mode are in order of size."""
    for row, larger in itertools.zip_longest(rows, rows[1:]):
        verdict = verdict_of_samples(row)
        if verdict == "ok" and larger and larger["seconds_median"] <= 1.5 * row["seconds_median"]:
            same = (row["collective"], row["mode"]) == (larger["collective"], larger["mode"])
            verdict = "latency" if same else verdict
        if row["above_peak"]:
            verdict = "above peak"
        row["verdict"] = "WRONG ANSWER" if row["wrong_elements"] else verdict


def list_plan(options: argparse.Namespace, job: Job) -> list[tuple[str, str, int]]:
    """Collective, mode and bytes of each row that fits into memory. Raises UsageError."""
    on_cpu = job.device.type == "cpu"
    smallest, largest = options.min_size, options.max_size or (64 * 1024**2 if on_cpu else 16 * GIB)
    if options.payload_size_in_gib:
        smallest = largest = round(options.payload_size_in_gib * GIB)
    if smallest < job.size * 4:
        raise UsageError(f"a payload of {format_bytes(smallest)} is too small for {job.size} ranks")
    free = gather(job, free_memory(job.torch, job.device))
    share = 0.3 / job.size if on_cpu else 0.8
    room = math.inf if None in free else share * min(free) / 2  # for what is sent and received
    sizes = [smallest << n for n in range(64) if smallest << n <= min(largest, room)]
    if not sizes:
        raise UsageError(f"not enough memory for a payload of {format_bytes(smallest)}")
    names = COLLECTIVES if "all" in options.collective else options.collective
    modes = ("async", "blocking") if options.mode == "both" else (options.mode,)
    return [(name, mode, one) for name in names for mode in modes for one in sizes]


def print_results(report: Report) -> bool:
    """Print the table and notes; True if the numbers can be used."""
    headings = ("collective", "mode", "payload", "time", "algbw GB/s", "busbw GB/s",
                "slowest rank", "spread %", "verdict")  # fmt: skip
    cells = []
    for row in report.rows:
        slowest = scaled(row, "slowest_rank_busbw_bytes_per_second", 1e9)
        cells.append((
            row["collective"], f"{row['mode']} x{row['calls']}", format_bytes(row["size_bytes"]),
            format_seconds(row["seconds_median"]),
            scaled(row, "algbw_bytes_per_second_median", 1e9),
            scaled(row, "busbw_bytes_per_second_median", 1e9),
            f"{slowest} ({row['slowest_rank']})",
            "-" if row["spread"] is None else f"{100 * row['spread']:.1f}", row["verdict"],
        ))  # fmt: skip
    print(format_table(headings, cells))
    wrong = [row for row in report.rows if row["wrong_elements"]]
    if wrong:
        places = ", ".join(f"{r['collective']} {format_bytes(r['size_bytes'])}" for r in wrong)
        report.note(f"WRONG ANSWERS ({places}): suspect the network, device, driver or library")
    above = sum(row["above_peak"] for row in report.rows)
    if above:
        report.note(f"{above} rows are above --peak: is it GB/s in one direction, without SHARP?")
    return not wrong and not above


def build_parser() -> Parser:
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
        help="calls before the first sample (default: 2)")
    add("--peak", type=positive_float, metavar="GB/S",
        help="speed of the slowest link in one direction; flags rates above it")
    add("--profile-stability", action="store_true",
        help="keep every sample of every rank in the JSON, and plot samples instead of payloads")
    add("--plot", metavar="PATH", help="plot busbw over payload as SVG or PNG")
    # fmt: on
    add_rank_options(parser)
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    job, stop = begin_ranks(options, arguments)
    report = Report("all_reduce_bench", __version__, METHOD, options.json, COMPARE)
    watch, plan = Stopwatch(job.torch, job.device), list_plan(options, job)
    wanted = ("num_iterations", "num_warmup_iterations", "depth", "peak")
    report.details["settings"] = {name: getattr(options, name) for name in wanted}
    report.details["header"] = describe_run(
        job.torch, job.device, backend=job.backend, ranks=job.size, clock=watch.clock
    )
    progress = Progress(len(plan), "rows", quiet=job.rank > 0)
    with end_together(job, stop, report):
        for entry in plan:
            row, by_rank = measure(job, stop, watch, entry, options)
            report.rows.append(row)
            if options.profile_stability:
                samples = {"size_bytes": row["size_bytes"], "seconds_by_rank": by_rank}
                report.details.setdefault("samples", []).append(samples)
            judge(report.rows)
            report.save(force=False)
            progress.show(len(report.rows), f"{entry[0]} {format_bytes(entry[2])}")
    progress.close()
    usable = True
    if job.rank == 0 and report.rows:
        usable = print_results(report)
        if options.plot:
            curves: dict[str, dict[int, float]] = {}
            if options.profile_stability:
                for samples in report.details["samples"]:
                    for rank, seconds in enumerate(samples["seconds_by_rank"]):
                        name = f"{format_bytes(samples['size_bytes'])}, rank {rank}"
                        curves[name] = dict(enumerate(seconds, 1))
                draw_curves(options.plot, curves, "seconds per call", "sample")
            else:
                for row in report.rows:
                    curve = curves.setdefault(f"{row['collective']}, {row['mode']}", {})
                    curve[row["size_bytes"]] = row["busbw_bytes_per_second_median"] / 1e9
                draw_curves(options.plot, curves, "busbw, GB/s")
    return exit_status(report, stop, usable=usable)


if __name__ == "__main__":
    start(main)
