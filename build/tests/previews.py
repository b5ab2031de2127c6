"""`bindery serve` as a process that tests talk to."""

import json
import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SECONDS = 60.0
"""Patience with a busy machine; a change is seen at once."""


@dataclass
class Preview:
    """A `bindery serve` that runs."""

    process: subprocess.Popen[str]
    address: str = ""

    def read_until(self, last: str) -> list[str]:
        """What is printed up to a line that begins with this; the time of day is left out."""
        assert self.process.stdout is not None
        lines: list[str] = []
        while not lines or not lines[-1].startswith(last):
            line = self.process.stdout.readline()
            assert line, lines
            lines.append(line.rstrip("\n"))
        return [line for line in lines if line and " read in " not in line]

    @contextmanager
    def listen(self, page: str) -> Iterator[Iterator[dict[str, Any]]]:
        """The states of the book that a page is told."""
        address = f"{self.address}-/events?page={page}"
        with urllib.request.urlopen(address, timeout=SECONDS) as said:
            yield (json.loads(line[6:]) for line in said if line.startswith(b"data: "))

    def read_page(self, page: str) -> str:
        """A page as a build writes it."""
        text = self.get(page).partition('<script src="/-/preview.js"')[0]
        return re.sub(' data-line="[0-9]+"', "", text)

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"{self.address}{path}", timeout=SECONDS) as answer:
            return str(answer.read().decode())


def write(path: Path, text: str) -> None:
    """Write a file whole, as editors do: a preview sees one change."""
    unfinished = path.with_name(".unfinished")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


@pytest.fixture
def start_preview(child_environment: dict[str, str]) -> Iterator[Callable[..., Preview]]:
    """Start `bindery serve` for a book. It is killed when the test ends, or takes too long."""
    started = []

    def start(book: Path, seconds: float = SECONDS) -> Preview:
        command = [sys.executable, "-m", "bindery", "serve", "--port", "0"]
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            command,
            cwd=book,
            env=child_environment,
            stdout=pipe,
            stderr=subprocess.STDOUT,
            text=True,
        )
        patience = threading.Timer(seconds, process.kill)
        patience.start()
        started.append((process, patience))
        preview = Preview(process)
        preview.address = preview.read_until("http://")[-1].split()[0]
        return preview

    yield start
    for process, patience in started:
        patience.cancel()
        process.kill()
        process.communicate()
