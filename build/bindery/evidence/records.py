"""Records of runs, typed and validated.

A record is a JSON file in `scripts/records/`. Its numbers are in base units: seconds, bytes, FLOP,
FLOP per second, watts, hertz (see `units`).
"""

from __future__ import annotations

import json
import math
import re
import shlex
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
from msgspec import DecodeError, Meta, Struct, field
from msgspec.structs import force_setattr, replace

from bindery.core.model import SAVE_AS_UTF8, Finding, Span, find_bad_byte
from bindery.core.repository import RECORDS_FOLDER, Tree
from bindery.core.units import BASE_UNITS, read_unit
from bindery.evidence import seals
from bindery.evidence.record_limits import LARGEST_BYTES, find_excess

FOLDER = RECORDS_FOLDER
SCHEMAS = "scripts/schemas"
SCHEMA = 2
OPTIONS_FILE = "options.json"
"""The options of a tool, stored with its records."""
DEMO = "demo"
"""The profile that only demonstrates that a tool runs."""
Scalar = str | int | float | bool | None
Ending = Literal[
    "done",
    "failed",
    "timeout",
    "interrupted",
    "cancelled",
    "memory",
    "output",
    "crashed",
    "node-failure",
]
WHOLE_ENDINGS = ("done", "failed")
"""`ended` of a run that nothing stopped."""
CUSTOM = "custom"
"""The profile of a run with extra arguments, which measures something else."""

CONTRIBUTOR = r"^[A-Za-z0-9][A-Za-z0-9-]{0,38}$"
"""A login of GitHub."""

_LARGEST = 2**63 - 1


UNREADABLE = "this JSON is nested too deeply, or has too long a number"
"""What is wrong with JSON that Python's reader gives up on."""


class MisplacedError(ValueError):
    """A fault deeper in the record; `place` is its path from the root."""

    def __init__(self, place: tuple[str | int, ...], reason: str) -> None:
        super().__init__(reason)
        self.place = place


def _explain_wrong_scalar(value: object) -> str:
    """Why a value cannot be a cell, or empty."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"it is {json.dumps(value)}, which cannot be compared; write null"
    if isinstance(value, int) and abs(value) > _LARGEST:
        return "an integer of more than 64 bits; write it as 1.5e20"
    if value is None or isinstance(value, str | float | int):
        return ""
    kind = "a list" if isinstance(value, list) else "an object"
    return f"{kind} is not a single value: text, number, true, false or null"


def _check_rows(rows: Sequence[Mapping[str, object]]) -> None:
    for index, row in enumerate(rows):
        for key, cell in row.items():
            if reason := _explain_wrong_scalar(cell):
                raise MisplacedError(("results", index, key), reason)


# Checked by functions of ours, for a better message; the schema says it too.
Cell = Annotated[
    Any, Meta(extra_json_schema={"type": ["string", "integer", "number", "boolean", "null"]})
]
Unit = Annotated[str, Meta(extra_json_schema={"enum": list(BASE_UNITS)})]
Time = Annotated[datetime, Meta(tz=True)]
Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Digest = Annotated[str, Meta(pattern=rf"^[0-9a-f]{{{seals.DIGITS}}}$")]


class _Model(Struct, frozen=True, forbid_unknown_fields=True):
    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if isinstance(value, float) and not math.isfinite(value):
                raise MisplacedError((name,), f"{json.dumps(value)} is not a finite number")


class NumaNode(_Model, frozen=True):
    """A NUMA node of main memory."""

    index: Count
    """The kernel's number of the node."""
    threads: Count | None = None
    """Hardware threads of the node."""
    memory_bytes: Count | None = None
    """Bytes of main memory on the node."""


class Cpu(_Model, frozen=True):
    """Facts about the CPU; what could not be read is null."""

    model: str | None = None
    """Model name reported by the CPU."""
    architecture: str | None = None
    """Such as x86_64 or aarch64."""
    instruction_sets: tuple[str, ...] | None = None
    """Vector and matrix instruction sets, weakest first, such as avx2 or amx_bf16. CPUs of the same
    name with different ones can differ tenfold in speed."""
    sockets: Count | None = None
    """Number of sockets."""
    cores: Count | None = None
    """Number of physical cores on all sockets."""
    threads: Count | None = None
    """Number of hardware threads on all sockets."""
    numa_nodes: Count | None = None
    """Number of NUMA nodes."""
    numa: tuple[NumaNode, ...] = ()
    """The NUMA nodes."""
    governor: str | None = None
    """The kernel's frequency governor, such as performance or powersave."""


