"""nested-url: a URL wrapped into a URL, as a careless replacement leaves it."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.checks.rule import Rule, Scope
from bindery.model import Finding, NestedUrl, Severity

RULE = Rule("nested-url", Severity.ERROR, "a URL stands inside another")


def check(scope: Scope) -> Iterator[Finding]:
    for chapter, link, resolution in scope.iterate_links():
        match resolution:
            case NestedUrl(inner=inner):
                message = "this address holds a second one"
                yield RULE.find_in_link(chapter, link, message, f"did you mean '{inner}'?")
