#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""How does this file system feel to the people who work on it?

Times what developers wait for all day: importing a Python package of many files, `import torch`,
unpacking an archive of small files, git clone, git status, ls -l of a large folder, removing a
tree. Each is done on the path in question and, in the same run, on a local one beside it.

Physics
    None of this moves many bytes: the time is operations * latency, one after another. Hand
    check: a package of 1000 modules takes some 4000 lookups and reads; at 1 ms each 4 s, at 10 µs
    40 ms. That is why a file system that streams 10 GB/s can still be painful to work on.

What is timed
    The whole wait: from starting the program until it has ended (unpacking and removing: from the
    first to the last file, in this process). The two places take turns.
    warm        done just before, so that the caches of this machine know all of it
    cold pages  the files' pages were dropped by posix_fadvise, without root: contents come from
                the file system again, names and sizes may still be known
    cold        all caches of this machine were dropped (--drop_caches, root alone; every program
                on the machine feels it)
    new         files are made or removed; the time is what the user waits, without a sync
What is not timed
    Making the files that are read, dropping caches, checking the answer. Each answer is checked:
    the number of files, of entries, of modules.
What is compared
    ratio = median on the path / median beside it. like local: up to 1.5; slower: up to 4; slow:
    up to 10; painful: beyond; `slower to slow` where the samples do not tell which. `import torch`
    is timed where torch is installed, and so in one place only, unless --copy_module copies it to
    both; libraries that it loads from packages of their own stay where they are.

How to run
    the usual       python feel.py /mnt/shared --json feel.json          about two minutes
    other sizes     --files 20000 --entries 100000 --modules 4000 --repeats 10
    import torch    python feel.py /mnt/shared --tasks import --copy_module    copies about 1 GB
    cold caches     sudo python feel.py /mnt/shared --drop_caches
    Slurm           srun --ntasks-per-node=1 bash -c \
                        'python feel.py /mnt/shared --beside $TMPDIR --json $SLURM_NODEID.json'
    pdsh            pdsh -w node[01-08] 'python /shared/feel.py /mnt/shared \
                        --json /shared/feel.$(hostname).json'
    Ctrl-C, SIGTERM and SIGUSR1 keep what was measured. It works in a folder of its own in each
    place and removes it; after SIGKILL the next run names what was left.

A good answer: like local or slower when warm, at most slow when cold, git status below a second.
A painful file system costs each developer minutes a day: move environments and code elsewhere.

Exit status: 0 done, 1 a wrong answer, a command that failed, nothing measured, or stopped by a
signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import compileall
import contextlib
import datetime
import errno
import io
import json
import math
import os
import re
import select
import shutil
import signal
import statistics
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
# fmt: off
PROFILES = {
    "toy": ["--toy"],
    "full": ["--repeats", "10"],
}
# fmt: on

# Which results stand beside which, by which column, and what else has to be equal for that.
COMPARE = {
    "keys": ["task", "cache", "place"],
    "value": "seconds_median",
    "better": "lower",
    "spread": "spread",
    "alike": [
        "details.file_systems",
        "details.settings.files",
        "details.settings.file_bytes",
        "details.settings.entries",
        "details.settings.modules",
    ],
}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "samples": "1",
    "seconds_median": "s",
    "seconds_mean": "s",
    "seconds_iqr": "s",
    "seconds_min": "s",
    "seconds_max": "s",
    "spread": "1",
    "drift": "1",
    "ratio": "1",
}

TASKS = ("package", "import", "unpack", "remove", "clone", "status", "list")
DEFAULTS = {"files": 5000, "file_bytes": 4096, "entries": 10_000, "modules": 1000, "repeats": 5}
TOY = {"files": 40, "file_bytes": 512, "entries": 100, "modules": 15, "repeats": 2}
TOY_TASKS = ("package", "unpack", "remove", "clone", "status", "list")
# Up to which ratio a place feels so.
FEELINGS = ((1.5, "like local"), (4.0, "slower"), (10.0, "slow"), (math.inf, "painful"))

