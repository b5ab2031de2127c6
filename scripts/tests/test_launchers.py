"""The batch scripts: what every header promises, and the launchers on a real Slurm of two nodes."""

from __future__ import annotations

import mmap
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from bindery.tools.bundle import bundle_tool
from needs import need
from slurm_cluster import Cluster
from slurm_user import Ended, Login, log_in

SCRIPTS = Path(__file__).resolve().parent.parent
ORCHESTRATION = SCRIPTS / "orchestration"
LAUNCHERS = ORCHESTRATION / "launchers"
BATCH_FILES = sorted(
    path
    for kind in ("*.slurm", "*.sbatch")
    for path in SCRIPTS.rglob(kind)
    if SCRIPTS / "tests" not in path.parents
)
RANKED = ("torchrun", "srun", "accelerate", "lightning")
CLUSTER = {"cores": 96, "gpus": 8}
"""Two nodes of the size that the files ask for, as far as Slurm can tell."""

DEPRECATED = """
SLURM_JOBID SLURM_NNODES SLURM_NODELIST SLURM_NPROCS SLURM_STEPID --cpu_bind --mem_bind
--tasks-per-node --whole --workdir NCCL_ASYNC_ERROR_HANDLING NCCL_BLOCKING_WAIT NCCL_DESYNC_DEBUG
PYTORCH_CUDA_ALLOC_CONF PYTORCH_HIP_ALLOC_CONF TORCH_NCCL_DEBUG_INFO_TEMP_FILE
TORCH_NCCL_TRACE_BUFFER_SIZE TORCH_NCCL_TRACE_CPP_STACK torch.distributed.launch --use_env --use-env
--fp16 HUGGINGFACE_HUB_CACHE HUGGING_FACE_HUB_TOKEN PYTORCH_TRANSFORMERS_CACHE TRANSFORMERS_CACHE
pytorch_lightning
""".split()
"""Names and options of Slurm, PyTorch and what is used beside it that have a successor."""


# --- every batch script ---


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `script` runs once for each batch script, so that none is forgotten."""
    if "script" in metafunc.fixturenames:
        names = [path.relative_to(SCRIPTS).as_posix() for path in BATCH_FILES]
        metafunc.parametrize("script", BATCH_FILES, ids=names)


def test_bash_can_read_it(script: Path) -> None:
    """bash finds no fault in its grammar."""
    done = subprocess.run(["bash", "-n", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_shellcheck_has_nothing_to_say(script: Path) -> None:
    """Nothing in it is a known mistake."""
    need("shellcheck")
    done = subprocess.run(["shellcheck", script], capture_output=True, text=True, check=False)
    assert done.stdout == ""


def test_header_tells_all_there_is_to_know(script: Path) -> None:
    """Its question, how to check and submit it, a good answer, the exit status, and the licence."""
    lines = script.read_text().splitlines()
    assert lines[0] == "#!/bin/bash"
    assert re.fullmatch(r"# .*\?", lines[1])
    header = lines[: next(i for i, line in enumerate(lines) if not line.startswith("#"))]
    for part in ("How to submit", "A good answer", "Exit status"):
        assert [line for line in header if line.startswith(f"# {part}   ")] != [], part
    assert header[-1] == "# SPDX-License-Identifier: Apache-2.0"
    assert any(f"sbatch {script.name}" in line for line in header)
    if script.parent.name != "training":
        assert any(f"sbatch --test-only {script.name}" in line for line in header)
    assert max(map(len, lines)) <= 100


def test_what_readers_change_is_in_one_block(script: Path) -> None:
    """All #SBATCH lines are in the EDIT block, which comes first, and errors end the script from
    its first command on."""
    lines = script.read_text().splitlines()
    begin, end = (lines.index(f"# ==== EDIT {word} here ====") for word in ("from", "to"))
    assert sum("==== EDIT" in line for line in lines) == 2
    commands = [i for i, line in enumerate(lines) if line and not line.startswith("#")]
    directives = [i for i, line in enumerate(lines) if re.match("#+SBATCH", line)]
    assert begin < directives[0]
    assert directives[-1] < commands[0] < end
    assert re.fullmatch(r"set -eo pipefail( +#.*)?", lines[commands[0]])


def test_names_are_current(script: Path) -> None:
    """No variable, option or module that has a successor."""
    words = re.findall(r"[\w-]+(?:\.\w+)*", script.read_text())
    assert {*DEPRECATED} & {*words} == set()


@pytest.mark.torch
def test_torch_knows_the_variables() -> None:
    """Each variable of torch's that a launcher sets, or suggests, is in torch's libraries."""
    import torch

    texts = "".join(path.read_text() for path in BATCH_FILES)
    names = set(re.findall(r"\b((?:PY)?TORCH_[A-Z_]+)=", texts))
    assert {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "PYTORCH_ALLOC_CONF"} <= names
    libraries = Path(torch.__file__).parent / "lib"
    missing = set(names)
    for library in (*libraries.glob("libc10.*"), *libraries.glob("libtorch_cpu.*")):
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            missing -= {name for name in missing if data.find(f"\0{name}\0".encode()) >= 0}
    assert missing == set()


def test_ranks_are_wrapped_alike() -> None:
    """The launchers share the text of what they share."""

    def read(name: str, function: str) -> str:
        text = (ORCHESTRATION / name).read_text()
        (found,) = re.findall(rf"^{function}\(\) \{{\n.*?^\}}\n", text, re.MULTILINE | re.DOTALL)
        return str(found)

    plain = read("launchers/srun.slurm", "run_rank")
    for name in ("all_reduce_bench_pyxis.sbatch", "all_reduce_bench_apptainer.sbatch"):
        assert read(name, "run_rank") == plain
    with_agent = read("launchers/torchrun.slurm", "run_rank")
    checked = read("launchers/accelerate.slurm", "run_rank")
    assert [line for line in checked.splitlines() if line not in with_agent.splitlines()] == [
        *checked.splitlines()[1:6]
    ]


def test_outside_slurm_it_is_refused(script: Path, tmp_path: Path) -> None:
    """Whoever runs it by bash reads one line about sbatch."""
    done = subprocess.run(
        ["bash", script],
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    message = f"{script.name}: no job: submit this file with sbatch\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", message)
    assert list(tmp_path.iterdir()) == []


# --- on a cluster ---

# What a training script does first, under each launcher: find the others, and add up.
TRAIN = """
import os
import sys

