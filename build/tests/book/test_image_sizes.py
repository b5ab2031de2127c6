"""Large images: which are told, and that shrinking one changes nothing that a reader sees."""

from __future__ import annotations

import io
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bindery.book.image_sizes import MAX_WIDTH, find_large, shrink_image, shrink_images
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


def _draw(size: tuple[int, int] = (700, 500)) -> Image.Image:
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    for number in range(40):
        draw.line((0, 9 * number, size[0], 300 - 5 * number), fill=(6 * number, 0, 99))
    return image


@pytest.mark.parametrize("mode", ["RGB", "RGBA"])
def test_a_drawing_gets_a_palette_and_keeps_every_pixel(mode: str) -> None:
    """Packing a drawing better loses no colour and no shade of transparency."""
    image = _draw().convert(mode)
    if mode == "RGBA":
        image.putalpha(Image.linear_gradient("L").resize(image.size).point(lambda v: v & 0xC0))
    data = _save(image)
    smaller = shrink_image(data)

    assert len(smaller) < len(data)
    assert _open(smaller).mode == "P"
    assert _open(smaller).convert("RGBA").tobytes() == image.convert("RGBA").tobytes()


def test_grey_and_opaque_pixels_are_packed_as_such() -> None:
    """Colours that are greys, and transparency that is none, take no room."""
    grey = _make_noise(300, 200, "L")
    smaller = shrink_image(_save(grey.convert("RGBA")))

    assert _open(smaller).mode == "L"
    assert _open(smaller).tobytes() == grey.tobytes()


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


@given(st.integers(MAX_WIDTH + 1, 4 * MAX_WIDTH), st.integers(1, 60), st.sampled_from(("L", "RGB")))
def test_a_wide_image_keeps_its_proportions(width: int, height: int, mode: str) -> None:
    """An image that is scaled is as wide as allowed, as high as it should be, and no larger."""
    data = _save(Image.linear_gradient("L").resize((width, height)).convert(mode))
    smaller = shrink_image(data)

    assert len(smaller) <= len(data)
    if smaller != data:
        size = _open(smaller).size
        assert size[0] in (MAX_WIDTH, width)
        assert abs(size[1] - height * size[0] / width) <= 1


@pytest.mark.parametrize(("kind", "settings"), [("PNG", {}), ("JPEG", {"quality": 95})])
def test_shrinking_twice_is_shrinking_once(kind: str, settings: dict[str, object]) -> None:
    """What has been shrunk is left alone from then on, so that no quality is lost again."""
    data = _save(_make_noise(3000, 200).resize((3000, 300)), kind, **settings)
    smaller = shrink_image(data)

    assert len(smaller) < len(data)
    assert _open(smaller).size == (2400, 240)
    assert shrink_image(smaller) == smaller


def test_a_photo_that_is_turned_stays_turned() -> None:
    """Orientation, profile and the kind of file of a scaled photo are those of the original."""
    exif = Image.Exif()
    exif[0x0112] = 6
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    image = _make_noise(1200, 3600)
    data = _save(image, "JPEG", quality=95, exif=exif, icc_profile=profile)
    smaller = _open(shrink_image(data))

    # Turned it is 3600 wide, so its height in the file is what shrinks to the cap.
    assert smaller.size == (800, 2400)
    assert smaller.format == "JPEG"
    assert smaller.getexif()[0x0112] == 6
    assert smaller.info["icc_profile"] == profile


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
        b"",
    ],
    ids="gif apng webp jpeg cmyk svg cut text empty".split(),
)
def test_what_could_be_spoilt_is_left_alone(data: bytes) -> None:
    """Animations, drawings, files that break off, and what fits are not touched."""
    assert shrink_image(data) == data


def test_images_are_written_only_when_asked(tmp_path: Path) -> None:
    """The same images are named either way; only `write` changes a file, and a second time there
    is nothing to do."""
    data = _save(_draw())
    (tmp_path / "a.png").write_bytes(data)
    (tmp_path / "a.png").chmod(0o640)
    (tmp_path / "b.svg").write_text("<svg/>")
    tree = Tree(tmp_path)
    told = shrink_images(tree, ["a.png", "b.svg", "a.png"], write=False)

    assert [(s.path, s.before) for s in told] == [("a.png", len(data))]
    assert (tmp_path / "a.png").read_bytes() == data
    assert shrink_images(tree, ["a.png"], write=True) == told
    assert (tmp_path / "a.png").stat().st_size == told[0].after
    assert (tmp_path / "a.png").stat().st_mode & 0o777 == 0o640
    assert shrink_images(tree, ["a.png"], write=True) == []


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
    """Those that the book shows; with --check it only says so."""
    large = _save(_make_noise(MAX_WIDTH + 400, 300))
    root = make_book({"a.md": "# A\n\n![Noise](p.png)\n", "p.png": large})
    assert run_bindery("format", "--images", "--check", folder=root).status == 1
    assert (root / "p.png").read_bytes() == large
    ended = run_bindery("format", "--images", folder=root)
    assert ended.status == 0, ended.stderr
    assert _open((root / "p.png").read_bytes()).width <= MAX_WIDTH
