"""mamf_finder: formula and statistics by hand, and real runs on the CPU with all their endings."""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "compute/mamf_finder.py"

# Many shapes of little work: such a run is still going whenever a test ends it.
ENDLESS = [
    *("--device", "cpu", "--m_range", "0", "1024", "8", "--n_range", "0", "1024", "8"),
    *("--k_range", "0", "1024", "8", "--num_iterations", "3", "--num_warmup_iterations", "0"),
    *("--accelerator_warmup_seconds", "0"),
]
SMALL = ["--toy", "--num_iterations", "6", "--accelerator_warmup_seconds", "0"]


@pytest.fixture(scope="module")
def mamf(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def make_row(mamf: Any, rate: float, **changes: Any) -> dict[str, Any]:
    """A result of one operation at that rate, steady and right unless changed."""
    row = {"m": 1, "n": 1, "k": 1, "dtype": "bfloat16", "device": "cuda:0", "operations": 1}
    row |= mamf.summarise_seconds([1 / rate] * 10, 1)
    row |= {"steady": True, "answer_ok": True, "above_peak": None, "throttle_reasons": None}
    row |= {"verdict": "ok", "verdict_reason": None}
    return row | changes


def make_timed_rows(mamf: Any, times: dict[tuple[int, int, int], Any]) -> list[dict[str, Any]]:
    """Judged results of shapes that took those seconds: a list, or one time for all 10 samples."""
    rows = []
    for sizes, taken in times.items():
        shape = mamf.Shape(*sizes)
        seconds = taken if isinstance(taken, list) else [taken] * 10
        row = make_row(mamf, 1.0, **shape._asdict(), operations=mamf.count_operations(*shape))
        row |= mamf.summarise_seconds(seconds, row["operations"])
        rows.append(row | {"steady": mamf.is_steady(row)})
    mamf.judge_rows(rows)
    return rows


def list_verdicts(rows: list[dict[str, Any]]) -> list[str]:
    """The verdicts in the order of the rows."""
    return [row["verdict"] for row in rows]


def test_operations_by_hand(mamf: Any) -> None:
    """A 2 x 3 by 3 x 2 product is 4 cells of 3 multiplications and 3 additions: 24."""
    assert mamf.count_operations(2, 2, 3) == 24
    assert mamf.count_operations(1024, 1024, 1024) == 2_147_483_648
    # A datasheet's 989 TFLOPS would do 8192 cubed in 1.11 ms.
    assert round(mamf.count_operations(8192, 8192, 8192) / 989e12 * 1e3, 2) == 1.11


def test_statistics_by_hand(mamf: Any) -> None:
    """1 2 3 4 10: median 3, mean 4, quartiles 2 and 4; the rates follow from the times."""
    row = mamf.summarise_seconds([10.0, 2.0, 3.0, 1.0, 4.0], 60)
    assert (row["samples"], row["seconds_median"], row["seconds_mean"]) == (5, 3.0, 4.0)
    assert (row["seconds_iqr"], row["seconds_min"], row["seconds_max"]) == (2.0, 1.0, 10.0)
    assert row["flops_per_second_median"] == 20.0
    assert row["flops_per_second_mean"] == 15.0
    assert row["flops_per_second_max"] == 60.0
    assert row["spread"] == pytest.approx(2 / 3)
    assert row["drift"] is None


@pytest.mark.parametrize(
    ("seconds", "iqr", "verdict", "doubt", "printed"),
    [
        ([0.5], None, "one sample", None, "~24"),
        ([0.4, 0.6], None, "few samples", 0.2, "24"),
        ([0.5, 0.4, 0.6], None, "few samples", 0.2, "24"),
        ([0.5, 0.5, 0.5, 0.5], 0.0, "ok", 0.0, "24.00"),
        ([0.4, 0.5, 0.5, 0.6], 0.05, "unsteady", 0.05, "24"),
    ],
)
def test_few_samples_have_no_spread(
    mamf: Any,
    seconds: list[float],
    iqr: float | None,
    verdict: str,
    doubt: float | None,
    printed: str,
) -> None:
    """Below 4 samples there are no quartiles: null, a dash, and a verdict that is not ok."""
    (row,) = make_timed_rows(mamf, {(1, 2, 3): seconds})
    assert row["samples"] == len(seconds)
    assert row["verdict"] == verdict
    assert mamf.estimate_doubt(row) == (doubt if doubt is None else pytest.approx(doubt))
    cells = mamf.format_rows([row], 1, "FLOPS", 1.0).splitlines()[2].split("|")
    assert cells[4].strip() == printed
    if iqr is None:
        assert row["seconds_iqr"] is row["spread"] is row["steady"] is None
        assert cells[7].strip() == "-"
    else:
        assert row["seconds_iqr"] == pytest.approx(iqr)
        assert cells[7].strip() == f"{200 * iqr:.1f}"
    few = [text for text in mamf.find_remarks(make_journal([row])) if "fewer than 4" in text]
    assert len(few) == (iqr is None)


def make_journal(rows: list[dict[str, Any]]) -> Any:
    """What the notes are made from."""
    return SimpleNamespace(rows=rows, devices=[])


def test_thread_scheduling_is_suspect(mamf: Any) -> None:
    """55 GFLOPS beside 0.26 with an IQR of nothing: 8 ms is not what arithmetic takes."""
    rows = make_timed_rows(
        mamf,
        {
            (64, 128, 128): 38e-6,
            (128, 64, 128): 8e-3,
            (128, 128, 128): 70e-6,
            (256, 256, 256): 8.4e-3,
        },
    )
    assert list_verdicts(rows) == ["ok", "suspect", "ok", "suspect"]
    # The first would fit into a larger one; the other could be done in 2 * 2 * 2 pieces.
    assert (
        "114 times the 70.0 µs of 128x128x128, which it would fit into"
        in (rows[1]["verdict_reason"])
    )
    assert "15 times the 560 µs of 8 pieces of the size 128x128x128" in rows[3]["verdict_reason"]
    (note,) = mamf.find_time_remarks(rows)
    assert note.startswith("2 of 4 results are suspect (the slowest: 128x64x128 on cuda:0")
    assert "OMP_NUM_THREADS" in note
    assert "pad it" in note


def test_suspicion_begins_at_a_factor_of_5(mamf: Any) -> None:
    """4.9 times what a larger product took is a slow kernel, 5 times is suspect."""
    for factor, verdict in ((4.9, "ok"), (5.01, "suspect")):
        rows = make_timed_rows(mamf, {(64, 64, 64): factor * 1e-3, (64, 64, 65): 1e-3})
        assert list_verdicts(rows) == [verdict, "ok"]
        rows = make_timed_rows(mamf, {(65, 64, 64): 2 * factor * 1e-3, (64, 64, 64): 1e-3})
        assert list_verdicts(rows) == [verdict, "ok"]


def test_most_samples_waited(mamf: Any) -> None:
    """A shape alone is suspect where its own fastest sample took a fifth of the median or less."""
    (row,) = make_timed_rows(mamf, {(64, 64, 64): [8e-3] * 9 + [4e-5]})
    assert row["spread"] == 0
    assert row["steady"] is True
    assert row["verdict"] == "suspect"
    assert "200 times its own fastest sample, 40.0 µs" in row["verdict_reason"]


def test_devices_are_judged_apart(mamf: Any) -> None:
    """A slow device beside a fast one is the business of the table of devices."""
    rows = [
        make_row(mamf, rate, device=device) for device, rate in (("cuda:0", 1.0), ("cuda:1", 9.0))
    ]
    mamf.judge_rows(rows)
    assert list_verdicts(rows) == ["ok", "ok"]


def test_wrong_or_impossible_rows_accuse_nobody(mamf: Any) -> None:
    """A product that is wrong, or above the peak, shows no faster way."""
    for fault, verdict in (({"answer_ok": False}, "WRONG ANSWER"), ({"above_peak": True}, None)):
        rows = [make_row(mamf, 1.0), make_row(mamf, 1e6, m=2, **fault)]
        mamf.judge_rows(rows)
        assert list_verdicts(rows) == ["ok", verdict or "above peak"]


@pytest.mark.parametrize(("fixed", "verdict"), [(5e-6, "overhead"), (8e-3, "suspect")])
def test_a_fixed_cost_is_not_arithmetic(mamf: Any, fixed: float, verdict: str) -> None:
    """Where the time does not depend on the shape: a launch of 5 µs is usual, 8 ms are not."""
    times = {(64, 64, 64): fixed, (64, 128, 64): 1.1 * fixed, (128, 128, 128): 1.2 * fixed}
    rows = make_timed_rows(mamf, {**times, (4096, 4096, 4096): 2 * fixed})
    assert list_verdicts(rows) == [verdict, verdict, verdict, "ok"]
    assert "64x64x64 and 128x128x128 both take about" in rows[1]["verdict_reason"]
    (note,) = mamf.find_time_remarks(rows)
    assert ("not by arithmetic" in note) == (verdict == "overhead")
    assert ("no launch takes so long" in note) == (verdict == "suspect")


def test_equal_times_that_arithmetic_or_memory_explains(mamf: Any) -> None:
    """More rows against one weight, or more tiles on an idle device, are free and still ok."""
    decode = {(m, 4096, 4096): 12e-6 for m in (1, 2, 4, 8, 16)}
    tiles = {(m, n, 8192): 60e-6 for m in (256, 2048) for n in (128, 2048)}
    for times in (decode, tiles):
        assert set(list_verdicts(make_timed_rows(mamf, times))) == {"ok"}


def model_gpu_seconds(shape: tuple[int, int, int], launch: float) -> float:
    """Waves of 256 x 128 tiles on 132 units, or the bytes from memory, and a launch.

    The device is an H100 SXM at 989 TFLOPS and 3.35 TB/s. Sizes that are no multiple of 8 take
    3 times as long.
    """
    m, n, k = shape
    waves = math.ceil(math.ceil(m / 256) * math.ceil(n / 128) / 132)
    arithmetic = waves * 132 * 2 * 256 * 128 * k / 989e12
    memory = 2 * (m * k + k * n + m * n) / 3.35e12
    return launch + max(arithmetic * (3 if n % 8 or k % 8 else 1), memory)


@pytest.mark.parametrize(
    ("grid", "expected"),
    [
        ([range(1024, 20480, 1024)] * 3, {"ok"}),
        ([range(1024, 16385, 1024), [4096, 8192], [4096, 8192]], {"ok"}),
        ([[1, 2, 4, 8, 16, 64], [4096, 8192, 28672], [4096, 8192]], {"ok"}),
        ([[4095, 4096, 4097, 8192]] * 3, {"ok"}),
        ([[64, 128, 2048], [64, 128, 2048], [64, 4096, 65536, 1048576]], {"ok"}),
        ([[16, 64, 256, 1024, 4096]] * 3, {"ok", "overhead"}),
    ],
)
def test_no_false_alarm_on_a_healthy_accelerator(
    mamf: Any, grid: list[Any], expected: set[str]
) -> None:
    """Waves, weights from memory, odd sizes, long sums and launches: nothing of it is suspect."""
    times = {
        shape: model_gpu_seconds(shape, 5e-6) * (1 + 0.03 * (i % 7))
        for i, shape in enumerate(itertools.product(*grid))
    }
    rows = make_timed_rows(mamf, times)
    assert set(list_verdicts(rows)) == expected
    for row in rows:
        if row["verdict"] == "overhead":
            arithmetic = row["operations"] / 989e12
            assert row["seconds_median"] > 10 * arithmetic


@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(1, 300), min_size=1, max_size=4, unique=True),
    st.floats(0, 9e-4),
    st.lists(st.floats(1, 4.9), min_size=1, max_size=9),
)
def test_no_false_alarm_whatever_the_grid(
    mamf: Any, sizes: list[int], others: list[int], fixed: float, slower: list[float]
) -> None:
    """Kernels that differ by less than a factor of 5, and a fixed cost: never suspect."""
    shapes = itertools.product(sizes, others, sizes)
    times = {
        shape: (fixed + mamf.count_operations(*shape) * 1e-9) * slower[i % len(slower)]
        for i, shape in enumerate(shapes)
    }
    rows = make_timed_rows(mamf, times)
    long = [row for row in rows if row["verdict"] == "suspect"]
    assert all("no launch takes so long" in row["verdict_reason"] for row in long)
    assert not long or fixed > 0


