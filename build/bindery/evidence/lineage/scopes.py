"""Resolve the names in a SELECT: sources, columns, and origins of their cells."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from bindery.evidence.lineage.dialect import (
    fail,
    find_line,
    is_query,
    make_alias,
    make_column,
    quote_name,
    quote_text,
    write,
)
from bindery.evidence.lineage.model import Output

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

ROW_NAMES = ("rowid", "_rowid_", "oid")
"""SQLite's names for the row number, unless a column has that name."""

Known = Mapping[str, Sequence[Output] | None]
"""WITH queries by lower-case name; None while one is being rewritten."""


class Source(Struct, frozen=True):
    """An item of FROM."""

    alias: str
    columns: tuple[str, ...]
    table: str = ""
    """The base table; empty for a query."""
    outputs: Mapping[str, Output] = field(default_factory=dict)
    """Columns by lower-case name; only for a query."""
    row: str = ""
    """The SQL name of the base table's row number."""

    def has_column(self, key: str) -> bool:
        if self.outputs:
            return key in self.outputs
        return any(name.lower() == key for name in self.columns)

    def spell_column(self, key: str) -> str:
        """The name of a column as its definition spells it."""
        return next((name for name in self.columns if name.lower() == key), key)


class Scope(Struct):
    """The sources of a SELECT, its outer scopes and its groups."""

    outer: Scope | None
    known: Known
    sources: list[Source] = field(default_factory=list)
    merged: dict[str, Source] = field(default_factory=dict)
    """Columns of USING, and the source that provides their value."""
    grouped: bool = False
    keys: Sequence[Expr] = ()
    """The GROUP BY terms."""


class Place(Struct, frozen=True):
    """Where a column was found."""

    source: Source
    key: str
    """Its lower-case name."""


def find_column(node: Expr, scope: Scope) -> Place | None:
    """The source of a column. Raises UntraceableError if it is ambiguous."""
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
                raise fail(f"'{node.name}' of a subquery is not a row number", node)
            found = sources
        if len(found) > 1:
            names = " and ".join(f"'{source.alias}'" for source in found)
            raise fail(f"the column '{node.name}' is in {names}; qualify it", node)
        if found:
            return Place(found[0], key)
        if table and sources:
            break
        here = here.outer
    return None


def name_item(item: Expr, scope: Scope) -> str:
    """SQLite's name for an item of SELECT."""
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
    """Replace `*` by columns; it would also match the sisters."""
    items: list[Expr] = []
    for item in select.expressions:
        if item.key == "star":
            items += _list_columns(scope, scope.sources, item)
        elif item.key == "column" and item.this.key == "star":
            named = item.text("table").lower()
            sources = [s for s in scope.sources if s.alias.lower() == named]
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
            raise fail("'*' includes columns without unique names; use AS", star)
        for name in source.columns:
            merged = not whole and name.lower() in scope.merged
            if merged and name.lower() in seen:
                continue
            seen.add(name.lower())
            yield make_column(name, "" if merged else source.alias, line)


# --- opening scopes ---

Rewrite = Callable[["Expr", Scope | None, Known], tuple["Expr", Sequence[Output]]]
"""Rewrites a query, given its outer scope and WITH queries; returns the replacement."""


class Sources:
    """Opens the scopes of SELECTs over base tables."""

    def __init__(self, tables: Mapping[str, Sequence[str]], rewrite: Rewrite) -> None:
        self._rewrite = rewrite
        self._tables = {name.lower(): (name, tuple(columns)) for name, columns in tables.items()}
        self._numbers = itertools.count(1)

    def open_scope(self, select: Expr, outer: Scope | None, known: Known) -> Scope:
        """The sources of a SELECT, with subqueries rewritten."""
        scope = Scope(outer, known)
        clause = select.args.get("from_")
        if clause:
            scope.sources.append(self._open_source(clause.this, scope))
        for join in select.args.get("joins") or ():
            source = self._open_source(join.this, scope)
            for name in _find_merged(join):
                # SQLite has already checked that both sides have it.
                left = next(s for s in scope.sources if s.has_column(name.lower()))
                scope.merged.setdefault(name.lower(), left)
            scope.sources.append(source)
        aliases = [source.alias.lower() for source in scope.sources]
        for alias in aliases:
            if aliases.count(alias) > 1:
                raise fail(f"two sources are named '{alias}'; give each an alias", select)
        return scope

    def _open_source(self, node: Expr, scope: Scope) -> Source:
        if node.args.get("joins") or (node.key == "subquery" and not is_query(node.this)):
            raise fail("a join in parentheses cannot be traced; remove them", node)
        if node.key == "table" and node.this.key == "identifier":
            return self._open_table(node, scope.known)
        if node.key != "subquery":
            raise fail(f"'{write(node)}' is not a table of the evidence", node)
        query, outputs = self._rewrite(node.this, scope.outer, scope.known)
        node.set("this", query)
        alias = node.args.get("alias")
        if alias is None or not alias.this:
            alias = make_alias(f"__source{next(self._numbers)}")
            node.set("alias", alias)
        return _make_source(alias.name, outputs)

    def _open_table(self, node: Expr, known: Known) -> Source:
        name = node.name.lower()
        alias = node.alias or node.name
        if name in known:
            outputs = known[name]
            if outputs is None:
                raise fail(f"'{node.name}' is recursive, which cannot be traced", node)
            return _make_source(alias, outputs)
        if name not in self._tables:
            raise fail(f"there is no table '{node.name}' in the evidence", node)
        table, columns = self._tables[name]
        taken = {column.lower() for column in columns}
        row = next(word for word in ROW_NAMES if word not in taken)
        return Source(alias, columns, table, row=row)


def _make_source(alias: str, outputs: Sequence[Output]) -> Source:
    # If two columns have the same name, the first one counts.
    by_name = {output.name.lower(): output for output in reversed(outputs)}
    return Source(alias, tuple(output.name for output in outputs), outputs=by_name)


def _find_merged(join: Expr) -> list[str]:
    """The columns that a join merges."""
    if join.args.get("method"):
        raise fail(f"a {join.args['method']} JOIN cannot be traced; write USING or ON", join)
    names = [column.name for column in join.args.get("using") or ()]
    if names and (join.args.get("side") or "").upper() in ("FULL", "RIGHT"):
        raise fail("USING in a FULL or RIGHT JOIN cannot be traced; write ON", join)
    return names


# --- origins of cells ---


def write_cell(source: Source, name: str) -> str:
    """The origin of a base cell; an empty cell has none."""
    alias = quote_name(source.alias)
    item = f"{quote_text(source.table + ':')} || {alias}.{source.row} || {quote_text(':' + name)}"
    return f"CASE WHEN {alias}.{quote_name(name)} IS NOT NULL THEN {item} END"


def write_sister(source: Source, sister: str) -> str:
    return f"{quote_name(source.alias)}.{quote_name(sister)}"


def list_rows(sources: Sequence[Source]) -> list[str]:
    """The origins of a row count: the rows of all sources."""
    terms = []
    for source in sources:
        if source.table:
            row = f"{quote_name(source.alias)}.{source.row}"
            terms.append(f"{quote_text(source.table + ':')} || {row} || ':*'")
        else:
            sisters = (output.sister for output in source.outputs.values() if output.sister)
            terms += [write_sister(source, sister) for sister in sisters]
    return terms
