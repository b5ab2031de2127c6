"""Compare a run with a recorded one, or explain why they are not comparable.

A run is compared with a record of the same tool, method, hardware, power limit, nodes, ranks and
settings, and a row with the row that has the same keys; a tool declares keys and settings in its
terms (see `declaration`). A failed run can be compared, but is not a reference. The expected range
is `recorded * (1 ± max(tolerance, spread))`. The spread is that of the recorded samples
(interquartile range over median): the median of another run does not leave it without a reason.
The tolerance covers the difference between two machines of one kind. Beyond three times this
margin, a row is far off.

A run as a whole is judged by the geometric mean of yours over recorded, with the median margin of
its rows, and by any row that is far worse.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bindery.core.report import count_noun
from bindery.evidence.compare.declaration import Terms

if TYPE_CHECKING:
    from bindery.evidence.records import Machine, Record, Scalar, ToolOutput

TOLERANCE = 0.05
FAR = 3.0
_LISTED = 5
_REASONS = 3

Key = tuple[tuple[bool, "Scalar"], ...]


class Verdict(enum.StrEnum):
    """A number relative to its expected range; by itself neither good nor bad."""

    WITHIN = "within"
    BELOW = "below"
    FAR_BELOW = "far below"
    ABOVE = "above"
    FAR_ABOVE = "far above"


class NothingAlikeError(Exception):
    """No record is comparable with the run; `reasons` are sentences, the nearest first."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


@dataclass(frozen=True, slots=True)
class Run:
    """The run to compare: a record, or what a tool wrote, which knows no machine."""

    source: Record | ToolOutput
    settings: Mapping[str, Scalar]
    """What has to be equal besides keys, by its place."""
    machine: Machine | None
    nodes: int | None
    ranks: int | None
    """None, as for machine and nodes, means unknown."""
    name: str = ""
    """Of the record, where it is one of the book."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The answer of one or several recorded rows with the same keys."""

    value: float
    spread: float | None


@dataclass(frozen=True, slots=True)
class Reference:
    """A record that others are compared with."""

    name: str
    record: Record
    settings: Mapping[str, Scalar]
    rows: Mapping[Key, Recorded]
    untrusted: Mapping[Key, str]
    """Rows that cannot be compared, each with the reason."""
    stale: str = ""
    """Why its record is stale, where it is."""

    @property
    def started(self) -> str:
        """When, in UTC: `2026-11-20T19:00:34Z`."""
        return f"{self.record.started:%Y-%m-%dT%H:%M:%SZ}"


def describe_power_limit(machine: Machine) -> str:
    """`700 W`, or `2 x 500 W, 6 x 700 W`; empty where it is not known of every accelerator."""
    limits = [accelerator.power_limit_watts for accelerator in machine.accelerators]
    counts = Counter(round(limit) for limit in limits if limit is not None)
    if counts.total() < len(limits):
        return ""
    if len(counts) == 1:
        return f"{next(iter(counts))} W"
    return ", ".join(f"{count} x {limit} W" for limit, count in sorted(counts.items()))


def make_run(
    source: Record | ToolOutput, terms: Terms, *, name: str = "", machine: Machine | None = None
) -> Run:
    """What is to be compared, from a record or from what a tool wrote with `--json`.

    The JSON of a tool says nothing of the machine: give `machine` where it is known.
    """
    from bindery.evidence.records import Record

    settings = _read_settings(source, terms)
    if isinstance(source, Record):
        return Run(source, settings, source.machine, source.nodes, source.ranks, name)
    alone = None if terms.has_ranks else 1
    return Run(source, settings, machine, alone, alone, name)


def make_reference(name: str, record: Record, terms: Terms, *, stale: str = "") -> Reference:
    """What others are compared with, from a record. Rows with equal keys, such as those of the
    devices of a node, are one: their median, with the range over them as spread."""
    gathered: dict[Key, list[Recorded]] = {}
    untrusted: dict[Key, str] = {}
    for row in record.results:
        key = read_key(row, terms)
        if reason := explain_distrust(row, terms):
            untrusted[key] = reason
        else:
            value = _read_number(row, terms.value) or 0.0
            gathered.setdefault(key, []).append(Recorded(value, _read_number(row, terms.spread)))
    rows = {key: _pool(entries) for key, entries in gathered.items()}
    untrusted = {key: reason for key, reason in untrusted.items() if key not in rows}
    return Reference(name, record, _read_settings(record, terms), rows, untrusted, stale)


