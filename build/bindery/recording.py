"""From a run of a companion tool to a record: what came out, on which machine, by which command."""

from __future__ import annotations

import ast
import hashlib
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bindery.checks import RULES
from bindery.config import Config, ToolEntry, find_nearest, load_config
from bindery.model import BookError, ConfigError, Finding, Span
from bindery.records import FOLDER, SCHEMA, Record, parse_record
from bindery.render.output import write_whole
from bindery.run import CommandTimeoutError, run_command

FACTS = "env_report"
"""The tool that tells the facts of the machine."""


def record_run(
    root: Path, name: str, profile: str, arguments: Sequence[str], timeout: float
) -> str:
    """Run a tool with one of its profiles and write the record. Gives the path of the record.

    A run that ends early leaves a record too, if the tool has written its results: it is marked
    as not complete. Raises ConfigError for a tool or profile that does not exist, and BookError
    where nothing could be recorded.
    """
    config = load_config(root, RULES)
    if name == FACTS:
        message = f"'{FACTS}' makes no record: its facts are part of every other one"
        raise ConfigError(
            Finding(Span.whole(config.file), "config", message, "run it with python, by its path")
        )
    tool = _find_tool(config, name)
    facts = _find_tool(config, FACTS)
    settings = [*_read_profile(root, tool, profile), *arguments]
    run = _run_tool(root, tool, settings, timeout)
    machine = _run_tool(root, facts, [], 300.0)
    data = {
        "schema": SCHEMA,
        "tool": name,
        "version": run.get("version"),
        "method": run.get("method"),
        "sha256": hashlib.sha256((root / tool.path).read_bytes()).hexdigest(),
        "profile": profile,
        "command": ["python", tool.path, *settings],
        "started": run.get("started"),
        "seconds": run.get("seconds"),
        "exit_status": run["exit_status"],
        "complete": run.get("complete"),
        "machine": machine.get("machine"),
        "software": machine.get("software"),
        "results": run.get("results"),
        "details": run.get("details", {}),
        "caveats": [*run.get("caveats", ()), *machine.get("caveats", ())],
    }
    # NaN goes through here, so that parse_record can refuse it in words.
    text = json.dumps(data, indent=1, ensure_ascii=False) + "\n"
    record = parse_record(tool.path, text)
    if isinstance(record, Finding):
        message = f"'{name}' gave results that are no record: {record.message}"
        raise BookError(Finding(Span.whole(tool.path), "bad-record", message))
    path = _choose_path(root, record)
    write_whole(root / path, text.encode())
    return path


def _find_tool(config: Config, name: str) -> ToolEntry:
    tools = {tool.name: tool for tool in config.tools}
    if name not in tools:
        nearest = find_nearest(name, tools)
        hint = f"did you mean '{nearest}'?" if nearest else f"it has: {', '.join(tools) or 'none'}"
        message = f"the book has no tool '{name}'"
        raise ConfigError(Finding(Span.whole(config.file), "config", message, hint))
    return tools[name]


def _read_profile(root: Path, tool: ToolEntry, profile: str) -> list[str]:
    """The arguments of a profile, read from the constant PROFILES without running the tool."""
    tree = ast.parse((root / tool.path).read_text(encoding="utf-8"))
    profiles: dict[str, list[str]] = {}
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="PROFILES")], value=ast.expr() as value)
                | ast.AnnAssign(target=ast.Name(id="PROFILES"), value=ast.expr() as value)
            ):
                profiles = ast.literal_eval(value)
            case _:
                pass
    if profile not in profiles:
        message = f"'{tool.name}' has no profile '{profile}'"
        hint = f"it has: {', '.join(profiles) or 'none'}"
        raise ConfigError(Finding(tool.span, "config", message, hint))
    return [str(argument) for argument in profiles[profile]]


def _run_tool(
    root: Path, tool: ToolEntry, arguments: Sequence[str], timeout: float
) -> dict[str, Any]:
    """What a tool wrote as JSON, with its exit status added."""
    with tempfile.TemporaryDirectory(prefix="bindery-run-") as folder:
        output = Path(folder) / "results.json"
        command = [sys.executable, tool.path, *arguments, "--json", str(output)]
        try:
            done = run_command(command, folder=root, timeout=timeout, shows_errors=True)
        except CommandTimeoutError as error:
            raise BookError(Finding(Span.whole(tool.path), "bad-record", str(error))) from None
        try:
            data = json.loads(output.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            message = f"'{tool.name}' ended with status {done.code} and left no results"
            hint = (
                "what it said stands above; a tool that measures torch needs torch beside bindery"
            )
            raise BookError(Finding(Span.whole(tool.path), "bad-record", message, hint)) from None
    if not isinstance(data, dict):
        message = f"'{tool.name}' wrote something that is no object"
        raise BookError(Finding(Span.whole(tool.path), "bad-record", message))
    return {**data, "exit_status": done.code}


def _choose_path(root: Path, record: Record) -> str:
    """`<tool>/<machine>_<day>.json`; a second run of the day gets a number, nothing is replaced."""
    stem = f"{FOLDER}/{record.tool}/{record.machine.label}_{record.started:%Y%m%d}"
    path, count = f"{stem}.json", 1
    while (root / path).exists():
        count += 1
        path = f"{stem}_{count}.json"
    return path