def test_a_stall_in_a_large_grid_is_found(mamf: Any) -> None:
    """With thousands of rows each is compared with the fastest of each octave of the sizes."""
    sizes = range(512, 10240, 512)
    times = {s: 1e-5 + 2 * math.prod(s) / 7e14 for s in itertools.product(sizes, repeat=3)}
    assert len(times) > mamf.COMPARED_ROWS
    stalled = [(512, 512, 512), (2560, 1024, 512), (5120, 512, 7680), (9728, 1024, 2048)]
    times |= {shape: 30 * times[shape] for shape in stalled}
    rows = make_timed_rows(mamf, times)
    assert [mamf.get_shape(row) for row in rows if row["verdict"] != "ok"] == stalled


def test_the_worst_verdict_is_given(mamf: Any) -> None:
    """A wrong answer outweighs all; a suspect time outweighs a spread that nobody knows."""
    row = make_row(mamf, 1.0, answer_ok=False, above_peak=True, steady=False)
    order = []
    for repaired in ({"answer_ok": True}, {"above_peak": False}, {"steady": True}):
        order.append(mamf.choose_verdict(row, is_overhead=True))
        row |= repaired
    assert order == ["WRONG ANSWER", "above peak", "unsteady"]
    assert mamf.choose_verdict(row, is_overhead=True) == "overhead"
    assert mamf.choose_verdict(row | {"samples": 1}, is_suspect=True) == "suspect"
    assert mamf.choose_verdict(row) == "ok"


def test_a_time_of_zero_gives_no_rate(mamf: Any) -> None:
    """A time that the clock could not see gives null, never infinity."""
    row = mamf.summarise_seconds([0.0, 0.0, 0.0], 1)
    assert row["flops_per_second_median"] is None
    assert row["spread"] is None
    assert not mamf.is_usable(row | {"answer_ok": True})


def test_drift_of_a_run_that_heats_up(mamf: Any) -> None:
    """Times that rise by a fifth between the halves are a drift of 20 % and not steady."""
    row = mamf.summarise_seconds([1.0] * 10 + [1.2] * 10, 1)
    assert row["drift"] == pytest.approx(0.2)
    assert not mamf.is_steady(row)
    assert mamf.is_steady(mamf.summarise_seconds([1.0] * 20, 1))


@given(st.lists(st.floats(1e-6, 1e3), min_size=4, max_size=50))
def test_statistics_keep_their_order(mamf: Any, seconds: list[float]) -> None:
    """min <= median <= max, the IQR fits between them, and the fastest time is the top rate."""
    row = mamf.summarise_seconds(seconds, 1000)
    assert row["seconds_min"] <= row["seconds_median"] <= row["seconds_max"]
    assert 0 <= row["seconds_iqr"] <= row["seconds_max"] - row["seconds_min"] + 1e-9
    assert row["flops_per_second_max"] >= row["flops_per_second_median"]


