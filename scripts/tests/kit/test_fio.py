"""fio's JSON, whatever is around it, and the sums of its jobs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from kit import fio

READ = {
    "io_bytes": 40_960_000, "bw_bytes": 4_096_000, "iops": 1000.0, "runtime": 10_000,
    "total_ios": 10_000,
    "clat_ns": {"mean": 2000.0, "percentile": {"50.000000": 1900, "99.000000": 9000}},
}  # fmt: skip
RESULT = {
    "fio version": "fio-3.36",
    "jobs": [{"jobname": "a", "read": READ, "write": {"io_bytes": 0}}] * 2,
}


def make_job(**changed: Any) -> fio.Job:
    """A job as `read_job` gives it."""
    return (fio.read_job(RESULT["jobs"][0], "read") or {}) | changed


@pytest.mark.parametrize("indent", [None, 1])
def test_results_are_found_in_any_text(indent: int | None) -> None:
    """Other lines are returned apart; a text may hold several results; nan and inf become null, but
    only where a value is expected."""
    text = json.dumps(RESULT, indent=indent)
    odd = '{"fio version": "", "a" : -nan, "b": inf, "c" :NaN, "e": "is: nan"}'
    documents, noise = fio.parse_fio("\n".join(["fio: warning {", text, text, odd, "end"]))
    nulls = {"fio version": "", "a": None, "b": None, "c": None, "e": "is: nan"}
    assert documents == [RESULT, RESULT, nulls]
    assert noise == ["fio: warning {", "end"]
    assert fio.parse_fio('no JSON {"jobs": ')[0] == []


def test_a_job_in_base_units() -> None:
    """Nanoseconds and milliseconds become seconds; a direction without bytes is None."""
    job = make_job()
    assert (job["bytes"], job["seconds"], job["requests"]) == (40_960_000, 10.0, 10_000)
    assert job["latency_seconds_mean"] == pytest.approx(2e-6)
    assert job["latency_seconds_p99"] == pytest.approx(9e-6)
    assert fio.read_job(RESULT["jobs"][0], "write") is None


def test_jobs_at_different_times_are_found() -> None:
    """By their run times, or by their starts where fio writes them."""
    explain = fio.explain_not_simultaneous
    assert explain([make_job(), make_job(seconds=9.5)]) is None
    assert explain([make_job(start=100.0), make_job(start=100.5)]) is None
    late = [make_job(start=100.0), make_job(start=110.0)]
    assert "together for only 0 s of 10 s" in str(explain(late))


def test_sums_worked_by_hand() -> None:
    """Rates add up; the mean latency counts requests; percentiles come from both histograms."""
    slow = make_job(
        requests=1000, latency_seconds_mean=2e-6, bins={1e-6: 400, 2e-6: 500, 9e-6: 100}
    )
    fast = make_job(requests=2000, latency_seconds_mean=1.1e-6, bins={1e-6: 1800, 2e-6: 200})
    total = fio.add_jobs([slow, fast])
    assert total["bytes_per_second"] == 2 * 4_096_000
    assert total["latency_seconds_mean"] == pytest.approx((1000 * 2e-6 + 2000 * 1.1e-6) / 3000)
    # Of 3000 requests 2200 took 1 µs, and the 2970th took 9 µs.
    assert (total["latency_seconds_p50"], total["latency_seconds_p99"]) == (1e-6, 9e-6)
    assert fio.add_jobs([make_job(), make_job()])["latency_seconds_p99"] is None


def test_the_slowest_job_of_whole_files_decides() -> None:
    """Two files of 40.96 MB in 20 s are 4.096 MB/s."""
    total = fio.add_jobs([make_job(), make_job(seconds=20.0)], whole_files=True)
    assert total["bytes_per_second"] == 4_096_000
    assert total["requests_per_second"] == 1000
