"""Check whether tools still produce what the book quotes.

A tool of class `exact` must print the same characters on every machine. For class `shape`, columns,
units and types must match. For a `measured` tool only texts are repeated: `bindery check` compares
its quotations with its records.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from bindery.check.rules import RULES
from bindery.core.config import Config, ToolEntry, load_config
from bindery.core.model import BookError, Finding, Span, refuse
from bindery.core.processes import Ended, Limits, Show, run_limited
from bindery.core.repository import Tree
from bindery.core.whole_files import write_whole
from bindery.evidence.records import (
    DEMO,
    FOLDER,
    OPTIONS_FILE,
    MachineReport,
    Record,
    Scalar,
    ToolOutput,
    describe_error,
    load_records,
)
from bindery.runs.environment import choose_environment
from bindery.runs.plan_run import FACTS, describe_launcher, find_python, find_tool, read_tool
from bindery.runs.record_run import GIB, MIB, explain_ending, read_output
from bindery.tools.command_lines import dump_parser

RULE = "changed-output"
LIMITS = Limits(600.0, 8 * GIB, 4 * MIB)
_OPTIONS = "options"
_MISSING = re.compile(r"No module named '?(\w+).*\s*\Z")
_DUMP = Path(dump_parser.__file__)


class Verified(Struct, frozen=True):
    """What was compared, and differences from the book."""

    tools: int
    texts: int
    runs: int
    findings: tuple[Finding, ...]
    skipped: Mapping[str, str]
    """The package that each tool needs and this Python lacks."""


class _PackageMissingError(Exception):
    """A package that the tool declares in its `# /// script` block is not installed."""


def verify_tools(root: Path, names: Sequence[str] = (), python: str = "") -> Verified:
    """Compare tool output with what is stored, for all tools if none is named. `python` is the
    interpreter for the tools, as of `bindery run`.

    Raises ConfigError for an unknown tool.
    """
    python = find_python(python)
    root = root.resolve()
    config = load_config(root, RULES)
    entries = [find_tool(config, name) for name in names] or list(config.tools)
    records = _find_newest(config)
    texts, runs = 0, 0
    findings: list[Finding] = []
    skipped: dict[str, str] = {}
    for entry in entries:
        has_run = entry.output in ("exact", "shape")
        try:
            for what in _list_texts(entry):
                findings += _verify_text(root, entry, what, python)
            if has_run:
                findings += _verify_run(root, entry, records.get(entry.name), python)
        except _PackageMissingError as error:
            skipped[entry.name] = str(error)
        else:
            texts, runs = texts + len(entry.texts), runs + has_run
    return Verified(len(entries) - len(skipped), texts, runs, tuple(findings), skipped)


# --- texts ---


def record_texts(root: Path, name: str, texts: Sequence[str] = (), python: str = "") -> list[str]:
    """Store a tool's options and its output for these texts, by default all. Returns changed paths.
    Raises ConfigError for an unknown text, BookError if the tool fails."""
    python = find_python(python)
    root = root.resolve()
    config = load_config(root, RULES)
    entry = find_tool(config, name)
    if unknown := [text for text in texts if text not in entry.texts]:
        message = f"'{name}' has no text '{unknown[0]}'"
        hint = f"texts: {', '.join(entry.texts) or 'none'}; add texts under `texts:` of the tool"
        raise refuse(entry.span, message, hint)
    if not entry.texts:
        message = f"'{name}' has no texts"
        hint = "add some in chapters.yaml: `texts: {help: [--help]}`"
        raise refuse(entry.span, message, hint)
    printed = {}
    for what in (*(texts or entry.texts), _OPTIONS):
        try:
            result = _print(root, entry, what, python)
        except _PackageMissingError as error:
            hint = f"install {error}, or name a Python that has it with --python"
            raise refuse(entry.span, f"'{name}' needs the package '{error}'", hint) from None
        if isinstance(result, Finding):
            raise BookError(result)
        printed[_find_path(entry, what)] = result.encode()
    changed = [path for path, data in printed.items() if _read_bytes(root / path) != data]
    for path in changed:
        write_whole(root / path, printed[path])
    return changed


def _list_texts(entry: ToolEntry) -> tuple[str, ...]:
    return (*entry.texts, _OPTIONS) if entry.texts else ()


def _find_path(entry: ToolEntry, what: str) -> str:
    """The path of a tool's stored text, relative to the root."""
    return f"{FOLDER}/{entry.name}/{OPTIONS_FILE if what == _OPTIONS else f'{what}.txt'}"


