"""Defects of all kinds, planted into copies of real books, are all found, and nothing else is.

The plants are made anew from each seed: `BINDERY_SEEDS=11,12,13` names others than the usual ones.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from bindery.model import Finding
from bindery.pipeline import Inspection, inspect_book
from planting import Expected, Field, cut, iterate_kinds, plant
from whole_sites import copy_reference_book

if TYPE_CHECKING:
    from conftest import Runner

ROOT = Path(__file__).resolve().parents[2]
PLANTS = 80
SEEDS = tuple(map(int, os.environ.get("BINDERY_SEEDS", "1,2,3,4").split(",")))


@pytest.fixture(params=["own", pytest.param("reference", marks=pytest.mark.slow)])
def book(request: pytest.FixtureRequest, tmp_path: Path, run_bindery: Runner) -> Path:
    """A copy of our own book, and of the reference book where it is there."""
    target = tmp_path / "book"
    if request.param == "own":
        left_out = shutil.ignore_patterns(".*", "dist", "__pycache__", "tests")
        shutil.copytree(ROOT, target, ignore=left_out)
        return target
    copy_reference_book(target)
    ended = run_bindery("import", str(target), folder=tmp_path)
    assert ended.status == 0, ended.stderr
    return target


def count_headings(inspection: Inspection) -> dict[str, int]:
    """The headings of each chapter."""
    return {c.path: sum(a.level > 0 for a in c.anchors) for c in inspection.book.chapters}


def find_cut_sections(book: Path, before: Inspection, after: Inspection) -> set[Finding]:
    """Where the glossary leads to a section that ends too early, at a heading that was planted."""
    former, now = count_headings(before), count_headings(after)
    cut_up = {(book / path).resolve() for path in now if now[path] > former.get(path, 0)}
    found = set()
    for finding in after.findings:
        if finding.rule == "unglossed-term" and "where this leads" in finding.message:
            target = re.search(r"\((.+?)#", cut(book, finding))
            if target and ((book / finding.span.path).parent / target[1]).resolve() in cut_up:
                found.add(finding)
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_every_plant_is_found_and_nothing_else(book: Path, seed: int) -> None:
    """Each plant is found by its rule, on its line, under its text, with the right answer."""
    whole = inspect_book(book)
    before = whole.findings
    planted = plant(book, seed, PLANTS)
    spoilt = inspect_book(book)
    after = spoilt.findings

    wanted = Counter((e.rule, e.path, e.row) for e in planted.expected)
    kept = Counter(
        (f.rule, f.span.path, planted.move_line(f.span.path, f.span.line)) for f in before
    )
    excused = find_cut_sections(book, whole, spoilt)
    found = Counter((f.rule, f.span.path, f.span.line) for f in after if f not in excused)
    # A rule that looks at what stands around may see less now; what is planted it may not miss.
    assert _show(wanted - found, planted) == [], "planted and not found"
    assert _show(found - wanted - kept, planted) == [], "found and not planted"
    assert len(planted.expected) >= PLANTS * 0.9
    for expected in planted.expected:
        place = (expected.rule, expected.path, expected.row)
        findings = [f for f in after if (f.rule, f.span.path, f.span.line) == place]
        texts = [cut(book, f) for f in findings]
        assert any(text and expected.typed.startswith(text) for text in texts) or not (
            expected.typed
        ), (expected, texts)
        assert any(expected.answer in f.help for f in findings), (expected, findings)


def test_one_chapter_alone_gives_the_same_findings(book: Path) -> None:
    """The findings in a chapter are the same whether it is checked alone or with the book."""
    plant(book, SEEDS[0], PLANTS)
    whole = inspect_book(book)
    paths = [chapter.path for chapter in whole.book.chapters]
    for path in random.Random(SEEDS[0]).sample(paths, min(8, len(paths))):
        alone = inspect_book(book, only=(path,))
        expected = [finding for finding in whole.findings if finding.span.path == path]
        assert [f for f in alone.findings if f.span.path == path] == expected, path


def _show(missed: Counter[tuple[str, str, int]], planted: Field) -> list[str]:
    """What was missed or found in vain, with its line."""
    kinds: dict[tuple[str, str, int], Expected] = {
        (e.rule, e.path, e.row): e for e in planted.expected
    }
    shown = []
    for place in missed.elements():
        rule, path, line = place
        lines = (planted.root / path).read_text(encoding="utf-8", errors="replace").split("\n")
        text = lines[line - 1] if 0 < line <= len(lines) else ""
        kind = kinds[place].kind if place in kinds else ""
        shown.append(f"{path}:{line}: {rule} ({kind}): {text}")
    return shown


def test_every_kind_is_planted(tmp_path: Path) -> None:
    """Over the usual seeds each kind of defect is planted at least once."""
    source = shutil.copytree(
        ROOT, tmp_path / "own", ignore=shutil.ignore_patterns(".*", "dist", "__pycache__", "tests")
    )
    kinds = {e.kind for e in plant(source, 1, PLANTS).expected}
    assert kinds == set(iterate_kinds())
