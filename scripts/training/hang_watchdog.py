#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Has this job stopped making progress, and which rank is the outlier?

It looks at what a job writes. If nothing new appears for `--timeout`, it takes the Python
stacks of all ranks from outside with py-spy, merges common prefixes into one tree, as STAT does,
and names the outliers first: `rank 2 in load at data.py:12; ranks 0-1,3 in all_reduce at
train.py:41`. An outlier is a rank that is not at the call site where most ranks are.

## What is watched

- `run`: what the command prints, which is passed through, unless `--log` or `--heartbeat` is given
- `--log`: at least one of these files has to change; `--heartbeat`: every one of them has to

On a hang it saves the stacks and a report in `--out` and runs the actions of `--then` in order,
until the job moves again. `kill` sends SIGTERM, then SIGKILL. Commands get the report on stdin and
the variables HANG_SUMMARY, HANG_FOLDER and HANG_JOB.

## How to run

    python hang_watchdog.py run --timeout 20m --then kill -- torchrun --nproc-per-node 8 train.py
    python hang_watchdog.py watch --job JOBID --log 'logs/*.out' --timeout 20m \
        --then 'command:mail -s "$HANG_SUMMARY" you@example.org' --then scancel
    python hang_watchdog.py dump --job JOBID
    pdsh -w node[01-08] 'python /shared/hang_watchdog.py dump --match train.py --out /shared/dumps'
    python hang_watchdog.py merge /shared/dumps

For `--job` this file, its Python and `--out` have to be on a shared file system. py-spy (`pip
install py-spy`) needs root or `sysctl kernel.yama.ptrace_scope=0`. Without them a program
that has called `faulthandler.register(signal.SIGUSR1, file=..., all_threads=True)` writes its own
stacks; `--faulthandler-file '/tmp/stacks.{pid}'` names its files.

## A good answer

No report, and the job ends by itself. Otherwise look at the outlier: the others wait for it. If all
ranks are at the same collective, suspect the network or a GPU.

Exit status: 0 no hang, or done; 1 a hang, no stacks, or a signal; 2 usage error. `run` exits with
the status of its command.
"""

import argparse
import contextlib
import datetime
import glob
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import BinaryIO

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, duration, regex_pattern, start
from kit.procs import (
    PatientThread,
    Process,
    end_processes,
    find_tree,
    identify,
    list_processes,
    read_words,
    start_wrapped,
)
from kit.report import Report, Row
from kit.slurm import call_slurm, expand_nodelist
from kit.stacks import (
    Merged,
    choose_ranks,
    find_matching,
    find_py_spy,
    read_dumps,
    save_dumps,
    take_stacks,
)
from kit.stop import until_stopped

__version__ = "0.2.0"
PROFILES = {"demo": ["--demo"], "full": ["--demo"]}
ALIVE_STATES = ("RUNNING", "COMPLETING", "STAGE_OUT")
DUMP_SECONDS = 60.0
COMMAND_SECONDS = 120.0
SLURM_SECONDS = 30.0
# A rank of the demo: a step, and then a call that does not return.
DEMO = """\
import faulthandler, os, signal, sys, threading, time

def load_shard():
    time.sleep(60)

def wait_for_others():
    threading.Event().wait(60)

faulthandler.register(signal.SIGUSR1, open(f"stacks.{os.getpid()}", "w"), all_threads=True)
print("step 0", file=sys.stderr)
load_shard() if os.environ["RANK"] == "2" else wait_for_others()
"""


def find_in_job(job: str) -> list[Process]:
    """The processes of a Slurm job on this node, without those of this step."""
    own_step = f"SLURM_STEP_ID={os.environ.get('SLURM_STEP_ID')}"
    environs = {pid: read_words(pid, "environ") for pid in sorted(list_processes())}
    pids = [p for p, words in environs.items() if f"SLURM_JOB_ID={job}" in words]
    return [one for p in pids if own_step not in environs[p] and (one := identify(p))]


def read_job(job: str) -> tuple[str, str | None, str]:
    """Number, state and nodes of a job; the state is GONE where Slurm does not know it any more,
    None where Slurm does not answer. Raises UsageError for an array as a whole."""
    try:
        said = call_slurm("squeue", "--noheader", f"--jobs={job}", "--format=%A|%T|%N|%K")
    except OSError as error:
        return job, "GONE" if "Invalid job id" in str(error) else None, ""
    jobs = [line.split("|") for line in said.splitlines()]
    if "_" not in job and any(one[3] != "N/A" for one in jobs):
        raise UsageError(f"--job: {job} is an array: name one of its tasks, for example {job}_1")
    number, state, nodes, _ = jobs[0] if jobs else (job, "GONE", "", "")
    return number, state, nodes


def find_own_job() -> str | None:
    """The job that this process is part of; in an array, its task."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array[0]}_{array[1]}" if all(array) else os.environ.get("SLURM_JOB_ID")