@pytest.mark.torch
@given(st.lists(st.floats(1e-6, 1e3), min_size=4, max_size=50))
def test_quartiles_are_those_of_torch(mamf: Any, seconds: list[float]) -> None:
    """The interquartile range is that of linear interpolation, as torch and numpy have it."""
    import torch

    values = torch.tensor(seconds, dtype=torch.float64)
    spread = float(values.quantile(0.75) - values.quantile(0.25))
    assert mamf.summarise_seconds(seconds, 1)["seconds_iqr"] == pytest.approx(spread, abs=1e-9)


def test_ranges(mamf: Any) -> None:
    """A start of 0 means the step, and the stop is left out."""
    assert mamf.expand_range(0, 1024, 256) == [256, 512, 768]
    assert mamf.expand_range(128, 513, 128) == [128, 256, 384, 512]
    for wrong, complaint in (
        ((0, 256, 256), "STOP is left out"),
        ((10, 5, 1), "has to be above START"),
        ((0, 10, 0), "STEP has to be at least 1"),
        ((-4, 8, 4), "START has to be at least 0"),
    ):
        with pytest.raises(mamf.WrongUse, match=complaint):
            mamf.expand_range(*wrong)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("45s", 45), ("10m", 600), ("1h30m", 5400), ("2h", 7200), ("1.5", 1.5)],
)
def test_durations(mamf: Any, text: str, seconds: float) -> None:
    """Durations are read as people write them."""
    assert mamf.parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "m", "10 m", "1d", "-5", "nan"])
def test_wrong_durations(mamf: Any, text: str) -> None:
    """What is no duration is refused."""
    with pytest.raises(argparse.ArgumentTypeError):
        mamf.parse_duration(text)


@given(*[st.lists(st.integers(1, 99), min_size=1, max_size=9, unique=True)] * 3)
def test_search_visits_every_shape_once(
    mamf: Any, m: list[int], n: list[int], k: list[int]
) -> None:
    """Whatever the grid, each of its shapes comes once."""
    visited = list(mamf.search_shapes((m, n, k)))
    assert sorted(visited) == sorted(itertools.product(m, n, k))


def test_search_has_a_fixed_order_that_spreads(mamf: Any) -> None:
    """The order is the same in every run, and a quarter of it has seen every size of m."""
    grid = ([1, 2, 3, 4], [5, 6, 7], [8, 9])
    first = list(mamf.search_shapes(grid))
    assert {shape.m for shape in first[:6]} == {1, 2, 3, 4}
    assert first == list(mamf.search_shapes(grid)) != sorted(first)


@pytest.mark.parametrize(
    ("value", "doubt", "text"),
    [
        (794.52, 4.0, "795"),
        (794.52, 0.3, "794.5"),
        (794.52, 0.0, "794.5"),
        (794.52, 30.0, "790"),
        (0.012345, 0.001, "0.012"),
        (9.9951, 0.02, "10.00"),
        (1234567.0, 0.0, "1235000"),
        (None, 1.0, "-"),
        # The user's row: an IQR of 7417 % leaves no digit of 15.07, and yet it is not 0.
        (15.07, 15.07 * 74.174 / 2, "~20"),
        (24.2, 15.07 * 74.174 / 2, "~20"),
        (60.0, 300.0, "~60"),
        (60.0, 59.0, "60"),
        (0.0026, 1.0, "~0.003"),
        (0.96, 2.0, "~1.0"),
        (794.52, None, "~790"),
        (0.26, None, "~0.26"),
    ],
)
def test_digits_are_earned(mamf: Any, value: float | None, doubt: float, text: str) -> None:
    """The last digit stands where the doubt begins, and none is finer than one per thousand."""
    assert mamf.format_earned(value, doubt) == text


@given(st.floats(1e-3, 1e6), st.floats(1e-6, 1e3))
def test_rounding_stays_within_the_doubt(mamf: Any, value: float, doubt: float) -> None:
    """What is printed differs from the value by no more than the doubt."""
    limit = max(doubt, value * 1e-3)
    printed = float(mamf.format_earned(value, doubt).removeprefix("~"))
    assert printed > 0, "what was measured is never printed as 0"
    assert abs(printed - value) <= limit * (1 + 1e-9)


def test_a_wide_spread_is_printed_as_rough(mamf: Any) -> None:
    """Neither table prints a measured rate or share as 0."""
    rows = make_timed_rows(mamf, {(64, 128, 64): [4.4e-5] * 3 + [7e-5] * 3 + [8e-3] * 4})
    table = mamf.format_rows(rows, 1, "GFLOPS", 1e9).splitlines()[2]
    best = mamf.format_best(mamf.summarise_rows(rows), "GFLOPS", 1e9, 989e12)
    assert [cell.strip() for cell in table.split("|")][4:7] == ["~10", "~0.3", "~20"]
    assert "| ~10 |" in " ".join(best.split())
    assert "| <0.1 |" in " ".join(best.split())
    assert mamf.format_share(0.0005) == "0.1"
    assert mamf.format_share(0.803) == "80.3"
    assert mamf.format_share(None) == "-"


def test_summary_by_hand(mamf: Any) -> None:
    """Rates 2 and 8: arithmetic mean 5, geometric mean 4, best 8; a wrong answer counts nowhere."""
    rows = [make_row(mamf, 2.0), make_row(mamf, 8.0, m=3)]
    rows.append(make_row(mamf, 100.0, m=7, answer_ok=False))
    summary = mamf.summarise_rows(rows)
    assert summary["arithmetic_mean_flops_per_second"] == pytest.approx(5)
    assert summary["geometric_mean_flops_per_second"] == pytest.approx(4)
    assert summary["best_by_median"]["m"] == 3
    assert (summary["shapes"], summary["usable_shapes"]) == (3, 2)


def test_above_the_peak_is_flagged_and_not_the_best(mamf: Any) -> None:
    """A rate above the peak is marked, and the best is the best of what can be true."""
    rows = [make_row(mamf, 2.0), make_row(mamf, 8.0, m=3)]
    flags = [mamf.judge_peak(row, 4.0) for row in rows]
    assert [flag["above_peak"] for flag in flags] == [False, True]
    assert flags[0]["share_of_peak"] == pytest.approx(0.5)
    assert mamf.summarise_rows(rows, 4.0)["best_by_max"]["m"] == 1
    assert mamf.judge_peak(rows[0], None) == {"share_of_peak": None, "above_peak": None}


def test_slowest_device_by_hand(mamf: Any) -> None:
    """Rates 9, 10 and 10 over the common shapes: cuda:1 is 10 % below the median device."""
    rows = [
        make_row(mamf, rate, device=device, m=m)
        for device, rate in (("cuda:0", 10.0), ("cuda:1", 9.0), ("cuda:2", 10.0))
        for m in (1, 2)
    ]
    rows.append(make_row(mamf, 1000.0, device="cuda:1", m=5))
    compared = mamf.compare_devices(rows)
    assert compared[0]["device"] == "cuda:1"
    assert compared[0]["relative"] == pytest.approx(-0.1)
    assert {entry["common_shapes"] for entry in compared} == {2}
    assert mamf.compare_devices([]) == []


