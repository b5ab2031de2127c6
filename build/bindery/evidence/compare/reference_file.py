"""Baselines: the small file beside a tool with which it compares a run on its own, made from the
newest whole records."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath as Path
from typing import TYPE_CHECKING

from bindery.core.config import ToolEntry
from bindery.core.model import Finding, Span
from bindery.core.repository import Tree
from bindery.evidence.compare.declaration import Terms
from bindery.evidence.compare.judge import Key, Reference, make_references

if TYPE_CHECKING:
    from bindery.evidence.records import Record

SCHEMA = 1
MOST_ROWS = 256
"""Of one record; more are thinned out evenly, so that the file stays small."""


def make_baselines(
    records: Mapping[str, Record],
    tools: Iterable[ToolEntry],
    terms: Mapping[str, Terms],
    methods: Mapping[str, int | None],
) -> Mapping[str, bytes]:
    """The baseline of each tool that has terms, by path: `scripts/compute/tool.baseline.json`.

    It holds the whole records of runs without a problem, of the tool's own method, that have a
    row which no later one like them has, so that a run meets the same record there as among all
    of them.
    """
    baselines = {}
    for tool in tools:
        if tool.name in terms:
            own = terms[tool.name]
            own_method = {
                name: record
                for name, record in records.items()
                if record.method == methods.get(tool.name, record.method)
            }
            path = str(Path(tool.path).with_suffix(".baseline.json"))
            baselines[path] = format_baseline(own, _choose_newest(make_references(own_method, own)))
    return baselines


def _choose_newest(references: Iterable[Reference]) -> list[Reference]:
    covered: dict[object, set[Key]] = {}
    chosen = []
    for reference in sorted(references, key=lambda r: (r.started, r.name), reverse=True):
        settings = tuple((place, repr(value)) for place, value in reference.settings.items())
        hardware = (reference.hardware.casefold(), reference.power_limit)
        kind = (hardware, reference.nodes, reference.ranks, settings)
        known = covered.setdefault(kind, set())
        if not reference.rows.keys() <= known:
            chosen.append(reference)
            known.update(reference.rows)
    return chosen


def format_baseline(terms: Terms, references: Iterable[Reference]) -> bytes:
    """The file, the same bytes for the same records. A row is its keys, the answer in its base
    unit, and the relative spread; one that cannot be compared, its keys and the reason."""
    blocks = []
    for reference in references:
        rows: list[list[object]] = [
            [*(value for _, value in key), recorded.value, recorded.spread]
            for key, recorded in reference.rows.items()
        ]
        untrusted: list[list[object]] = [
            [*(value for _, value in key), reason] for key, reason in reference.untrusted.items()
        ]
        head = {
            "name": reference.name,
            "started": reference.started,
            "method": reference.method,
            "hardware": reference.hardware,
            **({"power_limit": reference.power_limit} if reference.power_limit else {}),
            "nodes": reference.nodes,
            "ranks": reference.ranks,
            "settings": reference.settings,
        }
        lines = [f'   "{key}": {_dump(value)}' for key, value in head.items()]
        lines.append(f'   "rows": {_dump_rows(_thin_out(rows))}')
        lines.append(f'   "untrusted": {_dump_rows(_thin_out(untrusted))}')
        blocks.append("  {\n" + ",\n".join(lines) + "\n  }")
    top = {"schema": SCHEMA, "tool": terms.tool, "keys": list(terms.keys)}
    lines = [f' "{key}": {_dump(value)}' for key, value in top.items()]
    lines.append(' "records": [' + ("\n" + ",\n".join(blocks) + "\n ]" if blocks else "]"))
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def _dump(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _dump_rows(rows: list[list[object]]) -> str:
    return "[" + ("\n    " + ",\n    ".join(map(_dump, rows)) + "\n   ]" if rows else "]")


def _thin_out(rows: list[list[object]]) -> list[list[object]]:
    if len(rows) <= MOST_ROWS:
        return rows
    return [rows[index * (len(rows) - 1) // (MOST_ROWS - 1)] for index in range(MOST_ROWS)]


def compare_baselines(tree: Tree, wanted: Mapping[str, bytes]) -> Iterator[Finding]:
    """Baselines that are not what the records give."""
    for path, content in wanted.items():
        is_there = tree.find_kind(path) == "file"
        if is_there and tree.read_bytes(path).replace(b"\r\n", b"\n") == content:
            continue
        message = "this file is not what the records give"
        if not is_there:
            message = "this file, with which the tool compares a run, is not there"
        hint = "run `bindery fill` and commit the result"
        yield Finding(Span.whole(path), "stale-output", message, hint)
