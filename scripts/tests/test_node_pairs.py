"""node_pairs: the schedule for any number, verdicts on planted faults, and real slow networks."""

from __future__ import annotations

import contextlib
import json
import math
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "network/node_pairs.py"

# Of the namespaces, where 400 Mbit/s are ordinary: slow enough for a processor not to matter.
USUAL_RATE = "100mbit"
SLOW_RATE = "10mbit"
# The first process of a node: it holds the namespaces as long as it lives.
HOST_START = """
hostname "$1"
mount --bind "$2" /etc/hosts
ip link set lo up
echo ready
exec sleep 600
"""
PROGRAMS = {"iproute2": ("ip", "tc"), "util-linux": ("nsenter", "setpriv", "unshare")}


@pytest.fixture(scope="module")
def pairs(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def test_four_nodes_by_hand(pairs: Any) -> None:
    """Four nodes: round 0 is 0-3 and 1-2, round 1 is 1-3 and 0-2, round 2 is 2-3 and 0-1."""
    assert [sorted(pairs.make_round(4, r)) for r in range(3)] == [
        [(0, 3), (1, 2)],
        [(0, 2), (1, 3)],
        [(0, 1), (2, 3)],
    ]


@given(st.integers(2, 120))
def test_every_pair_meets_once_and_rounds_are_disjoint(pairs: Any, nodes: int) -> None:
    """For any number of nodes: each pair once, nobody twice in a round, one rests where odd."""
    met: Counter[tuple[int, int]] = Counter()
    rested: Counter[int] = Counter()
    for number in range(pairs.count_rounds(nodes)):
        playing = pairs.make_round(nodes, number)
        players = [node for pair in playing for node in pair]
        assert len(set(players)) == len(players) == nodes - nodes % 2
        rested.update(set(range(nodes)) - set(players))
        met.update(playing)
    assert set(met.values()) == {1}
    assert set(met) == {(a, b) for a in range(nodes) for b in range(a + 1, nodes)}
    assert rested == (Counter(range(nodes)) if nodes % 2 else Counter())


@given(st.integers(2, 5000), st.data())
def test_opponents_agree(pairs: Any, nodes: int, data: Any) -> None:
    """Each node finds its opponent alone, and the opponent finds it."""
    number = data.draw(st.integers(0, pairs.count_rounds(nodes) - 1))
    node = data.draw(st.integers(0, nodes - 1))
    opponent = pairs.find_opponent(nodes, number, node)
    if opponent is None:
        assert nodes % 2 == 1
    else:
        assert opponent != node
        assert pairs.find_opponent(nodes, number, opponent) == node


def test_rounds_are_drawn_without_repeats(pairs: Any) -> None:
    """--rounds K draws K different rounds, the same for the same seed, and all where K is large."""
    drawn = pairs.choose_rounds(100, 8, 3)
    assert len(set(drawn)) == 8
    assert drawn == pairs.choose_rounds(100, 8, 3)
    assert drawn != pairs.choose_rounds(100, 8, 4)
    assert pairs.choose_rounds(9, 50, 1) == list(range(9))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(10, 19)), max_size=30, unique=True))
def test_second_stage_rounds_are_disjoint(pairs: Any, wanted: list[tuple[int, int]]) -> None:
    """However pairs overlap, each is run once, and no node twice in a round."""
    rounds = pairs.match_disjoint(wanted)
    assert sorted(pair for members in rounds for pair in members) == sorted(wanted)
    for members in rounds:
        players = [node for pair in members for node in pair]
        assert len(set(players)) == len(players)


def simulate(
    pairs: Any,
    nodes: int,
    slow_nodes: Mapping[int, float],
    slow_links: Mapping[tuple[int, int], float],
    **options: Any,
) -> tuple[Any, dict[str, Any]]:
    """A played simulation and what was found of its faults."""
    seed = options.get("seed", 1)
    tournament = pairs.Tournament(nodes, 0, 2, 1.2)
    simulation = pairs.Simulation(slow_nodes, slow_links, options.get("noise", 0.03), seed)
    rounds = pairs.choose_rounds(nodes, options.get("rounds"), seed)
    confirm = options.get("confirm", True)
    pairs.play_simulation(tournament, simulation, rounds, pairs.StopSign(), confirm, seed)
    return tournament, pairs.judge_simulation(tournament, simulation)


