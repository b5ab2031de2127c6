"""Ranks on this machine, over gloo."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from kit.ranks import Place, read_place

SCRIPTS = Path(__file__).resolve().parents[2]

PROGRAM = """
import os, sys
sys.path.insert(0, {scripts!r})
from kit.cli import start
from kit.device import import_torch
from kit.ranks import (end_together, exit_status, gather, join_ranks, launch_ranks, meet,
                       read_place)
from kit.report import Report
from kit.stop import Stop

def main():
    place = read_place()
    if place is None:
        return launch_ranks(3)
    if sys.argv[1] == "crash" and place.rank == 1:
        os._exit(7)
    job = join_ranks(import_torch(), place, "cpu", 60)
    values = gather(job, {{"rank": place.rank, "text": "x" * place.rank}})
    assert [one["rank"] for one in values] == [0, 1, 2], values
    assert [len(one["text"]) for one in values] == [0, 1, 2]
    stop = Stop()
    meet(job, stop)
    if sys.argv[1] == "signal" and place.rank == 1:
        stop.reason, stop.by_signal = "stopped by SIGTERM", True
    report = Report("x", "0.1.0", 1)
    with end_together(job, stop, report):
        if sys.argv[1] == "fail" and place.rank == 2:
            raise RuntimeError("no link")
        meet(job, stop)
        print("went on", flush=True)
    return exit_status(report, stop)

start(main)
"""


def test_places_of_launchers() -> None:
    """torchrun, Slurm with a rendezvous address, and none."""
    torchrun = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "a"}
    assert read_place(torchrun) == Place(3, 8, 1)
    slurm = {"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}
    assert read_place(slurm) is None
    assert read_place({**slurm, "MASTER_ADDR": "a"}) == Place(2, 4, 0)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("what", "status", "words"),
    [
        ("crash", 1, "rank 1 ended with status 7"),
        ("signal", 1, "note: another rank was stopped, after 0 rows"),
        ("fail", 1, "rank 2 failed: no link"),
    ],
)
def test_ranks_end_together(tmp_path: Path, what: str, status: int, words: str) -> None:
    """One rank that has to stop stops all, at the same place; the rank that fails is named, and
    the others do not wait for it for ever; a signal is an early end on every rank."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(scripts=str(SCRIPTS)))
    command = [sys.executable, str(program), what]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == status, done.stderr
    assert words in done.stdout + done.stderr
    assert "went on" not in done.stdout
