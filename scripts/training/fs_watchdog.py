#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which file system or quota is running out of bytes or inodes, and on which day will it be full?

A training run dies when its checkpoints no longer fit, and it dies just as surely when there is no
inode left for one more file. This watchdog measures both for any number of paths, forecasts when
they run out, and alerts by mail, webhook or on stdout: once when something changes for the worse,
and once when it is good again.

## What is measured

- `statvfs`: the file system of a path, as `df` shows it to ordinary users.
- `du`: everything below a path, file by file, each inode once, within one file system. Slow, and
  the only way where many share a file system without quotas.
- `quota`: any command of your site (`lfs quota`, `mmlsquota`, `quota`). A regular expression with
  groups named `bytes`, `bytes_limit`, `inodes` and `inodes_limit` finds the numbers.

Each measurement runs in its own process with a timeout: a file system that hangs is a finding too.

| state | meaning |
|:--|:--|
| ok | none of the others |
| soon | full within `forecast` |
| over | beyond the limit; ok again only when a tenth of the rest is free below it |
| full | less than a thousandth is free |
| unknown | not measured, `patience` times in a row |
| ok in part | du could not read everything; a note says how much is missing |

## Formulas

A line is fitted to the kept samples (least squares over `history`) and continued from what is used
now: `seconds = free / slope`. At 100 GB a day, 300 GB last 3 days. The range is the 95 % interval
of the slope by Student's t, with `n (1 - r) / (1 + r)` independent samples, where r is the lag-one
correlation of the residuals. There is no forecast from fewer than 5 samples, from samples too
correlated to tell, or further ahead than ten times their span.

## How to run

    python fs_watchdog.py --path /checkpoints --path $HOME
    python fs_watchdog.py --example > fs_watchdog.toml      # then edit it
    python fs_watchdog.py fs_watchdog.toml --test-alerts    # does the mail arrive?
    # every 30 minutes, by cron or as a service
    */30 * * * * python3 fs_watchdog.py fs_watchdog.toml > fs_watchdog.log
    python fs_watchdog.py fs_watchdog.toml --every 30m
    # Slurm: a job that submits itself for the next hour
    sbatch fs_watchdog.slurm
    # pdsh, for local disks of nodes
    pdsh -w node[01-08] 'python /shared/fs_watchdog.py --path /local'

Samples, states, and who was told what are kept in one JSON file (`state`). A mail or a webhook is
tried three times, and again at the next look. Keep the state on a disk that is not watched.

## A good answer

`ok` in every row, and a forecast of months, or none because nothing grows.

Exit status: 0 all is ok; 1 something is not, an alert could not be sent, or a signal ended it;
2 wrong use or an error in the file.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import itertools
import math
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.alerts import CHANNELS_EXAMPLE, Stdout, send_test
from kit.cli import Parser, UsageError, duration, size, start
from kit.notify import Notifier, read_notifier, repeat
from kit.procs import run_apart
from kit.report import Report, Row, format_seconds, format_table
from kit.settings import Settings, read_settings
from kit.stop import Stop, Stopped

__version__ = "0.2.0"
METHOD = 1

PROFILES = {"demo": ["--demo"], "full": ["--path", "."]}
QUANTITIES = {"bytes": "B", "inodes": "1"}
UNITS = {"samples": "1", "fill_seconds": "s", "fill_seconds_min": "s", "fill_seconds_max": "s"}
UNITS |= {f"{what}_{q}": unit for q, unit in QUANTITIES.items()
          for what in ("used", "capacity", "limit")}  # fmt: skip
UNITS |= {"growth_bytes_per_second": "B/s", "growth_inodes_per_second": "1/s"}
UNIT_BYTES = {"B": 1, "KiB": 1 << 10, "KB": 1000, "MiB": 1 << 20, "GiB": 1 << 30}
FULL_SHARE = 1e-3
MARGIN = 0.1
KEPT_SAMPLES = 300
MIN_SAMPLES = 5
REACH = 10
STUDENT = ((1, 12.71), (2, 4.30), (3, 3.18), (4, 2.78), (5, 2.57), (7, 2.36), (10, 2.23),
           (15, 2.13), (20, 2.09), (30, 2.04), (60, 2.00))  # fmt: skip
"""Student's t for a two-sided 95 % interval, by degrees of freedom."""
WORDS = {"ok": "ok again", "soon": "full soon", "over": "over its limit", "full": "FULL"}

