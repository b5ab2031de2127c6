"""feel: it waits for what users wait for, checks what came of it, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "storage/feel.py"

TINY = ("--files", "20", "--file_bytes", "100", "--entries", "30", "--modules", "5")
SECONDS = st.floats(min_value=1e-4, max_value=1e3)


@pytest.fixture(scope="module")
def feel(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    """The tool as a module."""
    return load_tool(TOOL)


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    """Two folders to compare."""
    path, beside = tmp_path / "path", tmp_path / "beside"
    path.mkdir()
    beside.mkdir()
    return path, beside


@pytest.mark.needs("git")
def test_all_waits_are_timed_in_both_places(
    call_tool: Callable[..., Any],
    read_json: Callable[[Path], Any],
    places: tuple[Path, Path],
    tmp_path: Path,
) -> None:
    """Each task has a row for each place and state of the caches; nothing is left in either."""
    path, beside = places
    out = tmp_path / "out.json"
    options = (*TINY, "--repeats", "2", "--module", "email", "--copy_module", "--json", str(out))
    done = call_tool(TOOL, str(path), "--beside", str(beside), *options)
    assert done.returncode == 0, done.stderr
    document = read_json(out)
    assert document["complete"] is True
    assert list(path.iterdir()) == list(beside.iterdir()) == []
    found = {(row["task"], row["cache"]) for row in document["results"]}
    reading = {
        (task, c)
        for task in ("package", "import", "status", "list")
        for c in ("warm", "cold pages")
    }
    assert found == reading | {(task, "new") for task in ("unpack", "remove", "clone")}
    assert len(document["results"]) == 2 * len(found)
    for row in document["results"]:
        assert row["samples"] == 2
        assert (row["ratio"] is None) == (row["place"] == "beside")
        assert (row["verdict"] == "reference") == (row["place"] == "beside")
    assert any("on one file system" in caveat for caveat in document["caveats"])
    assert set(document["details"]["file_systems"]) == {"path", "beside"}
    assert str(tmp_path) not in out.read_text()


def test_modules_are_imported_where_they_are(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Without a copy a module is timed where it is installed; one that is not there is a caveat."""
    out = tmp_path / "out.json"
    options = ("--tasks", "import", "package", *TINY, "--repeats", "1", "--json", str(out))
    home = Path(os.__file__).parent
    done = call_tool(TOOL, str(tmp_path), "--beside", str(home), *options, "--module", "email")
    assert done.returncode == 0, done.stderr
    rows = [row for row in read_json(out)["results"] if row["task"] == "import"]
    assert len({row["place"] for row in rows}) == 1
    done = call_tool(TOOL, str(tmp_path), *options, "--module", "no_such_module")
    assert done.returncode == 0, done.stderr
    assert "no_such_module is not installed" in done.stderr


