#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Which ranks see the same files, and how does one of them prepare the data while others wait?

A data set is to be downloaded, unpacked or tokenised once, not by all ranks into one another's
files. These context managers let one rank through first, and the others when it is done, so that
they find what it made. Run as a program this file shows who waits for whom on a given path.

    from main_process_first import main_process_by_path_first
    with main_process_by_path_first("/data/set"):
        dataset = load_and_prepare("/data/set")        # once; from the cache on all other ranks

    global_main_process_first()         rank 0 first: for files that all nodes see
    local_main_process_first()          local rank 0 of each node first: for files of the node
    main_process_by_path_first(path)    of the ranks that see the same files there, the lowest first
    is_global_main_process(), is_local_main_process(), is_main_process_by_path(path)

Physics
    There is none to compute. Hand check: 2 nodes of 2 ranks. On a shared path rank 0 works and
    ranks 1 to 3 wait; on /tmp ranks 0 and 2 work at the same time, 1 waits for 0 and 3 for 2.

How it is found out who sees the same files
    Not by names of file systems, which do not tell: all ranks say which folder they see (the same
    number on the same kernel is the same folder), the lowest rank puts an empty file of a random
    name into it, and one rank of each other folder looks whether it is there. Those who do not see
    it do the same among themselves. Where nothing can be written the table of mounts decides: a
    network file system from the same place is the same. It is done once for each path and is asked
    of all ranks; give them all the same path, to a folder that is there, or to a file in one.

How they wait
    Through the store of the process group (or, without one, of MASTER_ADDR:MASTER_PORT), not in a
    barrier: no collective is open, so no time-out of NCCL ends a long preparation. A single process
    goes straight on. Where rank 0 hosts that store itself it ends after those that still prepare.
    An error in the first process is raised there, and as FirstProcessFailed, with its words, in
    those that wait, within a second. So is its death: a rank of the same node sees that the process
    is gone; others, that it has given no sign of life for 5 minutes, or that the store is gone.
    `timeout=` (in seconds) sets a limit besides; there is none by default.
    Not inside of one another: the first rank of an outer one would wait for ranks that wait for
    it, which is refused where all ranks have to be asked: for main_process_by_path_first, and
    for local_main_process_first where no launcher has set LOCAL_RANK.

What is timed
    For each rank how long it waited, nothing else. The work is a sleep and one small file.

How to run
    one node        python main_process_first.py --path /tmp --ranks 4
    torchrun        torchrun --nproc_per_node 8 main_process_first.py --path /shared/data
    an error        python main_process_first.py --rehearse
    Slurm           srun --ntasks-per-node 8 bash -c 'MASTER_ADDR=$(scontrol show hostnames \
                        $SLURM_JOB_NODELIST | head -n 1) MASTER_PORT=29500 \
                        python main_process_first.py --path /shared/data'
    pdsh            pdsh -R exec -w node[01-04] ssh %h 'RANK=%n WORLD_SIZE=4 LOCAL_RANK=0 \
                        MASTER_ADDR=node01 python /shared/main_process_first.py --path /data'

A good answer: by path, one `first` for each file system and `found it` for all others. `did it
again` under global says that this path is not shared, so that global_main_process_first is wrong
for it.

Seen running so far: on Linux, one process, local ranks, torchrun with and without a process group
(gloo), and ranks in mount namespaces of their own over shared and separate tmpfs. Not over NFS or
Lustre.

Exit status: 0 done, 1 by path somebody did the work again, a rank failed or did not hear of an
error, or stopped by a signal, 2 wrong use.
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
import hashlib
import json
import os
import platform
import re
import secrets
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {
    "toy": ["--ranks", "2", "--work", "0.2s"],
    "full": ["--work", "1s"],
}
RANKS = {"toy": 2, "full": "accelerators"}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "rank": "1",
    "local_rank": "1",
    "node": "1",
    "first_rank": "1",
    "waited_seconds": "s",
}

SCOPES = ("global", "local", "path")
PREFIX = "main_process_first"
PROBE_PREFIX = ".main_process_first-"
FIRST_PAUSE_SECONDS = 0.01
# What the store of rank 0 may be asked in a second by all that wait.
STORE_ANSWERS = 2000.0
LEAST_LONG_PAUSE_SECONDS = 0.05
BEAT_SECONDS = 2.0
# Long, because a beat needs the interpreter: one that reads a huge file into objects gives none.
SILENCE_SECONDS = 300.0
STORE_SECONDS = 300.0
# For ranks that are asked all together, as torch gives a barrier.
MEETING_SECONDS = 1800.0
GOODBYE_SECONDS = 10.0
ENDING_SECONDS = 5.0
RANK_NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")
LOCAL_RANK_NAMES = (
    "LOCAL_RANK",
    "SLURM_LOCALID",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "PALS_LOCAL_RANKID",
)
NETWORK_FILE_SYSTEMS = (
    "nfs",
    "nfs4",
    "lustre",
    "beegfs",
    "gpfs",
    "ceph",
    "cifs",
    "smb3",
    "glusterfs",
)

Row = dict[str, Any]


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


class Stopped(Exception):
    """The run ends here, by a signal or by the budget; what was measured is kept."""


