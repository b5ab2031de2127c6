"""`check --watch`: a real process, real edits, and only what they change is printed."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from needs import need

if TYPE_CHECKING:
    from conftest import BookMaker, Runner

SECONDS = 60.0
"""Patience with a busy machine; a change is seen at once."""


Watcher = subprocess.Popen[str]


@pytest.fixture
def watcher(book: Path, child_environment: dict[str, str]) -> Iterator[Watcher]:
    """A `bindery check --watch` that runs."""
    need("python:watchfiles")
    command = [sys.executable, "-m", "bindery", "check", "--watch"]
    process = subprocess.Popen(
        command,
        cwd=book,
        env=child_environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    patience = threading.Timer(SECONDS, process.kill)
    patience.start()
    yield process
    patience.cancel()
    process.kill()
    process.communicate()


def read_round(watcher: Watcher, last: str = "checked ") -> list[str]:
    """What is printed up to the end of the next check."""
    assert watcher.stdout is not None
    lines: list[str] = []
    while not lines or not lines[-1].startswith(last):
        line = watcher.stdout.readline()
        assert line, lines
        lines.append(line.rstrip("\n"))
    return [line for line in lines if line]


def stop(watcher: Watcher) -> int:
    watcher.send_signal(signal.SIGINT)
    return watcher.wait(SECONDS)


@pytest.fixture
def book(make_book: BookMaker) -> Path:
    return make_book({"a.md": "# A\n\n[old](gone.md)\n", "sub/b.md": "# B\n"})


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def test_only_what_a_change_brings_is_printed(watcher: Watcher, book: Path) -> None:
    """A new finding is shown whole, one that has gone in a line, and the rest only counted; the
    exit status is that of the last check."""
    first = read_round(watcher)
    assert first[0] == "a.md:3:7: error[dead-link]: there is no file 'gone.md'"
    write(book / "sub/b.md", "# B\n\n[new](nowhere.md)\n")
    second = read_round(watcher)
    assert second[0] == "sub/b.md:3:7: error[dead-link]: there is no file 'nowhere.md'"
    assert "3 | [new](nowhere.md)" in second
    assert second[-1] == "checked 2 links in 2 chapters: 2 errors, 0 warnings"
    write(book / "a.md", "# A\n\nNew text above.\n\n[old](gone.md)\n")
    assert read_round(watcher) == ["checked 2 links in 2 chapters: 2 errors, 0 warnings"]
    write(book / "sub/b.md", "# B\n")
    assert read_round(watcher) == [
        "gone: sub/b.md:3:7: error[dead-link]: there is no file 'nowhere.md'",
        "checked 1 link in 2 chapters: 1 error, 0 warnings",
    ]
    write(book / "gone.md", "# There\n")
    third = read_round(watcher)
    assert third[0] == "gone: a.md:5:7: error[dead-link]: there is no file 'gone.md'"
    assert third[1].startswith("gone.md:1:1: warning[unlisted-chapter]: ")
    (book / "data").mkdir()  # a folder that was not there at the start
    write(book / "data/d.yaml", "titel: D\n")
    assert any("bad-data" in line for line in read_round(watcher))
    assert stop(watcher) == 1


def test_a_half_written_list_of_chapters_is_survived(watcher: Watcher, book: Path) -> None:
    """While chapters.yaml is wrong its error is shown, and when it is whole again the checks go
    on where they were."""
    whole = (book / "chapters.yaml").read_text(encoding="utf-8")
    read_round(watcher)
    write(book / "chapters.yaml", "title: A book\nparts: [")
    lines = read_round(watcher, "not checked")
    assert lines[0].startswith("chapters.yaml:2:")
    assert "error[config]" in lines[0]
    write(book / "chapters.yaml", whole)
    assert read_round(watcher) == ["checked 1 link in 2 chapters: 1 error, 0 warnings"]
    (book / "chapters.yaml").unlink()
    read_round(watcher, "not checked")
    assert stop(watcher) == 2


def test_wrong_use_does_not_wait(run_bindery: Runner, book: Path) -> None:
    """What is wrong from the start ends the program, as without the option."""
    need("python:watchfiles")
    assert run_bindery("check", "--watch", "nowhere", folder=book).status == 2
    ended = run_bindery("check", "--watch", "--format", "json", folder=book)
    assert ended.status == 2
    assert "'--watch' has no format 'json'" in ended.stderr


def test_without_its_package_it_says_what_to_install(
    run_bindery: Runner, book: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Watching is an extra, and the message names it."""
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    ended = run_bindery("check", "--watch", folder=book)
    assert ended.status == 2
    assert "pip install 'bindery[watch]'" in ended.stderr
