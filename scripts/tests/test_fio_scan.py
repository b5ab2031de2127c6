"""fio_scan: its numbers are fio's, it keeps to its folder, and it says what it cannot trust."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "storage/fio_scan.py"

QUICK = ("--runtime", "0.3s", "--jobs", "2", "--iodepth", "4", "--engine", "libaio")


@pytest.fixture(scope="module")
def scan(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    """The tool as a module."""
    return load_tool(TOOL)


@pytest.fixture
def mount(tmp_path: Path, can_mount: None) -> Iterator[Callable[[str, str], Path]]:
    """Mount a small file system of a type, and unmount it afterwards."""
    mounted = []

    def do(kind: str, options: str) -> Path:
        point = tmp_path / kind
        point.mkdir()
        command = ["mount", "-t", kind, "-o", options, kind, str(point)]
        subprocess.run(command, timeout=30, check=True)
        mounted.append(point)
        return point

    yield do
    for point in mounted:
        subprocess.run(["umount", str(point)], timeout=30, check=True)


def make_part(**changed: Any) -> dict[str, Any]:
    """The numbers of one job, as read from fio's JSON."""
    part = {
        "bytes": 1e6,
        "seconds": 10.0,
        "start": None,
        "requests": 1000,
        "bytes_per_second": 1e5,
        "requests_per_second": 100.0,
        "latency_seconds_mean": 1e-3,
        "latency_seconds_p50": 1e-3,
        "latency_seconds_p99": 2e-3,
        "bins": {1e-3: 990, 2e-3: 10},
    }
    return part | changed


