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

A process that survives SIGKILL is in the kernel: state D, waiting for a disk, a network file
system or a driver. It ends when the wait ends, or when the node restarts.

## What it looks at

- Nodes that are drained for exactly `--reason` and respond. Draining nodes still have jobs.
- Processes of users (`--first-uid`) and of jobs (by cgroup, by SLURM_JOB_ID, or below slurmstepd):
  their state, and whether they have a GPU open (/dev/nvidia*, /dev/kfd) or nvidia-smi lists them.
  System services do not count.
- GPU memory that no process holds, where nvidia-smi is installed: more than 2 GiB is a finding,
  and so is an nvidia-smi that hangs.

It runs `python3` on the nodes, as root through `--connect` (ssh), 16 nodes at a time. `--kill`
sends SIGTERM, and after 10 s SIGKILL, to processes that are still the ones it saw. `--undrain`
leaves a node alone whose reason has changed in the meantime.

## How to run

    # where scontrol works and root can ssh to the nodes; not in a job
    python3 undrain_good_nodes.py --nodes 'gpu[08-11]'
    python3 undrain_good_nodes.py --kill --undrain
    # pdsh instead of ssh
    python3 undrain_good_nodes.py --connect 'pdsh -N -R ssh -w {node}'
    # crontab of root
    */10 * * * * python3 undrain_good_nodes.py --undrain

## A good answer

No node, or `clean` for each. `leftovers`: `--kill` ends them. `stuck`: restart the node (`scontrol
reboot ASAP nextstate=resume NODE`). `GPU memory`: reset the GPUs or restart. If the same node comes
back again and again, check its disk, network file systems and GPUs (gpu_health.py) first.

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
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, duration, positive_int, start
from kit.report import Report, Row, format_bytes, format_seconds, format_table
from kit.slurm import compress_nodelist, expand_nodelist
from kit.stop import Stop

__version__ = "0.2.0"

PROFILES = {"demo": ["--demo"], "full": []}
UNITS = {
    **dict.fromkeys(("node", "processes", "stuck", "gpu_processes", "killed"), "1"),
    "gpu_bytes": "B",
}
REASON = "Kill task failed"
CONNECT = "ssh -o BatchMode=yes -o ConnectTimeout=10 {node}"
GRACE_SECONDS = 10.0
NODES_AT_ONCE = 16
GPU_BYTES = 2 << 30
NOBODY = 65534
SHOWN_PROCESSES = 5
LOGIN_NAMES = ("systemd", "(sd-pam)", "sshd", "sshd-session", "dbus-daemon")
"""What a user's login leaves behind."""
GOOD = ("clean", "undrained", "busy")

# Run by python3 (3.6 or newer) on a node; prints one line of JSON.
PROBE = r"""
import glob, json, os, re, subprocess

def read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""

def ask_smi(query):
    command = ["nvidia-smi", query, "--format=csv,noheader,nounits"]
    text = subprocess.check_output(command, timeout=20, stderr=subprocess.DEVNULL).decode()
    return [re.split(", *", line.strip()) for line in text.splitlines() if line.strip()]

uptime, ticks = float(read("/proc/uptime").split()[0]), os.sysconf("SC_CLK_TCK")
smi = {"pids": [], "free_mib": None, "failure": ""}
try:
    used = sum(int(line[0]) for line in ask_smi("--query-gpu=memory.used"))
    apps = ask_smi("--query-compute-apps=pid,used_memory")
    held = sum(int(line[1]) for line in apps if line[1].isdigit())
    smi = {"pids": [int(line[0]) for line in apps], "free_mib": max(0, used - held), "failure": ""}
except subprocess.SubprocessError as error:
    smi["failure"] = "nvidia-smi hangs or fails: %s" % type(error).__name__
except OSError:
    pass  # no nvidia-smi
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
            "pid": pid, "parent": int(fields[1]), "started": started, "state": fields[0],
            "seconds": max(0.0, uptime - started / ticks), "uid": uid, "name": name,
            "job": job.group(1) if job else "",
            "gpu": pid in smi["pids"] or any(re.match("/dev/(nvidia|kfd)", l) for l in links),
            "command": read(folder + "/cmdline").replace("\0", " ").strip()[:200] or name,
        })
print(json.dumps({"me": os.getpid(), "processes": processes, "smi": smi}))
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


class Look(NamedTuple):
    """What is left on a node: processes (None: nothing was seen, and why), and bytes of GPU memory
    that no process holds (None: no nvidia-smi)."""

    processes: list[dict[str, Any]] | None
    gpu_bytes: int | None = None
    failure: str = ""


class Outcome(NamedTuple):
    """What became of a node."""

    node: Node
    look: Look
    verdict: str
    advice: str
    killed: int = 0


class Reach(NamedTuple):
    """How to run Python on a node, and which processes count. `only_job` is for the demo."""

    connect: Sequence[str]
    timeout: float = 60.0
    first_uid: int = 1000
    only_job: str | None = None

    def run(self, node: str, script: str) -> tuple[str, str]:
        """What a Python script printed on a node, and why that failed."""
        words = [word.replace("{node}", node) for word in self.connect]
        try:
            process = subprocess.Popen(
                [*words, "python3" if words else sys.executable, "-I", "-"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            return "", f"could not start {words[0]}: {error.strerror}"
        with process:
            try:
                out, err = process.communicate(script.encode(), timeout=self.timeout)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return "", f"no answer within {format_seconds(self.timeout)}"
        complaint = err.decode(errors="replace").strip().splitlines()[-1:]
        failed = process.returncode and (complaint or [f"status {process.returncode}"])[0]
        return out.decode(errors="replace"), failed or ""


def ask_slurm(*command: str) -> str:
    """What a command of Slurm printed. Raises UsageError where it is missing or fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    except OSError as error:
        raise UsageError(f"{command[0]}: {error.strerror}; run this on a login node") from error
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"{command[0]} did not answer within 60 s") from error
    except subprocess.CalledProcessError as error:
        raise UsageError(f"{command[0]}: {error.stderr.strip()}") from error
    return done.stdout


