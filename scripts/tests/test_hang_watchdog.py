"""hang_watchdog: the merge by hand and by law, and ranks that really hang."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slurm_cluster import Cluster, open_cluster

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "training/hang_watchdog.py"
PATH = SCRIPTS / TOOL

# A rank of gloo, of which one stops at another line than the others.
TRAIN = """\
import datetime, sys, time
import torch
import torch.distributed as dist

def load_shard():
    time.sleep(300)  # the odd one

def step(number):
    if number == 2 and dist.get_rank() == 2:
        load_shard()
    dist.all_reduce(torch.ones(4))  # the others

dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=10))
for number in range(10):
    step(number)
    sys.stdout.write(f"step {number}\\n")  # in one piece
    sys.stdout.flush()
"""
ODD = "load_shard at train.py:6"
MOST = "all_reduce at train.py:11"

# A process that says something, and then nothing until a file is there.
QUIET = """\
import pathlib, sys, time

def wait_long():
    while not pathlib.Path(sys.argv[1]).exists():
        time.sleep(0.05)

print("started", flush=True)
wait_long()
print("done", flush=True)
sys.exit(int(sys.argv[2]))
"""


@pytest.fixture(scope="module")
def dog(load_tool: Callable[[str], ModuleType]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


@pytest.fixture(scope="module")
def py_spy(dog: Any) -> str:
    """The program py-spy; where it is not there its tests are skipped."""
    found = dog.find_py_spy(None)
    if found is None:
        pytest.skip("py-spy is missing: pip install py-spy")
    return str(found)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """What a test starts and has to end."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)


def start(*command: str | Path, folder: Path | None = None, **environ: str) -> Any:
    """Start a program in a group of its own."""
    return subprocess.Popen(
        [str(word) for word in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, **environ},
        start_new_session=True,
    )


def wait_until(holds: Callable[[], object], seconds: float = 30) -> None:
    """Wait until something holds; fails where it does not."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


def list_hangs(folder: Path) -> list[Path]:
    """The folders of hangs that have their report."""
    return sorted(path.parent for path in folder.glob("hang_*/report.json"))


# --- the merge ---

CALLS = st.tuples(
    st.sampled_from("abcd"),
    st.sampled_from(["/u/x.py", "/u/y.py", "/lib/python3.12/z.py"]),
    st.integers(1, 3),
)
STACKS = st.dictionaries(
    st.integers(0, 40), st.lists(CALLS, min_size=1, max_size=6), min_size=1, max_size=20
)


def read_ranges(text: str) -> list[int]:
    """The ranks of `0-2,5`, each as often as it is named."""
    ranks = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        ranks += range(int(first), int(last or first) + 1)
    return ranks


def list_branches(branch: Any) -> list[Any]:
    """A branch and all below it."""
    return [branch, *(one for child in branch.children.values() for one in list_branches(child))]


@given(stacks=STACKS)
def test_each_rank_ends_in_one_leaf(dog: Any, stacks: dict[int, list[Any]]) -> None:
    """Each rank ends in exactly one branch, that of its own stack, and a branch has exactly the
    ranks that end in it or below."""
    report = dog.HangReport(
        [dog.make_sample_dump(rank, calls, 41) for rank, calls in stacks.items()], "main"
    )
    branches = list_branches(report.tree)
    ends = [rank for branch in branches for rank, _ in branch.ends]
    assert sorted(ends) == sorted(stacks)
    for branch in branches:
        below = {rank for one in list_branches(branch) for rank, _ in one.ends}
        assert branch.ranks == below
    for rank, calls in stacks.items():
        branch = report.tree
        for function, file, line in calls:
            branch = branch.children[(function, Path(file).name, line)]
        assert (rank, "MainThread") in branch.ends


@given(stacks=STACKS)
def test_places_share_out_the_ranks(dog: Any, stacks: dict[int, list[Any]]) -> None:
    """Each rank is in exactly one row, rows stand in order of size, and ranges are exact."""
    report = dog.HangReport(
        [dog.make_sample_dump(rank, calls, 41) for rank, calls in stacks.items()], "main"
    )
    rows = dog.make_group_rows(report.groups)
    ranks = [rank for row in rows for rank in read_ranges(row["ranks"])]
    assert sorted(ranks) == sorted(stacks)
    assert [row["count"] for row in rows] == [len(read_ranges(row["ranks"])) for row in rows]
    assert [row["count"] for row in rows] == sorted(row["count"] for row in rows)
    assert report.absent == [rank for rank in range(41) if rank not in stacks]
    shown = dog.format_tree(report.tree)
    assert all(frame in shown for row in rows for frame in [row["innermost"]])
    assert json.dumps(report.make_document({}, True), allow_nan=False)


@given(ranks=st.sets(st.integers(0, 200), min_size=1))
def test_ranges_read_back(dog: Any, ranks: set[int]) -> None:
    """Ranks in few words are the same ranks, in order, and no two ranges touch."""
    text = dog.format_rank_list(ranks)
    assert read_ranges(text) == sorted(ranks)
    ends = [int(part.split("-")[-1]) for part in text.split(",")]
    begins = [int(part.split("-")[0]) for part in text.split(",")]
    assert all(end + 1 < begin for end, begin in zip(ends, begins[1:], strict=False))


@given(stacks=STACKS, order=st.randoms())
def test_dumps_come_through_srun_whole(dog: Any, stacks: dict[int, list[Any]], order: Any) -> None:
    """Lines of many nodes in any order, with others between them, are the dumps that were sent; a
    line is short; of a dump of which one is lost nothing is made up."""
    dumps = [dog.make_sample_dump(rank, calls * 9, 41) for rank, calls in stacks.items()]
    lines = [line for dump in dumps for line in dog.encode_dump(dump["host"], dump)]
    assert max(map(len, lines)) < 900
    mixed = [*lines, "hang-dump end node0", "srun: something else"]
    order.shuffle(mixed)
    came, ended = dog.decode_dumps("\n".join(mixed))
    assert sorted(came, key=lambda dump: dump["rank"]) == sorted(dumps, key=lambda d: d["rank"])
    assert ended == {"node0"}
    assert len(dog.decode_dumps("\n".join(lines[1:]))[0]) == len(dumps) - 1


def frame(dog: Any, function: str, file: str, line: int) -> Any:
    """A frame of a file at its full path."""
    return dog.make_frames(
        [{"function": function, "file": file, "short": Path(file).name, "line": line}]
    )[0]


def test_places_by_hand(dog: Any) -> None:
    """A place is what the user's own code called, wrappers left out; else the innermost call."""
    site = "/x/lib/python3.12/site-packages/torch"
    train = frame(dog, "step", "/home/u/train.py", 41)
    collective = [
        frame(dog, "all_reduce", f"{site}/distributed/distributed_c10d.py", 3000),
        frame(dog, "wrapper", f"{site}/distributed/c10d_logger.py", 81),
        train,
        frame(dog, "<module>", "/home/u/train.py", 50),
    ]
    assert dog.describe_place(collective)[0] == "all_reduce at train.py:41"
    assert dog.is_in_collective(collective)
    loader = [
        frame(dog, "select.poll", "/usr/lib/python3.12/selectors.py", 1),
        frame(dog, "_BaseDataLoaderIter.__next__", f"{site}/utils/data/dataloader.py", 700),
        train,
    ]
    expected = "_BaseDataLoaderIter.__next__ at train.py:41"
    assert dog.describe_place(loader)[0] == expected
    assert not dog.is_in_collective(loader)
    assert dog.describe_place([train])[0] == "step at train.py:41"
    library = frame(dog, "run", "/usr/lib/python3.12/threading.py", 9)
    assert dog.describe_place([library])[0] == "run at threading.py:9"


