"""node_pairs: the schedule, verdicts on recorded noise and planted faults, and a slow network."""

from __future__ import annotations

import functools
import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "network/node_pairs.py"
NOISE = SCRIPTS / "tests/fixtures/node_pairs_noise.json"
REPEATS = 5


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 120))
def test_every_pair_meets_once(module: Any, nodes: int) -> None:
    """For any number of nodes; no node plays twice in a round, and one rests if it is odd."""
    met: Counter[tuple[int, int]] = Counter()
    for number in module.order_rounds(nodes, None, 3):
        playing = module.make_round(nodes, number)
        assert len({node for pair in playing for node in pair}) == nodes - nodes % 2
        met.update(playing)
    assert met == Counter((a, b) for a in range(nodes) for b in range(a + 1, nodes))


def test_recorded_noise_accuses_nobody(module: Any) -> None:
    """Of runs drawn from recorded noise of 3, 4 and 8 ranks, less than 1 % call anything slow."""
    rng, wrong, trials = random.Random(0), 0, 0
    for run in json.loads(NOISE.read_text())["runs"]:
        times = {tuple(map(int, p.split("-"))): t for p, t in run["microseconds"].items()}
        for _ in range(150):
            repeats = rng.sample(range(min(map(len, times.values()))), REPEATS)
            for count in range(1, REPEATS + 1):
                chosen = {
                    pair: [column[i] for i in repeats[:count]] for pair, column in times.items()
                }
                judgement = module.judge(chosen, 1.2)
                if not judgement.looks_slow:
                    break
            wrong += bool(judgement.nodes or judgement.links or judgement.unclear)
            trials += 1
    assert wrong / trials < 0.01


def simulate(module: Any, nodes: int, faults: dict[Any, float], *options: str) -> Any:
    """The judgement of a simulated tournament."""
    parsed = module.build_parser().parse_args(["--simulate", str(nodes), *options])
    report, noise = module.Report("node_pairs", "0.2.0", 2), random.Random(1)
    module.play(
        functools.partial(module.simulate, faults, noise), nodes, parsed, module.Stop(), report
    )
    return module.judge(module.collect_times(report.rows), parsed.slower)


@settings(max_examples=40, deadline=None)
@given(st.integers(3, 24), st.data())
def test_one_fault_of_any_kind_is_named(module: Any, nodes: int, data: Any) -> None:
    """In any cluster of 3 or more: one slow or dead node or link, and nothing else."""
    factor = data.draw(st.sampled_from([1.4, 2.0, 10.0, math.inf]))
    a, b = sorted(data.draw(st.permutations(range(nodes)))[:2])
    judgement = simulate(module, nodes, {a: factor})
    assert (list(judgement.nodes), judgement.links, judgement.unclear) == ([a], {}, {})
    judgement = simulate(module, nodes, {(a, b): factor})
    assert (judgement.nodes, list(judgement.links), judgement.unclear) == ({}, [(a, b)], {})
    judgement = simulate(module, nodes, {})
    assert (judgement.nodes, judgement.links, judgement.unclear) == ({}, {}, {})


def test_faults_in_4096_nodes_are_found_in_four_rounds(module: Any) -> None:
    """All 40 slow nodes and the 30 slow links that were measured, and nothing else."""
    rng = random.Random(1)
    nodes = rng.sample(range(4096), 40)
    seen = [p for r in module.order_rounds(4096, 4, 0) for p in module.make_round(4096, r)]
    links = [pair for pair in rng.sample(seen, 30) if not set(pair) & set(nodes)]
    faults: dict[Any, float] = {node: rng.choice([1.5, 2.0, 8.0, math.inf]) for node in nodes}
    faults |= {pair: rng.choice([1.5, 3.0, math.inf]) for pair in links}
    judgement = simulate(module, 4096, faults, "--rounds", "4")
    assert set(judgement.nodes) == set(nodes)
    assert set(judgement.links) == set(links)
    assert not judgement.unclear


def test_a_hiccup_passes(module: Any) -> None:
    """A pair that is slow in one repeat is not accused; nor is anybody by a single repeat."""
    healthy = {pair: [1.0, 1.0] for r in range(7) for pair in module.make_round(8, r)}
    judgement = module.judge({**healthy, (2, 5): [3.0, 1.0]}, 1.2)
    assert (judgement.links, judgement.limit) == ({}, 3.0)
    once = {pair: values[:1] for pair, values in healthy.items()}
    assert module.judge({**once, (2, 5): [3.0]}, 1.2).links == {}


def test_simulation_as_a_program(run_json: Any, tmp_path: Path, torch_trap: dict[str, str]) -> None:
    """It needs no torch, names node, link and dead node, and draws the map."""
    plot = tmp_path / "map.svg"
    options = ["--slow-node", "3:2", "--slow-node", "9:dead", "--slow-link", "11-4:3"]
    done = run_json(TOOL, "--simulate", "20", *options, "--plot", str(plot), environ=torch_trap)
    assert done.returncode == 1, done.stderr
    details = done.document["details"]
    assert details["slow_nodes"] == [3, 9]
    assert details["slow_links"] == [[4, 11]]
    assert "4 - 11 | slow link | 2.98" in done.stdout
    assert "<svg" in plot.read_text()
    assert "9 | slow node | no answer" in done.stdout


# The tool on a network where node 2 is slow (by a clock that a busy machine does not disturb), and
# nodes 0 and 1 cannot reach each other.
BROKEN = """
import types
measure, reduce = tool.Node.measure_pair, dist.all_reduce

class Gloo(dist.ProcessGroupGloo):
    def __init__(self, store, rank, size, **options):
        if playing == (0, 1) and size == 2:
            raise RuntimeError("no route to host")
        super().__init__(store, rank, size, **options)

def all_reduce(tensor):
    global now
    now += 0.2 if 2 in playing else 0.01
    reduce(tensor)

def measure_pair(node, pair, call):
    global playing
    playing = pair
    return measure(node, pair, call)

now = 0.0
tool.time = types.SimpleNamespace(**{**vars(time), "perf_counter": lambda: now})
dist.all_reduce, dist.distributed_c10d.ProcessGroupGloo = all_reduce, Gloo
tool.Node.measure_pair = measure_pair
"""


@pytest.mark.torch
def test_faults_of_real_ranks_are_found(run_broken: Any) -> None:
    """Four ranks on this machine: every pair is measured, and the slow node and the dead link are
    named."""
    options = ["--ranks", "4", "--num-iterations", "2", "--repeats", "2"]
    done = run_broken("node_pairs", BROKEN, *options)
    assert done.returncode == 1, done.stderr
    details = done.document["details"]
    names = ("slow_nodes", "slow_links", "slow_unclear")
    assert [details[name] for name in names] == [[2], [[0, 1]], []], done.stdout
    rows = {(row["node_a"], row["node_b"]): row for row in done.document["results"]}
    assert sorted(rows) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert rows[0, 1]["failure"] == "no route to host"
    for row in (rows[0, 3], rows[2, 3]):
        rate = 4 * 2**20 / row["seconds_median"]
        assert row["busbw_bytes_per_second"] == pytest.approx(rate)
