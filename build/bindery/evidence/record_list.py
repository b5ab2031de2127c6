"""List the records of a book: what was measured, when, where, who quotes it, and its state."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

from bindery.core.config import ToolEntry
from bindery.core.model import Finding, refuse
from bindery.core.report import count_noun
from bindery.core.repository import RECORDS_FOLDER
from bindery.core.suggestions import suggest

if TYPE_CHECKING:
    from bindery.evidence.evidence import Evidence
    from bindery.evidence.quotations import Quotations
    from bindery.evidence.records import Record

UNKNOWN = "–"


class ListedRecord(Struct, frozen=True):
    """A listed record; fields that a refused file does not provide are None."""

    record: str
    tool: str
    state: str
    """`ok`, `stale: ...`, `failed`, `unused`, `superseded`, `edited: ...` or `refused: ...`."""
    method: int | None = None
    method_now: int | None = None
    """The tool's current method; None if the tool is gone."""
    profile: str | None = None
    machine: str | None = None
    hardware: str | None = None
    nodes: int | None = None
    ranks: int | None = None
    date: str | None = None
    days: int | None = None
    """Age on the day of the listing."""
    ended: str | None = None
    views: tuple[str, ...] = ()
    """Quoted views that use it."""
    chapters: tuple[str, ...] = ()
    stale: bool = False
    unused: bool = False
    """Whether `unused-record` reports it."""


def list_records(
    evidence: Evidence,
    quotations: Mapping[str, Quotations],
    findings: Iterable[Finding],
    today: date,
) -> tuple[ListedRecord, ...]:
    """All records by tool and time, including refused ones. `findings` are those of the whole
    book."""
    quoted: dict[str, list[str]] = {}
    for view, provenance in evidence.provenance.items():
        for name in provenance.records:
            quoted.setdefault(name, []).append(view)
    chapters = {path: set(entry.views) for path, entry in quotations.items()}
    named = [(finding, clean_name(finding.span.path)) for finding in findings]
    unused = {name for finding, name in named if finding.rule == "unused-record"}
    listed = []
    for name, record in evidence.records.items():
        views = tuple(quoted.get(name, ()))
        listed.append(
            ListedRecord(
                name,
                record.tool,
                _describe_state(name, evidence, name in unused),
                record.method,
                evidence.methods.get(record.tool),
                record.profile_name,
                record.machine.label,
                record.machine.hardware,
                record.nodes,
                record.ranks,
                record.started.date().isoformat(),
                (today - record.started.date()).days,
                _describe_end(record),
                views,
                tuple(path for path, theirs in chapters.items() if theirs & set(views)),
                name in evidence.stale,
                name in unused,
            )
        )
    listed.sort(key=lambda entry: (entry.tool, entry.date, entry.record))
    words = {"bad-record": "refused", "edited-record": "edited"}
    refused = [
        ListedRecord(name, name.partition("/")[0], f"{words[finding.rule]}: {finding.message}")
        for finding, name in named
        if finding.rule in words
    ]
    return (*listed, *sorted(refused, key=lambda entry: entry.record))


def _describe_end(record: Record) -> str:
    """`whole`, `failed` if the tool found a problem, or `partial: ` and how it ended."""
    if not record.complete:
        return f"partial: {record.ended}"
    return "failed" if record.ended == "failed" else "whole"


def _describe_state(name: str, evidence: Evidence, is_unused: bool) -> str:
    if name in evidence.stale:
        return f"stale: {evidence.stale[name].reason}"
    if name not in evidence.newest:
        return "superseded"
    if evidence.records[name].ended == "failed":
        return "failed"
    return "unused" if is_unused else "ok"


def choose_records(
    listed: Sequence[ListedRecord],
    tools: Iterable[ToolEntry],
    *,
    tool: str = "",
    machine: str = "",
    stale: bool = False,
    unused: bool = False,
) -> tuple[ListedRecord, ...]:
    """Filter records. `machine` is part of the label or hardware; `stale` and `unused` together
    select records that are either.

    Raises ConfigError for an unknown tool.
    """
    names = {entry.name for entry in tools} | {entry.tool for entry in listed}
    if tool and tool not in names:
        hint = suggest(tool, names, f"tools: {', '.join(sorted(names)) or 'none'}")
        raise refuse("--tool", f"the book has no tool '{tool}'", hint)
    part = machine.casefold()
    return tuple(
        entry
        for entry in listed
        if (not tool or entry.tool == tool)
        and any(part in (text or "").casefold() for text in (entry.machine, entry.hardware))
        and (not (stale or unused) or (stale and entry.stale) or (unused and entry.unused))
    )


