#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which nodes did Slurm drain because a job was slow to end, and are they good again?

When the processes of a job are still there some time after SIGKILL (UnkillableStepTimeout), Slurm
drains the node with the reason "Kill task failed". Most of these nodes are fine a minute later and
wait for an administrator. This tool looks at each of them, says what is left there, and with
--undrain gives the clean ones back. By itself it changes nothing.

Physics
    A process that SIGKILL does not end is inside the kernel: state D, waiting for a disk, a network
    file system or a driver. No signal helps; when the wait ends, so does the process. If it does
    not, nothing but a restart helps.

What is looked at
    nodes       drained (not draining: these still have jobs) for exactly --reason, and answering
    processes   of users (--first_uid) and of jobs (by cgroup, by SLURM_JOB_ID, or below a
                slurmstepd), each with its state, whether it has a GPU open (/dev/nvidia*, /dev/kfd)
                and whether nvidia-smi lists it; system services and this tool itself are not
    GPU memory  where nvidia-smi is there: more than --gpu_memory in use that no process has
    How: a short shell script, over --connect (ssh) to each node, as root; several nodes at a time,
    none for longer than --timeout. A hung nvidia-smi is a finding too. Of a node that could not be
    looked at, or has jobs, there are no numbers: a dash, and null in the JSON.
What is done
    nothing         by itself: the table says what would be
    --kill          SIGTERM to what is left, after --grace SIGKILL; only to processes that started
                    when they were seen
    --undrain       state=resume for the nodes that are clean, in the end; if meanwhile somebody
                    has given the node another reason, it stays drained

How to run
    a look          python undrain_good_nodes.py
    for real        python undrain_good_nodes.py --kill --undrain
    some nodes      python undrain_good_nodes.py --nodes 'gpu[08-11]' --undrain
    other shells    --connect 'pdsh -N -R ssh -w {node}'
    each 10 min     */10 * * * * python3 undrain_good_nodes.py --undrain
    Slurm           on the node of slurmctld, or where scontrol and ssh work as root; not in a job
    pdsh            not needed: it goes to all nodes itself

A good answer: no node, or `clean` for each. `leftovers`: --kill ends them. `stuck`: restart the
node (scontrol reboot ASAP nextstate=resume). The same node again and again: look at its disk, its
network file systems and its GPUs (gpu_health.py) before it is given back.

Seen running so far: on a Slurm that drained a node itself because of a process stuck in the kernel;
what nvidia-smi prints is read as its documentation has it.

Exit status: 0 nothing drained, or all clean or undrained; 1 something is left, a node does not
answer, or stopped by a signal; 2 wrong use, or Slurm does not answer.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import itertools
import json
import math
import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {
    "toy": ["--demonstrate"],
    "full": [],
}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "node": "1",
    "processes": "1",
    "stuck": "1",
    "gpu_processes": "1",
    "gpu_bytes": "B",
    "killed": "1",
}

REASON = "Kill task failed"
CONNECT = "ssh -o BatchMode=yes -o ConnectTimeout=10 {node}"
# Slurm itself takes no more in one range.
MOST_HOSTS = 65536
# The user that nobody is: services run as it.
NOBODY = 65534
SMI_SECONDS = 20
SHOWN_PROCESSES = 5
# What a user's login leaves behind, and no job.
SESSION_NAMES = ("systemd", "(sd-pam)", "sshd", "dbus-daemon")
GOOD_VERDICTS = ("clean", "undrained", "busy")

# Run by sh on a node; sections begin with ##. What users can write into, the command lines, comes
# last, where it cannot pass for anything else; and the name of a process, which may have an end of
# line in it, stays on one line.
PROBE = """
LC_ALL=C; export LC_ALL; cd /
echo "## me $$"
echo "## uptime"; cat /proc/uptime; getconf CLK_TCK
echo "## stat"; grep -azhs '' /proc/[0-9]*/stat | tr '\\n\\0' ' \\n'
echo "## uid"; stat -c '%n %u' /proc/[0-9]* 2>/dev/null
echo "## job"; grep -azoHs '^SLURM_JOB_ID=[0-9]*' /proc/[0-9]*/environ | tr '\\0' '\\n'
grep -sHo '/job_[0-9]*' /proc/[0-9]*/cgroup
echo "## smi"
if command -v nvidia-smi >/dev/null; then
  ask() { timeout -s KILL SMI_SECONDS nvidia-smi "$1" --format=csv,noheader,nounits 2>/dev/null; }
  gpus=$(ask --query-gpu=memory.used) && apps=$(ask --query-compute-apps=pid,used_memory)
  echo "status $?"
  echo "$gpus" | sed 's/^/gpu /'; echo "$apps" | sed 's/^/app /'
fi
echo "## fd"; ls -l /proc/[0-9]*/fd 2>/dev/null | grep -E '^/proc/|-> /dev/(nvidia|kfd)'
echo "## end"
echo "## cmdline"; head -c 200 /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '
""".replace("SMI_SECONDS", str(SMI_SECONDS))

