"""dead-link: a link leads to a file that is not there, or to nothing at all."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, NoDestination, NothingThere, Severity

RULE = Rule("dead-link", Severity.ERROR, "a link leads to nothing")


def check(scope: Scope) -> Iterator[Finding]:
    yield from scope.take_found(RULE)
    for chapter, link, resolution in scope.iterate_links():
        match resolution:
            case NothingThere(nearest=nearest) if not link.is_image:
                message = f"there is no file '{link.destination}'"
                hint = "correct the path, or take the link out"
                if nearest:
                    hint = f"did you mean '{nearest}'?"
                yield RULE.find_in_link(chapter, link, message, hint)
            case NoDestination(reason, nearest, repair) if not link.is_image:
                message = f"this link leads nowhere: {reason}"
                hint = f"did you mean '{nearest}'?" if nearest else repair
                yield RULE.find_in_link(chapter, link, message, hint)
