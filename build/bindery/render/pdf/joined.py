"""The joined book: all chapters in one document, as the PDF and the EPUB need them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bindery.book.this_edition import Edition
from bindery.core.config import Config
from bindery.core.model import Chapter, Target, ToChapter, ToFile, ToWeb
from bindery.render.addresses import find_file_url, join_id, quote_fragment
from bindery.render.images import Prepared
from bindery.render.text.content import ImageSource, find_title_slug
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