EXAMPLE = """\
# What fs_watchdog.py watches and whom it tells. Relative paths start at the folder of this file.
title = "cluster A"                 # starts every alert
state = "fs_watchdog.state.json"    # samples, and who was told; not on a disk that is watched
patience = 2                        # failed measurements in a row before an alert
history = "14d"                     # how long samples are kept for the forecast
%s
[[path]]
path = "/checkpoints"
bytes = "3TB free"                  # or "90%%", "12TB used"
inodes = "90%%"
forecast = "3d"                     # alert when it will be full within 3 days

[[path]]
path = "/home/you"
method = "quota"
command = "lfs quota -q -u you /home"
#   prints: /home 1024* 2048 4096 - 17 100 200 -
pattern = '/home +(?P<bytes>\\S+) +\\S+ +(?P<bytes_limit>\\S+) +\\S+ +(?P<inodes>\\S+)'
unit = "KiB"                        # of numbers without a unit
bytes = "95%%"

[[path]]
path = "/shared/project/datasets"
method = "du"
bytes = "40TB used"
timeout = "1h"
"""


class Limit(NamedTuple):
    """Where an alert begins: a share or an amount, of what is used or of what is free."""

    amount: float
    is_share: bool = False
    is_free: bool = False

    def find(self, capacity: int | None) -> float | None:
        """The use at which it is reached; None where that takes a capacity and there is none."""
        if capacity is None:
            return None if self.is_share or self.is_free else self.amount
        amount = self.amount * capacity if self.is_share else self.amount
        return max(capacity - amount, 0.0) if self.is_free else amount


class Watched(NamedTuple):
    """What is measured, how, and when it is too much."""

    name: str
    path: str
    method: str = "statvfs"
    limits: Mapping[str, Limit] = {quantity: Limit(0.9, is_share=True) for quantity in QUANTITIES}
    forecast: float | None = None
    command: Sequence[str] = ()
    pattern: str = ""
    unit: int = 1
    seconds: float = 60.0


class Forecast(NamedTuple):
    """Seconds until full: expected, earliest and latest (inf: never), and the growth behind it."""

    expected: float
    early: float
    late: float
    slope: float
    samples: int
    reach: float


class Finding(NamedTuple):
    """What was found out about the bytes or the inodes of a path."""

    key: str
    watched: Watched
    quantity: str
    state: str
    used: int | None = None
    capacity: int | None = None
    limit: float | None = None
    forecast: Forecast | None = None
    remark: str = ""


def limit_value(text: str) -> Limit:
    """`90%` (used), `10% free`, `2TB used`, `3TB free`."""
    found = re.fullmatch(r"\s*(\S+?)\s*(%?)\s*(used|free)?\s*", text)
    with contextlib.suppress(argparse.ArgumentTypeError, ValueError):
        if found and found[2] and 0 <= float(found[1]) <= 100:
            return Limit(float(found[1]) / 100, True, found[3] == "free")
        if found and found[3] and not found[2]:
            return Limit(float(size(found[1])), False, found[3] == "free")
    message = f'\'{text}\' is not a limit: write "90%", "2TB used" or "3TB free"'
    raise argparse.ArgumentTypeError(message)


def measure_statvfs(watched: Watched) -> Row:
    """Used, and used plus free to ordinary users, of bytes and inodes, as df shows them."""
    seen = os.statvfs(watched.path)
    used = (seen.f_blocks - seen.f_bfree) * seen.f_frsize
    files = seen.f_files - seen.f_ffree
    inodes = [files, files + seen.f_favail] if seen.f_files > 0 else None
    return {"bytes": [used, used + seen.f_bavail * seen.f_frsize], "inodes": inodes}


def measure_du(watched: Watched) -> Row:
    """Bytes on disk and inodes below a path, each inode once, within its file system."""
    top = Path(watched.path).stat()
    used, files, unread = top.st_blocks * 512, 1, 0
    linked: set[int] = set()
    folders = [watched.path]
    while folders:
        try:
            for entry in os.scandir(folders.pop()):
                with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                    seen = entry.stat(follow_symlinks=False)
                    if seen.st_dev != top.st_dev or seen.st_ino in linked:
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif seen.st_nlink > 1:
                        linked.add(seen.st_ino)
                    used += seen.st_blocks * 512
                    files += 1
        except OSError:
            if files == 1:  # nothing of it can be read
                raise
            unread += 1
    remark = f"at least: {unread} folders could not be read" if unread else ""
    return {"bytes": [used, None], "inodes": [files, None], "remark": remark}


