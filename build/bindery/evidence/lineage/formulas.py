"""Formulas as readers see them.

While a query is traced, a formula contains base columns as marks, numbers between two NUL
characters. How a name is written depends on the other names in the whole formula.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from msgspec import Struct

from bindery.evidence.lineage.dialect import make_raw, quote_text, write_lower
from bindery.evidence.lineage.model import CONSTANT, Traced, UntraceableError
from bindery.evidence.lineage.scopes import Scope, Source, find_column

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

_MARK = re.compile("\0(\\d+)\0")
_ATOM = re.compile("[\\w.\0]+(\\[[^\\]]*\\]|\\([^()]*\\))?")
_NUMBER = re.compile(r"(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


class _Leaf(Struct, frozen=True):
    """A base column named in a formula."""

    table: str
    alias: str
    column: str


class Formulas:
    """The formulas of a query."""

    def __init__(self) -> None:
        self._leaves: dict[_Leaf, int] = {}

    def mark_column(self, source: Source, key: str) -> str:
        """The mark of a base column."""
        leaf = _Leaf(source.table, source.alias, source.spell_column(key))
        return f"\0{self._leaves.setdefault(leaf, len(self._leaves))}\0"

    def name_columns(self, formula: str) -> str:
        """The formula with column names, as short as is unambiguous."""
        leaves = list(self._leaves)
        used = [leaves[int(number)] for number in dict.fromkeys(_MARK.findall(formula))]

        def name(match: re.Match[str]) -> str:
            leaf = leaves[int(match[1])]
            alike = {other for other in used if other.column == leaf.column}
            if len(alike) == 1:
                return leaf.column
            if len({other.table for other in alike}) == len(alike):
                return f"{leaf.table}.{leaf.column}"
            return f"{leaf.alias}.{leaf.column}"

        return _MARK.sub(name, formula)

    def show(self, node: Expr, scope: Scope) -> str:
        """An expression as written."""

        def put(part: Expr) -> Expr:
            if part.key == "column":
                return make_raw(self._show_column(part, scope))
            return make_raw(show_literal(part)) if part.key == "literal" else part

        return write_lower(node.transform(put))

    def show_condition(self, condition: Expr, scope: Scope, base: Expr | None = None) -> str:
        """The condition that selects cells of a column, for the brackets after its name.

        With `base`, the condition is a value of that expression.
        """

        def show(node: Expr) -> str:
            if node.args.get("is_string") and re.fullmatch(r"\w[\w .-]*", node.name):
                return node.name
            return self.show(node, scope)

        if base:
            return f"{show(base)} = {show(condition)}"
        if condition.key == "paren":
            return self.show_condition(condition.this, scope)
        if condition.key == "and":
            sides = (condition.this, condition.expression)
            return ", ".join(self.show_condition(side, scope) for side in sides)
        if condition.key == "eq":
            return f"{show(condition.this)} = {show(condition.expression)}"
        return self.show(condition, scope)

    def _show_column(self, node: Expr, scope: Scope) -> str:
        try:
            place = find_column(node, scope)
        except UntraceableError:
            place = None
        if place is None or not place.source.table:
            return node.name
        return self.mark_column(place.source, place.key)


def show_literal(node: Expr) -> str:
    if node.args.get("is_string"):
        return quote_text(node.name)
    return re.sub(r"^(\d+)\.0+$", r"\1", node.name)


def wrap(formula: str) -> str:
    """A formula in parentheses, if needed as part of another."""
    return formula if _ATOM.fullmatch(formula) else f"({formula})"


def is_column(formula: str) -> bool:
    """Whether a formula is a single base column."""
    return _MARK.fullmatch(formula) is not None


def read_conversion(factor: Traced) -> Fraction | None:
    """The value of a factor that only converts a unit; otherwise None."""
    if factor.kind != CONSTANT or not _NUMBER.fullmatch(factor.formula):
        return None
    value = Decimal(factor.formula)
    rests = [value, value / 8, value / 60, value / 3600]
    rests += [value / 1024**power for power in range(1, 7)]
    plain = any(rest.normalize().as_tuple().digits == (1,) for rest in rests)
    return Fraction(value) if plain else None
