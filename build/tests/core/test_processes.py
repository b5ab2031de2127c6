"""Runs within limits: what ends them, and that no process of them is left."""

import os
import signal
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from bindery.core.processes import CommandMissingError, Ended, Limits, run_command, run_limited
from msgspec.structs import replace

MIB = 1 << 20
FAR_AWAY = Limits(60.0, 2048 * MIB, MIB, grace_seconds=2.0)
Start = Callable[..., Ended]


class Clock:
    """A clock that moves `step` seconds each time it is read, and an hour when a line is shown."""

    def __init__(self, step: float = 0.0, step_later: float = 0.0) -> None:
        self.seconds = 0.0
        self.step = step
        self.step_later = step_later

    def __call__(self) -> float:
        self.seconds += self.step
        return self.seconds

    def jump(self, _stream: str, _line: str) -> None:
        self.seconds += 3600
        self.step = self.step_later


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Run Python code within limits, which are far away where a test does not set them."""

    def run(code: str, **given: Any) -> Ended:
        (tmp_path / "program.py").write_text(textwrap.dedent(code), encoding="utf-8")
        limits = replace(
            FAR_AWAY, **{name: given.pop(name) for name in list(given) if hasattr(FAR_AWAY, name)}
        )
        return run_limited(
            [sys.executable, "program.py"],
            folder=tmp_path,
            environment={"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"},
            limits=limits,
            log=tmp_path / "log",
            **given,
        )

    return run


def read_log(tmp_path: Path) -> str:
    return (tmp_path / "log").read_text(encoding="utf-8")


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


STUBBORN = """
    import signal, subprocess, sys, time
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
"""
UNTIL_TOLD = """
    import os, time
    while not os.path.exists("enough"):
        time.sleep(0.01)
"""


def test_what_is_printed_is_kept_and_shown(start: Start, tmp_path: Path) -> None:
    """Both streams go to the log and to the watcher, a line without an end and wrong bytes too."""
    lines: dict[str, list[str]] = {"stdout": [], "stderr": []}
    ended = start(
        r"""
        import os
        os.write(1, "naïve\n".encode())
        os.write(2, b"bad \xff byte\n")
        os.write(1, b"no end")
        """,
        show=lambda stream, line: lines[stream].append(line),
    )
    assert (ended.ended, ended.code) == ("done", 0)
    assert lines == {"stdout": ["naïve\n", "no end"], "stderr": ["bad � byte\n"]}
    shown = [*lines["stdout"], *lines["stderr"]]
    assert all(line in read_log(tmp_path) for line in shown)
    assert len(read_log(tmp_path)) == sum(map(len, shown))


def test_a_missing_program_is_said(tmp_path: Path) -> None:
    """A program that is not there is an error of its own."""
    with pytest.raises(CommandMissingError):
        run_command(["no-such-program"], folder=tmp_path, timeout=1)


def test_time_that_is_up_leaves_time_to_write(start: Start, tmp_path: Path) -> None:
    """The program is asked to end, and what it writes then is there."""
    ended = start(
        """
        import pathlib, signal, sys, time
        def stop(number, frame):
            pathlib.Path("partial").write_text("half")
            sys.exit(1)
        signal.signal(signal.SIGTERM, stop)
        print("ready")
        time.sleep(60)
        """,
        now=(clock := Clock()),
        show=clock.jump,
    )
    assert (ended.ended, ended.code) == ("timeout", 1)
    assert ended.seconds == 3600
    assert (tmp_path / "partial").read_text() == "half"


def test_memory_of_all_processes_counts_together(start: Start) -> None:
    """Three processes, each of them below the limit, are above it together."""
    ended = start(
        """
        import subprocess, sys, time
        hold = "import time; held = bytearray(80 << 20); time.sleep(60)"
        children = [subprocess.Popen([sys.executable, "-c", hold]) for _ in range(3)]
        time.sleep(60)
        """,
        memory_bytes=200 * MIB,
    )
    assert ended.ended == "memory"
    assert ended.peak_bytes > 200 * MIB


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells shared memory")
def test_memory_that_is_shared_counts_once(start: Start, tmp_path: Path) -> None:
    """Four processes that share 100 MiB have not used 400."""
    ready: list[str] = []
    looks: list[int] = []

    def watch(_seconds: float, used: int) -> None:
        if len(ready) == 4:
            looks.append(used)
        if len(looks) == 2:
            (tmp_path / "enough").touch()

    ended = start(
        f"""
    import mmap
    held = mmap.mmap(-1, 100 << 20)
    held.write(bytes(100 << 20))
    import os
    is_parent = all(os.fork() for _ in range(3))
    sum(held[n] for n in range(0, 100 << 20, 4096))
    os.write(1, b"ready\\n")
    {UNTIL_TOLD}
    if not is_parent:
        os._exit(0)
        """,
        memory_bytes=220 * MIB,
        now=Clock(step=0.3),
        seconds=1e9,
        show=lambda _stream, line: ready.append(line),
        watch=watch,
    )
    assert ended.ended == "done"
    assert len(looks) >= 2


def test_too_much_output_ends_the_run(start: Start, tmp_path: Path) -> None:
    """A log has a largest size, also where one line has no end, and the program is not stuck."""
    ended = start("while True: print('x' * 100000, end='')", output_bytes=MIB)
    assert ended.ended == "output"
    assert 0 < (tmp_path / "log").stat().st_size <= MIB


@pytest.mark.parametrize("ending", ["by itself", "at a limit"])
def test_nothing_is_left_behind(start: Start, tmp_path: Path, ending: str) -> None:
    """Children in the group, in sessions of their own, and orphans of both kinds are ended."""
    ended = start(
        STUBBORN
        + f"""
    ignore = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(120)"
    command = [sys.executable, "-c", ignore]
    fork = "import subprocess as s; quiet = dict(stdout=s.DEVNULL, stderr=s.DEVNULL); "
    fork += "print(s.Popen(%r, start_new_session=True, **quiet).pid)"
    orphan = subprocess.run([sys.executable, "-c", fork % command], capture_output=True)
    pids = [
        subprocess.Popen(command).pid,
        subprocess.Popen(command, start_new_session=True).pid,
        int(orphan.stdout),
    ]
    open("pids", "w").write(" ".join(map(str, pids)))
    print("ready")
    time.sleep({0 if ending == "by itself" else 60})
    """,
        now=(clock := Clock(step_later=0.1)),
        show=None if ending == "by itself" else clock.jump,
    )
    assert ended.ended == ("done" if ending == "by itself" else "timeout")
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 3
    assert [pid for pid in pids if is_running(pid)] == []


def test_a_second_signal_ends_the_grace(start: Start) -> None:
    """A second Ctrl-C kills a program that goes on after SIGTERM."""
    ended = start(
        """
        import signal, time
        signal.signal(signal.SIGTERM, lambda *_: print("asked to end"))
        print("ready")
        time.sleep(60)
        """,
        now=Clock(),
        show=lambda _stream, _line: os.kill(os.getpid(), signal.SIGINT),
    )
    assert (ended.ended, ended.code) == ("interrupted", -signal.SIGKILL)


def test_a_watcher_that_goes_away_does_not_stop_the_run(start: Start, tmp_path: Path) -> None:
    """Where nobody reads what is shown any more, the log goes on."""

    def show(_stream: str, _line: str) -> None:
        raise BrokenPipeError

    ended = start("for n in range(100000): print(n)", show=show)
    assert ended.ended == "done"
    assert read_log(tmp_path).endswith("99999\n")
