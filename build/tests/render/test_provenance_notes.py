"""What the outputs say about the origins of numbers: true, complete, and quiet."""

import re
import subprocess
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from bindery.markdown.chapter_reader import parse_chapter
from bindery.render.appendix import escape_words
from bindery.render.completeness import Contents, read_contents
from evidence_book import EPOCH, FILES, MODEL, make_record
from fixture_types import BookMaker, Runner
from hypothesis import example, given
from hypothesis import strategies as st
from lxml import html as lxml_html
from needs import need
from whole_sites import run_bindery_apart

Filler = Callable[..., Path]
RECORD = "scripts/records/timer/cpu-x86_64-2core_20261120.json"


@pytest.fixture
def fill_book(make_book: BookMaker, run_bindery: Runner, monkeypatch: pytest.MonkeyPatch) -> Filler:
    """The book of `evidence_book`, changed, filled, and without a finding."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)

    def fill(changes: Mapping[str, str] | None = None) -> Path:
        root = make_book({**FILES, **(changes or {})})
        ended = run_bindery("fill", folder=root)
        assert ended.status == 0, ended.stdout
        return root

    return fill


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The book of `evidence_book` with its site, which no test changes."""
    root = tmp_path_factory.mktemp("filled")
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", EPOCH)
        run_bindery_apart("fill", folder=root)
        run_bindery_apart("html", folder=root)
    return root


@pytest.fixture
def open_page(filled: Path, run_bindery: Runner) -> Callable[..., Any]:
    """The text of a page of the site, as a tree."""

    def build(page: str, root: Path | None = None) -> Any:
        if root is not None:
            ended = run_bindery("html", "--lenient", folder=root)
            assert ended.status == 0, ended.stderr
        site = (root or filled) / "dist" / "site"
        return lxml_html.parse(site / page).getroot().find(".//article")

    return build


def find_cells(article: Any, table: int = 0) -> dict[str, Any]:
    """The numbers of a table with notes, by their text without marks."""
    tables = article.xpath(".//table[@data-note]")
    return {cell.text: cell for cell in tables[table].xpath(".//td[@data-number]")}


def read_notes(article: Any, cell: Any) -> list[str]:
    """The notes that a number names, as text."""
    owner = cell.xpath("ancestor-or-self::*[@data-note]")[0].get("data-note")
    ends = cell.get("data-origins").split()
    if cell.get("data-formula"):
        ends.insert(0, f"formula.{cell.get('data-formula')}")
    notes = [article.xpath(f".//details[@id='{owner}']//*[@id='{owner}.{end}']") for end in ends]
    assert all(len(note) == 1 for note in notes)
    return [" ".join(note[0].text_content().split()) for note in notes]


# --- the site ---


@pytest.mark.parametrize(
    ("page", "number", "kind", "said"),
    [
        ("index.html", "0.50", "measured",
         [(f"Measured with timer 0.1.0, method 1, {MODEL}, 1 socket, 2 cores, 2026-11-20, "
          "record R1. Caveats: the clock | was not *sampled*. "
          "Command: OMP_NUM_THREADS=2 python scripts/timer.py --name 'two words'")]),
        ("index.html", "7200", "derived",
         ["Runs in an hour = 3600 / seconds", "Measured with timer"]),
        ("chips/index.html", "1000", "reported",
         [("example.com/power: reported, 2026-11-20, unconfirmed, "
          "via example.net/list. data/chips.csv, line 3.")]),
        ("chips/index.html", "64", "vendor",
         ["A letter of the vendor: vendor, 2026-01-15"]),
    ],
)  # fmt: skip
def test_a_number_names_its_origins(
    open_page: Callable[..., Any], page: str, number: str, kind: str, said: list[str]
) -> None:
    """A measured number names its run with the command, a derived one its formula, a published
    one its own source, class, date, doubt and line; nothing is added to the table."""
    article = open_page(page)
    cell = find_cells(article)[number]
    assert cell.get("data-number") == kind
    notes = read_notes(article, cell)
    assert [note[: len(start)] for note, start in zip(notes, said, strict=True)] == said
    assert cell.xpath("ancestor::table")[0].xpath(".//sup | .//*[@class='origin']") == []


