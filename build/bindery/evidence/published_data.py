"""Published figures: the tables of the `data` folder, with a source for each number.

A table is `NAME.csv` with its schema in `NAME.yaml`, or `NAME.yaml` alone with `rows` in it.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from bindery.core.model import Finding, Span
from bindery.core.repository import Tree
from bindery.core.suggestions import find_nearest
from bindery.evidence.data_formulas import NoArithmeticError, agrees, evaluate
from bindery.evidence.tables import Cell

CLASSES = ("vendor", "reported", "derived", "assumed")
CITED = ("source", "date", "class", "unconfirmed", "via")
"""Facts about every figure: in columns of these names, for the whole table in its schema, or for
one column as `COLUMN_source`."""
NEEDED = ("source", "date", "class")
FORMULA = "formula"
IDENTIFIER = re.compile(r"[a-z][a-z0-9_]*")

_TYPES = ("text", "number", "integer", "date", "url", "boolean", "place")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DIGITS = re.compile(r"[+-]?\d+", re.ASCII)
_TYPES_ELSEWHERE = {"string": "text", "str": "text", "float": "number", "int": "integer"}
_SCHEMA_KEYS = ("title", "description", "columns", "rows", *CITED)
_COLUMN_KEYS = ("type", "unit", "description")


@dataclass(frozen=True, slots=True)
class Citation:
    """The source, date and class of a figure."""

    source: str = ""
    date: str = ""
    number_class: str = ""
    unconfirmed: bool = False
    via: str = ""


@dataclass(frozen=True, slots=True)
class DataColumn:
    name: str
    kind: str
    unit: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class DataRow:
    """One row and its line in the file."""

    line: int
    cells: tuple[Cell, ...]
    citation: Citation
    cell_citations: Mapping[str, Citation] = field(default_factory=dict)
    formulas: Mapping[str, str] = field(default_factory=dict)
    """The formulas of derived cells, by column."""


@dataclass(frozen=True, slots=True)
class DataTable:
    name: str
    path: str
    title: str
    columns: tuple[DataColumn, ...]
    rows: tuple[DataRow, ...]

    def cite(self, row: int, column: str) -> Citation:
        """The citation of one figure; rows are counted from 0."""
        entry = self.rows[row]
        return entry.cell_citations.get(column, entry.citation)


@dataclass(frozen=True, slots=True)
class _Schema:
    title: str
    columns: Mapping[str, DataColumn]
    citation: Mapping[str, str]
    rows: tuple[tuple[int, Mapping[str, Any]], ...] | None


def load_data(tree: Tree, folder: str) -> Iterator[DataTable | tuple[str, list[Finding]]]:
    """Each table of the folder, or its name with what keeps it out."""
    paths = list(tree.walk_files(folder))
    seen: dict[str, str] = {}
    for path in paths:
        stem, _, ending = path.rpartition(".")
        name = stem.rpartition("/")[2]
        result: DataTable | list[Finding]
        if ending not in ("csv", "yaml") or (ending == "yaml" and f"{stem}.csv" in paths):
            continue
        if name in seen:
            message = f"there is a table '{name}' already: '{seen[name]}'"
            result = [Finding(Span.whole(path), "bad-data", message, "rename one of them")]
        elif not IDENTIFIER.fullmatch(name):
            message = f"'{name}' cannot be the name of a table"
            hint = "small letters, digits and _ only"
            result = [Finding(Span.whole(path), "bad-data", message, hint)]
        elif ending == "csv":
            result = _load_csv(tree, name, path)
        else:
            result = _load_yaml(tree, name, path)
        seen.setdefault(name, path)
        yield result if isinstance(result, DataTable) else (name, result)


def _load_csv(tree: Tree, name: str, path: str) -> DataTable | list[Finding]:
    schema_path = path.removesuffix(".csv") + ".yaml"
    if tree.find_kind(schema_path) != "file":
        message = f"the data has no schema '{schema_path}'"
        hint = "give title, and under columns a type and a description for each"
        return [Finding(Span.whole(path), "bad-data", message, hint)]
    schema = _read_schema(tree, schema_path)
    if isinstance(schema, Finding):
        return [schema]
    if schema.rows is not None:
        message = f"the rows are in '{path}' and in its schema"
        return [Finding(Span.whole(schema_path), "bad-data", message, "keep one of the two")]
    try:
        text = tree.read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        return [Finding(Span(path, line), "bad-data", "this is not UTF-8")]
    lines = text.splitlines()
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        findings = _check_header(path, header, schema, schema_path)
        if findings:
            return findings
        builder = _RowReader(path, header, schema)
        for row in reader:
            if row:
                number = reader.line_num
                builder.read_csv_row(number, lines[number - 1 : number], row)
    except csv.Error as error:
        return [Finding(Span(path, reader.line_num), "bad-data", f"this is not CSV: {error}")]
    return builder.finish(name)


def _load_yaml(tree: Tree, name: str, path: str) -> DataTable | list[Finding]:
    schema = _read_schema(tree, path)
    if isinstance(schema, Finding):
        return [schema]
    if schema.rows is None:
        message = f"the schema has neither 'rows' nor a file '{name}.csv' beside it"
        return [Finding(Span.whole(path), "bad-data", message)]
    header = list(schema.columns)
    findings = _check_header(path, header, schema, path)
    if findings:
        return findings
    builder = _RowReader(path, header, schema)
    for line, row in schema.rows:
        builder.read_yaml_row(line, row)
    return builder.finish(name)


def _read_schema(tree: Tree, path: str) -> _Schema | Finding:
    try:
        text = tree.read_bytes(path).decode("utf-8")
        # The round-trip loader keeps the lines of mappings, and reads numbers as they are typed.
        data = YAML(typ="rt", pure=True).load(text)
    except (YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = mark.line + 1 if mark else 1
        return Finding(Span(path, line), "bad-data", "this schema is not YAML")
    if not isinstance(data, Mapping) or not isinstance(data.get("columns"), Mapping):
        return Finding(Span(path, 1), "bad-data", "the schema has no 'columns'")
    for key in data:
        if key not in _SCHEMA_KEYS:
            return _refuse_key(path, data, str(key), "the schema", _SCHEMA_KEYS)
    columns = {}
    for key, column in data["columns"].items():
        read = _read_column(path, data["columns"], str(key), column)
        if isinstance(read, Finding):
            return read
        columns[read.name] = read
    rows = None
    if (listed := data.get("rows")) is not None:
        if not isinstance(listed, Sequence) or not all(isinstance(r, Mapping) for r in listed):
            message = "'rows' should be a list of mappings from columns to cells"
            return Finding(Span(path, _line_of(data, "rows")), "bad-data", message)
        rows = tuple((row.lc.line + 1, row) for row in listed)
    citation = {key: _to_text(data[key]) for key in CITED if data.get(key) is not None}
    return _Schema(_to_text(data.get("title")), columns, citation, rows)


def _read_column(path: str, columns: Any, key: str, column: Any) -> DataColumn | Finding:
    kind = column.get("type") if isinstance(column, Mapping) else None
    if kind not in _TYPES:
        message = f"the column '{key}' has no type"
        if kind:
            message = f"the column '{key}' has the type '{kind}', which is not known"
        nearest = _TYPES_ELSEWHERE.get(str(kind), "") or find_nearest(str(kind), _TYPES)
        hint = f"did you mean '{nearest}'?" if nearest else f"one of: {', '.join(_TYPES)}"
        return Finding(Span(path, _line_of(columns, key)), "bad-data", message, hint)
    for name in column:
        if name not in _COLUMN_KEYS:
            return _refuse_key(path, column, str(name), f"the column '{key}'", _COLUMN_KEYS)
    return DataColumn(
        key, str(kind), _to_text(column.get("unit")), _to_text(column.get("description"))
    )


def _refuse_key(path: str, mapping: Any, key: str, what: str, keys: Sequence[str]) -> Finding:
    nearest = find_nearest(key, keys)
    hint = f"did you mean '{nearest}'?" if nearest else f"keys: {', '.join(keys)}"
    return Finding(Span(path, _line_of(mapping, key)), "bad-data", f"{what} has no '{key}'", hint)


def _line_of(mapping: Any, key: str) -> int:
    """The line of a key of a mapping."""
    try:
        return int(mapping.lc.key(key)[0]) + 1
    except (AttributeError, KeyError, TypeError):
        return 1


def _to_text(value: Any) -> str:
    """A YAML scalar as you would type it in CSV."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value).strip()


