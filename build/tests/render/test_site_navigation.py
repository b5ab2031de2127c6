"""Getting about in a site, in a real browser from the disk: the menu and its parts, keys, tabs,
figures."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fixture_types import BookMaker, Runner

PARTS = """title: A book
parts:
  - chapters: [README.md]
  - {title: First, chapters: [a.md, b.md]}
  - {title: Second, chapters: [c/README.md, d.md, e.md]}
"""
SOURCE = """# C

## Section

- NVIDIA:

  ```bash
  nvidia-smi
  ```

- AMD:

  ```bash
  amd-smi
  ```

| a | b |
|---|---|
| 1 | 2 |
| 3 | 4 |

![A drawing](wide.svg)

## Last

Text.
"""
DRAWING = '<svg xmlns="http://www.w3.org/2000/svg" width="20" height="10"><path d="M0 0h20"/></svg>'


@pytest.fixture
def site(make_book: BookMaker, run_bindery: Runner) -> Path:
    files = {"chapters.yaml": PARTS, "c/README.md": SOURCE, "c/wide.svg": DRAWING}
    files |= {f"{name}.md": f"# {name}\n\nText.\n" for name in ("README", "a", "b", "d", "e")}
    root = make_book(files)
    ended = run_bindery("html", folder=root)
    assert ended.status == 0, ended.stderr
    return root / "dist" / "site"


def test_a_page_carries_its_own_part(site: Path) -> None:
    """The menu of a page has its own part, and of the others the first chapter: a page does not
    grow with the book. A script has the rest."""
    menu = (
        (site / "a.html")
        .read_text()
        .partition('<nav aria-label="Chapters"')[2]
        .partition("</nav>")[0]
    )
    assert [name for name in ("a.html", "b.html", "c/", "d.html", "e.html") if name in menu] == [
        "a.html", "b.html", "c/"
    ]  # fmt: skip
    assert menu.count("<details") == 2
    assert menu.count('<details class="part" open') == 1
    written = (site / "menu.js").read_text()
    listed = json.loads(written.partition(" = ")[2].rstrip(";\n"))
    assert listed[2] == [["c/index.html", "C", "3"], ["d.html", "d", "4"], ["e.html", "e", "5"]]


@pytest.fixture
def tab(open_tab: Callable[..., Any], site: Path) -> Any:
    opened = open_tab("file:", offline=True)
    opened.goto((site / "c/index.html").as_uri())
    return opened


@pytest.mark.nightly
def test_a_part_opens_with_all_its_chapters(tab: Any) -> None:
    menu = tab.locator("header.book nav")
    assert menu.locator("details[open] a").all_inner_texts() == ["3C", "4d", "5e"]
    menu.get_by_text("First").click()
    menu.get_by_role("link", name="2 b").click()
    tab.wait_for_url("**/b.html")
    assert tab.locator("header.book [aria-current]").inner_text() == "2b"


@pytest.mark.nightly
def test_arrow_keys_turn_pages(tab: Any) -> None:
    """Not where they have another task: in a field, a table, a block of code."""
    tab.keyboard.press("ArrowRight")
    tab.wait_for_url("**/d.html")
    tab.keyboard.press("ArrowLeft")
    tab.wait_for_url("**/c/index.html")
    tab.locator("article pre").first.focus()
    tab.keyboard.press("ArrowRight")
    tab.wait_for_timeout(200)
    assert tab.url.endswith("c/index.html")


@pytest.mark.nightly
def test_first_stops_lead_past_the_menu(tab: Any) -> None:
    """Text, contents, search and next chapter are a key or two away."""
    found = []
    for _ in range(4):
        tab.keyboard.press("Tab")
        found.append(tab.evaluate("document.activeElement.textContent"))
    assert found == ["Skip to the text", "Contents of this page", "Search", "Next chapter"]


@pytest.mark.nightly
def test_tools_of_a_table_are_one_stop(tab: Any) -> None:
    """The tab key stops once at the tools of a table; arrow keys lead on to sorting."""
    stops = tab.locator(".table-tools :is(input, button), button.sort")
    assert stops.evaluate_all("all => all.map((one) => one.tabIndex)") == [0, -1, -1]
    stops.first.focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Enter")
    assert tab.locator("th").first.get_attribute("aria-sort") == "ascending"


@pytest.mark.nightly
def test_variants_of_code_are_tabs(tab: Any) -> None:
    """A choice is remembered; what is hidden is one key away, and shown in print."""
    assert tab.locator("[role=tab]").all_inner_texts() == ["NVIDIA", "AMD"]
    shown = tab.locator("article .code:visible code")
    assert shown.all_inner_texts() == ["nvidia-smi"]
    tab.locator("[role=tab]").first.press("ArrowRight")
    shown.get_by_text("amd-smi").wait_for()
    tab.wait_for_timeout(500)  # a browser stores what it is told in the background
    tab.reload()
    shown.get_by_text("amd-smi").wait_for()
    assert shown.count() == 1
    tab.emulate_media(media="print")
    assert shown.count() == 2


@pytest.mark.nightly
def test_a_figure_opens_large(tab: Any) -> None:
    tab.locator("article img").click()
    assert tab.locator("dialog.large img").bounding_box()["width"] > 1000
    tab.keyboard.press("Escape")
    tab.locator("dialog.large").wait_for(state="detached")


@pytest.mark.nightly
def test_a_title_stays_where_it_is(tab: Any, site: Path) -> None:
    """From page to page the title does not jump, and the letters are the book's own."""
    tops = set()
    for page in ("a.html", "c/index.html", "e.html"):
        tab.goto((site / page).as_uri())
        tops.add(tab.locator("article h1").bounding_box()["y"])
    assert len(tops) == 1
    assert tab.evaluate("document.fonts.check('16px \"Source Serif 4\"')")
