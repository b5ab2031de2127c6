"""The list of records: what it tells of each, which are chosen, and how it is printed."""

import json
from pathlib import Path
from typing import Any

import evidence_book
import pytest
from fixture_types import BookMaker, Runner

VIEW = """-- title: Seconds
-- column record: Record
-- column seconds: Time [s] .1
SELECT record, seconds FROM {tool} WHERE record = '{record}' ORDER BY seconds
"""


def make_record(tool: str, started: str, **changes: Any) -> str:
    gpus = [{"vendor": "nvidia", "model": "NVIDIA H100"}] * 8
    data = {
        "command": ["python", f"{tool}.py", "--all"],
        "environment": {},
        "started": f"{started}T10:00:00Z",
        "machine": {"label": "h100-x8", "cpu": {}, "accelerators": gpus},
        "software": {"torch": "2.13.0", "rocm": None},
        "results": [{"op": "wait", "seconds": 0.25, "ok": True, "spare": None}],
        "caveats": ["the clock was not sampled"],
    }
    return evidence_book.make_record(tool, **{**data, **changes})


@pytest.fixture
def book(make_book: BookMaker, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A book whose day is 2026-11-20, with a record of every state."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795132800")
    cpu = {"label": "epyc", "cpu": {"model": "AMD EPYC", "sockets": 1, "cores": 2}}
    edited = make_record("meter", "2026-11-05").replace("0.25", "0.75")
    files = {
        "README.md": "# Preface\n\n<!-- table: quoted -->\n<!-- /table -->\n",
        "views/quoted.sql": VIEW.format(tool="timer", record="timer/a"),
        "timer.py": "METHOD = 1\n",
        "clock.py": "METHOD = 2\n",
        "scripts/records/timer/a.json": make_record("timer", "2026-11-01"),
        "scripts/records/timer/b.json": make_record("timer", "2026-10-01"),
        "scripts/records/timer/c.json": make_record("timer", "2026-11-02", machine=cpu),
        "scripts/records/timer/d.json": make_record("timer", "2024-01-01", nodes=2, ranks=16),
        "scripts/records/meter/e.json": edited,
        "scripts/records/meter/f.json": "{}",
        "scripts/records/clock/g.json": make_record(
            "clock", "2026-11-03", ended="timeout", exit_status=None, complete=False
        ),
    }
    tools = "".join(
        f"  {tool}: {{path: {tool}.py, output: measured}}\n" for tool in ("timer", "clock")
    )
    return make_book(files, f"tools:\n{tools}")


def read_rows(text: str) -> dict[str, list[str]]:
    """The cells of each row, by the first."""
    rows = [line.split("  ") for line in text.splitlines() if "/" in line]
    return {row[0]: [cell.strip() for cell in row if cell.strip()] for row in rows}


def test_every_record_is_listed_with_its_state(book: Path, run_bindery: Runner) -> None:
    """Method and that of today, hardware, age, how it ended, who quotes it, and the state."""
    ended = run_bindery("records", folder=book)
    assert (ended.status, ended.stderr) == (0, "")
    lines = ended.stdout.splitlines()
    head = "record method profile hardware ranks date days ended quoted by state"
    assert lines[0].split() == head.split()
    assert lines[-1] == "7 records"
    h100 = "8 x NVIDIA H100"
    rows = read_rows(ended.stdout)
    assert list(rows) == [
        "clock/g", "timer/d", "timer/b", "timer/a", "timer/c", "meter/e", "meter/f",
    ]  # fmt: skip
    assert rows["clock/g"][1:] == [
        "1 (now 2)", "full", h100, "1 on 1 node", "2026-11-03", "17", "partial: timeout", "nothing",
        "stale: method 1, but clock is now at 2",
    ]  # fmt: skip
    assert rows["timer/a"][1:] == [
        "1", "full", h100, "1 on 1 node", "2026-11-01", "19", "whole", "1 view in 1 chapter", "ok",
    ]  # fmt: skip
    assert rows["timer/b"][-1] == "superseded"
    assert rows["timer/c"][3:] == [
        "AMD EPYC, 1 socket, 2 cores", "1 on 1 node", "2026-11-02", "18", "whole", "nothing",
        "unused",
    ]  # fmt: skip
    assert rows["timer/d"][4] == "16 on 2 nodes"
    assert rows["timer/d"][-1] == "stale: measured on 2024-01-01, shelf life 730 days"
    assert rows["meter/e"][-1].startswith("edited: 'results.0.seconds' was changed")
    assert rows["meter/f"][-1].startswith("refused: ")


