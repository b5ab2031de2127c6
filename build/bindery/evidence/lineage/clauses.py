"""The clauses of a SELECT that name columns of its result: GROUP BY and ORDER BY."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bindery.evidence.lineage.dialect import make_raw, write
from bindery.evidence.lineage.nodes import fail, is_query, is_whole, list_terms
from bindery.evidence.lineage.scopes import Scope, find_column

if TYPE_CHECKING:
    from sqlglot.expressions import Expr


def find_group_keys(select: Expr, scope: Scope) -> list[Expr]:
    """The terms of GROUP BY as expressions over the sources."""
    items = select.expressions
    keys = []
    for term in list_terms(select, "group"):
        if is_whole(term):
            position = int(term.name) - 1
            if not 0 <= position < len(items):
                raise fail(f"GROUP BY {term.name} is not a column of the result", term)
            keys.append(items[position].unalias())
        else:
            keys.append(_replace_aliases(term, scope, items))
    return keys


def write_order_key(term: Expr, scope: Scope, items: Sequence[Expr]) -> str:
    """SQL over the sources for the value that a term of ORDER BY compares."""
    if term.key == "collate":
        raise fail("COLLATE cannot be followed; order by lower(...)", term)
    names = [item.alias.lower() if item.key == "alias" else "" for item in items]
    position = _find_position(term, names)
    if position is None:
        return write(_replace_aliases(term, scope, items))
    if position >= len(items):
        raise fail(f"ORDER BY {term.name} is not a column of the result", term)
    return write(items[position].unalias())


def _find_position(term: Expr, names: Sequence[str]) -> int | None:
    """Which column of the result a term of ORDER BY names, by its number or its name.

    The names are in lower case. A number that no column has gives one past the last.
    """
    if is_whole(term):
        return int(term.name) - 1 if int(term.name) else len(names)
    if term.key == "column" and not term.text("table") and term.name.lower() in names:
        return names.index(term.name.lower())
    return None


def _replace_aliases(term: Expr, scope: Scope, items: Sequence[Expr]) -> Expr:
    """A term in which names of results stand for what they name, where no column has them."""
    aliases = {item.alias.lower(): item.this for item in reversed(items) if item.key == "alias"}

    def find_named(node: Expr) -> Expr | None:
        if node.key != "column" or node.text("table") or find_column(node, scope):
            return None
        return aliases.get(node.name.lower())

    if term.key == "column":
        named = find_named(term)
        return term if named is None else named
    parts = list(term.walk())
    if any(map(is_query, parts)) or all(find_named(part) is None for part in parts):
        return term

    def put(node: Expr) -> Expr:
        named = find_named(node)
        return node if named is None else make_raw(f"({write(named)})")

    return term.transform(put)
