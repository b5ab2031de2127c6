"""Large images: which are reported, and that shrinking one changes nothing that a reader sees."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bindery.book.image_sizes import MAX_WIDTH, find_large, shrink_image
from bindery.core.repository import Tree
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageCms, ImageDraw

if TYPE_CHECKING:
    from conftest import BookMaker, Runner


def _save(image: Image.Image, kind: str = "PNG", **settings: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **settings)
    return buffer.getvalue()


def _open(data: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(data))
    image.load()
    return image


def _make_noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    parts = {"L": 1, "RGB": 3, "RGBA": 4}[mode]
    return Image.frombytes(
        mode, (width, height), random.Random(1).randbytes(width * height * parts)
    )


def _draw() -> Image.Image:
    image = Image.new("RGB", (700, 500), "white")
    draw = ImageDraw.Draw(image)
    for number in range(40):
        draw.line((0, 9 * number, 700, 300 - 5 * number), fill=(6 * number, 0, 99))
    return image


def test_a_drawing_gets_a_palette_and_keeps_every_pixel() -> None:
    """Packing a drawing better loses no colour, and transparency that is none takes no room."""
    data = _save(_draw().convert("RGBA"))
    smaller = shrink_image(data)
    assert len(smaller) < len(data)
    assert _open(smaller).mode == "P"
    assert _open(smaller).convert("RGB").tobytes() == _draw().tobytes()


@given(
    st.sampled_from(("1", "L", "LA", "P", "RGB", "RGBA", "I;16")),
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(0, 2**32),
)
def test_no_pixel_of_an_image_that_fits_changes(
    mode: str, width: int, height: int, seed: int
) -> None:
    """Whatever is not too wide is the same image afterwards, in no more bytes."""
    source = random.Random(seed)
    few = [source.randbytes(4) for _ in range(source.randint(1, 400))]
    pixels = b"".join(source.choice(few) for _ in range(width * height))
    image = Image.frombytes("RGBA", (width, height), pixels)
    data = _save(Image.new(mode, (width, height), 7) if mode == "I;16" else image.convert(mode))
    smaller = shrink_image(data)
    assert len(smaller) <= len(data)
    assert _open(smaller).convert("RGBA").tobytes() == _open(data).convert("RGBA").tobytes()


@pytest.mark.parametrize(("kind", "settings"), [("PNG", {}), ("JPEG", {"quality": 95})])
def test_a_wide_image_is_shrunk_once(kind: str, settings: dict[str, object]) -> None:
    """It keeps proportions and colour profile, and is left alone from then on, so that no quality
    is lost again."""
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    data = _save(_make_noise(3000, 300), kind, icc_profile=profile, **settings)
    smaller = shrink_image(data)
    assert len(smaller) < len(data)
    assert (_open(smaller).format, _open(smaller).size) == (kind, (2400, 240))
    assert _open(smaller).info["icc_profile"] == profile
    assert shrink_image(smaller) == smaller


def test_transparency_survives_scaling() -> None:
    """What was transparent is transparent in the scaled image too."""
    image = _make_noise(3000, 100, "RGBA")
    image.putalpha(0)
    image.paste((200, 30, 30, 255), (0, 0, 1500, 100))
    smaller = _open(shrink_image(_save(image))).convert("RGBA")
    assert smaller.width == MAX_WIDTH
    assert smaller.getpixel((100, 40)) == (200, 30, 30, 255)
    assert smaller.getpixel((2300, 40))[3] == 0


def _make_animation(kind: str) -> bytes:
    frames = [Image.new("RGB", (2600, 30), (40 * n, 9, 9)) for n in range(4)]
    return _save(frames[0], kind, save_all=True, append_images=frames[1:], duration=50)


@pytest.mark.parametrize(
    "data",
    [
        _make_animation("GIF"),
        _make_animation("PNG"),
        _make_animation("WEBP"),
        _save(_make_noise(400, 300), "JPEG"),
        _save(_make_noise(3000, 30).convert("CMYK"), "JPEG"),
        b'<svg xmlns="http://www.w3.org/2000/svg" width="9000"></svg>',
        _save(_draw())[:-200],
        b"no image",
    ],
    ids="gif apng webp jpeg cmyk svg cut text".split(),
)
def test_what_could_be_spoilt_is_left_alone(data: bytes) -> None:
    """Animations, drawings, files that break off, and what fits are not touched."""
    assert shrink_image(data) == data


def test_an_image_is_large_by_bytes_or_by_width(tmp_path: Path) -> None:
    """Half a megabyte is large at any size, and a tenth of that where it is too wide to be seen;
    a small file may be as wide as it likes."""
    (tmp_path / "photo.png").write_bytes(_save(_make_noise(500, 400)))
    (tmp_path / "wide.png").write_bytes(_save(_make_noise(2500, 60, "L")))
    (tmp_path / "fits.png").write_bytes(_save(_make_noise(300, 400, "L")))
    (tmp_path / "blank.png").write_bytes(_save(Image.new("L", (9000, 50))))
    (tmp_path / "text.png").write_bytes(b"x" * 600_000)
    tree = Tree(tmp_path)
    photo, wide = find_large(tree, "photo.png"), find_large(tree, "wide.png")
    assert photo is not None
    assert (photo.is_wide, photo.is_photo, photo.width) == (False, True, 500)
    assert wide is not None
    assert (wide.is_wide, wide.enough) == (True, (2400, 58))
    for name in ("fits.png", "blank.png", "text.png", "none.png"):
        assert find_large(tree, name) is None


def test_format_shrinks_large_images(make_book: BookMaker, run_bindery: Runner) -> None:
    """Those that the book shows, permissions kept; with --check it only says so."""
    large = _save(_make_noise(MAX_WIDTH + 400, 300))
    root = make_book({"a.md": "# A\n\n![Noise](p.png)\n", "p.png": large})
    (root / "p.png").chmod(0o640)
    assert run_bindery("format", "--images", "--check", folder=root).status == 1
    assert (root / "p.png").read_bytes() == large
    ended = run_bindery("format", "--images", folder=root)
    assert ended.status == 0, ended.stderr
    assert _open((root / "p.png").read_bytes()).width <= MAX_WIDTH
    assert (root / "p.png").stat().st_mode & 0o777 == 0o640
