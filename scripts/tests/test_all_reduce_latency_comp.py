"""all_reduce_latency_comp: the model by hand, and a run of four gloo ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

TOOL = "network/all_reduce_latency_comp.py"


def test_rows_by_hand(module: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """100 bytes in 1, 2 and 4 s by two ranks: busbw is algbw; a piece is 3 times the whole. A wrong
    sum is named, with its rank."""
    report = module.Report("x", "0.1.0", 1, {})
    seconds = {"whole": [[1.0, 1.0]] * 4, "pieces": [[2.0, 4.0]] * 4}
    module.add_results(report, 25, 4, seconds, {"whole": [0, 0], "pieces": [0, 7]})
    rates = [row["busbw_bytes_per_second_median"] for row in report.rows]
    assert rates == [100.0, 100.0, 50.0, 25.0]
    assert [(row["way"], row["rank"], row["calls"]) for row in report.rows] == [
        *(("whole", 0, 1), ("whole", 1, 1), ("pieces", 0, 4), ("pieces", 1, 4))
    ]
    assert report.details["pieces_over_whole"]["ratio_median"] == 3
    assert module.print_results(report) is False
    out = capsys.readouterr()
    assert out.out.count("WRONG ANSWER") == 1
    assert "WRONG ANSWERS on ranks [1]" in out.err


@pytest.mark.torch
def test_four_ranks(run_json: Callable[..., Any]) -> None:
    """Both ways of all four ranks, right sums, and the fitted line."""
    options = ["--device", "cpu", "--ranks", "4", "--payload", "2MB", "--pieces", "50"]
    done = run_json(TOOL, *options, "--num_iterations", "5")
    assert done.returncode == 0, done.stderr
    assert "50 calls take" in done.stdout
    assert "fitted: latency" in done.stdout
    document = done.document
    assert [row["rank"] for row in document["results"]] == [0, 1, 2, 3] * 2
    for row in document["results"]:
        assert not row["wrong_elements"]
        product = row["busbw_bytes_per_second_median"] * row["seconds_median"]
        assert product == pytest.approx(1.5 * 2_000_000)
    assert document["details"]["model"]["latency_seconds"] >= 0
    assert document["details"]["pieces_over_whole"]["samples"] == 5


def test_more_pieces_than_elements(
    run_tool: Callable[..., Any], torch_trap: dict[str, str]
) -> None:
    """Refused before torch is imported."""
    done = run_tool(TOOL, "--payload", "40B", "--pieces", "11", environ=torch_trap)
    assert done.returncode == 2
    assert "--payload has fewer elements" in done.stderr
