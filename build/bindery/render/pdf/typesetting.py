"""The engine of the PDF: pages from a tree of elements, closed to the network, with our fonts.

WeasyPrint lays out and writes. Here are its fetcher, what it says, the numbers of pages beside
links, and the roles that it does not know.
"""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname
from xml.etree import ElementTree

import cssselect2
import pikepdf
import pydyf
import weasyprint
from weasyprint.anchors import gather_anchors
from weasyprint.formatting_structure import boxes
from weasyprint.layout import inline as engine_lines
from weasyprint.pdf import tags as engine_tags
from weasyprint.text import line_break as engine_breaks
from weasyprint.text.fonts import FontConfiguration
from weasyprint.urls import FatalURLFetchingError, URLFetcher, URLFetcherResponse

from bindery.render.images import Prepared
from bindery.render.pdf.paper import Paper
from bindery.render.text.structure import ARTIFACT, mend_structure

ROLES: Mapping[str, str] = {
    "artifact": ARTIFACT,
    "code": "Code",
    "figure": "Div",
    "note": "Note",
    "pre": "P",
    "toc": "TOC",
    "toci": "TOCI",
}
"""Roles in the tags of the PDF by the names of elements; the engine knows those of HTML."""


class ClosedFetcher(URLFetcher):  # type: ignore[misc]
    """Fetches `data:`, files below the given folders, and images by name: nothing else, ever.

    `image:NAME` stands for a prepared image. The engine makes names in the PDF from addresses,
    and a path in them would tell where the book was built.
    """

    def __init__(self, folders: Sequence[Path], images: Iterable[Prepared] = ()) -> None:
        super().__init__(
            allowed_protocols=("file", "data"), allow_redirects=False, fail_on_errors=True
        )
        self._folders = tuple(folder.resolve() for folder in folders)
        self._images = {image.name: image.path for image in images}
        self.refused: list[str] = []
        """Addresses that were asked for and not opened; the engine swallows some of the errors."""

    def fetch(self, url: str, headers: dict[str, str] | None = None) -> URLFetcherResponse:
        """Raise FatalURLFetchingError, which ends the build, for whatever is not allowed."""
        try:
            return self._fetch_allowed(url, headers)
        except FatalURLFetchingError:
            self.refused.append(url)
            raise

    def _fetch_allowed(self, url: str, headers: dict[str, str] | None) -> URLFetcherResponse:
        parts = urlsplit(url)
        if parts.scheme == "image" and parts.path in self._images:
            return super().fetch(self._images[parts.path].resolve().as_uri(), headers)
        if parts.scheme == "file":
            path = Path(url2pathname(unquote(parts.path))).resolve()
            if parts.netloc or not any(path.is_relative_to(f) for f in self._folders):
                raise FatalURLFetchingError(f"'{url}' lies outside the book")
        elif parts.scheme != "data":
            raise FatalURLFetchingError(f"'{url}' would use the network")
        return super().fetch(url, headers)


class _WellFormedPage(weasyprint.HTML):  # type: ignore[misc]
    """A page from a tree. The engine's own parser repairs what browsers would, in Python, and
    takes ten times as long as the XML parser; what is written here needs no repair."""

    def __init__(
        self, root: ElementTree.Element, base_url: str, url_fetcher: ClosedFetcher
    ) -> None:
        self.base_url = base_url
        self.url_fetcher = url_fetcher
        self.media_type = "print"
        self.wrapper_element = cssselect2.ElementWrapper.from_html_root(root, content_language=None)
        self.etree_element = self.wrapper_element.etree_element


# --- what the engine says ---


