"""The memory of links: how long answers count, and what a broken or killed run leaves."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from bindery.core.config import load_config
from bindery.web.answers import Answer
from bindery.web.memory import format_memory, is_fresh, open_memory, parse_memory

START = datetime(2026, 11, 1, tzinfo=UTC)
NAME = "links.jsonl"
WHOLE = {"url": "https://a.net/", "verdict": "live", "checked": "2026-11-20T10:00:00Z"}


def test_a_run_goes_on_after_a_torn_line(make_book: Callable[..., Path]) -> None:
    """The whole lines are kept, new answers are added, and the end of the run sorts the file and
    forgets what left the book."""
    root = make_book({"a.md": "# A\n"})
    path = root / NAME
    answers = [Answer(f"https://{name}.org/", "live", START, 200) for name in "cab"]
    path.write_text(f'{format_memory(answers[:2])}{{"url": "https://b')
    memory = open_memory(root, load_config(root, ()))
    memory.add(answers[2])
    assert set(parse_memory(NAME, path.read_bytes())) == {answer.url for answer in answers}
    memory.compact([answers[0].url, answers[2].url])
    assert path.read_text() == format_memory([answers[2], answers[0]])


@pytest.mark.parametrize(
    ("verdict", "days", "fresh"),
    [
        ("live", 29, True),
        ("live", 31, False),
        ("moved", 29, True),
        ("dead", 0.5, True),
        ("dead", 2, False),
        ("throttled", 0, False),
        ("unreachable", 0, False),
    ],
)
def test_answers_count_for_their_shelf_life(verdict: str, days: float, fresh: bool) -> None:
    """Good news counts for a month, bad news for a day, no answer not at all."""
    answer = Answer("https://a.org/", verdict, START)  # type: ignore[arg-type]
    assert is_fresh(answer, START + timedelta(days=days)) is fresh


@pytest.mark.parametrize(
    "line",
    [
        "<<<<<<< HEAD",
        "[]",
        "{}",
        json.dumps(WHOLE | {"verdict": "fine"}),
        json.dumps(WHOLE | {"checked": "2026-11-20T10:00:00"}),
    ],
)
def test_a_broken_line_is_reported(
    make_book: Callable[..., Path], run_bindery: Callable[..., object], line: str
) -> None:
    """A build stops with a finding for each line that is not an answer."""
    text = f"{json.dumps(WHOLE)}\n{line}\n\n{line}\n"
    root = make_book({"a.md": "# A\n\n<https://a.net/>\n", NAME: text})
    ended = run_bindery("html", folder=root)
    assert ended.status == 2
    message = "error[config]: this line of remembered links is invalid"
    assert f"links.jsonl:2:1: {message}" in ended.stderr
    assert f"links.jsonl:4:1: {message}" in ended.stderr
    assert not (root / "dist" / "site").exists()
