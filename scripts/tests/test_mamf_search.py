"""mamf_finder's adaptive search, replayed on exhaustive tables without the device.

Ground truths are a table that was recorded on a processor, and landscapes computed as a GPU works.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

TOOL = "compute/mamf_finder.py"
RECORDED = Path(__file__).resolve().parent / "fixtures" / "mamf_exhaustive_cpu.json"
WARMUPS, ITERATIONS = 50, 100  # the tool's defaults

Sizes = tuple[int, int, int]


@pytest.fixture(scope="module")
def mamf(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


class Gpu(NamedTuple):
    """A device as the landscapes know it: dense peak, memory, units, and its kernels' tiles."""

    flops_per_second: float
    bytes_per_second: float
    units: int
    tiles: dict[tuple[int, int], float]  # the share of the peak that a kernel of such tiles reaches
    power: float = 0.0  # how much slower a long product is, at the power limit


A100 = Gpu(312e12, 2.0e12, 108, {(256, 128): 0.88, (128, 256): 0.87, (128, 128): 0.85})
H100 = Gpu(989e12, 3.35e12, 132, {(256, 128): 0.82, (128, 256): 0.81, (128, 128): 0.74})
MI300X = Gpu(1307e12, 5.3e12, 304, {(256, 256): 0.62, (256, 128): 0.58, (128, 128): 0.52})
SMALL_TILES = {(128, 64): 0.6, (64, 64): 0.45}


def model_seconds(gpu: Gpu, shape: Sizes) -> float:
    """The time of a product by tile and wave quantisation.

    The output is cut into tiles of a x b; a last tile that is not full takes as long as a full
    one (tile quantisation). The units of the device take one tile each, wave after wave; a last
    wave that is not full takes as long as a full one (wave quantisation). So

        waves   = ceil(ceil(m / a) * ceil(n / b) / units)
        seconds = launch + max(waves * units * 2 * a * b * (k' + 256) / rate, bytes / bandwidth)

    with k' = k rounded up to 64, 256 steps of k for filling and emptying a tile's pipeline, and
    the kernel that is fastest for the shape. Rows of k that do not begin on 128 bytes cost 8 %,
    rows of the output 3 %; sizes that are no multiple of 8 take three times as long. At a power
    limit long products run at lower clocks.
    """
    m, n, k = shape
    depth = math.ceil(k / 64) * 64 + 256
    arithmetic = min(
        math.ceil(math.ceil(m / a) * math.ceil(n / b) / gpu.units)
        * gpu.units
        * (2 * a * b * depth / (share * gpu.flops_per_second))
        for (a, b), share in (gpu.tiles | SMALL_TILES).items()
    )
    if n % 8 or k % 8:
        arithmetic *= 3
    else:
        arithmetic *= (1.08 if k % 64 else 1.0) * (1.03 if n % 64 else 1.0)
    seconds = 5e-6 + max(arithmetic, 2 * (m * k + k * n + m * n) / gpu.bytes_per_second)
    return seconds * (1 + gpu.power * min(1.0, seconds / 5e-3))


def test_waves_by_hand() -> None:
    """132 tiles of 256 x 128 are one wave of an H100; one row more takes three of smaller tiles."""
    one = model_seconds(H100, (256 * 12, 128 * 11, 8192))
    two = model_seconds(H100, (256 * 12 + 1, 128 * 11, 8192))
    # 132 units * 2 * 256 * 128 * (8192 + 256) at 82 % of 989 TFLOPS, and the launch.
    assert one == pytest.approx(5e-6 + 132 * 2 * 256 * 128 * 8448 / (0.82 * 989e12))
    # The kernel of 128 x 128 does it in 25 * 11 tiles, 3 waves of half the work, at 74 %.
    assert two == pytest.approx(5e-6 + 3 * 132 * 2 * 128 * 128 * 8448 / (0.74 * 989e12))


class Table(NamedTuple):
    """A grid with the seconds of each shape, and their interquartile range."""

    grid: tuple[list[int], list[int], list[int]]
    seconds: dict[Sizes, tuple[float, float]]


def compute_table(gpu: Gpu, m: Sequence[int], n: Sequence[int], k: Sequence[int]) -> Table:
    """A landscape, with 0.2 % of roughness that belongs to the shape and an IQR of 1 %."""
    seconds = {}
    for shape in itertools.product(m, n, k):
        roughness = random.Random(str(shape)).gauss(0, 0.002)
        taken = model_seconds(gpu, shape) * (1 + roughness)
        seconds[shape] = (taken, 0.01 * taken)
    return Table((list(m), list(n), list(k)), seconds)


