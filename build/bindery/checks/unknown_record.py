"""unknown-record: a region names a view or a record that does not exist."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.checks.rule import Rule, Scope
from bindery.model import Finding, Severity

RULE = Rule("unknown-record", Severity.ERROR, "a region names a view that does not exist")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
