"""The text that rules read: the prose of a chapter, passage by passage, and its code blocks.

A passage is the text of one paragraph, heading or table cell as a reader sees it, with the position
of each character in the file. It is made from the tokens of the parser, so comments, raw HTML,
link targets and alternative texts are not part of it.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Literal

from markdown_it.token import Token
from msgspec import Struct

from bindery.core.model import Chapter, Span
from bindery.markdown.positions import Locator

PassageKind = Literal["paragraph", "heading", "cell"]
Ranges = tuple[tuple[int, int], ...]
_PassageRow = tuple[PassageKind, str, str, Ranges, Ranges, int, bool, int]
_FenceRow = tuple[str, str, str, int, Span, bool]
_Passages, _Fences = tuple[_PassageRow, ...], tuple[_FenceRow, ...]
"""Passages and blocks of code as they are stored, without their chapter."""

_KINDS: Mapping[str, PassageKind] = {
    "heading_open": "heading",
    "th_open": "cell",
    "td_open": "cell",
}
"""The kind of a passage by the token before it; any other makes a paragraph."""

HIDDEN = "\N{REPLACEMENT CHARACTER}"
"""Replaces each character of a code span or formula in `Passage.prose`."""

MARKED = r"(?<![=\w{])==(?P<mark>[^=\s](?:[^=\n]*[^=\s])?)==(?![=\w])"
INSERTED = r"\^\^(?P<ins>[^\s^](?:[^^\n]*[^\s^])?)\^\^"
RAISED = r"(?<=[\w)])\^(?P<sup>[^\s^\[\]]+)\^"
"""Text styles of MkDocs and Pandoc: `==mark==`, `^^insert^^` and `x^2^`."""


class Passage(Struct, frozen=True):
    """The text of a paragraph, heading or cell, without markup."""

    kind: PassageKind
    text: str
    """As a reader sees it, with link texts and code spans but without images; lines of the source
    end in a newline."""
    prose: str
    """The text with code spans, formulas and names of emoji blanked out, as long as `text`."""
    codes: Ranges
    """Where in `text` the code spans are: start and end."""
    formulas: Ranges
    """Where in `text` the formulas between dollars are."""
    line: int
    """The first line of the passage in the file."""
    is_quoted: bool
    """Whether it is in a block quote."""
    _index: int
    """Which token of the chapter it is made from."""
    _chapter: Chapter

    @property
    def _inline(self) -> Token:
        return self._chapter.tokens[self._index]

    @property
    def links(self) -> Ranges:
        """Where in `text` the words of links are."""
        return tuple(_iterate_links(self._inline.children or []))

    def place(self, start: int, end: int) -> Span:
        """Where in the file the characters from `start` to `end` are; to the end of the line
        where they go on in the next one."""
        offsets = self._inline.meta.get("offsets")
        if offsets is None:  # cached: a passage may have many findings
            offsets = self._inline.meta["offsets"] = _align(self._inline, len(self.text))
        first = offsets[start]
        last = offsets[max(end - 1, start)] + 1
        content = self._inline.content
        newline = content.find("\n", first)
        if 0 <= newline < last:
            last = newline
        line, col = Locator(self._chapter.lines).find_place(self._inline, first)
        return Span(self._chapter.path, line, col, max(last - first, 1))


def to_lower(text: str) -> str:
    """Text in lower case with its length unchanged: `lower` alone makes two characters of İ."""
    return text.replace("İ", "I").lower()


class JoinedProse:
    """Many texts joined, each after a line feed, so that one search finds a word in all of them."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._text = "\n".join(("", *texts))
        self._starts = list(accumulate((len(text) + 1 for text in texts), initial=0))

    def find(self, word: str) -> Iterator[int]:
        """The index of each text that contains the word. A line feed at its start matches before
        every line, including the first."""
        at = self._text.find(word)
        while at >= 0:
            following = bisect_right(self._starts, at)
            yield following - 1
            at = self._text.find(word, self._starts[following])

    def search(self, pattern: re.Pattern[str]) -> Iterator[int]:
        """The same for a pattern."""
        match = pattern.search(self._text)
        while match:
            following = bisect_right(self._starts, match.start())
            yield following - 1
            match = pattern.search(self._text, self._starts[following])


