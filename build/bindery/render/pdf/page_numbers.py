"""Page numbers after links and in the table of contents of the PDF.

The style sheet `pdf.css` puts the word PAGE after each link inside the book, and `Typesetter`
lays the book out with as many zeros there as the largest number has digits. Here the real digits
replace the zeros. The engine's own `target-counter` lays out every page with a link again: for
541 pages of this book it takes 144 s of CPU time instead of 65 s.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from weasyprint.anchors import gather_anchors
from weasyprint.formatting_structure import boxes
from weasyprint.text.line_break import line_size


def find_page_numbers(pages: Sequence[Any], first: int = 1) -> dict[str, int]:
    """The page of each anchor, counted from that of the first."""
    return {
        anchor: number
        for number, page in reversed(list(enumerate(pages, first)))
        for anchor in page.anchors
    }


def write_page_numbers(pages: Sequence[Any], numbers: Mapping[str, int]) -> None:
    """Replace the zeros after links with the page numbers of their targets."""
    for page in pages:
        if _write_numbers_into(page._page_box, numbers):
            page.links.clear()
            gather_anchors(page._page_box, {}, page.links, [], {None: []})


_ZEROS = re.compile(r"(?<!\d)0+(?!\d)")
_FIGURE_SPACE = "\u2007"
_BEGIN_LEFT = frozenset(("start", "left", "justify"))


def _write_numbers_into(box: Any, numbers: Mapping[str, int]) -> bool:
    """Write the numbers below a box; returns whether anything has moved."""
    if isinstance(box, boxes.LineBox) and box.style["text_align_all"] in _BEGIN_LEFT:
        return _close_line_up(box, numbers, 0.0) > 0
    found = _read_number(box, numbers)
    if found is None:
        moves = [_write_numbers_into(child, numbers) for child in box.all_children()]
        return any(moves)
    zeros, number = found
    missing = len(zeros) - len(number)
    if box.text == zeros:  # in the table of contents, numbers end at the margin
        box.position_x += box.width * (missing / len(zeros))
        text = number
    else:  # where the line cannot be closed up, the room goes before the parenthesis
        text = box.text.replace(zeros, number)
        if missing:
            text = _FIGURE_SPACE * missing + text.lstrip("\N{NO-BREAK SPACE}")
    box.text = box.pango_layout.text = text
    return False


def _close_line_up(box: Any, numbers: Mapping[str, int], moved: float) -> float:
    """Write the numbers into a piece of a line that moves left by so much. Returns by how much
    what follows moves: the room of zeros that are not needed goes to the end of the line."""
    if not isinstance(box, boxes.TextBox | boxes.InlineBox | boxes.LineBox):
        if moved:
            box.translate(-moved, 0)
        _write_numbers_into(box, numbers)
        return moved
    box.position_x -= moved
    taken = 0.0
    found = _read_number(box, numbers)
    if found is not None and box.text == found[0]:
        _write_numbers_into(box, numbers)
    elif found is not None:
        box.text = box.text.replace(*found)
        taken = max(box.width - _measure_text(box), 0.0)
    elif not isinstance(box, boxes.TextBox):
        for child in box.children:
            taken = _close_line_up(child, numbers, moved + taken) - moved
    box.width -= taken
    return moved + taken


def _measure_text(box: Any) -> float:
    """How wide the text of a box is, which is put into its layout."""
    layout = box.pango_layout
    layout.text = box.text
    layout.reactivate(box.style)
    width, _ = line_size(layout.get_first_line()[0], box.style)
    layout.deactivate()
    return float(width)


def _read_number(box: Any, numbers: Mapping[str, int]) -> tuple[str, str] | None:
    """The zeros in a box and the number that belongs there, if it is that beside a link."""
    if box.element_tag != "a::after" or not hasattr(box, "pango_layout"):
        return None
    zeros = _ZEROS.search(box.text)
    if zeros is None:
        return None
    return zeros[0], str(numbers.get(unquote(box.element.get("href", "#")[1:]), "?"))