class FirstProcessFailed(RuntimeError):
    """The process that went first did not get through, or cannot be heard any more."""


class Rehearsed(Exception):
    """The error that --rehearse raises in the first process."""


# --- the library ---


class Noticeboard:
    """What the ranks tell each other, through a store of torch.distributed."""

    def __init__(self, store: Any, rank: int, size: int) -> None:
        self.store = store
        self.rank = rank
        self.size = size
        self.places: dict[Path, FilePlace] = {}
        self.node: tuple[int, str] | None = None
        self.longest_pause = max(LEAST_LONG_PAUSE_SECONDS, size / STORE_ANSWERS)

    def tell(self, key: str, value: Any) -> None:
        """Let all ranks read this."""
        self._try(lambda: self.store.set(f"{PREFIX}/{key}", json.dumps(value)))

    def read(self, key: str) -> Any:
        """What was told, or None where nothing was."""
        name = f"{PREFIX}/{key}"
        return self._try(
            lambda: json.loads(self.store.get(name)) if self.store.check([name]) else None
        )

    def count(self, key: str, amount: int = 1) -> int:
        """Add to a counter; its new value."""
        return int(self._try(lambda: self.store.add(f"{PREFIX}/{key}", amount)))

    def number_entry(self, scope: str) -> str:
        """A key of this entry into a scope: the same one on all ranks, which enter in one order."""
        # Of the process, not of this board: a store may outlive a process group, with its keys.
        entries[scope] += 1
        return f"{scope}/{entries[scope]}"

    def _try(self, ask: Any) -> Any:
        try:
            return ask()
        except (RuntimeError, ValueError) as error:  # every error of a store is one of torch's
            words = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise FirstProcessFailed(
                f"rank {self.rank} lost the store of the job, so rank 0 is gone or out of reach: "
                f"{words[:200]}"
            ) from error


class FilePlace(NamedTuple):
    """The files that a path leads to, as this rank sees them: who goes first, and how we know."""

    first: int
    ranks: tuple[int, ...]
    evidence: str


class Folder(NamedTuple):
    """A folder as this rank sees it, and what tells it from others."""

    path: Path
    here: str
    """The same on the same machine for the same folder, and nowhere else."""
    mount: str
    """The same wherever the same network file system is mounted; empty for any other."""


boards: dict[int, Noticeboard] = {}
entries: Counter[str] = Counter()
# Of scopes that this process is the first of, and has not left yet.
inside: list[str] = []


@contextlib.contextmanager
def global_main_process_first(timeout: float | None = None) -> Iterator[None]:
    """Rank 0 first, then all others. Raises FirstProcessFailed where it did not get through."""
    board = find_board()
    with go_in_turn(board, "global", 0, timeout):
        yield


@contextlib.contextmanager
def local_main_process_first(timeout: float | None = None) -> Iterator[None]:
    """Local rank 0 of each node first, then the others of that node.

    Raises FirstProcessFailed where it did not get through.
    """
    board = find_board()
    first, node = find_node(board) if board else (0, "")
    with go_in_turn(board, f"local/{node}", first, timeout):
        yield


@contextlib.contextmanager
def main_process_by_path_first(
    path: str | os.PathLike[str], timeout: float | None = None
) -> Iterator[None]:
    """The lowest of the ranks that see the same files at `path` first, then the others of them.

    Raises FirstProcessFailed where it did not get through, and OSError on all ranks where one of
    them has no such folder.
    """
    board = find_board()
    place = find_file_place(board, Path(path), timeout)
    with go_in_turn(board, f"path/{place.first}", place.first, timeout):
        yield


def is_global_main_process() -> bool:
    """Whether this is rank 0, or a single process."""
    board = find_board()
    return board is None or board.rank == 0


def is_local_main_process() -> bool:
    """Whether this is the first rank of its node, or a single process."""
    board = find_board()
    return board is None or find_node(board)[0] == board.rank


def is_main_process_by_path(path: str | os.PathLike[str]) -> bool:
    """Whether this is the first of the ranks that see the same files at `path`.

    The first time it is asked of all ranks, like a collective.
    """
    board = find_board()
    return find_file_place(board, Path(path), None).first == (board.rank if board else 0)


def find_board() -> Noticeboard | None:
    """The board of this job; None for a single process.

    Raises FirstProcessFailed where the store does not answer, and WrongUse without torch.
    """
    distributed = getattr(sys.modules.get("torch"), "distributed", None)
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        store = distributed.distributed_c10d._get_default_store()
        rank, size = distributed.get_rank(), distributed.get_world_size()
    elif (place := read_rank(os.environ)) is not None:
        rank, size, _ = place
        if -1 in boards:
            return boards[-1]
        store = None
    else:
        return None
    if size == 1:
        return None
    if store is None:
        boards[-1] = Noticeboard(open_own_store(rank, size), rank, size)
        atexit.register(say_goodbye, boards[-1], os.getpid())
        return boards[-1]
    if id(store) not in boards:
        boards[id(store)] = Noticeboard(store, rank, size)
    return boards[id(store)]


