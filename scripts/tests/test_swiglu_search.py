"""swiglu_search: widths and formulas by hand, and real searches on the CPU."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "compute/swiglu_search.py"
SMALL = [
    *("--device", "cpu", "--hidden", "96", "--batch_tokens", "16", "--window", "32"),
    *("--step", "16", "--dtype", "float32", "--num_iterations", "4"),
]


@pytest.fixture(scope="module")
def swiglu(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def make_settings(swiglu: Any, **changes: Any) -> Any:
    """Settings of a small search."""
    return swiglu.SwigluSettings(4096, 1, 1, "float32", "fwd", 4, 1, 1, None)._replace(**changes)


def test_parameters_and_operations_by_hand(swiglu: Any) -> None:
    """The reference chapter's d_ff 10922 for 4096 has 134209536 parameters, 10944 has 134479872."""
    assert swiglu.choose_baseline(4096, 1) == 10922
    assert swiglu.count_parameters(4096, 10922) == 134_209_536
    assert swiglu.count_parameters(4096, 10944) == 134_479_872
    # 3 tokens, 3 matrices of 2 x 4, a multiplication and an addition each.
    tiny = make_settings(swiglu, hidden=2, batch_tokens=3)
    assert swiglu.count_mlp_operations(tiny, 4) == 3 * 3 * 8 * 2
    assert swiglu.count_mlp_operations(tiny._replace(mode="fwd_bwd"), 4) == 3 * 144
    assert swiglu.count_mlp_operations(tiny._replace(tp=2), 4) == 72


def test_widths_by_hand(swiglu: Any) -> None:
    """Within 64 of 10922 the multiples of 64 are 10880 and 10944; Llama 2 took 11008."""
    assert swiglu.list_widths(10922, 64, 64, 1) == [10922, 10880, 10944]
    assert 11008 in swiglu.list_widths(10922, 128, 8, 1)
    assert swiglu.find_alignment(11008) == 256
    assert swiglu.find_alignment(10922) == 2
    # With 8 ranks the shares have to be multiples of 64, so the widths are multiples of 512.
    assert swiglu.choose_baseline(8192, 8) == 21840
    assert swiglu.list_widths(21840, 512, 64, 8) == [21840, 21504, 22016]


@given(st.integers(1, 20000), st.integers(1, 16), st.integers(1, 600), st.integers(1, 128))
def test_every_width_can_be_shared(
    swiglu: Any, hidden: int, tp: int, window: int, step: int
) -> None:
    """Each width is whole for each rank, within the window, and the share is a multiple."""
    baseline = swiglu.choose_baseline(hidden, tp)
    assert baseline % tp == 0
    first, *widths = swiglu.list_widths(baseline, window, step, tp)
    assert first == baseline
    assert len(set(widths)) == len(widths)
    for width in widths:
        assert width > 0
        assert abs(width - baseline) <= window or baseline - window < step * tp
        assert width // tp * tp == width
        assert width // tp % step == 0


def test_alignments_by_hand(swiglu: Any) -> None:
    """The median of each alignment beside the best group's."""
    rows = [
        {"alignment": power, "flops_per_second_median": rate, "answer_ok": True}
        for power, rate in ((256, 4.0), (64, 3.0), (64, 5.0), (2, 1.0), (4, 3.0))
    ]
    groups = swiglu.group_alignments(rows)
    assert [(g["multiple_of"], g["widths"]) for g in groups] == [(256, 1), (64, 2), (1, 2)]
    assert [g["flops_per_second_median"] for g in groups] == [4.0, 4.0, 2.0]
    assert groups[-1]["relative"] == -0.5


