"""fio_report: what it prints is what fio wrote, and nothing is added that did not run together."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TOOL = "storage/fio_report.py"


def make_result(**changed: Any) -> dict[str, Any]:
    """A result of fio 3 with two jobs that ran together; `changed` is of the second one."""

    def make_job(**more: Any) -> dict[str, Any]:
        numbers = {
            "io_bytes": 40_960_000,
            "bw_bytes": 4_096_000,
            "iops": 1000.0,
            "runtime": 10_000,
            "total_ios": 10_000,
            "clat_ns": {"mean": 2000.0, "percentile": {"99.000000": 9000}},
        }
        job = {"jobname": "a", "groupid": 0, "error": 0, "job options": {"direct": "1"}}
        return job | more | {"read": numbers | more.get("read", {})}

    return {"fio version": "fio-3.36", "jobs": [make_job(), make_job(**changed)]}


@pytest.fixture
def report_on(
    run_tool: Callable[..., Any], tmp_path: Path
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the tool on results, each given as a document or as text, by name."""

    def run(results: dict[str, Any], *options: str) -> subprocess.CompletedProcess[str]:
        for name, result in results.items():
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(result if isinstance(result, str) else json.dumps(result))
        done: subprocess.CompletedProcess[str] = run_tool(TOOL, *results, *options, cwd=tmp_path)
        return done

    return run


def test_files_of_a_job_are_below_each_other(report_on: Callable[..., Any]) -> None:
    """A row per file; of equal names as many directories are shown as tell them apart."""
    done = report_on({"a/run.json": make_result(), "b/run.json": make_result()})
    assert done.returncode == 0, done.stderr
    rows = [line.split("|")[1:3] for line in done.stdout.splitlines()[2:]]
    assert [[c.strip() for c in row] for row in rows] == [
        ["a/run", "a, read"],
        ["b/run", "a, read"],
    ]


def test_repeats_are_one_row(report_on: Callable[..., Any]) -> None:
    """80 files that fio_scan kept of 16 loads are 16 rows of 12 columns."""
    results = {
        f"randread-1GiB-128KiB-{load}x64.run{repeat}.json": make_result(read={"bw_bytes": rate})
        for load in range(16)
        for repeat, rate in enumerate((1_904_000, 5_904_000, 6_004_000, 6_104_000, 9_904_000))
    }
    done = report_on(results)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 2 + 16
    assert lines[0].count("|") == 12 + 1
    cells = [cell.strip() for cell in lines[2].split("|")[1:-1]]
    # 4.096 MB/s of the first job and a median of 6.004 of the second one
    assert (cells[0], cells[5], cells[10]) == ("randread-1GiB-128KiB-0x64", "10.1", "5")


def test_jobs_that_were_not_simultaneous_are_a_problem(report_on: Callable[..., Any]) -> None:
    """They keep their own rows and are named; --each-job accepts them."""
    late = {"late.json": make_result(read={"runtime": 4000})}
    done = report_on(late)
    assert done.returncode == 1
    assert "late, a, read: its jobs ran for between 4 s and 10 s; they are not added" in done.stderr
    assert "| a, read #2 |" in done.stdout
    assert report_on(late, "--each-job").returncode == 0


def test_a_failed_job_is_a_problem(report_on: Callable[..., Any]) -> None:
    """With fio's error in words."""
    done = report_on({"failed.json": make_result(error=28)})
    assert done.returncode == 1
    assert "problem: failed, a: No space left on device" in done.stderr
    assert "FAILED" in done.stdout


def test_a_file_without_results_is_a_problem(report_on: Callable[..., Any]) -> None:
    """It is named, with exit status 1."""
    done = report_on({"none.json": "no JSON here"})
    assert done.returncode == 1
    assert "problem: none: no result of fio in it\n" in done.stderr
