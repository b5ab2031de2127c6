#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which lines does this program run, in which process, and which was the last one before it hung?

Prints each call and each line as it is run, before it is run, like Python's own `trace`; but with
the time, the process, the full name of the package, class and function, the line on every line,
and only for the packages that are asked for. A file for each process takes the same lines.

A line
    12:03:11 r3 4711 call  mypkg.model.Net.forward:41 from mypkg.train.main:12
    12:03:11 r3 4711 line  mypkg.model:42         x = self.a(x)
    time, rank (where a launcher gave one), process (4711/4713: a thread of it, as py-spy and htop
    number it), event, place. `call`: a function is entered, or a generator goes on; the line is
    that of its definition. With --events call,line,leave,raise also `leave` (by return, yield or
    exception) and `raise` (the kind of exception, in each frame it passes).
    Lines are written at once, without a buffer: the last line of a file is what ran when the
    process hung, was killed or ended by a segmentation fault.

Which code
    Without --packages_to_include: everything outside Python's library and installed packages.
    With it these packages and no others, with all below them: torch.nn, transformers, __main__ for
    the script, and * for all. --packages_to_exclude takes some out again. Code of other packages
    is never shown.

How it is done
    Python 3.12 and newer: sys.monitoring, which switches itself off for code that is not shown.
    3.11: sys.settrace, which costs each call. Both give the same lines (a test holds this).
    A debugger or coverage keeps working beside sys.monitoring. Threads are traced; those that ran
    before the trace began only by sys.monitoring. Forked processes are traced, and get files of
    their own; programs that are started anew (subprocess, spawn) are not.
    Exceptions, tracebacks, exit statuses and signals are the program's own.

Physics
    There is none. The cost: some microseconds for each line shown, measured while it runs (the
    first line is timed, and one in 64 of the others) and printed at the end of 450 lines or more.
    Hand check of --demo: adding the numbers of a generator of L takes L + 3 calls and 4 L + 5
    lines, together 5 L + 8: 1008 for L = 200.

How to run
    a script        python nicer_trace.py --packages_to_include __main__,mypkg train.py --lr 1
    a module        python nicer_trace.py -m mypkg.train --lr 1
    files           python nicer_trace.py --log_dir traces --quiet train.py
                    traces/trace.HOST.RANK.PID.txt for each process
    ranks           torchrun --nproc_per_node 8 nicer_trace.py --ranks 0,7 --quiet \
                        --log_dir /shared/traces train.py
    Slurm           srun python nicer_trace.py --log_dir /shared/traces --quiet train.py
    pdsh            pdsh -w node[01-08] 'python /shared/nicer_trace.py --log_dir /shared/traces \
                        --quiet /shared/train.py'
    in a program    from nicer_trace import Tracer
                    with Tracer(packages_to_include=["mypkg"], log_dir="traces"): step()
                    Tracer(packages_to_include=["mypkg"]).runfunc(main, 1, lr=2)
    what it costs   python nicer_trace.py --demo

A good answer: the same lines on all ranks up to the one where they part: diff two files of a job
with the first three words cut off. A hang: the last line of each file.

Seen running so far: on Linux with Python 3.11, 3.12 and 3.13; ranks of torchrun, over gloo.

Exit status: that of the program. Of the tool itself: 0 done, 1 a demonstration that failed or was
stopped by a signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import atexit
import contextlib
import datetime
import errno
import functools
import importlib.util
import json
import linecache
import math
import os
import platform
import re
import runpy
import signal
import socket
import statistics
import subprocess
import sysconfig
import tempfile
import threading
import time
import tokenize
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any, TextIO

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {
    "toy": ["--demo", "--numbers", "200", "--repeats", "5"],
    "full": ["--demo", "--numbers", "20000", "--repeats", "20"],
}

COMPARE = {
    "keys": ["way"],
    "value": "seconds_per_line",
    "better": "lower",
    "spread": "spread",
    "alike": ["details.numbers", "details.python"],
}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "lines": "1",
    "calls": "1",
    "samples": "1",
    "seconds_median": "s",
    "seconds_mean": "s",
    "seconds_iqr": "s",
    "seconds_min": "s",
    "seconds_max": "s",
    "spread": "1",
    "drift": "1",
    "slowdown": "1",
    "seconds_per_line": "s",
}

EVENTS = ("call", "line", "leave", "raise")
WAYS = ("monitoring", "settrace")
# Of the command line, where it is something else than None.
DEFAULTS: dict[str, Any] = {
    "packages_to_exclude": (),
    "events": ("call", "line"),
    "way": "auto",
    "module": False,
    "quiet": False,
}
QUARTILE_SAMPLES = 4
# One line in so many is timed, so that what tracing costs can be told without doubling it.
TIMED_SHARE = 64
# So many of those are enough: with fewer the figure can be several times the whole run.
LEAST_TIMED = 8
# linecache imports it when it is first asked for a line: not in the middle of a program's import.
READS_SOURCE = tokenize.open
MONITORING: Any = getattr(sys, "monitoring", None)
OWN_FILE = sys._getframe().f_code.co_filename

Row = dict[str, Any]


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


class Stopped(Exception):
    """The run ends here, by a signal or by the budget; what was measured is kept."""


class StopSign:
    """Why the run has to end, if it has to: a signal, the budget, or the parent process."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.by_signal = False
        self.deadline: float | None = None

    def listen(self) -> None:
        """End the run on Ctrl-C, on SIGTERM, and on Slurm's early warning."""
        for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._receive)

    def _receive(self, number: int, _frame: Any) -> None:
        self.reason = f"stopped by {signal.Signals(number).name}"
        self.by_signal = True
        # A second signal of the same kind ends a run that hangs.
        signal.signal(number, signal.SIG_DFL)

    def check(self) -> None:
        """Raise Stopped where there is a reason to end."""
        if self.reason is None and self.deadline is not None and time.monotonic() > self.deadline:
            self.reason = "the budget is used up"
        if self.reason is not None:
            raise Stopped(self.reason)


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def parse_words(text: str) -> tuple[str, ...]:
    """Names between commas."""
    words = tuple(word.strip() for word in text.split(","))
    if not all(words):
        raise argparse.ArgumentTypeError(f"'{text}': write names with commas between them")
    return words


