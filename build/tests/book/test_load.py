"""Reading a book from disk: exact names, odd line ends, links that lead away or in circles."""

from pathlib import Path

import pytest
from bindery.book.load import is_left_out
from bindery.check.inspect import inspect_book
from bindery.core.config import Config
from bindery.core.repository import Tree
from fixture_types import BookMaker, Runner

SOURCE = "# Título\n\nOne [x](gone.md)\n\n| a | b |\n|---|---|\n| [y](gone.md) | 2 |\n"


@pytest.mark.parametrize(
    ("start", "newline"),
    [("", "\n"), ("", "\r\n"), ("", "\r"), ("\ufeff", "\n"), ("\ufeff", "\r\n")],
)
def test_line_ends_and_marks_change_no_place(
    make_book: BookMaker, start: str, newline: str
) -> None:
    """CRLF, CR and a byte order mark change neither places nor the title."""
    root = make_book({"a.md": (start + SOURCE).replace("\n", newline).encode()})
    inspection = inspect_book(root)
    assert [(f.span.line, f.span.col) for f in inspection.findings] == [(3, 9), (7, 7)]
    assert inspection.book.chapters[0].title == "Título"


def test_symbolic_links_in_circles_are_nothing(make_book: BookMaker) -> None:
    """A link to itself is not a file, and a folder that holds itself is walked once."""
    root = make_book({"a.md": "# A\n\n[x](loop) [y](inside/a.md)\n"})
    (root / "loop").symlink_to("loop")
    (root / "inside").symlink_to(".")
    tree = Tree(root)
    assert tree.find_kind("loop") is None
    assert list(tree.walk_files("")) == ["a.md", "chapters.yaml"]
    assert [finding.rule for finding in inspect_book(root).findings] == ["dead-link"]


def test_what_is_hidden_or_made_is_passed_over(make_book: BookMaker) -> None:
    """Hidden folders, environments and outputs hold no forgotten chapters."""
    files = {
        f"{name}/x.md": "# X\n"
        for name in (".git", ".venv", "node_modules", "__pycache__", "dist", "a/dist", "venv")
    }
    root = make_book({"a.md": "# A\n"})
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    assert inspect_book(root).findings == ()


@pytest.mark.parametrize(
    ("pattern", "path", "is_out"),
    [
        ("notes", "notes/a.md", True),
        ("notes", "notes/deep/a.md", True),
        ("notes", "notes-2/a.md", False),
        ("*.txt.md", "notes/a.txt.md", True),
        ("", "notes/a.md", True),
    ],
)
def test_a_folder_that_is_no_part_of_the_book(pattern: str, path: str, is_out: bool) -> None:
    """`not_chapters` names folders, patterns, and even everything."""
    assert is_left_out(path, Config(Path(), "", (), not_chapters=(pattern,))) is is_out


def test_a_book_stays_clean_when_it_is_built_among_its_chapters(
    make_book: BookMaker, run_bindery: Runner
) -> None:
    """What `--out` puts into the book is nothing that `check` reports."""
    book = make_book({"kitchen/oven.md": "# Oven\n\nHot.\n"})
    assert run_bindery("epub", "--out", "kitchen", folder=book).status == 0
    assert (book / "kitchen" / "report.json").is_file()
    ended = run_bindery("check", folder=book)
    assert ended.stdout == "checked 0 links in 1 chapter: 0 errors, 0 warnings\n"
