"""Plots of views: the header of the view, the points, the words, and the image file.

The stamp of a drawing is computed from the plot and its table alone, so a file can be checked
without drawing it again. How a plot looks is in `svg`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, get_args
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import astuple

from bindery.core.control_characters import show_controls
from bindery.core.report import count_noun
from bindery.core.suggestions import suggest
from bindery.evidence.tables import Cell, Column, Table, format_cell

STYLE = 1
"""Version of the drawing style; raising it makes every drawing stale."""
MAX_SERIES = 8

Kind = Literal["bar", "line", "scatter"]
Fault = tuple[int, str, str]
"""Line of the header, what is wrong with it, and what to do."""

_KINDS: tuple[Kind, ...] = get_args(Kind)
_KEYS = ("", "x", "y", "by", "log")
_LINE = re.compile(r"--\s*plot(?:\s+(?P<key>[^:]*?))?\s*:(?P<rest>.*)")


class Plot(Struct, frozen=True):
    """The plot that the header of a view declares; columns are named by their keys."""

    kind: Kind
    x: str
    """Names of the bars, or the numbers along the horizontal axis."""
    y: tuple[str, ...]
    by: str = ""
    """A text column: one series per value."""
    log: frozenset[str] = frozenset()
    """The axes, `x` and `y`, that are logarithmic."""
    line: int = 1
    """The first line of its declaration."""


def parse_plot(lines: Iterable[tuple[int, str]], columns: Sequence[Column]) -> Plot | Fault | None:
    """The plot that a view declares, None if it declares none, or the first error in its
    header. `lines` are the numbered `-- plot` lines, `columns` those that the header names."""
    entries: dict[str, tuple[int, str]] = {}
    for number, line in lines:
        match = _LINE.match(line)
        if match is None:
            return number, "this line of a plot cannot be read", "write `-- plot KEY: VALUE`"
        key = match["key"] or ""
        if key not in _KEYS:
            hint = suggest(key, _KEYS, f"use {_list_words(_KEYS[1:])}")
            return number, f"a plot has no key '{key}'", hint
        entries[key] = number, match["rest"].strip()
    if not entries:
        return None
    return _read_plot(entries, {column.key: column for column in columns})


def _read_plot(
    entries: Mapping[str, tuple[int, str]], columns: Mapping[str, Column]
) -> Plot | Fault:
    first = min(number for number, _ in entries.values())

    def split(key: str) -> tuple[str, ...]:
        _, text = entries.get(key, (0, ""))
        return tuple(filter(None, (word.strip() for word in text.split(","))))

    def refuse(key: str, message: str, hint: str) -> Fault:
        """The fault, at the line of this key or at the first line."""
        number, _ = entries.get(key, (first, ""))
        return number, message, hint

    word, x, by = (entries.get(key, (0, ""))[1] for key in ("", "x", "by"))
    y, log = split("y"), frozenset(split("log"))
    kind = next((kind for kind in _KINDS if kind == word), None)
    if kind is None:
        message = f"there is no plot '{word}'" if word else "the plot has no kind"
        return refuse("", message, f"write `-- plot: KIND`, one of {', '.join(_KINDS)}")
    for key, need in (("x", "a column"), ("y", "one column or several")):
        if not split(key):
            return refuse(key, f"the plot has no '{key}'", f"write `-- plot {key}: ` and {need}")
    for key, names in (("x", (x,)), ("y", y), ("by", (by,))):
        for name in filter(None, names):
            if name not in columns:
                hint = suggest(name, columns, f"use {_list_words(columns)}")
                return refuse(key, f"the view has no column '{name}'", hint)
    units = list(dict.fromkeys(columns[key].unit for key in y))
    if len(units) > 1:
        one, other = (f"'{unit}'" if unit else "no unit" for unit in units[:2])
        message = f"one axis cannot show both {one} and {other}"
        return refuse("y", message, "name columns of one unit, or make two plots")
    if by and len(y) > 1:
        message = "series are either several columns or the values of one column"
        return refuse("by", message, "name one column as y, or leave out 'by'")
    if axes := log - {"x", "y"}:
        message = f"there is no axis '{min(axes)}'"
        return refuse("log", message, "write `-- plot log: x`, `y` or `x, y`")
    if kind == "bar" and log:
        message = "bars start at zero, which a logarithmic axis does not have"
        return refuse("log", message, "use line or scatter, or leave out 'log'")
    return Plot(kind, x, y, by, log, first)


def _list_words(words: Iterable[str]) -> str:
    *others, last = (f"'{word}'" for word in words)
    return f"{', '.join(others)} or {last}" if others else last


class Point(Struct, frozen=True):
    """One value: its number along the horizontal axis, or that of its bar from the top."""

    x: float
    y: float
    place: str
    """The name of its bar, or its heading and number along the horizontal axis."""
    text: str
    """The value as the table writes it, without its unit."""


class Series(Struct, frozen=True):
    name: str
    points: tuple[Point, ...]


class Figure(Struct, frozen=True):
    """What a plot shows of a table."""

    plot: Plot
    table: Table
    series: tuple[Series, ...]
    bars: tuple[str, ...]
    """Names of the bars, from the top."""
    unknown: int
    """Values that are NULL, or have no place, and are not shown."""

    @property
    def title(self) -> str:
        return _read_words(self.table.title, Column("", ""))

    @property
    def points(self) -> tuple[Point, ...]:
        return tuple(point for series in self.series for point in series.points)

    @property
    def x_column(self) -> Column:
        return _find_column(self.table, self.plot.x)

    @property
    def unit(self) -> str:
        return _find_column(self.table, self.plot.y[0]).unit

    @property
    def y_title(self) -> str:
        """The unit of the vertical axis, or of the bars."""
        headings = _list_plainly(_find_column(self.table, k).heading for k in self.plot.y)
        return f"{headings}, {self.unit}" if self.unit else headings


class PlotError(Exception):
    """The table cannot be drawn: what is wrong, and what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


