"""nested-url: a URL wrapped into a URL, as a careless replacement leaves it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, NestedUrl, Severity

RULE = Rule("nested-url", Severity.ERROR, "a URL is inside another")


_ONE_SLASH = re.compile(r"(?<=:)/(?!/)")
_OUTER = re.compile(r"(?:https?:)?//[\w-]+(?:\.[\w-]+)+(?::\d+)?/", re.I)


def check(scope: Scope) -> Iterator[Finding]:
    for chapter, link, resolution in scope.iterate_links():
        match resolution:
            case NestedUrl(inner=inner, url=url):
                meant = _ONE_SLASH.sub("//", inner, count=1)
                hint = f"write '{meant}'"
                if inner != url and _OUTER.match(url):
                    scheme = meant.partition(":")[0]
                    hint += f", or '{scheme}%3A' for its '{scheme}:' if the outer address takes it"
                message = f"this address holds a second one, '{inner}'"
                yield RULE.find_in_link(chapter, link, message, hint)
