"""The site in a real browser, from the disk: nothing fetched, nothing broken, nothing cut off."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from conftest import BookMaker, Runner

pytestmark = [pytest.mark.system, pytest.mark.slow]

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LONG_NAME = "_".join(["a_very_long_name_without_a_place_to_break_it"] * 3)
CELLS = [LONG_NAME, "141 GB", "4.8 TB/s", "989.4 TFLOPS", "NVLink 4, 900 GB/s", "700 W", "2024"]
SOURCE = f"""# Preface

A paragraph with `{LONG_NAME}`, a word {"GoesOnAndOn" * 12} and an address:
https://example.org/{"a/very/long/path/" * 8}

## A wide table

| {" | ".join(["a heading"] * 7)} |
|{"---|" * 7}
| {" | ".join(CELLS)} |

## Code

```bash
torchrun --nnodes 2 {"--another-long-option value " * 12}
```

![A wide drawing](wide.svg)

> [!NOTE]
> An alert.

- [x] a task

See [the other chapter](other/README.md#section).
"""
DRAWING = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="2000" height="100"><path d="M0 0h2000"/></svg>'
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (group outputs)"
    )
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("there is no Chromium on this machine")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def site(make_book: BookMaker, run_bindery: Runner) -> Path:
    root = make_book(
        {
            "README.md": SOURCE,
            "other/README.md": "# Other\n\n## Section\n\n[Back](../README.md)\n",
            "wide.svg": DRAWING,
        }
    )
    ended = run_bindery("html", folder=root)
    assert ended.status == 0, ended.stderr
    return root / "dist" / "site"


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_opens_from_the_disk(browser: Any, site: Path, width: int, scheme: str) -> None:
    """From file:// a page needs no network, reports no error, and does not scroll sideways."""
    context = browser.new_context(
        viewport={"width": width, "height": 844}, color_scheme=scheme, offline=True
    )
    page = context.new_page()
    requests: list[str] = []
    errors: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("requestfailed", lambda request: errors.append(f"failed: {request.url}"))
    page.goto((site / "index.html").as_uri())
    assert errors == []
    assert [url for url in requests if not url.startswith(("file://", "data:"))] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    beyond = page.evaluate(
        """width => [...document.querySelectorAll('article > *')]
            .filter(e => e.getBoundingClientRect().right > width + 1).map(e => e.outerHTML)""",
        width,
    )
    assert beyond == []
    assert page.locator("article h1").inner_text() == "Preface"
    assert page.locator("img").first.evaluate("e => e.complete && e.naturalWidth > 0")
    context.close()


def test_links_lead_from_page_to_page(browser: Any, site: Path) -> None:
    """A click on a link of the text and one in the menu arrive, from file:// as well."""
    page = browser.new_page(viewport={"width": 1280, "height": 844})
    page.goto((site / "index.html").as_uri())
    page.locator("article").get_by_text("the other chapter").click()
    assert page.url.endswith("/other/index.html#section")
    assert page.locator("article h1").inner_text() == "Other"
    page.locator("nav[aria-label=Chapters]").get_by_text("Preface").click()
    assert page.url.endswith("/site/index.html")
    page.close()


def test_the_keyboard_comes_to_the_text_first(browser: Any, site: Path) -> None:
    """The first stop of the tab key is the link that skips the menu."""
    page = browser.new_page()
    page.goto((site / "index.html").as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "#text"
    page.close()
