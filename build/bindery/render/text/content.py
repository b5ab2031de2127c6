"""The text of a chapter as XHTML: one walk over its tokens for all outputs.

A `Dialect` has what differs between outputs: how ids, links and images are written, how code is
wrapped and tables are laid out. The result is always well formed, even if the author's raw HTML is
not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import cycle, takewhile
from typing import Protocol

from markdown_it.token import Token
from msgspec import Struct, field

from bindery.core.model import Chapter, Link, ResolvedBook, Target, ToChapter, ToFile, ToWeb
from bindery.core.wording import Wording
from bindery.markdown.emoji import show_emoji
from bindery.markdown.prose import is_diagram
from bindery.markdown.raw_html import VOID_ELEMENTS, Tag, Text
from bindery.render.text.decimals import find_pads
from bindery.render.text.highlighting import highlight_code, read_language
from bindery.render.text.markup import escape_attribute, escape_text, keep_options
from bindery.render.text.paper import Paper, narrow_code
from bindery.render.text.sums import write_sum
from bindery.render.text.table_layout import (
    ZERO_WIDTH_SPACE,
    TableLayout,
    layout_table,
    split_long_words,
)

TITLE_SLUG = "title."
"""Anchor of a title that the renderer adds; no heading can have it, because GitHub drops dots."""


class ImageSource(Struct, frozen=True):
    """The address of an image as the output writes it, with its size in pixels if known."""

    src: str
    width: int | None = None
    height: int | None = None


class Dialect(Protocol):
    """The choices of one output."""

    @property
    def words(self) -> Wording:
        """Words that outputs add, in the language of the book."""

    @property
    def paper(self) -> Paper | None:
        """The paper that code and tables are laid out for; None for screens."""

    @property
    def is_narrow(self) -> bool:
        """Whether screens may be as small as a phone: rows of tables can be stacked, because each
        cell carries the heading of its column, and wrapped lines of code are indented."""

    @property
    def scrolls(self) -> bool:
        """Whether wide content scrolls, and so needs a focusable box around it."""

    @property
    def draws_maths(self) -> bool:
        """Whether formulas are images, for an engine that has no MathML."""

    @property
    def offers_sources(self) -> bool:
        """Whether the reader's program chooses among several files for an image."""

    @property
    def marks_lines(self) -> bool:
        """Whether a processing instruction before each block gives its source line."""

    def write_id(self, chapter: Chapter, slug: str) -> str: ...

    def write_href(self, target: Target, chapter: Chapter) -> str | None: ...

    def write_image(self, target: Target, chapter: Chapter) -> ImageSource | None: ...


class CellAddition(Struct, frozen=True):
    """Additions to a cell: attributes of its element, XHTML at its end, and the text of that XHTML,
    which takes space."""

    attributes: str = ""
    behind: str = ""
    text: str = ""


class TableAddition(Struct, frozen=True):
    """Additions to a table. Rows and columns are counted from 0; row 0 is the head."""

    attributes: str = ""
    cells: Mapping[tuple[int, int], CellAddition] = field(default_factory=dict)
    rows: Mapping[int, str] = field(default_factory=dict)
    """Classes of rows."""


class Additions(Struct, frozen=True):
    """XHTML that an output adds to the text of a chapter."""

    tables: Mapping[str, TableAddition] = field(default_factory=dict)
    """By the id of the table."""
    blocks: Mapping[int, str] = field(default_factory=dict)
    """After the block of raw HTML to which a line belongs."""
    inlines: Mapping[tuple[int, int], str] = field(default_factory=dict)
    """Instead of the comment at a line and column."""
    end: str = ""


NOTHING_ADDED = Additions()
_NO_TABLE_ADDITION, _NO_CELL_ADDITION = TableAddition(), CellAddition()
NO_TITLES: Mapping[str, str] = {}


