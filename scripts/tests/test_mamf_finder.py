"""mamf_finder: formulas and verdicts by hand, planted faults, and real runs on a CPU."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import statistics
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from testing_utils import execute_subprocess_async

TOOL = Path(__file__).resolve().parents[1] / "compute/mamf_finder.py"
SMALL = [
    *("--device", "cpu", "--m", "48", "64", "--n", "32", "--k", "64", "--num-iterations", "6"),
    *("--num-warmup-iterations", "1", "--accelerator-warmup-seconds", "0"),
]


def make_row(module: Any, seconds: list[float], **changes: Any) -> dict[str, Any]:
    """A right result of 12 FLOPs, judged."""
    peak = changes.pop("peak", None)
    row = {"m": 1, "n": 2, "k": 3, "device": "cuda:0", "stopped_early": False, "answer_ok": True}
    row |= {**module.summarize("seconds", seconds), **changes}
    row["flops_per_second_median"] = 12 / row["seconds_median"]
    row["flops_per_second_max"] = 12 / row["seconds_min"]
    return row | module.judge(row, peak)


@pytest.mark.parametrize(
    ("seconds", "changes", "verdict"),
    [
        ([1.0] * 8, {}, "ok"),
        ([1.0] * 8, {"stopped_early": True}, "stopped early"),
        ([5.0] * 7 + [1.0], {}, "suspect"),
        ([1.0] * 8, {"peak": 11.0}, "above peak"),
        ([1.0] * 8, {"peak": 11.0, "answer_ok": False}, "WRONG ANSWER"),
    ],
)
def test_verdicts(module: Any, seconds: list[float], changes: Any, verdict: str) -> None:
    """The worst that applies; only a row that can be believed can be the best."""
    row = make_row(module, seconds, **changes)
    assert row["verdict"] == verdict
    assert module.can_be_best(row) == (verdict not in ("stopped early", *module.IMPOSSIBLE))


def test_devices_are_compared_over_common_shapes(module: Any) -> None:
    """Rates 10, 9 and 10: cuda:1 is 10 % below the median device, whatever else it did."""
    rows = [
        make_row(module, [12 / rate] * 4, device=device, m=m)
        for device, rate in (("cuda:0", 10.0), ("cuda:1", 9.0), ("cuda:2", 10.0))
        for m in (1, 2)
    ]
    rows.append(make_row(module, [0.001] * 4, device="cuda:1", m=5))
    compared = module.compare_devices(rows)
    assert next(iter(compared)) == "cuda:1"
    assert compared == pytest.approx({"cuda:1": -0.1, "cuda:0": 0.0, "cuda:2": 0.0})


@pytest.mark.parametrize(
    ("hip", "facts", "right", "wrong"),
    [
        (None, {"major": 9}, "float8_e4m3fn", "float8_e4m3fnuz"),
        ("7", {"gcnArchName": "gfx942:sramecc+"}, "float8_e4m3fnuz", "float8_e4m3fn"),
        ("7", {"gcnArchName": "gfx950"}, "float8_e4m3fn", "tf32"),
    ],
)
def test_each_vendor_has_its_own_float8(
    module: Any, hip: str | None, facts: dict[str, Any], right: str, wrong: str
) -> None:
    """The other one is refused by name."""
    properties = SimpleNamespace(name="a GPU", **facts)
    cuda = SimpleNamespace(get_device_properties=lambda _: properties)
    torch = SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip=hip))
    module.check_dtype(torch, SimpleNamespace(type="cuda"), right)
    with pytest.raises(module.UsageError, match=f"{wrong} is .* use "):
        module.check_dtype(torch, SimpleNamespace(type="cuda"), wrong)


@pytest.mark.torch
def test_wrong_results_are_found(module: Any) -> None:
    """A matmul that does nothing, one wrong corner, a NaN anywhere, and tf32 as float32."""
    import torch

    torch.manual_seed(0)
    a, b = torch.randn(64, 4096), torch.randn(48, 4096)
    right = a @ b.t()
    limit = module.ERROR_LIMITS["float32"]
    assert module.measure_error(a, b, right) < limit
    assert module.measure_error(a, b, torch.rand(64, 48)) > 0.1
    corner, nan = right.clone(), right.clone()
    corner[-1, -1] += 10
    nan[20, 21] = math.nan
    assert module.measure_error(a, b, corner) > limit
    assert module.measure_error(a, b, nan) == math.inf
    cut = [(x.view(torch.int32) & -8192).view(torch.float32) for x in (a, b)]
    assert limit < module.measure_error(a, b, cut[0] @ cut[1].t()) < module.ERROR_LIMITS["tf32"]


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float8_e4m3fn"])
def test_run_of_each_dtype(module: Any, dtype: str, read_json: Any, tmp_path: Path) -> None:
    """Right answers, and rates that are FLOPs over seconds; going on measures only the rest."""
    path = tmp_path / "out.json"
    again = [*SMALL, "--dtype", dtype, "--json", str(path), "--resume", str(path)]
    assert module.main([*again, "--m", "48"]) == 0
    first = read_json(path)["results"]
    assert module.main(again) == 0
    document = read_json(path)
    assert document["complete"] is True
    kept, new = document["results"]
    assert kept == first[0]
    assert (new["m"], new["samples"], new["answer_ok"]) == (64, 6, True)
    assert new["operations"] == 2 * 64 * 32 * 64
    rate = new["operations"] / new["seconds_median"]
    assert new["flops_per_second_median"] == pytest.approx(rate)
    with pytest.raises(module.UsageError, match="has num_iterations 6, this run has 7"):
        module.main([*again, "--num-iterations", "7"])


@pytest.mark.torch
def test_a_shape_too_large_for_memory_is_skipped(
    module: Any, call_json: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other shapes are measured, and the run says that it is not whole."""
    measure = module.Bench.measure

    def fill(bench: Any, shape: Any, look: bool) -> Any:
        if shape[0] == 128:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 8 bytes")
        return measure(bench, shape, look)

    monkeypatch.setattr(module.Bench, "measure", fill)
    size = ("--m", "64", "128", "--n", "64", "--k", "64", "--num-iterations", "4")
    done = call_json(TOOL, "--device", "cpu", *size)
    assert [row["m"] for row in done.document["results"]] == [64]
    assert done.document["complete"] is False
    assert "1 of 2 shapes skipped: not enough memory" in done.stderr