def parse_events(text: str) -> tuple[str, ...]:
    """Some of EVENTS, between commas."""
    words = parse_words(text)
    for word in words:
        if word not in EVENTS:
            known = ", ".join(EVENTS)
            raise argparse.ArgumentTypeError(f"'{word}' is no event: choose from {known}")
    return words


def parse_rank_list(text: str) -> frozenset[int]:
    """The ranks of `0,3` or `0-3,8`."""
    ranks: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if found is None or (found[2] and int(found[2]) < int(found[1])):
            raise argparse.ArgumentTypeError(f"'{text}' is no list of ranks: write 0,3 or 0-3")
        ranks |= set(range(int(found[1]), int(found[2] or found[1]) + 1))
    return frozenset(ranks)


def find_rank_number(environ: Mapping[str, str]) -> int | None:
    """The rank that torchrun, Slurm or Open MPI gave this process; None without a launcher."""
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        if environ.get(name, "").isdigit():
            return int(environ[name])
    return None


@functools.cache
def list_installed_folders() -> tuple[str, ...]:
    """The folders of Python's library and of installed packages."""
    paths = sysconfig.get_paths()
    folders = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return tuple(sorted(f"{folder}{os.sep}" for folder in folders))


def is_own_code(file_name: str) -> bool:
    """Whether a file is neither of Python's library nor of an installed package nor made up."""
    if file_name.startswith("<"):
        return False
    parts = Path(file_name).parts
    if "site-packages" in parts or "dist-packages" in parts:
        return False
    return not file_name.startswith(list_installed_folders())


def is_of_package(module: str, packages: Iterable[str]) -> bool:
    """Whether a module is one of the packages, or below one of them; `*` is all packages."""
    return any(p in ("*", module) or module.startswith(f"{p}.") for p in packages)


# Tracers that a forked process has to tell of: register_at_fork cannot be undone.
ACTIVE: weakref.WeakSet[Tracer] = weakref.WeakSet()