# Raw elements that end another that was left open: a list item ends the item before it.
_ENDS: Mapping[str, frozenset[str]] = {
    "li": frozenset(("li", "p")),
    "dt": frozenset(("dt", "dd", "p")),
    "dd": frozenset(("dt", "dd", "p")),
    "tr": frozenset(("tr", "td", "th", "p")),
    "td": frozenset(("td", "th", "p")),
    "th": frozenset(("td", "th", "p")),
    "tbody": frozenset(("thead", "tr", "td", "th")),
    **dict.fromkeys(
        "p div ul ol dl table blockquote pre h1 h2 h3 h4 h5 h6 hr details center figure".split(),
        frozenset(("p",)),
    ),
}
_BARRIER = ""
_TAKE_WIDTH: Mapping[str, str] = {
    "alert": "alert",
    "blockquote": "quote",
    "bullet_list": "list",
    "footnote_block": "list",
    "ordered_list": "list",
}
_HOLD_PARAGRAPHS = frozenset((_BARRIER, "blockquote", "dd", "details", "div", "figure", "li", "td"))
_CODE = frozenset(("code", "pre"))
_SHORT_WORD = re.compile(r"(?<!\S)(?=\S*[-/|?\u2010\u2013\u2014]\S)(\S{2,20})(?!\S)")
"""A short word that a browser would break after one of these characters."""
_LONGEST_CODE_ON_ONE_LINE = 30
"""Characters; a longer command in a table is broken between its words."""
_LONG_LINE = 34
"""Columns of code from which a line may be wrapped on the smallest reader."""
_TABLE_BOX = "div.table"
"""The box around a raw table; the part before the dot is its element."""


def find_title_slug(chapter: Chapter) -> str:
    """The anchor of the title of a chapter, the target of links to its top."""
    first = next((anchor for anchor in chapter.anchors if anchor.level), None)
    return first.slug if first is not None and first.level == 1 else TITLE_SLUG


def render_chapter(
    chapter: Chapter,
    resolved: ResolvedBook,
    dialect: Dialect,
    additions: Additions = NOTHING_ADDED,
    web_titles: Mapping[str, str] = NO_TITLES,
) -> str:
    """The chapter as XHTML, starting with its title, without a wrapper. `web_titles` are titles for
    links to the web that have none, by address."""
    return _Writer(chapter, resolved, dialect, additions, web_titles).write()


def _list_around(tokens: Sequence[Token]) -> list[str]:
    """The blocks that are open after these tokens and narrow a line, outermost first."""
    around: list[str] = []
    for token in tokens:
        kind = _TAKE_WIDTH.get(token.type.rpartition("_")[0])
        if kind is not None and token.nesting == 1:
            around.append(kind)
        elif kind is not None and token.nesting == -1:
            around.pop()
    return around


