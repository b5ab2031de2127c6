"""hostfile: the hosts that Slurm means, in Slurm's order, with the slots that it gave."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slurm_cluster import Cluster, open_cluster

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "orchestration/hostfile.py"
PATH = SCRIPTS / TOOL


@pytest.fixture(scope="module")
def hostfile(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    """The tool as a module."""
    return load_tool(TOOL)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes with two GPUs each."""
    with open_cluster(2, gpus=2) as opened:
        yield opened


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("r10i1n8,r10i2n0", "r10i1n8 r10i2n0"),
        ("r10i1n[7-8]", "r10i1n7 r10i1n8"),
        ("n[09-11]", "n09 n10 n11"),
        ("n[9-11]", "n9 n10 n11"),
        ("n[01,1,1-2]", "n01 n1 n1 n2"),
        ("a[1-2]-ib,b", "a1-ib a2-ib b"),
        ("r[0-1]n[0-1]", "r0n0 r0n1 r1n0 r1n1"),
        # As Slurm 22.05 printed it: the last bracket fastest, then the first.
        ("r[0-1]n[8-9]x[1-2]", "r0n8x1 r0n8x2 r1n8x1 r1n8x2 r0n9x1 r0n9x2 r1n9x1 r1n9x2"),
        ("[1-2]", "1 2"),
        ("n[1-2],", "n1 n2"),
    ],
)
def test_lists_by_hand(hostfile: ModuleType, text: str, hosts: str) -> None:
    """Both forms of a list, zeros, endings and several brackets."""
    assert hostfile.expand_nodelist(text) == hosts.split()


@pytest.mark.parametrize(
    "text",
    [
        *("", ",", "n[", "n]", "n[3-1]", "n[a-b]", "n[]", "n[1,]", "n[-2]", "n[1--2]", "a b"),
        *("n[1-2]]", "n[[1-2]]", "n[1 -2]", "n[0-70000]", "a[0-999]b[0-999]", "n[٣]"),
    ],
)
def test_what_is_no_list_is_refused(hostfile: ModuleType, text: str) -> None:
    """What Slurm would not have written is refused in a line, and at once."""
    with pytest.raises(hostfile.WrongUse, match="hosts"):
        hostfile.expand_nodelist(text)


NAMES = st.from_regex(r"[a-z][a-z0-9]{0,3}(-[a-z])?-?", fullmatch=True)
WIDTHS = st.integers(1, 4)


@st.composite
def brackets(draw: st.DrawFn) -> str:
    """A bracket with one to three numbers or short ranges, with leading zeros or without."""
    items = []
    for _ in range(draw(st.integers(1, 3))):
        first = draw(st.integers(0, 1200))
        width = draw(WIDTHS)
        last = first + draw(st.integers(0, 4))
        ends = [str(first).zfill(width), str(last).zfill(width)]
        items.append("-".join(ends[: draw(st.integers(1, 2))]))
    return f"[{','.join(items)}]"


@st.composite
def nodelists(draw: st.DrawFn) -> str:
    """A list of hosts as Slurm may write it: names, and brackets at the end of names."""
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        part = draw(NAMES)
        for dimension in range(draw(st.integers(0, 3))):
            part += (draw(NAMES) if dimension else "") + draw(brackets())
        parts.append(part.rstrip("-") or "x")
    return ",".join(parts)


@pytest.mark.nightly
def test_lists_are_expanded_as_slurm_does(cluster: Cluster, hostfile: ModuleType) -> None:
    """Whatever the list, hosts and order are those of `scontrol show hostnames`."""

    @given(st.lists(nodelists(), min_size=20, max_size=20))
    @settings(max_examples=6)
    def compare(texts: list[str]) -> None:
        # One shell for many lists: to enter the cluster costs more than to ask.
        script = 'for list; do scontrol show hostnames "$list"; echo; done'
        said = cluster.ask("bash", "-c", script, "bash", *texts)
        answers = said.split("\n\n")[: len(texts)]
        for text, answer in zip(texts, answers, strict=True):
            assert hostfile.expand_nodelist(text) == answer.split(), text

    compare()


@given(st.lists(st.tuples(st.integers(1, 64), st.integers(1, 40)), min_size=1, max_size=6))
def test_counts_come_back(hostfile: ModuleType, runs: list[tuple[int, int]]) -> None:
    """Slurm's short form of numbers per node, `8(x3),4`, is what it was before."""
    text = ",".join(f"{n}(x{times})" if times > 1 else str(n) for n, times in runs)
    expected = [n for n, times in runs for _ in range(times)]
    assert hostfile.expand_counts(text) == expected