# One line for each process: its number, the time it started, the signal.
KILL = """
LC_ALL=C; export LC_ALL
end() {
  now=$(tr '\\n' ' ' 2>/dev/null <"/proc/$1/stat" | sed 's/.*) //' | cut -d ' ' -f 20)
  if [ "$now" = "$2" ]; then kill -"$3" "$1" && echo "killed $1"; fi
}
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


class DrainedNode(NamedTuple):
    """A node as sinfo shows it."""

    name: str
    state: str
    since: str
    reason: str


class LeftProcess(NamedTuple):
    """A process on a node that should have none of its kind."""

    number: int
    started: int
    state: str
    seconds: float
    user: int
    job: str
    has_gpu: bool
    command: str

    @property
    def is_stuck(self) -> bool:
        """Whether it waits inside the kernel, where no signal reaches it."""
        return self.state == "D"


class NodeLook(NamedTuple):
    """What was seen on a node: processes, GPU memory that nobody has, or why nothing was seen."""

    processes: tuple[LeftProcess, ...] = ()
    gpu_bytes: int | None = None
    failure: str = ""
    # Whether the processes were listed, so that none is known to be none.
    is_read: bool = False


class NodeOutcome(NamedTuple):
    """What became of a node."""

    node: DrainedNode
    look: NodeLook
    verdict: str
    advice: str
    killed: int = 0


class DrainSettings(NamedTuple):
    """How nodes are reached and judged."""

    connect: tuple[str, ...]
    timeout: float = 60.0
    grace: float = 10.0
    first_uid: int = 1000
    gpu_memory: int = 2 << 30
    kills: bool = False
    undrains: bool = False
    reason: str = REASON
    only_job: str | None = None


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def parse_duration(text: str) -> float:
    """Seconds from `90`, `45s`, `10m`, `1h30m`."""
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", text.strip())
    if not text.strip() or found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no duration: write 90s, 10m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    total = 3600 * hours + 60 * minutes + seconds
    if total <= 0:
        raise argparse.ArgumentTypeError(f"'{text}': a duration has to be longer than nothing")
    return total


def parse_bytes(text: str) -> int:
    """Bytes from `32KiB`, `16G` (binary, as nccl-tests has it), `4GB` (decimal), or `8`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)(B?)", text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no size: write 32KiB, 4MB or 16GiB")
    number, prefix, binary, unit = found.groups()
    base = 1000 if unit and not binary else 1024
    size = float(number) * base ** " KMGT".index(prefix.upper() or " ")
    if (binary and not prefix) or size < 1 or size != int(size):
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number of bytes from 1")
    return int(size)


def split_nodelist(text: str) -> list[str]:
    """The parts of a list of hosts, at the commas outside of brackets. Raises WrongUse."""
    part = r"(?:[^,\[\]\s]|\[[^\[\]\s]*\])+"
    if not re.fullmatch(f"{part}(?:,+{part})*,*", text.strip()):
        raise WrongUse(f"'{text}' is no list of hosts: write node[01-04,7] or a,b,c")
    return re.findall(part, text)


def read_number_range(text: str, item: str) -> range:
    """`7` or `01-04` as numbers. Raises WrongUse for anything else, and for too many."""
    found = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", item, re.ASCII)
    if found is None:
        raise WrongUse(f"'{text}' is no list of hosts: '{item}' is no range of numbers")
    first, last = int(found.group(1)), int(found.group(2) or found.group(1))
    if last < first:
        raise WrongUse(f"'{text}' is no list of hosts: '{item}' runs backwards")
    if last - first >= MOST_HOSTS:
        raise WrongUse(f"'{text}' has more than {MOST_HOSTS} hosts")
    return range(first, last + 1)


