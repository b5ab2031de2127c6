#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Has this job stopped making progress, and which rank is not where all the others are?

A job that hangs looks like one that works: processes run, GPUs show 100 %, and nothing is printed.
This watchdog looks at what the job writes. If nothing new came for `--timeout`, it takes the Python
stacks of all ranks with py-spy, from outside, merges them into one tree, and names the outliers
first: `rank 2 in load at data.py:12; ranks 0-1,3 in all_reduce at train.py:41`.

## What is watched

- `run`: what the command prints, which is passed through, unless `--log` or `--heartbeat` is given
- `--log`: files of which at least one has to change
- `--heartbeat`: files that all have to change, one per rank. A file that is removed is no longer
  watched; if none ever comes, that is a hang too.

Time in which Slurm does not let the job run does not count. Files are looked at in a thread,
because a file system that hangs is often the reason.

## What happens at a hang

1. Stacks of all ranks, saved as one JSON file per rank in `--out`, and the merged report.
2. The actions of `--then`, in order: `mail:ADDRESS`, `command:SHELL COMMAND`, `kill`, `scancel`.

Nothing is killed unless you ask for it, and not if the job has moved again meanwhile. Each hang is
handled once. A mail is tried three times. Commands get HANG_SUMMARY, HANG_REPORT, HANG_FOLDER and
HANG_JOB as environment variables.

## Whose stacks

- `--pid`: the ranks below these processes (torchrun, accelerate, a shell)
- `--match`: Python processes of yours whose command line matches a regular expression
- `--job`: all ranks of a Slurm job, or of one array task (1234_5), through `srun --overlap`; this
  file and its Python have to be on a shared file system

