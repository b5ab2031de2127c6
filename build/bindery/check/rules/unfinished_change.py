"""unfinished-change: a command was killed while it changed files, and the book is half changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from bindery.check.rules.rule import Rule, Scope
from bindery.core.model import Finding, Severity
from bindery.core.repository import JOURNAL

RULE = Rule(
    "unfinished-change",
    Severity.ERROR,
    "a command that was killed has left the book half changed",
)


def check(scope: Scope) -> Iterator[Finding]:
    if JOURNAL in scope.tree.list_folder(""):
        from bindery.core.transaction import (
            report_unfinished,  # a book that is whole need not load it
        )

        yield replace(report_unfinished(scope.tree.root), severity=RULE.severity)
