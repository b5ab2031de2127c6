"""The only place that starts a process.

`run_command` is for short commands whose output is wanted; `run_limited` is for a program that
may run for hours, within limits, and of which nothing is left when it has ended.
"""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Literal

import psutil

GIT = ("git", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
"""git as it is asked about a book: the settings of a repository from elsewhere start nothing."""
GRACE_SECONDS = 10.0
_MARK = "BINDERY_RUN"
_TICK_SECONDS = 0.5
_KILL_SECONDS = 10.0
_CHUNK = 1 << 16

How = Literal["done", "failed", "crashed", "timeout", "memory", "output", "interrupted"]
Show = Callable[[str, str], None]
"""Gets "stdout" or "stderr", and a line with its end."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A process that has ended. `code` is negative where a signal ended it."""

    command: tuple[str, ...]
    stdout: str
    stderr: str
    seconds: float
    code: int


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run within limits came to its end. `code` is negative where a signal ended it."""

    command: tuple[str, ...]
    code: int
    ended: How
    seconds: float
    peak_bytes: int
    """Most memory that was seen in use by all processes together."""


class CommandMissingError(Exception):
    """The program is not on this machine."""


class CommandTimeoutError(Exception):
    """The process was ended because its time was up."""


def run_command(
    command: Sequence[str],
    *,
    folder: Path,
    timeout: float,
    environment: Mapping[str, str] | None = None,
) -> Completed:
    """Run a program to its end, in a process group of its own.

    Raises CommandMissingError where there is no such program, and CommandTimeoutError after
    `timeout` seconds.
    """
    started = time.monotonic()
    try:
        process = subprocess.run(
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
    return Completed(
        tuple(command),
        process.stdout,
        process.stderr,
        time.monotonic() - started,
        process.returncode,
    )


def run_limited(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    seconds: float,
    memory_bytes: int,
    output_bytes: int,
    log: Path,
    show: Show | None = None,
    watch: Callable[[float, int], None] | None = None,
    grace: float = GRACE_SECONDS,
    now: Callable[[], float] = time.monotonic,
) -> Ended:
    """Run a program in a session of its own until it ends, or until a limit is reached: `seconds`
    of time, `memory_bytes` of all its processes together, `output_bytes` of what it prints.

    What it prints goes to `log` as it comes, and line by line to `show`; `watch` is told the
    seconds and the bytes of memory in use, some times a second. At a limit, on Ctrl-C, SIGTERM and
    SIGHUP its processes get SIGTERM, and `grace` seconds to write what they have; then whatever is
    left of them is killed, also what has left their session. A second Ctrl-C ends the grace. The
    clock `now` counts all these seconds.

    On Linux, and in the main thread, orphans of the run become children of this process while it
    lasts, so that none is missed; elsewhere an orphan is known by its environment alone. Who starts
    processes in other threads meanwhile, in sessions of their own, has them taken for orphans.

    Raises CommandMissingError where there is no such program.
    """
    started = now()
    mark = uuid.uuid4().hex
    # Not an address space limit: accelerators map far more memory than they use.
    with (
        log.open("w", encoding="utf-8", newline="") as file,
        _listen() as received,
        _adopt() as others,
    ):
        try:
            process = subprocess.Popen(
                list(command),
                cwd=folder,
                env={**environment, _MARK: mark},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except (FileNotFoundError, NotADirectoryError) as error:
            raise CommandMissingError(str(error)) from None
        assert process.stdout is not None
        assert process.stderr is not None
        transcript = _Transcript(file, output_bytes, show)
        readers = [
            threading.Thread(target=transcript.follow, args=(stream, name), daemon=True)
            for stream, name in ((process.stdout, "stdout"), (process.stderr, "stderr"))
        ]
        family = _Family(process.pid, mark, others)
        try:
            for reader in readers:
                reader.start()
            reason: How | None = None
            next_look = started
            while process.poll() is None and reason is None:
                moment = now()
                if moment >= next_look:
                    used = family.measure(memory_bytes)
                    if watch:
                        watch(moment - started, used)
                    # Reading the memory of many processes must not take the time of theirs.
                    next_look = moment + max(_TICK_SECONDS, 20 * (now() - moment))
                    if used > memory_bytes:
                        reason = "memory"
                if received:
                    reason = "interrupted"
                elif moment - started > seconds:
                    reason = "timeout"
                elif transcript.is_full:
                    reason = "output"
                elif reason is None:
                    _wait(process, 0.05)
            if reason is not None:
                family.look()
                family.tell(signal.SIGTERM)
                until = now() + grace
                calls = len(received)
                while now() < until and len(received) == calls:
                    if _wait(process, 0.05) and not family.look():
                        break
                    # What runs out of memory has no right to the rest of it.
                    if reason == "memory" and family.measure(memory_bytes) > memory_bytes * 1.25:
                        break
        finally:
            family.kill()
            process.wait()
            for reader in readers:
                reader.join(5.0)
            transcript.close()
    code = process.returncode
    how = reason or ("done" if code == 0 else "failed" if code > 0 else "crashed")
    return Ended(tuple(command), code, how, now() - started, family.peak_bytes)


def _wait(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether the process has ended, after at most so many seconds."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    return process.returncode is not None


@contextlib.contextmanager
def _listen() -> Iterator[list[int]]:
    """The signals that ask us to stop, as they come, instead of what they would do. Only the main
    thread can listen."""
    received: list[int] = []
    former = {}

    def receive(number: int, _frame: FrameType | None) -> None:
        received.append(number)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            former[number] = signal.signal(number, receive)
    try:
        yield received
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


_SET_CHILD_SUBREAPER, _GET_CHILD_SUBREAPER = 36, 37  # of linux/prctl.h


@contextlib.contextmanager
def _adopt() -> Iterator[frozenset[psutil.Process] | None]:
    """Orphans among the descendants of this process become its children, and not those of the
    first process of the machine. Gives the children that it has before; None where that cannot
    be."""
    former = ctypes.c_int()
    prctl = None
    if sys.platform == "linux" and threading.current_thread() is threading.main_thread():
        prctl = ctypes.CDLL(None).prctl
        if prctl(_GET_CHILD_SUBREAPER, ctypes.byref(former), 0, 0, 0) or prctl(
            _SET_CHILD_SUBREAPER, ctypes.c_ulong(1), 0, 0, 0
        ):
            prctl = None
    if prctl is None:
        yield None
        return
    try:
        yield frozenset(psutil.Process().children())
    finally:
        prctl(_SET_CHILD_SUBREAPER, ctypes.c_ulong(former.value), 0, 0, 0)


class _Transcript:
    """What a program prints: kept in a file up to a limit, and shown line by line."""

    def __init__(self, file: IO[str], limit: int, show: Show | None) -> None:
        self._file = file
        self._left = limit
        self._show = show
        self._lock = threading.Lock()
        self._is_closed = False
        self.is_full = False

    def follow(self, stream: IO[bytes], name: str) -> None:
        """Read a stream to its end. It is read on when the file is full, so that the program is
        not held up by a full pipe while it writes its results."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        rest = ""
        while True:
            chunk = os.read(stream.fileno(), _CHUNK)
            *lines, rest = (rest + decoder.decode(chunk, final=not chunk)).split("\n")
            for line in lines:
                self._add(name, f"{line}\n")
            if rest and (not chunk or len(rest) > _CHUNK):
                self._add(name, rest)
                rest = ""
            if not chunk:
                break
        stream.close()

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
                self.is_full = True  # the disk is, before the limit is reached
            if self._show:
                try:
                    self._show(name, line)
                except OSError:
                    self._show = None  # nobody looks on any more

    def close(self) -> None:
        with self._lock:
            self._is_closed = True


class _Family:
    """A process and all that it has started, be they in sessions of their own or orphans."""

    def __init__(
        self, leader: int, mark: str, others: frozenset[psutil.Process] | None = None
    ) -> None:
        self._leader = leader
        self._mark = mark
        self._others = others
        """Children of this process that are not of the run; None where it adopts no orphans."""
        self._seen: dict[int, psutil.Process] = {}
        self.peak_bytes = 0

    def look(self) -> list[psutil.Process]:
        """Those that are alive."""
        try:
            leader = self._seen.get(self._leader) or psutil.Process(self._leader)
            found = (leader, *leader.children(recursive=True))
        except psutil.Error:
            found = ()  # it has ended; its children are known from the last look
        family = {*self._seen.values(), *found, *self._find_adopted()}
        self._seen = {process.pid: process for process in family if _is_alive(process)}
        return list(self._seen.values())

    def _find_adopted(self) -> Iterator[psutil.Process]:
        """Orphans of the run, and what they have started. Those that have ended are let go."""
        if self._others is None:
            return
        for child in psutil.Process().children():
            if child.pid == self._leader or child in self._others:
                continue
            with contextlib.suppress(psutil.Error, OSError):
                # The run began in another session than ours, and nothing of it can come back.
                if os.getsid(child.pid) == os.getsid(0):
                    continue
                yield from (child, *child.children(recursive=True))
                if child.status() == psutil.STATUS_ZOMBIE:
                    os.waitpid(child.pid, os.WNOHANG)

    def measure(self, limit: int) -> int:
        """Bytes of memory in use. Pages that several processes share count once for each of them,
        unless that goes beyond the limit: then the shares are counted exactly (PSS), which takes
        the kernel long and holds the processes up."""
        alive = self.look()
        used = sum(_read_memory(process, "rss") for process in alive)
        if used > limit:
            used = sum(_read_memory(process, "pss") for process in alive)
        self.peak_bytes = max(self.peak_bytes, used)
        return used

    def tell(self, number: signal.Signals) -> None:
        """Send a signal to the group of the leader, as long as that is there: later the number
        of the group may be that of another one."""
        if self._leader in self._seen:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._leader, number)

    def kill(self) -> None:
        """End whatever is left, also orphans, which still have our mark in their environment."""
        until = time.monotonic() + _KILL_SECONDS
        while time.monotonic() < until:
            alive = {*self.look(), *self._find_marked()}
            if not alive:
                return
            self.tell(signal.SIGKILL)
            for process in alive:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            time.sleep(0.02)  # psutil could wait for them, and would take the status of the leader

    def _find_marked(self) -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(_MARK) == self._mark and _is_alive(process):
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
    return int(getattr(full, "pss", full.rss))  # only Linux counts shares
