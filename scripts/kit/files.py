"""Small files of the kernel, and which file system a path is on."""

import re
from pathlib import Path

SHARED_FILE_SYSTEMS = frozenset(
    "9p afs beegfs ceph cifs daos fuse.daos fuse.glusterfs fuse.juicefs fuse.sshfs glusterfs gpfs "
    "lustre nfs nfs4 orangefs panfs smb3 wekafs".split()
)


def read_text(path: Path) -> str:
    """A small file without the space around it; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def find_file_system(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """The type of the file system of a path, as the kernel names it, or `unknown`."""
    target, kind, deepest = path.resolve(), "unknown", -1
    for line in read_text(mounts).splitlines():
        fields = line.split()
        # The kernel writes a blank in a name as \040.
        point = Path(re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[4]))
        if target.is_relative_to(point) and len(point.parts) >= deepest:
            kind, deepest = fields[fields.index("-") + 1], len(point.parts)
    return kind


def is_shared(path: Path) -> bool:
    """Whether the path is on a file system that nodes share."""
    return find_file_system(path) in SHARED_FILE_SYSTEMS
