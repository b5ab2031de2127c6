"""The rules of `bindery check`, one file each unless they share a table. Checks yield findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from bindery.book.glossary import is_glossary
from bindery.check.rules import (
    bad_calculator,
    bad_table,
    broken_code,
    broken_image,
    broken_maths,
    duplicate_anchor,
    earlier_stages,
    foreign_syntax,
    gutted_section,
    house_word,
    large_image,
    link_targets,
    loose_caption,
    missing_alt,
    mixed_machines,
    old_claim,
    orphan_file,
    remote_image,
    renamed_variable,
    repeated_caption,
    repeated_reference,
    stale_skill,
    unclosed_fence,
    undated_claim,
    undefined_reference,
    unglossed_term,
    unknown_flag,
    unlisted_chapter,
    unused_excuse,
    unused_record,
    unused_reference,
    wrong_arithmetic,
    wrong_unit,
)
from bindery.check.rules.rule import Rule, Scope
from bindery.check.rules.unused_excuse import apply_excuses, read_reaches
from bindery.core.config import Config
from bindery.core.model import Book, Chapter, Finding, Part, ResolvedBook, Severity
from bindery.core.repository import Tree
from bindery.evidence.evidence import Evidence
from bindery.evidence.quotations import find_quotations
from bindery.markdown.captions import read_captions, read_references
from bindery.markdown.typed_tables import read_tables

__all__ = [
    "CHECKS",
    "REPORTED_ELSEWHERE",
    "RULES",
    "Rule",
    "Scope",
    "check_book",
    "prepare_chapter",
]

Check = Callable[[Scope], Iterable[Finding]]

_ALONE: tuple[Any, ...] = (
    duplicate_anchor,
    undefined_reference,
    repeated_reference,
    unused_reference,
    wrong_unit,
    renamed_variable,
    house_word,
    undated_claim,
    wrong_arithmetic,
    broken_code,
    unclosed_fence,
    bad_table,
    foreign_syntax,
)
"""The rules that read one chapter, `words` and `maths` of chapters.yaml, and nothing else."""
_OTHERS: tuple[Any, ...] = (
    mixed_machines,
    broken_image,
    large_image,
    broken_maths,
    missing_alt,
    remote_image,
    repeated_caption,
    loose_caption,
    unlisted_chapter,
    stale_skill,
    gutted_section,
    orphan_file,
    unused_record,
    old_claim,
    unknown_flag,
    bad_calculator,
    unglossed_term,
)


def _pass_on(scope: Scope) -> Iterable[Finding]:
    """Findings of earlier stages: loading, reading evidence, comparing quotations."""
    return scope.found


def _list_checks() -> Iterator[tuple[Rule, Check]]:
    for rule in (*earlier_stages.RULES, unused_excuse.RULE):
        yield rule, _pass_on
    for rule in link_targets.RULES:
        yield rule, link_targets.check
    for module in (*_ALONE, *_OTHERS):
        yield module.RULE, module.check


CHECKS: Mapping[Rule, Check] = dict(_list_checks())
RULES: Mapping[str, Rule] = {rule.id: rule for rule in CHECKS}

_CHECKS_ALONE: Sequence[Check] = tuple(module.check for module in _ALONE)
_TOGETHER = tuple(check for check in dict.fromkeys(CHECKS.values()) if check not in _CHECKS_ALONE)

REPORTED_ELSEWHERE: Mapping[str, str] = {
    "changed-output": "a tool no longer prints what the book quotes, reported by `bindery verify`",
    "config": "an error in chapters.yaml, an option or an argument, reported by every command",
    "disk": "a file cannot be read or written, reported by every command",
    "engine-message": "WeasyPrint, pandoc or the search indexer reported a problem during a build",
    "failed-run": "a tool failed, reported by `bindery run`",
    "gone-finding": "a finding listed in the baseline no longer occurs, so its line can go",
    "incomplete-output": "a page, table, figure or link is missing from an output",
    "refused-move": "a move would break something, reported by `bindery mv`",
    "second-opinion": "`bindery links`: a link in an output does not lead where its source says",
    "unformatted": "`bindery format` cannot format a paragraph or table",
    "web-anchor": "a page on the web lacks the anchor, reported by `bindery links --external`",
    "web-dead": "a page on the web is gone, reported by `bindery links --external`",
    "web-moved": "a page on the web has moved, reported by `bindery links --external`",
}
"""Findings reported by other commands than `check`."""


def _check_alone(config: Config, tree: Tree, chapter: Chapter) -> tuple[Finding, ...]:
    """The findings of the rules that read only one chapter. They see a book of this chapter alone,
    so a finding of an earlier build holds until the chapter changes."""
    config = Config(config.root, "", (), words=config.words, maths=config.maths)
    book = ResolvedBook(Book((Part("", (chapter,)),)), {})
    alone = Scope(config, tree, book, Evidence(), {chapter.path: find_quotations(chapter)}, ())
    return chapter.facts.derive(
        "findings",
        tuple[Finding, ...],
        lambda: tuple(finding for check in _CHECKS_ALONE for finding in check(alone)),
        given=f"{sorted(config.words.items())} {config.maths}",
    )


def prepare_chapter(config: Config, tree: Tree, chapter: Chapter) -> None:
    """Work out the facts of a chapter that the rules will ask for."""
    _check_alone(config, tree, chapter)
    book = ResolvedBook(Book((Part("", (chapter,)),)), {})
    scope = Scope(config, tree, book, Evidence(), {chapter.path: find_quotations(chapter)}, ())
    for module in (broken_maths, old_claim, repeated_caption, unknown_flag):
        for _ in module.check(scope):
            pass
    read_captions(chapter, config.wording)
    read_references(chapter, config.wording)
    read_reaches(chapter)
    if is_glossary(chapter):
        read_tables(chapter)


def check_book(scope: Scope) -> Iterator[Finding]:
    """All findings that no excuse covers, at the severity set in chapters.yaml."""
    chapters = scope.book.chapters
    found = [
        *(finding for check in _TOGETHER for finding in check(scope)),
        *(one for chapter in chapters for one in _check_alone(scope.config, scope.tree, chapter)),
    ]
    findings = sorted(found, key=lambda finding: (finding.span, finding.rule))
    severities = {rule.id: rule.severity for rule in CHECKS} | dict(scope.config.severities)
    silent = {rule for rule, severity in severities.items() if severity is Severity.OFF}
    for finding in apply_excuses(findings, chapters, RULES, silent):
        severity = severities[finding.rule]
        if severity is not Severity.OFF:
            yield replace(finding, severity=severity)
