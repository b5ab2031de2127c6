"""object_vs_tensor_collectives: ratios by hand, and runs of one to three gloo ranks."""

from __future__ import annotations

from typing import Any

import pytest

TOOL = "network/object_vs_tensor_collectives.py"

# The tool on a network that loses a flag: the minimum becomes a maximum.
BROKEN = """
reduce, least = dist.all_reduce, dist.ReduceOp.MIN
dist.all_reduce = lambda tensor, op=dist.ReduceOp.SUM: reduce(
    tensor, dist.ReduceOp.MAX if op == least else op
)
"""


def test_ratio_by_hand(module: Any) -> None:
    """Ratios 5, 3, 4 and 5 have median 4.5 and quartiles 3.75 and 5: 28 % spread is unsteady."""
    row = module.judge({}, [5.0, 6.0, 8.0, 20.0], [1.0, 2.0, 2.0, 4.0], 0)
    assert (row["ratio_median"], row["ratio_iqr"]) == (4.5, 1.25)
    assert (row["ratio_min"], row["ratio_max"], row["samples"]) == (3.0, 5.0, 4)
    assert (row["object_seconds_median"], row["tensor_seconds_median"]) == (7.0, 2.0)
    assert row["verdict"] == "unsteady"
    assert module.judge({}, [4.0, 4.0, 5.0, 5.0], [1.0] * 4, 0)["verdict"] == "ok"


@pytest.mark.torch
@pytest.mark.parametrize("ranks", [1, 3])
def test_any_world_size_is_right(run_json: Any, ranks: int) -> None:
    """One rank alone and an odd number of them: both answers right at every payload."""
    options = ["--device", "cpu", "--ranks", str(ranks), "--payload", "8", "1000", "64KiB"]
    done = run_json(TOOL, *options, "--num-iterations", "8")
    assert done.returncode == 0, done.stderr
    rows = done.document["results"]
    assert [(row["task"], row["payload_bytes"]) for row in rows] == [
        *(("gather", 8), ("gather", 1000), ("gather", 65536), ("done flag", 4))
    ]
    assert all(not row["wrong_answers"] and row["ranks"] == ranks for row in rows)


@pytest.mark.torch
def test_a_lost_flag_is_found(run_broken: Any) -> None:
    """A wrong answer is counted on every rank, and ends with status 1."""
    options = ["--payload", "8", "--num-iterations", "6"]
    done = run_broken("object_vs_tensor_collectives", BROKEN, *options)
    assert done.returncode == 1, done.stderr
    assert "WRONG ANSWERS (done flag)" in done.stderr
    gather, flag = done.document["results"]
    assert gather["wrong_answers"] == 0
    assert flag["wrong_answers"] == 16, "eight of 16 times, on each of two ranks"
