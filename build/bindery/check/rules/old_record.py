"""old-record: a table quotes a record that is past its shelf life and does not say so."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("old-record", Severity.WARNING, "a quoted record is past its shelf life")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
