"""Code blocks as XHTML: colours if the language is named, and lines broken with a mark.

Pygments gives the tokens; the markup is our own, because a line that is too long for a page is
broken here, where its width is known, and not by the engine, which leaves no mark.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Token, _TokenType
from pygments.util import ClassNotFound

from bindery.render.text.markup import escape_text

WRAP_MARK = '<span class="wrap" aria-hidden="true">\N{RIGHTWARDS ARROW WITH HOOK}</span>'

_CLASSES = {
    Token: "",
    Token.Comment: "c",
    Token.Generic.Deleted: "gd",
    Token.Generic.Heading: "gh",
    Token.Generic.Inserted: "gi",
    Token.Generic.Prompt: "gh",
    Token.Generic.Subheading: "gh",
    Token.Keyword: "k",
    Token.Literal.Number: "m",
    Token.Literal.String: "s",
    Token.Name.Attribute: "n",
    Token.Name.Builtin: "n",
    Token.Name.Builtin.Pseudo: "",
    Token.Name.Class: "n",
    Token.Name.Constant: "m",
    Token.Name.Decorator: "n",
    Token.Name.Function: "n",
    Token.Name.Tag: "n",
    Token.Operator.Word: "k",
}
"""The class of each type of token that the style sheets colour, and of the types below it."""
_SOFT_BREAK = re.compile(r"[\s,;/&|=]")
_LOOK_BACK = 24
Pieces = Iterable[tuple[str, str]]


@cache
def _find_lexer(language: str) -> Lexer | None:
    if not language:
        return None
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@cache
def _find_class(kind: _TokenType) -> str:
    return next(_CLASSES[above] for above in reversed(kind.split()) if above in _CLASSES)


def read_language(info: str) -> str:
    """The language that a fence names, in small letters: its first word."""
    word = info.strip().split(maxsplit=1)[0] if info.strip() else ""
    return word.strip("{}.").split("{")[0].split(",")[0].lower()


@lru_cache(maxsize=16384)
def highlight_code(code: str, language: str, columns: int | None = None) -> str:
    """Code as XHTML. With `columns`, no line is longer: each break shows a mark."""
    pieces: Pieces = [("", code)]
    lexer = _find_lexer(language)
    if lexer is not None:
        coloured = list(_colour(lexer.get_tokens(code)))
        # Some lexers drop what they do not expect; then the code is worth more than its colours.
        if "".join(text for _, text in coloured) == code:
            pieces = coloured
    if columns and any(measure_text(line) > columns for line in code.split("\n")):
        pieces = _break_lines(pieces, columns)
    return "".join(_mark_up(kind, text) for kind, text in pieces).rstrip("\n")


def _colour(tokens: Iterable[tuple[_TokenType, str]]) -> Iterator[tuple[str, str]]:
    """Pieces of code with their classes, as few as possible: an engine sets each one apart. Spaces
    look the same in any class, so they stay with the piece before them."""
    last, parts = "", list[str]()
    for kind, text in tokens:
        found = _find_class(kind)
        if found != last and text.strip(" "):
            yield last, "".join(parts)
            last, parts = found, []
        parts.append(text)
    yield last, "".join(parts)


def _mark_up(kind: str, text: str) -> str:
    if kind == "wrap":
        return f"\n{WRAP_MARK}"
    escaped = escape_text(text)
    if not kind or text.isspace():
        return escaped
    if "\n" not in text:
        return f'<span class="{kind}">{escaped}</span>'
    # A span that crosses lines is closed and opened again: engines break them badly.
    return "\n".join(
        f'<span class="{kind}">{line}</span>' if line else "" for line in escaped.split("\n")
    )


def measure_text(text: str) -> int:
    """Columns that a text takes in a font of fixed width; a tab is eight at the most."""
    if text.isascii():
        return len(text) + 7 * text.count("\t")
    return sum(
        0
        if unicodedata.combining(character)
        else 8
        if character == "\t"
        else 2
        if unicodedata.east_asian_width(character) in "WF"
        else 1
        for character in text
    )


def _break_lines(pieces: Pieces, columns: int) -> Iterator[tuple[str, str]]:
    """Put a ("wrap", "") piece wherever a line would grow longer than `columns`."""
    used = 0
    for kind, text in pieces:
        for index, line in enumerate(text.split("\n")):
            if index:
                yield "", "\n"
                used = 0
            rest = line
            while used + measure_text(rest) > columns:
                cut = _find_cut(rest, columns - used, at_start=used == 0 or used == 2)
                if cut:
                    yield kind, rest[:cut]
                yield "wrap", ""
                rest = rest[cut:]
                used = 2  # the mark and its space
            if rest:
                yield kind, rest
                used += measure_text(rest)


def _find_cut(text: str, room: int, *, at_start: bool) -> int:
    """How many characters go before the break: after a space or a separator where one is near."""
    cut = width = 0
    for character in text:
        width += measure_text(character)
        if width > room:
            break
        cut += 1
    for position in range(cut, max(cut - _LOOK_BACK, 0), -1):
        if _SOFT_BREAK.match(text[position - 1]):
            return position
    if not at_start and len(text) <= _LOOK_BACK:
        return 0  # a short word goes to the next line whole
    return max(cut, 1 if at_start else 0)
