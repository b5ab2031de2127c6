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

    def run(files: dict[str, tuple[Any, ...]], *options: str) -> Any:
        paths = [tmp_path / name for name in files]
        for path, change in zip(paths, files.values(), strict=True):
            path.write_text(module.DEMO.replace(*change))
        return call_tool(TOOL, *map(str, paths), *options)

    return run


def test_files_of_a_job_are_below_each_other(report_on: Any) -> None:
    """A row per file and job."""
    two_jobs = ('"jobname" : "demo"', '"jobname" : "other"', 1)
    done = report_on({"a.json": two_jobs, "b.json": two_jobs})
    assert done.returncode == 0, done.stderr
    lines = [line.split("|")[1:3] for line in done.stdout.splitlines()[2:]]
    names = [(Path(file.strip()).name, job.strip()) for file, job in lines]
    jobs = ("other, read", "demo, read")
    assert names == [(file, job) for job in jobs for file in ("a.json", "b.json")]


@pytest.mark.parametrize(
    ("change", "options", "problem", "shown"),
    [
        ((SECOND, SECOND.replace("10000", "4000")), [],
         "x.json, demo, read: its jobs ran for between 4 s and 10 s; they are not added",
         "| demo, read #2 |"),
        ((SECOND, SECOND.replace("10000", "4000")), ["--each-job"], None, "| demo, read #2 |"),
        (('"error" : 0', '"error" : 28'), [], "x.json, demo: No space left on device", "FAILED"),
        (("fio version", "no"), [], "x.json: no result of fio in it", ""),
    ],
)  # fmt: skip
def test_problems_are_named(
    report_on: Any, change: Any, options: list[str], problem: str, shown: str
) -> None:
    """Jobs that were not simultaneous keep their own rows; --each-job accepts them."""
    done = report_on({"x.json": change}, *options)
    assert done.returncode == (1 if problem else 0)
    assert problem is None or f"/{problem}\n" in done.stderr
    assert shown in done.stdout