_HEAD = ("record", "method", "profile", "hardware", "ranks", "date", "days", "ended",
         "quoted by", "state")  # fmt: skip


def format_list(listed: Sequence[ListedRecord]) -> str:
    """The list as aligned text, one record per line; empty if there is none."""
    if not listed:
        return ""
    return _align([_HEAD, *(_format_row(entry) for entry in listed)])


def _align(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "".join(f"{line}\n" for line in lines)


def _format_row(entry: ListedRecord) -> tuple[str, ...]:
    if entry.method is None:
        return (entry.record, *[UNKNOWN] * (len(_HEAD) - 2), entry.state)
    views, chapters = len(entry.views), len(entry.chapters)
    quoted = f"{count_noun(views, 'view')} in {count_noun(chapters, 'chapter')}"
    return (
        entry.record,
        _describe_method(entry),
        str(entry.profile),
        str(entry.hardware),
        f"{entry.ranks} on {count_noun(entry.nodes or 0, 'node')}",
        str(entry.date),
        str(entry.days),
        str(entry.ended),
        quoted if views else "nothing",
        entry.state,
    )


def _describe_method(entry: ListedRecord) -> str:
    is_old = entry.method_now not in (None, entry.method)
    return f"{entry.method} (now {entry.method_now})" if is_old else str(entry.method)


def format_list_json(listed: Sequence[ListedRecord]) -> str:
    """The list as JSON; fields that a refused file does not provide are null."""
    return json.dumps([asdict(entry) for entry in listed], indent=1, ensure_ascii=False) + "\n"


# --- one record in full ---


def find_record(name: str, listed: Sequence[ListedRecord]) -> ListedRecord:
    """The record with this name or path, with or without the suffix.

    Raises ConfigError if it does not exist.
    """
    wanted = clean_name(name)
    for entry in listed:
        if entry.record == wanted:
            return entry
    hint = suggest(wanted, [entry.record for entry in listed], "see `bindery records`")
    if any(entry.record.startswith(f"{wanted}/") for entry in listed):
        hint = f"the records of a tool: `bindery records --tool {wanted}`"
    raise refuse(name, f"the book has no record '{wanted}'", hint)


def clean_name(name: str) -> str:
    """`tool/machine_20261120` from a record's name or path."""
    path = name.replace("\\", "/").removesuffix(".json")
    return path.rpartition(f"{RECORDS_FOLDER}/")[2]


def format_record(entry: ListedRecord, record: Record | None, limit: int | None = None) -> str:
    """A record in full: what ran where and when, and every row, or as many as the limit."""
    pairs: list[tuple[str, Any]] = [("record", entry.record), ("state", entry.state)]
    if record is None:
        return _align(pairs)
    pairs += [
        ("tool", f"{record.tool} {record.version}, method {_describe_method(entry)}"),
        ("profile", record.profile_name),
        ("command", " ".join(record.command)),
        ("environment", _join(record.environment)),
        (
            "started",
            f"{record.started:%Y-%m-%d %H:%M:%S} UTC, {count_noun(entry.days or 0, 'day')} ago",
        ),
        ("took", f"{record.seconds:g} s"),
        ("ended", f"{_describe_end(record)}, exit status {_show(record.exit_status)}"),
        ("hardware", record.machine.hardware),
        ("machine", record.machine.label),
        ("took part", f"{count_noun(record.nodes, 'node')}, {count_noun(record.ranks, 'rank')}"),
        ("system", _join({"os": record.machine.os, "kernel": record.machine.kernel})),
        ("software", _join(record.software)),
        ("log", record.log),
        ("contributor", record.contributor),
        *(("caveat", caveat) for caveat in record.caveats),
        ("views", ", ".join(entry.views)),
        ("chapters", ", ".join(entry.chapters)),
    ]
    text = _align([(key, value) for key, value in pairs if value])
    keys = list(dict.fromkeys(key for row in record.results for key in row))
    empty = [key for key in keys if all(row.get(key) is None for row in record.results)]
    keys = [key for key in keys if key not in empty]
    head = [f"{key} [{record.units[key]}]" if key in record.units else key for key in keys]
    rows = [head, *([_show(row.get(key)) for key in keys] for row in record.results[:limit])]
    title = f"{count_noun(len(record.results), 'row')}, in base units"
    title += f", without values for {', '.join(empty)}" if empty else ""
    more = len(record.results) - len(rows) + 1
    rest = f"and {count_noun(more, 'more row')} in the file of the record\n" if more else ""
    return f"{text}\n{title}:\n\n{_align(rows)}{rest}"


def _join(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {value}" for key, value in values.items() if value is not None)


def _show(value: object) -> str:
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
