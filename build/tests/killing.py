"""Kills a process at one named step after the other: before it opens a file to write, renames,
removes or makes something, or starts a program. For scripts that tests start, which may fork."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

STEPS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "subprocess.Popen"}
"""Events of sys.audit that are steps, apart from the files that are opened to write."""


def is_killed(
    act: Callable[[], object], step: int, mark: str, number: int = signal.SIGKILL
) -> bool:
    """Run this in a process that gets a signal at its n-th step, counted from 1; False where it
    came to its end before. Files that it opens to write count where their names have the mark."""
    child = os.fork()
    if child == 0:
        try:  # whatever happens, the child must not go on as a second pytest
            sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - until the end
            signal_at(step, mark, number)
            with contextlib.suppress(SystemExit):
                act()
        finally:
            os._exit(0)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def signal_at(step: int, mark: str, number: int = signal.SIGKILL) -> None:
    """Send this process a signal at its n-th step."""
    count = 0

    def see(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        flags = arguments[2] if event == "open" else 0
        writes = isinstance(flags, int) and flags & 3 and mark in str(arguments[0])
        if event in STEPS or writes:
            count += 1
            if count == step:
                os.kill(os.getpid(), number)

    sys.addaudithook(see)


def read_tree(root: Path) -> dict[str, bytes | None]:
    """Every file of a folder but those of git, and its folders as None."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes() if path.is_file() else None
        for path in root.rglob("*")
        if ".git" not in path.relative_to(root).parts
    }