class _Writer:
    def __init__(
        self,
        chapter: Chapter,
        resolved: ResolvedBook,
        dialect: Dialect,
        additions: Additions,
        web_titles: Mapping[str, str],
    ) -> None:
        self.chapter = chapter
        self.tokens = chapter.tokens
        self.index = 0
        self.resolved = resolved
        self.dialect = dialect
        self.additions = additions
        self.web_titles = web_titles
        self.out: list[str] = []
        self.raw: list[str] = []
        """Raw elements that are open, with a barrier for each element of Markdown around them."""
        self.links: list[str] = []
        """What closes each open link; empty for one that leads nowhere."""
        self.table: TableLayout | None = None
        self.keeps_words = False
        """Whether short words stay whole: in scrolling tables, whose columns may be narrow."""
        self.headings: list[str] = []
        self.table_names: Counter[str] = Counter()
        """The labels of table boxes so far; each must be unique on a page."""
        self.table_addition = _NO_TABLE_ADDITION
        self.row = 0
        self.column = 0
        self.pads: Mapping[tuple[int, int], str] = {}

    def write(self) -> str:
        if find_title_slug(self.chapter) == TITLE_SLUG:
            identifier = self._id(TITLE_SLUG)
            self.out.append(f'<h1 id="{identifier}">{escape_text(self.chapter.title)}</h1>\n')
        for index, token in enumerate(self.tokens):
            self.index = index
            if self.dialect.marks_lines and not token.level and token.nesting != -1 and token.map:
                self.out.append(f"<?line {token.map[0] + 1}?>")
            handler = _BLOCKS.get(token.type)
            if handler is not None:
                handler(self, token)
            elif token.type in _MARKUP:
                self._write_markup(token)
            elif token.nesting == 1:
                self._open(token)
            elif token.nesting == -1:
                self._close(token)
        self._close_raw_to_barrier()
        self.out.append(self.additions.end)
        return "".join(self.out)

    def _id(self, slug: str) -> str:
        return escape_attribute(self.dialect.write_id(self.chapter, slug))

    # --- raw elements that are open ---

    def _push_barrier(self) -> None:
        self.raw.append(_BARRIER)

    def _close_raw_to_barrier(self) -> None:
        while self.raw:
            name = self.raw.pop()
            if name == _BARRIER:
                return
            self.out.append(f"</{name.partition('.')[0]}>")

    def _end_open_paragraph(self) -> None:
        """An unclosed raw paragraph cannot contain a block."""
        if self.raw and self.raw[-1] == "p":
            self.out.append(f"</{self.raw.pop()}>")

    # --- blocks ---

    def _write_markup(self, token: Token) -> None:
        """Tokens whose XHTML is always the same."""
        if token.nesting == -1:
            self._close_raw_to_barrier()
        else:
            self._end_open_paragraph()
        self.out.append(_MARKUP[token.type])
        if token.nesting == 1:
            self._push_barrier()

    def _open(self, token: Token) -> None:
        self._end_open_paragraph()
        attributes = "".join(
            f' {name}="{escape_attribute(str(value))}"'
            for name, value in token.attrs.items()
            if name in ("start", "class")
        )
        self.out.append(f"<{token.tag}{attributes}>")
        if token.tag in ("ul", "ol", "blockquote", "div"):
            self.out.append("\n")
        self._push_barrier()

    def _close(self, token: Token) -> None:
        self._close_raw_to_barrier()
        self.out.append(f"</{token.tag}>\n")

    def _open_paragraph(self, token: Token) -> None:
        if token.hidden:
            return
        if _holds_images_only(self.tokens[self.index + 1]):
            self._end_open_paragraph()
            self.out.append('<p class="figure">')
            self._push_barrier()
        else:
            self._open(token)

    def _close_paragraph(self, token: Token) -> None:
        if token.hidden:
            if any(following.nesting == 1 for following in self.tokens[self.index + 1 :][:1]):
                self.out.append("\n")
        else:
            self._close(token)

    def _open_heading(self, token: Token) -> None:
        self._end_open_paragraph()
        rank, slug = token.meta["rank"], token.meta["slug"]
        kinds = {child.type for child in self.tokens[self.index + 1].children or ()}
        unnamed = {"image", "footnote_ref", "math_inline", "math_inline_double"}
        named = self._write_title(slug) if kinds & unnamed else ""
        self.out.append(f'<h{rank} id="{self._id(slug)}"{named}>')
        self._push_barrier()

    def _write_title(self, slug: str) -> str:
        """The plain name of a heading with images, notes or formulas, for outlines."""
        title = next((a.title for a in self.chapter.anchors if a.level and a.slug == slug), "")
        return f' data-title="{escape_attribute(title)}"' if title else ""

    def _close_heading(self, _token: Token) -> None:
        self._close_raw_to_barrier()
        rank = self.tokens[self.index - 2].meta["rank"]
        self.out.append(f"</h{rank}>\n")

    def _open_item(self, token: Token) -> None:
        checked = token.meta.get("checked")
        if checked is None:
            self._open(token)
            return
        self._end_open_paragraph()
        words = self.dialect.words
        mark, word = ("\u2611", words("done")) if checked else ("\u2610", words("to do"))
        self.out.append(
            f'<li class="task"><span class="box" role="img" aria-label="{word}">{mark}</span> '
        )
        self._push_barrier()

    def _open_alert(self, token: Token) -> None:
        self._end_open_paragraph()
        kind = str(token.meta.get("kind", "note")).lower()
        self.out.append(f'<div class="alert {escape_attribute(kind)}">\n')
        self._push_barrier()

    def _write_code(self, token: Token) -> None:
        self._end_open_paragraph()
        drawing = self.resolved.drawings.get(token.content) if is_diagram(token.info) else None
        source = self.dialect.write_image(ToFile(drawing), self.chapter) if drawing else None
        if source is not None:
            image = self._write_img(token.meta["id"], source, " ".join(token.content.split()), [])
            self.out.append(f'<p class="figure">{image}</p>\n')
            return
        language = read_language(token.info) if token.type == "fence" else ""
        columns = None
        if self.dialect.paper is not None:
            around = _list_around(self.tokens[: self.index])
            columns = narrow_code(self.dialect.paper.code_columns, around)
        code = highlight_code(token.content, language, columns)
        if self.dialect.is_narrow:
            code = _mark_long_lines(code, token.content)
        named = f' class="language-{escape_attribute(language)}"' if language else ""
        focus = ' tabindex="0"' if self.dialect.scrolls else ""
        self.out.append(
            f'<pre id="{self._id(token.meta["id"])}"{focus}><code{named}>{code}</code></pre>\n'
        )

    def _write_maths(self, token: Token) -> None:
        self._end_open_paragraph()
        self.out.append(f'<p class="maths">{self._set_maths(token.content, is_block=True)}</p>\n')

    def _set_maths(self, latex: str, *, is_block: bool) -> str:
        from bindery.markdown.maths import MathsError, draw_maths, write_mathml

        try:
            if self.dialect.draws_maths:
                return draw_maths(latex, is_block=is_block)
            return write_mathml(latex, is_block=is_block)
        except MathsError:  # the check has reported it: a lenient build shows the source
            return f"<code>{escape_text(latex)}</code>"

    # --- tables ---

    def _open_table(self, token: Token) -> None:
        self._end_open_paragraph()
        rows, right = _read_table(self.tokens[self.index :], self._measure_end)
        self.headings = rows[0] if rows else []
        added = self.additions.tables.get(token.meta["id"], _NO_TABLE_ADDITION)
        self.table_addition = added
        self.row = -1
        identifier = self._id(token.meta["id"])
        if self.dialect.scrolls:
            self.keeps_words = True
            self.pads = find_pads(rows, right)
            self._open_table_box(", ".join(filter(None, self.headings)))
        style, group = "", ""
        if self.dialect.paper is not None:
            texts = _add_texts(rows, added)
            self.table = layout_table(texts, self.dialect.paper.table_rooms)
            widths = "".join(f'<col style="width: {width:g}%"/>' for width in self.table.widths)
            group = f"<colgroup>{widths}</colgroup>"
            share = f"{100 * self.table.share:g}%"
            style = f' class="laid-out {self.table.size}" style="width: {share}"'
        elif self.dialect.is_narrow and _is_wide(rows):
            style = ' class="wide"'
        self.out.append(f'<table id="{identifier}"{style}{added.attributes}>{group}\n')
        self._push_barrier()

    def _measure_end(self, link: Link) -> str:
        """Text as wide as the page number after a link on paper."""
        is_numbered = isinstance(self.resolved.find_target(link), ToChapter)
        return _PAGE if is_numbered and self.dialect.paper is not None else ""

    def _open_table_box(self, headings: str) -> None:
        table = self.dialect.words("Table")
        name = f"{table}: {headings}"[:120] if headings else table
        self.table_names[name] += 1
        count = self.table_names[name]
        label = escape_attribute(f"{name} ({count})" if count > 1 else name)
        self.out.append(f'<div class="table" role="region" tabindex="0" aria-label="{label}">')

    def _close_table(self, _token: Token) -> None:
        self._close_raw_to_barrier()
        self.out.append("</table></div>\n" if self.dialect.scrolls else "</table>\n")
        self.table = None
        self.keeps_words = False
        self.pads = {}
        self.table_addition = _NO_TABLE_ADDITION

    def _open_row(self, _token: Token) -> None:
        self.row += 1
        self.column = -1
        kind = self.table_addition.rows.get(self.row)
        self.out.append(f'<tr class="{kind}">' if kind else "<tr>")
        self._push_barrier()

    def _open_cell(self, token: Token) -> None:
        self.column += 1
        style = str(token.attrs.get("style", ""))
        align = f' class="{style.removeprefix("text-align:")}"' if style else ""
        scope = ' scope="col"' if token.tag == "th" else ""
        label = ""
        if self.dialect.is_narrow and token.tag == "td" and self.column < len(self.headings):
            label = f' data-label="{escape_attribute(self.headings[self.column])}"'
        added = self._find_cell_addition().attributes
        if pad := self.pads.get((self.row, self.column)):
            added += f' data-pad="{pad}"'
        self.out.append(f"<{token.tag}{align}{scope}{label}{added}>")
        self._push_barrier()

    def _close_cell(self, token: Token) -> None:
        self._close_raw_to_barrier()
        self.out.append(f"{self._find_cell_addition().behind}</{token.tag}>\n")

    def _find_cell_addition(self) -> CellAddition:
        return self.table_addition.cells.get((self.row, self.column), _NO_CELL_ADDITION)

    # --- footnotes ---

    def _open_footnote(self, token: Token) -> None:
        identifier = self._id(f"note.{token.meta['id'] + 1}")
        self.out.append(f'<li id="{identifier}">')
        self._push_barrier()

    def _write_footnote_back(self, token: Token) -> None:
        label = self.dialect.words("Back to the text")
        back = self._id(f"ref.{token.meta['id'] + 1}.{token.meta.get('subId', 0) + 1}")
        self.out.append(f' <a class="back" href="#{back}" aria-label="{label}">\u21a9\ufe0e</a>')

    # --- inline text ---

    def _write_inline(self, token: Token) -> None:
        children = token.children or []
        if self.tokens[self.index - 1].type == "alert_title_open":  # GitHub accepts no other title
            self.out.append(self.dialect.words(token.content))
            return
        if len(children) == 1 and children[0].type == "text":
            self.out.append(self._escape(children[0].content))
            return
        for child in children:
            handler = _INLINES.get(child.type)
            if handler is not None:
                handler(self, child)
            elif child.type in _BREAKS:
                self.out.append(_BREAKS[child.type])
            elif child.nesting == 1:
                self.out.append(f"<{child.tag}>")
                self._push_barrier()
            elif child.nesting == -1:
                self._close_raw_to_barrier()
                self.out.append(f"</{child.tag}>")
            else:
                self.out.append(self._escape(child.content))

    def _escape(self, text: str) -> str:
        if self.table is not None:
            return offer_breaks(text)
        if self.keeps_words:
            return "".join(
                _keep_word(piece) if is_word else offer_breaks(piece)
                for is_word, piece in zip(cycle((False, True)), _SHORT_WORD.split(text))
            )
        return escape_text(text)

    def _write_text(self, token: Token) -> None:
        self.out.append(self._escape(token.content))

    def _write_inline_code(self, token: Token) -> None:
        if found := write_sum(token.content):
            self.out.append(found)
            return
        words = token.content.split(" ")
        if self.keeps_words and len(words) > 1:
            # A long unwrapped command would squeeze all other columns.
            kind = ' class="command"' if len(token.content) > _LONGEST_CODE_ON_ONE_LINE else ""
            self.out.append(f"<code{kind}>{' '.join(map(_keep_word, words))}</code>")
            return
        if self.table is not None or self.keeps_words:
            code = offer_breaks(token.content)
        else:  # readers wrap after the hyphens at the start of an option
            code = keep_options(token.content)
        self.out.append(f"<code>{code}</code>")

    def _write_inline_maths(self, token: Token) -> None:
        is_block = token.type == "math_inline_double"
        self.out.append(self._set_maths(token.content, is_block=is_block))

    def _open_link(self, token: Token) -> None:
        link: Link = token.meta["link"]
        title = token.attrs.get("title")
        self._start_link(link, str(title) if title else "")
        self._push_barrier()

    def _start_link(self, link: Link, title: str = "") -> None:
        target = self.resolved.find_target(link)
        href = self.dialect.write_href(target, self.chapter) if target is not None else None
        if href is None:
            # What is there may have no address: files have none without `repository`.
            self.out.append("<span>" if target else '<span class="dead">')
            self.links.append("</span>")
            return
        if isinstance(target, ToWeb):
            title = title or self.web_titles.get(target.url, "")
        hint = f' title="{escape_attribute(title)}"' if title else ""
        match target:
            case ToWeb():
                kind = ' class="web"'
            case ToChapter():
                kind = ' class="book"'
            case _:
                kind = ""
        self.out.append(f'<a href="{escape_attribute(href)}"{kind}{hint}>')
        self.links.append("</a>")

    def _close_link(self, _token: Token) -> None:
        self._close_raw_to_barrier()
        self.out.append(self.links.pop())

    def _write_image(self, token: Token) -> None:
        link: Link = token.meta["link"]
        title = token.attrs.get("title")
        extra = [("title", str(title))] if title else []
        self._show_image(link, token.meta["id"], link.text, extra)

    def _show_image(
        self, link: Link, identifier: str, alt: str, extra: Sequence[tuple[str, str]]
    ) -> None:
        target = self.resolved.find_target(link)
        source = self.dialect.write_image(target, self.chapter) if target is not None else None
        if source is None:
            text = escape_text(alt or link.destination or "image")
            if not isinstance(target, ToWeb):
                text = self.dialect.words("image missing: {image}", image=text)
            shown = f'<span id="{self._id(identifier)}" class="no-image">[{text}]</span>'
            if isinstance(target, ToWeb) and not self.links:
                shown = f'<a class="web" href="{escape_attribute(target.url)}">{shown}</a>'
            self.out.append(shown)
            return
        self.out.append(self._write_img(identifier, source, alt, extra))

    def _write_img(
        self, identifier: str, source: ImageSource, alt: str, extra: Sequence[tuple[str, str]]
    ) -> str:
        size = _write_size(dict(extra))
        extra = [(name, value) for name, value in extra if name not in ("width", "height")]
        if size:
            extra.append(("style", size))
        attributes = "".join(f' {name}="{escape_attribute(value)}"' for name, value in extra)
        if source.width and source.height and not size:
            attributes += f' width="{source.width}" height="{source.height}"'
        return (
            f'<img id="{self._id(identifier)}" src="{escape_attribute(source.src)}" '
            f'alt="{escape_attribute(alt)}"{attributes}/>'
        )

    def _write_footnote_reference(self, token: Token) -> None:
        number = token.meta["id"] + 1
        own = self._id(f"ref.{number}.{token.meta.get('subId', 0) + 1}")
        note = self._id(f"note.{number}")
        self.out.append(f'<sup class="note"><a id="{own}" href="#{note}">{number}</a></sup>')

    # --- raw HTML ---

    def _write_html_block(self, token: Token) -> None:
        is_figure = _holds_picture_only(token) and _HOLD_PARAGRAPHS.issuperset(self.raw)
        if is_figure:
            self.out.append('<p class="figure">')
            self._push_barrier()
        self._write_html(token)
        if is_figure:
            self._close_raw_to_barrier()
            self.out.append("</p>")
        self.out.append("\n")
        if self.additions.blocks and token.map:
            for line in range(token.map[0] + 1, token.map[1] + 1):
                if line in self.additions.blocks:
                    self._end_open_paragraph()
                    self.out.append(self.additions.blocks[line])

    def _write_inline_html(self, token: Token) -> None:
        self._write_html(token)
        span = token.meta.get("span")
        if self.additions.inlines and span is not None:
            self.out.append(self.additions.inlines.get((span.line, span.col), ""))

    def _write_html(self, token: Token) -> None:
        pieces = token.meta.get("pieces", ())
        for index, piece in enumerate(pieces):
            match piece:
                case Text(text):
                    shown = text if _CODE.intersection(self.raw) else show_emoji(text)
                    self.out.append(self._escape(shown))
                case Tag() if not piece.is_shown:
                    self.out.append(self._escape(piece.raw))
                case Tag(name=name, closing=True):
                    self._close_raw(name)
                case Tag():
                    self._open_raw(index, piece, token)
                case _:
                    pass

    def _open_raw(self, index: int, tag: Tag, token: Token) -> None:
        ended = _ENDS.get(tag.name, frozenset())
        while self.raw and self.raw[-1] in ended:
            self.out.append(f"</{self.raw.pop()}>")
        link: Link | None = token.meta["piece_links"].get(index)
        match tag.name:
            case "img" if link is not None:
                sources = token.meta["piece_sources"][index]
                self._show_raw_image(tag, link, token.meta["piece_ids"][index], sources)
            case "img":
                pass
            case "source":
                self._write_sources(tag, token.meta["piece_sources"][index])
            case name if name in VOID_ELEMENTS:
                self.out.append(f"<{name}/>")
            case "a" if link is not None:
                self._open_raw_link(tag, link)
            case _:
                identifier: str | None = token.meta["piece_ids"].get(index)
                self._open_element(tag, identifier, token.meta["piece_ranks"].get(index))

    def _show_raw_image(
        self, tag: Tag, link: Link, identifier: str, sources: Sequence[tuple[Link, str]]
    ) -> None:
        kept = [(k, v) for k, v in tag.kept_attributes if k in ("width", "height", "title")]
        kept += self._write_srcset(sources)
        self._show_image(link, identifier, tag.get("alt") or "", kept)

    def _open_raw_link(self, tag: Tag, link: Link) -> None:
        self._start_link(link, tag.get("title") or "")
        self.raw.append(self.links.pop().strip("</>"))
        self._mark_place(tag.get("id") or tag.get("name"))

    def _open_element(self, tag: Tag, identifier: str | None, rank: int | None) -> None:
        """Open any other element; one that is in the inventory of the chapter has an identifier, a
        heading also a rank. The anchor of a heading of punctuation is empty, as on GitHub."""
        explicit = tag.get("id") or (tag.get("name") if tag.name == "a" else None)
        shown = f"h{rank}" if rank else self._find_shown(tag.name)
        if tag.name == "table" and self.dialect.scrolls:
            self._open_table_box("")
            self.raw.append(_TABLE_BOX)
        attributes = _list_attributes(tag)
        own = explicit if identifier is None else identifier
        if own is not None:
            attributes.insert(0, ("id", self.dialect.write_id(self.chapter, own)))
        text = "".join(f' {key}="{escape_attribute(value)}"' for key, value in attributes)
        if (
            rank
            and identifier is not None
            and not dict(self.chapter.inventory.headings).get(identifier)
        ):
            text += self._write_title(identifier)
        self.out.append(f"<{shown}{text}>")
        self.raw.append(shown)
        if identifier:
            self._mark_place(explicit)

    def _mark_place(self, anchor: str | None) -> None:
        """The author's anchor on an element that has another id."""
        if anchor:
            self.out.append(f'<span id="{self._id(anchor)}"></span>')

    def _write_sources(self, tag: Tag, sources: Sequence[tuple[Link, str]]) -> None:
        srcset = self._write_srcset(sources)
        if srcset and self.raw and self.raw[-1] == "picture":
            kept = [(k, v) for k, v in tag.kept_attributes if k in ("media", "type")]
            text = "".join(f' {key}="{escape_attribute(value)}"' for key, value in kept + srcset)
            self.out.append(f"<source{text}/>")

    def _write_srcset(self, sources: Sequence[tuple[Link, str]]) -> list[tuple[str, str]]:
        """The attribute `srcset` with the addresses of this output; empty if the output offers
        no choice or has none of the files."""
        if not self.dialect.offers_sources:
            return []
        written = []
        for link, descriptor in sources:
            target = self.resolved.find_target(link)
            source = self.dialect.write_image(target, self.chapter) if target is not None else None
            if source is not None:
                # A comma at the end of an address would end the address.
                written.append(f"{source.src.replace(',', '%2C')} {descriptor}".strip())
        return [("srcset", ", ".join(written))] if written else []

    def _find_shown(self, name: str) -> str:
        """The element that replaces one of the author's."""
        if name == "picture" and not self.dialect.offers_sources:
            return "span"
        return _SHOWN_AS.get(name, name)

    def _close_raw(self, name: str) -> None:
        """Close the nearest open element of this name and everything open inside it; an unmatched
        end tag is dropped, as in browsers."""
        shown = self._find_shown(name)
        wanted = {shown} | ({"a", "span"} if name == "a" else set())
        if name[0] == "h" and name[1:].isdigit():
            wanted = {f"h{rank}" for rank in range(1, 7)}
        for depth in range(len(self.raw) - 1, -1, -1):
            if self.raw[depth] == _BARRIER:
                return
            if self.raw[depth] in wanted:
                if name == "table" and depth and self.raw[depth - 1] == _TABLE_BOX:
                    depth -= 1
                while len(self.raw) > depth:
                    self.out.append(f"</{self.raw.pop().partition('.')[0]}>")
                return


