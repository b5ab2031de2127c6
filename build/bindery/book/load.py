"""Files to values: the chapters that `chapters.yaml` lists, and what else the repository holds."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Container, Mapping
from functools import partial

from msgspec import Struct

from bindery.book.cached_chapters import Manuscript, read_chapter, read_chapters
from bindery.core.cache import Cache
from bindery.core.config import ChapterEntry, Config
from bindery.core.model import SAVE_AS_UTF8, Book, Chapter, Finding, Part, find_bad_byte
from bindery.core.repository import MARKDOWN, Tree, join_lines
from bindery.core.suggestions import suggest


class Loaded(Struct, frozen=True):
    """A book as read from disk, and what could not be read."""

    book: Book
    tree: Tree
    findings: tuple[Finding, ...]
    parsers: Mapping[str, Callable[[], Chapter]]
    """What parses each chapter that could be read, by its path, in reading order."""


def load_book(
    config: Config,
    only: Container[str] | None = None,
    cache: Cache | None = None,
    prepare: Callable[[Tree, Chapter], object] = lambda *_: None,
    meanwhile: Callable[[Tree], object] = lambda _: None,
) -> Loaded:
    """Read every listed chapter, and parse all of them, or `only` some. Unchanged chapters come
    from the cache; `prepare` works out facts of the others. If none is unchanged,
    `meanwhile` is called while a second process begins with them. A chapter that cannot be read
    becomes a finding."""
    tree = Tree(config.root, cache.open_facts("facts about files", {}) if cache else None)
    findings: list[Finding] = []
    manuscripts: dict[str, Manuscript] = {}
    for entry in config.chapters:
        source = _read_chapter(tree, entry, config)
        if isinstance(source, Finding):
            findings.append(source)
        else:
            manuscripts[entry.path] = Manuscript(entry.path, source, entry.title, config.maths)
    wanted = [one for path, one in manuscripts.items() if only is None or path in only]
    read = read_chapters(wanted, cache, partial(prepare, tree), partial(meanwhile, tree))
    chapters = {chapter.path: chapter for chapter in read}
    parts = tuple(
        Part(part.title, tuple(chapters[e.path] for e in part.chapters if e.path in chapters))
        for part in config.parts
    )
    if config.cover and config.cover_span and tree.find_kind(config.cover) != "file":
        message = f"there is no cover image '{config.cover}'"
        findings.append(Finding(config.cover_span, "missing-image", message))
    parsers = {path: partial(read_chapter, one, cache) for path, one in manuscripts.items()}
    return Loaded(Book(parts), tree, tuple(findings), parsers)


def _read_chapter(tree: Tree, entry: ChapterEntry, config: Config) -> str | Finding:
    path = entry.path
    if tree.find_kind(path) == "folder":
        message = f"'{path}' is a folder, not a chapter"
        inside = f"{path}/README.md"
        hint = f"did you mean '{inside}'?" if tree.find_kind(inside) else "name a file in it"
        return Finding(entry.span, "missing-chapter", message, hint)
    if tree.find_kind(path) != "file":
        return Finding(
            entry.span,
            "missing-chapter",
            f"there is no chapter '{path}'",
            _suggest_chapter(tree, path, config),
        )
    if tree.leaves_root(path):
        message = f"the chapter '{path}' is a symbolic link out of the book"
        return Finding(entry.span, "outside-book", message, "put the file itself in the book")
    try:
        source = tree.read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        span, message = find_bad_byte(path, error)
        return Finding(span, "not-utf8", message, SAVE_AS_UTF8)
    except OSError as error:
        message = f"the chapter '{path}' cannot be read: {error.strerror}"
        return Finding(entry.span, "missing-chapter", message)
    return join_lines(source)


def _suggest_chapter(tree: Tree, path: str, config: Config) -> str:
    other = tree.find_other_case(path)
    if other and other != path:
        return f"did you mean '{other}'? the case of letters counts"
    listed = {entry.path for entry in config.chapters}
    there = [p for p in tree.walk_files(config.folder) if p.endswith(MARKDOWN) and p not in listed]
    return suggest(path, there, "correct the path, or remove the line")


def is_left_out(path: str, config: Config) -> bool:
    """Whether `not_chapters` says that this file is not part of the book."""
    return any(
        not pattern or fnmatch.fnmatchcase(path, pattern) or path.startswith(f"{pattern}/")
        for pattern in config.not_chapters
    )
