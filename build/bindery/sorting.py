"""The order that a table is declared to have, and the first row that breaks it.

A comment `<!-- sorted by: COLUMN, COLUMN descending -->` above a table declares it. Cells are
compared as what all of them are: dates, versions, numbers with their units, or text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bindery.table_text import Cell, TypedTable

Reading = Callable[[str], Any]
"""What a cell counts as; None where it is nothing of that kind."""

_DIRECTION = re.compile(r"\s+(?P<direction>descending|ascending|desc|asc)$", re.IGNORECASE)
_NOTHING = re.compile(
    r"[-–—?.…~]*|n/?a|none|tbd|tba|unknown|not (?:disclosed|published|known|available)|"
    r"undisclosed|varies",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Key:
    """A column that a table is sorted by."""

    column: str
    """Its heading, as the declaration calls it."""
    is_descending: bool = False


@dataclass(frozen=True, slots=True)
class Disorder:
    """The first row that stands too low, or the row above which it belongs."""

    cell: Cell
    before: Cell
    key: Key


def read_keys(text: str, headings: Sequence[str]) -> tuple[Key, ...]:
    """The keys of a declaration. A heading may hold a comma itself."""
    whole = _read_key(text)
    if find_column(whole.column, headings) is not None:
        return (whole,)
    return tuple(_read_key(part) for part in text.split(",") if part.strip())


def _read_key(text: str) -> Key:
    text = text.strip()
    direction = _DIRECTION.search(text)
    if direction is None:
        return Key(text.strip("'\"` "))
    name = text[: direction.start()].strip("'\"` ")
    return Key(name, direction["direction"].lower().startswith("desc"))


def find_column(name: str, headings: Sequence[str]) -> int | None:
    """The number of the column of that heading, upper and lower case being the same."""
    wanted = name.casefold()
    return next((i for i, one in enumerate(headings) if one.casefold() == wanted), None)


def find_disorder(table: TypedTable, keys: Sequence[Key]) -> Disorder | None:
    """The first row out of order. Every key has to be a column of the table.

    A row of one bold cell begins a group of its own. A row that does not say what it is sorted by
    may stand anywhere.
    """
    headings = [cell.text for cell in table.head]
    columns = [(find_column(key.column, headings) or 0, key) for key in keys]
    rows = table.rows
    readings = {
        column: _choose_reading([row[column].text for row in rows if not _is_group(row)])
        for column, _ in columns
    }
    above: list[tuple[Cell, ...]] = []
    for row in rows:
        if _is_group(row):
            above = []
            continue
        if any(_NOTHING.fullmatch(row[column].text) for column, _ in columns[:1]):
            continue
        for other in above:
            key = _find_wrong_key(other, row, columns, readings)
            if key is not None:
                column = next(number for number, one in columns if one is key)
                return Disorder(row[column], other[column], key)
        above.append(row)
    return None


def _is_group(row: Sequence[Cell]) -> bool:
    filled = [cell for cell in row if cell.text]
    return len(filled) == 1 and filled[0].is_bold and len(row) > 1


def _find_wrong_key(
    upper: Sequence[Cell],
    lower: Sequence[Cell],
    columns: Sequence[tuple[int, Key]],
    readings: dict[int, tuple[Reading, ...]],
) -> Key | None:
    """The key by which two rows stand the wrong way round."""
    for column, key in columns:
        first, second = upper[column].text, lower[column].text
        if _NOTHING.fullmatch(first) or _NOTHING.fullmatch(second):
            return None
        if key.is_descending:
            first, second = second, first
        pairs = [(read(first), read(second)) for read in readings[column]]
        if all(one > two for one, two in pairs):
            return key
        if any(one != two for one, two in pairs):
            return None
    return None


def _choose_reading(texts: Sequence[str]) -> tuple[Reading, ...]:
    """How the cells of a column are compared. Of text there are two orders that people use, by
    letters and by the numbers in it: what is right by either is right."""
    told = [text for text in texts if not _NOTHING.fullmatch(text)]
    if not told:
        return (str.casefold,)
    if all(_read_date(text) for text in told):
        return (_read_date,)
    quantities = [_read_number(text) for text in told]
    if all(quantities) and len({quantity[1] for quantity in quantities if quantity}) == 1:
        return (_read_number,)
    if all(_read_version(text) for text in told):
        return (_read_version,)
    return (str.casefold, _read_natural)


_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?| ?[QH](\d))?")
_MONTH = re.compile(
    r"(?:(\d{1,2})\.? )?(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
    r"(?: (\d{1,2}),)? (\d{4})",
    re.IGNORECASE,
)
_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()


def _read_date(text: str) -> tuple[int, int, int] | None:
    if found := _DATE.fullmatch(text):
        return int(found[1]), int(found[2] or found[4] or 0), int(found[3] or 0)
    if found := _MONTH.fullmatch(text):
        month = _MONTHS.index(found[2].lower()) + 1
        return int(found[4]), month, int(found[1] or found[3] or 0)
    return None


_QUANTITY = re.compile(
    r"[~≈<>≤≥]?[ \t]*[$€£]?(?P<sign>[-−+]?)(?P<number>\d[\d,  _]*(?:\.\d+)?|\.\d+)"
    r"(?:[eE](?P<power>[-+]?\d+))?[ \t]*(?P<unit>[^\W\d_]\S*(?: [^\W\d_]\S*)?|%)?\+?"
)
_PREFIXED = re.compile(
    r"(?P<prefix>[kKMGTPE]i?)(?P<unit>B|b|bit|B/s|b/s|bps|Bps|Hz|W|FLOPS|FLOP/s)"
)
_POWERS = {"k": 1, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5, "E": 6}


def _read_number(text: str) -> tuple[float, str] | None:
    """A number and its unit, multiples such as GB and TB turned into one."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return None
    value = float(re.sub(r"[,_\s]", "", found["number"])) * 10.0 ** int(found["power"] or 0)
    if found["sign"] in ("-", "−"):
        value = -value
    unit = found["unit"] or ""
    if prefixed := _PREFIXED.fullmatch(unit):
        base = 1024.0 if prefixed["prefix"].endswith("i") else 1000.0
        value *= base ** _POWERS[prefixed["prefix"][0]]
        unit = prefixed["unit"]
    return value, unit


def _read_version(text: str) -> tuple[int, ...] | None:
    if not re.fullmatch(r"v?\d+(?:\.\d+)+", text):
        return None
    return tuple(int(part) for part in text.lstrip("v").split("."))


def _read_natural(text: str) -> tuple[tuple[int, Any], ...]:
    pieces = re.findall(r"\d+(?:\.\d+)?|\D+", text.casefold())
    return tuple((0, float(piece)) if piece[0].isdigit() else (1, piece) for piece in pieces)
