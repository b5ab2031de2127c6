#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Is the dataset whole on this node's own disk or memory, and if not, can it be brought there?

Copies a tar of a dataset to node-local storage, once per node however many ranks ask at the same
time, and unpacks it there. What it puts there is whole and checked, or is not there at all. What
is there already is looked at, and its files are counted where the last count is an hour old: in
between the answer says since when nobody has counted.

Physics
    A shared file system serves one large file fast and a million small ones slowly. Reading one
    archive costs bytes / bandwidth, at each node: hand check: 150 GB at 2 GB/s are 75 s, on 64
    nodes at once 9.6 TB from a file system that may deliver 100 GB/s in all, so 96 s. Opening
    1.3 million files at 1 ms each takes 22 minutes, in each epoch.

How it works
    once        the first process of a node holds a lock, the others wait for it and then find the
                dataset there. The lock is the kernel's: it ends with its process.
    whole       all is written under a hidden name beside the target, checked, and then moved. What
                a killed run has left is removed by the next one, which starts anew.
    checked     the SHA-256 of the archive (--sha256, or a file SOURCE.sha256 as sha256sum writes
                it), while it is read; then every file is read back and its CRC-32 compared with
                that of the bytes that were written. Without a given checksum only the copy is
                checked, not the archive, and a note says so.
    fits        bytes in whole blocks, and inodes, are counted before anything is written (of a
                compressed archive: on the way). In memory (tmpfs) what is free of the machine and
                of the cgroup of this job counts too. --leave keeps some free.
    safe        a member with an absolute path or with .., a link that leads out, a device: the
                archive is refused, and named is the member. Owners and setuid bits are not kept.
    again       the same archive (size, time of change, checksum) is found there and not copied.
                Another one is refused unless --replace is given, and so is a dataset that lost
                files (they are counted again when the last count is an hour old). After a restart
                of the machine it is copied anew, because what was not synced may be damaged.
    removed     with the archive that it was staged from; of another one, or of one that was changed
                since, only with --replace. Of an archive that is gone the name is enough.
What is not done: the files are not synced to disk, and what is staged stays until --remove.
Archives: tar, with gzip, bzip2, xz, or zstd (Python 3.14, or the package zstandard).

How to run
    unpack          python stage_in.py /shared/data.tar --to /local/scratch
    to memory       python stage_in.py /shared/data.tar.gz --to /dev/shm --leave 64GiB
    keep the tar    python stage_in.py /shared/shards.tar --to /local/scratch --keep_archive
    in the end      python stage_in.py /shared/data.tar --to /dev/shm --remove
    Slurm           srun python stage_in.py /shared/data.tar --to /local/scratch && srun ... train
                    (any number of tasks per node: one copies, the others wait)
    pdsh            pdsh -w node[01-08] python /shared/stage_in.py /shared/data.tar --to /scratch
    a checksum      sha256sum data.tar > data.tar.sha256         once, beside the archive

A good answer: `staged` or `was there` on each node. Rates far below what the file system gives to
one node: all nodes together are its limit. The dataset is then /local/scratch/data.

Seen running so far: on ext4 and in memory, and on two nodes of a Slurm with a memory of its own
each; zstd has not been seen.

Exit status: 0 it is there (with --remove: it is gone), 1 it does not fit, a checksum or a member is
wrong, something else has its name, the wait was too long, or stopped by a signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import bz2
import contextlib
import datetime
import errno
import fcntl
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import shutil
import signal
import stat
import subprocess
import tarfile
import tempfile
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {
    "toy": ["--toy"],
    "full": ["--toy"],
}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "files": "1",
    "bytes": "B",
    "archive_bytes": "B",
    "seconds": "s",
    "rate": "B/s",
    "seconds_waited": "s",
}

CHUNK_BYTES = 4 << 20
POLL_SECONDS = 0.1
# What stands around a dataset takes an inode or a block too: folder, lock, marker.
SPARE_INODES = 8
MEMORY_FILE_SYSTEMS = ("tmpfs", "ramfs")
SHARED_FILE_SYSTEMS = (
    "nfs nfs4 lustre gpfs wekafs beegfs ceph cifs smb3 afs fuse.sshfs panfs orangefs glusterfs "
    "fuse.glusterfs fuse.juicefs daos fuse.daos 9p"
).split()
ENDINGS = (".tar", ".tgz", ".tbz2", ".txz", ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tzst")
# Two empty blocks end an archive.
END_BYTES = 2 * tarfile.BLOCKSIZE
TOY_FILES = 60
# What is found there is counted again after so long: some sites clean /tmp by age.
RECOUNT_SECONDS = 3600.0
TOP_NAMES = 100
LATEST_TIME = float(2**33)

Row = dict[str, Any]


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


class Stopped(Exception):
    """The run ends here, by a signal or by the budget; what was measured is kept."""


class StageRefused(Exception):
    """The dataset cannot be staged: why, in a sentence; exit status 1."""


class StopSign:
    """Why the run has to end, if it has to: a signal, the budget, or the parent process."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.by_signal = False
        self.deadline: float | None = None

    def listen(self) -> None:
        """End the run on Ctrl-C, on SIGTERM, and on Slurm's early warning."""
        for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._receive)

    def _receive(self, number: int, _frame: Any) -> None:
        self.reason = f"stopped by {signal.Signals(number).name}"
        self.by_signal = True
        # A second signal of the same kind ends a run that hangs.
        signal.signal(number, signal.SIG_DFL)

    def check(self) -> None:
        """Raise Stopped where there is a reason to end."""
        if self.reason is None and self.deadline is not None and time.monotonic() > self.deadline:
            self.reason = "the budget is used up"
        if self.reason is not None:
            raise Stopped(self.reason)


class Progress:
    """A line on the terminal that is rewritten, or now and then a line in a log."""

    def __init__(self, total: int, noun: str, is_quiet: bool = False) -> None:
        self.total = total
        self.noun = noun
        self.is_quiet = is_quiet
        self.on_terminal = sys.stderr.isatty()
        self.shown = time.monotonic()

    def show(self, done: int, text: str) -> None:
        """Tell how far the run is."""
        if self.is_quiet:
            return
        line = f"{done}/{self.total} {self.noun}, {text}"
        if self.on_terminal:
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self.shown > 30:
            print(line, file=sys.stderr, flush=True)
            self.shown = time.monotonic()

    def close(self) -> None:
        """Leave the terminal on an empty line."""
        if self.on_terminal and not self.is_quiet:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


