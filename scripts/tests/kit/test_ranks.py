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
from kit.ranks import (end_together, exit_status, gather, join_ranks, launch_ranks, leave_ranks,
                       meet, read_place)
from kit.report import Report
from kit.stop import Stop, Stopped

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
    if sys.argv[1] == "stop" and place.rank == 1:
        stop.reason = "enough"
    if sys.argv[1] == "signal" and place.rank == 1:
        stop.reason, stop.by_signal = "stopped by SIGTERM", True
    if sys.argv[1] != "stop":
        report = Report("x", "0.1.0", 1, {{}})
        with end_together(job, stop, report):
            if sys.argv[1] == "fail" and place.rank == 2:
                raise RuntimeError("no link")
            meet(job, stop)
        return exit_status(report, stop)
    try:
        meet(job, stop)
        print("went on", flush=True)
    except Stopped as stopped:
        # One write per line: print() writes the end of the line apart, and ranks share a pipe.
        sys.stdout.write(f"rank {{place.rank}}: {{stopped}}\\n")
    leave_ranks(job)

start(main)
"""


def test_places_of_launchers() -> None:
    """torchrun, Slurm with a rendezvous address, and none."""
    torchrun = {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "MASTER_ADDR": "a"}
    assert read_place(torchrun) == Place(3, 8, 1)
    slurm = {"SLURM_PROCID": "2", "SLURM_NTASKS": "4", "SLURM_LOCALID": "0"}
    assert read_place(slurm) is None
    assert read_place({**slurm, "MASTER_ADDR": "a"}) == Place(2, 4, 0)


@pytest.fixture
def run(tmp_path: Path):
    """Run the program above with one argument."""

    def start(what: str) -> subprocess.CompletedProcess[str]:
        program = tmp_path / "program.py"
        program.write_text(PROGRAM.format(scripts=str(SCRIPTS)))
        command = [sys.executable, str(program), what]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    return start


@pytest.mark.torch
def test_ranks_gather_and_stop_together(run) -> None:
    """One rank that has to stop stops all, at the same place."""
    done = run("stop")
    assert done.returncode == 0, done.stderr
    lines = ["rank 0: another rank was stopped", "rank 1: enough",
             "rank 2: another rank was stopped"]  # fmt: skip
    assert sorted(done.stdout.splitlines()) == lines


@pytest.mark.torch
def test_the_rank_that_fails_is_named(run) -> None:
    """The others are ended, and the status is 1."""
    done = run("crash")
    assert done.returncode == 1
    assert "rank 1 ended with status 7" in done.stderr


@pytest.mark.torch
def test_a_signal_is_an_early_end_on_every_rank(run) -> None:
    """All ranks end with status 1, and rank 0 says why."""
    done = run("signal")
    assert done.returncode == 1
    assert "note: another rank was stopped, after 0 rows" in done.stderr


@pytest.mark.torch
def test_an_error_of_torch_names_its_rank(run) -> None:
    """The other ranks do not wait for it for ever."""
    done = run("fail")
    assert done.returncode == 1
    assert "rank 2 failed: no link" in done.stderr
