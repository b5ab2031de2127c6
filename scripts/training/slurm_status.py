#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Is my training running, or waiting, or gone from the queue with nobody the wiser?

A job that ends in the night and has no successor costs a cluster until somebody looks. This
watchdog looks: it asks squeue for the jobs whose name (user, group, account, partition) fits, says
of each watch in one line whether it runs, waits, or is missing, and tells people by mail, webhook
or on stdout, once when that changes for the worse and once when it is well again.

What counts as what
    running     a job that fits runs (or is being started)
    suspended   none runs, and one is suspended
    pending     none runs, and one waits: why, and when Slurm thinks that it starts
    stuck       those that wait will never start by themselves: held, or waiting for a job that has
                failed (DependencyNeverSatisfied), or asking for what there is not
    missing     none of these. What became of the last one comes from squeue, which remembers for
                some minutes (MinJobAge), and from sacct where there is accounting (--history)
    unknown     Slurm did not answer, twice in a row
    A job that is COMPLETING has ended. An array is running where one of its tasks is; tasks that
    wait are counted. Expressions have to fit the whole name: `train` is not `train-2`, which
    `train.*` is. Without --user and its like, only your own jobs are looked at.
What is asked
    squeue --json, once for all watches; where that plugin is not installed, squeue --format, which
    does not tell exit codes. sacct only where something is missing. SQUEUE_* variables that would
    change the answer are left out. Of a saved answer (--queue) an empty file is none.
What is kept
    What was seen and who was told what, in one JSON file (`state`), written whole. Where a mail or
    a webhook fails or hangs, it is tried again at the next look, the others are not told twice.

How to run
    a look          python slurm_status.py --name 'train-104b.*'
    of others       python slurm_status.py --name '.*' --group physics
    an example      python slurm_status.py --example > slurm_status.toml
    the usual       python slurm_status.py slurm_status.toml --log main.log
    by cron         */15 * * * * python3 slurm_status.py slurm_status.toml > slurm_status.log
    as a service    python slurm_status.py slurm_status.toml --every 15m
    are alerts on?  python slurm_status.py slurm_status.toml --test_alerts
    a saved answer  squeue --json > queue.json; python slurm_status.py --name x --queue queue.json
    Slurm           sbatch slurm_status.slurm: a job that submits itself for the next time
    pdsh            not needed: it asks the controller
    The pulse is made to be searched: grep 'slurm_status pulse' main.log | grep state=missing

A good answer: `running`; or `pending` with a start that is soon, and a reason that passes:
Resources, Priority, BeginTime, or a Dependency on a job that runs.

Seen running: Slurm 22.05 with and without accounting. The JSON of newer versions is read as their
documentation has it.

Exit status: 0 each watch runs or waits; 1 one does not, an alert could not be sent, or stopped by a
signal; 2 wrong use, or a fault in the file, which is named with its line.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import difflib
import errno
import functools
import io
import itertools
import json
import math
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import tomllib
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TextIO, cast

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
# fmt: off
PROFILES = {
    "toy": ["--toy"],
    "full": ["--name", ".*", "--user", ".*"],
}
# fmt: on

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "running": "1",
    "pending": "1",
    "nodes": "1",
    "start_seconds": "s",
    "end_seconds": "s",
}

SLURM_SECONDS = 60.0
RUNNING_STATES = frozenset(
    ("RUNNING", "CONFIGURING", "STAGE_OUT", "SIGNALING", "RESIZING", "STOPPED")
)
PENDING_STATES = frozenset(("PENDING", "REQUEUED", "REQUEUE_FED"))
HELD_STATES = frozenset(("REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"))
GOOD_STATES = frozenset(("running", "suspended", "pending"))
# Reasons of Slurm that do not pass by themselves, in small letters alone: what to do.
STUCK_REASONS = {
    "accountnotallowed": "submit it with another account",
    "badconstraints": "no node has what it asks for: submit it anew",
    "dependencyneversatisfied": "the job it waits for has not ended well: scancel and submit anew",
    "invalidaccount": "submit it with another account",
    "invalidqos": "submit it with another QOS",
    "jobheldadmin": "an administrator holds it: ask",
    "jobhelduser": "scontrol release",
    "jobholdmaxrequeue": "it was requeued too often: read its log, then scontrol release",
    "jobrequeuedinheldstate": "read its log, then scontrol release",
    "launchfailedrequeuedheld": "its start failed on a node: read its log, then scontrol release",
    "partitionnodelimit": "it asks for more nodes than the partition gives",
    "partitiontimelimit": "it asks for more time than the partition gives",
    "qosnotallowed": "submit it with another QOS",
}
SQUEUE_FORMAT = "%i|%u|%g|%a|%P|%T|%r|%S|%e|%D|%N|%E|%j"
SACCT_FORMAT = "JobID,User,Group,Account,Partition,State,ExitCode,End,NodeList,JobName"

EXAMPLE = """\
# What slurm_status.py watches, and whom it tells. Folders without / are those beside this file.
title = "cluster A"                 # opens every alert
state = "slurm_status.state.json"   # what was seen and told
patience = 1                        # looks in a row that must say so before it is told
stdout = true                       # alerts on stdout, too

#[mail]
#to = ["you@example.org"]
#from = "watchdog@example.org"
#server = "mail.example.org:587"    # localhost
#security = "starttls"              # none, starttls or tls
#login_file = "mail.login"          # user, then password, a line each; chmod 600
#timeout = "30s"

#[webhook]
#url_file = "webhook.url"           # or url = "https://..."; a POST of {"text": ...} as JSON
#timeout = "15s"

[[job]]
name = "train-104b.*"               # a regular expression for the whole name
label = "the 104B training"
#user = "alice|bob"                 # yourself, unless one of these four is given
#group = "physics"
#account = "gpu"
#partition = "gpu_.*"
"""

# What the demonstration reads: `squeue --format` of a moment that never was.
TOY_QUEUE = """\
87_2|ann|lab|gpu|main|RUNNING|None|1800000000|1800086400|64|node[01-64]|(null)|train-104b
87_[3-10%1]|ann|lab|gpu|main|PENDING|JobArrayTaskLimit|N/A|N/A|64||(null)|train-104b
91|ann|lab|gpu|main|PENDING|Dependency|N/A|N/A|1||afterok:87_*(unfulfilled)|evaluate
92|ann|lab|gpu|main|PENDING|DependencyNeverSatisfied|N/A|N/A|1||afterok:80(failed)|upload
80|ann|lab|gpu|main|FAILED|NonZeroExitCode|1799990000|1799990100|1|node01|(null)|convert
"""
TOY_NOW = 1800003600.0

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


class QueuedJob(NamedTuple):
    """A job, or tasks of an array, as squeue or sacct shows it. Times in seconds since 1970."""

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


class JobWatch(NamedTuple):
    """Which jobs are meant: expressions that have to fit as a whole."""

    label: str
    name: re.Pattern[str]
    others: tuple[tuple[str, re.Pattern[str]], ...]

    def fits(self, job: QueuedJob) -> bool:
        """Whether a job is meant."""
        if not self.name.fullmatch(job.name):
            return False
        return all(pattern.fullmatch(getattr(job, key)) for key, pattern in self.others)


class JobFinding(NamedTuple):
    """What was found of a watch: its state, the job that shows it, and the last that ended."""

    watch: JobWatch
    state: str
    running: int = 0
    pending: int = 0
    job: QueuedJob | None = None
    last: QueuedJob | None = None
    remark: str = ""

    @property
    def level(self) -> str:
        """What is told: `ok`, or the state."""
        return "ok" if self.state in GOOD_STATES else self.state


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


