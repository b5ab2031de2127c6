"""hostfile: the hosts that Slurm means, with the slots that it gave. Node lists are tested in
kit/test_slurm.py."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from slurm_cluster import Cluster

TOOL = "orchestration/hostfile.py"
PATH = Path(__file__).resolve().parent.parent / TOOL
JOB = {"SLURM_JOB_NODELIST": "n[1-4]", "SLURM_TASKS_PER_NODE": "8(x3),2"}
CLUSTER = {"gpus": 2}
"""Two nodes with two GPUs each."""


@pytest.mark.parametrize(
    ("variables", "arguments", "lines"),
    [
        ({}, ("--exclude", "n3", "--first", "2"), ["n1 slots=8", "n2 slots=8"]),
        ({}, ("--form", "mpich", "--exclude", "n[1-3]"), ["n4:2"]),
        ({"SLURM_GPUS_PER_NODE": "a100:4,v100:2"}, ("--first", "1"), ["n1 slots=6"]),
        ({"SLURM_GPUS_ON_NODE": "4"}, ("--form", "openmpi", "--first", "1"), ["n1 slots=4"]),
        ({"SLURM_JOB_NODELIST": "x"}, ("--slots", "1", "--form", "plain"), ["x"]),
    ],
)  # fmt: skip
def test_hostfiles(
    call_tool: Callable[..., Any], variables: dict[str, str], arguments: tuple[str, ...],
    lines: list[str], tmp_path: Path,
) -> None:  # fmt: skip
    """GPUs where the job asked for some, else tasks; the file and the output are the same."""
    path = tmp_path / "hosts"
    call_tool(TOOL, *arguments, "--output", str(path), environ=JOB | variables)
    done = call_tool(TOOL, *arguments, "--output", "-", environ=JOB | variables)
    assert path.read_text().splitlines() == done.stdout.splitlines() == lines


@pytest.mark.parametrize(
    ("variables", "arguments", "message"),
    [
        ({}, (), "SLURM_JOB_NODELIST is not set: run this in a job, or give --nodelist"),
        ({"SLURM_JOB_NODELIST": "n1"}, (), "nothing says how many slots: give --slots N"),
        (JOB | {"SLURM_JOB_NODELIST": "n1"}, (), "TASKS_PER_NODE has 4 numbers for 1 hosts"),
        (JOB, ("--exclude", "n7"), "n7 is not one of the hosts"),
        (JOB, ("--first", "5"), "only 4 hosts with slots are left"),
        (JOB, ("--slots", "none"), "'none' is not an integer of at least 1"),
        (JOB, ("--output", "/no/where"), "there is no folder /no"),
    ],
)
def test_wrong_use(
    run_tool: Callable[..., Any], variables: dict[str, str], arguments: tuple[str, ...],
    message: str,
) -> None:  # fmt: skip
    """Status 2 and one line on what to do."""
    done = run_tool(TOOL, *arguments, environ=variables)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


def test_a_real_job(cluster: Cluster, tmp_path: Path) -> None:
    """The hosts of a batch job, with their tasks or GPUs."""
    script = tmp_path / "job.sh"
    script.write_text(f"#!/bin/sh\n{sys.executable} {PATH} --output {tmp_path}/hosts-$1\n")
    command = ["sbatch", "--wait", "--nodes=2", f"--output={tmp_path}/log"]
    for name, options, expected in (
        ("tasks", ["--ntasks=3", "--distribution=block"], "node1 slots=2\nnode2 slots=1\n"),
        ("gpus", ["--gpus-per-node=2"], "node1 slots=2\nnode2 slots=2\n"),
    ):
        cluster.ask(*command, *options, str(script), name)
        assert (tmp_path / f"hosts-{name}").read_text() == expected
