"""printflock: lines of many processes arrive whole, and the lock is nobody else's to take."""

from __future__ import annotations

import collections
import contextlib
import fcntl
import gzip
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from needs import need
from testing_utils import execute_subprocess_async

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "training/printflock.py"
FOLDER = (SCRIPTS / TOOL).parent
JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "TORCHELASTIC_RUN_ID")

WRITER = """
import sys
sys.path.insert(0, sys.argv[1])
from printflock import printflock as print
for index in range(int(sys.argv[3])):
    print(sys.argv[2], index, sys.argv[2] * int(sys.argv[4]), "end")
"""


@pytest.fixture(scope="module")
def locked(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


@pytest.fixture
def lock_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the test's own for the lock, and no job."""
    for name in (*JOBS, "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PRINTFLOCK_FOLDER", str(tmp_path))
    return tmp_path


def start_writers(
    count: int, lines: int, size: int, output: Any, environ: dict[str, str]
) -> list[subprocess.Popen[bytes]]:
    """Processes that write at once, each with a letter of its own."""
    return [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(FOLDER), chr(97 + i), str(lines), str(size)],
            stdout=output,
            env={**os.environ, **environ},
        )
        for i in range(count)
    ]


def end(processes: list[subprocess.Popen[Any]]) -> None:
    """End what a failed test has left."""
    for process in processes:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=10)


def list_expected(count: int, lines: int, size: int) -> collections.Counter[str]:
    """Every line that the writers write."""
    letters = [chr(97 + number) for number in range(count)]
    return collections.Counter(
        f"{letter} {index} {letter * size} end" for letter in letters for index in range(lines)
    )


def test_eight_processes_through_one_pipe(lock_parent: Path) -> None:
    """8 processes, 1500 lines each, some far beyond PIPE_BUF: every line arrives whole, and those
    of one process in their order."""
    for lines, size in ((1500, 80), (200, 20_000)):
        reader, writer = os.pipe()
        processes = start_writers(8, lines, size, writer, {})
        os.close(writer)
        try:
            with os.fdopen(reader, encoding="ascii") as pipe:
                found = pipe.read().splitlines()
        finally:
            end(processes)
        assert [process.returncode for process in processes] == [0] * 8
        assert collections.Counter(found) == list_expected(8, lines, size)
        orders: dict[str, list[int]] = collections.defaultdict(list)
        for line in found:
            orders[line[0]].append(int(line.split()[1]))
        assert all(order == sorted(order) for order in orders.values())


def test_processes_append_to_one_file(lock_parent: Path) -> None:
    """Processes that opened a log each for themselves, to append, write whole lines too."""
    log = lock_parent / "log"
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for i in range(4):
            with log.open("ab") as output:
                processes += start_writers(1, 100, 30_000 + i, output, {})
    finally:
        for process in processes:
            process.wait(timeout=60)
    lines = log.read_text().splitlines()
    assert len(lines) == 400
    assert {len(line) - len(line.split()[1]) for line in lines} == {30007 + i for i in range(4)}


