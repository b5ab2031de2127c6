"""gutted-section: a section that other places link to has lost more than half of its words.

The anchor still exists, so no link is dead, but what the links promise has usually moved elsewhere.
Checked only with `--since`, for sections that had at least 30 words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Anchor, Chapter, Finding, Link, Severity, Span, ToChapter
from bindery.core.report import count_noun

RULE = Rule(
    "gutted-section",
    Severity.WARNING,
    "a section that is linked from elsewhere has lost most of its text",
)

_FEWEST_WORDS = 30
"""Shorter sections lose half their words in ordinary edits."""


def check(scope: Scope) -> Iterator[Finding]:
    if scope.former is None:
        return
    former_paths = {move.new: move.old for move in scope.config.moved}
    chapters = {chapter.path: chapter for chapter in scope.book.chapters}
    for (path, slug), links in _collect_links(scope).items():
        chapter = chapters[path]
        former = scope.former.get(path) or scope.former.get(former_paths.get(path, ""))
        if former is None:
            continue
        before, now = find_section(former, slug), find_section(chapter, slug)
        outside = [link for link in links if not _lies_in(link, chapter, now)]
        had, has = _count_words(former, before), _count_words(chapter, now)
        if not outside or had < _FEWEST_WORDS or 2 * has >= had:
            continue
        yield RULE.find(
            _find_span(chapter, slug),
            f"{'this section' if slug else 'this chapter'} had {count_noun(had, 'word')} and has "
            f"{has}; {count_noun(len(outside), 'link')} from elsewhere "
            f"{'leads' if len(outside) == 1 else 'lead'} here",
            f"check that these links still lead to what they promise: {_list_places(outside)}",
        )


def _collect_links(scope: Scope) -> Mapping[tuple[str, str], list[Link]]:
    links: dict[tuple[str, str], list[Link]] = {}
    for _, link, resolution in scope.iterate_links():
        if isinstance(resolution, ToChapter):
            links.setdefault((resolution.path, resolution.slug), []).append(link)
    return links


def find_section(chapter: Chapter, slug: str) -> tuple[int, int]:
    """First line of a section and the line after its last; the whole chapter without a slug, an
    empty range if the anchor does not exist.

    A heading's section ends at the next heading of the same or a higher level; that of an explicit
    anchor ends at the next heading of any level.
    """
    end = len(chapter.lines) + 1
    if not slug:
        return 1, end
    start = next((anchor for anchor in chapter.anchors if anchor.slug == slug), None)
    if start is None:
        return 1, 1
    following = (anchor for anchor in chapter.anchors if anchor.span > start.span)
    return start.span.line, min(
        (anchor.span.line for anchor in following if _ends_section(anchor, start)), default=end
    )


def _ends_section(anchor: Anchor, start: Anchor) -> bool:
    return anchor.level > 0 and (start.level == 0 or anchor.level <= start.level)


def _lies_in(link: Link, chapter: Chapter, section: tuple[int, int]) -> bool:
    return link.span.path == chapter.path and section[0] <= link.span.line < section[1]


def _count_words(chapter: Chapter, section: tuple[int, int]) -> int:
    return len(" ".join(chapter.lines[section[0] - 1 : section[1] - 1]).split())


def _find_span(chapter: Chapter, slug: str) -> Span:
    anchors = (anchor for anchor in chapter.anchors if not slug or anchor.slug == slug)
    return next((anchor.span for anchor in anchors), Span.whole(chapter.path))


def _list_places(links: list[Link], most: int = 5) -> str:
    places = [f"{link.span.path}:{link.span.line}" for link in links[:most]]
    rest = len(links) - most
    return ", ".join(places) + (f" and {rest} more" if rest > 0 else "")
