"""Words such as "above" and "below" that point across a heading: who comes by a link sees nothing
there."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from bindery.model import Chapter
from bindery.passages import Passage

_THINGS = (
    r"(?:section|chapter|example|table|figure|image|diagram|plot|code|snippet|script|program|command"
    r"|list|formula|equation|output|log|benchmark|numbers?|results?|discussion|instructions?|steps?"
    r"|options?|approach(?:es)?|method|setup|configuration|settings?|paragraph|note)s?"
)
_TOLD = (
    r"(?:mentioned|described|discussed|explained|shown|given|listed|defined|introduced|noted|seen"
    r"|presented|covered|outlined|stated|said)"
)
_SECTION = r"(?:sub-?)?(?:sections?|chapters?)"
_ELSEWHERE = re.compile(
    rf"\b(?:(?:previous|preceding|earlier|next|following|last)\s+{_SECTION}"
    rf"|{_SECTION}\s+(?:just\s+)?(?:above|below)|(?:above|below)\s+{_SECTION}"
    r"|(?:earlier|later|further\s+(?:up|down)|above|below)\s+(?:in|on)\s+this\s+"
    r"(?:chapter|page|document|book|guide|article)"
    rf"|as\s+(?:we\s+(?:have\s+)?)?(?:saw|seen|discussed|explained)\s+(?:earlier|before))\b",
    re.I,
)
"""What speaks of another section, wherever it stands."""

_AHEAD = re.compile(r"following|next|below", re.I)

_NEAR = (
    rf"(?:{_TOLD}|see|{_THINGS})\s+(?:just\s+)?{{word}}"
    rf"|(?:the|from|as)\s+{{word}}(?=\s+{_THINGS}\b|[.,;:)]|$)"
    rf"|(?:^|(?<=[.!?]\s)){{word}}\s+(?:is|are|we|you|I)"
)
_ABOVE = re.compile(rf"\b(?:{_NEAR.format(word='above')})\b", re.I)
_BELOW = re.compile(rf"\b(?:{_NEAR.format(word='below')})\b", re.I)
_MAYBE = re.compile(r"above|below|section|chapter|earlier|later|before|further", re.I)


def find_directions(chapter: Chapter, passage: Passage) -> Iterator[re.Match[str]]:
    """The words of a passage that point across a heading, as matches in its prose."""
    if passage.kind == "heading" or passage.is_quoted or not _MAYBE.search(passage.text):
        return
    prose = passage.prose
    matches = list(_ELSEWHERE.finditer(prose))
    first, last = passage.line, passage.line + passage.text.count("\n")
    if (near := _ABOVE.search(prose)) and _is_first(chapter, first):
        matches.append(near)
    if (near := _BELOW.search(prose)) and _is_last(chapter, last):
        matches.append(near)
    end = -1
    for match in sorted(matches, key=lambda match: match.start()):
        if match.start() < end or _is_linked(passage, match):
            continue
        if _AHEAD.search(match[0]) and _has_parts(chapter, last):
            continue
        end = match.end()
        yield match


def _is_linked(passage: Passage, match: re.Match[str]) -> bool:
    return any(start <= match.start() < end for start, end in passage.links)


def _list_headings(chapter: Chapter) -> Sequence[tuple[int, int]]:
    """Line and level of each heading."""
    return sorted((anchor.span.line, anchor.level) for anchor in chapter.anchors if anchor.level)


def _is_first(chapter: Chapter, line: int) -> bool:
    """Whether nothing stands between a line and the heading before it."""
    headings = _list_headings(chapter)
    index = bisect_right(headings, (line, 0)) - 1
    start = headings[index][0] if index >= 0 else 0
    return not any(map(_shows_something, chapter.lines[start : line - 1]))


def _is_last(chapter: Chapter, line: int) -> bool:
    """Whether nothing follows a line up to the next heading, and that is not one of a section
    inside this one."""
    headings = _list_headings(chapter)
    index = bisect_right(headings, (line, 9))
    end = headings[index][0] if index < len(headings) else len(chapter.lines) + 1
    return not (
        _has_parts(chapter, line) or any(map(_shows_something, chapter.lines[line : end - 1]))
    )


def _has_parts(chapter: Chapter, line: int) -> bool:
    """Whether the next heading behind a line is one of a section inside this one."""
    headings = _list_headings(chapter)
    index = bisect_right(headings, (line, 9))
    return 0 < index < len(headings) and headings[index][1] > headings[index - 1][1]


def _shows_something(line: str) -> bool:
    text = line.strip()
    return bool(text) and not text.startswith("<!--") and not set(text) <= {"=", "-"}
