"""The database that views ask: what it holds, and that it can only be read."""

import pytest
from bindery.check.inspect import inspect_book
from bindery.evidence import database
from evidence_book import FILES, make_record
from fixture_types import BookMaker

HEAD = "-- title: T\n-- column x: X\n"
SCHEMA = """columns:
  name: {type: text}
  size: {type: number}
  source: {type: url}
  date: {type: date}
  class: {type: text}
"""
DATA = """name,size,source,date,class
a,1.5,https://example.org/,2026-01-02,vendor
b,1.5,https://example.org/,2026-01-02,reported
"""
RECORD = make_record(
    "timer",
    method=2,
    profile="demo",
    started="2026-11-20T23:30:00-02:00",
    seconds=1.5,
    machine={
        "label": "h200-x2",
        "cpu": {"model": "Xeon"},
        "accelerators": [{"vendor": "NVIDIA", "model": "H200"}] * 2,
    },
    software={"torch": "2.13.0"},
    units={"n": "1", "median": "s"},
    results=[{"n": 5, "median": 0.25, "good": True}, {"n": 5, "median": 0.5, "spare": None}],
)


def test_records_are_a_table(make_book: BookMaker) -> None:
    """Each record is a row that says what ran where and when, the day in UTC."""
    keys = (
        "record tool method profile date complete machine cpu accelerator accelerator_count torch"
    )
    head = "-- title: T\n" + "".join(f"-- column {key}: {key}\n" for key in keys.split())
    select = f"SELECT {', '.join(keys.split())} FROM records ORDER BY record\n"
    name = "timer/h200-x2_20261121"
    files = {
        "README.md": "# A\n",
        "views/v.sql": head + select,
        f"scripts/records/{name}.json": RECORD,
    }
    assert inspect_book(make_book(files)).evidence.tables["v"].rows == (
        (name, "timer", 2, "demo", "2026-11-21", 1, "h200-x2", "Xeon", "H200", 2, "2.13.0"),
    )


def test_a_query_that_never_ends_is_stopped(
    make_book: BookMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query has a few seconds."""
    monkeypatch.setattr(database, "QUERY_SECONDS", 0.2)
    query = (
        "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
        "SELECT x FROM c ORDER BY x % 1000, x"
    )
    files = {"README.md": "# A\n", "views/v.sql": f"{HEAD}{query}\n"}
    (finding,) = inspect_book(make_book(files)).findings
    assert finding.message == "the query fails: the query ran longer than 0.2 s and was stopped"


@pytest.mark.parametrize("table", ["TIMER", "[Timer]", "(SELECT '--' AS a, median FROM Timer)"])
def test_a_view_over_a_broken_record_is_left_alone(make_book: BookMaker, table: str) -> None:
    """What is wrong with a record is said there, and not again of the views that read it, however
    they spell its table; a view that only names it in a text is evaluated."""
    files = {
        "README.md": "# Preface\n",
        "scripts/records/timer/h200-x2_20261122.json": RECORD.replace("1.5", '"1.5"'),
        "views/median.sql": f"{HEAD}SELECT median AS x FROM {table} ORDER BY 1\n",
        "views/other.sql": f"{HEAD}SELECT 'timer' AS x ORDER BY 1 -- timer\n",
    }
    gathered = inspect_book(make_book(files)).evidence
    assert [finding.rule for finding in gathered.findings] == ["bad-record"]
    assert (gathered.broken, set(gathered.tables)) == ({"median"}, {"other"})


def test_one_chapter_needs_only_what_it_quotes(make_book: BookMaker) -> None:
    """Its tables and their origins are the same as in the whole book."""
    root = make_book(FILES)
    whole = inspect_book(root).evidence
    alone = inspect_book(root, only=("README.md",)).evidence
    assert (set(alone.data), set(alone.tables)) == (set(), {"times"})
    assert alone.tables["times"] == whole.tables["times"]
    assert alone.provenance["times"] == whole.provenance["times"]


def test_a_tool_without_records_is_to_be_run(make_book: BookMaker) -> None:
    """A view over a tool of the book that has no records yet says how to get one."""
    tools = "tools:\n  timer:\n    path: timer.py\n"
    view = f"{HEAD}SELECT median AS x FROM timer ORDER BY 1\n"
    files = {"README.md": "# A\n", "timer.py": "METHOD = 1\n", "views/v.sql": view}
    (finding,) = inspect_book(make_book(files, tools)).findings
    assert finding.message == "the query fails: no such table: timer"
    assert finding.help == "'timer' has no records yet: run `bindery run timer`"


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("ORDER BY size", "ORDER BY does not distinguish rows 1 and 2"),
        ("ORDER BY size, name", ""),
    ],
)
def test_rows_that_tie_are_an_error(make_book: BookMaker, query: str, message: str) -> None:
    """An order that leaves rows tied is chance, and so is which of them a limit leaves."""
    root = make_book(
        {
            "README.md": "# Preface\n\n<!-- table: v -->\n<!-- /table -->\n",
            "data/sizes.csv": DATA,
            "data/sizes.yaml": SCHEMA,
            "views/v.sql": f"-- title: T\n-- column name: N\nSELECT name FROM sizes {query}\n",
        }
    )
    messages = [finding.message for finding in inspect_book(root).evidence.findings]
    assert messages == ([message] if message else [])
