"""From run to table and back: whatever breaks the chain is found by its own rule, and what the
finding says mends it."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from fixture_types import BookMaker, Runner
from needs import need

TIMER = '''"""Counts loops, quickly."""

import json
import sys

__version__ = "0.1.0"
METHOD = 3
PROFILES = {"demo": ["--count", "2"], "full": []}

rows = [{"name": name, "seconds_median": METHOD / (4 + n)} for n, name in enumerate(("a", "b"))]
with open(sys.argv[sys.argv.index("--json") + 1], "w") as file:
    json.dump({"tool": "timer", "version": __version__, "method": METHOD, "seconds": 0.5,
               "started": "2026-11-20T17:00:00Z", "complete": True, "caveats": [],
               "units": {"seconds_median": "s"}, "results": rows, "details": {}}, file)
'''
VIEW = """-- title: Times
-- column name: Name
-- column ms: Time [ms] .1
SELECT t.name, t.seconds_median * 1000 AS ms
FROM timer t JOIN records r ON r.record = t.record
WHERE r.newest AND r.hardware <> ''
ORDER BY t.name
"""
CHAPTER = """# Preface

<!-- table: times -->
<!-- /table -->

The second takes <!-- value: times.ms[b] --><!-- /value -->, no more.
"""


@pytest.fixture
def book(make_book: BookMaker, run_bindery: Runner, facts_tool: str) -> Path:
    """A book with a real run behind its table, clean, and under git."""
    need("git")
    root = make_book(
        {
            "README.md": CHAPTER,
            "views/times.sql": VIEW,
            "scripts/env_report.py": facts_tool,
            "scripts/timer.py": TIMER,
        },
        extra="tools:\n  env_report: {path: scripts/env_report.py}\n"
        "  timer: {path: scripts/timer.py}\n",
    )
    assert run_bindery("run", "timer", folder=root).status == 0
    assert run_bindery("fill", folder=root).status == 0
    assert run_bindery("check", folder=root).status == 0
    for command in ("init -q", "add .", "-c user.name=a -c user.email=a@b.c commit -qm book"):
        subprocess.run(["git", *command.split()], cwd=root, check=True)
    return root


def find_rules(report: str) -> set[str]:
    return set(re.findall(r"^\S+: \w+\[([a-z-]+)\]", report, re.M))


def mend(report: str, root: Path, run_bindery: Runner) -> None:
    """Give every command that the advice of a report names, each once, in its order."""
    advice = "\n".join(line for line in report.split("\n") if line.lstrip().startswith("= help:"))
    commands = dict.fromkeys(re.findall(r"`((?:bindery|git) [^`]+)`", advice))
    assert commands
    for command in commands:
        program, *arguments = shlex.split(command)
        if program == "git":
            subprocess.run([program, *arguments], cwd=root, check=True)
        else:
            assert run_bindery(*arguments, folder=root).status in (0, 1)


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count(old) >= 1
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


@pytest.mark.parametrize(
    ("pattern", "old", "new", "rule", "filled"),
    [
        ("views/times.sql", "* 1000", "* 2000", "stale-output", "| b    |   1200.0 |"),
        ("scripts/timer.py", "METHOD = 3", "METHOD = 4", "old-method", "| b    |    800.0 |"),
        ("scripts/records/timer/*.json", "0.75", "0.25", "edited-record", "| b    |    600.0 |"),
    ],
    ids=["view", "method", "record"],
)
def test_what_changed_is_found_and_mended(
    pattern: str, old: str, new: str, rule: str, filled: str, book: Path, run_bindery: Runner
) -> None:
    """Another query makes tables and values stale; a tool that measures otherwise wants another
    run; a number changed in a record is an edit, and undoing it mends."""
    (path,) = book.glob(pattern)
    change(path, old, new)
    report = run_bindery("check", folder=book).stdout
    assert find_rules(report) == {rule}
    mend(report, book, run_bindery)
    assert run_bindery("check", folder=book).stdout.endswith("0 errors, 0 warnings\n")
    assert filled in (book / "README.md").read_text()


def test_a_changed_cell_is_found_and_mended(book: Path, run_bindery: Runner) -> None:
    """A cell changed by hand is an edit; emptying the region and filling mends it."""
    change(book / "README.md", "750.0", "740.0")
    report = run_bindery("check", folder=book).stdout
    assert find_rules(report) == {"edited-output"}
    text = (book / "README.md").read_text()
    emptied = re.sub(r"(<!-- table: times -->\n).*<!-- /table \w+ -->", r"\1<!-- /table -->", text,
                     flags=re.S)  # fmt: skip
    (book / "README.md").write_text(emptied)
    mend(report, book, run_bindery)
    assert run_bindery("check", folder=book).stdout.endswith("0 errors, 0 warnings\n")
    assert subprocess.run(["git", "diff", "--quiet"], cwd=book, check=False).returncode == 0


def test_a_stale_table_can_say_so_instead(book: Path, run_bindery: Runner) -> None:
    """Without the machine, filling writes on the face of the table that it is stale, and why."""
    change(book / "scripts/timer.py", "METHOD = 3", "METHOD = 4")
    assert run_bindery("fill", folder=book).status == 0
    text = (book / "README.md").read_text()
    assert re.search(r"\n\*Stale: timer/\S+ \(method 3, but timer is now at 4\)\.\*\n", text)
    assert "-->600.0 ms (stale)<!-- /value" in text
    assert run_bindery("check", folder=book).stdout.endswith("0 errors, 0 warnings\n")
    assert "timer/" in run_bindery("records", "--stale", folder=book).stdout
