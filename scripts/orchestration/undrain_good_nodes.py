#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which nodes did Slurm drain because a job was slow to end, and are they good again?

When processes of a job outlive SIGKILL (for UnkillableStepTimeout), Slurm drains the node with the
reason "Kill task failed". Most of these nodes are fine a minute later. This tool reports what is
left on each of them, and with `--undrain` resumes the clean ones. By default it changes nothing.

## What it looks at

Nodes drained for exactly this reason that have no jobs left and respond. On each: processes of
users (UID from 1000) and of jobs (cgroup or SLURM_JOB_ID), their state, and if a GPU is open.

It runs `python3` on 16 nodes at a time, as root through `--connect` (ssh). `--kill` sends SIGTERM,
and after 10 s SIGKILL, to processes that are still the ones it saw.

## How to run

    # where scontrol works and root can ssh to the nodes; not in a job
    python3 undrain_good_nodes.py --nodes 'gpu[08-11]'
    python3 undrain_good_nodes.py --kill --undrain --connect 'ssh -J gateway {node}'

## A good answer

No node, or `clean` for each. `leftovers`: `--kill` ends them. `stuck`: a process waits in the
kernel (state D); restart the node. If a node comes back again and again, check its disk, network
file systems and GPUs (gpu_health.py) first.

Exit status: 0 nothing is drained, or all nodes are clean or resumed; 1 something is left, or
a node does not answer; 2 usage error, or Slurm does not answer.
"""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, start
from kit.report import Report, Row, format_seconds, format_table
from kit.slurm import call_slurm, expand_nodelist

__version__ = "0.2.0"

PROFILES = {"demo": ["--demo"], "full": []}
REASON = "Kill task failed"
CONNECT = "ssh -o BatchMode=yes -o ConnectTimeout=10 {node}"
TIMEOUT_SECONDS = 60.0
NODES_AT_ONCE = 16
FIRST_UID, NOBODY = 1000, 65534
LOGIN_NAMES = ("systemd", "(sd-pam)", "sshd", "sshd-session", "dbus-daemon")
"""What a user's login leaves behind."""

# Run by python3 (3.6 or newer) on a node, after a line that sets TARGETS ([[pid, started], ...]).
# Ends the targets, and prints all processes as one line of JSON.
PROBE = r"""
import glob, json, os, re, time

def read(path, get=lambda path: open(path, errors="replace").read()):
    try:
        return get(path)
    except OSError:
        return ""

def describe(folder):
    name, _, tail = read(folder + "/stat").partition("(")[2].rpartition(")")
    job = re.search(r"(?:^|\0)SLURM_JOB_ID=(\d+)", read(folder + "/environ"))
    job = job or re.search(r"/job_(\d+)", read(folder + "/cgroup"))
    fields, links = tail.split(), glob.glob(folder + "/fd/*")
    uptime, ticks = float(read("/proc/uptime").split()[0]), os.sysconf("SC_CLK_TCK")
    return {
        "pid": int(folder[6:]), "started": int(fields[19]), "state": fields[0], "name": name,
        "seconds": max(0.0, uptime - int(fields[19]) / ticks), "uid": os.stat(folder).st_uid,
        "job": job.group(1) if job else "",
        "gpu": any(re.match("/dev/(nvidia|kfd)", read(l, os.readlink)) for l in links),
        "command": read(folder + "/cmdline").replace("\0", " ").strip()[:200] or name,
    }

def find():
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            yield describe(folder)
        except (OSError, IndexError):  # it has ended
            pass

def find_targets():
    return [one["pid"] for one in find()
            if [one["pid"], one["started"]] in TARGETS and one["state"] not in "ZX"]

killed = len(find_targets()) if TARGETS else 0
for number, seconds in ((15, 10), (9, 5)) if TARGETS else ():
    for pid in find_targets():
        read(pid, lambda pid: os.kill(pid, number))
    until = time.time() + seconds
    while find_targets() and time.time() < until:
        time.sleep(0.2)
print(json.dumps({"me": os.getpid(), "killed": killed, "processes": list(find())}))
"""


class Node(NamedTuple):
    """A node as sinfo shows it."""

    name: str
    state: str
    since: str
    reason: str


def list_nodes(names: Sequence[str] = ()) -> list[Node]:
    """All nodes, or these, each once. Raises OSError where Slurm does not answer."""
    chosen = [f"--nodes={','.join(names)}"] if names else []
    text = call_slurm("sinfo", "--noheader", "--Node", "--format=%N|%T|%H|%E", *chosen)
    nodes = (Node(*map(str.strip, line.split("|", 3))) for line in text.splitlines())
    return list(dict.fromkeys(nodes))


