"""missing-chapter: chapters.yaml lists a chapter that cannot be read."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("missing-chapter", Severity.ERROR, "a listed chapter is not there")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
