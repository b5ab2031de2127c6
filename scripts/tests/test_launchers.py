"""The batch scripts: what every header promises, and the launchers on a real Slurm of two nodes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from bindery.check.rules.renamed_variable import find_old_names
from bindery.tools.bundle import bundle_tool
from slurm_user import Login

SCRIPTS = Path(__file__).resolve().parent.parent
BATCH_FILES = sorted(
    path
    for kind in ("*.slurm", "*.sbatch")
    for path in SCRIPTS.rglob(kind)
    if SCRIPTS / "tests" not in path.parents
)
SCRIPT = {path.stem: path for path in BATCH_FILES}
RANKED = ("torchrun", "srun", "accelerate", "lightning")
CLUSTER = {"cores": 96, "gpus": 8}
"""Two nodes of the size that the files ask for, as far as Slurm can tell."""


# --- every batch script ---


each_script = pytest.mark.parametrize("script", BATCH_FILES, ids=lambda path: path.name)


@pytest.mark.needs("shellcheck")
@each_script
def test_shellcheck_finds_nothing(script: Path) -> None:
    done = subprocess.run(["shellcheck", script], capture_output=True, text=True, check=False)
    assert done.stdout == ""


@each_script
def test_layout(script: Path) -> None:
    """The header has a question, how to check and submit it, a good answer, the exit status, and
    the licence. All #SBATCH lines are in the EDIT block, which comes first, and errors end the
    script from its first command on. No name has a successor."""
    lines = script.read_text().splitlines()
    assert lines[0] == "#!/bin/bash"
    assert re.fullmatch(r"# .*\?", lines[1])
    header = lines[: lines.index("")]
    for part in ("How to submit", "A good answer", "Exit status"):
        assert [line for line in header if line.startswith(f"# {part}   ")] != [], part
    assert header[-1] == "# SPDX-License-Identifier: Apache-2.0"
    assert any(f"sbatch --test-only {script.name}" in line for line in header)
    begin, end = (lines.index(f"# ==== EDIT {word} here ====") for word in ("from", "to"))
    commands = [i for i, line in enumerate(lines) if line and not line.startswith("#")]
    directives = [i for i, line in enumerate(lines) if re.match("#+SBATCH", line)]
    assert begin < directives[0] < directives[-1] < commands[0] < end
    assert re.fullmatch(r"set -eo pipefail( +#.*)?", lines[commands[0]])
    assert list(find_old_names(script.read_text())) == []


@each_script
def test_outside_slurm_it_is_refused(script: Path, tmp_path: Path) -> None:
    """Whoever runs it by bash reads one line about sbatch; bash can read all of it."""
    for options, status, message in (
        (["-n"], 0, ""),
        ([], 2, f"{script.name}: no job: submit this file with sbatch\n"),
    ):
        done = subprocess.run(
            ["bash", *options, script],
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (status, "", message)
    assert list(tmp_path.iterdir()) == []


# --- on a cluster ---

# What a training script does first: find the other ranks, and add up.
TRAIN = """
import sys
import torch

if sys.argv[1] == "accelerate":
    from accelerate import Accelerator

    Accelerator()
else:
    torch.distributed.init_process_group("gloo")
rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
total = (rank + 1) * torch.arange(1.0, 4.0)
torch.distributed.all_reduce(total)
print(f"rank {rank} of {ranks}: {total.tolist()} {sys.argv[2:]}")
torch.distributed.destroy_process_group()
"""

# Rank 1 ends as it is told to; rank 0 would go on for a minute, and goes when it is asked.
DIE = """
import os
import sys
import time

print("begins", flush=True)
if int(os.environ.get("RANK", os.environ["SLURM_PROCID"])) == 1:
    time.sleep(0.5)
    print("last words")
    sys.stdout.flush()
    sys.exit(int(sys.argv[1]))
time.sleep(60)
"""

# Ends at the file of the early warning, or at a signal if it is told to listen.
WARNED = """
import os
import signal
import sys
import time

heard = []
for number in (signal.SIGTERM, signal.SIGUSR1) if "listen" in sys.argv else ():
    signal.signal(number, lambda number, _: heard.append(signal.Signals(number).name))
leave = f"switches/leave-{os.environ['SLURM_JOB_ID']}"
print("ready", flush=True)
for _ in range(150):
    time.sleep(0.1)
    if os.path.exists(leave):
        heard.append("of the file")
    if heard:
        break
