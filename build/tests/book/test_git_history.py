"""What git remembers: lines that are new since a revision, and files as they were."""

from pathlib import Path

import pytest
from bindery.book.git_history import find_added_lines, read_file_at
from bindery.core.model import ConfigError
from needs import git


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one commit, and the book in a folder of it."""
    root = tmp_path / "repository" / "book"
    root.mkdir(parents=True)
    git(root.parent, "init", "-q", "-b", "main")
    (root / "a.md").write_bytes(b"one\ntwo\nthree\n")
    (root / "bytes.md").write_bytes(b"\xff one\r\ntwo")
    git(root.parent, "add", ".")
    git(root.parent, "commit", "-qm", "first")
    return root


def test_lines_that_are_new_are_found_committed_or_not(repository: Path) -> None:
    """Lines count as they are in the files now; what is gone does not."""
    (repository / "a.md").write_bytes(b"zero\none\nthree\nfour\n++ five\n-- six\n@@ -1 +1,9 @@\n")
    git(repository, "commit", "-qam", "second")
    (repository / "a.md").write_bytes((repository / "a.md").read_bytes() + b"eight")
    (repository / "new.md").write_bytes(b"one\ntwo\n")
    (repository.parent / "outside.md").write_bytes(b"one\n")
    (repository.parent / ".gitignore").write_bytes(b"ignored.md\n")
    (repository / "ignored.md").write_bytes(b"one\n")
    added = find_added_lines(repository, "HEAD~1")
    assert set(added) == {"a.md", "new.md"}
    assert added["a.md"] == {1, 4, 5, 6, 7, 8}
    assert added["new.md"] >= {1, 2}


def test_settings_of_a_user_change_nothing(repository: Path) -> None:
    """How somebody likes to see differences is of no matter."""
    for key, value in (
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("color.ui", "always"),
        ("diff.external", "false"),
        ("core.quotePath", "false"),
    ):
        git(repository, "config", key, value)
    (repository / "a.md").write_bytes(b"one\ntwo\nthree\nfour\n")
    assert find_added_lines(repository, "HEAD") == {"a.md": {4}}


def test_what_another_branch_has_changed_is_not_ours(repository: Path) -> None:
    """Of a branch that went on the point counts at which ours left it."""
    git(repository, "switch", "-qc", "ours")
    git(repository, "switch", "-q", "main")
    (repository / "a.md").write_bytes(b"one\n")
    git(repository, "commit", "-qam", "theirs")
    git(repository, "switch", "-q", "ours")
    (repository / "a.md").write_bytes(b"one\ntwo\nthree\nfour\n")
    assert find_added_lines(repository, "main") == {"a.md": {4}}


def test_a_file_is_given_as_it_was(repository: Path) -> None:
    """What was not there, and a folder, are empty."""
    (repository / "bytes.md").write_bytes(b"other")
    git(repository, "commit", "-qam", "second")
    assert read_file_at(repository, "HEAD~1", "bytes.md") == "\ufffd one\ntwo"
    assert read_file_at(repository, "HEAD", "bytes.md") == "other"
    assert read_file_at(repository, "HEAD", "none.md") == ""
    assert read_file_at(repository.parent, "HEAD", "book") == ""


@pytest.mark.parametrize("rev", ["nowhere", "", "-h", "--output=x", "HEAD:a.md", "a..b"])
def test_what_is_no_revision_is_refused(repository: Path, rev: str) -> None:
    """A revision that git does not know, or that it would take for an option, is a usage error."""
    with pytest.raises(ConfigError, match="git knows no revision"):
        find_added_lines(repository, rev)
    with pytest.raises(ConfigError, match="git knows no revision"):
        read_file_at(repository, rev, "a.md")
    assert not (repository / "x").exists()


@pytest.mark.needs("git")
def test_a_folder_without_history_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there is no repository, it is said."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(ConfigError, match="not in a git repository"):
        find_added_lines(tmp_path, "HEAD")


def test_a_machine_without_git_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where git is missing, it is said."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(ConfigError, match="git cannot be run"):
        find_added_lines(tmp_path, "HEAD")
