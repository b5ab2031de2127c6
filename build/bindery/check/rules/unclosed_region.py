"""unclosed-region: a marker of a generated table without its partner."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("unclosed-region", Severity.ERROR, "a region has a marker without its partner")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
