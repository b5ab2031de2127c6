"""renamed-variable: an environment variable goes by another name today, and nothing fails."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.check.renamed_variables import (
    Rename,
    find_old_names,
    find_old_names_in_code,
    load_renames,
)
from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity, Span

RULE = Rule("renamed-variable", Severity.WARNING, "an environment variable has been renamed")


def check(scope: Scope) -> Iterator[Finding]:
    """Each old name once a chapter, where it appears first."""
    places: dict[tuple[str, str], list[Span]] = {}
    for span, rename in _find_places(scope):
        if not scope.is_generated(span.path, span.line):
            places.setdefault((span.path, rename.old), []).append(span)
    for (_, old), spans in places.items():
        yield _report(min(spans), len(spans) - 1, load_renames()[old])


def _find_places(scope: Scope) -> Iterator[tuple[Span, Rename]]:
    for chapter, passage in scope.iterate_passages():
        if passage.is_quoted:
            continue
        for place in find_old_names(passage.text, chapter.lines[passage.line - 1]):
            yield passage.place(place.start, place.end), place.rename
    for _, fence in scope.iterate_fences():
        for place in find_old_names_in_code(fence.code, fence.language):
            row = fence.code.count("\n", 0, place.start)
            col = place.start - (fence.code.rfind("\n", 0, place.start) + 1)
            yield fence.place(row, col, place.end - place.start), place.rename


def _report(span: Span, more: int, rename: Rename) -> Finding:
    since = f" since {rename.since}" if rename.since else ""
    name = "option" if rename.new.startswith("-") else "name"
    again = f"; it appears {more} more time{'s' * (more > 1)} in this chapter" if more else ""
    message = f"'{rename.old}' is an old name: the {name} is '{rename.new}'{since}{again}"
    note = f"; {rename.note}" if rename.note else ""
    return RULE.find(span, message, f"write '{rename.new}'{note} ({rename.source})")
