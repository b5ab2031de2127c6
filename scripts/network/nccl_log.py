#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which algorithm is faster at which size, and are the figures of this log right at all?

Collective benchmarks leave their results in logs: tables among lines of NCCL INFO, some of them
commented out, several in one file, some cut off. This tool reads what nccl-tests and rccl-tests
print (all_reduce_perf and its siblings), the JSON that nccl-tests writes with -J, what the OSU
micro-benchmarks print, and Markdown notes with such tables in code blocks. It gives one row for
each figure, checks the arithmetic of each line, and holds one algorithm against the others.

Physics
    algbw = size / time. busbw = algbw * factor, with the factors of nccl-tests
    (doc/PERFORMANCE.md) for n ranks, so that it can be held against the speed of a link:
        all_reduce                                              2 (n - 1) / n
        all_gather, reduce_scatter, all_to_all, gather, scatter   (n - 1) / n
        broadcast, reduce, sendrecv                               1
    Hand check: 1 GiB reduced by 8 ranks in 10 ms is an algbw of 107.4 GBps, a busbw of 187.9.
    hypercube has algbw = size * (n - 1) / n / time, and busbw = algbw.
What is checked
    That algbw and busbw of a line follow from its size and time, within what rounding to the
    printed digits allows; that no value was wrong; that the printed average is that of the rows.
    A line that disagrees is a finding, with its number, and never the best one. Where neither text
    nor JSON says how many ranks took part, the factor cannot be checked: that is a caveat, with the
    ranks that would fit. --ranks says it for such logs; one that says another number keeps it.
What is timed
    Nothing here: the seconds are those of the log, in which nccl-tests has averaged its
    iterations. How far they scatter from run to run, a log does not say.
Speed-up
    Seconds of the one divided by seconds of the other at the same size, type, operation, number
    of ranks and placement (out of place and in place are different runs). Up to --band above or
    below 1 counts as equal. A crossover lies between the last size at which one is clearly
    faster and the first at which the other is; the size given in between is where the straight
    line between the two in logarithms passes 1.

How to run
    read a log      python nccl_log.py all_reduce.txt --json rows.json
    ring or tree    python nccl_log.py ring=a.txt tree=b.txt --against ring --plot speed.svg
    a diary         python nccl_log.py notes.md --against ring
    from a pipe     ./build/all_reduce_perf -b 8 -e 1G -f 2 -g 8 | python nccl_log.py -
    Slurm           srun --ntasks=1 --output=ring.txt env NCCL_ALGO=Ring \
                        ./build/all_reduce_perf -b 8 -e 1G -f 2 -g 8
                    and then python nccl_log.py ring=ring.txt; the labels of `srun --label` and
                    `mpirun --tag-output` before each line are taken off
    pdsh            pdsh -w node[01-08] './build/all_reduce_perf -b 1G -e 1G -g 8 \
                        > /shared/$(hostname).txt', then all files as arguments
    NAME=FILE names the algorithm of a file; otherwise it is taken from the title of the table, the
    heading of the section, NCCL_ALGO in the log, or the name of the file.

A good answer: no finding, no caveat about the ranks, and for each algorithm a range of sizes in
which it is clearly faster. Small sizes measure latency, so a speed-up there says nothing about
bandwidth; a rate at a size below 1 MiB is not the speed of the network.

Seen running: on logs in the form these programs print. nccl-tests itself was not run for it.

Exit status: 0 done, 1 a line that disagrees, a wrong value, no table found, or stopped by a
signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import importlib.util
import itertools
import json
import math
import os
import re
import signal
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {"toy": ["--toy"], "full": ["--toy", "--against", "ring"]}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "line": "1",
    "ranks": "1",
    "size_bytes": "B",
    "count": "1",
    "root": "1",
    "time_seconds": "s",
    "algbw_bytes_per_second": "B/s",
    "busbw_bytes_per_second": "B/s",
    "wrong": "1",
}

MICROSECOND = 1e-6
GIGA = 1e9
MEGA = 1e6

# Bus factor by collective, from doc/PERFORMANCE.md and the GetBw functions of nccl-tests.
BUS_FACTORS: dict[str, Callable[[int], float]] = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "gather": lambda n: (n - 1) / n,
    "scatter": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1.0,
    "reduce": lambda n: 1.0,
    "sendrecv": lambda n: 1.0,
    "hypercube": lambda n: 1.0,
}

# As programs and people write them -> as torch names them.
COLLECTIVES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "allgatherv": "all_gather",
    "reducescatter": "reduce_scatter",
    "reducescatterblock": "reduce_scatter",
    "alltoall": "all_to_all",
    "alltoallv": "all_to_all",
    "alltoallpersonalizedexchange": "all_to_all",
    "broadcast": "broadcast",
    "bcast": "broadcast",
    "reduce": "reduce",
    "gather": "gather",
    "scatter": "scatter",
    "sendrecv": "sendrecv",
    "hypercube": "hypercube",
    "latency": "p2p_latency",
    "bandwidth": "p2p_bandwidth",
    "bidirectionalbandwidth": "p2p_bidirectional",
    "multiplebandwidthmessagerate": "p2p_message_rate",
    "multilatency": "p2p_latency",
    "barrier": "barrier",
}

# How titles, headings, file names and NCCL_ALGO name algorithms; the first that fits.
ALGORITHMS = (
    (r"all[_ -]?pairs?", "allpair"),
    (r"hier(?:archical)?", "hierarchical"),
    (r"pipe[_ -]?lined?", "pipeline"),
    (r"nvls[_ ]?tree", "nvlstree"),
    (r"nvls", "nvls"),
    (r"collnet[_ ]?direct", "collnet direct"),
    (r"collnet[_ ]?chain", "collnet chain"),
    (r"pat", "pat"),
    (r"ring", "ring"),
    (r"tree", "tree"),
)

# What a launcher puts before each line: `mpirun --tag-output`, `srun --label`.
LAUNCHER_LABEL = re.compile(r"^\s*(?:\[\d+,\d+\]<std(?:out|err)>:?|\d+:)\s?")
WHOLE_NUMBER = re.compile(r"\d[\d_]*")
DEVICE_LINE = re.compile(r"Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s")
PROGRAM_NAME = re.compile(r"(?<![a-z])([a-z_]+?)_perf\b")
AVERAGE_LINE = re.compile(r"Avg bus bandwidth\s*:\s*(\S+)")
BOUNDS_LINE = re.compile(r"Out of bounds values\s*:\s*(\d+)")
TITLE_WORDS = 6
# Lines whose rounding leaves busbw / algbw more open than this tell nothing of the ranks.
RATIO_DOUBT = 0.02
# A larger relative difference than this between printed and computed is never rounding of floats.
FLOAT_SLACK = 1e-9