def find_plot_fault(plot: Plot, table: Table) -> tuple[str, str] | None:
    """Why the table cannot be drawn, and what to do; None if it can."""
    try:
        read_figure(plot, table)
    except PlotError as error:
        return error.message, error.hint
    return None


def read_figure(plot: Plot, table: Table) -> Figure:
    """What a plot shows of a table. Raises PlotError if it cannot be shown."""
    if not table.rows:
        raise PlotError("there is nothing to draw: the view gives no row", "fix the query")
    x_column = _find_column(table, plot.x)
    x_unit = f" {x_column.unit}" if x_column.unit else ""
    by = _find_column(table, plot.by) if plot.by else None
    names: list[str] = []
    points: dict[str, list[Point]] = {}
    unknown = 0
    for number, row in enumerate(table.rows):
        cells = dict(zip((column.key for column in table.columns), row, strict=True))
        x: Cell = 0
        if plot.kind != "bar":
            x = _read_number(plot, table, number, plot.x, "x" in plot.log)
        numbers = [_read_number(plot, table, number, key, "y" in plot.log) for key in plot.y]
        unknown += sum(y is None or x is None for y in numbers)
        if x is None or all(y is None for y in numbers):
            continue
        place = f"{x_column.heading} {format_cell(cells[plot.x], x_column)}{x_unit}"
        if plot.kind == "bar":
            place = _read_words(cells[plot.x], x_column)
            if not (by and place in names):
                names.append(place)
            x = names.index(place) if by else len(names) - 1
        for key, y in zip(plot.y, numbers, strict=True):
            if y is not None:
                series = _read_words(cells[by.key], by) if by else key
                text = format_cell(y, _find_column(table, key))
                points.setdefault(series, []).append(Point(float(x), float(y), place, text))
    headings = {key: _find_column(table, key).heading for key in plot.y if key in points}
    series_shown = []
    for key in points if by else headings:
        if plot.kind == "line":
            points[key].sort(key=lambda point: point.x)
        series_shown.append(Series(headings.get(key, key), tuple(points[key])))
    figure = Figure(plot, table, tuple(series_shown), tuple(names), unknown)
    _refuse_excess(figure)
    return figure


