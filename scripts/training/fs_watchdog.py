#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which file system or quota is running out of bytes or inodes, and on which day will it be full?

A training run dies when its checkpoints no longer fit, or when inodes run out. This alerts
on stdout, by mail and by webhook: once when something gets worse, and once when it recovers.

## What is measured

- `statvfs`: the file system of a path, as `df` shows it to ordinary users
- `du`: everything below a path, each inode once, within one file system: slow
- `quota`: any command of your site (`lfs quota`, `mmlsquota`), and a regular expression with groups
  named `bytes`, `bytes_limit`, `inodes` and `inodes_limit`

Each measurement is a command with a timeout: a file system that hangs is a finding too, `unknown`.
`over` is beyond the limit, `soon` full within `forecast`: a line is fitted to the samples of 14
days, and `seconds = free / slope`. There is no forecast from fewer than 5 samples, from a line that
explains less than half of their variance, or for further ahead than ten times their span.

## How to run

    python fs_watchdog.py --path /checkpoints --path $HOME
    python fs_watchdog.py --example > fs_watchdog.toml      # then edit it
    python fs_watchdog.py fs_watchdog.toml --test-alerts    # does the mail arrive?
    */30 * * * * python3 fs_watchdog.py fs_watchdog.toml > fs_watchdog.log    # cron
    pdsh -w node[01-08] 'python /shared/fs_watchdog.py --path /local'
    sbatch fs_watchdog.slurm                                # on Slurm, without cron

## A good answer

`ok` in every row, and a forecast of months, or none because nothing grows.

