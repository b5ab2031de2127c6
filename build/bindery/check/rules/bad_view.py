"""bad-view: a view whose header or query is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("bad-view", Severity.ERROR, "a view cannot be evaluated")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
