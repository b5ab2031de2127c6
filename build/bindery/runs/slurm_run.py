"""Run a companion tool on a cluster: from the run folder to one record per task.

The folder is on a file system shared by the login node and the compute nodes. It contains
everything needed to make the records when the run ends or at any time later:
    plan.json                the request
    job.sbatch, node.sh      the job; `sbatch job.sbatch` submits it by hand
    TOOL.py, env_report.py   copies of the tools
    job                      the job ID
    slurm_*.out              the output of the job itself
    task_<n>/results.json    the results of each task of the array
    task_<n>/node_<m>/       the facts of each node, its log, and its exit status
    task_<n>/record          the path of the task's record
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from bindery.core.model import BookError, Finding, Span, refuse
from bindery.core.processes import Limits, hold_signals
from bindery.core.whole_files import write_whole
from bindery.evidence.records import CUSTOM, Ending
from bindery.runs.anonymize import clean_log
from bindery.runs.environment import choose_environment, list_passed
from bindery.runs.jobs import Job, Request, write_texts
from bindery.runs.plan_run import FACTS, Plan
from bindery.runs.record_run import (
    describe_kept,
    explain_ending,
    keep_record,
    make_folder,
    make_record,
    read_output,
)
from bindery.runs.slurm_commands import (
    TaskState,
    ask_states,
    cancel_job,
    find_lost_nodes,
    submit_job,
    watch_job,
)
from bindery.tools.bundle import bundle_tool

_ENDINGS: Mapping[str, Ending] = {
    "BOOT_FAIL": "node-failure",
    "CANCELLED": "cancelled",
    "DEADLINE": "timeout",
    "NODE_FAIL": "node-failure",
    "OUT_OF_MEMORY": "memory",
    "PREEMPTED": "interrupted",
    "REVOKED": "cancelled",
    "TIMEOUT": "timeout",
}
"""What a Slurm state means for a run. In other final states the exit status decides."""
_TIMED_OUT = 124
"""The exit status of timeout(1) when it stopped the tool."""
_SIGNALLED = 128
"""Shells add this to the number of the signal that killed a program."""


class Collected(Struct, frozen=True):
    """What a run produced: record paths relative to the root, in task order, and findings about
    the other tasks."""

    records: tuple[str, ...]
    findings: tuple[Finding, ...]


# --- the folder ---


def write_run(plan: Plan, request: Request, tasks: Sequence[Sequence[str]] = ((),)) -> Job:
    """Write a run folder under dist/runs/. `tasks` has the extra arguments of each task.

    Raises ConfigError if the request does not fit the tool.
    """
    for option in request.options:
        if not option.startswith("--"):
            message = f"'{option}' is not an sbatch option"
            raise refuse("--sbatch", message, "write it in full: --sbatch=--NAME=VALUE")
    if request.gpus is None and plan.gpus:
        request = replace(request, gpus=plan.gpus)
    ranks = _find_ranks(plan, request)
    target = make_folder(plan)
    environment = choose_environment(os.environ, plan.passed)
    extras = choose_environment({})
    if ranks is not None and ranks > 1 and "OMP_NUM_THREADS" not in environment:
        extras["OMP_NUM_THREADS"] = "1"  # torchrun would set this anyway; this records it
    if request.container:  # the user's packages belong to another Python
        extras.pop("PYTHONUSERBASE", None)
    job = Job(
        target,
        plan,
        tuple(map(tuple, tasks)),
        ranks,
        # The job gets Slurm variables of its own, not those of the submitting shell.
        tuple(sorted(n for n in environment if n in os.environ and not n.startswith("SLURM"))),
        list_passed(plan.passed),
        extras,
        request.nodes,
        request.seconds,
        request.log_bytes,
    )
    # Bundles, because the nodes may not see the kit.
    copies = ((plan.tool, Path(plan.tool.path).name), (plan.reporter, f"{FACTS}.py"))
    for tool, name in copies:
        text = bundle_tool(tool.path, lambda path: (plan.root / path).read_text(encoding="utf-8"))
        write_whole(target / name, text.encode())
    for name, text in write_texts(job, request).items():
        write_whole(target / name, text.encode())
    for number in range(len(job.tasks)):
        (target / f"task_{number}").mkdir()
    stored = msgspec.json.format(msgspec.json.encode(job, enc_hook=str), indent=1)
    write_whole(target / "plan.json", stored + b"\n")
    return job


def _find_ranks(plan: Plan, request: Request) -> int | None:
    name = plan.tool.name
    if plan.ranks is None:
        if request.nodes > 1:
            raise refuse(
                "--nodes",
                f"'{name}' is a single process and cannot use {request.nodes} nodes",
                "a tool with ranks declares RANKS; `--ranks` sets them for any tool",
            )
        return None
    if plan.ranks == "accelerators":
        if request.gpus is None:
            raise refuse(
                "--gpus",
                f"'{name}' starts one rank per accelerator",
                "set the number of accelerators with `--gpus`, or of ranks with `--ranks`",
            )
        return request.gpus
    return plan.ranks


# --- from start to end ---


def run_on_slurm(
    plan: Plan,
    request: Request,
    show: Callable[[str], None],
    *,
    tasks: Sequence[Sequence[str]] = ((),),
    waits: bool = True,
) -> Collected:
    """Run a tool on a cluster. Returns what it produced, or nothing without `waits`. `show` gets
    the job ID, the folder, and each state change. Ctrl-C cancels the job and collects the results
    so far; a second Ctrl-C does not wait for them. If bindery ends in another way, the job
    continues and can be collected.

    Raises ConfigError if the request does not fit the tool, and BookError if Slurm rejects it.
    """
    job = write_run(plan, request, tasks)
    count = len(job.tasks)
    where = _name_path(job, job.folder)
    try:
        number = _submit(job)
        show(f"submitted job {number}; its files are in {where}")
        if not waits:
            show(f"when it has ended, run: bindery run --collect {where}")
            return Collected((), ())
        watch_job(number, count, show)
    except KeyboardInterrupt:
        started = read_number(job.folder)
        if started is None:
            shutil.rmtree(job.folder, ignore_errors=True)
            raise
        show(f"canceling job {started}; its results so far are kept")
        cancel_job(started)
        watch_job(started, count, show)
    return collect_run(plan.root, job.folder)


def _submit(job: Job) -> str:
    """Submit a run; store and return the job ID. Removes the folder of a rejected run. Raises
    BookError with Slurm's message."""
    # A signal between Slurm's response and the write would lose the job ID.
    with hold_signals():
        try:
            number = submit_job(job)
        except BookError:
            shutil.rmtree(job.folder, ignore_errors=True)
            raise
        write_whole(job.folder / "job", f"{number}\n".encode())
    return number


