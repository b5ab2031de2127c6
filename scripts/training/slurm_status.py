#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Is my training job running, pending, stuck, or gone from the queue without anyone noticing?

A job that ends in the night without a successor costs a cluster until somebody looks. This watchdog
asks squeue for the jobs whose name, user and group match, and alerts by mail, webhook or on stdout:
once when a watch gets worse, and once when it is good again.

| state | meaning |
|:--|:--|
| running | a matching job runs, starts or is suspended; an array if one of its tasks does |
| pending | none runs, and one waits: the reason, and when Slurm expects to start it |
| stuck | what waits will never start by itself: held, or its dependency has failed, or the like |
| missing | none of these; squeue or sacct say what became of the last one |
| unknown | Slurm did not answer, twice in a row |

A regular expression has to match the whole name: `train` does not match `train-2`. Without `--user`
or `--group` only your own jobs are watched. squeue is asked once for all watches.

## How to run

    python slurm_status.py --name 'train-104b.*'
    python slurm_status.py --example > slurm_status.toml       # then edit it
    python slurm_status.py slurm_status.toml --test-alerts     # does the mail arrive?
    */15 * * * * python3 slurm_status.py slurm_status.toml --log main.log    # cron
    sbatch slurm_status.slurm                                  # without cron, every hour

`--log` appends a line of JSON per watch: `grep '"slurm_status"' main.log | grep missing`.

## A good answer

`running`, or `pending` with a reason that passes: Resources, Priority, BeginTime, Dependency.