class Accelerator(_Model, frozen=True):
    """Facts about one accelerator; what could not be read is null."""

    vendor: str | None = None
    """nvidia, amd, intel, or another name in lower case."""
    model: str | None = None
    """Model name reported by the driver."""
    memory_bytes: Count | None = None
    """Bytes of device memory."""
    power_limit_watts: float | None = None
    """Power limit in force."""
    power_limit_default_watts: float | None = None
    """Default power limit."""
    power_limit_max_watts: float | None = None
    """Highest configurable power limit."""
    clock_max_hertz: Count | None = None
    """Maximum compute clock."""
    memory_clock_max_hertz: Count | None = None
    """Maximum memory clock."""
    clock_hertz: Count | None = None
    """Compute clock when queried."""
    memory_clock_hertz: Count | None = None
    """Memory clock when queried."""
    temperature_celsius: float | None = None
    """Temperature when queried."""
    throttle_reasons: tuple[str, ...] | None = None
    """Throttle reasons when queried."""
    numa_node: Count | None = None
    """The NUMA node it is attached to."""
    driver: str | None = None
    """Driver version."""
    source: str | None = None
    """Interface that reported these facts, such as nvml."""


class SlurmJob(_Model, frozen=True):
    """The shape of the Slurm job, without names."""

    nodes: Count | None = None
    """Number of nodes."""
    tasks: Count | None = None
    """Number of tasks on all nodes."""
    tasks_per_node: str | None = None
    """Tasks per node, as Slurm writes it: 8(x2)."""
    cpus_per_task: Count | None = None
    """CPUs requested per task."""
    cpus_on_node: Count | None = None
    """CPUs allocated on the node."""
    gpus_on_node: Count | None = None
    """GPUs allocated on the node."""
    memory_per_node_bytes: Count | None = None
    """Bytes of main memory allocated on the node."""
    memory_per_cpu_bytes: Count | None = None
    """Bytes of main memory allocated per CPU."""


class Machine(_Model, frozen=True):
    """Facts about one machine. None identifies a person or, unless requested, a host."""

    label: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    """Short name of its kind (cpu-x86_64-avx2-2core); file names of records start with it."""
    cpu: Cpu
    """The CPU."""
    memory_bytes: Count | None = None
    """Bytes of main memory."""
    accelerators: tuple[Accelerator, ...] = ()
    """The accelerators, in driver order."""
    kernel: str | None = None
    """Kernel release."""
    os: str | None = None
    """Operating system."""
    container: str | None = None
    """Kind of container, such as docker or apptainer; null if none is detected."""
    virtualisation: str | None = None
    """Kind of virtualization, such as kvm; none on bare metal; null if unknown."""
    slurm: SlurmJob | None = None
    """The Slurm job, or null outside of one."""
    hostname: str | None = None
    """Host name, only if requested."""

    @property
    def hardware(self) -> str:
        """What must be equal for numbers to be comparable: the accelerators, or else the CPU.
        `8 x NVIDIA H100 80GB HBM3`; `AMD EPYC with avx2, 1 socket, 2 cores`."""
        counts: dict[str, int] = {}
        for accelerator in self.accelerators:
            name = accelerator.model or accelerator.vendor or "unknown accelerator"
            counts[name] = counts.get(name, 0) + 1
        if counts:
            return ", ".join(f"{count} x {name}" for name, count in counts.items())
        cpu = self.cpu
        parts = [cpu.model or f"unknown {cpu.architecture or ''}".rstrip() + " processor"]
        if cpu.instruction_sets:
            parts[0] += f" with {cpu.instruction_sets[-1]}"
        for count, noun in ((cpu.sockets, "socket"), (cpu.cores or cpu.threads, "core")):
            if count is not None:
                kind = "thread" if noun == "core" and cpu.cores is None else noun
                parts.append(f"{count} {kind}{'' if count == 1 else 's'}")
        return ", ".join(parts)


Software = dict[str, Scalar]


