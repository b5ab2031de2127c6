"""Slurm's commands: submit a job, query its state, wait for it, cancel it."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from msgspec import Struct

from bindery.core.model import BookError, Finding, Span, refuse
from bindery.core.processes import CommandMissingError, CommandTimeoutError, Completed, run_command
from bindery.runs.jobs import Job

Show = Callable[[str], None]

_ANSWER_SECONDS = 30.0
"""How long one Slurm command may take."""
_PATIENCE_SECONDS = 180.0
"""How long Slurm may fail to answer before waiting ends."""
_SETTLE_SECONDS = 120.0
"""How long a canceled or completing job may take to end."""
_POLL_SECONDS = (1.0, 10.0)

_ENDED = frozenset(
    "BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED"
    " TIMEOUT".split()
)


class TaskState(Struct, frozen=True):
    """A task of a job, as reported by Slurm."""

    state: str
    reason: str = ""
    nodes: str = ""

    @property
    def has_ended(self) -> bool:
        return self.state in _ENDED

    def describe(self) -> str:
        """The state in words, with the reason for waiting."""
        words = self.state.lower().replace("_", " ")
        if self.state == "PENDING" and self.reason not in ("", "None"):
            words += f" ({self.reason})"
        return words


# --- submitting ---


def submit_job(job: Job) -> str:
    """Submit a run folder and return the job ID.

    Raises BookError with Slurm's message, and ConfigError if sbatch is not installed.
    """
    ended = _call("sbatch", "--parsable", str(job.folder / "job.sbatch"))
    if ended.returncode:
        message = f"Slurm rejected the run of '{job.plan.tool.name}': {_trim(ended.stderr)}"
        raise BookError(
            Finding(Span.whole(job.plan.tool.path), "failed-run", message, _HINT_REFUSED)
        )
    return ended.stdout.strip().partition(";")[0]


_HINT_REFUSED = (
    "see `sinfo` and `scontrol show partition` for what a partition offers; a job takes a few"
    " minutes more than --timeout"
)


def _trim(words: str) -> str:
    """The message of a Slurm command on one line, without the command's name."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    said = (line.removeprefix("sbatch: ").removeprefix("error: ") for line in lines)
    return "; ".join(said) or "no reason given"


# --- queries ---


def _call(*command: str) -> Completed:
    """Run a Slurm command. Raises ConfigError if it is not installed."""
    try:
        return run_command(command, folder=Path.cwd(), timeout=_ANSWER_SECONDS)
    except CommandMissingError:
        message = f"'{command[0]}' is not installed on this machine"
        hint = "`--on slurm` needs Slurm's commands: run it on a login node of the cluster"
        raise refuse("--on", message, hint) from None
    except CommandTimeoutError as error:
        return Completed(command, -signal.SIGKILL, "", str(error))


def ask_states(number: str, tasks: int) -> dict[int, TaskState] | None:
    """The state of each task by index, from the controller or else from accounting. None if Slurm
    does not respond; tasks unknown to both are missing."""
    form = "--format=%K|%T|%r|%N"
    ended = _call("squeue", f"--jobs={number}", "--array", "--states=all", "--noheader", form)
    if ended.returncode and "Invalid job id" not in ended.stderr:
        return None
    states = {}
    for line in ended.stdout.splitlines():
        index, state, reason, nodes = line.split("|")
        states[int(index) if index.isdigit() else 0] = TaskState(state, reason, nodes)
    if len(states) < tasks:
        states = {**_ask_accounting(number), **states}
    return states


def _ask_accounting(number: str) -> dict[int, TaskState]:
    """Task states from accounting, because the controller forgets a job minutes after its end.
    Empty if the cluster has no accounting."""
    form = "--format=JobID,State,NodeList"
    ended = _call("sacct", f"--jobs={number}", "--allocations", "--parsable2", "--noheader", form)
    if ended.returncode:
        return {}
    states = {}
    for line in ended.stdout.splitlines():  # such as `12_0|CANCELLED by 1000|node1`
        name, state, nodes = line.split("|")
        _, _, index = name.partition("_")
        if not index or index.isdigit():  # [2-5] are tasks that never started
            states[int(index or 0)] = TaskState(state.partition(" ")[0], "", nodes)
    return states


def find_lost_nodes(nodes: str) -> list[str]:
    """The nodes, given in Slurm's notation, that are down, with Slurm's reason."""
    if not nodes:
        return []
    ended = _call("sinfo", "--Node", "--noheader", f"--nodes={nodes}", "--format=%N|%T|%E")
    lost = {}
    for line in ended.stdout.splitlines():
        name, state, reason = line.split("|", 2)
        if state.startswith(("down", "fail")) or state.endswith("*"):
            lost[name] = f"{name} ({reason})" if reason not in ("", "none") else name
    return list(lost.values())


def cancel_job(number: str) -> None:
    """Cancel the job: its tools get a signal and time to write results."""
    _call("scancel", number)


# --- waiting ---


def watch_job(number: str, tasks: int, show: Show) -> None:
    """Wait until all tasks have ended, and show each change.

    Stops waiting after _SETTLE_SECONDS in which the job is only completing, and after
    _PATIENCE_SECONDS without a response.
    """
    pause, most = _POLL_SECONDS
    answered = time.monotonic()
    shown: dict[int, TaskState] = {}
    settling: float | None = None
    while True:
        states = ask_states(number, tasks)
        now = time.monotonic()
        if states is None:
            if now - answered > _PATIENCE_SECONDS:
                return
        else:
            answered = now
            changed = _show_changes(shown, states, tasks, show)
            pause = _POLL_SECONDS[0] if changed else min(pause * 1.3, most)
            shown.update(states)
            if all(state.has_ended for state in states.values()):
                return
            if all(state.has_ended or state.state == "COMPLETING" for state in states.values()):
                settling = settling or now
                if now - settling > _SETTLE_SECONDS:
                    return
        time.sleep(pause)


def _show_changes(
    before: Mapping[int, TaskState], now: Mapping[int, TaskState], tasks: int, show: Show
) -> bool:
    changed = False
    for index, state in sorted(now.items()):
        if before.get(index) == state:
            continue
        changed = True
        name = f"task {index}: " if tasks > 1 else ""
        where = f" on {state.nodes}" if state.nodes else ""
        show(f"{name}{state.describe()}{where}")
    return changed
