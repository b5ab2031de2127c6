"""From a run to a record: what is kept, and what a run that goes wrong leaves behind."""

from __future__ import annotations

import getpass
import json
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from bindery.records import Record, parse_record

if TYPE_CHECKING:
    from conftest import BookMaker, Runner

ROOT = Path(__file__).resolve().parents[2]
EXTRA = """tools:
  env_report: {path: scripts/env_report.py, output: shape}
  timer: {path: scripts/timer.py, output: measured}
"""
TIMER = '''"""Times nothing, quickly."""

import json
import sys
import time

PROFILES = {"toy": ["--count", "2"], "slow": ["--sleep", "60"], "broken": ["--fail"],
            "nan": ["--nan"], "early": ["--early"], "list": ["--list"]}


def main() -> int:
    arguments = sys.argv[1:]
    if "--fail" in arguments:
        print("no accelerator here", file=sys.stderr)
        return 1
    if "--sleep" in arguments:
        time.sleep(60)
    median = float("nan") if "--nan" in arguments else 0.25
    results = {
        "tool": "timer", "version": "0.1.0", "method": 3, "started": "2026-11-20T17:00:00Z",
        "seconds": 0.5, "complete": "--early" not in arguments, "caveats": ["a toy"],
        "results": [{"name": "first", "n": 2, "median": median, "good": True}],
    }
    path = arguments[arguments.index("--json") + 1]
    with open(path, "w") as file:
        json.dump([] if "--list" in arguments else results, file)
    return 1 if "--early" in arguments else 0


sys.exit(main())
'''


@pytest.fixture
def book(make_book: BookMaker) -> Path:
    facts = ROOT / "scripts" / "env_report.py"
    return make_book(
        {
            "README.md": "# Preface\n",
            "scripts/env_report.py": facts.read_bytes(),
            "scripts/timer.py": TIMER,
        },
        extra=EXTRA,
    )


def list_records(book: Path) -> list[str]:
    folder = book / "scripts" / "records"
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.json"))


def read_record(book: Path) -> tuple[dict[str, Any], str]:
    (name,) = list_records(book)
    text = (book / "scripts/records" / name).read_text(encoding="utf-8")
    return json.loads(text), text


def test_a_run_leaves_a_record(book: Path, run_bindery: Runner) -> None:
    """A record holds command, method, hash of the tool, machine and results, and is valid."""
    ended = run_bindery("run", "timer", folder=book)
    assert ended.status == 0, ended.stderr
    data, text = read_record(book)
    assert ended.stdout == f"recorded scripts/records/{list_records(book)[0]}\n"
    assert data["command"] == ["python", "scripts/timer.py", "--count", "2"]
    assert (data["method"], data["profile"], data["complete"]) == (3, "toy", True)
    assert data["results"] == [{"name": "first", "n": 2, "median": 0.25, "good": True}]
    assert data["caveats"][0] == "a toy"
    assert isinstance(parse_record("r.json", text), Record)
    assert run_bindery("check", folder=book).status == 0


def test_a_record_names_no_person_and_no_folder(book: Path, run_bindery: Runner) -> None:
    """Neither the host nor the folder of this machine is in a record."""
    run_bindery("run", "timer", folder=book)
    data, text = read_record(book)
    assert str(book) not in text
    values = json.dumps([data["machine"], data["software"], data["caveats"]])
    assert f'"{platform.node()}"' not in values
    assert f'"{getpass.getuser()}"' not in values


def test_a_second_run_of_a_day_replaces_nothing(book: Path, run_bindery: Runner) -> None:
    """Each run has a file of its own."""
    for _ in range(2):
        assert run_bindery("run", "timer", folder=book).status == 0
    first, second = list_records(book)
    assert second == first.replace(".json", "_2.json")


def test_arguments_behind_two_hyphens_go_to_the_tool(book: Path, run_bindery: Runner) -> None:
    """What stands behind -- is given to the tool and kept in the command."""
    ended = run_bindery("run", "timer", "--", "--count", "5", folder=book)
    assert ended.status == 0, ended.stderr
    data, _ = read_record(book)
    assert data["command"][2:] == ["--count", "2", "--count", "5"]


def test_a_run_that_ends_early_is_marked(book: Path, run_bindery: Runner) -> None:
    """Partial results are kept, with the exit status, as not complete."""
    run_bindery("run", "timer", "--profile", "early", folder=book)
    data, _ = read_record(book)
    assert (data["complete"], data["exit_status"]) == (False, 1)


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("timr",), 2, "did you mean 'timer'?"),
        (("timer", "--profile", "huge"), 2, "it has: toy, slow, broken, nan, early, list"),
        (("timer", "--profile", "broken"), 1, "ended with status 1 and left no results"),
        (("timer", "--profile", "slow", "--timeout", "0.5"), 1, "ran longer than 0.5 s"),
        (("timer", "--profile", "nan"), 1, "NaN is no number that can be compared"),
        (("timer", "--profile", "list"), 1, "wrote something that is no object"),
    ],
)
def test_a_run_that_goes_wrong_leaves_nothing(
    book: Path, run_bindery: Runner, arguments: tuple[str, ...], status: int, message: str
) -> None:
    """A wrong name, a crash, a run without end and results that are none are one error each."""
    ended = run_bindery("run", *arguments, folder=book)
    assert ended.status == status, ended.stderr
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
    assert list_records(book) == []
