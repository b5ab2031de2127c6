"""What the fixtures of the tests give: cases of a file, books, and runs of the program."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

BookMaker = Callable[..., Path]
"""Writes a book from texts by path; its folder."""


@dataclass
class Case:
    """One case of a fixture file; `line` is where its title stands."""

    path: Path
    line: int
    title: str
    given: str
    expected: str
    lines: slice
    """Where the expectation stands among the lines of the file, counted from 0."""
    update: bool
    actual: str | None = field(default=None, init=False)

    def expect(self, actual: str) -> None:
        """Hold what came out against what is expected, or note it where `--update` is given."""
        if self.update:
            self.actual = actual
            return
        place = f"{self.path.name}:{self.line}: {self.title}"
        assert actual == self.expected, place


@dataclass(frozen=True)
class Ended:
    """How a run of the program ended."""

    status: int
    stdout: str
    stderr: str


Runner = Callable[..., Ended]
