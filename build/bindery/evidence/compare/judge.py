"""Compare a run with a recorded one, or explain why they are not comparable.

A run is compared with a record of the same tool, method, hardware, power limit, nodes, ranks and
settings, and a row with the row that has the same keys; a tool declares keys and settings in its
terms (see `declaration`). If the hardware of the run is unknown, the numbers are shown without a
verdict. A failed run can be compared, but is not a reference. The expected range is
`recorded * (1 ± max(tolerance, spread))`. The spread is that of the recorded samples (interquartile
range over median): the median of another run should be within it. The tolerance covers the
difference between two machines of the same kind. Beyond three times this margin, a row is far off.

The whole run is judged by the geometric mean of the ratios of your values to the recorded ones,
with the median margin of the rows, and by any row that is far worse.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from bindery.core.report import count_noun
from bindery.evidence.compare.declaration import Terms
from bindery.evidence.records import Machine, Record, Scalar, ToolOutput

TOLERANCE = 0.05
FAR = 3.0
NOT_JUDGED = "not judged"
_LISTED = 5
_REASONS = 3

Key = tuple[tuple[bool, Scalar], ...]
"""The keys of a row, each with whether it is a boolean: True must not equal 1."""


class NothingAlikeError(Exception):
    """No record is comparable with the run; `reasons` are sentences, the closest record first."""

    def __init__(self, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.reasons = tuple(reasons)


class Recorded(NamedTuple):
    """The value of recorded rows with the same keys."""

    value: float
    spread: float | None


class Run(Struct, frozen=True):
    """The run to compare: a record, or the output of a tool, which does not name the machine."""

    source: Record | ToolOutput
    machine: Machine | None
    nodes: int | None
    ranks: int | None
    """None if unknown, as for machine and nodes."""
    name: str = ""
    """Its name, if it is a record of the book."""


class Reference(Struct, frozen=True):
    """A record to compare with."""

    name: str
    record: Record
    settings: Mapping[str, Scalar]
    """Settings that must be equal too, by path."""
    rows: Mapping[Key, Recorded]
    untrusted: Mapping[Key, str]
    """Rows that are not comparable, with reasons."""
    stale: str = ""
    """Why the record is stale, or empty."""

    @property
    def started(self) -> str:
        """The start in UTC: `2026-11-20T19:00:34Z`."""
        return f"{self.record.started:%Y-%m-%dT%H:%M:%SZ}"


def describe_power_limit(machine: Machine) -> str:
    """`700 W`, or `2 x 500 W, 6 x 700 W`; empty unless known for every accelerator."""
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
    """The run to compare, from a record or a tool's `--json` output, with the machine if known."""
    if isinstance(source, Record):
        return Run(source, source.machine, source.nodes, source.ranks, name)
    alone = None if terms.has_ranks else 1
    return Run(source, machine, alone, alone, name)


def make_references(
    records: Mapping[str, Record], terms: Terms, stale: Mapping[str, str]
) -> list[Reference]:
    """The complete records of successful runs that have comparable rows. `stale` has reasons by
    name."""
    references = [
        _make_reference(name, record, terms, stale.get(name, ""))
        for name, record in records.items()
        if record.tool == terms.tool and record.complete and record.ended != "failed"
    ]
    return [reference for reference in references if reference.rows]


def _make_reference(name: str, record: Record, terms: Terms, stale: str) -> Reference:
    """Pool rows with equal keys, such as those of several devices on a node."""
    gathered: dict[Key, list[Recorded]] = {}
    untrusted: dict[Key, str] = {}
    for row in record.results:
        key = _read_key(row, terms)
        if reason := _explain_distrust(row, terms):
            untrusted[key] = reason
        else:
            value = _read_number(row, terms.value) or 0.0
            gathered.setdefault(key, []).append(Recorded(value, _read_number(row, terms.spread)))
    rows = {key: _pool(entries) for key, entries in gathered.items()}
    untrusted = {key: reason for key, reason in untrusted.items() if key not in rows}
    return Reference(name, record, _read_settings(record, terms), rows, untrusted, stale)


def _pool(entries: Sequence[Recorded]) -> Recorded:
    """The median of some rows; its spread is at least their range."""
    middle, spread = entries[0]
    if len(entries) > 1:
        values = [entry.value for entry in entries]
        middle = statistics.median(values)
        spreads = [entry.spread for entry in entries if entry.spread is not None]
        wide = statistics.median(spreads) if spreads else 0.0
        spread = max(wide, (max(values) - min(values)) / middle)
    # Keep as many digits as a comparison needs.
    return Recorded(float(f"{middle:.6g}"), None if spread is None else float(f"{spread:.3g}"))


def _read_settings(source: Record | ToolOutput, terms: Terms) -> dict[str, Scalar]:
    settings: dict[str, Scalar] = {}
    for place in terms.alike:
        value: Any = {"details": source.details}
        for part in place.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        settings[place] = value if isinstance(value, str | int | float | bool) else None
    return settings


def _read_key(row: Mapping[str, Scalar], terms: Terms) -> Key:
    return tuple((isinstance(row.get(key), bool), row.get(key)) for key in terms.keys)


def _explain_distrust(row: Mapping[str, Scalar], terms: Terms) -> str:
    """Why a row is not comparable, or empty."""
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


class RowVerdict(Struct, frozen=True):
    """A row of the run and its recorded counterpart."""

    key: Key
    member: str
    yours: float
    spread: float | None
    recorded: Recorded
    margin: float
    """The margin, as a share of the recorded value."""
    is_judged: bool

    @property
    def ratio(self) -> float:
        return self.yours / self.recorded.value

    @property
    def verdict(self) -> str:
        return judge_ratio(self.ratio, self.margin) if self.is_judged else NOT_JUDGED


