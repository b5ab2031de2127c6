"""undefined-reference: a link or footnote uses a label that is not defined, so readers see the
brackets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from markdown_it.common.utils import normalizeReference

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Chapter, Finding, OpenReference, Severity
from bindery.core.suggestions import find_nearest

RULE = Rule("undefined-reference", Severity.ERROR, "a link or footnote has no definition")

_LETTER = re.compile(r"[^\W\d_]")
_FOOTNOTE = re.compile(r"\w[\w.:-]*")
_RANGES = re.compile(r"(\w-\w)+")


def check(scope: Scope) -> Iterator[Finding]:
    for chapter in scope.book.chapters:
        labels = _Labels(chapter)
        for reference in chapter.open_references:
            if reference.shape == "footnote":
                yield from _check_footnote(reference, labels)
            elif _is_meant_as_link(reference, labels):
                yield from _check_link(reference, labels)


class _Labels:
    """The labels of a chapter, prepared for many lookups."""

    def __init__(self, chapter: Chapter) -> None:
        self.footnotes = tuple(footnote.label for footnote in chapter.footnotes)
        self.defined = {entry.label.lower(): entry.label for entry in chapter.definitions}
        self._lowered = tuple(self.defined)
        self.swallowed: dict[str, int] = {}
        """Lines of definitions that are parsed as text, by key."""
        for reference in chapter.open_references:
            if reference.after == ":":
                key = normalizeReference(reference.label)
                self.swallowed.setdefault(key, reference.span.line)

    def find_nearest(self, label: str) -> str:
        return self.defined.get(find_nearest(label.lower(), self._lowered), "")


def _check_footnote(reference: OpenReference, labels: _Labels) -> Iterator[Finding]:
    label = reference.label
    # In a regular expression, [^...] excludes characters.
    is_repeated = reference.after in ("*", "+", "?", "{") and re.fullmatch(r"\D\w?", label)
    if is_repeated or _RANGES.fullmatch(label) or not _FOOTNOTE.fullmatch(label):
        return
    nearest = find_nearest(label, labels.footnotes)
    hint = f"did you mean '[^{nearest}]'?" if nearest else f"add a line '[^{label}]: TEXT'"
    yield RULE.find(reference.span, f"there is no footnote '[^{label}]'", hint)


def _is_meant_as_link(reference: OpenReference, labels: _Labels) -> bool:
    """Whether brackets must be a link, and are not an index or a placeholder."""
    text, label = reference.text, reference.label
    if re.match(r"[\w)\]}>$]", reference.before) or reference.after in ("(", "["):
        return False
    if reference.shape == "shortcut":
        return reference.after != ":" and bool(_find_slip(label, labels))
    if not _LETTER.search(text) or len(text) == 1:
        return False
    if reference.shape == "collapsed":
        return len(label) > 1
    return not (text.isupper() and label.isupper())


def _check_link(reference: OpenReference, labels: _Labels) -> Iterator[Finding]:
    label = reference.label
    nearest = labels.find_nearest(label)
    hint = f"did you mean '[{nearest}]'?" if nearest else f"add a line '[{label}]: PATH'"
    swallowed = labels.swallowed.get(normalizeReference(label), 0)
    if swallowed:
        hint = f"put an empty line before its definition on line {swallowed}, now parsed as text"
    yield RULE.find(reference.span, f"the label '[{label}]' is not defined", hint)


def _find_slip(label: str, labels: _Labels) -> str:
    """The label that this one is a typo of. Labels that differ only in digits are not typos:
    `[table 1]` and `[table 2]` are different tables."""
    nearest = labels.find_nearest(label) if len(label) >= 4 else ""
    if not nearest:
        return ""
    left, right = label.lower(), nearest.lower()
    same_words = re.sub(r"\d+", "", left) == re.sub(r"\d+", "", right)
    return nearest if not same_words and _differ_little(left, right) else ""


def _differ_little(left: str, right: str) -> bool:
    """Whether one letter is wrong, missing or extra, or two are swapped."""
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
