"""Add sister columns to queries: SELECT, WITH, UNION ALL, and subqueries."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bindery.evidence.lineage.dialect import (
    fail,
    is_whole,
    join_terms,
    list_terms,
    make_raw,
    quote_name,
    read_select,
    write,
)
from bindery.evidence.lineage.expressions import Expressions
from bindery.evidence.lineage.formulas import Formulas
from bindery.evidence.lineage.groups import has_aggregate
from bindery.evidence.lineage.model import (
    KINDS,
    SCALED,
    ColumnTrace,
    Output,
    Trace,
    unite_kinds,
)
from bindery.evidence.lineage.scopes import (
    Known,
    Scope,
    Sources,
    expand_stars,
    find_column,
    name_item,
)

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

_Rewritten = tuple["Expr", Sequence[Output]]


class Queries:
    """A query being rewritten, with its subqueries."""

    def __init__(self, sql: str, tables: Mapping[str, Sequence[str]]) -> None:
        self._sql = sql
        self._numbers = itertools.count(1)
        self._sources = Sources(tables, self._rewrite)
        self._formulas = Formulas()
        self._expressions = Expressions(self._formulas, self._rewrite)

    def trace(self) -> Trace:
        keys: list[str] = []
        tree, outputs = self._rewrite(read_select(self._sql), None, {}, keys)
        columns = []
        for number, output in enumerate(outputs, 1):
            if not output.name:
                raise fail(f"column {number} of the query has no name; add AS and a name", tree)
            worked_out = output.kind >= SCALED
            formula = self._formulas.name_columns(output.formula) if worked_out else ""
            kind, factor = KINDS[output.kind], float(output.factor)
            columns.append(ColumnTrace(output.name, kind, formula, output.sister, factor))
        return Trace(write(tree), tuple(columns), tuple(keys))

    def _rewrite(
        self, tree: Expr, outer: Scope | None, known: Known, keys: list[str] | None = None
    ) -> _Rewritten:
        """A query with sister columns; with `keys`, also with columns for the ORDER BY terms."""
        known = self._rewrite_ctes(tree, outer, known)
        if tree.key == "select":
            if tree.args.get("distinct"):
                raise fail("DISTINCT cannot be traced; write GROUP BY", tree)
            return self._rewrite_select(tree, outer, known, keys)
        if tree.key == "union":
            return self._rewrite_union(tree, outer, known)
        raise fail(f"{tree.key.upper()} cannot be traced; write it as a condition", tree)

    def _rewrite_ctes(self, tree: Expr, outer: Scope | None, known: Known) -> Known:
        clause = tree.args.get("with_")
        for cte in clause.expressions if clause else ():
            name = cte.alias.lower()
            if cte.args["alias"].args.get("columns"):
                raise fail(f"name the columns of '{cte.alias}' with AS in its query", cte)
            query, outputs = self._rewrite(cte.this, outer, {**known, name: None})
            cte.set("this", query)
            known = {**known, name: outputs}
        return known

    def _rewrite_select(
        self,
        tree: Expr,
        outer: Scope | None,
        known: Known,
        keys: list[str] | None,
        every: bool = False,
    ) -> _Rewritten:
        """Append sisters to a SELECT; with `every`, constants get one too."""
        scope = self._sources.open_scope(tree, outer, known)
        expand_stars(tree, scope)
        items = list(tree.expressions)
        order = list_terms(tree, "order")
        having = tree.args.get("having")
        taken = [*items, *([having] if having else ()), *order]
        scope.grouped = bool(tree.args.get("group")) or any(map(has_aggregate, taken))
        scope.keys = _find_group_keys(tree, scope)
        outputs: list[Output] = []
        sisters: list[Expr] = []
        for item in items:
            traced = self._expressions.trace(item.unalias(), scope)
            sister = ""
            if traced.terms or every or keys is not None:
                sister = f"__origins{next(self._numbers)}"
                text = join_terms(traced.terms)
                # Only at the top level, where a cell without origins must be empty.
                text = text if keys is None else f"trim({text})"
                sisters.append(make_raw(f"{text} AS {quote_name(sister)}"))
            name = name_item(item, scope)
            outputs.append(Output(name, sister, traced.kind, traced.formula, traced.factor))
        extra: list[Expr] = []
        if keys is not None:
            for term in order:
                keys.append(f"__key{next(self._numbers)}")
                value = _write_order_key(term.this, items)
                extra.append(make_raw(f"{value} AS {quote_name(keys[-1])}"))
        tree.set("expressions", [*items, *sisters, *extra])
        return tree, outputs

    def _rewrite_union(self, tree: Expr, outer: Scope | None, known: Known) -> _Rewritten:
        if tree.args.get("distinct"):
            raise fail("UNION cannot be traced; write UNION ALL", tree)
        if any(tree.args.get(name) for name in ("order", "limit", "offset")):
            message = "ORDER BY after UNION ALL cannot be traced; put the UNION ALL into WITH"
            raise fail(message, tree)
        first, left = self._rewrite_side(tree.this, outer, known)
        second, right = self._rewrite_side(tree.expression, outer, known)
        tree.set("this", first)
        tree.set("expression", second)
        outputs = []
        for one, other in zip(left, right, strict=True):
            kind, factor = unite_kinds((one, other))
            formula = " or ".join(dict.fromkeys((one.formula, other.formula)))
            outputs.append(replace(one, kind=kind, formula=formula, factor=factor))
        return tree, outputs

    def _rewrite_side(self, tree: Expr, outer: Scope | None, known: Known) -> _Rewritten:
        """One side of a UNION ALL. Both need the same columns, so every column gets a sister."""
        if tree.key == "select" and not tree.args.get("distinct"):
            return self._rewrite_select(tree, outer, known, None, every=True)
        return self._rewrite(tree, outer, known)


def _find_group_keys(select: Expr, scope: Scope) -> list[Expr]:
    """The GROUP BY terms as expressions over the sources. Column names take precedence over result
    names."""
    items = select.expressions
    keys = []
    for term in list_terms(select, "group"):
        named = _find_named(term, items)
        is_column = term.key == "column" and find_column(term, scope) is not None
        keys.append(term if named is None or is_column else named)
    return keys


def _write_order_key(term: Expr, items: Sequence[Expr]) -> str:
    """SQL over the sources for the value that an ORDER BY term compares. Result names take
    precedence over column names."""
    if term.key == "collate":
        raise fail("COLLATE cannot be traced; order by lower(...)", term)
    named = _find_named(term, items)
    return write(term if named is None else named)


def _find_named(term: Expr, items: Sequence[Expr]) -> Expr | None:
    """The result column that a term refers to by number or name."""
    if is_whole(term):
        return items[int(term.name) - 1].unalias()
    if term.key != "column" or term.text("table"):
        return None
    name = term.name.lower()
    return next((i.this for i in items if i.key == "alias" and i.alias.lower() == name), None)