def _read_job(root: Path, folder: Path) -> Job:
    try:
        text = (folder / "plan.json").read_bytes()
        job = msgspec.json.decode(text, type=Job, dec_hook=lambda kind, value: kind(value))
    except (OSError, msgspec.DecodeError):
        hint = "name the folder that `bindery run --on slurm` printed"
        raise refuse("--collect", f"'{folder}' is not a run folder", hint) from None
    plan = replace(job.plan, root=root.resolve())
    return replace(job, folder=folder.resolve(), plan=plan)


def read_number(folder: Path) -> str | None:
    """The job ID, even if submitted by hand; None if not submitted."""
    for path in (folder / "job", *sorted(folder.glob("task_*/job"))):
        with contextlib.suppress(OSError):
            return path.read_text().strip()
    return None


# --- from the folder to records ---


def collect_run(root: Path, folder: Path) -> Collected:
    """Make the records of all tasks that have ended, and report problems of the others. A task that
    already has a record is skipped.

    Raises ConfigError if this is not a run folder.
    """
    job = _read_job(root, folder)
    where = _name_path(job, job.folder)
    number = read_number(job.folder)
    if number is None:
        hint = f"submit it with `sbatch {where}/job.sbatch`"
        return Collected((), (_report_run(job, "this run was not submitted", hint),))
    states = ask_states(number, len(job.tasks))
    records: list[str] = []
    findings: list[Finding] = []
    later = f"collect it later: `bindery run --collect {where}`"
    for index in range(len(job.tasks)):
        kept = job.folder / f"task_{index}" / "record"
        state = states.get(index) if states else None
        # A task unknown to Slurm is over, but only if Slurm responds at all.
        is_over = state.has_ended if state else states is not None
        if kept.exists():
            records.append(kept.read_text().strip())
        elif is_over or (kept.parent / "node_0" / "ended").exists():
            record, wrong = _collect_task(job, index, state)
            records += [record] if record else []
            findings += [wrong] if wrong else []
        elif state is None:
            message = f"{_name_task(job, index)} may still be running: Slurm does not respond"
            findings.append(_report_run(job, message, later))
        else:
            message = f"{_name_task(job, index)} has not ended: it is {state.describe()}"
            findings.append(_report_run(job, message, later))
    return Collected(tuple(records), tuple(findings))


