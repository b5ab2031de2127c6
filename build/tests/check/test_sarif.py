"""SARIF: what code scanners read, in the form that the standard prescribes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from bindery.check.rules import CHECKS
from bindery.check.sarif import format_sarif
from bindery.core.model import Finding, Severity, Span
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from conftest import BookMaker, Runner

BOOKS = Path(__file__).parents[1] / "books"


def shape(*required: str, **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


TEXT = {"type": "string", "minLength": 1}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
MESSAGE = shape("text", text=TEXT)
URI = {"type": "string", "format": "uri", "pattern": "^https://"}
POSITIVE = {"type": "integer", "minimum": 1}
PLACE = shape(
    "artifactLocation",
    "region",
    artifactLocation=shape(
        "uri",
        uri={"type": "string", "format": "uri-reference", "pattern": r"^[A-Za-z0-9._~%/-]+$"},
        uriBaseId={"const": "%SRCROOT%"},
    ),
    region=shape("startLine", startLine=POSITIVE, startColumn=POSITIVE, endColumn=POSITIVE),
)
RULE = shape(
    "id",
    "shortDescription",
    id=TEXT,
    shortDescription=MESSAGE,
    helpUri=URI,
    defaultConfiguration=shape("level", level=LEVEL),
)
RESULT = shape(
    "ruleId",
    "ruleIndex",
    "level",
    "message",
    "locations",
    "partialFingerprints",
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": 0},
    level=LEVEL,
    message=MESSAGE,
    locations={
        "type": "array",
        "minItems": 1,
        "items": shape("physicalLocation", physicalLocation=PLACE),
    },
    partialFingerprints={"type": "object", "minProperties": 1, "additionalProperties": TEXT},
)
DRIVER = shape(
    "name",
    "version",
    "rules",
    name={"const": "bindery"},
    version=TEXT,
    informationUri=URI,
    rules={"type": "array", "items": RULE},
)
RUN = shape(
    "tool",
    "results",
    tool=shape("driver", driver=DRIVER),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results={"type": "array", "items": RESULT},
)
LOG = shape(
    "version",
    "runs",
    **{"$schema": URI, "version": {"const": "2.1.0"}},
    runs={"type": "array", "minItems": 1, "maxItems": 1, "items": RUN},
)
"""The part of the schema of SARIF 2.1.0 that bindery writes, and what GitHub asks for beyond it;
other properties than these are none of the standard or none of ours."""


def read_results(ended_stdout: str) -> list[dict[str, Any]]:
    log = json.loads(ended_stdout)
    jsonschema.validate(log, LOG)
    (run,) = log["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert all(rules[r["ruleIndex"]]["id"] == r["ruleId"] for r in run["results"])
    results: list[dict[str, Any]] = run["results"]
    return results


def find_place(result: dict[str, Any]) -> dict[str, Any]:
    place: dict[str, Any] = result["locations"][0]["physicalLocation"]
    return place


def fingerprints(results: list[dict[str, Any]]) -> list[str]:
    return [next(iter(r["partialFingerprints"].values())) for r in results]


@pytest.mark.parametrize("name", ["clean", "dead-link", "missing-alt", "bad-data", "excuses"])
def test_each_report_is_sarif(run_bindery: Runner, name: str) -> None:
    """Each finding is a result with rule, level and place; the summary is separate."""
    folder = BOOKS / name
    expected = json.loads(run_bindery("check", "--format", "json", folder=folder).stdout)
    ended = run_bindery("check", "--format", "sarif", folder=folder)
    results = read_results(ended.stdout)
    assert ended.stderr.startswith("checked ")
    assert ended.status == bool(expected)
    assert [(r["ruleId"], r["level"], find_place(r)["region"]["startLine"]) for r in results] == [
        (row["rule"], row["severity"], row["line"]) for row in expected
    ]


def test_all_rules_are_described() -> None:
    """A scanner is told of each rule: what it promises, how much it weighs, where to read on."""
    log = json.loads(format_sarif([], CHECKS, lambda span: ""))
    jsonschema.validate(log, LOG)
    rules = log["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.id for rule in CHECKS]
    assert all(rule["shortDescription"]["text"] for rule in rules)
    assert all(rule["helpUri"].endswith("/build/docs/rules.md") for rule in rules)


def test_columns_are_counted_in_utf_16() -> None:
    """A character beyond the first 65,536 counts twice, as editors that read SARIF count it."""
    line = "\N{ROCKET}\N{ROCKET} [x](y)"
    finding = Finding(Span("a.md", 1, 4, 6), "dead-link", "gone")
    (result,) = read_results(format_sarif([finding], CHECKS, lambda span: line))
    region = find_place(result)["region"]
    units = line.encode("utf-16-le")
    start, end = 2 * (region["startColumn"] - 1), 2 * (region["endColumn"] - 1)
    assert units[start:end].decode("utf-16-le") == "[x](y)"


@given(st.text(max_size=30), st.integers(1, 40), st.integers(0, 40))
def test_any_place_is_a_region(line: str, col: int, width: int) -> None:
    """Also a place beyond the end of its line is told in columns from 1 that do not run back."""
    finding = Finding(Span("a.md", 1, col, width), "dead-link", "gone")
    (result,) = read_results(format_sarif([finding], CHECKS, lambda span: line))
    region = find_place(result)["region"]
    assert region.get("endColumn", 1) >= region.get("startColumn", 1)


def test_paths_are_addresses() -> None:
    """What an address may not hold is escaped, also a name that is not UTF-8."""
    for path, uri in {
        "a b/ü#1%.md": "a%20b/%C3%BC%231%25.md",
        "f\udcff.png": "f%FF.png",
        "a,b:c.md": "a%2Cb%3Ac.md",
    }.items():
        finding = Finding(Span.whole(path), "orphan-file", "gone", "", Severity.WARNING)
        (result,) = read_results(format_sarif([finding], CHECKS, lambda span: ""))
        assert find_place(result)["artifactLocation"]["uri"] == uri


def test_paths_begin_at_the_repository(run_bindery: Runner, tmp_path: Path) -> None:
    """A book in a folder of a repository gives paths as its scanner knows them; annotations too."""
    shutil.copytree(BOOKS / "dead-link", tmp_path / "docs/book")
    (tmp_path / ".git").mkdir()
    ended = run_bindery("check", "--format", "sarif", folder=tmp_path / "docs/book")
    paths = {find_place(r)["artifactLocation"]["uri"] for r in read_results(ended.stdout)}
    assert paths == {"docs/book/README.md", "docs/book/network/README.md"}
    ended = run_bindery("check", "--format", "github", folder=tmp_path / "docs/book")
    assert ended.stdout.startswith("::error file=docs/book/README.md,")


def test_a_finding_that_moves_stays_the_same(run_bindery: Runner, make_book: BookMaker) -> None:
    """Fingerprints outlive new lines above; equal findings of one file are told apart."""
    text = "\n[x](gone.md)\n\n[x](gone.md)\n\n[y](gone.md)\n"
    first = run_bindery("check", "--format", "sarif", folder=make_book({"a.md": f"# A\n{text}"}))
    root = make_book({"a.md": f"# A\n\nNew.\n\nNew.\n{text}"})
    second = run_bindery("check", "--format", "sarif", folder=root)
    before, after = (read_results(ended.stdout) for ended in (first, second))
    assert find_place(before[0]) != find_place(after[0])
    assert fingerprints(before) == fingerprints(after)
    assert len(set(fingerprints(before))) == 3


def test_rules_of_commands_are_told_too() -> None:
    """A finding under a rule that no check has, such as a gone one, still names a rule."""
    finding = Finding(Span("accepted.jsonl", 1), "gone-finding", "gone", "", Severity.WARNING)
    (result,) = read_results(format_sarif([finding], CHECKS, lambda span: "x"))
    assert result["ruleId"] == "gone-finding"
