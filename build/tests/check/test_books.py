"""Whole books, each with one kind of defect, and the exact report that `bindery check` gives."""

import re
from pathlib import Path

import pytest
from bindery.check.inspect import inspect_book
from bindery.check.rules import RULES
from fixture_types import Runner
from needs import need

BOOKS = Path(__file__).parents[1] / "books"


def test_a_book_gets_exactly_this_report(
    broken_book: Path, run_bindery: Runner, pytestconfig: pytest.Config
) -> None:
    """The report of each book is known to the letter: places, carets, advice, exit status."""
    if broken_book.name == "broken-maths":
        need("python:latex2mathml", "python:ziamath")
    ended = run_bindery("check", folder=broken_book)
    actual = f"{ended.stdout}{ended.stderr}exit status {ended.status}\n"
    path = broken_book / "expected.txt"
    if pytestconfig.getoption("--update"):
        path.write_text(actual, encoding="utf-8")
    assert actual == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["unglossed-term", "dead-anchor", "unknown-flag", "stale-output"])
def test_one_chapter_alone_gives_the_same_findings(name: str) -> None:
    """The findings in a chapter are the same whether it is checked alone or with the book."""
    whole = inspect_book(BOOKS / name)
    for chapter in whole.book.chapters:
        alone = inspect_book(BOOKS / name, only=(chapter.path,))
        expected = [finding for finding in whole.findings if finding.span.path == chapter.path]
        assert [one for one in alone.findings if one.span.path == chapter.path] == expected


def test_every_rule_fires_and_every_book_is_used() -> None:
    """Each rule fires in at least one book, and each book is named for what fires in it."""
    fired: dict[str, set[str]] = {}
    for path in BOOKS.glob("*/expected.txt"):
        text = path.read_text(encoding="utf-8")
        fired[path.parent.name] = set(re.findall(r"^\S.*?: \w+\[([a-z0-9-]+)\]: ", text, re.M))
    assert set().union(*fired.values()) == {*RULES, "config"} - FIRES_WITH_HISTORY
    assert set(fired) == {path.name for path in BOOKS.iterdir() if path.is_dir()}
    misnamed = {
        name
        for name, rules in fired.items()
        if not (name in rules or name.startswith("config-") or name in NAMED_OTHERWISE)
    }
    assert misnamed == set()


FIRES_WITH_HISTORY = {"gutted-section"}
"""Needs a revision to be compared with; see test_since.py."""

NAMED_OTHERWISE = {"clean", "excuses", "severities"}
"""Books that show what several rules do together."""
