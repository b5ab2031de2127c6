"""The database that views ask: what it holds, and that it can only be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bindery import evidence
from bindery.evidence import gather_evidence, parse_view
from bindery.model import Finding
from bindery.pipeline import inspect_book

if TYPE_CHECKING:
    from conftest import BookMaker

HEAD = "-- title: T\n-- column x: X\n"
SCHEMA = """columns:
  name: {type: text}
  size: {type: number}
  count: {type: integer}
  sold: {type: boolean}
  source: {type: url}
  date: {type: date}
  class: {type: text}
"""
DATA = """name,size,count,sold,source,date,class
a,1.5,2,yes,https://example.org/,2026-01-02,vendor
b,,,no,https://example.org/,2026-01-02,reported
"""
RECORD = """{"schema": 1, "tool": "timer", "version": "0.1.0", "method": 2, "profile": "toy",
"sha256": "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
"command": ["python", "timer.py"], "started": "2026-11-20T23:30:00-02:00", "seconds": 1.5,
"exit_status": 0, "complete": true, "machine": {"label": "h200-x2", "cpu": {"model": "Xeon"},
"accelerators": [{"vendor": "NVIDIA", "model": "H200"}, {"vendor": "NVIDIA", "model": "H200"}]},
"software": {"torch": "2.13.0"}, "results": [{"n": 5, "median": 0.25, "good": true},
{"n": 5, "median": 0.5, "spare": null}]}
"""


@pytest.fixture
def ask(make_book: BookMaker) -> Callable[..., object]:
    """Ask the evidence of a small book one query; gives rows, or the finding."""

    def ask_query(select: str, columns: str = "x") -> list[tuple[object, ...]] | Finding:
        head = "-- title: T\n" + "".join(f"-- column {name}: {name}\n" for name in columns.split())
        root = make_book(
            {
                "README.md": "# Preface\n",
                "data/sizes.csv": DATA,
                "data/sizes.yaml": SCHEMA,
                "views/view.sql": f"{head}{select}\n",
                "scripts/records/timer/h200-x2_20261121.json": RECORD,
            }
        )
        gathered = inspect_book(root).evidence
        if "view" in gathered.tables:
            assert gathered.findings == ()
            return list(gathered.tables["view"].rows)
        (finding,) = gathered.findings
        assert gathered.broken == {"view"}
        return finding

    return ask_query


def test_data_has_types(ask: Callable[..., object]) -> None:
    """Numbers are numbers, yes is 1, and an empty cell is NULL."""
    rows = ask("SELECT name, size, count, sold FROM sizes ORDER BY name", "name size count sold")
    assert rows == [("a", 1.5, 2, 1), ("b", None, None, 0)]


def test_records_are_a_table(ask: Callable[..., object]) -> None:
    """Each record is a row that says what ran where and when, the day in UTC."""
    rows = ask(
        "SELECT record, tool, method, profile, date, complete, machine, cpu, accelerator, "
        "accelerator_count, torch FROM records ORDER BY record",
        "record tool method profile date complete machine cpu accelerator accelerator_count torch",
    )
    name = "timer/h200-x2_20261121"
    assert rows == [
        (name, "timer", 2, "toy", "2026-11-21", 1, "h200-x2", "Xeon", "H200", 2, "2.13.0")
    ]


def test_results_of_a_tool_are_a_table(ask: Callable[..., object]) -> None:
    """Result rows stand in a table named for their tool; what a row does not have is NULL."""
    rows = ask(
        "SELECT record, median, good, spare FROM timer ORDER BY median", "record median good spare"
    )
    assert rows == [
        ("timer/h200-x2_20261121", 0.25, 1, None),
        ("timer/h200-x2_20261121", 0.5, None, None),
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO sizes (name) SELECT 'x' AS x ORDER BY 1",
        "UPDATE sizes SET name = 'x' WHERE name IN (SELECT name FROM sizes ORDER BY name)",
        "DELETE FROM sizes WHERE name IN (SELECT name FROM sizes ORDER BY name)",
        "CREATE TABLE t AS SELECT 1 AS x ORDER BY 1",
        "CREATE TEMP TABLE t AS SELECT 1 AS x ORDER BY 1",
        "DROP TABLE sizes /* order by */",
        "ATTACH 'stolen.db' AS other /* order by */",
        "PRAGMA writable_schema = 1 /* order by */",
        "VACUUM INTO 'copy.db' /* order by */",
        "BEGIN /* order by */",
        "REINDEX /* order by */",
        "SELECT load_extension('x') AS x ORDER BY 1",
        "SELECT random() AS x ORDER BY 1",
        "SELECT date('now') AS x ORDER BY 1",
        "SELECT readfile('/etc/hosts') AS x ORDER BY 1",
        "SELECT name AS x FROM pragma_table_info('sizes') ORDER BY 1",
        "SELECT 1 AS x ORDER BY 1; DROP TABLE sizes",
        "SELECT CURRENT_TIMESTAMP AS x ORDER BY 1",
    ],
)
def test_a_view_can_only_read(
    ask: Callable[..., object], statement: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No view writes, attaches, loads, or gives another table tomorrow."""
    monkeypatch.chdir(tmp_path)
    finding = ask(statement)
    assert isinstance(finding, Finding)
    assert finding.rule == "bad-view"
    assert {path.name for path in tmp_path.iterdir()} == {"book"}


