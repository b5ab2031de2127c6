"""Seals: digests inside a record that show which part of it was changed later.

They guard against accidents, not against forgery: anyone can seal an edited record again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

DIGITS = 16
UNSEALED = ("seal",)
TABLE = "results"
TEXT = "text"
"""The digest of the text of a record up to its seal, which proves in one step that nothing was
changed. The other digests show what was."""

_SEAL_MARK = '\n "seal":'

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest(value: object) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the canonical JSON of a value: keys
    sorted, no spaces, ASCII."""
    return hashlib.sha256(_ENCODER.encode(value).encode("ascii")).hexdigest()[:DIGITS]


def seal_record(data: Mapping[str, Any]) -> dict[str, Any]:
    """The record with a digest for each of its fields under `seal`, an earlier seal replaced.

    Results have a digest for each row and for each column, so that a changed cell can be named.
    """
    fields = {key: value for key, value in data.items() if key not in UNSEALED}
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


def write_sealed(data: Mapping[str, Any]) -> str:
    """The JSON of a record with its seal at the end."""
    fields = seal_record(data)
    seal = fields.pop("seal")
    body, _, _ = json.dumps(fields, indent=1, ensure_ascii=False).rpartition("\n")
    text = json.dumps({TEXT: _digest_text(body + ","), **seal}, indent=1, ensure_ascii=False)
    indented = text.replace("\n", "\n ")
    return f"{body},{_SEAL_MARK} {indented}\n}}\n"


def is_untouched(text: str, seal: Mapping[str, Any]) -> bool:
    """Whether the text of a record is exactly what was sealed."""
    before, mark, _ = text.rpartition(_SEAL_MARK)
    return bool(mark) and seal.get(TEXT) == _digest_text(before)


def _digest_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]


def find_edit(data: Mapping[str, Any]) -> tuple[tuple[str | int, ...], str] | None:
    """The place in a record that was changed after it was sealed, with a message; None if nothing
    was."""
    seal = data["seal"]
    for key in [key for key in data if key not in UNSEALED]:
        if key not in seal:
            return (key,), f"'{key}' was added after it was measured"
        if key == TABLE and isinstance(seal[key], Mapping):
            edit = _find_edit_in_table(data[key], seal[key])
            if edit:
                return edit
        elif digest(data[key]) != seal[key]:
            return (key,), f"'{key}' was changed after it was measured"
    for key in seal:
        if key not in data and key != TEXT:
            return ("seal", key), f"'{key}' was taken out after it was measured"
    return None


def _find_edit_in_table(
    rows: Sequence[Mapping[str, Any]], seal: Mapping[str, Any]
) -> tuple[tuple[str | int, ...], str] | None:
    before, after = seal["rows"], [digest(row) for row in rows]
    if len(before) != len(after):
        return (TABLE,), f"'{TABLE}' has {len(after)} rows, and {len(before)} were measured"
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
