"""dist_mem_usage: growth by hand, and a rank that does not come."""

from __future__ import annotations

from typing import Any

import pytest

TOOL = "training/dist_mem_usage.py"
MIB = 1024**2
STEPS = ["group", "barrier", "barrier again", "all_reduce", "destroy"]


def make_rows(module: Any, rank: int, *sizes: int) -> list[dict[str, Any]]:
    """The rows of a rank that has so many MiB on its device after each step."""
    steps = [("start", 0), ("device", 0), ("store", 0), *((step, 1) for step in STEPS)]
    return [
        dict.fromkeys(module.MEASURES)
        | {"rank": rank, "step": step, "round": number, "answer_ok": None}
        | {"process_device_bytes": size * MIB}
        for (step, number), size in zip(steps, sizes, strict=True)
    ]


def test_growth_by_hand(module: Any, capsys: Any) -> None:
    """A context of 550 MiB, 1450 at the first barrier, 750 given back: 700 stays. Rank 1 pays
    100 MiB more at the barrier."""
    first = make_rows(module, 0, 0, 550, 550, 550, 2000, 2000, 2000, 1250)
    second = make_rows(module, 1, 0, 550, 550, 550, 2100, 2100, 2100, 1350)
    report = module.Report("dist_mem_usage", "0", 1)
    report.rows = first + second
    module.print_results(report)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == "| step | round | NVML process |"
    assert "| device | 0 | 550.0 MiB |" in lines
    assert "| barrier | 1 | 1,450.0 to 1,550.0 MiB |" in lines
    assert "| destroy | 1 | -750.0 MiB |" in lines
    [note] = report.notes
    assert "group and collectives take 1,450.0 to 1,550.0 MiB per rank; 700.0 to 800.0" in note


@pytest.mark.torch
def test_a_rank_that_does_not_come_is_named(run_tool: Any, unique_port: int) -> None:
    """Rank 1 of 2 is missing: rank 0 says so after --timeout."""
    place = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
    environ = {**place, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unique_port)}
    options = ["--device", "cpu", "--payload", "1MiB", "--timeout", "5s"]
    done = run_tool(TOOL, *options, environ=environ)
    assert done.returncode == 1
    assert "rank 0 failed: ranks [1] did not come after store, round 0" in done.stderr
