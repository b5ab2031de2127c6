"""Images that are larger than any output shows them, and how they become smaller.

An image keeps its name, its format and its look: first it is packed better without losing a
colour, and only one that is too wide is scaled. SVG, animations and what cannot be read are left as
they are, and so is whatever would not become smaller.
"""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

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
"""Steps of 255 by which the colours of a scaled image may be off on the average."""
_TURNED = 5
"""Orientations in EXIF from which width and height change places."""
_ORIENTATION = 0x0112
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


@dataclass(frozen=True, slots=True)
class Shrunk:
    """What became of an image, in bytes."""

    path: str
    before: int
    after: int


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
    """What there is to say of an image that is large; None of one that is not, or that cannot be
    read. Only headers are read, and those of small files not at all."""
    try:
        size = (tree.root / path).stat().st_size
    except OSError:
        return None
    if size <= _LOOKED_AT or path.lower().endswith(".svg"):
        return None
    try:
        with _open(tree.root / path) as image:
            width, height = _find_shown_size(image)
            kind = image.format or ""
    except _list_errors():
        return None
    if size <= MAX_BYTES and width <= MAX_WIDTH:
        return None
    return LargeImage(path, size, width, height, kind)


def shrink_images(tree: Tree, paths: Iterable[str], *, write: bool) -> list[Shrunk]:
    """The images among `paths` that become smaller, and by how much; with `write` they are.

    Raises OSError where a file cannot be read or written.
    """
    # Imported here: looking for large images writes nothing.
    from bindery.core.whole_files import write_whole

    shrunk = []
    for path in dict.fromkeys(paths):
        data = tree.read_bytes(path)
        smaller = shrink_image(data)
        if len(smaller) < len(data):
            shrunk.append(Shrunk(path, len(data), len(smaller)))
            if write:
                file = (tree.root / path).resolve()
                mode = file.stat().st_mode
                write_whole(file, smaller)
                file.chmod(mode)
    return shrunk


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


def _find_shown_size(image: Image) -> tuple[int, int]:
    """Width and height as they are seen: a camera held upright turns its photos in EXIF only."""
    width, height = image.size
    if image.format == "JPEG" and image.getexif().get(_ORIENTATION, 1) >= _TURNED:
        return height, width
    return width, height


def _fit(width: int, height: int) -> tuple[int, int]:
    if width <= MAX_WIDTH:
        return width, height
    return MAX_WIDTH, max(1, round(height * MAX_WIDTH / width))


def _list_candidates(image: Image) -> Iterator[bytes]:
    """The image packed again, in each way that keeps its look."""
    shown = _find_shown_size(image)
    wanted = _fit(*shown)
    is_turned = shown != image.size
    size = wanted[::-1] if is_turned else wanted
    match image.format:
        case "PNG" if image.mode in _EXACT_MODES:
            scaled = image if wanted == shown else _scale(image, size)
            pixels = scaled.convert("RGBA").tobytes()
            for packed in (scaled, *_list_leaner(scaled)):
                saved = _save_png(packed, image)
                if _read_pixels(saved) == pixels:
                    yield saved
            if scaled is not image:
                saved = _save_png(_take_few_colours(scaled), image)
                if _find_difference(saved, scaled) <= _UNSEEN:
                    yield saved
        case "JPEG" if wanted != shown and image.mode in ("L", "RGB"):
            yield _save_photo(_scale(image, size), image, "JPEG", progressive=True, optimize=True)
        case "WEBP" if wanted != shown:
            yield _save_photo(_scale(image, size), image, "WEBP", method=6)


def _scale(image: Image, size: tuple[int, int]) -> Image:
    from PIL import Image

    whole = image.convert("RGBA")
    is_opaque = whole.getchannel("A").getextrema() == (255, 255)
    mode = "RGBA" if not is_opaque else "L" if image.mode in ("1", "L", "LA") else "RGB"
    return whole.convert(mode).resize(size, Image.Resampling.LANCZOS)


def _list_leaner(image: Image) -> Iterator[Image]:
    """The image with less for each pixel. Not all of them show the same."""
    if image.mode == "RGBA":
        yield image.convert("RGB")
    if image.mode in ("RGB", "RGBA", "LA") and "transparency" not in image.info:
        yield image.convert("L")
        if image.mode != "LA" and image.getcolors(256) is not None:
            yield _use_palette(image)


def _take_few_colours(image: Image) -> Image:
    """A scaled image with a palette: between the lines of a drawing scaling has made shades by the
    hundred."""
    from PIL import Image

    method = Image.Quantize.FASTOCTREE if image.mode == "RGBA" else Image.Quantize.MEDIANCUT
    return image.quantize(256, method, dither=Image.Dither.NONE)


def _find_difference(data: bytes, image: Image) -> float:
    """How far the saved image is from another, on the average of its worst channel."""
    from PIL import ImageChops, ImageStat

    with _open(io.BytesIO(data)) as saved:
        difference = ImageChops.difference(saved.convert("RGBA"), image.convert("RGBA"))
    return max(ImageStat.Stat(difference).mean)


def _read_pixels(data: bytes) -> bytes:
    with _open(io.BytesIO(data)) as image:
        return image.convert("RGBA").tobytes()


def _use_palette(image: Image) -> Image:
    """The image with a palette of its own colours; it has at most 256."""
    from PIL import Image

    pixels = cast("tuple[tuple[int, ...], ...]", image.get_flattened_data())
    palette = sorted(set(pixels))
    number = {colour: index for index, colour in enumerate(palette)}
    packed = Image.new("P", image.size)
    packed.putdata([number[pixel] for pixel in pixels])
    packed.putpalette([part for colour in palette for part in colour], image.mode)
    return packed


def _keep(original: Image) -> dict[str, object]:
    """What belongs to an image beside its pixels: colours, orientation, size in print."""
    kept = {key: original.info.get(key) for key in ("icc_profile", "exif", "dpi")}
    return {key: value for key, value in kept.items() if value}


def _save_png(image: Image, original: Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True, **_keep(original))
    return buffer.getvalue()


def _save_photo(image: Image, original: Image, kind: str, **settings: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, quality=_JPEG_QUALITY, **settings, **_keep(original))
    return buffer.getvalue()
