"""Where every cell of a query comes from: the query rewritten so that it says so itself.

Each column of the result gets a sister column with the cells of the base tables that its value was
taken or worked out from. What decides whether a value is chosen (WHERE, ON, the condition of a
CASE, a key of ORDER BY) is not an origin; what the value is made of is one.

The rewritten query keeps the rows of the original and their order. What cannot be followed rightly
is refused, never guessed.

Imports go one way, from the right to the left: model, dialect; scopes, formulas, texts;
groups, expressions, queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from bindery.evidence.lineage.model import ColumnTrace, Trace, UntraceableError

__all__ = ["ColumnTrace", "Trace", "UntraceableError", "trace_query"]


def trace_query(sql: str, tables: Mapping[str, Sequence[str]]) -> Trace:
    """The query with the origins of its cells, for base tables given with their columns.

    The query is one that SQLite takes. Raises UntraceableError where a cell cannot be followed.
    """
    return _trace(sql, tuple((name, tuple(columns)) for name, columns in tables.items()))


@lru_cache(maxsize=4096)  # while a book is watched, most of its views stay as they are
def _trace(sql: str, tables: tuple[tuple[str, tuple[str, ...]], ...]) -> Trace:
    # Imported here: it takes longer than the check of a book without views.
    from sqlglot.errors import UnsupportedError

    from bindery.evidence.lineage.queries import Queries

    try:
        return Queries(sql, dict(tables)).trace()
    except UnsupportedError as error:
        raise UntraceableError(f"the query cannot be followed: {error}", 1) from None
