"""The PDF: whole, tagged, numbered, closed to the network, and the same twice."""

import itertools
import logging
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from types import SimpleNamespace
from typing import Any

import pikepdf
import pytest
from bindery.book.this_edition import find_edition
from bindery.check.inspect import inspect_book
from bindery.check.rules.broken_image import find_drawing_fault
from bindery.core.model import BookError
from bindery.render.completeness import Proof
from bindery.render.pdf import halves as halves_module
from bindery.render.pdf import pdf as pdf_module
from bindery.render.pdf.joined import JoinedDialect
from bindery.render.pdf.pdf import build_pdf
from bindery.render.pdf.proof import prove_pdf, read_pages
from bindery.render.pdf.reading import read_links
from bindery.render.pdf.typesetting import ClosedFetcher
from fixture_types import Runner
from pdf_tags import find_faults, read_tags
from PIL import Image
from weasyprint.urls import FatalURLFetchingError

CHAPTERS_YAML = """\
title: A small book
authors: [Ada, Bob]
language: en
parts:
  - chapters: [README.md]
  - title: Second part
    chapters: [two/README.md, three.md]
outputs:
  name: small
"""
PREFACE = """\
# Preface

See [the table](two/README.md#wide-table) and [the last section](three.md#same).

![A square](square.png) is an image, and `<jobid>` is code. Ünïcode: Łódź, αβγ, ≥ ½.

## Same

Text with a footnote[^1], [a site](https://example.org/ä?q=1) and **bold**.

[^1]: The note.
"""
WIDE = "| " + " | ".join(f"Column {n}" for n in range(12)) + " |\n"
WIDE += "|" + "---:|" * 12 + "\n"
WIDE += ("| " + " | ".join(f"{n * 1234567}.125" for n in range(12)) + " |\n") * 3
TWO = f"""\
# Two

## Wide table

{WIDE}
## Narrow table

| Name | Value |
|:-----|------:|
| a    | 1     |

```bash
{"echo a_rather_long_word_in_a_command --with-options " * 9}
```

- [ ] open
- [x] done
"""
THREE = """\
# Three

## Same

[Back](README.md#same) to the preface.

> [!WARNING]
> Mind the gap.
"""


EPOCH = "1700000000"


def write_book(root: Path, three: str = THREE) -> Path:
    (root / "two").mkdir(parents=True)
    (root / "chapters.yaml").write_text(CHAPTERS_YAML)
    (root / "README.md").write_text(PREFACE)
    (root / "two" / "README.md").write_text(TWO)
    (root / "three.md").write_text(three)
    Image.new("RGB", (2400, 1200), "#3366aa").save(root / "square.png")
    return root


@pytest.fixture
def book(tmp_path: Path) -> Path:
    """The book, not built yet."""
    return write_book(tmp_path / "book")


