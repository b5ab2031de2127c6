"""The front page: what the book is and what can be downloaded."""

from __future__ import annotations

from pathlib import Path

from bindery.book.this_edition import Edition
from bindery.core.config import Config
from bindery.core.wording import Wording
from bindery.render.addresses import quote_path, relate
from bindery.render.completeness import is_of_edition
from bindery.render.site.frame import link_cover
from bindery.render.site.model import FRONT, Download, Page, Site


def describe_front(site: Site) -> dict[str, object]:
    """The values that the front page shows before its text."""
    catalogue = quote_path(relate(site.catalogue, FRONT)) if site.tools else ""
    return {
        "cover": link_cover(site, FRONT),
        "cover_size": site.dialect.sizes.get(site.config.cover, ()),
        "says_title": any(
            site.places[chapter.path] == FRONT and _is_title(chapter.title, site.config)
            for chapter in site.book.chapters
        ),
        "counts": _count_book(site),
        "downloads": site.downloads,
        "catalogue": catalogue,
        "calculators": next(
            (f"{quote_path(tool.place)}#calculators" for tool in site.tools if tool.calculators), ""
        ),
    }


def _is_title(text: str, config: Config) -> bool:
    """Whether a text is the title of the book, with or without its subtitle."""
    said, title, whole = (
        "".join(filter(str.isalnum, words)).casefold()
        for words in (text, config.title, config.title + config.subtitle)
    )
    return said in (title, whole)


def make_contents(site: Site) -> Page:
    """The front page of a book without a front chapter: its contents."""
    parts = [
        (part.title, [site.link_chapter(chapter, FRONT) for chapter in part.chapters])
        for part in site.book.parts
    ]
    after = site.link_chapter(site.book.chapters[0], FRONT)
    values = describe_front(site) | {"after": after, "parts": parts}
    return Page(FRONT, site.config.title, "site/contents.html", values)


def find_downloads(folder: Path, config: Config, edition: Edition) -> list[Download]:
    """The ebooks of this edition in a folder of outputs."""
    paths = (folder / f"{config.name}.{kind}" for kind in ("pdf", "epub"))
    return [
        Download(
            str(path), path.suffix[1:].upper(), _format_size(path.stat().st_size, config.wording)
        )
        for path in paths
        if is_of_edition(path, edition)
    ]


def _format_size(size: int, words: Wording) -> str:
    return words.number(
        f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(1, round(size / 1000))} kB"
    )


def _count_book(site: Site) -> str:
    """The size of a book in a line, as `bindery count` has it: the chapters that chapters.yaml
    lists, without the generated appendix."""
    chapters = [chapter for chapter in site.book.chapters if chapter is not site.appendix]
    tables = sum(len(chapter.inventory.tables) for chapter in chapters)
    count = site.config.wording.count
    inspection, tools = site.inspection, site.config.tools
    records = inspection.facts.derive(
        "number of records", int, lambda: len(inspection.evidence.records)
    )
    counts = [count(len(chapters), "chapter")]
    counts += [count(tables, "table")] if tables else []
    counts += [count(len(tools), "tool")] if tools else []
    counts += [count(records, "recorded run")] if records else []
    return ", ".join(counts)
