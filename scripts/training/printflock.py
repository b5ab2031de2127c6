#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Why are the lines of my ranks mixed up, and how do I print so that they are not?

Ranks that share a terminal, a pipe or a log write into it whenever they like. `printflock` is a
`print` that takes a lock first, which all ranks of the node share, and writes its whole text and
flushes before it gives the lock back. Run as a program it shows the difference.

    from printflock import printflock as print

Physics
    There is none to compute, but a limit to know. A pipe takes one write() of up to PIPE_BUF bytes
    (4096 on Linux) in one piece, and a longer one in pieces, between which others may write. An
    unbuffered print() (python -u, PYTHONUNBUFFERED=1) is one write() for each argument, each
    separator and the end of the line. Hand check: print("a", "b") is then four writes, so another
    rank's words can stand in three places within that line.

What is shown
    Several processes write lines of a known content into one pipe, all at once. A line that does
    not arrive as it was written is torn.
    print, short        one write() below PIPE_BUF: stays whole
    print -u, pieces    unbuffered, four writes: torn
    print, long         one print() above PIPE_BUF: torn
    printflock          the same pieces and the same long lines: whole
What the lock does not do
    Only those who take the lock wait for it: plain prints and messages of C++ libraries still come
    between. It is a lock of one node, and of ranks that see the same folder: containers of their
    own do not. It covers the write(), not what a launcher does later: where each rank has a pipe
    of its own (srun, torchrun --redirects), the launcher mixes what it reads, in pieces of any size
    and any order; there use srun --label or torchrun --tee 3. A rank that cannot have the lock
    within 10 s, because another was stopped in the middle of its print, prints without it and
    says so once, and waits 0.1 s for each further print until the lock is free again: a tool
    against hangs must not hang.

Where the lock is
    An empty file in /dev/shm/printflock-UID (where there is no /dev/shm: in /tmp), named after the
    job: SLURM_JOB_ID, PBS_JOBID, LSB_JOBID, FLUX_JOB_ID, TORCHELASTIC_RUN_ID or MASTER_PORT,
    whichever is set first. It does not matter where this module is, or in how many copies. The
    folder is for its owner alone (mode 0700); one that belongs to somebody else, is a link, or is
    open to others is not used, nor is a lock file that is a link. Nothing is ever written into the
    file. PRINTFLOCK_FOLDER names another parent folder.

How to run
    the difference  python printflock.py
    larger          python printflock.py --processes 16 --lines 5000 --line_bytes 100000
    Slurm           srun --ntasks-per-node=1 python printflock.py
    pdsh            pdsh -w node[01-08] python /shared/printflock.py
    in a program    from printflock import printflock
                    printflock(f"{rank}: passed stage 0")

A good answer: no torn line in the rows of printflock, whatever happened in those of print. Where
nothing is torn without the lock either, the machine was too idle or the lines too few: the table
says so, and --lines is the cure.

Seen running so far: on Linux, with pipes and files, processes, threads, forks, torchrun's ranks.

Exit status: 0 done, 1 printflock tore or lost a line, or stopped by a signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import io
import json
import os
import platform
import random
import re
import select
import signal
import stat
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {
    "toy": ["--processes", "4", "--lines", "100"],
    "full": ["--processes", "8", "--lines", "2000"],
}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "line_bytes": "B",
    "processes": "1",
    "lines": "1",
    "lines_whole": "1",
    "lines_torn": "1",
    "bytes_lost": "B",
    "seconds": "s",
}

# How long a print waits for the lock before it does without.
WAIT_SECONDS = 10.0
# And how long where it has waited in vain before.
SHORT_WAIT_SECONDS = 0.1
FIRST_PAUSE_SECONDS = 0.0001
LONGEST_PAUSE_SECONDS = 0.004
# Of the same content for all ranks of a job on a node, and of another for other jobs.
JOB_NAMES = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "TORCHELASTIC_RUN_ID")
FOLDER_NAME = "PRINTFLOCK_FOLDER"
# On every Linux node and never shared with another node; TMPDIR may differ between ranks.
LOCK_PARENTS = ("/dev/shm", "/tmp")

SHORT_BYTES = 60
PIPE_BYTES = getattr(select, "PIPE_BUF", 512)

Row = dict[str, Any]

held = threading.local()
waited_in_vain = threading.Event()
warned: set[str] = set()


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


# --- the library ---


