"""The baseline: a file of accepted findings.

Each line is a finding without its line number, so the file stays valid when text moves. Entries
whose finding is gone are reported, so the file only gets shorter.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from bindery.check.finding_identity import Identity, identify_finding
from bindery.core.model import Finding, Severity, Span, refuse
from bindery.core.report import LineReader, write_json

RULE = "gone-finding"
_REPAIR = "fix the line, or delete the file and write it again with `--write-baseline`"


class Acceptance(Struct, frozen=True):
    """An accepted finding, how often it is accepted, and its line in the file."""

    identity: Identity
    count: int
    span: Span


class Sifted(Struct, frozen=True):
    """Findings sorted by the baseline."""

    fresh: tuple[Finding, ...]
    accepted: tuple[Finding, ...]
    gone: tuple[Finding, ...]
    """A finding per entry that accepts more findings than exist."""


def parse_accepted(text: str, path: str) -> tuple[Acceptance, ...]:
    """Read the file. Raises ConfigError for a malformed line."""
    entries: dict[Identity, Acceptance] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        span = Span(path, number, 1, len(line.rstrip()))
        entry = _parse_line(line, span)
        if (former := entries.get(entry.identity)) is not None:
            message = f"this finding is accepted twice, here and on line {former.span.line}"
            hint = "merge the two lines and add their counts"
            raise refuse(span, message, hint)
        entries[entry.identity] = entry
    return tuple(entries.values())


def _parse_line(line: str, span: Span) -> Acceptance:
    match _load(line):
        case {"path": str(path), "rule": str(rule), "text": str(text), "count": int(count)} if (
            count
        ):
            return Acceptance(Identity(path, rule, text), count, span)
    message = "this line is not an accepted finding: it needs path, rule, text and count"
    raise refuse(span, message, _REPAIR)


def _load(line: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def format_accepted(
    findings: Iterable[Finding], read_line: LineReader, kept: Iterable[Acceptance] = ()
) -> str:
    """The file that accepts these findings and keeps these entries, one per line, in the order of
    their files."""
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
    """Sort findings into accepted and new, and report entries that are gone.

    If a finding occurs more often than accepted, the first ones pass. `moved` maps old paths to new
    ones: an entry that seems gone there has probably only moved.
    """
    entries = {entry.identity: entry for entry in acceptances}
    if not entries:
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
        message = f"'{rule}' is accepted in '{path}', but no longer occurs"
    else:
        there = entry.count - number
        message = f"'{rule}' is accepted {entry.count} times in '{path}', but occurs {there}"
    command = f"`bindery check --write-baseline {entry.span.path}`"
    hint = f"remove it: {command}"
    if has_moved:
        hint += "; if only its file or its words changed, delete the list and write it again: "
        hint += f"{command}. With `baseline` in chapters.yaml, `mv` and `format` keep it up to date"
    return Finding(entry.span, RULE, message, hint, Severity.WARNING)


# --- sources that change ---


def carry_accepted(
    acceptances: Iterable[Acceptance],
    before: Sequence[Identity],
    after: Sequence[Identity],
    map_path: Callable[[str], str],
) -> str:
    """The file after sources were moved or formatted, which adds no defects: per rule and file, as
    many findings are accepted as before.

    Both lists are in reading order. Findings match by identity, then by position. Entries that were
    already gone are kept.
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
    """The findings in `after` that were accepted in `before`; empties `after`."""
    changed = []
    for identity, is_accepted in before:
        if identity not in after:
            changed.append(is_accepted)
            continue
        after.remove(identity)
        if is_accepted:
            yield identity
    yield from (identity for identity, was in zip(after, changed, strict=False) if was)
