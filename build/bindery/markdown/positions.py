"""Convert an offset in the text of a token to a line and column of the file.

A text may have thousands of links, so each pass over it is made once and its result kept.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from markdown_it.token import Token


class Rows:
    """The lines of a text that is in the file from a line on, after the marks of quotes and
    lists. `first` is counted from 0."""

    def __init__(self, content: str, first: int, lines: Sequence[str]) -> None:
        self._first = first
        self._starts = [0]
        self._shifts: list[int] = []
        """Per line, what to add to an offset to get the column, from 0."""
        for row, text in enumerate(content.split("\n")):
            start = self._starts[-1]
            self._starts.append(start + len(text) + 1)
            if first + row < len(lines):
                base = max(lines[first + row].find(text.strip()), 0)
                indent = len(text) - len(text.lstrip())
                self._shifts.append(base - indent - start)

    def find_place(self, offset: int) -> tuple[int, int]:
        """Line and column, from 1."""
        row = bisect_right(self._starts, offset, hi=len(self._starts) - 1) - 1
        if row >= len(self._shifts):
            return self._first + 1, 1
        return self._first + row + 1, max(offset + self._shifts[row], 0) + 1


class Locator:
    """Turns an offset in the text of an inline token into a place in the file."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._cell_row = -1
        self._cell_from = 0

    def enter_cell(self, token: Token) -> None:
        """Note the position of a cell in its line. The cells of a row share the line, so each is
        searched for after the previous one."""
        assert token.map is not None
        if token.map[0] != self._cell_row:
            self._cell_row, self._cell_from = token.map[0], 0
        base = self._find_cell(self._lines[self._cell_row], token.content)
        self._cell_from = base + max(len(token.content), 1)
        token.meta["cell"] = base

    def _find_cell(self, line: str, content: str) -> int:
        for text in (content, content.replace("|", "\\|")):
            found = line.find(text, self._cell_from)
            if found >= 0:
                return found
        return self._cell_from

    def find_place(self, token: Token, offset: int, start: int = 0) -> tuple[int, int]:
        """Line and column, from 1, of an offset after `start` in `token.content`; of a cell, once
        it has been entered."""
        if token.map is None:
            return 1, 1
        offset += start
        base = token.meta.get("cell")
        if base is not None:
            pipes = token.content.count("|", 0, offset)  # each pipe is escaped in the file
            return token.map[0] + 1, base + offset + pipes + 1
        rows: Rows | None = token.meta.get("rows")
        if rows is None:
            rows = token.meta["rows"] = Rows(token.content, token.map[0], self._lines)
        return rows.find_place(offset)