_SHOWN_AS = {"center": "div", "tt": "code", "big": "span"}
"""Obsolete elements that XHTML lacks, and their replacements."""


def _list_attributes(tag: Tag) -> list[tuple[str, str]]:
    """The attributes of a raw element that are kept in XHTML; alignment becomes a style."""
    attributes = [
        (key, value or key if key in ("open", "reversed") else value)
        for key, value in tag.kept_attributes
        if key not in ("id", "name", "href", "src", "srcset", "align")
    ]
    align = "center" if tag.name == "center" else (tag.get("align") or "").lower()
    if align in ("left", "right", "center", "justify") and tag.name != "table":
        attributes.append(("style", f"text-align: {align}"))
    return attributes


def offer_breaks(text: str) -> str:
    """Text of a table as XHTML in which long words may be broken where that is readable."""
    return escape_text(split_long_words(text)).replace(ZERO_WIDTH_SPACE, "<wbr/>")


def _keep_word(word: str) -> str:
    """A word that stays whole if there is room; an option always does."""
    kind = "word option" if word.startswith("-") else "word"
    return f'<span class="{kind}">{offer_breaks(word)}</span>'


def _mark_long_lines(code: str, typed: str) -> str:
    """Code with an element around each long line, which the style sheet gives a hanging indent.
    Spans never cross lines (see `highlight_code`), so that each line is well formed."""
    return "\n".join(
        f'<span class="line">{line}</span>' if len(text) > _LONG_LINE else line
        for line, text in zip(code.split("\n"), typed.split("\n"), strict=False)
    )


