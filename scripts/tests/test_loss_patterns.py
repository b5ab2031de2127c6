"""loss_patterns: the parts of a training by hand, and what each experiment is made to show."""

from __future__ import annotations

import math
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
TOOL = "experiments/loss_patterns.py"


@pytest.fixture(scope="module")
def patterns(load_tool: Any) -> Any:
    torch.set_num_threads(1)
    return load_tool(TOOL)


def train(patterns: Any, **settings: Any) -> list[dict[str, Any]]:
    plan = patterns.Plan("test", steps=settings.pop("steps", 12), batch=4, **settings)
    return list(patterns.train(torch, plan, 0, patterns.Stop()))


def test_rounding_to_bfloat16(patterns: Any) -> None:
    """1.001 is 1 rounded to nearest, and 1.001 on average rounded stochastically."""
    values = torch.full((20_000,), 1.001)
    assert patterns.round_to_bfloat16(torch, values, None).unique().tolist() == [1.0]
    drawn = patterns.round_to_bfloat16(torch, values, torch.Generator().manual_seed(0))
    assert drawn.unique().tolist() == [1.0, 1 + 1 / 128]
    assert float(drawn.mean()) == pytest.approx(1.001, abs=2e-4)


def test_the_network_is_as_large_as_said(patterns: Any) -> None:
    """59,664 weights, and a loss near ln 27 before training."""
    assert len(patterns.make_weights(torch, 0)) == 59_664
    [row] = train(patterns, steps=1)
    assert row["loss"] == pytest.approx(math.log(27), abs=0.05)


def test_a_restart_can_forget_the_sampler(patterns: Any) -> None:
    """The demo has runs that forget nothing, and the moments."""
    assert train(patterns, stops=range(3, 12, 3), forgets="sampler") != train(patterns)


def test_a_skipped_step_changes_nothing(patterns: Any) -> None:
    """A bad batch after 20 good ones is skipped, clipped, or learnt."""
    ends = [
        train(patterns, steps=23, bad=range(21, 22), **more)[-1]["held_out_loss"]
        for more in ({}, {"clip": 1e-6}, {"skip": 1.1})
    ]
    assert len(set(ends)) == 3


def test_a_run_that_diverges_says_so(patterns: Any) -> None:
    """With None for what JSON does not have."""
    diverged = train(patterns, rate=1e30, warmup=0)[-1]
    assert (diverged["ended"], diverged["held_out_loss"]) == ("diverged", None)
