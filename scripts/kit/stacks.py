"""Python stacks of the ranks of a job: taken from outside, saved, and merged as STAT does.

A dump is the JSON of one rank: where its process is, and the frames of its threads with the
innermost call first, or the reason why there are none.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from kit.cli import UsageError
from kit.procs import Process, identify, list_processes, read_stat, read_words
from kit.report import Report, Row, format_spans, format_table, name_ranks, read_json, write_json

DUMP_KIND = {"kind": "hang_watchdog dump", "format": 1}
# The first that a process has counts: under torchrun, Slurm numbers only the launchers.
RANK_VARIABLES = {
    "torchrun": ("RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID"),
    "environment": ("RANK", "WORLD_SIZE"),
    "slurm": ("SLURM_PROCID", "SLURM_NTASKS"),
    "mpi": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
}
LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3", "<frozen")
DECORATORS = ("wrapper", "inner", "_fn", "_call_impl", "_wrapped_call_impl", "__call__",
              "decorate_context")  # fmt: skip
COLLECTIVES = ("distributed_c10d.py", "_functional_collectives.py")
STATES = {
    "T": "it is stopped (SIGSTOP, or a debugger)",
    "D": "it waits in the kernel (state D): a file system or a driver hangs",
    "Z": "it has ended",
}


class Stack(NamedTuple):
    """A thread of a rank: its calls from the outermost inwards, and its call site."""

    rank: int
    calls: Sequence[str]
    site: str
    in_collective: bool


def is_library(frame: Mapping[str, Any]) -> bool:
    """True for a call in Python's own files, in a package, or in compiled code."""
    file = frame["file"]
    is_python = file.endswith((".py", ".pyw", ".ipynb")) or file.startswith("<")
    return not is_python or any(folder in file for folder in LIBRARIES)


def find_site(frames: Sequence[Mapping[str, Any]]) -> str:
    """`all_reduce at train.py:41`: the innermost line of the user's own code, and the function it
    called, decorators left out; of a stack of libraries alone, its innermost call."""
    number = next((i for i, frame in enumerate(frames) if not is_library(frame)), 0)
    called = [
        frame["function"]
        for frame in frames[:number]
        if frame["line"] and frame["function"].rpartition(".")[2] not in DECORATORS
    ]
    own = frames[number]
    return f"{called[-1] if called else own['function']} at {own['short']}:{own['line']}"


def read_stacks(rank: int, dump: Row, threads: str) -> list[Stack]:
    """The main thread, or all threads; a single stack that says why where there are none."""
    stacks = []
    for thread in dump["threads"]:
        frames = thread["frames"]
        if frames and (thread["is_main"] or threads == "all"):
            lines = [f":{int(f['line'])}" if f["line"] else "" for f in frames]
            calls = [
                f"{f['function']} ({f['short']}{line})"
                for f, line in zip(frames, lines, strict=True)
            ]
            in_collective = any(is_library(f) and f["file"].endswith(COLLECTIVES) for f in frames)
            stacks.append(Stack(rank, calls[::-1], find_site(frames), in_collective))
    if not stacks:
        error = str(dump["error"] or "no main thread").split(";")[0]
        text = f"(no stack: {error})"
        return [Stack(rank, [text], text, False)]
    return stacks[:1] if threads == "main" else stacks


def make_site_rows(stacks: Iterable[Stack]) -> list[Row]:
    """A row per call site, the fewest ranks first; ties go to those outside collectives. Without
    a site that has more ranks than any other, there is no outlier."""
    found: dict[str, list[Stack]] = {}
    for stack in stacks:
        found.setdefault(stack.site, []).append(stack)
    rows: list[Row] = [
        {
            "ranks": format_spans(stack.rank for stack in group),
            "count": len({stack.rank for stack in group}),
            "place": site,
            "innermost": Counter(s.calls[-1] for s in group).most_common(1)[0][0],
            "in_collective": group[0].in_collective,
            "verdict": "outlier",
        }
        for site, group in found.items()
    ]
    rows.sort(key=lambda row: (row["count"], row["in_collective"]))
    counts = [row["count"] for row in rows]
    if len(rows) > 1 and counts[-1] == counts[-2]:
        rows = [row | {"verdict": "-"} for row in rows]
    elif rows:
        rows[-1]["verdict"] = "most" if rows[1:] else "all"
    return rows


