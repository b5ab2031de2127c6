"""Pad Markdown tables so that columns line up. Cells do not change."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from markdown_it.token import Token

from bindery.core.report import measure_width
from bindery.markdown.typed_tables import split_cells

WIDEST = 200
"""Characters. Wider tables get single spaces."""

_QUOTES = re.compile(r"(?:[ \t]*>)*[ \t]*")
_CONTAINERS = re.compile(
    r"(?:[ \t]*(?:>|[-*+](?=[ \t])|\d{1,9}[.)](?=[ \t])|\[\^[^\]\s]+\]:(?=[ \t])))*[ \t]*"
)


def pad_table(
    tokens: Sequence[Token], lines: Sequence[str]
) -> tuple[Sequence[str] | None, Mapping[int, int]]:
    """The padded lines of a table, or the cell counts of ragged rows by line, from 0; neither if
    its cells cannot be located. `tokens` are the table's, `lines` the file's."""
    assert tokens[0].map is not None
    first, end = tokens[0].map
    cells = _read_cells(tokens)
    prefixes, rows = _split_rows(lines[first:end], cells[0])
    if prefixes is None:
        return None, {}
    ragged = {first + n: len(row) for n, row in enumerate(rows) if len(row) != len(cells[0])}
    if ragged:
        return None, ragged
    # The second line has the alignments and no tokens.
    if [_read_typed(row) for row in (rows[0], *rows[2:])] != cells:
        return None, {}
    return [
        prefix + row for prefix, row in zip(prefixes, _join_rows(rows, prefixes), strict=True)
    ], {}


def _read_cells(tokens: Sequence[Token]) -> list[list[str]]:
    rows: list[list[str]] = []
    for token in tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline":
            rows[-1].append(token.content)
    return rows


def _read_typed(row: Sequence[str]) -> list[str]:
    """Cells as the parser sees them."""
    return [cell.replace("\\|", "|") for cell in row]


def _split_rows(
    lines: Sequence[str], head: Sequence[str]
) -> tuple[list[str] | None, list[list[str]]]:
    """The prefix and cells of each row; no prefixes if the head cannot be located.

    A list may start on the head's line. GitHub then shows a table in a list, even if the parser
    takes the list marker as part of the first cell: such a table is left alone.
    """
    prefixes = [_match(_CONTAINERS, lines[0]), *(_match(_QUOTES, row) for row in lines[1:])]
    rows = [
        [cell.text for cell in split_cells(row[len(prefix) :])]
        for prefix, row in zip(prefixes, lines, strict=True)
    ]
    return (prefixes, rows) if _read_typed(rows[0]) == list(head) else (None, [])


def _match(pattern: re.Pattern[str], line: str) -> str:
    match = pattern.match(line)
    return match[0] if match else ""


def _join_rows(rows: Sequence[Sequence[str]], prefixes: Sequence[str]) -> list[str]:
    marks = [(cell.startswith(":"), cell.endswith(":")) for cell in rows[1]]
    texts = [row for number, row in enumerate(rows) if number != 1]
    widths = [max(3, *(measure_width(row[n]) for row in texts)) for n in range(len(marks))]
    total = measure_width(prefixes[0]) + sum(width + 3 for width in widths) + 1
    if total > WIDEST:
        widths = [0] * len(marks)
    joined = []
    for number, row in enumerate(rows):
        cells = [
            _draw_rule(width, mark) if number == 1 else _pad_cell(cell, width, mark)
            for cell, width, mark in zip(row, widths, marks, strict=True)
        ]
        joined.append(f"| {' | '.join(cells)} |")
    return joined


def _draw_rule(width: int, mark: tuple[bool, bool]) -> str:
    left, right = (":" if side else "" for side in mark)
    return left + "-" * (max(width, 3) - len(left) - len(right)) + right


def _pad_cell(text: str, width: int, mark: tuple[bool, bool]) -> str:
    space = max(width - measure_width(text), 0)
    if mark == (True, True):
        return " " * (space // 2) + text + " " * (space - space // 2)
    return " " * space + text if mark == (False, True) else text + " " * space
