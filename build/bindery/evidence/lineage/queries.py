"""Queries with sister columns: SELECT, WITH, DISTINCT, UNION, and the queries inside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bindery.evidence.lineage.clauses import (
    find_group_keys,
    find_result,
    refuse_outer_aggregates,
    write_order_key,
)
from bindery.evidence.lineage.dialect import (
    NewNames,
    make_raw,
    quote_name,
    read,
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
from bindery.evidence.lineage.origins import gather, join_terms
from bindery.evidence.lineage.scopes import Known, Scope, expand_stars, name_item
from bindery.evidence.lineage.sources import Sources, list_values

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
                return self._rewrite_distinct(tree, outer, known, keys)
            return self._rewrite_select(tree, outer, known, keys)
        if tree.key == "union":
            return self._rewrite_union(tree, outer, known, keys)
        if tree.key == "values":
            return self._rewrite(self._select_values(tree), outer, known, keys)
        raise fail(f"{tree.key.upper()} cannot be followed; write it as a condition", tree)

    def _rewrite_ctes(self, tree: Expr, outer: Scope | None, known: Known) -> Known:
        clause = tree.args.get("with_")
        for cte in clause.expressions if clause else ():
            name = cte.alias.lower()
            query, outputs = self._rewrite(cte.this, outer, {**known, name: None})
            cte.set("this", query)
            columns = cte.args["alias"].args.get("columns")
            if columns:
                if len(columns) != len(outputs):
                    message = f"'{cte.alias}' names {len(columns)} columns and has {len(outputs)}"
                    raise fail(message, cte)
                outputs = [
                    replace(output, name=column.name)
                    for column, output in zip(columns, outputs, strict=True)
                ]
                sisters = [quote_name(output.sister) for output in outputs if output.sister]
                names = [*map(write, columns), *sisters]
                cte.args["alias"].set("columns", [make_raw(name) for name in names])
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
        for clause in list_clauses(tree) if outer else ():
            refuse_outer_aggregates(clause, scope)
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
                value = write_order_key(term.this, scope, items)
                extra.append(make_raw(f"{value} AS {quote_name(keys[-1])}"))
        tree.set("expressions", [*items, *sisters, *extra])
        return tree, outputs

    def _rewrite_distinct(
        self, tree: Expr, outer: Scope | None, known: Known, keys: list[str] | None
    ) -> _Rewritten:
        """SELECT DISTINCT as groups of equal rows, in the order of their first ones."""
        if tree.args["distinct"].args.get("on"):
            raise fail("DISTINCT ON is not of SQLite", tree)
        clauses = _take_clauses(tree)
        tree.set("distinct", None)
        tree, outputs = self._rewrite_select(tree, outer, known, None, every=True)
        originals = tree.expressions[: len(outputs)]
        place = quote_name(self._names.make("n"))
        tree.append("expressions", make_raw(f"row_number() OVER () AS {place}"))
        return self._group_rows(tree, outputs, originals, clauses, [f"min({place})"], keys)

    def _rewrite_union(
        self, tree: Expr, outer: Scope | None, known: Known, keys: list[str] | None
    ) -> _Rewritten:
        clauses = _take_clauses(tree)
        first, left = self._rewrite_arm(tree.this, outer, known)
        second, right = self._rewrite_arm(tree.expression, outer, known)
        if len(left) != len(right):
            raise fail("the two sides of a UNION have different numbers of columns", tree)
        tree.set("this", first)
        tree.set("expression", second)
        outputs = []
        for one, other in zip(left, right, strict=True):
            kind, factor = unite_kinds((one, other))
            formula = " or ".join(dict.fromkeys((one.formula, other.formula)))
            outputs.append(replace(one, kind=kind, formula=formula, factor=factor))
        if tree.args.get("distinct"):
            tree.set("distinct", False)
            return self._group_rows(tree, outputs, (), clauses, None, keys)
        if clauses or keys is not None:
            return self._group_rows(tree, outputs, (), clauses, [], keys, group=False)
        return tree, outputs

    def _rewrite_arm(self, tree: Expr, outer: Scope | None, known: Known) -> _Rewritten:
        """One side of a UNION: both have the same columns, so each column has a sister."""
        if tree.key == "values":
            tree = self._select_values(tree)
        if tree.key == "select" and not tree.args.get("distinct"):
            return self._rewrite_select(tree, outer, known, None, every=True)
        query, outputs = self._rewrite(tree, outer, known)
        if query.args.get("order"):
            # SQLite takes an ORDER BY on a side only one query deeper.
            query = read(f"SELECT * FROM ({write(query)}) AS {self._names.make('r')}")
        return query, outputs

    def _select_values(self, tree: Expr) -> Expr:
        """VALUES as a SELECT."""
        width = len(tree.expressions[0].expressions)
        columns = ", ".join(f"column{number}" for number in range(1, width + 1))
        return read(f"SELECT {columns} FROM ({write(tree)}) AS {self._names.make('r')}")

    def _group_rows(
        self,
        tree: Expr,
        outputs: Sequence[Output],
        originals: Sequence[Expr],
        clauses: Mapping[str, Expr],
        last: Sequence[str] | None,
        keys: list[str] | None,
        group: bool = True,
    ) -> _Rewritten:
        """A query around another one, which makes its equal rows one.

        `originals` are the items as they were, which terms of ORDER BY may repeat. `last` are the
        terms by which ties are put in order; None means the columns themselves.
        """
        names = [output.name for output in outputs]
        lower = [name.lower() for name in names]
        if "" in lower or len(set(lower)) != len(lower):
            message = "each column of a DISTINCT or a UNION needs a name of its own; write AS"
            raise fail(message, tree)
        source = quote_name(self._names.make("r"))
        items = [f"{source}.{quote_name(name)}" for name in names]
        texts = [write(item.unalias()) for item in originals]
        order = clauses.get("order")
        terms = []
        written = []
        for term in order.expressions if order else ():
            item = items[find_result(term, lower, texts)]
            written.append(item)
            term.set("this", make_raw(item))
            terms.append(write(term))
        terms += items if last is None else last
        made: list[Output] = []
        selected = [
            f"{item} AS {quote_name(name)}" for item, name in zip(items, names, strict=True)
        ]
        for output in outputs:
            sister = self._names.make("o")
            text = f"{source}.{quote_name(output.sister)}"
            text = gather(text) if group else text
            text = text if keys is None else f"trim({text})"
            selected.append(f"{text} AS {quote_name(sister)}")
            made.append(replace(output, sister=sister))
        if keys is not None:
            for text in written:
                keys.append(self._names.make("k"))
                selected.append(f"{text} AS {quote_name(keys[-1])}")
        sql = f"SELECT {', '.join(selected)} FROM ({write(tree)}) AS {source}"
        if group:
            sql += f" GROUP BY {', '.join(items)}"
        if terms:
            sql += f" ORDER BY {', '.join(terms)}"
        query = read(sql)
        for name in ("with_", "limit", "offset"):
            if name in clauses:
                query.set(name, clauses[name])
        return query, made

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
        if tree.key == "values":
            return tree, list_values(tree)
        if tree.key != "select":
            _, outputs = self._settle(tree.this, outer, known)
            self._settle(tree.expression, outer, known)
            return tree, outputs
        scope = self._sources.open_scope(tree, outer, known, self._settle)
        expand_stars(tree, scope)
        self._settle_subqueries(tree, scope)
        names = [name_item(item, scope) for item in tree.expressions]
        return tree, [Output(name, "", CONSTANT, "") for name in names]


def _take_clauses(tree: Expr) -> dict[str, Expr]:
    """Remove WITH, ORDER BY and LIMIT, for the query that will stand around this one."""
    clauses = {}
    for name in ("with_", "order", "limit", "offset"):
        if clause := tree.args.get(name):
            clauses[name] = clause
            tree.set(name, None)
    return clauses
