"""Defects of all kinds, planted into copies of real books, are all found, and nothing else is.

The plants are made again from each seed: `BINDERY_SEEDS=11,12,13` names others than the usual ones.
"""

import os
import random
import shutil
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from bindery.check.inspect import Inspection, inspect_book
from bindery.core.model import Finding
from examples import IS_NIGHTLY
from planting import KINDS, Plant, plant_defects
from whole_sites import copy_reference_book, run_bindery_apart

ROOT = Path(__file__).resolve().parents[3]
COUNT = 80
SEEDS = tuple(map(int, os.environ.get("BINDERY_SEEDS", "1,2,3,4").split(",")))

Place = tuple[str, str, str]
"""Rule, path and line of a finding."""


@dataclass(frozen=True)
class Planted:
    """A copy of a book with its plants, and what was found in it before and after."""

    plants: list[Plant]
    before: Counter[Place]
    after: Inspection


def find_place(inspection: Inspection, finding: Finding) -> Place:
    return finding.rule, finding.span.path, inspection.tree.read_line(finding.span)


def count_places(inspection: Inspection, findings: Iterable[Finding]) -> Counter[Place]:
    return Counter(find_place(inspection, finding) for finding in findings)


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
    inspection = inspect_book(book)
    before = count_places(inspection, inspection.findings)
    plants = plant_defects(inspection, seed, COUNT)
    return Planted(plants, before, inspect_book(book))


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


@BOOKS
def test_every_plant_is_found_and_nothing_else(planted: Planted) -> None:
    """Each plant is found by its rule, on its line, under its text, with the right answer."""
    plants, after = planted.plants, planted.after
    assert {plant.kind for plant in plants} == set(KINDS)
    # A planted heading may end the section to which the glossary leads, and SKILL.md does not list
    # it. Planted pictures around links are on the web.
    passed_over = ("unglossed-term", "stale-skill", "remote-image")
    findings = [finding for finding in after.findings if finding.rule not in passed_over]
    wanted = Counter((plant.rule, plant.path, plant.line) for plant in plants)
    found = count_places(after, findings)
    # A rule that looks at what is around may see less now; what is planted it may not miss.
    assert wanted - found == Counter(), "planted and not found"
    assert found - wanted - planted.before == Counter(), "found and not planted"
    for plant in plants:
        place = (plant.rule, plant.path, plant.line)
        of_plant = [finding for finding in findings if find_place(after, finding) == place]
        spans = [finding.span for finding in of_plant]
        texts = [plant.line[span.col - 1 : span.col - 1 + span.width] for span in spans]
        assert any(text and plant.typed.startswith(text) for text in texts), (plant, texts)
        assert any(plant.answer in finding.help for finding in of_plant), (plant, of_plant)


@BOOKS
def test_one_chapter_alone_gives_the_same_findings(planted: Planted) -> None:
    """The findings in a chapter are the same whether it is checked alone or with the book."""
    paths = [chapter.path for chapter in planted.after.book.chapters]
    count = 8 if IS_NIGHTLY else 2
    for path in random.Random(0).sample(paths, min(count, len(paths))):
        alone = inspect_book(planted.after.tree.root, only=(path,))
        expected = [finding for finding in planted.after.findings if finding.span.path == path]
        assert [f for f in alone.findings if f.span.path == path] == expected, path
