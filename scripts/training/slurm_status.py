#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Is my training job running, pending, stuck, or gone from the queue without anyone noticing?

A job that ends in the night without a successor leaves GPUs idle until someone looks. This watchdog
asks squeue for the jobs whose name, user and group match, and alerts on stdout, by mail and by
webhook: once when a watch gets worse, and once when it recovers.

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

Exit status: 0 every watch runs or waits; 1 one does not, or an alert could not be sent; 2 usage
error or an error in the file.
"""

import contextlib
import getpass
import json
import os
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.alerts import CHANNELS_EXAMPLE, Notifier, read_notifier, read_table, send_test
from kit.cli import Parser, UsageError, regex_pattern, start
from kit.report import Report, Row, format_seconds, format_table
from kit.slurm import call_slurm

__version__ = "0.2.0"
PROFILES = {"demo": ["--demo"], "full": ["--name", ".*", "--user", ".*"]}
RUNNING = {"RUNNING", "CONFIGURING", "STAGE_OUT", "SIGNALING", "RESIZING", "STOPPED", "SUSPENDED"}
HELD = {"REQUEUE_HOLD", "SPECIAL_EXIT", "JobHeldAdmin", "JobHeldUser", "JobHoldMaxRequeue",
        "job requeued in held state", "launch failed requeued held"}  # fmt: skip
NEVER = {"AccountNotAllowed", "BadConstraints", "DependencyNeverSatisfied", "InvalidAccount",
         "InvalidQOS", "PartitionNodeLimit", "PartitionTimeLimit", "QOSNotAllowed"}  # fmt: skip
"""States, and reasons, of jobs that are held or will never start."""
SQUEUE = {"number": "%i", "user": "%u", "group": "%g", "state": "%T", "reason": "%r", "start": "%S",
          "end": "%e", "node_list": "%N", "dependency": "%E", "name": "%j"}  # fmt: skip
"""Field of a job -> its letter in squeue's format; the name comes last, as it may hold anything."""
SACCT = {"number": "JobID", "user": "User", "group": "Group", "state": "State", "end": "End",
         "exit_code": "ExitCode", "node_list": "NodeList", "name": "JobName"}  # fmt: skip
NOTHING = ("(null)", "N/A", "None", "None assigned", "Unknown")

EXAMPLE = """\
# What slurm_status.py watches and whom it tells. Relative paths start at the folder of this file.
title = "cluster A"                 # starts every alert
state = "slurm_status.state.json"   # what was seen, and who was told
%s
[[job]]
name = "train-104b.*"               # a regular expression for the whole name
label = "the 104B training"
#user = "alice|bob"                 # you, unless one of these two is given
#group = "physics"
"""

DEMO_STATES = ["running", "pending", "stuck", "missing"]
DEMO_QUEUE = """\
87_2|ann|lab|RUNNING|None|1800000000|1800086400|node[01-64]|(null)|train-104b
87_[3-10%1]|ann|lab|PENDING|JobArrayTaskLimit|N/A|N/A||(null)|train-104b
91|ann|lab|PENDING|Dependency|N/A|N/A||afterok:87_*(unfulfilled)|evaluate
92|ann|lab|PENDING|DependencyNeverSatisfied|N/A|N/A||afterok:80(failed)|upload
80|ann|lab|FAILED|NonZeroExitCode|1799990000|1799990100|node01|(null)|convert
"""
DEMO_TIME = 1800003600.0

Job = dict[str, str]
"""A job, or waiting tasks of an array. Times are in seconds since 1970."""
Patterns = dict[str, re.Pattern[str]]
"""The jobs of a watch: a field of a job -> what it has to match as a whole."""


def read_jobs(text: str, fields: Mapping[str, str]) -> list[Job]:
    """The jobs of lines with these fields. Raises ValueError for anything else."""
    jobs = []
    for line in text.splitlines():
        words = line.split("|", len(fields) - 1)
        values = ["" if word in NOTHING else word for word in words]
        job = dict.fromkeys([*SQUEUE, *SACCT], "") | dict(zip(fields, values, strict=True))
        jobs.append(job | {"state": job["state"].partition(" ")[0]})  # sacct: CANCELLED by 1000
    return jobs


