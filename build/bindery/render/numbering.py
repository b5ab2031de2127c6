"""Exhibits: which tables and figures of a book are numbered, and what they are called.

Every output uses the same numbers, so "Table 3.2" is the same table on paper and on a screen.
A table is any table; a figure is an image on its own, not one inside a sentence or a
cell. Chapters are numbered through the book; the chapters before the first titled part are its
front, and those that have no file are its appendix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from markdown_it.token import Token
from msgspec import Struct

from bindery.check.inspect import Inspection
from bindery.check.rules.repeated_caption import repeats
from bindery.core.model import Chapter, Link, Target, ToChapter, ToFile
from bindery.evidence.quotations import Quotations
from bindery.markdown.captions import Kind, name_exhibit, read_captions
from bindery.markdown.prose import is_diagram
from bindery.markdown.raw_html import Tag, Text

_AROUND_IMAGES = frozenset(("a", "br", "center", "div", "figure", "p", "picture", "source", "span"))


class Exhibit(Struct, frozen=True):
    """A numbered table or figure. `slug` is its id in the inventory of its chapter; the title is
    empty if it would repeat the heading above. An author's caption in the text takes precedence."""

    kind: Kind
    chapter: str
    slug: str
    label: str
    """Its name in the text: `Table 3.2`."""
    title: str
    word: str = ""
    """What it is called without its number: `Table`."""
    caption: str = ""
    """The author's caption above it, as plain text."""
    anchor: str = ""
    """The anchor of that caption."""


def number_chapters(inspection: Inspection) -> Mapping[str, str]:
    """The number of each chapter by its path: `1`, `2`; letters in the appendix; empty for the
    front: chapters without a part in a book with parts."""
    listed = {entry.path for entry in inspection.config.chapters}
    has_parts = any(part.title for part in inspection.config.parts)
    numbers: dict[str, str] = {}
    count = appended = 0
    for part in inspection.book.parts:
        for chapter in part.chapters:
            if chapter.path not in listed:
                numbers[chapter.path] = chr(ord("A") + appended)
                appended += 1
            elif has_parts and not part.title:
                numbers[chapter.path] = ""
            else:
                count += 1
                numbers[chapter.path] = str(count)
    return numbers


def list_exhibits(inspection: Inspection) -> tuple[Exhibit, ...]:
    """The tables and figures of a book in reading order.

    The title is the author's caption, or that of the view, or of the image. A title that repeats
    the heading above is left out, unless it is a caption.
    """
    numbers, words = number_chapters(inspection), inspection.config.wording
    counts: Counter[tuple[Kind, str]] = Counter()
    exhibits = []
    titles = inspection.facts.derive(
        "titles of views",
        dict[str, str],
        lambda: {name: view.title for name, view in inspection.evidence.views.items()},
    )
    for chapter in inspection.book.chapters:
        prefix = numbers[chapter.path]
        captions = {
            name: caption for caption in read_captions(chapter, words) for name in caption.shown
        }
        for kind, slug, title in _read_exhibits(inspection, chapter, titles):
            counts[kind, prefix] += 1
            count = str(counts[kind, prefix])
            number = f"{prefix}.{count}" if prefix else count
            label, word = name_exhibit(kind, words, number), name_exhibit(kind, words)
            own = captions.get(slug)
            text, anchor = (own.text, own.anchor) if own else ("", "")
            exhibits.append(
                Exhibit(kind, chapter.path, slug, label, text or title, word, text, anchor)
            )
    return tuple(exhibits)


class _Dialect(Protocol):
    def write_href(self, target: Target, chapter: Chapter) -> str | None: ...


def find_addresses(
    exhibits: Iterable[Exhibit], dialect: _Dialect, chapter: Chapter
) -> Mapping[str, Exhibit]:
    """The exhibits with an anchor by their address, as a chapter writes it in an output."""
    found = {
        dialect.write_href(ToChapter(exhibit.chapter, exhibit.anchor), chapter): exhibit
        for exhibit in exhibits
        if exhibit.anchor
    }
    return {href: exhibit for href, exhibit in found.items() if href is not None}


class _Image(Struct, frozen=True):
    slug: str
    link: Link
    title: str


