"""What makes a finding of today the same as one of yesterday, though its line has moved."""

from __future__ import annotations

import re
from dataclasses import dataclass

from bindery.core.model import Finding

_NUMBER = re.compile(r"\d(?:[\d.,\s]*\d)?")
_REACH = 40
"""Characters kept on each side of the offending text: where a paragraph is one line, a word
changed at its other end makes no other finding."""

_READ = 50 * _REACH


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """A finding without its place: file, rule, and the words around the offending text."""

    path: str
    rule: str
    text: str
    """For a finding about a whole file its message, without numbers."""


def identify_finding(finding: Finding, line: str) -> Identity:
    """The identity of a finding, given the source line that it is in."""
    span = finding.span
    if not span.width:
        return Identity(span.path, finding.rule, _NUMBER.sub("#", _squeeze(finding.message)))
    start = span.col - 1
    end = start + span.width
    # A line may be as long as a book: only the part that matters is read.
    before = _squeeze(line[max(start - _READ, 0) : start])[-_REACH:]
    after = _squeeze(line[end : end + _READ])[:_REACH]
    return Identity(span.path, finding.rule, f"{before}{_squeeze(line[start:end])}{after}".strip())


def _squeeze(text: str) -> str:
    """Every run of blanks as one: a table that is padded again stays the same."""
    return re.sub(r"\s+", " ", text)