def parse_pattern(text: str) -> re.Pattern[str]:
    """A regular expression."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no regular expression: {error}") from error


# --- what the watchdogs share: a file that says what to watch, and ways of telling ---


class ConfigTable:
    """A table of a TOML file, its keys taken one by one; a fault is told with file and line."""

    def __init__(self, path: Path, lines: Sequence[str], header: str, index: int, values: Row):
        self.path = path
        self.lines = lines
        self.header = header
        self.index = index
        self.values = values
        self.known: list[str] = []

    def complain(self, key: str, message: str) -> WrongUse:
        """The fault of a key, with its place."""
        line = find_toml_line(self.lines, self.header, self.index, key)
        name = f"{self.header}.{key}" if self.header else key
        return WrongUse(f"{self.path}, line {line}: {name}: {message}")

    def take(self, key: str, kind: type[Any], default: Any = None) -> Any:
        """The value of a key, or the default. Raises WrongUse where it is of another kind."""
        self.known.append(key)
        if key not in self.values:
            return default
        value = self.values[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            kinds = {
                str: "a text in quotes",
                bool: "true or false",
                int: "a whole number",
                dict: f"a table, [{key}]",
            }
            raise self.complain(key, f"this has to be {kinds.get(kind, 'a list')}")
        if kind is str and (not value.strip() or not value.isprintable()):
            raise self.complain(key, "this is empty, or has characters that cannot be printed")
        return value

    def take_parsed(self, key: str, parse: Callable[[str], Any], default: str | None = None) -> Any:
        """The value of a key as a parser of texts reads it. Raises WrongUse where it cannot."""
        text = self.take(key, str, default)
        try:
            return None if text is None else parse(text)
        except argparse.ArgumentTypeError as error:
            raise self.complain(key, str(error)) from error

    def take_texts(self, key: str) -> tuple[str, ...]:
        """A text, or a list of texts. Raises WrongUse."""
        value = self.values.get(key, [])
        if isinstance(value, str):
            return (self.take(key, str),)
        texts = self.take(key, list, [])
        if any(not isinstance(text, str) or not text.isprintable() for text in texts):
            raise self.complain(key, "this has to be a text in quotes, or a list of such")
        return tuple(texts)

    def need(self, key: str, value: Any) -> Any:
        """The value, where there is one. Raises WrongUse."""
        if value in (None, (), ""):
            raise self.complain(key, "this is needed and is not there")
        return value

    def find_file(self, text: str) -> Path:
        """A path as the file means it: from its own folder on, or from home."""
        return self.path.parent / Path(text).expanduser()

    def close(self) -> None:
        """Raises WrongUse for a key that nobody took."""
        for key in self.values:
            if key not in self.known:
                near = difflib.get_close_matches(key, self.known, 1)
                rest = f"do you mean '{near[0]}'?" if near else f"known: {', '.join(self.known)}"
                raise self.complain(key, f"there is no such key; {rest}")


class MailWay(NamedTuple):
    """Alerts by mail."""

    name: str
    server: tuple[str, int]
    security: str
    ca_file: Path | None
    login: tuple[str, str] | None
    sender: str
    recipients: tuple[str, ...]
    seconds: float


class HookWay(NamedTuple):
    """Alerts by an HTTP POST of JSON."""

    name: str
    url: str
    text_key: str
    seconds: float


class LineWay(NamedTuple):
    """Alerts as lines on stdout."""

    name: str


class AlertSettings(NamedTuple):
    """Whom to tell, as whom, after how many looks of one mind, and where that is remembered."""

    title: str
    ways: tuple[MailWay | HookWay | LineWay, ...]
    patience: int
    state: Path | None


class AlertFailure(Exception):
    """A thing could not be looked at, or an alert not be sent: why, in a few words."""


class AlertBook:
    """What was found and who was told what, kept in a file, so that a change is told once.

    An entry is told to a way (mail, webhook, stdout) where its state is not what that way was told
    last; so what could not be sent is due again, and what has passed meanwhile is not.
    """

    def __init__(self, tool: str, path: Path | None) -> None:
        self.kind = f"state of {tool}"
        self.path = path
        self.entries: dict[str, Row] = {}
        self.remarks: list[str] = []
        if path is None or not path.exists():
            return
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise WrongUse(f"state: {path} cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError):
            self.set_aside()
            return
        if not isinstance(document, dict) or document.get("kind") != self.kind:
            raise WrongUse(f"state: {path} is another file, not the {self.kind}: name another one")
        try:
            for key, entry in document["entries"].items():
                told = {str(way): str(state) for way, state in entry["told"].items()}
                samples = [(float(at), float(used)) for at, used in entry["samples"]]
                numbers = {name: float(entry[name]) for name in ("since", "count")}
                if not all(map(math.isfinite, itertools.chain(numbers.values(), *samples))):
                    raise ValueError("JSON has no such numbers")
                self.entries[key] = {
                    **{name: str(entry[name]) for name in ("state", "seen")},
                    **numbers,
                    "told": told,
                    "samples": samples,
                }
        except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
            self.entries.clear()
            self.set_aside()

    def set_aside(self) -> None:
        """Keep a file that cannot be understood under another name, and begin anew."""
        assert self.path is not None
        other = self.path.with_name(f"{self.path.name}.broken")
        try:
            self.path.replace(other)
        except OSError as error:
            raise WrongUse(f"state: {self.path} is broken: {error.strerror}") from error
        self.remarks.append(f"the state was broken and begins anew; the old one is {other.name}")

    def settle(self, key: str, seen: str, patience: int, now: float) -> Row:
        """The entry after a look: a state counts that was seen so many times in a row."""
        fresh = {"state": "ok", "seen": "ok", "since": now, "count": 0.0, "told": {}, "samples": []}
        entry = self.entries.setdefault(key, fresh)
        entry["count"] = entry["count"] + 1 if entry["seen"] == seen else 1.0
        entry["seen"] = seen
        if seen != entry["state"] and (entry["count"] >= patience or seen == "ok"):
            entry |= {"state": seen, "since": now}
        return entry

    def find_due(self, way: str, keys: Iterable[str]) -> list[str]:
        """What this way has to be told."""
        due = []
        for key in keys:
            entry = self.entries[key]
            # What is not settled yet is not told in the words of what it may be.
            if entry["seen"] == entry["state"] != entry["told"].get(way, "ok"):
                due.append(key)
        return due

    def save(self) -> str:
        """Write the file whole; why it could not be written, or nothing."""
        if self.path is None:
            return ""
        partial = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        text = json.dumps({"kind": self.kind, "entries": self.entries}, allow_nan=False)
        try:
            with partial.open("w", encoding="utf-8") as file:
                file.write(text + "\n")
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path)
        except OSError as error:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            return f"the state could not be written, so alerts may come again: {error.strerror}"
        return ""


def find_toml_line(lines: Sequence[str], header: str, index: int, key: str) -> int:
    """The line of a key in the table of that header (the nth one), or of the header; from 1."""
    place, count, current = 1, -1, not header
    for number, line in enumerate(lines, 1):
        found = re.match(r"\s*\[{1,2}\s*([\w.\"-]+)\s*\]", line)
        if found:
            current = False
            if found.group(1).strip('"') == header:
                count += 1
                current = count == index
                place = number if current else place
        elif current and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
            return number
    return place


def read_toml(path: Path) -> tuple[list[str], Row]:
    """The lines and the tables of a TOML file. Raises WrongUse with file and line."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise WrongUse(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WrongUse(f"{path} is no text in UTF-8") from error
    try:
        return text.splitlines(), tomllib.loads(text)
    except RecursionError as error:
        raise WrongUse(f"{path} has brackets in brackets without end") from error
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"^(.*) \(at (?:line (\d+), column (\d+)|end of document)\)$", str(error))
        if found is None:
            raise WrongUse(f"{path}: {error}") from error
        message = found.group(1)[:1].lower() + found.group(1)[1:]
        line = found.group(2) or str(len(text.splitlines()))
        raise WrongUse(f"{path}, line {line}: {message}") from error


