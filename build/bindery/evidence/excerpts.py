"""Excerpts: a file of the repository, or some of its lines, as chapters quote it.

    <!-- excerpt: scripts/train.py#loop -->

What follows the path is a region, which the file marks in comments (`# region loop` and
`# endregion loop`, mdBook's `ANCHOR: loop` and `ANCHOR_END: loop`, or MkDocs' `--8<-- [start:loop]`
and `--8<-- [end:loop]`), or lines as GitHub names them (`#L10-L20`). Without it, the excerpt is the
whole file.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Mapping

from msgspec import Struct

from bindery.core.repository import Tree
from bindery.core.suggestions import suggest

_LINES = re.compile(r"L(\d+)(?:-L?(\d+))?")
_MARK = re.compile(
    r"^\s*\W+\s*(?:(?P<start>region\s|ANCHOR:\s|8<-+\s\[start:)|endregion\s"
    r"|ANCHOR_END:\s|8<-+\s\[end:)\s*(?P<name>[\w.-]+)\W*$"
)


class Excerpt(Struct, frozen=True):
    """A text and its language, or what is wrong with its name and what to do."""

    text: str = ""
    language: str = ""
    fault: str = ""
    hint: str = ""


def read_excerpts(tree: Tree, names: Iterable[str]) -> Mapping[str, Excerpt]:
    """What each excerpt should be, by its name."""
    return {name: _read_excerpt(tree, name) for name in names}


def _read_excerpt(tree: Tree, name: str) -> Excerpt:
    path, mark, part = name.partition("#")
    if tree.find_kind(path) != "file" or tree.leaves_root(path):
        hint = suggest(path, tree.walk_files(""), "write its path from the root of the repository")
        return Excerpt(fault=f"there is no file '{path}'", hint=hint)
    lines = tree.read_lines(path)
    lines = lines[:-1] if not lines[-1] else lines
    first, last = 0, len(lines)
    if numbers := _LINES.fullmatch(part):
        first, last = int(numbers[1]) - 1, int(numbers[2] or numbers[1])
        if not 0 <= first < last <= len(lines):
            fault = f"'{path}' has {len(lines)} lines, and no '{part}'"
            return Excerpt(fault=fault, hint="write '#L10-L20', or mark a region in the file")
    elif mark:
        marks = [(row, match) for row, line in enumerate(lines) if (match := _MARK.match(line))]
        own = [row for row, match in marks if match["name"] == part]
        starts = {match["name"]: None for _, match in marks if match["start"]}
        if len(own) != 2 or part not in starts:
            hint = f"write '# region {part}' above it and '# endregion {part}' below, as comments"
            hint = suggest(part, starts, hint)
            return Excerpt(fault=f"'{path}' has no region '{part}'", hint=hint)
        first, last = own[0] + 1, own[1]
    kept = [line for line in lines[first:last] if not _MARK.match(line)]
    text = textwrap.dedent("\n".join(kept)).strip("\n")
    return Excerpt(text, _find_language(path))


def _find_language(path: str) -> str:
    """The language of a file by its name, as GitHub and Pygments both know it."""
    from pygments.lexers import find_lexer_class_for_filename  # most books quote no file

    lexer = find_lexer_class_for_filename(path.rpartition("/")[2])
    return str(lexer.aliases[0]) if lexer else "text"
