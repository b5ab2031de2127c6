"""What build/README.md says of rules, keys and files is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import bindery
import pytest
from bindery.check.rules import RULES
from bindery.core import config
from bindery.markdown.chapter_reader import parse_chapter

PACKAGE = Path(bindery.__file__).parent
README = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")


def read_rows(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, without its head."""
    section = README.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.split("\n") if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_every_rule_is_documented_as_it_is() -> None:
    """The table of rules has id, severity and summary of each rule, in the order of the code."""
    assert [row[:3] for row in read_rows("Rules")] == [
        [f"`{rule.id}`", str(rule.severity), rule.summary] for rule in RULES.values()
    ]


def test_every_key_of_chapters_yaml_is_documented() -> None:
    """Each key that chapters.yaml may have stands in the table with its meaning, and no other."""
    rows = read_rows("chapters.yaml")
    assert [row[0].strip("`") for row in rows] == list(config._KEYS)
    assert all(len(row[1]) > 10 for row in rows)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("outputs", ("name", "formats", *config.FORMATS)),
        ("repository", ("url", "ref", "branch")),
        ("links", ("schemes", "shelf_life", *config.DEFAULT_SCHEMES)),
        ("claims", ("shelf_life",)),
        ("rules", ("error", "warning", "off")),
        ("tools", ("path", "output", *config.OUTPUT_CLASSES)),
        ("parts", ("title", "chapters", "path")),
    ],
)
def test_keys_below_a_key_are_documented(key: str, words: tuple[str, ...]) -> None:
    """The row of a key names what may stand below it."""
    (meaning,) = (row[1] for row in read_rows("chapters.yaml") if row[0] == f"`{key}`")
    assert [word for word in words if f"`{word}`" not in meaning] == []


def test_every_module_is_on_the_map() -> None:
    """Each module that owns something is named under "to change X, open Y", and each is there."""
    named = set(re.findall(r"`bindery/([\w/]+\.py)`", README))
    there = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py")}
    assert named - there == set()
    unnamed = {name for name in there - named if not name.startswith(("checks/", "commands/"))}
    assert unnamed <= FOUND_WITHOUT_A_MAP


FOUND_WITHOUT_A_MAP = {
    *("__init__.py", "__main__.py", "model.py", "pipeline.py", "run.py"),
    *("lineage/__init__.py", "render/__init__.py", "render/markup.py"),
    "render/site/__init__.py",
    *("formatting/__init__.py", "moving/__init__.py", "opinions/__init__.py"),
    *("calls/__init__.py", "sums/__init__.py", "web/__init__.py"),
}
"""The nouns, the starting points, and what their names say."""


def test_the_excuse_of_the_example_is_one() -> None:
    """The excuse in the text is written as the parser reads it."""
    (block,) = (b for b in re.findall(r"```markdown\n(.*?)```", README, re.S) if "allow" in b)
    (excuse,) = parse_chapter("a.md", block).excuses
    assert excuse.rule in RULES
    assert excuse.covers == 2
