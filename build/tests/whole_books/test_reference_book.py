"""A large foreign book: every finding in it is known, so a new one is a change of ours.

The book is looked for beside the repository, or where BINDERY_REFERENCE_BOOK says.
"""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from bindery.check.rules import RULES
from fixture_types import Runner
from whole_sites import copy_reference_book

ROOT = Path(__file__).resolve().parents[3]

README = (ROOT / "build/docs/rules.md").read_text(encoding="utf-8")


@pytest.fixture
def reference(tmp_path: Path, run_bindery: Runner) -> Path:
    """A copy of the reference book with a chapters.yaml of our making."""
    target = tmp_path / "reference"
    copy_reference_book(target)
    ended = run_bindery("import", str(target), folder=tmp_path)
    assert ended.status == 0, ended.stderr
    return target


def read_findings(reference: Path, run_bindery: Runner) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(
        run_bindery("check", "--format", "json", folder=reference).stdout
    )
    return rows


def test_the_findings_are_known(
    reference: Path, run_bindery: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each rule fires as often as the table of rules says, where each finding has been judged."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1795219200")  # claims grow old: 2026-11-21
    rows = read_findings(reference, run_bindery)
    table = re.findall(r"^\| `([a-z0-9-]+)` \| \w+ \| .* \| (\d+) \| \d+ \|$", README, re.M)
    assert set(dict(table)) == set(RULES)
    assert Counter(row["rule"] for row in rows) == {r: int(n) for r, n in table if n != "0"}
    assert [(row["path"], row["line"]) for row in rows if row["rule"] == "dead-link"] == [
        ("compute/accelerator/README.md", 594),
        ("network/README.md", 568),
        ("orchestration/slurm/performance.md", 26),
    ]


def test_the_site_holds_the_whole_book(reference: Path, run_bindery: Runner) -> None:
    """Built leniently, the site has every heading, table, image and code block of the book."""
    ended = run_bindery("html", "--lenient", folder=reference)
    assert ended.status == 0, ended.stderr
    site = json.loads((reference / "dist/report.json").read_text())["outputs"]["site"]
    assert site["complete"] is True
    assert {kind: count["output"] for kind, count in site["totals"].items()} | {"links": 0} == {
        "headings": 661,
        "tables": 42,
        "figures": 79,
        "code_blocks": 625,
        "links": 0,
    }
    assert site["totals"]["links"]["output"] == site["totals"]["links"]["source"] > 1000
