"""torch_distributed_check: who is missing, by hand and with ranks that really do not come."""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from needs import need

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "debug/torch_distributed_check.py"
PATH = SCRIPTS / TOOL
STEPS = ("arrival", "device", "group", "reduction", "barrier")


@pytest.fixture(scope="module")
def check(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def make_outcome(check: Any, rank: int, host: str | None, **changes: Any) -> Any:
    """A rank of which all is well, unless it has no host or is changed."""
    facts = {"torch": "2.13.0", "backend": "gloo", "device_model": "x86_64"}
    state = {"seconds": dict.fromkeys(STEPS, 0.1), "facts": facts, "trouble": None}
    outcome = check.Outcome(rank, host, state if host else {}, None, 100 + rank)
    return outcome._replace(**changes)


def make_report(check: Any, outcomes: list[Any], hosts: list[str], tasks: list[int]) -> Any:
    """A finished report on these ranks."""
    report = check.Report(outcomes, hosts, tasks)
    check.complete_report(report, 5.0, "node1:29500")
    return report


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("node[01-03,7],login", ["node01", "node02", "node03", "node7", "login"]),
        ("a,b", ["a", "b"]),
        ("r[1-2]n[8-9]x", ["r1n8x", "r1n9x", "r2n8x", "r2n9x"]),
        # As scontrol show hostnames has it: the last bracket counts fastest, then the first.
        ("a[1-2]b[1-2]c[1-2]", "a1b1c1 a1b1c2 a2b1c1 a2b1c2 a1b2c1 a1b2c2 a2b2c1 a2b2c2".split()),
        ("gpu-a[098-101].site", [f"gpu-a{n}.site" for n in ("098", "099", "100", "101")]),
    ],
)
def test_host_lists_are_expanded(check: Any, text: str, hosts: list[str]) -> None:
    """Lists in the notation of Slurm and pdsh, with leading zeros kept."""
    assert check.expand_nodelist(text) == hosts


@pytest.mark.parametrize("text", ["", "node[", "node[3-1]", "node[a]", "node[1-2]]"])
def test_what_is_no_host_list_is_refused(check: Any, text: str) -> None:
    """Brackets that do not match and ranges that run backwards are wrong use."""
    with pytest.raises(check.WrongUse):
        check.expand_nodelist(text)


@given(first=st.integers(0, 5000), count=st.integers(1, 300), width=st.integers(1, 5))
def test_range_has_all_its_hosts(check: Any, first: int, count: int, width: int) -> None:
    """A range gives each of its hosts once, in order."""
    low, high = str(first).zfill(width), str(first + count - 1).zfill(width)
    hosts = check.expand_nodelist(f"n[{low}-{high}]")
    assert [int(host[1:]) for host in hosts] == list(range(first, first + count))


def test_ranks_are_placed_as_slurm_places_them(check: Any) -> None:
    """8(x2),4 tasks on three nodes: ranks 0-7, 8-15 and 16-19; None where sums differ."""
    tasks = check.expand_tasks("8(x2),4")
    placed = check.place_ranks(["a", "b", "c"], tasks, 20)
    assert [placed.count(host) for host in "abc"] == [8, 8, 4]
    assert placed == sorted(placed)
    assert check.place_ranks(["a", "b", "c"], tasks, 21) is None
    assert check.place_ranks(["a", "b"], [], 4) == ["a", "a", "b", "b"]
    assert check.expand_tasks("many") == []


def test_missing_node_is_named(check: Any) -> None:
    """Nobody came from node2 of Slurm's list: the node and the places of its ranks are named."""
    outcomes = [make_outcome(check, rank, "node1.site" if rank < 2 else None) for rank in range(4)]
    report = make_report(check, outcomes, ["node1", "node2"], [2, 2])
    assert report.missing_hosts == ["node2"]
    assert report.missing_places == {2: "node2", 3: "node2"}
    assert report.problems[0] == "ranks 2-3 never arrived within 5 s"
    assert report.problems[1].startswith("nobody arrived from node2")
    assert any(" node2 " in line for line in report.advice)


def test_ranks_placed_otherwise_are_not_guessed(check: Any) -> None:
    """Where arrived ranks are not where a block would put them a missing rank gets no node."""
    hosts = ["b", "a", "b", None]
    outcomes = [make_outcome(check, rank, host) for rank, host in enumerate(hosts)]
    report = make_report(check, outcomes, ["a", "b"], [2, 2])
    assert report.missing_places == {}
    assert report.missing_hosts == []
    assert report.problems == ["rank 3 never arrived within 5 s"]