def make_references(
    records: Mapping[str, Record], terms: Terms, stale: Mapping[str, str]
) -> list[Reference]:
    """What others are compared with, from the whole records of runs without a problem that have a
    row for it. `stale` has the reasons of those that are, by name."""
    references = [
        make_reference(name, record, terms, stale=stale.get(name, ""))
        for name, record in records.items()
        if record.tool == terms.tool and record.complete and record.ended != "failed"
    ]
    return [reference for reference in references if reference.rows]


def _pool(entries: Sequence[Recorded]) -> Recorded:
    if len(entries) == 1:
        middle, spread = entries[0].value, entries[0].spread
    else:
        values = [entry.value for entry in entries]
        middle = statistics.median(values)
        spreads = [entry.spread for entry in entries if entry.spread is not None]
        wide = statistics.median(spreads) if spreads else 0.0
        spread = max(wide, (max(values) - min(values)) / middle)
    # As many digits as a comparison can use.
    return Recorded(float(f"{middle:.6g}"), None if spread is None else float(f"{spread:.3g}"))


def _read_settings(source: Record | ToolOutput, terms: Terms) -> dict[str, Scalar]:
    settings: dict[str, Scalar] = {}
    for place in terms.alike:
        value: Any = {"details": source.details}
        for part in place.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        settings[place] = value if isinstance(value, str | int | float | bool) else None
    return settings


def read_key(row: Mapping[str, Scalar], terms: Terms) -> Key:
    """The keys of a row; true is not 1, and 1 is 1.0."""
    return tuple((isinstance(row.get(key), bool), row.get(key)) for key in terms.keys)


def explain_distrust(row: Mapping[str, Scalar], terms: Terms) -> str:
    """Why a row cannot be compared, or an empty text where it can."""
    for column, values in terms.trusted.items():
        if row.get(column) not in values:
            return f"{column} is '{show_scalar(row.get(column))}'"
    value = _read_number(row, terms.value)
    if value is None or value <= 0:
        return f"{terms.value} is {show_scalar(row.get(terms.value))}"
    return ""


def _read_number(row: Mapping[str, Scalar], column: str) -> float | None:
    value = row.get(column)
    return float(value) if isinstance(value, int | float) and type(value) is not bool else None


