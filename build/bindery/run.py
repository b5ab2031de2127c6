"""The only place that starts a process."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Completed:
    """A process that has ended. `code` is negative where a signal ended it."""

    command: tuple[str, ...]
    stdout: str
    stderr: str
    seconds: float
    code: int


class CommandMissingError(Exception):
    """The program is not on this machine."""


class CommandTimeoutError(Exception):
    """The process was ended because its time was up."""


def run_command(
    command: Sequence[str],
    *,
    folder: Path,
    timeout: float,
    environment: Mapping[str, str] | None = None,
    shows_errors: bool = False,
) -> Completed:
    """Run a program to its end, in a process group of its own. With `shows_errors` its standard
    error goes to ours, line by line, and is not kept.

    Raises CommandMissingError where there is no such program, and CommandTimeoutError after
    `timeout` seconds.
    """
    started = time.monotonic()
    try:
        process = subprocess.run(
            list(command),
            cwd=folder,
            env=dict(environment) if environment is not None else None,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=None if shows_errors else subprocess.PIPE,
            text=True,
            errors="replace",
            timeout=timeout,
            start_new_session=True,
            check=False,
        )
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CommandMissingError(str(error)) from None
    except subprocess.TimeoutExpired:
        raise CommandTimeoutError(f"{command[0]} ran longer than {timeout:g} s") from None
    return Completed(
        tuple(command),
        process.stdout,
        process.stderr or "",
        time.monotonic() - started,
        process.returncode,
    )
