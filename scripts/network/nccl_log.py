#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which algorithm is faster at which size, and are the numbers of this log right?

This tool reads what nccl-tests and rccl-tests print (`all_reduce_perf` and its siblings), between
lines of NCCL INFO, commented out, several per file or cut off; the tables of the OSU
micro-benchmarks; and Markdown notes with such tables. It checks the arithmetic of every line and
compares one algorithm with the others.

## Formulas

`algbw = size / time` and `busbw = factor * algbw`, with the factors of nccl-tests
(doc/PERFORMANCE.md of that project) for n ranks:

| collective | factor |
|:--|:--|
| all_reduce | 2 (n-1) / n |
| all_gather, reduce_scatter, all_to_all, gather, scatter | (n-1) / n |
| broadcast, reduce, sendrecv | 1 |

## What is checked

algbw and busbw of a line follow from its size and time, within the rounding of the printed digits,
and no value was wrong. A line that disagrees is marked in the table, is a problem with its line
number, and counts neither as the best nor in a comparison.

Where the log does not name the collective or the number of ranks, they are inferred from busbw /
algbw, the operation and the root, and a note says so: `sum`, root -1 and a factor of 1 can only be
an all_reduce of two ranks. `--ranks` helps where several numbers of ranks fit.

`--against NAME` prints `seconds of NAME / seconds of the other` at equal size and placement (out of
place or in place). Within `--band` of 1 counts as equal. A crossover is between the last size at
which one is faster and the first at which the other is.

## How to run

    python nccl_log.py all_reduce.txt --json rows.json
    python nccl_log.py ring=a.txt tree=b.txt --against ring --plot speed.svg
    ./build/all_reduce_perf -b 8 -e 1G -f 2 -g 8 | python nccl_log.py -
    # Slurm; the labels of `srun --label` and `mpirun --tag-output` are taken off
    NCCL_ALGO=Ring srun --ntasks 1 --output ring.txt ./build/all_reduce_perf -b 8 -e 1G -f 2 -g 8
    # pdsh
    pdsh -w node[01-08] './build/all_reduce_perf -b 1G -e 1G -g 8 > /shared/$(hostname).txt'

`NAME=FILE` names the algorithm of a file. Otherwise the name comes from the title above the table,
NCCL_ALGO in the log, or the name of the file.

## A good answer

No problem, and for each algorithm a range of sizes in which it is clearly faster. Small sizes
measure latency: a rate below 1 MiB is not the speed of the network.

Exit status: 0 done; 1 a line that disagrees, a wrong value, or no table; 2 wrong use.
"""

from __future__ import annotations

import itertools
import re
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, positive_int, start
from kit.report import Report, Row, format_bytes, format_table

__version__ = "0.2.0"
METHOD = 1

PROFILES = {"demo": ["--demo"], "full": ["--demo", "--against", "ring"]}
UNITS = {
    **dict.fromkeys(("line", "ranks", "count", "root", "wrong"), "1"),
    "size_bytes": "B",
    "time_seconds": "s",
    "algbw_bytes_per_second": "B/s",
    "busbw_bytes_per_second": "B/s",
}
PARTIAL = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
COLLECTIVES = {
    **{name.replace("_", ""): name for name in ("all_reduce", *PARTIAL, "broadcast", "reduce")},
    "bcast": "broadcast",
    "sendrecv": "sendrecv",
    "latency": "p2p_latency",
    "bandwidth": "p2p_bandwidth",
    "bidirectionalbandwidth": "p2p_bidirectional",
}
"""Names without case and underscores, as programs write them, and as torch does."""
ALGORITHMS = {
    r"all[_ -]?pairs?": "allpair",
    r"hier(archical)?": "hierarchical",
    r"pipe[_ -]?lined?": "pipeline",
    r"nvls[_ ]?tree": "nvlstree",
    **{name: name for name in ("nvls", "collnet", "pat", "ring", "tree")},
}
OSU_COLUMNS = {"avg latency(us)": "time", "latency (us)": "time", "bandwidth (mb/s)": "mb/s"}
LAUNCHER_LABEL = re.compile(r"^\s*(?:\[\d+,\d+\]<std(?:out|err)>:?|\d+:)\s?")
MAX_RANKS = 16384
DEMO = """\
# NCCL Ring
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
host:101:101 [0] NCCL INFO comm 0x55aa00 rank 0 nranks 8 cudaDev 0 busId 15000 - Init COMPLETE
        1024           256     float     sum      -1    20.00    0.05    0.09      0    20.00    0.05    0.09      0
     1048576        262144     float     sum      -1    80.00   13.11   22.94      0    80.00   13.11   22.94      0
    16777216       4194304     float     sum      -1    400.0   41.94   73.40      0    400.0   41.94   73.40      0
