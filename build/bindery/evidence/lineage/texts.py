"""Whether a concatenated text shows its values unchanged.

It does if none of its own characters can be read as part of a value and no two values touch, as in
`m || ' x ' || n` but not in `memory || '0'`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from bindery.evidence.lineage.model import CONSTANT, Traced

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

_VALUE = "\0"
_NO_NUMBER = re.compile("[^\0\\d\\s~≈<>≤≥.,+−-]")
"""Texts starting like this are never read as a number."""
_PART_OF_NUMBER = re.compile(
    "\\d|\0[.]\0|\0[eE][+-]?\0|^[~≈<>≤≥\\s]*[+−-]\\s*\0|^[~≈<>≤≥\\s]*[.]\0"
)
_QUOTED = re.compile(r"'(?:[^']|'')*'")

_Forms = frozenset[str]
_Follow = Callable[["Expr"], Traced]

_NONE: _Forms = frozenset()


def shows_values(node: Expr, follow: _Follow) -> bool:
    """Whether `||` shows its values unchanged."""
    return all(map(_is_plain, _list_forms(node, follow)))


def separates_values(separator: Traced | None) -> bool:
    """Whether an aggregate's separator keeps texts apart; None is the default comma."""
    texts = _list_texts(separator) if separator else frozenset((",",))
    return all(_is_plain(_VALUE + text + _VALUE) for text in texts)


def _is_plain(form: str) -> bool:
    if _VALUE * 2 in form:
        return False
    return bool(_NO_NUMBER.match(form)) or not _PART_OF_NUMBER.search(form)


def _list_forms(node: Expr, follow: _Follow) -> _Forms:
    """The possible forms of a text, with a mark for each value."""

    def list_each(parts: Iterable[Expr]) -> list[_Forms]:
        return [_list_forms(part, follow) for part in parts]

    match node.key:
        case "paren":
            return _list_forms(node.this, follow)
        case "literal":
            return frozenset((node.name,))
        case "dpipe":
            return _join(*list_each((node.this, node.expression)))
        case "case":
            branches = [branch.args["true"] for branch in node.args["ifs"]]
            if default := node.args.get("default"):
                branches.append(default)
            return _NONE.union(*list_each(branches))
        case "anonymous":
            if node.name.lower() in ("coalesce", "ifnull"):
                return _NONE.union(*list_each(node.expressions))
    return _list_texts(follow(node))


def _list_texts(traced: Traced) -> _Forms:
    """The forms of a text that is not concatenated here."""
    if traced.kind != CONSTANT:
        return frozenset((_VALUE,))
    if traced.formula == "NULL":
        return _NONE
    if _QUOTED.fullmatch(traced.formula):
        return frozenset((traced.formula[1:-1].replace("''", "'"),))
    return frozenset("0")  # an unknown constant may be a digit


def _join(left: _Forms, right: _Forms) -> _Forms:
    return frozenset(one + other for one in left for other in right)
