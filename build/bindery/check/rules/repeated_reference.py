"""repeated-reference: a label is defined twice. Every link uses the first definition."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Definition, Finding, Footnote, Severity

RULE = Rule("repeated-reference", Severity.ERROR, "a label is defined twice")


def check(scope: Scope) -> Iterator[Finding]:
    for chapter in scope.book.chapters:
        seen: dict[str, Definition] = {}
        for definition in chapter.definitions:
            first = seen.setdefault(definition.key, definition)
            if first.destination != definition.destination:
                message = (
                    f"'[{definition.label}]' is already '{first.destination}' "
                    f"on line {first.span.line}; this definition is ignored"
                )
                yield RULE.find(definition.span, message, "rename one of the labels")
        notes: dict[str, Footnote] = {}
        for footnote in chapter.footnotes:
            earlier = notes.setdefault(footnote.label, footnote)
            if earlier is not footnote:
                message = (
                    f"the footnote '[^{footnote.label}]' is already on line {earlier.span.line}; "
                    "only one of them is shown"
                )
                yield RULE.find(footnote.span, message, "rename one of the labels")
