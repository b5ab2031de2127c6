"""above-below: "above" and "below" point across a heading, where readers of a link see nothing.

Off unless a book turns it on: it is advice, and there are good reasons to write so.
"""

from __future__ import annotations

from collections.abc import Iterator

from bindery.checks.rule import Rule, Scope
from bindery.model import Finding, Severity

RULE = Rule("above-below", Severity.OFF, '"above" or "below" points across a heading')


def check(scope: Scope) -> Iterator[Finding]:
    if scope.config.severities.get(RULE.id, RULE.severity) is Severity.OFF:
        return
    # Imported here: its patterns take some milliseconds, and most books leave the rule off.
    from bindery.directions import find_directions

    for chapter, passage in scope.iterate_passages():
        for match in find_directions(chapter, passage):
            span = passage.place(*match.span())
            if not scope.is_generated(chapter.path, span.line):
                words = " ".join(match[0].split())
                message = f"'{words}' points across a heading"
                yield RULE.find(span, message, "link to the section, by its name")
