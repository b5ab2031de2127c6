"""Records and published figures as a read-only in-memory database.

An authorizer allows only reads, and long queries are stopped. Rows are inserted in file order, so
the rowid of a row is its number in the file, from 1.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterable, Mapping, Sequence

from bindery.core.model import Finding, Span
from bindery.core.suggestions import suggest
from bindery.evidence.lineage.dialect import quote_name
from bindery.evidence.tables import Cell, Table, find_fault
from bindery.evidence.views import View

QUERY_SECONDS = 5.0
_PROGRESS_STEPS = 1_000

_READ_ACTIONS = frozenset(
    (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
)
# Functions that load code, touch files, or depend on the time.
_REFUSED_FUNCTIONS = frozenset(
    """load_extension readfile writefile edit fts3_tokenizer random randomblob date time datetime
    julianday unixepoch strftime timediff current_date current_time current_timestamp""".split()
)


class EvidenceDatabase:
    """The tables of a book's evidence: filled, then locked."""

    def __init__(self, tools: Iterable[str] = ()) -> None:
        self._connection = sqlite3.connect(":memory:")
        self._tools = frozenset(tools)
        self.columns: dict[str, tuple[str, ...]] = {}
        """Columns by table."""

    def add_table(self, name: str, columns: Iterable[str], rows: Iterable[Sequence[Cell]]) -> None:
        self.columns[name] = tuple(columns)
        names = [quote_name(column) for column in self.columns[name]]
        self._connection.execute(f"CREATE TABLE {quote_name(name)} ({', '.join(names)})")
        marks = ", ".join("?" * len(names))
        self._connection.executemany(f"INSERT INTO {quote_name(name)} VALUES ({marks})", rows)

    def find_columns(self, view: View) -> Mapping[str, tuple[str, ...]]:
        """The columns of each table that a view reads."""
        words = view.words
        return {table: names for table, names in self.columns.items() if table in words}

    def lock(self) -> None:
        """Make the database read-only."""
        self._connection.commit()
        self._connection.set_authorizer(self._authorize)

    def close(self) -> None:
        self._connection.close()

    def select(self, sql: str) -> tuple[tuple[str, ...], list[tuple[Cell, ...]]]:
        """Return column names and all rows.

        Raises sqlite3.Error and sqlite3.Warning.
        """
        deadline = time.monotonic() + QUERY_SECONDS
        self._connection.set_progress_handler(
            lambda: int(time.monotonic() > deadline), _PROGRESS_STEPS
        )
        cursor = self._connection.execute(sql)
        rows = cursor.fetchall()
        names = tuple(description[0] for description in cursor.description or ())
        return names, rows

    def query_view(self, view: View) -> Table | Finding:
        """The table of a view, or a finding about its query."""
        try:
            keys, rows = self.select(view.sql)
        except (sqlite3.Error, sqlite3.Warning) as error:
            return self._explain(view, str(error))
        missing = [column.key for column in view.columns if column.key not in keys]
        if missing:
            line = view.find_heading(missing[0])
            message = f"the query has no column '{missing[0]}'"
            return Finding(
                Span(view.path, line), "bad-view", message, f"columns: {', '.join(keys)}"
            )
        unnamed = [key for key in keys if key not in {column.key for column in view.columns}]
        if unnamed:
            message = f"the column '{unnamed[0]}' of the query has no heading"
            hint = f"write `-- column {unnamed[0]}: HEADING`, or remove it from the query"
            line = view.find_line(unnamed[0])
            return Finding(Span(view.path, line), "bad-view", message, hint)
        order = [keys.index(column.key) for column in view.columns]
        cells = tuple(tuple(row[index] for index in order) for row in rows)
        for number, row in enumerate(cells, 1):
            for column, cell in zip(view.columns, row, strict=True):
                if fault := find_fault(cell, column):
                    message = f"the column '{column.key}' cannot be shown in row {number}: {fault}"
                    return Finding(Span(view.path, view.find_line(column.key)), "bad-view", message)
        return Table(view.title, view.columns, cells, view.notes)

    def _authorize(
        self, action: int, _first: str | None, second: str | None, *_where: str | None
    ) -> int:
        if action not in _READ_ACTIONS:
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _REFUSED_FUNCTIONS:
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    def _explain(self, view: View, error: str) -> Finding:
        hint = ""
        word = ""
        if match := re.match(r"no such (column|table): (\S+)", error):
            word = match[2].rsplit(".", 1)[-1]
            hint = self._list_names(view.sql, word, match[1])
        elif match := re.match(r'near "(.+?)"', error):
            word = match[1]
        elif "interrupted" in error:
            error = f"the query ran longer than {QUERY_SECONDS:g} s and was stopped"
        elif "not authorized" in error or "prohibited" in error:
            hint = "a view can only read: one SELECT over records and data, independent of time"
        elif "one statement at a time" in error:
            hint = "write a view as one SELECT"
        line = view.find_line(word) if word else 1
        return Finding(Span(view.path, line), "bad-view", f"the query fails: {error}", hint)

    def _list_names(self, sql: str, word: str, kind: str) -> str:
        """Suggest an existing table or column for an unknown name."""
        if kind == "table":
            if word.lower() in self._tools:
                return f"'{word}' has no records yet: run `bindery run {word.lower()}`"
            names = sorted(self.columns)
            return suggest(word, names, f"tables: {', '.join(names)}")
        used: Mapping[str, tuple[str, ...]] = {
            name: columns
            for name, columns in sorted(self.columns.items())
            if re.search(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE)
        }
        nearest = suggest(word, [column for group in used.values() for column in group])
        listed = "; ".join(f"{name} has {', '.join(group)}" for name, group in used.items())
        return f"{nearest} {listed}".strip()
