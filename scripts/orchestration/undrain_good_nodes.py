#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which nodes did Slurm drain because a job was slow to end, and are they good again?

When processes of a job outlive SIGKILL (for UnkillableStepTimeout), Slurm drains the node with the
reason "Kill task failed". Most of these nodes are fine a minute later and wait for an
administrator. This tool looks at each of them, reports what is left there, and with `--undrain`
resumes the clean ones. By default it changes nothing.

## What it looks at

Nodes that are drained for exactly `--reason` and respond. On each: processes of users (UID from
1000) and of jobs (by cgroup or SLURM_JOB_ID), their state, and whether they have a GPU open. System
services do not count.

It runs `python3` on the nodes, as root through `--connect` (ssh), 16 nodes at a time. `--kill`
sends SIGTERM, and after 10 s SIGKILL, to processes that are still the ones it saw.

## How to run

    # where scontrol works and root can ssh to the nodes; not in a job
    python3 undrain_good_nodes.py --nodes 'gpu[08-11]'
    python3 undrain_good_nodes.py --kill --undrain --connect 'ssh -J gateway {node}'
    # crontab of root
    */10 * * * * python3 undrain_good_nodes.py --undrain

## A good answer

No node, or `clean` for each. `leftovers`: `--kill` ends them. `stuck`: a process waits in the
kernel (state D); restart the node. If the same node comes back again and again, check its disk,
network file systems and GPUs (gpu_health.py) first.

Exit status: 0 nothing is drained, or all nodes are clean or resumed; 1 something is left, a node
does not answer, or a signal; 2 wrong use, or Slurm does not answer.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, start
from kit.report import Report, Row, format_seconds, format_table
from kit.slurm import expand_nodelist
from kit.stop import Stop

__version__ = "0.2.0"

PROFILES = {"demo": ["--demo"], "full": []}
UNITS = dict.fromkeys(("node", "processes", "stuck", "gpu_processes", "killed"), "1")
REASON = "Kill task failed"
CONNECT = "ssh -o BatchMode=yes -o ConnectTimeout=10 {node}"
GRACE_SECONDS = 10.0
NODES_AT_ONCE = 16
FIRST_UID, NOBODY = 1000, 65534
SHOWN_PROCESSES = 5
LOGIN_NAMES = ("systemd", "(sd-pam)", "sshd", "sshd-session", "dbus-daemon")
"""What a user's login leaves behind."""
GOOD = ("clean", "undrained", "busy")

# Run by python3 (3.6 or newer) on a node; prints one line of JSON.
PROBE = r"""
import glob, json, os, re

def read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""

uptime, ticks = float(read("/proc/uptime").split()[0]), os.sysconf("SC_CLK_TCK")
processes = []
for folder in glob.glob("/proc/[0-9]*"):
    name, _, tail = read(folder + "/stat").partition("(")[2].rpartition(")")
    job = re.search(r"(?:^|\0)SLURM_JOB_ID=(\d+)", read(folder + "/environ"))
    job = job or re.search(r"/job_(\d+)", read(folder + "/cgroup"))
    try:
        fields, uid = tail.split(), os.stat(folder).st_uid
        links = [os.readlink(link) for link in glob.glob(folder + "/fd/*")]
    except OSError:
        links = []
    if fields:
        pid, started = int(folder[6:]), int(fields[19])
        processes.append({
            "pid": pid, "started": started, "state": fields[0],
            "seconds": max(0.0, uptime - started / ticks), "uid": uid, "name": name,
            "job": job.group(1) if job else "",
            "gpu": any(re.match("/dev/(nvidia|kfd)", link) for link in links),
            "command": read(folder + "/cmdline").replace("\0", " ").strip()[:200] or name,
        })
print(json.dumps({"me": os.getpid(), "processes": processes}))
"""

# Run the same way, after a line that sets TARGETS ([[pid, started], ...]) and SIGNAL.
KILL = r"""
import os
for pid, started in TARGETS:
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        if int(fields[19]) == started:
            os.kill(pid, SIGNAL)
            print(pid)
    except OSError:
        pass
"""


class Node(NamedTuple):
    """A node as sinfo shows it."""

    name: str
    state: str
    since: str
    reason: str


class Outcome(NamedTuple):
    """What became of a node; `left` are the processes on it, None where it was not looked at."""

    node: Node
    left: list[Row] | None
    verdict: str
    advice: str
    killed: int = 0


