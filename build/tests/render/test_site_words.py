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
    """Each kind of alert is in its place and in the size of the others, on the screen as on
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


def test_a_heading_takes_no_name_of_the_frame(site: Path) -> None:
    """Ids are there once, whatever a heading is called."""
    root = lxml_html.fromstring((site / "index.html").read_bytes())
    ids = root.xpath("//@id")
    assert len(ids) == len(set(ids))
    assert {"text", "found", "wanted-tables", "shared"} <= set(ids)
    assert root.get_element_by_id("text").tag == "h2"
