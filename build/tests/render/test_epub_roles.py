"""What readers' programs get around a chapter: captions, notes that pop up, pages of the PDF."""

from __future__ import annotations

import io
import json
import re
import zipfile
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

import pikepdf
import pytest
from bindery.book.this_edition import Edition, find_edition
from bindery.check.inspect import inspect_book
from bindery.render.epub.epub import _may_move, build_epub
from bindery.render.epub.pages import find_pages
from bindery.render.epub.roles import Dressed, dress_chapter
from bindery.render.numbering import Exhibit
from lxml import etree
from PIL import Image
from validators import run_epubcheck

if TYPE_CHECKING:
    from conftest import BookMaker

NAMES = 'xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"'
TABLE = Exhibit("table", "a.md", "t", "1.1", "Rates")
FIGURE = Exhibit("figure", "a.md", "f", "1.2", "A curve")
CAPTION = '<span class="label">Figure 1.2</span> A curve'
COMMIT = "0123456789abcdef0123456789abcdef01234567"
BOOK = {
    "chapters.yaml": "title: T\nparts: [{chapters: [a.md, b.md]}]\noutputs: {name: t}\n",
    "a.md": "# A\n\n## One\n\n- b\n\n  ```sh\n  ls\n  ```\n\n## Two\n\nNote[^1].\n\n[^1]: Said.\n",
    "b.md": "# B\n\n| a | b |\n|---|---|\n| 1 | 2 |\n",
}


def dress(body: str, **pages: int) -> Dressed:
    text = f"<html {NAMES}><body><section>{body}</section></body></html>"
    return dress_chapter(text, {"t": TABLE, "f": FIGURE}, pages)


def show(dressed: Dressed) -> str:
    section = etree.fromstring(dressed.text).find(".//{*}section")
    assert section is not None
    inner = "".join(etree.tostring(child, encoding="unicode") for child in section)
    return inner.replace(f" {NAMES}", "").replace(' xmlns:epub="http://www.idpf.org/2007/ops"', "")


@pytest.mark.parametrize(
    ("given", "dressed"),
    [
        ('<p class="figure"><img id="f"/></p>',
         f'<figure class="figure"><img id="f"/><figcaption>{CAPTION}</figcaption></figure>'),
        ('<ul><li>a <img id="f"/> b</li></ul>',
         (f'<ul><li>a <figure class="figure"><img id="f"/><figcaption>{CAPTION}</figcaption>'
          "</figure> b</li></ul>")),
        ('<figure><img id="f"/><figcaption>Mine</figcaption></figure>',
         ('<figure><img id="f"/><figcaption><span class="label">Figure 1.2</span> Mine'
          "</figcaption></figure>")),
        ('<p>in <img id="f"/> text</p>', '<p>in <img id="f"/> text</p>'),
        ('<table id="t"><caption>Mine</caption><tr/></table>',
         ('<table id="t"><caption><span class="label">Table 1.1</span> Mine</caption>'
          "<tr/></table>")),
        ('<pre><code class="language-sh">ls</code></pre>',
         '<pre data-language="Bash"><code class="language-sh">ls</code></pre>'),
    ],
)  # fmt: skip
def test_numbered_things_get_captions_and_code_its_language(given: str, dressed: str) -> None:
    """A caption is where its element allows one, an author's caption keeps its words, and nothing
    else is touched."""
    assert show(dress(given)) == dressed


def test_footnotes_are_asides_that_pop_up() -> None:
    """Reference, note and way back have the types and roles that readers look for; the number
    that the list drew is still there."""
    shown = show(
        dress(
            '<p>a<sup class="note"><a id="r" href="#n">1</a></sup></p><hr class="footnotes"/>'
            '<ol class="footnotes"><li id="n"><p>Said. <a class="back" href="#r">b</a></p></li>'
            "</ol>"
        )
    )
    assert '<a id="r" href="#n" epub:type="noteref" role="doc-noteref">1</a>' in shown
    assert '<section class="footnotes" epub:type="footnotes" role="doc-endnotes"' in shown
    assert '<aside id="n" epub:type="footnote" role="doc-footnote"><p>' in shown
    assert '<span class="number">1.</span> Said. <a class="back" href="#r" role="doc-b' in shown
    assert "<hr" not in shown


def test_a_page_is_marked_where_its_first_thing_stands() -> None:
    """Marks are between blocks, in order, one for each page; a page that has begun in an
    earlier chapter has none."""
    body = (
        '<h1 id="a">A</h1><p>text <span id="b">b</span></p><h2 id="c">C</h2>'
        '<ul><li><pre id="d">d</pre></li></ul><p id="e">e</p>'
    )
    dressed = dress(body, a=4, b=5, c=5, d=7, e=6)
    assert dressed.pages == ((4, "page.4"), (5, "page.5"), (7, "page.7"))
    shown = show(dressed)
    mark = '<span id="page.{0}" role="doc-pagebreak" aria-label="{0}" epub:type="pagebreak"/>'
    for number, following in ((4, '<h1 id="a">'), (5, "<p>text"), (7, '<pre id="d">')):
        assert mark.format(number) + following in shown
    text = f"<html {NAMES}><body><section>{body}</section></body></html>"
    assert dress_chapter(text, {}, {"a": 4, "c": 5}, 4).pages == ((5, "page.5"),)