A rank is the outermost Python process with that RANK (or SLURM_PROCID, or Open MPI's), so launchers
and DataLoader workers are left out. Without py-spy a program can write its own stacks, if it has
called `faulthandler.register(signal.SIGUSR1, file=..., all_threads=True)`: name its files by
`--faulthandler-file '/tmp/stacks.{pid}'`. The signal goes only to processes that handle it.

## How stacks are merged

As STAT does: equal beginnings of stacks are one branch, labelled with its ranks. A call site is the
line of your own code that is being executed and the function it called, decorators left out:
`all_reduce at train.py:41`. An outlier is a rank that is not at the call site of the most ranks.
Stacks a>b>c of ranks 0, 1, 3 and a>d of rank 2 become a[0-3] with d[2] and b[0-1,3] > c[0-1,3]
below it, and rank 2 is the outlier.

## How to run

    # wrap a command, also in a batch file
    python hang_watchdog.py run --timeout 20m -- torchrun --nproc-per-node 8 train.py
    python hang_watchdog.py run --timeout 20m --then kill -- srun python train.py
    # watch a running job from elsewhere: Slurm, or by process
    python hang_watchdog.py watch --job JOBID --log 'logs/*.out' --timeout 20m \
        --then mail:you@example.org --then scancel
    python hang_watchdog.py watch --pid PID --log train.log --timeout 10m
    # take stacks now; on each node with pdsh, then merge
    python hang_watchdog.py dump --job JOBID
    pdsh -w node[01-08] 'python /shared/hang_watchdog.py dump --match train.py --out /shared/dumps'
    python hang_watchdog.py merge /shared/dumps
    # what py-spy needs
    pip install py-spy; sysctl kernel.yama.ptrace_scope=0     # or be root

Choose a `--timeout` above the longest silence of a healthy job (checkpoint, evaluation), and give
`--first` for imports and compilation: nothing is a hang that early. `run` sets PYTHONUNBUFFERED=1,
because a line that waits in a buffer looks like silence.

## A good answer

No report, and the job ends by itself. Otherwise look at the outlier: the others wait for it. If all
ranks are at the same collective, suspect the network or a GPU.

Exit status: 0 no hang, or done; 1 a hang, no stacks, or a signal; 2 wrong use. `run` exits with the
status of its command.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import datetime
import glob
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.alerts import Alert, Mail, mail_address, mail_server, send_alert
from kit.cli import Parser, UsageError, duration, positive_int, regex_pattern, start
from kit.procs import (
    Process,
    end_processes,
    find_tree,
    identify,
    is_running,
    list_processes,
    pass_signals,
    read_stat,
    read_words,
)
from kit.report import Report, Row, write_json
from kit.stacks import (
    RANK_VARIABLES,
    Merged,
    find_py_spy,
    read_dumps,
    save_dumps,
    take_stacks,
)
from kit.stop import Stop, Stopped

__version__ = "0.2.0"

PROFILES = {"demo": ["--demo"], "full": ["--demo", "--ranks", "16"]}
UNITS = {"count": "1"}
ALIVE_STATES = ("RUNNING", "COMPLETING", "STAGE_OUT")
LOOK_SECONDS = 10.0
SAVE_SECONDS = 60.0
COMMAND_SECONDS = 120.0
SLURM_SECONDS = 30.0


def is_python(pid: int) -> bool:
    """True where a process runs Python: by its program, or by the library in its memory."""
    with contextlib.suppress(OSError):
        if Path(f"/proc/{pid}/exe").readlink().name.startswith(("python", "pypy")):
            return True
        return "/libpython" in Path(f"/proc/{pid}/maps").read_text(errors="replace")
    return False


def find_matching(pattern: re.Pattern[str]) -> list[Process]:
    """This user's Python processes whose command line matches."""
    found = []
    for pid in sorted(list_processes()):
        with contextlib.suppress(OSError):
            is_own = Path(f"/proc/{pid}").stat().st_uid == os.geteuid()
            if is_own and pattern.search(" ".join(read_words(pid, "cmdline"))) and is_python(pid):
                found += filter(None, [identify(pid)])
    return found


def find_in_job(job: str) -> list[Process]:
    """The processes of a Slurm job on this node, without those of this step."""
    own_step = f"SLURM_STEP_ID={os.environ.get('SLURM_STEP_ID')}"
    environs = {pid: read_words(pid, "environ") for pid in sorted(list_processes())}
    pids = [p for p, words in environs.items() if f"SLURM_JOB_ID={job}" in words]
    return [one for p in pids if own_step not in environs[p] and (one := identify(p))]


def choose_ranks(processes: Iterable[Process]) -> list[Row]:
    """Of these processes the ranks: the outermost Python process of each rank. Watchdogs are left
    out, and processes that only a launcher further out has numbered."""
    found: dict[int, Row] = {}
    for pid, _ in processes:
        words = read_words(pid, "cmdline")
        is_watchdog = Path(__file__).name in map(os.path.basename, words[:6])
        if not words or (is_watchdog and "rank" not in words) or not is_python(pid):
            continue
        environ = dict(word.partition("=")[::2] for word in read_words(pid, "environ"))
        one: Row = {"host": socket.gethostname(), "pid": pid, "rank": None, "size": None,
                    "launcher": None, "command": " ".join(words)[:200]}  # fmt: skip
        for launcher, names in reversed(RANK_VARIABLES.items()):
            if all(environ.get(name) for name in names) and environ[names[0]].isdigit():
                rank, size = int(environ[names[0]]), int(environ[names[1]])
                one |= {"launcher": launcher, "rank": rank, "size": size}
        found[pid] = one
    launchers = [one["launcher"] for one in found.values()]
    best = next((name for name in RANK_VARIABLES if name in launchers), None)
    found = {pid: one for pid, one in found.items() if one["launcher"] == best}

    def is_inner(pid: int) -> bool:
        rank, stat = found[pid]["rank"], read_stat(pid)
        while stat and stat.parent > 1:
            if stat.parent in found and found[stat.parent]["rank"] == rank:
                return True
            stat = read_stat(stat.parent)
        return False

    return [one for pid, one in found.items() if not is_inner(pid)]


def dump_ranks(processes: Iterable[Process], options: argparse.Namespace) -> list[Row]:
    """The stacks of the ranks among these processes."""
    ranks = choose_ranks(processes)
    file, number = options.faulthandler_file, options.faulthandler
    return take_stacks(ranks, options.dump_timeout, file, number)


def ask_slurm(*command: str) -> str | None:
    """What a command of Slurm prints; None where it fails. Raises UsageError without Slurm."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SLURM_SECONDS,
                              check=False)  # fmt: skip
    except FileNotFoundError as error:
        raise UsageError(f"there is no {command[0]} here, so --job cannot be used") from error
    except subprocess.TimeoutExpired:
        return None
    return done.stdout if not done.returncode or "Invalid job id" in done.stderr else None


def read_job(job: str) -> tuple[str, str | None, str]:
    """Number, state and nodes of a job; the state is GONE where Slurm does not know it any more,
    None where Slurm does not answer. Raises UsageError for an array as a whole."""
    said = ask_slurm("squeue", "--noheader", f"--jobs={job}", "--format=%A|%T|%N|%K")
    jobs = [line.split("|") for line in (said or "").splitlines()]
    if "_" not in job and any(one[3] != "N/A" for one in jobs):
        raise UsageError(f"--job: {job} is an array: name one of its tasks, for example {job}_1")
    if not jobs:
        return job, None if said is None else "GONE", ""
    return jobs[0][0], jobs[0][1], jobs[0][2]


def find_own_job() -> str | None:
    """The job that this process is part of; in an array, its task."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array[0]}_{array[1]}" if all(array) else os.environ.get("SLURM_JOB_ID")


def pack_dumps(dumps: Sequence[Row]) -> list[str]:
    """The dumps of a node in short lines: srun mixes pieces of long ones."""
    packed = base64.b85encode(zlib.compress(json.dumps(dumps).encode())).decode()
    pieces = [packed[i : i + 800] for i in range(0, len(packed), 800)]
    host = socket.gethostname()
    return [f"hang-dump {host} {i} {len(pieces)} {piece}" for i, piece in enumerate(pieces)]


def unpack_dumps(lines: Iterable[str]) -> dict[str, list[Row]]:
    """The dumps in such lines, by host; hosts that did not send all of them are left out."""
    pieces: dict[str, dict[int, str]] = {}
    for line in lines:
        if found := re.fullmatch(r"hang-dump (\S+) (\d+) (\d+) (\S+)", line):
            pieces.setdefault(found[1], dict.fromkeys(range(int(found[3])), ""))
            pieces[found[1]][int(found[2])] = found[4]
    texts = {host: "".join(parts.values()) for host, parts in pieces.items() if all(parts.values())}
    return {h: json.loads(zlib.decompress(base64.b85decode(text))) for h, text in texts.items()}


def dump_job(job: str, options: argparse.Namespace, notes: list[str]) -> list[Row]:
    """The stacks of all ranks of a Slurm job, taken on its nodes; what went wrong is noted."""
    number, state, nodes = read_job(job)
    if state not in ALIVE_STATES:
        texts = {None: "Slurm does not answer", "GONE": "Slurm does not know it"}
        notes.append(f"no stacks of job {job}: {texts.get(state, f'it is {state}')}")
        return []
    hosts = (ask_slurm("scontrol", "show", "hostnames", nodes) or "").split()
    command = f"""srun --overlap --jobid={number} --nodelist={nodes} --nodes={len(hosts)}
        --ntasks={len(hosts)} --ntasks-per-node=1 --cpus-per-task=1 --cpu-bind=none --gres=none
        --mpi=none --input=none --kill-on-bad-exit=0 --quiet --chdir=/""".split()
    command += [sys.executable, str(Path(__file__).resolve()), "node", "--job", number]
    command += ["--dump-timeout", f"{options.dump_timeout:g}s"]
    if options.faulthandler_file:
        command += ["--faulthandler", signal.Signals(options.faulthandler).name]
        command += ["--faulthandler-file", options.faulthandler_file]
    # Nothing of the job that this watchdog may be part of is to steer the step.
    environ = {name: value for name, value in os.environ.items()
               if not name.startswith("SLURM_") or name == "SLURM_CONF"}  # fmt: skip
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        try:
            subprocess.run(command, stdout=output, stderr=errors, env=environ, check=False,
                           timeout=options.dump_timeout + SLURM_SECONDS)  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            notes.append(f"srun: {error}")
        output.seek(0)
        errors.seek(0)
        by_host = unpack_dumps(output.read().splitlines())
        words = errors.read().strip().splitlines()
    known = {host.split(".")[0] for host in by_host}
    if silent := [host for host in hosts if host.split(".")[0] not in known]:
        notes.append(f"no answer from {len(silent)} of {len(hosts)} nodes: {' '.join(silent[:8])}")
        notes += [f"srun: {words[-1][:200]}"] if words else []
    return [dump for dumps in by_host.values() for dump in dumps]


class PatientThread:
    """Does work with files in a thread, so that a file system that hangs does not hang the rest."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.thread: threading.Thread | None = None

    def ask(self, work: Callable[[], Any]) -> Any:
        """What `work` returns; it must not raise. Raises TimeoutError where it takes too long, or
        earlier work still hangs."""
        answers: list[Any] = []
        if not (self.thread and self.thread.is_alive()):
            self.thread = threading.Thread(target=lambda: answers.append(work()), daemon=True)
            self.thread.start()
            self.thread.join(self.seconds)
        if not answers:
            raise TimeoutError("the file system does not answer")
        return answers[0]


def look_at_files(patterns: Iterable[str]) -> dict[str, str]:
    """What can change about the files that fit: inode, size and time by path."""
    found = {}
    for path in sorted(path for pattern in patterns for path in glob.glob(pattern)):  # noqa: PTH207
        with contextlib.suppress(OSError):
            stat = Path(path).stat()
            found[path] = f"{stat.st_ino} {stat.st_size} {stat.st_mtime_ns}"
    return found


class Silence:
    """All sources, and when they have been silent for too long. The clock is given for tests."""

    def __init__(
        self,
        options: argparse.Namespace,
        output: Callable[[], str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.timeout: float = options.timeout
        self.first: float = options.first or options.timeout
        self.logs, self.heartbeats = options.log or [], options.heartbeat or []
        self.output = None if self.logs or self.heartbeats else output
        self.clock = clock
        seconds = max(1.0, min(options.timeout / 4, LOOK_SECONDS))
        self.log_thread, self.heartbeat_thread = PatientThread(seconds), PatientThread(seconds)
        self.had_heartbeat = False
        self.seen: dict[str, str] = {}
        self.since: dict[str, float] = {}
        self.handled: set[str] = set()
        self.handled_at = -float("inf")
        self.began = clock()
        self.update()

    def look(self) -> dict[str, str]:
        """What each source is like now; where a file system does not answer, it has not changed."""
        seen = {"output": self.output()} if self.output else {}
        if self.logs:
            try:
                seen["log"] = str(self.log_thread.ask(lambda: look_at_files(self.logs)))
            except TimeoutError:
                seen["log"] = self.seen.get("log", "")
        if self.heartbeats:
            try:
                beats = self.heartbeat_thread.ask(lambda: look_at_files(self.heartbeats))
            except TimeoutError:
                return self.seen | seen
            self.had_heartbeat = self.had_heartbeat or bool(beats)
            seen |= beats if self.had_heartbeat else {"no heartbeat yet": ""}
        return seen

    def update(self, is_paused: bool = False) -> None:
        """Look at all sources. In a pause no time passes."""
        now, seen = self.clock(), self.look()
        self.began = now if is_paused else self.began
        changed = {name for name in seen if is_paused or seen[name] != self.seen.get(name)}
        self.since = {name: now if name in changed else self.since[name] for name in seen}
        self.handled = self.handled & set(seen) - changed
        self.seen = seen

    def find_hang(self) -> list[str]:
        """The sources that have been silent for too long; each silence is found once. None within
        the grace period, and none that belong to the hang before: silent soon after others."""
        now = self.clock()
        silent = [name for name, since in self.since.items() if now - since >= self.timeout]
        silent = [name for name in silent if name not in self.handled]
        if not silent or now - self.began < self.first:
            return []
        is_same_hang = bool(self.handled) and now - self.handled_at < 2 * self.timeout
        self.handled |= set(silent)
        if is_same_hang:
            return []
        self.handled_at = now
        return silent

    def has_moved(self, names: Iterable[str]) -> bool:
        """True where one of these has changed since the last update."""
        seen = self.look()
        return any(seen.get(name) != self.seen[name] for name in names)


class Watchdog:
    """Watches a job, and does what is to be done when it hangs."""

    def __init__(self, options: argparse.Namespace, report: Report, stop: Stop) -> None:
        self.options = options
        self.report = report
        self.stop = stop
        self.roots = [process for pid in options.pid if (process := identify(pid))]
        self.job = options.job or find_own_job()
        self.job_state: str | None = None
        self.asked_slurm = -float("inf")
        self.hangs = 0
        self.summary = ""
        self.interval = min(max(options.timeout / 20, 0.1), 5.0)
        self.files = PatientThread(SAVE_SECONDS)

    def is_paused(self) -> bool:
        """True where Slurm does not let the job run now."""
        wait = min(max(self.options.timeout / 4, 1.0), 60.0)
        if self.options.job and time.monotonic() - self.asked_slurm > wait:
            self.asked_slurm = time.monotonic()
            self.job_state = read_job(self.options.job)[1] or self.job_state
        return self.job_state not in (*ALIVE_STATES, None)

    def find_processes(self) -> list[Process]:
        """The processes here that belong to what is watched."""
        matching = find_matching(self.options.match) if self.options.match else []
        return [one for one in find_tree([*self.roots, *matching]) if one.pid != os.getpid()]

    def take_dumps(self, notes: list[str]) -> list[Row]:
        """The stacks of all ranks: those here, and for --job those on its nodes; those of the job
        that this process is part of only where there are none here."""
        dumps = dump_ranks(self.find_processes(), self.options)
        if self.job and (self.options.job or not dumps):
            try:
                elsewhere = dump_job(self.job, self.options, notes)
            except UsageError as error:
                elsewhere = []
                notes.append(str(error))
            here = {(dump["host"], dump["pid"]) for dump in dumps}
            dumps += [dump for dump in elsewhere if (dump["host"], dump["pid"]) not in here]
        return dumps

    def respond(self, silence: Silence, names: Sequence[str]) -> None:
        """Take stacks, save and print the report, and do what --then asks for."""
        self.hangs += 1
        seconds = silence.clock() - max(silence.since[name] for name in names)
        shown = ", ".join(Path(name).name for name in names[:8])
        notes = [f"nothing new for {seconds:.0f} s: {shown}"]
        dumps = self.take_dumps(notes)
        merged = Merged(dumps, self.options.threads, notes)
        fill_report(self.report, merged)
        self.summary = merged.summary
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
        folder = Path(self.options.out).absolute() / f"hang_{stamp}_{self.hangs}"
        remarks = "".join(f"note: {note}\n" for note in merged.notes)
        text = f"{merged.summary}\n{remarks}\n{merged.text()}\n"

        def save() -> str:
            try:
                save_dumps(dumps, folder)
                (folder / "report.txt").write_text(text, encoding="utf-8")
                write_json(folder / "report.json", make_document(self.report, "watch"))
            except OSError as error:
                return f"{folder}: {error.strerror}; the report is only here"
            return f"stacks and report: {'deleted' if self.options.demo else folder}"

        try:
            saved = self.files.ask(save)
        except TimeoutError as error:
            saved = f"{folder}: {error}; the report is only here"
        # In `run`, stdout belongs to the command.
        stream = sys.stderr if self.options.task == "run" else sys.stdout
        print(f"{merged.text()}\n", file=stream, flush=True)
        print(f"{remarks}note: {saved}\n{self.summary}", file=sys.stderr, flush=True)
        is_ended = False
        for kind, argument in self.options.then:
            if not is_ended and silence.has_moved(names):
                print("note: the job has moved again, so nothing more is done", file=sys.stderr)
                return
            problem = self.act(kind, argument, folder, text)
            is_ended = is_ended or kind in ("kill", "scancel")
            print(f"note: {kind}: {problem or 'done'}", file=sys.stderr, flush=True)

    def act(self, kind: str, argument: str, folder: Path, text: str) -> str | None:
        """Do one thing; None, or why it failed."""
        if kind == "mail":
            # Of the command only the program: keys may be among its arguments.
            words = self.options.command
            program = next((w for w in words if w.endswith((".py", ".sh"))), *words[:1]) or "-"
            about = {"job": self.job or "-", "command": program, "host": socket.gethostname(),
                     "stacks": folder}  # fmt: skip
            head = "".join(f"{key}: {value}\n" for key, value in about.items())
            subject = f"hang{f' of job {self.job}' if self.job else ''}: {self.summary}"
            mail = Mail([argument], self.options.smtp)
            return send_alert(mail, Alert(subject, f"{head}\n{text}"))
        if kind == "command":
            environ = {"HANG_REPORT": str(folder / "report.txt"), "HANG_FOLDER": str(folder),
                       "HANG_SUMMARY": self.summary, "HANG_JOB": self.job or ""}  # fmt: skip
            try:
                done = subprocess.run(argument, shell=True, check=False, stdout=sys.stderr,
                                      env=os.environ | environ,
                                      timeout=COMMAND_SECONDS)  # fmt: skip
            except subprocess.TimeoutExpired:
                return f"not done within {COMMAND_SECONDS:.0f} s"
            return f"ended with status {done.returncode}" if done.returncode else None
        if kind == "kill":
            left = end_processes(self.find_processes())
            return f"{len(left)} processes do not end, {left[0].pid} is one" if left else None
        said = ask_slurm("scancel", self.job) if self.job else None
        return "it failed" if said is None else None

    def look_once(self, silence: Silence) -> None:
        """Look, and respond to a hang."""
        silence.update(self.is_paused())
        if names := silence.find_hang():
            self.respond(silence, names)

    def follow(self) -> int:
        """Watch until the job has ended; the exit status. Raises Stopped."""
        silence = Silence(self.options)
        while self.job_state != "GONE" and (not self.roots or any(map(is_running, self.roots))):
            self.look_once(silence)
            deadline = time.monotonic() + self.interval
            while time.monotonic() < deadline:
                self.stop.check()
                time.sleep(min(0.1, self.interval))
        return int(self.hangs > 0)

    def wrap(self) -> int:
        """Run the command and watch it until it has ended; its status."""
        command = self.options.command
        try:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                env={"PYTHONUNBUFFERED": "1", **os.environ},
            )  # fmt: skip
        except OSError as error:
            raise UsageError(f"{command[0]}: {error.strerror}") from error
        ends = pass_signals(process)
        self.roots = [root for root in [identify(process.pid)] if root]
        output = Output(process)
        silence = Silence(self.options, output.pass_on)
        next_look = 0.0
        while process.poll() is None:
            if time.monotonic() >= next_look:
                self.look_once(silence)
                next_look = time.monotonic() + self.interval
            output.pass_on(0.1)
        output.pass_on(0.5)  # a background process may hold the pipes open for ever
        if self.summary:
            print(f"hang_watchdog: {self.summary}", file=sys.stderr, flush=True)
        self.report.complete = not ends
        return 128 - process.returncode if process.returncode < 0 else process.returncode


class Output:
    """What a command prints: passed through, and counted."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout
        assert process.stderr
        self.targets = {process.stdout.fileno(): 1, process.stderr.fileno(): 2}
        self.count = 0

    def pass_on(self, seconds: float = 0.0) -> str:
        """Pass on what is there, after waiting for it for so many seconds at most; how much it was
        so far. Output that cannot be written is lost."""
        while ready := select.select(list(self.targets), [], [], seconds)[0]:
            seconds = 0.0
            for pipe in ready:
                data = os.read(pipe, 65536)
                self.count += len(data)
                target = self.targets[pipe] if data else self.targets.pop(pipe)
                with contextlib.suppress(OSError):
                    while data:
                        data = data[os.write(target, data) :]
        return str(self.count)


def fill_report(report: Report, merged: Merged) -> None:
    """Put merged stacks into the JSON."""
    report.rows, report.notes = merged.rows, merged.notes
    report.details |= {"summary": merged.summary, "tree": merged.tree}


def make_document(report: Report, task: str) -> Row:
    """The JSON without arguments: addresses, keys and people may be among them."""
    return {**report.document(), "command": ["python", Path(__file__).name, task]}


def play_rank(number: int, folder: Path) -> int:
    """One rank of the demonstration: some steps, then a call that does not return."""
    import faulthandler

    with (folder / f"stacks.{os.getpid()}").open("w") as stacks:
        faulthandler.register(signal.SIGUSR1, file=stacks, all_threads=True)
        with (folder / "train.log").open("a") as log:
            for step in range(3):
                print(f"rank {number} step {step}", file=log, flush=True)
        load_shard() if number == 2 else wait_for_others()
    return 0


def load_shard() -> None:
    """Where rank 2 of the demonstration hangs."""
    time.sleep(60)


def wait_for_others() -> None:
    """Where the other ranks of the demonstration wait."""
    threading.Event().wait(60)


def run_demo(count: int, report: Report, stop: Stop) -> int:
    """Start ranks of which one hangs, watch them, and check that it is named; the exit status."""
    ranks: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="hang_") as folder:
        try:
            for rank in range(count):
                environ = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(count)}
                environ.pop("TORCHELASTIC_RUN_ID", None)
                words = [sys.executable, str(Path(__file__).resolve()), "rank", str(rank), folder]
                ranks.append(subprocess.Popen(words, env=environ, start_new_session=True))
            arguments = f"--demo watch --timeout 1s --log {folder}/train.log --out {folder} --pid"
            pids = [str(process.pid) for process in ranks]
            file = f"--faulthandler-file={folder}/stacks.{{pid}}"
            options = read_options([*arguments.split(), *pids, file])
            watchdog = Watchdog(options, report, stop)
            silence = Silence(watchdog.options)
            while not watchdog.hangs:
                stop.check()
                watchdog.look_once(silence)
                time.sleep(0.05)
        finally:
            for process in ranks:
                process.kill()
                process.wait()
    first = report.rows[0]
    is_right = first["ranks"] == "2" and first["place"].startswith("load_shard at ")
    if not is_right:
        print("problem: the rank that hangs was not named", file=sys.stderr)
    return int(not is_right)


