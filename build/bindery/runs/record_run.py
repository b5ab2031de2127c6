"""Run a tool on this machine and record its results, command and machine."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import psutil
from msgspec import Struct
from msgspec.structs import replace

from bindery.core.model import BookError, Finding, Span, refuse
from bindery.core.processes import Ended, Limits, Show, Watch, run_limited
from bindery.core.whole_files import name_target, write_whole
from bindery.evidence.records import (
    FOLDER,
    SCHEMA,
    WHOLE_ENDINGS,
    Ending,
    Machine,
    MachineReport,
    Record,
    ToolOutput,
    UnlikeMachinesError,
    describe_error,
    format_record,
    merge_machines,
)
from bindery.runs.anonymize import clean_log, clean_values
from bindery.runs.environment import choose_environment, find_steering
from bindery.runs.plan_run import FACTS, Plan, describe_launcher

_RUNS = "dist/runs"
"""The folder of runs without a record."""
MIB, GIB = 1 << 20, 1 << 30


def make_folder(plan: Plan) -> Path:
    """A new folder for a run."""
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    (plan.root / _RUNS).mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix=f"{plan.tool.name}_{stamp}_", dir=plan.root / _RUNS))


def read_output(path: Path) -> Any:
    """The JSON that a tool wrote, None if there is none, or the parse error."""
    try:
        text = path.read_text(encoding="utf-8")
        return json.loads(text) if text.strip() else None
    except ValueError as error:
        return error
    except OSError:
        return None


def make_record(
    plan: Plan,
    output: Any,
    facts: Sequence[Mapping[str, Any]],
    *,
    ended: Ending,
    exit_status: int | None,
    ranks: int | None = None,
    command: Sequence[str] | None = None,
    environment: Mapping[str, str] | None = None,
    names: Mapping[str, str] | None = None,
) -> Record | Finding:
    """An unsealed record, or a finding that explains why there is none.

    `output` is the tool's JSON, or None. `facts` has the output of env_report on each node. `ranks`
    is per node, or None if the tool was started directly. `environment` is that of the run; the
    record keeps tuning variables. `names` maps folders and hosts that no record may name to
    placeholders.
    """

    def refuse(message: str, hint: str = "") -> Finding:
        return Finding(Span.whole(plan.tool.path), "bad-record", message, hint)

    name = plan.tool.name
    if not facts:
        return refuse("no node reported its facts")
    if output is None:
        return refuse(f"'{name}' left no results", _HINT_NO_RESULTS)
    if isinstance(output, ValueError):
        return refuse(f"the results of '{name}' are not valid JSON: {output}")
    try:
        told = msgspec.convert(output, ToolOutput)
    except msgspec.ValidationError as error:
        hint = "see the schema scripts/schemas/tool-output-2.json in the bindery repository"
        return refuse(f"the results of '{name}' are invalid: {describe_error(error)}", hint)
    if not told.results and ended != "done":
        return refuse(f"'{name}' left no results", _HINT_NO_RESULTS)
    if told.tool != name:
        return refuse(f"'{name}' reports the tool name '{told.tool}'")
    if told.method != plan.tool.method:
        message = f"'{name}' reports method {told.method}, but its constant METHOD is"
        hint = "make the tool report its constant METHOD"
        return refuse(f"{message} {plan.tool.method}", hint)
    try:
        machine, software, notes = _merge_facts(facts)
    except msgspec.ValidationError as error:
        return refuse(f"the facts from '{FACTS}' are invalid: {describe_error(error)}")
    except UnlikeMachinesError as error:
        hint = "run on identical nodes: results of mixed hardware are not comparable"
        return refuse(f"the nodes of this run differ: {error}", hint)
    data = {
        "schema": SCHEMA,
        "tool": name,
        "version": told.version,
        "method": told.method,
        "sha256": plan.tool.sha256,
        "profile": plan.profile,
        "command": command or plan.describe_command(ranks),
        "environment": find_steering(environment or {}),
        "started": told.started,
        "seconds": told.seconds,
        "exit_status": exit_status,
        "ended": ended,
        "complete": told.complete and ended in WHOLE_ENDINGS,
        "nodes": len(facts),
        "ranks": (ranks or 1) * (len(facts) if ranks else 1),
        "machine": msgspec.to_builtins(machine),
        "software": software,
        "units": told.units,
        "results": told.results,
        "details": clean_values(told.details, names or {}),
        "caveats": clean_values(tuple(dict.fromkeys((*told.caveats, *notes))), names or {}),
        "seal": {},
    }
    try:
        return msgspec.convert(data, Record)
    except msgspec.ValidationError as error:
        return refuse(f"the results of '{name}' are invalid: {describe_error(error)}")


_HINT_NO_RESULTS = (
    "the tool must write results to the path given with --json; see its log for its output; a tool"
    " that measures torch needs torch"
)


def _merge_facts(
    facts: Sequence[Mapping[str, Any]],
) -> tuple[Machine, Mapping[str, Any], tuple[str, ...]]:
    reports = [msgspec.convert(each, MachineReport) for each in facts]
    machine = merge_machines([report.machine for report in reports])
    software = reports[0].software
    for index, report in enumerate(reports[1:], 1):
        for key in {**software, **report.software}:
            first, other = software.get(key), report.software.get(key)
            if first != other:
                raise UnlikeMachinesError(key, first, other, index)
    notes = (note for report in reports for note in report.caveats)
    return machine, software, tuple(dict.fromkeys(notes))


def keep_record(root: Path, record: Record, log: str) -> str:
    """Seal and write a record, with its log, as `<tool>/<machine>_<day>.json` and `.log`. Returns
    the record's path relative to the root. Further records of a day get a number: no file is ever
    replaced, even if two runs end at once."""
    machine = record.machine.label + (f"-{record.nodes}node" if record.nodes > 1 else "")
    stem = f"{FOLDER}/{record.tool}/{machine}_{record.started:%Y%m%d}"
    (root / stem).parent.mkdir(parents=True, exist_ok=True)
    name, count = stem, 1
    while (root / f"{name}.json").exists() or not _create(root / f"{name}.log"):
        count += 1
        name = f"{stem}_{count}"
    path, log_path = root / f"{name}.json", root / f"{name}.log"
    write_whole(log_path, log.encode())
    write_whole(path, format_record(replace(record, log=log_path.name)).encode())
    return f"{name}.json"


def _create(path: Path) -> bool:
    """Create an empty file unless it exists. Returns whether it was created."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _write_size(count: int) -> str:
    return f"{count / GIB:.2f} GiB" if count >= GIB else f"{count / MIB:.1f} MiB"


