"""How the site writes ids, links and images, and where it puts the files of the book."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from bindery.book.this_edition import Edition
from bindery.core.config import Config
from bindery.core.model import Chapter, Target, ToChapter, ToFile, ToWeb
from bindery.core.wording import Wording
from bindery.render.addresses import find_file_url, quote_fragment, quote_path, relate
from bindery.render.text.content import ImageSource, find_title_slug


class SiteDialect(Struct):
    """How the site writes ids, links and images."""

    config: Config
    edition: Edition
    pages: dict[str, str]
    sizes: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Width and height of pictures, so that the layout does not shift when they load."""
    used_files: set[str] = field(default_factory=set)
    """Files of the repository that the pages show or offer, to be copied beside them."""
    marks_lines: bool = False

    paper = None
    is_narrow = False
    scrolls = True
    offers_sources = True
    draws_maths = False

    @property
    def words(self) -> Wording:
        return self.config.wording

    def write_id(self, chapter: Chapter, slug: str) -> str:
        return slug

    def write_href(self, target: Target, chapter: Chapter) -> str | None:
        here = self.pages[chapter.path]
        match target:
            case ToWeb(url=url):
                return url
            case ToChapter(path=path, slug=slug):
                fragment = f"#{quote_fragment(slug)}" if slug else ""
                if path == chapter.path:
                    return fragment or f"#{quote_fragment(find_title_slug(chapter))}"
                return quote_path(relate(self.pages[path], here)) + fragment
            case ToFile(path=path, is_folder=is_folder):
                address = find_file_url(target, self.config, self.edition)
                if address is None and not is_folder:
                    return self._offer_file(path, here)
                return address

    def write_image(self, target: Target, chapter: Chapter) -> ImageSource | None:
        match target:
            case ToFile(path=path, is_folder=False):
                width, height = self.sizes.get(path, (None, None))
                return ImageSource(self._offer_file(path, self.pages[chapter.path]), width, height)
            case ToWeb(url=url) if url.startswith("https:"):
                return ImageSource(url)
            case _:
                return None

    def _offer_file(self, path: str, here: str) -> str:
        self.used_files.add(path)
        return quote_path(relate(place_file(path, self.config.folder), here))


def place_file(path: str, folder: str) -> str:
    """Where a file of the repository is in the site."""
    inside = f"{folder}/" if folder else ""
    return path.removeprefix(inside) if path.startswith(inside) else f"_files/{path}"