time.sleep(0.5)
print("ends, heard", *heard)
"""


def submit(login: Login, name: str, *arguments: str, options: str = "") -> str:
    """Submit with one core for each rank, where the files ask for the whole of a large node."""
    script = SCRIPT[name]
    sized = ["--gpus-per-node=1", "--cpus-per-task=1"]
    if name in ("srun", "lightning") or script.suffix == ".sbatch":
        sized.append("--ntasks-per-node=1")
    return login.submit(*sized, *options.split(), script, *arguments)


@pytest.mark.torch
@pytest.mark.parametrize("launcher", [name for name in RANKED if name != "lightning"])
def test_ranks_of_two_nodes_add_up(login: Login, launcher: str) -> None:
    """A real job over two nodes: each rank has the sum of both, its own host before its lines, and
    its arguments as they were given."""
    login.write("train.py", TRAIN)
    arguments = ("train.py", launcher, "two words", "$HOME 'quoted' \"twice\"")
    log = login.wait_for_success(submit(login, launcher, *arguments)).splitlines()
    for rank in (0, 1):
        line = f"[node{rank + 1} rank {rank}] rank {rank} of 2: [3.0, 6.0, 9.0] {[*arguments[2:]]}"
        assert log.count(line) == 1, log


@pytest.mark.torch
@pytest.mark.needs("python:lightning")
def test_lightning_ships_a_small_training(login: Login) -> None:
    """Without a program, all ranks fit the same line to different points."""
    log = login.wait_for_success(submit(login, "lightning")).splitlines()
    for rank in (0, 1):
        assert f"[node{rank + 1} rank {rank}] rank {rank} of 2: y = 3.00 x + 1.00" in log


@pytest.mark.torch
@pytest.mark.parametrize("launcher", RANKED)
def test_a_rank_that_dies_ends_the_job(login: Login, launcher: str) -> None:
    """Within seconds, on all nodes; its status is the status of the job, its last words are in the
    log, and nothing is left on the nodes."""
    login.write("die.py", DIE)
    ended = login.wait(submit(login, launcher, "die.py", "3"))
    assert (ended.state, ended.status) == ("FAILED", "3:0"), ended.log
    assert "[node2 rank 1] last words\n" in ended.log
    assert "[node1 rank 0] begins\n" in ended.log
    for node in login.cluster.nodes:
        assert login.cluster.run(["pgrep", "-af", "die.py"], on=node).stdout == ""
    left = login.folder / "tmp"
    assert [*left.glob("tmp.*"), *left.glob("torchelastic_*")] == []


@pytest.mark.torch
@pytest.mark.parametrize(
    ("launcher", "sent", "heard"),
    [
        *((launcher, "warning", "of the file") for launcher in ("torchrun", "srun", "accelerate")),
        *((launcher, "TERM", "SIGTERM") for launcher in RANKED),
        ("lightning", "USR2", "SIGUSR1"),
    ],
)
def test_ranks_hear_of_the_end(login: Login, launcher: str, sent: str, heard: str) -> None:
    """The early warning, as --signal=B:USR1@120 sends it to the batch shell, twice, is a file; one
    to the tasks hurts nobody. SIGTERM comes to the task's shell alone with proctrack/cgroup, and
    is sent there. Lightning's warning, as --signal=USR2@120 sends it, is SIGUSR1, once."""
    login.write("warned.py", WARNED)
    number = submit(login, launcher, "warned.py", "" if sent == "warning" else "listen")
    login.wait_for(number, "ready", 2)
    if sent == "TERM":
        for node in login.cluster.nodes:
            pattern = "^[a-z/]*bash -c .*run_logged"
            login.cluster.run(["pkill", "--oldest", "--full", "-TERM", pattern], on=node)
    elif sent == "USR2":
        login.ask("scancel", "--signal=USR2", number)
    else:
        login.ask("scancel", "--signal=USR1", number)
        for _ in range(2):
            login.ask("scancel", "--batch", "--signal=USR1", number)
    ended = login.wait(number)
    assert sent == "TERM" or (ended.state, ended.status) == ("COMPLETED", "0:0"), ended.log
    for rank in (0, 1):
        assert f"[node{rank + 1} rank {rank}] ends, heard {heard}\n" in ended.log


MISMATCHES = (
    ("torchrun", "--ntasks-per-node=8",
     "2 nodes, but 16 tasks: give --ntasks-per-node=1, torchrun starts the ranks"),
    ("accelerate", "--ntasks-per-node=2",
     "2 nodes, but 4 tasks: give --ntasks-per-node=1, each starts its ranks"),
    ("accelerate", "--nodes=1",
     "one rank needs no launcher: run it by python, or give more --nodes or --gpus-per-node"),
    ("srun", "--ntasks-per-node=4 --gpus-per-node=8",
     "4 tasks on a node, but 8 GPUs: make --ntasks-per-node and --gpus-per-node fit"),
    ("lightning", "--ntasks=3 --ntasks-per-node=2 --gpus-per-node=2",
     "3 tasks on 2 nodes of 2: give --ntasks-per-node, and not --ntasks"),
    ("lightning", "--job-name=interactive",
     "Lightning trains with one rank in a job named interactive: give another --job-name"),
    ("all_reduce_bench_pyxis", "--ntasks-per-node=2",
     "2 tasks on a node, but 1 GPUs: make --ntasks-per-node and --gpus-per-node fit"),
    ("torchrun", "", "there is no none.py in {}"),
)  # fmt: skip