def explain_ending(
    ended: Ending, exit_status: int | None, limits: Limits, peak_bytes: int = 0
) -> str:
    """How a run ended, as a predicate of the tool."""
    match ended:
        case "done":
            return "succeeded"
        case "failed":
            return f"ended with status {exit_status}"
        case "crashed":
            return f"was ended by {_name_signal(exit_status)}"
        case "timeout":
            return f"was stopped after its limit of {limits.seconds:g} s"
        case "memory":
            used, allowed = map(_write_size, (peak_bytes, limits.memory_bytes))
            return f"was stopped because it used {used} of memory (limit: {allowed})"
        case "output":
            return f"was stopped: it printed more than {limits.output_bytes / MIB:.2f} MiB"
        case "interrupted":
            return "was interrupted"
        case "cancelled":
            return "was cancelled"
        case "node-failure":
            return "lost a node"


def _name_signal(exit_status: int | None) -> str:
    try:
        return f"the signal {signal.Signals(-(exit_status or 0)).name}"
    except ValueError:
        return "a signal"


def record_run(
    plan: Plan, limits: Limits, *, show: Show | None = None, watch: Watch | None = None
) -> tuple[str | None, Finding | None]:
    """Run a tool on this machine and write its record and log. Returns the record's path relative
    to the root, and a finding if it is less than requested.

    A run that is stopped early leaves a partial record. If nothing can be recorded, log and results
    stay in a folder under `dist/runs/`. Raises ConfigError if the run cannot start, and BookError
    if env_report fails.
    """
    folder = make_folder(plan)
    try:
        with name_target(folder):
            measured = _measure(folder, plan, limits, show, watch)
            record, finding = _record(folder, plan, limits, measured)
    except BookError:
        shutil.rmtree(folder)
        raise
    if record:
        shutil.rmtree(folder)
    return record, finding


class _Measured(Struct, frozen=True):
    """A finished run, with the folder of its log and results."""

    done: Ended
    facts: Mapping[str, Any]
    ranks: int | None
    environment: Mapping[str, str]
    names: Mapping[str, str]
    """Folders that no record may name, with placeholders."""


