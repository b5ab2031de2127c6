"""Defects of all kinds, planted into copies of real books, are all found, and nothing else is.

The plants are made again from each seed: `BINDERY_SEEDS=11,12,13` names others than the usual ones.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from bindery.check.inspect import Inspection, inspect_book
from bindery.core.model import Finding
from examples import IS_NIGHTLY
from planting import Expected, Field, cut, iterate_kinds, plant
from whole_sites import copy_reference_book, run_bindery_apart

ROOT = Path(__file__).resolve().parents[3]
PLANTS = 80
SEEDS = tuple(map(int, os.environ.get("BINDERY_SEEDS", "1,2,3,4").split(",")))


@dataclass(frozen=True)
class Planted:
    """A copy of a book with its plants, and what was found in it before and after."""

    book: Path
    seed: int
    field: Field
    before: Inspection
    after: Inspection


@pytest.fixture(scope="module")
def planted(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """Our own book or the reference book, by name, with the plants of a seed."""
    name, seed = request.param
    book = tmp_path_factory.mktemp(f"{name}-{seed}") / "book"
    if name == "own":
        left_out = shutil.ignore_patterns(".*", "dist", "__pycache__", "tests")
        shutil.copytree(ROOT, book, ignore=left_out)
    else:
        copy_reference_book(book)
        run_bindery_apart("import", str(book), folder=book.parent)
    before = inspect_book(book)
    field = plant(before, seed, PLANTS)
    return Planted(book, seed, field, before, inspect_book(book))


BOOKS = pytest.mark.parametrize(
    "planted",
    [
        pytest.param(
            (name, seed), marks=() if (name, seed) == ("own", SEEDS[0]) else pytest.mark.nightly
        )
        for name in ("own", "reference")
        for seed in SEEDS
    ],
    ids=lambda parameter: f"{parameter[0]}-{parameter[1]}",
    indirect=True,
)


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
            target = re.search(r"([^()#]+)#", cut(book, finding))
            if target and ((book / finding.span.path).parent / target[1]).resolve() in cut_up:
                found.add(finding)
    return found


@BOOKS
def test_every_plant_is_found_and_nothing_else(planted: Planted) -> None:
    """Each plant is found by its rule, on its line, under its text, with the right answer; in the
    usual books there is one of each kind."""
    book, field = planted.book, planted.field
    before, after = planted.before.findings, planted.after.findings

    wanted = Counter((e.rule, e.path, e.row) for e in field.expected)
    kept = Counter((f.rule, f.span.path, field.move_line(f.span.path, f.span.line)) for f in before)
    excused = find_cut_sections(book, planted.before, planted.after)
    found = Counter((f.rule, f.span.path, f.span.line) for f in after if f not in excused)
    # A rule that looks at what is around may see less now; what is planted it may not miss.
    assert _show(wanted - found, field) == [], "planted and not found"
    assert _show(found - wanted - kept, field) == [], "found and not planted"
    assert len(field.expected) >= PLANTS * 0.9
    if planted.seed == 1:
        assert {e.kind for e in field.expected} == set(iterate_kinds())
    for expected in field.expected:
        place = (expected.rule, expected.path, expected.row)
        findings = [f for f in after if (f.rule, f.span.path, f.span.line) == place]
        texts = [cut(book, f) for f in findings]
        assert any(text and expected.typed.startswith(text) for text in texts) or not (
            expected.typed
        ), (expected, texts)
        assert any(expected.answer in f.help for f in findings), (expected, findings)


@BOOKS
def test_one_chapter_alone_gives_the_same_findings(planted: Planted) -> None:
    """The findings in a chapter are the same whether it is checked alone or with the book."""
    paths = [chapter.path for chapter in planted.after.book.chapters]
    count = 8 if IS_NIGHTLY else 2
    for path in random.Random(planted.seed).sample(paths, min(count, len(paths))):
        alone = inspect_book(planted.book, only=(path,))
        expected = [finding for finding in planted.after.findings if finding.span.path == path]
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
