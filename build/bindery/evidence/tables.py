"""Tables of figures and their Markdown. Units are in column headings, never in cells."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal

from msgspec import Struct

Cell = str | int | float | None

_MOST_DIGITS = 28
"""Largest number of digits of a number with decimals."""

UNKNOWN = "–"
"""Shown for an unknown figure."""


class Column(Struct, frozen=True):
    """A column: its key in the query, heading, unit and number of decimals."""

    key: str
    heading: str
    unit: str = ""
    digits: int | None = None

    @property
    def title(self) -> str:
        return f"{self.heading}, {self.unit}" if self.unit else self.heading


class Table(Struct, frozen=True):
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()


def find_fault(value: object, column: Column) -> str:
    """Why a value cannot be a cell in this column, or empty."""
    if value is None or isinstance(value, str):
        return ""
    if not isinstance(value, int | float):
        return "it is neither text nor a number"
    if not math.isfinite(value):
        return "it is not finite"
    if column.digits is not None and abs(value) >= 10.0 ** (_MOST_DIGITS - column.digits):
        return f"{value:g} is too large for {column.digits} decimals"
    if column.digits is None and isinstance(value, float) and float(f"{value:.6g}") != value:
        return f"{value!r} has more than six digits: give its column decimals, or round it in SQL"
    return ""


def format_cell(value: Cell, column: Column) -> str:
    """A cell as inline Markdown: numbers with the column's decimals, text unchanged."""
    if value is None:
        return UNKNOWN
    if isinstance(value, str):
        return " ".join(value.splitlines()).replace("|", "\\|").strip()
    if column.digits is not None:
        # Round half away from zero, as people do.
        unit = Decimal(1).scaleb(-column.digits)
        text = f"{Decimal(str(value)).quantize(unit, ROUND_HALF_UP):f}"
        return text[1:] if text.lstrip("-0.") == "" and text.startswith("-") else text
    return str(value) if isinstance(value, int) else f"{value:g}"


def format_markdown(table: Table) -> str:
    """The table as padded GitHub Markdown, with notes below."""
    cells = [[column.title.replace("|", "\\|") for column in table.columns]]
    for row in table.rows:
        cells.append([format_cell(v, c) for v, c in zip(row, table.columns, strict=True)])
    right = [_is_numeric(table, index) for index in range(len(table.columns))]
    widths = [max(3, *(_width(row[index]) for row in cells)) for index in range(len(right))]
    lines = [_join_row(row, widths, right) for row in cells]
    rule = [
        "-" * (width - 1) + ":" if to_right else "-" * width
        for width, to_right in zip(widths, right, strict=True)
    ]
    lines.insert(1, f"| {' | '.join(rule)} |")
    for note in table.notes:
        lines += ["", f"*{note}*"]
    return "\n".join(lines)


def _is_numeric(table: Table, index: int) -> bool:
    values = [row[index] for row in table.rows if row[index] is not None]
    if any(isinstance(value, str) for value in values):
        return False
    return bool(values) or table.columns[index].digits is not None


def _join_row(row: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = []
    for text, width, to_right in zip(row, widths, right, strict=True):
        space = " " * (width - _width(text))
        padded.append(space + text if to_right else text + space)
    return f"| {' | '.join(padded)} |"


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)
