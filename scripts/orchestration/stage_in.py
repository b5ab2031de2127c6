#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Is the dataset complete on this node's own disk or memory, and if not, can it be copied there?

Unpacks a tar of a dataset to node-local storage, once per node however many ranks ask at the same
time. The dataset appears there complete or not at all.

## How it works

- Once per node: the first process locks the target folder, the others wait and then find the
  dataset. The kernel releases the lock when its process ends.
- Complete: everything is written under a hidden name beside the target and renamed at the end.
- Verified: the SHA-256 of the archive is computed while it is read, and compared with SOURCE.sha256
  (made by sha256sum) if there is one. Truncated archives are refused without one, too.
- Fits: room for the archive is checked first, and room for each file before it is written. In
  memory (tmpfs) the free memory of the machine and of the job's cgroup (v2) counts.
- Safe: paths or links that lead out of the target are refused.
- Again: the same archive (name, size, modification time, checksum) is found and not copied, until
  the node reboots. A different one of that name is refused until `--remove`.

What is timed: reading, unpacking and checksum of the archive, without waiting for another process.
The rate is archive bytes / seconds.

## How to run

    python stage_in.py /shared/data.tar --to /local/scratch        # makes /local/scratch/data
    python stage_in.py /shared/shards.tar --to /dev/shm --keep-archive --leave 64GiB
    python stage_in.py /shared/data.tar --to /dev/shm --remove
    # Slurm: any number of tasks per node
    srun python stage_in.py /shared/data.tar --to /local/scratch && srun ... train.py

## A good answer

`staged`, `waited for` or `was there` on each node. If the rate is far below what the file system
gives to one node, all nodes together are at its limit.

Exit status: 0 it is there (`--remove`: it is gone); 1 it does not fit, the archive is damaged or
refused, or something else has its name; 130 a signal; 2 usage error.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import lzma
import os
import re
import shutil
import signal
import sys
import tarfile
import tempfile
import time
import zlib
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, size, start
from kit.files import find_file_system, is_shared, read_text
from kit.report import Progress, Report, Row, format_bytes, format_seconds, format_table

__version__ = "0.2.0"
METHOD = 2  # 2: files are not read back after they were written

