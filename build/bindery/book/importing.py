"""A chapters.yaml for a book whose chapters are in `chapters-md.txt`, one path a line."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from bindery.core.config import write_scalar
from bindery.core.model import ConfigError, Finding, Span, refuse
from bindery.core.report import count_noun
from bindery.core.repository import Tree
from bindery.markdown.chapter_reader import parse_chapter

LIST_NAME = "chapters-md.txt"


def import_chapter_list(folder: Path) -> tuple[str, str]:
    """The text of a chapters.yaml, and one line that says what was found.

    Title and names of parts are guessed: the title from the first heading of the first chapter,
    the parts from the folders at the top. Raises ConfigError where the list names nothing.
    """
    tree = Tree(folder)
    shown = (folder / LIST_NAME).as_posix()
    if tree.find_kind(LIST_NAME) != "file":
        message = f"there is no {LIST_NAME} in '{folder}'"
        hint = "it lists the chapters, one path a line"
        raise refuse(shown, message, hint)
    lines = tree.read_bytes(LIST_NAME).decode("utf-8", "replace").splitlines()
    paths: list[str] = []
    findings = []
    for number, line in enumerate(lines, 1):
        path = posixpath.normpath(line.partition("#")[0].strip())
        if path == ".":
            continue
        if path in paths:
            message = f"the chapter '{path}' is listed twice"
            findings.append(Finding(Span(shown, number, 1, len(line)), "config", message))
        elif tree.find_kind(path) != "file":
            message = f"there is no chapter '{path}'"
            findings.append(Finding(Span(shown, number, 1, len(line)), "config", message))
        else:
            paths.append(path)
    if findings:
        raise ConfigError(*findings)
    if not paths:
        raise refuse(shown, "the list names no chapter")
    first = parse_chapter(paths[0], tree.read_bytes(paths[0]).decode("utf-8", "replace"))
    left = [path for path in tree.walk_files("") if path.endswith(".md") and path not in set(paths)]
    parts = _group_chapters(paths)
    text = _write_yaml(" ".join(first.title.split()), parts, left, _find_cover(tree))
    named = sum(1 for title, _ in parts if title)
    counts = (count_noun(len(paths), "chapter"), count_noun(named, "part"))
    rest = count_noun(len(left), "Markdown file")
    return text, f"{counts[0]} in {counts[1]}, {rest} left out"


def _group_chapters(paths: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Chapters by their folder at the top, in the order of the list; a run of chapters at the top
    itself has no title, and neither has a part of one such chapter."""
    parts: list[tuple[str, list[str]]] = []
    for path in paths:
        top = path.split("/")[0] if "/" in path else ""
        title = _name_part(top)
        if parts and parts[-1][0] == title:
            parts[-1][1].append(path)
        else:
            parts.append((title, [path]))
    return parts


def _name_part(folder: str) -> str:
    words = re.sub(r"[-_]+", " ", folder).strip()
    return words[:1].upper() + words[1:]


def _find_cover(tree: Tree) -> str:
    names = ("cover.png", "cover.jpg", "cover.svg")
    return next((path for path in tree.walk_files("") if posixpath.basename(path) in names), "")


def _write_yaml(
    title: str, parts: Iterable[tuple[str, Sequence[str]]], left: Sequence[str], cover: str
) -> str:
    lines = [
        "# Written by `bindery import`: title and parts are guesses, and everything can be edited.",
        f"title: {write_scalar(title)}",
        "language: en",
    ]
    if cover:
        lines.append(f"cover: {write_scalar(cover)}")
    lines += [
        "",
        "# Where programs and other files of the book are on the web; without it, ebooks name",
        "# such files and cannot link them.",
        "# repository:",
        "#   url: https://github.com/OWNER/NAME",
        "#   ref: TAG-OR-COMMIT",
        "",
        "parts:",
    ]
    for name, chapters in parts:
        prefix = "  - "
        if name:
            lines.append(f"{prefix}title: {write_scalar(name)}")
            prefix = "    "
        lines.append(f"{prefix}chapters:")
        lines += [f"      - {write_scalar(path)}" for path in chapters]
    if left:
        lines += ["", "# Markdown files that the list did not name.", "not_chapters:"]
        lines += [f"  - {write_scalar(path)}" for path in left]
    return "\n".join(lines) + "\n"
