"""The tables of a chapter as typed, and text that was meant as a table but is not one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from markdown_it.token import Token
from msgspec import Struct

from bindery.core.model import Chapter, Finding, Span


class Cell(Struct, frozen=True):
    text: str
    """As a reader sees it."""
    span: Span


class TypedTable(Struct, frozen=True):
    """A table that the parser has seen."""

    index: int
    """The index of its first token in the chapter."""
    head: tuple[Cell, ...]
    rows: tuple[tuple[Cell, ...], ...]
    line: int


class TypedCell(Struct, frozen=True):
    """A cell between its pipes, as typed in its line."""

    text: str
    col: int
    """Of its first character, from 1."""


_QUOTE_MARKS = re.compile(r"[ \t]*(?:>[ \t]?[ \t]*)*")
_PIPE = re.compile(r"(?<!\\)\|")


def split_cells(line: str) -> list[TypedCell]:
    """The cells of a row. GitHub splits at every pipe without a backslash, even in code spans."""
    marks = _QUOTE_MARKS.match(line)
    start = marks.end() if marks else 0
    end = len(line.rstrip())
    bounds = [found.start() for found in _PIPE.finditer(line, start, end)]
    starts = [start, *(bound + 1 for bound in bounds)]
    ends = [*bounds, end]
    if bounds and bounds[0] == start:
        starts, ends = starts[1:], ends[1:]
    if bounds and bounds[-1] == end - 1 and starts:
        starts, ends = starts[:-1], ends[:-1]
    cells = []
    for left, right in zip(starts, ends, strict=True):
        text = line[left:right].strip()
        cells.append(TypedCell(text, line.find(text, left) + 1))
    return cells


def read_tables(chapter: Chapter) -> tuple[TypedTable, ...]:
    """The tables of a chapter in reading order; raw HTML is left alone."""
    if "|" not in chapter.source:
        return ()
    return chapter.facts.derive(
        "tables", tuple[TypedTable, ...], lambda: tuple(_iterate_tables(chapter))
    )


def _iterate_tables(chapter: Chapter) -> Iterator[TypedTable]:
    lines = chapter.lines
    for index, token in enumerate(chapter.tokens):
        if token.type == "table_open" and token.map is not None:
            rows = list(_read_rows(chapter, index, lines))
            if rows:
                yield TypedTable(index, rows[0], tuple(rows[1:]), token.map[0] + 1)


def _read_rows(chapter: Chapter, start: int, lines: Sequence[str]) -> Iterator[tuple[Cell, ...]]:
    row: list[Cell] = []
    typed: list[TypedCell] = []
    line = 0
    for position in range(start, len(chapter.tokens)):
        token = chapter.tokens[position]
        match token.type:
            case "table_close":
                return
            case "tr_open":
                row = []
                typed = split_cells(lines[token.map[0]]) if token.map else []
                line = token.map[0] + 1 if token.map else 0
            case "inline":
                here = typed[len(row)] if len(row) < len(typed) else None
                span = Span(
                    chapter.path,
                    line,
                    here.col if here else 1,
                    max(len(here.text), 1) if here else 1,
                )
                row.append(_read_cell(token, span))
            case "tr_close":
                yield tuple(row)
            case _:
                pass


def _read_cell(token: Token, span: Span) -> Cell:
    children = token.children or []
    texts = ("text", "text_special", "code_inline", "emoji")
    text = "".join(child.content for child in children if child.type in texts)
    return Cell(" ".join(text.split()), span)


# --- mistakes in tables ---------------------------------------------------------------


_DELIMITER = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?")
_TEXT_BLOCK = re.compile(
    r"<!--.*?-->|<(?P<name>pre|script|style|textarea)\b.*?</(?P=name)>", re.IGNORECASE | re.DOTALL
)
"""HTML that contains only text: comments, and elements whose content is not HTML."""
_CODE_SPAN = re.compile(r"(?<!`)(?P<ticks>`+)(?!`)(?P<text>.*?[^`])(?P=ticks)(?!`)")
_SIGN_OF_CELL = re.compile(r"[^\s|:-]")


def find_table_faults(chapter: Chapter) -> Iterator[Finding]:
    """Findings for tables that are not shown as typed, or not as tables at all."""
    if "|" not in chapter.source:
        return
    lines = chapter.lines
    tokens = chapter.tokens
    for index, token in enumerate(tokens):
        if token.type not in _BLOCKS or token.map is None:
            continue
        if token.type == "table_open":
            yield from _check_table(chapter, index, lines)
        elif token.type == "paragraph_open":
            if "|" in tokens[index + 1].content:
                yield from _check_paragraph(chapter, index, lines)
        elif "|" in token.content:
            yield from _check_hidden(chapter, token, lines)


_BLOCKS = frozenset(("table_open", "paragraph_open", "code_block", "html_block"))


def _fault(span: Span, message: str, hint: str) -> Finding:
    return Finding(span, "bad-table", message, hint)


def _is_delimiter(line: str) -> bool:
    line = line.strip()
    return "|" in line and "-" in line and bool(_DELIMITER.fullmatch(line))


def _span_line(chapter: Chapter, lines: Sequence[str], row: int) -> Span:
    marks = _QUOTE_MARKS.match(lines[row])
    start = marks.end() if marks else 0
    return Span(chapter.path, row + 1, start + 1, max(len(lines[row].rstrip()) - start, 1))


def _count(cells: int) -> str:
    return f"{cells} cell" if cells == 1 else f"{cells} cells"


# --- tables that are tables ---


def _check_table(chapter: Chapter, start: int, lines: Sequence[str]) -> Iterator[Finding]:
    tokens = chapter.tokens
    table = tokens[start].map
    assert table is not None
    yield from _check_line_above(chapter, start, table[0], lines)
    columns = 0
    for token in tokens[start:]:
        if token.type == "table_close":
            return
        columns += token.type == "th_open"
        if token.type == "tr_open" and token.map is not None and token.map[0] != table[0]:
            yield from _check_row(chapter, token.map[0], columns, lines)


def _check_line_above(
    chapter: Chapter, start: int, first: int, lines: Sequence[str]
) -> Iterator[Finding]:
    """A head of two lines, of which GitHub shows the upper one as a paragraph."""
    above = chapter.tokens[start - 1] if start else None
    if above is None or above.type != "paragraph_close" or not first:
        return
    opening = chapter.tokens[start - 3]  # a paragraph is three tokens
    if opening.map is None or opening.map[1] != first:
        return
    if len(split_cells(lines[first - 1])) > 1 and lines[first - 1].strip("> \t").startswith("|"):
        message = "the head of a table has one line, so this line is shown as text above it"
        hint = "join the lines of the head, with <br> where one is to break"
        yield _fault(_span_line(chapter, lines, first - 1), message, hint)


def _check_row(chapter: Chapter, row: int, columns: int, lines: Sequence[str]) -> Iterator[Finding]:
    line = lines[row]
    is_plain = line.startswith("|") and line.endswith("|") and not ("`" in line or "\\" in line)
    if is_plain and line.count("|") == columns + 1:
        return
    cells = split_cells(line)
    if code := _find_split_code(line):
        message = f"the pipe in {code.text} ends the cell"
        span = Span(chapter.path, row + 1, code.col, len(code.text))
        yield _fault(span, message, f"write {_escape(code.text)}")
        return
    if len(cells) > columns:
        lost = [cell for cell in cells[columns:] if cell.text]
        if lost:
            width = lost[-1].col + len(lost[-1].text) - lost[0].col
            message = (
                f"the row has {_count(len(cells))} and the head {columns}, so '{lost[0].text}' is "
                "not shown"
            )
            hint = "write \\| for a pipe that is text, or give the head another cell"
            yield _fault(Span(chapter.path, row + 1, lost[0].col, width), message, hint)
        return
    if len(cells) == columns or columns == 1:
        return
    span = _span_line(chapter, lines, row)
    if not _PIPE.search(line):
        message = "this text is shown as a row of the table above"
        yield _fault(span, message, "put an empty line before it")
        return
    bare = line.strip("> \t")
    if len(cells) == columns - 1 and bare.endswith("|") and not bare.startswith("|"):
        return  # without pipes at the edges, an empty cell after the last pipe is intended
    message = f"the row has {_count(len(cells))} and the head {columns}"
    yield _fault(span, message, "add the missing cells, empty ones too")


def _find_split_code(line: str) -> TypedCell | None:
    """The first code span that a pipe splits."""
    for code in _CODE_SPAN.finditer(line):
        if _PIPE.search(code["text"]):
            return TypedCell(code[0], code.start() + 1)
    return None


def _escape(code: str) -> str:
    return _PIPE.sub(r"\\|", code)


# --- text that is not a table ---


def _check_paragraph(chapter: Chapter, start: int, lines: Sequence[str]) -> Iterator[Finding]:
    tokens = chapter.tokens
    block = tokens[start].map
    assert block is not None
    content = tokens[start + 1].content.split("\n")
    rows = range(block[0], min(block[0] + len(content), len(lines)))
    for row, text in zip(rows, content, strict=False):
        if _is_delimiter(text):
            yield _describe_delimiter(chapter, row, content[: row - block[0] + 1], lines)
            return
    is_row = [text.strip().startswith("|") and len(split_cells(text)) > 1 for text in content]
    ends = [text.strip().endswith("|") for text in content]
    behind_table = start and tokens[start - 1].type == "table_close"
    if behind_table and all(is_row) and all(ends):
        below = tokens[start + 3 : start + 4]  # a paragraph is three tokens
        if any(t.type == "table_open" and t.map and t.map[0] == block[1] for t in below):
            return  # the table below reports its head over several lines
        message = "the empty line above ends the table, so this is shown as text"
        hint = "remove the empty line, or give this table its own head"
        yield _fault(_span_line(chapter, lines, block[0]), message, hint)
        return
    for row, (one, two) in enumerate(pairwise(is_row)):
        if one and two and ends[row] and ends[row + 1]:
            if len(split_cells(content[row])) != len(split_cells(content[row + 1])):
                continue
            columns = len(split_cells(content[row]))
            second = content[row + 1]
            message = "these rows are shown as text: a table needs a line of dashes below its head"
            hint = f"write '|{' --- |' * columns}' below its head"
            if not _SIGN_OF_CELL.search(re.sub("[—–−=+_]", "-", second)):
                hint = f"write '|{' --- |' * columns}', with three hyphens in each cell"
                row += 1
            yield _fault(_span_line(chapter, lines, block[0] + row), message, hint)
            return


def _describe_delimiter(
    chapter: Chapter, row: int, above: Sequence[str], lines: Sequence[str]
) -> Finding:
    """Why no table begins with the line of dashes that is the last of these."""
    span = _span_line(chapter, lines, row)
    if len(above) == 1:
        message = "this is shown as text: there is no head above the line of dashes"
        return _fault(span, message, "put the head directly above it, without an empty line")
    count, head = len(split_cells(above[-1])), len(split_cells(above[-2]))
    if head == count:
        message = "this is shown as text, not as a table"
        return _fault(span, message, "put an empty line above the head")
    if code := _find_split_code(lines[row - 1]):
        span = Span(chapter.path, row, code.col, len(code.text))
        message = f"the pipe in {code.text} ends the cell, so this is not a table"
        return _fault(span, message, f"write {_escape(code.text)}")
    message = f"this is shown as text: the line of dashes has {_count(count)} and the head {head}"
    return _fault(span, message, "write dashes for each cell of the head")


def _check_hidden(chapter: Chapter, token: Token, lines: Sequence[str]) -> Iterator[Finding]:
    """A table that is in indented code, or in raw HTML."""
    content = token.content.rstrip("\n")
    message = "this table is indented by four spaces, so it is shown as code"
    hint = "indent it less"
    if token.type == "html_block":
        content = _TEXT_BLOCK.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), content)
        message = "this table is shown as text: GitHub treats it as part of the HTML above it"
        hint = "put an empty line above the head"
    assert token.map is not None
    for offset, (head, delimiter) in enumerate(pairwise(content.split("\n"))):
        if _is_delimiter(delimiter) and len(split_cells(head)) == len(split_cells(delimiter)):
            yield _fault(_span_line(chapter, lines, token.map[0] + offset), message, hint)
            return
