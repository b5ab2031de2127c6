"""Update chapters.yaml after another tool's list of chapters has changed: add new chapters next to
their neighbors and remove those whose file is gone. Everything else stays as typed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from msgspec import Struct

from bindery.book.foreign_contents import Contents
from bindery.book.load import is_left_out
from bindery.core.config import FILE_NAME, Config, write_scalar
from bindery.core.model import refuse
from bindery.core.repository import Tree
from bindery.rewrite.moving.listing import find_end, find_values, get_value


class _Entry(Struct, frozen=True):
    """The lines of a chapter in chapters.yaml, from 0; `end` is the line after its last."""

    path: str
    first: int
    end: int
    part: tuple[int, int]
    """The lines of its part."""
    is_only: bool
    """Whether it is the only chapter of its part."""


def update_list(
    text: str, config: Config, contents: Contents, tree: Tree, *, maths: bool
) -> tuple[str, list[str]]:
    """The updated text of chapters.yaml, and a line about each change and each listed file that is
    left out. `maths` turns formulas on unless the author has decided. Raises ConfigError if
    chapters are not listed one per line."""
    lines = text.split("\n")
    said = []
    known = {entry.path for entry in config.chapters}
    gone = [path for path in known if tree.find_kind(path) != "file"]
    for path in sorted(gone):
        entry = next(e for e in _find_entries(lines, config.folder) if e.path == path)
        renamed = f"{posixpath.splitext(path)[0]}.md"
        if tree.find_kind(renamed) == "file" and renamed not in known:
            names = posixpath.basename(path), posixpath.basename(renamed)
            rows = lines[entry.first : entry.end]
            lines[entry.first : entry.end] = [row.replace(*names, 1) for row in rows]
            known.add(renamed)
            said.append(f"renamed: {path} is now {renamed}")
            continue
        first, end = entry.part if entry.is_only else (entry.first, entry.end)
        del lines[first:end]
        said.append(f"removed, because the file is gone: {path}")
    for title, chapters in contents.parts:
        paths = [path for path, _ in chapters]
        for path in paths:
            if path in known:
                continue
            if is_left_out(path, config):
                said.append(f"listed in {contents.source}, but left out by 'not_chapters': {path}")
                continue
            if config.folder and not path.startswith(f"{config.folder}/"):
                said.append(f"listed in {contents.source}, but not below '{config.folder}': {path}")
                continue
            _insert(lines, path, title, paths, config.folder)
            known.add(path)
            said.append(f"added: {path}")
    if maths and "maths" not in find_values("\n".join(lines)):
        row = next(row for row, line in enumerate(lines) if line.startswith("parts:"))
        lines.insert(row, "maths: true")
        said.append("added: maths: true")
    return "\n".join(lines), said


def _insert(lines: list[str], path: str, title: str, siblings: Sequence[str], folder: str) -> None:
    """Add a chapter after the nearest one before it in its part, or before the next one; as a new
    part if its part is not listed yet."""
    entries = {entry.path: entry for entry in _find_entries(lines, folder)}
    at = siblings.index(path)
    written = write_scalar(posixpath.relpath(path, folder or "."))
    before = next((entries[p] for p in reversed(siblings[:at]) if p in entries), None)
    behind = next((entries[p] for p in siblings[at:] if p in entries), None)
    if neighbour := before or behind:
        row = neighbour.end if before else neighbour.first
        lines.insert(row, f"{_read_indent(lines[neighbour.first])}- {written}")
        return
    last = next(reversed(entries.values()))
    indent = _read_indent(lines[last.part[0]])
    item = f"{indent}    - {written}"
    head = f"{indent}- title: {write_scalar(title)}" if title else ""
    rows = [head, f"{indent}  chapters:", item] if head else [f"{indent}- chapters:", item]
    lines[last.part[1] : last.part[1]] = rows


def _find_entries(lines: Sequence[str], folder: str) -> Iterator[_Entry]:
    for part in find_values("\n".join(lines))["parts"].value:
        listed = get_value(part, "chapters")
        chapters = listed.value if listed else []
        spans = [(node.start_mark.line, find_end(node).line + 1) for node in chapters]
        for node, (first, end) in zip(chapters, spans, strict=True):
            path = get_value(node, "path") or node
            if not lines[first].lstrip().startswith("- ") or part.start_mark.line == first:
                message = "its chapters are not listed one per line"
                hint = "list them one per line, or replace the file: `bindery import DIR --force`"
                raise refuse(FILE_NAME, message, hint)
            whole = (part.start_mark.line, spans[-1][1])
            name = posixpath.normpath(posixpath.join(folder, str(path.value).strip()))
            yield _Entry(name, first, end, whole, len(spans) == 1)


def _read_indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
