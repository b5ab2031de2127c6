"""The records of a book as a list: what was measured when, on what, who quotes it, and whether it
still holds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from bindery.core.config import ToolEntry
from bindery.core.model import ConfigError, Finding, Span
from bindery.core.report import count_noun
from bindery.core.repository import RECORDS_FOLDER
from bindery.core.suggestions import find_nearest

if TYPE_CHECKING:
    from bindery.evidence.evidence import Evidence
    from bindery.evidence.quotations import Quotations
    from bindery.evidence.records import Record

UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class ListedRecord:
    """A record as it is listed. What a refused file does not tell is empty or None."""

    name: str
    tool: str
    state: str
    """`ok`, `stale: ...`, `failed`, `unused`, `superseded`, `edited: ...` or `refused: ...`."""
    method: int | None = None
    method_now: int | None = None
    """Method of the tool as it stands today; None where the tool is gone."""
    profile: str = ""
    machine: str = ""
    hardware: str = ""
    nodes: int | None = None
    ranks: int | None = None
    measured: date | None = None
    days: int | None = None
    """Age at the day of the list."""
    ended: str = ""
    """`whole`, `failed` where the tool had found a problem, or `partial: ` and how it ended."""
    views: tuple[str, ...] = ()
    """Views that quote it and that chapters quote."""
    chapters: tuple[str, ...] = ()
    quotes_known: bool = True
    """False while a broken view may quote it."""
    is_stale: bool = False
    is_unused: bool = False
    """Whether no table quotes its results, as the rule `unused-record` has it."""


def list_records(
    evidence: Evidence,
    quotations: Mapping[str, Quotations],
    methods: Mapping[str, int | None],
    today: date,
) -> tuple[ListedRecord, ...]:
    """Every record of the book, those that were refused too, by tool and then by time."""
    quoted: dict[str, list[str]] = {}
    for view, provenance in evidence.provenance.items():
        for name in provenance.records:
            quoted.setdefault(name, []).append(view)
    chapters = {path: set(entry.views) for path, entry in quotations.items()}
    asked = {view for views in chapters.values() for view in views}
    # What a broken view quotes is not known, so nothing can be said to be unused.
    known = not asked & (set(evidence.views) | evidence.broken) - set(evidence.provenance)
    cells = (cell for provenance in evidence.provenance.values() for cell in provenance.numbers)
    used = {name for cell in cells for name in cell.results}
    listed = []
    for name, record in evidence.records.items():
        views = tuple(quoted.get(name, ()))
        readers = tuple(path for path, theirs in chapters.items() if theirs & set(views))
        entry = ListedRecord(
            name,
            record.tool,
            "ok",
            record.method,
            methods.get(record.tool),
            record.profile_name,
            record.machine.label,
            record.machine.hardware,
            record.nodes,
            record.ranks,
            record.started.date(),
            (today - record.started.date()).days,
            _describe_end(record),
            views,
            readers,
            known,
            name in evidence.stale,
            known and name not in used and name in evidence.newest,
        )
        listed.append(replace(entry, state=_describe_state(entry, evidence)))
    listed.sort(key=lambda entry: (entry.tool, entry.measured or today, entry.name))
    return (*listed, *_list_refused(evidence.findings))


def _describe_end(record: Record) -> str:
    if not record.complete:
        return f"partial: {record.ended}"
    return "failed" if record.ended == "failed" else "whole"


def _describe_state(entry: ListedRecord, evidence: Evidence) -> str:
    if entry.is_stale:
        return f"stale: {evidence.stale[entry.name].reason}"
    if entry.name not in evidence.newest:
        return "superseded"
    if evidence.records[entry.name].ended == "failed":
        return "failed"
    return "unused" if entry.is_unused else "ok"


def _list_refused(findings: Iterable[Finding]) -> list[ListedRecord]:
    refused = []
    for finding in findings:
        words = {"bad-record": "refused", "edited-record": "edited"}
        if finding.rule in words and finding.span.path.startswith(f"{RECORDS_FOLDER}/"):
            path = finding.span.path.removeprefix(f"{RECORDS_FOLDER}/")
            name = path.removesuffix(".json")
            state = f"{words[finding.rule]}: {finding.message}"
            refused.append(ListedRecord(name, name.partition("/")[0], state))
    return sorted(refused, key=lambda entry: entry.name)


def choose_records(
    listed: Sequence[ListedRecord],
    tools: Iterable[ToolEntry],
    *,
    tool: str = "",
    machine: str = "",
    stale: bool = False,
    unused: bool = False,
) -> tuple[ListedRecord, ...]:
    """Those that are asked for. `machine` is a part of the label or of the hardware; with both
    `stale` and `unused` those that are either.

    Raises ConfigError for a tool that neither the book nor any record names.
    """
    names = {entry.name for entry in tools} | {entry.tool for entry in listed}
    if tool and tool not in names:
        nearest = find_nearest(tool, names)
        hint = f"did you mean '{nearest}'?" if nearest else ""
        hint = hint or f"it has: {', '.join(sorted(names)) or 'none'}"
        message = f"the book has no tool '{tool}'"
        raise ConfigError(Finding(Span.whole("--tool"), "config", message, hint))
    part = machine.casefold()
    return tuple(
        entry
        for entry in listed
        if (not tool or entry.tool == tool)
        and (part in entry.machine.casefold() or part in entry.hardware.casefold())
        and (not (stale or unused) or (stale and entry.is_stale) or (unused and entry.is_unused))
    )


_HEAD = ("record", "method", "profile", "hardware", "ranks", "date", "days", "ended",
         "quoted by", "state")  # fmt: skip


def format_list(listed: Sequence[ListedRecord]) -> str:
    """The list as aligned text, one record a line; nothing where there is none."""
    if not listed:
        return ""
    rows = [_HEAD, *(_format_row(entry) for entry in listed)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(_HEAD))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(lines) + "\n"


def _format_row(entry: ListedRecord) -> tuple[str, ...]:
    if entry.measured is None:
        return (entry.name, *[UNKNOWN] * (len(_HEAD) - 2), entry.state)
    method = str(entry.method)
    if entry.method_now not in (None, entry.method):
        method += f" (now {entry.method_now})"
    quoted = (
        f"{count_noun(len(entry.views), 'view')} in {count_noun(len(entry.chapters), 'chapter')}"
    )
    return (
        entry.name,
        method,
        entry.profile,
        entry.hardware,
        f"{entry.ranks} on {count_noun(entry.nodes or 1, 'node')}",
        entry.measured.isoformat(),
        str(entry.days),
        entry.ended,
        quoted if entry.views else "nothing" if entry.quotes_known else "unknown",
        entry.state,
    )


def format_list_json(listed: Sequence[ListedRecord]) -> str:
    """The list as JSON."""
    rows = [
        {
            "record": entry.name,
            "tool": entry.tool,
            "state": entry.state,
            "method": entry.method,
            "method_now": entry.method_now,
            "profile": entry.profile or None,
            "machine": entry.machine or None,
            "hardware": entry.hardware or None,
            "nodes": entry.nodes,
            "ranks": entry.ranks,
            "date": entry.measured.isoformat() if entry.measured else None,
            "days": entry.days,
            "ended": entry.ended or None,
            "views": list(entry.views),
            "chapters": list(entry.chapters),
            "stale": entry.is_stale,
            "unused": entry.is_unused,
        }
        for entry in listed
    ]
    return json.dumps(rows, indent=1, ensure_ascii=False) + "\n"


# --- one record in full ---


def find_record(name: str, listed: Sequence[ListedRecord]) -> ListedRecord:
    """The record of this name; its path, with or without the ending, is a name too.

    Raises ConfigError where there is none.
    """
    wanted = clean_name(name)
    for entry in listed:
        if entry.name == wanted:
            return entry
    nearest = find_nearest(wanted, [entry.name for entry in listed])
    hint = f"did you mean '{nearest}'?" if nearest else "see `bindery records`"
    raise ConfigError(
        Finding(Span.whole(name), "config", f"the book has no record '{wanted}'", hint)
    )


def clean_name(name: str) -> str:
    """`tool/machine_20261120` from the name of a record or from its path."""
    path = name.replace("\\", "/").removesuffix(".json")
    return path.rpartition(f"{RECORDS_FOLDER}/")[2]


def format_record(entry: ListedRecord, record: Record | None) -> str:
    """A record as a person reads it: what ran where and when, and every row."""
    pairs: list[tuple[str, Any]] = [("record", entry.name), ("state", entry.state)]
    if record is None:
        return _format_pairs(pairs)
    method = _format_row(entry)[1]
    pairs += [
        ("tool", f"{record.tool} {record.version}, method {method}"),
        ("profile", record.profile_name),
        ("command", " ".join(record.command)),
        ("environment", _join(record.environment)),
        (
            "started",
            f"{record.started:%Y-%m-%d %H:%M:%S} UTC, {count_noun(entry.days or 0, 'day')} ago",
        ),
        ("took", f"{record.seconds:g} s"),
        ("ended", f"{entry.ended}, exit status {_show(record.exit_status)}"),
        ("hardware", entry.hardware),
        ("machine", entry.machine),
        ("took part", f"{count_noun(record.nodes, 'node')}, {count_noun(record.ranks, 'rank')}"),
        ("system", _join({"os": record.machine.os, "kernel": record.machine.kernel})),
        ("software", _join(record.software)),
        ("log", record.log),
        *(("caveat", caveat) for caveat in record.caveats),
        ("views", ", ".join(entry.views)),
        ("chapters", ", ".join(entry.chapters)),
    ]
    text = _format_pairs([(key, value) for key, value in pairs if value])
    keys = list(dict.fromkeys(key for row in record.results for key in row))
    empty = [key for key in keys if all(row.get(key) is None for row in record.results)]
    keys = [key for key in keys if key not in empty]
    head = [f"{key} [{record.units[key]}]" if key in record.units else key for key in keys]
    rows = [head, *([_show(row.get(key)) for key in keys] for row in record.results)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(keys))]
    table = "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    title = f"{count_noun(len(record.results), 'row')}, in base units"
    title += f", without values for {', '.join(empty)}" if empty else ""
    return f"{text}\n{title}:\n\n{table}\n"


def _format_pairs(pairs: Sequence[tuple[str, Any]]) -> str:
    width = max(len(key) for key, _ in pairs)
    return "".join(f"{key.ljust(width)}  {value}\n" for key, value in pairs)


def _join(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items() if value is not None)


def _show(value: object) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
