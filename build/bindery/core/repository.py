"""The files of a book's repository, looked at as they are needed."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeVar

from bindery.core.facts import Facts
from bindery.core.model import Span

T = TypeVar("T")

Kind = Literal["file", "folder"]

RECORDS_FOLDER = "scripts/records"
"""Where records are, a folder per tool; named here so that a book without any need not load
what validates them."""

RECORDS_TABLE = "records"
"""The table that lists all records, for views."""

MADE_BY_US = re.compile(rb'<meta name="generator" content="bindery"\s*/?>')
"""What the first page of a site says that bindery has built."""
REPORT = "report.json"
"""What is beside the outputs of a book."""

MARKDOWN = (".md", ".mdx", ".qmd")
"""How the names of Markdown files end; the last two are those of Docusaurus and Quarto."""

SKIPPED_FOLDERS = frozenset(("node_modules", "__pycache__", "dist", "venv"))


class Tree:
    """The files below a root, looked at as they are needed, in their exact case.

    Paths are POSIX and relative to the root; the empty path is the root itself.
    """

    def __init__(self, root: Path, facts: Facts | None = None) -> None:
        self.root = root.resolve()
        self._facts = facts or Facts()
        self._folders: dict[str, Mapping[str, os.DirEntry[str]]] = {}
        self._lines: dict[str, Sequence[str]] = {}

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
        """What is at this path, in exactly these letters."""
        if not path:
            return "folder"
        parent, _, name = path.rpartition("/")
        if parent and self.find_kind(parent) != "folder":
            return None
        entry = self.list_folder(parent).get(name)
        if entry is None:
            return None
        return _read_kind(entry)

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
            alike = (other for other in names if other.lower() == name.lower())
            match = name if name in names else next(alike, None)
            if match is None:
                return ""
            actual.append(match)
        return "/".join(actual)

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
        """The names in a folder that are outputs of bindery: its report, and what that lists."""
        if REPORT not in self.list_folder(folder):
            return ()
        try:
            report = json.loads(self.read_bytes(f"{folder}/{REPORT}".lstrip("/")))
            return {REPORT, *(entry["file"] for entry in report["outputs"].values())}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return ()  # it is of something else

    def measure(self, path: str) -> int:
        """The size of a file in bytes."""
        return (self.root / path).stat().st_size

    def read_bytes(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def hash_files(self, paths: Iterable[str]) -> str:
        """A hash of the paths and contents of files. One that cannot be read has no content."""
        total = hashlib.sha256()
        for path in paths:
            total.update(f"\0{path}\0".encode(errors="surrogateescape"))
            with suppress(OSError):
                total.update(hashlib.sha256(self.read_bytes(path)).digest())
        return total.hexdigest()

    def derive(self, path: str, name: str, kind: type[T], make: Callable[[bytes], T]) -> T:
        """A fact about the content of one file, with its name, its type and what works it out."""
        content = self.read_bytes(path)
        digest = hashlib.sha256(content).hexdigest()
        return self._facts.derive(f"{name} of {path}", kind, lambda: make(content), digest)

    def read_beginning(self, path: str, size: int) -> bytes:
        """At most so many bytes of a file."""
        return self.read_ends(path, size, 0)[0]

    def read_ends(self, path: str, first: int, last: int) -> tuple[bytes, bytes]:
        """At most so many bytes at the beginning and at the end of a file."""
        with open(f"{self.root}/{path}", "rb", buffering=0) as file:  # noqa: PTH123 - pathlib is slow
            beginning = file.read(first)
            file.seek(max(file.seek(0, os.SEEK_END) - last, 0))
            return beginning, file.read(last)

    def read_lines(self, path: str) -> Sequence[str]:
        """The lines of a text file, read once; none of a file that cannot be read."""
        if path not in self._lines:
            try:
                text = self.read_bytes(path).decode("utf-8-sig", "replace")
            except OSError:
                text = ""
            self._lines[path] = join_lines(text).split("\n")
        return self._lines[path]

    def read_line(self, span: Span) -> str:
        """The source line of a finding, or an empty string where it cannot be shown."""
        lines = self.read_lines(span.path)
        return lines[span.line - 1] if 0 < span.line <= len(lines) else ""


def _read_kind(entry: os.DirEntry[str]) -> Kind | None:
    """What an entry is, or what it links to; nothing where links lead in a circle."""
    try:
        return "folder" if entry.is_dir() else "file" if entry.is_file() else None
    except OSError:
        return None


def join_lines(text: str) -> str:
    """Text in which every line ends as on Unix."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