@functools.cache
def watch_forks() -> None:
    """Have forked processes write to files of their own; registered once, it stays."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=reopen_after_fork)


def reopen_after_fork() -> None:
    """Give a forked process files of its own."""
    for tracer in list(ACTIVE):
        tracer.reopen()


class Tracer:
    """Writes a line for each call and each line that a program runs.

    A context manager; or `runfunc(function, *arguments)`, or start() and stop(). Traced are the
    packages named, or without any all code that is not installed. Lines go to `stream` (stderr)
    unless `quiet`, and with `log_dir` to a file of each process. `way` is `monitoring` or
    `settrace`; without it the better one that this Python has. Raises WrongUse where it cannot be
    done.
    """

    def __init__(
        self,
        packages_to_include: Iterable[str] | None = None,
        packages_to_exclude: Iterable[str] = (),
        *,
        events: Iterable[str] = ("call", "line"),
        log_dir: str | os.PathLike[str] | None = None,
        stream: TextIO | None = None,
        quiet: bool = False,
        max_lines: int | None = None,
        way: str | None = None,
    ) -> None:
        self.included = None if packages_to_include is None else tuple(packages_to_include)
        self.excluded = tuple(packages_to_exclude)
        self.events = frozenset(events)
        if unknown := self.events - set(EVENTS):
            raise WrongUse(f"no such events: {', '.join(sorted(unknown))}")
        self.stream = None if quiet else stream or sys.stderr
        # The program may change its folder, and fork then.
        self.log_dir = None if log_dir is None else Path(log_dir).absolute()
        self.max_lines = max_lines
        has_monitoring = hasattr(sys, "monitoring")
        self.way = way or ("monitoring" if has_monitoring else "settrace")
        if self.way not in WAYS or (self.way == "monitoring" and not has_monitoring):
            raise WrongUse(f"this Python cannot trace by '{self.way}'")
        self.lines = 0
        self.seconds = 0.0  # of all traces from start to stop
        self.counts: dict[str, list[int]] = {}  # function -> calls and lines
        self.trouble: str | None = None
        self.is_active = False
        self.is_cut = False
        self._started = 0.0
        self._timed: list[float] = []
        # Of the first line, for which files are opened: it stands for itself alone.
        self._first_seconds = 0.0
        # By identity: code objects of two files can be equal. The code is kept, so that no other
        # one takes its place in memory.
        self._labels: dict[int, tuple[CodeType, tuple[str, str] | None]] = {}
        self._jumps: dict[tuple[int, int, int], int | None] = {}
        self._second = 0
        self._clock = ""
        self._file: int | None = None
        self._tool_id = -1
        self._watched: dict[int, Callable[..., Any]] = {}
        self._former: tuple[Any, Any] = (None, None)
        self._name_process()
        if self.log_dir is not None:
            try:
                self.log_dir.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise WrongUse(f"no folder {self.log_dir}: {error.strerror}") from error

    def _name_process(self) -> None:
        self._pid = os.getpid()
        rank = find_rank_number(os.environ)
        self._who = f"{self._pid}" if rank is None else f"r{rank} {self._pid}"

    @property
    def path(self) -> Path | None:
        """The file that this process writes to."""
        if self.log_dir is None:
            return None
        rank = find_rank_number(os.environ)
        host = socket.gethostname().split(".")[0]
        name = "none" if rank is None else str(rank)
        return self.log_dir / f"trace.{host}.{name}.{self._pid}.txt"

    def reopen(self) -> None:
        """Take the number of this process, and a file of its own."""
        self._name_process()
        if self._file is not None:
            os.close(self._file)
            self._file = None
            self.open()

    def open(self) -> None:
        """Open the file of this process; start() does so too. Raises WrongUse."""
        path = self.path
        if path is None or self._file is not None:
            return
        try:
            # Each line is one write at the end of the file: whole between threads, and nothing is
            # lost in a buffer when the process is killed.
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            # In a folder for all somebody may have put a link of this name, to a file of ours.
            self._file = os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), 0o644)
        except OSError as error:
            raise WrongUse(f"could not write {path}: {error.strerror}") from error

    def start(self) -> None:
        """Begin to trace. Raises WrongUse where the file cannot be written."""
        if self.is_active:
            raise WrongUse("this tracer traces already")
        self.open()
        watch_forks()
        ACTIVE.add(self)
        self.is_active = True
        self._started = time.perf_counter()
        frame = sys._getframe()
        if self.way == "monitoring":
            self._start_monitoring()
        else:
            self._start_settrace(frame)

    def stop(self) -> None:
        """End the trace and close its file; a second call does nothing."""
        if not self.is_active:
            return
        self.is_active = False
        if self.way == "monitoring":
            self._stop_monitoring()
        else:
            self._stop_settrace(sys._getframe())
        self.seconds += time.perf_counter() - self._started
        ACTIVE.discard(self)
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> Tracer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def runfunc(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
        """Trace one call; what it returns. Its exceptions come through."""
        self.start()
        try:
            return function(*arguments, **named)
        finally:
            self.stop()

    @property
    def cost_seconds(self) -> float | None:
        """What writing the lines took, from those that were timed; None where those are too few.

        The median of those, times the lines: one that was timed while the machine did something
        else would count 64 times in a mean. At most all of the time: lines of several threads also
        wait for one another.
        """
        if len(self._timed) < LEAST_TIMED - 1:
            return None
        others = (self.lines - 1) * statistics.median(self._timed)
        return min(self._first_seconds + others, self.seconds)

    # What is shown.

    def _find_label(self, code: CodeType, frame: FrameType) -> tuple[str, str] | None:
        """The module and the function of a code object, or None where it is not shown."""
        if self.is_cut:
            return None
        known = self._labels.get(id(code))
        if known is None:
            module = str(frame.f_globals.get("__name__", "?"))
            label = (
                (module, f"{module}.{code.co_qualname}") if self._is_shown(code, module) else None
            )
            known = self._labels[id(code)] = (code, label)
        return known[1]

    def _is_shown(self, code: CodeType, module: str) -> bool:
        if code.co_filename == OWN_FILE or is_of_package(module, self.excluded):
            return False
        if self.included is None:
            return is_own_code(code.co_filename)
        return is_of_package(module, self.included)

    def _write(self, kind: str, place: str, rest: str) -> None:
        if self.max_lines is not None and self.lines >= self.max_lines:
            self.is_cut = True
            self.trouble = f"the trace ended early: --max_lines {self.max_lines}"
            return
        self.lines += 1
        now = int(time.time())
        if now != self._second:
            self._second, self._clock = now, time.strftime("%H:%M:%S", time.localtime(now))
        thread = threading.get_native_id()
        who = self._who if thread == self._pid else f"{self._who}/{thread}"
        text = f"{self._clock} {who} {kind:<5} {place}{rest}\n"
        if self._file is not None:
            os.write(self._file, text.encode("utf-8", "backslashreplace"))
        if self.stream is not None:
            try:
                self.stream.write(text)
            except UnicodeEncodeError:
                self.stream.write(text.encode("ascii", "backslashreplace").decode("ascii"))

    def _show(
        self, kind: str, label: tuple[str, str], number: int, frame: FrameType, what: str = ""
    ) -> None:
        """Write one event. What goes wrong here must not reach the program."""
        is_first = self.lines == 0
        started = time.perf_counter() if self.lines % TIMED_SHARE == 0 else None
        try:
            module, function = label
            if kind == "line":
                self.counts.setdefault(function, [0, 0])[1] += 1
                source = read_source_line(frame, number)
                self._write(kind, f"{module}:{number}", f" {source}".rstrip())
            elif kind == "call":
                self.counts.setdefault(function, [0, 0])[0] += 1
                self._write(kind, f"{function}:{number}", self._describe_caller(frame.f_back))
            else:
                self._write(kind, f"{function}:{number}", what)
        except RecursionError:
            pass  # the program is at its limit: this line is left out
        except (OSError, ValueError) as error:
            # No room for the file, or a stream that was closed.
            self.trouble = f"the trace ended early: {error}"
            self.is_cut = True
        if is_first and started is not None:
            self._first_seconds = time.perf_counter() - started
        elif started is not None:
            self._timed.append(time.perf_counter() - started)

    def _describe_caller(self, frame: FrameType | None) -> str:
        if frame is None or frame.f_code.co_filename == OWN_FILE:
            return ""
        module = frame.f_globals.get("__name__", "?")
        return f" from {module}.{frame.f_code.co_qualname}:{frame.f_lineno}"

    # By sys.settrace.

    def _start_settrace(self, frame: FrameType) -> None:
        self._former = (sys.gettrace(), threading.gettrace())
        above: FrameType | None = frame
        while above is not None:
            # Frames that run already: the rest of the `with` block is one.
            if self._find_label(above.f_code, above) is not None:
                above.f_trace = self._trace_local
            above = above.f_back
        threading.settrace(self._trace_global)
        sys.settrace(self._trace_global)

    def _stop_settrace(self, frame: FrameType) -> None:
        sys.settrace(self._former[0])
        threading.settrace(self._former[1])
        above: FrameType | None = frame
        while above is not None:
            if above.f_trace == self._trace_local:
                above.f_trace = None
            above = above.f_back

    def _trace_global(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        if not self.is_active:
            return None
        label = self._find_label(frame.f_code, frame)
        if label is None:
            return None
        if "call" in self.events:
            self._show("call", label, frame.f_code.co_firstlineno, frame)
        return self._trace_local

    def _trace_local(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not self.is_active:
            return None
        label = self._find_label(frame.f_code, frame)
        if label is None:
            return None
        if event == "line":
            if "line" in self.events:
                self._show("line", label, frame.f_lineno, frame)
        elif event == "return":
            if "leave" in self.events:
                self._show("leave", label, frame.f_lineno, frame)
        elif event == "exception":
            self._show_exception(label, argument[0], frame)
        return self._trace_local

    def _show_exception(self, label: tuple[str, str], kind: type, frame: FrameType) -> None:
        # Loops end by StopIteration: no news, and not told by all versions alike.
        if "raise" in self.events and not issubclass(kind, StopIteration | StopAsyncIteration):
            name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
            self._show("raise", label, frame.f_lineno, frame, f" {name}")

    # By sys.monitoring, Python 3.12 and newer.

    def _start_monitoring(self) -> None:
        # 0 to 2 and 5 are meant for debuggers, coverage, profilers and optimisers.
        free = [number for number in (4, 3) if MONITORING.get_tool(number) is None]
        if not free:
            self.is_active = False
            raise WrongUse("sys.monitoring has no room for another tool: use the way 'settrace'")
        self._tool_id = free[0]
        MONITORING.use_tool_id(self._tool_id, "nicer_trace")
        wanted: dict[str, Callable[..., Any]] = {}
        if self.events & {"call", "line"}:
            # For lines too: 3.13 tells of a function's first line, where it is that of its
            # definition, only to those who are told of its start.
            wanted |= {"PY_START": self._on_call, "PY_RESUME": self._on_call}
            wanted |= {"PY_THROW": self._on_throw}
        if "line" in self.events:
            wanted |= {"LINE": self._on_line, "JUMP": self._on_jump}
        if "leave" in self.events:
            wanted |= {"PY_RETURN": self._on_leave, "PY_YIELD": self._on_leave}
            wanted |= {"PY_UNWIND": self._on_unwind}
        if "raise" in self.events:
            wanted |= {"RAISE": self._on_raise}
        self._watched = {getattr(MONITORING.events, name): call for name, call in wanted.items()}
        for event, callback in self._watched.items():
            MONITORING.register_callback(self._tool_id, event, callback)
        # Places that an earlier trace switched off are shown again.
        MONITORING.restart_events()
        MONITORING.set_events(self._tool_id, functools.reduce(int.__or__, self._watched, 0))

    def _stop_monitoring(self) -> None:
        MONITORING.set_events(self._tool_id, 0)
        for event in self._watched:
            MONITORING.register_callback(self._tool_id, event, None)
        MONITORING.free_tool_id(self._tool_id)

    def _on_call(self, code: CodeType, _offset: int) -> Any:
        frame = sys._getframe(1)
        label = self._find_label(code, frame)
        if label is None:
            return MONITORING.DISABLE
        if "call" in self.events:
            self._show("call", label, code.co_firstlineno, frame)
        return None

    def _on_throw(self, code: CodeType, _offset: int, _error: BaseException) -> None:
        frame = sys._getframe(1)
        label = self._find_label(code, frame)
        if label is not None and "call" in self.events:
            self._show("call", label, code.co_firstlineno, frame)

    def _on_line(self, code: CodeType, number: int) -> Any:
        frame = sys._getframe(1)
        label = self._find_label(code, frame)
        if label is None:
            return MONITORING.DISABLE
        return self._show("line", label, number, frame)

    def _on_jump(self, code: CodeType, offset: int, goal: int) -> Any:
        """A jump back to the line it comes from: a loop in one line, which is no new line."""
        frame = sys._getframe(1)
        label = self._find_label(code, frame)
        if label is None or goal > offset:
            return MONITORING.DISABLE
        key = (id(code), offset, goal)
        if key not in self._jumps:
            here, there = find_line(code, offset), find_line(code, goal)
            self._jumps[key] = here if here == there else None
        number = self._jumps[key]
        if number is None:
            return MONITORING.DISABLE
        return self._show("line", label, number, frame)

    def _on_leave(self, code: CodeType, _offset: int, _value: Any) -> Any:
        frame = sys._getframe(1)
        label = self._find_label(code, frame)
        if label is None:
            return MONITORING.DISABLE
        return self._show("leave", label, frame.f_lineno, frame)

    def _on_unwind(self, code: CodeType, _offset: int, _error: BaseException) -> None:
        frame = sys._getframe(1)
        label = self._find_label(code, frame)
        if label is not None:
            self._show("leave", label, frame.f_lineno, frame)

    def _on_raise(self, code: CodeType, _offset: int, error: BaseException) -> None:
        frame = sys._getframe(1)
        label = self._find_label(code, frame)
        if label is not None:
            self._show_exception(label, type(error), frame)


def read_source_line(frame: FrameType, number: int) -> str:
    """A line of the source; nothing where the program's own loader cannot give it."""
    try:
        return linecache.getline(frame.f_code.co_filename, number, frame.f_globals)
    except RecursionError:
        raise
    except Exception:  # a loader raises what it likes
        return ""


