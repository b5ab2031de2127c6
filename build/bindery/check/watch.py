"""Wait until files of a book change, and tell new findings from known ones."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from watchfiles import watch

from bindery.check.finding_identity import Identity
from bindery.core.model import Finding
from bindery.core.repository import Tree

_LOOK_MILLISECONDS = 2000
"""How often files are checked without a notice: network file systems do not send any."""
_PAUSE_MILLISECONDS = 10
"""A save may write several times, and ends with a pause this long."""
_SETTLE_MILLISECONDS = 50
"""Changes without a pause count as one for this long."""

Stamp = tuple[int, int, int]
Known = Mapping[Finding, Identity]


def leave_out(findings: Known, others: Known) -> tuple[Finding, ...]:
    """The findings that are not among the others, even on a line that has moved."""
    left = Counter(others.values())
    remaining = []
    for finding, identity in findings.items():
        if left[identity]:
            left[identity] -= 1
        else:
            remaining.append(finding)
    return tuple(remaining)


def wait_for_changes(root: Path) -> Iterator[None]:
    """Yield at once, and again whenever files of the book have changed.

    Hidden folders, environments and outputs are ignored. Raises KeyboardInterrupt at Ctrl-C.
    """
    stamps = _read_stamps(root)
    yield
    # The stamps decide whether something changed: the watcher misses changes before its start.
    for _ in watch(
        root,
        debounce=_SETTLE_MILLISECONDS,
        step=_PAUSE_MILLISECONDS,
        rust_timeout=_LOOK_MILLISECONDS,
        yield_on_timeout=True,
        watch_filter=None,
    ):
        former, stamps = stamps, _read_stamps(root)
        if stamps != former:
            yield


def _read_stamps(root: Path) -> Mapping[str, Stamp]:
    """The time, size and inode of each file, which differ after a change."""
    stamps = {}
    for path in Tree(root).walk_files(""):
        with contextlib.suppress(OSError):
            status = os.stat(f"{root}/{path}")  # noqa: PTH116 - one of thousands
            stamps[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return stamps