# Avg bus bandwidth    : 32.1433

# NCCL Tree
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
        1024           256     float     sum      -1    10.00    0.10    0.18      0    10.00    0.10    0.18    N/A
     1048576        262144     float     sum      -1    80.00   13.11   22.94      0    80.00   13.11   29.24    N/A
    16777216       4194304     float     sum      -1    800.0   20.97   36.70      0    800.0   20.97   36.70    N/A
"""  # noqa: E501 - as nccl-tests prints them


def bus_factor(collective: str, ranks: int) -> float:
    """busbw / algbw, as nccl-tests defines it."""
    part = (ranks - 1) / ranks
    return 2 * part if collective == "all_reduce" else part if collective in PARTIAL else 1.0


@dataclass
class Table:
    """One table of a log."""

    source: str
    line: int
    name: str
    columns: list[str]
    collective: str | None = None
    stated: set[int] = field(default_factory=set)
    """The sizes of all communicators that the log speaks of."""
    ranks: int | None = None
    rows: list[Row] = field(default_factory=list)
    """Rows of the JSON, and `half`: half a unit of the last digit of time, algbw and busbw."""

    def good(self) -> list[Row]:
        """The rows that agree."""
        return [row for row in self.rows if row["verdict"] == "ok"]


def read_value(text: str | None, scale: float) -> tuple[float | None, float]:
    """A printed number times the scale, and half a unit of its last digit; None for N/A."""
    if not text or not re.fullmatch(r"[\d.]+(e[+-]?\d+)?", text):
        return None, 0.0
    mantissa, _, exponent = text.partition("e")
    half = 0.5 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return float(text) * scale, half * scale


def read_integer(text: str | None) -> int | None:
    """An integer, also as 32_768; None for anything else."""
    return int(text) if text and re.fullmatch(r"-?\d[\d_]*", text) else None


def find_collective(text: str) -> str | None:
    """The collective that a title or a command mentions: `all_reduce_perf`, `msccl allreduce`."""
    for word in re.findall(r"[a-z_]+", text.lower()):
        name = COLLECTIVES.get(word.removesuffix("_perf").replace("_", ""))
        if name and (word.endswith("_perf") or word.startswith("all")):
            return name
    return None


def find_algorithm(text: str) -> str | None:
    """The algorithm that a title or a file name mentions: `ring`, `msccl allpair`."""
    for pattern, name in ALGORITHMS.items():
        if re.search(rf"(?<![a-z]){pattern}(?![a-z])", text.lower()):
            return f"msccl {name}" if "msccl" in text.lower() else name
    return None


class LogReader:
    """Reads a log line by line; what it learns belongs to the run that is open."""

    def __init__(self, source: str, label: str | None = None) -> None:
        self.source, self.label = source, label
        self.tables: list[Table] = []
        self.problems: list[str] = []
        self.forget_run()

    def forget_run(self) -> None:
        """A new run begins."""
        self.table: Table | None = None
        self.title = self.program = self.variable = ""
        self.devices = 0
        self.stated: set[int] = set()

    def read(self, text: str) -> None:
        """Read all tables of the text."""
        lines = text.splitlines()
        for number, line in enumerate(lines, start=1):
            is_torn = number == len(lines) and not text.endswith("\n")
            self.read_line(number, LAUNCHER_LABEL.sub("", line, count=1), is_torn)

    def read_line(self, number: int, line: str, is_torn: bool) -> None:
        """One line of the log; `is_torn` where it may be cut off."""
        body = line.lstrip("# \t")
        tokens = body.lower().split()
        if tokens[:1] == ["size"] and {"algbw", "busbw"} & set(tokens):
            self.open_table(number, [name for name in tokens if name != "timestamp"])
        elif found := re.match(r"OSU \S+ (.+?)(?: Latency)?(?: Test)?(?: v[\d.]+)?$", body):
            name = COLLECTIVES.get(found[1].lower().replace(" ", "").replace("-", ""))
            self.table = Table(self.source, number, self.label or found[1], [], name)
            self.tables.append(self.table)
        elif self.table and not self.table.columns and tokens[:1] == ["size"]:
            names = re.split(r"\s{2,}", body.lower().strip())
            self.table.columns = [OSU_COLUMNS.get(name, name) for name in names]
        elif "Avg bus bandwidth" in body:
            self.forget_run()
        elif line.startswith("```"):  # a code block of Markdown begins or ends
            self.table = None
        elif found := re.search(r"\bnranks (\d+)", body):
            self.stated.add(int(found[1]))
        elif found := re.match(r"Rank +(\d+) .*Pid +\d+ on ", body):
            self.devices = max(self.devices, int(found[1]) + 1)
        elif found := re.search(r"NCCL_ALGO *(?:set by environment to|=) *\"?(\w+)", body):
            self.variable = found[1]
        elif self.table and tokens and read_integer(tokens[0]) is not None:
            self.add_line(number, tokens, is_torn)
        elif "_perf" in body and find_collective(body):
            self.program = body
        elif line.startswith("#") and len(tokens) <= 6 and find_algorithm(body):
            self.title = body

    def open_table(self, number: int, columns: list[str]) -> None:
        """The header of a table of nccl-tests."""
        stem = Path(self.source).stem
        algorithms = map(find_algorithm, (self.title, self.variable, stem))
        collectives = map(find_collective, (self.program, self.title, stem))
        name = self.label or next(filter(None, algorithms), stem)
        if self.devices:
            self.stated = {self.devices}
        self.table = Table(self.source, number, name, columns, stated=self.stated)
        self.table.collective = next(filter(None, collectives), None)
        self.tables.append(self.table)

    def add_line(self, number: int, tokens: list[str], is_torn: bool) -> None:
        """The measurements of one line; a problem where it does not fit the columns."""
        assert self.table
        columns = self.table.columns
        if len(tokens) == len(columns) - 1 and "redop" in columns:
            tokens.insert(columns.index("redop"), "none")  # old versions print nothing
        if len(tokens) < len(columns):
            if not is_torn:
                text = f"{len(tokens)} values for {len(columns)} columns"
                self.problems.append(f"{self.source}:{number}: cannot read this line: {text}")
            return
        head = dict(reversed(list(zip(columns, tokens, strict=False))))
        begins = [place for place, name in enumerate(columns) if name == "time"]
        self.add_row(number, "out" if begins[1:] else None, head, head)
        for begin in begins[1:]:
            cells = dict(zip(columns[begin:], tokens[begin:], strict=False))
            self.add_row(number, "in", head, cells)

    def add_row(
        self, number: int, place: str | None, head: dict[str, str], cells: dict[str, str]
    ) -> None:
        """One measurement: a line at one placement."""
        assert self.table
        time, time_half = read_value(cells.get("time"), 1e-6)
        algbw, algbw_half = read_value(cells.get("algbw"), 1e9)
        if "mb/s" in cells:
            algbw, algbw_half = read_value(cells["mb/s"], 1e6)
        busbw, busbw_half = read_value(cells.get("busbw"), 1e9)
        self.table.rows.append(
            {
                "source": self.source,
                "line": number,
                "algorithm": self.table.name,
                "size_bytes": read_integer(head["size"]),
                "count": read_integer(head.get("count")),
                "type": head.get("type"),
                "redop": None if head.get("redop") == "none" else head.get("redop"),
                "root": read_integer(head.get("root")),
                "placement": place,
                "time_seconds": time,
                "algbw_bytes_per_second": algbw,
                "busbw_bytes_per_second": busbw,
                "wrong": read_integer(cells.get("#wrong")),
                "half": {"time": time_half, "algbw": algbw_half, "busbw": busbw_half},
            }
        )


def measure_factor(table: Table) -> tuple[float, float] | None:
    """The range that busbw / algbw is in, by the lines whose rounding leaves it within 4 %."""
    ranges = []
    for row in table.rows:
        algbw, busbw = row["algbw_bytes_per_second"], row["busbw_bytes_per_second"]
        if algbw and busbw:
            low = (busbw - row["half"]["busbw"]) / (algbw + row["half"]["algbw"])
            high = (busbw + row["half"]["busbw"]) / max(algbw - row["half"]["algbw"], 1.0)
            if high < 1.04 * low:
                ranges.append((low, high))
    pairs = [(r["algbw_bytes_per_second"], r["busbw_bytes_per_second"]) for r in table.rows]
    if ranges and all(algbw == busbw for algbw, busbw in pairs):
        return 1.0, 1.0
    best = sorted(ranges, key=lambda one: one[1] - one[0])[: 1 + len(ranges) // 2]
    if not best:
        return None
    return statistics.median(low for low, _ in best), statistics.median(high for _, high in best)


def infer_run(table: Table, ranks: int | None) -> str | None:
    """Set collective and ranks of a table where its log leaves them open; a note that says so.

    `ranks` is that of --ranks.
    """
    where = f"{table.source}:{table.line}"
    if table.ranks is None and len(table.stated) == 1:
        table.ranks = min(table.stated)
    if ranks and table.ranks not in (None, ranks):
        return f"{where}: --ranks {ranks} is not used: the log says {table.ranks}"
    table.ranks = table.ranks or ranks
    span = measure_factor(table)
    if (table.collective and table.ranks) or span is None:
        return None
    redop, root = table.rows[0]["redop"], table.rows[0]["root"]
    names = ["all_reduce", *PARTIAL, "broadcast", "reduce", "sendrecv"]
    if table.collective:
        names = [table.collective]
    elif redop and root is not None:
        names = ["all_reduce", "reduce_scatter"] if root < 0 else ["reduce"]
    counts = [table.ranks] if table.ranks else sorted(table.stated) or range(2, MAX_RANKS)
    fits = [(name, n) for name in names for n in counts
            if span[0] <= bus_factor(name, n) <= span[1]]  # fmt: skip
    ratio = f"busbw / algbw = {statistics.fmean(span):.4g}"
    left = sorted({name for name, _ in fits})
    if len(left) != 1:
        return f"{where}: {ratio} fits {' or '.join(left) or 'no collective'}: not checked"
    table.collective = left[0]
    if len(fits) == 1:
        table.ranks = fits[0][1]
        return f"{where}: inferred {left[0]} of {table.ranks} ranks from {ratio}"
    if table.collective in ("all_reduce", *PARTIAL):
        return f"{where}: {ratio} fits {fits[0][1]} to {fits[-1][1]} ranks: use --ranks"
    return None


def overlaps(value: float, half: float, low: float, high: float) -> bool:
    """Whether a rounded number can be one of a range."""
    return value + half >= low * (1 - 1e-9) and value - half <= high * (1 + 1e-9)


def judge(table: Table) -> list[str]:
    """Set the verdict of each row; the problems of the table."""
    span = measure_factor(table)
    if table.collective and (table.ranks or table.collective not in ("all_reduce", *PARTIAL)):
        span = (bus_factor(table.collective, table.ranks or 2),) * 2
    problems = []
    for row in table.rows:
        row |= {"collective": table.collective, "ranks": table.ranks}
        row |= {"verdict": "ok", "verdict_reason": None}
        half, time, size = row.pop("half"), row["time_seconds"], row["size_bytes"]
        algbw, busbw = row["algbw_bytes_per_second"], row["busbw_bytes_per_second"]
        faults, ranges = [], []
        if time and time > half["time"]:
            ranges = [(size / (time + half["time"]), size / (time - half["time"]))]
        if algbw and ranges and not overlaps(algbw, half["algbw"], *ranges[0]):
            faults.append(f"algbw {algbw / 1e9:g} is not size / time, {size / time / 1e9:.4g}")
            ranges.append((algbw - half["algbw"], algbw + half["algbw"]))  # or the time is wrong
        if busbw and span and ranges:
            factor = statistics.fmean(span)
            fits = [overlaps(busbw, half["busbw"], span[0] * a, span[1] * b) for a, b in ranges]
            if not any(fits):
                right = f"{factor * size / time / 1e9:.4g}"
                faults.append(f"busbw {busbw / 1e9:g} is not {factor:.4g} * algbw, {right}")
        if row["wrong"]:
            faults.append(f"{row['wrong']} wrong values")
        if faults:
            row |= {"verdict": "disagrees", "verdict_reason": "; ".join(faults)}
            place = {"out": "out-of-place ", "in": "in-place "}.get(row["placement"], "")
            problems.append(f"{table.source}:{row['line']}: {place}{row['verdict_reason']}")
    return problems


def collect_seconds(table: Table, place: str | None) -> dict[int, float]:
    """Seconds by size, of the rows that agree."""
    rows = [row for row in table.good() if row["placement"] == place]
    return {row["size_bytes"]: row["time_seconds"] for row in rows if row["time_seconds"]}


def find_crossovers(speedups: dict[int, float], band: float) -> list[Row]:
    """Where faster turns to slower or back: the last size before and the first size after."""
    clear = {n: s for n, s in sorted(speedups.items()) if not 1 / (1 + band) <= s <= 1 + band}
    return [
        {"above_bytes": low, "below_bytes": high, "faster_from_here": after > 1}
        for (low, before), (high, after) in itertools.pairwise(clear.items())
        if (before > 1) != (after > 1)
    ]


def compare_tables(tables: Sequence[Table], wanted: str, band: float, report: Report) -> list[Row]:
    """All tables against the one of that name, by placement; a note per table that is unlike it.

    Raises UsageError where none or several have the name.
    """
    found = [table for table in tables if table.name.lower() == wanted.lower()]
    if len(found) != 1:
        names = ", ".join(table.name for table in tables)
        raise UsageError(f"--against {wanted}: {len(found)} tables have this name, of {names}")
    base = found[0]

    def kind(table: Table) -> tuple[Any, ...]:
        return table.collective, table.ranks, table.rows[0]["type"], table.rows[0]["redop"]

    comparisons = []
    for table in tables:
        if table is base:
            continue
        if kind(table) != kind(base):
            report.note(f"{table.name} is not compared: {kind(table)} is not {kind(base)}")
            continue
        for place in dict.fromkeys(row["placement"] for row in base.rows):
            ours, theirs = collect_seconds(base, place), collect_seconds(table, place)
            speedups = {size: ours[size] / theirs[size] for size in ours if size in theirs}
            one = {"base": base.name, "other": table.name, "placement": place}
            turns = find_crossovers(speedups, band)
            comparisons.append({**one, "speedups": speedups, "crossovers": turns})
    return comparisons


def show(value: float | None, scale: float) -> str:
    """A number about as precise as nccl-tests prints it."""
    if value is None:
        return "-"
    value /= scale
    return f"{value:.{2 if value < 99.995 else 1 if value < 9999.95 else 0}f}"


def print_tables(tables: Sequence[Table]) -> None:
    """All rows, and the best busbw of each table."""
    cells = [
        (
            table.name,
            format_bytes(row["size_bytes"]),
            row["type"],
            row["redop"],
            row["placement"],
            show(row["time_seconds"], 1e-6),
            show(row["algbw_bytes_per_second"], 1e9),
            show(row["busbw_bytes_per_second"], 1e9),
            row["wrong"],
            "ok" if row["verdict"] == "ok" else f"DISAGREES, line {row['line']}",
        )
        for table in tables
        for row in table.rows
    ]
    headings = ("algorithm", "size", "type", "op", "place", "time µs", "algbw GB/s", "busbw GB/s",
                "wrong", "verdict")  # fmt: skip
    print(f"{format_table(headings, cells)}\n")
    for table in tables:
        rates = [(row["busbw_bytes_per_second"] or 0, row["size_bytes"]) for row in table.good()]
        rate, size = max(rates, default=(0, 0))
        what = f"{table.collective or 'unknown collective'} of {table.ranks or '?'} ranks"
        print(f"{table.name}: {what}, best busbw {show(rate, 1e9)} GB/s at {format_bytes(size)}")


def print_comparisons(comparisons: Sequence[Row]) -> None:
    """Speedups by size, and the crossovers."""
    sizes = sorted({size for one in comparisons for size in one["speedups"]})
    names = [f"{one['other']}, {one['placement'] or 'all'}" for one in comparisons]
    rows = [
        (format_bytes(size), *(show(one["speedups"].get(size), 1) for one in comparisons))
        for size in sizes
    ]
    print(format_table(("speedup at", *names), rows) + "\n")
    for name, one in zip(names, comparisons, strict=True):
        turns = [
            f"{'faster' if turn['faster_from_here'] else 'slower'} than {one['base']} from between "
            f"{format_bytes(turn['above_bytes'])} and {format_bytes(turn['below_bytes'])}"
            for turn in one["crossovers"]
        ]
        print(f"{name}: {', '.join(turns) or 'no crossover'}")


def draw(tables: Sequence[Table], comparisons: Sequence[Row], path: str) -> None:
    """Plot speedup over size, or busbw without a comparison, as SVG or PNG."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    curves = {f"{one['other']}, {one['placement']}": one["speedups"] for one in comparisons}
    if not comparisons:
        for table in tables:
            for row in table.good():
                rate = row["busbw_bytes_per_second"] or row["algbw_bytes_per_second"] or 0
                curve = curves.setdefault(f"{table.name}, {row['placement']}", {})
                curve[row["size_bytes"]] = rate / 1e9
    figure, axes = pyplot.subplots(figsize=(8, 5))
    for name, curve in curves.items():
        axes.plot(curve.keys(), curve.values(), marker="o", label=name)
    label = f"speedup over {comparisons[0]['base']}" if comparisons else "busbw, GB/s"
    axes.set(xscale="log", xlabel="size, bytes", ylabel=label)
    axes.legend()
    axes.grid(alpha=0.3)
    figure.savefig(path, bbox_inches="tight")


