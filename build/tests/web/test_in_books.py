"""A book prints when its links to the web were last asked, and what they answered."""

import shutil
import zipfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from bindery.check.inspect import inspect_book
from bindery.render.appendix import append_appendix, find_appendix
from bindery.web.answers import Answer
from bindery.web.memory import format_memory
from evidence_book import EPOCH, FILES
from fixture_types import BookMaker, Runner
from lxml import html as lxml_html

FIRST = datetime(2026, 11, 19, 23, 59, tzinfo=UTC)
SECOND = FIRST + timedelta(minutes=2)
ARCHIVED = "https://web.archive.org/web/2024/https://gamma.net/gone"
ANSWERS = (
    Answer("https://alpha.net/a", "live", FIRST, 200),
    Answer("https://alpha.net/a#b", "live", SECOND, 200, anchor="missing"),
    Answer("https://beta.net/old", "moved", SECOND, 200, target="https://beta.net/new"),
    Answer("https://gamma.net/gone", "dead", SECOND, 404, reason="answers 404", archived=ARCHIVED),
    Answer("https://delta.net/w?a=1&b=2", "gated", SECOND, 403, reason="answers 403: a *wall*"),
    Answer("https://slow.net/", "unreachable", SECOND, reason="no answer within 20 s"),
    Answer("https://nowhere.net/in-the-book", "live", SECOND, 200),
)
CHAPTERS = {
    "a.md": """# Start

[manual](https://alpha.net/a), [its part](https://alpha.net/a#b "By its author"),
[part](https://alpha.net/a#b), <https://beta.net/old>, [unasked](https://new.net/).

## Walls

<a href="https://delta.net/w?a=1&amp;b=2">wall</a> and [by label][gone], [example](https://example.com/).

[gone]: https://gamma.net/gone
""",
    "b.md": """# Network

[slow](https://slow.net/), [gone](https://gamma.net/gone), [here](a.md).
""",
}
TITLES = {
    "manual": "answered on 2026-11-19",
    "its part": "By its author",
    "part": "answered on 2026-11-20; the page had no such anchor",
    "https://beta.net/old": "moved to https://beta.net/new, as of 2026-11-20",
    "unasked": None,
    "wall": "refused an automated request on 2026-11-20",
    "by label": f"gone, as of 2026-11-20; archived copy: {ARCHIVED}",
    "example": None,
    "slow": "did not answer on 2026-11-20",
    "gone": f"gone, as of 2026-11-20; archived copy: {ARCHIVED}",
    "here": None,
}
SECTION = (
    "Web links in this book: 7. Checked on 2026-11-19 (1), 2026-11-20 (5): 6 (2 answered, "
    "1 moved, 1 gone, 1 refused automated requests, 1 did not answer). "
    "Gone: "
    f"https://gamma.net/gone: answers 404, checked on 2026-11-20; archived copy: {ARCHIVED}. "
    "In: Start: Walls; Network. "
    "Closed to programs; a browser may still open them: "
    "https://delta.net/w?a=1&b=2: answers 403: a *wall*, checked on 2026-11-20. In: Start: Walls."
)


@pytest.fixture(autouse=True)
def on_one_day(monkeypatch: pytest.MonkeyPatch) -> None:
    """All editions are of the same day."""
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)


def make_asked_book(make_book: BookMaker, changes: Mapping[str, str] | None = None) -> Path:
    return make_book({**CHAPTERS, "links.jsonl": format_memory(ANSWERS), **(changes or {})})


def list_titles(*pages: str) -> dict[str, str | None]:
    """The title of each link in the text of pages, by what the link says."""
    trees = [lxml_html.fromstring(page.encode()) for page in pages]
    links = [link for tree in trees for link in tree.xpath("//p//a[not(@class='back')]")]
    return {" ".join(link.text_content().split()): link.get("title") for link in links}


def read_text(tree: Any) -> str:
    return " ".join(tree.text_content().split())


def test_links_say_when_they_answered(
    make_book: BookMaker, run_bindery: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link without a title says what is known of it, and the appendix says it of all links, on
    the site and in the EPUB. The build itself asks nothing."""

    def refuse(*_: object) -> None:
        raise AssertionError("a build uses no network")

    monkeypatch.setattr("socket.socket.connect", refuse)
    root = make_asked_book(make_book)
    for verb in ("html", "epub"):
        ended = run_bindery(verb, folder=root)
        assert ended.status == 0, ended.stderr
    site = root / "dist" / "site"
    pages = [(site / f"{n}.html").read_text("utf-8") for n in ("a", "b", "links-to-the-web/index")]
    with zipfile.ZipFile(root / "dist" / "book.epub") as archive:
        files = [archive.read(f"EPUB/text/ch00{n}.xhtml").decode() for n in (1, 2, 3)]
        assert "Links to the web" in archive.read("EPUB/nav.xhtml").decode()
    for *chapters, appendix in (pages, files):
        titles = list_titles(*chapters)
        assert {text: titles[text] for text in TITLES} == TITLES
        assert SECTION in read_text(lxml_html.fromstring(appendix.encode()))
    places = lxml_html.fromstring(pages[2]).xpath("//article//li//a[@class='book']/@href")
    assert places == ["../a.html#walls", "../b.html", "../a.html#walls"]


def test_links_follow_the_numbers(make_book: BookMaker, run_bindery: Runner) -> None:
    """In a book that quotes numbers, their appendix ends with a section on links."""
    chapter = next(path for path in FILES if path.endswith(".md"))
    text = f"{FILES[chapter]}\n<https://alpha.net/a>\n"
    root = make_book({**FILES, chapter: text, "links.jsonl": format_memory(ANSWERS)})
    assert run_bindery("fill", folder=root).status == 0
    inspection = inspect_book(root)
    appendix = find_appendix(append_appendix(inspection))
    assert appendix is not None
    assert appendix.title == "Records and sources"
    titles = [anchor.title for anchor in appendix.anchors if anchor.level == 2]
    assert titles[-1] == "Links to the web"
    assert "Checked on 2026-11-19: 1 (1 answered)." in appendix.source


def test_a_book_that_asked_nobody_prints_nothing(make_book: BookMaker, run_bindery: Runner) -> None:
    """Without answers on links of the book there is neither a title nor an appendix."""
    for answers in ((), ANSWERS[-1:]):
        root = make_asked_book(make_book, {"links.jsonl": format_memory(answers)})
        assert run_bindery("html", folder=root).status == 0
        site = root / "dist" / "site"
        titles = list_titles(*((site / f"{name}.html").read_text("utf-8") for name in "ab"))
        assert {title for title in titles.values() if title} == {"By its author"}
        assert not (site / "links-to-the-web").exists()
        shutil.rmtree(root)
