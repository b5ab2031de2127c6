"""Books in other languages: what is around the author's text is in the language of the book."""

import re
import subprocess
import zipfile

import pytest
from bindery.core import wording
from evidence_book import FILES, LISTING
from fixture_types import BookMaker, Runner

LONG = "Netzwerkschnittstellenkonfigurationsdateien" * 3
BOOK = {
    "chapters.yaml": "title: N\nlanguage: de-AT\nparts: [{title: Eins, chapters: [a.md, b.md]}]\n",
    "a.md": f"# Netze\n\nSiehe [B](b.md). {LONG}\n\n| A | B |\n|---|--:|\n| 1 | 2 |\n",
    "b.md": "# Platten\n\n> [!NOTE]\n> Text.\n",
}


def test_a_book_speaks_its_language(make_book: BookMaker, run_bindery: Runner) -> None:
    """The site, the EPUB and the PDF of a German book number and name things in German."""
    root = make_book(BOOK)
    for output in ("html", "epub", "pdf"):
        assert run_bindery(output, folder=root).status == 0
    page = (root / "dist/site/a.html").read_text(encoding="utf-8")
    for words in ("Kapitel 1 ", 'class="label">Tabelle 1.1<', ">Suche<", '<html lang="de-AT">'):
        assert words in page
    assert '"Copied": "Kopiert"' in (root / "dist/site/site.js").read_text(encoding="utf-8")
    with zipfile.ZipFile(root / "dist/book.epub") as epub:
        assert b'class="alert-title">Hinweis<' in epub.read("EPUB/text/ch002.xhtml")
        assert b">Inhalt</h1>" in epub.read("EPUB/nav.xhtml")


@pytest.mark.needs("pdftotext")
def test_paper_hyphenates_the_language(make_book: BookMaker, run_bindery: Runner) -> None:
    """Long German words are broken, and a link names its page in German."""
    root = make_book(BOOK)
    assert run_bindery("pdf", folder=root).status == 0
    command = ("pdftotext", "-layout", root / "dist/book.pdf", "-")
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert re.search(r"\(S\.\s\d\)", text)
    assert "Netzwerkschnittstellenkonfigurationsdateien" * 3 not in text
    assert any(line.rstrip().endswith(("-", "\N{HYPHEN}")) for line in text.splitlines())


def test_no_word_is_left_in_english(
    make_book: BookMaker, run_bindery: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the outputs of a book with records and figures say, the table of German has it."""
    asked: set[str] = set()

    class Asked(dict[str, str]):
        def get(self, english: str, default: object = None) -> str:  # type: ignore[override]
            asked.add(english)
            return self[english]

    words = Asked(wording.read_words("de"))
    monkeypatch.setattr("bindery.core.config.Wording", lambda _: wording.Wording(words))
    root = make_book({**FILES, "chapters.yaml": f"language: de\n{LISTING}"})
    assert run_bindery("fill", folder=root).status == 0
    for output in ("html", "epub", "pdf"):
        assert run_bindery(output, folder=root).status == 0
    assert {"Where these numbers come from", "measured", "{label}, continued"} & asked


def test_an_own_file_adds_and_overrides(make_book: BookMaker, run_bindery: Runner) -> None:
    """`interface` gives words for a language that bindery does not know, or others for some."""
    listed = "title: Redes\nlanguage: pt\ninterface: pt.toml\nparts: [{chapters: [a.md]}]\n"
    root = make_book({"chapters.yaml": listed, "a.md": "# A\n", "pt.toml": '"Search" = "Busca"\n'})
    assert run_bindery("html", folder=root).status == 0
    page = (root / "dist/site/a.html").read_text(encoding="utf-8")
    assert ">Busca<" in page
    assert ">Chapters<" in page
