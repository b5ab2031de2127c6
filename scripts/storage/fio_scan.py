#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""How fast does this file system read and write, by file size, block size and load?

Runs fio (https://github.com/axboe/fio) over a grid of loads in a folder of its own on the file
system in question, several times each, and prints bandwidth, operations per second and latency.

Physics
    bandwidth = operations per second * block size, and by Little's law
    operations per second * latency = requests in flight <= jobs * iodepth.
    Hand check: 100 000 reads a second of 4096 bytes are 0.41 GB/s; with 64 requests in flight
    each takes 0.64 ms. A row that has more in flight than it may have is flagged.

What is timed
    What fio times: for each load --runtime seconds after --ramp_time seconds that do not count,
    --repeats times, the loads in turn, so that a busy minute of a shared file system does not
    fall on one of them. Latency is from submission to completion (fio's clat); p50 and p99 are
    over the requests of all jobs and repeats, from fio's histograms. With --whole_files each job
    reads or writes its file once, writing ends with an fsync, and the slowest job decides.
What is not timed
    Creating the files that are read, starting fio, removing files.
What is not believed
    Direct I/O (O_DIRECT, past the page cache) is tried first. Where it is not possible, or where
    the file system is memory, rows say `buffered` or `memory`: their numbers are those of memory,
    not of a device. Direct I/O does not pass caches of a server or of a drive. Jobs that did not
    run at the same time are not added up: NOT SIMULTANEOUS, and no number. Files hold random
    bytes; fio fills its buffers once, so a file system that deduplicates may look too fast.

How to run
    the usual       python fio_scan.py /mnt/shared --json shared.json     about 6 minutes
    checkpoints     python fio_scan.py /mnt/shared --preset checkpoint    8 files of 1 GiB, whole
    data sets       python fio_scan.py /mnt/shared --preset dataset       random reads, 16 readers
    one question    python fio_scan.py . --patterns randread --file_sizes 1g --block_sizes 4k 128k \
                        --jobs 1 16 --iodepth 1 64 --runtime 10s
    keep all        --keep FOLDER keeps fio's JSON of each run: fio_report.py reads it
    one node, all   Slurm: srun --ntasks-per-node=1 \
                        bash -c 'python fio_scan.py /mnt/shared --json $SLURM_NODEID.json'
    pdsh            pdsh -w node[01-08] 'python /shared/fio_scan.py /mnt/shared \
                        --json /shared/$(hostname).json'
                    Nodes that start together measure what they get together.
    Ctrl-C, SIGTERM, SIGUSR1 and the end of --budget keep what was measured, and remove the folder.
    After SIGKILL the next run names the folder that was left, and --remove_leftovers removes it.

A good answer: direct, steady, the same on another day. A local NVMe drive reads some GB/s in large
blocks and some 100 000 times a second in 4 KiB ones; a shared file system should come near that
for large files with many jobs. Latencies of many ms at p99 are what users feel.

Exit status: 0 done (also when --budget ended it), 1 fio failed, jobs were not simultaneous, more
requests in flight than possible, nothing measured, or stopped by a signal, 2 wrong use: no fio,
no space, no such folder.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import itertools
import json
import math
import mmap
import os
import re
import shutil
import signal
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
    "toy": ["--toy"],
    "full": ["--preset", "scan"],
}
# fmt: on

# Which results stand beside which, by which column, and what else has to be equal for that.
COMPARE = {
    "keys": ["pattern", "access", "file_bytes", "block_bytes", "jobs", "iodepth"],
    "value": "bytes_per_second_median",
    "better": "higher",
    "spread": "spread",
    "trusted": {"verdict": ["ok", "unsteady", "few samples"]},
    "alike": [
        "details.file_system",
        "details.settings.engine",
        "details.settings.whole_files",
    ],
}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "file_bytes": "B",
    "block_bytes": "B",
    "jobs": "1",
    "iodepth": "1",
    "samples": "1",
    "bytes_per_second_median": "B/s",
    "bytes_per_second_mean": "B/s",
    "bytes_per_second_iqr": "B/s",
    "bytes_per_second_min": "B/s",
    "bytes_per_second_max": "B/s",
    "spread": "1",
    "drift": "1",
    "requests_per_second_median": "1/s",
    "latency_seconds_mean": "s",
    "latency_seconds_p50": "s",
    "latency_seconds_p99": "s",
}

PATTERNS = ("read", "write", "randread", "randwrite")
# What each preset asks for; an option on the command line goes before.
PRESETS: dict[str, dict[str, Any]] = {
    "scan": {
        "patterns": ["read", "write"],
        "file_sizes": [16 << 10, 1 << 20, 1 << 30],
        "block_sizes": [4 << 10],
        "jobs": [16],
        "iodepth": [64],
        "runtime": 10.0,
        "ramp_time": 2.0,
        "repeats": 5,
        "whole_files": False,
    },
    "checkpoint": {
        "patterns": ["write", "read"],
        "file_sizes": [1 << 30],
        "block_sizes": [4 << 20],
        "jobs": [8],
        "iodepth": [8],
        "runtime": 0.0,
        "ramp_time": 0.0,
        "repeats": 5,
        "whole_files": True,
    },
    "dataset": {
        "patterns": ["randread"],
        "file_sizes": [1 << 30],
        "block_sizes": [4 << 10, 128 << 10, 1 << 20],
        "jobs": [16],
        "iodepth": [1],
        "runtime": 10.0,
        "ramp_time": 2.0,
        "repeats": 5,
        "whole_files": False,
    },
    "toy": {
        "patterns": ["read", "write"],
        "file_sizes": [64 << 10],
        "block_sizes": [4 << 10],
        "jobs": [2],
        "iodepth": [4],
        "runtime": 0.3,
        "ramp_time": 0.0,
        "repeats": 2,
        "whole_files": False,
    },
}

