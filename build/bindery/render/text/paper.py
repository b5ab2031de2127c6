"""Paper: the sizes of page that the PDF knows, and how much fits across them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bindery.render.text.table_layout import PageRoom

MARGIN = 22.0
"""Left and right of the text, in millimetres."""
_POINT = 25.4 / 72
_CODE_SIZE, _CODE_EDGES = 8.0, 6.2
"""Size of the type of code in points, and millimetres of padding and border left and right, and
by which the mark of a broken line is wider than a character."""
_COLUMN = 0.6
"""Width of a character of fixed width, in em."""
_FEWEST_COLUMNS = 8
"""Of a line of code, at any depth of nesting."""
_LOSSES: Mapping[str, tuple[float, float]] = {
    "list": (6.0, 144.0),
    "quote": (4.5, 146.0),
    "alert": (8.9, 154.0),
}
"""For each kind of block around code: the width that it takes at the sides, and the most it leaves
inside, in millimetres, as the style sheet has them."""


@dataclass(frozen=True, slots=True)
class Paper:
    """A size of paper, in millimetres. Tables and code are laid out for its width."""

    name: str
    size: str
    """Its name in a style sheet."""
    width: float
    height: float

    @property
    def code_columns(self) -> int:
        """Characters of code that fit on a line."""
        room = self.width - 2 * MARGIN - _CODE_EDGES
        return int(room / (_CODE_SIZE * _COLUMN * _POINT))

    @property
    def table_rooms(self) -> tuple[PageRoom, ...]:
        """Room for tables by size of type, and last across a turned page."""
        across, turned = self.width - 2 * MARGIN, self.height - 2 * MARGIN
        return (
            PageRoom("normal", _count_halves(across, 8.5)),
            PageRoom("small", _count_halves(across, 7.8)),
            PageRoom("smaller", _count_halves(across, 7.1)),
            PageRoom("turned", _count_halves(turned, 8.0)),
        )


def narrow_code(columns: int, around: Iterable[str]) -> int:
    """How many of the characters of a whole line fit inside lists, quotes and alerts, which are
    named from the outermost to the innermost."""
    column = _CODE_SIZE * _COLUMN * _POINT
    room = columns * column + _CODE_EDGES
    for name in around:
        taken, most = _LOSSES[name]
        room = min(room - taken, most)
        columns = max(int((room - _CODE_EDGES) / column), _FEWEST_COLUMNS)
    return columns


def _count_halves(width: float, size: float) -> float:
    """How many halves of an em of a type fit into a width, rounded down."""
    return float(int(width / _POINT / (size / 2)))


PAPERS: Mapping[str, Paper] = {
    "a4": Paper("a4", "A4", 210.0, 297.0),
    "letter": Paper("letter", "letter", 215.9, 279.4),
}
