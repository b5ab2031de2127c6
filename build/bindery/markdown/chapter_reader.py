"""Read Markdown into a Chapter: what GitHub renders, with the position of every link.

`markdown` gives the tokens, in which each link, image and raw tag knows its offset in the inline
text, and `Locator` turns offsets into lines and columns.

The tokens that a chapter carries are annotated for the renderers, in `token.meta`:
`slug` and `rank` on headings, `id` on tables, code blocks and images, `link` on links and images;
on raw HTML `pieces` (see `raw_html`), and by their index `piece_ids`, `piece_links`,
`piece_sources` and `piece_ranks`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import Any, TypeVar

from markdown_it.token import Token
from msgspec.structs import replace

from bindery.core.control_characters import show_controls
from bindery.core.model import (
    Anchor,
    Chapter,
    Definition,
    Excuse,
    Finding,
    Footnote,
    Inventory,
    Link,
    LinkKind,
    OpenReference,
    Span,
)
from bindery.core.report import list_more
from bindery.markdown.emoji import show_emoji
from bindery.markdown.parser import BracketNote, Notes, tokenise
from bindery.markdown.positions import Locator, Rows
from bindery.markdown.raw_html import (
    HIDDEN_ELEMENTS,
    Comment,
    Piece,
    Tag,
    Text,
    split_html,
    split_srcset,
)
from bindery.markdown.slugs import SlugCounter

_FRONT_TITLE = re.compile(r"^title:[ \t]*(?P<title>\S.*)$", re.MULTILINE)
_HEADING = re.compile("h[1-6]")
_COMPONENT = re.compile("<([A-Z][a-z][A-Za-z]*)")
COMPONENT_HINT = (
    "write in Markdown what it shows: text, an alert ('> [!NOTE]'), an image or a link;"
    " `bindery import . --convert` does what it can"
)
_EXCUSE = re.compile(r"\s*bindery:\s*allow\b(?P<rest>.*)", re.DOTALL)
_EXCUSE_PARTS = re.compile(r"\s+(?P<rule>[a-z][a-z-]*)\s+because\s+(?P<reason>\S.*)", re.DOTALL)


@lru_cache(maxsize=8192)  # in watch mode most chapters do not change
def parse_chapter(path: str, source: str, title: str = "", *, maths: bool = False) -> Chapter:
    """Parse a chapter. `title` is the default if the text has no level-1 heading."""
    tokens, notes = tokenise(source, maths=maths)
    return _ChapterReader(path, source, notes).read(tokens, title)


_COMMENT_LABELS = frozenset(("//", "comment", "_comment_", "#"))
"""Some people write comments as definitions with these labels: `[//]: # (a comment)`."""


class _ChapterReader:
    """One pass over the tokens of a chapter, in reading order."""

    def __init__(self, path: str, source: str, notes: Notes) -> None:
        self.path = path
        self.source = source
        self.notes = notes
        self.footnotes = {label for _, label in notes.footnotes}
        self.destinations: dict[str, str] = {}
        for definition in notes.definitions:
            self.destinations.setdefault(definition.key, definition.destination)
        self.lines = source.split("\n")
        self.locator = Locator(self.lines)
        self.slugs = SlugCounter()
        self.anchors: list[Anchor] = []
        self.links: list[Link] = []
        self.open_references: list[OpenReference] = []
        self.excuses: list[Excuse] = []
        self.findings: list[Finding] = []
        self.swallowed: dict[str, list[Finding]] = {}
        """By tag name."""
        self.headings: list[tuple[str, str]] = []
        self.levels: list[tuple[int, dict[Any, Any], Any]] = []
        self.counts = {"table": 0, "figure": 0, "code": 0}
        self.tables: list[tuple[str, int | None]] = []
        self.figures: list[str] = []
        self.code_blocks: list[tuple[str, str | None]] = []

    def read(self, tokens: list[Token], title: str) -> Chapter:
        for index, token in enumerate(tokens):
            match token.type:
                case "inline":
                    if token.map is not None and tokens[index - 1].type in ("th_open", "td_open"):
                        self.locator.enter_cell(token)
                    self._read_inline(token)
                case "heading_open":
                    self._read_heading(token, tokens[index + 1])
                case "table_open":
                    token.meta["id"] = self._count("table")
                    self.tables.append((token.meta["id"], _count_rows(tokens, index)))
                case "fence" | "code_block":
                    token.meta["id"] = self._count("code")
                    self.code_blocks.append((token.meta["id"], token.content))
                case "math_block" | "math_block_label":
                    assert token.map is not None
                    token.meta["span"] = Span(self.path, token.map[0] + 1, 1, 2)
                case "html_block":
                    place = self._place_in_block(token)
                    self._read_html(token, token.content, place, _follow(tokens, index))
        self._rank_headings()
        for found in self.swallowed.values():
            more = list_more([one.span.line for one in found])
            self.findings.append(replace(found[0], message=found[0].message + more))
        first = next((anchor.title for anchor in self.anchors if anchor.level == 1), "")
        first = first or _find_front_title(tokens)
        return Chapter(
            path=self.path,
            title=title or first or _title_from_path(self.path),
            source=self.source,
            tokens=tokens,
            anchors=tuple(self.anchors),
            links=tuple(self.links),
            definitions=tuple(self._read_definitions()),
            footnotes=tuple(self._read_footnotes()),
            open_references=tuple(self.open_references),
            excuses=tuple(self.excuses),
            inventory=Inventory(
                tuple(self.headings),
                tuple(self.tables),
                tuple(self.figures),
                tuple(self.code_blocks),
            ),
            findings=tuple(self.findings),
        )

    def _count(self, kind: str) -> str:
        """The id of the next table, figure or code block. Headings cannot have it, because GitHub
        drops dots."""
        self.counts[kind] += 1
        return f"{kind}.{self.counts[kind]}"

    # --- headings ---

    def _read_heading(self, token: Token, inline: Token) -> None:
        children = inline.children or []
        text = _plain_text(children).strip()
        assert token.map is not None
        line = token.map[0]
        col = len(self.lines[line]) - len(self.lines[line].lstrip()) + 1
        span = Span(self.path, line + 1, col, max(len(self.lines[line].strip()), 1))
        title = _plain_text(children, as_shown=True).strip()
        alt = _plain_text(children, with_alt=True).strip()
        level = int(token.tag[1])
        token.meta["slug"] = self._add_heading(level, text, title, alt, span)
        self.levels.append((level, token.meta, "rank"))

    def _add_heading(self, level: int, text: str, title: str, alt: str, span: Span) -> str:
        """Record a heading and return its anchor. A heading that is only an image is named by its
        alt text, which no output shows as text."""
        slug = self.slugs.assign_slug(text)
        title = show_controls(" ".join(title.split()))
        name = title or show_controls(" ".join(alt.split()))
        self.anchors.append(Anchor(slug, name, level, span))
        self.headings.append((slug, title))
        return slug

    def _rank_headings(self) -> None:
        """Give each heading its level in a joined book, where each chapter has one title.

        The title is a first heading of level 1. If there are more of that level, everything below
        the title moves down one level.
        """
        levels = [level for level, _, _ in self.levels]
        shift = int(1 in levels[1:])
        for position, (level, meta, key) in enumerate(self.levels):
            is_title = position == 0 and level == 1
            meta[key] = 1 if is_title else min(max(level + shift, 2), 6)

    # --- inline text ---

    def _read_inline(self, token: Token) -> None:
        place = partial(self.locator.find_place, token)
        children = token.children or []
        for note in token.meta.get("brackets", ()):
            self._read_brackets(note, place)
        for index, child in enumerate(children):
            match child.type:
                case "link_open":
                    self._add_markdown_link(child, place)
                    if children[index + 1].type == "link_close":
                        self._report_empty_link(child)
                case "image":
                    child.meta["id"] = self._count("figure")
                    self.figures.append(child.meta["id"])
                    self._add_markdown_link(child, place)
                case "html_inline":
                    at = child.meta.get("at", 0)
                    child.meta["span"] = Span(self.path, *place(at), len(child.content))
                    inside = partial(self.locator.find_place, token, start=at)
                    self._read_html(child, child.content, inside, _follow(children, index))
                case "math_inline" | "math_inline_double":
                    marks = len(child.markup)
                    line, col = place(child.meta["at"] - marks)
                    child.meta["span"] = Span(self.path, line, col, len(child.content) + 2 * marks)

    def _add_markdown_link(self, token: Token, place: Callable[[int], tuple[int, int]]) -> None:
        meta = token.meta
        is_image = token.type == "image"
        kind: LinkKind = "image" if is_image else "link"
        if not is_image and meta.get("how") in ("reference", "autolink"):
            kind = meta["how"]
        label = meta.get("label", "")
        destination = self.destinations.get(label) or meta.get("destination", "")
        line, col = place(meta.get("at", 0))
        width = max(meta.get("end", 0) - meta.get("at", 0), 1)
        span = Span(self.path, line, col, width)
        text = _plain_text(token.children or [], with_alt=True) if is_image else ""
        link = Link(meta.get("typed", ""), destination, span, kind, text, label)
        meta["link"] = link
        self.links.append(link)

    def _report_broken_link(
        self, note: BracketNote, place: Callable[[int], tuple[int, int]]
    ) -> None:
        hint = f"write '[{note.text}]({note.label})'"
        match note.shape:
            case "prose":
                start = note.end - 1 - len(note.label)
                message = f"the destination of '[{note.text}]' is prose, so this is not a link"
                hint = "write a path or an address; one with spaces goes between < and >"
            case "open":
                start = note.end - len(note.label)
                message = f"the link '[{note.text}]' is not closed, so this is not a link"
            case _:
                if not re.search(r"[^\W\d_]", note.text):  # a number is a citation
                    return
                start = note.end - len(note.label)
                message = (
                    f"a space is between '[{note.text}]' and its target, so this is not a link"
                )
        span = Span(self.path, *place(start), width=len(note.label))
        self.findings.append(Finding(span, "dead-link", message, hint))

    def _report_empty_link(self, token: Token) -> None:
        link: Link = token.meta["link"]
        if link.destination:
            message = "this link has no text, so readers cannot see it"
            hint = "write its text between the brackets"
            self.findings.append(Finding(link.span, "dead-link", message, hint))

    # --- definitions, and labels without one ---

    def _read_definitions(self) -> Iterator[Definition]:
        first: set[str] = set()
        for note in sorted(self.notes.definitions, key=lambda note: note.place):
            if note.label.strip().lower() in _COMMENT_LABELS:
                continue
            yield Definition(
                note.label,
                note.raw,
                note.destination,
                Span(self.path, *note.place, width=len(note.label.split("\n")[0]) + 2),
                Span(self.path, *note.destination_place, width=max(len(note.raw), 1)),
                note.key in self.notes.used and note.key not in first,
                note.key,
            )
            first.add(note.key)

    def _read_footnotes(self) -> Iterator[Footnote]:
        for place, label in sorted(self.notes.footnotes):
            span = Span(self.path, *place, width=len(label) + 3)
            yield Footnote(label, span, label in self.notes.used_footnotes)

    def _read_brackets(self, note: BracketNote, place: Callable[[int], tuple[int, int]]) -> None:
        """Brackets that are not a link: the label is undefined, or they contain prose."""
        shape = note.shape
        if shape == "prose" or shape == "open" or shape == "apart":
            self._report_broken_link(note, place)
            return
        if shape == "footnote" and note.label in self.footnotes:
            return
        line, col = place(note.start)
        width = min(note.end - note.start, max(len(self.lines[line - 1]) - col + 1, 1))
        self.open_references.append(
            OpenReference(
                shape,
                note.text,
                note.label,
                Span(self.path, line, col, width),
                note.before,
                note.after,
            )
        )

    # --- raw HTML ---

    def _place_in_block(self, token: Token) -> Callable[[int], tuple[int, int]]:
        assert token.map is not None
        return Rows(token.content, token.map[0], self.lines).find_place

    def _read_html(
        self,
        token: Token,
        content: str,
        place: Callable[[int], tuple[int, int]],
        following: Iterable[Token],
    ) -> None:
        pieces = list(split_html(content))
        identifiers: dict[int, str] = {}
        links: dict[int, Link] = {}
        sources: dict[int, list[tuple[Link, str]]] = {}
        ranks: dict[int, int] = {}
        for index, piece in enumerate(pieces):
            match piece:
                case Comment(text, start):
                    self._read_comment(text, place(start), token)
                case Tag(closing=False) if piece.is_shown:
                    behind = chain(_follow(pieces, index), _split_following(following))
                    sources[index] = list(self._read_srcset(piece, place))
                    identifiers |= self._read_tag(index, piece, behind, place, links, ranks)
                case Tag():
                    if not piece.is_shown:
                        self._report_tag(piece, place(piece.start))
                case _:
                    pass
        token.meta.update(
            pieces=pieces,
            piece_ids=identifiers,
            piece_links=links,
            piece_sources=sources,
            piece_ranks=ranks,
        )

    def _read_srcset(
        self, tag: Tag, place: Callable[[int], tuple[int, int]]
    ) -> Iterator[tuple[Link, str]]:
        """The files in a `srcset`, with their descriptors."""
        attribute = next((a for a in tag.attributes if a.name == "srcset"), None)
        if attribute is None or tag.name not in ("source", "img"):
            return
        for candidate in split_srcset(attribute.value):
            address = candidate.address
            span = Span(self.path, *place(attribute.start + candidate.start), len(address))
            link = Link(address, address, span, "html-source")
            self.links.append(link)
            yield link, candidate.descriptor

    def _read_tag(
        self,
        index: int,
        tag: Tag,
        behind: Iterable[Piece],
        place: Callable[[int], tuple[int, int]],
        links: dict[int, Link],
        ranks: dict[int, int],
    ) -> dict[int, str]:
        line, col = place(tag.start)
        span = Span(self.path, line, col, len(tag.raw.split("\n")[0]))
        explicit = tag.get("id") or (tag.get("name") if tag.name == "a" else None)
        if explicit:
            self.anchors.append(Anchor(explicit, "", 0, span))
        for attribute in tag.attributes:
            if (tag.name, attribute.name) in (("a", "href"), ("img", "src")):
                line, col = place(attribute.start)
                where = Span(self.path, line, col, max(len(attribute.value), 1))
                kind: LinkKind = "html-image" if tag.name == "img" else "html-link"
                text = tag.get("alt") or ""
                links[index] = Link(attribute.value, attribute.value, where, kind, text)
                self.links.append(links[index])
        if tag.name == "img" and index not in links:  # an image without a source must be reported
            links[index] = Link("", "", span, "html-image", tag.get("alt") or "")
            self.links.append(links[index])
        if _HEADING.fullmatch(tag.name):
            text, title, alt = _text_until(behind, tag.name)
            self.levels.append((int(tag.name[1]), ranks, index))
            return {index: self._add_heading(int(tag.name[1]), text, title, alt, span)}
        match tag.name:
            case "table":
                self.tables.append((self._count("table"), None))
                return {index: self.tables[-1][0]}
            case "img":
                self.figures.append(self._count("figure"))
                return {index: self.figures[-1]}
            case "pre":
                self.code_blocks.append((self._count("code"), None))
                return {index: self.code_blocks[-1][0]}
            case _:
                return {}

    def _report_tag(self, tag: Tag, place: tuple[int, int]) -> None:
        if tag.closing and (tag.name not in HIDDEN_ELEMENTS or tag.name in self.swallowed):
            return  # already reported at its start tag
        shown = tag.raw.split("\n")[0]
        hint = f"put it in a code span: `{tag.raw}`" if shown == tag.raw else "use a code span"
        rule = "swallowed-tag"
        component = _COMPONENT.match(tag.raw)
        if component and ("=" in tag.raw or f"</{component[1]}>" in self.source):
            rule, hint = "foreign-syntax", COMPONENT_HINT
            message = f"'{shown}' is a component of Docusaurus or Hugging Face; browsers hide it"
        elif tag.name in HIDDEN_ELEMENTS:
            message = f"GitHub removes the element '{tag.raw}'; the outputs show it as text"
        else:
            message = f"'{tag.raw}' looks like an HTML tag, so browsers hide it"
        span = Span(self.path, *place, width=len(shown))
        found = Finding(span, rule, message, hint)
        self.swallowed.setdefault(tag.name, []).append(found)

    def _read_comment(self, text: str, place: tuple[int, int], token: Token) -> None:
        match = _EXCUSE.match(text)
        if match is None:
            return
        line, col = place
        span = Span(self.path, line, col, min(len(text) + 7, len(self.lines[line - 1]) - col + 1))
        parts = _EXCUSE_PARTS.match(match["rest"])
        if parts is None:
            self.findings.append(
                Finding(
                    span,
                    "unused-excuse",
                    "this excuse does not name a rule and a reason",
                    "write `<!-- bindery: allow RULE because REASON -->`",
                )
            )
            return
        covers = line
        if token.type == "html_block":  # alone on its line: it covers the next line with text
            covers += text.count("\n") + 1
            while covers < len(self.lines) and not self.lines[covers - 1].strip():
                covers += 1
        self.excuses.append(Excuse(parts["rule"], parts["reason"].strip(), span, covers))


def _count_rows(tokens: Sequence[Token], index: int) -> int:
    """Rows of the table that opens at `index`."""
    rows = 0
    for token in _follow(tokens, index):
        rows += token.type == "tr_open"
        if token.type == "table_close":
            break
    return rows


T = TypeVar("T")


def _follow(items: Sequence[T], index: int) -> Iterator[T]:
    """Items after an index, without copying them."""
    return (items[position] for position in range(index + 1, len(items)))


def _plain_text(
    children: Iterable[Token], *, with_alt: bool = False, as_shown: bool = False
) -> str:
    """The text for GitHub's anchor, which has the names of emoji; on request, with alt texts, or
    as it is shown: with tags that are text, and emoji."""
    pieces = []
    for child in children:
        match child.type:
            case "text" | "code_inline" | "text_special" | "math_inline" | "math_inline_double":
                pieces.append(child.content)
            case "emoji":
                pieces.append(child.content if as_shown else child.markup)
            case "softbreak" | "hardbreak":
                pieces.append("\n")
            case "image" if with_alt:
                pieces.append(_plain_text(child.children or [], with_alt=True))
            case "html_inline" if as_shown:
                tag = next(iter(split_html(child.content)), None)
                if isinstance(tag, Tag) and not tag.is_shown:
                    pieces.append(child.content)
    return "".join(pieces)


def _split_following(tokens: Iterable[Token]) -> Iterator[Piece]:
    """The pieces of HTML and text after a tag, up to the end of its parent."""
    depth = 0
    for token in tokens:
        depth += token.nesting
        if depth < 0:
            return
        match token.type:
            case "html_block" | "html_inline":
                yield from split_html(token.content)
            case "inline":
                yield from _split_following(token.children or [])
            case "text" | "code_inline" | "math_inline" | "math_inline_double":
                yield Text(token.content, 0)
            case "emoji":
                yield Text(token.markup, 0)
            case "softbreak" | "hardbreak":
                yield Text("\n", 0)


def _text_until(pieces: Iterable[Piece], name: str) -> tuple[str, str, str]:
    """The text up to the end tag: for the anchor, as shown, and alt texts of its images."""
    text, shown, alts = [], [], []
    for piece in pieces:
        match piece:
            case Text(content):
                text.append(content)
                shown.append(show_emoji(content))
            case Tag(name=tag_name, closing=True) if tag_name == name:
                break
            case Tag(name=tag_name, closing=False) if _HEADING.fullmatch(tag_name):
                break  # as in browsers, a heading ends where the next one starts
            case Tag(name="img"):
                alts.append(piece.get("alt") or "")
            case Tag(raw=raw) if not piece.is_shown:
                shown.append(raw)
            case _:
                pass
    return "".join(text).strip(), "".join(shown).strip(), " ".join(alts).strip()


def _find_front_title(tokens: Sequence[Token]) -> str:
    """The title from front matter, if the text does not start with a heading."""
    if not tokens or tokens[0].type != "front_matter":
        return ""
    match = _FRONT_TITLE.search(tokens[0].content)
    return show_controls(match["title"].strip().strip("\"'")) if match else ""


def _title_from_path(path: str) -> str:
    stem = posixpath.splitext(path)[0]
    if stem.endswith("README"):
        stem = stem.removesuffix("README").rstrip("/") or "Preface"
    return stem.rsplit("/", 1)[-1].replace("-", " ").replace("_", " ").capitalize()