@pytest.mark.nightly
def test_demo_shows_both(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """The demonstration: without the lock lines tear, with it none does, and no byte is lost."""
    path = tmp_path / "out.json"
    done = run_tool(TOOL, "--processes", "8", "--lines", "300", "--json", str(path))
    assert done.returncode == 0, done.stderr
    rows = {row["way"]: row for row in read_json(path)["results"]}
    assert rows["print, long"]["lines_torn"] > 0
    assert rows["print -u, pieces"]["lines_torn"] > 0
    assert rows["print, short"]["lines_torn"] == 0, "PIPE_BUF is no promise here"
    for way in ("printflock -u, pieces", "printflock, long"):
        assert rows[way]["lines_torn"] == 0
        assert rows[way]["lines_whole"] == 2400
    assert all(row["bytes_lost"] == 0 for row in rows.values())


def test_torn_lines_are_counted(locked: Any) -> None:
    """A line in which another one begins is torn, and so is one that lacks its end."""
    lines = [" ".join(locked.make_pieces(0, index, 60)).encode() for index in range(3)]
    assert locked.count_whole(b"\n".join(lines), 1, 3, 60) == 3
    assert locked.count_whole(lines[0] + lines[1] + b"\n" + lines[2][:-1] + b"\n", 1, 3, 60) == 0
    assert locked.find_torn_line(lines[0][:20] + b"\n") == "000:0000000 aaa..aaa"
    assert locked.find_torn_line(lines[0]) == ""


def test_threads_wait_for_each_other(locked: Any, lock_parent: Path) -> None:
    """Threads of one process hold the lock one after the other."""
    inside, most = [0], [0]

    def work() -> None:
        for _ in range(50):
            with locked.hold_lock() as is_held:
                assert is_held
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                time.sleep(0.0002)
                inside[0] -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert most == [1]


def test_print_inside_of_a_print_waits_for_nothing(locked: Any, lock_parent: Path) -> None:
    """A signal's handler that prints while its thread holds the lock does not wait for itself."""
    output = io.StringIO()
    with locked.hold_lock():
        locked.printflock("inner", file=output)
    assert output.getvalue() == "inner\n"


@pytest.mark.nightly
def test_child_that_was_forked_does_not_share_the_lock(locked: Any, lock_parent: Path) -> None:
    """A child forked while the lock is held waits like anybody else, and the parent can give the
    lock back although the child has the same file open."""
    with locked.hold_lock():
        child = os.fork()
        if child == 0:
            # The copy of this thread believes it holds the lock: a thread of the child does not.
            got: list[bool] = []

            def try_lock() -> None:
                got.append(locked.take_lock(0.2) is None)

            thread = threading.Thread(target=try_lock)
            thread.start()
            thread.join()
            time.sleep(1.0)
            os._exit(0 if got == [True] else 1)
        time.sleep(0.5)
    number = locked.take_lock(0.3)
    assert number is not None, "the child still keeps the lock"
    locked.release_lock(number)
    assert os.waitpid(child, 0)[1] == 0


def test_stopped_holder_does_not_stop_the_others(
    locked: Any, lock_parent: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where another process keeps the lock, a print comes after its time-out, with a warning."""
    locked.warned.clear()
    code = f"import sys; sys.path.insert(0, {str(FOLDER)!r})\nimport printflock, time\n"
    code += "with printflock.hold_lock():\n    print('held', flush=True)\n    time.sleep(60)\n"
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        holder.send_signal(signal.SIGSTOP)
        with locked.hold_lock(0.3) as is_held:
            assert not is_held
        assert "another process has held the lock for 0.3 s" in capsys.readouterr().err
        end([holder])
        with locked.hold_lock(5) as is_held:
            assert is_held
    finally:
        end([holder])


def test_child_that_leaves_the_block_keeps_its_parents_lock(locked: Any, lock_parent: Path) -> None:
    """A child forked inside of hold_lock() that runs to the end of the block does not give its
    parent's lock back."""
    child = -1
    with contextlib.suppress(SystemExit), locked.hold_lock():
        child = os.fork()
        if child == 0:
            raise SystemExit
        assert os.waitpid(child, 0)[1] == 0
        number = locked.open_lock()
        assert not locked.can_lock(number), "the child has given the lock back"
        os.close(number)
    if child == 0:
        os._exit(0)


def test_compressed_stream_stays_one(locked: Any, lock_parent: Path) -> None:
    """A stream that compresses has a file below it, into which no plain text must go."""
    path = lock_parent / "log.gz"
    with gzip.open(path, "wt", encoding="utf-8") as stream:
        print("before", file=stream)
        locked.printflock("ours", "é" * 10_000, file=stream)
        print("after", file=stream)
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        assert stream.read() == "before\nours " + "é" * 10_000 + "\nafter\n"


@pytest.mark.parametrize(
    "attack", ["link to a folder", "open to others", "a file", "lock is a link", "lock is a pipe"]
)
def test_lock_of_an_attacker_is_not_used(
    locked: Any, lock_parent: Path, attack: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder or a lock file that somebody has put there is neither followed nor written."""
    locked.warned.clear()
    victim = lock_parent / "victim"
    victim.mkdir(mode=0o700)
    (victim / "precious").write_text("precious")
    folder = lock_parent / f"printflock-{os.geteuid()}"
    lock = folder / "no-job.lock"
    if attack == "link to a folder":
        folder.symlink_to(victim)
    elif attack == "open to others":
        folder.mkdir()
        folder.chmod(0o777)
    elif attack == "a file":
        folder.write_text("")
    else:
        folder.mkdir(mode=0o700)
        if attack == "lock is a link":
            lock.symlink_to(victim / "precious")
        else:
            os.mkfifo(lock)
    output = io.StringIO()
    locked.printflock("text", file=output)
    assert output.getvalue() == "text\n", "the print itself has to come"
    assert "lines may interleave" in capsys.readouterr().err
    assert [path.name for path in victim.iterdir()] == ["precious"]
    assert (victim / "precious").read_text() == "precious"


def test_folder_of_another_user_is_not_used(locked: Any, lock_parent: Path) -> None:
    """A folder in our name that belongs to somebody else is refused."""
    need("root")
    folder = lock_parent / f"printflock-{os.geteuid()}"
    folder.mkdir(mode=0o700)
    os.chown(folder, 12345, 12345)
    with pytest.raises(PermissionError, match="not for this user alone"):
        locked.open_lock_in(lock_parent, "x.lock")


def test_lock_does_not_depend_on_where_the_module_is(locked: Any, lock_parent: Path) -> None:
    """A copy of the module elsewhere waits for the same lock."""
    copy = lock_parent / "elsewhere" / "printflock.py"
    copy.parent.mkdir()
    copy.write_bytes((SCRIPTS / TOOL).read_bytes())
    code = (
        f"import sys; sys.path.insert(0, {str(copy.parent)!r}); import printflock; "
        "print(printflock.take_lock(0.2) is None)"
    )
    with locked.hold_lock():
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
        )
    assert done.stdout == "True\n"


def test_jobs_do_not_wait_for_each_other(
    locked: Any, lock_parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another job of the same user has a lock of its own."""
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    with locked.hold_lock():
        monkeypatch.setenv("SLURM_JOB_ID", "2")
        number = locked.take_lock(0.2)
        assert number is not None
        locked.release_lock(number)
    names = sorted(path.name for path in (lock_parent / f"printflock-{os.geteuid()}").iterdir())
    assert names == ["1.lock", "2.lock"]
    assert all(path.stat().st_size == 0 for path in lock_parent.rglob("*.lock"))


@given(text=st.text(min_size=1))
def test_name_of_a_job_is_one_part_of_a_path(locked: Any, text: str) -> None:
    """Whatever a scheduler calls a job, its lock is a file in the folder."""
    name = locked.name_job({"PBS_JOBID": text, "MASTER_PORT": "29500"})
    assert Path(name).name == name
    assert name not in ("", ".", "..")
    assert len(name) <= 100


def test_lock_that_was_tidied_away_is_made_again(locked: Any, lock_parent: Path) -> None:
    """A lock file that is removed while somebody waits for it is not locked by two."""
    first = locked.take_lock(1.0)
    (lock,) = lock_parent.rglob("*.lock")
    waiter: list[int | None] = []
    thread = threading.Thread(target=lambda: waiter.append(locked.take_lock(10.0)))
    thread.start()
    time.sleep(0.1)
    lock.unlink()
    thread.join(timeout=20)
    assert waiter[0] is not None
    assert os.fstat(waiter[0]).st_ino == lock.stat().st_ino
    locked.release_lock(waiter[0])
    locked.release_lock(first)


def test_pipe_that_does_not_block_loses_nothing(locked: Any, lock_parent: Path) -> None:
    """Of a full pipe in non-blocking mode no byte is lost, neither of print before nor of ours."""
    reader, writer = os.pipe()
    flags = fcntl.fcntl(writer, fcntl.F_GETFL)
    fcntl.fcntl(writer, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    parts: list[bytes] = []

    def read_slowly() -> None:
        time.sleep(0.2)
        while part := os.read(reader, 65536):
            parts.append(part)

    thread = threading.Thread(target=read_slowly)
    thread.start()
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        stream.write("before\n")
        locked.printflock("ä" * 200_000, "end", file=stream)
    thread.join(timeout=20)
    os.close(reader)
    assert b"".join(parts).decode() == "before\n" + "ä" * 200_000 + " end\n"


def test_prints_like_print(
    locked: Any, lock_parent: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """sep, end, no argument at all, and a stream without a file are as print has them."""
    locked.printflock(1, None, "x", sep="-", end="!")
    locked.printflock()
    locked.printflock("a", "b", sep=None, end=None, flush=False)
    assert capsys.readouterr().out == "1-None-x!\na b\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--line_bytes", "100"], "a long line has more than 4096 bytes"),
        (["--processes", "0"], "whole number from 1"),
        (["--processes", "1"], "--processes: 2 or more"),
    ],
)
def test_wrong_use_is_told(call_tool: Callable[..., Any], arguments: list[str], words: str) -> None:
    """What makes no sense ends with status 2 and a line that says what would."""
    done = call_tool(TOOL, *arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.nightly
@pytest.mark.torch
def test_ranks_of_torchrun(tmp_path: Path, unique_port: int) -> None:
    """Four ranks of torchrun on one pipe, unbuffered, in lines above PIPE_BUF: all whole."""
    script = tmp_path / "ranks.py"
    script.write_text(
        "import os, sys\n"
        f"sys.path.insert(0, {str(FOLDER)!r})\n"
        "from printflock import printflock\n"
        "letter = 'abcd'[int(os.environ['RANK'])]\n"
        "for index in range(200):\n"
        "    printflock(letter, index, letter * 9000, 'end')\n"
    )
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "4"]
    done = execute_subprocess_async(
        [*command, "--master_port", str(unique_port), str(script)],
        env={**os.environ, "PYTHONUNBUFFERED": "1", "PRINTFLOCK_FOLDER": str(tmp_path)},
        timeout=120,
        quiet=True,
    )
    assert collections.Counter(done.stdout) == list_expected(4, 200, 9000)
