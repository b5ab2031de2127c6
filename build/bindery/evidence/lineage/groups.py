"""Trace aggregates and window functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from bindery.evidence.lineage.dialect import fail, gather, is_query, join_terms, make_raw, write
from bindery.evidence.lineage.formulas import Formulas
from bindery.evidence.lineage.model import (
    COMPUTED,
    CONSTANT,
    UNSCALED,
    Traced,
    unite_kinds,
    unite_terms,
)
from bindery.evidence.lineage.scopes import Scope, list_rows
from bindery.evidence.lineage.texts import separates_values

if TYPE_CHECKING:
    from sqlglot.expressions import Expr


_AGGREGATES = frozenset("avg count group_concat string_agg sum total".split())
EXTREMES = frozenset(("min", "max"))
"""With one argument they are aggregates, with more they are not."""
_COUNTERS = frozenset("row_number rank dense_rank percent_rank cume_dist ntile".split())
"""Window functions that return a row's position."""


def is_aggregate(function: Expr) -> bool:
    name = function.name.lower()
    return name in _AGGREGATES or (name in EXTREMES and len(_strip_arguments(function)) == 1)


def _strip_arguments(aggregate: Expr) -> list[Expr]:
    """An aggregate's arguments without DISTINCT and ORDER BY."""
    arguments: list[Expr] = []
    for argument in aggregate.expressions:
        bare = argument.this if argument.key == "order" else argument
        arguments += bare.expressions if bare.key == "distinct" else [bare]
    return arguments


def has_aggregate(tree: Expr) -> bool:
    """Whether an expression aggregates, not counting windows and subqueries."""
    if is_query(tree):
        return False
    if tree.key == "window":
        parts = [*tree.this.expressions, *(tree.args.get("partition_by") or ())]
        parts += [part for part in (tree.args.get("order"),) if part]
        return any(map(has_aggregate, parts))
    if tree.key == "anonymous" and is_aggregate(tree):
        return True
    return any(map(has_aggregate, tree.iter_expressions()))


class Groups(Struct, frozen=True):
    """Traces aggregates and windows; `trace` traces the expressions in them."""

    formulas: Formulas
    trace: Callable[[Expr, Scope], Traced]

    def trace_aggregate(self, node: Expr, scope: Scope, over: str = "") -> Traced:
        """An aggregate over GROUP BY or, with `over`, over a window."""
        name = node.name.lower()
        arguments = _strip_arguments(node)
        if not arguments or arguments[0].key == "star":
            rows = list_rows(scope.sources)
            counted = (_gather_rows(join_terms(rows), over),) if rows else ()
            return Traced(COMPUTED, f"{name}(*)", counted)
        inner = scope if over else replace(scope, grouped=False)  # row by row
        parts = [self.trace(argument, inner) for argument in arguments]
        value = f"({write(arguments[0])})"
        terms = unite_terms(parts)
        shown = ", ".join(part.formula for part in parts)
        kind, factor = unite_kinds(parts)
        if name in ("group_concat", "string_agg"):
            separator = parts[1] if len(parts) > 1 else None
            if kind != CONSTANT and not separates_values(separator):
                kind, factor = COMPUTED, UNSCALED
        elif name not in EXTREMES:
            kind, factor = COMPUTED if terms or name == "count" else CONSTANT, UNSCALED
        picked = name in EXTREMES and shown.endswith("]")
        formula = shown if picked else f"{name}({shown})"
        if not terms:
            return Traced(kind, formula, factor=factor)
        term = f"CASE WHEN {value} IS NOT NULL THEN {join_terms(terms)} END"
        if name not in EXTREMES:
            return Traced(kind, formula, (_gather_rows(term, over),), factor)
        # Find a row with the extreme value by using values as keys of a JSON object.
        extreme = f"{name}({value}){over}"
        cells = f"json_group_object(hex(quote({value})), {term}){over}"
        found = f"json_extract({cells}, '$.' || hex(quote({extreme})))"
        return Traced(kind, formula, (found,), factor)

    def trace_window(self, node: Expr, scope: Scope) -> Traced:
        function = node.this
        name = function.name.lower()
        if function.key != "anonymous":
            raise fail(f"'{write(node)}' cannot be traced", node)
        formula = self.formulas.show(node, scope)
        if name in _COUNTERS:
            return Traced(CONSTANT, formula)
        over = _write_over(node)
        if is_aggregate(function):
            return replace(self.trace_aggregate(function, scope, over), formula=formula)
        raise fail(f"'{name}' over a window cannot be traced", node)


def _gather_rows(term: str, over: str) -> str:
    # Windows do not support DISTINCT.
    return f"group_concat({term}, ' '){over}" if over else gather(term)


def _write_over(window: Expr) -> str:
    """A window without its function."""
    mark = "\1"
    shell = window.copy()
    shell.set("this", make_raw(mark))
    return write(shell).removeprefix(mark)