def measure_quota(watched: Watched) -> Row:
    """The numbers in the output of a quota command; a limit of 0 is none. Raises OSError."""
    environ = {**os.environ, "LC_ALL": "C"}
    done = subprocess.run(
        watched.command, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=environ
    )
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        raise OSError(f"{watched.command[0]} ended with {done.returncode}: {words[0]}")
    found = re.search(watched.pattern, done.stdout.decode(errors="replace"), re.MULTILINE)
    if found is None:
        raise OSError("the pattern does not match the output of the command")
    numbers: dict[str, int | None] = {}
    for group, word in found.groupdict().items():
        bare = (word or "-").rstrip("*").strip("[]")
        unit = watched.unit if group.startswith("bytes") and bare.isdigit() else 1
        try:
            numbers[group] = None if bare in ("-", "0", "none") else size(bare) * unit
        except argparse.ArgumentTypeError as error:
            raise OSError(str(error)) from error
    return {q: [numbers[q] or 0, numbers.get(f"{q}_limit")] for q in QUANTITIES if q in numbers}


MEASURES: Mapping[str, Callable[[Watched], Row]] = {
    "statvfs": measure_statvfs, "du": measure_du, "quota": measure_quota,
}  # fmt: skip


def add_sample(samples: list[list[float]], used: float, history: float) -> list[list[float]]:
    """The samples with one more: none older than `history`, and some hundred at most."""
    now = time.time()
    kept = [sample for sample in samples if now - history <= sample[0] < now]
    if len(kept) > 1 and kept[-1][0] - kept[-2][0] < history / KEPT_SAMPLES:
        kept.pop()
    return [*kept, [now, used]]


def make_forecast(samples: Sequence[Sequence[float]], free: float) -> Forecast | None:
    """When `free` is used up, by a line through the samples; None where they cannot tell."""
    count = len(samples)
    if count < MIN_SAMPLES or samples[-1][0] <= samples[0][0]:
        return None
    mean_time, mean_used = (sum(column) / count for column in zip(*samples, strict=True))
    variance = sum((at - mean_time) ** 2 for at, _ in samples)
    slope = sum((at - mean_time) * (used - mean_used) for at, used in samples) / variance
    residuals = [used - mean_used - slope * (at - mean_time) for at, used in samples]
    squares = sum(value * value for value in residuals)
    doubt = 0.0
    if squares > count * (1e-12 * max(abs(used) for _, used in samples)) ** 2:  # not just rounding
        correlation = sum(a * b for a, b in itertools.pairwise(residuals)) / squares
        correlation = min(max(correlation, 0.0), 0.99)
        freedom = count * (1 - correlation) / (1 + correlation) - 2
        if freedom < 1:
            return None
        factor = next(t for n, t in reversed(STUDENT) if n <= freedom)
        doubt = factor * math.sqrt(squares / freedom / variance)
    slopes = (slope, slope + doubt, slope - doubt)
    times = [max(free, 0.0) / one if one > 0 else math.inf for one in slopes]
    return Forecast(*times, slope, count, REACH * (samples[-1][0] - samples[0][0]))


def judge(finding: Finding, before: str) -> str:
    """`full`, `over`, `soon` or `ok`. What was bad before is ok only with a margin."""
    used, capacity, limit = finding.used or 0, finding.capacity, finding.limit
    if capacity is not None and used >= capacity * (1 - FULL_SHARE):
        return "full"
    if limit is not None:
        beyond = max(capacity - limit, 0.0) if capacity is not None else MARGIN * limit
        if used >= limit - (MARGIN * beyond if before in ("over", "full") else 0.0):
            return "over"
    wanted, forecast = finding.watched.forecast, finding.forecast
    if not wanted or forecast is None or forecast.expected > forecast.reach:
        return "ok"
    if before == "soon":
        wanted *= 1.25
    return "soon" if forecast.late < math.inf and forecast.expected <= wanted else "ok"


def look(watched: Watched, notifier: Notifier, history: float, stop: Stop) -> list[Finding]:
    """Measure a path and settle in the notifier what that means."""
    failure, answer, findings = "", {}, []
    try:
        answer = run_apart(lambda: MEASURES[watched.method](watched), watched.seconds, stop.check)
    except OSError as error:
        failure = str(error)
    for quantity in QUANTITIES:
        limit, seen = watched.limits.get(quantity), answer.get(quantity)
        if limit is None and watched.method != "statvfs":
            continue
        key, state = f"{watched.name} {quantity}", "unknown" if failure else "ok"
        finding = Finding(key, watched, quantity, state, remark=failure)
        before = notifier.entries.get(key, {"state": "ok", "samples": []})
        if seen is None:
            notifier.settle(key, state)
            findings.append(finding)
            continue
        used, capacity = seen
        amount = limit.find(capacity) if limit else None
        samples = add_sample(before["samples"], used, history)
        end = amount if capacity is None else capacity
        remark = answer.get("remark") or (
            "no quota is set, so nothing is judged" if limit and amount is None else ""
        )
        finding = finding._replace(
            used=used, capacity=capacity, limit=amount, remark=remark,
            forecast=None if end is None else make_forecast(samples, end - used),
        )  # fmt: skip
        finding = finding._replace(state=judge(finding, before["state"]))
        notifier.settle(key, finding.state, patience=1)["samples"] = samples
        findings.append(finding)
    return findings


