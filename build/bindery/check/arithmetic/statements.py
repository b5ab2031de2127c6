"""Find the equations that a text states, and judge them.

A statement is an expression, a sign and a number, or two expressions; or a number followed by its
working in brackets. It must hold to the digits shown: `16/300 = 0.053` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from bindery.check.arithmetic.answers import tell_values
from bindery.check.arithmetic.grammar import LONGEST, read_side
from bindery.check.arithmetic.judging import (
    Verdict,
    is_certain_difference,
    is_statement,
    judge_sides,
)
from bindery.check.arithmetic.sides import Cut, find_left, find_right
from bindery.check.arithmetic.tokens import Token, split_tokens
from bindery.check.arithmetic.trees import Side


class Statement(Struct, frozen=True):
    """Two sides and the sign between them, from `start` to `end` in a text."""

    text: str
    start: int
    end: int
    verdict: Verdict
    left: str = ""
    """The value of the left side if the statement fails, written like the right side if that is a
    plain number."""
    right: str = ""
    """The value of the right side if the left is a plain number, or if both are expressions."""
    is_bracketed: bool = False
    """Whether the right side is in brackets after its result: `320 GB (80 * 4)`."""


SIGNS = ("=", "≈", " ~ ", "≃", "≅", "⇒", "equals")
"""Signs that may state an equality; `equals` counts as one."""
_MAYBE = re.compile(
    r"(?:[\d)%.²³¹⁰-⁹]\s*|\d ?[A-Za-zµ/]{1,9}\s*|\w\s+)"
    r"(?:=[=>~]?|[≈≃≅⇒]|~=|(?<=\s)~(?=\s)|equals\b)"
    r"\s*(?:[a-z.]+\s+){0,2}[~≈$€£(+−–√-]*\s*(?:\.?\d|[a-z][a-z0-9.]*\()"
)
"""A number or word, a sign, and a number or function."""
_WORK = re.compile(
    r"[\w)%]\s*(?:\*\*?|[×·⋅∙÷^xX+%]|//?|by|times|plus|of)[\s~$€£(√−-]*[\d.a-z]"
    r"|[\d)%]\s*(?:[−–-]|minus)[\s~$€£(√]*[\d.a-z]"
    r"|[√²³¹⁰-⁹]|(?:sqrt|log\w*|ln|exp|ceil|floor|round|min|max|abs)\("
    r"|\d[ \u00a0]?[A-Za-z%][\w/%]*\s*[=≈~]+\s*[~$]?\s*[\d.]|[\d.][=≈~ ]+[\d.]+%"
)
"""The minimum of a statement: an operation, or a number with a unit next to the sign."""
_BRACKETED = re.compile(
    r"\d[ \u00a0]?(?:[A-Za-z%]+ )? ?"
    r"\([(\d.,]+(?:\s*(?:\*\*?|[×·÷/+])\s*|\s[−-]\s)[(\d.][^A-Za-z=]{0,200}\)"
)
"""A number, a unit perhaps, and an expression in brackets."""
_LONGEST_SENTENCE = 2_000
_SENTENCE_END = re.compile(r"(?<!approx)(?<!ca)[.!?;]\s+")


@lru_cache(maxsize=65536)
def read_statements(text: str, codes: tuple[tuple[int, int], ...] = ()) -> tuple[Statement, ...]:
    """The statements of a text in their order.

    `codes` are the ranges of code in it: in code a minus is a minus, but in prose, with spaces on
    both sides, it may be a dash.
    """
    has_signs = has_sign(text) and bool(_MAYBE.search(text))
    has_brackets = (has_signs or " (" in text) and bool(_BRACKETED.search(text))
    if not has_signs and not has_brackets:
        return ()
    statements: list[Statement] = []
    start = 0
    for end in (*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)):
        sentence = text[start:end]
        if len(sentence) > _LONGEST_SENTENCE:  # a table of numbers, or worse
            start = end
            continue
        found: list[Statement] = []
        if has_sign(sentence) and _MAYBE.search(sentence) and _WORK.search(sentence):
            found += _read_sentence(sentence, [(a - start, b - start) for a, b in codes])
        if has_brackets and _BRACKETED.search(sentence):
            found += _read_brackets(sentence)
        statements += [
            replace(one, start=one.start + start, end=one.end + start)
            for one in sorted(found, key=lambda one: one.start)
        ]
        start = end
    return tuple(statements)


def has_sign(text: str) -> bool:
    """Whether the text has a sign that may state an equality; a fast first test."""
    return any(sign in text for sign in SIGNS)


def _read_sentence(text: str, codes: Sequence[tuple[int, int]]) -> Iterator[Statement]:
    tokens = split_tokens(text)
    signs = list(_find_signs(tokens))
    for number, index in enumerate(signs):
        low = signs[number - 1] + 1 if number else 0
        high = signs[number + 1] if number + 1 < len(signs) else len(tokens)
        rights = find_right(tokens, index + 1, high, codes)
        lefts = find_left(tokens, low, index) if rights else []
        if lefts:
            statement = _compare_cuts(text, tokens, index, lefts, rights)
            if statement is not None:
                yield statement


def _read_brackets(text: str) -> Iterator[Statement]:
    """The statements that show the working in brackets after the result."""
    tokens = split_tokens(text)
    for index, token in enumerate(tokens):
        if token.kind != "open" or not index or tokens[index - 1].end == token.start:
            continue
        lefts = find_left(tokens, 0, index)
        end = _find_close(tokens, index)
        side = read_side(tokens[index + 1 : end])
        if not lefts or side is None or not side.has_operator or side.labels:
            continue
        if lefts[0].side.has_operator or lefts[0].side.labels:
            continue
        right = Cut(side, index + 1, end)
        statement = _compare_cuts(text, tokens, index, lefts[:1], [right])
        if statement is not None:
            behind = tokens[end].end
            typed = text[statement.start : behind]
            yield replace(statement, text=typed, end=behind, is_bracketed=True)


def _find_close(tokens: Sequence[Token], index: int) -> int:
    """Where the bracket at `index` is closed; `index` itself if it is not."""
    depth = 0
    for at in range(index, min(index + LONGEST + 2, len(tokens))):
        depth += (tokens[at].kind == "open") - (tokens[at].kind == "close")
        if not depth:
            return at
    return index


_SIGNS = ("relation", "tilde")


def _find_signs(tokens: Sequence[Token]) -> Iterator[int]:
    """The tokens that say that two sides are equal: `=`, `≈`, or `~` between two of them."""
    for index, token in enumerate(tokens):
        if token.kind in _SIGNS and (
            token.kind == "relation"
            or (
                0 < index < len(tokens) - 1
                and tokens[index - 1].end < token.start
                and token.end < tokens[index + 1].start
            )
        ):
            yield index


def _compare_cuts(
    text: str, tokens: Sequence[Token], index: int, lefts: Sequence[Cut], rights: Sequence[Cut]
) -> Statement | None:
    """The statement around a sign: it holds if it holds for one way to cut out its sides."""
    sign = tokens[index]
    found: list[Statement] = []
    for left in lefts:
        for right in rights:
            if not is_statement(left.side, right.side):
                continue
            word = tokens[right.last] if right.last < len(tokens) else None
            is_word = word is not None and word.kind == "word" and not word.is_new_line
            counted = word.text if word is not None and is_word else ""
            judged = judge_sides(left, right, sign.text, counted)
            start, end = tokens[left.first].start, tokens[right.last - 1].end
            typed = text[start:end]
            if judged is Verdict.HOLDS:
                return Statement(typed, start, end, judged)
            if _is_cut_off(left.side, lefts[0].side) or _is_cut_off(right.side, rights[0].side):
                continue
            names = ("", "")
            if judged is Verdict.FAILS and _holds_with_decimal_commas(typed):
                judged = Verdict.UNJUDGED
            if judged is Verdict.FAILS:
                names = tell_values(left.side.node, right.side.node, tokens, left, right, text)
            found.append(Statement(typed, start, end, judged, *names))
    if not found:
        return None
    if all(statement.verdict is Verdict.FAILS for statement in found):
        return found[0]
    return replace(found[0], verdict=Verdict.UNJUDGED, left="", right="")


def _is_cut_off(part: Side, longest: Side) -> bool:
    """Whether a side is only an operand of a longer difference, as the second of `80 GB - 10 GB`.
    It may hold alone, but is not wrong if it does not."""
    return part is not longest and not part.has_operator and is_certain_difference(longest.node)


def _holds_with_decimal_commas(typed: str) -> bool:
    """Whether a comma of a statement is a decimal point: 1,500 * 2 = 3."""
    return "," in typed and any(
        found.verdict is Verdict.HOLDS for found in read_statements(typed.replace(",", "."))
    )
