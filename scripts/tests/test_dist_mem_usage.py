"""dist_mem_usage: growth by hand, and real ranks that come, stop, and do not come."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOL = Path(__file__).resolve().parents[1] / "training/dist_mem_usage.py"
MIB = 1024**2
STEPS = ["group", "barrier", "barrier again", "all_reduce", "destroy"]


@pytest.fixture(scope="module")
def usage(load_tool: Any) -> Any:
    return load_tool("training/dist_mem_usage.py")


def make_rows(usage: Any, rank: int, *sizes: int) -> list[dict[str, Any]]:
    """The rows of a rank that has so many MiB on its device after each step."""
    steps = [("start", 0), ("device", 0), ("store", 0), *((step, 1) for step in STEPS)]
    return [
        dict.fromkeys(usage.MEASURES)
        | {"rank": rank, "step": step, "round": number, "answer_ok": None}
        | {"process_device_bytes": size * MIB}
        for (step, number), size in zip(steps, sizes, strict=True)
    ]


def test_growth_by_hand(usage: Any, capsys: Any) -> None:
    """A context of 550 MiB, 1450 at the first barrier, 750 given back: 700 stays. Rank 1 pays
    100 MiB more at the barrier."""
    first = make_rows(usage, 0, 0, 550, 550, 550, 2000, 2000, 2000, 1250)
    second = make_rows(usage, 1, 0, 550, 550, 550, 2100, 2100, 2100, 1350)
    report = usage.Report("dist_mem_usage", "0", 1, usage.UNITS)
    report.rows = first + second
    usage.print_results(report)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "| step | round | NVML process |"
    assert "| device | 0 | 550.0 MiB |" in lines
    assert "| barrier | 1 | 1,450.0 to 1,550.0 MiB |" in lines
    assert "| destroy | 1 | -750.0 MiB |" in lines
    assert report.notes == [
        (
            "round 1 (NVML process): group and collectives take 1,450.0 to 1,550.0 MiB per rank; "
            "700.0 to 800.0 MiB stays after destroy_process_group"
        )
    ]


@pytest.mark.torch
def test_a_rank_that_does_not_come_is_named(unique_port: int) -> None:
    """Rank 1 of 2 is missing: rank 0 says so after --timeout."""
    place = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "OMP_NUM_THREADS": "1"}
    place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unique_port)}
    command = [sys.executable, TOOL, "--device", "cpu", "--payload", "1MiB", "--timeout", "2s"]
    environ = {**os.environ, **place}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "rank 0 failed: ranks [1] did not come after store, round 0" in done.stderr