def format_amount(quantity: str, value: float | None) -> str:
    """`3.21 TB`, or `1,234` inodes."""
    if value is None:
        return "-"
    if quantity == "inodes":
        return f"{value:,.0f}"
    power = min(int(math.log10(value / 0.9995) / 3), 5) if value >= 1 else 0
    return f"{value / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB', 'PB')[power]}"


def format_forecast(forecast: Forecast | None) -> str:
    """When it will be full, with the range."""
    if forecast is None:
        return "-"
    expected, early, late = forecast[:3]
    if early > forecast.reach:
        return f"not within {format_seconds(forecast.reach)}"
    if max(expected, late) == math.inf or expected > forecast.reach:
        return f"no clear trend; {format_seconds(early)} at the earliest"
    texts = [format_seconds(value) for value in (expected, early, late)]
    return texts[0] if texts[1] == texts[2] else f"{texts[0]} ({texts[1]} to {texts[2]})"


def make_cells(finding: Finding) -> list[str]:
    """A row of the table."""
    amounts = (finding.used, finding.capacity, finding.limit)
    used, capacity, limit = (format_amount(finding.quantity, amount) for amount in amounts)
    share = f"{100 * (finding.used or 0) / finding.capacity:.1f}" if finding.capacity else "-"
    state = (
        "ok in part" if finding.state == "ok" and "at least" in finding.remark else finding.state
    )
    return [finding.key, finding.watched.method, used, capacity, share, limit,
            format_forecast(finding.forecast), state]  # fmt: skip


def make_sentence(finding: Finding) -> str:
    """What an alert says about a path."""
    if finding.used is None:
        return f"{finding.key}: could not be measured: {finding.remark}"
    _, _, used, capacity, share, limit, full, _ = make_cells(finding)
    text = f"{finding.key}: {WORDS[finding.state]}: {used} used"
    text += f" of {capacity} ({share} %)" if finding.capacity else ""
    text += f", limit {limit}" if finding.limit is not None else ""
    if finding.state == "soon" and finding.forecast:
        seconds = datetime.timedelta(seconds=finding.forecast.expected)
        text += f"; full about {datetime.datetime.now().astimezone() + seconds:%Y-%m-%d}, in {full}"
    return f"{text}; {finding.remark}" if finding.remark else text


def make_row(finding: Finding) -> Row:
    """A row of the JSON's results."""
    quantity, forecast = finding.quantity, finding.forecast
    row: Row = {
        "name": finding.watched.name,
        "method": finding.watched.method,
        "quantity": quantity,
        "state": make_cells(finding)[-1],
        "remark": finding.remark,
        **dict.fromkeys(UNITS),
        f"used_{quantity}": finding.used,
        f"capacity_{quantity}": finding.capacity,
        f"limit_{quantity}": finding.limit,
    }
    if forecast:
        times = [value if value <= forecast.reach else None for value in forecast[:3]]
        row["fill_seconds"], row["fill_seconds_min"], row["fill_seconds_max"] = times
        row |= {"samples": forecast.samples, f"growth_{quantity}_per_second": forecast.slope}
    return row


def run_round(
    watched: Sequence[Watched], notifier: Notifier, history: float, report: Report, stop: Stop
) -> bool:
    """Measure everything, print it, send alerts; True if all is ok and every alert was sent."""
    with notifier.open():
        findings = [one for path in watched for one in look(path, notifier, history, stop)]
        headings = ["what", "by", "used", "of", "%", "limit", "full in", "state"]
        print(format_table(headings, map(make_cells, findings)), flush=True)
        notifier.notify({one.key: make_sentence(one) for one in findings})
    report.rows = [make_row(one) for one in findings]
    report.details.setdefault("alerts", []).extend(notifier.sent)
    for one in findings:
        if one.remark and one.used is not None:
            report.note(f"{one.watched.name}: {one.remark}")
    for text in notifier.problems:
        print(f"problem: {text}", file=sys.stderr)
    return not notifier.problems and all(one.state == "ok" for one in findings)