def expand_nodelist(text: str) -> list[str]:
    """The hosts of a list as Slurm writes it, `node[01-03,7],login` say, in Slurm's order.

    Raises WrongUse where it is none.
    """
    hosts: list[str] = []
    for part in split_nodelist(text):
        pieces = re.split(r"\[([^\]]*)\]", part)
        texts, brackets = pieces[::2], pieces[1::2]
        choices = []
        for bracket in brackets:
            items = [(item, read_number_range(part, item)) for item in bracket.split(",")]
            width = {item: len(item.partition("-")[0]) for item, _ in items}
            choices.append([str(n).zfill(width[item]) for item, numbers in items for n in numbers])
        if len(hosts) + math.prod(map(len, choices)) > MOST_HOSTS:
            raise WrongUse(f"'{text}' has more than {MOST_HOSTS} hosts")
        # Slurm counts the last bracket fastest, then the first, the second and so on.
        order = [*range(len(choices) - 2, -1, -1), len(choices) - 1] if choices else []
        for numbers in itertools.product(*(choices[place] for place in order)):
            by_place = dict(zip(order, numbers, strict=True))
            names = [by_place[place] for place in range(len(choices))] + [""]
            hosts.append("".join(map("".join, zip(texts, names, strict=True))))
    return hosts


def parse_connect(text: str) -> tuple[str, ...]:
    """The words of a command that runs another one on {node}."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"'{text}': {str(error).lower()}") from error
    if not any("{node}" in word for word in words):
        raise argparse.ArgumentTypeError(f"'{text}' names no node: write {{node}} in it")
    return words


def ask_slurm_command(*command: str) -> str:
    """What a command of Slurm printed. Raises WrongUse where it is not here or fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except FileNotFoundError as error:
        raise WrongUse(f"{command[0]} is not here: run this where Slurm's commands are") from error
    except subprocess.TimeoutExpired as error:
        raise WrongUse(f"{command[0]} did not answer within 60 s") from error
    if done.returncode:
        words = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        raise WrongUse(f"{command[0]}: {words[0]}")
    return done.stdout


def parse_sinfo(text: str) -> list[DrainedNode]:
    """The nodes of `sinfo --Node --format=%N|%T|%H|%E`, each once."""
    nodes: dict[str, DrainedNode] = {}
    for line in text.splitlines():
        fields = line.split("|", 3)
        if len(fields) == 4:
            nodes.setdefault(fields[0], DrainedNode(*(field.strip() for field in fields)))
    return list(nodes.values())


def list_nodes(names: Sequence[str] = ()) -> list[DrainedNode]:
    """All nodes, or these. Raises WrongUse."""
    chosen = [f"--nodes={','.join(names)}"] if names else []
    command = ("sinfo", "--noheader", "--Node", "--format=%N|%T|%H|%E")
    return parse_sinfo(ask_slurm_command(*command, *chosen))


def is_drained_for(node: DrainedNode, reason: str) -> bool:
    """Whether a node was taken out for this reason and no other."""
    return node.reason == reason and node.state.rstrip("*~#!%$@^-").startswith("drain")


def run_on_node(settings: DrainSettings, node: str, script: str, seconds: float) -> tuple[str, str]:
    """What a shell script printed on a node, and why it could not be run, if so."""
    command = [*(word.replace("{node}", node) for word in settings.connect), "sh", "-s"]
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        return "", f"{command[0]} could not be started: {error.strerror}"
    try:
        said, complaint = process.communicate(script.encode(), timeout=seconds)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        # Not waited for again: what hangs on the node may keep the pipes open.
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=5)
        return "", f"no answer within {seconds:.0f} s"
    text = said.decode("utf-8", "replace")
    if process.returncode:
        words = complaint.decode("utf-8", "replace").strip().splitlines()[-1:]
        return text, words[0][:200] if words else f"status {process.returncode}"
    return text, ""


def split_sections(text: str) -> dict[str, list[str]]:
    """The lines of each section of the probe; the first section of a name counts."""
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("## ") and "cmdline" not in sections:
            name, _, rest = line[3:].partition(" ")
            lines = [rest] if rest else []
            lines = sections.setdefault(name, lines)
        else:
            lines.append(line)
    return sections


