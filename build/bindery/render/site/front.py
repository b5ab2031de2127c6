"""The front page: what the book is, what can be downloaded, and what in it is cited most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bindery.book.this_edition import Edition
from bindery.core.config import Config
from bindery.core.model import Book, Chapter, ToChapter
from bindery.core.report import count_noun
from bindery.render.addresses import quote_fragment, quote_path, relate
from bindery.render.completeness import is_of_edition
from bindery.render.site.frame import link_cover
from bindery.render.site.model import FRONT, Download, Page, PageLink, Site

_MOST_TABLES, _MOST_TOOLS = 6, 6
_MOST_OF_A_CHAPTER = 2


def describe_front(site: Site) -> dict[str, object]:
    """What the front page shows before its text."""
    catalogue = quote_path(relate(site.catalogue, FRONT)) if site.tools else ""
    return {
        "cover": link_cover(site, FRONT),
        "says_title": any(
            site.places[chapter.path] == FRONT and _is_title(chapter.title, site.config)
            for chapter in site.book.chapters
        ),
        "counts": count_book(site.book, site.config, len(site.inspection.evidence.records)),
        "downloads": site.downloads,
        "catalogue": catalogue,
        "wanted_tables": list(_list_wanted_tables(site)),
        "wanted_tools": _list_wanted_tools(site),
        "calculators": next(
            (f"{quote_path(tool.place)}#calculators" for tool in site.tools if tool.calculators), ""
        ),
    }


def _is_title(text: str, config: Config) -> bool:
    """Whether a text is the title of the book, with its subtitle or without."""
    said, title, whole = (
        "".join(filter(str.isalnum, words)).casefold()
        for words in (text, config.title, config.title + config.subtitle)
    )
    return said in (title, whole)


def make_contents(site: Site) -> Page:
    """The front page of a book none of whose chapters is one: its contents."""
    values = describe_front(site) | {"after": site.link_chapter(site.book.chapters[0], FRONT)}
    return Page(FRONT, site.config.title, "site/contents.html", values)


def find_downloads(folder: Path, config: Config, edition: Edition) -> list[Download]:
    """The ebooks of this very edition in a folder of outputs."""
    paths = (folder / f"{config.name}.{kind}" for kind in ("pdf", "epub"))
    return [
        Download(path, path.suffix[1:].upper(), _format_size(path.stat().st_size))
        for path in paths
        if is_of_edition(path, edition)
    ]


def _format_size(size: int) -> str:
    return f"{size / 1e6:.1f} MB" if size >= 1e6 else f"{max(1, round(size / 1000))} kB"


def count_book(book: Book, config: Config, records: int) -> str:
    """The size of a book in a line."""
    chapters = book.chapters
    tables = sum(len(chapter.inventory.tables) for chapter in chapters)
    counts = [count_noun(len(chapters), "chapter")]
    counts += [count_noun(tables, "table")] if tables else []
    counts += [count_noun(len(config.tools), "tool")] if config.tools else []
    counts += [f"{count_noun(records, 'record')} of runs"] if records else []
    return ", ".join(counts)


# --- what is wanted ---


@dataclass(frozen=True, slots=True)
class _Table:
    title: str
    chapter: Chapter
    section: str
    rank: tuple[int, int, int]
    """Links of the book to its section, links to its chapter, and its rows."""


def _list_wanted_tables(site: Site) -> Iterator[PageLink]:
    """The tables to whose sections the book itself leads most: what its author sends readers to is
    what readers come for. One of a section, and few of a chapter, so that there is a choice."""
    tables = [table for table in _rank_tables(site) if table.rank[0]]
    tables.sort(key=lambda table: table.rank, reverse=True)
    sections: set[tuple[str, str]] = set()
    count: Counter[str] = Counter()
    for table in tables:
        path = table.chapter.path
        if (path, table.section) in sections or count[path] == _MOST_OF_A_CHAPTER:
            continue
        sections.add((path, table.section))
        count[path] += 1
        href = quote_path(site.places[path]) + f"#{quote_fragment(table.section)}"
        yield PageLink(href, table.title, about=table.chapter.title)
        if len(sections) == _MOST_TABLES:
            return


def _rank_tables(site: Site) -> Iterator[_Table]:
    to_sections: Counter[tuple[str, str]] = Counter()
    to_chapters: Counter[str] = Counter()
    for chapter in site.book.chapters:
        if chapter is site.appendix:
            continue
        for link in chapter.links:
            target = site.inspection.resolved.find_target(link)
            if isinstance(target, ToChapter):
                to_sections[target.path, target.slug] += bool(target.slug)
                to_chapters[target.path] += target.path != chapter.path
    titles = {(exhibit.chapter, exhibit.slug): exhibit.title for exhibit in site.exhibits}
    for chapter in site.book.chapters:
        section, rows = "", dict(chapter.inventory.tables)
        for token in chapter.tokens:
            if token.type == "heading_open":
                section = token.meta["slug"]
            elif token.type == "table_open":
                slug = token.meta["id"]
                rank = (
                    to_sections[chapter.path, section],
                    to_chapters[chapter.path],
                    rows.get(slug) or 0,
                )
                yield _Table(titles[chapter.path, slug], chapter, section, rank)


def _list_wanted_tools(site: Site) -> list[PageLink]:
    """The tools of which most chapters speak."""
    tools = sorted(site.tools, key=lambda tool: len(tool.chapters), reverse=True)
    return [
        PageLink(quote_path(tool.place), tool.question, about=tool.name)
        for tool in tools[:_MOST_TOOLS]
    ]
