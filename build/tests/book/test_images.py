"""Which images are reported as large."""

import random
from pathlib import Path

from bindery.book.images import find_large
from bindery.core.repository import Tree
from PIL import Image


def _make_noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    pixels = random.Random(1).randbytes(width * height * len(mode))
    return Image.frombytes(mode, (width, height), pixels)


def test_an_image_is_large_by_bytes_or_by_width(tmp_path: Path) -> None:
    """Half a megabyte is large at any size, and a tenth of that where it is too wide to be seen;
    a small file may be as wide as it likes."""
    _make_noise(500, 400).save(tmp_path / "photo.png")
    _make_noise(2500, 60, "L").save(tmp_path / "wide.png")
    _make_noise(300, 400, "L").save(tmp_path / "fits.png")
    _make_noise(2500, 90).save(tmp_path / "wide.jpg", quality=95)
    _make_noise(400, 400).save(tmp_path / "fits.jpg", quality=95)
    Image.new("L", (9000, 50)).save(tmp_path / "blank.png")
    (tmp_path / "text.png").write_bytes(b"x" * 600_000)
    tree = Tree(tmp_path)
    photo = find_large(tree, "photo.png")
    assert photo is not None
    assert (photo.is_wide, photo.is_photo, photo.width) == (False, True, 500)
    for name in ("wide.png", "wide.jpg"):
        wide = find_large(tree, name)
        assert wide is not None
        assert wide.is_wide
    for name in ("fits.png", "fits.jpg", "blank.png", "text.png", "none.png"):
        assert find_large(tree, name) is None