def format_tree(stacks: Sequence[Stack]) -> list[str]:
    """The merged stacks, a line per call with its ranks; smaller branches first. A chain of calls
    is not indented."""
    lines: list[str] = []
    waiting = [(stacks, 0, 0)]
    while waiting:
        members, level, depth = waiting.pop()
        if level:
            ranks = format_spans(stack.rank for stack in members)
            lines.append(f"{'  ' * (depth - 1)}[{ranks}] {members[0].calls[level - 1]}")
        branches: dict[str, list[Stack]] = {}
        for stack in members:
            if len(stack.calls) > level:
                branches.setdefault(stack.calls[level], []).append(stack)
        ended = [stack.rank for stack in members if len(stack.calls) == level]
        if ended and branches:
            lines[-1] += f"  <- {name_ranks(ended)}"
        below = depth + 1 if level == 0 or ended or len(branches) > 1 else depth
        ordered = sorted(branches.values(), key=lambda found: (-len(found), -found[0].rank))
        waiting += [(found, level + 1, below) for found in ordered]
    return lines


def settle_ranks(dumps: Sequence[Row], notes: list[str]) -> dict[int, Row]:
    """The dump of each rank, without processes that only an outer launcher has numbered. Without
    ranks, or with a rank that is there twice, all are numbered by host and process."""
    order = [*RANK_VARIABLES, None]
    best = min((dump["launcher"] for dump in dumps), key=order.index, default=None)
    kept = [dump for dump in dumps if dump["launcher"] == best]
    by_rank = {dump["rank"]: dump for dump in kept}
    if best is not None and len(by_rank) == len(kept):
        return dict(sorted(by_rank.items()))
    if len(kept) > 1:
        reason = "no ranks" if best is None else "a rank is there twice (two jobs, or two hangs)"
        notes.append(f"{reason}: numbered by host and process")
    return dict(enumerate(sorted(kept, key=lambda dump: (dump["host"], dump["pid"]))))


class Merged:
    """The merged stacks of a job: `summary` is one sentence with the outliers first."""

    def __init__(self, dumps: Sequence[Row], threads: str, notes: Iterable[str] = ()) -> None:
        self.notes = list(notes)
        by_rank = settle_ranks(dumps, self.notes)
        self.has_stacks = any(dump["threads"] for dump in dumps)
        self.stacks = [
            s for rank, dump in by_rank.items() for s in read_stacks(rank, dump, threads)
        ]
        self.rows = make_site_rows(self.stacks)
        self.tree = format_tree(self.stacks)
        size = max((dump["size"] or 0 for dump in by_rank.values()), default=0)
        absent = sorted(set(range(size)) - set(by_rank))
        errors: dict[str, list[int]] = {}
        for rank, dump in by_rank.items():
            if not dump["threads"]:
                errors.setdefault(dump["error"], []).append(rank)
        self.notes += [f"no stack of {name_ranks(r)}: {text}" for text, r in errors.items()][:8]
        parts = [f"{name_ranks(absent)} gone"] if absent and by_rank else []
        for row in self.rows:
            noun, place = "rank" if row["count"] == 1 else "ranks", row["place"]
            link = " " if place.startswith("(") else " in "
            parts.append(f"{noun} {row['ranks']}{link}{place}")
        if len(parts) > 7:
            parts = [*parts[:5], f"{len(parts) - 6} more call sites", parts[-1]]
        self.summary = "; ".join(parts) or "no process was found"

    def show(self, report: Report, stream: TextIO) -> None:
        """Print them, the summary last, and put them into the JSON."""
        print(f"{self.text()}\n", file=stream, flush=True)
        report.rows, report.notes = self.rows, []
        for note in self.notes:
            report.note(note)
        print(self.summary, file=sys.stderr, flush=True)
        report.details |= {"summary": self.summary, "tree": self.tree}

    def text(self) -> str:
        """Table and tree."""
        names = ("ranks", "count", "place", "innermost", "verdict")
        headings = ("ranks", "count", "call site", "innermost call", "verdict")
        table = format_table(headings, [[row[name] for name in names] for row in self.rows])
        return "\n".join([table, "", *self.tree])


