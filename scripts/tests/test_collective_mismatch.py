"""collective_mismatch: dumps compared by hand and by law, and faults of real ranks."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "debug/collective_mismatch.py"

Ring = list[dict[str, Any]]


@pytest.fixture(scope="module")
def mismatch(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def make_ring(*calls: str, done: int = 1) -> Ring:
    """The entries of calls like `all_reduce 4`, of which so many are completed."""
    return [
        {
            "process_group": ("0", "default_pg"),
            "collective_seq_id": number,
            "profiling_name": f"nccl:{call.split()[0]}",
            **{key: [[int(call.split()[1])]] for key in ("input_sizes", "output_sizes")},
            **{key: ["Float"] for key in ("input_dtypes", "output_dtypes")},
            "state": "completed" if number <= done else "scheduled",
            "is_p2p": False,
            "frames": [
                {"filename": "/usr/lib/python3/torch/x.py", "line": 1},
                {"filename": "/home/a/train.py", "line": 10 + number},
            ],
        }
        for number, call in enumerate(calls, start=1)
    ]


def write_dumps(folder: Path, rings: dict[int, Ring], size: int) -> None:
    """The rings as dumps of a group of so many ranks."""
    folder.mkdir(parents=True, exist_ok=True)
    group = {"name": "0", "desc": "default_pg", "ranks": str(list(range(size)))}
    for rank, ring in rings.items():
        document = {"version": "2.10", "pg_config": {"0": group}, "entries": ring}
        (folder / f"rank_{rank}").write_bytes(pickle.dumps(document))


@pytest.fixture
def compare(mismatch: Any, tmp_path: Path) -> Callable[..., list[tuple[str, int, str]]]:
    """Verdict, number and ranks of what differs between rings."""

    def look(*rings: Ring, size: int = 0) -> list[tuple[str, int, str]]:
        write_dumps(tmp_path, dict(enumerate(rings)), size or len(rings))
        dumps = {rank: (tmp_path / f"rank_{rank}").read_bytes() for rank in range(len(rings))}
        rows = mismatch.compare_dumps(dumps)
        return [(row["verdict"], row["number"], row["ranks"]) for row in rows]

    return look


def test_differences_by_hand(compare: Any) -> None:
    """Operation, shape, order, one behind: kind, number and rank of each."""
    reduce, share = "all_reduce 4", "broadcast 4"
    usual = make_ring(reduce, reduce, share)

    def look(*calls: str) -> Any:
        return compare(usual, make_ring(*calls), usual)

    assert look(reduce, reduce, share) == [("ok", 3, "0-2")]
    assert look(reduce, "reduce 4", share) == [("op", 2, "1")]
    assert look(reduce, "all_reduce 8", share) == [("shape", 2, "1")]
    assert look(reduce, share, reduce) == [("order", 2, "1")]
    assert look(reduce) == [("missing", 3, "1")]


def test_a_rank_that_waits_elsewhere_is_not_blamed(compare: Any) -> None:
    """Of two ranks that have not come to collective 3, the one that waits itself is held up."""
    reduce = "all_reduce 4"
    front = make_ring(reduce, reduce, reduce, done=2)
    waits, free = make_ring(reduce, reduce, done=1), make_ring(reduce, reduce, done=2)
    assert compare(front, waits, free) == [("missing", 3, "2")]
    assert compare(front, waits, waits) == [("missing", 3, "1-2")]


def test_overwritten_entries_are_not_missed(compare: Any) -> None:
    """Ring buffers that begin at different numbers."""
    long = make_ring(*["all_reduce 4"] * 6, done=6)
    assert compare(long, long[3:])[0][0] == "ok"
    other = make_ring(*["all_reduce 4"] * 5, "broadcast 4")[3:]
    assert compare(long, long, other) == [("op", 6, "2")]


@pytest.mark.parametrize("operation", ["all_to_all", "gather", "reduce_scatter_v"])
def test_uneven_collectives_may_differ_in_shape(compare: Any, operation: str) -> None:
    """Other shapes on each rank are no difference."""
    assert compare(*(make_ring(f"{operation} {size}") for size in (1, 2)))[0][0] == "ok"


def test_dumps_are_read(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """The table and the JSON name rank, collective and line of code; subfolders, as `play --keep`
    writes them, are jobs of their own."""
    out = tmp_path / "out.json"
    usual = make_ring("all_reduce 4", "all_reduce 4")
    rings = {0: usual, 1: usual, 2: make_ring("all_reduce 4", "broadcast 4")}
    write_dumps(tmp_path / "fr" / "op", rings, 3)
    write_dumps(tmp_path / "fr" / "good", {0: usual, 1: usual}, 2)
    done = run_tool(TOOL, "read", str(tmp_path / "fr"), "--json", str(out))
    assert done.returncode == 1
    good, bad = read_json(out)["results"]
    assert good["words"] == "all ranks call all_reduce [4] Float at train.py:12"
    assert bad == {
        "verdict": "op",
        "group": "default_pg",
        "number": 2,
        "ranks": "2",
        "words": "rank 2: broadcast [4] Float at train.py:12; "
        "rank 0-1: all_reduce [4] Float at train.py:12",
    }
    done = run_tool(TOOL, "read", str(tmp_path / "fr" / "good"))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "no rank differs")


class Trap:
    """What a pickle could hold: a command that is run while it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (os.system, (f"touch {self.path}",))