TOY_LOG = """\
# NCCL Ring
# nThread 1 nGpus 8 minBytes 1024 maxBytes 16777216 step: 16384(factor) warmup iters: 5 iters: 20
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
host:101:101 [0] NCCL INFO comm 0x55aa00 rank 0 nranks 8 cudaDev 0 busId 15000 - Init COMPLETE
        1024           256     float     sum      -1    20.00    0.05    0.09      0    20.00    0.05    0.09      0
     1048576        262144     float     sum      -1    80.00   13.11   22.94      0    80.00   13.11   22.94      0
    16777216       4194304     float     sum      -1    400.0   41.94   73.40      0    400.0   41.94   73.40      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 32.1433

# NCCL Tree
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
host:201:201 [0] NCCL INFO comm 0x66bb00 rank 0 nranks 8 cudaDev 0 busId 15000 - Init COMPLETE
        1024           256     float     sum      -1    10.00    0.10    0.18      0    10.00    0.10    0.18    N/A
     1048576        262144     float     sum      -1    80.00   13.11   22.94      0    80.00   13.11   22.94    N/A
    16777216       4194304     float     sum      -1    800.0   20.97   36.70      0    800.0   20.97   36.70    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 19.9400
"""  # noqa: E501 - the lines of nccl-tests are that long

Row = dict[str, Any]


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


class Stopped(Exception):
    """The run ends here, by a signal or by the budget; what was measured is kept."""


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


class Figure(NamedTuple):
    """A printed number in base units, and half of its last digit's place: what rounding hides."""

    value: float
    half: float


class LogFinding(NamedTuple):
    """What is wrong in a log, and where."""

    source: str
    line: int
    message: str

    def describe(self) -> str:
        """`notes.md:12: ...`."""
        return f"{self.source}:{self.line}: {self.message}"


@dataclass
class LogTable:
    """One table of a log: where it stands, what it says of itself, and its lines."""

    source: str
    line: int
    kind: str
    section: str | None
    title: str | None
    columns: list[str]
    placements: list[str | None]
    algorithm: str | None = None
    collective: str | None = None
    collective_is_inferred: bool = False
    ranks: int | None = None
    ranks_are_disputed: bool = False
    datatype: str | None = None
    rows: list[LogLine] = field(default_factory=list)
    average: Figure | None = None
    average_line: int = 0
    out_of_bounds: int | None = None
    lost_lines: int = 0
    is_closed: bool = False


class LogLine(NamedTuple):
    """One measurement: a line of a table, at one placement."""

    line: int
    size: int
    elements: int | None
    datatype: str | None
    redop: str | None
    root: int | None
    placement: str | None
    seconds: Figure | None
    algbw: Figure | None
    busbw: Figure | None
    wrong: int | None


@dataclass
class Reading:
    """What was read from one or several logs."""

    tables: list[LogTable] = field(default_factory=list)
    findings: list[LogFinding] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)
    empty_sections: list[tuple[str, int, str]] = field(default_factory=list)


def read_figure(text: str, scale: float) -> Figure | None:
    """A printed number times the scale, with half the place of its last digit; None for N/A."""
    try:
        value = float(text)
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    mantissa, _, exponent = text.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    half = 0.5 * 10.0 ** (int(exponent or 0) - decimals)
    return Figure(value * scale, half * scale)


def read_whole(text: str) -> int | None:
    """A whole number, also as `32_768` or `2.68e+8`; None for anything else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if math.isfinite(value) else None


def name_collective(text: str) -> str | None:
    """`all_reduce` from `all_reduce_perf`, `AllReduce`, `allreduce` or `OSU MPI Allreduce`."""
    return COLLECTIVES.get(re.sub(r"[^a-z]", "", text.lower()))


def find_collective(text: str) -> str | None:
    """The collective that a heading or a title mentions, if it mentions one."""
    for word in re.findall(r"[a-z_-]+", text.lower()):
        for part in (word, *word.split("_")):
            name = name_collective(part)
            if name and not name.startswith("p2p") and name not in ("reduce", "gather", "scatter"):
                return name
    return None


def find_algorithm(text: str) -> str | None:
    """The algorithm that a title, a heading or a file name mentions: `msccl allpair`, `ring`."""
    lower = text.lower()
    for pattern, name in ALGORITHMS:
        if re.search(rf"(?<![a-z]){pattern}(?![a-z])", lower):
            return f"msccl {name}" if re.search(r"(?<![a-z])msccl", lower) else name
    return None


def split_groups(columns: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """The columns before the first time, and each group of columns that begins with a time."""
    starts = [i for i, name in enumerate(columns) if name in ("time", "cputime")]
    if not starts:
        return list(columns), []
    ends = [*starts[1:], len(columns)]
    groups = [list(columns[start:end]) for start, end in zip(starts, ends, strict=True)]
    return list(columns[: starts[0]]), groups


def read_nccl_line(table: LogTable, number: int, tokens: list[str]) -> list[LogLine]:
    """The measurements of one line. Raises ValueError where it does not fit the table's columns."""
    head, groups = split_groups([name for name in table.columns if name != "timestamp"])
    width = len(head) + sum(map(len, groups))
    extra = len(tokens) - width
    if "redop" in head and extra in (-1, 1) and "root" in head:
        # Older versions print nothing for the operation of a collective that has none.
        place = head.index("redop")
        if place < len(tokens) and re.fullmatch(r"-?\d+", tokens[place]):
            tokens = [*tokens[:place], "", *tokens[place:]]
            extra += 1
    if extra != 0 and not (extra == 2 and "timestamp" in table.columns):
        raise ValueError(f"{len(tokens)} values for {width} columns")
    named = dict(zip(head, tokens, strict=False))
    size = read_whole(named["size"])
    if size is None:
        raise ValueError(f"'{named['size']}' is no size")
    lines = []
    place = len(head)
    for placement, group in zip(table.placements, groups, strict=True):
        cells = dict(zip(group, tokens[place : place + len(group)], strict=True))
        place += len(group)
        wrong = cells.get("#wrong", cells.get("wrong", "N/A"))
        for name in ("time", "cputime", "algbw", "busbw"):
            if name in cells and cells[name] != "N/A" and read_figure(cells[name], 1) is None:
                raise ValueError(f"'{cells[name]}' is no {name}")
        redop = named.get("redop") or None
        lines.append(
            LogLine(
                line=number,
                size=size,
                elements=read_whole(named.get("count", "")),
                datatype=named.get("type"),
                redop=None if redop in (None, "none") else redop,
                root=read_whole(named.get("root", "")),
                placement=placement,
                seconds=read_figure(cells.get("time", cells.get("cputime", "")), MICROSECOND),
                algbw=read_figure(cells.get("algbw", ""), GIGA),
                busbw=read_figure(cells.get("busbw", ""), GIGA),
                wrong=read_whole(wrong),
            )
        )
    return lines


