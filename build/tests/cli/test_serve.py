"""`bindery serve`: a real process, real edits, and what a browser is shown."""

import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bindery.render.pdf.reading import read_links
from browsers import browser, open_tab
from fixture_types import BookMaker, Runner
from previews import SECONDS, Preview, start_preview, write

__all__ = ["browser", "open_tab", "start_preview"]


@pytest.fixture
def book(make_book: BookMaker) -> Path:
    return make_book({"a.md": "# A\n\n[old](gone.md)\n", "sub/b.md": "# B\n"})


@pytest.fixture
def preview(start_preview: Callable[[Path], Preview], book: Path) -> Preview:
    return start_preview(book)


def test_only_what_a_change_brings_is_printed(preview: Preview, book: Path) -> None:
    """A new finding is shown whole, one that has gone in a line, and the rest only counted."""
    first = preview.read_until("checked ")
    assert first[0] == "a.md:3:7: error[dead-link]: there is no file 'gone.md'"
    write(book / "sub/b.md", "# B\n\n[new](nowhere.md)\n")
    second = preview.read_until("checked ")
    assert second[0] == "sub/b.md:3:7: error[dead-link]: there is no file 'nowhere.md'"
    assert "3 | [new](nowhere.md)" in second
    assert second[-1] == "checked 2 links in 2 chapters: 2 errors, 0 warnings"
    write(book / "a.md", "# A\n\nNew text above.\n\n[old](gone.md)\n")
    assert preview.read_until("checked ") == ["checked 2 links in 2 chapters: 2 errors, 0 warnings"]
    write(book / "sub/b.md", "# B\n")
    assert preview.read_until("checked ") == [
        "gone: sub/b.md:3:7: error[dead-link]: there is no file 'nowhere.md'",
        "checked 1 link in 2 chapters: 1 error, 0 warnings",
    ]
    (book / "data").mkdir()  # a folder that was not there at the start
    write(book / "data/d.yaml", "titel: D\n")
    assert any("bad-data" in line for line in preview.read_until("checked "))
    preview.process.send_signal(signal.SIGINT)
    assert preview.process.wait(SECONDS) == 0


def test_pages_are_those_of_the_site(
    preview: Preview, book: Path, run_bindery: Runner, tmp_path: Path
) -> None:
    """Each is the page that a build writes, with the lines of its blocks and a script; nothing is
    written. Addresses without a page show the page for them."""
    preview.read_until("checked ")
    assert not (book / "dist").exists()
    built = run_bindery("html", "--lenient", "--out", str(tmp_path / "out"), folder=book)
    assert built.status == 0
    for place in ("a.html", "sub/b.html", "site.css", "search-index.js", "404.html"):
        written = (tmp_path / "out/site" / place).read_text(encoding="utf-8")
        assert preview.read_page(place) == written, place
    with pytest.raises(urllib.error.HTTPError, match="404"):
        preview.get("nowhere.html")