def test_a_pickle_with_code_is_refused(run_tool: Callable[..., Any], tmp_path: Path) -> None:
    """And the code is not run."""
    path, mark = tmp_path / "rank_0", tmp_path / "mark"
    path.write_bytes(pickle.dumps({"version": "2.10", "entries": Trap(mark)}))
    done = run_tool(TOOL, "read", str(tmp_path))
    assert done.returncode == 2
    assert "not a whole flight recorder dump: it asks for posix.system" in done.stderr
    assert not mark.exists()


@pytest.mark.torch
def test_every_fault_is_named(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """The recorder and DETAIL name rank 2 each time, the barrier only where it is missing; the
    kept dumps say the same, and torch's own reader takes them."""
    out, keep = tmp_path / "out.json", tmp_path / "dumps"
    done = run_tool(TOOL, "play", "--timeout", "4s", "--keep", str(keep), "--json", str(out))
    assert done.returncode == 0, done.stderr
    rows = read_json(out)["results"]
    faults = ("op", "shape", "order", "missing")
    assert {(row["fault"], row["way"]) for row in rows if row["named"]} == {
        *((fault, way) for fault in faults for way in ("recorder", "detail")),
        ("missing", "barrier"),
    }
    assert {row["ranks"] for row in rows} == {"2", None}
    done = run_tool(TOOL, "read", str(keep))
    assert done.returncode == 1
    for words in (
        "rank 2: broadcast [4] Float at collective_mismatch.py:",
        "rank 2: all_reduce [2x2] Float at collective_mismatch.py:",
        "rank 2 has them in another order",
        "rank 2: was last in all_reduce [4]",
    ):
        assert words in done.stdout
    reader = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", "--prefix"]
    own = subprocess.run(
        [*reader, "rank_", str(keep / "op")], capture_output=True, text=True, check=False
    )
    assert own.returncode == 0, own.stderr
    assert "COLLECTIVE_TYPE_MISMATCH" in own.stdout + own.stderr


HANGS = """\
import datetime, pathlib, sys, time
sys.path.insert(0, sys.argv[1])
from collective_mismatch import keep_ready
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
rank = dist.get_rank()
keep_ready(sys.argv[2], rank, 0.1)
dist.all_reduce(torch.ones(4))
pathlib.Path(sys.argv[2], f"arrived.{rank}.").touch()
if rank == 1:
    time.sleep(120)
dist.barrier()
"""


@pytest.mark.torch
@pytest.mark.nightly
def test_a_job_that_hangs_writes_its_dumps(run_tool: Callable[..., Any], tmp_path: Path) -> None:
    """keep_ready under torchrun: dump_now brings the dumps of ranks that are stuck in a barrier,
    and the rank that did not come is named with its last line."""
    script, folder = tmp_path / "train.py", tmp_path / "fr"
    script.write_text(HANGS)
    folder.mkdir()
    (folder / "dump_now").touch()  # of an earlier hang: it is not heeded
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    process = subprocess.Popen(
        [*torchrun, "3", str(script), str(SCRIPTS / "debug"), str(folder)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1", "TORCH_FR_BUFFER_SIZE": "100"},
        start_new_session=True,
    )

    def wait_for(pattern: str) -> None:
        end = time.monotonic() + 100
        while len(list(folder.glob(pattern))) < 3:
            assert time.monotonic() < end, f"{pattern} does not come"
            time.sleep(0.1)

    try:
        wait_for("arrived.*")
        assert not list(folder.glob("rank_*"))
        (folder / "dump_now").touch()
        wait_for("rank_*")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    done = run_tool(TOOL, "read", str(folder))
    assert done.returncode == 1
    assert "| missing | default_pg |      2 |     1 |" in done.stdout
    assert "rank 1: was last in all_reduce [4] Float at train.py:10" in done.stdout
