"""The values that a site is built from, and its pages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from bindery.book.past_editions import Editions
from bindery.book.this_edition import Edition
from bindery.check.inspect import Inspection
from bindery.core.config import Config
from bindery.core.model import Book, Chapter
from bindery.render.addresses import quote_path, relate
from bindery.render.site.dialect import SiteDialect
from bindery.render.site.reading import Section
from bindery.render.site.tools import ToolPage

if TYPE_CHECKING:
    from bindery.render.site.texts import Texts

FRONT = "index.html"
DOWNLOADS = "downloads"
Progress = Callable[[str], None]


class ChapterText(Struct, frozen=True):
    """A chapter as its page shows it."""

    chapter: Chapter
    body: str
    sections: Sequence[Section]
    summary: str
    minutes: int
    has_origins: bool
    """Whether its numbers show their origin."""
    has_terms: bool
    """Whether it uses terms of a glossary."""
    synonyms: Sequence[Sequence[str]]
    """The names of each term that it explains under several names."""


class Download(Struct, frozen=True):
    """An ebook that the site offers."""

    path: str
    """Where it is now."""
    title: str
    size: str

    @property
    def href(self) -> str:
        return f"{DOWNLOADS}/{quote_path(Path(self.path).name)}"


class PageLink(Struct, frozen=True):
    """A link from one page to another."""

    href: str
    title: str
    is_here: bool = False
    about: str = ""
    """A remark shown with its title."""
    number: str = ""
    """That of the chapter, where it has one."""


class MenuPart(Struct, frozen=True):
    """A part of the book in the menu of a page."""

    title: str
    links: Sequence[PageLink]
    is_open: bool = False
    size: int = 0
    """How many chapters it has; `links` may have fewer."""


class Page(Struct, frozen=True):
    """A page: its path, and the values that it shows within the frame of all pages."""

    place: str
    title: str
    template: str
    values: Mapping[str, object]
    scripts: tuple[str, ...] = ()
    """Beside those of every page."""
    sections: Sequence[Section] | None = None
    """What the search finds in it, if anything."""
    weight: float = 1
    """Weight of its words in the search."""
    changed: str = ""
    is_listed: bool = True
    """Whether it is in the sitemap."""


class Site(Struct, frozen=True):
    """The input of all pages of a site."""

    inspection: Inspection
    edition: Edition
    dialect: SiteDialect
    texts: Texts
    numbers: Mapping[str, str]
    """Those of the chapters, by their path."""
    standing: Mapping[str, tuple[int, int]]
    """By page of a chapter: the index of its part, and its index in the part."""
    tools: tuple[ToolPage, ...]
    tools_folder: str
    days: Mapping[str, str]
    """The day of the last change of each file that git knows."""
    downloads: tuple[Download, ...] = ()
    editions: Editions | None = None
    appendix: Chapter | None = None

    @property
    def config(self) -> Config:
        return self.inspection.config

    @property
    def book(self) -> Book:
        return self.inspection.book

    @property
    def places(self) -> Mapping[str, str]:
        """The page of each chapter, by its path."""
        return self.dialect.pages

    @property
    def catalogue(self) -> str:
        """The path of the catalog of tools."""
        return f"{self.tools_folder}/index.html"

    def link_chapter(self, chapter: Chapter, here: str) -> PageLink:
        """A link to a chapter from the page at `here`."""
        place = self.places[chapter.path]
        href, number = quote_path(relate(place, here)), self.numbers[chapter.path]
        return PageLink(href, chapter.title, place == here, number=number)
