"""collective_mismatch: dumps compared by hand and by law, and faults of real ranks."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "debug/collective_mismatch.py"
PATH = SCRIPTS / TOOL


@pytest.fixture(scope="module")
def mismatch(load_tool: Callable[[str], ModuleType]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def compare(mismatch: Any, *rings: list[dict[str, Any]]) -> list[tuple[str, int, list[int]]]:
    """Kind, number and ranks of what is found in the rings of so many ranks."""
    dumps = {
        rank: mismatch.make_rank_dump(rank, mismatch.make_recorder_document(ring, len(rings)))
        for rank, ring in enumerate(rings)
    }
    views = mismatch.list_group_views(dumps)
    rows = mismatch.make_position_rows(views, mismatch.find_findings(views, list(dumps)))
    assert sum(row["count"] for row in rows) == len(rings) or not views
    return [(f.kind, f.number, f.ranks) for f in mismatch.find_findings(views, list(dumps))]


def make_ring(mismatch: Any, *calls: str, done: int = 1) -> list[dict[str, Any]]:
    """A ring of calls like `all_reduce 4`, of which so many have been completed."""
    ring = []
    for number, call in enumerate(calls, start=1):
        operation, size = call.split()
        state = "completed" if number <= done else "scheduled"
        ring.append(mismatch.make_recorder_entry(number, operation, int(size), 10 + number, state))
    return ring


def test_differences_by_hand(mismatch: Any) -> None:
    """Operation, shape, order, one left out, one behind: kind, number and rank of each."""
    reduce, share = "all_reduce 4", "broadcast 4"
    usual = make_ring(mismatch, reduce, reduce, share)

    def look(*calls: str, done: int = 1) -> list[tuple[str, int, list[int]]]:
        return compare(mismatch, usual, make_ring(mismatch, *calls, done=done), usual)

    assert look(reduce, reduce, share) == []
    assert look(reduce, "reduce 4", share) == [("op", 2, [1])]
    assert look(reduce, "all_reduce 8", share) == [("shape", 2, [1])]
    assert look(reduce, share, reduce) == [("order", 2, [1])]
    assert look(reduce, share, "reduce 4") == [("left out", 2, [1])]
    assert look(reduce) == [("missing", 3, [1])]
    assert look(reduce, "reduce 4") == [("op", 2, [1])]


def test_who_is_behind_but_waits_is_not_blamed(mismatch: Any) -> None:
    """Of two ranks that have not come to collective 3 the one that waits in another group is held
    up; the one with nothing open is named."""
    reduce = "all_reduce 4"
    front = make_ring(mismatch, reduce, reduce, reduce, done=2)
    waits = make_ring(mismatch, reduce, reduce, done=1)
    free = make_ring(mismatch, reduce, reduce, done=2)
    assert compare(mismatch, front, waits, free) == [("missing", 3, [2])]
    assert compare(mismatch, front, waits, waits) == [("missing", 3, [1, 2])]


def test_old_entries_that_were_written_over_are_not_missed(mismatch: Any) -> None:
    """Rings that begin at different numbers are compared where both have something."""
    calls = ["all_reduce 4"] * 6
    long = make_ring(mismatch, *calls, done=6)
    assert compare(mismatch, long, long[3:]) == []
    other = [*long[3:5], mismatch.make_recorder_entry(6, "broadcast", 4, 9, "scheduled")]
    assert compare(mismatch, long, long, other) == [("op", 6, [2])]


def test_missing_dump_is_told(mismatch: Any) -> None:
    """A member of the group of which there is no dump is named."""
    ring = make_ring(mismatch, "all_reduce 4")
    document = mismatch.make_recorder_document(ring, 4)
    dumps = {rank: mismatch.make_rank_dump(rank, document) for rank in (0, 1, 3)}
    (finding,) = mismatch.find_findings(mismatch.list_group_views(dumps), list(dumps))
    assert (finding.kind, finding.ranks) == ("no dump", [2])


def test_uneven_collectives_may_differ_in_shape(mismatch: Any) -> None:
    """all_to_all and gather with other shapes on each rank are no difference."""
    for operation in ("all_to_all", "gather", "reduce_scatter_v"):
        rings = [make_ring(mismatch, f"{operation} {size}", done=1) for size in (1, 2, 3)]
        assert compare(mismatch, *rings) == []
    for operation in ("all_gather", "_reduce_scatter_base", "broadcast"):
        rings = [make_ring(mismatch, f"{operation} {size}", done=1) for size in (2, 2, 3)]
        assert compare(mismatch, *rings) == [("shape", 1, [2])]


@given(
    calls=st.lists(st.sampled_from(["all_reduce 4", "broadcast 4", "barrier 1"]), min_size=1),
    ranks=st.integers(3, 8),
    data=st.data(),
)
def test_law_of_the_comparison(mismatch: Any, calls: list[str], ranks: int, data: Any) -> None:
    """Ranks that do the same are no finding; change one call of one rank, and exactly that rank is
    named, at exactly that number."""
    same = [make_ring(mismatch, *calls) for _ in range(ranks)]
    assert compare(mismatch, *same) == []
    odd = data.draw(st.integers(0, ranks - 1))
    number = data.draw(st.integers(1, len(calls)))
    changed = list(calls)
    changed[number - 1] = "all_gather 9"
    same[odd] = make_ring(mismatch, *changed)
    assert compare(mismatch, *same) == [("op", number, [odd])]


def write_dumps(mismatch: Any, folder: Path, *rings: list[dict[str, Any]]) -> None:
    """The rings as files of pickles."""
    for rank, ring in enumerate(rings):
        document = mismatch.make_recorder_document(ring, len(rings))
        (folder / f"rank_{rank}").write_bytes(pickle.dumps(document))


def test_dumps_are_read(
    mismatch: Any, call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """The table, the sentence and the JSON name the rank, its collective and its line of code;
    pickles and JSON are read alike."""
    folder, out = tmp_path / "fr", tmp_path / "out.json"
    folder.mkdir()
    usual = make_ring(mismatch, "all_reduce 4", "all_reduce 4")
    write_dumps(mismatch, folder, usual, usual, make_ring(mismatch, "all_reduce 4", "broadcast 4"))
    done = call_tool(TOOL, "read", str(folder), "--json", str(out))
    assert done.returncode == 1
    words = (
        "problem: rank 2 calls broadcast [4] Float at train.py:12; ranks 0-1 call all_reduce [4] "
        "Float at train.py:12: collective 2 of default_pg\n"
    )
    assert done.stderr == words
    rows = read_json(out)["results"]
    assert [(row["ranks"], row["verdict"]) for row in rows] == [("2", "named"), ("0-1", "-")]
    for path in list(folder.iterdir()):
        document = pickle.loads(path.read_bytes())
        path.with_name(f"{path.name}.json").write_text(json.dumps(document))
        path.unlink()
    assert call_tool(TOOL, "read", str(folder)).stderr == words
    (folder / "rank_2.json").write_text((folder / "rank_0.json").read_text())
    done = call_tool(TOOL, "read", str(folder))
    assert (done.returncode, done.stderr) == (0, "no rank differs\n")


class Trap:
    """What a pickle could hold: a command that is run while it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (os.system, (f"touch {self.path}",))


