"""rank_run: each rank gets its own variables, CPUs and caches under every launcher, and then the
program is what runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from kit.binding import find_gpus
from slurm_cluster import Cluster
from testing_utils import write_file_tree

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "orchestration/rank_run.py"
PATH = SCRIPTS / TOOL

# Each rank adds 1 to the number of ranks, and says what it saw.
PROGRAM = """
import json, os
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
seen = {"sum": total.item(), "environ": dict(os.environ), "host": os.uname().nodename}
with open(f"{dist.get_rank()}.json", "w") as file:
    json.dump(seen, file)
dist.destroy_process_group()
"""


SLURM = {
    "SLURM_PROCID": "4", "SLURM_LOCALID": "0", "SLURM_NODEID": "1", "SLURM_STEP_ID": "2",
    "SLURM_STEP_NUM_TASKS": "6", "SLURM_STEP_TASKS_PER_NODE": "4,2", "SLURM_JOB_ID": "1234",
    "SLURM_STEP_NODELIST": "node[09-10]", "SLURM_JOB_NODELIST": "node[08-11]",
}  # fmt: skip
BATCH = {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_NTASKS": "4"}
OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2", "PMIX_NAMESPACE": "1060896769",
}  # fmt: skip
PALS = {
    "PALS_RANKID": "13", "PALS_LOCAL_RANKID": "1", "PALS_LOCAL_SIZE": "12", "PALS_NODEID": "1",
    "PALS_APID": "3f2a", "PMI_SIZE": "24", "PMI_RANK": "13",
}  # fmt: skip
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
GIVEN = {"RANK": "1", "WORLD_SIZE": "4", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
TORCHRUN = GIVEN | {"TORCHELASTIC_RUN_ID": "none", "GROUP_RANK": "0"}


@pytest.mark.parametrize(
    ("environ", "launcher", "numbers", "host"),
    [
        # The first node of the step, or of the allocation around mpirun.
        (SLURM | GIVEN, "Slurm", (4, 6, 0, 2, 1), "node09"),
        (SLURM | OPENMPI, "Open MPI", (3, 4, 1, 2, 1), "node08"),
        (PALS, "PALS", (13, 24, 1, 12, 1), None),
        (SLURM | HYDRA, "Hydra", (1, 2, 1, 2, 0), "127.0.0.1"),
        (SLURM | {"PMI_RANK": "4", "PMI_SIZE": "6"}, "Slurm", (4, 6, 0, 2, 1), "node09"),
        (SLURM | TORCHRUN, "torchrun", (1, 4, 1, 2, 0), "node08"),
        (GIVEN, "the environment", (1, 4, 1, 2, 0), None),
        ({}, "no launcher", (0, 1, 0, 1, 0), "127.0.0.1"),
    ],
)
def test_the_innermost_launcher_counts(
    module: ModuleType, environ: dict[str, str], launcher: str, numbers: tuple[int, ...],
    host: str | None,
) -> None:  # fmt: skip
    """Rank, size, local rank, local size and node, and where rank 0 is."""
    place = module.find_place(environ)
    assert (place.launcher, place[:5]) == (launcher, numbers)
    if host is None:
        with pytest.raises(module.UsageError, match="does not say where rank 0 is"):
            module.find_master(place)
    else:
        assert module.find_master(place)[0] == host


def test_masks_of_a_lumi_node(module: ModuleType, tmp_path: Path) -> None:
    """GPU 0 is on NUMA node 3, and jobs do not get the first core of each eight."""
    buses = {0xC1: 3, 0xC6: 3, 0xC9: 1, 0xCE: 1, 0xD1: 0, 0xD6: 0, 0xD9: 2, 0xDE: 2}
    files = {"sys/devices/system/cpu/online": "0-63"}
    for node in range(4):
        cpus = f"{16 * node}-{16 * node + 15}"
        files[f"sys/devices/system/node/node{node}/cpulist"] = cpus
    for number, (bus, node) in enumerate(buses.items(), start=4):
        facts = f"simd_count 440\nvendor_id 4098\nlocation_id {bus << 8}"
        files[f"sys/class/kfd/kfd/topology/nodes/{number}/properties"] = facts
        files[f"sys/bus/pci/devices/0000:{bus:02x}:00.0/numa_node"] = str(node)
    write_file_tree(tmp_path, files)
    allowed = frozenset(cpu for cpu in range(64) if cpu % 8)
    gpus = find_gpus(tmp_path)
    machine = (module.read_topology(tmp_path), gpus, allowed, allowed, 0)
    options = SimpleNamespace(cpus="exclusive")
    plan = module.plan_share(module.Task(0, 8, 0, 8, 0), options, *machine).plan
    masks = "0xfe000000000000,0xfe00000000000000,0xfe0000,0xfe000000,0xfe,0xfe00,0xfe00000000"
    assert (
        ",".join(hex(sum(1 << cpu for cpu in one.cpus)) for one in plan)
        == f"{masks},0xfe0000000000"
    )


def test_what_the_launcher_has_bound_stays(module: ModuleType) -> None:
    """Unless --cpus exclusive binds anyway; without a cgroup, a part of a node stays unbound."""
    from kit.topology import Topology

    cpus = frozenset(range(8))
    machine = Topology({0: cpus}, {cpu: cpu for cpu in cpus})

    def share(ranks: int, own: Any = cpus, mode: str = "auto", granted: int = 0) -> Any:
        found = (machine, (), own, cpus, granted)
        place = module.Task(ranks - 1, ranks, ranks - 1, ranks, 0)
        return module.plan_share(place, SimpleNamespace(cpus=mode), *found)

    assert (share(4).cpus, share(4).threads) == ({6, 7}, 2)
    made = share(1, frozenset({5}))
    assert (made.binding, made.threads, made.source) == (None, 1, "bound by the launcher")
    assert share(1, frozenset({5}), "exclusive").cpus == cpus
    made = share(2, granted=3)
    assert (made.binding, made.threads) == (None, 4)
    assert "Slurm gave this job 3 CPUs" in made.notes[0]


def test_interfaces(module: ModuleType, tmp_path: Path) -> None:
    """Slingshot NICs that are up come first; loopback leads to no other node."""
    for name, state in (("hsn1", "up"), ("hsn0", "up"), ("hsn2", "down")):
        folder = tmp_path / "sys/class/net" / name
        folder.mkdir(parents=True)
        (folder / "operstate").write_text(f"{state}\n")
    found = module.choose_interfaces("127.0.0.1", tmp_path)
    assert found == (["hsn0", "hsn1"], "Slingshot")
    assert module.choose_interfaces("127.0.0.1", tmp_path / "none")[0] == []


ALONE = GIVEN | {"NODE_RANK": "0", "MASTER_ADDR": "127.0.0.1"}


@pytest.mark.parametrize(
    ("options", "program", "output", "status"),
    [
        ((), ("sh", "-c", "echo $RANK $LOCAL_RANK $NODE_RANK; exit 3"), "1 1 0\n", 3),
        ((), ("--", "sh", "-c", 'echo "$@"', "x", "a b", "--cache_root"), "a b --cache_root\n", 0),
        (("--env", "LOG=r{rank}.{local_rank}of{size}"), ("sh", "-c", "echo $LOG"), "r1.1of4\n", 0),
        (("--profile-rank", "0,1-2", "--profiler", "echo 'r {rank}'"), ("a", "b"), "r 1 a b\n", 0),
        (("--profile-rank", "0,2-3", "--profiler", "false"), ("echo", "x"), "x\n", 0),
    ],
)  # fmt: skip
def test_the_program_is_what_runs(
    run_tool: Callable[..., Any], options: tuple[str, ...], program: tuple[str, ...], output: str,
    status: int, tmp_path: Path,
) -> None:  # fmt: skip
    """Its arguments, output and exit status, behind a profiler or not; with a local home folder
    nothing is left in the temporary folder."""
    environ = ALONE | {"HOME": str(tmp_path), "TMPDIR": str(tmp_path)}
    done = run_tool(TOOL, *options, *program, environ=environ)
    assert (done.stdout, done.returncode) == (output, status), done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_is_set_stays_but_not_a_stale_rank(run_tool: Callable[..., Any]) -> None:
    """Variables of the user win, except for ranks."""
    mine = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "5555", "OMP_NUM_THREADS": "3"}
    done = run_tool(TOOL, "--dry-run", environ=SLURM | mine | {"RANK": "0"})
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()]
    found = {name: (value, source) for name, value, source in rows[2:]}
    assert found["RANK"] == ("4", "Slurm")
    assert [found[name] for name in mine] == [(mine[name], "set before") for name in mine]
    assert "RANK was 0, which is not what Slurm says" in done.stderr


def test_caches_are_the_users_own(run_tool: Callable[..., Any], tmp_path: Path) -> None:
    """Folders that only their user may enter."""
    show = 'ls -ld "$TRITON_CACHE_DIR" "$MIOPEN_USER_DB_PATH" "$TORCHINDUCTOR_CACHE_DIR"'
    options = ("--cache-root", str(tmp_path), "--", "sh", "-c", show)
    done = run_tool(TOOL, *options, environ=ALONE)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0].rstrip(".+") for line in done.stdout.splitlines()] == ["drwx------"] * 3


@pytest.mark.parametrize(
    ("variables", "arguments", "message"),
    [
        ({}, (), "name a program to run"),
        ({}, ("--profiler", "x", "true"), "--profile-rank and --profiler go together"),
        (BATCH, ("true",), "the batch script of a job of 4 tasks"),
    ],
)
def test_wrong_use(
    run_tool: Callable[..., Any], variables: dict[str, str], arguments: tuple[str, ...],
    message: str,
) -> None:  # fmt: skip
    """Status 2 and what to do; nothing is started."""
    done = run_tool(TOOL, *arguments, environ=variables)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.torch
def test_ranks_of_two_nodes(cluster: Cluster, tmp_path: Path) -> None:
    """srun with two ranks on one node and one on the other: each has its variables and CPUs, they
    reduce over the network, and one is profiled. A rank that fails gives srun its status."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = ["srun", "--nodes=2", "--ntasks=3", "--distribution=block", "--label", sys.executable]
    options = ["--cpus", "exclusive", "--profile-rank", "2", "--profiler", "env PROFILED={host}"]
    done = cluster.run([*command, str(PATH), *options, "program.py"], folder=tmp_path)
    assert done.returncode == 0, done.stderr
    seen = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(3)]
    hosts = [each["host"] for each in seen]
    for rank, each in enumerate(seen):
        environ = each["environ"]
        assert (each["sum"], environ["RANK"]) == (6, str(rank))
        assert environ["MASTER_ADDR"] == "node1"
        assert int(environ["MASTER_PORT"]) == 20000 + 16 * int(environ["SLURM_JOB_ID"]) % 10000
        assert environ["LOCAL_RANK"] == str(hosts[:rank].count(each["host"]))
        assert environ["LOCAL_WORLD_SIZE"] == str(hosts.count(each["host"]))
        assert environ["NODE_RANK"] == str(int(each["host"] == "node2"))
        assert (environ["GLOO_SOCKET_IFNAME"], environ["NCCL_SOCKET_IFNAME"]) == ("eth0", "=eth0")
        assert environ.get("PROFILED") == (each["host"] if rank == 2 else None)
    assert done.stderr.count("(Slurm): local rank") == 3
    dies = ["sh", "-c", "exit $((RANK == 1 ? 9 : 0))"]
    assert cluster.run([*command, str(PATH), *dies], folder=tmp_path).returncode == 9
