"""The answers about a book's addresses: `links.jsonl`, one answer per line.

A run appends each answer as it arrives, so that a killed run loses nothing, and finally sorts the
file. If an address has several lines, the last one counts.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import get_args

from msgspec.structs import asdict

from bindery.core.config import DEFAULT_LINK_DAYS, Config
from bindery.core.model import ConfigError, Finding, Span
from bindery.core.repository import Tree
from bindery.core.whole_files import write_whole
from bindery.web.answers import VERDICTS, AnchorState, Answer

DEFAULT_SHELF_LIFE = timedelta(days=DEFAULT_LINK_DAYS)
_SHORT_SHELF_LIFE = timedelta(days=1)
"""Shelf life of failures, which may be over tomorrow."""
_FAULTS = (ValueError, TypeError, KeyError, AttributeError)
_ANCHOR_STATES = get_args(AnchorState)


def read_memory(tree: Tree, config: Config) -> Mapping[str, Answer]:
    """The stored answers by address; empty if no links were ever checked.

    Raises ConfigError for an invalid line.
    """
    path = config.link_memory
    if tree.find_kind(path) != "file":
        return {}
    return parse_memory(path, tree.read_bytes(path))


def parse_memory(path: str, data: bytes) -> dict[str, Answer]:
    """Parse `links.jsonl`. A last line without its newline, left by a killed run, may be invalid.

    Raises ConfigError for any other invalid line.
    """
    *lines, torn = data.split(b"\n")
    answers = {}
    faults = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            answer = _parse_answer(line)
        except _FAULTS:
            message = "this line of remembered links is invalid"
            hint = "remove the line, and the address will be checked again"
            faults.append(Finding(Span(path, number), "config", message, hint))
            continue
        answers[answer.url] = answer
    if faults:
        raise ConfigError(*faults)
    with contextlib.suppress(*_FAULTS):
        answer = _parse_answer(torn)
        answers[answer.url] = answer
    return answers


def _parse_answer(line: bytes) -> Answer:
    data = json.loads(line)
    checked = datetime.strptime(data.pop("checked"), "%Y-%m-%dT%H:%M:%S%z")
    answer = Answer(**data, checked=checked)
    if answer.verdict not in VERDICTS or answer.anchor not in _ANCHOR_STATES:
        raise ValueError(line)
    return answer


def format_answer(answer: Answer) -> str:
    """An answer as a line, without newline and empty fields."""
    fields = asdict(answer) | {"checked": f"{answer.checked:%Y-%m-%dT%H:%M:%SZ}"}
    return json.dumps({key: value for key, value in fields.items() if value}, ensure_ascii=False)


def format_memory(answers: Iterable[Answer]) -> str:
    """All answers, sorted by address."""
    ordered = sorted(answers, key=lambda answer: answer.url)
    return "".join(f"{format_answer(answer)}\n" for answer in ordered)


def is_fresh(answer: Answer, now: datetime, shelf_life: timedelta = DEFAULT_SHELF_LIFE) -> bool:
    """Whether an answer is still valid: success for its shelf life, failure for a day, no response
    never."""
    if answer.verdict in ("throttled", "unreachable"):
        return False
    is_bad = answer.verdict == "dead" or answer.anchor == "missing"
    life = min(shelf_life, _SHORT_SHELF_LIFE) if is_bad else shelf_life
    return timedelta(0) <= now - answer.checked < life


class Memory:
    """The stored answers, to be extended by a run."""

    def __init__(self, path: Path, known: dict[str, Answer]) -> None:
        self._path = path
        self.known = known

    def add(self, answer: Answer) -> None:
        """Append an answer immediately."""
        self.known[answer.url] = answer
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{format_answer(answer)}\n")

    def compact(self, urls: Iterable[str]) -> None:
        """Sort the file and keep only answers about these addresses."""
        kept = [self.known[url] for url in set(urls) if url in self.known]
        if kept:
            write_whole(self._path, format_memory(kept).encode())
        else:
            self._path.unlink(missing_ok=True)


def open_memory(root: Path, config: Config) -> Memory:
    """Open a book's answers for writing.

    Raises ConfigError for an invalid line.
    """
    path = root / config.link_memory
    data = path.read_bytes() if path.exists() else b""
    known = parse_memory(config.link_memory, data)
    if data and not data.endswith(b"\n"):  # nothing can be appended to an incomplete line
        write_whole(path, format_memory(known.values()).encode())
    return Memory(path, known)