def test_no_ink_or_paper_is_fixed() -> None:
    """The reader's program chooses both: the style sheet colours no text of the author's but code,
    and no ground but that of pictures, which are drawn for a pale one."""
    style = (resources.files("bindery.render") / "styles" / "epub.css").read_text(encoding="utf-8")
    style = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", style)
    for selectors, body in rules:
        names = {name.strip() for name in selectors.split(",")}
        if re.search(r"(?<![-\w])color:", body):
            assert all(re.fullmatch(r"\.[a-z][a-z0-9]{0,2}", name) for name in names), names
        for ground in re.findall(r"background(?:-color)?: *([^;]+);", body):
            is_see_through = ground.startswith("rgba(") or ground == "transparent"
            assert is_see_through or names == {"img"}, names


# --- the pages of the PDF ---


def write_pdf(path: Path, places: dict[str, int]) -> None:
    """A PDF with named places on its pages, these counted from 1."""
    file = pikepdf.new()
    for _ in range(max(places.values())):
        file.add_blank_page()
    tree = pikepdf.NameTree.new(file)
    for name, page in places.items():
        tree[name] = pikepdf.Array([file.pages[page - 1].obj, pikepdf.Name("/XYZ"), 0, 9, 0])
    file.Root.Names = pikepdf.Dictionary({"/Dests": tree.obj})
    path.parent.mkdir(parents=True, exist_ok=True)
    file.save(path)


def write_report(folder: Path, edition: Edition) -> None:
    report = {"schema": 1, "outputs": {"pdf": {"edition": edition.name}}}
    (folder / "report.json").write_text(json.dumps(report), encoding="utf-8")


def test_pages_are_read_from_a_pdf_of_the_same_edition_only(make_book: BookMaker) -> None:
    """No PDF, one of another edition, one that no commit vouches for and half a file give none."""
    root = make_book(BOOK)
    bare = replace(find_edition(inspect_book(root).config), commit="")
    edition = replace(bare, commit=COMMIT)
    path = root / "dist" / "t.pdf"
    assert find_pages(path, edition) == {}
    write_pdf(path, {"a--a": 3, "b--b": 7})
    assert find_pages(path, edition) == {}
    write_report(path.parent, edition)
    assert find_pages(path, edition) == {"a--a": 3, "b--b": 7}
    assert find_pages(path, replace(edition, commit=COMMIT[::-1])) == {}
    write_report(path.parent, bare)
    assert find_pages(path, bare) == {}
    write_report(path.parent, edition)
    path.write_bytes(path.read_bytes()[:40])
    assert find_pages(path, edition) == {}


@pytest.mark.parametrize(
    "validate",
    [False, pytest.param(True, marks=pytest.mark.nightly)],
    ids=["structure", "epubcheck"],
)
def test_the_page_list_leads_to_every_page_that_begins(
    make_book: BookMaker, validate: bool
) -> None:
    """With the PDF beside it the EPUB lists its pages and says so; without it does neither. Both
    are the same bytes when made again, and valid."""
    root = make_book(BOOK)
    inspection = inspect_book(root)
    edition = replace(find_edition(inspection.config), commit=COMMIT)
    path = root / "dist" / "t.epub"

    def make() -> tuple[str, str]:
        build_epub(inspection, edition, path, lambda name: None)
        data = path.read_bytes()
        build_epub(inspection, edition, path, lambda name: None)
        assert path.read_bytes() == data
        status, report = run_epubcheck(path) if validate else (0, "")
        assert status == 0, report
        with zipfile.ZipFile(path) as archive:
            nav, package = map(archive.read, ("EPUB/nav.xhtml", "EPUB/content.opf"))
        return nav.decode(), package.decode()

    contents, package = make()
    assert "page-list" not in contents
    assert "pageNavigation" not in package
    assert 'epub:type="lot"' in contents
    assert "loi" not in contents
    write_pdf(root / "dist" / "t.pdf", {"a--a": 5, "a--code.1": 6, "a--two": 6, "b--table.1": 9})
    write_report(root / "dist", edition)
    contents, package = make()
    wanted = [("ch001", 5), ("ch001", 6), ("ch002", 9)]
    places = [contents.index(f'<a href="text/{f}.xhtml#page.{n}">{n}</a>') for f, n in wanted]
    assert places == sorted(places)
    assert "pageNavigation" in package
    assert "pageBreakMarkers" in package


# --- what moves ---


def draw_gif(*colours: str) -> bytes:
    buffer = io.BytesIO()
    first, *others = (Image.new("RGB", (9, 9), colour) for colour in colours)
    first.save(buffer, "GIF", save_all=True, append_images=others)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "moves"),
    [
        ("a.svg", b'<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0h9"/></svg>', False),
        ("a.svg", b'<svg xmlns="http://www.w3.org/2000/svg"><animate/></svg>', True),
        ("a.svg", b"<svg><style>path { animation: turn 1s }</style></svg>", True),
        ("a.gif", draw_gif("red", "blue"), True),
        ("a.xhtml", b"<p>animation</p>", False),
    ],
)
def test_only_what_may_move_is_told_to(name: str, content: bytes, moves: bool) -> None:
    """A drawing moves by elements, scripts or styles, and a picture by having several."""
    assert _may_move(name, content) is moves
