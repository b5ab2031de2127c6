"""swallowed-tag: text that a browser takes for a tag and hides, `<jobid>` say."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity

RULE = Rule("swallowed-tag", Severity.ERROR, "text is swallowed as an HTML tag")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
