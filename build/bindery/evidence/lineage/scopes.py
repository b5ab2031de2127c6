"""What the names in a SELECT mean."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bindery.evidence.lineage.dialect import fail, find_line, make_column
from bindery.evidence.lineage.model import Output

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

ROW_NAMES = ("rowid", "_rowid_", "oid")
"""Under each of them SQLite gives the number of a row, where no column is called so."""

Known = Mapping[str, Sequence[Output] | None]
"""The queries of WITH by lower-case name; None for the one that is being read."""


@dataclass(frozen=True, slots=True)
class Source:
    """One item of FROM."""

    alias: str
    columns: tuple[str, ...]
    table: str = ""
    """The name of the base table; empty for a query."""
    outputs: Mapping[str, Output] = field(default_factory=dict)
    """By lower-case name; only for a query."""
    row: str = ""
    """The name under which SQL finds the number of a row of the base table."""

    def has_column(self, key: str) -> bool:
        if self.outputs:
            return key in self.outputs
        return any(name.lower() == key for name in self.columns)

    def spell_column(self, key: str) -> str:
        """The name of a column as it is written where it is made."""
        return next((name for name in self.columns if name.lower() == key), key)


@dataclass(slots=True)
class Scope:
    """The sources of one SELECT, those around it, and what it takes together."""

    outer: Scope | None
    known: Known
    sources: list[Source] = field(default_factory=list)
    merged: dict[str, Source] = field(default_factory=dict)
    """Columns of USING, and which source gives their value."""
    grouped: bool = False
    keys: Sequence[Expr] = ()
    """The terms of GROUP BY."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a column is found."""

    source: Source
    key: str
    """Its name in lower case."""


def find_column(node: Expr, scope: Scope) -> Place | None:
    """The source that gives a column. Raises UntraceableError where more than one can be meant."""
    key = node.name.lower()
    table = node.text("table").lower()
    here: Scope | None = scope
    while here is not None:
        sources = [s for s in here.sources if not table or s.alias.lower() == table]
        if not table and key in here.merged:
            return Place(here.merged[key], key)
        found = [source for source in sources if source.has_column(key)]
        if not found and key in ROW_NAMES and len(sources) == 1:
            if not sources[0].table:
                raise fail(f"'{node.name}' of a query is not a number of a row", node)
            found = sources
        if len(found) > 1:
            names = " and ".join(f"'{source.alias}'" for source in found)
            raise fail(f"the column '{node.name}' is in {names}; name one", node)
        if found:
            return Place(found[0], key)
        if table and sources:
            break
        here = here.outer
    return None


def name_item(item: Expr, scope: Scope) -> str:
    """The name that SQLite gives an item of SELECT."""
    if item.key == "alias":
        return item.alias
    if item.key != "column":
        return ""
    place = find_column(item, scope)
    if place is None:
        return item.name
    if place.source.table and not place.source.has_column(place.key):
        return "rowid"
    return place.source.spell_column(place.key)


def expand_stars(select: Expr, scope: Scope) -> None:
    """Write the columns for `*`, which would otherwise take in the sisters."""
    items: list[Expr] = []
    for item in select.expressions:
        if item.key == "star":
            if not scope.sources:
                raise fail("'*' without a FROM", item)
            items += _list_columns(scope, scope.sources, item)
        elif item.key == "column" and item.this.key == "star":
            named = item.text("table").lower()
            sources = [s for s in scope.sources if s.alias.lower() == named]
            if not sources:
                raise fail(f"there is no source '{item.text('table')}'", item)
            items += _list_columns(scope, sources, item, whole=True)
        else:
            items.append(item)
    select.set("expressions", items)


def _list_columns(
    scope: Scope, sources: Sequence[Source], star: Expr, whole: bool = False
) -> Iterator[Expr]:
    line = find_line(star)
    seen: set[str] = set()
    for source in sources:
        lower = [name.lower() for name in source.columns]
        if "" in lower or len(set(lower)) != len(lower):
            raise fail("'*' takes in columns that have no name of their own; write AS", star)
        for name in source.columns:
            merged = not whole and name.lower() in scope.merged
            if merged and name.lower() in seen:
                continue
            seen.add(name.lower())
            yield make_column(name, "" if merged else source.alias, line)
