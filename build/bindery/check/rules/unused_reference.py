"""unused-reference: no link or footnote mark uses a definition."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Definition, Finding, Severity

RULE = Rule("unused-reference", Severity.WARNING, "nothing uses a link definition or footnote")


def check(scope: Scope) -> Iterator[Finding]:
    for chapter in scope.book.chapters:
        seen: dict[str, Definition] = {}
        for definition in chapter.definitions:
            first = seen.setdefault(definition.key, definition)
            if first is not definition:
                if first.destination == definition.destination:  # else it is repeated-reference
                    message = f"'[{definition.label}]' is already defined on line {first.span.line}"
                    yield RULE.find(definition.span, message, "remove one of them")
            elif not definition.is_used:
                message = f"no link in this chapter uses the definition '[{definition.label}]'"
                hint = f"link to it as '[text][{definition.label}]', or remove it"
                yield RULE.find(definition.span, message, hint)
        for footnote in chapter.footnotes:
            if not footnote.is_used:
                message = f"nothing refers to the footnote '[^{footnote.label}]', so it is hidden"
                hint = f"add '[^{footnote.label}]' where it belongs, or remove it"
                yield RULE.find(footnote.span, message, hint)
