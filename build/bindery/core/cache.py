"""The cache: results of earlier builds, each kept with what it was made from.

A result has a name, and parts: everything that it depends on, by what people call it. It is used
again only where every part is the same, bindery and the packages that it runs on among them. So
nothing here can make an output wrong, and the folder may be deleted at any time.

It is in the user's cache folder, not in the book: watchers and tools that walk the book do not see
it, and a book that cannot be written to can be checked. There is one file per result, JSON below
its checksum, moved into place when whole; of two builds at once the last one stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from bindery.core.facts import make_reader, write_value

T = TypeVar("T")

MOST_BYTES = 256_000_000
"""The size of the folder above which its oldest files go."""


def find_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "bindery"


class Cache:
    """The results that are kept of one book, and why others were made."""

    def __init__(self, root: Path, folder: Path | None = None) -> None:
        self._root = str(root.resolve())
        self._folder = folder or find_folder()
        self._at_end: list[Callable[[], None]] = []
        self._has_written = False
        self.used = 0
        """Results that were used again."""
        self.made: dict[str, str] = {}
        """Why each of the others was made, by its name."""

    def read(self, name: str, parts: Mapping[str, str]) -> Any | None:
        """A result that was kept under this name and made from the same parts."""
        wanted = _sum_parts(parts)
        try:
            data = self._find(name).read_bytes()
            checksum, _, text = data.partition(b"\n")
            kept = json.loads(text) if checksum == _sum(text) else None
        except FileNotFoundError:
            self.made[name] = "for the first time"
            return None
        except (OSError, ValueError):
            kept = None
        if kept is None or kept["name"] != [self._root, name]:
            self.made[name] = "what was kept is damaged"
            return None
        before = kept["parts"]
        differing = [part for part in wanted if before.get(part) != wanted[part]]
        if differing or len(before) != len(wanted):
            self.made[name] = f"{' and '.join(differing) or 'what it is made from'} changed"
            return None
        self.used += 1
        return kept["value"]

    def keep(self, name: str, parts: Mapping[str, str], value: Any) -> None:
        """Keep a result. Where it cannot be written, it is made again the next time."""
        entry = {"name": [self._root, name], "parts": _sum_parts(parts), "value": value}
        text = json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode(
            errors="surrogatepass"
        )
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            handle, made = tempfile.mkstemp(prefix="making-", dir=self._folder)
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_sum(text) + b"\n" + text)
                os.replace(made, self._find(name))  # noqa: PTH105 - it pairs with mkstemp
            except BaseException:
                os.unlink(made)  # noqa: PTH108
                raise
        self._has_written = True

    def derive(
        self, name: str, parts: Mapping[str, str], kind: type[T], make: Callable[[], T]
    ) -> T:
        """A result of this kind that was kept, or one that is made and kept now."""
        kept = self.read(name, parts)
        if kept is not None:
            result: T = make_reader(kind)(kept)
        else:
            result = make()
            self.keep(name, parts, write_value(result))
        return result

    def do_at_end(self, action: Callable[[], None]) -> None:
        """Have something done when the work is: results grow while it goes on."""
        self._at_end.append(action)

    def close(self) -> None:
        """Keep what has been worked out, and remove the oldest results where they are too large."""
        for action in self._at_end:
            action()
        self._at_end.clear()
        if self._has_written:
            with contextlib.suppress(OSError):
                self._trim()

    def explain(self) -> str:
        """What was made anew and why, a line each."""
        lines = [f"made: {name}: {reason}" for name, reason in self.made.items()]
        return "\n".join([*lines, f"{len(lines)} results made, {self.used} used again"])

    def _find(self, name: str) -> Path:
        return self._folder / hashlib.sha256(f"{self._root}\n{name}".encode()).hexdigest()

    def _trim(self) -> None:
        with os.scandir(self._folder) as entries:
            found = sorted((e.stat().st_mtime, e.stat().st_size, e.path) for e in entries)
        excess = sum(size for _, size, _ in found) - MOST_BYTES
        for _, size, path in found:
            if excess <= 0:
                break
            os.unlink(path)  # noqa: PTH108
            excess -= size


def _sum(text: bytes) -> bytes:
    return hashlib.sha256(text).hexdigest().encode()


def _sum_parts(parts: Mapping[str, str]) -> dict[str, str]:
    texts = {**parts, "bindery": _describe_program()}
    return {
        name: _sum(text.encode(errors="surrogatepass")).decode() for name, text in texts.items()
    }


@cache
def _describe_program() -> str:
    """Everything that runs: our sources, Python, and the packages that are installed."""
    here = Path(__file__).parents[1]
    total = hashlib.sha256(sys.version.encode())
    for folder, folders, files in os.walk(here):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            total.update(name.encode() + b"\0" + Path(folder, name).read_bytes())
    for path in filter(os.path.isdir, sys.path):
        packages = (name for name in os.listdir(path) if name.endswith(".dist-info"))  # noqa: PTH208
        total.update("\n".join(sorted(packages)).encode())
    return total.hexdigest()
