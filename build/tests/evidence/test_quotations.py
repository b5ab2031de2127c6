"""Generated tables: filled, compared, and never filled over what somebody typed."""

from pathlib import Path

import pytest
from bindery.core.model import Chapter
from bindery.evidence.evidence import Evidence
from bindery.evidence.quotations import (
    Quotations,
    compare_quotations,
    compute_checksum,
    fill_chapter,
    find_quotations,
)
from bindery.evidence.tables import Column, Table
from bindery.evidence.views import View
from bindery.markdown.chapter_reader import parse_chapter
from fixture_types import BookMaker, Runner
from hypothesis import given
from hypothesis import strategies as st

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
    source = "# Preface\n\n- Chips:\n\n  <!-- table: chips -->\n  <!-- /table -->\n"
    (book / "README.md").write_text(source)
    assert run_bindery("fill", folder=book).status == 0
    text = (book / "README.md").read_text()
    assert "\n  | A100 |         40 |\n" in text
    assert text.endswith(f"\n  <!-- /table {compute_checksum(TABLE)} -->\n")
    assert run_bindery("check", folder=book).status == 0


def test_an_excerpt_follows_its_file(make_book: BookMaker, run_bindery: Runner) -> None:
    """`fill` writes the region of a file, `refs` finds it, and `mv` renames it in the marker."""
    program = "def f():\n    # region body\n    return 1\n    # endregion body\n"
    source = "# A\n\n<!-- excerpt: tools/a.py#body -->\n<!-- /excerpt -->\n"
    book = make_book({"README.md": source, "tools/a.py": program})
    assert run_bindery("fill", folder=book).status == 0
    filled = (book / "README.md").read_text()
    assert "\n```python\nreturn 1\n```\n" in filled
    assert "README.md:3:1: excerpt" in run_bindery("refs", "tools/a.py", folder=book).stdout
    assert run_bindery("mv", "tools/a.py", "tools/b.py", folder=book).status == 0
    assert (book / "README.md").read_text() == filled.replace("a.py", "b.py")
    assert run_bindery("check", folder=book).status == 0


def test_markers_in_code_are_only_shown() -> None:
    """A marker in a fence or in a code span opens nothing."""
    indented = EMPTY.replace("<", "    <")
    source = f"```markdown\n{EMPTY}```\n\n{indented}\n`<!-- table: chips -->`\n"
    assert find_quotations(parse_chapter("a.md", source)) == Quotations()


TABLES = {
    "one": Table("One", (Column("a", "A"),), (("x",), ("y | z",))),
    "two": Table("Two", (Column("a", "A", "GB", 1), Column("b", "B")), ((1, None),), ("A note.",)),
}
EVIDENCE = Evidence(
    TABLES,
    {name: View(name, f"{name}.sql", "T", table.columns, (), "") for name, table in TABLES.items()},
    texts={"tool/help": "usage: tool\n\n```\n"},
)
BLOCKS = st.sampled_from(
    [
        "Text.",
        "<!-- table: one -->\n<!-- /table -->",
        "- item\n\n  <!-- table: two -->\n  <!-- /table -->",
        "<!-- table: two -->\n| typed |\n|---|\n<!-- /table 12345678 -->",
        "<!-- table: gone -->\n<!-- /table -->",
        "<!-- /table -->",
        "<!-- table: one -->",
        "```\nx\n```",
        "1. item\n\n   <!-- output: tool/help -->\n   <!-- /output -->",
        "It is <!-- value: two.a --><!-- /value --> or <!-- value: two.b[1.0] --><!-- /value -->.",
        "It is <!-- value: one.a --><!-- /value --> or <!-- value: one.c[x] --><!-- /value -->.",
        "| A |\n|---|\n| about <!-- value: one.a[x] -->typed<!-- /value --> |",
        "a <!-- value: two.a -->\nb <!-- /value -->",
    ]
)


def fill(source: str) -> tuple[str, int, Chapter]:
    """A chapter filled: its text, how many quotations changed, and the chapter that it was."""
    chapter = parse_chapter("a.md", source)
    text, changed = fill_chapter(chapter, find_quotations(chapter), EVIDENCE, "figures")
    return text, sum(changed.values()), chapter


