"""unknown-record: a view or a chapter names a record that is not there."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("unknown-record", Severity.ERROR, "a view or chapter names a missing record")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