@given(st.integers(3, 24), st.data())
def test_one_fault_of_any_kind_is_named(pairs: Any, nodes: int, data: Any) -> None:
    """In any cluster of 3 or more, one slow or dead node or link is named, and nothing else."""
    factor = data.draw(st.sampled_from([1.4, 2.0, 10.0, math.inf]))
    a = data.draw(st.integers(0, nodes - 1))
    b = data.draw(st.integers(0, nodes - 1).filter(lambda node: node != a))
    link = (min(a, b), max(a, b))
    for confirm in (False, True):
        _, found = simulate(pairs, nodes, {a: factor}, {}, noise=0.01, confirm=confirm)
        assert not any(found.values())
        _, found = simulate(pairs, nodes, {}, {link: factor}, noise=0.01, confirm=confirm)
        assert not any(found.values())


def test_two_slow_nodes_do_not_accuse_their_link(pairs: Any) -> None:
    """Two slow nodes are as slow together as the slower one, which says nothing of their link."""
    tournament, found = simulate(pairs, 12, {3: 2.0, 4: 3.0}, {})
    assert not any(found.values())
    assert sorted(tournament.judgement.slow_nodes) == [3, 4]
    assert tournament.judgement.slow_nodes[4] == pytest.approx(3.0, rel=0.1)


def test_a_third_of_the_nodes_slow(pairs: Any) -> None:
    """Even where most pairs are slow, the fast ones tell who is good."""
    slow = dict.fromkeys(range(0, 30, 3), 2.0)
    _, found = simulate(pairs, 30, slow, {})
    assert not any(found.values())


def test_a_flicker_passes(pairs: Any) -> None:
    """A pair that was slow once and is not slow again is told, and nobody is blamed."""
    tournament = pairs.Tournament(8, 0, 2, 1.2)
    for number in range(7):
        for pair in pairs.make_round(8, number):
            tournament.trials.add(number, pair, math.log(3.0 if pair == (2, 5) else 1.0))
    first = pairs.judge_trials(tournament.trials, 8, 1.2)
    assert list(first.slow_links) == [(2, 5)]
    plan = pairs.plan_confirmation(first, 1)
    assert (2, 5) in plan[0]
    for turn, members in enumerate(plan):
        for pair in members:
            tournament.second_stage.add(7 + turn, pair, 0.0)
    judgement = tournament.judge()
    assert not judgement.has_blame
    assert judgement.passing == {(2, 5): pytest.approx(3.0)}
    rows = {(row["node_a"], row["node_b"]): row["verdict"] for row in tournament.make_rows()[:28]}
    assert rows[2, 5] == "passing"
    assert Counter(rows.values()) == {"ok": 27, "passing": 1}


def play_three(
    pairs: Any, first: Mapping[tuple[int, int], float], second: Mapping[tuple[int, int], float]
) -> Any:
    """Three nodes, both stages, with these times of each pair."""
    tournament = pairs.Tournament(3, 1024, 2, 1.2)
    for number in range(3):
        for pair in pairs.make_round(3, number):
            tournament.record(number, pair, pairs.PairResult((first[pair],) * 5), False)
    plan = pairs.plan_confirmation(pairs.judge_trials(tournament.trials, 3, 1.2), 1)
    for turn, members in enumerate(plan):
        for pair in members:
            tournament.record(3 + turn, pair, pairs.PairResult((second[pair],) * 5), True)
    tournament.complete = True
    tournament.judge()
    return tournament


