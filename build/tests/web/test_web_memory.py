"""What has to hold for every memory of links, and for every set of addresses that have moved."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bindery.check.inspect import inspect_book
from bindery.markdown.chapter_reader import parse_chapter
from bindery.web.answers import VERDICTS, Answer
from bindery.web.memory import format_answer, open_memory, parse_memory
from bindery.web.mending import plan_mending, write_mending
from hypothesis import given
from hypothesis import strategies as st

START = datetime(2026, 11, 1, tzinfo=UTC)
TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
URLS = st.sampled_from(
    [f"https://h{n}.org/{p}" for n in range(3) for p in ("", "a", "a/b", "\u00e4")]
)
ANSWERS = st.builds(
    Answer,
    URLS,
    st.sampled_from(VERDICTS),
    st.integers(0, 10**7).map(lambda seconds: START + timedelta(seconds=seconds)),
    st.sampled_from([0, 200, 404]),
    TEXT,
    st.sampled_from(["", "found", "missing", "unknown"]),
    TEXT,
    TEXT,
    TEXT,
)


@given(ANSWERS)
def test_an_answer_survives_being_written(answer: Answer) -> None:
    """An answer is one line, and reads as what it was."""
    line = format_answer(answer)
    assert "\n" not in line
    assert parse_memory("links.jsonl", f"{line}\n".encode()) == {answer.url: answer}


@given(st.lists(ANSWERS, max_size=12), st.sets(URLS), st.integers(0, 40))
def test_a_memory_keeps_the_last_answers_wherever_it_breaks_off(
    answers: list[Answer], urls: set[str], cut: int
) -> None:
    """Of each address the last whole line counts; sorting changes nothing, and forgets others."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "links.jsonl")
        whole = "".join(f"{format_answer(answer)}\n" for answer in answers).encode()
        data = whole[: len(whole) - cut] if cut else whole
        path.write_bytes(data)
        lines = list(_split_whole(data, answers))
        expected = {answer.url: answer for answer in lines}
        with open_memory(path, "links.jsonl") as memory:
            assert memory.known == expected
            extra = Answer("https://h0.org/", "live", START, 200)
            memory.add(extra)
            assert parse_memory("links.jsonl", path.read_bytes()) == expected | {extra.url: extra}
            memory.compact(urls)
        kept = {u: a for u, a in (expected | {extra.url: extra}).items() if u in urls}
        assert path.exists() == bool(kept)
        found = parse_memory("links.jsonl", path.read_bytes()) if kept else {}
        assert found == kept
        assert list(found) == sorted(kept)
        assert [entry.name for entry in Path(folder).iterdir()] == ["links.jsonl"] * bool(kept)


def _split_whole(data: bytes, answers: list[Answer]) -> Iterable[Answer]:
    """The answers whose lines are whole, with or without the end of the last."""
    rest = data
    for answer in answers:
        line = format_answer(answer).encode()
        if not rest.startswith(line):
            return
        yield answer
        rest = rest[len(line) + 1 :]


WORDS = st.sampled_from(
    ["word", "`https://h.org/a`", "https://h.org/a)", "**b**", "a|b", "\u00e4", "&amp;"]
)
PATHS = st.sampled_from(["a", "a/b", "a/b/c", "a(1)", "a?x=1&y=2", "a#f", "a/", "ab"])
FORMS = st.sampled_from(
    ["[t]({})", "[t](<{}> 'title')", "<{}>", '<a href="{}">x</a>', "![t]({})", "see {} there"]
)


@given(
    st.lists(
        st.tuples(WORDS, FORMS, PATHS, st.sampled_from([" ", "\n", "\r\n", "\n\n"])), max_size=8
    ),
    st.dictionaries(PATHS, PATHS),
)
def test_only_the_links_that_moved_are_written(
    pieces: list[tuple[str, str, str, str]], moves: dict[str, str]
) -> None:
    """Each link to an old address leads to the new one, every other link where it led before, and
    what stands between them is the same."""
    text = "# A\n\n" + "".join(
        f"{word} {form.format(f'https://h.org/{path}')}{end}" for word, form, path, end in pieces
    )
    targets = {f"https://h.org/{old}": f"https://new.org/{new}" for old, new in moves.items()}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        listed = "title: B\nparts:\n  - chapters:\n      - a.md\n"
        (root / "chapters.yaml").write_text(listed, "utf-8")
        (root / "a.md").write_bytes(text.encode())
        inspection = inspect_book(root)
        mending = plan_mending(inspection, targets)
        assert mending.findings == ()
        write_mending(root, mending)
        after = (root / "a.md").read_bytes().decode()
    (chapter,) = inspection.book.chapters
    links = parse_chapter("a.md", after.replace("\r\n", "\n")).links
    for before, now in zip(chapter.links, links, strict=True):
        wanted = targets.get(before.destination, before.destination)
        assert _decode(now.destination) == _decode(wanted)
    address = re.compile(r"https://(h|new)\.org/[\w/?=&;#()%]*")
    assert address.sub("", after) == address.sub("", text)


def _decode(url: str) -> str:
    return url.replace("%28", "(").replace("%29", ")").replace("&amp;", "&")
