"""Records and published data as a database in memory, and views that ask it.

A view is one SQL file with a header that names its columns. The database can only be read: an
authorizer refuses everything else, and a query that runs too long is stopped.
"""

from __future__ import annotations

import csv
import io
import re
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import PurePosixPath as Path
from typing import TYPE_CHECKING

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from bindery.config import Config, find_nearest
from bindery.load import RECORDS_FOLDER, Tree
from bindery.model import Finding, Span
from bindery.tables import Cell, Column, Table

if TYPE_CHECKING:
    from bindery.records import Record, Scalar

CLASSES = ("vendor", "reported", "derived", "assumed")
REQUIRED_COLUMNS = ("source", "date", "class")
QUERY_SECONDS = 5.0

_TYPES = ("text", "number", "integer", "date", "url", "boolean")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_TYPES_ELSEWHERE = {"string": "text", "str": "text", "float": "number", "int": "integer"}
_IDENTIFIER = re.compile(r"[a-z][a-z0-9_]*")
_READ_ACTIONS = frozenset(
    (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
)
# What would load code, touch files, or give another answer tomorrow.
_REFUSED_FUNCTIONS = frozenset(
    """load_extension readfile writefile edit fts3_tokenizer random randomblob date time datetime
    julianday unixepoch strftime timediff current_date current_time current_timestamp""".split()
)
_COLUMN = re.compile(
    r"--\s*column\s+(?P<key>[A-Za-z_][A-Za-z0-9_]*)\s*:\s*(?P<heading>.*?)"
    r"(?:\s*\[(?P<unit>[^\]]+)\])?(?:\s+\.(?P<digits>\d))?\s*$"
)
_METHOD = re.compile(r"^METHOD(?:\s*:\s*[\w.\[\]]+)?\s*=\s*(\d+)", re.MULTILINE)
_HEADER = re.compile(r"--\s*(?P<key>[a-z]+)\b\s*:?\s*(?P<rest>.*)")


@dataclass(frozen=True, slots=True)
class View:
    """A query and how its columns are shown."""

    name: str
    path: str
    title: str
    columns: tuple[Column, ...]
    notes: tuple[str, ...]
    sql: str


@dataclass(frozen=True, slots=True)
class Evidence:
    """Every table that the views of a book give, and what is wrong with what they stand on."""

    tables: Mapping[str, Table] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    broken: frozenset[str] = frozenset()
    """Views that exist and could not be evaluated."""


def gather_evidence(tree: Tree, config: Config) -> Evidence:
    """Load records and data, and evaluate every view of the book."""
    base = f"{config.folder}/" if config.folder else ""
    if not any(map(tree.find_kind, (f"{base}views", f"{base}data", RECORDS_FOLDER))):
        return Evidence()
    findings: list[Finding] = []
    database = sqlite3.connect(":memory:")
    try:
        findings += _load_data(database, tree, f"{base}data")
        faulty = {Path(finding.span.path).stem for finding in findings}
        findings += _store_records(database, tree, config)
        _lock(database)
        tables: dict[str, Table] = {}
        broken = set()
        for path in tree.walk_files(f"{base}views"):
            if not path.endswith(".sql"):
                continue
            name = path.rsplit("/", 1)[-1].removesuffix(".sql")
            view = parse_view(name, path, tree.read_bytes(path).decode("utf-8", "replace"))
            if isinstance(view, View) and _uses_any(view, faulty):
                broken.add(name)  # what is wrong with its data is said there
                continue
            result = view if isinstance(view, Finding) else query_view(database, view)
            if isinstance(result, Finding):
                findings.append(result)
                broken.add(name)
            else:
                tables[name] = result
    finally:
        database.close()
    return Evidence(tables, tuple(findings), frozenset(broken))


def _uses_any(view: View, tables: Iterable[str]) -> bool:
    """Whether a query names one of these tables."""
    code = re.sub(r"--[^\n]*", "", view.sql)
    return any(re.search(rf"\b{re.escape(table)}\b", code) for table in tables)


# --- data ---


def _load_data(database: sqlite3.Connection, tree: Tree, folder: str) -> list[Finding]:
    findings: list[Finding] = []
    for path in tree.walk_files(folder):
        if path.endswith(".csv"):
            findings += _load_csv(database, tree, path)
    return findings


def _load_csv(database: sqlite3.Connection, tree: Tree, path: str) -> list[Finding]:
    name = path.rsplit("/", 1)[-1].removesuffix(".csv")
    schema_path = path.removesuffix(".csv") + ".yaml"
    if not _IDENTIFIER.fullmatch(name):
        message = f"'{name}' cannot be the name of a table"
        return [Finding(Span.whole(path), "bad-data", message, "small letters, digits and _ only")]
    schema = _read_schema(tree, schema_path)
    if isinstance(schema, Finding):
        return [schema]
    try:
        text = tree.read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        return [Finding(Span(path, line), "bad-data", "this is not UTF-8")]
    lines = text.splitlines()
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    findings: list[Finding] = []
    try:
        header = next(reader, [])
        findings += _check_header(path, header, schema, schema_path)
        if findings:
            return findings
        rows = []
        for row in reader:
            if row:
                number = reader.line_num
                source = lines[number - 1] if number <= len(lines) else ""
                rows.append(_read_row(path, number, source, header, row, schema, findings))
    except csv.Error as error:
        return [Finding(Span(path, reader.line_num), "bad-data", f"this is not CSV: {error}")]
    _create_table(database, name, header, rows)
    return findings


def _read_schema(tree: Tree, path: str) -> Mapping[str, str] | Finding:
    """Type of each column by name."""
    if tree.find_kind(path) != "file":
        message = f"the data has no schema '{path}'"
        hint = "give title, and under columns a type and a description for each"
        return Finding(Span.whole(path.removesuffix(".yaml") + ".csv"), "bad-data", message, hint)
    try:
        text = tree.read_bytes(path).decode("utf-8")
        lines = text.splitlines()
        data = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        return Finding(Span(path, line), "bad-data", "this schema is not YAML")
    columns = data.get("columns") if isinstance(data, dict) else None
    if not isinstance(columns, dict):
        return Finding(Span(path, 1), "bad-data", "the schema has no 'columns'")
    types = {}
    for key, column in columns.items():
        kind = column.get("type") if isinstance(column, dict) else None
        if kind not in _TYPES:
            message = (
                f"the column '{key}' has the type '{kind}', which is not known"
                if kind
                else (f"the column '{key}' has no type")
            )
            nearest = _TYPES_ELSEWHERE.get(str(kind), "") or find_nearest(str(kind), _TYPES)
            hint = f"did you mean '{nearest}'?" if nearest else f"one of: {', '.join(_TYPES)}"
            line = next((n for n, t in enumerate(lines, 1) if _is_key(t, str(key))), 1)
            return Finding(Span(path, line), "bad-data", message, hint)
        types[str(key)] = str(kind)
    return types


def _is_key(line: str, key: str) -> bool:
    return line.lstrip().startswith((f"{key}:", f'"{key}":', f"'{key}':"))


def _check_header(
    path: str, header: Sequence[str], schema: Mapping[str, str], schema_path: str
) -> list[Finding]:
    findings = []
    for name in header:
        if name not in schema:
            nearest = find_nearest(name, schema)
            hint = f"did you mean '{nearest}'?" if nearest else f"describe it in '{schema_path}'"
            message = f"the column '{name}' is not in the schema"
            findings.append(Finding(Span(path, 1), "bad-data", message, hint))
        elif not _IDENTIFIER.fullmatch(name):
            message = f"'{name}' cannot be the name of a column"
            findings.append(Finding(Span(path, 1), "bad-data", message))
    for name in REQUIRED_COLUMNS:
        if name not in header:
            message = f"the column '{name}' is missing: every figure says where it is from"
            findings.append(Finding(Span(path, 1), "bad-data", message))
    if len(set(header)) != len(header):
        findings.append(Finding(Span(path, 1), "bad-data", "a column stands there twice"))
    return findings


def _read_row(
    path: str,
    line: int,
    source: str,
    header: Sequence[str],
    row: Sequence[str],
    schema: Mapping[str, str],
    findings: list[Finding],
) -> list[Cell]:
    if len(row) != len(header):
        message = f"this row has {len(row)} cells, the header {len(header)}"
        findings.append(Finding(Span(path, line), "bad-data", message))
        return [None] * len(header)
    cells: list[Cell] = []
    start = 0
    for name, text in zip(header, row, strict=True):
        found = source.find(text, start)
        start = found + len(text) if found >= 0 else start
        try:
            cells.append(_read_cell(name, text.strip(), schema[name]))
        except ValueError as error:
            span = Span(path, line, max(found, 0) + 1, max(len(text), 1))
            findings.append(Finding(span, "bad-data", f"'{name}': {error}"))
            cells.append(None)
    return cells


def _read_cell(name: str, text: str, kind: str) -> Cell:
    if name in REQUIRED_COLUMNS and not text:
        raise ValueError("it is empty, and every figure says where it is from")
    if not text:
        return None
    if name == "class" and text not in CLASSES:
        nearest = find_nearest(text, CLASSES)
        raise ValueError(f"'{text}' is no class; {nearest or ', '.join(CLASSES)}?")
    match kind:
        case "number" | "integer":
            if not _NUMBER.fullmatch(text):  # float() also takes nan, infinity and 1_000
                raise ValueError(f"'{text}' is no number")
            number = float(text)
            if number.is_integer() and (kind == "integer" or "." not in text):
                return int(number)
            if kind == "integer":
                raise ValueError(f"'{text}' is no whole number")
            return number
        case "date":
            try:
                date.fromisoformat(text)
            except ValueError:
                raise ValueError(f"'{text}' is no date such as 2026-11-20") from None
        case "url" if not re.match(r"https?://\S+$", text):
            raise ValueError(f"'{text}' is no web address")
        case "boolean":
            if text not in ("yes", "no"):
                raise ValueError(f"'{text}' is neither yes nor no")
            return int(text == "yes")
        case _:
            pass
    return text


# --- records ---

_RECORD_COLUMNS = (
    "record tool version method profile started date complete machine cpu accelerator "
    "accelerator_count torch"
).split()


def _store_records(database: sqlite3.Connection, tree: Tree, config: Config) -> list[Finding]:
    # Validation is imported here: it takes longer than the check of a book without records.
    from bindery.records import load_records

    findings: list[Finding] = []
    records: dict[str, Record] = {}
    for item in load_records(tree):
        if isinstance(item, Finding):
            findings.append(item)
        else:
            records[item[0]] = item[1]
    findings += _find_old_methods(records, tree, config)
    rows: list[list[Cell]] = []
    results: dict[str, list[dict[str, Scalar]]] = {}
    for name, record in records.items():
        accelerators = record.machine.accelerators
        rows.append(
            [
                name,
                record.tool,
                record.version,
                record.method,
                record.profile,
                record.started.isoformat(),
                record.started.date().isoformat(),
                int(record.complete),
                record.machine.label,
                record.machine.cpu.model,
                accelerators[0].model if accelerators else None,
                len(accelerators),
                _to_text(record.software.get("torch")),
            ]
        )
        results.setdefault(record.tool, []).extend(
            {"record": name, **result} for result in record.results
        )
    _create_table(database, "records", _RECORD_COLUMNS, rows)
    for tool, tool_rows in results.items():
        keys = list(dict.fromkeys(key for row in tool_rows for key in row))
        cells = [[_to_cell(row.get(key)) for key in keys] for row in tool_rows]
        _create_table(database, tool, keys, cells)
    return findings


def _find_old_methods(
    records: Mapping[str, Record], tree: Tree, config: Config
) -> Iterator[Finding]:
    """Records whose numbers cannot be compared with what their tool would measure today."""
    from bindery.records import FOLDER

    paths = {tool.name: tool.path for tool in config.tools}
    for name, record in records.items():
        path = paths.get(record.tool)
        if path is None or tree.find_kind(path) != "file":
            continue
        match = _METHOD.search(tree.read_bytes(path).decode("utf-8", "replace"))
        if match and int(match[1]) != record.method:
            message = f"this is method {record.method} of '{record.tool}', which is at {match[1]}"
            hint = f"run `nox -s run -- {record.tool} --profile {record.profile}` on that machine"
            yield Finding(Span.whole(f"{FOLDER}/{name}.json"), "old-method", message, hint)


def _to_text(value: Scalar) -> str | None:
    return None if value is None else str(value)


def _to_cell(value: Scalar) -> Cell:
    return int(value) if isinstance(value, bool) else value


# --- the database ---


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _create_table(
    database: sqlite3.Connection,
    name: str,
    columns: Iterable[str],
    rows: Iterable[Sequence[Cell]],
) -> None:
    names = [_quote(column) for column in columns]
    database.execute(f"CREATE TABLE {_quote(name)} ({', '.join(names)})")
    marks = ", ".join("?" * len(names))
    database.executemany(f"INSERT INTO {_quote(name)} VALUES ({marks})", rows)


def _lock(database: sqlite3.Connection) -> None:
    """From here on the database can be read, and nothing else."""
    database.commit()

    def authorize(
        action: int, _first: str | None, second: str | None, _base: str | None, _by: str | None
    ) -> int:
        if action not in _READ_ACTIONS:
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _REFUSED_FUNCTIONS:
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    database.set_authorizer(authorize)


# --- views ---


def parse_view(name: str, path: str, text: str) -> View | Finding:
    """A view from its file, or what is wrong with its header."""
    title = ""
    columns: list[Column] = []
    notes: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.startswith("--"):
            continue
        column = _COLUMN.match(line)
        header = _HEADER.match(line)
        if column and not set("[]") & set(column["heading"]):
            digits = int(column["digits"]) if column["digits"] else None
            columns.append(Column(column["key"], column["heading"], column["unit"] or "", digits))
        elif header and header["key"] == "title":
            title = header["rest"].strip()
        elif header and header["key"] == "note":
            notes.append(header["rest"].strip())
        elif header and header["key"] in ("column", "columns"):
            message = "this column cannot be read"
            hint = "write `-- column KEY: HEADING [UNIT] .DIGITS`"
            return Finding(Span(path, number), "bad-view", message, hint)
    if not title:
        return Finding(Span.whole(path), "bad-view", "the view has no title", "-- title: ...")
    if not columns:
        return Finding(
            Span.whole(path), "bad-view", "the view names no columns", "-- column KEY: HEADING"
        )
    if not re.search(r"\border\s+by\b", re.sub(r"--[^\n]*", "", text), re.IGNORECASE):
        message = "the query has no ORDER BY, so its rows have no order"
        return Finding(Span.whole(path), "bad-view", message, "add one")
    return View(name, path, title, tuple(columns), tuple(notes), text)


def query_view(database: sqlite3.Connection, view: View) -> Table | Finding:
    """The table that a view gives, or what is wrong with its query."""
    deadline = time.monotonic() + QUERY_SECONDS
    database.set_progress_handler(lambda: int(time.monotonic() > deadline), 10_000)
    try:
        cursor = database.execute(view.sql)
        rows = cursor.fetchall()
        keys = [description[0] for description in cursor.description or ()]
    except (sqlite3.Error, sqlite3.Warning) as error:
        return _explain_error(database, view, str(error))
    finally:
        database.set_progress_handler(None, 0)
    missing = [column.key for column in view.columns if column.key not in keys]
    if missing:
        line = _find_word(view.sql, missing[0])
        message = f"the query gives no column '{missing[0]}'"
        return Finding(Span(view.path, line), "bad-view", message, f"it gives: {', '.join(keys)}")
    unnamed = [key for key in keys if key not in {column.key for column in view.columns}]
    if unnamed:
        message = f"the column '{unnamed[0]}' of the query has no heading"
        hint = f"write `-- column {unnamed[0]}: HEADING`, or leave it out of the query"
        return Finding(Span(view.path, _find_word(view.sql, unnamed[0])), "bad-view", message, hint)
    order = [keys.index(column.key) for column in view.columns]
    cells = tuple(tuple(row[index] for index in order) for row in rows)
    return Table(view.title, view.columns, cells, view.notes)


def _explain_error(database: sqlite3.Connection, view: View, error: str) -> Finding:
    hint = ""
    word = ""
    if match := re.match(r"no such (column|table): (\S+)", error):
        word = match[2].rsplit(".", 1)[-1]
        hint = _list_columns(database, view.sql, word, match[1])
    elif match := re.match(r'near "(.+?)"', error):
        word = match[1]
    elif "interrupted" in error:
        error = f"the query ran longer than {QUERY_SECONDS:g} s and was stopped"
    elif "not authorized" in error or "prohibited" in error:
        hint = "a view can only read: one SELECT over records and data, the same every day"
    elif "one statement at a time" in error:
        hint = "a view is one SELECT"
    line = _find_word(view.sql, word) if word else 1
    return Finding(Span(view.path, line), "bad-view", f"the query fails: {error}", hint)


def _list_columns(database: sqlite3.Connection, sql: str, word: str, kind: str) -> str:
    database.set_authorizer(None)
    try:
        names = [row[0] for row in database.execute("SELECT name FROM sqlite_master ORDER BY name")]
        if kind == "table":
            nearest = find_nearest(word, names)
            return f"did you mean '{nearest}'?" if nearest else f"tables: {', '.join(names)}"
        used = [name for name in names if re.search(rf"\b{re.escape(name)}\b", sql)]
        columns = {
            name: [row[1] for row in database.execute(f"PRAGMA table_info({_quote(name)})")]
            for name in used
        }
    finally:
        _lock(database)
    nearest = find_nearest(word, [column for group in columns.values() for column in group])
    listed = "; ".join(f"{name} has {', '.join(group)}" for name, group in columns.items())
    return f"did you mean '{nearest}'? {listed}" if nearest else listed


def _find_word(sql: str, word: str) -> int:
    """The line of the first place outside comments where a word stands."""
    for number, line in enumerate(sql.split("\n"), 1):
        code = line.partition("--")[0]
        if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", code):
            return number
    return 1