def dump_job(job: str, options: argparse.Namespace, notes: list[str]) -> list[Row]:
    """The stacks of all ranks of a Slurm job, taken on its nodes. Failures become notes."""
    number, state, nodes = read_job(job)
    if state not in ALIVE_STATES:
        notes.append(f"no stacks of job {job}: it is {state or 'unknown: Slurm does not answer'}")
        return []
    hosts = expand_nodelist(nodes)
    command = f"""srun --overlap --jobid={number} --nodelist={nodes} --nodes={len(hosts)}
        --ntasks={len(hosts)} --ntasks-per-node=1 --cpus-per-task=1 --cpu-bind=none --gres=none
        --mpi=none --input=none --kill-on-bad-exit=0 --quiet --chdir=/""".split()
    command += [sys.executable, str(Path(__file__).resolve()), "node", "--job", number]
    if options.faulthandler_file:
        command += ["--faulthandler-file", options.faulthandler_file]
    # Nothing of the job that this watchdog may be part of is to steer the step.
    environ = {name: value for name, value in os.environ.items()
               if not name.startswith("SLURM_") or name == "SLURM_CONF"}  # fmt: skip
    out = Path(options.out).absolute()
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="nodes_", dir=out) as folder:
        try:
            done = subprocess.run([*command, "--out", folder], env=environ, check=False, text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True,
                                  timeout=DUMP_SECONDS + SLURM_SECONDS)  # fmt: skip
            said = done.stderr.strip().splitlines()
        except (OSError, subprocess.TimeoutExpired) as error:
            said = [str(error)]
        dumps = read_dumps(map(str, Path(folder).glob("*.json")))
    known = {dump["host"].split(".")[0] for dump in dumps}
    if silent := [host for host in hosts if host.split(".")[0] not in known]:
        notes.append(f"no stacks of {len(silent)} of {len(hosts)} nodes: {' '.join(silent[:8])}")
        notes += [f"srun: {said[-1][:200]}"] if said else []
    return dumps


def look_at_files(patterns: Iterable[str]) -> dict[str, str]:
    """What can change about the files that fit: inode, size and time by path."""
    found = {}
    for path in sorted(path for pattern in patterns for path in glob.glob(pattern)):  # noqa: PTH207
        with contextlib.suppress(OSError):
            stat = Path(path).stat()
            found[path] = f"{stat.st_ino} {stat.st_size} {stat.st_mtime_ns}"
    return found


