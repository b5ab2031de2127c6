#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Is my training job running, pending, stuck, or gone from the queue without anyone noticing?

A job that ends in the night without a successor costs a cluster until somebody looks. This watchdog
asks squeue for the jobs whose name (and user, group, account, partition) match, reports one state
per watch, and alerts by mail, webhook or on stdout: once when a watch gets worse, and once when it
is good again.

| state | meaning |
|:--|:--|
| running | a matching job runs or is starting; an array runs if one of its tasks does |
| suspended | none runs, and one is suspended |
| pending | none runs, and one waits: the reason, and when Slurm expects to start it |
| stuck | what waits will never start by itself: held, or its dependency has failed, or the like |
| missing | none of these; what became of the last one comes from squeue, or sacct if there is one |
| unknown | Slurm did not answer, twice in a row |

A job that is COMPLETING has ended. A regular expression has to match the whole name: `train` does
not match `train-2`, `train.*` does. Without `--user` and its like only your own jobs are watched.

## What is asked

`squeue --json` once for all watches; where its JSON plugin is missing, `squeue --format`, which
has no exit codes. `sacct` only where something is missing.

## How to run

    python slurm_status.py --name 'train-104b.*'
    python slurm_status.py --name '.*' --group physics
    python slurm_status.py --example > slurm_status.toml       # then edit it
    python slurm_status.py slurm_status.toml --test-alerts     # does the mail arrive?
    # every 15 minutes, by cron or as a service
    */15 * * * * python3 slurm_status.py slurm_status.toml --log main.log
    python slurm_status.py slurm_status.toml --every 15m
    # Slurm: a job that submits itself for the next hour
    sbatch slurm_status.slurm
    # a saved answer, on any machine
    squeue --json > queue.json; python slurm_status.py --name x --queue queue.json

It asks the controller, so pdsh is not needed. `--log` appends a pulse, one line per watch:
`grep 'slurm_status pulse' main.log | grep state=missing`. What was seen and who was told is kept in
one JSON file (`state`).

## A good answer

`running`, or `pending` with a start that is soon and a reason that passes: Resources, Priority,
BeginTime, or a Dependency on a job that runs.

Exit status: 0 every watch runs or waits; 1 one does not, an alert could not be sent, or a signal
ended it; 2 wrong use or an error in the file.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import getpass
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.alerts import CHANNELS_EXAMPLE, send_test
from kit.cli import Parser, UsageError, duration, regex_pattern, start
from kit.notify import Notifier, read_notifier, repeat
from kit.report import Report, Row, format_seconds, format_table
from kit.settings import read_settings
from kit.stop import Stop, Stopped

__version__ = "0.2.0"

PROFILES = {"demo": ["--demo"], "full": ["--name", ".*", "--user", ".*"]}
UNITS = {"running": "1", "pending": "1", "nodes": "1", "start_seconds": "s", "end_seconds": "s"}
SLURM_SECONDS = 60.0
RUNNING = {"RUNNING", "CONFIGURING", "STAGE_OUT", "SIGNALING", "RESIZING", "STOPPED"}
PENDING = {"PENDING", "REQUEUED", "REQUEUE_FED"}
HELD = {"REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"}
GOOD = ("running", "suspended", "pending")
STUCK_REASONS = {
    "AccountNotAllowed": "submit it with another account",
    "BadConstraints": "no node has what it asks for: submit it again with other constraints",
    "DependencyNeverSatisfied": "the job it waits for has failed: scancel and submit again",
    "InvalidAccount": "submit it with another account",
    "InvalidQOS": "submit it with another QOS",
    "JobHeldAdmin": "held by an administrator: ask them",
    "JobHeldUser": "scontrol release",
    "JobHoldMaxRequeue": "requeued too often: read its log, then scontrol release",
    "job requeued in held state": "read its log, then scontrol release",
    "launch failed requeued held": "its start failed on a node: read its log, scontrol release",
    "PartitionNodeLimit": "it asks for more nodes than the partition allows",
    "PartitionTimeLimit": "it asks for more time than the partition allows",
    "QOSNotAllowed": "submit it with another QOS",
}
FIELDS = ("name", "user", "group", "account", "partition")
SQUEUE = {
    "number": "%i", "user": "%u", "group": "%g", "account": "%a", "partition": "%P", "state": "%T",
    "reason": "%r", "start": "%S", "end": "%e", "nodes": "%D", "node_list": "%N",
    "dependency": "%E", "name": "%j",
}  # fmt: skip
"""Field of Job -> its letter in squeue's format; the name comes last, as it may hold anything."""
SQUEUE_FORMAT = "|".join(SQUEUE.values())
SACCT = {
    "number": "JobID", "user": "User", "group": "Group", "account": "Account",
    "partition": "Partition", "state": "State", "exit_code": "ExitCode", "end": "End",
    "node_list": "NodeList", "name": "JobName",
}  # fmt: skip
NOTHING = ("(null)", "N/A", "None", "None assigned", "Unknown")