def read_osu_line(table: LogTable, number: int, tokens: list[str]) -> LogLine:
    """The measurement of one line of an OSU table. Raises ValueError where it does not fit."""
    if len(tokens) != len(table.columns):
        raise ValueError(f"{len(tokens)} values for {len(table.columns)} columns")
    named = dict(zip(table.columns, tokens, strict=True))
    size = read_whole(named.get("size", "0"))
    if size is None:
        raise ValueError(f"'{named['size']}' is no size")
    seconds = rate = None
    for name, text in named.items():
        if "latency" in name and "min" not in name and "max" not in name:
            seconds = seconds or read_figure(text, MICROSECOND)
        elif "mb/s" in name:
            rate = rate or read_figure(text, MEGA)
    if seconds is None and rate is None:
        raise ValueError("neither a latency nor a bandwidth in it")
    return LogLine(number, size, None, table.datatype, None, None, None, seconds, rate, None, None)


class LogReader:
    """Reads one text log, line by line; what it knows so far belongs to the run that is open."""

    def __init__(self, source: str, label: str | None) -> None:
        self.source = source
        self.label = label
        self.reading = Reading()
        self.section: str | None = None
        self.section_line = 0
        self.in_fence = False
        self.fence_has_text = False
        self.has_fences = False
        self.title: str | None = None
        self.table: LogTable | None = None
        self.placements: list[str | None] = []
        self.forget_run()

    def forget_run(self) -> None:
        """A new run begins: nothing of the last one holds for it."""
        self.ranks: int | None = None
        self.device_ranks = 0
        self.disputed = False
        self.collective: str | None = None
        self.environment_algorithm: str | None = None

    def close_table(self) -> None:
        """No further line belongs to the table that is open."""
        if self.table is not None:
            self.table.is_closed = True
        self.table = None

    def read(self, text: str) -> Reading:
        """All tables of the text, with what could not be read as findings."""
        lines = text.splitlines()
        self.has_fences = any(line.lstrip().startswith("```") for line in lines)
        for number, raw in enumerate(lines, start=1):
            is_last = number == len(lines) and not text.endswith("\n")
            self.read_line(number, raw, is_last)
        return self.reading

    def read_line(self, number: int, raw: str, is_last: bool) -> None:
        """One line of the log."""
        line = LAUNCHER_LABEL.sub("", raw, count=1)
        if line.lstrip().startswith("```"):
            self.turn_fence()
            return
        if self.has_fences and not self.in_fence:
            if heading := re.match(r"#{1,6}\s+(.+)", line):
                self.section, self.section_line = heading.group(1).strip(), number
                self.title = None
                self.forget_run()
            return
        body = re.sub(r"^[#\s]+", "", line)
        if not body:
            return
        self.fence_has_text = True
        tokens = body.split()
        if self.read_osu_header(number, line, body):
            return
        columns = [token.lower() for token in tokens]
        if columns[0] == "size" and {"algbw", "busbw"} & set(columns):
            self.open_table(number, columns)
            return
        if self.read_notes(number, line, body):
            return
        table = self.table
        if table is None or not WHOLE_NUMBER.fullmatch(tokens[0]):
            if table is not None and table.kind == "osu" and self.is_number_line(tokens):
                self.add_line(number, tokens, is_last)
            return
        if "NCCL" in tokens or table.is_closed:
            return
        self.add_line(number, tokens, is_last)

    @staticmethod
    def is_number_line(tokens: list[str]) -> bool:
        """Nothing but numbers, as the one line of an OSU barrier."""
        return all(read_figure(token, 1.0) for token in tokens)

    def turn_fence(self) -> None:
        """A code block opens or closes; an empty one leaves its section without figures."""
        if self.in_fence:
            self.close_table()
            if not self.fence_has_text and self.section:
                empty = (self.source, self.section_line, self.section)
                self.reading.empty_sections.append(empty)
        else:
            self.title = None
            self.forget_run()
        self.placements = []
        self.in_fence = not self.in_fence
        self.fence_has_text = False

    def read_osu_header(self, number: int, line: str, body: str) -> bool:
        """Whether this is a heading of the OSU micro-benchmarks: test, data type or columns."""
        if found := re.match(r"OSU\s+\S+\s+(.*?)\s*Test(?:\s+v?([\d.]+))?\s*$", body):
            self.close_table()
            self.forget_run()
            test = found.group(1)
            collective = name_collective(test) or name_collective(test.removesuffix("Latency"))
            self.table = LogTable(
                self.source, number, "osu", self.section, found.group(1), [], [None]
            )
            self.table.collective = collective
            self.table.algorithm = self.label or find_algorithm(self.section or "")
            self.reading.tables.append(self.table)
            return True
        table = self.table
        if table is None or table.kind != "osu" or not line.lstrip().startswith("#"):
            return False
        if found := re.match(r"Datatype:\s*(?:MPI_)?(\w+)", body):
            table.datatype = found.group(1).lower()
        elif "latency" in body.lower() or "mb/s" in body.lower():
            table.columns = [name.lower() for name in re.split(r"\s{2,}", body.strip())]
        return True

    def open_table(self, number: int, columns: list[str]) -> None:
        """A header of nccl-tests: the columns of the lines that follow."""
        if self.table is not None:
            self.close_table()
        groups = split_groups(columns)[1]
        if len(groups) == 2 or len(self.placements) != len(groups):
            placements: list[str | None] = ["out", "in"] if len(groups) == 2 else [None]
        else:
            placements = self.placements
        algorithm = (
            self.label
            or find_algorithm(self.title or "")
            or self.environment_algorithm
            or find_algorithm(self.section or "")
        )
        collective = (
            self.collective
            or find_collective(self.title or "")
            or find_collective(self.section or "")
        )
        self.table = LogTable(
            source=self.source,
            line=number,
            kind="nccl-tests",
            section=self.section,
            title=self.title,
            columns=columns,
            placements=placements,
            algorithm=algorithm,
            collective=collective,
            ranks=self.device_ranks or self.ranks,
            ranks_are_disputed=self.disputed,
        )
        self.reading.tables.append(self.table)

    def read_notes(self, number: int, line: str, body: str) -> bool:
        """Whether the line tells something of the run instead of a measurement."""
        table = self.table
        if found := AVERAGE_LINE.search(body):
            if table is not None:
                table.average, table.average_line = read_figure(found.group(1), GIGA), number
                table.is_closed = True
            self.title = None
            self.forget_run()
        elif found := BOUNDS_LINE.search(body):
            if table is not None:
                table.out_of_bounds = int(found.group(1))
        elif found := re.search(r"\bnranks\s+(\d+)", body):
            self.learn_ranks(int(found.group(1)))
        elif found := DEVICE_LINE.match(body):
            self.device_ranks = max(self.device_ranks, int(found.group(1)) + 1)
        elif found := re.search(r"NCCL_ALGO\s*(?:set by environment to|=)\s*\"?([\w,;:^]+)", body):
            self.environment_algorithm = find_algorithm(found.group(1)) or found.group(1).lower()
        elif re.match(r"out-of-place\b", body) or re.match(r"in-place\b", body):
            places = re.findall(r"(out|in)-(?:of-)?place", body)
            self.placements = list(places)
        elif body.startswith("nThread "):
            self.device_ranks = 0
        elif (found := PROGRAM_NAME.search(body)) and name_collective(found.group(1)):
            self.collective = name_collective(found.group(1))
        elif (
            line.lstrip().startswith("#")
            and (table is None or table.is_closed)
            and ":" not in body
            and len(body.split()) <= TITLE_WORDS
            and (find_algorithm(body) or find_collective(body))
        ):
            self.title = body.strip()
        else:
            return False
        return True

    def learn_ranks(self, ranks: int) -> None:
        """NCCL says how large a communicator is; two sizes in one run leave the matter open."""
        if self.ranks not in (None, ranks):
            self.disputed = True
        self.ranks = ranks
        table = self.table
        if table is None or table.is_closed or table.kind != "nccl-tests":
            return
        if table.ranks is None:
            table.ranks = ranks
        elif table.ranks != ranks and not self.device_ranks:
            table.ranks_are_disputed = True

    def add_line(self, number: int, tokens: list[str], is_last: bool) -> None:
        """One line of measurements, or a finding where it cannot be one."""
        table = self.table
        assert table is not None
        try:
            if table.kind == "osu":
                table.rows.append(read_osu_line(table, number, tokens))
            else:
                table.rows.extend(read_nccl_line(table, number, tokens))
        except ValueError as error:
            table.lost_lines += 1
            if is_last:
                self.reading.caveats.append(
                    f"{self.source} ends in the middle of line {number}, which is left out"
                )
                return
            message = f"this line of the table cannot be read: {error}"
            self.reading.findings.append(LogFinding(self.source, number, message))