ENGINES = ("libaio", "io_uring", "posixaio", "psync")
# One request after the other, whatever the iodepth.
SYNCHRONOUS = ("psync", "sync", "vsync", "pvsync", "pvsync2", "mmap")
MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")
SERVED_FILE_SYSTEMS = (
    "nfs nfs4 cifs smb3 lustre gpfs beegfs beegfs_nodev wekafs ceph fuse.ceph glusterfs "
    "fuse.glusterfs 9p virtiofs afs pvfs2 panfs vastnfs"
).split()

FOLDER_PREFIX = ".fio_scan-"
# What the folder itself takes, and the JSON of fio.
SPARE_BYTES = 1 << 20
WIDE_SPREAD = 0.1
LARGE_DRIFT = 0.1
# Below this many samples a quartile is an interpolation between two of them, and no measurement.
QUARTILE_SAMPLES = 4
# Jobs whose times differ by more than this, in share and in seconds, did not run together.
SIMULTANEOUS_SHARE = 0.9
SIMULTANEOUS_SLACK = 0.25
# How far more requests than allowed may seem to be in flight: rounding, and short runs.
FLIGHT_TOLERANCE = 1.1
# The slowest file system that is waited for while fio lays out its files.
SLOWEST_BYTES_PER_SECOND = 5e6
STOP_SECONDS = 2.0

Row = dict[str, Any]


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


class Stopped(Exception):
    """The run ends here, by a signal or by the budget; what was measured is kept."""


class FioFailed(Exception):
    """A run of fio has no numbers: why, in a sentence."""


class Load(NamedTuple):
    """One load of the grid: what fio is asked to do."""

    pattern: str
    file_bytes: int
    block_bytes: int
    jobs: int
    iodepth: int


class ScanSettings(NamedTuple):
    """What holds for all loads of a run."""

    engine: str
    access: str
    runtime: float
    ramp_time: float
    repeats: int
    whole_files: bool


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


def parse_file_size(text: str) -> int:
    """Bytes from `16k`, `1m`, `4g` or `4096`; as fio has it, k is 1024."""
    found = re.fullmatch(r"([1-9]\d*)([kmgt]?)(?:i?b)?", text.strip().lower())
    if found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no size: write 4096, 16k, 1m or 4g")
    return int(found[1]) << (10 * " kmgt".index(found[2] or " "))


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


def print_to_stdout(text: str) -> bool:
    """Print at once; False, with a line that says so, where stdout could not be written."""
    try:
        print(text, flush=True)
    except OSError as error:
        # Python would write once more what is left, as it ends: that goes nowhere now.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"problem: stdout could not be written: {error.strerror}", file=sys.stderr)
        return False
    return True


def write_note(text: str) -> None:
    """One note for the reader, beside the table."""
    print(f"note: {text}", file=sys.stderr)


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


class WorkFolder:
    """A folder of this tool's own under a path, with a note in it of whose it is.

    Nothing outside of it is written or removed. Raises WrongUse where it cannot be made.
    """

    def __init__(self, parent: Path) -> None:
        try:
            self.path = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=parent))
        except OSError as error:
            raise WrongUse(f"{parent}: no folder can be made here: {error.strerror}") from error
        try:
            self.note_process(os.getpid())
        except OSError as error:
            self.remove()
            raise WrongUse(f"{parent}: nothing can be written here: {error.strerror}") from error

    def note_process(self, *numbers: int) -> None:
        """Say which processes of this machine use the folder."""
        text = json.dumps({"boot": read_boot(), "processes": list(numbers)})
        (self.path / "owner.json").write_text(text, encoding="utf-8")

    def remove(self) -> None:
        """Remove it with all that is in it."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self.path.exists():  # NFS keeps files that are still open for a moment
            time.sleep(1.0)
            shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_error: object) -> None:
        self.remove()


def read_boot() -> str:
    """What tells this start of this machine from all others, and names nobody."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def find_leftovers(parent: Path) -> list[tuple[Path, str]]:
    """Folders of earlier runs under a path: `dead`, `running`, or `elsewhere` where nobody knows.

    `elsewhere` is a run on another machine of a shared file system, or before a restart.
    """
    found = []
    for folder in sorted(parent.glob(f"{FOLDER_PREFIX}*")):
        try:
            owner = json.loads((folder / "owner.json").read_text(encoding="utf-8"))
            same, numbers = owner["boot"] == read_boot(), [int(n) for n in owner["processes"]]
        except (OSError, ValueError, KeyError, TypeError):
            same, numbers = False, []
        if not same:
            found.append((folder, "elsewhere"))
        elif any(Path(f"/proc/{number}").exists() for number in numbers):
            found.append((folder, "running"))
        else:
            found.append((folder, "dead"))
    return found


def handle_leftovers(parent: Path, remove: bool) -> list[str]:
    """Name the folders of earlier runs, and remove those of dead ones if asked to; the caveats."""
    caveats = []
    for folder, state in find_leftovers(parent):
        if state == "running":
            caveats.append("another run of this tool works on the same file system now")
        elif state == "dead" and remove:
            shutil.rmtree(folder, ignore_errors=True)
            write_note(f"removed {folder.name}, left behind by a run that was killed")
        elif state == "dead":
            write_note(
                f"{folder.name} was left behind by a run that was killed; "
                "--remove_leftovers removes it"
            )
        else:
            write_note(
                f"{folder.name} is of a run on another machine or before a restart; if that is "
                "over, remove it by hand"
            )
    return list(dict.fromkeys(caveats))