EXAMPLE = """\
# What slurm_status.py watches and whom it tells. Relative paths start at the folder of this file.
title = "cluster A"                 # starts every alert
state = "slurm_status.state.json"   # what was seen, and who was told
patience = 1                        # bad looks in a row before an alert
%s
[[job]]
name = "train-104b.*"               # a regular expression for the whole name
label = "the 104B training"
#user = "alice|bob"                 # you, unless one of these four is given
#group = "physics"
#account = "gpu"
#partition = "gpu_.*"
"""

DEMO_NOW = 1800003600.0
DEMO_STATES = ("running", "pending", "stuck", "missing")
DEMO_QUEUE = """\
87_2|ann|lab|gpu|main|RUNNING|None|1800000000|1800086400|64|node[01-64]|(null)|train-104b
87_[3-10%1]|ann|lab|gpu|main|PENDING|JobArrayTaskLimit|N/A|N/A|64||(null)|train-104b
91|ann|lab|gpu|main|PENDING|Dependency|N/A|N/A|1||afterok:87_*(unfulfilled)|evaluate
92|ann|lab|gpu|main|PENDING|DependencyNeverSatisfied|N/A|N/A|1||afterok:80(failed)|upload
80|ann|lab|gpu|main|FAILED|NonZeroExitCode|1799990000|1799990100|1|node01|(null)|convert
"""


class Job(NamedTuple):
    """A job, or waiting tasks of an array. Times in seconds since 1970."""

    number: str
    name: str
    user: str
    group: str
    account: str
    partition: str
    state: str
    reason: str = ""
    start: float | None = None
    end: float | None = None
    nodes: int = 0
    node_list: str = ""
    dependency: str = ""
    tasks: int = 1
    exit_code: str = ""


Patterns = dict[str, re.Pattern[str]]
"""The jobs of a watch: a field of Job -> what it has to match as a whole."""


class Finding(NamedTuple):
    """The state of a watch, the job that shows it, and the last one that ended."""

    label: str
    state: str
    running: int = 0
    pending: int = 0
    job: Job | None = None
    last: Job | None = None
    remark: str = ""


