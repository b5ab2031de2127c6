"""dist_mem_usage: sums by hand, and real ranks that come, stop, die and do not come."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from testing_utils import execute_subprocess_async, load_json

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "training/dist_mem_usage.py"
GIB = 1024**3
MIB = 1024**2

QUICK = ["--device", "cpu", "--payload", "1MiB", "--rounds", "1"]


@pytest.fixture(scope="module")
def usage(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def make_rows(usage: Any, sizes: Mapping[str, int | None], rank: int = 0, **more: Any) -> Any:
    """The rows of one rank whose process has so many bytes on its device after each step."""
    rows = []
    for step, size in sizes.items():
        row = {"rank": rank, "round": int(step not in usage.ONCE), "step": step}
        row |= {f"{name}_bytes": None for name in usage.GROWING}
        rows.append({**row, "process_device_bytes": size, **more})
    usage.add_growth(rows)
    return rows


REFERENCE = {
    "start": None, "device": int(0.55 * GIB), "store": int(0.55 * GIB), "group": int(0.55 * GIB),
    "barrier": 2 * GIB, "barrier again": 2 * GIB, "all_reduce": 2 * GIB, "destroy": int(1.25 * GIB),
}  # fmt: skip


def test_growth_by_hand(usage: Any) -> None:
    """A context of 0.55 GiB, 1.45 GiB at the first barrier, and 0.75 GiB given back at the end."""
    rows = {row["step"]: row["process_device_growth_bytes"] for row in make_rows(usage, REFERENCE)}
    assert rows["start"] is None
    assert rows["device"] == int(0.55 * GIB)
    assert (rows["store"], rows["group"]) == (0, 0)
    assert rows["barrier"] == 2 * GIB - int(0.55 * GIB)
    assert rows["destroy"] == int(1.25 * GIB) - 2 * GIB


def test_costs_of_a_round_by_hand(usage: Any) -> None:
    """Group and collectives together, on each rank; a rank with a gap says nothing."""
    rows = make_rows(usage, REFERENCE) + make_rows(usage, {**REFERENCE, "barrier": None}, 1)
    steps = ["group", "barrier", "barrier again", "all_reduce"]
    assert usage.sum_growth(rows, "process_device", 1, steps) == [2 * GIB - int(0.55 * GIB)]
    [told] = usage.describe_costs(rows[:8], 1)
    assert told.startswith("device memory of the process (NVML), round 1: group and collectives")
    assert told.endswith("cost 1.45 GiB a rank; destroy changes that by -768 MiB")


def test_what_the_allocator_holds_is_no_cost(usage: Any) -> None:
    """2 MiB that torch's allocator keeps are taken off what the driver counts."""
    rows = make_rows(usage, REFERENCE)
    for row in rows:
        row["torch_reserved_bytes"] = 2 * MIB if row["step"] in ("all_reduce", "destroy") else 0
    usage.add_growth(rows)
    assert usage.sum_growth(rows, "process_device", 1, ["all_reduce"]) == [-2 * MIB]


def test_a_rank_that_pays_for_others_is_named(usage: Any) -> None:
    """Rank 0 of four with three foreign contexts on its device at the barrier."""
    rows = []
    for rank in range(4):
        more = int(1.6 * GIB) if rank == 0 else 0
        rows += make_rows(usage, {**REFERENCE, "barrier": 2 * GIB + more}, rank)
    assert usage.find_strays(rows) == [
        "ranks 0 take over 256 MiB more than others at 'barrier': do other ranks use their device?"
    ]
    assert usage.find_strays(rows[8:]) == []


def test_the_number_that_tells_most(usage: Any) -> None:
    """NVML's number of the process before that of the device, before PSS, before RSS."""
    names = ("process_device", "device_used", "pss", "rss")
    row = {f"{name}_bytes": 1 for name in names}
    for name in names:
        assert usage.choose_measure([row]) == name
        row[f"{name}_bytes"] = None


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (999, "999 B"),
        (1024, "1.00 KiB"),
        (10 * MIB, "10.0 MiB"),
        (-768 * MIB, "-768 MiB"),
        (1023 * MIB, "1.00 GiB"),
        (1610612736, "1.50 GiB"),
    ],
)
def test_binary_units(usage: Any, size: int | None, text: str) -> None:
    """Three digits in the unit that leaves less than a thousand."""
    assert usage.format_memory(size) == text


