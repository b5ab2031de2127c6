"""Findings that a book lives with for now: the file that lists them, and what it lets pass.

One finding per line, without its line number, so that the file stays true while text moves. What
is listed and no longer found is reported, so the file only gets shorter.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bindery.check.finding_identity import Identity, identify_finding
from bindery.core.model import Finding, Severity, Span, refuse
from bindery.core.report import LineReader, write_json

RULE = "gone-finding"
_REPAIR = "fix the line, or delete the file and write it again with `--write-baseline`"


@dataclass(frozen=True, slots=True)
class Acceptance:
    """A line of the file: which finding, how often, and where in the file that is."""

    identity: Identity
    count: int
    span: Span


@dataclass(frozen=True, slots=True)
class Sifted:
    """Findings compared with what is accepted."""

    fresh: tuple[Finding, ...]
    accepted: tuple[Finding, ...]
    gone: tuple[Finding, ...]
    """A finding per acceptance that accepts more than there is."""


def parse_accepted(text: str, path: str) -> tuple[Acceptance, ...]:
    """Read the file. Raises ConfigError for a line that is not an accepted finding."""
    entries: dict[Identity, Acceptance] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        span = Span(path, number, 1, len(line.rstrip()))
        entry = _parse_line(line, span)
        if (former := entries.get(entry.identity)) is not None:
            message = f"this finding is accepted twice, here and in line {former.span.line}"
            hint = "keep one of the two lines, with the count of both"
            raise refuse(span, message, hint)
        entries[entry.identity] = entry
    return tuple(entries.values())


def _parse_line(line: str, span: Span) -> Acceptance:
    match _load(line):
        case {"path": str(path), "rule": str(rule), "text": str(text), "count": int(count)} if (
            count
        ):
            return Acceptance(Identity(path, rule, text), count, span)
    message = "this line is not an accepted finding: path, rule, text and how often"
    raise refuse(span, message, _REPAIR)


def _load(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def format_accepted(
    findings: Iterable[Finding], read_line: LineReader, kept: Iterable[Acceptance] = ()
) -> str:
    """The file that accepts these findings, and keeps these of its lines: one a line, in the order
    of their files."""
    counts = Counter(identify_finding(finding, read_line(finding.span)) for finding in findings)
    counts.update({entry.identity: entry.count for entry in kept})
    return _format_counts(counts)


def _format_counts(counts: Mapping[Identity, int]) -> str:
    rows = (
        {"path": key.path, "rule": key.rule, "text": key.text, "count": count}
        for key, count in sorted(counts.items())
    )
    return "".join(f"{write_json(row)}\n" for row in rows)


def sift_findings(
    findings: Sequence[Finding],
    acceptances: Iterable[Acceptance],
    read_line: LineReader,
    moved: Mapping[str, str] | None = None,
) -> Sifted:
    """Part findings into those that are accepted and those that are not, and say what is gone.

    Where a finding is there more often than it is accepted, the first ones pass. `moved` tells the
    new paths of files: what seems gone there has most likely only moved.
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
    new = {(finding.span.path, finding.rule) for finding in fresh}
    gone = []
    for identity, number in left.items():
        path = (moved or {}).get(identity.path, identity.path)
        has_moved = (path, identity.rule) in new
        if number:
            gone.append(_report_gone(entries[identity], number, has_moved=has_moved))
    return Sifted(tuple(fresh), tuple(accepted), tuple(gone))


def _report_gone(entry: Acceptance, number: int, *, has_moved: bool) -> Finding:
    rule, path = entry.identity.rule, entry.identity.path
    if number == entry.count:
        message = f"'{rule}' is accepted in '{path}', and is not there any more"
    else:
        there = entry.count - number
        message = f"'{rule}' is accepted {entry.count} times in '{path}', and is there {there}"
    command = f"`bindery check --write-baseline {entry.span.path}`"
    hint = f"take it out: {command}"
    if has_moved:
        hint += "; if its file or its words have only changed, delete the list and write it again: "
        hint += f"{command}. Under `baseline` in chapters.yaml, `mv` and `format` keep it true"
    return Finding(entry.span, RULE, message, hint, Severity.WARNING)


# --- sources that change ---


def carry_accepted(
    acceptances: Iterable[Acceptance],
    before: Sequence[Identity],
    after: Sequence[Identity],
    map_path: Callable[[str], str],
) -> str:
    """The file once sources have been moved or formatted, which brings no new defects: of each
    rule in each file as many findings are accepted as before.

    Both lists are in reading order. A finding is recognized by its identity, else by its turn.
    What was listed and gone before stays listed.
    """
    left = Counter({entry.identity: entry.count for entry in acceptances})
    former: dict[tuple[str, str], list[tuple[Identity, bool]]] = defaultdict(list)
    present: dict[tuple[str, str], list[Identity]] = defaultdict(list)
    for identity in before:
        is_accepted = left[identity] > 0
        left[identity] -= is_accepted
        moved = replace(identity, path=map_path(identity.path))
        former[moved.path, moved.rule].append((moved, is_accepted))
    for identity in after:
        present[identity.path, identity.rule].append(identity)
    counts = Counter(
        {replace(key, path=map_path(key.path)): number for key, number in left.items() if number}
    )
    for key, findings in former.items():
        counts.update(_find_again(findings, present[key]))
    return _format_counts(counts)


def _find_again(
    before: Iterable[tuple[Identity, bool]], after: list[Identity]
) -> Iterable[Identity]:
    """Those of `after` that are an accepted one of `before`; `after` is used up."""
    changed = []
    for identity, is_accepted in before:
        if identity not in after:
            changed.append(is_accepted)
            continue
        after.remove(identity)
        if is_accepted:
            yield identity
    yield from (identity for identity, was in zip(after, changed, strict=False) if was)