def test_a_query_without_end_is_stopped(
    ask: Callable[..., object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query that runs longer than its time is ended and reported."""
    monkeypatch.setattr(evidence, "QUERY_SECONDS", 0.05)
    finding = ask(
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
        "SELECT sum(x) AS x FROM c ORDER BY 1"
    )
    assert isinstance(finding, Finding)
    assert finding.message == "the query fails: the query ran longer than 0.05 s and was stopped"


def test_one_broken_view_leaves_the_others(make_book: BookMaker) -> None:
    """A view that fails is reported once, also where a chapter asks for it."""
    root = make_book(
        {
            "README.md": "# Preface\n\n<!-- table: broken -->\n<!-- /table -->\n",
            "views/broken.sql": f"{HEAD}SELECT y FROM nowhere ORDER BY 1\n",
            "views/fine.sql": f"{HEAD}SELECT 1 AS x ORDER BY 1\n",
        }
    )
    inspection = inspect_book(root)
    assert [finding.rule for finding in inspection.findings] == ["bad-view"]
    assert inspection.evidence.tables["fine"].rows == ((1,),)


def test_evidence_of_an_empty_book_is_empty(make_book: BookMaker) -> None:
    """A book without data, records and views needs none of them."""
    inspection = inspect_book(make_book({"README.md": "# Preface\n"}))
    gathered = gather_evidence(inspection.tree, inspection.config)
    assert (gathered.tables, gathered.findings) == ({}, ())


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("-- column x: Peak [TFLOPS] .1", ("x", "Peak", "TFLOPS", 1)),
        ("-- column x: Peak", ("x", "Peak", "", None)),
        ("-- column x: Peak .0", ("x", "Peak", "", 0)),
        ("-- column x: Peak [GB/s]", ("x", "Peak", "GB/s", None)),
        ("--column x:Peak (dense) [%] .2", ("x", "Peak (dense)", "%", 2)),
    ],
)
def test_a_header_names_heading_unit_and_digits(
    line: str, shown: tuple[str, str, str, int | None]
) -> None:
    """The header of a view gives each column its heading, and if it wants a unit and digits."""
    view = parse_view("v", "v.sql", f"-- title: T\n{line}\nSELECT 1 AS x ORDER BY 1\n")
    assert not isinstance(view, Finding)
    (column,) = view.columns
    assert (column.key, column.heading, column.unit, column.digits) == shown
