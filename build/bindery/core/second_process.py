"""Work for a second processor: a copy of this process does it."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any


def has_second_processor() -> bool:
    """Whether a copy would run beside this process. One with several threads cannot be copied."""
    if sys.platform != "linux":
        return False
    return len(os.sched_getaffinity(0)) > 1 and threading.active_count() == 1


def start_copy(work: Callable[[], Any]) -> Callable[[], Any]:
    """Start the work, which changes nothing outside its process. Returns what waits for the result,
    which is sent as JSON; that is None if the work failed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            result = json.dumps(work(), ensure_ascii=False).encode(errors="surrogatepass")
            os.close(reading)
            with os.fdopen(writing, "wb") as file:
                file.write(result)
        finally:
            os._exit(0)  # whatever happened: an unfinished result is not JSON
    os.close(writing)

    def wait() -> Any:
        with os.fdopen(reading, "rb") as file:
            result = file.read()
        os.waitpid(child, 0)
        try:
            return json.loads(result.decode(errors="surrogatepass"))
        except ValueError:
            return None

    return wait


@contextmanager
def talk_to_copy(work: Callable[[Connection], None]) -> Iterator[Connection]:
    """Start work that talks to this process over a connection, and end it with the context. If it
    fails, the connection is closed."""
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
