"""The sources in FROM: tables, queries, and the columns that joins merge."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from bindery.evidence.lineage.dialect import fail, is_query, make_alias, write
from bindery.evidence.lineage.model import Output
from bindery.evidence.lineage.scopes import ROW_NAMES, Known, Scope, Source

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

Rewrite = Callable[["Expr", Scope | None, Known], tuple["Expr", Sequence[Output]]]
"""Takes a query, the scope around it and the queries of WITH; gives what to put in its place."""


class Sources:
    """Opens the scopes of SELECTs over some base tables."""

    def __init__(self, tables: Mapping[str, Sequence[str]]) -> None:
        self._tables = {name.lower(): (name, tuple(columns)) for name, columns in tables.items()}
        self._numbers = itertools.count(1)

    def open_scope(
        self, select: Expr, outer: Scope | None, known: Known, rewrite: Rewrite
    ) -> Scope:
        """The sources of a SELECT, those that are queries rewritten."""
        scope = Scope(outer, known)
        clause = select.args.get("from_")
        if clause:
            scope.sources.append(self._open_source(clause.this, outer, known, rewrite))
        for join in select.args.get("joins") or ():
            source = self._open_source(join.this, outer, known, rewrite)
            for name in _find_merged(join):
                _merge_column(name, join, scope, source)
            scope.sources.append(source)
        for lateral in select.args.get("laterals") or ():
            raise fail("LATERAL cannot be followed", lateral)
        aliases = [source.alias.lower() for source in scope.sources]
        for alias in aliases:
            if aliases.count(alias) > 1:
                raise fail(f"two sources are called '{alias}'; give each an alias", select)
        return scope

    def _open_source(
        self, node: Expr, outer: Scope | None, known: Known, rewrite: Rewrite
    ) -> Source:
        if node.args.get("joins") or (node.key == "subquery" and not is_query(node.this)):
            raise fail("a join in brackets cannot be followed; write it without them", node)
        if node.key == "table" and node.this.key == "identifier":
            return self._open_table(node, known)
        if node.key == "subquery":
            query, outputs = rewrite(node.this, outer, known)
            node.set("this", query)
        else:
            raise fail(f"'{write(node)}' is not a table of the evidence", node)
        alias = node.args.get("alias")
        if alias is None or not alias.this:
            alias = make_alias(f"__source{next(self._numbers)}")
            node.set("alias", alias)
        if alias.args.get("columns"):
            raise fail("columns cannot be renamed beside an alias in SQLite", node)
        return _make_source(alias.name, outputs)

    def _open_table(self, node: Expr, known: Known) -> Source:
        name = node.name.lower()
        alias = node.alias or node.name
        if name in known:
            outputs = known[name]
            if outputs is None:
                raise fail(f"'{node.name}' is recursive, which cannot be followed", node)
            return _make_source(alias, outputs)
        if name not in self._tables:
            raise fail(f"there is no table '{node.name}' in the evidence", node)
        table, columns = self._tables[name]
        taken = {column.lower() for column in columns}
        row = next(word for word in ROW_NAMES if word not in taken)
        return Source(alias, columns, table, row=row)


def _make_source(alias: str, outputs: Sequence[Output]) -> Source:
    # Of two columns with one name the first is meant.
    by_name = {output.name.lower(): output for output in reversed(outputs)}
    return Source(alias, tuple(output.name for output in outputs), outputs=by_name)


def _find_merged(join: Expr) -> list[str]:
    """The columns that a join makes one."""
    if join.args.get("method"):
        raise fail(f"a {join.args['method']} JOIN cannot be followed; write USING or ON", join)
    names = [column.name for column in join.args.get("using") or ()]
    if names and (join.args.get("side") or "").upper() in ("FULL", "RIGHT"):
        raise fail("USING of a FULL or RIGHT JOIN cannot be followed; write ON", join)
    return names


def _merge_column(name: str, join: Expr, scope: Scope, source: Source) -> None:
    key = name.lower()
    left = next((s for s in scope.sources if s.has_column(key)), None)
    if left is None or not source.has_column(key):
        raise fail(f"the column '{name}' of USING is not on both sides", join)
    scope.merged.setdefault(key, left)