def read_watched(table: Settings) -> Watched:
    """A table `[[path]]`. Raises UsageError."""
    path = str(table.find_file(table.need("path")))
    name = table.take("name", str, Path(path).name or path)
    method = table.take("method", str, "statvfs")
    if method not in MEASURES:
        raise table.error("method", f"has to be one of {', '.join(MEASURES)}")
    limits = {quantity: table.parse(quantity, limit_value) for quantity in QUANTITIES}
    limits = {quantity: limit for quantity, limit in limits.items() if limit}
    if method == "du" and (not limits or None in [one.find(None) for one in limits.values()]):
        raise table.error("bytes", 'du does not know the capacity: give a limit like "2TB used"')
    seconds = table.parse("timeout", duration, "10m" if method == "du" else "60s")
    watched = Watched(name, path, method, limits or Watched._field_defaults["limits"],
                      table.parse("forecast", duration), seconds=seconds)  # fmt: skip
    if method == "quota":
        words = [word for text in table.take_texts("command") for word in shlex.split(text)]
        pattern, unit = table.need("pattern"), table.take("unit", str, "B")
        try:
            groups = set(re.compile(pattern).groupindex)
        except re.error as error:
            raise table.error("pattern", f"not a regular expression: {error}") from error
        if not words or not groups & set(QUANTITIES) or unit not in UNIT_BYTES:
            message = (
                f"needs command, groups named bytes or inodes, unit in {', '.join(UNIT_BYTES)}"
            )
            raise table.error("pattern", message)
        watched = watched._replace(command=words, pattern=pattern, unit=UNIT_BYTES[unit])
    table.close()
    return watched


def read_config(file: str) -> tuple[Notifier, list[Watched], float]:
    """Whom to tell, what to watch, and how long samples are kept. Raises UsageError."""
    top = read_settings(file)
    history = top.parse("history", duration, "14d")
    notifier = read_notifier(top, "fs_watchdog", 2)
    watched = [read_watched(table) for table in top.take_tables("path")]
    top.close()
    if len({one.name for one in watched}) < len(watched):
        raise top.error("path", "two paths have the same name: give them different ones")
    return notifier, watched, history


def run_demo(report: Report, stop: Stop) -> bool:
    """Fill a folder beyond its limit and empty it; True if both changes were told, once each."""
    with tempfile.TemporaryDirectory(prefix="fs_watchdog_") as name:
        folder = Path(name) / "checkpoints"
        folder.mkdir()
        limits = {"bytes": Limit(1e6), "inodes": Limit(4)}
        watched = [Watched("checkpoints", str(folder), "du", limits)]
        notifier = Notifier("fs_watchdog", [Stdout()], "demo", path=Path(name) / "state.json")
        for step, file_size in enumerate((400_000, 900_000, 0, 0)):
            if file_size:
                (folder / f"step{step}").write_bytes(os.urandom(file_size))
            for file in folder.iterdir() if step == 3 else ():
                file.unlink()
            run_round(watched, notifier, 86400.0, report, stop)
    told = [alert["state"] for alert in report.details["alerts"]]
    return told == ["over", "ok"]


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(__doc__, tool="fs_watchdog", version=__version__, method=METHOD, demo=[])
    add = parser.add_argument
    # fmt: off
    add("config", nargs="?", metavar="FILE", help="what to watch, as TOML; see --example")
    add("--path", action="append", default=[],
        help="watch this path without a file, at 90 %% of bytes and of inodes; may be repeated")
    add("--every", type=duration, metavar="TIME", help="look again and again, for example 30m")
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
    if not options.demo and bool(options.config) == bool(options.path):
        raise UsageError("give either FILE (--example prints one) or --path")
    notifier, history = Notifier("fs_watchdog", [Stdout()]), 86400.0
    watched = [Watched(path, path) for path in dict.fromkeys(options.path)]
    if options.config:
        notifier, watched, history = read_config(options.config)
    if options.test_alerts:
        return send_test(notifier.channels, "fs_watchdog")
    report = Report("fs_watchdog", __version__, METHOD, UNITS, options.json)
    stop = Stop()
    stop.listen()
    is_ok = False
    try:
        if options.demo:
            is_ok = run_demo(report, stop)
        else:
            for _ in repeat(options.every, stop):
                is_ok = run_round(watched, notifier, history, report, stop)
        report.complete = True
    except Stopped as stopped:
        report.note(str(stopped))
    report.save()
    return int(not report.complete or not is_ok)


if __name__ == "__main__":
    start(main)