@dataclass(frozen=True)
class LaidOut:
    """A book that was laid out as `build_pdf` does it, and what is needed for a closer look. Tests
    that share one change nothing of it."""

    root: Path
    path: Path
    resolved: Any
    dialect: JoinedDialect
    document: Any
    proof: Proof
    findings: list[Any]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> LaidOut:
    """The small book as it is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", EPOCH)
        return _lay_out(write_book(tmp_path_factory.mktemp("small") / "book"))


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> LaidOut:
    """The same with a last chapter over many pages."""
    return _lay_out(write_book(tmp_path_factory.mktemp("long") / "book", LONG))


def _build(root: Path, path: Path, *, lenient: bool = False) -> tuple[Proof, list[Any]]:
    inspection = inspect_book(root)
    edition = find_edition(inspection.config)
    return build_pdf(inspection, edition, path, lambda name: None, lenient=lenient)


def _walk(box: Any) -> Iterator[Any]:
    yield box
    for child in box.all_children():
        yield from _walk(child)


def _list_texts(box: Any) -> list[Any]:
    """The boxes of text below a box."""
    return [inner for inner in _walk(box) if hasattr(inner, "pango_layout")]


def _lay_out(root: Path) -> LaidOut:
    kept: list[tuple[Any, Any, Any]] = []
    original = read_pages

    def keep(resolved: Any, dialect: Any, pages: Any) -> Any:
        kept.append((resolved, dialect, SimpleNamespace(pages=list(pages))))
        return original(resolved, dialect, pages)

    path = root / "out" / "small.pdf"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pdf_module, "read_pages", keep)
        proof, findings = _build(root, path)
    return LaidOut(root, path, *kept[0], proof, findings)


def test_a_pdf_is_complete_and_says_what_it_is(small: LaidOut) -> None:
    """Outline, destinations, tags, language, title and PDF/UA-1 mark are in the file."""
    path, proof = small.path, small.proof
    assert proof.lacks == ()
    assert {kind: proof.count(kind) for kind in ("headings", "tables", "figures")} == {
        "headings": 7,
        "tables": 2,
        "figures": 1,
    }
    assert small.findings == []
    with pikepdf.open(path) as file:
        assert file.Root.MarkInfo.Marked
        assert file.Root.ViewerPreferences.DisplayDocTitle
        assert str(file.Root.Lang) == "en"
        assert str(file.docinfo["/Title"]) == "A small book"
        assert str(file.docinfo["/Author"]) == "Ada, Bob"
        assert file.open_metadata()["pdfuaid:part"] == "1"
        with file.open_outline() as outline:
            titles = [item.title for item in outline.root]
            second = [item.title for item in outline.root[-1].children]
        assert titles == ["Contents", "Preface", "Second part"]
        assert second == ["Two", "Three"]
    links = read_links(path)
    assert not any(links.find_fault(address) for _, address in links.links)


def test_page_numbers_beside_links_are_those_of_the_pages(small: LaidOut) -> None:
    """The number that is printed beside a link, or in the contents, is the page it leads to."""
    document = small.document
    pages = {a: n for n, page in enumerate(document.pages, 1) for a in page.anchors}
    seen = 0
    for page in document.pages:
        for box in _walk(page._page_box):
            if box.element_tag == "a::after" and getattr(box, "text", "").strip(". "):
                target = box.element.get("href")[1:]
                digits = "".join(c for c in box.text if c.isdigit())
                assert digits == str(pages[target])
                seen += 1
    assert seen >= 3 + 8


VARIABLES = " ".join(f"`{word}_X`" for word in ("ONE", "TWO", "THREE", "FOUR", "FIVE"))
LONG = "\n\n".join(
    [
        "# Three",
        "## Same",
        "[A link](README.md#same), [another](two/README.md#wide-table), and the end.",
        *["Words. " * 90] * 30,
        '<img src="square.png" alt="a" width="96">',
        '<p align="center"><img src="square.png" alt="b" width="50%"> beside</p>',
        "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 90,
        *(f"## Part {n}\n\nSet {VARIABLES}.\n\n{'Words. ' * 900}" for n in (1, 2)),
        "",
    ]
)


def test_a_short_number_beside_a_link_leaves_no_gap(long: LaidOut) -> None:
    """Where others are longer, what follows it in its line stands close, and the area of a link
    is where its words are."""
    document = long.document
    assert len(document.pages) > 9
    page = next(page for page in document.pages if "three--three" in page.anchors)
    (line,) = (
        box
        for box in _walk(page._page_box)
        if type(box).__name__ == "LineBox"
        and any(getattr(part, "text", "") == "another" for part in _walk(box))
    )
    texts = _list_texts(line)
    shown = "".join(box.text for box in texts)
    assert re.fullmatch(r"A link\xa0\(p\.\xa0\d\), another\xa0\(p\.\xa0\d\), and the end\.", shown)
    for before, after in itertools.pairwise(texts):
        assert after.position_x == pytest.approx(before.position_x + before.width, abs=0.01)
    areas = [area for kind, _, area, _ in page.links if kind == "internal"]
    begins = [box.position_x for box in texts if box.element_tag == "a"]
    assert [area[0] for area in areas if any(abs(area[0] - x) < 0.01 for x in begins)] == begins


def test_a_wide_table_is_turned_and_no_number_is_split(small: LaidOut) -> None:
    """Twelve columns of numbers get a landscape page of their own, and each number stands on one
    line."""
    document = small.document
    turned = [page for page in document.pages if page.width > page.height]
    assert len(turned) == 1
    texts = [box.text for box in _list_texts(turned[0]._page_box)]
    assert texts.count("13580237.125") == 3
    assert "Narrow table" not in texts, "what stands behind it is upright again"


def test_no_text_is_wider_than_its_cell(small: LaidOut) -> None:
    """The widths that are worked out for columns hold what stands in them."""
    boxes = [b for page in small.document.pages for b in _walk(page._page_box)]
    cells = [b for b in boxes if b.element_tag in ("td", "th") and b.element.tag in ("td", "th")]
    assert len(cells) > 40
    for cell in cells:
        limit = cell.position_x + cell.border_width() - cell.padding_right
        for box in _list_texts(cell):
            assert box.position_x + box.width <= limit + 0.5, box.text


def _find_block(document: Any, identifier: str) -> Any:
    """The box of a block of code."""
    return next(
        box
        for page in document.pages
        for box in _walk(page._page_box)
        if type(box).__name__ == "BlockBox" and box.element.get("data-id") == identifier
    )


CODE = f"```\n{'x' * 433}\n```"
CODE_INSIDE = "\n\n".join(
    (
        "# Three\n\n## Same\n\n- Item:",
        indent(CODE, "  "),
        "  1. Item:",
        indent(CODE, "     "),
        indent(f"Quote:\n\n{CODE}", "     > ", lambda line: True),
        indent(f"[!NOTE]\nAlert:\n\n{CODE}", "> ", lambda line: True),
        "Words.",
        indent(f"Quote:\n\n{CODE}", "> ", lambda line: True),
        CODE,
        f"A note[^1].\n\n[^1]: Note:\n\n{indent(CODE, '    ')}\n",
    )
)


def test_no_line_of_code_inside_lists_and_quotes_is_broken_a_second_time(book: Path) -> None:
    """There is less room: each line but the first of a block begins with a mark, and is filled."""
    (book / "three.md").write_text(CODE_INSIDE)
    document = _lay_out(book).document
    for number in range(1, 8):
        block = _find_block(document, f"three--code.{number}")
        first, *others = (b for b in _walk(block) if type(b).__name__ == "LineBox")
        assert others
        for line in others:
            assert _list_texts(line)[0].text == "\N{RIGHTWARDS ARROW WITH HOOK}", number
        assert first.width > 0.96 * block.width, number


def test_the_proof_sees_what_is_missing(small: LaidOut) -> None:
    """A PDF whose text was cut in the layout is not complete."""
    resolved, dialect, document = small.resolved, small.dialect, small.document
    whole = small.path.read_bytes()
    reader = read_pages(resolved, dialect, document.pages)
    assert prove_pdf(resolved, dialect, reader, whole).lacks == ()

    reader = read_pages(resolved, dialect, document.pages[:-1])
    cut = prove_pdf(resolved, dialect, reader, whole)

    assert ("three.md", "headings", "three--same") in {
        (lack.chapter, lack.kind, lack.what) for lack in cut.lacks
    }
    with pytest.raises(BookError, match="lost a heading"):
        cut.raise_if_incomplete()


def test_a_long_book_is_written_in_halves(long: LaidOut, monkeypatch: pytest.MonkeyPatch) -> None:
    """One process and two write the same file, which has everything that the book in one piece
    has: pages with heads and numbers, links, places, outline and tags."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    halves = {}
    for limit, has_second in ((1, False), (1, True), (1000, False)):
        monkeypatch.setattr(halves_module, "_LONG", limit)
        monkeypatch.setattr(halves_module, "has_second_processor", lambda is_so=has_second: is_so)
        path = long.root / "out" / f"{limit} {has_second}.pdf"
        assert _build(long.root, path) == (long.proof, long.findings)
        halves[limit, has_second] = path

    in_turn, in_two, whole = halves.values()
    assert in_turn.read_bytes() == in_two.read_bytes() != whole.read_bytes()
    assert read_links(in_two) == read_links(whole)
    with pikepdf.open(in_two) as file, pikepdf.open(whole) as expected:
        assert find_faults(in_two) == []
        for page, other in zip(file.pages, expected.pages, strict=True):
            texts = [page.Contents.read_bytes(), other.Contents.read_bytes()]
            names = re.compile(rb"/[psx]\d+")  # of groups and patterns, numbered in each half
            assert names.sub(b"", texts[0]) == names.sub(b"", texts[1])
        tags, wanted = (
            [(tag.role, tag.marks, tag.objects) for tag in read_tags(pdf).top.walk()]
            for pdf in (file, expected)
        )
        assert tags == wanted


