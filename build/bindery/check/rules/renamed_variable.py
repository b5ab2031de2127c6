"""renamed-variable: an environment variable has been renamed, and programs ignore the old name
without an error.

bindery brings the list of names. Text that also gives the new name, or calls the old one
deprecated, is not reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bindery.check.rules.renamed_variables import RENAMES, Rename
from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity, Span

RULE = Rule("renamed-variable", Severity.WARNING, "an environment variable has been renamed")

_OUTPUT_LANGUAGES = frozenset(
    ("", "console", "log", "none", "output", "plain", "plaintext", "shell-session", "text", "txt")
)
"""Fences that may show program output: only names that are set or read there count."""

_OF_THE_CHANGE = re.compile(
    r"\b(?:deprecat\w*|renam\w*|former(?:ly)?|replac\w*|supersed\w*|obsolete|legacy|no\s+longer"
    r"|used\s+to|instead\s+of|backwards?[ -]compat\w*|alias\w*|old(?:er)?\s+names?|previously"
    r"|in\s+the\s+past|historical\w*)\b",
    re.I,
)


_NAME = re.compile(r"[A-Z](?<![A-Za-z0-9_].)[A-Z0-9]*_[A-Z0-9_]*(?![A-Za-z0-9_])")
"""The name of any environment variable. The lookbehind comes second because `re` finds a set of
characters faster."""


def find_old_names(text: str, around: str = "") -> Iterator[tuple[re.Match[str], Rename]]:
    """Old names in a text that is not about the change. `around` is the rest of what a reader sees
    there, such as the other cells of the row."""
    matches = [match for match in _NAME.finditer(text) if match[0] in RENAMES]
    seen = f"{text}\n{around}"
    if not matches or _OF_THE_CHANGE.search(seen):
        return
    for match in matches:
        rename = RENAMES[match[0]]
        if not re.search(rf"(?<![\w-]){re.escape(rename.new)}(?!\w)", seen):
            yield match, rename


def find_old_names_in_code(code: str, language: str) -> Iterator[tuple[re.Match[str], Rename]]:
    """Old names in a code block; in possible program output, only those that are set or read."""
    for match, rename in find_old_names(code):
        if language not in _OUTPUT_LANGUAGES or _is_used(code, *match.span()):
            yield match, rename


def _is_used(code: str, start: int, end: int) -> bool:
    """Whether a command or program sets or reads the variable."""
    before = code[code.rfind("\n", 0, start) + 1 : start]
    behind = code[end:].split("\n", 1)[0]
    if before.endswith(("$", "${")):
        return True
    if re.search(r"\b(?:environ(?:\.get)?|getenv)[\[(]['\"]$", before):
        return True
    if re.search(r"(?:\b(?:export|unset|setenv|ENV)\s+(?:\S+=\S*\s+)*|\s-e\s+|--env[= ])$", before):
        return True
    prompt = re.fullmatch(r"\s*(?:[$#>%]\s+)?(?:\w+=\S*\s+)*", before)
    return prompt is not None and re.match(r"=\S*\s+\S", behind) is not None


def check(scope: Scope) -> Iterator[Finding]:
    """One finding per old name and chapter, at its first occurrence."""
    places: dict[tuple[str, str], list[Span]] = {}
    for span, rename in _find_places(scope):
        if not scope.is_generated(span.path, span.line):
            places.setdefault((span.path, rename.old), []).append(span)
    for (_, old), spans in places.items():
        yield _report(min(spans), len(spans) - 1, RENAMES[old])


def _find_places(scope: Scope) -> Iterator[tuple[Span, Rename]]:
    for chapter, passage in scope.iterate_passages():
        if passage.is_quoted or "_" not in passage.text:
            continue
        for match, rename in find_old_names(passage.text, chapter.lines[passage.line - 1]):
            yield passage.place(*match.span()), rename
    for _, fence in scope.iterate_fences():
        for match, rename in find_old_names_in_code(fence.code, fence.language):
            row = fence.code.count("\n", 0, match.start())
            col = match.start() - (fence.code.rfind("\n", 0, match.start()) + 1)
            yield fence.place(row, col, len(match[0])), rename


def _report(span: Span, more: int, rename: Rename) -> Finding:
    since = f" since {rename.since}" if rename.since else ""
    name = "option" if rename.new.startswith("-") else "name"
    again = f"; it appears {more} more time{'s' * (more > 1)} in this chapter" if more else ""
    message = f"'{rename.old}' was renamed: the {name} is '{rename.new}'{since}{again}"
    note = f"; {rename.note}" if rename.note else ""
    return RULE.find(span, message, f"write '{rename.new}'{note} ({rename.source})")
