"""The multi-node commands of the book on a real Slurm of two nodes: each block is taken from its
chapter, made smaller as SMALLER says, and run where the chapter runs it: on the login node, in a
batch file, or within an allocation."""

from __future__ import annotations

import json
import re
import sys
import time
from pathlib import Path

import pytest
from chapter_blocks import find_block
from slurm_user import Login

CLUSTER = {"cores": 96, "gpus": 8, "settings": ["DefMemPerCPU=40"]}
"""Two nodes of the size that the book has, as far as Slurm can tell."""

SMALLER = (
    # eight tasks of a node: two; eight GPUs, ranks of torchrun, ranks of a node in pairs: one
    (r"(--ntasks-per-node[= ])8", r"\g<1>2"),
    (r"(--ntasks \$\(\()8 ", r"\g<1>2 "),
    (r"(--gpus-per-node[= ]|--nproc-per-node[= ]|--ranks_per_node )8", r"\g<1>1"),
    # nodes: two, and where a run may lose some, one or two
    (r"--nnodes 60:64", "--nnodes 1:2"),
    (r"(--nodes[= ])(?:40|64)(?= --n| )", r"\g<1>2"),
    (r"--ntasks[= ]40", "--ntasks=2"),
    (r"NumNodes=16 NumTasks=16", "NumNodes=2 NumTasks=2"),
    (r"node\[05-06\]", "node[1-2]"),
    (r"node0?5", "node1"),
    # hours: minutes, for the partition has a limit
    (r"--time=(\d+):00:00", r"--time=\1"),
    (r"TimeLimit=10:00:00", "TimeLimit=10"),
    # payloads
    (r"--max_size \d+GiB", "--max_size 64KiB"),
)
"""What is replaced in a block, and nothing else but the numbers of jobs. Without GPUs the tools
and train.py take the CPU and gloo by themselves."""


def take(chapter: str, begin: str, job: str = "") -> str:
    """A block in small; `job` for the number of a job that the chapter has made up."""
    code = find_block(chapter, begin, "bash").code
    for pattern, less in SMALLER:
        code = re.sub(pattern, less, code)
    return re.sub(r"\b(JOBID|4711(?= --)|87)\b", job, code) if job else code


HELLO = """
import os, socket
print("hello", socket.gethostname(), os.environ["SLURM_PROCID"], len(os.sched_getaffinity(0)))
"""

# What a training does between steps, with the switches of the chapter on fault tolerance.
TRAIN = """
import os
import time
from datetime import timedelta

import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=20))
{agree}
print("ready", dist.get_rank(), flush=True)
for step in range(2000):
    time.sleep(0.1)
    if agree("cpu"):
        print("rank", dist.get_rank(), "saved at step", step, flush=True)
        break
dist.destroy_process_group()
"""

# A training that starts again at its last step, with the ranks that are there.
ELASTIC = """
import time
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(seconds=10))
ranks = dist.get_world_size()
print("begins with", ranks, flush=True)
for step in range(4 if ranks == 1 else 2000):
    dist.all_reduce(torch.ones(1))
    time.sleep(0.1)
print("done with", ranks, flush=True)
"""


# --- orchestration/slurm and orchestration/launchers ---


@pytest.mark.torch
def test_quick_answers_submit(login: Login) -> None:
    """Both check the ranks of two nodes; the launchers' then starts a program."""
    login.write("train.py", HELLO.replace("SLURM_PROCID", "RANK"))
    numbers = []
    for chapter in ("orchestration/slurm", "orchestration/launchers"):
        out = login.run(take(chapter, "bindery bundle torch_distributed_check"))
        numbers += re.findall(r"Submitted batch job (\d+)", out)
    assert " to start at " in login.run(take("orchestration/slurm", "sbatch --test-only"))
    talk = "[node1 rank 0] all 2 ranks on 2 nodes can talk"
    for number, line in zip(numbers, (talk, talk, "[node2 rank 1] hello node2 1"), strict=True):
        login.wait(number)
        assert line in (login.folder / f"train-{number}.log").read_text()


