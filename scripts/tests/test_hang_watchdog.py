"""hang_watchdog: when silence is a hang, and jobs that really hang. kit/stacks.py does the merge."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
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
    time.sleep(300)

def step(number):
    if number == 2 and dist.get_rank() == 2:
        load_shard()
    dist.all_reduce(torch.ones(4))

dist.init_process_group("gloo", timeout=datetime.timedelta(minutes=10))
for number in range(10):
    step(number)
    sys.stdout.write(f"step {number}\\n")
    sys.stdout.flush()
"""
SUMMARY = "rank 2 in load_shard at train.py:6; ranks 0-1,3 in all_reduce at train.py:11"

# Says something, and then nothing until a file is there.
QUIET = """\
import pathlib, sys, time

def wait_long():
    while not pathlib.Path(sys.argv[1]).exists():
        time.sleep(0.05)

print("started", flush=True)
wait_long()
print("done", flush=True)
sys.exit(5)
"""


@pytest.fixture(scope="module")
def dog(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


@pytest.fixture
def py_spy(dog: Any) -> None:
    """Skip where py-spy is missing."""
    if dog.find_py_spy() is None:
        pytest.skip("py-spy is missing: pip install py-spy")


@pytest.fixture
def start() -> Iterator[Callable[..., Any]]:
    """Start programs in groups of their own, which end with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(*words: str | Path, **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, start_new_session=True, **options,
        )  # fmt: skip
        started.append(process)
        return process

    yield run
    for process in started:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.fixture
def quiet(tmp_path: Path) -> list[str]:
    """A command that says something once, and ends when `go` is there."""
    path = tmp_path / "quiet.py"
    path.write_text(QUIET)
    return [sys.executable, str(path), str(tmp_path / "go")]


def wait_until(holds: Callable[[], object]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


class Bench:
    """A watch with a timeout of 10 s, whose clock and output are in the test's hand."""

    def __init__(self, dog: Any, first: float | None = None, **files: Any) -> None:
        self.now, self.output = 1000.0, "a"
        options = argparse.Namespace(timeout=10.0, first=first, log=None, heartbeat=None)
        vars(options).update(files)
        self.silence = dog.Silence(options, lambda: self.output, lambda: self.now)

    def look(self, at: float, output: str | None = None, is_paused: bool = False) -> list[str]:
        """The sources that have hung by that second."""
        self.now, self.output = 1000.0 + at, output or self.output
        self.silence.update(is_paused)
        return [Path(name).name for name in self.silence.find_hang()]


def test_a_hang_is_told_once_and_again_after_progress(dog: Any) -> None:
    """Nothing before the time is up, once then, and again only if something new came between."""
    bench = Bench(dog)
    assert [bench.look(at) for at in (5, 9.9, 10, 11, 100)] == [[], [], ["output"], [], []]
    assert bench.look(101, "b") == []
    assert [bench.look(at) for at in (110, 111, 112)] == [[], ["output"], []]


def test_the_beginning_may_take_longer(dog: Any) -> None:
    """Within --first nothing is a hang, whatever a launcher prints meanwhile."""
    bench = Bench(dog, first=100.0)
    assert bench.look(2, "torchrun: Setting OMP_NUM_THREADS ...") == []
    assert [bench.look(at) for at in (12, 60, 99.9, 100)] == [[], [], [], ["output"]]
    assert bench.look(110, "a step") == []
    assert [bench.look(at) for at in (119, 120)] == [[], ["output"]]


def test_a_job_that_slurm_holds_is_not_silent(dog: Any) -> None:
    """While it waits or is suspended no time passes; when it goes on it may hang again."""
    bench = Bench(dog)
    assert bench.look(10) == ["output"]
    assert bench.look(100, is_paused=True) == []
    assert [bench.look(at) for at in (109, 110)] == [[], ["output"]]


def test_every_heartbeat_counts(dog: Any, tmp_path: Path) -> None:
    """One that stops is a hang though others go on; those that stop because of it are not another
    one, and a file that is removed is no longer watched."""
    files = [tmp_path / f"beat_{rank}" for rank in range(3)]
    for file in files:
        file.touch()
    bench = Bench(dog, heartbeat=[str(tmp_path / "beat_*")])

    def beat(at: float, *ranks: int) -> list[str]:
        for rank in ranks:
            os.utime(files[rank], (at, at))
        return bench.look(at)

    assert beat(9, 0, 1) == []
    assert beat(10) == ["beat_2"]
    assert beat(20) == []
    assert beat(50, 0, 1) == []
    assert beat(59, 0) == []
    assert beat(60) == ["beat_1"]
    files[0].unlink()
    assert beat(100) == []


def test_no_heartbeat_at_all_is_a_hang(dog: Any, tmp_path: Path) -> None:
    """Until the first one comes; when they are swept at the end of the job, nothing rings."""
    bench = Bench(dog, first=100.0, heartbeat=[str(tmp_path / "beat_*")])
    assert [bench.look(at) for at in (99, 100)] == [[], ["no heartbeat yet"]]
    (tmp_path / "beat_0").touch()
    assert bench.silence.has_moved(["no heartbeat yet"])
    assert bench.look(101) == []
    (tmp_path / "beat_0").unlink()
    assert bench.look(500) == []


def test_a_file_system_that_hangs_is_silence(dog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look itself does not hang; when it answers again, the log has moved."""
    answers, value = threading.Event(), ["a"]

    def look(_patterns: list[str]) -> dict[str, str]:
        answers.wait(60)
        return {"log": value[0]}

    monkeypatch.setattr(dog, "look_at_files", look)
    bench = Bench(dog, log=["log"])
    bench.silence.log_thread.seconds = 0.01
    assert [bench.look(at) for at in (5, 10)] == [[], ["log"]]
    answers.set()
    bench.silence.log_thread.thread.join()
    bench.silence.log_thread.seconds = 60.0
    assert bench.silence.has_moved(["log"])
    assert bench.look(11) == []


def test_an_array_is_named_by_its_task(dog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last task of an array has the number of the whole as its own."""
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert dog.find_own_job() == "7"
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "7")
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "3")
    assert dog.find_own_job() == "7_3"


