"""The clauses of a SELECT that name columns of its result: GROUP BY and ORDER BY."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bindery.evidence.lineage.dialect import write
from bindery.evidence.lineage.nodes import fail, is_whole, list_terms
from bindery.evidence.lineage.scopes import Scope, find_column

if TYPE_CHECKING:
    from sqlglot.expressions import Expr


def find_group_keys(select: Expr, scope: Scope) -> list[Expr]:
    """The terms of GROUP BY as expressions over the sources. A column comes before the name of a
    result."""
    items = select.expressions
    keys = []
    for term in list_terms(select, "group"):
        named = _find_named(term, items)
        is_column = term.key == "column" and find_column(term, scope) is not None
        keys.append(term if named is None or is_column else named)
    return keys


def write_order_key(term: Expr, items: Sequence[Expr]) -> str:
    """SQL over the sources for the value that a term of ORDER BY compares. The name of a result
    comes before a column."""
    if term.key == "collate":
        raise fail("COLLATE cannot be followed; order by lower(...)", term)
    named = _find_named(term, items)
    return write(term if named is None else named)


def _find_named(term: Expr, items: Sequence[Expr]) -> Expr | None:
    """What a term stands for that is the number or the name of a result."""
    if is_whole(term):
        return items[int(term.name) - 1].unalias()
    if term.key != "column" or term.text("table"):
        return None
    name = term.name.lower()
    return next((i.this for i in items if i.key == "alias" and i.alias.lower() == name), None)
