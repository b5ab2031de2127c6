"""Compare a record or a tool's output with the records of a book."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

from bindery.core.build_date import read_today
from bindery.core.config import Config
from bindery.core.model import ConfigError, Finding, Span, refuse
from bindery.core.repository import RECORDS_FOLDER, Tree
from bindery.core.suggestions import suggest
from bindery.evidence.compare.declaration import Terms, TermsError, read_terms
from bindery.evidence.compare.judge import (
    TOLERANCE,
    Comparison,
    compare_run,
    make_references,
    make_run,
)
from bindery.evidence.record_list import clean_name
from bindery.evidence.records import (
    UNREADABLE,
    Machine,
    MachineReport,
    Record,
    ToolOutput,
    describe_error,
    load_records,
    parse_record,
)
from bindery.evidence.stale_records import find_stale, read_methods


def parse_share(text: str) -> float:
    """Parse a share such as `5%` or `0.05`. Raises ValueError unless it is below 1."""
    match = re.fullmatch(r"(\d+|\d*\.\d+)\s*(%?)", text.strip())
    share = float(match[1]) / (100 if match[2] else 1) if match else 1.0
    if share >= 1:
        raise ValueError(f"'{text}' is not a share: write 5% or 0.05")
    return share


def compare_with_book(
    config: Config,
    target: str,
    *,
    against: str = "",
    facts: Path | None = None,
    tolerance: float = TOLERANCE,
) -> Comparison:
    """Compare a record of the book, or a file with a record or a tool's output, with the book's
    records; with `against`, only with that record.

    Raises ConfigError for a missing or unreadable input, and NothingAlikeError if no record is
    comparable.
    """
    tree = Tree(config.root)
    records = {item[0]: item[1] for item in load_records(tree) if not isinstance(item, Finding)}
    source, name = _find_source(target, config.root, records)
    if facts and isinstance(source, Record):
        raise refuse(target, "a record already names its hardware", "omit --facts")
    terms = _find_terms(config, tree, source.tool, target)
    run = make_run(source, terms, name=name, machine=_read_machine(facts) if facts else None)
    chosen = {
        key: record for key, record in records.items() if record.tool == source.tool and key != name
    }
    stale = find_stale(chosen, config.tools, read_methods(tree, config.tools), read_today())
    references = make_references(chosen, terms, {key: each.reason for key, each in stale.items()})
    if against:
        wanted = clean_name(against)
        names = [reference.name for reference in references]
        references = [reference for reference in references if reference.name == wanted]
        if not references:
            message = f"'{wanted}' is not another complete, successful record of '{source.tool}'"
            raise refuse("--against", message, suggest(wanted, names, "see `bindery records`"))
    return compare_run(run, references, terms, tolerance)


def _find_terms(config: Config, tree: Tree, name: str, target: str) -> Terms:
    tool = next((tool for tool in config.tools if tool.name == name), None)
    if tool is None:
        names = [tool.name for tool in config.tools]
        hint = suggest(name, names, f"tools: {', '.join(names)}")
        raise refuse(target, f"the book has no tool '{name}'", hint)
    try:
        terms = read_terms(name, tree.read_bytes(tool.path).decode("utf-8", "replace"))
    except TermsError as error:
        raise refuse(Span(tool.path, error.line), str(error)) from None
    if terms is None:
        message = f"runs of '{name}' cannot be compared: it does not say which results are alike"
        raise refuse(target, message, "declare COMPARE in the tool")
    return terms


def _find_source(
    target: str, root: Path, records: Mapping[str, Record]
) -> tuple[Record | ToolOutput, str]:
    """The run to compare, and its name if it is a record of the book."""
    path = Path(target)
    is_file = path.is_file()
    is_outside = is_file and not path.resolve().is_relative_to((root / RECORDS_FOLDER).resolve())
    name = clean_name(target)
    if name in records and not is_outside:
        return records[name], name
    if is_file:
        return _parse_source(target, path.read_text(encoding="utf-8", errors="replace")), ""
    hint = suggest(name, records, "see `bindery records`")
    raise refuse(target, f"'{target}' is neither a file nor a record of the book", hint)


def _parse_source(path: str, text: str) -> Record | ToolOutput:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        message = f"this is not valid JSON: {error.msg.lower()}"
        raise refuse(Span(path, error.lineno, error.colno), message) from None
    except (ValueError, RecursionError):
        raise refuse(path, UNREADABLE) from None
    if isinstance(data, dict) and "schema" in data:
        record = parse_record(path, text)
        if isinstance(record, Finding):
            raise ConfigError(record)
        return record
    try:
        return msgspec.convert(data, ToolOutput)
    except msgspec.ValidationError as error:
        hint = "give a record, or a tool's --json output"
        raise refuse(path, describe_error(error), hint) from None


def _read_machine(path: Path) -> Machine:
    try:
        return msgspec.json.decode(path.read_bytes(), type=MachineReport).machine
    except msgspec.DecodeError as error:
        hint = "give the output of env_report.py --json"
        raise refuse(path.as_posix(), describe_error(error), hint) from None
