"""duplicate-anchor: two places of a chapter claim the same anchor, so one cannot be reached."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.checks.rule import Rule, Scope
from bindery.model import Anchor, Finding, Severity

RULE = Rule("duplicate-anchor", Severity.ERROR, "two places of a chapter share an anchor")


def check(scope: Scope) -> Iterator[Finding]:
    for chapter in scope.book.chapters:
        seen: dict[str, Anchor] = {}
        for anchor in chapter.anchors:
            first = seen.setdefault(anchor.slug, anchor)
            if first is not anchor:
                message = f"the anchor '#{anchor.slug}' stands on line {first.span.line} already"
                yield RULE.find(anchor.span, message, "give one of them another name")
