"""What paper needs around the text: captions, languages of code, glyphs for every sign."""

from pathlib import Path
from xml.etree import ElementTree

import pytest
from bindery.core.wording import Wording
from bindery.render.pdf.dressing import dress
from bindery.render.pdf.typesetting import ClosedFetcher, Typesetter, find_package_folder
from bindery.render.text.paper import PAPERS
from fixture_types import BookMaker, Runner
from lxml import etree
from pdf_tags import count_empty_boxes, find_strange_fonts
from validators import read_words


def test_a_note_below_a_table_is_marked() -> None:
    """A paragraph that is stressed as a whole and follows a table is its note; others are not."""
    root = etree.fromstring(
        "<body><p><em>Before</em></p><table/><p><em>One</em></p><p><em>Two</em></p>"
        "<p><em>Words</em> of the text</p><p><em>After</em></p></body>"
    )
    dress(root, {}, Wording())
    notes = root.findall("p[@class='table-note']")
    assert ["".join(note.itertext()) for note in notes] == ["One", "Two"]


def test_headings_turn_with_their_table() -> None:
    """So does the paragraph that leads to it, and the beginning of a chapter if it is short: the
    page before would be almost empty."""
    words = f"<p>{'Words. ' * 400}</p>"
    short, long = (
        etree.fromstring(
            f'<body><section class="chapter"><h1>Title</h1>{text}<h2>A</h2><h3>B</h3><p>See:</p>'
            f'<table class="turned">{"<tr/>" * 9}</table><p>After</p>{words}</section></body>'
        )
        for text in ("<p>Short.</p>", words)
    )
    for root, turned in ((short, ["h1", "p", "h2", "h3", "p"]), (long, ["h2", "h3", "p"])):
        dress(root, {}, Wording())
        assert [e.tag for e in root.findall(".//*[@data-page='turned']")] == turned
        assert [e.text for e in root.findall(".//*[@data-page='upright']")] == ["After"]
        assert len(root.findall(".//tr[@data-end]")) == 6
        assert (root.find("section[@data-begins]") is not None) is (root is short)


@pytest.mark.parametrize("count", [41, 43, 45])
def test_the_last_page_of_a_part_is_not_almost_empty(count: int) -> None:
    """What comes last is kept together, so that no page has a few lines alone."""
    items = "".join(f"<li>Item {number}.</li>" for number in range(count))
    page = f'<html><body><section class="chapter"><ul>{items}</ul></section></body></html>'
    tree = etree.fromstring(page)
    dress(tree, {}, Wording())
    setter = Typesetter(PAPERS["a4"], ClosedFetcher((find_package_folder(),)))
    document = setter.lay_out(ElementTree.fromstring(etree.tostring(tree)))
    boxes = list(document.pages[-1]._page_box.descendants())
    lines = [b for b in boxes if type(b).__name__ == "LineBox" and b.element_tag == "li"]
    assert len(document.pages) == 2
    assert len(lines) >= 12


def build(root: Path, run_bindery: Runner) -> Path:
    """The PDF of a book of which the engine has nothing to say."""
    ended = run_bindery("pdf", "--quiet", folder=root)
    assert (ended.status, ended.stderr) == (0, "")
    return root / "dist" / "book.pdf"


SYMBOLS = "←→↔⇒↪ ∈∑√∞≈≠≤≥×÷ ■□▲△◆○●◦ ★☆☐☑☒ ✓✔✗✘ ①② ⌘⏎ ½⅓ ₂² ℓΩ αβγΔ €£ ␛ …–—“”"
DRAWN = "├──└──│┌┐ █▓░▁▂▃▄▅▆▇"
EMOJI = "\N{ROCKET} \N{FIRE} \N{WHITE HEAVY CHECK MARK} \N{CROSS MARK} \N{WARNING SIGN}\ufe0f"


def test_every_symbol_has_a_glyph_of_ours(make_book: BookMaker, run_bindery: Runner) -> None:
    """In text, headings, tables and code: no empty box is drawn, and no font of the machine is
    needed, so that the file is the same everywhere."""
    text = f"{SYMBOLS} {EMOJI}"
    body = f"# All {text}\n\n{text} *{SYMBOLS}* **{SYMBOLS}** `{text}`\n\n"
    body += f"| {text} | b |\n|---|---|\n| {text} | `{DRAWN}` |\n\n```\n{SYMBOLS} {DRAWN}\n```\n"
    root = make_book({"a.md": body})
    path = build(root, run_bindery)
    assert find_strange_fonts(path) == set()
    assert count_empty_boxes(path) == 0


def test_a_drawing_is_lettered_with_our_fonts(make_book: BookMaker, run_bindery: Runner) -> None:
    """Greek, accents and signs in a drawing that asks for a generic font are in ours as well."""
    lines = "".join(
        f'<text y="{40 * n}" font-family="{family}" font-weight="{weight}">Wörter Łódź αβγΔ</text>'
        for n, (family, weight) in enumerate(
            (("sans-serif", 400), ("Nowhere, serif", 400), ("monospace", 400), ("sans-serif", 700)),
            1,
        )
    )
    drawing = f'<svg xmlns="http://www.w3.org/2000/svg" width="400" height="200">{lines}</svg>'
    root = make_book({"a.md": "# A\n\n![Letters](a.svg)\n", "a.svg": drawing})
    path = build(root, run_bindery)
    assert find_strange_fonts(path) == set()
    assert count_empty_boxes(path) == 0
    words = [word.text for word in read_words(path)]
    assert [words.count(word) for word in ("Wörter", "Łódź", "αβγΔ")] == [4, 4, 4]
