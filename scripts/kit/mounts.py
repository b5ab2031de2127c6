"""Which file system a path is on, and whether nodes share it."""

from __future__ import annotations

import re
from pathlib import Path

SHARED_FILE_SYSTEMS = frozenset(
    "9p afs beegfs ceph cifs daos fuse.daos fuse.glusterfs fuse.juicefs fuse.sshfs glusterfs gpfs "
    "lustre nfs nfs4 orangefs panfs smb3 wekafs".split()
)


def find_file_system(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """The type of the file system that a path is on, as the kernel names it; `unknown` where it
    does not say."""
    try:
        lines = mounts.read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    target, kind, deepest = path.resolve(), "unknown", -1
    for line in lines:
        fields = line.split()
        # The kernel writes a blank in a name as \040.
        point = Path(re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[4]))
        if target.is_relative_to(point) and len(point.parts) >= deepest:
            kind, deepest = fields[fields.index("-") + 1], len(point.parts)
    return kind


def is_shared(path: Path) -> bool:
    """Whether the path is on a file system that nodes share."""
    return find_file_system(path) in SHARED_FILE_SYSTEMS
