#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which file system or quota is running full, of bytes or of files, and on which day will it be?

A training dies when the place for its checkpoints is full, and it dies as surely when there are no
inodes left for one more file. This watchdog measures both, of any number of paths, and tells
people by mail, by webhook or on stdout: once when something changes, and once when it is well
again.

What is measured
    statvfs     the file system that a path is on, as df has it: what ordinary users can still take
    du          what is below a path, counted file by file, each inode once, not beyond the file
                system: slow, and the only way where many share a file system without quotas
    quota       any command of the site's own (lfs quota, mmlsquota, quota): a regular expression
                with groups named bytes, bytes_limit, inodes, inodes_limit finds the numbers in it
    Each in a process of its own with a time limit: a file system that hangs is a finding, too.
What counts as what
    ok; soon    it will be full within `forecast`
    over        more is used, or less is free, than the limit says ("90%", "2TB used", "3TB free");
                well again a tenth of what is left beyond the limit below it, so that it does not
                ring at every file
    full        less than a thousandth is free
    unknown     it could not be measured, `patience` times (2) in a row
    ok in part  du could not read all of it, and what it counted is ok: a note says how much is
                missing; nobody is told
The forecast
    A straight line through the kept samples (least squares; `history`, 14d), from what is used now
    on: days = free / slope. Hand check: 100 GB a day and 300 GB free are 3 days. Its spread is the
    95 % range of the slope, with the number of samples cut down as far as each resembles the one
    before it. There is none before 5 samples, none where they resemble each other too much to tell
    (a growth that has just begun), and none further ahead than ten times the span of the samples;
    `soon` takes a growth that is no accident. A sweep of old checkpoints is part of the spread: the
    day is that of the mean growth.
What is kept
    Samples, states, and who was told what, in one JSON file (`state`), written whole. Where a mail
    or a webhook fails or hangs, it is tried again at the next look, the others are not told twice.
    Keep it on another disk than those that are watched: without it alerts come again at each look.

How to run
    a look          python fs_watchdog.py --path /checkpoints --path $HOME
    an example      python fs_watchdog.py --example > fs_watchdog.toml
    the usual       python fs_watchdog.py fs_watchdog.toml
    by cron         */30 * * * * python3 fs_watchdog.py fs_watchdog.toml > fs_watchdog.log
    as a service    python fs_watchdog.py fs_watchdog.toml --every 30m
    are alerts on?  python fs_watchdog.py fs_watchdog.toml --test_alerts
    Slurm           sbatch fs_watchdog.slurm: a job that submits itself for the next time
    pdsh            for disks of the nodes: pdsh -w node[01-08] 'python /shared/fs_watchdog.py \
                        --path /local'

A good answer: `ok` in each row, and a forecast of months, or none: nothing grows.

Seen running: Linux with tmpfs and ext4, a mail server with STARTTLS and login, Slurm 22.05. What
lfs and mmlsquota print is for you to hold against your expression: --path and --example.

Exit status: 0 all is well; 1 something is not, an alert could not be sent, or stopped by a signal;
2 wrong use, or a fault in the file, which is named with its line.
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
import shlex
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
    "full": ["--path", "."],
}
# fmt: on

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "used_bytes": "B",
    "capacity_bytes": "B",
    "limit_bytes": "B",
    "growth_bytes_per_second": "B/s",
    "used_inodes": "1",
    "capacity_inodes": "1",
    "limit_inodes": "1",
    "growth_inodes_per_second": "1/s",
    "samples": "1",
    "fill_seconds": "s",
    "fill_seconds_min": "s",
    "fill_seconds_max": "s",
}

METHODS = ("statvfs", "du", "quota")
QUANTITIES = ("bytes", "inodes")
UNIT_BYTES = {"B": 1, "KiB": 1 << 10, "KB": 1000, "MiB": 1 << 20, "GiB": 1 << 30}
# Less than this share free is full.
FULL_SHARE = 1e-3
# Well again so far below the limit, as a share of what is beyond it.
MARGIN = 0.1
KEPT_SAMPLES = 300
FORECAST_SAMPLES = 5
# No forecast goes further ahead than so many times the span of its samples.
FORECAST_REACH = 10
# Student's t for 95 % on both sides, by degrees of freedom.
STUDENT = ((1, 12.71), (2, 4.30), (3, 3.18), (4, 2.78), (5, 2.57), (7, 2.36), (10, 2.23),
           (15, 2.13), (20, 2.09), (30, 2.04), (60, 2.00))  # fmt: skip