class Reach(NamedTuple):
    """How to run Python on a node. `only_job` is for the demo: whose processes count."""

    connect: Sequence[str]
    timeout: float = 60.0
    only_job: str | None = None

    def run(self, node: str, script: str) -> str:
        """What a Python script printed on a node. Raises OSError."""
        words = [word.replace("{node}", node) for word in self.connect]
        command = [*words, "python3" if words else sys.executable, "-I", "-"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True,
                              errors="replace", start_new_session=True) as process:  # fmt: skip
            try:
                out, err = process.communicate(script, timeout=self.timeout)
            except subprocess.TimeoutExpired as error:
                os.killpg(process.pid, signal.SIGKILL)
                raise OSError(f"no answer within {format_seconds(self.timeout)}") from error
        if process.returncode:
            raise OSError((err.strip().splitlines() or ["the command failed"])[-1])
        return out


def ask_slurm(*command: str) -> str:
    """What a command of Slurm printed. Raises UsageError where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{error}; run this on a login node") from error
    if done.returncode:
        raise UsageError(f"{command[0]}: {done.stderr.strip()}")
    return done.stdout


def list_nodes(names: Sequence[str] = ()) -> list[Node]:
    """All nodes, or these, each once."""
    chosen = [f"--nodes={','.join(names)}"] if names else []
    text = ask_slurm("sinfo", "--noheader", "--Node", "--format=%N|%T|%H|%E", *chosen)
    lines = (line.split("|", 3) for line in text.splitlines())
    return list({line[0]: Node(*map(str.strip, line)) for line in lines if len(line) == 4}.values())


def look_at(node: str, reach: Reach) -> list[Row]:
    """What is left on a node. Raises OSError."""
    text = reach.run(node, PROBE)
    try:
        return choose_left(json.loads(text.strip().rpartition("\n")[2]), reach.only_job)
    except ValueError as error:
        raise OSError("its answer is cut off") from error


def choose_left(seen: Row, only_job: str | None = None) -> list[Row]:
    """The processes that should not be there any more: those of users and of jobs."""

    def counts(process: Row) -> bool:
        if process["state"] in "ZX" or process["pid"] == seen["me"]:
            return False
        if only_job is not None:
            return bool(process["job"] == only_job)
        is_user = process["uid"] >= FIRST_UID and process["uid"] != NOBODY
        return bool(process["job"]) or (is_user and process["name"] not in LOGIN_NAMES)

    return sorted(filter(counts, seen["processes"]), key=lambda process: process["pid"])


def judge(left: Sequence[Row]) -> tuple[str, str]:
    """The verdict on a node, and what to do about it."""
    if any(process["state"] == "D" for process in left):
        return "stuck", "a process waits in the kernel: restart the node if it stays"
    return ("leftovers", "--kill ends them") if left else ("clean", "--undrain resumes it")


def kill_left(node: str, left: list[Row], reach: Reach, stop: Stop, killed: set[str]) -> list[Row]:
    """End what is left on a node, by SIGTERM and then by SIGKILL; what is left after that. The
    processes that were sent a signal are added to `killed`. Raises OSError."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        targets = [[process["pid"], process["started"]] for process in left]
        killed |= set(
            reach.run(node, f"TARGETS, SIGNAL = {targets}, {int(number)}\n{KILL}").split()
        )
        until = time.monotonic() + GRACE_SECONDS
        while (left := look_at(node, reach)) and time.monotonic() < until and not stop.is_due():
            time.sleep(0.5)
        if not left or stop.is_due():
            break
    return left


def undrain(node: Node) -> str:
    """Resume a node if nothing about it has changed; why it is still drained, or nothing."""
    try:
        if list_nodes([node.name]) != [node]:
            return "its state or reason changed in the meantime"
        ask_slurm("scontrol", "update", f"NodeName={node.name}", "State=RESUME")
    except UsageError as error:
        return str(error)
    return ""


def treat_node(node: Node, reach: Reach, kills: bool, undrains: bool, stop: Stop) -> Outcome | None:
    """Look at a node and do what was asked for; None where the run has to end before that."""
    if stop.is_due():
        return None
    if node.state.startswith("draining"):
        return Outcome(node, None, "busy", "it still has jobs")
    if node.state.endswith("*"):
        return Outcome(node, None, "no answer", "slurmd does not respond")
    killed: set[str] = set()
    try:
        left = look_at(node.name, reach)
        if kills and left:
            left = kill_left(node.name, left, reach, stop, killed)
    except OSError as error:
        return Outcome(node, None, "no answer", str(error), len(killed))
    verdict, advice = judge(left)
    if verdict == "clean" and undrains and not stop.is_due():
        advice = undrain(node)
        verdict = "still drained" if advice else "undrained"
    return Outcome(node, left, verdict, advice, len(killed))


