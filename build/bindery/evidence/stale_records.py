"""Stale records: the tool's METHOD has changed, or the record is too old."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date
from typing import TYPE_CHECKING

from msgspec import Struct

from bindery.core.config import ToolEntry
from bindery.core.repository import Tree
from bindery.tools.tool_source import read_method

if TYPE_CHECKING:
    from bindery.evidence.records import Record


class Staleness(Struct, frozen=True):
    """Why a record is stale. `rule` is `old-method` or `old-record`."""

    rule: str
    reason: str
    """The reason, in words that stay true."""
    repair: str = ""
    """What to do, where measuring again is of no use."""


def read_methods(tree: Tree, tools: Iterable[ToolEntry]) -> Mapping[str, int | None]:
    """The METHOD of each tool, read from its source; None if it cannot be read."""

    def read(source: bytes) -> tuple[int | None]:
        return (read_method(source.decode("utf-8", "replace")),)

    return {
        tool.name: tree.derive(tool.path, "METHOD", tuple[int | None], read)[0]
        if tree.find_kind(tool.path) == "file"
        else None
        for tool in tools
    }


def find_stale(
    records: Mapping[str, Record],
    tools: Iterable[ToolEntry],
    methods: Mapping[str, int | None],
    today: date,
) -> Mapping[str, Staleness]:
    """The stale records by name. `methods` has the METHOD of each of the book's tools."""
    shelf_days = {tool.name: tool.shelf_days for tool in tools}
    stale = {}
    for name, record in records.items():
        method = methods.get(record.tool)
        days = shelf_days.get(record.tool)
        if record.tool not in methods:
            reason = f"method {record.method}, but the book has no tool '{record.tool}'"
            repair = f"list '{record.tool}' under `tools` in chapters.yaml"
            stale[name] = Staleness("old-method", reason, repair)
        elif method is None:
            reason = f"method {record.method}, but {record.tool} declares no readable METHOD"
            repair = f"write a whole number for METHOD in the source of {record.tool}"
            stale[name] = Staleness("old-method", reason, repair)
        elif record.method != method:
            reason = f"method {record.method}, but {record.tool} is now at {method}"
            stale[name] = Staleness("old-method", reason)
        elif days is not None and (today - record.started.date()).days > days:
            reason = f"measured on {record.started.date()}, shelf life {days} days"
            stale[name] = Staleness("old-record", reason)
    return stale


_OPTION = re.compile(r"^--[\w-]+")


def _hyphenate(option: re.Match[str]) -> str:
    """An option as tools spell it now: before 0.2 it had underscores."""
    return option[0].replace("_", "-")


def find_newest(records: Mapping[str, Record]) -> frozenset[str]:
    """The last complete record of each kind, and later partial or failed ones. A kind has the same
    tool, profile, command, hardware, nodes and ranks."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for name, record in records.items():
        key = (
            record.tool,
            record.profile_name,
            tuple(_OPTION.sub(_hyphenate, word) for word in record.command),
            record.machine.hardware,
            record.nodes,
            record.ranks,
        )
        groups.setdefault(key, []).append(name)
    newest: set[str] = set()
    for names in groups.values():
        names.sort(key=lambda name: (records[name].started, name))
        whole = (n for n, name in enumerate(names) if _is_whole(records[name]))
        newest |= set(names[max(whole, default=0) :])
    return frozenset(newest)


def _is_whole(record: Record) -> bool:
    return record.complete and record.ended == "done"