Exit status: 0 all is ok; 1 something is not, or an alert could not be sent; 2 usage error or an
error in the file.
"""

import argparse
import math
import os
import re
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.alerts import CHANNELS_EXAMPLE, Notifier, Stdout, read_notifier, read_table, send_test
from kit.cli import Parser, UsageError, duration, regex_pattern, size, start
from kit.report import format_seconds, format_table

__version__ = "0.2.0"
QUANTITIES = ("bytes", "inodes")
HISTORY = 14 * 86400.0
WORDS = {"ok": "ok again", "soon": "full soon", "over": "over its limit"}

EXAMPLE = """\
# What fs_watchdog.py watches and whom it tells. Relative paths start at the folder of this file.
title = "cluster A"                 # starts every alert
state = "fs_watchdog.state.json"    # samples, and who was told; not on a disk that is watched
%s
[[path]]
path = "/checkpoints"
bytes = "3TB free"                  # or "12TB used"; "90%%" of bytes and inodes without
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
"""


Answer = dict[str, Any]
"""What was measured: `[used, capacity]` of bytes, of inodes or of both, and a remark."""
Limit = Callable[[int | None], float | None]
"""The use at which an alert begins, by capacity; None where that takes one and there is none."""


def limit_value(text: str) -> Limit:
    """`90%`, `2TB used` or `3TB free`."""
    if found := re.fullmatch(r"(\d+(?:\.\d+)?)%", text.strip()):
        share = float(found[1]) / 100
        return lambda capacity: None if capacity is None else share * capacity
    if found := re.fullmatch(r"(\S+) (used|free)", text.strip()):
        amount = size(found[1])
        if found[2] == "used":
            return lambda _: amount
        return lambda capacity: None if capacity is None else capacity - amount
    message = f'\'{text}\' is not a limit: write "90%", "2TB used" or "3TB free"'
    raise argparse.ArgumentTypeError(message)


class Watched(NamedTuple):
    """What is measured, how, and when it is too much."""

    path: str
    limits: Mapping[str, Limit]
    method: str = "statvfs"
    forecast: float = 0.0
    command: Sequence[str] = ()
    pattern: re.Pattern[str] = re.compile("")
    unit: int = 1
    timeout: float = 60.0


class Finding(NamedTuple):
    """What was found out about the bytes or the inodes of a path."""

    key: str
    watched: Watched
    quantity: str
    state: str
    used: int | None = None
    capacity: int | None = None
    limit: float | None = None
    fill_seconds: float | None = None
    remark: str = ""


def ask(watched: Watched, command: Sequence[str]) -> tuple[str, str]:
    """What a command prints and complains about. One that hangs in the kernel, on a dead file
    system, cannot even be killed, and is left behind. Raises OSError."""
    environ, pipe = {**os.environ, "LC_ALL": "C"}, subprocess.PIPE
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe,
                               text=True, env=environ, start_new_session=True)  # fmt: skip
    try:
        out, complaint = process.communicate(timeout=watched.timeout)
    except subprocess.TimeoutExpired as error:
        os.killpg(process.pid, signal.SIGKILL)
        raise OSError(f"no answer within {watched.timeout:g} s") from error
    if process.returncode and not out:
        raise OSError(complaint.strip() or f"{command[0]}: status {process.returncode}")
    return out, complaint


def measure_statvfs(watched: Watched) -> Answer:
    """Used, and used plus free to ordinary users, of bytes and inodes, as df shows them."""
    form = "--format=%S %b %f %a %c %d"
    out, _ = ask(watched, ["stat", "--file-system", form, "--", watched.path])
    block, blocks, free, available, inodes, free_inodes = map(int, out.split())
    used = (blocks - free) * block
    counts = {"inodes": [inodes - free_inodes, inodes]} if inodes else {}
    return {"bytes": [used, used + available * block], **counts}


def measure_du(watched: Watched) -> Answer:
    """Bytes on disk or inodes below a path, each inode once, within its file system."""
    answer: Answer = {}
    for quantity in watched.limits:
        option = "--inodes" if quantity == "inodes" else "--block-size=1"
        command = ["du", "--summarize", "--one-file-system", option, "--", watched.path]
        out, complaint = ask(watched, command)
        answer[quantity] = [int(out.split()[0]), None]
        if complaint:
            answer["remark"] = f"at least: {complaint.splitlines()[0]}"
    return answer


def measure_quota(watched: Watched) -> Answer:
    """The numbers in the output of a quota command; a limit of 0 is none. Raises OSError."""
    out, _ = ask(watched, watched.command)
    if not (found := watched.pattern.search(out)):
        raise OSError("the pattern does not match the output of the command")
    numbers: dict[str, int | None] = {}
    for group, word in found.groupdict().items():
        bare = (word or "-").rstrip("*").strip("[]")
        unit = watched.unit if group.startswith("bytes") and bare.isdigit() else 1
        numbers[group] = None if bare in ("-", "0", "none") else size(bare) * unit
    return {q: [numbers[q] or 0, numbers.get(f"{q}_limit")] for q in QUANTITIES if q in numbers}


MEASURES = {"statvfs": measure_statvfs, "du": measure_du, "quota": measure_quota}


def make_forecast(samples: Sequence[Sequence[float]], free: float) -> float | None:
    """Seconds until `free` is used up, by a line through the samples; None where they cannot tell,
    or it is far away."""
    span = samples[-1][0] - samples[0][0]
    if len(samples) < 5 or span <= 0:
        return None
    times, values = zip(*samples, strict=True)
    slope = statistics.linear_regression(times, values).slope
    if slope <= 0 or statistics.correlation(times, values) ** 2 < 0.5:
        return None
    seconds = max(free, 0.0) / slope
    return seconds if seconds <= 10 * span else None


def judge(finding: Finding, before: str) -> str:
    """`over`, `soon` or `ok`. What was bad before is ok only with a margin."""
    used, capacity, limit = finding.used or 0, finding.capacity, finding.limit
    if limit is not None:
        beyond = limit if capacity is None else max(capacity - limit, 0.0)
        if used >= limit - (beyond / 10 if before == "over" else 0.0):
            return "over"
    seconds = finding.fill_seconds
    return "soon" if seconds is not None and seconds <= finding.watched.forecast else "ok"


def look(watched: Watched, notifier: Notifier) -> list[Finding]:
    """Measure a path and settle in the notifier what that means."""
    now, failure, answer, findings = time.time(), "", {}, []
    try:
        answer = MEASURES[watched.method](watched)
    except (OSError, argparse.ArgumentTypeError) as error:  # the latter: not a number
        failure = str(error)
    for quantity, limit in watched.limits.items():
        state, remark = "unknown" if failure else "ok", failure or answer.get("remark", "")
        finding = Finding(f"{watched.path} {quantity}", watched, quantity, state, remark=remark)
        before = notifier.entries.get(finding.key, {"state": "ok", "samples": []})
        samples = before["samples"]
        if quantity in answer:
            used, capacity = answer[quantity]
            amount = limit(capacity)
            samples = [one for one in samples if now - HISTORY <= one[0] < now] + [[now, used]]
            end = amount if capacity is None else capacity
            seconds = None if end is None else make_forecast(samples, end - used)
            numbers = {"used": used, "capacity": capacity, "limit": amount, "fill_seconds": seconds}
            finding = finding._replace(**numbers)
            finding = finding._replace(state=judge(finding, before["state"]))
        findings.append(finding)
        notifier.settle(finding.key, finding.state)["samples"] = samples
    return findings


def show_bytes(count: float) -> str:
    """`3.146 MB`: always decimal, so that the amounts of a row can be compared."""
    power = min(5, max(0, int(math.log10(count or 1) // 3)))
    return f"{count / 1000**power:.4g} {('B', 'kB', 'MB', 'GB', 'TB', 'PB')[power]}"


def make_cells(finding: Finding) -> list[str]:
    """A row of the table."""
    show = show_bytes if finding.quantity == "bytes" else "{:,.0f}".format
    amounts = (finding.used, finding.capacity, finding.limit)
    used, capacity, limit = ("-" if one is None else show(one) for one in amounts)
    share = f"{100 * (finding.used or 0) / finding.capacity:.1f}" if finding.capacity else "-"
    full = "-" if finding.fill_seconds is None else format_seconds(finding.fill_seconds)
    state = "; ".join(filter(None, (finding.state, finding.remark)))
    return [finding.key, finding.watched.method, used, capacity, share, limit, full, state]


def make_sentence(finding: Finding) -> str:
    """What an alert says about a path."""
    if finding.used is None:
        return f"{finding.key}: could not be measured: {finding.remark}"
    _, _, used, capacity, share, limit, full, _ = make_cells(finding)
    text = f"{finding.key}: {WORDS[finding.state]}: {used} used"
    text += f" of {capacity} ({share} %)" if finding.capacity else ""
    text += f", limit {limit}" if finding.limit is not None else ""
    if finding.state == "soon" and finding.fill_seconds:
        day = time.strftime("%Y-%m-%d", time.localtime(time.time() + finding.fill_seconds))
        text += f"; full about {day}, in {full}"
    return f"{text}; {finding.remark}" if finding.remark else text


def run_round(watched: Sequence[Watched], notifier: Notifier) -> bool:
    """Measure everything, print it, send alerts; True if all is ok and every alert was sent."""
    notifier.load()
    findings = [one for path in watched for one in look(path, notifier)]
    headings = ["what", "by", "used", "of", "%", "limit", "full in", "state"]
    print(format_table(headings, map(make_cells, findings)), flush=True)
    notifier.notify({one.key: make_sentence(one) for one in findings})
    return not notifier.problems and all(one.state == "ok" for one in findings)


def read_watched(place: str, table: Mapping[str, Any], folder: Path) -> Watched:
    """A table `[[path]]` of a file in this folder. Raises UsageError."""
    readers = {
        "path": lambda name: str(folder / Path(name).expanduser()),
        **dict.fromkeys(QUANTITIES, limit_value),
        "method": str,
        "forecast": duration,
        "command": shlex.split,
        "pattern": regex_pattern,
        "unit": lambda text: size(f"1{text}"),
        "timeout": duration,
    }
    found = read_table(place, table, readers, "path")
    method = found.get("method", "statvfs")
    if method not in MEASURES:
        raise UsageError(f"{place}method: has to be one of {', '.join(MEASURES)}")
    limits = {} if method == "du" else dict.fromkeys(QUANTITIES, limit_value("90%"))
    limits |= {quantity: found.pop(quantity) for quantity in QUANTITIES if quantity in found}
    if method == "du" and (not limits or None in [limit(None) for limit in limits.values()]):
        text = 'du does not know the capacity: give a limit like "2TB used"'
        raise UsageError(f"{place}bytes: {text}")
    watched = Watched(**{"timeout": 600.0 if method == "du" else 60.0, **found, "limits": limits})
    if method == "quota" and not {*watched.pattern.groupindex} & {*QUANTITIES}:
        raise UsageError(f"{place}pattern: quota needs groups named bytes or inodes")
    return watched


def read_config(file: str) -> tuple[Notifier, list[Watched]]:
    """Whom to tell, and what to watch. Raises UsageError."""
    notifier, tables = read_notifier(file, "fs_watchdog", "path")
    return notifier, [read_watched(*table, Path(file).parent) for table in tables]


def run_demo() -> bool:
    """Fill a folder beyond its limit and empty it; True if both changes were told, once each."""
    with tempfile.TemporaryDirectory(prefix="fs_watchdog_") as name:
        file = Path(name) / "checkpoints" / "step1"
        file.parent.mkdir()
        watched = [Watched(str(file.parent), {"bytes": limit_value("1MB used")}, "du")]
        notifier = Notifier("demo", [Stdout()], Path(name) / "state.json")
        told = []
        for file_size in (400_000, 1_300_000, 1_300_000, 0):
            file.write_bytes(os.urandom(file_size))
            run_round(watched, notifier)
            told += [alert["state"] for alert in notifier.sent]
    return told == ["over", "ok"]


def build_parser() -> Parser:
    parser = Parser(__doc__, tool="fs_watchdog", version=__version__, demo=[], json=False)
    add = parser.add_argument
    # fmt: off
    add("config", nargs="?", metavar="FILE", help="what to watch, as TOML; see --example")
    add("--path", action="append", default=[],
        help="watch this path without a file, at 90 %% of bytes and of inodes; may be repeated")
    add("--example", action="store_true", help="print a file to start with")
    add("--test-alerts", action="store_true", help="send a test alert to every channel in the file")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    if options.example:
        print(EXAMPLE % CHANNELS_EXAMPLE, end="")
        return 0
    if not options.demo and bool(options.config) == bool(options.path):
        raise UsageError("give either FILE (--example prints one) or --path")
    if options.config:
        notifier, watched = read_config(options.config)
    else:
        limits = dict.fromkeys(QUANTITIES, limit_value("90%"))
        notifier = Notifier("fs_watchdog", [Stdout()])
        watched = [Watched(path, limits) for path in dict.fromkeys(options.path)]
    if options.test_alerts:
        return send_test(notifier.channels, "fs_watchdog")
    is_ok = run_demo() if options.demo else run_round(watched, notifier)
    return int(not is_ok)


if __name__ == "__main__":
    start(main)
