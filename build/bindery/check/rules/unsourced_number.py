"""unsourced-number: a number of a generated table leads to no record and no data."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("unsourced-number", Severity.ERROR, "a number in a generated table has no source")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