class StageRequest(NamedTuple):
    """What is to be staged, and where."""

    source: Path
    folder: Path
    name: str
    sha256: str | None
    keeps_archive: bool
    leave: int
    replaces: bool
    wait: float

    @property
    def target(self) -> Path:
        """Where the dataset is when it is whole."""
        return self.folder / self.name

    @property
    def partial(self) -> Path:
        """Where it is before."""
        return self.folder / f".{self.name}.partial"

    @property
    def marker(self) -> Path:
        """What says that the target is whole, and of which archive."""
        return self.folder / f".{self.name}.staged.json"

    @property
    def lock(self) -> Path:
        """What the process holds that works on it."""
        return self.folder / f".{self.name}.lock"


class StageResult(NamedTuple):
    """What came of it."""

    verdict: str
    files: int | None
    size: int | None
    seconds: float | None
    waited: float
    sha256: str | None
    # Seconds since the files were last counted, of what was there already.
    counted: float | None = None


class StagedFile(NamedTuple):
    """A file that was written: its size and the CRC-32 of its bytes."""

    size: int
    checksum: int


class SourceReader(io.RawIOBase):
    """The bytes of the archive as they lie on the shared file system, counted and hashed."""

    def __init__(self, path: Path, stop: StopSign, progress: Progress) -> None:
        super().__init__()
        self.file = path.open("rb", buffering=0)
        self.stop = stop
        self.progress = progress
        self.digest = hashlib.sha256()
        self.count = 0
        self.began = time.monotonic()
        self.shown = 0.0

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer with what comes next. Raises Stopped where the run has to end."""
        self.stop.check()
        count = self.file.readinto(buffer) or 0
        self.digest.update(memoryview(buffer)[:count])
        self.count += count
        now = time.monotonic()
        if now - self.shown > 0.2:
            self.shown = now
            rate = self.count / max(now - self.began, 1e-9) / 1e6
            self.progress.show(self.count // 10**6, f"{rate:.0f} MB/s")
        return count

    def close(self) -> None:
        """Close the file too."""
        if not self.closed:
            self.file.close()
        super().close()


class TailReader(io.RawIOBase):
    """The bytes of the archive unpacked, the last of them remembered."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner
        self.tail = b""
        self.count = 0

    def readable(self) -> bool:
        """It is there to be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """What comes next."""
        data: bytes = self.inner.read(size)
        self.count += len(data)
        self.tail = (self.tail + data[-END_BYTES:])[-END_BYTES:]
        return data

    def drain(self) -> None:
        """Read to the end."""
        while self.read(CHUNK_BYTES):
            pass


def parse_duration(text: str) -> float:
    """Seconds from `90`, `45s`, `10m`, `1h30m`."""
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", text.strip())
    if not text.strip() or found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no duration: write 90s, 10m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    total = 3600 * hours + 60 * minutes + seconds
    if total <= 0:
        raise argparse.ArgumentTypeError(f"'{text}': a duration has to be longer than nothing")
    return total


def parse_bytes(text: str) -> int:
    """Bytes from `32KiB`, `16G` (binary, as nccl-tests has it), `4GB` (decimal), or `8`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)(B?)", text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no size: write 32KiB, 4MB or 16GiB")
    number, prefix, binary, unit = found.groups()
    base = 1000 if unit and not binary else 1024
    size = float(number) * base ** " KMGT".index(prefix.upper() or " ")
    if (binary and not prefix) or size < 1 or size != int(size):
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number of bytes from 1")
    return int(size)


def parse_sha256(text: str) -> str:
    """64 hexadecimal digits."""
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text.strip()):
        raise argparse.ArgumentTypeError(f"'{text}' is no SHA-256: it has 64 hexadecimal digits")
    return text.strip().lower()


def parse_stage_name(text: str) -> str:
    """A name for a folder: no path, not hidden."""
    if not re.fullmatch(r"[^/\0.][^/\0]*", text):
        raise argparse.ArgumentTypeError(f"'{text}' is no plain name for a folder")
    return text


def name_dataset(source: Path, keeps_archive: bool) -> str:
    """`data` for data.tar.gz; with the archive kept, its own name."""
    if keeps_archive:
        return source.name
    ending = max((end for end in ENDINGS if source.name.endswith(end)), key=len, default="")
    return source.name.removesuffix(ending) or source.name


