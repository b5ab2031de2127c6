"""Results of records as tables: those of one run, and the values of several runs side by side."""

from __future__ import annotations

import math
import posixpath
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from markupsafe import Markup

from bindery.core.wording import Wording
from bindery.evidence.tables import UNKNOWN, Cell, Column, format_cell
from bindery.render.text.decimals import find_pads
from bindery.render.text.markup import escape_attribute, escape_text

if TYPE_CHECKING:
    from bindery.evidence.compare.declaration import Terms
    from bindery.evidence.compare.judge import Reference
    from bindery.evidence.records import Record, Scalar

_MOST_ROWS = 60
"""Rows of an example on a page; the file to download has the rest."""
_MOST_RECORDS = 6
"""Columns of the table of values."""
_NUMBER = re.compile(r"-?\d[\d.]*(e[+-]?\d+)?")
_PREFIXES = ("p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E")
_SCALED = frozenset(("s", "B", "B/s", "FLOP", "FLOP/s", "Hz", "W", "J"))
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def write_example(record: Record, words: Wording) -> Markup:
    """The results of a record as a table."""
    if not record.results:
        return Markup(f"<p>{words('This run produced no table.')}</p>")
    keys = list(dict.fromkeys(key for row in record.results for key in row))
    rows = record.results[:_MOST_ROWS]
    same = {
        key: rows[0][key]
        for key in keys
        if len(rows) > 1 and key in rows[0]
        and all(key in row and _is_same(row[key], rows[0][key]) for row in rows)
    }  # fmt: skip
    columns: list[tuple[str, list[Cell], Column]] = []
    for key in keys:
        if key not in same:
            values = [row.get(key) for row in rows]
            columns.append((key, *_scale_column(key, values, record.units.get(key, ""))))
    out = []
    if same:
        shown = []
        for key, value in same.items():
            (cell,), column = _scale_column(key, [value], record.units.get(key, ""))
            unit = f" {column.unit}" if column.unit else ""
            shown.append(f"{_name_column(key)} {_show_cell(cell, column)}{unit}")
        told = words("Same in all rows: {values}.", values=escape_text("; ".join(shown)))
        out.append(f"<p>{told}</p>")
    if columns:
        heads = [column for _, _, column in columns]
        body = list(zip(*(cells for _, cells, _ in columns), strict=True))
        out.append(write_table(heads, body, words("Results of a run of {tool}", tool=record.tool)))
    if len(record.results) > len(rows):
        told = words("The first {n} of {all} rows.", n=len(rows), all=len(record.results))
        out.append(f"<p>{told}</p>")
    return Markup("\n".join(out))


def _is_same(left: Scalar, right: Scalar) -> bool:
    return isinstance(left, bool) == isinstance(right, bool) and left == right


def _name_column(key: str) -> str:
    return key.replace("_", " ")


def _show_cell(cell: Cell, column: Column) -> str:
    return format_cell(cell, column).replace("\\|", "|")


