"""The author's own style sheets have the last word on each output."""

import subprocess
import zipfile
from pathlib import Path

import pikepdf
import pytest
from bindery.render.author_style import find_accents, measure_contrast
from fixture_types import BookMaker, Runner

BOOK = {
    "README.md": "# A book\n\nWords.\n",
    "style/site.css": ":root { --link: #7a1f5c }\nh1 { background: url('dot.svg') }\n",
    "style/print.css": "@page { size: 120mm 150mm; margin: 5mm }\n",
    "style/dot.svg": '<svg xmlns="http://www.w3.org/2000/svg"/>',
    "chapters.yaml": """\
title: A book
parts: [{chapters: [README.md]}]
style: {html: style/site.css, epub: style/site.css, pdf: style/print.css}
""",
}


def test_style_sheets_come_last(make_book: BookMaker, run_bindery: Runner) -> None:
    root = make_book(BOOK)
    for output in ("html", "epub", "pdf"):
        assert run_bindery(output, folder=root).status == 0
    css = (root / "dist/site/site.css").read_text()
    assert css.endswith(
        "\n:root { --link: #7a1f5c }\nh1 { background: "
        'url("data:image/svg+xml;base64,PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4=") '
        "}\n"
    )
    with zipfile.ZipFile(root / "dist/book.epub") as epub:
        (sheet,) = (name for name in epub.namelist() if name.endswith(".css"))
        assert b"--link: #7a1f5c" in epub.read(sheet)
    with pikepdf.open(root / "dist/book.pdf") as pdf:
        sizes = {tuple(round(float(side)) for side in page.mediabox) for page in pdf.pages}
    assert sizes == {(0, 0, 340, 425)}  # 120 x 150 mm in points


def test_what_a_style_names_is_in_the_book(make_book: BookMaker, run_bindery: Runner) -> None:
    root = make_book(BOOK)
    (root / "style/dot.svg").unlink()
    ended = run_bindery("html", folder=root)
    assert ended.status == 2
    assert ended.stderr == (
        "style/site.css:2:1: error[config]: the style sheet names 'dot.svg', but there is no such "
        "file\n  |\n2 | h1 { background: url('dot.svg') }\n  | ^\n"
        "  = help: put fonts and pictures of a style in the book\n"
        "stopped: 1 error\n"
    )


@pytest.mark.parametrize("colour", ["#7a1f5c", "#ffee00", "#000000", "#ffffff", "#888888"])
def test_an_accent_can_be_read_in_both_themes(colour: str) -> None:
    """Text in the accent colour has the contrast that WCAG asks for, on every background."""
    light, dark = find_accents(colour)
    assert min(measure_contrast(light, paper) for paper in ("#fdfdfb", "#f3f4f2")) >= 4.5
    assert min(measure_contrast(dark, paper) for paper in ("#16191d", "#23292f")) >= 4.5
    assert measure_contrast("#000000", "#ffffff") == pytest.approx(21)


def test_an_accent_that_can_be_read_is_kept() -> None:
    assert find_accents("#7a1f5c")[0] == "#7a1f5c"
    assert find_accents("#ffee00")[1] == "#ffee00"


FONT = Path(__file__).parents[2] / "bindery/render/fonts/source-serif-4-latin-600-italic.ttf"
LOOK = """\
title: A book
outputs: {paper: 12cm x 180mm}
style:
  accent: "#7a1f5c"
  logo: style/dot.svg
  favicon: style/dot.svg
  fonts: {text: style/own.ttf}
  margins: 1in 12mm
  front: text
parts: [{chapters: [README.md]}]
"""


def test_a_look_is_in_every_output(make_book: BookMaker, run_bindery: Runner) -> None:
    """Accent, logo, icon, a font with its weight and style, paper and margins; no title block."""
    root = make_book({**BOOK, "chapters.yaml": LOOK, "style/own.ttf": FONT.read_bytes()})
    for output in ("html", "epub", "pdf"):
        assert run_bindery(output, folder=root).status == 0
    site = root / "dist/site"
    css, page = (site / "site.css").read_text(), (site / "index.html").read_text()
    assert ":root { --link: light-dark(#7a1f5c, #" in css
    assert '"author text"; font-weight: 600; font-style: italic; src: url("data:font/ttf' in css
    assert '<link rel="icon" href="style/dot.svg">' in page
    assert '<img class="logo" src="style/dot.svg" alt="">' in page
    assert 'class="front' not in page
    assert (site / "style/dot.svg").is_file()
    with zipfile.ZipFile(root / "dist/book.epub") as epub:
        title = epub.read("EPUB/text/title_page.xhtml")
        assert b'<p class="logo"><img src="data:image/svg' in title
        (sheet,) = (name for name in epub.namelist() if name.endswith(".css"))
        assert b'body { font-family: "author text", serif; }' in epub.read(sheet)
    with pikepdf.open(root / "dist/book.pdf") as pdf:
        assert [round(float(side)) for side in pdf.pages[0].mediabox] == [0, 0, 340, 510]


@pytest.mark.needs("pdftotext")
@pytest.mark.parametrize(("kind", "label"), [("text", "note"), ("headings", "Note")])
def test_labels_are_in_small_capitals_if_the_font_has_them(
    make_book: BookMaker, run_bindery: Runner, kind: str, label: str
) -> None:
    """Our font has them: it draws both cases alike, and readers copy lower case."""
    listed = (
        f"title: A book\nparts: [{{chapters: [README.md]}}]\nstyle: {{fonts: {{{kind}: a.ttf}}}}\n"
    )
    source = "# A book\n\n> [!NOTE]\n> Words.\n"
    root = make_book({"chapters.yaml": listed, "README.md": source, "a.ttf": FONT.read_bytes()})
    assert run_bindery("pdf", folder=root).status == 0
    command = ("pdftotext", root / "dist/book.pdf", "-")
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert label in text.split()


def test_a_file_that_is_no_font_is_refused(make_book: BookMaker, run_bindery: Runner) -> None:
    root = make_book({**BOOK, "chapters.yaml": LOOK, "style/own.ttf": "no font"})
    ended = run_bindery("html", folder=root)
    assert ended.status == 2
    assert ended.stderr.startswith("style/own.ttf: error[config]: this font cannot be read: ")
