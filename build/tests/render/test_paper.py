"""Paper: how much fits on A4 and on US letter, and that the book is laid out for what it asks."""

import pikepdf
import pytest
from bindery.core import config
from bindery.render.text.paper import MARGINS, PAPERS
from fixture_types import BookMaker, Runner
from validators import read_words

COLUMNS = 9
WIDE = "| " + " | ".join(f"Column {n}" for n in range(COLUMNS)) + " |\n" + "|---:" * COLUMNS + "|\n"
WIDE += ("| " + " | ".join(f"{n + 1}234567.125" for n in range(COLUMNS)) + " |\n") * 3
CODE = "```\n" + "x" * 300 + "\n```\n"


def test_every_paper_of_the_configuration_is_known() -> None:
    """The words that chapters.yaml may say and the sizes that are known are the same."""
    assert tuple(PAPERS) == config.PAPERS


@pytest.mark.needs("pdftotext")
@pytest.mark.parametrize(
    ("extra", "options", "paper"),
    [
        ("", (), "a4"),
        ("outputs: {paper: letter}\n", (), "letter"),
        ("outputs: {paper: a4}\n", ("--paper", "letter"), "letter"),
    ],
)
def test_a_book_is_laid_out_for_its_paper(
    make_book: BookMaker, run_bindery: Runner, extra: str, options: tuple[str, ...], paper: str
) -> None:
    """Pages have its size, no word leaves the margin, and no number is split; A4 where nothing is
    said, and `--paper` overrules chapters.yaml."""
    root = make_book({"a.md": f"# A\n\n{'Some words of prose. ' * 60}\n\n{WIDE}\n{CODE}"}, extra)
    assert run_bindery("pdf", *options, folder=root).status == 0
    path = root / "dist" / "book.pdf"
    size = PAPERS[paper]
    with pikepdf.open(path) as file:
        sizes = {
            tuple(round(float(v) / 72 * 25.4) for v in page.mediabox[2:]) for page in file.pages
        }
    assert (round(size.width), round(size.height)) in sizes
    assert len(sizes) <= 2  # a table may be turned
    words = [word for word in read_words(path) if word.page > 1]  # the cover has no margin
    margin = MARGINS[1] / 25.4 * 72
    assert [w for w in words if w.left < margin - 1 or w.right > w.page_width - margin + 1] == []
    assert [w.text for w in words if w.text.endswith("234567.125")] == [
        f"{n + 1}234567.125" for n in range(COLUMNS)
    ] * 3


def test_paper_that_does_not_exist_is_refused(make_book: BookMaker, run_bindery: Runner) -> None:
    """On the command line as in chapters.yaml."""
    root = make_book({"a.md": "# A\n"})
    assert run_bindery("pdf", "--paper", "a3", folder=root).status == 2