EXAMPLE = """\
# What fs_watchdog.py watches, and whom it tells. Folders without / are those beside this file.
title = "cluster A"                 # opens every alert
state = "fs_watchdog.state.json"    # what was seen and told; not on a disk that is watched
patience = 2                        # looks in a row that must fail before it is told
stdout = true                       # alerts on stdout, too
history = "14d"                     # samples kept for the forecast

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

[[path]]
path = "/checkpoints"
bytes = "3TB free"                  # or "90%", "12TB used"
inodes = "90%"
forecast = "3d"                     # alert when it will be full within 3 days

[[path]]
path = "/home/you"
method = "quota"
command = "lfs quota -q -u you /home"
#   prints: /home 1024* 2048 4096 - 17 100 200 -
pattern = '/home +(?P<bytes>\\S+) +\\S+ +(?P<bytes_limit>\\S+) +\\S+ +(?P<inodes>\\S+)'
unit = "KiB"                        # of numbers without one
bytes = "95%"

[[path]]
path = "/shared/project/datasets"
method = "du"
bytes = "40TB used"
timeout = "1h"
"""

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


class AlertLimit(NamedTuple):
    """Where an alert begins: a share or an amount, of what is used or of what is free."""

    amount: float
    is_share: bool
    is_free: bool


class WatchedPath(NamedTuple):
    """What is measured, how, and when it is too much."""

    name: str
    path: str
    method: str = "statvfs"
    limits: Mapping[str, AlertLimit] = {}
    capacity: Mapping[str, int] = {}
    forecast: float | None = None
    command: tuple[str, ...] = ()
    pattern: str = ""
    unit: int = 1
    seconds: float = 60.0


class FillForecast(NamedTuple):
    """How fast something grows, at least and at most, and the samples that say so."""

    growth: float
    low: float
    high: float
    samples: int
    span: float


class FillFinding(NamedTuple):
    """What was found of a path's bytes or inodes."""

    key: str
    watched: WatchedPath
    quantity: str
    used: int | None
    capacity: int | None
    limit: float | None
    forecast: FillForecast | None
    level: str
    remark: str
    is_partial: bool = False

    @property
    def state(self) -> str:
        """The state that is shown: what was not read whole is not simply ok."""
        return "ok in part" if self.is_partial and self.level == "ok" else self.level


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


# --- measuring ---


def parse_storage(text: str) -> int:
    """Bytes or a number of files from `3TB` (decimal), `512MiB` and `16G` (binary), or `1000`."""
    found = re.fullmatch(r"(\d{1,30}(?:\.\d+)?)\s*([kKMGTPE]?)(i?)(B?)", text.strip())
    if found is None or (found.group(3) and not found.group(2)):
        raise argparse.ArgumentTypeError(f"'{text}' is no size: write 3TB, 512GiB or 100000")
    number, prefix, binary, unit = found.groups()
    base = 1000 if unit and not binary else 1024
    return round(float(number) * float(base) ** " KMGTPE".index(prefix.upper() or " "))


def parse_alert_limit(text: str) -> AlertLimit:
    """`90%` (used), `10% free`, `2TB used`, `3TB free`."""
    found = re.fullmatch(r"\s*(\S+?)\s*(%?)\s*(used|free)?\s*", text)
    problem = f'\'{text}\' is no limit: write "90%", "2TB used" or "3TB free"'
    if found is None or not (found.group(2) or found.group(3)):
        raise argparse.ArgumentTypeError(problem)
    is_free = found.group(3) == "free"
    if found.group(2):
        if not re.fullmatch(r"\d+(\.\d+)?", found.group(1)) or float(found.group(1)) > 100:
            raise argparse.ArgumentTypeError(problem)
        return AlertLimit(float(found.group(1)) / 100, True, is_free)
    try:
        return AlertLimit(float(parse_storage(found.group(1))), False, is_free)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(problem) from error


def look_by_statvfs(watched: WatchedPath) -> Row:
    """Bytes and inodes of the file system, as df has them: used, and used or free to users."""
    seen = os.statvfs(watched.path)
    used = (seen.f_blocks - seen.f_bfree) * seen.f_frsize
    answer: Row = {"bytes": [used, used + max(seen.f_bavail, 0) * seen.f_frsize]}
    files = seen.f_files - seen.f_ffree
    answer["inodes"] = [files, files + max(seen.f_favail, 0)] if seen.f_files > 0 else None
    return answer


