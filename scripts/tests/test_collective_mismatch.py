"""collective_mismatch: dumps compared by hand and by law, and faults of real ranks."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TOOL = "debug/collective_mismatch.py"

Ring = list[dict[str, Any]]


def make_ring(*calls: str, done: int = 1) -> Ring:
    """The entries of calls like `all_reduce 4`; the first `done` of them are completed."""
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


def make_dumps(rings: list[Ring]) -> dict[int, bytes]:
    """The dumps of a group with these rings."""
    group = {"name": "0", "desc": "default_pg", "ranks": str(list(range(len(rings))))}
    document = {"version": "2.10", "pg_config": {"0": group}}
    return {rank: pickle.dumps({**document, "entries": r}) for rank, r in enumerate(rings)}


REDUCE = "all_reduce 4"
USUAL = make_ring(REDUCE, REDUCE, "broadcast 4")
LONG = make_ring(*[REDUCE] * 6, done=6)
FRONT = make_ring(REDUCE, REDUCE, REDUCE, done=2)
HELD_UP, FREE = make_ring(REDUCE, REDUCE, done=1), make_ring(REDUCE, REDUCE, done=2)


@pytest.mark.parametrize(
    ("rings", "found"),
    [
        ([USUAL, USUAL, USUAL], ("ok", 3, "0-2")),
        ([USUAL, make_ring(REDUCE, "reduce 4", "broadcast 4"), USUAL], ("op", 2, "1")),
        ([USUAL, make_ring(REDUCE, "all_reduce 8", "broadcast 4"), USUAL], ("shape", 2, "1")),
        ([USUAL, make_ring(REDUCE, "broadcast 4", REDUCE), USUAL], ("order", 2, "1")),
        ([USUAL, make_ring(REDUCE), USUAL], ("missing", 3, "1")),
        # Of two ranks that have not come to collective 3, the one that waits itself is held up.
        ([FRONT, HELD_UP, FREE], ("missing", 3, "2")),
        # Ring buffers that begin at different numbers.
        ([LONG, LONG[3:]], ("ok", 6, "0-1")),
        ([LONG, LONG, make_ring(*[REDUCE] * 5, "broadcast 4")[3:]], ("op", 6, "2")),
        # Collectives that may differ in shape.
        ([make_ring("all_to_all 1"), make_ring("all_to_all 2")], ("ok", 1, "0-1")),
    ],
)
def test_the_first_difference(module: Any, rings: list[Ring], found: tuple[Any, ...]) -> None:
    """Verdict, number of the collective, and the ranks that are named."""
    (row,) = module.compare_dumps(make_dumps(rings))
    assert (row["verdict"], row["number"], row["ranks"]) == found


def test_dumps_are_read(run_json: Any, tmp_path: Path) -> None:
    """Subfolders, as `play --keep` writes them, are jobs of their own; where none differs, that is
    said."""
    usual = make_ring("all_reduce 4", "all_reduce 4")
    for name, rings in (("bad", [usual, make_ring("all_reduce 4")]), ("good", [usual, usual])):
        (tmp_path / "fr" / name).mkdir(parents=True)
        for rank, data in make_dumps(rings).items():
            (tmp_path / "fr" / name / f"rank_{rank}").write_bytes(data)
    done = run_json(TOOL, "read", str(tmp_path / "fr"))
    assert done.returncode == 1
    assert [row["verdict"] for row in done.document["results"]] == ["missing", "ok"]
    done = run_json(TOOL, "read", str(tmp_path / "fr" / "good"))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "no rank differs")
    words = "all ranks call all_reduce [4] Float at train.py:12"
    assert done.document["results"][0]["words"] == words


class Trap:
    """What a pickle could hold: a command that is run while it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (os.system, (f"touch {self.path}",))


def test_a_pickle_with_code_is_refused(run_tool: Any, tmp_path: Path) -> None:
    """And the code is not run."""
    path, mark = tmp_path / "rank_0", tmp_path / "mark"
    path.write_bytes(pickle.dumps({"version": "2.10", "entries": Trap(mark)}))
    done = run_tool(TOOL, "read", str(tmp_path))
    assert done.returncode == 2
    assert "not a whole flight recorder dump: it asks for posix.system" in done.stderr
    assert not mark.exists()


@pytest.mark.torch
def test_kept_dumps_are_those_of_torch(run_json: Any, tmp_path: Path) -> None:
    """`read` names the rank in the dumps that `play` kept, and torch's own reader takes them."""
    keep = tmp_path / "dumps"
    words = ["play", "op", "--by", "recorder", "--timeout", "4s", "--keep", str(keep)]
    done = run_json(TOOL, *words)
    assert done.returncode == 0, done.stderr
    done = run_json(TOOL, "read", str(keep))
    assert done.returncode == 1
    assert "rank 2: broadcast [4] Float at collective_mismatch.py:" in done.stdout
    reader = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace", "--prefix"]
    own = subprocess.run(
        [*reader, "rank_", str(keep / "op")], capture_output=True, text=True, check=False
    )
    assert own.returncode == 0, own.stderr
    assert "COLLECTIVE_TYPE_MISMATCH" in own.stdout + own.stderr
