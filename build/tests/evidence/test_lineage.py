"""Origins of cells: what the rewritten query says, held against the data itself."""

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

import pytest
from bindery.evidence.lineage import Trace, UntraceableError, trace_query
from fixture_types import Case
from hypothesis import assume, given
from hypothesis import strategies as st

Cell = int | float | str | None
Rows = list[list[Cell]]

COLUMNS: Mapping[str, tuple[str, ...]] = {"t": ("k", "g", "a", "b"), "u": ("k", "a", "c")}
TABLES: Mapping[str, Rows] = {
    "t": [
        [1, "x", 10, 2.5],
        [2, "x", 20, None],
        [3, "y", None, 4],
        [4, "y", 20, 1],
        [5, None, 7, 7],
    ],
    "u": [[1, 10, "p"], [2, 99, "q"], [3, None, "r"], [3, 20, None], [9, 5, "s"]],
}


class Answer(NamedTuple):
    """A query and its rewriting, both evaluated."""

    trace: Trace
    original: list[tuple[Cell, ...]]
    rows: list[tuple[Cell, ...]]
    origins: list[list[set[str]]]
    """Of each cell, row by row."""
    keys: list[tuple[Cell, ...]]


def ask(sql: str, tables: Mapping[str, Rows]) -> Answer:
    with closing(sqlite3.connect(":memory:")) as database:
        for name, rows in tables.items():
            database.execute(f"CREATE TABLE {name} ({', '.join(COLUMNS[name])})")
            marks = ", ".join("?" * len(COLUMNS[name]))
            database.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)
        cursor = database.execute(sql)
        names = [description[0] for description in cursor.description]
        original = cursor.fetchall()
        trace = trace_query(sql, COLUMNS)
        cursor = database.execute(trace.sql)
        rewritten = [description[0] for description in cursor.description]
        found = cursor.fetchall()
    width = len(names)
    assert all(
        cell is None or cell == cell.strip() for row in found for cell in row[width : 2 * width]
    )
    assert [column.key for column in trace.columns] == names
    assert rewritten == [*names, *(c.origins for c in trace.columns), *trace.order_keys]
    return Answer(
        trace,
        original,
        [row[:width] for row in found],
        [[set((cell or "").split()) for cell in row[width : 2 * width]] for row in found],
        [row[2 * width :] for row in found],
    )


@pytest.mark.cases("lineage.txt")
def test_origins_are_told(case: Case) -> None:
    """A query tells kind, formula and origins of its columns, or why it cannot be followed."""
    try:
        answer = ask(case.given, TABLES)
    except UntraceableError as error:
        case.expect(f"line {error.line}: {error}")
        return
    assert answer.rows == answer.original
    lines = []
    for index, column in enumerate(answer.trace.columns):
        lines.append(" ".join(filter(None, [f"{column.key}: {column.kind}", column.formula])))
        for row, origins in zip(answer.rows, answer.origins, strict=True):
            lines.append(" ".join([f"  {row[index]} <-", *sorted(origins[index])]))
    case.expect("\n".join(lines))


def test_a_scaled_column_tells_its_factor() -> None:
    """What is shown is the factor times what was found, through every step and query in which it
    scales; the sides of a UNION agree or not."""
    inner = "SELECT k, a * 1000 AS x FROM t"
    joined = "FROM t JOIN u USING (k) ORDER BY k"
    cases = {
        f"SELECT t.a AS x {joined}": ("copy", 1.0),
        f"SELECT t.a * 1e6 AS x {joined}": ("scaled", 1e6),
        f"SELECT t.a / 1024.0 / 1024 AS x {joined}": ("scaled", 2.0**-20),
        f"SELECT t.a * 1000 / 3600 AS x {joined}": ("scaled", 1000 / 3600),
        f"SELECT CAST(t.a * 1000 AS TEXT) AS x {joined}": ("scaled", 1000.0),
        f"SELECT coalesce(t.a * 1000, NULL) AS x {joined}": ("scaled", 1000.0),
        f"SELECT (t.a * 1000) || ' of ' || (b * 8) AS x {joined}": ("computed", 1.0),
        f"SELECT (SELECT c * 8 FROM u AS v LIMIT 1) AS x {joined}": ("scaled", 8.0),
        f"SELECT t.a * 11 AS x {joined}": ("computed", 1.0),
        f"WITH w AS ({inner}) SELECT x / 60.0 AS x FROM w ORDER BY k": ("scaled", 1000 / 60),
        f"WITH w AS ({inner}) SELECT max(x) * 8 AS x FROM w ORDER BY 1": ("scaled", 8000.0),
        f"SELECT x FROM ({inner} UNION ALL SELECT k, 1e3 * a FROM u) ORDER BY k": (
            "scaled",
            1000.0,
        ),
        f"SELECT x FROM ({inner} UNION ALL SELECT k, a FROM u) ORDER BY k": ("computed", 1.0),
    }
    for sql, expected in cases.items():
        (column,) = trace_query(sql, COLUMNS).columns
        assert (column.kind, column.factor) == expected, sql