def read_files(names: Sequence[str]) -> list[LogReader]:
    """What is in each file. Raises UsageError where one cannot be read."""
    readers = []
    for argument in names:
        label, equals, name = argument.partition("=")
        if not equals or Path(argument).exists():
            label, name = "", argument
        try:
            text = sys.stdin.read() if name == "-" else Path(name).read_text(errors="replace")
        except OSError as error:
            raise UsageError(f"cannot read {name}: {error.strerror}") from error
        readers.append(LogReader("stdin" if name == "-" else Path(name).name, label or None))
        readers[-1].read(text)
    return readers


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(__doc__, tool="nccl_log", version=__version__, method=METHOD, demo=[])
    add = parser.add_argument
    # fmt: off
    add("logs", nargs="*", metavar="[NAME=]FILE",
        help="text or Markdown, - for standard input; NAME is its algorithm")
    add("--against", metavar="NAME", help="compare all algorithms with this one, size by size")
    add("--band", type=float, default=0.02, metavar="SHARE",
        help="differences below this count as equal (default: 0.02)")
    add("--ranks", type=positive_int, metavar="N", help="number of ranks, where the log has none")
    add("--plot", metavar="PATH", help="plot speedup, or busbw without --against, as SVG or PNG")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    options = build_parser().parse_args(arguments)
    if not options.logs and not options.demo:
        raise UsageError("name a log to read, or - for standard input")
    report = Report("nccl_log", __version__, METHOD, UNITS, options.json)
    if options.demo:
        readers = [LogReader("demo")]
        readers[0].read(DEMO)
    else:
        readers = read_files(options.logs)
    problems = [problem for reader in readers for problem in reader.problems]
    problems += [f"{r.source}: no table in this file" for r in readers if not r.tables]
    tables = [table for reader in readers for table in reader.tables if table.rows]
    for table in tables:
        if note := infer_run(table, options.ranks):
            report.note(note)
        problems += judge(table)
        report.rows += table.rows
    comparisons: list[Row] = []
    if options.against:
        comparisons = compare_tables(tables, options.against, options.band, report)
    report.complete = True
    report.details |= {"problems": problems, "comparisons": comparisons}
    if comparisons:
        print_comparisons(comparisons)
    elif tables:
        print_tables(tables)
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    report.save()
    if options.plot and tables:
        draw(tables, comparisons, options.plot)
    if options.demo:  # the mistyped busbw was planted
        return int(problems != ["demo:13: in-place busbw 29.24 is not 1.75 * algbw, 22.94"])
    return int(bool(problems))


if __name__ == "__main__":
    start(main)