def test_one_that_is_gone_explains_the_others(check: Any) -> None:
    """Ranks that failed because another is gone are a note; the one that is gone the problem."""
    seconds = dict.fromkeys(STEPS[:3], 0.1)
    stuck = {"seconds": seconds, "facts": {}, "trouble": "reduction: connection reset"}
    gone = {"seconds": seconds, "facts": {}, "trouble": None}
    outcomes = [
        make_outcome(check, 0, "n1", state=stuck),
        make_outcome(check, 1, "n2", state=gone, is_alive=False),
        make_outcome(check, 2, "n3", state=gone, is_alive=True),
    ]
    report = make_report(check, outcomes, [], [])
    assert list(report.verdicts.values()) == ["failed", "gone", "hangs"]
    assert [text.split(",")[0] for text in report.problems] == [
        *("rank 1 on n2 arrived", "rank 2 on n3 is alive and hangs")
    ]
    assert "rank 0 could not go on" in report.caveats[0]


def test_rank_that_differs_is_told(check: Any) -> None:
    """Another torch is a problem, another model of device a note, each with its ranks."""
    outcomes = [make_outcome(check, rank, "n1") for rank in range(3)]
    outcomes[2].state["facts"] = {"torch": "2.12.0", "backend": "gloo", "device_model": "arm"}
    report = make_report(check, outcomes, [], [])
    assert report.problems == ["rank 2: torch is 2.12.0, on rank 0 it is 2.13.0"]
    assert "rank 2: device_model is arm, on rank 0 it is x86_64" in report.caveats


def test_json_names_no_host(check: Any) -> None:
    """The JSON numbers the nodes, in its sentences too."""
    outcomes = [make_outcome(check, 0, "node1"), make_outcome(check, 1, None)]
    report = make_report(check, outcomes, ["node1", "node2"], [1, 1])
    document = check.make_check_document(report, {}, 5.0, True)
    assert "node1" not in str(document)
    assert "node2" not in str(document)
    assert [row["node"] for row in document["results"]] == [0, 1]
    assert "nobody arrived from node 1" in document["caveats"][1]


@given(ranks=st.sets(st.integers(0, 50), min_size=1))
def test_numbers_of_ranks_read_back(check: Any, ranks: set[int]) -> None:
    """Ranks in few words are the same ranks."""
    text = check.format_ranks(list(ranks)).split(" ", 1)[1]
    assert check.parse_cpu_list(text.replace(", ", ",")) == ranks


def test_numa_nodes_are_read(check: Any, tmp_path: Path) -> None:
    """NUMA nodes of a given /sys, and that of a device by its PCI address."""
    for node, cpus in ((0, "0-1,4"), (1, "2-3")):
        (tmp_path / f"node{node}").mkdir()
        (tmp_path / f"node{node}" / "cpulist").write_text(f"{cpus}\n")
    assert check.read_numa_processors(tmp_path) == {0: {0, 1, 4}, 1: {2, 3}}
    (tmp_path / "0001:1b:00.0").mkdir()
    (tmp_path / "0001:1b:00.0" / "numa_node").write_text("1\n")
    properties = SimpleNamespace(pci_domain_id=1, pci_bus_id=0x1B, pci_device_id=0)
    assert check.find_device_numa_node(properties, tmp_path) == 1
    assert check.find_device_numa_node(SimpleNamespace(), tmp_path) is None


def test_far_device_is_a_remark(check: Any) -> None:
    """A rank bound to node 0 with its device at node 1 is told to move."""
    outcome = make_outcome(check, 5, "n1")
    outcome.state["facts"] |= {"numa_nodes": [0], "device_numa_node": 1, "numa_count": 2}
    assert check.find_numa_remarks([outcome])[0].startswith("rank 5: the NUMA node of the device")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        *(("die:2:group", ("die", 2, "group")), ("hang:0", ("hang", 0, "barrier"))),
        ("absent:1", ("absent", 1, "arrival")),
    ],
)
def test_rehearsals_are_read(check: Any, text: str, expected: tuple[str, int, str]) -> None:
    """What is played, to whom, at which step."""
    assert check.parse_rehearsal(text) == expected


@pytest.mark.parametrize("text", ["die", "die:x", "hang:1:lunch", "absent:1:group", "sulk:1"])
def test_what_cannot_be_rehearsed_is_refused(check: Any, text: str) -> None:
    """An unknown failure or step is refused."""
    with pytest.raises(argparse.ArgumentTypeError):
        check.parse_rehearsal(text)