def open_own_store(rank: int, size: int) -> Any:
    """The store at MASTER_ADDR:MASTER_PORT, which rank 0 hosts unless torchrun does.

    init_process_group finds the same one later. Raises FirstProcessFailed.
    """
    torch = import_torch()
    by_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    address = os.environ["MASTER_ADDR"], int(os.environ.get("MASTER_PORT", "29500"))
    try:
        store = torch.distributed.TCPStore(
            *address,
            size,
            rank == 0 and not by_agent,
            datetime.timedelta(seconds=STORE_SECONDS),
            wait_for_workers=False,
            multi_tenant=True,
        )
    except RuntimeError as error:
        words = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise FirstProcessFailed(
            f"rank {rank} cannot reach the store at {address[0]}:{address[1]}: {words[:200]}"
        ) from error
    # Ranks that torchrun starts again meet the keys of those before.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return torch.distributed.PrefixStore(f"{PREFIX}/attempt-{attempt}", store)


def say_goodbye(board: Noticeboard, process: int) -> None:
    """At the end of the process: rank 0 takes its store along, so it waits for the others, as long
    as any of them prepares something or has just ended."""
    if os.getpid() != process:  # a child that was forked
        return
    with contextlib.suppress(FirstProcessFailed):
        heard, deadline = (board.count("goodbye"), 0), time.monotonic() + GOODBYE_SECONDS
        while board.rank == 0 and heard[0] < board.size and time.monotonic() < deadline:
            news = board.count("goodbye", 0), board.count("beats", 0)
            if news != heard:
                heard, deadline = news, time.monotonic() + GOODBYE_SECONDS
            time.sleep(0.02)


def read_rank(environ: Mapping[str, str]) -> tuple[int, int, int] | None:
    """Rank, world size and local rank from torchrun, Slurm or Open MPI; None without a launcher."""
    for names in (
        ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
        ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ):
        # A shell inside an allocation has SLURM_PROCID too: it is a rank only beside an address.
        if all(environ.get(name, "").isdigit() for name in names) and "MASTER_ADDR" in environ:
            rank, size, local = (int(environ[name]) for name in names)
            return rank, size, local
    return None


def read_local_rank(environ: Mapping[str, str]) -> int | None:
    """The number of this rank on its node, as the launcher counts; None where none does."""
    for name in LOCAL_RANK_NAMES:
        if environ.get(name, "").isdigit():
            return int(environ[name])
    return None


def read_machine() -> str:
    """What tells this machine, or this container of it, from all others, and names nobody."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return make_digest(boot, socket.gethostname())
    return make_digest(socket.gethostname())


def make_digest(*parts: object) -> str:
    """A short name for these values."""
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[:16]


def read_pid_space() -> str | None:
    """What two processes have in common that can see each other by their numbers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return None


def is_process_dead(pid: int) -> bool:
    """Whether a process of this machine has ended, reaped or not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True
    return state in "ZX"


def read_process_start(pid: int) -> str | None:
    """When a process of this machine began, in the kernel's ticks; None where nobody tells."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def find_node(board: Noticeboard) -> tuple[int, str]:
    """The rank that goes first on this node, and a name for the node.

    Asked of all ranks of the job the first time.
    """
    if board.node is None:
        # Two agents of torchrun on one machine count as two nodes, as they do for torchrun.
        name = make_digest(read_machine(), os.environ.get("GROUP_RANK", ""))
        local = read_local_rank(os.environ)
        if local == 0:
            board.tell(f"node/{name}", board.rank)
            board.node = (board.rank, name)
        elif local is not None:
            first = wait_for_word(board, f"node/{name}", "local rank 0 of this node", STORE_SECONDS)
            board.node = (int(first), name)
        elif inside:
            raise RuntimeError(
                "no launcher has set LOCAL_RANK, so all ranks are asked who is on this node, and "
                f"others wait for this one here: ask before the {inside[-1].split('/')[0]} "
                "context, not inside of it"
            )
        else:
            ranks = meet_members(board, board.number_entry("nodes"), name, None)
            board.node = (ranks[0], name)
    return board.node


def meet_members(board: Noticeboard, key: str, name: str, timeout: float | None) -> list[int]:
    """All ranks that gave the same name, in order. Asked of all ranks of the job."""
    place = board.count(f"{key}/size/{name}") - 1
    board.tell(f"{key}/member/{name}/{place}", board.rank)
    wait_for_count(board, f"{key}/arrived", 1, timeout)
    size = board.count(f"{key}/size/{name}", 0)
    return sorted(int(board.read(f"{key}/member/{name}/{i}")) for i in range(size))


def wait_for_count(board: Noticeboard, key: str, amount: int, timeout: float | None) -> None:
    """Add to a counter, and wait until those of all ranks of the job are in it."""
    if board.count(key, amount) == board.size:
        board.tell(f"{key}/all", True)
    limit = MEETING_SECONDS if timeout is None else timeout
    wait_for_word(board, f"{key}/all", "all ranks to come here", limit)