def test_a_result_that_is_the_same_everywhere_is_derived(
    fill_book: Filler, open_page: Callable[..., Any]
) -> None:
    """A tool whose output is exact has measured nothing, on no machine."""
    config = FILES["chapters.yaml"].replace("timer.py", "timer.py\n    output: exact")
    article = open_page("index.html", fill_book({"chapters.yaml": config}))
    cell = find_cells(article)["0.50"]
    assert cell.get("data-number") == "derived"
    assert read_notes(article, cell)[0].startswith(
        "Computed with timer 0.1.0, method 1, 2026-11-20, record R1. Caveats: the clock"
    )


def test_a_number_in_a_sentence_has_a_note(open_page: Callable[..., Any]) -> None:
    """The element of a value names its note; inside a link too."""
    article = open_page("index.html")
    first, second = article.xpath(".//span[@data-number]")
    assert first.text_content() == "0.50 s"
    assert second.xpath("ancestor::a")
    assert "Measured with timer" in read_notes(article, first)[0]


def test_a_stale_row_says_so(open_page: Callable[..., Any]) -> None:
    """Rows of a stale record carry the word, and the note says why and that the run is partial."""
    article = open_page("chips/index.html")
    cells = find_cells(article, 1)
    for row in (cell.getparent() for cell in cells.values()):
        assert row.get("class") == "stale"
        assert row.xpath("td[1]/span[@class='stale']")[0].text == "stale"
    (note,) = read_notes(article, cells["4096"])
    assert "stale (method 1, but ruler is now at 2)" in note
    assert "2 nodes, 4 ranks" in note
    assert "partial: timeout" in note


def test_a_run_that_found_a_problem_says_so(
    fill_book: Filler, open_page: Callable[..., Any]
) -> None:
    """Note and appendix show the exit status of a complete record of a failed run."""
    root = fill_book({RECORD: make_record("timer", ended="failed", exit_status=1)})
    article = open_page("index.html", root)
    (note,) = read_notes(article, find_cells(article)["0.50"])
    assert "the tool ended with status 1: it had found a problem" in note
    assert "partial" not in note
    appendix = open_page("records-and-sources/index.html", root)
    assert "2026-11-20, failed (1)" in appendix.text_content()


def test_a_plot_has_notes_on_what_it_draws(
    open_page: Callable[..., Any], fill_book: Filler
) -> None:
    """Sources and formulas are below a plot, without those of columns that it does not draw."""
    need("python:matplotlib")
    drawn = "-- plot: bar\n-- plot x: name\n-- plot y: memory\n"
    root = fill_book(
        {
            "views/drawn.sql": drawn + FILES["views/chips.sql"],
            "README.md": "# Preface\n\n<!-- plot: drawn -->\n<!-- /plot -->\n",
        }
    )
    article = open_page("index.html", root)
    notes = [
        item.text_content().partition(":")[0]
        for item in article.xpath(".//details[@class='origins']/ol/li")
    ]
    assert notes == ["example.org/a100", "example.org/b200", "A letter of the vendor"]


def test_of_an_edited_table_nothing_is_said(
    fill_book: Filler, open_page: Callable[..., Any]
) -> None:
    """A number that was typed over shows no origins: they would be those of another number."""
    root = fill_book()
    path = root / "README.md"
    path.write_text(path.read_text().replace("|    0.25 |", "|    0.26 |").replace("0.50 s", "9 s"))
    article = open_page("index.html", root)
    assert article.xpath(".//table[@data-note]") == []
    # The other value is as its view gives it, and stays explained.
    assert [e.text_content() for e in article.xpath(".//span[@data-number]")] == ["7200"]


def test_a_book_without_evidence_is_left_alone(make_book: BookMaker, run_bindery: Runner) -> None:
    """No appendix, no script and no note where nothing is quoted."""
    root = make_book({"README.md": "# Preface\n\n| a |\n|---|\n| 1 |\n"})
    assert run_bindery("html", folder=root).status == 0
    site = root / "dist" / "site"
    assert not any(path.is_dir() for path in site.iterdir())
    assert "provenance.js" not in (site / "index.html").read_text()
    assert "origins" not in (site / "index.html").read_text()


# --- the appendix ---


