"""The rules, one file each. A check yields findings and never prints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from bindery.check.rules import (
    bad_calculator,
    bad_data,
    bad_record,
    bad_table,
    bad_view,
    broken_code,
    broken_image,
    broken_maths,
    case_mismatch,
    dead_anchor,
    dead_link,
    directory_anchor,
    duplicate_anchor,
    edited_output,
    edited_record,
    gutted_section,
    house_word,
    large_image,
    missing_alt,
    missing_chapter,
    missing_image,
    mixed_machines,
    nested_url,
    not_utf8,
    old_claim,
    old_method,
    old_record,
    orphan_file,
    outside_book,
    renamed_variable,
    repeated_reference,
    stale_output,
    swallowed_tag,
    unclosed_region,
    undated_claim,
    undefined_reference,
    unfinished_change,
    unglossed_term,
    unknown_flag,
    unknown_record,
    unknown_view,
    unlisted_chapter,
    unsourced_number,
    unused_excuse,
    unused_record,
    unused_reference,
    wrong_arithmetic,
    wrong_unit,
)
from bindery.check.rules.rule import Rule, Scope
from bindery.check.rules.unused_excuse import apply_excuses
from bindery.core.model import Finding, Severity

__all__ = ["CHECKS", "RULES", "Rule", "Scope", "check_book"]

Check = Callable[[Scope], Iterable[Finding]]

_MODULES = (
    unfinished_change,
    missing_chapter,
    not_utf8,
    outside_book,
    dead_link,
    dead_anchor,
    directory_anchor,
    case_mismatch,
    nested_url,
    duplicate_anchor,
    missing_image,
    mixed_machines,
    broken_image,
    large_image,
    broken_maths,
    missing_alt,
    swallowed_tag,
    unlisted_chapter,
    gutted_section,
    orphan_file,
    bad_data,
    bad_record,
    edited_record,
    bad_view,
    unclosed_region,
    unknown_view,
    unknown_record,
    edited_output,
    stale_output,
    old_method,
    old_record,
    unused_record,
    unsourced_number,
    undefined_reference,
    repeated_reference,
    unused_reference,
    wrong_unit,
    renamed_variable,
    house_word,
    undated_claim,
    old_claim,
    wrong_arithmetic,
    unknown_flag,
    bad_calculator,
    broken_code,
    bad_table,
    unglossed_term,
    unused_excuse,
)
CHECKS: Mapping[Rule, Check] = {module.RULE: module.check for module in _MODULES}
RULES: Mapping[str, Rule] = {rule.id: rule for rule in CHECKS}


def check_book(scope: Scope) -> Iterator[Finding]:
    """Every finding that the book does not excuse, at the severity that the book gives it."""
    findings = sorted(
        (finding for check in CHECKS.values() for finding in check(scope)),
        key=lambda finding: (finding.span, finding.rule),
    )
    severities = {rule.id: rule.severity for rule in CHECKS} | dict(scope.config.severities)
    silent = {rule for rule, severity in severities.items() if severity is Severity.OFF}
    for finding in apply_excuses(findings, scope.book.chapters, RULES, silent):
        severity = scope.config.severities.get(finding.rule, finding.severity)
        if severity is not Severity.OFF:
            yield Finding(finding.span, finding.rule, finding.message, finding.help, severity)
