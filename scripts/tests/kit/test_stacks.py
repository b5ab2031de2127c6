"""Stacks: the merge by hand and by law, and real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from kit import stacks
from kit.cli import UsageError

LIBRARY = "/x/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py"
BEGIN = [("<module>", "/home/u/train.py", 50)]
WAITS = [*BEGIN, ("step", "/home/u/train.py", 41), ("all_reduce", LIBRARY, 3000)]
LOADS = [*BEGIN, ("load", "/home/u/data.py", 12)]

Calls = Sequence[tuple[str, str, int]]


def make_frames(calls: Calls) -> list[dict[str, Any]]:
    """The frames of these calls, given with the outermost first."""
    return [
        {"function": function, "file": file, "short": Path(file).name, "line": line}
        for function, file, line in reversed(calls)
    ]


def make_dump(rank: int, calls: Calls, size: int | None = None, **changes: Any) -> dict[str, Any]:
    """A dump as of a rank whose main thread has these calls."""
    thread = {"name": "MainThread", "is_main": True, "frames": make_frames(calls)}
    dump = {**stacks.DUMP_KIND, "host": f"node{rank // 8}", "rank": rank, "size": size,
            "pid": 1000 + rank, "launcher": "torchrun", "command": "python train.py",
            "error": None, "threads": [thread]}  # fmt: skip
    return dump | changes


def test_the_outlier_comes_first() -> None:
    """By hand: rank 2 loads, the others wait in the collective. A launcher that only Slurm has
    numbered is no rank."""
    dumps = [make_dump(r, LOADS if r == 2 else WAITS, 4) for r in range(4)]
    merged = stacks.Merged([make_dump(0, LOADS, 2, launcher="slurm"), *dumps], "main")
    expected = "rank 2 in load at data.py:12; ranks 0-1,3 in all_reduce at train.py:41"
    assert merged.summary == expected
    assert [(row["ranks"], row["verdict"]) for row in merged.rows] == [
        ("2", "outlier"),
        ("0-1,3", "most"),
    ]
    assert [row["in_collective"] for row in merged.rows] == [False, True]
    assert merged.tree == [
        "[0-3] <module> (train.py:50)",
        "  [2] load (data.py:12)",
        "  [0-1,3] step (train.py:41)",
        "  [0-1,3] all_reduce (distributed_c10d.py:3000)",
    ]


@pytest.mark.parametrize(
    ("calls", "site"),
    [
        (WAITS, "all_reduce at train.py:41"),
        ([*WAITS[:2], ("wrapper", LIBRARY, 81), *WAITS[2:]], "all_reduce at train.py:41"),
        ([*WAITS, ("Work.wait", LIBRARY, 9)], "all_reduce at train.py:41"),
        ([("run", "/usr/lib/python3.12/threading.py", 9)], "run at threading.py:9"),
    ],
)
def test_call_sites_by_hand(calls: Calls, site: str) -> None:
    """What the user's own code called; decorators do not count."""
    assert stacks.find_site(make_frames(calls)) == site


def test_ranks_that_are_gone_or_cannot_be_read() -> None:
    """Each is named, with the reason."""
    dumps = [make_dump(rank, BEGIN, 5) for rank in range(3)]
    dumps.append(make_dump(3, BEGIN, 5, threads=[], error="it is gone; py-spy: no"))
    merged = stacks.Merged(dumps, "main")
    site = "ranks 0-2 in <module> at train.py:50"
    assert merged.summary == f"rank 4 gone; rank 3 (no stack: it is gone); {site}"
    assert "no stack of rank 3: it is gone; py-spy: no" in merged.notes


def test_one_of_thousands_of_ranks() -> None:
    """One of 4,096 is found, and none without a majority."""
    dumps = [make_dump(r, LOADS if r == 1234 else WAITS, 4096) for r in range(4096)]
    rows = stacks.Merged(dumps, "main").rows
    assert [row["ranks"] for row in rows] == ["1234", "0-1233,1235-4095"]
    halves = stacks.Merged([make_dump(r, LOADS if r else WAITS) for r in range(2)], "main")
    assert [(row["ranks"], row["verdict"]) for row in halves.rows] == [("1", "-"), ("0", "-")]


def test_dumps_are_saved_and_read(tmp_path: Path) -> None:
    """One file per rank, with the node in its name."""
    dumps = [
        make_dump(0, BEGIN),
        make_dump(9, LOADS),
        make_dump(1, BEGIN) | {"rank": None, "launcher": None},
    ]
    stacks.save_dumps(dumps, tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["norank_node0_1001.json", "rank_00000_node0_1000.json",
                     "rank_00009_node1_1009.json"]  # fmt: skip
    assert len(stacks.read_dumps([str(tmp_path)])) == 3
    assert stacks.read_dumps([str(tmp_path / names[2])]) == [dumps[1]]


@pytest.mark.parametrize("text", ["[]", '{"kind": "hang_watchdog dump", "fo'])
def test_what_is_not_a_dump_is_named(tmp_path: Path, text: str) -> None:
    """Also what was cut off."""
    (tmp_path / "rank_0.json").write_text(text)
    with pytest.raises(UsageError, match=r"rank_0\.json is not"):
        stacks.read_dumps([str(tmp_path)])


PROGRAM = """
import faulthandler, os, signal, sys, time
if "handler" in sys.argv:
    faulthandler.register(signal.SIGUSR1, file=open(f"stacks.{os.getpid()}", "w"), all_threads=True)

def stay():
    print("ready", flush=True); time.sleep(60)

stay()
"""


@pytest.mark.parametrize("word", ["handler", "none"])
def test_stacks_where_py_spy_may_not_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """By the program's faulthandler. Without one the signal would end the program, so it is not
    sent; the note says what can be done."""
    spy, script = tmp_path / "py-spy", tmp_path / "job.py"
    spy.write_text("#!/bin/sh\necho 'Error: Permission denied (os error 13)' >&2\nexit 1\n")
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    script.write_text(PROGRAM)
    command = [sys.executable, str(script), word]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=tmp_path) as process:
        try:
            assert process.stdout
            process.stdout.readline()
            job = {"host": "h", "pid": process.pid, "rank": None, "size": None, "launcher": None}
            dumps = stacks.take_stacks([job], 30, str(tmp_path / "stacks.{pid}"))
            assert process.poll() is None
        finally:
            process.kill()
    if word == "handler":
        assert stacks.Merged(dumps, "main").summary == "rank 0 in stay at job.py:7"
    else:
        assert "no handler for SIGUSR1, so it was not sent" in dumps[0]["error"]
        assert "sysctl kernel.yama.ptrace_scope=0" in dumps[0]["error"]
