"""The images that a book shows, and how large they are."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator

from bindery.core.model import Link, ResolvedBook, ToFile
from bindery.core.repository import Tree
from bindery.markdown.prose import read_diagrams

_SVG = re.compile(rb"<svg\b[^>]*>")
_SIDE = re.compile(rb"""\s(width|height)=["'](\d+(?:\.\d+)?)(?:px|(pt))?["']""")


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


def read_sizes(tree: Tree, paths: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Width and height in pixels of pictures as they are shown; not of drawings that fit into any
    room, and not of what cannot be read."""
    sizes = {}
    for path in set(paths):
        if tree.find_kind(path) == "file":
            read = _read_drawing if path.lower().endswith(".svg") else _read_picture
            for size in tree.derive(path, "size", tuple[tuple[int, int], ...], read):
                sizes[path] = size
    return sizes


def _read_drawing(content: bytes) -> tuple[tuple[int, int], ...]:
    root = _SVG.search(content)
    found = _SIDE.findall(root[0]) if root else ()
    sides = {side: round(float(value) * (4 / 3 if pt else 1)) for side, value, pt in found}
    return ((sides[b"width"], sides[b"height"]),) if len(sides) == 2 else ()


def _read_picture(content: bytes) -> tuple[tuple[int, int], ...]:
    # Imported here: the cache knows the sizes of most pictures.
    from PIL import ExifTags, Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(content)) as image:
            width, height = image.size
            # That of PngImageFile decodes the picture to look for a block behind it.
            exif = Image.Image.getexif(image)
            is_on_its_side = exif.get(ExifTags.Base.Orientation, 1) >= 5
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError):
        return ()
    return ((height, width) if is_on_its_side else (width, height),)
