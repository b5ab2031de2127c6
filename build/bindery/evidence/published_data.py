"""Published figures: the tables in the `data` folder, with a source for each number.

A table is `NAME.csv` with a schema in `NAME.yaml`, or `NAME.yaml` alone with `rows`.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any

from msgspec import Struct, field
from ruamel.yaml.nodes import MappingNode, Node, SequenceNode

from bindery.core.model import (
    SAVE_AS_UTF8,
    ConfigError,
    Finding,
    Span,
    find_bad_byte,
    refuse,
)
from bindery.core.repository import Tree
from bindery.core.suggestions import suggest
from bindery.core.yaml_nodes import read_nodes
from bindery.evidence.data_formulas import NoArithmeticError, agrees, evaluate
from bindery.evidence.tables import Cell

CLASSES = ("vendor", "reported", "derived", "assumed")
CITED = ("source", "date", "class", "unconfirmed", "via")
"""Citation fields: columns with these names, defaults for the table in its schema, or
`COLUMN_source` and so on for one column."""
NEEDED = ("source", "date", "class")
FORMULA = "formula"
IDENTIFIER = re.compile(r"[a-z][a-z0-9_]*")

_TYPES = ("text", "number", "integer", "date", "url", "boolean", "place")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DIGITS = re.compile(r"[+-]?\d+", re.ASCII)
_SCHEMA_KEYS = ("title", "description", "columns", "rows", *CITED)
_COLUMN_KEYS = ("type", "unit", "description")
_CITED_TYPES = {"date": "date", "unconfirmed": "boolean"}


class Citation(Struct, frozen=True):
    """The source, date and class of a figure."""

    source: str = ""
    date: str = ""
    number_class: str = ""
    unconfirmed: bool = False
    via: str = ""


class DataColumn(Struct, frozen=True):
    name: str
    kind: str
    unit: str = ""
    description: str = ""


class DataRow(Struct, frozen=True):
    """A row and its line in the file."""

    line: int
    cells: tuple[Cell, ...]
    citation: Citation
    cell_citations: Mapping[str, Citation] = field(default_factory=dict)
    formulas: Mapping[str, str] = field(default_factory=dict)
    """Formulas of derived cells, by column."""


class DataTable(Struct, frozen=True):
    name: str
    path: str
    title: str
    columns: tuple[DataColumn, ...]
    rows: tuple[DataRow, ...]

    def cite(self, row: int, column: str) -> Citation:
        """The citation of a figure; rows count from 0."""
        entry = self.rows[row]
        return entry.cell_citations.get(column, entry.citation)


class _Schema(Struct, frozen=True):
    path: str
    title: str
    columns: Mapping[str, DataColumn]
    citation: Mapping[str, str]
    rows: Sequence[Any] | None
    """The rows, if the table is a single YAML file."""


class _BadDataError(Exception):
    """An invalid table, with findings."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__()
        self.findings = list(findings)


def _report(place: Span | str, message: str, hint: str = "") -> Finding:
    span = Span.whole(place) if isinstance(place, str) else place
    return Finding(span, "bad-data", message, hint)


def load_data(
    tree: Tree, folder: str, only: Container[str] | None = None
) -> Iterator[DataTable | tuple[str, list[Finding]]]:
    """Each table of the folder, or `only` those with these names; for an invalid one its name with
    findings."""
    paths = list(tree.walk_files(folder))
    seen: dict[str, str] = {}
    for path in paths:
        stem, _, ending = path.rpartition(".")
        name = stem.rpartition("/")[2]
        if only is not None and name not in only:
            continue
        if ending not in ("csv", "yaml") or (ending == "yaml" and f"{stem}.csv" in paths):
            continue
        if name in seen:
            message = f"there is already a table '{name}': '{seen[name]}'"
            yield name, [_report(path, message, "rename one of them")]
            continue
        seen[name] = path
        try:
            yield _load_table(tree, name, path)
        except _BadDataError as error:
            yield name, error.findings


