"""bad-record: a record that is not JSON, or not of the published schema."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("bad-record", Severity.ERROR, "a record breaks its schema")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
