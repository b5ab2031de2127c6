"""Gather the evidence of a book: read records and data, evaluate views, trace numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Set
from datetime import date, datetime
from pathlib import PurePosixPath as Path
from typing import TYPE_CHECKING

from bindery.core.cache import Cache
from bindery.core.config import Config
from bindery.core.facts import Facts
from bindery.core.model import Finding, Span
from bindery.core.repository import RECORDS_FOLDER, Tree
from bindery.core.suggestions import suggest
from bindery.evidence.database import EvidenceDatabase
from bindery.evidence.evidence import Evidence
from bindery.evidence.plots.spec import find_plot_fault
from bindery.evidence.published_data import DataTable, load_data
from bindery.evidence.stale_records import Staleness, find_newest, find_stale, read_methods
from bindery.evidence.tables import Cell, Table
from bindery.evidence.views import View, blank_quoted, parse_view

if TYPE_CHECKING:
    from bindery.evidence.provenance import Sources, TableProvenance
    from bindery.evidence.records import Record, Scalar

RECORDS_TABLE = "records"
_RECORD_COLUMNS = (
    "record tool version method profile started date seconds ended complete newest stale nodes "
    "ranks machine hardware cpu accelerator accelerator_count torch contributor"
).split()
_RECORD_NAME = re.compile(r"[a-z0-9_]+/[^/\s]+_\d{8}[\w.-]*")
_QUERIED_WORD = re.compile(r"\w+")


def gather_evidence(
    tree: Tree,
    config: Config,
    quoted: Iterable[str],
    today: date,
    latest: datetime,
    cache: Cache | None = None,
) -> Evidence:
    """Load records and data, evaluate all views, and trace the numbers of quoted views. A record
    of a run that started after `latest` is invalid."""
    findings: list[Finding] = []
    faulty: set[str] = set()
    data: dict[str, DataTable] = {}
    for item in load_data(tree, config.data):
        if isinstance(item, DataTable):
            data[item.name] = item
        else:
            faulty.add(item[0])
            findings += item[1]
    records = _load_records(tree, latest, findings, faulty)
    findings += _refuse_clashes(data, records)
    owners = {record.tool for record in records.values()}
    methods = read_methods(tree, (tool for tool in config.tools if tool.name in owners))
    stale = find_stale(records, config.tools, methods, today)
    newest = find_newest(records)
    database = EvidenceDatabase(tool.name for tool in config.tools)
    try:
        computed = frozenset(tool.name for tool in config.tools if tool.output == "exact")
        sources = _fill_database(database, data, records, stale, newest, computed)
        database.lock()
        views, tables, broken = _query_views(
            tree, config.views, database, faulty, records, findings
        )
        followed = {name: views[name] for name in dict.fromkeys(quoted) if name in tables}
        for name in [name for name in followed if not tables[name].rows]:
            view = followed.pop(name)
            span = Span(view.path, view.find_line("WHERE"))
            findings.append(Finding(span, "bad-view", "the view has no rows", "check its WHERE"))
            broken.add(name)
        provenance, refused = _trace_views(database, followed, tables, sources, findings, cache)
        broken |= refused
    finally:
        database.close()
    return Evidence(
        tables={name: table for name, table in tables.items() if name not in broken},
        views=views,
        records=records,
        data=data,
        provenance=provenance,
        stale=stale,
        methods=methods,
        newest=newest,
        computed=computed,
        texts=_load_texts(tree),
        findings=tuple(findings),
        broken=frozenset(broken),
    )


def _load_records(
    tree: Tree, latest: datetime, findings: list[Finding], faulty: set[str]
) -> Mapping[str, Record]:
    if tree.find_kind(RECORDS_FOLDER) != "folder":
        return {}
    # Imported here: pydantic takes longer than checking a book without records.
    from bindery.evidence.records import load_records

    records = {}
    for item in load_records(tree, latest):
        if isinstance(item, Finding):
            findings.append(item)
            tool = item.span.path.removeprefix(f"{RECORDS_FOLDER}/").partition("/")[0]
            faulty |= {tool, RECORDS_TABLE}
        else:
            records[item[0]] = item[1]
    return records


def _load_texts(tree: Tree) -> Mapping[str, str]:
    texts = {}
    for path in tree.walk_files(RECORDS_FOLDER):
        if path.endswith(".txt"):
            name = path.removeprefix(f"{RECORDS_FOLDER}/").removesuffix(".txt")
            texts[name] = tree.read_bytes(path).decode("utf-8", "replace").replace("\r\n", "\n")
    return texts


def _refuse_clashes(data: dict[str, DataTable], records: Mapping[str, Record]) -> Iterator[Finding]:
    """Report data files named like a table of records."""
    taken = {RECORDS_TABLE, *(record.tool for record in records.values())}
    for name in sorted(taken & set(data)):
        message = f"'{name}' is already a table of records"
        yield Finding(Span.whole(data.pop(name).path), "bad-data", message, "rename the file")


def _fill_database(
    database: EvidenceDatabase,
    data: Mapping[str, DataTable],
    records: Mapping[str, Record],
    stale: Mapping[str, Staleness],
    newest: frozenset[str],
    computed: frozenset[str],
) -> Sources:
    from bindery.evidence.provenance import Sources

    for table in data.values():
        columns = [column.name for column in table.columns]
        database.add_table(table.name, columns, (row.cells for row in table.rows))
    rows = [_describe_record(name, record, stale, newest) for name, record in records.items()]
    database.add_table(RECORDS_TABLE, _RECORD_COLUMNS, rows)
    owners: dict[str, list[str]] = {RECORDS_TABLE: list(records)}
    results: dict[str, list[Mapping[str, Scalar]]] = {}
    for name, record in records.items():
        results.setdefault(record.tool, []).extend(record.results)
        owners.setdefault(record.tool, []).extend([name] * len(record.results))
    for tool, tool_rows in results.items():
        keys = list(dict.fromkeys(key for row in tool_rows for key in row))
        cells = (
            (owner, *map(row.get, keys))  # SQLite stores booleans as 1 and 0
            for owner, row in zip(owners[tool], tool_rows, strict=True)
        )
        database.add_table(tool, ["record", *keys], cells)
    return Sources(owners, data, _list_units(data, records), computed)


def _list_units(
    data: Mapping[str, DataTable], records: Mapping[str, Record]
) -> Mapping[tuple[str, str], str]:
    """Units by table and column; none where a tool's records disagree."""
    units = {(RECORDS_TABLE, "seconds"): "s"}
    for table in data.values():
        units |= {(table.name, column.name): column.unit for column in table.columns}
    seen: dict[tuple[str, str], set[str]] = {}
    for record in records.values():
        for column, unit in record.units.items():
            seen.setdefault((record.tool, column), set()).add(unit)
    return units | {key: found.pop() for key, found in seen.items() if len(found) == 1}


