"""A page as plain text: its sections, its reading time, its first sentence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from lxml import etree
from msgspec import Struct

from bindery.render.completeness import ADDED

WORDS_A_MINUTE = 230
"""Reading speed of adults: 238 words per minute for non-fiction (Brysbaert 2019, a review of 190
studies), reduced a little because of code and tables."""
_HEADINGS = frozenset(("h1", "h2", "h3", "h4", "h5", "h6"))
_BLOCKS = _HEADINGS | frozenset(
    "p li td th pre dt dd blockquote caption figcaption summary div tr table ul ol".split()
)
_SKIPPED = frozenset(("nav", "script", "style", "template"))
UNSAID = ADDED | {"note"}
"""Classes of elements that are not part of the text."""
_CHARACTER = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
"""Characters of Chinese and Japanese, which have no spaces; two take as long as a word."""
_LONGEST_SUMMARY = 160
"""Length of a description that search engines show."""


class Section(Struct, frozen=True):
    """The text from one heading to the next."""

    slug: str
    title: str
    prose: str
    rest: str
    """Of tables and blocks of code."""
    above: str
    """The headings above it, without that of the page."""


def read_page(body: str) -> tuple[Sequence[Section], str]:
    """The sections of a page from its XHTML, and its summary."""
    page = etree.fromstring(f"<html><body>{body}</body></html>", etree.HTMLParser())
    root = page.find("body")
    return _read_sections(root), _summarise(root)


def _read_sections(root: Any) -> Sequence[Section]:
    """The sections of a page, without footnote numbers and notes on the origin of numbers."""
    sections: list[Section] = []
    slug, title, prose, rest = "", "", list[str](), list[str]()
    open_headings: dict[int, str] = {}

    def close() -> None:
        above = " ".join(list(open_headings.values())[:-1])
        sections.append(Section(slug, title, _fold("".join(prose)), _fold("".join(rest)), above))

    for heading, text, is_prose in _walk(root):
        if heading is None:
            (prose if is_prose else rest).append(text)
            continue
        if slug or "".join((*prose, *rest)).strip():
            close()
        slug, title, prose, rest = heading.get("id"), _fold(text), [], []
        level = int(heading.tag[1])
        open_headings = {k: v for k, v in open_headings.items() if k < level}
        if level > 1:
            open_headings[level] = title
    close()
    return sections


def count_minutes(sections: Sequence[Section]) -> int:
    """The reading time of a page in minutes, at least one."""
    text = " ".join(f"{part.prose} {part.rest}" for part in sections)
    words = len(text.split()) + len(_CHARACTER.findall(text)) / 2
    return max(1, round(words / WORDS_A_MINUTE))


def _summarise(root: Any) -> str:
    """The first paragraph of a page, cut at a word to the length that search engines show."""
    for paragraph in root.iter("p"):
        text = _fold("".join(text for _, text, _ in _walk(paragraph)))
        if text:
            if len(text) <= _LONGEST_SUMMARY:
                return text
            return f"{text[: _LONGEST_SUMMARY - 1].rpartition(' ')[0]}\N{HORIZONTAL ELLIPSIS}"
    return ""


def _fold(text: str) -> str:
    return " ".join(text.split())


def _walk(element: Any, *, is_prose: bool = True) -> Iterator[tuple[Any, str, bool]]:
    """The text below an element piece by piece, and whether it is prose; a heading is one piece,
    with its element, and a formula its source."""
    if element.get("alttext"):
        yield None, element.get("alttext"), is_prose
        return
    if element.text:
        yield None, element.text, is_prose
    for child in element:
        name = child.tag
        if not isinstance(name, str) or name in _SKIPPED or child.get("class") in UNSAID:
            pass
        elif name in _HEADINGS and child.get("id"):
            yield child, "".join(text for _, text, _ in _walk(child)), is_prose
        else:
            within = is_prose and name not in ("pre", "table")
            yield from _walk(child, is_prose=within)
            if name in _BLOCKS:
                yield None, " ", within
        if child.tail:
            yield None, child.tail, is_prose
