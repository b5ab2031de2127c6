"""fio_scan: its numbers are fio's, it leaves nothing behind, and it says what it cannot trust."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "storage/fio_scan.py"

QUICK = ("--runtime", "0.3s", "--ramp-time", "0.1s", "--jobs", "2", "--iodepth", "4")


def make_run(**changed: Any) -> dict[str, Any]:
    """A run of two jobs: 1000 requests per second of 4 KiB in 1 ms each."""
    run = {"bytes": 40_960_000, "seconds": 10.0, "start": None, "requests": 10_000}
    run |= {"bytes_per_second": 4_096_000.0, "requests_per_second": 1000.0, "bins": {1e-3: 10_000}}
    run |= {f"latency_seconds_{name}": 1e-3 for name in ("mean", "p50", "p99")}
    return run | changed


SLOW = make_run(bytes_per_second=3_276_800.0)
CACHED = make_run(bins={}, latency_seconds_p50=3e-6)


@pytest.mark.parametrize(
    ("pattern", "runs", "verdict", "reason"),
    [
        ("read", [make_run()] * 4, "ok", ""),
        ("read", [make_run()] * 3, "few samples", ""),
        ("read", [make_run(), make_run(), SLOW, SLOW], "unsteady", ""),  # an IQR of 20 %
        ("read", [CACHED], "too fast", "a read in 3.0 µs"),
        ("write", [CACHED], "few samples", ""),
    ],
)
def test_repeats_are_judged(
    module: Any, pattern: str, runs: list[Any], verdict: str, reason: str
) -> None:
    """A read faster than any drive was answered by a cache: the row says so."""
    row = module.make_row(module.Load(pattern, 65536, 4096, 2, 4), runs, "direct")
    assert row["verdict"] == verdict
    assert reason in (row["verdict_reason"] or "")


@pytest.mark.parametrize(
    ("pattern", "changed", "too_fast"),
    [
        ("randread", {"latency_seconds_p50": 4e-5}, True),  # a seek takes milliseconds
        ("randread", {"latency_seconds_p50": 4e-3}, False),
        ("read", {"latency_seconds_p50": 4e-5}, False),  # the disk reads ahead
        ("write", {"bytes_per_second": 2e9}, True),
    ],
)
def test_what_no_spinning_disk_does(
    module: Any, pattern: str, changed: dict[str, float], too_fast: bool
) -> None:
    """Where the kernel lists a disk as spinning, a host that caches it gives itself away."""
    run = make_run(bins={}, **changed)
    row = module.make_row(module.Load(pattern, 65536, 4096, 2, 4), [run], "direct")
    assert module.beats_spinning_disk(row) is too_fast


def test_jobs_at_different_times_have_no_numbers(module: Any) -> None:
    """Their rates are not added; fio's error is the reason of a run that failed."""
    load = module.Load("read", 65536, 4096, 2, 4)

    def make_job(milliseconds: int) -> dict[str, Any]:
        reads = {"io_bytes": 4096, "bw_bytes": 4096, "iops": 1, "total_ios": 1}
        return {"read": reads | {"runtime": milliseconds}}

    text = json.dumps({"fio version": "", "jobs": [make_job(10_000), make_job(5_000)]})
    found = module.read_run(text, load, whole_files=False)
    assert found == ("NOT SIMULTANEOUS", "its jobs ran for between 5 s and 10 s")
    assert module.read_run(text, load, whole_files=True)["requests"] == 2
    found = module.read_run("x\nfio: file:scan.0.0, error=No space left on device\n", load, False)
    assert found == ("FAILED", "fio: file:scan.0.0, error=No space left on device")


@pytest.mark.needs("fio")
def test_what_does_not_fit_is_refused(run_tool: Any, tmp_path: Path) -> None:
    """Status 2 with a sentence, before anything is written."""
    done = run_tool(TOOL, "--file-sizes", "1000T", cwd=tmp_path)
    assert done.returncode == 2
    assert "use smaller --file-sizes or fewer --jobs" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_missing_fio_is_one_line(run_tool: Any, tmp_path: Path) -> None:
    """It says how to install it."""
    done = run_tool(TOOL, "--demo", str(tmp_path), environ={"PATH": str(tmp_path)})
    assert done.returncode == 2
    assert "error: fio is not installed: apt install fio" in done.stderr


@pytest.mark.nightly
@pytest.mark.needs("fio")
def test_numbers_are_those_of_fio(run_json: Any, tmp_path: Path) -> None:
    """Bandwidth, IOPS and latencies of a row are those in the JSON that --keep keeps, in a
    directory that it makes."""
    keep = tmp_path / "a" / "keep"
    (tmp_path / "place").mkdir()
    loads = ("--patterns", "randread", "write", "--file-sizes", "256k", "--block-sizes", "16k")
    options = (*loads, *QUICK, "--repeats", "1", "--keep", str(keep))
    done = run_json(TOOL, str(tmp_path / "place"), *options)
    assert done.returncode == 0, done.stderr
    for row in done.document["results"]:
        kept = keep / f"{row['pattern']}-256KiB-16KiB-2x4.run1.json"
        written = json.loads(kept.read_text(encoding="utf-8"))
        parts = [job[row["pattern"].removeprefix("rand")] for job in written["jobs"]]
        assert len(parts) == 2
        assert row["bytes_per_second_median"] == sum(part["bw_bytes"] for part in parts)
        assert row["requests_per_second_median"] == pytest.approx(sum(p["iops"] for p in parts))
        assert written["jobs"][0]["job options"]["direct"] == str(int(row["access"] == "direct"))
    assert list((tmp_path / "place").iterdir()) == []


@pytest.mark.nightly
@pytest.mark.needs("fio")
def test_a_signal_ends_fio_and_cleans_up(read_json: Any, tmp_path: Path) -> None:
    """Nothing is left of the files and processes, and the JSON is incomplete."""
    place, path = tmp_path / "place", tmp_path / "out.json"
    place.mkdir()
    command = [sys.executable, str(SCRIPTS / TOOL), str(place), *QUICK, "--runtime", "60s"]
    command += ["--file-sizes", "64k", "--json", str(path)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        while not list(place.glob(".fio_scan-*/scan*")):
            assert process.poll() is None, process.communicate()[1]
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 1, errors
    assert "stopped by SIGTERM: the results so far" in errors
    assert list(place.iterdir()) == []
    assert read_json(path)["complete"] is False