class Comparison(Struct, frozen=True):
    """A run and the record that it is compared with."""

    terms: Terms
    run: Run
    reference: Reference
    rows: tuple[RowVerdict, ...]
    """The largest deviations first."""
    left_out: tuple[str, ...]
    """Rows of the run that are not compared, each with the reason."""

    @property
    def ratio(self) -> float:
        return math.exp(statistics.fmean(math.log(row.ratio) for row in self.rows))

    @property
    def margin(self) -> float:
        return statistics.median(row.margin for row in self.rows)

    @property
    def verdict(self) -> str:
        is_judged = knows_hardware(self.run, self.terms)
        return judge_ratio(self.ratio, self.margin) if is_judged else NOT_JUDGED

    @property
    def is_worse(self) -> bool:
        """Whether the run is worse than expected."""
        far = [row.verdict for row in self.rows if row.verdict.startswith("far")]
        return any(is_worse(verdict, self.terms) for verdict in (self.verdict, *far))


def is_worse(verdict: str, terms: Terms) -> bool:
    """Whether a verdict is worse than expected."""
    return verdict.endswith("below" if terms.higher_is_better else "above")


def knows_hardware(run: Run, terms: Terms) -> bool:
    """Whether the hardware is compared: that of a machine, or the device that the tool names."""
    return run.machine is not None or any(place.endswith("device_model") for place in terms.alike)


def judge_ratio(ratio: float, margin: float) -> str:
    """The verdict on the ratio of your value to the recorded one: `within`, `below`, `above`,
    `far below` or `far above`. Which is worse depends on the terms."""
    off = abs(ratio - 1)
    if off <= margin:
        return "within"
    return ("far " if off > FAR * margin else "") + ("below" if ratio < 1 else "above")


def compare_run(
    run: Run, references: Iterable[Reference], terms: Terms, tolerance: float = TOLERANCE
) -> Comparison:
    """Compare the run with the newest comparable record that shares a row with it.

    `tolerance` is a share. Raises NothingAlikeError if there is no such record.
    """
    others = sorted(references, key=lambda each: (each.started, each.name), reverse=True)
    differences = {other.name: list(_find_differences(run, other, terms)) for other in others}
    alike = [other for other in others if not differences[other.name]]
    for reference in alike:
        rows, left_out = _match_rows(run, reference, terms, tolerance)
        if rows:
            rows.sort(key=lambda row: _rank_verdict(row.verdict, terms))
            return Comparison(terms, run, reference, tuple(rows), tuple(left_out))
    if not others:
        only = f" except {run.name} itself" if run.name else ""
        raise NothingAlikeError([f"there is no complete record of {run.source.tool}{only}"])
    if alike:
        _, left_out = _match_rows(run, alike[0], terms, tolerance)
        reason = f"none of your rows can be compared with one of {alike[0].name}"
        raise NothingAlikeError([reason, *shorten(left_out)])
    nearest = sorted(differences.items(), key=lambda item: len(item[1]))[:_REASONS]
    raise NothingAlikeError([_explain_differences(*item) for item in nearest])


def _rank_verdict(verdict: str, terms: Terms) -> tuple[bool, bool, bool]:
    """Sort key: the worst first, rows within the margin last."""
    return verdict == "within", not is_worse(verdict, terms), not verdict.startswith("far")


def _match_rows(
    run: Run, reference: Reference, terms: Terms, tolerance: float
) -> tuple[list[RowVerdict], list[str]]:
    rows: list[RowVerdict] = []
    left_out: list[str] = []
    for row in run.source.results:
        key = _read_key(row, terms)
        member = show_scalar(row.get(terms.member)) if terms.member else ""
        label = ", ".join(
            f"{n} {show_scalar(v)}" for n, (_, v) in zip(terms.keys, key, strict=True)
        )
        label += f" on {member}" if member else ""
        recorded = reference.rows.get(key)
        if reason := _explain_distrust(row, terms):
            left_out.append(f"{label}: {reason} in yours")
        elif key in reference.untrusted:
            left_out.append(f"{label}: {reference.untrusted[key]} in the record")
        elif recorded is None:
            left_out.append(f"{label}: the record has no such row")
        else:
            yours, spread = _read_number(row, terms.value) or 0.0, _read_number(row, terms.spread)
            margin = max(tolerance, recorded.spread or 0.0)
            is_judged = knows_hardware(run, terms)
            rows.append(RowVerdict(key, member, yours, spread, recorded, margin, is_judged))
    return rows, left_out


def _find_differences(run: Run, reference: Reference, terms: Terms) -> Iterator[tuple[str, str]]:
    """Why a record and a run are not comparable: what the record has, and what the run has."""
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
    settings = _read_settings(run.source, terms)
    for place, theirs_is in reference.settings.items():
        ours_is = settings[place]
        if (isinstance(ours_is, bool), ours_is) != (isinstance(theirs_is, bool), theirs_is):
            name = place.rpartition(".")[2]
            yield f"with {name} {show_scalar(theirs_is)}", f"with {name} {show_scalar(ours_is)}"


def _explain_differences(name: str, differences: Iterable[tuple[str, str]]) -> str:
    theirs, yours = (", ".join(side) for side in zip(*differences, strict=True))
    return f"{name} is {theirs}, yours is {yours}: not compared"


def shorten(texts: Sequence[str]) -> list[str]:
    """Sentences about the rows left out: the first few, and how many more."""
    rest = [f"{len(texts) - _LISTED} more"] if len(texts) > _LISTED else []
    return [f"left out: {text}" for text in (*texts[:_LISTED], *rest)]