def printflock(
    *values: object,
    sep: str | None = " ",
    end: str | None = "\n",
    file: Any = None,
    flush: bool = True,
) -> None:
    """print(), whole: no other printflock() of this job on this node writes in between.

    It always flushes; `flush` is there because print() has it. Raises what print() raises.
    """
    del flush
    stream = sys.stdout if file is None else file
    if stream is None:  # no stdout at all, as under pythonw: print() says nothing then
        return
    # Before the lock is taken: the text of a value may itself be printed by somebody.
    words = (" " if sep is None else sep).join(str(value) for value in values)
    text = words + ("\n" if end is None else end)
    with hold_lock():
        write_whole(stream, text)


@contextlib.contextmanager
def hold_lock(wait: float = WAIT_SECONDS) -> Iterator[bool]:
    """Hold the lock of this job on this node, for several prints in one piece.

    Gives whether the lock is held. A printflock() inside of it waits for nothing.
    """
    outer = getattr(held, "has_lock", None)
    if outer is not None:
        yield outer
        return
    # Set before the lock is taken: a signal's handler that prints must not wait for its own thread.
    held.has_lock = False
    process = os.getpid()
    number = None
    try:
        number = take_lock(wait)
        held.has_lock = number is not None
        yield held.has_lock
    finally:
        held.has_lock = None
        if number is not None and os.getpid() == process:
            release_lock(number)
        elif number is not None:  # a child that was forked inside: the lock is its parent's
            os.close(number)


def take_lock(wait: float) -> int | None:
    """Take the lock; the open file that holds it, or None with a warning where it cannot be had."""
    try:
        import fcntl
    except ImportError:
        warn_once("this system has no flock")
        return None
    limit = min(wait, SHORT_WAIT_SECONDS) if waited_in_vain.is_set() else wait
    deadline = time.monotonic() + limit
    pause = FIRST_PAUSE_SECONDS
    while True:
        number = open_lock()
        if number is None:
            return None
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever tidies up may have removed the file since: then others lock another one.
            if os.fstat(number).st_nlink:
                waited_in_vain.clear()
                return number
        except BlockingIOError:
            pass
        except OSError as error:
            os.close(number)
            warn_once(f"flock: {error.strerror}")
            return None
        os.close(number)
        if time.monotonic() > deadline:
            waited_in_vain.set()
            warn_once(f"another process has held the lock for {wait:g} s")
            return None
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(1.5 * pause, LONGEST_PAUSE_SECONDS)


def release_lock(number: int) -> None:
    """Give the lock back, also where a child that was forked meanwhile still has the file open."""
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.flock(number, fcntl.LOCK_UN)
    os.close(number)


def warn_once(reason: str) -> None:
    """Say once for each reason that lines may interleave."""
    if reason not in warned:
        warned.add(reason)
        with contextlib.suppress(OSError, ValueError):
            print(f"printflock: no lock ({reason}): lines may interleave", file=sys.stderr)


def name_job(environ: Mapping[str, str]) -> str:
    """What tells this job from others of the same user on this node, as a part of a file name."""
    found = [environ[name] for name in JOB_NAMES if environ.get(name, "none") not in ("", "none")]
    if environ.get("MASTER_PORT"):
        found.append(f"port-{environ['MASTER_PORT']}")
    return re.sub(r"[^A-Za-z0-9_-]", "_", found[0])[:100] if found else "no-job"


def list_lock_parents(environ: Mapping[str, str]) -> list[Path]:
    """The folders that may hold the folder of the lock, the best one first."""
    if environ.get(FOLDER_NAME):
        return [Path(environ[FOLDER_NAME])]
    return [path for path in map(Path, LOCK_PARENTS) if path.is_dir()] or [
        Path(tempfile.gettempdir())
    ]


def open_lock() -> int | None:
    """Open the lock file of this job; None, with a warning, where no folder is safe."""
    reasons = []
    for parent in list_lock_parents(os.environ):
        try:
            return open_lock_in(parent, f"{name_job(os.environ)}.lock")
        except OSError as error:
            reasons.append(f"{parent}: {error.strerror or error}")
    warn_once("; ".join(reasons))
    return None


