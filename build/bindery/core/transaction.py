"""Change several files of a book together: all of them, or none.

Each file is written under a temporary name and then renamed. If a step fails or a signal arrives,
the steps so far are undone. Git can restore what a killed process leaves half done: a command that
moves files calls `refuse_uncommitted` first.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath

from msgspec import Struct

from bindery.core.model import BookError, ConfigError, Finding, Span
from bindery.core.processes import (
    GIT,
    STOP_SIGNALS,
    CommandMissingError,
    CommandTimeoutError,
    hold_signals,
    run_command,
)
from bindery.core.report import count_noun
from bindery.core.whole_files import write_whole

Texts = Mapping[str, tuple[str, str]]
"""File contents before and after a change, by the path before it."""

_GIT_SECONDS = 60.0
_WRITABLE = 0o222


class Change(Struct, frozen=True):
    """A command's changes: first texts, then paths of files and folders."""

    rule: str
    """The rule that reports a change that cannot be made."""
    texts: Texts
    moves: tuple[tuple[str, str], ...] = ()
    emptied: tuple[str, ...] = ()
    """Folders to remove afterwards if they are empty."""


Step = tuple[Callable[[], object], Callable[[], object]]
"""An action and its undo, which has no effect if the action did not happen."""


def change_files(root: Path, change: Change, finish: Callable[[], Texts] | None = None) -> Texts:
    """Make a change, or leave everything as it is.

    When everything else is in place, `finish` returns further texts to change; those that it
    changes are returned. Ctrl-C, SIGTERM and SIGHUP undo everything. Raises BookError if a file has
    changed meanwhile, is not writable, or git refuses to move it; OSError for disk errors.
    """
    root = root.resolve()
    _refuse_late(root, change)
    late: Texts = {}
    with hold_signals(), contextlib.ExitStack() as undo:
        _take(_list_steps(root, change), undo)
        if finish is not None:
            late = {path: pair for path, pair in finish().items() if pair[0] != pair[1]}
            places = {path: root / map_path(change.moves, path) for path in late}
            for path, (before, _) in late.items():
                _refuse_edited(places[path], path, before, change.rule)
            _take((_write(places[path], *pair) for path, pair in late.items()), undo)
        undo.pop_all()
    return late


def _take(steps: Iterable[Step], undo: contextlib.ExitStack) -> None:
    for do, take_back in steps:
        if signal.sigpending() & STOP_SIGNALS:
            raise KeyboardInterrupt
        undo.callback(take_back)
        do()
    if signal.sigpending() & STOP_SIGNALS:
        raise KeyboardInterrupt


# --- before ---


def refuse_uncommitted(root: Path, change: Change, *, needs_git: bool = False) -> None:
    """Raise ConfigError if a file of the change has edits that git could not restore.

    Outside a git repository, or without git, nothing is refused, and neither are files that git
    does not track; with `needs_git` all of these are."""
    paths = [*change.texts, *(old for old, _ in change.moves)]
    ignored = ["--ignored"] if needs_git else []
    command = [*GIT, "status", "--porcelain", "-z", *ignored, "--"]
    try:
        ended = run_command(
            [*command, *(f":(literal){path}" for path in paths)], folder=root, timeout=_GIT_SECONDS
        )
    except (CommandMissingError, CommandTimeoutError):
        ended = None
    if ended is None or ended.returncode:
        if needs_git and paths:
            message = "this book is not in a git repository, so you could not undo this"
            hint = "run `git init` and commit the book first, or add --force"
            raise ConfigError(Finding(Span.whole(root.as_posix()), change.rule, message, hint))
        return
    # The second column compares the file with the index, so staged edits can be restored.
    passed = " " if needs_git else "? "
    edited = [line[3:] for line in ended.stdout.split("\0") if line[1:2].strip(passed)]
    if edited:
        others = f" and {count_noun(len(edited) - 1, 'other file')} have" if edited[1:] else " has"
        message = f"'{edited[0]}'{others} uncommitted changes"
        hint = "commit or stash them first, or add --force"
        raise ConfigError(Finding(Span.whole(edited[0]), change.rule, message, hint))