def parse_stat(line: str) -> tuple[int, str, str, int, int] | None:
    """Number, name, state, parent and start of a line of /proc/PID/stat; None for another line."""
    head, _, tail = line.rpartition(")")
    number, _, name = head.partition(" (")
    fields = tail.split()
    if not number.isdigit() or len(fields) < 20:
        return None
    return int(number), name, fields[0], int(fields[1]), int(fields[19])


def parse_numbers_by_process(lines: Iterable[str], pattern: str) -> dict[int, str]:
    """The last group of a pattern by its first, a process number; the first line of each counts."""
    found: dict[int, str] = {}
    for line in lines:
        match = re.fullmatch(pattern, line)
        if match:
            found.setdefault(int(match.group(1)), match.group(2))
    return found


def parse_commands(lines: Iterable[str]) -> dict[int, str]:
    """The command of each process, without what a terminal would obey."""
    commands: dict[int, str] = {}
    number = 0
    for line in lines:
        heading = re.fullmatch(r"==> /proc/(\d+)/cmdline <==", line)
        if heading:
            number = int(heading.group(1))
        elif line.strip() and number not in commands:
            commands[number] = "".join(c if c.isprintable() else "?" for c in line.strip())
    return commands


def find_gpu_holders(lines: Iterable[str]) -> set[int]:
    """Processes that have a device file of a GPU open."""
    holders: set[int] = set()
    number = 0
    for line in lines:
        heading = re.fullmatch(r"/proc/(\d+)/fd:", line)
        if heading:
            number = int(heading.group(1))
        elif "-> /dev/" in line:
            holders.add(number)
    return holders


def list_family(parents: Mapping[int, int], number: int) -> set[int]:
    """A process, those that it comes from, and those that come from it."""
    family = {number}
    above = parents.get(number, 0)
    while above > 1 and above not in family:
        family.add(above)
        above = parents.get(above, 0)
    return family | gather_family(parents, {number})


def gather_family(parents: Mapping[int, int], roots: set[int]) -> set[int]:
    """These processes and all that come from them."""
    found = set(roots)
    grown = True
    while grown:
        more = {number for number, parent in parents.items() if parent in found} - found
        found |= more
        grown = bool(more)
    return found


def read_smi(lines: Sequence[str]) -> tuple[set[int], int | None, str]:
    """Processes that nvidia-smi lists, bytes in use that none of them has, and why it failed.

    Without nvidia-smi: nothing, None and no failure.
    """
    statuses = [line.split()[1] for line in lines if line.startswith("status ")]
    if not statuses:
        return set(), None, ""
    if statuses[0] != "0":
        hung = statuses[0] in ("124", "137")
        told = f"hung for {SMI_SECONDS} s" if hung else f"failed with status {statuses[0]}"
        return set(), None, f"nvidia-smi {told}"
    used = sum(int(n) for line in lines for n in re.findall(r"^gpu (\d+)$", line))
    apps = [m for line in lines for m in re.findall(r"^app (\d+), (\d+|\[N/A\])$", line)]
    held = sum(int(amount) for _, amount in apps if amount.isdigit())
    return {int(number) for number, _ in apps}, max(0, used - held) << 20, ""


