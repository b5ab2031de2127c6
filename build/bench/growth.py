"""How time and memory of each output grow with the book.

usage: python build/bench/growth.py [--book DIR] [--only check,html,epub,pdf] [--most N]

The chapters and pictures of a book once, twice, four times and so on, each copy in a folder of its
own; and, without `--only`, the site of 5,000 chapters of a paragraph. Whole processes are timed,
from start to exit; memory is the largest that one held. The exponent of a doubling is log2 of the
ratio: 1 is in proportion, 2 is with the square. Exit status 1 where the last doubling of time has
an exponent above 1.2, which n log n does not reach.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from bindery.check.rules import RULES
from bindery.core.config import load_config
from compare import copy_book, copy_sources

LARGEST_EXPONENT = 1.2
MOST = {"check": 16, "html": 16, "epub": 8, "pdf": 4}
"""Copies; the PDF of four takes minutes and gigabytes."""
SMALL_CHAPTERS = 5000
PARTS = 50


class Cost(NamedTuple):
    """Seconds and bytes of memory of one run."""

    seconds: float
    memory: int


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--book", type=Path, default=Path(), help="as for the comparison")
    parser.add_argument("--only", default=",".join(MOST), help="outputs, by comma")
    parser.add_argument("--most", type=int, default=16, help="copies of the largest book")
    options = parser.parse_args()
    verbs = options.only.split(",")
    if unknown := set(verbs) - set(MOST):
        parser.error(f"no such output: {', '.join(sorted(unknown))}")
    print("| output | book | seconds | exponent | MB | exponent |")
    print("|:-------|-----:|--------:|---------:|---:|---------:|")
    too_steep = []
    with tempfile.TemporaryDirectory(prefix="bindery-growth-") as name:
        work = Path(name)
        one = copy_book(options.book, work)
        for verb in verbs:
            before: Cost | None = None
            count, steep = 1, 0.0
            while count <= min(options.most, MOST[verb]):
                cost = measure(verb, write_copies(one, work / f"books/{count}", count), work)
                steep = print_row(verb, f"x {count}", cost, before)
                before, count = cost, 2 * count
            if steep > LARGEST_EXPONENT:
                too_steep.append(verb)
        if options.only == ",".join(MOST):
            half, whole = (
                measure("html", write_small(work / f"small/{count}", count), work)
                for count in (SMALL_CHAPTERS // 2, SMALL_CHAPTERS)
            )
            print_row("html", f"{SMALL_CHAPTERS // 2} small", half, None)
            if print_row("html", f"{SMALL_CHAPTERS} small", whole, half) > LARGEST_EXPONENT:
                too_steep.append("html of small chapters")
    for verb in too_steep:
        print(f"error: {verb} grows faster than n log n", file=sys.stderr)
    return int(bool(too_steep))


def write_copies(one: Path, target: Path, count: int) -> Path:
    """A book of so many copies of another, each a part with its chapters and pictures."""
    if target.exists():
        return target
    config = load_config(one, RULES)
    chapters = [entry.path for entry in config.chapters]
    prefix = f"{config.folder}/" if config.folder else ""
    parts: list[dict[str, Any]] = []
    for copy in range(count):
        copy_sources(one, config.folder, chapters, target / f"copy{copy}")
        names = [f"copy{copy}/{path.removeprefix(prefix)}" for path in chapters]
        parts.append({"title": f"Copy {copy}", "chapters": names})
    write_chapters(target, parts)
    return target


def write_small(target: Path, count: int) -> Path:
    """A book of chapters of a paragraph in fifty parts, each linked to the next."""
    size = count // PARTS
    parts: list[dict[str, Any]] = []
    for first in range(0, count, size):
        names = [f"p{first}/c{number}.md" for number in range(first, first + size)]
        (target / f"p{first}").mkdir(parents=True)
        for number, name in enumerate(names, start=first):
            link = "" if name == names[-1] else f" Go on with [the next](c{number + 1}.md)."
            (target / name).write_text(f"# Chapter {number}\n\nA few words.{link}\n")
        parts.append({"title": f"Part {first}", "chapters": names})
    write_chapters(target, parts)
    return target


def write_chapters(target: Path, parts: list[dict[str, Any]]) -> None:
    (target / "chapters.yaml").write_text(json.dumps({"title": "Growth", "parts": parts}))


def measure(verb: str, book: Path, work: Path) -> Cost:
    """Run bindery on a book, from nothing. Ends the program where it fails."""
    out, cache = work / "out", work / "cache"
    for folder in (out, cache):
        shutil.rmtree(folder, ignore_errors=True)
    command = [sys.executable, "-m", "bindery", verb, "--root", str(book)]
    if verb != "check":
        command += ["--out", str(out), "--lenient", "--quiet"]
    started = time.perf_counter()
    with tempfile.TemporaryFile() as log:
        environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode not in ((0, 1) if verb == "check" else (0,)):
            log.seek(0)
            sys.exit(f"{' '.join(command)}\n{log.read().decode()[-2000:]}")
    return Cost(seconds, usage.ru_maxrss * 1024)


def print_row(verb: str, book: str, cost: Cost, before: Cost | None) -> float:
    """Print a row; the exponent of time, 0 without a smaller book."""
    exponents = [math.log2(new / old) for new, old in zip(cost, before or cost, strict=True)]
    shown = [f"{one:.2f}" if before else "" for one in exponents]
    print(
        f"| {verb} | {book} | {cost.seconds:.2f} | {shown[0]} | {cost.memory / 1e6:.0f} "
        f"| {shown[1]} |",
        flush=True,
    )
    return exponents[0]


if __name__ == "__main__":
    sys.exit(main())
