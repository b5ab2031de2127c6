"""compile_bench: formulas by hand, and real runs on the CPU with backends that need no compiler."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "training/compile_bench.py"
SMALL = [
    *("--device", "cpu", "--hidden", "64", "--layers", "2", "--batch", "1", "--sequence", "8"),
    *("--dtype", "float32", "--num_iterations", "6", "--num_warmup_iterations", "1"),
]
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def bench(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def test_break_even_by_hand(bench: Any) -> None:
    """30 s of compiling, 100 ms eager, 70 ms compiled: ahead after 1000 calls."""
    assert bench.compute_break_even(30, 0.1, 0.07) == pytest.approx(1000)
    assert bench.compute_break_even(30, 0.1, 0.1) is None
    assert bench.compute_break_even(30, 0.1, 0.2) is None


def test_a_compiler_is_looked_for(bench: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """$CXX comes first, then g++ and clang++ on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert bench.find_cpp_compiler({}) is None
    for name in ("clang++", "mine"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    assert bench.find_cpp_compiler({}) == "clang++"
    assert bench.find_cpp_compiler({"CXX": "mine -O2"}) == "mine -O2"


def test_failures_are_one_line(bench: Any) -> None:
    """Of a long complaint the first line that says something is kept."""
    assert bench.explain_failure(RuntimeError("\n  no Python.h\nlong\ntrace")) == "no Python.h"
    assert bench.explain_failure(ValueError()) == "ValueError"


@pytest.mark.torch
def test_backend_eager(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """The row of the backend eager is captured, and is not taken for the model as it is."""
    path = tmp_path / "out.json"
    done = call_tool(TOOL, *SMALL, "--backend", "eager", "--json", str(path), environ=ONE_THREAD)
    assert done.returncode == 0, done.stderr
    eager, captured = read_json(path)["results"]
    assert (eager["variant"], captured["variant"]) == ("eager", "captured")
    assert eager["compile_seconds"] is None
    assert captured["compile_seconds"] > 0


@pytest.mark.torch
@pytest.mark.parametrize(
    ("model", "is_whole", "backward"),
    [("mlp", True, False), ("block", True, True), ("broken", False, False)],
)
def test_each_model(
    call_tool: Callable[..., Any],
    read_json: Callable[[Path], Any],
    tmp_path: Path,
    model: str,
    is_whole: bool,
    backward: bool,
) -> None:
    """Each model gives eager's answer, and only the broken one has graph breaks, with a reason."""
    path = tmp_path / "out.json"
    arguments = [*SMALL, "--model", model, "--backend", "aot_eager", "--json", str(path)]
    arguments += ["--backward"] if backward else []
    done = call_tool(TOOL, *arguments, environ=ONE_THREAD)
    assert done.returncode == 0, done.stderr
    document = read_json(path)
    eager, compiled = document["results"]
    assert (eager["variant"], compiled["variant"]) == ("eager", "aot_eager")
    assert compiled["answer_ok"] is True
    assert compiled["answer_error"] < 1e-4
    assert compiled["samples"] == 6
    assert compiled["first_call_seconds"] > compiled["compile_seconds"] > 0
    assert compiled["speedup"] == pytest.approx(
        eager["seconds_median"] / compiled["seconds_median"]
    )
    assert (compiled["graphs"] == 1) is is_whole
    assert (compiled["graph_breaks"] == 0) is is_whole
    assert ("note: graph break: " in done.stderr) is not is_whole
    assert document["complete"] is True
    assert any("compiles nothing" in caveat for caveat in document["caveats"])


@pytest.mark.torch
def test_a_wrong_answer_is_found(bench: Any) -> None:
    """An answer that is 1 % off, or not finite, is beyond every limit but bfloat16's own."""
    import torch

    right = torch.randn(100, dtype=torch.float64)
    assert bench.compare_answers(torch, right * 1.01, right) == pytest.approx(0.01)
    assert bench.compare_answers(torch, right * 1.01, right) > bench.ERROR_LIMITS["float32"]
    right[3] = float("nan")
    assert bench.compare_answers(torch, right, right) == float("inf")


@pytest.mark.torch
def test_a_mode_that_fails_leaves_the_others(bench: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """A backend that raises is a row without numbers, a caveat, and a problem."""
    import argparse

    import torch

    def refuse(*_: Any) -> Any:
        raise RuntimeError("no compiler today\nand more")

    monkeypatch.setattr(bench, "compile_model", refuse)
    setup = bench.CompileSettings("mlp", 64, 1, 1, 8, "float32", "aot_eager", False, 4, 1)
    run = bench.CompileRun(["python"], time.monotonic(), tmp_path / "out.json")
    run.settings = setup._asdict()
    subject = bench.Subject(torch, torch.device("cpu"), setup)
    options = argparse.Namespace(modes=["default"], warm_cache=False)
    bench.measure_modes(torch, subject, options, run, bench.StopSign(), tmp_path)
    eager, failed = run.rows
    assert eager["verdict"] != "failed"
    assert (failed["verdict"], failed["seconds_median"]) == ("failed", None)
    assert run.failures == ["aot_eager failed: no compiler today"]
    assert set(failed) == set(eager)
    assert bench.print_report(run) == 1


@pytest.mark.torch
def test_inductor_without_a_compiler_is_one_line(
    call_tool: Callable[..., Any], tmp_path: Path
) -> None:
    """On a CPU Inductor needs a C++ compiler: where there is none the run says so at once."""
    done = call_tool(TOOL, *SMALL, environ={**ONE_THREAD, "PATH": str(tmp_path), "CXX": ""})
    assert done.returncode == 2
    assert "there is no compiler for it: install g++ or clang++" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.needs("g++")
def test_inductor_with_a_warm_cache(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """With g++ the model is really compiled, and a second process finds the cache."""
    path = tmp_path / "out.json"
    environ = {**ONE_THREAD, "TMPDIR": str(tmp_path)}
    done = run_tool(
        TOOL, *SMALL, "--model", "mlp", "--warm_cache", "--json", str(path),
        environ=environ, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    _, row = read_json(path)["results"]
    assert row["answer_ok"] is True
    assert 0 < row["compile_seconds_warm_cache"] < row["compile_seconds"]
    assert list(tmp_path.glob("compile_bench_*")) == []


@pytest.mark.nightly
@pytest.mark.torch
def test_ctrl_c_keeps_the_rows_so_far(read_json: Callable[[Path], Any], tmp_path: Path) -> None:
    """A run that is stopped has JSON marked as partial, and status 1."""
    path = tmp_path / "out.json"
    arguments = [*SMALL[:10], "--backend", "eager", "--num_iterations", "10000000"]
    process = subprocess.Popen(
        [sys.executable, str(SCRIPTS / TOOL), *arguments, "--json", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        time.sleep(12)
        process.send_signal(signal.SIGTERM)
        _, notes = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 1, notes
    document = read_json(path)
    assert document["complete"] is False
    assert any("stopped by SIGTERM" in caveat for caveat in document["caveats"])
    assert "Traceback" not in notes


def is_running(number: int) -> bool:
    """Whether a process is there and has not ended; one that nobody waited for has."""
    try:
        status = Path(f"/proc/{number}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in ("Z", "X")


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.needs("g++")
def test_a_signal_ends_the_compiler_too(read_json: Callable[[Path], Any], tmp_path: Path) -> None:
    """SIGTERM while a compiler works is told at once, ends the compiler and the run within
    seconds, and keeps the eager row."""
    numbers = tmp_path / "numbers"
    compiler = tmp_path / "g++"
    # As g++ does, it has another program do the work.
    script = f"sleep 300 &\necho $$ $! > {numbers}.new\nmv {numbers}.new {numbers}\nwait\n"
    compiler.write_text(f"#!/bin/sh\n{script}")
    compiler.chmod(0o755)
    path = tmp_path / "out.json"
    arguments = [*SMALL, "--model", "mlp", "--json", str(path)]
    process = subprocess.Popen(
        [sys.executable, str(SCRIPTS / TOOL), *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **ONE_THREAD, "CXX": str(compiler), "TMPDIR": str(tmp_path)},
    )
    try:
        deadline = time.monotonic() + 120
        while not numbers.exists():
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        notes = process.stderr.readline()
        notes += process.communicate(timeout=60)[1]
    finally:
        process.kill()
        process.wait()
        started = numbers.read_text().split() if numbers.exists() else []
        left = [n for n in started if is_running(int(n))]
        for number in left:
            os.kill(int(number), signal.SIGKILL)
    assert notes.startswith("SIGTERM: the run stops"), notes
    assert (len(started), left) == (2, [])
    assert process.returncode == 1, notes
    assert "Traceback" not in notes
    document = read_json(path)
    assert document["complete"] is False
    assert [row["variant"] for row in document["results"]] == ["eager"]
    assert "stopped by SIGTERM, with 1 variants measured" in document["caveats"]
    assert list(tmp_path.glob("compile_bench_*")) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--backend", "eager", "--modes", "max-autotune"], "--modes are those of Inductor"),
        (["--backend", "aot_eager", "--warm_cache"], "has no cache"),
        (["--hidden", "100"], "need a multiple of 64"),
        (["--model", "gpt"], "invalid choice"),
    ],
)
def test_wrong_use(call_tool: Callable[..., Any], arguments: list[str], complaint: str) -> None:
    """What makes no sense ends with status 2 and one clear line, before torch is imported."""
    done = call_tool(TOOL, *arguments, without_torch=True)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
