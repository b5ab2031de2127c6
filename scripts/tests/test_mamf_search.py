"""mamf_finder's adaptive search, replayed on exhaustive tables without a device.

The tables are one that was recorded on a CPU, and landscapes computed as a GPU works.
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

RECORDED = Path(__file__).resolve().parent / "fixtures" / "mamf_exhaustive_cpu.json"
WARMUPS, ITERATIONS = 50, 100  # the tool's defaults

Sizes = tuple[int, int, int]


@pytest.fixture(scope="module")
def mamf(load_tool: Callable[[str], Any]) -> Any:
    return load_tool("compute/mamf_finder.py")


class Gpu(NamedTuple):
    """A device: dense peak, memory, units, and the share of the peak that kernels reach by tile."""

    flops_per_second: float
    bytes_per_second: float
    units: int
    tiles: dict[tuple[int, int], float]
    power: float = 0.0  # how much slower a long matmul is, at the power limit


A100 = Gpu(312e12, 2.0e12, 108, {(256, 128): 0.88, (128, 256): 0.87, (128, 128): 0.85})
H100 = Gpu(989e12, 3.35e12, 132, {(256, 128): 0.82, (128, 256): 0.81, (128, 128): 0.74})
MI300X = Gpu(1307e12, 5.3e12, 304, {(256, 256): 0.62, (256, 128): 0.58, (128, 128): 0.52})
SMALL_TILES = {(128, 64): 0.6, (64, 64): 0.45}


def model_seconds(gpu: Gpu, shape: Sizes) -> float:
    """The time of a matmul by tile and wave quantization.

    The output is cut into tiles of a x b; the last one takes as long as a full one. The units take
    one tile each, wave after wave; the last wave takes as long as a full one. So

        waves   = ceil(ceil(m / a) * ceil(n / b) / units)
        seconds = launch + max(waves * units * 2 * a * b * (k' + 256) / rate, bytes / bandwidth)

    with k' = k rounded up to 64, 256 steps of k for a tile's pipeline, and the kernel that is
    fastest for the shape. Sizes that are no multiple of 64 or 8 cost more.
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
    """A grid, and per shape its seconds with their interquartile range."""

    grid: list[list[int]]
    look_up: Callable[[Sizes], tuple[float, float]]


def compute_table(gpu: Gpu, *axes: Sequence[int]) -> Table:
    """A landscape, with 0.2 % of roughness that belongs to the shape and an IQR of 1 %."""

    def look_up(shape: Sizes) -> tuple[float, float]:
        rough = 1 + random.Random(str(tuple(shape))).gauss(0, 0.002)
        seconds = model_seconds(gpu, shape) * rough
        return seconds, 0.01 * seconds

    return Table([list(sizes) for sizes in axes], look_up)


def read_table() -> Table:
    """The recorded table; its caveats say how it was made."""
    rows = json.loads(RECORDED.read_text(encoding="utf-8"))["results"]
    seconds = {(r["m"], r["n"], r["k"]): (r["seconds_median"], r["seconds_iqr"]) for r in rows}
    return Table([sorted({shape[axis] for shape in seconds}) for axis in range(3)], seconds.get)


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
    "recorded": read_table,
}


class Replay(NamedTuple):
    """What a search found, and the seconds of all matmuls it took."""

    best: Any
    seconds: float
    seen: int


def replay(mamf: Any, table: Table, seed: int) -> Replay:
    """Run the search on a table: each sample is drawn from the shape's median and IQR."""
    noise = random.Random(seed)
    spent: list[float] = []
    rows: dict[Sizes, Any] = {}

    def measure(shape: Any, bar: float) -> Any:
        known = rows.get(shape)
        if known and (bar == math.inf or not known["stopped_early"]):
            return known
        median, spread = table.look_up(shape)

        def draw(count: int) -> list[float]:
            drawn = [max(median / 2, noise.gauss(median, spread / 1.349)) for _ in range(count)]
            spent.append(sum(drawn))
            return drawn

        seconds = mamf.race(draw, shape.flops, WARMUPS, bar)
        row = {**shape._asdict(), "answer_ok": True, "above_peak": False}
        row |= {"stopped_early": bool(seconds)}
        row |= mamf.summarize("seconds", seconds or draw(ITERATIONS))
        row["flops_per_second_median"] = shape.flops / row["seconds_median"]
        rows[shape] = row
        return row

    best = mamf.search(measure, table.grid, WARMUPS + ITERATIONS, math.inf)
    return Replay(mamf.get_shape(best), sum(spent), len(rows))


def check_replays(mamf: Any, name: str, seeds: Sequence[int]) -> None:
    """99.5 % of the exhaustive best in a twentieth of the exhaustive time, for each seed."""
    table = LANDSCAPES[name]()
    shapes = list(itertools.product(*table.grid))
    whole = (WARMUPS + ITERATIONS) * sum(table.look_up(shape)[0] for shape in shapes)
    best = max(math.prod(shape) / table.look_up(shape)[0] for shape in shapes)
    for seed in seeds:
        done = replay(mamf, table, seed)
        found = math.prod(done.best) / table.look_up(done.best)[0]
        assert found >= 0.995 * best, (name, seed, done.best)
        assert done.seconds <= whole / 20, (name, seed, done.seconds / whole)


@pytest.mark.parametrize("name", ["recorded", "A100 small and odd", "H100 fine in m"])
def test_search_finds_the_best_of_a_table(mamf: Any, name: str) -> None:
    """On a recorded table and on two computed ones; the nightly test has all of them."""
    check_replays(mamf, name, range(1))


@pytest.mark.nightly
@pytest.mark.parametrize("name", LANDSCAPES)
def test_search_finds_the_best_of_all_tables(mamf: Any, name: str) -> None:
    """With other noise each time."""
    check_replays(mamf, name, range(50 if name == "recorded" else 5))


@pytest.mark.nightly
def test_a_large_grid_is_searched_thinned_and_then_near_the_best(mamf: Any) -> None:
    """Of a quarter of a million shapes 16,000 are seen, and the best is near the peak's 82 %."""
    table = compute_table(H100, *[range(128, 8193, 128)] * 3)
    done = replay(mamf, table, 0)
    assert done.seen <= 16_100
    rate = 2 * math.prod(done.best) / table.look_up(done.best)[0]
    assert rate > 0.95 * 0.82 * 989e12


def test_thinned_grids_by_hand(mamf: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each group the size with the most factors of two; near a shape, its neighbours."""
    monkeypatch.setattr(mamf, "LARGEST_GRID", 9)
    grid = [list(range(8, 97, 8)), [8, 16, 24], [8]]
    assert mamf.thin_grid(grid) == [[32, 64, 96], [8, 16, 24], [8]]
    assert mamf.thin_grid(grid, mamf.Shape(48, 16, 8)) == [[40, 48, 56], [8, 16, 24], [8]]
    assert mamf.thin_grid(grid, mamf.Shape(96, 16, 8))[0] == [80, 88, 96]


def test_every_shape_is_visited_once_and_early_ones_are_spread(mamf: Any) -> None:
    """A quarter of the order has seen every size of m."""
    grid = ([1, 2, 3, 4], [5, 6, 7], [8, 9])
    order = list(mamf.spread_shapes(grid))
    assert sorted(order) == sorted(itertools.product(*grid))
    assert {shape.m for shape in order[:6]} == {1, 2, 3, 4}


def test_a_race_ends_as_soon_as_it_is_decided(mamf: Any) -> None:
    """Half the rate of the best is given up after 8 samples; the best itself is warmed up."""

    def run(rate: float, bar: float | None, warmups: int = 50) -> tuple[int, int]:
        noise = random.Random(0)
        taken: list[int] = []

        def draw(count: int) -> list[float]:
            taken.append(count)
            return [noise.gauss(1 / rate, 0.01 / rate) for _ in range(count)]

        kept = len(mamf.race(draw, 1, warmups, bar))
        return kept, sum(taken)

    assert run(0.5, 1.0) == (5, 8)
    assert run(1.0, 1.0) == (0, 50)
    assert run(1.0, math.inf) == (4, 5)  # a look
    assert run(0.5, None) == (0, 50)
    assert run(0.5, 1.0, warmups=7) == (0, 7)  # too few to tell
