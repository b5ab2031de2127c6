"""SARIF: what code scanners read, in the form that the standard prescribes."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from bindery.check.rules import CHECKS
from bindery.check.sarif import format_sarif
from bindery.core.model import Finding, Span
from fixture_types import BookMaker, Runner

BOOKS = Path(__file__).parents[1] / "books"


def read_results(ended_stdout: str) -> list[dict[str, Any]]:
    log = json.loads(ended_stdout)
    assert log["version"] == "2.1.0"
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


@pytest.mark.parametrize("name", ["clean", "missing-alt", "bad-data"])
def test_each_report_is_sarif(run_bindery: Runner, name: str) -> None:
    """Each finding is a result with rule, level and place; the summary is separate. Every rule is
    described."""
    folder = BOOKS / name
    expected = json.loads(run_bindery("check", "--format", "json", folder=folder).stdout)
    ended = run_bindery("check", "--format", "sarif", folder=folder)
    results = read_results(ended.stdout)
    rules = json.loads(ended.stdout)["runs"][0]["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == [rule.id for rule in CHECKS]
    assert ended.stderr.startswith("checked ")
    assert ended.status == bool(expected)
    assert [(r["ruleId"], r["level"], find_place(r)["region"]["startLine"]) for r in results] == [
        (row["rule"], row["severity"], row["line"]) for row in expected
    ]


def test_a_result_has_the_form_of_the_standard() -> None:
    """Rule, level, message, place and fingerprint, named as SARIF 2.1.0 names them."""
    finding = Finding(Span("a.md", 1, 4, 6), "dead-link", "gone", "mend it")
    (result,) = read_results(format_sarif([finding], lambda span: "an [x](y)"))
    assert result == {
        "ruleId": "dead-link",
        "ruleIndex": [rule.id for rule in CHECKS].index("dead-link"),
        "level": "error",
        "message": {"text": "gone\nmend it"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": "a.md", "uriBaseId": "%SRCROOT%"},
                    "region": {"startLine": 1, "startColumn": 4, "endColumn": 10},
                }
            }
        ],
        "partialFingerprints": result["partialFingerprints"],
    }
    assert list(result["partialFingerprints"]) == ["findingIdentity/v1"]


def test_columns_are_counted_in_utf_16() -> None:
    """A character beyond the first 65,536 counts twice, as editors that read SARIF count it."""
    line = "\N{ROCKET}\N{ROCKET} [x](y)"
    finding = Finding(Span("a.md", 1, 4, 6), "dead-link", "gone")
    (result,) = read_results(format_sarif([finding], lambda span: line))
    region = find_place(result)["region"]
    units = line.encode("utf-16-le")
    start, end = 2 * (region["startColumn"] - 1), 2 * (region["endColumn"] - 1)
    assert units[start:end].decode("utf-16-le") == "[x](y)"


def test_paths_are_addresses() -> None:
    """What an address may not hold is escaped, also a name that is not UTF-8."""
    finding = Finding(Span.whole("a b/ü#1%,\udcff.png"), "orphan-file", "gone")
    (result,) = read_results(format_sarif([finding], lambda span: ""))
    uri = find_place(result)["artifactLocation"]["uri"]
    assert uri == "a%20b/%C3%BC%231%25%2C%FF.png"


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
