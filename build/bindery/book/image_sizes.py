"""Images that are larger than any output shows them, and how they become smaller.

An image keeps its name, its format and its look: first it is packed better without losing a
colour, and only one that is too wide is scaled. SVG, animations and what cannot be read are left as
they are, and so is whatever would not become smaller.
"""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bindery.core.config import Config
from bindery.core.model import ResolvedBook, Span, ToFile
from bindery.core.repository import Tree

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_BYTES = 500_000
"""Bytes from which an image is large, whatever it shows: as much as a chapter of text, many times
over."""
MAX_WIDTH = 2400
"""Pixels beyond which an image is too wide: the widest column of the site, on a screen with two
dots for each pixel. The ebooks show 1,600."""
SCALED_KINDS = ("PNG", "JPEG", "WEBP")
"""The formats whose images are scaled; those of others are left as they are."""
_LOOKED_AT = 100_000
"""Bytes below which an image is not opened: no scaling is worth the look."""
_WORTH = 0.95
"""The part of the bytes that may be left for a change to be worth a commit."""
_JPEG_QUALITY = 88
_PHOTO = 0.6
"""Bytes a pixel from which a PNG must be a photo: drawings take a third of this."""
_UNSEEN = 1.0
"""Steps of 255 by which the colours of a scaled image may be off on average."""
_EXACT_MODES = ("1", "L", "LA", "P", "RGB", "RGBA")


@dataclass(frozen=True, slots=True)
class LargeImage:
    """An image that is larger than it need be, by its header."""

    path: str
    bytes: int
    width: int
    height: int
    kind: str
    """Its format in capitals: PNG, JPEG."""

    @property
    def is_wide(self) -> bool:
        return self.width > MAX_WIDTH

    @property
    def is_photo(self) -> bool:
        """Whether it is a photo in a format that is made for drawings."""
        return self.kind == "PNG" and self.bytes > _PHOTO * self.width * self.height

    @property
    def enough(self) -> tuple[int, int]:
        """The width and height that suffice."""
        return _fit(self.width, self.height)


def list_shown_images(config: Config, tree: Tree, resolved: ResolvedBook) -> dict[str, Span]:
    """The images of a book, its cover among them, each with the first place that shows it."""
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
    """The size of an image if it is large; None if it is not, or cannot be read. Only headers are
    read, and those of small files not at all."""
    try:
        size = (tree.root / path).stat().st_size
    except OSError:
        return None
    if size <= _LOOKED_AT or path.lower().endswith(".svg"):
        return None
    try:
        with _open(tree.root / path) as image:
            large = LargeImage(path, size, *image.size, image.format or "")
    except _list_errors():
        return None
    return large if size > MAX_BYTES or large.is_wide else None


def shrink_image(data: bytes) -> bytes:
    """The same image in fewer bytes, at most as wide as an output shows it; `data` itself where
    nothing worth it can be gained."""
    from PIL import ImageFile

    # WeasyPrint tells Pillow to accept images that break off; saved, one would look whole.
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    try:
        with _open(io.BytesIO(data)) as image:
            if getattr(image, "n_frames", 1) > 1:
                return data
            image.load()
            candidates = list(_list_candidates(image))
    except _list_errors():
        return data
    smallest = min(candidates, key=len, default=data)
    return smallest if len(smallest) <= _WORTH * len(data) else data


def _list_errors() -> tuple[type[Exception], ...]:
    """What Pillow raises for files that it cannot, or will not, read."""
    from PIL import Image

    return (
        OSError,
        ValueError,
        SyntaxError,
        struct.error,
        Image.DecompressionBombError,
    )


@contextmanager
def _open(file: Path | io.BytesIO) -> Iterator[Image]:
    """An image, however many pixels it has up to what Pillow refuses to open."""
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        with Image.open(file) as image:
            yield image


def _fit(width: int, height: int) -> tuple[int, int]:
    if width <= MAX_WIDTH:
        return width, height
    return MAX_WIDTH, max(1, round(height * MAX_WIDTH / width))


def _list_candidates(image: Image) -> Iterator[bytes]:
    """The image packed again, in each way that keeps its look."""
    is_wide = image.width > MAX_WIDTH
    match image.format:
        case "PNG" if image.mode in _EXACT_MODES:
            plain = _scale(image)
            yield _save(plain, image, optimize=True)
            palette = _use_palette(plain)
            if _find_difference(palette, plain) <= (_UNSEEN if is_wide else 0):
                yield _save(palette, image, optimize=True)
        case "JPEG" if is_wide and image.mode in ("L", "RGB"):
            yield _save(
                _scale(image), image, quality=_JPEG_QUALITY, progressive=True, optimize=True
            )
        case "WEBP" if is_wide:
            yield _save(_scale(image), image, quality=_JPEG_QUALITY, method=6)


def _scale(image: Image) -> Image:
    """The image without a palette and no wider than outputs show it; the channel of opacity goes
    where all of it is opaque."""
    from PIL import Image

    whole = image.convert("RGBA")
    is_opaque = whole.getchannel("A").getextrema() == (255, 255)
    mode = "RGBA" if not is_opaque else "L" if image.mode in ("1", "L", "LA") else "RGB"
    plain, size = whole.convert(mode), _fit(*image.size)
    return plain if size == image.size else plain.resize(size, Image.Resampling.LANCZOS)


def _use_palette(image: Image) -> Image:
    from PIL import Image

    method = Image.Quantize.FASTOCTREE if image.mode == "RGBA" else Image.Quantize.MEDIANCUT
    return image.quantize(256, method, dither=Image.Dither.NONE)


def _find_difference(one: Image, other: Image) -> float:
    """How far two images are from each other, on average, in the worst channel."""
    from PIL import ImageChops, ImageStat

    difference = ImageChops.difference(one.convert("RGBA"), other.convert("RGBA"))
    return max(ImageStat.Stat(difference).mean)


def _save(image: Image, original: Image, **settings: object) -> bytes:
    """The file of an image in the format of the original, with its colour profile, orientation and
    size in print."""
    kept = {key: original.info.get(key) for key in ("icc_profile", "exif", "dpi")}
    kept = {key: value for key, value in kept.items() if value}
    buffer = io.BytesIO()
    image.save(buffer, original.format, **settings, **kept)
    return buffer.getvalue()
