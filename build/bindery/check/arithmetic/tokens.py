"""Split text into the tokens of equations: numbers, units, signs and words.

A version, a date, an address or a name with digits is a word, not a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from bindery.check.arithmetic.measures import Unit, match_rate, match_unit, read_currency

Kind = Literal[
    "number", "unit", "currency", "percent", "operator", "power", "open", "close", "function",
    "root", "tilde", "relation", "word", "comma", "mark", "end"
]  # fmt: skip
"""What a token is. A power is one in raised digits, a mark is any other sign, and the end comes
after the last token."""

FUNCTIONS = frozenset(
    "sqrt log2 log10 ln log exp ceil floor round min max abs log₂ log_2 log_10 log₁₀".split()
)
_OPERATORS = {
    "×": "*",
    "·": "*",
    "⋅": "*",
    "∙": "*",
    "÷": "/",
    "−": "-",
    "–": "-",
    "^": "**",
    "times": "*",
    "plus": "+",
    "minus": "-",
}
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")

_TOKEN = re.compile(
    r"""
      (?P<blank>\s+)
    | (?P<name>
        0[xXbBoO][0-9a-fA-F_]+\b
      | \d+(?:\.\d+){2,}[\w.]*
      | \d{4}-\d\d-\d\d\b | \d+(?::\d+)+
      | \d+(?:st|nd|rd|th)\b | 0\d+(?![.\d]) | \d+\.x\b
      | \d+(?:\.\d+)?-[A-Za-z][\w-]*
      | (?<![\w)])--?[A-Za-z][\w-]*
      | \#\w+
      )
    | (?P<number>
        (?:[1-9]\d{0,2}(?:,\d{3})+(?!\d|,\d)
          | [1-9]\d{0,2}(?:[ \u00a0\u202f\u2009]\d{3})+(?![\d.,])
          | \d+(?:_\d+)*)
        (?:\.\d+)?(?:[eE][+-]?\d+(?![\w.]))?
      | \.\d+(?:[eE][+-]?\d+)?
      )
    | (?P<raised>⁻?[⁰¹²³⁴⁵⁶⁷⁸⁹]+)
    | (?P<relation>===?(?![=>]) | =>(?!=) | ⇒ | =~ | ~= | [≈≃≅] | =(?![=>]))
    | (?P<compare>[<>!:+*/|&-]=+ | [<>]+ | -> | =+>+ | ={4,} | [≠≤≥≡→])
    | (?P<operator>\*\*|//|[*×·⋅∙/÷+^−–-])
    | (?P<by>(?:divided|multiplied)\s+by\b)
    | (?P<word>(?:math\.|np\.|torch\.)?[^\W\d][\w₂₁₀]*(?:[.'’-]\w+)*)
    | (?P<other>.)
    """,
    re.X | re.S,
)
_TIMES_SIGN = re.compile(r"(?P<gap>[ \u00a0]*)[xX](?=(?P<behind>\s*)(?:[\d(√$~]|\.\d))")


class Token(Struct, frozen=True):
    """A piece of the text from `start` to `end`."""

    kind: Kind
    text: str
    """As typed; of operators and functions the plain name."""
    start: int
    end: int
    is_loose: bool = False
    """Whether it may be something else: a range, a dash, two adjacent numbers."""
    is_new_line: bool = False
    """Whether a line begins before it."""
    unit: Unit | None = None


def split_tokens(text: str) -> list[Token]:
    """The tokens of a text in their order."""
    tokens: list[Token] = []
    position = 0
    is_new_line = has_suffix = False
    last: Token | None = None
    while position < len(text):
        token = _read_suffix(text, position, last) if last and has_suffix else None
        if token is None:
            match = _TOKEN.match(text, position)
            assert match is not None  # the last alternative takes any character
            if match.lastgroup == "blank":
                is_new_line |= "\n" in match[0]
                position = match.end()
                continue
            token = _read_token(match, text, last)
        if is_new_line:
            token = Token(token.kind, token.text, token.start, token.end, token.is_loose, True)
            is_new_line = False
        tokens.append(token)
        position = token.end
        last, has_suffix = token, _may_have_suffix(token.kind, text, position)
    return tokens


_BEFORE = re.compile(r"(?<![\d.,_])\d{1,9}(?:\.\d+)?$")
_BEHIND = re.compile(r"\d{1,9}(?:\.\d+)?(?![\w,])")
_VALUES = ("number", "close", "power")
_AMOUNTS = (*_VALUES, "unit", "percent")
_AFTER_AMOUNT = re.compile(r"\s*[A-Za-zµμ/]")
_AFTER_WORD = re.compile(r"\s*(?:[xX]\s|/|per )")


def _may_have_suffix(kind: Kind, text: str, end: int) -> bool:
    """A fast first test for what `_read_suffix` reads after a token that ends there."""
    if kind == "word":
        return _AFTER_WORD.match(text, end) is not None
    return kind in _AMOUNTS and _AFTER_AMOUNT.match(text, end) is not None


def _read_suffix(text: str, position: int, last: Token) -> Token | None:
    """A token that exists only after a value: a unit, or `x` for times."""
    is_word = last.kind == "word"
    sign = _TIMES_SIGN.match(text, position)
    if sign and (not is_word or (sign["gap"] and sign["behind"])):
        return Token("operator", "*", sign.end() - 1, sign.end())
    found = None
    if is_word:
        found = match_rate(text, position)
    elif last.kind in _VALUES or (last.unit and not last.unit.dimension):
        found = match_unit(text, position)
    if found is None or text[found[1] : found[1] + 1] == "(":
        return None
    unit, end = found
    if text.startswith((" min", " s"), position) and text[end : end + 1] == ".":
        return None
    start = position + (text[position] in " \u00a0\u202f\u2009")
    return Token("unit", text[start:end], start, end, unit=unit)


def _read_token(match: re.Match[str], text: str, last: Token | None) -> Token:
    start, end, typed = match.start(), match.end(), match[0]
    match match.lastgroup:
        case "word":
            return _read_word(match, text, last)
        case "number":
            return Token("number", typed, start, end, " " in typed)
        case "raised":
            return Token("power", typed.translate(_RAISED), start, end)
        case "relation":
            return Token("relation", typed, start, end)
        case "operator":
            name = _OPERATORS.get(typed, typed)
            return Token("operator", name, start, end, name == "-" and _is_loose(match, text))
        case "by":
            return Token("operator", "/" if typed.startswith("d") else "*", start, end)
        case "other":
            return _read_mark(typed, start, end)
        case _:  # names, and comparison signs other than equality
            return Token("word" if match.lastgroup == "name" else "mark", typed, start, end)


def _is_loose(match: re.Match[str], text: str) -> bool:
    """Whether a minus may be a dash or the middle of a range."""
    before = text[match.start() - 1 : match.start()].isspace()
    after = text[match.end() : match.end() + 1].isspace()
    if match[0] == "-" and not before and not after:
        numbers = _BEFORE.search(text, max(match.start() - 20, 0), match.start())
        behind = _BEHIND.match(text, match.end())
        # 1-8 is a range, 8-1 is not
        return not (numbers and behind and float(numbers[0]) > float(behind[0]))
    return match[0] == "–" or before != after


def _read_word(match: re.Match[str], text: str, last: Token | None) -> Token:
    start, end, typed = match.start(), match.end(), match[0]
    if text[end : end + 1] == "(":
        plain = typed.removeprefix("math.").removeprefix("np.").removeprefix("torch.")
        if plain in FUNCTIONS:
            name = plain.replace("_", "").replace("₂", "2").replace("₁₀", "10")
            return Token("function", name, start, end)
    if last is not None and (
        (typed == "of" and last.kind == "percent")
        or (typed in _OPERATORS and last.kind in _AMOUNTS)
    ):
        is_loose = typed != "of"  # as in "4.8 times 1e22"
        return Token("operator", _OPERATORS.get(typed, typed), start, end, is_loose)
    if typed in ("percent", "per-cent"):
        return Token("percent", typed, start, end)
    if typed == "equals":
        return Token("relation", "=", start, end)
    return Token("word", typed, start, end)


_MARKS: Mapping[str, Kind] = {
    "(": "open",
    ")": "close",
    "%": "percent",
    "√": "root",
    "~": "tilde",
    ",": "comma",
}


def _read_mark(typed: str, start: int, end: int) -> Token:
    if typed in "$€£":
        return Token("currency", typed, start, end, unit=read_currency(typed))
    return Token(_MARKS.get(typed, "mark"), typed, start, end)