_PAGE = "000000"
"""Text about as wide as the page number after a link on paper."""


def _read_table(
    tokens: Sequence[Token], measure_end: Callable[[Link], str]
) -> tuple[list[list[str]], list[int]]:
    """The plain text of the cells of the table that these tokens begin with, row by row, and the
    columns whose cells end at the right. `measure_end` says what a link has after it."""
    rows: list[list[str]] = []
    right = []
    for token in takewhile(lambda token: token.type != "table_close", tokens):
        match token.type:
            case "tr_open":
                rows.append([])
            case "th_open" if token.attrs.get("style") == "text-align:right":
                right.append(len(rows[-1]))
            case "inline":
                rows[-1].append(_read_cell(token, measure_end))
            case _:
                pass
    return rows, right


def _add_texts(rows: Sequence[Sequence[str]], added: TableAddition) -> Sequence[Sequence[str]]:
    """The cells of a table with the texts that are added to them."""
    if not added.cells:
        return rows
    return [
        [
            text + added.cells.get((row, column), _NO_CELL_ADDITION).text
            for column, text in enumerate(cells)
        ]
        for row, cells in enumerate(rows)
    ]


def _read_cell(token: Token, measure_end: Callable[[Link], str]) -> str:
    text = []
    ends = []
    for child in token.children or []:
        match child.type:
            case "text" | "code_inline" | "math_inline" | "math_inline_double" | "emoji":
                text.append(child.content)
            case "softbreak" | "hardbreak":
                text.append("\n")
            case "html_inline" if child.content.lower().startswith("<br"):
                text.append("\n")
            case "image":
                text.append("image-wide")
            case "link_open":
                ends.append(measure_end(child.meta["link"]))
            case "link_close":
                text.append(ends.pop())
            case _:
                pass
    return "".join(text)


