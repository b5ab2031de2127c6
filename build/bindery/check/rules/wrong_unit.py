"""wrong-unit: the unit of a number in the prose contradicts what the words around it say."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.check.units_in_prose import find_slips
from bindery.core.model import Finding, Severity

RULE = Rule("wrong-unit", Severity.WARNING, "a number has a unit that it cannot have")


def check(scope: Scope) -> Iterator[Finding]:
    for chapter, passage in scope.iterate_passages():
        if passage.is_quoted:
            continue
        for slip in find_slips(passage):
            if any(start <= slip.start < end for start, end in passage.links):
                continue  # often a title, in the words of others
            span = passage.place(slip.start, slip.end)
            if not scope.is_generated(chapter.path, span.line):
                yield RULE.find(span, slip.message, slip.advice)
