"""Plots: what a header asks for, what a reader is told, and that files are what they say."""

import re
import sys
from xml.etree import ElementTree

import pytest
from bindery.core.model import ConfigError
from bindery.evidence.plots.spec import (
    MAX_SERIES,
    Plot,
    PlotError,
    compute_stamp,
    describe_plot,
    draw_plot,
    find_plot_fault,
    format_picture,
    parse_plot,
    read_stamp,
)
from bindery.evidence.tables import Cell, Column, Table
from bindery.markdown.chapter_reader import parse_chapter
from evidence_book import FILES
from fixture_types import BookMaker, Case, Runner
from hypothesis import given
from hypothesis import strategies as st

NAME, SIZE = Column("name", "Name"), Column("size", "Payload", "B", 0)
RATE, PEAK = Column("rate", "Rate", "GBps", 1), Column("peak", "Peak", "GBps", 0)
COLUMNS = [
    NAME, Column("ms", "Time", "ms"), Column("seconds", "Time", "s"), SIZE, RATE, PEAK,
]  # fmt: skip
BAR = Plot("bar", "name", ("rate",))
PAIR = Plot("bar", "name", ("rate", "peak"))
BY = Plot("bar", "name", ("rate",), by="kind")
LINE = Plot("line", "size", ("rate",))
LOG = Plot("line", "size", ("rate",), log=frozenset(("x", "y")))
SCATTER = Plot("scatter", "size", ("rate",))
SVG = "{http://www.w3.org/2000/svg}"


def make_table(*rows: tuple[Cell, ...], columns: str = "name size rate peak") -> Table:
    known = {c.key: c for c in (*COLUMNS, Column("kind", "Kind"))}
    return Table("Rates", tuple(known[key] for key in columns.split()), rows)


CHIPS = make_table(("A", 1, 3.25, 4), ("B", 10, 0.5, None), ("C", 100, 12, 20))


@pytest.mark.cases("plots.txt")
def test_headers_are_read_or_refused_with_their_line(case: Case) -> None:
    """A header gives a plot, or the line of its first fault, what is wrong, and what to do."""
    lines = [
        (number, line)
        for number, line in enumerate(case.given.split("\n"), 1)
        if re.match(r"--\s*plot\b", line)
    ]
    plot = parse_plot(lines, COLUMNS)
    if isinstance(plot, Plot):
        axes = ", ".join(sorted(plot.log))
        assert plot.line == lines[0][0]
        parts = [plot.kind, plot.x, "+".join(plot.y), plot.by, axes]
        case.expect(" | ".join(part or "-" for part in parts))
    else:
        case.expect("" if plot is None else "{}: {}\n= help: {}".format(*plot))


