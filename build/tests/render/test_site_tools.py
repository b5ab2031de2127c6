"""The pages of tools in the site."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bindery.check.rules import RULES
from bindery.core.config import load_config
from bindery.evidence.compare.find import compare_with_book
from evidence_book import EPOCH, FILES, make_record
from fixture_types import BookMaker, Runner
from lxml import html as lxml_html

TIMER = '''\
"""How long does <it> take?

It takes a while, says `--help`.

## Physics

    time = work / rate

## Records

Of the docstring, not of runs.
"""
METHOD = 1
COMPARE = {"keys": ["name"], "value": "seconds", "better": "lower"}
raise SystemExit("nobody runs this")
'''
RECORD = "scripts/records/timer/cpu-x86_64-2core_20261120"
TOOL_FILES = {
    **FILES,
    "chapters.yaml": FILES["chapters.yaml"] + "  plain:\n    path: scripts/plain.sh\n",
    "README.md": FILES["README.md"] + "\nRun `python scripts/timer.py`.\n",
    "scripts/timer.py": TIMER,
    "scripts/plain.sh": "echo 'hi\n",
    "scripts/records/timer/help.txt": "usage: timer.py [-h] <file>\n",
    f"{RECORD}_2.json": make_record(
        "timer",
        started="2026-11-21T17:00:00Z",
        units={"seconds": "s", "size": "B", "share": "1"},
        results=[
            {"name": "third", "seconds": 0.0025, "size": 65536, "share": 0.25, "kind": "a"},
            {"name": "fourth", "seconds": 0.01234, "size": 131072, "share": None, "kind": "a"},
        ],
    ),
}


@pytest.fixture
def build(
    make_book: BookMaker, run_bindery: Runner, monkeypatch: pytest.MonkeyPatch
) -> Callable[[dict[str, str]], Path]:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)

    def make(files: dict[str, str]) -> Path:
        root = make_book(files)
        assert run_bindery("fill", folder=root).status == 0
        ended = run_bindery("html", folder=root)
        assert ended.status == 0, ended.stderr
        return root / "dist" / "site"

    return make


def read_text(path: Path) -> str:
    page = lxml_html.parse(str(path), lxml_html.HTMLParser(encoding="utf-8"))
    return re.sub(r"\s+", " ", page.getroot().find(".//article").text_content())


def test_a_tool_has_a_page_with_all_that_is_known_of_it(
    build: Callable[[dict[str, str]], Path],
) -> None:
    """Question, docstring, help, example in good units, records, values and chapters stand there;
    file and records can be downloaded as they are."""
    site = build(TOOL_FILES)
    folder = site / "tools" / "timer"
    text = read_text(folder / "index.html")
    for said in (
        "How long does <it> take?",
        "It takes a while, says --help.",
        "time = work / rate",
        "usage: timer.py [-h] <file>",
        "Same in all rows: kind a.",
        "cpu-x86_64-2core_20261120_2",
        "seconds; lower is better.",
        hashlib.sha256(TIMER.encode()).hexdigest(),
    ):
        assert said in text, said
    page = (folder / "index.html").read_text()
    ids = re.findall(r'\bid="([^"]*)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= set(ids)
    assert ">seconds, ms<" in page
    assert ">2.500<" in page
    assert ">12.340<" in page or ">12.34<" in page
    assert ">size, KiB<" in page
    assert (folder / "timer.py").read_text() == TIMER
    for name in ("", "_2"):
        copied = folder / "records" / f"cpu-x86_64-2core_20261120{name}.json"
        assert copied.read_text() == TOOL_FILES[f"{RECORD}{name}.json"]
    assert 'href="../../index.html">Preface' in page


def test_tools_are_found(build: Callable[[dict[str, str]], Path]) -> None:
    """Menu, catalogue, front page, search, llms.txt and the map of the site lead to them."""
    config = 'site: "https://example.org/b"\n' + TOOL_FILES["chapters.yaml"]
    site = build({**TOOL_FILES, "chapters.yaml": config})
    assert (
        '<a href="../tools/index.html">Tools by question' in (site / "chips/index.html").read_text()
    )
    assert '<a href="tools/index.html">All tools</a>' in (site / "index.html").read_text()
    assert "How long does <it> take?" in read_text(site / "tools/index.html")
    index = (site / "search-index.js").read_text().removeprefix("window.searchIndex = ")
    pages = {page: title for page, title, *_ in json.loads(index.rstrip(";\n"))["pages"]}
    assert pages["tools/timer/index.html"] == "timer"
    assert (
        "- [timer](https://example.org/b/tools/timer/timer.py): How long"
        in (site / "llms.txt").read_text()
    )
    assert "<loc>https://example.org/b/tools/timer/</loc>" in (site / "sitemap.xml").read_text()


def test_a_book_without_tools_has_no_such_pages(build: Callable[[dict[str, str]], Path]) -> None:
    """Nothing speaks of tools where there are none."""
    site = build({"chapters.yaml": "title: B\nparts: [{chapters: [a.md]}]\n", "a.md": "# A\n"})
    assert not (site / "tools").exists()
    assert "Tools" not in (site / "a.html").read_text()


# --- in a browser ---

RUN = {
    "tool": "timer",
    "version": "0.1.0",
    "method": 1,
    "started": "2026-11-30T17:00:00Z",
    "seconds": 1.0,
    "complete": True,
    "units": {"seconds": "s"},
    "results": [
        {"name": "third", "seconds": 0.0024},
        {"name": "fourth", "seconds": 0.05},
        {"name": "fifth", "seconds": 0.05},
    ],
}


@pytest.mark.nightly
def test_a_readers_run_stands_beside_ours(
    open_tab: Callable[..., Any], build: Callable[[dict[str, str]], Path], tmp_path: Path
) -> None:
    """The page says of a run what `bindery compare` finds; other tools and methods are refused."""
    site = build(TOOL_FILES)
    page = open_tab("file:")
    page.goto((site / "tools/timer/index.html").as_uri())
    mine = json.loads(make_record("timer", results=RUN["results"]))
    older = {**RUN, "results": [{"name": "first", "seconds": 0.2}]}
    for number, given in enumerate((RUN, mine, older)):
        file = tmp_path / f"yours{number}.json"
        file.write_text(json.dumps(given))
        expected = compare_with_book(load_config(site.parents[1], RULES), str(file))
        page.set_input_files("#yours-file", str(file))
        page.wait_for_function(
            f"window.comparison?.rows[0].yours === {given['results'][0]['seconds']}"
        )
        found = page.evaluate(
            """() => [comparison.record.name, comparison.ratio, comparison.margin,
                comparison.verdict, comparison.leftOut,
                comparison.rows.map((r) => [r.yours, r.recorded, r.margin, r.verdict])]"""
        )
        rows = [[r.yours, r.recorded.value, r.margin, str(r.verdict)] for r in expected.rows]
        assert found[0] == expected.reference.name
        assert found[1:3] == pytest.approx([expected.ratio, expected.margin], rel=1e-12)
        assert found[3] == expected.verdict
        assert found[4] == list(expected.left_out)
        assert sorted(found[5]) == sorted(rows)
        assert page.locator(".verdict tbody tr").count() == len(rows)
        assert page.locator("svg.strip path.yours").count() == len(rows)
        words = sorted(page.locator(".verdict td:last-child").all_text_contents())
        head = page.locator(".verdict strong").inner_text()
        if given is mine:
            assert words == ["as expected", "far slower"]
            assert "slower than expected" in head
        elif given is RUN:  # its hardware is unknown
            assert words == ["not judged", "not judged"]
            assert "not judged" in head
            said = page.get_by_text("The record has no spread: ± 5.0 % is assumed there")
            assert said.is_visible()
    for number, (given, said) in enumerate(
        (
            ("{", "This file is not JSON"),
            ("[]", "This file names no tool"),
            (json.dumps({**RUN, "tool": "ruler"}), "This file is from ruler"),
            (json.dumps({**RUN, "method": 2}), "Your run used method 2"),
            (json.dumps({**RUN, "results": 3}), "This file has no results"),
            (json.dumps({**mine, "ranks": 8}), "is of 1 rank; yours is of 8 ranks."),
            (json.dumps({**RUN, "results": []}), "None of your rows can be compared"),
        )
    ):
        file = tmp_path / f"refused{number}.json"
        file.write_text(given)
        page.set_input_files("#yours-file", str(file))
        page.get_by_text(said).wait_for(state="visible")
        assert not page.locator(".verdict table").count()
