"""Findings that a book lives with: what passes, what is reported, and a file that only shrinks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bindery.accepted import format_accepted, parse_accepted, sift_findings
from bindery.identity import identify_finding
from bindery.model import ConfigError, Finding, Span
from hypothesis import given
from hypothesis import strategies as st

if TYPE_CHECKING:
    from conftest import BookMaker, Runner

TWO_DEAD = "# A\n\n[one](one.md)\n\n[two](two.md)\n"


@pytest.fixture
def book(make_book: BookMaker) -> Path:
    return make_book({"README.md": TWO_DEAD})


def accept_all(run_bindery: Runner, book: Path) -> None:
    assert run_bindery("check", "--write-baseline", "accepted.jsonl", folder=book).status == 0


def find(line: int, col: int = 1, width: int = 1, path: str = "a.md") -> Finding:
    return Finding(Span(path, line, col, width), "dead-link", "gone")


def test_an_old_book_is_accepted_as_it_is(run_bindery: Runner, book: Path) -> None:
    """What was written down passes, is counted in the summary, and the exit status is 0."""
    written = run_bindery("check", "--write-baseline", "accepted.jsonl", folder=book)
    assert written.stderr == "accepted.jsonl: 2 findings accepted\n"
    ended = run_bindery("check", "--baseline", "accepted.jsonl", folder=book)
    assert (ended.status, ended.stderr) == (0, "")
    assert ended.stdout == "checked 2 links in 1 chapter: 0 errors, 0 warnings, 2 accepted\n"


def test_the_file_is_made_to_be_read(run_bindery: Runner, book: Path) -> None:
    """One finding a line, in order, with its words and without its line number."""
    accept_all(run_bindery, book)
    lines = (book / "accepted.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines == [
        '{"path": "README.md", "rule": "dead-link", "text": "[one](one.md)", "count": 1}',
        '{"path": "README.md", "rule": "dead-link", "text": "[two](two.md)", "count": 1}',
    ]


def test_lines_that_move_stay_accepted(run_bindery: Runner, book: Path) -> None:
    """New text above, other blanks, another end of a long paragraph: the finding is the same."""
    accept_all(run_bindery, book)
    text = f"# A\n\nNew text.\n\n{'Many words. ' * 20}\n" + TWO_DEAD.removeprefix("# A\n")
    (book / "README.md").write_text(text.replace("[two]", "   [two]"), encoding="utf-8")
    assert run_bindery("check", "--baseline", "accepted.jsonl", folder=book).status == 0


def test_a_new_finding_is_reported(run_bindery: Runner, book: Path) -> None:
    """Beside accepted findings a new one stands out, also one that repeats an accepted line."""
    accept_all(run_bindery, book)
    text = f"{TWO_DEAD}\n[three](three.md)\n\n[one](one.md)\n"
    (book / "README.md").write_text(text, encoding="utf-8")
    ended = run_bindery("check", "--baseline", "accepted.jsonl", "--format", "json", folder=book)
    assert ended.status == 1
    assert [row["line"] for row in json.loads(ended.stdout)] == [7, 9]


def test_what_is_gone_has_to_leave_the_file(run_bindery: Runner, book: Path) -> None:
    """An accepted finding that is not there any more is reported at its line of the file."""
    accept_all(run_bindery, book)
    (book / "README.md").write_text("# A\n\n[one](one.md)\n", encoding="utf-8")
    ended = run_bindery("check", "--baseline", "accepted.jsonl", folder=book)
    assert ended.status == 1
    assert ended.stdout == (
        "accepted.jsonl:2:1: warning[gone-finding]: "
        "'dead-link' is accepted in 'README.md', and is not there any more\n"
        "  |\n"
        '2 | {"path": "README.md", "rule": "dead-link", "text": "[two](two.md)", "count": 1}\n'
        f"  | {'^' * 79}\n"
        "  = help: take it out: `bindery check --write-baseline accepted.jsonl`\n"
        "\n"
        "checked 1 link in 1 chapter: 0 errors, 1 warning, 1 accepted\n"
    )


def test_the_file_only_shrinks(run_bindery: Runner, book: Path) -> None:
    """Written again, the file loses what is gone and takes in nothing new."""
    accept_all(run_bindery, book)
    text = "# A\n\n[one](one.md)\n\n[three](three.md)\n"
    (book / "README.md").write_text(text, encoding="utf-8")
    ended = run_bindery("check", "--write-baseline", "accepted.jsonl", folder=book)
    assert ended.status == 1
    assert "error[dead-link]: there is no file 'three.md'" in ended.stdout
    assert "gone-finding" not in ended.stdout
    rows = (book / "accepted.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(row)["text"] for row in rows] == ["[one](one.md)"]


def test_files_as_such_are_accepted(run_bindery: Runner, make_book: BookMaker) -> None:
    """Findings without a line, and those of data and records, are accepted like others."""
    files = {"README.md": "# A\n", "notes.txt": "", "forgotten.png": b"\x89PNG\r\n\x1a\n"}
    book = make_book({**files, "data/d.csv": "a\n", "data/d.yaml": "titel: D\n"})
    before = run_bindery("check", folder=book)
    assert "error[bad-data]" in before.stdout
    assert "[orphan-file]" in before.stdout
    accept_all(run_bindery, book)
    assert run_bindery("check", "--baseline", "accepted.jsonl", folder=book).status == 0


def test_a_name_that_is_not_utf8_is_accepted() -> None:
    """A file may have any name, and the list of what is accepted stays UTF-8."""
    finding = find(1, 1, 0, path="f\udcff.png")
    text = format_accepted([finding], lambda span: "")
    assert "f\\udcff.png" in text.encode().decode()
    sifted = sift_findings([finding], parse_accepted(text, "f"), lambda span: "")
    assert sifted.accepted == (finding,)


def test_other_chapters_keep_what_is_accepted(run_bindery: Runner, make_book: BookMaker) -> None:
    """Checking one chapter does not call gone what is accepted in another."""
    book = make_book({"a.md": "# A\n\n[x](gone.md)\n", "b.md": "# B\n\n[x](gone.md)\n"})
    accept_all(run_bindery, book)
    ended = run_bindery("check", "a.md", "--baseline", "accepted.jsonl", folder=book)
    assert ended.stdout == "checked 1 link in 1 chapter: 0 errors, 0 warnings, 1 accepted\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("<<<<<<< ours", "it is not a JSON object"),
        ("[1]", "it is not a JSON object"),
        ('{"path": "a.md", "rule": "x", "text": ""}', "'count' is missing"),
        ('{"path": "a.md", "rule": "x", "text": "", "count": 1, "line": 3}', "no key 'line'"),
        ('{"path": 1, "rule": "x", "text": "", "count": 1}', "'path' is not a text"),
        ('{"path": "a.md", "rule": "x", "text": "", "count": 0}', "'count' is not a number from 1"),
        (
            '{"path": "a.md", "rule": "x", "text": "", "count": true}',
            "'count' is not a number from 1",
        ),
        ('{"path": "b.md", "rule": "x", "text": "", "count": 2}', "accepted twice, here and in"),
    ],
)
def test_a_broken_file_is_told_with_its_line(
    run_bindery: Runner, book: Path, line: str, message: str
) -> None:
    """A line that is no accepted finding is wrong use, and is shown."""
    first = '{"path": "b.md", "rule": "x", "text": "", "count": 1}'
    (book / "accepted.jsonl").write_text(f"{first}\n\n{line}\n", encoding="utf-8")
    for option in ("--baseline", "--write-baseline"):
        ended = run_bindery("check", option, "accepted.jsonl", folder=book)
        assert (ended.status, ended.stdout) == (2, "")
        assert ended.stderr.startswith("accepted.jsonl:3:1: error[config]: ")
        assert message in ended.stderr
        assert f"3 | {line}" in ended.stderr


def test_a_missing_file_is_wrong_use(run_bindery: Runner, book: Path) -> None:
    """Without the file nothing is accepted by mistake: the program says how to write it."""
    ended = run_bindery("check", "--baseline", "accepted.jsonl", folder=book)
    assert ended.status == 2
    assert "bindery check --write-baseline accepted.jsonl" in ended.stderr
    (book / "accepted.jsonl").write_bytes(b"\xff\n")
    ended = run_bindery("check", "--baseline", "accepted.jsonl", folder=book)
    assert ended.status == 2
    assert "this is not UTF-8: byte 0xff" in ended.stderr


@pytest.mark.parametrize(
    "others", [("README.md",), ("--baseline", "other.jsonl"), ("--since", "HEAD"), ("--watch",)]
)
def test_only_the_whole_book_is_written_down(
    run_bindery: Runner, book: Path, others: tuple[str, ...]
) -> None:
    """A file written from a part of the findings would drop the others, so it is refused."""
    ended = run_bindery("check", "--write-baseline", "accepted.jsonl", *others, folder=book)
    assert ended.status == 2
    assert "--write-baseline" in ended.stderr
    assert not (book / "accepted.jsonl").exists()


def test_the_first_of_several_pass() -> None:
    """Of a finding that is there more often than accepted, the surplus is reported."""
    findings = [find(3), find(5), find(9)]
    lines = {3: "x", 5: "x", 9: "x"}
    text = format_accepted(findings[:2], lambda span: lines[span.line])
    entries = parse_accepted(text, "f")
    sifted = sift_findings(findings, entries, lambda span: lines[span.line])
    assert (sifted.fresh, sifted.gone) == ((findings[2],), ())
    sifted = sift_findings(findings[:1], entries, lambda span: lines[span.line])
    assert sifted.fresh == ()
    assert [f.message for f in sifted.gone] == [
        "'dead-link' is accepted 2 times in 'a.md', and is there 1"
    ]


lines_of_text = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], include_characters="\t"), max_size=60
)


@given(
    st.lists(st.tuples(lines_of_text, st.integers(1, 70), st.integers(0, 20)), max_size=6),
    st.integers(1, 50),
)
def test_what_is_written_is_read(rows: list[tuple[str, int, int]], shift: int) -> None:
    """Whatever stands in a book, what is accepted passes, all of it and wherever it has moved."""
    findings = [find(number, col, width) for number, (_, col, width) in enumerate(rows, start=1)]
    text = format_accepted(findings, lambda span: rows[span.line - 1][0])
    assert text == format_accepted(findings[::-1], lambda span: rows[span.line - 1][0])
    moved = [find(f.span.line + shift, f.span.col, f.span.width) for f in findings]
    sifted = sift_findings(
        moved, parse_accepted(text, "f"), lambda span: rows[span.line - 1 - shift][0]
    )
    assert (sifted.fresh, sifted.gone) == ((), ())
    assert len(sifted.accepted) == len(rows)


@given(lines_of_text, st.integers(1, 30), st.integers(1, 30))
def test_blanks_are_no_difference(line: str, col: int, width: int) -> None:
    """A table that is padded anew keeps the identity of its findings."""
    wide = "".join(" \t  " if c.isspace() else c for c in line)
    offsets = [0]
    for character in line:
        offsets.append(offsets[-1] + (4 if character.isspace() else 1))
    start, end = min(col - 1, len(line)), min(col - 1 + width, len(line))
    other = find(1, offsets[start] + 1, max(offsets[end] - offsets[start], 1))
    if start < end:
        assert identify_finding(other, wide) == identify_finding(find(1, col, width), line)


def test_a_parser_needs_no_file() -> None:
    """An empty file accepts nothing, and a wrong one names the path that it was given."""
    assert parse_accepted("", "f.jsonl") == ()
    with pytest.raises(ConfigError) as caught:
        parse_accepted("{", "f.jsonl")
    assert caught.value.findings[0].span == Span("f.jsonl", 1, 1, 1)