# What every drawing of a table must be able to hold.
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
NUMBERS = (
    st.none() | st.integers(-(10**6), 10**9) | st.floats(-1e9, 1e9).filter(lambda x: abs(x) > 1e-50)
)
ROWS = st.lists(st.tuples(TEXTS, NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=8)
PLOTS = st.sampled_from([BAR, PAIR, LINE, SCATTER, Plot("scatter", "size", ("rate", "peak"))])


@given(PLOTS, ROWS, TEXTS, st.booleans())
def test_a_drawing_is_whole_and_the_same_each_time(
    plot: Plot, rows: list[tuple[Cell, ...]], title: str, dark: bool
) -> None:
    """Whatever names and numbers are, the SVG is well formed, says what it shows, is the same
    bytes twice, and carries its stamp; what cannot be drawn is refused."""
    table = Table(title, (NAME, SIZE, RATE, PEAK), tuple(rows))
    if find_plot_fault(plot, table) is not None:
        with pytest.raises(PlotError):
            draw_plot(plot, table, dark=dark)
        return
    drawing = draw_plot(plot, table, dark=dark)
    assert drawing == draw_plot(plot, table, dark=dark)
    assert read_stamp(drawing.decode()) == (compute_stamp(plot, table), True)
    root = ElementTree.fromstring(drawing)
    assert root.tag == f"{SVG}svg"
    assert root.findtext(f"{SVG}desc") == describe_plot(plot, table)
    assert root.findtext(f"{SVG}title") is not None
    assert not re.search(rb"nan|matplotlib|<metadata", re.sub(rb"<(title|desc)>.*", b"", drawing))


@pytest.mark.parametrize(
    ("plot", "table", "words"),
    [
        (BAR, CHIPS, ("Rates. Bar chart of Rate, GBps for 3 rows by Name. "
         "Highest 12.0 GBps, C; lowest 0.5 GBps, B.")),
        (LOG, CHIPS, ("Rates. Line plot of Rate, GBps against Payload, B, from 1 to 100, "
         "3 points (x and y logarithmic). Highest 12.0 GBps, Payload 100 B; "
         "lowest 0.5 GBps, Payload 10 B.")),
        (SCATTER, CHIPS, ("Rates. Scatter plot of Rate, GBps against Payload, B, from 1 to 100, "
         "3 points. Highest 12.0 GBps, Payload 100 B; lowest 0.5 GBps, Payload 10 B.")),
        (BY, make_table(("A", 3, "x"), ("A", 9, "y"), ("B", 1, "y"), columns="name rate kind"),
         ("Rates. Bar chart of Rate, GBps for 2 rows by Name in 2 series: x and y. "
         "Highest 9.0 GBps, y, A; lowest 1.0 GBps, y, B.")),
        (LINE, make_table(("A", 5, 2.0, None)), ("Rates. Line plot of Rate, GBps against Payload, "
         "B, at 5, 1 point. The value is 2.0 GBps, Payload 5 B.")),
        (BAR, make_table(("[A *x*](https://a.example) `b*c`", 1, 2, 3), (None, 1, 3, 3)), ("Rates. "
         "Bar chart of Rate, GBps for 2 rows by Name. "
         "Highest 3.0 GBps, –; lowest 2.0 GBps, A x b*c.")),
    ],
)  # fmt: skip
def test_the_words_are_sentences(plot: Plot, table: Table, words: str) -> None:
    """The alternative text says kind, title, axes, range and extremes, in the table's numbers."""
    assert describe_plot(plot, table) == words


@pytest.mark.parametrize(
    ("plot", "table", "message"),
    [
        (BAR, make_table(), "there is nothing to draw: the view gives no row"),
        (BAR, make_table(("A", 1, None, 2)), "there is nothing to draw: no value is known"),
        (BAR, make_table(("A", 1, 2, 3), ("B", 1, "fast", 3)),
         "row 2 ('B') has the text 'fast' in 'rate', and an axis needs numbers"),
        (LOG, make_table(("A", 0, 2, 3)),
         "row 1 ('A') has 0 in 'size', which no logarithmic axis has"),
        (BY, make_table(("A", 1, "x"), ("B", 1, "x"), ("A", 2, "x"), columns="name rate kind"),
         "2 rows are 'x' of 'A'"),
        (BY, make_table(*(("A", n, f"{n}") for n in range(MAX_SERIES + 1)),
                        columns="name rate kind"),
         f"a plot shows at most {MAX_SERIES} series, but this has {MAX_SERIES + 1}"),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_said_with_its_row(plot: Plot, table: Table, message: str) -> None:
    """A table that no plot can show is refused with the row that is to blame, and advice."""
    fault = find_plot_fault(plot, table)
    assert fault is not None
    assert fault[0] == message
    assert fault[1]
    with pytest.raises(PlotError):
        format_picture(plot, table, "rates", "figures/")


def read_bars(drawing: bytes) -> list[tuple[float, float]]:
    """Left and right end of each bar, from the top, by the fill of the first series."""
    bars = []
    for path in ElementTree.fromstring(drawing).iter(f"{SVG}path"):
        if path.get("style") == "fill: #0072b2":
            numbers = [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", path.get("d", ""))]
            bars.append((min(numbers[::2]), max(numbers[::2])))
    return bars


def test_bars_begin_at_zero_and_are_as_long_as_they_say() -> None:
    """All bars share one end, that of zero, and their lengths are as their values."""
    values = [3.0, -1.5, 0.5]
    rows = [(f"n{number}", 1, value, 1) for number, value in enumerate(values)]
    bars = read_bars(draw_plot(BAR, make_table(*rows), dark=False))
    zero, unit = bars[0][0], (bars[0][1] - bars[0][0]) / 3
    assert [end for _, end in bars[1:2]] == [pytest.approx(zero, abs=0.02)]
    assert bars[2][0] == pytest.approx(zero, abs=0.02)
    lengths = [end - start for start, end in bars]
    assert lengths == pytest.approx([abs(value) * unit for value in values], abs=0.05)


def test_texts_that_no_font_here_has_are_left_to_the_readers() -> None:
    """Texts with a foreign character stay texts; without one all are outlines."""
    rows = (("日本語", 1, 2, 3), ("Łódź μs", 1, 3, 3))
    for table, count in ((make_table(*rows), 2), (make_table(rows[1]), 0)):
        root = ElementTree.fromstring(draw_plot(BAR, table, dark=False))
        names = [e.text for e in root.iter(f"{SVG}text") if e.text in ("日本語", "Łódź μs")]
        assert len(names) == count


def test_drawings_follow_their_data(make_book: BookMaker, run_bindery: Runner) -> None:
    """`fill` draws a plot light and dark; a change of the data makes the drawings stale, and one
    that was edited is reported and left."""
    sql = FILES["views/chips.sql"] + "-- plot: bar\n-- plot x: name\n-- plot y: memory\n"
    chapter = "# A\n\n<!-- plot: chips -->\n<!-- /plot -->\n"
    data = {path: FILES[path] for path in ("data/chips.csv", "data/chips.yaml")}
    root = make_book({"README.md": chapter, "views/chips.sql": sql, **data})
    assert run_bindery("fill", folder=root).status == 0
    light, dark = root / "figures/chips.svg", root / "figures/chips-dark.svg"
    drawn = light.read_bytes(), dark.read_bytes()
    light.write_bytes(drawn[0].replace(b"\n", b"\r\n"))
    assert run_bindery("check", folder=root).status == 0
    (root / "data/chips.csv").write_text(data["data/chips.csv"].replace("192", "193"))
    ended = run_bindery("check", folder=root)
    assert "the plot 'figures/chips.svg' does not show what its view gives" in ended.stdout
    dark.write_bytes(drawn[1].replace(b"<title>Chips", b"<title>Chops"))
    ended = run_bindery("fill", folder=root)
    assert "the plot 'figures/chips-dark.svg' was edited by hand" in ended.stdout
    assert light.read_bytes() != drawn[0]
    assert b"Chops" in dark.read_bytes()


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without matplotlib, drawing says what to install; stamps and words need it not."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert compute_stamp(BAR, CHIPS)
    assert describe_plot(BAR, CHIPS)
    with pytest.raises(ConfigError) as caught:
        draw_plot(BAR, CHIPS, dark=False)
    (finding,) = caught.value.findings
    assert "matplotlib" in finding.message
    assert "pip install 'bindery[plots]'" in finding.help


@given(TEXTS, TEXTS)
def test_the_picture_is_one_image_with_its_words(title: str, name: str) -> None:
    """Whatever names are in it, the HTML between the markers is one picture with two files."""
    table = Table(title, (NAME, RATE), ((name, 1.5), ("B", 2.5)))
    html = format_picture(BAR, table, "a view", "../figures/")
    assert "\n\n" not in html
    chapter = parse_chapter("a.md", f"# A\n\n<!-- plot: x -->\n{html}\n<!-- /plot -->\n\nEnd.\n")
    assert [(link.destination, link.kind) for link in chapter.links] == [
        ("../figures/a%20view-dark.svg", "html-source"),
        ("../figures/a%20view.svg", "html-image"),
    ]
    assert chapter.links[1].text == describe_plot(BAR, table)
    assert not chapter.findings
    assert chapter.tokens[-2].content == "End."
