# ruff: noqa: F821
"""Run the multi-node commands of the book on a real Slurm with two nodes.

The cells work as in book_cells.py. `login` is a user of the cluster, see slurm_user.py.

    text("...")         returns the code of a Python block
    block("...", job)   returns that of a bash block, scaled down by SMALLER in test_book_blocks.py,
                        with this job number for JOBID
"""

import json
import re
import time

HELLO = """
import os, socket
print("hello", socket.gethostname(), os.environ["SLURM_PROCID"], len(os.sched_getaffinity(0)))
"""

text = BLOCKS.get


def block(begin, job="JOBID"):
    return BLOCKS[begin].replace("JOBID", job)


# %% orchestration/launchers
# The first job checks the ranks of two nodes, the second one starts a program.
login.write("train.py", HELLO.replace("SLURM_PROCID", "RANK"))
out = login.run(block("bindery bundle torch_distributed_check"))
lines = ("[node1 rank 0] all 2 ranks on 2 nodes can talk", "[node2 rank 1] hello node2 1")
for number, line in zip(re.findall(r"Submitted batch job (\d+)", out), lines, strict=True):
    login.wait(number)
    assert line in (login.folder / f"train-{number}.log").read_text()

# %% orchestration/slurm
# The step goes, the job goes on.
number = login.batch("srun --label sleep 60 || true\necho goes on; sleep 60", "--nodes=2")
steps = f"squeue --steps --jobs={number}"
login.cluster.wait_for(lambda: f"{number}.0" in login.run(steps), "no step")
assert number in login.run(block("export SQUEUE_FORMAT") + "\nsqueue --me")
assert "TimeLimit=" in login.run(block("squeue --me --start -o", number))
login.run(block("squeue --steps", number).replace(".3", ".0"))
login.wait_for(number, "goes on")

# %% orchestration/slurm
for name in ("train", "evaluate"):
    login.write(f"{name}.slurm", f"#!/bin/bash\necho {name} >> order\n")
(number,) = re.findall(r"Submitted batch job (\d+)", login.run(block("first=$(sbatch")))
login.wait_for_success(number)
assert (login.folder / "order").read_text().split() == ["train", "train", "evaluate"]
assert "Submitted batch job" in login.run(block("sbatch --mail-type="))

# %% orchestration/slurm
# One task of an array runs while the others wait.
login.write("train.slurm", "#!/bin/bash\nsleep 60\n")
submit, change = block("sbatch --array=1-50%1").split("\n", 1)
number = login.run(submit).split()[-1]
queue = login.cluster.queue
login.cluster.wait_for(lambda: "RUNNING" in [job.state for job in queue()], "nothing runs")
login.run(change.replace("1234", number))
assert [job.state for job in queue()].count("RUNNING") == 1

# %% orchestration/slurm
# A file that is there before the job starts stops nothing. The script survives two signals, and
# ends with the status of its step.
leave = "os.path.exists(f\"switches/leave-{os.environ['SLURM_JOB_ID']}\")"
waits = f"while not {leave}:\n    time.sleep(0.1)\ntime.sleep(1)\nsys.exit(3)\n"
login.write("train.py", f"import os, sys, time\nprint('ready', flush=True)\n{waits}")
number = login.batch(block("leave=switches/"), "--nodes=2", "--ntasks-per-node=1", "--hold")
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

# %% orchestration/slurm
# The first line opens the shell in which the second is typed.
login.write("train.py", HELLO)
salloc, step = block("salloc --nodes=2").split("\n", 1)
out = login.run(f"{salloc} bash -c '{step}'")
found = sorted(re.findall(r"hello (node\d) (\d)", out))
assert found == [("node1", "0"), ("node1", "1"), ("node2", "2"), ("node2", "3")]

# %% orchestration/slurm
# One log per node, then one per task.
login.write("train.py", HELLO)
(login.folder / "logs").mkdir()
login.allocate(block("srun --output=logs/"), "--job-name=train")
ends = {re.sub(r"^train-\d+-", "", path.name) for path in (login.folder / "logs").iterdir()}
assert ends == {"node1.log", "node2.log", "0.log", "1.log"}

# %% orchestration/slurm
# How many CPUs a task may use is counted where the cluster binds.
login.write("train.py", HELLO)
out = login.allocate(block("srun --cpus-per-task=12"), "--ntasks=2")
assert sorted(re.findall(r"(node\d) (\d): \d+ CPUs", out)) == [("node1", "0"), ("node2", "1")]
out = login.allocate(block("export SRUN_CPUS_PER_TASK="), "--ntasks=2", "--cpus-per-task=12")
assert "hello node2" in out
code = block("srun --ntasks-per-node=8 --cpus-per-task=12 --cpu-bind")
out = login.allocate(code, "--ntasks-per-node=2", "--cpus-per-task=12")
assert len(re.findall(r"hello node[12] [0-3]", out)) == 8

