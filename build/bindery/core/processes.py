"""Start every process of the toolchain.

`run_command` is for short commands with output. `run_limited` is for programs that may run for
hours: it enforces limits and leaves no process behind.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, TYPE_CHECKING, Literal

from msgspec import Struct

if TYPE_CHECKING:
    from bindery.core.process_family import Family

GIT = ("git", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
"""git without the settings that let an untrusted repository start programs."""
STOP_SIGNALS = frozenset((signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
_TICK_SECONDS = 0.5
_LONGEST_LINE = 1 << 16

How = Literal["done", "failed", "crashed", "timeout", "memory", "output", "interrupted"]
Show = Callable[[str, str], None]
"""Called with "stdout" or "stderr" and a line including its newline."""
Watch = Callable[[float, int], None]
"""Called several times per second with elapsed seconds and bytes of memory in use."""
Clock = Callable[[], float]
Completed = subprocess.CompletedProcess[str]


class Limits(Struct, frozen=True):
    """Resource limits of a run."""

    seconds: float
    memory_bytes: int
    """For all processes together."""
    output_bytes: int
    grace_seconds: float = 10.0
    """Time to write results after SIGTERM."""


class Ended(Struct, frozen=True):
    """How a limited run ended. `code` is negative for a signal."""

    code: int
    ended: How
    seconds: float
    peak_bytes: int
    """Peak memory of all processes together."""


class CommandMissingError(Exception):
    """The program is not installed."""


class CommandTimeoutError(Exception):
    """The process exceeded its timeout and was killed."""


def run_command(
    command: Sequence[str],
    *,
    folder: Path,
    timeout: float,
    environment: Mapping[str, str] | None = None,
) -> Completed:
    """Run a program in its own process group and wait for it.

    Raises CommandMissingError if the program does not exist, and CommandTimeoutError after
    `timeout` seconds.
    """
    try:
        return subprocess.run(
            list(command),
            cwd=folder,
            env=dict(environment) if environment is not None else None,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            start_new_session=True,
            check=False,
        )
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CommandMissingError(str(error)) from None
    except subprocess.TimeoutExpired:
        raise CommandTimeoutError(f"{command[0]} ran longer than {timeout:g} s") from None


def run_limited(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    limits: Limits,
    log: Path,
    show: Show | None = None,
    watch: Watch | None = None,
    now: Clock = time.monotonic,
) -> Ended:
    """Run a program in its own session until it ends or reaches a limit.

    Output goes to `log` as it arrives, and line by line to `show`. At a limit, and on Ctrl-C,
    SIGTERM or SIGHUP, the processes get SIGTERM and a grace period to write results; then the rest
    are killed, including those that left the session, which a variable in their environment
    identifies. A second Ctrl-C ends the grace period.

    Raises CommandMissingError if the program does not exist.
    """
    # Imported here: short commands need no psutil.
    from bindery.core.process_family import MARK, Family

    started = now()
    mark = uuid.uuid4().hex
    # Not RLIMIT_AS: accelerators map far more memory than they use.
    with log.open("w", encoding="utf-8", newline="") as file, _listen() as received:
        process = _start(command, folder, {**environment, MARK: mark})
        family = Family(process.pid, mark)
        transcript = _Transcript(file, limits.output_bytes, show)
        run = _Run(process, family, transcript, limits, received, now)
        readers = transcript.follow(process)
        try:
            reason = run.wait(started, watch)
            if reason is not None:
                run.stop(reason)
        finally:
            family.kill()
            process.wait()
            for reader in readers:
                reader.join(5.0)
            transcript.close()
    code = process.returncode
    how = reason or ("done" if code == 0 else "failed" if code > 0 else "crashed")
    return Ended(code, how, now() - started, family.peak_bytes)


def _start(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(command),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CommandMissingError(str(error)) from None


class _Run(Struct, frozen=True):
    """A program running within limits."""

    process: subprocess.Popen[bytes]
    family: Family
    transcript: _Transcript
    limits: Limits
    received: list[int]
    """Signals received by this process."""
    now: Clock

    def wait(self, started: float, watch: Watch | None) -> How | None:
        """Wait for the end; returns the limit that was reached, or None."""
        next_look = started
        while self.process.poll() is None:
            moment = self.now()
            used = 0
            if moment >= next_look:
                used = self.family.measure(self.limits.memory_bytes)
                if watch:
                    watch(moment - started, used)
                # Measuring the memory of many processes must not slow them down.
                next_look = moment + max(_TICK_SECONDS, 20 * (self.now() - moment))
            if self.received:
                return "interrupted"
            if moment - started > self.limits.seconds:
                return "timeout"
            if self.transcript.is_full:
                return "output"
            if used > self.limits.memory_bytes:
                return "memory"
            _wait(self.process, 0.05)
        return None

    def stop(self, reason: How) -> None:
        """Ask all processes to end and wait for the grace period."""
        self.family.look()
        self.family.tell(signal.SIGTERM)
        until = self.now() + self.limits.grace_seconds
        calls = len(self.received)
        limit = self.limits.memory_bytes
        while self.now() < until and len(self.received) == calls:
            if _wait(self.process, 0.05) and not self.family.look():
                return
            # A run over its memory limit must not use up the machine's memory.
            if reason == "memory" and self.family.measure(limit) > limit * 1.25:
                return


def _wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the process ends within this time."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.returncode is not None


@contextlib.contextmanager
def hold_signals() -> Iterator[None]:
    """Delay signals that ask this process to stop until the block ends."""
    former = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


@contextlib.contextmanager
def _listen() -> Iterator[list[int]]:
    """Collect signals that ask this process to stop. Works only in the main thread."""
    received: list[int] = []
    former = {}

    def receive(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    if threading.current_thread() is threading.main_thread():
        for number in STOP_SIGNALS:
            former[number] = signal.signal(number, receive)
    try:
        yield received
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


class _Transcript:
    """A program's output: saved to a file up to a limit, and shown line by line."""

    def __init__(self, file: IO[str], limit: int, show: Show | None) -> None:
        self._file = file
        self._left = limit
        self._show = show
        self._lock = threading.Lock()
        self._is_closed = False
        self.is_full = False

    def follow(self, process: subprocess.Popen[bytes]) -> list[threading.Thread]:
        """Start the threads that read the output."""
        assert process.stdout is not None
        assert process.stderr is not None
        streams = ((process.stdout, "stdout"), (process.stderr, "stderr"))
        readers = [
            threading.Thread(target=self._read, args=stream, daemon=True) for stream in streams
        ]
        for reader in readers:
            reader.start()
        return readers

    def _read(self, stream: IO[bytes], name: str) -> None:
        """Read a stream to its end, even if the file is full: a full pipe would block the program
        while it writes results."""
        with io.TextIOWrapper(stream, "utf-8", errors="replace", newline="\n") as text:
            while line := text.readline(_LONGEST_LINE):
                self._add(name, line)

    def _add(self, name: str, line: str) -> None:
        with self._lock:
            if self._is_closed:
                return
            size = len(line.encode())
            if size > self._left:
                self.is_full = True
            if self.is_full:
                return
            self._left -= size
            try:
                self._file.write(line)
                self._file.flush()
            except OSError:
                self.is_full = True  # the disk filled up before the limit was reached
            if self._show:
                try:
                    self._show(name, line)
                except OSError:
                    self._show = None  # the terminal is gone

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