def open_lock_in(parent: Path, name: str) -> int:
    """Open the lock file in a folder of this user's own under `parent`.

    Raises OSError where that folder, or the file, is a link or somebody else's.
    """
    user = os.geteuid()
    path = parent / f"printflock-{user}"
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        state = os.fstat(folder)
        if state.st_uid != user or stat.S_IMODE(state.st_mode) & 0o077:
            raise PermissionError(f"{path.name} is not for this user alone")
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        number = os.open(name, flags, 0o600, dir_fd=folder)
    finally:
        os.close(folder)
    state = os.fstat(number)
    if not stat.S_ISREG(state.st_mode) or state.st_uid != user:
        os.close(number)
        raise PermissionError(f"{name} is no file of this user")
    return number


def write_whole(stream: Any, text: str) -> None:
    """Write all of the text, and flush.

    A plain text stream is written through its file: of a pipe that does not block, Python's own
    buffers would lose what did not fit.
    """
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)
    # Streams over memory have no file, and what compresses has one that holds something else.
    is_plain = type(stream) is io.TextIOWrapper and type(raw) is io.FileIO
    if not is_plain or os.name != "posix":
        stream.write(text)
        stream.flush()
        return
    data = text.encode(stream.encoding, stream.errors or "strict")
    number = stream.fileno()
    flush_waiting(stream, number)
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(number, view) :]
        except BlockingIOError:
            select.select([], [number], [], 1.0)


def flush_waiting(stream: Any, number: int) -> None:
    """Flush what print() left in the stream, waiting for a pipe that does not block."""
    while True:
        try:
            stream.flush()
            return
        except BlockingIOError:
            select.select([], [number], [], 1.0)


# --- the demonstration ---


class Way(NamedTuple):
    """A way to print lines."""

    name: str
    uses_lock: bool
    is_unbuffered: bool
    line_bytes: int


def list_ways(line_bytes: int) -> list[Way]:
    """The ways that are shown, each with the length of its lines."""
    return [
        Way("print, short", False, False, SHORT_BYTES),
        Way("print -u, pieces", False, True, SHORT_BYTES),
        Way("print, long", False, False, line_bytes),
        Way("printflock -u, pieces", True, True, SHORT_BYTES),
        Way("printflock, long", True, False, line_bytes),
    ]


def make_pieces(number: int, index: int, size: int) -> tuple[str, str]:
    """Both arguments of the print of a line of `size` bytes, its end included."""
    mark = f"{number:03d}:{index:07d}"
    letter = chr(ord("a") + number % 26)
    return mark, letter * (size - 2 * len(mark) - 3) + f" {mark}"


def count_whole(data: bytes, processes: int, lines: int, size: int) -> int:
    """How many of the lines that were written are there as they were written."""
    wanted = {
        " ".join(make_pieces(number, index, size)).encode()
        for number in range(processes)
        for index in range(lines)
    }
    return len(wanted.intersection(data.split(b"\n")))


def run_writer(options: argparse.Namespace) -> int:
    """Be one of the processes that write: wait until all are there, then write."""
    write = printflock if options.writer == "printflock" else print
    number, lines, size = options.number, options.lines, options.line_bytes
    os.write(options.ready, b".")
    os.close(options.ready)
    sys.stdin.read()
    for index in range(lines):
        write(*make_pieces(number, index, size), flush=True)
    return 0


def collect_lines(
    way: Way, processes: int, lines: int, environ: Mapping[str, str], stop: StopSign
) -> tuple[bytes, float]:
    """Let so many processes write into one pipe at once; what came out, and the seconds it took.

    Raises Stopped with all of them ended, and WrongUse where one of them failed.
    """
    command = [
        sys.executable,
        *(["-u"] if way.is_unbuffered else []),
        str(Path(__file__).resolve()),
    ]
    command += ["--writer", "printflock" if way.uses_lock else "print"]
    command += ["--lines", str(lines), "--line_bytes", str(way.line_bytes)]
    plain = {name: text for name, text in environ.items() if name != "PYTHONUNBUFFERED"}
    writers: list[subprocess.Popen[bytes]] = []
    with contextlib.ExitStack() as stack:
        begin, go = (stack.enter_context(end) for end in open_pipe())
        output, target = (stack.enter_context(end) for end in open_pipe())
        arrivals, ready = (stack.enter_context(end) for end in open_pipe())
        command += ["--ready", str(ready.fileno()), "--number"]
        stack.callback(end_writers, writers)
        for number in range(processes):
            writers.append(
                subprocess.Popen(
                    [*command, str(number)],
                    stdin=begin,
                    stdout=target,
                    env=plain,
                    pass_fds=[ready.fileno()],
                    start_new_session=True,
                )
            )
        for end in (begin, target, ready):
            end.close()
        for _ in read_pipe(arrivals, stop):  # it ends when all writers have started
            pass
        started = time.monotonic()
        go.close()  # all of them read the end of their input now, and write
        parts = list(read_pipe(output, stop))
        seconds = time.monotonic() - started
        for writer in writers:
            if writer.wait(timeout=10) != 0:
                raise WrongUse(f"a process that writes ended with status {writer.returncode}")
    return b"".join(parts), seconds


