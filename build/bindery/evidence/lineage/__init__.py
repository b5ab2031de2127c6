"""Trace every cell of a query to its sources by rewriting the query.

Each result column gets an origin column, the "sister", that names the base cells its value was
copied or computed from. Conditions that only select values (WHERE, ON, a CASE condition, an ORDER
BY key) are not origins.

The rewritten query keeps the rows of the original and their order. A query that cannot be traced
correctly is rejected, never guessed.

Imports go one way, right to left: model, dialect; scopes, formulas, texts; groups, expressions,
queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from bindery.evidence.lineage.model import ColumnTrace, Trace, UntraceableError

__all__ = ["ColumnTrace", "Trace", "UntraceableError", "trace_query"]


def trace_query(sql: str, tables: Mapping[str, Sequence[str]]) -> Trace:
    """Trace a query that SQLite accepts, given the base tables and their columns.

    Raises UntraceableError if a cell cannot be traced.
    """
    return _trace(sql, tuple((name, tuple(columns)) for name, columns in tables.items()))


@lru_cache(maxsize=4096)  # in watch mode most views do not change
def _trace(sql: str, tables: tuple[tuple[str, tuple[str, ...]], ...]) -> Trace:
    # Imported here: sqlglot takes longer than checking a book without views.
    from sqlglot.errors import UnsupportedError

    from bindery.evidence.lineage.queries import Queries

    try:
        return Queries(sql, dict(tables)).trace()
    except UnsupportedError as error:
        raise UntraceableError(f"the query cannot be traced: {error}", 1) from None
