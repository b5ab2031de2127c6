"""rank_run: each rank gets variables, CPUs and caches of its own, under every launcher, and the
program is what runs in the end."""

from __future__ import annotations

import ctypes
import ctypes.util
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slurm_cluster import Cluster, open_cluster

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "orchestration/rank_run.py"
PATH = SCRIPTS / TOOL

# What each rank of a test tells: its variables and CPUs, and the sum of 1 to the number of ranks.
PROGRAM = """
import json, os, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
seen = {"sum": total.item(), "environ": dict(os.environ), "host": os.uname().nodename}
seen |= {"cpus": sorted(os.sched_getaffinity(0)), "arguments": sys.argv[2:]}
with open(f"{sys.argv[1]}/{dist.get_rank()}.json", "w") as file:
    json.dump(seen, file)
dist.destroy_process_group()
"""


@pytest.fixture(scope="module")
def rank_run(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    """The tool as a module."""
    return load_tool(TOOL)


@pytest.fixture
def bare() -> dict[str, str]:
    """An environment without a launcher, and without what this tool sets."""
    words = ("SLURM", "OMPI_", "PMI", "PALS_", "RANK", "WORLD", "MASTER", "TORCH", "CACHE")
    kept = {n: v for n, v in os.environ.items() if not any(word in n for word in words)}
    return kept | {"PYTHONWARNINGS": "ignore"}


SLURM = {
    "SLURM_PROCID": "4",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "1",
    "SLURM_STEP_ID": "2",
    "SLURM_NTASKS": "6",
    "SLURM_STEP_NUM_TASKS": "6",
    "SLURM_STEP_TASKS_PER_NODE": "4,2",
    "SLURM_TASKS_PER_NODE": "8(x4)",
    "SLURM_STEP_NODELIST": "node[09-10]",
    "SLURM_JOB_NODELIST": "node[08-11]",
    "SLURM_JOB_ID": "1234",
}
OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
    "PMIX_NAMESPACE": "1060896769",
}
PALS = {
    "PALS_RANKID": "13",
    "PALS_LOCAL_RANKID": "1",
    "PALS_LOCAL_SIZE": "12",
    "PALS_NODEID": "1",
    "PALS_APID": "3f2a",
    "PMI_SIZE": "24",
    "PMI_RANK": "13",
}
HYDRA = {"PMI_RANK": "1", "PMI_SIZE": "2", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "2"}
TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "RANK": "5",
    "WORLD_SIZE": "8",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "4",
    "GROUP_RANK": "1",
}


