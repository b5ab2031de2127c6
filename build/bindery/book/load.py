"""Files to values: the chapters that `chapters.yaml` lists, and what else the repository holds."""

from __future__ import annotations

import fnmatch
import json
import os
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Literal

from bindery.core.config import ChapterEntry, Config
from bindery.core.model import Anchor, Book, Chapter, Finding, Part, Span
from bindery.core.suggestions import find_nearest
from bindery.markdown.chapter_reader import parse_anchors, parse_chapter

Kind = Literal["file", "folder"]

RECORDS_FOLDER = "scripts/records"
"""Where records lie, a folder for each tool; named here so that a book without any need not load
what validates them."""

JOURNAL = ".bindery-unfinished.json"
"""What a command that was killed while it changed files leaves in the root; named here so that a
check need not load what changes files."""

MADE_BY_US = re.compile(rb'<meta name="generator" content="bindery"\s*/?>')
"""What the first page of a site says that bindery has built."""
REPORT = "report.json"
"""What lies beside the outputs of a book."""
_HEAD = 1 << 16
"""Bytes of a page that hold its head."""

SKIPPED_FOLDERS = frozenset(("node_modules", "__pycache__", "dist", "venv"))


class Tree:
    """The files below a root, looked at as they are needed, in their exact case.

    Paths are POSIX and relative to the root; the empty path is the root itself.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self._folders: dict[str, Mapping[str, os.DirEntry[str]]] = {}
        self._lines: dict[str, Sequence[str]] = {}
        self._lowered: dict[str, Mapping[str, str]] = {}

    def list_folder(self, path: str) -> Mapping[str, os.DirEntry[str]]:
        """The entries of a folder by name; empty where there is no such folder."""
        if path not in self._folders:
            try:
                with os.scandir(self.root / path) as entries:
                    self._folders[path] = {entry.name: entry for entry in entries}
            except OSError:
                self._folders[path] = {}
        return self._folders[path]

    def find_kind(self, path: str) -> Kind | None:
        """What stands at this path, in exactly these letters."""
        if not path:
            return "folder"
        parent, _, name = path.rpartition("/")
        if parent and self.find_kind(parent) != "folder":
            return None
        entry = self.list_folder(parent).get(name)
        if entry is None:
            return None
        return _read_kind(entry)

    def is_strange(self, path: str) -> bool:
        """Whether something stands there that is neither a file nor a folder nor a link: a pipe,
        a socket, a device."""
        parent, _, name = path.rpartition("/")
        entry = self.list_folder(parent).get(name)
        return entry is not None and not entry.is_symlink() and _read_kind(entry) is None

    def leaves_root(self, path: str) -> bool:
        """Whether a symbolic link on the way leads out of the root."""
        parts = path.split("/")
        for depth in range(1, len(parts) + 1):
            parent, name = "/".join(parts[: depth - 1]), parts[depth - 1]
            entry = self.list_folder(parent).get(name)
            if entry is not None and entry.is_symlink():
                try:
                    real = (self.root / path).resolve()
                except OSError:
                    return True
                return not real.is_relative_to(self.root)
        return False

    def find_other_case(self, path: str) -> str:
        """The path as it is spelled on disk, where only the case of letters differs."""
        actual: list[str] = []
        for name in path.split("/"):
            names = self.list_folder("/".join(actual))
            match = name if name in names else None
            match = match or self._list_lowered("/".join(actual)).get(name.lower())
            if match is None:
                return ""
            actual.append(match)
        return "/".join(actual)

    def _list_lowered(self, folder: str) -> Mapping[str, str]:
        """The names in a folder by their small letters; of several the first."""
        if folder not in self._lowered:
            names = reversed(list(self.list_folder(folder)))
            self._lowered[folder] = {name.lower(): name for name in names}
        return self._lowered[folder]

    def walk_files(self, folder: str) -> Iterator[str]:
        """All files below a folder, sorted, without hidden ones, what tools leave behind, and what
        bindery has built there."""
        built = self._list_outputs(folder)
        for name, entry in sorted(self.list_folder(folder).items()):
            if name.startswith(".") or name in built:
                continue
            path = f"{folder}/{name}" if folder else name
            if entry.is_dir(follow_symlinks=False):
                if name not in SKIPPED_FOLDERS:
                    yield from self.walk_files(path)
            elif _read_kind(entry) == "file":
                yield path

    def _list_outputs(self, folder: str) -> Container[str]:
        """The names in a folder that are outputs of bindery: its report, and what that lists. A
        site has to say so itself as well."""
        if REPORT not in self.list_folder(folder):
            return ()
        try:
            report = json.loads(self.read_bytes(f"{folder}/{REPORT}".lstrip("/")))
            names = {REPORT, *(entry["file"] for entry in report["outputs"].values())}
            page = f"{folder}/site/index.html".lstrip("/")
            if "site" in names and not MADE_BY_US.search(self.read_beginning(page, _HEAD)):
                return ()
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return ()  # it is of something else
        return names

    def read_bytes(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def read_beginning(self, path: str, size: int) -> bytes:
        """At most so many bytes of a file."""
        with (self.root / path).open("rb") as file:
            return file.read(size)

    def read_lines(self, path: str) -> Sequence[str]:
        """The lines of a text file, read once; none of a file that cannot be read."""
        if path not in self._lines:
            try:
                text = self.read_bytes(path).decode("utf-8-sig", "replace")
            except OSError:
                text = ""
            self._lines[path] = _join_lines(text).split("\n")
        return self._lines[path]


def _read_kind(entry: os.DirEntry[str]) -> Kind | None:
    """What an entry is, or what it links to; nothing where links lead in a circle."""
    try:
        return "folder" if entry.is_dir() else "file" if entry.is_file() else None
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class Unparsed:
    """The text of a chapter, parsed as far as it is asked for."""

    path: str
    source: str
    title: str = ""
    maths: bool = False

    def parse(self) -> Chapter:
        return parse_chapter(self.path, self.source, self.title, maths=self.maths)

    def parse_anchors(self) -> tuple[Anchor, ...]:
        return parse_anchors(self.path, self.source, maths=self.maths)


@dataclass(frozen=True, slots=True)
class Loaded:
    """A book as read from disk, and what could not be read."""

    book: Book
    tree: Tree
    findings: tuple[Finding, ...]
    listed: Mapping[str, Unparsed]
    """The text of each chapter that could be read, by its path, in reading order."""


def load_book(config: Config, only: Container[str] | None = None) -> Loaded:
    """Read every listed chapter, and parse all of them, or `only` some. A chapter that cannot be
    read becomes a finding."""
    tree = Tree(config.root)
    findings: list[Finding] = []
    listed: dict[str, Unparsed] = {}
    parts = []
    for part in config.parts:
        chapters = []
        for entry in part.chapters:
            source = _read_chapter(tree, entry, config)
            if isinstance(source, Finding):
                findings.append(source)
                continue
            listed[entry.path] = Unparsed(entry.path, source, entry.title, config.maths)
            if only is None or entry.path in only:
                chapters.append(listed[entry.path].parse())
        parts.append(Part(part.title, tuple(chapters)))
    if config.cover and config.cover_span and tree.find_kind(config.cover) != "file":
        message = f"there is no cover image '{config.cover}'"
        findings.append(Finding(config.cover_span, "missing-image", message))
    return Loaded(Book(tuple(parts)), tree, tuple(findings), listed)


def _read_chapter(tree: Tree, entry: ChapterEntry, config: Config) -> str | Finding:
    path = entry.path
    if tree.find_kind(path) == "folder":
        message = f"'{path}' is a folder, not a chapter"
        return Finding(entry.span, "missing-chapter", message, f"did you mean '{path}/README.md'?")
    if tree.is_strange(path):
        message = f"'{path}' is neither a file nor a folder"
        return Finding(entry.span, "missing-chapter", message, "put a text file in its place")
    if tree.find_kind(path) != "file":
        return Finding(
            entry.span,
            "missing-chapter",
            f"there is no chapter '{path}'",
            _suggest_chapter(tree, path, config),
        )
    if tree.leaves_root(path):
        message = f"the chapter '{path}' is a symbolic link out of the book"
        return Finding(entry.span, "outside-book", message, "put the file itself into the book")
    try:
        source = tree.read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        start = error.object[: error.start]
        line = start.count(b"\n") + 1
        col = len(start[start.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1
        message = f"this is not UTF-8: byte 0x{error.object[error.start]:02x}"
        return Finding(Span(path, line, col), "not-utf8", message, "save the chapter as UTF-8 text")
    except OSError as error:
        message = f"the chapter '{path}' cannot be read: {error.strerror}"
        return Finding(entry.span, "missing-chapter", message)
    return _join_lines(source)


def _join_lines(text: str) -> str:
    """Text in which every line ends as on Unix."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _suggest_chapter(tree: Tree, path: str, config: Config) -> str:
    other = tree.find_other_case(path)
    if other:
        return f"did you mean '{other}'? the case of letters counts"
    listed = {entry.path for entry in config.chapters}
    there = [p for p in tree.walk_files(config.folder) if p.endswith(".md") and p not in listed]
    nearest = find_nearest(path, there)
    return f"did you mean '{nearest}'?" if nearest else "correct the path, or take the line out"


def is_left_out(path: str, config: Config) -> bool:
    """Whether `not_chapters` says that this file is no part of the book."""
    return any(
        fnmatch.fnmatchcase(path, pattern) or path.startswith(_begin_folder(pattern))
        for pattern in config.not_chapters
    )


@cache
def _begin_folder(pattern: str) -> str:
    """What the paths in a folder begin with."""
    folder = str(PurePosixPath(pattern))
    return "" if folder == "." else f"{folder}/"


def read_line(tree: Tree, span: Span) -> str:
    """The source line of a finding, or an empty string where it cannot be shown."""
    lines = tree.read_lines(span.path)
    return lines[span.line - 1] if 0 < span.line <= len(lines) else ""
