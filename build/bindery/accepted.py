"""Findings that a book lives with for now: the file that lists them, and what it lets pass.

One finding a line, without its line number, so that the file stays true while text moves. What is
listed and no longer found is reported, so the file only gets shorter. It has nothing to do with
the small files beside tools (`baselines`).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bindery.identity import Identity, identify_finding
from bindery.model import ConfigError, Finding, Severity, Span
from bindery.report import LineReader, write_json

RULE = "gone-finding"
_KEYS = ("path", "rule", "text", "count")
_REPAIR = "mend the line, or delete the file and write it anew with `--write-baseline`"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A line of the file: which finding, how often, and where in the file that stands."""

    identity: Identity
    count: int
    span: Span


@dataclass(frozen=True, slots=True)
class Sifted:
    """Findings held against what is accepted."""

    fresh: tuple[Finding, ...]
    accepted: tuple[Finding, ...]
    gone: tuple[Finding, ...]
    """A finding for each acceptance that accepts more than there is."""


def parse_accepted(text: str, path: str) -> tuple[Acceptance, ...]:
    """Read the file. Raises ConfigError with the line that is none of ours."""
    entries: dict[Identity, Acceptance] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        span = Span(path, number, 1, len(line.rstrip()))
        entry = _parse_line(line, span)
        if (former := entries.get(entry.identity)) is not None:
            message = f"this finding is accepted twice, here and in line {former.span.line}"
            hint = "keep one of the two lines, with the count of both"
            raise ConfigError(Finding(span, "config", message, hint))
        entries[entry.identity] = entry
    return tuple(entries.values())


def _parse_line(line: str, span: Span) -> Acceptance:
    try:
        row = json.loads(line)
    except ValueError:
        row = None
    if not isinstance(row, dict):
        message = "this line is no accepted finding: it is not a JSON object"
        raise ConfigError(Finding(span, "config", message, _REPAIR))
    if problem := _find_problem(row):
        message = f"this line is no accepted finding: {problem}"
        raise ConfigError(Finding(span, "config", message, _REPAIR))
    return Acceptance(Identity(row["path"], row["rule"], row["text"]), row["count"], span)


def _find_problem(row: dict[str, object]) -> str:
    if missing := [key for key in _KEYS if key not in row]:
        return f"'{missing[0]}' is missing"
    if unknown := [key for key in row if key not in _KEYS]:
        return f"there is no key '{unknown[0]}'"
    for key in _KEYS[:3]:
        if not isinstance(row[key], str):
            return f"'{key}' is not a text"
    count = row["count"]
    if type(count) is not int or count < 1:
        return "'count' is not a number from 1"
    return ""


def format_accepted(findings: Iterable[Finding], read_line: LineReader) -> str:
    """The file that accepts these findings: one a line, in the order of their files."""
    counts = Counter(identify_finding(finding, read_line(finding.span)) for finding in findings)
    rows = (
        {"path": key.path, "rule": key.rule, "text": key.text, "count": count}
        for key, count in sorted(counts.items())
    )
    return "".join(f"{write_json(row)}\n" for row in rows)


def sift_findings(
    findings: Sequence[Finding], acceptances: Iterable[Acceptance], read_line: LineReader
) -> Sifted:
    """Part findings into those that are accepted and those that are not, and say what is gone.

    Where a finding is there more often than it is accepted, the first ones pass.
    """
    entries = {entry.identity: entry for entry in acceptances}
    if not entries:  # most books: their lines need not be read
        return Sifted(tuple(findings), (), ())
    left = Counter({identity: entry.count for identity, entry in entries.items()})
    fresh, accepted = [], []
    for finding in findings:
        identity = identify_finding(finding, read_line(finding.span))
        if left[identity] > 0:
            left[identity] -= 1
            accepted.append(finding)
        else:
            fresh.append(finding)
    gone = [_report_gone(entries[identity], number) for identity, number in left.items() if number]
    return Sifted(tuple(fresh), tuple(accepted), tuple(gone))


def _report_gone(entry: Acceptance, number: int) -> Finding:
    rule, path = entry.identity.rule, entry.identity.path
    if number == entry.count:
        message = f"'{rule}' is accepted in '{path}', and is not there any more"
    else:
        there = entry.count - number
        message = f"'{rule}' is accepted {entry.count} times in '{path}', and is there {there}"
    hint = f"take it out: `bindery check --write-baseline {entry.span.path}`"
    return Finding(entry.span, RULE, message, hint, Severity.WARNING)