@pytest.mark.parametrize("other", [1.25, 1.0])
def test_link_of_a_suspected_node_is_blamed_where_the_node_is_cleared(
    pairs: Any, other: float
) -> None:
    """Slow 1.27 and 3.84 times, its nodes fast with others: a slow link, whoever was suspected."""
    tournament = play_three(
        pairs,
        {(0, 1): 1.0, (0, 2): other, (1, 2): 1.27},
        {(0, 1): 1.0, (0, 2): 1.0, (1, 2): 3.84},
    )
    judgement = tournament.judgement
    assert list(judgement.slow_links) == [(1, 2)]
    assert judgement.slow_links[1, 2] == pytest.approx(3.84, rel=0.15)
    assert list(judgement.passing) == ([(0, 2)] if other > 1.2 else [])
    assert not judgement.slow_nodes
    assert not judgement.unclear
    document = pairs.make_pairs_document(tournament, [], 0.0, {})
    assert document["details"]["slow_links"] == [[1, 2]]
    assert document["details"]["noise"] == (None if other > 1.2 else 0.0)
    assert not any("two speeds" in text for text in document["caveats"])
    verdicts = [row["verdict"] for row in document["results"] if row["node_a"] == 1]
    assert verdicts == ["slow link"] * 2


def test_pair_slow_in_the_second_stage_alone_is_unclear(pairs: Any) -> None:
    """A pair that was fast at first and slow when last seen is named, to be run again."""
    tournament = play_three(
        pairs,
        {(0, 1): 1.0, (0, 2): 1.0, (1, 2): 2.0},
        {(0, 1): 1.0, (0, 2): 1.0, (1, 2): 1.0},
    )
    assert list(tournament.judgement.passing) == [(1, 2)]
    tournament = pairs.Tournament(8, 0, 2, 1.2)
    for number in range(7):
        for pair in pairs.make_round(8, number):
            tournament.trials.add(number, pair, math.log(3.0 if 2 in pair else 1.0))
    plan = pairs.plan_confirmation(pairs.judge_trials(tournament.trials, 8, 1.2), 1)
    again = [pair for members in plan for pair in members]
    assert len(again) == pairs.CONFIRM_PARTNERS
    for pair in again:
        tournament.second_stage.add(7, pair, math.log(3.0 if pair == again[0] else 1.0))
    judgement = tournament.judge()
    assert list(judgement.slow_links) == [again[0]]
    assert len(judgement.passing) == 6
    first = pairs.Judgement(judgement.typical, slow_nodes={2: 3.0, 3: 3.0}, cleared={5})
    first.slow_pairs = [((2, 4), math.log(3.0))]
    quick = pairs.Trials()
    quick.add(7, (2, 5), 0.0)
    quick.add(8, (2, 6), math.log(2.0))
    quick.add(9, (2, 7), 0.0)
    second = pairs.confirm_judgement(first, quick)
    assert list(second.unclear) == [(2, 6)]
    assert second.slow_nodes == {3: 3.0}  # not run again: what is known of it is the first stage


def test_one_round_names_pairs_and_the_second_stage_the_culprit(pairs: Any) -> None:
    """A single round cannot tell node from link; with known-good partners it can be told."""
    tournament, _ = simulate(pairs, 16, {6: 2.0}, {}, rounds=1, confirm=False)
    assert not tournament.judgement.slow_nodes
    (pair,) = tournament.judgement.unclear
    assert 6 in pair
    _, found = simulate(pairs, 16, {6: 2.0}, {}, rounds=1, confirm=True)
    assert found["missed_nodes"] == found["wrongly_blamed_nodes"] == []
    assert found["wrongly_blamed_links"] == []


def test_faults_in_4096_nodes_are_found_in_four_rounds(pairs: Any) -> None:
    """Over many seeds: every slow node and every slow link that was seen, and nothing else."""
    for seed in range(12):
        rounds = pairs.choose_rounds(4096, 4, seed)
        rng = random.Random(seed)
        nodes = rng.sample(range(4096), 40)
        seen = [pair for number in rounds for pair in pairs.make_round(4096, number)]
        links = [pair for pair in rng.sample(seen, 30) if not set(pair) & set(nodes)]
        slow_nodes = {node: rng.choice([1.5, 2.0, 8.0, math.inf]) for node in nodes}
        slow_links = {pair: rng.choice([1.5, 3.0, math.inf]) for pair in links}
        tournament, found = simulate(pairs, 4096, slow_nodes, slow_links, rounds=4, seed=seed)
        assert not any(found.values()), (seed, found)
        assert tournament.complete


