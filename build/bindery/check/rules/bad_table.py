"""bad-table: a table that GitHub shows otherwise than it was typed, or not as a table at all."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity
from bindery.markdown.typed_tables import find_table_faults

RULE = Rule("bad-table", Severity.ERROR, "a table is not shown as it was typed")


def check(scope: Scope) -> Iterator[Finding]:
    for chapter in scope.book.chapters:
        yield from find_table_faults(chapter)