PROFILES = {"demo": ["--demo"], "full": ["--demo"]}
ENDINGS = r"\.(tar(\.(gz|bz2|xz|zst))?|tgz|tbz2|txz|tzst)$"
DAMAGE = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError)
CHUNK = 4 << 20
BLOCK = 4096
CHECK_BYTES = 64 << 20
"""Room is looked up again after so much was written."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
LOCAL_RANKS = ("SLURM_LOCALID", "LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "PALS_LOCAL_RANKID")


class Refused(Exception):
    """The dataset cannot be staged: why, in a sentence; exit status 1."""


class Source:
    """The archive as bytes, hashed and counted while they are read."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("rb", buffering=CHUNK)
        self.progress = Progress(path.stat().st_size // 10**6, "MB")
        self.digest, self.count, self.began = hashlib.sha256(), 0, time.monotonic()

    def read(self, length: int) -> bytes:
        """The next bytes."""
        block = self.file.read(length)
        self.digest.update(block)
        if self.count % CHUNK + len(block) >= CHUNK:
            rate = self.count / (time.monotonic() - self.began) / 1e6
            self.progress.show(self.count // 10**6, f"{rate:.0f} MB/s")
        self.count += len(block)
        return block


def find_names(options: Namespace) -> tuple[Path, Path, Path]:
    """The target on this node, and hidden beside it what is partly written, and the marker that
    says what the target is."""
    name = options.source.name
    if not options.keep_archive:
        name = re.sub(ENDINGS, "", name) or name
    return options.to / name, options.to / f".{name}.partial", options.to / f".{name}.staged.json"


def stage(options: Namespace, sha256: str | None) -> Row:
    """Copy or unpack, verify, and rename, under the lock; the marker of the dataset. Raises
    Refused; then nothing of it is left."""
    target, partial, marker = find_names(options)
    source = describe(options.source)
    raw = Source(options.source)
    try:
        remove(partial)
        check_room(options, source["bytes"], options.source.name)
        if options.keep_archive:
            with partial.open("wb") as output:
                shutil.copyfileobj(raw, output, CHUNK)
            files, total = 1, source["bytes"]
        else:
            files, total = unpack(raw, partial, options)
        while raw.read(CHUNK):  # what follows the last file belongs to the checksum
            pass
        found = raw.digest.hexdigest()
        if sha256 and found != sha256:
            raise Refused(f"the SHA-256 of {options.source.name} is {found[:16]}... instead of "
                          f"{sha256[:16]}...: another archive, or a damaged one")  # fmt: skip
        facts = {"source": source, "sha256": found, "files": files, "bytes": total,
                 "boot": read_text(BOOT_ID)}  # fmt: skip
        remove(target)
        marker.write_text(json.dumps(facts), encoding="utf-8")
        partial.rename(target)
    except (*DAMAGE, OSError) as error:
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        reason = "does not fit" if full else "is refused or damaged"
        raise Refused(f"{options.source.name} {reason}: {error}") from error
    finally:
        raw.progress.close()
        raw.file.close()
        remove(partial)
    return facts


def unpack(raw: Source, folder: Path, options: Namespace) -> tuple[int, int]:
    """Unpack an archive into a new folder; the number and bytes of its files."""
    files = total = room = 0
    folder.mkdir()
    with tarfile.open(fileobj=raw, mode="r|*") as archive:
        archive.extraction_filter = lambda member, _: member  # check_member has looked at it
        for member in archive:
            if member.size >= room:
                room = check_room(options, member.size, member.name)
            archive.extract(check_member(member, folder), folder)
            room -= member.size + BLOCK
            if member.isreg() or member.islnk():
                files, total = files + 1, total + member.size
        # The reader has passed an empty block at the end, unless the archive is cut off.
        if archive.fileobj.tell() <= archive.offset:
            raise Refused(f"{options.source.name} has no end mark: it is cut off")
    return files, total


def check_member(member: tarfile.TarInfo, folder: Path) -> tarfile.TarInfo:
    """What tarfile's filter "data" does, which Python has from 3.11.4: a file, folder or link below
    the folder, of this user, and writable by nobody else. Raises tarfile.TarError."""
    inside = folder.resolve()
    path = inside / member.name
    target = path.parent / member.linkname if member.issym() else inside / member.linkname
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        raise tarfile.TarError(f"{member.name} is neither a file nor a folder nor a link")
    if not all(each.resolve().is_relative_to(inside) for each in (path, target)):
        raise tarfile.TarError(f"{member.name} leads out of the archive's folder")
    member.mode = member.mode & 0o755 | (0o700 if member.isdir() else 0o600)
    member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
    return member


def describe(archive: Path) -> Row:
    """What distinguishes an archive from another one, without reading it."""
    status = archive.stat()
    return {"name": archive.name, "bytes": status.st_size, "changed": status.st_mtime_ns}


def check_room(options: Namespace, needed: int, name: str) -> int:
    """How much may be written before the next check. Raises Refused where a file of this size does
    not fit any more."""
    status = os.statvfs(options.to)
    free = status.f_bavail * status.f_frsize
    if options.is_memory:
        free = min(free, read_free_memory())
    if needed > free - options.leave:
        raise Refused(f"{name} does not fit: it takes {format_bytes(needed)} in {options.to}, and "
                      f"{format_bytes(max(0, free - options.leave))} are free")  # fmt: skip
    return min(CHECK_BYTES, free - options.leave)


def read_free_memory(root: Path = Path("/")) -> int:
    """Bytes that the machine and the cgroups (version 2) of this process still give."""
    found = re.search(r"MemAvailable:\s+(\d+) kB", read_text(root / "proc/meminfo"))
    rooms = [int(found[1]) * 1024 if found else sys.maxsize]
    group = re.search(r"^0::/(.*)$", read_text(root / "proc/self/cgroup"), re.MULTILINE)
    folder = root / "sys/fs/cgroup" / (group[1] if group else "")
    for each in (folder, *folder.parents):
        limit, used = (read_text(each / name) for name in ("memory.max", "memory.current"))
        if limit.isdigit() and used.isdigit():
            rooms.append(max(0, int(limit) - int(used)))
    return min(rooms)


@contextlib.contextmanager
def lock(folder: Path) -> Iterator[float]:
    """Hold the lock of a folder; the seconds that another process held it."""
    number, began, waited = os.open(folder, os.O_RDONLY), time.monotonic(), 0.0
    try:
        try:
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(number, fcntl.LOCK_EX)
            waited = time.monotonic() - began
        yield waited
    finally:
        os.close(number)


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it, where there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def read_sha256(source: Path) -> str | None:
    """The checksum in SOURCE.sha256, as sha256sum writes it; None without such a file."""
    words = read_text(source.with_name(f"{source.name}.sha256")).split()
    return words[0].lower() if words else None


def read_marker(target: Path, marker: Path) -> Row:
    """What is staged under this name, empty for nothing. Raises Refused where this tool did not put
    it there."""
    if not os.path.lexists(target):
        return {}
    try:
        facts: Row = json.loads(marker.read_text(encoding="utf-8"))
        return facts
    except (OSError, ValueError) as error:
        raise Refused(f"{target} was not put there by this tool: remove it") from error


def run(options: Namespace) -> tuple[list[Row], list[str]]:
    """Stage or remove the dataset; its row of results, and notes."""
    target, partial, marker = find_names(options)
    options.is_memory = find_file_system(options.to) in ("tmpfs", "ramfs")
    notes: list[str] = []
    began, seconds = time.monotonic(), None
    with lock(options.to) as waited:
        facts = read_marker(target, marker)
        if options.remove:
            verdict = "removed" if facts else "was not there"
            for path in (target, partial, marker):
                remove(path)
            facts = {}
        else:
            sha256 = read_sha256(options.source)
            if not sha256:
                notes = [f"the archive was not verified: there is no {options.source.name}.sha256"]
            wanted = {"source": describe(options.source), "sha256": sha256 or facts.get("sha256")}
            is_here = facts.get("boot") == read_text(BOOT_ID)
            if is_here and facts | wanted != facts:
                raise Refused(f"{target} is of another archive, or of this one before it "
                              "changed: --remove it first")  # fmt: skip
            verdict = "waited for" if waited else "was there"
            if not is_here:
                facts = stage(options, sha256)
                verdict, seconds = "staged", time.monotonic() - began - waited
    archive = facts.get("source", {}).get("bytes")
    row = {"dataset": target.name, "verdict": verdict, "archive_bytes": archive}
    row |= {name: facts.get(name) for name in ("files", "bytes", "sha256")}
    rate = archive / seconds if seconds else None
    return [row | {"seconds": seconds, "rate": rate, "seconds_waited": waited}], notes


def demonstrate() -> tuple[list[Row], list[str]]:
    """Stage a small archive twice and compare its files; the rows."""
    with tempfile.TemporaryDirectory(prefix="stage_in_") as folder:
        base = Path(folder)
        for number in range(60):
            (base / f"{number}.bin").write_bytes(bytes([number]) * 1000)
        with tarfile.open(base / "demo.tar", "w") as archive:
            for path in base.glob("*.bin"):
                archive.add(path, path.name)
        digest = hashlib.sha256((base / "demo.tar").read_bytes()).hexdigest()
        (base / "demo.tar.sha256").write_text(digest)
        options = build_parser().parse_args([str(base / "demo.tar"), "--to", folder])
        rows = run(options)[0] + run(options)[0]
        staged = [base / "demo" / f"{number}.bin" for number in range(60)]
        if any(path.read_bytes() != bytes([n]) * 1000 for n, path in enumerate(staged)):
            raise Refused("a file of the demo is wrong")
    return rows, []


def print_results(rows: list[Row]) -> None:
    cells = []
    for row in rows:
        size_text = None if row["bytes"] is None else format_bytes(row["bytes"])
        rate = row["rate"] and f"{row['rate'] / 1e6:.3g}"
        times = [row[n] and format_seconds(row[n]) for n in ("seconds", "seconds_waited")]
        cells.append((row["dataset"], row["files"], size_text, rate, *times, row["verdict"]))
    headings = ("dataset", "files", "size", "MB/s", "time", "waited", "verdict")
    print(format_table(headings, cells))


def build_parser() -> Parser:
    parser = Parser(__doc__, "stage_in", __version__, METHOD, PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    add("source", nargs="?", type=Path, metavar="SOURCE", help="archive on a shared file system")
    add("--to", type=Path, metavar="FOLDER", help="folder on this node's own disk or memory")
    add("--keep-archive", action="store_true", help="copy the archive without unpacking it")
    add("--leave", type=size, default=0, metavar="SIZE", help="keep this much free: 64GiB")
    add("--remove", action="store_true", help="remove the staged dataset")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    report = Report("stage_in", __version__, METHOD, options.json, units={"rate": "B/s"})
    if not options.demo:
        if options.source is None or options.to is None:
            raise UsageError("name the archive, and with --to a folder on this node's own disk")
        if not options.to.is_dir():
            raise UsageError(f"--to: there is no folder {options.to}")
        if is_shared(options.to):
            kind = find_file_system(options.to)
            raise UsageError(f"--to: {options.to} is on {kind}, which nodes share")
        if not options.remove and not options.source.is_file():
            raise UsageError(f"there is no file {options.source}")
    for number in (signal.SIGTERM, signal.SIGUSR1):  # removes what is partly written, as Ctrl-C
        signal.signal(number, signal.default_int_handler)
    try:
        rows, notes = demonstrate() if options.demo else run(options)
    except Refused as error:
        print(f"problem: {error}", file=sys.stderr)
        report.save()
        return 1
    # A rank that only waited prints nothing, unless it is the first of its node.
    is_first = all(os.environ.get(name, "0") == "0" for name in LOCAL_RANKS)
    if is_first or rows[0]["verdict"] in ("staged", "removed"):
        print_results(rows)
        for note in notes:
            report.note(note)
        report.rows, report.complete = rows, True
        report.save()
    return 0


if __name__ == "__main__":
    start(main)
