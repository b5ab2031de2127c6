"""Format findings as text, JSON and GitHub Actions annotations."""

from __future__ import annotations

import difflib
import itertools
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence, Sized

from bindery.core.control_characters import show_controls
from bindery.core.model import Finding, Severity, Span

LineReader = Callable[[Span], str]

_SHOWN = 10
"""Annotations that GitHub shows per level and step."""


def sort_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by path, line and column, and remove duplicates."""
    unique = dict.fromkeys(findings)
    return sorted(unique, key=lambda finding: (finding.span, finding.rule, finding.message))


def format_finding(finding: Finding, read_line: LineReader) -> str:
    """A finding as text: position and rule, the line with a caret, and the hint."""
    span = finding.span
    lines = [format_head(finding)]
    margin = " " * len(str(span.line))
    source = read_line(span).rstrip() if span.width else ""
    if source:
        cut, start, width = _cut_around(source, span.col - 1, span.width)
        before, there, after = map(
            show_hidden, (cut[:start], cut[start : start + width], cut[start + width :])
        )
        lead = "\t".join(" " * measure_width(piece) for piece in before.split("\t"))
        carets = "^" * max(measure_width(there), 1)
        shown = before + there + after
        lines += [f"{margin} |", f"{span.line} | {shown}", f"{margin} | {lead}{carets}"]
    if finding.help:
        lines.append(f"{margin} = help: {show_hidden(finding.help)}")
    return "\n".join(lines)


# Characters that change text direction, are invisible, break lines in some programs, or control a
# terminal.
_HIDDEN = re.compile(
    "[\x80-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff]"
)


def show_hidden(text: str) -> str:
    """Text on one line with every character visible: controls as pictures, the rest escaped."""
    if text.isprintable():
        return text
    text = text.replace("\r", "\N{SYMBOL FOR CARRIAGE RETURN}")
    text = text.replace("\n", "\N{SYMBOL FOR NEWLINE}")
    return _HIDDEN.sub(_escape_hidden, show_controls(text))


def _escape_hidden(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def format_head(finding: Finding) -> str:
    """Position, severity, rule and message on one line. A whole file or an option has no line."""
    span = finding.span
    place = f"{span.path}:{span.line}:{span.col}" if span.width else span.path
    return show_hidden(f"{place}: {finding.severity}[{finding.rule}]: {finding.message}")


_LINE_WIDTH = 100
"""Characters of a long line that are shown."""


def _cut_around(source: str, start: int, width: int) -> tuple[str, int, int]:
    """As much of a line as is shown, around the marked text."""
    width = min(width, max(len(source) - start, 1))
    if len(source) <= _LINE_WIDTH:
        return source, start, width
    width = min(width, _LINE_WIDTH - 20)
    first = max(0, min(start - 30, len(source) - _LINE_WIDTH))
    last = min(len(source), first + _LINE_WIDTH)
    head, tail = ("…" if first else ""), ("…" if last < len(source) else "")
    return head + source[first:last] + tail, start - first + len(head), width


def measure_width(text: str) -> int:
    """Columns that a text occupies in a monospaced font; Chinese characters take two."""
    if text.isascii():
        return len(text)
    return len(text) + sum(
        -1
        if unicodedata.combining(c) or unicodedata.category(c) in ("Mn", "Me", "Cf")
        else unicodedata.east_asian_width(c) in "WF"
        for c in text
        if not c.isascii()
    )


def format_text(findings: Sequence[Finding], read_line: LineReader, summary: str) -> str:
    """All findings, separated by blank lines, and the summary."""
    blocks = [format_finding(finding, read_line) for finding in findings]
    return "\n\n".join([*blocks, summary]) + "\n"


def format_json(findings: Sequence[Finding]) -> str:
    """A JSON array of objects with path, line, col, rule, severity, message and help."""
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
    return f"{write_json(rows, indent=2)}\n"


def write_json(value: object, indent: int | None = None) -> str:
    """Readable JSON that escapes only what UTF-8 cannot encode, such as bytes of some file
    names."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def format_github(findings: Sequence[Finding], prefix: str = "") -> str:
    """Workflow commands that GitHub Actions shows next to the lines of a pull request.

    GitHub shows a limited number per level and silently drops the rest. So the last one shown
    counts the rest, which are listed in a group in the log. `prefix` is the book's folder in its
    repository.
    """
    lines = []
    rest: list[Finding] = []
    for severity in (Severity.ERROR, Severity.WARNING):
        level = [finding for finding in findings if finding.severity is severity]
        shown = len(level) if len(level) <= _SHOWN else _SHOWN - 1
        lines += [_annotate(finding, prefix) for finding in level[:shown]]
        if left := level[shown:]:
            files = len({finding.span.path for finding in left})
            message = f"{count_noun(len(left), f'more {severity}')} in {count_noun(files, 'file')}"
            lines.append(f"::{severity} title=bindery::{message}: see the log of this step")
            rest += left
    if rest:
        lines += ["::group::more findings", *map(format_head, rest), "::endgroup::"]
    return "".join(f"{line}\n" for line in lines)