class TableSeal(_Model, frozen=True):
    """Digests of the results."""

    rows: tuple[Digest, ...]
    """One per row."""
    columns: dict[str, Digest]
    """One per column, over the list of its values, with null where a row has none."""


def _explain_wrong_unit(unit: str) -> str:
    """Why a column cannot have this unit, or empty."""
    if unit in BASE_UNITS:
        return ""
    known = read_unit(unit)
    if known is None or known.base not in BASE_UNITS:
        return f"'{unit}' is not a base unit; one of: {', '.join(BASE_UNITS)}"
    meaning = BASE_UNITS[known.base].meaning
    return f"'{unit}' is not a base unit; store {meaning}, with the unit '{known.base}'"


def _check_units(given: Mapping[str, str], rows: Sequence[Mapping[str, Scalar]]) -> None:
    columns: dict[str, set[type]] = defaultdict(set)
    for row in rows:
        for key, value in row.items():
            columns[key].add(type(value))
    for key, unit in given.items():
        if reason := _explain_wrong_unit(unit):
            raise MisplacedError(("units", key), reason)
        if rows and key not in columns:
            raise MisplacedError(("units", key), "no row of the results has this column")
        if not columns.get(key, set()).isdisjoint((str, bool)):
            raise MisplacedError(("units", key), "only a column of numbers can have a unit")
    for key, types in columns.items():
        if key not in given and not types.isdisjoint((int, float)):
            reason = f"the column '{key}' has no unit; one of: {', '.join(BASE_UNITS)}"
            raise MisplacedError(("units",), reason)


class MachineReport(_Model, frozen=True):
    """Output of env_report with `--json`: the facts about one machine."""

    tool: Literal["env_report"]
    """Name of the tool."""
    version: str
    """Version of the tool."""
    method: Positive
    """The tool's METHOD."""
    machine: Machine
    """The machine."""
    software: Software
    """Versions of software by name; null if not installed."""
    caveats: tuple[str, ...] = ()
    """What could not be read, or limits what a program can use."""


class ToolOutput(_Model, frozen=True, kw_only=True):
    """Output of a companion tool with `--json`."""

    tool: Annotated[str, Meta(pattern=r"^[a-z0-9_]+$")]
    """Name of the tool: its file name without the suffix."""
    version: str
    """Version of the tool."""
    method: Positive
    """The tool's METHOD; results of other methods are not comparable."""
    started: Time
    """Start of the run, with time zone (ISO 8601)."""
    seconds: Annotated[float, Meta(ge=0)]
    """Duration of the run."""
    complete: bool
    """Whether everything requested was measured."""
    command: tuple[str, ...] = ()
    """The command line of the tool; a record has the one that bindery ran."""
    units: dict[str, Unit]
    """The base unit of each numeric column of the results."""
    results: tuple[dict[str, Cell], ...]
    """The measurements, row by row: text, numbers, true, false and null by column."""
    details: dict[str, Any] = {}
    """Further information about the results."""
    caveats: tuple[str, ...] = ()
    """What could not be measured, and what to know before using the results."""

    def __post_init__(self) -> None:
        super().__post_init__()
        force_setattr(self, "started", self.started.astimezone(UTC))
        _check_rows(self.results)
        _check_units(self.units, self.results)