@pytest.mark.parametrize(
    ("environ", "launcher", "numbers"),
    [
        (SLURM, "Slurm", (4, 6, 0, 2, 1)),
        (SLURM | {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}, "Slurm", (4, 6, 0, 2, 1)),
        (OPENMPI, "Open MPI", (3, 4, 1, 2, 1)),
        (SLURM | OPENMPI, "Open MPI", (3, 4, 1, 2, 1)),
        (PALS, "PALS", (13, 24, 1, 12, 1)),
        (HYDRA, "Hydra", (1, 2, 1, 2, 0)),
        (SLURM | HYDRA, "Hydra", (1, 2, 1, 2, 0)),
        (SLURM | {"PMI_RANK": "4", "PMI_SIZE": "6"}, "Slurm", (4, 6, 0, 2, 1)),
        (TORCHRUN, "torchrun", (5, 8, 1, 4, 1)),
        (SLURM | TORCHRUN, "torchrun", (5, 8, 1, 4, 1)),
        (
            {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"},
            "the environment",
            (1, 2, 1, 2, None),
        ),
        ({}, "nobody", (0, 1, 0, 1, 0)),
    ],
)
def test_ranks_of_each_launcher(
    rank_run: ModuleType, environ: dict[str, str], launcher: str, numbers: tuple[Any, ...]
) -> None:
    """Rank, size, local rank, local size and node are those of the launcher nearest to the rank."""
    place = rank_run.find_rank_place(environ, "auto", None)
    assert place.launcher == launcher
    assert (place.rank, place.size, place.local_rank, place.local_size, place.node) == numbers


def test_slurms_step_counts_and_not_its_job(rank_run: ModuleType) -> None:
    """A step on the second and third node of a job has its rank 0 on the second."""
    place = rank_run.find_rank_place(SLURM, "auto", None)
    assert rank_run.choose_address(place, None) == ("node09", "first node")
    assert rank_run.choose_address(place, "other") == ("other", "--master_addr")
    assert rank_run.choose_port("1234", 2) == 20000 + (16 * 1234 + 2) % 10000 == 29746


def test_hosts_of_mpi_come_from_the_allocation(rank_run: ModuleType, tmp_path: Path) -> None:
    """mpirun over several nodes: the first host of Slurm or of PBS, or a line that asks for it."""
    nodes = tmp_path / "nodes"
    nodes.write_text("x1\nx1\nx2\n")
    for environ, host in (
        (OPENMPI | {"SLURM_JOB_NODELIST": "n[7-8]"}, "n7"),
        (PALS | {"PBS_NODEFILE": str(nodes)}, "x1"),
    ):
        place = rank_run.find_rank_place(environ, "auto", None)
        assert rank_run.choose_address(place, None)[0] == host
    place = rank_run.find_rank_place(OPENMPI, "auto", None)
    with pytest.raises(rank_run.WrongUse, match="give --master_addr, or set MASTER_ADDR"):
        rank_run.choose_address(place, None)
    alone = OPENMPI | {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "1"}
    place = rank_run.find_rank_place(alone, "auto", None)
    assert rank_run.choose_address(place, None) == ("127.0.0.1", "one node")


@given(
    job=st.integers(1, 10**8), other=st.integers(1, 624), steps=st.tuples(*[st.integers(0, 15)] * 2)
)
def test_ports_meet_nobody(
    rank_run: ModuleType, job: int, other: int, steps: tuple[int, int]
) -> None:
    """Below the ports that the kernel gives out, and another one for each of 625 jobs in a row and
    16 steps of a job."""
    port = rank_run.choose_port(str(job), steps[0])
    assert 20000 <= port < 30000
    assert port != rank_run.choose_port(str(job + other), steps[1])
    assert (port == rank_run.choose_port(str(job), steps[1])) == (steps[0] == steps[1])
    assert 20000 <= rank_run.choose_port(f"pbs-{job}", 0) < 30000


def plan(rank_run: ModuleType, ranks: int, mode: str = "auto", **more: Any) -> list[Any]:
    """The share of each local rank of a made-up machine: two sockets of four cores, four GPUs."""
    topology, devices = rank_run.make_square_machine()
    own, widest = more.get("own", topology.cpus), more.get("widest", topology.cpus)
    visible = devices[: more.get("visible", 4)]
    places = [rank_run.make_place("x", (r, ranks, r, ranks), 0) for r in range(ranks)]
    return [rank_run.plan_share(place, mode, topology, visible, own, widest) for place in places]


def test_shares_by_hand(rank_run: ModuleType) -> None:
    """Four ranks get two cores each beside their GPU, and as many threads."""
    shares = plan(rank_run, 4)
    lists = [rank_run.format_cpu_list(share.cpus) for share in shares]
    assert lists == ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"]
    assert [share.threads for share in shares] == [2] * 4
    masks = [rank_run.format_mask(binding.cpus) for binding in shares[0].plan]
    assert masks == ["0x303", "0xc0c", "0x3030", "0xc0c0"]
    shared = plan(rank_run, 4, "node")
    assert [rank_run.format_cpu_list(share.cpus) for share in shared[::2]] == [
        "0-3,8-11",
        "4-7,12-15",
    ]


def test_what_the_launcher_bound_stays(rank_run: ModuleType) -> None:
    """Under auto a rank that has fewer CPUs than it could have keeps them; exclusive binds anew."""
    one = frozenset({5})
    (share,) = plan(rank_run, 1, own=one)
    assert (share.binding, share.cpus, share.threads) == (None, one, 1)
    assert share.source == "bound by the launcher"
    (share,) = plan(rank_run, 1, "exclusive", own=one)
    assert share.cpus == frozenset({*range(4), *range(8, 12)})


def test_odd_numbers_of_devices(rank_run: ModuleType) -> None:
    """One visible device is another one for each rank, and fewer than ranks are none of theirs."""
    shares = plan(rank_run, 4, visible=1)
    assert all("each rank sees one device" in share.remarks[0] for share in shares)
    assert all(rank_run.format_cpu_list(share.cpus) == "0-3,8-11" for share in shares)
    shares = plan(rank_run, 4, visible=3)
    assert all("3 devices are visible to 4 ranks" in share.remarks[0] for share in shares)
    assert frozenset().union(*(share.cpus for share in shares)) == frozenset(range(16))


@given(ranks=st.integers(1, 12), allowed=st.sets(st.integers(0, 15), min_size=1))
def test_shares_are_apart_and_within_what_is_allowed(
    rank_run: ModuleType, ranks: int, allowed: set[int]
) -> None:
    """Whatever a cgroup leaves, no share is empty or leaves it, and shares are apart unless there
    are fewer cores than ranks."""
    cpus = frozenset(allowed)
    shares = plan(rank_run, ranks, own=cpus, widest=cpus, visible=0)
    assert all(share.cpus and share.cpus <= cpus for share in shares)
    verdicts = {binding.verdict for binding in shares[0].plan}
    if verdicts == {"ok"}:
        assert sum(len(share.cpus) for share in shares) == len(
            frozenset().union(*(share.cpus for share in shares))
        )


def test_without_a_topology_nothing_is_bound(rank_run: ModuleType, tmp_path: Path) -> None:
    """Where /sys tells of no CPU each rank keeps those that it has, and that is told."""
    topology = rank_run.read_topology(tmp_path)
    place = rank_run.make_place("none", (1, 2, 1, 2), 0)
    own = frozenset({0, 3})
    share = rank_run.plan_share(place, "exclusive", topology, [], own, own)
    assert (share.binding, share.cpus, share.threads) == (None, own, 1)
    assert share.remarks == ("its CPUs were left as they are: unknown",)


def write_hwloc_xml(synthetic: str, path: Path) -> None:
    """What hwloc itself writes of a machine that is described in its own notation."""
    name = ctypes.util.find_library("hwloc")
    if name is None:
        pytest.skip("libhwloc is missing: apt install libhwloc15")
    hwloc = ctypes.CDLL(name)
    topology = ctypes.c_void_p()
    hwloc.hwloc_topology_init(ctypes.byref(topology))
    assert hwloc.hwloc_topology_set_synthetic(topology, synthetic.encode()) == 0
    hwloc.hwloc_topology_load(topology)
    hwloc.hwloc_topology_export_xml(topology, str(path).encode(), ctypes.c_ulong(0))
    hwloc.hwloc_topology_destroy(topology)


@pytest.mark.parametrize(
    ("synthetic", "ranks", "lists"),
    [
        ("pack:2 [numa] core:4 pu:2", 4, ["0-3", "4-7", "8-11", "12-15"]),
        # Hyper-threads numbered after all cores, as most machines have them.
        ("pack:2 [numa] core:4 pu:2(indexes=pack:core)", 2, None),
        ("pack:1 [numa] core:6 pu:1", 2, ["0-2", "3-5"]),
        ("pack:2 numa:4 core:20 pu:1", 8, [f"{20 * n}-{20 * n + 19}" for n in range(8)]),
    ],
)
def test_machines_of_hwloc(
    call_tool: Callable[..., Any],
    rank_run: ModuleType,
    tmp_path: Path,
    synthetic: str,
    ranks: int,
    lists: list[str] | None,
) -> None:
    """The topology of a file of hwloc is planned as that of a machine: nodes, cores, threads."""
    path = tmp_path / "machine.xml"
    if lists is None:
        synthetic, lists = "pack:2 [numa] core:4 pu:2(indexes=2*8:1*2)", None
    write_hwloc_xml(synthetic, path)
    topology, devices = rank_run.read_hwloc(path)
    assert devices == []
    done = call_tool(TOOL, "--dry-run", "--ranks", str(ranks), "--topology", str(path))
    assert done.returncode == 0, done.stderr
    place = rank_run.make_place("x", (0, ranks, 0, ranks), 0)
    share = rank_run.plan_share_of(path, place, "auto")
    found = [binding.cpus for binding in share.plan]
    if lists is not None:
        assert [rank_run.format_cpu_list(cpus) for cpus in found] == lists
    masks = ",".join(map(rank_run.format_mask, found))
    assert masks in done.stdout
    for cpus in found:  # whole cores
        assert {topology.core_of[cpu] for cpu in cpus} == {
            topology.core_of[cpu] for cpu in topology.cpus if topology.core_of[cpu] in
            {topology.core_of[each] for each in cpus}
        }  # fmt: skip
    assert sum(map(len, found)) == len(topology.cpus)


def test_gpus_of_hwloc(rank_run: ModuleType, tmp_path: Path) -> None:
    """GPUs stand below the node that they are attached to, in the order of their addresses; other
    cards are none."""
    cores = "".join(
        f'<object type="Core" os_index="{n}" cpuset="0x{1 << n:08x}">'
        f'<object type="PU" os_index="{n}" cpuset="0x{1 << n:08x}"/></object>'
        for n in range(4)
    )
    halves = [cores[: len(cores) // 2], cores[len(cores) // 2 :]]
    cards = [
        ("0000:c1:00.0", "0380 [1002:740c] [1002:0b0c] 01"),
        ("0000:41:00.0", "0302 [10de:2330] [10de:16c1] a1"),
        ("0000:42:00.0", "0200 [15b3:1021] [15b3:0023] 00"),
    ]
    packages = ""
    for n, half in enumerate(halves):
        cpuset = f"0x{3 << 2 * n:08x}"
        chosen = cards[:1] if n == 0 else cards[1:]
        devices = "".join(
            f'<object type="Bridge"><object type="PCIDev" pci_busid="{bus}" pci_type="{kind}"/>'
            "</object>"
            for bus, kind in chosen
        )
        packages += (
            f'<object type="Package" os_index="{n}" cpuset="{cpuset}"><object type="NUMANode" '
            f'os_index="{n}" cpuset="{cpuset}" local_memory="1024"/>{half}{devices}</object>'
        )
    path = tmp_path / "gpus.xml"
    path.write_text(
        f'<topology version="2.0"><object type="Machine" cpuset="0x0000000f">{packages}</object>'
        "</topology>"
    )
    topology, devices = rank_run.read_hwloc(path)
    assert [(node.number, node.cpus) for node in topology.nodes] == [
        (0, frozenset({0, 1})),
        (1, frozenset({2, 3})),
    ]
    assert [(d.vendor, d.address, d.node) for d in devices] == [
        ("nvidia", "0000:41:00.0", 1),
        ("amd", "0000:c1:00.0", 0),
    ]
    assert rank_run.read_hwloc_set("0x00000001,0x80000000") == {31, 32}


@pytest.mark.needs("/sys/class/net")
def test_interfaces(rank_run: ModuleType, tmp_path: Path) -> None:
    """Slingshot's cards come before the way to rank 0; loopback is no way to another node."""
    for name, state in (("hsn1", "up"), ("hsn0", "up"), ("hsn10", "up"), ("hsn2", "down")):
        folder = tmp_path / "class" / "net" / name
        folder.mkdir(parents=True)
        (folder / "operstate").write_text(f"{state}\n")
    found, source, _ = rank_run.choose_interfaces("auto", "127.0.0.1", 29500, True, tmp_path)
    assert found == {"NCCL_SOCKET_IFNAME": "=hsn0,hsn1,hsn10", "GLOO_SOCKET_IFNAME": "hsn0"}
    assert source == "Slingshot"
    assert rank_run.find_way_to("127.0.0.1", 29500) == "lo"
    assert rank_run.choose_interfaces("auto", "127.0.0.1", 29500, False)[0] == {}
    _, _, remarks = rank_run.choose_interfaces("auto", "127.0.0.1", 29500, True)
    assert "loopback, which other nodes cannot reach" in remarks[0]
    with pytest.raises(rank_run.WrongUse, match="there is no card none0 here; there are"):
        rank_run.choose_interfaces("lo,none0", "127.0.0.1", 29500, True)


def run_rank(
    environ: dict[str, str], *arguments: str, folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """The tool as a launcher starts it."""
    return subprocess.run(
        [sys.executable, str(PATH), *arguments],
        env=environ,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


GIVEN = {
    "RANK": "1",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "LOCAL_WORLD_SIZE": "2",
    "NODE_RANK": "0",
    "MASTER_ADDR": "127.0.0.1",
}


@pytest.mark.parametrize(
    ("options", "program", "output", "status"),
    [
        ((), ("sh", "-c", "echo $RANK $LOCAL_RANK $NODE_RANK; exit 3"), "1 1 0\n", 3),
        ((), ("--", "sh", "-c", 'echo "$@"', "x", "a b", "--quiet", "--"), "a b --quiet --\n", 0),
        (("--env", "LOG=r{rank}.{local_rank}of{size}"), ("sh", "-c", "echo $LOG"), "r1.1of4\n", 0),
        (("--profile-rank", "0,1-2", "--profiler", "echo 'r {rank}'"), ("a", "b"), "r 1 a b\n", 0),
        (("--profile-rank", "0,2-3", "--profiler", "false"), ("echo", "x"), "x\n", 0),
        (("--master_addr", "h"), ("sh", "-c", "echo $MASTER_ADDR"), "h\n", 0),
        (("--master_port", "4000"), ("sh", "-c", "echo $MASTER_PORT"), "4000\n", 0),
    ],
)  # fmt: skip
def test_the_program_is_what_runs(
    bare: dict[str, str],
    options: tuple[str, ...],
    program: tuple[str, ...],
    output: str,
    status: int,
) -> None:
    """Its arguments, output and exit status are the program's own, behind a profiler or not."""
    done = run_rank(bare | GIVEN, "--cache_root", "keep", *options, *program)
    assert (done.stdout, done.returncode) == (output, status), done.stderr


def test_signals_reach_the_program(bare: dict[str, str]) -> None:
    """A signal to the rank is one to the program, because they are the same process."""
    code = "import signal, sys; signal.signal(15, lambda *_: sys.exit(42)); print(1, flush=True)"
    code += "; signal.pause()"
    process = subprocess.Popen(
        [sys.executable, str(PATH), "--cache_root", "keep", "--", sys.executable, "-c", code],
        env=bare,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 42


def test_no_signal_is_ignored_for_the_program(bare: dict[str, str]) -> None:
    """The program ignores what it would without the tool, a closed pipe say: nothing."""
    command = ["grep", "^SigIgn", "/proc/self/status"]
    alone = subprocess.run(command, env=bare, capture_output=True, text=True, check=True)
    assert run_rank(bare, "--cache_root", "keep", *command).stdout == alone.stdout


def test_what_is_set_stays_and_what_is_stale_does_not(bare: dict[str, str]) -> None:
    """Variables of the user win, but for ranks, which the launcher knows better."""
    mine = {"MASTER_PORT": "5555", "OMP_NUM_THREADS": "3", "TRITON_CACHE_DIR": "/mine"}
    mine |= {"NCCL_SOCKET_IFNAME": "ib0", "GLOO_SOCKET_IFNAME": "ib0", "RANK": "0"}
    done = run_rank(bare | SLURM | mine | {"MASTER_ADDR": "127.0.0.1"}, "--dry-run")
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in done.stdout.splitlines()]
    found = {name: (value, source) for name, value, source in rows[2:]}
    assert found["RANK"] == ("4", "Slurm")
    for name in mine.keys() - {"RANK"}:
        assert found[name] == (mine[name], "set before")
    assert "RANK was 0, which is not what Slurm says" in done.stderr


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="there is one CPU to bind to")
@pytest.mark.needs("taskset", "/sys/devices/system/cpu")
def test_a_binding_that_was_there_is_seen(bare: dict[str, str]) -> None:
    """What taskset bound is kept under auto and told; exclusive takes what there is instead."""
    own = str(min(os.sched_getaffinity(0)))
    code = "import os; print(*sorted(os.sched_getaffinity(0)))"
    wide = sorted(os.sched_getaffinity(0))
    for options, cpus in ((), [int(own)]), (("--cpus", "exclusive"), wide):
        command = ["taskset", "--cpu-list", own, sys.executable, str(PATH), *options]
        done = subprocess.run(
            [*command, "--cache_root", "keep", "--", sys.executable, "-c", code],
            env=bare,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        assert [int(word) for word in done.stdout.split()] == cpus
        assert ("(bound by the launcher)" in done.stderr) == (not options)


def test_caches_are_made_and_are_ones_own(
    bare: dict[str, str], rank_run: ModuleType, tmp_path: Path
) -> None:
    """Folders on this node that only their user may enter, told of; what somebody put there
    instead is not used."""
    show = 'ls -ld "$TRITON_CACHE_DIR" "$MIOPEN_USER_DB_PATH" "$TORCHINDUCTOR_CACHE_DIR"'
    environ = bare | GIVEN | {"LOCAL_RANK": "0", "RANK": "2", "TMPDIR": str(tmp_path)}
    done = run_rank(environ, "--", "sh", "-c", show)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0].rstrip(".+") for line in done.stdout.splitlines()] == ["drwx------"] * 3
    own = tmp_path / f"rank_run-{os.geteuid()}"
    assert {path.name for path in own.iterdir()} == {"miopen", "triton", "inductor"}
    assert f"caches of this node (miopen, triton, inductor) are in {own}" in done.stderr
    other = tmp_path / "other"
    other.mkdir()
    (other / own.name).symlink_to(tmp_path)
    done = run_rank(environ, "--cache_root", str(other), "true")
    assert done.returncode == 2
    assert "is not a folder of this user: give --cache_root" in done.stderr


def test_json_names_no_host_and_no_folder(
    bare: dict[str, str], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """The JSON of a dry run has neither addresses nor paths."""
    out = tmp_path / "out.json"
    environ = bare | SLURM | {"SLURM_PROCID": "0", "SLURM_NODEID": "0"}
    arguments = (
        "--dry-run",
        "--cache_root",
        str(tmp_path),
        "--json",
        str(out),
        "/opt/x/train",
        "/d",
    )
    done = run_rank(environ, *arguments)
    assert done.returncode == 0, done.stderr
    text = out.read_text()
    assert "node09" not in text
    assert str(tmp_path) not in text
    assert "/opt" not in text
    values = {row["name"]: row["value"] for row in read_json(out)["results"]}
    assert (values["MASTER_ADDR"], values["command"]) == ("HOST", "train d")
    assert list(tmp_path.iterdir()) == [out], "a dry run makes nothing"


@pytest.mark.parametrize(
    "text",
    [
        "<topology>" * 2000 + "</topology>" * 2000,
        "<topology><object type='PU' os_index='-1'/></topology>",
        "<topology><object type='PU' os_index='99999999999'/></topology>",
        "<topology><object type='PU' os_index='x'/></topology>",
        "<?xml version='1.0' encoding='none'?><topology/>",
        "<topology/>",
        "",
    ],
)
def test_what_is_no_topology_is_told(bare: dict[str, str], tmp_path: Path, text: str) -> None:
    """A file that is no machine's ends with status 2 and its name."""
    path = tmp_path / "machine.xml"
    path.write_text(text)
    done = run_rank(bare, "--dry-run", "--ranks", "2", "--topology", str(path))
    assert done.returncode == 2
    assert f"--topology: {path} " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("variables", "arguments", "message"),
    [
        ({}, (), "name a program to start"),
        ({}, ("no-such-program",), "could not start no-such-program"),
        ({}, ("--profiler", "x", "true"), "--profile-rank and --profiler go together"),
        ({}, ("--profiler", "'", "--profile-rank", "1", "true"), "no closing quotation"),
        ({}, ("--profile-rank", "3-1", "--profiler", "x", "true"), "it runs backwards"),
        ({}, ("--env", "1X=2", "true"), "write NAME=VALUE"),
        ({}, ("--launcher", "pals", "true"), "--launcher pals: its variables are not here"),
        ({}, ("--topology", "x", "--dry-run"), "say with --ranks how many run there"),
        ({}, ("--topology", "x", "--dry-run", "--ranks", "2"), "--topology: x cannot be read"),
        ({}, ("--json", "x", "true"), "--json is for --dry-run"),
        ({}, ("--cache_root", "/no/where", "true"), "there is no folder /no/where"),
        ({}, ("--interfaces", "none0", "true"), "there is no card none0 here"),
        ({"MASTER_PORT": "x"}, ("true",), "MASTER_PORT is 'x', which is no port"),
        ({"MASTER_PORT": "70000"}, ("true",), "MASTER_PORT is '70000', which is no port"),
        (OPENMPI, ("true",), "does not say where rank 0 is"),
        (GIVEN | {"RANK": "4"}, ("true",), "rank 4 of 4, on its node 1 of 2: that cannot be"),
        (
            {"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "SLURM_NODEID": "0", "SLURM_NTASKS": "4"},
            ("true",),
            "this is the batch file of a job of 4 tasks",
        ),
        (SLURM | {"SLURM_STEP_NODELIST": "n[1-"}, ("true",), "is no list of hosts"),
    ],
)
def test_wrong_use_is_told(
    bare: dict[str, str],
    tmp_path: Path,
    variables: dict[str, str],
    arguments: tuple[str, ...],
    message: str,
) -> None:
    """What cannot be done ends with status 2 and one line on what to do, and starts nothing."""
    environ = bare | variables | {"TMPDIR": str(tmp_path)}
    done = run_rank(environ, *arguments, folder=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def read_ranks(folder: Path) -> list[dict[str, Any]]:
    """What the ranks told, in their order."""
    files = sorted(folder.glob("*.json"), key=lambda path: int(path.stem))
    return [json.loads(path.read_text()) for path in files]


@pytest.fixture
def program(tmp_path: Path) -> tuple[Path, Path]:
    """The program of the ranks, and a folder for what they tell."""
    path, folder = tmp_path / "program.py", tmp_path / "told"
    path.write_text(PROGRAM)
    folder.mkdir()
    return path, folder


def check_ranks(told: list[dict[str, Any]], size: int) -> None:
    """Each rank was there once, and their sum is right."""
    assert [int(each["environ"]["RANK"]) for each in told] == list(range(size))
    assert all(each["sum"] == size * (size + 1) / 2 for each in told)
    assert {each["environ"]["WORLD_SIZE"] for each in told} == {str(size)}
    assert len({each["environ"]["MASTER_PORT"] for each in told}) == 1


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.needs("mpirun")
def test_ranks_of_open_mpi_meet(bare: dict[str, str], program: tuple[Path, Path]) -> None:
    """mpirun starts two ranks through the tool: they reduce, and have a core each."""
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", "--bind-to", "none"]
    command += [sys.executable, str(PATH), "--cache_root", "keep", "--cpus", "exclusive"]
    done = subprocess.run(
        [*command, str(program[0]), str(program[1]), "--lr", "1"],
        env=bare,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = read_ranks(program[1])
    check_ranks(told, 2)
    assert [each["environ"]["LOCAL_RANK"] for each in told] == ["0", "1"]
    assert all(each["arguments"] == ["--lr", "1"] for each in told)
    if len(os.sched_getaffinity(0)) >= 2:
        assert not set(told[0]["cpus"]) & set(told[1]["cpus"])


@pytest.mark.nightly
@pytest.mark.torch
def test_ranks_of_torchrun_meet(bare: dict[str, str], program: tuple[Path, Path]) -> None:
    """torchrun --no-python starts two ranks through the tool; its address and port stay."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python"]
    command += ["--nproc-per-node", "2", sys.executable, str(PATH), "--cache_root", "keep"]
    done = subprocess.run(
        [*command, str(program[0]), str(program[1])],
        env=bare | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = read_ranks(program[1])
    check_ranks(told, 2)
    assert done.stderr.count("(torchrun): local rank") == 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Two nodes."""
    with open_cluster(2) as opened:
        yield opened


def run_job(cluster: Cluster, script: Path, *options: str) -> str:
    """Submit a batch file and wait for its end: the state of the job. `sbatch --wait` looks after
    2 s, 12 s and ever later."""
    command = ["sbatch", "--parsable", f"--output={script.parent}/log", *options, str(script)]
    job = cluster.ask(*command).strip().partition(";")[0]

    def is_over() -> bool:
        return all(each.number.partition("+")[0] != job for each in cluster.queue())

    cluster.wait_for(is_over, "the job does not end", 90)
    return next(each.state for each in cluster.jobs() if each.number.partition("+")[0] == job)


@pytest.mark.nightly
@pytest.mark.torch
def test_ranks_of_two_nodes_meet(
    cluster: Cluster, bare: dict[str, str], program: tuple[Path, Path], tmp_path: Path
) -> None:
    """srun over two nodes, two ranks on one and one on the other: each rank has its variables,
    CPUs and caches, they reduce over the network, and one is profiled."""
    script = tmp_path / "job.sh"
    tool = f"{sys.executable} {PATH} --cache_root {tmp_path} --cpus exclusive"
    profiler = "--profile-rank 2 --profiler 'env PROFILED={rank}.{host}'"
    script.write_text(
        "#!/bin/bash\nexport RANK=$SLURM_PROCID\n"  # the usual mistake
        f"srun --label --kill-on-bad-exit=1 {tool} {profiler} "
        f"--env NCCL_DEBUG_FILE=/tmp/nccl.{{rank}} {program[0]} {program[1]}\n"
    )
    state = run_job(cluster, script, "--nodes=2", "--ntasks=3", "--distribution=block")
    log = (tmp_path / "log").read_text()
    assert state == "COMPLETED", log
    told = read_ranks(program[1])
    check_ranks(told, 3)
    (job,) = {each["environ"]["SLURM_JOB_ID"] for each in told}
    hosts = [each["host"] for each in told]
    assert sorted(set(hosts)) == ["node1", "node2"]
    for rank, each in enumerate(told):
        seen = each["environ"]
        assert seen["MASTER_ADDR"] == "node1"
        assert seen["MASTER_PORT"] == str(20000 + 16 * int(job) % 10000)
        assert seen["LOCAL_RANK"] == str(hosts[:rank].count(each["host"]))
        assert seen["LOCAL_WORLD_SIZE"] == str(hosts.count(each["host"]))
        assert seen["NODE_RANK"] == str(int(each["host"] == "node2"))
        assert (seen["GLOO_SOCKET_IFNAME"], seen["NCCL_SOCKET_IFNAME"]) == ("eth0", "=eth0")
        assert seen["NCCL_DEBUG_FILE"] == f"/tmp/nccl.{rank}"
        assert Path(seen["TRITON_CACHE_DIR"]).is_dir()
        assert seen.get("PROFILED") == (f"2.{each['host']}" if rank == 2 else None)
    if len(os.sched_getaffinity(0)) >= 2:
        (pair,) = [name for name in set(hosts) if hosts.count(name) == 2]
        first, second = (set(each["cpus"]) for each in told if each["host"] == pair)
        assert not first & second
    assert log.count("(Slurm): local rank") == 3


@pytest.mark.nightly
def test_a_rank_that_dies_is_the_jobs_status(cluster: Cluster, tmp_path: Path) -> None:
    """srun sees the status of the program; without srun a batch file of two tasks is refused; a
    second step has another port."""
    tool = [sys.executable, str(PATH), "--cache_root", "keep", "--quiet"]
    script = tmp_path / "dies.sh"
    script.write_text('#!/bin/sh\n[ "$RANK" = 1 ] && exit 9\nexit 0\n')
    script.chmod(0o755)
    done = cluster.run(["srun", "--nodes=2", "--ntasks=2", *tool, script], folder=tmp_path)
    assert done.returncode == 9, done.stderr
    job = tmp_path / "job.sh"
    words = " ".join(tool)
    job.write_text(
        f"#!/bin/bash\n{words} true; echo batch $?\n"
        f"srun --ntasks=1 --nodes=1 {sys.executable} {PATH} --dry-run\n"
        f"for n in 1 2; do srun --ntasks=1 --nodes=1 {words} sh -c 'echo port $MASTER_PORT'; done\n"
    )
    run_job(cluster, job, "--nodes=2", "--ntasks=2")
    log = (tmp_path / "log").read_text()
    assert "this is the batch file of a job of 2 tasks" in log
    assert "batch 2" in log
    if len(os.sched_getaffinity(0)) >= 2:  # the step has one CPU, and nothing confines it
        assert "Slurm gave this job 1 CPUs of a node with" in log
        assert "so nothing was bound" in log
    ports = [int(line.split()[1]) for line in log.splitlines() if line.startswith("port ")]
    assert len(ports) == 2
    assert ports[1] == ports[0] + 1
