"""Resolving: where each form of a destination leads, on a tree of files."""

import re
from functools import partial
from pathlib import Path

import pytest
from bindery.book.resolve import resolve_book
from bindery.core.config import DEFAULT_SCHEMES
from bindery.core.model import (
    Book,
    Chapter,
    Link,
    LinkKind,
    NoAnchor,
    NothingThere,
    Part,
    Span,
    ToChapter,
    ToFile,
    ToWeb,
)
from bindery.core.repository import Tree
from bindery.markdown.chapter_reader import parse_chapter
from fixture_types import Case
from hypothesis import example, given
from hypothesis import strategies as st

TREE = Path(__file__).parents[1] / "fixtures" / "tree"
HERE = "book/network/debug.md"
CHAPTERS = ("book/README.md", "book/network/README.md", "book/café.md")


def read_chapters() -> list[Chapter]:
    return [parse_chapter(path, (TREE / path).read_text("utf-8")) for path in CHAPTERS]


CHAPTERS_READ = read_chapters()


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


def test_chapters_that_are_not_held_are_asked_for_their_anchors() -> None:
    """With one chapter of a book, links into the others are resolved as with all of them."""
    sources = {path: (TREE / path).read_text("utf-8") for path in (*CHAPTERS, HERE)}
    parsers = {path: partial(parse_chapter, path, text) for path, text in sources.items()}
    chapter = parse_chapter(
        HERE, "[a](../README.md#notes-1) [b](README.md) [c](../café.md) [d](#nots)\n"
    )
    whole = Book((Part("", (*read_chapters(), chapter)),))
    part = Book((Part("", (chapter,)),))
    links = resolve_book(part, Tree(TREE), DEFAULT_SCHEMES, parsers).links
    assert links == resolve_book(whole, Tree(TREE), DEFAULT_SCHEMES).links


PIECES = (
    ".. . / # ? % %00 %2F %23 \\ : http https:// README .md network Network café < > L1 -1 ( ) "
    "user-content-"
).split()
DESTINATIONS = st.lists(st.sampled_from([" ", *PIECES]) | st.text(max_size=4), max_size=8)


@given(
    DESTINATIONS.map("".join),
    st.sampled_from(["link", "image", "html-link", "html-source", "autolink"]),
)
@example("a%00b/c.md", "link")
@example("../" * 40, "link")
@example("http/example.org", "link")
@example("http/http..", "link")
def test_no_destination_breaks_the_resolver(destination: str, kind: LinkKind) -> None:
    """Whatever a link says, it leads somewhere or fails for a reason, and what is suggested for a
    path that is not there is there, or is an address."""
    link = Link(destination, destination, Span(HERE, 1), kind)
    chapter = Chapter(HERE, "Debug", "", links=(link,))
    book = Book((Part("", (*CHAPTERS_READ, chapter)),))
    resolved = resolve_book(book, Tree(TREE), DEFAULT_SCHEMES)
    resolved.find_target(link)
    match resolved.links[link]:
        case NothingThere(nearest=nearest) if nearest:
            again = Link(nearest, nearest, link.span, kind)
            chapter = Chapter(HERE, "Debug", "", links=(again,))
            book = Book((Part("", (*CHAPTERS_READ, chapter)),))
            target = resolve_book(book, Tree(TREE), DEFAULT_SCHEMES).links[again]
            if isinstance(target, ToWeb):
                assert re.match(r"https?://[\w-]+\.[\w-]|mailto:[^\s/@]+@[\w-]+\.", nearest)
            else:  # the anchor stays as typed
                assert isinstance(target, ToChapter | ToFile | NoAnchor)
        case _:
            pass