def open_tables(path: Path, kind: str) -> tuple[ConfigTable, list[ConfigTable]]:
    """The top of a configuration file, and its tables `[[KIND]]`. Raises WrongUse."""
    lines, values = read_toml(path)
    top = ConfigTable(path, lines, "", 0, values)
    tables = top.take(kind, list, [])
    if not tables or not all(isinstance(table, dict) for table in tables):
        raise WrongUse(f"{path}: there is no [[{kind}]] in it, so there is nothing to watch")
    return top, [ConfigTable(path, lines, kind, i, table) for i, table in enumerate(tables)]


def parse_long_duration(text: str) -> float:
    """Seconds from `45s`, `10m`, `12h`, `3d`, `1d12h`."""
    found = re.fullmatch(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?", text.strip())
    parts = [float(part or 0) for part in found.groups()] if found else []
    total = sum(part * unit for part, unit in zip(parts, (86400, 3600, 60, 1), strict=False))
    if total <= 0:
        raise argparse.ArgumentTypeError(f"'{text}' is no duration: write 45s, 10m, 12h or 3d")
    return float(total)


def parse_server(text: str) -> tuple[str, int]:
    """`HOST` or `HOST:PORT` of a mail server; port 0: the usual one."""
    host, colon, port = text.partition(":")
    if not host or (colon and not (port.isdecimal() and 0 < int(port) < 65536)):
        raise argparse.ArgumentTypeError(f"'{text}' is no mail server: write HOST or HOST:587")
    return host, int(port or 0)


def parse_address(text: str) -> str:
    """A mail address."""
    if not re.fullmatch(r"[!-~]+@[!-~]+", text) or re.search(r"[,;<>\"()]", text):
        raise argparse.ArgumentTypeError(f"'{text}' is no mail address")
    return text


def parse_hook(text: str) -> str:
    """The address of a webhook."""
    text = text.strip()
    try:
        is_good = re.fullmatch(r"https?://[!-~]+", text) and urllib.parse.urlsplit(text).hostname
    except ValueError:
        is_good = None
    if not is_good:
        raise argparse.ArgumentTypeError("this is no address of a webhook: write https://...")
    return text


def read_secret(table: ConfigTable, key: str, file: Path) -> list[str]:
    """The lines of a file with a secret in it, that nobody else may read. Raises WrongUse."""
    try:
        mode, lines = file.stat().st_mode, file.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise table.complain(key, f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise table.complain(key, f"{file} is no text in UTF-8") from error
    if mode & 0o077:
        raise table.complain(key, f"others may read {file} too: chmod 600 it")
    return [line.rstrip("\r") for line in lines]


def read_mail(table: ConfigTable) -> MailWay:
    """The table `[mail]`. Raises WrongUse."""
    server = table.take_parsed("server", parse_server, "localhost")
    security = table.take("security", str, "none")
    ports = {"none": 25, "starttls": 587, "tls": 465}
    if security not in ports:
        raise table.complain("security", "this has to be none, starttls or tls")
    recipients = table.need("to", table.take_texts("to"))
    sender = table.take("from", str, f"{os.environ.get('USER', 'watchdog')}@{socket.gethostname()}")
    for key, texts in (("to", recipients), ("from", (sender,))):
        for text in texts:
            try:
                parse_address(text)
            except argparse.ArgumentTypeError as error:
                raise table.complain(key, str(error)) from error
    ca_file = table.take_parsed("ca_file", table.find_file)
    if ca_file is not None and (security == "none" or not ca_file.is_file()):
        raise table.complain("ca_file", "this needs security, and a file that is there")
    login = None
    file = table.take_parsed("login_file", table.find_file)
    if file is not None:
        lines = read_secret(table, "login_file", file)
        if security == "none":
            raise table.complain("login_file", "the password would be sent openly: add security")
        if len(lines) < 2 or not lines[0] or not lines[1]:
            raise table.complain(
                "login_file", f"{file}: write the user, then the password, a line each"
            )
        if not (lines[0] + lines[1]).isascii():
            raise table.complain("login_file", f"{file}: user and password have to be ASCII")
        login = (lines[0], lines[1])
    seconds = table.take_parsed("timeout", parse_long_duration, "30s")
    table.close()
    address = (server[0], server[1] or ports[security])
    return MailWay("mail", address, security, ca_file, login, sender, recipients, seconds)


def read_hook(table: ConfigTable) -> HookWay:
    """The table `[webhook]`. Raises WrongUse."""
    url = table.take_parsed("url", parse_hook)
    file = table.take_parsed("url_file", table.find_file)
    if (url is None) == (file is None):
        raise table.complain("url", "give either url or url_file")
    if file is not None:
        try:
            url = parse_hook(read_secret(table, "url_file", file)[0])
        except argparse.ArgumentTypeError as error:
            raise table.complain("url_file", str(error)) from error
    text_key = table.take("text_key", str, "text")
    seconds = table.take_parsed("timeout", parse_long_duration, "15s")
    table.close()
    return HookWay("webhook", url, text_key, seconds)


def read_alert_settings(top: ConfigTable, tool: str, patience: int) -> AlertSettings:
    """What the top of a file, `[mail]` and `[webhook]` say about alerts. Raises WrongUse."""
    title = top.take("title", str, tool)
    ways: list[MailWay | HookWay | LineWay] = []
    for name, read in (("mail", read_mail), ("webhook", read_hook)):
        values = top.take(name, dict)
        if values is not None:
            ways.append(read(ConfigTable(top.path, top.lines, name, 0, values)))
    if top.take("stdout", bool, not ways):
        ways.append(LineWay("stdout"))
    looks = top.take("patience", int, patience)
    if not 1 <= looks <= 1000:
        raise top.complain("patience", "this has to be a number of looks from 1 to 1000")
    state = top.take_parsed("state", top.find_file, f"{top.path.stem}.state.json")
    if not state.parent.is_dir():
        raise top.complain("state", f"there is no folder {state.parent}")
    top.close()
    return AlertSettings(title, tuple(ways), looks, state)


@contextlib.contextmanager
def claim_state(path: Path | None, wait: float = 10.0) -> Iterator[None]:
    """Only one watchdog at a time works with a state. Raises WrongUse where another one still does
    after that many seconds."""
    if path is None:
        yield
        return
    import fcntl

    try:
        file = path.with_name(f".{path.name}.lock").open("a")
    except OSError:
        # A disk that is full or read-only: alerts are worth more than order.
        yield
        return
    deadline = time.monotonic() + wait
    with file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    message = f"another watchdog works with {path}: end it, or wait for it"
                    raise WrongUse(message) from error
                time.sleep(0.02)
                continue
            except OSError:  # a file system without locks
                pass
            break
        yield


def run_apart(work: Callable[[], Any], seconds: float, stop: StopSign) -> Any:
    """What `work` returns, done in a process of its own that is left behind when the time is over:
    a file system or a server that hangs does not hang the watchdog. Raises AlertFailure."""
    reader, writer = os.pipe()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    child = os.fork()
    if child == 0:
        run_child(work, reader, writer)
    os.close(writer)
    deadline = time.monotonic() + seconds
    said = b""
    try:
        while True:
            stop.check()
            left = deadline - time.monotonic()
            if left <= 0:
                raise AlertFailure(f"no answer within {seconds:g} s")
            if select.select([reader], [], [], min(left, 0.1))[0]:
                part = os.read(reader, 1 << 16)
                if not part:
                    break
                said += part
    finally:
        os.close(reader)
        for kill in (os.killpg, os.kill):
            with contextlib.suppress(OSError):
                kill(child, signal.SIGKILL)
        for _ in range(50):
            # Not longer: one that waits in the kernel ends when it likes.
            if os.waitpid(child, os.WNOHANG)[0]:
                break
            time.sleep(0.01)
    if not said:
        raise AlertFailure("the process that was to do it has died")
    kind, value = json.loads(said)
    if kind == "failure":
        raise AlertFailure(value)
    return value


def run_child(work: Callable[[], Any], reader: int, writer: int) -> NoReturn:
    """The other half of `run_apart`: answer through the pipe, and end without a word."""
    try:
        os.close(reader)
        os.setsid()
        for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        try:
            answer = ["value", work()]
        except AlertFailure as failure:
            answer = ["failure", str(failure)]
        except OSError as error:
            answer = ["failure", error.strerror or str(error) or type(error).__name__]
        except Exception as error:
            answer = ["failure", f"{type(error).__name__}: {error}"]
        with os.fdopen(writer, "wb") as pipe:
            pipe.write(json.dumps(answer).encode())
    finally:
        os._exit(0)


def send_mail(way: MailWay, subject: str, text: str) -> str:
    """Send a mail; who of its recipients was refused, or nothing. Raises AlertFailure."""
    import email.message
    import email.utils
    import smtplib
    import ssl

    message = email.message.EmailMessage()
    message["Subject"] = subject
    message["From"] = way.sender
    message["To"] = ", ".join(way.recipients)
    message["Date"] = email.utils.localtime()
    message["Message-ID"] = email.utils.make_msgid(domain=way.sender.rpartition("@")[2])
    message["Auto-Submitted"] = "auto-generated"
    message.set_content(text)
    try:
        context = ssl.create_default_context(cafile=way.ca_file) if way.security != "none" else None
        host, port = way.server
        open_server: Callable[..., smtplib.SMTP] = smtplib.SMTP
        if way.security == "tls":
            open_server = functools.partial(smtplib.SMTP_SSL, context=context)
        name = socket.gethostname()
        with open_server(host, port, local_hostname=name, timeout=way.seconds) as server:
            if way.security == "starttls":
                server.starttls(context=context)
            if way.login is not None:
                server.login(*way.login)
            refused = server.send_message(message)
    except smtplib.SMTPRecipientsRefused as error:
        raise AlertFailure(f"the server refused {', '.join(error.recipients)}") from error
    except smtplib.SMTPResponseException as error:
        said = error.smtp_error
        words = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        raise AlertFailure(f"the server said {error.smtp_code} {words}") from error
    except smtplib.SMTPException as error:
        raise AlertFailure(str(error)) from error
    return f"the server refused {', '.join(refused)}" if refused else ""


def post_hook(way: HookWay, payload: Mapping[str, Any]) -> str:
    """POST a document to a webhook. Raises AlertFailure, without the address: it is a secret."""
    import http.client
    import urllib.error
    import urllib.request

    class NoRedirect(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_: Any) -> None:
            """A redirected POST arrives as a GET, with nothing in it: it counts as a failure."""

    headers = {"Content-Type": "application/json", "User-Agent": "watchdog"}
    data = json.dumps(payload).encode()
    try:
        request = urllib.request.Request(way.url, data, headers)
        opener = urllib.request.build_opener(NoRedirect)
        with opener.open(request, timeout=way.seconds) as answer:
            answer.read(1 << 16)
    except urllib.error.HTTPError as error:
        error.close()
        raise AlertFailure(f"the webhook answered {error.code} {error.reason}") from error
    except urllib.error.URLError as error:
        reason = getattr(error.reason, "strerror", None) or error.reason
        raise AlertFailure(f"the webhook could not be reached: {reason}") from error
    except http.client.HTTPException as error:
        raise AlertFailure("the webhook gave no answer of HTTP") from error
    return ""


def print_table_or_tell(text: str) -> list[str]:
    """Print; why it could not be, if so: a log on a full disk is no reason not to send a mail."""
    try:
        print(text, flush=True)
    except OSError as error:
        return [f"stdout could not be written: {error.strerror}"]
    return []


def drop_unwritten_output() -> None:
    """Where stdout takes nothing, let go of what waits: it would be told again at the end."""
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)


def print_alerts(sentences: Sequence[str]) -> str:
    """Print alerts, each on a line. Raises AlertFailure."""
    try:
        for sentence in sentences:
            print(f"ALERT {sentence}")
        sys.stdout.flush()
    except OSError as error:
        raise AlertFailure(error.strerror or "it cannot be written") from error
    return ""


def send_alerts(
    book: AlertBook,
    settings: AlertSettings,
    tool: str,
    sentences: Mapping[str, str],
    stop: StopSign,
) -> tuple[list[Row], list[str]]:
    """Tell each way what it was not told yet: what was sent, and what went wrong.

    A way that fails is tried again at the next look, where a state is kept, and no other way hears
    of it twice.
    """
    again = ", comes again at the next look" if book.path is not None else ""
    sent: list[Row] = []
    problems: list[str] = []
    host = socket.gethostname()
    for way in settings.ways:
        due = book.find_due(way.name, sentences)
        if not due:
            continue
        texts = [sentences[key] for key in due]
        states = [f"{key} {book.entries[key]['state']}" for key in due]
        more = f" and {len(due) - 3} more" if len(due) > 3 else ""
        subject = f"[{settings.title}] {', '.join(states[:3])}{more}"
        body = "\n".join([*texts, "", f"{tool} on {host}"])
        alerts = [{"about": key, "state": book.entries[key]["state"]} for key in due]
        try:
            if isinstance(way, MailWay):
                work = functools.partial(send_mail, way, subject, body)
                said = run_apart(work, way.seconds, stop)
            elif isinstance(way, HookWay):
                payload: Row = {"tool": tool, "host": host, "alerts": alerts}
                payload[way.text_key] = f"{subject}\n{body}"
                work = functools.partial(post_hook, way, payload)
                said = run_apart(work, way.seconds, stop)
            else:
                said = print_alerts([f"{settings.title}: {text}" for text in texts])
        except AlertFailure as failure:
            problems.append(f"{way.name}: not sent{again}: {failure}")
            continue
        sent += [{"way": way.name, **alert} for alert in alerts]
        problems += [f"{way.name}: {said}"] if said else []
        for key in due:
            book.entries[key]["told"][way.name] = book.entries[key]["state"]
        problems += [text for text in (book.save(),) if text]
    return sent, problems


def run_alert_trial(settings: AlertSettings, tool: str, stop: StopSign) -> int:
    """Send a trial to every way, whatever was told before; 0, or 1 where one failed."""
    book = AlertBook(tool, None)
    book.settle("trial", "sent to see whether it arrives", 1, time.time())
    sentence = {"trial": "a trial of the alerts, asked for by hand: nothing is wrong"}
    sent, problems = send_alerts(book, settings, tool, sentence, stop)
    rows = [[alert["way"], "sent"] for alert in sent]
    rows += [[text.partition(":")[0], "failed"] for text in problems]
    print(format_table(["way", "outcome"], rows))
    for text in problems:
        print(f"problem: {text}", file=sys.stderr)
    return 1 if problems else 0


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


def wait_for_next_look(seconds: float, stop: StopSign) -> None:
    """Wait. Raises Stopped."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        stop.check()
        time.sleep(min(0.2, max(0.0, end - time.monotonic())))
    stop.check()


def format_moment(seconds: float) -> str:
    """A time, as the clocks here show it."""
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC).astimezone()
    return moment.strftime("%Y-%m-%d %H:%M")


def format_period(seconds: float) -> str:
    """`40 s`, `12 min`, `7 h` or `3.2 days`."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size or (size < 86400 and seconds >= size):
            value = seconds / size
            return f"{value:.1f} {unit}" if size == 86400 and value < 10 else f"{value:.0f} {unit}"
    return f"{seconds:.0f} s"


# --- asking Slurm ---


def ask_slurm_apart(command: Sequence[str], stop: StopSign) -> str:
    """What a command of Slurm prints. Raises AlertFailure where it fails or does not answer."""
    dropped = ("SQUEUE_", "SACCT_")
    environ = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
    # Seconds since 1970, which no time zone changes.
    environ |= {"LC_ALL": "C", "SLURM_TIME_FORMAT": "%s"}

    def ask() -> list[Any]:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=environ
        )
        return [done.returncode, *(t.decode(errors="replace") for t in (done.stdout, done.stderr))]

    status, output, errors = run_apart(ask, SLURM_SECONDS, stop)
    if status:
        words = errors.strip().splitlines()[-1:] or [f"status {status}"]
        raise AlertFailure(f"{command[0]}: {words[0].removeprefix(command[0] + ': ')}")
    return str(output)