class Silence:
    """All sources, and when they have been silent for too long."""

    def __init__(
        self, options: argparse.Namespace, output: Callable[[], str] | None = None
    ) -> None:
        self.timeout: float = options.timeout
        self.first: float = options.first or options.timeout
        self.logs, self.heartbeats = options.log or [], options.heartbeat or []
        self.output = None if self.logs or self.heartbeats else output
        self.files = PatientThread(max(1.0, min(options.timeout / 4, 10.0)))
        self.seen = {"log": ""} if self.logs else {}
        self.since: dict[str, float] = {}
        self.handled: set[str] = set()
        self.began = time.monotonic()
        self.update()

    def look(self) -> dict[str, str]:
        """What each source is like now; where a file system does not answer, it has not changed."""
        seen = {"output": self.output()} if self.output else {}
        try:
            kinds = (self.logs, self.heartbeats)
            logs, beats = self.files.ask(lambda: [*map(look_at_files, kinds)])
        except TimeoutError:
            return self.seen | seen
        seen |= {"log": str(logs)} if self.logs else {}
        return seen | (beats or {"no heartbeat yet": ""}) if self.heartbeats else seen

    def update(self, is_paused: bool = False) -> None:
        """Look at all sources. In a pause no time passes."""
        now, seen = time.monotonic(), self.look()
        self.began = now if is_paused else self.began
        changed = {name for name in seen if is_paused or seen[name] != self.seen.get(name)}
        self.since = {name: now if name in changed else self.since.get(name, now) for name in seen}
        self.handled = self.handled & set(seen) - changed
        self.seen = seen

    def find_hang(self) -> list[str]:
        """The sources that have been silent for too long; none within the grace period, and none
        until the hang before is over: others fall silent soon after the first."""
        now = time.monotonic()
        silent = [name for name, since in self.since.items() if now - since >= self.timeout]
        if not silent or self.handled or now - self.began < self.first:
            return []
        self.handled = set(silent)
        return silent

    def has_moved(self, names: Iterable[str]) -> bool:
        """True where one of these has changed since the last update."""
        seen = self.look()
        return any(seen.get(name) != self.seen[name] for name in names)


class Watchdog:
    """Watches a job, and does what is to be done when it hangs."""

    def __init__(self, options: argparse.Namespace, report: Report) -> None:
        self.options = options
        self.report = report
        self.roots: list[Process] = []
        self.job = options.job or find_own_job()
        self.job_state: str | None = None
        self.asked_slurm = -float("inf")
        self.hangs = 0
        self.summary = ""
        self.interval = min(max(options.timeout / 20, 0.1), 5.0)
        self.files = PatientThread(DUMP_SECONDS + 4 * SLURM_SECONDS)

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
        """The stacks of all ranks: of --job, else of those here, else of the job that this process
        is part of."""
        ranks = [] if self.options.job else choose_ranks(self.find_processes())
        dumps = take_stacks(ranks, DUMP_SECONDS, self.options.faulthandler_file)
        if self.job and not dumps:
            try:
                dumps = self.files.ask(lambda: dump_job(self.job or "", self.options, notes))
            except (OSError, UsageError) as error:
                notes.append(str(error))
        return dumps

    def respond(self, silence: Silence, names: Sequence[str]) -> None:
        """Take stacks, save and print the report, and do what --then asks for."""
        self.hangs += 1
        seconds = time.monotonic() - max(silence.since[name] for name in names)
        notes = [f"nothing new for {seconds:.0f} s: {', '.join(names[:8])}"]
        dumps = self.take_dumps(notes)
        merged = Merged(dumps, self.options.threads, notes)
        self.summary = merged.summary
        stamp = datetime.datetime.now(datetime.UTC)
        folder = Path(self.options.out).absolute() / f"hang_{stamp:%Y%m%dT%H%M%SZ}_{self.hangs}"
        remarks = "".join(f"note: {note}\n" for note in merged.notes)
        text = f"{merged.summary}\n{remarks}\n{merged.text()}\n"

        def save() -> None:
            save_dumps(dumps, folder)
            (folder / "report.txt").write_text(text, encoding="utf-8")

        try:
            self.files.ask(save)
            merged.notes += [] if self.options.demo else [f"stacks and report: {folder}"]
        except OSError as error:
            merged.notes.append(f"{folder}: {error}; the report is only here")
        # In `run`, stdout belongs to the command.
        is_own = self.options.task != "run" or self.options.demo
        merged.show(self.report, sys.stdout if is_own else sys.stderr)
        is_ended = False
        for kind, argument in self.options.then:
            if not is_ended and silence.has_moved(names):
                print("note: the job has moved again, so nothing more is done", file=sys.stderr)
                return
            try:
                problem = self.act(kind, argument, folder, text)
            except (OSError, subprocess.SubprocessError) as error:
                problem = str(error)
            is_ended = is_ended or kind in ("kill", "scancel")
            print(f"note: {kind}: {problem or 'done'}", file=sys.stderr, flush=True)

    def act(self, kind: str, argument: str, folder: Path, text: str) -> str | None:
        """Do one thing; None, or why it failed. Raises OSError and SubprocessError."""
        if kind == "command":
            environ = {"HANG_FOLDER": str(folder), "HANG_SUMMARY": self.summary,
                       "HANG_JOB": self.job or ""}  # fmt: skip
            done = subprocess.run(argument, shell=True, check=False, input=text.encode(),
                                  stdout=sys.stderr, env=os.environ | environ,
                                  timeout=COMMAND_SECONDS)  # fmt: skip
            return f"ended with status {done.returncode}" if done.returncode else None
        if kind == "kill":
            left = end_processes(self.find_processes())
            return f"{len(left)} processes do not end, {left[0].pid} is one" if left else None
        call_slurm("scancel", self.job or "")
        return None

    def look_once(self, silence: Silence) -> None:
        """Look, and respond to a hang."""
        silence.update(self.is_paused())
        if names := silence.find_hang():
            self.respond(silence, names)

    def follow(self) -> int:
        """Watch until the job has ended, or a signal comes; the exit status."""
        silence = Silence(self.options)
        with until_stopped(self.report) as stop:
            while self.job_state != "GONE" and (self.options.job or self.find_processes()):
                self.look_once(silence)
                stop.check()
                time.sleep(self.interval)
        return int(self.hangs > 0 or stop.by_signal)

    def wrap(self) -> int:
        """Run the command and watch it until it has ended; its status."""
        process, _ = start_wrapped(
            self.options.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={"PYTHONUNBUFFERED": "1", **os.environ},
        )  # fmt: skip
        self.roots = [root for root in [identify(process.pid)] if root]
        counts = {1: 0, 2: 0}
        pipes = zip((process.stdout, process.stderr), counts, strict=True)
        copies = [
            threading.Thread(target=pass_on, args=(*pair, counts), daemon=True) for pair in pipes
        ]
        for copy in copies:
            copy.start()
        silence = Silence(self.options, lambda: str(counts))
        while process.poll() is None:
            self.look_once(silence)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(self.interval)
        for copy in copies:
            copy.join(0.5)  # a background process may hold the pipes open for ever
        self.report.complete = True
        if self.summary:
            print(f"hang_watchdog: {self.summary}", file=sys.stderr, flush=True)
        return 128 - process.returncode if process.returncode < 0 else process.returncode