def test_dumps_come_through_srun_whole(dog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In short lines of any order, with others between them; a host of which a line is lost is
    left out rather than guessed."""
    dumps = [{"rank": rank, "text": os.urandom(2000).hex()} for rank in range(3)]
    lines = []
    for host in ("n1", "n2"):
        monkeypatch.setattr(dog.socket, "gethostname", lambda host=host: host)
        lines += dog.pack_dumps(dumps)
    assert max(map(len, lines)) < 900
    mixed = ["srun: something else", *reversed(lines)]
    assert dog.unpack_dumps(mixed) == {"n1": dumps, "n2": dumps}
    assert dog.unpack_dumps(lines[1:]) == {"n2": dumps}


def test_a_wrapped_command_is_left_alone(run_tool: Callable[..., Any], tmp_path: Path) -> None:
    """Its output, errors and status come through, and nothing is left behind."""
    text = "import sys; print('a' * 300000); print('b', file=sys.stderr); sys.exit(7)"
    words = ["run", "--timeout", "30s", "--", sys.executable, "-c", text]
    done = run_tool(TOOL, *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (7, "a" * 300000 + "\n")
    assert done.stderr.endswith("b\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("py_spy")
def test_a_hang_is_reported_while_the_command_goes_on(
    start: Callable[..., Any], quiet: list[str], tmp_path: Path
) -> None:
    """It is not harmed and ends by itself; the sentence comes last, and dumps are there."""
    out, path = tmp_path / "out", tmp_path / "x.json"
    process = start(sys.executable, PATH, "run", "--timeout", "1s", "--out", out, "--json", path,
                    "--then", f"command:touch {tmp_path}/go", "--", *quiet)  # fmt: skip
    said, notes = process.communicate(timeout=60)
    assert (process.returncode, said) == (5, "started\ndone\n")
    assert notes.splitlines()[-1] == "hang_watchdog: rank 0 in wait_long at quiet.py:5"
    assert "note: command: done" in notes
    (folder,) = out.iterdir()
    names = sorted(path.name.partition("_")[0] for path in folder.iterdir())
    assert names == ["norank", "report.json", "report.txt"]
    document = json.loads(path.read_text())
    assert document["command"] == ["python", "hang_watchdog.py", "run"]
    assert document["details"]["summary"] == "rank 0 in wait_long at quiet.py:5"


def test_the_job_runs_without_py_spy(
    run_tool: Callable[..., Any], quiet: list[str], tmp_path: Path
) -> None:
    """With a warning, and at a hang with what can be said without stacks."""
    python = tmp_path / "bin" / "python"  # py-spy is looked for beside it too
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    environ = {"PATH": "/usr/bin:/bin"}
    words = ["run", "--timeout", "1s", "--then", f"command:touch {tmp_path}/go", "--", *quiet]
    done = subprocess.run([python, PATH, *words], env=environ, cwd=tmp_path, text=True,
                          capture_output=True, timeout=60, check=False)  # fmt: skip
    assert (done.returncode, done.stdout) == (5, "started\ndone\n")
    assert done.stderr.startswith("warning: py-spy is missing, so there will be no stacks: pip")
    assert "rank 0 in (no stack: it is in state S)" in done.stderr


def test_kill_ends_the_whole_tree(
    dog: Any, run_tool: Callable[..., Any], quiet: list[str], tmp_path: Path
) -> None:
    """After the other actions, in their order."""
    order = tmp_path / "order"
    shell = ["sh", "-c", f"{' '.join(quiet)} & echo $! > {tmp_path}/pid; wait"]
    actions = [f"command:echo one >> {order}", "kill", f"command:echo two >> {order}"]
    then = [word for action in actions for word in ("--then", action)]
    out = ["--out", str(tmp_path / "out")]
    done = run_tool(TOOL, "run", "--timeout", "1s", *out, *then, "--", *shell)
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert order.read_text() == "one\ntwo\n"
    assert dog.identify(int((tmp_path / "pid").read_text())) is None


@pytest.mark.nightly
@pytest.mark.usefixtures("py_spy")
def test_a_mail_has_the_report(start: Callable[..., Any], quiet: list[str], tmp_path: Path) -> None:
    """From a real server: the sentence as its subject, and where the stacks are."""
    controllers = pytest.importorskip("aiosmtpd.controller")
    handlers = pytest.importorskip("aiosmtpd.handlers")
    letters: list[Any] = []

    class Keep(handlers.Message):  # type: ignore[name-defined, misc]
        def handle_message(self, message: Any) -> None:
            letters.append(message)

    server = controllers.Controller(Keep(), hostname="127.0.0.1", port=8125)
    server.start()
    words = ["--timeout", "1s", "--out", tmp_path / "out", "--smtp", "127.0.0.1:8125"]
    words += ["--then", "mail:you@example.org", "--then", "kill"]
    try:
        process = start(sys.executable, PATH, "run", *words, "--", *quiet, "--key=SECRET")
        _, notes = process.communicate(timeout=60)
    finally:
        server.stop()
    assert "note: mail: done" in notes
    (letter,) = letters
    assert letter["Subject"] == "hang: rank 0 in wait_long at quiet.py:5"
    text = letter.get_payload(decode=True).decode()
    assert f"stacks: {tmp_path}/out/hang_" in text
    assert f"command: {quiet[1]}" in text
    assert "SECRET" not in text


@pytest.mark.usefixtures("py_spy")
def test_watch_beside_a_job(start: Callable[..., Any], quiet: list[str], tmp_path: Path) -> None:
    """--match finds Python processes and what they started, not a shell with the same words; the
    watch ends with the job, with status 1."""
    log = tmp_path / "log"
    log.touch()
    job, other = start(*quiet), start("sh", "-c", "sleep 100; true", quiet[1])
    assert job.stdout.readline() == "started\n"
    words = ["--log", log, "--timeout", "1s", "--out", tmp_path / "out", "--then", "kill"]
    words += ["--match", re.escape(quiet[1]), "--pid", job.pid]
    watchdog = start(sys.executable, PATH, "watch", *words)
    table, notes = watchdog.communicate(timeout=60)
    assert watchdog.returncode == 1
    assert table.startswith("| ranks")
    assert notes.splitlines()[-2:] == ["rank 0 in wait_long at quiet.py:5", "note: kill: done"]
    assert job.wait() == -signal.SIGTERM
    assert other.poll() is None


def test_a_watch_that_is_interrupted_leaves_the_job(
    start: Callable[..., Any], quiet: list[str], tmp_path: Path
) -> None:
    """Ctrl-C ends the watch alone, with JSON that is marked incomplete."""
    job = start(*quiet)
    path, log = tmp_path / "x.json", tmp_path / "log"
    log.touch()
    words = ["watch", "--log", log, "--pid", job.pid, "--json", path, "--out", tmp_path / "out"]
    watchdog = start(sys.executable, PATH, *words)
    status = Path(f"/proc/{watchdog.pid}/status")
    terminate = re.compile(r"SigCgt:\t.*[4-7c-f]...\n")  # it has a handler for SIGTERM
    wait_until(lambda: terminate.search(status.read_text()))
    watchdog.send_signal(signal.SIGINT)
    watchdog.communicate(timeout=60)
    assert watchdog.returncode == 1
    assert json.loads(path.read_text())["complete"] is False
    assert job.poll() is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a task: run, watch, dump or merge"),
        (("run", "--timeout", "1s"), "name the command: hang_watchdog.py run --timeout 10m --"),
        (("run", "--", "/no/such/program"), "/no/such/program: No such file"),
        (("watch", "--pid", "1"), "name what to watch: --log or --heartbeat"),
        (("watch", "--log", "x"), "name the ranks: --pid, --match or --job"),
        (("watch", "--log", "x", "--pid", "999999999"), "there is no process 999999999"),
        (("watch", "--log", "x", "--pid", "1", "--then", "scancel"), "--then scancel needs --job"),
        (("watch", "--log", "x", "--job", "1", "--then", "kill"), "--then kill needs --pid or"),
        (("watch", "--then", "explode"), "'explode': write mail:ADDRESS, command:SHELL COMMAND"),
        (("watch", "--then", "mail:nobody"), "'nobody' is not a mail address"),
        (("dump", "--job", "x"), "'x' is not a Slurm job: write 1234 or 1234_5"),
        (("dump", "--pid", "1", "--faulthandler-file", "x"), "each rank needs its own file"),
        (("dump", "--faulthandler", "KILL"), "'KILL' is not a signal for this"),
        (("merge", "none"), "none: No such file"),
    ],
)
def test_wrong_use_is_told(
    run_tool: Callable[..., Any], tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    """With status 2 and what to do; nothing is written."""
    done = run_tool(TOOL, *arguments, cwd=tmp_path, environ={"SLURM_JOB_ID": ""})
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.usefixtures("py_spy")
def test_the_outlier_of_torchrun_is_named(start: Callable[..., Any], tmp_path: Path) -> None:
    """Four ranks of gloo, one of which stops elsewhere; the launcher is not a rank. The saved
    dumps give the same answer, and the sentence comes below torchrun's traceback."""
    (tmp_path / "train.py").write_text(TRAIN)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    process = start(
        *(sys.executable, PATH, "run", "--first", "40s", "--timeout", "3s", "--then", "kill"),
        *("--out", tmp_path / "out", "--", *torchrun, "--nproc_per_node", "4", "train.py"),
        cwd=tmp_path, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    said, notes = process.communicate(timeout=180)
    assert process.returncode not in (0, 2), notes
    assert said.count("step 1\n") == 4
    assert "Traceback" in notes
    assert notes.splitlines()[-1] == f"hang_watchdog: {SUMMARY}"
    merge = [sys.executable, PATH, "merge", tmp_path / "out"]
    merged = subprocess.run(merge, capture_output=True, text=True, check=True)
    assert merged.stderr.splitlines()[-1] == SUMMARY


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A Slurm of two nodes."""
    with open_cluster(2) as running:
        yield running


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.usefixtures("py_spy")
def test_the_outlier_of_a_slurm_job_is_named(cluster: Cluster, tmp_path: Path) -> None:
    """Four ranks on two nodes: their stacks come over Slurm, and the job goes on until scancel."""
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
    cluster.wait_for(lambda: log.exists() and log.read_text().count("step 1") == 4, "no step")
    taken = cluster.run([sys.executable, PATH, "dump", "--job", number, "--out", tmp_path / "a"])
    assert taken.stderr.splitlines()[-1] == SUMMARY
    dumps = [json.loads(path.read_text()) for path in sorted((tmp_path / "a").iterdir())]
    assert [dump["host"] for dump in dumps] == ["node1", "node1", "node2", "node2"]
    assert {job.state for job in cluster.queue()} == {"RUNNING"}
    words = ["--job", number, "--log", log, "--timeout", "2s", "--out", tmp_path / "b"]
    watch = [sys.executable, PATH, "watch", *words, "--then", "scancel"]
    ended = cluster.run(watch, timeout=90)
    assert ended.returncode == 1, ended.stderr
    assert f"{SUMMARY}\nnote: scancel: done" in ended.stderr
    assert cluster.queue() == []


@pytest.mark.nightly
def test_an_array_as_a_whole_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    """Its tasks hang one by one: name one of them."""
    options = ["--parsable", "--array=1-2", "--output=/dev/null", "--wrap=sleep 60"]
    number = cluster.ask("sbatch", *options).strip()
    cluster.wait_for(lambda: [j.state for j in cluster.queue()] == ["RUNNING"] * 2, "they wait")
    dump = [sys.executable, PATH, "dump", "--out", tmp_path / "out", "--job"]
    refused = cluster.run([*dump, number])
    assert refused.returncode == 2
    assert f"{number} is an array: name one of its tasks, for example {number}_1" in refused.stderr
    taken = cluster.run([*dump, f"{number}_2"])
    assert (taken.returncode, "no process was found" in taken.stderr) == (1, True)
    cluster.ask("scancel", number)
    cluster.wait_for(lambda: not cluster.queue(), "they stay")
