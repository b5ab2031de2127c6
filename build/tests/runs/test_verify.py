"""What tools print and write, held against what the book has stored of them."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from bindery.core.model import ConfigError
from bindery.runs.verify import record_texts, verify_tools
from demo_runs import write_bundle
from fixture_types import BookMaker, Runner

ROOT = Path(__file__).resolve().parents[3]
EXTRA = """tools:
  env_report: {path: scripts/env_report.py, output: shape}
  sums:
    path: scripts/sums.py
    output: CLASS
    texts: {help: [--help], table: ["2", "3"]}
"""
SUMS = '''"""Adds numbers."""

import argparse
import json

__version__ = "0.1.0"
METHOD = 1
PROFILES = {"demo": ["2", "3"]}

parser = argparse.ArgumentParser(prog="sums.py", description="Add numbers, however many there are.")
parser.add_argument("numbers", type=int, nargs="+")
parser.add_argument("--json")
options = parser.parse_args()
total = sum(options.numbers)
print(f"| sum | {total} |")
if options.json:
    row = {"n": len(options.numbers), "total": total}
    units = {"n": "1", "total": "1"}
    document = {
        "tool": "sums", "version": __version__, "method": METHOD, "complete": True,
        "started": "2026-11-20T17:00:00Z", "seconds": 0.1, "units": units, "results": [row],
    }
    with open(options.json, "w") as file:
        json.dump(document, file)
'''


@pytest.fixture
def book(make_book: BookMaker, facts_tool: str) -> Path:
    files = {
        "README.md": "# Preface\n",
        "scripts/env_report.py": facts_tool,
        "scripts/sums.py": SUMS,
    }
    return make_book(files, extra=EXTRA.replace("CLASS", "exact"))


def change(book: Path, old: str, new: str, path: str = "scripts/sums.py") -> None:
    text = (book / path).read_text(encoding="utf-8")
    assert old in text
    (book / path).write_text(text.replace(old, new), encoding="utf-8")


def change_class(book: Path, output: str) -> None:
    change(book, "output: exact", f"output: {output}", "chapters.yaml")


@pytest.fixture
def stored(book: Path, run_bindery: Runner) -> Path:
    """The book with everything stored that verify asks for."""
    assert run_bindery("run", "sums", "--texts", folder=book).status == 0
    assert run_bindery("run", "sums", folder=book).status == 0
    return book


def read_messages(book: Path, names: Sequence[str] = ("sums",)) -> list[str]:
    findings = verify_tools(book, names).findings
    assert {finding.rule for finding in findings} <= {"changed-output"}
    return [finding.message for finding in findings]


def test_what_is_stored_is_what_the_tool_prints(stored: Path, run_bindery: Runner) -> None:
    """Texts are stored character by character, and are not written again while they are the
    same."""
    text = (stored / "scripts/records/sums/help.txt").read_text(encoding="utf-8")
    assert text.startswith("usage: sums.py [-h] [--json JSON] numbers [numbers ...]\n\nAdd numbers")
    assert text.endswith("\n")
    assert (stored / "scripts/records/sums/table.txt").read_bytes() == b"| sum | 5 |\n"
    again = run_bindery("run", "sums", "--texts", folder=stored)
    assert again.stdout == "every text is unchanged\n"
    verified = verify_tools(stored)
    assert (verified.tools, verified.texts, verified.runs, verified.findings) == (2, 2, 2, ())


def test_what_was_never_stored_is_said(book: Path) -> None:
    """Texts and records that are missing are findings that name the command."""
    findings = verify_tools(book, ["sums"]).findings
    assert [(finding.message, finding.help) for finding in findings] == [
        ("'sums' has no stored help", "run `bindery run sums --text help`"),
        ("'sums' has no stored table", "run `bindery run sums --text table`"),
        ("'sums' has no stored options", "run `bindery run sums --texts`"),
        (
            "'sums' has no record of profile 'demo' to compare with",
            "make one with `bindery run sums --profile demo`",
        ),
    ]


def test_a_changed_text_is_found_and_mended(stored: Path, run_bindery: Runner) -> None:
    """The line that is another one is named with its text, and the command that is named mends
    it."""
    change(stored, "however many there are", "as many as you like")
    (finding,) = verify_tools(stored, ["sums"]).findings
    assert (finding.span.path, finding.span.line) == ("scripts/records/sums/help.txt", 3)
    assert finding.message == (
        "line 3 of the help of 'sums' is now 'Add numbers, as many as you like.'"
    )
    assert "`bindery run sums --text help`" in finding.help
    ended = run_bindery("run", "sums", "--text", "help", folder=stored)
    assert ended.stdout == "recorded scripts/records/sums/help.txt\n"
    assert read_messages(stored) == []


@pytest.mark.parametrize("output", ["exact", "shape", "measured"])
def test_each_class_is_held_to_its_own(stored: Path, output: str) -> None:
    """Another value is a finding where outputs are exact only; a text is exact in every class."""
    change_class(stored, output)
    change(stored, "sum(options.numbers)", "sum(options.numbers) + 1")
    expected = ["line 1 of the table of 'sums' is now '| sum | 6 |'"]
    if output == "exact":
        expected.append("'total' in row 1 of the results of 'sums' is now 6, but was 5")
    assert read_messages(stored) == expected


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"total": "1"}', '"total": "B"}', "the unit of 'total' of 'sums' is now 'B', but was '1'"),
        (
            'units = {"n": "1", "total": "1"}',
            'units = {"n": "1"}; row["total"] = str(total)',
            "the column 'total' of 'sums' is now text, but was a number",
        ),
        (
            'units = {"n": "1", "total": "1"}',
            'units = {"n": "1"}; del row["total"]',
            "the results of 'sums' no longer have the column 'total'",
        ),
    ],
)
def test_another_shape_is_found(stored: Path, old: str, new: str, message: str) -> None:
    """Columns, units and types are compared."""
    change_class(stored, "shape")
    change(stored, old, new)
    assert read_messages(stored) == [message]


def test_a_tool_that_fails_is_said_with_its_last_words(stored: Path) -> None:
    """A tool that does not run any more is a finding for each thing it should give."""
    change(stored, "total = sum", "total = summ")
    findings = verify_tools(stored, ["sums"]).findings
    assert [finding.message for finding in findings] == [
        "the table of 'sums' could not be printed: it ended with status 1",
        "the demo run of 'sums' ended with status 1 and left no results",
    ]
    assert "its last line: NameError: name 'summ' is not defined" in findings[0].help


def test_a_tool_without_its_package_is_skipped(book: Path, run_bindery: Runner) -> None:
    """The line says what to install. A package that the tool does not declare is a fault of it."""
    change(book, "import json\n", "import json\nimport warp_drive\n")
    assert run_bindery("verify", "sums", folder=book).status == 1
    change(book, '"""Adds numbers."""', '# dependencies = ["warp_drive>=2"]\n"""Adds numbers."""')
    assert run_bindery("run", "sums", "--texts", folder=book).status == 2
    (book / "scripts/records/sums").mkdir(parents=True)
    (book / "scripts/records/sums/help.txt").write_text("usage\n")
    ended = run_bindery("verify", "sums", folder=book)
    assert ended.status == 0
    assert ended.stdout == (
        "skipped sums: install warp_drive, or name a Python that has it with --python\n"
        "verified 0 tools, 0 texts, 0 runs: 0 errors\n"
    )


def test_facts_of_this_machine_have_their_shape(book: Path) -> None:
    """env_report is held against the models of machine and software."""
    path = write_bundle(ROOT / "scripts/env_report.py", book / "scripts")
    assert read_messages(book, ["env_report"]) == []
    source = path.read_text(encoding="utf-8").replace(
        '"kernel": platform', '"owner": "me", "kernel": platform'
    )
    path.write_text(source, encoding="utf-8")
    (message,) = read_messages(book, ["env_report"])
    assert message.endswith("are invalid: 'machine.owner': the schema has no such field")


def test_unknown_tools_and_texts_are_wrong_use(book: Path) -> None:
    """Names that the book does not have are refused with those that it has."""
    with pytest.raises(ConfigError, match="the book has no tool 'sum'"):
        verify_tools(book, ["sum"])
    with pytest.raises(ConfigError, match="'sums' has no text 'halp'"):
        record_texts(book, "sums", ["halp"])