def read_slurm_number(value: Any) -> int | None:
    """A number of Slurm's JSON: bare, or as newer versions have it, with a word on whether it is
    set; None where there is none."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def read_exit_code(value: Any) -> str:
    """`3:0`, the status and the signal, from the forms that JSON has for it."""
    if isinstance(value, dict) and "return_code" in value:
        caught = value.get("signal")
        number = caught.get("id", caught.get("signal_id")) if isinstance(caught, dict) else None
        return f"{read_slurm_number(value['return_code']) or 0}:{read_slurm_number(number) or 0}"
    number = read_slurm_number(value)
    return "" if number is None else f"{number >> 8 & 255}:{number & 127}"


def count_tasks(text: str) -> int:
    """How many tasks `1-10%2` or `1,3,5-9:2` are; what squeue cuts off (`...`) is not counted."""
    count = 0
    for part in text.partition("%")[0].strip("[]").split(","):
        found = re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?(?::([1-9]\d{0,8}))?", part.strip())
        if found:
            first, last, step = (int(g) if g else None for g in found.groups())
            assert first is not None
            count += len(range(first, (last if last is not None else first) + 1, step or 1))
    return max(count, 1)


def read_json_job(entry: Mapping[str, Any]) -> QueuedJob:
    """A job of `squeue --json`."""

    def read_text(key: str) -> str:
        value = entry.get(key)
        return value if isinstance(value, str) else ""

    array, task = (
        read_slurm_number(entry.get("array_job_id")),
        read_slurm_number(entry.get("array_task_id")),
    )
    tasks = read_text("array_task_string")
    number = str(read_slurm_number(entry.get("job_id")) or "?")
    if array and task is not None:
        number = f"{array}_{task}"
    elif array and tasks:
        number = f"{array}_[{tasks}]"
    state = entry.get("job_state") or "?"
    if isinstance(state, list):
        state = "COMPLETING" if "COMPLETING" in state else str(state[0])
    return QueuedJob(
        number,
        read_text("name"),
        read_text("user_name"),
        read_text("group_name"),
        read_text("account"),
        read_text("partition"),
        str(state),
        read_text("state_reason").replace("None", ""),
        read_moment(str(read_slurm_number(entry.get("start_time")))),
        read_moment(str(read_slurm_number(entry.get("end_time")))),
        read_slurm_number(entry.get("node_count")) or 0,
        read_text("nodes"),
        read_text("dependency"),
        count_tasks(tasks) if task is None and tasks else 1,
        read_exit_code(entry.get("exit_code")),
    )


def read_squeue_json(text: str) -> list[QueuedJob]:
    """The jobs of `squeue --json`. Raises ValueError where it is none."""
    document = json.loads(text)
    if not isinstance(document, dict) or not isinstance(document.get("jobs"), list):
        raise ValueError("there are no jobs in it")
    if document.get("errors") and not document["jobs"]:
        # A squeue that has reached no controller says so here, and ends with 0.
        raise ValueError("there are errors in place of jobs")
    return [read_json_job(entry) for entry in document["jobs"] if isinstance(entry, dict)]


def read_moment(text: str) -> float | None:
    """A time that a command of Slurm printed: seconds, or the local clock's; None: none."""
    if re.fullmatch(r"\d{1,10}", text):  # to the year 2286
        return float(text) or None
    with contextlib.suppress(ValueError, OverflowError):
        return datetime.datetime.fromisoformat(text).astimezone().timestamp()
    return None


