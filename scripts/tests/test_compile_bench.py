"""compile_bench: formulas by hand, planted faults, and real runs on a CPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SMALL = [
    *("--device", "cpu", "--hidden", "64", "--batch", "1", "--sequence", "8", "--dtype", "float32"),
    *("--num-iterations", "6", "--model", "mlp"),
]
CAPTURE = [*SMALL, "--backend", "aot_eager"]


@pytest.fixture
def bench(load_tool: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The tool, which sets the folders of compiler caches."""
    monkeypatch.setattr(os, "environ", dict(os.environ))
    return load_tool("training/compile_bench.py")


@pytest.mark.torch
@pytest.mark.parametrize(
    ("seconds", "speedup", "steps"),
    [
        (0.07, 0.1 / 0.07, 1000),
        (0.2, 0.5, None),
    ],
)
def test_break_even_by_hand(
    bench: Any,
    monkeypatch: pytest.MonkeyPatch,
    read_json: Callable[[Path], Any],
    tmp_path: Path,
    seconds: float,
    speedup: float,
    steps: float | None,
) -> None:
    """30 s of compiling, 100 ms eager, 70 ms compiled: ahead after 1000 steps."""
    import torch

    def measure(_torch: Any, _options: Any, variant: str, _stop: Any) -> Any:
        taken = 0.1 if variant == "eager" else seconds
        row = bench.summarize("seconds", [taken] * 8)
        return row | {"first_call_seconds": 30 + taken, "verdict": "ok"}, torch.ones(3)

    monkeypatch.setattr(bench, "measure", measure)
    path = tmp_path / "out.json"
    assert bench.main([*CAPTURE, "--json", str(path)]) == 0
    row = read_json(path)["results"][1]
    assert row["speedup"] == pytest.approx(speedup)
    assert row["compile_seconds"] == pytest.approx(30)
    assert row["break_even_calls"] == (steps and pytest.approx(steps))


@pytest.mark.torch
@pytest.mark.parametrize(("model", "is_whole"), [("mlp", True), ("block", True), ("broken", False)])
def test_each_model(
    bench: Any, read_json: Callable[[Path], Any], tmp_path: Path, model: str, is_whole: bool
) -> None:
    """Each gives eager's output and gradient; only the broken one has breaks, with a reason."""
    path = tmp_path / "out.json"
    # At a break torch warns of a gradient, which these tests take for an error.
    more = ["--backward"] if is_whole else []
    assert bench.main([*CAPTURE, "--model", model, *more, "--json", str(path)]) == 0
    document = read_json(path)
    eager, compiled = document["results"]
    assert (eager["variant"], compiled["variant"]) == ("eager", "aot_eager")
    assert (compiled["answer_ok"], compiled["samples"]) == (True, 6)
    assert compiled["first_call_seconds"] > compiled["compile_seconds"] > 0
    assert (compiled["graphs"] == 1) is is_whole
    assert (compiled["graph_breaks"] == 0) is is_whole
    reasons = [note for note in document["caveats"] if note.startswith("graph break: ")]
    assert (not reasons) is is_whole
    assert document["complete"] is True


@pytest.mark.torch
@pytest.mark.parametrize("fault", ["wrong", "refused"])
def test_a_mode_that_is_wrong_or_fails_leaves_eager(
    bench: Any,
    monkeypatch: pytest.MonkeyPatch,
    read_json: Callable[[Path], Any],
    tmp_path: Path,
    fault: str,
) -> None:
    """A compiler that changes the answer by 1 %, and one that refuses."""
    import torch

    def compile_badly(model: Any, **_: Any) -> Any:
        if fault == "refused":
            raise RuntimeError("no compiler today\nand more")
        return lambda x: model(x) * 1.01

    monkeypatch.setattr(torch, "compile", compile_badly)
    path = tmp_path / "out.json"
    assert bench.main([*CAPTURE, "--json", str(path)]) == 1
    document = read_json(path)
    eager, bad = document["results"]
    assert eager["answer_ok"] is True
    assert set(bad) == set(eager)
    assert bad["verdict"] == ("WRONG ANSWER" if fault == "wrong" else "failed")
    assert document["complete"] is (fault == "wrong")
    failure = "aot_eager failed: no compiler today"
    assert (failure in document["caveats"]) is (fault == "refused")


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.needs("g++")
def test_inductor_with_a_warm_cache(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """The model is really compiled, a second process finds the cache, and nothing is left."""
    path = tmp_path / "out.json"
    done = run_tool(
        "training/compile_bench.py", *SMALL, "--warm-cache", "--json", str(path),
        environ={"OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    row = read_json(path)["results"][1]
    assert row["answer_ok"] is True
    assert row["compile_seconds"] > 0
    assert row["compile_seconds_warm_cache"] > 0
    assert list(tmp_path.glob("compile_bench_*")) == []


def test_what_only_inductor_has_is_refused_elsewhere(bench: Any) -> None:
    """Modes, and a cache."""
    for more in (["--modes", "max-autotune"], ["--warm-cache"]):
        with pytest.raises(bench.UsageError, match="are for inductor, not for aot_eager"):
            bench.main([*CAPTURE, *more])
