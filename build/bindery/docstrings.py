"""The text at the top of a tool, cut into what it is made of: headings, paragraphs and blocks that
stand as they were typed. The source is read and never run."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

_ALIGNED = re.compile(r".{0,29}(?:\S {3,}|[^\s.:!?] {2})\S")
"""A short label, and what is said of it, set below others with spaces."""
_TYPED = re.compile(r">>> |\.\.\. |\$ |[-*|+] |\d+[.)] ")
"""Beginnings of sessions, lists and tables, whose lines stay lines."""


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a docstring. `kind` is `heading`, `paragraph`, `terms` or `typed`."""

    kind: str
    text: str
    terms: tuple[tuple[str, str], ...] = ()
    """Labels, and what is said of each, of a block of terms."""


def read_docstring(source: str) -> str:
    """The docstring of a module without its common indent; empty where there is none, or where
    the source is not Python."""
    try:
        module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ""
    return ast.get_docstring(module) or ""


def split_docstring(text: str) -> tuple[str, list[Block]]:
    """The first line, which is what the tool is about, and the blocks below it.

    A line at the margin with an indented block right below it is a heading. Lines that are
    indented deeper than those around them, or set below each other with spaces, stay as typed.
    """
    lines = text.expandtabs().split("\n")
    first = lines[0].strip()
    blocks: list[Block] = []
    position = 1
    while position < len(lines):
        line = lines[position]
        if not line.strip():
            position += 1
        elif not line.startswith(" ") and _begins_indented(lines, position + 1):
            blocks.append(Block("heading", line.strip().removesuffix(":")))
            position += 1
        else:
            end = position
            while end < len(lines) and lines[end].strip():
                if end > position and _is_heading(lines, end):
                    break
                end += 1
            blocks += _split_lines(lines[position:end])
            position = end
    return first, blocks


def _begins_indented(lines: list[str], position: int) -> bool:
    return position < len(lines) and lines[position].startswith(" ")


def _is_heading(lines: list[str], position: int) -> bool:
    return not lines[position].startswith(" ") and _begins_indented(lines, position + 1)


def _split_lines(lines: list[str]) -> Iterator[Block]:
    """The blocks of lines without an empty one among them."""
    margin = min(len(line) - len(line.lstrip()) for line in lines)
    lines = [line[margin:].rstrip() for line in lines]
    typed = [bool(line[0] == " " or _ALIGNED.match(line) or _TYPED.match(line)) for line in lines]
    kind, kept = "", list[str]()
    for number, line in enumerate(lines):
        # A label that is too long for its column stands among others.
        is_between = 0 < number < len(lines) - 1 and typed[number - 1] and typed[number + 1]
        now = "typed" if typed[number] or is_between else "paragraph"
        if kept and now != kind:
            yield _join(kind, kept)
            kept = []
        kind = now
        kept.append(line)
    if kept:
        yield _join(kind, kept)


def _join(kind: str, lines: list[str]) -> Block:
    if kind == "paragraph":
        return Block(kind, " ".join(line.strip() for line in lines))
    margin = min(len(line) - len(line.lstrip()) for line in lines)
    lines = [line[margin:] for line in lines]
    return Block("terms" if (terms := _read_terms(lines)) else kind, "\n".join(lines), terms)


def _read_terms(lines: list[str]) -> tuple[tuple[str, str], ...]:
    """Labels and sentences that are set below each other in two columns; none where a line does
    not fit, or where no sentence goes on in a second line: what is short may be a command."""
    indents = {len(line) - len(line.lstrip()) for line in lines} - {0}
    if len(indents) != 1 or any(line.endswith("\\") for line in lines):
        return ()
    column = indents.pop()
    terms: list[tuple[str, str]] = []
    for line in lines:
        label, text = line[:column], line[column:]
        if label.strip() and (label[-1] != " " or not text or text[0] == " "):
            return ()
        if label.strip():
            terms.append((label.strip(), text))
        elif not terms:
            return ()
        else:
            terms[-1] = (terms[-1][0], f"{terms[-1][1]} {text}")
    return tuple(terms) if len(terms) > 1 else ()