def read_table(path: Path) -> Table:
    """The recorded table; its caveats say how it was made."""
    rows = json.loads(path.read_text(encoding="utf-8"))["results"]
    seconds = {
        (row["m"], row["n"], row["k"]): (row["seconds_median"], row["seconds_iqr"]) for row in rows
    }
    grid = [sorted({shape[axis] for shape in seconds}) for axis in range(3)]
    return Table((grid[0], grid[1], grid[2]), seconds)


LANDSCAPES: dict[str, Callable[[], Table]] = {
    "H100 coarse": lambda: compute_table(H100, *[range(1024, 20480, 1024)] * 3),
    "H100 at its power limit": lambda: compute_table(
        H100._replace(power=0.08), *[range(1024, 20480, 1024)] * 3
    ),
    "H100 fine in m": lambda: compute_table(
        H100,
        range(256, 4097, 64),
        (2048, 3072, 4096, 6144, 8192, 12288),
        (1024, 2048, 4096, 8192, 16384, 28672),
    ),
    "H100 thousands": lambda: compute_table(H100, *[range(1000, 14001, 1000)] * 3),
    "A100": lambda: compute_table(A100, *[range(512, 8193, 512)] * 3),
    "A100 small and odd": lambda: compute_table(A100, *[range(96, 1249, 96)] * 3),
    "MI300X": lambda: compute_table(MI300X._replace(power=0.05), *[range(1024, 16385, 1024)] * 3),
    "recorded": lambda: read_table(RECORDED),
}


class Replay(NamedTuple):
    """What a search found and what it took, each as a share of what all of the grid has."""

    found: float
    steps: float
    seconds: float
    rows: list[dict[str, Any]]


def replay(mamf: Any, table: Table, seed: int, limit: int | None = None) -> Replay:
    """Run the search on a table: each sample is drawn from the shape's median and IQR."""
    torch = pytest.importorskip("torch")
    noise = random.Random(f"noise {seed}")
    products = WARMUPS + ITERATIONS
    limit = limit or len(table.seconds) // mamf.SEARCHED_SHARE
    plan = mamf.SearchPlan("adaptive", limit, seed)
    rows: list[dict[str, Any]] = []
    spent, steps = 0.0, 0
    for shape, bar in mamf.plan_steps(torch, table.grid, rows, plan, products):
        median, spread = table.seconds[shape]
        drawn: list[float] = []

        def draw(
            count: int,
            median: float = median,
            spread: float = spread,
            drawn: list[float] = drawn,
        ) -> list[float]:
            more = [max(0.5 * median, noise.gauss(median, spread / 1.349)) for _ in range(count)]
            drawn.extend(more)
            return more

        operations = mamf.count_operations(*shape)
        seconds = mamf.race(draw, operations, WARMUPS, bar)
        row = {**shape._asdict(), "operations": operations, "stopped_early": seconds is not None}
        row |= mamf.summarise_seconds(seconds or draw(ITERATIONS), operations)
        rows[:] = [known for known in rows if mamf.get_shape(known) != shape]
        rows.append(row | {"answer_ok": True, "above_peak": None})
        spent += sum(drawn)
        steps += 1
    best = mamf.get_shape(mamf.choose_best(rows))
    rates = {shape: math.prod(shape) / taken for shape, (taken, _) in table.seconds.items()}
    whole = products * sum(taken for taken, _ in table.seconds.values())
    share = rates[best] / max(rates.values())
    return Replay(share, steps / len(table.seconds), spent / whole, rows)


# Of the first 50 seeds this one misses the ridge where 44 x 24 tiles fill eight waves to the last
# unit, at two of 361 pairs of m and n: nothing near them hints at it.
MISSES = {"H100 at its power limit": {14}}
CHOSEN = os.environ.get("BINDERY_SEEDS", "")
"""Other seeds than the usual ones, for every landscape: `0,1,2`, or `0-49`."""


def list_seeds(usual: int) -> list[int]:
    if not CHOSEN:
        return list(range(usual))
    ranges = (part.partition("-") for part in CHOSEN.split(","))
    return [seed for first, _, last in ranges for seed in range(int(first), int(last or first) + 1)]


def check_replays(mamf: Any, name: str, seeds: Sequence[int]) -> None:
    """99.5 % of the best, in a twentieth of the shapes and of the time, for each seed."""
    table = LANDSCAPES[name]()
    replays = {seed: replay(mamf, table, seed) for seed in seeds}
    missed = {seed: done.found for seed, done in replays.items() if done.found < 0.995}
    assert missed.keys() <= MISSES.get(name, set()), missed
    assert min(done.found for done in replays.values()) > 0.98
    assert max(done.steps for done in replays.values()) <= 1 / 20
    assert max(done.seconds for done in replays.values()) <= 1 / 20


