"""Runs pytest, and gives a few tests that have failed a second try.

usage: python build/tests/second_try.py [PYTEST ARGUMENT]...

What a test measures or waits for may come out wrong where the machine is busy with others. So the
tests that failed are run again, one by one in one process, with nothing beside them. The run passes
only if all of them pass then, and it names them: each is to be mended.

There is no second try where it could hide something: where more than AT_MOST tests failed, where
something failed while it was cleared away or collected, and where a test was never run, because
pytest was told to stop early or did not come to its end.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable

import pytest

AT_MOST = 8
AGAIN = "--again="
"""Names a test to run; all others are left out. Not for users: who runs this by hand has `-k`."""


class Notes:
    """What a run tells of its tests, and the choice of a second run."""

    def __init__(self, chosen: Iterable[str] = ()) -> None:
        self.chosen = frozenset(chosen)
        self.passed: set[str] = set()
        self.failed: dict[str, None] = {}  # in the order in which they failed
        self.is_whole = False
        """True where every test that was collected has been run."""
        self.has_workers = False
        self.is_all_there = False
        """True where every test that was chosen is there."""
        self._is_sound = True
        self._seen: set[str] = set()

    def pytest_configure(self, config: pytest.Config) -> None:
        self.has_workers = config.pluginmanager.hasplugin("xdist")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self.chosen:
            items[:] = [item for item in items if item.nodeid in self.chosen]
            self.is_all_there = len(items) == len(self.chosen)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._is_sound &= not report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seen.add(report.nodeid)
        if report.failed:
            self.failed[report.nodeid] = None
            # A fixture of many tests that fails at its end says so in the last of them alone.
            self._is_sound &= report.when != "teardown"
        elif report.passed and report.when == "call":
            self.passed.add(report.nodeid)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.is_whole = self._is_sound and len(self._seen) == session.testscollected


def run_again(names: list[str]) -> int:
    """Run the tests named after AGAIN among these arguments; 0 where each of them has passed."""
    chosen = {name.removeprefix(AGAIN) for name in names if name.startswith(AGAIN)}
    notes = Notes(chosen)
    status = pytest.main([name for name in names if not name.startswith(AGAIN)], plugins=[notes])
    is_over = status == pytest.ExitCode.OK and notes.is_whole and notes.is_all_there
    return 0 if is_over and len(notes.passed) == len(chosen) else 1


def main(arguments: list[str]) -> int:
    """Run pytest with these arguments; gives the status to end with, which is pytest's own where
    there is no second try."""
    if any(argument.startswith(AGAIN) for argument in arguments):
        return run_again(arguments)
    notes = Notes()
    status = pytest.main(arguments, plugins=[notes])
    failed = list(notes.failed)
    if status != pytest.ExitCode.TESTS_FAILED or not notes.is_whole or len(failed) > AT_MOST:
        return status
    print(f"\nfailed, and run again alone: {len(failed)}", flush=True)
    alone = ["-n", "0"] if notes.has_workers else []
    # In a process of its own: this one has imported what is tested.
    command = [sys.executable, __file__, *arguments, *alone, *(AGAIN + name for name in failed)]
    if subprocess.run(command, check=False).returncode:
        return status
    for name in failed:
        print(f"passed only when run again, to be mended: {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
