"""torch_distributed_check: who is missing, by hand and with ranks that really do not come."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "debug/torch_distributed_check.py"
STEPS = ("arrival", "device", "group", "reduction", "barrier")


def make_state(done: int = 5, host: str = "node1", **changes: Any) -> dict[str, Any]:
    """A rank that has done so many steps."""
    facts = {"torch": "2.13", "backend": "gloo", "device_model": "x"}
    state = {"done": dict.fromkeys(STEPS[:done], 0.1), "entered": None, "trouble": None}
    return {**state, "facts": facts, "host": host, "pid": 7, **changes}


FAILED = make_state(1, trouble="device: there is no cuda device 7")
CUT_OFF = make_state(3, trouble="reduction: Connection closed by peer")
WAITS = make_state(3, entered="reduction")
LATE = make_state(0, entered="arrival")
OTHER = make_state(facts={"torch": "2.12", "backend": "gloo", "device_model": "x"})


@pytest.mark.parametrize(
    ("states", "gone", "verdicts", "problem"),
    [
        # The errors of the other ranks follow from the one that is gone.
        ([CUT_OFF, CUT_OFF, make_state(3)], (2,), "failed failed gone",
         "rank 2 on node1 is gone: dead, stopped or cut off, after group"),
        ([WAITS, make_state(3), WAITS], (), "waits hangs waits",
         "rank 1 on node1 hangs, after group"),
        ([LATE, None, {**LATE, "host": "node3.cluster"}], (), "waits never arrived waits",
         "rank 1 never arrived within 5 s, and no rank of node2"),
        ([WAITS, WAITS], (), "waits waits",
         "ranks 0-1 entered reduction, and it did not end in 5 s: the network for the data"),
        ([make_state(1, entered="group"), FAILED, FAILED], (), "waits failed failed",
         "ranks 1-2: device: there is no cuda device 7"),
        ([make_state(), OTHER], (), "ok ok", "rank 1: torch is 2.12, on rank 0 it is 2.13"),
    ],
)  # fmt: skip
def test_the_cause_is_named(
    module: Any, states: list[Any], gone: tuple[int, ...], verdicts: str, problem: str
) -> None:
    """The rank that is the reason, not those that wait for it."""
    place = SimpleNamespace(size=len(states))
    link = module.Link(None, SimpleNamespace(place=place))
    link.states = {rank: state for rank, state in enumerate(states) if state}
    now = time.monotonic()
    link.heard = {rank: now - 60 * (rank in gone) for rank in link.states}
    report = module.Report("x", "0.1.0", 1)
    hosts = "node[1-3]" if None in states else "node1"
    with mock.patch.dict(os.environ, MASTER_ADDR="node1"):
        assert not module.print_results(link, report, SimpleNamespace(hosts=hosts, timeout=5.0))
    assert " ".join(row["verdict"] for row in report.rows) == verdicts
    assert report.details["problems"] == [problem]


@pytest.mark.torch
def test_ranks_under_torchrun_can_talk() -> None:
    """With torchrun's own store, and the stray --local_rank of old launchers."""
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    command = [*torchrun, "2", str(SCRIPTS / TOOL), "--local_rank=0", "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert "all 2 ranks on 1 node can talk" in done.stderr


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("fault", "verdicts", "problem"),
    [
        ("die:2:barrier", ("failed", "gone"), "rank 2 on {host} is gone"),
        ("hang:2:reduction", ("waits", "hangs"), "rank 2 on {host} hangs, after group"),
        ("absent:2", ("waits", "never arrived"), "rank 2 never arrived within 10 s"),
    ],
)
def test_a_fault_is_named(
    run_json: Any, fault: str, verdicts: tuple[str, str], problem: str
) -> None:
    """A rank that is killed, hangs or is not there, and not the two that wait for it."""
    options = ["--device", "cpu", "--ranks", "3", "--timeout", "10s", "--inject", fault]
    done = run_json(TOOL, *options)
    assert done.returncode == 1
    assert f"problem: {problem.format(host=os.uname().nodename)}" in done.stderr
    rows = done.document["results"]
    assert (rows[0]["verdict"], rows[2]["verdict"]) == verdicts
    assert rows[0]["verdict"] == rows[1]["verdict"]


@pytest.mark.torch
def test_a_rank_without_rank_0_ends(run_tool: Any, unique_port: int) -> None:
    """It says which store it cannot reach."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unique_port), "WORLD_SIZE": "2"}
    environ = {**place, "RANK": "1", "LOCAL_RANK": "0"}
    done = run_tool(TOOL, "--device", "cpu", "--timeout", "2s", environ=environ)
    assert done.returncode == 1
    assert f"cannot reach the store of rank 0 at 127.0.0.1:{unique_port}" in done.stderr