@pytest.mark.torch
@pytest.mark.parametrize("name", ["recorded", "A100 small and odd", "H100 fine in m"])
def test_search_finds_the_best_of_a_table(mamf: Any, name: str) -> None:
    """Two seeds on a recorded table and on two computed ones; the next test has all of them."""
    check_replays(mamf, name, range(2))


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.parametrize("name", LANDSCAPES)
def test_search_finds_the_best_for_50_seeds(mamf: Any, name: str) -> None:
    """99.5 % of the best in a twentieth of the shapes and of the time, wherever it begins: 50
    seeds on the recorded table, ten on each computed one; all 50 with BINDERY_SEEDS=0-49."""
    check_replays(mamf, name, list_seeds(50 if name == "recorded" else 10))


@pytest.mark.torch
def test_the_same_seed_takes_the_same_steps(mamf: Any) -> None:
    """A search can be repeated; another seed looks elsewhere first."""
    table = LANDSCAPES["A100 small and odd"]()
    first, again, other = (replay(mamf, table, seed) for seed in (7, 7, 8))
    assert [row["m"] for row in first.rows] == [row["m"] for row in again.rows]
    assert [row["m"] for row in first.rows] != [row["m"] for row in other.rows]


@pytest.mark.torch
def test_a_large_grid_is_searched_thinned_and_then_near_the_best(mamf: Any) -> None:
    """A million shapes take no more steps than were allowed, and the best is in the fine grid."""
    torch = pytest.importorskip("torch")
    sizes = list(range(64, 6401, 64))
    rows: list[dict[str, Any]] = []
    plan = mamf.SearchPlan("adaptive", 80, 0)
    for steps, (shape, bar) in enumerate(  # noqa: B007
        mamf.plan_steps(torch, (sizes, sizes, sizes), rows, plan, 150), 1
    ):
        seconds = model_seconds(H100, shape)
        operations = mamf.count_operations(*shape)
        row = {**shape._asdict(), "operations": operations, "answer_ok": True}
        row |= mamf.summarise_seconds([seconds] * 20, operations)
        row |= {"above_peak": None, "stopped_early": operations / seconds < (bar or 0)}
        rows[:] = [known for known in rows if mamf.get_shape(known) != shape]
        rows.append(row)
    assert 40 < steps <= 80
    best = mamf.choose_best(rows)
    assert best["flops_per_second_median"] > 0.75 * 989e12


@pytest.mark.torch
def test_shapes_without_memory_do_not_stop_the_search(mamf: Any) -> None:
    """What leaves no row is not asked for again, and the search goes on with the rest."""
    torch = pytest.importorskip("torch")
    table = compute_table(A100, *[range(512, 4097, 512)] * 3)
    rows: list[dict[str, Any]] = []
    asked = []
    for shape, _ in mamf.plan_steps(
        torch, table.grid, rows, mamf.SearchPlan("adaptive", 60, 0), 150
    ):
        asked.append(shape)
        if math.prod(shape) > 2048**3:
            continue
        operations = mamf.count_operations(*shape)
        row = {**shape._asdict(), "operations": operations, "answer_ok": True}
        row |= mamf.summarise_seconds([table.seconds[shape][0]] * 20, operations)
        rows.append(row | {"above_peak": None, "stopped_early": False})
    assert len(asked) == len(set(asked))
    assert rows


@pytest.mark.torch
def test_known_rows_are_where_a_resumed_search_begins(mamf: Any) -> None:
    """Rows of an earlier run count as steps, and are not measured again."""
    torch = pytest.importorskip("torch")
    table = LANDSCAPES["A100 small and odd"]()
    earlier = replay(mamf, table, 3, limit=40).rows
    known = {mamf.get_shape(row) for row in earlier if not row["stopped_early"]}
    plan = mamf.SearchPlan("adaptive", len(earlier), 3)
    assert list(mamf.plan_steps(torch, table.grid, earlier, plan, 150)) == []
    more = mamf.SearchPlan("adaptive", len(earlier) + 1, 3)
    (step,) = mamf.plan_steps(torch, table.grid, list(earlier), more, 150)
    assert step.shape not in known