def _refuse_excess(figure: Figure) -> None:
    if not figure.points:
        raise PlotError("there is nothing to draw: no value is known", "fix the query")
    if len(figure.series) > MAX_SERIES:
        message = f"a plot shows at most {MAX_SERIES} series, but this has {len(figure.series)}"
        raise PlotError(message, "let the query give fewer, with WHERE or LIMIT")
    for series in figure.series if figure.plot.kind == "bar" else ():
        counts = Counter(point.x for point in series.points)
        (x, count), *_ = counts.most_common(1)
        if count > 1:
            message = f"{count} rows are '{series.name}' of '{figure.bars[int(x)]}'"
            raise PlotError(message, "let the query give one row for each bar")


def _read_number(
    plot: Plot, table: Table, number: int, key: str, is_log: bool
) -> float | int | None:
    index = [column.key for column in table.columns].index(key)
    value = table.rows[number][index]
    if value is None:
        return None
    fault, hint = "", "fix the query"
    if isinstance(value, str):
        fault = f"the text '{value}' in '{key}', and an axis needs numbers"
        hint = "name a column of numbers, or fix the query"
    elif is_log and value <= 0:
        fault = f"{value:g} in '{key}', which no logarithmic axis has"
        hint = "leave the row out, or take the axis out of 'plot log'"
    if fault:
        raise PlotError(f"row {number + 1} ({_name_row(table, number)}) has {fault}", hint)
    assert not isinstance(value, str)
    return value


def _name_row(table: Table, number: int) -> str:
    """The name of a row: its first text, else its first cell."""
    row = table.rows[number]
    index = next((i for i, cell in enumerate(row) if isinstance(cell, str)), 0)
    return f"'{_read_words(row[index], table.columns[index])}'"


def _find_column(table: Table, key: str) -> Column:
    return next(column for column in table.columns if column.key == key)


def _read_words(value: Cell, column: Column) -> str:
    """A cell as plain text: cells are Markdown, which drawings do not render."""
    text = format_cell(value, column)
    if re.search(r"[\\`*_<>\[\]!&~]", text):
        from bindery.markdown.parser import make_parser

        (inline,) = make_parser().parseInline(text)
        kinds = ("text", "text_special", "code_inline", "image", "emoji")
        text = "".join(c.content for c in inline.children or () if c.type in kinds)
    return show_controls(" ".join(text.split()))


def describe_plot(plot: Plot, table: Table) -> str:
    """The alternative text of a plot: what is shown, and what stands out. Raises PlotError."""
    figure = read_figure(plot, table)
    points = figure.points
    title = _shorten(figure.title, 100).rstrip(".")
    kind = {"bar": "Bar chart", "line": "Line plot", "scatter": "Scatter plot"}[plot.kind]
    sentences = [f"{title}", " ".join(_describe_axes(figure, kind))]
    if len(figure.series) > 2 or plot.by:
        sentences.append(_describe_extremes(figure, points, ""))
    else:
        for series in figure.series:
            name = f"{series.name}: " if len(figure.series) > 1 else ""
            sentences.append(_describe_extremes(figure, series.points, name))
    if figure.unknown:
        sentences.append(f"{count_noun(figure.unknown, 'unknown value')} left out")
    return show_controls(" ".join(f"{sentence}." for sentence in sentences))


def _describe_axes(figure: Figure, kind: str) -> Iterator[str]:
    plot = figure.plot
    yield f"{kind} of {_shorten(figure.y_title, 80)}"
    if plot.kind == "bar":
        yield f"for {count_noun(len(figure.bars), 'row')} by {figure.x_column.heading}"
    else:
        title = _shorten(figure.x_column.title, 80)
        xs = sorted(figure.points, key=lambda point: point.x)
        column = figure.x_column
        first, last = (format_cell(_plain(point.x), column) for point in (xs[0], xs[-1]))
        span = f"at {first}" if first == last else f"from {first} to {last}"
        yield f"against {title}, {span}, {count_noun(len(xs), 'point')}"
    if plot.by:
        names = _list_plainly(_shorten(series.name, 24) for series in figure.series)
        yield f"in {len(figure.series)} series: {names}"
    if plot.log:
        axes = " and ".join(sorted(plot.log))
        yield f"({axes} logarithmic)"


