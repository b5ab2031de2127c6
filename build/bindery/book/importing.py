"""Make chapters.yaml from another tool's list of chapters, or from the folders of a book."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from bindery.book.foreign_contents import Contents, find_contents, name_part
from bindery.book.load import is_left_out
from bindery.core.config import Config, write_scalar
from bindery.core.model import ConfigError, Finding, Span, refuse
from bindery.core.report import count_noun
from bindery.core.repository import MARKDOWN, Tree
from bindery.markdown.chapter_reader import parse_chapter

LIST_NAME = "chapters-md.txt"
_FORMULA = re.compile(
    r"^\s*```math$|\$\$(?=\n|[^$]*[\\^_={])[^$]+\$\$|(?<![\w$])\$[^\s$]*\\[a-z]+[^\n$]*\$", re.M
)
_HEADING_ID = re.compile(r"\s*(?:\{[^{}]*\}|\[\[[\w.-]+\]\])\s*$")
"""An anchor after a heading, as in other tools."""


class Imported(Struct, frozen=True):
    """The contents of a book, and the other values for its chapters.yaml."""

    title: str
    contents: Contents
    folder: str
    """The folder of the chapters, relative to the root."""
    titles: Mapping[str, str]
    """Titles of chapters without a heading, by path."""
    left: Sequence[str]
    """Markdown files that are not listed."""
    cover: str
    maths: bool

    @property
    def chapters(self) -> tuple[str, ...]:
        """The paths of the chapters in reading order."""
        return tuple(path for _, chapters in self.contents.parts for path, _ in chapters)

    def rename(self, moved: Mapping[str, str], *, maths: bool) -> Imported:
        """A copy with new paths and this setting for formulas."""
        parts = [
            (title, [(moved.get(path, path), name) for path, name in chapters])
            for title, chapters in self.contents.parts
        ]
        titles = {moved.get(path, path): title for path, title in self.titles.items()}
        contents = replace(self.contents, parts=parts)
        return replace(self, contents=contents, titles=titles, maths=maths)

    def summarise(self) -> str:
        """Counts, and a line for each entry that is not a chapter."""
        parts = sum(1 for name, _ in self.contents.parts if name)
        counts = count_noun(len(self.chapters), "chapter")
        counts += f" in {count_noun(parts, 'part')}" if parts else ""
        missing = (f"not a Markdown file in this book: {name}" for name in self.contents.missing)
        return "\n".join(
            [f"{counts}, {count_noun(len(self.left), 'Markdown file')} left out", *missing]
        )

    def write_yaml(self, command: str) -> str:
        """The text of chapters.yaml, which names the command that writes it."""

        def write(path: str) -> str:
            return write_scalar(posixpath.relpath(path, self.folder or "."))

        source = f" from {self.contents.source}" if self.contents.source else ""
        about = {"language": "en", **self.contents.about}
        authors = [f"  - {write_scalar(name)}" for name in about.get("authors", ())]
        address = about.get("repository")
        mark = "" if address else "# "
        lines = [
            f"# `bindery {command}` wrote this{source}.",
            "# `bindery import .` adds new chapters and keeps your edits.",
            f"title: {write_scalar(self.title)}",
            *(
                f"{key}: {write_scalar(about[key])}"
                for key in ("description", "language", "site")
                if key in about
            ),
            *(["authors:", *authors] if authors else []),
            *([f"folder: {write_scalar(self.folder)}"] if self.folder else []),
            *([f"cover: {write_scalar(self.cover)}"] if self.cover else []),
            *(["maths: true"] if self.maths else []),
            "",
            "# Where the repository is on the web. Without this, ebooks cannot link to programs",
            "# and other files in it.",
            f"{mark}repository:",
            f"{mark}  url: {write_scalar(address or 'https://github.com/OWNER/NAME')}",
            "#   ref: TAG-OR-COMMIT",
            "",
            "parts:",
        ]
        for name, chapters in self.contents.parts:
            prefix = "  - "
            if name:
                lines.append(f"{prefix}title: {write_scalar(name)}")
                prefix = "    "
            lines.append(f"{prefix}chapters:")
            for path, _ in chapters:
                title = self.titles[path]
                lines.append(f"      - {'path: ' if title else ''}{write(path)}")
                lines += [f"        title: {write_scalar(title)}"] if title else []
        if self.left:
            lines += ["", "# Markdown files that are not chapters.", "not_chapters:"]
            lines += [f"  - {write(path)}" for path in self.left]
        return "\n".join(lines) + "\n"


def import_contents(folder: Path, config: Config | None = None) -> Imported:
    """Read the parts and chapters of a book.

    Without a list of chapters, the title is that of the first chapter, the parts are the top-level
    folders, and the chapters are the Markdown files; in an existing book, those that its `config`
    does not leave out. Raises ConfigError if there are no chapters.
    """
    tree = Tree(folder)
    is_list = tree.find_kind(LIST_NAME) == "file"
    home = config.folder if config else ""
    contents = _read_list(tree, folder) if is_list else find_contents(tree, home)
    if config and not contents.source:
        contents.parts = [
            (name, [entry for entry in chapters if not is_left_out(entry[0], config)])
            for name, chapters in contents.parts
        ]
    listed = [chapter for _, chapters in contents.parts for chapter in chapters]
    source = (folder / contents.source).as_posix()
    if not listed:
        fault = "it lists no chapters" if contents.source else "there are no Markdown files here"
        raise refuse(source, fault)
    base = contents.folder if all(p.startswith(f"{contents.folder}/") for p, _ in listed) else ""
    known = {path for path, _ in listed}
    left = [p for p in tree.walk_files(base) if p.endswith(MARKDOWN) and p not in known]
    read = {p: parse_chapter(p, tree.read_bytes(p).decode("utf-8", "replace")) for p, _ in listed}
    titles = {p: "" if read[p].inventory.headings else title for p, title in listed}
    title = _HEADING_ID.sub("", contents.title or read[listed[0][0]].title)
    maths = any(_FORMULA.search(chapter.source) for chapter in read.values())
    return Imported(" ".join(title.split()), contents, base, titles, left, _find_cover(tree), maths)


def _read_list(tree: Tree, folder: Path) -> Contents:
    """The chapters in `chapters-md.txt`, one path per line."""
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
    """Parts by top-level folder, in the order of the list. Chapters outside of folders form parts
    without a title."""
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
