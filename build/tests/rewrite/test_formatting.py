"""Formatting: sources are typed evenly, and what they say stays the same."""

import re

import pytest
from any_markdown import MARKDOWN
from bindery.book.markdown_files import make_document, read_source
from bindery.markdown.parser import make_parser
from bindery.rewrite.formatting.chapters import format_document
from conftest import Case
from fixture_types import BookMaker, Runner
from hypothesis import given
from hypothesis import strategies as st


def format_text(text: str) -> str:
    return format_document(make_document("a.md", text))[0]


@pytest.mark.cases("formatting.txt")
def test_sources_are_typed_evenly(case: Case) -> None:
    """Each construct becomes this text, and formatting that again changes nothing."""
    text, findings = format_document(make_document("a.md", case.given))
    case.expect("\n".join([text, *(f"{f.span.line}:{f.span.col} {f.message}" for f in findings)]))
    assert format_text(text) == text


def render(text: str) -> str:
    """The HTML of a text, its white space outside code made alike."""
    parts = re.split(r"(<pre>.*?</pre>)", make_parser().render(text), flags=re.DOTALL)
    return "".join(p if p.startswith("<pre>") else re.sub(r"\s+", " ", p) for p in parts)


@given(MARKDOWN)
def test_no_word_changes(text: str) -> None:
    """Whatever the text, it says the same words, is read the same way, and is done at once."""
    formatted = format_text(text)
    before, after = read_source(text), read_source(formatted)
    assert sorted(re.findall(r"\w+", after)) == sorted(re.findall(r"\w+", before))
    assert render(after) == render(before)
    assert format_text(formatted) == formatted


LINE_PARTS = [
    *("word", "2.", "+", "#", ">", "|", "---", "`a", "b`", "*c", "d*", "[e](", "f)", "<i", "x='"),
    *("'>", "  ", "\\", "[!NOTE]", "=", "[^1]:", "[r]:", "<!--", "-->", "&", "amp;", "$x", "y$"),
    *("$$", "$$x", "y$$", "\\\\", "%", "<br", "<a", 'title="', '">', "[^1]"),
]
WRAPPED = st.lists(
    st.lists(st.sampled_from(LINE_PARTS), min_size=1, max_size=4).map(" ".join),
    min_size=2,
    max_size=5,
).map("\n".join)


@given(WRAPPED, st.sampled_from(["", "> ", "- ", "1. "]))
def test_no_paragraph_changes(text: str, mark: str) -> None:
    """Whatever is at the end or the beginning of a line, joining lines changes no meaning."""
    text = f"{mark}{text}\n"
    formatted = format_text(text)
    words = [re.sub(r"[\s>|:-]+", " ", source).split() for source in (formatted, text)]
    assert words[0] == words[1]
    assert render(formatted) == render(text)
    assert format_text(formatted) == formatted


@given(MARKDOWN, st.sampled_from(["\r\n", "\r"]), st.sampled_from(["", "\ufeff"]))
def test_line_ends_stay(text: str, newline: str, mark: str) -> None:
    """Carriage returns and a byte order mark stay what they are."""
    text = read_source(text).removeprefix("\ufeff")
    formatted = format_text(mark + text.replace("\n", newline))
    assert formatted == mark + format_text(text).replace("\n", newline)


SOURCE = "# A\n\none\ntwo\n\n|a|\n|-|\n"


def test_the_command_writes_what_it_says(make_book: BookMaker, run_bindery: Runner) -> None:
    """`--check` shows a diff and ends with 1; without it the files are written, and once is
    enough."""
    root = make_book({"README.md": SOURCE, "b.md": "# B\n"})
    (root / "notes.md").write_text(SOURCE)
    ended = run_bindery("format", "--check", folder=root)
    assert ended.status == 1
    assert "-one\n-two\n+one two\n" in ended.stdout
    assert ended.stdout.endswith("would format 1 of 2 files\n")
    assert (root / "README.md").read_text() == SOURCE
    ended = run_bindery("format", folder=root)
    assert ended.status == 0
    assert ended.stdout == "README.md: formatted\nformatted 1 of 2 files\n"
    assert (root / "README.md").read_text() == "# A\n\none two\n\n| a   |\n| --- |\n"
    assert run_bindery("format", "--check", folder=root).status == 0
    assert (root / "notes.md").read_text() == SOURCE
    assert run_bindery("format", "notes.md", folder=root).status == 0
    assert (root / "notes.md").read_text() == (root / "README.md").read_text()


def test_ragged_rows_are_shown(make_book: BookMaker, run_bindery: Runner) -> None:
    """A ragged row is shown with its place, and the exit status is 1."""
    root = make_book({"README.md": "# A\n\n|a|b|\n|-|-|\n|1|\n"})
    ended = run_bindery("format", folder=root)
    assert ended.status == 1
    assert (
        "README.md:5:1: warning[unformatted]: this row has 1 cell, but the table has 2 columns"
        in ended.stdout
    )


def test_a_path_without_markdown_is_wrong_use(make_book: BookMaker, run_bindery: Runner) -> None:
    """A path that names no Markdown file is a usage error."""
    root = make_book({"README.md": "# A\n"})
    ended = run_bindery("format", "nowhere", folder=root)
    assert (ended.status, "there is no Markdown file at 'nowhere'" in ended.stderr) == (2, True)
