#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Has this job stopped moving, and which rank stands somewhere else than all the others?

A job that hangs looks like one that works: processes run, GPUs show 100 %, nobody says anything.
This watchdog looks at what the job writes. Where nothing new came for --timeout it takes the
Python stacks of all ranks (py-spy, from outside, the job need not help), merges them into one tree
with ranges of ranks, and names those first that are alone somewhere.

What is watched
    output      `run`: whatever the command writes, unless --log or --heartbeat name something
                better; it is passed through unchanged
    --log       files of which at least one has to grow or change
    --heartbeat files of which every one has to change: one for each rank. One that is removed is
                no longer watched; that none has come at all is a silence, too
    A job that Slurm has not started, or has suspended, is not silent.
What is done then
    Always, and first: stacks of all ranks, saved as one JSON file for each, and the merged report.
    Then what --then asks for, in that order: mail:ADDRESS, command:SHELL COMMAND, kill, scancel.
    Nothing is ever killed unasked, and not where the job has moved meanwhile. Once for each hang,
    and again only after something new was seen; --out remembers that across restarts of the
    watchdog, for the same job. A full disk stops none of it. A mail or a command that fails is
    tried again, five times in all; kill and scancel after it wait for that, five minutes at most.
    What is still open when the run ends is tried once more; where that fails it is told as lost.
    The mail has the report, the job's number and name, the command up to its program (arguments
    may be secret) and the folder of the stacks.
    A command finds the report in HANG_REPORT, its folder in HANG_FOLDER, the sentence that names
    the odd ones in HANG_SUMMARY, the job in HANG_JOB.
