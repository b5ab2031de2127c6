#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""How much slower is a collective on Python objects than the same one on tensors?

`all_gather_object` takes any object: it pickles it, gathers the lengths, pads all pickles to the
longest, gathers the bytes and unpickles them. A tensor of known shape needs only the last gather.
This tool times both with the same values:

- `gather`: every rank gets the integers of all ranks. `all_gather_object` of a list against
  `all_gather` of an int64 tensor. The payload is that of the tensor, 8 bytes per integer.
- `done flag`: every rank learns whether all are done. `all_gather_object` of a bool and `all()`
  against `all_reduce` (MIN) of an int32 that is made from a bool, and reading it back.

## What is timed

From a barrier of all ranks until this rank can use the answer: Python objects, or a tensor that the
device has finished. Host clock, because the host does most of the work. A sample is the mean over
the ranks. Each answer is checked on every rank. Not timed: the barrier, warm-up, making the values,
and the check. `ratio = seconds with objects / seconds with tensors`, of two calls that follow each
other: 500 µs against 100 µs is a ratio of 5.

## How to run

    # one node: starts a rank per accelerator
    python object_vs_tensor_collectives.py --payload 8 1KiB 1MiB
    # Slurm, a task per GPU
    export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
    srun --ntasks-per-node 8 --gpus-per-node 8 python object_vs_tensor_collectives.py

## A good answer

Ratios of 2 to 10 are usual, and grow with the payload, because pickling does. Whether that matters
depends on how often you call: a millisecond per step of 100 ms is 1 %. Keep objects out of the
training loop. `unsteady` means that the ratio's IQR is more than a quarter of its median.

Exit status: 0 done; 1 a wrong answer, a rank that failed, or a signal; 2 usage error.
"""

import importlib.util
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, positive_int, size, start
from kit.device import describe_run, synchronize
from kit.ranks import Job, add_rank_options, begin_ranks, end_together, exit_status, gather, meet
from kit.report import Report, Row, format_bytes, format_seconds, format_table
from kit.stats import scaled, summarize, verdict_of_samples
from kit.stop import Stop

__version__ = "0.2.0"
METHOD = 1

PROFILES = {
    "demo": ["--device", "cpu", "--payload", "8", "64KiB", "--num-iterations", "20"],
    "full": ["--payload", "8", "1KiB", "64KiB", "1MiB", "--num-iterations", "200"],
}
RANKS = {"demo": 2, "full": "accelerators"}
GPUS = {"full": 2}
WARMUP_ITERATIONS = 10
WIDE_RATIO = 0.25


Calls = tuple[Callable[[], Any], Callable[[], Any], Any]
"""A collective on objects, the same on tensors, and the answer that both must give."""


def gather_objects(job: Job, value: Any) -> list[Any]:
    """torch's all_gather_object, or the same steps by hand where there is no NumPy for it."""
    if importlib.util.find_spec("numpy") is None:
        return gather(job, value)
    values: list[Any] = [None] * job.size
    job.torch.distributed.all_gather_object(values, value)
    return values


def make_gather(job: Job, payload: int, turn: int) -> Calls:
    """Every rank gets the integers of all; they differ by rank and by turn."""
    torch, count = job.torch, payload // 8
    starts = [1_000_003 * rank + 7919 * turn for rank in range(job.size)]
    numbers = [list(range(first, first + count)) for first in starts]
    sent = torch.tensor(numbers[job.rank], dtype=torch.int64, device=job.device)
    received = torch.zeros((job.size, count), dtype=torch.int64, device=job.device)
    parts = list(received)

    def gather_tensors() -> Any:
        torch.distributed.all_gather(parts, sent)
        synchronize(torch, job.device)
        return received

    return lambda: gather_objects(job, numbers[job.rank]), gather_tensors, numbers