@pytest.mark.parametrize("rehearsal", ["die:9:barrier", "absent:2", "hang:2"])
def test_failure_of_a_rank_that_there_is_not_is_wrong_use(
    run_tool: Callable[..., Any], torch_trap: dict[str, str], rehearsal: str
) -> None:
    """A failure that could never happen is refused, by the launcher and by each rank."""
    options = ["--device", "cpu", "--rehearse", rehearsal]
    launched = {**torch_trap, "RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}
    for more, environ in (
        (["--ranks", "2"], torch_trap),
        ([], torch_trap),
        ([], {**launched, "MASTER_ADDR": "127.0.0.1"}),
    ):
        done = run_tool(TOOL, *options, *more, environ=environ)
        assert done.returncode == 2
        number = rehearsal.split(":")[1]
        assert f"there is no rank {number}, only ranks 0 to 1" in done.stderr


def test_bad_host_list_is_wrong_use(call_tool: Callable[..., Any]) -> None:
    """--hosts that is no list ends with status 2 before torch is imported."""
    done = call_tool(TOOL, "--hosts", "node[1-", without_torch=True)
    assert done.returncode == 2
    assert "is no list of hosts" in done.stderr


def end(ranks: list[subprocess.Popen[str]]) -> None:
    """End what a failed test has left."""
    for rank in ranks:
        if rank.poll() is None:
            rank.kill()
            rank.communicate()


@pytest.mark.torch
def test_rank_that_was_never_started_is_named(
    tmp_path: Path, read_json: Callable[[Path], Any]
) -> None:
    """Three of four ranks: within the time-out rank 0 names the fourth, and all end."""
    path = tmp_path / "out.json"
    environ = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29653"}
    environ |= {"WORLD_SIZE": "4", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(PATH), "--device", "cpu", "--timeout", "8s"]
    ranks = [
        subprocess.Popen(
            [*command, *(["--json", str(path)] if rank == 0 else [])],
            env={**environ, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1, 3)
    ]
    try:
        words = [rank.communicate(timeout=90)[1] for rank in ranks]
    finally:
        end(ranks)
    assert [rank.returncode for rank in ranks] == [1, 1, 1], words
    assert "problem: rank 2 never arrived within 8 s" in words[0]
    document = read_json(path)
    assert [row["verdict"] for row in document["results"]][2] == "never arrived"
    assert document["details"]["can_talk"] is False


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("rehearsal", "verdict", "words"),
    [
        ("die:2:reduction", "gone", "arrived, and is gone"),
        ("die:1:device", "gone", "arrived, and is gone"),
        ("hang:1:barrier", "hangs", "is alive and hangs, after reduction, in or before barrier"),
        ("hang:2:group", "hangs", "is alive and hangs, after device, in or before group"),
    ],
)
def test_rank_that_dies_or_hangs_is_named(
    run_tool: Callable[..., Any],
    read_json: Callable[[Path], Any],
    tmp_path: Path,
    rehearsal: str,
    verdict: str,
    words: str,
) -> None:
    """A rank that is killed after it arrived, or hangs before it comes, is told from the others."""
    path = tmp_path / "out.json"
    options = ["--device", "cpu", "--ranks", "3", "--timeout", "8s", "--rehearse", rehearsal]
    done = run_tool(TOOL, *options, "--json", str(path), timeout=120)
    assert done.returncode == 1
    rank = int(rehearsal.split(":")[1])
    assert f"problem: rank {rank} on" in done.stderr
    assert words in done.stderr
    assert done.stderr.count("problem:") == 1
    verdicts = {row["rank"]: row["verdict"] for row in read_json(path)["results"]}
    assert verdicts.pop(rank) == verdict
    assert set(verdicts.values()) == {"failed"}
    assert "Traceback" not in done.stderr


@pytest.mark.nightly
@pytest.mark.torch
def test_ranks_under_torchrun_can_talk(tmp_path: Path, read_json: Callable[[Path], Any]) -> None:
    """With torchrun's own store, and a stray --local_rank: all ranks can talk."""
    path = tmp_path / "out.json"
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", str(PATH)]
    command += ["--local_rank=1", "--device", "cpu", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "all 2 ranks on 1 node can talk" in done.stderr
    rows = read_json(path)["results"]
    assert [row["verdict"] for row in rows] == ["ok", "ok"]
    assert all(row["memory_used_bytes"] == 16 * 2**20 for row in rows)
    assert os.uname().nodename not in path.read_text()


# --- a network of our own ---

HOLD = 'hostname "$0" && ip link set lo up && echo ready && exec sleep 600'


@pytest.fixture
def three_nodes(
    can_unshare: None,
) -> Iterator[tuple[Callable[..., subprocess.Popen[str]], Callable[..., None]]]:
    """Three hosts of their own names on one switch: starts a command on one, or sets it up."""
    need("tc")
    names = ["switch", "node1", "node2", "node3"]
    hold = ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--uts", "bash", "-c", HOLD]
    holders = {
        name: subprocess.Popen([*hold, name], stdout=subprocess.PIPE, text=True) for name in names
    }

    def enter(name: str, *command: str) -> list[str]:
        return ["nsenter", f"--target={holders[name].pid}", "--net", "--uts", *command]

    def do(name: str, command: str) -> None:
        subprocess.run(enter(name, *command.split()), check=True, timeout=10)

    def start(name: str, command: list[str], environ: dict[str, str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            enter(name, *command),
            env={**os.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    try:
        for holder in holders.values():
            assert holder.stdout is not None
            assert holder.stdout.readline() == "ready\n"
        do("switch", "ip link add bridge type bridge")
        do("switch", "ip link set bridge up")
        for number, name in enumerate(names[1:], start=1):
            pid = holders[name].pid
            do("switch", f"ip link add {name} type veth peer name eth0 netns {pid}")
            do("switch", f"ip link set {name} master bridge up")
            do(name, f"ip addr add 10.80.0.{number}/24 dev eth0")
            do(name, "ip link set eth0 up")
        yield start, do
    finally:
        for holder in holders.values():
            holder.kill()
            holder.communicate()


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.parametrize("is_cut", [False, True])
def test_node_whose_link_is_down_is_named(
    three_nodes: tuple[Callable[..., subprocess.Popen[str]], Callable[..., None]], is_cut: bool
) -> None:
    """Three nodes can talk; with one link down rank 0 names that node, and it says so itself."""
    start, do = three_nodes
    if is_cut:
        do("switch", "ip link set node3 down")
    environ = {"MASTER_ADDR": "10.80.0.1", "MASTER_PORT": "29500", "WORLD_SIZE": "3"}
    environ |= {"LOCAL_RANK": "0", "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
    # As under Slurm: the list of nodes comes from the job.
    environ |= {"SLURM_JOB_NODELIST": "node[1-3]", "SLURM_TASKS_PER_NODE": "1(x3)"}
    command = [sys.executable, str(PATH), "--device", "cpu"]
    command += ["--timeout", "8s" if is_cut else "30s"]
    ranks = [start(f"node{rank + 1}", command, {**environ, "RANK": str(rank)}) for rank in range(3)]
    try:
        words = [rank.communicate(timeout=120)[1] for rank in ranks]
    finally:
        end(ranks)
    assert [rank.returncode for rank in ranks] == [int(is_cut)] * 3, words
    if not is_cut:
        assert "all 3 ranks on 3 nodes can talk" in words[0]
        return
    assert "problem: rank 2 never arrived within 8 s" in words[0]
    assert "problem: nobody arrived from node3" in words[0]
    assert "next: ssh node3 " in words[0]
    assert "problem: rank 2 on node3 cannot reach rank 0's store at 10.80.0.1:29500" in words[2]


def count_connections(process: subprocess.Popen[str]) -> int:
    """Established connections of the node on which the process runs."""
    lines: list[str] = []
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            lines += Path(f"/proc/{process.pid}/net/{name}").read_text().splitlines()[1:]
    return sum(line.split()[3] == "01" for line in lines)


@pytest.mark.torch
@pytest.mark.nightly
def test_node_that_is_cut_off_later_is_named(
    three_nodes: tuple[Callable[..., subprocess.Popen[str]], Callable[..., None]],
) -> None:
    """A link that goes down after all have arrived: rank 0 names the node, and all ranks end."""
    start, do = three_nodes
    environ = {"MASTER_ADDR": "10.80.0.1", "MASTER_PORT": "29500", "WORLD_SIZE": "3"}
    environ |= {"LOCAL_RANK": "0", "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(PATH), "--device", "cpu", "--timeout", "10s"]
    command += ["--hosts", "node[1-3]", "--rehearse", "hang:2:barrier"]
    ranks = [start(f"node{rank + 1}", command, {**environ, "RANK": str(rank)}) for rank in range(3)]
    try:
        deadline = time.monotonic() + 60
        # Two to the store, and those of the group: it has come together.
        while count_connections(ranks[2]) < 4 and time.monotonic() < deadline:
            time.sleep(0.1)
        time.sleep(1)
        do("switch", "ip link set node3 down")
        words = [rank.communicate(timeout=90)[1] for rank in ranks]
    finally:
        end(ranks)
    assert [rank.returncode for rank in ranks] == [1, 1, 1], words
    assert "problem: rank 2 on node3 arrived, and is gone" in words[0]
    assert "rank 2 on node3 has had no answer of rank 0's store" in words[2]