@pytest.mark.torch
def test_a_budget_ends_an_adaptive_search(
    call_json: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 27,000 shapes those seen are kept, the most promising in full, and drawn."""
    pytest.importorskip("matplotlib")
    clock = itertools.count(0, 0.01)  # a busy machine sees as many shapes
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    plot = tmp_path / "map.png"
    ranges = [text for name in "mnk" for text in (f"--{name}-range", "0", "248", "8")]
    more = ["--device", "cpu", "--budget", "3s", "--num-iterations", "4", "--plot", str(plot)]
    few = ["--num-warmup-iterations", "0", "--accelerator-warmup-seconds", "0"]
    done = call_json("compute/mamf_finder.py", *ranges, *more, *few)
    assert done.returncode == 0
    document = done.document
    assert document["details"]["search"] == {"kind": "adaptive", "grid_shapes": 27_000}
    assert any("of 27000 shapes seen" in note for note in document["caveats"])
    assert {row["stopped_early"] for row in document["results"]} == {True, False}
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.torch
def test_two_ranks_measure_at_once(read_json: Any, tmp_path: Path) -> None:
    """One JSON of both, and the slower one is named."""
    path = tmp_path / "out.json"
    launch = "import sys; from kit.ranks import launch_ranks; sys.argv.pop(0); "
    command = [sys.executable, "-c", launch + "sys.exit(launch_ranks(2, sys.argv[1:]))", str(TOOL)]
    environ = {**os.environ, "PYTHONPATH": str(TOOL.parents[1])}
    execute_subprocess_async([*command, *SMALL, "--json", str(path)], environ, timeout=120)
    document = read_json(path)
    assert document["complete"] is True
    names = ["rank 0, cpu", "rank 1, cpu"]
    assert [row["device"] for row in document["results"]] == [n for n in names for _ in range(2)]
    assert [entry["device"] for entry in document["details"]["devices"]] == names
    assert any(note.startswith("slowest device first") for note in document["caveats"])


# The search, replayed without a device on a table recorded on a CPU.

RECORDED = Path(__file__).resolve().parent / "fixtures" / "mamf_exhaustive_cpu.json"
WARMUPS, ITERATIONS = 50, 100  # the tool's defaults

Sizes = tuple[int, int, int]
Landscape = dict[Sizes, tuple[float, float]]
"""Seconds of each shape, and their interquartile range."""


def replay(module: Any, table: Landscape, grid: Any, seed: int) -> tuple[Any, float]:
    """Run the search on a table; the best shape measured in full, and the seconds of all matmuls.

    Each sample is drawn from the shape's median and IQR.
    """
    noise = random.Random(seed)
    spent: list[float] = []
    full: dict[Sizes, float] = {}

    def measure(shape: Any, look: bool) -> Any:
        median, spread = table[shape]
        count = module.LOOK if look else WARMUPS + ITERATIONS
        drawn = [max(median / 2, noise.gauss(median, spread / 1.349)) for _ in range(count)]
        spent.append(sum(drawn))
        seconds = statistics.median(drawn[1:] if look else drawn[WARMUPS:])
        rate = 2 * math.prod(shape) / seconds
        if not look:
            full[shape] = rate
        row = {"seconds_median": seconds, "flops_per_second_median": rate, "verdict": "ok"}
        return {**dict(zip("mnk", shape, strict=True)), **row}

    module.search(measure, grid, WARMUPS + ITERATIONS, math.inf)
    return max(full, key=lambda shape: full[shape]), sum(spent)


@pytest.mark.parametrize("seeds", [1, pytest.param(50, marks=pytest.mark.nightly)])
def test_search_finds_the_best_of_a_table(module: Any, seeds: int) -> None:
    """99.5 % of the exhaustive best in a twentieth of the exhaustive time, for each seed."""
    rows = json.loads(RECORDED.read_text(encoding="utf-8"))["results"]
    table = {(r["m"], r["n"], r["k"]): (r["seconds_median"], r["seconds_iqr"]) for r in rows}
    grid = [sorted({shape[axis] for shape in table}) for axis in range(3)]
    whole = (WARMUPS + ITERATIONS) * sum(seconds for seconds, _ in table.values())
    best = max(math.prod(shape) / seconds for shape, (seconds, _) in table.items())
    for seed in range(seeds):
        shape, seconds = replay(module, table, grid, seed)
        assert math.prod(shape) / table[shape][0] >= 0.995 * best, (seed, shape)
        assert seconds <= whole / 20, (seed, seconds / whole)


def test_last_level_caches_are_added_up(module: Any, tmp_path: Path) -> None:
    """Two sockets with 32 MiB of L3 each are 64 MiB, however many threads share them."""
    for thread in range(4):
        folder = tmp_path / f"cpu{thread}/cache/index3"
        folder.mkdir(parents=True)
        (folder / "size").write_text("32768K\n")
        (folder / "shared_cpu_list").write_text(f"{thread // 2}\n")
    assert module.read_cpu_cache(tmp_path) == 64 * 1024**2
    assert module.read_cpu_cache(tmp_path / "none") == 0