def _print(root: Path, entry: ToolEntry, what: str, python: str) -> str | Finding:
    """A tool's standard output for a text, or its options as JSON."""
    is_options = what == _OPTIONS
    arguments = () if is_options else entry.texts[what]
    with tempfile.TemporaryDirectory(prefix="bindery-text-") as made:
        printed: list[str] = []
        log: list[str] = []

        def keep(stream: str, line: str) -> None:
            (printed if stream == "stdout" else log).append(line)

        launcher = (str(_DUMP),) if is_options else ()
        done = _run(root, entry, arguments, Path(made), keep, (python, *launcher))
    if done.ended != "done":
        message = f"the {what} of '{entry.name}' could not be printed: it {_explain(done)}"
        return Finding(Span.whole(entry.path), RULE, message, _quote_last("".join(log)))
    return "".join(printed)


def _verify_text(root: Path, entry: ToolEntry, what: str, python: str) -> Iterator[Finding]:
    path = _find_path(entry, what)
    command = f"bindery run {entry.name} "
    command += "--texts" if what == _OPTIONS else f"--text {what}"
    stored = _read_bytes(root / path)
    if stored is None:
        message = f"'{entry.name}' has no stored {what}"
        yield Finding(entry.span, RULE, message, f"run `{command}`")
        return
    now = _print(root, entry, what, python)
    if isinstance(now, Finding):
        yield now
        return
    before = stored.decode("utf-8", "replace").replace("\r\n", "\n")
    pairs = itertools.zip_longest(before.split("\n"), now.split("\n"))
    for line, (old, new) in enumerate(pairs, 1):
        if old != new:
            shown = "gone" if new is None else repr(new)
            message = f"line {line} of the {what} of '{entry.name}' is now {shown}"
            hint = f"if this is intended, run `{command}`, then `bindery fill` for the chapters"
            yield Finding(Span(path, line), RULE, message, hint)
            return


# --- results ---


def _verify_run(
    root: Path, entry: ToolEntry, newest: tuple[str, Record] | None, python: str
) -> list[Finding]:
    """Findings about the demo profile's results."""
    tool = read_tool(root, entry)
    if DEMO not in tool.profiles:
        message = f"'{entry.name}' is of class '{entry.output}' but has no profile '{DEMO}'"
        return [Finding(entry.span, RULE, message, "add it to the tool's constant PROFILES")]
    with tempfile.TemporaryDirectory(prefix="bindery-verify-") as made:
        folder = Path(made)
        arguments = (*tool.profiles[DEMO], "--json", str(folder / "results.json"))
        ranks = tool.ranks.get(DEMO)
        launcher = describe_launcher(ranks) if isinstance(ranks, int) else ()
        done = _run(root, entry, arguments, folder, None, (python, *launcher))
        log = (folder / "verify.log").read_text(encoding="utf-8")
        output = read_output(folder / "results.json")
    if done.ended != "done" or not isinstance(output, dict):
        message = f"the demo run of '{entry.name}' {_explain(done)}"
        message += "" if isinstance(output, dict) else " and left no results"
        return [Finding(Span.whole(entry.path), RULE, message, _quote_last(log))]
    try:
        if entry.name == FACTS:
            msgspec.convert(output, MachineReport)
            return []
        told = msgspec.convert(output, ToolOutput)
    except msgspec.ValidationError as error:
        message = f"the results of '{entry.name}' are invalid: {describe_error(error)}"
        return [Finding(Span.whole(entry.path), RULE, message, "see scripts/schemas/")]
    command = f"bindery run {entry.name} --profile {DEMO}"
    if newest is None:
        message = f"'{entry.name}' has no record of profile '{DEMO}' to compare with"
        return [Finding(entry.span, RULE, message, f"make one with `{command}`")]
    name, record = newest
    path = f"{FOLDER}/{name}.json"
    hint = f"if this is intended, run `{command}`"
    compare = _compare_values if entry.output == "exact" else _compare_shapes
    messages = compare(record, told)
    return [Finding(Span.whole(path), RULE, message, hint) for message in messages]


