"""Tables of figures as Markdown: what a reader of the source and a parser see."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from bindery.core.model import Chapter
from bindery.evidence.tables import Column, Table, format_cell, format_markdown
from bindery.markdown.chapter_reader import parse_chapter
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from conftest import Case

COLUMN = re.compile(r"(?P<key>\w+): (?P<heading>.*?)(?: \[(?P<unit>.*)\])?(?: \.(?P<digits>\d))?")


def read_table(text: str) -> Table:
    head, body, *rest = re.split(r"^---\n?", text + "\n", flags=re.MULTILINE)
    columns = []
    for line in head.splitlines():
        match = COLUMN.fullmatch(line)
        assert match, line
        digits = int(match["digits"]) if match["digits"] else None
        columns.append(Column(match["key"], match["heading"], match["unit"] or "", digits))
    rows = tuple(tuple(json.loads(line)) for line in body.splitlines())
    notes = tuple(line for part in rest for line in part.splitlines() if line)
    return Table("A table", tuple(columns), rows, notes)


def read_cells(chapter: Chapter) -> list[list[str]]:
    """The text of each row of the first table of a chapter, as the parser reads it."""
    rows: list[list[str]] = []
    for token in chapter.tokens:
        if token.type == "tr_open":
            rows.append([])
        elif token.type == "inline" and rows:
            rows[-1].append(token.content)
    return rows


@pytest.mark.cases("tables.txt")
def test_a_table_is_written_as_github_reads_it(case: Case) -> None:
    """A table is padded Markdown with units in its headings and notes below it."""
    case.expect(format_markdown(read_table(case.given)))


CELL = (
    st.none()
    | st.integers(-(10**6), 10**6)
    | st.floats(-1e6, 1e6, allow_nan=False)
    | st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)
    | st.sampled_from(["a | b", "[x](a.md)", "two words", "模型"])
)


@given(
    st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(CELL, min_size=n, max_size=n), max_size=5)
    )
)
def test_a_table_comes_back_from_its_markdown(rows: list[list[str | int | float | None]]) -> None:
    """Parsed again, every cell is what was written, whatever characters it holds."""
    count = len(rows[0]) if rows else 2
    columns = tuple(Column(f"c{i}", f"Column {i}", "GB", i or None) for i in range(count))
    table = Table("A table", columns, tuple(tuple(row) for row in rows))
    text = format_markdown(table)
    expected = [[column.title for column in columns]]
    for row in rows:
        cells = [format_cell(v, c) for v, c in zip(row, columns, strict=True)]
        expected.append([cell.replace("\\|", "|") for cell in cells])
    assert read_cells(parse_chapter("a.md", text + "\n")) == expected
