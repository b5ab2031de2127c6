"""Format a document: pad tables, put each paragraph on one line, sort link definitions. The text
must not change, which is verified each time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from markdown_it.token import Token
from msgspec import Struct

from bindery.book.markdown_files import Document, read_source
from bindery.core.model import Chapter, Definition, Finding, Severity, Span
from bindery.core.report import count_noun
from bindery.evidence.quotations import find_quotations
from bindery.markdown.parser import make_parser
from bindery.rewrite.formatting.tables import pad_table

RULE = "unformatted"
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_HARD_BREAK = re.compile(r"(?: {2,}|\\)$")
_BLANKS_OUTSIDE_QUOTES = re.compile(r"""("[^"]*"|'[^']*')|\s+""")
_NUMBER = re.compile(r"(\d+)")


class _Change(Struct, frozen=True):
    """Replace the lines from `first` up to `end`, from 0, by others."""

    first: int
    end: int
    lines: tuple[str, ...]


def format_document(document: Document, *, maths: bool = False) -> tuple[str, list[Finding]]:
    """Format a document and report what cannot be formatted, such as ragged tables. Text from
    `bindery fill` stays as it is."""
    chapter = document.chapter
    kept = [(r.opening.line - 1, r.closing.line) for r in find_quotations(chapter).regions]
    findings: list[Finding] = []
    changes: list[_Change] = []
    for item in (
        *_pad_tables(chapter),
        *_join_paragraphs(chapter, maths=maths),
        *_sort_definitions(chapter),
    ):
        if isinstance(item, Finding):
            findings.append(item)
        elif not any(item.first < end and first < item.end for first, end in kept):
            changes.append(item)
    text = _apply_changes(document.text, changes)
    if not _reads_alike(chapter.source, read_source(text), maths=maths):
        changes = _choose_harmless(document, changes, maths=maths)
        text = _apply_changes(document.text, changes)
    return text, findings


def _choose_harmless(
    document: Document, changes: Sequence[_Change], *, maths: bool
) -> list[_Change]:
    """The changes that do not affect how the text is parsed."""
    chosen: list[_Change] = []
    for change in changes:
        text = read_source(_apply_changes(document.text, [*chosen, change]))
        if _reads_alike(document.chapter.source, text, maths=maths):
            chosen.append(change)
    return chosen


def _apply_changes(text: str, changes: Sequence[_Change]) -> str:
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    rows = [(match[1], match[2]) for match in _LINE.finditer(text.removeprefix(mark))]
    for change in sorted(changes, key=lambda change: change.first, reverse=True):
        endings = [ending for _, ending in rows[change.first : change.end]]
        count = len(change.lines)
        kept = [*endings[: count - 1], endings[-1]]
        rows[change.first : change.end] = list(zip(change.lines, kept, strict=True))
    return mark + "".join(line + ending for line, ending in rows)


# --- tables ---


def _pad_tables(chapter: Chapter) -> Iterator[_Change | Finding]:
    tokens, lines = chapter.tokens, chapter.lines
    for index, token in enumerate(tokens):
        if token.type != "table_open" or token.map is None:
            continue
        length = next(n for n, t in enumerate(tokens[index:]) if t.type == "table_close")
        padded, ragged = pad_table(tokens[index : index + length], lines)
        columns = sum(t.type == "th_open" for t in tokens[index : index + length])
        for row, cells in ragged.items():
            text = lines[row].strip()
            col = len(lines[row]) - len(lines[row].lstrip()) + 1
            yield Finding(
                Span(chapter.path, row + 1, col, max(len(text), 1)),
                RULE,
                f"this row has {count_noun(cells, 'cell')}, but the table has {columns} columns",
                "add empty cells where they are missing; write a pipe inside a cell as `\\|`",
                Severity.WARNING,
            )
        first, end = token.map
        if padded is not None and list(padded) != lines[first:end]:
            yield _Change(first, end, tuple(padded))


# --- paragraphs ---


def _join_paragraphs(chapter: Chapter, *, maths: bool) -> Iterator[_Change]:
    tokens, lines = chapter.tokens, chapter.lines
    for index, token in enumerate(tokens):
        if token.type != "inline" or token.map is None:
            continue
        first, end = token.map
        typed = token.content.split("\n")
        if (
            tokens[index - 1].type != "paragraph_open"
            or len(typed) != end - first
            or end - first < 2
            or sum(part.lstrip().startswith("|") for part in typed) > 1  # a table without dashes
        ):
            continue
        if not all(
            line.rstrip().endswith(part.strip())
            for part, line in zip(typed, lines[first:end], strict=True)
        ):
            continue
        if _holds_display_maths(token.content):
            continue
        joined = _join_lines(typed, lines[first:end])
        if len(joined) < end - first:
            yield _Change(first, end, joined)


