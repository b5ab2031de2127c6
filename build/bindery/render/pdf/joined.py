"""The joined book: all chapters in one document, as the PDF and the EPUB need them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from bindery.book.this_edition import Edition
from bindery.check.inspect import Inspection
from bindery.core.config import Config
from bindery.core.model import Anchor, Chapter, Target, ToChapter, ToFile, ToWeb
from bindery.render.addresses import find_file_url, join_id, quote_fragment
from bindery.render.images import Prepared
from bindery.render.numbering import Exhibit, list_exhibits
from bindery.render.provenance_notes import write_additions
from bindery.render.text.content import (
    NO_TITLES,
    NOTHING_ADDED,
    ImageSource,
    find_title_slug,
    render_chapter,
)
from bindery.render.text.paper import Paper


@dataclass(frozen=True, slots=True)
class JoinedDialect:
    """How a joined book writes ids, links and images: every id begins with its chapter."""

    config: Config
    edition: Edition
    chapters: Mapping[str, Chapter]
    prefixes: Mapping[str, str]
    images: Mapping[str, Prepared]
    write_source: Callable[[Prepared], str]
    """The address of a prepared image in this output."""
    paper: Paper | None = None
    labels_cells: bool = False
    scrolls: bool = False
    draws_maths: bool = False
    offers_sources: bool = False

    def write_id(self, chapter: Chapter, slug: str) -> str:
        return join_id(self.prefixes[chapter.path], slug)

    def find_chapter_id(self, chapter: Chapter) -> str:
        """The id of the title of a chapter."""
        return self.write_id(chapter, find_title_slug(chapter))

    def list_sections(self, chapter: Chapter) -> Iterator[Anchor]:
        """The headings of a chapter that its contents show."""
        title = find_title_slug(chapter)
        for anchor in chapter.anchors:
            if anchor.title and anchor.level in (1, 2) and anchor.slug != title:
                yield anchor

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
    ) -> Mapping[str, str]:
        """The text of each chapter as XHTML, by its path."""
        additions = write_additions(inspection, self, folds=False)
        bodies = {}
        for chapter in inspection.book.chapters:
            progress(chapter.title)
            added = additions.get(chapter.path, NOTHING_ADDED)
            resolved = inspection.resolved
            bodies[chapter.path] = render_chapter(chapter, resolved, self, added, web_titles)
        return bodies

    def write_href(self, target: Target, chapter: Chapter) -> str | None:
        match target:
            case ToWeb(url=url):
                return url
            case ToFile():
                return find_file_url(target, self.config, self.edition)
            case ToChapter(path=path, slug=slug):
                there = self.chapters.get(path)
                if there is None:  # a chapter that could not be read, in a lenient build
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