def test_where_no_place_has_most_none_is_odd(dog: Any) -> None:
    """Two places with as many ranks: neither is odd, and that which waits for nobody is first."""
    waits = [
        ("step", "/u/train.py", 41),
        ("all_reduce", "/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py", 1),
    ]
    computes = [("load", "/u/data.py", 12)]
    report = dog.HangReport(
        [dog.make_sample_dump(rank, computes if rank > 1 else waits, 4) for rank in range(4)],
        "main",
    )
    rows = dog.make_group_rows(report.groups)
    assert [(row["ranks"], row["verdict"]) for row in rows] == [("2-3", "-"), ("0-1", "-")]


def test_other_threads_are_merged_if_asked(dog: Any) -> None:
    """main is one thread of each rank, all is each, and a pattern chooses by name."""
    dump = dog.make_sample_dump(0, [("<module>", "/u/train.py", 1)], 1)
    side = dog.make_sample_dump(0, [("pin", "/u/loader.py", 2)], 1)["threads"][0]
    dump["threads"] += [
        {**side, "name": "pin_memory", "is_main": False},
        {**side, "name": "writer", "is_main": False},
    ]

    def count(threads: str) -> list[tuple[str, int]]:
        groups = dog.HangReport([dump], threads).groups
        return sorted((group.place, len(group.entries)) for group in groups)

    assert count("main") == [("<module> at train.py:1", 1)]
    assert count("all") == [("<module> at train.py:1", 1), ("pin at loader.py:2", 2)]
    assert count("pin.*") == [("pin at loader.py:2", 1)]
    assert count("nothing") == [("(no such thread)", 1)]


def test_launchers_are_no_ranks(dog: Any) -> None:
    """Beside ranks of torchrun a process that only Slurm has numbered is left out, and said."""
    agent = {**dog.make_sample_dump(0, [("main", "/u/run.py", 1)], 2), "launcher": "slurm"}
    ranks = [dog.make_sample_dump(rank, [("f", "/u/t.py", 1)], 2) for rank in range(2)]
    report = dog.HangReport([agent, *ranks], "main")
    assert report.summary == "ranks 0-1 in f at t.py:1"
    assert report.caveats == ["1 process without a rank of torchrun left out"]


def test_rank_without_a_stack_is_a_place_of_its_own(dog: Any) -> None:
    """A process that py-spy could not read is named with the reason, and so is a missing rank."""
    dumps = [dog.make_sample_dump(rank, [("f", "/u/t.py", 1)], 5) for rank in range(3)]
    dumps.append({**dumps[0], "rank": 3, "threads": [], "error": "it is gone; py-spy: no"})
    report = dog.HangReport(dumps, "main")
    assert (
        report.summary == "rank 4 gone; rank 3 in (no stack: it is gone); ranks 0-2 in f at t.py:1"
    )
    assert "no stack of rank 3: it is gone; py-spy: no" in report.caveats


@pytest.mark.nightly
def test_thousands_of_dumps_merge_in_seconds(
    dog: Any, run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """4,096 saved dumps of 40 calls: the odd rank is named, within seconds."""
    deep = [(f"f{i}", "/u/deep.py", i + 1) for i in range(39)]
    site = "/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py"
    waits = [*deep, ("all_reduce", site, 3000)]
    odd = [*deep[:20], ("load", "/u/data.py", 12)]
    dog.save_dumps(
        (dog.make_sample_dump(r, odd if r == 1234 else waits, 4096) for r in range(4096)), tmp_path
    )
    out = tmp_path / "out.json"
    done = run_tool(TOOL, "merge", str(tmp_path), "--json", str(out))
    assert done.returncode == 0, done.stderr
    words = "rank 1234 in load at data.py:12; ranks 0-1233,1235-4095 in all_reduce at deep.py:39"
    assert done.stderr.splitlines()[-1] == words
    assert [row["verdict"] for row in read_json(out)["results"]] == ["odd", "most"]


# --- wrong use ---


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no such file"),
        ("", "this is not JSON, or was cut off"),
        ('{"kind": "hang_watchdog dump", "fo', "this is not JSON, or was cut off"),
        ("[]", "this is no dump of hang_watchdog"),
        ('{"kind": "other", "format": 1}', "this is no dump of hang_watchdog"),
        ('{"kind": "hang_watchdog dump", "format": 1}', "this is no dump of hang_watchdog"),
    ],
)
def test_what_is_no_dump_is_told(
    call_tool: Callable[..., Any], tmp_path: Path, text: str | None, message: str
) -> None:
    """A file that is missing, cut off or something else ends with status 2 and its name."""
    path = tmp_path / "rank_0.json"
    if text is not None:
        path.write_text(text)
    done = call_tool(TOOL, "merge", str(path))
    assert done.returncode == 2
    assert f"{path}: {message}" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "change",
    [
        {"launcher": "nobody"},
        {"launcher": None},
        {"rank": None},
        {"rank": -1},
        {"size": 10**12},
        {"host": ["n1"]},
        {"threads": [{"name": 1, "is_main": True, "frames": []}]},
        {"threads": [{"name": "x", "is_main": True, "frames": [{"function": "f"}]}]},
        {"threads": "none"},
    ],
)
def test_what_is_only_like_a_dump_is_told(
    dog: Any, call_tool: Callable[..., Any], tmp_path: Path, change: dict[str, Any]
) -> None:
    """A dump with a field that none has ends with status 2 and its name, and takes no memory."""
    dump = dog.make_sample_dump(3, [("f", "/u/t.py", 1)], 4) | change
    path = tmp_path / "rank_0.json"
    path.write_text(json.dumps(dump))
    done = call_tool(TOOL, "merge", str(path))
    assert done.returncode == 2
    assert f"{path}: this is no dump of hang_watchdog" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("line", ["Infinity", "NaN", '"7"'])
