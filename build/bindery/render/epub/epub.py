"""The EPUB: one file per chapter, packed by pandoc, then read back and compared with the source.

pandoc makes the package: files, metadata, manifest, spine, cover and media. It gets each chapter
as a heading to split at and its images, each as a file that holds only its name, and writes where
it put them. The text that `render_chapter` wrote then replaces the images. The table of contents
and the accessibility metadata are written here, from what the book contains.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import zipfile
from base64 import b64decode, b64encode
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pypandoc
from lxml import etree
from msgspec import Struct, field
from msgspec.structs import replace

from bindery.book.this_edition import Edition, find_changes_url
from bindery.check.inspect import Inspection
from bindery.core.cache import Cache, recall
from bindery.core.config import Config
from bindery.core.model import (
    BookError,
    Chapter,
    Finding,
    ResolvedBook,
    Severity,
    Span,
    Target,
    ToChapter,
)
from bindery.core.processes import CommandMissingError, CommandTimeoutError, run_command
from bindery.core.whole_files import make_work_folder, write_whole
from bindery.core.wording import Wording
from bindery.render.addresses import make_prefixes, quote_fragment
from bindery.render.author_style import read_author_style, write_data
from bindery.render.completeness import (
    Contents,
    Lack,
    Proof,
    compare_contents,
    expect_contents,
    read_contents,
)
from bindery.render.epub.roles import dress_chapter
from bindery.render.frames import fill_frame
from bindery.render.images import Prepared, gather_images
from bindery.render.numbering import find_addresses
from bindery.render.pdf.joined import JoinedDialect
from bindery.render.text.content import offer_breaks
from bindery.render.text.markup import escape_attribute, escape_text
from bindery.render.text.raw_markup import tidy_markup
from bindery.render.web_notes import write_titles

STEPS = 4
"""Steps of a build in addition to one per chapter."""
Progress = Callable[[str], None]

_HERE = Path(__file__).parents[1]
_FONTS = _HERE / "site" / "static"
_PANDOC = Path(pypandoc.__file__).with_name("files") / "pandoc"
"""That of the package pypandoc_binary, also where the PATH has another one."""
_PANDOC_SECONDS = 600.0
_ROOT = "EPUB"
_TEXT = f"{_ROOT}/text"
_CELL = re.compile(r"<t[dh]\b(?:[^>]*[^/])?>.*?</t[dh]>", re.DOTALL)
_SOURCE = re.compile(r'(<img\b[^>]*?\bsrc=")([^"]*)')
_STORED = frozenset(("png", "jpg", "jpeg", "gif"))
"""Extensions of files that are already compressed."""
_OPF = "{http://www.idpf.org/2007/opf}"


class EpubDialect(JoinedDialect, frozen=True):
    """How the EPUB writes links: a link to another chapter names its file."""

    files: Mapping[str, str] = field(default_factory=dict)

    def write_href(self, target: Target, chapter: Chapter) -> str | None:
        href = JoinedDialect.write_href(self, target, chapter)
        match target:
            case ToChapter(path=path) if href is not None and path != chapter.path:
                return self.files[path] + href
            case _:
                return href


def build_epub(
    inspection: Inspection,
    edition: Edition,
    path: Path,
    progress: Progress,
    *,
    lenient: bool = False,
    allows_losses: bool = False,
    cache: Cache | None = None,
) -> tuple[Proof, list[Finding]]:
    """Write the EPUB to `path`, whole or not at all.

    Returns the proof that nothing is missing, and what pandoc said. Raises BookError if an image
    cannot be read (a lenient build shows its text instead), pandoc fails, or something of the
    source is not in the EPUB and `allows_losses` is not set; ConfigError if a line of
    the link memory cannot be read.
    """
    config, resolved = inspection.config, inspection.resolved
    progress("images")
    kept = path.parent / ".cache" / "images"
    images, unreadable = gather_images(inspection.tree, resolved, config, kept, lenient=lenient)
    with make_work_folder(path) as work:
        for image in images.values():
            (work / image.name).write_text(image.name)  # pandoc need not pack the image itself
        cover = images.get(config.cover)
        if cover:  # pandoc measures it
            shutil.copyfile(cover.path, work / cover.name)
        chapters = resolved.book.chapters
        dialect = EpubDialect(
            config,
            edition,
            {chapter.path: chapter for chapter in chapters},
            make_prefixes(chapters, config.folder),
            images,
            lambda image: image.name,
            is_narrow=True,
            files={c.path: f"ch{number:03d}.xhtml" for number, c in enumerate(chapters, 1)},
        )
        titles = write_titles(inspection)

        def tidy(chapter: Chapter, text: str) -> str:
            wanted = expect_contents(chapter, resolved, dialect)
            ids = {*wanted.headings, *wanted.tables, *wanted.figures, *wanted.code_blocks}
            return tidy_markup(text, ids)

        texts = dialect.render_chapters(inspection, progress, titles, cache=cache, finish=tidy)
        bodies = [texts[chapter.path] for chapter in chapters]
        progress("package")
        logo = write_data(inspection.tree, config.style.logo) if config.style.logo else ""
        style = read_author_style(config, inspection.tree, "epub")
        document = _write_document(config, edition, bodies, logo)
        style = (_HERE / "styles" / "epub.css").read_text(encoding="utf-8") + style
        covers = inspection.tree.hash_files([config.cover] if cover else [])
        inputs = {
            "its images and metadata": document,
            "its style": style,
            "its cover": f"{cover and cover.name} {covers}",
        }
        make = partial(_run_pandoc, config, edition, document, style, cover, work)
        package = recall(cache, "package of the EPUB", inputs, _Package, make)
    progress("contents")
    data = _finish(b64decode(package.data), bodies, inspection, edition, dialect)
    progress("proof")
    proof = prove_epub(resolved, dialect, data)
    if not allows_losses:
        proof.raise_if_incomplete()
    write_whole(path, data)
    return proof, [*unreadable, *package.findings]


# --- pandoc ---


class _Package(Struct, frozen=True):
    """The package from pandoc, and a finding per line of its log."""

    data: str
    """In base64."""
    findings: tuple[Finding, ...]


def _write_document(config: Config, edition: Edition, bodies: Sequence[str], logo: str) -> str:
    """What pandoc reads: metadata, and of each chapter the images."""
    blocks: list[dict[str, object]] = []
    for number, body in enumerate(bodies, 1):
        mark = _write_mark(number)
        heading = [1, [mark, [], []], [{"t": "Str", "c": mark}]]
        images = "".join(f'<img src="{source}" />' for _, source in _SOURCE.findall(body))
        blocks += ({"t": "Header", "c": heading}, {"t": "RawBlock", "c": ["html5", images]})
    document = {
        "pandoc-api-version": [1, 23],
        "meta": {
            key: _write_meta(value) for key, value in _describe(config, edition, logo).items()
        },
        "blocks": blocks,
    }
    return json.dumps(document, ensure_ascii=False)


def _run_pandoc(
    config: Config,
    edition: Edition,
    document: str,
    style: str,
    cover: Prepared | None,
    work: Path,
) -> _Package:
    (work / "book.json").write_text(document, encoding="utf-8")
    (work / "epub.css").write_text(style, encoding="utf-8")
    output = work / "book.epub"
    command = (
        *(str(_PANDOC), "--from=json", "--to=epub3", "--split-level=1", "--toc"),
        "--css=epub.css",
        *(f"--epub-embed-font={font}" for font in sorted(_FONTS.glob("*.woff2"))),
        f"--template={_HERE / 'templates' / 'epub_frame.xhtml'}",
        *((f"--epub-cover-image={cover.name}",) if cover else ()),
        f"--output={output.name}",
        "book.json",
    )
    day = int(edition.of_the_day.date.timestamp())
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(day)}
    place = Span.whole(config.file)
    try:
        ended = run_command(command, folder=work, timeout=_PANDOC_SECONDS, environment=environment)
    except (CommandMissingError, CommandTimeoutError) as error:
        raise BookError(Finding(place, "engine-message", f"pandoc: {error}")) from None
    findings = tuple(
        Finding(place, "engine-message", f"pandoc: {line.strip()}", severity=Severity.WARNING)
        for line in (ended.stderr + ended.stdout).splitlines()
        if line.strip()
    )
    if ended.returncode or not output.is_file():
        message = f"pandoc ended with status {ended.returncode} and made no EPUB"
        raise BookError(*findings, Finding(place, "engine-message", message))
    return _Package(b64encode(output.read_bytes()).decode(), findings)


def _write_mark(number: int) -> str:
    """The id and text of the heading at which pandoc starts the file of a chapter."""
    return f"bindery.chapter.{number}"


def _describe(config: Config, edition: Edition, logo: str) -> dict[str, object]:
    """The metadata of the package and the text of the title page."""
    words = config.wording
    title: list[object] = [{"type": "main", "text": config.title}]
    if config.subtitle:
        title.append({"type": "subtitle", "text": config.subtitle})
    described: dict[str, object] = {
        "lang": config.language,
        "title": title,
        "identifier": [{"text": config.identifier}],
        "creator": [{"role": "aut", "text": author} for author in config.authors],
        "date": edition.day,
        "description": config.description,
        "rights": config.licence,
        "pagetitle": config.title,
        "toc-title": words("Contents"),
        "book-title": config.title,
        "logo": logo,
        "book-subtitle": config.subtitle,
        "book-author": list(config.authors),
        "book-licence": config.licence and words("License: {licence}", licence=config.licence),
        "cover-text": words("Cover of {title}", title=", ".join((config.title, *config.authors))),
        "edition-version": edition.version and words("Version {version}", version=edition.version),
        "commit-word": words("Commit"),
        "newest-words": words("This copy does not update. The newest edition:"),
        "changes-words": words("What has changed since this edition"),
        "edition-commit": edition.short_commit,
        "edition-day": edition.day,
        "edition-newest": edition.newest,
        "edition-changes": find_changes_url(config, edition),
    }
    return {key: value for key, value in described.items() if value}


def _write_meta(value: object) -> dict[str, object]:
    match value:
        case list():
            return {"t": "MetaList", "c": [_write_meta(item) for item in value]}
        case dict():
            return {"t": "MetaMap", "c": {key: _write_meta(item) for key, item in value.items()}}
        case _:
            return {"t": "MetaString", "c": str(value)}


# --- after pandoc ---


def _finish(
    packed: bytes,
    bodies: Sequence[str],
    inspection: Inspection,
    edition: Edition,
    dialect: EpubDialect,
) -> bytes:
    """The package with the text of its chapters, a table of contents by part, and correct metadata;
    the same bytes for the same book and date."""
    config, book = inspection.config, inspection.book
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    pictures = {image.name.encode(): image.path for image in dialect.images.values()}
    members |= {
        name: pictures[content].read_bytes()
        for name, content in members.items()
        if content in pictures
    }
    exhibits = dialect.list_exhibits(inspection)
    number = 0
    for part in book.parts:
        for position, chapter in enumerate(part.chapters):
            number += 1
            file = dialect.files[chapter.path]
            part_title = part.title if position == 0 else ""
            text = members.get(f"{_TEXT}/{file}", b"").decode()
            body = bodies[number - 1]
            text = _finish_chapter(text, body, number, chapter, part_title, dialect)
            known = find_addresses(exhibits.values(), dialect, chapter)
            notes = config.wording("Notes")
            members[f"{_TEXT}/{file}"] = dress_chapter(text, exhibits, known, notes)
    for name, template in (("nav.xhtml", "epub_contents.xhtml"), ("toc.ncx", "epub_toc.ncx")):
        contents = fill_frame(
            template,
            book=config,
            parts=dialect.list_parts(inspection),
            files=dialect.files,
            quote=quote_fragment,
            has_cover=f"{_TEXT}/cover.xhtml" in members,
        )
        members[f"{_ROOT}/{name}"] = contents.encode()
    texts = [members[f"{_TEXT}/{name}"] for name in dialect.files.values()]
    members[f"{_ROOT}/content.opf"] = _finish_package(
        members[f"{_ROOT}/content.opf"],
        edition,
        _list_claims(texts, config.wording),
        {name for name in dialect.files.values() if b"<math" in members[f"{_TEXT}/{name}"]},
    )
    return _pack(members, edition.date)


def _finish_chapter(
    page: str, body: str, number: int, chapter: Chapter, part: str, dialect: EpubDialect
) -> str:
    """The page that pandoc made of a chapter, with its text in the place of its images."""
    mark = _write_mark(number)
    heading = f'<section id="{mark}" class="level1">\n<h1>{mark}</h1>\n'
    named = f"<title>{dialect.files[chapter.path]}</title>"
    head, _, rest = page.partition(heading)
    images, _, end = rest.rpartition("</section>")
    sources = [source for _, source in _SOURCE.findall(images)]
    if head.count(named) != 1 or mark in images or len(sources) != len(_SOURCE.findall(body)):
        message = "pandoc did not write a separate file for this chapter"
        hint = "the old EPUB was kept; please report this with the version of pandoc"
        raise BookError(Finding(Span.whole(chapter.path), "engine-message", message, hint))
    title_id = escape_attribute(dialect.find_chapter_id(chapter))
    opening = f'<section epub:type="chapter" role="doc-chapter" aria-labelledby="{title_id}">\n'
    if part:
        opening += f'<p class="part">{escape_text(part)}</p>\n'
    head = head.replace(named, f"<title>{escape_text(chapter.title)}</title>")
    packed = iter(sources)
    text = _SOURCE.sub(lambda match: match[1] + next(packed), body)
    text = _CELL.sub(_break_words, text)  # a screen may be narrow
    return f"{head}{opening}{text}\n</section>{end}"


def _break_words(cell: re.Match[str]) -> str:
    return re.sub(">[^<]+", lambda text: f">{offer_breaks(unescape(text[0][1:]))}", cell[0])


def _list_claims(texts: Iterable[bytes], words: Wording) -> Iterator[tuple[str, str]]:
    """The accessibility metadata of these files: name and value of each schema.org property."""
    alts = [
        (image.get("alt") or "").strip()
        for text in texts
        for image in etree.fromstring(text).iter("{http://www.w3.org/1999/xhtml}img")
    ]
    images, described = len(alts), len(list(filter(None, alts)))
    summary = words("Text that can be resized, with headings and contents.")
    if images:
        said = words(
            "{described} of {images} images have a description.", described=described, images=images
        )
        summary += f" {said}"
    yield "accessMode", "textual"
    if images:
        yield "accessMode", "visual"
    yield "accessModeSufficient", "textual" if described == images else "textual,visual"
    for feature in ("displayTransformability", "readingOrder", "structuralNavigation"):
        yield "accessibilityFeature", feature
    yield "accessibilityFeature", "tableOfContents"
    if images and described == images:
        yield "accessibilityFeature", "alternativeText"
    # An image may move; whether it flashes is not known.
    yield "accessibilityHazard", "unknown" if images else "none"
    yield "accessibilitySummary", summary


def _finish_package(
    package: bytes, edition: Edition, claims: Iterable[tuple[str, str]], with_maths: Container[str]
) -> bytes:
    """The package document with accessibility metadata, the edition, and pages with MathML."""
    root = etree.fromstring(package)
    etree.cleanup_namespaces(root)  # else new elements get the prefix opf, which some readers miss
    metadata = root.find(f"{_OPF}metadata")
    assert metadata is not None  # pandoc writes no package without
    for meta in metadata.findall(f"{_OPF}meta"):
        name = meta.get("property") or ""
        if name.startswith("schema:"):
            metadata.remove(meta)
        elif name == "dcterms:modified":  # pandoc is told only the day
            meta.text = f"{edition.date.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    version = " ".join(
        filter(None, (edition.version, edition.short_commit and f"({edition.short_commit})"))
    )
    for name, value in (*claims, *([("version", version)] if version else [])):
        meta = etree.SubElement(metadata, f"{_OPF}meta", {"property": f"schema:{name}"})
        meta.text = value
        meta.tail = "\n"
    for item in root.iter(f"{_OPF}item"):
        if item.get("href", "").removeprefix("text/") in with_maths:
            item.set("properties", "mathml")
        # The cover page of our template holds a plain image.
        if item.get("href") == "text/cover.xhtml":
            item.attrib.pop("properties", "")
    return bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8"))


def _pack(members: Mapping[str, bytes], date: datetime) -> bytes:
    earliest = datetime(1980, 1, 1, tzinfo=UTC)  # zip has no year before
    stamp = max(date.astimezone(UTC), earliest).timetuple()[:6]
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(members, key=lambda name: (name != "mimetype", name)):
            info = zipfile.ZipInfo(name, stamp)
            info.create_system = 3
            info.external_attr = 0o644 << 16
            is_packed = name == "mimetype" or name.rpartition(".")[2] in _STORED
            info.compress_type = zipfile.ZIP_STORED if is_packed else zipfile.ZIP_DEFLATED
            archive.writestr(info, members[name])
    return buffer.getvalue()


# --- the proof ---


def _parse_pages(data: bytes) -> dict[str, Any]:
    """The XML files of an EPUB by name; an unreadable one is empty."""
    trees: dict[str, Any] = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        for name in archive.namelist():
            if name.endswith((".xhtml", ".ncx", ".opf")):
                with contextlib.suppress(etree.XMLSyntaxError):
                    trees[name] = etree.fromstring(archive.read(name))
    return trees


def prove_epub(resolved: ResolvedBook, dialect: EpubDialect, data: bytes) -> Proof:
    """Read an EPUB back and compare it with the book: what each chapter holds, and that spine and
    contents name every chapter. `bindery links` follows the links."""
    trees = _parse_pages(data)
    spine = [name for name in _read_spine(trees) if name.startswith(f"{_TEXT}/ch")]
    named = {name: _read_contents_files(trees, name) for name in ("nav.xhtml", "toc.ncx")}
    proofs = []
    for number, chapter in enumerate(resolved.book.chapters):
        page = f"{_TEXT}/{dialect.files[chapter.path]}"
        expected = expect_contents(chapter, resolved, dialect)
        tree = trees.get(page)
        found = Contents() if tree is None else read_contents(tree, expected)
        compared = compare_contents(chapter.path, expected, found)
        lacks = list(compared.lacks)
        if spine[number : number + 1] != [page]:
            lacks.append(Lack(chapter.path, "pages", f"{page} is not in its place in the spine"))
        for name, files in named.items():
            if page not in files:
                lacks.append(Lack(chapter.path, "links", f"no line in {name}"))
        proofs.append(replace(compared, lacks=tuple(lacks)))
    return Proof("EPUB", tuple(proofs))


def _read_spine(trees: Mapping[str, Any]) -> list[str]:
    """The files of the spine in their order."""
    package = trees[f"{_ROOT}/content.opf"]
    files = {
        item.get("id"): f"{_ROOT}/{unquote(item.get('href'))}"
        for item in package.iter(f"{_OPF}item")
    }
    return [files.get(item.get("idref"), "") for item in package.iter(f"{_OPF}itemref")]


def _read_contents_files(trees: Mapping[str, Any], name: str) -> set[str]:
    """The files that a table of contents leads to."""
    tree = trees.get(f"{_ROOT}/{name}")
    addresses = () if tree is None else (e.get("href") or e.get("src") for e in tree.iter())
    return {f"{_ROOT}/{unquote(a.partition('#')[0])}" for a in addresses if a}