def _measure(
    folder: Path, plan: Plan, limits: Limits, show: Show | None, watch: Watch | None
) -> _Measured:
    with tempfile.TemporaryDirectory(prefix="bindery-run-", ignore_cleanup_errors=True) as made:
        work = Path(made).resolve()
        environment = choose_environment(os.environ, plan.passed, folder=work)
        facts = _read_facts(plan, work, environment)
        ranks = count_ranks(plan, facts)
        if ranks is not None and ranks > 1:
            # torchrun would set this anyway; setting it here records it.
            environment.setdefault("OMP_NUM_THREADS", "1")
        launcher = describe_launcher(ranks) if ranks is not None else ()
        tool, results = str(plan.root / plan.tool.path), str(folder / _RESULTS)
        done = run_limited(
            [plan.python, *launcher, tool, *plan.arguments, "--json", results],
            folder=work,
            environment=environment,
            limits=limits,
            log=folder / _LOG,
            show=show,
            watch=watch,
        )
    names = {str(folder): "RUN", str(work): "TMP", made: "TMP", str(plan.root): "."}
    return _Measured(done, facts, ranks, environment, names)


_LOG, _RESULTS = "run.log", "results.json"


def _read_facts(plan: Plan, folder: Path, environment: Mapping[str, str]) -> Mapping[str, Any]:
    """The output of env_report, run in `folder`."""
    output, log = folder / "facts.json", folder / "facts.log"
    limits = Limits(300.0, psutil.virtual_memory().total, MIB)
    done = run_limited(
        [plan.python, str(plan.root / plan.reporter.path), "--json", str(output)],
        folder=folder,
        environment=environment,
        limits=limits,
        log=log,
    )
    facts = read_output(output)
    if not isinstance(facts, dict) or done.ended == "interrupted":
        how = explain_ending(done.ended, done.code, limits, done.peak_bytes)
        last = log.read_text(encoding="utf-8").strip().rpartition("\n")[2]
        message = f"'{FACTS}' reported nothing about this machine: it {how}"
        hint = f"its last line: {last}" if last else ""
        raise BookError(Finding(Span.whole(plan.reporter.path), "failed-run", message, hint))
    return facts


def count_ranks(plan: Plan, facts: Mapping[str, Any]) -> int | None:
    """Ranks per node. Raises ConfigError if the profile needs an accelerator and there is none."""
    count = len(facts.get("machine", {}).get("accelerators", ()))
    if count or not (plan.gpus or plan.ranks == "accelerators"):
        return count if plan.ranks == "accelerators" else plan.ranks
    message = f"the profile '{plan.profile}' of '{plan.tool.name}' needs an accelerator"
    hint = "this machine has none: use `--profile demo`, or a machine with an accelerator"
    raise refuse(plan.tool.path, message, hint)


def _record(
    folder: Path, plan: Plan, limits: Limits, measured: _Measured
) -> tuple[str | None, Finding | None]:
    """Record the results, or explain why there is no record."""
    log, done, name = folder / _LOG, measured.done, plan.tool.name
    text = clean_log(log.read_text(encoding="utf-8"), measured.names)
    write_whole(log, text.encode())
    output = read_output(folder / _RESULTS)
    record = make_record(
        plan,
        output,
        [measured.facts],
        ended=done.ended,
        exit_status=done.code,
        ranks=measured.ranks,
        environment=measured.environment,
        names=measured.names,
    )
    how = explain_ending(done.ended, done.code, limits, done.peak_bytes)
    span = Span.whole(plan.tool.path)
    shown = log.relative_to(plan.root).as_posix()
    if isinstance(record, Finding):
        hint = f"{record.help}; " if record.help else ""
        if output is None or (isinstance(output, dict) and not output.get("results")):
            record = Finding(span, "failed-run", f"'{name}' {how} and left no results")
            hint = hint if done.ended == "done" else ""
        elif done.ended != "done":
            hint = f"it {how}; {hint}"
        hint += f"the log is '{shown}'"
        hint += ", with the results next to it" if (folder / _RESULTS).exists() else ""
        return None, replace(record, help=hint)
    try:
        path = keep_record(plan.root, record, text)
    except OSError as error:
        message = f"the record cannot be written: {(error.strerror or str(error)).lower()}"
        hint = f"the results are in '{shown.removesuffix(log.name)}'"
        return None, Finding(Span.whole(FOLDER), "failed-run", message, hint)
    if done.ended == "done":
        return path, None
    return path, Finding(span, "failed-run", f"'{name}' {how}", describe_kept(record, path))


def describe_kept(record: Record, path: str) -> str:
    """What a run that ended early left in its record."""
    what = "all its results are" if record.complete else "its results so far are"
    return f"{what} in '{path}', with the log next to it"
