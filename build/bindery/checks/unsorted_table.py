"""unsorted-table: a table is not in the order that the comment above it declares."""

from __future__ import annotations

import re
from collections.abc import Iterator

from bindery.checks.rule import Rule, Scope
from bindery.model import Chapter, Finding, Severity, Span
from bindery.nearest import find_nearest
from bindery.table_text import TypedTable, read_tables

_DECLARATION = re.compile(r"<!--[ \t]*sorted[ -]by:[ \t]*(?P<keys>[^\n]*?)[ \t]*-->", re.IGNORECASE)

RULE = Rule("unsorted-table", Severity.WARNING, "a table is not in the order it declares")


def check(scope: Scope) -> Iterator[Finding]:
    for chapter in scope.book.chapters:
        if not _DECLARATION.search(chapter.source):
            continue
        tables = {table.index: table for table in read_tables(chapter)}
        for index, token in enumerate(chapter.tokens):
            if token.type != "html_block" or token.map is None:
                continue
            found = _DECLARATION.search(token.content)
            if found is None:
                continue
            row = token.map[0] + token.content.count("\n", 0, found.start())
            col = chapter.lines[row].find(found[0]) + 1
            span = Span(chapter.path, row + 1, max(col, 1), len(found[0]))
            table = _find_table_below(chapter, index, tables)
            if table is None:
                message = "no table stands below this"
                yield RULE.find(span, message, "put it directly above the table that it speaks of")
            elif not scope.is_generated(chapter.path, table.line):
                yield from _check_table(table, found["keys"], span)


def _find_table_below(
    chapter: Chapter, index: int, tables: dict[int, TypedTable]
) -> TypedTable | None:
    """The table below a comment; other comments may stand between."""
    for number in range(index + 1, len(chapter.tokens)):
        token = chapter.tokens[number]
        if token.type != "html_block" or not token.content.lstrip().startswith("<!--"):
            return tables.get(number)
    return None


def _check_table(table: TypedTable, typed: str, span: Span) -> Iterator[Finding]:
    # Imported here: few books declare an order.
    from bindery.sorting import find_column, find_disorder, read_keys

    headings = [cell.text for cell in table.head]
    keys = read_keys(typed, headings)
    unknown = [key for key in keys if find_column(key.column, headings) is None]
    for key in unknown[:1]:
        nearest = find_nearest(key.column, headings)
        known = ", ".join(f"'{heading}'" for heading in headings)
        hint = f"did you mean '{nearest}'?" if nearest else f"it has {known}"
        yield RULE.find(span, f"the table has no column '{key.column}'", hint)
    if not keys:
        yield RULE.find(span, "no column is named", "write <!-- sorted by: COLUMN -->")
    if unknown or not keys:
        return
    disorder = find_disorder(table, keys)
    if disorder is not None:
        key, cell, other = disorder.key, disorder.cell, disorder.before
        order = f"'{key.column}'{', descending' if key.is_descending else ''}"
        message = f"'{cell.text}' stands below '{other.text}', and the table is sorted by {order}"
        hint = f"move the row above the one on line {other.span.line}, or change the declaration"
        yield RULE.find(cell.span, message, hint)
