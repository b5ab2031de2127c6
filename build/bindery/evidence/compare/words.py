"""The result of a comparison as sentences, a table and JSON, in customary units and with the
digits that the measurement supports."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from bindery.core.report import count_noun
from bindery.core.units import UNITS
from bindery.evidence.compare.judge import (
    NOT_JUDGED,
    Comparison,
    RowVerdict,
    describe_power_limit,
    is_worse,
    shorten,
    show_scalar,
)
from bindery.evidence.records import Record
from bindery.evidence.tables import Column, Table, format_markdown

_SOFTWARE = ("torch", "cuda", "rocm", "nccl", "rccl", "driver")
_SHOWN_UNITS = {
    "FLOP/s": "TFLOPS GFLOPS",
    "FLOP": "TFLOP GFLOP",
    "B/s": "GBps MBps kBps",
    "B": "GB MB kB B",
    "Hz": "GHz MHz Hz",
    "s": "s ms µs",
    "degC": "°C",
}


def format_earned(value: float, uncertainty: float | None) -> str:
    """A number with the digits that its uncertainty supports, at best one part in a thousand; with
    `~` and one digit if it supports none, with two digits if the uncertainty is unknown."""
    if value == 0:
        return "0"
    size = abs(value)
    doubt = 0.1 * size if uncertainty is None else max(abs(uncertainty), size * 1e-3)
    is_rough = uncertainty is None or doubt >= size
    decimals = -math.floor(math.log10(min(doubt, size)))
    return f"{'~' if is_rough else ''}{round(value, decimals):.{max(decimals, 0)}f}"


def write_sentences(comparison: Comparison) -> list[str]:
    """The verdict in plain words, its basis, and what is left out."""
    run, reference, rows = comparison.run, comparison.reference, comparison.rows
    source, record = run.source, reference.record
    unit, factor = _choose_scale(comparison)
    nodes = f"{record.nodes}-node " if record.nodes > 1 else ""
    day = reference.started[:10] + (f" (stale: {reference.stale})" if reference.stale else "")
    what = f"the recorded {nodes}run of {day} on {record.machine.hardware}"
    percent = f"{100 * comparison.ratio:.1f} %"
    if len(rows) == 1:
        yours, _, _, expected = _show_numbers(rows[0], factor)
        head = (
            f"your {yours} {unit}".rstrip()
            + f" is at {percent} of {what} ({reference.name}); expected {expected}: "
            f"{comparison.verdict}"
        )
    else:
        low, high = (100 * max(0.0, 1 + sign * comparison.margin) for sign in (-1, 1))
        head = (
            f"your run is at {percent} of {what} ({reference.name}), the geometric mean of "
            f"{len(rows)} rows; expected {low:.1f} to {high:.1f} %: {comparison.verdict}"
        )
    sentences = [head]
    if len(rows) > 1 and comparison.verdict != NOT_JUDGED:
        verdicts = [row.verdict for row in rows]
        counts = [f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts)]
        sentences.append(f"rows: {', '.join(counts)}")
    far = [row.verdict for row in rows if row.verdict.startswith("far")]
    if not all(is_worse(verdict, comparison.terms) for verdict in far):
        sentences.append("a result far better than recorded needs an explanation too")
    if not source.complete:
        reason = "not everything requested was measured"
        if isinstance(source, Record):
            reason = f"it ended as '{source.ended}'"
        sentences.append(f"yours is partial: {reason}")
    if isinstance(source, Record) and source.ended == "failed":
        sentences.append(
            f"your run exited with status {source.exit_status}: the tool found a problem"
        )
    limit = describe_power_limit(record.machine)
    if run.machine is None:
        consequence = NOT_JUDGED if comparison.verdict == NOT_JUDGED else "not checked"
        sentences.append(
            f"{consequence}: your hardware is unknown, the record's is {record.machine.hardware}; "
            "run `env_report.py --json FILE` on your machine and pass --facts FILE"
        )
    elif limit and not describe_power_limit(run.machine):
        sentences.append(f"not checked: whether yours also has a power limit of {limit}")
    if run.nodes is None or run.ranks is None:
        sentences.append(
            f"not checked: whether yours also has {count_noun(record.nodes, 'node')} and "
            f"{count_noun(record.ranks, 'rank')}"
        )
    if isinstance(source, Record):
        sentences += _compare_surroundings(source, record)
    return sentences + shorten(comparison.left_out)


def _compare_surroundings(yours: Record, theirs: Record) -> Iterator[str]:
    """A sentence for each software version and environment variable that differs."""
    for name in _SOFTWARE:
        version, other = yours.software.get(name), theirs.software.get(name)
        if version is not None and other is not None and version != other:
            yield f"{name} is {version} in yours and {other} in the record"
    for name in sorted({*yours.environment, *theirs.environment}):
        ours, recorded = (
            f"'{run.environment[name]}'" if name in run.environment else "not set"
            for run in (yours, theirs)
        )
        if ours != recorded:
            yield f"{name} is {ours} in yours and {recorded} in the record"


def write_table(comparison: Comparison) -> str:
    """The rows as a Markdown table."""
    terms = comparison.terms
    unit, factor = _choose_scale(comparison)
    suffix = f", {unit}" if unit else ""
    better = "" if terms.higher_is_better else " (lower is better)"
    member = [terms.member] if terms.member else []
    headings = [*terms.keys, *member, f"yours{suffix}{better}"]
    headings += ["recorded", "%", "expected", "verdict"]
    columns = tuple(Column(str(index), heading) for index, heading in enumerate(headings))
    rows = []
    for row in comparison.rows:
        key = [show_scalar(value) for _, value in row.key]
        member = [row.member] if terms.member else []
        rows.append((*key, *member, *_show_numbers(row, factor), row.verdict))
    return format_markdown(Table("", columns, tuple(rows)))


def _choose_scale(comparison: Comparison) -> tuple[str, float]:
    """The customary unit for such numbers, and its size in the base unit."""
    unit = comparison.run.source.units.get(comparison.terms.value, "1")
    if unit not in _SHOWN_UNITS:
        return "" if unit == "1" else unit, 1.0
    largest = max(row.recorded.value for row in comparison.rows)
    scales = [(name, UNITS[name].size) for name in _SHOWN_UNITS[unit].split()]
    return next((scale for scale in scales if largest >= scale[1]), scales[-1])


def _show_numbers(row: RowVerdict, factor: float) -> tuple[str, str, str, str]:
    """Yours, recorded, percent, and expected."""

    spreads = [spread for spread in (row.spread, row.recorded.spread) if spread is not None]
    # The uncertainty of the median is about half of the interquartile range. Both numbers are shown
    # as exactly as the better one, so that they agree with the ratio.
    doubt = min(spreads) * row.recorded.value / factor / 2 if spreads else None
    step = row.margin * row.recorded.value / factor / 10
    low, high = (
        format_earned(max(0.0, row.recorded.value * (1 + sign * row.margin)) / factor, step)
        for sign in (-1, 1)
    )
    return (
        format_earned(row.yours / factor, doubt),
        format_earned(row.recorded.value / factor, doubt),
        f"{100 * row.ratio:.1f}",
        f"{low} to {high}",
    )


def make_document(comparison: Comparison, tolerance: float) -> dict[str, Any]:
    """The comparison as JSON, in base units."""
    run, reference = comparison.run, comparison.reference
    return {
        "record": reference.name,
        "started": reference.started,
        "hardware": reference.record.machine.hardware,
        "hardware_checked": run.machine is not None,
        "tolerance": tolerance,
        "ratio": comparison.ratio,
        "verdict": comparison.verdict,
        "worse": comparison.is_worse,
        "rows": [
            {
                **dict(zip(comparison.terms.keys, (v for _, v in row.key), strict=True)),
                **({comparison.terms.member: row.member} if comparison.terms.member else {}),
                "yours": row.yours,
                "recorded": row.recorded.value,
                "ratio": row.ratio,
                "low": max(0.0, row.recorded.value * (1 - row.margin)),
                "high": row.recorded.value * (1 + row.margin),
                "verdict": row.verdict,
            }
            for row in comparison.rows
        ],
        "left_out": list(comparison.left_out),
        "sentences": write_sentences(comparison),
    }