FOLDER_PREFIX = ".feel-"
FOLDER_FILES = 100
WIDE_SPREAD = 0.25
LARGE_DRIFT = 0.25
# Below this many samples a quartile is an interpolation between two of them, and no measurement.
QUARTILE_SAMPLES = 4
# A file takes at least a block, whatever is in it.
BLOCK_BYTES = 4096
DROP_CACHES = Path("/proc/sys/vm/drop_caches")
MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs", "devtmpfs", "hugetlbfs")

Row = dict[str, Any]


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


class Stopped(Exception):
    """The run ends here, by a signal or by the budget; what was measured is kept."""


class WrongAnswer(Exception):
    """A task did not do what it should have: what, in a sentence."""


class FeelSettings(NamedTuple):
    """How much of everything there is."""

    files: int
    file_bytes: int
    entries: int
    modules: int
    repeats: int
    cold: str


class Measurement(NamedTuple):
    """What is timed: a task, with caches in some state, in some place."""

    task: str
    cache: str
    place: str


class FeelPlace:
    """One of the two places: its folder, and what is prepared in it."""

    def __init__(self, name: str, folder: WorkFolder) -> None:
        self.name = name
        self.title = {"path": "the path"}.get(name, "the place beside it")
        self.path = folder.path
        self.file_system = find_file_system(folder.path)
        self.device = folder.path.stat().st_dev
        self.module_folder: Path | None = None


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


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


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


def format_time(seconds: float) -> str:
    """`12.0 µs`, `8.02 ms` or `2.3 s`: a time in a sentence, to about one percent."""
    factor, unit = next(
        ((f, u) for f, u in ((1.0, "s"), (1e-3, "ms")) if seconds >= 0.9995 * f), (1e-6, "µs")
    )
    return f"{format_earned(seconds / factor, 1e-2 * seconds / factor)} {unit}"


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


def wait_for_exit(process: subprocess.Popen[bytes], stop: StopSign) -> None:
    """Wait until a process has ended, without being late. Raises Stopped with it ended."""
    with contextlib.suppress(AttributeError, OSError):  # not on Linux, or an old one
        number = os.pidfd_open(process.pid)
        try:
            while not select.select([number], [], [], 0.1)[0]:
                if stop.reason:
                    break
        finally:
            os.close(number)
    if stop.reason and process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    stop.check()


def run_timed(
    command: Sequence[str | Path], stop: StopSign, environ: Mapping[str, str] | None = None
) -> tuple[float, str]:
    """Seconds from start to end of a command, and what it wrote.

    Raises WrongAnswer where it fails, and Stopped where the run has to end.
    """
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C", **(environ or {})},
            start_new_session=True,
        )
        wait_for_exit(process, stop)
        seconds = time.perf_counter() - began
        output.seek(0)
        said = output.read().decode("utf-8", "replace")
    if process.returncode != 0:
        words = said.strip().splitlines()[-1:] or [f"status {process.returncode}"]
        raise WrongAnswer(f"{Path(command[0]).name} failed: {words[0][:200]}")
    return seconds, said