def show_scalar(value: Scalar) -> str:
    """A value in a sentence."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


# --- comparing ---


@dataclass(frozen=True, slots=True)
class RowVerdict:
    """A row of the run beside the recorded one."""

    key: Key
    member: str
    yours: float
    spread: float | None
    recorded: Recorded
    margin: float
    """How far off it may be, as a share of the recorded value."""
    verdict: Verdict

    @property
    def ratio(self) -> float:
        return self.yours / self.recorded.value


@dataclass(frozen=True, slots=True)
class Comparison:
    """A run beside a record."""

    terms: Terms
    run: Run
    reference: Reference
    rows: tuple[RowVerdict, ...]
    """The most remarkable first."""
    left_out: tuple[str, ...]
    """Rows of the run that are not compared, each with the reason."""
    ratio: float
    margin: float
    verdict: Verdict

    @property
    def is_worse(self) -> bool:
        """Whether the run is worse than expected."""
        return is_worse(self.verdict, self.terms) or any(
            row.verdict.startswith("far") and is_worse(row.verdict, self.terms) for row in self.rows
        )


def is_worse(verdict: Verdict, terms: Terms) -> bool:
    """Whether a number is on the wrong side of what is expected."""
    return verdict.endswith("below" if terms.higher_is_better else "above")


def judge_ratio(ratio: float, margin: float) -> Verdict:
    """The verdict on yours over recorded."""
    if abs(ratio - 1) <= margin:
        return Verdict.WITHIN
    if ratio < 1:
        return Verdict.FAR_BELOW if 1 - ratio > FAR * margin else Verdict.BELOW
    return Verdict.FAR_ABOVE if ratio - 1 > FAR * margin else Verdict.ABOVE


def compare_run(
    run: Run, references: Iterable[Reference], terms: Terms, tolerance: float = TOLERANCE
) -> Comparison:
    """Compare the run with the newest comparable record that shares a row with it.

    `tolerance` is a share. Raises NothingAlikeError if there is no such record.
    """
    others = sorted(references, key=lambda each: (each.started, each.name), reverse=True)
    alike = [reference for reference in others if not list(find_differences(run, reference))]
    for reference in alike:
        rows, left_out = _match_rows(run, reference, terms, tolerance)
        if rows:
            rows.sort(key=lambda row: _rank_verdict(row.verdict, terms))
            ratio = math.exp(statistics.fmean(math.log(row.ratio) for row in rows))
            margin = statistics.median(row.margin for row in rows)
            return Comparison(
                terms, run, reference, tuple(rows), tuple(left_out), ratio, margin,
                judge_ratio(ratio, margin),
            )  # fmt: skip
    if not others:
        only = f" but {run.name} itself" if run.name else ""
        raise NothingAlikeError([f"there is no whole record of {run.source.tool}{only}"])
    if alike:
        _, left_out = _match_rows(run, alike[0], terms, tolerance)
        reason = f"none of your rows can be compared with one of {alike[0].name}"
        raise NothingAlikeError([reason, *shorten(left_out)])
    raise NothingAlikeError(_explain_differences(run, others))


def _rank_verdict(verdict: Verdict, terms: Terms) -> tuple[bool, bool, bool]:
    """The worst first, what is as expected last."""
    return verdict == Verdict.WITHIN, not is_worse(verdict, terms), not verdict.startswith("far")


def _match_rows(
    run: Run, reference: Reference, terms: Terms, tolerance: float
) -> tuple[list[RowVerdict], list[str]]:
    rows: list[RowVerdict] = []
    left_out: list[str] = []
    for row in run.source.results:
        key = read_key(row, terms)
        member = show_scalar(row.get(terms.member)) if terms.member else ""
        label = show_key(key, member, terms)
        recorded = reference.rows.get(key)
        if reason := explain_distrust(row, terms):
            left_out.append(f"{label}: {reason} in yours")
        elif key in reference.untrusted:
            left_out.append(f"{label}: {reference.untrusted[key]} in the record")
        elif recorded is None:
            left_out.append(f"{label}: the record has no such row")
        else:
            yours, spread = _read_number(row, terms.value) or 0.0, _read_number(row, terms.spread)
            margin = max(tolerance, recorded.spread or 0.0)
            verdict = judge_ratio(yours / recorded.value, margin)
            rows.append(RowVerdict(key, member, yours, spread, recorded, margin, verdict))
    return rows, left_out


def show_key(key: Key, member: str, terms: Terms) -> str:
    """Which row this is: `dtype bfloat16, m 256 on cuda:3`."""
    text = ", ".join(f"{n} {show_scalar(v)}" for n, (_, v) in zip(terms.keys, key, strict=True))
    return f"{text} on {member}" if member else text


# --- why not ---


def find_differences(run: Run, reference: Reference) -> Iterator[tuple[str, str]]:
    """What makes a record and a run not comparable: of the record, and of the run."""
    record = reference.record
    if run.source.method != record.method:
        yield f"of method {record.method}", f"of method {run.source.method}"
    if run.machine is not None:
        ours, theirs = run.machine.hardware, record.machine.hardware
        limit, recorded = describe_power_limit(run.machine), describe_power_limit(record.machine)
        if ours.casefold() != theirs.casefold():
            yield f"on {theirs}", f"on {ours}"
        elif limit and recorded and limit != recorded:
            yield f"at a power limit of {recorded}", f"at one of {limit}"
    for noun, own, other in (
        ("node", run.nodes, record.nodes),
        ("rank", run.ranks, record.ranks),
    ):
        if own is not None and own != other:
            yield f"of {count_noun(other, noun)}", f"of {count_noun(own, noun)}"
    for place, theirs_is in reference.settings.items():
        ours_is = run.settings.get(place)
        if (isinstance(ours_is, bool), ours_is) != (isinstance(theirs_is, bool), theirs_is):
            name = place.rpartition(".")[2]
            yield f"with {name} {show_scalar(theirs_is)}", f"with {name} {show_scalar(ours_is)}"


def _explain_differences(run: Run, references: Sequence[Reference]) -> list[str]:
    """One sentence for each kind of difference, the smallest first."""
    kinds: dict[tuple[tuple[str, str], ...], list[Reference]] = {}
    for reference in references:
        kinds.setdefault(tuple(find_differences(run, reference)), []).append(reference)
    reasons = []
    for differences, alike in sorted(kinds.items(), key=lambda item: len(item[0]))[:_REASONS]:
        theirs, yours = (", ".join(side) for side in zip(*differences, strict=True))
        reasons.append(f"{alike[0].name} is {theirs}, yours is {yours}: not compared")
    return reasons


def shorten(texts: Sequence[str]) -> list[str]:
    shown = [f"left out: {text}" for text in texts[:_LISTED]]
    rest = len(texts) - len(shown)
    return [*shown, f"left out: {rest} more"] if rest else shown
