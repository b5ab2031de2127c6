"""Settings: every mistake in a file is one line with the file and the key."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest
from kit.alerts import read_secret, read_table, read_toml
from kit.cli import UsageError, duration

READERS = {"a": str, "wait": duration, "on": list}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = ", r"x\.toml: Invalid value \(at end of document\)"),
        ("a = 3", "x.toml: a: has to be text in quotes"),
        ('a = "b"\non = 1', "x.toml: on: has to be a list"),
        ('a = "b"\nwait = "soon"', "x.toml: wait: 'soon' is not a duration"),
        ("on = []", "x.toml: a: missing"),
        ("pth = 1", "x.toml: pth: no such key; known: a, wait, on"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, text: str, message: str) -> None:
    """By file and key."""
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_table(f"{path}: ", read_toml(str(path)), READERS, "a")


def test_values_are_read() -> None:
    """Each by its reader; what is not there is left to the caller. A path is not a table."""
    with pytest.raises(UsageError, match="path 1: has to be a table"):
        read_table("path 1: ", "/checkpoints", READERS)
    assert read_table("x", {"wait": "2m", "on": [1]}, READERS) == {"wait": 120.0, "on": [1]}


def test_a_secret_is_for_its_owner(tmp_path: Path) -> None:
    """A file that others can read is refused."""
    secret = tmp_path / "login"
    with pytest.raises(argparse.ArgumentTypeError, match="login: No such file"):
        read_secret(secret)
    secret.write_text("user\nword\n")
    secret.chmod(0o644)
    with pytest.raises(argparse.ArgumentTypeError, match=r"others can read .*chmod 600"):
        read_secret(secret)
    secret.chmod(0o600)
    assert read_secret(secret) == ["user", "word"]
