"""The class and sources of each number in a generated table.

Authors declare none of this: it is traced through the view's query to the records and published
figures that it reads (see `lineage`).
"""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

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


class Figure(Struct, frozen=True):
    """A published figure: its table, line and citation."""

    table: str
    path: str
    line: int
    citation: Citation


class Provenance(Struct, frozen=True):
    """The sources of a number. `formula` is empty if it is shown unchanged."""

    number_class: str
    formula: str
    records: tuple[str, ...]
    figures: tuple[Figure, ...]
    results: tuple[str, ...] = ()
    """The records whose results it uses, not only their rows in the table `records`."""


class TableProvenance(Struct, frozen=True):
    """The provenance of each cell by row; None for cells that are not numbers."""

    cells: tuple[tuple[Provenance | None, ...], ...]

    @property
    def numbers(self) -> Iterable[Provenance]:
        return (cell for row in self.cells for cell in row if cell is not None)

    @property
    def records(self) -> tuple[str, ...]:
        """The quoted records, in order of first appearance."""
        return tuple(dict.fromkeys(name for cell in self.numbers for name in cell.records))


class Sources(Struct, frozen=True):
    """What the database rows are: by table, the record of each row, or the data table."""

    records: Mapping[str, Sequence[str]]
    data: Mapping[str, DataTable]
    units: Mapping[tuple[str, str], str]
    """The unit of each numeric column, by table and column; missing if unknown."""
    computed: frozenset[str]
    """Calculators: tools whose results are the same on every machine."""

    def find_records(self, table: str, row: str) -> Iterable[str]:
        """The record of a row, or of all rows for `*`."""
        names = self.records.get(table, ())
        return names if row == "*" else (names[int(row) - 1],) if names else ()


def is_number(cell: Cell) -> bool:
    """Whether a cell is a number, even if stored as text."""
    return isinstance(cell, int | float) or (isinstance(cell, str) and bool(_NUMBER.match(cell)))


def trace_table(
    database: EvidenceDatabase, view: View, table: Table, sources: Sources, known: Facts
) -> TableProvenance | list[Finding]:
    """The provenance of a view's table, or findings if it has none: an untraceable query, numbers
    in the query itself, rows in undefined order. `known` has the traces of earlier builds."""
    columns = database.find_columns(view)
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
        return [_report_untraceable(view, f"SQLite reports: {error}", 1)]
    place = {name: index for index, name in enumerate(names)}
    shown = tuple(tuple(row[place[column.key]] for column in view.columns) for row in rows)
    if shown != table.rows:
        return [_report_untraceable(view, "the traced query returns different rows", 1)]
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
    """Whether each column shows copied (`copy`) or `computed` numbers, and columns whose unit does
    not match the data."""
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
        formula = ""  # converting a unit does not change the quantity
    return Provenance(
        number_class, formula, tuple(records), tuple(figures.values()), tuple(results)
    )


def _find_units(origins: str, sources: Sources) -> Iterable[str]:
    for origin in origins.split():
        table, _, column = origin.split(":")
        yield sources.units.get((table, column), "")


def _find_unit_fault(entry: ColumnTrace, shown: str, found: set[str]) -> tuple[str, str] | None:
    """What is wrong with a column's unit, given the unit of its data. If a unit is unknown, report
    only unchanged numbers whose unit changed."""
    if entry.kind not in ("copy", "scaled") or len(found) != 1 or not shown:
        return None
    (unit,) = found
    if not unit or (unit == shown and entry.factor == 1.0):
        return None
    message = f"the column '{entry.key}' is labeled {shown}, but its values are in {unit}"
    have, want = read_unit(unit), read_unit(shown)
    if have is None or want is None:
        if entry.kind == "copy":
            return message, "use the unit of the data in the header, or convert it in the query"
        return None
    if have.base != want.base:
        return message, "the units are incompatible: correct the header or the query"
    factor = have.size / want.size
    if math.isclose(entry.factor, factor, rel_tol=1e-9):
        return None
    if entry.factor != 1.0:
        message = f"{message} times {entry.factor:.10g}"
    return message, f"multiply it by {factor:.10g} in the query, or correct the unit in the header"


def _is_as_found(entry: ColumnTrace, shown: str, found: set[str]) -> bool:
    """Whether a column shows numbers unchanged except for a unit conversion."""
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
    message = f"the numbers of this view cannot be traced to their sources: {reason}"
    hint = "simplify the query so that every number can be traced to records or data"
    return Finding(Span(view.path, line), "unsourced-number", message, hint)


def _report_unsourced(view: View, key: str, row: int) -> Finding:
    message = f"the number in column '{key}', row {row} comes from no record or data file"
    hint = "put the figure into a data file with source, date and class, and select it from there"
    return Finding(Span(view.path, view.find_line(key)), "unsourced-number", message, hint)


def _find_ties(
    view: View, rows: Sequence[Sequence[Cell]], keys: Sequence[Sequence[Cell]]
) -> Iterator[Finding]:
    """The first two different rows that ORDER BY does not distinguish."""
    for number in range(1, len(rows)):
        if keys[number] == keys[number - 1] and rows[number] != rows[number - 1]:
            message = f"ORDER BY does not distinguish rows {number} and {number + 1}"
            hint = "add a column to ORDER BY that does, so that the order is always the same"
            yield Finding(Span(view.path, view.find_line("ORDER")), "bad-view", message, hint)
            return