def list_ended() -> list[Job]:
    """The jobs of the last week that sacct knows to have ended; none without accounting."""
    with contextlib.suppress(OSError, ValueError, UsageError):
        text = call_slurm(
            "sacct", "--parsable2", "--noheader", "--allocations", "--allusers",
            "--starttime=now-7days", f"--format={','.join(SACCT.values())}",
        )  # fmt: skip
        return [job for job in read_jobs(text, SACCT) if job["end"]]
    return []


def find_advice(job: Job) -> str:
    """What to do about a job that will never start by itself; empty where it may."""
    if {job["state"], job["reason"]} & HELD:
        return "scontrol release, once you know why"
    return "scancel it and submit another" if job["reason"] in NEVER else ""


def judge_watch(label: str, patterns: Patterns, jobs: Sequence[Job], now: float) -> tuple[Row, str]:
    """What the jobs say about a watch: a row of the JSON, and the sentence of an alert."""
    mine = [job for job in jobs if all(p.fullmatch(job[field]) for field, p in patterns.items())]
    running = [job for job in mine if job["state"] in RUNNING]
    waiting = [job for job in mine if job["state"] in {"PENDING", "REQUEUED", *HELD}]
    able = [job for job in waiting if not find_advice(job)]
    ended = [job for job in mine if job not in [*running, *waiting]]
    # Of one job in both lists, what the accounts say comes last, and they know the exit code.
    last = max(reversed(ended), key=lambda job: float(job["end"] or 0), default=None)
    state, job = "missing", None
    if running:
        state, job = "running", max(running, key=lambda job: float(job["end"] or 0))
    elif able:
        state, job = "pending", min(able, key=lambda job: float(job["start"] or "inf"))
    elif waiting:
        state, job = "stuck", waiting[0]
    row = {
        "watch": label,
        "state": state,
        "running": len(running),
        "pending": len(waiting),
        "job": job and job["number"],
        "reason": job and job["reason"],
        "dependency": job and job["dependency"],
        "start_seconds": float(job["start"]) - now if job and job["start"] else None,
        "end_seconds": float(job["end"]) - now if job and job["end"] else None,
        "last_job": last and last["number"],
        "last_state": last and last["state"],
        "last_exit_code": (last and last["exit_code"]) or None,
    }
    return row, f"{label}: {describe(state, job, last)}"


def describe(state: str, job: Job | None, last: Job | None) -> str:
    """What an alert says about a watch: the job that shows its state, or how the last one ended."""
    if job:
        text = "STUCK" if state == "stuck" else "ok again"
        text += f": job {job['number']} is {job['state']}"
        text += f", {job['reason']}" if job["reason"] else ""
        text += f" ({job['dependency']})" if job["dependency"] else ""
        return f"{text}; {find_advice(job)}" if state == "stuck" else text
    text = "MISSING: no job runs or waits"
    if last is None:
        return f"{text}, and no earlier one is known"
    text += f"; the last was {last['number']}: {last['state']}"
    text += f", exit code {last['exit_code']}" if last["exit_code"] else ""
    end = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(last["end"] or 0)))
    return f"{text}, at {end} on {last['node_list']}" if last["end"] else text


def judge_all(watches: Mapping[str, Patterns], *, demo: bool) -> list[tuple[Row, str]]:
    """The row and the sentence of each watch."""
    now = DEMO_TIME if demo else time.time()
    try:
        form = f"--format={'|'.join(SQUEUE.values())}"
        os.environ["SLURM_TIME_FORMAT"] = "%s"  # times in seconds since 1970
        asked = ("squeue", "--noheader", "--states=all", form)  # also those that have just ended
        jobs = read_jobs(DEMO_QUEUE if demo else call_slurm(*asked), SQUEUE)
        found = [judge_watch(*watch, jobs, now) for watch in watches.items()]
        if not demo and "missing" in [row["state"] for row, _ in found]:
            jobs += list_ended()
            found = [judge_watch(*watch, jobs, now) for watch in watches.items()]
    except (OSError, ValueError) as error:
        found = [judge_watch(*watch, [], now) for watch in watches.items()]
        unknown = {"state": "unknown", "reason": str(error)}
        found = [(row | unknown, f"{row['watch']}: unknown: {error}") for row, _ in found]
    return found