def _plain(number: float) -> float | int:
    return int(number) if number.is_integer() else number


def _describe_extremes(figure: Figure, points: Sequence[Point], name: str) -> str:
    lowest, highest = min(points, key=lambda p: p.y), max(points, key=lambda p: p.y)
    unit = f" {figure.unit}" if figure.unit else ""
    if lowest.y == highest.y:
        count = "the value is" if len(points) == 1 else "all values are"
        place = f", {_shorten(highest.place, 48)}" if len(points) == 1 else ""
        text = f"{count} {highest.text}{unit}{place}"
    else:
        text = "; ".join(
            f"{word} {point.text}{unit}, {_find_place(figure, point)}"
            for word, point in (("highest", highest), ("lowest", lowest))
        )
    return f"{name}{text}" if name else text[0].upper() + text[1:]


def _find_place(figure: Figure, point: Point) -> str:
    place = _shorten(point.place, 48)
    if len(figure.series) > 2 or figure.plot.by:
        series = next(series.name for series in figure.series if point in series.points)
        return f"{_shorten(series, 24)}, {place}"
    return place


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1].rstrip()}…"


def _list_plainly(words: Iterable[str]) -> str:
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def compute_stamp(plot: Plot, table: Table) -> str:
    """16 hex digits over everything that determines a drawing, except the drawing program."""
    asked = (plot.kind, plot.x, plot.y, plot.by, sorted(plot.log), "")
    shown = (table.title, [astuple(column) for column in table.columns], table.rows)
    text = json.dumps([STYLE, asked, shown], ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


_STAMP = re.compile(r"<!-- .*?; stamp (?P<stamp>[0-9a-f]{16}) -->\n")
_SEAL = re.compile(r"<!-- checksum (?P<sum>[0-9a-f]{16}) -->\n?\Z")


def read_stamp(svg: str) -> tuple[str, bool]:
    """The stamp of a drawing, empty if it has none, and whether the file is as it was drawn."""
    text = svg.replace("\r\n", "\n")
    stamp, seal = _STAMP.match(text), _SEAL.search(text)
    if stamp is None or seal is None:
        return stamp["stamp"] if stamp else "", False
    return stamp["stamp"], seal["sum"] == _compute_sum(text[: seal.start()])


def _compute_sum(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def draw_plot(plot: Plot, table: Table, *, dark: bool) -> bytes:
    """The plot as SVG, with its stamp in front and a checksum after, the same bytes each time.

    Raises PlotError if the table cannot be drawn, and BookError where matplotlib, which
    draws, is not installed.
    """
    from bindery.evidence.plots.svg import draw_figure

    figure = read_figure(plot, table)
    drawing = draw_figure(figure, describe_plot(plot, table), dark=dark)
    title = re.sub("-(?=-)", "- ", figure.title)  # a comment holds no two of them
    shade = "dark" if dark else "light"
    stamp = compute_stamp(plot, table)
    text = f"<!-- {title}: {shade}, drawn from its view; stamp {stamp} -->\n{drawing}"
    return f"{text}<!-- checksum {_compute_sum(text)} -->\n".encode()


def format_picture(plot: Plot, table: Table, name: str, prefix: str) -> str:
    """The HTML that shows the two drawings of a view in a chapter. `prefix` leads from the
    chapter to their folder, with a slash at its end. Raises PlotError."""
    from html import escape

    path = quote(f"{prefix}{name}", safe="/")
    alt = escape(describe_plot(plot, table))
    return (
        "<picture>\n"
        f'  <source media="(prefers-color-scheme: dark)" srcset="{path}-dark.svg">\n'
        f'  <img src="{path}.svg" alt="{alt}">\n'
        "</picture>"
    )
