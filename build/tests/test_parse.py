"""Parsing: places of links to the column, what a chapter holds, and no text that breaks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bindery.model import Chapter, Link
from bindery.parse import parse_chapter

if TYPE_CHECKING:
    from conftest import Case


def show_link(link: Link, chapter: Chapter) -> list[str]:
    """Place, kind and destination of a link, and its line with the place marked below."""
    span = link.span
    line = chapter.lines[span.line - 1]
    return [
        f"{span.line}:{span.col} {link.kind} {link.destination}".rstrip(),
        f"| {line}",
        f"| {' ' * (span.col - 1)}{'^' * span.width}",
    ]


@pytest.mark.cases("positions.txt")
def test_links_know_their_place(case: Case) -> None:
    """Each link is found at the line and column at which its destination is typed."""
    chapter = parse_chapter("a.md", case.given + "\n")
    for link in chapter.links:
        start = link.span.col - 1
        typed = chapter.lines[link.span.line - 1][start : start + link.span.width]
        assert link.raw in (typed, ""), "the place is not that of the destination"
    case.expect("\n".join(line for link in chapter.links for line in show_link(link, chapter)))