def find_obstacle(root: Path, path: str) -> tuple[str, str] | None:
    """Why a file of the book cannot be written, and what to do; None if it can."""
    root = root.resolve()
    target = (root / path).resolve()
    if not target.is_relative_to(root):
        return f"'{path}' is a link out of the book", "change the file that it points to"
    for place in (target, target.parent):
        with contextlib.suppress(FileNotFoundError):
            # Root may write everything, but files are read-only for a reason.
            if not place.stat().st_mode & _WRITABLE or not os.access(place, os.W_OK):
                shown = place.relative_to(root).as_posix()
                return f"'{shown}' is read-only", f"run `chmod u+w {shown}` first"
    return None


def _refuse_late(root: Path, change: Change) -> None:
    """Raise BookError unless everything is still as it was when the change was planned."""

    def refuse(path: str, message: str, hint: str) -> BookError:
        return BookError(Finding(Span.whole(path), change.rule, message, hint))

    for path, (before, _) in change.texts.items():
        if obstacle := find_obstacle(root, path):
            raise refuse(path, *obstacle)
        _refuse_edited(root / path, path, before, change.rule)
    for old, new in change.moves:
        if not os.path.lexists(root / old) or os.path.lexists(root / new):
            raise refuse(old, f"'{old}' or '{new}' has changed meanwhile", "run the command again")
        for path in (old, new):
            if not (root / path).parent.resolve().is_relative_to(root):
                message = f"'{path}' is a link out of the book"
                raise refuse(path, message, "change the file that it points to")


def _refuse_edited(place: Path, path: str, before: str, rule: str) -> None:
    if place.read_bytes() != before.encode():
        message = f"'{path}' has changed meanwhile"
        raise BookError(Finding(Span.whole(path), rule, message, "run the command again"))


# --- steps ---


def _list_steps(root: Path, change: Change) -> Iterator[Step]:
    for path, pair in change.texts.items():
        yield _write(root / path, *pair)
    parents = (parent for _, new in change.moves for parent in reversed(PurePosixPath(new).parents))
    for folder in dict.fromkeys(root / parent for parent in parents):
        if not folder.exists():
            yield folder.mkdir, partial(_remove_folder, folder)
    for old, new in change.moves:
        yield partial(_rename, root, old, new), partial(_rename_back, root, old, new)
    for folder in sorted((root / name for name in change.emptied), reverse=True):
        if folder.is_dir():  # git may have removed it
            yield folder.rmdir, partial(folder.mkdir, parents=True, exist_ok=True)


def _write(path: Path, before: str, after: str) -> Step:
    target = path.resolve()
    return partial(write_whole, target, after.encode()), partial(
        write_whole, target, before.encode()
    )


def _remove_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # never made, or no longer empty
        folder.rmdir()


def _rename_back(root: Path, old: str, new: str) -> None:
    if os.path.lexists(root / new) and not os.path.lexists(root / old):
        (root / old).parent.mkdir(parents=True, exist_ok=True)
        _rename(root, new, old)


def _rename(root: Path, old: str, new: str) -> None:
    """Rename a file or folder, with git if git tracks it."""
    if not _is_tracked(root, old):
        (root / old).rename(root / new)
        return
    ended = run_command([*GIT, "mv", "--", old, new], folder=root, timeout=_GIT_SECONDS)
    if ended.returncode:
        reason = ended.stderr.strip().splitlines()
        message = f"git cannot move '{old}': {reason[-1] if reason else 'no reason given'}"
        raise BookError(Finding(Span.whole(old), "refused-move", message, "fix what git reports"))


def _is_tracked(root: Path, path: str) -> bool:
    try:
        command = [*GIT, "ls-files", "-z", "--", f":(literal){path}"]
        ended = run_command(command, folder=root, timeout=_GIT_SECONDS)
    except (CommandMissingError, CommandTimeoutError):
        return False
    return ended.returncode == 0 and bool(ended.stdout)


def map_path(moves: Iterable[tuple[str, str]], path: str) -> str:
    """The path of a file after moves, including moves of its folder."""
    for old, new in moves:
        if path == old or path.startswith(f"{old}/"):
            return new + path[len(old) :]
    return path