def test_the_kinds_of_search(mamf: Any) -> None:
    """All, an even sample, or what was asked for; adaptive by itself on a large grid in a hurry."""
    options = mamf.build_parser().parse_args
    choose = mamf.choose_search
    assert choose(options([]), 8000) == ("exhaustive", 8000, 0)
    assert choose(options(["--budget", "10m"]), 8000) == ("adaptive", 400, 0)
    assert choose(options(["--budget", "10m"]), 599) == ("exhaustive", 599, 0)
    assert choose(options(["--search", "adaptive"]), 100) == ("adaptive", 30, 0)
    assert choose(options(["--search", "adaptive", "--seed", "7"]), 8) == ("adaptive", 8, 7)
    assert choose(options(["--search", "spread", "--evaluations", "50"]), 8000) == ("spread", 50, 0)
    for wrong in (["--evaluations", "5"], ["--seed", "5"], ["--search", "spread", "--seed", "1"]):
        with pytest.raises(mamf.WrongUse, match="is for --search adaptive"):
            choose(options(wrong), 8000)


def test_spread_is_the_beginning_of_exhaustive(mamf: Any) -> None:
    """An even sample is what a run over all shapes would measure first; known rows are left out."""
    grid = ([1, 2, 3, 4], [5, 6, 7], [8, 9])
    whole = [
        s.shape for s in mamf.plan_steps(None, grid, [], mamf.SearchPlan("exhaustive", 24, 0), 1)
    ]
    some = [s.shape for s in mamf.plan_steps(None, grid, [], mamf.SearchPlan("spread", 6, 0), 1)]
    assert whole == list(mamf.search_shapes(grid))
    assert some == whole[:6]
    rows = [{"m": whole[0].m, "n": whole[0].n, "k": whole[0].k}]
    left = [s.shape for s in mamf.plan_steps(None, grid, rows, mamf.SearchPlan("spread", 6, 0), 1)]
    assert left == whole[1:6]


def test_a_race_ends_as_soon_as_it_is_decided(mamf: Any) -> None:
    """Half the rate of the best is given up after 8 products; one percent below takes longer."""
    taken: list[int] = []

    def run(rate: float, bar: float | None, warmups: int = 50) -> int:
        noise = random.Random(0)
        taken.clear()

        def draw(count: int) -> list[float]:
            taken.append(count)
            return [noise.gauss(1 / rate, 0.01 / rate) for _ in range(count)]

        stopped = mamf.race(draw, 1, warmups, bar)
        assert stopped is None or len(stopped) == sum(taken) - mamf.RACE_UNCOUNTED
        return -1 if stopped is None else sum(taken)

    assert run(0.5, 1.0) == 8
    assert 8 <= run(0.98, 1.0) <= 50
    assert run(1.0, 1.0) == -1
    assert sum(taken) == 50
    # An infinite bar asks for a first look; without a bar, or a warm-up, there is no race.
    assert run(1.0, math.inf) == 8
    assert run(0.5, None) == -1
    assert run(0.5, 1.0, warmups=7) == -1
    assert taken == [7]


def test_reach_by_hand(mamf: Any) -> None:
    """Median 1 s, IQR 1.349 s of 100 samples: an error of 0.125 s, so 2.5 of them are 0.31 s."""
    row = {"seconds_median": 1.0, "seconds_iqr": 1.349, "samples": 100}
    assert mamf.estimate_reach(row, 1) == pytest.approx(1 / (1 - 2.5 * 0.12533))
    assert mamf.estimate_reach(row | {"samples": 4}, 1) == math.inf
    assert mamf.estimate_reach(row | {"seconds_iqr": None}, 1) == math.inf


def test_alignment_by_hand(mamf: Any) -> None:
    """The power of two up to 256, and how full the last tile of 64, 128 and 256 is."""
    assert mamf.measure_alignment(1024) == [2.0, 4.0, 4.0, 4.0]
    assert mamf.measure_alignment(96) == [5 / 4, 3.0, 3.0, 1.5]
    assert mamf.measure_alignment(1) == [0.0, 1 / 16, 1 / 32, 1 / 64]


def test_thinned_sizes_by_hand(mamf: Any) -> None:
    """Of each group the size with the highest power of two; near a size, its neighbours."""
    sizes = list(range(8, 97, 8))
    assert mamf.thin_sizes(sizes, 3) == [32, 64, 96]
    assert mamf.thin_sizes(sizes, 20) == sizes
    assert mamf.thin_sizes(sizes, 3, near=48) == [40, 48, 56]
    assert mamf.thin_sizes(sizes, 3, near=96) == [80, 88, 96]


