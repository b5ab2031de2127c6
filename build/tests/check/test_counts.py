"""How much a book holds: what is counted, by part and by chapter, and how it is printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import BookMaker, Runner

PARTS = """title: A book
parts:
  - chapters: [README.md]
  - title: Chips
    chapters: [chips/README.md, chips/heat.md]
"""
CHIPS = """# Chips

Two chips of 80 GB have `2 * 80 = 160` GB, not [more](heat.md) than *that* – says
[a page](https://example.org/a).

| Chip | Heat |
|:--|--:|
| A100 | 400 |

<!-- table: memory -->
<!-- /table -->

```text
3 * 4 = 12
```

![A chip](chip.png)
"""
VIEW = """-- title: Memory
-- column name: Chip
-- column memory: Memory [GB]
-- column twice: Twice [GB]
SELECT name, memory, 2 * memory AS twice FROM chips ORDER BY name
"""
SCHEMA = """title: Chips
columns:
  name: {type: text, description: its name}
  memory: {type: number, unit: GB, description: its memory}
  source: {type: url, description: where it is}
  date: {type: date, description: when}
  class: {type: text, description: of what kind}
"""
DATA = "name,memory,source,date,class\nA100,80,https://example.org/a,2026-11-20,vendor\n"
DOT = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360"
    "00000000050001a5f645400000000049454e44ae426082"
)


@pytest.fixture
def book(make_book: BookMaker, run_bindery: Runner) -> Path:
    root = make_book(
        {
            "README.md": "# Preface\n\nOn [chips](chips/README.md).\n",
            "chips/README.md": CHIPS,
            "chips/heat.md": "# Heat\n\nIt is warm.\n",
            "chips/chip.png": DOT,
            "views/memory.sql": VIEW,
            "data/chips.csv": DATA,
            "data/chips.yaml": SCHEMA,
        }
    )
    (root / "chapters.yaml").write_text(PARTS)
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
    assert list(rows) == ["README.md", "chips/README.md", "chips/heat.md", "the whole book"]
    assert rows["chips/README.md"] == {
        "chapters": 1,
        "words": 30,
        "tables": 2,
        "generated": 1,
        "figures": 1,
        "code_blocks": 1,
        "links_inside": 1,
        "links_web": 1,
        "sums": 2,
        "numbers": {"measured": 0, "derived": 1, "vendor": 1, "reported": 0, "assumed": 0},
    }
    assert (rows["chips/heat.md"]["words"], rows["README.md"]["words"]) == (4, 3)


def test_parts_are_the_sum_of_their_chapters(book: Path, run_bindery: Runner) -> None:
    """Each part by its title, chapters before the first title as the front, and all at the end.
    The table has only those classes of which there is a number."""
    rows = read_rows(book, run_bindery)
    assert [(name, row["chapters"], row["words"]) for name, row in rows.items()] == [
        ("front", 1, 3),
        ("Chips", 2, 34),
        ("the whole book", 3, 37),
    ]
    lines = run_bindery("count", folder=book).stdout.splitlines()
    assert lines[0].split()[-3:] == ["sums", "derived", "vendor"]
    assert [line.split()[0] for line in lines] == ["part", "front", "Chips", "the"]


def test_what_is_edited_is_not_counted_as_quoted(book: Path, run_bindery: Runner) -> None:
    """A number that somebody typed into a generated table has no class."""
    path = book / "chips/README.md"
    path.write_text(path.read_text().replace("160 |", "161 |"))
    rows = read_rows(book, run_bindery)
    assert rows["Chips"]["generated"] == 1
    assert set(rows["Chips"]["numbers"].values()) == {0}
