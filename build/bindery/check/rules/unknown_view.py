"""unknown-view: a chapter quotes a view, a column or a row that is not there."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("unknown-view", Severity.ERROR, "a chapter quotes a view that does not exist")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