@given(st.integers(0, 10**6), st.lists(st.integers(1, 30), min_size=3, max_size=3))
def test_the_even_sample_stays_in_the_grid(mamf: Any, seed: int, lengths: list[int]) -> None:
    """Each place is one of the grid; and of a line all places come in about twice as many."""
    places = list(itertools.islice(mamf.sample_evenly(seed, lengths), 100))
    assert all(0 <= place < math.prod(lengths) for place in places)
    line = itertools.islice(mamf.sample_evenly(seed, [1, 1, lengths[2]]), 4 * lengths[2])
    assert len(set(line)) == lengths[2]


@pytest.mark.torch
def test_the_model_is_exact_where_it_has_measured(mamf: Any) -> None:
    """It repeats what it was told, with little doubt, and knows less of what is far away."""
    torch = pytest.importorskip("torch")
    grid = ([64, 128, 1024, 8192], [64, 8192], [64, 8192])
    model = mamf.Surrogate(torch, grid, mamf.TRAITS[0])
    values = [0.0, -0.2, -0.4]
    for place in (0, 3, 15):
        model.learn(place)
    mean, deviation = model.predict(values)
    assert [float(mean[place]) for place in (0, 3, 15)] == pytest.approx(values, abs=0.01)
    assert float(deviation[0]) < 0.1 * float(deviation[8])
    # Far from all that is known the expected gain is that of doubt alone.
    gain = mamf.find_expected_gain(torch, torch.zeros(1), torch.ones(1))
    assert float(gain) == pytest.approx(1 / math.sqrt(2 * math.pi))


def test_rows_that_were_stopped_early_are_marked(mamf: Any) -> None:
    """Such a row is never the best, has a verdict of its own, and is not compared with records."""
    times = {(64, 64, 64): 1.0, (128, 64, 64): 1.0}
    rows = []
    for shape, taken in times.items():
        operations = mamf.count_operations(*shape)
        row = dict(zip("mnk", shape, strict=True)) | {"device": "cpu", "operations": operations}
        row |= mamf.summarise_seconds([taken] * 8, operations)
        rows.append(row | {"answer_ok": True, "above_peak": None, "steady": True})
        rows[-1]["stopped_early"] = shape[0] == 128
    mamf.judge_rows(rows)
    assert [row["verdict"] for row in rows] == ["ok", "stopped early"]
    assert mamf.summarise_rows(rows)["best_by_median"]["m"] == 64
    assert mamf.choose_best(rows)["m"] == 64
    assert "stopped early" not in mamf.COMPARE["trusted"]["verdict"]


@pytest.mark.torch
def test_an_adaptive_run(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """A run on the CPU looks at as many shapes as it may, is complete, and says what it is."""
    path = tmp_path / "run.json"
    sizes = ["0", "129", "16"]
    arguments = ["--device", "cpu", "--dtype", "float32", "--search", "adaptive"]
    for name in "mnk":
        arguments += [f"--{name}_range", *sizes]
    arguments += ["--num_iterations", "20", "--num_warmup_iterations", "10"]
    arguments += ["--accelerator_warmup_seconds", "0", "--json", str(path)]
    done = call_tool(TOOL, *arguments, environ={"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    document = read_json(path)
    assert document["complete"] is True
    search = document["details"]["search"]
    assert (search["kind"], search["grid_shapes"], search["limit"]) == ("adaptive", 512, 30)
    assert 8 <= search["shapes"] == len(document["results"]) <= 30
    stopped = [row for row in document["results"] if row["stopped_early"]]
    assert len(stopped) == search["shapes_stopped_early"]
    assert all(row["samples"] < 20 for row in stopped)
    whole = [row for row in document["results"] if not row["stopped_early"]]
    assert whole
    assert all(row["samples"] == 20 for row in whole)
    assert any("adaptive search on cpu, seed 0" in caveat for caveat in document["caveats"])


@pytest.mark.nightly
@pytest.mark.torch
def test_adaptive_on_two_devices(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Each device searches for itself, and the sample at the beginning is common to both."""
    path = tmp_path / "node.json"
    arguments = ["--devices", "cpu", "cpu", "--dtype", "float32", "--search", "adaptive"]
    for name in "mnk":
        arguments += [f"--{name}_range", "0", "65", "8"]
    arguments += ["--num_iterations", "6", "--num_warmup_iterations", "0"]
    arguments += ["--accelerator_warmup_seconds", "0", "--json", str(path)]
    done = run_tool(TOOL, *arguments, environ={"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    document = read_json(path)
    assert document["complete"] is True
    assert {row["device"] for row in document["results"]} == {"cpu#0", "cpu#1"}
    assert document["details"]["devices"][0]["common_shapes"] >= 8
