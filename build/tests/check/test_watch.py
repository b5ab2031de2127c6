"""`check --watch`: a real process, real edits, and only what they change is printed."""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from needs import need

if TYPE_CHECKING:
    from conftest import BookMaker, Runner

SECONDS = 60.0
"""Patience with a busy machine; a change is seen at once."""


class Watcher:
    """A `bindery check --watch` that runs, and what it prints, line by line."""

    def __init__(self, book: Path, environment: dict[str, str], arguments: tuple[str, ...]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "bindery", "check", "--watch", *arguments],
            cwd=book,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line.rstrip("\n"))

    def read_round(self, last: str = "checked ") -> list[str]:
        """What is printed up to the end of the next check."""
        lines = []
        limit = time.monotonic() + SECONDS
        while not lines or not lines[-1].startswith(last):
            lines.append(self.lines.get(timeout=max(limit - time.monotonic(), 0.1)))
        return [line for line in lines if line]

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(SECONDS)
        self.reader.join(SECONDS)
        return status

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.reader.join(SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()


Start = Callable[..., Watcher]


@pytest.fixture
def watch(child_environment: dict[str, str]) -> Iterator[Start]:
    need("python:watchfiles")
    started = []

    def start(book: Path, *arguments: str) -> Watcher:
        started.append(Watcher(book, child_environment, arguments))
        return started[-1]

    yield start
    for watcher in started:
        watcher.end()


@pytest.fixture
def book(make_book: BookMaker) -> Path:
    return make_book({"a.md": "# A\n\n[old](gone.md)\n", "sub/b.md": "# B\n"})


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def test_only_what_a_change_brings_is_printed(watch: Start, book: Path) -> None:
    """A new finding is shown whole, one that has gone in a line, and the rest only counted; the
    exit status is that of the last check."""
    watcher = watch(book)
    first = watcher.read_round()
    assert first[0] == "a.md:3:7: error[dead-link]: there is no file 'gone.md'"
    write(book / "sub/b.md", "# B\n\n[new](nowhere.md)\n")
    second = watcher.read_round()
    assert second[0] == "sub/b.md:3:7: error[dead-link]: there is no file 'nowhere.md'"
    assert "3 | [new](nowhere.md)" in second
    assert second[-1] == "checked 2 links in 2 chapters: 2 errors, 0 warnings"
    write(book / "a.md", "# A\n\nNew text above.\n\n[old](gone.md)\n")
    assert watcher.read_round() == ["checked 2 links in 2 chapters: 2 errors, 0 warnings"]
    write(book / "sub/b.md", "# B\n")
    assert watcher.read_round() == [
        "gone: sub/b.md:3:7: error[dead-link]: there is no file 'nowhere.md'",
        "checked 1 link in 2 chapters: 1 error, 0 warnings",
    ]
    write(book / "gone.md", "# There\n")
    third = watcher.read_round()
    assert third[0] == "gone: a.md:5:7: error[dead-link]: there is no file 'gone.md'"
    assert third[1].startswith("gone.md:1:1: warning[unlisted-chapter]: ")
    (book / "data").mkdir()  # a folder that was not there at the start
    write(book / "data/d.yaml", "titel: D\n")
    assert any("bad-data" in line for line in watcher.read_round())
    assert watcher.stop() == 1


def test_a_half_written_list_of_chapters_is_survived(watch: Start, book: Path) -> None:
    """While chapters.yaml is wrong its error is shown, and when it is whole again the checks go
    on where they were."""
    whole = (book / "chapters.yaml").read_text(encoding="utf-8")
    watcher = watch(book)
    watcher.read_round()
    write(book / "chapters.yaml", "title: A book\nparts: [")
    lines = watcher.read_round("not checked")
    assert lines[0].startswith("chapters.yaml:2:")
    assert "error[config]" in lines[0]
    write(book / "chapters.yaml", whole)
    assert watcher.read_round() == ["checked 1 link in 2 chapters: 1 error, 0 warnings"]
    (book / "chapters.yaml").unlink()
    watcher.read_round("not checked")
    assert watcher.stop() == 2


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
