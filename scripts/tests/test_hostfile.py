"""hostfile: the hosts that Slurm means, with the slots that it gave. Node lists are tested in
kit/test_slurm.py, a real job with the blocks of the book."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TOOL = "orchestration/hostfile.py"
JOB = {"SLURM_JOB_NODELIST": "n[1-4]", "SLURM_TASKS_PER_NODE": "8(x3),2"}
NODE = {"SLURM_JOB_NODELIST": "n1"}


@pytest.mark.parametrize(
    ("variables", "arguments", "lines"),
    [
        ({}, (), ["n1 slots=8", "n2 slots=8", "n3 slots=8", "n4 slots=2"]),
        ({}, ("--form", "mpich"), ["n1:8", "n2:8", "n3:8", "n4:2"]),
        (NODE | {"SLURM_GPUS_PER_NODE": "a100:4,v100:2"}, (), ["n1 slots=6"]),
        (NODE | {"SLURM_GPUS_ON_NODE": "4"}, ("--form", "openmpi"), ["n1 slots=4"]),
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
        (NODE, (), "nothing says how many slots: give --slots N"),
        (JOB | NODE, (), "TASKS_PER_NODE has 4 numbers for 1 hosts"),
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