def _load_table(tree: Tree, name: str, path: str) -> DataTable:
    if not IDENTIFIER.fullmatch(name):
        message = f"'{name}' is not a valid table name"
        raise _BadDataError(_report(path, message, "use only lower-case letters, digits and _"))
    rows: list[DataRow] = []
    findings: list[Finding] = []
    if path.endswith(".csv"):
        schema_path = path.removesuffix(".csv") + ".yaml"
        if tree.find_kind(schema_path) != "file":
            message = f"the data has no schema '{schema_path}'"
            hint = "write one with a title, and a type and a description for each column"
            raise _BadDataError(_report(path, message, hint))
        schema = _read_schema(tree, schema_path)
        if schema.rows is not None:
            message = f"there are rows both in '{path}' and in its schema"
            raise _BadDataError(_report(schema_path, message, "keep one of them"))
        header, typed = _read_csv(tree, path)
    else:
        schema = _read_schema(tree, path)
        if schema.rows is None:
            message = f"the schema has no 'rows', and there is no '{name}.csv' next to it"
            hint = "add `rows:` to the schema, or the CSV file"
            raise _BadDataError(_report(path, message, hint))
        header, typed = list(schema.columns), _read_yaml(schema)
    if faults := list(_check_header(path, header, schema)):
        raise _BadDataError(*faults)
    for line, cells in typed:
        if len(cells) != len(header):
            message = f"this row has {len(cells)} cells, but the header has {len(header)}"
            hint = "leave unknown cells empty; put a cell that contains a comma in quotes"
            findings.append(_report(Span(path, line), message, hint))
            continue
        try:
            rows.append(_read_row(line, dict(zip(header, cells, strict=True)), schema))
        except ValueError as error:
            column, reason = error.args
            message, _, hint = reason.partition("; ")
            span = _find_cell(tree, path, line, column, header.index(column))
            findings.append(_report(span, message, hint))
    if findings:
        raise _BadDataError(*findings)
    columns = tuple(schema.columns[column] for column in header)
    return DataTable(name, path, schema.title or name, columns, tuple(rows))


def _find_cell(tree: Tree, path: str, line: int, name: str, index: int) -> Span:
    """The position of a cell: in CSV its `index` counts, in YAML its name."""
    typed = tree.read_line(Span(path, line))
    before, cell = rf"(?:[^,]*,){{{index}}}\s*\"?", r"[^,\"]+"
    if not path.endswith(".csv"):
        before, cell = rf".*\b{name}:\s*[\"']?", r"[^,}\"']+"
    if found := re.match(f"{before}({cell})", typed):
        return Span(path, line, found.start(1) + 1, len(found[1]))
    return Span(path, line)


_Rows = Iterable[tuple[int, list[str]]]
"""The line of each row, and its cells as typed."""


def _read_csv(tree: Tree, path: str) -> tuple[list[str], _Rows]:
    """The header and rows of a CSV file."""
    try:
        text = tree.read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _BadDataError(_report(*find_bad_byte(path, error), SAVE_AS_UTF8)) from None
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        rows = [(reader.line_num, row) for row in reader if row]
    except csv.Error as error:
        message = f"this is not CSV: {error}"
        hint = "put both quotes around a cell, and write a quote inside it twice"
        raise _BadDataError(_report(Span(path, reader.line_num), message, hint)) from None
    header = rows[0][1] if rows else []
    return header, rows[1:]


def _read_yaml(schema: _Schema) -> _Rows:
    """The rows of a schema."""
    for row in schema.rows or ():
        if unknown := [name for name in row if name not in schema.columns]:
            message = f"the column '{unknown[0]}' is not in the schema"
            hint = suggest(unknown[0], schema.columns)
            raise _BadDataError(_report(Span(schema.path, row.line), message, hint))
        yield row.line, [_to_text(row.get(name)) for name in schema.columns]


class _Lines(dict[str, Any]):
    """A YAML mapping with its line and those of its keys."""

    line: int
    lines: Mapping[str, int]


def _read_node(path: str, node: Node | None) -> Any:
    """The value of a YAML node, scalars as typed. Raises ConfigError for a repeated key."""
    if isinstance(node, MappingNode):
        found = _Lines()
        for key, value in node.value:
            name = str(key.value)
            if name in found:
                raise refuse(Span(path, key.start_mark.line + 1), f"the key '{name}' appears twice")
            found[name] = _read_node(path, value)
        found.line = node.start_mark.line + 1
        found.lines = {str(key.value): key.start_mark.line + 1 for key, _ in node.value}
        return found
    if isinstance(node, SequenceNode):
        return [_read_node(path, one) for one in node.value]
    if node is None or str(node.tag).endswith(":null"):
        return None
    if str(node.tag).endswith(":bool"):
        return "yes" if node.value.lower() == "true" else "no"
    return node.value.strip()


def _to_text(value: Any) -> str:
    return "" if value is None else str(value)


@lru_cache(maxsize=4096)
def _read_yaml_text(path: str, text: str) -> Any:
    return _read_node(path, read_nodes(path, text))