class _Block(Struct, frozen=True):
    """A table, a diagram, or images in a row, which are a figure if one of them is a file."""

    kind: Kind
    heading: str
    """The title of the heading above."""
    line: int
    slug: str = ""
    """Of a table or diagram."""
    diagram: str = ""
    """Its code."""
    images: tuple[_Image, ...] = ()


def read_blocks(chapter: Chapter) -> tuple[_Block, ...]:
    """What may be tables and figures of a chapter. They follow from its text alone."""
    return chapter.facts.derive(
        "blocks", tuple[_Block, ...], lambda: tuple(_Reader(chapter).read())
    )


def _read_exhibits(
    inspection: Inspection, chapter: Chapter, titles: Mapping[str, str]
) -> Iterator[tuple[Kind, str, str]]:
    """Kind, id and title of each exhibit of a chapter."""
    resolved = inspection.resolved
    regions = inspection.quotations.get(chapter.path, Quotations()).regions
    for block in read_blocks(chapter):
        slug, title = block.slug, ""
        if block.images:
            files = (i for i in block.images if isinstance(resolved.find_target(i.link), ToFile))
            shown = next(files, None)
            if shown is None:
                continue
            slug, title = shown.slug, shown.title
        elif block.diagram and block.diagram not in resolved.drawings:
            continue
        for region in regions:
            if region.opening.line < block.line < region.closing.line:
                title = titles.get(region.name, title)
        yield block.kind, slug, "" if repeats(title, block.heading) else title


class _Reader:
    """Reads the blocks of one chapter."""

    def __init__(self, chapter: Chapter) -> None:
        self._chapter = chapter
        self._titles = {a.slug: a.title for a in chapter.anchors if a.level and a.title}
        self._heading = chapter.title

    def read(self) -> Iterator[_Block]:
        for index, token in enumerate(self._chapter.tokens):
            match token.type:
                case "heading_open":
                    self._enter_heading(token.meta["slug"])
                case "table_open":
                    yield self._make("table", token, slug=token.meta["id"])
                case "paragraph_open":
                    inline = self._chapter.tokens[index + 1]
                    yield from self._read_figure(inline, inline.children or [])
                case "html_block":
                    yield from self._read_html(token)
                case "fence" if is_diagram(token.info):
                    yield self._make("figure", token, slug=token.meta["id"], diagram=token.content)
                case _:
                    pass

    def _make(self, kind: Kind, place: Token, **values: Any) -> _Block:
        return _Block(kind, self._heading, place.map[0] + 1 if place.map else 0, **values)

    def _enter_heading(self, slug: str) -> None:
        self._heading = self._titles.get(slug, self._heading)

    def _read_html(self, token: Token) -> Iterator[_Block]:
        for index, piece in enumerate(token.meta.get("pieces", ())):
            if isinstance(piece, Tag) and not piece.closing:
                identifier = token.meta["piece_ids"].get(index)
                if identifier and token.meta["piece_ranks"].get(index):
                    self._enter_heading(identifier)
                elif identifier and piece.name == "table":
                    yield self._make("table", token, slug=identifier)
        yield from self._read_figure(token, [token])

    def _read_figure(self, place: Token, tokens: Iterable[Token]) -> Iterator[_Block]:
        """The figure that these tokens may be, where they are images and nothing else. Several in
        a row are one figure."""
        images: list[_Image] = []
        for token in tokens:
            match token.type:
                case "image":
                    title = str(token.attrs.get("title") or "")
                    images.append(_Image(token.meta["id"], token.meta["link"], title))
                case "html_inline" | "html_block":
                    found = _read_raw_images(token)
                    if found is None:
                        return
                    images += found
                case "softbreak" | "hardbreak" | "link_open" | "link_close":
                    pass
                case "text" if not token.content.strip():
                    pass
                case _:
                    return
        if images:
            yield self._make("figure", place, images=tuple(images))


def _read_raw_images(token: Token) -> list[_Image] | None:
    """The images of raw HTML; None if it shows anything else."""
    images = []
    for index, piece in enumerate(token.meta.get("pieces", ())):
        match piece:
            case Text(text) if text.strip():
                return None
            case Tag(name="img", closing=False):
                link = token.meta["piece_links"].get(index)
                if link is not None:
                    title = piece.get("title") or ""
                    images.append(_Image(token.meta["piece_ids"][index], link, title))
            case Tag(name=name) if name not in _AROUND_IMAGES:
                return None
            case _:
                pass
    return images
