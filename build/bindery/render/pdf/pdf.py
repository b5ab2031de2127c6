"""The PDF: the whole book in one file, tagged, with an outline and page numbers beside links.

`halves` lays out and draws it. What the engine logs becomes findings.
"""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from lxml import etree
from markupsafe import Markup
from msgspec.structs import replace
from PIL import Image
from weasyprint.urls import FatalURLFetchingError

from bindery.book.glossary import find_glossary
from bindery.book.images import list_images
from bindery.book.this_edition import Edition, find_changes_url
from bindery.check.inspect import Inspection
from bindery.core.config import Config
from bindery.core.model import (
    Book,
    BookError,
    Chapter,
    Finding,
    Part,
    ResolvedBook,
    Severity,
    Span,
)
from bindery.core.report import count_more
from bindery.core.whole_files import name_target, write_whole
from bindery.render.addresses import make_prefixes
from bindery.render.author_style import read_author_style, write_data
from bindery.render.completeness import Proof
from bindery.render.frames import fill_frame
from bindery.render.images import Prepared, gather_images
from bindery.render.numbering import Exhibit, find_addresses
from bindery.render.pdf.book_index import Subject, collect_index, write_index
from bindery.render.pdf.dressing import dress, name_next
from bindery.render.pdf.halves import write_book
from bindery.render.pdf.joined import JoinedDialect
from bindery.render.pdf.joining import join_files
from bindery.render.pdf.page_numbers import find_page_numbers, write_page_numbers
from bindery.render.pdf.proof import prove_pdf, read_pages
from bindery.render.pdf.reading import Spot, read_links
from bindery.render.pdf.typesetting import (
    ClosedFetcher,
    Typesetter,
    find_package_folder,
    keep_log,
    write_plain,
)
from bindery.render.text.captions import name_references
from bindery.render.text.markup import escape_attribute
from bindery.render.text.paper import find_paper

STEPS = 3
"""Steps of a build in addition to one per chapter."""
Progress = Callable[[str], None]


def build_pdf(
    inspection: Inspection,
    edition: Edition,
    path: Path,
    progress: Progress,
    *,
    lenient: bool = False,
    allows_losses: bool = False,
) -> tuple[Proof, list[Finding]]:
    """Write the PDF to `path`, whole or not at all.

    Returns the proof that nothing is missing, and what the engine said. Raises BookError if an
    image cannot be read (a lenient build shows its text instead), or something of the source
    is not in the PDF and `allows_losses` is not set.
    """
    config, resolved = inspection.config, inspection.resolved
    progress("images")
    cache = path.parent / ".cache" / "images"
    images, unreadable = gather_images(inspection.tree, resolved, config, cache, lenient=lenient)
    dialect = _make_dialect(inspection, edition, images)
    root, subjects = _join_book(inspection, edition, dialect, progress)
    progress("pages")
    fetcher = ClosedFetcher((inspection.tree.root, find_package_folder()), images.values())
    with _open_engine(config) as log:
        setter = _make_typesetter(inspection, fetcher)
        data, reader = write_book(
            root,
            setter,
            lambda pages: read_pages(resolved, dialect, pages),
            lambda numbers: _make_index(subjects, numbers, config),
        )
    lost = list(_report_lost_images(log, resolved, images))
    if lost and not lenient:
        raise BookError(*lost)
    progress("proof")
    proof = prove_pdf(resolved, dialect, reader, data)
    if not allows_losses:
        proof.raise_if_incomplete()
    write_whole(path, data)
    return proof, [*unreadable, *lost, *_read_log(log, resolved, dialect)]


