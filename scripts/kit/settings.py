"""Settings from a TOML file: every key has a reader, and an error names the file and the key."""

import argparse
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kit.cli import UsageError

KINDS = {str: "text in quotes", dict: "a table", list: "a list"}

Readers = Mapping[str, type | Callable[[str], Any]]
"""By key: a type of KINDS, or what makes a value of a text, as a type of argparse does."""


def read_toml(path: str) -> dict[str, Any]:
    """The content of a TOML file. Raises UsageError."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:  # not TOML, or not UTF-8
        raise UsageError(f"{path}: {error}") from error


def read_table(place: str, table: Any, readers: Readers, needed: str = "") -> dict[str, Any]:
    """What the readers make of the values of a table. Raises UsageError, which begins with `place`,
    for a key without a reader, for a wrong value, and where the needed key is missing."""
    if not isinstance(table, dict):
        raise UsageError(f"{place}has to be a table")
    found = {}
    for key, value in table.items():
        if key not in readers:
            raise UsageError(f"{place}{key}: no such key; known: {', '.join(readers)}")
        kind = readers[key] if readers[key] in KINDS else str
        if type(value) is not kind:
            raise UsageError(f"{place}{key}: has to be {KINDS[kind]}")
        try:
            found[key] = readers[key](value)
        except (argparse.ArgumentTypeError, ValueError) as error:
            raise UsageError(f"{place}{key}: {error}") from error
    if needed and needed not in found:
        raise UsageError(f"{place}{needed}: missing")
    return found


def read_secret(path: Path) -> list[str]:
    """The lines of a file that others may not read. Raises ArgumentTypeError."""
    try:
        if path.stat().st_mode & 0o077:
            raise argparse.ArgumentTypeError(f"others can read {path}: chmod 600 it")
        return path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise argparse.ArgumentTypeError(f"{path}: {error.strerror}") from error