def look_by_du(watched: WatchedPath) -> Row:
    """Bytes on disk and inodes below a path, each inode once, within its file system."""
    top = os.lstat(watched.path)
    if os.path.islink(watched.path):  # noqa: PTH114
        top = os.stat(watched.path)  # noqa: PTH116
    size, files, unread = top.st_blocks * 512, 1, 0
    linked: set[int] = set()
    folders = [watched.path] if os.path.isdir(watched.path) else []  # noqa: PTH112
    while folders:
        try:
            entries = os.scandir(folders.pop())
        except OSError:
            if files == 1 and not unread:  # nothing of it can be read
                raise
            unread += 1
            continue
        with entries:
            for entry in entries:
                try:
                    seen = entry.stat(follow_symlinks=False)
                except OSError:  # removed meanwhile, or not for us
                    unread += not isinstance(sys.exc_info()[1], FileNotFoundError)
                    continue
                if seen.st_dev != top.st_dev or seen.st_ino in linked:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif seen.st_nlink > 1:
                    linked.add(seen.st_ino)
                size += seen.st_blocks * 512
                files += 1
    remark = f"at least: {unread} folders or files could not be read" if unread else ""
    is_partial = unread > 0
    return {
        "bytes": [size, None], "inodes": [files, None], "remark": remark, "partial": is_partial,
    }  # fmt: skip


def read_quota_number(text: str | None, unit: int) -> int | None:
    """A number of a quota command; None for none (`-`, `none`, nothing). Raises AlertFailure."""
    bare = (text or "").strip().rstrip("*").strip("[]")
    if bare.lower() in ("", "-", "none", "unlimited"):
        return None
    try:
        return parse_storage(bare) * (unit if re.fullmatch(r"[\d.]+", bare) else 1)
    except argparse.ArgumentTypeError as error:
        raise AlertFailure(f"'{text}' in the answer of the command is no number") from error


def read_quota(text: str, watched: WatchedPath) -> Row:
    """What the expression finds in the answer of a quota command. Raises AlertFailure."""
    found = re.search(watched.pattern, text, re.MULTILINE)
    if found is None:
        raise AlertFailure("the pattern fits nowhere in what the command printed")
    groups = found.groupdict()
    answer: Row = {}
    for quantity in QUANTITIES:
        unit = watched.unit if quantity == "bytes" else 1
        used = read_quota_number(groups.get(quantity), unit)
        # A limit of 0 is how quotas write that there is none.
        limit = read_quota_number(groups.get(f"{quantity}_limit"), unit) or None
        answer[quantity] = None if used is None else [used, limit]
    return answer


