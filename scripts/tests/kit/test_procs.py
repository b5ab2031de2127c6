"""Processes: which one is meant, what is below it, and that all of it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit import procs

SCRIPTS = Path(__file__).resolve().parents[2]

# Starts a child, says its number, and waits; with "deaf" both do not heed SIGTERM.
FAMILY = """
import os, signal, sys, time
if "deaf" in sys.argv:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = os.fork()
if child:
    print(child, flush=True)
time.sleep(60)
"""


def start_family(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", FAMILY, *words], stdout=subprocess.PIPE, text=True
    )


@pytest.fixture
def family() -> Iterator[tuple[procs.Process, procs.Process]]:
    """A process and its child."""
    process = start_family()
    assert process.stdout
    child = procs.identify(int(process.stdout.readline()))
    parent = procs.identify(process.pid)
    assert parent
    assert child
    yield parent, child
    procs.end_processes([parent, child], 0.0)
    process.communicate()


def test_a_number_that_is_used_again_is_another_process(
    family: tuple[procs.Process, procs.Process],
) -> None:
    """The start belongs to the name of a process."""
    parent, _ = family
    assert procs.is_running(parent)
    later = parent._replace(started=parent.started + 1)
    assert not procs.is_running(later)
    assert procs.find_tree([later]) == []
    assert procs.end_processes([later]) == []
    assert procs.is_running(parent)


def test_what_does_not_heed_sigterm_is_killed() -> None:
    """The whole tree, after the grace period."""
    process = start_family("deaf")
    assert process.stdout
    process.stdout.readline()
    root = procs.identify(process.pid)
    assert root
    tree = procs.find_tree([root])
    assert procs.end_processes(tree, 0.2) == []
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not any(map(procs.is_running, tree))


def test_a_file_system_that_hangs_does_not_hang_the_rest() -> None:
    """As long as it hangs there is no answer, and the next work is not begun."""
    hangs, done = threading.Event(), []
    files = procs.PatientThread(0.05)
    for work in (lambda: hangs.wait(60), lambda: done.append(1)):
        with pytest.raises(TimeoutError):
            files.ask(work)
    hangs.set()
    assert files.thread
    files.thread.join()
    assert (done, files.ask(lambda: "there")) == ([], "there")