@pytest.mark.nightly
@pytest.mark.torch
def test_torch_is_imported(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """import torch is a wait of its own, where torch is installed."""
    import torch

    out = tmp_path / "out.json"
    home = str(Path(torch.__file__).parent)
    options = ("--tasks", "import", "--repeats", "1", "--json", str(out))
    done = call_tool(TOOL, home, "--beside", str(tmp_path), *options)
    assert done.returncode == 0, done.stderr
    assert "import torch, warm" in done.stdout
    rows = read_json(out)["results"]
    assert {row["cache"] for row in rows} == {"cold pages", "warm"}
    assert all(row["seconds_median"] > 0.1 for row in rows)
    assert not list(Path(home).glob(".feel-*"))


@pytest.mark.needs("fincore")
def test_pages_are_really_dropped(feel: ModuleType, tmp_path: Path) -> None:
    """After drop_pages the page cache holds nothing of a file that it held before."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(1 << 20))

    def count_pages() -> int:
        command = ["fincore", "--bytes", "--noheadings", "--output", "PAGES", str(path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        return int(done.stdout)

    if count_pages() == 0:
        pytest.skip("the tests' folder has no page cache: set TMPDIR to one of a disk")
    feel.drop_pages(tmp_path, feel.StopSign())
    if feel.find_file_system(tmp_path) in feel.MEMORY_FILE_SYSTEMS:
        pytest.skip("the tests' folder is in memory: set TMPDIR to one of a disk")
    assert count_pages() == 0


def test_dropping_everything_asks_the_kernel(feel: ModuleType, tmp_path: Path) -> None:
    """--drop_caches writes 3 where the kernel listens; without the right to, it is wrong use."""
    control = tmp_path / "drop_caches"
    feel.drop_all_caches(control)
    assert control.read_text() == "3\n"
    with pytest.raises(feel.WrongUse, match="it takes root"):
        feel.drop_all_caches(tmp_path / "none" / "drop_caches")


@pytest.mark.parametrize(
    ("program", "script", "message"),
    [
        ("ls", "echo total 0", "ls listed 0 files of 30"),
        ("ls", "echo ls: cannot access >&2; exit 2", "ls failed: ls: cannot access"),
        ("git", "exit 7", "git failed: status 7"),
    ],
)
def test_wrong_answers_are_problems(
    call_tool: Callable[..., Any],
    read_json: Callable[[Path], Any],
    places: tuple[Path, Path],
    tmp_path: Path,
    program: str,
    script: str,
    message: str,
) -> None:
    """A command that fails, or does not do its work, ends the run with status 1 and its reason."""
    ours = tmp_path / "bin"
    ours.mkdir()
    (ours / program).write_text(f"#!/bin/sh\n{script}\n")
    (ours / program).chmod(0o755)
    out = tmp_path / "out.json"
    tasks = ("--tasks", "unpack", "clone" if program == "git" else "list")
    options = (*tasks, *TINY, "--repeats", "1", "--json", str(out))
    environ = {"PATH": f"{ours}:{os.environ['PATH']}"}
    done = call_tool(TOOL, str(places[0]), "--beside", str(places[1]), *options, environ=environ)
    assert done.returncode == 1
    assert f"problem: {message}" in done.stderr
    assert "Traceback" not in done.stderr
    assert read_json(out)["complete"] is False
    assert list(places[0].iterdir()) == list(places[1].iterdir()) == []


def start_bench(place: Path, beside: Path, *options: str) -> subprocess.Popen[str]:
    """A long run, already at work in its folder."""
    process = subprocess.Popen(
        [
            *(sys.executable, str(SCRIPTS / TOOL), str(place), "--beside", str(beside), *TINY),
            *("--tasks", "unpack", "list", "--repeats", "100000", *options),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not list(place.glob(".feel-*/unpacked")) and time.monotonic() < deadline:
        time.sleep(0.01)
    return process


@pytest.mark.parametrize(
    "name",
    [
        "SIGINT",
        pytest.param("SIGTERM", marks=pytest.mark.nightly),
        pytest.param("SIGUSR1", marks=pytest.mark.nightly),
        pytest.param("SIGHUP", marks=pytest.mark.nightly),
    ],
)
def test_signals_keep_what_was_measured_and_clean_up(
    read_json: Callable[[Path], Any], places: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    """A signal ends the run with JSON that says it is not complete, and both folders are gone."""
    out = tmp_path / "out.json"
    process = start_bench(*places, "--json", str(out))
    try:
        # The first place has been measured once, when work in the second one begins.
        deadline = time.monotonic() + 60
        while not list(places[1].glob(".feel-*/unpacked")) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(getattr(signal, name))
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1, said
    assert "Traceback" not in said
    assert list(places[0].iterdir()) == list(places[1].iterdir()) == []
    document = read_json(out)
    assert document["complete"] is False
    assert document["results"]


def test_leftovers_of_a_kill_are_named_and_removed(
    call_tool: Callable[..., Any], places: tuple[Path, Path]
) -> None:
    """After SIGKILL the next run names the folders, and removes them only when asked to."""
    process = start_bench(*places)
    process.kill()
    process.communicate(timeout=30)
    command = (TOOL, str(places[0]), "--beside", str(places[1]), *TINY, "--tasks", "unpack")
    named = call_tool(*command, "--repeats", "1")
    assert named.stderr.count("was left behind") == 2
    removed = call_tool(*command, "--repeats", "1", "--remove_leftovers")
    assert removed.stderr.count("removed .feel-") == 2
    assert list(places[0].iterdir()) == list(places[1].iterdir()) == []


def test_hung_command_ends_with_the_run(feel: ModuleType) -> None:
    """A signal during a command ends the command as well, at once."""
    stop = feel.StopSign()
    stop.reason = "stopped by a test"
    with pytest.raises(feel.Stopped):
        feel.run_timed(["sleep", "60"], stop)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("/nowhere/at/all",), "there is no folder /nowhere/at/all"),
        (("--beside", "/nowhere"), "there is no folder /nowhere"),
        (("--files", "0"), "'0' has to be a whole number from 1"),
        (("--tasks", "list", "--copy_module"), "--copy_module is for the task import"),
        (("--module", "a b"), "this is no name of a package"),
        (("--files", "4000000000"), "are free"),
    ],
)
def test_wrong_use_is_told(
    call_tool: Callable[..., Any], tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    """What makes no sense, or does not fit, ends with status 2, and nothing is written."""
    done = call_tool(TOOL, *options, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_missing_git_is_a_caveat(
    call_tool: Callable[..., Any], places: tuple[Path, Path], tmp_path: Path
) -> None:
    """Without git the other waits are timed; asking for a clone is then wrong use."""
    ours = tmp_path / "bin"
    ours.mkdir()
    (ours / "ls").symlink_to(str(shutil.which("ls")))
    command = (TOOL, str(places[0]), "--beside", str(places[1]), "--toy")
    done = call_tool(*command, environ={"PATH": str(ours)})
    assert done.returncode == 0, done.stderr
    assert "git is not there, so clone was not timed" in done.stderr
    assert "ls -l, warm" in done.stdout
    done = call_tool(*command, "--tasks", "clone", environ={"PATH": str(ours)})
    assert done.returncode == 2
    assert "--tasks clone: git is not there" in done.stderr


def test_verdicts_by_hand(feel: ModuleType) -> None:
    """Ratio and verdict of steady samples, of one sample, and of samples that disagree."""
    slow = feel.Measurement("list", "warm", "path")
    local = slow._replace(place="beside")

    def judge(path: list[float], beside: list[float]) -> tuple[Any, str]:
        rows = feel.make_wait_rows({slow: path, local: beside} if beside else {slow: path})
        row = next(row for row in rows if row["place"] == "path")
        return row["ratio"], row["verdict"]

    assert judge([6.0] * 4, [2.0] * 4) == (3.0, "slower")
    assert judge([30.0] * 4, [2.0] * 4) == (15.0, "painful")
    assert judge([30.0], [2.0]) == (15.0, "one sample")
    assert judge([30.0] * 4, []) == (None, "alone")
    # Quartiles of 1, 1, 7, 7 are 1 and 7, the median 4: half the IQR is 0.75 of it, so the ratio
    # of 2 is between 2 / 1.75 = 1.14 and 3.5.
    assert judge([1.0, 1.0, 7.0, 7.0], [2.0] * 4) == (2.0, "like local to slower")


@given(st.lists(SECONDS, min_size=1, max_size=12), st.lists(SECONDS, min_size=1, max_size=12))
def test_verdict_laws(feel: ModuleType, path: list[float], beside: list[float]) -> None:
    """Any samples give a ratio above 0 and a verdict; twice the time is twice the ratio."""
    slow = feel.Measurement("list", "warm", "path")
    local = slow._replace(place="beside")
    by_place = {row["place"]: row for row in feel.make_wait_rows({slow: path, local: beside})}
    row = by_place["path"]
    assert row["ratio"] > 0
    assert by_place["beside"]["ratio"] is None
    words = [word for _, word in feel.FEELINGS]
    assert row["verdict"] == "one sample" or row["verdict"].split(" to ")[0] in words
    twice = feel.make_wait_rows({slow: [2 * second for second in path], local: beside})
    assert next(r["ratio"] for r in twice if r["place"] == "path") == pytest.approx(
        2 * row["ratio"]
    )
    assert json.dumps([*by_place.values()], allow_nan=False)
