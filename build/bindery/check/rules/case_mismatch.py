"""case-mismatch: a path in other letters works on a forgiving file system and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity, WrongCase

RULE = Rule("case-mismatch", Severity.ERROR, "a path differs from the file in upper and lower case")


def check(scope: Scope) -> Iterator[Finding]:
    for chapter, link, resolution in scope.iterate_links():
        match resolution:
            case WrongCase(actual=actual, lost_anchor=lost):
                message = f"the file is called otherwise: '{actual}'"
                hint = f"write '{actual}'"
                if lost:
                    hint += f"; mind that it has no anchor '#{lost}' either"
                yield RULE.find_in_link(chapter, link, message, hint)