@pytest.mark.parametrize(
    ("arguments", "names", "status"),
    [
        (["--stale"], ["clock/g", "timer/d"], 1),
        (["--stale", "--tool", "timer"], ["timer/d"], 1),
        (["--unused"], ["clock/g", "timer/d", "timer/c"], 1),
        (["--unused", "--tool", "timer", "--machine", "nvidia"], ["timer/d"], 1),
        (["--tool", "clock"], ["clock/g"], 0),
        (["--machine", "h200"], [], 0),
    ],
)
def test_records_are_chosen(
    book: Path, run_bindery: Runner, arguments: list[str], names: list[str], status: int
) -> None:
    """By state, tool and a part of machine or hardware; stale and unused ones end with 1."""
    ended = run_bindery("records", *arguments, folder=book)
    assert list(read_rows(ended.stdout)) == names
    assert ended.status == status
    count = f"{len(names)} record" + ("" if len(names) == 1 else "s")
    assert ended.stdout.splitlines()[-1] == count


def test_a_failed_run_is_not_ok(book: Path, run_bindery: Runner) -> None:
    """A whole record whose tool had found a problem is listed as failed, though it is quoted."""
    failed = make_record("timer", "2026-11-01", ended="failed", exit_status=1)
    (book / "scripts/records/timer/a.json").write_text(failed)
    rows = read_rows(run_bindery("records", folder=book).stdout)
    assert rows["timer/a"][-3:] == ["failed", "1 view in 1 chapter", "failed"]


def test_a_list_of_records_is_no_use_of_them(book: Path, run_bindery: Runner) -> None:
    """A view of the table `records` quotes a record, whose results stay unused."""
    for name in "ef":  # where one is refused, the table of all is not given
        (book / f"scripts/records/meter/{name}.json").unlink()
    (book / "views/quoted.sql").write_text(VIEW.format(tool="records", record="timer/a"))
    rows = read_rows(run_bindery("records", "--tool", "timer", folder=book).stdout)
    assert rows["timer/a"][-2:] == ["1 view in 1 chapter", "unused"]


def test_a_list_is_json(book: Path, run_bindery: Runner) -> None:
    """--format json gives what the text gives, with null for what a refused file does not tell."""
    ended = run_bindery("records", "--format", "json", folder=book)
    rows = {row["record"]: row for row in json.loads(ended.stdout)}
    assert len(rows) == 7
    assert rows["timer/a"]["views"] == ["quoted"]
    assert rows["timer/a"]["chapters"] == ["README.md"]
    assert rows["clock/g"]["method_now"] == 2
    assert rows["clock/g"]["stale"] is True
    assert rows["meter/f"]["hardware"] is None
    empty = run_bindery("records", "--machine", "none", "--format", "json", folder=book)
    assert json.loads(empty.stdout) == []


def test_a_broken_view_leaves_unused_open(book: Path, run_bindery: Runner) -> None:
    """While a quoted view is broken nobody knows what it quotes, so no record is unused."""
    (book / "views/quoted.sql").write_text("-- title: T\n-- column x: X\nSELECT y ORDER BY 1\n")
    ended = run_bindery("records", "--unused", folder=book)
    assert (ended.status, ended.stdout) == (0, "0 records\n")


@pytest.mark.parametrize("name", ["timer/a", "scripts/records/timer/a.json", "timer/a.json"])
def test_one_record_is_shown_in_full(book: Path, run_bindery: Runner, name: str) -> None:
    """A record by name or path: what ran, when, on what, and every row in base units."""
    ended = run_bindery("records", name, folder=book)
    assert ended.status == 0
    assert ended.stdout == (
        "record     timer/a\n"
        "state      ok\n"
        "tool       timer 0.1.0, method 1\n"
        "profile    full\n"
        "command    python timer.py --all\n"
        "started    2026-11-01 10:00:00 UTC, 19 days ago\n"
        "took       1.5 s\n"
        "ended      whole, exit status 0\n"
        "hardware   8 x NVIDIA H100\n"
        "machine    h100-x8\n"
        "took part  1 node, 1 rank\n"
        "software   torch 2.13.0\n"
        "caveat     the clock was not sampled\n"
        "views      quoted\n"
        "chapters   README.md\n"
        "\n"
        "1 row, in base units, without values for spare:\n"
        "\n"
        "op    seconds [s]  ok\n"
        "wait  0.25         yes\n"
    )


def test_a_tool_is_not_a_record(book: Path, run_bindery: Runner) -> None:
    """Who asks for the record of a tool is told how to list its records."""
    ended = run_bindery("records", "timer", folder=book)
    assert ended.status == 2
    assert "the records of a tool: `bindery records --tool timer`" in ended.stderr