def read_boot() -> str:
    """What tells this start of this machine from all others, and names nobody."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


def find_file_system(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """The type of the file system that a path lies on, as the kernel names it; `unknown` else."""
    try:
        lines = mounts.read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    kind, deepest = "unknown", -1
    for line in lines:
        fields = line.split()
        if "-" not in fields or len(fields) < 7:
            continue
        # The kernel writes a blank in a name as \040.
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        inside = path.resolve().is_relative_to(point)
        if inside and len(Path(point).parts) >= deepest:
            kind, deepest = fields[fields.index("-") + 1], len(Path(point).parts)
    return kind


def read_given_sha256(source: Path) -> str | None:
    """The checksum in SOURCE.sha256, as sha256sum writes it; None without such a file.

    Raises StageRefused where the file has none for this archive.
    """
    path = source.with_name(f"{source.name}.sha256")
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise StageRefused(f"{path} cannot be read: {error}") from error
    for line in lines:
        found = re.fullmatch(r"\\?([0-9a-fA-F]{64})(?:\s[ *](.+))?", line.strip())
        if found and (found.group(2) is None or Path(found.group(2)).name == source.name):
            return found.group(1).lower()
    raise StageRefused(
        f"{path} has no SHA-256 of {source.name}: write it with sha256sum, or remove it"
    )


# What version 1 of cgroups has for no limit is just below 2**63; version 2 has a word for it.
UNLIMITED = 2**62


def read_cgroup_room(sysfs: Path = Path("/sys"), procfs: Path = Path("/proc")) -> int | None:
    """Bytes that the memory limits (cgroups) of this process leave; None for no limit."""
    text = ""
    with contextlib.suppress(OSError):
        text = (procfs / "self" / "cgroup").read_text(encoding="utf-8")
    root = sysfs / "fs" / "cgroup"
    versions = (
        (root, r"^0::/(.*)$", "memory.max", "memory.current"),
        (
            root / "memory",
            r"^\d+:(?:[^:]*,)?memory(?:,[^:]*)?:/(.*)$",
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
        ),
    )
    rooms = []
    for top, pattern, limit_name, used_name in versions:
        found = re.search(pattern, text, re.MULTILINE)
        folder = top / (found.group(1) if found else "")
        while folder == top or top in folder.parents:
            with contextlib.suppress(OSError, ValueError):
                limit = int((folder / limit_name).read_text(encoding="ascii"))
                used = int((folder / used_name).read_text(encoding="ascii"))
                if limit < UNLIMITED:
                    rooms.append(max(0, limit - used))
            folder = folder.parent
    return min(rooms, default=None)


def read_memory_room() -> int | None:
    """Bytes of memory that can still be filled here; None where nobody tells."""
    rooms = []
    with contextlib.suppress(OSError):
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        found = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
        if found:
            rooms.append(int(found.group(1)) * 1024)
    limited = read_cgroup_room()
    return min([*rooms, *([] if limited is None else [limited])], default=None)


class Room:
    """What is free where the dataset goes, asked again as it fills."""

    def __init__(self, folder: Path, leave: int) -> None:
        self.folder = folder
        self.leave = leave
        self.in_memory = find_file_system(folder) in MEMORY_FILE_SYSTEMS
        self.block = os.statvfs(folder).f_frsize or 4096

    def round_up(self, size: int) -> int:
        """The bytes that a file of this size takes."""
        return -(-size // self.block) * self.block

    def check(self, size: int, inodes: int, what: str) -> None:
        """Raises StageRefused where so much does not fit any more."""
        status = os.statvfs(self.folder)
        free = status.f_bavail * status.f_frsize if status.f_blocks else None
        memory = read_memory_room() if self.in_memory else None
        rooms = [room for room in (free, memory) if room is not None]
        left = max(0, min(rooms) - self.leave) if rooms else None
        if left is not None and size > left:
            kept = f" ({format_data_size(self.leave)} are kept free)" if self.leave else ""
            where = "of memory " if memory is not None and memory == min(rooms) else ""
            raise StageRefused(
                f"{what} does not fit: it takes {format_data_size(size)} {where}in {self.folder}, "
                f"and {format_data_size(left)} are free{kept}"
            )
        if status.f_files and inodes > status.f_favail:
            raise StageRefused(
                f"{what} does not fit: it takes {inodes} inodes in {self.folder}, and "
                f"{status.f_favail} are free; keep it packed with --keep_archive"
            )


def format_data_size(size: int) -> str:
    """`12 B`, `3.4 MB`, `150 GB`: decimal, to two or three digits."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= factor:
            return (
                f"{size / factor:.3g} {unit}"
                if size < 1000 * factor
                else f"{size // factor} {unit}"
            )
    return f"{size} B"


def open_unpacked(source: Path, raw: SourceReader) -> Any:
    """The tar inside of the archive. Raises WrongUse where this Python cannot unpack it."""
    with source.open("rb") as opened:
        magic = opened.read(6)
    buffered = io.BufferedReader(raw, CHUNK_BYTES)
    if magic[:2] == b"\x1f\x8b":
        return gzip.open(buffered)
    if magic[:3] == b"BZh":
        return bz2.open(buffered)
    if magic[:6] == b"\xfd7zXZ\0":
        return lzma.open(buffered)
    if magic[:4] == b"\x28\xb5\x2f\xfd":
        return open_zstd(buffered)
    return buffered


def open_zstd(buffered: IO[bytes]) -> Any:
    """A zstd stream unpacked. Raises WrongUse where nothing here can do that."""
    try:
        from compression import zstd  # Python 3.14

        return zstd.open(buffered)
    except ImportError:
        pass
    try:
        import zstandard
    except ImportError as error:
        raise WrongUse(
            "this archive is packed with zstd, which takes Python 3.14 or the package zstandard: "
            "install it, or pack the archive without"
        ) from error
    return zstandard.ZstdDecompressor().stream_reader(buffered, read_across_frames=True)


def is_packed(source: Path) -> bool:
    """Whether the archive is compressed, so that its members cannot be counted without reading."""
    with source.open("rb") as opened:
        magic = opened.read(6)
    return magic.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"))


def check_member(member: tarfile.TarInfo) -> str:
    """The path of a member below the target. Raises StageRefused for one that leads elsewhere."""
    shown = ascii(member.name)
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        raise StageRefused(f"the member {shown} is no file, folder or link: the archive is refused")
    parts = member.name.split("/")
    if member.name.startswith("/") or ".." in parts or "\0" in member.name:
        raise StageRefused(f"the member {shown} leads out of the target: the archive is refused")
    if member.issym() and member.linkname.startswith("/"):
        raise StageRefused(f"the link {shown} leads out of the target: the archive is refused")
    if member.islnk() and (member.linkname.startswith("/") or ".." in member.linkname.split("/")):
        raise StageRefused(f"the link {shown} leads out of the target: the archive is refused")
    return "/".join(part for part in parts if part not in ("", "."))


def make_parents(root: Path, path: str, made: set[str]) -> None:
    """Make the folders above a member. Raises StageRefused where one is a link or a file."""
    parts = path.split("/")[:-1]
    for depth in range(1, len(parts) + 1):
        name = "/".join(parts[:depth])
        if name in made:
            continue
        folder = root / name
        try:
            folder.mkdir(mode=0o755)
        except FileExistsError:
            if not stat.S_ISDIR(folder.lstat().st_mode):
                raise StageRefused(
                    f"the member {path!a} would be written through {name!a}, which is no "
                    "folder: the archive is refused"
                ) from None
        made.add(name)