def is_program(pid: int, words: Sequence[str]) -> bool:
    """True where a process with this command line runs Python, and not hang_watchdog."""
    if "hang_watchdog.py" in map(os.path.basename, words[:6]):
        return False
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/exe").readlink().name.startswith(("python", "pypy"))
    return False


def find_matching(pattern: re.Pattern[str]) -> list[Process]:
    """This user's Python processes whose command line matches."""
    found = []
    for pid in sorted(list_processes()):
        with contextlib.suppress(OSError):
            is_own = Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
            words = read_words(pid, "cmdline")
            if is_own and pattern.search(" ".join(words)) and is_program(pid, words):
                found += filter(None, [identify(pid)])
    return found


def choose_ranks(processes: Iterable[Process]) -> list[Row]:
    """Of these processes the ranks: the outermost Python process of each rank of a launcher,
    without those of hang_watchdog."""
    found: dict[int, Row] = {}
    for pid, _ in processes:
        words = read_words(pid, "cmdline")
        if not is_program(pid, words):
            continue
        environ = dict(word.partition("=")[::2] for word in read_words(pid, "environ"))
        one: Row = {"host": socket.gethostname(), "pid": pid, "rank": None, "size": None,
                    "launcher": None, "command": " ".join(words)[:200]}  # fmt: skip
        for launcher, names in reversed(RANK_VARIABLES.items()):
            if all(environ.get(name) for name in names):
                rank, size = int(environ[names[0]]), int(environ[names[1]])
                one |= {"launcher": launcher, "rank": rank, "size": size}
        found[pid] = one

    parents = {pid: stat.parent for pid, stat in list_processes().items()}

    def is_inner(pid: int) -> bool:
        place, above = (found[pid]["launcher"], found[pid]["rank"]), parents.get(pid)
        while above:
            if above in found and (found[above]["launcher"], found[above]["rank"]) == place:
                return True
            above = parents.get(above)
        return False

    return [one for pid, one in found.items() if not is_inner(pid)]


def find_py_spy() -> str | None:
    """The program on the path, or beside this Python."""
    return shutil.which("py-spy") or shutil.which("py-spy", path=str(Path(sys.executable).parent))