def then_action(text: str) -> tuple[str, str]:
    """`mail:ADDRESS`, `command:SHELL COMMAND`, `kill` or `scancel`."""
    kind, _, argument = text.partition(":")
    if kind == "mail":
        return kind, mail_address(argument)
    if (kind == "command" and argument.strip()) or text in ("kill", "scancel"):
        return kind, argument
    message = f"'{text}': write mail:ADDRESS, command:SHELL COMMAND, kill or scancel"
    raise argparse.ArgumentTypeError(message)


def user_signal(text: str) -> int:
    """USR1 or USR2."""
    name = text.upper().removeprefix("SIG")
    if name not in ("USR1", "USR2"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a signal for this: write USR1 or USR2")
    return int(getattr(signal, f"SIG{name}"))


def slurm_job(text: str) -> str:
    """A job of Slurm: `1234`, `1234_5` (array task) or `1234+1`."""
    if not re.fullmatch(r"\d+([_+]\d+)?", text):
        raise argparse.ArgumentTypeError(f"'{text}' is not a Slurm job: write 1234 or 1234_5")
    return text


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(__doc__, tool="hang_watchdog", version=__version__, demo=[])
    parser.add_argument("--ranks", type=positive_int, default=4, help="for --demo (default: 4)")
    tasks = parser.add_subparsers(dest="task", metavar="TASK", title="tasks (see TASK --help)")
    helps = {
        "run": "run a command, pass its output through, and watch it",
        "watch": "watch what a running job writes",
        "dump": "take the stacks of all ranks now",
        "merge": "merge stacks that were saved",
        "node": "what run, watch and dump start on the nodes of a job",
    }
    # fmt: off
    for name, text in helps.items():
        task = tasks.add_parser(name, help=text)
        add = task.add_argument
        task.set_defaults(pid=[], match=None, job=None, command=[], then=[], timeout=600.0)
        if name in ("watch", "dump"):
            add("--pid", type=positive_int, nargs="+", help="all ranks below these processes")
            add("--match", type=regex_pattern, metavar="REGEX",
                help="your Python processes with such a command line")
        if name != "merge":
            add("--job", type=slurm_job, metavar="ID", help="all ranks of this Slurm job")
            add("--dump-timeout", type=duration, default=60.0, metavar="TIME",
                help="time for all stacks of a machine (default: 60s)")
            add("--faulthandler-file", metavar="PATH",
                help="where py-spy fails: where faulthandlers write, with {pid} or {rank}")
            add("--faulthandler", type=user_signal, default=signal.SIGUSR1, metavar="SIGNAL",
                help="the signal that asks them to (default: USR1)")
        if name in ("run", "watch"):
            add("--timeout", type=duration, default=600.0, metavar="TIME",
                help="report a hang after this long without output (default: 10m)")
            add("--first", type=duration, metavar="TIME",
                help="grace period after the start (default: as --timeout)")
            add("--log", nargs="+", metavar="FILE", help="one of these (or patterns) has to change")
            add("--heartbeat", nargs="+", metavar="FILE", help="each of these has to change")
            add("--then", type=then_action, action="append", default=[], metavar="ACTION",
                help="mail:ADDRESS, command:SHELL COMMAND, kill or scancel; may be repeated")
            add("--smtp", type=mail_server, default=("localhost", 25), metavar="HOST:PORT",
                help="mail server (default: localhost:25)")
        if name not in ("merge", "node"):
            add("--out", default="hang_dumps", metavar="FOLDER",
                help="where stacks and reports go (default: hang_dumps)")
        if name != "node":
            add("--threads", default="main", metavar="main|all|REGEX", help="(default: main)")
            add("--json", metavar="PATH", default=argparse.SUPPRESS,
                help="write the results as JSON")
        if name == "merge":
            add("dumps", nargs="+", help="files or folders")
        if name == "run":
            add("command", nargs="*", metavar="-- COMMAND")
    # fmt: on
    return parser


def read_options(arguments: Sequence[str]) -> argparse.Namespace:
    """The options, checked. Raises UsageError where something is missing."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    options = build_parser().parse_args(arguments[:cut])
    task = options.task
    if task is None or task in ("merge", "node"):
        return options
    options.command += arguments[cut + 1 :]
    file = options.faulthandler_file
    if file and not re.search(r"\{(pid|rank)\}", file):
        raise UsageError("--faulthandler-file: write {pid} or {rank}: each rank needs its own file")
    if task == "run" and not options.command:
        raise UsageError("name the command: hang_watchdog.py run --timeout 10m -- python train.py")
    if task == "watch" and not options.log and not options.heartbeat:
        raise UsageError("name what to watch: --log or --heartbeat")
    if task != "run" and not (options.pid or options.match or options.job):
        raise UsageError("name the ranks: --pid, --match or --job")
    for pid in options.pid:
        if identify(pid) is None:
            raise UsageError(f"--pid: there is no process {pid}")
    kinds = [kind for kind, _ in options.then]
    if "scancel" in kinds and not (options.job or find_own_job()):
        raise UsageError("--then scancel needs --job")
    if task == "watch" and "kill" in kinds and not (options.pid or options.match):
        raise UsageError("--then kill needs --pid or --match; for a job use --then scancel")
    if options.job:
        read_job(options.job)
    if not find_py_spy() and not file:
        print("warning: py-spy is missing, so there will be no stacks: pip install py-spy",
              file=sys.stderr)  # fmt: skip
    return options


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["rank"]:
        return play_rank(int(arguments[1]), Path(arguments[2]))
    options = read_options(arguments)
    task = options.task
    if task == "node":
        print("\n".join(pack_dumps(dump_ranks(find_in_job(options.job), options))))
        return 0
    if task is None and not options.demo:
        raise UsageError("name a task: run, watch, dump or merge (or --demo)")
    report = Report("hang_watchdog", __version__, 1, UNITS, options.json)
    stop = Stop()
    status = 1
    try:
        if task == "run":
            status = Watchdog(options, report, stop).wrap()
        elif task == "watch":
            stop.listen()
            status = Watchdog(options, report, stop).follow()
            report.complete = True
        elif task is None:
            stop.listen()
            status = run_demo(options.ranks, report, stop)
            report.complete = True
        else:
            status = show_dumps(options, report, stop)
    except Stopped as stopped:
        print(f"note: {stopped}", file=sys.stderr)
    if report.path:
        write_json(report.path, make_document(report, task or "--demo"))
    return status


def show_dumps(options: argparse.Namespace, report: Report, stop: Stop) -> int:
    """Take stacks or read saved ones, and print them merged; the exit status."""
    notes: list[str] = []
    if options.task == "merge":
        dumps = read_dumps(options.dumps)
    else:
        dumps = Watchdog(options, report, stop).take_dumps(notes)
        try:
            save_dumps(dumps, Path(options.out))
        except OSError as error:
            raise UsageError(f"--out: {options.out}: {error.strerror}") from error
        notes.append(f"{len(dumps)} dumps are in {options.out}")
    merged = Merged(dumps, options.threads, notes)
    fill_report(report, merged)
    report.complete = True
    print(merged.text(), flush=True)
    for note in merged.notes:
        print(f"note: {note}", file=sys.stderr)
    print(merged.summary, file=sys.stderr)
    return int(not merged.has_stacks)


if __name__ == "__main__":
    start(main)