def test_gpus_by_hand(hostfile: ModuleType) -> None:
    """GPUs of a node as Slurm writes them, with types, and as lists of this node's numbers."""
    assert hostfile.count_gpus_of("8") == 8
    assert hostfile.count_gpus_of("a100:4") == 4
    assert hostfile.count_gpus_of("a100:4,v100:2") == 6
    with pytest.raises(hostfile.WrongUse, match="no number of GPUs"):
        hostfile.count_gpus_of("many")
    slots, source = hostfile.read_gpu_slots({"SLURM_STEP_GPUS": "0,1,4-5"}, 3)
    assert (slots, source) == ([4, 4, 4], "SLURM_STEP_GPUS of this node")
    assert hostfile.read_gpu_slots({"SLURM_GPUS_ON_NODE": "0"}, 3) == ([], "")


def run_with(run_tool: Callable[..., Any], variables: dict[str, str], *arguments: str) -> Any:
    """The tool in an environment without a job but these variables."""
    environ = {name: value for name, value in os.environ.items() if "SLURM" not in name}
    return subprocess.run(
        [sys.executable, str(PATH), *arguments],
        env=environ | variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("form", "line"),
    [
        ("deepspeed", "n1 slots=4"),
        ("openmpi", "n1 slots=4"),
        ("mpich", "n1:4"),
        ("intel", "n1:4"),
        ("plain", "n1"),
    ],
)
def test_forms(run_tool: Callable[..., Any], form: str, line: str) -> None:
    """Each launcher's form of a line."""
    arguments = ("--form", form, "--slots", "4", "--output", "-")
    done = run_with(run_tool, {"SLURM_JOB_NODELIST": "n[1-2]"}, *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [line, line.replace("n1", "n2")]


def test_a_file_is_written_whole(run_tool: Callable[..., Any], tmp_path: Path) -> None:
    """--output writes the file and nothing else; hosts may be left out, and be listed once."""
    path = tmp_path / "hosts"
    job = {"SLURM_JOB_NODELIST": "n[1-4],n2", "SLURM_TASKS_PER_NODE": "8(x4),2"}
    done = run_with(run_tool, job, "--exclude", "n3", "--first", "2", "--output", str(path))
    assert done.returncode == 0, done.stderr
    assert path.read_text() == "n1 slots=8\nn2 slots=8\n"
    assert "n2 is listed more than once" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["hosts"]


def test_links_and_devices_are_written_to(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """A symbolic link stays one and leads to the new file; a device is not replaced by one."""
    (tmp_path / "there").mkdir()
    link = tmp_path / "hosts"
    link.symlink_to("there/hosts")
    device = tmp_path / "sink"
    device.symlink_to(os.devnull)
    for path in (link, device):
        arguments = ("--nodelist", "n1", "--slots", "1", "--output", str(path))
        assert call_tool(TOOL, *arguments).returncode == 0
        assert path.is_symlink()
    assert (tmp_path / "there" / "hosts").read_text() == "n1 slots=1\n"
    assert Path(os.devnull).is_char_device()


def test_stdout_that_takes_nothing_is_told(tmp_path: Path) -> None:
    """A full disk behind `>`: one line, status 1, and the file is there."""
    hosts = tmp_path / "hosts"
    path = tmp_path / "x.json"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [
                sys.executable,
                PATH,
                "--nodelist",
                "n[1-9999]",
                "--slots",
                "1",
                "--output",
                hosts,
                "--json",
                path,
            ],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    message = "stdout could not be written: No space left on device"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, message)
    assert "Traceback" not in done.stderr
    assert path.exists()
    assert len(hosts.read_text().splitlines()) == 9999


def test_a_reader_that_goes_is_told(tmp_path: Path) -> None:
    """A pipe that nobody reads ends with one line and status 1, not with a traceback."""
    words = [sys.executable, str(PATH), "--nodelist", "n[1-60000]", "--slots", "1", "--output", "-"]
    script = 'unset PYTHONUNBUFFERED; set -o pipefail; "$@" | head -1'
    done = subprocess.run(
        ["bash", "-c", script, "bash", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "n1 slots=1\n")
    assert done.stderr == "stdout could not be written: Broken pipe\n"


def test_json_names_hosts_only_when_asked(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Without --names no host is in the JSON, neither in a row nor in the command."""
    path = tmp_path / "x.json"
    arguments = ["--nodelist", "secret[1-2]", "--slots", "1", "--exclude=secret2"]
    assert call_tool(TOOL, *arguments, "--json", str(path)).returncode == 0
    assert "secret" not in path.read_text()
    assert read_json(path)["results"] == [{"node": 0, "host": None, "slots": 1}]
    assert call_tool(TOOL, *arguments, "--json", str(path), "--names").returncode == 0
    assert read_json(path)["results"][0]["host"] == "secret1"


@pytest.mark.parametrize(
    ("variables", "arguments", "message"),
    [
        ({}, (), "SLURM_JOB_NODELIST is not set here"),
        ({"SLURM_JOB_NODELIST": "n1"}, (), "nothing tells the slots"),
        ({"SLURM_JOB_NODELIST": "n1", "SLURM_TASKS_PER_NODE": "2(x2)"}, (), "speaks of 2 nodes"),
        ({"SLURM_JOB_NODELIST": "n[1-"}, ("--slots", "1"), "is no list of hosts"),
        ({}, ("--nodelist", "n1", "--slots", "1", "--exclude", "n2"), "n2 is not among the hosts"),
        ({}, ("--nodelist", "n1", "--slots", "1", "--exclude", "n1"), "leaves no host"),
        ({}, ("--nodelist", "n1", "--slots", "1", "--first", "2"), "only 1 hosts are left"),
        ({}, ("--nodelist", "n1", "--slots", "none"), "'none': write auto, gpus"),
        ({}, ("--nodelist", "n1", "--slots", "9" * 5000), "write auto, gpus"),
        ({}, ("--nodelist", "n1", "--slots", "1", "--output", "/no/where"), "there is no folder"),
        ({}, ("--nodelist", "n1", "--slots", "1", "--names"), "--names is for --json"),
        (
            {},
            ("--nodelist", "n1", "--slots", "1", "--output", "-", "--json", "-"),
            "--json: - is not stdout here",
        ),
    ],
)
def test_wrong_use_is_told(
    run_tool: Callable[..., Any],
    variables: dict[str, str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    """What cannot be done ends with status 2 and one line on what to do."""
    done = run_with(run_tool, variables, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def run_job(cluster: Cluster, script: Path, *options: str) -> str:
    """Submit a batch file and wait for its end: the state of the job. `sbatch --wait` looks after
    2 s, 12 s and ever later."""
    command = ["sbatch", "--parsable", f"--output={script.parent}/log", *options, str(script)]
    job = cluster.ask(*command).strip().partition(";")[0]

    def is_over() -> bool:
        return all(each.number.partition("+")[0] != job for each in cluster.queue())

    cluster.wait_for(is_over, "the job does not end", 90)
    return next(each.state for each in cluster.jobs() if each.number.partition("+")[0] == job)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("request_of", "expected"),
    [
        (("--nodes=2", "--ntasks=3", "--distribution=block"), None),
        (("--nodes=2", "--gpus-per-node=2"), ["node1 slots=2", "node2 slots=2"]),
        (("--nodes=1", "--ntasks=3", ":", "--nodes=1", "--ntasks=1"), None),
    ],
)
def test_a_real_job(
    cluster: Cluster, tmp_path: Path, request_of: tuple[str, ...], expected: list[str] | None
) -> None:
    """In a batch job, heterogeneous or not, the hosts are those of Slurm with their tasks or
    GPUs."""
    out = tmp_path / "hosts"
    script = tmp_path / "job.sh"
    # What each component has, by srun itself, is the truth.
    groups = "--het-group=0,1" if ":" in request_of else ""
    truth = f"srun {groups} hostname > {tmp_path}/truth" if expected is None else "true"
    script.write_text(f"#!/bin/bash\n{sys.executable} {PATH} --output {out} || exit 1\n{truth}\n")
    state = run_job(cluster, script, *request_of)
    assert state == "COMPLETED", (tmp_path / "log").read_text()
    if expected is None:
        tasks = (tmp_path / "truth").read_text().split()
        expected = [f"{host} slots={tasks.count(host)}" for host in sorted(set(tasks))]
    assert out.read_text().splitlines() == expected


@pytest.mark.nightly
@pytest.mark.needs("mpirun")
def test_open_mpi_reads_the_file(run_tool: Callable[..., Any], tmp_path: Path) -> None:
    """mpirun starts as many ranks as the file has slots, and refuses one more."""
    path = tmp_path / "hosts"
    arguments = ("--nodelist", "localhost", "--slots", "2", "--form", "openmpi")
    assert run_tool(TOOL, *arguments, "--output", str(path)).returncode == 0
    environ = {name: value for name, value in os.environ.items() if "SLURM" not in name}
    for count, expected in (("2", 0), ("3", 1)):
        done = subprocess.run(
            ["mpirun", "--allow-run-as-root", "--hostfile", str(path), "-n", count, "echo", "here"],
            env=environ,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == expected, done.stderr
        assert done.stdout.count("here") == (2 if expected == 0 else 0)