@pytest.mark.nightly
def test_a_whole_tournament_of_4096_nodes_is_judged_in_a_minute(pairs: Any) -> None:
    """8.4 million pairs: all faults found, nobody accused, in less than a minute of processor."""
    started = time.process_time()
    slow_nodes = {17: 1.3, 1800: 2.0, 4095: math.inf}
    slow_links = {(100, 2000): 1.4, (7, 9): math.inf, (0, 4094): 3.0}
    tournament, found = simulate(pairs, 4096, slow_nodes, slow_links)
    assert not any(found.values())
    assert len(tournament.trials) == 4096 * 4095 // 2
    assert len(tournament.make_rows()) < 20_000
    assert time.process_time() - started < 60


def test_no_answer_from_anybody(pairs: Any) -> None:
    """Where no pair answers there is no typical time, and no traceback."""
    tournament = pairs.Tournament(4, 1024, 2, 1.2)
    for number in range(3):
        for pair in pairs.make_round(4, number):
            tournament.record(number, pair, pairs.PairResult((), "hangs"), False)
    assert tournament.judge().typical is None
    assert {row["verdict"] for row in tournament.make_rows()} == {"no answer"}
    assert "no answer" in pairs.format_verdict(tournament, {}, 40)


def test_a_pair_that_was_not_tried_blames_nobody(pairs: Any) -> None:
    """A node that hangs since an earlier pair is not measured again, nor blamed for that."""
    tournament = pairs.Tournament(6, 1024, 2, 1.2)
    for number in range(5):
        for pair in pairs.make_round(6, number):
            failed = "not tried" if 2 in pair and number > 2 else None
            result = pairs.PairResult(() if failed else (1.0,) * 5, failed)
            tournament.record(number, pair, result, False)
    assert not tournament.judge().has_blame
    assert len(tournament.make_rows()) == 13


def test_plan_prints_the_schedule(
    call_tool: Callable[..., Any],
    read_json: Callable[[Path], Any],
    tmp_path: Path,
) -> None:
    """--plan 7 needs no torch, and lists 7 rounds of 3 pairs with the node that rests."""
    out = tmp_path / "plan.json"
    done = call_tool(TOOL, "--plan", "7", "--json", str(out), without_torch=True)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 2 + 7
    assert "7 rounds of 3 pairs see 21 of 21 links (100 %)" in done.stderr
    document = read_json(out)
    assert len(document["results"]) == 21
    assert {tuple(row) for row in document["results"]} == {("round", "node_a", "node_b")}