def list_nodes(names: Sequence[str] = ()) -> list[Node]:
    """All nodes, or these, each once."""
    chosen = [f"--nodes={','.join(names)}"] if names else []
    text = ask_slurm("sinfo", "--noheader", "--Node", "--format=%N|%T|%H|%E", *chosen)
    lines = (line.split("|", 3) for line in text.splitlines())
    return list({line[0]: Node(*map(str.strip, line)) for line in lines if len(line) == 4}.values())


def look_at(node: str, reach: Reach) -> Look:
    """What is left on a node."""
    text, failure = reach.run(node, PROBE)
    try:
        return read_probe(json.loads(text.strip().rpartition("\n")[2]), reach)
    except ValueError:
        return Look(None, failure=failure or "its answer is cut off")


def read_probe(seen: dict[str, Any], reach: Reach) -> Look:
    """The processes that should not be there any more."""
    by_pid = {process["pid"]: process for process in seen["processes"]}

    def list_above(pid: int) -> list[int]:
        """A process and its ancestors."""
        above = [pid]
        while (parent := by_pid.get(above[-1], {}).get("parent", 0)) > 1 and parent not in above:
            above.append(parent)
        return above

    daemons = [process for process in by_pid.values() if process["name"].startswith("slurmstepd")]
    # slurmstepd infinity is a service of newer versions, which holds a cgroup.
    steps = {process["pid"] for process in daemons if "infinity" not in process["command"]}
    own = list_above(seen["me"])

    def counts(process: dict[str, Any]) -> bool:
        above = list_above(process["pid"])
        if process["state"] in "ZX" or process["pid"] in (1, *own) or seen["me"] in above:
            return False
        if reach.only_job is not None:
            return bool(process["job"] == reach.only_job)
        is_user = process["uid"] >= reach.first_uid and process["uid"] != NOBODY
        is_user = is_user and process["name"] not in LOGIN_NAMES
        return is_user or bool(process["job"]) or not steps.isdisjoint(above)

    left = [process for pid, process in sorted(by_pid.items()) if counts(process)]
    free = seen["smi"]["free_mib"]
    return Look(left, None if free is None else free << 20, seen["smi"]["failure"])


def judge(look: Look) -> tuple[str, str]:
    """The verdict on a node, and what to do about it."""
    if look.failure:
        return "no answer", look.failure
    if any(process["state"] == "D" for process in look.processes or []):
        return "stuck", "a process waits in the kernel: restart the node if it stays"
    if look.processes:
        return "leftovers", "--kill ends them"
    if look.gpu_bytes is not None and look.gpu_bytes > GPU_BYTES:
        return "GPU memory", f"{format_bytes(look.gpu_bytes)} that no process holds: reset the GPUs"
    return "clean", "--undrain resumes it"


def kill_left(node: str, look: Look, reach: Reach, stop: Stop) -> tuple[Look, int]:
    """End what is left on a node, by SIGTERM and then by SIGKILL; what is left after that, and how
    many processes were sent a signal."""
    killed: set[str] = set()
    for number in (signal.SIGTERM, signal.SIGKILL):
        targets = [[process["pid"], process["started"]] for process in look.processes or []]
        text, _ = reach.run(node, f"TARGETS, SIGNAL = {targets}, {int(number)}\n{KILL}")
        killed |= set(text.split())
        until = time.monotonic() + GRACE_SECONDS
        while True:
            look = look_at(node, reach)
            if not look.processes or stop.is_due():
                return look, len(killed)
            if time.monotonic() > until:
                break
            time.sleep(0.5)
    return look, len(killed)


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
        return Outcome(node, Look(None), "busy", "it still has jobs")
    if node.state.endswith("*"):
        return Outcome(node, Look(None), "no answer", "slurmd does not respond")
    look, killed = look_at(node.name, reach), 0
    if kills and look.processes and not stop.is_due():
        look, killed = kill_left(node.name, look, reach, stop)
    verdict, advice = judge(look)
    if killed and verdict == "leftovers":
        advice = "they survived --kill"
    if verdict == "clean" and undrains and not stop.is_due():
        advice = undrain(node)
        verdict = "still drained" if advice else "undrained"
    return Outcome(node, look, verdict, advice, killed)


