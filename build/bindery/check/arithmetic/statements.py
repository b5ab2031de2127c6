"""What a text states to be equal, and whether it is.

A statement is an expression, a sign and a number, or two expressions. It holds by the digits that
are shown: `16/300 = 0.053` does.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from bindery.check.arithmetic.expressions import Number, Side
from bindery.check.arithmetic.judging import iterate_values, judge_sides
from bindery.check.arithmetic.sides import Cut, find_left, find_right
from bindery.check.arithmetic.tokens import Kind, Token, split_tokens


@dataclass(frozen=True, slots=True)
class Statement:
    """Two sides and the sign between them, as they are in a text from `start` to `end`."""

    text: str
    start: int
    end: int
    holds: bool
    left: str = ""
    """What the left side gives where the statement does not hold, in the form of the right side
    if that is a mere number."""
    right: str = ""
    """What the right side gives where the left is a mere number, or both are expressions."""


_MAYBE = re.compile(
    r"(?:[\d)%.²³¹⁰-⁹]\s*|\d ?[A-Za-zµ/]{1,9}\s*|\w\s+)"
    r"(?:=[=~]?|[≈≃≅]|~=|(?<=\s)~(?=\s)|equals\b)"
    r"\s*(?:[a-z.]+\s+){0,2}[~≈$€£(+−–√-]*\s*(?:\.?\d|[a-z][a-z0-9.]*\()"
)
"""A number or word, a sign, and a number or function."""
_LONGEST_SENTENCE = 2_000
_SENTENCE_END = re.compile(r"(?<!approx)(?<!ca)[.!?;]\s+")
_FAR_APART = 30


def read_statements(text: str, codes: Sequence[tuple[int, int]] = ()) -> list[Statement]:
    """The statements of a text that can be judged, in their order.

    `codes` are the ranges of code in it: there a minus is a minus, and in prose, with blanks on
    both sides, it may be a dash.
    """
    if not _MAYBE.search(text):
        return []
    statements: list[Statement] = []
    start = 0
    for end in (*(match.end() for match in _SENTENCE_END.finditer(text)), len(text)):
        sentence = text[start:end]
        if len(sentence) <= _LONGEST_SENTENCE and _MAYBE.search(sentence):
            statements += [
                replace(one, start=one.start + start, end=one.end + start)
                for one in _read_sentence(sentence, [(a - start, b - start) for a, b in codes])
            ]
        start = end
    return statements


def _read_sentence(text: str, codes: Sequence[tuple[int, int]]) -> Iterator[Statement]:
    tokens = split_tokens(text)
    signs = [index for index, token in enumerate(tokens) if _is_sign(tokens, index)]
    for number, index in enumerate(signs):
        low = signs[number - 1] + 1 if number else 0
        high = signs[number + 1] if number + 1 < len(signs) else len(tokens)
        rights = find_right(tokens, index + 1, high, codes)
        lefts = find_left(tokens, low, index) if rights else []
        if lefts and (statement := _compare_cuts(text, tokens, index, lefts, rights)):
            yield statement


def _is_sign(tokens: Sequence[Token], index: int) -> bool:
    """Whether a token says that two sides are equal: `=`, `≈`, or `~` between two of them."""
    token = tokens[index]
    if token.kind is Kind.RELATION:
        return True
    return (
        token.kind is Kind.TILDE
        and 0 < index < len(tokens) - 1
        and tokens[index - 1].end < token.start
        and token.end < tokens[index + 1].start
    )


def _compare_cuts(
    text: str, tokens: Sequence[Token], index: int, lefts: Sequence[Cut], rights: Sequence[Cut]
) -> Statement | None:
    """The statement around a sign: it holds where it holds for one way to cut out its sides."""
    failing: list[Statement] = []
    is_doubtful = False
    for left in lefts:
        for right in rights:
            has_operators = bool(left.side.operators or right.side.operators)
            if not has_operators and not (left.side.units and right.side.units):
                continue
            word = tokens[right.last] if right.last < len(tokens) else None
            is_word = word is not None and word.kind is Kind.WORD and not word.is_new_line
            counted = word.text.lower().rstrip("s") if word is not None and is_word else ""
            judged = judge_sides(left, right, tokens[index].text, counted)
            start, end = tokens[left.first].start, tokens[right.last - 1].end
            if judged:
                return Statement(text[start:end], start, end, True)
            is_whole = left is lefts[0] and right is rights[0]
            if not is_whole and not has_operators:
                continue  # what is behind the minus of a difference
            has_dash = len(lefts) + len(rights) > 2
            is_range = has_dash and left.side.value * right.side.value < 0  # 10 GB - 20 GB
            is_doubtful |= judged is None or is_range
            values = _tell_values(left, right, text) if judged is False else ("", "")
            failing.append(Statement(text[start:end], start, end, False, *values))
    return failing[0] if failing and not is_doubtful else None


# --- what a side of a sum that fails should have been, in the words of the author ---


def _tell_values(left: Cut, right: Cut, text: str) -> tuple[str, str]:
    """What the sides give: that of the left in the words of the right where that is a number."""
    a, b = _find_nearest_values(left, right)
    if b.typed is not None:
        return _tell_like(right, b, a.value, text), ""
    if a.typed is not None:
        return "", _tell_like(left, a, b.value, text)
    return _write(a.value, 3), _write(b.value, 3)


def _find_nearest_values(left: Cut, right: Cut) -> tuple[Side, Side]:
    """Both sides in the likeliest reading: with their units, unless that takes them far apart."""
    found = [
        (reading.units, a, b)
        for reading, a, b in iterate_values(left, right)
        if a.dimension == b.dimension or not (a.dimension and b.dimension)
    ]
    found.sort(key=lambda values: not values[0])
    is_conversion = not (left.side.operators or right.side.operators)
    for _, a, b in found:
        ratio = abs(a.value / b.value) if b.value else 0
        if is_conversion or (1 / _FAR_APART < ratio < _FAR_APART and abs(ratio - 1) > 1e-9):
            return a, b
    return found[0][1:]


def _tell_like(cut: Cut, side: Side, value: float, text: str) -> str:
    """A value, written as the typed number of a side is, with its unit."""
    assert side.typed is not None
    number = next(token for token in cut.tokens if token.kind is Kind.NUMBER)
    behind = text[number.end : cut.tokens[-1].end]
    before = text[cut.tokens[0].start : number.start].lstrip("~-−+ ")
    return f"{before}{_write_like(side.typed, value / side.size)}{behind}"


def _write_like(typed: Number, value: float) -> str:
    """A value in the form of a typed number: with its decimals, its commas or its power of ten."""
    mantissa, mark, _ = typed.text.lower().partition("e")
    if mark:
        decimals = len(mantissa.partition(".")[2])
        written, _, power = f"{value:.{decimals}e}".partition("e")
        return f"{written}e{int(power)}"
    return _write(value, max(typed.decimals, 0), "," in typed.text)


def _write(value: float, decimals: int, has_commas: bool = False) -> str:
    """A value with this many decimals, or with more where these would all be zeros."""
    comma = "," if has_commas else ""
    if float(value).is_integer():
        return f"{int(value):{comma}d}" if abs(value) < 10**18 else f"{value:.4g}"
    if abs(value) < 10.0 ** (2 - decimals) or abs(value) >= 1e16:
        return f"{value:.3g}"
    if not decimals and abs(value) < 1000:
        short = f"{value:.5g}"  # 100.05 is not 100
        is_exact = math.isclose(float(short), value, rel_tol=1e-12)
        return short if is_exact else f"{value:.4g}"
    if not decimals:
        return f"{round(value):{comma}d}"
    return f"{value:{comma}.{decimals}f}"
