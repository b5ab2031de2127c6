"""Seals: digests inside a record that show which part of it was changed later.

They guard against accidents, not against forgery: anyone can seal an edited record again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

DIGITS = 16
TABLE = "results"
_TEXT = "text"
"""Older records have a digest of their whole text too."""

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: object) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the canonical JSON of a value: keys
    sorted, no spaces, ASCII."""
    return hashlib.sha256(_ENCODER.encode(value).encode("ascii")).hexdigest()[:DIGITS]


def seal_record(data: Mapping[str, Any]) -> dict[str, Any]:
    """The record with a digest for each of its fields under `seal`, an earlier seal replaced.

    Results have a digest for each row and for each column, so that a changed cell can be named.
    """
    fields = {key: value for key, value in data.items() if key != "seal"}
    seal = {
        key: _seal_table(value) if key == TABLE else digest(value) for key, value in fields.items()
    }
    return {**fields, "seal": seal}


def _seal_table(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    columns = sorted({key for row in rows for key in row})
    return {
        "rows": [digest(row) for row in rows],
        "columns": {key: digest([row.get(key) for row in rows]) for key in columns},
    }


def find_edit(data: Mapping[str, Any]) -> tuple[tuple[str | int, ...], str] | None:
    """The place in a record that was changed after it was sealed, with a message; None if nothing
    was."""
    seal = data["seal"]
    for key in [key for key in data if key != "seal"]:
        if key not in seal:
            return (key,), f"'{key}' was added after it was measured"
        if key == TABLE and isinstance(seal[key], Mapping):
            edit = _find_edit_in_table(data[key], seal[key])
            if edit:
                return edit
        elif digest(data[key]) != seal[key]:
            return (key,), f"'{key}' was changed after it was measured"
    for key in seal:
        if key not in data and key != _TEXT:
            return ("seal", key), f"'{key}' was removed after it was measured"
    return None


def _find_edit_in_table(
    rows: Sequence[Mapping[str, Any]], seal: Mapping[str, Any]
) -> tuple[tuple[str | int, ...], str] | None:
    before, after = seal["rows"], [digest(row) for row in rows]
    if len(before) != len(after):
        return (TABLE,), f"'{TABLE}' has {len(after)} rows, but {len(before)} were measured"
    changed = [index for index, row in enumerate(after) if row != before[index]]
    if not changed:
        return None
    place: tuple[str | int, ...] = (TABLE, changed[0])
    known, now = seal["columns"], _seal_table(rows)["columns"]
    columns = [key for key in {**now, **known} if now.get(key) != known.get(key)]
    if len(columns) == 1:
        place = (*place, columns[0])
    name = ".".join(map(str, place))
    also = f", and so were {len(changed) - 1} more rows" if len(changed) > 1 else ""
    return place, f"'{name}' was changed after it was measured{also}"
