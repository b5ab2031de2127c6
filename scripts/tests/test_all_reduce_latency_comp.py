"""all_reduce_latency_comp: rows, ratio and a wrong sum by hand; the demo runs real ranks."""

from __future__ import annotations

from typing import Any

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