def _holds_display_maths(text: str) -> bool:
    """Whether maths between `$$` spans lines or is unclosed. GitHub renders it whether or not the
    book turns formulas on, and authors lay it out to be read."""
    parts = text.split("$$")
    return len(parts) % 2 == 0 or any("\n" in part for part in parts[1::2])


def _join_lines(typed: Sequence[str], lines: Sequence[str]) -> tuple[str, ...]:
    """Join the lines of a paragraph at soft breaks. `typed` is the same without list or quote
    prefixes."""
    joined = [lines[0]]
    for part, before, line in zip(typed[1:], typed, lines[1:], strict=False):
        if _HARD_BREAK.search(before):
            joined.append(line)
        else:
            trailing = line[len(line.rstrip()) :]
            joined[-1] = f"{joined[-1].rstrip()} {part.strip()}{trailing}"
    return tuple(joined)


# --- definitions ---


def _sort_definitions(chapter: Chapter) -> Iterator[_Change]:
    lines = chapter.lines
    for run in _find_runs(chapter):
        ordered = sorted(run, key=_order)
        typed = tuple(lines[entry.span.line - 1] for entry in ordered)
        first, end = run[0].span.line - 1, run[-1].span.line
        if list(typed) != lines[first:end]:
            yield _Change(first, end, typed)


def _order(definition: Definition) -> tuple[tuple[int, int | str], ...]:
    """Sort by label, comparing numbers as numbers."""
    parts = _NUMBER.split(definition.key.casefold())
    return tuple((0, int(part)) if part.isdigit() else (1, part) for part in parts if part)


def _find_runs(chapter: Chapter) -> Iterator[list[Definition]]:
    """Runs of at least two one-line definitions on consecutive lines."""
    lines = chapter.lines
    run: list[Definition] = []
    for entry in chapter.definitions:
        if run and (
            entry.span.line != run[-1].span.line + 1 or _lead(entry, lines) != _lead(run[0], lines)
        ):
            yield from _close_run(run, lines)
            run = []
        run.append(entry)
    yield from _close_run(run, lines)


def _lead(entry: Definition, lines: Sequence[str]) -> str:
    return lines[entry.span.line - 1][: entry.span.col - 1]


def _close_run(run: list[Definition], lines: Sequence[str]) -> Iterator[list[Definition]]:
    """A run without a last definition that may continue on the next line."""
    if run and run[-1].span.line < len(lines) and lines[run[-1].span.line].strip(" \t>"):
        run = run[:-1]
    if len(run) > 1 and all(e.span.line == e.destination_span.line for e in run):
        yield run


# --- verification ---


def _reads_alike(before: str, after: str, *, maths: bool) -> bool:
    """Whether two texts are parsed the same except for soft breaks."""
    return before == after or _read(before, maths=maths) == _read(after, maths=maths)


def _read(source: str, *, maths: bool) -> object:
    env: dict[str, Any] = {}
    tokens = make_parser(maths).parse(source, env)
    references = {
        label: (entry["href"], entry["title"]) for label, entry in env.get("references", {}).items()
    }
    return [_flatten(token) for token in tokens], references


def _flatten(token: Token) -> object:
    content = token.content
    if token.type == "inline":
        return token.type, _flatten_children(token.children or [])
    if token.type == "html_inline":
        content = _BLANKS_OUTSIDE_QUOTES.sub(lambda match: match[1] or " ", content)
    elif token.type.startswith("math_inline") and "%" not in content:
        # In maths, a percent sign starts a comment that ends with the line.
        content = " ".join(content.split())
    children = _flatten_children(token.children or [])
    attributes = {
        key: " ".join(value.split()) if isinstance(value, str) else value
        for key, value in token.attrs.items()
    }
    return token.type, token.tag, token.info, token.hidden, content, attributes, children


def _flatten_children(children: Sequence[Token]) -> list[object]:
    """Inline tokens with soft breaks as spaces, and adjacent texts merged."""
    flat: list[object] = []
    for child in children:
        if child.type in ("text", "softbreak"):
            text = " " if child.type == "softbreak" else child.content
            if flat and isinstance(flat[-1], str):
                flat[-1] += text
            else:
                flat.append(text)
        else:
            flat.append(_flatten(child))
    return flat
