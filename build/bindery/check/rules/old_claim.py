"""old-claim: a dated claim is older than its shelf life, or a predicted date has passed.

Reported are "as of June 2024" after 18 months (or `claims: shelf_life` in chapters.yaml), and "will
be released in 2025" after 2025.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from functools import partial

from bindery.check.rules.rule import Rule, Scope
from bindery.check.time_claims import find_dated
from bindery.core.build_date import read_today
from bindery.core.model import Chapter, Finding, Severity
from bindery.markdown.prose import read_passages

RULE = Rule("old-claim", Severity.WARNING, "a dated claim is past its shelf life")


def check(scope: Scope) -> Iterator[Finding]:
    today, shelf_days = read_today(), scope.config.claim_days
    for chapter in scope.book.chapters:
        yield from chapter.facts.derive(
            "old claims",
            tuple[Finding, ...],
            partial(_list_claims, scope, chapter, today, shelf_days),
            given=f"{today} {shelf_days}",
        )


def _list_claims(
    scope: Scope, chapter: Chapter, today: date, shelf_days: int
) -> tuple[Finding, ...]:
    return tuple(_find_claims(scope, chapter, today, shelf_days))


def _find_claims(scope: Scope, chapter: Chapter, today: date, shelf_days: int) -> Iterator[Finding]:
    for passage in read_passages(chapter):
        if passage.is_quoted or "20" not in passage.text:
            continue
        for claim in find_dated(passage.prose):
            age = (today - claim.until).days
            if age <= (0 if claim.is_promise else shelf_days):
                continue
            span = passage.place(claim.start, claim.end)
            if scope.is_generated(chapter.path, span.line):
                continue
            if claim.is_promise:
                message = f"'{claim.words}' ended on {claim.until}, but the text predicts it"
                hint = "say what happened, and date it"
            else:
                message = f"'{claim.words}' is more than {shelf_days} days old"
                hint = "check it, then update the text and its date"
                hint += "; `claims: shelf_life` in chapters.yaml sets how long a claim lasts"
            yield RULE.find(span, message, hint)