def find_file_system(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """The type of the file system that a path lies on, as the kernel names it; `unknown` else."""
    try:
        lines = mounts.read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    kind, deepest = "unknown", -1
    for line in lines:
        fields = line.split()
        if "-" not in fields or len(fields) < 7:
            continue
        # The kernel writes a blank in a name as \040.
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        inside = path.resolve().is_relative_to(point)
        if inside and len(Path(point).parts) >= deepest:
            kind, deepest = fields[fields.index("-") + 1], len(Path(point).parts)
    return kind


def pass_hangup_on() -> None:
    """Let a closed terminal end the run as SIGTERM does, unless nohup has it ignored."""
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
        signal.signal(signal.SIGHUP, lambda *_: os.kill(os.getpid(), signal.SIGTERM))


def can_do_direct(folder: Path) -> bool:
    """Whether a block can be written and read past the page cache in this folder."""
    if not hasattr(os, "O_DIRECT"):
        return False
    path = folder / "direct"
    # Direct I/O needs memory that is aligned to blocks: a page from the kernel is.
    with mmap.mmap(-1, 1 << 16) as block:
        try:
            number = os.open(path, os.O_RDWR | os.O_CREAT | os.O_DIRECT, 0o600)
            try:
                return os.pwrite(number, block, 0) == len(block) == os.preadv(number, [block], 0)
            finally:
                os.close(number)
        except OSError:
            return False
        finally:
            path.unlink(missing_ok=True)


def choose_access(folder: Path, file_system: str, buffered: bool) -> str:
    """`direct`; `buffered` where that cannot be or is not wanted; `memory` where it would be."""
    if file_system in MEMORY_FILE_SYSTEMS:
        return "memory"
    return "direct" if not buffered and can_do_direct(folder) else "buffered"


def check_space(folder: Path, loads: Sequence[Load]) -> None:
    """Raises WrongUse where the files of the largest load do not fit on the file system."""
    status = os.statvfs(folder)
    free = status.f_bavail * status.f_frsize
    needed = max(load.jobs * load.file_bytes for load in loads) + SPARE_BYTES
    if status.f_blocks and needed > free:  # some file systems do not count their blocks
        raise WrongUse(
            f"this takes {format_amount(needed)} on the file system, and {format_amount(free)} are "
            "free: choose smaller --file_sizes or fewer --jobs"
        )
    files = max(load.jobs for load in loads) + 10
    if status.f_files and status.f_favail < files:
        raise WrongUse(f"this takes {files} inodes, and {status.f_favail} are free")


def find_fio() -> tuple[str, str]:
    """fio's program and version. Raises WrongUse with how to get it."""
    program = shutil.which("fio")
    if program is None:
        raise WrongUse(
            "fio is not there: apt-get install fio, dnf install fio, or conda install -c "
            "conda-forge fio"
        )
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise WrongUse(f"fio does not run: {error}") from error
    return program, done.stdout.strip()


def choose_engine(program: str, asked: str | None, depths: Sequence[int]) -> str:
    """The I/O engine: the one asked for, else the first of ENGINES that this fio has.

    Raises WrongUse for one that fio does not have, or that cannot do the iodepth.
    """
    done = subprocess.run(
        [program, "--enghelp"], capture_output=True, text=True, timeout=30, check=False
    )
    known = [line.strip() for line in done.stdout.splitlines() if line.startswith(("\t", " "))]
    wanted = [asked] if asked else (["psync"] if max(depths) == 1 else list(ENGINES))
    engine = next((name for name in wanted if name in known), None)
    if engine is None:
        raise WrongUse(f"--engine: this fio has no {' and no '.join(wanted)}")
    if engine in SYNCHRONOUS and max(depths) > 1:
        raise WrongUse(f"--engine {engine} has one request at a time: --iodepth has to be 1")
    return engine


def make_fio_command(program: str, load: Load, settings: ScanSettings, output: Path) -> list[str]:
    """The command line of fio for one load; in the current folder."""
    command = [
        program,
        "--name=scan",
        "--directory=.",
        f"--ioengine={settings.engine}",
        f"--direct={int(settings.access == 'direct')}",
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
        f"--output={output}",
    ]
    if settings.whole_files:
        return [*command, "--end_fsync=1"]
    times = [("runtime", settings.runtime), ("ramp_time", settings.ramp_time)]
    return [
        *command,
        "--time_based=1",
        *(f"--{name}={round(1000 * seconds)}ms" for name, seconds in times if seconds),
    ]


def run_fio(
    command: Sequence[str], folder: WorkFolder, limit: float, stop: StopSign, output: Path
) -> str:
    """Run fio in the folder; what it wrote.

    Raises Stopped, with fio ended, where the run has to end, and FioFailed where fio fails.
    """
    with tempfile.TemporaryFile() as noise:
        process = subprocess.Popen(
            command,
            cwd=folder.path,
            stdin=subprocess.DEVNULL,
            stdout=noise,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        folder.note_process(os.getpid(), process.pid)
        deadline = time.monotonic() + limit
        try:
            while process.poll() is None:
                stop.check()
                if time.monotonic() > deadline:
                    raise FioFailed(f"fio was not done after {limit:.0f} s")
                time.sleep(0.02)
        finally:
            end_group(process)
        noise.seek(0)
        said = noise.read().decode("utf-8", "replace")
    with contextlib.suppress(OSError):
        said += output.read_text(encoding="utf-8", errors="replace")
    if process.returncode != 0:
        words = [line for line in said.splitlines() if line.startswith("fio:")]
        raise FioFailed(hide_path(words[0] if words else f"status {process.returncode}", folder))
    return said


def hide_path(text: str, folder: WorkFolder) -> str:
    """The text without the way to the folder: it names people and hosts."""
    return text.replace(f"{folder.path}/", "").replace(str(folder.path), ".")


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End fio and all of its jobs, if they still run."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            break
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)


def read_run(text: str, load: Load, whole_files: bool) -> Row:
    """The numbers of one run of fio. Raises FioFailed where there are none to trust."""
    documents, around = parse_fio_text(text)
    if not documents:
        raise FioFailed(f"fio wrote no result: {' '.join(around)[:200] or 'nothing at all'}")
    jobs = list_fio_jobs(documents[-1])
    errors = sorted({os.strerror(job["error"]) for job in jobs if job.get("error")})
    if errors:
        raise FioFailed(f"fio failed: {', '.join(errors)}")
    direction = "write" if "write" in load.pattern else "read"
    parts = [read_fio_direction(job, direction) for job in jobs]
    done = [part for part in parts if part is not None]
    if len(done) != load.jobs:
        raise FioFailed(f"{len(done)} of {load.jobs} jobs did something")
    row = combine_fio_jobs(done, whole_files)
    row["unsimultaneous"] = None if whole_files else find_unsimultaneous(done)
    return row


def parse_fio_text(text: str) -> tuple[list[dict[str, Any]], list[str]]:
    """The results of fio in a text, and the lines around them: warnings, progress, shell noise.

    fio's warnings may stand before or after the JSON, and a file may hold several results. `nan`
    and `inf`, which some versions write and JSON does not have, become null.
    """
    healed = re.sub(r'("\s*:\s*)-?(?:nan|inf(?:inity)?)\b', r"\1null", text, flags=re.IGNORECASE)
    decoder = json.JSONDecoder()
    documents: list[dict[str, Any]] = []
    around: list[str] = []
    place = 0
    for found in re.finditer(r"^\s*\{", healed, re.MULTILINE):
        if found.start() < place:
            continue
        try:
            document, end = decoder.raw_decode(healed, found.end() - 1)
        except ValueError:
            continue
        if isinstance(document, dict) and ("jobs" in document or "client_stats" in document):
            around += healed[place : found.start()].splitlines()
            documents.append(document)
            place = end
    around += healed[place:].splitlines()
    return documents, [line.strip() for line in around if line.strip()]


def list_fio_jobs(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The jobs of a result; of a client and server run those of all clients, not their sum."""
    jobs = document.get("jobs") or document.get("client_stats")
    if not isinstance(jobs, list):
        return []
    return [job for job in jobs if isinstance(job, dict) and job.get("jobname") != "All clients"]


def read_fio_direction(job: Mapping[str, Any], direction: str) -> Row | None:
    """Bytes, rates and latencies of one job in one direction, in base units; None: it did none.

    fio 3 counts latencies in ns (`clat_ns`) and bytes in bytes, fio 2 in µs (`clat`) and KiB. The
    latency is that of completion where fio has its percentiles, else the total one.
    """
    numbers = job.get(direction)
    if not isinstance(numbers, dict) or not (numbers.get("io_bytes") or numbers.get("total_ios")):
        return None
    rate = float(numbers.get("bw_bytes") or 1024 * (numbers.get("bw") or 0))
    # Versions that write io_kbytes too count io_bytes in bytes; those before it in KiB.
    moved = float(numbers.get("io_bytes") or 0) * (1 if "io_kbytes" in numbers else 1024)
    latency: Mapping[str, Any] = {}
    unit = 1e-9
    for name, seconds in (("clat_ns", 1e-9), ("lat_ns", 1e-9), ("clat", 1e-6), ("lat", 1e-6)):
        found = numbers.get(name)
        has_more = isinstance(found, dict) and "percentile" in found and "percentile" not in latency
        if isinstance(found, dict) and found.get("mean") and (has_more or not latency):
            latency, unit = found, seconds
    percentiles = {float(key): value for key, value in latency.get("percentile", {}).items()}
    bins = {int(key) * unit: int(count) for key, count in latency.get("bins", {}).items()}
    return {
        "bytes": moved,
        "seconds": float(numbers.get("runtime") or 0) / 1e3,
        "start": job["job_start"] / 1e3 if job.get("job_start") else None,
        "requests": int(numbers.get("total_ios") or 0),
        "bytes_per_second": rate,
        "requests_per_second": float(numbers.get("iops") or 0),
        "latency_seconds_mean": latency["mean"] * unit if latency else None,
        "latency_seconds_p50": percentiles[50.0] * unit if 50.0 in percentiles else None,
        "latency_seconds_p99": percentiles[99.0] * unit if 99.0 in percentiles else None,
        "bins": bins,
    }


def find_bin_percentile(bins: Mapping[float, int], share: float) -> float | None:
    """The value that so great a share of the samples does not exceed, as fio finds it in bins."""
    total = sum(bins.values())
    seen = 0
    for value, count in sorted(bins.items()):
        seen += count
        if seen >= share * total:
            return value
    return None


def find_unsimultaneous(parts: Sequence[Row]) -> str | None:
    """Why the rates of these jobs cannot be added: they did not run at the same time; or None."""
    seconds = [part["seconds"] for part in parts]
    least = min(SIMULTANEOUS_SHARE * max(seconds), max(seconds) - SIMULTANEOUS_SLACK)
    if min(seconds) < least:
        return f"its jobs ran between {min(seconds):.3g} s and {max(seconds):.3g} s"
    starts = [part["start"] for part in parts]
    if all(start is not None for start in starts):
        ends = [part["start"] + part["seconds"] for part in parts]
        shared = max(0.0, min(ends) - max(starts))
        if shared < least:
            return f"its jobs ran together for {shared:.3g} s of {max(seconds):.3g} s"
    return None


def combine_fio_jobs(parts: Sequence[Row], whole_files: bool = False) -> Row:
    """The sum of jobs that ran at the same time: rates added, latencies over all requests.

    With `whole_files` each job had the same amount to do, so that the slowest decides: the rates
    are all bytes and requests over its time. Percentiles of several jobs need their bins.
    """
    bins: dict[float, int] = {}
    for part in parts:
        for value, count in part["bins"].items():
            bins[value] = bins.get(value, 0) + count
    total = {name: sum(part[name] for part in parts) for name in ("bytes", "requests")}
    longest = max(part["seconds"] for part in parts)
    row: Row = {**total, "seconds": longest, "bins": bins}
    for name, amount in (("bytes_per_second", "bytes"), ("requests_per_second", "requests")):
        row[name] = sum(part[name] for part in parts)
        if whole_files:
            row[name] = total[amount] / longest if longest else 0.0
    known = [part for part in parts if part["latency_seconds_mean"] is not None]
    requests = sum(part["requests"] for part in known)
    row["latency_seconds_mean"] = (
        sum(part["latency_seconds_mean"] * part["requests"] for part in known) / requests
        if requests and len(known) == len(parts)
        else None
    )
    for name, share in (("latency_seconds_p50", 0.5), ("latency_seconds_p99", 0.99)):
        if len(parts) == 1:
            row[name] = parts[0][name]
        else:
            whole = bins and all(part["bins"] for part in parts)
            row[name] = find_bin_percentile(bins, share) if whole else None
    return row


def is_impossible(run: Row, load: Load) -> bool:
    """More requests were in flight, by rate times latency, than jobs and iodepth allow."""
    if run["latency_seconds_mean"] is None:
        return False
    in_flight = run["requests_per_second"] * run["latency_seconds_mean"]
    return bool(in_flight > FLIGHT_TOLERANCE * load.jobs * load.iodepth)


def make_load_row(
    load: Load, runs: Sequence[Row], settings: ScanSettings, failure: str | None
) -> Row:
    """The result of one load over its repeats, with its verdict."""
    late = next((run["unsimultaneous"] for run in runs if run["unsimultaneous"]), None)
    row: Row = {**load._asdict(), "access": settings.access}
    samples = [run["bytes_per_second"] for run in runs] if late is None else []
    names = [name for name in UNITS if name not in row]
    numbers: Row = dict.fromkeys(names)
    numbers["samples"] = 0
    if samples:
        numbers |= summarise_samples_of("bytes_per_second", samples)
        all_requests = combine_fio_jobs([run | {"start": None} for run in runs])
        numbers["requests_per_second_median"] = statistics.median(
            run["requests_per_second"] for run in runs
        )
        for name in ("mean", "p50", "p99"):
            numbers[f"latency_seconds_{name}"] = all_requests[f"latency_seconds_{name}"]
    row |= numbers
    impossible = bool(samples) and any(is_impossible(run, load) for run in runs)
    row["steady"] = is_steady(row)
    row["verdict"] = choose_load_verdict(row, failure, late, impossible)
    reasons = {
        "FAILED": failure,
        "NOT SIMULTANEOUS": late,
        "IMPOSSIBLE": "more requests in flight than jobs and iodepth allow",
        "buffered": "through the page cache: the numbers of memory, not of a device",
        "memory": "the file system is memory",
    }
    row["verdict_reason"] = reasons.get(row["verdict"])
    return row


def choose_load_verdict(
    row: Row, failure: str | None = None, late: str | None = None, impossible: bool = False
) -> str:
    """One word or two on how far to trust the row: the worst that applies."""
    return next(
        word
        for word, applies in (
            ("FAILED", failure is not None),
            ("NOT SIMULTANEOUS", late is not None),
            ("IMPOSSIBLE", impossible),
            (row["access"], row["access"] != "direct"),
            ("one sample", row["samples"] == 1),
            ("few samples", row["samples"] < QUARTILE_SAMPLES),
            ("unsteady", not row["steady"]),
            ("ok", True),
        )
        if applies
    )


class Scan:
    """The loads of a run and what was measured of them so far."""

    def __init__(self, loads: Sequence[Load], settings: ScanSettings) -> None:
        self.loads = loads
        self.settings = settings
        self.runs: dict[Load, list[Row]] = {load: [] for load in loads}
        self.failures: dict[Load, str] = {}
        self.complete = False

    def measure(self, program: str, folder: WorkFolder, keep: Path | None, stop: StopSign) -> None:
        """Measure all loads in turn, as often as asked for, or until the run has to end."""
        progress = Progress(len(self.loads) * self.settings.repeats, "runs of fio")
        done = 0
        try:
            for repeat, load in itertools.product(range(self.settings.repeats), self.loads):
                progress.show(done, format_load(load))
                if load not in self.failures:
                    self.measure_once(program, folder, load, repeat, keep, stop)
                done += 1
            self.complete = True
        except Stopped:
            pass
        finally:
            progress.close()

    def measure_once(
        self,
        program: str,
        folder: WorkFolder,
        load: Load,
        repeat: int,
        keep: Path | None,
        stop: StopSign,
    ) -> None:
        """One run of fio for one load; its files are gone afterwards."""
        settings = self.settings
        limit = settings.runtime + settings.ramp_time + 60
        limit += 2 * load.jobs * load.file_bytes / SLOWEST_BYTES_PER_SECOND
        output = folder.path / "fio.json"
        command = make_fio_command(program, load, settings, output)
        try:
            text = run_fio(command, folder, limit, stop, output)
            if keep:
                name = f"{format_load(load).replace(' ', '-')}-{repeat + 1}.json"
                (keep / name).write_text(hide_path(text, folder), encoding="utf-8")
            self.runs[load].append(read_run(text, load, settings.whole_files))
        except FioFailed as error:
            self.failures[load] = str(error)
        except OSError as error:
            raise WrongUse(f"--keep: could not write there: {error.strerror}") from error
        finally:
            for path in folder.path.iterdir():
                if path.name != "owner.json":
                    path.unlink(missing_ok=True)

    def make_rows(self) -> list[Row]:
        """One row for each load that was run, in the order of the grid."""
        return [
            make_load_row(load, self.runs[load], self.settings, self.failures.get(load))
            for load in self.loads
            if self.runs[load] or load in self.failures
        ]


def format_amount(size: float) -> str:
    """`16k`, `1m`, `2.5g`: bytes with fio's binary suffixes."""
    power = 0
    while size >= 1024 and power < 4:
        size, power = size / 1024, power + 1
    text = f"{size:.1f}".removesuffix(".0")
    return f"{text}{' kmgt'[power]}".strip()


def format_load(load: Load) -> str:
    """`read 16k 4k 16x64`: pattern, file, block, jobs and iodepth."""
    return (
        f"{load.pattern} {format_amount(load.file_bytes)} {format_amount(load.block_bytes)} "
        f"{load.jobs}x{load.iodepth}"
    )


def estimate_rate_doubt(row: Row) -> float | None:
    """How far the median bandwidth may be off: half the IQR, of 2 or 3 samples half the range."""
    if row["bytes_per_second_iqr"] is not None:
        return float(row["bytes_per_second_iqr"]) / 2
    if row["samples"] < 2:
        return None
    return float(row["bytes_per_second_max"] - row["bytes_per_second_min"]) / 2


def format_loads(rows: Sequence[Row]) -> str:
    """The table: what was asked of fio, and what came of it."""
    head = ["load", "file", "block", "jobs", "depth", "MB/s", "IOPS", "mean ms", "p50 ms", "p99 ms"]
    cells = []
    for row in rows:
        doubt = estimate_rate_doubt(row) if row["samples"] else None
        rate, operations = row["bytes_per_second_median"], row["requests_per_second_median"]
        share = doubt / rate if doubt is not None and rate else None
        cells.append(
            [
                f"{row['pattern']}, {row['access']}",
                format_amount(row["file_bytes"]),
                format_amount(row["block_bytes"]),
                str(row["jobs"]),
                str(row["iodepth"]),
                format_earned(rate and rate / 1e6, None if share is None else share * rate / 1e6),
                format_earned(operations, None if share is None else share * operations),
                *(
                    format_earned(value and 1e3 * value, value and 1e3 * value / 100)
                    for value in (row[f"latency_seconds_{n}"] for n in ("mean", "p50", "p99"))
                ),
                str(row["samples"]),
                row["verdict"],
            ]
        )
    return format_table([*head, "n", "verdict"], cells)


def find_load_problems(rows: Sequence[Row]) -> list[str]:
    """What is wrong enough for exit status 1."""
    problems = [
        f"{row['pattern']} {format_amount(row['file_bytes'])}: {row['verdict']}: "
        f"{row['verdict_reason']}"
        for row in rows
        if row["verdict"] in ("FAILED", "NOT SIMULTANEOUS", "IMPOSSIBLE")
    ]
    return problems or ([] if rows else ["nothing was measured"])


def find_scan_caveats(settings: ScanSettings, file_system: str, asked_buffered: bool) -> list[str]:
    """What should be known before the numbers are used."""
    caveats = []
    if settings.access == "memory":
        caveats.append(f"the file system is {file_system}: these are the numbers of memory")
    elif settings.access == "buffered":
        why = "--buffered was given" if asked_buffered else "direct I/O is not possible here"
        caveats.append(f"{why}: the page cache takes part in all numbers")
        if settings.engine == "libaio":
            caveats.append("libaio without direct I/O waits for each request, whatever the iodepth")
    if file_system in SERVED_FILE_SYSTEMS or file_system.startswith("fuse"):
        caveats.append(f"{file_system} may answer from caches of its servers, past the drives")
    return caveats


def advise_on_unsteady(merged: Mapping[str, Any]) -> str:
    """What to try where the repeats of a load disagree: whole files have no run time."""
    more = "more --repeats, larger --file_sizes" if merged["whole_files"] else "a longer --runtime"
    return f"the repeats disagree: try {more}, or a quieter hour"


def merge_options(options: argparse.Namespace) -> dict[str, Any]:
    """What to measure: the preset, and before it what the command line says."""
    merged = dict(PRESETS["toy" if options.toy else options.preset])
    given = {name: getattr(options, name) for name in merged if getattr(options, name) is not None}
    # The one takes the place of the other where the preset has it; who gives both asks for both.
    if options.whole_files is None and ("runtime" in given or "ramp_time" in given):
        merged["whole_files"] = False
    if options.whole_files:
        merged |= {"runtime": 0.0, "ramp_time": 0.0}
    return merged | given


def check_loads(loads: Sequence[Load], merged: Mapping[str, Any]) -> None:
    """Raises WrongUse for a grid that fio cannot run."""
    for load in loads:
        if load.block_bytes > load.file_bytes:
            raise WrongUse(
                f"--block_sizes {format_amount(load.block_bytes)} does not fit into "
                f"--file_sizes {format_amount(load.file_bytes)}"
            )
        if load.file_bytes % load.block_bytes:
            raise WrongUse(
                f"--file_sizes {format_amount(load.file_bytes)} is no multiple of "
                f"--block_sizes {format_amount(load.block_bytes)}"
            )
    if merged["whole_files"] and (merged["runtime"] or merged["ramp_time"]):
        raise WrongUse("--whole_files ends when the files do: leave out --runtime and --ramp_time")
    if not merged["whole_files"] and not merged["runtime"]:
        raise WrongUse("--runtime is missing: give it, or --whole_files")


def make_scan_document(
    rows: Sequence[Row],
    scan: Scan,
    facts: Mapping[str, Any],
    caveats: Sequence[str],
    head: Mapping[str, Any],
) -> dict[str, Any]:
    """The JSON document: base units, no NaN."""
    runs = [
        {**load._asdict(), **{name: run[name] for name in run if name not in ("bins", "start")}}
        for load, of_load in scan.runs.items()
        for run in of_load
    ]
    return {
        **head,
        "complete": scan.complete,
        "units": UNITS,
        "results": list(rows),
        "caveats": list(caveats),
        "details": {**facts, "settings": scan.settings._asdict(), "runs": runs},
    }


def run_scan(options: argparse.Namespace, command: list[str], stop: StopSign, origin: float) -> int:
    """Measure, print and write; the exit status."""
    merged = merge_options(options)
    grid = ("file_sizes", "patterns", "block_sizes", "jobs", "iodepth")
    loads = [
        Load(pattern, size, block, jobs, depth)
        for size, pattern, block, jobs, depth in itertools.product(*(merged[n] for n in grid))
    ]
    check_loads(loads, merged)
    program, version = find_fio()
    engine = choose_engine(program, options.engine, merged["iodepth"])
    caveats = handle_leftovers(options.path, options.remove_leftovers)
    check_space(options.path, loads)
    folder = WorkFolder(options.path)
    with folder:
        file_system = find_file_system(folder.path)
        access = choose_access(folder.path, file_system, options.buffered)
        times = (merged["runtime"], merged["ramp_time"], merged["repeats"], merged["whole_files"])
        settings = ScanSettings(engine, access, *times)
        scan = Scan(loads, settings)
        scan.measure(program, folder, options.keep, stop)
    rows = scan.make_rows()
    caveats += find_scan_caveats(settings, file_system, options.buffered)
    if PRESETS[options.preset]["whole_files"] and not (merged["whole_files"] or options.toy):
        caveats.append(
            f"with --runtime nothing is flushed at the end: this is not the {options.preset} load, "
            "in which each job does its file once, with an fsync"
        )
    is_printed = not rows or print_to_stdout(format_loads(rows))
    problems = find_load_problems(rows)
    for text in caveats:
        write_note(text)
    if any(row["verdict"] == "unsteady" for row in rows):
        write_note(advise_on_unsteady(merged))
    if stop.reason and not scan.complete:
        write_note(f"{stop.reason}: the results so far")
    for text in problems:
        print(f"problem: {text}", file=sys.stderr)
    if options.json:
        head = make_document_head("fio_scan", (__version__, METHOD), command, origin)
        facts = {"file_system": file_system, "fio": version}
        write_document(options.json, make_scan_document(rows, scan, facts, caveats, head))
    was_cut = stop.by_signal and not scan.complete
    return 1 if problems or was_cut or not is_printed else 0


# Two jobs as fio 3 writes them, made up, with a warning before and a line after it.
SAMPLE = """fio: this platform does not support process shared mutexes
{
  "fio version" : "fio-3.33",
  "jobs" : [
    {"jobname" : "scan", "error" : 0,
     "read" : {"io_bytes" : 4096000, "io_kbytes" : 4000, "bw_bytes" : 4096000, "bw" : 4000,
       "iops" : 1000.0, "runtime" : 1000, "total_ios" : 1000, "bw_dev" : -nan,
       "clat_ns" : {"min" : 1000, "max" : 9000, "mean" : 2000.0, "N" : 1000,
         "percentile" : {"50.000000" : 2000, "99.000000" : 9000},
         "bins" : {"1000" : 400, "2000" : 500, "9000" : 100}}},
     "write" : {"io_bytes" : 0, "total_ios" : 0}},
    {"jobname" : "scan", "error" : 0,
     "read" : {"io_bytes" : 8192000, "io_kbytes" : 8000, "bw_bytes" : 8192000, "bw" : 8000,
       "iops" : 2000.0, "runtime" : 1000, "total_ios" : 2000,
       "clat_ns" : {"min" : 1000, "max" : 2000, "mean" : 1100.0, "N" : 2000,
         "percentile" : {"50.000000" : 1000, "99.000000" : 2000},
         "bins" : {"1000" : 1800, "2000" : 200}}},
     "write" : {"io_bytes" : 0, "total_ios" : 0}}
  ]
}
slurmstepd: error: none of fio's
"""


def run_self_test() -> int:
    """Check parsing, sums and clean-up, and a real run where fio is there; 0, or 1."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    documents, around = parse_fio_text(SAMPLE)
    check("warnings around the JSON, and a nan in it", len(documents) == 1 and len(around) == 2)
    load = Load("read", 65536, 4096, 2, 4)
    run = read_run(SAMPLE, load, whole_files=False)
    check("4.096 and 8.192 MB/s together are 12.288", run["bytes_per_second"] == 12_288_000)
    # (1000 * 2000 + 2000 * 1100) / 3000 = 1400 ns; of 3000 requests 2200 took 1000 ns, and the
    # 2970th took 9000 ns.
    mean, half, most = (run[f"latency_seconds_{name}"] for name in ("mean", "p50", "p99"))
    check("the mean latency counts requests", math.isclose(mean, 1.4e-6))
    check(
        "percentiles come from both histograms",
        math.isclose(half, 1e-6) and math.isclose(most, 9e-6),
    )
    late = SAMPLE.replace(
        '"runtime" : 1000, "total_ios" : 2000', '"runtime" : 400, "total_ios" : 9'
    )
    check(
        "jobs of 1 s and 0.4 s are not added up",
        read_run(late, load, whole_files=False)["unsimultaneous"] is not None,
    )
    settings = ScanSettings("psync", "direct", 1.0, 0.0, 4, False)
    check(
        "four equal repeats are ok",
        make_load_row(load, [run] * 4, settings, None)["verdict"] == "ok",
    )
    check("3000 reads a second of 1.4 us are possible", not is_impossible(run, load))
    many = run | {"requests_per_second": 1e9}
    check("1400 requests in flight of 8 are not", is_impossible(many, load))
    with tempfile.TemporaryDirectory(prefix="fio_scan_") as name:
        parent = Path(name)
        with WorkFolder(parent) as path:
            (path / "file").write_text("x", encoding="utf-8")
            check("a folder in use is known", [s for _, s in find_leftovers(parent)] == ["running"])
        check("the folder is gone afterwards", not list(parent.iterdir()))
        if shutil.which("fio"):
            options = build_parser().parse_args(["--toy", name])
            stop, output = StopSign(), sys.stdout
            try:
                sys.stdout = sys.stderr
                status = run_scan(options, [], stop, time.monotonic())
            finally:
                sys.stdout = output
            check("a toy run with the fio that is here", status == 0 and not list(parent.iterdir()))
        else:
            write_note("fio is not there, so it was not run; install it before a measurement")
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="fio_scan.py",
        description="Measure a file system with fio: bandwidth, IOPS and latency over many loads.",
        epilog="The docstring at the top of this file tells what is timed and how to run it.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "path",
        nargs="?",
        type=Path,
        default=Path(),
        help="a folder on the file system in question (default: the current one)",
    )
    grid = parser.add_argument_group("loads: all combinations of these are run")
    grid.add_argument(
        "--preset",
        choices=[name for name in PRESETS if name != "toy"],
        default="scan",
        help="scan: small to large files by 4k; checkpoint: large files once, in large blocks; "
        "dataset: random reads (default: scan)",
    )
    grid.add_argument("--patterns", nargs="+", choices=PATTERNS, help="what to do")
    for name, what in (("file_sizes", "the file of each job"), ("block_sizes", "a request")):
        grid.add_argument(
            f"--{name}", nargs="+", type=parse_file_size, metavar="SIZE", help=f"size of {what}"
        )
    for name, what in (("jobs", "processes at once"), ("iodepth", "requests in flight of each")):
        grid.add_argument(f"--{name}", nargs="+", type=parse_count, metavar="N", help=what)
    timing = parser.add_argument_group("timing")
    timing.add_argument(
        "--runtime", type=parse_duration, metavar="DURATION", help="of each run (default: 10s)"
    )
    timing.add_argument(
        "--ramp_time",
        type=parse_duration,
        metavar="DURATION",
        help="load before it that does not count (default: 2s)",
    )
    timing.add_argument(
        "--repeats", type=parse_count, metavar="N", help="runs of each load (default: 5)"
    )
    timing.add_argument(
        "--whole_files",
        action="store_true",
        default=None,
        help="each job does its file once, with an fsync, instead of --runtime",
    )
    timing.add_argument(
        "--budget",
        type=parse_duration,
        metavar="DURATION",
        help="end after this wall-clock time with the results so far: 90s, 10m, 1h30m",
    )
    how = parser.add_argument_group("input and output")
    how.add_argument(
        "--engine", help="I/O engine of fio (default: the first of " + ", ".join(ENGINES) + ")"
    )
    how.add_argument(
        "--buffered", action="store_true", help="through the page cache, as most programs do"
    )
    how.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    how.add_argument("--keep", type=Path, metavar="FOLDER", help="keep fio's JSON of each run here")
    other = parser.add_argument_group("other")
    other.add_argument(
        "--remove_leftovers",
        action="store_true",
        help="remove folders of runs that were killed, then measure",
    )
    other.add_argument("--toy", action="store_true", help="tiny files and short runs")
    other.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    other.add_argument(
        "--version", action="version", version=f"fio_scan {__version__} (method {METHOD})"
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense, before anything is measured."""
    check_json_path(options.json)
    if options.toy and options.preset != "scan":
        raise WrongUse("--toy is a preset of its own; leave out --preset")
    if not options.path.is_dir():
        raise WrongUse(f"there is no folder {options.path}")
    if options.keep and not options.keep.is_dir():
        raise WrongUse(f"--keep: there is no folder {options.keep}; make it first")
    if options.keep:
        options.keep = options.keep.resolve()
    options.path = options.path.resolve()


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    stop = StopSign()
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_options(options)
        stop.deadline = origin + options.budget if options.budget else None
        stop.listen()
        pass_hangup_on()
        return run_scan(options, make_portable_command(arguments), stop, origin)
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a run listens for signals itself
        print("stopped", file=sys.stderr)
        return 1


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