class Unpacker:
    """Writes the members of an archive below a folder that nobody else uses."""

    def __init__(self, root: Path, room: Room, stop: StopSign, is_counted: bool) -> None:
        self.root = root
        self.room = room
        self.stop = stop
        self.is_counted = is_counted
        self.made: set[str] = {""}
        self.files: dict[str, StagedFile] = {}
        self.links: list[str] = []
        self.folders: dict[str, tuple[int, float]] = {}

    def unpack(self, archive: tarfile.TarFile) -> None:
        """Write all members. Raises StageRefused for a member that is refused or does not fit."""
        for member in archive:
            self.stop.check()
            path = check_member(member)
            if path:
                self.write(archive, member, path)
        for path in self.links:
            self.check_link(path)
        # Last, because a folder may be one that nobody can write to.
        for path, (mode, changed) in sorted(self.folders.items(), reverse=True):
            (self.root / path).chmod(mode | 0o700)
            os.utime(self.root / path, (changed, changed))

    def write(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        """Write one member."""
        make_parents(self.root, path, self.made)
        target = self.root / path
        changed = min(max(0.0, float(member.mtime)), LATEST_TIME)
        if member.isdir():
            if path not in self.made:
                make_parents(self.root, f"{path}/", self.made)
            self.folders[path] = (member.mode & 0o777, changed)
            return
        if path in self.made:
            raise StageRefused(f"the member {path!a} is a folder, and then something else")
        self.files.pop(path, None)
        if os.path.lexists(target):  # a later member of one name replaces the earlier
            target.unlink()
        if not self.is_counted:
            size = 0 if member.islnk() else self.room.round_up(member.size)
            self.room.check(size, 1 + SPARE_INODES, f"the member {path!a}")
        if member.issym():
            target.symlink_to(member.linkname)
            self.links.append(path)
        elif member.islnk():
            other = "/".join(part for part in member.linkname.split("/") if part not in ("", "."))
            if other not in self.files:
                raise StageRefused(f"the link {path!a} leads to {other!a}, which is no file")
            os.link(self.root / other, target, follow_symlinks=False)
            self.files[path] = self.files[other]
        else:
            self.files[path] = self.write_file(archive, member, target)
            os.utime(target, (changed, changed))

    def write_file(
        self, archive: tarfile.TarFile, member: tarfile.TarInfo, target: Path
    ) -> StagedFile:
        """Write a plain file; what was written."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        opened = archive.extractfile(member)
        assert opened is not None
        size, checksum = 0, 0
        with os.fdopen(os.open(target, flags, 0o600), "wb", buffering=0) as output:
            while block := opened.read(CHUNK_BYTES):
                view = memoryview(block)
                while view:
                    view = view[output.write(view) or 0 :]
                size += len(block)
                checksum = zlib.crc32(block, checksum)
            os.fchmod(output.fileno(), (member.mode & 0o777) | 0o400)
        return StagedFile(size, checksum)

    def check_link(self, path: str) -> None:
        """Raises StageRefused where a symbolic link leads out, over whatever others."""
        link = self.root / path
        if not link.is_symlink():  # replaced by a later member
            return
        try:
            end = link.resolve()
        except (OSError, RuntimeError):  # a ring of links leads nowhere
            return
        if not end.is_relative_to(self.root.resolve()):
            raise StageRefused(f"the link {path!a} leads out of the target: the archive is refused")


def verify_files(root: Path, files: Mapping[str, StagedFile], stop: StopSign) -> None:
    """Read every file back. Raises StageRefused for the first that is not what was written."""
    for path, written in files.items():
        size, checksum = 0, 0
        with (root / path).open("rb", buffering=0) as opened:
            while block := opened.read(CHUNK_BYTES):
                stop.check()
                size += len(block)
                checksum = zlib.crc32(block, checksum)
        if (size, checksum) != written:
            raise StageRefused(
                f"{path!a} reads back otherwise than it was written: look at the disk and the "
                "memory of this node"
            )


def count_members(source: Path, room: Room, stop: StopSign) -> tuple[int, int]:
    """Bytes in whole blocks and inodes that an archive takes unpacked, from its headers alone.

    Raises StageRefused for an archive that is none.
    """
    size = inodes = 0
    folders: set[str] = set()
    last = ""
    try:
        with tarfile.open(source, mode="r:") as archive:
            for member in archive:
                stop.check()
                last = f"{member.name!a}, of {format_data_size(member.size)} as it says,"
                parts = member.name.strip("/").split("/")
                folders.update("/".join(parts[:depth]) for depth in range(1, len(parts)))
                if member.isdir():
                    folders.add("/".join(parts))
                elif not member.islnk():
                    inodes += 1
                    size += room.round_up(member.size)
    except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
        raise StageRefused(f"{source.name} is no tar archive that can be read: {error}") from error
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOVERFLOW, errno.EFBIG) or not last:
            raise
        # No file can have the end to which its header leads.
        raise StageRefused(
            f"{source.name} is cut off or damaged: its member {last} is larger than any file here"
        ) from error
    return size + len(folders) * room.block, inodes + len(folders)


def describe_source(source: Path) -> dict[str, Any]:
    """What tells this archive from another one, without reading it."""
    status = source.stat()
    return {"name": source.name, "bytes": status.st_size, "changed": status.st_mtime_ns}


def read_marker(request: StageRequest) -> dict[str, Any] | None:
    """What the marker says; None where there is none that can be trusted.

    Raises StageRefused where another user has staged this.
    """
    try:
        status = request.marker.lstat()
        if status.st_uid not in (os.geteuid(), 0):
            raise StageRefused(
                f"{request.target} was staged by another user: choose another --to or --name"
            )
        document = json.loads(request.marker.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def find_staged(
    request: StageRequest, source: Mapping[str, Any]
) -> tuple[dict[str, Any], float] | None:
    """The marker of a dataset that is whole and of this archive, and the seconds since its files
    were counted; None where it has to be staged.

    Raises StageRefused where something else has the name.
    """
    marker = read_marker(request)
    try:
        status = request.target.lstat()
    except FileNotFoundError:
        return None
    if marker is None or not is_own(request.target, marker):
        raise StageRefused(
            f"{request.target} is there, and was not put there by this tool: remove it, or choose "
            "another --name"
        )
    if status.st_ino != marker.get("inode") or marker.get("boot") != read_boot():
        return None
    wanted = request.sha256
    is_same = marker.get("source") == source and (not wanted or marker.get("sha256") == wanted)
    if not is_same and not request.replaces:
        raise StageRefused(
            f"{request.target} is of another archive, or of this one before it was changed: "
            "--replace puts this one there (no job of this node may be reading it), --name beside"
        )
    if not is_same:
        return None
    try:
        return marker, check_staged(request, marker)
    except StageRefused:
        if request.replaces:
            return None
        raise


def is_own(target: Path, marker: Mapping[str, Any]) -> bool:
    """Whether what has the name was put there by this tool: it has the inode, and something of what
    was in it. A file system gives the inode of what was removed to another one."""
    status = target.lstat()
    if status.st_ino != marker.get("inode"):
        return bool(status.st_ino == marker.get("replaced"))
    if not stat.S_ISDIR(status.st_mode):  # an archive that a crash has cut off is its own too
        return bool(status.st_size == marker.get("bytes") or marker.get("boot") != read_boot())
    top = marker.get("top", [])
    return any(os.path.lexists(target / name) for name in top) or not any(target.iterdir())


def check_staged(request: StageRequest, marker: Mapping[str, Any]) -> float:
    """The seconds since the files were counted, 0 where it was now.

    Raises StageRefused where something is missing of a dataset that was whole.
    """
    advice = "--replace copies it anew (no job of this node may be reading it)"
    if not all(os.path.lexists(request.target / name) for name in marker["top"]):
        raise StageRefused(f"{request.target} is not what was staged any more: {advice}")
    age = time.time() - request.marker.stat().st_mtime
    if age < RECOUNT_SECONDS and not request.replaces:
        return max(0.0, age)
    files, size = count_tree(request.target)
    if files < marker["files"] or size < marker["bytes"]:
        raise StageRefused(
            f"{request.target} has {files} files in {size} bytes, and had {marker['files']} in "
            f"{marker['bytes']}: {advice}"
        )
    os.utime(request.marker)
    return 0.0


def count_tree(path: Path) -> tuple[int, int]:
    """Files and their bytes below a folder, or of one file; links are not counted."""
    if not path.is_dir():
        return 1, path.stat().st_size
    files = size = 0
    for base, _, names in os.walk(path):
        for name in names:
            status = os.lstat(os.path.join(base, name))  # noqa: PTH118 - of a million files
            if stat.S_ISREG(status.st_mode):
                files += 1
                size += status.st_size
    return files, size


def is_same_file(number: int, path: Path) -> bool:
    """Whether an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(number), path.stat())
    except FileNotFoundError:
        return False


