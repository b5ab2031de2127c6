"""Captions that an author writes, and references to them, as readers on GitHub see them too.

A caption is a paragraph directly above a table or image, with an anchor if anything refers to it:
`<a id="fig-roofline"></a>**Figure:** Throughput and memory.` A reference is a link whose text is
the word alone, `[Figure](#fig-roofline)`. The outputs add the number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from markdown_it.token import Token
from msgspec import Struct

from bindery.core.model import Chapter, Span
from bindery.core.wording import Wording
from bindery.markdown.positions import Locator
from bindery.markdown.prose import is_diagram
from bindery.markdown.raw_html import Tag, split_html

Kind = Literal["table", "figure"]


class Caption(Struct, frozen=True):
    """A caption; `shown` are the ids of the tables or images in the block below."""

    kind: Kind
    anchor: str
    text: str
    span: Span
    shown: tuple[str, ...]


class Reference(Struct, frozen=True):
    """A link whose text is the word alone; `span` is that of its destination."""

    kind: Kind
    span: Span


def name_exhibit(kind: Kind, words: Wording, number: str = "") -> str:
    """What a table or figure is called in the language of the book: `Table 3.2`, or `Table`."""
    name = "Table {number}" if kind == "table" else "Figure {number}"
    return words(name, number=number).strip()


def read_captions(chapter: Chapter, words: Wording) -> tuple[Caption, ...]:
    """The captions of a chapter."""
    kinds = _name_kinds(words)
    return chapter.facts.derive(
        "captions",
        tuple[Caption, ...],
        lambda: tuple(_iterate_captions(chapter, kinds)),
        given=repr(kinds),
    )


def read_references(chapter: Chapter, words: Wording) -> tuple[Reference, ...]:
    """The references of a chapter to tables and figures."""
    kinds = _name_kinds(words)
    return chapter.facts.derive(
        "references",
        tuple[Reference, ...],
        lambda: tuple(_iterate_references(chapter, kinds)),
        given=repr(kinds),
    )


def _name_kinds(words: Wording) -> Mapping[str, Kind]:
    return {name_exhibit("table", words): "table", name_exhibit("figure", words): "figure"}


def _iterate_captions(chapter: Chapter, kinds: Mapping[str, Kind]) -> Iterator[Caption]:
    if not any(word in chapter.source for word in kinds):
        return
    for index, token in enumerate(chapter.tokens):
        if token.type != "inline" or chapter.tokens[index - 1].type != "paragraph_open":
            continue
        children = token.children or []
        anchor, rest = _read_anchor(children)
        if len(rest) < 4 or [child.type for child in rest[:3]] != _BOLD:
            continue
        kind = kinds.get(rest[1].content.rstrip(":\N{FULLWIDTH COLON}"))
        if kind is None or rest[1].content in kinds:
            continue
        texts = ("text", "code_inline", "emoji", "math_inline", "softbreak")
        text = "".join(child.content or " " for child in rest[3:] if child.type in texts)
        line, col = Locator(chapter.lines).find_place(token, 0)
        span = Span(chapter.path, line, col, len(token.content.split("\n")[0]))
        shown = _list_shown(chapter.tokens, index + 2, kind)
        yield Caption(kind, anchor, " ".join(text.split()), span, shown)


_BOLD = ["strong_open", "text", "strong_close"]
_COMMENTS = re.compile(r"(?:\s*<!--.*?-->)*\s*", re.DOTALL)


def _read_anchor(children: Sequence[Token]) -> tuple[str, list[Token]]:
    """The anchor at the start of a paragraph, if there is one, and what follows it."""
    rest = [child for child in children if child.type != "text" or child.content.strip()]
    if len(rest) < 2 or {child.type for child in rest[:2]} != {"html_inline"}:
        return "", rest
    tag = next(iter(split_html(rest[0].content)), None)
    is_anchor = isinstance(tag, Tag) and tag.name == "a" and rest[1].content == "</a>"
    name = tag.get("id") or tag.get("name") if isinstance(tag, Tag) else None
    return (name, rest[2:]) if is_anchor and name else ("", rest)


def _list_shown(tokens: Sequence[Token], start: int, kind: Kind) -> tuple[str, ...]:
    """The tables or images of the first block from `start`; comments are passed over."""
    for index in range(start, len(tokens)):
        token = tokens[index]
        match token.type:
            case "html_block" if _COMMENTS.fullmatch(token.content):
                continue
            case "fence" if kind == "figure" and is_diagram(token.info):
                return (str(token.meta["id"]),)
            case "paragraph_open":
                inline = tokens[index + 1].children or []
                has_words = any(child.type == "text" and child.content.strip() for child in inline)
                blocks = [] if has_words else inline
            case _:
                blocks = [token]
        ids = (name for block in blocks for name in _list_ids(block))
        return tuple(name for name in ids if name.startswith(f"{kind}."))
    return ()


def _list_ids(token: Token) -> Iterator[str]:
    if token.meta.get("id"):
        yield str(token.meta["id"])
    yield from token.meta.get("piece_ids", {}).values()


def _iterate_references(chapter: Chapter, kinds: Mapping[str, Kind]) -> Iterator[Reference]:
    if not any(f"[{word}]" in chapter.source for word in kinds):
        return
    for token in chapter.tokens:
        children = token.children or []
        for link, text, end in zip(children, children[1:], children[2:], strict=False):
            if (link.type, text.type, end.type) == ("link_open", "text", "link_close"):
                kind = kinds.get(text.content)
                if kind is not None:
                    yield Reference(kind, link.meta["link"].span)