@pytest.mark.nightly
@pytest.mark.torch
def test_two_ranks_of_torchrun_and_two_rounds(
    tmp_path: Path, read_json: Callable[[Path], Any]
) -> None:
    """Every rank has a row for each step of each round, and the sum of ranks is right."""
    path = tmp_path / "out.json"
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    tool = [str(SCRIPTS / TOOL), "--device", "cpu", "--payload", "1MiB", "--json", str(path)]
    execute_subprocess_async([*launcher, "--nproc_per_node", "2", *tool], timeout=120, quiet=True)
    document = read_json(path)
    assert document["complete"] is True
    steps = [(row["round"], row["step"]) for row in document["results"] if row["rank"] == 1]
    each = ["group", "barrier", "barrier again", "all_reduce", "destroy"]
    assert steps == [(0, "start"), (0, "device"), (0, "store")] + [
        (number, step) for number in (1, 2) for step in each
    ]
    sums = [row["answer_ok"] for row in document["results"] if row["step"] == "all_reduce"]
    assert sums == [True] * 4
    assert all(row["rss_bytes"] > 10 * MIB for row in document["results"])
    assert document["details"]["header"]["ranks"] == 2
    assert "host" not in document["details"]["header"]


def start_rank(rank: int, size: int, port: int, *arguments: str) -> subprocess.Popen[str]:
    """One rank of a job, as a launcher starts it."""
    place = {"RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": str(rank)}
    place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, str(SCRIPTS / TOOL), *QUICK, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **place},
    )


def wait_until(port: int, step: str) -> None:
    """Until both ranks are in the middle of a step, as the store of rank 0 has it."""
    torch = pytest.importorskip("torch")
    store = torch.distributed.TCPStore(
        "127.0.0.1", port, is_master=False, timeout=datetime.timedelta(seconds=60)
    )
    store.wait([f"dist_mem_usage/{step}/{rank}" for rank in range(2)])


def end_all(processes: list[subprocess.Popen[str]]) -> list[str]:
    """Wait for all of them, and kill what hangs; what each wrote to stderr."""
    texts = []
    try:
        for process in processes:
            texts.append(process.communicate(timeout=90)[1])
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
                process.wait()
    return texts


@pytest.mark.torch
def test_a_rank_that_does_not_come_is_named(unique_port: int, tmp_path: Path) -> None:
    """Rank 1 of 2 is missing: rank 0 says so after --timeout, and keeps what it has."""
    path = tmp_path / "out.json"
    process = start_rank(0, 2, unique_port, "--timeout", "3s", "--json", str(path))
    [notes] = end_all([process])
    assert process.returncode == 1, notes
    assert "rank 0 failed: at 'store' these ranks did not come: 1" in notes
    assert "Traceback" not in notes
    document = load_json(path)
    assert document["complete"] is False
    assert [row["step"] for row in document["results"]] == ["start", "device"]


@pytest.mark.nightly
@pytest.mark.torch
def test_a_rank_that_dies_is_named(unique_port: int, tmp_path: Path) -> None:
    """Rank 1 is killed in the middle of many rounds: rank 0 ends, and says who is missing."""
    path = tmp_path / "out.json"
    many = ["--rounds", "100000", "--timeout", "10s", "--json", str(path)]
    ranks = [start_rank(rank, 2, unique_port, *many) for rank in range(2)]
    wait_until(unique_port, "2/barrier/after")
    ranks[1].kill()
    notes, _ = end_all(ranks)
    assert ranks[0].returncode == 1, notes
    assert "rank 0 failed" in notes
    assert "ranks 1 left no numbers" in notes
    assert "Traceback" not in notes
    assert load_json(path)["complete"] is False


@pytest.mark.nightly
@pytest.mark.torch
def test_a_signal_to_one_rank_ends_all_with_what_they_have(
    unique_port: int, tmp_path: Path
) -> None:
    """SIGTERM at rank 1 alone: both leave at the same step, and rank 0 writes all rows."""
    path = tmp_path / "out.json"
    many = ["--rounds", "100000", "--timeout", "30s", "--json", str(path)]
    ranks = [start_rank(rank, 2, unique_port, *many) for rank in range(2)]
    wait_until(unique_port, "2/barrier/after")
    ranks[1].send_signal(signal.SIGTERM)
    texts = end_all(ranks)
    assert [rank.returncode for rank in ranks] == [1, 1], texts
    assert "another rank was stopped" in texts[0]
    assert "Traceback" not in "".join(texts)
    document = load_json(path)
    assert document["complete"] is False
    rows = {rank: [r for r in document["results"] if r["rank"] == rank] for rank in range(2)}
    assert len(rows[0]) == len(rows[1]) > 8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--device", "cpu", "--device_id", "on"], "a CPU has no number to give"),
        (["--rounds", "0"], "a whole number from 1"),
        (["--payload", "x"], "is no size"),
        (["--timeout", "0s"], "longer than nothing"),
    ],
)
def test_wrong_use_is_told(
    call_tool: Callable[..., Any], arguments: list[str], message: str
) -> None:
    """What makes no sense ends with status 2 before torch is imported."""
    done = call_tool(TOOL, *arguments, without_torch=True)
    assert done.returncode == 2, done.stderr
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
