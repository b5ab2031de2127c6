"""The joined book: all chapters in one document, as the PDF and the EPUB need them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from bindery.book.this_edition import Edition
from bindery.check.inspect import Inspection
from bindery.core.cache import Cache, Recipe, recall, recall_many
from bindery.core.config import Config
from bindery.core.model import Chapter, Part, Target, ToChapter, ToFile, ToWeb
from bindery.core.wording import Wording
from bindery.render.addresses import find_file_url, join_id, quote_fragment
from bindery.render.images import Prepared
from bindery.render.numbering import Exhibit, list_exhibits, number_chapters
from bindery.render.provenance_notes import list_note_inputs, write_additions
from bindery.render.text.content import (
    NO_TITLES,
    NOTHING_ADDED,
    Additions,
    ImageSource,
    find_title_slug,
    render_chapter,
)
from bindery.render.text.paper import Paper
from bindery.render.text_inputs import list_inputs

_ROMAN = dict(enumerate("I II III IV V VI VII VIII IX X XI XII XIII XIV XV XVI XVII".split(), 1))
"""Roman numerals for part numbers."""


class JoinedChapter(Struct, frozen=True):
    """A chapter in the contents of a joined book."""

    path: str
    id: str
    title: str
    number: str
    label: str
    """The text before its title: `Chapter 3`."""
    sections: tuple[tuple[str, str], ...]
    """Id and title of each heading that the contents show."""


class JoinedPart(Struct, frozen=True):
    """A part in the contents of a joined book."""

    id: str
    title: str
    label: str
    """Its number in Roman numerals; empty if it has none."""
    chapters: tuple[JoinedChapter, ...]


class JoinedDialect(Struct, frozen=True):
    """How a joined book writes ids, links and images: every id begins with its chapter."""

    config: Config
    edition: Edition
    chapters: Mapping[str, Chapter]
    prefixes: Mapping[str, str]
    images: Mapping[str, Prepared]
    write_source: Callable[[Prepared], str]
    """The address of a prepared image in this output."""
    paper: Paper | None = None
    is_narrow: bool = False
    scrolls: bool = False
    draws_maths: bool = False
    offers_sources: bool = False
    marks_lines: bool = False

    @property
    def words(self) -> Wording:
        return self.config.wording

    def write_id(self, chapter: Chapter, slug: str) -> str:
        return join_id(self.prefixes[chapter.path], slug)

    def find_chapter_id(self, chapter: Chapter) -> str:
        """The id of the title of a chapter."""
        return self.write_id(chapter, find_title_slug(chapter))

    def list_parts(self, inspection: Inspection) -> list[JoinedPart]:
        """The table of contents: parts, their chapters, and the top headings of each chapter."""
        numbers = number_chapters(inspection)
        parts: list[JoinedPart] = []
        count = 0
        for position, part in enumerate(filter(lambda p: p.chapters, inspection.book.parts), 1):
            is_numbered = bool(part.title) and any(numbers[c.path].isdigit() for c in part.chapters)
            count += is_numbered
            chapters = tuple(self._list_sections(c, numbers[c.path], part) for c in part.chapters)
            label = _ROMAN.get(count, str(count)) if is_numbered else ""
            parts.append(JoinedPart(f"part.{position}", part.title, label, chapters))
        return parts

    def _list_sections(self, chapter: Chapter, number: str, part: Part) -> JoinedChapter:
        title = find_title_slug(chapter)
        sections = tuple(
            (self.write_id(chapter, anchor.slug), anchor.title)
            for anchor in chapter.anchors
            if anchor.title and anchor.level in (1, 2) and anchor.slug != title
        )
        words = self.config.wording
        numbered = words("Chapter {number}", number=number)
        label = numbered if number.isdigit() else f"{part.title} {number}" if number else ""
        return JoinedChapter(
            chapter.path, self.find_chapter_id(chapter), chapter.title, number, label, sections
        )

    def list_exhibits(self, inspection: Inspection) -> Mapping[str, Exhibit]:
        """The numbered tables and figures by their id in the book."""
        return {
            self.write_id(self.chapters[exhibit.chapter], exhibit.slug): exhibit
            for exhibit in list_exhibits(inspection)
        }

    def render_chapters(
        self,
        inspection: Inspection,
        progress: Callable[[str], None],
        web_titles: Mapping[str, str] = NO_TITLES,
        only: Chapter | None = None,
        cache: Cache | None = None,
        finish: Callable[[Chapter, str], str] = lambda _, text: text,
    ) -> Mapping[str, str]:
        """The text of each chapter, or of one, as XHTML, by its path. Unchanged texts come from the
        cache; `finish` may depend on what `render_chapter` reads, and on nothing else."""
        additions = recall(
            cache,
            "notes on numbers in the EPUB",
            list_note_inputs(inspection, self, self.edition),
            dict[str, Additions],
            partial(write_additions, inspection, self, folds=False),
        )
        chapters = (only,) if only else inspection.book.chapters
        recipes = []
        for chapter in chapters:
            added = additions.get(chapter.path, NOTHING_ADDED)
            given = chapter, inspection.resolved, self, added, web_titles
            make = partial(_render_finished, finish, *given)
            name = f"EPUB text of {chapter.path}"
            recipes.append(Recipe(name, list_inputs(*given), make, chapter.title))
        bodies = recall_many(cache, str, recipes, progress)
        return dict(zip([chapter.path for chapter in chapters], bodies, strict=True))

    def write_href(self, target: Target, chapter: Chapter) -> str | None:
        match target:
            case ToWeb(url=url):
                return url
            case ToFile():
                return find_file_url(target, self.config, self.edition)
            case ToChapter(path=path, slug=slug):
                there = self.chapters.get(path)
                if there is None:  # a chapter that could not be read in a lenient build
                    return None
                identifier = self.write_id(there, slug) if slug else self.find_chapter_id(there)
                return f"#{quote_fragment(identifier)}"

    def write_image(self, target: Target, chapter: Chapter) -> ImageSource | None:
        match target:
            case ToFile(path=path) if path in self.images:
                image = self.images[path]
                return ImageSource(self.write_source(image), image.width, image.height)
            case _:
                return None


def _render_finished(finish: Callable[[Chapter, str], str], chapter: Chapter, *given: Any) -> str:
    return finish(chapter, render_chapter(chapter, *given))
