"""Where the sides of a sum begin and end in a sentence.

A sum is in the middle of words, dashes and brackets. A side is the longest run of tokens beside
the sign that is an expression and is not cut out of something longer, such as `8` out of `n * 8`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from bindery.check.arithmetic.expressions import LONGEST, Reading, Side, read_side
from bindery.check.arithmetic.tokens import Kind, Token


@dataclass(frozen=True, slots=True)
class Cut:
    """A side with the tokens that it is made of."""

    side: Side
    """As bare numbers."""
    tokens: Sequence[Token]
    first: int
    last: int
    """The token behind it."""
    is_bare_before: bool = True
    """Whether no word is directly before it that may speak of its first number."""
    is_factor: bool = False
    """Whether an `x` follows it, as in `5x`."""


class _Edge(enum.Enum):
    CLEAN = enum.auto()
    LOOSE = enum.auto()
    """Perhaps an edge: the statement may hold, but it is not called wrong."""
    NONE = enum.auto()


_STARTS = frozenset({Kind.NUMBER, Kind.CURRENCY, Kind.OPEN, Kind.FUNCTION, Kind.ROOT, Kind.TILDE})
_ENDS = frozenset({Kind.NUMBER, Kind.UNIT, Kind.PERCENT, Kind.CLOSE, Kind.POWER})
_STOPS = frozenset(".:;!?\"'“”‘’„»«|—…{}[]<>→≤≥≠≡")
_NEGATIONS = frozenset("not never no isn't per".split())
_GO_ON = frozenset("to or half dozen hundred hundreds thousands mod modulo squared cubed".split())
"""Words behind a number after which it may not be the whole."""
_ABOUT = frozenset(
    "about around roughly approx approximately nearly almost some circa ca over under".split()
)


def find_left(tokens: Sequence[Token], low: int, end: int) -> list[Cut]:
    """The sides that end before the token `end`, the longest first."""
    cuts: list[Cut] = []
    for start in range(max(low, end - LONGEST), end):
        token = tokens[start]
        is_sign = token.kind is Kind.OPERATOR and token.text in ("-", "+")
        if token.kind not in _STARTS and not is_sign:
            continue
        edge = _judge_start(tokens, start)
        if edge is _Edge.NONE or (cuts and not _is_dash(tokens, start - 1)):
            continue
        side = read_side(tokens[start:end], Reading())
        if side is None:
            continue
        before, last = tokens[start - 1] if start else None, tokens[end - 1]
        if last.kind is Kind.WORD:  # it may be what is set to a value: `DP=2*2 PP=8`
            is_glued = end < len(tokens) and tokens[end].start == last.end
            edge = _Edge.LOOSE if is_glued or not last.text.endswith("s") else edge
        is_word = before is not None and before.kind is Kind.WORD
        if is_sign and is_word:
            edge = _Edge.LOOSE
        side.is_loose |= edge is _Edge.LOOSE
        cuts.append(Cut(side, tokens[start:end], start, end, is_bare_before=not is_word))
    return cuts


def find_right(
    tokens: Sequence[Token], start: int, high: int, codes: Sequence[tuple[int, int]]
) -> list[Cut]:
    """The sides that begin at the token `start`, the longest first; `codes` are ranges of code."""
    is_rough = False
    while start < high and tokens[start].text.lower() in (*_ABOUT, "only", "just", "exactly"):
        is_rough |= tokens[start].text.lower() in _ABOUT
        start += 1
    cuts: list[Cut] = []
    for end in range(min(high, start + LONGEST), start, -1):
        if tokens[end - 1].kind not in _ENDS:
            continue
        edge = _judge_end(tokens, end, codes)
        if edge is _Edge.NONE or (cuts and not _is_dash(tokens, end)):
            continue
        side = read_side(tokens[start:end], Reading())
        if side is None or side.has_remark_behind:
            continue
        is_factor = end < len(tokens) and tokens[end].text == "x"
        side.is_loose |= edge is _Edge.LOOSE
        side.is_rough |= is_rough
        cuts.append(Cut(side, tokens[start:end], start, end, is_factor=is_factor))
    return cuts


def _judge_start(tokens: Sequence[Token], start: int) -> _Edge:
    if not start:
        return _Edge.CLEAN
    before = tokens[start - 1]
    is_glued = before.end == tokens[start].start
    match before.kind:
        case Kind.RELATION | Kind.OPEN:
            return _Edge.CLEAN
        case Kind.WORD if not is_glued:
            word = before.text.lower()
            is_variable = (len(word) == 1 and word not in "ai") or any(map(str.isdigit, word))
            is_factor = start > 1 and tokens[start - 2].kind is Kind.OPERATOR  # n * batch 8
            is_loose = is_variable or is_factor or word in _NEGATIONS
            return _Edge.LOOSE if is_loose else _Edge.CLEAN
        case Kind.MARK:
            is_stop = before.text in _STOPS or len(before.text) > 1
            is_part = is_glued and before.text == "."  # a.round(3)
            return _Edge.CLEAN if is_stop and not is_part else _Edge.NONE
        case Kind.COMMA | Kind.CLOSE if not is_glued:
            return _Edge.CLEAN
        case Kind.OPERATOR:
            return _Edge.LOOSE if _is_dash(tokens, start - 1) else _Edge.NONE
        case Kind.NUMBER | Kind.UNIT | Kind.PERCENT | Kind.POWER if not is_glued:
            return _Edge.CLEAN if tokens[start].is_new_line else _Edge.LOOSE
        case _:
            return _Edge.NONE


def _is_dash(tokens: Sequence[Token], index: int) -> bool:
    """Whether the token may be a dash between two thoughts."""
    if not 0 < index < len(tokens) - 1:
        return False
    token = tokens[index]
    return (
        token.kind is Kind.OPERATOR
        and (token.text == "-" or token.is_loose)
        and tokens[index - 1].end < token.start
        and token.end < tokens[index + 1].start
    )


def _judge_end(tokens: Sequence[Token], end: int, codes: Sequence[tuple[int, int]]) -> _Edge:
    if end == len(tokens):
        return _Edge.CLEAN
    token, last = tokens[end], tokens[end - 1]
    is_glued = token.start == last.end
    following = tokens[end + 1] if end + 1 < len(tokens) else None
    match token.kind:
        case Kind.RELATION | Kind.CLOSE:
            return _Edge.CLEAN
        case Kind.WORD:
            return _judge_word_behind(tokens, end)
        case Kind.OPERATOR if following is not None:
            is_word = following.kind is Kind.WORD and len(following.text) > 1
            if _is_dash(tokens, end):
                is_code = any(first <= token.start < last for first, last in codes)
                return _Edge.CLEAN if is_word and not is_code else _Edge.LOOSE
            is_share = token.text == "/" and is_glued and following.start == token.end
            return _Edge.CLEAN if is_share and is_word else _Edge.NONE
        case Kind.MARK:
            return _Edge.CLEAN if token.text in _STOPS or len(token.text) > 1 else _Edge.NONE
        case Kind.COMMA:
            is_decimal = is_glued and following is not None and following.start == token.end
            return _Edge.NONE if is_decimal else _Edge.CLEAN
        case Kind.OPEN if not is_glued:
            is_modulus = following is not None and following.text in ("mod", "modulo")
            return _Edge.LOOSE if is_modulus else _Edge.CLEAN
        case Kind.TILDE if not is_glued:
            return _Edge.CLEAN
        case Kind.NUMBER | Kind.CURRENCY | Kind.FUNCTION | Kind.ROOT:
            return _Edge.CLEAN if token.is_new_line else _Edge.LOOSE
        case _:
            return _Edge.NONE


def _judge_word_behind(tokens: Sequence[Token], end: int) -> _Edge:
    word = tokens[end].text.lower()
    following = tokens[end + 1] if end + 1 < len(tokens) else None
    if tokens[end].start == tokens[end - 1].end:  # letters glued to a number
        if word == "x":
            is_unknown = following is not None and following.kind in (Kind.RELATION, Kind.OPERATOR)
            return _Edge.LOOSE if is_unknown else _Edge.CLEAN
        return _Edge.CLEAN if len(word) > 3 and word.isalpha() else _Edge.NONE
    if tokens[end].is_new_line:
        return _Edge.CLEAN
    if word == "and":  # "and a half"
        is_part = following is not None and following.text in ("a", "half")
        return _Edge.LOOSE if is_part else _Edge.CLEAN
    has_factor = following is not None and following.kind is Kind.NUMBER
    is_share = word in ("of", "times") and has_factor  # 2/4 = 2 of 4 nodes
    is_variable = len(word) == 1 and word not in "ai"
    return _Edge.LOOSE if is_share or is_variable or word in _GO_ON else _Edge.CLEAN
