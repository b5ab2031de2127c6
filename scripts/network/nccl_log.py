#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which algorithm is faster at which size, and are the numbers of this log right?

Reads what nccl-tests and rccl-tests print (`all_reduce_perf` and its siblings), between lines of
NCCL INFO, commented out, or in Markdown notes, and the tables of the OSU micro-benchmarks. Checks
the arithmetic of every line and compares one algorithm with the others.

## Formulas

`algbw = size / time` and `busbw = factor * algbw`. For n ranks the factor is 2 (n-1) / n for
all_reduce, (n-1) / n for all_gather, reduce_scatter, all_to_all, gather and scatter, and 1 for
broadcast, reduce and sendrecv (doc/PERFORMANCE.md of nccl-tests).

## What is checked

algbw and busbw of a line follow from its size and time, within the rounding of the printed digits,
and no value was wrong. A line that disagrees is marked, and counts neither as the best nor in a
comparison. If the log does not name the collective or the number of ranks, they are inferred from
busbw / algbw, the operation and the root, with a note. `--ranks` helps where several numbers fit.

`--against NAME` prints `seconds of NAME / seconds of the other` at equal size and placement. Within
2 % counts as equal. A crossover is between the last size at which one is faster and the first at
which the other is.

## How to run

    python nccl_log.py ring=a.txt tree=b.txt --against ring --plot speed.svg
    ./build/all_reduce_perf -b 8 -e 1G -f 2 -g 8 | python nccl_log.py - --json rows.json
    # Slurm; the labels of `srun --label` and `mpirun --tag-output` are taken off
    NCCL_ALGO=Ring srun --ntasks 1 --output ring.txt ./build/all_reduce_perf -b 8 -e 1G -f 2 -g 8

`NAME=FILE` names the algorithm of a file. Otherwise the name is the title above the table,
NCCL_ALGO in the log, or the name of the file.

## A good answer

No problem, and for each algorithm a range of sizes in which it is clearly faster. Small sizes
measure latency: a rate below 1 MiB is not the speed of the network.