@pytest.mark.needs("pdftotext")
def test_a_chapter_alone_has_the_page_numbers_of_the_last_pdf(
    preview: Preview, book: Path, run_bindery: Runner
) -> None:
    """Its first page and its links are numbered as in the book; a link to a place that is not in
    that PDF shows a question mark."""
    write(book / "sub/b.md", "# B\n\n[A](../a.md)\n")
    assert run_bindery("pdf", "--lenient", folder=book).status == 0
    (whole,) = (book / "dist").glob("*.pdf")
    pages = {name[-3:]: page for name, (page, _) in read_links(whole).places.items()}
    write(book / "a.md", "# A\n\n## New\n")
    write(book / "sub/b.md", "# B\n\n[A](../a.md) [New](../a.md#new) [B](#b)\n")
    preview.read_until("checked 3 links")
    address = f"{preview.address}-/chapter.pdf?page=sub/b.html"
    with urllib.request.urlopen(address, timeout=SECONDS) as answer:
        (book / "b.pdf").write_bytes(answer.read())
    command = ["pdftotext", book / "b.pdf", "-"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    shown = re.findall(r"\(p\.\s(\S+)\)", text)
    assert shown == [str(pages["--a"]), "?", str(pages["--b"])]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        preview.get("-/chapter.pdf?page=search.html")


def test_another_site_cannot_read_the_book(preview: Preview) -> None:
    """A name on the web that leads to this machine gets no answer."""
    asked = urllib.request.Request(preview.address, headers={"Host": "example.org:80"})
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(asked, timeout=SECONDS)


def test_a_half_written_list_of_chapters_is_survived(preview: Preview, book: Path) -> None:
    """While chapters.yaml is wrong, pages stay as they were and show its error."""
    whole = (book / "chapters.yaml").read_text(encoding="utf-8")
    preview.read_until("checked ")
    write(book / "chapters.yaml", "title: A book\nparts: [")
    lines = preview.read_until("waiting")
    assert lines[0].startswith("chapters.yaml:2:")
    assert "error[config]" in lines[0]
    with preview.listen("a.html") as states:
        assert next(states)["trouble"] == [lines[0]]
        assert "<h1" in preview.get("a.html")
        write(book / "chapters.yaml", whole)
        preview.read_until("checked ")
        assert next(states)["trouble"] == []


def test_wrong_use_does_not_wait(run_bindery: Runner, tmp_path: Path, preview: Preview) -> None:
    """A folder without a book, and a port that is taken, end the program."""
    assert run_bindery("serve", "--port", "0", folder=tmp_path).status == 2
    taken = preview.address.rpartition(":")[2].rstrip("/")
    ended = run_bindery("serve", "--port", taken, folder=tmp_path)
    assert ended.status == 2
    assert f"port {taken} cannot be used: address already in use" in ended.stderr


def test_a_page_is_told_of_changes(preview: Preview, book: Path) -> None:
    """Events carry the version of the book and, once it is checked, the findings of a page."""
    with preview.listen("a.html") as states:
        before = next(state for state in states if "findings" in state)
        assert [(one["line"], one["kind"]) for one in before["findings"]] == [(3, "error")]
        assert f'data-version="{before["version"]}"' in preview.get("a.html")
        write(book / "a.md", "# A\n")
        after = next(
            state
            for state in states
            if state["version"] != before["version"] and "findings" in state
        )
        assert (after["findings"], after["others"]) == ([], 0)


@pytest.mark.nightly
def test_a_browser_shows_what_is_typed(
    open_tab: Callable[..., Any], preview: Preview, book: Path
) -> None:
    """New text is there without a key pressed, at the same place, with a finding below its
    paragraph. The page is loaded again only where its scripts would have to work on the text, and
    is then what any reader gets."""
    lines = "".join(f"Paragraph {number}.\n\n" for number in range(200))
    write(book / "sub/b.md", f"# B\n\n{lines}")
    preview.read_until("checked ")
    preview.read_until("checked ")
    tab = open_tab(preview.address)
    tab.goto(f"{preview.address}sub/b.html")
    seen = tab.get_by_text("Paragraph 100.", exact=True)

    def edit(old: str, new: str, shown: str) -> None:
        nonlocal lines
        seen.evaluate("(one) => one.scrollIntoView({ block: 'start' })")
        tab.evaluate("window.isSame = true")
        before = seen.bounding_box()["y"]
        lines = lines.replace(old, new)
        write(book / "sub/b.md", f"# B\n\n{lines}")
        preview.read_until("checked ")
        tab.locator(shown).wait_for(state="attached")
        tab.wait_for_load_state()
        assert abs(seen.bounding_box()["y"] - before) < 5, new

    def is_same() -> bool:
        return bool(tab.evaluate("window.isSame === true"))

    def read_article() -> str:
        text = tab.locator("article").evaluate("(one) => one.outerHTML")
        return re.sub(r"<aside.*?</aside>|\n", "", text)

    edit("Paragraph 3.", "Paragraph 3.\n\n[new](nowhere.md)", "p:has-text('new') + aside.preview")
    assert "there is no file 'nowhere.md'" in tab.locator("aside.preview").inner_text()
    edit("\n\n[new](nowhere.md)", "", "article:not(:has(aside.preview))")
    edit("Paragraph 9.", "Paragraph *nine*.", "em")
    edit("Paragraph 10.\n\nParagraph 11.", "> [!NOTE]\n> *Eleven*.", "em:has-text('Eleven')")
    assert is_same()
    replaced = read_article()
    tab.reload()
    assert read_article() == replaced
    for old, new, shown in (
        ("Paragraph 20.", "| a |\n|---|\n| 1 |", "article .table-tools"),
        ("Paragraph 21.", "## Section", "nav.sections a, h2 a.here"),
        ("Paragraph 22.", "```\ncode\n```", "article .code button"),
    ):
        edit(old, new, shown)
        assert not is_same(), new