def look_by_quota(watched: WatchedPath) -> Row:
    """What a command of the site's own says. Raises AlertFailure."""
    try:
        done = subprocess.run(
            watched.command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except OSError as error:
        raise AlertFailure(f"{watched.command[0]}: {error.strerror}") from error
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no word"]
        raise AlertFailure(f"{watched.command[0]} ended with {done.returncode}: {words[0]}")
    return read_quota(done.stdout.decode(errors="replace"), watched)


LOOKS: Mapping[str, Callable[[WatchedPath], Row]] = {
    "statvfs": look_by_statvfs,
    "du": look_by_du,
    "quota": look_by_quota,
}


# --- judging ---


def add_sample(
    samples: list[tuple[float, float]], now: float, used: float, history: float
) -> list[tuple[float, float]]:
    """The samples with one more, none of them too old, and never many."""
    kept = [sample for sample in samples if now - history <= sample[0] < now]
    if len(kept) > 1 and kept[-1][0] - kept[-2][0] < history / KEPT_SAMPLES:
        kept.pop()
    return [*kept, (now, used)]


def fit_growth(samples: Sequence[tuple[float, float]]) -> FillForecast | None:
    """The slope of the line through the samples, with its 95 % range; None: too few to tell.

    Least squares. Where neighbours resemble each other (lag-one correlation r of the residuals)
    there are fewer independent samples than samples: n (1 - r) / (1 + r).
    """
    count = len(samples)
    if count < FORECAST_SAMPLES:
        return None
    mean_at = sum(at for at, _ in samples) / count
    mean_used = sum(used for _, used in samples) / count
    spread = sum((at - mean_at) ** 2 for at, _ in samples)
    span = samples[-1][0] - samples[0][0]
    if spread <= 0 or span <= 0:
        return None
    slope = sum((at - mean_at) * (used - mean_used) for at, used in samples) / spread
    rest = [used - mean_used - slope * (at - mean_at) for at, used in samples]
    squares = sum(value * value for value in rest)
    alike = 0.0
    if squares > 0:
        alike = sum(a * b for a, b in itertools.pairwise(rest)) / squares
    alike = min(max(alike, 0.0), 0.99)
    freedom = count * (1 - alike) / (1 + alike) - 2
    # What rounding leaves is no spread.
    if squares <= count * (1e-12 * max(abs(used) for _, used in samples)) ** 2:
        return FillForecast(slope, slope, slope, count, span)
    if freedom < 1:
        return FillForecast(slope, -math.inf, math.inf, count, span)
    error = math.sqrt(squares / freedom / spread)
    factor = next((t for n, t in reversed(STUDENT) if n <= freedom), STUDENT[0][1])
    return FillForecast(slope, slope - factor * error, slope + factor * error, count, span)


def find_fill_times(
    forecast: FillForecast | None, free: float | None
) -> tuple[float | None, float | None, float | None]:
    """Seconds until it is full, at the earliest and at the latest; None: not to be told, or
    perhaps never. Nothing is foretold further than FORECAST_REACH times the span of the samples."""
    if forecast is None or free is None or not math.isfinite(forecast.high):
        return None, None, None
    free = max(free, 0.0)
    reach = FORECAST_REACH * forecast.span

    def divide(growth: float) -> float | None:
        return free / growth if growth > 0 and free / growth <= reach else None

    return divide(forecast.growth), divide(forecast.high), divide(forecast.low)


def find_limit(limit: AlertLimit | None, capacity: int | None) -> float | None:
    """From how much on there is too much; None where that cannot be said."""
    if limit is None:
        return None
    if capacity is None:
        return None if limit.is_share or limit.is_free else limit.amount
    amount = limit.amount * capacity if limit.is_share else limit.amount
    return max(capacity - amount, 0.0) if limit.is_free else amount


def judge_fill(
    used: int, capacity: int | None, limit: float | None, before: str, soon: bool
) -> str:
    """`full`, `over`, `soon` or `ok`; what was too much before is well only a margin below."""
    if capacity is not None and used >= capacity * (1 - FULL_SHARE):
        return "full"
    if limit is not None:
        beyond = max(capacity - limit, 0.0) if capacity is not None else MARGIN * limit
        margin = MARGIN * beyond if before in ("over", "full") else 0.0
        if used >= limit - margin:
            return "over"
    return "soon" if soon else "ok"


def is_soon(
    watched: WatchedPath, forecast: FillForecast | None, fill: float | None, before: str
) -> bool:
    """Whether it will be full within the time of the file, by a growth that is no accident; what
    was so before is well only when there is a quarter more time."""
    if watched.forecast is None or forecast is None or fill is None:
        return False
    if before == "soon":
        return fill <= 1.25 * watched.forecast
    return forecast.low > 0 and fill <= watched.forecast


def find_free(used: int | None, capacity: int | None, limit: float | None) -> float | None:
    """How much may still come: until it is full, or to the limit where there is no capacity."""
    end = capacity if capacity is not None else limit
    return None if used is None or end is None else end - used


def format_fill(quantity: str, value: float | None) -> str:
    """`3.21 TB`, or a number of files; `-` where there is none."""
    if value is None:
        return "-"
    if quantity == "inodes":
        return f"{value:,.0f}".replace(",", " ")
    size = abs(value)
    for factor, unit in ((1e18, "EB"), (1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if size >= factor:
            return f"{value / factor:.3g} {unit}" if size < 1e3 * factor else f"{value:.3g} B"
    return f"{value / 1e3:.3g} kB" if size >= 1e3 else f"{value:.0f} B"


def format_forecast(finding: FillFinding) -> str:
    """When it will be full, with the spread, in the words of a table."""
    forecast = finding.forecast
    if finding.used is None or forecast is None:
        return "-"
    if not math.isfinite(forecast.high):
        return "too early to tell"
    free = find_free(finding.used, finding.capacity, finding.limit)
    middle, early, late = find_fill_times(forecast, free)
    if early is None:
        reach = format_period(FORECAST_REACH * forecast.span)
        return "does not grow" if forecast.high <= 0 else f"not within {reach}"
    if middle is None or forecast.low <= 0:
        return f"no trend; {format_period(early)} at the earliest"
    if late is None:
        return f"{format_period(middle)} ({format_period(early)} or more)"
    if format_period(early) == format_period(late):
        return format_period(middle)
    return f"{format_period(middle)} ({format_period(early)} to {format_period(late)})"


def make_sentence(finding: FillFinding, now: float) -> str:
    """What an alert says of a path."""
    words = {
        "ok": "well again",
        "soon": "full soon",
        "over": "over its limit",
        "full": "FULL",
        "unknown": "could not be measured",
    }
    text = f"{finding.key}: {words[finding.level]}"
    if finding.used is None:
        return f"{text}: {finding.remark}"
    quantity = finding.quantity
    text += f": {format_fill(quantity, finding.used)} used"
    if finding.capacity:
        share = 100 * finding.used / finding.capacity
        text += f" of {format_fill(quantity, finding.capacity)} ({share:.1f} %)"
    if finding.limit is not None:
        text += f", limit {format_fill(quantity, finding.limit)}"
    free = find_free(finding.used, finding.capacity, finding.limit)
    middle, _, _ = find_fill_times(finding.forecast, free)
    if finding.level != "full" and middle is not None and finding.forecast is not None:
        day = f" about {format_moment(now + middle)}" if finding.forecast.low > 0 else ""
        text += f"; full{day} in {format_forecast(finding)}" if day else ""
    return f"{text}; {finding.remark}" if finding.remark else text


# --- the file ---


def read_watched_path(table: ConfigTable, names: set[str]) -> WatchedPath:
    """A table `[[path]]`. Raises WrongUse."""
    path = str(table.find_file(table.need("path", table.take("path", str))))
    name = table.take("name", str, Path(path).name or path)
    if name in names:
        raise table.complain("name", f"'{name}' is there twice: give each path a name of its own")
    method = table.take("method", str, "statvfs")
    if method not in METHODS:
        raise table.complain("method", f"this has to be one of {', '.join(METHODS)}")
    limits = {q: table.take_parsed(q, parse_alert_limit) for q in QUANTITIES}
    given = {q: limit for q, limit in limits.items() if limit is not None}
    capacity = {q: table.take_parsed(f"capacity_{q}", parse_storage) for q in QUANTITIES}
    capacity = {q: value for q, value in capacity.items() if value}
    command = table.values.get("command")
    pattern, unit = table.take("pattern", str), table.take("unit", str, "B")
    words: tuple[str, ...] = ()
    if method == "quota":
        words = read_command(table, command)
        check_quota_pattern(table, table.need("pattern", pattern))
        if unit not in UNIT_BYTES:
            raise table.complain("unit", f"this has to be one of {', '.join(UNIT_BYTES)}")
    else:
        for key in ("command", "pattern", "unit"):
            if key in table.values:
                raise table.complain(key, 'this is for method = "quota"')
    if method == "du":
        if not given:
            raise table.complain("bytes", 'du knows no capacity: give a limit, as "2TB used"')
        for q, limit in given.items():
            if find_limit(limit, capacity.get(q)) is None:
                message = f'du knows no capacity: write "2TB used", or add capacity_{q}'
                raise table.complain(q, message)
    forecast = table.take_parsed("forecast", parse_long_duration)
    seconds = table.take_parsed("timeout", parse_long_duration, "10m" if method == "du" else "60s")
    table.close()
    if not given:
        given = {q: AlertLimit(0.9, True, False) for q in QUANTITIES}
    return WatchedPath(
        name, path, method, given, capacity, forecast, words, pattern or "", UNIT_BYTES[unit],
        seconds,
    )  # fmt: skip


def read_command(table: ConfigTable, value: Any) -> tuple[str, ...]:
    """The words of a command, from a text or a list. Raises WrongUse."""
    words = table.take_texts("command")
    if isinstance(value, str):
        try:
            words = tuple(shlex.split(value))
        except ValueError as error:
            raise table.complain("command", str(error).lower()) from error
    return tuple(table.need("command", words))


def check_quota_pattern(table: ConfigTable, pattern: str) -> None:
    """Raises WrongUse for an expression that finds none of the numbers."""
    known = {f"{q}{end}" for q in QUANTITIES for end in ("", "_limit")}
    try:
        groups = set(re.compile(pattern).groupindex)
    except re.error as error:
        raise table.complain("pattern", f"this is no regular expression: {error}") from error
    if groups - known or not groups & set(QUANTITIES):
        raise table.complain("pattern", "name its groups bytes, bytes_limit, inodes, inodes_limit")


def read_fs_config(path: Path) -> tuple[AlertSettings, list[WatchedPath], float]:
    """Whom to tell, what to watch, and the history of the forecast. Raises WrongUse."""
    top, tables = open_tables(path, "path")
    history = top.take_parsed("history", parse_long_duration, "14d")
    settings = read_alert_settings(top, "fs_watchdog", 2)
    watched: list[WatchedPath] = []
    for table in tables:
        watched.append(read_watched_path(table, {one.name for one in watched}))
    return settings, watched, history


# --- looking ---


def look_at_path(
    watched: WatchedPath, book: AlertBook, patience: int, history: float, stop: StopSign
) -> list[FillFinding]:
    """Measure a path, and settle in the book what that means."""
    now = time.time()
    failure, answer = "", {}
    try:
        answer = run_apart(lambda: LOOKS[watched.method](watched), watched.seconds, stop)
    except AlertFailure as problem:
        failure = str(problem)
    findings = []
    for quantity in QUANTITIES:
        key = f"{watched.name} {quantity}"
        limit = watched.limits.get(quantity)
        seen = answer.get(quantity)
        if limit is None and (seen is None or watched.method != "statvfs"):
            continue
        if seen is None:
            remark = failure or "no such number is to be had here"
            level = "unknown" if failure else "ok"
            book.settle(key, level, patience, now)
            findings.append(
                FillFinding(key, watched, quantity, None, None, None, None, level, remark)
            )
            continue
        used, capacity = seen[0], watched.capacity.get(quantity, seen[1])
        amount = find_limit(limit, capacity)
        samples = book.entries[key]["samples"] if key in book.entries else []
        samples = add_sample(samples, now, float(used), history)
        forecast = fit_growth(samples)
        fill = find_fill_times(forecast, find_free(used, capacity, amount))[0]
        before = book.entries[key]["state"] if key in book.entries else "ok"
        soon = is_soon(watched, forecast, fill, before)
        level = judge_fill(used, capacity, amount, before, soon)
        remark = answer.get("remark", "")
        if limit is not None and amount is None:
            remark = "no limit is set, so nothing is judged"
        entry = book.settle(key, level, 1, now)
        entry["samples"] = samples
        part = bool(answer.get("partial"))
        findings.append(
            FillFinding(
                key, watched, quantity, used, capacity, amount, forecast, level, remark, part
            )
        )
    return findings


def make_fill_row(finding: FillFinding) -> Row:
    """A row of the JSON's results."""
    free = find_free(finding.used, finding.capacity, finding.limit)
    middle, early, late = find_fill_times(finding.forecast, free)
    forecast = finding.forecast
    row: Row = {
        "name": finding.watched.name,
        "method": finding.watched.method,
        "quantity": finding.quantity,
        "state": finding.state,
        "samples": forecast.samples if forecast else None,
        "fill_seconds": middle,
        "fill_seconds_min": early,
        "fill_seconds_max": late,
        "remark": finding.remark,
    }
    for quantity in QUANTITIES:
        is_this = quantity == finding.quantity
        row |= {
            f"used_{quantity}": finding.used if is_this else None,
            f"capacity_{quantity}": finding.capacity if is_this else None,
            f"limit_{quantity}": finding.limit if is_this else None,
            f"growth_{quantity}_per_second": forecast.growth if is_this and forecast else None,
        }
    return row


def format_findings(findings: Sequence[FillFinding]) -> str:
    """The table."""
    rows = []
    for one in findings:
        share = 100 * one.used / one.capacity if one.used is not None and one.capacity else None
        rows.append(
            [
                one.key,
                one.watched.method,
                format_fill(one.quantity, one.used),
                format_fill(one.quantity, one.capacity),
                "-" if share is None else f"{share:.1f}",
                format_fill(one.quantity, one.limit),
                format_forecast(one),
                one.state,
            ]
        )
    return format_table(["what", "by", "used", "of", "%", "limit", "full in", "state"], rows)


class FsRound:
    """One look at everything: findings, alerts that were sent, and what went wrong."""

    def __init__(
        self, settings: AlertSettings, watched: Sequence[WatchedPath], history: float
    ) -> None:
        self.settings = settings
        self.watched = watched
        self.history = history
        self.findings: list[FillFinding] = []
        self.sent: list[Row] = []
        self.problems: list[str] = []

    def run(self, stop: StopSign) -> None:
        """Measure, remember, tell. Raises Stopped, WrongUse."""
        self.findings, self.sent, self.problems = [], [], []
        with claim_state(self.settings.state):
            book = AlertBook("fs_watchdog", self.settings.state)
            self.problems += book.remarks
            patience = self.settings.patience
            for watched in self.watched:
                self.findings += look_at_path(watched, book, patience, self.history, stop)
            self.problems += print_table_or_tell(format_findings(self.findings))
            keys = {f"{one.name} {quantity}" for one in self.watched for quantity in QUANTITIES}
            book.entries = {key: book.entries[key] for key in book.entries if key in keys}
            self.problems += [text for text in (book.save(),) if text]
            now = time.time()
            sentences = {one.key: make_sentence(one, now) for one in self.findings}
            sent, problems = send_alerts(book, self.settings, "fs_watchdog", sentences, stop)
            self.sent += sent
            # A state that cannot be written is complained of once, and not for each alert.
            self.problems = list(dict.fromkeys([*self.problems, *problems]))

    @property
    def is_well(self) -> bool:
        """Whether all is ok and was told."""
        return not self.problems and all(one.level == "ok" for one in self.findings)


def make_fs_document(head: Row, rounds: FsRound, complete: bool) -> Row:
    """The JSON: base units, no NaN."""
    remarks = [f"{one.key}: {one.remark}" for one in rounds.findings if one.remark]
    return {
        **head,
        "complete": complete,
        "units": UNITS,
        "results": [make_fill_row(one) for one in rounds.findings],
        "caveats": [*remarks, *rounds.problems],
        "details": {"alerts": rounds.sent},
    }


def run_fs_watchdog(
    options: argparse.Namespace, command: list[str], stop: StopSign, origin: float
) -> int:
    """Look once, or again and again; the exit status."""
    if options.config:
        settings, watched, history = read_fs_config(options.config)
    else:
        limits = {q: AlertLimit(0.9, True, False) for q in QUANTITIES}
        # Not resolved: that would be a look at what may hang.
        names = {str(path): Path(Path.cwd(), path).name for path in options.path}
        short = list(names.values())
        watched = [
            WatchedPath(name if name and short.count(name) == 1 else path, path, limits=limits)
            for path, name in names.items()
        ]
        settings, history = AlertSettings("fs_watchdog", (LineWay("stdout"),), 1, None), 86400.0
    rounds = FsRound(settings, watched, history)
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
            for text in dict.fromkeys(
                f"{one.watched.name}: {one.remark}" for one in rounds.findings if one.is_partial
            ):
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
        head = make_document_head("fs_watchdog", (__version__, METHOD), command, origin)
        write_document(options.json, make_fs_document(head, rounds, complete))
    drop_unwritten_output()
    return 0 if complete and rounds.is_well else 1


def run_fill_toy(command: list[str], path: Path | None, stop: StopSign, origin: float) -> int:
    """A folder that fills beyond its limit, stays so, and is swept: alerts at the two changes."""
    with tempfile.TemporaryDirectory(prefix="fs_watchdog_") as name:
        folder = Path(name) / "checkpoints"
        folder.mkdir()
        limits = {"bytes": AlertLimit(1e6, False, False), "inodes": AlertLimit(4, False, False)}
        watched = [WatchedPath("checkpoints", str(folder), "du", limits)]
        state = Path(name) / "state.json"
        settings = AlertSettings("toy", (LineWay("stdout"),), 1, state)
        rounds = FsRound(settings, watched, 86400.0)
        complete, sent = False, []
        with contextlib.suppress(Stopped):
            for size in (400_000, 900_000, 0, None):
                if size is None:
                    for file in folder.iterdir():
                        file.unlink()
                elif size:
                    (folder / f"step{size}").write_bytes(os.urandom(size))
                rounds.run(stop)
                sent.append([alert["about"] for alert in rounds.sent])
            complete = True
        if path is not None:
            head = make_document_head("fs_watchdog", (__version__, METHOD), command, origin)
            document = make_fs_document(head, rounds, complete)
            document["caveats"].append("a demonstration: a folder of its own, filled and swept")
            document["details"]["alerts"] = sent
            write_document(path, document)
    for text in rounds.problems:
        print(f"problem: {text}", file=sys.stderr)
    if stop.reason:
        write_note(f"{stop.reason}: the results so far")
    write_note("a demonstration; --example prints a file to begin with")
    told = [[], ["checkpoints bytes"], [], ["checkpoints bytes"]]
    return 0 if complete and sent == told and rounds.is_well else 1


def run_self_test() -> int:
    """Check the judgement, the forecast and the memory of alerts; 0, or 1."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    day = 86400.0
    samples = [(at * day, 100e9 * at) for at in range(8)]
    times = find_fill_times(fit_growth(samples), 300e9)
    check("100 GB a day and 300 GB free are 3 days", times == (3 * day, 3 * day, 3 * day))
    flat = [(at * day, 5.0 + (-1) ** at) for at in range(8)]
    grown = fit_growth(flat)
    check("noise is no growth", grown is not None and grown.low < 0 < grown.high)
    check("four samples tell nothing", fit_growth(samples[:4]) is None)
    check("3TB free of 10 TB is 7 TB", find_limit(parse_alert_limit("3TB free"), 10**13) == 7e12)
    levels = [judge_fill(used, 100, 90.0, "ok", False) for used in (89, 90, 100)]
    check("89, 90 and 100 of 100", levels == ["ok", "over", "full"])
    check("well again below the margin", judge_fill(89, 100, 90.0, "over", False) == "over")
    check("and there it is", judge_fill(88, 100, 90.0, "over", False) == "ok")
    quota = WatchedPath("q", "", pattern=r"(?P<bytes>\S+) (?P<bytes_limit>\S+)", unit=1024)
    check("1500* of 2000 KiB", read_quota("1500* 2000", quota)["bytes"] == [1536000, 2048000])
    stop = StopSign()
    began = time.monotonic()
    try:
        run_apart(lambda: time.sleep(60), 0.2, stop)
        said = ""
    except AlertFailure as failure:
        said = str(failure)
    check("what hangs is left", said == "no answer within 0.2 s" and time.monotonic() - began < 20)
    check(
        "what answers is heard", run_apart(lambda: {"a": [1, None]}, 20, stop) == {"a": [1, None]}
    )
    hook = HookWay("webhook", "http://127.0.0.1:9/", "text", 10.0)
    with tempfile.TemporaryDirectory(prefix="fs_watchdog_") as name:
        settings = AlertSettings("t", (hook, LineWay("stdout")), 1, Path(name) / "state.json")
        output = sys.stdout
        sys.stdout = sys.stderr
        outcomes = []
        try:
            for state in ("over", "over", "ok"):
                book = AlertBook("fs_watchdog", settings.state)
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
        prog="fs_watchdog.py",
        description="Watch bytes and inodes of file systems and quotas, and tell people in time.",
        epilog="The docstring at the top of this file tells what is measured and how to run it.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "config", nargs="?", type=Path, metavar="FILE", help="what to watch, as TOML; see --example"
    )
    what = parser.add_argument_group("what to do")
    what.add_argument(
        "--path", action="append", type=Path, default=[], metavar="PATH",
        help="look at this path, without a file: 90%% of bytes and of inodes; may come again",
    )  # fmt: skip
    what.add_argument(
        "--every", type=parse_long_duration, metavar="TIME", help="look again so often: 30m"
    )
    what.add_argument("--example", action="store_true", help="print a file to begin with")
    what.add_argument(
        "--test_alerts", action="store_true", help="send a trial by all ways of the file"
    )
    other = parser.add_argument_group("other")
    other.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    other.add_argument("--toy", action="store_true", help="show it on a folder of its own")
    other.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    other.add_argument(
        "--version", action="version", version=f"fs_watchdog {__version__} (method {METHOD})"
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense together."""
    check_json_path(options.json)
    asked = [bool(options.config), bool(options.path), options.toy, options.example]
    if sum(asked) != 1:
        if options.config and options.path:
            raise WrongUse(f"name {options.config} or --path, not both: put the path into the file")
        raise WrongUse("name a file that says what to watch (--example prints one), or --path")
    if options.test_alerts and not options.config:
        raise WrongUse("--test_alerts needs the file that says whom to tell")
    if options.every is not None and (options.toy or options.example or options.test_alerts):
        raise WrongUse("--every is for looking")
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
            return run_fill_toy(command, options.json, stop, origin)
        if options.test_alerts:
            return run_alert_trial(read_fs_config(options.config)[0], "fs_watchdog", stop)
        # A log on a full disk is no reason to stop watching.
        with contextlib.redirect_stderr(cast(TextIO, ForgivingStream(sys.stderr))):
            return run_fs_watchdog(options, command, stop, origin)
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