def test_texts_that_change_a_number_are_worked_out() -> None:
    """A text is a copy where it sets values apart, and not where something is read into them."""
    plain = [
        "k || ' x ' || t.a || ' x ' || b",
        "g || coalesce(' (' || c || ')', '')",
        "g || CASE WHEN k = 1 THEN '' ELSE ' ' || c || '?' END",
        "g || NULL || 8",
    ]
    changing = [
        "t.a || '0'",
        "'-' || t.a",
        "t.a || '.' || b",
        "t.a || CASE k WHEN 1 THEN ' ' ELSE b END",
        "replace(t.a, 8, 9)",
        "substr(t.a, 1, 2)",
        "group_concat(t.a, '') OVER ()",
        "upper(t.a || '0')",
    ]
    kinds = dict.fromkeys(plain, "copy") | dict.fromkeys(changing, "computed")
    items = ", ".join(f"{item} AS x{n}" for n, item in enumerate(kinds))
    sql = f"SELECT {items} FROM t JOIN u USING (k) ORDER BY k"
    columns = trace_query(sql, COLUMNS).columns
    assert {item: c.kind for item, c in zip(kinds, columns, strict=True)} == kinds
    assert all(bool(column.formula) == (column.kind == "computed") for column in columns)


# --- queries of a small grammar ---

NUMBERS = st.none() | st.integers(1, 9)


@st.composite
def small_tables(draw: st.DrawFn) -> Mapping[str, Rows]:
    size = draw(st.integers(1, 6))
    group = st.sampled_from(["x", "y", None])
    t: Rows = [[k, draw(group), draw(NUMBERS), draw(NUMBERS)] for k in range(1, size + 1)]
    u: Rows = [
        [draw(st.integers(1, 4)), draw(NUMBERS), draw(NUMBERS)]
        for _ in range(draw(st.integers(0, 5)))
    ]
    return {"t": t, "u": u}


def values(columns: Sequence[str]) -> st.SearchStrategy[str]:
    """Expressions that take values from these columns; what they decide by is a key."""
    leaf = st.sampled_from([*columns, *columns, "3", "NULL"])
    return st.recursive(
        leaf,
        lambda part: st.one_of(
            st.tuples(part, st.sampled_from("+-*/"), part).map(lambda p: f"({p[0]} {p[1]} {p[2]})"),
            st.tuples(part, part).map(lambda p: f"coalesce({p[0]}, {p[1]})"),
            st.tuples(part, part).map(lambda p: f"CASE t.k % 2 WHEN 0 THEN {p[0]} ELSE {p[1]} END"),
            part.map(lambda p: f"abs({p})"),
            part.map(lambda p: f"-{p}" if not p.startswith("-") else p),
            part.map(lambda p: f"CAST({p} AS REAL)"),
            st.tuples(part, part).map(lambda p: f"{p[0]} || '/' || {p[1]}"),
        ),
        max_leaves=5,
    )


FROMS = {
    "t": (["t.a", "t.b"], "t.k"),
    "t LEFT JOIN u USING (k)": (["t.a", "b", "u.a", "c"], "t.k, u.rowid"),
    "(SELECT k, g, a * 2 AS a, b FROM t WHERE k < 5) AS t, u": (["t.a", "b", "c"], "t.k, u.rowid"),
    "(SELECT t.*, v.c FROM t LEFT JOIN u AS v USING (k)) AS t": (["a", "b", "c"], "t.k, c"),
}
"""Sources of a query, with columns that give values, and an order of the rows."""
AGGREGATES = st.sampled_from("sum total avg count group_concat".split())


@st.composite
def queries(draw: st.DrawFn) -> str:
    """Queries with one row for each of the sources, or for each group of them."""
    source = draw(st.sampled_from(sorted(FROMS)))
    columns, order = FROMS[source]
    items = draw(st.lists(values(columns), min_size=1, max_size=3))
    where = draw(st.sampled_from(["", " WHERE t.g IS NOT NULL", " WHERE t.k > 1"]))
    group = ""
    if draw(st.booleans()):
        items = ["t.g", *(f"{draw(AGGREGATES)}({item})" for item in items)]
        group, order = draw(st.sampled_from([" GROUP BY t.g", " GROUP BY 1", " GROUP BY x0"])), "x0"
    else:
        items += ["(SELECT sum(o.a * 2) FROM u AS o WHERE o.k <= t.k)"]
        items += [f"sum({items[0]}) OVER (PARTITION BY t.g ORDER BY t.k)"]
    listed = ", ".join(f"{item} AS x{number}" for number, item in enumerate(items))
    return f"SELECT {listed} FROM {source}{where}{group} ORDER BY {order}"


@given(
    sql=queries(),
    tables=small_tables(),
    data=st.data(),
)
def test_only_origins_matter(sql: str, tables: Mapping[str, Rows], data: st.DataObject) -> None:
    """A change of a value changes no cell that it is not an origin of."""
    places = [
        (name, row, column)
        for name, rows in tables.items()
        for row, cells in enumerate(rows)
        for column, cell in enumerate(cells)
        if COLUMNS[name][column] in ("a", "b", "c") and cell is not None
    ]
    assume(places)
    name, row, column = data.draw(st.sampled_from(places))
    before = ask(sql, tables)
    assume(len(set(before.keys)) == len(before.keys))
    changed = {key: [list(cells) for cells in rows] for key, rows in tables.items()}
    changed[name][row][column] = 1000
    after = ask(sql, changed)
    assume(before.keys == after.keys)
    item = f"{name}:{row + 1}:{COLUMNS[name][column]}"
    for one, other, origins in zip(before.rows, after.rows, before.origins, strict=True):
        for left, right, cell in zip(one, other, origins, strict=True):
            assert item in cell or left == right
