"""How plots look: a figure as SVG, drawn by matplotlib.

Letters are drawn as outlines of the font that bindery carries, and of DejaVu Sans where that
lacks a character, so a plot looks the same in a browser, on paper and in an ebook. Texts with a
character that neither font has use the reader's fonts.
"""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Callable, Sequence
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from bindery.core.control_characters import show_controls
from bindery.core.model import ConfigError, Finding, Span
from bindery.evidence.plots.spec import Figure, Point
from bindery.evidence.tables import UNKNOWN

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.font_manager import FontProperties

WIDTH = 468.0
"""Points: the type area of a page of paper, and a little less than the text of the site."""
_SMALL, _NORMAL, _LARGE = 8.5, 9.5, 11.5
_LEADING = 1.25
_FOOT = 0.33
"""From the middle of small letters to their foot, for a size of 1."""
_SALT = "bindery"


class _Shade(Struct, frozen=True):
    """The colors for one kind of page, after Okabe and Ito. Series also differ in lightness, for
    color-blind readers."""

    ink: str
    soft: str
    line: str
    paper: str
    series: tuple[str, ...]


_LIGHT = _Shade(
    "#1f2328", "#59636e", "#d8dadd", "#ffffff",
    ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#1f2328", "#56b4e9", "#d55e00", "#8a8f98"),
)  # fmt: skip
_DARK = _Shade(
    "#dfe3e8", "#9aa4b0", "#3f464f", "#16191d",
    ("#56b4e9", "#e69f00", "#1fb88a", "#d98bb5", "#dfe3e8", "#3d8fd1", "#e8743b", "#8a8f98"),
)  # fmt: skip
_MARKERS = "osD^vPX*"
_DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5)))
_HATCHES = ("", "", "////", "\\\\\\\\", "xxxx", "----", "++++", "||||")


def draw_figure(figure: Figure, words: str, *, dark: bool) -> str:
    """The figure as an `<svg>` element, `words` being its description.

    Raises BookError if matplotlib is not installed.
    """
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        message = f"plots need matplotlib, which cannot be imported: {error}"
        hint = "run `pip install 'bindery[plots]'`"
        raise ConfigError(Finding(Span.whole("chapters.yaml"), "config", message, hint)) from None
    sheet = _Sheet(_DARK if dark else _LIGHT)
    with mpl.rc_context(), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        mpl.rcdefaults()  # ignore the user's matplotlib style
        mpl.rcParams["text.parse_math"] = False
        mpl.rcParams["svg.hashsalt"] = _SALT
        mpl.rcParams["hatch.linewidth"] = 0.7
        _register_fonts()
        sheet.add_heading(figure)
        if figure.plot.kind == "bar":
            _draw_bars(figure, sheet)
        else:
            _draw_points(figure, sheet)
        canvas = Canvas(figsize=(WIDTH / 72, sheet.height / 72))
        FigureCanvasSVG(canvas)
        canvas.patch.set_visible(False)
        sheet.draw(canvas)
        svg = _save(canvas)
        if any("missing from font" in str(warning.message) for warning in told):
            mpl.rcParams["svg.fonttype"] = "none"
            svg = _save(canvas)
    return _tidy_svg(svg, figure.title, words)


def _save(canvas: Any) -> str:
    buffer = io.StringIO()
    metadata = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    canvas.savefig(buffer, format="svg", metadata=metadata)
    return buffer.getvalue()


_FAMILIES = ("Source Sans 3", "DejaVu Sans")


@cache
def _register_fonts() -> None:
    """Make the fonts known to matplotlib, in both weights."""
    from matplotlib import get_data_path
    from matplotlib.font_manager import FontEntry, fontManager

    carried = Path(str(resources.files("bindery.render"))) / "fonts"
    spare = Path(get_data_path(), "fonts", "ttf")
    for weight, name in ((400, "DejaVuSans.ttf"), (600, "DejaVuSans-Bold.ttf")):
        files = (carried / f"source-sans-3-latin-{weight}-normal.ttf", spare / name)
        for family, path in zip(_FAMILIES, files, strict=True):
            entry = FontEntry(fname=str(path), name=family, weight=weight, size="scalable")
            fontManager.ttflist.insert(0, entry)


@cache
def _make_font(size: float, is_bold: bool) -> FontProperties:
    from matplotlib.font_manager import FontProperties

    return FontProperties(family=list(_FAMILIES), size=size, weight=600 if is_bold else 400)


@cache
def _measure(text: str, size: float, is_bold: bool = False) -> float:
    """The width of a text in points."""
    from matplotlib.textpath import text_to_path

    font = _make_font(size, is_bold)
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, False)
    return float(width)


