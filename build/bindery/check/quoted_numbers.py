"""What chapters quote, and the words that outputs use for it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from msgspec import Struct

from bindery.check.inspect import Inspection
from bindery.core.wording import Wording
from bindery.evidence.evidence import Evidence
from bindery.evidence.provenance import DERIVED, MEASURED, Provenance
from bindery.evidence.quotations import Filling, Region, Value, make_filling
from bindery.evidence.tables import format_cell

if TYPE_CHECKING:
    from bindery.evidence.records import Record

CLASSES: Mapping[str, str] = {
    MEASURED: "one of this book's tools measured it, and the record is kept",
    DERIVED: "calculated from other numbers; the formula or the calculator's record is kept",
    "vendor": "from the vendor's data sheet or website",
    "reported": "someone else measured and published it",
    "assumed": "chosen for an example",
}
"""The classes of numbers and their meaning."""

_LONGEST_ADDRESS = 46
_SHORTEST_NAME = 12


class Quoted(Struct, frozen=True):
    """Sound quotations per chapter, and the records behind them, numbered in book order."""

    chapters: Mapping[str, tuple[Region | Value, ...]]
    records: Mapping[str, str]


def find_quoted(inspection: Inspection) -> Quoted:
    """The book's quotations, leaving out edited, stale and untraceable ones."""
    chapters: dict[str, tuple[Region | Value, ...]] = {}
    judged = inspection.facts.derive("sound quotations", _Judged, lambda: _judge(inspection))
    for (path, entry), verdicts in zip(inspection.quotations.items(), judged, strict=True):
        sound = [one for one, is_sound in zip(entry, verdicts, strict=True) if is_sound]
        if sound:
            chapters[path] = tuple(sorted(sound, key=lambda quotation: quotation.opening))

    def number_records() -> dict[str, str]:
        numbers = (
            number
            for quotations in chapters.values()
            for quotation in quotations
            for number in list_numbers(quotation, inspection.evidence)
        )
        names = dict.fromkeys(name for number in numbers for name in number.records)
        return {name: f"R{count}" for count, name in enumerate(names, 1)}

    kind = dict[str, str]
    return Quoted(chapters, inspection.facts.derive("quoted records", kind, number_records))


_Judged = tuple[tuple[bool, ...], ...]
"""Whether each quotation of each chapter is sound."""


def _judge(inspection: Inspection) -> _Judged:
    return tuple(
        tuple(_is_sound(quotation, path, inspection) for quotation in entry)
        for path, entry in inspection.quotations.items()
    )


def _is_sound(quotation: Region | Value, chapter: str, inspection: Inspection) -> bool:
    evidence = inspection.evidence
    if isinstance(quotation, Region) and quotation.kind in ("output", "excerpt"):
        return False
    if find_view(quotation) not in evidence.provenance:
        return False
    filling = make_filling(quotation, chapter, evidence, inspection.config.figures)
    return isinstance(filling, Filling) and quotation.body in (filling.text, filling.fresh)


def find_view(quotation: Region | Value) -> str:
    """The name of the quoted view."""
    return quotation.name if isinstance(quotation, Region) else quotation.view


def list_numbers(quotation: Region | Value, evidence: Evidence) -> Iterator[Provenance]:
    """The provenance of each number in a sound quotation."""
    if isinstance(quotation, Value):
        number = find_number(quotation, evidence)
        yield from (number,) if number else ()
    else:
        yield from list_cells(quotation, evidence).values()


def list_cells(region: Region, evidence: Evidence) -> Mapping[tuple[int, int], Provenance]:
    """The provenance of numbers in a sound region by row and column, from 0; for a plot, of the
    plotted numbers."""
    columns = [column.key for column in evidence.tables[region.name].columns]
    plot = evidence.views[region.name].plot
    shown = set(columns)
    if region.kind == "plot" and plot is not None:
        shown = {plot.x, *plot.y, plot.by}
    return {
        (row, column): number
        for row, cells in enumerate(evidence.provenance[region.name].cells)
        for column, number in enumerate(cells)
        if number is not None and columns[column] in shown
    }


def find_number(value: Value, evidence: Evidence) -> Provenance | None:
    """The provenance of a sound value; None if it is not a number."""
    table = evidence.tables[value.view]
    column = [entry.key for entry in table.columns].index(value.column)
    labels = [format_cell(row[0], table.columns[0]) for row in table.rows]
    row = 0 if value.row is None else labels.index(value.row)
    return evidence.provenance[value.view].cells[row][column]


def tell_failure(record: Record, words: Wording) -> str:
    """The note on a run that measured everything but ended with a problem; otherwise empty."""
    if record.ended != "failed":
        return ""
    return words("the tool ended with status {n}: it had found a problem", n=record.exit_status)


def is_address(text: str) -> bool:
    """Whether a source is a web address."""
    return re.fullmatch(r"https?://[^\s/]\S*", text) is not None


def shorten_address(url: str) -> str:
    """A short form of an address: the host and both ends of the path."""
    shown = re.sub(r"^https?://(www\.)?", "", url).partition("#")[0].rstrip("/")
    if len(shown) <= _LONGEST_ADDRESS:
        return shown
    host, *folders, last = shown.split("/") if "/" in shown else (shown, "")
    room = max(_LONGEST_ADDRESS - len(host) - len("/…/"), _SHORTEST_NAME)
    if len(last) > room:
        return f"{host}/…{last[-room:]}"
    start = host
    for folder in folders:
        if len(f"{start}/{folder}/…/{last}") > _LONGEST_ADDRESS:
            break
        start += f"/{folder}"
    return f"{start}/…/{last}"


def compress_numbers(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Ranges of consecutive numbers, as first and last."""
    chosen = sorted(set(numbers))
    # In a range, number minus position is constant.
    runs = groupby(enumerate(chosen), key=lambda entry: entry[1] - entry[0])
    for _, entries in runs:
        run = [number for _, number in entries]
        yield run[0], run[-1]
