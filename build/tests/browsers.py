"""The browser that tests drive; a test without one skips itself."""

import importlib
import importlib.util
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from needs import need

# A theme changes colours and nothing else, a width all but colours.
COLOURS = ("color-contrast", "link-in-text-block")
VIEWS: tuple[tuple[str, int, str, dict[str, Any]], ...] = (
    ("light", 1280, "light", {"rules": {"target-size": {"enabled": True}}}),
    ("dark", 1280, "dark", {"runOnly": {"type": "rule", "values": list(COLOURS)}}),
    (
        "phone",
        390,
        "dark",
        {"rules": {"target-size": {"enabled": True}, "color-contrast": {"enabled": False}}},
    ),
)
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str:
    """The program of Chromium."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        need("chromium")
    assert path is not None
    return path


@contextmanager
def open_browser() -> Iterator[Any]:
    """A running Chromium without a window."""
    need("python:playwright")
    path = find_browser()
    playwright = importlib.import_module("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One running Chromium for the tests of a file."""
    with open_browser() as running:
        yield running


@pytest.fixture(scope="module")
def axe() -> str:
    """The script of axe-core."""
    need("python:axe_playwright_python")
    package = importlib.util.find_spec("axe_playwright_python")
    assert package is not None
    assert package.submodule_search_locations is not None
    return (Path(package.submodule_search_locations[0]) / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture
def open_tab(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a tab that may fetch from one place alone; at the end nothing has left that place and
    nothing has complained."""
    said: list[str] = []
    contexts = []

    def note_failure(address: str, reason: str) -> None:
        if reason != "net::ERR_ABORTED":  # a picture that was under way when the page was left
            said.append(f"failed: {address}: {reason}")

    def open_one(base: str, width: int = 1280, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": width, "height": 844}, **options)
        contexts.append(context)
        tab = context.new_page()
        tab.set_default_timeout(60_000)
        tab.on("console", lambda message: said.append(f"{tab.url}: {message.text}"))
        tab.on("pageerror", lambda error: said.append(f"{tab.url}: {error}"))
        tab.on("requestfailed", lambda asked: note_failure(asked.url, asked.failure))
        tab.on(
            "request",
            lambda asked: asked.url.startswith((base, "data:")) or said.append(asked.url),
        )
        return tab

    yield open_one
    for context in contexts:
        context.close()
    assert said == []


def keep_copies(tab: Any) -> None:
    """Keep what is copied in the page: a browser without a window has no clipboard."""
    tab.evaluate(
        """() => Object.defineProperty(navigator, "clipboard", {
            value: { writeText: async (text) => { (window.copied ??= []).push(text); } },
        })"""
    )


def find_violations(tab: Any, axe: str) -> list[tuple[str, str, list[str]]]:
    """What axe-core finds on the page that is open: the view, the rule, and the elements."""
    found = []
    tab.evaluate(axe)
    for view, width, scheme, options in VIEWS:
        tab.emulate_media(color_scheme=scheme)
        tab.set_viewport_size({"width": width, "height": 844})
        violations = tab.evaluate(
            "(options) => axe.run({ resultTypes: ['violations'], ...options }).then((found) =>"
            " found.violations.map((v) => [v.id, v.nodes.map((n) => n.html.slice(0, 200))]))",
            options,
        )
        found += [(view, rule, elements) for rule, elements in violations]
    return found
