"""unlisted-chapter: chapters.yaml does not list a Markdown file in the book's folder, so no output
includes it. List it under `parts`, or exclude it under `not_chapters`."""

from __future__ import annotations

from collections.abc import Iterator

from bindery.book.load import is_left_out
from bindery.check.rules import stale_skill
from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity, Span
from bindery.core.repository import MARKDOWN

RULE = Rule("unlisted-chapter", Severity.WARNING, "chapters.yaml does not list a Markdown file")


def check(scope: Scope) -> Iterator[Finding]:
    listed = {stale_skill.FILE, *(entry.path for entry in scope.config.chapters)}
    for path in scope.tree.walk_files(scope.config.folder):
        if path.endswith(MARKDOWN) and path not in listed and not is_left_out(path, scope.config):
            message = f"'{path}' is not listed in chapters.yaml, so no output includes it"
            hint = "list it under 'parts', or exclude it under 'not_chapters'"
            yield RULE.find(Span.whole(path), message, hint)