def test_job_is_looked_at_and_a_step_ended(login: Login) -> None:
    """The step goes, the job goes on."""
    number = login.batch("srun --label sleep 60 || true\necho goes on; sleep 60", "--nodes=2")
    steps = f"squeue --steps --jobs={number}"
    login.cluster.wait_for(lambda: f"{number}.0" in login.run(steps), "no step")
    look = f"{take('orchestration/slurm', 'export SQUEUE_FORMAT')}\nsqueue --me"
    assert number in login.run(look)
    shown = login.run(take("orchestration/slurm", "squeue --me --start -o", number))
    assert "TimeLimit=" in shown
    login.run(take("orchestration/slurm", "squeue --steps", number).replace(".3", ".0"))
    login.wait_for(number, "goes on")


def test_chain_of_jobs(login: Login) -> None:
    for name in ("train", "evaluate"):
        login.write(f"{name}.slurm", f"#!/bin/bash\necho {name} >> order\n")
    out = login.run(take("orchestration/slurm", "first=$(sbatch"))
    (number,) = re.findall(r"Submitted batch job (\d+)", out)
    login.wait_for_success(number)
    assert (login.folder / "order").read_text().split() == ["train", "train", "evaluate"]
    assert "Submitted" in login.run(take("orchestration/slurm", "sbatch --mail-type="))


def test_arrays_wait_for_each_other(login: Login) -> None:
    """One task of an array runs, the others wait for it, and the second array for the first."""
    login.write("train.slurm", "#!/bin/bash\nsleep 60\n")
    submit, change = take("orchestration/slurm", "sbatch --array=1-50%1").split("\n", 1)
    number = login.run(submit).split()[-1]
    queue = login.cluster.queue
    login.cluster.wait_for(lambda: "RUNNING" in [job.state for job in queue()], "nothing runs")
    login.run(change.replace("1234", number))
    login.run(take("training/fault-tolerance", "sbatch --array=1-10%1 train"))
    login.run(take("training/fault-tolerance", "sbatch --array=1-10%1 --dependency", number))
    login.cluster.wait_for(
        lambda: "Dependency" in [job.reason for job in queue()], "it does not wait"
    )
    assert [job.state for job in queue()].count("RUNNING") <= 2


@pytest.mark.torch
def test_batch_shell_tells_the_ranks(login: Login) -> None:
    """A file that is there before the job starts stops nothing. The script survives two signals,
    and ends with the status of its step."""
    leave = "os.path.exists(f\"switches/leave-{os.environ['SLURM_JOB_ID']}\")"
    waits = f"while not {leave}:\n    time.sleep(0.1)\ntime.sleep(1)\nsys.exit(3)\n"
    login.write("train.py", f"import os, sys, time\nprint('ready', flush=True)\n{waits}")
    code = take("orchestration/slurm", "leave=switches/")
    number = login.batch(code, "--nodes=2", "--ntasks-per-node=1", "--hold")
    (login.folder / "switches").mkdir()
    login.write(f"switches/leave-{number}", "")
    login.ask("scontrol", "release", number)
    login.wait_for(number, "ready", 2)
    time.sleep(2)
    assert login.cluster.queue()
    for _ in range(2):
        login.ask("scancel", "--batch", "--signal=USR1", number)
    ended = login.wait(number)
    assert (ended.state, ended.status) == ("FAILED", "3:0"), ended.log


def test_steps_of_an_allocation(login: Login) -> None:
    """The first line opens the shell in which the second is typed. Then one log for each node and
    each task, and tasks that are bound, which is counted where the cluster binds."""
    login.write("train.py", HELLO)
    salloc, step = take("orchestration/slurm", "salloc --nodes=2").split("\n", 1)
    out = login.run(f"{salloc} bash -c '{step}'")
    found = sorted(re.findall(r"hello (node\d) (\d)", out))
    assert found == [("node1", "0"), ("node1", "1"), ("node2", "2"), ("node2", "3")]
    (login.folder / "logs").mkdir()
    login.allocate(take("orchestration/slurm", "srun --output=logs/"), "--job-name=train")
    logs = {path.name for path in (login.folder / "logs").iterdir()}
    ends = {re.sub(r"^train-\d+-", "", name) for name in logs}
    assert ends == {"node1.log", "node2.log", "0.log", "1.log"}
    out = login.allocate(take("orchestration/slurm", "srun --cpus-per-task=12"), "--ntasks=2")
    assert sorted(re.findall(r"(node\d) (\d): \d+ CPUs", out)) == [("node1", "0"), ("node2", "1")]
    code = take("orchestration/slurm", "export SRUN_CPUS_PER_TASK=")
    assert "hello node2" in login.allocate(code, "--ntasks=2", "--cpus-per-task=12")
    code = take("orchestration/slurm", "srun --ntasks-per-node=8 --cpus-per-task=12 --cpu-bind")
    out = login.allocate(code, "--ntasks-per-node=2", "--cpus-per-task=12")
    assert len(re.findall(r"hello node[12] [0-3]", out)) == 8


