"""How much a book holds: what is counted, by part and by chapter, and how it is printed."""

import json
from pathlib import Path
from typing import Any

import pytest
from evidence_book import FILES
from fixture_types import BookMaker, Runner

MORE = """
Two chips of 80 GB have `2 * 80 = 160` GB, not *that* – says [a page](https://example.org/a).

```text
3 * 4 = 12
```

![A chip](https://example.org/a.png)
"""


@pytest.fixture
def book(make_book: BookMaker, run_bindery: Runner) -> Path:
    root = make_book({**FILES, "README.md": FILES["README.md"] + MORE})
    assert run_bindery("fill", folder=root).status == 0
    return root


def read_rows(book: Path, run_bindery: Runner, *options: str) -> dict[str, dict[str, Any]]:
    ended = run_bindery("count", "--format", "json", *options, folder=book)
    assert (ended.status, ended.stderr) == (0, "")
    return {row.pop("name"): row for row in json.loads(ended.stdout)}


def test_a_chapter_is_counted(book: Path, run_bindery: Runner) -> None:
    """Words as they are read, tables of both kinds, links by where they lead, sums of text and
    code, and the class of each number that is quoted; an image is not a link."""
    rows = read_rows(book, run_bindery, "--chapters")
    assert list(rows) == ["README.md", "chips/README.md", "the whole book"]
    assert rows["README.md"] == {
        "chapters": 1,
        "words": 54,
        "tables": 2,
        "generated": 1,
        "figures": 1,
        "code_blocks": 1,
        "links_inside": 1,
        "links_web": 1,
        "sums": 2,
        "numbers": {"measured": 3, "derived": 3, "vendor": 0, "reported": 0, "assumed": 0},
    }


def test_parts_are_the_sum_of_their_chapters(book: Path, run_bindery: Runner) -> None:
    """Each part by its title, chapters before the first title as the front, and all at the end.
    The table has only those classes of which there is a number."""
    rows = read_rows(book, run_bindery)
    assert list(rows) == ["front", "Hardware", "the whole book"]
    assert [row["chapters"] for row in rows.values()] == [1, 1, 2]
    front, part, whole = (row["words"] for row in rows.values())
    assert whole == front + part > front
    lines = run_bindery("count", folder=book).stdout.splitlines()
    assert lines[0].split()[-5:] == ["sums", "measured", "derived", "vendor", "reported"]
    assert [line.split()[0] for line in lines] == ["part", "front", "Hardware", "the"]


def test_what_is_edited_is_not_counted_as_quoted(book: Path, run_bindery: Runner) -> None:
    """A number that somebody typed into a generated table has no class."""
    path = book / "README.md"
    path.write_text(path.read_text().replace("0.25 |", "0.26 |"))
    rows = read_rows(book, run_bindery)
    assert rows["front"]["generated"] == 1
    assert sum(rows["front"]["numbers"].values()) == 2