class Record(_Model, frozen=True, kw_only=True):
    """A run: tool and method, command, machine, date and results."""

    schema_number: Literal[2] = field(name="schema")
    """Version of this schema."""
    tool: Annotated[str, Meta(pattern=r"^[a-z0-9_]+$")]
    """Name of the tool."""
    version: str
    """Version of the tool."""
    method: Positive
    """The tool's METHOD; records of other methods are not comparable."""
    sha256: Annotated[str, Meta(pattern=r"^[0-9a-f]{64}$")]
    """Digest of the tool's source."""
    profile: Annotated[str, Meta(min_length=1)]
    """The tool's profile that was used, such as demo or full; custom if arguments were added."""
    command: Annotated[tuple[str, ...], Meta(min_length=1)]
    """The command, relative to the book's root."""
    environment: dict[str, str] = {}
    """Environment variables that affect a run, such as NCCL_ALGO or OMP_NUM_THREADS."""
    started: Time
    """Start of the run, with time zone (ISO 8601)."""
    seconds: Annotated[float, Meta(ge=0)]
    """Duration of the run, as reported by the tool."""
    exit_status: int | None
    """Exit status of the tool, negative for a signal; null if unknown."""
    ended: Ending
    """How the run ended."""
    complete: bool
    """Whether everything requested was measured."""
    nodes: Positive = 1
    """Number of nodes."""
    ranks: Positive = 1
    """Number of ranks on all nodes."""
    machine: Machine
    """Facts about one node; all nodes are alike."""
    software: Software
    """Versions of software by name; null if not installed."""
    units: dict[str, Unit]
    """The base unit of each numeric column of the results."""
    results: tuple[dict[str, Cell], ...]
    """The measurements, row by row: text, numbers, true, false and null by column."""
    details: dict[str, Any] = {}
    """Further information about the results."""
    caveats: tuple[str, ...] = ()
    """What could not be measured, and what to know before using the results."""
    log: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]+\.log$")] | None = None
    """Name of the log next to the record."""
    contributor: Annotated[str, Meta(pattern=CONTRIBUTOR)] | None = None
    """GitHub login of who sent the record; null for the authors' own."""
    seal: dict[str, Digest | TableSeal]
    """Digests of the other fields: the first 16 hex digits of the SHA-256 of their canonical JSON;
    for the results, per row and per column. Empty until the record is written."""

    @property
    def shell_line(self) -> str:
        """The command as typed in a shell, preceded by the environment variables."""
        steering = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*steering, shlex.join(self.command)])

    @property
    def profile_name(self) -> str:
        """The current name of its profile: `demo` was `toy` before 0.2."""
        return DEMO if self.profile == "toy" else self.profile

    @property
    def is_demo(self) -> bool:
        """Whether it only demonstrates that the tool runs."""
        return self.profile_name == DEMO

    @property
    def again(self) -> str:
        """How to repeat the measurement, as an end of `measure again with`."""
        if self.profile != CUSTOM:
            return f"`bindery run {self.tool} --profile {self.profile_name}`"
        return f"`bindery run {self.tool} -- ...` and the arguments of its command"

    def __post_init__(self) -> None:
        super().__post_init__()
        force_setattr(self, "started", self.started.astimezone(UTC))
        _check_rows(self.results)
        _check_units(self.units, self.results)
        if self.complete and self.ended not in WHOLE_ENDINGS:
            raise MisplacedError(("complete",), f"a run that ended as '{self.ended}' is partial")
        if self.ended == "done" and self.exit_status != 0:
            raise MisplacedError(
                ("ended",), f"'done' requires exit status 0, not {self.exit_status}"
            )
        if self.ended == "failed" and (self.exit_status or 0) <= 0:
            status = "null" if self.exit_status is None else self.exit_status
            reason = f"'failed' requires an exit status above 0, not {status}"
            raise MisplacedError(("ended",), reason)
        if self.ranks < self.nodes:
            reason = f"{self.nodes} nodes need at least {self.nodes} ranks, not {self.ranks}"
            raise MisplacedError(("ranks",), reason)


# --- text to record ---


def parse_record(path: str, text: str, latest: datetime | None = None) -> Record | Finding:
    """A record from its JSON, or a finding: `bad-record`, or `edited-record` if its values are not
    those that the tool measured. A run that started after `latest` is invalid."""
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        span = Span(path, error.lineno, error.colno)
        return Finding(span, "bad-record", f"this is not valid JSON: {error.msg.lower()}")
    except (ValueError, RecursionError):  # an integer of 5,000 digits, a list in a list in a list
        return Finding(
            Span.whole(path),
            "bad-record",
            UNREADABLE,
        )
    if not isinstance(data, dict):
        return Finding(Span.whole(path), "bad-record", "a record must be a JSON object")
    number = data.get("schema", SCHEMA)
    if number != SCHEMA:
        span = Span(path, _find_line(text, ("schema",)))
        message = f"'schema' is {json.dumps(number)}, but this version of bindery reads {SCHEMA}"
        return Finding(span, "bad-record", message, "use the version of bindery that wrote it")
    if excess := find_excess(data):
        return _report(path, text, *excess)
    try:
        record = msgspec.convert(data, Record)
    except msgspec.ValidationError as error:
        return _report(path, text, *explain_error(error))
    if not record.seal:
        return _report(path, text, ("seal",), "the record has no seal")
    if edit := seals.find_edit(data):
        place, message = edit
        hint = f"undo the edit with `git checkout -- {path}`, or measure again with {record.again}"
        return Finding(Span(path, _find_line(text, place)), "edited-record", message, hint)
    if latest and record.started > latest:
        return _report(path, text, ("started",), "this is in the future; was the clock wrong?")
    return record


