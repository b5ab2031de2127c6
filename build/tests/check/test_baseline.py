"""Findings that a book lives with: what passes, what is reported, and a file that only shrinks."""

import json
from collections import Counter
from pathlib import Path

import pytest
from bindery.check.finding_identity import identify_finding
from bindery.core.model import Finding, Span
from fixture_types import BookMaker, Runner

TWO_DEAD = "# A\n\n[one](one.md)\n\n[two](two.md)\n"


@pytest.fixture
def book(make_book: BookMaker) -> Path:
    return make_book({"README.md": TWO_DEAD})


def accept_all(run_bindery: Runner, book: Path) -> None:
    assert run_bindery("check", "--write-baseline", "accepted.jsonl", folder=book).status == 0


def test_an_old_book_is_accepted_as_it_is(run_bindery: Runner, book: Path) -> None:
    """Written down, one finding per line with its words and without its line number, findings
    pass, are counted in the summary, and the exit status is 0."""
    written = run_bindery("check", "--write-baseline", "accepted.jsonl", folder=book)
    assert written.stderr == "accepted.jsonl: 2 findings accepted\n"
    ended = run_bindery("check", "--baseline", "accepted.jsonl", folder=book)
    assert (ended.status, ended.stderr) == (0, "")
    assert ended.stdout == "checked 2 links in 1 chapter: 0 errors, 0 warnings, 2 accepted\n"
    lines = (book / "accepted.jsonl").read_text(encoding="utf-8").splitlines()
    assert lines == [
        '{"path": "README.md", "rule": "dead-link", "text": "[one](one.md)", "count": 1}',
        '{"path": "README.md", "rule": "dead-link", "text": "[two](two.md)", "count": 1}',
    ]


def test_a_new_finding_is_reported(run_bindery: Runner, book: Path) -> None:
    """Beside accepted findings a new one is seen, also one that repeats an accepted line."""
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
        "'dead-link' is accepted in 'README.md', but no longer occurs\n"
        "  |\n"
        '2 | {"path": "README.md", "rule": "dead-link", "text": "[two](two.md)", "count": 1}\n'
        f"  | {'^' * 79}\n"
        "  = help: remove it: `bindery check --write-baseline accepted.jsonl`\n"
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


def test_other_chapters_keep_what_is_accepted(run_bindery: Runner, make_book: BookMaker) -> None:
    """Checking one chapter does not call gone what is accepted in another."""
    book = make_book({"a.md": "# A\n\n[x](gone.md)\n", "b.md": "# B\n\n[x](gone.md)\n"})
    accept_all(run_bindery, book)
    ended = run_bindery("check", "a.md", "--baseline", "accepted.jsonl", folder=book)
    assert ended.stdout == "checked 1 link in 1 chapter: 0 errors, 0 warnings, 1 accepted\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("<<<<<<< ours", "not an accepted finding"),
        ('{"path": "a.md", "rule": "x", "text": "", "count": 0}', "not an accepted finding"),
        ('{"path": "b.md", "rule": "x", "text": "", "count": 2}', "accepted twice, here and on"),
    ],
)
def test_a_broken_file_is_told_with_its_line(
    run_bindery: Runner, book: Path, line: str, message: str
) -> None:
    """A line that is not an accepted finding is a usage error, and is shown."""
    first = '{"path": "b.md", "rule": "x", "text": "", "count": 1}'
    (book / "accepted.jsonl").write_text(f"{first}\n\n{line}\n", encoding="utf-8")
    for option in ("--baseline", "--write-baseline"):
        ended = run_bindery("check", option, "accepted.jsonl", folder=book)
        assert (ended.status, ended.stdout) == (2, "")
        assert ended.stderr.startswith("accepted.jsonl:3:1: error[config]: ")
        assert message in ended.stderr
        assert f"3 | {line[:60]}" in ended.stderr


@pytest.mark.parametrize(
    "others", [("README.md",), ("--baseline", "other.jsonl"), ("--since", "HEAD")]
)
def test_only_the_whole_book_is_written_down(
    run_bindery: Runner, book: Path, others: tuple[str, ...]
) -> None:
    """A file written from a part of the findings would drop the others, so it is refused."""
    ended = run_bindery("check", "--write-baseline", "accepted.jsonl", *others, folder=book)
    assert ended.status == 2
    assert "--write-baseline" in ended.stderr
    assert not (book / "accepted.jsonl").exists()


def test_files_as_such_are_told_apart() -> None:
    """Two findings about a file as such are different ones, unless only a number differs."""
    messages = ("no schema for 3 columns", "no schema for 1,4 columns", "the file is empty")
    found = [Finding(Span.whole("a.csv"), "bad-data", message) for message in messages]
    first, second, third = (identify_finding(finding, "") for finding in found)
    assert first == second != third


# --- the list that chapters.yaml names ---


LISTED = {
    "README.md": "# A\n\nOne and\n[two](two.md) or\n[three](three.md)\n\n[one](one.md)\n",
    "docs/b.md": "# B\n\n[z] [back](../README.md)\n\n[o](o.md)\nand [a]\n\n[z]: z.md\n[a]: a.md\n",
}


@pytest.fixture
def listed(make_book: BookMaker, run_bindery: Runner) -> Path:
    """A book that names its list, in which all but two findings are accepted."""
    book = make_book(LISTED, extra="baseline: accepted.jsonl\n")
    accept_all(run_bindery, book)
    rows = (book / "accepted.jsonl").read_text().splitlines(keepends=True)
    kept = [row for row in rows if '"[three]' not in row and "[z] [back]" not in row]
    assert len(kept) == len(rows) - 2
    (book / "accepted.jsonl").write_text("".join(kept))
    return book