def test_nodes_are_listed(login: Login) -> None:
    out = login.allocate(take("orchestration/slurm", 'scontrol show hostnames "$SLURM_JOB_NO'))
    assert "node1\nnode2\ngpu[08-10]\n2\n" in out
    code = take("orchestration/launchers", "read -r MASTER_ADDR")
    out = login.allocate(f'{code}\necho "$MASTER_ADDR:$MASTER_PORT"')
    assert re.search(r"^node1:\d{5}$", out, re.M)
    code = take("orchestration/slurm", "python scripts/orchestration/hostfile.py")
    out = login.allocate(code, "--ntasks-per-node=4")
    assert "gpu17 |     8" in out
    assert "node2:4\n" in out


def test_one_task_per_node_where_eight_run(login: Login) -> None:
    """In a job of eight tasks per node, the steps that look at each node start one there; with
    --ntasks-per-node=1 alone they would start all sixteen."""
    number = login.batch("echo ready; sleep 100", "--nodes=2", "--ntasks-per-node=8")
    login.wait_for(number, "ready")
    into = take("orchestration/slurm", "srun --jobid=JOBID --overlap --pty", number).splitlines()
    (line,) = [line for line in into if "df -h /dev/shm" in line]
    assert sorted(re.findall(r"^node\d", login.run(line), re.M)) == ["node1", "node2"]
    code = take("debug/hangs", "py-spy dump --native", number)
    step = code[code.index("srun") :].replace("bash -c '", "bash -c 'hostname; ")
    login.run(f"{step} || true")
    stacks = sorted(login.folder.glob("stacks-*.txt"))
    assert [path.read_text() for path in stacks] == ["node1\n", "node2\n"]


@pytest.mark.torch
def test_nodes_are_tested(login: Login) -> None:
    """All but gpu_health, which rightly misses eight GPUs per node; node_pairs ends with 1 where a
    busy machine makes a link slow."""
    code = take("orchestration/slurm", "srun --nodes=")
    out = login.allocate(f"set +e\n{code}\ntrue", "--ntasks-per-node=2", "--gpus-per-node=8")
    assert "node1" in out
    assert len([*login.folder.glob("facts-node[12].json")]) == 2
    assert "all 4 ranks on 2 nodes can talk" in out
    assert json.loads((login.folder / "pairs.json").read_text())["results"]


def test_cron_job_waits_and_goes(login: Login) -> None:
    out = login.run(take("orchestration/slurm", "mkdir -p ~/cron/cron.daily"))
    assert "cron_dai" in out
    login.cluster.wait_for(lambda: not login.cluster.queue(), "it stays")


def test_nodes_are_drained_and_resumed(login: Login) -> None:
    try:
        login.run(take("orchestration/slurm", "sinfo -R"))
        assert login.cluster.state("node2").startswith("drain")
        assert login.cluster.state("node1").rstrip("*") == "idle"
    finally:
        login.cluster.ask("scontrol", "update", "NodeName=node2", "State=RESUME")


def test_stacks_of_a_running_job(login: Login) -> None:
    if not Path(sys.executable).with_name("py-spy").exists():
        pytest.skip("py-spy is missing: pip install py-spy")
    login.write(
        "train.py", "import time\n\n\ndef load_shard():\n    time.sleep(100)\n\n\nload_shard()"
    )
    number = login.batch("srun python train.py", "--nodes=2", "--ntasks-per-node=1")
    dump = take("orchestration/slurm", "python scripts/training/hang_watchdog.py dump", number)
    login.cluster.wait_for(lambda: "load_shard" in login.run(f"{dump} || true"), "no stacks")