def read_squeue_text(text: str) -> list[QueuedJob]:
    """The jobs of `squeue --format=SQUEUE_FORMAT`, one on a line, the name at its end."""
    jobs = []
    for line in text.splitlines():
        fields = [f if f not in ("(null)", "N/A", "None") else "" for f in line.split("|", 12)]
        if len(fields) != 13:
            continue
        number, user, group, account, partition, state, reason, start, end = fields[:9]
        nodes, node_list, dependency, name = fields[9:]
        tasks = count_tasks(number.partition("_")[2]) if "[" in number else 1
        jobs.append(
            QueuedJob(
                number, name, user, group, account, partition, state, reason, read_moment(start),
                read_moment(end), int(nodes) if re.fullmatch(r"\d{1,9}", nodes) else 0, node_list,
                dependency, tasks,
            )
        )  # fmt: skip
    return jobs


def list_queue(stop: StopSign) -> tuple[list[QueuedJob], str]:
    """All jobs that Slurm shows, and what should be known of the answer. Raises AlertFailure."""
    began = time.monotonic()
    try:
        return read_squeue_json(ask_slurm_apart(["squeue", "--json", "--states=all"], stop)), ""
    except (AlertFailure, ValueError, RecursionError) as error:
        # No plugin for JSON, or no Slurm: the other way tells which. Not where it has hung.
        if time.monotonic() - began >= SLURM_SECONDS:
            raise AlertFailure(str(error)) from error
        command = ["squeue", "--noheader", "--states=all", f"--format={SQUEUE_FORMAT}"]
        jobs = read_squeue_text(ask_slurm_apart(command, stop))
    return jobs, "squeue gives no JSON here, so exit codes come from sacct alone"


