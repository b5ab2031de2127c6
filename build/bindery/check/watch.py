"""Waiting for changes of a book's files, and what a change has brought."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from watchfiles import watch

from bindery.check.finding_identity import Identity
from bindery.core.model import Finding
from bindery.core.repository import Tree

_LOOK_MILLISECONDS = 2000
"""How often files are looked at unasked: network file systems do not report changes."""
_REST_MILLISECONDS = 10
_SETTLE_MILLISECONDS = 50
"""A save may be several changes, and is one: it has ended when nothing changes for the first time,
or after the second."""

Stamp = tuple[int, int, int]
Known = Mapping[Finding, Identity]


@dataclass(frozen=True, slots=True)
class Difference:
    """What a change of the book has brought, and what it has ended."""

    new: tuple[Finding, ...]
    gone: tuple[Finding, ...]


def compare_findings(before: Known, after: Known) -> Difference:
    """What is found now and was not, and what was and is not, wherever its line has moved."""
    return Difference(_leave_out(after, before), _leave_out(before, after))


def _leave_out(findings: Known, others: Known) -> tuple[Finding, ...]:
    left = Counter(others.values())
    remaining = []
    for finding, identity in findings.items():
        if left[identity]:
            left[identity] -= 1
        else:
            remaining.append(finding)
    return tuple(remaining)


def wait_for_changes(root: Path) -> Iterator[None]:
    """Yields at once, and again each time that files of the book have changed.

    Hidden folders, environments and outputs are not looked at. Raises KeyboardInterrupt at Ctrl-C.
    """
    stamps = _read_stamps(root)
    yield
    # A change says only that it is time to look: what has changed the stamps tell, also what
    # happened before the watcher was there.
    for _ in watch(
        root,
        debounce=_SETTLE_MILLISECONDS,
        step=_REST_MILLISECONDS,
        rust_timeout=_LOOK_MILLISECONDS,
        yield_on_timeout=True,
        watch_filter=None,
    ):
        former, stamps = stamps, _read_stamps(root)
        if stamps != former:
            yield


def _read_stamps(root: Path) -> Mapping[str, Stamp]:
    """What shows that a file has changed: its time, its size and its inode."""
    stamps = {}
    for path in Tree(root).walk_files(""):
        with contextlib.suppress(OSError):
            status = os.stat(f"{root}/{path}")  # noqa: PTH116 - one of thousands
            stamps[path] = (status.st_mtime_ns, status.st_size, status.st_ino)
    return stamps