class Fence(Struct, frozen=True):
    """A block of code, fenced or indented."""

    language: str
    """The first word after the fence in lower case, such as `bash`; empty if none is."""
    info: str
    """All that is after the fence."""
    code: str
    line: int
    """The line in the file of the first line of code."""
    opening: Span
    is_unclosed: bool
    """Whether it goes on to the end of the chapter because no line closes it."""
    _chapter: Chapter

    def place(self, row: int, col: int = 0, width: int = 0) -> Span:
        """Where in the file a row of the code is, counted from 0, and a column of it; the
        whole row without a width."""
        rows = self.code.split("\n")
        text = rows[row] if row < len(rows) else ""
        lines = self._chapter.lines
        number = self.line + row
        base = max(lines[number - 1].find(text), 0) if number <= len(lines) else 0
        lead = len(text) - len(text.lstrip()) if not width and not col else 0
        width = width or max(len(text.strip()), 1)
        return Span(self._chapter.path, number, base + lead + col + 1, width)


def read_passages(chapter: Chapter) -> tuple[Passage, ...]:
    """The prose of a chapter in reading order, without empty passages."""
    rows = chapter.facts.derive("passages", _Passages, lambda: tuple(_iterate_passages(chapter)))
    return tuple(Passage(*row, chapter) for row in rows)


def _iterate_passages(chapter: Chapter) -> Iterator[_PassageRow]:
    before = ""
    quotes = 0
    for index, token in enumerate(chapter.tokens):
        match token.type:
            case "inline" if token.map is not None:
                text, prose, codes, formulas = _join_text(token.children or [])
                if text.strip():
                    kind, line = _KINDS.get(before, "paragraph"), token.map[0] + 1
                    yield kind, text, prose, codes, formulas, line, quotes > 0, index
            case "blockquote_open":
                quotes += 1
            case "blockquote_close":
                quotes -= 1
        before = token.type


def is_diagram(info: str) -> bool:
    """Whether a fence with this behind it is a diagram, which GitHub draws."""
    return info.split()[:1] == ["mermaid"]


def read_fences(chapter: Chapter) -> tuple[Fence, ...]:
    """The blocks of code of a chapter in reading order."""
    rows = chapter.facts.derive("fences", _Fences, lambda: tuple(_iterate_fences(chapter)))
    return tuple(Fence(*row, chapter) for row in rows)


def read_diagrams(chapter: Chapter) -> tuple[Fence, ...]:
    """The diagrams of a chapter in reading order."""
    fences = read_fences(chapter) if "mermaid" in chapter.source else ()
    return tuple(fence for fence in fences if is_diagram(fence.info))


def _iterate_fences(chapter: Chapter) -> Iterator[_FenceRow]:
    for token in chapter.tokens:
        if token.type not in ("fence", "code_block") or token.map is None:
            continue
        info = token.info.strip()
        first = token.map[0]
        opening = chapter.lines[first]
        col = len(opening) - len(opening.lstrip()) + 1
        language = info.split()[0].lower().strip("{}.") if info.strip("{}. ") else ""
        line = first + 1 + (token.type == "fence")
        span = Span(chapter.path, first + 1, col, max(len(opening.strip()), 1))
        yield language, info, token.content, line, span, _is_unclosed(token, chapter.lines)


def _is_unclosed(token: Token, lines: Sequence[str]) -> bool:
    start, end = token.map or (0, 0)
    if token.type != "fence" or any(line.strip() for line in lines[end:]):
        return False
    count = token.content.count("\n") + (token.content[-1:] not in ("", "\n"))
    return count == end - start - 1  # one less if there is a closing line


_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]*);")


