"""The cache: results of earlier builds, each stored with hashes of everything it depends on.

A stored result is reused only if none of its inputs has changed, and bindery itself, Python and the
installed packages count as inputs. So the cache never changes an output, and you can delete the
folder at any time.

It is in the user's cache folder rather than in the book: watchers and tools that walk the book do
not see it, and a read-only book can be checked. Each result is a file of its own, a checksum
followed by MessagePack, which is moved into place once it is whole. If two builds write the same
result, the last one wins.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from bindery.core.facts import UNSTORABLE, Facts, StoredFacts, decode, encode
from bindery.core.second_process import share_work

T = TypeVar("T")

MAX_BYTES = 256_000_000
"""The size of the folder above which the oldest files are deleted."""


def find_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "bindery"


class _Entry(Struct):
    inputs: dict[str, str]
    value: Raw


class Cache:
    """The stored results for one book, and why the others had to be rebuilt."""

    def __init__(self, root: Path, folder: Path | None = None) -> None:
        self._root = str(root.resolve())
        self._folder = folder or find_folder()
        self._at_end: list[Callable[[], None]] = []
        self._has_written = False
        self.reused = 0
        self.rebuilt: dict[str, str] = {}
        """The reason for each result that was rebuilt, by its name."""

    def read(self, name: str, inputs: Mapping[str, str], restore: Callable[[Raw], T]) -> T | None:
        """The result stored under a name, if its inputs are unchanged. `inputs` maps what the user
        calls each input to its content; `restore` turns what was stored back into the result."""
        try:
            checksum, _, text = self._find(name).read_bytes().partition(b"\n")
            if checksum != _hash(text):
                raise ValueError("the checksum is wrong")
            entry: _Entry = decode(text, _Entry)
            wanted = _hash_inputs(inputs)
            changed = [each for each in wanted if entry.inputs.get(each) != wanted[each]]
            if not changed:
                result = restore(entry.value)
                self.reused += 1
                return result
        except FileNotFoundError:
            self.rebuilt[name] = "not in the cache"
        except (OSError, ValueError, msgspec.DecodeError):
            self.rebuilt[name] = "the cached copy is damaged"
        else:
            self.rebuilt[name] = f"{' and '.join(changed)} changed"
        return None

    def store(self, name: str, inputs: Mapping[str, str], value: Any) -> None:
        """Store a result. If that fails, as on a full disk, the next build makes it again."""
        with contextlib.suppress(OSError, *UNSTORABLE):
            text = encode({"inputs": _hash_inputs(inputs), "value": value})
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._find(name)
            unfinished = f"{path}.{os.getpid()}"
            handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_hash(text) + b"\n" + text)
                os.replace(unfinished, path)  # noqa: PTH105 - pathlib is slow
            except BaseException:
                os.unlink(unfinished)  # noqa: PTH108
                raise
        self._has_written = True

    def derive(
        self, name: str, inputs: Mapping[str, str], kind: type[T], make: Callable[[], T]
    ) -> T:
        """The stored result of this type, or a new one, which is stored."""
        result = self.recall(name, inputs, kind)
        if result is None:
            result = make()
            self.store(name, inputs, result)
        return result

    def recall(self, name: str, inputs: Mapping[str, str], kind: type[T]) -> T | None:
        """The result of this type that `derive` has stored."""

        return self.read(name, inputs, lambda stored: cast(T, decode(stored, kind)))

    def open_facts(self, name: str, inputs: Mapping[str, str]) -> Facts:
        """The stored facts that depend on these inputs. New ones are stored at the end."""
        facts = Facts(self.recall(name, inputs, StoredFacts))
        reason = self.rebuilt.pop(name, "")

        def store() -> None:
            if facts.rebuilt:
                self.rebuilt.update({name: reason} if reason else facts.rebuilt)
                facts.rebuilt.clear()
                self.store(name, inputs, facts.write())

        self.do_at_end(store)
        return facts

    def do_at_end(self, action: Callable[[], None]) -> None:
        """Call this when the cache is closed, for results that grow during a build."""
        self._at_end.append(action)

    def close(self) -> None:
        """Store what is left to store, and delete the oldest results if there are too many."""
        for action in self._at_end:
            action()
        self._at_end.clear()
        if self._has_written:
            with contextlib.suppress(OSError):
                self._trim()

    def explain(self) -> str:
        """What was rebuilt and why, one result per line."""
        lines = [f"rebuilt {name}: {reason}" for name, reason in self.rebuilt.items()]
        return "\n".join([*lines, f"rebuilt {len(lines)} results, reused {self.reused}"])

    def _find(self, name: str) -> Path:
        return self._folder / hashlib.sha256(f"{self._root}\n{name}".encode()).hexdigest()

    def _trim(self) -> None:
        with os.scandir(self._folder) as entries:
            found = sorted((e.stat().st_mtime, e.stat().st_size, e.path) for e in entries)
        excess = sum(size for _, size, _ in found) - MAX_BYTES
        for _, size, path in found:
            if excess <= 0:
                break
            os.unlink(path)  # noqa: PTH108
            excess -= size


class LiveCache(Cache):
    """The cache of a program that reads a book again and again: what it has read stays in memory
    as long as its inputs are the same."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self._known: dict[str, tuple[Mapping[str, str], Any]] = {}

    def read(self, name: str, inputs: Mapping[str, str], restore: Callable[[Raw], T]) -> T | None:
        known, result = self._known.get(name, (None, None))
        if known != inputs:
            result = super().read(name, inputs, restore)
            if result is not None:
                self._known[name] = inputs, result
        return result