def _describe_record(
    name: str, record: Record, stale: Mapping[str, Staleness], newest: frozenset[str]
) -> list[Cell]:
    accelerators = record.machine.accelerators
    torch = record.software.get("torch")
    return [
        name,
        record.tool,
        record.version,
        record.method,
        record.profile_name,
        record.started.isoformat(),
        record.started.date().isoformat(),
        record.seconds,
        record.ended,
        int(record.complete),
        int(name in newest),
        stale[name].reason if name in stale else None,
        record.nodes,
        record.ranks,
        record.machine.label,
        record.machine.hardware,
        record.machine.cpu.model,
        accelerators[0].model if accelerators else None,
        len(accelerators),
        None if torch is None else str(torch),
        record.contributor,
    ]


def _query_views(
    tree: Tree,
    folder: str,
    database: EvidenceDatabase,
    faulty: Set[str],
    records: Mapping[str, Record],
    findings: list[Finding],
) -> tuple[dict[str, View], dict[str, Table], set[str]]:
    views: dict[str, View] = {}
    tables: dict[str, Table] = {}
    broken = set()
    paths: dict[str, str] = {}
    for path in tree.walk_files(folder):
        if not path.endswith(".sql"):
            continue
        name = Path(path).stem
        if name in paths:
            message = f"there is already a view '{name}': '{paths[name]}'"
            findings.append(Finding(Span.whole(path), "bad-view", message, "rename one of them"))
            continue
        paths[name] = path
        view = parse_view(name, path, tree.read_bytes(path).decode("utf-8", "replace"))
        if isinstance(view, Finding):
            findings.append(view)
            broken.add(name)
            continue
        views[name] = view
        words = _QUERIED_WORD.findall(blank_quoted(view.sql, "comment", "text").lower())
        if not faulty.isdisjoint(words):
            broken.add(name)  # the finding about its data explains it
            continue
        unknown = list(_find_unknown_records(view, records, tree))
        result = unknown[0] if unknown else database.query_view(view)
        if (
            isinstance(result, Table)
            and view.plot
            and (fault := find_plot_fault(view.plot, result))
        ):
            result = Finding(Span(path, view.plot.line), "bad-view", *fault)
        if isinstance(result, Finding):
            findings.append(result)
            broken.add(name)
        else:
            tables[name] = result
    return views, tables, broken


def _find_unknown_records(
    view: View, records: Mapping[str, Record], tree: Tree
) -> Iterator[Finding]:
    """Records named in a query that do not exist."""
    tools = tree.list_folder(RECORDS_FOLDER)
    for span, text in view.find_texts():
        tool, slash, _ = text.partition("/")
        is_name = slash and (tool in tools or _RECORD_NAME.fullmatch(text))
        if not is_name or text in records:
            continue
        hint = suggest(text, records, "see `bindery records`")
        yield Finding(span, "unknown-record", f"there is no record '{text}'", hint)


def _trace_views(
    database: EvidenceDatabase,
    views: Mapping[str, View],
    tables: Mapping[str, Table],
    sources: Sources,
    findings: list[Finding],
    cache: Cache | None,
) -> tuple[Mapping[str, TableProvenance], set[str]]:
    """The provenance of each table, and the views that are refused, such as for a unit that is not
    that of the data."""
    from bindery.evidence.provenance import trace_table

    traces = cache.open_facts("traced views", {}) if cache else Facts()
    provenance, refused = {}, set()
    for name, view in views.items():
        result = trace_table(database, view, tables[name], sources, traces)
        if isinstance(result, list):
            findings += result
            if any(finding.rule == "bad-view" for finding in result):
                refused.add(name)
        else:
            provenance[name] = result
    return provenance, refused