@contextlib.contextmanager
def hold_stage_lock(request: StageRequest, stop: StopSign) -> Iterator[float]:
    """Wait until no other process of this node works on the dataset; the seconds waited.

    Raises StageRefused where that takes longer than --wait.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    began = time.monotonic()
    told = False
    while True:
        try:
            number = os.open(request.lock, flags, 0o600)
        except OSError as error:
            reason = (
                "another user holds that name" if error.errno == errno.EACCES else error.strerror
            )
            raise StageRefused(f"{request.lock} cannot be opened: {reason}") from error
        try:
            while True:
                stop.check()
                try:
                    fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    pass
                if time.monotonic() - began > request.wait:
                    raise StageRefused(
                        f"another process of this node has been staging {request.name} for longer "
                        f"than --wait {request.wait:.0f}s"
                    )
                if not told and sys.stderr.isatty():
                    write_note(f"another process of this node is staging {request.name}: waiting")
                    told = True
                time.sleep(POLL_SECONDS)
            waited = time.monotonic() - began
            # --remove takes the lock's file away: then it is another file's turn.
            if is_same_file(number, request.lock):
                try:
                    yield waited if waited > POLL_SECONDS / 2 else 0.0
                finally:
                    # Of an archive that was refused nothing stays; what --remove has taken away may
                    # be another one's by now.
                    is_left = not os.path.lexists(request.target)
                    if is_left and is_same_file(number, request.lock):
                        with contextlib.suppress(OSError):
                            request.lock.unlink()
                return
        finally:
            os.close(number)


def remove_whole(path: Path) -> None:
    """Remove a file, or a folder with all that is in it; nothing where there is none."""
    with contextlib.suppress(FileNotFoundError):
        if path.is_symlink() or not path.is_dir():
            path.unlink()
        else:
            shutil.rmtree(path)


def copy_archive(request: StageRequest, room: Room, raw: SourceReader) -> dict[str, StagedFile]:
    """Copy the archive as it is into the partial folder's place; what was written."""
    room.check(room.round_up(request.source.stat().st_size), SPARE_INODES, request.source.name)
    size, checksum = 0, 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    with os.fdopen(os.open(request.partial, flags, 0o644), "wb", buffering=0) as output:
        while block := raw.read(CHUNK_BYTES):
            view = memoryview(block)
            while view:
                view = view[output.write(view) or 0 :]
            size += len(block)
            checksum = zlib.crc32(block, checksum)
    return {"": StagedFile(size, checksum)}


def is_damage(error: Exception) -> bool:
    """Whether an error tells that the archive cannot be read, by whatever unpacks it."""
    if isinstance(error, OSError):  # gzip and bzip2 raise these, without a number
        return error.errno is None
    kinds = (
        *(tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, UnicodeError, OverflowError),
        RecursionError,  # headers for headers, without end
    )
    return isinstance(error, kinds) or type(error).__name__ == "ZstdError"


def unpack_archive(
    request: StageRequest, room: Room, raw: SourceReader, stop: StopSign
) -> tuple[dict[str, StagedFile], bool]:
    """Unpack the archive into the partial folder; what was written, and whether it has an end.

    Raises StageRefused.
    """
    counted = not is_packed(request.source)
    if counted:
        size, inodes = count_members(request.source, room, stop)
        room.check(size, inodes + SPARE_INODES, request.source.name)
    request.partial.mkdir(mode=0o755)
    unpacker = Unpacker(request.partial, room, stop, counted)
    try:
        tail = TailReader(open_unpacked(request.source, raw))
        with tarfile.open(fileobj=tail, mode="r|") as archive:
            unpacker.unpack(archive)
        tail.drain()
    except Exception as error:
        if not is_damage(error):
            raise
        raise StageRefused(
            f"{request.source.name} is cut off, damaged or no tar: {error}"
        ) from error
    raw_rest = raw.read(1)
    while raw_rest:  # what stands behind a packed stream belongs to the checksum
        raw_rest = raw.read(CHUNK_BYTES)
    has_end = tail.count >= END_BYTES and not tail.tail.strip(b"\0") and len(tail.tail) == END_BYTES
    return unpacker.files, has_end