def demonstrate(timeout: float, stop: Stop) -> list[Outcome]:
    """Leave a process behind on this machine, find it, end it, and look again. It is known by a job
    number that no job has; no other process is touched."""
    reach = Reach((), timeout, only_job=str(4_000_000_000 + os.getpid()))
    environ = {**os.environ, "SLURM_JOB_ID": str(reach.only_job)}
    left = subprocess.Popen(["sleep", "600"], env=environ, start_new_session=True)
    node = Node("this machine", "drained", "before", REASON)
    try:
        look = look_at(node.name, reach)
        before = Outcome(node, look, *judge(look))
        look, killed = kill_left(node.name, look, reach, stop)
        verdict, _ = judge(look)
        return [before, Outcome(node._replace(since="after"), look, verdict, "", killed)]
    finally:
        left.kill()
        left.wait()


def make_row(number: int, outcome: Outcome) -> Row:
    """A row of results. What was not looked at has no numbers."""
    left = outcome.look.processes
    return {
        "node": number,
        "name": outcome.node.name,
        "since": outcome.node.since,
        "verdict": outcome.verdict,
        "processes": None if left is None else len(left),
        "stuck": None if left is None else sum(process["state"] == "D" for process in left),
        "gpu_processes": None if left is None else sum(process["gpu"] for process in left),
        "gpu_bytes": outcome.look.gpu_bytes,
        "killed": outcome.killed,
    }


def print_results(report: Report, outcomes: Sequence[Outcome]) -> None:
    """The table, and what is left on each node."""
    names = ("name", "since", "processes", "stuck", "gpu_processes", "killed", "verdict")
    headings = ("node", "drained", "left", "stuck", "on GPUs", "killed", "verdict", "what to do")
    cells = [
        [*(row[name] for name in names), outcome.advice or None]
        for row, outcome in zip(report.rows, outcomes, strict=True)
    ]
    print(format_table(headings, cells))
    for outcome in outcomes:
        left = outcome.look.processes or []
        for process in left[:SHOWN_PROCESSES]:
            job = f" of job {process['job']}" if process["job"] else ""
            gpu = ", on a GPU" if process["gpu"] else ""
            command = "".join(c if c.isprintable() else "?" for c in process["command"][:60])
            print(
                f"{outcome.node.name}: {process['pid']}{job}, user {process['uid']}, state "
                f"{process['state']}{gpu}, {format_seconds(process['seconds'])} old: {command}",
                file=sys.stderr,
            )
        if len(left) > SHOWN_PROCESSES:
            print(f"{outcome.node.name}: {len(left) - SHOWN_PROCESSES} more", file=sys.stderr)
    unseen = [o.node.name for o in outcomes if o.look.processes is None]
    if unseen:
        report.note(f"not looked at: {compress_nodelist(unseen)}")


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
    add("--timeout", type=duration, default=60.0, help="timeout per look at a node (default: 60s)")
    add("--first-uid", type=positive_int, default=1000, metavar="UID",
        help="lowest UID of a user (default: 1000)")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    options = build_parser().parse_args(arguments)
    report = Report("undrain_good_nodes", __version__, 1, UNITS, options.json)
    stop = Stop()
    stop.listen()
    if options.demo:
        outcomes = demonstrate(options.timeout, stop)
        ok = [outcome.verdict for outcome in outcomes] == ["leftovers", "clean"]
    else:
        names = [] if options.nodes is None else expand_nodelist(options.nodes)
        known = list_nodes(names)
        if unknown := sorted({*names} - {node.name for node in known}):
            raise UsageError(f"--nodes: sinfo shows no node {unknown[0]}")
        drained = [node for node in known if node.state.startswith("drain")]
        nodes = [node for node in drained if node.reason == options.reason]
        if "{node}" not in options.connect:
            raise UsageError(f"--connect: '{options.connect}' names no node: write {{node}} in it")
        reach = Reach(shlex.split(options.connect), options.timeout, options.first_uid)
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
    if stop.reason:
        report.note(f"{stop.reason}: nodes that were not looked at stay as they are")
    report.save()
    return int(not ok or not report.complete)


if __name__ == "__main__":
    start(main)
