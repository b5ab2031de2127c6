"""Settings from a TOML file, taken key by key; an error names the file and the key."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kit.cli import UsageError

KINDS = {str: "text in quotes", bool: "true or false", int: "an integer", dict: "a table",
         list: "a list"}  # fmt: skip


class Settings:
    """A table of a file. Everything here raises UsageError for what is wrong in the file."""

    def __init__(self, file: Path, values: Mapping[str, Any], place: str = "") -> None:
        self.file = file
        self.values = values
        self.place = place
        self.known: list[str] = []

    def error(self, key: str, message: str) -> UsageError:
        """The error to raise about a key."""
        return UsageError(f"{self.file}: {self.place}{key}: {message}")

    def take(self, key: str, kind: type[Any] = str, default: Any = None) -> Any:
        """The value of a key, or the default."""
        self.known.append(key)
        value = self.values.get(key, default)
        if key in self.values and type(value) is not kind:
            raise self.error(key, f"has to be {KINDS[kind]}")
        return value

    def need(self, key: str) -> str:
        """The text of a key that has to be there."""
        if not (text := self.take(key)):
            raise self.error(key, "missing")
        return str(text)

    def parse(self, key: str, read: Callable[[str], Any], default: str | None = None) -> Any:
        """The value of a text as a type of argparse reads it; None without value and default."""
        text = self.take(key, str, default)
        try:
            return None if text is None else read(text)
        except argparse.ArgumentTypeError as error:
            raise self.error(key, str(error)) from error

    def find_file(self, name: str) -> Path:
        """A path as the file means it: relative to its own folder, or to home."""
        return self.file.parent / Path(name).expanduser()

    def read_secret(self, key: str) -> list[str] | None:
        """The lines of the file that a key names, which others may not read; None without it."""
        name = self.take(key)
        if name is None:
            return None
        path = self.find_file(name)
        try:
            if path.stat().st_mode & 0o077:
                raise self.error(key, f"others can read {path}: chmod 600 it")
            return path.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise self.error(key, f"{path}: {error.strerror}") from error

    def take_table(self, key: str) -> Settings | None:
        """The table `[KEY]`; None where there is none."""
        values = self.take(key, dict)
        return None if values is None else Settings(self.file, values, f"{key}.")

    def take_tables(self, key: str) -> list[Settings]:
        """The tables `[[KEY]]`, at least one."""
        self.known.append(key)
        values = self.values.get(key)
        if not isinstance(values, list) or not all(isinstance(value, dict) for value in values):
            raise self.error(f"[[{key}]]", "there is none, so there is nothing to watch")
        return [Settings(self.file, v, f"{key} {i}: ") for i, v in enumerate(values, start=1)]

    def close(self) -> None:
        """Refuse unknown keys."""
        for key in self.values:
            if key not in self.known:
                raise self.error(key, f"no such key; known: {', '.join(self.known)}")


def read_settings(path: str | Path) -> Settings:
    """The top of a TOML file. Raises UsageError."""
    try:
        return Settings(Path(path), tomllib.loads(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except ValueError as error:  # not TOML, or not UTF-8
        raise UsageError(f"{path}: {error}") from error
