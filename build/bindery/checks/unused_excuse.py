"""unused-excuse: an excuse that excuses nothing, or that does not say why.

The excuses themselves are applied in `apply_excuses`, after all other rules have spoken.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bindery.checks.rule import Rule, Scope
from bindery.config import find_nearest
from bindery.model import Excuse, Finding, Severity

RULE = Rule("unused-excuse", Severity.WARNING, "an excuse excuses nothing")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)


def apply_excuses(
    findings: Iterable[Finding], excuses: Iterable[Excuse], rule_ids: Iterable[str]
) -> Iterator[Finding]:
    """The findings that no excuse covers, and a finding for each excuse that covers none.

    One excuse covers one finding: the first of its rule on the line.
    """
    waiting: dict[tuple[str, int, str], list[Excuse]] = {}
    for excuse in excuses:
        key = (excuse.span.path, excuse.covers, excuse.rule)
        waiting.setdefault(key, []).append(excuse)
    for finding in findings:
        key = (finding.span.path, finding.span.line, finding.rule)
        if waiting.get(key):
            waiting[key].pop(0)
        else:
            yield finding
    known = list(rule_ids)
    for excuse in (excuse for left in waiting.values() for excuse in left):
        if excuse.rule in known:
            message = f"line {excuse.covers} has no finding of '{excuse.rule}' to excuse"
            yield RULE.find(excuse.span, message, "take the excuse out")
        else:
            nearest = find_nearest(excuse.rule, known)
            hint = f"did you mean '{nearest}'?" if nearest else "see the rules in build/README.md"
            yield RULE.find(excuse.span, f"there is no rule '{excuse.rule}'", hint)