def find_line(code: CodeType, offset: int) -> int | None:
    """The line of an instruction."""
    return next((line for low, high, line in code.co_lines() if low <= offset < high), None)


def cut_own_frames(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this tool, and of the import machinery, at its top."""
    while trace is not None and trace.tb_frame.f_code.co_filename in (OWN_FILE, "<frozen runpy>"):
        trace = trace.tb_next
    return trace


def hide_own_frames() -> None:
    """Have the traceback that ends this process look as if the program had run by itself."""
    former = sys.excepthook

    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        trace = cut_own_frames(trace)
        former(kind, error.with_traceback(trace), trace)

    sys.excepthook = show


def make_main_module(script: Path) -> ModuleType:
    """A fresh `__main__` for a script, in place of this tool's."""
    module = ModuleType("__main__")
    module.__file__ = str(script)
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    return module


def prepare_program(
    options: argparse.Namespace, program: Sequence[str], arguments: Sequence[str]
) -> Callable[[], int]:
    """What runs the script or module as Python would, traced; its exceptions come through.

    Raises WrongUse where it cannot be read, or the trace not be written.
    """
    name = program[0]
    options.json = options.json and options.json.absolute()
    run = prepare_module(name) if options.module else prepare_script(name)
    command = make_portable_command(arguments)
    rank = find_rank_number(os.environ)
    tracer = make_tracer(options)
    is_traced = options.ranks is None or rank is None or rank in options.ranks
    if is_traced:
        tracer.open()
        # When the program's threads have ended, and after what it does itself at its exit.
        atexit.register(finish_run, tracer, options, command, time.monotonic(), os.getpid())
    sys.argv = [name, *program[1:]]
    sys.excepthook = sys.__excepthook__  # Ctrl-C is the program's now

    def start() -> int:
        try:
            if is_traced:
                tracer.start()
            run()
        except BaseException:
            hide_own_frames()
            raise
        return 0

    return start


def prepare_module(name: str) -> Callable[[], Any]:
    """What runs a module as `python -m` does. Raises WrongUse where there is none."""
    if not sys.flags.safe_path:
        sys.path[0] = str(Path.cwd())
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        found = None
    if found is None:
        raise WrongUse(f"there is no module {name}")
    return functools.partial(runpy.run_module, name, run_name="__main__", alter_sys=True)


def prepare_script(name: str) -> Callable[[], Any]:
    """What runs a script as `python` does. Raises WrongUse where it cannot be read."""
    script = Path(name).absolute()  # as Python does: links are kept
    try:
        source = script.read_bytes()
    except OSError as error:
        raise WrongUse(f"could not read {name}: {error.strerror}") from error
    if not sys.flags.safe_path:
        sys.path[0] = str(script.resolve().parent)

    def run() -> None:
        code = compile(source, str(script), "exec", dont_inherit=True)
        exec(code, make_main_module(script).__dict__)

    return run


def make_tracer(options: argparse.Namespace) -> Tracer:
    """The tracer that the command line asks for."""
    return Tracer(
        options.packages_to_include,
        options.packages_to_exclude,
        events=options.events,
        log_dir=options.log_dir,
        quiet=options.quiet,
        max_lines=options.max_lines,
        way=None if options.way == "auto" else options.way,
    )


def make_function_rows(tracer: Tracer) -> list[Row]:
    """How often each function was called, and how many lines of it ran; the most lines first."""
    rows: list[Row] = [
        {"function": name, "calls": calls, "lines": lines}
        for name, (calls, lines) in tracer.counts.items()
    ]
    return sorted(rows, key=lambda row: (-row["lines"], -row["calls"], row["function"]))


def describe_cost(tracer: Tracer) -> str:
    """What tracing took, in a sentence."""
    if not tracer.lines:
        return f"no line in {format_time(tracer.seconds)}: is --packages_to_include right?"
    cost, words = tracer.cost_seconds, f"{tracer.lines} lines by sys.{tracer.way}"
    if cost is None:
        return f"{words} in {format_time(tracer.seconds)}: too few to tell what writing them took"
    if cost >= tracer.seconds:
        return f"{words}; writing them took most of {format_time(tracer.seconds)}"
    return (
        f"{words}; writing them took about {format_time(cost)} of {format_time(tracer.seconds)} "
        f"({cost / tracer.seconds:.0%})"
    )


def finish_run(
    tracer: Tracer, options: argparse.Namespace, command: Sequence[str], origin: float, pid: int
) -> None:
    """End the trace of a program, and tell what it cost; in a forked process only end it."""
    tracer.stop()
    if os.getpid() != pid:
        return
    place = f", in {tracer.path}" if tracer.path else ""
    print(f"nicer_trace: {describe_cost(tracer)}{place}", file=sys.stderr)
    if tracer.trouble:
        print(f"nicer_trace: {tracer.trouble}", file=sys.stderr)
    if options.json:
        head = make_document_head("nicer_trace", (__version__, METHOD), command, origin)
        rows = make_function_rows(tracer)
        document = {
            **head,
            "complete": not tracer.is_cut,
            "units": {name: UNITS[name] for name in ("calls", "lines")},
            "results": rows,
            "caveats": [tracer.trouble] if tracer.trouble else [],
            "details": {
                "way": tracer.way,
                "lines": tracer.lines,
                "cost_seconds": tracer.cost_seconds,
                "python": platform.python_version(),
            },
        }
        try:
            write_document(options.json, document)
        except WrongUse as error:  # the program's exit status is its own
            print(f"nicer_trace: {error}", file=sys.stderr)


# The demonstration: a program whose lines can be counted by hand.

DEMO = """def count(limit):
    for number in range(limit):
        yield number


def add(values):
    total = 0
    for value in values:
        total += value
    return total


def main(limit):
    return add(count(limit))
"""


def count_demo_lines(numbers: int) -> int:
    """Calls and lines of the demonstration, by hand.

    main has 1 call and 1 line; add 1 call, its first and last line, and for each number two lines
    and once more the loop's; count is entered for each number and once more, and has two lines for
    each and once more the loop's.
    """
    return 2 + (1 + 2 + 2 * numbers + 1) + (numbers + 1) + (2 * numbers + 1)


class TraceDemo:
    """The demonstration's rows, and what was found."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.problems: list[str] = []
        self.caveats: list[str] = []
        self.complete = False


def list_demo_ways() -> list[str]:
    """How the demonstration is run: without a trace, and with it by all ways of this Python."""
    ways = ["untraced", "settrace", "settrace, nothing shown"]
    if MONITORING is not None:
        ways += ["monitoring", "monitoring, nothing shown"]
    return ways


def run_demo_once(way: str, main: Callable[[int], int], numbers: int, folder: Path) -> Row:
    """One run of the demonstration: seconds, calls and lines, and the answer."""
    if way == "untraced":
        started = time.perf_counter()
        answer = main(numbers)
        return {"seconds": time.perf_counter() - started, "lines": 0, "calls": 0, "answer": answer}
    kind, _, shown = way.partition(", ")
    packages = ["no_such_package"] if shown else ["demo_of_nicer_trace"]
    tracer = Tracer(packages, log_dir=folder, quiet=True, way=kind)
    started = time.perf_counter()
    answer = tracer.runfunc(main, numbers)
    seconds = time.perf_counter() - started
    lines = sum(lines for _, lines in tracer.counts.values())
    calls = sum(calls for calls, _ in tracer.counts.values())
    return {"seconds": seconds, "lines": lines, "calls": calls, "answer": answer}


def play_traces(numbers: int, repeats: int, stop: StopSign) -> TraceDemo:
    """Run the demonstration in all ways, several times in turn, and compare."""
    report = TraceDemo()
    ways = list_demo_ways()
    if MONITORING is None:
        report.caveats.append("this Python has no sys.monitoring: Python 3.12 and newer have")
    samples: dict[str, list[Row]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory(prefix="nicer_trace_") as name:
        folder = Path(name)
        script = folder / "demo_of_nicer_trace.py"
        script.write_text(DEMO, encoding="utf-8")
        space: dict[str, Any] = {"__name__": "demo_of_nicer_trace"}
        exec(compile(DEMO, str(script), "exec"), space)
        try:
            for number in range(repeats + 1):
                for way in ways:
                    stop.check()
                    row = run_demo_once(way, space["main"], numbers, folder / "log")
                    if number:  # the first round warms up
                        samples[way].append(row)
            report.complete = True
        except Stopped as stopped:
            report.caveats.append(f"{stopped}, after {len(samples[ways[0]])} rounds")
    for way, rows in samples.items():
        if rows:
            report.rows.append(make_trace_row(way, rows, samples["untraced"]))
            report.problems += find_trace_problems(way, rows, numbers)
    return report


def make_trace_row(way: str, rows: Sequence[Row], untraced: Sequence[Row]) -> Row:
    """One way's row: times, lines, and what a line costs over the run without a trace."""
    row: Row = {"way": way, "lines": rows[0]["lines"], "calls": rows[0]["calls"]}
    row |= summarise_samples_of("seconds", [each["seconds"] for each in rows])
    plain = statistics.median(each["seconds"] for each in untraced)
    row["slowdown"] = row["seconds_median"] / plain
    shown = row["lines"] + row["calls"]
    row["seconds_per_line"] = (row["seconds_median"] - plain) / shown if shown else None
    return row


def find_trace_problems(way: str, rows: Sequence[Row], numbers: int) -> list[str]:
    """What is not as counted by hand."""
    is_shown = way in WAYS
    expected = count_demo_lines(numbers) if is_shown else 0
    problems = []
    for row in rows:
        if row["answer"] != numbers * (numbers - 1) // 2:
            problems.append(f"{way}: the program's answer is wrong")
        if row["lines"] + row["calls"] != expected:
            shown = row["lines"] + row["calls"]
            problems.append(f"{way}: {shown} calls and lines, by hand they are {expected}")
    return list(dict.fromkeys(problems))


def format_earned(value: float | None, uncertainty: float | None) -> str:
    """The value with the digits that its uncertainty leaves, one per thousand at best.

    The last digit shown stands where the first digit of the uncertainty stands. Where the
    uncertainty is as large as the value it leaves none: then one digit after a `~` says how
    large the value is, roughly. Where nobody knows the uncertainty, it is two digits after a `~`.
    """
    if value is None or not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    size = abs(value)
    doubt = 0.1 * size if uncertainty is None else max(abs(uncertainty), size * 1e-3)
    is_rough = uncertainty is None or doubt >= size
    decimals = -math.floor(math.log10(min(doubt, size)))
    # Rounding first: 9.99 to one digit is 10, and then no digit after the point.
    rounded = round(value, decimals)
    return f"{'~' if is_rough else ''}{rounded:.{max(decimals, 0)}f}"


def format_time(seconds: float) -> str:
    """`12.0 µs`, `8.02 ms` or `2.3 s`: a time in a sentence, to about one percent."""
    factor, unit = next(
        ((f, u) for f, u in ((1.0, "s"), (1e-3, "ms")) if seconds >= 0.9995 * f), (1e-6, "µs")
    )
    return f"{format_earned(seconds / factor, 1e-2 * seconds / factor)} {unit}"


def format_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and all others to the right."""
    cells = [list(headings), *(list(row) for row in rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(headings))]

    def join(row: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [f":{'-' * (w - 1)}" if i == 0 else f"{'-' * (w - 1)}:" for i, w in enumerate(widths)]
    return "\n".join([join(cells[0]), f"| {' | '.join(rule)} |", *map(join, cells[1:])])


def format_trace_ways(rows: Sequence[Row]) -> str:
    """The demonstration as a table."""
    headings = ["Way", "Calls", "Lines", "Median", "IQR", "Slower", "Each line"]
    lines = []
    for row in rows:
        each, iqr = row["seconds_per_line"], row["seconds_iqr"]
        lines.append(
            [
                *(row["way"], str(row["calls"]), str(row["lines"])),
                format_time(row["seconds_median"]),
                "-" if not iqr else format_time(iqr),
                f"{row['slowdown']:.3g}x",
                "-" if each is None or each <= 0 else format_time(each),
            ]
        )
    return format_table(headings, lines)


def print_to_stdout(text: str) -> bool:
    """Print at once; False, with a line that says so, where stdout could not be written."""
    try:
        print(text, flush=True)
    except OSError as error:
        # Python would write once more what is left, as it ends: that goes nowhere now.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"problem: stdout could not be written: {error.strerror}", file=sys.stderr)
        return False
    return True


def write_note(text: str) -> None:
    """One note for the reader, beside the table."""
    print(f"note: {text}", file=sys.stderr)


def hide_folders(text: str) -> str:
    """The text with absolute paths cut down to their last part: folders name people and hosts."""
    name, equals, value = text.partition("=")
    if equals and value.startswith(("/", "~")):
        return f"{name}={Path(value).name}"
    return Path(text).name if text.startswith(("/", "~")) else text


def make_portable_command(arguments: Sequence[str]) -> list[str]:
    """The command line as another machine would type it, without absolute paths."""
    script = Path(__file__)
    with contextlib.suppress(ValueError, OSError):  # a folder that was deleted has no name
        script = script.resolve().relative_to(Path.cwd().resolve())
    name = script.name if script.is_absolute() else script.as_posix()
    return ["python", name, *(hide_folders(argument) for argument in arguments)]


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write the JSON whole: under another name, then moved; a pipe or a device is written to, and
    a symbolic link followed. Raises WrongUse where it cannot be."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    target = path.resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def check_json_path(path: Path | None) -> None:
    """Raises WrongUse where --json names a folder, or a file in a folder that is not there or takes
    no files."""
    if path is None:
        return
    if path.is_dir():
        raise WrongUse(f"--json: {path} is a folder; name a file in it")
    target = path.resolve()
    if not target.parent.is_dir():
        raise WrongUse(f"--json: there is no folder {target.parent}")
    if path.exists() and not path.is_file():  # a pipe or a device, which writing shows
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def make_document_head(
    tool: str, numbers: tuple[str, int], command: Sequence[str], origin: float
) -> dict[str, Any]:
    """The opening of the JSON: tool, version and method, command, start, and seconds until now.

    `origin` is the reading of time.monotonic() when the run began.
    """
    seconds = time.monotonic() - origin
    started = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    return {
        "tool": tool,
        "version": numbers[0],
        "method": numbers[1],
        "command": list(command),
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(seconds, 3),
    }


def summarise_samples_of(name: str, samples: Sequence[float]) -> Row:
    """`NAME_median`, mean, iqr, min and max of the samples, their number, spread and drift.

    The quartiles are those of linear interpolation between the samples (numpy's default); fewer
    than QUARTILE_SAMPLES samples have none, so IQR and spread are None. `spread` is the IQR over
    the median. `drift` is the median of the second half over that of the first half, less one.
    """
    ordered = sorted(samples)
    median = statistics.median(ordered)
    iqr = None
    if len(ordered) >= QUARTILE_SAMPLES:
        low, _, high = statistics.quantiles(ordered, n=4, method="inclusive")
        iqr = high - low
    half = len(samples) // 2
    drift = None
    if half >= 5 and statistics.median(samples[:half]) > 0:
        drift = statistics.median(samples[-half:]) / statistics.median(samples[:half]) - 1
    return {
        "samples": len(ordered),
        f"{name}_median": median,
        f"{name}_mean": statistics.fmean(ordered),
        f"{name}_iqr": iqr,
        f"{name}_min": ordered[0],
        f"{name}_max": ordered[-1],
        "spread": iqr / median if iqr is not None and median > 0 else None,
        "drift": drift,
    }


def show_traces(options: argparse.Namespace, arguments: list[str], stop: StopSign) -> int:
    """Play the demonstration and report it; the exit status."""
    origin = time.monotonic()
    report = play_traces(options.numbers, options.repeats, stop)
    command = make_portable_command(arguments)
    print(f"nicer_trace {__version__} (method {METHOD})", file=sys.stderr)
    is_printed = not report.rows or print_to_stdout(format_trace_ways(report.rows))
    for text in report.caveats:
        write_note(text)
    for text in report.problems:
        print(f"problem: {text}", file=sys.stderr)
    if options.json:
        head = make_document_head("nicer_trace", (__version__, METHOD), command, origin)
        details = {"numbers": options.numbers, "python": platform.python_version()}
        document = {
            **head,
            "complete": report.complete,
            "units": UNITS,
            "results": report.rows,
            "caveats": report.caveats + report.problems,
            "details": details,
        }
        write_document(options.json, document)
    return 1 if report.problems or not report.complete or not is_printed else 0


SELF_TEST_PROGRAM = """import sys
import threading


def fail():
    raise ValueError("on purpose")


def work():
    try:
        fail()
    except ValueError:
        return 1


thread = threading.Thread(target=work)
thread.start()
thread.join()
sys.exit(work() + 36)
"""


def run_self_test() -> int:
    """Check lines counted by hand, and a real script; 0, or 1 where a check fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    check("200 numbers are 1008 calls and lines", count_demo_lines(200) == 1008)
    check("torch.nn has torch.nn.functional", is_of_package("torch.nn.functional", ["torch.nn"]))
    check("torch has no torchvision", not is_of_package("torchvision", ["torch"]))
    check("Python's library is not the program's", not is_own_code(tokenize.__file__))
    check("ranks 0-2,5", parse_rank_list("0-2,5") == {0, 1, 2, 5})
    report = play_traces(50, 1, StopSign())
    for row in report.rows:
        expected = 258 if row["way"] in WAYS else 0
        check(f"{row['way']}: {expected} lines", row["lines"] + row["calls"] == expected)
    check("the answers are right", not report.problems)
    with tempfile.TemporaryDirectory(prefix="nicer_trace_") as name:
        script = Path(name) / "program.py"
        script.write_text(SELF_TEST_PROGRAM, encoding="utf-8")
        logs = Path(name) / "logs"
        done = subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), "--log_dir", str(logs), str(script)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        texts = [path.read_text(encoding="utf-8") for path in logs.iterdir()]
    check("the program's exit status is kept", done.returncode == 37)
    lines = [line for line in done.stderr.splitlines() if not line.startswith("nicer_trace: ")]
    # Two threads may swap places between the file and stderr.
    written = sorted(line for text in texts for line in text.splitlines())
    check("the file has the lines of stderr", len(texts) == 1 and written == sorted(lines))
    check(
        "a thread's lines are its own", any(re.search(r"\d+/\d+ call .*work:9", e) for e in lines)
    )
    check("the last line is the last one", lines[-1].endswith("return 1"))
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="nicer_trace.py",
        usage="nicer_trace.py [options] [--] SCRIPT [ARGUMENTS], or nicer_trace.py --demo",
        description="Run a Python program and print each call and each line as it is run.",
        epilog="The docstring at the top of this file tells how lines are chosen and written.",
        allow_abbrev=False,
    )
    what = parser.add_argument_group("what is shown")
    what.add_argument(
        "--packages_to_include",
        type=parse_words,
        metavar="NAMES",
        help="torch.nn,mypkg,__main__ (default: all code that is not installed; * is everything)",
    )
    what.add_argument("--packages_to_exclude", type=parse_words, metavar="NAMES", help="not these")
    what.add_argument(
        "--events",
        type=parse_events,
        metavar="NAMES",
        help="some of call,line,leave,raise (default: call,line)",
    )
    what.add_argument(
        "--ranks", type=parse_rank_list, metavar="LIST", help="only on these ranks, 0,7 or 0-3"
    )
    what.add_argument("--max_lines", type=parse_count, metavar="N", help="then trace no more")
    where = parser.add_argument_group("where to")
    where.add_argument(
        "--log_dir", type=Path, metavar="DIR", help="a file trace.HOST.RANK.PID.txt per process"
    )
    where.add_argument("--quiet", action="store_true", help="with --log_dir: nothing to stderr")
    where.add_argument("--json", type=Path, metavar="PATH", help="calls and lines of each function")
    how = parser.add_argument_group("how")
    how.add_argument(
        "--way",
        choices=("auto", *WAYS),
        help="sys.monitoring or sys.settrace (default: monitoring where there is one)",
    )
    how.add_argument("-m", "--module", action="store_true", help="SCRIPT is the name of a module")
    demo = parser.add_argument_group("demonstration")
    demo.add_argument("--demo", action="store_true", help="trace a program of its own, and time it")
    demo.add_argument(
        "--numbers", type=parse_count, metavar="N", help="that it adds (default: 2000)"
    )
    demo.add_argument("--repeats", type=parse_count, metavar="N", help="of each (default: 10)")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"nicer_trace {__version__} (method {METHOD})"
    )
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, metavar="SCRIPT", help="what to run, with arguments"
    )
    parser.set_defaults(**DEFAULTS)
    return parser