def test_clock_samples_by_hand(mamf: Any) -> None:
    """Median clock and power, highest temperature, and every reason that was seen."""
    samples = [
        mamf.Sample(0.0, 1.98e9, 50, 400.0, 0x0),
        mamf.Sample(0.1, 1.70e9, 61, 699.0, 0x4),
        mamf.Sample(0.2, 1.60e9, 60, 700.0, 0x24),
    ]
    summary = mamf.summarise_samples(samples)
    assert summary["clock_hertz_median"] == 1.70e9
    assert summary["temperature_celsius_max"] == 61
    assert summary["power_watts_median"] == 699.0
    assert summary["throttle_reasons"] == "sw_power_cap sw_thermal_slowdown"
    assert set(mamf.summarise_samples([]).values()) == {None}


def test_traps_in_the_environment(mamf: Any) -> None:
    """TunableOp is spoken of on ROCm alone, tf32 overrides for float32 alone."""
    find = mamf.find_environment_traps
    assert "TunableOp is off" in find({}, "cuda", True, "bfloat16", 5)[0]
    tuned = find({"PYTORCH_TUNABLEOP_ENABLED": "1"}, "cuda", True, "bfloat16", 0)
    assert "TunableOp is on" in tuned[0]
    assert "num_warmup_iterations" in tuned[1]
    assert find({"PYTORCH_TUNABLEOP_ENABLED": "1"}, "cuda", False, "bfloat16", 5) == []
    override = {"NVIDIA_TF32_OVERRIDE": "1", "CUDA_LAUNCH_BLOCKING": "1"}
    assert len(find(override, "cuda", False, "float32", 5)) == 2
    assert len(find(override, "cuda", False, "bfloat16", 5)) == 1
    assert find(override, "cpu", False, "float32", 5) == []
    assert find({"ONEDNN_DEFAULT_FPMATH_MODE": "BF16"}, "cpu", False, "float32", 5)


def make_gpu(mamf: Any, hip: bool, **properties: Any) -> Any:
    """A device that is only its facts, for the rules that look at nothing else."""
    device = mamf.Device.__new__(mamf.Device)
    device.torch = SimpleNamespace(_scaled_mm=None)
    device.kind, device.is_rocm, device.name = "cuda", hip, "cuda:0"
    device.properties = SimpleNamespace(name="a GPU", **properties)
    return device


@pytest.mark.parametrize(
    ("hip", "properties", "dtype", "complaint"),
    [
        (False, {"major": 9, "minor": 0}, "float8_e4m3fn", None),
        (False, {"major": 9, "minor": 0}, "float8_e4m3fnuz", "use float8_e4m3fn"),
        (False, {"major": 8, "minor": 0}, "float8_e4m3fn", "compute capability 8.9"),
        (False, {"major": 8, "minor": 0}, "tf32", None),
        (False, {"major": 7, "minor": 0}, "tf32", "use float32"),
        (True, {"gcnArchName": "gfx942:sramecc+"}, "float8_e4m3fnuz", None),
        (True, {"gcnArchName": "gfx942:sramecc+"}, "float8_e4m3fn", "use float8_e4m3fnuz"),
        (True, {"gcnArchName": "gfx950"}, "float8_e4m3fn", None),
        (True, {"gcnArchName": "gfx950"}, "float8_e4m3fnuz", "use float8_e4m3fn"),
        (True, {"gcnArchName": "gfx942", "major": 9}, "tf32", "use float32"),
    ],
)
def test_the_right_flavour_of_float8(
    mamf: Any, hip: bool, properties: dict[str, Any], dtype: str, complaint: str | None
) -> None:
    """Each vendor's generation has its own float8; the other one is refused by name."""
    device = make_gpu(mamf, hip, **properties)
    grid = ([64], [64], [64])
    if complaint is None:
        device.check_dtype(dtype, grid)
        return
    with pytest.raises(mamf.WrongUse, match=complaint):
        device.check_dtype(dtype, grid)


def test_float8_sizes_on_a_gpu(mamf: Any) -> None:
    """On a GPU n and k of a float8 product have to be multiples of 16; m is free."""
    device = make_gpu(mamf, False, major=9, minor=0)
    device.check_dtype("float8_e4m3fn", ([7], [32], [48]))
    with pytest.raises(mamf.WrongUse, match="24 is not"):
        device.check_dtype("float8_e4m3fn", ([7], [32], [16, 24]))


def test_command_without_folders(mamf: Any) -> None:
    """The recorded command names no folder of this machine."""
    command = mamf.make_portable_command(["--json", "/home/alice/x.json", "--plot=/tmp/a.svg"])
    assert command[0] == "python"
    assert command[1].endswith("mamf_finder.py")
    assert command[2:] == ["--json", "x.json", "--plot=a.svg"]
    assert mamf.read_critical_environment({"PYTORCH_TUNABLEOP_FILENAME": "/home/a/t.csv"}) == {
        "PYTORCH_TUNABLEOP_FILENAME": "t.csv"
    }