def _compare_shapes(record: Record, told: ToolOutput) -> Iterator[str]:
    """Differences in columns, units and types."""
    before, now = _describe_columns(record.results), _describe_columns(told.results)
    for key in {**before, **now}:
        if key not in now:
            yield f"the results of '{told.tool}' no longer have the column '{key}'"
        elif key not in before:
            yield f"the results of '{told.tool}' have a new column '{key}'"
        elif before[key] and now[key] and not before[key] & now[key]:
            was, is_now = (" or ".join(sorted(types)) for types in (before[key], now[key]))
            yield f"the column '{key}' of '{told.tool}' is now {is_now}, but was {was}"
        elif before[key] and key in told.units and record.units.get(key) != told.units[key]:
            was, unit = record.units.get(key, "none"), told.units[key]
            yield f"the unit of '{key}' of '{told.tool}' is now '{unit}', but was '{was}'"


def _compare_values(record: Record, told: ToolOutput) -> Iterator[str]:
    """The first value that differs."""
    if differences := list(_compare_shapes(record, told)):
        yield from differences
        return
    for number, (was, now) in enumerate(zip(record.results, told.results, strict=False)):
        for key in {**was, **now}:
            if json.dumps(was.get(key)) != json.dumps(now.get(key)) or (key in was) != (key in now):
                yield (
                    f"'{key}' in row {number + 1} of the results of '{told.tool}' is now "
                    f"{json.dumps(now.get(key))}, but was {json.dumps(was.get(key))}"
                )
                return
    if len(record.results) != len(told.results):
        yield (f"'{told.tool}' now has {len(told.results)} rows, but had {len(record.results)}")


def _describe_columns(rows: Iterable[Mapping[str, Scalar]]) -> dict[str, set[str]]:
    columns: dict[str, set[str]] = {}
    for row in rows:
        for key, value in row.items():
            types = columns.setdefault(key, set())
            if value is not None:
                types.add(_TYPES[type(value)])
    return columns


_TYPES = {str: "text", bool: "true or false", int: "a number", float: "a number"}


# --- shared ---


def _find_newest(config: Config) -> dict[str, tuple[str, Record]]:
    """The newest complete demo record of each tool."""
    # `bindery check` has already reported invalid records.
    whole = [item for item in load_records(Tree(config.root)) if not isinstance(item, Finding)]
    demos = [item for item in whole if item[1].is_demo and item[1].complete]
    demos.sort(key=lambda item: (item[1].started, item[0]))
    return {item[1].tool: item for item in demos}


def _run(
    root: Path,
    entry: ToolEntry,
    arguments: Sequence[str],
    folder: Path,
    show: Show | None,
    launcher: Sequence[str],
) -> Ended:
    """Raises _PackageMissingError if a package that the tool declares is not installed."""
    log = folder / "verify.log"
    done = run_limited(
        [*launcher, str(root / entry.path), *arguments],
        folder=folder,
        environment=choose_environment(os.environ, folder=folder),
        limits=LIMITS,
        log=log,
        show=show,
    )
    missing = _MISSING.search(log.read_text(encoding="utf-8")) if done.ended == "failed" else None
    source = (root / entry.path).read_text(encoding="utf-8", errors="replace")
    if missing and re.search(rf'^#.*"{missing[1]}\b', source, re.MULTILINE):
        raise _PackageMissingError(missing[1])
    return done


def _explain(done: Ended) -> str:
    return explain_ending(done.ended, done.code, LIMITS, done.peak_bytes)


def _quote_last(text: str) -> str:
    last = text.strip().rpartition("\n")[2]
    return f"its last line: {last}" if last else ""


def _read_bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
