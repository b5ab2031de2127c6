"""Generated tables: filled, compared, and never filled over what somebody typed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bindery.evidence import Evidence
from bindery.parse import parse_chapter
from bindery.regions import compare_regions, compute_checksum, fill_chapter, find_regions
from bindery.tables import Column, Table
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from conftest import BookMaker, Runner

SCHEMA = """title: Chips
columns:
  name: {type: text, description: what it is called}
  memory: {type: number, unit: GB, description: how much it holds}
  source: {type: url, description: where the figure is from}
  date: {type: date, description: when it was read}
  class: {type: text, description: of what kind the figure is}
"""
DATA = "name,memory,source,date,class\nA100,40,https://example.org/,2026-01-02,vendor\n"
VIEW = """-- title: Chips
-- column name: Name
-- column memory: Memory [GB] .0
-- note: From the vendor.
SELECT name, memory FROM chips ORDER BY name
"""
EMPTY = "<!-- table: chips -->\n<!-- /table -->\n"
TABLE = "| Name | Memory, GB |\n| ---- | ---------: |\n| A100 |         40 |\n\n*From the vendor.*"


@pytest.fixture
def book(make_book: BookMaker) -> Path:
    return make_book(
        {
            "README.md": f"# Preface\n\n{EMPTY}\nText.\n",
            "data/chips.csv": DATA,
            "data/chips.yaml": SCHEMA,
            "views/chips.sql": VIEW,
        }
    )


def test_fill_writes_the_table_and_its_checksum(book: Path, run_bindery: Runner) -> None:
    """`bindery fill` writes the table between the markers, and the book is clean."""
    ended = run_bindery("fill", folder=book)
    assert ended.status == 0
    assert ended.stdout.startswith("README.md: filled 1 table\n")
    text = (book / "README.md").read_text()
    checksum = compute_checksum(TABLE)
    filled = f"<!-- table: chips -->\n{TABLE}\n<!-- /table {checksum} -->\n"
    assert text == f"# Preface\n\n{filled}\nText.\n"
    assert run_bindery("check", folder=book).status == 0


def test_fill_check_compares_and_writes_nothing(book: Path, run_bindery: Runner) -> None:
    """`bindery fill --check` reports a stale table and leaves the chapter alone."""
    before = (book / "README.md").read_bytes()
    ended = run_bindery("fill", "--check", folder=book)
    assert ended.status == 1
    assert "README.md:4:1: error[stale-output]" in ended.stdout
    assert (book / "README.md").read_bytes() == before


def test_fill_again_changes_nothing(book: Path, run_bindery: Runner) -> None:
    """A second fill finds nothing to write."""
    run_bindery("fill", folder=book)
    before = (book / "README.md").read_bytes()
    ended = run_bindery("fill", folder=book)
    assert "filled" not in ended.stdout
    assert (book / "README.md").read_bytes() == before


def test_new_data_makes_a_table_stale(book: Path, run_bindery: Runner) -> None:
    """When the data changes, the table is stale until it is filled again."""
    run_bindery("fill", folder=book)
    (book / "data/chips.csv").write_text(DATA.replace("40", "80"))
    assert "error[stale-output]" in run_bindery("check", folder=book).stdout
    assert run_bindery("fill", folder=book).status == 0
    assert "| A100 |         80 |" in (book / "README.md").read_text()


def test_a_table_edited_by_hand_is_not_written_over(book: Path, run_bindery: Runner) -> None:
    """An edit is reported and left in place, also where the data has changed since."""
    run_bindery("fill", folder=book)
    edited = (book / "README.md").read_text().replace("40", "41")
    (book / "README.md").write_text(edited)
    (book / "data/chips.csv").write_text(DATA.replace("40", "80"))
    ended = run_bindery("fill", folder=book)
    assert ended.status == 1
    assert "error[edited-output]" in ended.stdout
    assert (book / "README.md").read_text() == edited


def test_line_ends_of_a_chapter_are_kept(book: Path, run_bindery: Runner) -> None:
    """A chapter with CRLF is filled with CRLF."""
    path = book / "README.md"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert run_bindery("fill", folder=book).status == 0
    data = path.read_bytes()
    assert data.count(b"\r\n") == data.count(b"\n") == 11


def test_a_region_in_a_list_is_indented(book: Path, run_bindery: Runner) -> None:
    """A table in a list is filled with the indentation of its marker, and is clean then."""
    (book / "README.md").write_text(
        "# Preface\n\n- Chips:\n\n  <!-- table: chips -->\n  <!-- /table -->\n"
    )
    assert run_bindery("fill", folder=book).status == 0
    text = (book / "README.md").read_text()
    assert "\n  | A100 |         40 |\n" in text
    assert text.endswith(f"\n  <!-- /table {compute_checksum(TABLE)} -->\n")
    assert run_bindery("check", folder=book).status == 0


def test_markers_in_code_are_only_shown() -> None:
    """A marker in a fence or in a code span opens nothing."""
    indented = EMPTY.replace("<", "    <")
    source = f"```markdown\n{EMPTY}```\n\n{indented}\n`<!-- table: chips -->`\n"
    assert find_regions(parse_chapter("a.md", source)) == ([], [])


def test_a_checksum_ignores_indentation_and_trailing_space() -> None:
    """The same table has the same checksum in a list and with spaces at the ends of lines."""
    indented = "\n".join(f"    {line}  ".rstrip("\n") for line in TABLE.split("\n"))
    assert compute_checksum(indented) == compute_checksum(TABLE)


NAMES = st.sampled_from(["one", "two", "gone"])
TABLES = {
    "one": Table("One", (Column("a", "A"),), (("x",), ("y | z",))),
    "two": Table("Two", (Column("a", "A", "GB", 1), Column("b", "B")), ((1, None),), ("A note.",)),
}
BLOCKS = st.one_of(
    NAMES.map(lambda name: f"<!-- table: {name} -->\n<!-- /table -->"),
    NAMES.map(lambda name: f"- item\n\n  <!-- table: {name} -->\n  <!-- /table -->"),
    NAMES.map(lambda name: f"<!-- table: {name} -->\n| typed |\n|---|\n<!-- /table 12345678 -->"),
    st.sampled_from(
        ["Text.", "# Heading", "<!-- /table -->", "<!-- table: one -->", "```\nx\n```"]
    ),
)


@given(st.lists(BLOCKS, max_size=8))
def test_filling_twice_is_filling_once(blocks: list[str]) -> None:
    """After one fill a second has nothing to do, and nothing that was filled is stale or edited."""
    evidence = Evidence(TABLES)
    source = "\n\n".join(blocks) + "\n"
    once, _ = fill_chapter(parse_chapter("a.md", source), evidence)
    chapter = parse_chapter("a.md", once)
    assert fill_chapter(chapter, evidence) == (once, 0)
    assert "stale-output" not in {f.rule for f in compare_regions(chapter, evidence)}


def test_bad_data_fills_no_table(book: Path, run_bindery: Runner) -> None:
    """While a data file has an error, its tables are neither written nor called stale."""
    run_bindery("fill", folder=book)
    before = (book / "README.md").read_bytes()
    (book / "data" / "chips.csv").write_text(DATA.replace(",40,", ',"40,5",'))

    ended = run_bindery("fill", folder=book)

    assert ended.status == 1
    assert "error[bad-data]: 'memory': '40,5' is no number" in ended.stdout
    assert "stale-output" not in ended.stdout
    assert (book / "README.md").read_bytes() == before


def test_a_stale_table_says_what_differs(book: Path, run_bindery: Runner) -> None:
    """The advice names the first row that is not what the view gives."""
    run_bindery("fill", folder=book)
    (book / "data" / "chips.csv").write_text(DATA.replace(",40,", ",80,"))

    ended = run_bindery("check", folder=book)

    assert "it has `| A100 | 40 |` where the view gives `| A100 | 80 |`" in ended.stdout
