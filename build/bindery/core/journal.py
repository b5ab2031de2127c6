"""The journal of a change that is under way: all that it takes to go back.

A book from elsewhere may bring one along. It is sealed with a key that lies outside every book;
and no journal leads out of its book or into the folder of git.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from bindery.core.model import ConfigError, Finding, Span
from bindery.core.repository import JOURNAL

RULE = "unfinished-change"
Texts = Mapping[str, tuple[str, str]]
"""What files hold before and after a change, by the path that they have before it."""

JOURNAL_PART = f"{JOURNAL}.part"
_FORMAT = 1
_TOKEN = re.compile(r"[0-9a-f]{8}")
_KEY_BYTES = 32
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
class Journal:
    """A change that is under way."""

    change: Change
    made: tuple[str, ...]
    """Folders that are made for it, outer ones first."""
    token: str = field(default_factory=lambda: secrets.token_hex(4))
    """The end of the name under which each file is written first."""
    is_own: bool = True
    """Whether it was written by this user on this machine, for a book in this folder."""


def write_journal(root: Path, journal: Journal) -> None:
    change = journal.change
    row: dict[str, object] = {
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
    row["seal"] = _seal(root, row, _make_key(root))
    part = root / JOURNAL_PART
    part.unlink(missing_ok=True)  # it may be a link that leads elsewhere
    try:
        with part.open("x", encoding="ascii") as file:
            json.dump(row, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        part.replace(root / JOURNAL)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    sync_folder(root)


def remove_journal(root: Path) -> None:
    (root / JOURNAL).unlink()
    sync_folder(root)


def read_journal(root: Path) -> Journal | None:
    """The journal in a root, None without one. Raises ConfigError where it is none, or none that
    stays in the book: it may have come with a book from elsewhere."""
    root = root.resolve()
    try:
        if not stat.S_ISREG((root / JOURNAL).stat().st_mode):  # a pipe would be waited for
            raise ValueError(JOURNAL)
        row = json.loads((root / JOURNAL).read_bytes())
        journal = _parse_journal(row)
        if not all(is_inside(root, path) for path in _list_paths(journal)):
            raise ValueError(JOURNAL)
        seal = _seal(root, row, _read_key(root))
        is_own = bool(seal) and hmac.compare_digest(seal.encode(), str(row.get("seal")).encode())
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, KeyError, RuntimeError, OSError):  # RecursionError as well
        message = "this is no journal of a change that can be taken back"
        hint = "delete it, and see with git what has changed"
        raise ConfigError(Finding(Span.whole(JOURNAL), RULE, message, hint)) from None
    return replace(journal, is_own=is_own)


def _parse_journal(row: Any) -> Journal:
    if row["format"] != _FORMAT or not _TOKEN.fullmatch(row["token"]):
        raise ValueError(JOURNAL)
    texts = {t["path"]: (t["before"], t["after"]) for t in row["texts"]}
    moves = tuple((old, new) for old, new in row["moves"])
    made, emptied = tuple(row["made"]), tuple(row["emptied"])
    journal = Journal(
        Change(row["command"], row["rule"], texts, moves, emptied), made, row["token"]
    )
    for text in (row["command"], row["rule"], *_chain(texts.values())):
        if not isinstance(text, str):
            raise TypeError(JOURNAL)
        text.encode()  # a lone surrogate cannot be written
    for path in _list_paths(journal):
        os.fsencode(path)
    moved = [path for pair in moves for path in pair]
    if len(set(moved)) != len(moved):  # one would be put over the other
        raise ValueError(JOURNAL)
    return journal


def _chain(pairs: Iterable[tuple[object, object]]) -> Iterator[object]:
    for pair in pairs:
        yield from pair


def _list_paths(journal: Journal) -> Iterator[str]:
    change = journal.change
    yield from (*change.texts, *change.emptied, *journal.made)
    for pair in change.moves:
        yield from pair


def is_inside(root: Path, path: str) -> bool:
    """Whether a path lies in the book, with no link on the way, and not in the folder of git."""
    parts = PurePosixPath(path).parts
    if not parts or path.startswith("/") or "\0" in path or ".." in parts or _names_git(parts):
        return False
    folder = root
    for part in parts[:-1]:
        folder /= part
        if folder.is_symlink():
            return False
    # What is no link to Python can be one to the system: a mount, a junction.
    real = folder.resolve()
    return real.is_relative_to(root) and not _names_git(real.relative_to(root).parts)


def _names_git(parts: Iterable[str]) -> bool:
    return any(part.casefold() == ".git" for part in parts)


# --- whose journal it is ---


def _seal(root: Path, row: Mapping[str, object], key: bytes) -> str:
    """What only who has the key can put on a journal; empty without a key."""
    if not key:
        return ""
    rest = {name: value for name, value in row.items() if name != "seal"}
    content = json.dumps(rest, sort_keys=True, separators=(",", ":")).encode("ascii")
    return hmac.digest(key, os.fsencode(root) + b"\0" + content, "sha256").hex()


def _find_key(root: Path) -> Path | None:
    """Where the key belongs; None where that is in the book, which may bring one along."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state if Path(state).is_absolute() else os.path.expanduser("~/.local/state"))  # noqa: PTH111
    place = folder / "bindery" / "journal.key"
    is_elsewhere = place.is_absolute() and not Path(os.path.realpath(place)).is_relative_to(root)
    return place if is_elsewhere else None


def _read_key(root: Path) -> bytes:
    """The key of this user; empty without one that nobody else can read."""
    place = _find_key(root)
    if place is None:
        return b""
    try:
        handle = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(handle, "rb") as file:  # noqa: PTH123
            about = os.fstat(handle)
            is_private = stat.S_ISREG(about.st_mode) and not about.st_mode & 0o077
            if not is_private or about.st_uid != os.geteuid():
                return b""
            key = file.read(_KEY_BYTES + 1)
    except OSError:
        return b""
    return key if len(key) == _KEY_BYTES else b""


def _make_key(root: Path) -> bytes:
    """The key of this user, made where there is none; empty where that cannot be."""
    place = _find_key(root)
    if place is None:
        return b""
    if not (key := _read_key(root)):
        with contextlib.suppress(OSError):
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=place.parent)  # for the user alone
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(secrets.token_bytes(_KEY_BYTES))
                    file.flush()
                    os.fsync(handle)
                os.link(name, place)  # of two at a time the first one counts
            finally:
                Path(name).unlink(missing_ok=True)
            sync_folder(place.parent)
        key = _read_key(root)
    return key


def sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not there, or of a kind that knows no such thing
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
