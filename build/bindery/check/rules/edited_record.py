"""edited-record: somebody has changed a record after its tool had written it."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("edited-record", Severity.ERROR, "a record was edited by hand")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
