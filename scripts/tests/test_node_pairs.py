"""node_pairs: the schedule, verdicts on recorded noise and planted faults, and a slow network."""

from __future__ import annotations

import functools
import json
import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "network/node_pairs.py"
REPEATS = 5

Times = dict[tuple[int, int], list[float]]


@pytest.fixture(scope="module")
def noise() -> list[tuple[int, Times]]:
    """Ranks, and times of each pair in 8 to 12 repeats, of runs in which nothing was slow."""
    path = SCRIPTS / "tests" / "fixtures" / "node_pairs_noise.json"
    return [
        (run["ranks"], {tuple(map(int, p.split("-"))): t for p, t in run["microseconds"].items()})
        for run in json.loads(path.read_text())["runs"]
    ]


def play(module: Any, times: Times, rng: random.Random) -> Any:
    """The judgement of a run with repeats drawn from the recorded ones, which ends as soon as
    nothing looks slow."""
    judgement = None
    repeats = rng.sample(range(min(map(len, times.values()))), REPEATS)
    for count in range(1, REPEATS + 1):
        chosen = {pair: [column[i] for i in repeats[:count]] for pair, column in times.items()}
        judgement = module.judge(chosen, 1.2)
        if not judgement.looks_slow:
            break
    return judgement


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 120))
def test_every_pair_meets_once(module: Any, nodes: int) -> None:
    """For any number of nodes; nobody plays twice in a round, one rests where it is odd."""
    met: Counter[tuple[int, int]] = Counter()
    for number in module.order_rounds(nodes, None, 3):
        playing = module.make_round(nodes, number)
        assert len({node for pair in playing for node in pair}) == nodes - nodes % 2
        met.update(playing)
    assert met == Counter((a, b) for a in range(nodes) for b in range(a + 1, nodes))


@pytest.mark.parametrize("kind", ["nothing", "node", "link"])
def test_faults_in_recorded_noise(module: Any, noise: list[tuple[int, Times]], kind: str) -> None:
    """Of runs drawn from recorded noise of 3, 4 and 8 ranks, less than 1 % call anything slow. A
    planted factor of 20 is found in nine runs of ten, and nothing else is accused in 99 of 100."""
    rng = random.Random(0)
    found: Counter[int] = Counter()
    wrong: Counter[int] = Counter()
    trials: Counter[int] = Counter()
    for ranks, times in noise:
        group = ranks if kind == "nothing" else 0
        for _ in range(30 if group == 0 else 150):
            where = {"node": rng.randrange(ranks), "link": rng.choice(list(times))}.get(kind)
            planted = {
                pair: [20 * value if where in (*pair, pair) else value for value in column]
                for pair, column in times.items()
            }
            judgement = play(module, planted, rng)
            accused = {*judgement.nodes, *judgement.links}
            found[group] += where in accused
            wrong[group] += bool(accused - {where} or (group and judgement.unclear))
            trials[group] += 1
    assert set(trials) == ({3, 4, 8} if kind == "nothing" else {0})
    assert all(wrong[group] / trials[group] < 0.01 for group in trials), (wrong, trials)
    assert kind == "nothing" or found[0] / trials[0] > 0.9


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


def test_simulation_as_a_program(
    run_json: Callable[..., Any], tmp_path: Path, torch_trap: dict[str, str]
) -> None:
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


@pytest.mark.torch
def test_real_ranks(run_json: Callable[..., Any]) -> None:
    """Three ranks on this machine: every pair, with right sums and rates."""
    options = ["--device", "cpu", "--ranks", "3", "--size", "64K", "--slower", "1000"]
    done = run_json(TOOL, *options)
    assert done.returncode == 0, done.stderr
    rows = done.document["results"]
    assert sorted((row["node_a"], row["node_b"]) for row in rows) == [(0, 1), (0, 2), (1, 2)]
    for row in rows:
        assert (row["samples"], row["failure"]) == (10, None)
        assert row["busbw_bytes_per_second"] == pytest.approx(65536 / row["seconds_median"])


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.needs("root", "tc", "unshare", "setpriv")
@pytest.mark.parametrize("fault", ["node", "link"])
def test_a_real_network_with_a_fault(
    make_wires: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path, fault: str
) -> None:
    """A node that sends at a tenth of the rate is slow; two nodes that cannot reach each other
    have a dead link."""
    out, wires = tmp_path / "out.json", make_wires(4, "100mbit")
    if fault == "node":
        wires.limit(2, "change", "10mbit")
    else:
        for node, other in ((1, 2), (2, 1)):
            target = f"10.79.0.{other + 1} lladdr 02:00:00:00:00:99 nud permanent dev eth0"
            wires.run(node, f"ip neigh replace {target}")
    options = ["--size", "512K", "--num-iterations", "3", "--timeout", "20", "--slower", "2"]
    ranks = wires.play(SCRIPTS / TOOL, *options, "--json", str(out))
    assert ranks[0].returncode == 1, ranks[0].stdout
    details = read_json(out)["details"]
    names = ("slow_nodes", "slow_links", "slow_unclear")
    expected = [[2], [], []] if fault == "node" else [[], [[1, 2]], []]
    assert [details[name] for name in names] == expected, ranks[0].stdout
