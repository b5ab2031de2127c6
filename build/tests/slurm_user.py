"""A user of a Slurm of tests, in a folder of the test: submits jobs and waits for their end."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from slurm_cluster import Cluster


class Ended(NamedTuple):
    """A job that has ended, and what its files say."""

    number: str
    state: str
    status: str
    log: str


class Login:
    """A user on the login node."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        (folder / "tmp").mkdir()
        programs = [folder / "bin", Path(sys.executable).parent, os.environ["PATH"], "/usr/sbin"]
        self.environment = {
            "PATH": ":".join(map(str, programs)),
            "HOME": str(folder),
            "USER": "root",
            "TMPDIR": str(folder / "tmp"),
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "ACCELERATE_USE_CPU": "true",
        }

    def ask(self, command: Sequence[str | Path], timeout: float = 180) -> str:
        """What a command printed, which has to succeed."""
        done = self.cluster.run(command, folder=self.folder, env=self.environment, timeout=timeout)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def run(self, code: str, *before: str, timeout: float = 180) -> str:
        """Run a block of bash, every command of which has to succeed, after these words."""
        return self.ask([*before, "bash", "-eo", "pipefail", "-c", code], timeout)

    def submit(self, *words: str | Path) -> str:
        """Submit a batch file; the number of the job."""
        return self.ask(["sbatch", "--parsable", "--output=%j.log", *words]).strip()

    def read(self, number: str) -> str:
        """The log of a job so far."""
        log = self.folder / f"{number}.log"
        return log.read_text() if log.exists() else ""

    def wait_for(self, number: str, text: str, count: int = 1, seconds: float = 120) -> None:
        """Wait until the log of a job has a text so many times."""
        self.cluster.wait_for(
            lambda: self.read(number).count(text) >= count, f"no {text!r} in {number}", seconds
        )

    def wait(self, number: str) -> Ended:
        """Wait for the end of a job."""
        facts: dict[str, str] = {}

        def has_ended() -> bool:
            text = self.cluster.ask("scontrol", "show", "job", number)
            facts.update(part.split("=", 1) for part in text.split() if "=" in part)
            return facts["JobState"] not in ("PENDING", "RUNNING", "COMPLETING")

        self.cluster.wait_for(has_ended, f"job {number} does not end", 240)
        return Ended(number, facts["JobState"], facts["ExitCode"], self.read(number))


User = TypeVar("User", bound=Login)


@contextmanager
def log_in(cluster: Cluster, folder: Path, kind: type[User] = Login) -> Iterator[User]:
    """A user whose jobs are cancelled at the end."""
    yield kind(cluster, folder)
    for job in cluster.queue():
        cluster.ask("scancel", job.number)
    cluster.wait_for(lambda: not cluster.queue(), "a job stays in the queue")
