"""swiglu_search: widths and formulas by hand, a planted fault, and a real search on a CPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

TOOL = "compute/swiglu_search.py"
SMALL = [
    *("--device", "cpu", "--hidden", "96", "--batch-tokens", "16", "--window", "32"),
    *("--step", "16", "--dtype", "float32", "--num-iterations", "4"),
]


def make_options(**changes: Any) -> SimpleNamespace:
    """Settings of a small search."""
    usual = {"hidden": 4096, "tp": 1, "batch_tokens": 1, "dtype": "float32", "mode": "fwd"}
    usual |= {"peak": None, "num_iterations": 4, "num_warmup_iterations": 0}
    return SimpleNamespace(**{**usual, **changes})


def test_parameters_and_flops_by_hand(module: Any) -> None:
    """4096 and 10922: 134209536 parameters, twice as many FLOPs for a token."""
    row = module.make_row(make_options(), 10922, [1.0], 0.0)
    assert (row["parameters"], row["operations"]) == (134_209_536, 268_419_072)
    assert row["flops_per_second_median"] == row["operations"]
    # 3 tokens, 3 matrices of 2 x 4, a multiplication and an addition each.
    tiny = make_options(hidden=2, batch_tokens=3)
    assert module.make_row(tiny, 4, [1.0], 0.0)["operations"] == 3 * 3 * 8 * 2
    tiny.mode, tiny.tp = "fwd_bwd", 2
    assert module.make_row(tiny, 4, [1.0], 0.0)["operations"] == 3 * 72


def test_widths_by_hand(module: Any) -> None:
    """Within 64 of 10922 the multiples of 64 are 10880 and 10944; Llama 2 took 11008."""
    assert module.list_widths(4096, 1, 64, 64) == [10922, 10880, 10944]
    assert 11008 in module.list_widths(4096, 1, 128, 8)
    # With 8 ranks the shares have to be multiples of 64, so the widths are multiples of 512.
    assert module.list_widths(8192, 8, 512, 64) == [21840, 21504, 22016]
    with pytest.raises(module.UsageError, match="--window 4 has no multiple of --step"):
        module.list_widths(4096, 1, 4, 64)


@pytest.mark.parametrize(
    ("seconds", "error", "verdict"),
    [
        (1.0, 0.0, "ok"),
        (1e-9, 0.0, "above peak"),
        (1.0, 0.5, "WRONG ANSWER"),
        (1.0, float("nan"), "WRONG ANSWER"),
    ],
)
def test_verdicts(module: Any, seconds: float, error: float, verdict: str) -> None:
    """The worst that applies."""
    row = module.make_row(make_options(peak=1.0), 10944, [seconds] * 8, error)
    assert row["verdict"] == verdict
    assert row["alignment"] == 64


@pytest.mark.torch
@pytest.mark.parametrize(("dtype", "mode"), [("bfloat16", "fwd"), ("float32", "fwd_bwd")])
def test_the_answer_is_checked(
    module: Any, monkeypatch: pytest.MonkeyPatch, dtype: str, mode: str
) -> None:
    """It is right in each data type, and an activation that is 10 % off is found."""
    import torch

    options = make_options(hidden=64, batch_tokens=8, dtype=dtype, mode=mode)
    watch = module.Stopwatch(torch, torch.device("cpu"))
    seconds, error = module.measure(torch, watch, options, 176, module.Stop())
    assert len(seconds) == 4
    assert error < module.ERROR_LIMITS[dtype]
    silu = torch.nn.functional.silu
    wrong = lambda x: silu(x) * (1.0 if x.dtype == torch.float64 else 1.1)  # noqa: E731
    monkeypatch.setattr(torch.nn.functional, "silu", wrong)
    _, error = module.measure(torch, watch, options, 176, module.Stop())
    assert error > module.ERROR_LIMITS[dtype]


@pytest.mark.torch
def test_a_rate_above_the_peak_is_a_problem(module: Any, capsys: Any) -> None:
    """Of a whole search, with a row per width beside the baseline."""
    more = ["--tp", "2", "--mode", "fwd_bwd", "--peak", "0.0000001"]
    assert module.main([*SMALL, *more]) == 1
    out = capsys.readouterr().out
    widths = {line.split("|")[1].strip() for line in out.splitlines()[2:]}
    assert widths == {"224", "256 (8/3)", "288"}
