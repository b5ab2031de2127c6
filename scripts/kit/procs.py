"""Processes of this machine, by /proc: name one for good, find all below it, end them."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kit.cli import UsageError


class Process(NamedTuple):
    """A process, by its number and its start (clock ticks since boot): numbers are used again."""

    pid: int
    started: int


class Stat(NamedTuple):
    """What the kernel says of a process; `state` is a letter: R, S, D (in the kernel), T, Z."""

    parent: int
    started: int
    state: str


def read_stat(pid: int) -> Stat | None:
    """Parent, start and state of a process; None where there is none."""
    try:
        # Not pathlib: it takes twice as long, and there may be thousands of processes.
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123
            fields = file.read().rpartition(b")")[2].split()  # the name may hold anything
        return Stat(int(fields[1]), int(fields[19]), fields[0].decode())
    except (OSError, IndexError, ValueError):
        return None


def identify(pid: int) -> Process | None:
    """The process with this number; None where there is none, or it has ended."""
    stat = read_stat(pid)
    return Process(pid, stat.started) if stat and stat.state not in "ZX" else None


def is_running(process: Process) -> bool:
    """True until this process has ended, whatever gets its number later."""
    return identify(process.pid) == process


def read_words(pid: int, name: str) -> list[str]:
    """The parts of `cmdline` or `environ` of a process; empty where they may not be read."""
    try:
        text = Path(f"/proc/{pid}/{name}").read_bytes().decode("utf-8", "replace")
    except OSError:
        return []
    return text.rstrip("\0").split("\0") if text else []


def list_processes() -> dict[int, Stat]:
    """Every process of this machine that has not ended."""
    pids = [int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    stats = ((pid, read_stat(pid)) for pid in pids)
    return {pid: stat for pid, stat in stats if stat and stat.state not in "ZX"}


def find_tree(roots: Iterable[Process]) -> list[Process]:
    """The roots that still run and everything below them, parents before children."""
    stats = list_processes()
    children: dict[int, list[int]] = {}
    for pid, stat in sorted(stats.items()):
        children.setdefault(stat.parent, []).append(pid)
    found = {r: None for r in roots if r.pid in stats and stats[r.pid].started == r.started}
    waiting = list(found)
    for process in waiting:  # grows on the way
        for pid in children.get(process.pid, ()):
            child = Process(pid, stats[pid].started)
            if child not in found:
                found[child] = None
                waiting.append(child)
    return list(found)


def end_processes(processes: Collection[Process], grace: float = 10.0) -> list[Process]:
    """SIGTERM, then SIGKILL after `grace` seconds; returns survivors. Raises PermissionError."""
    left = list(processes)
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
        for process in filter(is_running, left):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)
        deadline = time.monotonic() + seconds
        while (left := list(filter(is_running, left))) and time.monotonic() < deadline:
            time.sleep(0.05)
    return left


class PatientThread:
    """Does work with files in a thread, so that a file system that hangs does not hang the rest."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.thread: threading.Thread | None = None

    def ask(self, work: Callable[[], Any]) -> Any:
        """What `work` returns. Raises its OSError, and TimeoutError where it takes too long or
        earlier work still hangs."""
        answers: list[Any] = []

        def run() -> None:
            try:
                answers.append(work())
            except Exception as error:  # raised below, in the thread that asks
                answers.append(error)

        if not (self.thread and self.thread.is_alive()):
            self.thread = threading.Thread(target=run, daemon=True)
            self.thread.start()
            self.thread.join(self.seconds)
        if not answers:
            raise TimeoutError("the file system does not answer")
        if isinstance(answers[0], Exception):
            raise answers[0]
        return answers[0]


def start_wrapped(
    command: Sequence[str], **options: Any
) -> tuple[subprocess.Popen[bytes], list[str]]:
    """Start a command in a new session and pass signals on to it, except ignored ones. Returns the
    process and a list of the names of signals that asked it to end. Raises UsageError."""
    process: subprocess.Popen[bytes] | None = None
    ends: list[str] = []
    early: list[int] = []  # signals that came before there was a process

    def pass_on(number: int, _frame: Any) -> None:
        if process is None:
            early.append(number)
            return
        is_end = number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        ends.extend([signal.Signals(number).name] if is_end else [])
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if is_end else os.kill)(process.pid, number)

    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"):
        number = getattr(signal, name)
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, pass_on)
    try:
        process = subprocess.Popen(command, start_new_session=True, **options)
    except OSError as error:
        raise UsageError(f"{command[0]}: {error.strerror}") from error
    for number in early:
        pass_on(number, None)
    return process, ends