def test_nodes_and_tasks_that_do_not_fit_are_refused(login: Login) -> None:
    """One line, before anything is started; so is a program that is not there."""
    for name, options, message in MISMATCHES:
        ended = login.wait(submit(login, name, "none.py", options=options))
        assert (ended.state, ended.status) == ("FAILED", "2:0")
        assert ended.log == f"{SCRIPT[name].name}: {message.format(login.folder)}\n"


def test_slurm_can_read_every_header(login: Login) -> None:
    """As they are in the files, with nothing given by hand: on nodes of that size each could
    start."""
    for path in BATCH_FILES:
        assert " to start at " in login.ask("sbatch", "--test-only", path)


def test_accelerate_that_starts_too_few_is_found_out(login: Login) -> None:
    """With --cpu, accelerate starts one rank and says nothing; the job says it, and fails."""
    login.write("die.py", DIE)
    script = login.copy(SCRIPT["accelerate"], {r"^STRATEGY=\(--multi_gpu": "STRATEGY=(--cpu"})
    ended = login.wait(login.submit("--gpus-per-node=1", "--cpus-per-task=1", script, "die.py"))
    assert (ended.state, ended.status) == ("FAILED", "2:0"), ended.log
    assert "accelerate] accelerate started 1 of 2 ranks: see STRATEGY\n" in ended.log
    assert "begins" not in ended.log


def test_example_tells_what_was_given(login: Login) -> None:
    """The numbers of the allocation, and the command's output from each node."""
    program = ("bash", "-c", "echo 'a  b'; sleep 0.5; exit $SLURM_PROCID")
    ended = login.wait(submit(login, "example", *program))
    assert (ended.state, ended.status) == ("FAILED", "1:0")
    for line in (
        "nodes    2: node[1-2]",
        "tasks    2, of 1 CPUs each",
        "GPUs     1 on each node",
        "[node1 task 0] a  b",
        "[node2 task 1] a  b",
    ):
        assert f"{line}\n" in ended.log


@pytest.mark.torch
@pytest.mark.parametrize("name", ["all_reduce_bench_apptainer", "all_reduce_bench_pyxis"])
def test_bench_runs_but_for_the_container(login: Login, name: str) -> None:
    """Over two nodes, with the arguments that the file gives; the JSON is there."""
    small = r"PROGRAM=(\g<1> --device cpu --max-size 64KiB --num-iterations 4 "
    changes = {r"^CONTAINER=\(\n(?:  .*\n)+\)$": "CONTAINER=()", r"^PROGRAM=\((\S+) ": small}
    script = login.copy(SCRIPT[name], changes)
    tool = SCRIPTS / "network/all_reduce_bench.py"
    login.write(tool.name, bundle_tool(str(tool), lambda path: Path(path).read_text()))
    sizes = ("--gpus-per-node=1", "--cpus-per-task=1", "--ntasks-per-node=1")
    number = login.submit(*sizes, script)
    assert "[node1 rank 0] | " in login.wait_for_success(number)
    assert (login.folder / f"all_reduce-{number}.json").exists()


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("fs_watchdog", '[[path]]\npath = "data"\nmethod = "du"\ninodes = "1 used"\n'),
        ("slurm_status", '[[job]]\nname = "train"\n'),
    ],
    ids=["fs_watchdog", "slurm_status"],
)
def test_a_watchdog_comes_again(login: Login, name: str, config: str) -> None:
    """It looks, tells what is wrong once, and has submitted the next one; after an edit to WHEN=0
    the chain ends."""
    (login.folder / "data").mkdir()
    login.write(f"{name}.toml", config)
    values = {"PYTHON": sys.executable, "TOOL": SCRIPTS / f"training/{name}.py", "WHEN": 1}
    changes = {rf"^{key}=\S+": f"{key}={value}" for key, value in values.items()}
    script = login.copy(SCRIPT[name], changes)
    login.ask("sbatch", script)
    log = login.folder / f"{name}.log"
    login.cluster.wait_for(
        lambda: log.exists() and log.read_text().count("ended with 1") >= 2, "it does not look"
    )
    script.write_text(re.sub("^WHEN=1", "WHEN=0", script.read_text(), flags=re.MULTILINE))
    login.cluster.wait_for(lambda: not login.cluster.queue(), "the chain does not end")
    assert log.read_text().count("ALERT") == 1