def test_pickle_with_code_is_refused(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """A dump that would run a command is refused, and the command is not run."""
    path, mark = tmp_path / "rank_0", tmp_path / "mark"
    path.write_bytes(pickle.dumps({"version": "2.10", "entries": Trap(mark)}))
    done = call_tool(TOOL, "read", str(path))
    assert done.returncode == 2
    assert "rank_0: refused: it asks for posix.system" in done.stderr
    assert not mark.exists()


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("rank_0", b"", "this is no dump of the flight recorder, or was cut off"),
        ("rank_0", b"hello", "this is no dump of the flight recorder, or was cut off"),
        ("rank_0", pickle.dumps({"entries": [1] * 99})[:50], "or was cut off"),
        ("rank_0", pickle.dumps([1, 2]), "this is no dump of the flight recorder"),
        ("rank_0", pickle.dumps({"version": "2", "entries": [{}]}), "this is no dump"),
        ("rank_0.json", b'{"version": "2", "entr', "this is no dump"),
        ("rank_0.json", b"[" * 100_000, "this is no dump"),
        (
            "rank_0.json",
            b'{"version": "2", "pg_config": {"0": {"ranks": [1e999]}}, "entries": []}',
            "this is no dump",
        ),
        ("rank_0", b"\x80\x04\x8e" + b"\xff" * 8, "this is no dump"),
        ("dump", pickle.dumps({}), "there is no rank at the end of this name"),
    ],
)
def test_what_is_no_dump_is_told(
    call_tool: Callable[..., Any], tmp_path: Path, name: str, data: bytes, message: str
) -> None:
    """A file that is something else ends with status 2 and its name."""
    (tmp_path / name).write_bytes(data)
    done = call_tool(TOOL, "read", str(tmp_path / name))
    assert done.returncode == 2
    assert f"{tmp_path / name}: " in done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a task"),
        (("play", "typo"), "there is no fault 'typo'"),
        (("play", "--ranks", "2"), "nobody can tell"),
        (("play", "--odd", "0"), "rank 0 looks on"),
        (("play", "--odd", "3"), "write a rank from 1 to 2"),
        (("read", "/nowhere"), "/nowhere: there is no such file"),
        (("--toy", "play"), "--toy takes no task"),
    ],
)
def test_wrong_use_is_told(
    call_tool: Callable[..., Any],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    """What makes no sense ends with status 2 before torch is imported."""
    done = call_tool(TOOL, *arguments, without_torch=True)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_two_dumps_of_a_rank_are_refused(
    mismatch: Any, call_tool: Callable[..., Any], tmp_path: Path
) -> None:
    """Dumps of two jobs are not mixed, and an empty folder is told."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_dumps(mismatch, tmp_path / name, make_ring(mismatch, "all_reduce 4"))
    done = call_tool(TOOL, "read", str(tmp_path / "a"), str(tmp_path / "b"))
    assert done.returncode == 2
    assert "rank 0 is there twice" in done.stderr
    (tmp_path / "a" / "rank_0").unlink()
    done = call_tool(TOOL, "read", str(tmp_path / "a"))
    assert done.returncode == 2
    assert "no dumps in this folder" in done.stderr


@pytest.mark.nightly
def test_hundreds_of_rings_are_read(
    mismatch: Any, run_tool: Callable[..., Any], tmp_path: Path
) -> None:
    """512 rings of 200 collectives: the odd rank is named."""
    usual = make_ring(mismatch, *["all_reduce 4"] * 200, done=199)
    other = [*usual[:-1], mismatch.make_recorder_entry(200, "all_reduce", 5, 33, "scheduled")]
    write_dumps(mismatch, tmp_path, *[other if rank == 300 else usual for rank in range(512)])
    done = run_tool(TOOL, "read", str(tmp_path))
    assert done.returncode == 1
    assert "problem: rank 300 calls all_reduce [5] Float at train.py:33; ranks 0-299,301-511" in (
        done.stderr
    )


@given(place=st.integers(0, 400), byte=st.integers(0, 255), cut=st.integers(0, 400))
def test_any_damage_is_told(
    mismatch: Any, tmp_path_factory: pytest.TempPathFactory, place: int, byte: int, cut: int
) -> None:
    """A dump with any byte changed, and cut off anywhere, is read or refused, and raises nothing
    else."""
    document = mismatch.make_recorder_document(make_ring(mismatch, "all_reduce 4"), 2)
    for data, name in ((pickle.dumps(document), "rank_0"), (json.dumps(document).encode(), "0")):
        damaged = bytearray(data)
        damaged[place % len(data)] = byte
        path = tmp_path_factory.getbasetemp() / name
        path.write_bytes(damaged[: len(data) - cut % len(data)] if cut % 2 else damaged)
        with contextlib.suppress(mismatch.WrongUse):
            mismatch.load_recorder_dump(path)


# --- real ranks ---


@pytest.mark.nightly
@pytest.mark.torch
def test_what_was_played_is_kept(read_json: Callable[[Path], Any], tmp_path: Path) -> None:
    """SIGTERM in the fourth of four plays: the table and the JSON have those before it, and what
    they have dumped is kept."""
    out, keep = tmp_path / "out.json", tmp_path / "keep"
    code = (
        f"import sys; sys.path.insert(0, {str(PATH.parent)!r})\n"
        "import collective_mismatch as tool\n"
        "tool.RANKS_AT_ONCE = 3\n"
        "sys.exit(tool.main())\n"
    )
    words = ["play", "op", "missing", "--by", "recorder", "barrier", "--timeout", "2s"]
    words += ["--json", str(out), "--keep", str(keep)]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    try:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob("mismatch_*/missing_barrier/began_0")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        table, notes = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == 1, notes
    assert "stopped by SIGTERM, after 3 of 4" in notes
    document = read_json(out)
    assert document["complete"] is False
    rows = [(row["fault"], row["way"]) for row in document["results"]]
    assert rows == [("op", "recorder"), ("op", "barrier"), ("missing", "recorder")]
    assert re.search(r"\| missing \| .*rank 2.* \| +- \|", table)
    assert sorted(path.name for path in keep.iterdir()) == ["missing", "op"]
    assert not list(tmp_path.glob("mismatch_*"))


@pytest.mark.torch
def test_folder_for_dumps_is_looked_at_first(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """--keep that names a file ends at once, not after all faults were played."""
    (tmp_path / "file").write_text("precious")
    done = call_tool(TOOL, "play", "--keep", str(tmp_path / "file"))
    assert done.returncode == 2
    assert f"--keep: no folder {tmp_path / 'file'}: File exists" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.torch
@pytest.mark.nightly
def test_every_fault_is_named(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Each fault of another rank than the last: the recorder and DETAIL name it, the barrier only
    the missing one; the kept dumps say the same when they are read later, and torch's own reader
    takes them."""
    out, keep = tmp_path / "out.json", tmp_path / "dumps"
    options = ("--ranks", "4", "--odd", "1", "--timeout", "4s", "--keep", str(keep))
    done = run_tool(TOOL, "play", *options, "--json", str(out), timeout=120)
    assert done.returncode == 0, done.stderr
    rows = read_json(out)["results"]
    named = {(row["fault"], row["way"]) for row in rows if row["named"]}
    faults = ("op", "shape", "order", "missing")
    assert named == {
        *((fault, way) for fault in faults for way in ("recorder", "detail")),
        ("missing", "barrier"),
    }
    assert {row["ranks"] for row in rows if row["named"]} == {"1"}
    for fault, words in (
        ("op", "rank 1 calls broadcast [4] Float at collective_mismatch.py:"),
        ("shape", "rank 1 calls all_reduce [2x2] Float at collective_mismatch.py:"),
        ("order", "rank 1 has them in another order"),
        ("missing", "rank 1 has not come to collective "),
    ):
        read = run_tool(TOOL, "read", str(keep / fault))
        assert read.returncode == 1
        assert words in read.stderr, read.stderr
    torchfrtrace = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace"]
    own = subprocess.run(
        [*torchfrtrace, "--prefix", "rank_", str(keep / "op")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert own.returncode == 0, own.stderr
    assert "COLLECTIVE_TYPE_MISMATCH" in own.stdout + own.stderr


HANGS = """\
import datetime, pathlib, sys, time
sys.path.insert(0, sys.argv[1])
from collective_mismatch import keep_ready
import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=60))
rank = dist.get_rank()
keep_ready(sys.argv[2], rank, 0.1)
dist.all_reduce(torch.ones(4))
pathlib.Path(sys.argv[2], f"arrived.{rank}.").touch()
if rank == 1:
    time.sleep(60)
dist.barrier()
"""


def wait_for_files(folder: Path, pattern: str) -> None:
    """Wait for the files of three ranks."""
    deadline = time.monotonic() + 60
    while len(list(folder.glob(pattern))) < 3:
        assert time.monotonic() < deadline, f"{pattern} does not come"
        time.sleep(0.1)


@pytest.mark.torch
@pytest.mark.nightly
def test_job_of_torchrun_that_hangs_is_read(run_tool: Callable[..., Any], tmp_path: Path) -> None:
    """A program of three ranks under torchrun that uses keep_ready: dump_now brings the dumps of
    ranks that are stuck in a barrier, and the one that did not come is named with its last line."""
    script, folder = tmp_path / "train.py", tmp_path / "fr"
    script.write_text(HANGS)
    folder.mkdir()
    (folder / "dump_now").touch()  # of an earlier hang: it is not heeded
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words = [*torchrun, "--nproc_per_node", "3", str(script), str(PATH.parent), str(folder)]
    process = subprocess.Popen(
        words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    try:
        wait_for_files(folder, "arrived.*")
        time.sleep(1)
        assert not list(folder.glob("rank_*"))
        (folder / "dump_now").touch()
        wait_for_files(folder, "rank_*")
    finally:
        process.terminate()  # torchrun ends its ranks
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    done = run_tool(TOOL, "read", str(folder))
    assert done.returncode == 1
    assert "problem: rank 1 has not come to collective 2 of default_pg" in done.stderr
    assert "in which ranks 0,2 wait: " in done.stderr
    assert "at train.py:14; rank 1 was last in all_reduce at train.py:10" in done.stderr
