"""torch_distributed_check: who is missing, by hand and with ranks that really do not come."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "debug/torch_distributed_check.py"
STEPS = ("arrival", "device", "group", "reduction", "barrier")


@pytest.fixture(scope="module")
def check(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def make_state(done: int = 5, host: str = "node1", **changes: Any) -> dict[str, Any]:
    """A rank that has done so many steps."""
    facts = {"torch": "2.13", "backend": "gloo", "device_model": "x"}
    state = {"done": dict.fromkeys(STEPS[:done], 0.1), "entered": None, "trouble": None}
    return {**state, "facts": facts, "host": host, "pid": 7, **changes}


def judge(
    check: Any, states: list[dict[str, Any] | None], gone: tuple[int, ...] = (), hosts: str = ""
) -> tuple[list[str], list[str], Any]:
    """The verdicts and problems of a job whose ranks ended like this."""
    link = check.Link(None, SimpleNamespace(place=SimpleNamespace(size=len(states))))
    link.states = {rank: state for rank, state in enumerate(states) if state}
    now = time.monotonic()
    link.heard = {rank: now - 60 * (rank in gone) for rank in link.states}
    report = check.Report("x", "0.1.0", 1, {})
    options = SimpleNamespace(hosts=hosts or "node1", timeout=5.0)
    with mock.patch.dict(os.environ, MASTER_ADDR="node1"):
        assert check.print_results(link, report, options) == report.details["can_talk"]
    return [row["verdict"] for row in report.rows], report.details["problems"], report


def test_a_rank_that_is_gone_explains_the_others(check: Any) -> None:
    """The errors of the others follow from it and are not problems of their own."""
    failed = make_state(3, trouble="reduction: Connection closed by peer")
    verdicts, problems, _ = judge(check, [failed, failed, make_state(3)], gone=(2,))
    assert verdicts == ["failed", "failed", "gone"]
    assert problems == ["rank 2 on node1 is gone: dead, stopped or cut off, after group"]


def test_a_rank_that_does_not_enter_a_collective_hangs(check: Any) -> None:
    """The others wait for it inside."""
    waits = make_state(3, entered="reduction")
    verdicts, problems, _ = judge(check, [waits, make_state(3), waits])
    assert verdicts == ["waits", "hangs", "waits"]
    assert problems == ["rank 1 on node1 hangs, after group"]


def test_where_all_wait_it_is_the_network(check: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """All ranks are in the reduction: no rank is the reason."""
    _, problems, _ = judge(check, [make_state(3, entered="reduction")] * 3)
    assert problems[0].startswith("ranks 0-2 entered reduction, and it did not end in 5 s")
    assert "GLOO_SOCKET_IFNAME=" in capsys.readouterr().err


def test_a_missing_node_is_named(check: Any) -> None:
    """Of node[1-3], no rank of node2 arrived."""
    waits = {"entered": "arrival"}
    states = [make_state(0, **waits), None, make_state(0, host="node3.cluster", **waits)]
    verdicts, problems, report = judge(check, states, hosts="node[1-3]")
    assert verdicts[1] == "never arrived"
    assert problems == ["rank 1 never arrived within 5 s, and no rank of node2"]
    assert [row["node"] for row in report.rows] == [0, None, 2]


def test_an_error_of_every_rank_is_told_once(check: Any) -> None:
    """With the ranks that have it."""
    failed = make_state(1, trouble="device: there is no cuda device 7")
    _, problems, _ = judge(check, [make_state(1, entered="group"), failed, failed])
    assert problems == ["ranks 1-2: device: there is no cuda device 7"]


def test_versions_that_differ_are_a_problem(check: Any) -> None:
    """Another torch on rank 1."""
    other = make_state(facts={"torch": "2.12", "backend": "gloo", "device_model": "x"})
    verdicts, problems, _ = judge(check, [make_state(), other])
    assert verdicts == ["ok", "ok"]
    assert problems == ["rank 1: torch is 2.12, on rank 0 it is 2.13"]


@pytest.mark.torch
def test_ranks_under_torchrun_can_talk(tmp_path: Path, read_json: Callable[[Path], Any]) -> None:
    """With torchrun's own store, and the stray --local_rank of old launchers."""
    path = tmp_path / "out.json"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    command = [*torchrun, "2", str(SCRIPTS / TOOL), "--local_rank=0", "--device", "cpu", "--json"]
    done = subprocess.run(
        [*command, str(path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "all 2 ranks on 1 node can talk" in done.stderr
    document = read_json(path)
    assert document["details"]["can_talk"] is True
    for row in document["results"]:
        assert (row["verdict"], row["reached"]) == ("ok", "barrier")
        assert all(row[f"{step}_seconds"] >= 0 for step in STEPS)


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
    run_tool: Callable[..., Any],
    read_json: Callable[[Path], Any],
    tmp_path: Path,
    fault: str,
    verdicts: tuple[str, str],
    problem: str,
) -> None:
    """A rank that is killed, hangs or is not there, and not the two that wait for it."""
    path = tmp_path / "out.json"
    options = ["--device", "cpu", "--ranks", "3", "--timeout", "10s", "--inject", fault]
    done = run_tool(TOOL, *options, "--json", str(path))
    assert done.returncode == 1
    assert f"problem: {problem.format(host=os.uname().nodename)}" in done.stderr
    rows = read_json(path)["results"]
    assert (rows[0]["verdict"], rows[2]["verdict"]) == verdicts
    assert rows[0]["verdict"] == rows[1]["verdict"]


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.needs("root", "unshare", "setpriv", "ip")
def test_a_link_that_goes_down_later(tmp_path: Path, read_json: Callable[[Path], Any]) -> None:
    """Rank 1 is cut off while rank 0 hangs in front of a step: it is gone, and both ends end."""
    hold = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "sh", "-c"]
    script = "ip link set lo up; echo ready; exec sleep 600"
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    holders = [subprocess.Popen([*hold, script], **options) for _ in range(2)]
    ranks: list[subprocess.Popen[str]] = []

    def start(node: int, command: list[str], **environ: str) -> subprocess.Popen[str]:
        enter = ["nsenter", f"--target={holders[node].pid}", "--net", *command]
        return subprocess.Popen(enter, env={**os.environ, **environ}, **options)

    try:
        for holder in holders:
            assert holder.stdout is not None
            holder.stdout.readline()
        peer = f"ip link add eth0 type veth peer name eth0 netns {holders[1].pid}"
        address = "ip addr add 10.77.0.{}/24 dev eth0; ip link set eth0 up"
        for node, text in ((0, peer), (0, address.format(1)), (1, address.format(2))):
            assert start(node, ["sh", "-ec", text]).communicate(timeout=30)[0] == ""
        path = tmp_path / "out.json"
        command = [sys.executable, str(SCRIPTS / TOOL), "--device", "cpu", "--timeout", "10s"]
        place = {"MASTER_ADDR": "10.77.0.1", "WORLD_SIZE": "2", "LOCAL_RANK": "0"}
        place |= {"GLOO_SOCKET_IFNAME": "eth0", "MASTER_PORT": "29500"}
        injected = [*command, "--inject", "hang:0:group"]
        ranks.append(start(0, [*injected, "--json", str(path)], RANK="0", **place))
        ranks.append(start(1, injected, RANK="1", **place))
        look = ["sh", "-c", "ss -Htn state established | wc -l"]
        end = time.monotonic() + 60
        while int(start(1, look).communicate(timeout=30)[0]) < 2 and time.monotonic() < end:
            time.sleep(0.2)
        start(1, ["ip", "link", "set", "eth0", "down"]).communicate(timeout=30)
        texts = [rank.communicate(timeout=120)[0] for rank in ranks]
    finally:
        for process in (*ranks, *holders):
            if process.poll() is None:
                process.kill()
            process.communicate()
    assert [rank.returncode for rank in ranks] == [1, 1], texts
    assert read_json(path)["results"][1]["verdict"] in ("gone", "never arrived"), texts
    assert "cannot reach the store of rank 0" in texts[1]
