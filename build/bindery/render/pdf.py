"""The PDF: one render of the whole book, tagged, with an outline and page numbers beside links.

Chapters cannot be rendered apart and merged: tags, outline and links across chapters would be
lost. What the engine logs becomes findings.
"""

from __future__ import annotations

import io
import logging
import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
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
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from weasyprint.text.fonts import FontConfiguration
from weasyprint.urls import FatalURLFetchingError, URLFetcher, URLFetcherResponse, iri_to_uri

from bindery.edition import Edition
from bindery.model import BookError, Chapter, Finding, ResolvedBook, Severity, Span
from bindery.pipeline import Inspection
from bindery.render.addresses import join_id, make_prefixes
from bindery.render.completeness import (
    ADDED,
    NOT_TEXT,
    Contents,
    Proof,
    compare_contents,
    expect_contents,
    fold_space,
)
from bindery.render.content import NOTHING_ADDED, find_title_slug, render_chapter
from bindery.render.images import Prepared, gather_images, list_images
from bindery.render.joined import JoinedDialect
from bindery.render.output import write_whole
from bindery.render.provenance_notes import write_additions
from bindery.render.table_layout import PageRoom

STEPS = 4
"""Steps of a build beyond one for each chapter."""
CODE_COLUMNS = 94
"""Characters of 8 pt type of fixed width (0.6 em each) in 166 mm, less padding and border."""
# Halves of an em of the type of a table across 166 mm, or 253 mm turned.
TABLE_ROOMS = (
    PageRoom("normal", 110.0),
    PageRoom("small", 120.0),
    PageRoom("smaller", 132.0),
    PageRoom("turned", 178.0),
)
Progress = Callable[[str], None]


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
    """A page that is well-formed XML. The engine's own parser repairs what browsers would, in
    Python, and takes ten times as long as the XML parser; what is written here needs no repair."""

    def __init__(self, text: str, base_url: str, url_fetcher: ClosedFetcher) -> None:
        root = ElementTree.fromstring(text)
        self.base_url = base_url
        self.url_fetcher = url_fetcher
        self.media_type = "print"
        self.wrapper_element = cssselect2.ElementWrapper.from_html_root(root, content_language=None)
        self.etree_element = self.wrapper_element.etree_element


