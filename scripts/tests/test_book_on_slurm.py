"""The multi-node commands of the book on a real Slurm of two nodes: each block is taken from its
chapter, made smaller as SMALLER says, and run where the chapter runs it: on the login node, in a
batch file, or within an allocation."""

from __future__ import annotations

import csv
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import bindery
import pytest
from chapter_blocks import find_blocks
from slurm_cluster import Cluster, open_cluster

HERE = Path(__file__).resolve().parent
SCRIPTS = HERE.parent

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

RUNS: dict[str, list[tuple[str, str]]] = {}
"""Test -> chapter and beginning of each block that it runs."""


def runs(chapter: str, *begins: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Say which blocks of a chapter a test runs."""

    def note(test: Callable[..., None]) -> Callable[..., None]:
        RUNS.setdefault(test.__name__, []).extend((chapter, begin) for begin in begins)
        return test

    return note


def take(chapter: str, begin: str, job: str = "", language: str = "bash") -> str:
    """A block in small; `job` for the number of a job that the chapter has made up."""
    blocks = find_blocks(language)
    found = [b for (c, name), b in blocks.items() if c == chapter and name.startswith(begin)]
    assert len(found) == 1, f"{len(found)} blocks of {chapter} begin with {begin!r}"
    code = found[0].code
    if language == "bash":
        for pattern, less in SMALLER:
            code = re.sub(pattern, less, code)
    return re.sub(r"\bJOBID\b", job, code) if job else code


def test_list_of_blocks_names_these_tests() -> None:
    """book_blocks.csv and the tests here name the same blocks."""
    with (HERE / "book_blocks.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["test"] in RUNS]
    listed = {(row["test"], row["chapter"], row["command"]) for row in rows}
    run = {(test, *pair) for test, pairs in RUNS.items() for pair in pairs}
    for test, chapter, begin in run:
        found = [r for r in listed if r[:2] == (test, chapter) and r[2].startswith(begin)]
        assert len(found) == 1, f"book_blocks.csv: {test} runs {begin!r} of {chapter}"
    assert len(listed) == len(run)


# --- a user of the cluster ---


@dataclass(frozen=True)
class Ended:
    """A job that has ended, and what its files say."""

    number: str
    state: str
    status: str
    log: str


@dataclass
class Login:
    """A user of the cluster, in a folder with scripts/ and the files of the test."""

    cluster: Cluster
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        programs = (self.folder / "bin", Path(sys.executable).parent)
        path = ":".join((*map(str, programs), os.environ["PATH"], "/usr/sbin"))
        return {
            "PATH": path,
            "HOME": str(self.folder),
            "USER": "root",
            "TMPDIR": str(self.folder / "tmp"),
            "OMP_NUM_THREADS": "1",
            "PYTHONUNBUFFERED": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, code: str, timeout: float = 180) -> str:
        """Run a block on the login node, every command of which has to succeed."""
        done = self.cluster.run(
            ["bash", "-eo", "pipefail", "-c", code],
            folder=self.folder,
            env=self.environment,
            timeout=timeout,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def allocate(self, code: str, *options: str, timeout: float = 300) -> str:
        """Run a block within an allocation of two nodes."""
        sized = ["--nodes=2", "--exclusive", *options]
        done = self.cluster.run(
            ["salloc", *sized, "bash", "-eo", "pipefail", "-c", code],
            folder=self.folder,
            env=self.environment,
            timeout=timeout,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def submit(self, code: str, *options: str) -> str:
        """Submit a block as a batch file."""
        path = self.folder / "train.slurm"
        path.write_text(code if code.startswith("#!") else f"#!/bin/bash\n{code}\n")
        command = ["sbatch", "--parsable", "--output=%j.log", *options, str(path)]
        done = self.cluster.run(command, folder=self.folder, env=self.environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def read(self, number: str) -> str:
        log = self.folder / f"{number}.log"
        return log.read_text() if log.exists() else ""

    def wait_for(self, number: str, text: str, count: int = 1, seconds: float = 120) -> None:
        self.cluster.wait_for(
            lambda: self.read(number).count(text) >= count, f"no {text!r} in {number}", seconds
        )

    def wait(self, number: str, seconds: float = 240) -> Ended:
        """Wait for the end of a job."""
        facts: dict[str, str] = {}

        def has_ended() -> bool:
            text = self.cluster.ask("scontrol", "show", "job", number)
            facts.update(part.split("=", 1) for part in text.split() if "=" in part)
            return facts["JobState"] not in ("PENDING", "RUNNING", "COMPLETING")

        self.cluster.wait_for(has_ended, f"job {number} does not end", seconds)
        return Ended(number, facts["JobState"], facts["ExitCode"], self.read(number))

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text)


def open_login(cluster: Cluster, folder: Path) -> Login:
    for name in ("scripts", "chapters.yaml"):
        (folder / name).symlink_to(SCRIPTS.parent / name)
    (folder / "tmp").mkdir()
    (folder / "bin").mkdir()
    program = folder / "bin/bindery"  # that of these tests, whatever is installed
    package = Path(bindery.__file__).parents[1]
    program.write_text(f'#!/bin/bash\nPYTHONPATH={package} exec python -m bindery "$@"\n')
    program.chmod(0o755)
    return Login(cluster, folder)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes of the size that the book has, as far as Slurm can tell."""
    with open_cluster(2, cores=96, gpus=8, settings=["DefMemPerCPU=40"]) as opened:
        yield opened


@pytest.fixture
def login(cluster: Cluster, tmp_path: Path) -> Iterator[Login]:
    yield open_login(cluster, tmp_path)
    for job in cluster.queue():
        cluster.ask("scancel", job.number)
    cluster.wait_for(lambda: not cluster.queue(), "a job stays in the queue")


HELLO = """
import os, socket
print("hello", socket.gethostname(), os.environ["SLURM_PROCID"], len(os.sched_getaffinity(0)))
"""

WAITS = """
import os, time
print("ready", flush=True)
for _ in range(600):
    time.sleep(0.1)
    if os.path.exists(f"switches/leave-{os.environ['SLURM_JOB_ID']}"):
        print("saved", flush=True)
        break
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
import os
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


# --- orchestration/slurm ---


@runs("orchestration/slurm", "bindery bundle torch_distributed_check")
@runs("orchestration/launchers", "bindery bundle torch_distributed_check")
@pytest.mark.torch
def test_quick_answers_submit(login: Login) -> None:
    """Both check the ranks of two nodes; the launchers' then starts a program."""
    login.write("train.py", HELLO.replace("SLURM_PROCID", "RANK"))
    numbers = []
    for chapter in ("orchestration/slurm", "orchestration/launchers"):
        out = login.run(take(chapter, "bindery bundle torch_distributed_check"))
        numbers += re.findall(r"Submitted batch job (\d+)", out)
    assert len(numbers) == 3
    for number in numbers:
        state = login.wait(number).state
        log = (login.folder / f"train-{number}.log").read_text()
        assert state == "COMPLETED", log
        if number == numbers[-1]:
            assert "[node2 rank 1] hello node2 1" in log
        else:
            assert "[node1 rank 0] all 2 ranks on 2 nodes can talk" in log


@runs("orchestration/slurm", "sbatch --test-only")
def test_batch_file_is_checked(login: Login) -> None:
    login.run("cp scripts/orchestration/launchers/torchrun.slurm .")
    assert " to start at " in login.run(take("orchestration/slurm", "sbatch --test-only"))


@runs("orchestration/slurm", "srun --output=logs/")
def test_logs_by_node_and_task(login: Login) -> None:
    login.write("train.py", HELLO)
    (login.folder / "logs").mkdir()
    login.allocate(take("orchestration/slurm", "srun --output=logs/"), "--job-name=train")
    logs = {path.name for path in (login.folder / "logs").iterdir()}
    ends = {re.sub(r"^train-\d+-", "", name) for name in logs}
    assert ends == {"node1.log", "node2.log", "0.log", "1.log"}


@runs("orchestration/slurm", "export SQUEUE_FORMAT", "squeue --me --start -o", "squeue --steps")
def test_job_is_looked_at_and_a_step_ended(login: Login) -> None:
    """The step goes, the job goes on."""
    number = login.submit("srun --label sleep 60 || true\necho goes on; sleep 60", "--nodes=2")
    login.cluster.wait_for(
        lambda: f"{number}.0" in login.run(f"squeue --steps --jobs={number}"), "no step"
    )
    look = f"{take('orchestration/slurm', 'export SQUEUE_FORMAT')}\nsqueue --me"
    assert number in login.run(look)
    shown = login.run(take("orchestration/slurm", "squeue --me --start -o", number))
    assert "TimeLimit=" in shown
    login.run(take("orchestration/slurm", "squeue --steps", number).replace(".3", ".0"))
    login.wait_for(number, "goes on")


@runs("orchestration/slurm", "first=$(sbatch")
def test_chain_of_jobs(login: Login) -> None:
    for name in ("train", "evaluate"):
        login.write(f"{name}.slurm", f"#!/bin/bash\necho {name} >> order\n")
    out = login.run(take("orchestration/slurm", "first=$(sbatch"))
    (number,) = re.findall(r"Submitted batch job (\d+)", out)
    assert login.wait(number).state == "COMPLETED"
    assert (login.folder / "order").read_text().split() == ["train", "train", "evaluate"]


@runs("orchestration/slurm", "sbatch --array=1-50%1")
@runs(
    "training/fault-tolerance", "sbatch --array=1-10%1 --dependency", "sbatch --array=1-10%1 train"
)
def test_arrays_wait_for_each_other(tmp_path: Path) -> None:
    """In clusters whose first job has the number that the chapter has."""
    for first, chapter, begins in (
        (1234, "orchestration/slurm", ("sbatch --array=1-50%1",)),
        (
            87,
            "training/fault-tolerance",
            ("sbatch --array=1-10%1 train", "sbatch --array=1-10%1 --dependency"),
        ),
    ):
        folder = tmp_path / str(first)
        folder.mkdir()
        with open_cluster(2, settings=[f"FirstJobId={first}"]) as cluster:
            login = open_login(cluster, folder)
            login.write("train.slurm", "#!/bin/bash\nsleep 60\n")
            for begin in begins:
                login.run(take(chapter, begin))
            cluster.wait_for(
                lambda: any(job.state == "RUNNING" for job in cluster.queue()), "nothing runs"
            )
            states = [job.state for job in cluster.queue()]
            assert states.count("RUNNING") == 1
            if first == 87:
                assert {job.reason for job in cluster.queue()} >= {"Dependency"}
            cluster.ask("scancel", "--me")


@runs("orchestration/slurm", "leave=switches/")
@pytest.mark.torch
def test_batch_shell_tells_the_ranks(login: Login) -> None:
    """The script survives two signals, and ends with the status of its step; the file that it made
    stops neither another job nor the same one after a requeue."""
    code = take("orchestration/slurm", "leave=switches/")
    login.write("train.py", WAITS.replace("break", "raise SystemExit(3)"))
    number = login.submit(code, "--nodes=2", "--ntasks-per-node=1")
    login.wait_for(number, "ready", 2)
    for _ in range(2):
        login.cluster.ask("scancel", "--batch", "--signal=USR1", number)
    ended = login.wait(number)
    assert (ended.state, ended.status) == ("FAILED", "3:0"), ended.log
    assert ended.log.count("saved") >= 1
    number = login.submit(code, "--nodes=2", "--ntasks-per-node=1", "--requeue")
    login.wait_for(number, "ready", 2)
    (login.folder / f"switches/leave-{number}").touch()
    login.cluster.ask("scontrol", "requeuehold", number)
    login.cluster.wait_for(
        lambda: any(job.state == "PENDING" for job in login.cluster.queue()), "not requeued"
    )
    login.write("train.py", WAITS.replace("600", "10"))
    login.cluster.ask("scontrol", "release", number)
    login.wait_for(number, "ready", 2)
    ended = login.wait(number)
    assert (ended.state, ended.status) == ("COMPLETED", "0:0"), ended.log
    assert "saved" not in ended.log.rsplit("ready", 1)[1]


@runs("orchestration/slurm", "salloc --nodes=2")
def test_steps_of_an_allocation(login: Login) -> None:
    """The first line opens the shell in which the second is typed."""
    login.write("train.py", HELLO)
    salloc, step = take("orchestration/slurm", "salloc --nodes=2").split("\n", 1)
    out = login.run(f"{salloc} bash -c '{step}'")
    found = sorted(re.findall(r"hello (node\d) (\d)", out))
    assert found == [("node1", "0"), ("node1", "1"), ("node2", "2"), ("node2", "3")]


@runs("orchestration/slurm", "srun --cpus-per-task=12", "export SRUN_CPUS_PER_TASK=")
def test_cpus_of_a_task(login: Login) -> None:
    """Each task says where it runs; how many CPUs it may use takes a cluster that binds."""
    login.write("train.py", HELLO)
    out = login.allocate(take("orchestration/slurm", "srun --cpus-per-task=12"), "--ntasks=2")
    assert sorted(re.findall(r"(node\d) (\d): \d+ CPUs", out)) == [("node1", "0"), ("node2", "1")]
    code = take("orchestration/slurm", "export SRUN_CPUS_PER_TASK=")
    assert "hello node2" in login.allocate(code, "--ntasks=2", "--cpus-per-task=12")


@runs(
    "orchestration/slurm",
    'scontrol show hostnames "$SLURM_JOB_NODELIST"',
    "python scripts/orchestration/hostfile.py",
)
@runs("orchestration/launchers", "read -r MASTER_ADDR")
def test_nodes_are_listed(login: Login) -> None:
    out = login.allocate(take("orchestration/slurm", 'scontrol show hostnames "$SLURM_JOB_NO'))
    assert "node1\nnode2\ngpu[08-10]\n2\n" in out
    code = take("orchestration/launchers", "read -r MASTER_ADDR")
    out = login.allocate(f'{code}\necho "$MASTER_ADDR:$MASTER_PORT"')
    assert re.search(r"^node1:\d{5}$", out, re.M)
    out = login.allocate(
        take("orchestration/slurm", "python scripts/orchestration/hostfile.py"),
        "--ntasks-per-node=4",
    )
    assert "gpu17 |     8" in out
    assert "node2:4\n" in out


ONE_PER_NODE = r"--nodes(?:=| )\S+ --ntasks(?:=| )\S+"


def test_one_task_per_node_where_eight_run(login: Login) -> None:
    """In a job of eight tasks per node, the steps that look at each node start one there; with
    --ntasks-per-node=1 alone they would start all sixteen."""
    number = login.submit("sleep 100", "--nodes=2", "--ntasks-per-node=8")
    login.cluster.wait_for(
        lambda: [job.state for job in login.cluster.queue()] == ["RUNNING"], "it does not run"
    )
    into = take("orchestration/slurm", "srun --jobid=JOBID --overlap --pty", number).splitlines()
    (line,) = [line for line in into if "df -h /dev/shm" in line]
    assert re.search(ONE_PER_NODE, line)
    assert sorted(re.findall(r"^node\d", login.run(line), re.M)) == ["node1", "node2"]
    code = take("debug/hangs", "py-spy dump --native").replace("4711", number)
    step = code[code.index("srun") :].replace("bash -c '", "bash -c 'hostname; ")
    login.run(f"{step} || true")
    stacks = sorted(login.folder.glob("stacks-*.txt"))
    assert [path.read_text() for path in stacks] == ["node1\n", "node2\n"]
    inside = "srun --nodes=$SLURM_NNODES --ntasks=$SLURM_NNODES hostname"
    assert login.allocate(inside, "--ntasks-per-node=8").count("node1") == 1


@runs("orchestration/slurm", "srun --nodes=")
@pytest.mark.torch
def test_nodes_are_tested(login: Login) -> None:
    """All but gpu_health, which rightly misses eight GPUs per node; node_pairs ends with 1 where a
    busy machine makes a link slow."""
    code = take("orchestration/slurm", "srun --nodes=")
    out = login.allocate(f"set +e\n{code}\ntrue", "--ntasks-per-node=2", "--gpus-per-node=8")
    assert out.count("node1") >= 1
    assert {path.name for path in login.folder.glob("facts-*.json")} == {
        "facts-node1.json",
        "facts-node2.json",
    }
    assert "all 4 ranks on 2 nodes can talk" in out
    assert json.loads((login.folder / "pairs.json").read_text())["results"]


@runs("orchestration/slurm", "mkdir -p ~/cron/cron.daily")
def test_cron_job_waits_and_goes(login: Login) -> None:
    out = login.run(take("orchestration/slurm", "mkdir -p ~/cron/cron.daily"))
    assert "cron_dai" in out
    login.cluster.wait_for(lambda: not login.cluster.queue(), "it stays")


@runs("orchestration/slurm", "srun --ntasks-per-node=8 --cpus-per-task=12 --cpu-bind=none")
def test_ranks_are_bound(login: Login) -> None:
    """By numa_bind and by rank_run, each with the ranks of both nodes."""
    login.write("train.py", HELLO)
    code = take("orchestration/slurm", "srun --ntasks-per-node=8 --cpus-per-task=12 --cpu-bind")
    out = login.allocate(code, "--ntasks-per-node=2", "--cpus-per-task=12")
    assert len(re.findall(r"hello node[12] [0-3]", out)) == 8


@runs("orchestration/slurm", "sbatch --mail-type=")
def test_mail_is_accepted(login: Login) -> None:
    login.write("train.slurm", "#!/bin/bash\nsleep 60\n")
    assert "Submitted batch job" in login.run(take("orchestration/slurm", "sbatch --mail-type="))


@runs("orchestration/slurm", "sinfo -R")
def test_nodes_are_drained_and_resumed(login: Login) -> None:
    try:
        login.run(take("orchestration/slurm", "sinfo -R"))
        assert login.cluster.state("node2").startswith("drain")
        assert login.cluster.state("node1").rstrip("*") == "idle"
    finally:
        login.cluster.ask("scontrol", "update", "NodeName=node2", "State=RESUME")


@runs("orchestration/slurm", "python scripts/training/hang_watchdog.py dump --job JOBID")
def test_stacks_of_a_running_job(login: Login) -> None:
    if not Path(sys.executable).with_name("py-spy").exists():
        pytest.skip("py-spy is missing: pip install py-spy")
    login.write(
        "train.py", "import time\n\n\ndef load_shard():\n    time.sleep(100)\n\n\nload_shard()"
    )
    number = login.submit("srun python train.py", "--nodes=2", "--ntasks-per-node=1")
    login.cluster.wait_for(
        lambda: f"{number}.0" in login.run(f"squeue --steps --jobs={number}"), "no step"
    )
    time.sleep(2)
    begin = "python scripts/training/hang_watchdog.py dump --job JOBID"
    assert "load_shard" in login.run(f"{take('orchestration/slurm', begin, number)} || true")


# --- training, insights, network ---


@runs("training/fault-tolerance", "leave=switches/")
@pytest.mark.torch
def test_warning_saves_through_torchrun(login: Login) -> None:
    """Rehearsed as the chapter says: each rank saves once, at the same step, and the job ends by
    itself with status 0."""
    agree = take("training/fault-tolerance", "SWITCHES = ", language="python")
    login.write("train.py", TRAIN.format(agree=agree))
    code = take("training/fault-tolerance", "leave=switches/")
    number = login.submit(code)
    login.wait_for(number, "ready", 2)
    login.cluster.ask("scancel", "--batch", "--signal=USR1", number)
    ended = login.wait(number)
    assert (ended.state, ended.status) == ("COMPLETED", "0:0"), ended.log
    saved = re.findall(r"rank (\d) saved at step (\d+)", ended.log)
    assert sorted(rank for rank, _ in saved) == ["0", "1"]
    assert len({step for _, step in saved}) == 1


@runs("training/fault-tolerance", "srun --no-kill")
@pytest.mark.torch
def test_training_goes_on_without_a_node(login: Login) -> None:
    """A node dies; the ranks of the other start again without it, and finish."""
    login.write("train.py", ELASTIC)
    number = login.submit(take("training/fault-tolerance", "srun --no-kill"))
    login.wait_for(number, "begins with 2", 2)
    login.cluster.cut("node2")
    try:
        login.wait_for(number, "done with 1", seconds=200)
        assert "begins with 1" in login.read(number)
    finally:
        login.cluster.restore("node2")


@runs("training/fault-tolerance", "end=$(squeue")
def test_deadline_is_the_end_of_the_job(login: Login) -> None:
    code = take("training/fault-tolerance", "end=$(squeue")
    begun = time.time()
    out = login.allocate(f'{code}\necho "deadline $DEADLINE"', "--time=30")
    (deadline,) = re.findall(r"deadline (\d+)", out)
    assert abs(int(deadline) - begun - 1800) < 60


@runs("insights/cloud-provider", "export MASTER_ADDR")
@pytest.mark.torch
def test_acceptance_test_of_a_provider(login: Login) -> None:
    """All-reduce with one node and with both, then all pairs, in an allocation that has a number
    of tasks."""
    code = take("insights/cloud-provider", "export MASTER_ADDR")
    login.allocate(code, "--gpus-per-node=8", "--ntasks-per-node=2", timeout=400)
    for nodes in (1, 2):
        facts = json.loads((login.folder / f"all-{nodes}.json").read_text())
        assert {row["ranks"] for row in facts["results"]} == {2 * nodes}
    assert (login.folder / "pairs.json").exists()


@runs(
    "network/benchmarks",
    "python scripts/network/all_reduce_bench.py --max_size 8GiB --json nodes.json",
    "srun --ntasks-per-node 8 --gpus-per-node 8 --kill-on-bad-exit=0",
    "python scripts/debug/torch_distributed_check.py --timeout 30s",
)
@pytest.mark.torch
def test_network_benchmarks_of_two_nodes(login: Login) -> None:
    code = "\n".join(
        take(chapter, begin) for chapter, begin in RUNS["test_network_benchmarks_of_two_nodes"]
    )
    # node_pairs ends with 1 where a busy machine makes a link slow.
    out = login.allocate(f"set +e\n{code}\ntrue", "--gpus-per-node=8", timeout=400)
    assert "all 4 ranks on 2 nodes can talk" in out
    for name in ("nodes", "pairs"):
        assert (login.folder / f"{name}.json").exists()


@runs("training/reproducibility", "repro=$HOME")
@pytest.mark.torch
@pytest.mark.needs("git")
def test_state_of_a_job_is_recorded(login: Login) -> None:
    """With eight tasks per node, one report from each node."""
    login.run(
        "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one"
    )
    login.write("notes.txt", "not in git")
    code = take("training/reproducibility", "repro=$HOME")
    number = login.submit(f"export API_KEY=secret\n{code}", "--nodes=2", "--ntasks-per-node=8")
    ended = login.wait(number)
    assert (ended.state, ended.status) == ("COMPLETED", "0:0"), ended.log
    folder = login.folder / "repro" / number
    names = {path.name for path in folder.iterdir()}
    files = "job.sh job.txt env.txt requirements.txt machines.txt job.git.txt job.diff".split()
    assert {*files, "job.untracked.tar.gz"} <= names
    assert "secret" not in (folder / "env.txt").read_text()
    machines = (folder / "machines.txt").read_text()
    assert (machines.count("node1"), machines.count("node2")) == (1, 1), machines