def pass_on(pipe: BinaryIO, target: int, counts: dict[int, int]) -> None:
    """Copy what a command prints, and count it. Output that cannot be written is lost."""
    while data := os.read(pipe.fileno(), 65536):
        counts[target] += len(data)
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(target, data) :]


def run_demo(report: Report) -> int:
    """Run four ranks, watch them, and check that the one that hangs is named; the status."""
    job = "for rank in 0 1 2 3; do RANK=$rank WORLD_SIZE=4 python demo.py & done; wait"
    job = job.replace("python", f"env -u TORCHELASTIC_RUN_ID {sys.executable}")
    with tempfile.TemporaryDirectory(prefix="hang_") as folder:
        (Path(folder) / "demo.py").write_text(DEMO, encoding="utf-8")
        words = f"--demo run --timeout 1s --then kill --out {folder} --faulthandler-file".split()
        words += [f"{folder}/stacks.{{pid}}", "--", "sh", "-c", f"cd {folder}; {job}"]
        Watchdog(read_options(words), report).wrap()
    first = report.rows[0]
    if first["ranks"] == "2" and first["place"].startswith("load_shard at "):
        return 0
    print("problem: the rank that hangs was not named", file=sys.stderr)
    return 1


def then_action(text: str) -> tuple[str, str]:
    """`command:SHELL COMMAND`, `kill` or `scancel`."""
    kind, _, argument = text.partition(":")
    if (kind == "command" and argument.strip()) or text in ("kill", "scancel"):
        return kind, argument
    raise argparse.ArgumentTypeError(f"'{text}': write command:SHELL COMMAND, kill or scancel")


