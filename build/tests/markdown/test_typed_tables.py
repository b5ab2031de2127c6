"""Tables as they were typed: their cells and rows, and the faults in them."""

import pytest
from bindery.markdown.chapter_reader import parse_chapter
from bindery.markdown.typed_tables import find_table_faults, read_tables, split_cells
from hypothesis import given
from hypothesis import strategies as st

HEAD = "| Name | Memory |\n| --- | --- |\n"


@pytest.mark.parametrize(
    ("line", "cells"),
    [
        ("| a | b |", [("a", 3), ("b", 7)]),
        ("a | b", [("a", 1), ("b", 5)]),
        ("|a||", [("a", 2), ("", 4)]),
        (r"| a \| b | c", [(r"a \| b", 3), ("c", 12)]),
        ("> > | a |", [("a", 7)]),
        ("  | `x|y` |  ", [("`x", 5), ("y`", 8)]),
        ("a", [("a", 1)]),
    ],
)
def test_rows_are_split_as_github_splits_them(line: str, cells: list[tuple[str, int]]) -> None:
    """A row gives its cells and where each begins."""
    assert [(cell.text, cell.col) for cell in split_cells(line)] == cells


@given(st.text(alphabet="|-: ab\n`>\\", max_size=60))
def test_faults_lie_in_their_lines(source: str) -> None:
    """Whatever a text looks like, a fault of a table has a place in it."""
    lines = source.split("\n")
    for fault in find_table_faults(parse_chapter("a.md", source)):
        assert 1 <= fault.span.line <= len(lines)
        assert 1 <= fault.span.col <= len(lines[fault.span.line - 1]) + 1


def test_a_head_of_two_lines_is_told_once() -> None:
    """Behind a table and an empty line, such a head is not a row that the table above has lost."""
    source = f"{HEAD}| a | 1 |\n\n| Name | Memory |\n| | GB |\n| --- | --- |\n| b | 2 |\n"
    (fault,) = find_table_faults(parse_chapter("a.md", source))
    assert fault.span.line == 5
    assert fault.message.startswith("the head of a table has one line")


def test_cells_are_what_a_reader_sees() -> None:
    """Cells come without their marks, and with their place."""
    source = f"{HEAD}| **[A](b.md)** `c` | \\~1 &amp; 2<br> |\n"
    (table,) = read_tables(parse_chapter("a.md", source))
    ((name, memory),) = table.rows
    assert (name.text, memory.text) == ("A c", "~1 & 2")
    assert (name.span.line, name.span.col) == (3, 3)