def read_sacct(text: str) -> list[QueuedJob]:
    """The jobs of `sacct --parsable2 --format=SACCT_FORMAT`, the name at the end of the line."""
    jobs = []
    for line in text.splitlines():
        fields = line.split("|", 9)
        if len(fields) == 10:
            number, user, group, account, partition, state, code, end, node_list, name = fields
            words = state.split()
            jobs.append(
                QueuedJob(
                    number, name, user, group, account, partition, words[0] if words else "?",
                    end=read_moment(end), node_list=node_list.replace("None assigned", ""),
                    exit_code=code,
                )
            )  # fmt: skip
    return jobs


def list_accounts(watches: Sequence[JobWatch], history: float, stop: StopSign) -> list[QueuedJob]:
    """The jobs of the last time that sacct knows; none where there is no accounting."""
    if not shutil.which("sacct"):
        return []
    start = datetime.datetime.fromtimestamp(max(time.time() - history, 0.0)).astimezone()
    command = ["sacct", "--parsable2", "--noheader", "--allocations", f"--format={SACCT_FORMAT}"]
    command.append(f"--starttime={start:%Y-%m-%dT%H:%M:%S}")
    users = {
        dict(watch.others)["user"].pattern for watch in watches if "user" in dict(watch.others)
    }
    if len(users) == 1 and re.fullmatch(r"(?:\w|-|\\[.-])+", min(users)):
        command.append(f"--user={min(users)}".replace("\\", ""))
    else:
        command.append("--allusers")
    try:
        return read_sacct(ask_slurm_apart(command, stop))
    except AlertFailure:
        return []


# --- judging ---


def find_stuck_advice(job: QueuedJob) -> str:
    """What to do about a job that will never start by itself; nothing where it may."""
    if job.state in HELD_STATES:
        return "read its log, then scontrol release"
    return STUCK_REASONS.get(re.sub(r"[^a-z]", "", job.reason.lower()), "")


def find_last_ended(jobs: Iterable[QueuedJob]) -> QueuedJob | None:
    """The one that ended last, of those that have ended."""
    alive = RUNNING_STATES | PENDING_STATES | HELD_STATES | {"SUSPENDED"}
    ended = [job for job in jobs if job.state not in alive]
    return max(ended, key=lambda job: job.end or 0.0, default=None)


def judge_watch(watch: JobWatch, jobs: Sequence[QueuedJob], remark: str = "") -> JobFinding:
    """What the jobs of the queue say of a watch."""
    mine = [job for job in jobs if watch.fits(job)]
    running = [job for job in mine if job.state in RUNNING_STATES]
    waiting = [job for job in mine if job.state in PENDING_STATES | HELD_STATES]
    suspended = [job for job in mine if job.state == "SUSPENDED"]
    able = [job for job in waiting if not find_stuck_advice(job)]
    tasks = sum(job.tasks for job in waiting)
    last = find_last_ended(mine)
    finding = JobFinding(watch, "missing", len(running), tasks, last=last, remark=remark)
    if running:
        longest = max(running, key=lambda job: job.end or 0.0)
        return finding._replace(state="running", job=longest)
    if suspended:
        return finding._replace(state="suspended", job=suspended[0])
    if able:
        first = min(able, key=lambda job: job.start or float("inf"))
        return finding._replace(state="pending", job=first)
    return finding._replace(state="stuck", job=waiting[0]) if waiting else finding


def describe_dependency(job: QueuedJob, jobs: Sequence[QueuedJob]) -> str:
    """What a job waits for, with the states of those jobs that the queue knows."""
    if not job.dependency:
        return ""
    states: dict[str, str] = {}
    for number in re.findall(r"\d+(?:_\d+)?", job.dependency):
        for other in jobs:
            if other.number == number or other.number.partition("_")[0] == number:
                states.setdefault(number, other.state)
    known = [f"{number} is {state}" for number, state in states.items()]
    return ", ".join([job.dependency, *known])


def make_status_sentence(finding: JobFinding, jobs: Sequence[QueuedJob]) -> str:
    """What an alert says of a watch."""
    job, last = finding.job, finding.last
    if finding.state == "unknown":
        return f"{finding.watch.label}: unknown: {finding.remark}"
    if job is None:
        text = f"{finding.watch.label}: MISSING: no such job runs or waits"
        if last is None:
            return f"{text}; nothing is known of an earlier one"
        code = f", exit code {last.exit_code}" if last.exit_code else ""
        end = f" at {format_moment(last.end)}" if last.end else ""
        where = f" on {last.node_list}" if last.node_list else ""
        return f"{text}; the last was {last.number}: {last.state}{code}{end}{where}"
    text = f"{finding.watch.label}: {'STUCK' if finding.state == 'stuck' else 'well again'}"
    text += f": job {job.number} is {job.state}"
    reason = f", {job.reason}" if job.reason else ""
    waits = describe_dependency(job, jobs)
    text += f"{reason} ({waits})" if waits else reason
    advice = find_stuck_advice(job) if finding.state == "stuck" else ""
    return f"{text}; {advice}" if advice else text


def make_pulse(finding: JobFinding, now: float) -> str:
    """One line that is easily searched: words of the form key=value."""
    job = finding.job
    moment = datetime.datetime.fromtimestamp(now, datetime.UTC)
    values = {
        "time": moment.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "watch": finding.watch.label,
        "state": finding.state,
        "running": finding.running,
        "pending": finding.pending,
        "job": job.number if job else "",
        "nodes": job.nodes if job else "",
        "reason": job.reason if job else "",
        "starts": format_until(job.start if job else None, now, finding.state == "pending"),
        "ends": format_until(job.end if job else None, now, finding.state == "running"),
        "last": f"{finding.last.number}:{finding.last.state}" if finding.last else "",
    }
    words = [f"{key}={'_'.join(str(value).split()) or '-'}" for key, value in values.items()]
    return " ".join(["slurm_status pulse", *words])


def format_until(moment: float | None, now: float, is_meant: bool) -> str:
    """Seconds until a moment, where it is known and meant."""
    return f"{moment - now:.0f}s" if is_meant and moment else ""


# --- the file ---


def make_watch(label: str | None, patterns: Mapping[str, re.Pattern[str] | None]) -> JobWatch:
    """A watch; without another condition it is on one's own jobs."""
    name = patterns["name"]
    assert name is not None
    others = tuple((k, p) for k, p in patterns.items() if k != "name" and p is not None)
    if not others:
        others = (("user", re.compile(re.escape(find_own_name()))),)
    return JobWatch(label or name.pattern, name, others)


