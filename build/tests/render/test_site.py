"""The site: whole, linked, provably complete, and never half written."""

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from bindery.book.this_edition import find_edition
from bindery.check.inspect import Inspection, inspect_book
from bindery.core.model import BookError
from bindery.render.addresses import find_page
from bindery.render.completeness import Proof, prove_site
from bindery.render.site.building import build_site
from bindery.render.site.dialect import SiteDialect
from fixture_types import BookMaker, Runner

BOOKS = Path(__file__).parents[1] / "books"
DRAWING = '<svg xmlns="http://www.w3.org/2000/svg" width="4" height="3"/>\n'
EPOCH = "1700000000"


@dataclass(frozen=True)
class Site:
    """A site that was built, with what it was built from."""

    folder: Path
    inspection: Inspection
    dialect: SiteDialect

    def read_page(self, page: str) -> str:
        return (self.folder / page).read_text(encoding="utf-8")

    def prove(self) -> Proof:
        return prove_site(self.inspection.resolved, self.dialect, self.folder, self.dialect.pages)


@pytest.fixture
def make_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Site]:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)

    def make(root: Path) -> Site:
        inspection = inspect_book(root)
        edition = find_edition(inspection.config)
        folder = tmp_path / "site"
        build_site(inspection, edition, folder, lambda name: None)
        pages = {
            c.path: find_page(c.path, inspection.config.folder) for c in inspection.book.chapters
        }
        return Site(folder, inspection, SiteDialect(inspection.config, edition, pages))

    return make


@pytest.fixture
def small_site(make_book: BookMaker, make_site: Callable[[Path], Site]) -> Site:
    source = (
        "# Preface\n\nSee [network](network/README.md#bus-bandwidth) and [the tool](tool.py).\n\n"
        "## Figures\n\n| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n\n"
        "```bash\necho one\necho two\n```\n\n![Drawing](images/a.svg)\n"
    )
    return make_site(
        make_book(
            {
                "README.md": source,
                "network/README.md": "# Network\n\n## Bus bandwidth\n\n[Up](../README.md)\n",
                "images/a.svg": DRAWING,
                "tool.py": "print('hello')\n",
            },
            extra="moved:\n  old/comms.md: network/README.md\n",
        )
    )


def test_a_heading_takes_no_name_of_the_frame(
    make_book: BookMaker, make_site: Callable[[Path], Site]
) -> None:
    """Ids are there once, whatever a heading is called."""
    names = ("Text", "Found", "Wanted tables", "Yours", "Shared", "Tip", "Sections")
    text = "".join(f"## {name}\n\nWords.[^1]\n\n" for name in names)
    page = make_site(make_book({"README.md": f"# Words\n\n{text}[^1]: A note.\n"}))
    ids = re.findall(r'\bid="([^"]*)"', page.read_page("index.html"))
    assert len(ids) == len(set(ids))
    assert '<h2 id="text">' in page.read_page("index.html")


def read_article(page: str) -> str:
    match = re.search(r"<article[^>]*>\n(.*?)\s*</article>", page, re.DOTALL)
    assert match
    return match[1]


def test_a_page_holds_the_chapter(small_site: Site) -> None:
    """The article of a page is the chapter, with relative links and images beside it."""
    assert read_article(small_site.read_page("network/index.html")) == (
        '<h1 id="network">Network</h1>\n<h2 id="bus-bandwidth">Bus bandwidth</h2>\n'
        '<p><a href="../index.html" class="book">Up</a></p>'
    )
    article = read_article(small_site.read_page("index.html"))
    assert '<a href="network/index.html#bus-bandwidth" class="book">network</a>' in article
    assert (
        '<img id="figure.1" src="images/a.svg" alt="Drawing" width="4" height="3" class="drawing"/>'
        in article
    )
    assert (small_site.folder / "images/a.svg").read_text() == DRAWING


def test_pages_lead_to_each_other(small_site: Site) -> None:
    """Every page has the menu with its own place marked, and leads to the next and the former."""
    first, second = (small_site.read_page(page) for page in ("index.html", "network/index.html"))
    assert '<a href="index.html" aria-current="page"><small>1 </small>Preface</a>' in first
    assert re.search(r'rel="next" href="network/index.html"', first)
    assert re.search(r'rel="prev" href="../index.html"', second)
    assert 'rel="prev"' not in first
    assert 'rel="next"' not in second