def demonstrate(stop: Stop) -> list[Outcome]:
    """Leave a process behind on this machine, find it, end it, and look again. It is known by a job
    number that no job has; no other process is touched."""
    reach = Reach((), only_job=str(4_000_000_000 + os.getpid()))
    environ = {**os.environ, "SLURM_JOB_ID": str(reach.only_job)}
    process = subprocess.Popen(["sleep", "600"], env=environ, start_new_session=True)
    node = Node("this machine", "drained", "before", REASON)
    try:
        left = look_at(node.name, reach)
        before = Outcome(node, left, *judge(left))
        killed: set[str] = set()
        left = kill_left(node.name, left, reach, stop, killed)
        return [before, Outcome(node._replace(since="after"), left, *judge(left), len(killed))]
    finally:
        process.kill()
        process.wait()


def make_row(number: int, outcome: Outcome) -> Row:
    """A row of results. What was not looked at has no numbers."""
    left, node = outcome.left, outcome.node
    row: Row = {"node": number, "name": node.name, "since": node.since, "verdict": outcome.verdict}
    row |= {"processes": None, "stuck": None, "gpu_processes": None, "killed": outcome.killed}
    if left is not None:
        row["processes"] = len(left)
        row["stuck"] = sum(process["state"] == "D" for process in left)
        row["gpu_processes"] = sum(process["gpu"] for process in left)
    return row


def print_results(report: Report, outcomes: Sequence[Outcome]) -> None:
    """The table, and what is left on each node."""
    names = ("name", "since", "processes", "stuck", "gpu_processes", "killed", "verdict")
    headings = ("node", "drained", "left", "stuck", "on GPUs", "killed", "verdict", "what to do")
    rows = zip(report.rows, outcomes, strict=True)
    cells = [[*(row[name] for name in names), outcome.advice] for row, outcome in rows]
    print(format_table(headings, cells))
    for outcome in outcomes:
        for process in (outcome.left or [])[:SHOWN_PROCESSES]:
            print(
                f"{outcome.node.name}: {process['pid']} of job {process['job'] or '-'}, user "
                f"{process['uid']}, state {process['state']}, "
                f"{format_seconds(process['seconds'])} old: {process['command'][:60]!r}",
                file=sys.stderr,
            )


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(__doc__, tool="undrain_good_nodes", version=__version__, demo=PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    add("--kill", action="store_true", help="end the processes that are left")
    add("--undrain", action="store_true", help="resume clean nodes")
    add("--nodes", metavar="LIST", help="only these nodes, in Slurm's notation")
    add("--reason", default=REASON, help=f"drain reason, exactly (default: {REASON})")
    add("--connect", default=CONNECT, metavar="COMMAND",
        help=f"command that runs another one on a node, as root (default: {CONNECT})")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    options = build_parser().parse_args(arguments)
    report = Report("undrain_good_nodes", __version__, 1, UNITS, options.json)
    stop = Stop()
    stop.listen()
    if options.demo:
        outcomes = demonstrate(stop)
        ok = [outcome.verdict for outcome in outcomes] == ["leftovers", "clean"]
    else:
        names = [] if options.nodes is None else expand_nodelist(options.nodes)
        drained = [node for node in list_nodes(names) if node.state.startswith("drain")]
        nodes = [node for node in drained if node.reason == options.reason]
        if "{node}" not in options.connect:
            raise UsageError(f"--connect: '{options.connect}' names no node: write {{node}} in it")
        reach = Reach(shlex.split(options.connect))
        with ThreadPoolExecutor(NODES_AT_ONCE) as pool:
            work = (reach, options.kill, options.undrain, stop)
            found = list(pool.map(lambda node: treat_node(node, *work), nodes))
        outcomes = [outcome for outcome in found if outcome]
        ok = all(outcome.verdict in GOOD for outcome in outcomes)
        if not nodes:
            print(f'no node is drained for "{options.reason}"', file=sys.stderr)
    report.rows = [make_row(number, outcome) for number, outcome in enumerate(outcomes)]
    if outcomes:
        print_results(report, outcomes)
    report.complete = not stop.is_due()
    report.save()
    return int(not ok or not report.complete)


if __name__ == "__main__":
    start(main)
