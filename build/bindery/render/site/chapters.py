"""The pages of chapters: text, links to the next chapter and to the source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from markupsafe import Markup

from bindery.core.model import Anchor, Chapter
from bindery.render.addresses import quote_path, relate
from bindery.render.site import frame, front
from bindery.render.site import llms_and_sitemap as machines
from bindery.render.site.model import FRONT, ChapterText, Page, Site

_WEIGHT_OF_APPENDIX = 0.2
"""Search weight of the appendix: it mentions everything and explains nothing."""


def make_pages(site: Site, only: str = "") -> Iterator[Page]:
    """A page per chapter, or only the one with this path."""
    chapters = site.book.chapters
    parts = {c.path: part.title for part in site.book.parts for c in part.chapters}
    for before, chapter, after in zip(
        (None, *chapters), chapters, (*chapters[1:], None), strict=False
    ):
        if not only or site.places[chapter.path] == only:
            yield _make_page(site, chapter, parts[chapter.path], before, after)


def _make_page(
    site: Site,
    chapter: Chapter,
    part: str,
    before: Chapter | None,
    after: Chapter | None,
) -> Page:
    text, here = site.texts.write(chapter.path), site.places[chapter.path]
    is_front = here == FRONT
    weight = 1 if chapter is not site.appendix else _WEIGHT_OF_APPENDIX
    changed = site.days.get(chapter.path, "")
    values: dict[str, object] = {
        "part": part,
        "body": Markup(text.body),
        "sections": _list_sections(chapter),
        "number": site.numbers[chapter.path],
        "minutes": 0 if is_front else text.minutes,
        "changed": changed,
        "before": before and site.link_chapter(before, here),
        "after": after and site.link_chapter(after, here),
    }
    if text.summary and not (is_front and site.config.description):
        values["summary"] = text.summary
    if chapter is not site.appendix:
        values |= _describe_source(site, chapter, here)
    if is_front:
        values |= front.describe_front(site)
    return Page(
        here,
        chapter.title,
        "site/page.html",
        values,
        tuple(_list_scripts(text)),
        text.sections,
        weight,
        changed,
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


def _list_sections(chapter: Chapter) -> list[Anchor]:
    """The headings in the contents of a page: the two levels below its title."""
    return [anchor for anchor in chapter.anchors if anchor.level in (2, 3)]


def _describe_source(site: Site, chapter: Chapter, here: str) -> Mapping[str, str]:
    """The links from a page to its source."""
    markdown = machines.find_markdown(chapter, site.config.folder)
    return {
        "edit": frame.find_edit_url(site.config, chapter.path),
        "report": frame.write_report_url(site.config, site.edition, chapter),
        "markdown": quote_path(relate(markdown, here)),
    }
