"""What the documents say of rules, keys, packages, commands and sessions is what the code does."""

import re
from pathlib import Path

import bindery
import pytest
from bindery.check.rules import RULES
from bindery.cli.main import VERBS
from bindery.core import config
from bindery.markdown.chapter_reader import parse_chapter

PACKAGE = Path(bindery.__file__).parent
BUILD = Path(__file__).resolve().parents[2]


def read_rows(name: str) -> list[list[str]]:
    """The rows of the first table of a document, without its head."""
    text = (BUILD / f"docs/{name}.md").read_text(encoding="utf-8").split("\n## ", 1)[0]
    lines = [line for line in text.split("\n") if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_every_rule_is_documented_as_it_is() -> None:
    """The table of rules has id, severity and summary of each rule."""
    assert sorted(row[:3] for row in read_rows("rules")) == sorted(
        [f"`{rule.id}`", str(rule.severity), rule.summary] for rule in RULES.values()
    )


def test_every_key_of_chapters_yaml_is_documented() -> None:
    """Each key that chapters.yaml may have is in the table with its meaning, and no other."""
    rows = read_rows("chapters-yaml")
    assert [row[0].strip("`") for row in rows] == list(
        config._Reader(Path(), ()).shapes[config._TOP]
    )
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
    """The row of a key names what may be below it."""
    (meaning,) = (row[1] for row in read_rows("chapters-yaml") if row[0] == f"`{key}`")
    assert [word for word in words if f"`{word}`" not in meaning] == []


def test_every_package_is_described() -> None:
    """The table of rooms has each package of bindery, and no other."""
    readme = (BUILD / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(\w+)` \|", readme, re.MULTILINE)
    assert sorted(named) == sorted(p.parent.name for p in PACKAGE.glob("*/__init__.py"))


def test_the_excuse_of_the_example_is_one() -> None:
    """The excuse in the text is written as the parser reads it."""
    text = (BUILD / "docs/rules.md").read_text(encoding="utf-8")
    (block,) = (b for b in re.findall(r"```markdown\n(.*?)```", text, re.S) if "allow" in b)
    (excuse,) = parse_chapter("a.md", block).excuses
    assert excuse.rule in RULES
    assert excuse.covers == 2


def test_every_command_is_in_the_tour() -> None:
    """The table of the README has each command of bindery, and no other."""
    readme = (BUILD.parent / "README.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (`bindery [^|]*) \|", readme, re.MULTILINE)
    shown = [name for cell in cells for name in re.findall(r"`bindery (\w+)", cell)]
    assert sorted(shown) == sorted(VERBS)


def test_nox_alone_runs_the_sessions_that_are_named() -> None:
    """`nox` without a name runs what CONTRIBUTING.md says it runs."""
    text = (BUILD.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^This runs the sessions (.*), as CI does", text, re.MULTILINE)
    sessions = re.findall(
        r"^@nox\.session(.*)\ndef (\w+)", (BUILD.parent / "noxfile.py").read_text(), re.MULTILINE
    )
    assert re.findall(r"`(\w+)`", line) == [n for o, n in sessions if "default=False" not in o]
