"""duplicate-anchor: two places in a chapter have the same anchor, so links reach only the first.

Headings with the same text are fine: GitHub appends `-1`, `-2` to their anchors. Reported are
repeated `<a id>`, and headings whose numbered anchor is taken: "Setup 1" beside two "Setup".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Anchor, Finding, Severity
from bindery.markdown.slugs import slugify_heading

RULE = Rule("duplicate-anchor", Severity.ERROR, "two places in a chapter have the same anchor")


def check(scope: Scope) -> Iterator[Finding]:
    for chapter in scope.book.chapters:
        seen: dict[str, Anchor] = {}
        for anchor in chapter.anchors:
            first = seen.setdefault(anchor.slug, anchor)
            if first is not anchor:
                message = f"the anchor '#{anchor.slug}' is already on line {first.span.line}"
                yield RULE.find(anchor.span, message, "rename one of them")
        if any(anchor.slug[-1:].isdecimal() for anchor in chapter.anchors):
            yield from _find_taken_numbers(chapter.anchors, seen)


def _find_taken_numbers(anchors: Sequence[Anchor], holders: dict[str, Anchor]) -> Iterator[Finding]:
    """Headings whose numbered anchor is taken. Repeats get `setup`, `setup-1`, `setup-2`; with a
    heading "Setup 1" among them, `setup-1` is ambiguous."""
    repeats: Counter[str] = Counter()
    for anchor in anchors:
        if anchor.level == 0 or not anchor.title:
            continue
        plain = slugify_heading(anchor.title)
        if not anchor.slug.startswith(plain):
            continue
        expected = f"{plain}-{repeats[plain]}" if repeats[plain] else plain
        repeats[plain] += 1
        holder = holders.get(expected)
        if anchor.slug == expected or holder is None:
            continue
        message = (
            f"this heading's anchor would be '#{expected}', but the heading on line "
            f"{holder.span.line} has it; this one got '#{anchor.slug}'"
        )
        yield RULE.find(anchor.span, message, "reword one of the headings")