_KINDS = {
    "int": "an integer",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "datetime": "a time",
}
"""What msgspec calls the types of JSON, and what we call them."""


def explain_error(error: DecodeError) -> tuple[tuple[str | int, ...], str]:
    """The place of the first fault, and the reason."""
    message, _, path = str(error).partition(" - at `$")
    steps = re.findall(r"\.(\w+)|\[(\d+)\]", path)
    place: tuple[str | int, ...] = tuple(key or int(index) for key, index in steps)
    cause = error.__cause__
    if isinstance(cause, MisplacedError):
        return (*place, *cause.place), str(cause)
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", message):
        return (*place, unknown[1]), "the schema has no such field"
    if missing := re.fullmatch(r"Object missing required field `(.*)`", message):
        return (*place, missing[1]), "this field is missing"
    if value := re.fullmatch(r"Invalid enum value (.*)", message):
        return place, f"{value[1]} is not one of the values the schema allows"
    if message.startswith("Invalid RFC3339"):
        return place, "this is not a time such as 2026-11-20T17:00:00Z"
    reason = re.sub(r"`(\w+)`", lambda kind: _KINDS.get(kind[1], kind[1]), message)
    reason = reason.replace("a timezone component", "a time zone").replace("`", "")
    return place, reason.replace("Expected", "expected", 1)


def describe_error(error: DecodeError) -> str:
    """The first fault: its place, and the reason."""
    place, reason = explain_error(error)
    return f"'{_name_place(place)}': {reason}"


def _name_place(place: Sequence[str | int]) -> str:
    return ".".join(map(str, place)) or "the document"


def _report(path: str, text: str, place: tuple[str | int, ...], reason: str) -> Finding:
    # A tool's author can follow the advice to write something else; records must not be edited.
    message, _, advice = f"'{_name_place(place)}': {reason}".partition("; write ")
    hint = f"see the schema {SCHEMAS}/record-{SCHEMA}.json in the bindery repository"
    if advice:
        hint = f"make the tool write {advice}, then measure again"
    return Finding(Span(path, _find_line(text, place)), "bad-record", message, hint)


_SPACE = re.compile(r"[\s,:]*")


def _find_line(text: str, place: Sequence[str | int]) -> int:
    """The line of this part of a JSON text, or of its nearest existing parent."""
    decoder = json.JSONDecoder()

    def skip(position: int) -> int:
        match = _SPACE.match(text, position)
        return match.end() if match else position

    position = found = skip(0)
    for part in place:
        opening = text[position : position + 1]
        if opening not in ("{", "["):
            break
        position, index, is_there = skip(position + 1), 0, False
        while position < len(text) and text[position] not in "]}":
            key: object = index
            start = position
            if opening == "{":
                key, end = decoder.raw_decode(text, position)
                position = skip(end)
            if key == part:
                found, is_there = start, True
                break
            _, end = decoder.raw_decode(text, position)
            position, index = skip(end), index + 1
        if not is_there:
            break
    return text.count("\n", 0, found) + 1


def format_record(record: Record) -> str:
    """The JSON of a record with its seal."""
    data = seals.seal_record(msgspec.to_builtins(record))
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


