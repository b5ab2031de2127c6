"""A user of a Slurm of tests, in a folder of the test: runs commands, submits jobs, waits for them.

As a pytest plugin this module has the fixture `login`, for test files that have one `cluster`.
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import bindery
import pytest
from chapter_blocks import ROOT
from slurm_cluster import Cluster


class Ended(NamedTuple):
    """A job that has ended, and what its files say."""

    number: str
    state: str
    status: str
    log: str


class Login:
    """A user on the login node. The folder has the book's tools in scripts/, and bindery is
    installed."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self.cluster, self.folder = cluster, folder
        for name in ("tmp", "bin"):
            (folder / name).mkdir()
        for name in ("scripts", "chapters.yaml"):
            (folder / name).symlink_to(ROOT / name)
        package = Path(bindery.__file__).parents[1]
        self.write(
            "bin/bindery", f'#!/bin/bash\nPYTHONPATH={package} exec python -m bindery "$@"\n'
        )
        (folder / "bin/bindery").chmod(0o755)
        programs = [folder / "bin", Path(sys.executable).parent, os.environ["PATH"], "/usr/sbin"]
        self.environment = {
            "PATH": ":".join(map(str, programs)),
            "HOME": str(folder),
            "USER": "root",
            "TMPDIR": str(folder / "tmp"),
            "OMP_NUM_THREADS": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONUNBUFFERED": "1",
            "ACCELERATE_USE_CPU": "true",
        }

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def copy(self, script: Path, changes: Mapping[str, str]) -> Path:
        """A copy of a batch script in which each of these patterns is replaced where it is."""
        text = script.read_text()
        for pattern, new in changes.items():
            text, count = re.subn(pattern, new, text, flags=re.MULTILINE)
            assert count == 1, pattern
        return self.write(script.name, text)

    def ask(self, *command: str | Path) -> str:
        """What a command printed, which has to succeed."""
        done = self.cluster.run(command, folder=self.folder, env=self.environment, timeout=400)
        print(done.stdout + done.stderr)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def run(self, code: str, *before: str) -> str:
        """Run a block of bash, every command of which has to succeed, after these words."""
        return self.ask(*before, "bash", "-eo", "pipefail", "-c", code)

    def allocate(self, code: str, *options: str) -> str:
        """Run a block within an allocation of two nodes."""
        return self.run(code, "salloc", "--nodes=2", "--exclusive", *options)

    def submit(self, *words: str | Path) -> str:
        """Submit a batch file; the number of the job."""
        return self.ask("sbatch", "--parsable", "--output=%j.log", *words).strip()

    def batch(self, code: str, *options: str) -> str:
        """Submit a block as a batch file."""
        self.write("train.slurm", code if code.startswith("#!") else f"#!/bin/bash\n{code}\n")
        return self.submit(*options, "train.slurm")

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

    def wait_for_success(self, number: str) -> str:
        """The log of a job, which has to end well."""
        ended = self.wait(number)
        assert (ended.state, ended.status) == ("COMPLETED", "0:0"), ended.log
        return ended.log


@pytest.fixture
def login(cluster: Cluster, tmp_path: Path) -> Iterator[Login]:
    """A user whose jobs are cancelled at the end."""
    yield Login(cluster, tmp_path)
    cluster.ask("scancel", "--me")
    cluster.wait_for(lambda: not cluster.queue(), "a job stays in the queue")