def read_probe(text: str, settings: DrainSettings) -> NodeLook:
    """What the probe's text says of a node."""
    sections = split_sections(text)
    if "end" not in sections or not sections.get("me"):
        return NodeLook(failure="the answer is cut off")
    stats = [stat for stat in map(parse_stat, sections.get("stat", [])) if stat]
    parents = {number: parent for number, _, _, parent, _ in stats}
    users = parse_numbers_by_process(sections.get("uid", []), r"/proc/(\d+) (\d+)")
    pattern = r"/proc/(\d+)/(?:environ:SLURM_JOB_ID=|cgroup:/job_)(\d+)"
    jobs = parse_numbers_by_process(sections.get("job", []), pattern)
    commands = parse_commands(sections.get("cmdline", []))
    listed, spare, failure = read_smi(sections.get("smi", []))
    holders = find_gpu_holders(sections.get("fd", [])) | listed
    steps = {number for number, name, *_ in stats if name.startswith("slurmstepd")}
    # slurmstepd of Slurm's own keeps no job: `slurmstepd infinity` holds a cgroup.
    steps -= {number for number in steps if "infinity" in commands.get(number, "")}
    below = gather_family(parents, steps)
    own = list_family(parents, int(sections["me"][0]))
    clock = sections.get("uptime", [])
    uptime = float(clock[0].split()[0]) if clock else 0.0
    ticks = int(clock[1]) if len(clock) > 1 and clock[1].isdigit() else 100
    left = []
    for number, name, state, _, started in stats:
        user, job = int(users.get(number, 0)), jobs.get(number, "")
        is_users = user >= settings.first_uid and user != NOBODY and name not in SESSION_NAMES
        counts = bool(job) or number in below or is_users
        if settings.only_job is not None:
            counts = job == settings.only_job
        if not counts or number in own or number == 1 or state in "ZX":
            continue
        seconds = max(0.0, uptime - started / ticks)
        command = commands.get(number, name)
        left.append(
            LeftProcess(number, started, state, seconds, user, job, number in holders, command)
        )
    return NodeLook(tuple(left), spare, failure, is_read=True)


def look_at(node: str, settings: DrainSettings) -> NodeLook:
    """What is left on a node."""
    text, failure = run_on_node(settings, node, PROBE, settings.timeout)
    look = NodeLook(failure=failure)
    # The last command of the probe may fail, where a process ended meanwhile.
    if not failure or "\n## end\n" in text:
        look = read_probe(text, settings)
    return look


def judge_look(look: NodeLook, settings: DrainSettings) -> tuple[str, str]:
    """The verdict on a node, and what to do about it."""
    if look.failure:
        return "no answer", look.failure
    stuck = [process for process in look.processes if process.is_stuck]
    if stuck:
        return "stuck", "a process waits inside the kernel: restart the node if it stays"
    if look.processes:
        return "leftovers", "--kill ends them"
    if look.gpu_bytes is not None and look.gpu_bytes > settings.gpu_memory:
        return "GPU memory", "memory that no process has: reset the GPUs or restart the node"
    return "clean", "--undrain gives it back"


def kill_left(
    node: str, processes: Sequence[LeftProcess], name: str, settings: DrainSettings
) -> set[int]:
    """Send a signal to processes of a node, if they still are the same; to which it was sent."""
    lines = [f"end {each.number} {each.started} {name}" for each in processes]
    script = KILL + "\n".join(lines) + "\ntrue\n"
    text, _ = run_on_node(settings, node, script, settings.timeout)
    return {int(number) for number in re.findall(r"^killed (\d+)$", text, re.MULTILINE)}


def kill_all(
    node: str, look: NodeLook, settings: DrainSettings, stop: StopSign
) -> tuple[NodeLook, int]:
    """End what is left on a node, gently and then not; what is left then, and how many were sent a
    signal. Where the run has to end, it is left at what was done."""
    killed: set[int] = set()
    for name in ("TERM", "KILL"):
        killed |= kill_left(node, look.processes, name, settings)
        until = time.monotonic() + settings.grace
        while True:
            look = look_at(node, settings)
            if look.failure or not look.processes or stop.reason or time.monotonic() > until:
                break
            time.sleep(min(0.5, settings.grace / 4))
        if look.failure or not look.processes or stop.reason:
            break
    return look, len(killed)


def undrain(node: DrainedNode) -> str:
    """Give a node back, if it still is what it was; why it was not, or nothing. Raises WrongUse."""
    now = list_nodes([node.name])
    if not now or now[0] != node:
        return "its state or reason changed meanwhile"
    ask_slurm_command("scontrol", "update", f"NodeName={node.name}", "State=RESUME")
    until = time.monotonic() + 10.0
    while time.monotonic() < until:
        after = list_nodes([node.name])
        if after and "drain" not in after[0].state:
            return ""
        time.sleep(0.2)
    return "it is still drained after state=resume"


