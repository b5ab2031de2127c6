"""The browser that tests drive; a test without one skips itself."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from needs import need

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
