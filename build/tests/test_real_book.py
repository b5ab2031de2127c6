"""The book of this repository: nothing in it is false, as far as the rules can tell."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bindery.checks import RULES
from bindery.config import load_config

if TYPE_CHECKING:
    from conftest import Runner

ROOT = Path(__file__).resolve().parents[2]


def test_the_book_has_no_findings(run_bindery: Runner) -> None:
    """`bindery check` of our own book is clean, warnings included."""
    ended = run_bindery("check", folder=ROOT)
    assert (ended.status, ended.stderr) == (0, ""), ended.stdout


def test_the_tables_of_the_book_are_filled(run_bindery: Runner) -> None:
    """`bindery fill --check` has nothing to write."""
    ended = run_bindery("fill", "--check", folder=ROOT)
    assert ended.status == 0, ended.stdout


def test_the_site_of_the_book_is_complete(run_bindery: Runner, tmp_path: Path) -> None:
    """The site of our own book passes its completeness proof."""
    ended = run_bindery("html", "--out", str(tmp_path), folder=ROOT)
    assert ended.status == 0, ended.stderr
    assert "complete: " in ended.stdout


def test_the_first_chapter_lists_all_others() -> None:
    """The table of the front page has every chapter once, in the order of the book."""
    listed = re.findall(r"^\| \[[^]]+\]\(([^)]+)\) \|", (ROOT / "book/README.md").read_text(), re.M)
    chapters = [entry.path.removeprefix("book/") for entry in load_config(ROOT, RULES).chapters]
    assert listed == chapters[1:]


@pytest.mark.torch
def test_the_tools_give_what_the_book_says(run_bindery: Runner) -> None:
    """`bindery verify` finds every text to the letter and the toy results in shape."""
    ended = run_bindery("verify", folder=ROOT)
    assert ended.status == 0, ended.stderr
    tools = load_config(ROOT, RULES).tools
    texts = sum(len(tool.texts) for tool in tools)
    said = rf"verified {len(tools)} tools, {texts} texts, [1-9]\d* runs: 0 errors\n"
    assert re.fullmatch(said, ended.stdout)