def _read_schema(tree: Tree, path: str) -> _Schema:
    try:
        data = _read_yaml_text(path, tree.read_bytes(path).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _BadDataError(_report(*find_bad_byte(path, error), SAVE_AS_UTF8)) from None
    except ConfigError as error:
        fault = error.findings[0]
        raise _BadDataError(_report(fault.span, fault.message, fault.help)) from None
    if not isinstance(data, _Lines) or not isinstance(data.get("columns"), _Lines):
        hint = "add `columns:` with the type of each column, such as `name: {type: text}`"
        raise _BadDataError(_report(Span(path, 1), "the schema has no 'columns'", hint))
    _check_keys(path, data, "the schema", _SCHEMA_KEYS)
    columns = {}
    for key, column in data["columns"].items():
        kind = column.get("type") if isinstance(column, Mapping) else None
        if kind not in _TYPES:
            message = f"the column '{key}' has no type"
            if kind:
                message = f"the column '{key}' has the unknown type '{kind}'"
            hint = suggest(str(kind), _TYPES, f"one of: {', '.join(_TYPES)}")
            raise _BadDataError(_report(Span(path, data["columns"].lines[key]), message, hint))
        _check_keys(path, column, f"the column '{key}'", _COLUMN_KEYS)
        unit, description = (_to_text(column.get(name)) for name in ("unit", "description"))
        columns[key] = DataColumn(key, kind, unit, description)
    rows = data.get("rows")
    if rows is not None and not (
        isinstance(rows, list) and all(isinstance(row, Mapping) for row in rows)
    ):
        message = "'rows' must be a list of mappings from columns to cells"
        hint = "write one row per line, such as `- {name: first, seconds: 1.5}`"
        raise _BadDataError(_report(Span(path, data.lines["rows"]), message, hint))
    citation = _read_defaults(path, data)
    return _Schema(path, _to_text(data.get("title")), columns, citation, rows)


def _read_defaults(path: str, data: _Lines) -> Mapping[str, str]:
    """The citation of the whole table, checked as that of a row is."""
    citation, findings = {}, []
    for key in filter(data.__contains__, CITED):
        text = _to_text(data[key])
        try:
            _read_cell(key, text, _CITED_TYPES.get(key, "text"))
            if isinstance(data[key], list | Mapping):
                raise ValueError("it must be one text; write a string, not a list or mapping")
        except ValueError as error:
            message, _, hint = f"'{key}': {error}".partition("; ")
            findings.append(_report(Span(path, data.lines[key]), message, hint))
        citation[key] = text
    if findings:
        raise _BadDataError(*findings)
    return citation


def _check_keys(path: str, mapping: Any, what: str, keys: Sequence[str]) -> None:
    for key in mapping:
        if key not in keys:
            hint = suggest(str(key), keys, f"keys: {', '.join(keys)}")
            hint += "" if mapping[key] else "; put text with a comma in quotes"
            span = Span(path, mapping.lines[key])
            raise _BadDataError(_report(span, f"{what} has no '{key}'", hint))


def _check_header(path: str, header: Sequence[str], schema: _Schema) -> Iterator[Finding]:
    for name in header:
        if name not in schema.columns:
            hint = suggest(name, schema.columns, f"describe it in '{schema.path}'")
            yield _report(Span(path, 1), f"the column '{name}' is not in the schema", hint)
        elif not IDENTIFIER.fullmatch(name):
            hint = "use only lower-case letters, digits and _"
            yield _report(Span(path, 1), f"'{name}' is not a valid column name", hint)
    for name in NEEDED:
        if name not in header and name not in schema.citation:
            message = f"the column '{name}' is missing: a figure needs source, date and class"
            hint = f"add it, or set `{name}:` for the whole table in '{schema.path}'"
            yield _report(Span(path, 1), message, hint)
    if len(set(header)) != len(header):
        yield _report(Span(path, 1), "a column is repeated", "rename or remove one of them")


def _read_row(line: int, typed: Mapping[str, str], schema: _Schema) -> DataRow:
    """A row from its texts by column. Raises ValueError with a column and what is wrong there."""
    texts = {name: text.strip() for name, text in typed.items()}
    kinds = {name: schema.columns[name].kind for name in texts}
    values = {}
    for name, text in texts.items():
        try:
            values[name] = _read_cell(name, text, kinds[name])
        except ValueError as error:
            raise ValueError(name, f"'{name}': {error}") from None
    whole = _cite(texts, "", Citation(), schema.citation)
    cited = {name.rpartition("_")[0] for name in texts if name.rpartition("_")[2] in CITED}
    each = {name: _cite(texts, f"{name}_", whole, {}) for name in texts if name in cited}
    each = {name: citation for name, citation in each.items() if citation != whole}
    numbers = {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and kinds[name] in ("number", "integer")
    }
    formulas = _read_formulas(texts, numbers)
    for name in numbers:
        if each.get(name, whole).number_class == "derived" and name not in formulas:
            hint = f"write `{name} = EXPRESSION` into a column '{FORMULA}'"
            raise ValueError(name, f"'{name}' is derived but has no formula; {hint}")
    return DataRow(line, tuple(values.values()), whole, each, formulas)


def _read_formulas(texts: Mapping[str, str], numbers: Mapping[str, float]) -> Mapping[str, str]:
    """The formulas of a row's derived figures, checked against their cells."""
    formulas: dict[str, str] = {}
    for part in filter(str.strip, texts.get(FORMULA, "").split(";")):
        name, equals, expression = (word.strip() for word in part.partition("="))
        if not equals or name not in texts:
            message = f"'{FORMULA}': '{part.strip()}' names no column in this row"
            raise ValueError(FORMULA, f"{message}; write `COLUMN = EXPRESSION`")
        formulas[name] = expression
        try:
            value = evaluate(expression, {n: v for n, v in numbers.items() if n != name})
        except NoArithmeticError as error:
            raise ValueError(FORMULA, f"'{FORMULA}': {error}") from None
        if name not in numbers or not agrees(texts[name], value):
            typed = texts[name] or "empty"
            message = f"'{name}' is {typed}, but `{expression}` gives {value:.10g}"
            raise ValueError(name, message)
    return formulas


def _cite(
    texts: Mapping[str, str], prefix: str, base: Citation, defaults: Mapping[str, str]
) -> Citation:
    """A citation from cells with a prefix, then the defaults, then `base`."""

    def read(key: str, otherwise: str) -> str:
        return texts.get(f"{prefix}{key}", "") or defaults.get(key, "") or otherwise

    return Citation(
        read("source", base.source),
        read("date", base.date),
        read("class", base.number_class),
        read("unconfirmed", "yes" if base.unconfirmed else "no") == "yes",
        read("via", base.via),
    )


def _read_cell(name: str, text: str, kind: str) -> Cell:
    if name in NEEDED and not text:
        raise ValueError("it is empty; every figure needs a source, a date and a class")
    if not text:
        return None
    if (name == "class" or name.endswith("_class")) and text not in CLASSES:
        if text == "measured":
            hint = f"record a run with `bindery run`, or use one of: {', '.join(CLASSES)}"
            raise ValueError(f"measured values come from records, not from data; {hint}")
        raise ValueError(f"'{text}' is not a class; one of: {', '.join(CLASSES)}")
    if name == "source" and not re.search(r"[^\W\d_]", text):
        raise ValueError(f"'{text}' is not a source; name the page or the document")
    match kind:
        case "number" | "integer":
            if not _NUMBER.fullmatch(text):  # float() also accepts nan, infinity and 1_000
                hint = "write digits such as 1.5, without a unit; leave it empty if it is unknown"
                raise ValueError(f"'{text}' is not a number; {hint}")
            value: int | float = int(text) if _DIGITS.fullmatch(text) else float(text)
            if not math.isfinite(value):
                raise ValueError(f"'{text}' is too large; use a larger unit")
            is_whole = isinstance(value, float) and value.is_integer() and abs(value) < 2**63
            if is_whole and (kind == "integer" or "." not in text):
                value = int(value)
            if kind == "integer" and isinstance(value, float):
                hint = "round it, or give the column the type `number`"
                raise ValueError(f"'{text}' is not an integer; {hint}")
            if isinstance(value, int) and not -(2**63) <= value < 2**63:
                raise ValueError(f"'{text}' has more than 64 bits; write a number such as 1.5e20")
            return value
        case "date":
            try:
                date.fromisoformat(text)
            except ValueError:
                raise ValueError(f"'{text}' is not a date; write it like 2026-11-20") from None
        case "url" if not re.match(r"https?://\S+$", text):
            raise ValueError(f"'{text}' is not a web address; write it in full, with https://")
        case "place" if re.match(r"[a-z]+:|[/#.]", text) or not re.fullmatch(r"\S+", text):
            hint = "write it like network/README.md#latency"
            raise ValueError(f"'{text}' is not a path in the chapters' folder; {hint}")
        case "boolean":
            if text not in ("yes", "no"):
                raise ValueError(f"'{text}' is not a boolean; write yes or no")
            return int(text == "yes")
        case _:
            pass
    return text