Exit status: 0 done; 1 a line that disagrees, a wrong value, or no table; 2 usage error.
"""

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
from kit.plot import draw_curves
from kit.report import Report, Row, format_bytes, format_table
from kit.stats import PARTIAL, bus_factor

__version__ = "0.2.0"
METHOD = 1

PROFILES = {"demo": ["--demo"], "full": ["--demo", "--against", "ring"]}
SCALES = {"time_seconds": 1e-6, "algbw_bytes_per_second": 1e9, "busbw_bytes_per_second": 1e9}
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "gather", "scatter",
               "broadcast", "reduce", "sendrecv")  # fmt: skip
BY_NAME = {name.replace("_", ""): name for name in COLLECTIVES} | {"bcast": "broadcast"}
"""Names without case and underscores, as programs write them, and as torch does."""
ALGORITHM = re.compile(
    r"(?<![a-z])(ring|tree|nvls|pat|collnet|all[_ -]?pairs?|hier|pipe)", re.IGNORECASE
)
OSU_COLUMNS = {"avg latency(us)": "time", "latency (us)": "time", "bandwidth (mb/s)": "mb/s"}
LAUNCHER_LABEL = re.compile(r"^\s*(?:\[\d+,\d+\]<std(?:out|err)>:?|\d+:)\s?")
MAX_RANKS = 16384
BAND = 0.02
"""Speeds that differ by less count as equal."""
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


@dataclass
class Table:
    """One table of a log. `stated` are the sizes of the communicators that the log mentions."""

    source: str
    line: int
    name: str
    columns: list[str]
    collective: str | None = None
    stated: set[int] = field(default_factory=set)
    ranks: int | None = None
    rows: list[Row] = field(default_factory=list)
    """Rows of the JSON, and `halves`: how far rounding may have moved time, algbw and busbw."""

    def good(self) -> list[Row]:
        """The rows that agree."""
        return [row for row in self.rows if row["verdict"] == "ok"]


def read_value(text: str | None, scale: float) -> tuple[float | None, float]:
    """A printed number times the scale, and how far rounding may have moved it; None for N/A."""
    if not text or not re.fullmatch(r"[\d.]+(e[+-]?\d+)?", text):
        return None, 0.0
    mantissa, _, exponent = text.partition("e")
    half = 0.5000001 * 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))
    return float(text) * scale, half * scale


def read_integer(text: str | None) -> int | None:
    """An integer; None for anything else."""
    return int(text) if text and re.fullmatch(r"-?\d+", text) else None


def find_collective(text: str) -> str | None:
    """The collective that a title or a command mentions: `all_reduce_perf`, `msccl allreduce`."""
    for word in re.findall(r"[a-z_]+", text.lower()):
        name = BY_NAME.get(word.split("_perf")[0].replace("_", ""))
        if name and ("_perf" in word or word.startswith("all")):
            return name
    return None


def read_log(text: str, source: str, label: str | None) -> tuple[list[Table], list[str]]:
    """All tables of a log, and the lines that cannot be read."""
    tables: list[Table] = []
    problems = []
    table: Table | None = None
    title = program = variable = ""
    stated: set[int] = set()
    stem = Path(source).stem
    for number, labelled in enumerate(text.splitlines(), start=1):
        line = LAUNCHER_LABEL.sub("", labelled, count=1)
        body = line.lstrip("# \t")
        tokens = body.lower().split()
        if tokens[:1] == ["size"] and {"algbw", "busbw"} & set(tokens):
            columns = [name for name in tokens if name != "timestamp"]
            table = Table(source, number, label or title or variable or stem, columns)
            collectives = map(find_collective, (program, title, stem))
            table.collective, table.stated = next(filter(None, collectives), None), stated
            tables.append(table)
        elif found := re.match(r"OSU \S+ (.+?)(?: Latency)?(?: Test)?(?: v[\d.]+)?$", body):
            table = Table(source, number, label or found[1], [])
            table.collective = BY_NAME.get(found[1].lower().replace("-", ""))
            tables.append(table)
        elif table and not table.columns and tokens[:1] == ["size"]:
            names = re.split(r"\s{2,}", body.lower().strip())
            table.columns = [OSU_COLUMNS.get(name, name) for name in names]
        elif "Avg bus bandwidth" in body:  # a run ends
            table, title, program, variable, stated = None, "", "", "", set()
        elif line.startswith("```"):  # a code block of Markdown begins or ends
            table = None
        elif found := re.search(r"\bnranks (\d+)", body):
            stated.add(int(found[1]))
        elif found := re.match(r"Rank +(\d+) .*Pid +\d+ on ", body):
            stated.clear()
            stated.add(int(found[1]) + 1)
        elif found := re.search(r"NCCL_ALGO *(?:set by environment to|=) *\"?(\w+)", body):
            variable = found[1]
        elif table and tokens and tokens[0].isdigit():
            if len(tokens) < len(table.columns):
                words = f"{len(tokens)} values for {len(table.columns)} columns"
                problems.append(f"{source}:{number}: cannot read this line: {words}")
            else:
                add_rows(table, number, tokens)
        elif "_perf" in body and find_collective(body):
            program = body
        elif line.startswith("#") and len(tokens) <= 6 and ALGORITHM.search(body):
            title = body
    return tables, problems


def add_rows(table: Table, number: int, tokens: list[str]) -> None:
    """Add a line; out of place and in place have the same columns, each from `time` on."""
    begins = [place for place, name in enumerate(table.columns) if name == "time"] or [0]
    width = begins[1] - begins[0] if begins[1:] else None
    for place, begin in zip(("out", "in") if width else (None,), begins, strict=True):
        names, values = (one[: begins[0]] + one[begin:][:width] for one in (table.columns, tokens))
        cells = dict(zip(names, values, strict=False))
        time, time_half = read_value(cells.get("time"), 1e-6)
        algbw, algbw_half = read_value(cells.get("algbw"), 1e9)
        if "mb/s" in cells:  # of OSU
            algbw, algbw_half = read_value(cells["mb/s"], 1e6)
        busbw, busbw_half = read_value(cells.get("busbw"), 1e9)
        row = {
            "source": table.source,
            "line": number,
            "algorithm": table.name,
            "size_bytes": int(cells["size"]),
            "type": cells.get("type"),
            "redop": None if cells.get("redop") == "none" else cells.get("redop"),
            "root": read_integer(cells.get("root")),
            "placement": place,
            "time_seconds": time,
            "algbw_bytes_per_second": algbw,
            "busbw_bytes_per_second": busbw,
            "wrong": read_integer(cells.get("#wrong")),
            "halves": (time_half, algbw_half, busbw_half),
        }
        table.rows.append(row)


def measure_factor(table: Table) -> tuple[float, float] | None:
    """busbw / algbw, and how far rounding may have moved it, by the half of the lines that it moves
    least; None where it moves all of them by more than 2 %."""
    found = []
    for row in table.rows:
        algbw, busbw = row["algbw_bytes_per_second"], row["busbw_bytes_per_second"]
        if algbw and busbw:
            _, algbw_half, busbw_half = row["halves"]
            doubt = 0.0 if algbw == busbw else algbw_half / algbw + busbw_half / busbw
            if doubt < 0.02:
                found.append((doubt, busbw / algbw))
    best = sorted(found)[: 1 + len(found) // 2]
    if not best:
        return None
    factor = statistics.median(factor for _, factor in best)
    return factor, factor * statistics.median(doubt for doubt, _ in best)


def infer_run(table: Table, ranks: int | None) -> str | None:
    """Set collective and ranks where the log leaves them open (`ranks`: --ranks); a note."""
    table.ranks = min(table.stated) if len(table.stated) == 1 else ranks
    measured = measure_factor(table)
    if (table.collective and table.ranks) or measured is None:
        return None
    factor, doubt = measured
    redop, root = table.rows[0]["redop"], table.rows[0]["root"]
    names: Sequence[str] = (table.collective,) if table.collective else COLLECTIVES
    if not table.collective and redop and root is not None:
        names = ("all_reduce", "reduce_scatter") if root < 0 else ("reduce",)
    counts = [table.ranks] if table.ranks else range(2, MAX_RANKS)
    fits = [(name, n) for name in names for n in counts
            if abs(bus_factor(name, n) - factor) <= doubt]  # fmt: skip
    text = f"{table.source}:{table.line}: busbw / algbw = {factor:.4g}"
    left = sorted({name for name, _ in fits})
    if len(left) != 1:
        return f"{text} fits {' or '.join(left) or 'no collective'}: not checked"
    table.collective = left[0]
    if len(fits) > 1:  # of a factor of 1 any number fits, and none is needed
        words = f"{text} fits {fits[0][1]} to {fits[-1][1]} ranks: use --ranks"
        return words if left[0] in ("all_reduce", *PARTIAL) else None
    table.ranks = fits[0][1]
    return f"{text}: inferred {left[0]} of {table.ranks} ranks"


def judge(table: Table) -> list[str]:
    """Set the verdict of each row; the problems of the table."""
    factor, doubt = measure_factor(table) or (None, 0.0)
    if table.collective and (table.ranks or table.collective not in ("all_reduce", *PARTIAL)):
        factor, doubt = bus_factor(table.collective, table.ranks or 2), 0.0
    problems = []
    for row in table.rows:
        size, time = row["size_bytes"], row["time_seconds"]
        algbw, busbw = row["algbw_bytes_per_second"], row["busbw_bytes_per_second"]
        time_half, algbw_half, busbw_half = row.pop("halves")
        fault = None
        if algbw and time and time > time_half:
            right, highest = size / time, size / (time - time_half)
            if abs(algbw - right) > algbw_half + highest - right:
                fault = f"algbw {algbw / 1e9:g} is not size / time, {right / 1e9:.4g}"
        if algbw and busbw and factor and not fault:
            right = factor * algbw
            if abs(busbw - right) > busbw_half + (factor + doubt) * algbw_half + doubt * algbw:
                fault = f"busbw {busbw / 1e9:g} is not {factor:.4g} * algbw, {right / 1e9:.4g}"
        if row["wrong"]:
            fault = f"{row['wrong']} wrong values"
        row |= {"collective": table.collective, "ranks": table.ranks}
        row |= {"verdict": "disagrees" if fault else "ok", "verdict_reason": fault}
        if fault:
            place = {"out": "out-of-place ", "in": "in-place "}.get(row["placement"], "")
            problems.append(f"{table.source}:{row['line']}: {place}{fault}")
    return problems


def find_crossovers(speedups: dict[int, float]) -> list[Row]:
    """Where faster turns to slower or back: the last size before and the first size after."""
    clear = {n: s for n, s in sorted(speedups.items()) if not 1 / (1 + BAND) <= s <= 1 + BAND}
    return [
        {"above_bytes": low, "below_bytes": high, "faster_from_here": after > 1}
        for (low, before), (high, after) in itertools.pairwise(clear.items())
        if (before > 1) != (after > 1)
    ]


def compare_tables(tables: Sequence[Table], wanted: str, report: Report) -> list[Row]:
    """All tables against the one of that name, by placement. Raises UsageError."""
    found = [table for table in tables if wanted.lower() in table.name.lower()]
    if len(found) != 1:
        names = ", ".join(table.name for table in tables)
        raise UsageError(f"--against {wanted}: {len(found)} tables have this name, of {names}")
    comparisons = []
    kind, base = describe_kind(found[0]), found[0]
    for table in (table for table in tables if table is not base):
        if describe_kind(table) != kind:
            report.note(f"{table.name} is not compared: {describe_kind(table)} is not {kind}")
            continue
        for place in dict.fromkeys(row["placement"] for row in base.rows):
            ours, theirs = (
                {row["size_bytes"]: row["time_seconds"] for row in one.good()
                 if row["placement"] == place and row["time_seconds"]}
                for one in (base, table)
            )  # fmt: skip
            speedups = {size: ours[size] / theirs[size] for size in ours if size in theirs}
            comparisons.append({
                "base": base.name, "other": table.name, "placement": place, "speedups": speedups,
                "crossovers": find_crossovers(speedups),
            })  # fmt: skip
    return comparisons


def describe_kind(table: Table) -> tuple[Any, ...]:
    """What has to be equal in two tables: collective, ranks, data type and operation."""
    return table.collective, table.ranks, table.rows[0]["type"], table.rows[0]["redop"]


def print_tables(tables: Sequence[Table]) -> None:
    """All rows, and the best busbw of each table."""
    headings = ("algorithm", "size", "place", "time µs", "algbw GB/s", "busbw GB/s", "verdict")
    cells = []
    for row in (row for table in tables for row in table.rows):
        shown = [
            "-" if row[name] is None else f"{row[name] / scale:.4g}"
            for name, scale in SCALES.items()
        ]
        verdict = "ok" if row["verdict"] == "ok" else f"DISAGREES, line {row['line']}"
        where = (row["algorithm"], format_bytes(row["size_bytes"]), row["placement"])
        cells.append((*where, *shown, verdict))
    print(f"{format_table(headings, cells)}\n")
    for table in tables:
        rates = [(row["busbw_bytes_per_second"] or 0, row["size_bytes"]) for row in table.good()]
        rate, size = max(rates, default=(0, 0))
        what = f"{table.collective or 'unknown collective'} of {table.ranks or '?'} ranks"
        print(f"{table.name}: {what}, best busbw {rate / 1e9:.4g} GB/s at {format_bytes(size)}")


def print_comparisons(comparisons: Sequence[Row]) -> None:
    """Speedups by size, and the crossovers."""
    sizes = sorted({size for one in comparisons for size in one["speedups"]})
    names = [f"{one['other']}, {one['placement'] or 'all'}" for one in comparisons]
    columns = [
        {size: f"{speedup:.2f}" for size, speedup in one["speedups"].items()} for one in comparisons
    ]
    rows = [(format_bytes(size), *(column.get(size) for column in columns)) for size in sizes]
    print(format_table(("speedup at", *names), rows) + "\n")
    for name, one in zip(names, comparisons, strict=True):
        turns = [
            f"{'faster' if turn['faster_from_here'] else 'slower'} than {one['base']} from between "
            f"{format_bytes(turn['above_bytes'])} and {format_bytes(turn['below_bytes'])}"
            for turn in one["crossovers"]
        ]
        print(f"{name}: {', '.join(turns) or 'no crossover'}")


def read_files(names: Sequence[str]) -> tuple[list[Table], list[str]]:
    """All tables of the files, and what is wrong with the files. Raises OSError."""
    tables, problems = [], []
    for argument in names:
        label, equals, name = argument.partition("=")
        label, name = (label, name) if equals else ("", argument)
        text = sys.stdin.read() if name == "-" else Path(name).read_text(errors="replace")
        source = "stdin" if name == "-" else Path(name).name
        found, unread = read_log(text, source, label or None)
        tables += [table for table in found if table.rows]
        problems += unread + ([] if found else [f"{source}: no table in this file"])
    return tables, problems


def build_parser() -> Parser:
    parser = Parser(__doc__, tool="nccl_log", version=__version__, method=METHOD, demo=[])
    add = parser.add_argument
    # fmt: off
    add("logs", nargs="*", metavar="[NAME=]FILE",
        help="text or Markdown, - for standard input; NAME is its algorithm")
    add("--against", metavar="NAME", help="compare all algorithms with this one, size by size")
    add("--ranks", type=positive_int, metavar="N", help="number of ranks, where the log has none")
    add("--plot", metavar="PATH", help="with --against, plot speedup over size as SVG or PNG")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    if not options.logs and not options.demo:
        raise UsageError("name a log to read, or - for standard input")
    if options.plot and not options.against:
        raise UsageError("--plot needs --against")
    report = Report("nccl_log", __version__, METHOD, options.json)
    tables, problems = read_log(DEMO, "demo", None) if options.demo else read_files(options.logs)
    for table in tables:
        if note := infer_run(table, options.ranks):
            report.note(note)
        problems += judge(table)
        report.rows += table.rows
    comparisons = compare_tables(tables, options.against, report) if options.against else []
    report.complete = True
    report.details |= {"problems": problems, "comparisons": comparisons}
    if comparisons:
        print_comparisons(comparisons)
    elif tables:
        print_tables(tables)
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    report.save()
    if options.plot:
        curves = {f"{one['other']}, {one['placement']}": one["speedups"] for one in comparisons}
        draw_curves(options.plot, curves, f"speedup over {options.against}")
    if options.demo:  # the mistyped busbw was planted
        return int(problems != ["demo:13: in-place busbw 29.24 is not 1.75 * algbw, 22.94"])
    return int(bool(problems))


if __name__ == "__main__":
    start(main)
