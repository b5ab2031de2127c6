"""Words of the text and names of the frame: what an author writes is never taken for a part of the
page, on the screen and on paper."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from lxml import html as lxml_html

if TYPE_CHECKING:
    from conftest import BookMaker, Runner

KINDS = ("NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION")
NAMES = ("Text", "Found", "Wanted tables", "Yours", "Shared", "Tip", "Sections")
"""Headings that are called like something of the frame."""
SOURCE = "# Words\n\n" + "\n".join(
    [
        *(f"> [!{kind}]\n> An alert of its own.\n" for kind in KINDS),
        *(f"## {name}\n\nWords.[^1]\n" for name in NAMES),
        "[^1]: A note.\n",
    ]
)


@pytest.fixture
def site(make_book: BookMaker, run_bindery: Runner) -> Path:
    root = make_book({"README.md": SOURCE})
    ended = run_bindery("html", folder=root)
    assert ended.status == 0, ended.stderr
    return root / "dist" / "site"


@pytest.mark.nightly
def test_an_alert_stands_in_the_text(browser: Any, site: Path) -> None:
    """Each kind of alert stands in its place and in the size of the others, on the screen as on
    paper."""
    page = browser.new_page(viewport={"width": 1280, "height": 844})
    page.goto((site / "index.html").as_uri())
    for media in ("screen", "print"):
        page.emulate_media(media=media)
        boxes = page.evaluate(
            """() => [...document.querySelectorAll('.alert')].map((alert) => {
                const { position, display, fontSize } = getComputedStyle(alert);
                return [position, display, fontSize, alert.getBoundingClientRect().top];
            })"""
        )
        assert len(boxes) == len(KINDS)
        assert {tuple(box[:3]) for box in boxes} == {("static", "block", boxes[0][2])}
        assert [box[3] for box in boxes] == sorted({box[3] for box in boxes})
    page.close()


@pytest.mark.nightly
@pytest.mark.parametrize("title", ["Small Book", "Small Book: for many readers"])
def test_a_title_is_seen_once(
    browser: Any, make_book: BookMaker, run_bindery: Runner, title: str
) -> None:
    """Where the text begins with the title of the book, with or without the second one, it is not
    shown again, and it is there for who hears the page; long names beside the text are whole."""
    long_name = "all_reduce_" * 6
    root = make_book(
        {
            "chapters.yaml": "title: Small Book\nsubtitle: For many readers\n"
            "parts: [{chapters: [README.md]}]\n",
            "README.md": f"# {title}\n\nWords.\n\n## {long_name}\n\n## Another\n",
        }
    )
    assert run_bindery("html", folder=root).status == 0
    page = browser.new_page(viewport={"width": 1440, "height": 844})
    page.goto((root / "dist/site/index.html").as_uri())
    heights = [
        page.locator(place).evaluate("(element) => element.getBoundingClientRect().height")
        for place in (".front .name", "article h1")
    ]
    assert heights[0] > 10 > heights[1]
    lefts = [
        page.locator(place).evaluate("(element) => element.getBoundingClientRect().left")
        for place in (".front .name", "article p")
    ]
    assert lefts[0] == lefts[1], "without a cover there is no column for it"
    assert page.get_by_role("heading", name=title, level=1).count() == 1
    beyond = page.locator("nav.sections").evaluate("(nav) => nav.scrollWidth - nav.clientWidth")
    assert beyond == 0
    page.close()


def test_a_heading_takes_no_name_of_the_frame(site: Path) -> None:
    """Ids are there once, whatever a heading is called."""
    root = lxml_html.fromstring((site / "index.html").read_bytes())
    ids = root.xpath("//@id")
    assert len(ids) == len(set(ids))
    assert {"text", "found", "wanted-tables", "shared"} <= set(ids)
    assert root.get_element_by_id("text").tag == "h2"