def make_flag(job: Job, turn: int) -> Calls:
    """Every rank learns whether all are done: in even turns they are, in odd turns one is not."""
    torch, dist = job.torch, job.torch.distributed
    done = [turn % 2 == 0 or rank != turn // 2 % job.size for rank in range(job.size)]

    def reduce_flag() -> bool:
        flag = torch.tensor(int(done[job.rank]), dtype=torch.int32, device=job.device)
        dist.all_reduce(flag, op=dist.ReduceOp.MIN)
        return bool(flag.item())

    return lambda: all(gather_objects(job, done[job.rank])), reduce_flag, all(done)


def measure(job: Job, stop: Stop, payload: int | None, iterations: int) -> Row:
    """One row: `gather` of a payload in bytes, or the `done flag` where it is None."""
    seconds: tuple[list[float], list[float]] = ([], [])
    wrong = 0
    for turn in range(WARMUP_ITERATIONS + iterations):
        *calls, right = make_gather(job, payload, turn) if payload else make_flag(job, turn)
        for way in (0, 1) if turn % 2 else (1, 0):  # the first one has the colder caches
            meet(job, stop)
            began = time.perf_counter()
            answer = calls[way]()
            taken = time.perf_counter() - began
            wrong += (answer.tolist() if payload and way == 1 else answer) != right
            if turn >= WARMUP_ITERATIONS:
                seconds[way].append(taken)
    by_rank = gather(job, (*seconds, wrong))
    objects, tensors = (
        [statistics.fmean(sample) for sample in zip(*(one[way] for one in by_rank), strict=True)]
        for way in (0, 1)
    )
    row: Row = {"task": "gather" if payload else "done flag", "payload_bytes": payload or 4}
    return judge(row | {"ranks": job.size}, objects, tensors, sum(one[2] for one in by_rank))


def judge(row: Row, objects: Sequence[float], tensors: Sequence[float], wrong: int) -> Row:
    """The row with statistics of both ways and of the ratios of neighbours, and a verdict."""
    row["object_seconds_median"] = statistics.median(objects)
    row["tensor_seconds_median"] = statistics.median(tensors)
    row |= summarize("ratio", [a / b for a, b in zip(objects, tensors, strict=True)])
    row["steady"] = None if row["spread"] is None else row["spread"] <= WIDE_RATIO
    row["wrong_answers"] = wrong
    row["verdict"] = "WRONG ANSWER" if wrong else verdict_of_samples(row)
    return row


def print_results(report: Report) -> bool:
    """Print the table; True if all answers were right."""
    cells = []
    for row in report.rows:
        payload = f" {format_bytes(row['payload_bytes'])}" if row["task"] == "gather" else ""
        cells.append((
            row["task"] + payload,
            format_seconds(row["object_seconds_median"]),
            format_seconds(row["tensor_seconds_median"]),
            scaled(row, "ratio_median"),
            "-" if row["spread"] is None else f"{100 * row['spread']:.0f}", row["verdict"],
        ))  # fmt: skip
    headings = ("task", "object", "tensor", "ratio", "IQR of ratio %", "verdict")
    print(format_table(headings, cells))
    wrong = [row["task"] for row in report.rows if row["wrong_answers"]]
    if wrong:
        report.note(f"WRONG ANSWERS ({', '.join(wrong)}): suspect the network, device or driver")
    return not wrong


def build_parser() -> Parser:
    parser = Parser(__doc__, "object_vs_tensor_collectives", __version__, METHOD, PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    add("--payload", type=size, nargs="+", default=[8, 1024, 65536], metavar="SIZE",
        help="bytes per rank to gather (default: 8 1KiB 64KiB)")
    add("--num-iterations", type=positive_int, default=100, metavar="N",
        help="samples per row (default: 100)")
    # fmt: on
    add_rank_options(parser)
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    if min(options.payload) < 8:
        raise UsageError("--payload: an integer takes 8 bytes, so 8 is the smallest")
    job, stop = begin_ranks(options, arguments, least=1)
    report = Report("object_vs_tensor_collectives", __version__, METHOD, options.json)
    report.details["header"] = describe_run(
        job.torch, job.device, backend=job.backend, ranks=job.size
    )
    if importlib.util.find_spec("numpy") is None and job.rank == 0:
        report.note("all_gather_object needs NumPy: its steps were done by hand")
    with end_together(job, stop, report):
        for payload in (*(one // 8 * 8 for one in options.payload), None):
            report.rows.append(measure(job, stop, payload, options.num_iterations))
            report.save(force=False)
    usable = print_results(report) if job.rank == 0 and report.rows else True
    return exit_status(report, stop, usable=usable)


if __name__ == "__main__":
    start(main)
