"""From an offset in the text of an inline token to a line and a column of the file."""

from __future__ import annotations

from collections.abc import Sequence

from markdown_it.token import Token


class Locator:
    """Turns an offset in the text of an inline token into a place in the file."""

    def __init__(self, path: str, lines: Sequence[str]) -> None:
        self._path = path
        self._lines = lines
        self._cell_row = -1
        self._cell_from = 0

    def enter_cell(self, token: Token) -> None:
        """Cells of a row share their line: each is looked for behind the one before."""
        assert token.map is not None
        if token.map[0] != self._cell_row:
            self._cell_row, self._cell_from = token.map[0], 0
        self._cell_base = self._find_cell(self._lines[self._cell_row], token.content)
        self._cell_from = self._cell_base + max(len(token.content), 1)

    def _find_cell(self, line: str, content: str) -> int:
        for text in (content, content.replace("|", "\\|")):
            found = line.find(text, self._cell_from)
            if found >= 0:
                return found
        return self._cell_from

    def find_place(self, token: Token, offset: int, in_cell: bool) -> tuple[int, int]:
        """Line and column, from 1, of an offset in `token.content`."""
        if token.map is None:
            return 1, 1
        if in_cell:
            escaped = token.content.count("|", 0, offset)
            return token.map[0] + 1, self._cell_base + offset + escaped + 1
        before = token.content[:offset]
        row = before.count("\n")
        number = token.map[0] + row
        if number >= len(self._lines):
            return token.map[0] + 1, 1
        inline_line = token.content.split("\n")[row]
        stripped = inline_line.strip()
        base = max(self._lines[number].find(stripped), 0)
        indent = len(inline_line) - len(inline_line.lstrip())
        within = offset - (before.rfind("\n") + 1)
        return number + 1, max(base + within - indent, 0) + 1
