"""Which records are stale, which are history, and what is said of those that no table quotes."""

from typing import Any

import pytest
from bindery.check.inspect import inspect_book
from bindery.evidence.records import parse_record
from bindery.evidence.stale_records import find_newest
from bindery.tools.tool_source import read_method
from evidence_book import CHIPS, FILES, make_record
from fixture_types import BookMaker, Runner

RECORD = "timer/cpu-x86_64-2core_20261120"
QUOTATIONS = ("value", "value", "table")
"""Of that record, in order."""


# --- METHOD ---


@pytest.mark.parametrize(
    ("source", "method"),
    [
        ("METHOD = 3\n", 3),
        ("METHOD: Final[int] = 3\n", 3),
        ('"""A tool.\n\nMETHOD = 1 was wrong\nMETHOD = 1\n"""\nMETHOD = 3\n', 3),
        ("", 1),
        ("METHOD = BASE + 1\n", None),
        ("METHOD = 1\nMETHOD += 1\n", None),
        ("def f():\n    METHOD = 3\n", 1),
        ("METHOD = 3\nprint(\n", None),
    ],
)
def test_the_method_is_what_python_would_see(source: str, method: int | None) -> None:
    """METHOD is the whole number that the module is left with, 1 without one, else None."""
    assert read_method(source) == method


@pytest.mark.parametrize(
    ("path", "old", "new", "reason", "repair"),
    [
        ("scripts/timer.py", "= 1", "= BASE + 1", "timer declares no readable METHOD",
         "write a whole number for METHOD in the source of timer"),
        ("chapters.yaml", "  timer:\n", "  other:\n", "the book has no tool 'timer'",
         "list 'timer' under `tools` in chapters.yaml"),
    ],
)  # fmt: skip
def test_a_quoted_record_of_an_unknown_method_is_stale(
    make_book: BookMaker, run_bindery: Runner, path: str, old: str, new: str, reason: str,
    repair: str,
) -> None:  # fmt: skip
    """Nobody can tell whether a record still holds whose tool is gone or names no method; records
    of other tools are not stale."""
    root = make_book({**FILES, "scripts/ruler.py": "METHOD = 1\n"})
    run_bindery("fill", folder=root)
    assert inspect_book(root).findings == ()
    (root / path).write_text((root / path).read_text().replace(old, new))
    found = [finding for finding in inspect_book(root).findings if finding.rule == "old-method"]
    messages = [finding.message for finding in found]
    assert all(finding.help.startswith(f"{repair} and run") for finding in found)
    assert messages == [
        f"this {what} quotes '{RECORD}': method 1, but {reason}" for what in QUOTATIONS
    ]


# --- newest ---


def find_newest_of(**changes: dict[str, Any]) -> set[str]:
    """The newest of records that differ in what is given; the letters of their names are days."""
    records = {}
    for day, (name, change) in enumerate(changes.items(), 1):
        text = make_record("timer", started=f"2026-11-{day:02}T17:00:00Z", **change)
        record = parse_record(f"scripts/records/timer/{name}_20261120.json", text)
        assert not isinstance(record, (list, tuple)), record
        records[name] = record
    return set(find_newest(records))


@pytest.mark.parametrize(
    ("change", "newest"),
    [
        ({}, "c"),
        ({"profile": "demo"}, "bc"),
        ({"command": ["python", "scripts/timer.py"]}, "bc"),
        ({"environment": {"OMP_NUM_THREADS": "4"}}, "c"),
        ({"nodes": 2, "ranks": 2}, "bc"),
        ({"ended": "failed", "exit_status": 1}, "bc"),
        ({"ended": "timeout", "exit_status": None, "complete": False}, "bc"),
    ],
)
def test_a_later_whole_record_of_the_same_kind_replaces(
    change: dict[str, Any], newest: str
) -> None:
    """Another profile, command or number of nodes is another kind, and a failed or
    partial run leaves the whole one before it the newest, beside itself."""
    assert find_newest_of(a={}, b={}, c=change) == set(newest)


def test_an_option_is_the_same_with_hyphens() -> None:
    """Options of tools had underscores before 0.2."""
    old, new = (["python", "scripts/timer.py", f"--batch{mark}size=a_b"] for mark in "_-")
    assert find_newest_of(a={"command": old}, b={"command": new}) == {"b"}


# --- unused ---


def test_no_record_is_unused_while_a_chapter_is_not_read(make_book: BookMaker) -> None:
    """What a missing chapter quotes is not known, so no record is unused."""
    unquoted = CHIPS.replace("table: lengths", "table: chips")
    for chapter, found in ((unquoted, True), (None, False)):
        files = {k: v for k, v in {**FILES, "chips/README.md": chapter}.items() if v is not None}
        inspection = inspect_book(make_book(files, name=f"book{found}"))
        assert ("unused-record" in {finding.rule for finding in inspection.findings}) is found
