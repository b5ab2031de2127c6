"""Queries with sister columns: SELECT, WITH, UNION ALL, and the queries inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bindery.evidence.lineage.clauses import (
    find_group_keys,
    write_order_key,
)
from bindery.evidence.lineage.dialect import (
    NewNames,
    make_raw,
    quote_name,
    read_select,
    write,
)
from bindery.evidence.lineage.expressions import Expressions
from bindery.evidence.lineage.formulas import Formulas
from bindery.evidence.lineage.functions import has_aggregate
from bindery.evidence.lineage.model import (
    CONSTANT,
    KINDS,
    SCALED,
    ColumnTrace,
    Output,
    Trace,
    unite_kinds,
)
from bindery.evidence.lineage.nodes import (
    fail,
    is_query,
    is_whole,
    list_clauses,
    list_terms,
    walk_own,
)
from bindery.evidence.lineage.origins import join_terms
from bindery.evidence.lineage.scopes import Known, Scope, expand_stars, name_item
from bindery.evidence.lineage.sources import Sources

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

_Rewritten = tuple["Expr", Sequence[Output]]


class Queries:
    """One query on its way to being rewritten, with all the queries in it."""

    def __init__(self, sql: str, tables: Mapping[str, Sequence[str]]) -> None:
        self._sql = sql
        self._names = NewNames([sql, *(name for columns in tables.values() for name in columns)])
        self._sources = Sources(tables, self._names)
        self._formulas = Formulas()
        self._expressions = Expressions(self._formulas, self._rewrite)

    def trace(self) -> Trace:
        keys: list[str] = []
        tree, outputs = self._rewrite(read_select(self._sql), None, {}, keys)
        columns = []
        for number, output in enumerate(outputs, 1):
            if not output.name:
                raise fail(f"column {number} of the query has no name; write AS and one", tree)
            worked_out = output.kind >= SCALED
            formula = self._formulas.name_columns(output.formula) if worked_out else ""
            kind, factor = KINDS[output.kind], float(output.factor)
            columns.append(ColumnTrace(output.name, kind, formula, output.sister, factor))
        sql = write(tree)
        limit, beyond = None, ""
        clause = tree.args.get("limit")
        if clause and is_whole(clause.expression):
            limit = int(clause.expression.name)
            clause.set("expression", make_raw(str(limit + 1)))
            beyond = write(tree)
        return Trace(sql, tuple(columns), tuple(keys), limit, beyond)

    def _rewrite(
        self, tree: Expr, outer: Scope | None, known: Known, keys: list[str] | None = None
    ) -> _Rewritten:
        """A query with sister columns; with `keys`, also with columns for the terms of ORDER BY."""
        known = self._rewrite_ctes(tree, outer, known)
        if tree.key == "select":
            if tree.args.get("distinct"):
                raise fail("DISTINCT cannot be followed; write GROUP BY", tree)
            return self._rewrite_select(tree, outer, known, keys)
        if tree.key == "union":
            return self._rewrite_union(tree, outer, known)
        raise fail(f"{tree.key.upper()} cannot be followed; write it as a condition", tree)

    def _rewrite_ctes(self, tree: Expr, outer: Scope | None, known: Known) -> Known:
        clause = tree.args.get("with_")
        for cte in clause.expressions if clause else ():
            name = cte.alias.lower()
            if cte.args["alias"].args.get("columns"):
                raise fail(f"name the columns of '{cte.alias}' in its query, with AS", cte)
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
        """Append the sisters to a SELECT; with `every`, constants have one as well."""
        scope = self._sources.open_scope(tree, outer, known, self._rewrite)
        expand_stars(tree, scope)
        self._settle_subqueries(tree, scope)
        items = list(tree.expressions)
        order = list_terms(tree, "order")
        having = tree.args.get("having")
        taken = [*items, *([having] if having else ()), *order]
        scope.grouped = bool(tree.args.get("group")) or any(map(has_aggregate, taken))
        scope.keys = find_group_keys(tree, scope)
        outputs: list[Output] = []
        sisters: list[Expr] = []
        for item in items:
            traced = self._expressions.trace(item.unalias(), scope)
            sister = ""
            if traced.terms or every or keys is not None:
                sister = self._names.make("o")
                text = join_terms(traced.terms)
                # Only at the top: a cell without origins is empty, with no space left over.
                text = text if keys is None else f"trim({text})"
                sisters.append(make_raw(f"{text} AS {quote_name(sister)}"))
            name = name_item(item, scope)
            outputs.append(Output(name, sister, traced.kind, traced.formula, traced.factor))
        extra: list[Expr] = []
        if keys is not None:
            for term in order:
                keys.append(self._names.make("k"))
                value = write_order_key(term.this, items)
                extra.append(make_raw(f"{value} AS {quote_name(keys[-1])}"))
        tree.set("expressions", [*items, *sisters, *extra])
        return tree, outputs

    def _rewrite_union(self, tree: Expr, outer: Scope | None, known: Known) -> _Rewritten:
        if tree.args.get("distinct"):
            raise fail("UNION cannot be followed; write UNION ALL", tree)
        if any(tree.args.get(name) for name in ("order", "limit", "offset")):
            message = "ORDER BY beside UNION ALL cannot be followed; put the UNION ALL into WITH"
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
        """One side of a UNION ALL: both have the same columns, so each column has a sister."""
        if tree.key == "select" and not tree.args.get("distinct"):
            return self._rewrite_select(tree, outer, known, None, every=True)
        return self._rewrite(tree, outer, known)

    def _settle_subqueries(self, select: Expr, scope: Scope) -> None:
        """Write out the stars in the queries of all clauses; these get no sisters."""
        for clause in list_clauses(select):
            for node in walk_own(clause):
                if is_query(node):
                    if node.parent and node.parent.key == "subquery":
                        scope.inner[id(node.parent)] = node.copy()
                    self._settle(node, scope, scope.known)
                elif node.key == "in" and node.args.get("field"):
                    message = "IN beside the name of a table cannot be followed; write a SELECT"
                    raise fail(message, node)

    def _settle(self, tree: Expr, outer: Scope | None, known: Known) -> _Rewritten:
        known = self._rewrite_ctes(tree, outer, known)
        if tree.key != "select":
            _, outputs = self._settle(tree.this, outer, known)
            self._settle(tree.expression, outer, known)
            return tree, outputs
        scope = self._sources.open_scope(tree, outer, known, self._settle)
        expand_stars(tree, scope)
        self._settle_subqueries(tree, scope)
        names = [name_item(item, scope) for item in tree.expressions]
        return tree, [Output(name, "", CONSTANT, "") for name in names]
