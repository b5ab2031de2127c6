"""Tables as they were typed: their cells and rows, the faults in them, and their order."""

from __future__ import annotations

import pytest
from bindery.parse import parse_chapter
from bindery.sorting import find_disorder, read_keys
from bindery.table_text import find_table_faults, read_tables, split_cells
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


@given(
    st.lists(
        st.lists(st.text(alphabet="ab1` *_-:", max_size=5), min_size=2, max_size=2),
        min_size=1,
        max_size=4,
    )
)
def test_a_table_of_even_rows_has_no_fault(rows: list[list[str]]) -> None:
    """Rows of as many cells as the head, without a pipe of their own, are never reported."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    source = f"Text.\n\n{HEAD}" + "\n".join(lines) + "\n\nText.\n"
    found = list(find_table_faults(parse_chapter("a.md", source)))
    assert [fault for fault in found if "`" not in fault.message] == []


@given(st.text(alphabet="|-: ab\n`>\\", max_size=60))
def test_faults_lie_in_their_lines(source: str) -> None:
    """Whatever a text looks like, a fault of a table has a place in it."""
    lines = source.split("\n")
    for fault in find_table_faults(parse_chapter("a.md", source)):
        assert 1 <= fault.span.line <= len(lines)
        assert 1 <= fault.span.col <= len(lines[fault.span.line - 1]) + 1


@pytest.mark.parametrize(
    "source",
    [
        "- | a | b |\n  | - | - |\n  | 1 | 2 |\n  | 3 |\n",
        "1. text\n\n   | a | b |\n   |---|---|\n   | 1 |\n",
        "> | a | b |\n> |---|---|\n> | 1 |\n",
    ],
)
def test_tables_in_lists_and_quotes_are_looked_at(source: str) -> None:
    """A short row is found where the table stands in a list or a quote."""
    (fault,) = find_table_faults(parse_chapter("a.md", source))
    assert fault.message == "the row has 1 cell and the head 2"
    assert source.split("\n")[fault.span.line - 1][fault.span.col - 1] in "|-"


def test_a_head_of_two_lines_is_told_once() -> None:
    """Behind a table and an empty line, such a head is no row that the table above has lost."""
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
    assert (name.span.line, name.span.col, name.is_bold) == (3, 3, False)


# --- order ---


def find_wrong(declared: str, *rows: str) -> str:
    """The cell that stands too low, or nothing."""
    source = HEAD + "".join(f"| {row} |\n" for row in rows)
    (table,) = read_tables(parse_chapter("a.md", source))
    keys = read_keys(declared, [cell.text for cell in table.head])
    disorder = find_disorder(table, keys)
    return disorder.cell.text if disorder else ""


SORTED = [
    ("Name", ["a | 1", "B | 2", "c | 3"]),
    ("Name", ["A10 | 1", "A9 | 2"]),
    ("Name", ["A9 | 1", "A10 | 2"]),
    ("name", ["a | 1", "a | 0"]),
    ("Memory", ["a | 9", "b | 10", "c | 1,000"]),
    ("Memory descending", ["a | 10.5", "b | ~9", "c | -1"]),
    ("Memory desc, Name", ["b | 2", "a | 1", "c | 1"]),
    ("Memory", ["a | 900 MB", "b | 80 GB", "c | 0.1 TB"]),
    ("Memory", ["a | 1 GiB", "b | 1.1 GB"]),
    ("Memory", ["a | 1 GB", "b | 2 W"]),
    ("Memory", ["a | 2024-01-31", "b | Feb 2024", "c | 1 March 2024", "d | 2024-12"]),
    ("Memory", ["a | 1.9.1", "b | v1.10"]),
    ("Memory", ["a | 2", "b | ?", "c | 3", "d | not disclosed", "e |"]),
    ("Name", ["b | 1", "**B** | ", "a | 2"]),
    ("Name", []),
]


@pytest.mark.parametrize(("declared", "rows"), SORTED)
def test_what_is_in_order_is_let_be(declared: str, rows: list[str]) -> None:
    """Numbers, dates, versions and text in their order; cells that say nothing stand anywhere."""
    assert find_wrong(declared, *rows) == ""


UNSORTED = [
    ("Name", ["a | 1", "c | 2", "b | 3"], "b"),
    ("Memory", ["a | 10", "b | 9"], "9"),
    ("Memory", ["a | 80 GB", "b | 1 TB", "c | 900 MB"], "900 MB"),
    ("Memory descending", ["a | 1", "b | 2"], "2"),
    ("Memory descending, Name", ["b | 1", "a | 1"], "a"),
    ("Memory", ["a | 2024-12", "b | Jan 2024"], "Jan 2024"),
    ("Memory", ["a | 1.10.0", "b | 1.9.0"], "1.9.0"),
    ("Memory", ["a | 3", "b | ?", "c | 2"], "2"),
    ("Name", ["**X** | ", "b | 1", "a | 2"], "a"),
]


@pytest.mark.parametrize(("declared", "rows", "wrong"), UNSORTED)
def test_the_first_row_out_of_order_is_found(declared: str, rows: list[str], wrong: str) -> None:
    """The first row that has to stand further up is the one that is named."""
    assert find_wrong(declared, *rows) == wrong


@given(st.lists(st.integers(-1000, 1000), max_size=8))
def test_sorted_numbers_are_sorted(numbers: list[int]) -> None:
    """A column of numbers is in order exactly when Python's `sorted` leaves it as it is."""
    wrong = find_wrong("Memory", *(f"x | {number}" for number in numbers))
    assert (wrong == "") is (numbers == sorted(numbers))
