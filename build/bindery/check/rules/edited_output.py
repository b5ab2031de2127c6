"""edited-output: a generated table was edited by hand."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("edited-output", Severity.ERROR, "a generated table was edited by hand")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