Exit status: 0 every watch runs or waits; 1 one does not, or an alert could not be sent; 2 wrong use
or an error in the file.
"""

from __future__ import annotations

import argparse
import contextlib
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
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.alerts import CHANNELS_EXAMPLE, send_test
from kit.cli import Parser, UsageError, regex_pattern, start
from kit.notify import Notifier, read_notifier
from kit.report import Report, Row, format_seconds, format_table
from kit.settings import read_settings

__version__ = "0.2.0"
PROFILES = {"demo": ["--demo"], "full": ["--name", ".*", "--user", ".*"]}
UNITS = {"running": "1", "pending": "1", "start_seconds": "s", "end_seconds": "s"}
SLURM_SECONDS = 60.0
RUNNING = {"RUNNING", "CONFIGURING", "STAGE_OUT", "SIGNALING", "RESIZING", "STOPPED", "SUSPENDED"}
HELD = {"REQUEUE_HOLD", "SPECIAL_EXIT", "JobHeldAdmin", "JobHeldUser", "JobHoldMaxRequeue",
        "job requeued in held state", "launch failed requeued held"}  # fmt: skip
NEVER = {"AccountNotAllowed", "BadConstraints", "DependencyNeverSatisfied", "InvalidAccount",
         "InvalidQOS", "PartitionNodeLimit", "PartitionTimeLimit", "QOSNotAllowed"}  # fmt: skip
"""States, and reasons, of jobs that are held or will never start."""
GOOD = ("running", "pending")
FIELDS = ("name", "user", "group")
SQUEUE = {"number": "%i", "user": "%u", "group": "%g", "state": "%T", "reason": "%r", "start": "%S",
          "end": "%e", "node_list": "%N", "dependency": "%E", "name": "%j"}  # fmt: skip
"""Field of Job -> its letter in squeue's format; the name comes last, as it may hold anything."""
SACCT = {"number": "JobID", "user": "User", "group": "Group", "state": "State", "end": "End",
         "exit_code": "ExitCode", "node_list": "NodeList", "name": "JobName"}  # fmt: skip
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
#user = "alice|bob"                 # you, unless one of these two is given
#group = "physics"
"""

DEMO_STATES = ("running", "pending", "stuck", "missing")
DEMO_QUEUE = """\
87_2|ann|lab|RUNNING|None|1800000000|1800086400|node[01-64]|(null)|train-104b
87_[3-10%1]|ann|lab|PENDING|JobArrayTaskLimit|N/A|N/A||(null)|train-104b
91|ann|lab|PENDING|Dependency|N/A|N/A||afterok:87_*(unfulfilled)|evaluate
92|ann|lab|PENDING|DependencyNeverSatisfied|N/A|N/A||afterok:80(failed)|upload
80|ann|lab|FAILED|NonZeroExitCode|1799990000|1799990100|node01|(null)|convert
"""


class Job(NamedTuple):
    """A job, or waiting tasks of an array. Times in seconds since 1970."""

    number: str
    name: str
    user: str
    group: str
    state: str
    reason: str = ""
    start: float | None = None
    end: float | None = None
    node_list: str = ""
    dependency: str = ""
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
    environ = {name: value for name, value in os.environ.items() if name[:7] != "SQUEUE_"}
    environ |= {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}
    try:
        done = subprocess.run(command, capture_output=True, check=False, env=environ, text=True,
                              errors="replace", timeout=SLURM_SECONDS)  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{command[0]}: no answer within {SLURM_SECONDS:g} s") from error
    if done.returncode:
        raise OSError(done.stderr.strip() or f"{command[0]}: status {done.returncode}")
    return done.stdout


def make_job(values: Mapping[str, str]) -> Job:
    """A job from texts."""
    texts = {field: "" if text in NOTHING else text for field, text in values.items()}
    return Job(**{
        **texts,
        "state": (texts["state"].split() or ["?"])[0],  # sacct: CANCELLED by 1000
        "start": float(texts.get("start") or 0) or None,
        "end": float(texts.get("end") or 0) or None,
    })  # fmt: skip


def read_lines(text: str, fields: Iterable[str]) -> list[Job]:
    """The jobs of lines with these fields. Raises ValueError for anything else."""
    names = list(fields)
    rows = (line.split("|", len(names) - 1) for line in text.splitlines())
    return [make_job(dict(zip(names, row, strict=True))) for row in rows]


def list_queue() -> list[Job]:
    """All jobs that Slurm shows, also those that have just ended. Raises OSError or ValueError
    where Slurm does not answer."""
    form = f"--format={'|'.join(SQUEUE.values())}"
    return read_lines(ask_slurm("squeue", "--noheader", "--states=all", form), SQUEUE)


def list_ended() -> list[Job]:
    """The jobs of the last week that sacct knows; none where there is no accounting."""
    with contextlib.suppress(OSError, ValueError):
        text = ask_slurm(
            "sacct", "--parsable2", "--noheader", "--allocations", "--allusers",
            "--starttime=now-7days", f"--format={','.join(SACCT.values())}",
        )  # fmt: skip
        return read_lines(text, SACCT)
    return []


def find_advice(job: Job) -> str:
    """What to do about a job that will never start by itself; empty where it may."""
    if {job.state, job.reason} & HELD:
        return "scontrol release, once you know why"
    return "scancel it and submit another" if job.reason in NEVER else ""


def judge_watch(
    label: str, patterns: Patterns, jobs: Sequence[Job], ended: Sequence[Job] = ()
) -> Finding:
    """What the queue, and the accounts, say about a watch."""

    def matches(job: Job) -> bool:
        return all(one.fullmatch(getattr(job, field)) for field, one in patterns.items())

    mine = list(filter(matches, jobs))
    running = [job for job in mine if job.state in RUNNING]
    waiting = [job for job in mine if job.state in {"PENDING", "REQUEUED", "REQUEUE_FED", *HELD}]
    able = [job for job in waiting if not find_advice(job)]
    over = [*(job for job in mine if job not in {*running, *waiting}), *filter(matches, ended)]
    # Of one job in both lists, what the accounts say comes last, and they know the exit code.
    last = max(reversed(over), key=lambda job: job.end or 0.0, default=None)
    state, job = "missing", None
    if running:
        state, job = "running", max(running, key=lambda job: job.end or 0.0)
    elif able:
        state, job = "pending", min(able, key=lambda job: job.start or float("inf"))
    elif waiting:
        state, job = "stuck", waiting[0]
    return Finding(label, state, len(running), len(waiting), job, last)


def make_sentence(finding: Finding) -> str:
    """What an alert says about a watch."""
    label, job, last = finding.label, finding.job, finding.last
    if finding.state == "unknown":
        return f"{label}: unknown: {finding.remark}"
    if job is None:
        text = f"{label}: MISSING: no job runs or waits"
        if last is None:
            return f"{text}, and no earlier one is known"
        text += f"; the last was {last.number}: {last.state}"
        text += f", exit code {last.exit_code}" if last.exit_code else ""
        end = time.strftime("%Y-%m-%d %H:%M", time.localtime(last.end or 0))
        return f"{text}, at {end} on {last.node_list}" if last.end else text
    state = "STUCK" if finding.state == "stuck" else "ok again"
    text = f"{label}: {state}: job {job.number} is {job.state}"
    text += f", {job.reason}" if job.reason else ""
    text += f" ({job.dependency})" if job.dependency else ""
    return f"{text}; {find_advice(job)}" if finding.state == "stuck" else text


def make_row(finding: Finding, now: float) -> Row:
    """A row of the JSON's results."""
    job, last = finding.job, finding.last
    return {
        "watch": finding.label,
        "state": finding.state,
        "running": finding.running,
        "pending": finding.pending,
        "job": job.number if job else None,
        "reason": job.reason if job else finding.remark or None,
        "dependency": job.dependency if job else None,
        "start_seconds": job.start - now if job and job.start else None,
        "end_seconds": job.end - now if job and job.end else None,
        "last_job": last.number if last else None,
        "last_state": last.state if last else None,
        "last_exit_code": last.exit_code if last else None,
    }


