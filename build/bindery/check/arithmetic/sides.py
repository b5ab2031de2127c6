"""Find where the sides of an equation begin and end in a sentence.

An equation is surrounded by words, dashes and brackets. A side is the longest run of tokens next to
the sign that is an expression and not a part of something longer, such as `8` in `n * 8`.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from bindery.check.arithmetic.grammar import LONGEST, NO_LABELS, read_side
from bindery.check.arithmetic.tokens import Token
from bindery.check.arithmetic.trees import Side


class Cut(Struct, frozen=True):
    """A side, the tokens that it is made of, and whether its edge is certain."""

    side: Side
    first: int
    last: int
    """The token after it."""
    is_bare_before: bool = True
    """Whether no word directly before it may refer to its first number."""
    is_factor: bool = False
    """Whether an `x` after it means "times", if the other side is a ratio."""


class _Edge(enum.Enum):
    CLEAN = enum.auto()
    LOOSE = enum.auto()
    """Perhaps an edge: a statement may hold, but cannot fail."""
    NONE = enum.auto()


_STARTS = ("number", "currency", "open", "function", "root", "tilde")
_ENDS = ("number", "unit", "percent", "close", "power")
_STOPS = frozenset(".:;!?\"'“”‘’„»«|—…{}]>→≤≥≠≡")
_NEGATIONS = frozenset("not never no isn't instead".split())
_GO_ON = frozenset(
    "to or of and times dozen hundred hundreds half mod modulo squared cubed plus minus thousands "
    "millions billions".split()
)
"""Words after a number that may continue it."""
_BASES = frozenset("binary octal hex hexadecimal".split())
_LONG_TIMES = frozenset("month months quarter year years yr yrs mo".split())
"""Times without a fixed length: a rate per year may be computed from one per month."""
_JOINTS = frozenset("so that because since thus hence then i.e e.g recall remember".split())
_FIXED_TIMES = frozenset("second minute hour day week step epoch".split())
_COMPARED = frozenset(
    "faster slower more less fewer larger smaller bigger better worse higher lower cheaper longer "
    "shorter speedup speed-up improvement reduction compression increase".split()
)
"""Words after `3x` that show it means three times."""
_IN_LONG_TIMES = frozenset("365 366 52 12 8760 8,760 30 720 730".split())
"""How many shorter times there are in a longer one."""
_ABOUT = frozenset(
    "about around roughly approx approximately nearly almost some circa ca over under".split()
)
_FILLERS = frozenset("only just exactly precisely".split())


def find_left(tokens: Sequence[Token], low: int, end: int) -> list[Cut]:
    """The sides that end before the token `end`, the longest first."""
    cuts: list[Cut] = []
    for start in range(max(low, end - LONGEST), end):
        token = tokens[start]
        is_sign = token.kind == "operator" and token.text in ("-", "+")
        if token.kind not in _STARTS and not is_sign:
            continue
        if cuts and not _is_dash(tokens, start - 1):
            continue
        edge = _judge_start(tokens, start)
        side = read_side(tokens[start:end]) if edge is not _Edge.NONE else None
        if side is None:
            continue
        before = tokens[start - 1] if start else None
        if _ends_in_name(tokens, start, end) or (is_sign and before and before.kind == "word"):
            edge = _Edge.LOOSE
        side = replace(side, is_loose=side.is_loose or edge is _Edge.LOOSE)
        is_bare = before is None or before.kind != "word" or before.text.lower() in _JOINTS
        cuts.append(Cut(side, start, end, is_bare))
    return cuts


def find_right(
    tokens: Sequence[Token], start: int, high: int, codes: Sequence[tuple[int, int]]
) -> list[Cut]:
    """The sides that begin at the token `start`, the longest first; `codes` are ranges of code."""
    start, is_rough = skip_hedge(tokens, start, high)
    cuts: list[Cut] = []
    for end in range(min(high, start + LONGEST), start, -1):
        if tokens[end - 1].kind not in _ENDS or (cuts and not _is_dash(tokens, end)):
            continue
        edge = _judge_end(tokens, end, codes)
        side = read_side(tokens[start:end]) if edge is not _Edge.NONE else None
        if side is None or side.has_remark_behind:
            continue
        is_factor = edge is _Edge.LOOSE and _is_factor(tokens, end)
        loose = side.is_loose or (edge is _Edge.LOOSE and not is_factor)
        side = replace(side, is_loose=loose, is_rough=side.is_rough or is_rough)
        cuts.append(Cut(side, start, end, is_factor=is_factor))
    return cuts


def skip_hedge(tokens: Sequence[Token], start: int, high: int) -> tuple[int, bool]:
    """Where a side begins after words such as `about`, and whether they make it rough."""
    is_rough = False
    while start < high and tokens[start].kind == "word":
        word = tokens[start].text.lower()
        if word not in _ABOUT and word not in _FILLERS:
            break
        is_rough |= word in _ABOUT
        start += 1
        if start < high and tokens[start].text == "." and word in ("approx", "ca"):
            start += 1
    return start, is_rough


def _judge_start(tokens: Sequence[Token], start: int) -> _Edge:
    if not start:
        return _Edge.CLEAN
    before, token = tokens[start - 1], tokens[start]
    is_glued = before.end == token.start
    match before.kind:
        case "relation":
            return _Edge.LOOSE if _is_named_factor(tokens, start - 1) else _Edge.CLEAN
        case "open":
            return _Edge.CLEAN
        case "word":
            return _Edge.NONE if is_glued else _judge_word_before(tokens, start - 1)
        case "mark":
            if is_glued and start > 1 and before.text in ".'’" and _is_name(tokens, start - 2):
                return _Edge.NONE  # a.round(3) and f'(3)
            is_stop = before.text in _STOPS or len(before.text) > 1 or before.text == "<"
            return _Edge.CLEAN if is_stop or before.text == "[" else _Edge.NONE
        case "comma" | "close":
            return _Edge.NONE if is_glued else _Edge.CLEAN
        case "operator":
            return _Edge.LOOSE if _is_dash(tokens, start - 1) else _Edge.NONE
        case "number" | "unit" | "percent" | "power":
            if is_glued:
                return _Edge.NONE
            return _Edge.CLEAN if token.is_new_line else _Edge.LOOSE
        case _:
            return _Edge.NONE


def _is_named_factor(tokens: Sequence[Token], index: int) -> bool:
    """Whether the sign at `index` gives the value of a factor: `5 * width≈122`."""
    if index < 2:
        return False
    before, name, sign = tokens[index - 2 : index + 1]
    is_factor = before.kind == "operator" and before.text != "-" and name.kind == "word"
    return is_factor and before.end < name.start and name.end == sign.start


def _is_name(tokens: Sequence[Token], index: int) -> bool:
    """Whether a word or bracket is directly before the next token."""
    token = tokens[index]
    is_glued = token.end == tokens[index + 1].start
    return is_glued and token.kind in ("word", "close", "function")


def _judge_word_before(tokens: Sequence[Token], index: int) -> _Edge:
    """Whether a side can begin after a word: not if the word is a factor, as in `n * batch 8`."""
    word = tokens[index].text.lower()
    if word in _NEGATIONS or word == "per" or any(map(str.isdigit, word)):
        return _Edge.LOOSE
    if len(word) == 1 and word not in "ai":
        return _Edge.LOOSE
    for before in reversed(tokens[max(index - 2, 0) : index]):
        if before.kind == "operator" and not before.is_loose and before.text != "-":
            return _Edge.LOOSE
        if before.kind == "word" and before.text.lower() in _NEGATIONS:
            return _Edge.LOOSE
        if before.kind != "word":
            break
    return _Edge.CLEAN


def _ends_in_name(tokens: Sequence[Token], start: int, end: int) -> bool:
    """Whether the word before the sign may be assigned a value: `DP=2*2 PP=8`."""
    last = tokens[end - 1]
    if last.kind != "word":
        return False
    is_assigned = start > 0 and tokens[start - 1].kind == "relation"
    is_glued = end < len(tokens) and tokens[end].start == last.end
    return is_assigned or is_glued or not last.text.endswith("s")


def _is_dash(tokens: Sequence[Token], index: int) -> bool:
    """Whether the token may separate two clauses: a dash, or a word such as `times`."""
    if not 0 < index < len(tokens) - 1:
        return False
    token = tokens[index]
    return (
        token.kind == "operator"
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
        case "relation" | "close":
            return _Edge.CLEAN
        case "word":
            if is_glued and token.text in ("x", "X"):
                is_factor = following is not None and following.text.lower() in _COMPARED
                return _Edge.CLEAN if is_factor else _Edge.LOOSE
            if is_glued and not _is_plural(token):
                return _Edge.NONE
            return _judge_word_behind(tokens, end)
        case "operator":
            is_code = any(first <= token.start < last for first, last in codes)
            return _judge_operator_behind(tokens, end, is_code)
        case "mark":
            if token.text in _STOPS or len(token.text) > 1 or token.text == "<":
                return _Edge.CLEAN
            return _Edge.LOOSE if token.text == "@" else _Edge.NONE
        case "comma":
            is_decimal = is_glued and following is not None and following.start == token.end
            is_decimal = is_decimal and following is not None and following.kind == "number"
            return _Edge.NONE if is_decimal else _Edge.CLEAN
        case "open":
            if is_glued:
                return _Edge.NONE
            is_modulus = following is not None and following.text in ("mod", "modulo")
            return _Edge.LOOSE if is_modulus else _Edge.CLEAN
        case "tilde":
            return _Edge.NONE if is_glued else _Edge.CLEAN
        case "number" | "currency" | "function" | "root":
            return _Edge.CLEAN if token.is_new_line else _Edge.LOOSE
        case _:
            return _Edge.NONE


def _is_factor(tokens: Sequence[Token], end: int) -> bool:
    """Whether an `x` is glued to the number that ends there, and nothing near it suggests a
    variable."""
    if end == len(tokens) or tokens[end].text not in ("x", "X"):
        return False
    if tokens[end].start != tokens[end - 1].end or tokens[end - 1].kind != "number":
        return False
    if end + 1 < len(tokens):
        follows = tokens[end + 1]
        is_word = follows.kind == "word" and len(follows.text) > 1
        is_stop = follows.kind == "mark" and follows.text in _STOPS
        if not (is_word or is_stop or follows.kind in ("comma", "close")):
            return False
    return not any(_is_unknown(tokens, index) for index in range(len(tokens)) if index != end)


def _is_unknown(tokens: Sequence[Token], index: int) -> bool:
    """Whether a token is a variable: not the x of `2x faster`, but that of `2x = 4`."""
    token = tokens[index]
    if token.kind != "word" or token.text.lower() not in ("x", "y", "z", "n"):
        return False
    before = tokens[index - 1] if index else None
    follows = tokens[index + 1] if index + 1 < len(tokens) else None
    if before is None or before.kind != "number" or before.end != token.start:
        return True
    return follows is not None and follows.kind in ("relation", "operator")


def _is_plural(token: Token) -> bool:
    """Whether letters glued to a number are a word, not a unit or variable."""
    return len(token.text) > 3 and token.text.isalpha()


def _judge_word_behind(tokens: Sequence[Token], end: int) -> _Edge:
    words = [token.text.lower() for token in tokens[end : end + 3] if token.kind == "word"]
    first = words[0]
    is_variable = len(first) == 1 and first not in "aix"
    if is_variable or (first in _GO_ON and not tokens[end].is_new_line):
        # "and" may continue as "and a half"; otherwise it joins two clauses
        if first == "and" and words[1:2] not in (["a"], ["half"]):
            return _Edge.CLEAN
        if first == "of" and len(words) > 1 and words[1] != "a":
            is_share = tokens[end + 1].kind == "number"  # 2/4 = 2 of 4 nodes
            return _Edge.LOOSE if is_share else _Edge.CLEAN
        return _Edge.LOOSE
    is_rate = first in ("per", "a", "each") and words[1:2] and words[1] in _LONG_TIMES
    if is_rate and any(token.text in _IN_LONG_TIMES for token in tokens[:end]):
        is_rate = False  # the rate is converted: $2 * 24 * 365 = $17,520 a year
    return _Edge.LOOSE if is_rate or _BASES.intersection(words) else _Edge.CLEAN


def _judge_operator_behind(tokens: Sequence[Token], end: int, is_code: bool) -> _Edge:
    token = tokens[end]
    if end + 1 == len(tokens):
        return _Edge.NONE
    following = tokens[end + 1]
    if token.text == "*" and token.is_loose and following.text in ("a", "per", "each", "every"):
        is_rate = end + 2 < len(tokens) and tokens[end + 2].text in _FIXED_TIMES
        return _Edge.CLEAN if is_rate else _Edge.LOOSE
    if _is_dash(tokens, end):
        is_word = following.kind == "word" and len(following.text) > 1
        return _Edge.CLEAN if is_word and token.text == "-" and not is_code else _Edge.LOOSE
    is_glued = token.start == tokens[end - 1].end and following.start == token.end
    if token.text == "/" and is_glued and following.kind == "word" and len(following.text) > 1:
        return _Edge.LOOSE if following.text.lower() in _LONG_TIMES else _Edge.CLEAN
    return _Edge.NONE


def is_counted(word: str) -> bool:
    """Whether a word may be the name of what is counted."""
    return word[0].isalpha() and word.lower() not in NO_LABELS
