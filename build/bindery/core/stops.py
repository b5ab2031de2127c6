"""Signals that ask a change to stop, heeded where it can be taken back."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Stops:
    """Signals that ask us to stop: heeded between two steps, for half a step cannot be undone."""

    def __init__(self) -> None:
        self._came = False
        self._is_eager = False

    def receive(self, _number: int, _frame: FrameType | None) -> None:
        self._came = True
        if self._is_eager:
            raise KeyboardInterrupt

    def heed(self) -> None:
        """Raise KeyboardInterrupt where one has come."""
        if self._came:
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def heeded_at_once(self) -> Iterator[None]:
        """For what takes long and changes nothing."""
        self.heed()
        self._is_eager = True
        try:
            yield
        finally:
            self._is_eager = False


@contextlib.contextmanager
def note_signals() -> Iterator[Stops]:
    """Ctrl-C, SIGTERM and SIGHUP are noted instead of what they would do. Only the main thread
    can do so; what the caller's environment ignores stays ignored."""
    stops = Stops()
    former = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:
                former[number] = signal.signal(number, stops.receive) or signal.SIG_DFL
    try:
        yield stops
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
