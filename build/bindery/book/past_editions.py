"""The editions of a book: per chapter, what git and the change log say about each.

An edition is a tag `v...`; the newest one is everything since the last tag. Without I/O: the
caller asks git.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import zip_longest
from pathlib import Path

from msgspec import Struct

from bindery.book.git_history import (
    Commit,
    Hunk,
    is_shallow,
    read_changes,
    read_history,
    read_names,
)
from bindery.core.cache import Cache, recall
from bindery.core.config import Config
from bindery.core.model import ConfigError
from bindery.core.repository import RECORDS_FOLDER

MOST_COMMITS = 1000
"""Commits to include, newest first."""
_HEADING = re.compile(r"^## +\[?v?(?P<name>[^\]\s]+)\]?.*$", re.MULTILINE)
_UNRELEASED = "unreleased"
_Pairs = tuple[tuple[str, str], ...]
_WORD = re.compile(r"(?<!\S)\S*?[^\W_]\S*")


class Change(Struct, frozen=True):
    """A commit's changes to a chapter, or to records and data."""

    place: int
    """Number of newer commits."""
    commit: Commit
    added: int = 0
    removed: int = 0
    """Words; a replaced word counts as added and removed."""
    rows: int = 0
    """New or changed table rows."""
    files: tuple[str, ...] = ()
    """Records and data files."""


class Subject(Struct, frozen=True):
    """A chapter by path, or records and data if empty, with its changes, newest first."""

    path: str
    title: str
    changes: tuple[Change, ...]

    @property
    def added(self) -> int:
        return sum(change.added for change in self.changes)

    @property
    def removed(self) -> int:
        return sum(change.removed for change in self.changes)

    @property
    def rows(self) -> int:
        return sum(change.rows for change in self.changes)

    @property
    def files(self) -> int:
        return len({file for change in self.changes for file in change.files})


class PastEdition(Struct, frozen=True):
    """An edition: its tag, empty for changes since the last one, and its changes."""

    tag: str
    commits: tuple[Commit, ...]
    """Newest first; at least one."""
    subjects: tuple[Subject, ...]
    notes: str
    """Its part of the change log, in Markdown."""


class Editions(Struct, frozen=True):
    """All editions and commits of a book, newest first."""

    editions: tuple[PastEdition, ...]
    commits: tuple[Commit, ...]
    tags: Mapping[str, tuple[str, ...]]
    is_whole: bool
    """Whether the history is complete, not a shallow clone's."""


def find_editions(
    config: Config, titles: Mapping[str, str], log: str, refs: str, cache: Cache | None = None
) -> Editions | None:
    """The editions of a book with these chapter titles by path and this change log; None without a
    git history. `refs` are those of its repository."""
    if not refs:
        return None
    former = tuple((move.old, move.new) for move in config.moved)
    chapters = tuple(titles.items())
    inputs = {
        "the history": refs,
        "the title of a chapter": repr((chapters, former, config.data)),
        "the change log": log,
    }
    read = partial(_read_editions, config.root, refs, config.data, chapters, former, log)
    try:
        return recall(cache, "editions", inputs, Editions, read)
    except ConfigError:
        return None


@lru_cache(maxsize=2)  # in watch mode the history rarely changes
def _read_editions(
    root: Path, refs: str, data: str, chapters: _Pairs, moved: _Pairs, log: str
) -> Editions:
    history = read_history(root)
    titles, former = dict(chapters), dict(moved)
    patches = read_changes(root, (*titles, *former))
    beside = {
        commit: [path for path in paths if _is_evidence(path, data)]
        for commit, _, paths in read_names(root, refs)
    }
    commits = history.commits[:MOST_COMMITS]
    notes = read_change_log(log)
    editions = []
    for tag, members in _group(commits, history.tags):
        found: dict[str, list[Change]] = {}
        for place, commit in members:
            for path, change in _compare_chapters(
                place, commit, patches.get(commit.id, {}), former
            ):
                found.setdefault(path, []).append(change)
            if files := beside.get(commit.id):
                change = Change(place, commit, files=tuple(sorted(files)))
                found.setdefault("", []).append(change)
        named = [*titles.items(), ("", "Records and data")]
        subjects = [Subject(p, title, tuple(found[p])) for p, title in named if p in found]
        told = notes.get(tag.removeprefix("v") or _UNRELEASED, "")
        editions.append(PastEdition(tag, tuple(c for _, c in members), tuple(subjects), told))
    is_whole = not is_shallow(refs) and len(commits) == len(history.commits)
    return Editions(tuple(editions), commits, history.tags, is_whole)


def _group(
    commits: Sequence[Commit], tags: Mapping[str, tuple[str, ...]]
) -> list[tuple[str, list[tuple[int, Commit]]]]:
    """The commits of each edition, with the number of newer ones."""
    groups: list[tuple[str, list[tuple[int, Commit]]]] = []
    for place, commit in enumerate(commits):
        names = tags.get(commit.id, ())
        if names or not groups:
            groups.append((names[-1] if names else "", []))
        groups[-1][1].append((place, commit))
    return groups


def _is_evidence(path: str, data: str) -> bool:
    """Whether a file is a record, or one of the folder with data."""
    folders = [f"{folder}/" for folder in (data, RECORDS_FOLDER) if folder]
    return path.endswith((".csv", ".json")) and path.startswith(tuple(folders))


def _compare_chapters(
    place: int, commit: Commit, files: Mapping[str, Sequence[Hunk]], former: Mapping[str, str]
) -> Iterator[tuple[str, Change]]:
    """A commit's changes by chapter path."""
    chapters: dict[str, list[Hunk]] = {}
    for path, hunks in files.items():  # a moved chapter is in the commit twice
        chapters.setdefault(former.get(path, path), []).extend(hunks)
    for path, found in chapters.items():
        added, removed = _compare(found, _list_words)
        rows, _ = _compare(found, _list_rows)
        yield path, Change(place, commit, added, removed, rows)


def _compare(hunks: Sequence[Hunk], read: Callable[[str], Iterable[str]]) -> tuple[int, int]:
    """How much was added and removed. Text on both sides does not count: a paragraph is one line,
    and text moves."""
    old = Counter(piece for hunk in hunks for line in hunk.removed for piece in read(line))
    new = Counter(piece for hunk in hunks for line in hunk.added for piece in read(line))
    return (new - old).total(), (old - new).total()


def _list_words(line: str) -> Iterable[str]:
    return _WORD.findall(line)


def _list_rows(line: str) -> Iterable[str]:
    return (line.strip(),) if line.lstrip().startswith("|") else ()


def read_change_log(text: str) -> Mapping[str, str]:
    """The sections of a change log by version; `unreleased` for the one without."""
    headings = list(_HEADING.finditer(text))
    return {
        heading["name"].lower(): text[
            heading.end() : following.start() if following else None
        ].strip()
        for heading, following in zip_longest(headings, headings[1:])
    }
