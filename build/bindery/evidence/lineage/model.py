"""The result of tracing a query, and intermediate results."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Literal

from msgspec import Struct

Kind = Literal["copy", "scaled", "computed", "constant"]

KINDS: tuple[Kind, ...] = ("constant", "copy", "scaled", "computed")
"""By rank: a value made of several parts gets the highest rank among them."""
CONSTANT, COPY, SCALED, COMPUTED = range(4)

UNSCALED = Fraction(1)


class ColumnTrace(Struct, frozen=True):
    """How one column of a query is made."""

    key: str
    """The column's name in the query."""
    kind: Kind
    """`copy`: unchanged. `scaled`: converted to another unit. `computed`: calculated. `constant`:
    not from evidence."""
    formula: str
    """The arithmetic in column names; empty for copies and constants."""
    origins: str
    """The column of the rewritten query with the origins of each cell."""
    factor: float = 1.0
    """The factor of a scaled value, otherwise 1. SQLite truncates integer division."""


class Trace(Struct, frozen=True):
    """A query that also returns the origins of its cells.

    Origins are items `table:rowid:column`, separated by spaces, unordered and possibly repeated;
    NULL or empty text means none. The column is `*` where rows were counted.
    """

    sql: str
    """Returns the original columns, then their origins, then the ORDER BY keys."""
    columns: tuple[ColumnTrace, ...]
    order_keys: tuple[str, ...]
    """Columns with the ORDER BY terms: rows equal in all of them are tied."""


class UntraceableError(Exception):
    """A query that cannot be traced; `line` counts from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


class Traced(Struct, frozen=True):
    """A traced expression: kind, formula, and SQL for its origins."""

    kind: int = CONSTANT
    formula: str = ""
    """With marks for base columns (see `formulas`)."""
    terms: tuple[str, ...] = ()
    factor: Fraction = UNSCALED
    """The factor of a scaled value, otherwise 1."""


class Output(Struct, frozen=True):
    """A column of a query, with its sister once the query is rewritten."""

    name: str
    """Empty if the query has none."""
    sister: str
    """Empty if no cell can have an origin."""
    kind: int
    formula: str
    factor: Fraction = UNSCALED


def unite_terms(parts: Iterable[Traced]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(term for part in parts for term in part.terms))


def combine(formula: str, parts: Iterable[Traced]) -> Traced:
    """A value computed from several parts."""
    parts = tuple(parts)
    made = any(part.kind != CONSTANT for part in parts)
    return Traced(COMPUTED if made else CONSTANT, formula, unite_terms(parts))


def unite_kinds(parts: Iterable[Traced | Output]) -> tuple[int, Fraction]:
    """The kind and factor of a value that is one of several parts, or contains all of them.

    Parts with different factors make it computed.
    """
    parts = tuple(parts)
    kind = max((part.kind for part in parts), default=CONSTANT)
    factors = {part.factor for part in parts if part.kind != CONSTANT}
    if kind == COMPUTED or len(factors) > 1:
        return max(kind, COMPUTED), UNSCALED
    return kind, factors.pop() if factors else UNSCALED
