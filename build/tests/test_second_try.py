"""The second try of `nox -s tests`: what it forgives, and what it does not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import second_try

# Fails the first time it is called in a folder, and not the second.
FLAKY = """\
import os
from pathlib import Path
import pytest

def fail_once(name, end=lambda: pytest.fail("the machine is busy")):
    mark = Path(name + ".mark")
    if not mark.exists():
        mark.touch()
        end()
"""
PASSES = "def test_holds():\n    pass\n"
BUSY = "def test_busy():\n    fail_once('busy')\n"
BROKEN = "def test_broken():\n    pytest.fail('it is false')\n"
CRASHES = "def test_crashes():\n    fail_once('crash', lambda: os._exit(1))\n"
SKIPPED_LATER = """\
def test_skipped_later():
    if Path('skip.mark').exists():
        pytest.skip('not this time')
    fail_once('skip')
"""
SETUP = """\
@pytest.fixture
def machine():
    fail_once('setup')

def test_setup(machine):
    pass
"""
TEARDOWN = """\
@pytest.fixture(scope='session', autouse=True)
def leave_nothing():
    yield
    fail_once('left')
"""
HARD_NAME = """\
@pytest.mark.parametrize('text', ['a [b]::c/d.py -x é\\n'])
def test_name(text):
    fail_once('name')
"""
MANY = "@pytest.mark.parametrize('n', range(9))\ndef test_many(n):\n    fail_once(f'many{n}')\n"

AGAIN = "passed only when run again, to be mended: test_it.py::"


def run_twice(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a file of tests in a folder of its own, as the session does."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    (folder / "test_it.py").write_text(f"{FLAKY}\n{text}", encoding="utf-8")
    # Of all that is installed these tests need xdist alone, and pytest starts quicker without.
    command = [sys.executable, second_try.__file__, "-p", "no:cacheprovider", "-p", "xdist"]
    return subprocess.run(
        [*command, *arguments],
        cwd=folder,
        env=os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("text", "arguments", "names"),
    [
        (BUSY + PASSES, ("-n", "2", "--dist", "worksteal"), ["test_busy"]),
        (BUSY + PASSES, (), ["test_busy"]),
        (BUSY + BROKEN, ("-k", "busy", "-p", "no:xdist"), ["test_busy"]),
        (SETUP + PASSES, ("-n", "2"), ["test_setup"]),
        (CRASHES + BUSY + PASSES, ("-n", "1"), ["test_crashes", "test_busy"]),
        (HARD_NAME, ("-n", "1"), ["test_name[a [b]::c/d.py -x \\xe9\\n]"]),
    ],
    ids=["workers", "alone", "chosen", "setup", "crash", "name"],
)
def test_a_second_try_is_named(
    tmp_path: Path, text: str, arguments: tuple[str, ...], names: list[str]
) -> None:
    """Where all that failed pass when they run alone, the run passes and says which they were; a
    worker that dies takes no test with it."""
    ended = run_twice(tmp_path, text, *arguments)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert [line for line in ended.stdout.splitlines() if AGAIN in line] == [
        AGAIN + name for name in names
    ]


@pytest.mark.parametrize(
    ("text", "arguments"),
    [(BUSY + BROKEN + PASSES, ("-n", "2")), (SKIPPED_LATER + BUSY, ())],
    ids=["broken", "skipped"],
)
def test_what_does_not_pass_alone_fails_the_run(
    tmp_path: Path, text: str, arguments: tuple[str, ...]
) -> None:
    """One that fails twice, or is skipped the second time, is enough."""
    ended = run_twice(tmp_path, text, *arguments)
    assert ended.returncode == 1
    assert "failed, and run again alone: " in ended.stdout
    assert AGAIN not in ended.stdout


@pytest.mark.parametrize(
    ("text", "arguments", "status"),
    [
        (MANY, (), 1),
        (PASSES + TEARDOWN, ("-n", "2"), 1),
        (BUSY + PASSES, ("-x",), 1),
        (BUSY + PASSES, ("-n", "1", "-x"), 2),
        (BUSY + "import nothing_of_this_name\n", (), 2),
        (BUSY, ("-k", "nothing"), 5),
        (PASSES, ("-n", "2"), 0),
    ],
    ids=["many", "teardown", "stopped", "interrupted", "unread", "none", "passed"],
)
def test_nothing_is_hidden(
    tmp_path: Path, text: str, arguments: tuple[str, ...], status: int
) -> None:
    """No second try where many failed, where something was left behind, could not be read or was
    never run; the status is pytest's own."""
    ended = run_twice(tmp_path, text, *arguments)
    assert ended.returncode == status, ended.stdout + ended.stderr
    assert "run again" not in ended.stdout