def treat_node(node: DrainedNode, settings: DrainSettings, stop: StopSign) -> NodeOutcome:
    """Look at a node and do what was asked for. Raises Stopped before anything is begun, and not
    later: what was done to a node is told."""
    stop.check()
    if node.state.startswith("draining"):
        return NodeOutcome(node, NodeLook(), "busy", "it still has jobs")
    if node.state.endswith("*"):
        return NodeOutcome(node, NodeLook(), "no answer", "slurmd does not respond")
    look = look_at(node.name, settings)
    killed = 0
    if settings.kills and look.processes and not stop.reason:
        look, killed = kill_all(node.name, look, settings, stop)
    verdict, advice = judge_look(look, settings)
    if killed and verdict == "leftovers" and not stop.reason:
        advice = "they stay although they were killed"
    if verdict == "clean" and settings.undrains and not stop.reason:
        try:
            advice = undrain(node)
        except WrongUse as error:
            advice = str(error)
        verdict = "still drained" if advice else "undrained"
    return NodeOutcome(node, look, verdict, advice, killed)


def treat_all(
    nodes: Sequence[DrainedNode], settings: DrainSettings, parallel: int, stop: StopSign
) -> tuple[list[NodeOutcome], str]:
    """Several nodes at a time; what became of them, and why not of all."""
    outcomes: list[NodeOutcome] = []
    with ThreadPoolExecutor(max_workers=parallel) as pool:
        for future in [pool.submit(treat_node, node, settings, stop) for node in nodes]:
            # Once the run has to end, those that were not begun end at once.
            with contextlib.suppress(Stopped):
                outcomes.append(future.result())
    return outcomes, stop.reason or ""


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


def hide_node_names(arguments: Sequence[str]) -> list[str]:
    """The arguments without those that name nodes, or gateways to them."""
    hidden = []
    for before, argument in zip(["", *arguments], arguments, strict=False):
        name, equals, _ = argument.partition("=")
        if before in ("--nodes", "--connect"):
            hidden.append("HIDDEN")
        else:
            is_said = equals and name in ("--nodes", "--connect")
            hidden.append(f"{name}=HIDDEN" if is_said else argument)
    return hidden


def describe_process(process: LeftProcess) -> str:
    """A process in a few words."""
    job = f" of job {process.job}" if process.job else ""
    gpu = ", with a GPU" if process.has_gpu else ""
    return (
        f"{process.number}{job}, user {process.user}, state {process.state}{gpu}, "
        f"{process.seconds:.0f} s old: {process.command[:60]}"
    )


def list_unseen(outcomes: Sequence[NodeOutcome]) -> list[str]:
    """What a reader has to know of nodes that were not looked at."""
    count = sum(not outcome.look.is_read for outcome in outcomes)
    if not count:
        return []
    nodes = "1 node was" if count == 1 else f"{count} nodes were"
    return [f"{nodes} not looked at: what is left there is not known"]


def make_node_rows(outcomes: Sequence[NodeOutcome], with_names: bool) -> list[Row]:
    """The results of the JSON. What was not looked at has no numbers."""
    rows: list[Row] = []
    for number, outcome in enumerate(outcomes):
        look = outcome.look
        counts = {
            "processes": len(look.processes),
            "stuck": sum(process.is_stuck for process in look.processes),
            "gpu_processes": sum(process.has_gpu for process in look.processes),
        }
        rows.append(
            {
                "node": number,
                "name": outcome.node.name if with_names else None,
                "since": outcome.node.since,
                "verdict": outcome.verdict,
                **(counts if look.is_read else dict.fromkeys(counts)),
                "gpu_bytes": look.gpu_bytes,
                "killed": outcome.killed,
            }
        )
    return rows


def print_report(outcomes: Sequence[NodeOutcome]) -> None:
    """The table, and what is left on each node."""
    cells = []
    for row, outcome in zip(make_node_rows(outcomes, True), outcomes, strict=True):
        numbers = [
            "-" if row[key] is None else str(row[key])
            for key in ("processes", "stuck", "gpu_processes", "killed")
        ]
        since = outcome.node.since.replace("T", " ")
        cells.append([outcome.node.name, since, *numbers, outcome.verdict, outcome.advice or "-"])
    headings = ["node", "drained", "left", "stuck", "on GPUs", "killed", "verdict", "what to do"]
    print(format_table(headings, cells))
    for outcome in outcomes:
        for process in outcome.look.processes[:SHOWN_PROCESSES]:
            write_note(f"{outcome.node.name}: {describe_process(process)}")
        if len(outcome.look.processes) > SHOWN_PROCESSES:
            rest = len(outcome.look.processes) - SHOWN_PROCESSES
            write_note(f"{outcome.node.name}: and {rest} more")