# --- training, insights, network ---


@pytest.mark.torch
def test_warning_saves_through_torchrun(login: Login) -> None:
    """Rehearsed as the chapter says: each rank saves once, at the same step, and the job ends by
    itself with status 0."""
    agree = find_block("training/fault-tolerance", "SWITCHES = ", "python").code
    login.write("train.py", TRAIN.format(agree=agree))
    number = login.batch(take("training/fault-tolerance", "leave=switches/"))
    login.wait_for(number, "ready", 2)
    login.ask("scancel", "--batch", "--signal=USR1", number)
    saved = re.findall(r"rank (\d) saved at step (\d+)", login.wait_for_success(number))
    assert sorted(rank for rank, _ in saved) == ["0", "1"]
    assert len({step for _, step in saved}) == 1


@pytest.mark.torch
def test_training_goes_on_without_a_node(login: Login) -> None:
    """A node dies; the ranks of the other start again without it, and finish."""
    login.write("train.py", ELASTIC)
    number = login.batch(take("training/fault-tolerance", "srun --no-kill"))
    login.wait_for(number, "begins with 2", 2)
    login.cluster.cut("node2")
    try:
        login.wait_for(number, "done with 1", seconds=200)
    finally:
        login.cluster.restore("node2")


def test_deadline_is_the_end_of_the_job(login: Login) -> None:
    code = take("training/fault-tolerance", "end=$(squeue")
    begun = time.time()
    out = login.allocate(f'{code}\necho "deadline $DEADLINE"', "--time=30")
    (deadline,) = re.findall(r"deadline (\d+)", out)
    assert abs(int(deadline) - begun - 1800) < 60


@pytest.mark.torch
def test_acceptance_test_of_a_provider(login: Login) -> None:
    """All-reduce with one node and with both, then all pairs, in an allocation that has a number
    of tasks."""
    code = take("insights/cloud-provider", "export MASTER_ADDR")
    login.allocate(code, "--gpus-per-node=8", "--ntasks-per-node=2")
    for nodes in (1, 2):
        facts = json.loads((login.folder / f"all-{nodes}.json").read_text())
        assert {row["ranks"] for row in facts["results"]} == {2 * nodes}
    assert (login.folder / "pairs.json").exists()


@pytest.mark.torch
def test_network_benchmarks_of_two_nodes(login: Login) -> None:
    """node_pairs ends with 1 where a busy machine makes a link slow."""
    chapter = "network/benchmarks"
    code = f"""set +e
    {take(chapter, "python scripts/network/all_reduce_bench.py --max_size 8GiB --json nodes")}
    {take(chapter, "srun --ntasks-per-node 8 --gpus-per-node 8 --kill-on-bad-exit=0")}
    {take(chapter, "python scripts/debug/torch_distributed_check.py --timeout 30s")}"""
    assert "all 4 ranks on 2 nodes can talk" in login.allocate(code, "--gpus-per-node=8")
    for name in ("nodes", "pairs"):
        assert (login.folder / f"{name}.json").exists()


@pytest.mark.torch
@pytest.mark.needs("git")
def test_state_of_a_job_is_recorded(login: Login) -> None:
    """With eight tasks per node, one report from each node."""
    identity = "-c user.name=a -c user.email=a@b"
    login.run(f"git init -q . && git {identity} commit -q --allow-empty -m one")
    login.write("notes.txt", "not in git")
    code = take("training/reproducibility", "repro=$HOME")
    number = login.batch(f"export API_KEY=secret\n{code}", "--nodes=2", "--ntasks-per-node=8")
    login.wait_for_success(number)
    folder = login.folder / "repro" / number
    files = "job.sh job.txt env.txt requirements.txt machines.txt job.git.txt job.diff".split()
    assert {*files, "job.untracked.tar.gz"} <= {path.name for path in folder.iterdir()}
    assert "secret" not in (folder / "env.txt").read_text()
    machines = (folder / "machines.txt").read_text()
    assert (machines.count("node1"), machines.count("node2")) == (1, 1), machines