def check_options(options: argparse.Namespace, program: Sequence[str]) -> None:
    """Raises WrongUse where options do not go together."""
    check_json_path(options.json)
    if options.demo and program:
        raise WrongUse("--demo runs a program of its own; leave it out, or the script")
    if not options.demo and not program:
        raise WrongUse("name the script to run, or --demo")
    if not options.demo and (options.numbers or options.repeats):
        raise WrongUse("--numbers and --repeats belong to --demo")
    if options.quiet and options.log_dir is None:
        raise WrongUse("--quiet without --log_dir would show nothing")
    if options.demo:
        others = ("log_dir", "ranks", "max_lines", "packages_to_include", "packages_to_exclude")
        for name in (*others, "module", "quiet", "events", "way"):
            if getattr(options, name) != DEFAULTS.get(name):
                raise WrongUse(f"--{name} does not go with --demo")


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    # What stands behind the first -- is the program's, whatever it looks like.
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:cut])
    program = options.program + (arguments[cut:] if options.program else arguments[cut + 1 :])
    stop = StopSign()
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_options(options, program)
        if options.demo:
            stop.listen()
            options.numbers = options.numbers or 2000
            options.repeats = options.repeats or 10
            return show_traces(options, arguments, stop)
        start = prepare_program(options, program, arguments)
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a demonstration listens for signals itself
        print("stopped", file=sys.stderr)
        return 1
    # Outside of all that: what the program raises is its own.
    return start()


def run_to_stdout(run: Callable[[], int]) -> int:
    """What `run` returns, once all that it printed is written; where stdout takes no more, a full
    disk or a closed pipe, one line says so, and it is 1."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, by `>&-`: then nobody wants to read it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - to the end
    try:
        try:
            status = run()
        except SystemExit as ended:  # --help, --version, and wrong use
            status = int(ended.code or 0)
        sys.stdout.flush()
    except OSError as error:
        kinds = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        if error.filename is not None or error.errno not in kinds:
            raise
        # What still waits would be complained of again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"stdout could not be written: {error.strerror}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    # What a program returns, raises and ends with is its own.
    is_asked = sys.argv[1:2] in (["-h"], ["--help"], ["--version"])
    sys.exit(run_to_stdout(main) if is_asked else main())
