#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""How fast does this file system read and write, by file size, block size and load?

Runs fio (https://github.com/axboe/fio) over a grid of loads, each several times, and prints
bandwidth, IOPS and latency.

## Formulas

`bandwidth = IOPS * block size`. Little's law: `IOPS * latency = requests in flight`, which is at
most `jobs * iodepth`. 100,000 reads per second of 4 KiB are 0.41 GB/s, and with 64 requests in
flight each takes 0.64 ms.

## What is timed

fio times `--runtime` seconds of each load, after `--ramp-time` seconds that do not count. The loads
take turns, `--repeats` times, so that a busy minute of a shared file system does not fall on one of
them alone. A row is the median over the repeats. Latency is from submission to completion (clat),
p50 and p99 are over the requests of all jobs and repeats. With `--whole-files` each job reads or
writes its file once, a write ends with an fsync that counts, and the slowest job decides.

Not timed: creating the files that are read, starting fio, removing files.

Presets: `scan` reads and writes files of 16 KiB, 1 MiB and 1 GiB in blocks of 4 KiB; `checkpoint`
writes and reads 8 whole files of 1 GiB in blocks of 4 MiB; `dataset` reads at random, 16 processes
with one request each. The verdict of a row is the first of these that applies:

- `FAILED`, `NOT SIMULTANEOUS`, `IMPOSSIBLE`: fio failed; jobs did not run at the same time, so
  their rates are not added; or more requests were in flight than jobs and iodepth allow
- `memory`, `buffered`: the file system is memory, or direct I/O (O_DIRECT) is not possible or not
  wanted; the numbers are those of memory, not of a drive
- `too fast`: a local disk answers faster than it can, so a cache of the host or controller does
- `one sample`, `few samples`: fewer than 4, so the spread is unknown
- `unsteady`: the IQR is above 10 % of the median
- `ok`

Direct I/O does not bypass the caches of servers, hosts and drives.

## How to run

    python fio_scan.py /mnt/shared --json shared.json            # about 6 minutes
    python fio_scan.py /mnt/shared --preset checkpoint
    python fio_scan.py /mnt/shared --preset dataset --keep runs  # keep fio's JSON for fio_report.py
    python fio_scan.py . --patterns randread --file-sizes 1GiB --jobs 1 16 --iodepth 1 64
    # Slurm, all nodes at once: they measure what they get together
    srun --ntasks-per-node=1 bash -c 'python fio_scan.py /mnt/shared --json $SLURM_NODEID.json'
    # pdsh
    pdsh -w node[01-08] 'python /shared/fio_scan.py /mnt/shared --json /shared/$(hostname).json'

It works in a new directory and removes it. A signal or the end of `--budget` ends fio and keeps
what was measured.

## A good answer

Rows that are `ok`, and the same on another day. A local NVMe drive reads some GB/s in large blocks
and some 100,000 times per second in blocks of 4 KiB. A shared file system should come near that for
large files with many jobs. A p99 latency of many milliseconds is what users notice.

Exit status: 0 done, also when the budget ended it; 1 a row is FAILED, NOT SIMULTANEOUS or
IMPOSSIBLE, or a signal; 2 wrong use: no fio, too little space, no such directory.
"""

from __future__ import annotations

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
from kit.fio import (
    Job,
    add_jobs,
    explain_not_simultaneous,
    list_jobs,
    parse_fio,
    read_job,
    round_digits,
)
from kit.report import Progress, Report, Row, format_bytes, format_table
from kit.stats import MIN_QUARTILE_SAMPLES, summarize
from kit.stop import Stop, Stopped

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
UNITS = {
    **dict.fromkeys(("file_bytes", "block_bytes"), "B"),
    **dict.fromkeys(("jobs", "iodepth", "samples", "spread", "drift"), "1"),
    **dict.fromkeys([f"bytes_per_second_{s}" for s in ("median", "mean", "iqr")], "B/s"),
    **dict.fromkeys([f"bytes_per_second_{s}" for s in ("min", "max")], "B/s"),
    "requests_per_second_median": "1/s",
    **dict.fromkeys([f"latency_seconds_{s}" for s in ("mean", "p50", "p99")], "s"),
}
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
MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
UNSTEADY = 0.1
FLIGHT_TOLERANCE = 1.1
SPINNING_RATE, SPINNING_SEEK = 0.6e9, 1e-3
"""The fastest that one spinning disk streams (two actuators), and the shortest random read."""
SHORTEST_READ = 5e-6
"""No drive behind PCIe reads a block in less."""


class BadRun(Exception):
    """A run of fio without numbers to use: the verdict and the reason."""


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
        "fio",
        "--name=scan",
        "--directory=.",
        f"--ioengine={options.engine}",
        f"--direct={int(options.access == 'direct')}",
        f"--readwrite={load.pattern}",
        f"--blocksize={load.block_bytes}",
        f"--filesize={load.file_bytes}",
        f"--size={load.file_bytes}",
        f"--numjobs={load.jobs}",
        f"--iodepth={load.iodepth}",
        "--randrepeat=0",
        "--exitall_on_error=1",
        "--unlink=1",
        "--eta=never",
        "--output-format=json+",
    ]
    if options.whole_files:
        command.append("--end_fsync=1")
    else:
        command += ["--time_based=1", f"--runtime={1000 * options.runtime:.0f}ms"]
        command += [f"--ramp_time={1000 * options.ramp_time:.0f}ms"]
    process = subprocess.Popen(
        command, cwd=folder, text=True, errors="replace", start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    while True:
        try:
            stop.check()
            return process.communicate(timeout=0.1)[0]
        except subprocess.TimeoutExpired:
            continue
        except Stopped:
            process.terminate()  # fio ends its jobs
            process.communicate()
            raise


def read_run(text: str, load: Load, whole_files: bool) -> Job:
    """The jobs of one run of fio as one. Raises BadRun where their rates cannot be added."""
    documents, noise = parse_fio(text)
    jobs = list_jobs(documents[-1]) if documents else []
    errors = {os.strerror(job["error"]) for job in jobs if job.get("error")}
    if errors or not jobs:
        lines = [line for line in noise if line.startswith("fio:")] or noise
        raise BadRun("FAILED", ", ".join(sorted(errors)) or " ".join(lines[:1]) or "no output")
    direction = "write" if "write" in load.pattern else "read"
    done = [part for job in jobs if (part := read_job(job, direction))]
    if len(done) != load.jobs:
        raise BadRun("FAILED", f"{len(done)} of {load.jobs} jobs transferred anything")
    reason = None if whole_files else explain_not_simultaneous(done)
    if reason:
        raise BadRun("NOT SIMULTANEOUS", reason)
    return add_jobs(done, whole_files=whole_files)


def make_row(load: Load, runs: Sequence[Job], access: str) -> Row:
    """The repeats of a load summarized, without a verdict."""
    row: Row = dict.fromkeys(UNITS) | load._asdict() | {"access": access, "samples": len(runs)}
    row["steady"] = None
    if not runs:
        return row
    row |= summarize("bytes_per_second", [run["bytes_per_second"] for run in runs])
    if row["spread"] is not None:
        row["steady"] = max(row["spread"], abs(row["drift"] or 0)) <= UNSTEADY
    rates = [run["requests_per_second"] for run in runs]
    row["requests_per_second_median"] = statistics.median(rates)
    requests = add_jobs(runs)
    return row | {name: requests[name] for name in UNITS if name.startswith("latency")}


def judge(row: Row, runs: Sequence[Job], is_spinning: bool | None) -> tuple[str, str | None]:
    """The verdict of a row that has samples, and the reason."""
    limit = FLIGHT_TOLERANCE * row["jobs"] * row["iodepth"]
    if any(run["requests_per_second"] * (run["latency_seconds_mean"] or 0) > limit for run in runs):
        return "IMPOSSIBLE", "more requests in flight than jobs and iodepth allow"
    if row["access"] == "memory":
        return "memory", "the file system is memory"
    if row["access"] == "buffered":
        return "buffered", "through the page cache: numbers of memory, not of a drive"
    if reason := explain_too_fast(row, is_spinning):
        return "too fast", reason
    if row["samples"] < MIN_QUARTILE_SAMPLES:
        return "one sample" if row["samples"] == 1 else "few samples", None
    return ("ok" if row["steady"] else "unsteady"), None


def explain_too_fast(row: Row, is_spinning: bool | None) -> str | None:
    """Why the answers cannot come from a local disk itself; None where they can."""
    rate, seconds = row["bytes_per_second_median"], row["latency_seconds_p50"] or 1.0
    if "read" in row["pattern"] and seconds < SHORTEST_READ and is_spinning is not None:
        return f"a read in {1e6 * seconds:.1f} µs: no drive does that, a cache answers"
    suspects = "the host's or controller's cache answers, or it is not a spinning disk"
    if is_spinning and row["pattern"] == "randread" and seconds < SPINNING_SEEK:
        return f"a seek in {1e6 * seconds:.0f} µs on a disk listed as spinning: {suspects}"
    if is_spinning and rate > SPINNING_RATE:
        return f"{rate / 1e9:.2g} GB/s from one disk listed as spinning: {suspects}"
    return None


def find_file_system(path: Path) -> str:
    """The type of the file system under a path: `ext4`, `nfs4`, `lustre`."""
    command = ["df", "--output=fstype", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.split()[-1] if done.returncode == 0 else "unknown"


def find_spinning(path: Path) -> bool | None:
    """Whether the kernel lists the disk under a path as spinning; None for file systems without
    a single local disk (network, overlay, RAID)."""
    device = path.stat().st_dev
    disk = Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    for folder in (disk, disk.parent):  # a partition's folder is in that of its disk
        with contextlib.suppress(OSError):
            listed = (folder / "queue/rotational").read_text(encoding="ascii").strip() == "1"
            return None if folder.name.startswith(("dm-", "md")) else listed
    return None


def can_do_direct(folder: str) -> bool:
    """Whether files in this folder can be opened past the page cache."""
    with contextlib.suppress(OSError, AttributeError):  # Python for macOS has no O_DIRECT
        os.close(os.open(f"{folder}/direct", os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600))
        return True
    return False


def list_loads(options: argparse.Namespace) -> list[Load]:
    """The grid. Raises UsageError where blocks do not fit files, or files not the file system."""
    grid = itertools.product(options.file_sizes, options.patterns, options.block_sizes,
                             options.jobs, options.iodepth)  # fmt: skip
    loads = [Load(pattern, file, block, jobs, depth) for file, pattern, block, jobs, depth in grid]
    for load in loads:
        if load.file_bytes % load.block_bytes:
            raise UsageError(f"--file-sizes {format_bytes(load.file_bytes)} is not a multiple of "
                             f"--block-sizes {format_bytes(load.block_bytes)}")  # fmt: skip
    needed = max(load.jobs * load.file_bytes for load in loads)
    free = shutil.disk_usage(options.path).free
    if needed > free:
        raise UsageError(f"this needs {format_bytes(needed)} and {format_bytes(free)} are free: "
                         "use smaller --file-sizes or fewer --jobs")  # fmt: skip
    return loads


def scan(loads: Sequence[Load], options: argparse.Namespace, stop: Stop, report: Report) -> None:
    """Run all loads in turn and add a row for each; a signal or the budget ends it."""
    runs: dict[Load, list[Job]] = {load: [] for load in loads}
    failures: dict[Load, tuple[str, str]] = {}
    plan = list(itertools.product(range(1, options.repeats + 1), loads))
    progress = Progress(len(plan), "runs of fio")
    try:
        with tempfile.TemporaryDirectory(prefix=".fio_scan-", dir=options.path) as folder:
            if options.access == "direct" and not can_do_direct(folder):
                options.access = "buffered"
            for number, (repeat, load) in enumerate(plan):
                progress.show(number, str(load))
                if load in failures:
                    continue
                text = run_fio(load, options, folder, stop)
                if options.keep:
                    (options.keep / f"{load}.run{repeat}.json").write_text(text, encoding="utf-8")
                try:
                    runs[load].append(read_run(text, load, options.whole_files))
                except BadRun as bad:
                    failures[load] = bad.args
        report.complete = True
    except Stopped as stopped:
        report.note(f"{stopped}: the results so far")
    finally:
        progress.close()
    is_spinning = find_spinning(options.path)
    for load in loads:
        if runs[load] or load in failures:
            row = make_row(load, [] if load in failures else runs[load], options.access)
            found = failures.get(load) or judge(row, runs[load], is_spinning)
            report.rows.append(row | {"verdict": found[0], "verdict_reason": found[1]})


def print_results(report: Report, options: argparse.Namespace) -> bool:
    """Print the table and the notes; False where a row is a problem.

    Bandwidth and IOPS of a row get the same number of digits, so that they agree with each other:
    three, or two where the repeats differ by more than 5 %.
    """
    cells = []
    for row in report.rows:
        rate, requests = row["bytes_per_second_median"], row["requests_per_second_median"]
        latencies = [row[f"latency_seconds_{name}"] for name in ("mean", "p50", "p99")]
        extent = None
        if row["samples"] > 1:
            extent = (row["bytes_per_second_max"] - row["bytes_per_second_min"]) / rate
        digits = 3 if extent is not None and extent <= 0.05 else 2
        cells.append((
            f"{row['pattern']}, {row['access']}",
            format_bytes(row["file_bytes"]),
            format_bytes(row["block_bytes"]),
            f"{row['jobs']}x{row['iodepth']}",
            round_digits(rate and rate / 1e6, digits),
            round_digits(requests, digits),
            *(round_digits(seconds and 1e3 * seconds) for seconds in latencies),
            "-" if extent is None else f"{100 * extent:.1f}",
            row["samples"],
            row["verdict"],
        ))  # fmt: skip
    headings = ("load", "file", "block", "jobs x depth", "MB/s", "IOPS", "mean ms", "p50 ms",
                "p99 ms", "range %", "n", "verdict")  # fmt: skip
    print(format_table(headings, cells))
    for row in report.rows:
        if row["verdict_reason"]:
            report.note(f"{row['pattern']} {format_bytes(row['file_bytes'])}: {row['verdict']}: "
                        f"{row['verdict_reason']}")  # fmt: skip
    if any(row["verdict"] == "unsteady" for row in report.rows):
        more = "larger --file-sizes" if options.whole_files else "a longer --runtime"
        report.note(f"the repeats disagree: use more --repeats, {more}, or a quieter hour")
    return not any(row["verdict"].isupper() for row in report.rows)


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(
        __doc__, tool="fio_scan", version=__version__, method=METHOD, demo=PROFILES["demo"]
    )
    add = parser.add_argument
    # fmt: off
    add("path", nargs="?", type=Path, default=Path(),
        help="directory on the file system to test (default: the current one)")
    add("--preset", choices=tuple(PRESETS), default="scan",
        help="loads to run; the options below change it (default: scan)")
    add("--patterns", nargs="+", choices=("read", "write", "randread", "randwrite"),
        help="access patterns")
    add("--file-sizes", nargs="+", type=size, metavar="SIZE", help="sizes of each job's file")
    add("--block-sizes", nargs="+", type=size, metavar="SIZE", help="sizes of a request")
    add("--jobs", nargs="+", type=positive_int, metavar="N", help="numbers of processes")
    add("--iodepth", nargs="+", type=positive_int, metavar="N",
        help="requests in flight per process")
    add("--runtime", type=duration, help="duration of each run (default: 10s)")
    add("--ramp-time", type=duration, default=2.0,
        help="time before it that does not count (default: 2s)")
    add("--whole-files", action="store_true",
        help="read or write each file once, with an fsync, instead of --runtime")
    add("--repeats", type=positive_int, default=5, help="runs of each load (default: 5)")
    add("--engine", default="libaio", help="fio's I/O engine (default: libaio)")
    add("--buffered", action="store_true", help="through the page cache, as most programs do")
    add("--keep", type=Path, metavar="DIR", help="keep fio's JSON of each run in this directory")
    add("--budget", type=duration, help="stop after this long with the results so far")
    # fmt: on
    return parser


def read_options(arguments: list[str] | None) -> argparse.Namespace:
    """The command line over its preset. Raises UsageError."""
    parser = build_parser()
    typed = parser.parse_args(arguments)
    if typed.whole_files and typed.runtime:
        raise UsageError("--whole-files ends when the files do: drop --runtime")
    parser.set_defaults(**PRESETS[typed.preset])
    options = parser.parse_args(arguments)
    options.whole_files = options.whole_files and not typed.runtime
    options.runtime = options.runtime or 10.0
    if not options.path.is_dir() or not os.access(options.path, os.W_OK):
        raise UsageError(f"{options.path} is not a directory that can be written to")
    if "sync" in options.engine and max(options.iodepth) > 1:
        raise UsageError(f"--engine {options.engine} has one request in flight: use --iodepth 1, "
                         "or --engine libaio")  # fmt: skip
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    options = read_options(arguments)
    report = Report("fio_scan", __version__, METHOD, UNITS, options.json, COMPARE)
    if shutil.which("fio") is None:
        raise UsageError("fio is not installed: apt install fio, dnf install fio or conda install "
                         "-c conda-forge fio")  # fmt: skip
    loads = list_loads(options)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    for folder in options.path.glob(".fio_scan-*"):
        report.note(f"{folder.name} is from a run that was killed, or that is running now")
    file_system = find_file_system(options.path)
    options.access = "buffered" if options.buffered else "direct"
    if file_system in MEMORY_FILE_SYSTEMS:
        options.access = "memory"
    stop = Stop(options.budget)
    stop.listen()
    scan(loads, options, stop, report)
    wanted = ("engine", "access", "runtime", "ramp_time", "repeats", "whole_files")
    settings = {name: getattr(options, name) for name in wanted}
    report.details |= {"file_system": file_system, "settings": settings}
    is_fine = print_results(report, options) if report.rows else report.complete
    report.save()
    return int(not is_fine or (stop.by_signal and not report.complete))


if __name__ == "__main__":
    start(main)