def demonstrate(stop: StopSign, timeout: float, grace: float) -> list[NodeOutcome]:
    """Leave a process behind on this machine, find it, end it, and look again; two outcomes.

    The process is this tool's own, known by a job number that no job has; no other is touched.
    """
    job = str(4_000_000_000 + os.getpid())
    settings = DrainSettings(
        connect=(), timeout=timeout, grace=grace, first_uid=1 << 40, only_job=job, kills=True
    )
    left = subprocess.Popen(
        ["sleep", "600"], env={**os.environ, "SLURM_JOB_ID": job}, start_new_session=True
    )
    try:
        node = DrainedNode("this machine", "drained", "before", REASON)
        # Between fork and exec it is not yet what it will be.
        until = time.monotonic() + 5.0
        look = look_at(node.name, settings)
        while not look.processes and not look.failure and time.monotonic() < until:
            look = look_at(node.name, settings)
        stop.check()
        before = NodeOutcome(node, look, *judge_look(look, settings))
        after, killed = kill_all(node.name, look, settings, stop)
        verdict, _ = judge_look(after, settings)
        again = NodeOutcome(node._replace(since="after"), after, verdict, "nothing", killed)
    finally:
        left.kill()
        left.wait()
    return [before, again]


def run_undrain(
    options: argparse.Namespace, arguments: Sequence[str], stop: StopSign, origin: float
) -> int:
    """Find, look, act and tell; the exit status. Raises WrongUse."""
    settings = DrainSettings(
        connect=options.connect,
        timeout=options.timeout,
        grace=options.grace,
        first_uid=options.first_uid,
        gpu_memory=options.gpu_memory,
        kills=options.kill,
        undrains=options.undrain,
        reason=options.reason,
    )
    caveats: list[str] = []
    reason = ""
    outcomes: list[NodeOutcome] = []
    if options.demonstrate:
        caveats.append("a demonstration on this machine: no node and no Slurm took part in it")
        with contextlib.suppress(Stopped):
            outcomes = demonstrate(stop, options.timeout, options.grace)
        reason = stop.reason or ""
    else:
        names = [] if options.nodes is None else expand_nodelist(options.nodes)
        known = list_nodes(names)
        unknown = sorted({*names} - {node.name for node in known})
        if unknown:
            raise WrongUse(f"--nodes: sinfo shows no node {unknown[0]}")
        drained = [node for node in known if is_drained_for(node, settings.reason)]
        outcomes, reason = treat_all(drained, settings, options.parallel, stop)
    caveats += list_unseen(outcomes)
    try:
        if options.json:
            command = list(arguments) if options.names else hide_node_names(arguments)
            head = make_document_head(
                "undrain_good_nodes", (__version__, METHOD), make_portable_command(command), origin
            )
            document = {
                **head,
                "complete": not reason,
                "units": UNITS,
                "results": make_node_rows(outcomes, options.names),
                "caveats": caveats,
                "details": {"kills": settings.kills, "undrains": settings.undrains},
            }
            write_document(options.json, document)
    finally:  # a disk that is full loses no table
        if outcomes:
            print_report(outcomes)
    if not outcomes and not reason:
        print(f'no node is drained for "{settings.reason}"', file=sys.stderr)
    for caveat in caveats:
        write_note(caveat)
    if reason:
        print(f"{reason}: what was not looked at stays as it is", file=sys.stderr)
    if options.demonstrate and not reason:
        verdicts = [outcome.verdict for outcome in outcomes]
        return 0 if verdicts == ["leftovers", "clean"] else 1
    is_good = all(outcome.verdict in GOOD_VERDICTS for outcome in outcomes)
    return 0 if is_good and not reason else 1


