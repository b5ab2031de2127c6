"""Gather the evidence of a book: read records and data, evaluate views, trace numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from datetime import date, datetime
from pathlib import PurePosixPath as Path
from typing import TYPE_CHECKING

from bindery.core.cache import Cache
from bindery.core.config import Config
from bindery.core.facts import Facts
from bindery.core.model import SAVE_AS_UTF8, Finding, Span, find_bad_byte
from bindery.core.repository import RECORDS_FOLDER, RECORDS_TABLE, Tree
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

_RECORD_COLUMNS = (
    "record tool version method profile started date seconds ended complete newest stale nodes "
    "ranks machine hardware cpu accelerator accelerator_count torch contributor"
).split()
_RECORD_NAME = re.compile(r"[a-z0-9_]+/[^/\s]+_\d{8}[\w.-]*")
_QUERIED_WORD = re.compile(r"\w+")


class Gathering:
    """The evidence of a book as it is gathered: records, data and what all views return, before it
    is known which of them the chapters quote."""

    def __init__(
        self,
        tree: Tree,
        config: Config,
        today: date,
        latest: datetime,
        cache: Cache | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        """Load records and data, and evaluate all views, or `only` some and what they read. A
        record of a run that started after `latest` is invalid."""
        self._tree = tree
        self._traces = cache.open_facts("traced views", {}) if cache else Facts()
        self._traced: dict[str, TableProvenance | list[Finding]] = {}
        self._findings: list[Finding] = []
        self._broken: set[str] = set()
        self._views = _read_views(tree, config.views, self._findings, self._broken)
        asked = self._views
        words: Set[str] | None = None
        if only is not None and self._views.keys() >= set(only):
            asked = {name: self._views[name] for name in only}
            words = frozenset().union(*(view.words for view in asked.values()))
        faulty: set[str] = set()
        self._data: dict[str, DataTable] = {}
        for item in load_data(tree, config.data, words):
            if isinstance(item, DataTable):
                self._data[item.name] = item
            else:
                faulty.add(item[0])
                self._findings += item[1]
        tools = None if words is None or RECORDS_TABLE in words else words
        self._records = _load_records(tree, latest, tools, self._findings, faulty)
        self._findings += _refuse_clashes(self._data, self._records)
        owners = {record.tool for record in self._records.values()}
        self._methods = read_methods(tree, (tool for tool in config.tools if tool.name in owners))
        self._stale = find_stale(self._records, config.tools, self._methods, today)
        self._newest = find_newest(self._records)
        self._computed = frozenset(tool.name for tool in config.tools if tool.output == "exact")
        self._database = EvidenceDatabase(tool.name for tool in config.tools)
        self._sources = _fill_database(
            self._database, self._data, self._records, self._stale, self._newest, self._computed
        )
        self._database.lock()
        self._tables = _query_views(
            tree, asked, self._database, faulty, self._records, self._findings, self._broken
        )

    def trace_ahead(self) -> None:
        """Trace the numbers of all views now. `finish` then takes those of the quoted ones."""
        for name, table in self._tables.items():
            if table.rows:
                self._trace(name)

    def _trace(self, name: str) -> TableProvenance | list[Finding]:
        """The provenance of a view's table, or findings if it is refused, such as for a unit that
        is not that of the data."""
        from bindery.evidence.provenance import trace_table

        if name not in self._traced:
            view, table = self._views[name], self._tables[name]
            self._traced[name] = trace_table(
                self._database, view, table, self._sources, self._traces
            )
        return self._traced[name]

    def finish(self, quoted: Iterable[str]) -> Evidence:
        """The evidence, with the numbers of quoted views traced. Call this once: it closes the
        database."""
        tables, findings, broken = self._tables, self._findings, self._broken
        provenance = {}
        for name in [name for name in dict.fromkeys(quoted) if name in tables]:
            if not tables[name].rows:
                view = self._views[name]
                span = Span(view.path, view.find_line("WHERE"))
                message = "the view has no rows"
                findings.append(Finding(span, "bad-view", message, "check its WHERE"))
                broken.add(name)
                continue
            result = self._trace(name)
            if not isinstance(result, list):
                provenance[name] = result
                continue
            findings += result
            if any(finding.rule == "bad-view" for finding in result):
                broken.add(name)
        self._database.close()
        return Evidence(
            tables={name: table for name, table in tables.items() if name not in broken},
            views=self._views,
            records=self._records,
            data=self._data,
            provenance=provenance,
            stale=self._stale,
            methods=self._methods,
            newest=self._newest,
            computed=self._computed,
            texts=_load_texts(self._tree),
            findings=tuple(findings),
            broken=frozenset(broken),
        )


def _load_records(
    tree: Tree,
    latest: datetime,
    tools: Set[str] | None,
    findings: list[Finding],
    faulty: set[str],
) -> Mapping[str, Record]:
    if tools is not None and tools.isdisjoint(tree.list_folder(RECORDS_FOLDER)):
        return {}
    if tree.find_kind(RECORDS_FOLDER) != "folder":
        return {}
    # Imported here: most commands need no record.
    from bindery.evidence.records import load_records

    records = {}
    for item in load_records(tree, latest, tools):
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


def _read_views(
    tree: Tree, folder: str, findings: list[Finding], broken: set[str]
) -> dict[str, View]:
    views: dict[str, View] = {}
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
        try:
            view = parse_view(name, path, tree.read_bytes(path).decode("utf-8"))
        except UnicodeDecodeError as error:
            span, message = find_bad_byte(path, error)
            view = Finding(span, "bad-view", message, SAVE_AS_UTF8)
        if isinstance(view, Finding):
            findings.append(view)
            broken.add(name)
            continue
        views[name] = view
    return views


def _query_views(
    tree: Tree,
    views: Mapping[str, View],
    database: EvidenceDatabase,
    faulty: Set[str],
    records: Mapping[str, Record],
    findings: list[Finding],
    broken: set[str],
) -> dict[str, Table]:
    tables: dict[str, Table] = {}
    for name, view in views.items():
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
            result = Finding(Span(view.path, view.plot.line), "bad-view", *fault)
        if isinstance(result, Finding):
            findings.append(result)
            broken.add(name)
        else:
            tables[name] = result
    return tables


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
