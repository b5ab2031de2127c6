"""bad-data: a data file that does not keep to its schema, or does not say where it is from."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("bad-data", Severity.ERROR, "a data file breaks its schema")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
