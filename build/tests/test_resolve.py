"""Resolving: where each form of a destination leads, on a tree of files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bindery.config import DEFAULT_SCHEMES
from bindery.load import Tree
from bindery.model import Book, Chapter, Part, ToChapter, ToWeb
from bindery.parse import parse_chapter
from bindery.resolve import resolve_book

if TYPE_CHECKING:
    from conftest import Case

TREE = Path(__file__).parent / "fixtures" / "tree"
HERE = "book/network/debug.md"
CHAPTERS = ("book/README.md", "book/network/README.md", "book/café.md")


def read_chapters() -> list[Chapter]:
    return [parse_chapter(path, (TREE / path).read_text("utf-8")) for path in CHAPTERS]


@pytest.mark.cases("resolve.txt")
def test_a_destination_leads_where_github_leads(case: Case) -> None:
    """Each form of a destination leads to one known place, or fails for one known reason."""
    source = f"{(TREE / HERE).read_text('utf-8')}\n[x]({case.given})\n"
    chapter = parse_chapter(HERE, source)
    resolved = resolve_book(
        Book((Part("", (*read_chapters(), chapter)),)), Tree(TREE), DEFAULT_SCHEMES
    )
    (link,) = chapter.links
    case.expect(repr(resolved.links[link]))


@pytest.mark.parametrize(
    ("destination", "target"),
    [
        ("#nothing", ToChapter(HERE)),
        ("../network#slow", ToChapter("book/network/README.md")),
        ("readme.md", ToChapter("book/network/README.md")),
        ("https://a.org/https://b.org/", ToWeb("https://a.org/https://b.org/")),
        ("gone.md", None),
        ("", None),
        ("../../../gone.md", None),
    ],
)
def test_a_failed_link_leads_to_the_best_place_left(
    destination: str, target: ToChapter | ToWeb | None
) -> None:
    """A build in spite of errors leads the reader to the chapter, if not to the anchor."""
    chapter = parse_chapter(HERE, f"[x]({destination})\n")
    book = Book((Part("", (*read_chapters(), chapter)),))
    resolved = resolve_book(book, Tree(TREE), DEFAULT_SCHEMES)
    assert resolved.find_target(chapter.links[0]) == target


def test_a_scheme_is_allowed_by_the_book() -> None:
    """Only the schemes of the book are followed, and a book may name its own."""
    chapter = parse_chapter(HERE, "[x](slack://channel) [y](https://example.org)\n")
    resolved = resolve_book(Book((Part("", (chapter,)),)), Tree(TREE), ("slack",))
    first, second = (resolved.find_target(link) for link in chapter.links)
    assert first == ToWeb("slack://channel")
    assert second is None
