"""Images for the ebooks: scale down what is larger than a page can show, once for PDF and EPUB.

Prepared images are cached next to the outputs under the hash of the original, so the second ebook
and the next build reuse them.
"""

from __future__ import annotations

import hashlib
import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from msgspec import Struct
from PIL import Image, ImageFile, UnidentifiedImageError

from bindery.book.images import list_images
from bindery.core.config import Config
from bindery.core.model import BookError, Finding, ResolvedBook
from bindery.core.repository import Tree
from bindery.core.whole_files import write_whole

MAX_PIXELS = 1600
"""Longest side: 170 mm of type at 240 dots per inch."""
_VERSION = "1"
_KEPT_FORMATS = ("PNG", "JPEG")


class Prepared(Struct, frozen=True):
    """An image prepared for an ebook. Width and height are in pixels, None for drawings in SVG.

    `name` depends only on the content, so that an output does not depend on where it was built.
    """

    name: str
    path: Path
    width: int | None
    height: int | None


def gather_images(
    tree: Tree, resolved: ResolvedBook, config: Config, cache: Path, *, lenient: bool
) -> tuple[dict[str, Prepared], list[Finding]]:
    """The prepared images of a book by path, its cover among them, and what cannot be read.

    Raises BookError if something cannot be read, unless the build is lenient.
    """
    places = [(link.span, path) for link, path in list_images(resolved)]
    # A missing cover has been reported.
    if config.cover_span is not None and tree.find_kind(config.cover) == "file":
        places.append((config.cover_span, config.cover))
    paths = sorted({path for _, path in places})
    cache.mkdir(parents=True, exist_ok=True)
    # WeasyPrint makes Pillow accept truncated images; here they are reported.
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    with ThreadPoolExecutor() as pool:
        found = pool.map(lambda path: _prepare(tree.root / path, cache), paths)
        results = dict(zip(paths, found, strict=True))
    images = {path: image for path, image in results.items() if isinstance(image, Prepared)}
    unreadable = [
        Finding(
            span,
            "broken-image",
            f"the image '{path}' cannot be read: {results[path]}",
            "save it again or replace it",
        )
        for span, path in places
        if path not in images
    ]
    if unreadable and not lenient:
        raise BookError(*unreadable)
    return images, unreadable


def _prepare(source: Path, cache: Path) -> Prepared | str:
    try:
        data = source.read_bytes()
    except OSError as error:
        return str(error.strerror)
    digest = hashlib.sha256(f"{_VERSION}:{MAX_PIXELS}:".encode() + data).hexdigest()[:24]
    if source.suffix.lower() == ".svg":
        return Prepared(f"{digest}.svg", source, None, None)
    for ready in cache.glob(f"{digest}.*"):
        with Image.open(ready) as image:
            return Prepared(ready.name, ready, *image.size)
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.load()
            ending, content, size = _convert(image, data)
    except UnidentifiedImageError:
        return "the format is unknown"
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        return str(error)
    target = cache / f"{digest}.{ending}"
    write_whole(target, content)
    return Prepared(target.name, target, *size)


def _convert(image: Image.Image, data: bytes) -> tuple[str, bytes, tuple[int, int]]:
    """Extension, bytes and size of the image in an ebook. An image that already fits, in a format
    that every reader supports, is kept byte for byte."""
    fits = max(image.size) <= MAX_PIXELS
    is_opaque = image.mode == "RGBA" and image.getchannel("A").getextrema() == (255, 255)
    if fits and image.format in _KEPT_FORMATS and not is_opaque:
        return image.format.lower().replace("jpeg", "jpg"), data, image.size
    is_photo = image.format in ("JPEG", "MPO")
    converted: Image.Image = image
    if image.mode not in ("RGB", "L", "RGBA"):
        has_alpha = "A" in image.mode or "transparency" in image.info
        converted = image.convert("RGBA" if has_alpha else "RGB")
    if not fits:
        converted.thumbnail((MAX_PIXELS, MAX_PIXELS), Image.Resampling.LANCZOS, reducing_gap=3.0)
    if converted.mode == "RGBA" and converted.getchannel("A").getextrema() == (255, 255):
        converted = converted.convert("RGB")
    buffer = io.BytesIO()
    if is_photo:
        converted.convert("RGB").save(buffer, "JPEG", quality=88, optimize=True)
        return "jpg", buffer.getvalue(), converted.size
    converted.save(buffer, "PNG")
    return "png", buffer.getvalue(), converted.size