def build_parser() -> Parser:
    parser = Parser(__doc__, tool="hang_watchdog", version=__version__, demo=[])
    tasks = parser.add_subparsers(dest="task", metavar="TASK", title="tasks (see TASK --help)")
    helps = {
        "run": "run a command, pass its output through, and watch it",
        "watch": "watch what a running job writes",
        "dump": "take the stacks of all ranks now",
        "merge": "merge stacks that were saved",
        "node": "(internal) take the stacks on one node of a job",
    }
    # fmt: off
    for name, text in helps.items():
        task = tasks.add_parser(name, help=text)
        add = task.add_argument
        task.set_defaults(match=None, job=None, command=[], then=[], timeout=600.0)
        if name in ("watch", "dump"):
            add("--match", type=regex_pattern, metavar="REGEX",
                help="your Python processes with such a command line, and what they started")
        if name != "merge":
            add("--job", metavar="ID", help="all ranks of this Slurm job")
            add("--faulthandler-file", metavar="PATH",
                help="where py-spy fails: where faulthandlers write on SIGUSR1, with {pid}")
            add("--out", default="hang_dumps", metavar="FOLDER",
                help="where stacks and reports go (default: hang_dumps)")
        if name in ("run", "watch"):
            add("--timeout", type=duration, default=600.0, metavar="TIME",
                help="report a hang after this long without output (default: 10m)")
            add("--first", type=duration, metavar="TIME",
                help="grace period after the start (default: as --timeout)")
            add("--log", nargs="+", metavar="FILE", help="one of these (or patterns) has to change")
            add("--heartbeat", nargs="+", metavar="FILE", help="each of these has to change")
            add("--then", type=then_action, action="append", default=[], metavar="ACTION",
                help="command:SHELL COMMAND, kill or scancel; may be repeated")
        if name != "node":
            add("--threads", default="main", choices=("main", "all"), help="(default: main)")
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
    if task not in ("run", "watch", "dump"):
        return options
    options.command += arguments[cut + 1 :]
    if task == "run" and not options.command:
        raise UsageError("name the command: hang_watchdog.py run --timeout 10m -- python train.py")
    if task == "watch" and not options.log and not options.heartbeat:
        raise UsageError("name what to watch: --log or --heartbeat")
    if task != "run" and not (options.match or options.job):
        raise UsageError("name the ranks: --match or --job")
    if task == "watch" and options.match and not find_matching(options.match):
        raise UsageError("--match: none of your Python processes has such a command line")
    kinds = [kind for kind, _ in options.then]
    if "scancel" in kinds and not (options.job or find_own_job()):
        raise UsageError("--then scancel needs --job")
    if task == "watch" and "kill" in kinds and not options.match:
        raise UsageError("--then kill needs --match; for a job use --then scancel")
    if options.job:
        read_job(options.job)
    if not find_py_spy() and not options.faulthandler_file:
        print("warning: py-spy is missing, so there will be no stacks: pip install py-spy",
              file=sys.stderr)  # fmt: skip
    return options


def show_dumps(options: argparse.Namespace, report: Report) -> int:
    """Take stacks or read saved ones, and print them merged; the exit status."""
    notes: list[str] = []
    if options.task == "merge":
        dumps = read_dumps(options.dumps)
    else:
        dumps = Watchdog(options, report).take_dumps(notes)
        save_dumps(dumps, Path(options.out))
        notes.append(f"{len(dumps)} dumps are in {options.out}")
    merged = Merged(dumps, options.threads, notes)
    merged.show(report, sys.stdout)
    report.complete = True
    return int(not merged.has_stacks)


def main(arguments: list[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    options = read_options(arguments)
    task = options.task
    if task == "node":
        ranks = choose_ranks(find_in_job(options.job))
        dumps = take_stacks(ranks, DUMP_SECONDS, options.faulthandler_file)
        save_dumps(dumps, Path(options.out))
        return 0
    if task is None and not options.demo:
        raise UsageError("name a task: run, watch, dump or merge (or --demo)")
    report = Report("hang_watchdog", __version__, 1, options.json)
    if task is None:
        status = run_demo(report)
    elif task in ("dump", "merge"):
        status = show_dumps(options, report)
    else:
        watchdog = Watchdog(options, report)
        status = watchdog.wrap() if task == "run" else watchdog.follow()
    report.save()
    return status


if __name__ == "__main__":
    start(main)
