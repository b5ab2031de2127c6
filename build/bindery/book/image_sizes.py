"""Find images that are larger than any output shows them."""

from __future__ import annotations

import struct
import warnings

from msgspec import Struct

from bindery.core.config import Config
from bindery.core.model import ResolvedBook, Span, ToFile
from bindery.core.repository import Tree

MAX_BYTES = 500_000
"""An image of this many bytes is large whatever it shows: many times the text of a chapter."""
MAX_WIDTH = 2400
"""An image of more pixels is too wide: the site's widest column at two device pixels per CSS pixel.
Ebooks show 1,600."""
_LOOKED_AT = 100_000
"""Smaller files are not opened."""
_PHOTO = 0.6
"""A PNG with more bytes per pixel must be a photo: drawings need a third of this."""


class LargeImage(Struct, frozen=True):
    """An image that is larger than needed, by its header."""

    path: str
    bytes: int
    width: int
    height: int
    kind: str
    """The format in capitals: PNG, JPEG."""

    @property
    def is_wide(self) -> bool:
        return self.width > MAX_WIDTH

    @property
    def is_photo(self) -> bool:
        """Whether it is a photo in a format for drawings."""
        return self.kind == "PNG" and self.bytes > _PHOTO * self.width * self.height


def list_shown_images(config: Config, tree: Tree, resolved: ResolvedBook) -> dict[str, Span]:
    """The images of a book, including the cover, with the first place that shows each."""
    shown: dict[str, Span] = {}
    for chapter in resolved.book.chapters:
        for link in chapter.links:
            target = resolved.links[link]
            if link.is_image and isinstance(target, ToFile) and not target.is_folder:
                shown.setdefault(target.path, link.span)
    if config.cover and config.cover_span and tree.find_kind(config.cover) == "file":
        shown.setdefault(config.cover, config.cover_span)
    return shown


def find_large(tree: Tree, path: str) -> LargeImage | None:
    """The size of an image if it is large; None if it is not or cannot be read. Reads only headers,
    and nothing of small files."""
    try:
        size = (tree.root / path).stat().st_size
    except OSError:
        return None
    if size <= _LOOKED_AT or path.lower().endswith(".svg"):
        return None
    from PIL import Image  # most books have no large files

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        try:
            with Image.open(tree.root / path) as image:
                large = LargeImage(path, size, *image.size, image.format or "")
        except (OSError, ValueError, SyntaxError, struct.error, Image.DecompressionBombError):
            return None
    return large if size > MAX_BYTES or large.is_wide else None