def ask_py_spy(pid: int, seconds: float) -> list[Row]:
    """The threads of a process by py-spy. Raises OSError that says why not, and what to do."""
    command = [find_py_spy() or "py-spy", "dump", "--json", "--pid", str(pid)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
    except FileNotFoundError as error:
        raise OSError("py-spy is missing: pip install py-spy") from error
    except subprocess.TimeoutExpired as error:
        raise OSError(f"py-spy: no answer within {seconds:.0f} s") from error
    said = " ".join(done.stderr.decode(errors="replace").split())
    if re.search(r"permission denied|operation not permitted", said, re.IGNORECASE):
        advice = "run as root, sysctl kernel.yama.ptrace_scope=0, or use --faulthandler-file"
        raise OSError(f"py-spy has no permission: {advice}")
    if done.returncode:
        raise OSError(f"py-spy: {said[:200] or 'it failed'}")
    threads = []
    for thread in json.loads(done.stdout):
        frames = [{"function": frame["name"], "file": frame["filename"],
                   "short": frame.get("short_filename") or Path(frame["filename"]).name,
                   "line": max(0, frame.get("line") or 0)}
                  for frame in thread["frames"]]  # fmt: skip
        name = thread.get("thread_name") or f"thread {thread['thread_id']}"
        is_main = name == "MainThread" or thread.get("os_thread_id") == pid
        threads.append({"name": name, "is_main": is_main, "frames": frames})
    return threads


def has_handler(pid: int) -> bool:
    """True where a process has its own handler for SIGUSR1, which would end it otherwise."""
    with contextlib.suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        found = re.search(r"^SigCgt:\s*([0-9a-f]+)$", status, re.MULTILINE)
        return bool(found and int(found[1], 16) >> (signal.SIGUSR1 - 1) & 1)
    return False


def ask_faulthandler(one: Row, pattern: str) -> list[Row]:
    """The threads of a process as its own faulthandler writes them to a file. Raises OSError."""
    if not has_handler(one["pid"]):
        raise OSError("the program has no handler for SIGUSR1, so it was not sent")
    file = Path(pattern.replace("{pid}", str(one["pid"])).replace("{rank}", str(one["rank"])))
    before = file.stat().st_size if file.exists() else 0
    os.kill(one["pid"], signal.SIGUSR1)
    text, unchanged, deadline = "", 0, time.monotonic() + 5.0
    while time.monotonic() < deadline and (unchanged < 3 or not text):
        time.sleep(0.05)  # it writes line by line, and does not say when it has finished
        found = file.read_bytes()[before:].decode("utf-8", "replace")
        text, unchanged = found, unchanged + 1 if found == text else 0
    return parse_faulthandler(text)


def parse_faulthandler(text: str) -> list[Row]:
    """The threads in the output of faulthandler. Raises OSError where there is none."""
    threads: list[Row] = []
    for line in text.splitlines():
        if head := re.match(r"(?:Current thread|Thread) (0x[0-9a-f]+)(?: \[(.+?)\])?", line):
            threads.append({"name": head[2] or head[1], "is_main": False, "frames": []})
        elif (call := re.match(r'  File "(.*)", line (\d+|\?\?\?) in (.+)$', line)) and threads:
            file, number, function = call.groups()
            package = re.search(r"/(?:site|dist)-packages/(.*)$", file)
            short = package[1] if package else Path(file).name
            frame = {"function": function, "file": file, "short": short,
                     "line": int(number) if number.isdigit() else 0}  # fmt: skip
            threads[-1]["frames"].append(frame)
            threads[-1]["is_main"] = function == "<module>"  # the outermost call comes last
    threads = [thread for thread in threads if thread["frames"]]
    if not threads:
        raise OSError("its faulthandler wrote no stack")
    return threads


def take_stacks(ranks: Sequence[Row], seconds: float, file: str | None = None) -> list[Row]:
    """The dumps of all these ranks within `seconds`, several at a time; by py-spy, and where that
    fails by a faulthandler that writes to `file`, with {pid} or {rank} in the name."""
    deadline = time.monotonic() + seconds

    def take(one: Row) -> Row:
        reasons = []
        ways = [lambda: ask_py_spy(one["pid"], max(1.0, deadline - time.monotonic()))]
        if file:
            ways.append(lambda: ask_faulthandler(one, file))
        for ask in ways:
            try:
                return {**DUMP_KIND, **one, "error": None, "threads": ask()}
            except OSError as error:
                reasons.append(str(error))
        stat = read_stat(one["pid"])
        state = STATES.get(stat.state) if stat else "it is gone"
        error = "; ".join(filter(None, [state, *reasons]))
        return {**DUMP_KIND, **one, "error": error, "threads": []}

    with ThreadPoolExecutor(min(32, max(1, len(ranks)))) as pool:
        return list(pool.map(take, ranks))


def save_dumps(dumps: Iterable[Row], folder: Path) -> None:
    """One file per rank. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for dump in dumps:
        rank = "norank" if dump["rank"] is None else f"rank_{dump['rank']:05d}"
        write_json(folder / f"{rank}_{dump['host']}_{dump['pid']}.json", dump)


def read_dumps(paths: Iterable[str]) -> list[Row]:
    """The dumps in these files and folders. Raises UsageError for anything else."""
    dumps = []
    for path in map(Path, paths):
        files = sorted(path.rglob("*rank_*.json")) if path.is_dir() else [path]
        if not files:
            raise UsageError(f"{path}: there are no dumps in this folder (rank_*.json)")
        for file in files:
            dump = read_json("merge", file)
            if not isinstance(dump, dict) or dump | DUMP_KIND != dump:
                raise UsageError(f"{file} is not a dump of hang_watchdog")
            dumps.append(dump)
    return dumps
