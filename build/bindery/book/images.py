"""The images that a book shows, their sizes, and which are larger than any output shows them."""

from __future__ import annotations

import io
import re
import struct
import warnings
from collections.abc import Iterable, Iterator

from msgspec import Struct

from bindery.core.config import Config
from bindery.core.model import Link, ResolvedBook, Span, ToFile
from bindery.core.repository import Tree
from bindery.markdown.prose import read_diagrams

MAX_BYTES = 500_000
"""An image of this many bytes is large whatever it shows: many times the text of a chapter."""
MAX_WIDTH = 2400
"""An image of more pixels is too wide: the site's widest column at two device pixels per CSS pixel.
Ebooks show 1,600."""
_LOOKED_AT = 100_000
"""Smaller files are not opened."""
_BEGINNING = 65_536
"""Bytes read for the header, which is rarely longer."""
_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""The JPEG markers that height and width follow: ITU-T T.81, table B.1."""
_PHOTO = 0.6
"""A PNG with more bytes per pixel must be a photo: drawings need a third of this."""
_Sizes = tuple[tuple[int, int], ...]
"""One size, or none."""
_SVG = re.compile(rb"<svg\b[^>]*>")
_SIDE = re.compile(rb"""\s(width|height)=["'](\d+(?:\.\d+)?)(?:px|(pt))?["']""")


class LargeImage(Struct, frozen=True):
    """An image that is larger than needed, in bytes and pixels."""

    path: str
    bytes: int
    width: int
    height: int

    @property
    def is_wide(self) -> bool:
        return self.width > MAX_WIDTH

    @property
    def is_png(self) -> bool:
        return self.path.lower().endswith(".png")

    @property
    def is_photo(self) -> bool:
        """Whether it is a photo in a format for drawings."""
        return self.is_png and self.bytes > _PHOTO * self.width * self.height


def list_images(resolved: ResolvedBook) -> Iterator[tuple[Link, str]]:
    """The image links of a book and the files that they show where no browser chooses."""
    for chapter in resolved.book.chapters:
        for link in chapter.links:
            target = resolved.find_target(link)
            is_shown = link.is_image and not link.is_alternative
            if is_shown and isinstance(target, ToFile) and not target.is_folder:
                yield link, target.path
        for fence in read_diagrams(chapter):
            if path := resolved.drawings.get(fence.code):
                yield Link(path, path, fence.opening, "image", fence.code), path


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
    """The size of an image if it is large; None if it is not or cannot be read. Small files are
    not opened."""
    try:
        count = tree.measure(path)
    except OSError:
        return None
    if count <= _LOOKED_AT or path.lower().endswith(".svg"):
        return None
    sides = _read_header(tree.read_beginning(path, _BEGINNING))
    if sides and count <= MAX_BYTES and max(sides) <= MAX_WIDTH:
        return None
    for size in read_sizes(tree, (path,)).values():
        large = LargeImage(path, count, *size)
        if count > MAX_BYTES or large.is_wide:
            return large
    return None


def read_sizes(tree: Tree, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Width and height in pixels of pictures as they are shown; not of drawings that fit into any
    room, and not of what cannot be read."""
    sizes = {}
    for path in set(paths):
        if tree.find_kind(path) == "file":
            beginning = tree.read_beginning(path, _BEGINNING)
            may_be_turned = b"Exif" in beginning or b"eXIf" in beginning
            plain = None if may_be_turned else _read_header(beginning)
            read = _read_drawing if path.lower().endswith(".svg") else _read_picture
            for size in (plain,) if plain else tree.derive(path, "size", _Sizes, read):
                sizes[path] = size
    return sizes


def _read_header(beginning: bytes) -> tuple[int, int] | None:
    """Stored width and height of a PNG or JPEG; None if its first bytes do not say. Most books then
    do without Pillow, which takes longer to load than a chapter takes to check."""
    if beginning[:16] == b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" and len(beginning) >= 24:
        width, height = struct.unpack(">II", beginning[16:24])
        return width, height
    at = 2 if beginning.startswith(b"\xff\xd8") else len(beginning)
    while at + 9 <= len(beginning) and beginning[at] == 0xFF:
        marker, length = struct.unpack(">xBH", beginning[at : at + 4])
        if marker in _FRAMES:
            height, width = struct.unpack(">HH", beginning[at + 5 : at + 9])
            return width, height
        at += 2 + length
    return None


def _read_drawing(content: bytes) -> _Sizes:
    root = _SVG.search(content)
    found = _SIDE.findall(root[0]) if root else ()
    sides = {side: round(float(value) * (4 / 3 if pt else 1)) for side, value, pt in found}
    return ((sides[b"width"], sides[b"height"]),) if len(sides) == 2 else ()


def _read_picture(content: bytes) -> _Sizes:
    # Imported here: few pictures need it.
    from PIL import ExifTags, Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content)) as image:
                width, height = image.size
                # That of PngImageFile decodes the picture to look for a block behind it.
                exif = Image.Image.getexif(image)
                is_on_its_side = exif.get(ExifTags.Base.Orientation, 1) >= 5
    except (OSError, ValueError, SyntaxError, struct.error, Image.DecompressionBombError):
        return ()
    return ((height, width) if is_on_its_side else (width, height),)
