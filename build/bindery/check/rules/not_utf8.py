"""not-utf8: a chapter that is not UTF-8 text."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("not-utf8", Severity.ERROR, "a chapter is not UTF-8")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
