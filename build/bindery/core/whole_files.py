"""Write output files under temporary names and move them into place when complete.

If a build dies, the previous output is still there.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

_EXCHANGE = 2  # RENAME_EXCHANGE of renameat2(2)
_AT_FDCWD = -100
_PREFIX = ".bindery-making-"


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file atomically."""
    with name_target(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=_PREFIX, dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            _set_permissions(Path(name), path)
            os.replace(name, path)  # noqa: PTH105 - it pairs with mkstemp
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name)  # noqa: PTH108
            raise


@contextlib.contextmanager
def name_target(path: Path) -> Iterator[None]:
    """Make disk errors name the output: failed writes name no file, and others its temporary
    name."""
    try:
        yield
    except OSError as error:
        names = [str(name) for name in (error.filename, error.filename2) if name is not None]
        if not names or any(_PREFIX in name for name in names):
            error.filename, error.filename2 = str(path), None
        raise


def _set_permissions(path: Path, former: Path) -> None:
    """Copy the permissions of the replaced file, or apply the umask: mkstemp files are private."""
    if former.exists():
        shutil.copymode(former, path)
        return
    mask = os.umask(0)
    os.umask(mask)
    path.chmod(0o666 & ~mask)


@contextlib.contextmanager
def make_folder(path: Path) -> Iterator[Path]:
    """A folder to fill; it replaces `path` when the block ends without an error."""
    with make_work_folder(path) as work:
        yield work
        work.chmod(0o755)
        if path.exists():
            _exchange(work, path)  # the old content is deleted with the work folder
        else:
            work.rename(path)


def write_again(path: Path, data: bytes, former: Path) -> None:
    """Write a file of a folder that `make_folder` makes. If the former file has the same bytes, the
    new one is a hard link to it, so the disk has nothing to write and nothing to free."""
    if not path.parent.is_dir():
        path.parent.mkdir(parents=True)
    with contextlib.suppress(OSError):  # there is no former file, or no room for links
        if former.read_bytes() == data and not former.is_symlink():
            path.hardlink_to(former)
            return
    path.write_bytes(data)


@contextlib.contextmanager
def make_work_folder(path: Path) -> Iterator[Path]:
    """A temporary folder next to an output, deleted when the block ends."""
    with name_target(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        sweep_leftovers(path.parent)
        work = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=path.parent))
        try:
            yield work
        finally:
            _remove(work)


def _remove(work: Path) -> None:
    """Delete a folder, the deepest folders first and many at a time: with some disks, each deletion
    waits until the disk has freed the space."""
    levels: dict[int, list[str]] = {}
    for folder, _, _ in os.walk(work):
        levels.setdefault(folder.count(os.sep), []).append(folder)
    with ThreadPoolExecutor(16) as pool:
        for level in sorted(levels, reverse=True):
            list(pool.map(partial(shutil.rmtree, ignore_errors=True), levels[level]))


def sweep_leftovers(folder: Path, *, older_than: float = 3600.0) -> None:
    """Remove leftovers of killed builds; newer ones may belong to a running build."""
    now = time.time()
    for path in folder.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if now - path.stat().st_mtime > older_than:
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink()


def _exchange(new: Path, old: Path) -> None:
    """Swap two folders, atomically if the system supports it."""
    if sys.platform == "linux":
        library = ctypes.CDLL(None, use_errno=True)
        if hasattr(library, "renameat2"):
            names = os.fsencode(new), os.fsencode(old)
            if library.renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _EXCHANGE) == 0:
                return
    aside = old.with_name(f"{_PREFIX}former-{old.name}")
    shutil.rmtree(aside, ignore_errors=True)
    old.rename(aside)
    new.rename(old)
    aside.rename(new)
