"""A build that is killed leaves the former ebooks as they were."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pikepdf
import pytest

KILLS = 5
TEXT = "\n".join(
    f"## Section {n}\n\n" + "A sentence with [a link](#section-1) in it. " * 40 for n in range(25)
)


@pytest.fixture
def book(tmp_path: Path) -> Path:
    root = tmp_path / "book"
    root.mkdir()
    (root / "chapters.yaml").write_text(
        "title: T\nparts:\n  - chapters: [README.md]\noutputs:\n  name: t\n"
    )
    (root / "README.md").write_text(f"# T\n\n{TEXT}\n")
    return root


def _start(root: Path, verb: str, epoch: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "bindery", verb, "--root", str(root), "--quiet"]
    return subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"SOURCE_DATE_EPOCH": str(epoch)},
        start_new_session=True,
    )


def _is_whole(path: Path) -> bool:
    if path.suffix == ".epub":
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    with pikepdf.open(path) as file:
        return len(file.pages) > 10


@pytest.mark.nightly
@pytest.mark.parametrize("verb", ["pdf", "epub"])
def test_a_killed_build_leaves_the_former_ebook(book: Path, verb: str) -> None:
    """Killed at random moments, a build leaves the old file or the new one, never a broken one."""
    path = book / "dist" / f"t.{verb}"
    started = time.monotonic()
    assert _start(book, verb, 1_700_000_000).wait(timeout=120) == 0
    whole = time.monotonic() - started
    former = hashlib.sha256(path.read_bytes()).hexdigest()
    moments = random.Random(verb)

    killed, number = 0, 0
    while killed < KILLS:
        number += 1
        assert number <= 4 * KILLS  # a busy machine may have been slow at first and quick later
        epoch = 1_700_000_000 + 86_400 * number
        process = _start(book, verb, epoch)
        time.sleep(whole * moments.uniform(0.05, 0.98))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            killed += 1
        else:
            whole *= 0.8  # the first run was slower than this one
        process.wait(timeout=120)
        now = hashlib.sha256(path.read_bytes()).hexdigest()
        assert _is_whole(path)
        if now != former:  # it had come to its end: then this is what a whole run makes
            assert _start(book, verb, epoch).wait(timeout=120) == 0
            assert hashlib.sha256(path.read_bytes()).hexdigest() == now
            former = now

    assert _start(book, verb, 1_800_000_000).wait(timeout=120) == 0
    assert hashlib.sha256(path.read_bytes()).hexdigest() != former