def test_two_builds_give_the_same_bytes(small: LaidOut, monkeypatch: pytest.MonkeyPatch) -> None:
    """With SOURCE_DATE_EPOCH neither the place nor the time of a build is in the PDF; an image of
    2400 pixels is stored at 1600, and found again by the next build."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    (kept,) = (small.root / "out" / ".cache" / "images").iterdir()
    with Image.open(kept) as image:
        assert image.size == (1600, 800)
    stamp = kept.stat().st_mtime_ns
    second = small.root / "out" / "second.pdf"
    _build(small.root, second)
    assert second.read_bytes() == small.path.read_bytes()
    assert kept.stat().st_mtime_ns == stamp


def test_a_broken_image_stops_all_but_a_lenient_build(book: Path) -> None:
    """An image that cannot be decoded is reported where it is shown, and the former file stays. A
    lenient build shows its text, and its proof holds."""
    path = book / "dist" / "small.pdf"
    path.parent.mkdir()
    path.write_bytes(b"the former one")
    data = (book / "square.png").read_bytes()
    (book / "square.png").write_bytes(data[:60] + bytes(len(data) - 120) + data[-60:])

    with pytest.raises(BookError) as caught:
        _build(book, path)

    finding = caught.value.findings[0]
    assert (finding.span.path, finding.span.line, finding.rule) == ("README.md", 5, "broken-image")
    assert path.read_bytes() == b"the former one"
    proof, findings = _build(book, path, lenient=True)
    assert proof.lacks == ()
    assert [f.rule for f in findings if f.rule == "broken-image"] == ["broken-image"]
    assert path.read_bytes() != b"the former one"


def test_an_image_has_the_size_that_its_author_gave(long: LaidOut) -> None:
    """Width in pixels and in percent of raw HTML are heeded on paper."""
    sizes = {}
    for page in long.document.pages:
        for box in _walk(page._page_box):
            if box.element_tag == "img" and box.element.get("alt") in ("a", "b"):
                sizes[box.element.get("alt")] = (round(box.width), round(box.height))
    assert sizes["a"] == (96, 48)
    assert abs(sizes["b"][0] - 150 / 25.4 * 96 / 2) < 3


@pytest.mark.parametrize(
    "reference",
    ["https://example.org/a.png", "file:///etc/passwd"],
)
def test_a_drawing_cannot_reach_outside(book: Path, reference: str) -> None:
    """A drawing that refers to the network, or to a file outside the book, ends the build. What
    it refers to is what `bindery check` says."""
    drawing = (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'viewBox="0 0 9 9"><image width="9" height="9" xlink:href="{reference}"/></svg>'
    )
    (book / "drawing.svg").write_text(drawing)
    assert find_drawing_fault(drawing.encode()) == f"is an SVG that loads '{reference}'"
    (book / "three.md").write_text("# Three\n\n## Same\n\n![Drawing](drawing.svg)\n")

    with pytest.raises(BookError) as caught:
        _build(book, book / "dist" / "small.pdf")

    finding = caught.value.findings[0]
    assert (finding.span.path, finding.span.line) == ("three.md", 5)
    assert finding.message == "the image 'drawing.svg' cannot be drawn"
    assert not (book / "dist" / "small.pdf").exists()


def test_the_fetcher_refuses(tmp_path: Path) -> None:
    """Nothing but data, files below the book and its own images is ever opened; neither `..` nor a
    symbolic link leads out."""
    inside = tmp_path / "book"
    inside.mkdir()
    (tmp_path / "secret").write_text("x")
    (inside / "link").symlink_to(tmp_path / "secret")
    urls = ("http://localhost/a", "file:///etc/passwd", "image:unknown.png")
    for url in (*urls, f"{inside.as_uri()}/../secret", f"{inside.as_uri()}/link"):
        with pytest.raises(FatalURLFetchingError):
            ClosedFetcher((inside,)).fetch(url)


def test_what_the_engine_says_becomes_a_finding(small: LaidOut) -> None:
    """An unknown line of the engine is a warning at the chapter whose id it names."""
    record = logging.LogRecord(
        "weasyprint", logging.ERROR, "", 0, "No anchor #three--gone for it", (), None
    )
    findings = pdf_module._read_log([record, record], small.resolved, small.dialect)

    assert [(f.span.path, f.severity, f.message) for f in findings] == [
        ("three.md", "warning", "WeasyPrint: no anchor #three--gone for it")
    ]


HARD_HEADINGS = """\
# ![The logo](square.png)

