"""Several files of a book changed as one: all of it or nothing, also where the process is killed.

Before the first change a journal with all that it takes to go back is put into the root; its
removal is what ends the change. A journal that is found is one of a process that was killed, and
`take_back` undoes what that one had done, except in files that have been edited since.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import secrets
import shutil
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from types import FrameType
from typing import Any

from bindery.load import JOURNAL, Tree
from bindery.model import BookError, ConfigError, Finding, Span
from bindery.render.output import sweep_leftovers
from bindery.run import CommandMissingError, CommandTimeoutError, run_command

RULE = "unfinished-change"
UNDO = "take it back with `bindery mv --undo`"
Texts = Mapping[str, tuple[str, str]]
"""What files hold before and after a change, by the path that they have before it."""

_PART = f"{JOURNAL}.part"
_STAGED = ".bindery-making-"
_FORMAT = 1
_GIT_SECONDS = 60.0
_WRITABLE = 0o222
_ABOUT = "bindery was ended while it changed these files; `bindery mv --undo` puts them back"


@dataclass(frozen=True, slots=True)
class Change:
    """What a command changes: texts first, then the paths of files and folders."""

    command: str
    """The verb, as messages name it."""
    rule: str
    """By which it is reported that the change cannot be made."""
    texts: Texts
    moves: tuple[tuple[str, str], ...] = ()
    emptied: tuple[str, ...] = ()
    """Folders to take away afterwards, for nothing is left in them."""


@dataclass(frozen=True, slots=True)
class _Journal:
    """A change that is under way."""

    change: Change
    made: tuple[str, ...]
    """Folders that are made for it, outer ones first."""
    token: str = field(default_factory=lambda: secrets.token_hex(4))
    """The end of the name under which each file is written first."""


def change_files(root: Path, change: Change, finish: Callable[[], Texts] | None = None) -> Texts:
    """Make a change, or leave everything as it is.

    Where everything else is in place `finish` is asked for further texts, which belong to the
    change as well; those that it changes are given back. Ctrl-C, SIGTERM and SIGHUP take
    everything back. Raises BookError where a file is not what it was or may not be written, or
    where git refuses, OSError where the disk does, and ConfigError while another process is at it.
    """
    root = root.resolve()
    with _lock(root), _note_signals() as stops:
        if (root / JOURNAL).exists():
            raise ConfigError(report_unfinished(root))
        _refuse_late(root, change)
        journal = _Journal(change, _list_missing_folders(root, change))
        _write_journal(root, journal)
        try:
            for step in _list_steps(root, journal):
                stops.heed()
                step()
            late: Texts = {}
            if finish is not None:
                with stops.heeded_at_once():
                    late = {p: pair for p, pair in finish().items() if pair[0] != pair[1]}
            if late:
                added = replace(change, texts={**change.texts, **late})
                journal = replace(journal, change=added)
                _write_journal(root, journal)
                for path, (before, after) in late.items():
                    stops.heed()
                    place = root / _map(change, path)
                    _refuse_edited(place, path, before, change.rule)
                    _write_text(place, after, journal.token)
            _sync_folders(root, change)
            stops.heed()
        except BaseException as error:
            _go_back(root, journal, error)
            raise
        _remove_journal(root)
    return late


def _go_back(root: Path, journal: _Journal, error: BaseException) -> None:
    """Undo what was done. Raises BookError where this cannot be; the journal stays then."""
    try:
        kept = _undo(root, journal)
    except (OSError, BookError) as trouble:
        why = _describe(error)
        message = f"`bindery {journal.change.command}` failed: {why}; going back fails too: "
        place = Span.whole(JOURNAL)
        raise BookError(Finding(place, RULE, message + _describe(trouble), UNDO)) from error
    if kept:
        raise BookError(*kept) from error


def _describe(error: BaseException) -> str:
    if isinstance(error, OSError):
        return f"'{error.filename}': {(error.strerror or str(error)).lower()}"
    return str(error) or "it was interrupted"


def take_back(root: Path) -> str:
    """Undo what a process that was killed has left half done, and sweep what it left besides.

    Gives a line that says so, empty where there was nothing. Raises BookError where files have
    been edited since, which stay as they are, and where a move cannot be taken back; ConfigError
    while another process is at it.
    """
    root = root.resolve()
    for folder in {root, *((root / path).parent for path in Tree(root).walk_files(""))}:
        sweep_leftovers(folder)
    if not (root / JOURNAL).exists() and not (root / _PART).exists():
        return ""
    with _lock(root), _note_signals() as stops:
        (root / _PART).unlink(missing_ok=True)
        journal = _read_journal(root)
        if journal is None:
            return ""
        kept = _undo(root, journal)
        stops.heed()
    if kept:
        raise BookError(*kept)
    moves = "".join(f", the move of {old} to {new}" for old, new in journal.change.moves[:1])
    return f"`bindery {journal.change.command}` was ended before it was done; took it back{moves}"


def report_unfinished(root: Path) -> Finding:
    """The finding that says of a journal in the root what it is there for."""
    try:
        journal = _read_journal(root)
    except BookError as error:
        return error.findings[0]
    command = journal.change.command if journal else "mv"
    message = f"`bindery {command}` was ended before it was done, and the book is half changed"
    return Finding(Span.whole(JOURNAL), RULE, message, UNDO)


def find_obstacle(root: Path, path: str) -> tuple[str, str] | None:
    """Why a file of the book may not be written, and what to do; None where it may."""
    root = root.resolve()
    target = (root / path).resolve()
    if not target.is_relative_to(root):
        return f"'{path}' leads out of the book, and stays as it is", "change the file where it is"
    for place in (target, target.parent):
        with contextlib.suppress(FileNotFoundError):
            # To the superuser all is writable, and what is locked is locked on purpose.
            if not place.stat().st_mode & _WRITABLE or not os.access(place, os.W_OK):
                shown = place.relative_to(root).as_posix()
                return f"'{shown}' is read-only, and stays as it is", f"`chmod u+w {shown}` first"
    return None


# --- before ---


def _refuse_late(root: Path, change: Change) -> None:
    """Raise BookError unless everything is as it was when the change was planned."""

    def refuse(path: str, message: str, hint: str) -> BookError:
        return BookError(Finding(Span.whole(path), change.rule, message, hint))

    written: dict[Path, str] = {}
    for path, (before, after) in change.texts.items():
        if obstacle := find_obstacle(root, path):
            raise refuse(path, *obstacle)
        target = (root / path).resolve()
        if written.setdefault(target, after) != after:
            message = f"'{path}' is another name of a file that would become something else"
            raise refuse(path, message, "keep one of the two names")
        _refuse_edited(target, path, before, change.rule)
    for old, new in change.moves:
        if not os.path.lexists(root / old) or os.path.lexists(root / new):
            raise refuse(old, f"'{old}' or '{new}' has changed meanwhile", "run this once more")


def _refuse_edited(place: Path, path: str, before: str, rule: str) -> None:
    if place.read_bytes() != before.encode():
        message = f"'{path}' has changed meanwhile"
        raise BookError(Finding(Span.whole(path), rule, message, "run this once more"))


def _list_missing_folders(root: Path, change: Change) -> tuple[str, ...]:
    parents = (parent for _, new in change.moves for parent in reversed(PurePosixPath(new).parents))
    return tuple(dict.fromkeys(str(p) for p in parents if not (root / p).exists()))


def _list_steps(root: Path, journal: _Journal) -> Iterator[Callable[[], object]]:
    change = journal.change
    for path, (_, after) in change.texts.items():
        yield partial(_write_text, root / path, after, journal.token)
    for name in journal.made:
        yield (root / name).mkdir
    for old, new in change.moves:
        yield partial(_rename, root, old, new)
    for name in sorted(change.emptied, reverse=True):
        if (root / name).is_dir():  # git may have taken it
            yield (root / name).rmdir


# --- after ---


def _undo(root: Path, journal: _Journal) -> tuple[Finding, ...]:
    """Put everything back, however far it had come, and remove the journal. Gives a finding for
    each file that has been edited since, and that stays so.

    Raises BookError, with nothing changed, where a move cannot be taken back.
    """
    change = journal.change
    _refuse_stuck(root, change)
    for name in sorted(change.emptied):
        (root / name).mkdir(parents=True, exist_ok=True)
    for old, new in reversed(change.moves):
        if os.path.lexists(root / new):
            _rename(root, new, old)
    kept = []
    for path, (before, after) in change.texts.items():
        for place in {root / path, root / _map(change, path)}:
            (place.parent / f"{_STAGED}{journal.token}").unlink(missing_ok=True)
        held = _read_bytes(root / path)
        if held == after.encode():
            _write_text(root / path, before, journal.token)
        elif held != before.encode():
            message = f"'{path}' has been edited since `bindery {change.command}` was ended"
            hint = "it stays as it is and all else is back: see to its links, and run this again"
            kept.append(Finding(Span.whole(path), RULE, message, hint))
    for name in reversed(journal.made):
        with contextlib.suppress(OSError):  # something else lies there by now
            (root / name).rmdir()
    _sync_folders(root, change)
    _remove_journal(root)
    return tuple(kept)


def _refuse_stuck(root: Path, change: Change) -> None:
    findings = []
    for old, new in change.moves:
        is_there = os.path.lexists(root / old), os.path.lexists(root / new)
        if is_there[0] == is_there[1]:
            state = "both are there" if is_there[0] else "neither is there"
            message = f"the move of '{old}' to '{new}' was not done, and {state} by now"
            hint = f"make '{new}' the only one, or delete {JOURNAL} to keep all as it is"
            findings.append(Finding(Span.whole(old), RULE, message, hint))
    if findings:
        raise BookError(*findings)


def _map(change: Change, path: str) -> str:
    """The path of a file after the moves of a change."""
    for old, new in change.moves:
        if path == old or path.startswith(f"{old}/"):
            return new + path[len(old) :]
    return path


# --- single files ---


def _read_bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _write_text(path: Path, text: str, token: str) -> None:
    """Write a file whole, in the place that a symbolic link leads to, its permissions kept."""
    target = path.resolve()
    fresh = target.with_name(f"{_STAGED}{token}")
    try:
        with fresh.open("wb") as file:
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
        shutil.copymode(target, fresh)
        fresh.replace(target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _rename(root: Path, old: str, new: str) -> None:
    """Give a file or folder another path; by git, where git knows it."""
    if not _is_tracked(root, old):
        (root / old).rename(root / new)
        return
    ended = run_command(["git", "mv", "--", old, new], folder=root, timeout=_GIT_SECONDS)
    if ended.code:
        reason = ended.stderr.strip().splitlines()
        message = f"git does not move '{old}': {reason[-1] if reason else 'it says no reason'}"
        raise BookError(Finding(Span.whole(old), "refused-move", message, "see what git says"))


def _is_tracked(root: Path, path: str) -> bool:
    try:
        command = ["git", "ls-files", "-z", "--", f":(literal){path}"]
        ended = run_command(command, folder=root, timeout=_GIT_SECONDS)
    except (CommandMissingError, CommandTimeoutError):
        return False
    return ended.code == 0 and bool(ended.stdout)


def _sync_folders(root: Path, change: Change) -> None:
    """Have the disk keep the names of files, so that none is lost once the journal is gone."""
    paths = (*change.texts, *(path for pair in change.moves for path in pair))
    for folder in {(root / path).parent for path in paths}:
        _sync_folder(folder)


def _sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not there, or of a kind that knows no such thing
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# --- the journal ---


def _write_journal(root: Path, journal: _Journal) -> None:
    change = journal.change
    row = {
        "about": _ABOUT,
        "format": _FORMAT,
        "command": change.command,
        "rule": change.rule,
        "token": journal.token,
        "moves": change.moves,
        "made": journal.made,
        "emptied": change.emptied,
        "texts": [
            {"path": path, "before": before, "after": after}
            for path, (before, after) in change.texts.items()
        ],
    }
    part = root / _PART
    try:
        with part.open("w", encoding="ascii") as file:
            json.dump(row, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        part.replace(root / JOURNAL)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    _sync_folder(root)


def _remove_journal(root: Path) -> None:
    (root / JOURNAL).unlink()
    _sync_folder(root)


def _read_journal(root: Path) -> _Journal | None:
    """The journal in a root, None without one. Raises ConfigError where it is none of ours: it
    may have come with a book from elsewhere."""
    try:
        row = json.loads((root / JOURNAL).read_bytes())
        journal = _parse_journal(row)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError):
        journal = None
    if journal is None or not all(_is_ours(root, path) for path in _list_paths(journal)):
        message = "this is no journal of a change that can be taken back"
        hint = "delete it, and see with git what has changed"
        raise ConfigError(Finding(Span.whole(JOURNAL), RULE, message, hint))
    return journal


def _parse_journal(row: Any) -> _Journal:
    if row["format"] != _FORMAT or not str(row["token"]).isalnum():
        raise ValueError(row["format"])
    texts = {t["path"]: (t["before"], t["after"]) for t in row["texts"]}
    moves = tuple((old, new) for old, new in row["moves"])
    made, emptied = tuple(row["made"]), tuple(row["emptied"])
    change = Change(row["command"], row["rule"], texts, moves, emptied)
    parts = (change.command, change.rule, *made, *emptied, *(p for pair in moves for p in pair))
    if not all(isinstance(part, str) for part in (*parts, *texts, *_chain(texts.values()))):
        raise TypeError(row)
    return _Journal(change, made, row["token"])


def _chain(pairs: Iterable[tuple[object, object]]) -> Iterator[object]:
    for pair in pairs:
        yield from pair


def _list_paths(journal: _Journal) -> Iterator[str]:
    change = journal.change
    yield from (*change.texts, *change.emptied, *journal.made)
    for pair in change.moves:
        yield from pair


def _is_ours(root: Path, path: str) -> bool:
    """Whether a path of a journal lies in the book."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or {"..", ".git"} & set(parts):
        return False
    return (root / path).parent.resolve().is_relative_to(root.resolve())


