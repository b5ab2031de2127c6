"""What is patched in WeasyPrint: each patch works, and is still needed.

A test that fails after an upgrade with "remove ..." brings good news: the engine has learnt it.
"""

import base64
import io
import re
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree

import pydyf
import pytest
from bindery.render.pdf import engine_patches
from bindery.render.pdf.typesetting import ClosedFetcher, Typesetter, find_package_folder
from bindery.render.text.paper import PAPERS
from PIL import Image
from weasyprint.html import UA
from weasyprint.pdf.tags import _get_pdf_tag
from weasyprint.text import line_break

PARAGRAPH = (
    "<p><strong>CPU cores.</strong> Token ids need no work worth counting. Images do: with 32 "
    "images of 1,024 tokens each per accelerator and an assumed 20 ms of one core per image, a "
    "node spends <code>8 * 32 * 0.02 = 5.1</code> core-seconds on each step.</p>"
)
SVG = "http://www.w3.org/2000/svg"
TOO_EARLY = 147
"""Width of a column in which a line is filled but for the space behind it."""


def lay_out(width: int) -> list[Any]:
    """The lines of the paragraph in a column of so many millimetres."""
    setter = Typesetter(PAPERS["a4"], ClosedFetcher((find_package_folder(),)))
    page = f'<html lang="en"><body style="width: {width}mm">{PARAGRAPH}</body></html>'
    document = setter.lay_out(ElementTree.fromstring(page))
    boxes = document.pages[0]._page_box.descendants()
    return [b for b in boxes if type(b).__name__ == "LineBox" and b.element_tag == "p"]


def find_short_line(widths: Iterable[int]) -> int | None:
    """A width at which a line ends before a word that would still fit on it."""
    for width in widths:
        room = 0.8 * width / 25.4 * 96
        if any(sum(box.width for box in line.children) < room for line in lay_out(width)[:-1]):
            return width
    return None


def test_lines_are_filled() -> None:
    """No line ends before the word that would still fit on it."""
    assert find_short_line((120, 133, TOO_EARLY, 158)) is None


def test_the_engine_still_breaks_lines_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the patch there is a short line."""
    monkeypatch.setattr(engine_patches, "fill_lines", lambda original: original)
    assert find_short_line((TOO_EARLY,)), "WeasyPrint fills its lines: remove fill_lines"


def test_the_engine_still_lacks_our_roles() -> None:
    """It gives no role to an element that HTML does not have."""
    known = [name for name in engine_patches.ROLES if _get_pdf_tag(name) != "NonStruct"]
    assert known == [], f"WeasyPrint has roles for these: remove them from ROLES: {known}"


def test_the_engine_still_lists_all_pages_for_each_box() -> None:
    """Without the patch, two questions for the pages of a PDF get two lists."""
    pdf = pydyf.PDF()
    pdf.add_page(pydyf.Dictionary({"Type": "/Page"}))
    patched = engine_patches.keep_references(pydyf.PDF.page_references).fget
    assert patched is not None
    assert patched(pdf) == pdf.page_references
    assert patched(pdf) is patched(pdf)
    still = pdf.page_references is not pdf.page_references
    assert still, "pydyf keeps the list of pages: remove keep_references"


def count_pieces(attribute: str = "") -> int:
    """How many pieces of text a word of six letters in a drawing is made from."""
    setter = Typesetter(PAPERS["a4"], ClosedFetcher((find_package_folder(),)))
    drawing = f'<svg xmlns="{SVG}"><text y="20"{attribute}>AVATAR</text></svg>'
    document = setter.lay_out(ElementTree.fromstring(f"<html><body>{drawing}</body></html>"))
    with engine_patches.patched_engine({}):
        written = document.write_pdf(uncompressed_pdf=True)
    return int(written.count(b" TJ")) - 1  # the number of the page


def test_a_text_of_a_drawing_is_set_whole() -> None:
    """It is one piece, unless its letters have places of their own."""
    assert count_pieces() == 1
    assert count_pieces(' dx="0 2"') == 6
    assert count_pieces(' letter-spacing="2"') == 6


def test_the_engine_still_sets_each_letter_of_a_drawing_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without the patch a word is six pieces."""
    monkeypatch.setattr(engine_patches, "join_letters", lambda original: original)
    assert count_pieces() == 6, "WeasyPrint sets texts whole: remove join_letters"


def write_page(body: str) -> bytes:
    """The PDF of a page with this body, its streams as they are."""
    setter = Typesetter(PAPERS["a4"], ClosedFetcher((find_package_folder(),)))
    document = setter.lay_out(ElementTree.fromstring(f"<html><body>{body}</body></html>"))
    with engine_patches.patched_engine({}):
        return bytes(document.write_pdf(uncompressed_pdf=True))


STYLED = (
    '<p lang="en">Plain, <b style="letter-spacing: 2pt">spaced</b>, <u>underlined</u>, '
    '<i style="font-variant-numeric: tabular-nums">1,024</i> and plain again.</p>'
)


def count_set_ups(monkeypatch: pytest.MonkeyPatch) -> tuple[int, bytes]:
    """How many pieces of text are set up from a style in ten such paragraphs, and their PDF."""
    described = []
    original = line_break.get_font_description
    with monkeypatch.context() as patch:
        patch.setattr(
            line_break, "get_font_description", lambda s: described.append(s) or original(s)
        )
        written = write_page(10 * STYLED)
    return len(described), written


def test_a_piece_of_text_is_a_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """It looks the same, and few are set up; without the patch each is."""
    few, copied = count_set_ups(monkeypatch)
    monkeypatch.setattr(engine_patches, "copy_layouts", lambda original: original)
    many, plain = count_set_ups(monkeypatch)
    assert copied == plain
    assert few < 10
    assert many > 100, "WeasyPrint keeps what it has set up: remove copy_layouts"


def find_styles() -> set[int]:
    """The styles of two elements with the same attribute `style`, and of what is inside."""
    setter = Typesetter(PAPERS["a4"], ClosedFetcher((find_package_folder(),)))
    body = 2 * '<p style="widows: 3"><b>x</b></p>'
    page = setter.lay_out(ElementTree.fromstring(f"<html><body>{body}</body></html>")).pages[0]
    boxes = page._page_box.descendants()
    return {id(box.style) for box in boxes if box.element_tag in ("p", "b") and box.element}


def test_elements_that_look_alike_share_a_style(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those with the same attribute `style`; without the patch each has its own."""
    shared = len(find_styles())
    monkeypatch.setattr(engine_patches, "share_styles", lambda original: original)
    assert len(find_styles()) > shared, "WeasyPrint shares these styles: remove share_styles"


def test_the_data_of_an_opaque_png_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are in the file; without the patch they are compressed again."""
    file = io.BytesIO()
    Image.effect_noise((64, 48), 90).convert("RGB").save(file, "PNG", compress_level=1)
    data = file.getvalue()
    start = data.index(b"IDAT") + 4
    pixels = data[start : start + int.from_bytes(data[start - 8 : start - 4], "big")]
    body = f'<img alt="noise" src="data:image/png;base64,{base64.b64encode(data).decode()}"/>'
    assert pixels in write_page(body)
    monkeypatch.setattr(engine_patches, "copy_png", staticmethod)
    assert pixels not in write_page(body), "WeasyPrint copies PNG data: remove copy_png"


def test_the_engine_still_gives_each_element_a_marker_and_notes() -> None:
    """A style sheet without them takes a quarter of the memory."""
    rules = re.findall(r"(?m)^::(\S+)", UA)
    assert rules, "WeasyPrint has no such rules: remove _read_defaults"