def make_tree(count: int, size: int) -> Iterator[tuple[str, bytes]]:
    """Names and contents of many small files in folders of FOLDER_FILES, always the same ones."""
    for number in range(count):
        text = f"{number:08d} the same in each run and nowhere the same twice\n".encode()
        content = (text * (size // len(text) + 1))[:size]
        yield f"{number // FOLDER_FILES:04d}/{number:08d}.txt", content


def make_archive(settings: FeelSettings) -> bytes:
    """A tar archive of the tree, in memory: reading it costs both places the same."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in make_tree(settings.files, settings.file_bytes):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def unpack(archive: bytes, target: Path, stop: StopSign) -> None:
    """Unpack the archive into a new folder, file by file. Raises Stopped on the way."""
    # The filter is in all patched versions of Python 3.11, and not in the first ones.
    safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        for member in opened:
            stop.check()
            opened.extract(member, target, **safe)


def make_package(folder: Path, count: int, stop: StopSign) -> None:
    """A Python package of many modules, compiled, which imports all of them."""
    package = folder / "feel_package"
    package.mkdir(parents=True)
    names = [f"module_{number:05d}" for number in range(count)]
    for number, name in enumerate(names):
        stop.check()
        lines = [f"def function_{i}(value):\n    return value + {number + i}\n" for i in range(20)]
        (package / f"{name}.py").write_text("\n".join(lines), encoding="utf-8")
    imports = "".join(f"from feel_package import {name}\n" for name in names)
    (package / "__init__.py").write_text(f"{imports}COUNT = {count}\n", encoding="utf-8")
    compileall.compile_dir(package, quiet=2)


def make_large_folder(folder: Path, count: int, stop: StopSign) -> None:
    """A folder of many empty files."""
    folder.mkdir()
    for number in range(count):
        stop.check()
        (folder / f"entry-{number:08d}").touch()


def run_git(*arguments: str | Path, stop: StopSign) -> float:
    """Seconds of a git command, without the settings of the user and of the machine."""
    own = ("-c", "user.name=feel", "-c", "user.email=feel@localhost", "-c", "gc.auto=0")
    environ = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    return run_timed(["git", *own, *arguments], stop, environ)[0]


def make_repository(folder: Path, settings: FeelSettings, stop: StopSign) -> None:
    """A git repository with the tree in one commit."""
    for name, content in make_tree(settings.files, settings.file_bytes):
        stop.check()
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    run_git("init", "--quiet", folder, stop=stop)
    run_git("-C", folder, "add", ".", stop=stop)
    run_git("-C", folder, "commit", "--quiet", "--message", "the tree", stop=stop)


def count_files(folder: Path) -> int:
    """Files below a folder, those of git left out."""
    count = 0
    for _, folders, files in os.walk(folder):
        if ".git" in folders:
            folders.remove(".git")
        count += len(files)
    return count


def drop_pages(folder: Path, stop: StopSign) -> None:
    """Let the page cache forget the contents of all files below a folder."""
    for base, _, files in os.walk(folder):
        for name in files:
            stop.check()
            with contextlib.suppress(OSError):  # a link that leads nowhere, a socket
                number = os.open(Path(base, name), os.O_RDONLY | os.O_NONBLOCK)
                try:
                    os.fdatasync(number)  # pages that are not written yet are kept
                    os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
                finally:
                    os.close(number)


def drop_all_caches(control: Path = DROP_CACHES) -> None:
    """Let the whole machine forget all that it has cached. Raises WrongUse without root."""
    try:
        os.sync()
        control.write_text("3\n", encoding="ascii")
    except OSError as error:
        raise WrongUse(f"--drop_caches: {error.strerror}; it takes root") from error


def choose_cold(drop_all: bool) -> str:
    """The coldest state of the caches that there is a way to: `cold`, `cold pages` or none."""
    if drop_all:
        drop_all_caches()
        return "cold"
    return "cold pages" if hasattr(os, "posix_fadvise") else ""


def find_module(name: str) -> Path | None:
    """The folder of an installed package, found without importing it; None: it is not there."""
    code = (
        "import importlib.util, sys; found = importlib.util.find_spec(sys.argv[1]); "
        "print(found.origin if found and found.submodule_search_locations else '')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, name], capture_output=True, text=True, timeout=60, check=False
    )
    origin = done.stdout.strip()
    return Path(origin).parent if done.returncode == 0 and origin.startswith("/") else None


def measure_folder(folder: Path) -> tuple[int, int]:
    """Bytes and files below a folder."""
    sizes = [
        os.lstat(os.path.join(base, name)).st_size  # noqa: PTH118 - of tens of thousands of files
        for base, _, files in os.walk(folder)
        for name in files
    ]
    return sum(max(size, BLOCK_BYTES) for size in sizes), len(sizes)


def check_room(parent: Path, size: int, files: int) -> None:
    """Raises WrongUse where so many bytes or files do not fit on the file system of a folder."""
    status = os.statvfs(parent)
    free = status.f_bavail * status.f_frsize
    if status.f_blocks and size > free:
        raise WrongUse(f"{parent}: this takes {size / 1e6:.0f} MB, and {free / 1e6:.0f} are free")
    if status.f_files and files > status.f_favail:
        raise WrongUse(f"{parent}: this takes {files} inodes, and {status.f_favail} are free")


class FeelBench:
    """Both places with what is prepared in them, and the samples so far."""

    def __init__(self, places: Sequence[FeelPlace], settings: FeelSettings, stop: StopSign) -> None:
        self.places = places
        self.settings = settings
        self.stop = stop
        self.archive = b""
        self.samples: dict[Measurement, list[float]] = {}
        self.problems: list[str] = []
        self.complete = False

    @property
    def origin(self) -> Path:
        """The repository that is cloned to both places: a local one."""
        return self.places[-1].path / "origin"

    def prepare(self, tasks: Sequence[str], progress: Progress) -> None:
        """Make what the tasks need, in both places."""
        if "unpack" in tasks or "remove" in tasks:
            self.archive = make_archive(self.settings)
        if "clone" in tasks or "status" in tasks:
            make_repository(self.origin, self.settings, self.stop)
        for place in self.places:
            progress.show(0, f"preparing {place.title}")
            if "package" in tasks:
                make_package(place.path / "package", self.settings.modules, self.stop)
            if "list" in tasks:
                make_large_folder(place.path / "large", self.settings.entries, self.stop)
            if "status" in tasks and "clone" not in tasks:
                self.clone(place)

    def add(self, task: str, cache: str, place: FeelPlace, seconds: float) -> None:
        """Keep a sample."""
        self.samples.setdefault(Measurement(task, cache, place.name), []).append(seconds)

    def time_reading(
        self, task: str, place: FeelPlace, folder: Path, read: Callable[[], float]
    ) -> None:
        """Time a task that reads below a folder: cold, if there is a way, and then warm."""
        if self.settings.cold:
            if self.settings.cold == "cold":
                drop_all_caches()
            else:
                drop_pages(folder, self.stop)
        else:
            read()
        first = read()
        if self.settings.cold:
            self.add(task, self.settings.cold, place, first)
            self.add(task, "warm", place, read())
        else:
            self.add(task, "warm", place, first)

    def clone(self, place: FeelPlace) -> float:
        """Clone the repository to a place anew; the seconds."""
        target = place.path / "clone"
        shutil.rmtree(target, ignore_errors=True)
        # Over git's transport, as from a server: no hard links, no copy of the objects as files.
        source = f"file://{self.origin}"
        seconds = run_git("clone", "--quiet", source, target, stop=self.stop)
        found = count_files(target)
        if found != self.settings.files:
            raise WrongAnswer(f"the clone has {found} files of {self.settings.files}")
        return seconds

    def import_from(self, folder: Path, name: str, expression: str, is_bare: bool) -> float:
        """Import a module from a folder in a new process; the seconds."""
        code = f"import sys; sys.path.insert(0, sys.argv[1]); import {name}; print({expression})"
        flags = ["-I", "-S", "-B"] if is_bare else ["-B"]
        seconds, said = run_timed([sys.executable, *flags, "-c", code, folder], self.stop)
        wanted = str(self.settings.modules) if is_bare else str(folder / name)
        if said.strip().splitlines()[-1:] != [wanted]:
            raise WrongAnswer(f"importing {name} found another one: {hide_folders(said.strip())}")
        return seconds

    def list_large(self, folder: Path) -> float:
        """ls -l of the large folder; the seconds."""
        seconds, said = run_timed(["ls", "-l", folder], self.stop)
        found = said.count("\n") - 1  # the first line is the total
        if found != self.settings.entries:
            raise WrongAnswer(f"ls listed {found} files of {self.settings.entries}")
        return seconds

    def unpack_and_remove(self, tasks: Sequence[str], place: FeelPlace) -> None:
        """Unpack the archive in a place, count its files, and remove them."""
        target = place.path / "unpacked"
        began = time.perf_counter()
        unpack(self.archive, target, self.stop)
        unpacked = time.perf_counter()
        found = count_files(target)
        if found != self.settings.files:
            raise WrongAnswer(f"unpacking made {found} files of {self.settings.files}")
        if "unpack" in tasks:
            self.add("unpack", "new", place, unpacked - began)
        began = time.perf_counter()
        shutil.rmtree(target)
        if "remove" in tasks:
            self.add("remove", "new", place, time.perf_counter() - began)

    def read_status(self, place: FeelPlace) -> float:
        """git status in the clone; the seconds."""
        return run_git("-C", place.path / "clone", "status", "--short", stop=self.stop)

    def measure_place(self, tasks: Sequence[str], place: FeelPlace, module: str) -> None:
        """Each task once in one place."""
        if "unpack" in tasks or "remove" in tasks:
            self.unpack_and_remove(tasks, place)
        if "clone" in tasks:
            self.add("clone", "new", place, self.clone(place))
        if "status" in tasks:
            clone = place.path / "clone"
            self.time_reading("status", place, clone, lambda: self.read_status(place))
        if "list" in tasks:
            large = place.path / "large"
            self.time_reading("list", place, large, lambda: self.list_large(large))
        if "package" in tasks:
            folder = place.path / "package"
            self.time_reading(
                "package",
                place,
                folder,
                lambda: self.import_from(folder, "feel_package", "feel_package.COUNT", True),
            )
        if "import" in tasks and place.module_folder is not None:
            folder = place.module_folder
            where = f"{module}.__path__[0]"
            self.time_reading(
                "import",
                place,
                folder / module,
                lambda: self.import_from(folder, module, where, False),
            )

    def measure(self, tasks: Sequence[str], module: str) -> None:
        """All repeats, the places in turn; what was measured is kept when the run has to end."""
        progress = Progress(self.settings.repeats, "repeats")
        try:
            self.prepare(tasks, progress)
            for repeat in range(self.settings.repeats):
                # Neither place is always the first one, which meets what happens in between.
                for place in self.places if repeat % 2 == 0 else reversed(self.places):
                    progress.show(repeat, f"on {place.title}")
                    self.measure_place(tasks, place, module)
            self.complete = True
        except Stopped:
            pass
        except WrongAnswer as error:
            self.problems.append(str(error))
        except OSError as error:
            self.problems.append(f"{error.strerror}: {Path(str(error.filename)).name}")
        finally:
            progress.close()


def estimate_share(row: Row) -> float | None:
    """How far the median may be off, as a share: half the IQR, of 2 or 3 samples half the range."""
    if row["spread"] is not None:
        return float(row["spread"]) / 2
    if row["samples"] < 2 or row["seconds_median"] <= 0:
        return None
    return float((row["seconds_max"] - row["seconds_min"]) / row["seconds_median"] / 2)


def name_feeling(ratio: float) -> str:
    """How a place feels that takes so many times as long as a local one."""
    return next(feeling for limit, feeling in FEELINGS if ratio <= limit)


def judge_feeling(path: Row, beside: Row | None) -> str:
    """How the path feels beside a local place; from one to another where the samples disagree."""
    if beside is None:
        return "alone"
    shares = [estimate_share(row) for row in (path, beside)]
    if None in shares or path["ratio"] is None:
        return "one sample"
    doubt = math.hypot(*(share or 0.0 for share in shares))
    low = name_feeling(path["ratio"] / (1 + doubt))
    high = name_feeling(path["ratio"] * (1 + doubt))
    return low if low == high else f"{low} to {high}"


def are_together(places: Sequence[FeelPlace]) -> bool:
    """Whether all places are on one file system, so that no ratio says anything."""
    return len({place.device for place in places}) == 1


def make_wait_rows(
    samples: Mapping[Measurement, Sequence[float]], together: bool = False
) -> list[Row]:
    """One row for each task, state of the caches and place, with the ratio on those of the path.

    `together` says that both places are on one file system.
    """
    rows: dict[Measurement, Row] = {}
    for measurement in sorted(samples, key=lambda one: (TASKS.index(one.task), *one[1:])):
        row: Row = {**measurement._asdict()}
        row |= summarise_samples_of("seconds", samples[measurement]) | {"ratio": None}
        rows[measurement] = row | {"steady": is_steady(row), "verdict": "reference"}
    for measurement, row in rows.items():
        if measurement.place == "path":
            local = rows.get(measurement._replace(place="beside"))
            row["ratio"] = row["seconds_median"] / local["seconds_median"] if local else None
            row["verdict"] = "one file system" if together else judge_feeling(row, local)
    return list(rows.values())


def format_milliseconds(row: Row | None) -> str:
    """The median in ms, with the digits that it has earned."""
    if row is None:
        return "-"
    share, value = estimate_share(row), 1e3 * row["seconds_median"]
    return format_earned(value, None if share is None else share * value)


def format_waits(rows: Sequence[Row], module: str) -> str:
    """The table: a line for each task and state of the caches, with both places in it."""
    by_place = {(row["task"], row["cache"], row["place"]): row for row in rows}
    names = {
        "package": "import a package",
        "import": f"import {module}",
        "unpack": "unpack small files",
        "remove": "remove them",
        "clone": "git clone",
        "status": "git status",
        "list": "ls -l",
    }
    cells = []
    for task, cache in dict.fromkeys((row["task"], row["cache"]) for row in rows):
        path, beside = (by_place.get((task, cache, place)) for place in ("path", "beside"))
        ratio = path["ratio"] if path else None
        doubt = None
        if path and beside and ratio is not None:
            shares = [estimate_share(row) for row in (path, beside)]
            known = [share for share in shares if share is not None]
            doubt = ratio * math.hypot(*known) if len(known) == 2 else None
        counts = [str(row["samples"]) for row in (path, beside) if row]
        cells.append(
            [
                f"{names[task]}, {cache}",
                format_milliseconds(path),
                format_milliseconds(beside),
                format_earned(ratio, doubt),
                counts[0] if len(set(counts)) == 1 else "/".join(counts),
                path["verdict"] if path else "reference alone",
            ]
        )
    return format_table(["wait", "path ms", "beside ms", "ratio", "n", "verdict"], cells)


def place_module(
    name: str, places: Sequence[FeelPlace], parents: Sequence[Path], copy: bool, stop: StopSign
) -> list[str]:
    """Say to each place where the module is that it imports; copy it there first, if asked to.

    The caveats; raises WrongUse where a copy does not fit.
    """
    folder = find_module(name)
    if folder is None:
        return [f"{name} is not installed for this Python, so importing it was not timed"]
    if copy:
        size, files = measure_folder(folder)
        for place, parent in zip(places, parents, strict=True):
            check_room(parent, size, files)
            write_note(f"copying {name}, {size / 1e6:.0f} MB in {files} files, to {place.title}")
            stop.check()
            shutil.copytree(folder, place.path / "module" / name, symlinks=True)
            place.module_folder = place.path / "module"
        return []
    device = folder.stat().st_dev
    for place in places:
        if place.device == device:
            place.module_folder = folder.parent
            return [
                f"{name} was imported where it is installed, on the file system of {place.title}"
            ]
    return [f"{name} lies on neither file system, so importing it was not timed: --copy_module"]


def choose_tasks(asked: Sequence[str] | None, is_toy: bool) -> tuple[list[str], list[str]]:
    """The tasks, and caveats on those left out. Raises WrongUse for one that cannot be done."""
    tasks = list(dict.fromkeys(asked or (TOY_TASKS if is_toy else TASKS)))
    needs = {"clone": "git", "status": "git", "list": "ls"}
    missing = [task for task in tasks if task in needs and shutil.which(needs[task]) is None]
    if missing and asked:
        raise WrongUse(f"--tasks {missing[0]}: {needs[missing[0]]} is not there")
    caveats = [f"{needs[task]} is not there, so {task} was not timed" for task in missing]
    return [task for task in tasks if task not in missing], caveats


def find_place_caveats(places: Sequence[FeelPlace], settings: FeelSettings) -> list[str]:
    """What should be known before the numbers are used."""
    _, beside = places
    caveats = []
    if are_together(places):
        caveats.append("both places are on one file system: the ratios show noise alone")
    elif beside.file_system in MEMORY_FILE_SYSTEMS:
        caveats.append(f"the place beside is memory ({beside.file_system}), faster than any disk")
    if not settings.cold:
        caveats.append("there is no way to drop caches here: all is warm")
    return caveats


def make_feel_document(
    head: Mapping[str, Any], bench: FeelBench, rows: Sequence[Row], caveats: Sequence[str]
) -> dict[str, Any]:
    """The JSON document: base units, no NaN."""
    samples = [
        {**measurement._asdict(), "seconds": seconds}
        for measurement, seconds in bench.samples.items()
    ]
    return {
        **head,
        "complete": bench.complete,
        "units": UNITS,
        "results": list(rows),
        "caveats": [*caveats, *bench.problems],
        "details": {
            "file_systems": {place.name: place.file_system for place in bench.places},
            "settings": bench.settings._asdict(),
            "samples": samples,
        },
    }


def run_feel(options: argparse.Namespace, command: list[str], stop: StopSign, origin: float) -> int:
    """Measure, print and write; the exit status."""
    sizes = {
        name: getattr(options, name) or (TOY if options.toy else DEFAULTS)[name]
        for name in DEFAULTS
    }
    tasks, caveats = choose_tasks(options.tasks, options.toy)
    settings = FeelSettings(**sizes, cold=choose_cold(options.drop_caches))
    parents = [options.path, options.beside]
    small = max(settings.file_bytes, BLOCK_BYTES)
    room = 3 * settings.files * small + 3 * settings.modules * BLOCK_BYTES
    for parent in parents:
        caveats += handle_leftovers(parent, options.remove_leftovers)
        check_room(parent, room, 3 * settings.files + 2 * settings.modules + settings.entries)
    with contextlib.ExitStack() as stack:
        folders = [WorkFolder(parent) for parent in parents[:1]]
        stack.enter_context(folders[0])
        folders.append(WorkFolder(parents[1]))
        stack.enter_context(folders[1])
        names = ("path", "beside")
        places = [FeelPlace(name, folder) for name, folder in zip(names, folders, strict=True)]
        bench = FeelBench(places, settings, stop)
        with contextlib.suppress(Stopped):
            if "import" in tasks:
                copy = options.copy_module
                caveats += place_module(options.module, places, parents, copy, stop)
            bench.measure(tasks, options.module)
        caveats = list(dict.fromkeys([*caveats, *find_place_caveats(places, settings)]))
    rows = make_wait_rows(bench.samples, are_together(places))
    is_printed = not rows or print_to_stdout(format_waits(rows, options.module))
    if not rows and not bench.problems:
        bench.problems.append("nothing was measured")
    for text in caveats:
        write_note(text)
    unsteady = list(dict.fromkeys(row["task"] for row in rows if row["steady"] is False))
    if unsteady:
        write_note(f"the repeats disagree for {', '.join(unsteady)}: try more --repeats")
    if stop.reason and not bench.complete:
        write_note(f"{stop.reason}: the results so far")
    for text in bench.problems:
        print(f"problem: {text}", file=sys.stderr)
    if options.json:
        head = make_document_head("feel", (__version__, METHOD), command, origin)
        write_document(options.json, make_feel_document(head, bench, rows, caveats))
    return 0 if bench.complete and is_printed and not bench.problems else 1


def run_self_test() -> int:
    """Check the statistics and a whole tiny run in a temporary folder; 0, or 1."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    slow, local = Measurement("list", "warm", "path"), Measurement("list", "warm", "beside")
    rows = make_wait_rows({slow: [6.0, 6.0, 6.0, 6.0], local: [2.0, 2.0, 2.0, 2.0]})
    check("6 s against 2 s is a ratio of 3", [row["ratio"] for row in rows] == [None, 3.0])
    check("which is slower", [row["verdict"] for row in rows] == ["reference", "slower"])
    feelings = [name_feeling(ratio) for ratio in (0.5, 1.5, 4.0, 10.0, 11.0)]
    expected = ["like local", "like local", "slower", "slow", "painful"]
    check("1.5 is like local, 11 is painful", feelings == expected)
    settings = FeelSettings(files=12, file_bytes=100, entries=7, modules=3, repeats=1, cold="")
    check("an archive is always the same", make_archive(settings) == make_archive(settings))
    stop = StopSign()
    with tempfile.TemporaryDirectory(prefix="feel_") as name:
        parent = Path(name)
        unpack(make_archive(settings), parent / "unpacked", stop)
        check("12 files come out of it", count_files(parent / "unpacked") == 12)
        drop_works = True
        if hasattr(os, "posix_fadvise"):
            drop_pages(parent / "unpacked", stop)
            drop_works = count_files(parent / "unpacked") == 12
        check("dropping pages keeps the files", drop_works)
        seconds, said = run_timed([sys.executable, "-c", "print(7)"], stop)
        check("a command is timed and answers", seconds > 0 and said.split() == ["7"])
        arguments = ["--toy", str(parent), "--beside", str(parent), "--repeats", "1"]
        options = build_parser().parse_args(arguments)
        output = sys.stdout
        try:
            sys.stdout = sys.stderr
            status = run_feel(options, [], stop, time.monotonic())
        finally:
            sys.stdout = output
        check("a toy run has no problem", status == 0)
        check("and leaves nothing behind", [p.name for p in parent.iterdir()] == ["unpacked"])
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="feel.py",
        description="Time what developers wait for on a file system, beside a local one.",
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
    parser.add_argument(
        "--beside",
        type=Path,
        metavar="FOLDER",
        help="a folder on a local file system to compare with (default: that for temporary files)",
    )
    what = parser.add_argument_group("what to time")
    what.add_argument("--tasks", nargs="+", choices=TASKS, help="some of them (default: all)")
    for name, text in (
        ("files", "files of the archive and of the repository"),
        ("file_bytes", "bytes of each of them"),
        ("entries", "files of the large folder"),
        ("modules", "modules of the package"),
        ("repeats", "measurements of each wait"),
    ):
        shown = f"{text} (default: {DEFAULTS[name]})"
        what.add_argument(f"--{name}", type=parse_count, metavar="N", help=shown)
    what.add_argument(
        "--module", default="torch", help="installed package to import (default: torch)"
    )
    what.add_argument(
        "--copy_module", action="store_true", help="copy it to both places before: may be large"
    )
    what.add_argument(
        "--drop_caches",
        "--drop-caches",
        action="store_true",
        help="before cold measurements drop all caches of the machine (root alone)",
    )
    other = parser.add_argument_group("other")
    other.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    other.add_argument(
        "--remove_leftovers",
        action="store_true",
        help="remove folders of runs that were killed, then measure",
    )
    other.add_argument("--toy", action="store_true", help="few files, two repeats")
    other.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    other.add_argument(
        "--version", action="version", version=f"feel {__version__} (method {METHOD})"
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense, before anything is measured."""
    check_json_path(options.json)
    options.beside = options.beside or Path(tempfile.gettempdir())
    for name in ("path", "beside"):
        if not getattr(options, name).is_dir():
            raise WrongUse(f"there is no folder {getattr(options, name)}")
        setattr(options, name, getattr(options, name).resolve())
    if options.copy_module and options.tasks and "import" not in options.tasks:
        raise WrongUse("--copy_module is for the task import; add it to --tasks")
    if not re.fullmatch(r"[A-Za-z_]\w*", options.module):
        raise WrongUse(f"--module {options.module}: this is no name of a package")


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
        stop.listen()
        pass_hangup_on()
        return run_feel(options, make_portable_command(arguments), stop, origin)
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
