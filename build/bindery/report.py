"""Findings to text, to JSON and to the annotations of GitHub Actions."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Sequence

from bindery.controls import show_controls
from bindery.model import Finding, Severity, Span

LineReader = Callable[[Span], str]


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Reading order: path, line, column; equal findings once."""
    unique = dict.fromkeys(findings)
    return sorted(unique, key=lambda finding: (finding.span, finding.rule, finding.message))


def format_finding(finding: Finding, read_line: LineReader) -> str:
    """One finding as a person reads it: place and rule, the line with a caret, what to do."""
    span = finding.span
    head = (
        f"{span.path}:{span.line}:{span.col}: {finding.severity}[{finding.rule}]: {finding.message}"
    )
    lines = [head]
    source = show_controls(read_line(span).rstrip().replace("\r", "\N{SYMBOL FOR CARRIAGE RETURN}"))
    source = source if span.width else ""
    margin = " " * len(str(span.line))
    if source:
        shown, start, width = _cut_around(source, span.col - 1, span.width)
        lead = "".join("\t" if c == "\t" else " " * _cells(c) for c in shown[:start])
        carets = "^" * max(_cells(shown[start : start + width]), 1)
        lines += [f"{margin} |", f"{span.line} | {shown}", f"{margin} | {lead}{carets}"]
    if finding.help:
        lines.append(f"{margin} = help: {finding.help}")
    return "\n".join(lines)


def _cut_around(source: str, start: int, width: int, limit: int = 100) -> tuple[str, int, int]:
    """At most about `limit` characters of a line, the offending text among them."""
    width = min(width, max(len(source) - start, 1))
    if len(source) <= limit:
        return source, start, width
    width = min(width, limit - 20)
    first = max(0, min(start - 30, len(source) - limit))
    last = min(len(source), first + limit)
    head, tail = ("…" if first else ""), ("…" if last < len(source) else "")
    return head + source[first:last] + tail, start - first + len(head), width


def _cells(text: str) -> int:
    """Columns of a terminal that a text takes."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def format_text(findings: Sequence[Finding], read_line: LineReader, summary: str) -> str:
    """All findings, a blank line between them, and the summary last."""
    blocks = [format_finding(finding, read_line) for finding in findings]
    return "\n\n".join([*blocks, summary]) + "\n"


def format_json(findings: Sequence[Finding]) -> str:
    """One array of objects: path line col rule severity message help."""
    rows = [
        {
            "path": finding.span.path,
            "line": finding.span.line,
            "col": finding.span.col,
            "rule": finding.rule,
            "severity": str(finding.severity),
            "message": finding.message,
            "help": finding.help,
        }
        for finding in findings
    ]
    return json.dumps(rows, indent=2, ensure_ascii=False) + "\n"


def format_github(findings: Sequence[Finding]) -> str:
    """Workflow commands that GitHub Actions shows beside the lines of a pull request."""

    def escape(text: str, *, is_property: bool = False) -> str:
        text = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        return text.replace(":", "%3A").replace(",", "%2C") if is_property else text

    lines = []
    for finding in findings:
        level = "error" if finding.severity is Severity.ERROR else "warning"
        span = finding.span
        message = f"{finding.message}\n{finding.help}" if finding.help else finding.message
        place = (
            f"file={escape(span.path, is_property=True)},line={span.line},col={span.col},"
            f"endColumn={span.col + span.width},title={escape(finding.rule, is_property=True)}"
        )
        lines.append(f"::{level} {place}::{escape(message)}\n")
    return "".join(lines)


def summarise(findings: Sequence[Finding], links: int, chapters: int) -> str:
    """The last line of a report."""
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    warnings = len(findings) - errors
    return (
        f"checked {count_noun(links, 'link')} in {count_noun(chapters, 'chapter')}: "
        f"{count_noun(errors, 'error')}, {count_noun(warnings, 'warning')}"
    )


def count_noun(number: int, noun: str) -> str:
    """A number and its noun: "1 link", "2 links"."""
    grouped = f"{number:,}".replace(",", "\N{NO-BREAK SPACE}")
    return f"{grouped} {noun}" + ("" if number == 1 else "s")