@given(st.lists(BLOCKS, max_size=8))
def test_filling_twice_is_filling_once(blocks: list[str]) -> None:
    """After one fill a second has nothing to do, and nothing that was filled is stale or edited."""
    once, _, _ = fill("\n\n".join(blocks) + "\n")
    twice, changed, chapter = fill(once)
    assert (twice, changed) == (once, 0)
    findings = compare_quotations("a.md", find_quotations(chapter), EVIDENCE, "figures")
    assert "stale-output" not in {finding.rule for finding in findings}


@given(st.text("ab \t\r\n\v\f\x1c\x85\u2028|*", min_size=1), st.text("ab\r\n\u2028"))
def test_line_breaks_of_a_cell_are_filled_once(first: str, second: str) -> None:
    """A text with breaks of any kind is filled once, as a row and as a value, and is clean then."""
    table = Table("T", (Column("a", "A"), Column("b", "B")), ((first, second),))
    view = View("t", "t.sql", "T", table.columns, (), "")
    evidence = Evidence({"t": table}, {"t": view})
    source = "<!-- table: t -->\n<!-- /table -->\n\nIt is <!-- value: t.b --><!-- /value -->.\n"
    for changes in ({"table": 1}, {}):
        chapter = parse_chapter("a.md", source.replace("\r\n", "\n").replace("\r", "\n"))
        quotations = find_quotations(chapter)
        source, changed = fill_chapter(chapter, quotations, evidence, "figures")
        assert changed.get("table", 0) == changes.get("table", 0)
    findings = compare_quotations("a.md", find_quotations(chapter), evidence, "figures")
    assert list(findings) == []


def test_a_value_is_filled_with_its_unit() -> None:
    """A value is the cell as its table shows it, with its unit, and a checksum behind it."""
    text, changed, _ = fill("It holds <!-- value: two.a[1.0] --><!-- /value --> of memory.\n")
    checksum = compute_checksum("1.0 GB")
    assert text == (
        f"It holds <!-- value: two.a[1.0] -->1.0 GB<!-- /value {checksum} --> of memory.\n"
    )
    assert changed == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("<!-- value: two.a --><!-- /value --> is it.", "a line that begins with a value is raw"),
        ("It is <!-- value: two.a -->.", "this value is not closed"),
        ("a <!-- value: two.a -->\nb <!-- /value -->", "this value is closed and was not opened"),
        ("It is <!-- value: two --><!-- /value -->.", "this marker of a value cannot be read"),
        ("<!-- plot: one -->\n<!-- /table -->", "this region is closed and was never opened"),
    ],
)
def test_markers_that_do_not_fit_are_reported(source: str, message: str) -> None:
    """A marker without its partner, or in a place where GitHub shows no Markdown, is a finding."""
    findings = find_quotations(parse_chapter("a.md", source)).findings
    assert findings[0].rule == "unclosed-region"
    assert findings[0].message.startswith(message)


def test_bad_data_fills_no_table(book: Path, run_bindery: Runner) -> None:
    """While a data file has an error, its tables are neither written nor called stale."""
    run_bindery("fill", folder=book)
    before = (book / "README.md").read_bytes()
    (book / "data" / "chips.csv").write_text(DATA.replace(",40,", ',"40,5",'))

    ended = run_bindery("fill", folder=book)

    assert ended.status == 1
    assert "error[bad-data]: 'memory': '40,5' is not a number" in ended.stdout
    assert "stale-output" not in ended.stdout
    assert (book / "README.md").read_bytes() == before


def test_a_view_with_a_wrong_unit_is_reported_and_not_written(
    book: Path, run_bindery: Runner
) -> None:
    before = (book / "README.md").read_bytes()
    (book / "views/chips.sql").write_text(VIEW.replace("[GB]", "[s]"))

    ended = run_bindery("fill", folder=book)

    message = "error[bad-view]: the column 'memory' is labeled s, but its values are in GB"
    assert (ended.status, message in ended.stdout) == (1, True)
    assert (book / "README.md").read_bytes() == before


def test_a_stale_table_says_what_differs(book: Path, run_bindery: Runner) -> None:
    """The advice names the first row that is not what the view gives."""
    run_bindery("fill", folder=book)
    (book / "data" / "chips.csv").write_text(DATA.replace(",40,", ",80,"))

    ended = run_bindery("check", folder=book)

    assert "it has `| A100 | 40 |` where the view has `| A100 | 80 |`" in ended.stdout