Whose stacks
    --pid       the processes below these: torchrun, accelerate, a shell
    --match     Python processes of this user whose command line fits a regular expression
    --job       of a Slurm job, or of one task of an array, 1234_5, on all its nodes, over
                `srun --overlap` (this file and its Python have to be on a shared file system)
    Where the environment has ranks (torchrun's, else RANK and WORLD_SIZE, else Slurm's or Open
    MPI's) the outermost Python process of each rank is taken: no workers of a DataLoader, no
    launcher.
    kill ends the processes of --pid and --match and all below them, be they Python or not.

How stacks are merged
    As STAT does it: a stack is a path from `<module>` to the innermost call, equal beginnings are
    one branch, and each branch carries its ranks. A place is the function that the user's own code
    (outside of site-packages and the standard library) called, of a library too, decorators left
    out, and where: `all_reduce at train.py:41`; its own function where it called none in Python
    (`time.sleep` is none, `Event.wait` is one). A rank is odd where it is not at the place where
    most ranks are. Hand check: stacks a>b>c of ranks 0, 1, 3 and a>d of rank 2 are a[0-3], below it
    d[2] and b[0-1,3] > c[0-1,3]; rank 2 is odd.

How to run
    wrap it         python hang_watchdog.py run --timeout 10m -- torchrun --nproc_per_node 8 \
                        train.py
    beside it       python hang_watchdog.py watch --pid PID --log train.log --timeout 10m
    Slurm           python hang_watchdog.py watch --job JOBID --log 'logs/*.out' --timeout 20m \
                        --then mail:you@example.org --then scancel
    in a batch file python hang_watchdog.py run --timeout 20m -- srun python train.py
    now, at once    python hang_watchdog.py dump --job JOBID
    pdsh            pdsh -w node[01-08] python /shared/hang_watchdog.py dump --match train.py \
                        --out /shared/dumps
                    python hang_watchdog.py merge /shared/dumps
    no py-spy       --faulthandler USR1 --faulthandler_file '/tmp/stacks.{pid}', where the program
                    has faulthandler.register(signal.SIGUSR1, file=..., all_threads=True). The
                    signal is sent only to processes that have a handler for it
    py-spy          pip install py-spy. It takes root, or kernel.yama.ptrace_scope=0
    A timeout below the longest silence of a healthy job (a checkpoint, an evaluation) rings for
    nothing; for imports, loading and compiling there is --first: for so long from its start (also
    from when Slurm lets it go on) nothing is a hang, whatever a launcher prints meanwhile. Under
    `run` Python's output is not buffered (PYTHONUNBUFFERED=1, unless it is set, be it to nothing):
    a line that waits in a buffer looks like silence, and lines of many ranks may mix.

A good answer: nothing, and the job's own end. Otherwise: "rank 2 in load_shard at data.py:12; ranks
0-1,3 in all_reduce at train.py:41": rank 2 is where to look; the others wait for it.

Seen running: torchrun with gloo on one machine, Slurm 22.05 with two nodes, py-spy 0.4.

Exit status: 0 no hang, or done; 1 a hang was seen, no stack was to be had, or stopped by a signal;
2 wrong use. `run` has the status of its command, as a shell gives it.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import base64
import collections
import concurrent.futures
import contextlib
import datetime
import email.message
import errno
import functools
import getpass
import glob
import io
import itertools
import json
import math
import os
import re
import select
import shutil
import signal
import smtplib
import socket
import subprocess
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO, cast

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
# fmt: off
PROFILES = {
    "toy": ["--toy"],
    "full": ["--toy", "--ranks", "16"],
}
# fmt: on

# The unit of each column of the JSON's results that holds numbers.
UNITS = {"count": "1", "line": "1"}

DUMP_KIND = "hang_watchdog dump"
FILE_FORMAT = 1
# Whose word on its rank counts most; a launcher's own processes have the words further down.
LAUNCHERS = {
    "torchrun": ("RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"),
    "environment": ("RANK", "WORLD_SIZE"),
    "slurm": ("SLURM_PROCID", "SLURM_NTASKS"),
    "mpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
}
# What stands between the user's code and the function that it called.
WRAPPERS = frozenset(
    ("wrapper", "inner", "_fn", "_call_impl", "_wrapped_call_impl", "__call__", "decorate_context")
)
COLLECTIVE_FILES = ("distributed_c10d.py", "_functional_collectives.py")
LIBRARY_FOLDERS = ("/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3")
ACTIONS = ("mail", "command", "kill", "scancel")
# They end the run, and with it the chance to try others again.
ENDING_ACTIONS = ("kill", "scancel")
TRIES = 5
# Between two tries, and between those that an ending action waits for; for so long at the most.
RETRY_SECONDS = 60.0
HELD_RETRY_SECONDS = 15.0
HOLD_SECONDS = 300.0
# A file system that has not answered by then hangs.
LOOK_SECONDS = 10.0
SAVE_SECONDS = 60.0
COMMAND_SECONDS = 120
SLURM_SECONDS = 30
MAIL_SECONDS = 20
# Processes that were asked to end have so long before they are killed.
GRACE_SECONDS = 10
# A line of srun's output that is longer may come in pieces.
WIRE_CHARACTERS = 800
WIRE_MARK = "hang-dump"
RUNNING_STATES = ("RUNNING", "COMPLETING", "STAGE_OUT")
# More than any job has ranks, and any machine process numbers.
MOST_RANKS = 1 << 22
SHOWN_GROUPS = 40
SHOWN_BRANCHES = 400
# What is silent where no rank has written a heartbeat yet.
NO_HEARTBEAT = "no heartbeat yet"

Row = dict[str, Any]

# Slurm itself takes no more in one range.
MOST_HOSTS = 65536


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


class HangAction(NamedTuple):
    """What is done at a hang, beside taking stacks."""

    kind: str
    argument: str


class RankProcess(NamedTuple):
    """A process whose stack is taken. Its number and its start together name it for good."""

    pid: int
    started: int
    rank: int | None
    size: int | None
    launcher: str | None
    command: str


class StackFrame(NamedTuple):
    """One line of a stack, as far as it says where a rank is."""

    function: str
    file: str
    line: int
    is_library: bool


class StackEntry(NamedTuple):
    """A thread of a rank, with its stack from the innermost call outwards."""

    rank: int
    thread: str
    frames: tuple[StackFrame, ...]


class StackBranch:
    """A call in the tree: who came through it, and who is in it and no deeper."""

    def __init__(self, frame: StackFrame | None) -> None:
        self.frame = frame
        self.ranks: set[int] = set()
        self.ends: list[tuple[int, str]] = []
        self.children: dict[tuple[str, str, int], StackBranch] = {}


class PlaceGroup(NamedTuple):
    """Ranks that are at one place."""

    place: str
    ranks: list[int]
    entries: list[StackEntry]
    in_collective: bool


class DumpSettings(NamedTuple):
    """How stacks are taken."""

    py_spy: str | None
    native: bool
    seconds: float
    signal_number: int | None
    signal_file: str | None


def parse_duration(text: str) -> float:
    """Seconds from `90`, `45s`, `10m`, `1h30m`."""
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", text.strip())
    if not text.strip() or found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no duration: write 90s, 10m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    total = 3600 * hours + 60 * minutes + seconds
    if total <= 0:
        raise argparse.ArgumentTypeError(f"'{text}': a duration has to be longer than nothing")
    return total


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def parse_hang_action(text: str) -> HangAction:
    """`mail:ADDRESS`, `command:SHELL COMMAND`, `kill` or `scancel`."""
    kind, colon, argument = text.partition(":")
    if kind not in ACTIONS:
        raise argparse.ArgumentTypeError(
            f"'{text}': write mail:ADDRESS, command:SHELL COMMAND, kill or scancel"
        )
    if bool(argument.strip()) is not (kind in ("mail", "command")):
        wanted = "needs something after the colon" if kind in ("mail", "command") else "takes none"
        raise argparse.ArgumentTypeError(f"'{text}': {kind} {wanted}")
    if colon and kind == "mail" and ("@" not in argument or re.search(r"[\s,]", argument)):
        raise argparse.ArgumentTypeError(f"'{text}': '{argument}' is no mail address")
    return HangAction(kind, argument.strip())


def parse_dump_signal(text: str) -> int:
    """The number of USR1, SIGUSR2 and their like: one whose default does not stop a process."""
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    if name not in ("SIGUSR1", "SIGUSR2", "SIGRTMIN", "SIGRTMAX") or not hasattr(signal, name):
        raise argparse.ArgumentTypeError(f"'{text}' is no signal for this: write USR1 or USR2")
    return int(getattr(signal, name))


def parse_pattern(text: str) -> re.Pattern[str]:
    """A regular expression."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no regular expression: {error}") from error


def parse_watched_job(text: str) -> str:
    """A job of Slurm: `1234`, `1234_5` (an array's task), `1234+1`."""
    if not re.fullmatch(r"\d+([_+]\d+)?", text):
        raise argparse.ArgumentTypeError(f"'{text}' is no job of Slurm: write 1234 or 1234_5")
    return text


def parse_mail_server(text: str) -> tuple[str, int]:
    """`HOST` or `HOST:PORT` of a mail server."""
    host, colon, port = text.partition(":")
    if not host or (colon and not (port.isdigit() and 0 < int(port) < 65536)):
        raise argparse.ArgumentTypeError(f"'{text}' is no mail server: write HOST or HOST:25")
    return host, int(port or 25)


def split_nodelist(text: str) -> list[str]:
    """The parts of a list of hosts, at the commas outside of brackets. Raises WrongUse."""
    part = r"(?:[^,\[\]\s]|\[[^\[\]\s]*\])+"
    if not re.fullmatch(f"{part}(?:,+{part})*,*", text.strip()):
        raise WrongUse(f"'{text}' is no list of hosts: write node[01-04,7] or a,b,c")
    return re.findall(part, text)


def read_number_range(text: str, item: str) -> range:
    """`7` or `01-04` as numbers. Raises WrongUse for anything else, and for too many."""
    found = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", item, re.ASCII)
    if found is None:
        raise WrongUse(f"'{text}' is no list of hosts: '{item}' is no range of numbers")
    first, last = int(found.group(1)), int(found.group(2) or found.group(1))
    if last < first:
        raise WrongUse(f"'{text}' is no list of hosts: '{item}' runs backwards")
    if last - first >= MOST_HOSTS:
        raise WrongUse(f"'{text}' has more than {MOST_HOSTS} hosts")
    return range(first, last + 1)


def expand_nodelist(text: str) -> list[str]:
    """The hosts of a list as Slurm writes it, `node[01-03,7],login` say, in Slurm's order.

    Raises WrongUse where it is none.
    """
    hosts: list[str] = []
    for part in split_nodelist(text):
        pieces = re.split(r"\[([^\]]*)\]", part)
        texts, brackets = pieces[::2], pieces[1::2]
        choices = []
        for bracket in brackets:
            items = [(item, read_number_range(part, item)) for item in bracket.split(",")]
            width = {item: len(item.partition("-")[0]) for item, _ in items}
            choices.append([str(n).zfill(width[item]) for item, numbers in items for n in numbers])
        if len(hosts) + math.prod(map(len, choices)) > MOST_HOSTS:
            raise WrongUse(f"'{text}' has more than {MOST_HOSTS} hosts")
        # Slurm counts the last bracket fastest, then the first, the second and so on.
        order = [*range(len(choices) - 2, -1, -1), len(choices) - 1] if choices else []
        for numbers in itertools.product(*(choices[place] for place in order)):
            by_place = dict(zip(order, numbers, strict=True))
            names = [by_place[place] for place in range(len(choices))] + [""]
            hosts.append("".join(map("".join, zip(texts, names, strict=True))))
    return hosts


def format_rank_list(ranks: Iterable[int]) -> str:
    """`0-2,5`: numbers in as few words as they take, as Slurm writes them."""
    spans: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def name_ranks(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 0-2,5`."""
    return f"rank{'' if len(ranks) == 1 else 's'} {format_rank_list(ranks)}"


# --- processes of this machine ---


def read_process_stat(pid: int, proc: Path = Path("/proc")) -> tuple[int, int, str] | None:
    """Parent, start in clock ticks since boot, and state letter; None: it is not there."""
    try:
        fields = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return int(fields[1]), int(fields[19]), fields[0]
    except (OSError, IndexError, ValueError):
        return None


def read_block(pid: int, name: str) -> list[str]:
    """The parts of `environ` or `cmdline` of a process; empty where they may not be read."""
    try:
        text = Path(f"/proc/{pid}/{name}").read_bytes().decode("utf-8", "replace")
    except OSError:
        return []
    return text.rstrip("\0").split("\0") if text else []


def read_process_environment(pid: int) -> dict[str, str]:
    """The environment with which a process was started."""
    pairs = (part.partition("=") for part in read_block(pid, "environ"))
    return {name: value for name, equals, value in pairs if equals}


def list_parents() -> dict[int, int]:
    """Each process of this machine that is no zombie, with its parent."""
    parents = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            stat = read_process_stat(int(folder.name))
            if stat is not None and stat[2] not in "ZX":
                parents[int(folder.name)] = stat[0]
    return parents


def find_descendants(roots: Iterable[int], parents: Mapping[int, int]) -> list[int]:
    """The roots that are there and everything below them, parents before children."""
    children: dict[int, list[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found = list(dict.fromkeys(root for root in roots if root in parents))
    known = set(found)
    for pid in found:  # grows on the way
        new = [child for child in sorted(children.get(pid, [])) if child not in known]
        known.update(new)
        found += new
    return found


def is_python(pid: int) -> bool:
    """Whether a process runs Python: by its program, or by the library in its memory."""
    try:
        if Path(f"/proc/{pid}/exe").readlink().name.startswith(("python", "pypy")):
            return True
        return "/libpython" in Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return False


def is_watchdog(words: Sequence[str]) -> bool:
    """Whether a command line is that of a watchdog; those of its demonstration are ranks."""
    return any(Path(word).name == Path(__file__).name for word in words[:6]) and "rank" not in words


def name_launcher(environ: Mapping[str, str]) -> tuple[str | None, int | None, int | None]:
    """Whose word on the rank there is, the rank, and how many there are."""
    for launcher, names in LAUNCHERS.items():
        if all(name in environ for name in names) and environ[names[0]].isdigit():
            size = environ[names[1]]
            return launcher, int(environ[names[0]]), int(size) if size.isdigit() else None
    return None, None, None


def choose_rank_processes(pids: Sequence[int], parents: Mapping[int, int]) -> list[RankProcess]:
    """Of these processes the ranks: the outermost Python process of each.

    Of several launchers that have a word, that of the ranks counts, not that of what started them.
    """
    found: dict[int, RankProcess] = {}
    for pid in pids:
        stat = read_process_stat(pid)
        words = read_block(pid, "cmdline")
        if stat is None or not words or not is_python(pid) or is_watchdog(words):
            continue
        launcher, rank, size = name_launcher(read_process_environment(pid))
        command = " ".join([Path(words[0]).name, *words[1:]])[:200]
        found[pid] = RankProcess(pid, stat[1], rank, size, launcher, command)
    launchers = {one.launcher for one in found.values()}
    best = next((name for name in LAUNCHERS if name in launchers), None)
    found = {pid: one for pid, one in found.items() if one.launcher == best}

    def has_elder(one: RankProcess) -> bool:
        """Whether a process further out is the same rank."""
        pid = parents.get(one.pid, 0)
        while pid > 1:
            if pid in found and found[pid].rank == one.rank:
                return True
            pid = parents.get(pid, 0)
        return False

    return sorted(
        (one for one in found.values() if not has_elder(one)),
        key=lambda one: (-1 if one.rank is None else one.rank, one.pid),
    )


def find_matching(pattern: re.Pattern[str], parents: Mapping[int, int]) -> list[int]:
    """This user's Python processes whose command line fits, without watchdogs; an editor that has
    the program open is none."""
    found = []
    for pid in sorted(parents):
        words = read_block(pid, "cmdline")
        try:
            is_own = Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
        except OSError:
            continue
        fits = is_own and words and pattern.search(" ".join(words))
        if fits and is_python(pid) and not is_watchdog(words):
            found.append(pid)
    return found


def find_job_processes(job: str, parents: Mapping[int, int]) -> list[int]:
    """The processes of a Slurm job on this node, without those of this step."""
    own = os.environ.get("SLURM_STEP_ID") if os.environ.get("SLURM_JOB_ID") == job else None
    found = []
    for pid in sorted(parents):
        environ = read_process_environment(pid)
        if environ.get("SLURM_JOB_ID") == job:
            step = environ.get("SLURM_STEP_ID")
            if own is None or step != own:
                found.append(pid)
    return found


def describe_state(pid: int) -> str:
    """In a few words what a process without a stack is doing."""
    stat = read_process_stat(pid)
    if stat is None:
        return "it is gone"
    if stat[2] in "ZX":
        return "it has ended"
    if stat[2] in "Tt":
        return "it is stopped (state T: SIGSTOP, or a debugger)"
    if stat[2] == "D":
        with contextlib.suppress(OSError):
            where = Path(f"/proc/{pid}/wchan").read_text().strip()
            return f"it waits in the kernel (state D, {where}): a file system or a driver hangs"
        return "it waits in the kernel (state D): a file system or a driver hangs"
    return f"it is in state {stat[2]}"


# --- stacks ---


def find_py_spy(asked: str | None) -> str | None:
    """The program py-spy: the one asked for, the one beside this Python, or that on the path.

    Raises WrongUse where the one asked for is not there.
    """
    if asked is not None:
        found = shutil.which(asked)
        if found is None:
            raise WrongUse(f"--py_spy: there is no program {asked}")
        return found
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")


def run_py_spy(pid: int, settings: DumpSettings, seconds: float) -> tuple[list[Row], str | None]:
    """The threads of a process by py-spy, or none and the reason."""
    if settings.py_spy is None:
        return [], "py-spy is not there: pip install py-spy"
    command = [settings.py_spy, "dump", "--json", "--pid", str(pid)]
    if settings.native:
        command.append("--native")
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
            env={**os.environ, "RUST_BACKTRACE": "0"},
        )
        if done.returncode == 0:
            return [read_py_spy_thread(thread, pid) for thread in json.loads(done.stdout)], None
        words = explain_py_spy(done.stderr)
    except subprocess.TimeoutExpired:
        words = f"py-spy had no answer within {seconds:.0f} s"
    except (OSError, ValueError, KeyError, TypeError) as error:
        words = f"py-spy: {str(error).splitlines()[0]}"
    return [], words


def explain_py_spy(said: str) -> str:
    """py-spy's own words in one line, and what to do where it was not allowed to look."""
    lines = [re.sub(r"^(Error|\d+): ", "", line.strip()) for line in said.splitlines()]
    lines = [line for line in lines if line and line != "Caused by:"]
    if re.search(r"permission denied|operation not permitted", said, re.IGNORECASE):
        return (
            "py-spy may not look: run as root, or sysctl kernel.yama.ptrace_scope=0, or use "
            "--faulthandler"
        )
    return f"py-spy: {'; '.join(dict.fromkeys(lines[:2]))[:200] or 'it failed'}"


def read_py_spy_thread(thread: Mapping[str, Any], pid: int) -> Row:
    """A thread of py-spy's JSON in the form of a dump."""
    name = thread.get("thread_name") or f"thread {thread['thread_id']}"
    return {
        "name": name,
        "is_main": name == "MainThread" or thread.get("os_thread_id") == pid,
        "active": bool(thread.get("active")),
        "frames": [
            {
                "function": frame["name"],
                "file": frame["filename"],
                "short": frame.get("short_filename") or Path(frame["filename"]).name,
                "line": max(0, frame.get("line") or 0),
            }
            for frame in thread["frames"]
        ],
    }


def has_handler(pid: int, number: int) -> bool:
    """Whether a process has a handler of its own for a signal: without one it would end it."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    found = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return found is not None and bool(int(found.group(1), 16) >> (number - 1) & 1)


def ask_faulthandler(
    one: RankProcess, settings: DumpSettings, seconds: float
) -> tuple[list[Row], str | None]:
    """The threads of a process as its own faulthandler writes them, or none and the reason."""
    assert settings.signal_number is not None
    assert settings.signal_file is not None
    number = settings.signal_number
    name = signal.Signals(number).name
    if not has_handler(one.pid, number):
        return [], f"the program has no handler for {name}, so it was not sent"
    rank = "" if one.rank is None else str(one.rank)
    path = Path(settings.signal_file.replace("{pid}", str(one.pid)).replace("{rank}", rank))
    try:
        before = path.stat().st_size if path.exists() else 0
        os.kill(one.pid, number)
        deadline = time.monotonic() + min(seconds, 5.0)
        text, settled = "", 0
        # It writes line by line, and does not say when it is done.
        while time.monotonic() < deadline and (settled < 3 or not text):
            time.sleep(0.05)
            found = path.read_bytes()[before:].decode("utf-8", "replace") if path.exists() else ""
            settled = settled + 1 if found == text else 0
            text = found
    except OSError as error:
        return [], f"{name}: {error.strerror}"
    threads = parse_faulthandler(text)
    if not threads:
        return [], f"{name} was sent, and {path.name} got no stack"
    return threads, None


def parse_faulthandler(text: str) -> list[Row]:
    """The threads of a text that faulthandler has written."""
    threads: list[Row] = []
    for line in text.splitlines():
        head = re.match(r"(?:Current thread|Thread) (0x[0-9a-f]+)(?: \[(.+?)\])?", line)
        if head:
            name = head.group(2) or f"thread {head.group(1)}"
            threads.append({"name": name, "is_main": False, "active": False, "frames": []})
            continue
        found = re.match(r'  File "(.*)", line (\d+|\?\?\?) in (.+)$', line)
        if found and threads:
            file, number, function = found.groups()
            threads[-1]["frames"].append(
                {
                    "function": function,
                    "file": file,
                    "short": shorten_file(file),
                    "line": int(number) if number.isdigit() else 0,
                }
            )
    for thread in threads:
        # The main thread is the one that began with the script.
        if thread["frames"] and thread["frames"][-1]["function"] == "<module>":
            thread["is_main"] = True
            thread["name"] = "MainThread"
    return [thread for thread in threads if thread["frames"]]


def shorten_file(file: str) -> str:
    """A file's name as py-spy shortens it: from the package on, or the name alone."""
    for folder in ("/site-packages/", "/dist-packages/"):
        if folder in file:
            return file.rpartition(folder)[2]
    return Path(file).name


def dump_process(one: RankProcess, settings: DumpSettings, deadline: float) -> Row:
    """The dump of one rank, with stacks, or with the reason why there are none."""
    seconds = max(1.0, (deadline - time.monotonic()) / 2)
    threads, error = run_py_spy(one.pid, settings, seconds)
    source = "py-spy" if threads else None
    if not threads and settings.signal_number is not None:
        threads, other = ask_faulthandler(one, settings, seconds)
        source = "faulthandler" if threads else None
        error = None if threads else f"{error}; {other}"
    if not threads:
        error = f"{describe_state(one.pid)}; {error}"
    taken = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "kind": DUMP_KIND,
        "format": FILE_FORMAT,
        "taken": taken,
        "host": socket.gethostname(),
        "rank": one.rank,
        "size": one.size,
        "pid": one.pid,
        "launcher": one.launcher,
        "command": one.command,
        "by": source,
        "error": error,
        "threads": threads,
    }


def dump_processes(ranks: Sequence[RankProcess], settings: DumpSettings) -> list[Row]:
    """The dumps of all these ranks, several at a time, within the time for all of them."""
    deadline = time.monotonic() + settings.seconds
    workers = min(32, max(1, len(ranks)))
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        return list(pool.map(lambda one: dump_process(one, settings, deadline), ranks))


# --- a Slurm job ---


def ask_slurm_program(*command: str) -> tuple[int, str, str]:
    """Status, output and first words of complaint of a Slurm command. Raises WrongUse where there
    is no Slurm."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=SLURM_SECONDS, check=False
        )
    except FileNotFoundError as error:
        raise WrongUse(f"{command[0]} is not there: --job is for a machine with Slurm") from error
    except subprocess.TimeoutExpired:
        return 1, "", f"{command[0]} had no answer within {SLURM_SECONDS} s"
    words = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
    return done.returncode, done.stdout, words[0].removeprefix(f"{command[0]}: ")


class WatchedJob(NamedTuple):
    """What Slurm says of a job: `state` is None where it does not answer, GONE where it is no
    longer known."""

    number: str
    state: str | None
    nodes: str


def name_own_job(environ: Mapping[str, str]) -> str | None:
    """The job that this process is a part of; of an array its task alone: the last task of an
    array has the number of the whole for its own."""
    array = environ.get("SLURM_ARRAY_JOB_ID"), environ.get("SLURM_ARRAY_TASK_ID")
    return "_".join(map(str, array)) if all(array) else environ.get("SLURM_JOB_ID")


def check_watched_job(job: str) -> None:
    """Raises WrongUse for an array as a whole: its tasks hang, and are ended, one by one."""
    status, said, _ = ask_slurm_program("squeue", "--noheader", f"--jobs={job}", "--format=%F|%K")
    lines = [line.split("|") for line in said.splitlines()] if status == 0 else []
    if any(line[0] == job and line[-1] != "N/A" for line in lines):
        raise WrongUse(f"--job: {job} is an array: name one of its tasks, {job}_1 say")


def read_watched_job(job: str) -> WatchedJob:
    """The job's number, state and nodes."""
    status, said, complaint = ask_slurm_program(
        "squeue", "--noheader", f"--jobs={job}", "--format=%A|%T|%N"
    )
    if status and "Invalid job id" in complaint:
        return WatchedJob(job, "GONE", "")
    if status:
        return WatchedJob(job, None, "")
    lines = [line.split("|") for line in said.splitlines() if line.count("|") == 2]
    if not lines:
        return WatchedJob(job, "GONE", "")
    return WatchedJob(*lines[0])


def find_job_name(job: str) -> str:
    """The name of a job; empty where Slurm does not tell."""
    if job == name_own_job(os.environ) and os.environ.get("SLURM_JOB_NAME"):
        return os.environ["SLURM_JOB_NAME"]
    with contextlib.suppress(WrongUse):
        status, said, _ = ask_slurm_program("squeue", "--noheader", f"--jobs={job}", "--format=%j")
        if status == 0:
            return (said.strip().splitlines() or [""])[0].strip()
    return ""


def shorten_command(words: Sequence[str]) -> str:
    """A command up to the script or module that it runs, or its first word: what comes later is
    left out, and before it values behind `=` or of options that are named after a secret."""
    ends = [
        number
        for number, word in enumerate(words)
        if (number and words[number - 1] == "-m")
        or (word.endswith((".py", ".sh")) and "=" not in word)
    ]
    end = min(ends, default=0)
    shown = []
    for before, word in zip(["", *words], words[: end + 1], strict=False):
        is_named = before.startswith("-") and "=" not in before
        if is_named and re.search(r"key|token|secret|passw", before, re.IGNORECASE):
            shown.append("...")
        else:
            shown.append(f"{word.partition('=')[0]}=..." if "=" in word else word)
    return " ".join([*shown, *(["..."] if len(words) > end + 1 else [])])[:200]


def find_job_logs(job: str) -> list[str]:
    """The files that a batch job writes to, as Slurm tells."""
    status, said, _ = ask_slurm_program("scontrol", "--oneliner", "show", "job", job)
    found = re.findall(r"\bStd(?:Out|Err)=(\S+)", said) if status == 0 else []
    return list(dict.fromkeys(path for path in found if path != "/dev/null"))


def encode_dump(host: str, dump: Mapping[str, Any]) -> Iterator[str]:
    """A dump in short lines that many nodes can write to one stream."""
    packed = base64.b85encode(zlib.compress(json.dumps(dump).encode())).decode("ascii")
    pieces = [packed[i : i + WIRE_CHARACTERS] for i in range(0, len(packed), WIRE_CHARACTERS)]
    for number, piece in enumerate(pieces):
        yield f"{WIRE_MARK} {host}:{dump['pid']} {number}/{len(pieces)} {piece}"


def decode_dumps(text: str) -> tuple[list[Row], set[str]]:
    """The dumps of such a stream, and the hosts that said that they had sent all."""
    pieces: dict[str, dict[int, str]] = {}
    wanted: dict[str, int] = {}
    ended = set()
    for line in text.splitlines():
        parts = line.split(" ")
        if parts[0] != WIRE_MARK:
            continue
        if len(parts) == 3 and parts[1] == "end":
            ended.add(parts[2])
        elif len(parts) == 4 and re.fullmatch(r"\d{1,9}/\d{1,9}", parts[2], re.ASCII):
            number, _, count = parts[2].partition("/")
            pieces.setdefault(parts[1], {})[int(number)] = parts[3]
            wanted[parts[1]] = int(count)
    dumps = []
    for name, found in pieces.items():
        if len(found) == wanted[name]:
            packed = "".join(found[number] for number in sorted(found))
            with contextlib.suppress(ValueError, zlib.error):  # spoilt on its way
                dumps.append(json.loads(zlib.decompress(base64.b85decode(packed))))
    return dumps, ended


def write_node_dumps(job: str, settings: DumpSettings) -> None:
    """On a node of a job: dump its ranks there, and write them to the stream."""
    parents = list_parents()
    ranks = choose_rank_processes(find_job_processes(job, parents), parents)
    host = socket.gethostname()
    for dump in dump_processes(ranks, settings):
        for line in encode_dump(host, dump):
            print(line)
    print(f"{WIRE_MARK} end {host}", flush=True)


def dump_job(job: str, settings: DumpSettings, remarks: list[str]) -> list[Row]:
    """The dumps of all ranks of a Slurm job, taken on its nodes; what went wrong is remarked."""
    state = read_watched_job(job)
    if state.state not in RUNNING_STATES:
        said = {None: "Slurm does not answer", "GONE": "Slurm knows no such job"}
        words = said.get(state.state, f"it is {str(state.state).lower()}")
        remarks.append(f"no stacks of job {job}: {words}")
        return []
    hosts = expand_nodelist(state.nodes)
    command = [
        *("srun", "--overlap", f"--jobid={state.number}", f"--nodelist={state.nodes}"),
        *(f"--nodes={len(hosts)}", f"--ntasks={len(hosts)}", "--ntasks-per-node=1"),
        *("--cpus-per-task=1", "--cpu-bind=none", "--gres=none", "--mpi=none", "--input=none"),
        *("--kill-on-bad-exit=0", "--quiet", "--chdir=/"),
        *(sys.executable, str(Path(__file__).resolve()), "node", "--job", state.number),
        *make_dump_options(settings),
    ]
    # Of the job that this watchdog may itself be a part of, nothing is to steer this step.
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("SLURM_") or name == "SLURM_CONF"
    }
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complaints:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=complaints,
                env=environ,
                start_new_session=True,
            )
        except OSError as error:
            remarks.append(f"no stacks of job {job}: srun: {error.strerror}")
            return []
        try:
            process.wait(timeout=settings.seconds + SLURM_SECONDS)
        except subprocess.TimeoutExpired:
            remarks.append(f"srun did not end within {settings.seconds + SLURM_SECONDS:.0f} s")
            end_srun(process)
        output.seek(0)
        complaints.seek(0)
        dumps, ended = decode_dumps(output.read().decode("utf-8", "replace"))
        complaint = complaints.read().decode("utf-8", "replace").strip().splitlines()
    silent = [host for host in hosts if host.split(".")[0] not in {e.split(".")[0] for e in ended}]
    if silent:
        shown = f"{', '.join(silent[:8])}{' ...' if len(silent) > 8 else ''}"
        remarks.append(f"no answer from {len(silent)} of {len(hosts)} nodes: {shown}")
    if (silent or not dumps) and complaint:
        remarks.append(f"srun: {complaint[-1][:200]}")
    return dumps


def end_srun(process: subprocess.Popen[bytes]) -> None:
    """End an srun, and the step with it."""
    process.terminate()
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def make_dump_options(settings: DumpSettings) -> list[str]:
    """The settings as options, for the same tool on a node."""
    options = ["--dump_timeout", f"{settings.seconds:g}s"]
    if settings.py_spy is not None:
        options += ["--py_spy", settings.py_spy]
    if settings.native:
        options.append("--native")
    if settings.signal_number is not None and settings.signal_file is not None:
        options += ["--faulthandler", signal.Signals(settings.signal_number).name]
        options += ["--faulthandler_file", settings.signal_file]
    return options


# --- files ---


def write_text_moved(path: Path, text: str) -> None:
    """Write a file under another name, then move it. Raises OSError."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise


def name_dump_file(dump: Mapping[str, Any]) -> str:
    """`rank_00003_node1_4711.json`."""
    host = re.sub(r"[^\w.-]", "_", str(dump["host"]))
    rank = f"rank_{dump['rank']:05d}" if dump["rank"] is not None else "norank"
    return f"{rank}_{host}_{dump['pid']}.json"


def save_dumps(dumps: Iterable[Mapping[str, Any]], folder: Path) -> None:
    """One file for each rank. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for dump in dumps:
        text = json.dumps(dump, separators=(",", ":")) + "\n"
        write_text_moved(folder / name_dump_file(dump), text)


def list_dump_files(paths: Iterable[Path]) -> list[Path]:
    """The files given, and those of folders that have names of dumps. Raises WrongUse."""
    found = []
    for path in paths:
        if path.is_dir():
            inside = [
                one
                for one in sorted(path.rglob("*.json"))
                if one.name.startswith(("rank_", "norank_"))
            ]
            if not inside:
                raise WrongUse(f"{path}: there are no dumps in this folder (rank_*.json)")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise WrongUse(f"{path}: there is no such file")
    return list(dict.fromkeys(found))


def read_dump_file(path: Path) -> Row:
    """One saved dump. Raises WrongUse where it is none."""
    try:
        dump = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongUse(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise WrongUse(f"{path}: this is not JSON, or was cut off") from error
    try:
        if dump["kind"] != DUMP_KIND or dump["format"] != FILE_FORMAT:
            raise WrongUse(f"{path}: this is no dump of hang_watchdog, format {FILE_FORMAT}")
        is_good = has_fields(dump, str, "host") and has_fields(dump, str | None, "error")
        is_good = is_good and has_fields(dump, int | None, "rank", "size", "pid")
        # A rank without a launcher's word, or with it and no number, is made by nobody.
        is_good = is_good and dump["launcher"] in (*LAUNCHERS, None)
        is_good = is_good and (dump["launcher"] is None) is (dump["rank"] is None)
        for thread in dump["threads"]:
            is_good = is_good and has_fields(thread, str, "name")
            is_good = is_good and has_fields(thread, bool, "is_main")
            for frame in thread["frames"]:
                is_good = is_good and has_fields(frame, str, "function", "file", "short")
                is_good = is_good and has_fields(frame, int, "line")
    except (KeyError, TypeError, AttributeError):
        is_good = False
    if not is_good:
        raise WrongUse(f"{path}: this is no dump of hang_watchdog")
    return dict(dump)


def has_fields(values: Mapping[str, Any], kind: Any, *names: str) -> bool:
    """Whether these are of a kind; a number is one that a rank, a process or a line can have."""
    return all(
        isinstance(values[name], kind)
        and (not isinstance(values[name], int) or 0 <= values[name] <= MOST_RANKS)
        for name in names
    )


# --- merging ---


def is_library_file(file: str) -> bool:
    """Whether a file belongs to Python, to a package or to a compiled library."""
    return (
        file.startswith("<frozen")
        or any(folder in file for folder in LIBRARY_FOLDERS)
        or not (file.endswith((".py", ".pyw", ".ipynb")) or file.startswith("<"))
    )


def make_frames(frames: Sequence[Mapping[str, Any]]) -> tuple[StackFrame, ...]:
    """The stack of a dump's thread."""
    return tuple(
        StackFrame(
            sys.intern(frame["function"]),
            sys.intern(frame["short"]),
            frame["line"],
            is_library_file(frame["file"]),
        )
        for frame in frames
    )


def settle_ranks(dumps: Sequence[Row]) -> tuple[dict[int, Row], list[str]]:
    """The dump of each rank, and remarks. Raises WrongUse where a rank has two.

    Where some processes are known as ranks only to what launched the others, they are left out.
    Where none has a rank they are numbered by host and process.
    """
    remarks = []
    order = [*LAUNCHERS, None]
    best = min((dump["launcher"] for dump in dumps), key=order.index, default=None)
    kept = [dump for dump in dumps if dump["launcher"] == best]
    if len(kept) < len(dumps):
        count = len(dumps) - len(kept)
        remarks.append(
            f"{count} process{'es' if count > 1 else ''} without a rank of {best} left out"
        )
    if best is None:
        kept.sort(key=lambda dump: (dump["host"], dump["pid"]))
        if len(kept) > 1:
            remarks.append("no rank in the environment: numbered by host and process")
        return dict(enumerate(kept)), remarks
    ranks: dict[int, Row] = {}
    for dump in kept:
        other = ranks.setdefault(dump["rank"], dump)
        if other is not dump:
            raise WrongUse(
                f"rank {dump['rank']} is there twice (process {other['pid']} on {other['host']}, "
                f"{dump['pid']} on {dump['host']}): give the dumps of one hang of one job"
            )
    return dict(sorted(ranks.items())), remarks


def choose_entries(rank: int, dump: Row, threads: str) -> list[StackEntry]:
    """The threads of a rank that are asked for; one without a stack says why.

    `threads` is main, all, or a regular expression that fits the names of those that are meant.
    """
    chosen = []
    for thread in dump["threads"]:
        if threads == "main":
            is_meant = thread["is_main"]
        else:
            is_meant = threads == "all" or re.search(threads, thread["name"]) is not None
        if is_meant and thread["frames"]:
            chosen.append(StackEntry(rank, thread["name"], make_frames(thread["frames"])))
    if chosen:
        return chosen[:1] if threads == "main" else chosen
    if dump["error"] or not dump["threads"]:
        reason = str(dump["error"] or "the dump has no threads").split(";")[0]
        text = f"no stack: {reason}"
    else:
        text = "no such thread"
    return [StackEntry(rank, "-", (StackFrame(f"({text})", "", 0, True),))]


def merge_entries(entries: Iterable[StackEntry]) -> StackBranch:
    """The tree of all stacks, from the outermost call inwards."""
    root = StackBranch(None)
    for entry in entries:
        branch = root
        branch.ranks.add(entry.rank)
        for frame in reversed(entry.frames):
            key = (frame.function, frame.file, frame.line)
            if key not in branch.children:
                branch.children[key] = StackBranch(frame)
            branch = branch.children[key]
            branch.ranks.add(entry.rank)
        branch.ends.append((entry.rank, entry.thread))
    return root


def describe_place(frames: Sequence[StackFrame]) -> tuple[str, StackFrame]:
    """`all_reduce at train.py:41`, and the frame of the user's code that it is about."""
    number = next((i for i, frame in enumerate(frames) if not frame.is_library), None)
    if number is None:
        leaf = frames[0]
        return (f"{leaf.function} at {leaf.file}:{leaf.line}" if leaf.file else leaf.function), leaf
    own = frames[number]
    called = [
        frame
        for frame in reversed(frames[:number])
        if frame.function.rpartition(".")[2] not in WRAPPERS and frame.line
    ]
    function = called[0].function if called else own.function
    return f"{function} at {own.file}:{own.line}", own


def is_in_collective(frames: Iterable[StackFrame]) -> bool:
    """Whether a stack is inside of torch.distributed: such a rank waits for others."""
    return any(frame.file.endswith(COLLECTIVE_FILES) and frame.is_library for frame in frames)


def group_entries(entries: Iterable[StackEntry]) -> list[PlaceGroup]:
    """Who is where: the smallest groups first, and of equal ones those that wait for nobody."""
    found: dict[str, list[StackEntry]] = {}
    for entry in entries:
        found.setdefault(describe_place(entry.frames)[0], []).append(entry)
    groups = [
        PlaceGroup(
            place,
            sorted({entry.rank for entry in members}),
            members,
            is_in_collective(members[0].frames),
        )
        for place, members in found.items()
    ]
    groups.sort(key=lambda group: (len(group.ranks), group.in_collective, group.ranks[0]))
    return groups


def judge_groups(groups: Sequence[PlaceGroup]) -> list[str]:
    """`odd`, `most`, or `-` where no place has more ranks than every other."""
    if len(groups) < 2:
        return ["all" for _ in groups]
    if len(groups[-1].ranks) == len(groups[-2].ranks):
        return ["-" for _ in groups]
    return [*("odd" for _ in groups[:-1]), "most"]


def make_group_rows(groups: Sequence[PlaceGroup]) -> list[Row]:
    """The rows of the JSON: short names of files, no host."""
    rows = []
    for group, verdict in zip(groups, judge_groups(groups), strict=True):
        leaves = collections.Counter(entry.frames[0] for entry in group.entries)
        leaf = leaves.most_common(1)[0][0]
        _, own = describe_place(group.entries[0].frames)
        rows.append(
            {
                "ranks": format_rank_list(group.ranks),
                "count": len(group.ranks),
                "place": group.place,
                "function": own.function,
                "file": own.file or None,
                "line": own.line or None,
                "innermost": format_stack_frame(leaf),
                "in_collective": group.in_collective,
                "verdict": verdict,
            }
        )
    return rows


def format_stack_frame(frame: StackFrame) -> str:
    """`step (train.py:41)`."""
    if not frame.file:
        return frame.function
    return f"{frame.function} ({frame.file}{f':{frame.line}' if frame.line else ''})"


def summarise_groups(groups: Sequence[PlaceGroup], limit: int = 6) -> str:
    """`rank 2 in load at data.py:12; ranks 0-1,3 in all_reduce at train.py:41`."""
    parts = [f"{name_ranks(group.ranks)} in {group.place}" for group in groups]
    if len(parts) > limit:
        parts = [*parts[: limit - 1], f"{len(parts) - limit} more places", parts[-1]]
    return "; ".join(parts)


def format_tree(root: StackBranch, limit: int = SHOWN_BRANCHES) -> str:
    """The tree, a line for each call, smaller branches first; chains have one indentation."""
    lines: list[str] = []

    def show(branch: StackBranch, depth: int) -> None:
        while True:
            if branch.frame is not None:
                if len(lines) == limit:
                    lines.append("... more branches are in the JSON")
                if len(lines) > limit:
                    return
                ended = sorted({rank for rank, _ in branch.ends})
                stop = f"  <- {name_ranks(ended)}" if ended and branch.children else ""
                ranks = f"[{format_rank_list(branch.ranks)}]"
                lines.append(f"{'  ' * depth}{ranks} {format_stack_frame(branch.frame)}{stop}")
            children = sorted(
                branch.children.values(), key=lambda child: (len(child.ranks), min(child.ranks))
            )
            # A chain goes on without a deeper indentation, and without recursion.
            if len(children) == 1 and not branch.ends:
                branch = children[0]
                continue
            for child in children:
                show(child, depth + (branch.frame is not None))
            return

    show(root, 0)
    return "\n".join(lines)


def make_tree_document(branch: StackBranch) -> list[Any]:
    """The branches below one, as JSON: chains of calls with one set of ranks are one element."""
    found = []
    for child in branch.children.values():
        calls = []
        tip = child
        while True:
            assert tip.frame is not None
            calls.append(format_stack_frame(tip.frame))
            if tip.ends or len(tip.children) != 1:
                break
            tip = next(iter(tip.children.values()))
        found.append(
            {
                "ranks": format_rank_list(child.ranks),
                "calls": calls,
                "here": format_rank_list(rank for rank, _ in tip.ends),
                "below": make_tree_document(tip),
            }
        )
    return found


class HangReport:
    """The merged stacks of a job, ready to be printed, sent and written."""

    def __init__(self, dumps: Sequence[Row], threads: str, remarks: Iterable[str] = ()) -> None:
        by_rank, notes = settle_ranks(dumps)
        self.caveats = [*remarks, *notes]
        self.ranks = list(by_rank)
        self.entries = [
            entry for rank, dump in by_rank.items() for entry in choose_entries(rank, dump, threads)
        ]
        self.groups = group_entries(self.entries)
        self.tree = merge_entries(self.entries)
        sizes = [dump["size"] for dump in by_rank.values() if dump["size"]]
        self.absent = sorted(set(range(max(sizes, default=0))) - set(by_rank))
        if self.absent:
            self.caveats.append(f"no process was found of {name_ranks(self.absent)}")
        errors: dict[str, list[int]] = {}
        for rank, dump in by_rank.items():
            if not dump["threads"]:
                errors.setdefault(str(dump["error"]), []).append(rank)
        for words, ranks in list(errors.items())[:8]:
            self.caveats.append(f"no stack of {name_ranks(ranks)}: {words}")
        self.has_stacks = any(dump["threads"] for dump in by_rank.values())

    @property
    def summary(self) -> str:
        """One sentence: the odd ones first."""
        found = summarise_groups(self.groups) or "no process was found"
        if self.absent and self.ranks:
            return f"{name_ranks(self.absent)} gone; {found}"
        return found

    def format_groups(self) -> str:
        """The table: a line for each place."""
        rows = make_group_rows(self.groups)
        shown = rows if len(rows) <= SHOWN_GROUPS else [*rows[: SHOWN_GROUPS - 1], rows[-1]]
        cells = [
            [row["ranks"], str(row["count"]), row["place"], row["innermost"], row["verdict"]]
            for row in shown
        ]
        return format_table(["ranks", "count", "place", "innermost call", "verdict"], cells)

    def format_text(self) -> str:
        """The whole report as text."""
        notes = "".join(f"note: {text}\n" for text in self.caveats)
        return f"{self.summary}\n{notes}\n{self.format_groups()}\n\n{format_tree(self.tree)}\n"

    def make_document(self, head: Mapping[str, Any], is_complete: bool) -> dict[str, Any]:
        """The JSON document."""
        return {
            **head,
            "complete": is_complete,
            "units": UNITS,
            "results": make_group_rows(self.groups),
            "caveats": self.caveats,
            "details": {
                "summary": self.summary,
                "ranks": format_rank_list(self.ranks),
                "absent": format_rank_list(self.absent),
                "tree": make_tree_document(self.tree),
            },
        }


def print_report(report: HangReport) -> None:
    """The table and the tree to stdout, sentences to stderr. Raises OSError, after the sentences,
    where stdout takes nothing."""
    try:
        print(f"{report.format_groups()}\n\n{format_tree(report.tree)}", flush=True)
    finally:
        for text in report.caveats:
            write_note(text)
        print(report.summary, file=sys.stderr, flush=True)


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


# --- watching ---


class PatientFiles:
    """Does work with files in a thread of its own: a file system that hangs, which often is why
    the job hangs, does not hang the watchdog."""

    def __init__(self, seconds: float) -> None:
        self.seconds = max(seconds, 1.0)
        self.thread: threading.Thread | None = None

    def ask(self, work: Callable[[], Any]) -> Any:
        """What `work` returns. Raises what it raises, and TimeoutError where it takes too long; as
        long as it has not ended, nothing else is begun."""
        if self.thread is not None and self.thread.is_alive():
            raise TimeoutError(errno.ETIMEDOUT, "the file system still does not answer")
        answers: list[Any] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                answers.append(work())
            except BaseException as error:
                errors.append(error)

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        self.thread.join(self.seconds)
        if errors:
            raise errors[0]
        if not answers:
            message = f"the file system does not answer within {self.seconds:g} s"
            raise TimeoutError(errno.ETIMEDOUT, message)
        return answers[0]


class WatchedSource:
    """One thing that has to change: a file of heartbeats, all logs together, or the output."""

    def __init__(self, name: str, look: Callable[[], str | None]) -> None:
        self.name = name
        self.look = look
        self.seen: str | None = None
        """What it was like when it was last new."""
        self.since = 0.0
        """When that was, by the clock on the wall: a restart has to know it."""
        self.has_moved = False
        """Whether it has ever changed while it was watched."""
        self.fired = False
        """Whether its silence was dealt with."""

    def see(self) -> str | None:
        """What it is like now; as it was, where its file system does not answer: that is silence,
        too."""
        try:
            return self.look()
        except TimeoutError:
            return self.seen


def look_at_files(patterns: Sequence[str]) -> str | None:
    """Names, sizes and times of all files that fit; None where there are none."""
    found = []
    for path in sorted({path for pattern in patterns for path in glob.glob(pattern)}):  # noqa: PTH207 - the pattern is the user's own
        with contextlib.suppress(OSError):
            status = Path(path).stat()
            found.append(f"{path} {status.st_ino} {status.st_size} {status.st_mtime_ns}")
    return "\n".join(found) or None


class SilenceWatch:
    """All sources, and when there is a hang: some have been silent for too long.

    The clock is given, so that it can be told otherwise.
    """

    def __init__(
        self,
        timeout: float,
        clock: Callable[[], float] = time.time,
        first: float | None = None,
    ) -> None:
        self.timeout = timeout
        self.first = timeout if first is None else first
        self.clock = clock
        self.sources: dict[str, WatchedSource] = {}
        self.patterns: list[str] = []
        # Apart, so that one that hangs does not make the other silent.
        seconds = min(timeout / 4, LOOK_SECONDS)
        self.log_files, self.heartbeat_files = PatientFiles(seconds), PatientFiles(seconds)
        self.has_heartbeats = False
        self.fired_at = -float("inf")
        self.began = clock()

    def add(self, name: str, look: Callable[[], str | None]) -> None:
        """Watch one more thing from now on."""
        source = WatchedSource(name, look)
        source.seen, source.since = source.see(), self.clock()
        self.sources[name] = source

    def add_log(self, patterns: Sequence[str]) -> None:
        """Watch all these files together."""
        self.add("log", lambda: self.log_files.ask(lambda: look_at_files(patterns)))

    def look_at_heartbeats(self, patterns: Sequence[str]) -> str | None:
        """As `look_at_files`. Raises TimeoutError."""
        found: str | None = self.heartbeat_files.ask(lambda: look_at_files(patterns))
        return found

    def find_heartbeats(self) -> None:
        """Files of heartbeats that have come; those that are gone are no longer watched. As long as
        none has ever come, that is a silence of its own."""
        try:
            paths = self.heartbeat_files.ask(
                lambda: {path for pattern in self.patterns for path in glob.glob(pattern)}  # noqa: PTH207 - as above
            )
        except TimeoutError:  # what was there stays, and is silent
            return
        if paths:
            self.has_heartbeats = True
            self.sources.pop(NO_HEARTBEAT, None)
        elif self.patterns and not self.has_heartbeats and NO_HEARTBEAT not in self.sources:
            self.add(NO_HEARTBEAT, lambda: self.look_at_heartbeats(self.patterns))
        for path in sorted(paths):
            if f"heartbeat {path}" not in self.sources:
                look = functools.partial(self.look_at_heartbeats, [glob.escape(path)])
                self.add(f"heartbeat {path}", look)
        for name in list(self.sources):
            if name.startswith("heartbeat ") and name.partition(" ")[2] not in paths:
                del self.sources[name]

    def update(self, is_paused: bool = False) -> bool:
        """Look at all sources; whether something was new. A paused job is not silent."""
        self.find_heartbeats()
        has_moved = False
        now = self.clock()
        # A job that waits or was suspended begins anew when it goes on.
        self.began = now if is_paused else min(self.began, now)
        for source in self.sources.values():
            seen = source.see()
            if seen != source.seen:
                source.seen, source.since, source.fired = seen, now, False
                source.has_moved = has_moved = True
            elif is_paused:  # when it goes on it may hang again
                source.since, source.fired = now, False
            elif source.since > now:  # the clock was set back
                source.since = now
        return has_moved

    def find_hang(self) -> list[WatchedSource]:
        """The sources that are silent for too long and were not dealt with; none in the time that
        is given to the beginning, though a launcher may have said something.

        Those that fall silent soon after others belong to the same hang.
        """
        now = self.clock()
        if now - self.began < self.first:
            return []
        silent = [
            source
            for source in self.sources.values()
            if not source.fired
            and now - source.since >= (self.timeout if source.has_moved else self.first)
        ]
        is_near = now - self.fired_at < 2 * self.timeout
        if silent and is_near and any(source.fired for source in self.sources.values()):
            self.mark(silent)
            return []
        return silent

    def mark(self, sources: Iterable[WatchedSource]) -> None:
        """These were dealt with."""
        for source in sources:
            source.fired = True

    def still_hangs(self, sources: Sequence[WatchedSource]) -> bool:
        """Whether none of these has moved."""
        return all(source.see() == source.seen for source in sources)

    def save(self) -> dict[str, Any]:
        """What the next watchdog has to know."""
        return {
            "began": self.began,
            "fired_at": self.fired_at if self.fired_at > 0 else None,
            "sources": {
                name: {
                    "seen": source.seen,
                    "since": source.since,
                    "has_moved": source.has_moved,
                    "fired": source.fired,
                }
                for name, source in self.sources.items()
            },
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where an earlier watchdog was: what has not changed since is silent since then."""
        self.find_heartbeats()
        self.began = float(state["began"])
        self.fired_at = state["fired_at"] or -float("inf")
        for name, old in state["sources"].items():
            source = self.sources.get(name)
            if source is None:
                continue
            source.has_moved = bool(old["has_moved"]) or source.seen != old["seen"]
            if source.seen == old["seen"]:
                source.since, source.fired = float(old["since"]), bool(old["fired"])


class HangDuty:
    """What is still to be done about a hang."""

    def __init__(
        self, folder: Path, summary: str, text: str, actions: Sequence[HangAction], about: str
    ) -> None:
        self.folder = folder
        self.summary = summary
        self.text = text
        self.about = about
        self.tries = dict.fromkeys(range(len(actions)), 0)
        self.began = time.monotonic()
        self.next_try = 0.0

    def save(self) -> dict[str, Any]:
        """What the next watchdog has to do."""
        return {
            "folder": str(self.folder),
            "summary": self.summary,
            "about": self.about,
            "open": {str(number): tries for number, tries in self.tries.items()},
        }


class Watchdog:
    """Watches a job, and does what is to be done where it hangs."""

    def __init__(self, options: argparse.Namespace, stop: StopSign, command: list[str]) -> None:
        self.options = options
        self.stop = stop
        self.command = command
        self.origin = time.monotonic()
        self.settings = read_dump_settings(options)
        self.watch = SilenceWatch(options.timeout, first=options.first)
        self.files = PatientFiles(min(options.timeout, SAVE_SECONDS))
        self.roots: list[int] = list(options.pid or [])
        self.starts = {root: read_process_stat(root) for root in self.roots}
        self.duty: HangDuty | None = None
        self.report: HangReport | None = None
        self.is_printed = True
        self.hangs = 0
        self.folders: list[Path] = []
        self.job_looked = -float("inf")
        self.job_state: str | None = None
        self.saved = -float("inf")
        self.has_state = options.task == "watch"

    # What is kept across restarts.

    @property
    def state_path(self) -> Path:
        """The file in which the next watchdog finds what this one has done."""
        return Path(self.options.out) / "state.json"

    def describe_target(self) -> str:
        """What is watched, so that the state of one job is not taken for that of another."""
        roots = [f"{root} {stat[1] if stat else '-'}" for root, stat in self.starts.items()]
        match = self.options.match.pattern if self.options.match is not None else None
        return json.dumps([self.options.job, match, sorted(roots)])

    def save_state(self) -> None:
        """Keep what the next watchdog has to know; a full disk is no reason to stop watching."""
        if not self.has_state:
            return
        state = {
            "kind": "hang_watchdog state",
            "target": self.describe_target(),
            **self.watch.save(),
            "duty": self.duty.save() if self.duty else None,
        }

        def write() -> None:
            self.state_path.parent.mkdir(parents=True, exist_ok=True)
            write_text_moved(self.state_path, json.dumps(state) + "\n")

        try:
            self.files.ask(write)
        except OSError as error:
            write_note(f"{self.state_path}: {error.strerror}; a restart will not know of this hang")
        self.saved = time.monotonic()

    def restore_state(self) -> None:
        """Go on where an earlier watchdog was."""
        if not self.has_state:
            return

        def read(path: Path) -> str | None:
            return path.read_text(encoding="utf-8") if path.exists() else None

        try:
            known = self.files.ask(lambda: read(self.state_path))
            if known is None:
                return
            state = json.loads(known)
            if state["target"] != self.describe_target():
                write_note(f"{self.state_path} is of another job; this watchdog starts anew")
                return
            self.watch.restore(state)
            duty = state["duty"]
            if duty is not None:
                folder = Path(duty["folder"])
                text = self.files.ask(lambda: read(folder / "report.txt")) or duty["summary"]
                summary, about = str(duty["summary"]), str(duty["about"])
                self.duty = HangDuty(folder, summary, text, self.options.then, about)
                self.duty.tries = {
                    int(number): int(tries)
                    for number, tries in duty["open"].items()
                    if int(number) < len(self.options.then)
                }
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            write_note(f"{self.state_path}: not readable; this watchdog starts anew")

    # The job.

    def is_over(self) -> bool:
        """Whether what is watched has ended; without --pid and --job it never does."""
        if self.options.job is not None:
            return self.job_state == "GONE"
        if not self.roots:
            return False
        return not any(self.is_same(root) for root in self.roots)

    def is_same(self, root: int) -> bool:
        """Whether a process is there, and is the one that it was when the watch began."""
        stat, before = read_process_stat(root), self.starts.get(root)
        return (
            stat is not None and stat[2] not in "ZX" and before is not None and stat[1] == before[1]
        )

    def is_paused(self) -> bool:
        """Whether Slurm does not let the job run now. It is asked four times in a timeout."""
        if self.options.job is None:
            return False
        if time.monotonic() - self.job_looked > min(max(self.options.timeout / 4, 1.0), 60.0):
            self.job_looked = time.monotonic()
            state = read_watched_job(self.options.job).state
            # A Slurm that does not answer has said nothing of the job.
            self.job_state = state if state is not None else self.job_state
        return self.job_state not in (*RUNNING_STATES, None)

    def find_job(self) -> str | None:
        """The job whose nodes are asked, where no rank is found here."""
        return self.options.job or name_own_job(os.environ)

    def list_targets(self) -> list[int]:
        """The processes here that belong to what is watched."""
        parents = list_parents()
        roots = [root for root in self.roots if self.is_same(root)]
        if self.options.match is not None:
            roots += find_matching(self.options.match, parents)
        # A batch script may have started this watchdog too.
        return [pid for pid in find_descendants(roots, parents) if pid != os.getpid()]

    def take_dumps(self, remarks: list[str]) -> list[Row]:
        """The stacks of all ranks."""
        dumps = []
        if self.roots or self.options.match is not None:
            parents = list_parents()
            ranks = choose_rank_processes(self.list_targets(), parents)
            dumps = dump_processes(ranks, self.settings)
        job = self.find_job()
        if job is not None and (self.options.job is not None or not dumps):
            here = {(dump["host"], dump["pid"]) for dump in dumps}
            try:
                dumps += [
                    dump
                    for dump in dump_job(job, self.settings, remarks)
                    if (dump["host"], dump["pid"]) not in here
                ]
            except WrongUse as error:
                remarks.append(str(error))
        return dumps

    # A hang.

    def respond(self, silent: Sequence[WatchedSource]) -> None:
        """Take stacks, write the report, and begin with what is to be done."""
        self.hangs += 1
        names = ", ".join(Path(source.name).name for source in silent[:8])
        silence = min(self.watch.clock() - source.since for source in silent)
        remarks = [f"nothing new for {silence:.0f} s: {names}"]
        dumps = self.take_dumps(remarks)
        try:
            report = HangReport(dumps, self.options.threads, remarks)
        except WrongUse as error:
            # Two jobs below one process, or a reused rank: all are shown, by host and process.
            remarks.append(str(error))
            report = HangReport(
                [{**d, "rank": None, "launcher": None} for d in dumps],
                self.options.threads,
                remarks,
            )
        folder, is_saved = Path(self.options.out), False
        try:
            folder = self.files.ask(self.choose_folder)
            self.files.ask(lambda: self.save_report(folder, dumps, report))
            is_saved = True
            write_note(f"stacks and report are in {folder}")
        except OSError as error:
            write_note(f"{folder}: {error.strerror}; the report is here alone")
        self.report = report
        self.folders.append(folder)
        # From here on a restart does not begin again.
        self.watch.mark(silent)
        self.watch.fired_at = self.watch.clock()
        about = self.describe_run(folder if is_saved else None, dumps)
        self.duty = HangDuty(folder, report.summary, report.format_text(), self.options.then, about)
        self.save_state()
        if self.options.task == "run":  # stdout belongs to the command
            print(report.format_text(), file=sys.stderr, flush=True)
        else:
            try:
                print_report(report)
            except OSError as error:
                self.is_printed = False
                write_note(f"stdout could not be written: {error.strerror}")
        self.do_duty(silent)

    def choose_folder(self) -> Path:
        """A folder for this hang that is not there yet."""
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        folder = Path(self.options.out) / f"hang_{stamp}"
        number = 1
        while folder.exists():
            number += 1
            folder = folder.with_name(f"hang_{stamp}_{number}")
        return folder

    def save_report(self, folder: Path, dumps: Sequence[Row], report: HangReport) -> None:
        """Stacks and report as files. Raises OSError."""
        save_dumps(dumps, folder)
        write_text_moved(folder / "report.txt", report.format_text())
        document = report.make_document(self.make_head(), True)
        text = json.dumps(document, indent=1, allow_nan=False)
        write_text_moved(folder / "report.json", f"{text}\n")

    def make_head(self) -> dict[str, Any]:
        """The opening of the JSON."""
        return make_document_head("hang_watchdog", (__version__, METHOD), self.command, self.origin)

    def describe_run(self, folder: Path | None, dumps: Sequence[Row]) -> str:
        """What a reader of the mail has to know: job, command, machine, and where the stacks are.
        Of a command no arguments: keys may be among them."""
        lines = []
        job = self.find_job()
        if job is not None:
            name = find_job_name(job)
            lines.append(f"job: {job}{f' ({name})' if name else ''}")
        words = getattr(self.options, "words", None)
        if not words and dumps:
            words = dumps[0]["command"].split(" ")
        if words:
            lines.append(f"command: {shorten_command(words)}")
        lines.append(f"machine: {socket.gethostname()}")
        if folder is not None:
            lines.append(f"stacks and report: {folder.absolute()}")
        return "\n".join(lines)

    def is_due(self, number: int, watched: Sequence[WatchedSource]) -> bool:
        """Whether an action is still wanted: the job has not moved since. What a run says while an
        earlier action ends it is no progress."""
        assert self.duty is not None
        for earlier, action in enumerate(self.options.then[:number]):
            if action.kind in ENDING_ACTIONS and earlier not in self.duty.tries:
                return True
        return bool(watched) and self.watch.still_hangs(watched)

    def is_held(self, number: int) -> bool:
        """Whether an action has to wait: it would end the run, and with it the tries of others."""
        assert self.duty is not None
        if self.options.then[number].kind not in ENDING_ACTIONS:
            return False
        kinds = [self.options.then[other].kind for other in self.duty.tries if other < number]
        is_early = time.monotonic() - self.duty.began < HOLD_SECONDS
        return is_early and any(kind not in ENDING_ACTIONS for kind in kinds)

    def do_duty(self, silent: Sequence[WatchedSource] | None = None) -> None:
        """Do what is open, in order; what fails is tried again later, and what would end the run
        waits for that."""
        duty = self.duty
        if duty is None or time.monotonic() < duty.next_try:
            return
        watched = silent if silent is not None else self.list_fired()
        pause = RETRY_SECONDS
        for number in sorted(duty.tries):
            if not self.is_due(number, watched):
                write_note("the job has moved again: nothing more is done about this hang")
                duty.tries.clear()
                break
            action = self.options.then[number]
            if self.is_held(number):
                write_note(f"{action.kind} waits for what is to be tried again")
                pause = HELD_RETRY_SECONDS
                break
            complaint = self.do_action(action, duty)
            duty.tries[number] += 1
            if complaint is None:
                write_note(f"done: {action.kind}")
                del duty.tries[number]
            elif duty.tries[number] >= TRIES:
                write_note(f"{action.kind} failed: {complaint}; given up after {TRIES} tries")
                del duty.tries[number]
            else:
                write_note(f"{action.kind} failed: {complaint}; it will be tried again")
            self.save_state()
        duty.next_try = time.monotonic() + min(pause, self.options.timeout)
        if not duty.tries:
            self.duty = None
            self.save_state()

    def end_duty(self) -> None:
        """The run is over: what was to be tried again is tried once more, or told as lost."""
        duty = self.duty
        if duty is None:
            return
        for number in sorted(duty.tries):
            action = self.options.then[number]
            if action.kind in ENDING_ACTIONS:
                continue
            if not self.is_due(number, self.list_fired()):
                write_note("the job has moved again: nothing more is done about this hang")
                break
            complaint = self.stop.reason or self.do_action(action, duty)
            if complaint is None:
                write_note(f"done: {action.kind}")
            else:
                write_note(f"{action.kind} failed: {complaint}; the run is over: it is lost")
        self.duty = None
        self.save_state()

    def list_fired(self) -> list[WatchedSource]:
        """The sources whose silence was dealt with."""
        return [source for source in self.watch.sources.values() if source.fired]

    def do_action(self, action: HangAction, duty: HangDuty) -> str | None:
        """Do one thing; None, or why it failed."""
        if action.kind == "mail":
            job = self.find_job()
            subject = f"hang{f' of job {job}' if job else ''}: {duty.summary}"
            text = f"{duty.about}\n\n{duty.text}"
            return mail_hang_report(action.argument, self.options.smtp, subject, text)
        if action.kind == "command":
            return self.run_command(action.argument, duty)
        if action.kind == "kill":
            return end_watched_processes(self.list_targets(), GRACE_SECONDS)
        job = self.find_job()
        if job is None:
            return "there is no job"
        try:
            status, _, complaint = ask_slurm_program("scancel", job)
        except WrongUse as error:
            return str(error)
        return complaint if status else None

    def run_command(self, text: str, duty: HangDuty) -> str | None:
        """Run a shell command; None, or why it failed."""
        environ = {
            **os.environ,
            "HANG_REPORT": str((duty.folder / "report.txt").absolute()),
            "HANG_FOLDER": str(duty.folder.absolute()),
            "HANG_SUMMARY": duty.summary,
            "HANG_JOB": self.find_job() or "",
        }
        with tempfile.TemporaryFile() as output:
            try:
                process = subprocess.Popen(
                    text,
                    shell=True,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environ,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                return str(error)
            try:
                process.wait(timeout=COMMAND_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return f"not done within {COMMAND_SECONDS} s"
            output.seek(0)
            said = output.read().decode("utf-8", "replace").strip()
        if said:
            print(said, file=sys.stderr, flush=True)
        return f"status {process.returncode}" if process.returncode else None

    # The round.

    def begin(self) -> None:
        """Start to watch."""
        if self.options.log:
            self.watch.add_log(self.options.log)
        self.watch.patterns = list(self.options.heartbeat or [])
        self.is_paused()
        self.watch.update()
        self.restore_state()
        self.save_state()

    def look_once(self) -> None:
        """One round: look, and do what is to be done."""
        has_moved = self.watch.update(self.is_paused())
        if has_moved and time.monotonic() - self.saved > self.options.timeout / 4:
            self.save_state()
        silent = self.watch.find_hang()
        if silent:
            self.respond(silent)
        elif self.duty is not None:
            self.do_duty()

    def get_interval(self) -> float:
        """Seconds between two rounds."""
        return float(min(max(self.options.timeout / 20, 0.1), 5.0))

    def follow(self) -> int:
        """Watch until what is watched has ended; the exit status."""
        self.begin()
        while not self.is_over():
            self.look_once()
            wait_until = time.monotonic() + self.get_interval()
            while time.monotonic() < wait_until:
                self.stop.check()
                time.sleep(min(0.1, self.get_interval()))
        self.end_duty()
        return 1 if self.hangs else 0

    def wrap(self, words: Sequence[str]) -> int:
        """Run a command and watch it until it has ended; its status."""
        try:
            process = subprocess.Popen(
                words,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={"PYTHONUNBUFFERED": "1", **os.environ},
                start_new_session=True,
            )
        except OSError as error:
            raise WrongUse(f"{words[0]}: {error.strerror}") from error
        self.roots = [process.pid]
        self.starts = {process.pid: read_process_stat(process.pid)}
        self.forward_signals(process.pid)
        written, busy = [0], set[Any]()
        pipes = {process.stdout: 1, process.stderr: 2}
        pumps = {
            pipe: threading.Thread(
                target=pass_through, args=(pipe, number, written, busy), daemon=True
            )
            for pipe, number in pipes.items()
        }
        for pump in pumps.values():
            pump.start()
        if not self.options.log and not self.options.heartbeat:
            self.watch.add("output", lambda: str(written[0]))
        self.begin()
        next_look = 0.0
        while process.poll() is None:
            if time.monotonic() >= next_look:
                self.look_once()
                next_look = time.monotonic() + self.get_interval()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.1)
        for pipe, pump in pumps.items():
            pump.join(timeout=2)
            # Something below may hold the pipe for ever. What is in it comes through all the same,
            # however slowly somebody reads.
            while pump.is_alive() and (pipe in busy or select.select([pipe], [], [], 0)[0]):
                pump.join(timeout=0.05)
        self.end_duty()
        status = process.returncode
        return 128 - status if status < 0 else status

    def forward_signals(self, pid: int) -> None:
        """Hand on what the command would have got without this watchdog, each time: a group's
        signals to its group, others to itself. What is ignored stays so."""

        def forward(number: int, _frame: Any) -> None:
            name = signal.Signals(number).name
            is_end = name in ("SIGINT", "SIGTERM", "SIGHUP")
            if is_end:
                self.stop.reason, self.stop.by_signal = f"stopped by {name}", True
            with contextlib.suppress(ProcessLookupError):
                (os.killpg if is_end else os.kill)(pid, number)

        for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2"):
            number = getattr(signal, name)
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, forward)


def pass_through(pipe: Any, number: int, written: list[int], busy: set[Any]) -> None:
    """Copy a pipe to a file descriptor of this process, and count; the pipe is busy while there is
    something to write. What cannot be written is lost, and told once; the command may go on."""
    is_lost = False
    while True:
        select.select([pipe], [], [])
        busy.add(pipe)
        data = os.read(pipe.fileno(), 65536)
        if not data:
            return
        written[0] += len(data)
        while data:
            try:
                data = data[os.write(number, data) :]
            except BlockingIOError:  # somebody has set it so
                select.select([], [number], [])
            except OSError as error:
                data = b""
                if not is_lost:
                    write_note(f"output of the command is lost: {error.strerror}")
                is_lost = True
        busy.discard(pipe)


def end_watched_processes(pids: Sequence[int], grace: float) -> str | None:
    """Ask processes to end, and kill those that do not; None, or why it failed."""
    starts = {pid: stat[1] for pid in pids if (stat := read_process_stat(pid)) is not None}
    if not starts:
        return "no process is there"

    def send(number: int) -> list[int]:
        left = []
        for pid, started in starts.items():
            stat = read_process_stat(pid)
            if stat is not None and stat[2] not in "ZX" and stat[1] == started:
                left.append(pid)
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        return left

    try:
        send(signal.SIGTERM)
        deadline = time.monotonic() + grace
        while send(0) and time.monotonic() < deadline:
            time.sleep(0.1)
        send(signal.SIGKILL)
        deadline = time.monotonic() + 5
        while (left := send(0)) and time.monotonic() < deadline:
            time.sleep(0.05)
    except PermissionError:
        return "these are not this user's processes"
    return f"{len(left)} processes do not end: {describe_state(left[0])}" if left else None


def mail_hang_report(address: str, server: tuple[str, int], subject: str, text: str) -> str | None:
    """Send the report by mail; None, or why it failed."""
    letter = email.message.EmailMessage()
    try:
        # Names of functions and files are the program's own: they may hold anything.
        subject, text = (part.encode("utf-8", "replace").decode() for part in (subject, text))
        letter["Subject"] = " ".join(subject.split())[:180]
        letter["From"] = f"{find_user_name()}@{socket.gethostname()}"
        letter["To"] = address
        letter.set_content(text)
        with smtplib.SMTP(*server, timeout=MAIL_SECONDS) as smtp:
            smtp.send_message(letter)
    except (OSError, ValueError, smtplib.SMTPException) as error:
        return f"{server[0]}:{server[1]}: {(str(error).splitlines() or ['no answer'])[0]}"
    return None


def find_user_name() -> str:
    """The user's name; the number, where a container knows no name for it."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid{os.getuid()}"


# --- the demonstration ---


def play_rank(rank: int, odd: int, folder: Path) -> int:
    """One rank of the demonstration: some steps, then a place where it stays."""
    import faulthandler

    with (folder / f"stacks.{os.getpid()}").open("w") as stacks:
        faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
        with (folder / "train.log").open("a") as log:
            for step in range(3):
                log.write(f"rank {rank} step {step}\n")
                log.flush()
                time.sleep(0.05)
        stay_in_batch() if rank == odd else stay_in_exchange()
    return 0


def stay_in_batch() -> None:
    """Where the odd rank of the demonstration is."""
    time.sleep(60)


def stay_in_exchange() -> None:
    """Where the other ranks of the demonstration are."""
    threading.Event().wait(60)


def play_hang(options: argparse.Namespace, stop: StopSign, command: list[str]) -> int:
    """Start ranks of which one stops elsewhere, watch them, and name it; the exit status."""
    count, odd = options.ranks, min(2, options.ranks - 1)
    ranks: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="hang_") as name:
        folder = Path(name)
        try:
            for rank in range(count):
                environ = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(count)}
                environ.pop("TORCHELASTIC_RUN_ID", None)
                words = [str(Path(__file__).resolve()), "rank", str(rank), str(odd), name]
                ranks.append(
                    subprocess.Popen([sys.executable, *words], env=environ, start_new_session=True)
                )
            pids = [str(process.pid) for process in ranks]
            arguments = ["watch", "--timeout", "1s", "--log", str(folder / "train.log")]
            arguments += ["--pid", *pids, "--out", str(folder / "out")]
            arguments += ["--faulthandler", "USR1"]
            arguments += ["--faulthandler_file", str(folder / "stacks.{pid}")]
            watchdog = Watchdog(build_parser().parse_args(arguments), stop, command)
            watchdog.begin()
            deadline = time.monotonic() + 60
            is_complete = False
            try:
                while not watchdog.hangs and time.monotonic() < deadline:
                    stop.check()
                    watchdog.look_once()
                    time.sleep(0.05)
                is_complete = watchdog.hangs > 0
            except Stopped as stopped:
                write_note(str(stopped))
        finally:
            for process in ranks:
                process.kill()
            for process in ranks:
                process.wait()
        report = watchdog.report or HangReport([], "main")
        if options.json:
            write_document(options.json, report.make_document(watchdog.make_head(), is_complete))
    groups = report.groups
    is_named = bool(groups) and groups[0].ranks == [odd] and "stay_in_batch" in groups[0].place
    if is_complete and not is_named:
        print("problem: the rank that stopped elsewhere was not named", file=sys.stderr)
    return 0 if is_complete and is_named and watchdog.is_printed else 1


def make_sample_dump(rank: int, calls: Sequence[tuple[str, str, int]], size: int) -> Row:
    """A dump as from a rank whose main thread has these calls, the outermost first."""
    frames = [
        {"function": function, "file": file, "short": Path(file).name, "line": line}
        for function, file, line in reversed(calls)
    ]
    return {
        "kind": DUMP_KIND,
        "format": FILE_FORMAT,
        "taken": "2026-01-01T00:00:00Z",
        "host": f"node{rank // 8}",
        "rank": rank,
        "size": size,
        "pid": 1000 + rank,
        "launcher": "torchrun",
        "command": "python train.py",
        "by": "py-spy",
        "error": None,
        "threads": [{"name": "MainThread", "is_main": True, "active": False, "frames": frames}],
    }


def run_self_test() -> int:
    """Check the merge by hand, at size, and on ranks that really hang; 0, or 1 where one fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    library = "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py"
    begin = [("<module>", "/home/u/train.py", 50)]
    most = [*begin, ("step", "/home/u/train.py", 41), ("all_reduce", library, 3000)]
    odd = [*begin, ("load", "/home/u/data.py", 12)]
    report = HangReport([make_sample_dump(r, odd if r == 2 else most, 4) for r in range(4)], "main")
    words = "rank 2 in load at data.py:12; ranks 0-1,3 in all_reduce at train.py:41"
    check("the odd rank is named first", report.summary == words)
    tree = [
        "[0-3] <module> (train.py:50)",
        "  [2] load (data.py:12)",
        "  [0-1,3] step (train.py:41)",
        "  [0-1,3] all_reduce (distributed_c10d.py:3000)",
    ]
    check("the tree by hand", format_tree(report.tree).splitlines() == tree)
    check(
        "a missing rank is told", HangReport([make_sample_dump(0, most, 2)], "main").absent == [1]
    )
    many = [make_sample_dump(r, odd if r == 2049 else most * 20, 4096) for r in range(4096)]
    began = time.monotonic()
    large = HangReport(many, "main")
    rows = make_group_rows(large.groups)
    check("one of 4096 ranks is found", rows[0]["ranks"] == "2049")
    check("the others are two ranges", rows[1]["ranks"] == "0-2048,2050-4095")
    check("that takes less than 5 s", time.monotonic() - began < 5)
    lines = [line for dump in many[:3] for line in encode_dump("n1", dump)]
    came = decode_dumps("\n".join(reversed(lines)))[0]
    check("dumps travel in short lines", sorted(came, key=lambda one: one["rank"]) == many[:3])
    clock = [0.0]
    beat = ["a"]
    watch = SilenceWatch(10, lambda: clock[0])
    watch.add("output", lambda: beat[0])
    told = []
    for clock[0], beat[0] in ((9, "a"), (10, "a"), (30, "a"), (31, "b"), (40, "b"), (41, "b")):
        watch.update()
        silent = watch.find_hang()
        watch.mark(silent)
        told.append(bool(silent))
    check(
        "a hang is told once, and again after progress", told == [False, True, *[False] * 3, True]
    )
    with tempfile.TemporaryDirectory(prefix="check_") as folder:
        path = Path(folder) / "out.json"
        done = subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), "--toy", "--json", str(path)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    verdicts = [(row["ranks"], row["verdict"]) for row in found.get("results", [])]
    check("of four ranks that hang the odd one is named", done.returncode == 0)
    check("and the others together", verdicts == [("2", "odd"), ("0-1,3", "most")])
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


# --- the command line ---


def add_target_options(parser: argparse.ArgumentParser, with_pid: bool) -> None:
    """Whose stacks are taken."""
    if with_pid:
        parser.add_argument(
            "--pid", type=parse_count, nargs="+", metavar="PID", help="all ranks below these"
        )
        parser.add_argument(
            "--match",
            type=parse_pattern,
            metavar="REGEX",
            help="this user's Python processes with such a command line",
        )
    else:
        parser.set_defaults(pid=None, match=None)
    parser.add_argument(
        "--job", type=parse_watched_job, metavar="ID", help="all ranks of a Slurm job"
    )


def add_dump_options(parser: argparse.ArgumentParser) -> None:
    """How stacks are taken."""
    parser.add_argument(
        "--native", action="store_true", help="stacks of C and C++ too (slower; processes pause)"
    )
    parser.add_argument(
        "--py_spy", metavar="PATH", help="the program (default: that beside Python)"
    )
    parser.add_argument(
        "--dump_timeout",
        type=parse_duration,
        default=60.0,
        metavar="DURATION",
        help="what all stacks of a machine may take (default: 60s)",
    )
    parser.add_argument(
        "--faulthandler",
        type=parse_dump_signal,
        metavar="SIGNAL",
        help="where py-spy fails: send this signal to programs that have a handler for it",
    )
    parser.add_argument(
        "--faulthandler_file",
        metavar="PATH",
        help="where their faulthandler writes, with {pid} or {rank}",
    )


def add_merge_options(parser: argparse.ArgumentParser) -> None:
    """What of the stacks is merged."""
    parser.add_argument(
        "--threads",
        default="main",
        metavar="main|all|REGEX",
        help="which threads (default: main)",
    )


def add_watch_options(parser: argparse.ArgumentParser) -> None:
    """What is watched, and what is done."""
    parser.add_argument(
        "--timeout",
        type=parse_duration,
        default=600.0,
        metavar="DURATION",
        help="silence that is a hang (default: 10m)",
    )
    parser.add_argument(
        "--first",
        type=parse_duration,
        metavar="DURATION",
        help="no hang in so long from the start, whatever a launcher prints; silence before the "
        "first sign of life that is one (default: as --timeout)",
    )
    parser.add_argument(
        "--log", nargs="+", metavar="FILE", help="one of these has to grow (patterns allowed)"
    )
    parser.add_argument(
        "--heartbeat", nargs="+", metavar="FILE", help="each of these has to change"
    )
    parser.add_argument(
        "--then",
        type=parse_hang_action,
        action="append",
        default=[],
        metavar="ACTION",
        help="after the stacks: mail:ADDRESS, command:SHELL, kill, scancel; repeated, in order",
    )
    parser.add_argument(
        "--smtp",
        type=parse_mail_server,
        default=("localhost", 25),
        metavar="HOST:PORT",
        help="the mail server, without a login (default: localhost:25)",
    )


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="hang_watchdog.py",
        description="Notice that a job hangs, and tell which rank is where.",
        epilog="The docstring at the top of this file tells what is watched and what is done. "
        "Options of one task: hang_watchdog.py TASK --help.",
        allow_abbrev=False,
    )
    parser.add_argument("--toy", action="store_true", help="a demonstration: ranks that hang")
    parser.add_argument(
        "--ranks", type=parse_count, default=4, metavar="N", help="ranks of it (default: 4)"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"hang_watchdog {__version__} (method {METHOD})"
    )
    tasks = parser.add_subparsers(dest="task", metavar="TASK", title="tasks")
    for name, words in (
        ("run", "run a command, pass its output through, and watch it"),
        ("watch", "watch files that a job writes"),
        ("dump", "take the stacks of all ranks now"),
        ("merge", "merge stacks that were saved"),
    ):
        task = tasks.add_parser(name, help=words, description=words, allow_abbrev=False)
        if name == "merge":
            task.add_argument("dumps", nargs="+", type=Path, metavar="DUMPS")
        else:
            add_target_options(task, name != "run")
            add_dump_options(task)
            task.add_argument(
                "--out",
                type=Path,
                default=Path("hang_dumps"),
                metavar="FOLDER",
                help="where stacks and reports go (default: hang_dumps)",
            )
        if name in ("run", "watch"):
            add_watch_options(task)
        add_merge_options(task)
        if name == "run":
            task.add_argument("words", nargs="*", metavar="-- COMMAND")
        task.add_argument(
            "--json",
            type=Path,
            default=argparse.SUPPRESS,
            metavar="PATH",
            help="write the results as JSON",
        )
    # What this tool starts of itself: on the nodes of a job, and for the demonstration.
    node = tasks.add_parser("node", allow_abbrev=False)
    node.add_argument("--job", type=parse_watched_job, required=True)
    add_dump_options(node)
    rank = tasks.add_parser("rank", allow_abbrev=False)
    rank.add_argument("number", type=int)
    rank.add_argument("odd", type=int)
    rank.add_argument("folder", type=Path)
    return parser


def read_dump_settings(options: argparse.Namespace) -> DumpSettings:
    """How stacks are taken. Raises WrongUse."""
    if (options.faulthandler is None) is not (options.faulthandler_file is None):
        raise WrongUse("--faulthandler and --faulthandler_file belong together")
    file = options.faulthandler_file
    if file is not None and "{pid}" not in file and "{rank}" not in file:
        raise WrongUse("--faulthandler_file: ranks need files of their own: write {pid} or {rank}")
    return DumpSettings(
        find_py_spy(options.py_spy),
        options.native,
        options.dump_timeout,
        options.faulthandler,
        file,
    )


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse where options make no sense together."""
    task = options.task
    if task is None:
        if not options.toy:
            raise WrongUse("name a task: run, watch, dump or merge (or --toy, a demonstration)")
        if options.ranks < 3:
            raise WrongUse("--ranks: with fewer than 3 ranks none is odd")
        return
    if options.toy:
        raise WrongUse(f"--toy takes no task; leave out {task}")
    if task in ("dump", "merge", "run", "watch"):
        check_threads(options.threads)
    if task in ("run", "watch", "dump", "node"):
        settings = read_dump_settings(options)
        if settings.py_spy is None and settings.signal_number is None:
            raise WrongUse("py-spy is not there: pip install py-spy, or use --faulthandler")
    if task in ("watch", "dump"):
        for pid in options.pid or []:
            if read_process_stat(pid) is None:
                raise WrongUse(f"--pid: there is no process {pid}")
        if not Path("/proc/self/stat").exists():
            raise WrongUse("this takes Linux: processes are found through /proc")
    if task == "dump" and not (options.pid or options.match or options.job):
        raise WrongUse("name the ranks: --pid, --match or --job")
    if task in ("run", "watch"):
        kinds = [action.kind for action in options.then]
        if "scancel" in kinds and not (options.job or os.environ.get("SLURM_JOB_ID")):
            raise WrongUse("--then scancel needs --job")
        if task == "watch" and "kill" in kinds and not (options.pid or options.match):
            raise WrongUse("--then kill needs --pid or --match; a job is ended by --then scancel")
    if task == "run" and not options.words:
        raise WrongUse("name the command: hang_watchdog.py run --timeout 10m -- python train.py")
    if task == "watch":
        if options.job and not options.log and not options.heartbeat:
            options.log = [glob.escape(path) for path in find_job_logs(options.job)]
        if not options.log and not options.heartbeat:
            raise WrongUse("name what to watch: --log, --heartbeat, or --job of a batch job")
        if not (options.pid or options.match or options.job):
            raise WrongUse("name the ranks: --pid, --match or --job")
    if task in ("run", "watch", "dump") and options.job:
        check_watched_job(options.job)


def check_threads(text: str) -> None:
    """Raises WrongUse where --threads is neither a word nor a regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        raise WrongUse(f"--threads: '{text}' is no regular expression: {error}") from error


def do_dump(options: argparse.Namespace, command: list[str], stop: StopSign) -> int:
    """Take stacks now, save and merge them; the exit status."""
    watchdog = Watchdog(
        argparse.Namespace(**vars(options), timeout=600.0, first=None), stop, command
    )
    remarks: list[str] = []
    dumps = watchdog.take_dumps(remarks)
    if not dumps and not options.job:
        remarks.append(describe_nothing_found(options))
    try:
        save_dumps(dumps, options.out)
    except OSError as error:
        raise WrongUse(f"--out: {options.out}: {error.strerror}") from error
    if dumps:
        write_note(f"{len(dumps)} dumps are in {options.out}")
    return finish_hang_report(
        HangReport(dumps, options.threads, remarks), options, watchdog.make_head()
    )


def describe_nothing_found(options: argparse.Namespace) -> str:
    """Why a dump has no rank, and how to find what it should name."""
    if options.match is not None:
        return (
            f"no Python process of this user on {socket.gethostname()} has a command line that "
            f"fits '{options.match.pattern}': see `ps -fu {find_user_name()}`, on the node where "
            "the ranks run; --job asks all nodes of a job"
        )
    return (
        f"no Python process is at or below {format_rank_list(options.pid)}: name the launcher, or "
        "the ranks themselves (`pstree -p`), on the node where they run"
    )


def do_merge(options: argparse.Namespace, command: list[str], origin: float) -> int:
    """Merge saved dumps; the exit status."""
    dumps = [read_dump_file(path) for path in list_dump_files(options.dumps)]
    head = make_document_head("hang_watchdog", (__version__, METHOD), command, origin)
    return finish_hang_report(HangReport(dumps, options.threads), options, head)


def finish_hang_report(
    report: HangReport, options: argparse.Namespace, head: Mapping[str, Any]
) -> int:
    """Print and write a report; the exit status."""
    if options.json:
        write_document(options.json, report.make_document(head, True))
    print_report(report)
    return 0 if report.has_stacks else 1


class ForgivingStream(io.TextIOBase):
    """A stream to which is written what can be, and the rest is lost."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def write(self, text: str) -> int:
        """Write, or do not."""
        with contextlib.suppress(OSError):
            self.stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Hand on what was written, or do not."""
        with contextlib.suppress(OSError):
            self.stream.flush()


def hide_private_words(arguments: Sequence[str], watched: int) -> list[str]:
    """The arguments without addresses, commands of --then, and the watched command, so many words
    at the end: people and keys may be named in them."""
    hidden = []
    for before, argument in zip(
        ["", *arguments], arguments[: len(arguments) - watched], strict=False
    ):
        option, equals, value = argument.partition("=")
        if equals and option in ("--then", "--smtp"):
            hidden.append(f"{option}={hide_private_value(option, value)}")
        else:
            hidden.append(hide_private_value(before, argument))
    return [*hidden, *(["COMMAND"] if watched else [])]


def hide_private_value(option: str, value: str) -> str:
    """The value of an option, without what is private."""
    if option == "--smtp":
        return "HOST"
    kind, colon, _ = value.partition(":")
    return f"{kind}:HIDDEN" if option == "--then" and colon else value


def do_watch(options: argparse.Namespace, command: list[str], stop: StopSign) -> int:
    """Watch, or run and watch; the exit status."""
    watchdog = Watchdog(options, stop, command)
    is_complete = True
    try:
        if options.task == "run":
            status = watchdog.wrap(options.words)
            is_complete = not stop.by_signal
        else:
            status = watchdog.follow()
    except Stopped as stopped:
        write_note(str(stopped))
        is_complete, status = False, 1
    if options.json:
        report = watchdog.report or HangReport([], "main")
        document = report.make_document(watchdog.make_head(), is_complete)
        document["details"] |= {"hangs": watchdog.hangs}
        try:
            write_document(options.json, document)
        except WrongUse as error:
            if options.task != "run":
                raise
            write_note(str(error))  # the status is the command's
    return status


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    words = options.words if options.task == "run" else []
    command = make_portable_command(hide_private_words(arguments, len(words)))
    stop = StopSign()
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_json_path(options.json)
        check_options(options)
        if options.task == "rank":
            return play_rank(options.number, options.odd, options.folder)
        if options.task == "node":
            write_node_dumps(options.job, read_dump_settings(options))
            return 0
        stop.listen()
        if options.task in ("run", "watch"):
            # A log on a full disk is no reason to stop watching.
            with contextlib.redirect_stderr(cast(TextIO, ForgivingStream(sys.stderr))):
                return do_watch(options, command, stop)
        if options.task is None:
            return play_hang(options, stop, command)
        if options.task == "merge":
            return do_merge(options, command, origin)
        return do_dump(options, command, stop)
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a watch listens for signals itself
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