def run_self_test() -> int:
    """Check judgement on given texts, and find and end a real process; 0, or 1 where it fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    listing = "n1|drained|2026-01-01T00:00:00|Kill task failed\nn1|drained|x|Kill task failed\n"
    listing += "n2|drained|y|Kill task failed, bad GPU\nn3|draining|z|Kill task failed\n"
    nodes = parse_sinfo(listing)
    chosen = [node.name for node in nodes if is_drained_for(node, REASON)]
    check("drained for this reason alone, each once", chosen == ["n1", "n3"])
    stat = parse_stat("62 (a) b) D 58 1 " + "0 " * 16 + "777 0 0")
    check("a name with brackets", stat == (62, "a) b", "D", 58, 777))
    probe = (
        "## me 90\n## uptime\n100.0 1.0\n100\n## stat\n"
        + "".join(
            f"{number} ({name}) {state} {parent} " + "0 " * 17 + "100 0\n"
            for number, name, state, parent in (
                (1, "systemd", "S", 0),
                (58, "slurmstepd", "S", 1),
                (62, "python", "D", 58),
                (70, "dcgm", "S", 1),
                (90, "sh", "S", 1),
            )
        )
        + "## uid\n/proc/62 1000\n/proc/70 0\n## job\n/proc/62/environ:SLURM_JOB_ID=7\n## smi\n"
        + "gpu 5000\nstatus 0\napp 62, 4000\n## fd\n/proc/70/fd:\nlr 1 -> /dev/nvidia0\n## end\n"
        + "## cmdline\n==> /proc/62/cmdline <==\npython train.py\n## end\n## me 62\n"
    )
    look = read_probe(probe, DrainSettings(connect=()))
    check("a step and its process are left", [p.number for p in look.processes] == [58, 62])
    stuck = look.processes[-1]
    traits = (stuck.is_stuck, stuck.job, stuck.has_gpu)
    check("it is stuck, of job 7, on a GPU", traits == (True, "7", True))
    check("and so is the node", judge_look(look, DrainSettings(connect=()))[0] == "stuck")
    spare = look._replace(processes=(), gpu_bytes=3 << 30)
    verdict, _ = judge_look(spare, DrainSettings(connect=()))
    check("memory without a process", verdict == "GPU memory")
    check("an answer cut off is none", bool(read_probe("## me 1\n", DrainSettings(())).failure))
    found = demonstrate(StopSign(), 60.0, 5.0)
    check("a real process is found", [o.verdict for o in found] == ["leftovers", "clean"])
    check("and ended by its number", found[1].killed == 1)
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="undrain_good_nodes.py",
        description="Look at nodes that Slurm drained for a slow end, and give good ones back.",
        epilog="The docstring at the top of this file tells what is looked at.",
        allow_abbrev=False,
    )
    act = parser.add_argument_group("what is done (nothing by itself)")
    act.add_argument("--kill", action="store_true", help="end the processes that are left")
    act.add_argument("--undrain", action="store_true", help="give clean nodes back")
    which = parser.add_argument_group("which nodes, and how")
    which.add_argument("--nodes", metavar="LIST", help="these alone, in Slurm's notation")
    which.add_argument(
        "--reason", default=REASON, metavar="TEXT", help=f"drained for exactly this ({REASON})"
    )
    which.add_argument(
        "--connect",
        type=parse_connect,
        default=tuple(shlex.split(CONNECT)),
        metavar="COMMAND",
        help=f"runs sh on a node, as root (default: {CONNECT})",
    )
    which.add_argument(
        "--timeout", type=parse_duration, default=60.0, metavar="TIME", help="for a look (60s)"
    )
    which.add_argument(
        "--grace", type=parse_duration, default=10.0, metavar="TIME", help="after a signal (10s)"
    )
    which.add_argument(
        "--parallel", type=parse_count, default=16, metavar="N", help="nodes at a time (16)"
    )
    which.add_argument(
        "--first_uid",
        type=parse_count,
        default=1000,
        metavar="N",
        help="the lowest number of a real user (1000)",
    )
    which.add_argument(
        "--gpu_memory",
        type=parse_bytes,
        default=2 << 30,
        metavar="SIZE",
        help="in use by nobody that is still fine (2GiB)",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    output.add_argument("--names", action="store_true", help="node names in the JSON too")
    output.add_argument(
        "--demonstrate", action="store_true", help="find and end a process of its own, here"
    )
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"undrain_good_nodes {__version__} (method {METHOD})"
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense together."""
    check_json_path(options.json)
    if options.demonstrate and (options.kill or options.undrain or options.nodes):
        raise WrongUse("--demonstrate is about no node: leave --kill, --undrain and --nodes out")
    if options.names and not options.json:
        raise WrongUse("--names is for --json")


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
        stop.listen()
        return run_undrain(options, arguments, stop, origin)
    except WrongUse as error:
        parser.error(str(error))
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