def read_log_json(text: str, source: str, label: str | None) -> Reading:
    """The JSON of nccl-tests (-J), also one that was cut off. Raises ValueError for other JSON."""
    reading = Reading()
    try:
        document = json.loads(text)
    except ValueError:
        document = rescue_json(text)
        reading.caveats.append(f"{source} is cut off: what stood before the end was read")
    if not isinstance(document, dict) or not isinstance(document.get("results"), list):
        raise ValueError("no 'results' in it")
    config = document.get("config") or {}
    devices = config.get("devices") or document.get("devices") or []
    program = Path(str((document.get("args") or [""])[0])).name.removesuffix("_perf")
    variables = [str(name) for name in document.get("env") or []]
    algorithm = next((v.partition("=")[2] for v in variables if v.startswith("NCCL_ALGO=")), "")
    table = LogTable(
        source=source,
        line=1,
        kind="nccl-tests",
        section=None,
        title=None,
        columns=[],
        placements=["out", "in"],
        algorithm=label or find_algorithm(algorithm) or (algorithm.lower() or None),
        collective=name_collective(program),
        # One entry for each process, which drives nthreads * ngpus ranks.
        ranks=len(devices) * int(config.get("nthreads", 1)) * int(config.get("ngpus", 1)) or None,
    )
    for index, result in enumerate(document["results"], start=1):
        try:
            table.rows.extend(read_json_result(index, result))
        except (KeyError, TypeError, ValueError) as error:
            table.lost_lines += 1
            message = f"result {index} cannot be read ({type(error).__name__}: {error})"
            reading.findings.append(LogFinding(source, 1, message))
    average = document.get("average_bus_bandwidth") or {}
    # Versions before February 2026 write "bandwidith".
    value = average.get("bandwidth", average.get("bandwidith"))
    if isinstance(value, int | float):
        table.average, table.average_line = Figure(value * GIGA, 0.5e-6 * GIGA), 1
    bounds = (document.get("out_of_bounds") or {}).get("count")
    table.out_of_bounds = bounds if isinstance(bounds, int) else None
    table.is_closed = table.average is not None
    reading.tables.append(table)
    return reading


def rescue_json(text: str) -> dict[str, Any]:
    """What a JSON file that was cut off holds of results. Raises ValueError where it holds none."""
    head, mark, tail = text.partition('"results":')
    if not mark:
        raise ValueError("no whole JSON, and no 'results' in it")
    document: dict[str, Any] = {}
    for end in ("}", "]}", "}]}", "]}}", "}]}}"):
        with contextlib.suppress(ValueError):
            document = json.loads(head.rstrip().rstrip(",") + end)
            break
    decoder = json.JSONDecoder()
    results = []
    place = tail.find("{")
    while place >= 0:
        try:
            result, length = decoder.raw_decode(tail, place)
        except ValueError:
            break
        results.append(result)
        place = tail.find("{", length)
    return {**document, "results": results}


def read_json_result(index: int, result: Mapping[str, Any]) -> Iterator[LogLine]:
    """The measurements of one entry of `results`; `index` takes the place of a line number."""
    for placement, key in (("out", "out_of_place"), ("in", "in_place")):
        body = result.get(key)
        if not isinstance(body, dict):
            continue
        microseconds = body["cpu_time"] if "cpu_time" in body else body["time"]
        redop = result.get("redop") or None
        wrong = body.get("nwrong")
        yield LogLine(
            line=index,
            size=int(result["size"]),
            elements=int(result["count"]) if "count" in result else None,
            datatype=result.get("type"),
            redop=None if redop in (None, "none") else redop,
            root=read_whole(str(result.get("root", "")).strip()),
            placement=placement,
            seconds=read_figure(f"{float(microseconds):.6f}", MICROSECOND),
            algbw=read_figure(f"{float(body['alg_bw']):.6f}", GIGA),
            busbw=read_figure(f"{float(body['bus_bw']):.6f}", GIGA),
            wrong=int(wrong) if isinstance(wrong, int | float) else None,
        )


def read_log(text: str, source: str, label: str | None = None) -> Reading:
    """Everything in one log: text, Markdown or JSON."""
    if text.lstrip().startswith("{"):
        try:
            return read_log_json(text, source, label)
        except ValueError as error:
            finding = LogFinding(source, 1, f"JSON, but not that of nccl-tests: {error}")
            return Reading(findings=[finding])
    return LogReader(source, label).read(text)


def bound_rate(table: LogTable, row: LogLine) -> tuple[float, float] | None:
    """The smallest and largest algbw that size and printed time allow."""
    if row.seconds is None or row.seconds.value <= 0:
        return None
    size = float(row.size)
    if table.collective == "hypercube":
        if table.ranks is None:
            return None
        size *= (table.ranks - 1) / table.ranks
    low = size / (row.seconds.value + row.seconds.half)
    shortest = row.seconds.value - row.seconds.half
    return low, size / shortest if shortest > 0 else math.inf


def overlaps(figure: Figure, low: float, high: float) -> bool:
    """Whether a printed figure can be one of a range, rounded."""
    slack = FLOAT_SLACK * abs(figure.value)
    return figure.value + figure.half + slack >= low and figure.value - figure.half - slack <= high


