"""Work for a second processor: a copy of this process does it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import DecodeError, Raw

from bindery.core.facts import decode, encode

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

S = TypeVar("S")
T = TypeVar("T")

_FEW = 8
"""With fewer items, starting a second process takes longer than it saves."""
_SHARES = 1000
"""The queue has at most this many entries, which have to fit into a pipe: 64 KiB on Linux."""


def share_work(
    items: Sequence[S],
    here: Callable[[S], T],
    there: Callable[[S], Any],
    read: Callable[[S, Raw], T],
    meanwhile: Callable[[], object] = lambda: None,
) -> list[T]:
    """The result of each item, in two processes if they are many. A copy of this process begins
    while this one calls `meanwhile`; then each of the two takes the next item that is left. This
    process calls `here`; the copy calls `there`, whose value is sent encoded, and `read` makes the
    result of that."""
    if len(items) < _FEW or not has_second_processor():
        meanwhile()
        return [here(item) for item in items]
    outlet, inlet = os.pipe()
    shares = min(len(items), _SHARES)
    os.write(inlet, b"".join(number.to_bytes(2, "big") for number in range(shares)))
    os.close(inlet)
    with os.fdopen(outlet, "rb", buffering=0) as queue:

        def take() -> Iterator[int]:
            while number := queue.read(2):
                yield from range(int.from_bytes(number, "big"), len(items), shares)

        wait = _start_copy(lambda: [(index, there(items[index])) for index in take()])
        meanwhile()
        done = {index: here(items[index]) for index in take()}
    done |= {index: read(items[index], value) for index, value in wait()}
    return [done[index] if index in done else here(item) for index, item in enumerate(items)]


def has_second_processor() -> bool:
    """Whether a copy would run beside this process. One with several threads cannot be copied."""
    if sys.platform != "linux":
        return False
    return len(os.sched_getaffinity(0)) > 1 and threading.active_count() == 1


def _start_copy(work: Callable[[], list[tuple[int, Any]]]) -> Callable[[], list[tuple[int, Raw]]]:
    """Start the work, which changes nothing outside its process but the cache. Returns what waits
    for the values; there are none if the work failed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            result = encode(work())
            os.close(reading)
            with os.fdopen(writing, "wb") as file:
                file.write(result)
        finally:
            os._exit(0)  # whatever happened: an unfinished result cannot be decoded
    os.close(writing)

    def wait() -> list[tuple[int, Raw]]:
        with os.fdopen(reading, "rb") as file:
            result = file.read()
        os.waitpid(child, 0)
        try:
            values: list[tuple[int, Raw]] = decode(result, list[tuple[int, Raw]])
        except DecodeError:
            return []
        return values

    return wait


@contextmanager
def talk_to_copy(work: Callable[[Connection], None]) -> Iterator[Connection]:
    """Start work that talks to this process over a connection, and end it with the context. If it
    fails, the connection is closed."""
    import multiprocessing  # few commands need it

    ours, theirs = multiprocessing.Pipe()
    child = os.fork()
    if child == 0:
        try:
            ours.close()
            work(theirs)
        finally:
            os._exit(0)
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
