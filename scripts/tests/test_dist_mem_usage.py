"""dist_mem_usage: growth by hand, and real ranks that come, stop, and do not come."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from testing_utils import execute_subprocess_async

TOOL = Path(__file__).resolve().parents[1] / "training/dist_mem_usage.py"
MIB = 1024**2
STEPS = ["group", "barrier", "barrier again", "all_reduce", "destroy"]


@pytest.fixture(scope="module")
def usage(load_tool: Callable[[str], Any]) -> Any:
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


def test_growth_by_hand(usage: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """A context of 550 MiB, 1450 at the first barrier, 750 given back: 700 stays. Rank 1 pays
    100 MiB more at the barrier."""
    first = make_rows(usage, 0, 0, 550, 550, 550, 2000, 2000, 2000, 1250)
    second = make_rows(usage, 1, 0, 550, 550, 550, 2100, 2100, 2100, 1350)
    report = usage.Report("dist_mem_usage", "0", 1)
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
def test_two_ranks_of_torchrun_and_two_rounds(
    tmp_path: Path, read_json: Callable[[Path], Any]
) -> None:
    """Every rank has a row for each step of each round, and the sum of ranks is right."""
    path = tmp_path / "out.json"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    tool = [str(TOOL), "--device", "cpu", "--payload", "1MiB", "--json", str(path)]
    execute_subprocess_async([*launcher, "--nproc-per-node", "2", *tool], timeout=120, quiet=True)
    document = read_json(path)
    assert document["complete"] is True
    steps = [(row["round"], row["step"]) for row in document["results"] if row["rank"] == 1]
    assert steps == [
        *((0, step) for step in ("start", "device", "store")),
        *((number, step) for number in (1, 2) for step in STEPS),
    ]
    sums = [row["answer_ok"] for row in document["results"] if row["step"] == "all_reduce"]
    assert sums == [True] * 4
    assert document["details"]["header"]["ranks"] == 2


def start_rank(rank: int, port: int, *arguments: str) -> subprocess.Popen[str]:
    """One of two ranks, as a launcher starts it."""
    place = {"RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_RANK": str(rank)}
    place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(TOOL), "--device", "cpu", "--payload", "1MiB", *arguments]
    return subprocess.Popen(
        command, stdout=-3, stderr=subprocess.PIPE, text=True, env={**os.environ, **place}
    )


@pytest.mark.torch
def test_a_rank_that_does_not_come_is_named(unique_port: int) -> None:
    """Rank 1 of 2 is missing: rank 0 says so after --timeout."""
    rank = start_rank(0, unique_port, "--timeout", "2s")
    _, notes = rank.communicate(timeout=90)
    assert rank.returncode == 1
    assert "rank 0 failed: ranks [1] did not come after store, round 0" in notes