def look_at(node: str, connect: Sequence[str], ended: Sequence[Row] = ()) -> tuple[list[Row], int]:
    """End these processes on a node by SIGTERM, and 10 s later by SIGKILL; what is left there, and
    how many were ended. An empty `connect` means this machine. Raises OSError."""
    known = [[process["pid"], process["started"]] for process in ended]
    words = [word.replace("{node}", node) for word in connect]
    command = [*words, "python3" if words else sys.executable, "-I", "-"]
    try:
        done = subprocess.run(
            command, input=f"TARGETS = {known}\n{PROBE}", capture_output=True, text=True,
            errors="replace", timeout=TIMEOUT_SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise OSError(f"no answer within {format_seconds(TIMEOUT_SECONDS)}") from error
    answer = done.stdout.strip().rpartition("\n")[2]
    if not answer.endswith("]}"):
        raise OSError((done.stderr.strip().splitlines() or ["its answer is cut off"])[-1])
    seen = json.loads(answer)
    return choose_left(seen), seen["killed"]


def choose_left(seen: Row) -> list[Row]:
    """The processes that should not be there any more: those of users and of jobs."""

    def counts(one: Row) -> bool:
        is_user = one["uid"] >= FIRST_UID and one["uid"] != NOBODY
        belongs = one["job"] or (is_user and one["name"] not in LOGIN_NAMES)
        return belongs and one["state"] not in "ZX" and one["pid"] != seen["me"]

    return [process for process in seen["processes"] if counts(process)]


def judge(left: Sequence[Row]) -> tuple[str, str]:
    """The verdict on a node, and what to do about it."""
    if any(process["state"] == "D" for process in left):
        return "stuck", "a process waits in the kernel: restart the node if it stays"
    return ("leftovers", "--kill ends them") if left else ("clean", "--undrain resumes it")


def undrain(node: Node) -> str:
    """Resume a node if nothing about it has changed; why it is still drained, or nothing."""
    try:
        if list_nodes([node.name]) != [node]:
            return "its state or reason changed in the meantime"
        call_slurm("scontrol", "update", f"NodeName={node.name}", "State=RESUME")
    except OSError as error:
        return str(error)
    return ""


def make_row(node: Node, verdict: str, advice: str, left: Sequence[Row] | None = None,
             killed: int = 0) -> Row:  # fmt: skip
    """A row of results; without `left`, because the node was not looked at, it has no counts."""
    counts = dict.fromkeys(("processes", "stuck", "gpu_processes"))
    if left is not None:
        stuck = sum(process["state"] == "D" for process in left)
        on_gpus = sum(process["gpu"] for process in left)
        counts = {"processes": len(left), "stuck": stuck, "gpu_processes": on_gpus}
    return {"name": node.name, "since": node.since, **counts, "killed": killed,
            "verdict": verdict, "advice": advice}  # fmt: skip


def treat_node(node: Node, connect: Sequence[str], kills: bool, undrains: bool) -> Row:
    """Look at a node, do what was asked for, and name what is left; the row of the node."""
    if node.state.endswith("*"):
        return make_row(node, "no answer", "slurmd does not respond")
    killed = 0
    try:
        left, _ = look_at(node.name, connect)
        if kills and left:
            left, killed = look_at(node.name, connect, left)
    except OSError as error:
        return make_row(node, "no answer", str(error))
    for one in left[:5]:
        who = f"{one['pid']} of job {one['job'] or '-'}, user {one['uid']}"
        age = f"state {one['state']}, {format_seconds(one['seconds'])} old"
        sys.stderr.write(f"{node.name}: {who}, {age}: {one['command'][:60]!r}\n")
    verdict, advice = judge(left)
    if verdict == "clean" and undrains:
        advice = undrain(node)
        verdict = "still drained" if advice else "undrained"
    return make_row(node, verdict, advice, left, killed)


def demonstrate() -> list[Row]:
    """Leave a process behind on this machine, find it, end it, and find nothing of it; no other
    process is touched."""
    environ = {**os.environ, "SLURM_JOB_ID": "1"}
    rows: list[Row] = []
    left: list[Row] = []
    with subprocess.Popen(["sleep", "60"], env=environ) as process:
        for since in ("before", "after"):
            left, killed = look_at("", (), left)
            left = [one for one in left if one["pid"] == process.pid]
            node = Node("this machine", "drained", since, REASON)
            rows.append(make_row(node, *judge(left), left, killed))
    return rows


def build_parser() -> Parser:
    parser = Parser(__doc__, tool="undrain_good_nodes", version=__version__, demo=PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    add("--kill", action="store_true", help="end the processes that are left")
    add("--undrain", action="store_true", help="resume clean nodes")
    add("--nodes", metavar="LIST", help="only these nodes, in Slurm's notation")
    add("--connect", default=CONNECT, metavar="COMMAND",
        help=f"command that runs another one on a node, as root (default: {CONNECT})")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    report = Report("undrain_good_nodes", __version__, 1, options.json)
    if options.demo:
        rows = demonstrate()
        good = [row["verdict"] for row in rows] == ["leftovers", "clean"]
    else:
        if "{node}" not in options.connect:
            raise UsageError(f"--connect: '{options.connect}' names no node: write {{node}} in it")
        work = (shlex.split(options.connect), options.kill, options.undrain)
        names = [] if options.nodes is None else expand_nodelist(options.nodes)
        try:
            drained = [node for node in list_nodes(names) if node.state.startswith("drained")]
        except OSError as error:
            raise UsageError(str(error)) from error
        nodes = [node for node in drained if node.reason == REASON]
        with ThreadPoolExecutor(NODES_AT_ONCE) as pool:
            rows = list(pool.map(lambda node: treat_node(node, *work), nodes))
        good = all(row["verdict"] in ("clean", "undrained") for row in rows)
    if rows:
        headings = ["node", "drained", "left", "stuck", "on GPUs", "killed", "verdict"]
        print(format_table([*headings, "what to do"], [list(row.values()) for row in rows]))
    else:
        print(f'no node is drained for "{REASON}"', file=sys.stderr)
    for number, row in enumerate(rows):
        del row["advice"]
        report.rows.append({"node": number, **row})
    report.complete = True
    report.save()
    return int(not good)


if __name__ == "__main__":
    start(main)
