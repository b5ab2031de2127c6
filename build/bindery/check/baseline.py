"""Findings that a book lives with for now: the file that lists them, and what it lets pass.

One finding a line, without its line number, so that the file stays true while text moves. What is
listed and no longer found is reported, so the file only gets shorter. It has nothing to do with
the small files beside tools (`baselines`).
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from bindery.check.finding_identity import Identity, Standing, identify_finding
from bindery.core.model import ConfigError, Finding, Severity, Span
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
    match _load(line):
        case {"path": str(path), "rule": str(rule), "text": str(text), "count": int(count)} if (
            count
        ):
            return Acceptance(Identity(path, rule, text), count, span)
    message = "this line is not an accepted finding: path, rule, text and how often"
    raise ConfigError(Finding(span, "config", message, _REPAIR))


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
    before: Sequence[Standing],
    after: Sequence[Standing],
    map_path: Callable[[str], str],
) -> str:
    """The file once sources have been moved or typed otherwise, which brings no new defects: of
    each rule in each file as many findings are accepted as before.

    Both lists are in reading order. A finding is known again by its identity, else by the
    offending text, else by its turn. What was listed and gone before stays listed.
    """
    left = Counter({entry.identity: entry.count for entry in acceptances})
    groups: dict[tuple[str, str], tuple[list[tuple[Standing, bool]], list[Standing]]]
    groups = defaultdict(lambda: ([], []))
    for standing in before:
        identity = standing.identity
        is_accepted = left[identity] > 0
        left[identity] -= is_accepted
        moved = replace(identity, path=map_path(identity.path))
        groups[moved.path, moved.rule][0].append((replace(standing, identity=moved), is_accepted))
    for standing in after:
        groups[standing.identity.path, standing.identity.rule][1].append(standing)
    counts = Counter(
        {replace(key, path=map_path(key.path)): number for key, number in left.items() if number}
    )
    for former, present in groups.values():
        counts.update(standing.identity for standing in _find_again(former, present))
    return _format_counts(counts)


def _find_again(
    before: Sequence[tuple[Standing, bool]], after: Sequence[Standing]
) -> Iterable[Standing]:
    """Those of `after` that are an accepted one of `before`."""
    keys: tuple[Callable[[Standing], object], ...] = (
        lambda standing: standing.identity,
        lambda standing: standing.core,
        lambda standing: None,
    )
    former, present = list(before), list(after)
    for key in keys:
        for standing in list(present):
            same = (entry for entry in former if key(entry[0]) == key(standing))
            if found := next(same, None):
                former.remove(found)
                present.remove(standing)
                if found[1]:
                    yield standing
