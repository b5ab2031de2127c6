"""Trace expressions: their kind, formula and origins."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bindery.evidence.lineage.dialect import fail, gather, join_terms, quote_name, write
from bindery.evidence.lineage.formulas import (
    Formulas,
    is_column,
    read_conversion,
    show_literal,
    wrap,
)
from bindery.evidence.lineage.groups import EXTREMES, Groups, is_aggregate
from bindery.evidence.lineage.model import (
    COMPUTED,
    CONSTANT,
    COPY,
    SCALED,
    UNSCALED,
    Traced,
    combine,
    unite_kinds,
    unite_terms,
)
from bindery.evidence.lineage.scopes import (
    Rewrite,
    Scope,
    find_column,
    write_cell,
    write_sister,
)
from bindery.evidence.lineage.texts import shows_values

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

LONGEST_EXPANSION = 80
"""The longest formula that is inlined where another formula uses the column."""

_ITEM_PART = re.compile(r"[^\s:,]+")
_OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "div": "/",
    "mod": "%",
    "dpipe": "||",
    "eq": "=",
    "neq": "<>",
    "gt": ">",
    "gte": ">=",
    "lt": "<",
    "lte": "<=",
    "and": "AND",
    "or": "OR",
}
# Nodes computed from all of their parts.
_PLAIN = frozenset(
    "neg not bitwisenot is nullsafeeq nullsafeneq between like glob escape tuple bitwiseand "
    "bitwiseor bitwiseleftshift bitwiserightshift distinct regexplike".split()
)
_CAST_TYPES = frozenset("INT BIGINT FLOAT DOUBLE DECIMAL TEXT BLOB VARCHAR VARBINARY".split())

_TEXT_FUNCTIONS = frozenset("lower quote upper".split())
"""Functions that can leave a value unchanged."""

_Follow = Callable[["Expr"], Traced]


class Expressions:
    """Traces the expressions of a query; `rewrite` adds sisters to subqueries."""

    def __init__(self, formulas: Formulas, rewrite: Rewrite) -> None:
        self._formulas = formulas
        self._rewrite = rewrite
        self._groups = Groups(formulas, self.trace)

    def trace(self, node: Expr, scope: Scope) -> Traced:
        traced = self._trace_row(node, scope)
        if scope.grouped and traced.terms and _is_key(node, scope):
            return replace(traced, terms=(gather(join_terms(traced.terms)),))
        return traced

    def _trace_row(self, node: Expr, scope: Scope) -> Traced:
        def follow(part: Expr) -> Traced:
            return self.trace(part, scope)

        match node.key:
            case "literal":
                return Traced(CONSTANT, show_literal(node))
            case "null" | "boolean" | "hexstring":
                return Traced(CONSTANT, write(node))
            case "exists":
                return Traced(CONSTANT, "EXISTS (...)")
            case "column":
                return self._trace_column(node, scope)
            case "paren":
                inner = follow(node.this)
                return replace(inner, formula=wrap(inner.formula))
            case "cast":
                if node.args["to"].this.name not in _CAST_TYPES:
                    raise fail(f"a CAST to {write(node.args['to'])} cannot be traced", node)
                return follow(node.this)
            case "case":
                return self._trace_case(node, follow, scope)
            case "mul" | "div":
                return _trace_product(node, follow)
            case "dpipe":
                parts = [follow(node.this), follow(node.expression)]
                formula = f"{parts[0].formula} || {parts[1].formula}"
                if not shows_values(node, follow):
                    return combine(formula, parts)
                kind, factor = unite_kinds(parts)
                return Traced(kind, formula, unite_terms(parts), factor)
            case "subquery":
                return self._trace_subquery(node, scope)
            case "in":
                parts = [follow(part) for part in (node.this, *node.expressions)]
                return combine(self._formulas.show(node, scope), parts)
            case "window":
                return self._groups.trace_window(node, scope)
            case "anonymous":
                return self._trace_function(node, follow, scope)
            case key if key in _OPERATORS:
                parts = [follow(node.this), follow(node.expression)]
                formula = f"{parts[0].formula} {_OPERATORS[key]} {parts[1].formula}"
                return combine(formula, parts)
            case key if key in _PLAIN:
                parts = [follow(part) for part in node.iter_expressions() if part.key != "var"]
                if key == "neg" and parts[0].kind == CONSTANT:
                    return Traced(CONSTANT, f"-{parts[0].formula}")
                return combine(self._formulas.show(node, scope), parts)
            case _:
                raise fail(f"'{write(node)}' cannot be traced", node)

    def _trace_column(self, node: Expr, scope: Scope) -> Traced:
        place = find_column(node, scope)
        if place is None:
            raise fail(f"there is no column '{write(node)}'", node)
        source, key = place.source, place.key
        if source.table:
            if not source.has_column(key):
                return Traced(CONSTANT, "rowid")
            name = source.spell_column(key)
            for part in (source.table, name):
                if not _ITEM_PART.fullmatch(part):
                    message = f"'{part}' has a space, a comma or a colon in its name; rename it"
                    raise fail(message, node)
            return Traced(
                COPY, self._formulas.mark_column(source, key), (write_cell(source, name),)
            )
        output = source.outputs[key]
        formula = wrap(output.formula)
        if len(formula) > LONGEST_EXPANSION and output.kind == COMPUTED:
            formula = output.name
        terms = (write_sister(source, output.sister),) if output.sister else ()
        return Traced(output.kind, formula, terms, output.factor)

    def _trace_case(self, node: Expr, follow: _Follow, scope: Scope) -> Traced:
        """CASE: the origins of the branch taken."""
        base = node.this
        branches = [(branch.this, follow(branch.args["true"])) for branch in node.args["ifs"]]
        default = node.args.get("default")
        last = follow(default) if default else Traced(CONSTANT, "NULL")
        parts = [*(part for _, part in branches), last]
        kind, factor = unite_kinds(parts)
        if len(branches) == 1 and last.formula == "NULL" and is_column(parts[0].formula):
            condition = self._formulas.show_condition(branches[0][0], scope, base)
            formula = f"{parts[0].formula}[{condition}]"
        else:
            formula = "CASE"
            if base:
                formula += f" {self._formulas.show(base, scope)}"
            for condition, part in branches:
                formula += f" WHEN {self._formulas.show(condition, scope)} THEN {part.formula}"
            formula += f" ELSE {last.formula} END"
        if not unite_terms(parts):
            return Traced(kind, formula, factor=factor)
        head = f"CASE {write(base)}" if base else "CASE"
        whens = " ".join(
            f"WHEN {write(condition)} THEN {join_terms(part.terms)}" for condition, part in branches
        )
        taken = f"{head} {whens} ELSE {join_terms(last.terms)} END"
        return Traced(kind, formula, (taken,), factor)

    def _trace_choice(self, node: Expr, follow: _Follow, scope: Scope) -> Traced:
        """coalesce: the origins of the argument taken."""
        parts = [follow(argument) for argument in node.expressions]
        formula = self._formulas.show(node, scope)
        kind, factor = unite_kinds(parts)
        if not unite_terms(parts):
            return Traced(kind, formula, factor=factor)
        taken = " ".join(
            f"WHEN ({write(argument)}) IS NOT NULL THEN {join_terms(part.terms)}"
            for argument, part in zip(node.expressions, parts, strict=True)
        )
        return Traced(kind, formula, (f"CASE {taken} END",), factor)

    def _trace_function(self, node: Expr, follow: _Follow, scope: Scope) -> Traced:
        name = node.name.lower()
        if is_aggregate(node):
            return self._groups.trace_aggregate(node, scope)
        if name in ("iif", "if", "nullif"):
            raise fail(f"'{name}' cannot be traced; write CASE", node)
        if name in ("coalesce", "ifnull"):
            return self._trace_choice(node, follow, scope)
        parts = [follow(argument) for argument in node.expressions]
        formula = f"{name}({', '.join(part.formula for part in parts)})"
        if name in EXTREMES:
            return _trace_extreme(node, formula, parts)
        if name not in _TEXT_FUNCTIONS:
            return combine(formula, parts)
        kind, factor = unite_kinds(parts)
        return Traced(kind, formula, unite_terms(parts), factor)

    def _trace_subquery(self, node: Expr, scope: Scope) -> Traced:
        query, outputs = self._rewrite(node.this.copy(), scope, scope.known)
        output = outputs[0]
        formula = wrap(output.formula)
        if not output.sister:
            return Traced(output.kind, formula, factor=output.factor)
        term = f"(SELECT {quote_name(output.sister)} FROM ({write(query)}))"
        return Traced(output.kind, formula, (term,), output.factor)


def _is_key(node: Expr, scope: Scope) -> bool:
    """Whether an expression is a term of GROUP BY."""
    if node.key == "column":
        place = find_column(node, scope)
        return place is not None and any(
            key.key == "column" and find_column(key, scope) == place for key in scope.keys
        )
    alike = [key for key in scope.keys if key.key == node.key]
    if not alike:
        return False
    text = write(node)
    return any(write(key) == text for key in alike)


def _trace_extreme(function: Expr, formula: str, parts: Sequence[Traced]) -> Traced:
    """min and max with several arguments: the origins of the one returned."""
    kind, factor = unite_kinds(parts)
    if sum(part.kind != CONSTANT for part in parts) > 1:
        kind, factor = COMPUTED, UNSCALED
    if not unite_terms(parts):
        return Traced(kind, formula, factor=factor)
    value = f"quote({write(function)})"
    taken = " ".join(
        f"WHEN {value} = quote({write(argument)}) THEN {join_terms(part.terms)}"
        for argument, part in zip(function.expressions, parts, strict=True)
        if part.terms
    )
    return Traced(kind, formula, (f"CASE {taken} END",), factor)


def _trace_product(node: Expr, follow: _Follow) -> Traced:
    left, right = follow(node.this), follow(node.expression)
    terms = unite_terms((left, right))
    formula = f"{left.formula} {_OPERATORS[node.key]} {right.formula}"
    if left.kind == right.kind == CONSTANT:
        return Traced(CONSTANT, formula)
    if right.formula == "1":
        return replace(left, terms=terms)
    if left.formula == "1" and node.key == "mul":
        return replace(right, terms=terms)
    other, column = (left, right) if node.key == "mul" and right.kind else (right, left)
    conversion = read_conversion(other)
    if column.kind in (COPY, SCALED) and conversion:
        factor = column.factor * conversion if node.key == "mul" else column.factor / conversion
        return Traced(SCALED, formula, terms, factor)
    return Traced(COMPUTED, formula, terms)