def _collect_task(
    job: Job, index: int, state: TaskState | None
) -> tuple[str | None, Finding | None]:
    """The record's path for a task that has ended, and a finding if something is wrong."""
    task = job.folder / f"task_{index}"
    its_folder = f"its folder: '{_name_path(job, job.folder)}'"
    ended, status, reason = _judge_task(task, job, state)
    output = read_output(task / "results.json")
    name, written = _name_task(job, index), task / "node_0" / "run.log"
    if output is None:
        message = f"{name} {reason} and left no results"
        hint = f"its log: '{_name_path(job, written)}'" if written.exists() else its_folder
        return None, _report_run(job, message, hint)
    facts = [read_output(task / f"node_{node}" / "facts.json") for node in range(job.nodes)]
    without = [str(node) for node, each in enumerate(facts) if not isinstance(each, dict)]
    if without:
        message = f"{name} {reason} and left no facts of node {', '.join(without)}"
        return None, _report_run(job, message, its_folder)
    arguments = (*job.plan.arguments, *job.tasks[index])
    profile = CUSTOM if job.tasks[index] else job.plan.profile
    plan = replace(job.plan, arguments=arguments, profile=profile)
    environments = [_read_environment(task / f"node_{node}") for node in range(job.nodes)]
    names = _list_names(job, environments)
    record = make_record(
        plan,
        output,
        facts,
        ended=ended,
        exit_status=status,
        ranks=job.ranks,
        command=_describe_command(plan, job),
        environment=environments[0],
        names=names,
    )
    if isinstance(record, Finding):
        hint = f"{record.help}; {its_folder}".lstrip("; ")
        hint = hint if ended == "done" else f"it {reason}; {hint}"
        return None, replace(record, help=hint)
    log = clean_log(_join_logs(task, ended), names)
    path = keep_record(plan.root, record, log)
    write_whole(task / "record", f"{path}\n".encode())
    if ended == "done":
        return path, None
    return path, _report_run(job, f"{name} {reason}", describe_kept(record, path))


def _judge_task(task: Path, job: Job, state: TaskState | None) -> tuple[Ending, int | None, str]:
    """How a task ended, from the notes of its first node and the Slurm state: the ending, the
    tool's exit status on that node, if any, and a description."""
    status, seconds = _read_end(task / "node_0")
    log = task / "node_0" / "run.log"
    by_slurm = _ENDINGS.get(state.state) if state else None
    lost = find_lost_nodes(state.nodes) if state and state.state != "COMPLETED" else []
    ended: Ending
    if status == 0:
        ended = "done"
    elif by_slurm is None and lost:
        ended = "node-failure"  # the other nodes failed before Slurm noticed
    elif by_slurm is not None:
        ended = by_slurm
    elif status is None:
        ended = "crashed"
    elif log.exists() and log.stat().st_size >= job.log_bytes:
        ended = "output"
    elif status == _TIMED_OUT or seconds > job.seconds:
        ended = "timeout"
    elif (task / "node_0" / "signal").exists():
        ended = "interrupted"
    else:
        ended = "crashed" if status > _SIGNALLED else "failed"
    if status is not None and status > _SIGNALLED:
        status = _SIGNALLED - status
    if ended == "crashed" and status is None:
        reason = "ended without an exit status"
    elif ended == "memory":
        reason = "was stopped: it used more memory than its job had requested"
    else:
        reason = explain_ending(ended, status, Limits(job.seconds, 0, job.log_bytes))
    return ended, status, f"{reason}: {', '.join(lost)}" if lost else reason


def _read_end(here: Path) -> tuple[int | None, float]:
    """Exit status and seconds of the tool on a node, as written by node.sh."""
    try:
        status, seconds = (here / "ended").read_text().split()
    except (OSError, ValueError):
        return None, 0.0
    return int(status), float(seconds)


def _describe_command(plan: Plan, job: Job) -> tuple[str, ...]:
    python, *rest = plan.describe_command()
    if job.ranks is None:
        return (python, *rest)
    shape = ("--nnodes", str(job.nodes), "--nproc-per-node", str(job.ranks))
    return (python, "-m", "torch.distributed.run", *shape, *rest)


def _read_environment(here: Path) -> dict[str, str]:
    try:
        text = (here / "environment").read_text(errors="replace")
    except OSError:
        return {}
    pairs = (entry.partition("=") for entry in text.split("\0") if entry)
    return {name: value for name, _, value in pairs}


def _join_logs(task: Path, ended: Ending) -> str:
    """The tool's output on the first node, or on all nodes if the run failed."""
    nodes = sorted(task.glob("node_*"), key=lambda path: int(path.name.removeprefix("node_")))
    logs = []
    for node in nodes[: 1 if ended == "done" else None]:
        with contextlib.suppress(OSError):
            text = (node / "run.log").read_text(encoding="utf-8", errors="replace")
            logs.append(f"== {node.name} ==\n{text}" if len(nodes) > 1 else text)
    return "\n".join(logs)


def _list_names(job: Job, environments: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Names that a log must not contain, with placeholders."""
    names = {str(job.folder): "RUN", str(job.plan.root): "."}
    for node, environment in enumerate(environments):
        for name, stand_in in (("HOME", "TEMPORARY"), ("SLURMD_NODENAME", f"NODE{node}")):
            if value := environment.get(name):
                names[value] = stand_in
    return names


def _name_task(job: Job, index: int) -> str:
    name = f"'{job.plan.tool.name}'"
    if len(job.tasks) == 1:
        return name
    return f"{name} {' '.join(job.tasks[index])}".rstrip() + f" (task {index})"


def _report_run(job: Job, message: str, hint: str) -> Finding:
    return Finding(Span.whole(job.plan.tool.path), "failed-run", message, hint)


def _name_path(job: Job, path: Path) -> str:
    """A path as typed in the book's root."""
    return os.path.relpath(path, job.plan.root)