def read_fresh(run_bindery: Runner, book: Path) -> Counter[tuple[str, str]]:
    """What the check reports, by rule and message."""
    ended = run_bindery("check", "--format", "json", folder=book)
    return Counter((row["rule"], row["message"]) for row in json.loads(ended.stdout))


def test_the_list_of_the_book_is_heeded(run_bindery: Runner, make_book: BookMaker) -> None:
    """What the named list accepts passes without an option, in the check and in builds; a new
    error stops a build, unless it is lenient. Another list given on the command line wins."""
    book = make_book({"README.md": TWO_DEAD}, extra="baseline: accepted.jsonl\n")
    accept_all(run_bindery, book)
    ended = run_bindery("check", folder=book)
    assert (ended.status, ended.stderr) == (0, "")
    assert ended.stdout.endswith("0 errors, 0 warnings, 2 accepted\n")
    ended = run_bindery("html", "--quiet", folder=book)
    assert (ended.status, ended.stderr) == (0, "")
    (book / "other.jsonl").write_text("")
    assert run_bindery("check", "--baseline", "other.jsonl", folder=book).status == 1
    (book / "README.md").write_text("# A\n\n[one](one.md)\n\n[three](three.md)\n")
    ended = run_bindery("html", "--quiet", folder=book)
    assert ended.status == 1
    assert "1 error, 1 warning, 1 accepted" in ended.stderr
    assert run_bindery("html", "--quiet", "--lenient", folder=book).status == 0


def test_a_list_that_is_not_there_is_named_where_it_stands(
    run_bindery: Runner, make_book: BookMaker
) -> None:
    """A list that is missing is a usage error, shown in chapters.yaml with what to do."""
    book = make_book({"README.md": TWO_DEAD}, extra="baseline: lists/accepted.jsonl\n")
    for verb in ("check", "html"):
        ended = run_bindery(verb, folder=book)
        assert ended.status == 2
        assert "chapters.yaml:2:11: error[config]: there is no baseline 'lists/acc" in ended.stderr
        assert "bindery check --write-baseline lists/accepted.jsonl" in ended.stderr
    ended = run_bindery("check", "--baseline", "accepted.jsonl", folder=book)
    assert ended.status == 2
    assert "bindery check --write-baseline accepted.jsonl" in ended.stderr
    (book / "accepted.jsonl").write_bytes(b"\xff\n")
    ended = run_bindery("check", "--baseline", "accepted.jsonl", folder=book)
    assert ended.status == 2
    assert "this is not UTF-8: byte 0xff" in ended.stderr


def test_accepted_findings_follow_a_move(run_bindery: Runner, listed: Path) -> None:
    """After a move the same findings are accepted, under their new paths and words; moving back
    gives the same list. The list itself can move as well."""
    before, text = read_fresh(run_bindery, listed), (listed / "accepted.jsonl").read_text()
    run_bindery("mv", "accepted.jsonl", "lists/known.jsonl", folder=listed)
    assert "baseline: lists/known.jsonl\n" in (listed / "chapters.yaml").read_text()
    run_bindery("mv", "lists/known.jsonl", "accepted.jsonl", folder=listed)
    ended = run_bindery("mv", "docs/b.md", "far/off/c.md", folder=listed)
    assert ended.stdout.endswith("accepted.jsonl: updated the accepted findings\n")
    rows = [json.loads(row) for row in (listed / "accepted.jsonl").read_text().splitlines()]
    assert {row["path"] for row in rows} == {"README.md", "far/off/c.md"}
    assert "[o](../../docs/o.md)" in [row["text"] for row in rows]
    assert sum(read_fresh(run_bindery, listed).values()) == sum(before.values())
    run_bindery("mv", "far/off/c.md", "docs/b.md", folder=listed)
    assert (listed / "accepted.jsonl").read_text() == text
    assert read_fresh(run_bindery, listed) == before


def test_accepted_findings_follow_the_formatting(run_bindery: Runner, listed: Path) -> None:
    """Where lines are joined and definitions sorted, what was accepted stays so, and nothing
    else."""
    before = read_fresh(run_bindery, listed)
    assert "three.md" in str(before)
    assert "z.md" in str(before)
    ended = run_bindery("format", folder=listed)
    assert ended.stdout == (
        "README.md: formatted\ndocs/b.md: formatted\n"
        "accepted.jsonl: updated the accepted findings\nformatted 2 of 2 files\n"
    )
    assert read_fresh(run_bindery, listed) == before


def test_what_has_moved_away_is_not_called_gone_alone(
    run_bindery: Runner, make_book: BookMaker
) -> None:
    """With a list that the book does not name, the help tells how to write it again."""
    book = make_book(LISTED)
    accept_all(run_bindery, book)
    run_bindery("mv", "docs/b.md", "far/c.md", folder=book)
    ended = run_bindery("check", "--baseline", "accepted.jsonl", folder=book)
    assert "if only its file or its words changed, delete the list and write it" in ended.stdout
    assert "With `baseline` in chapters.yaml, `mv` and `format` keep it up to date" in ended.stdout


def test_lines_of_other_commands_are_left_alone(run_bindery: Runner, book: Path) -> None:
    """The check neither calls gone nor takes out what only `bindery links` could find."""
    accept_all(run_bindery, book)
    row = '{"path": "README.md", "rule": "web-dead", "text": "x", "count": 1}\n'
    with (book / "accepted.jsonl").open("a") as file:
        file.write(row)
    assert run_bindery("check", "--baseline", "accepted.jsonl", folder=book).status == 0
    ended = run_bindery("check", "--write-baseline", "accepted.jsonl", folder=book)
    assert ended.stderr == "accepted.jsonl: 3 findings accepted\n"
    assert (book / "accepted.jsonl").read_text().endswith(row)
