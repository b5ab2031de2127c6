"""old-method: a table quotes a record whose tool measures otherwise today and does not say so."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("old-method", Severity.WARNING, "a quoted record was made by an older method")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