def test_a_moved_chapter_is_still_found(small_site: Site) -> None:
    """The old address of a moved chapter leads to the new one."""
    page = small_site.read_page("old/comms.html")
    assert 'content="0; url=../network/index.html"' in page
    assert '<a href="../network/index.html">' in page


def test_files_are_offered_where_no_repository_is_named(small_site: Site) -> None:
    """A program that a chapter links is copied beside the pages."""
    assert '<a href="tool.py">the tool</a>' in small_site.read_page("index.html")
    assert (small_site.folder / "tool.py").read_text() == "print('hello')\n"


def test_a_folder_has_no_address_where_no_repository_is_named(
    make_book: BookMaker, make_site: Callable[[Path], Site]
) -> None:
    """A link to one is plain text, and not marked as dead."""
    root = make_book({"README.md": "# A\n\nThe [data](data).\n", "data/a.txt": "1\n"})
    assert "The <span>data</span>." in make_site(root).read_page("index.html")


def test_files_are_linked_at_the_pinned_ref(make_site: Callable[[Path], Site]) -> None:
    """Where the book names its repository, programs and folders are linked there, at its ref."""
    page = make_site(BOOKS / "clean").read_page("index.html")
    base = "https://github.com/example/clean"
    for address in (
        f"{base}/blob/v1.0.0/scripts/timer.py",
        f"{base}/blob/v1.0.0/scripts/timer.py#L1",
        f"{base}/tree/v1.0.0/scripts",
        f"{base}/blob/v1.0.0/book/notes.md",
        f"{base}/edit/main/book/README.md",
    ):
        assert f'href="{address}"' in page


def test_a_book_without_a_preface_gets_contents(
    make_book: BookMaker, make_site: Callable[[Path], Site]
) -> None:
    """Where no chapter is at the top, the first page lists the chapters."""
    site = make_site(make_book({"a/README.md": "# One\n", "b/README.md": "# Two\n"}))
    article = read_article(site.read_page("index.html"))
    assert '<li><a href="a/index.html"><small>1 </small>One</a></li>' in article


def test_two_chapters_of_one_page_are_refused(make_book: BookMaker, run_bindery: Runner) -> None:
    """Chapters that would be written over each other stop the build."""
    root = make_book({"README.md": "# One\n", "index.md": "# Two\n"})
    ended = run_bindery("html", folder=root)
    assert ended.status == 2
    assert "'index.md' and 'README.md' would be the same page 'index.html'" in ended.stderr


@pytest.mark.parametrize("files", [{"thesis.txt": "mine"}, {"index.html": "<p>mine</p>"}])
def test_a_folder_of_somebody_else_is_not_replaced(
    make_book: BookMaker, run_bindery: Runner, tmp_path: Path, files: dict[str, str]
) -> None:
    """Where `site` is a folder that bindery has not built, nothing is built and nothing is lost."""
    root, site = make_book({"README.md": "# One\n"}), tmp_path / "keep" / "site"
    site.mkdir(parents=True)
    for name, content in files.items():
        (site / name).write_text(content)
    ended = run_bindery("html", "--out", str(site.parent), folder=root)
    assert ended.status == 2
    assert "this folder would be replaced, but it is not a site that bindery built" in ended.stderr
    assert {path.name: path.read_text() for path in site.iterdir()} == files


def test_the_same_book_gives_the_same_bytes(make_site: Callable[[Path], Site]) -> None:
    """Built twice with SOURCE_DATE_EPOCH, a site is the same to the byte."""
    first = hash_folder(make_site(BOOKS / "clean").folder)
    assert hash_folder(make_site(BOOKS / "clean").folder) == first


# --- the proof ---


def test_a_whole_site_lacks_nothing(small_site: Site) -> None:
    """The proof counts what the source has and finds all of it."""
    proof = small_site.prove()
    assert proof.lacks == ()
    listed = [chapter.chapter for chapter in proof.chapters]
    assert proof.summarise(listed) == (
        "complete: 4 headings, 1 table, 1 figure, 1 code block, 3 links in 2 chapters"
    )
    assert proof.summarise(listed[1:]).endswith(" in 1 chapter and the generated appendix")


