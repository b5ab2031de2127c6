#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Is my run faster or slower than that one, and are the two comparable at all?

Takes two JSON files of the same tool: what the tool wrote with `--json`, or a record of the book
(scripts/records/). Prints your value next to the other one, row by row, and a verdict.

Two runs are comparable if the tool, its METHOD and the settings that the tool names are the same.
Anything else is refused, with the reason.

## Formulas

`ratio = yours / other`. A row is `within` if the ratio differs from 1 by at most
`margin = max(5 %, spread)`, where spread is the larger relative IQR of the two rows. A difference
of more than three margins is `far`. The run is judged by the geometric mean of the ratios and the
median margin. Rows that the tool itself did not trust are left out and counted.

## How to run

    python mamf_finder.py --json mine.json
    python compare.py mine.json theirs.json

## A good answer

Every row is `within`. If every row is slower by the same factor, look at clocks and power limits.

Exit status: 0 not worse; 1 worse than the other run by more than the margin; 2 not comparable, or
usage error.
"""

import math
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from kit.cli import Parser, UsageError, start
from kit.report import format_table, read_json
from kit.stats import earned

__version__ = "0.2.0"

PROFILES = {"demo": ["demo", "demo"], "full": []}
TOLERANCE = 0.05
FAR = 3.0
SCALES = {"FLOP/s": (1e12, "TFLOPS"), "B/s": (1e9, "GB/s"), "s": (1e-3, "ms"), "B": (2**20, "MiB")}
DEMO: dict[str, Any] = {
    "tool": "demo", "method": 1, "units": {"rate": "B/s"},
    "results": [
        {"size": "1 MiB", "rate": 4.0e9, "spread": 0.02, "verdict": "ok"},
        {"size": "1 GiB", "rate": 9.0e9, "spread": 0.01, "verdict": "ok"},
        {"size": "16 GiB", "rate": 9.5e9, "spread": None, "verdict": "one sample"},
    ],
    "details": {"compare": {"keys": ["size"], "value": "rate", "better": "higher",
                            "spread": "spread", "trusted": {"verdict": ["ok"]}}},
}  # fmt: skip


Pair = tuple[str, float, float, float]
"""A row of both runs: its keys, your value, the other one, and the margin."""


def read_run(path: str) -> dict[str, Any]:
    """A tool's JSON or a record. Raises UsageError for anything else."""
    document = read_json("compare", path)
    if not isinstance(document, dict) or not {"tool", "method", "results"} <= document.keys():
        raise UsageError(f"{path} is not the JSON of a companion tool")
    return document


def find_setting(document: dict[str, Any], place: str) -> Any:
    """The value at a dotted path, None where there is none."""
    value: Any = document
    for part in place.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def refuse_unlike(mine: dict[str, Any], other: dict[str, Any], terms: dict[str, Any]) -> None:
    """Raise UsageError with all reasons why the two runs cannot be compared."""
    differences = [
        f"{place.rpartition('.')[2]} is {a} in yours and {b} in the other"
        for place in ("tool", "method", *terms.get("alike", ()))
        if (a := find_setting(mine, place)) != (b := find_setting(other, place))
    ]
    if differences:
        raise UsageError("not comparable: " + "; ".join(differences))


def index_rows(document: dict[str, Any], terms: dict[str, Any]) -> dict[str, Any]:
    """The rows that the tool itself trusted, by their keys."""
    trusted = terms.get("trusted", {})
    return {
        ", ".join(str(row.get(key)) for key in terms["keys"]): row
        for row in document["results"]
        if row.get(terms["value"]) and all(row.get(c) in v for c, v in trusted.items())
    }


def pair_rows(mine: dict[str, Any], other: dict[str, Any], terms: dict[str, Any]) -> list[Pair]:
    """The rows that both runs have, the most different first."""
    mine_rows, other_rows = index_rows(mine, terms), index_rows(other, terms)
    pairs: list[Pair] = []
    for label in (label for label in mine_rows if label in other_rows):
        rows = mine_rows[label], other_rows[label]
        margin = max(TOLERANCE, *(row.get(terms.get("spread")) or 0.0 for row in rows))
        pairs.append((label, *(row[terms["value"]] for row in rows), margin))
    if not pairs:
        raise UsageError("not comparable: no row that both runs measured well")
    return sorted(pairs, key=lambda pair: -abs(math.log(pair[1] / pair[2])))


def judge(ratio: float, margin: float) -> str:
    """`within`, `below` or `above`, with `far` beyond three margins."""
    if abs(ratio - 1) <= margin:
        return "within"
    return ("far " if abs(ratio - 1) > FAR * margin else "") + ("below" if ratio < 1 else "above")


def build_parser() -> Parser:
    parser = Parser(__doc__, tool="compare", version=__version__, demo=PROFILES["demo"], json=False)
    parser.add_argument("mine", help="JSON of your run")
    parser.add_argument("other", help="JSON or record to compare it with")
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    paths = (options.mine, options.other)
    mine, other = (DEMO, DEMO) if options.demo else map(read_run, paths)
    terms = find_setting(mine, "details.compare")
    if terms is None:
        raise UsageError(f"{mine['tool']} does not say how its runs are compared")
    refuse_unlike(mine, other, terms)
    pairs = pair_rows(mine, other, terms)
    unit = mine["units"][terms["value"]]
    factor, shown = SCALES.get(unit, (1.0, unit))
    cells = []
    for label, yours, theirs, margin in pairs:
        values = (earned(value / factor, margin * value / factor / 2) for value in (yours, theirs))
        ratio = yours / theirs
        cells.append(
            (label, *values, f"{100 * ratio:.1f}", f"{100 * margin:.0f}", judge(ratio, margin))
        )
    headings = (", ".join(terms["keys"]), f"yours, {shown}", "other", "ratio %", "margin %",
                "verdict")  # fmt: skip
    print(format_table(headings, cells))
    ratio = statistics.geometric_mean(yours / theirs for _, yours, theirs, _ in pairs)
    verdict = judge(ratio, statistics.median(margin for *_, margin in pairs))
    print(
        f"\n{verdict}: yours is at {100 * ratio:.1f} % of the other run, over {len(pairs)} rows "
        f"({terms['better']} is better)"
    )
    for name, run in (("yours", mine), ("other", other)):
        model = find_setting(run, "details.header.device_model")
        print(f"{name}: {model or find_setting(run, 'machine.label') or 'unknown hardware'}")
    if left_out := len(mine["results"]) - len(pairs):
        print(f"note: {left_out} rows left out: not measured well, or only in one run",
              file=sys.stderr)  # fmt: skip
    worse = "below" if terms["better"] == "higher" else "above"
    return int(worse in verdict)


if __name__ == "__main__":
    start(main)
