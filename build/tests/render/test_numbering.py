"""Exhibits: tables and figures are numbered by chapter, and their titles do not repeat headings."""

import re
import zipfile
from pathlib import Path

import pytest
from bindery.check.inspect import inspect_book
from bindery.render.appendix import append_appendix
from bindery.render.numbering import list_exhibits, number_chapters
from evidence_book import EPOCH, FILES
from fixture_types import BookMaker, Runner
from validators import read_words

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c63f8cf"
    "c0f01f0005050201a2d7cb5a0000000049454e44ae426082"
)
PARTS = """\
title: A book
parts:
  - chapters: [README.md]
  - title: First
    chapters: [a.md, b.md]
  - title: Second
    chapters: [c.md]
"""
TABLE = "| a | b |\n|---|---|\n| 1 | 2 |\n"


def list_in(root: Path) -> list[tuple[str, str]]:
    return [(exhibit.label, exhibit.title) for exhibit in list_exhibits(inspect_book(root))]


def test_exhibits_are_numbered_by_chapter(make_book: BookMaker) -> None:
    """Tables and figures count for themselves in each chapter; those of the front have a number
    without a chapter. A title that only repeats the heading is left out."""
    chapter = f"# C\n\n## One\n\n{TABLE}\n![A dot](p.png 'one')\n\n## Two\n\n{TABLE}\n"
    root = make_book(
        {
            "chapters.yaml": PARTS,
            "README.md": f"# Front\n\n{TABLE}",
            "a.md": chapter,
            "b.md": "# B\n",
            "c.md": chapter.replace("# C", "# D", 1),
            "p.png": PIXEL,
        }
    )
    assert list_in(root) == [
        ("Table 1", ""),
        ("Table 1.1", ""),
        ("Figure 1.1", ""),
        ("Table 1.2", ""),
        ("Table 3.1", ""),
        ("Figure 3.1", ""),
        ("Table 3.2", ""),
    ]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("![A square of one pixel. It is red.](p.png)", ""),
        ('![A square](p.png "Its own title")', "Its own title"),
        ('![A square](p.png "Under  this")', ""),
        ("[![A square in a link](p.png)](c.md)", ""),
        ("![A square, one](p.png)\n![Another one](p.png)", ""),
        ('<p align="center"><img src="p.png" alt="Amid it" title="Amid"></p>', "Amid"),
        ('<picture><source srcset="p.png"><img src="p.png" alt="A choice"></picture>', ""),
        ("**Figure:** Under *this*, `p`\n\n<!-- a remark -->\n![A](p.png 'No')", "Under this, p"),
        ("**Figure**: Words\n\n![A square](p.png)", ""),
        ("Words and ![a square](p.png) between them.", None),
        ("![A badge](https://example.org/badge.svg)", None),
    ],
)
def test_what_a_figure_is_called(make_book: BookMaker, text: str, title: str | None) -> None:
    """Its title, unless that repeats the heading above. Images inside sentences are not numbered,
    nor those that the book does not have."""
    root = make_book({"c.md": f"# C\n\n## Under this\n\n{text}\n", "p.png": PIXEL})
    assert list_in(root) == ([] if title is None else [("Figure 1.1", title)])
    assert number_chapters(inspect_book(root)) == {"c.md": "1"}


def test_captions_and_references_have_numbers(make_book: BookMaker, run_bindery: Runner) -> None:
    """The paragraph above a table or image is its caption, in the words of the book's language, and
    a link to it with the word alone shows its number, from other chapters too."""
    own = "# Eins\n\nSiehe [Tabelle](b.md#tab), [Abbildung](#bild), [Bild](#bild).\n\n"
    own += '<a id="bild"></a>**Abbildung:** Der *rote* Punkt.\n\n![Rot](p.svg)\n'
    there = f'# Zwei\n\n<a id="tab"></a>**Tabelle:** Zahlen.\n\n{TABLE}\n[Abbildung](a.md#bild)\n'
    dot = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><path d="M0 0h9v9z"/></svg>'
    files = {"a.md": own, "b.md": there, "p.svg": dot}
    root = make_book(files, extra="language: de\noutputs: {name: b}\n")
    for command in ("pdf", "epub", "html", "links"):
        assert run_bindery(command, folder=root).status == 0

    dist = root / "dist"
    with zipfile.ZipFile(dist / "b.epub") as book:
        epub = "".join(book.read(f"EPUB/text/ch00{n}.xhtml").decode() for n in (1, 2))
    site = "".join((dist / "site" / page).read_text() for page in ("a.html", "b.html"))
    for text in (epub, site):
        assert re.findall(r'class="book">([^<]*)</a>', text) == [
            *("Tabelle 2.1", "Abbildung 1.1", "Bild", "Abbildung 1.1"),
        ]
        assert "</span> Der <em>rote</em> Punkt.</figcaption></figure>" in text
        assert '<span class="label">Tabelle 2.1</span> Zahlen.</caption>' in text
        assert "<strong>" not in text
    words = " ".join(word.text for word in read_words(dist / "b.pdf"))
    assert "Siehe Tabelle 2.1" in words
    assert len(re.findall("(?i)abbildung 1.1", words)) == 3


def test_the_title_of_a_view_comes_first(
    make_book: BookMaker, run_bindery: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table that a view gave is called what the view is called, and the appendix has a letter."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    root = make_book(FILES)
    assert run_bindery("fill", folder=root).status == 0
    inspection = inspect_book(root)
    inspection = append_appendix(inspection)
    views = inspection.evidence.views
    assert [(e.label, e.title) for e in list_exhibits(inspection)][:4] == [
        ("Table 1", views["times"].title),
        ("Table 2", ""),
        ("Table 1.1", views["chips"].title),
        ("Table 1.2", views["lengths"].title),
    ]
    assert list(number_chapters(inspection).values()) == ["", "1", "A"]