def recall(
    cache: Cache | None, name: str, inputs: Mapping[str, str], kind: type[T], make: Callable[[], T]
) -> T:
    """A result of the cache, or without one the new result."""
    return make() if cache is None else cache.derive(name, inputs, kind, make)


class Recipe(Struct, Generic[T], frozen=True):
    """A result that may be in the cache: its name, its inputs, what makes it, and the name that
    the user is shown meanwhile."""

    name: str
    inputs: Mapping[str, str]
    make: Callable[[], T]
    title: str


def recall_many(
    cache: Cache | None,
    kind: type[T],
    recipes: Sequence[Recipe[T]],
    progress: Callable[[str], object],
    meanwhile: Callable[[], object] = lambda: None,
) -> list[T]:
    """The results of recipes. Those that are not in the cache are made by two processes if they
    are many; `meanwhile` is called while the second one begins."""
    found: list[T | None] = []
    for one in recipes:
        found.append(cache.recall(one.name, one.inputs, kind) if cache else None)
        if found[-1] is not None:
            progress(one.title)
    missing = [one for one, result in zip(recipes, found, strict=True) if result is None]

    def make(one: Recipe[T]) -> T:
        result = one.make()
        if cache:
            cache.store(one.name, one.inputs, result)
        return result

    def make_here(one: Recipe[T]) -> T:
        progress(one.title)
        return make(one)

    def read(one: Recipe[T], written: Raw) -> T:
        progress(one.title)
        return cast(T, decode(written, kind))

    made = iter(share_work(missing, make_here, make, read, meanwhile))
    return [next(made) if result is None else result for result in found]


def _hash(content: bytes) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _hash_inputs(inputs: Mapping[str, str]) -> dict[str, str]:
    texts = {**inputs, "bindery": _describe_program()}
    return {name: _hash_text(text) for name, text in texts.items()}


@cache
def _describe_program() -> str:
    """A hash of everything that runs: Python, the versions of installed packages, and our sources
    by time and size, as Python itself knows whether to compile them again."""
    here = Path(__file__).parents[1]
    total = hashlib.sha256(sys.version.encode())
    for folder, folders, files in os.walk(here):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            status = os.stat(f"{folder}/{name}")  # noqa: PTH116 - this runs in every command
            total.update(f"{name} {status.st_mtime_ns} {status.st_size}".encode())
    for path in filter(os.path.isdir, sys.path):
        packages = (name for name in os.listdir(path) if name.endswith(".dist-info"))  # noqa: PTH208
        total.update("\n".join(sorted(packages)).encode())
    return total.hexdigest()