def test_rows_beside_the_baseline(swiglu: Any) -> None:
    """Half the time is twice the rate; a wrong answer and a rate above the peak are named."""
    setup = make_settings(swiglu, hidden=2, peak_flops_per_second=1000.0)
    rows = [
        swiglu.make_width_row(setup, 4, width, [seconds] * 8)
        for width, seconds in ((4, 1.0), (8, 1.0), (12, 1e-3), (16, 2.0))
    ]
    swiglu.compare_widths(rows, {4: 0.0, 8: 0.0, 12: 0.0, 16: 0.5})
    assert [row["relative"] for row in rows[:2]] == [0.0, 1.0]
    assert [row["verdict"] for row in rows] == ["ok", "ok", "above peak", "WRONG ANSWER"]
    assert [row["is_baseline"] for row in rows] == [True, False, False, False]


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_mlp_against_float64(swiglu: Any, dtype: str) -> None:
    """The answer is right in each data type, forward and backward, and a fault is found."""
    import torch

    setup = make_settings(swiglu, hidden=64, batch_tokens=8, dtype=dtype, mode="fwd_bwd")
    torch.manual_seed(0)
    mlp = swiglu.Mlp(torch, torch.device("cpu"), setup, 176)
    mlp.call()
    assert mlp.measure_error() < swiglu.ERROR_LIMITS[dtype]
    found = mlp.forward().detach()
    found[0, 0] += 1.0
    mlp.forward = lambda: found
    assert mlp.measure_error() > swiglu.ERROR_LIMITS[dtype]
    found[-1, -1] = math.nan
    assert mlp.measure_error() == math.inf


@pytest.mark.torch
def test_a_whole_search(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Tables of widths and alignments; the JSON has a row for each width, with tp in it."""
    path = tmp_path / "out.json"
    done = call_tool(
        TOOL, *SMALL, "--tp", "2", "--mode", "fwd_bwd", "--json", str(path),
        environ={"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "| 256 (8/3)" in done.stdout
    assert "Share is a multiple of" in done.stdout
    document = read_json(path)
    assert document["complete"] is True
    assert [row["d_ff"] for row in document["results"]] == [224, 256, 288]
    for row in document["results"]:
        assert row["samples"] == 12
        assert row["answer_ok"] is True
        assert row["d_ff_per_rank"] == row["d_ff"] // 2
        assert row["operations"] == 3 * 6 * 16 * 96 * row["d_ff_per_rank"]
        rate = row["operations"] / row["seconds_median"]
        assert row["flops_per_second_median"] == pytest.approx(rate)
    assert any("one rank's share of 2" in caveat for caveat in document["caveats"])


@pytest.mark.torch
def test_above_the_peak_is_a_problem(call_tool: Callable[..., Any]) -> None:
    """Rates above --peak end with status 1."""
    done = call_tool(TOOL, *SMALL, "--peak", "0.0000001", environ={"OMP_NUM_THREADS": "1"})
    assert done.returncode == 1
    assert "rates above --peak" in done.stderr


@pytest.mark.nightly
@pytest.mark.torch
def test_ctrl_c_keeps_the_widths_so_far(read_json: Callable[[Path], Any], tmp_path: Path) -> None:
    """A search that is stopped has a table, and JSON marked as partial."""
    path = tmp_path / "out.json"
    arguments = [*SMALL, "--rounds", "100000", "--json", str(path)]
    process = subprocess.Popen(
        [sys.executable, str(SCRIPTS / TOOL), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        until = time.monotonic() + 120
        while not path.exists() and time.monotonic() < until:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, notes = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 1, notes
    assert read_json(path)["complete"] is False
    assert "stopped by SIGINT" in notes
    assert "Traceback" not in notes


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--hidden", "0"], "whole number from 1"),
        (["--hidden", "2", "--tp", "8"], "has fewer columns"),
        (["--window", "4", "--step", "64"], "holds no multiple of --step times --tp, 64"),
        (["--mode", "bwd"], "invalid choice"),
    ],
)
def test_wrong_use(call_tool: Callable[..., Any], arguments: list[str], complaint: str) -> None:
    """What makes no sense ends with status 2 and one clear line, before torch is imported."""
    done = call_tool(TOOL, *arguments, without_torch=True)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
