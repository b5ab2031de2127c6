"""Paper: page sizes of the PDF, and how much fits across them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from bindery.render.text.table_layout import PageRoom

MARGINS = (25.0, 22.0, 23.0, 22.0)
"""Top, right, bottom and left of the text, in millimetres."""
_POINT = 25.4 / 72
_CODE_SIZE, _CODE_EDGES = 8.0, 6.2
"""Font size of code in points; millimeters of padding and borders, plus the extra width of the mark
of a wrapped line."""
_COLUMN = 0.6
"""Width of a fixed-width character, in em."""
_FEWEST_COLUMNS = 8
"""Minimum columns of a line of code, at any nesting."""
_LOSSES: Mapping[str, tuple[float, float]] = {
    "list": (6.0, 144.0),
    "quote": (4.5, 146.0),
    "alert": (8.9, 154.0),
}
"""Per kind of block around code: the width of its sides, and the maximum width inside, in
millimeters, as in the style sheet."""


class Paper(Struct, frozen=True):
    """A paper size in millimeters. Tables and code are laid out for its width."""

    width: float
    height: float
    margins: tuple[float, ...] = MARGINS

    @property
    def room(self) -> float:
        """The width of the text."""
        return self.width - self.margins[1] - self.margins[3]

    @property
    def code_columns(self) -> int:
        """Characters of code that fit on a line."""
        room = self.room - _CODE_EDGES
        return int(room / (_CODE_SIZE * _COLUMN * _POINT))

    @property
    def table_rooms(self) -> tuple[PageRoom, ...]:
        """Room for tables by font size; the last is a turned page."""
        across = self.room
        turned = self.height - self.margins[1] - self.margins[3]
        return (
            PageRoom("normal", _count_halves(across, 8.5)),
            PageRoom("small", _count_halves(across, 7.8)),
            PageRoom("smaller", _count_halves(across, 7.1)),
            PageRoom("turned", _count_halves(turned, 8.0)),
        )


def narrow_code(columns: int, around: Iterable[str]) -> int:
    """How many characters of a line fit inside lists, quotes and alerts, given from the outermost
    to the innermost."""
    column = _CODE_SIZE * _COLUMN * _POINT
    room = columns * column + _CODE_EDGES
    for name in around:
        taken, most = _LOSSES[name]
        room = min(room - taken, most)
        columns = max(int((room - _CODE_EDGES) / column), _FEWEST_COLUMNS)
    return columns


def _count_halves(width: float, size: float) -> float:
    """How many half ems of a font size fit into a width, rounded down."""
    return float(int(width / _POINT / (size / 2)))


PAPERS: Mapping[str, Paper] = {"a4": Paper(210.0, 297.0), "letter": Paper(215.9, 279.4)}


def find_paper(name: str, margins: tuple[float, ...] = ()) -> Paper:
    """The paper of this name, or of this width and height: `170x240`."""
    width, _, height = name.partition("x")
    paper = PAPERS.get(name) or Paper(float(width), float(height))
    return replace(paper, margins=margins or MARGINS)
