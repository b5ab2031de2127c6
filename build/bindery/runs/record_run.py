"""From a run of a companion tool to a record: what came out, on which machine, by which command."""

from __future__ import annotations

import ast
import contextlib
import functools
import getpass
import importlib.util
import json
import os
import platform
import re
import shutil
import signal
import site
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import psutil
from pydantic import ValidationError

from bindery.check.rules import RULES
from bindery.core.config import Config, ToolEntry, load_config
from bindery.core.model import BookError, ConfigError, Finding, Span
from bindery.core.processes import Show, run_limited
from bindery.core.suggestions import find_nearest
from bindery.core.whole_files import name_target, write_whole
from bindery.evidence.records import (
    CUSTOM,
    FOLDER,
    SCHEMA,
    WHOLE_ENDINGS,
    Ending,
    Machine,
    MachineReport,
    Record,
    RefusedJsonError,
    ToolOutput,
    UnlikeMachinesError,
    describe_error,
    format_record,
    merge_machines,
    read_strict_json,
)
from bindery.tools.bundle import BundleError, hash_bundle
from bindery.tools.tool_source import read_constants

FACTS = "env_report"
"""The tool that tells the facts of the machine."""
RUNS = "dist/runs"
"""Where runs leave what did not become a record."""
MIB, GIB = 1 << 20, 1 << 30

Ranks = int | Literal["accelerators"]

