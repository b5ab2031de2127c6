"""Processes: which one is meant, what is below it, and that all of it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest
from kit import procs

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


def start_family(*words: str) -> tuple[subprocess.Popen[str], procs.Process]:
    """The process, once its child is there, and its identity."""
    command = [sys.executable, "-c", FAMILY, *words]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    process.stdout.readline()
    root = procs.identify(process.pid)
    assert root
    return process, root


def test_a_number_that_is_used_again_is_another_process() -> None:
    """The start belongs to the name of a process."""
    process, root = start_family()
    later = root._replace(started=root.started + 1)
    assert not procs.is_running(later)
    assert procs.find_tree([later]) == []
    assert procs.end_processes([later]) == []
    assert procs.is_running(root)
    assert procs.end_processes(procs.find_tree([root])) == []
    process.communicate()


def test_what_does_not_heed_sigterm_is_killed() -> None:
    """The whole tree, after the grace period."""
    process, root = start_family("deaf")
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