def test_a_line_that_is_no_number_is_told(
    dog: Any, call_tool: Callable[..., Any], tmp_path: Path, line: str
) -> None:
    """Numbers that JSON does not have are no numbers of lines."""
    path = tmp_path / "rank_0.json"
    text = json.dumps(dog.make_sample_dump(3, [("f", "/u/t.py", 41)], 4))
    path.write_text(text.replace('"line": 41', f'"line": {line}'))
    done = call_tool(TOOL, "merge", str(path))
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert "this is no dump of hang_watchdog" in done.stderr


def test_json_that_never_ends_is_told(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """A file of nothing but brackets is not read to the end of the stack."""
    path = tmp_path / "rank_0.json"
    path.write_text("[" * 100_000)
    done = call_tool(TOOL, "merge", str(path))
    assert done.returncode == 2
    assert f"{path}: this is not JSON, or was cut off" in done.stderr


def test_a_spoilt_line_spoils_one_dump(dog: Any) -> None:
    """What came through srun otherwise than it was sent is left out, and the others are kept."""
    dumps = [dog.make_sample_dump(rank, [("f", "/u/t.py", 1)], 2) for rank in range(2)]
    lines = [line for dump in dumps for line in dog.encode_dump("n1", dump)]
    spoilt = [lines[0].replace(lines[0].split()[3], "spoilt"), lines[1], "hang-dump n1:1 x/y z"]
    assert dog.decode_dumps("\n".join(spoilt))[0] == [dumps[1]]


def test_dumps_of_two_hangs_are_not_mixed(
    dog: Any, call_tool: Callable[..., Any], tmp_path: Path
) -> None:
    """A rank that is there twice is refused, and so is a folder without dumps."""
    dump = dog.make_sample_dump(3, [("f", "/u/t.py", 1)], 4)
    dog.save_dumps([dump], tmp_path / "a")
    dog.save_dumps([{**dump, "pid": 77}], tmp_path / "b")
    done = call_tool(TOOL, "merge", str(tmp_path))
    assert done.returncode == 2
    assert "rank 3 is there twice" in done.stderr
    (tmp_path / "empty").mkdir()
    done = call_tool(TOOL, "merge", str(tmp_path / "empty"))
    assert done.returncode == 2
    assert "there are no dumps in this folder" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a task"),
        (("watch", "--pid", "1"), "name what to watch"),
        (("watch", "--log", "x", "--timeout", "soon"), "'soon' is no duration"),
        (("watch", "--log", "x"), "name the ranks"),
        (("watch", "--log", "x", "--pid", "999999999"), "there is no process 999999999"),
        (("watch", "--log", "x", "--job", "1", "--then", "kill"), "--then kill needs --pid"),
        (("watch", "--log", "x", "--pid", "1", "--then", "scancel"), "--then scancel needs --job"),
        (("watch", "--log", "x", "--then", "explode"), "write mail:ADDRESS, command:SHELL"),
        (("watch", "--log", "x", "--then", "mail:nobody"), "'nobody' is no mail address"),
        (("run", "--timeout", "1s"), "name the command"),
        (("run", "--", "/no/such/program"), "/no/such/program: No such file"),
        (("dump", "--job", "x"), "'x' is no job of Slurm"),
        (("dump", "--match", "("), "is no regular expression"),
        (("dump", "--pid", "1", "--faulthandler", "USR1"), "belong together"),
        (("dump", "--pid", "1", "--faulthandler", "KILL"), "is no signal for this"),
        (("dump", "--pid", "1", "--py_spy", "/no/spy"), "there is no program /no/spy"),
        (("merge", "--threads", "(", "x"), "is no regular expression"),
        (("--toy", "--ranks", "2"), "none is odd"),
    ],
)
def test_wrong_use_is_told(
    call_tool: Callable[..., Any], tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    """What makes no sense ends with status 2 and a line that says why; nothing is written."""
    spy = tmp_path / "bin"
    spy.mkdir()
    (spy / "py-spy").write_text("#!/bin/sh\nexit 1\n")
    (spy / "py-spy").chmod(0o755)
    environ = {"PATH": f"{spy}:{os.environ['PATH']}"}
    here = tmp_path / "here"
    here.mkdir()
    done = call_tool(TOOL, *arguments, environ=environ, cwd=here)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("text", ["mail", "mail:", "kill:9", "scancel:5", "command:", "mail:a b@c"])
def test_what_is_no_action_is_refused(dog: Any, text: str) -> None:
    """An action without what it needs, or with more, is refused."""
    with pytest.raises(argparse.ArgumentTypeError):
        dog.parse_hang_action(text)


# --- when there is a hang ---


class Bench:
    """A Watch of 10 s with a clock and sources in the test's hand."""

    def __init__(self, dog: Any, *names: str) -> None:
        self.now = 1000.0
        self.values = dict.fromkeys(names, "a")
        self.watch = dog.SilenceWatch(10, lambda: self.now)
        for name in names:
            self.watch.add(name, lambda name=name: self.values[name])

    def look(self, at: float, is_paused: bool = False, **values: str) -> list[str]:
        """The sources that are a hang at that second; they are dealt with at once."""
        self.now = 1000.0 + at
        self.values |= values
        self.watch.update(is_paused)
        silent = self.watch.find_hang()
        if silent:
            self.watch.mark(silent)
            self.watch.fired_at = self.now
        return [source.name for source in silent]


def test_hang_is_told_once_and_again_after_progress(dog: Any) -> None:
    """Nothing before the time is up, once then, and again only when something new came between."""
    bench = Bench(dog, "log")
    assert [bench.look(at) for at in (5, 9.9, 10, 11, 100)] == [[], [], ["log"], [], []]
    assert bench.look(101, log="b") == []
    assert [bench.look(at) for at in (110, 111, 112)] == [[], ["log"], []]


def test_each_heartbeat_counts_and_followers_do_not(dog: Any) -> None:
    """One rank that falls silent is a hang though others go on; those that fall silent because of
    it are no second one; one that does so much later is."""
    bench = Bench(dog, "r0", "r1", "r2")
    assert bench.look(9, r0="b", r1="b") == []
    assert bench.look(10) == ["r2"]
    assert bench.look(20) == []
    assert bench.look(50, r0="c", r1="c") == []
    assert bench.look(59, r0="d") == []
    assert bench.look(60) == ["r1"]


def test_first_sign_of_life_may_take_longer(dog: Any) -> None:
    """Before anything was new there is the time of --first, across restarts too; then the other."""
    now, value = [0.0], ["a"]

    def make_watch() -> Any:
        watch = dog.SilenceWatch(10, lambda: now[0], 100)
        watch.add("log", lambda: value[0])
        return watch

    watch = make_watch()
    now[0] = 60.0
    watch.update()
    assert not watch.find_hang()
    again = make_watch()
    again.restore(watch.save())
    now[0] = 99.0
    assert not again.find_hang()
    now[0] = 100.0
    assert again.find_hang()
    value[0] = "b"
    again.update()
    now[0] = 109.0
    assert not again.find_hang()
    third = make_watch()
    third.restore(again.save())
    now[0] = 110.0
    assert third.find_hang()


def test_launcher_that_speaks_does_not_end_the_first_time(dog: Any) -> None:
    """What comes while --first lasts, a launcher's banner say, does not bring --timeout in; a job
    that Slurm held back has all of it again."""
    bench = Bench(dog, "log")
    bench.watch.first = 100.0
    assert bench.look(2, log="torchrun: Setting OMP_NUM_THREADS ...") == []
    assert [bench.look(at) for at in (12, 60, 99.9, 100)] == [[], [], [], ["log"]]
    assert bench.look(110, log="a step") == []
    assert [bench.look(at) for at in (119, 120)] == [[], ["log"]]
    assert bench.look(200, is_paused=True) == []
    assert bench.look(201, log="banner") == []
    assert [bench.look(at) for at in (299, 300)] == [[], ["log"]]


def test_paused_job_is_not_silent(dog: Any) -> None:
    """While Slurm does not let the job run no time passes, nor where the clock is set back."""
    bench = Bench(dog, "log")
    assert bench.look(9) == []
    assert bench.look(100, is_paused=True) == []
    assert bench.look(109) == []
    assert bench.look(110) == ["log"]
    bench = Bench(dog, "log")
    assert bench.look(-500) == []
    assert bench.look(-491) == []
    assert bench.look(-490) == ["log"]


def test_no_heartbeat_at_all_is_a_silence(dog: Any, tmp_path: Path) -> None:
    """Where no rank writes a first one, that rings as well, after --first; files that come end it,
    and when they are swept at the end of the job nothing rings."""
    now = [0.0]
    watch = dog.SilenceWatch(10, lambda: now[0], first=100.0)
    watch.patterns = [str(tmp_path / "beat_*")]
    watch.update()
    now[0] = 99.0
    watch.update()
    assert not watch.find_hang()
    now[0] = 100.0
    watch.update()
    (silent,) = watch.find_hang()
    assert silent.name == "no heartbeat yet"
    assert watch.still_hangs([silent])
    (tmp_path / "beat_0").touch()
    assert not watch.still_hangs([silent])
    watch.update()
    assert list(watch.sources) == [f"heartbeat {tmp_path}/beat_0"]
    (tmp_path / "beat_0").unlink()
    now[0] = 500.0
    watch.update()
    assert not watch.find_hang()


def test_job_that_goes_on_may_hang_again(dog: Any) -> None:
    """A job that was told of and then waits or is suspended is new when it goes on."""
    bench = Bench(dog, "log")
    assert bench.look(10) == ["log"]
    assert bench.look(100, is_paused=True) == []
    assert bench.look(109) == []
    assert bench.look(110) == ["log"]


def test_array_is_named_by_its_task(dog: Any) -> None:
    """In an array's batch file the job is the task alone, though the last one has the number of
    the whole."""
    last = {"SLURM_JOB_ID": "7", "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": "3"}
    assert dog.name_own_job(last) == "7_3"
    assert dog.name_own_job({"SLURM_JOB_ID": "7"}) == "7"
    assert dog.name_own_job({}) is None


def test_command_in_a_mail_has_no_arguments(dog: Any) -> None:
    """A command is shown up to what it runs; values and what comes later may be secret."""
    shown = [
        (
            "torchrun --nnodes 8 train.py --key K",
            "torchrun --nnodes 8 train.py ...",
        ),
        ("env KEY=K python -m pkg.train K", "env KEY=... python -m pkg.train ..."),
        ("srun --export=ALL,KEY=K python train.py", "srun --export=... python train.py"),
        ("launch --api_key K train.py", "launch --api_key ... train.py"),
        ("python -c print(K)", "python ..."),
        ("train", "train"),
    ]
    assert [dog.shorten_command(line.split()) for line, _ in shown] == [text for _, text in shown]


def test_json_names_nobody(dog: Any) -> None:
    """Addresses, commands and the watched command are left out of the JSON's command."""
    words = ["run", "--then", "mail:ann@x.org", "--then=command:curl https://x/KEY", "--then"]
    words += ["kill", "--smtp", "mail.x.org:25", "--timeout", "9m", "--", "train", "--key=KEY"]
    assert dog.hide_private_words(words, 2) == [
        *("run", "--then", "mail:HIDDEN", "--then=command:HIDDEN", "--then", "kill"),
        *("--smtp", "HOST", "--timeout", "9m", "--", "COMMAND"),
    ]


@given(
    events=st.lists(st.tuples(st.integers(1, 8), st.booleans(), st.booleans()), max_size=40),
)
def test_law_of_the_watch(dog: Any, events: list[tuple[int, bool, bool]]) -> None:
    """Whenever the watchdog is restarted: it rings exactly when 10 s have passed without anything
    new, and once for each silence."""
    bench = Bench(dog, "log")
    at, last, rung = 0, 0, False
    for number, (pause, has_moved, is_restarted) in enumerate(events):
        at += pause
        if has_moved:
            last, rung = at, False
        told = bench.look(at, **({"log": f"value {number}"} if has_moved else {}))
        assert bool(told) == (at - last >= 10 and not rung)
        rung = rung or bool(told)
        if is_restarted:
            state = json.loads(json.dumps(bench.watch.save()))
            again = Bench(dog, "log")
            again.values, again.now = bench.values, bench.now
            again.watch.update()
            again.watch.restore(state)
            bench = again


# --- real processes ---


def write_quiet(folder: Path) -> Path:
    """The program that falls silent."""
    path = folder / "quiet.py"
    path.write_text(QUIET)
    return path


@pytest.mark.parametrize("status", [0, 7])
def test_wrapped_command_is_left_alone(
    py_spy: str, run_tool: Callable[..., Any], tmp_path: Path, status: int
) -> None:
    """Output, errors and status of a command that does not hang come through; nothing is left."""
    text = f"import sys; print('a' * 200000); print('b', file=sys.stderr); sys.exit({status})"
    done = run_tool(TOOL, "run", "--timeout", "30s", "--", sys.executable, "-c", text, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (status, "a" * 200000 + "\n", "b\n")
    assert list(tmp_path.iterdir()) == []


def test_wrapped_command_that_hangs_goes_on(
    py_spy: str, started: list[Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """A silence is reported while the command runs, which is not harmed: it ends by itself."""
    go = tmp_path / "go"
    out, report = tmp_path / "out", tmp_path / "report.json"
    options = ["run", "--timeout", "1s", "--out", out, "--json", report]
    words = [sys.executable, write_quiet(tmp_path), go, "5"]
    process = start(sys.executable, PATH, *options, "--", *words)
    started.append(process)
    wait_until(lambda: list_hangs(out))
    go.touch()
    said, notes = process.communicate(timeout=30)
    assert (process.returncode, said) == (5, "started\ndone\n")
    assert "rank 0 in wait_long at quiet.py:5" in notes
    assert "killed" not in notes
    assert len(list_hangs(out)) == 1
    assert read_json(report)["details"]["hangs"] == 1
    assert len(list(out.glob("hang_*/norank_*.json"))) == 1


def test_nothing_is_killed_unless_told(
    py_spy: str, started: list[Any], run_tool: Callable[..., Any], tmp_path: Path
) -> None:
    """--then kill ends the command and what it started, after the other actions, in order."""
    order = tmp_path / "order"
    options = ["--timeout", "1s", "--out", str(tmp_path / "out")]
    for action in (f"command:echo one $HANG_SUMMARY >> {order}", "kill"):
        options += ["--then", action]
    options += ["--then", f"command:echo two >> {order}; test -s $HANG_REPORT"]
    words = [sys.executable, str(write_quiet(tmp_path)), str(tmp_path / "never"), "0"]
    shell = ["sh", "-c", f"{' '.join(words)} & wait"]
    done = run_tool(TOOL, "run", *options, "--", *shell)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert order.read_text() == "one rank 0 in wait_long at quiet.py:5\ntwo\n"
    assert [line for line in done.stderr.splitlines() if line.startswith("note: done")] == [
        *("note: done: command", "note: done: kill", "note: done: command")
    ]


def test_what_ends_the_run_waits_for_what_failed(
    py_spy: str, run_tool: Callable[..., Any], tmp_path: Path
) -> None:
    """A command that fails before `kill` is tried again first, five times at most; a mail that
    comes after `kill` goes out although the run's last words came meanwhile."""
    tries = tmp_path / "tries"
    fails = f"command:echo try >> {tries}; test $(wc -l < {tries}) -ge {{}}"
    words = [sys.executable, str(write_quiet(tmp_path)), str(tmp_path / "never"), "0"]
    options = ["--timeout", "1s", "--out", str(tmp_path / "out")]
    for wanted, notes in ((3, ["failed"] * 2 + ["done"]), (99, ["failed"] * 5)):
        tries.unlink(missing_ok=True)
        actions = ["--then", fails.format(wanted), "--then", "kill"]
        done = run_tool(TOOL, "run", *options, *actions, "--", *words)
        told = re.findall(r"note: (?:command )?(done|failed)", done.stderr)
        assert told == [*notes, "done"], done.stderr
        assert len(tries.read_text().splitlines()) == len(notes)
        assert "kill waits for what is to be tried again" in done.stderr
    shell = ["sh", "-c", "trap 'echo last words; exit 3' TERM; echo on; sleep 100 & wait"]
    actions = ["--then", "kill", "--then", f"command:echo after >> {tries}"]
    done = run_tool(TOOL, "run", *options, *actions, "--", *shell)
    assert "last words" in done.stdout
    assert tries.read_text().endswith("after\n"), done.stderr


def test_what_is_lost_is_told(py_spy: str, run_tool: Callable[..., Any], tmp_path: Path) -> None:
    """A mail that no server takes until the run has ended is told as lost."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = ["--timeout", "1s", "--out", str(tmp_path / "out")]
    options += ["--then", "kill", "--then", "mail:you@example.org", "--smtp", f"127.0.0.1:{port}"]
    words = [sys.executable, str(write_quiet(tmp_path)), str(tmp_path / "never"), "0"]
    done = run_tool(TOOL, "run", *options, "--", *words)
    assert re.search(r"note: mail failed: .*refused; the run is over: it is lost\n", done.stderr)


@pytest.mark.nightly
def test_match_ends_only_python(py_spy: str, started: list[Any], tmp_path: Path) -> None:
    """`--match` with `--then kill` ends the Python processes that fit and what they started, not an
    editor or a shell that has the same words in its command line."""
    name = str(write_quiet(tmp_path))
    log = tmp_path / "log"
    log.write_text("a line\n")
    job = start(sys.executable, name, tmp_path / "never", "0")
    other = start("sh", "-c", "sleep 100; true", name)
    options = ["--timeout", "1s", "--log", log, "--match", re.escape(name), "--then", "kill"]
    watchdog = start(sys.executable, PATH, "watch", *options, "--out", tmp_path / "out")
    started += [job, other, watchdog]
    assert job.wait(timeout=30) == -signal.SIGTERM
    time.sleep(0.5)
    assert other.poll() is None


def test_dump_of_nobody_says_what_to_do(
    py_spy: str, call_tool: Callable[..., Any], tmp_path: Path
) -> None:
    """Where no process fits, the report says where it looked and how to find the right words."""
    done = call_tool(TOOL, "dump", "--match", "no such words", "--out", str(tmp_path / "out"))
    assert done.returncode == 1
    assert "has a command line that fits 'no such words': see `ps -fu " in done.stderr


def test_signal_to_the_wrapper_reaches_the_command(
    py_spy: str, started: list[Any], tmp_path: Path
) -> None:
    """SIGTERM ends the command by the same signal, and no process is left."""
    words = [sys.executable, write_quiet(tmp_path), tmp_path / "never", "0"]
    process = start(sys.executable, PATH, "run", "--out", tmp_path / "out", "--", *words)
    started.append(process)
    assert process.stdout.readline() == "started\n"
    (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert not Path(f"/proc/{child}").exists()


WARNED = """\
import signal, sys, time
heard = []
for name in ("SIGUSR1", "SIGINT", "SIGTERM"):
    signal.signal(getattr(signal, name), lambda number, _: heard.append(number))
print("ready", flush=True)
while signal.SIGTERM not in heard:
    time.sleep(0.05)
print(sorted(heard), flush=True)
"""


@pytest.mark.nightly
def test_each_signal_is_handed_on(py_spy: str, started: list[Any], tmp_path: Path) -> None:
    """Also the second of a kind: the watchdog is not in the way, and does not end before the
    command."""
    words = [sys.executable, "-c", WARNED]
    process = start(sys.executable, PATH, "run", "--out", tmp_path / "out", "--", *words)
    started.append(process)
    assert process.stdout.readline() == "ready\n"
    for name in ("SIGUSR1", "SIGUSR1", "SIGINT", "SIGINT", "SIGTERM"):
        process.send_signal(getattr(signal, name))
        time.sleep(0.2)
    said, notes = process.communicate(timeout=30)
    assert (process.returncode, said, notes) == (0, "[2, 2, 10, 10, 15]\n", "")


@pytest.mark.nightly
def test_slow_reader_gets_all_of_it(py_spy: str, started: list[Any], tmp_path: Path) -> None:
    """Whoever reads the output slowly, also after the command has ended, loses nothing; nor does
    a pipe that does not wait lose any."""
    text = "print('a' * 300000)"
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    words = ["run", "--out", str(tmp_path / "out"), "--", sys.executable, "-c", text]
    with os.fdopen(reader, "rb") as output:
        process = subprocess.Popen([sys.executable, str(PATH), *words], stdout=writer)
        started.append(process)
        os.close(writer)
        time.sleep(4.0)
        assert output.read() == b"a" * 300000 + b"\n"
    assert process.wait(timeout=30) == 0


def test_out_that_does_not_answer_stops_no_action(
    py_spy: str, started: list[Any], tmp_path: Path
) -> None:
    """Where whoever opens a file in --out waits for ever, what is to be done at a hang is done."""
    job = start(sys.executable, write_quiet(tmp_path), tmp_path / "never", "0")
    started.append(job)
    log, mark, out = tmp_path / "log", tmp_path / "mark", tmp_path / "out"
    log.touch()
    out.mkdir()
    os.mkfifo(out / "state.json")  # which nobody writes to
    words = ["watch", "--timeout", "1s", "--log", log, "--pid", str(job.pid), "--out", out]
    words += ["--then", f"command:echo $HANG_SUMMARY >> {mark}"]
    process = start(sys.executable, PATH, *words)
    started.append(process)
    wait_until(lambda: mark.exists() and mark.read_text())
    assert mark.read_text() == "rank 0 in wait_long at quiet.py:5\n"
    job.kill()
    table, notes = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "wait_long" in table
    assert "the file system still does not answer; the report is here alone" in notes


def test_logs_that_do_not_answer_are_silent(dog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where looking at the logs takes for ever, that is a hang in the time of one, also for the
    look itself; when they answer again, they have moved. Heartbeats elsewhere go on."""
    now, answers, value = [1000.0], threading.Event(), ["a"]

    def look(patterns: list[str]) -> str:
        if patterns == ["log"]:
            answers.wait(60)
        return value[0]

    monkeypatch.setattr(dog, "look_at_files", look)
    watch = dog.SilenceWatch(4, lambda: now[0])
    watch.add_log(["log"])
    watch.add("beat", lambda: watch.look_at_heartbeats(["beat"]))
    for at in range(1, 5):
        now[0], value[0] = 1000.0 + at, str(at)
        watch.update()
    assert [source.name for source in watch.find_hang()] == ["log"]
    answers.set()
    watch.log_files.thread.join(10)
    assert watch.update()
    assert watch.find_hang() == []


def test_state_of_another_job_is_left_alone(
    py_spy: str, started: list[Any], tmp_path: Path
) -> None:
    """A watchdog of the next job, in the same folder and beside the same log, does not take what
    was told of the last one for told."""
    log, out, mark = tmp_path / "log", tmp_path / "out", tmp_path / "mark"
    log.write_text("a line\n")
    then = ("--then", f"command:echo rung >> {mark}")
    for rung in (1, 2):
        job = start(sys.executable, write_quiet(tmp_path), tmp_path / "never", "0")
        watchdog = start_watch(log, job, out, *then)
        started += [job, watchdog]
        wait_until(lambda rung=rung: mark.exists() and mark.read_text() == "rung\n" * rung)
        job.kill()
        _, notes = watchdog.communicate(timeout=30)
    assert "state.json is of another job; this watchdog starts anew\n" in notes


@pytest.mark.nightly
def test_stacks_take_no_longer_than_they_may(dog: Any, started: list[Any], tmp_path: Path) -> None:
    """Many ranks of which none can be read: --dump_timeout is for all of them together."""
    spy = tmp_path / "py-spy"
    spy.write_text("#!/bin/sh\nexec sleep 60\n")
    spy.chmod(0o755)
    count = 40
    text = f"import os, time\nfor i in range({count}):\n    if not os.fork(): break\ntime.sleep(60)"
    job = start(sys.executable, "-c", text)
    started.append(job)
    settings = dog.DumpSettings(str(spy), False, 4.0, None, None)
    pids = []

    def find_all() -> bool:
        pids[:] = dog.find_descendants([job.pid], dog.list_parents())
        return len(pids) > count

    wait_until(find_all)
    ranks = [dog.RankProcess(pid, 0, None, None, None, "") for pid in pids]
    dumps = dog.dump_processes(ranks, settings)
    assert len(dumps) == count + 1
    assert all("py-spy had no answer" in dump["error"] for dump in dumps)


def start_watch(log: Path, job: Any, out: Path, *options: str | Path) -> Any:
    """A watchdog beside a process."""
    words = ["watch", "--timeout", "1s", "--log", log, "--pid", str(job.pid), "--out", out]
    return start(sys.executable, PATH, *words, *options)


@pytest.mark.nightly
def test_restart_knows_what_was_done(py_spy: str, started: list[Any], tmp_path: Path) -> None:
    """A watchdog that was killed and started again does not ring for the same hang, and does for
    the next one."""
    log, out, mark = tmp_path / "log", tmp_path / "out", tmp_path / "mark"
    log.write_text("a line\n")
    job = start(sys.executable, write_quiet(tmp_path), tmp_path / "never", "0")
    started.append(job)
    then = ("--then", f"command:echo rung >> {mark}")
    first = start_watch(log, job, out, *then)
    started.append(first)
    wait_until(mark.exists)
    wait_until(lambda: json.loads((out / "state.json").read_text())["duty"] is None)
    first.kill()
    second = start_watch(log, job, out, *then)
    started.append(second)
    time.sleep(2.5)
    assert mark.read_text() == "rung\n"
    assert len(list_hangs(out)) == 1
    with log.open("a") as file:
        file.write("another line\n")
    wait_until(lambda: mark.read_text() == "rung\nrung\n")
    assert len(list_hangs(out)) == 2
    job.kill()
    assert second.wait(timeout=30) == 1


@pytest.mark.parametrize("has_moved", [False, True])
def test_what_failed_is_done_after_a_restart(
    py_spy: str, started: list[Any], tmp_path: Path, has_moved: bool
) -> None:
    """A command that failed is done by the next watchdog, without new stacks; where the job has
    moved meanwhile nothing is done any more."""
    log, out, mark = tmp_path / "log", tmp_path / "out", tmp_path / "mark"
    log.write_text("a line\n")
    job = start(sys.executable, write_quiet(tmp_path), tmp_path / "never", "0")
    started.append(job)
    then = ("--then", f"command:test -e {tmp_path}/ok && echo $HANG_SUMMARY >> {mark}")
    first = start_watch(log, job, out, *then)
    started.append(first)

    def read_tries() -> Any:
        duty = json.loads((out / "state.json").read_text())["duty"]
        return duty and duty["open"]

    wait_until(lambda: list_hangs(out) and read_tries() == {"0": 1})
    first.kill()
    first.wait()
    (tmp_path / "ok").touch()
    if has_moved:
        log.write_text("another line\n")
    second = start_watch(log, job, out, *then, "--timeout", "60s")
    started.append(second)
    wait_until(lambda: read_tries() is None)
    assert mark.exists() is not has_moved
    if not has_moved:
        assert mark.read_text() == "rank 0 in wait_long at quiet.py:5\n"
    assert len(list_hangs(out)) == 1


def test_stale_heartbeat_is_named(
    py_spy: str, started: list[Any], run_tool: Callable[..., Any], tmp_path: Path
) -> None:
    """Of two heartbeat files one goes on and one stops: that one is named; then the job ends."""
    beats = [tmp_path / f"beat_{number}" for number in range(2)]
    text = "import pathlib, sys, time\nfor i in range(40):\n    pathlib.Path(sys.argv[1]).touch()\n"
    text += "    time.sleep(0.1)\n"
    beats[1].touch()
    job = start(sys.executable, "-c", text, beats[0])
    started.append(job)
    wait_until(beats[0].exists)
    options = ("--heartbeat", str(tmp_path / "beat_*"), "--out", str(tmp_path / "out"))
    done = subprocess.Popen(
        [sys.executable, PATH, "watch", "--timeout", "1s", "--pid", str(job.pid), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    started.append(done)
    wait_until(lambda: job.poll() is not None)
    table, notes = done.communicate(timeout=30)
    assert done.returncode == 1
    assert re.search(r"nothing new for \d+ s: beat_1\n", notes)
    assert table.startswith("| ")


@pytest.mark.nightly
def test_mail_is_sent_once_and_tried_again(py_spy: str, started: list[Any], tmp_path: Path) -> None:
    """A real mail server gets one letter for a hang, also where it was down at first."""
    controller = pytest.importorskip("aiosmtpd.controller")
    handlers = pytest.importorskip("aiosmtpd.handlers")
    letters: list[Any] = []

    class Keep(handlers.Message):  # type: ignore[name-defined, misc]
        def handle_message(self, message: Any) -> None:
            letters.append(message)

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = controller.Controller(Keep(), hostname="127.0.0.1", port=port)
    log = tmp_path / "log"
    log.write_text("a line\n")
    job = start(sys.executable, write_quiet(tmp_path), tmp_path / "never", "0")
    smtp = f"127.0.0.1:{port}"
    mail = ("--then", "mail:you@example.org", "--smtp", smtp)
    watchdog = start_watch(log, job, tmp_path / "out", *mail)
    started += [job, watchdog]
    wait_until(lambda: list_hangs(tmp_path / "out"))
    time.sleep(0.5)
    assert not letters
    server.start()
    try:
        wait_until(lambda: letters)
        time.sleep(1.5)
    finally:
        server.stop()
    job.kill()
    _, notes = watchdog.communicate(timeout=30)
    assert "mail failed" in notes
    assert "note: done: mail" in notes
    (letter,) = letters
    assert letter["To"] == "you@example.org"
    assert letter["Subject"] == "hang: rank 0 in wait_long at quiet.py:5"
    text = letter.get_payload(decode=True).decode().replace("\r\n", "\n")
    assert "| ranks" in text
    (hang,) = list_hangs(tmp_path / "out")
    assert f"stacks and report: {hang}\n" in text
    assert re.search(r"^command: python\S* \S+/quiet\.py \.\.\.$", text, re.MULTILINE)
    assert f"machine: {socket.gethostname()}\n" in text


FAULT = """\
import faulthandler, signal, sys, time
if sys.argv[1] == "yes":
    faulthandler.register(signal.SIGUSR2, file=open(sys.argv[2], "w"), all_threads=True)

def stay():
    time.sleep(60)

print("ready", flush=True)
stay()
"""


@pytest.mark.parametrize("has_handler", [True, False])
def test_faulthandler_is_asked_only_where_it_is(
    started: list[Any], run_tool: Callable[..., Any], tmp_path: Path, has_handler: bool
) -> None:
    """Without py-spy the signal gets the stack of a program that has a handler for it; another one
    does not get the signal, which would end it."""
    spy = tmp_path / "py-spy"
    spy.write_text("#!/bin/sh\necho 'Error: Permission denied (os error 13)' >&2\nexit 1\n")
    spy.chmod(0o755)
    job = start(sys.executable, "-c", FAULT, "yes" if has_handler else "no", tmp_path / "stacks")
    started.append(job)
    assert job.stdout.readline() == "ready\n"
    (tmp_path / f"stacks.{job.pid}").symlink_to(tmp_path / "stacks")
    options = ("--pid", str(job.pid), "--py_spy", str(spy), "--out", str(tmp_path / "out"))
    more = ("--faulthandler", "USR2", "--faulthandler_file", str(tmp_path / "stacks.{pid}"))
    done = run_tool(TOOL, "dump", *options, *more)
    assert job.poll() is None, "the signal has ended it"
    if has_handler:
        assert done.returncode == 0, done.stderr
        assert "in stay at <string>:6" in done.stderr
    else:
        assert done.returncode == 1
        assert "no handler for SIGUSR2, so it was not sent" in done.stderr
        assert "sysctl kernel.yama.ptrace_scope=0" in done.stderr


def test_native_stacks_and_processes_by_name(
    py_spy: str, started: list[Any], run_tool: Callable[..., Any], tmp_path: Path
) -> None:
    """--match finds processes by their command line; --native adds the calls in C, and the place
    in the user's code stays what it was. Dumps of several machines in one folder merge."""
    job = start(sys.executable, write_quiet(tmp_path), tmp_path / "never", "0")
    started.append(job)
    assert job.stdout.readline() == "started\n"
    out = tmp_path / "out"
    options = ("--match", str(tmp_path / "quiet.py"), "--native", "--out", str(out))
    done = run_tool(TOOL, "dump", *options)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == "rank 0 in wait_long at quiet.py:5"
    assert " (libc" in done.stdout
    (path,) = out.glob("norank_*.json")
    other = json.loads(path.read_text()) | {"host": "zz", "pid": 1}
    path.with_name("norank_zz_1.json").write_text(json.dumps(other))
    merged = run_tool(TOOL, "merge", str(out))
    assert merged.stderr.splitlines()[-1] == "ranks 0-1 in wait_long at quiet.py:5"
    assert "no rank in the environment: numbered by host and process" in merged.stderr
    assert run_tool(TOOL, "dump", "--match", "no such words", "--out", str(out)).returncode == 1


def test_stopped_process_is_told(py_spy: str, dog: Any, started: list[Any], tmp_path: Path) -> None:
    """What a process without a stack does is in its words: stopped, or gone."""
    job = start("sleep", "60")
    started.append(job)
    job.send_signal(signal.SIGSTOP)
    wait_until(lambda: dog.read_process_stat(job.pid)[2] == "T")
    assert dog.describe_state(job.pid).startswith("it is stopped (state T")
    job.kill()
    job.wait()
    assert dog.describe_state(job.pid) == "it is gone"


@pytest.mark.nightly
def test_watch_that_is_interrupted_keeps_what_it_has(
    py_spy: str, started: list[Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Ctrl-C ends a watch with status 1 and JSON that says so; the job goes on."""
    log, path = tmp_path / "log", tmp_path / "out.json"
    log.write_text("a line\n")
    job = start(sys.executable, write_quiet(tmp_path), tmp_path / "never", "0")
    watchdog = start_watch(log, job, tmp_path / "out", "--json", path)
    started += [job, watchdog]
    wait_until(lambda: list_hangs(tmp_path / "out"))
    time.sleep(0.5)
    watchdog.send_signal(signal.SIGINT)
    _, notes = watchdog.communicate(timeout=30)
    assert watchdog.returncode == 1
    assert "Traceback" not in notes
    document = read_json(path)
    assert document["complete"] is False
    assert [row["place"] for row in document["results"]] == ["wait_long at quiet.py:5"]
    assert job.poll() is None


# --- real jobs ---


@pytest.mark.torch
@pytest.mark.nightly
def test_odd_rank_of_torchrun_is_named(
    py_spy: str, started: list[Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Four ranks of gloo under torchrun, one of which stops elsewhere: all are dumped within the
    time limit, merged, and the odd one is named with file and line; the launcher is no rank. The
    saved dumps give the same answer elsewhere."""
    (tmp_path / "train.py").write_text(TRAIN)
    out = tmp_path / "out"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    words = [*torchrun, "--nproc_per_node", "4", "train.py"]
    options = ["--first", "40s", "--timeout", "3s", "--out", out, "--then", "kill"]
    process = start(
        *(sys.executable, PATH, "run", *options, "--", *words),
        folder=tmp_path,
        OMP_NUM_THREADS="1",
    )
    started.append(process)
    said, notes = process.communicate(timeout=120)
    assert process.returncode not in (0, 2), notes
    assert said.count("step 1\n") == 4
    assert "step 2\n" not in said
    words_of_report = f"rank 2 in {ODD}; ranks 0-1,3 in {MOST}"
    assert words_of_report in notes
    (hang,) = list_hangs(out)
    rows = read_json(hang / "report.json")["results"]
    assert [(row["ranks"], row["place"], row["verdict"]) for row in rows] == [
        ("2", ODD, "odd"),
        ("0-1,3", MOST, "most"),
    ]
    assert [row["in_collective"] for row in rows] == [False, True]
    shutil.copytree(hang, tmp_path / "elsewhere")
    merge = [sys.executable, str(PATH), "merge", str(tmp_path / "elsewhere")]
    merged = subprocess.run(merge, capture_output=True, text=True, timeout=60, check=True)
    assert merged.stderr.splitlines()[-1] == words_of_report


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A Slurm of two nodes."""
    with open_cluster(2) as running:
        yield running


@pytest.mark.torch
@pytest.mark.nightly
def test_odd_rank_of_a_slurm_job_is_named(
    py_spy: str, cluster: Cluster, read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Four ranks on two nodes: all are dumped over Slurm, merged, and the odd one is named. The job
    goes on, unless it was told to cancel it."""
    (tmp_path / "train.py").write_text(TRAIN)
    batch = tmp_path / "job.sh"
    batch.write_text(
        "#!/bin/bash\n"
        "export MASTER_ADDR=node1 MASTER_PORT=29511 OMP_NUM_THREADS=1 GLOO_SOCKET_IFNAME=eth0\n"
        "srun bash -c 'RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS exec "
        f"{sys.executable} train.py'\n"
    )
    options = ["--nodes=2", "--ntasks-per-node=2", f"--output={tmp_path}/%j.out"]
    number = cluster.run(["sbatch", "--parsable", *options, batch], folder=tmp_path).stdout.strip()
    log = tmp_path / f"{number}.out"
    cluster.wait_for(lambda: log.exists() and log.read_text().count("step 1") == 4, "no step", 60)
    common = ["--job", number, "--timeout", "2s"]
    dog = [sys.executable, str(PATH)]
    first = cluster.start([*dog, "watch", *common, "--out", str(tmp_path / "a")])
    try:
        wait_until(lambda: list_hangs(tmp_path / "a"), 60)
        time.sleep(1)
        assert {job.state for job in cluster.queue()} == {"RUNNING"}
        first.send_signal(signal.SIGINT)
        table, notes = first.communicate(timeout=30)
    finally:
        first.kill()
        first.communicate()
    assert first.returncode == 1
    assert table.startswith("| ")
    assert f"rank 2 in {ODD}; ranks 0-1,3 in {MOST}" in notes
    (hang,) = list_hangs(tmp_path / "a")
    dumps = [read_json(path) for path in sorted(hang.glob("rank_*.json"))]
    assert [(dump["rank"], dump["host"]) for dump in dumps] == [
        *((0, "node1"), (1, "node1"), (2, "node2"), (3, "node2"))
    ]
    told = [*dog, "watch", *common, "--out", str(tmp_path / "b"), "--then", "scancel"]
    ended = cluster.run(told, timeout=90)
    assert ended.returncode == 1, ended.stderr
    assert "note: done: scancel" in ended.stderr
    assert cluster.queue() == []
    state = cluster.ask("scontrol", "--oneliner", "show", "job", number)
    assert "JobState=CANCELLED" in state


@pytest.mark.nightly
def test_array_is_refused_as_a_whole(py_spy: str, cluster: Cluster, tmp_path: Path) -> None:
    """Its tasks hang and are ended one by one: whoever means one has to name it."""
    options = ["--parsable", "--array=1-2", "--output=/dev/null", "--wrap=sleep 60"]
    number = cluster.ask("sbatch", *options).strip()
    cluster.wait_for(lambda: [j.state for j in cluster.queue()] == ["RUNNING"] * 2, "they wait", 60)
    dump = [sys.executable, str(PATH), "dump", "--out", str(tmp_path / "out"), "--job"]
    refused = cluster.run([*dump, number])
    assert refused.returncode == 2
    assert f"--job: {number} is an array: name one of its tasks, {number}_1 say" in refused.stderr
    taken = cluster.run([*dump, f"{number}_2"])
    assert (taken.returncode, "is an array" in taken.stderr) == (1, False)
    assert "no process was found" in taken.stderr
    cluster.ask("scancel", number)
    cluster.wait_for(lambda: not cluster.queue(), "they stay")
