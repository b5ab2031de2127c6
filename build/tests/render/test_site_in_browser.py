"""The site in a real browser, from the disk: nothing fetched, nothing broken, nothing cut off."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evidence_book import EPOCH, FILES
from fixture_types import BookMaker, Runner

pytestmark = pytest.mark.nightly

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
"""
DRAWING = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="2000" height="100"><path d="M0 0h2000"/></svg>'
)


@pytest.fixture
def site(make_book: BookMaker, run_bindery: Runner) -> Path:
    root = make_book({"README.md": SOURCE, "wide.svg": DRAWING})
    ended = run_bindery("html", folder=root)
    assert ended.status == 0, ended.stderr
    return root / "dist" / "site"


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(
    open_tab: Callable[..., Any], site: Path, width: int
) -> None:
    """A page opens from the disk, and neither long words nor tables, code or pictures make it
    scroll sideways."""
    page = open_tab("file:", width=width, offline=True)
    page.goto((site / "index.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    beyond = page.evaluate(
        """width => [...document.querySelectorAll('article > *')]
            .filter(e => e.getBoundingClientRect().right > width + 1).map(e => e.outerHTML)""",
        width,
    )
    assert beyond == []
    assert page.locator("img").first.evaluate("e => e.complete && e.naturalWidth > 0")


NARROW = """# Narrow

| Setting | What it does | Then |
|---|---|---|
| `torch.backends.cuda.matmul.allow_tf32` | words that wrap on a phone | 4-bit weights and more |

| a | b | c | d | e | f |
|---|---|---|---|---|---|
| Measured | Measured | Measured | Measured | Measured | Measured |

```bash
torchrun --nnodes 2 --a-long-option 3 --another-long-option 4 train.py
```
"""


def test_a_phone_shows_whole_lines(
    open_tab: Callable[..., Any], make_book: BookMaker, run_bindery: Runner
) -> None:
    """A table of three columns of text fits, code is wrapped from the beginning, and no option is
    broken. What was done to a table too wide for a phone is undone where there is room."""
    root = make_book({"README.md": NARROW})
    assert run_bindery("html", folder=root).status == 0
    page = open_tab("file:", width=360)
    page.goto((root / "dist/site/index.html").as_uri())
    page.locator(".table[data-wide]").wait_for()
    boxes = page.locator(".table")
    assert boxes.evaluate_all("all => all.map(e => e.scrollWidth > e.clientWidth + 1)") == [
        False, True
    ]  # fmt: skip
    code = page.locator(".code.wrapped pre")
    assert code.evaluate("e => e.scrollWidth <= e.clientWidth && e.scrollHeight > 50")
    words = code.locator(".word").evaluate_all("all => all.map(e => e.getClientRects().length)")
    assert words == [1, 1, 1]
    page.set_viewport_size({"width": 1280, "height": 800})
    page.locator(".table[data-wide]").wait_for(state="detached")
    assert page.locator(".table[data-tight]").count() == 0


def test_an_alert_is_in_the_text(
    open_tab: Callable[..., Any], make_book: BookMaker, run_bindery: Runner
) -> None:
    """No kind of alert is taken for a tip or a note of the frame, on the screen or on paper."""
    kinds = ("NOTE", "TIP", "IMPORTANT", "WARNING", "CAUTION")
    alerts = "\n".join(f"> [!{kind}]\n> Words.\n" for kind in kinds)
    root = make_book({"README.md": f"# Alerts\n\n{alerts}"})
    assert run_bindery("html", folder=root).status == 0
    page = open_tab("file:")
    page.goto((root / "dist/site/index.html").as_uri())
    for media in ("screen", "print"):
        page.emulate_media(media=media)
        styles = page.evaluate(
            """() => [...document.querySelectorAll('.alert')].map((alert) => {
                const { position, display, fontSize } = getComputedStyle(alert);
                return [position, display, fontSize];
            })"""
        )
        assert styles == [["static", "block", styles[0][2]]] * len(kinds)


# --- where numbers come from ---

TIP = "[role=tooltip]"


@pytest.fixture
def evidence_site(
    make_book: BookMaker, run_bindery: Runner, monkeypatch: pytest.MonkeyPatch
) -> Path:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    root = make_book(FILES)
    for command in ("fill", "html"):
        ended = run_bindery(command, folder=root)
        assert ended.status == 0, ended.stdout + ended.stderr
    return root / "dist" / "site"


@pytest.fixture
def open_evidence(open_tab: Callable[..., Any], evidence_site: Path) -> Callable[..., Any]:
    """Open a page as a reader would."""

    def open_page(page: str, **options: Any) -> Any:
        tab = open_tab("file:", offline=True, **options)
        tab.goto((evidence_site / page).as_uri())
        return tab

    return open_page


def find_number(page: Any, text: str) -> Any:
    return page.locator("td[data-number]", has_text=text).first


def test_a_mouse_reads_where_a_number_comes_from(open_evidence: Callable[..., Any]) -> None:
    """Hovering shows class, tool, version, method, machine, date, age and command, in the window;
    the pointer may enter what is shown, and leaving or Escape closes it."""
    page = open_evidence("index.html")
    tip = page.locator(TIP)
    assert not tip.is_visible()
    find_number(page, "0.50").hover()
    tip.wait_for(state="visible")
    text = tip.inner_text()
    assert text.startswith("measured: one of this book's tools")
    assert "A <b>processor</b> [x](y) *z*" in text
    assert "Enter" not in text
    box = tip.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 1280
    tip.hover()
    page.wait_for_timeout(500)
    assert tip.is_visible()
    page.mouse.move(5, 5)
    tip.wait_for(state="hidden")
    find_number(page, "0.25").hover()
    tip.wait_for(state="visible")
    page.keyboard.press("Escape")
    assert not tip.is_visible()


def test_the_keyboard_reads_where_numbers_come_from(open_evidence: Callable[..., Any]) -> None:
    """A table is one stop; arrows go from number to number and stay in it, Enter leads to the
    note and Escape back, and a screen reader is told what is shown."""
    page = open_evidence("chips/index.html")
    tip = page.locator(TIP)

    def read_focus() -> str:
        return str(page.evaluate("document.activeElement.textContent"))

    page.get_by_text("the source of A100").focus()
    while not page.evaluate("document.activeElement.matches('td')"):
        page.keyboard.press("Tab")
    assert read_focus() == "80"
    assert "vendor: from the vendor's data sheet" in tip.inner_text()
    assert "example.org/a100: vendor, 2026-11-20" in tip.inner_text()
    assert "Enter" in tip.inner_text()
    described = page.evaluate("document.activeElement.getAttribute('aria-describedby')")
    assert described == tip.get_attribute("id")

    page.keyboard.press("ArrowRight")
    assert read_focus() == "400"
    page.keyboard.press("ArrowDown")
    assert read_focus().startswith("1000")
    assert "example.com/power: reported" in tip.inner_text()
    assert "unconfirmed" in tip.inner_text()
    page.keyboard.press("Home")
    assert read_focus().startswith("192")
    page.keyboard.press("Escape")
    assert not tip.is_visible()
    assert read_focus().startswith("192")

    page.keyboard.press("Enter")
    assert read_focus().startswith("example.org/b200: vendor")
    assert page.evaluate("document.activeElement.closest('details').open")
    page.keyboard.press("Escape")
    assert read_focus().startswith("192")

    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert read_focus().startswith("192"), "the table remembers where its reader was"
    stops = page.locator("table [tabindex='0']").count()
    assert stops == page.locator("table[data-note]").count()


def test_a_finger_reads_where_a_number_comes_from(open_evidence: Callable[..., Any]) -> None:
    """A tap opens, within a narrow window; a tap elsewhere closes."""
    page = open_evidence("chips/index.html", width=390, has_touch=True)
    tip = page.locator(TIP)
    find_number(page, "4096").tap()
    assert "stale (method 1, but ruler is now at 2)" in tip.inner_text()
    box = tip.bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 390
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("h1").tap()
    assert not tip.is_visible()


def test_print_shows_no_notes(open_evidence: Callable[..., Any]) -> None:
    """A printed page is the text: notes stay closed and nothing floats."""
    page = open_evidence("chips/index.html")
    find_number(page, "1000").focus()
    page.emulate_media(media="print")
    assert not page.locator("details.origins").first.is_visible()
    assert not page.locator(TIP).is_visible()
