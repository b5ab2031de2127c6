#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""How long do people wait for this file system?

Times what developers wait for all day: importing a Python package, unpacking and removing a tree of
small files, `git clone`, `git status`, `ls -l` of a large directory. Each is done on the path in
question and, in turn, on a local one, in new directories that are removed.

## What is timed

The whole wait: a program from start to exit, or unpacking and removing all files. `warm`: the same
was done just before; `cold pages`: the contents of the files were dropped from this node's page
cache, names and sizes may still be cached; `new`: files are created or removed, without a sync.

`ratio` is the median on the path over the median beside it. The verdict is `like local` up to 1.5,
`slower` up to 4, `slow` up to 10, `painful` above.

## How to run

    python feel.py /mnt/shared --beside /local --json feel.json    # about two minutes
    python feel.py /mnt/shared --tasks import      # copies torch, 1 GB or more, to both places
    srun --ntasks-per-node=1 bash -c \
        'python feel.py /mnt/shared --beside $TMPDIR --json $SLURM_NODEID.json'

## A good answer

At most `slower` when warm, at most `slow` when cold, and `git status` below a second.

Exit status: 0 done; 1 a wrong answer, a command that failed, or a signal; 2 usage error.
"""

import argparse
import compileall
import contextlib
import importlib.util
import io
import itertools
import math
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, positive_int, start
from kit.files import find_file_system
from kit.report import Progress, Report, Row, format_table
from kit.stats import earned, scaled, summarize
from kit.stop import Stop, until_stopped

__version__ = "0.2.0"
METHOD = 1

PROFILES = {
    "demo": ["--files", "40", "--entries", "100", "--modules", "15", "--num-iterations", "2",
             "--tasks", "package", "unpack", "remove", "clone", "status", "list"],
    "full": ["--num-iterations", "10"],
}  # fmt: skip
COMPARE = {
    "keys": ["task", "cache", "place"],
    "value": "seconds_median", "better": "lower", "spread": "spread",
    "alike": ["details.file_systems", "details.settings.files", "details.settings.entries",
              "details.settings.modules"],
}  # fmt: skip
TASKS = {"package": "import a package", "unpack": "unpack small files", "remove": "remove them",
         "clone": "git clone", "status": "git status", "list": "ls -l",
         "import": "import --module"}  # fmt: skip
FEELINGS = ((1.5, "like local"), (4.0, "slower"), (10.0, "slow"), (math.inf, "painful"))
FILE_BYTES = 4096
GIT = ("git", "-c", "user.name=feel", "-c", "user.email=feel@localhost", "-c", "gc.auto=0")
BODY = "\n".join(f"def function_{i}(value):\n    return value + {i}\n" for i in range(20))
IMPORT = "import sys; sys.path.insert(0, sys.argv[1]); import {0}; print({0}.{1})"


def measure_place(
    folder: Path, options: argparse.Namespace, archive: bytes
) -> Iterator[tuple[str, str, float]]:
    """Do each task once in a place; task, state of the caches and seconds. Raises RuntimeError."""
    clone, large, package = (folder / name for name in ("clone", "large", "package"))
    if {"unpack", "remove"} & set(options.tasks):
        began = time.perf_counter()
        unpack(archive, folder / "unpacked")
        yield "unpack", "new", time.perf_counter() - began
        if count_files(folder / "unpacked") != options.files:
            raise RuntimeError("unpacking left out files")
        began = time.perf_counter()
        shutil.rmtree(folder / "unpacked")
        yield "remove", "new", time.perf_counter() - began
    if "clone" in options.tasks:
        shutil.rmtree(clone)
        yield "clone", "new", clone_to(clone, options)
    python, name, copy = [sys.executable, "-B"], options.module, folder / "module"
    isolated = [*python, "-I", "-S", "-c", IMPORT.format("feel_package", "COUNT"), package]
    foreign = [*python, "-c", IMPORT.format(name, "__path__[0]"), copy]
    for task, below, command, is_right in (
        ("status", clone, [*GIT, "-C", clone, "status", "--short"], lambda out: not out),
        ("list", large, ["ls", "-l", large], lambda out: out.count("\n") == options.entries + 1),
        ("package", package, isolated, lambda out: out == f"{options.modules}\n"),
        ("import", copy, foreign, lambda out: out.endswith(f"{copy / name}\n")),
    ):
        if task in options.tasks:
            drop_pages(below)
            yield task, "cold pages", time_command(command, is_right)
            yield task, "warm", time_command(command, is_right)


def time_command(command: Sequence[Any], is_right: Callable[[str], bool]) -> float:
    """Seconds from start to exit of a command. Raises RuntimeError."""
    environ = {**os.environ, "LC_ALL": "C", "GIT_CONFIG_GLOBAL": os.devnull}
    began = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environ,
                          start_new_session=True, text=True, check=False)  # fmt: skip
    seconds = time.perf_counter() - began
    if done.returncode or not is_right(done.stdout):
        raise RuntimeError(f"{command[0]}, status {done.returncode}: {done.stdout.strip()[:200]}")
    return seconds


def unpack(archive: bytes, target: Path) -> None:
    """Unpack a tar archive from memory, where reading it costs both places the same."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as opened:
        opened.extraction_filter = getattr(tarfile, "data_filter", None)  # from Python 3.11.4
        opened.extractall(target)