import torch

ones = torch.arange(1.0, 4.0)
launcher = sys.argv[1]
if launcher == "lightning":
    from lightning.fabric import Fabric

    shape = {
        "num_nodes": int(os.environ["SLURM_JOB_NUM_NODES"]),
        "devices": int(os.environ["SLURM_NTASKS_PER_NODE"]),
    }
    fabric = Fabric(accelerator="cpu", strategy="ddp", **shape)
    fabric.launch()
    rank, ranks = fabric.global_rank, fabric.world_size
    total = fabric.all_reduce((rank + 1) * ones, reduce_op="sum")
elif launcher == "accelerate":
    from accelerate import Accelerator

    accelerator = Accelerator()
    rank, ranks = accelerator.process_index, accelerator.num_processes
    total = accelerator.reduce((rank + 1) * ones, reduction="sum")
else:
    torch.distributed.init_process_group("gloo")
    rank, ranks = torch.distributed.get_rank(), torch.distributed.get_world_size()
    total = (rank + 1) * ones
    torch.distributed.all_reduce(total)
print(f"rank {rank} of {ranks}: {total.tolist()} {sys.argv[2:]}")
torch.distributed.destroy_process_group()
"""

# Rank 1 ends as it is told to; rank 0 would go on for a minute, and goes when it is asked.
DIE = """
import os
import signal
import sys
import time

rank = int(os.environ.get("RANK", os.environ["SLURM_PROCID"]))
print("begins", flush=True)
if rank == 1:
    time.sleep(0.5)
    print("last words")
    sys.stdout.flush()
    sys.exit(int(sys.argv[1]))
time.sleep(60)
"""


@pytest.fixture
def login(cluster: Cluster, tmp_path: Path) -> Iterator[Login]:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "die.py").write_text(DIE)
    with log_in(cluster, tmp_path) as user:
        yield user


def submit(login: Login, script: Path, *arguments: str, options: Sequence[str] = ()) -> str:
    """Submit with one core for each rank, where the files ask for the whole of a large node."""
    sized = ["--gpus-per-node=1", "--cpus-per-task=1"]
    if script.stem in ("srun", "lightning") or script.suffix == ".sbatch":
        sized.append("--ntasks-per-node=1")
    return login.submit(*sized, *options, script, *arguments)


def run(login: Login, script: Path, *arguments: str) -> Ended:
    return login.wait(submit(login, script, *arguments))


def list_left_over(folder: Path) -> list[str]:
    """Folders that a launcher has left on a node; torch's own caches are none."""
    names = [path.name for path in (folder / "tmp").iterdir()]
    return [name for name in names if name.startswith(("tmp.", "torchelastic_"))]