@pytest.mark.parametrize(
    ("old", "new", "kind", "what"),
    [
        (r'<h2 id="figures">Figures</h2>', "", "headings", "figures"),
        (r"<tr><td>3</td>\s*<td>4</td>\s*</tr>", "", "tables", "part of table.1"),
        (r"echo.{0,20}two", "", "code_blocks", "part of code.1"),
        (r"<img[^>]*>", "", "figures", "figure.1"),
        (r"#bus-bandwidth", "#", "links", "network/index.html#bus-bandwidth"),
        (r"(?s)<article[^>]*>.*</article>", "", "headings", "preface"),
    ],
)
def test_the_proof_sees_what_is_lost(
    small_site: Site, old: str, new: str, kind: str, what: str
) -> None:
    """A heading, a row, a code line, a figure or a link that is gone from a page is named."""
    path = small_site.folder / "index.html"
    text = path.read_text(encoding="utf-8")
    tampered, count = re.subn(old, new, text)
    assert count >= 1
    path.write_text(tampered, encoding="utf-8")
    proof = small_site.prove()
    assert (kind, what) in {(lack.kind, lack.what) for lack in proof.lacks}
    with pytest.raises(BookError) as error:
        proof.raise_if_incomplete()
    assert error.value.findings[0].rule == "incomplete-output"
    assert error.value.findings[0].span.path == "README.md"


def test_an_incomplete_site_is_not_put_in_place(
    small_site: Site, monkeypatch: pytest.MonkeyPatch, make_site: Callable[[Path], Site]
) -> None:
    """A build whose proof fails leaves the former site as it was."""
    before = hash_folder(small_site.folder)
    monkeypatch.setattr("bindery.render.site.texts.render_chapter", lambda *_: "<p>cut</p>")
    with pytest.raises(BookError):
        make_site(small_site.inspection.config.root)
    assert hash_folder(small_site.folder) == before
    assert [path.name for path in small_site.folder.parent.iterdir() if "making" in path.name] == []


def test_a_lenient_build_says_what_it_lost(
    make_book: BookMaker, run_bindery: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The site is put in place, and each loss is a finding."""
    monkeypatch.setattr("bindery.render.site.texts.render_chapter", lambda *_: "<p>cut</p>")
    root = make_book({"README.md": "# A\n\n## B\n"})
    ended = run_bindery("html", "--lenient", folder=root)
    assert (ended.status, "<p>cut</p>" in (root / "dist/site/index.html").read_text()) == (0, True)
    assert "error[incomplete-output]: the site lost a heading: b" in ended.stderr
    assert "dist/site: incomplete, 2 things lost: 0 headings, " in ended.stdout


def test_a_moved_chapter_that_cannot_be_read(make_book: BookMaker, run_bindery: Runner) -> None:
    """A lenient build has no page at its old address, as it has none at the new one."""
    root = make_book({"README.md": "# A\n", "new.md": "# B\n"}, extra="moved: {old.md: new.md}\n")
    (root / "new.md").write_bytes(b"Caf\xe9\n")
    assert run_bindery("html", "--lenient", folder=root).status == 0
    assert not (root / "dist/site/old.html").exists()


def hash_folder(folder: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        digest.update(path.relative_to(folder).as_posix().encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def test_links_to_notes_are_none_of_the_author_s(make_book: BookMaker, run_bindery: Runner) -> None:
    """`dist/report.json` counts the links of the source, and not those to its notes and back."""
    book = make_book({"README.md": "# A\n\nA [link](#a) and a note[^1].\n\n[^1]: Its text.\n"})
    assert ", 1 link in 1 chapter" in run_bindery("html", folder=book).stdout
    report = json.loads((book / "dist/report.json").read_text())
    site = report["outputs"]["site"]
    assert site["complete"] is True
    assert site["chapters"][0]["path"] == "README.md"
    assert site["totals"]["links"] == {"source": 1, "output": 1}