def clone_to(target: Path, options: argparse.Namespace) -> float:
    """Seconds of a git clone; over git's transport, as from a server, not by hard links."""
    command = [*GIT, "clone", "--quiet", f"file://{options.origin}", target]
    return time_command(command, lambda _: count_files(target) == options.files)


def count_files(folder: Path) -> int:
    """The number of files below a directory, those of git not counted."""
    walk = os.walk(folder)
    return sum(len(files) for base, _, files in walk if ".git" not in Path(base).parts)


def drop_pages(folder: Path) -> None:
    """Drop the contents of all files below a directory from the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            number = os.open(path, os.O_RDONLY)
            os.fdatasync(number)  # pages that are not written yet would stay
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(number)


def make_archive(files: int) -> bytes:
    """A tar archive of many small files, always the same one."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for number in range(files):
            text = f"{number:08d} the same in each run and nowhere the same twice\n".encode()
            entry = tarfile.TarInfo(f"{number // 100:04d}/{number:08d}.txt")
            entry.size = FILE_BYTES
            archive.addfile(entry, io.BytesIO((text * (FILE_BYTES // len(text) + 1))[:FILE_BYTES]))
    return buffer.getvalue()


def prepare(folders: Sequence[Path], options: argparse.Namespace, archive: bytes) -> None:
    """Create what the tasks read: a repository and its clones, a package, a large directory."""
    options.origin = folders[-1] / "origin"
    if {"clone", "status"} & set(options.tasks):
        unpack(archive, options.origin)
        for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message=x"]):
            time_command([*GIT, "-C", options.origin, *words], lambda _: True)
        for folder in folders:
            clone_to(folder / "clone", options)
    for folder in folders:
        if "list" in options.tasks:
            (folder / "large").mkdir()
            for number in range(options.entries):
                (folder / "large" / f"entry-{number:08d}").touch()
        if "package" in options.tasks:
            package = folder / "package/feel_package"
            package.mkdir(parents=True)
            imports = [f"from feel_package import m{number}\n" for number in range(options.modules)]
            for number in range(options.modules):
                (package / f"m{number}.py").write_text(BODY, encoding="utf-8")
            (package / "__init__.py").write_text(f"{''.join(imports)}COUNT = {len(imports)}\n")
            compileall.compile_dir(package, quiet=2)
        if "import" in options.tasks:
            copy = folder / "module" / options.module
            shutil.copytree(options.installed, copy, symlinks=True)


def make_rows(samples: Mapping[tuple[str, ...], Sequence[float]], together: bool) -> list[Row]:
    """A row per task, state of the caches and place; `together` on one file system."""
    order = list(TASKS)
    rows: dict[tuple[str, ...], Row] = {}
    for key in sorted(samples, key=lambda key: (order.index(key[0]), key[1:])):
        task, cache, place = key  # `beside` comes before `path`
        row: Row = {"task": task, "cache": cache, "place": place, "ratio": None}
        row |= {"verdict": "reference", **summarize("seconds", samples[key])}
        if beside := rows.get((task, cache, "beside")):
            row["ratio"] = row["seconds_median"] / beside["seconds_median"]
            feeling = next(word for limit, word in FEELINGS if row["ratio"] <= limit)
            row["verdict"] = "one file system" if together else feeling
        rows[key] = row
    return list(rows.values())


def print_rows(rows: Sequence[Row]) -> None:
    """Print a line per task and state of the caches, with both places in it."""
    cells = []
    for beside, row in itertools.pairwise(rows):
        if row["ratio"]:
            wait = f"{TASKS[row['task']]}, {row['cache']}"
            times = [scaled(one, "seconds_median", 1e-3) for one in (row, beside)]
            ratio = earned(row["ratio"], 0.05 * row["ratio"])
            cells.append((wait, *times, ratio, row["samples"], row["verdict"]))
    print(format_table(("wait", "path ms", "beside ms", "ratio", "n", "verdict"), cells))


def build_parser() -> Parser:
    parser = Parser(__doc__, "feel", __version__, METHOD, PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    add("path", nargs="?", type=Path, default=Path(), help="directory to test (default: .)")
    add("--beside", type=Path, metavar="DIR", default=Path(tempfile.gettempdir()),
        help="directory on a local file system (default: the one for temporary files)")
    add("--tasks", nargs="+", choices=tuple(TASKS), default=list(TASKS)[:-1],
        help="tasks to time (default: all but import)")
    add("--files", type=positive_int, default=5000, metavar="N", help="small files (default: 5000)")
    add("--entries", type=positive_int, default=10_000, metavar="N",
        help="files to list (default: 10000)")
    add("--modules", type=positive_int, default=1000, metavar="N",
        help="modules to import (default: 1000)")
    add("--num-iterations", type=positive_int, default=5, metavar="N", help="samples (default: 5)")
    add("--module", default="torch",
        help="installed package that the task import copies to both places (default: torch)")
    # fmt: on
    return parser


def measure(options: argparse.Namespace, stop: Stop, report: Report) -> None:
    """All samples, the two places in turn, as the report's rows. Raises Stopped, RuntimeError."""
    samples: dict[tuple[str, ...], list[float]] = {}
    together = options.path.stat().st_dev == options.beside.stat().st_dev
    if together:
        report.note("both places are on one file system: the ratios show noise only")
    with (
        contextlib.closing(Progress(options.num_iterations, "iterations")) as progress,
        tempfile.TemporaryDirectory(prefix=".feel-", dir=options.path.resolve()) as path,
        tempfile.TemporaryDirectory(prefix=".feel-", dir=options.beside.resolve()) as beside,
    ):
        folders = {"path": Path(path), "beside": Path(beside)}
        archive = make_archive(options.files)
        prepare(list(folders.values()), options, archive)
        for number in range(options.num_iterations):
            progress.show(number)
            # Neither place is always the first, which meets what happens in between.
            for place in sorted(folders, reverse=number % 2 == 0):
                for task, cache, seconds in measure_place(folders[place], options, archive):
                    samples.setdefault((task, cache, place), []).append(seconds)
                    report.rows = make_rows(samples, together)
                    stop.check()
            report.save(force=False)


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    report = Report("feel", __version__, METHOD, options.json, COMPARE)
    for folder in (options.path, options.beside):
        if not os.access(folder, os.W_OK):
            raise UsageError(f"{folder} is not a directory that can be written to")
    if "import" in options.tasks:
        found = importlib.util.find_spec(options.module)
        if found is None or not found.submodule_search_locations:
            raise UsageError(f"--module {options.module}: no such package is installed")
        options.installed = found.submodule_search_locations[0]
    if not shutil.which("git") and {"clone", "status"} & set(options.tasks):
        report.note("git is not installed: clone and status are left out")
        options.tasks = [one for one in options.tasks if one not in ("clone", "status")]
    names = ("files", "entries", "modules", "num_iterations")
    report.details["settings"] = {name: getattr(options, name) for name in names}
    kinds = {name: find_file_system(getattr(options, name)) for name in ("path", "beside")}
    report.details["file_systems"] = kinds
    try:
        with until_stopped(report) as stop:
            measure(options, stop, report)
    except RuntimeError as error:
        report.note(f"problem: {error}")
    if report.rows:
        print_rows(report.rows)
    report.save()
    return int(not report.complete)


if __name__ == "__main__":
    start(main)
