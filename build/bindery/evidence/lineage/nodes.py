"""What stands in a tree of SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from bindery.evidence.lineage.model import UntraceableError

if TYPE_CHECKING:
    from sqlglot.expressions import Expr


def fail(message: str, node: Expr) -> UntraceableError:
    """The refusal of a node, to be raised."""
    return UntraceableError(message, find_line(node))


def find_line(node: Expr) -> int:
    """The line of a node, or of what it stands in."""
    place: Expr | None = node
    while place is not None:
        for part in place.walk():
            if "line" in part.meta:
                return int(part.meta["line"])
        place = place.parent
    return 1


def is_query(node: Expr) -> bool:
    return node.key in ("select", "union", "except", "intersect", "values")


def is_whole(node: Expr) -> bool:
    """Whether a node is a whole number, as it may stand for a column in ORDER BY."""
    return node.key == "literal" and node.name.isdigit() and not node.args.get("is_string")


def walk_own(node: Expr) -> Iterator[Expr]:
    """The nodes of an expression without those of the queries in it, but for their heads."""
    return node.dfs(prune=is_query)


def list_clauses(select: Expr) -> Iterator[Expr]:
    """The parts of a SELECT that are expressions: all but its sources."""
    yield from select.expressions
    for name in ("where", "group", "having", "order", "limit", "offset"):
        if clause := select.args.get(name):
            yield clause
    yield from select.args.get("windows") or ()
    for join in select.args.get("joins") or ():
        if condition := join.args.get("on"):
            yield condition


def list_terms(query: Expr, clause: str) -> list[Expr]:
    """The terms of ORDER BY or GROUP BY."""
    found = query.args.get(clause)
    return list(found.expressions) if found else []