def _wrap(text: str, room: float, size: float, is_bold: bool = False) -> list[str]:
    """The text in lines no wider than `room`, unless a single word is."""
    lines = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}".strip()
        if not lines[-1] or _measure(joined, size, is_bold) <= room:
            lines[-1] = joined
        else:
            lines.append(word)
    return lines


class _Sheet:
    """A drawing in points from its upper left corner, which grows downwards."""

    def __init__(self, shade: _Shade) -> None:
        self.shade = shade
        self.height = 4.0
        self.actions: list[Callable[[Axes], object]] = []

    def draw(self, canvas: Any) -> None:
        axes = canvas.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set(xlim=(0, WIDTH), ylim=(self.height, 0))
        for action in self.actions:
            action(axes)

    def write(
        self, x: float, y: float, text: str, *, size: float = _NORMAL, colour: str = "",
        align: str = "left", is_bold: bool = False,
    ) -> None:  # fmt: skip
        """A line of text, `y` being the middle of its small letters."""
        from matplotlib.text import Text

        text = show_controls(text)
        foot = y + _FOOT * size
        shown = colour or self.shade.ink
        font = _make_font(size, is_bold)
        words = Text(x, foot, text, ha=align, color=shown, fontproperties=font, zorder=4)
        self.actions.append(lambda axes: axes.add_artist(words))

    def fill(self, x: float, y: float, width: float, height: float, index: int) -> None:
        """A bar of a series."""
        from matplotlib.patches import Rectangle

        colour, hatch = self.shade.series[index], _HATCHES[index]
        face, edge = (self.shade.paper, colour) if hatch else (colour, colour)
        bar = Rectangle(
            (x, y), width, height, facecolor=face, edgecolor=edge, hatch=hatch or None,
            linewidth=0.7 if hatch else 0, zorder=2, clip_on=False,
        )  # fmt: skip
        self.actions.append(lambda axes: axes.add_artist(bar))

    def mark(self, xs: Sequence[float], ys: Sequence[float], **style: Any) -> None:
        """Points, and lines between them."""
        style = {"solid_capstyle": "butt", "clip_on": False, **style}
        self.actions.append(lambda axes: axes.plot(xs, ys, **style))

    def rule(self, x: float, y: float, to_x: float, to_y: float, *, is_zero: bool = False) -> None:
        """A line of the grid, behind everything, or that of zero, before the bars."""
        colour = self.shade.soft if is_zero else self.shade.line
        self.mark([x, to_x], [y, to_y], color=colour, lw=0.7, zorder=2.5 if is_zero else 1)

    def add_lines(self, lines: Sequence[str], size: float, **style: Any) -> None:
        for line in lines:
            self.write(0, self.height + size * _LEADING / 2, line, size=size, **style)
            self.height += size * _LEADING

    def add_heading(self, figure: Figure) -> None:
        """The title and, where there are several series, what marks each of them."""
        self.add_lines(_wrap(figure.title, WIDTH, _LARGE, True), _LARGE, is_bold=True)
        self.height += 4
        if len(figure.series) > 1:
            self._add_legend(figure)

    def add_axis_title(self, title: str, left: float, right: float) -> None:
        for line in filter(None, _wrap(title, right - left, _SMALL)):
            middle, y = (left + right) / 2, self.height + 5
            self.write(middle, y, line, size=_SMALL, colour=self.shade.soft, align="center")
            self.height += _SMALL * _LEADING
        self.height += 3

    def _add_legend(self, figure: Figure) -> None:
        x = 0.0
        row = _NORMAL * _LEADING
        for index, series in enumerate(figure.series):
            lines = _wrap(series.name, WIDTH - 24, _NORMAL)
            width = 24 + max(_measure(line, _NORMAL) for line in lines)
            if x and x + width > WIDTH:
                x = 0.0
                self.height += row
            self._add_sample(figure, index, x, self.height + row / 2)
            for line in lines:
                self.write(x + 19, self.height + row / 2, line)
                self.height += row
            self.height -= row
            x += width + 10
        self.height += row + 3

    def _add_sample(self, figure: Figure, index: int, x: float, y: float) -> None:
        if figure.plot.kind == "bar":
            self.fill(x, y - 3.5, 14, 7, index)
            return
        style = _style_series(figure, index, self.shade)
        self.mark([x, x + 7, x + 14], [y, y, y], markevery=[1], **style)


