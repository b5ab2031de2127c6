"""dead-anchor: the chapter is there, the anchor is not."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, NoAnchor, Severity

RULE = Rule("dead-anchor", Severity.ERROR, "a link leads to an anchor that no heading has")


def check(scope: Scope) -> Iterator[Finding]:
    for chapter, link, resolution in scope.iterate_links():
        match resolution:
            case NoAnchor(chapter=path, slug=slug, reason=reason) as failure:
                where = "this chapter" if path == chapter.path else f"'{path}'"
                message = f"{where} has no anchor '#{slug}'" + (f": {reason}" if reason else "")
                nearest = failure.elsewhere or (failure.nearest and f"#{failure.nearest}")
                hint = f"did you mean '{nearest}'?" if nearest else "name a heading that is there"
                yield RULE.find_in_link(chapter, link, message, hint)
