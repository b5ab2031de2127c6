"""A run before it starts: what the tool declares in its constants, and what to run with which
arguments."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, PositiveInt, ValidationError

from bindery.check.rules import RULES
from bindery.core.config import Config, ToolEntry, load_config
from bindery.core.model import ConfigError, Span, refuse
from bindery.core.suggestions import suggest
from bindery.evidence.records import CUSTOM, explain_error
from bindery.runs.anonymize import hide_folders
from bindery.tools.bundle import BundleError, hash_bundle
from bindery.tools.tool_source import read_constants

FACTS = "env_report"
"""The tool that reports the facts of the machine."""

Ranks = int | Literal["accelerators"]


@dataclass(frozen=True, slots=True)
class ToolFacts:
    """What a tool declares in its constants, read without running it."""

    name: str
    path: str
    """Relative to the root of the book."""
    version: str
    method: int
    sha256: str
    """Of the file that `bindery bundle` makes of it."""
    profiles: Mapping[str, tuple[str, ...]]
    ranks: Mapping[str, Ranks]
    """Ranks per node by profile; empty for a tool that is one process."""
    gpus: Mapping[str, int]
    """GPUs per node that a profile needs: requested from Slurm, and required on this machine."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run, the same on this machine and on a cluster."""

    root: Path
    tool: ToolFacts
    reporter: ToolFacts
    """The tool that reports the facts of the machine."""
    profile: str
    """A profile of the tool, or `custom` if arguments were added: that measures something else."""
    arguments: tuple[str, ...]
    """All arguments of the tool except `--json PATH`."""
    ranks: Ranks | None
    """Ranks per node, started by torchrun; None if the tool is started directly."""
    passed: tuple[str, ...] = ()
    """Environment variables to pass on, besides the usual ones."""
    gpus: int = 0
    """GPUs per node that the profile needs."""
    python: str = sys.executable
    """The Python that runs the tool on this machine."""

    def describe_command(self, ranks: int | None = None) -> tuple[str, ...]:
        """The command as recorded, without folders of this machine. `ranks` is per node."""
        arguments = (hide_folders(argument, self.root) for argument in self.arguments)
        launcher = describe_launcher(ranks) if ranks is not None else ()
        return ("python", *launcher, self.tool.path, *arguments)


def describe_launcher(ranks: int) -> tuple[str, ...]:
    """The arguments of python, before the tool, that start so many ranks on this machine."""
    return ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))


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
    """Plan a run of a tool with one of its profiles and further arguments. `python` is the
    interpreter that runs the tool; the default is the one that runs bindery.

    Raises ConfigError if the tool or the profile does not exist.
    """
    root = root.resolve()
    config = load_config(root, RULES)
    if name == FACTS:
        message = f"'{FACTS}' makes no record: every other record includes its facts"
        raise refuse(config.file, message, "run it with python, by its path")
    entry = find_tool(config, name)
    tool = read_tool(root, entry)
    reporter = read_tool(root, find_tool(config, FACTS))
    if profile not in tool.profiles:
        known = f"it has: {', '.join(tool.profiles) or 'none'}"
        hint = f"{suggest(profile, tool.profiles)} {known}".strip()
        raise refuse(entry.span, f"'{name}' has no profile '{profile}'", hint)
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


def find_tool(config: Config, name: str) -> ToolEntry:
    """The tool of this name in chapters.yaml. Raises ConfigError if there is none."""
    tools = {tool.name: tool for tool in config.tools}
    if name in tools:
        return tools[name]
    hint = suggest(name, tools, f"it has: {', '.join(tools) or 'none'}")
    message = f"the book has no tool '{name}'"
    if name == FACTS:
        message += ", which reports the facts of the machine"
        hint = (
            f"put {FACTS}.py, the file that `bindery bundle {FACTS}` writes in the repository of"
            f" bindery, into scripts/ and list it under `tools:` as {FACTS}"
        )
    raise refuse(config.file, message, hint)


def read_tool(root: Path, entry: ToolEntry) -> ToolFacts:
    """The constants of a tool. Raises ConfigError with the line of one that cannot be used."""
    try:
        text = importlib.util.decode_source((root / entry.path).read_bytes())
        return _read_constants(entry, text, hash_bundle(root, entry.path))
    except OSError as error:
        message = f"the tool '{entry.path}' cannot be read: {(error.strerror or '').lower()}"
        raise refuse(entry.span, message) from None
    except SyntaxError as error:
        span = Span(entry.path, error.lineno or 1, error.offset or 1)
        raise refuse(span, f"this is not Python: {error.msg}") from None
    except BundleError as error:
        raise refuse(entry.path, str(error)) from None
    except UnicodeDecodeError:
        message = f"the tool '{entry.path}' is not UTF-8"
        raise refuse(entry.path, message) from None


class _Constants(BaseModel):
    """The constants of a tool as they have to be."""

    version: str = Field(alias="__version__")
    method: PositiveInt = Field(1, alias="METHOD", strict=True)
    profiles: dict[str, tuple[str | int | float, ...]] = Field({}, alias="PROFILES")
    ranks: dict[str, PositiveInt | Literal["accelerators"]] = Field({}, alias="RANKS")
    gpus: dict[str, PositiveInt] = Field({}, alias="GPUS")


def _read_constants(entry: ToolEntry, text: str, sha256: str) -> ToolFacts:
    nodes = read_constants(text)

    def refuse_constant(name: str, reason: str) -> ConfigError:
        span = Span(entry.path, getattr(nodes.get(name), "lineno", 1))
        hint = "scripts/README.md in the repository of bindery lists what a tool must have"
        return refuse(span, f"the constant {name} of '{entry.name}' {reason}", hint)

    values = {}
    for field in _Constants.model_fields.values():
        name = str(field.alias)
        if name in nodes:
            try:
                values[name] = ast.literal_eval(nodes[name])
            except (ValueError, TypeError):
                reason = "has to be a literal: bindery reads it without running the tool"
                raise refuse_constant(name, reason) from None
    try:
        constants = _Constants.model_validate(values)
    except ValidationError as error:
        place, reason = explain_error(error)
        raise refuse_constant(str(place[0]), f"cannot be used: {reason}") from None
    profiles = constants.profiles
    if CUSTOM in profiles:
        reason = f"cannot have '{CUSTOM}', the name for runs with added arguments"
        raise refuse_constant("PROFILES", reason)
    if unknown := [name for name in constants.ranks if name not in profiles]:
        raise refuse_constant("RANKS", f"names a profile '{unknown[0]}' that does not exist")
    return ToolFacts(
        entry.name,
        entry.path,
        constants.version,
        constants.method,
        sha256,
        {name: tuple(map(str, arguments)) for name, arguments in profiles.items()},
        constants.ranks,
        constants.gpus,
    )
