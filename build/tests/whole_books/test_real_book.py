"""The book of this repository: nothing in it is false, as far as the rules can tell."""

import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bindery.check.rules import RULES
from bindery.core.config import load_config
from bindery.runs import verify
from browsers import find_violations
from demo_runs import DemoRun
from fixture_types import Runner
from whole_sites import WholeSite, serve_folder

ROOT = Path(__file__).resolve().parents[3]


def test_the_book_has_no_findings(run_bindery: Runner) -> None:
    """`bindery check` of our own book is clean, warnings included."""
    ended = run_bindery("check", folder=ROOT)
    assert (ended.status, ended.stderr) == (0, ""), ended.stdout


def test_the_tables_of_the_book_are_filled(run_bindery: Runner) -> None:
    """`bindery fill --check` has nothing to write."""
    ended = run_bindery("fill", "--check", folder=ROOT)
    assert ended.status == 0, ended.stdout


def test_the_site_of_the_book_is_complete(own_site: WholeSite) -> None:
    """The site of our own book passes its completeness proof."""
    report = json.loads((own_site.folder.parent / "report.json").read_text(encoding="utf-8"))
    assert report["outputs"]["site"]["complete"] is True


SIX_PAGES = {
    "the front page": "index.html",
    "the largest chapter": "",
    "the glossary": "resources/glossary/index.html",
    "where numbers come from": "records-and-sources/index.html",
    "a calculator": "tools/calculators/memory.html",
    "a tool": "tools/mamf_finder/index.html",
}


def test_six_pages_in_a_browser(
    own_site: WholeSite, open_tab: Callable[..., Any], axe: str
) -> None:
    """One page of each kind opens from the disk and does not scroll sideways on a phone; from a
    server axe-core finds no violation in it. Nothing is fetched from elsewhere, and nothing
    complains. The nightly tests look at all pages."""
    base = own_site.folder.as_uri()
    with serve_folder(own_site.folder) as address:
        from_disk, from_server = open_tab(base, width=390), open_tab(address)
        for kind, page in SIX_PAGES.items():
            from_disk.goto(f"{base}/{page or own_site.largest}")
            assert from_disk.evaluate("document.documentElement.scrollWidth") <= 390, kind
            assert from_disk.locator("main h1").count() == 1, kind
            from_server.goto(f"{address}/{page or own_site.largest}")
            assert find_violations(from_server, axe) == [], kind


def test_the_first_chapter_lists_all_others() -> None:
    """The table of the front page has every chapter once, in the order of the book."""
    text = (ROOT / "book/README.md").read_text(encoding="utf-8")
    table = text.partition("\n## Chapters\n")[2].partition("\n## ")[0]
    listed = re.findall(r"\[[^]]+\]\(([^)]+)\)", table)
    chapters = [entry.path.removeprefix("book/") for entry in load_config(ROOT, RULES).chapters]
    assert listed == chapters[1:]


@pytest.mark.torch
def test_the_tools_give_what_the_book_says(
    run_bindery: Runner, run_demo_once: Callable[..., DemoRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`bindery verify` finds every text to the letter and the demo results in shape. The demo runs
    are those that all tests of this session share."""
    run_limited = verify.run_limited

    def run_or_share(command: list[str], **options: Any) -> Any:
        if "--json" not in command:
            return run_limited(command, **options)
        done = run_demo_once(next(Path(word) for word in command if word.endswith(".py")))
        shutil.copy(done.json, command[command.index("--json") + 1])
        return run_limited([sys.executable, "-c", f"raise SystemExit({done.status})"], **options)

    monkeypatch.setattr(verify, "run_limited", run_or_share)
    ended = run_bindery("verify", folder=ROOT)
    assert ended.status == 0, ended.stderr
    tools = load_config(ROOT, RULES).tools
    texts = sum(len(tool.texts) for tool in tools)
    said = rf"verified {len(tools)} tools, {texts} texts, [1-9]\d* runs: 0 errors\n"
    assert re.fullmatch(said, ended.stdout)