@pytest.mark.needs("fio")
def test_numbers_are_those_of_fio(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Bandwidth, IOPS and latencies of a row are those in the JSON that fio wrote for the run."""
    keep, place, path = tmp_path / "keep", tmp_path / "place", tmp_path / "out.json"
    keep.mkdir()
    place.mkdir()
    loads = ("--patterns", "randread", "write", "--file_sizes", "256k", "--block_sizes", "16k")
    options = (*loads, *QUICK, "--repeats", "1", "--keep", str(keep), "--json", str(path))
    done = run_tool(TOOL, str(place), *options)
    assert done.returncode == 0, done.stderr
    document = read_json(path)
    assert document["complete"] is True
    for row in document["results"]:
        kept = keep / f"{row['pattern']}-256k-16k-2x4-1.json"
        text = kept.read_text(encoding="utf-8")
        assert str(place) not in text, "fio's JSON tells where it ran"
        written = json.loads(text)
        direction = "write" if row["pattern"] == "write" else "read"
        parts = [job[direction] for job in written["jobs"]]
        assert len(parts) == 2
        assert row["bytes_per_second_median"] == sum(part["bw_bytes"] for part in parts)
        iops = sum(part["iops"] for part in parts)
        assert row["requests_per_second_median"] == pytest.approx(iops)
        requests = sum(part["total_ios"] for part in parts)
        latency = sum(part["clat_ns"]["mean"] * part["total_ios"] for part in parts) / requests
        assert row["latency_seconds_mean"] == pytest.approx(latency * 1e-9)
        for name, percentile in (("p50", "50.000000"), ("p99", "99.000000")):
            of_jobs = [part["clat_ns"]["percentile"][percentile] * 1e-9 for part in parts]
            assert min(of_jobs) * 0.999 <= row[f"latency_seconds_{name}"] <= max(of_jobs) * 1.001
        assert written["jobs"][0]["job options"]["direct"] == str(int(row["access"] == "direct"))
        assert row["verdict"] in ("one sample", row["access"])
    assert list(place.iterdir()) == []


@pytest.mark.needs("fio")
def test_bins_give_the_percentiles_of_fio(scan: ModuleType, tmp_path: Path) -> None:
    """For one job the percentiles from the histogram are those that fio itself prints."""
    command = [
        *("fio", "--name=a", "--ioengine=psync", "--rw=randread", "--bs=4k", "--size=1m"),
        *("--runtime=300ms", "--time_based", "--output-format=json+", f"--directory={tmp_path}"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    [job] = scan.list_fio_jobs(scan.parse_fio_text(done.stdout)[0][0])
    part = scan.read_fio_direction(job, "read")
    for share, name in ((0.5, "p50"), (0.99, "p99")):
        found = scan.find_bin_percentile(part["bins"], share)
        assert found == pytest.approx(part[f"latency_seconds_{name}"])


@pytest.mark.needs("fio")
def test_checkpoints_are_whole_files(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """--preset checkpoint writes and reads each file once, the slowest job decides."""
    path = tmp_path / "out.json"
    options = ("--preset", "checkpoint", "--file_sizes", "4m", "--block_sizes", "1m")
    done = run_tool(
        TOOL, str(tmp_path), *options, "--jobs", "2", "--repeats", "1", "--json", str(path)
    )
    assert done.returncode == 0, done.stderr
    document = read_json(path)
    assert [row["pattern"] for row in document["results"]] == ["write", "read"]
    assert document["details"]["settings"]["whole_files"] is True
    for run in document["details"]["runs"]:
        assert run["bytes"] == 2 * 4 * 2**20
        assert run["bytes_per_second"] == pytest.approx(run["bytes"] / run["seconds"])
    assert not any("fsync" in caveat for caveat in document["caveats"])
    timed = run_tool(TOOL, str(tmp_path), *options, "--jobs", "1", "--runtime", "1s")
    assert timed.returncode == 0, timed.stderr
    assert "this is not the checkpoint load" in timed.stderr


@pytest.mark.needs("fio")
def test_full_disk_is_refused(run_tool: Callable[..., Any], mount: Callable[..., Path]) -> None:
    """What does not fit is refused before anything is written, with both sizes."""
    point = mount("tmpfs", "size=8m")
    done = run_tool(TOOL, str(point), "--file_sizes", "8m", "--jobs", "2", "--repeats", "1")
    assert done.returncode == 2
    assert "takes 17m on the file system, and 8m are free" in done.stderr
    assert list(point.iterdir()) == []


@pytest.mark.needs("fio")
def test_memory_and_missing_direct_io_are_marked(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], mount: Callable[..., Path]
) -> None:
    """Numbers of memory say so in each row and as a caveat, and are never ok."""
    for kind in ("tmpfs", "ramfs"):
        point = mount(kind, "size=8m" if kind == "tmpfs" else "mode=700")
        path = point / "out.json"
        done = run_tool(TOOL, "--toy", str(point), "--json", str(path))
        assert done.returncode == 0, done.stderr
        document = read_json(path)
        assert {row["access"] for row in document["results"]} == {"memory"}
        assert {row["verdict"] for row in document["results"]} == {"memory"}
        assert f"the file system is {kind}" in document["caveats"][0]
        assert document["details"]["settings"]["access"] == "memory"


@pytest.mark.needs("fio")
def test_buffered_runs_are_marked(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """--buffered is told to fio, and each row and a caveat say it."""
    path = tmp_path / "out.json"
    done = run_tool(TOOL, "--toy", str(tmp_path), "--buffered", "--json", str(path))
    assert done.returncode == 0, done.stderr
    document = read_json(path)
    assert {row["verdict"] for row in document["results"]} == {"buffered"}
    assert any("page cache" in caveat for caveat in document["caveats"])
    assert "read, buffered" in done.stdout


def test_direct_io_is_tried_not_assumed(scan: ModuleType, mount: Callable[..., Path]) -> None:
    """A file system without O_DIRECT is found out by trying."""
    point = mount("ramfs", "mode=700")
    assert scan.can_do_direct(point) is False
    assert list(point.iterdir()) == []


def start_scan(place: Path, *options: str) -> subprocess.Popen[str]:
    """A long scan, already at work in its folder."""
    process = subprocess.Popen(
        [sys.executable, str(SCRIPTS / TOOL), str(place), "--runtime", "0.5s", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 30
    while not list(place.glob(".fio_scan-*/scan*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    return process


def find_owned(place: Path) -> list[int]:
    """The processes that the note in the folder names."""
    [owner] = place.glob(".fio_scan-*/owner.json")
    return list(json.loads(owner.read_text(encoding="utf-8"))["processes"])


def wait_until_gone(number: int) -> bool:
    """Whether a process ends within some seconds."""
    deadline = time.monotonic() + 10
    while Path(f"/proc/{number}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return not Path(f"/proc/{number}").exists()


@pytest.mark.needs("fio")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_signals_keep_what_was_measured_and_clean_up(
    read_json: Callable[[Path], Any], tmp_path: Path, name: str
) -> None:
    """A signal ends fio, removes the folder, and leaves JSON that says it is not complete."""
    place, path = tmp_path / "place", tmp_path / "out.json"
    place.mkdir()
    sizes = ("--file_sizes", "64k", "--jobs", "2", "--iodepth", "2", "--repeats", "500")
    process = start_scan(place, *sizes, "--ramp_time", "1s", "--json", str(path))
    try:
        numbers = find_owned(place)
        process.send_signal(getattr(signal, name))
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 1, said
    assert "Traceback" not in said
    assert list(place.iterdir()) == []
    assert all(wait_until_gone(number) for number in numbers)
    assert read_json(path)["complete"] is False


@pytest.mark.needs("fio")
def test_leftovers_of_a_kill_are_named_and_removed(
    run_tool: Callable[..., Any], tmp_path: Path
) -> None:
    """After SIGKILL the next run names the folder, and removes it only when asked to."""
    # One run of fio that is still going: between two there would be another one to end.
    small = ("--file_sizes", "64k", "--jobs", "2", "--iodepth", "2")
    process = start_scan(tmp_path, *small, "--runtime", "60s")
    tool, fio = find_owned(tmp_path)
    [folder] = tmp_path.glob(".fio_scan-*")
    process.kill()
    process.communicate(timeout=30)
    assert process.pid == tool
    os.killpg(fio, signal.SIGKILL)
    assert wait_until_gone(fio)
    named = run_tool(TOOL, "--toy", str(tmp_path))
    assert f"{folder.name} was left behind" in named.stderr
    assert folder.is_dir()
    removed = run_tool(TOOL, "--toy", str(tmp_path), "--remove_leftovers")
    assert f"removed {folder.name}" in removed.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.needs("fio")
def test_failing_fio_is_a_problem_of_its_row(
    scan: ModuleType, run_tool: Callable[..., Any], tmp_path: Path
) -> None:
    """Where fio fails the row says FAILED and why, the exit status is 1, and no path is told."""
    ours = tmp_path / "bin"
    ours.mkdir()
    (ours / "fio").write_text(
        "#!/bin/sh\ncase $1 in\n--version) echo fio-9;;\n"
        "--enghelp) echo 'Available:'; echo '\tlibaio';;\n"
        '*) echo "fio: pid=1, file:$PWD/scan.0.0, error=No space left on device"; exit 1;;\nesac\n'
    )
    (ours / "fio").chmod(0o755)
    environ = {"PATH": f"{ours}:{os.environ['PATH']}"}
    done = run_tool(TOOL, "--toy", str(tmp_path), environ=environ)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert str(tmp_path) not in done.stderr.replace(str(ours), "")
    assert "FAILED" in done.stdout


def test_missing_fio_is_one_line(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """Without fio a run says how to get it, and the self-test passes with a note."""
    environ = {"PATH": str(tmp_path)}
    done = call_tool(TOOL, str(tmp_path), environ=environ)
    assert done.returncode == 2
    assert "fio is not there: apt-get install fio" in done.stderr
    tested = call_tool(TOOL, "--self-test", environ=environ)
    assert tested.returncode == 0, tested.stderr
    assert "fio is not there" in tested.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--block_sizes", "1m", "--file_sizes", "4k"), "1m does not fit into --file_sizes 4k"),
        (("--block_sizes", "3k", "--file_sizes", "4k"), "4k is no multiple of --block_sizes 3k"),
        (("--whole_files", "--runtime", "3s"), "leave out --runtime and --ramp_time"),
        (("--preset", "checkpoint", "--runtime", "5s", "--whole_files"), "leave out --runtime"),
        (("--keep", "/nowhere/at/all"), "--keep: there is no folder"),
        (("--file_sizes", "4x"), "'4x' is no size: write 4096, 16k, 1m or 4g"),
        (("--toy", "--preset", "dataset"), "leave out --preset"),
        (("/nowhere/at/all",), "there is no folder /nowhere/at/all"),
    ],
)
def test_wrong_use_is_told(
    call_tool: Callable[..., Any], tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    """What makes no sense ends with status 2 and a sentence, and nothing is written."""
    done = call_tool(TOOL, *options, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("preset", ["scan", "checkpoint", "dataset"])
def test_whole_files_take_the_place_of_a_presets_times(scan: ModuleType, preset: str) -> None:
    """--whole_files needs nothing but itself: only times that were given stand against it."""
    parser = scan.build_parser()
    load = scan.Load("read", 1 << 20, 4096, 1, 1)
    merged = scan.merge_options(parser.parse_args(["--preset", preset, "--whole_files"]))
    scan.check_loads([load], merged)
    assert (merged["whole_files"], merged["runtime"], merged["ramp_time"]) == (True, 0.0, 0.0)
    for time_option in ("--runtime", "--ramp_time"):
        options = parser.parse_args(["--preset", preset, "--whole_files", time_option, "1s"])
        with pytest.raises(scan.WrongUse, match="leave out --runtime and --ramp_time"):
            scan.check_loads([load], scan.merge_options(options))
    # A runtime alone takes the place of whole files.
    merged = scan.merge_options(parser.parse_args(["--preset", preset, "--runtime", "5s"]))
    assert (merged["whole_files"], merged["runtime"]) == (False, 5.0)


@pytest.mark.needs("fio")
def test_advice_on_unsteady_whole_files_is_what_they_take(
    run_tool: Callable[..., Any], scan: ModuleType, tmp_path: Path
) -> None:
    """Where whole files are unsteady the advice is no --runtime, which they do not have."""
    sizes = ["--file_sizes", "64k", "--block_sizes", "4k", "--jobs", "1", "--iodepth", "1"]
    advice = scan.advise_on_unsteady({"whole_files": True})
    assert "--runtime" not in advice
    assert "more --repeats" in advice
    assert "a longer --runtime" in scan.advise_on_unsteady({"whole_files": False})
    done = run_tool(TOOL, str(tmp_path), *sizes, "--whole_files", "--repeats", "5")
    assert done.returncode == 0, done.stderr
    assert "--runtime" not in done.stderr


def test_help_closes_its_brackets(scan: ModuleType) -> None:
    """Each help text of an option has as many brackets closed as opened."""
    for action in scan.build_parser()._actions:
        assert (action.help or "").count("(") == (action.help or "").count(")"), action.dest


@pytest.mark.needs("fio")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--engine", "nosuch"), "this fio has no nosuch"),
        (("--engine", "psync", "--iodepth", "4"), "--iodepth has to be 1"),
    ],
)
def test_engines_that_cannot_do_it_are_refused(
    run_tool: Callable[..., Any], tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    """An engine that fio has not, or that has one request at a time, is refused at once."""
    done = run_tool(TOOL, str(tmp_path), *options)
    assert done.returncode == 2
    assert message in done.stderr


def test_jobs_that_were_not_simultaneous_are_not_added(scan: ModuleType) -> None:
    """Unequal run times, or equal ones at other times, are refused, with a row without numbers."""
    assert scan.find_unsimultaneous([make_part(), make_part(seconds=9.5)]) is None
    assert "between 5 s and 10 s" in scan.find_unsimultaneous([make_part(), make_part(seconds=5.0)])
    assert "together for 0 s" in scan.find_unsimultaneous(
        [make_part(start=100.0), make_part(start=110.0)]
    )
    assert scan.find_unsimultaneous([make_part(start=100.0), make_part(start=100.5)]) is None
    load = scan.Load("read", 65536, 4096, 2, 1)
    settings = scan.ScanSettings("libaio", "direct", 1.0, 0.0, 1, False)
    run = make_part(unsimultaneous="its jobs ran between 5 s and 10 s")
    row = scan.make_load_row(load, [run], settings, None)
    assert row["verdict"] == "NOT SIMULTANEOUS"
    assert row["bytes_per_second_median"] is row["latency_seconds_mean"] is None
    assert scan.find_load_problems([row])


def test_more_requests_in_flight_than_possible_are_flagged(scan: ModuleType) -> None:
    """Rate times latency above jobs times iodepth is IMPOSSIBLE, and a problem."""
    load = scan.Load("read", 65536, 4096, 2, 4)
    settings = scan.ScanSettings("libaio", "direct", 1.0, 0.0, 1, False)
    possible = make_part(requests_per_second=7900.0, unsimultaneous=None)
    assert scan.make_load_row(load, [possible], settings, None)["verdict"] == "one sample"
    impossible = make_part(requests_per_second=9000.0, unsimultaneous=None)
    row = scan.make_load_row(load, [impossible], settings, None)
    assert row["verdict"] == "IMPOSSIBLE"
    assert scan.find_load_problems([row])


@given(
    st.lists(
        st.dictionaries(
            st.integers(1, 10**9).map(lambda ns: ns * 1e-9),
            st.integers(1, 1000),
            min_size=1,
            max_size=20,
        ),
        min_size=1,
        max_size=5,
    )
)
def test_sums_of_jobs(scan: ModuleType, histograms: list[dict[float, int]]) -> None:
    """Rates add up, the mean is over requests, and percentiles lie within those of the jobs."""
    parts = []
    for bins in histograms:
        requests = sum(bins.values())
        mean = sum(value * count for value, count in bins.items()) / requests
        parts.append(
            make_part(
                requests=requests,
                latency_seconds_mean=mean,
                latency_seconds_p50=scan.find_bin_percentile(bins, 0.5),
                latency_seconds_p99=scan.find_bin_percentile(bins, 0.99),
                bins=bins,
            )
        )
    whole = scan.combine_fio_jobs(parts)
    assert whole["requests"] == sum(part["requests"] for part in parts)
    assert whole["bytes_per_second"] == pytest.approx(1e5 * len(parts))
    means = [part["latency_seconds_mean"] for part in parts]
    assert min(means) * 0.999 <= whole["latency_seconds_mean"] <= max(means) * 1.001
    for name in ("latency_seconds_p50", "latency_seconds_p99"):
        of_jobs = [part[name] for part in parts]
        assert min(of_jobs) <= whole[name] <= max(of_jobs)
    assert math.isfinite(whole["latency_seconds_p99"])


def test_file_system_of_a_path(scan: ModuleType, tmp_path: Path) -> None:
    """The deepest mount point counts, later mounts hide earlier ones, blanks are decoded."""
    mounts = tmp_path / "mountinfo"
    inside = tmp_path / "a b" / "c"
    inside.mkdir(parents=True)
    place = str(inside.parent).replace(" ", r"\040")
    mounts.write_text(
        "1 0 8:1 / / rw shared:1 - ext4 /dev/x rw\n"
        f"2 1 0:5 / {place} rw - xfs none rw\n"
        f"3 1 0:6 / {place} rw master:2 - nfs4 server:/x rw\n"
        "garbage\n"
    )
    assert scan.find_file_system(inside, mounts) == "nfs4"
    assert scan.find_file_system(tmp_path, mounts) == "ext4"
    assert scan.find_file_system(tmp_path, tmp_path / "none") == "unknown"


def test_folders_of_other_machines_are_never_removed(
    scan: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder whose owner cannot be known from here is named and left alone."""
    folder = tmp_path / ".fio_scan-x"
    folder.mkdir()
    (folder / "owner.json").write_text('{"boot": "another", "processes": [1]}')
    assert scan.handle_leftovers(tmp_path, remove=True) == []
    assert folder.is_dir()
    assert "another machine" in capsys.readouterr().err
    (folder / "owner.json").write_text(
        json.dumps({"boot": scan.read_boot(), "processes": [os.getpid()]})
    )
    assert "works on the same file system" in scan.handle_leftovers(tmp_path, remove=True)[0]
    assert folder.is_dir()