def print_chapter(inspection: Inspection, edition: Edition, chapter: Chapter, last: Path) -> bytes:
    """The PDF of one chapter, without a completeness proof. Page numbers are those of the last PDF
    of the book, if there is one."""
    places: Mapping[str, Spot] = {}
    count = 1
    if last.is_file():
        built = read_links(last)
        places, count = built.places, built.pages
    alone = replace(inspection.resolved, book=Book((Part("", (chapter,)),)))
    with tempfile.TemporaryDirectory() as folder, _open_engine(inspection.config):
        tree = inspection.tree
        images, _ = gather_images(tree, alone, inspection.config, Path(folder), lenient=True)
        dialect = _make_dialect(inspection, edition, images)
        root, _ = _join_book(inspection, edition, dialect, lambda _: None, only=chapter)
        fetcher = ClosedFetcher((tree.root, find_package_folder()), images.values())
        first, _ = places.get(dialect.find_chapter_id(chapter), (1, 0.0))
        setter = _make_typesetter(inspection, fetcher)
        document = setter.lay_out(root, first_page=first, digits=len(str(count)))
        numbers = {name: page for name, (page, _) in places.items()}
        numbers |= find_page_numbers(document.pages, first)
        write_page_numbers(document.pages, numbers)
        return join_files([write_plain(document)])


def _make_dialect(
    inspection: Inspection, edition: Edition, images: Mapping[str, Prepared]
) -> JoinedDialect:
    config, chapters = inspection.config, inspection.book.chapters
    return JoinedDialect(
        config,
        edition,
        {chapter.path: chapter for chapter in chapters},
        make_prefixes(chapters, config.folder),
        images,
        lambda image: f"image:{image.name}",
        paper=find_paper(config.paper, config.style.margins),
        draws_maths=True,
    )


@contextmanager
def _open_engine(config: Config) -> Iterator[list[logging.LogRecord]]:
    """Collect the messages of the engine. Raises BookError if it is refused a file."""
    try:
        # The engine keeps fonts and images in temporary files.
        with keep_log() as log, name_target(Path(tempfile.gettempdir())):
            yield log
    except FatalURLFetchingError as error:
        message = f"the PDF refers to something that may not be opened: {error.__cause__ or error}"
        raise BookError(Finding(Span.whole(config.file), "engine-message", message)) from None


def _make_typesetter(inspection: Inspection, fetcher: ClosedFetcher) -> Typesetter:
    config = inspection.config
    css, mark = read_author_style(config, inspection.tree, "pdf"), config.wording("(p. {page})")
    paper = find_paper(config.paper, config.style.margins)
    return Typesetter(paper, fetcher, mark, css, config.style)


def _make_index(
    subjects: Sequence[Subject], numbers: Mapping[str, int], config: Config
) -> ElementTree.Element | None:
    """The index, which names pages; None for a book without subjects."""
    if not subjects:
        return None
    text = fill_frame(
        "pdf_index.html",
        book=config,
        entries=Markup(write_index(subjects, numbers)),
        names_code=any(s.is_code for s in subjects),
    )
    root = ElementTree.fromstring(text)
    name_next(root.find(".//div"))
    return root


# --- the document ---


def _join_book(
    inspection: Inspection,
    edition: Edition,
    dialect: JoinedDialect,
    progress: Progress,
    *,
    only: Chapter | None = None,
) -> tuple[ElementTree.Element, list[Subject]]:
    """The book as one tree, prepared for paper, and the subjects of its index; or one chapter."""
    config = inspection.config
    bodies = dict.fromkeys(dialect.chapters, "")
    bodies |= dialect.render_chapters(inspection, progress, only=only)
    cover = dialect.images.get(config.cover)
    text = fill_frame(
        "pdf.html",
        book=config,
        edition=edition,
        changes=find_changes_url(config, edition),
        parts=dialect.list_parts(inspection),
        bodies={path: Markup(body) for path, body in bodies.items()},
        cover=f"image:{cover.name}" if cover else "",
        logo=write_data(inspection.tree, config.style.logo) if config.style.logo else "",
        cover_colour=_find_corner_colour(cover) if cover else "",
    )
    tree = etree.fromstring(text, etree.XMLParser(huge_tree=True))
    for chapter in inspection.book.chapters[:1]:  # an address is the same in all of them
        exhibits = dialect.list_exhibits(inspection).values()
        name_references(tree, find_addresses(exhibits, dialect, chapter))
    dress(tree, _find_exhibits(inspection, dialect, bodies), config.wording)
    if only:
        body = next(tree.iter("body"))
        for section in list(body):
            if section.get("data-path") != only.path:
                body.remove(section)
        body[0].set("style", "margin-top: 0")  # nothing is above it
        return ElementTree.fromstring(etree.tostring(tree)), []
    tools = [tool.name for tool in config.tools]
    subjects = collect_index(tree, tools, find_glossary(inspection.book))
    if subjects:
        _announce_index(tree, config.wording("Index"))
    for contents in tree.iter("toc"):
        name_next(contents)
    return ElementTree.fromstring(etree.tostring(tree)), subjects


