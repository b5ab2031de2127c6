"""What identifies a finding between runs, even if its line moves."""

from __future__ import annotations

import re

from msgspec import Struct

from bindery.core.model import Finding

_NUMBER = re.compile(r"\d(?:[\d.,\s]*\d)?")
_REACH = 40
"""Characters kept on each side of the marked text. A paragraph can be one line, so a change at its
other end must not make a new finding."""

_READ = 50 * _REACH


class Identity(Struct, frozen=True, order=True):
    """A finding without its position: file, rule, and the words around the marked text."""

    path: str
    rule: str
    text: str
    """For a finding about a whole file: its message without numbers."""


def identify_finding(finding: Finding, line: str) -> Identity:
    """The identity of a finding, given its source line."""
    span = finding.span
    if not span.width:
        return Identity(span.path, finding.rule, _NUMBER.sub("#", _squeeze(finding.message)))
    start = span.col - 1
    end = start + span.width
    # A line can be as long as a book; use only the part that matters.
    before = _squeeze(line[max(start - _READ, 0) : start])[-_REACH:]
    after = _squeeze(line[end : end + _READ])[:_REACH]
    return Identity(span.path, finding.rule, f"{before}{_squeeze(line[start:end])}{after}".strip())


def _squeeze(text: str) -> str:
    """Collapse blanks, so that padding a table changes nothing."""
    return re.sub(r"\s+", " ", text)