def load_records(
    tree: Tree, latest: datetime | None = None, tools: Container[str] | None = None
) -> Iterator[tuple[str, Record] | Finding]:
    """All records, or those of some tools, with their names `<tool>/<file>`, or findings for
    invalid ones."""
    for path in tree.walk_files(FOLDER):
        if not path.endswith(".json") or path.endswith(f"/{OPTIONS_FILE}"):
            continue
        name = path.removeprefix(f"{FOLDER}/").removesuffix(".json")
        if tools is not None and name.partition("/")[0] not in tools:
            continue
        if large := _find_large(tree, path):
            yield large
            continue
        try:
            text = tree.read_bytes(path).decode("utf-8")
        except UnicodeDecodeError as error:
            span, message = find_bad_byte(path, error)
            yield Finding(span, "bad-record", message, SAVE_AS_UTF8)
            continue
        except OSError as error:
            yield Finding(Span.whole(path), "bad-record", f"this record cannot be read: {error}")
            continue
        record = parse_record(path, text, latest)
        if isinstance(record, Record) and name.partition("/")[0] != record.tool:
            message = f"this record of '{record.tool}' is in another tool's folder"
            yield Finding(Span.whole(path), "bad-record", message, f"move it to '{record.tool}/'")
        else:
            yield record if isinstance(record, Finding) else (name, record)


def _find_large(tree: Tree, path: str) -> Finding | None:
    """A record, or the log beside it, that is too large for a book."""
    for name in (path, path.removesuffix(".json") + ".log"):
        if tree.find_kind(name) == "file" and (size := tree.measure(name)) > LARGEST_BYTES:
            message = f"it has {size / 1e6:.1f} MB, but the limit is {LARGEST_BYTES >> 20} MiB"
            hint = "keep only the relevant part of the log" if name != path else "record fewer rows"
            return Finding(Span.whole(name), "bad-record", message, hint)
    return None


# --- several nodes, one machine ---


class UnlikeMachinesError(ValueError):
    """Two nodes of a run differ in something that affects speed."""

    def __init__(self, field: str, first: object, second: object, index: int) -> None:
        super().__init__(f"'{field}' is '{first}' on node 1, but '{second}' on node {index + 1}")


_SIZE_TOLERANCE = 0.01
_MOMENTARY = frozenset(
    ("clock_hertz", "memory_clock_hertz", "temperature_celsius", "throttle_reasons", "source")
)
_OWN_TO_A_NODE = frozenset(("slurm", "hostname", "label"))


def merge_machines(machines: Sequence[Machine]) -> Machine:
    """Merge several machines into one. Momentary facts become the worst: the lowest clock, the
    highest temperature, all throttle reasons. Other differences become null.

    Raises UnlikeMachinesError if they differ in anything that affects speed.
    """
    first = machines[0]
    for index, other in enumerate(machines[1:], 1):
        _compare_facts("", msgspec.to_builtins(first), msgspec.to_builtins(other), index)
    accelerators = tuple(
        _merge_moments([machine.accelerators[position] for machine in machines])
        for position in range(len(first.accelerators))
    )
    changes: dict[str, object] = {"accelerators": accelerators}
    if len(machines) > 1:
        is_one_job = all(machine.slurm == first.slurm for machine in machines)
        changes |= {"hostname": None, "slurm": first.slurm if is_one_job else None}
    return replace(first, **changes)


def _compare_facts(name: str, first: Any, second: Any, index: int) -> None:
    match first, second:
        case dict(), dict():
            for key in first:
                if key not in _MOMENTARY and not (not name and key in _OWN_TO_A_NODE):
                    _compare_facts(f"{name}.{key}".lstrip("."), first[key], second[key], index)
        case tuple() | list(), tuple() | list():
            if len(first) != len(second):
                raise UnlikeMachinesError(f"number of {name}", len(first), len(second), index)
            for number, (one, other) in enumerate(zip(first, second, strict=True)):
                _compare_facts(f"{name}.{number}", one, other, index)
        case int(), int() if name.endswith("memory_bytes"):
            if abs(first - second) > _SIZE_TOLERANCE * max(first, second):
                raise UnlikeMachinesError(name, first, second, index)
        case _:
            if first != second:
                raise UnlikeMachinesError(name, first, second, index)


def _merge_moments(same: Sequence[Accelerator]) -> Accelerator:
    def gather(key: str) -> list[Any]:
        return [value for entry in same if (value := getattr(entry, key)) is not None]

    reasons = gather("throttle_reasons")
    return replace(
        same[0],
        clock_hertz=min(gather("clock_hertz"), default=None),
        memory_clock_hertz=min(gather("memory_clock_hertz"), default=None),
        temperature_celsius=max(gather("temperature_celsius"), default=None),
        throttle_reasons=(
            tuple(dict.fromkeys(reason for each in reasons for reason in each)) if reasons else None
        ),
    )