def _find_corner_colour(image: Prepared) -> str:
    """The color around a cover whose shape differs from that of the paper."""
    if image.width is None:
        return "#ffffff"
    with Image.open(image.path) as opened:
        red, green, blue = opened.convert("RGB").resize((1, 1), box=(0, 0, 1, 1)).tobytes()
    return f"#{red:02x}{green:02x}{blue:02x}"


def _find_exhibits(
    inspection: Inspection, dialect: JoinedDialect, bodies: Mapping[str, str]
) -> dict[str, Exhibit]:
    """The exhibits by their id in the book, without images that cannot be shown."""
    return {
        name: exhibit
        for name, exhibit in dialect.list_exhibits(inspection).items()
        if exhibit.kind == "table"
        or f'<img id="{escape_attribute(name)}"' in bodies[exhibit.chapter]
    }


def _announce_index(tree: Any, title: str) -> None:
    """Add the index to the contents."""
    entry = etree.SubElement(next(tree.iter("toc")), "toci", {"class": "part"})
    link = etree.SubElement(etree.SubElement(entry, "p"), "a", {"href": "#index."})
    link.text = title


# --- messages of the engine ---

_LOST_IMAGE = re.compile(r"Failed to (?:load image at|render SVG image) '?image:([^\s':]+)")


def _report_lost_images(
    records: Sequence[logging.LogRecord],
    resolved: ResolvedBook,
    images: Mapping[str, Prepared],
) -> Iterator[Finding]:
    """A finding for each place whose image the engine did not draw, which it only mentions."""
    matches = [_LOST_IMAGE.search(record.getMessage()) for record in records]
    names = {match[1] for match in matches if match}
    for link, path in list_images(resolved):
        if path in images and images[path].name in names:
            message = f"the image '{path}' cannot be drawn"
            yield Finding(link.span, "broken-image", message, "remove what the engine cannot draw")


# missing-alt reports the first; a line feed needs no glyph.
_SAID_ELSEWHERE = re.compile(r"has no required alt description|\(U\+000[9AD]\)")
_MISSING_GLYPH = re.compile(r'unsupported by fonts: "(.+)" \(U\+')
_ID_IN_MESSAGE = re.compile(r"#([^\s']+)")


def _read_log(
    records: Sequence[logging.LogRecord], resolved: ResolvedBook, dialect: JoinedDialect
) -> list[Finding]:
    """Each message once, as a finding; in its chapter if the message names an id."""
    findings: dict[str, Finding] = {}
    missing: dict[str, None] = {}
    for record in records:
        message = record.getMessage()
        if _SAID_ELSEWHERE.search(message):
            continue
        if glyph := _MISSING_GLYPH.search(message):
            missing[glyph[1]] = None
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
    if missing:
        message = f"no font has {''.join(list(missing)[:20])}{count_more(list(missing)[19:])}"
        hint = "install fonts of this script, such as the package fonts-noto-cjk of Debian"
        place = Span.whole(dialect.config.file)
        found = Finding(place, "engine-message", message, hint, Severity.WARNING)
        findings[message] = found
    return list(findings.values())
