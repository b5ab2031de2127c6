"""compile_bench: formulas by hand, planted faults, and real runs on a CPU."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

TOOL = "training/compile_bench.py"
SMALL = [
    *("--device", "cpu", "--hidden", "64", "--batch", "1", "--sequence", "8", "--dtype", "float32"),
    *("--num-iterations", "6", "--model", "mlp"),
]
CAPTURE = [*SMALL, "--backend", "aot_eager"]


@pytest.fixture
def run(call_json: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the tool, which sets the folders of compiler caches."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    return lambda *arguments: call_json(TOOL, *CAPTURE, *arguments)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("seconds", "speedup", "steps"), [(0.07, 0.1 / 0.07, 1000), (0.2, 0.5, None)]
)
def test_break_even_by_hand(
    module: Any,
    run: Any,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float,
    speedup: float,
    steps: float | None,
) -> None:
    """30 s of compiling, 100 ms eager, 70 ms compiled: ahead after 1000 steps."""
    import torch

    def measure(_torch: Any, _options: Any, variant: str, _stop: Any) -> Any:
        taken = 0.1 if variant == "eager" else seconds
        row = module.summarize("seconds", [taken] * 8)
        return row | {"first_call_seconds": 30 + taken, "verdict": "ok"}, torch.ones(3)

    monkeypatch.setattr(module, "measure", measure)
    row = run().document["results"][1]
    assert row["speedup"] == pytest.approx(speedup)
    assert row["compile_seconds"] == pytest.approx(30)
    assert row["break_even_calls"] == (steps and pytest.approx(steps))


@pytest.mark.torch
@pytest.mark.parametrize(("model", "is_whole"), [("block", True), ("broken", False)])
def test_each_model(run: Any, model: str, is_whole: bool) -> None:
    """Each gives eager's output and gradient; only the broken one has breaks, with a reason."""
    # At a break torch warns of a gradient, which these tests take for an error.
    document = run("--model", model, *(["--backward"] if is_whole else [])).document
    eager, compiled = document["results"]
    assert (eager["variant"], compiled["variant"]) == ("eager", "aot_eager")
    assert (compiled["answer_ok"], compiled["samples"]) == (True, 6)
    assert compiled["first_call_seconds"] > compiled["compile_seconds"] > 0
    assert (compiled["graphs"] == 1) is (compiled["graph_breaks"] == 0) is is_whole
    assert document["caveats"] == [] if is_whole else "graph break: " in document["caveats"][0]


@pytest.mark.torch
@pytest.mark.parametrize("fault", ["wrong", "refused"])
def test_a_mode_that_is_wrong_or_fails_leaves_eager(
    run: Any, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """A compiler that changes the answer by 1 %, and one that refuses."""
    import torch

    def compile_badly(model: Any, **_: Any) -> Any:
        if fault == "refused":
            raise RuntimeError("no compiler today\nand more")
        return lambda x: model(x) * 1.01

    monkeypatch.setattr(torch, "compile", compile_badly)
    done = run()
    assert done.returncode == 1
    eager, bad = done.document["results"]
    assert eager["answer_ok"] is True
    assert bad["verdict"] == ("WRONG ANSWER" if fault == "wrong" else "failed")
    assert done.document["complete"] is (fault == "wrong")
    failure = "aot_eager failed: no compiler today"
    assert (failure in done.document["caveats"]) is (fault == "refused")


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.needs("g++")
def test_inductor_with_a_warm_cache(run_json: Any, tmp_path: Path) -> None:
    """The model is really compiled, a second run finds the cache, and nothing else is left."""
    environ = {"OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    seconds = []
    for _ in range(2):
        options = ("--cache", str(tmp_path / "cache"))
        done = run_json(TOOL, *SMALL, *options, environ=environ, timeout=900)
        assert done.returncode == 0, done.stderr
        row = done.document["results"][1]
        assert row["answer_ok"] is True
        seconds.append(row["compile_seconds"])
    assert 0 < seconds[1] < seconds[0]
    assert list(tmp_path.glob("compile_bench_*")) == []
