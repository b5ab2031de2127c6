"""Who refers to what: links, quotations, commands and lists, each with its place."""

import json
from pathlib import Path

import pytest
from evidence_book import FILES
from fixture_types import BookMaker, Runner

BOOK = {
    "README.md": "# Book\n\n[guide](docs/guide.md#use) and [docs](docs) and [x][x]\n\n"
    "[x]: docs/guide.md\n",
    "docs/README.md": "# Docs\n\n![p](p.png) <https://example.org/a#b> [u](guide.md#gone)\n",
    "docs/guide.md": "# Guide\n\n## Use\n\n[here](#use) [up](README.md)\n",
    "docs/p.png": b"\x89PNG\r\n\x1a\n",
}


@pytest.fixture
def book(make_book: BookMaker) -> Path:
    root = make_book(BOOK)
    (root / "NOTES.md").write_text("[the guide](docs/guide.md)\n")
    return root


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (
            "docs/guide.md",
            """\
NOTES.md:1:13: link        docs/guide.md
README.md:3:9: link        docs/guide.md#use
README.md:3:49: reference   [x][x]
README.md:5:6: definition  docs/guide.md
chapters.yaml:6:9: chapter     docs/guide.md
docs/README.md:3:43: link        guide.md#gone
6 references to docs/guide.md in 4 files
""",
        ),
        (
            "docs/guide.md#use",
            """\
README.md:3:9: link  docs/guide.md#use
docs/guide.md:5:8: link  #use
2 references to docs/guide.md#use in 2 files
""",
        ),
        (
            "docs",
            """\
NOTES.md:1:13: link        docs/guide.md
README.md:3:9: link        docs/guide.md#use
README.md:3:39: link        docs
README.md:3:49: reference   [x][x]
README.md:5:6: definition  docs/guide.md
chapters.yaml:5:9: chapter     docs/README.md
chapters.yaml:6:9: chapter     docs/guide.md
7 references to docs in 3 files
""",
        ),
        ("docs/p.png", "docs/README.md:3:6: image  p.png\n1 reference to docs/p.png in 1 file\n"),
        (
            "https://example.org/a",
            """\
docs/README.md:3:14: autolink  https://example.org/a#b
1 reference to https://example.org/a in 1 file
""",
        ),
    ],
)
def test_links_are_listed(book: Path, run_bindery: Runner, target: str, expected: str) -> None:
    """Every link that leads to the target is listed with its place, and counted."""
    ended = run_bindery("refs", target, folder=book)
    assert ended.status == 0, ended.stderr
    assert ended.stdout == expected


@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("docs/gide.md", "did you mean 'docs/guide.md'?"),
        ("docs/guide.md#used", "there is no anchor 'used' in 'docs/guide.md'"),
        ("#used", "there is no anchor 'used' in any chapter"),
        ("docs/p.md#use", "there is no Markdown file 'docs/p.md'"),
    ],
)
def test_an_unknown_target_is_wrong_use(
    book: Path, run_bindery: Runner, target: str, says: str
) -> None:
    """What is not there is a usage error, with the nearest that is."""
    ended = run_bindery("refs", target, folder=book)
    assert (ended.status, ended.stdout) == (2, "")
    assert says in ended.stderr


def test_references_are_data_too(book: Path, run_bindery: Runner) -> None:
    """As JSON each reference is an object."""
    ended = run_bindery("refs", "p.png", "--format", "json", "--root", "..", folder=book / "docs")
    assert json.loads(ended.stdout) == [
        {"path": "docs/README.md", "line": 3, "col": 6, "how": "image", "text": "p.png"}
    ]


@pytest.fixture
def measured(make_book: BookMaker) -> Path:
    """A book that quotes records, with a command that calls a tool."""
    calls = (
        "\n```bash\npython scripts/timer.py --demo\nlap_timer --demo\n```\n"
        "\n[t](scripts/timer.py)\n"
    )
    return make_book({**FILES, "README.md": FILES["README.md"] + calls})


@pytest.mark.parametrize(
    ("target", "hows"),
    [
        ("timer", ["value", "value", "table", "command", "link", "tool", "view"]),
        ("scripts/timer.py", ["value", "value", "table", "command", "link", "tool", "view"]),
        ("timer/cpu-x86_64-2core_20261120", ["value", "value", "table", "view"]),
        ("times", ["value", "value", "table"]),
        ("views/chips.sql", ["table"]),
    ],
)
def test_quotations_are_listed(
    measured: Path, run_bindery: Runner, target: str, hows: list[str]
) -> None:
    """A tool, a record and a view are referred to by what quotes them, reads them or calls them."""
    ended = run_bindery("refs", target, "--format", "json", folder=measured)
    assert ended.status == 0, ended.stderr
    assert [row["how"] for row in json.loads(ended.stdout)] == hows
