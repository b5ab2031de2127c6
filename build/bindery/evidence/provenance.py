"""Where each number of a generated table comes from: its class and its sources.

Nothing here is declared by an author: the query of a view is followed to the records and the
published figures that it reads (see `lineage`).
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bindery.core.facts import Facts
from bindery.core.model import Finding, Span
from bindery.core.units import read_unit
from bindery.evidence.database import EvidenceDatabase
from bindery.evidence.lineage import ColumnTrace, Trace, UntraceableError, trace_query
from bindery.evidence.published_data import Citation, DataTable
from bindery.evidence.tables import Cell, Table
from bindery.evidence.views import View

MEASURED, DERIVED = "measured", "derived"

_NUMBER = re.compile(r"[~≈<>≤≥]?\s*[+-]?\d")


@dataclass(frozen=True, slots=True)
class Figure:
    """A published figure: the table and the line of its file, and what is said of it there."""

    table: str
    path: str
    line: int
    citation: Citation


@dataclass(frozen=True, slots=True)
class Provenance:
    """The sources of one number. `formula` is empty if it is shown as it was found."""

    number_class: str
    formula: str
    records: tuple[str, ...]
    figures: tuple[Figure, ...]
    results: tuple[str, ...] = ()
    """Those of the records whose results it uses, and not only their row in the table `records`."""


@dataclass(frozen=True, slots=True)
class TableProvenance:
    """The provenance of each cell, row by row; None for a cell that is not a number."""

    cells: tuple[tuple[Provenance | None, ...], ...]

    @property
    def numbers(self) -> Iterable[Provenance]:
        return (cell for row in self.cells for cell in row if cell is not None)

    @property
    def records(self) -> tuple[str, ...]:
        """Every record that the table quotes, each once, in order of appearance."""
        return tuple(dict.fromkeys(name for cell in self.numbers for name in cell.records))


@dataclass(frozen=True, slots=True)
class Sources:
    """What the rows of the database are: by table, the record of each row, or the data itself."""

    records: Mapping[str, Sequence[str]]
    data: Mapping[str, DataTable]
    units: Mapping[tuple[str, str], str]
    """The unit of each column of numbers, by table and column; none where it is not known."""
    computed: frozenset[str]
    """The tools whose results are the same on every machine: they compute, and measure nothing."""

    def find_records(self, table: str, row: str) -> Iterable[str]:
        """The record of a row; all of them for the row `*`."""
        names = self.records.get(table, ())
        return names if row == "*" else (names[int(row) - 1],) if names else ()


def is_number(cell: Cell) -> bool:
    """Whether a reader takes a cell for a number, be it written as text."""
    return isinstance(cell, int | float) or (isinstance(cell, str) and bool(_NUMBER.match(cell)))


def trace_table(
    database: EvidenceDatabase, view: View, table: Table, sources: Sources, known: Facts
) -> TableProvenance | list[Finding]:
    """The provenance of a table that a view has given, or why it has none: a query that cannot be
    followed, numbers in the query itself, rows without a settled order. `known` has the traces of
    queries that earlier builds followed."""
    columns = database.columns
    try:
        trace = known.derive(
            f"trace of the view {view.name}",
            Trace,
            lambda: trace_query(view.sql, columns),
            given=f"{view.sql}\n{columns}",
        )
        names, rows = database.select(trace.sql)
    except UntraceableError as error:
        return [_report_untraceable(view, str(error), error.line)]
    except (sqlite3.Error, sqlite3.Warning) as error:
        return [_report_untraceable(view, f"sqlite says: {error}", 1)]
    place = {name: index for index, name in enumerate(names)}
    shown = tuple(tuple(row[place[column.key]] for column in view.columns) for row in rows)
    if shown != table.rows:
        return [_report_untraceable(view, "following it gives other rows", 1)]
    traces = {column.key: column for column in trace.columns}
    seen: dict[tuple[str, str, str], Provenance] = {}
    unsourced: dict[str, int] = {}
    cells = []
    kinds, findings = _judge_units(view, traces, rows, place, sources)
    for number, row in enumerate(rows, 1):
        line: list[Provenance | None] = []
        for column in view.columns:
            entry = traces[column.key]
            origins = row[place[entry.origins]]
            if not is_number(row[place[column.key]]):
                line.append(None)
            elif not origins:
                line.append(None)
                unsourced.setdefault(column.key, number)
            else:
                key = (kinds[column.key], entry.formula, str(origins))
                if key not in seen:
                    seen[key] = _describe(*key, sources)
                line.append(seen[key])
        cells.append(tuple(line))
    findings += [_report_unsourced(view, key, number) for key, number in unsourced.items()]
    keys = [[row[place[key]] for key in trace.order_keys] for row in rows]
    findings += _find_ties(view, table.rows, keys)
    return findings or TableProvenance(tuple(cells))


def _judge_units(
    view: View,
    traces: Mapping[str, ColumnTrace],
    rows: Sequence[Sequence[Cell]],
    place: Mapping[str, int],
    sources: Sources,
) -> tuple[Mapping[str, str], list[Finding]]:
    """Whether each column shows numbers as they were found (`copy`) or `computed` ones, and the
    columns whose unit is not that of what they show."""
    findings = []
    kinds = {}
    for column in view.columns:
        entry = traces[column.key]
        cell, origins = place[column.key], place[entry.origins]
        found = {
            unit
            for row in rows
            if row[origins] and isinstance(row[cell], int | float)
            for unit in _find_units(str(row[origins]), sources)
        }
        if fault := _find_unit_fault(entry, column.unit, found):
            span = Span(view.path, view.find_line(column.key))
            findings.append(Finding(span, "bad-view", *fault))
        kinds[column.key] = "copy" if _is_as_found(entry, column.unit, found) else "computed"
    return kinds, findings


def _describe(kind: str, formula: str, origins: str, sources: Sources) -> Provenance:
    classes: set[str] = set()
    records: dict[str, None] = {}
    results: dict[str, None] = {}
    figures: dict[tuple[str, int, Citation], Figure] = {}
    own_formulas = []
    for origin in sorted(set(origins.split()), key=_order_of):
        table, row, column = origin.split(":")
        if table in sources.records:
            found = dict.fromkeys(sources.find_records(table, row))
            records.update(found)
            if found:
                classes.add(DERIVED if table in sources.computed else MEASURED)
            results |= {name: None for name in found if name.startswith(f"{table}/")}
            continue
        data = sources.data[table]
        numbers = range(len(data.rows)) if row == "*" else (int(row) - 1,)
        for number in numbers:
            entry = data.rows[number]
            citation = data.cite(number, column)
            figure = Figure(table, data.path, entry.line, citation)
            figures[table, entry.line, citation] = figure
            if column in entry.formulas:
                own_formulas.append(f"{column} = {entry.formulas[column]}")
    classes |= {figure.citation.number_class for figure in figures.values()}
    shown_as_found = kind == "copy"
    if shown_as_found and not formula and len(own_formulas) == 1:
        formula = own_formulas[0]
    number_class = classes.pop() if shown_as_found and len(classes) == 1 else DERIVED
    if shown_as_found and (number_class != DERIVED or not own_formulas):
        formula = ""  # a number in another unit is the same number
    return Provenance(
        number_class, formula, tuple(records), tuple(figures.values()), tuple(results)
    )


def _find_units(origins: str, sources: Sources) -> Iterable[str]:
    for origin in origins.split():
        table, _, column = origin.split(":")
        yield sources.units.get((table, column), "")


def _find_unit_fault(entry: ColumnTrace, shown: str, found: set[str]) -> tuple[str, str] | None:
    """What is wrong with the unit in which a column shows what was found in another; where a unit
    is not known, only that a number which was not changed has another one than before."""
    if entry.kind not in ("copy", "scaled") or len(found) != 1 or not shown:
        return None
    (unit,) = found
    if not unit or (unit == shown and entry.factor == 1.0):
        return None
    message = f"the column '{entry.key}' is shown in {shown}, and what it shows is in {unit}"
    have, want = read_unit(unit), read_unit(shown)
    if have is None or want is None:
        if entry.kind == "copy":
            return message, "give the column the unit of its data, or convert it in the query"
        return None
    if have.base != want.base:
        return message, "these are units of different things: correct the header or the query"
    factor = have.size / want.size
    if math.isclose(entry.factor, factor, rel_tol=1e-9):
        return None
    if entry.factor != 1.0:
        message = f"{message} times {entry.factor:.10g}"
    return message, f"multiply it by {factor:.10g} in the query, or correct the unit in the header"


def _is_as_found(entry: ColumnTrace, shown: str, found: set[str]) -> bool:
    """Whether a column shows numbers as they were found, in another unit at most."""
    if entry.kind == "copy":
        return True
    if entry.kind != "scaled" or len(found) != 1:
        return False
    have, want = read_unit(next(iter(found))), read_unit(shown)
    return have is not None and want is not None and have.base == want.base


def _order_of(origin: str) -> tuple[str, int, str]:
    table, row, column = origin.split(":")
    return table, -1 if row == "*" else int(row), column


def _report_untraceable(view: View, reason: str, line: int) -> Finding:
    message = f"the numbers of this view cannot be followed to their sources: {reason}"
    hint = "write the query in simpler steps, so that every number leads to records or data"
    return Finding(Span(view.path, line), "unsourced-number", message, hint)


def _report_unsourced(view: View, key: str, row: int) -> Finding:
    message = f"the column '{key}' has a number that no record and no data gives, in row {row}"
    hint = "put the figure into a data file, with source, date and class, and select it from there"
    return Finding(Span(view.path, view.find_line(key)), "unsourced-number", message, hint)


def _find_ties(
    view: View, rows: Sequence[Sequence[Cell]], keys: Sequence[Sequence[Cell]]
) -> Iterator[Finding]:
    """The first two rows that ORDER BY does not tell apart although they differ."""
    for number in range(1, len(rows)):
        if keys[number] == keys[number - 1] and rows[number] != rows[number - 1]:
            message = f"ORDER BY does not tell row {number} from row {number + 1}"
            hint = (
                "add a column to ORDER BY that tells them apart, so that it is the same everywhere"
            )
            yield Finding(Span(view.path, view.find_line("ORDER")), "bad-view", message, hint)
            return