def stage(
    request: StageRequest, source: Mapping[str, Any], old: Path | None, stop: StopSign, quiet: bool
) -> tuple[int, int, str]:
    """Copy, check and move, under the lock: files, bytes and the SHA-256 of the archive.

    Raises StageRefused, and Stopped; then nothing of it is left.
    """
    progress = Progress(-(-int(source["bytes"]) // 10**6), "MB", quiet)
    room = Room(request.folder, request.leave)
    remove_whole(request.partial)
    raw = SourceReader(request.source, stop, progress)
    try:
        if request.keeps_archive:
            files, has_end = copy_archive(request, room, raw), True
        else:
            files, has_end = unpack_archive(request, room, raw, stop)
        sha256 = raw.digest.hexdigest()
        if request.sha256 and sha256 != request.sha256:
            raise StageRefused(
                f"{request.source.name} has the SHA-256 {sha256[:16]}..., and should have "
                f"{request.sha256[:16]}...: it is another archive, or damaged"
            )
        if not has_end and not request.sha256:
            raise StageRefused(
                f"{request.source.name} has no end mark, so it may be cut off: give its --sha256, "
                "or pack it again"
            )
        if describe_source(request.source) != source:
            raise StageRefused(f"{request.source.name} changed while it was read: try again")
        progress.close()
        if request.keeps_archive:
            verify_files(request.partial, {".": files[""]}, stop)
        else:
            verify_files(request.partial, files, stop)
        stop.check()
        finish_staging(request, source, sha256, files, old)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StageRefused(
                f"{request.folder} is full, or your quota there is used up"
            ) from error
        raise
    finally:
        progress.close()
        raw.close()
        with contextlib.suppress(OSError):
            remove_whole(request.partial)
    return len(files), sum(each.size for each in files.values()), sha256


def list_top(path: Path) -> list[str]:
    """The first names in a folder; none of a file."""
    return sorted(each.name for each in path.iterdir())[:TOP_NAMES] if path.is_dir() else []


def finish_staging(
    request: StageRequest,
    source: Mapping[str, Any],
    sha256: str,
    files: Mapping[str, StagedFile],
    old: Path | None,
) -> None:
    """Put the whole dataset in its place. What says so names its inode, so that no moment lies."""
    document = {
        "inode": request.partial.stat().st_ino,
        "replaced": old.stat().st_ino if old else None,
        "boot": read_boot(),
        "source": dict(source),
        "sha256": sha256,
        "files": len(files),
        "bytes": sum(each.size for each in files.values()),
        "top": list_top(request.partial),
    }
    partial = request.marker.with_name(f"{request.marker.name}.new")
    remove_whole(partial)
    # Made by nobody else: --to may be a folder that all can write to.
    with partial.open("x", encoding="utf-8") as file:
        file.write(json.dumps(document) + "\n")
    partial.replace(request.marker)
    if old:
        aside = request.folder / f".{request.name}.old"
        remove_whole(aside)
        request.target.rename(aside)
        request.partial.rename(request.target)
        remove_whole(aside)
    else:
        request.partial.rename(request.target)


def stage_once(request: StageRequest, stop: StopSign, quiet: bool) -> StageResult:
    """Have the dataset on this node, whoever brings it there. Raises StageRefused and Stopped."""
    began = time.monotonic()
    source = describe_source(request.source)
    with hold_stage_lock(request, stop) as waited:
        remove_whole(request.folder / f".{request.name}.old")
        found = find_staged(request, source)
        if found is not None:
            marker, counted = found
            verdict = "waited for" if waited else "was there"
            numbers = marker["files"], marker["bytes"], None, waited, marker["sha256"], counted
            return StageResult(verdict, *numbers)
        old = request.target if os.path.lexists(request.target) else None
        files, size, sha256 = stage(request, source, old, stop, quiet)
        seconds = time.monotonic() - began - waited
        return StageResult("staged", files, size, seconds, waited, sha256)


def check_origin(request: StageRequest, marker: Mapping[str, Any]) -> None:
    """Raises StageRefused where what is to be removed was staged from another archive."""
    if request.replaces:
        return
    staged = marker.get("source")
    name = staged.get("name") if isinstance(staged, dict) else None
    is_gone = not request.source.exists()
    is_same = name == request.source.name if is_gone else staged == describe_source(request.source)
    if not is_same:
        raise StageRefused(
            f"{request.target} is of another archive, {name}, or of this one before it was "
            "changed: --remove with --replace takes it away all the same"
        )


def unstage(request: StageRequest, stop: StopSign) -> StageResult:
    """Remove a staged dataset with all that belongs to it. Raises StageRefused for another's."""
    with hold_stage_lock(request, stop) as waited:
        marker = read_marker(request)
        there = os.path.lexists(request.target)
        if there and (marker is None or not is_own(request.target, marker)):
            raise StageRefused(
                f"{request.target} was not put there by this tool: remove it yourself"
            )
        if there and marker is not None:
            check_origin(request, marker)
        for path in (
            request.target,
            request.partial,
            request.folder / f".{request.name}.old",
            request.marker,
            request.lock,
        ):
            remove_whole(path)
    verdict = "removed" if there else "was not there"
    return StageResult(verdict, None, None, None, waited, None)


def hide_folders(text: str) -> str:
    """The text with absolute paths cut down to their last part: folders name people and hosts."""
    name, equals, value = text.partition("=")
    if equals and value.startswith(("/", "~")):
        return f"{name}={Path(value).name}"
    return Path(text).name if text.startswith(("/", "~")) else text


def make_portable_command(arguments: Sequence[str]) -> list[str]:
    """The command line as another machine would type it, without absolute paths."""
    script = Path(__file__)
    with contextlib.suppress(ValueError, OSError):  # a folder that was deleted has no name
        script = script.resolve().relative_to(Path.cwd().resolve())
    name = script.name if script.is_absolute() else script.as_posix()
    return ["python", name, *(hide_folders(argument) for argument in arguments)]


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write the JSON whole: under another name, then moved; a pipe or a device is written to, and
    a symbolic link followed. Raises WrongUse where it cannot be."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    target = path.resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def check_json_path(path: Path | None) -> None:
    """Raises WrongUse where --json names a folder, or a file in a folder that is not there or takes
    no files."""
    if path is None:
        return
    if path.is_dir():
        raise WrongUse(f"--json: {path} is a folder; name a file in it")
    target = path.resolve()
    if not target.parent.is_dir():
        raise WrongUse(f"--json: there is no folder {target.parent}")
    if path.exists() and not path.is_file():  # a pipe or a device, which writing shows
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def make_document_head(
    tool: str, numbers: tuple[str, int], command: Sequence[str], origin: float
) -> dict[str, Any]:
    """The opening of the JSON: tool, version and method, command, start, and seconds until now.

    `origin` is the reading of time.monotonic() when the run began.
    """
    seconds = time.monotonic() - origin
    started = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    return {
        "tool": tool,
        "version": numbers[0],
        "method": numbers[1],
        "command": list(command),
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(seconds, 3),
    }


def write_note(text: str) -> None:
    """One note for the reader, beside the table."""
    print(f"note: {text}", file=sys.stderr)


def format_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and all others to the right."""
    cells = [list(headings), *(list(row) for row in rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(headings))]

    def join(row: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [f":{'-' * (w - 1)}" if i == 0 else f"{'-' * (w - 1)}:" for i, w in enumerate(widths)]
    return "\n".join([join(cells[0]), f"| {' | '.join(rule)} |", *map(join, cells[1:])])


def make_stage_row(name: str, archive_bytes: int | None, result: StageResult) -> Row:
    """A result as a row of the JSON. The rate is that of the archive's bytes."""
    rate = None
    if result.seconds and archive_bytes is not None:
        rate = archive_bytes / result.seconds
    return {
        "dataset": name,
        "verdict": result.verdict,
        "files": result.files,
        "bytes": result.size,
        "archive_bytes": archive_bytes,
        "seconds": result.seconds,
        "rate": rate,
        "seconds_waited": result.waited,
        "sha256": result.sha256,
    }


def format_stages(rows: Sequence[Row]) -> str:
    """The table."""

    def show(row: Row, key: str, factor: float, digits: int) -> str:
        return "-" if row[key] is None else f"{row[key] / factor:.{digits}f}"

    return format_table(
        ["dataset", "files", "MB", "s", "MB/s", "waited s", "verdict"],
        [
            [
                row["dataset"],
                show(row, "files", 1, 0),
                show(row, "bytes", 1e6, 1),
                show(row, "seconds", 1, 1),
                show(row, "rate", 1e6, 0),
                show(row, "seconds_waited", 1, 1),
                row["verdict"],
            ]
            for row in rows
        ],
    )


def write_tree_archive(path: Path, files: int) -> None:
    """A small archive, always the same: files in folders, a folder that is empty, two links."""
    with tarfile.open(path, "w") as archive:
        for number in range(files):
            member = tarfile.TarInfo(f"images/{number % 7}/{number:04d}.bin")
            content = hashlib.sha256(str(number).encode()).digest() * (1 + number % 50)
            member.size, member.mtime = len(content), 1_700_000_000
            archive.addfile(member, io.BytesIO(content))
        for name, kind, link in (
            ("empty", tarfile.DIRTYPE, ""),
            ("images/first", tarfile.SYMTYPE, "0/0000.bin"),
            ("again.bin", tarfile.LNKTYPE, "images/1/0001.bin"),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, link
            member.mode = 0o755 if kind == tarfile.DIRTYPE else 0o644
            archive.addfile(member)


def show_toy(stop: StopSign) -> tuple[list[Row], list[str]]:
    """Stage a small archive from and to the folder for temporary files, as two processes at once;
    the rows and caveats. Raises StageRefused and Stopped."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="stage_in_") as folder:
        base = Path(folder)
        archive = base / "toy.tar"
        write_tree_archive(archive, TOY_FILES)
        (base / "local").mkdir()
        command = [sys.executable, str(Path(__file__).resolve()), str(archive)]
        command += ["--to", str(base / "local"), "--quiet"]
        # Not told of any rank, so that each prints its table.
        environ = {k: v for k, v in os.environ.items() if k not in LOCAL_RANKS}
        started = []
        said = ""
        for number in range(2):
            json_path = str(base / f"{number}.json")
            started.append(
                subprocess.Popen(
                    [*command, "--json", json_path],
                    env=environ,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            )
        try:
            for process in started:
                while process.poll() is None:
                    stop.check()
                    time.sleep(0.02)
        finally:
            for process in started:
                if process.poll() is None:
                    process.kill()
                process.wait()
                assert process.stderr is not None
                said += process.stderr.read().decode("utf-8", "replace")
                process.stderr.close()
        if any(process.returncode for process in started):
            raise StageRefused(f"a process of the toy run failed: {said.strip()[-300:]}")
        for number in range(2):
            document = json.loads((base / f"{number}.json").read_text(encoding="utf-8"))
            rows += [row | {"dataset": f"toy, process {number}"} for row in document["results"]]
    return rows, ["a toy: from and to the folder for temporary files"]


LOCAL_RANKS = ("SLURM_LOCALID", "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "PALS_LOCAL_RANKID")


def is_spokesman(environ: Mapping[str, str]) -> bool:
    """Whether this process is the first of its node, or the only one."""
    return all(environ.get(name, "0") == "0" for name in LOCAL_RANKS)


def make_request(options: argparse.Namespace) -> StageRequest:
    """What the command line asks for. Raises WrongUse and StageRefused."""
    source = options.source
    given = options.sha256
    if given is None and not options.remove:
        given = read_given_sha256(source)
    return StageRequest(
        source=source,
        folder=options.to,
        name=options.name or name_dataset(source, options.keep_archive),
        sha256=given,
        keeps_archive=options.keep_archive,
        leave=options.leave,
        replaces=options.replace,
        wait=options.wait,
    )


def find_stage_caveats(request: StageRequest) -> list[str]:
    """What a reader of the results should know."""
    caveats = []
    if request.sha256 is None:
        caveats.append(
            "no checksum of the archive is known (--sha256, or a file beside it), so the copy was "
            "checked and the archive was not"
        )
    return caveats


def run_stage(
    options: argparse.Namespace, arguments: Sequence[str], stop: StopSign, origin: float
) -> int:
    """Stage or remove, print and write; the exit status. Raises WrongUse."""
    rows: list[Row] = []
    caveats: list[str] = []
    problem = None
    speaks = True
    try:
        if options.toy:
            rows, caveats = show_toy(stop)
        else:
            request = make_request(options)
            if options.remove:
                result = unstage(request, stop)
                size = None
            else:
                caveats = find_stage_caveats(request)
                result = stage_once(request, stop, options.quiet)
                size = request.source.stat().st_size
                if result.counted and result.verdict == "was there":
                    caveats.append(
                        f"its files were last counted {result.counted:.0f} s ago, and not again"
                    )
                    write_note(f"{request.target} is there")
                else:
                    write_note(f"{request.target} is whole")
            rows = [make_stage_row(request.name, size, result)]
            # A rank that only waited has nothing to tell, and a table of its own is noise.
            speaks = result.verdict in ("staged", "removed") or is_spokesman(os.environ)
    except StageRefused as error:
        problem = str(error)
    except Stopped as error:
        problem = str(error)
    except OSError as error:
        name = error.filename or options.source
        problem = f"{error.strerror}: {name}"
    try:
        if options.json and speaks:
            head = make_document_head(
                "stage_in", (__version__, METHOD), make_portable_command(arguments), origin
            )
            # Paths name people; what does not fit is said with one.
            document = {
                **head,
                "complete": problem is None,
                "units": UNITS,
                "results": rows,
                "caveats": caveats + (["stopped, refused or failed"] if problem else []),
                "details": {
                    "file_system": find_file_system(options.to) if options.to else None,
                    "keeps_archive": options.keep_archive,
                },
            }
            write_document(options.json, document)
    finally:  # a disk that is full loses no table
        if speaks and problem is None:
            print(format_stages(rows))
            for caveat in caveats:
                write_note(caveat)
    if problem is not None:
        print(f"problem: {problem}", file=sys.stderr)
    return 0 if problem is None else 1


def run_self_test() -> int:
    """Stage small archives on this machine, good and bad ones; 0, or 1 where a check fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    stop = StopSign()
    with tempfile.TemporaryDirectory(prefix="stage_in_") as folder:
        base = Path(folder)
        archive, local = base / "data.tar", base / "local"
        write_tree_archive(archive, TOY_FILES)
        local.mkdir()
        right = hashlib.sha256(archive.read_bytes()).hexdigest()
        request = StageRequest(archive, local, "data", right, False, 0, False, 30.0)
        first = stage_once(request, stop, True)
        check("an archive is staged", (first.verdict, first.sha256) == ("staged", right))
        check("and found there afterwards", stage_once(request, stop, True).verdict == "was there")
        third = hashlib.sha256(b"3").digest() * 4
        check("with its bytes", (local / "data/images/3/0003.bin").read_bytes() == third)
        check("links lead where they did", (local / "data/images/first").resolve().exists())
        refused = []
        for name, kind, link in (
            ("../out", tarfile.REGTYPE, ""),
            ("/tmp/out", tarfile.REGTYPE, ""),
            ("in", tarfile.SYMTYPE, "../../out"),
            ("in", tarfile.LNKTYPE, "../out"),
            ("null", tarfile.CHRTYPE, ""),
        ):
            evil = base / "evil.tar"
            with tarfile.open(evil, "w") as opened:
                member = tarfile.TarInfo(name)
                member.type, member.linkname = kind, link
                opened.addfile(member)
            with contextlib.suppress(StageRefused):
                stage_once(request._replace(source=evil, name="evil", sha256=None), stop, True)
                refused.append(name)
        check("members that lead out are refused", not refused)
        wrong = request._replace(name="wrong", sha256="0" * 64)
        cut = base / "cut.tar"
        cut.write_bytes(archive.read_bytes()[:20000])
        packed = base / "cut.tar.gz"
        packed.write_bytes(gzip.compress(archive.read_bytes())[:3000])
        huge = request._replace(name="huge", leave=1 << 60)
        for what, asked in (
            ("a wrong checksum is refused", wrong),
            ("an archive that is cut off is refused", wrong._replace(source=cut, sha256=None)),
            ("a packed one too", wrong._replace(source=packed, sha256=None)),
            ("what does not fit is refused", huge),
        ):
            try:
                stage_once(asked, stop, True)
                check(what, False)
            except StageRefused:
                check(what, not asked.target.exists() and not asked.partial.exists())
        check("removing takes all of it", unstage(request, stop).verdict == "removed")
        left = [path.name for path in local.iterdir() if not path.name.endswith(".lock")]
        check("and nothing is left", left == [])
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def parse_leave(text: str) -> int:
    """Bytes to keep free; 0 for none."""
    return 0 if text == "0" else parse_bytes(text)


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="stage_in.py",
        description="Copy a tar of a dataset to node-local storage or memory, once per node.",
        epilog="The docstring at the top of this file tells how it works.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "source",
        nargs="?",
        type=Path,
        metavar="SOURCE",
        help="the archive, on a shared file system",
    )
    parser.add_argument(
        "--to", type=Path, metavar="FOLDER", help="a folder on this node's own disk"
    )
    parser.add_argument(
        "--name",
        type=parse_stage_name,
        metavar="NAME",
        help="of the dataset there (default: SOURCE's)",
    )
    parser.add_argument("--sha256", type=parse_sha256, metavar="HEX", help="that the archive has")
    parser.add_argument(
        "--keep_archive", action="store_true", help="copy the archive as it is, without unpacking"
    )
    parser.add_argument(
        "--leave", type=parse_leave, default=0, metavar="SIZE", help="keep so much free, 64GiB say"
    )
    parser.add_argument(
        "--replace",
        action="store_true",
        help="copy it anew in the place of what was staged before; with --remove: remove also what "
        "is of another archive",
    )
    parser.add_argument("--remove", action="store_true", help="remove the staged dataset instead")
    parser.add_argument(
        "--wait",
        type=parse_duration,
        default=7200.0,
        metavar="TIME",
        help="for another process of this node (default: 2h)",
    )
    parser.add_argument(
        "--any_file_system", action="store_true", help="stage to a shared file system too"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress line")
    parser.add_argument("--toy", action="store_true", help="stage a small archive of its own")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"stage_in {__version__} (method {METHOD})"
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense together."""
    check_json_path(options.json)
    if options.toy:
        given = [
            name
            for name in ("source", "to", "name", "sha256", "keep_archive", "replace", "remove")
            if getattr(options, name)
        ]
        if given:
            raise WrongUse(f"--toy has an archive of its own, and no use for {given[0]}")
        return
    if options.source is None or options.to is None:
        raise WrongUse("name the archive, and with --to a folder on this node's own disk")
    if not options.to.is_dir():
        raise WrongUse(f"--to: there is no folder {options.to}")
    if options.remove:
        if options.sha256:
            raise WrongUse("--remove copies nothing: leave --sha256 out")
        return
    if not options.source.is_file():
        raise WrongUse(f"there is no file {options.source}")
    kind = find_file_system(options.to)
    if kind in SHARED_FILE_SYSTEMS and not options.any_file_system:
        raise WrongUse(
            f"--to: {options.to} is on {kind}, which nodes share: name a folder on this node's own "
            "disk or memory, or give --any_file_system"
        )


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    stop = StopSign()
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_options(options)
        stop.listen()
        return run_stage(options, arguments, stop, origin)
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a run listens for signals itself
        print("stopped", file=sys.stderr)
        return 1


def run_to_stdout(run: Callable[[], int]) -> int:
    """What `run` returns, once all that it printed is written; where stdout takes no more, a full
    disk or a closed pipe, one line says so, and it is 1."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, by `>&-`: then nobody wants to read it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - to the end
    try:
        try:
            status = run()
        except SystemExit as ended:  # --help, --version, and wrong use
            status = int(ended.code or 0)
        sys.stdout.flush()
    except OSError as error:
        kinds = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        if error.filename is not None or error.errno not in kinds:
            raise
        # What still waits would be complained of again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"stdout could not be written: {error.strerror}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(run_to_stdout(main))
