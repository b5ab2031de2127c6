"""The PDF engine: pages from a tree of elements, without network access, with our fonts.

WeasyPrint lays out and writes. `engine_patches` changes what it does not do as needed, and
`page_numbers` writes the page numbers after links.
"""

from __future__ import annotations

import io
import logging
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import resources
from logging.handlers import BufferingHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import url2pathname
from xml.etree import ElementTree

import cssselect2
import weasyprint
from weasyprint.html import UA
from weasyprint.text.fonts import FontConfiguration
from weasyprint.urls import FatalURLFetchingError, URLFetcher, URLFetcherResponse

from bindery.core.config import Style
from bindery.render.author_style import find_accents, name_family
from bindery.render.images import Prepared
from bindery.render.pdf.engine_patches import late_numbers, links_elsewhere, patched_engine
from bindery.render.pdf.tags import fix_structure
from bindery.render.text.paper import Paper


class ClosedFetcher(URLFetcher):  # type: ignore[misc]
    """Fetches `data:`, files below the given folders, and images by name: nothing else, ever.

    `image:NAME` stands for a prepared image. The engine makes names in the PDF from addresses,
    and a path in them would show where the book was built.
    """

    def __init__(self, folders: Sequence[Path], images: Iterable[Prepared] = ()) -> None:
        super().__init__(
            allowed_protocols=("file", "data"), allow_redirects=False, fail_on_errors=True
        )
        self._folders = tuple(folder.resolve() for folder in folders)
        self._images = {image.name: image.path for image in images}

    def fetch(self, url: str, headers: dict[str, str] | None = None) -> URLFetcherResponse:
        """Raise FatalURLFetchingError, which ends the build, for whatever is not allowed."""
        parts = urlsplit(url)
        if parts.scheme == "image" and parts.path in self._images:
            return super().fetch(self._images[parts.path].resolve().as_uri(), headers)
        if parts.scheme == "file":
            path = Path(url2pathname(unquote(parts.path))).resolve()
            if parts.netloc or not any(path.is_relative_to(f) for f in self._folders):
                raise FatalURLFetchingError(f"'{url}' is outside the book")
        elif parts.scheme != "data":
            raise FatalURLFetchingError(f"'{url}' would use the network")
        return super().fetch(url, headers)


class _WellFormedPage(weasyprint.HTML):  # type: ignore[misc]
    """A page from a tree. The engine's own parser repairs what browsers would, in Python, and
    takes ten times as long as the XML parser; what is written here needs no repair."""

    def __init__(
        self, root: ElementTree.Element, base_url: str, url_fetcher: ClosedFetcher, sheet: Any
    ) -> None:
        """`sheet` is the default style of elements."""
        self._sheet = sheet
        self.base_url = base_url
        self.url_fetcher = url_fetcher
        self.media_type = "print"
        self.wrapper_element = cssselect2.ElementWrapper.from_html_root(root, content_language=None)
        self.etree_element = self.wrapper_element.etree_element

    def _ua_stylesheets(self, forms: bool = False) -> list[Any]:
        return [self._sheet]


# --- messages of the engine ---


@contextmanager
def keep_log() -> Iterator[list[logging.LogRecord]]:
    """Collect the messages of the engine during this context instead of showing them."""
    keeper = BufferingHandler(sys.maxsize)
    keeper.setLevel(logging.WARNING)
    logger = logging.getLogger("weasyprint")
    propagated = logger.propagate
    logger.addHandler(keeper)
    logger.propagate = False
    try:
        yield keeper.buffer
    finally:
        logger.removeHandler(keeper)
        logger.propagate = propagated


# --- writing ---


def write_plain(document: Any, places: Iterable[str] = (), mark: str = "") -> bytes:
    """The document as a tagged PDF that is not compressed, which qpdf does in a third of the time;
    its pages are gone then. `places` may be on pages of another file, and ids of tags begin with
    `mark`, so that those of two files differ."""
    plain = io.BytesIO()

    def finish(document: Any, pdf: Any) -> None:
        fix_structure(document, pdf, mark)
        document.pages.clear()

    with patched_engine(_GENERIC_STACKS), links_elsewhere(places):
        document.write_pdf(plain, pdf_variant="pdf/ua-1", uncompressed_pdf=True, finisher=finish)
    return plain.getvalue()


# --- laying out ---