def find_own_name() -> str:
    """The name of the user that this process runs as."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


CONDITIONS = ("name", "user", "group", "account", "partition")


def read_slurm_config(path: Path) -> tuple[AlertSettings, list[JobWatch]]:
    """Whom to tell, and what to watch. Raises WrongUse."""
    top, tables = open_tables(path, "job")
    settings = read_alert_settings(top, "slurm_status", 1)
    watches: list[JobWatch] = []
    for table in tables:
        label = table.take("label", str)
        patterns = {key: table.take_parsed(key, parse_pattern) for key in CONDITIONS}
        table.need("name", patterns["name"])
        table.close()
        watch = make_watch(label, patterns)
        if watch.label in {other.label for other in watches}:
            raise table.complain("label", f"'{watch.label}' is there twice: give another label")
        watches.append(watch)
    return settings, watches


# --- looking ---


def format_status(findings: Sequence[JobFinding], now: float) -> str:
    """The table."""
    rows = []
    for one in findings:
        job, last = one.job, one.last
        when = ""
        if job is not None:
            moment = job.end if one.state == "running" else job.start
            word = "ends" if one.state == "running" else "starts"
            if moment is not None and moment > now and one.state in ("running", "pending"):
                when = f"{word} in {format_period(moment - now)}"
        rows.append(
            [
                one.watch.label,
                one.state,
                str(one.running),
                str(one.pending),
                job.number if job else "-",
                str(job.nodes) if job else "-",
                (job.reason if job else one.remark if one.state == "unknown" else "") or "-",
                when or "-",
                f"{last.number} {last.state} {last.exit_code}".strip() if last else "-",
            ]
        )
    headings = ["watch", "state", "running", "waiting", "job", "nodes", "why", "when", "last"]
    return format_table(headings, rows)


def make_status_row(finding: JobFinding, now: float) -> Row:
    """A row of the JSON's results."""
    job, last = finding.job, finding.last
    return {
        "watch": finding.watch.label,
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


class StatusRound:
    """One look at all watches: findings, alerts that were sent, and what went wrong."""

    def __init__(
        self, settings: AlertSettings, watches: Sequence[JobWatch], options: argparse.Namespace
    ) -> None:
        self.settings = settings
        self.watches = watches
        self.options = options
        self.findings: list[JobFinding] = []
        self.jobs: list[QueuedJob] = []
        self.sent: list[Row] = []
        self.problems: list[str] = []
        self.remarks: list[str] = []
        self.now = time.time()

    def look(self, stop: StopSign) -> None:
        """Ask Slurm. Raises Stopped."""
        self.now = time.time()
        self.jobs, remark = [], ""
        try:
            if self.options.queue is not None:
                self.jobs = read_saved_queue(self.options.queue)
            else:
                self.jobs, remark = list_queue(stop)
        except AlertFailure as failure:
            self.findings = [JobFinding(w, "unknown", remark=str(failure)) for w in self.watches]
            return
        self.findings = [judge_watch(watch, self.jobs) for watch in self.watches]
        missing = [one.watch for one in self.findings if one.state == "missing"]
        if missing and self.options.queue is None:
            known = list_accounts(missing, self.options.history, stop)
            self.findings = [
                one._replace(last=find_last(one, known)) if one.state == "missing" else one
                for one in self.findings
            ]
        self.remarks = [remark] if remark else []

    def run(self, stop: StopSign) -> None:
        """Look, remember, tell. Raises Stopped, WrongUse."""
        self.sent, self.problems, self.remarks = [], [], []
        with claim_state(self.settings.state):
            book = AlertBook("slurm_status", self.settings.state)
            self.problems += book.remarks
            self.look(stop)
            for one in self.findings:
                # One look that Slurm did not answer is a controller that starts anew.
                least = 2 if one.state == "unknown" else 1
                looks = max(least, self.settings.patience)
                book.settle(one.watch.label, one.level, looks, self.now)
            self.tell_pulse()
            labels = {watch.label for watch in self.watches}
            book.entries = {key: book.entries[key] for key in book.entries if key in labels}
            self.problems += [text for text in (book.save(),) if text]
            texts = {one.watch.label: make_status_sentence(one, self.jobs) for one in self.findings}
            sent, problems = send_alerts(book, self.settings, "slurm_status", texts, stop)
            self.sent += sent
            # A state that cannot be written is complained of once, and not for each alert.
            self.problems = list(dict.fromkeys([*self.problems, *problems]))

    def tell_pulse(self) -> None:
        """Print the table or the pulse, and write the pulse to the log."""
        lines = [make_pulse(one, self.now) for one in self.findings]
        text = "\n".join(lines) if self.options.pulse else format_status(self.findings, self.now)
        self.problems += print_table_or_tell(text)
        if self.options.log is not None:
            try:
                with self.options.log.open("a", encoding="utf-8") as file:
                    file.write("".join(f"{line}\n" for line in lines))
            except OSError as error:
                self.problems.append(f"--log: {self.options.log}: {error.strerror}")

    @property
    def is_well(self) -> bool:
        """Whether all run or wait, and what was to be told was told."""
        return not self.problems and all(one.level == "ok" for one in self.findings)


def find_last(finding: JobFinding, known: Sequence[QueuedJob]) -> QueuedJob | None:
    """The last job of a watch, from the queue or from the accounts, which tell more."""
    last = find_last_ended([job for job in known if finding.watch.fits(job)])
    seen = finding.last
    if last is None or seen is None or seen.number == last.number:
        return last or seen
    return seen if (seen.end or 0.0) > (last.end or 0.0) else last


def read_saved_queue(path: Path) -> list[QueuedJob]:
    """The jobs of a saved answer of squeue, as JSON or as SQUEUE_FORMAT. Raises WrongUse."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise WrongUse(f"--queue: {path} cannot be read: {error.strerror}") from error
    if not text.strip():
        # Of an empty queue squeue --json says so; nothing is what a squeue leaves that has failed.
        raise WrongUse(f"--queue: {path} is empty, so it is no answer: save squeue --json there")
    try:
        return read_squeue_json(text)
    except (ValueError, RecursionError) as error:
        jobs = read_squeue_text(text)
        if not jobs:
            message = f"--queue: {path} is neither squeue --json nor --format='{SQUEUE_FORMAT}'"
            raise WrongUse(message) from error
        return jobs


def make_status_document(head: Row, rounds: StatusRound, complete: bool) -> Row:
    """The JSON: base units, no NaN."""
    unknown = [f"{o.watch.label}: {o.remark}" for o in rounds.findings if o.state == "unknown"]
    return {
        **head,
        "complete": complete,
        "units": UNITS,
        "results": [make_status_row(one, rounds.now) for one in rounds.findings],
        "caveats": [*unknown, *rounds.remarks, *rounds.problems],
        "details": {"alerts": rounds.sent},
    }


def run_slurm_status(
    options: argparse.Namespace, command: list[str], stop: StopSign, origin: float
) -> int:
    """Look once, or again and again; the exit status."""
    if options.config:
        settings, watches = read_slurm_config(options.config)
    else:
        settings = AlertSettings("slurm_status", (), 1, None)
        others = {key: getattr(options, key) for key in CONDITIONS[1:]}
        names = {pattern.pattern: pattern for pattern in options.name}
        watches = [make_watch(None, {"name": pattern, **others}) for pattern in names.values()]
    if options.queue is None and not shutil.which("squeue"):
        raise WrongUse("squeue is not here: run this where Slurm's commands are")
    rounds = StatusRound(settings, watches, options)
    complete = False
    with contextlib.suppress(Stopped):
        for look in itertools.count():
            try:
                rounds.run(stop)
            except WrongUse as error:
                if look == 0:
                    raise
                # Another watchdog beside it, say: no reason to end one that has long been good.
                rounds.problems.append(str(error))
            for text in rounds.remarks:
                write_note(text)
            for text in rounds.problems:
                print(f"problem: {text}", file=sys.stderr, flush=True)
            if options.every is None:
                break
            wait_for_next_look(options.every, stop)
        complete = True
    if stop.reason:
        write_note(f"{stop.reason}: the results so far")
    if options.json:
        head = make_document_head("slurm_status", (__version__, METHOD), command, origin)
        write_document(options.json, make_status_document(head, rounds, complete))
    drop_unwritten_output()
    return 0 if complete and rounds.is_well else 1


def run_queue_toy(command: list[str], path: Path | None, origin: float) -> int:
    """What is said of a queue that never was: one watch runs, one waits, one is stuck, one gone."""
    jobs = read_squeue_text(TOY_QUEUE)
    names = ("train-104b", "evaluate", "upload", "convert")
    anybody = (("user", re.compile(".*")),)
    watches = [JobWatch(name, re.compile(name), anybody) for name in names]
    options = argparse.Namespace(pulse=False, log=None)
    rounds = StatusRound(AlertSettings("toy", (), 1, None), watches, options)
    rounds.now, rounds.jobs = TOY_NOW, jobs
    rounds.findings = [judge_watch(watch, jobs) for watch in watches]
    rounds.tell_pulse()
    if not rounds.problems:
        pulses = [make_pulse(one, TOY_NOW) for one in rounds.findings]
        rounds.problems += print_table_or_tell("\n".join(pulses))
    rounds.remarks.append("a demonstration: a queue that never was")
    write_note(f"{rounds.remarks[0]}; --example prints a file to begin with")
    if path is not None:
        head = make_document_head("slurm_status", (__version__, METHOD), command, origin)
        write_document(path, make_status_document(head, rounds, True))
    for text in rounds.problems:
        print(f"problem: {text}", file=sys.stderr)
    drop_unwritten_output()
    states = [one.state for one in rounds.findings]
    is_right = states == ["running", "pending", "stuck", "missing"]
    return 0 if is_right and not rounds.problems else 1


def run_self_test() -> int:
    """Check reading, judging and the memory of alerts; 0, or 1."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    jobs = read_squeue_text(TOY_QUEUE)
    names = ("train-104b", "evaluate", "upload", "convert", "train")
    watches = [JobWatch(name, re.compile(name), ()) for name in names]
    found = [judge_watch(watch, jobs) for watch in watches]
    expected = ["running", "pending", "stuck", "missing", "missing"]
    check("runs, waits, stuck, gone, never there", [one.state for one in found] == expected)
    check("eight tasks of the array wait", found[0].pending == 8)
    check("what is stuck has an advice", "scancel" in make_status_sentence(found[2], jobs))
    check("the last one is known", "80: FAILED" in make_status_sentence(found[3], jobs))
    check("a name fits as a whole", found[4].last is None)
    pulse = make_pulse(found[0], TOY_NOW)
    check("the pulse is searchable", " state=running " in pulse and " ends=82800s " in pulse)
    newer = {
        "job_id": 9,
        "name": "n",
        "job_state": ["COMPLETED", "COMPLETING"],
        "array_job_id": {"set": False, "infinite": False, "number": 0},
        "node_count": {"set": True, "infinite": False, "number": 4},
        "exit_code": {"return_code": {"set": True, "infinite": False, "number": 3}},
    }
    job = read_json_job(newer)
    shown = (job.number, job.state, job.nodes, job.exit_code)
    check("JSON of newer versions", shown == ("9", "COMPLETING", 4, "3:0"))
    check("tasks are counted", [count_tasks(t) for t in ("1-10%2", "1,3,5-9:2", "7")] == [10, 5, 1])
    stop = StopSign()
    hook = HookWay("webhook", "http://127.0.0.1:9/", "text", 10.0)
    with tempfile.TemporaryDirectory(prefix="slurm_status_") as name:
        settings = AlertSettings("t", (hook, LineWay("stdout")), 1, Path(name) / "state.json")
        output = sys.stdout
        sys.stdout = sys.stderr
        outcomes = []
        try:
            for state in ("missing", "missing", "ok"):
                book = AlertBook("slurm_status", settings.state)
                book.settle("x", state, 1, 0.0)
                sent, problems = send_alerts(book, settings, "t", {"x": "x"}, stop)
                outcomes.append((len(sent), len(problems)))
                book.save()
        finally:
            sys.stdout = output
        check("told once, tried again where it failed", outcomes == [(1, 1), (0, 1), (1, 0)])
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="slurm_status.py",
        description="Say whether jobs of a name run, wait or are missing, and tell people.",
        epilog="The docstring at the top of this file tells what counts as what.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "config", nargs="?", type=Path, metavar="FILE", help="what to watch, as TOML; see --example"
    )
    which = parser.add_argument_group("which jobs, without a file (regular expressions)")
    which.add_argument(
        "--name", action="append", type=parse_pattern, default=[], metavar="REGEX",
        help="fits the whole name of the job; may come again",
    )  # fmt: skip
    which.add_argument(
        "--user",
        type=parse_pattern,
        metavar="REGEX",
        help="fits the whole user (default: yourself)",
    )
    which.add_argument("--group", type=parse_pattern, metavar="REGEX", help="fits the whole group")
    which.add_argument(
        "--account", type=parse_pattern, metavar="REGEX", help="fits the whole account"
    )
    which.add_argument(
        "--partition", type=parse_pattern, metavar="REGEX", help="fits the whole partition"
    )
    what = parser.add_argument_group("what to do")
    what.add_argument(
        "--every", type=parse_long_duration, metavar="TIME", help="look again so often: 15m"
    )
    what.add_argument("--pulse", action="store_true", help="print pulse lines in place of a table")
    what.add_argument("--log", type=Path, metavar="PATH", help="append the pulse lines to this")
    what.add_argument(
        "--history", type=parse_long_duration, default=7 * 86400.0, metavar="TIME",
        help="how far sacct looks back for the last job (7d)",
    )  # fmt: skip
    what.add_argument("--queue", type=Path, metavar="PATH", help="a saved answer of squeue --json")
    what.add_argument("--example", action="store_true", help="print a file to begin with")
    what.add_argument(
        "--test_alerts", action="store_true", help="send a trial by all ways of the file"
    )
    other = parser.add_argument_group("other")
    other.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    other.add_argument("--toy", action="store_true", help="show it on a queue that never was")
    other.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    other.add_argument(
        "--version", action="version", version=f"slurm_status {__version__} (method {METHOD})"
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense together."""
    check_json_path(options.json)
    asked = [bool(options.config), bool(options.name), options.toy, options.example]
    if sum(asked) != 1:
        if options.config and options.name:
            raise WrongUse(f"name {options.config} or --name, not both: put it into the file")
        raise WrongUse("name a file that says what to watch (--example prints one), or --name")
    if not options.name and any(getattr(options, key) for key in CONDITIONS[1:]):
        raise WrongUse("--user, --group, --account and --partition go with --name")
    if options.test_alerts and not options.config:
        raise WrongUse("--test_alerts needs the file that says whom to tell")
    is_looking = not (options.toy or options.example or options.test_alerts)
    if not is_looking and (options.every or options.log or options.queue or options.pulse):
        raise WrongUse("--every, --log, --queue and --pulse are for looking")
    if options.json and (options.example or options.test_alerts):
        raise WrongUse("--json is for looking")


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
        check_options(options)
        if options.example:
            print(EXAMPLE, end="")
            return 0
        stop.listen()
        command = make_portable_command(arguments)
        if options.toy:
            return run_queue_toy(command, options.json, origin)
        if options.test_alerts:
            return run_alert_trial(read_slurm_config(options.config)[0], "slurm_status", stop)
        # A log on a full disk is no reason to stop watching.
        with contextlib.redirect_stderr(cast(TextIO, ForgivingStream(sys.stderr))):
            return run_slurm_status(options, command, stop, origin)
    except WrongUse as error:
        parser.error(str(error))
    except Stopped:
        write_note(str(stop.reason))
        return 1
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