def print_rows(rows: Sequence[Row]) -> None:
    names = ("watch", "state", "running", "pending", "job")
    cells = []
    for row in rows:
        word = "end" if row["state"] == "running" else "start"
        seconds = row[f"{word}_seconds"] or 0.0
        when = f"{word}s in {format_seconds(seconds)}" if seconds > 0 else None
        last = filter(None, (row["last_job"], row["last_state"], row["last_exit_code"]))
        texts = (row["reason"] or None, when, " ".join(last) or None)
        cells.append([*(row[name] for name in names), *texts])
    headings = ["watch", "state", "running", "waiting", "job", "why", "when", "last"]
    print(format_table(headings, cells), flush=True)


def make_patterns(values: Mapping[str, re.Pattern[str] | None]) -> Patterns:
    """What a watch matches; without another condition than the name it is on your own jobs."""
    given = {field: one for field, one in values.items() if one is not None}
    return given if len(given) > 1 else {**given, "user": re.compile(re.escape(getpass.getuser()))}


def read_config(file: str) -> tuple[Notifier, dict[str, Patterns]]:
    """Whom to tell, and what to watch by label. Raises UsageError."""
    notifier, tables = read_notifier(file, "slurm_status", "job")
    readers = {"label": str, **dict.fromkeys(("name", "user", "group"), regex_pattern)}
    watches: dict[str, Patterns] = {}
    for place, table in tables:
        found = read_table(place, table, readers, "name")
        label = found.pop("label", found["name"].pattern)
        watches[label] = make_patterns(found)
    return notifier, watches


def build_parser() -> Parser:
    parser = Parser(__doc__, tool="slurm_status", version=__version__, demo=[])
    add = parser.add_argument
    # fmt: off
    add("config", nargs="?", metavar="FILE", help="what to watch, as TOML; see --example")
    add("--name", action="append", type=regex_pattern, default=[], metavar="REGEX",
        help="watch jobs with this whole name, without a file; may be repeated")
    add("--user", type=regex_pattern, metavar="REGEX", help="of this user (default: you)")
    add("--group", type=regex_pattern, metavar="REGEX", help="of this group")
    add("--log", metavar="PATH", help="append a pulse line per watch to this file")
    add("--example", action="store_true", help="print a file to start with")
    add("--test-alerts", action="store_true", help="send a test alert to every channel in the file")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    if options.example:
        print(EXAMPLE % CHANNELS_EXAMPLE, end="")
        return 0
    notifier = Notifier("slurm_status", [])
    if options.demo:
        names = [job["name"] for job in read_jobs(DEMO_QUEUE, SQUEUE)]
        watches = {name: {"name": re.compile(name)} for name in names}
    elif bool(options.config) == bool(options.name):
        raise UsageError("give either FILE (--example prints one) or --name")
    elif options.config:
        notifier, watches = read_config(options.config)
    else:
        who = {"user": options.user, "group": options.group}
        watches = {name.pattern: make_patterns({"name": name, **who}) for name in options.name}
    if options.test_alerts:
        return send_test(notifier.channels, "slurm_status")
    report = Report("slurm_status", __version__, 1, options.json)
    notifier.load()
    found = judge_all(watches, demo=options.demo)
    report.rows = [row for row, _ in found]
    print_rows(report.rows)
    states = [row["state"] for row in report.rows]
    for label, state in zip(watches, states, strict=True):
        notifier.settle(label, "ok" if state in ("running", "pending") else state)
    if options.log:
        with Path(options.log).open("a", encoding="utf-8") as file:
            for row in report.rows:
                print(json.dumps({"slurm_status": "pulse", "time": time.time(), **row}), file=file)
    notifier.notify({row["watch"]: sentence for row, sentence in found})
    report.details["alerts"] = notifier.sent
    report.complete = True
    report.save()
    if options.demo:
        return int(states != DEMO_STATES)
    return int(bool(notifier.problems) or not {*states} <= {"running", "pending"})


if __name__ == "__main__":
    start(main)