class Typesetter:
    """Lays out trees of elements on one kind of paper, with the same fonts."""

    def __init__(
        self,
        paper: Paper,
        fetcher: ClosedFetcher,
        page_mark: str = "(p. {page})",
        css: str = "",
        look: Style | None = None,
    ) -> None:
        """`page_mark` is after a link to a page, and `css` comes after our style sheet."""
        self._page_mark = page_mark
        self._paper = paper
        self._css = css
        self.has_own_style = bool(css)
        self._look = look or Style()
        self.fetcher = fetcher
        self._fonts = FontConfiguration()
        self._base = f"{find_package_folder().as_uri()}/"
        self._faces = self._read_sheet(_write_font_faces())
        self._defaults = self._read_sheet(_read_defaults(css))
        self._styles: dict[int, Any] = {}

    def lay_out(
        self,
        root: ElementTree.Element,
        *,
        first_page: int = 1,
        digits: int = 1,
        find_first: Callable[[], int] = lambda: 1,
    ) -> Any:
        """The pages of a tree. Numbers of pages beside links are zeros, as many as `digits`.
        `find_first` is asked for the number of the first page if it is not known before."""
        if digits not in self._styles:
            style = _read_style(self._paper, digits, self._page_mark, self._look) + self._css
            self._styles[digits] = self._read_sheet(style)
        styles = [self._faces, self._styles[digits]]
        if first_page > 1:
            side = "right" if first_page % 2 else "left"
            # The counter has been raised for a page before its first one is set.
            start = f"@page:first {{ counter-reset: page {first_page} }}"
            styles.append(self._read_sheet(f"{start} html {{ break-before: {side} }}"))
        page = _WellFormedPage(root, self._base, self.fetcher, self._defaults)
        images: dict[str, Any] = {}
        with patched_engine(_GENERIC_STACKS), late_numbers(page, find_first):
            document = page.render(
                font_config=self._fonts, stylesheets=styles, cache=images, pdf_tags=True
            )
        _let_go(images.values())
        return document

    def _read_sheet(self, text: str) -> Any:
        return weasyprint.CSS(
            string=text, base_url=self._base, url_fetcher=self.fetcher, font_config=self._fonts
        )


_FOR_DRAWING = frozenset(("dictionaries", "font_config", "get_image_from_uri"))


def _let_go(images: Iterable[Any]) -> None:
    """Free what only the layout needed. Otherwise the document keeps every style and every box from
    before pagination."""
    for image in images:
        context = getattr(image, "_context", None)
        for name in vars(context).keys() - _FOR_DRAWING if context else ():
            delattr(context, name)


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

_OWN = {"serif-stack": "text", "sans": "headings", "caps": "headings", "mono": "code"}
"""The kind of font of the author that each stack begins with."""

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
"""Our families after each generic name of a font for text."""


@cache
def find_package_folder() -> Path:
    """The folder of templates, styles and fonts."""
    return Path(str(resources.files("bindery.render")))


def _write_font_faces() -> str:
    """A face for each font that bindery carries. Each set of letters is a separate family,
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


def _read_defaults(style: str) -> str:
    """The style sheet of the engine for any page. It gives every element a marker and five parts
    of a footnote, each with a style: a quarter of the memory of a long book. Here only what is in
    a list has a marker, and footnotes are for the author's style sheet, if it makes some."""
    sheet = re.sub(r"^::marker", "li::marker", UA, flags=re.MULTILINE)
    return sheet if "note" in style else re.sub(r"(?m)^::(foot)?note-.*$", "", sheet)


def _read_style(paper: Paper, digits: int, page_mark: str, look: Style) -> str:
    """The style sheet with font stacks, paper size and room for page numbers filled in."""
    style = (find_package_folder() / "styles" / "pdf.css").read_text(encoding="utf-8")
    before, after = page_mark.replace(" ", "\N{NO-BREAK SPACE}").split("{page}")
    style = style.replace("PAGE-MARK", f'"\N{NO-BREAK SPACE}{before}" PAGE "{after}"')
    style = re.sub(r"\bPAGE\b(?=[^{}]*;)", f'"{"0" * digits}"', style)
    style = style.replace("PAPER-WIDTH", f"{paper.width:g}mm")
    style = style.replace("PAPER-HEIGHT", f"{paper.height:g}mm")
    margins = " ".join(f"{side:g}mm" for side in paper.margins)
    style = style.replace("PAPER-MARGINS", margins)
    style = style.replace("PAPER-SIDES", f"{paper.margins[1]:g}mm")
    style = style.replace("EDITION-TOP", f"{min(118.0, max(paper.height - 179, 10)):g}mm")
    small_caps = "font-variant-caps: all-small-caps"
    if not look.fonts.get(_OWN["caps"]):
        # Our font has one glyph for both cases: text that is copied would have capitals anywhere.
        small_caps += "; text-transform: lowercase"
    style = style.replace("SMALL-CAPS", small_caps)
    accent = find_accents(look.accent)[0] if look.accent else ""
    style = style.replace("ACCENT", accent or "#1c5d8c").replace("LINK", accent or "#0a4f96")
    for name, (family, symbols, others) in _STACKS.items():
        letters = ", ".join(f"'{family} {letters}'" for letters in _LETTERS)
        first = "'bindery-sans caps', " if name == "caps" else ""
        if look.fonts.get(_OWN[name]):
            first = f"'{name_family(_OWN[name])}', "
        stack = rf"\1{first}{letters}, {symbols}, {_SYMBOLS}, {others};"
        style = re.sub(rf"(font(?:-family)?:[^;{{}}]*?)\b{name};", stack, style)
    return style
