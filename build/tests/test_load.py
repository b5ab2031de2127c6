"""Reading a book from disk: exact names, odd line ends, links that lead away or in circles."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bindery.load import Tree
from bindery.pipeline import inspect_book

if TYPE_CHECKING:
    from conftest import BookMaker

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


def test_a_path_is_found_in_exactly_its_letters(tmp_path: Path) -> None:
    """Also on a forgiving file system a path in other letters is not there."""
    (tmp_path / "Net").mkdir()
    (tmp_path / "Net/README.md").write_text("# Net\n")
    tree = Tree(tmp_path)
    assert tree.find_kind("Net/README.md") == "file"
    assert tree.find_kind("Net") == "folder"
    assert tree.find_kind("") == "folder"
    for path in ("net/README.md", "Net/readme.md", "Net/README.md/x", "Net/gone.md"):
        assert tree.find_kind(path) is None
    assert tree.find_other_case("net/readme.MD") == "Net/README.md"
    assert tree.find_other_case("net/gone.md") == ""


def test_symbolic_links_in_circles_are_nothing(make_book: BookMaker) -> None:
    """A link to itself is no file, and a folder that holds itself is walked once."""
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


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may read everything")
def test_a_chapter_that_cannot_be_read_is_a_finding(make_book: BookMaker) -> None:
    """A chapter without permission to read is reported where it is listed."""
    root = make_book({"a.md": "# A\n"})
    (root / "a.md").chmod(0)
    (finding,) = inspect_book(root).findings
    assert (finding.rule, finding.span.path) == ("missing-chapter", "chapters.yaml")


def test_an_empty_chapter_is_a_chapter(make_book: BookMaker) -> None:
    """A chapter without text has a title from its path, and nothing is wrong with it."""
    inspection = inspect_book(make_book({"slow-links.md": ""}))
    assert inspection.findings == ()
    assert inspection.book.chapters[0].title == "Slow links"
