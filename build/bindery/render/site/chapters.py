"""The pages of chapters: their text, and the ways from it to the next one and to its source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from markupsafe import Markup

from bindery.book.git_history import find_last_changes
from bindery.book.glossary import find_glossary
from bindery.book.this_edition import Edition
from bindery.check.inspect import Inspection
from bindery.core.model import Anchor, Chapter, ToFile
from bindery.render.addresses import quote_path, relate
from bindery.render.numbering import Exhibit
from bindery.render.provenance_notes import write_additions
from bindery.render.site import frame, front
from bindery.render.site import llms_and_sitemap as machines
from bindery.render.site.dialect import SiteDialect
from bindery.render.site.dressing import DressedText
from bindery.render.site.model import FRONT, ChapterText, Page, PageLink, Progress, Site
from bindery.render.site.reading import count_minutes, read_sections, summarise_page
from bindery.render.text.content import NOTHING_ADDED, render_chapter
from bindery.render.web_notes import write_titles

_WEIGHT_OF_APPENDIX = 0.2
"""In the search: it names everything that the chapters mention, and explains nothing."""


def write_texts(
    inspection: Inspection,
    edition: Edition,
    dialect: SiteDialect,
    exhibits: Iterable[Exhibit],
    progress: Progress,
) -> Iterator[ChapterText]:
    """The text of each chapter, in reading order."""
    additions = write_additions(inspection, dialect, folds=True)
    titles = write_titles(inspection)
    days = find_last_changes(inspection.config.root)
    glossary = find_glossary(inspection.book)
    shown: dict[str, list[Exhibit]] = {}
    for exhibit in exhibits:
        shown.setdefault(exhibit.chapter, []).append(exhibit)
    dressed = {}
    for chapter in inspection.book.chapters:
        progress(chapter.title)
        added = additions.get(chapter.path, NOTHING_ADDED)
        body = render_chapter(chapter, inspection.resolved, dialect, added, titles)
        text = DressedText(body, is_glossary=chapter.path == glossary)
        text.caption(shown.get(chapter.path, ()))
        text.mark_tables()
        text.mark_drawings(_find_drawings(inspection, dialect, chapter))
        dressed[chapter.path] = text
    for chapter in inspection.book.chapters:
        text, here = dressed[chapter.path], dialect.pages[chapter.path]
        terms = {"": text.terms}
        if glossary:
            terms = {quote_path(relate(dialect.pages[glossary], here)): dressed[glossary].terms,
                     **terms}  # fmt: skip
        has_terms = text.mark_terms(terms)
        text.delay_images()
        body = text.write()
        yield ChapterText(
            chapter,
            body,
            tuple(read_sections(body)),
            summarise_page(body),
            days.get(chapter.path, ""),
            has_origins=chapter.path in additions,
            has_terms=has_terms,
            synonyms=tuple(term.names for term in text.terms if len(term.names) > 1),
        )


def _find_drawings(inspection: Inspection, dialect: SiteDialect, chapter: Chapter) -> Iterator[str]:
    """The addresses of the drawings of a chapter that know one theme only. A drawing that asks for
    the reader's theme by itself is told it by the browser."""
    for link in chapter.links:
        target = inspection.resolved.find_target(link)
        if link.is_image and isinstance(target, ToFile) and target.path.lower().endswith(".svg"):
            source = dialect.write_image(target, chapter)
            if source and b"prefers-color-scheme" not in inspection.tree.read_bytes(target.path):
                yield source.src


def make_pages(site: Site) -> Iterator[Page]:
    """A page for each chapter."""
    parts = {c.path: part.title for part in site.book.parts for c in part.chapters}
    for position, text in enumerate(site.texts):
        chapter, here = text.chapter, site.places[text.chapter.path]
        is_front = here == FRONT
        weight = 1 if chapter is not site.appendix else _WEIGHT_OF_APPENDIX
        values: dict[str, object] = {
            "part": parts[chapter.path],
            "body": Markup(text.body),
            "sections": _list_sections(chapter),
            "number": site.numbers[chapter.path],
            "minutes": 0 if is_front else count_minutes(text.sections),
            "changed": text.changed,
            "before": _link_neighbour(site, position - 1, here),
            "after": _link_neighbour(site, position + 1, here),
        }
        if text.summary and not (is_front and site.config.description):
            values["summary"] = text.summary
        if chapter is not site.appendix:
            values |= _describe_source(site, chapter, here)
        if is_front:
            values |= front.describe_front(site)
        yield Page(
            here,
            chapter.title,
            "site/page.html",
            values,
            tuple(_list_scripts(text)),
            text.sections,
            weight,
            text.changed,
        )


def _list_scripts(text: ChapterText) -> Iterator[str]:
    chapter = text.chapter
    if chapter.inventory.tables:
        yield "tables.js"
    if chapter.footnotes or text.has_terms or text.has_origins:
        yield "tips.js"
    if chapter.footnotes or text.has_terms:
        yield "notes.js"
    if text.has_origins:
        yield "provenance.js"


def _link_neighbour(site: Site, position: int, here: str) -> PageLink | None:
    """The chapter at a position in reading order, if there is one."""
    if not 0 <= position < len(site.texts):
        return None
    return site.link_chapter(site.texts[position].chapter, here)


def _list_sections(chapter: Chapter) -> list[Anchor]:
    """The headings that the contents of a page shows: the two levels below its title."""
    return [anchor for anchor in chapter.anchors if anchor.level in (2, 3)]


def _describe_source(site: Site, chapter: Chapter, here: str) -> Mapping[str, str]:
    """The ways from a page to its source."""
    markdown = machines.find_markdown(chapter, site.config.folder)
    return {
        "edit": frame.find_edit_url(site.config, chapter.path),
        "report": frame.write_report_url(site.config, site.edition, chapter),
        "markdown": quote_path(relate(markdown, here)),
    }