def wait_for_word(board: Noticeboard, key: str, what: str, timeout: float | None) -> Any:
    """Wait until something is told under the key; what it was.

    Raises FirstProcessFailed after the time-out.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    pause = FIRST_PAUSE_SECONDS
    while (value := board.read(key)) is None:
        if deadline is not None and time.monotonic() > deadline:
            raise FirstProcessFailed(
                f"rank {board.rank} has waited {timeout:g} s for {what}, in vain"
            )
        time.sleep(pause)
        pause = min(1.5 * pause, board.longest_pause)
    return value


@contextlib.contextmanager
def go_in_turn(
    board: Noticeboard | None, scope: str, first: int, timeout: float | None
) -> Iterator[None]:
    """Let rank `first` through, and the others of the scope when it is done."""
    if board is None:
        yield
        return
    key = board.number_entry(scope)
    title = f"the {scope.split('/')[0]} first process, rank {first},"
    if board.rank != first:
        wait_for_first(board, key, title, timeout)
        yield
        return
    beat = Beat(board, key)
    beat.start()
    inside.append(scope)
    process = os.getpid()
    outcome: dict[str, Any] = {"failed": "ended without a word"}
    try:
        yield
        outcome = {"failed": None}
    except BaseException as error:
        words = str(error).strip().splitlines() or [""]
        outcome = {"failed": f"raised {type(error).__name__}: {words[0][:500]}".rstrip(": ")}
        raise
    finally:
        inside.remove(scope)
        if os.getpid() == process:  # and not a child of the work, which ends its copy of all this
            beat.end()
            # The error of the work is the one to raise, not that nobody could be told of it.
            with contextlib.suppress(*([FirstProcessFailed] if outcome["failed"] else [])):
                board.tell(f"{key}/outcome", outcome)


class Beat(threading.Thread):
    """Signs of life of the first process, and who it is, while it works."""

    def __init__(self, board: Noticeboard, key: str) -> None:
        super().__init__(name="main_process_first", daemon=True)
        self.board = board
        self.key = key
        self.ended = threading.Event()
        who = {"host": socket.gethostname(), "pid": os.getpid(), "space": read_pid_space()}
        board.tell(f"{key}/who", {**who, "started": read_process_start(os.getpid())})

    def run(self) -> None:
        """Beat until the work is done; a store that is gone is met by the one who needs it."""
        with contextlib.suppress(FirstProcessFailed):
            while not self.ended.wait(BEAT_SECONDS):
                self.board.count(f"{self.key}/beat")
                self.board.count("beats")

    def end(self) -> None:
        """Beat no more."""
        self.ended.set()
        self.join(timeout=BEAT_SECONDS)


def wait_for_first(board: Noticeboard, key: str, title: str, timeout: float | None) -> None:
    """Wait until the first process is done. Raises FirstProcessFailed where it will not be."""
    began = heard = time.monotonic()
    beats = -1
    pause = FIRST_PAUSE_SECONDS
    while True:
        outcome = board.read(f"{key}/outcome")
        if outcome is None:
            trouble, beats, heard = find_trouble(board, key, beats, heard)
            # It may have told and ended between the two looks.
            outcome = board.read(f"{key}/outcome") if trouble else None
            if trouble and outcome is None:
                outcome = {"failed": trouble}
                board.tell(f"{key}/outcome", outcome)
        if outcome is not None:
            break
        if timeout is not None and time.monotonic() - began > timeout:
            raise FirstProcessFailed(f"{title} was not done within {timeout:g} s")
        time.sleep(pause)
        pause = min(1.5 * pause, board.longest_pause)
    if outcome["failed"]:
        raise FirstProcessFailed(f"{title} {outcome['failed']}")


def find_trouble(
    board: Noticeboard, key: str, beats: int, heard: float
) -> tuple[str | None, int, float]:
    """Why the first process will not get done, if it will not; its beats and when they changed."""
    who = board.read(f"{key}/who")
    now = time.monotonic()
    if who is None:  # not there yet, and nobody knows where it is
        return None, beats, now
    if who["space"] is not None and who["space"] == read_pid_space():
        # By its start too: its number may be another process's by now.
        pid = int(who["pid"])
        if is_process_dead(pid) or read_process_start(pid) != who["started"]:
            return f"(process {who['pid']} on {who['host']}) is gone", beats, heard
        return None, beats, heard
    count = board.count(f"{key}/beat", 0)
    if count != beats:
        return None, count, now
    if now - heard > SILENCE_SECONDS:
        text = f"({who['host']}) has given no sign of life for {SILENCE_SECONDS:g} s"
        return text, beats, heard
    return None, beats, heard


# --- who sees the same files ---


def find_file_place(board: Noticeboard | None, path: Path, timeout: float | None) -> FilePlace:
    """Who sees the same files at the path. Asked of all ranks the first time.

    Raises OSError on all ranks where one has no such folder, FirstProcessFailed where one is gone.
    """
    if board is None:
        look_at_folder(path)
        return FilePlace(0, (0,), "a single process")
    if path in board.places:
        return board.places[path]
    if inside:
        raise RuntimeError(
            f"who sees the same files at {path} is asked of all ranks, and others wait for this "
            f"one here: ask before the {inside[-1].split('/')[0]} context, not inside of it"
        )
    key = board.number_entry("find")
    folder: Folder | None = None
    problem = ""
    try:
        folder = look_at_folder(path)
    except OSError as error:
        problem = f"rank {board.rank} on {socket.gethostname()}: {error}"
        board.tell(f"{key}/problem", problem)
    wait_for_count(board, f"{key}/looked", 1, timeout)
    others = board.read(f"{key}/problem")
    if others is not None or folder is None:
        raise FileNotFoundError(problem or str(others))
    board.places[path] = ask_around(board, key, folder, timeout)
    return board.places[path]


def look_at_folder(path: Path) -> Folder:
    """The folder that a path leads to, or that a file of this name would be in.

    Raises OSError where there is none.
    """
    path = path.absolute()
    if not path.is_dir():
        if not path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {path}, and none above it; make it first")
        path = path.parent
    state = path.stat()
    here = make_digest(read_machine(), state.st_dev, state.st_ino)
    kind, source = find_mount(path)
    is_network = kind in NETWORK_FILE_SYSTEMS or kind.startswith("fuse.")
    return Folder(path, here, make_digest(kind, source, state.st_ino) if is_network else "")


def find_mount(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> tuple[str, str]:
    """The type of the file system at a path, and where it comes from; `unknown` else."""
    try:
        lines = mounts.read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown", ""
    found, deepest = ("unknown", ""), -1
    for line in lines:
        fields = line.split()
        if "-" not in fields or len(fields) < 10:
            continue
        # The kernel writes a blank in a name as \040.
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        inner = path.resolve().is_relative_to(point)
        if inner and len(Path(point).parts) >= deepest:
            start = fields.index("-")
            found, deepest = (fields[start + 1], fields[start + 2]), len(Path(point).parts)
    return found


def ask_around(board: Noticeboard, key: str, folder: Folder, timeout: float | None) -> FilePlace:
    """Find out with all other ranks who sees the same files."""
    near = meet_members(board, f"{key}/near", folder.here, timeout)
    if near[0] == board.rank:
        with contextlib.ExitStack() as probes:
            place = speak_for_folder(board, key, folder, near, probes, timeout)
            wait_for_count(board, f"{key}/done", len(near), timeout)
        return place
    limit = MEETING_SECONDS if timeout is None else timeout
    told = wait_for_word(
        board, f"{key}/place/{folder.here}", "the first rank of this folder", limit
    )
    return FilePlace(int(told["first"]), tuple(told["ranks"]), str(told["evidence"]))


def speak_for_folder(
    board: Noticeboard,
    key: str,
    folder: Folder,
    near: Sequence[int],
    probes: contextlib.ExitStack,
    timeout: float | None,
) -> FilePlace:
    """For all ranks with this folder: find the others that see the same files, and tell ours.

    Files that it puts there are removed when `probes` closes.
    """
    token = ""
    first, evidence = board.rank, "no other rank sees these files"
    if board.rank == 0:
        token = put_probe(folder, probes)
        board.tell(f"{key}/token", token)
    else:
        limit = MEETING_SECONDS if timeout is None else timeout
        theirs = str(wait_for_word(board, f"{key}/token", "rank 0 to look at the path", limit))
        if theirs and is_visible(folder.path / theirs):
            first, evidence = 0, "a file of rank 0 is seen"
    if first == board.rank:
        # Not with rank 0: all of these put a file of their own, and look for those of others.
        token = token or put_probe(folder, probes)
        place = board.count(f"{key}/speakers") - 1
        board.tell(
            f"{key}/speaker/{place}", {"rank": board.rank, "token": token, "mount": folder.mount}
        )
    wait_for_count(board, f"{key}/ready", len(near), timeout)
    if first == board.rank:
        count = board.count(f"{key}/speakers", 0)
        speakers = [board.read(f"{key}/speaker/{place}") for place in range(count)]
        for other in sorted(speakers, key=lambda other: int(other["rank"])):
            if other["rank"] >= board.rank:
                break
            if other["token"] and is_visible(folder.path / str(other["token"])):
                first, evidence = int(other["rank"]), f"a file of rank {other['rank']} is seen"
                break
            if folder.mount and other["mount"] == folder.mount and not (token and other["token"]):
                first = int(other["rank"])
                evidence = f"mounted from where rank {first} has it"
                break
    group = board.count(f"{key}/group/{first}/size") - 1
    board.tell(f"{key}/group/{first}/{group}", list(near))
    wait_for_count(board, f"{key}/grouped", len(near), timeout)
    size = board.count(f"{key}/group/{first}/size", 0)
    groups = [board.read(f"{key}/group/{first}/{place}") for place in range(size)]
    ranks = sorted(int(rank) for ranks in groups for rank in ranks)
    if len(ranks) == len(near) > 1:
        evidence = "the same folder of one machine"
    elif first == board.rank and len(ranks) > len(near):
        evidence = "others see a file of this rank"
    told = {"first": first, "ranks": ranks, "evidence": evidence}
    board.tell(f"{key}/place/{folder.here}", told)
    return FilePlace(first, tuple(ranks), evidence)


def put_probe(folder: Folder, probes: contextlib.ExitStack) -> str:
    """Put an empty file of a new name into the folder; its name, or nothing where that fails."""
    name = f"{PROBE_PREFIX}{secrets.token_hex(8)}"
    path = folder.path / name
    try:
        number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    except OSError:
        return ""
    probes.callback(remove_file, path)
    with contextlib.suppress(OSError):
        os.fsync(number)
    os.close(number)
    return name


def is_visible(path: Path) -> bool:
    """Whether this rank can see the file; where it cannot look it cannot see."""
    try:
        path.lstat()
    except OSError:
        return False
    return True


def remove_file(path: Path) -> None:
    """Remove a file of ours; one that is gone is no loss."""
    with contextlib.suppress(OSError):
        path.unlink()


# --- the demonstration ---


def play_scope(
    options: argparse.Namespace, board: Noticeboard | None, scope: str, token: str
) -> Row:
    """Go through one of the contexts with a small work inside; a row on what happened."""
    rank, file = board.rank if board else 0, options.path / f"{PROBE_PREFIX}{token}-{scope}"
    first, node = find_node(board) if board else (0, "")
    evidence = None
    if scope == "path":
        place = find_file_place(board, options.path, None)
        first, evidence = place.first, place.evidence
        context = main_process_by_path_first(options.path)
    else:
        context = global_main_process_first() if scope == "global" else local_main_process_first()
        first = 0 if scope == "global" else first
    row: Row = {
        "rank": rank,
        "local_rank": read_local_rank(os.environ),
        "node": node,
        "scope": scope,
        "first_rank": first,
        "is_first": rank == first,
        "waited_seconds": None,
        "did_work": False,
        "evidence": evidence,
        "verdict": "",
    }
    try:
        enter_scope(context, row, file, options)
        if board is not None:
            board.tell(f"demo/row/{scope}/{rank}", row)
        meet_at(board, f"demo/{scope}")  # the file stays until all have looked for it
    finally:
        if row["did_work"]:
            remove_file(file)
    return row


def enter_scope(
    context: contextlib.AbstractContextManager[None],
    row: Row,
    file: Path,
    options: argparse.Namespace,
) -> None:
    """Go through the context, and note in the row what happened."""
    began = time.monotonic()
    try:
        with context:
            row["waited_seconds"] = round(time.monotonic() - began, 6)
            row["did_work"] = do_work(file, options, row["is_first"])
        row["verdict"] = name_verdict(row["is_first"], row["did_work"], options.rehearse)
    except Rehearsed:
        row["verdict"] = "raised"
    except FirstProcessFailed as error:
        if not options.rehearse:
            raise
        row["waited_seconds"] = round(time.monotonic() - began, 6)
        row["verdict"] = "heard" if "Rehearsed" in str(error) else "something else"


def meet_at(board: Noticeboard | None, key: str) -> None:
    """Wait for all ranks."""
    if board is not None:
        wait_for_count(board, key, 1, MEETING_SECONDS)


def do_work(file: Path, options: argparse.Namespace, is_first: bool) -> bool:
    """What a preparation does: nothing where its file is there; whether there was something to do.

    Raises Rehearsed in the first process of a rehearsal.
    """
    if is_visible(file):
        return False
    time.sleep(options.work)
    if options.rehearse and is_first:
        raise Rehearsed("a rehearsed error")
    try:
        file.touch()
    except OSError as error:
        raise WrongUse(f"--path {options.path}: {error.strerror}") from error
    return True


def name_verdict(is_first: bool, did_work: bool, is_rehearsal: bool) -> str:
    """What became of a rank in one word or two."""
    if is_rehearsal:
        return "NOT HEARD"
    if is_first:
        return "first" if did_work else "first, found it"
    return "did it again" if did_work else "found it"


def find_turn_problems(rows: Sequence[Row]) -> list[str]:
    """What should not have happened."""
    problems = []
    for row in rows:
        title = f"rank {row['rank']}, {row['scope']}"
        if row["scope"] == "path" and row["verdict"] == "did it again":
            problems.append(f"{title}: did the work of rank {row['first_rank']} again")
        if row["verdict"] in ("NOT HEARD", "something else"):
            problems.append(f"{title}: did not hear of the error of rank {row['first_rank']}")
    return problems


def collect_rows(board: Noticeboard | None, own: Sequence[Row]) -> list[Row]:
    """The rows of all ranks as far as they were told, by scope and rank, with nodes numbered."""
    rows = list(own)
    if board is not None:
        rows = []
        for scope in SCOPES:
            for rank in range(board.size):
                row = board.read(f"demo/row/{scope}/{rank}")
                if row is not None:
                    rows.append(row)
    nodes = {name: number for number, name in enumerate(dict.fromkeys(r["node"] for r in rows))}
    return [{**row, "node": nodes[row["node"]]} for row in rows]


def print_report(rows: Sequence[Row], notes: Sequence[str]) -> int:
    """The table to stdout, notes and problems to stderr; how many of these there were."""
    cells = []
    for row in rows:
        waited = "-" if row["waited_seconds"] is None else f"{row['waited_seconds']:.2f}"
        place = [row["scope"], str(row["rank"]), str(row["node"]), str(row["first_rank"])]
        cells.append([*place, waited, row["evidence"] or "-", row["verdict"]])
    headings = ["scope", "rank", "node", "first", "waited s", "found out by", "verdict"]
    is_printed = not cells or print_to_stdout(format_table(headings, cells))
    for note in notes:
        write_note(note)
    problems = find_turn_problems(rows)
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    return len(problems) + (not is_printed)


def raise_stopped(number: int, _frame: Any) -> None:
    """End what this process waits for: a signal has come."""
    signal.signal(number, signal.SIG_DFL)
    raise Stopped(f"stopped by {signal.Signals(number).name}")


def shut_out_signals() -> None:
    """Let the end of the run be an end, whatever signal comes."""
    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def hear_of_ends(board: Noticeboard, reason: str) -> str:
    """Tell why this rank ended too early, if it did; on rank 0, why any of them did."""
    with contextlib.suppress(FirstProcessFailed):
        board.tell(f"demo/ended/{board.rank}", reason)
        deadline = time.monotonic() + ENDING_SECONDS
        for rank in range(board.size if board.rank == 0 and not reason else 0):
            try:
                left = max(deadline - time.monotonic(), 0.01)
                reason = wait_for_word(board, f"demo/ended/{rank}", "the end of a rank", left)
            except FirstProcessFailed:
                reason = f"rank {rank} did not tell how it ended"
            if reason:
                break
    return reason


def show_turns(options: argparse.Namespace, command: Sequence[str], origin: float) -> int:
    """Play all scopes as one of the ranks; rank 0 prints and writes. The exit status."""
    if options.group:
        torch = import_torch()
        limit = datetime.timedelta(seconds=STORE_SECONDS)
        torch.distributed.init_process_group("gloo", timeout=limit)
    board = find_board()
    rank, size = (board.rank, board.size) if board else (0, 1)
    rows: list[Row] = []
    caveats: list[str] = []
    reason = ""
    try:
        token = secrets.token_hex(8)
        if board is not None:
            if rank == 0:
                board.tell("demo/token", token)
            token = str(wait_for_word(board, "demo/token", "rank 0", STORE_SECONDS))
        for scope in options.scopes:
            rows.append(play_scope(options, board, scope, token))
    except Stopped as stopped:
        reason = str(stopped)
    except FirstProcessFailed as error:
        reason = f"rank {rank}: {error}"
    shut_out_signals()  # one that comes from here on comes too late to matter
    if board is not None:
        reason = hear_of_ends(board, reason)
    if rank == 0:
        rows = collect_rows(board, rows)
        expected = size * len(options.scopes)
        if not reason and len(rows) < expected:
            reason = f"only {len(rows)} of {expected} rows were told"
        if reason:
            caveats.append(reason)
        if size == 1:
            caveats.append("a single process waits for nobody: try --ranks 4")
        problems = print_report(rows, caveats)
        if options.json:
            document = {
                **make_document_head("main_process_first", (__version__, METHOD), command, origin),
                "complete": not reason,
                "units": UNITS,
                "results": rows,
                "caveats": caveats,
                "details": {
                    "ranks": size,
                    "file_system": find_mount(options.path)[0],
                    "rehearsal": options.rehearse,
                    "process_group": options.group,
                    "platform": f"{platform.system()} {platform.machine()}",
                    "python": platform.python_version(),
                },
            }
            write_document(options.json, document)
    else:
        problems = len(find_turn_problems(rows))
        if reason:
            print(f"problem: {reason}", file=sys.stderr)
    if options.group:
        meet_at(board, "demo/end")
        import_torch().distributed.destroy_process_group()
    return 1 if problems or reason else 0


def import_torch() -> Any:
    """The torch module; raises WrongUse with what to do where there is none."""
    try:
        import torch
    except ImportError as error:
        raise WrongUse(
            f"torch does not import ({error}); install it: https://pytorch.org/get-started/locally"
        ) from error
    return torch


def find_free_port() -> int:
    """A TCP port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def count_local_ranks(wanted: int | None, device_name: str | None) -> int:
    """How many ranks to start here: as asked for, else one for each accelerator, or 2 on a CPU."""
    if wanted:
        return wanted
    if device_name is not None and device_name.startswith("cpu"):
        return 2
    torch = import_torch()
    if hasattr(torch, "accelerator") and torch.accelerator.is_available():
        return int(torch.accelerator.device_count())
    return 2