def test_the_appendix_lists_every_record_and_data_file(open_page: Callable[..., Any]) -> None:
    """Each machine once, each record with its method and places, each file of published figures
    with its classes."""
    article = open_page("records-and-sources/index.html")
    said = [" ".join(item.text_content().split()) for item in article.iter("li")]
    assert f"M1: {MODEL}, 1 socket, 2 cores, 8 GiB of memory." in said
    records, published = (
        [[" ".join(cell.text_content().split()) for cell in row] for row in table.iter("tr")][1:]
        for table in article.iter("table")
    )
    assert records == [
        ["R1", "timer", "1", "2026-11-20", "M1", "Preface; Preface: Measured"],
        [
            "R2",
            "ruler",
            "1",
            "2026-11-20, partial, stale: method 1, but ruler is now at 2",
            "M1, 2 nodes, 4 ranks",
            "Chips: Lengths",
        ],
    ]
    assert published == [["Chips & boards", "3", "vendor 3, reported 1", "4"]]
    assert [a.get("id") for a in article.xpath(".//td//*[@id]")] == ["r1", "r2"]
    assert "../index.html#measured" in {link.get("href") for link in article.iter("a")}
    front = open_page("index.html").getroottree().getroot()
    assert "2 chapters, 4 tables, 2 tools, 2 recorded runs" in front.text_content()


HARSH = st.text(st.sampled_from("ab1 \\`*_{}[]<>()#+-.!|~&$:@^/\"'=?;%w\t\n"), max_size=20)


@example("A;:a:;Z")
@given(text=HARSH.map(lambda text: f"A{text}Z"))
def test_words_of_a_record_stay_words(text: str) -> None:
    """Whatever a machine is called, the appendix says it letter by letter and links nowhere."""
    chapter = parse_chapter("a.md", f"# T\n\n- {escape_words(text)}\n")
    (shown,) = (
        "".join(child.content for child in token.children or ())
        for token in chapter.tokens[3:]
        if token.type == "inline"
    )
    assert shown == " ".join(text.split())
    assert chapter.links == ()


# --- the ebooks ---


def test_an_epub_has_the_notes_below_its_tables(fill_book: Filler, run_bindery: Runner) -> None:
    """Notes are text of the chapter, marks lead to them, and the appendix ends the book."""
    root = fill_book()
    ended = run_bindery("epub", folder=root)
    assert ended.status == 0, ended.stderr
    path = root / "dist" / "book.epub"
    with zipfile.ZipFile(path) as archive:
        pages = [archive.read(f"EPUB/text/ch00{n}.xhtml").decode() for n in (1, 2, 3)]
        contents = archive.read("EPUB/nav.xhtml").decode()
    text = " ".join(lxml_html.fromstring(pages[1].encode()).text_content().split())
    assert (
        "Sources: vendor (2026-01 to 2026-11): example.org [1], A letter of the vendor [4]; "
        "vendor, unconfirmed (2026-11): example.org [2]; "
        "reported, unconfirmed (2026-11): example.com [3]."
    ) in text
    assert 'href="ch003.xhtml#records-and-sources--r2"' in pages[1]
    assert '<span class="origin">[<a href="#chips--origins.1.4">4</a>]</span>' in pages[1]
    assert "<details" not in pages[1]
    assert "data-number" not in pages[1]
    assert "Records and sources" in pages[2]
    assert "Records and sources" in contents


@pytest.mark.needs("pdftotext")
def test_the_pdf_says_where_its_numbers_come_from(fill_book: Filler, run_bindery: Runner) -> None:
    """Notes are below the tables; the appendix has every record that is quoted."""
    root = fill_book()
    ended = run_bindery("pdf", folder=root)
    assert ended.status == 0, ended.stderr
    assert "WeasyPrint" not in ended.stderr
    path = root / "dist" / "book.pdf"
    command = ["pdftotext", "-layout", str(path), "-"]
    read = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    pages = [" ".join(page.split()) for page in read.stdout.split("\f")]
    preface = next(page for page in pages if "The second step took" in page)
    assert "measured with timer on A <processor & co. [x][y] *z*" in preface
    assert re.search(r"R1 \(p\. \d\); the rest is derived from these", preface)
    chips = next(page for page in pages if "In a list:" in page)
    assert "long stale" in chips
    appendix = next(page for page in pages if "R1 timer 1 2026-11-20" in page)
    assert "R2 ruler 1 2026-11-20" in appendix


# --- the proof ---


def test_a_note_stands_for_no_link_of_the_author() -> None:
    """A chapter that lost its link to a source is not complete because a note has the same."""
    link = '<a href="https://example.org/a100">a</a>'
    added = f'<span class="origin">{link}</span><details class="origins"><p>{link}</p></details>'
    root = lxml_html.fromstring(f"<article>{added}</article>")
    assert read_contents(root, Contents()).links.total() == 0
    root = lxml_html.fromstring(f"<article>{added}{link}</article>")
    assert read_contents(root, Contents()).links.total() == 1
