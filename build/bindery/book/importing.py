"""A chapters.yaml from the contents of another tool, or from the folders of a book."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bindery.book.foreign_contents import Contents, find_contents, name_part
from bindery.core.config import write_scalar
from bindery.core.model import ConfigError, Finding, Span, refuse
from bindery.core.report import count_noun
from bindery.core.repository import MARKDOWN, Tree
from bindery.markdown.chapter_reader import parse_chapter

LIST_NAME = "chapters-md.txt"
_FORMULA = re.compile(
    r"^\s*```math$|\$\$(?=\n|[^$]*[\\^_={])[^$]+\$\$|(?<![\w$])\$[^\s$]*\\[a-z]+[^\n$]*\$", re.M
)


@dataclass(frozen=True, slots=True)
class Imported:
    """The contents of a book as chapters.yaml has them."""

    text: str
    """That of a chapters.yaml."""
    summary: str
    """What was found, and a line for each entry that is no chapter."""
    contents: Contents
    folder: str
    """Where the chapters are, relative to the root."""

    @property
    def chapters(self) -> tuple[str, ...]:
        """The paths of the chapters in their order."""
        return tuple(path for _, chapters in self.contents.parts for path, _ in chapters)


def import_contents(folder: Path) -> Imported:
    """What the files of a book say about its parts and chapters.

    Where the list of chapters does not say them, the title is that of the first chapter, and the
    parts are the folders at the top. Raises ConfigError where there is no chapter.
    """
    tree = Tree(folder)
    is_list = tree.find_kind(LIST_NAME) == "file"
    contents = _read_list(tree, folder) if is_list else find_contents(tree)
    listed = [chapter for _, chapters in contents.parts for chapter in chapters]
    source = (folder / contents.source).as_posix()
    if not listed:
        raise refuse(source, "it names no chapter" if contents.source else "no Markdown is there")
    base = contents.folder if all(p.startswith(f"{contents.folder}/") for p, _ in listed) else ""
    known = {path for path, _ in listed}
    left = [p for p in tree.walk_files(base) if p.endswith(MARKDOWN) and p not in known]
    read = {p: parse_chapter(p, tree.read_bytes(p).decode("utf-8", "replace")) for p, _ in listed}
    named = {p: "" if read[p].inventory.headings else title for p, title in listed}
    title = contents.title or read[listed[0][0]].title
    has_maths = any(_FORMULA.search(chapter.source) for chapter in read.values())
    text = _write_yaml(
        " ".join(title.split()), contents, base, named, left, _find_cover(tree), maths=has_maths
    )
    parts = sum(1 for name, _ in contents.parts if name)
    counts = f"{count_noun(len(listed), 'chapter')} in {count_noun(parts, 'part')}"
    said = [
        f"{counts}, {count_noun(len(left), 'Markdown file')} left out",
        *(f"not a Markdown file of the book: {name}" for name in contents.missing),
    ]
    return Imported(text, "\n".join(said), contents, base)


def _read_list(tree: Tree, folder: Path) -> Contents:
    """The chapters of `chapters-md.txt`, one path a line."""
    shown = (folder / LIST_NAME).as_posix()
    paths: list[str] = []
    findings = []
    for number, line in enumerate(
        tree.read_bytes(LIST_NAME).decode("utf-8", "replace").splitlines(), 1
    ):
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
    parts = [(name, [(path, "") for path in chapters]) for name, chapters in _group_chapters(paths)]
    return Contents(LIST_NAME, parts=parts)


def _group_chapters(paths: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Chapters by their folder at the top, in the order of the list; a run of chapters at the top
    itself has no title, and neither has a part of one such chapter."""
    parts: list[tuple[str, list[str]]] = []
    for path in paths:
        top = path.split("/")[0] if "/" in path else ""
        title = name_part(top)
        if parts and parts[-1][0] == title:
            parts[-1][1].append(path)
        else:
            parts.append((title, [path]))
    return parts


def _find_cover(tree: Tree) -> str:
    names = ("cover.png", "cover.jpg", "cover.svg")
    return next((path for path in tree.walk_files("") if posixpath.basename(path) in names), "")


def _write_yaml(
    title: str,
    contents: Contents,
    base: str,
    titles: Mapping[str, str],
    left: Sequence[str],
    cover: str,
    *,
    maths: bool,
) -> str:
    def write(path: str) -> str:
        return write_scalar(posixpath.relpath(path, base or "."))

    lines = [
        f"# By `bindery import` from {contents.source or 'the folders'}; everything can be edited.",
        f"title: {write_scalar(title)}",
        "language: en",
        *([f"folder: {write_scalar(base)}"] if base else []),
        *([f"cover: {write_scalar(cover)}"] if cover else []),
        *(["maths: true"] if maths else []),
        "",
        "# Where programs and other files of the book are on the web; without it, ebooks name",
        "# such files and cannot link them.",
        "# repository:",
        "#   url: https://github.com/OWNER/NAME",
        "#   ref: TAG-OR-COMMIT",
        "",
        "parts:",
    ]
    for name, chapters in contents.parts:
        prefix = "  - "
        if name:
            lines.append(f"{prefix}title: {write_scalar(name)}")
            prefix = "    "
        lines.append(f"{prefix}chapters:")
        for path, _ in chapters:
            entry = f"path: {write(path)}" if titles[path] else write(path)
            lines.append(f"      - {entry}")
            lines += [f"        title: {write_scalar(titles[path])}"] if titles[path] else []
    if left:
        lines += ["", "# Markdown files that are no chapters.", "not_chapters:"]
        lines += [f"  - {write(path)}" for path in left]
    return "\n".join(lines) + "\n"
