"""hang_watchdog: when silence is a hang, and jobs that really hang. kit/stacks.py merges; the ranks
of torchrun hang in the cells of the book."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from slurm_cluster import Cluster

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


@pytest.fixture
def py_spy(module: Any) -> None:
    """Skip where py-spy is missing."""
    if module.find_py_spy() is None:
        pytest.skip("py-spy is missing: pip install py-spy")


@pytest.fixture
def quiet(tmp_path: Path) -> list[str]:
    """A command that says something once, and ends when `go` is there."""
    path = tmp_path / "quiet.py"
    path.write_text(QUIET)
    return [sys.executable, str(path), str(tmp_path / "go")]


class Bench:
    """A watch with a timeout of 10 s, whose clock and output are in the test's hand."""

    def __init__(self, module: Any, patch: pytest.MonkeyPatch, heartbeat: Any = None) -> None:
        self.now, self.output = 1000.0, "a"
        patch.setattr(module.time, "monotonic", lambda: self.now)
        options = argparse.Namespace(timeout=10.0, first=None, log=None, heartbeat=heartbeat)
        self.silence = module.Silence(options, lambda: self.output)

    def look(self, at: float, output: str | None = None) -> list[str]:
        """The sources that have hung by that second."""
        self.now, self.output = 1000.0 + at, output or self.output
        self.silence.update()
        return [Path(name).name for name in self.silence.find_hang()]


def test_a_hang_is_told_once_and_again_after_progress(
    module: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing before the time is up, once then, and again only if something new came between."""
    bench = Bench(module, monkeypatch)
    assert [bench.look(at) for at in (5, 9.9, 10, 11, 100)] == [[], [], ["output"], [], []]
    assert bench.look(101, "b") == []
    assert [bench.look(at) for at in (110, 111, 112)] == [[], ["output"], []]


def test_every_heartbeat_counts(
    module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One that stops is a hang though others go on; until it moves nothing else is one."""
    files = [tmp_path / f"beat_{rank}" for rank in range(2)]
    bench = Bench(module, monkeypatch, [str(tmp_path / "beat_*")])

    def beat(at: float, *ranks: int) -> list[str]:
        for rank in ranks:
            files[rank].touch()
            os.utime(files[rank], (at, at))
        return bench.look(at)

    assert [beat(0, 0, 1), beat(9, 0), beat(10), beat(20)] == [[], [], ["beat_1"], []]
    assert [beat(50, 0, 1), beat(59, 1), beat(60)] == [[], [], ["beat_0"]]


@pytest.mark.usefixtures("py_spy")
def test_a_hang_is_reported_while_the_command_goes_on(
    run_tool: Callable[..., Any], quiet: list[str], tmp_path: Path
) -> None:
    """It is not harmed and ends by itself; the sentence comes last, and dumps are there."""
    out, path = tmp_path / "out", tmp_path / "x.json"
    words = ["--timeout", "1s", "--out", str(out), "--json", str(path)]
    go = f"command:cat > {tmp_path}/stdin; touch {tmp_path}/go"
    done = run_tool(TOOL, "run", *words, "--then", go, "--", *quiet)
    assert (done.returncode, done.stdout) == (5, "started\ndone\n")
    assert done.stderr.splitlines()[-1] == "hang_watchdog: rank 0 in wait_long at quiet.py:5"
    assert "note: command: done" in done.stderr
    (folder,) = out.iterdir()
    names = sorted(path.name.partition("_")[0] for path in folder.iterdir())
    assert names == ["norank", "report.txt"]
    assert (tmp_path / "stdin").read_text() == (folder / "report.txt").read_text()
    document = json.loads(path.read_text())
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
    assert re.search(r"rank 0 \(no stack: py-spy is missing: pip install py-spy\)", done.stderr)


def test_kill_ends_the_whole_tree(
    module: Any, run_tool: Callable[..., Any], quiet: list[str], tmp_path: Path
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
    assert module.identify(int((tmp_path / "pid").read_text())) is None


@pytest.mark.usefixtures("py_spy")
def test_watch_beside_a_job(run_tool: Callable[..., Any], quiet: list[str], tmp_path: Path) -> None:
    """--match finds Python processes and what they started, not a shell with the same words; the
    watch ends with the job, with status 1."""
    log = tmp_path / "log"
    log.touch()
    shell, pipe = ["sh", "-c", "read line", quiet[1]], subprocess.PIPE  # until the pipe is closed
    with subprocess.Popen(quiet, stdout=pipe) as job, subprocess.Popen(shell, stdin=pipe) as other:
        assert job.stdout
        assert job.stdout.readline() == b"started\n"
        words = ["--log", log, "--timeout", "1s", "--out", tmp_path / "out", "--then", "kill"]
        words += ["--match", re.escape(quiet[1])]
        done = run_tool(TOOL, "watch", *map(str, words))
        assert other.poll() is None
    assert done.returncode == 1
    assert done.stdout.startswith("| ranks")
    notes = done.stderr.splitlines()
    assert notes[-2:] == ["rank 0 in wait_long at quiet.py:5", "note: kill: done"]
    assert job.returncode == -signal.SIGTERM


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "name a task: run, watch, dump or merge"),
        (("run", "--", "/no/such/program"), "/no/such/program: No such file"),
        (("watch", "--log", "x", "--match", "no such job"), "none of your Python processes has"),
        (("watch", "--log", "x", "--match", "py", "--then", "scancel"), "scancel needs --job"),
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
    merged = cluster.run([sys.executable, PATH, "merge", tmp_path / "a"])
    assert merged.stderr.splitlines()[-1] == SUMMARY
    assert {job.state for job in cluster.queue()} == {"RUNNING"}
    words = ["--job", number, "--log", log, "--timeout", "2s", "--out", tmp_path / "b"]
    watch = [sys.executable, PATH, "watch", *words, "--then", "scancel"]
    ended = cluster.run(watch, timeout=90)
    assert ended.returncode == 1, ended.stderr
    assert f"{SUMMARY}\nnote: scancel: done" in ended.stderr
    assert cluster.queue() == []
