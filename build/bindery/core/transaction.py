"""Several files of a book changed as one: all of it or nothing, also where the process is killed.

Before the first change a journal with all that it takes to go back is put into the root; its
removal is what ends the change. A journal that is found is one of a process that was killed, and
`take_back` undoes what that one had done, except in files that have been edited since.

A book from elsewhere may bring a journal along. It is sealed with a key that lies outside every
book; what has no such seal is taken back only where that is asked for, and no journal leads out
of its book or into the folder of git.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePosixPath

from bindery.core.config import FILE_NAME
from bindery.core.journal import (
    JOURNAL_PART,
    RULE,
    Change,
    Journal,
    Texts,
    is_inside,
    read_journal,
    remove_journal,
    sync_folder,
    write_journal,
)
from bindery.core.model import BookError, ConfigError, Finding, Span
from bindery.core.processes import GIT, CommandMissingError, CommandTimeoutError, run_command
from bindery.core.report import show_hidden
from bindery.core.repository import JOURNAL, Tree
from bindery.core.stops import note_signals
from bindery.core.whole_files import sweep_leftovers

UNDO = "take it back with `bindery mv --undo`"
_STAGED = ".bindery-making-"
_GIT_SECONDS = 60.0
_LOCK_SECONDS = 2.0
"""How long a change waits for another one to end."""
_WRITABLE = 0o222


def change_files(root: Path, change: Change, finish: Callable[[], Texts] | None = None) -> Texts:
    """Make a change, or leave everything as it is.

    Where everything else is in place `finish` is asked for further texts, which belong to the
    change as well; those that it changes are given back. Ctrl-C, SIGTERM and SIGHUP take
    everything back. Raises BookError where a file is not what it was or may not be written, or
    where git refuses, OSError where the disk does, and ConfigError while another process is at it.
    """
    root = root.resolve()
    with _lock(root), note_signals() as stops:
        if (root / JOURNAL).exists():
            raise ConfigError(report_unfinished(root))
        _refuse_late(root, change)
        change = _follow_links(root, change)
        journal = Journal(change, _list_missing_folders(root, change))
        write_journal(root, journal)
        try:
            for step in _list_steps(root, journal):
                stops.heed()
                step()
            late: Texts = {}
            if finish is not None:
                with stops.heeded_at_once():
                    late = {p: pair for p, pair in finish().items() if pair[0] != pair[1]}
            if late:
                back = tuple((new, old) for old, new in change.moves)
                places = {p: _find_real(root, change, _map(change.moves, p)) for p in late}
                more = {_map(back, places[path]): pair for path, pair in late.items()}
                journal = replace(journal, change=replace(change, texts={**change.texts, **more}))
                write_journal(root, journal)
                for path, (before, after) in late.items():
                    stops.heed()
                    place = root / places[path]
                    _refuse_edited(place, path, before, change.rule)
                    _write_text(place, after, journal.token)
            _sync_folders(root, change)
            stops.heed()
        except BaseException as error:
            _go_back(root, journal, error)
            raise
        remove_journal(root)
    return late


def _go_back(root: Path, journal: Journal, error: BaseException) -> None:
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


def take_back(root: Path, *, is_asked: bool = False) -> str:
    """Undo what a process that was killed has left half done, and sweep what it left besides.

    Gives a line that says so, empty where there was nothing. Raises BookError where files have
    been edited since, which stay as they are, and where a move cannot be taken back; ConfigError
    while another process is at it, and where the journal is somebody else's, unless `is_asked`
    says that the user wants just this. Then a folder without a book is refused as well.
    """
    root = root.resolve()
    if not any(os.path.lexists(root / name) for name in (FILE_NAME, JOURNAL)):
        if is_asked:
            message = f"there is no {FILE_NAME} in the folder '{root}'"
            hint = "give the folder of a book with --root"
            raise ConfigError(Finding(Span.whole(str(root / FILE_NAME)), "config", message, hint))
        return ""
    for folder in {root, *((root / path).parent for path in Tree(root).walk_files(""))}:
        sweep_leftovers(folder)
    if not any(os.path.lexists(root / name) for name in (JOURNAL, JOURNAL_PART)):
        return ""
    with _lock(root), note_signals() as stops:
        (root / JOURNAL_PART).unlink(missing_ok=True)
        journal = read_journal(root)
        if journal is None:
            return ""
        if not journal.is_own and not is_asked:
            message = "this journal of a half made change was not written by you on this machine"
            hint = "look at what it would put back, then take it back with `bindery mv --undo`"
            raise ConfigError(Finding(Span.whole(JOURNAL), RULE, message, hint))
        kept = _undo(root, journal)
        if kept:
            raise BookError(*kept)
        stops.heed()
    moves = "".join(f", the move of {old} to {new}" for old, new in journal.change.moves[:1])
    command = journal.change.command
    return show_hidden(f"`bindery {command}` was ended before it was done; took it back{moves}")


def report_unfinished(root: Path) -> Finding:
    """The finding that says of a journal in the root what it is there for."""
    try:
        journal = read_journal(root)
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


def _follow_links(root: Path, change: Change) -> Change:
    """The same change by paths on which no link lies, so that going back need not follow any."""

    def find_place(path: str) -> str:
        return _find_real(root, change, path, is_last_followed=False)

    return replace(
        change,
        texts={_find_real(root, change, path): pair for path, pair in change.texts.items()},
        moves=tuple((find_place(old), find_place(new)) for old, new in change.moves),
        emptied=tuple(find_place(path) for path in change.emptied),
    )


def _find_real(root: Path, change: Change, path: str, *, is_last_followed: bool = True) -> str:
    """Where a path leads. Raises BookError where that is out of the book."""
    place = root / path
    real = place.resolve() if is_last_followed else place.parent.resolve() / place.name
    if not real.is_relative_to(root):
        message = f"'{path}' leads out of the book, and stays as it is"
        raise BookError(
            Finding(Span.whole(path), change.rule, message, "change the file where it is")
        )
    return real.relative_to(root).as_posix()


def _list_missing_folders(root: Path, change: Change) -> tuple[str, ...]:
    parents = (parent for _, new in change.moves for parent in reversed(PurePosixPath(new).parents))
    return tuple(dict.fromkeys(str(p) for p in parents if not (root / p).exists()))


def _list_steps(root: Path, journal: Journal) -> Iterator[Callable[[], object]]:
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


def _undo(root: Path, journal: Journal) -> tuple[Finding, ...]:
    """Put everything back, however far it had come, and remove the journal. Gives a finding for
    each file that has been edited since, and that stays so, and for each path that leads elsewhere
    by now; this is looked at before each step, for a step may put a link on the way of the next.

    Raises BookError, with nothing changed, where a move cannot be taken back.
    """
    change = journal.change
    _refuse_stuck(root, change)
    kept = []

    def keep(path: str, message: str) -> None:
        hint = "all else is back: see with git what has changed"
        kept.append(Finding(Span.whole(path), RULE, message, hint))

    def is_kept(path: str) -> bool:
        if is_inside(root, path):
            return False
        keep(path, f"'{path}' leads elsewhere, and was not put back")
        return True

    for name in sorted(change.emptied):
        if not is_kept(name):
            (root / name).mkdir(parents=True, exist_ok=True)
    for old, new in reversed(change.moves):
        if is_kept(new) or not os.path.lexists(root / new) or is_kept(old):
            continue
        if os.path.lexists(root / old):
            keep(old, f"something else is at '{old}', and '{new}' was not put back there")
        else:
            _rename(root, new, old)
    for path, (before, after) in change.texts.items():
        for place in dict.fromkeys((path, _map(change.moves, path))):
            if is_inside(root, place):
                (root / place).with_name(f"{_STAGED}{journal.token}").unlink(missing_ok=True)
        if is_kept(path):
            continue
        held = None if (root / path).is_symlink() else _read_bytes(root / path)
        if held == after.encode():
            _write_text(root / path, before, journal.token)
        elif held != before.encode():
            message = f"'{path}' has been edited since `bindery {change.command}` was ended"
            hint = "it stays as it is and all else is back: see to its links, and run this again"
            kept.append(Finding(Span.whole(path), RULE, message, hint))
    for name in reversed(journal.made):
        if not is_kept(name):
            with contextlib.suppress(OSError):  # something else lies there by now
                (root / name).rmdir()
    _sync_folders(root, change)
    remove_journal(root)
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


def _map(moves: Iterable[tuple[str, str]], path: str) -> str:
    """The path of a file after moves."""
    for old, new in moves:
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
        with fresh.open("xb") as file:
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
    ended = run_command([*GIT, "mv", "--", old, new], folder=root, timeout=_GIT_SECONDS)
    if ended.code:
        reason = ended.stderr.strip().splitlines()
        message = f"git does not move '{old}': {reason[-1] if reason else 'it says no reason'}"
        raise BookError(Finding(Span.whole(old), "refused-move", message, "see what git says"))


def _is_tracked(root: Path, path: str) -> bool:
    try:
        command = [*GIT, "ls-files", "-z", "--", f":(literal){path}"]
        ended = run_command(command, folder=root, timeout=_GIT_SECONDS)
    except (CommandMissingError, CommandTimeoutError):
        return False
    return ended.code == 0 and bool(ended.stdout)


def _sync_folders(root: Path, change: Change) -> None:
    """Have the disk keep the names of files, so that none is lost once the journal is gone."""
    paths = (*change.texts, *(path for pair in change.moves for path in pair))
    for folder in {(root / path).parent for path in paths}:
        sync_folder(folder)


# --- one at a time, and to the end ---


@contextlib.contextmanager
def _lock(root: Path) -> Iterator[None]:
    """Have the book for ourselves. A lock ends with its process, however that ends: at the latest
    when a program that it was about to start has begun."""
    handle = os.open(root, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            _wait_for_lock(root, handle)
        yield
    finally:
        os.close(handle)


def _wait_for_lock(root: Path, handle: int) -> None:
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.05)
                continue
            message = "another bindery is changing files of this book"
            hint = "wait for it to end"
            raise ConfigError(Finding(Span.whole(str(root)), RULE, message, hint)) from None
        return