def _style_series(figure: Figure, index: int, shade: _Shade) -> dict[str, Any]:
    """The line and the marks of a series."""
    is_line = figure.plot.kind == "line"
    return {
        "color": shade.series[index],
        "lw": 1.4 if is_line else 0,
        "ls": _DASHES[index % len(_DASHES)] if is_line else "",
        "marker": _MARKERS[index],
        "ms": 4.2 if is_line else 5,
        "mec": shade.paper,
        "mew": 0.5,
        "zorder": 3,
    }


def _draw_bars(figure: Figure, sheet: _Sheet) -> None:
    """Horizontal bars from zero, their names before them and their values after them."""
    shade, count = sheet.shade, len(figure.series)
    thick, gap = (10.0, 8.0) if count == 1 else (9.0, 10.0)
    names = [_wrap(name, WIDTH * 0.38, _NORMAL) for name in figure.bars]
    left = max(_measure(line, _NORMAL) for lines in names for line in lines) + 8
    values = [p.y for p in figure.points]
    low, high = min(0.0, *values), max(0.0, *values)
    high = high if high > low else 1.0
    widths = {p: _measure(p.text, _SMALL) + 5 for p in figure.points}
    before = max((widths[p] for p in figure.points if p.y < 0), default=0)
    behind = max((widths[p] for p in figure.points if p.y >= 0), default=0)
    scale = (WIDTH - left - before - behind) / (high - low)
    zero = left + before - low * scale

    top = sheet.height + 2
    heights = [max(count * thick, len(lines) * _NORMAL * 1.15) + gap for lines in names]
    bottom = top + sum(heights)
    ticks = [t for t in _find_ticks(low, high) if low <= t <= high]
    for tick in ticks:
        sheet.rule(zero + tick * scale, top, zero + tick * scale, bottom)
        if tick:
            sheet.write(zero + tick * scale, bottom + 7, _write_tick(tick), size=_SMALL,
                        colour=shade.soft, align="center")  # fmt: skip
    sheet.write(zero, bottom + 7, "0", size=_SMALL, colour=shade.soft, align="center")

    y = top
    for position, (lines, height) in enumerate(zip(names, heights, strict=True)):
        first = y + height / 2 - (len(lines) - 1) * _NORMAL * 1.15 / 2
        for number, line in enumerate(lines):
            sheet.write(left - 8, first + number * _NORMAL * 1.15, line, align="right")
        bar = y + height / 2 - count * thick / 2
        for index, series in enumerate(figure.series):
            point = next((p for p in series.points if p.x == position), None)
            _draw_bar(figure, sheet, point, index, (zero, bar + index * thick, scale, thick))
        y += height
    sheet.rule(zero, top, zero, bottom, is_zero=True)
    sheet.height = bottom + 15
    sheet.add_axis_title(_title_values(figure), left, WIDTH)


def _draw_bar(
    figure: Figure, sheet: _Sheet, point: Point | None, index: int,
    place: tuple[float, float, float, float],
) -> None:  # fmt: skip
    zero, y, scale, thick = place
    middle = y + thick / 2
    if point is None:
        if len(figure.series) > 1 and not figure.plot.by:
            sheet.write(zero + 4, middle, UNKNOWN, size=_SMALL, colour=sheet.shade.soft)
        return
    end = zero + point.y * scale
    sheet.fill(min(zero, end), y + 0.5, abs(end - zero), thick - 1, index)
    align, shift = ("right", -4) if point.y < 0 else ("left", 4)
    sheet.write(end + shift, middle, point.text, size=_SMALL, align=align)


def _draw_points(figure: Figure, sheet: _Sheet) -> None:
    """Lines or points between two axes, the title of the vertical one above it."""
    shade = sheet.shade
    sheet.add_lines(_wrap(_title_values(figure), WIDTH, _SMALL), _SMALL, colour=shade.soft)
    xs = _Scale.fit([p.x for p in figure.points], is_log="x" in figure.plot.log)
    ys = _Scale.fit([p.y for p in figure.points], is_log="y" in figure.plot.log)
    left = max(_measure(_write_tick(t), _SMALL) for t in ys.ticks) + 8
    right = WIDTH - max(_measure(_write_tick(t), _SMALL) for t in xs.ticks) / 2 - 2
    top = sheet.height + 5
    bottom = top + 230
    for tick in xs.ticks:
        x = left + xs.find_share(tick) * (right - left)
        sheet.rule(x, top, x, bottom)
        sheet.write(x, bottom + 8, _write_tick(tick), size=_SMALL, colour=shade.soft,
                    align="center")  # fmt: skip
    for tick in ys.ticks:
        y = bottom - ys.find_share(tick) * (bottom - top)
        sheet.rule(left, y, right, y)
        sheet.write(left - 5, y, _write_tick(tick), size=_SMALL, colour=shade.soft, align="right")
    sheet.rule(left, bottom, right, bottom, is_zero=True)
    for index, series in enumerate(figure.series):
        across = [left + xs.find_share(point.x) * (right - left) for point in series.points]
        down = [bottom - ys.find_share(point.y) * (bottom - top) for point in series.points]
        sheet.mark(across, down, **_style_series(figure, index, shade))
    sheet.height = bottom + 16
    sheet.add_axis_title(figure.x_column.title, left, right)


