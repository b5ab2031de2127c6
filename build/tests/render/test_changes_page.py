"""What changed since an edition: told from git and the change log, on a page and in a feed."""

import re
import shutil
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from bindery.book.git_history import read_changes, read_refs
from bindery.book.past_editions import find_editions
from bindery.core.config import load_config
from fixture_types import BookMaker, Runner
from lxml import etree
from lxml import html as lxml_html
from needs import need

ATOM = "{http://www.w3.org/2005/Atom}"
CONFIG = """\
title: Small & <Book>
authors: [A. Author]
site: https://example.org/book
parts: [{chapters: [README.md, new.md, c.md]}]
moved: {old.md: new.md}
"""
LOG = """\
# Change log

## Unreleased

- Soon, says [a file](c.md) and [the web](https://example.org/).

## [1.0.0] - 2024-01-01

### Book

- The *first* one.
"""
TABLE = "| a | b |\n|---|---|\n| 1 | 2 |\n"
TITLES = {"README.md": "R", "new.md": "New", "c.md": "C"}


def git(root: Path, *arguments: str) -> str:
    who = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    need("git")
    ended = subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)
    return ended.stdout.decode().strip()


def commit(root: Path, subject: str, files: dict[str, str]) -> str:
    """Write and commit files; gives the id of the commit."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    git(root, "add", "-A")
    git(root, "commit", "-q", "--allow-empty", "-m", subject)
    return git(root, "rev-parse", "HEAD")


@pytest.fixture
def book(make_book: BookMaker) -> tuple[Path, list[str]]:
    """A book with two editions and what came since, and its commits, oldest first."""
    root = make_book({"chapters.yaml": CONFIG})
    git(root, "init", "-q", "-b", "main")
    ids = [
        commit(
            root, "First", {"README.md": "# R\n\none two\n", "old.md": "# Old\n", "c.md": "# C\n"}
        )
    ]
    git(root, "tag", "v0.9.0")
    (root / "old.md").rename(root / "new.md")
    ids.append(commit(root, "Words <b>&", {"README.md": "# R\n\none three four\n"}))
    git(root, "tag", "-a", "-m", "text", "v1.0.0")
    ids.append(commit(root, "A table", {"c.md": f"# C\n\n{TABLE}", "CHANGELOG.md": LOG}))
    ids.append(commit(root, "Numbers \x1b[1m", {"data/x.csv": "a\n1\n", "notes.txt": "-\n"}))
    ids.append(commit(root, "Nothing of the book", {}))
    return root, ids


def test_editions_tell_what_changed_by_chapter(book: tuple[Path, list[str]]) -> None:
    """Words that a line and its successor share do not count; a chapter that has moved keeps its
    past; records and data stand beside the chapters."""
    root, ids = book
    found = find_editions(load_config(root, ()), TITLES, LOG, read_refs(root))
    assert found is not None
    told = [
        (e.tag, [(s.title, s.added, s.removed, s.rows, s.files) for s in e.subjects])
        for e in found.editions
    ]
    assert told == [
        ("", [("C", 4, 0, 3, 0), ("Records and data", 0, 0, 0, 1)]),
        ("v1.0.0", [("R", 2, 1, 0, 0), ("New", 0, 0, 0, 0)]),
        ("v0.9.0", [("R", 3, 0, 0, 0), ("New", 1, 0, 0, 0), ("C", 1, 0, 0, 0)]),
    ]
    assert [e.notes[:6] for e in found.editions] == ["- Soon", "### Bo", ""]
    assert [c.id for c in found.commits] == ids[::-1]
    assert found.is_whole


def test_hunks_are_read_whatever_a_file_holds(tmp_path: Path) -> None:
    """Lines that look like headers are lines; names of all languages are names; bytes that are no
    text have no lines."""
    git(tmp_path, "init", "-q")
    name = 'a \u00e4\t"x".md'
    first = commit(tmp_path, "1", {name: "+++ b/x\n--- a/y\n@@ -1 +1 @@\ndiff --git a b\n"})
    (tmp_path / "raw.md").write_bytes(b"\0\1\2")
    second = commit(tmp_path, "2", {name: "<less\n>more\n"})
    changes = read_changes(tmp_path, ("raw.md", name))
    assert [h.added for h in changes[first][name]] == [
        ("+++ b/x", "--- a/y", "@@ -1 +1 @@", "diff --git a b")
    ]
    hunks = changes[second][name]
    assert [(len(h.removed), h.added) for h in hunks] == [(4, ("<less", ">more"))]
    assert changes[second].get("raw.md", []) == []


# --- the page and the feed ---


@pytest.fixture
def site(book: tuple[Path, list[str]], run_bindery: Runner) -> Path:
    ended = run_bindery("html", "--lenient", "--quiet", folder=book[0])
    assert ended.status == 0, ended.stderr
    return book[0] / "dist" / "site"


def test_the_page_has_an_anchor_for_each_edition_and_commit(
    book: tuple[Path, list[str]], site: Path
) -> None:
    """Menu and footer lead to it; what people typed is text; links of the change log lead to the
    web or nowhere."""
    text = (site / "changes" / "index.html").read_text(encoding="utf-8")
    root = lxml_html.fromstring(text)
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    assert {f"since-{id_[:10]}" for id_ in book[1]} < set(ids)
    assert {"v1.0.0", "v0.9.0", "since-v1.0.0", "since-v0.9.0"} < set(ids)
    assert "Words &lt;b&gt;&amp;" in text
    assert 'href="https://example.org/"' in text
    assert 'href="c.md"' not in text
    chapter = (site / "c.html").read_text(encoding="utf-8")
    assert chapter.count('href="changes/index.html') == 2
    assert "<loc>https://example.org/book/changes/</loc>" in (site / "sitemap.xml").read_text()


def test_the_feed_follows_the_rules_of_atom(site: Path) -> None:
    """Feed and entries have ids that differ and times with a zone that fall, and each entry leads
    to an anchor of the page."""
    feed = etree.fromstring((site / "feed.xml").read_bytes())
    entries = feed.findall(f"{ATOM}entry")
    assert [e.findtext(f"{ATOM}title") for e in entries] == [
        "Numbers \u241b[1m", "A table", "Words <b>&", "First"
    ]  # fmt: skip
    ids = [element.findtext(f"{ATOM}id") for element in (feed, *entries)]
    assert None not in ids
    assert len(ids) == len(set(ids))
    times = [datetime.fromisoformat(e.findtext(f"{ATOM}updated") or "") for e in (feed, *entries)]
    assert times == sorted(times, reverse=True)
    assert all(time.utcoffset() is not None for time in times)
    assert feed.findtext(f"{ATOM}author/{ATOM}name") == "A. Author"
    links = {link.get("rel"): link.get("href") for link in feed.findall(f"{ATOM}link")}
    assert links["self"] == "https://example.org/book/feed.xml"
    page = (site / "changes" / "index.html").read_text(encoding="utf-8")
    for entry in entries:
        address, _, fragment = entry.find(f"{ATOM}link").get("href").partition("#")
        assert address == links["alternate"] == "https://example.org/book/changes/"
        assert f'id="{fragment}"' in page
    assert 'href="feed.xml"' in (site / "c.html").read_text()


def test_without_an_address_there_is_no_feed_and_without_git_no_page(
    book: tuple[Path, list[str]], run_bindery: Runner
) -> None:
    """A feed has to say where it is; a page would have nothing to say."""
    root = book[0]
    (root / "chapters.yaml").write_text(re.sub("site: .*\n", "", CONFIG))
    assert run_bindery("html", "--lenient", "--quiet", folder=root).status == 0
    assert (root / "dist" / "site" / "changes" / "index.html").is_file()
    assert not (root / "dist" / "site" / "feed.xml").exists()
    shutil.rmtree(root / ".git")
    assert run_bindery("html", "--lenient", "--quiet", folder=root).status == 0
    assert not (root / "dist" / "site" / "changes").exists()
    assert "changes/" not in (root / "dist" / "site" / "index.html").read_text()


@pytest.mark.nightly
def test_a_reader_sees_only_what_is_newer_than_the_copy(
    book: tuple[Path, list[str]], site: Path, browser: Any
) -> None:
    """With the commit or the tag in the address; a commit that is not known shows all and says
    so; without scripts the list of commits ends at the reader's."""
    page_file = (site / "changes" / "index.html").as_uri()
    ids = book[1]

    def read(asked: str, **options: Any) -> tuple[list[str], int, str]:
        page = browser.new_context(**options).new_page()
        page.goto(f"{page_file}?from={asked}#since-{asked[:10]}")
        titles = page.locator(".subject:visible").all_inner_texts()
        said = page.locator("p.since")
        shown = said.inner_text() if said.count() else ""
        shown_or_folded = "all => all.filter((e) => getComputedStyle(e).display !== 'none').length"
        edition = page.locator(".edition:visible .commits li")
        return titles, edition.evaluate_all(shown_or_folded), shown

    for asked in (ids[2][:10], ids[2]):
        titles, commits, said = read(asked)
        assert [t.partition(" ")[0] for t in titles] == ["Records"]
        assert commits == 2
        assert "Changes since your edition" in said
    assert "Changes since your edition" in read("v1.0.0")[2]
    titles, commits, said = read(ids[-1])
    assert (titles, commits) == ([], 0)
    assert "Nothing has changed" in said
    for unknown in ("0" * 40, "<b>", "v9"):
        _, commits, said = read(unknown)
        assert "site's history has no commit" in said
        assert commits == 5
    assert read(ids[2], java_script_enabled=False)[1] == 3
