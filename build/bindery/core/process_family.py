"""Find, measure and kill a process with all that it has started."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import Literal

import psutil

MARK = "BINDERY_RUN"
"""The variable in the environment of all processes of a run."""
_KILL_SECONDS = 10.0


class Family:
    """A process and all its descendants, including orphans and those in other sessions."""

    def __init__(self, leader: int, mark: str) -> None:
        self._leader = leader
        self._mark = mark
        self._seen: dict[int, psutil.Process] = {}
        self.peak_bytes = 0

    def look(self) -> list[psutil.Process]:
        """The living processes."""
        try:
            leader = self._seen.get(self._leader) or psutil.Process(self._leader)
            found = (leader, *leader.children(recursive=True))
        except psutil.Error:
            found = ()  # ended; its children are known from the previous look
        family = {*self._seen.values(), *found}
        self._seen = {process.pid: process for process in family if _is_alive(process)}
        return list(self._seen.values())

    def measure(self, limit: int) -> int:
        """Bytes of memory in use. Shared pages count once per process, unless that exceeds the
        limit: then they are divided exactly (PSS), which is slow and stalls the processes."""
        alive = self.look()
        used = sum(_read_memory(process, "rss") for process in alive)
        if used > limit:
            used = sum(_read_memory(process, "pss") for process in alive)
        self.peak_bytes = max(self.peak_bytes, used)
        return used

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to the leader's group while the leader exists; afterwards the group's
        number may be reused."""
        if self._leader in self._seen:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._leader, number)

    def kill(self) -> None:
        """Kill all remaining processes, including orphans with the mark in their environment."""
        until = time.monotonic() + _KILL_SECONDS
        while time.monotonic() < until:
            alive = {*self.look(), *self._find_marked()}
            if not alive:
                return
            self.tell(signal.SIGKILL)
            for process in alive:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            time.sleep(0.02)  # psutil.wait_procs would collect the leader's exit status

    def _find_marked(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(MARK) == self._mark and _is_alive(process):
                    found.append(process)
        return found


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _read_memory(process: psutil.Process, kind: Literal["rss", "pss"]) -> int:
    try:
        if kind == "rss":
            return int(process.memory_info().rss)
        full = process.memory_full_info()
    except (psutil.Error, OSError):
        return 0
    return int(getattr(full, "pss", full.rss))  # only Linux has PSS
