"""stale-output: a generated table does not match its records and data."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("stale-output", Severity.ERROR, "a generated table is not what its view gives")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