def launch_ranks(count: int, arguments: Sequence[str]) -> int:
    """Run this file once for each rank on this machine, and return the exit status of the job.

    The first rank that fails ends the others, and is named. A signal goes to all of them.
    """
    port = find_free_port()
    ranks: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _frame: Any) -> None:
        for process in ranks:
            if process.poll() is None:
                process.send_signal(number)

    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), pass_on)
    for rank in range(count):
        environ = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(count),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        environ.setdefault("OMP_NUM_THREADS", "1")
        # A group of its own: Ctrl-C at the terminal reaches a rank once, through pass_on.
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), *arguments],
            env=environ,
            start_new_session=True,
        )
        ranks.append(process)
    failed: tuple[int, int] | None = None
    deadline: float | None = None
    while any(process.poll() is None for process in ranks):
        for rank, process in enumerate(ranks):
            if process.poll() and failed is None:
                failed = (rank, process.returncode)
                deadline = time.monotonic() + 5.0
        if deadline is not None and time.monotonic() > deadline:
            for process in ranks:
                if process.poll() is None:
                    process.kill()
        time.sleep(0.02)
    statuses = [process.returncode for process in ranks]
    if failed is None:
        failed = next(((rank, status) for rank, status in enumerate(statuses) if status), None)
    if failed is None:
        return 0
    rank, status = failed
    if status < 0:
        print(f"rank {rank} was ended by {signal.Signals(-status).name}", file=sys.stderr)
        return 1
    if status not in (1, 2):
        print(f"rank {rank} ended with status {status}", file=sys.stderr)
        return 1
    return status


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