def _check_header(
    path: str, header: Sequence[str], schema: _Schema, schema_path: str
) -> list[Finding]:
    findings = []
    for name in header:
        if name not in schema.columns:
            nearest = find_nearest(name, schema.columns)
            hint = f"did you mean '{nearest}'?" if nearest else f"describe it in '{schema_path}'"
            message = f"the column '{name}' is not in the schema"
            findings.append(Finding(Span(path, 1), "bad-data", message, hint))
        elif not IDENTIFIER.fullmatch(name):
            message = f"'{name}' cannot be the name of a column"
            findings.append(Finding(Span(path, 1), "bad-data", message))
    for name in NEEDED:
        if name not in header and name not in schema.citation:
            message = f"the column '{name}' is missing: every figure says where it is from"
            hint = f"add it, or `{name}:` for the whole table to '{schema_path}'"
            findings.append(Finding(Span(path, 1), "bad-data", message, hint))
    if len(set(header)) != len(header):
        findings.append(Finding(Span(path, 1), "bad-data", "a column is repeated"))
    return findings


class _RowReader:
    """Reads the rows of one table and collects what is wrong with them."""

    def __init__(self, path: str, header: Sequence[str], schema: _Schema) -> None:
        self.path = path
        self.header = header
        self.schema = schema
        self.rows: list[DataRow] = []
        self.findings: list[Finding] = []

    def finish(self, name: str) -> DataTable | list[Finding]:
        if self.findings:
            return self.findings
        columns = tuple(self.schema.columns[column] for column in self.header)
        return DataTable(name, self.path, self.schema.title or name, columns, tuple(self.rows))

    def read_csv_row(self, line: int, source: Sequence[str], row: Sequence[str]) -> None:
        if len(row) != len(self.header):
            message = f"this row has {len(row)} cells, the header {len(self.header)}"
            self.findings.append(Finding(Span(self.path, line), "bad-data", message))
            return
        spans = []
        start = 0
        for text in row:
            found = source[0].find(text, start) if source else -1
            start = found + len(text) if found >= 0 else start
            spans.append(Span(self.path, line, max(found, 0) + 1, max(len(text), 1)))
        self._add(line, dict(zip(self.header, row, strict=True)), spans)

    def read_yaml_row(self, line: int, row: Mapping[str, Any]) -> None:
        unknown = [str(key) for key in row if key not in self.schema.columns]
        if unknown:
            message = f"the column '{unknown[0]}' is not in the schema"
            nearest = find_nearest(unknown[0], self.schema.columns)
            hint = f"did you mean '{nearest}'?" if nearest else ""
            span = Span(self.path, _line_of(row, unknown[0]))
            self.findings.append(Finding(span, "bad-data", message, hint))
            return
        texts: dict[str, str] = {}
        spans = []
        for name in self.header:
            value = row.get(name)
            spans.append(Span(self.path, _line_of(row, name) if name in row else line))
            if isinstance(value, Mapping):  # a cell with its own source
                texts |= {f"{name}_{key}": _to_text(value[key]) for key in CITED if key in value}
                if FORMULA in value:
                    texts[f"{name}_{FORMULA}"] = _to_text(value[FORMULA])
                odd = next((str(k) for k in value if k not in ("value", FORMULA, *CITED)), "")
                if odd or "value" not in value:
                    message = f"'{name}': a cell has 'value' and perhaps {', '.join(CITED)}"
                    self.findings.append(Finding(spans[-1], "bad-data", message))
                value = value.get("value")
            texts[name] = _to_text(value)
        self._add(line, texts, spans)

    def _add(self, line: int, texts: Mapping[str, str], spans: Sequence[Span]) -> None:
        cells: list[Cell] = []
        for name, span in zip(self.header, spans, strict=True):
            try:
                cells.append(_read_cell(name, texts[name].strip(), self.schema.columns[name].kind))
            except ValueError as error:
                self.findings.append(Finding(span, "bad-data", f"'{name}': {error}"))
                cells.append(None)
        if self.findings:
            return
        whole = _cite(texts, "", Citation(), self.schema.citation)
        each = {}
        for name in self.header:
            citation = _cite(texts, f"{name}_", whole, {})
            if citation != whole:
                each[name] = citation
        row = DataRow(line, tuple(cells), whole, each)
        formulas = self._read_formulas(row, texts, spans)
        self.rows.append(replace(row, formulas=formulas))

    def _read_formulas(
        self, row: DataRow, texts: Mapping[str, str], spans: Sequence[Span]
    ) -> Mapping[str, str]:
        """The formulas of a row's derived figures, evaluated and compared with their cells."""
        typed = dict(zip(self.header, row.cells, strict=True))
        names = {
            name: float(cell) if isinstance(cell, int | float) else None
            for name, cell in typed.items()
        }
        place = dict(zip(self.header, spans, strict=True))
        here = place.get(FORMULA, Span(self.path, row.line))
        formulas = {
            name: texts[f"{name}_{FORMULA}"]
            for name in self.header
            if texts.get(f"{name}_{FORMULA}")
        }
        for part in filter(str.strip, texts.get(FORMULA, "").split(";")):
            name, equals, expression = (text.strip() for text in part.partition("="))
            if not equals or name not in typed:
                message = f"'{FORMULA}': '{part.strip()}' names no column of this row"
                self.findings.append(
                    Finding(here, "bad-data", message, "write `COLUMN = EXPRESSION`")
                )
                continue
            formulas[name] = expression
        for name, expression in formulas.items():
            try:
                value = evaluate(expression, {k: v for k, v in names.items() if k != name})
            except NoArithmeticError as error:
                self.findings.append(Finding(here, "bad-data", f"'{FORMULA}': {error}"))
                continue
            if names[name] is None or not agrees(texts[name].strip(), value):
                message = f"'{name}' is {texts[name].strip() or 'empty'}, and `{expression}` gives"
                self.findings.append(Finding(place[name], "bad-data", f"{message} {value:.10g}"))
        for column in (self.schema.columns[name] for name in self.header):
            is_derived = (
                row.cell_citations.get(column.name, row.citation).number_class == "derived"
                and column.kind in ("number", "integer")
                and typed[column.name] is not None
            )
            if is_derived and column.name not in formulas:
                message = f"'{column.name}' is derived, and nothing says how"
                hint = f"write `{column.name} = EXPRESSION` into a column '{FORMULA}'"
                self.findings.append(Finding(place[column.name], "bad-data", message, hint))
        return formulas