def find_programs(cluster: Cluster, name: str) -> str:
    """What runs on the nodes with that name in its command line."""
    return "".join(cluster.run(["pgrep", "-af", name], on=node).stdout for node in cluster.nodes)


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("launcher", RANKED)
def test_ranks_of_two_nodes_add_up(login: Login, launcher: str) -> None:
    """A real job over two nodes: each rank has the sum of both, its own host before its lines, and
    its arguments as they were given."""
    arguments = ("train.py", launcher, "two words", "$HOME 'quoted' \"twice\"")
    ended = run(login, LAUNCHERS / f"{launcher}.slurm", *arguments)
    assert (ended.state, ended.status) == ("COMPLETED", "0:0"), ended.log
    for rank in (0, 1):
        line = f"[node{rank + 1} rank {rank}] rank {rank} of 2: [3.0, 6.0, 9.0] {[*arguments[2:]]}"
        assert ended.log.splitlines().count(line) == 1, ended.log
    assert not list_left_over(login.folder)


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.needs("python:lightning")
def test_lightning_ships_a_small_training(login: Login) -> None:
    """Without a program, all ranks fit the same line to different points."""
    ended = run(login, LAUNCHERS / "lightning.slurm")
    assert (ended.state, ended.status) == ("COMPLETED", "0:0"), ended.log
    for rank in (0, 1):
        line = f"[node{rank + 1} rank {rank}] rank {rank} of 2: y = 3.00 x + 1.00"
        assert line in ended.log.splitlines(), ended.log


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("launcher", RANKED)
def test_a_rank_that_dies_ends_the_job(login: Login, launcher: str) -> None:
    """Within seconds, on all nodes; its status is the status of the job, and its last words are in
    the log."""
    ended = run(login, LAUNCHERS / f"{launcher}.slurm", "die.py", "3")
    assert (ended.state, ended.status) == ("FAILED", "3:0"), ended.log
    assert "[node2 rank 1] last words\n" in ended.log
    assert "[node1 rank 0] begins\n" in ended.log
    assert find_programs(login.cluster, "die.py") == ""
    assert not list_left_over(login.folder)


MISMATCHES = (
    ("launchers/torchrun.slurm", "--ntasks-per-node=8",
     "2 nodes, but 16 tasks: give --ntasks-per-node=1, torchrun starts the ranks"),
    ("launchers/accelerate.slurm", "--ntasks-per-node=2",
     "2 nodes, but 4 tasks: give --ntasks-per-node=1, each starts its ranks"),
    ("launchers/accelerate.slurm", "--nodes=1",
     "one rank needs no launcher: run it by python, or give more --nodes or --gpus-per-node"),
    ("launchers/srun.slurm", "--ntasks-per-node=4 --gpus-per-node=8",
     "4 tasks on a node, but 8 GPUs: make --ntasks-per-node and --gpus-per-node fit"),
    ("launchers/lightning.slurm", "--ntasks=3 --ntasks-per-node=2 --gpus-per-node=2",
     "3 tasks on 2 nodes of 2: give --ntasks-per-node, and not --ntasks"),
    ("launchers/lightning.slurm", "--job-name=interactive",
     "Lightning trains with one rank in a job named interactive: give another --job-name"),
    ("launchers/example.slurm", "--ntasks=3 --ntasks-per-node=2",
     "3 tasks on 2 nodes of 2: give --ntasks-per-node, and not --ntasks"),
    ("all_reduce_bench_pyxis.sbatch", "--ntasks-per-node=2",
     "2 tasks on a node, but 1 GPUs: make --ntasks-per-node and --gpus-per-node fit"),
)  # fmt: skip


@pytest.mark.nightly
def test_nodes_and_tasks_that_do_not_fit_are_refused(login: Login) -> None:
    """One line, before anything is started; so is a program that is not there."""
    absent = submit(login, LAUNCHERS / "torchrun.slurm", "none.py")
    numbers = [
        submit(login, ORCHESTRATION / name, "die.py", "3", options=options.split())
        for name, options, _ in MISMATCHES
    ]
    for number, (name, _, message) in zip(numbers, MISMATCHES, strict=True):
        ended = login.wait(number)
        assert (ended.state, ended.status) == ("FAILED", "2:0")
        assert ended.log == f"{Path(name).name}: {message}\n"
    assert login.wait(absent).log == f"torchrun.slurm: there is no none.py in {login.folder}\n"