def run_self_test() -> int:
    """Check who goes first, alone and with real ranks; 0, or 1 where a check fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    environ = {"RANK": "3", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "MASTER_ADDR": "node1"}
    check("rank 3 of 4 is local rank 1", read_rank(environ) == (3, 4, 1))
    check("and so says the local rank alone", read_local_rank(environ) == 1)
    with tempfile.TemporaryDirectory(prefix="first_") as name:
        folder = Path(name)
        here = look_at_folder(folder)
        check("a file leads to its folder", look_at_folder(folder / "new.txt") == here)
        (folder / "inner").mkdir()
        check("another folder is another one", look_at_folder(folder / "inner").here != here.here)
        try:
            look_at_folder(folder / "none" / "none")
            missing = False
        except FileNotFoundError:
            missing = True
        check("a folder that is not there is refused", missing)
        command = [sys.executable, str(Path(__file__).resolve()), "--path", name, "--work", "0.3s"]
        clean = {k: v for k, v in os.environ.items() if k not in RANK_NAMES}
        results: list[tuple[int, list[Row]]] = []
        for more in (["--ranks", "1"], ["--ranks", "2"], ["--ranks", "2", "--rehearse"]):
            path = folder / "out.json"
            path.unlink(missing_ok=True)
            done = subprocess.run(
                [*command, *more, "--json", str(path)],
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
                env=clean,
            )
            rows = json.loads(path.read_text(encoding="utf-8"))["results"] if path.exists() else []
            results.append((done.returncode, rows))
        left = sorted(path.name for path in folder.iterdir())
    (alone, rows), (two, turns), (rehearsed, heard) = results
    check("a single process goes straight on", alone == 0 and len(rows) == 3)
    verdicts = [row["verdict"] for row in turns]
    check("of two ranks one works", two == 0 and verdicts == ["first", "found it"] * 3)
    waited_for = [row["first_rank"] for row in turns]
    check("and that is rank 0, for which the other one waits", waited_for == [0] * 6)
    verdicts = [row["verdict"] for row in heard]
    check("an error is raised in both", rehearsed == 0 and verdicts == ["raised", "heard"] * 3)
    check("nothing is left in the folder", left == ["inner", "out.json"])
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="main_process_first.py",
        description="Show which ranks wait for which: globally, on each node, and by a path.",
        epilog="The docstring at the top of this file tells how to use it in a program.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--path",
        type=Path,
        metavar="FOLDER",
        help="whose file system it is about (default: that for temporary files)",
    )
    parser.add_argument(
        "--work",
        type=parse_duration,
        default=1.0,
        metavar="DURATION",
        help="what the first process takes (default: 1s)",
    )
    parser.add_argument(
        "--scopes", nargs="+", choices=SCOPES, default=SCOPES, help="some of them (default: all)"
    )
    parser.add_argument(
        "--rehearse", action="store_true", help="let the first process fail; the others hear of it"
    )
    parser.add_argument(
        "--group", action="store_true", help="with a process group (gloo) instead of the store"
    )
    parser.add_argument(
        "--ranks",
        type=parse_count,
        metavar="N",
        help="without a launcher: start so many here (default: all accelerators, or 2 on a CPU)",
    )
    # Old launchers add it; the environment says the same.
    parser.add_argument("--local_rank", "--local-rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version",
        action="version",
        version=f"main_process_first {__version__} (method {METHOD})",
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense, before any rank is started."""
    check_json_path(options.json)
    options.path = (options.path or Path(tempfile.gettempdir())).absolute()
    if not options.path.is_dir():
        raise WrongUse(f"--path: there is no folder {options.path}")
    options.scopes = tuple(scope for scope in SCOPES if scope in options.scopes)
    if options.group and options.ranks == 1:
        raise WrongUse("--group needs more than one rank")


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    place = read_rank(os.environ)
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_options(options)
        if place is None and options.ranks != 1:
            count = count_local_ranks(options.ranks, None)
            if count > 1:
                return launch_ranks(count, arguments)
        for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), raise_stopped)
        return show_turns(options, make_portable_command(arguments), origin)
    except WrongUse as error:
        if place is not None and place[0] != 0:
            print(f"rank {place[0]}: {error}", file=sys.stderr)
            return 2
        parser.error(str(error))
    except FirstProcessFailed as error:
        print(f"problem: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, Stopped):
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
