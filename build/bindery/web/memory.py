"""What is known of the addresses of a book: `links.jsonl`, one answer a line.

A run appends each answer as it comes, so that one that is killed forgets nothing, and sorts the
file when it is done. One line of the file belongs to one address, the last one counts.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Any, get_args

from bindery.core.config import DEFAULT_LINK_DAYS, Config
from bindery.core.model import ConfigError, Finding, Span
from bindery.core.repository import Tree
from bindery.core.whole_files import write_whole
from bindery.web.answers import VERDICTS, AnchorState, Answer

DEFAULT_SHELF_LIFE = timedelta(days=DEFAULT_LINK_DAYS)
_SHORT_SHELF_LIFE = timedelta(days=1)
"""Of bad news, which may be over tomorrow."""
_FAULTS = (ValueError, TypeError, KeyError, OverflowError, RecursionError)
_ANCHOR_STATES = get_args(AnchorState)


def read_memory(tree: Tree, config: Config) -> Mapping[str, Answer]:
    """What is known of the addresses of a book, by address as it is written there; nothing where
    the web was never asked. `checked` is the time at which an answer was true, in UTC.

    Raises ConfigError where a line is no answer.
    """
    path = config.link_memory
    if tree.find_kind(path) != "file":
        return {}
    return parse_memory(path, tree.read_bytes(path))


def parse_memory(path: str, data: bytes) -> dict[str, Answer]:
    """The answers of a memory. A last line that breaks off is what a killed run leaves, and is
    passed over.

    Raises ConfigError where other lines are no answers.
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
            message = "this line of the memory of links is no answer"
            hint = "take the line out: what it knew will be asked again"
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
    data: Any = json.loads(line)
    if not isinstance(data, dict):
        raise TypeError(line)
    texts = {key: data.get(key, "") for key in ("target", "nearest", "reason", "archived")}
    status, anchor = data.get("status", 0), data.get("anchor", "")
    if data["verdict"] not in VERDICTS or anchor not in _ANCHOR_STATES:
        raise ValueError(line)
    if not isinstance(status, int) or not all(isinstance(t, str) for t in texts.values()):
        raise TypeError(line)
    if not isinstance(data["url"], str):
        raise TypeError(line)
    "".join((data["url"], *texts.values())).encode()  # half a character cannot be printed
    checked = datetime.fromisoformat(data["checked"])
    if checked.tzinfo is None:  # its day would be another one on another machine
        raise ValueError(line)
    checked = checked.astimezone(UTC)
    return Answer(data["url"], data["verdict"], checked, status, anchor=anchor, **texts)


def format_answer(answer: Answer) -> str:
    """An answer as one line, without its end; what is empty is left out."""
    fields = {
        "url": answer.url,
        "verdict": answer.verdict,
        "checked": f"{answer.checked.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "status": answer.status,
        "target": answer.target,
        "anchor": answer.anchor,
        "nearest": answer.nearest,
        "reason": answer.reason,
        "archived": answer.archived,
    }
    kept = {key: value for key, value in fields.items() if value}
    return json.dumps(kept, ensure_ascii=False)


def format_memory(answers: Iterable[Answer]) -> str:
    """A whole memory, sorted by address."""
    ordered = sorted(answers, key=lambda answer: answer.url)
    return "".join(f"{format_answer(answer)}\n" for answer in ordered)


def is_fresh(answer: Answer, now: datetime, shelf_life: timedelta = DEFAULT_SHELF_LIFE) -> bool:
    """Whether an answer still counts: good news for its shelf life, bad news for a day, and what
    was no answer not at all."""
    if answer.verdict in ("throttled", "unreachable"):
        return False
    is_bad = answer.verdict == "dead" or answer.anchor == "missing"
    life = min(shelf_life, _SHORT_SHELF_LIFE) if is_bad else shelf_life
    return timedelta(0) <= now - answer.checked < life


class Memory:
    """The memory of a run that writes it. Only one run at a time has it."""

    def __init__(self, path: Path, shown: str) -> None:
        self._path = path
        self._file, self.known = _open_locked(path, shown)

    def add(self, answer: Answer) -> None:
        """Keep an answer, whatever happens next."""
        self.known[answer.url] = answer
        self._file.write(f"{format_answer(answer)}\n".encode())
        self._file.flush()
        os.fsync(self._file.fileno())

    def compact(self, urls: Iterable[str]) -> None:
        """Write the file anew, sorted, with what is known of these addresses and no others."""
        kept = [self.known[url] for url in set(urls) if url in self.known]
        if kept:
            write_whole(self._path, format_memory(kept).encode())
        else:
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of the file; one that has stayed empty is taken away."""
        with contextlib.suppress(FileNotFoundError):
            if not self._path.stat().st_size:
                self._path.unlink()
        self._file.close()


@contextlib.contextmanager
def open_memory(path: Path, shown: str) -> Iterator[Memory]:
    """The memory in a file, which is made where there is none. `shown` is how messages call it.

    Raises ConfigError where another run has it, or where a line of it is no answer.
    """
    memory = Memory(path, shown)
    try:
        yield memory
    finally:
        memory.close()


def _open_locked(path: Path, shown: str) -> tuple[IO[bytes], dict[str, Answer]]:
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        file = path.open("a+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The run before may have put another file into its place meanwhile.
            if not path.exists() or not os.path.samestat(os.fstat(file.fileno()), path.stat()):
                file.close()
                continue
            file.seek(0)
            data = file.read()
            known = parse_memory(shown, data)
        except BlockingIOError:
            file.close()
            message = f"another run is asking the web, and writes '{shown}'"
            hint = "wait for it to end, or end it: nothing that it has found is lost"
            raise ConfigError(Finding(Span.whole(shown), "config", message, hint)) from None
        except BaseException:
            file.close()
            raise
        if not data.endswith(b"\n") and data:  # the last line breaks off
            file.truncate(data.rfind(b"\n") + 1)
            torn = parse_memory(shown, data[data.rfind(b"\n") + 1 :])
            file.write(format_memory(torn.values()).encode())
            file.flush()
        return file, known