def _cite(
    texts: Mapping[str, str], prefix: str, base: Citation, defaults: Mapping[str, str]
) -> Citation:
    """A citation from the cells under a prefix, then from the defaults, then from `base`."""

    def read(key: str, otherwise: str) -> str:
        return texts.get(f"{prefix}{key}", "").strip() or defaults.get(key, "") or otherwise

    return Citation(
        read("source", base.source),
        read("date", base.date),
        read("class", base.number_class),
        read("unconfirmed", "yes" if base.unconfirmed else "no") == "yes",
        read("via", base.via),
    )


def _read_cell(name: str, text: str, kind: str) -> Cell:
    if name in NEEDED and not text:
        raise ValueError("it is empty, and every figure says where it is from")
    if not text:
        return None
    if (name == "class" or name.endswith("_class")) and text not in CLASSES:
        if text == "measured":
            raise ValueError("what was measured comes from a record, not from data")
        nearest = find_nearest(text, CLASSES)
        raise ValueError(f"'{text}' is not a class; {nearest or ', '.join(CLASSES)}?")
    match kind:
        case "number" | "integer":
            if not _NUMBER.fullmatch(text):  # float() also takes nan, infinity and 1_000
                raise ValueError(f"'{text}' is not a number")
            number = float(text)
            if math.isinf(number):
                raise ValueError(f"'{text}' is larger than any number that can be worked with")
            if _DIGITS.fullmatch(text):
                whole = int(text)
            elif number.is_integer() and (kind == "integer" or "." not in text):
                whole = int(number)
            elif kind == "integer":
                raise ValueError(f"'{text}' is not a whole number")
            else:
                return number
            if -(2**63) <= whole < 2**63:
                return whole
            if kind == "number" and not _DIGITS.fullmatch(text):
                return number
            raise ValueError(f"'{text}' has more than 64 bits; write a number such as 1.5e20")
        case "date":
            try:
                date.fromisoformat(text)
            except ValueError:
                raise ValueError(f"'{text}' is not a date such as 2026-11-20") from None
        case "url" if not re.match(r"https?://\S+$", text):
            raise ValueError(f"'{text}' is not a web address")
        case "place" if re.match(r"[a-z]+:|[/#.]", text) or not re.fullmatch(r"\S+", text):
            raise ValueError(f"'{text}' is not a path from the folder of the chapters")
        case "boolean":
            if text not in ("yes", "no"):
                raise ValueError(f"'{text}' is neither yes nor no")
            return int(text == "yes")
        case _:
            pass
    return text
