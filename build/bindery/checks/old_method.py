"""old-method: a record was made by a method that the tool has left behind."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.checks.rule import Rule, Scope
from bindery.model import Finding, Severity

RULE = Rule("old-method", Severity.WARNING, "a record was made by an older method of its tool")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
