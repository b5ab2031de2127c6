"""The column widths of a table on paper, so that no number is ever split.

Engines either cut a wide table at the edge of the page or break its words anywhere. Here each
column gets at least its longest unbreakable word; if that does not fit, the font gets smaller, and
if that does not help, the table is turned.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

_LONG_WORD = 14
# Where a long word may be broken: after these, never beside a decimal point or inside digits.
_BREAK_AFTER = re.compile(
    r"(?<=[/_+@&?=:])(?=\w)|(?<=[A-Za-z)])-(?=\w)|(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z_][.,])(?=[A-Za-z])"
)
ZERO_WIDTH_SPACE = "\u200b"

CELL_PADDING = 2.2
"""Padding of a cell, in characters."""


class PageRoom(Struct, frozen=True):
    """How many characters fit across a page, by font size and direction."""

    name: str
    characters: float


class TableLayout(Struct, frozen=True):
    """`size` names the style; `widths` are percentages of the table, which takes `share` of the
    page's width."""

    size: str
    widths: tuple[float, ...]
    share: float


def split_long_words(text: str) -> str:
    """The text with zero-width spaces where a long word may be broken."""
    if len(text) <= _LONG_WORD:
        return text
    return " ".join(
        _BREAK_AFTER.sub(rf"\g<0>{ZERO_WIDTH_SPACE}", word) if len(word) > _LONG_WORD else word
        for word in text.split(" ")
    )


def layout_table(rows: Sequence[Sequence[str]], rooms: Sequence[PageRoom]) -> TableLayout:
    """Lay out a table from the plain text of its cells.

    `rooms` are in order of preference; the last one, a turned page, is for tables that fit nowhere
    else. Short cells stay on one line as long as a smaller font makes that possible.
    """
    count = max((len(row) for row in rows), default=0)
    columns = [[row[index] for row in rows if index < len(row)] for index in range(count)]
    least = [_measure_least(cells) + CELL_PADDING for cells in columns]
    ideal = [
        max(_measure_ideal(cells) + CELL_PADDING, low)
        for cells, low in zip(columns, least, strict=True)
    ]
    room, start = _choose_room(least, ideal, rooms)
    widths = _share_out(start, ideal, room.characters)
    total = sum(widths) or 1.0
    return TableLayout(
        room.name,
        tuple(round(100 * width / total, 2) for width in widths),
        min(1.0, round(total / room.characters, 3)),
    )


_COMFORTABLE, _TOLERABLE, _TIGHT = 24.0, 15.0, 10.0
"""Cells up to this width stay on one line: if possible, if room is short, and if the page would
otherwise be turned."""
_TIGHT_LINES = 3.0
"""Maximum lines of the longest cell; above that, a turned page is easier to read."""


def _choose_room(
    least: Sequence[float], ideal: Sequence[float], rooms: Sequence[PageRoom]
) -> tuple[PageRoom, list[float]]:
    """The room for a table, and the least width of each column in it."""

    def demand(limit: float) -> list[float]:
        return [i if i <= limit else max(low, limit) for low, i in zip(least, ideal, strict=True)]

    upright = rooms[:-1] or rooms
    for limit in (_COMFORTABLE, _TOLERABLE):
        widths = demand(limit)
        for room in upright:
            if sum(widths) <= room.characters:
                return room, widths
    room, widths = upright[-1], demand(_TIGHT)
    given = _share_out(widths, ideal, room.characters)
    has_room = sum(widths) <= room.characters
    if has_room and all(i <= _TIGHT_LINES * g for i, g in zip(ideal, given, strict=True)):
        return room, widths
    last = rooms[-1]
    for limit in (_COMFORTABLE, _TOLERABLE):
        if sum(demand(limit)) <= last.characters:
            return last, demand(limit)
    return last, list(least)


def _share_out(start: Sequence[float], ideal: Sequence[float], room: float) -> list[float]:
    """Distribute the remaining width to the columns that need more."""
    if sum(ideal) <= room:
        return list(ideal)
    widths = list(start)
    spare = room - sum(widths)
    # Columns of prose share what is left; the square root keeps the longest from taking it all.
    wants = [(i - w) ** 0.5 if i > w else 0.0 for w, i in zip(widths, ideal, strict=True)]
    for _ in range(4):
        total = sum(wants)
        if total <= 0 or spare < 0.5:
            break
        left = 0.0
        for index, want in enumerate(wants):
            gain = spare * want / total
            limit = ideal[index] - widths[index]
            if gain >= limit:
                left += gain - limit
                widths[index] = ideal[index]
                wants[index] = 0.0
            else:
                widths[index] += gain
        spare = left
    return widths


_WIDTHS = {
    **dict.fromkeys("ijl.,:;'|!", 0.51),
    **dict.fromkeys("ftr()[]-/", 0.68),
    **dict.fromkeys("mwMW%@", 1.62),
    **dict.fromkeys("ABCDEFGHKLNOPQRSTUVXYZ", 1.2),
    "I": 0.55,
    "J": 0.95,
    " ": 0.4,
    "\N{EM DASH}": 1.7,
}
"""Width of a character in half ems, for the sans font of the PDF."""
_BOLD = 1.06
"""How much wider bold type is; applied to all cells, since any may be bold."""


def _measure(word: str) -> float:
    return _BOLD * sum(
        _WIDTHS.get(character, 2.0 if ord(character) >= 0x2E80 else 1.0) for character in word
    )


def _measure_least(cells: Sequence[str]) -> float:
    words = (
        part
        for cell in cells
        for word in cell.split()
        for part in split_long_words(word).split(ZERO_WIDTH_SPACE)
    )
    return max((_measure(word) for word in words), default=1.0)


def _measure_ideal(cells: Sequence[str]) -> float:
    return max((_measure(line) for cell in cells for line in cell.split("\n")), default=1.0)