# --- one at a time, and to the end ---


@contextlib.contextmanager
def _lock(root: Path) -> Iterator[None]:
    """Have the book for ourselves. A lock ends with its process, however that ends."""
    handle = os.open(root, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = "another bindery is changing files of this book"
            hint = "wait for it to end"
            raise ConfigError(Finding(Span.whole(str(root)), RULE, message, hint)) from None
        except OSError:  # a file system without locks
            pass
        yield
    finally:
        os.close(handle)


class _Stops:
    """Signals that ask us to stop: heeded between two steps, for half a step cannot be undone."""

    def __init__(self) -> None:
        self._came = False
        self._is_eager = False

    def receive(self, _number: int, _frame: FrameType | None) -> None:
        self._came = True
        if self._is_eager:
            raise KeyboardInterrupt

    def heed(self) -> None:
        """Raise KeyboardInterrupt where one has come."""
        if self._came:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def heeded_at_once(self) -> Iterator[None]:
        """For what takes long and changes nothing."""
        self.heed()
        self._is_eager = True
        try:
            yield
        finally:
            self._is_eager = False


@contextlib.contextmanager
def _note_signals() -> Iterator[_Stops]:
    """Ctrl-C, SIGTERM and SIGHUP are noted instead of what they would do. Only the main thread
    can do so; what the caller's environment ignores stays ignored."""
    stops = _Stops()
    former = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                former[number] = signal.signal(number, stops.receive) or signal.SIG_DFL
    try:
        yield stops
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
