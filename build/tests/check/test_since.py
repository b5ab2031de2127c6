"""`check --since`: only what is new, as git tells it."""

import json
import subprocess
from pathlib import Path

import pytest
from fixture_types import BookMaker, Runner

pytestmark = pytest.mark.needs("git")

LONG = "word " * 80


def git(folder: Path, *arguments: str) -> None:
    user = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    subprocess.run(("git", *user, *arguments), cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", ".")
    git(folder, "commit", "-m", "more")


@pytest.fixture
def book(make_book: BookMaker) -> Path:
    """A book with an old dead link in each chapter, all of it committed."""
    root = make_book(
        {
            "a.md": "# A\n\n[old](gone.md)\n\nText.\n",
            "b.md": f"# B\n\n[old](gone.md), [there](a.md)\n\n## Deep\n\n{LONG}\n",
        }
    )
    git(root, "init")
    commit(root)
    return root


def check(run_bindery: Runner, root: Path, *arguments: str) -> list[tuple[str, int, str]]:
    ended = run_bindery("check", "--format", "json", *arguments, folder=root)
    assert ended.stderr == ""
    rows = json.loads(ended.stdout)
    assert ended.status == bool(rows)
    return [(row["path"], row["line"], row["rule"]) for row in rows]


def append(path: Path, text: str) -> None:
    path.write_text(path.read_text(encoding="utf-8") + text, encoding="utf-8")


def test_old_findings_are_nobodys_concern(run_bindery: Runner, book: Path) -> None:
    """Without a change nothing is new, whatever is wrong with the book."""
    assert len(check(run_bindery, book)) == 2
    assert check(run_bindery, book, "--since", "HEAD") == []


def test_findings_in_new_lines_are_reported(run_bindery: Runner, book: Path) -> None:
    """A line counts as new before it is staged, staged, and committed, and old after that."""
    append(book / "a.md", "\n[new](nowhere.md)\n")
    expected = [("a.md", 7, "dead-link")]
    assert check(run_bindery, book, "--since", "HEAD") == expected
    git(book, "add", ".")
    assert check(run_bindery, book, "--since", "HEAD") == expected
    git(book, "commit", "-m", "second")
    assert check(run_bindery, book, "--since", "HEAD~1") == expected
    assert check(run_bindery, book, "--since", "HEAD") == []


def test_new_files_are_reported_whole(run_bindery: Runner, book: Path) -> None:
    """All of a new chapter is new, and findings about a new file as such are reported."""
    (book / "c.md").write_text("# C\n\n[x](gone.md)\n", encoding="utf-8")
    (book / "forgotten.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    append(book / "chapters.yaml", "      - c.md\n")
    assert check(run_bindery, book, "--since", "HEAD") == [
        ("c.md", 3, "dead-link"),
        ("forgotten.png", 1, "orphan-file"),
    ]


def test_files_as_such_are_new_where_they_changed(run_bindery: Runner, book: Path) -> None:
    """A finding about a file as such is old until something changes in the file, be it that a
    line is taken out."""
    (book / "notes.md").write_text("# N\n\nText.\n", encoding="utf-8")
    commit(book)
    assert ("notes.md", 1, "unlisted-chapter") in check(run_bindery, book)
    assert check(run_bindery, book, "--since", "HEAD") == []
    (book / "notes.md").write_text("# N\n", encoding="utf-8")
    expected = [("notes.md", 1, "unlisted-chapter")]
    assert check(run_bindery, book, "--since", "HEAD") == expected


def test_a_book_may_lie_in_a_folder(
    run_bindery: Runner, make_book: BookMaker, tmp_path: Path
) -> None:
    """Paths are those of the book, wherever in its repository it is."""
    (tmp_path / "docs").mkdir()
    root = make_book({"größe 1.md": "# A\n\n[old](gone.md)\n"}, name="docs/book")
    git(root.parent, "init")
    commit(root.parent)
    append(root / "größe 1.md", "\n[new](gone.md)\n")
    assert check(run_bindery, root, "--since", "HEAD") == [("größe 1.md", 5, "dead-link")]


def test_a_gutted_section_is_told_of_at_its_old_heading(run_bindery: Runner, book: Path) -> None:
    """A section that others link to and that has lost its text is reported, though no line of it
    is new, and also where its chapter has moved."""
    append(book / "a.md", "\n[deep](b.md#deep)\n")
    text = (book / "b.md").read_text(encoding="utf-8")
    (book / "b.md").write_text(text.replace(LONG, "short"), encoding="utf-8")
    ended = run_bindery("check", "--since", "HEAD", folder=book)
    assert ended.stdout.startswith(
        "b.md:5:1: warning[gutted-section]: this section had 82 words and has 3; "
        "1 link from elsewhere leads here\n"
    )
    assert "check that these links still lead to what they promise: a.md:7\n" in ended.stdout
    run_bindery("mv", "b.md", "c.md", "--force", folder=book)
    assert ("c.md", 5, "gutted-section") in check(run_bindery, book, "--since", "HEAD")


def test_a_section_that_says_as_much_is_not_gutted(run_bindery: Runner, book: Path) -> None:
    """Rewritten text, and what no other section links to, is left alone."""
    text = (book / "b.md").read_text(encoding="utf-8")
    (book / "b.md").write_text(text.replace(LONG, "short"), encoding="utf-8")
    assert check(run_bindery, book, "--since", "HEAD") == []
    append(book / "a.md", "\n[deep](b.md#deep)\n")
    (book / "b.md").write_text(text.replace("word", "other"), encoding="utf-8")
    assert check(run_bindery, book, "--since", "HEAD") == []


def test_accepted_findings_and_new_ones(run_bindery: Runner, book: Path) -> None:
    """With a file of accepted findings, what is new and not accepted is reported, and so is what
    has gone from it."""
    run_bindery("check", "--write-baseline", "accepted.jsonl", folder=book)
    (book / "a.md").write_text("# A\n\n[new](nowhere.md)\n", encoding="utf-8")
    found = check(run_bindery, book, "--since", "HEAD", "--baseline", "accepted.jsonl")
    assert found == [("a.md", 3, "dead-link"), ("accepted.jsonl", 1, "gone-finding")]


@pytest.mark.parametrize("rev", ["nosuch", "--output=x", "", "HEAD:a.md"])
def test_an_unknown_revision_is_wrong_use(run_bindery: Runner, book: Path, rev: str) -> None:
    """A revision that is not there, or looks like an option, ends with 2 and is named."""
    ended = run_bindery("check", f"--since={rev}", folder=book)
    assert (ended.status, ended.stdout) == (2, "")
    assert f"'{rev}'" in ended.stderr
    assert "error[config]" in ended.stderr