def _is_wide(rows: Sequence[Sequence[str]]) -> bool:
    """Whether a table is too wide for a phone."""
    return bool(rows) and len(rows[0]) >= 6


def _write_size(attributes: Mapping[str, str]) -> str:
    """Width and height of a raw image as a style, which every engine applies."""
    rules = []
    for name in ("width", "height"):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(px|%)?\s*", attributes.get(name, ""))
        if match:
            rules.append(f"{name}: {match[1]}{match[2] or 'px'}")
    return "; ".join(rules)


def _holds_images_only(token: Token) -> bool:
    """Whether a paragraph is an image, or several, alone or as links."""
    children = token.children or []
    kinds = ("image", "softbreak", "link_open", "link_close")
    return any(child.type == "image" for child in children) and all(
        child.type in kinds or (not child.content.strip() and child.type == "text")
        for child in children
    )


def _holds_picture_only(token: Token) -> bool:
    """Whether a block of raw HTML contains only pictures and comments."""
    pieces = token.meta.get("pieces", ())
    names = {piece.name for piece in pieces if isinstance(piece, Tag)}
    texts = (piece.text for piece in pieces if isinstance(piece, Text))
    return (
        "picture" in names
        and names <= {"picture", "source", "img"}
        and not any(text.strip() for text in texts)
    )