def print_rows(rows: Sequence[Row]) -> None:
    """Print the table."""
    cells = []
    for row in rows:
        word = "end" if row["state"] == "running" else "start"
        seconds = row[f"{word}_seconds"] or 0.0
        last = (row["last_job"], row["last_state"], row["last_exit_code"])
        cells.append([
            *(row[key] for key in ("watch", "state", "running", "pending", "job")),
            row["reason"] or None,
            f"{word}s in {format_seconds(seconds)}" if seconds > 0 else None,
            " ".join(filter(None, last)) or None,
        ])  # fmt: skip
    headings = ["watch", "state", "running", "waiting", "job", "why", "when", "last"]
    print(format_table(headings, cells), flush=True)


def run_round(
    watches: Mapping[str, Patterns], notifier: Notifier, options: argparse.Namespace, report: Report
) -> bool:
    """Look once, print, alert; True if every watch is good and every alert was sent."""
    now, jobs, ended = 1800003600.0 if options.demo else time.time(), [], []
    with notifier.open():
        try:
            jobs = read_lines(DEMO_QUEUE, SQUEUE) if options.demo else list_queue()
            findings = [judge_watch(*watch, jobs) for watch in watches.items()]
            if "missing" in [one.state for one in findings] and not options.demo:
                ended = list_ended()
                findings = [judge_watch(*watch, jobs, ended) for watch in watches.items()]
        except (OSError, ValueError) as error:
            findings = [Finding(label, "unknown", remark=str(error)) for label in watches]
        for one in findings:
            level = "ok" if one.state in GOOD else one.state
            # One look without an answer may be a controller that restarts.
            notifier.settle(one.label, level, 2 if level == "unknown" else None)
        report.rows = [make_row(one, now) for one in findings]
        print_rows(report.rows)
        if options.log:
            with Path(options.log).open("a", encoding="utf-8") as file:
                for row in report.rows:
                    print(json.dumps({"slurm_status": "pulse", "time": now, **row}), file=file)
        notifier.notify({one.label: make_sentence(one) for one in findings})
    report.details["alerts"] = notifier.sent
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
    add("--user", type=regex_pattern, metavar="REGEX", help="and this user (default: you)")
    add("--group", type=regex_pattern, metavar="REGEX", help="and this group")
    add("--log", metavar="PATH", help="append a pulse line per watch to this file")
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
    notifier = Notifier("slurm_status", [])
    if options.demo:
        queue = read_lines(DEMO_QUEUE, SQUEUE)
        watches = {job.name: {"name": re.compile(job.name)} for job in queue}
    elif bool(options.config) == bool(options.name):
        raise UsageError("give either FILE (--example prints one) or --name")
    elif options.config:
        notifier, watches = read_config(options.config)
    else:
        who = {"user": options.user, "group": options.group}
        watches = {name.pattern: make_patterns({"name": name, **who}) for name in options.name}
    if options.test_alerts:
        return send_test(notifier.channels, "slurm_status")
    if not options.demo and not shutil.which("squeue"):
        raise UsageError("there is no squeue here: run this where Slurm's commands are")
    report = Report("slurm_status", __version__, 1, UNITS, options.json)
    is_good = run_round(watches, notifier, options, report)
    if options.demo:
        is_good = tuple(row["state"] for row in report.rows) == DEMO_STATES
    report.complete = True
    report.save()
    return int(not is_good)


if __name__ == "__main__":
    start(main)
