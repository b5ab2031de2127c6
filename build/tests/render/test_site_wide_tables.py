"""Wide tables on a small screen, and tables with cells of several rows and columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from browsers import keep_copies, open_browser

if TYPE_CHECKING:
    from conftest import BookMaker, Runner

pytestmark = pytest.mark.nightly

HEADS = [f"Heading number {n}" for n in range(9)]
SOURCE = f"""# Tables

| {" | ".join(HEADS)} |
|{"---|" * 9}
| {" | ".join(["256 CU"] * 9)} |

| Narrow |
|---|
| a |

| Chip | Rate | Source |
|---|--:|---|
| a | 5 | [1](https://example.org/a) |
| b | – | [1](https://example.org/b) |
| c | 7 | [1](https://example.org/c), p. 3 |

<table>
<thead><tr><th rowspan="2">Chip</th><th colspan="2">Memory</th></tr>
<tr><th>GB</th><th>TB/s</th></tr>
</thead>
<tbody>
<tr><td rowspan="2">a</td><td>1</td><td>2</td></tr>
<tr><td>3</td><td>4</td></tr>
<tr><td>b</td><td colspan="2">none</td></tr>
</tbody>
</table>
"""


@pytest.fixture
def page(make_book: BookMaker, run_bindery: Runner) -> Iterator[Any]:
    root = make_book({"README.md": SOURCE})
    ended = run_bindery("html", folder=root)
    assert ended.status == 0, ended.stderr
    with open_browser() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.goto((root / "dist/site/index.html").as_uri())
        yield page


def test_a_table_says_that_it_goes_on(page: Any) -> None:
    """The wide table is marked where it goes on behind its edges; one that fits is not."""
    wide = page.locator(".table[data-goes-on]")
    wide.wait_for()
    assert page.locator(".table").nth(1).evaluate("(box) => box.matches('[data-fits]')")
    wide.evaluate("(box) => { box.scrollLeft = 9999; }")
    page.wait_for_selector(".table[data-scrolled]:not([data-goes-on])")


def test_a_cell_of_several_rows_is_copied_into_each(page: Any) -> None:
    """In CSV each row has a text for each column, below the heading that it belongs to."""
    keep_copies(page)
    page.get_by_role("button", name="Copy as CSV").last.click()
    assert page.evaluate("copied[0]").split("\n") == [
        *("Chip,Memory,Memory", "Chip,GB,TB/s"),
        *("a,1,2", "a,3,4", "b,none,none"),
    ]
    third = page.locator(".table").last.locator("tbody tr").nth(1).locator("td").first
    assert third.inner_text() == "3"
    assert third.evaluate("(cell) => getComputedStyle(cell).position") == "static"


def test_a_copy_keeps_the_addresses_of_sources(page: Any) -> None:
    """A link that is shown as a number says nothing outside of the book."""
    keep_copies(page)
    page.get_by_role("button", name="Copy as CSV").nth(2).click()
    assert page.evaluate("copied[0]").split("\n")[1:] == [
        *("a,5,https://example.org/a", "b,–,https://example.org/b"),
        'c,7,"https://example.org/c, p. 3"',
    ]