def judge_line(table: LogTable, row: LogLine) -> list[str]:
    """What disagrees in one line, in sentences; nothing where it is right."""
    if table.kind == "osu":
        return []
    faults = []
    place = {"out": "out-of-place ", "in": "in-place "}.get(row.placement or "", "")
    bounds = bound_rate(table, row)
    if row.algbw is not None and bounds is not None and not overlaps(row.algbw, *bounds):
        computed = math.sqrt(bounds[0] * min(bounds[1], 2 * bounds[0]))
        faults.append(
            f"{place}algbw {row.algbw.value / GIGA:g} is not size / time, "
            f"{computed / GIGA:.4g} GBps"
        )
    if row.algbw is not None and row.busbw is not None:
        factor = find_bus_factor(table)
        if factor is not None:
            ranges = [(row.algbw.value - row.algbw.half, row.algbw.value + row.algbw.half)]
            if bounds is not None and faults:
                ranges.append(bounds)  # then either of the two may be the one that is wrong
            elif bounds is not None:
                # The time has more digits than a small rate.
                ranges = [(max(ranges[0][0], bounds[0]), min(ranges[0][1], bounds[1]))]
            if not any(overlaps(row.busbw, factor * low, factor * high) for low, high in ranges):
                faults.append(
                    f"{place}busbw {row.busbw.value / GIGA:g} is not algbw * {factor:.4g} "
                    f"({table.collective} of {table.ranks} ranks), "
                    f"{factor * row.algbw.value / GIGA:.4g} GBps"
                )
    if row.wrong:
        faults.append(f"{place}{row.wrong} wrong values")
    return faults


def find_bus_factor(table: LogTable) -> float | None:
    """busbw over algbw as nccl-tests defines it, where collective and ranks are known."""
    if table.collective not in BUS_FACTORS:
        return None
    if table.ranks is None or table.ranks_are_disputed:
        # What does not depend on the ranks can be checked without them.
        return 1.0 if BUS_FACTORS[table.collective](2) == BUS_FACTORS[table.collective](3) else None
    return BUS_FACTORS[table.collective](table.ranks)


def measure_factor(table: LogTable) -> Figure | None:
    """busbw over algbw, the median of the lines that tell it within 2 %; None without such."""
    ratios = []
    for row in table.rows:
        if row.algbw is None or row.busbw is None or row.algbw.value <= 0:
            continue
        share = row.algbw.half / row.algbw.value + row.busbw.half / max(row.busbw.value, 1.0)
        if share < RATIO_DOUBT:
            ratios.append(Figure(row.busbw.value / row.algbw.value, share))
    if not ratios:
        return None
    value = statistics.median(ratio.value for ratio in ratios)
    return Figure(value, value * statistics.median(ratio.half for ratio in ratios))


def infer_collective(table: LogTable) -> str | None:
    """The one collective that the ranks and busbw over algbw leave; None where several fit."""
    ratio = measure_factor(table)
    if ratio is None or table.ranks is None or table.ranks_are_disputed or table.ranks < 3:
        return None
    if not any(row.redop for row in table.rows):
        return None
    for name in ("all_reduce", "reduce_scatter", "reduce"):
        factor = BUS_FACTORS[name](table.ranks)
        if overlaps(ratio, factor, factor):
            return name
    return None


def explain_ranks(table: LogTable) -> str:
    """Why the bus factor of a table was not checked, and which number of ranks would fit."""
    where = f"{table.source}:{table.line}"
    if table.ranks_are_disputed:
        return f"{where}: communicators of several sizes in one run, so busbw was not checked"
    ratio = measure_factor(table)
    if table.collective is None:
        return f"{where}: nothing says which collective this is, so busbw was not checked"
    fit = ""
    if ratio is not None:
        top = 2.0 if table.collective == "all_reduce" else 1.0
        if ratio.value < top - ratio.half:
            ranks = round(top / (top - ratio.value))
            if overlaps(ratio, *[BUS_FACTORS[table.collective](ranks)] * 2):
                fit = f"; busbw / algbw of {ratio.value:.3g} would fit {ranks} ranks"
    return f"{where}: nothing says how many ranks took part, so busbw was not checked{fit}"


def check_average(table: LogTable) -> str | None:
    """What is wrong with the printed average, which is that over all lines and placements."""
    figures = [row.busbw for row in table.rows if row.busbw is not None]
    if table.average is None or not figures or table.lost_lines:
        return None
    mean = statistics.fmean(figure.value for figure in figures)
    half = statistics.fmean(figure.half for figure in figures) + 1e-5 * mean
    if overlaps(table.average, mean - half, mean + half):
        return None
    return (
        f"the average busbw is given as {table.average.value / GIGA:g}, "
        f"and that of the lines is {mean / GIGA:.5g} GBps: is a line missing?"
    )


def check_tables(reading: Reading) -> dict[int, list[list[str]]]:
    """Check all tables, add what was found; the faults of each line, by table and line."""
    faults: dict[int, list[list[str]]] = {}
    for index, table in enumerate(reading.tables):
        if table.collective is None and table.kind == "nccl-tests":
            table.collective = infer_collective(table)
            table.collective_is_inferred = table.collective is not None
        faults[index] = [judge_line(table, row) for row in table.rows]
        for row, messages in zip(table.rows, faults[index], strict=True):
            reading.findings += [LogFinding(table.source, row.line, text) for text in messages]
        if message := check_average(table):
            reading.findings.append(LogFinding(table.source, table.average_line, message))
        if table.out_of_bounds:
            message = f"{table.out_of_bounds} values were out of bounds"
            reading.findings.append(LogFinding(table.source, table.line, message))
        if not table.rows:
            reading.caveats.append(f"{table.source}:{table.line}: a table without a line")
            continue
        if table.kind == "osu":
            continue
        if find_bus_factor(table) is None:
            reading.caveats.append(explain_ranks(table))
        elif table.collective_is_inferred:
            reading.caveats.append(
                f"{table.source}:{table.line}: taken for {table.collective}, because of busbw / "
                f"algbw with {table.ranks} ranks"
            )
        if "error" in table.columns:
            reading.caveats.append(
                f"{table.source}:{table.line}: the column 'error' of older versions is the "
                "largest deviation and no number of wrong values, so `wrong` is unknown"
            )
        if table.average is None and "#wrong" in table.columns:
            reading.caveats.append(
                f"{table.source}:{table.line}: no line with the average below this table: it may "
                "be cut off"
            )
    for source, line, section in reading.empty_sections:
        reading.caveats.append(f"{source}:{line}: section '{section}' is empty: no figures")
    reading.findings.sort()
    return faults


def give_ranks(tables: Iterable[LogTable], ranks: int) -> list[str]:
    """Set the ranks of the tables that do not say them; which others say another number."""
    caveats = []
    for table in tables:
        if table.kind != "nccl-tests":
            continue
        if table.ranks is None or table.ranks_are_disputed:
            table.ranks, table.ranks_are_disputed = ranks, False
        elif table.ranks != ranks:
            caveats.append(
                f"{table.source}:{table.line}: --ranks {ranks} was not used, because the log "
                f"itself says {table.ranks}"
            )
    return caveats