## A note[^1] here

## `code` & <b>bold</b> ![dot](square.png) \N{ROCKET}

## \x1b[31mred

## With ![a badge](https://example.org/b.svg) of the web

## !!!

<h2 align="center"><img src="square.png" alt="Drawn" width="20"></h2>

[^1]: The note.
"""


def test_hard_headings_reach_every_output(book: Path, run_bindery: Runner) -> None:
    """Headings of images, footnotes, signs and control characters are in outline and contents,
    under the name that a reader would say."""
    (book / "three.md").write_text(HARD_HEADINGS)
    (book / "README.md").write_text("# Preface\n\n[Table](two/README.md#wide-table)\n")
    for verb in ("html", "epub", "pdf"):
        assert run_bindery(verb, "--lenient", folder=book).status == 0
    with pikepdf.open(book / "dist" / "small.pdf") as file, file.open_outline() as outline:
        chapter = outline.root[-1].children[-1]
        assert chapter.title == "The logo"
        assert [item.title for item in chapter.children] == [
            "A note here",
            "code & bold \N{ROCKET}",
            "\N{SYMBOL FOR ESCAPE}[31mred",
            "With of the web",
            "!!!",
            "Drawn",
        ]


def test_the_index_names_the_pages(long: LaidOut) -> None:
    """The index is last and in the contents; each of its numbers is the page it leads to, and
    the whole goes on with the numbers of pages."""
    document = long.document
    numbers = {a: n for n, page in enumerate(document.pages, 1) for a in page.anchors}
    assert numbers["index."] == len(document.pages)
    last = _list_texts(document.pages[-1]._page_box)
    links = [box for box in last if box.element_tag == "a"]
    assert len({box.element.get("href") for box in links}) == 2
    assert all(box.text == str(numbers[box.element.get("href")[1:]]) for box in links)
    assert str(len(document.pages)) in {box.text for box in last}
    with pikepdf.open(long.path) as file, file.open_outline() as outline:
        assert outline.root[-1].title == "Index"


def _read_margin(page: Any, name: str) -> list[str]:
    """The texts in the boxes of a margin that have something to show."""
    boxes = (b for b in _walk(page._page_box) if getattr(b, "at_keyword", "").startswith(name))
    texts = ("".join(text.text for text in _list_texts(box)) for box in boxes)
    return [text for text in texts if text]


def test_heads_of_pages_say_part_and_chapter(long: LaidOut) -> None:
    """Left pages say part and chapter, right pages section and chapter: where a chapter begins
    below the end of another one, those with which the page begins. Small capitals are set in
    lower case, so that what is copied has no capitals inside words."""
    document = long.document
    start = next(n for n, page in enumerate(document.pages) if "three--three" in page.anchors)
    heads = [_read_margin(page, "@top") for page in document.pages[start : start + 3]]
    assert "Two" in heads[0]
    assert sorted(heads[1:]) == [["Same", "Three"], ["second part", "Three"]]


def test_a_page_that_begins_with_a_chapter_names_it(small: LaidOut) -> None:
    """Its head does not name the chapter of the page before."""
    page = next(page for page in small.document.pages if "preface--preface" in page.anchors)
    assert _read_margin(page, "@top-right") == ["Preface"]


def test_a_page_that_begins_inside_a_table_says_so(long: LaidOut) -> None:
    """In its margin, so that the tags have nothing of it; no other page does."""
    pages = long.document.pages
    rows = [sum(box.element_tag == "td" for box in _walk(page._page_box)) for page in pages]
    labels = [_read_margin(page, "@left-top") for page in pages]
    first = next(n for n, page in enumerate(pages) if "three--table.1" in page.anchors)
    last = next(n for n in range(first, len(pages)) if not rows[n]) - 1
    assert last > first
    assert [n for n, label in enumerate(labels) if label] == [*range(first + 1, last + 1)]
    assert labels[last] == ["table 2.1, continued"]


def test_every_kind_of_link_is_in_the_pdf(
    copy_book: Callable[[Path], Path], run_bindery: Runner
) -> None:
    """The book of all that is allowed becomes a PDF that has lost none of its links."""
    root = copy_book(Path(__file__).resolve().parents[1] / "books/clean")
    ended = run_bindery("pdf", folder=root)
    assert (ended.status, "57 links" in ended.stdout) == (0, True), ended.stderr
