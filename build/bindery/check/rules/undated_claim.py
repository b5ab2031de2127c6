"""undated-claim: the text says "currently" or "as of this writing", and no date says when that was.

A date counts if it is in the same paragraph, in a heading above, in the front matter (`date:`), or
in a line such as "Checked 2026-11." directly below a heading.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.check.time_claims import WORDS_OF_NOW, find_undated, has_date
from bindery.core.model import Chapter, Finding, Severity
from bindery.markdown.prose import JoinedProse, to_lower

RULE = Rule("undated-claim", Severity.WARNING, "a claim about the present has no date")

_CHECKED = re.compile(
    r"\b(?:updated?|checked|as of|written|reviewed|verified|measured|status|edition|date)\b", re.I
)
_FRONT_DATE = re.compile(r"^(?:date|updated|last_?modified):", re.I | re.M)


def check(scope: Scope) -> Iterator[Finding]:
    passages = list(scope.iterate_passages())
    prose = JoinedProse([to_lower(passage.prose) for _, passage in passages])
    spoken_of_now = {number for word in WORDS_OF_NOW for number in prose.find(word)}
    path = ""
    fronts: dict[int, bool] = {}
    levels: dict[int, int] = {}
    expected = 0
    for number, (chapter, passage) in enumerate(passages):
        if chapter.path != path:  # sections end with their chapter
            path, levels = chapter.path, _find_levels(chapter)
            fronts = {0: _has_front_date(chapter)}
            expected = 0
        if passage.kind == "heading":
            expected = levels.get(passage.line, 6)
            fronts = {level: dated for level, dated in fronts.items() if level < expected}
            fronts[expected] = has_date(passage.prose)
            continue
        if expected and "20" in passage.text and _CHECKED.search(passage.text):
            fronts[expected] |= has_date(passage.prose)
        expected = 0
        if number not in spoken_of_now or passage.is_quoted or any(fronts.values()):
            continue
        for start, end, words in find_undated(passage.prose):
            span = passage.place(start, end)
            if not scope.is_generated(chapter.path, span.line):
                message = f"'{words}' has no date, so readers cannot tell when that was"
                hint = "write the date, such as 'as of 2026-11', or leave the words out"
                yield RULE.find(span, message, hint)


def _has_front_date(chapter: Chapter) -> bool:
    """Whether the front matter of a chapter says of what day it is."""
    first = next(iter(chapter.tokens), None)
    if first is None or first.type != "front_matter":
        return False
    return _FRONT_DATE.search(first.content) is not None


def _find_levels(chapter: Chapter) -> dict[int, int]:
    """The levels of the headings of a chapter, by line."""
    return {anchor.span.line: anchor.level for anchor in chapter.anchors if anchor.level}