# %% orchestration/slurm
out = login.allocate(block('scontrol show hostnames "$SLURM_JOB_NO'))
assert "node1\nnode2\ngpu[08-10]\n2\n" in out
code = block("python scripts/orchestration/hostfile.py")
out = login.allocate(code, "--ntasks-per-node=4")
assert "gpu17 |     8" in out
assert "node2:4\n" in out

# %% orchestration/slurm
# In a job of eight tasks per node, a step that looks at each node starts one there.
number = login.batch("echo ready; sleep 100", "--nodes=2", "--ntasks-per-node=8")
login.wait_for(number, "ready")
lines = block("srun --jobid=JOBID --overlap --pty", number).splitlines()
(line,) = [line for line in lines if "df -h /dev/shm" in line]
assert sorted(re.findall(r"^node\d", login.run(line), re.M)) == ["node1", "node2"]

# %% orchestration/slurm
# All but gpu_health, which rightly misses eight GPUs per node; node_pairs ends with 1 where a busy
# machine makes a link slow.
code = block("srun --nodes=")
out = login.allocate(f"set +e\n{code}\ntrue", "--ntasks-per-node=2", "--gpus-per-node=8")
assert "node1" in out
assert len([*login.folder.glob("facts-node[12].json")]) == 2
assert "all 4 ranks on 2 nodes can talk" in out
assert json.loads((login.folder / "pairs.json").read_text())["results"]

# %% training/fault-tolerance
# Rehearsed as the chapter says: each rank saves once, at the same step, and the job ends by itself
# with status 0.
login.write(
    "train.py",
    text("SWITCHES = ")
    + """
dist.init_process_group("gloo")
print("ready", flush=True)
for step in range(2000):
    time.sleep(0.1)
    if agree("cpu"):
        print("rank", dist.get_rank(), "saved at step", step, flush=True)
        break
dist.destroy_process_group()
""",
)
number = login.batch(block("leave=switches/"))
login.wait_for(number, "ready", 2)
login.ask("scancel", "--batch", "--signal=USR1", number)
saved = re.findall(r"rank (\d) saved at step (\d+)", login.wait_for_success(number))
assert sorted(rank for rank, _ in saved) == ["0", "1"]
assert len({step for _, step in saved}) == 1

# %% training/fault-tolerance
# A node dies. The training starts again at its last step, with the ranks of the other node alone.
login.write(
    "train.py",
    """
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
""",
)
number = login.batch(block("srun --no-kill"))
login.wait_for(number, "begins with 2", 2)
login.cluster.cut("node2")
try:
    login.wait_for(number, "done with 1", seconds=200)
finally:
    login.cluster.restore("node2")

# %% training/fault-tolerance
begun = time.time()
code = block("end=$(squeue")
out = login.allocate(f'{code}\necho "deadline $DEADLINE"', "--time=30")
(deadline,) = re.findall(r"deadline (\d+)", out)
assert abs(int(deadline) - begun - 1800) < 60

# %% insights/cloud-provider
# All-reduce with one node and with both, then all pairs, in an allocation with a number of tasks.
# node_pairs ends with 1 where a busy machine makes a link slow.
code = block("export MASTER_ADDR") + " || true"
login.allocate(code, "--gpus-per-node=8", "--ntasks-per-node=2")
for nodes in (1, 2):
    facts = json.loads((login.folder / f"all-{nodes}.json").read_text())
    assert {row["ranks"] for row in facts["results"]} == {2 * nodes}
assert (login.folder / "pairs.json").exists()

# %% training/reproducibility git
# With eight tasks per node, one report from each node.
identity = "-c user.name=a -c user.email=a@b"
login.run(f"git init -q . && git {identity} commit -q --allow-empty -m one")
login.write("notes.txt", "not in git")
code = "export API_KEY=secret\n" + block("repro=$HOME")
number = login.batch(code, "--nodes=2", "--ntasks-per-node=8")
login.wait_for_success(number)
folder = login.folder / "repro" / number
files = "job.sh job.txt env.txt requirements.txt machines.txt job.git.txt job.diff".split()
assert {*files, "job.untracked.tar.gz"} <= {path.name for path in folder.iterdir()}
assert "secret" not in (folder / "env.txt").read_text()
machines = (folder / "machines.txt").read_text()
assert (machines.count("node1"), machines.count("node2")) == (1, 1), machines
