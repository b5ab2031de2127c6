"""The browser that tests drive; a test without one skips itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_browser() -> str:
    """The program of Chromium."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        pytest.skip("there is no Chromium on this machine")
    return path


@contextmanager
def open_browser() -> Iterator[Any]:
    """A running Chromium without a window."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (group outputs)"
    )
    path = find_browser()
    with playwright.sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One running Chromium for the tests of a file."""
    with open_browser() as running:
        yield running
