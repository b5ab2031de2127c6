"""An orderly end: Ctrl-C, SIGTERM, SIGUSR1 and a time budget keep the results so far."""

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

from kit.report import Report


class Stopped(Exception):
    """The run ends here; its results so far are kept and marked incomplete."""


class Stop:
    """Why the run has to end, if it has to.

    After `listen()`, the first Ctrl-C, SIGTERM or SIGUSR1 (Slurm's early warning) sets `reason`;
    the same signal a second time ends the process at once. `budget` is in seconds from now.
    """

    def __init__(self, budget: float | None = None) -> None:
        self.reason: str | None = None
        self.by_signal = False
        self.quiet = False
        self.deadline = None if budget is None else time.monotonic() + budget

    def listen(self, *, quiet: bool = False) -> None:
        """Start to listen for signals; `quiet` prints nothing when one comes."""
        self.quiet = quiet
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, self._receive)

    def _receive(self, number: int, _frame: Any) -> None:
        self.reason = f"stopped by {signal.Signals(number).name}"
        self.by_signal = True
        signal.signal(number, signal.SIG_DFL)
        if not self.quiet:  # by os.write, because the signal may have interrupted a print
            os.write(2, b"stopping after this step; send the signal again to stop at once\n")

    def is_due(self) -> bool:
        """True once a signal has come or the budget is spent."""
        if self.reason is None and self.deadline is not None and time.monotonic() > self.deadline:
            self.reason = "the time budget is spent"
        return self.reason is not None

    def check(self) -> None:
        """Raise Stopped where the run has to end."""
        if self.is_due():
            raise Stopped(self.reason)


@contextlib.contextmanager
def until_stopped(report: Report, budget: float | None = None) -> Iterator[Stop]:
    """Measure until a signal comes or the budget is spent.

    Sets `report.complete` at the end of the block. Where Stopped ends it, the report keeps its
    rows, and has the reason as a note.
    """
    stop = Stop(budget)
    stop.listen()
    try:
        yield stop
        report.complete = True
    except Stopped as stopped:
        report.note(f"{stopped}: the results so far")
