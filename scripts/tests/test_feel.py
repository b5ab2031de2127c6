"""feel: it waits for what users wait for, checks what came of it, and leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "storage/feel.py"

TINY = ("--files", "20", "--entries", "30", "--modules", "5")
SLOW, LOCAL = ("list", "warm", "path"), ("list", "warm", "beside")


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Two directories to compare."""
    path, beside = tmp_path / "path", tmp_path / "beside"
    path.mkdir()
    beside.mkdir()
    return path, beside


def test_an_installed_package_is_imported_in_both_places(
    run_json: Any, places: tuple[Path, Path], tmp_path: Path
) -> None:
    """A row per place and state of the caches; nothing is left in either place."""
    options = ("--tasks", "import", "--num-iterations", "2", "--module", "email")
    done = run_json(TOOL, places[0], "--beside", places[1], *options)
    assert done.returncode == 0, done.stderr
    assert [*places[0].iterdir(), *places[1].iterdir()] == []
    verdicts = {"path": "one file system", "beside": "reference"}
    found = {(row["cache"], row["place"], row["verdict"]) for row in done.document["results"]}
    assert found == {(cache, *one) for cache in ("warm", "cold pages") for one in verdicts.items()}
    assert str(tmp_path) not in str(done.document)


@pytest.mark.parametrize(
    ("path", "beside", "ratio", "verdict"),
    [
        ([6.0] * 4, [2.0] * 4, 3.0, "slower"),
        ([30.0] * 4, [2.0] * 4, 15.0, "painful"),
        ([30.0], [2.0], 15.0, "painful"),
        ([1.0, 1.0, 7.0, 7.0], [2.0] * 4, 2.0, "slower"),
    ],
)
def test_verdicts_by_hand(
    module: Any, path: list[float], beside: list[float], ratio: float, verdict: str
) -> None:
    """By the medians."""
    rows = module.make_rows({SLOW: path, LOCAL: beside}, together=False)
    [row] = [row for row in rows if row["place"] == "path"]
    assert (row["ratio"], row["verdict"]) == (ratio, verdict)


@pytest.mark.needs("fincore")
def test_pages_are_really_dropped(module: Any, tmp_path: Path) -> None:
    """The page cache holds nothing of a file that it held before, read-only or not."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(1 << 20))
    path.chmod(0o444)

    def count_pages() -> int:
        command = ["fincore", "--bytes", "--noheadings", "--output", "PAGES", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        return int(done.stdout)

    if count_pages() == 0 or module.find_file_system(tmp_path) in ("tmpfs", "ramfs"):
        pytest.skip("the tests' directory has no page cache: set TMPDIR to one on a disk")
    module.drop_pages(tmp_path)
    assert count_pages() == 0


@pytest.mark.parametrize(
    ("program", "script", "message"),
    [
        ("ls", "echo total 0", "problem: ls, status 0: total 0"),
        ("git", "exit 7", "problem: git, status 7: "),
    ],
)
def test_wrong_answers_are_problems(
    run_tool: Any, places: tuple[Path, Path], program: str, script: str, message: str
) -> None:
    """A command that fails, or does not do its work, ends the run with status 1 and the reason."""
    programs = places[0].parent / "bin"
    programs.mkdir()
    (programs / program).write_text(f"#!/bin/sh\n{script}\n")
    (programs / program).chmod(0o755)
    tasks = ("--tasks", "unpack", "clone" if program == "git" else "list")
    environ = {"PATH": f"{programs}:{os.environ['PATH']}"}
    done = run_tool(
        TOOL, str(places[0]), "--beside", str(places[1]), *tasks, *TINY, environ=environ
    )
    assert done.returncode == 1
    assert message in done.stderr
    assert [*places[0].iterdir(), *places[1].iterdir()] == []
