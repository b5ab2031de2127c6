"""Settings: every mistake in a file is one line with the file and the key."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.cli import UsageError, duration
from kit.settings import Settings, read_settings


@pytest.fixture
def read(tmp_path: Path):
    """The settings in a text."""

    def make(text: str) -> Settings:
        path = tmp_path / "x.toml"
        path.write_text(text)
        return read_settings(path)

    return make


@pytest.mark.parametrize(
    ("text", "use", "message"),
    [
        ("a = ", lambda s: s, r"x\.toml: Invalid value \(at end of document\)"),
        ("a = 3", lambda s: s.take("a"), "x.toml: a: has to be text in quotes"),
        ('a = "soon"', lambda s: s.parse("a", duration), "x.toml: a: 'soon' is not a duration"),
        ("", lambda s: s.take_tables("path"), r"\[\[path\]\]: there is none"),
        ("pth = 1", lambda s: (s.take("path"), s.close()), "pth: no such key; known: path"),
        ("[[p]]\nb = 1", lambda s: s.take_tables("p")[0].take("b"), "p 1: b: has to be text"),
        ('f = "none"', lambda s: s.read_secret("f"), "f: .*none: No such file"),
    ],
)
def test_mistakes_are_named(read, text: str, use, message: str) -> None:
    """By file, table and key."""
    with pytest.raises(UsageError, match=message):
        use(read(text))


def test_a_secret_is_for_its_owner(read, tmp_path: Path) -> None:
    """A file that others can read is refused."""
    secret = tmp_path / "login"
    secret.write_text("user\nword\n")
    secret.chmod(0o644)
    top = read('login_file = "login"')
    with pytest.raises(UsageError, match=r"others can read .*chmod 600"):
        top.read_secret("login_file")
    secret.chmod(0o600)
    assert top.read_secret("login_file") == ["user", "word"]
