"""The first process of a test cluster's login node, which is also the end of the cluster.

It waits until nobody holds the other end of its standard input, however the tests ended, and then
ends every process of the cluster and removes its folder. For that it needs nothing but Python.

Every process of a cluster sees a file of the cluster's folder mounted over /etc/hosts. The folder
has a name that no other has, so a process is known whatever it has done to its environment, its
session and its parents.
"""

import contextlib
import os
import shutil
import signal
import sys
import time
from pathlib import Path

PAUSE_SECONDS = 0.02
KILL_SECONDS = 60.0


def find_processes(folder: Path) -> list[int]:
    """The processes that live in the namespaces of a cluster."""
    mounted = f"{folder.name}/hosts".encode()
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        # A process that has ended, and only waits for its parent to ask, has no mounts.
        with contextlib.suppress(OSError):
            if mounted in (process / "mountinfo").read_bytes():
                found.append(int(process.name))
    return found


def end_processes(folder: Path) -> None:
    """End every process of a cluster except this one, until none is left or the time is up."""
    deadline = time.monotonic() + KILL_SECONDS
    while processes := [process for process in find_processes(folder) if process != os.getpid()]:
        if time.monotonic() > deadline:
            return
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(PAUSE_SECONDS)


def main(folder: Path) -> None:
    """Wait for the end of the tests, and then end their cluster."""
    while os.read(0, 4096):
        pass
    end_processes(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