def test_simulation_as_a_program(
    run_tool: Callable[..., Any],
    read_json: Callable[[Path], Any],
    tmp_path: Path,
    torch_trap: dict[str, str],
) -> None:
    """--simulate needs no torch; it names node, link and dead node, and draws the map."""
    pytest.importorskip("matplotlib")
    out, plot = tmp_path / "out.json", tmp_path / "map.png"
    faults = ["--slow-node", "3:2", "--slow-node", "9:dead", "--slow-link", "11-4:3"]
    done = run_tool(
        TOOL,
        "--simulate",
        "20",
        *faults,
        "--confirm",
        "--json",
        str(out),
        "--plot",
        str(plot),
        environ={"PYTHONPATH": torch_trap["PYTHONPATH"]},
    )
    assert done.returncode == 1, done.stderr
    assert re.search(r"\| 3 +\| slow node \|", done.stdout)
    assert re.search(r"\| 4 - 11 +\| slow link \|", done.stdout)
    assert re.search(r"\| 9 +\| dead node \|", done.stdout)
    details = read_json(out)["details"]
    assert (details["slow_nodes"], details["dead_nodes"]) == ([3], [9])
    assert details["slow_links"] == [[4, 11]]
    assert not any(details["simulation"].values())
    assert details["node_times_typical"][3] == pytest.approx(2.0, rel=0.1)
    assert details["node_times_typical"][9] is None
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plan", "1"], "one node alone"),
        (["--plan", "4", "--simulate", "4"], "two things"),
        (["--simulate", "4", "--toy"], "start no ranks"),
        (["--slow-node", "1:2"], "are for --simulate"),
        (["--simulate", "4", "--slow-node", "4:2"], "there is no node 4"),
        (["--simulate", "4", "--slow-node", "1:0.5"], "has to be above 1"),
        (["--simulate", "4", "--slow-link", "1-1:2"], "write NODE-NODE:FACTOR"),
        (["--slower", "1"], "has to be above 1"),
        (["--size", "3X"], "is no size"),
        (["--ranks", "1"], "one rank alone"),
        (["--simulate", "4", "--plot", "x.pdf"], "has to end in .svg or .png"),
    ],
)
def test_wrong_use(call_tool: Callable[..., Any], arguments: list[str], message: str) -> None:
    """What makes no sense is refused with a message, and status 2, before torch is imported."""
    done = call_tool(TOOL, *arguments, without_torch=True)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_places_of_ranks(pairs: Any) -> None:
    """Ranks count node by node; those of one machine alone are a node each."""
    job = {"RANK": "11", "WORLD_SIZE": "16", "LOCAL_RANK": "3", "MASTER_ADDR": "a"}
    assert pairs.find_place({}, None) is None
    place = pairs.find_place({**job, "LOCAL_WORLD_SIZE": "8"}, None)
    assert (place.node, place.nodes, place.local_rank) == (1, 2, 3)
    assert pairs.find_place({**job, "LOCAL_WORLD_SIZE": "16"}, None).nodes == 16
    assert pairs.find_place(job, 4).node == 2
    with pytest.raises(pairs.WrongUse, match="no whole number of nodes"):
        pairs.find_place(job, 5)


