"""unused-reference: the definition of a link, or a footnote, that nothing reads."""

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
                    message = f"'[{definition.label}]' is defined on line {first.span.line} already"
                    yield RULE.find(definition.span, message, "take one of them out")
            elif not definition.is_used:
                message = f"no link of this chapter uses the definition '[{definition.label}]'"
                hint = f"link it as '[text][{definition.label}]', or take it out"
                yield RULE.find(definition.span, message, hint)
        for footnote in chapter.footnotes:
            if not footnote.is_used:
                message = f"nothing refers to the footnote '[^{footnote.label}]': it is hidden"
                hint = f"write '[^{footnote.label}]' where it belongs, or take it out"
                yield RULE.find(footnote.span, message, hint)