WARNED = """
import os
import signal
import time

heard = []
if os.environ.get("LISTENS"):
    for number in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(number, lambda number, _: heard.append(signal.Signals(number).name))
leave = f"switches/leave-{os.environ['SLURM_JOB_ID']}"
print("ready", flush=True)
for _ in range(150):
    time.sleep(0.1)
    if heard or os.path.exists(leave):
        break
time.sleep(0.5)
print("ends", *heard, "saved" if os.path.exists(leave) else "")
"""


def start_warned(login: Login, launcher: str) -> str:
    (login.folder / "warned.py").write_text(WARNED)
    number = submit(login, LAUNCHERS / f"{launcher}.slurm", "warned.py")
    login.wait_for(number, "ready", 2)
    return number


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("launcher", [name for name in RANKED if name != "lightning"])
def test_the_early_warning_is_a_file(login: Login, launcher: str) -> None:
    """SIGUSR1 to the batch shell, as --signal=B:USR1@120 sends it, twice: the ranks find the file.
    One to the tasks hurts nobody."""
    number = start_warned(login, launcher)
    login.cluster.ask("scancel", "--signal=USR1", number)
    for _ in range(2):
        login.cluster.ask("scancel", "--batch", "--signal=USR1", number)
    ended = login.wait(number)
    assert (ended.state, ended.status) == ("COMPLETED", "0:0"), ended.log
    for rank in (0, 1):
        assert f"[node{rank + 1} rank {rank}] ends saved\n" in ended.log


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("launcher", RANKED)
def test_a_task_passes_termination_on(
    login: Login, launcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With proctrack/cgroup, SIGTERM comes to the task's shell alone; here it is sent there."""
    monkeypatch.setenv("LISTENS", "1")
    number = start_warned(login, launcher)
    for node in login.cluster.nodes:
        pattern = "^[a-z/]*bash -c .*run_logged"
        done = login.cluster.run(["pkill", "--oldest", "--full", "-TERM", pattern], on=node)
        assert done.returncode == 0, done.stderr
    ended = login.wait(number)
    for rank in (0, 1):
        assert f"[node{rank + 1} rank {rank}] ends SIGTERM" in ended.log


@pytest.mark.nightly
@pytest.mark.torch
def test_lightning_hears_its_warning_once(login: Login, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGUSR2, as --signal=USR2@120 sends it, is SIGUSR1 for the rank."""
    monkeypatch.setenv("LISTENS", "1")
    number = start_warned(login, "lightning")
    login.cluster.ask("scancel", "--signal=USR2", number)
    ended = login.wait(number)
    assert (ended.state, ended.status) == ("COMPLETED", "0:0"), ended.log
    for rank in (0, 1):
        assert f"[node{rank + 1} rank {rank}] ends SIGUSR1 \n" in ended.log


@pytest.mark.nightly
@pytest.mark.torch
def test_accelerate_that_starts_too_few_is_found_out(login: Login) -> None:
    """With --cpu, accelerate starts one rank and says nothing; the job says it, and fails."""
    text = (LAUNCHERS / "accelerate.slurm").read_text()
    assert text.count("STRATEGY=(--multi_gpu ") == 1
    script = login.folder / "accelerate.slurm"
    script.write_text(text.replace("STRATEGY=(--multi_gpu ", "STRATEGY=(--cpu "))
    ended = run(login, script, "die.py", "0")
    assert (ended.state, ended.status) == ("FAILED", "2:0"), ended.log
    assert "accelerate] accelerate started 1 of 2 ranks: see STRATEGY\n" in ended.log
    assert "begins" not in ended.log


@pytest.mark.nightly
def test_example_tells_what_was_given(login: Login) -> None:
    """The numbers of the allocation, and the command's output from each node."""
    ended = run(
        login,
        LAUNCHERS / "example.slurm",
        "bash",
        "-c",
        "echo 'a  b'; sleep 0.5; exit $SLURM_PROCID",
    )
    assert (ended.state, ended.status) == ("FAILED", "1:0")
    lines = ended.log.splitlines()
    assert lines[:5] == [
        f"job      {ended.number} (example) in partition main",
        "nodes    2: node[1-2]",
        "tasks    2, of 1 CPUs each",
        "GPUs     1 on each node",
        "memory   1024 MiB on each node",
    ]
    assert {"[node1 task 0] a  b", "[node2 task 1] a  b"} <= set(lines)


@pytest.mark.nightly
def test_slurm_can_read_every_header(login: Login) -> None:
    """As they are in the files, with nothing given by hand: on nodes of that size each could
    start."""
    for path in BATCH_FILES:
        done = login.cluster.run(["sbatch", "--test-only", path], folder=login.folder)
        assert done.returncode == 0, done.stderr
        assert " to start at " in done.stderr, done.stderr


def drop_container(name: str, folder: Path) -> Path:
    """A copy of a file that runs its ranks in no container, because there is none here."""
    text = (ORCHESTRATION / name).read_text()
    (container,) = re.findall(r"^CONTAINER=\(\n(?:  .*\n)+\)$", text, re.MULTILINE)
    (folder / name).write_text(text.replace(container, "CONTAINER=()"))
    return folder / name


@pytest.mark.nightly
@pytest.mark.torch
def test_apptainer_file_runs_the_bench_but_for_the_container(login: Login) -> None:
    """Over two nodes, with the arguments it prints; the JSON is there."""
    script = drop_container("all_reduce_bench_apptainer.sbatch", login.folder)
    text = script.read_text()
    assert text.count("PROGRAM=(all_reduce_bench.py --json ") == 1
    small = "PROGRAM=(all_reduce_bench.py --device cpu --max-size 64KiB --num-iterations 4 --json "
    script.write_text(text.replace("PROGRAM=(all_reduce_bench.py --json ", small))
    root = SCRIPTS.parent
    tool = bundle_tool("scripts/network/all_reduce_bench.py", lambda p: (root / p).read_text())
    (login.folder / "all_reduce_bench.py").write_text(tool)
    ended = run(login, script)
    assert (ended.state, ended.status) == ("COMPLETED", "0:0"), ended.log
    assert "[node1 rank 0] | " in ended.log
    assert (login.folder / f"all_reduce-{ended.number}.json").exists()


@pytest.mark.nightly
def test_pyxis_file_runs_ranks_but_for_the_container(login: Login) -> None:
    """Over two nodes; a rank that dies ends the job. Of the statuses srun shows the highest, which
    may be that of the rank that it ended."""
    script = drop_container("all_reduce_bench_pyxis.sbatch", login.folder)
    ended = run(login, script, "die.py", "3")
    assert ended.state == "FAILED", ended.log
    assert "node2: task 1: Exited with exit code 3\n" in ended.log
    assert "[node2 rank 1] last words\n" in ended.log


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "config"),
    [("fs_watchdog", '[[path]]\npath = "data"\nmethod = "du"\ninodes = "1 used"\n'),
     ("slurm_status", '[[job]]\nname = "train"\n')],
)  # fmt: skip
def test_a_watchdog_comes_again(login: Login, name: str, config: str) -> None:
    """It looks, tells what is wrong once, and has submitted the next one; after an edit to WHEN=0
    the chain ends."""
    folder, cluster = login.folder, login.cluster
    (folder / "data").mkdir()
    (folder / "watch.toml").write_text(config)
    text = (SCRIPTS / "training" / f"{name}.slurm").read_text()
    changes = {"PYTHON": sys.executable, "TOOL": SCRIPTS / f"training/{name}.py", "WHEN": 1}
    for key, value in (changes | {"CONFIG": folder / "watch.toml"}).items():
        text, count = re.subn(rf"^{key}=\S+", f"{key}={value}", text, flags=re.MULTILINE)
        assert count == 1
    script, log = folder / f"{name}.slurm", folder / f"{name}.log"
    script.write_text(text.replace("LOG=$HOME/", f"LOG={folder}/"))
    cluster.ask("env", f"--chdir={folder}", "sbatch", "--test-only", script.name)
    cluster.ask("env", f"--chdir={folder}", "sbatch", script.name)
    cluster.wait_for(
        lambda: log.exists() and log.read_text().count("ended with 1") >= 2, "it does not look"
    )
    script.write_text(re.sub("^WHEN=1", "WHEN=0", script.read_text(), flags=re.MULTILINE))
    cluster.wait_for(lambda: not cluster.queue(), "the chain does not end")
    assert log.read_text().count("ALERT") == 1