def _join_text(children: Sequence[Token]) -> tuple[str, str, Ranges, Ranges]:
    """The text of an inline token, the same with code and formulas blanked out, and the ranges of
    both."""
    if len(children) == 1 and children[0].type == "text":
        return children[0].content, children[0].content, (), ()
    pieces: list[str] = []
    prose: list[str] = []
    codes: list[tuple[int, int]] = []
    formulas: list[tuple[int, int]] = []
    length = 0
    for child in children:
        piece = _read_piece(child)
        if not piece:
            continue
        shown = piece
        if child.type == "code_inline":
            codes.append((length, length + len(piece)))
            shown = HIDDEN * len(piece)
        elif child.type.startswith("math_inline"):
            formulas.append((length, length + len(piece)))
            shown = HIDDEN * len(piece)
        elif child.type == "emoji":
            shown = " " * len(piece)
        pieces.append(piece)
        prose.append(shown)
        length += len(piece)
    return "".join(pieces), "".join(prose), tuple(codes), tuple(formulas)


def _iterate_links(children: Sequence[Token]) -> Iterator[tuple[int, int]]:
    start = length = 0
    for child in children:
        match child.type:
            case "link_open":
                start = length
            case "link_close":
                yield start, length
        length += len(_read_piece(child))


def _read_piece(child: Token) -> str:
    match child.type:
        case "text" | "text_special" | "code_inline" | "math_inline" | "math_inline_double":
            return child.content
        case "emoji":
            return child.markup
        case "softbreak" | "hardbreak":
            return "\n"
        case "html_inline" if child.content.lower().startswith("<br"):
            return "\n"
        case _:
            return ""


def _align(inline: Token, length: int) -> list[int]:
    """For each character of the text of an inline token, its offset in what the author typed."""
    content = inline.content
    offsets: list[int] = []
    ends: list[int] = []  # where the open links end
    read = 0
    for child in inline.children or []:
        piece = _read_piece(child)
        match child.type:
            case "image":  # its text is not part of the passage
                read = max(read, child.meta.get("end", read))
            case "html_inline":
                at = child.meta.get("at", read)
                offsets.extend([at] * len(piece))
                read = max(read, at + len(child.content))
            case "link_open":
                ends.append(_find_link_end(child, content))
                if child.meta.get("how") == "autolink":
                    read = max(read, child.meta["at"])
            case "link_close":
                read = max(read, ends.pop()) if ends else read
            case "code_inline" | "math_inline" | "math_inline_double" if "at" in child.meta:
                found = child.meta["at"]
                offsets.extend(range(found, found + len(piece)))
                read = found + len(piece)
            case _ if piece:
                first, _ = _follow_character(content, read, piece[:1])
                if content.startswith(piece, first) and "&" not in piece and "\\" not in piece:
                    offsets.extend(range(first, first + len(piece)))  # most text is as it was typed
                    read = first + len(piece)
                    continue
                for character in piece:
                    found, read = _follow_character(content, read, character)
                    offsets.append(found)
    last = max(len(content) - 1, 0)
    offsets.extend([last] * (length - len(offsets)))
    return [min(offset, last) for offset in offsets]


def _find_link_end(link: Token, content: str) -> int:
    """After the closing bracket of a link; of an autolink, where its text begins."""
    end: int = link.meta.get("end", 0)
    if link.meta.get("how") == "autolink":
        return 0
    if link.meta.get("how") == "inline" and link.meta.get("typed"):
        return content.find(")", end) + 1 or end
    return end


def _follow_character(content: str, start: int, character: str) -> tuple[int, int]:
    """Where a character of the text was typed, plainly, escaped or as an entity, and where the next
    one is to be looked for. Marks between them are passed over."""
    for at in range(start, len(content)):
        typed = content[at]
        if typed == "\\" and content[at + 1 : at + 2] == character:
            return at + 1, at + 2
        if typed == "&" and (entity := _ENTITY.match(content, at)):
            if html.unescape(entity[0]) == character:
                return at, entity.end()
            if character != "&":
                continue
        if typed == character:
            return at, at + 1
    return start, start
