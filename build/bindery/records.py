"""Records: what a run of a companion tool left behind, typed and validated.

A record is one JSON file below `scripts/records/`. Numbers are in base units: seconds, bytes,
FLOP per second, watts, hertz.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, field_validator

from bindery.load import RECORDS_FOLDER, Tree
from bindery.model import Finding, Span

FOLDER = RECORDS_FOLDER
SCHEMA = 1

Scalar = str | int | float | bool | None


class Cpu(BaseModel):
    """Facts of the processor; what could not be read is None."""

    model_config = ConfigDict(frozen=True, extra="allow")

    model: str | None = None
    architecture: str | None = None
    sockets: int | None = None
    cores: int | None = None
    threads: int | None = None
    numa_nodes: int | None = None


class Accelerator(BaseModel):
    model_config = ConfigDict(frozen=True, extra="allow")

    vendor: str | None = None
    model: str | None = None
    memory_bytes: int | None = None


class Machine(BaseModel):
    """Facts of the machine, none of which identifies a person or a host."""

    model_config = ConfigDict(frozen=True, extra="allow")

    label: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    cpu: Cpu
    memory_bytes: int | None = None
    accelerators: tuple[Accelerator, ...] = ()


class Record(BaseModel):
    """One run: which tool and method, which command, which machine, which day, what came out."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    schema_number: Annotated[Literal[1], Field(alias="schema")]
    tool: Annotated[str, Field(pattern=r"^[a-z0-9_]+$")]
    version: str
    method: Annotated[int, Field(ge=1)]
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    profile: str
    command: tuple[str, ...]
    started: datetime
    seconds: Annotated[float, Field(ge=0)]
    exit_status: int
    complete: bool
    machine: Machine
    software: dict[str, Scalar]
    results: tuple[dict[str, Scalar], ...]
    details: dict[str, JsonValue] = {}
    caveats: tuple[str, ...] = ()

    @field_validator("started")
    @classmethod
    def _has_zone(cls, value: datetime) -> datetime:
        if value.tzinfo is None:
            raise ValueError("the time needs a zone, such as the Z of UTC")
        return value.astimezone(UTC)


class RefusedJsonError(ValueError):
    """JSON says the same thing twice, or a number that is none. `pattern` finds the place."""

    def __init__(self, message: str, pattern: str) -> None:
        super().__init__(message)
        self.pattern = pattern


def _refuse_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    keys = [key for key, _ in pairs]
    for key in keys:
        if keys.count(key) > 1:
            message = f"the key '{key}' stands there twice"
            raise RefusedJsonError(message, rf'"{re.escape(key)}"\s*:')
    return dict(pairs)


def _refuse_constant(name: str) -> None:
    message = f"{name} is no number that can be compared; write null"
    raise RefusedJsonError(message, rf"(?<![\w\"]){name}(?![\w\"])")


def parse_record(path: str, text: str) -> Record | Finding:
    """A record from its JSON, or what is wrong with it."""
    try:
        data = json.loads(
            text, object_pairs_hook=_refuse_duplicates, parse_constant=_refuse_constant
        )
    except json.JSONDecodeError as error:
        span = Span(path, error.lineno, error.colno)
        return Finding(span, "bad-record", f"this is not JSON: {error.msg.lower()}")
    except RefusedJsonError as error:
        return Finding(Span(path, _find_line(text, [error.pattern])), "bad-record", str(error))
    try:
        return Record.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the record"
        reason = first["msg"].removeprefix("Value error, ")
        message = f"'{place}': {reason[:1].lower()}{reason[1:]}"
        keys = [rf'"{re.escape(part)}"' for part in first["loc"] if isinstance(part, str)]
        return Finding(
            Span(path, _find_line(text, keys)), "bad-record", message, "see scripts/README.md"
        )


def _find_line(text: str, patterns: Iterable[str]) -> int:
    """The line on which these stand one behind the other, as far as they do; JSON keeps no
    positions, so this is a search."""
    position = found = 0
    for pattern in patterns:
        if match := re.compile(pattern).search(text, position):
            position, found = match.end(), match.start()
    return text.count("\n", 0, found) + 1


def load_records(tree: Tree) -> Iterator[tuple[str, Record] | Finding]:
    """Each record under its name `<tool>/<file>`, or the finding that keeps it out."""
    for path in tree.walk_files(FOLDER):
        if not path.endswith(".json"):
            continue
        name = path.removeprefix(f"{FOLDER}/").removesuffix(".json")
        try:
            text = tree.read_bytes(path).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            yield Finding(Span.whole(path), "bad-record", f"this record cannot be read: {error}")
            continue
        record = parse_record(path, text)
        if isinstance(record, Record) and name.partition("/")[0] != record.tool:
            message = f"a record of '{record.tool}' lies in the folder of another tool"
            yield Finding(Span.whole(path), "bad-record", message, f"move it to '{record.tool}/'")
        else:
            yield record if isinstance(record, Finding) else (name, record)