_PASSED = frozenset(
    """PATH LANG LANGUAGE TZ LD_LIBRARY_PATH DYLD_LIBRARY_PATH LD_PRELOAD""".split()
)
_PASSED_PREFIXES = ("LC_", "SLURM_", "ROCM_", "NVIDIA_", "ONEAPI_")
_NEVER_PASSED = ("SLURM_JWT",)
# What makes the same command run another way. Its values go into the record.
_STEERING_PREFIXES = tuple(
    """NCCL_ RCCL_ TORCH_ PYTORCH_ TORCHINDUCTOR_ TRITON_ UCX_ FI_ GLOO_ OMP_ GOMP_ KMP_
    MKL_ OPENBLAS_ CUDA_ CUBLAS_ CUBLASLT_ CUDNN_ NVTE_ HIP_ HSA_ ROCR_ AMD_ MIOPEN_ HIPBLASLT_
    ROCBLAS_ GPU_ ZE_ SYCL_ MALLOC_""".split()
)
# Folders, and addresses of the hosts of a run.
_NOT_STEERING = re.compile(r"(_HOME|_PATH|_ROOT|_DIR|_COMM_ID)$")
# Passed on like the others, and kept in no record.
_PRIVATE = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL|HOST|ADDR|USER", re.IGNORECASE)
_STEERING = tuple(
    """LD_PRELOAD ATEN_CPU_CAPABILITY DNNL_MAX_CPU_ISA ONEDNN_MAX_CPU_ISA NVIDIA_TF32_OVERRIDE
    OMPI_MCA_btl OMPI_MCA_coll OMPI_MCA_pml""".split()
)
_SERIAL_NUMBER = re.compile(r"\b(GPU|MIG)-[0-9a-f]{8}[0-9a-f/-]*")


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What a tool says of itself in its constants, read without running it."""

    name: str
    path: str
    """Relative to the root of the book."""
    version: str
    method: int
    sha256: str
    """Of the file that `bindery bundle` makes of it."""
    profiles: Mapping[str, tuple[str, ...]]
    ranks: Mapping[str, Ranks]
    """Ranks on each node by profile; empty for a tool that is one process."""
    gpus: Mapping[str, int]
    """GPUs on each node that a profile needs: Slurm is asked for them, and a machine without any
    refuses the profile."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run as it is meant to be: the same on this machine and on a cluster."""

    root: Path
    tool: ToolFacts
    reporter: ToolFacts
    """The tool that tells the facts of the machine."""
    profile: str
    """A profile of the tool; `custom` where arguments were added to it, for then something else is
    measured."""
    arguments: tuple[str, ...]
    """All arguments for the tool but `--json PATH`."""
    ranks: Ranks | None
    """Ranks on each node, started by torchrun; None where the tool is started by itself."""
    passed: tuple[str, ...] = ()
    """Environment variables that are handed on beside the usual ones."""
    gpus: int = 0
    """GPUs on each node that the profile needs."""
    python: str = sys.executable
    """The Python that runs the tool on this machine."""

    def describe_command(self, ranks: int | None = None) -> tuple[str, ...]:
        """The command as it is recorded, without any folder of this machine. `ranks` is the
        number on each node."""
        arguments = (hide_folders(argument, self.root) for argument in self.arguments)
        launcher = describe_launcher(ranks) if ranks is not None else ()
        return ("python", *launcher, self.tool.path, *arguments)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a run may take."""

    seconds: float = 3600.0
    memory_bytes: int | None = None
    """Of all processes together; None for nine tenths of what is free when the run starts."""
    output_bytes: int = 16 * MIB
    """Of what it prints."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """What a run has left. `record` and `log` are paths relative to the root; `finding` says why
    it is less than was asked for."""

    record: str | None
    log: str | None
    finding: Finding | None


# --- what a tool says of itself ---


def find_tool(config: Config, name: str) -> ToolEntry:
    """The tool that chapters.yaml has under a name. Raises ConfigError where it has none."""
    tools = {tool.name: tool for tool in config.tools}
    if name not in tools:
        nearest = find_nearest(name, tools)
        hint = f"did you mean '{nearest}'?" if nearest else f"it has: {', '.join(tools) or 'none'}"
        message = f"the book has no tool '{name}'"
        if name == FACTS:
            message += ", which tells the facts of the machine"
            hint = _HINT_FACTS
        raise ConfigError(Finding(Span.whole(config.file), "config", message, hint))
    return tools[name]


_HINT_FACTS = (
    f"put {FACTS}.py, the file that `bindery bundle {FACTS}` writes in the repository of bindery, "
    f"into scripts/ and list it under `tools:` as {FACTS}"
)


def read_tool(root: Path, entry: ToolEntry) -> ToolFacts:
    """The constants of a tool. Raises ConfigError where one of them is missing or is not as it
    should be, with the line."""
    try:
        source = (root / entry.path).read_bytes()
        text = importlib.util.decode_source(source)
        return _ConstantReader(entry, text, hash_bundle(root, entry.path)).read()
    except OSError as error:
        message = f"the tool '{entry.path}' cannot be read: {(error.strerror or '').lower()}"
        raise ConfigError(Finding(entry.span, "config", message)) from None
    except SyntaxError as error:
        span = Span(entry.path, error.lineno or 1, error.offset or 1)
        raise ConfigError(Finding(span, "config", f"this is not Python: {error.msg}")) from None
    except BundleError as error:
        raise ConfigError(Finding(Span.whole(entry.path), "config", str(error))) from None
    except UnicodeDecodeError:
        message = f"the tool '{entry.path}' is not UTF-8"
        raise ConfigError(Finding(Span.whole(entry.path), "config", message)) from None


def _find_stores(node: ast.AST) -> Iterator[ast.Name]:
    """The names of the module that a statement of it sets."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        return  # with names of their own
    for child in ast.iter_child_nodes(node):
        yield from _find_stores(child)


def _rename(profile: str) -> str:
    """`demo` for `toy`, as tools before 0.2 call it."""
    return "demo" if profile == "toy" else profile


