"""What a cluster of the tests is made of, told from all else on a machine, and how it ends.

Every process of a cluster sees a file of the cluster's folder mounted over /etc/hosts, and a
folder has a name that no other has: so it is known whose a process is, whatever it has done to its
environment, its session and its parents, and also after the folder was removed.

As a program this is the first process of a cluster's login node. It waits until nobody holds the
other end of its standard input, however the tests came to their end, and then ends every process
of the cluster and removes its folder. For that it needs nothing but Python.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

KINDS = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
"""The namespaces that are looked at, as /proc/PID/ns names them."""

CGROUPS = Path("/sys/fs/cgroup")
NAMED_NETWORKS = Path("/run/netns")
OWN_LINK = re.compile(r"switch|node\d+")
"""The names that a cluster gives to links. They belong into its own network."""

PAUSE_SECONDS = 0.02
KILL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Trace:
    """What is known of a cluster, to find later what is left of it."""

    folder: Path
    before: frozenset[str]
    """What find_shared said before the cluster was started."""
    namespaces: frozenset[str] = frozenset()
    """Those of its processes, as the kernel names them, and of nobody else at that time."""
    noted: float = 0.0
    """When the namespaces were looked at, in seconds since the machine has started. Later the
    kernel may give their numbers to others."""


def find_processes(folder: Path) -> list[int]:
    """The processes that live in the namespaces of a cluster, or were told of its configuration."""
    mounted = f"{folder.name}/hosts".encode()
    told = f"{folder}/slurm.conf".encode()
    found = []
    for process in _list_processes():
        # Of a process that has ended, and only waits to be asked for, both are empty.
        texts = (_read(process, "mountinfo"), _read(process, "environ"))
        if mounted in texts[0] or told in texts[1]:
            found.append(process)
    return found


def find_shared() -> frozenset[str]:
    """What could stay of any cluster where all can see it: links by the names that clusters give,
    control groups with the name of Slurm, and networks that have a name. In words."""
    links = (name for _, name in socket.if_nameindex() if OWN_LINK.fullmatch(name))
    groups = (
        f"{place}/{name}"
        for place, names, _ in os.walk(CGROUPS)
        for name in names
        if "slurm" in name
    )
    networks = (path.name for path in NAMED_NETWORKS.glob("*"))
    kinds = {"network link": links, "control group": groups, "named network": networks}
    return frozenset(f"the {kind} {name}" for kind, names in kinds.items() for name in names)


def note_namespaces(trace: Trace) -> Trace:
    """The trace with the namespaces that the cluster has now."""
    own = _list_namespaces([os.getpid()])
    theirs = _list_namespaces(find_processes(trace.folder))
    return Trace(trace.folder, trace.before, trace.namespaces | (theirs - own), _read_clock())


def find_leftovers(trace: Trace) -> list[str]:
    """All that is left of a cluster, in words; nothing where all is gone."""
    processes = set(find_processes(trace.folder)) | set(_find_guests(trace))
    mounts = [
        line.split()[4]
        for line in _read(os.getpid(), "mountinfo").decode(errors="replace").splitlines()
        if trace.folder.name in line
    ]
    return [
        *(f"the process {process} ({_name(process)})" for process in sorted(processes)),
        *(f"the mount {mount}" for mount in mounts),
        *sorted(find_shared() - trace.before),
        *([f"the folder {trace.folder}"] if trace.folder.exists() else []),
    ]


def wait_for_end(trace: Trace, seconds: float) -> list[str]:
    """What is left of a cluster after a while, in words; as soon as all is gone, nothing. The
    first process of a node ends a moment after it was killed, when all others of it have."""
    deadline = time.monotonic() + seconds
    while (left := find_leftovers(trace)) and time.monotonic() < deadline:
        time.sleep(PAUSE_SECONDS)
    return left


def end_processes(folder: Path) -> None:
    """End every process of a cluster, this one left out, until none is there. What waits for a
    disk that never answers stays."""
    deadline = time.monotonic() + KILL_SECONDS
    while processes := [process for process in find_processes(folder) if process != os.getpid()]:
        if time.monotonic() > deadline:
            return
        for process in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(PAUSE_SECONDS)


def _find_guests(trace: Trace) -> Iterable[int]:
    """What has lived in a namespace of the cluster since it was looked at."""
    for process in _list_processes():
        if _list_namespaces([process]) & trace.namespaces and _lives_since(process, trace.noted):
            yield process


def _lives_since(process: int, moment: float) -> bool:
    # The third field and the 22nd; the second is a name that may hold blanks and brackets itself.
    fields = _read(process, "stat").rpartition(b")")[2].split()
    # What has ended keeps its number until its parent, which may be the machine's first process,
    # asks for its status.
    is_there = bool(fields) and fields[0] not in b"ZX"
    return is_there and int(fields[19]) / os.sysconf("SC_CLK_TCK") <= moment


def _read_clock() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _list_processes() -> list[int]:
    return [int(path.name) for path in Path("/proc").glob("[0-9]*")]


def _list_namespaces(processes: Iterable[int]) -> frozenset[str]:
    found = set()
    for process in processes:
        for kind in KINDS:
            with contextlib.suppress(OSError):
                found.add(str(Path(f"/proc/{process}/ns/{kind}").readlink()))
    return frozenset(found)


def _read(process: int, name: str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/{name}").read_bytes()
    return b""


def _name(process: int) -> str:
    return _read(process, "comm").decode(errors="replace").strip()


def main(folder: Path) -> None:
    """Wait for the end of the tests, and then be the end of their cluster."""
    while os.read(0, 4096):
        pass
    end_processes(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
