"""all_reduce_latency_comp: rows, ratio and a wrong sum by hand; the demo runs real ranks."""

from __future__ import annotations

from typing import Any

import pytest

TOOL = "network/all_reduce_latency_comp.py"


def test_rows_by_hand(module: Any, capsys: Any) -> None:
    """100 bytes in 1, 2 and 4 s by two ranks: busbw is algbw; a piece is 3 times the whole. A wrong
    sum is named, with its rank."""
    report = module.Report("x", "0.1.0", 1)
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


def test_line_by_hand(module: Any) -> None:
    """100 µs and 100 GB/s: 110 µs at 1 MB, 200 µs at 10 MB, 1.1 ms at 100 MB."""
    latency, bandwidth = module.fit_line([1e6, 1e7, 1e8], [110e-6, 200e-6, 1100e-6])
    assert latency == pytest.approx(1e-4)
    assert bandwidth == pytest.approx(1e11)


def test_line_at_its_bounds(module: Any) -> None:
    """Two sizes are not enough; no growth is no bandwidth; a latency is not negative."""
    assert module.fit_line([1, 1, 2], [1, 1, 2]) is None
    assert module.fit_line([1, 2, 3], [3.0, 3.0, 3.0]) == (3.0, None)
    latency, bandwidth = module.fit_line([1, 2, 3], [1.0, 3.0, 5.0])
    assert latency == 0
    assert 0.5 < bandwidth < 1