def make_log_rows(reading: Reading, faults: Mapping[int, list[list[str]]]) -> list[Row]:
    """The rows of the JSON, in base units, in the order of the logs."""
    rows = []
    for index, table in enumerate(reading.tables):
        for line, messages in zip(table.rows, faults[index], strict=True):
            rows.append(
                {
                    "source": table.source,
                    "line": line.line,
                    "section": table.title or table.section,
                    "algorithm": table.algorithm,
                    "collective": table.collective,
                    "ranks": None if table.ranks_are_disputed else table.ranks,
                    "size_bytes": line.size,
                    "count": line.elements,
                    "type": line.datatype,
                    "redop": line.redop,
                    "root": line.root,
                    "placement": line.placement,
                    "time_seconds": line.seconds.value if line.seconds else None,
                    "algbw_bytes_per_second": line.algbw.value if line.algbw else None,
                    "busbw_bytes_per_second": line.busbw.value if line.busbw else None,
                    "wrong": line.wrong,
                    "verdict": "disagrees" if messages else "ok",
                    "verdict_reason": "; ".join(messages) or None,
                }
            )
    return rows


def label_tables(tables: Sequence[LogTable]) -> list[str]:
    """A name for each table: its algorithm, with section or place where that is not enough."""
    names = [
        table.algorithm or table.title or table.section or Path(table.source).stem
        for table in tables
    ]
    return [
        name if names.count(name) == 1 else f"{name} ({table.source}:{table.line})"
        for name, table in zip(names, tables, strict=True)
    ]


def choose_base(wanted: str, names: Sequence[str], tables: Sequence[LogTable]) -> int:
    """The table that --against names. Raises WrongUse where none or several fit."""
    fitting = [i for i, name in enumerate(names) if name.lower() == wanted.lower()]
    fitting = fitting or [i for i, t in enumerate(tables) if t.algorithm == wanted.lower()]
    fitting = fitting or [i for i, name in enumerate(names) if wanted.lower() in name.lower()]
    if len(fitting) == 1:
        return fitting[0]
    listed = ", ".join(f"'{name}'" for name in names)
    if fitting:
        raise WrongUse(f"--against {wanted}: {len(fitting)} tables fit, of {listed}")
    raise WrongUse(f"--against {wanted}: no such algorithm; there are {listed}")


class Comparison(NamedTuple):
    """One algorithm against another, at one placement: speed-up by size, and where it turns."""

    base: str
    other: str
    placement: str | None
    speedups: dict[int, float]
    crossovers: list[dict[str, Any]]


def collect_times(table: LogTable, placement: str | None) -> dict[int, float]:
    """Median seconds by size; of a bandwidth test, the time that its rate means."""
    samples: dict[int, list[float]] = {}
    for row in table.rows:
        if row.placement != placement:
            continue
        if row.seconds is not None and row.seconds.value > 0:
            samples.setdefault(row.size, []).append(row.seconds.value)
        elif row.seconds is None and row.algbw is not None and row.algbw.value > 0:
            samples.setdefault(row.size, []).append(row.size / row.algbw.value)
    return {size: statistics.median(values) for size, values in sorted(samples.items())}


def find_crossovers(speedups: Mapping[int, float], band: float) -> list[dict[str, Any]]:
    """Where clearly faster turns to clearly slower or back, with the sizes on both sides."""
    crossovers = []
    last: tuple[int, int] | None = None
    for size, speedup in sorted(speedups.items()):
        side = 1 if speedup > 1 + band else -1 if speedup < 1 / (1 + band) else 0
        if side == 0:
            continue
        if last is not None and last[1] != side:
            crossovers.append(
                {
                    "above_bytes": last[0],
                    "below_bytes": size,
                    "size_bytes": interpolate_crossover(speedups, last[0], size),
                    "faster_from_here": side > 0,
                }
            )
        last = (size, side)
    return crossovers


def interpolate_crossover(speedups: Mapping[int, float], low: int, high: int) -> float | None:
    """The size between two at which the speed-up is 1, by straight lines in logarithms."""
    sizes = [size for size in sorted(speedups) if low <= size <= high]
    if low <= 0:
        return None
    rises = math.log(speedups[low]) < 0
    for left, right in itertools.pairwise(sizes):
        before, after = math.log(speedups[left]), math.log(speedups[right])
        if (before <= 0 <= after) if rises else (before >= 0 >= after):
            share = 0.0 if before == after else before / (before - after)
            return float(left * (right / left) ** share)
    return None


def describe_run_kind(table: LogTable) -> tuple[Any, ...]:
    """What has to be equal for two tables to stand beside each other."""
    first = table.rows[0]
    return (table.kind, table.collective, table.ranks, first.datatype, first.redop)


def compare_tables(
    tables: Sequence[LogTable], names: Sequence[str], base: int, band: float
) -> tuple[list[Comparison], list[str]]:
    """All tables against one, and a caveat for each that is not of its kind."""
    comparisons, caveats = [], []
    wanted = describe_run_kind(tables[base])
    for placement in dict.fromkeys(tables[base].placements):
        reference = collect_times(tables[base], placement)
        for index, table in enumerate(tables):
            if index == base or not table.rows:
                continue
            if describe_run_kind(table) != wanted:
                caveats.append(
                    f"'{names[index]}' is not compared with '{names[base]}': "
                    f"{list(describe_run_kind(table))} is not {list(wanted)}"
                )
                continue
            times = collect_times(table, placement)
            common = sorted(set(times) & set(reference))
            if not common:
                caveats.append(f"'{names[index]}' and '{names[base]}' have no size in common")
                continue
            speedups = {size: reference[size] / times[size] for size in common}
            crossovers = find_crossovers(speedups, band)
            comparisons.append(
                Comparison(names[base], names[index], placement, speedups, crossovers)
            )
    return comparisons, list(dict.fromkeys(caveats))


