"""What is reported of a query and its columns, and what is known of them on the way."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

Kind = Literal["copy", "scaled", "computed", "constant"]

KINDS: tuple[Kind, ...] = ("constant", "copy", "scaled", "computed")
"""By rank: what is made of parts has the highest of theirs."""
CONSTANT, COPY, SCALED, COMPUTED = range(4)

UNSCALED = Fraction(1)


@dataclass(frozen=True, slots=True)
class ColumnTrace:
    """How one column of a query comes about."""

    key: str
    """As the query names the column."""
    kind: Kind
    """`copy`: passed on unchanged. `scaled`: in another unit. `computed`: worked out. `constant`:
    from no evidence."""
    formula: str
    """The arithmetic in the names of columns; empty for a copy and a constant."""
    origins: str
    """The column of the rewritten query that holds the origins of each cell."""
    factor: float = 1.0
    """What a scaled value was multiplied by; 1 for all others. SQLite drops the remainder when it
    divides whole numbers."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A query that also gives the origins of its cells.

    The origins of a cell are items `table:rowid:column` with spaces between them, in no order; an
    item may occur twice. NULL or an empty text means none. The column is `*` where rows were
    counted.
    """

    sql: str
    """Gives the columns of the original, then those of the origins, then the keys of the order."""
    columns: tuple[ColumnTrace, ...]
    order_keys: tuple[str, ...]
    """Columns that hold the values of the terms of ORDER BY: rows alike in all of them are tied."""


class UntraceableError(Exception):
    """A query whose cells cannot be followed; `line` is where, counted from 1."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.message = message
        self.line = line


@dataclass(frozen=True, slots=True)
class Traced:
    """What is known of an expression: its kind, its formula, and SQL that gives its origins."""

    kind: int = CONSTANT
    formula: str = ""
    """Base columns are marks in it (see `formulas`)."""
    terms: tuple[str, ...] = ()
    factor: Fraction = UNSCALED
    """Of a scaled value; 1 for all others."""


@dataclass(frozen=True, slots=True)
class Output:
    """A column of a query, and its sister once the query is rewritten."""

    name: str
    """Empty where the query gives none."""
    sister: str
    """Empty where no cell can have an origin."""
    kind: int
    formula: str
    factor: Fraction = UNSCALED


def unite_terms(parts: Iterable[Traced]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(term for part in parts for term in part.terms))


def combine(formula: str, parts: Iterable[Traced]) -> Traced:
    """What is worked out from some parts."""
    parts = tuple(parts)
    made = any(part.kind != CONSTANT for part in parts)
    return Traced(COMPUTED if made else CONSTANT, formula, unite_terms(parts))


def unite_kinds(parts: Iterable[Traced | Output]) -> tuple[int, Fraction]:
    """The kind and the factor of what is one of some parts, or has them side by side.

    Parts that are scaled differently make it computed.
    """
    parts = tuple(parts)
    kind = max((part.kind for part in parts), default=CONSTANT)
    factors = {part.factor for part in parts if part.kind != CONSTANT}
    if kind == COMPUTED or len(factors) > 1:
        return max(kind, COMPUTED), UNSCALED
    return kind, factors.pop() if factors else UNSCALED