def read_pipe(pipe: io.FileIO, stop: StopSign) -> Iterator[bytes]:
    """What comes out of a pipe, until all that write into it have closed it. Raises Stopped."""
    while True:
        stop.check()
        if select.select([pipe], [], [], 0.1)[0]:
            part = os.read(pipe.fileno(), 65536)
            if not part:
                return
            yield part


def open_pipe() -> tuple[io.FileIO, io.FileIO]:
    """Both ends of a new pipe: the one to read from and the one to write to."""
    reader, writer = os.pipe()
    return io.FileIO(reader, "r"), io.FileIO(writer, "w")


def end_writers(writers: Sequence[subprocess.Popen[bytes]]) -> None:
    """End the processes that still run."""
    for writer in writers:
        if writer.poll() is None:
            writer.kill()
            writer.wait()


def make_way_row(way: Way, processes: int, lines: int, data: bytes, seconds: float) -> Row:
    """One row of results."""
    total = processes * lines
    whole = count_whole(data, processes, lines, way.line_bytes)
    return {
        "way": way.name,
        "lock": way.uses_lock,
        "unbuffered": way.is_unbuffered,
        "line_bytes": way.line_bytes,
        "processes": processes,
        "lines": total,
        "lines_whole": whole,
        "lines_torn": total - whole,
        "bytes_lost": total * way.line_bytes - len(data),
        "seconds": round(seconds, 6),
        "verdict": "whole" if whole == total else "torn",
    }


def find_torn_line(data: bytes) -> str:
    """A line that is not as it was written, cut down to what shows it; empty where all are well."""
    for line in data.split(b"\n"):
        words = line.decode("ascii", "replace").split(" ")
        known = len(words) == 3 and words[0] == words[2] and len(set(words[1])) == 1
        if line and not known:
            # A long run of one letter says no more than its first and last few.
            return re.sub(r"([a-z])\1{6,}", r"\1\1\1..\1\1\1", " ".join(words))[:100]
    return ""


def print_report(rows: Sequence[Row], notes: Sequence[str]) -> int:
    """The table to stdout, notes and problems to stderr; how many of these there were."""
    cells = [
        [
            row["way"],
            str(row["line_bytes"]),
            str(row["lines"]),
            str(row["lines_torn"]),
            str(row["bytes_lost"]),
            f"{row['seconds']:.2f}",
            row["verdict"],
        ]
        for row in rows
    ]
    headings = ["way", "line bytes", "lines", "torn", "bytes lost", "seconds", "verdict"]
    is_printed = not cells or print_to_stdout(format_table(headings, cells))
    for note in notes:
        write_note(note)
    problems = [
        f"{row['way']}: {row['lines_torn']} of {row['lines']} lines torn"
        for row in rows
        if row["lock"] and row["verdict"] != "whole"
    ]
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    return len(problems) + (not is_printed)


