"""Rows taken together: aggregates and windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bindery.evidence.lineage.dialect import make_raw, write
from bindery.evidence.lineage.formulas import Formulas, is_column
from bindery.evidence.lineage.functions import (
    COUNTERS,
    EXTREMES,
    TEXT_AGGREGATES,
    is_aggregate,
    strip_arguments,
)
from bindery.evidence.lineage.model import (
    COMPUTED,
    CONSTANT,
    UNSCALED,
    Traced,
    unite_kinds,
    unite_terms,
)
from bindery.evidence.lineage.nodes import fail
from bindery.evidence.lineage.origins import gather, join_terms, list_rows
from bindery.evidence.lineage.scopes import Scope
from bindery.evidence.lineage.texts import separates_values

if TYPE_CHECKING:
    from sqlglot.expressions import Expr


@dataclass(frozen=True, slots=True)
class Groups:
    """Follows aggregates and windows; `trace` follows what stands in them."""

    formulas: Formulas
    trace: Callable[[Expr, Scope], Traced]

    def trace_aggregate(self, node: Expr, scope: Scope, over: str = "") -> Traced:
        """Rows taken together, by GROUP BY or, with `over`, by a window."""
        function = node.this if node.key == "filter" else node
        name = function.name.lower()
        chosen = f" FILTER ({write(node.expression).strip()})" if node.key == "filter" else ""
        clause = chosen + over
        arguments = strip_arguments(function)
        if not arguments or arguments[0].key == "star":
            rows = list_rows(scope.sources)
            counted = (_gather_rows(join_terms(rows), clause, over),) if rows else ()
            return Traced(COMPUTED, f"{name}(*)", counted)
        inner = scope if over else replace(scope, grouped=False)  # row by row
        parts = [self.trace(argument, inner) for argument in arguments]
        value = f"({write(arguments[0])})"
        terms = unite_terms(parts)
        shown = ", ".join(part.formula for part in parts)
        if chosen and is_column(parts[0].formula):
            shown = f"{shown}[{self.formulas.show_condition(node.expression.this, scope)}]"
        kind, factor = unite_kinds(parts)
        if name in ("group_concat", "string_agg"):
            separator = parts[1] if len(parts) > 1 else None
            if kind != CONSTANT and not separates_values(separator):
                kind, factor = COMPUTED, UNSCALED
        elif name not in EXTREMES and name not in TEXT_AGGREGATES:
            kind, factor = COMPUTED if terms or name == "count" else CONSTANT, UNSCALED
        picked = name in EXTREMES and shown.endswith("]")
        formula = shown if picked else f"{name}({shown})"
        if not terms:
            return Traced(kind, formula, factor=factor)
        term = f"CASE WHEN {value} IS NOT NULL THEN {join_terms(terms)} END"
        if name not in EXTREMES:
            return Traced(kind, formula, (_gather_rows(term, clause, over),), factor)
        # One of the rows that reach the extreme, found by its value as a key of a JSON object.
        extreme = f"{name}({value}){clause}"
        cells = f"json_group_object(hex(quote({value})), {term}){clause}"
        found = f"json_extract({cells}, '$.' || hex(quote({extreme})))"
        return Traced(kind, formula, (found,), factor)

    def trace_window(self, node: Expr, scope: Scope) -> Traced:
        function = node.this.this if node.this.key == "filter" else node.this
        name = function.name.lower()
        if function.key != "anonymous":
            raise fail(f"'{write(node)}' cannot be followed", node)
        formula = self.formulas.show(node, scope)
        if name in COUNTERS:
            return Traced(CONSTANT, formula)
        over = _write_over(node)
        if is_aggregate(function):
            return replace(self.trace_aggregate(node.this, scope, over), formula=formula)
        raise fail(f"'{name}' over a window cannot be followed", node)


def _gather_rows(term: str, clause: str, over: str) -> str:
    # A window takes no DISTINCT.
    return f"group_concat({term}, ' '){clause}" if over else gather(term, clause)


def _write_over(window: Expr) -> str:
    """A window without its function."""
    mark = "\1"
    shell = window.copy()
    shell.set("this", make_raw(mark))
    return write(shell).removeprefix(mark)
