"""bad-table: GitHub renders a table differently from its source, or as plain text.

Typical causes: a row with more cells than the header, a `|` inside inline code (write `\\|`), an
empty line inside the table, or no line of dashes below the header.
"""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity
from bindery.markdown.typed_tables import find_table_faults

RULE = Rule("bad-table", Severity.ERROR, "a table does not render as typed")


def check(scope: Scope) -> Iterator[Finding]:
    for chapter in scope.book.chapters:
        yield from find_table_faults(chapter)
