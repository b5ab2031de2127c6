"""Records: what is taken, and that nothing half true gets in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bindery.model import Finding
from bindery.records import Record, parse_record


def make_record(**changes: Any) -> str:
    record = {
        "schema": 1,
        "tool": "timer",
        "version": "0.1.0",
        "method": 1,
        "sha256": "0" * 64,
        "profile": "toy",
        "command": ["python", "timer.py"],
        "started": "2026-11-20T17:00:00Z",
        "seconds": 1.5,
        "exit_status": 0,
        "complete": True,
        "machine": {"label": "cpu", "cpu": {"model": None}, "memory_bytes": 1024},
        "software": {"torch": None},
        "results": [{"name": "a", "seconds": 0.25, "good": True, "spare": None}],
        "caveats": ["could not read clocks"],
        **changes,
    }
    return json.dumps({key: value for key, value in record.items() if value is not ...}, indent=1)


def read_finding(text: str) -> Finding:
    finding = parse_record("r.json", text)
    assert isinstance(finding, Finding)
    assert finding.rule == "bad-record"
    return finding


def test_a_whole_record_is_taken() -> None:
    """A record is read with its types: numbers stay numbers, true stays true, null stays null."""
    record = parse_record("r.json", make_record())
    assert isinstance(record, Record)
    assert record.results[0] == {"name": "a", "seconds": 0.25, "good": True, "spare": None}
    assert record.results[0]["good"] is True
    assert record.started.isoformat() == "2026-11-20T17:00:00+00:00"
    assert record.caveats == ("could not read clocks",)


@pytest.mark.parametrize(
    "field",
    (
        "schema tool version method sha256 profile command started seconds exit_status complete "
        "machine software results"
    ).split(),
)
def test_a_missing_field_is_named(field: str) -> None:
    """Every field of the schema is asked for by its name."""
    assert read_finding(make_record(**{field: ...})).message == f"'{field}': field required"


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"seconds": -1}, "seconds"),
        ({"seconds": "soon"}, "seconds"),
        ({"method": 0}, "method"),
        ({"method": 1.5}, "method"),
        ({"sha256": "abc"}, "sha256"),
        ({"tool": "Timer!"}, "tool"),
        ({"started": "2026-11-20T17:00:00"}, "started"),
        ({"started": "yesterday"}, "started"),
        ({"schema": 2}, "schema"),
        ({"machine": {"label": "my host", "cpu": {}}}, "machine.label"),
        ({"results": [{"a": [1, 2]}]}, "results.0.a"),
        ({"results": {"a": 1}}, "results"),
        ({"user": "me"}, "user"),
    ],
)
def test_a_wrong_value_is_named_with_its_line(changes: dict[str, Any], key: str) -> None:
    """What is wrong is named by its key, on the line where that stands."""
    text = make_record(**changes)
    finding = read_finding(text)
    assert f"'{key}" in finding.message
    assert f'"{key.split(".")[-1]}"' in text.split("\n")[finding.span.line - 1]


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_refused(word: str) -> None:
    """NaN and infinities are refused where they stand; null is the word for not known."""
    text = make_record(seconds="SECONDS").replace('"SECONDS"', word)
    finding = read_finding(text)
    assert finding.message == f"{word} is no number that can be compared; write null"
    assert word in text.split("\n")[finding.span.line - 1]


def test_a_number_too_large_is_refused() -> None:
    """1e999 is an infinity in disguise."""
    read_finding(make_record(seconds="SECONDS").replace('"SECONDS"', "1e999"))
    read_finding(make_record(results=[{"a": "A"}]).replace('"A"', "1e999"))


def test_a_repeated_key_is_refused() -> None:
    """JSON that says the same key twice is refused, for readers differ on which counts."""
    text = make_record().replace(' "profile"', ' "tool": "other",\n "profile"')
    assert read_finding(text).message == "the key 'tool' stands there twice"


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"record"', '{"schema": 1,}'])
def test_what_is_no_record_is_refused(text: str) -> None:
    """Anything but a JSON object of the schema is one finding, and no traceback."""
    read_finding(text)
