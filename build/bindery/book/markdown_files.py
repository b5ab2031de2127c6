"""All Markdown files of a repository, chapters or not, as typed.

Chapters contain line feeds only. Commands that edit files need the original text, so a document
also has the raw text of its file; the line numbers are the same.
"""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath

from msgspec import Struct
from msgspec.structs import replace

from bindery.book.resolve import resolve_book
from bindery.core.config import FILE_NAME, Config
from bindery.core.model import Book, BookError, Chapter, Finding, Link, Part, Resolution, Span
from bindery.core.repository import MARKDOWN, Tree, join_lines
from bindery.markdown.chapter_reader import parse_chapter
from bindery.markdown.link_typing import Form, Style, read_form

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_HIDDEN_FOLDERS = (".github",)
"""Hidden folders whose Markdown GitHub shows to readers."""


class Document(Struct, frozen=True):
    """A Markdown file: its raw text, and parsed."""

    text: str
    chapter: Chapter

    @property
    def path(self) -> str:
        return self.chapter.path


class Edit(Struct, frozen=True):
    """A replacement within one line."""

    span: Span
    old: str
    new: str


def read_documents(
    tree: Tree, config: Config, known: Iterable[Chapter] = ()
) -> Mapping[str, Document]:
    """Read all Markdown files below the root. `known` are chapters that are already parsed.

    Skips symbolic links, other books (folders with a `chapters.yaml`), and files outside the book
    that are not UTF-8. Raises BookError if a chapter cannot be read.
    """
    parsed = {chapter.path: chapter for chapter in known}
    documents: dict[str, Document] = {}
    listed = {entry.path: entry.span for entry in config.chapters}
    faults: list[Finding] = []
    for path in dict.fromkeys((*listed, *_list_markdown(tree))):
        # The file behind a symbolic link is read itself, or is outside the book.
        if (tree.root / path).is_symlink() and (path not in listed or tree.leaves_root(path)):
            continue
        try:
            text = tree.read_bytes(path).decode("utf-8")
        except (OSError, UnicodeDecodeError):
            if path in listed:
                message = f"cannot read the chapter '{path}', so its links are unknown"
                hint = "run `bindery check` to see why"
                faults.append(Finding(listed[path], "missing-chapter", message, hint))
            continue
        documents[path] = make_document(path, text, maths=config.maths, chapter=parsed.get(path))
    if faults:
        raise BookError(*faults)
    return documents


def make_document(
    path: str, text: str, *, maths: bool = False, chapter: Chapter | None = None
) -> Document:
    """The document for a text as it is on disk."""
    source = read_source(text)
    if chapter is None or chapter.source != source:
        chapter = parse_chapter(path, source, maths=maths)
    return Document(text, chapter)


def read_source(text: str) -> str:
    """A text as the parser expects it: line feeds only, no byte order mark."""
    return join_lines(text.removeprefix("\ufeff"))


def _list_markdown(tree: Tree) -> Iterator[str]:
    for folder in ("", *_HIDDEN_FOLDERS):
        for path in tree.walk_files(folder):
            if path.endswith(MARKDOWN) and not _is_in_another_book(tree, path):
                yield path


def _is_in_another_book(tree: Tree, path: str) -> bool:
    """Whether a parent folder has its own chapters.yaml."""
    parents = (str(parent) for parent in PurePosixPath(path).parents)
    return any(FILE_NAME in tree.list_folder(parent) for parent in parents if parent != ".")


_STYLES: Mapping[str, Style] = {
    "link": "bare",
    "image": "bare",
    "definition": "bare",
    "html-link": "html",
    "html-image": "html",
    "html-source": "srcset",
}


def read_link_form(link: Link, chapter: Chapter) -> Form | None:
    """The form in which a link's destination is written, if it is a path that can be rewritten."""
    style, typed = _STYLES.get(link.kind), find_typed(link, chapter)
    if style is None or typed is None:
        return None
    return read_form(typed, style, posixpath.dirname(chapter.path))


Resolved = tuple[tuple[Link, Resolution], ...]
"""The links of a document in order, then those of its definitions, and their targets."""


def resolve_documents(
    documents: Iterable[Document], tree: Tree, config: Config
) -> Mapping[str, Resolved]:
    """The link targets of each document by path. Every document counts as a chapter, so that all
    anchors are known."""
    chapters = []
    for document in documents:
        chapter = document.chapter
        links = (*chapter.links, *(entry.link for entry in chapter.definitions))
        chapters.append(replace(chapter, links=links))
    resolved = resolve_book(Book((Part("", tuple(chapters)),)), tree, config.allowed_schemes)
    return {
        chapter.path: tuple((link, resolved.links[link]) for link in chapter.links)
        for chapter in chapters
    }


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits to a text; everything else, including line ends, stays the same.

    Raises ValueError if the text to replace is not there.
    """
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    lines = _LINE.findall(text.removeprefix(mark))
    for edit in sorted(edits, key=lambda edit: edit.span, reverse=True):
        line = lines[edit.span.line - 1]
        start = edit.span.col - 1
        if line[start : start + len(edit.old)] != edit.old:
            raise ValueError(f"{edit.span.path}:{edit.span.line}: '{edit.old}' is not there")
        lines[edit.span.line - 1] = line[:start] + edit.new + line[start + len(edit.old) :]
    return mark + "".join(lines)


def find_typed(link: Link, chapter: Chapter) -> str | None:
    """The destination of a link exactly as typed in the file, with entities; None if it is not at
    the position that the parser reports."""
    line = chapter.lines[link.span.line - 1]
    start = link.span.col - 1
    if line.startswith(link.raw, start):
        return link.raw
    if not link.kind.startswith("html"):
        return None
    closing = line[start - 1 : start]
    pattern = rf"[^{closing}]*" if closing in ('"', "'") else r"[^\s>]*"
    match = re.compile(pattern).match(line, start)
    return match[0] if match and html.unescape(match[0]) == link.raw else None
