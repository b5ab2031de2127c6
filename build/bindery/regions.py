"""Regions: tables in a chapter that are made, not written, between two invisible comments.

    <!-- table: NAME -->
    | ... |
    <!-- /table 27f2f21b -->

The closing marker carries a checksum of the body, so that an edit by hand is seen.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from bindery.config import find_nearest
from bindery.evidence import Evidence
from bindery.model import Chapter, Finding, Span
from bindery.tables import format_markdown

FILL_COMMAND = "bindery fill"

_OPEN = re.compile(r"(?P<indent>\s*)(?P<mark><!--\s*table:\s*(?P<name>[\w./-]*)\s*-->)\s*$")
_CLOSE = re.compile(r"\s*(?P<mark><!--\s*/table(?:\s+(?P<sum>[0-9a-f]{8}))?\s*-->)\s*$")
_ANY = re.compile(r"<!--\s*/?table\b")


@dataclass(frozen=True, slots=True)
class Region:
    """A region of a chapter. Lines are counted from 1; the body lies strictly between them."""

    name: str
    opening: Span
    closing: Span
    indent: str
    body: str
    checksum: str

    @property
    def is_edited(self) -> bool:
        """Whether the body is not what was last filled in. An empty region is never edited."""
        if not self.body.strip() and not self.checksum:
            return False
        return compute_checksum(self.body) != self.checksum


def compute_checksum(body: str) -> str:
    """Eight hexadecimal digits over the body without its indentation, so that a table has the
    same sum at top level and in a list."""
    lines = textwrap.dedent(body).strip("\n").split("\n")
    text = "\n".join(line.rstrip() for line in lines)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def find_regions(chapter: Chapter) -> tuple[list[Region], list[Finding]]:
    """The regions of a chapter in order, and markers that have no partner."""
    regions: list[Region] = []
    findings: list[Finding] = []
    opened: tuple[re.Match[str], Span] | None = None
    lines = chapter.lines
    for number in _find_markers(chapter):
        line = lines[number - 1]
        opening, closing = _OPEN.match(line), _CLOSE.match(line)
        if opening:
            span = _span_of(chapter.path, number, opening)
            if opened is not None:
                findings.append(_report_unclosed(opened[1], opened[0]["name"]))
            opened = (opening, span)
        elif closing:
            span = _span_of(chapter.path, number, closing)
            if opened is None:
                message = "this region is closed and was never opened"
                hint = "write `<!-- table: NAME -->` before the table"
                findings.append(Finding(span, "unclosed-region", message, hint))
                continue
            start, where = opened
            body = "\n".join(lines[where.line : number - 1])
            regions.append(
                Region(start["name"], where, span, start["indent"], body, closing["sum"] or "")
            )
            opened = None
        else:
            span = Span(chapter.path, number, len(line) - len(line.lstrip()) + 1, len(line.strip()))
            message = "this marker of a region cannot be read"
            hint = "write `<!-- table: NAME -->` and `<!-- /table -->`, each on a line of its own"
            findings.append(Finding(span, "unclosed-region", message, hint))
    if opened is not None:
        findings.append(_report_unclosed(opened[1], opened[0]["name"]))
    return regions, findings


def _find_markers(chapter: Chapter) -> Iterator[int]:
    """Lines with a marker; one that is only shown, in a fence, is none."""
    if "table" not in chapter.source:
        return
    for token in chapter.tokens:
        if token.type == "html_block" and token.map and _ANY.search(token.content):
            for number in range(token.map[0], token.map[1]):
                if _ANY.search(chapter.lines[number]):
                    yield number + 1


def _span_of(path: str, number: int, match: re.Match[str]) -> Span:
    return Span(path, number, match.start("mark") + 1, len(match["mark"]))


def _report_unclosed(span: Span, name: str) -> Finding:
    message = f"the region '{name}' is not closed"
    hint = "write `<!-- /table -->` on a line of its own behind the table"
    return Finding(span, "unclosed-region", message, hint)


def render_region(region: Region, evidence: Evidence) -> str | None:
    """The body that a region should have, indented as it stands; None where no view gives it."""
    table = evidence.tables.get(region.name)
    if table is None:
        return None
    return textwrap.indent(format_markdown(table), region.indent)


def compare_regions(chapter: Chapter, evidence: Evidence) -> Iterator[Finding]:
    """What is wrong with the regions of a chapter: markers, names, edits, stale tables."""
    regions, findings = find_regions(chapter)
    yield from findings
    for region in regions:
        expected = render_region(region, evidence)
        if expected is None:
            if region.name not in evidence.broken:
                yield _report_unknown(region, evidence)
        elif region.is_edited:
            message = "this table was edited by hand"
            if not region.checksum:
                message = "this table stands in a region and was never filled in"
            hint = "undo the edit, or empty the region; then change the record, data or view"
            yield Finding(
                region.opening, "edited-output", message, f"{hint} and run `{FILL_COMMAND}`"
            )
        elif region.body != expected:
            message = f"this table is not what the view '{region.name}' gives"
            change = _describe_change(region.body, expected)
            hint = f"{change}run `{FILL_COMMAND}` and commit the result"
            yield Finding(region.closing, "stale-output", message, hint)


def _describe_change(body: str, expected: str) -> str:
    """The first row that differs, without its padding."""
    old, new = (text.strip("\n").split("\n") for text in (body, expected))
    for before, after in itertools.zip_longest(old, new, fillvalue=""):
        if before != after:
            words = [" ".join(line.split())[:90] or "no row" for line in (before, after)]
            if words[0] != words[1]:
                return f"it has `{words[0]}` where the view gives `{words[1]}`; "
    return ""


def _report_unknown(region: Region, evidence: Evidence) -> Finding:
    nearest = find_nearest(region.name, [*evidence.tables, *evidence.broken])
    hint = f"did you mean '{nearest}'?" if nearest else f"add a view '{region.name}.sql'"
    message = f"there is no view '{region.name}'"
    return Finding(region.opening, "unknown-record", message, hint)


def fill_chapter(chapter: Chapter, evidence: Evidence) -> tuple[str, int]:
    """The source of a chapter with every region filled, and how many regions changed.

    Regions that were edited by hand or that no view gives are left as they are; the checks
    report them.
    """
    lines = chapter.lines
    changed = 0
    regions, _ = find_regions(chapter)
    for region in reversed(regions):
        body = render_region(region, evidence)
        if body is None or region.is_edited or body == region.body:
            continue
        changed += 1
        closing = f"{region.indent}<!-- /table {compute_checksum(body)} -->"
        lines[region.opening.line : region.closing.line] = [*body.split("\n"), closing]
    return "\n".join(lines), changed