@pytest.mark.nightly
@pytest.mark.torch
def test_real_ranks_meet_and_sum_right(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Three ranks on this machine: three pairs, each with samples and rates, and right sums."""
    out = tmp_path / "out.json"
    done = call_tool(TOOL, "--toy", "--slower", "1000", "--json", str(out))
    assert done.returncode == 0, done.stderr
    document = read_json(out)
    rows = document["results"]
    assert sorted((row["node_a"], row["node_b"]) for row in rows) == [(0, 1), (0, 2), (1, 2)]
    for row in rows:
        assert (row["samples"], row["verdict"], row["failure"]) == (5, "ok", None)
        size = document["details"]["size_bytes"]
        assert row["busbw_bytes_per_second"] == pytest.approx(size / row["seconds_median"])
    assert document["details"]["failures"] == []
    assert "hosts" not in document["details"]


@pytest.mark.nightly
@pytest.mark.torch
def test_torchrun_starts_it(read_json: Callable[[Path], Any], tmp_path: Path) -> None:
    """Under torchrun its own store is used, and the ranks of one machine are a node each."""
    out = tmp_path / "out.json"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*launcher, "--nproc_per_node", "2", str(SCRIPTS / TOOL), "--toy", "--json", str(out)],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document = read_json(out)
    assert [(row["node_a"], row["node_b"]) for row in document["results"]] == [(0, 1)]
    assert any("nothing to be compared with" in caveat for caveat in document["caveats"])


@pytest.mark.nightly
@pytest.mark.torch
def test_a_signal_ends_the_run_after_its_round(
    read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Ctrl-C: the rounds so far are judged and written, marked as partial; status 1."""
    out = tmp_path / "out.json"
    # Rounds of many seconds, so that the signal comes in the first ones.
    options = ["--device", "cpu", "--size", "64M", "--num_iterations", "60", "--slower", "1000"]
    process = subprocess.Popen(
        [sys.executable, str(SCRIPTS / TOOL), *options, "--ranks", "3", "--json", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        time.sleep(8)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=30)
    assert process.returncode == 1, errors
    assert "stopped by SIGINT" in errors
    document = read_json(out)
    assert document["complete"] is False
    assert document["details"]["rounds_played"] < 3


def explain_refusal() -> str:
    """Why this machine has no network namespaces for tests, or nothing where it has."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [
        package
        for package, programs in PROGRAMS.items()
        if not all(shutil.which(program, path=path) for program in programs)
    ]
    if missing:
        return f"a network of namespaces needs: apt-get install {' '.join(missing)}"
    if os.geteuid() != 0:
        return "a network of namespaces needs root"
    trial = (
        "ip link add left type veth peer name right && ip link add switch type bridge && "
        "tc qdisc add dev left root handle 1: htb default 10 r2q 1000 && "
        f"tc class add dev left parent 1: classid 1:10 htb rate {USUAL_RATE} && "
        "tc filter add dev left parent 1: protocol ip u32 match ip dst 10.78.0.9/32 flowid 1:10"
    )
    done = subprocess.run(
        ["unshare", "--net", "sh", "-c", trial], capture_output=True, text=True, check=False
    )
    return f"this kernel cannot shape traffic: {done.stderr.strip()}" if done.returncode else ""


class Wires:
    """Nodes with a network card each on one switch, every card with the same rate."""

    def __init__(self, count: int, folder: Path) -> None:
        self.count = count
        # Without names for these addresses each connection would wait for a server of names.
        hosts = folder / "hosts"
        names = [f"{self.address(node)} node{node}" for node in range(count)]
        hosts.write_text("\n".join(["127.0.0.1 localhost", *names]) + "\n")
        self.holders: list[subprocess.Popen[bytes]] = []
        # The first holds the switch; none has a name outside, and all end with this process.
        for place in range(count + 1):
            holder = subprocess.Popen(
                [
                    *("setpriv", "--pdeathsig", "KILL", "unshare", "--net", "--uts", "--mount"),
                    *("sh", "-ec", HOST_START, "sh", f"node{place - 1}", str(hosts)),
                ],
                stdout=subprocess.PIPE,
            )
            self.holders.append(holder)
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"ready\n"
        self.run(0, "ip link add switch type bridge && ip link set switch up")
        for node in range(1, count + 1):
            peer = self.holders[node].pid
            self.run(
                0,
                f"ip link add v{node} type veth peer name eth0 netns {peer} && "
                f"ip link set v{node} master switch up",
            )
            self.run(
                node,
                f"ip addr add {self.address(node - 1)}/24 dev eth0 && ip link set eth0 up && "
                "tc qdisc add dev eth0 root handle 1: htb default 10 r2q 1000 && "
                f"tc class add dev eth0 parent 1: classid 1:10 htb rate {USUAL_RATE} && "
                f"tc class add dev eth0 parent 1: classid 1:20 htb rate {SLOW_RATE}",
            )

    @staticmethod
    def address(node: int) -> str:
        """The address of a node, counted from 0."""
        return f"10.78.0.{node + 1}"

    def enter(self, place: int) -> list[str]:
        """What to put before a command to run it there: 0 is the switch, 1 the node 0."""
        target = f"--target={self.holders[place].pid}"
        # To enter mounts is to go to the root folder.
        return ["nsenter", target, "--net", "--uts", "--mount", "env", f"--chdir={Path.cwd()}"]

    def run(self, place: int, script: str) -> None:
        """Run a script there; it has to succeed."""
        done = subprocess.run(
            [*self.enter(place), "sh", "-c", script], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr

    def slow_node(self, node: int) -> None:
        """What the node sends is slow, whoever it is for."""
        self.run(node + 1, f"tc class change dev eth0 parent 1: classid 1:10 htb rate {SLOW_RATE}")

    def slow_link(self, a: int, b: int) -> None:
        """What the two nodes send each other is slow."""
        for node, other in ((a, b), (b, a)):
            match = f"u32 match ip dst {self.address(other)}/32 flowid 1:20"
            self.run(node + 1, f"tc filter add dev eth0 parent 1: protocol ip {match}")

    def cut_link(self, a: int, b: int) -> None:
        """What the two nodes send each other goes to a card that does not exist."""
        for node, other in ((a, b), (b, a)):
            target = f"{self.address(other)} lladdr 02:00:00:00:00:99 nud permanent dev eth0"
            self.run(node + 1, f"ip neigh replace {target}")

    def play(self, *options: str, timeout: float = 150) -> tuple[int, str, str]:
        """One rank on each node; the exit status, stdout and stderr of rank 0."""
        ranks = []
        for node in range(self.count):
            environ = {
                **os.environ,
                "RANK": str(node),
                "WORLD_SIZE": str(self.count),
                "LOCAL_RANK": "0",
                "LOCAL_WORLD_SIZE": "1",
                "MASTER_ADDR": self.address(0),
                "MASTER_PORT": "29511",
                "GLOO_SOCKET_IFNAME": "eth0",
                "OMP_NUM_THREADS": "1",
            }
            command = [sys.executable, str(SCRIPTS / TOOL), "--device", "cpu", *options]
            ranks.append(
                subprocess.Popen(
                    [*self.enter(node + 1), *command],
                    env=environ,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        try:
            out, errors = ranks[0].communicate(timeout=timeout)
            for rank in ranks[1:]:
                rank.communicate(timeout=30)
        finally:
            for rank in ranks:
                if rank.poll() is None:
                    rank.kill()
                    rank.wait(timeout=30)
        return ranks[0].returncode, out, errors

    def stop(self) -> None:
        """End the namespaces, and their network with them."""
        for holder in self.holders:
            holder.kill()
            holder.wait(timeout=30)
            if holder.stdout is not None:
                holder.stdout.close()


@contextlib.contextmanager
def open_wires(count: int, folder: Path) -> Iterator[Wires]:
    """A small network; the test is skipped where this machine has none to give."""
    if reason := explain_refusal():
        if os.environ.get("CI") == "true" and "apt-get" in reason:
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    wires = Wires(count, folder)
    try:
        yield wires
    finally:
        wires.stop()


def play_four(options: Sequence[str], spoil: Callable[[Wires], None], out: Path) -> Any:
    """Play a tournament of four nodes with one thing spoilt; status, stdout, stderr, JSON."""
    with open_wires(4, out.parent) as wires:
        spoil(wires)
        sizes = ["--size", "512K", "--num_iterations", "3", "--slower", "3"]
        done = wires.play(*sizes, *options, "--json", str(out))
    return *done, json.loads(out.read_text())


@pytest.mark.nightly
@pytest.mark.torch
def test_a_slow_node_of_a_real_network_is_named(tmp_path: Path) -> None:
    """A node whose card sends at a tenth of the rate is the one that is blamed."""
    status, table, errors, document = play_four(
        ["--confirm"], lambda wires: wires.slow_node(2), tmp_path / "out.json"
    )
    assert status == 1, errors
    assert document["details"]["slow_nodes"] == [2], table
    assert document["details"]["slow_links"] == document["details"]["unclear_pairs"] == []
    assert re.search(r"\| 2 \(node2\) +\| slow node \|", table)
    assert document["complete"] is True


@pytest.mark.nightly
@pytest.mark.torch
def test_a_slow_link_of_a_real_network_is_named(tmp_path: Path) -> None:
    """Two nodes that are slow to each other only have a slow link, and no node is blamed."""
    status, table, errors, document = play_four(
        [], lambda wires: wires.slow_link(1, 3), tmp_path / "out.json"
    )
    assert status == 1, errors
    assert document["details"]["slow_links"] == [[1, 3]], table
    assert document["details"]["slow_nodes"] == document["details"]["dead_nodes"] == []


@pytest.mark.nightly
@pytest.mark.torch
def test_a_dead_link_of_a_real_network_is_named(tmp_path: Path) -> None:
    """A pair that never answers is dead after --timeout, and the rest of the run goes on."""
    status, table, errors, document = play_four(
        ["--timeout", "20"], lambda wires: wires.cut_link(1, 2), tmp_path / "out.json"
    )
    assert status == 1, errors
    assert document["details"]["dead_links"] == [[1, 2]], table + errors
    assert document["details"]["dead_nodes"] == document["details"]["slow_nodes"] == []
    assert document["details"]["rounds_played"] == 3