def format_rough_size(size: float) -> str:
    """`128 B`, `32 KiB`, `1.5 MiB`: binary units, three digits."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1024
    raise AssertionError("the last unit takes everything")


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


def format_figure(value: float | None, scale: float) -> str:
    """A figure about as precise as nccl-tests prints it."""
    if value is None:
        return "-"
    scaled = value / scale
    return f"{scaled:.{2 if scaled < 99.995 else 1 if scaled < 9999.95 else 0}f}"


def format_summary(tables: Sequence[LogTable], names: Sequence[str]) -> str:
    """One line for each table."""
    headings = ["Algorithm", "Collective", "Ranks", "Lines", "Sizes", "Best busbw [GBps]", "At"]
    rows = []
    for table, name in zip(tables, names, strict=True):
        sizes = sorted({row.size for row in table.rows})
        # A rate with wrong values, or one that does not follow from its time, is no rate.
        right = [row for row in table.rows if row.busbw is not None and not judge_line(table, row)]
        rates = [(row.busbw.value, row.size) for row in right if row.busbw is not None]
        best = max(rates, default=None)
        span = f"{format_rough_size(sizes[0])} to {format_rough_size(sizes[-1])}" if sizes else "-"
        rows.append(
            [
                name,
                table.collective or "-",
                str(table.ranks or "-"),
                str(len(table.rows)),
                span,
                format_figure(best[0], GIGA) if best else "-",
                format_rough_size(best[1]) if best else "-",
            ]
        )
    return format_table(headings, rows)


def format_log_rows(tables: Sequence[LogTable], names: Sequence[str], rows: Sequence[Row]) -> str:
    """All measurements, each under the name that its table has in the summary."""
    labels = [name for table, name in zip(tables, names, strict=True) for _ in table.rows]
    headings = ["Algorithm", "Size", "Type", "Op", "Place", "Time [µs]", "algbw [GBps]"]
    headings += ["busbw [GBps]", "Wrong"]
    return format_table(
        headings,
        [
            [
                label,
                format_rough_size(row["size_bytes"]),
                row["type"] or "-",
                row["redop"] or "-",
                row["placement"] or "-",
                format_figure(row["time_seconds"], MICROSECOND),
                format_figure(row["algbw_bytes_per_second"], GIGA),
                format_figure(row["busbw_bytes_per_second"], GIGA),
                "-" if row["wrong"] is None else str(row["wrong"]),
            ]
            for label, row in zip(labels, rows, strict=True)
        ],
    )


def format_comparisons(comparisons: Sequence[Comparison]) -> str:
    """A table of speed-ups for each placement, and the crossovers below it."""
    parts = []
    for placement in dict.fromkeys(c.placement for c in comparisons):
        ours = [c for c in comparisons if c.placement == placement]
        sizes = sorted({size for c in ours for size in c.speedups})
        where = {"out": "out of place", "in": "in place"}.get(placement or "", "all")
        headings = [f"Size, {where}", *(c.other for c in ours)]
        rows = [
            [
                format_rough_size(size),
                *(f"{c.speedups[size]:.2f}" if size in c.speedups else "-" for c in ours),
            ]
            for size in sizes
        ]
        parts.append(format_table(headings, rows))
        parts.append("\n".join(describe_comparison(c) for c in ours))
    return "\n\n".join(parts)


def describe_comparison(comparison: Comparison) -> str:
    """A sentence: where an algorithm turns faster or slower than the other."""
    if not comparison.crossovers:
        middle = statistics.median(comparison.speedups.values())
        return f"- {comparison.other}: no crossover, median {middle:.2f} times {comparison.base}"
    turns = []
    for turn in comparison.crossovers:
        side = "faster" if turn["faster_from_here"] else "slower"
        about = f", about {format_rough_size(turn['size_bytes'])}" if turn["size_bytes"] else ""
        between = (
            f"{format_rough_size(turn['above_bytes'])} and {format_rough_size(turn['below_bytes'])}"
        )
        turns.append(f"{side} from between {between}{about}")
    return f"- {comparison.other} against {comparison.base}: {'; '.join(turns)}"


def draw_comparisons(comparisons: Sequence[Comparison], path: Path) -> None:
    """Speed-up over size, a line for each algorithm and a panel for each placement."""
    placements = list(dict.fromkeys(c.placement for c in comparisons))
    figure, axes = open_figure(len(placements))
    for axis, placement in zip(axes, placements, strict=True):
        for comparison in comparisons:
            if comparison.placement == placement:
                points = comparison.speedups.items()
                axis.plot(
                    [size for size, _ in points],
                    [speedup for _, speedup in points],
                    "o-",
                    label=comparison.other,
                )
        axis.axhline(1.0, color="grey", linewidth=1)
        axis.set_title({"out": "out of place", "in": "in place"}.get(placement or "", ""))
        axis.set_ylabel(f"speed-up over {comparisons[0].base}")
    save_figure(figure, axes, path)


def draw_rates(tables: Sequence[LogTable], names: Sequence[str], path: Path) -> None:
    """busbw over size (algbw where there is none), a line for each table and placement."""
    figure, axes = open_figure(1)
    for table, name in zip(tables, names, strict=True):
        for placement in table.placements:
            points = sorted(
                (row.size, rate.value / GIGA)
                for row in table.rows
                if row.placement == placement and (rate := row.busbw or row.algbw)
            )
            if points:
                label = f"{name}, {placement}" if placement else name
                axes[0].plot([p[0] for p in points], [p[1] for p in points], "o-", label=label)
    axes[0].set_ylabel("busbw, GBps")
    save_figure(figure, axes, path)


def open_figure(panels: int) -> tuple[Any, list[Any]]:
    """A figure with panels side by side, for a file and no window."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "nccl_log"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, panels, figsize=(6.0 * panels, 4.4), squeeze=False)
    return figure, list(axes[0])


def save_figure(figure: Any, axes: Sequence[Any], path: Path) -> None:
    """The sizes in powers of two along each panel, and the file."""
    from matplotlib import pyplot
    from matplotlib.ticker import FuncFormatter

    for axis in axes:
        axis.set_xscale("log", base=2)
        axis.xaxis.set_major_formatter(FuncFormatter(lambda size, _: format_rough_size(size)))
        axis.tick_params(axis="x", rotation=30)
        axis.set_xlabel("size")
        axis.set_ylim(bottom=0)
        axis.grid(alpha=0.3)
        axis.legend()
    figure.tight_layout()
    # Without a date the same results give the same bytes.
    figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
    pyplot.close(figure)


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


def write_note(text: str) -> None:
    """One note for the reader, beside the table."""
    print(f"note: {text}", file=sys.stderr)


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


def check_picture_path(path: Path | None) -> None:
    """Raises WrongUse where --plot cannot be written, or matplotlib is not there to draw it."""
    if path is None:
        return
    if path.suffix.lower() not in (".svg", ".png"):
        raise WrongUse(f"--plot: {path} has to end in .svg or .png")
    if not path.resolve().parent.is_dir():
        raise WrongUse(f"--plot: there is no folder {path.resolve().parent}")
    if importlib.util.find_spec("matplotlib") is None:
        raise WrongUse("--plot needs matplotlib: pip install matplotlib")


