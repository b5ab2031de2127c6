"""Editions: what is being built, told by git where there is one."""

from pathlib import Path

import pytest
from bindery.book.this_edition import Edition, find_changes_url, find_edition
from bindery.check.rules import RULES
from bindery.core.config import load_config
from fixture_types import BookMaker
from msgspec.structs import replace
from needs import git

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def root(make_book: BookMaker, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    extra = "version: 1.2.0\nnewest: https://example.org/new\n"
    return make_book({"README.md": "# A\n"}, extra=extra)


def find(root: Path) -> Edition:
    return find_edition(load_config(root, RULES))


def test_the_given_date_wins(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SOURCE_DATE_EPOCH is the date of the edition, in UTC."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    edition = find(root)
    assert (edition.day, edition.version) == ("2023-11-14", "1.2.0")
    assert edition.newest == "https://example.org/new"


def test_changes_are_told_by_the_site_else_by_the_repository(make_book: BookMaker) -> None:
    """An edition without a commit, and a book that names neither, lead nowhere."""
    repository = "repository: {url: https://example.org/r, branch: main}\n"
    found = []
    for extra in ("", repository, f"{repository}site: https://example.org/book\n"):
        root = make_book({"README.md": "# A\n"}, extra=extra)
        config = load_config(root, RULES)
        edition = find_edition(config)
        assert find_changes_url(config, edition) == ""
        found.append(find_changes_url(config, replace(edition, commit=COMMIT)))
    short = COMMIT[:10]
    assert found == [
        "",
        f"https://example.org/r/compare/{short}...main",
        f"https://example.org/book/changes/index.html?from={short}#since-{short}",
    ]


def test_without_git_there_is_no_commit(root: Path) -> None:
    """A book in no repository is built all the same, with the date of today."""
    edition = find(root)
    assert edition.commit == ""
    assert edition.day >= "2026"


def test_the_commit_and_its_date_are_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a repository the edition carries its commit, and is dated by it."""
    monkeypatch.setenv("GIT_COMMITTER_DATE", "2024-02-03T23:30:00-0200")
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "One"]):
        git(root, *command)
    edition = find(root)
    assert len(edition.commit) == 40
    assert edition.commit.startswith(edition.short_commit)
    assert edition.day == "2024-02-04"