class _LogKeeper(logging.Handler):
    """Keeps what WeasyPrint says."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextmanager
def keep_log() -> Iterator[list[logging.LogRecord]]:
    """Collect what the engine says while this lasts, in place of showing it."""
    keeper = _LogKeeper()
    logger = logging.getLogger("weasyprint")
    propagated = logger.propagate
    logger.addHandler(keeper)
    logger.propagate = False
    try:
        yield keeper.records
    finally:
        logger.removeHandler(keeper)
        logger.propagate = propagated


# --- writing ---


@contextmanager
def _remember_page_references() -> Iterator[None]:
    """pydyf makes the references of all pages anew for every tag, which takes a fifth of the time
    of a tagged book. While this lasts they are made once for each number of pages."""
    original = pydyf.PDF.page_references
    made: dict[int, tuple[int, tuple[bytes, ...]]] = {}

    def remember(pdf: Any) -> tuple[bytes, ...]:
        count = pdf.pages["Count"]
        known = made.get(id(pdf))
        if known is None or known[0] != count:
            known = made[id(pdf)] = count, original.fget(pdf)
        return known[1]

    pydyf.PDF.page_references = property(remember)
    try:
        yield
    finally:
        pydyf.PDF.page_references = original


@contextmanager
def _know_roles() -> Iterator[None]:
    """Have the engine write our roles into the tags while this lasts."""
    original = engine_tags._get_pdf_tag

    def find_role(name: str | None) -> str:
        return ROLES.get(name or "") or str(original(name))

    engine_tags._get_pdf_tag = find_role
    try:
        yield
    finally:
        engine_tags._get_pdf_tag = original


def write_file(document: Any) -> bytes:
    """The document as a tagged PDF. The engine writes it plain and qpdf compresses it, in a third
    of the time and to the same bytes for the same book."""
    plain, packed = io.BytesIO(), io.BytesIO()
    with _remember_page_references(), _remember_fonts(), _know_roles():
        document.write_pdf(
            plain, pdf_variant="pdf/ua-1", uncompressed_pdf=True, finisher=mend_structure
        )
    with pikepdf.open(plain) as file:
        file.save(
            packed,
            compress_streams=True,
            object_stream_mode=pikepdf.ObjectStreamMode.generate,
            deterministic_id=True,
        )
    return packed.getvalue()


# --- laying out ---


_NARROWEST = 0.2
"""Of the size of a font, what a letter of a text is wide at the least, on the average."""


@contextmanager
def _mend_breaks() -> Iterator[None]:
    """Where a piece of text fills a line to its end but for the space behind it, the engine breaks
    the line behind its first word. While this lasts, that space may hang over the margin."""
    original = engine_lines.split_first_line

    def split(
        text: str, style: Any, context: Any, width: float, *others: Any, **options: Any
    ) -> Any:
        split_off = original(text, style, context, width, *others, **options)
        _, length, resume_index, *_ = split_off
        first_word = text.partition(" ")[0]
        if resume_index is None or text[-1:] != " " or length != len(first_word.encode()):
            return split_off
        if len(text) * _NARROWEST * style["font_size"] > width:
            return split_off  # it is too long for the line, space or no space
        if original(text.rstrip(" "), style, context, width, *others, **options)[2] is not None:
            return split_off
        return original(text, style, context, width + style["font_size"], *others, **options)

    engine_lines.split_first_line = split
    try:
        yield
    finally:
        engine_lines.split_first_line = original


_SHAPES_FONT = (
    *("font_style", "font_stretch", "font_weight", "font_size", "font_variant_caps"),
    "font_variation_settings",
)
"""What the engine reads of a style, beside the families, to describe a font."""


@contextmanager
def _remember_fonts() -> Iterator[None]:
    """The engine describes the font anew for each piece of text, twice, with the names of all its
    families. While this lasts each font is described once, and where a drawing asks for a generic
    one it gets the whole stack."""
    original = engine_breaks.get_font_description
    made: dict[tuple[Any, ...], Any] = {}

    def remember(style: Any) -> Any:
        key = (tuple(style["font_family"]), *(style[name] for name in _SHAPES_FONT))
        if key not in made:
            made[key] = original(_OtherFamilies(style, _name_families(style["font_family"])))
        return made[key]

    engine_breaks.get_font_description = remember
    try:
        yield
    finally:
        engine_breaks.get_font_description = original


class _OtherFamilies:
    """A style with other families of fonts."""

    def __init__(self, style: Any, families: Sequence[str]) -> None:
        self._style = style
        self._families = families

    def __getitem__(self, name: str) -> Any:
        return self._families if name == "font_family" else self._style[name]


def _name_families(asked: Sequence[str]) -> tuple[str, ...]:
    """Families of fonts with our own in place of a generic name, so that the Greek letters of a
    drawing are those of its Latin ones. The stacks of the style sheet have them already."""
    named: list[str] = []
    for name in map(str.strip, asked):
        stack = _GENERIC_STACKS.get(name, ())
        named += (family for family in stack if family not in asked)
        named.append(name)
    return tuple(named)


class Typesetter:
    """Lays out trees of elements on one kind of paper, with the same fonts."""

    def __init__(self, paper: Paper, fetcher: ClosedFetcher) -> None:
        self._paper = paper
        self._fetcher = fetcher
        self._fonts = FontConfiguration()
        self._base = f"{find_package_folder().as_uri()}/"
        self._faces = self._read_sheet(_write_font_faces())
        self._styles: dict[int, Any] = {}

    def lay_out(self, root: ElementTree.Element, *, first_page: int = 1, digits: int = 1) -> Any:
        """The pages of a tree. Numbers of pages beside links are zeros, as many as `digits`."""
        if digits not in self._styles:
            self._styles[digits] = self._read_sheet(_read_style(self._paper, digits))
        styles = [self._faces, self._styles[digits]]
        if first_page > 1:
            side = "right" if first_page % 2 else "left"
            # The counter has been raised for a page before its first one is set.
            start = f"@page:first {{ counter-reset: page {first_page} }}"
            styles.append(self._read_sheet(f"{start} html {{ break-before: {side} }}"))
        page = _WellFormedPage(root, self._base, self._fetcher)
        with _mend_breaks(), _remember_fonts():
            return page.render(font_config=self._fonts, stylesheets=styles, pdf_tags=True)

    def lay_out_numbered(self, root: ElementTree.Element, guess: int) -> Any:
        """The pages of a tree with room for the numbers of as many pages as there are; `guess`
        says about how many."""
        digits = len(str(guess))
        while True:
            document = self.lay_out(root, digits=digits)
            needed = len(str(len(document.pages)))
            if needed <= digits:
                return document
            digits = needed

    def _read_sheet(self, text: str) -> Any:
        return weasyprint.CSS(
            string=text, base_url=self._base, url_fetcher=self._fetcher, font_config=self._fonts
        )


def find_page_numbers(pages: Sequence[Any]) -> dict[str, int]:
    """The page on which each anchor stands, from 1."""
    return {
        anchor: number
        for number, page in reversed(list(enumerate(pages, 1)))
        for anchor in page.anchors
    }


def write_page_numbers(pages: Sequence[Any]) -> None:
    """Put the numbers of pages beside the links.

    The engine has `target-counter` for this, and lays out every page with a link again, some of
    them twice, which takes a third of the time of the layout. Here each number is laid out as
    zeros, and the real digits take their place afterwards.
    """
    numbers = find_page_numbers(pages)
    for page in pages:
        if _write_numbers_into(page._page_box, numbers):
            page.links.clear()
            gather_anchors(page._page_box, {}, page.links, [], {None: []})


_ZEROS = re.compile(r"(?<!\d)0+(?!\d)")
_FIGURE_SPACE = "\u2007"
_BEGIN_LEFT = frozenset(("start", "left", "justify"))


def _write_numbers_into(box: Any, numbers: dict[str, int]) -> bool:
    """Write the numbers below a box; tells whether anything has moved."""
    if isinstance(box, boxes.LineBox) and box.style["text_align_all"] in _BEGIN_LEFT:
        return _close_line_up(box, numbers, 0.0) > 0
    found = _read_number(box, numbers)
    if found is None:
        moves = [_write_numbers_into(child, numbers) for child in box.all_children()]
        return any(moves)
    zeros, number = found
    missing = len(zeros) - len(number)
    if box.text == zeros:  # in the contents, where numbers end at the margin
        box.position_x += box.width * (missing / len(zeros))
        text = number
    else:  # where the line cannot be closed up, the room goes before the parenthesis
        text = box.text.replace(zeros, number)
        if missing:
            text = _FIGURE_SPACE * missing + text.lstrip("\N{NO-BREAK SPACE}")
    box.text = box.pango_layout.text = text
    return False


def _close_line_up(box: Any, numbers: dict[str, int], moved: float) -> float:
    """Write the numbers into a piece of a line that moves left by so much, and tell by how much
    what follows moves: the room of zeros that are not needed goes to the end of the line."""
    if not isinstance(box, boxes.TextBox | boxes.InlineBox | boxes.LineBox):
        if moved:
            box.translate(-moved, 0)
        _write_numbers_into(box, numbers)
        return moved
    box.position_x -= moved
    taken = 0.0
    found = _read_number(box, numbers)
    if found is not None and box.text == found[0]:
        _write_numbers_into(box, numbers)
    elif found is not None:
        box.text = box.text.replace(*found)
        taken = max(box.width - _measure_text(box), 0.0)
    elif not isinstance(box, boxes.TextBox):
        for child in box.children:
            taken = _close_line_up(child, numbers, moved + taken) - moved
    box.width -= taken
    return moved + taken


def _measure_text(box: Any) -> float:
    """How wide the text of a box is, which is put into its layout."""
    layout = box.pango_layout
    layout.text = box.text
    layout.reactivate(box.style)
    width, _ = engine_breaks.line_size(layout.get_first_line()[0], box.style)
    layout.deactivate()
    return float(width)


def _read_number(box: Any, numbers: dict[str, int]) -> tuple[str, str] | None:
    """The zeros in a box and the number that belongs there, if it is that beside a link."""
    if box.element_tag != "a::after" or not hasattr(box, "pango_layout"):
        return None
    zeros = _ZEROS.search(box.text)
    if zeros is None:
        return None
    return zeros[0], str(numbers.get(unquote(box.element.get("href", "#")[1:]), ""))


# --- styles ---

_FACE = re.compile(
    r"(?P<family>[a-z0-9-]+?)-(?P<set>latin-ext|latin|greek|symbols|caps)"
    r"-(?P<weight>\d+)-(?P<style>\w+)"
)
_LETTERS = ("latin", "latin-ext", "greek")
_SYMBOLS = (
    "'bindery-sans symbols', 'noto-sans-math symbols', 'noto-sans-symbols-2 symbols', "
    "'noto-sans-symbols symbols', 'noto-emoji symbols', 'bindery-mono symbols'"
)
_STACKS = {
    "serif-stack": ("source-serif-4", "'bindery-serif symbols'", "'DejaVu Serif', serif"),
    "sans": ("source-sans-3", "'bindery-sans symbols'", "'DejaVu Sans', sans-serif"),
    "mono": ("source-code-pro", "'bindery-mono symbols'", "'DejaVu Sans Mono', monospace"),
    "caps": ("source-sans-3", "'bindery-sans symbols'", "'DejaVu Sans', sans-serif"),
}
"""For each stack of fonts the family of its letters, its own symbols, and what a machine may have
for scripts that are not here."""

_GENERIC = {
    "source-serif-4": "serif",
    "source-sans-3": "sans-serif",
    "source-code-pro": "monospace",
    "noto-emoji": "emoji",
}
"""The names by which drawings, and signs that are emoji, ask for a font, so that they look the
same on every machine."""

_GENERIC_STACKS: Mapping[str, tuple[str, ...]] = {
    _GENERIC[family]: (
        *(f"{family} {letters}" for letters in _LETTERS),
        *re.findall("'([^']+)'", f"{symbols}, {_SYMBOLS}"),
    )
    for family, symbols, _ in _STACKS.values()
}
"""Our families behind each generic name of a font for text."""


@cache
def find_package_folder() -> Path:
    """The folder of templates, styles and fonts."""
    return Path(str(resources.files("bindery.render")))


def _write_font_faces() -> str:
    """A face for each font that bindery carries. Each set of letters is a family of its own,
    because the engine takes files of one family for the same font."""
    faces: list[str] = []
    for font in sorted((find_package_folder() / "fonts").glob("*.ttf")):
        match = _FACE.fullmatch(font.stem)
        if match is None:
            continue
        families = [f"{match['family']} {match['set']}"]
        if match["set"] in ("latin", "symbols") and match["family"] in _GENERIC:
            families.append(_GENERIC[match["family"]])
        faces += (
            f"@font-face {{ font-family: '{family}'; font-weight: {match['weight']}; "
            f"font-style: {match['style']}; src: url('{font.resolve().as_uri()}'); }}"
            for family in families
        )
    return "\n".join(faces)


def _read_style(paper: Paper, digits: int) -> str:
    """The style sheet, with stacks of fonts, the paper and room for page numbers in place of
    their names."""
    style = (find_package_folder() / "styles" / "pdf.css").read_text(encoding="utf-8")
    style = re.sub(r"\bPAGE\b(?=[^{}]*;)", f'"{"0" * digits}"', style)
    style = style.replace("PAPER-WIDTH", f"{paper.width:g}mm")
    style = style.replace("PAPER-HEIGHT", f"{paper.height:g}mm").replace("PAPER", paper.size)
    for name, (family, symbols, others) in _STACKS.items():
        letters = ", ".join(f"'{family} {letters}'" for letters in _LETTERS)
        first = "'bindery-sans caps', " if name == "caps" else ""
        stack = rf"\1{first}{letters}, {symbols}, {_SYMBOLS}, {others};"
        style = re.sub(rf"(font(?:-family)?:[^;{{}}]*?)\b{name};", stack, style)
    return style
