"""fio_report: what it prints is what fio wrote, whichever version and whatever is around it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing_utils import save_json

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "storage/fio_report.py"


@pytest.fixture(scope="module")
def report(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    """The tool as a module."""
    return load_tool(TOOL)


def run_fio(folder: Path, *options: str) -> str:
    """What fio writes for some jobs, with its warnings."""
    command = [
        *("fio", f"--directory={folder}", "--size=256k", "--bs=4k", "--ioengine=libaio"),
        *("--time_based", *options),
    ]
    # fio ends with 1 where a job failed, and its JSON is what the tests are about.
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout


@pytest.mark.needs("fio")
def test_numbers_are_those_of_fio(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """A run of two jobs, once as they are and once added up by fio itself, side by side."""
    options = ("--name=load", "--rw=randrw", "--direct=1", "--iodepth=4", "--numjobs=2")
    texts = {
        "apart": run_fio(tmp_path, *options, "--runtime=500ms", "--output-format=json+"),
        "grouped": run_fio(
            tmp_path, *options, "--runtime=500ms", "--output-format=json", "--group_reporting"
        ),
    }
    paths = []
    for name, text in texts.items():
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(f"warning: a line of the shell\n{text}\nand another\n")
    out = tmp_path / "out.json"
    done = run_tool(TOOL, *map(str, paths), "--json", str(out))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split() == ["|", "MB/s", "|", "apart", "|", "grouped", "|"]
    assert "2 lines are no JSON: warning: a line of the shell" in done.stderr
    document = read_json(out)
    schema = read_json(SCRIPTS / "schemas" / "tool-output-2.json")
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
    assert len(document["results"]) == 4
    for row in document["results"]:
        jobs = json.loads(texts[row["source"]])["jobs"]
        assert len(jobs) == (2 if row["source"] == "apart" else 1)
        parts = [job[row["direction"]] for job in jobs]
        assert row["bytes_per_second"] == sum(part["bw_bytes"] for part in parts)
        assert row["requests_per_second"] == pytest.approx(sum(part["iops"] for part in parts))
        assert row["bytes"] == sum(part["io_bytes"] for part in parts)
        requests = sum(part["total_ios"] for part in parts)
        mean = sum(part["clat_ns"]["mean"] * part["total_ios"] for part in parts) / requests
        assert row["latency_seconds_mean"] == pytest.approx(mean * 1e-9)
        worst = max(part["clat_ns"]["percentile"]["99.000000"] for part in parts)
        assert 0 < row["latency_seconds_p99"] <= worst * 1.001e-9
        shape = (row["jobs"], row["iodepth"], row["block_bytes"], row["access"], row["pattern"])
        assert shape == (2, 4, 4096, "direct", "randrw")


@pytest.mark.needs("fio")
def test_jobs_one_after_another_stay_apart(run_tool: Callable[..., Any], tmp_path: Path) -> None:
    """Jobs behind a stonewall are of two groups and are rows of their own; a pipe is read too."""
    text = run_fio(
        tmp_path,
        *("--runtime=300ms", "--output-format=json", "--stonewall"),
        *("--name=same", "--rw=read", "--name=same", "--rw=read"),
    )
    done = run_tool(TOOL, "-", input=text)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.startswith("| same, read")]
    assert len(lines) == 2
    assert all("buffered" in line for line in lines)


@pytest.mark.needs("fio")
def test_a_job_that_really_failed_is_named(run_tool: Callable[..., Any], tmp_path: Path) -> None:
    """Where the first job removes the file of the second one, the second one is a problem."""
    text = run_fio(
        tmp_path,
        *("--runtime=300ms", "--output-format=json", "--stonewall", "--unlink=1"),
        *("--name=same", "--rw=read", "--name=same", "--rw=read"),
    )
    done = run_tool(TOOL, "-", input=text)
    assert done.returncode == 1
    assert "stdin, same: No such file or directory" in done.stderr
    assert done.stdout.count("| same, read") == 1


def make_result(**changed: Any) -> dict[str, Any]:
    """A result of fio 3 with two jobs that ran together; `changed` is of the second one."""

    def make_job(**more: Any) -> dict[str, Any]:
        numbers = {
            "io_bytes": 40_960_000,
            "io_kbytes": 40_000,
            "bw_bytes": 4_096_000,
            "iops": 1000.0,
            "runtime": 10_000,
            "total_ios": 10_000,
            "clat_ns": {"mean": 2000.0, "N": 10_000, "percentile": {"99.000000": 9000}},
        }
        job = {"jobname": "a", "groupid": 0, "error": 0, "job options": {"direct": "1"}}
        return job | more | {"read": numbers | more.get("read", {})}

    return {"fio version": "fio-3.36", "jobs": [make_job(), make_job(**changed)]}


def write_result(folder: Path, name: str, document: Any) -> str:
    """The path of a file with the result."""
    return str(save_json(folder / name, document))


def test_jobs_that_were_not_simultaneous_are_a_problem(
    call_tool: Callable[..., Any], tmp_path: Path
) -> None:
    """They are rows of their own, named, and the exit status is 1; --each_job accepts them."""
    path = write_result(tmp_path, "late.json", make_result(read={"runtime": 4000}))
    done = call_tool(TOOL, path)
    assert done.returncode == 1
    assert "late, a, read: its jobs ran between 4 s and 10 s; they are not added up" in done.stderr
    assert done.stdout.count("| a, read") == 2
    assert call_tool(TOOL, path, "--each_job").returncode == 0
    starts = make_result(job_start=1_000_000)
    starts["jobs"][0]["job_start"] = 990_000
    done = call_tool(TOOL, write_result(tmp_path, "starts.json", starts))
    assert done.returncode == 1
    assert "ran together for 0 s" in done.stderr


def test_percentiles_of_several_jobs_need_histograms(report: ModuleType) -> None:
    """Without bins the p99 of a sum is unknown, not an average of the p99s."""
    [row], problems = report.read_document_rows("x", make_result(), each_job=False)
    assert problems == []
    assert row["latency_seconds_p99"] is None
    assert row["latency_seconds_mean"] == pytest.approx(2e-6)
    assert row["bytes_per_second"] == 2 * 4_096_000


def test_failed_jobs_are_a_problem(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """A job with an error makes its row FAILED, with the error in words, and the exit status 1."""
    done = call_tool(TOOL, write_result(tmp_path, "failed.json", make_result(error=28)))
    assert done.returncode == 1
    assert "failed, a, read: No space left on device" in done.stderr
    assert "FAILED" in done.stdout
    idle = make_result()
    idle["jobs"] = [{"jobname": "a", "error": 5, "read": {"io_bytes": 0}}]
    done = call_tool(TOOL, write_result(tmp_path, "idle.json", idle))
    assert done.returncode == 1
    assert "idle, a: Input/output error" in done.stderr


def test_clients_of_a_server_run_are_jobs(report: ModuleType) -> None:
    """client_stats is read as jobs are; the sum that fio adds for all clients is left out."""
    jobs = make_result()["jobs"]
    document = {"client_stats": [*jobs, jobs[0] | {"jobname": "All clients"}]}
    [row], _ = report.read_document_rows("x", document, each_job=False)
    assert (row["job"], row["jobs"]) == ("a", 2)


def test_files_of_one_name_are_told_apart(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """Of equal names the folders are shown, and no more of the path than that."""
    paths = [write_result(tmp_path, f"{name}/run.json", make_result()) for name in ("a", "b")]
    done = call_tool(TOOL, *paths)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0].split("|")[2:4] == [" a/run ", " b/run "]


@pytest.mark.parametrize("text", ["", "no JSON here", "{}", '{"jobs": ', "[1, 2]", "{" * 2000])
def test_files_without_results_are_a_problem(
    call_tool: Callable[..., Any], tmp_path: Path, text: str
) -> None:
    """A file without a result of fio is named, with exit status 1, never a traceback."""
    path = tmp_path / "none.json"
    path.write_text(text)
    done = call_tool(TOOL, str(path))
    assert done.returncode == 1
    assert "none: there is no result of fio in it" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "jobs", [[], {"a": 1}, 5, None, [3], [{"jobname": "All clients", "read": {}}]]
)
def test_a_result_without_jobs_is_a_problem(
    call_tool: Callable[..., Any], tmp_path: Path, jobs: Any
) -> None:
    """A result of fio that has no job is named, with exit status 1, never nothing at all."""
    done = call_tool(
        TOOL, write_result(tmp_path, "empty.json", {"fio version": "fio-3.36", "jobs": jobs})
    )
    assert done.returncode == 1
    assert "problem: empty: there is no job in this result of fio" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name the JSON files of fio"),
        (["--toy", "x.json"], "name the JSON files of fio"),
        (["nowhere.json"], "could not read nowhere.json: No such file or directory"),
        (["x.json", "x.json"], "a file is given twice"),
    ],
)
def test_wrong_use_is_told(
    call_tool: Callable[..., Any], arguments: list[str], message: str
) -> None:
    """What makes no sense ends with status 2 and a sentence."""
    done = call_tool(TOOL, *arguments)
    assert done.returncode == 2
    assert message in done.stderr


NOISE = st.lists(
    st.text(
        st.characters(codec="utf-8", exclude_characters="\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
    )
    .map(str.strip)
    .filter(lambda line: not line.startswith("{")),
    max_size=5,
)


@given(NOISE, NOISE, st.integers(1, 3), st.sampled_from([None, 1]))
def test_noise_around_results_is_no_matter(
    report: ModuleType, before: list[str], after: list[str], count: int, indent: int | None
) -> None:
    """Lines before and after the JSON never change what is read, and each of them is told."""
    result = make_result()
    text = "\n".join([*before, *[json.dumps(result, indent=indent)] * count, *after])
    documents, around = report.parse_fio_text(text)
    assert documents == [result] * count
    assert around == [line for line in [*before, *after] if line]


def test_nan_and_inf_become_null(report: ModuleType) -> None:
    """What JSON does not have is read as null, but only where a value stands."""
    text = '{"jobs": [], "a" : -nan, "b": inf, "c" :NaN, "d": -Infinity, "e": "is: nan", "f": 1}'
    [document], _ = report.parse_fio_text(text)
    assert document == {
        "jobs": [],
        **dict.fromkeys("abcd"),
        "e": "is: nan",
        "f": 1,
    }


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4k", 4096),
        ("4096", 4096),
        ("1MiB", 1 << 20),
        ("2g", 2 << 30),
        ("4k,8k", 4096),
        ("x", None),
    ],
)
def test_sizes_of_fio(report: ModuleType, text: str, size: int | None) -> None:
    """Sizes are read as fio reads them, with k as 1024."""
    assert report.parse_fio_bytes(text) == size