def parse_band(text: str) -> float:
    """A share from `2%` or `0.02`, below 1."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' has to be a share such as 2% or 0.02")
    return value


def read_sources(arguments: Sequence[str], stop: StopSign) -> Iterator[Reading]:
    """What is in each file. Raises WrongUse where one cannot be opened, Stopped on a signal."""
    for argument in arguments:
        stop.check()
        label, equals, name = argument.partition("=")
        if not equals or Path(argument).exists():
            label, name = "", argument
        try:
            text = (
                sys.stdin.read()
                if name == "-"
                else Path(name).read_text(encoding="utf-8", errors="replace")
            )
        except OSError as error:
            raise WrongUse(f"could not read {name}: {error.strerror}") from error
        source = "stdin" if name == "-" else hide_folders(name)
        reading = read_log(text, source, label or None)
        for table in reading.tables:
            if table.algorithm is None and name != "-":
                table.algorithm = find_algorithm(Path(name).stem)
        if not reading.tables and not reading.findings:
            reading.findings.append(LogFinding(source, 1, "no table of results in this file"))
        yield reading


def describe_table(table: LogTable, name: str) -> dict[str, Any]:
    """What the JSON tells of a table beside its rows."""
    return {
        "name": name,
        "source": table.source,
        "line": table.line,
        "kind": table.kind,
        "section": table.section,
        "title": table.title,
        "algorithm": table.algorithm,
        "collective": table.collective,
        "collective_is_inferred": table.collective_is_inferred,
        "ranks": table.ranks,
        "rows": len(table.rows),
        "average_busbw_bytes_per_second": table.average.value if table.average else None,
        "out_of_bounds": table.out_of_bounds,
    }


def describe_turns(comparison: Comparison) -> dict[str, Any]:
    """A comparison for the JSON."""
    return {
        "base": comparison.base,
        "other": comparison.other,
        "placement": comparison.placement,
        "speedups": [
            {"size_bytes": size, "speedup": speedup}
            for size, speedup in comparison.speedups.items()
        ],
        "crossovers": comparison.crossovers,
    }


def run_self_test() -> int:
    """Check reader, arithmetic and comparison on figures worked out by hand; 0, or 1 on failure."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    reading = read_log(TOY_LOG, "toy")
    check_tables(reading)
    tables = reading.tables
    check(
        "two tables of 3 sizes, out of place and in place", [len(t.rows) for t in tables] == [6, 6]
    )
    check("ring and tree", [table.algorithm for table in tables] == ["ring", "tree"])
    check("8 ranks, from NCCL INFO", [table.ranks for table in tables] == [8, 8])
    check(
        "1.75 with 8 ranks and a sum is all_reduce",
        [table.collective for table in tables] == ["all_reduce", "all_reduce"],
    )
    check("nothing disagrees in it", reading.findings == [])
    row = tables[0].rows[4]
    check(
        "16 MiB in 400 us: algbw 41.94, busbw 73.40 GBps",
        (row.algbw, row.busbw, row.size)
        == (read_figure("41.94", GIGA), read_figure("73.40", GIGA), 16 * 1024**2),
    )
    check("N/A is no number of wrong values", tables[1].rows[1].wrong is None)
    (turn,) = find_crossovers({1024: 2.0, 1048576: 1.0, 16777216: 0.5}, 0.02)
    check(
        "a tree that is twice as fast, then as fast, then half as fast, crosses at 1 MiB",
        (turn["above_bytes"], turn["below_bytes"], turn["size_bytes"])
        == (1024, 16777216, 1048576.0),
    )
    broken = TOY_LOG.replace("41.94   73.40      0    400.0", "41.94   70.40      0    400.0")
    reading = read_log(broken, "toy")
    check_tables(reading)
    check(
        "a busbw that is not algbw * 1.75 is found, with its line",
        [finding.line for finding in reading.findings][:1] == [9],
    )
    factors = [BUS_FACTORS[name](4) for name in ("all_reduce", "all_gather", "broadcast")]
    check("the factors of 4 ranks are 1.5, 0.75 and 1", factors == [1.5, 0.75, 1.0])
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="nccl_log.py",
        description="Read logs of nccl-tests, rccl-tests and OSU micro-benchmarks, check and "
        "compare them.",
        epilog="The docstring at the top of this file tells what is checked and how to run it.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "logs",
        nargs="*",
        metavar="[NAME=]FILE",
        help="text, Markdown or JSON; - for standard input; NAME is its algorithm",
    )
    parser.add_argument(
        "--against",
        metavar="NAME",
        help="speed-up of each algorithm over this one by size, and the crossover sizes",
    )
    parser.add_argument(
        "--band",
        type=parse_band,
        default=0.02,
        metavar="SHARE",
        help="a difference below this counts as equal (default: 2%%)",
    )
    parser.add_argument(
        "--ranks",
        type=parse_count,
        metavar="N",
        help="how many ranks took part, for logs that do not say it; others keep their own number",
    )
    parser.add_argument("--toy", action="store_true", help="read a small log of invented figures")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="PATH",
        help="SVG or PNG: speed-up over size, or busbw without --against",
    )
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"nccl_log {__version__} (method {METHOD})"
    )
    return parser


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense, before anything is read."""
    check_json_path(options.json)
    check_picture_path(options.plot)
    if options.toy and options.logs:
        raise WrongUse("--toy reads a log of its own; give no file with it")
    if not options.toy and not options.logs:
        raise WrongUse("name a log to read, or - for standard input")
    if options.logs.count("-") > 1:
        raise WrongUse("standard input can be read once only")


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
        return run_reader(options, make_portable_command(arguments), stop, origin)
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a run listens for signals itself
        print("stopped", file=sys.stderr)
        return 1


def run_reader(
    options: argparse.Namespace, command: list[str], stop: StopSign, origin: float
) -> int:
    """Read, check, compare, write; the exit status."""
    whole = Reading()
    try:
        readings = [read_log(TOY_LOG, "toy")] if options.toy else read_sources(options.logs, stop)
        for reading in readings:
            whole.tables += reading.tables
            whole.findings += reading.findings
            whole.caveats += reading.caveats
            whole.empty_sections += reading.empty_sections
        stop.check()
    except Stopped as stopped:
        whole.caveats.append(f"{stopped}: the logs after that were not read")
    if options.ranks:
        whole.caveats += give_ranks(whole.tables, options.ranks)
    faults = check_tables(whole)
    tables = [table for table in whole.tables if table.rows]
    names = label_tables(tables)
    comparisons: list[Comparison] = []
    if options.against and not (stop.by_signal and not tables):
        base = choose_base(options.against, names, tables)
        comparisons, caveats = compare_tables(tables, names, base, options.band)
        whole.caveats += caveats
    rows = make_log_rows(whole, faults)
    try:
        if options.json:
            document = make_document_head("nccl_log", (__version__, METHOD), command, origin)
            document |= {
                "complete": not stop.by_signal,
                "units": UNITS,
                "results": rows,
                "caveats": whole.caveats,
                "details": {
                    "findings": [finding._asdict() for finding in whole.findings],
                    "tables": [
                        describe_table(table, name)
                        for table, name in zip(tables, names, strict=True)
                    ],
                    "empty_sections": [
                        {"source": source, "line": line, "section": section}
                        for source, line, section in whole.empty_sections
                    ],
                    "comparisons": [describe_turns(comparison) for comparison in comparisons],
                },
            }
            write_document(options.json, document)
    finally:  # a disk that is full loses no table
        print_report(tables, names, rows, comparisons)
    for text in whole.caveats:
        write_note(text)
    for finding in whole.findings:
        print(f"problem: {finding.describe()}", file=sys.stderr)
    if options.plot:
        if comparisons:
            draw_comparisons(comparisons, options.plot)
        elif tables:
            draw_rates(tables, names, options.plot)
        else:
            write_note("--plot: nothing was read, so there is no picture")
    return 1 if whole.findings or stop.by_signal else 0


def print_report(
    tables: Sequence[LogTable],
    names: Sequence[str],
    rows: Sequence[Row],
    comparisons: Sequence[Comparison],
) -> None:
    """The tables on stdout."""
    if not rows:
        return
    print(format_summary(tables, names))
    print()
    print(format_comparisons(comparisons) if comparisons else format_log_rows(tables, names, rows))


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
