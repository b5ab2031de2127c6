"""undefined-reference: brackets that were meant as a link, or as the mark of a footnote, whose
label nobody defines. Readers see the brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markdown_it.common.utils import normalizeReference

from bindery.checks.rule import Rule, Scope
from bindery.config import find_nearest
from bindery.model import Chapter, Finding, OpenReference, Severity

RULE = Rule("undefined-reference", Severity.ERROR, "a link or footnote has no definition")

_LETTER = re.compile(r"[^\W\d_]")
_FOOTNOTE = re.compile(r"\w[\w.:-]*")
_RANGES = re.compile(r"(\w-\w)+")


def check(scope: Scope) -> Iterator[Finding]:
    for chapter in scope.book.chapters:
        for reference in chapter.open_references:
            if reference.shape == "footnote":
                yield from _check_footnote(reference, chapter)
            elif _is_meant_as_link(reference, chapter):
                yield from _check_link(reference, chapter)


def _check_footnote(reference: OpenReference, chapter: Chapter) -> Iterator[Finding]:
    label = reference.label
    # In a pattern brackets of this kind stand for characters that are not wanted.
    is_repeated = reference.after in ("*", "+", "?", "{") and re.fullmatch(r"\D\w?", label)
    if is_repeated or _RANGES.fullmatch(label) or not _FOOTNOTE.fullmatch(label):
        return
    nearest = find_nearest(label, [footnote.label for footnote in chapter.footnotes])
    hint = f"did you mean '[^{nearest}]'?" if nearest else f"add a line '[^{label}]: TEXT'"
    yield RULE.find(reference.span, f"there is no footnote '[^{label}]'", hint)


def _is_meant_as_link(reference: OpenReference, chapter: Chapter) -> bool:
    """Whether brackets can be nothing else than a link: neither an index nor a placeholder."""
    text, label = reference.text, reference.label
    if re.match(r"[\w)\]}>$]", reference.before) or reference.after in ("(", "["):
        return False
    if reference.shape == "shortcut":
        return reference.after != ":" and bool(_find_slip(label, chapter))
    if not _LETTER.search(text) or len(text) == 1:
        return False
    if reference.shape == "collapsed":
        return len(label) > 1
    return not (text.isupper() and label.isupper())


def _check_link(reference: OpenReference, chapter: Chapter) -> Iterator[Finding]:
    label = reference.label
    nearest = _find_nearest_label(label, chapter)
    hint = f"did you mean '[{nearest}]'?" if nearest else f"add a line '[{label}]: PATH'"
    key = normalizeReference(label)
    swallowed = next(
        (
            other.span.line
            for other in chapter.open_references
            if other.after == ":" and normalizeReference(other.label) == key
        ),
        0,
    )
    if swallowed:
        hint = f"put an empty line before its definition on line {swallowed}, which is text as yet"
    yield RULE.find(reference.span, f"the label '[{label}]' is not defined", hint)


def _find_nearest_label(label: str, chapter: Chapter) -> str:
    labels = {entry.label.lower(): entry.label for entry in chapter.definitions}
    return labels.get(find_nearest(label.lower(), labels), "")


def _find_slip(label: str, chapter: Chapter) -> str:
    """The defined label that this one was meant to be: as good as the same, and letters differ,
    not numbers, for `[table 1]` and `[table 2]` are two things."""
    nearest = _find_nearest_label(label, chapter)
    if len(label) < 4 or not nearest:
        return ""
    left, right = label.lower(), nearest.lower()
    same_words = re.sub(r"\d+", "", left) == re.sub(r"\d+", "", right)
    return nearest if not same_words and _differ_little(left, right) else ""


def _differ_little(left: str, right: str) -> bool:
    """Whether one letter is wrong, missing, too many, or two have changed places."""
    start = 0
    while start < min(len(left), len(right)) and left[start] == right[start]:
        start += 1
    rest, other = left[start:], right[start:]
    return (
        rest[1:] == other[1:]
        or rest[1:] == other
        or rest == other[1:]
        or (rest[:2] == other[1::-1] and rest[2:] == other[2:])
    )
