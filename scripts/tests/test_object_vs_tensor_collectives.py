"""object_vs_tensor_collectives: statistics by hand, and real runs of one to three gloo ranks."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing_utils import execute_subprocess_async

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "network/object_vs_tensor_collectives.py"

# The tool with a network that loses a flag: the minimum becomes a maximum.
BROKEN = """
import importlib.util, sys
spec = importlib.util.spec_from_file_location("tool", sys.argv[1])
tool = importlib.util.module_from_spec(spec)
sys.modules["tool"] = tool
spec.loader.exec_module(tool)
import torch.distributed as dist
reduce, least = dist.all_reduce, dist.ReduceOp.MIN
dist.all_reduce = lambda tensor, op=dist.ReduceOp.SUM: reduce(
    tensor, dist.ReduceOp.MAX if op == least else op
)
sys.exit(tool.main(sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def tool_(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def test_ratio_by_hand(tool_: Any) -> None:
    """Ratios 5, 3, 4 and 5 have median 4.5 and quartiles 3.75 and 5."""
    row = tool_.summarise_pairs([5.0, 6.0, 8.0, 20.0], [1.0, 2.0, 2.0, 4.0])
    assert (row["ratio_median"], row["ratio_iqr"]) == (4.5, 1.25)
    assert (row["ratio_min"], row["ratio_max"], row["samples"]) == (3.0, 5.0, 4)
    assert (row["object_seconds_median"], row["tensor_seconds_median"]) == (7.0, 2.0)
    assert row["spread"] == pytest.approx(1.25 / 4.5)


@given(ranks=st.integers(1, 500), turn=st.integers(0, 10**6))
def test_flag_is_no_constant(tool_: Any, ranks: int, turn: int) -> None:
    """Every second time all ranks are done, else all but one, so that each answer is checked."""
    flags = [tool_.is_done(rank, ranks, turn) for rank in range(ranks)]
    assert sum(flags) == (ranks if turn % 2 == 0 else ranks - 1)


@given(turn=st.integers(0, 1000), one=st.integers(0, 99), other=st.integers(0, 99))
def test_numbers_tell_who_gave_them(tool_: Any, turn: int, one: int, other: int) -> None:
    """Two ranks never give the same numbers, and none gives the same twice."""
    same = tool_.list_numbers(one, 5, turn) == tool_.list_numbers(other, 5, turn)
    assert same == (one == other)
    assert tool_.list_numbers(one, 5, turn) != tool_.list_numbers(one, 5, turn + 1)


def test_verdicts_by_hand(tool_: Any) -> None:
    """A wrong answer goes first; a ratio that varies by more than a quarter is not steady."""
    row = {"answer_ok": True, "samples": 9, "spread": 0.2}
    assert tool_.choose_pair_verdict(row) == "ok"
    assert tool_.choose_pair_verdict(row | {"spread": 0.3}) == "unsteady"
    assert tool_.choose_pair_verdict(row | {"samples": 3, "spread": None}) == "few samples"
    assert tool_.choose_pair_verdict(row | {"answer_ok": False}) == "WRONG ANSWER"


@pytest.mark.torch
@pytest.mark.parametrize("ranks", [1, pytest.param(3, marks=pytest.mark.nightly)])
def test_any_world_size_is_right(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path, ranks: int
) -> None:
    """One rank alone and an odd number of them: both answers right at every payload."""
    path = tmp_path / "out.json"
    options = ["--device", "cpu", "--ranks", str(ranks), "--payload", "8", "1000", "64KiB"]
    options += ["--num_iterations", "8", "--num_warmup_iterations", "2", "--json", str(path)]
    done = call_tool(TOOL, *options)
    assert done.returncode == 0, done.stderr
    rows = read_json(path)["results"]
    assert [(row["task"], row["payload_bytes"]) for row in rows] == [
        *(("gather", 8), ("gather", 1000), ("gather", 65536), ("done flag", 4))
    ]
    assert all(row["answer_ok"] and row["ranks"] == ranks for row in rows)
    assert all(row["ratio_min"] <= row["ratio_median"] <= row["ratio_max"] for row in rows)


@pytest.mark.nightly
@pytest.mark.torch
def test_wrong_answer_is_status_1(tmp_path: Path, read_json: Callable[[Path], Any]) -> None:
    """A flag that gets lost is found on every rank, and ends with status 1."""
    script, path = tmp_path / "broken.py", tmp_path / "out.json"
    script.write_text(BROKEN)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    command += [str(script), str(SCRIPTS / TOOL), "--device", "cpu", "--payload", "8"]
    command += ["--num_iterations", "6", "--num_warmup_iterations", "0", "--json", str(path)]
    done = execute_subprocess_async(command, timeout=120, quiet=True, check=False)
    assert done.returncode == 1
    gather, flag = read_json(path)["results"]
    assert gather["answer_ok"] is True
    assert flag["verdict"] == "WRONG ANSWER"
    assert flag["wrong_answers"] == 6, "three of six times, on each of two ranks"


def test_payload_below_a_number_is_wrong_use(call_tool: Callable[..., Any]) -> None:
    """Fewer bytes than a number has are refused before torch is imported."""
    done = call_tool(TOOL, "--payload", "7", without_torch=True)
    assert done.returncode == 2
    assert "a number has 8 bytes" in done.stderr
