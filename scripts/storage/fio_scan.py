#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""How fast does this file system read and write, by file size, block size and load?

Runs fio (https://github.com/axboe/fio) over a grid of loads, each several times, and prints
bandwidth (IOPS * block size), IOPS and latency.

## What is timed

fio times `--runtime` seconds of each load, after `--ramp-time` seconds that do not count. The loads
take turns, `--repeats` times; a row is the median over the repeats. Latency is from submission to
completion (clat). With `--whole-files` each job reads or writes its file once, a write ends with an
fsync that counts, and the slowest job decides.

Presets: `scan` reads and writes files of 16 KiB, 1 MiB and 1 GiB in blocks of 4 KiB; `checkpoint`
writes and reads 8 whole files of 1 GiB in blocks of 4 MiB; `dataset` reads at random, 16 processes
with one request each.

Verdicts: `memory` and `buffered` mean that the numbers are those of memory, because direct I/O
(O_DIRECT) is not possible; `too fast` that no drive reads a block in so little time, so a cache
does; `unsteady` that the IQR is above 10 % of the median. A note says when a disk that the kernel
lists as spinning is faster than spinning disks are: often the host caches a virtual disk.

## How to run

    python fio_scan.py /mnt/shared --preset checkpoint --json checkpoint.json
    python fio_scan.py . --patterns randread --file-sizes 1GiB --jobs 1 16 --iodepth 1 64
    # Slurm, all nodes at once: they measure what they get together
    srun --ntasks-per-node=1 bash -c 'python fio_scan.py /mnt/shared --json $SLURM_NODEID.json'

## A good answer

Rows that are `ok`, and the same on another day. A local NVMe drive reads some GB/s in large blocks
and some 100,000 times per second in blocks of 4 KiB.

Exit status: 0 done, also when the budget ended it; 1 a row is FAILED or NOT SIMULTANEOUS, or a
signal; 2 usage error: no fio, too little space, no such directory.
"""

import argparse
import contextlib
import itertools
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, duration, positive_int, size, start
from kit.files import find_file_system, read_text
from kit.fio import add_jobs, explain_not_simultaneous, list_jobs, parse_fio, read_job, round_digits
from kit.report import Progress, Report, Row, format_bytes, format_table
from kit.stats import scaled, summarize
from kit.stop import Stop, Stopped, until_stopped

__version__ = "0.2.0"
METHOD = 1

PROFILES = {
    "demo": ["--file-sizes", "64KiB", "--jobs", "2", "--iodepth", "4", "--runtime", "0.3s",
             "--ramp-time", "0.1s", "--repeats", "2"],
    "full": ["--preset", "scan"],
}  # fmt: skip
COMPARE = {
    "keys": ["pattern", "access", "file_bytes", "block_bytes", "jobs", "iodepth"],
    "value": "bytes_per_second_median",
    "better": "higher",
    "spread": "spread",
    "trusted": {"verdict": ["ok", "unsteady", "few samples"]},
    "alike": ["details.file_system", "details.settings.engine", "details.settings.whole_files"],
}
RATES = [f"bytes_per_second_{name}" for name in ("median", "mean", "iqr", "min", "max")]
LATENCIES = [f"latency_seconds_{name}" for name in ("mean", "p50", "p99")]
KIB, MIB, GIB = 1024, 1024**2, 1024**3
PRESETS: dict[str, dict[str, Any]] = {
    "scan": {"patterns": ["read", "write"], "file_sizes": [16 * KIB, MIB, GIB],
             "block_sizes": [4 * KIB], "jobs": [16], "iodepth": [64]},
    "checkpoint": {"patterns": ["write", "read"], "file_sizes": [GIB], "block_sizes": [4 * MIB],
                   "jobs": [8], "iodepth": [8], "whole_files": True},
    "dataset": {"patterns": ["randread"], "file_sizes": [GIB],
                "block_sizes": [4 * KIB, 128 * KIB, MIB], "jobs": [16], "iodepth": [1],
                "engine": "psync"},
}  # fmt: skip
UNSTEADY = 0.1
SHORTEST_READ = 5e-6
"""No drive behind PCIe reads a block in less."""
SPINNING_SEEK, SPINNING_RATE = 1e-3, 0.6e9
"""The shortest random read of a spinning disk, and the fastest that one streams."""


class Load(NamedTuple):
    """One load of the grid."""

    pattern: str
    file_bytes: int
    block_bytes: int
    jobs: int
    iodepth: int

    def __str__(self) -> str:
        sizes = f"{format_bytes(self.file_bytes)}-{format_bytes(self.block_bytes)}"
        return f"{self.pattern}-{sizes}-{self.jobs}x{self.iodepth}".replace(" ", "")


def run_fio(load: Load, options: argparse.Namespace, folder: str, stop: Stop) -> str:
    """Run fio once in the folder; what it printed, its JSON included. Raises Stopped."""
    command = [
        "fio", "--name=scan", "--directory=.", "--randrepeat=0", "--exitall_on_error=1",
        "--unlink=1", "--eta=never", "--output-format=json+", f"--ioengine={options.engine}",
        f"--direct={int(options.access == 'direct')}", f"--readwrite={load.pattern}",
        f"--blocksize={load.block_bytes}", f"--filesize={load.file_bytes}",
        f"--size={load.file_bytes}", f"--numjobs={load.jobs}", f"--iodepth={load.iodepth}",
    ]  # fmt: skip
    runtime, ramp = (f"{1000 * s:.0f}ms" for s in (options.runtime, options.ramp_time))
    timed = ["--time_based=1", f"--runtime={runtime}", f"--ramp_time={ramp}"]
    command += ["--end_fsync=1"] if options.whole_files else timed
    process = subprocess.Popen(command, cwd=folder, text=True, start_new_session=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    while True:
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                stop.check()
                return process.communicate(timeout=0.1)[0]
        except Stopped:
            process.terminate()  # again and again: jobs that have yet to begin ignore it
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=1)
                raise


def read_run(text: str, load: Load, whole_files: bool) -> Row | tuple[str, str]:
    """The jobs of one run of fio as one, or verdict and reason where there are no numbers."""
    documents, noise = parse_fio(text)
    jobs = list_jobs(documents[-1]) if documents else []
    errors = {os.strerror(job["error"]) for job in jobs if job.get("error")}
    direction = "write" if "write" in load.pattern else "read"
    done = [part for job in jobs if (part := read_job(job, direction))]
    if errors or len(done) != load.jobs:
        lines = [line for line in noise if line.startswith("fio:")] or noise
        return "FAILED", ", ".join(sorted(errors)) or " ".join(lines[:1]) or "no output"
    reason = None if whole_files else explain_not_simultaneous(done)
    return ("NOT SIMULTANEOUS", reason) if reason else add_jobs(done, whole_files=whole_files)


def make_row(load: Load, runs: Sequence[Row | tuple[str, str]], access: str) -> Row:
    """The repeats of a load summarized, with the verdict and its reason."""
    done = [run for run in runs if isinstance(run, dict)]
    row: Row = {**load._asdict(), "access": access, "samples": len(done), "steady": None}
    row |= dict.fromkeys(("spread", "drift", *RATES, "requests_per_second_median", *LATENCIES))
    for failure in runs:
        if isinstance(failure, tuple):
            return row | {"samples": 0, "verdict": failure[0], "verdict_reason": failure[1]}
    requests = add_jobs(done)
    row |= {name: requests[name] for name in LATENCIES}
    row |= summarize("bytes_per_second", [run["bytes_per_second"] for run in done])
    rates = [run["requests_per_second"] for run in done]
    row["requests_per_second_median"] = statistics.median(rates)
    if row["spread"] is not None:
        row["steady"] = max(row["spread"], abs(row["drift"] or 0)) <= UNSTEADY
    verdict, reason = "ok" if row["steady"] else "unsteady", None
    seconds = row["latency_seconds_p50"]
    if access != "direct":
        verdict, reason = access, "numbers of memory, not of a drive"
    elif "read" in load.pattern and seconds and seconds < SHORTEST_READ:
        verdict, reason = "too fast", f"a read in {1e6 * seconds:.1f} µs: a cache does that"
    elif row["steady"] is None:
        verdict = "few samples"
    return row | {"verdict": verdict, "verdict_reason": reason}


def list_loads(options: argparse.Namespace) -> list[Load]:
    """The grid. Raises UsageError where its files do not fit the file system."""
    grid = itertools.product(options.file_sizes, options.patterns, options.block_sizes,
                             options.jobs, options.iodepth)  # fmt: skip
    loads = [Load(pattern, file_bytes, *rest) for file_bytes, pattern, *rest in grid]
    largest = max(load.jobs * load.file_bytes for load in loads)
    if largest > shutil.disk_usage(options.path).free:
        needed = format_bytes(largest)
        raise UsageError(f"this needs {needed}: use smaller --file-sizes or fewer --jobs")
    return loads


def scan(loads: list[Load], options: argparse.Namespace, stop: Stop, report: Report) -> None:
    """Run all loads in turn, with a row for each. Raises Stopped."""
    runs: dict[Load, list[Row | tuple[str, str]]] = {load: [] for load in loads}
    with (
        contextlib.closing(Progress(len(loads) * options.repeats, "runs of fio")) as progress,
        tempfile.TemporaryDirectory(prefix=".fio_scan-", dir=options.path) as folder,
    ):
        try:
            os.close(os.open(f"{folder}/direct", os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600))
        except OSError:
            options.access = options.access.replace("direct", "buffered")
        for number, load in enumerate(loads * options.repeats):
            progress.show(number, str(load))
            text = run_fio(load, options, folder, stop)
            if options.keep:
                name = f"{load}.run{len(runs[load]) + 1}.json"
                (options.keep / name).write_text(text, encoding="utf-8")
            runs[load].append(read_run(text, load, options.whole_files))
            report.rows = [
                make_row(one, done, options.access) for one, done in runs.items() if done
            ]


def is_listed_as_spinning(path: Path) -> bool:
    """Whether the kernel lists the disk below a path as a spinning one."""
    device = path.stat().st_dev
    disk = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    # The folder of a partition is in that of its disk.
    return "1" in [read_text(folder / "queue/rotational") for folder in (disk, disk.parent)]


def beats_spinning_disk(row: Row) -> bool:
    """Whether a row's numbers are beyond any single spinning disk."""
    seconds = row["latency_seconds_p50"] if row["pattern"] == "randread" else None
    rate = row["bytes_per_second_median"] or 0
    return row["access"] == "direct" and ((seconds or 1) < SPINNING_SEEK or rate > SPINNING_RATE)


def print_results(report: Report) -> None:
    """Print the table and the notes."""
    cells = [
        (
            f"{row['pattern']}, {row['access']}", format_bytes(row["file_bytes"]),
            format_bytes(row["block_bytes"]), f"{row['jobs']}x{row['iodepth']}",
            scaled(row, "bytes_per_second_median", 1e6), scaled(row, "requests_per_second_median"),
            round_digits(row["latency_seconds_p50"], 1e3),
            round_digits(row["latency_seconds_p99"], 1e3), row["samples"], row["verdict"],
        )
        for row in report.rows
    ]  # fmt: skip
    headings = ("load", "file", "block", "jobs x depth", "MB/s", "IOPS", "p50 ms", "p99 ms", "n",
                "verdict")  # fmt: skip
    print(format_table(headings, cells))
    for row in report.rows:
        if row["verdict_reason"]:
            report.note(f"{row['pattern']}: {row['verdict']}: {row['verdict_reason']}")


def build_parser() -> Parser:
    parser = Parser(__doc__, "fio_scan", __version__, METHOD, PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    add("path", nargs="?", type=Path, default=Path(), help="directory to test (default: .)")
    add("--preset", choices=tuple(PRESETS), default="scan",
        help="loads to run; the options below change it (default: scan)")
    add("--patterns", nargs="+", choices=("read", "write", "randread", "randwrite"),
        help="access patterns")
    add("--file-sizes", nargs="+", type=size, metavar="SIZE", help="sizes of each job's file")
    add("--block-sizes", nargs="+", type=size, metavar="SIZE", help="sizes of a request")
    add("--jobs", nargs="+", type=positive_int, metavar="N", help="numbers of processes")
    add("--iodepth", nargs="+", type=positive_int, metavar="N", help="requests in flight per job")
    add("--runtime", type=duration, help="duration of each run (default: 10s)")
    add("--ramp-time", type=duration, default=2.0, help="warm-up before it (default: 2s)")
    add("--whole-files", action="store_true", help="each file once, with fsync, not --runtime")
    add("--repeats", type=positive_int, default=5, help="runs of each load (default: 5)")
    add("--buffered", action="store_true", help="through the page cache, as most programs do")
    parser.set_defaults(engine="libaio")
    add("--keep", type=Path, metavar="DIR", help="keep fio's JSON of each run in this directory")
    add("--budget", type=duration, help="stop after this long with the results so far")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    parser = build_parser()
    typed = parser.parse_args(arguments)
    parser.set_defaults(**PRESETS[typed.preset])
    options = parser.parse_args(arguments)
    options.whole_files = options.whole_files and not typed.runtime
    options.runtime = options.runtime or 10.0
    if not options.path.is_dir() or not os.access(options.path, os.W_OK):
        raise UsageError(f"{options.path} is not a directory that can be written to")
    if shutil.which("fio") is None:
        raise UsageError("fio is not installed: apt install fio, or conda-forge")
    report = Report("fio_scan", __version__, METHOD, options.json, COMPARE)
    loads = list_loads(options)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    file_system = find_file_system(options.path)
    is_memory = file_system in ("tmpfs", "ramfs")
    options.access = "memory" if is_memory else "buffered" if options.buffered else "direct"
    with until_stopped(report, options.budget) as stop:
        scan(loads, options, stop, report)
    names = ("engine", "access", "runtime", "ramp_time", "repeats", "whole_files")
    report.details["file_system"] = file_system
    report.details["settings"] = {name: getattr(options, name) for name in names}
    print_results(report)
    if is_listed_as_spinning(options.path) and any(map(beats_spinning_disk, report.rows)):
        report.note("faster than the spinning disk that the kernel lists: the host or a controller "
                    "answers from a cache, or the disk is virtual and on flash")  # fmt: skip
    report.save()
    is_wrong = any(row["verdict"].isupper() for row in report.rows)
    return int(is_wrong or (stop.by_signal and not report.complete))


if __name__ == "__main__":
    start(main)