class _LogKeeper(logging.Handler):
    """Keeps what WeasyPrint says."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@contextmanager
def _keep_log() -> Iterator[_LogKeeper]:
    keeper = _LogKeeper()
    logger = logging.getLogger("weasyprint")
    propagated = logger.propagate
    logger.addHandler(keeper)
    logger.propagate = False
    try:
        yield keeper
    finally:
        logger.removeHandler(keeper)
        logger.propagate = propagated


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


@dataclass(frozen=True, slots=True)
class _Section:
    id: str
    title: str


@dataclass(frozen=True, slots=True)
class _JoinedChapter:
    id: str
    path: str
    title: str
    body: Markup
    sections: tuple[_Section, ...]


@dataclass(frozen=True, slots=True)
class _JoinedPart:
    id: str
    title: str
    chapters: tuple[_JoinedChapter, ...]


def build_pdf(
    inspection: Inspection,
    edition: Edition,
    path: Path,
    progress: Progress,
    *,
    lenient: bool = False,
) -> tuple[Proof, list[Finding]]:
    """Write the PDF to `path`, whole or not at all.

    Gives the proof that nothing is missing, and what the engine said. Raises BookError where an
    image cannot be read (a lenient build shows its text instead), or where something of the source
    is not in the PDF.
    """
    config, resolved = inspection.config, inspection.resolved
    progress("images")
    cache = path.parent / ".cache" / "images"
    images, unreadable = gather_images(inspection.tree, resolved, config, cache, lenient=lenient)
    dialect = JoinedDialect(
        config,
        edition,
        {chapter.path: chapter for chapter in resolved.book.chapters},
        make_prefixes(resolved.book.chapters, config.folder),
        images,
        lambda image: f"image:{image.name}",
        code_columns=CODE_COLUMNS,
        table_rooms=TABLE_ROOMS,
        draws_maths=True,
    )
    text = _join_book(inspection, edition, dialect, progress)
    progress("pages")
    folders = (inspection.tree.root, _find_package_folder())
    fetcher = ClosedFetcher(folders, images.values())
    try:
        with _keep_log() as log, _remember_page_references():
            document = _lay_out_numbered(text, fetcher)
            progress("file")
            data = _write_file(document)
    except FatalURLFetchingError as error:
        message = f"the PDF asks for what a book may not have: {error.__cause__ or error}"
        raise BookError(Finding(Span.whole(config.file), "engine-message", message)) from None
    lost = list(_report_lost_images(log.records, fetcher.refused, resolved, images))
    if lost and not lenient:
        raise BookError(*lost)
    progress("proof")
    proof = prove_pdf(resolved, dialect, document, data)
    proof.raise_if_incomplete()
    write_whole(path, data)
    return proof, [*unreadable, *lost, *_read_log(log.records, resolved, dialect)]


def _write_file(document: Any) -> bytes:
    """The document as a tagged PDF. The engine writes it plain and qpdf compresses it, in a third
    of the time and to the same bytes for the same book."""
    plain, packed = io.BytesIO(), io.BytesIO()
    document.write_pdf(plain, pdf_variant="pdf/ua-1", uncompressed_pdf=True)
    with pikepdf.open(plain) as file:
        file.save(
            packed,
            compress_streams=True,
            object_stream_mode=pikepdf.ObjectStreamMode.generate,
            deterministic_id=True,
        )
    return packed.getvalue()


def _lay_out_numbered(text: str, fetcher: ClosedFetcher) -> Any:
    """Lay out the book, and put the numbers of pages beside the links.

    The engine has `target-counter` for this, and lays out every page with a link again, some of
    them twice, which takes a third of the time of the layout. Here each number is laid out as
    zeros, and the real digits take their place afterwards.
    """
    digits = len(str(len(text) // _CHARACTERS_OF_PAGE))
    while True:
        document = _lay_out(text, fetcher, digits)
        needed = len(str(len(document.pages)))
        if needed <= digits:
            break
        digits = needed
    numbers = {
        anchor: number
        for number, page in reversed(list(enumerate(document.pages, 1)))
        for anchor in page.anchors
    }
    for page in document.pages:
        _write_page_numbers(page._page_box, numbers, "0" * digits)
    return document


_CHARACTERS_OF_PAGE = 2600
"""Markup that fills a page, about; a guess that is only ever too low or too high by a digit."""
_FIGURE_SPACE = "\u2007"


def _write_page_numbers(box: Any, numbers: dict[str, int], zeros: str) -> None:
    if box.element_tag == "a::after" and hasattr(box, "pango_layout") and zeros in box.text:
        number = str(numbers.get(unquote(box.element.get("href", "#")[1:]), ""))
        if box.text == zeros:  # in the contents, where numbers end at the margin
            box.position_x += box.width * (1 - len(number) / len(zeros))
            text = number
        else:  # in the text, where the room of missing digits goes before the parenthesis
            missing = len(zeros) - len(number)
            text = box.text.replace(zeros, number)
            if missing:
                text = _FIGURE_SPACE * missing + text.lstrip("\N{NO-BREAK SPACE}")
        box.text = box.pango_layout.text = text
        return
    for child in box.all_children():
        _write_page_numbers(child, numbers, zeros)


def _lay_out(text: str, fetcher: ClosedFetcher, digits: int) -> Any:
    fonts = FontConfiguration()
    base = f"{_find_package_folder().as_uri()}/"
    styles = [
        weasyprint.CSS(string=sheet, base_url=base, url_fetcher=fetcher, font_config=fonts)
        for sheet in (_write_font_faces(), _read_style(digits))
    ]
    return _WellFormedPage(text, base, fetcher).render(
        font_config=fonts, stylesheets=styles, pdf_tags=True
    )


# --- the document ---


def _join_book(
    inspection: Inspection, edition: Edition, dialect: JoinedDialect, progress: Progress
) -> str:
    parts = []
    additions = write_additions(inspection, edition, dialect, folds=False)
    for number, part in enumerate(inspection.book.parts, 1):
        chapters = []
        for chapter in part.chapters:
            progress(chapter.title)
            added = additions.get(chapter.path, NOTHING_ADDED)
            body = render_chapter(chapter, inspection.resolved, dialect, added)
            chapters.append(
                _JoinedChapter(
                    dialect.find_chapter_id(chapter),
                    chapter.path,
                    chapter.title,
                    Markup(body),
                    tuple(_list_sections(chapter, dialect)),
                )
            )
        parts.append(_JoinedPart(f"part.{number}", part.title, tuple(chapters)))
    cover = dialect.images.get(inspection.config.cover)
    environment = Environment(
        loader=PackageLoader("bindery.render"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template("pdf.html").render(
        book=inspection.config,
        edition=edition,
        parts=parts,
        cover=f"image:{cover.name}" if cover else "",
    )


def _list_sections(chapter: Chapter, dialect: JoinedDialect) -> Iterator[_Section]:
    title = find_title_slug(chapter)
    for anchor in chapter.anchors:
        if anchor.title and anchor.level and anchor.level <= 2 and anchor.slug != title:
            identifier = join_id(dialect.prefixes[chapter.path], anchor.slug)
            yield _Section(identifier, anchor.title)


# --- styles ---

_FACE = re.compile(
    r"(?P<family>[a-z0-9-]+?)-(?P<set>latin-ext|latin|greek)-(?P<weight>\d+)-(?P<style>\w+)"
)
_STACKS = {
    "serif-stack": ("source-serif-4", "'DejaVu Serif', serif"),
    "sans": ("source-sans-3", "'DejaVu Sans', sans-serif"),
    "mono": ("source-code-pro", "'DejaVu Sans Mono', monospace"),
}


@cache
def _find_package_folder() -> Path:
    return Path(str(resources.files("bindery.render")))


def _write_font_faces() -> str:
    """A face for each font that bindery carries. Each set of letters is a family of its own,
    because the engine takes files of one family for the same font."""
    faces = []
    for font in sorted((_find_package_folder() / "fonts").glob("*.ttf")):
        match = _FACE.fullmatch(font.stem)
        if match:
            faces.append(
                f"@font-face {{ font-family: '{match['family']} {match['set']}'; "
                f"font-weight: {match['weight']}; font-style: {match['style']}; "
                f"src: url('{font.resolve().as_uri()}'); }}"
            )
    return "\n".join(faces)


def _read_style(digits: int) -> str:
    """The style sheet, with stacks of fonts and room for page numbers in place of their names."""
    style = (_find_package_folder() / "styles" / "pdf.css").read_text(encoding="utf-8")
    style = re.sub(r"\bPAGE\b(?=[^{}]*;)", f'"{"0" * digits}"', style)
    for name, (family, fallback) in _STACKS.items():
        sets = ", ".join(f"'{family} {letters}'" for letters in ("latin", "latin-ext", "greek"))
        stack = rf"\1{sets}, {fallback};"
        style = re.sub(rf"(font(?:-family)?:[^;{{}}]*?)\b{name};", stack, style)
    return style


# --- the proof ---


def prove_pdf(resolved: ResolvedBook, dialect: JoinedDialect, document: Any, data: bytes) -> Proof:
    """Hold a PDF against the book: the text by the boxes that were laid out, and everything that
    has an id, every link and the outline by the file itself."""
    chapters = resolved.book.chapters
    expected = {c.path: expect_contents(c, resolved, dialect) for c in chapters}
    with pikepdf.open(io.BytesIO(data)) as file:
        places = _read_destinations(file)
        targets = _read_link_targets(file)
        outline = Counter(_read_outline(file))
        pages = len(file.pages)
    reader = _BoxReader(expected)
    for page in document.pages:
        reader.read(page._page_box)
    proofs = []
    for chapter in chapters:
        found = reader.give_contents(chapter.path, places, targets)
        labels = {dialect.write_id(chapter, a.slug): a.title for a in chapter.anchors if a.level}
        for identifier, text in list(found.headings.items()):
            label = fold_space(labels.get(identifier, text))
            outline[label] -= 1
            if label and outline[label] < 0:  # a heading without any name has no line there
                del found.headings[identifier]
        proofs.append(compare_contents(chapter.path, expected[chapter.path], found))
    return Proof("PDF", tuple(proofs), pages)


def _read_destinations(file: pikepdf.Pdf) -> set[str]:
    """Names that have a page."""
    names = file.Root.get("/Names", pikepdf.Dictionary()).get("/Dests")
    if names is None:
        return set()
    return {str(name) for name, _ in pikepdf.NameTree(names).items()}


def _read_link_targets(file: pikepdf.Pdf) -> Counter[str]:
    """How many links lead where: destinations as `#name`, addresses as they are."""
    targets: Counter[str] = Counter()
    for page in file.pages:
        for annotation in page.get("/Annots", pikepdf.Array()):
            if annotation.get("/Subtype") != "/Link":
                continue
            if "/Dest" in annotation:
                targets[f"#{annotation['/Dest']}"] += 1
            elif "/A" in annotation and "/URI" in annotation["/A"]:
                targets[str(annotation["/A"]["/URI"])] += 1
    return targets


def _read_outline(file: pikepdf.Pdf) -> Iterator[str]:
    def walk(items: Sequence[pikepdf.OutlineItem]) -> Iterator[str]:
        for item in items:
            yield fold_space(item.title)
            yield from walk(item.children)

    with file.open_outline() as outline:
        yield from walk(outline.root)


class _BoxReader:
    """Reads what was laid out: the text of headings and code, the rows of tables, the links."""

    def __init__(self, expected: dict[str, Contents]) -> None:
        self._expected = expected
        self._texts: dict[str, list[str]] = {}
        self._rows: dict[str, set[int]] = {}
        self._figures: set[str] = set()
        self._links: dict[str, dict[int, str]] = {path: {} for path in expected}
        self._text_ids: set[str] = set()
        self._table_ids: set[str] = set()
        self._figure_ids: set[str] = set()
        for contents in expected.values():
            self._text_ids |= contents.headings.keys() | contents.code_blocks.keys()
            self._table_ids |= contents.tables.keys()
            self._figure_ids |= contents.figures.keys()

    def read(self, box: Any, chapter: str = "", text_id: str = "", table_id: str = "") -> None:
        element = getattr(box, "element", None)
        if element is not None:
            tag = element.tag
            if tag == "section":
                chapter = element.get("data-path") or chapter
            elif "::" in (box.element_tag or ""):
                return  # page numbers are ours, not the author's
            elif element.get("class") in NOT_TEXT:
                text_id = ""
                chapter = "" if element.get("class") in ADDED else chapter
            identifier = element.get("id")
            if identifier is not None:
                if identifier in self._text_ids:
                    text_id = identifier
                    self._texts.setdefault(identifier, [])
                elif identifier in self._table_ids:
                    table_id = identifier
                    self._rows.setdefault(identifier, set())
                elif identifier in self._figure_ids:
                    self._figures.add(identifier)
            if tag == "tr" and table_id:
                self._rows[table_id].add(id(element))
            elif tag == "a" and chapter and element.get("href"):
                self._links[chapter][id(element)] = element.get("href")
        if text_id:
            text = getattr(box, "text", None)
            if text:
                self._texts[text_id].append(text)
        for child in box.all_children():
            self.read(child, chapter, text_id, table_id)

    def give_contents(self, chapter: str, places: set[str], targets: Container[str]) -> Contents:
        """What of a chapter is on the pages, has its place in the file, and leads somewhere."""
        wanted = self._expected[chapter]
        texts = {key: fold_space("".join(pieces)) for key, pieces in self._texts.items()}
        links: Counter[str] = Counter()
        for href in self._links[chapter].values():
            if href.startswith("#"):
                name = unquote(href[1:])
                leads = f"#{name}" in targets and name in places
            else:
                leads = iri_to_uri(href) in targets
            if leads:
                links[href] += 1
        return Contents(
            {k: texts[k] for k in wanted.headings if k in texts and k in places},
            {
                k: (len(self._rows[k]) if rows is not None else None)
                for k, rows in wanted.tables.items()
                if k in self._rows and k in places
            },
            dict.fromkeys(k for k in wanted.figures if k in self._figures and k in places),
            {k: texts[k] for k in wanted.code_blocks if k in texts and k in places},
            links,
        )


# --- what the engine said ---

_LOST_IMAGE = re.compile(r"Failed to (?:load image at|render SVG image) '?image:([^\s':]+)")


def _report_lost_images(
    records: Sequence[logging.LogRecord],
    refused: Sequence[str],
    resolved: ResolvedBook,
    images: Mapping[str, Prepared],
) -> Iterator[Finding]:
    """A finding for each place whose image the engine did not draw, which it only mentions."""
    matches = [_LOST_IMAGE.search(record.getMessage()) for record in records]
    names = {match[1] for match in matches if match}
    reason = f": it refers to '{refused[0]}', which may not be opened" if refused else ""
    for link, path in list_images(resolved):
        if path in images and images[path].name in names:
            message = f"the image '{path}' cannot be drawn{reason}"
            yield Finding(link.span, "broken-image", message, "take out what the engine cannot do")


# The rule missing-alt says the first at its place; a line feed has no glyph and needs none.
_SAID_ELSEWHERE = re.compile(r"has no required alt description|\(U\+000[9AD]\)")
_ID_IN_MESSAGE = re.compile(r"#([^\s']+)")


def _read_log(
    records: Sequence[logging.LogRecord], resolved: ResolvedBook, dialect: JoinedDialect
) -> list[Finding]:
    """Each message once, as a finding; at its chapter where the message names an id of it."""
    findings: dict[str, Finding] = {}
    for record in records:
        message = record.getMessage()
        if _SAID_ELSEWHERE.search(message):
            continue
        path = dialect.config.file
        match = _ID_IN_MESSAGE.search(message)
        if match:
            for chapter in resolved.book.chapters:
                if match[1].startswith(f"{dialect.prefixes[chapter.path]}--"):
                    path = chapter.path
        findings[message] = Finding(
            Span.whole(path),
            "engine-message",
            f"WeasyPrint: {message[0].lower()}{message[1:]}",
            "",
            Severity.WARNING,
        )
    return list(findings.values())