class _ConstantReader:
    def __init__(self, entry: ToolEntry, text: str, sha256: str) -> None:
        self.entry = entry
        self.sha256 = sha256
        self.values = read_constants(text)
        self.lines: dict[str, int] = {}
        """Where each name is set last."""
        self.hidden: set[str] = set()
        """Names that are also set otherwise than by NAME = VALUE, and may have any value."""
        for node in ast.parse(text).body:
            match node:
                case ast.Assign(targets=targets):
                    plain: Sequence[ast.expr] = targets
                case ast.AnnAssign(target=target):
                    plain = [target]
                case _:
                    plain = []
            for name in _find_stores(node):
                if name.id not in self.hidden:
                    self.lines[name.id] = name.lineno
                if name not in plain:
                    self.hidden.add(name.id)

    def read(self) -> ToolFacts:
        profiles = self._read("PROFILES", {})
        if not (
            isinstance(profiles, dict)
            and all(isinstance(v, list | tuple) for v in profiles.values())
        ):
            raise self._refuse("PROFILES", "a list of arguments for each profile")
        ranks = self._read("RANKS", {})
        if not isinstance(ranks, dict) or not all(
            value == "accelerators" or (type(value) is int and value > 0)
            for value in ranks.values()
        ):
            raise self._refuse("RANKS", "a number or 'accelerators' for each profile")
        gpus = self._read("GPUS", {})
        if not isinstance(gpus, dict) or any(type(n) is not int or n < 1 for n in gpus.values()):
            raise self._refuse("GPUS", "a number from 1 for each profile that needs GPUs")
        if CUSTOM in profiles:
            needed = f"without '{CUSTOM}', which a run is called that has added arguments"
            raise self._refuse("PROFILES", needed)
        if odd := [name for name in ranks if name not in profiles]:
            raise self._refuse("RANKS", f"profiles that exist, and '{odd[0]}' does not")
        method = self._read("METHOD", 1)
        if type(method) is not int or method < 1:
            raise self._refuse("METHOD", "a whole number from 1")
        version = self._read("__version__", None)
        if not isinstance(version, str):
            raise self._refuse("__version__", "a text")
        return ToolFacts(
            self.entry.name,
            self.entry.path,
            version,
            method,
            self.sha256,
            {_rename(k): tuple(map(str, v)) for k, v in profiles.items()},
            {_rename(k): v for k, v in ranks.items()},
            gpus,
        )

    def _read(self, name: str, default: Any) -> Any:
        if name in self.hidden:
            raise self._refuse(name, "set once, by NAME = VALUE in a line of its own")
        if name not in self.values:
            return default
        try:
            return ast.literal_eval(self.values[name])
        except (ValueError, TypeError, RecursionError):
            raise self._refuse(name, "a literal, for it is read without running the tool") from None

    def _refuse(self, name: str, needed: str) -> ConfigError:
        span = Span(self.entry.path, self.lines.get(name, 1))
        message = f"the constant {name} of '{self.entry.name}' has to be {needed}"
        hint = "scripts/README.md in the repository of bindery says what a tool has to have"
        return ConfigError(Finding(span, "config", message, hint))


def plan_run(
    root: Path,
    name: str,
    profile: str,
    arguments: Sequence[str] = (),
    *,
    ranks: int | None = None,
    passed: Sequence[str] = (),
    python: str = "",
) -> Plan:
    """A run of a tool of the book with one of its profiles, `arguments` added to it, which makes
    the profile `custom`. `python` is the interpreter that runs the tool, this one by default.

    Raises ConfigError for a tool or profile that does not exist.
    """
    root = root.resolve()
    config = load_config(root, RULES)
    if name == FACTS:
        message = f"'{FACTS}' makes no record: its facts are part of every other one"
        raise ConfigError(
            Finding(Span.whole(config.file), "config", message, "run it with python, by its path")
        )
    entry = find_tool(config, name)
    tool = read_tool(root, entry)
    reporter = read_tool(root, find_tool(config, FACTS))
    if profile not in tool.profiles:
        nearest = find_nearest(profile, tool.profiles)
        hint = f"did you mean '{nearest}'? " if nearest else ""
        hint += f"it has: {', '.join(tool.profiles) or 'none'}"
        message = f"'{name}' has no profile '{profile}'"
        raise ConfigError(Finding(entry.span, "config", message, hint))
    return Plan(
        root,
        tool,
        reporter,
        CUSTOM if arguments else profile,
        (*tool.profiles[profile], *arguments),
        ranks or tool.ranks.get(profile),
        tuple(passed),
        tool.gpus.get(profile, 0),
        python or sys.executable,
    )


def describe_launcher(ranks: int) -> tuple[str, ...]:
    """The arguments for python that start so many ranks on this machine, in front of the tool."""
    return ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))


# --- the environment ---