def _scale_column(key: str, values: Sequence[Scalar], unit: str) -> tuple[list[Cell], Column]:
    """The cells of a column and its heading; base units get the prefix that suits most of the
    numbers."""
    numbers = [float(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    plain: list[Cell] = [("no", "yes")[v] if isinstance(v, bool) else v for v in values]
    name = _name_column(key)
    shown = "" if unit == "1" else unit
    if not numbers or any(isinstance(v, str) for v in plain):
        return [None if v is None else str(v) for v in plain], Column(key, name)
    is_whole = all(number.is_integer() for number in numbers)
    sizes = [abs(number) for number in numbers if number]
    middle = statistics.median(sizes) if sizes else 0.0
    factor, prefix = 1.0, ""
    if unit == "B" and is_whole and sizes and all(size % 1024 == 0 for size in sizes):
        power = min(int(math.log2(min(sizes)) // 10), len(_BINARY) - 1)
        factor, prefix = 1024.0**power, _BINARY[power]
    elif unit in _SCALED and middle:
        least = _PREFIXES.index("") if unit in ("B", "FLOP") else 0
        power = math.floor(math.log10(middle) / 3 + 1e-9)
        power = max(least - 4, min(power, len(_PREFIXES) - 5))
        factor, prefix = 1000.0**power, _PREFIXES[power + 4]
    scaled = [v / factor if isinstance(v, int | float) and v is not None else v for v in plain]
    if all(not isinstance(v, float) or v.is_integer() for v in scaled):
        return [int(v) if isinstance(v, float) else v for v in scaled], Column(
            key, name, prefix + shown
        )
    digits = max(0, min(9, 3 - math.floor(math.log10(middle / factor)))) if middle else 0
    return list(scaled), Column(key, name, prefix + shown, digits)


def write_table(columns: Sequence[Column], rows: Iterable[Sequence[Cell]], label: str) -> str:
    """A table in the XHTML of the site: numbers to the right, decimal points below each other."""
    body = [[_show_cell(c, k) for c, k in zip(row, columns, strict=True)] for row in rows]
    cells = [[column.title for column in columns], *body]
    right = {
        index
        for index in range(len(columns))
        if body and all(row[index] == UNKNOWN or _NUMBER.fullmatch(row[index]) for row in body)
    }
    pads = find_pads(cells, right)
    out = [
        f'<div class="table" role="region" tabindex="0" aria-label="{escape_attribute(label)}">',
        "<table><thead><tr>",
    ]
    for index, text in enumerate(cells[0]):
        side = ' class="right"' if index in right else ""
        out.append(f'<th{side} scope="col">{escape_text(text)}</th>\n')
    out.append("</tr></thead><tbody>")
    for number, row in enumerate(body, 1):
        out.append("<tr>")
        for index, text in enumerate(row):
            side = ' class="right"' if index in right else ""
            pad = f' data-pad="{pads[number, index]}"' if (number, index) in pads else ""
            out.append(f"<td{side}{pad}>{escape_text(text)}</td>")
        out.append("</tr>")
    out.append("</tbody></table></div>")
    return "".join(out)


def write_values(
    references: Sequence[Reference], terms: Terms, units: Mapping[str, str], words: Wording
) -> Markup:
    """The values of the newest records, a column for each, a row for each key."""
    from bindery.evidence.compare.judge import show_scalar

    shown = references[:_MOST_RECORDS]
    keys = list(dict.fromkeys(key for reference in shown for key in reference.rows))[:_MOST_ROWS]
    if not keys:
        return Markup()
    fixed = [i for i in range(len(terms.keys)) if len({key[i] for key in keys}) == 1 < len(keys)]
    varied = [i for i in range(len(terms.keys)) if i not in fixed]
    columns: list[Column] = []
    cells: list[list[Cell]] = []
    for index in varied:
        values = [key[index][1] for key in keys]
        scaled, column = _scale_column(terms.keys[index], values, units.get(terms.keys[index], ""))
        columns.append(column)
        cells.append(scaled)
    every: list[Scalar] = [
        recorded.value if (recorded := reference.rows.get(key)) else None
        for reference in shown
        for key in keys
    ]
    scaled, column = _scale_column(terms.value, every, units.get(terms.value, ""))
    for number, reference in enumerate(shown):
        day, name = reference.started[:10], posixpath.basename(reference.name)
        columns.append(Column(name, f"{day} {name}", column.unit, column.digits))
        cells.append(scaled[number * len(keys) : (number + 1) * len(keys)])
    better = words("higher is better") if terms.higher_is_better else words("lower is better")
    said = f"<p><code>{escape_text(terms.value)}</code>; {better}."
    if fixed:
        same = ", ".join(f"{terms.keys[i]} {show_scalar(keys[0][i][1])}" for i in fixed)
        said += " " + words("Same in all rows: {values}.", values=escape_text(same))
    rows = list(zip(*cells, strict=True))
    return Markup(
        f"{said}</p>\n" + write_table(columns, rows, words("{value} by record", value=terms.value))
    )
