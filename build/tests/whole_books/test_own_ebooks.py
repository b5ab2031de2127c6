"""PDF and EPUB of the book of this repository, as readers and their programs find them."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pikepdf
import pytest
from bindery.book.this_edition import find_edition
from bindery.check.rules import RULES
from bindery.core.config import load_config
from bindery.render.pdf.reading import read_links
from bindery.render.text.paper import MARGIN
from pdf_tags import count_empty_boxes, find_faults, find_strange_fonts, read_tags
from validators import read_words, run_ace, run_epubcheck
from whole_sites import make_once, run_bindery_apart

ROOT = Path(__file__).resolve().parents[3]

pytestmark = pytest.mark.nightly


def is_built(folder: Path) -> bool:
    """Whether a folder has the ebooks of the commit that is checked out, as it is committed."""
    command = ["git", "-C", str(ROOT), "status", "--porcelain"]
    status = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    if status.returncode or status.stdout or not (folder / "report.json").is_file():
        return False
    edition = find_edition(load_config(ROOT, RULES)).name
    outputs = read_report(folder)
    return all(outputs.get(kind, {}).get("edition") == edition for kind in ("pdf", "epub"))


@pytest.fixture(scope="module")
def ebooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the PDF, the EPUB that was built after it, and the report of both. What lies in
    dist/ will do, if it is of this very edition and nothing has been changed since."""

    def build(out: Path) -> None:
        if is_built(ROOT / "dist"):
            for path in (ROOT / "dist").iterdir():
                if path.suffix in (".pdf", ".epub", ".json"):
                    shutil.copyfile(path, out / path.name)
            return
        for verb in ("pdf", "epub"):
            run_bindery_apart(verb, "--quiet", "--lenient", "--out", str(out), folder=ROOT)

    return make_once(tmp_path_factory, "ebooks of the own book", build)


@pytest.fixture
def pdf(ebooks: Path) -> Path:
    return next(ebooks.glob("*.pdf"))


@pytest.fixture
def epub(ebooks: Path) -> Path:
    return next(ebooks.glob("*.epub"))


def read_report(ebooks: Path) -> dict[str, Any]:
    outputs: dict[str, Any] = json.loads((ebooks / "report.json").read_text())["outputs"]
    return outputs


def test_nothing_of_the_source_is_lost(ebooks: Path) -> None:
    """The report counts as many headings, tables, figures, blocks of code and links in each ebook
    as in its source."""
    outputs = read_report(ebooks)
    for report in (outputs["pdf"], outputs["epub"]):
        assert report["complete"] is True
        assert all(count["source"] == count["output"] for count in report["totals"].values())


def test_the_tags_of_the_pdf_are_in_order(ebooks: Path, pdf: Path) -> None:
    """No fault that PDF/UA-1 forbids, and each thing of the book has its tag."""
    assert find_faults(pdf) == []
    totals = {k: v["output"] for k, v in read_report(ebooks)["pdf"]["totals"].items()}
    with pikepdf.open(pdf) as file:
        tags = read_tags(file)
    headings = sum(len(tags.find(f"H{level}")) for level in range(1, 7))
    assert headings >= totals["headings"]
    assert len(tags.find("Table")) >= totals["tables"]
    assert len(tags.find("Figure")) >= totals["figures"]
    assert len(tags.find("Caption")) >= totals["figures"]
    assert len(tags.find("Note")) > 20
    assert len(tags.find("L")) > 100


def test_the_pdf_leads_where_it_says(pdf: Path) -> None:
    """No link of the PDF is dead, and qpdf has nothing to mend."""
    read = read_links(pdf)
    links = [link for page in read.pages for link in page]
    assert ([link for link in links if read.find_fault(link)], len(links) > 2000) == ([], True)
    if shutil.which("qpdf") is not None:
        command = ["qpdf", "--check", str(pdf)]
        checked = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_letters_of_the_pdf_are_ours_and_inside_its_margins(pdf: Path) -> None:
    """Fonts that bindery carries, no box in the place of a letter, no word past the margin."""
    assert find_strange_fonts(pdf) == set()
    assert count_empty_boxes(pdf) == 0
    margin = MARGIN / 25.4 * 72
    words = [word for word in read_words(pdf) if word.page > 1]  # the cover is a picture
    assert len(words) > 50_000
    assert [w for w in words if w.left < margin - 1 or w.right > w.page_width - margin + 1] == []


def test_the_epub_is_valid(epub: Path) -> None:
    """The validator of the standard finds neither error nor warning."""
    status, report = run_epubcheck(epub)
    assert status == 0, report


def test_the_epub_can_be_read_by_everybody(epub: Path, tmp_path: Path) -> None:
    """DAISY ace finds nothing serious and nothing critical on any page."""
    assert run_ace(epub, tmp_path) == []
