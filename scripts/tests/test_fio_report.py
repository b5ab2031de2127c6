"""fio_report: what it prints is what fio wrote, and nothing is added that did not run together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

TOOL = "storage/fio_report.py"
SECOND = '"runtime" : 10000,\n             "total_ios" : 20000'
"""What only the second job of the demo has."""


@pytest.fixture
def report_on(module: Any, call_tool: Any, tmp_path: Path) -> Any:
    """Run the tool on copies of its demo, by name, each with a text replaced."""

    def run(files: dict[str, tuple[str, str]], *options: str) -> Any:
        paths = [tmp_path / name for name in files]
        for path, change in zip(paths, files.values(), strict=True):
            path.parent.mkdir(exist_ok=True)
            path.write_text(module.DEMO.replace(*change))
        return call_tool(TOOL, *map(str, paths), *options)

    return run


def test_files_of_a_job_are_below_each_other(report_on: Any) -> None:
    """A row per file; of equal names as many directories are shown as tell them apart."""
    done = report_on({"a/run.json": ("", ""), "b/run.json": ("", "")})
    assert done.returncode == 0, done.stderr
    names = [line.split("|")[1].strip() for line in done.stdout.splitlines()[2:]]
    assert names == ["a/run", "b/run"]


def test_repeats_are_one_row(report_on: Any) -> None:
    """80 files that fio_scan kept of 16 loads are 16 rows of 12 columns."""
    rates = (1_904_000, 5_904_000, 6_004_000, 6_104_000, 9_904_000)
    files = {
        f"randread-1GiB-128KiB-{load}x64.run{repeat}.json": ("8192000", str(rate))
        for load in range(16)
        for repeat, rate in enumerate(rates)
    }
    lines = report_on(files).stdout.splitlines()
    assert len(lines) == 2 + 16
    cells = [cell.strip() for cell in lines[2].split("|")[1:-1]]
    assert len(cells) == 12
    # 4.096 MB/s of the first job and a median of 6.004 of the second one
    assert (cells[0], cells[5], cells[10]) == ("randread-1GiB-128KiB-0x64", "10.1", "5")


@pytest.mark.parametrize(
    ("change", "options", "problem", "shown"),
    [
        ((SECOND, SECOND.replace("10000", "4000")), [],
         "x, demo, read: its jobs ran for between 4 s and 10 s; they are not added",
         "| demo, read #2 |"),
        ((SECOND, SECOND.replace("10000", "4000")), ["--each-job"], None, "| demo, read #2 |"),
        (('"error" : 0', '"error" : 28'), [], "x, demo: No space left on device", "FAILED"),
        (("fio version", "no"), [], "x: no result of fio in it", ""),
    ],
)  # fmt: skip
def test_problems_are_named(
    report_on: Any, change: Any, options: list[str], problem: str, shown: str
) -> None:
    """Jobs that were not simultaneous keep their own rows; --each-job accepts them."""
    done = report_on({"x.json": change}, *options)
    assert done.returncode == (1 if problem else 0)
    assert problem is None or f"problem: {problem}\n" in done.stderr
    assert shown in done.stdout
