"""all_reduce_latency_comp: the model by hand, and a real run of gloo ranks with its endings."""

from __future__ import annotations

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
TOOL = "network/all_reduce_latency_comp.py"


@pytest.fixture(scope="module")
def comp(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def test_model_by_hand(comp: Any) -> None:
    """100 us and 100 GB/s: 4 GB take 40.1 ms at once, 140 ms in 1000 calls, 3.5 times as long."""
    fit = comp.Fit(1e-4, 1e11, 0.0)
    whole = comp.predict_seconds(fit, 1, 4_000_000_000)
    pieces = comp.predict_seconds(fit, 1000, 4_000_000)
    assert whole == pytest.approx(0.0401)
    assert pieces == pytest.approx(0.140)
    assert round(pieces / whole, 1) == 3.5
    assert comp.predict_seconds(comp.Fit(1e-4, None, 0.0), 1, 8) is None


@given(piece=st.integers(1, 10**6), count=st.integers(1, 2000))
def test_model_is_fitted_from_below_a_piece_to_the_whole(comp: Any, piece: int, count: int) -> None:
    """The sizes grow, hold the piece and the whole, and go beyond neither by much."""
    sizes = comp.list_fit_sizes(piece, piece * count)
    assert sizes == sorted(set(sizes))
    assert {piece, piece * count} <= set(sizes)
    assert sizes[0] == max(1, piece // 4)
    assert sizes[-1] == piece * count


def test_ratio_is_that_of_neighbours(comp: Any) -> None:
    """1 and 3 s, then 2 and 8 (means over two ranks): ratios 3 and 4, median 3.5."""
    found = comp.Findings()
    found.seconds = {"whole": [[1.0, 1.0], [1.0, 3.0]], "pieces": [[2.0, 4.0], [8.0, 8.0]]}
    assert comp.compare_ways(found)["ratio_median"] == 3.5


def test_rows_by_hand(comp: Any) -> None:
    """4 calls of 25 bytes in 2 s by 2 ranks: 50 B/s, of which all is busbw."""
    found = comp.Findings()
    found.header, found.calls = {"ranks": 2}, {"whole": (1, 100), "pieces": (4, 25)}
    found.wrong = {"whole": [0, 0], "pieces": [0, 7]}
    found.seconds = {"whole": [[1.0, 1.0]] * 4, "pieces": [[2.0, 4.0]] * 4}
    rows = comp.make_rows(found)
    assert [(row["way"], row["rank"]) for row in rows] == [
        *(("whole", 0), ("whole", 1), ("pieces", 0), ("pieces", 1))
    ]
    assert [row["busbw_bytes_per_second_median"] for row in rows] == [100.0, 100.0, 50.0, 25.0]
    assert [row["verdict"] for row in rows] == ["ok", "ok", "ok", "WRONG ANSWER"]


@pytest.mark.nightly
@pytest.mark.torch
def test_four_ranks_are_all_told(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Rank 0 prints both ways of all four ranks; sums are right and the model is there."""
    path = tmp_path / "out.json"
    options = ["--device", "cpu", "--ranks", "4", "--payload", "2MB", "--pieces", "50"]
    options += ["--num_iterations", "5", "--dtype", "bfloat16", "--json", str(path)]
    done = run_tool(TOOL, *options)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].count("1 x 2 MB") == lines[0].count("50 x 40 kB") == 1
    assert [line.split()[1] for line in lines[2:6]] == ["0", "1", "2", "3"]
    document = read_json(path)
    rows = document["results"]
    assert len(rows) == 8
    assert all(row["answer_ok"] and row["total_bytes"] == 2_000_000 for row in rows)
    for row in rows:
        product = row["busbw_bytes_per_second_median"] * row["seconds_median"]
        assert product == pytest.approx(1.5 * row["total_bytes"])
    model = document["details"]["model"]
    assert [point["call_bytes"] for point in model["points"]][-1] == 2_000_000
    assert document["details"]["pieces_over_whole"]["samples"] == 5


@pytest.mark.nightly
@pytest.mark.torch
def test_signal_keeps_what_was_measured(read_json: Callable[[Path], Any], tmp_path: Path) -> None:
    """Ctrl-C in the middle ends all ranks, with status 1 and a JSON that is not complete."""
    path = tmp_path / "out.json"
    command = [sys.executable, str(SCRIPTS / TOOL), "--device", "cpu", "--payload", "1MB"]
    command += ["--num_iterations", "1000000", "--json", str(path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        time.sleep(12)
        process.send_signal(signal.SIGINT)
        _, words = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == 1, words
    assert "Traceback" not in words
    document = read_json(path)
    assert document["complete"] is False
    assert any("stopped by SIGINT" in caveat for caveat in document["caveats"])


@pytest.mark.parametrize(
    ("options", "words"),
    [(["--payload", "4XB"], "is no size"), (["--pieces", "0"], "whole number from 1")],
)
def test_wrong_use_is_told_at_once(
    call_tool: Callable[..., Any], options: list[str], words: str
) -> None:
    """What makes no sense ends with status 2 and one line."""
    done = call_tool(TOOL, *options, without_torch=True)
    assert done.returncode == 2
    assert words in done.stderr


@pytest.mark.nightly
@pytest.mark.torch
def test_more_pieces_than_elements_is_wrong_use(run_tool: Callable[..., Any]) -> None:
    """A piece without an element is refused, in one line of rank 0."""
    done = run_tool(TOOL, "--device", "cpu", "--payload", "40B", "--pieces", "11")
    assert done.returncode == 2
    assert "--pieces 11: 40 B has fewer elements" in done.stderr
    assert "Traceback" not in done.stderr