def test_last_level_caches_are_added_up(mamf: Any, tmp_path: Path) -> None:
    """Two sockets with 32 MiB of L3 each are 64 MiB, however many threads share them."""
    for thread in range(4):
        for index, level, size, owner in ((2, 2, "1024K", thread), (3, 3, "32M", thread // 2)):
            folder = tmp_path / f"cpu{thread}/cache/index{index}"
            folder.mkdir(parents=True)
            (folder / "level").write_text(f"{level}\n")
            (folder / "size").write_text(f"{size}\n")
            (folder / "shared_cpu_list").write_text(f"{owner}\n")
    assert mamf.read_cpu_cache_bytes(tmp_path) == 64 * 1024**2
    assert mamf.read_cpu_cache_bytes(tmp_path / "none") == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--m", "0"], "no matrix size"),
        (["--m", "64", "--m_range", "0", "128", "64"], "not allowed with"),
        (["--m_range", "0", "64", "64"], "--m_range 0 64 64: no size is in it; STOP is left out"),
        (["--k_range", "10", "5", "1"], "--k_range 10 5 1: no size is in it"),
        (["--n_range", "1", "5", "0"], "--n_range 1 5 0: STEP has to be at least 1"),
        (["--num_iterations", "0"], "--num_iterations: '0' has to be a whole number from 1"),
        (["--num_warmup_iterations", "-1"], "--num_warmup_iterations: '-1' has to be a whole"),
        (["--top", "0"], "--top: '0' has to be a whole number from 1"),
        (["--budget", "soon"], "is no duration"),
        (["--peak", "-1"], "above 0"),
        (["--peak", "nan"], "above 0"),
        (["--fast_accumulation"], "is for float8"),
        (["--plot", "map.gif"], "has to end in .svg or .png"),
        (["--plot", "a.svg", "--m", "8", "--n", "8", "--k", "8"], "one shape makes no picture"),
        (["--device", "cpu", "--all_devices"], "not allowed with"),
        (["--resume", "nowhere.json"], "there is no nowhere.json"),
        (["--dtype", "int4"], "invalid choice"),
        (["--dev", "cpu"], "unrecognized arguments"),
    ],
)
def test_wrong_use_is_refused_without_torch(
    call_tool: Callable[..., Any], arguments: list[str], complaint: str
) -> None:
    """What makes no sense ends with status 2 and one clear line, before torch is imported."""
    done = call_tool(TOOL, *arguments, without_torch=True)
    assert done.returncode == 2, done.stderr
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_missing_matplotlib_is_said_before_measuring(
    call_tool: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A plot that could not be drawn is refused at once, with what to install."""
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name, *rest: None if name == "matplotlib" else find(name, *rest),
    )
    done = call_tool(TOOL, "--toy", "--plot", str(tmp_path / "a.svg"), without_torch=True)
    assert done.returncode == 2
    assert "--plot needs matplotlib: pip install matplotlib" in done.stderr


def test_missing_torch_is_one_line(call_tool: Callable[..., Any]) -> None:
    """Without torch the tool says how to get it."""
    done = call_tool(TOOL, "--toy", without_torch=True)
    assert done.returncode == 2
    assert "install it: https://pytorch.org" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.torch
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--toy", "--dtype", "tf32"], "use float32"),
        (["--device", "cuda:0"], "only cpu"),
        (["--device", "toaster"], "--device toaster"),
        (["--all_devices"], "sees no accelerator"),
        (["--devices", "cuda:0", "cuda:1", "--toy"], "only cpu"),
        (["--devices", "cuda:0", "cuda:0"], "cuda:0 is named twice"),
        (["--devices", "cpu", "cuda:0"], "name devices of one kind"),
    ],
)
def test_what_this_machine_cannot_do_is_refused(
    call_tool: Callable[..., Any], arguments: list[str], complaint: str
) -> None:
    """A device or data type that is not here is refused in one line."""
    torch = pytest.importorskip("torch")
    if torch.accelerator.is_available():
        pytest.skip("this machine has an accelerator")
    done = call_tool(TOOL, *arguments)
    assert done.returncode == 2, done.stderr
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.torch
def test_only_the_product_is_timed(mamf: Any) -> None:
    """A product of 20 ms is timed as 20 ms, though randomising and flushing take longer."""
    import torch

    device = mamf.Device(torch, "cpu")
    flush = torch.empty(256 * 1024**2, dtype=torch.uint8)
    problem = mamf.Problem(device, mamf.Shape(2048, 2048, 8), "float32", False)
    problem.multiply = lambda: time.sleep(0.02)
    started = time.perf_counter()
    seconds = mamf.time_products(device, problem, flush, 5, mamf.StopSign())
    outside = time.perf_counter() - started - sum(seconds)
    assert len(seconds) == 5
    assert all(value >= 0.02 for value in seconds)
    assert outside > 0.02, "the flush and the random numbers took no time, so they did not happen"


class HostEvent:
    """An event as torch's are, in milliseconds, read from the host's clock."""

    def record(self) -> None:
        """Take the time."""
        self.moment = time.perf_counter()

    def elapsed_time(self, end: HostEvent) -> float:
        """Milliseconds from this event to the other."""
        return (end.moment - self.moment) * 1e3


@pytest.mark.torch
def test_events_hold_only_the_product_and_give_seconds(mamf: Any) -> None:
    """With events, what lies between them is the product, and milliseconds become seconds."""
    import torch

    device = mamf.Device(torch, "cpu")
    device.has_events, device.make_event = True, HostEvent
    flush = torch.empty(256 * 1024**2, dtype=torch.uint8)
    problem = mamf.Problem(device, mamf.Shape(256, 256, 8), "float32", False)
    problem.multiply = lambda: time.sleep(0.02)
    seconds = mamf.time_products(device, problem, flush, 5, mamf.StopSign())
    assert len(seconds) == 5
    assert 0.02 <= sorted(seconds)[2] < 2.0  # 20 would be milliseconds


def test_sampler_reads_in_base_units(mamf: Any) -> None:
    """NVML's MHz and mW become hertz and watts, and a question that fails is passed over."""
    answers = iter([1980, 1755])

    class NVMLError(Exception):
        """What NVML raises."""

    def tell_clock(_handle: Any, _kind: int) -> int:
        try:
            return next(answers)
        except StopIteration:
            raise NVMLError from None

    nvml = SimpleNamespace(
        NVML_CLOCK_SM=1,
        NVML_TEMPERATURE_GPU=0,
        NVMLError=NVMLError,
        nvmlDeviceGetClockInfo=tell_clock,
        nvmlDeviceGetTemperature=lambda _handle, _kind: 61,
        nvmlDeviceGetPowerUsage=lambda _handle: 699_500,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda _handle: 4,
    )
    sampler = mamf.Sampler(nvml, None)
    begin = time.monotonic()
    sampler.start()
    wait_until(lambda: sampler.failures > 0)
    sampler.done.set()
    sampler.join(timeout=10)
    first, second = sampler.between(begin, time.monotonic())
    assert first[1:] == (1.98e9, 61, 699.5, 4)
    assert second.clock_hertz == 1.755e9
    assert sampler.between(0.0, begin) == []


@pytest.mark.torch
def test_a_product_that_does_nothing_is_found_out(mamf: Any) -> None:
    """The output is randomised before each timing, so that an old right answer cannot pass."""
    import torch

    device = mamf.Device(torch, "cpu")
    flush = torch.empty(1024, dtype=torch.uint8)
    problem = mamf.Problem(device, mamf.Shape(64, 48, 32), "float32", False)
    problem.multiply()
    assert mamf.measure_error(torch, problem) < mamf.ERROR_LIMITS["float32"]
    problem.multiply = lambda: None
    mamf.time_products(device, problem, flush, 1, mamf.StopSign())
    assert mamf.measure_error(torch, problem) > 0.1


@pytest.mark.torch
def test_tf32_would_not_pass_for_float32(mamf: Any) -> None:
    """Inputs cut to tf32's 10 bits give an error above float32's limit and below tf32's."""
    import torch

    device = mamf.Device(torch, "cpu")
    problem = mamf.Problem(device, mamf.Shape(64, 48, 4096), "float32", False)
    cut = [(m.view(torch.int32) & -8192).view(torch.float32) for m in (problem.a, problem.weight)]
    torch.mm(cut[0], cut[1].t(), out=problem.out)
    error = mamf.measure_error(torch, problem)
    assert mamf.ERROR_LIMITS["float32"] < error < mamf.ERROR_LIMITS["tf32"]


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "float32", "float8_e4m3fn", "float8_e4m3fnuz"]
)
def test_run_of_each_dtype(
    dtype: str, run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Each data type of the CPU gives a whole run with right answers and consistent rates."""
    path = tmp_path / "run.json"
    done = run_tool(TOOL, *SMALL, "--dtype", dtype, "--json", str(path))
    assert done.returncode == 0, done.stderr
    document = read_json(path)
    assert document["complete"] is True
    assert len(document["results"]) == 8
    for row in document["results"]:
        assert row["dtype"] == dtype
        assert row["answer_ok"] is True
        assert row["samples"] == 6
        assert row["operations"] == 2 * row["m"] * row["n"] * row["k"]
        for name, seconds in (("median", "median"), ("mean", "mean"), ("max", "min")):
            rate = row["operations"] / row[f"seconds_{seconds}"]
            assert row[f"flops_per_second_{name}"] == pytest.approx(rate)
    best = max(document["results"], key=lambda row: row["flops_per_second_median"])
    summary = document["details"]["summary"]["best_by_median"]
    assert [summary[name] for name in "mnk"] == [best[name] for name in "mnk"]


@pytest.mark.torch
def test_output_streams(call_tool: Callable[..., Any]) -> None:
    """stdout holds nothing but Markdown tables; command, platform and notes are on stderr."""
    done = call_tool(TOOL, *SMALL, environ={"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("| ") for line in done.stdout.splitlines() if line)
    assert "GFLOPS" in done.stdout
    assert "64x128x64" in done.stdout
    for text in (
        "command: python",
        "torch: ",
        "environment: ",
        "OMP_NUM_THREADS=1",
        "note: clocks",
    ):
        assert text in done.stderr


@pytest.mark.torch
def test_one_sample_in_table_and_json(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """A run of one sample says so in every row, also when it is resumed from an older JSON."""
    path = tmp_path / "run.json"
    command = ["--toy", "--num_iterations", "1", "--json", str(path)]
    for resume in ([], ["--resume", str(path)]):
        done = call_tool(TOOL, *command, *resume)
        assert done.returncode == 0, done.stderr
        document = read_json(path)
        for row in document["results"]:
            assert row["seconds_iqr"] is row["spread"] is row["steady"] is None
            assert row["verdict"] in ("one sample", "suspect")
        lines = [line.split("|") for line in done.stdout.splitlines()[-8:]]
        assert {line[7].strip() for line in lines} == {"-"}
        assert all(line[4].strip().startswith("~") for line in lines)
        assert "8 of 8 results have fewer than 4 samples" in done.stderr
        # As the earliest versions wrote it.
        for row in document["results"]:
            row |= {"seconds_iqr": 0.0, "spread": 0.0, "steady": True}
            del row["verdict"], row["verdict_reason"]
        path.write_text(json.dumps(document))


@pytest.mark.torch
def test_above_peak_ends_with_status_1(call_tool: Callable[..., Any]) -> None:
    """Rates above the peak are named as a problem, and no best is taken from them."""
    done = call_tool(TOOL, *SMALL, "--peak", "0.0000001")
    assert done.returncode == 1
    assert "8 results are above --peak" in done.stderr
    assert "above peak" in done.stdout
    assert done.stdout.splitlines()[2].split("|")[2].strip() == "-"


@pytest.mark.torch
def test_budget_ends_cleanly(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """A run of millions of shapes ends within its budget, with what it has and status 0."""
    path = tmp_path / "run.json"
    done = call_tool(TOOL, *ENDLESS, "--budget", "3s", "--json", str(path))
    assert done.returncode == 0, done.stderr
    document = read_json(path)
    assert document["complete"] is False
    assert document["results"]
    assert any("the budget is used up, after" in caveat for caveat in document["caveats"])


@pytest.mark.torch
def test_resume_measures_only_what_is_missing(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """The rows of the earlier run are kept to the digit, and marked; the rest is measured."""
    path = tmp_path / "run.json"
    again = [*SMALL, "--json", str(path), "--resume", str(path)]
    first = call_tool(TOOL, *again, "--m", "64")
    assert first.returncode == 0
    assert "starting anew" in first.stderr
    earlier = {(r["m"], r["n"], r["k"]): r["seconds_median"] for r in read_json(path)["results"]}
    assert len(earlier) == 4
    second = call_tool(TOOL, *again, "--m", "64", "128")
    assert second.returncode == 0, second.stderr
    document = read_json(path)
    resumed = [row for row in document["results"] if row["resumed"]]
    assert {(r["m"], r["n"], r["k"]): r["seconds_median"] for r in resumed} == earlier
    assert len(document["results"]) == 8
    assert document["complete"] is True
    assert any("4 of 8 shapes" in caveat for caveat in document["caveats"])


@pytest.mark.torch
def test_resume_refuses_unlike_numbers(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """Another data type, another number of samples, or no run at all: refused."""
    path = tmp_path / "run.json"
    assert call_tool(TOOL, *SMALL, "--m", "64", "--json", str(path)).returncode == 0
    resume = ["--resume", str(path)]
    for arguments, complaint in (
        ([*SMALL, "--dtype", "float32", *resume], "has dtype bfloat16"),
        (["--toy", "--num_iterations", "7", *resume], "has iterations 6"),
    ):
        done = call_tool(TOOL, *arguments)
        assert done.returncode == 2
        assert complaint in done.stderr
    for text in ("not json", "[]", '{"tool": "env_report"}'):
        path.write_text(text)
        done = call_tool(TOOL, *SMALL, *resume)
        assert done.returncode == 2, done.stderr
        assert "--resume" in done.stderr
        assert "Traceback" not in done.stderr


@contextmanager
def start_run(*arguments: str, temporary: Path) -> Iterator[subprocess.Popen[str]]:
    """A run in the background, with its temporary files in a folder that the test knows."""
    process = subprocess.Popen(
        [sys.executable, str(SCRIPTS / TOOL), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait for the condition, and fail where it does not come."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.05)


def find_processes(mark: str) -> list[int]:
    """Processes of this machine whose command line holds the text."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark in path.read_bytes().replace(b"\0", b" ").decode(errors="replace"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.torch
@pytest.mark.parametrize(
    "name",
    [
        "SIGINT",
        pytest.param("SIGTERM", marks=pytest.mark.nightly),
        pytest.param("SIGUSR1", marks=pytest.mark.nightly),
    ],
)
def test_signal_keeps_what_was_measured(
    name: str, read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Ctrl-C, SIGTERM and Slurm's warning end the run with a table and JSON marked as partial."""
    path = tmp_path / "run.json"
    with start_run(*ENDLESS, "--json", str(path), temporary=tmp_path) as process:
        wait_until(path.exists)
        process.send_signal(getattr(signal, name))
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 1, stderr
    document = read_json(path)
    assert document["complete"] is False
    assert document["results"]
    assert any(f"stopped by {name}" in caveat for caveat in document["caveats"])
    assert stdout.startswith("| Rate")
    assert "Traceback" not in stderr


@pytest.mark.torch
def test_two_processes_compare_their_devices(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Two processes at once give one JSON, one table of devices, and the slowest by name."""
    path = tmp_path / "node.json"
    done = run_tool(TOOL, *SMALL, "--devices", "cpu", "cpu", "--json", str(path))
    assert done.returncode == 0, done.stderr
    document = read_json(path)
    assert document["complete"] is True
    assert len(document["results"]) == 16
    assert {row["device"] for row in document["results"]} == {"cpu#0", "cpu#1"}
    slowest, fastest = document["details"]["devices"]
    assert slowest["relative"] <= 0 <= fastest["relative"]
    assert slowest["common_shapes"] == 8
    assert f"slowest device: {slowest['device']}" in done.stderr


@pytest.mark.nightly
@pytest.mark.torch
def test_resume_of_two_processes(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Each process of a resumed run takes over the shapes of its own device."""
    path = tmp_path / "node.json"
    again = [*SMALL, "--devices", "cpu", "cpu", "--json", str(path), "--resume", str(path)]
    assert run_tool(TOOL, *again, "--m", "64").returncode == 0
    done = run_tool(TOOL, *again)
    assert done.returncode == 0, done.stderr
    rows = read_json(path)["results"]
    kept = [row["device"] for row in rows if row["resumed"]]
    assert len(rows) == 16
    assert sorted(kept) == ["cpu#0"] * 4 + ["cpu#1"] * 4


@pytest.mark.nightly
@pytest.mark.torch
def test_signal_to_several_processes_keeps_what_was_measured(
    read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Ctrl-C on a node-wide run leaves one partial JSON with rows of all devices, no process."""
    path = tmp_path / "node.json"
    arguments = [*ENDLESS[2:], "--devices", "cpu", "cpu", "--json", str(path)]
    with start_run(*arguments, temporary=tmp_path) as process:
        wait_until(lambda: len(list(tmp_path.glob("mamf_*/cpu_[01].json"))) == 2)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 1, stderr
    document = read_json(path)
    assert document["complete"] is False
    assert {row["device"] for row in document["results"]} == {"cpu#0", "cpu#1"}
    assert any("stopped by SIGINT" in caveat for caveat in document["caveats"])
    assert "cpu#0" in stdout
    assert "Traceback" not in stderr
    assert find_processes(str(tmp_path)) == []
    assert list(tmp_path.glob("mamf_*")) == []


@pytest.mark.nightly
@pytest.mark.torch
def test_no_process_outlives_a_killed_parent(tmp_path: Path) -> None:
    """Where the leading process is killed outright, the measuring ones end by themselves."""
    arguments = [*ENDLESS[2:], "--devices", "cpu", "cpu"]
    with start_run(*arguments, temporary=tmp_path) as process:
        wait_until(lambda: len(list(tmp_path.glob("mamf_*/cpu_[01].json"))) == 2)
        assert len(find_processes(str(tmp_path))) == 2
        process.kill()
        wait_until(lambda: not find_processes(str(tmp_path)), 30)


@pytest.mark.nightly
@pytest.mark.torch
def test_killed_worker_is_named_and_the_rest_is_kept(
    read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """A device whose process dies is named; the other devices' results stay, status 1."""
    path = tmp_path / "node.json"
    arguments = [*ENDLESS[2:], "--devices", "cpu", "cpu", "--budget", "15s", "--json", str(path)]
    with start_run(*arguments, temporary=tmp_path) as process:
        wait_until(lambda: len(list(tmp_path.glob("mamf_*/cpu_[01].json"))) == 2)
        (victim,) = find_processes("--worker cpu#1 --json " + str(tmp_path))
        os.kill(victim, signal.SIGKILL)
        _, stderr = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "cpu#1 failed: ended by SIGKILL" in stderr
    assert "Traceback" not in stderr
    document = read_json(path)
    assert document["complete"] is False
    assert "cpu#0" in {row["device"] for row in document["results"]}


@pytest.mark.torch
@pytest.mark.parametrize(("suffix", "sizes"), [("svg", ["64", "128"]), ("png", ["64"])])
def test_plot(call_tool: Callable[..., Any], tmp_path: Path, suffix: str, sizes: list[str]) -> None:
    """The heat map is a picture with a panel for each pair of sizes; one varying size, a line."""
    pytest.importorskip("matplotlib")
    path = tmp_path / f"map.{suffix}"
    done = call_tool(TOOL, *SMALL, "--n", *sizes, "--k", *sizes, "--plot", str(path))
    assert done.returncode == 0, done.stderr
    if suffix == "png":
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 5000
        return
    root = ElementTree.parse(path).getroot()
    images = [node for node in root.iter() if node.tag.endswith("}image")]
    # Three pairs of m, n and k; each panel has its cells and its colour bar.
    assert len(images) == 6


@pytest.mark.torch
def test_same_rows_give_the_same_picture(mamf: Any, tmp_path: Path) -> None:
    """Two pictures of the same results are the same bytes."""
    pytest.importorskip("matplotlib")
    rows = [make_row(mamf, 1e12 * (m + n), m=m, n=n) for m in (1, 2, 3) for n in (1, 2)]
    for name in ("a.svg", "b.svg"):
        assert mamf.draw_heat_map(rows, tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert mamf.draw_heat_map(rows[:1], tmp_path / "c.svg") is False


def test_too_large_shapes_are_left_out(mamf: Any) -> None:
    """What a shape takes is known before it is made: bfloat16 of 1024 cubed is 6 MiB."""
    assert mamf.Problem.estimate_bytes(mamf.Shape(1024, 1024, 1024), "bfloat16") == 6 * 1024**2
    assert mamf.Problem.estimate_bytes(mamf.Shape(1024, 1024, 1024), "tf32") == 12 * 1024**2


@pytest.mark.torch
def test_shape_without_memory_is_skipped_and_said(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """A shape of terabytes is left out with a caveat; the run goes on and is not complete."""
    path = tmp_path / "run.json"
    done = call_tool(
        *(TOOL, *SMALL, "--m", "64", "40000000", "--n", "400000", "--k", "8"),
        *("--num_iterations", "1", "--num_warmup_iterations", "0", "--json", str(path)),
    )
    assert done.returncode == 0, done.stderr
    document = read_json(path)
    assert document["complete"] is False
    assert len(document["results"]) == 1
    assert document["details"]["shapes_skipped"] == [[40000000, 400000, 8]]
    assert any("has no memory" in caveat for caveat in document["caveats"])


def test_indices_of_the_checked_slice(mamf: Any) -> None:
    """The first and the last row are always among those that are checked."""
    assert mamf.pick_evenly(5, 16) == [0, 1, 2, 3, 4]
    picked = mamf.pick_evenly(4096, 16)
    assert len(picked) == 16
    assert picked[0] == 0
    assert picked[-1] == 4095


def test_choose_unit(mamf: Any) -> None:
    """Rates of a CPU are printed in GFLOPS, those of an accelerator in TFLOPS."""
    assert mamf.choose_unit([make_row(mamf, 9e11)]) == ("GFLOPS", 1e9)
    assert mamf.choose_unit([make_row(mamf, 9e11), make_row(mamf, 2e12)]) == ("TFLOPS", 1e12)
    assert math.isclose(mamf.choose_unit([])[1], 1e9)


BASELINE_OF_NOTHING = (
    '{"tool": "mamf_finder", "schema": 1, "keys": ["dtype", "m", "n", "k"], "records": [{}]}'
)
MACHINE = {
    "label": "h100",
    "cpu": {"model": "Xeon"},
    "accelerators": [{"vendor": "nvidia", "model": "NVIDIA H100"}] * 8,
}


def make_document(mamf: Any, rows: list[dict[str, Any]], **header: Any) -> dict[str, Any]:
    """What a run on an accelerator writes, as far as it is compared."""
    header = {"device_kind": "cuda", "device_model": "NVIDIA H100", "threads": None, **header}
    details = {"header": header, "settings": {"fast_accumulation": False}}
    return {"method": mamf.METHOD, "complete": True, "results": rows, "details": details}


def make_baseline(mamf: Any, rows: list[list[Any]], **changes: Any) -> dict[str, Any]:
    """A baseline of one record, of rows of dtype, m, n, k, rate and spread."""
    record = {
        "name": "mamf_finder/h100_20260801",
        "started": "2026-08-01T10:00:00Z",
        "method": mamf.METHOD,
        "hardware": mamf.describe_hardware(MACHINE),
        "nodes": 1,
        "ranks": 1,
        "settings": mamf.read_alike(make_document(mamf, [])),
        "rows": rows,
        "untrusted": [],
    }
    return {
        "schema": mamf.BASELINE_SCHEMA,
        "tool": "mamf_finder",
        "keys": mamf.COMPARE["keys"],
        "records": [record | changes],
    }


def test_a_run_beside_a_recorded_one_by_hand(mamf: Any) -> None:
    """700 of 800 TFLOPS is 87.5 %, and 5 % were expected at most: below, and not far."""
    document = make_document(mamf, [make_row(mamf, 700e12)])
    baseline = make_baseline(mamf, [["bfloat16", 1, 1, 1, 800e12, 0.02]])
    comparison = mamf.compare_run(document, baseline, "8 x NVIDIA H100")
    (sentence,) = comparison["sentences"]
    assert sentence == (
        "your 700.0 TFLOPS stands at 87.5 % of the recorded run of 2026-08-01 on 8 x NVIDIA H100 "
        "(mamf_finder/h100_20260801); expected 760 to 840: below"
    )
    assert mamf.list_compared(comparison["rows"])[1] == [
        *("bfloat16", "1", "1", "1", "cuda:0", "700.0", "800", "87.5", "760 to 840", "below")
    ]
    assert comparison["worse"] is True


@pytest.mark.parametrize(
    ("header", "record", "hardware", "reason"),
    [
        ({}, {}, "8 x NVIDIA H200", "is on 8 x NVIDIA H100, yours is on 8 x NVIDIA H200"),
        ({}, {"method": 9}, None, "is of method 9, yours is of method 1"),
        ({}, {"nodes": 2}, None, "is of 2 nodes, yours is of 1 node"),
        (
            {"device_kind": "cpu"},
            {},
            None,
            "is with device_kind cuda, yours is with device_kind cpu",
        ),
        ({"threads": 4}, {}, None, "is with threads null, yours is with threads 4"),
    ],
)
def test_an_unlike_run_is_not_compared(
    mamf: Any,
    header: dict[str, Any],
    record: dict[str, Any],
    hardware: str | None,
    reason: str,
) -> None:
    """Other hardware, method, nodes or device: it says which, and compares nothing."""
    document = make_document(mamf, [make_row(mamf, 700e12)], **header)
    baseline = make_baseline(mamf, [["bfloat16", 1, 1, 1, 800e12, 0.02]], **record)
    assert mamf.compare_run(document, baseline, hardware) == {
        "record": None,
        "sentences": [f"mamf_finder/h100_20260801 {reason}: not compared"],
    }


def test_another_power_limit_is_other_hardware(mamf: Any, tmp_path: Path) -> None:
    """With --facts the power limit of the accelerators is held against that of the record."""
    document = make_document(mamf, [make_row(mamf, 700e12)])
    baseline = make_baseline(mamf, [["bfloat16", 1, 1, 1, 800e12, 0.02]], power_limit="700 W")
    facts = tmp_path / "facts.json"
    machine = {
        "cpu": {},
        "accelerators": [{"model": "NVIDIA H100", "power_limit_watts": 500.0}] * 8,
    }
    facts.write_text(json.dumps({"machine": machine}))
    assert mamf.read_hardware(facts) == ("8 x NVIDIA H100", "500 W")
    comparison = mamf.compare_run(document, baseline, *mamf.read_hardware(facts))
    assert comparison["sentences"] == [
        (
            "mamf_finder/h100_20260801 is at a power limit of 700 W, yours is at one of 500 W: "
            "not compared"
        )
    ]
    unknown = mamf.compare_run(document, baseline, "8 x NVIDIA H100")
    assert unknown["sentences"][1] == "not checked: whether yours has a power limit of 700 W too"


def test_hardware_that_nobody_told_is_not_taken_for_checked(mamf: Any) -> None:
    """Without --facts the run is compared, and what could not be checked is said."""
    document = make_document(mamf, [make_row(mamf, 800e12)])
    baseline = make_baseline(mamf, [["bfloat16", 1, 1, 1, 800e12, 0.02]])
    comparison = mamf.compare_run(document, baseline, None)
    assert comparison["hardware_checked"] is False
    assert comparison["sentences"][1].startswith("not checked: whether yours is 8 x NVIDIA H100")


def test_the_baseline_beside_the_tool_can_be_read(mamf: Any) -> None:
    """The file that comes with the tool is one that it takes, of its own method."""
    baseline = mamf.read_baseline(mamf.OWN_BASELINE)
    width = len(mamf.COMPARE["keys"]) + 2
    for record in baseline["records"]:
        assert record["method"] == mamf.METHOD
        assert all(len(row) == width for row in record["rows"])


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "could not read"),
        ("hello", "is not JSON"),
        ("[]", "holds no object"),
        ('{"tool": "other", "records": []}', "is no baseline of mamf_finder"),
        ('{"tool": "mamf_finder", "records": [], "schema": 9}', "made for another version"),
        ('{"tool": "mamf_finder", "records": [], "schema": 1, "keys": ["m"]}', "another version"),
        (BASELINE_OF_NOTHING, "was changed by hand"),
    ],
)
def test_a_baseline_that_is_none_is_wrong_use(
    call_tool: Callable[..., Any],
    tmp_path: Path,
    content: str | None,
    complaint: str,
) -> None:
    """What cannot be compared with is refused before anything is measured."""
    path = tmp_path / "baseline.json"
    if content is not None:
        path.write_text(content)
    done = call_tool(TOOL, "--toy", "--compare", str(path), without_torch=True)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_facts_that_are_none_are_wrong_use(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """--facts goes with --compare, and takes what env_report has written."""
    path = tmp_path / "facts.json"
    path.write_text('{"machine": {}}')
    done = call_tool(TOOL, "--toy", "--facts", str(path), without_torch=True)
    assert (done.returncode, "--facts is for --compare" in done.stderr) == (2, True)
    done = call_tool(TOOL, "--toy", "--compare", "--facts", str(path), without_torch=True)
    assert (done.returncode, "was not written by env_report.py" in done.stderr) == (2, True)


def test_a_copied_tool_misses_its_baseline(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """A tool that was copied without the file beside it says what to copy."""
    copy = tmp_path / "mamf_finder.py"
    copy.write_bytes((SCRIPTS / TOOL).read_bytes())
    done = call_tool(copy, "--toy", "--compare", without_torch=True)
    assert done.returncode == 2
    assert "there is no mamf_finder.baseline.json beside this tool; copy it" in done.stderr


@pytest.mark.torch
def test_a_run_says_how_it_stands(
    mamf: Any,
    call_tool: Callable[..., Any],
    read_json: Callable[[Path], Any],
    tmp_path: Path,
) -> None:
    """The verdict stands below the tables and in the JSON, and the exit status is as without."""
    facts, first, second = (tmp_path / name for name in ("facts.json", "a.json", "b.json"))
    assert call_tool("env_report.py", "--no-torch", "--json", str(facts)).returncode == 0
    shape = ["--m", "64", "--n", "64", "--k", "64"]
    assert call_tool(TOOL, *SMALL, *shape, "--json", str(first)).returncode == 0
    document = read_json(first)
    (row,) = document["results"]
    hardware = mamf.describe_hardware(read_json(facts)["machine"])
    # A spread as wide as the value, so that no machine is too busy to be within it.
    rows = [["bfloat16", 64, 64, 64, row["flops_per_second_median"], 1e6]]
    changes = {"hardware": hardware, "settings": mamf.read_alike(document)}
    baseline = tmp_path / "baseline.json"
    baseline.write_text(json.dumps(make_baseline(mamf, rows, **changes)))
    compare = ["--compare", str(baseline), "--facts", str(facts)]
    done = call_tool(TOOL, *SMALL, *shape, "--json", str(second), *compare)
    assert done.returncode == 0, done.stderr
    comparison = read_json(second)["details"]["comparison"]
    verdict = read_json(second)["results"][0]["verdict"]
    if verdict in mamf.COMPARE["trusted"]["verdict"]:
        assert comparison["record"] == "mamf_finder/h100_20260801"
        assert comparison["hardware_checked"] is True
        assert comparison["sentences"][0] in done.stdout
        assert "| within" in done.stdout.replace("  ", " ")
    else:
        assert comparison["record"] is None
        assert f"verdict is '{verdict}' in yours" in done.stdout


@pytest.mark.torch
def test_a_disk_that_fills_costs_no_table(read_json: Callable[[Path], Any], tmp_path: Path) -> None:
    """Where the JSON cannot be written any more the run goes on, prints its table and says so."""
    path = tmp_path / "out.json"
    sizes = [str(16 * number) for number in range(1, 11)]
    command = [sys.executable, str(SCRIPTS / TOOL), "--device", "cpu", "--m", *sizes]
    command += ["--n", "16", "32", "--k", "16", "--num_iterations", "4"]
    command += ["--num_warmup_iterations", "1", "--accelerator_warmup_seconds", "0"]
    command += ["--json", str(path)]
    limit = f"ulimit -f 8; exec {shlex.join(command)}"  # in KiB: the first rows fit
    done = subprocess.run(
        ["bash", "-c", limit], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "| " in done.stdout
    assert "could not write" in done.stderr
    assert "the JSON has less than the table" in done.stderr
    assert 0 < len(read_json(path)["results"]) < 20
    assert [file.name for file in tmp_path.iterdir()] == ["out.json"]