def _title_values(figure: Figure) -> str:
    """The title of the value axis; only the unit if the legend names several columns."""
    return figure.y_title if len(figure.plot.y) == 1 else figure.unit


class _Scale(Struct, frozen=True):
    """An axis: its ends and its marks."""

    low: float
    high: float
    ticks: tuple[float, ...]
    is_log: bool

    @classmethod
    def fit(cls, values: Sequence[float], *, is_log: bool) -> _Scale:
        """The axis that holds these values with a little room; a linear one begins at zero where
        that is not far."""
        low, high = min(values), max(values)
        if is_log:
            room = max((high / low) ** 0.04, 1.15)
            low, high = low / room, high * room
            return cls(low, high, _find_log_ticks(low, high), True)
        size = max(abs(low), abs(high))
        span = high - low if high - low > 1e-6 * size else size or 1.0
        begins_at_zero = 0 <= low <= 0.5 * high
        low, high = (0.0 if begins_at_zero else low - 0.05 * span), high + 0.05 * span
        return cls(low, high, tuple(t for t in _find_ticks(low, high) if low <= t <= high), False)

    def find_share(self, value: float) -> float:
        """How far along the axis a value is, from 0 to 1."""
        if self.is_log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


def _find_ticks(low: float, high: float) -> list[float]:
    from matplotlib.ticker import MaxNLocator

    ticks = MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)
    return [0.0 if abs(t) < 1e-9 * (high - low) else float(t) for t in ticks]


def _find_log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Powers of ten, thinned out where there are many, and steps between where there are few."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = max(1, math.ceil((last - first) / 8))
    exponents = range(first, last + 1)
    for steps in ((1,), (1, 3), (1, 2, 5), range(1, 10)):
        ticks = [
            step * 10.0**exponent
            for exponent in exponents
            for step in steps
            if exponent % every == 0 and low <= step * 10.0**exponent <= high
        ]
        if len(ticks) >= 3:
            return tuple(ticks)
    return tuple(t for t in _find_ticks(low, high) if low <= t <= high)


def _write_tick(value: float) -> str:
    """The shortest label of a tick that differs from those of its neighbors."""
    if value and not 1e-4 <= abs(value) < 1e6:
        mantissa, _, exponent = f"{value:.4g}".partition("e")
        if not exponent:
            mantissa, _, exponent = f"{value:.3e}".partition("e")
            mantissa = mantissa.rstrip("0").rstrip(".")
        return f"{mantissa}e{int(exponent)}".replace("-", "−")
    return f"{value:.10g}".replace("-", "−")


def _tidy_svg(svg: str, title: str, words: str) -> str:
    """The SVG of matplotlib with a title and a description, without its metadata."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|^\s+", "", body, flags=re.DOTALL | re.M)
    body = re.sub(r' id="(?:figure|axes|patch|line2d|text)_\d+"', "", body)
    glyphs = dict.fromkeys(re.findall(r'<path id="([^"]+-[0-9a-f]+)"', body))
    short = {glyph: f"g{number}" for number, glyph in enumerate(glyphs)}
    body = re.sub(
        r'(id="|href="#)([^"]+-[0-9a-f]+)"', lambda m: f'{m[1]}{short.get(m[2], m[2])}"', body
    )
    body = re.sub(r'(?<= d=")[^"]*|translate\([^)]*\)', _round_numbers, body)
    body = body.replace("'DejaVu Sans'", "'DejaVu Sans', sans-serif")
    head, _, rest = body.partition(">")
    texts = (
        f"<title>{escape(title, quote=False)}</title>\n<desc>{escape(words, quote=False)}</desc>"
    )
    return f'{head} role="img">\n{texts}{rest}'


def _round_numbers(match: re.Match[str]) -> str:
    """Round to a hundredth of a point, which is invisible."""
    text = re.sub(r"-?\d+\.\d+", lambda n: f"{float(n[0]):.2f}".rstrip("0").rstrip("."), match[0])
    return " ".join(text.split())