def choose_environment(
    environ: Mapping[str, str], passed: Sequence[str] = (), *, folder: Path | None = None
) -> dict[str, str]:
    """The environment of a run: of what is set here only what it needs to find its programs, to
    reach its accelerators and to be steered. `folder` is its home and its place for temporary
    files. Raises ConfigError where one of those that are to be passed is not set."""
    if missing := [name for name in passed if name not in environ]:
        message = f"the environment variable '{missing[0]}' is not set"
        nearest = find_nearest(missing[0], environ)
        hint = f"did you mean '{nearest}'?" if nearest else "set it, or leave it out"
        raise ConfigError(Finding(Span.whole("--env"), "config", message, hint))
    chosen = {
        name: value
        for name, value in environ.items()
        if name in (*_PASSED, *_STEERING, *passed)
        or (name.startswith((*_PASSED_PREFIXES, *_STEERING_PREFIXES)) and name not in _NEVER_PASSED)
    }
    # A home of its own has no packages that pip has installed for the user alone.
    chosen |= {"PYTHONUNBUFFERED": "1", "PYTHONUSERBASE": site.getuserbase()}
    chosen |= {"PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "80", "NO_COLOR": "1"}
    if folder is not None:
        chosen |= {"HOME": str(folder), "TMPDIR": str(folder)}
    return chosen


def list_passed(passed: Iterable[str] = ()) -> tuple[str, ...]:
    """What `choose_environment` takes over, as patterns of a shell: for where the environment is
    not known here, on the nodes of a cluster."""
    prefixes = (f"{prefix}*" for prefix in (*_PASSED_PREFIXES, *_STEERING_PREFIXES))
    return (*sorted({*_PASSED, *_STEERING, *passed}), *prefixes)


def find_steering(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that steer a run, for its record: sorted, without folders of this machine and
    without those whose name speaks of a secret, a host or a user."""
    return {
        name: _SERIAL_NUMBER.sub(r"\1", hide_folders(value))
        for name, value in sorted(environment.items())
        if (name.startswith(_STEERING_PREFIXES) and not _NOT_STEERING.search(name))
        or name in _STEERING
        if not _PRIVATE.search(name)
    }


_NAME = r"[^\s/=,:;'\"]+"
_FOLDERS = re.compile(rf"(?<![\w.~/-])(?:/{_NAME})+/?")


def hide_folders(text: str, root: Path | None = None) -> str:
    """The text with absolute paths cut to their last name, or made relative to the root. The home
    of a user is `~`."""
    if root is not None:
        text = text.replace(f"{root}/", "")
    return _hide_homes(_FOLDERS.sub(_cut_folder, text))


def _cut_folder(match: re.Match[str]) -> str:
    path = PurePosixPath(match[0])
    return "~" if _match_homes().fullmatch(str(path)) else path.name


def _hide_homes(text: str) -> str:
    """The text with `~` for each home of a user, wherever in a word it stands."""
    return _match_homes().sub(lambda match: match["address"] or "~", text)


def _match_homes() -> re.Pattern[str]:
    with contextlib.suppress(RuntimeError):
        return _match_homes_with(str(Path.home()))
    return _match_homes_with("")


@functools.cache
def _match_homes_with(own: str) -> re.Pattern[str]:
    any_home = rf"(?:/{_NAME}){{0,20}}/(?:home|Users)/{_NAME}"
    own_home = rf"(?:(?<=-[A-Za-z])|(?<![\w.~-])){re.escape(own)}(?![\w-]|\.\w)"
    homes = any_home if len(own) < 2 else f"{any_home}|{own_home}"
    return re.compile(rf"(?P<address>https?://\S+)|(?<!:/)(?:{homes})")


def clean_values(value: Any, names: Mapping[str, str]) -> Any:
    """Values of JSON with each text in them as `clean_log` leaves it, keys of objects too."""
    match value:
        case str():
            return clean_log(value, names)
        case list() | tuple():
            return [clean_values(each, names) for each in value]
        case dict():
            cleaned: dict[str, Any] = {}
            for key, each in value.items():
                name = clean_log(key, names)
                while name in cleaned:
                    name += "_"  # two names of one host, say
                cleaned[name] = clean_values(each, names)
            return cleaned
        case _:
            return value


def clean_log(text: str, names: Mapping[str, str]) -> str:
    """The log without what identifies a person, a host or a folder: each of `names` is replaced
    by its stand-in, and so are homes, user and host."""
    replaced = dict(names)
    with contextlib.suppress(RuntimeError):
        replaced.setdefault(str(Path.home()), "~")
    replaced |= {sys.prefix: "PYTHON", sys.base_prefix: "PYTHON"}
    for folder in sorted(replaced, key=len, reverse=True):
        if len(folder) > 1:
            text = re.sub(rf"{re.escape(folder)}(?![\w-])", replaced[folder], text)
    text = _hide_homes(text)
    people = {platform.node(): "HOST", platform.node().partition(".")[0]: "HOST"}
    with contextlib.suppress(OSError, KeyError, ImportError):
        people[getpass.getuser()] = "USER"
    for name, stand_in in people.items():
        if len(name) > 2 and name not in ("root", "localhost"):
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", stand_in, text)
    return text


# --- the record ---


def read_output(path: Path) -> Any:
    """What a tool has written as JSON; None where there is nothing; the error where it is
    broken, or refused."""
    try:
        text = path.read_text(encoding="utf-8")
        return read_strict_json(text) if text.strip() else None
    except RefusedJsonError as error:
        return error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        return RefusedJsonError(f"the JSON is broken at {where}: {error.msg.lower()}", "")
    except UnicodeDecodeError as error:
        return RefusedJsonError(f"the JSON is not UTF-8 at byte {error.start}", "")
    except RecursionError:
        return RefusedJsonError("the JSON is nested too deeply", "")
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
    caveats: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
) -> Record | Finding:
    """A record, not yet sealed, of what a tool has written and of the facts of each node, or the
    reason why there is none.

    `output` is the tool's JSON as values, None where it has left none. `facts` has what
    env_report has written on each node. `ranks` is the number on each node; None where the tool
    was started by itself. `environment` is that of the run; only what steers is kept. `names` has
    folders and hosts of the run that no record may name, each with its stand-in.
    """

    def refuse(message: str, hint: str = "") -> Finding:
        return Finding(Span.whole(plan.tool.path), "bad-record", message, hint)

    name = plan.tool.name
    if not facts:
        return refuse("no node has told its facts")
    if output is None:
        return refuse(f"'{name}' left no results", _HINT_NO_RESULTS)
    if isinstance(output, RefusedJsonError):
        return refuse(f"'{name}' gave results that are no record: {output}")
    try:
        told = ToolOutput.model_validate(output)
    except ValidationError as error:
        hint = "the schema is scripts/schemas/tool-output-2.json in the repository of bindery"
        return refuse(f"'{name}' gave results that are no record: {describe_error(error)}", hint)
    if not told.results and ended != "done":
        return refuse(f"'{name}' left no results", _HINT_NO_RESULTS)
    if told.tool != name:
        return refuse(f"'{name}' says that it is '{told.tool}'")
    if told.method != plan.tool.method:
        message = f"'{name}' says that its method is {told.method}, and in its file METHOD is"
        hint = "let the tool write its constant METHOD"
        return refuse(f"{message} {plan.tool.method}", hint)
    try:
        machine, software, notes = _merge_facts(facts)
    except ValidationError as error:
        return refuse(f"'{FACTS}' gave facts that are none: {describe_error(error)}")
    except UnlikeMachinesError as error:
        hint = "run on nodes that are alike: numbers of a mixture cannot be compared with any"
        return refuse(f"the nodes of this run are not alike: {error}", hint)
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
        "machine": machine.model_dump(),
        "software": software,
        "units": told.units,
        "results": told.results,
        "details": clean_values(told.details, names or {}),
        "caveats": clean_values(
            tuple(dict.fromkeys((*told.caveats, *notes, *caveats))), names or {}
        ),
        "seal": None,
    }
    try:
        return Record.model_validate(data)
    except ValidationError as error:
        return refuse(f"'{name}' gave results that are no record: {describe_error(error)}")


_HINT_NO_RESULTS = (
    "a tool is called with --json PATH and writes its results there; what it said stands in its"
    " log; a tool that measures torch needs torch"
)


def _merge_facts(
    facts: Sequence[Mapping[str, Any]],
) -> tuple[Machine, Mapping[str, Any], tuple[str, ...]]:
    reports = [MachineReport.model_validate(each) for each in facts]
    machine = merge_machines([report.machine for report in reports])
    software = reports[0].software
    for index, report in enumerate(reports[1:], 1):
        for key in {**software, **report.software}:
            first, other = software.get(key), report.software.get(key)
            if first != other:
                raise UnlikeMachinesError(key, first, other, index)
    notes = (note for report in reports for note in report.caveats)
    return machine, software, tuple(dict.fromkeys(notes))


def keep_record(root: Path, record: Record, log: str | None = None) -> str:
    """Seal a record and write it, with its log beside it, as `<tool>/<machine>_<day>.json` and
    `.log`. Gives the path of the record, relative to the root. A second one of the day gets a
    number: nothing is ever replaced, not even by two runs that end at once."""
    machine = record.machine.label + (f"-{record.nodes}node" if record.nodes > 1 else "")
    stem = f"{FOLDER}/{record.tool}/{machine}_{record.started:%Y%m%d}"
    (root / stem).parent.mkdir(parents=True, exist_ok=True)
    count = 1
    while True:
        name = stem if count == 1 else f"{stem}_{count}"
        count += 1
        record_path, log_path = root / f"{name}.json", root / f"{name}.log"
        if record_path.exists() or log_path.exists():
            continue
        if log is not None and not _write_new(log_path, log):
            continue
        kept = record.model_copy(update={"log": log_path.name if log is not None else None})
        if _write_new(record_path, format_record(kept)):
            return f"{name}.json"
        if log is not None:
            log_path.unlink()


def _write_new(path: Path, text: str) -> bool:
    """Write a file whole, unless one of its name is there. Gives whether it was written."""
    partial = path.with_name(f".making-{uuid.uuid4().hex}")
    write_whole(partial, text.encode())
    try:
        # Unlike a move, a link never takes the place of a file that another run has just written.
        path.hardlink_to(partial)
    except FileExistsError:
        return False
    except OSError:
        return _write_only_new(path, text)
    finally:
        partial.unlink()
    return True


def _write_only_new(path: Path, text: str) -> bool:
    """The same on a file system without links, where a file is not whole from the beginning."""
    try:
        with path.open("x", encoding="utf-8", newline="") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


# --- the run on this machine ---


def explain_ending(
    ended: Ending, exit_status: int | None, limits: Limits, peak_bytes: int = 0
) -> str:
    """How a run has ended that did not end well, in words that follow the name of the tool."""
    match ended:
        case "done":
            return "ended well"
        case "failed":
            return f"ended with status {exit_status}"
        case "crashed":
            return f"was ended by {_name_signal(exit_status)}"
        case "timeout":
            return f"was ended after its {limits.seconds:g} s were up"
        case "memory":
            allowed = limits.memory_bytes
            used = f"was ended: it used {peak_bytes / GIB:.2f} GiB of memory"
            return f"{used}, and {allowed / GIB:.2f} GiB are allowed" if allowed else used
        case "output":
            return f"was ended: it printed more than {limits.output_bytes / MIB:.2f} MiB"
        case "interrupted":
            return "was interrupted"
        case "cancelled":
            return "was cancelled"
        case "node-failure":
            return "has lost a node"


def _name_signal(exit_status: int | None) -> str:
    try:
        return f"the signal {signal.Signals(-(exit_status or 0)).name}"
    except ValueError:
        return "a signal"


def read_facts(plan: Plan, folder: Path, environment: Mapping[str, str]) -> Mapping[str, Any]:
    """What env_report tells of this machine, by a run in `folder`. Raises BookError where it
    tells nothing."""
    output, log = folder / "facts.json", folder / "facts.log"
    command = [plan.python, str(plan.root / plan.reporter.path), "--json", str(output)]
    done = run_limited(
        command,
        folder=folder,
        environment=environment,
        seconds=_FACTS_SECONDS,
        memory_bytes=psutil.virtual_memory().total,
        output_bytes=MIB,
        log=log,
    )
    facts = read_output(output)
    if not isinstance(facts, dict) or done.ended == "interrupted":
        how = explain_ending(done.ended, done.code, Limits(_FACTS_SECONDS))
        last = log.read_text(encoding="utf-8").strip().rpartition("\n")[2]
        message = f"'{FACTS}' told nothing of this machine: it {how}"
        hint = f"its last words: {last}" if last else ""
        raise BookError(Finding(Span.whole(plan.reporter.path), "failed-run", message, hint))
    return facts


_FACTS_SECONDS = 300.0


def record_run(
    plan: Plan,
    limits: Limits,
    *,
    show: Show | None = None,
    watch: Callable[[float, int], None] | None = None,
) -> Recorded:
    """Run a tool on this machine and keep the record, with the log beside it.

    A run that is ended early leaves what it has written so far as a partial record. Where nothing
    can be recorded, log and results stay in a folder below `dist/runs/`. Raises ConfigError where
    the run cannot begin, and BookError where the machine tells no facts.
    """
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    (plan.root / RUNS).mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{plan.tool.name}_{stamp}_", dir=plan.root / RUNS))
    try:
        with name_target(folder):
            recorded = _record_run_in(folder, plan, limits, show, watch)
    except BookError:
        shutil.rmtree(folder)
        raise
    if recorded.record:
        shutil.rmtree(folder)
    return recorded


def _record_run_in(
    folder: Path,
    plan: Plan,
    limits: Limits,
    show: Show | None,
    watch: Callable[[float, int], None] | None,
) -> Recorded:
    log, results = folder / "run.log", folder / "results.json"
    with tempfile.TemporaryDirectory(prefix="bindery-run-", ignore_cleanup_errors=True) as made:
        work = Path(made).resolve()
        environment = choose_environment(os.environ, plan.passed, folder=work)
        facts = read_facts(plan, work, environment)
        ranks = count_ranks(plan, facts)
        if ranks is not None and ranks > 1:
            # What torchrun would set, said here so that the record says it too.
            environment.setdefault("OMP_NUM_THREADS", "1")
        limits = _settle(limits)
        launcher = describe_launcher(ranks) if ranks is not None else ()
        tool = str(plan.root / plan.tool.path)
        done = run_limited(
            [plan.python, *launcher, tool, *plan.arguments, "--json", str(results)],
            folder=work,
            environment=environment,
            seconds=limits.seconds,
            memory_bytes=limits.memory_bytes or 0,
            output_bytes=limits.output_bytes,
            log=log,
            show=show,
            watch=watch,
        )
    told = {str(folder): "RUN", str(work): "TMP", made: "TMP", str(plan.root): "."}
    text = clean_log(log.read_text(encoding="utf-8"), told)
    write_whole(log, text.encode())
    output = read_output(results)
    record = make_record(
        plan,
        output,
        [facts],
        ended=done.ended,
        exit_status=done.code,
        ranks=ranks,
        environment=environment,
        names=told,
    )
    how = explain_ending(done.ended, done.code, limits, done.peak_bytes)
    span = Span.whole(plan.tool.path)
    shown = log.relative_to(plan.root).as_posix()
    if isinstance(record, Finding):
        hint = f"{record.help}; " if record.help else ""
        if output is None or (isinstance(output, dict) and not output.get("results")):
            message = f"'{plan.tool.name}' {how} and left no results"
            record = Finding(span, "failed-run", message)
        elif done.ended != "done":
            hint = f"it {how}; {hint}"
        hint += f"its log is '{shown}'"
        hint += ", with what it has written beside it" if results.exists() else ""
        return Recorded(None, shown, replace(record, help=hint))
    try:
        path = keep_record(plan.root, record, text)
    except OSError as error:
        message = f"the record cannot be written: {(error.strerror or str(error)).lower()}"
        hint = f"what was measured is in '{shown.removesuffix(log.name)}'"
        return Recorded(None, shown, Finding(Span.whole(FOLDER), "failed-run", message, hint))
    kept = path.removesuffix(".json") + ".log"
    if done.ended == "done":
        return Recorded(path, kept, None)
    what = "everything it had to measure" if record.complete else "what it had measured"
    hint = f"{what} is in '{path}', its log beside it"
    finding = Finding(span, "failed-run", f"'{plan.tool.name}' {how}", hint)
    return Recorded(path, kept, finding)


def count_ranks(plan: Plan, facts: Mapping[str, Any]) -> int | None:
    """Ranks on each node, the facts of one of them being known. Raises ConfigError where the
    profile needs an accelerator and this machine has none."""
    count = len(facts.get("machine", {}).get("accelerators", ()))
    if count or not (plan.gpus or plan.ranks == "accelerators"):
        return count if plan.ranks == "accelerators" else plan.ranks
    message = f"the profile '{plan.profile}' of '{plan.tool.name}' needs an accelerator"
    hint = "this machine has none: use `--profile demo`, or run it on a machine that has one"
    raise ConfigError(Finding(Span.whole(plan.tool.path), "config", message, hint))


def _settle(limits: Limits) -> Limits:
    if limits.memory_bytes is not None:
        return limits
    return replace(limits, memory_bytes=psutil.virtual_memory().available * 9 // 10)