_MARKUP: Mapping[str, str] = {
    "alert_title_open": '<p class="alert-title">',
    "footnote_block_open": '<hr class="footnotes"/>\n<ol class="footnotes">\n',
    "footnote_block_close": "</ol>\n",
    "footnote_close": "</li>\n",
    "front_matter": "",
    "hr": "<hr/>\n",
}

_Handler = Callable[[_Writer, Token], None]
_BLOCKS: Mapping[str, _Handler] = {
    "inline": _Writer._write_inline,
    "paragraph_open": _Writer._open_paragraph,
    "paragraph_close": _Writer._close_paragraph,
    "heading_open": _Writer._open_heading,
    "heading_close": _Writer._close_heading,
    "list_item_open": _Writer._open_item,
    "alert_open": _Writer._open_alert,
    "fence": _Writer._write_code,
    "code_block": _Writer._write_code,
    "math_block": _Writer._write_maths,
    "math_block_label": _Writer._write_maths,
    "table_open": _Writer._open_table,
    "table_close": _Writer._close_table,
    "tr_open": _Writer._open_row,
    "th_open": _Writer._open_cell,
    "td_open": _Writer._open_cell,
    "th_close": _Writer._close_cell,
    "td_close": _Writer._close_cell,
    "html_block": _Writer._write_html_block,
    "footnote_open": _Writer._open_footnote,
    "footnote_anchor": _Writer._write_footnote_back,
}
_BREAKS = {"softbreak": "\n", "hardbreak": "<br/>\n"}
_INLINES: Mapping[str, _Handler] = {
    "text": _Writer._write_text,
    "code_inline": _Writer._write_inline_code,
    "math_inline": _Writer._write_inline_maths,
    "math_inline_double": _Writer._write_inline_maths,
    "link_open": _Writer._open_link,
    "link_close": _Writer._close_link,
    "image": _Writer._write_image,
    "html_inline": _Writer._write_inline_html,
    "footnote_ref": _Writer._write_footnote_reference,
}