def ask_slurm(*command: str) -> str:
    """The output of a command of Slurm, with times in seconds since 1970. Raises OSError."""
    dropped = ("SQUEUE_", "SACCT_")  # they would change the answer
    environ = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    environ |= {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
    try:
        done = subprocess.run(command, capture_output=True, check=False, env=environ, text=True,
                              errors="replace", timeout=SLURM_SECONDS)  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{command[0]}: no answer within {SLURM_SECONDS:g} s") from error
    if done.returncode:
        words = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise OSError(f"{command[0]}: {words[0].removeprefix(command[0] + ': ')}")
    return done.stdout


def read_number(value: Any) -> int | None:
    """A number of Slurm's JSON: bare, or from 23.02 on `{"set": true, "number": 7}`."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    return value if isinstance(value, int) else None


def read_exit_code(value: Any) -> str:
    """`3:0`, status and signal, from the forms that JSON has for it."""
    if isinstance(value, dict) and "return_code" in value:
        caught = value.get("signal") or {}
        number = read_number(caught.get("id", caught.get("signal_id")))
        return f"{read_number(value['return_code']) or 0}:{number or 0}"
    number = read_number(value)
    return "" if number is None else f"{number >> 8 & 255}:{number & 127}"


def count_tasks(text: str) -> int:
    """The number of tasks in `[1-10%2]` or `1,3,5-9:2`; what squeue cuts off is not counted."""
    count = 0
    for part in text.partition("%")[0].strip("[]").split(","):
        if found := re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?(?::([1-9]\d*))?", part.strip()):
            first, last, step = found.groups()
            count += len(range(int(first), int(last or first) + 1, int(step or 1)))
    return max(count, 1)


def read_time(text: str) -> float | None:
    """A time as a command of Slurm prints it; None for none."""
    if re.fullmatch(r"\d{1,10}", text):
        return float(text) or None
    with contextlib.suppress(ValueError, OverflowError):
        return datetime.datetime.fromisoformat(text).astimezone().timestamp()
    return None


def make_job(values: Mapping[str, str]) -> Job:
    """A job from texts."""
    texts = {field: "" if text in NOTHING else text for field, text in values.items()}
    number, nodes = texts["number"], texts.get("nodes", "")
    return Job(**{
        **texts,
        "state": (texts["state"].split() or ["?"])[0],  # sacct: CANCELLED by 1000
        "start": read_time(texts.get("start", "")),
        "end": read_time(texts.get("end", "")),
        "nodes": int(nodes) if nodes.isdecimal() else 0,
        "tasks": count_tasks(number.partition("_")[2]) if "[" in number else 1,
    })  # fmt: skip


def read_lines(text: str, fields: Iterable[str]) -> list[Job]:
    """The jobs of lines with these fields. Raises ValueError for anything else."""
    names = list(fields)
    rows = (line.split("|", len(names) - 1) for line in text.splitlines())
    return [make_job(dict(zip(names, row, strict=True))) for row in rows]


def read_json_job(entry: Mapping[str, Any]) -> Job:
    """A job of `squeue --json`."""
    array, task = (read_number(entry.get(f"array_{name}_id")) for name in ("job", "task"))
    tasks, state = entry.get("array_task_string"), entry.get("job_state") or "?"
    if isinstance(state, list):
        state = "COMPLETING" if "COMPLETING" in state else state[0]
    names = {"name": "name", "user": "user_name", "group": "group_name", "account": "account",
             "partition": "partition", "reason": "state_reason", "node_list": "nodes",
             "dependency": "dependency"}  # fmt: skip
    numbers = {"number": "job_id", "start": "start_time", "end": "end_time", "nodes": "node_count"}
    values = {field: str(entry.get(name) or "") for field, name in names.items()}
    values |= {field: str(read_number(entry.get(name))) for field, name in numbers.items()}
    if array and (task is not None or tasks):
        values["number"] = f"{array}_{task}" if task is not None else f"{array}_[{tasks}]"
    return make_job({**values, "state": state, "exit_code": read_exit_code(entry.get("exit_code"))})


def read_queue(text: str) -> list[Job]:
    """The jobs of `squeue --json` or `squeue --format=SQUEUE_FORMAT`. Raises ValueError."""
    if not text.lstrip().startswith("{"):
        return read_lines(text, SQUEUE)
    document = json.loads(text)
    if document.get("errors") and not document.get("jobs"):  # there was no controller
        raise ValueError("squeue reports errors instead of jobs")
    return [read_json_job(entry) for entry in document["jobs"]]


def list_queue(path: str | None) -> list[Job]:
    """All jobs that Slurm shows, also those that have just ended, or those of a saved answer.
    Raises OSError where Slurm does not answer, UsageError where the file is something else."""
    if path:
        try:
            text = Path(path).read_text(encoding="utf-8", errors="replace")
            return read_queue(text) if text.strip() else read_queue("empty")
        except OSError as error:
            raise UsageError(f"--queue: {path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            message = f"is neither squeue --json nor squeue --format='{SQUEUE_FORMAT}'"
            raise UsageError(f"--queue: {path} {message}") from error
    try:
        return read_queue(ask_slurm("squeue", "--json", "--states=all"))
    except (OSError, ValueError, KeyError):  # no plugin for JSON, or no Slurm: this tells which
        form = f"--format={SQUEUE_FORMAT}"
        return read_queue(ask_slurm("squeue", "--noheader", "--states=all", form))


def list_ended(history: float) -> list[Job]:
    """The jobs of the last time that sacct knows; none where there is no accounting."""
    begin = datetime.datetime.fromtimestamp(time.time() - history).astimezone()
    with contextlib.suppress(OSError, ValueError):
        text = ask_slurm(
            "sacct", "--parsable2", "--noheader", "--allocations", "--allusers",
            f"--starttime={begin:%Y-%m-%dT%H:%M:%S}", f"--format={','.join(SACCT.values())}",
        )  # fmt: skip
        return read_lines(text, SACCT)
    return []


def find_advice(job: Job) -> str:
    """What to do about a job that will never start by itself; empty where it may."""
    if job.state in HELD:
        return "read its log, then scontrol release"
    return STUCK_REASONS.get(job.reason, "")


def judge_watch(
    label: str, patterns: Patterns, jobs: Sequence[Job], ended: Sequence[Job] = ()
) -> Finding:
    """What the queue, and the accounts, say about a watch."""

    def matches(job: Job) -> bool:
        return all(one.fullmatch(getattr(job, field)) for field, one in patterns.items())

    mine = list(filter(matches, jobs))
    running = [job for job in mine if job.state in RUNNING]
    waiting = [job for job in mine if job.state in PENDING | HELD]
    suspended = [job for job in mine if job.state == "SUSPENDED"]
    able = [job for job in waiting if not find_advice(job)]
    alive = {*running, *waiting, *suspended}
    over = [job for job in mine if job not in alive] + list(filter(matches, ended))
    # Of one job in both lists, what the accounts say comes last, and they know the exit code.
    last = max(reversed(over), key=lambda job: job.end or 0.0, default=None)
    state, job = "missing", None
    if running:
        state, job = "running", max(running, key=lambda job: job.end or 0.0)
    elif suspended:
        state, job = "suspended", suspended[0]
    elif able:
        state, job = "pending", min(able, key=lambda job: job.start or float("inf"))
    elif waiting:
        state, job = "stuck", waiting[0]
    return Finding(label, state, len(running), sum(one.tasks for one in waiting), job, last)


def make_sentence(finding: Finding, jobs: Sequence[Job]) -> str:
    """What an alert says about a watch."""
    label, job, last = finding.label, finding.job, finding.last
    if finding.state == "unknown":
        return f"{label}: unknown: {finding.remark}"
    if job is None:
        if last is None:
            return f"{label}: MISSING: no job runs or waits, and no earlier one is known"
        end = datetime.datetime.fromtimestamp(last.end or 0).astimezone()
        text = f"{label}: MISSING: no job runs or waits; the last was {last.number}: {last.state}"
        text += f", exit code {last.exit_code}" if last.exit_code else ""
        text += f", at {end:%Y-%m-%d %H:%M}" if last.end else ""
        return text + (f" on {last.node_list}" if last.node_list else "")
    state = "STUCK" if finding.state == "stuck" else "ok again"
    text = f"{label}: {state}: job {job.number} is {job.state}"
    text += f", {job.reason}" if job.reason else ""
    if job.dependency:
        numbers = re.findall(r"\d+(?:_\d+)?", job.dependency)
        states = {n: other.state for n in numbers for other in jobs
                  if n in (other.number, other.number.partition("_")[0])}  # fmt: skip
        text += f" ({', '.join([job.dependency, *(f'{n} is {s}' for n, s in states.items())])})"
    return f"{text}; {find_advice(job)}" if finding.state == "stuck" else text


def make_pulse(row: Row, now: float) -> str:
    """One line for grep: the columns of the JSON as key=value."""
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
    texts = {key: value if isinstance(value, str) else f"{value:.0f}"
             for key, value in row.items() if value is not None}  # fmt: skip
    words = [f"{key}={'_'.join(text.split()) or '-'}" for key, text in texts.items()]
    return " ".join(["slurm_status pulse", f"time={moment:%Y-%m-%dT%H:%M:%SZ}", *words])


def make_row(finding: Finding, now: float) -> Row:
    """A row of the JSON's results."""
    job, last = finding.job, finding.last
    return {
        "watch": finding.label,
        "state": finding.state,
        "running": finding.running,
        "pending": finding.pending,
        "job": job.number if job else None,
        "job_state": job.state if job else None,
        "nodes": job.nodes if job else None,
        "reason": job.reason if job else None,
        "dependency": job.dependency if job else None,
        "start_seconds": job.start - now if job and job.start else None,
        "end_seconds": job.end - now if job and job.end else None,
        "last_job": last.number if last else None,
        "last_state": last.state if last else None,
        "last_exit_code": last.exit_code if last else None,
    }


def print_findings(findings: Sequence[Finding], rows: Sequence[Row]) -> None:
    """Print the table."""
    cells = []
    for one, row in zip(findings, rows, strict=True):
        word = "end" if one.state == "running" else "start"
        seconds = row[f"{word}_seconds"] or 0.0
        last = [row["last_job"], row["last_state"], row["last_exit_code"]] if one.last else []
        cells.append([
            *(row[key] for key in ("watch", "state", "running", "pending", "job", "nodes")),
            row["reason"] or one.remark or None,
            f"{word}s in {format_seconds(seconds)}" if seconds > 0 else None,
            " ".join(filter(None, last)) or None,
        ])  # fmt: skip
    headings = ["watch", "state", "running", "waiting", "job", "nodes", "why", "when", "last"]
    print(format_table(headings, cells), flush=True)


def run_round(
    watches: Mapping[str, Patterns], notifier: Notifier, options: argparse.Namespace, report: Report
) -> bool:
    """Look once, print, alert; True if every watch is good and every alert was sent."""
    now, jobs, ended = DEMO_NOW if options.demo else time.time(), [], []
    with notifier.open():
        try:
            jobs = read_queue(DEMO_QUEUE) if options.demo else list_queue(options.queue)
            findings = [judge_watch(*watch, jobs) for watch in watches.items()]
            if "missing" in [one.state for one in findings] and not (options.demo or options.queue):
                ended = list_ended(options.history)
                findings = [judge_watch(*watch, jobs, ended) for watch in watches.items()]
        except (OSError, ValueError) as error:
            findings = [Finding(label, "unknown", remark=str(error)) for label in watches]
        for one in findings:
            level = "ok" if one.state in GOOD else one.state
            # One look without an answer may be a controller that restarts.
            notifier.settle(one.label, level, 2 if level == "unknown" else None)
        report.rows = [make_row(one, now) for one in findings]
        pulses = "".join(f"{make_pulse(row, now)}\n" for row in report.rows)
        if options.pulse:
            print(pulses, end="", flush=True)
        else:
            print_findings(findings, report.rows)
        if options.log:
            with Path(options.log).open("a", encoding="utf-8") as file:
                file.write(pulses)
        notifier.notify({one.label: make_sentence(one, jobs) for one in findings})
    report.details["alerts"] = notifier.sent
    for text in notifier.problems:
        print(f"problem: {text}", file=sys.stderr)
    return not notifier.problems and all(one.state in GOOD for one in findings)


def make_patterns(values: Mapping[str, re.Pattern[str] | None]) -> Patterns:
    """What a watch matches; without another condition than the name it is on your own jobs."""
    given = {field: one for field, one in values.items() if one is not None}
    return given if len(given) > 1 else {**given, "user": re.compile(re.escape(getpass.getuser()))}


def read_config(file: str) -> tuple[Notifier, dict[str, Patterns]]:
    """Whom to tell, and what to watch by label. Raises UsageError."""
    top = read_settings(file)
    notifier = read_notifier(top, "slurm_status")
    watches: dict[str, Patterns] = {}
    for table in top.take_tables("job"):
        label = table.take("label", str, table.need("name"))
        if label in watches:
            raise table.error("label", f"'{label}' is there twice")
        watches[label] = make_patterns({f: table.parse(f, regex_pattern) for f in FIELDS})
        table.close()
    top.close()
    return notifier, watches


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(__doc__, tool="slurm_status", version=__version__, demo=[])
    add = parser.add_argument
    # fmt: off
    add("config", nargs="?", metavar="FILE", help="what to watch, as TOML; see --example")
    add("--name", action="append", type=regex_pattern, default=[], metavar="REGEX",
        help="watch jobs with this whole name, without a file; may be repeated")
    for field in FIELDS[1:]:
        default = " (default: you)" if field == "user" else ""
        add(f"--{field}", type=regex_pattern, metavar="REGEX", help=f"and this {field}{default}")
    add("--every", type=duration, metavar="TIME", help="look again and again, for example 15m")
    add("--pulse", action="store_true", help="print pulse lines instead of the table")
    add("--log", metavar="PATH", help="append the pulse lines to this file")
    add("--history", type=duration, default=7 * 86400.0, metavar="TIME",
        help="how far sacct looks back for the last job (default: 7d)")
    add("--queue", metavar="PATH", help="read a saved answer of squeue --json instead of asking")
    add("--example", action="store_true", help="print a file to start with")
    add("--test-alerts", action="store_true", help="send a test alert to every channel in the file")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    options = build_parser().parse_args(arguments)
    if options.example:
        print(EXAMPLE % CHANNELS_EXAMPLE, end="")
        return 0
    names = {one.pattern: one for one in options.name}
    notifier, watches = Notifier("slurm_status", []), {}
    if options.demo:
        queue = read_queue(DEMO_QUEUE)
        watches = {job.name: {"name": re.compile(job.name)} for job in queue}
    elif options.config and not names:
        notifier, watches = read_config(options.config)
    elif names and not options.config:
        fields = {field: getattr(options, field) for field in FIELDS}
        watches = {name: make_patterns({**fields, "name": one}) for name, one in names.items()}
    else:
        raise UsageError("give either FILE (--example prints one) or --name")
    if options.test_alerts:
        return send_test(notifier.channels, "slurm_status")
    if not options.demo and not options.queue and not shutil.which("squeue"):
        raise UsageError("there is no squeue here: run this where Slurm's commands are")
    report = Report("slurm_status", __version__, 1, UNITS, options.json)
    stop = Stop()
    stop.listen()
    is_good = False
    try:
        for _ in repeat(None if options.demo else options.every, stop):
            is_good = run_round(watches, notifier, options, report)
        report.complete = True
    except Stopped as stopped:
        report.note(str(stopped))
    if options.demo:
        report.note("a made-up queue; --example prints a file to start with")
        is_good = tuple(row["state"] for row in report.rows) == DEMO_STATES
    report.save()
    return int(not report.complete or not is_good)


if __name__ == "__main__":
    start(main)
