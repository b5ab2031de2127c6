"""Plan a run: read the tool's constants, and choose the command and its arguments."""

from __future__ import annotations

import ast
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field

from bindery.check.rules import RULES
from bindery.core.config import Config, ToolEntry, load_config
from bindery.core.model import ConfigError, Span, refuse
from bindery.core.suggestions import suggest
from bindery.evidence.records import CUSTOM, Positive, explain_error
from bindery.runs.anonymize import hide_folders
from bindery.tools.bundle import BundleError, hash_bundle, read_source
from bindery.tools.tool_source import read_constants

FACTS = "env_report"
"""The tool that reports the facts about the machine."""

Ranks = int | Literal["accelerators"]


class ToolFacts(Struct, frozen=True):
    """Constants that a tool declares, read without running it."""

    name: str
    path: str
    """Relative to the book's root."""
    version: str
    method: int
    sha256: str
    """Digest of its `bindery bundle` file."""
    profiles: Mapping[str, tuple[str, ...]]
    ranks: Mapping[str, Ranks]
    """Ranks per node by profile; empty for a single-process tool."""
    gpus: Mapping[str, int]
    """GPUs per node by profile: requested from Slurm, and required on this machine."""


class Plan(Struct, frozen=True):
    """A run, on this machine or on a cluster."""

    root: Path
    tool: ToolFacts
    reporter: ToolFacts
    """The tool that reports the facts about the machine."""
    profile: str
    """The profile, or `custom` if arguments were added, because that measures something else."""
    arguments: tuple[str, ...]
    """All arguments of the tool except `--json PATH`."""
    ranks: Ranks | None
    """Ranks per node, started by torchrun; None to start the tool directly."""
    passed: tuple[str, ...] = ()
    """Environment variables to pass on, in addition to the usual ones."""
    gpus: int = 0
    """GPUs per node that the profile needs."""
    python: str = sys.executable
    """The Python that runs the tool on this machine."""

    def describe_command(self, ranks: int | None = None) -> tuple[str, ...]:
        """The command to record, without folders of this machine. `ranks` is per node."""
        arguments = (hide_folders(argument, self.root) for argument in self.arguments)
        launcher = describe_launcher(ranks) if ranks is not None else ()
        return ("python", *launcher, self.tool.path, *arguments)


def describe_launcher(ranks: int) -> tuple[str, ...]:
    """The Python arguments before the tool that start this many ranks on this machine."""
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
    """Plan a run of a tool with a profile and extra arguments. `python` is the interpreter for the
    tool, by default the one that runs bindery.

    Raises ConfigError if the tool or the profile does not exist.
    """
    root = root.resolve()
    config = load_config(root, RULES)
    if name == FACTS:
        message = f"'{FACTS}' makes no record itself: all other records include its facts"
        raise refuse(config.file, message, "run its file with python")
    entry = find_tool(config, name)
    tool = read_tool(root, entry)
    reporter = read_tool(root, find_tool(config, FACTS))
    if profile not in tool.profiles:
        known = f"profiles: {', '.join(tool.profiles) or 'none'}"
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
        find_python(python),
    )


def find_python(typed: str) -> str:
    """The interpreter that runs tools here: a path, a program on the PATH, or by default the one
    that runs bindery. Raises ConfigError if there is none."""
    if not typed:
        return sys.executable
    found = shutil.which(typed)
    if found is None:
        hint = "name an interpreter, by a path from the current folder or by a name on the PATH"
        raise refuse("--python", f"there is no program '{typed}'", hint)
    return str(Path(found).absolute())  # not resolved: a virtual environment is a symbolic link


def find_tool(config: Config, name: str) -> ToolEntry:
    """The tool with this name in chapters.yaml. Raises ConfigError if there is none."""
    tools = {tool.name: tool for tool in config.tools}
    if name in tools:
        return tools[name]
    hint = suggest(name, tools, f"tools: {', '.join(tools) or 'none'}")
    message = f"the book has no tool '{name}'"
    if name == FACTS:
        message += ", which reports the facts about the machine"
        hint = (
            f"write {FACTS}.py with `bindery bundle {FACTS}` in the bindery repository, put it"
            f" into scripts/, and list it under `tools:` as {FACTS}"
        )
    raise refuse(config.file, message, hint)


def read_tool(root: Path, entry: ToolEntry) -> ToolFacts:
    """The constants of a tool. Raises ConfigError with the line of an invalid one."""
    try:
        return _read_constants(entry, read_source(root, entry.path), hash_bundle(root, entry.path))
    except OSError as error:
        message = f"the tool '{entry.path}' cannot be read: {(error.strerror or '').lower()}"
        raise refuse(entry.span, message) from None
    except SyntaxError as error:
        span = Span(entry.path, error.lineno or 1, error.offset or 1)
        raise refuse(span, f"this is not valid Python: {error.msg}") from None
    except BundleError as error:
        raise refuse(error.span, str(error)) from None


class _Constants(Struct, frozen=True):
    """The schema of a tool's constants."""

    version: str = field(name="__version__")
    method: Positive = field(default=1, name="METHOD")
    profiles: dict[str, tuple[str | int | float, ...]] = field(
        default_factory=dict, name="PROFILES"
    )
    ranks: dict[str, Positive | Literal["accelerators"]] = field(default_factory=dict, name="RANKS")
    gpus: dict[str, Positive] = field(default_factory=dict, name="GPUS")


def _read_constants(entry: ToolEntry, text: str, sha256: str) -> ToolFacts:
    nodes = read_constants(text)

    def refuse_constant(name: str, reason: str) -> ConfigError:
        span = Span(entry.path, getattr(nodes.get(name), "lineno", 1))
        hint = "scripts/README.md in the bindery repository lists what a tool must declare"
        return refuse(span, f"the constant {name} of '{entry.name}' {reason}", hint)

    values = {}
    for name in _Constants.__struct_encode_fields__:
        if name in nodes:
            try:
                values[name] = ast.literal_eval(nodes[name])
            except (ValueError, TypeError):
                reason = "must be a literal: bindery reads it without running the tool"
                raise refuse_constant(name, reason) from None
    try:
        constants = msgspec.convert(values, _Constants)
    except msgspec.ValidationError as error:
        place, reason = explain_error(error)
        raise refuse_constant(str(place[0]), f"is invalid: {reason}") from None
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