def show_difference(
    options: argparse.Namespace, command: Sequence[str], stop: StopSign, origin: float
) -> int:
    """Let processes write in each of the ways, print and write what arrived; the exit status."""
    rows: list[Row] = []
    caveats: list[str] = []
    stopped = ""
    with tempfile.TemporaryDirectory(prefix="printflock_") as folder:
        environ = {**os.environ, FOLDER_NAME: folder}
        try:
            for way in list_ways(options.line_bytes):
                data, seconds = collect_lines(way, options.processes, options.lines, environ, stop)
                rows.append(make_way_row(way, options.processes, options.lines, data, seconds))
                torn = find_torn_line(data)
                if torn:
                    write_note(f"{way.name}: for example {torn}")
        except Stopped as reason:
            stopped = str(reason)
    if not stopped and all(row["verdict"] == "whole" for row in rows):
        caveats.append("nothing interleaved without the lock either: try more --lines")
    if stopped:
        caveats.append(f"{stopped}, after {len(rows)} of {len(list_ways(options.line_bytes))} ways")
    problems = print_report(rows, caveats)
    if options.json:
        document = {
            **make_document_head("printflock", (__version__, METHOD), command, origin),
            "complete": not stopped,
            "units": UNITS,
            "results": rows,
            "caveats": caveats,
            "details": {
                "pipe_buf_bytes": PIPE_BYTES,
                "platform": f"{platform.system()} {platform.machine()}",
                "python": platform.python_version(),
            },
        }
        write_document(options.json, document)
    return 1 if problems or stopped else 0


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


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def run_self_test() -> int:
    """Check the folder of the lock, the lock itself and a demonstration; 0, or 1."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    check("job 77 has a lock of its own", name_job({"SLURM_JOB_ID": "77"}) == "77")
    check("a job's name stays in the folder", name_job({"PBS_JOBID": "../x y"}) == "___x_y")
    first, second = make_pieces(3, 12, SHORT_BYTES)
    check("a line is as long as it says", len(f"{first} {second}\n") == SHORT_BYTES)
    before = {name: os.environ.get(name) for name in (FOLDER_NAME, *JOB_NAMES)}
    with tempfile.TemporaryDirectory(prefix="printflock_") as name:
        os.environ[FOLDER_NAME] = name
        try:
            folder = Path(name) / f"printflock-{os.geteuid()}"
            with hold_lock() as is_held:
                mode = stat.S_IMODE(folder.stat().st_mode)
                check("the folder is for its owner alone", is_held and mode == 0o700)
                number = open_lock()
                blocked = number is not None and not can_lock(number)
                check("nobody else gets the lock meanwhile", blocked)
            check("and then they do", number is not None and can_lock(number))
            if number is not None:
                release_lock(number)
            lost = io.StringIO()
            printflock("a", 1, sep="-", end=".", file=lost)
            check("a stream without a file is written as print does", lost.getvalue() == "a-1.")
            folder.rename(folder.with_name("elsewhere"))
            folder.symlink_to("elsewhere")
            try:
                open_lock_in(Path(name), "x.lock")
                refused = False
            except OSError:
                refused = True
            check("a folder that is a link is refused", refused)
        finally:
            for variable, text in before.items():
                os.environ.pop(variable, None)
                if text is not None:
                    os.environ[variable] = text
        environ = {**os.environ, FOLDER_NAME: name}
        folder.unlink()
        way = Way("printflock, long", True, False, 3 * PIPE_BYTES)
        data, seconds = collect_lines(way, 3, 30, environ, StopSign())
        row = make_way_row(way, 3, 30, data, seconds)
        check("90 long lines of 3 processes arrive whole", row["verdict"] == "whole")
        check("and nothing is lost", row["bytes_lost"] == 0)
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def can_lock(number: int) -> bool:
    """Whether the lock is free for this open file; it is taken then."""
    import fcntl

    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="printflock.py",
        description="Show how prints of several processes interleave, and how printflock does not.",
        epilog="The docstring at the top of this file tells how to use printflock in a program.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--processes",
        type=parse_count,
        default=8,
        metavar="N",
        help="that print, 2 or more (default: 8)",
    )
    parser.add_argument(
        "--lines", type=parse_count, default=500, metavar="N", help="of each of them (default: 500)"
    )
    parser.add_argument(
        "--line_bytes",
        type=parse_count,
        default=5 * PIPE_BYTES,
        metavar="N",
        help=f"of a long line (default: {5 * PIPE_BYTES}, five times PIPE_BUF)",
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"printflock {__version__} (method {METHOD})"
    )
    # What this tool tells the processes that it starts.
    parser.add_argument("--writer", choices=("print", "printflock"), help=argparse.SUPPRESS)
    parser.add_argument("--number", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--ready", type=int, default=-1, help=argparse.SUPPRESS)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    stop = StopSign()
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        if options.writer:
            return run_writer(options)
        check_json_path(options.json)
        if options.line_bytes <= PIPE_BYTES:
            raise WrongUse(f"--line_bytes: a long line has more than {PIPE_BYTES} bytes here")
        if options.processes > 1000:
            raise WrongUse("--processes: at most 1000")
        if options.processes < 2:
            raise WrongUse("--processes: 2 or more, for lines of one alone cannot be mixed up")
        stop.listen()
        return show_difference(options, make_portable_command(arguments), stop, origin)
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a run listens for signals itself
        print("stopped", file=sys.stderr)
        return 1


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
    sys.exit(run_to_stdout(main))