def _annotate(finding: Finding, prefix: str) -> str:
    span = finding.span
    path = f"{prefix}/{span.path}" if prefix else span.path
    message = show_hidden(finding.message)
    if finding.help:
        message += f"\n{show_hidden(finding.help)}"
    place = (
        f"file={_escape_property(show_controls(path))},line={span.line},col={span.col},"
        f"endColumn={span.col + span.width},title={_escape_property(finding.rule)}"
    )
    return f"::{finding.severity} {place}::{_escape(message)}"


def _escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape(text).replace(":", "%3A").replace(",", "%2C")


def summarise(findings: Sequence[Finding], links: int, chapters: int, accepted: int = 0) -> str:
    """The last line of a report. `accepted` counts findings accepted by the baseline."""
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    warnings = len(findings) - errors
    summary = (
        f"checked {count_noun(links, 'link')} in {count_noun(chapters, 'chapter')}: "
        f"{count_noun(errors, 'error')}, {count_noun(warnings, 'warning')}"
    )
    return f"{summary}, {group_digits(accepted)} accepted" if accepted else summary


def format_diff(path: str, before: str, after: str, new_path: str = "") -> str:
    """A unified diff of a file, under its paths before and after."""
    names = f"a/{path}", f"b/{new_path or path}"
    texts = before.splitlines(keepends=True), after.splitlines(keepends=True)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(*texts, *names)
    )


def describe_change(old: str, new: str, giver: str) -> str:
    """The first line that differs in more than padding, as it is and as `giver` has it."""
    pairs = itertools.zip_longest(_squeeze(old), _squeeze(new), fillvalue="")
    for before, after in pairs:
        if before != after:
            same = itertools.takewhile(
                lambda pair: pair[0] == pair[1], zip(before, after, strict=False)
            )
            start = len(list(same))
            cut = (_cut_around(line, start, 1)[0] for line in (before, after))
            has, gives = (f"`{line}`" if line else "no such line" for line in cut)
            return f"it has {has} where {giver} has {gives}"
    return "only the spacing differs"


def _squeeze(text: str) -> list[str]:
    """The lines that are not empty, with the padding of table rows taken out."""
    lines = (re.sub(r"-{2,}", "--", " ".join(line.split())) for line in text.split("\n"))
    return [line for line in lines if line]


def count_noun(number: int, noun: str) -> str:
    """A number and its noun: "1 link", "2 links"."""
    return f"{group_digits(number)} {noun}" + ("" if number == 1 else "s")


_MORE_LINES = 6


def count_more(places: Sized) -> str:
    """How many more positions there are than the one shown: " (and 2 more)"."""
    return f" (and {group_digits(len(places) - 1)} more)" if len(places) > 1 else ""


def list_more(lines: Sequence[int]) -> str:
    """How many more places there are, and where: " (and 2 more, on lines 5 and 9)"."""
    rest = [str(line) for line in dict.fromkeys(lines) if line != lines[0]]
    if len(rest) > _MORE_LINES:
        rest[_MORE_LINES - 1 :] = [f"{len(rest) - _MORE_LINES + 1} others"]
    *most, last = rest or [""]
    where = f", on lines {', '.join(most)} and {last}" if most else f", on line {last}"
    return count_more(lines).replace(" more", f" more{where if rest else ''}")


def group_digits(number: int) -> str:
    """A number with spaces between groups of three digits."""
    return f"{number:,}".replace(",", "\N{NO-BREAK SPACE}")
