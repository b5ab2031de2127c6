"""numa_bind: plans over trees in the form of /sys, visible devices, and real bindings here."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing_utils import execute_subprocess_async, write_file_tree

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "training/numa_bind.py"

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_setaffinity"), reason="binding needs Linux's CPU affinity"
)


@pytest.fixture(scope="module")
def numa(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def write_files(root: Path, files: Mapping[str, str]) -> None:
    """Write files by their paths under a root, as the kernel does: each ends its line."""
    write_file_tree(root, {name: f"{text}\n" for name, text in files.items()})


def write_machine(
    root: Path,
    nodes: Sequence[Iterable[int]],
    nodes_of_socket: int = 1,
    threads: int = 1,
    memory: Mapping[int, int] | None = None,
) -> None:
    """CPUs and nodes of a machine; a core's second thread is half of all CPUs further."""
    total = sum(len(list(cpus)) for cpus in nodes)
    cores = total // threads
    files = {"devices/system/cpu/online": f"0-{total - 1}"}
    for number, cpus in enumerate(nodes):
        place = f"devices/system/node/node{number}"
        files[f"{place}/cpulist"] = ",".join(map(str, cpus))
        amount = (memory or {}).get(number, 1000)
        files[f"{place}/meminfo"] = f"Node {number} MemTotal:       {amount} kB"
        for cpu in cpus:
            place = f"devices/system/cpu/cpu{cpu}/topology"
            siblings = [str(cpu % cores + cores * thread) for thread in range(threads)]
            files[f"{place}/core_cpus_list"] = ",".join(siblings)
            files[f"{place}/physical_package_id"] = str(number // nodes_of_socket)
    write_files(root, files)


def write_nvidia(root: Path, places: Mapping[str, int], model: str = "0x2330") -> None:
    """NVIDIA GPUs on the PCI bus: address and NUMA node of each."""
    for address, node in places.items():
        place = f"bus/pci/devices/{address}"
        files = {"vendor": "0x10de", "class": "0x030200", "device": model, "numa_node": str(node)}
        write_files(root, {f"{place}/{name}": text for name, text in files.items()})


def write_amd(
    root: Path, places: Sequence[tuple[str, int]], partitions: int = 1, is_new: bool = True
) -> None:
    """AMD GPUs of the KFD driver behind two CPU nodes: address and NUMA node of each."""
    nodes = "class/kfd/kfd/topology/nodes"
    files = {f"{nodes}/{n}/properties": "cpu_cores_count 64\nsimd_count 0" for n in range(2)}
    number = 2
    for address, node in places:
        files[f"bus/pci/devices/{address}/numa_node"] = str(node)
        _, bus, rest = address.split(":")
        for partition in range(partitions):
            location = int(bus, 16) << 8 | int(rest.split(".")[0], 16) << 3
            location |= partition << 28 if is_new else partition
            files[f"{nodes}/{number}/properties"] = "\n".join(
                f"{name} {value}"
                for name, value in (
                    ("cpu_cores_count", 0),
                    ("simd_count", 304),
                    ("vendor_id", 4098),
                    ("domain", 0),
                    ("location_id", location),
                    ("unique_id", 0xABC0 + number),
                )
            )
            number += 1
    write_files(root, files)


@pytest.fixture
def dgx(tmp_path: Path) -> Path:
    """Two sockets of 52 cores with 2 threads each, and 4 GPUs on each."""
    write_machine(
        tmp_path, [[*range(52), *range(104, 156)], [*range(52, 104), *range(156, 208)]], 1, 2
    )
    buses = ("1b", "43", "52", "61", "9d", "c3", "d1", "df")
    write_nvidia(tmp_path, {f"0000:{bus}:00.0": n // 4 for n, bus in enumerate(buses)})
    return tmp_path


def plan(
    numa: Any, root: Path, ranks: int, environ: Mapping[str, str] | None = None, **more: Any
) -> Any:
    """The plan of a machine for so many ranks, all CPUs allowed unless said."""
    topology = numa.read_topology(root)
    visible, _ = numa.find_visible(numa.find_accelerators(root, root / "proc"), environ or {})
    allowed = more.pop("allowed", topology.cpus)
    extra = {name: more.pop(name) for name in ("memory_allowed", "quota") if name in more}
    return numa.plan_bindings(topology, visible, ranks, allowed, numa.BindSettings(**more), **extra)


def show(numa: Any, bindings: Any) -> list[str]:
    """The CPUs of each rank as lists."""
    return [numa.format_cpu_list(binding.cpus) for binding in bindings]


def test_two_sockets_of_four_gpus_share_nodes(numa: Any, dgx: Path) -> None:
    """52 cores of 2 threads a node: ranks 0 to 3 get the 104 CPUs of node 0, the rest node 1."""
    made = plan(numa, dgx, 8)
    assert show(numa, made) == ["0-51,104-155"] * 4 + ["52-103,156-207"] * 4
    assert [binding.node for binding in made] == [0] * 4 + [1] * 4
    assert {binding.verdict for binding in made} == {"ok"}
    assert {binding.omp_threads for binding in made} == {52 // 4}
    assert [binding.memory_nodes for binding in made] == [(0,)] * 4 + [(1,)] * 4


def test_two_sockets_of_four_gpus_with_shares_of_their_own(numa: Any, dgx: Path) -> None:
    """The same with --mode exclusive: 13 cores, 26 CPUs each; with one thread 13 CPUs."""
    made = plan(numa, dgx, 8, mode="exclusive")
    assert show(numa, made)[:2] == ["0-12,104-116", "13-25,117-129"]
    assert show(numa, made)[7] == "91-103,195-207"
    assert {len(binding.cpus) for binding in made} == {26}
    alone = plan(numa, dgx, 8, mode="exclusive", threads="one")
    assert show(numa, alone)[7] == "91-103"


def test_addresses_and_nodes_of_a_plan_row(numa: Any, dgx: Path) -> None:
    """A row of results names the device's address, its node and who said so."""
    row = numa.make_binding_row(plan(numa, dgx, 8)[5], True)
    assert (row["pci_address"], row["device"], row["numa_node"]) == ("0000:c3:00.0", 5, 1)
    assert (row["source"], row["cpu_count"], row["core_count"]) == ("PCI bus", 104, 52)


def test_nps4_with_the_gpus_in_disorder(numa: Any, tmp_path: Path) -> None:
    """One socket of four nodes, whose GPUs are on nodes 3, 3, 1, 1, 0, 0, 2, 2 as on LUMI."""
    write_machine(tmp_path, [range(16 * n, 16 * n + 16) for n in range(4)], nodes_of_socket=4)
    buses = ("c1", "c6", "c9", "ce", "d1", "d6", "d9", "de")
    order = (3, 3, 1, 1, 0, 0, 2, 2)
    write_amd(tmp_path, [(f"0000:{b}:00.0", n) for b, n in zip(buses, order, strict=True)])
    made = plan(numa, tmp_path, 8, mode="exclusive")
    assert [binding.node for binding in made] == list(order)
    assert show(numa, made)[:2] == ["48-55", "56-63"]
    assert len({cpu for binding in made for cpu in binding.cpus}) == 64
    given = plan(numa, tmp_path, 8, node_map=order)
    assert [binding.node for binding in given] == list(order)
    assert {binding.source for binding in given} == {"given node"}


def test_sub_numa_clusters_leave_cpus_that_a_socket_has(numa: Any, tmp_path: Path) -> None:
    """Two sockets of two clusters, all GPUs of a socket on one: --scope socket takes both."""
    write_machine(tmp_path, [range(8 * n, 8 * n + 8) for n in range(4)], nodes_of_socket=2)
    write_nvidia(tmp_path, {f"0000:{n + 1}0:00.0": 0 if n < 2 else 2 for n in range(4)})
    made = plan(numa, tmp_path, 4)
    assert show(numa, made) == ["0-7", "0-7", "16-23", "16-23"]
    topology = numa.read_topology(tmp_path)
    remarks = numa.find_plan_remarks(topology, made, topology.cpus, numa.BindSettings())
    assert any("nodes 1, 3 have no GPU" in text and "--scope socket" in text for text in remarks)
    wide = plan(numa, tmp_path, 4, scope="socket")
    assert show(numa, wide) == ["0-15", "0-15", "16-31", "16-31"]
    assert [binding.memory_nodes for binding in wide] == [(0, 1), (0, 1), (2, 3), (2, 3)]
    assert not numa.find_plan_remarks(
        topology, wide, topology.cpus, numa.BindSettings(scope="socket")
    )


@pytest.mark.parametrize("is_new", [True, False])
def test_mi300_partitions_share_an_address_and_a_node(
    numa: Any, tmp_path: Path, is_new: bool
) -> None:
    """Two MI300 in CPX mode are 16 devices on 2 addresses, each rank with a share of its node."""
    write_machine(tmp_path, [range(32), range(32, 64)])
    write_amd(tmp_path, [("0000:05:00.0", 0), ("0000:85:00.0", 1)], 8, is_new)
    made = plan(numa, tmp_path, 16, mode="exclusive")
    assert [b.device.address for b in made] == ["0000:05:00.0"] * 8 + ["0000:85:00.0"] * 8
    assert [b.device.partition for b in made] == [*range(8), *range(8)]
    assert show(numa, made)[0] == "0-3"
    assert show(numa, made)[15] == "60-63"


def test_a_kfd_device_that_a_cgroup_hides_does_not_count(numa: Any, tmp_path: Path) -> None:
    """A GPU whose properties cannot be read is not numbered; whole GPUs are no partitions."""
    write_machine(tmp_path, [range(4), range(4, 8)])
    write_amd(tmp_path, [("0000:05:00.0", 0), ("0000:85:00.0", 1)])
    (tmp_path / "class/kfd/kfd/topology/nodes/2/properties").unlink()
    devices = numa.find_accelerators(tmp_path, tmp_path / "proc")
    assert [(d.number, d.address, d.partition) for d in devices] == [(0, "0000:85:00.0", None)]


UUIDS = ("GPU-aa11-1", "GPU-aa22-2", "GPU-bb33-3")
MIGS = (("MIG-77-1", "MIG-77-2"), (), ("MIG-99-1",))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2,0", [2, 0]),
        (" 1 , 2 ", [1, 2]),
        ("", []),
        ("0,-1,2", [0]),
        ("0,7,1", [0]),
        ("1,1", []),
        ("NoDevFiles", []),
        ("GPU-bb", [2]),
        ("GPU-aa22-2,GPU-aa11-1", [1, 0]),
        ("GPU-aa", []),
        ("MIG-99-1,MIG-77-2,MIG-77-1", [2, 0, 0]),
        ("MIG-GPU-aa22-2/1/0", [1]),
        ("MIG-55", []),
    ],
)
def test_cuda_visible_devices(numa: Any, value: str, expected: list[int]) -> None:
    """Indices, UUIDs, their beginnings, and MIG devices; what names nothing ends the list."""
    devices = [
        numa.Accelerator(
            n, "nvidia", f"0000:0{n}:00.0", UUIDS[n], MIGS[n], None, 0, frozenset(), "", ""
        )
        for n in range(3)
    ]
    visible, remarks = numa.find_visible(devices, {"CUDA_VISIBLE_DEVICES": value})
    assert [device.number for device in visible] == expected
    assert bool(remarks) is (len(expected) < len(value.split(",")) and value != "")


def test_rocr_hides_first_and_hip_counts_the_rest(numa: Any, tmp_path: Path) -> None:
    """ROCR_VISIBLE_DEVICES=3,2,1 and HIP_VISIBLE_DEVICES=1,0 leave devices 2 and 3."""
    write_machine(tmp_path, [range(4), range(4, 8)])
    write_amd(tmp_path, [(f"0000:{n + 1}5:00.0", n // 2) for n in range(4)])
    devices = numa.find_accelerators(tmp_path, tmp_path / "proc")
    both = {"ROCR_VISIBLE_DEVICES": "3,2,1", "HIP_VISIBLE_DEVICES": "1,0"}
    assert [d.number for d in numa.find_visible(devices, both)[0]] == [2, 3]
    # HIP's variable wins over CUDA's, which it reads too.
    both["CUDA_VISIBLE_DEVICES"] = "2"
    assert [d.number for d in numa.find_visible(devices, both)[0]] == [2, 3]
    uuid = {"ROCR_VISIBLE_DEVICES": f"GPU-{0xABC5:016x}", "CUDA_VISIBLE_DEVICES": "0"}
    assert [d.number for d in numa.find_visible(devices, uuid)[0]] == [3]


def test_unlike_models_make_the_order_doubtful(numa: Any, dgx: Path) -> None:
    """CUDA numbers unlike GPUs by speed, unless CUDA_DEVICE_ORDER says the bus."""
    write_nvidia(dgx, {"0000:df:00.0": 1}, model="0x20b2")
    devices = numa.find_accelerators(dgx, dgx / "proc")
    assert any("CUDA_DEVICE_ORDER" in text for text in numa.find_visible(devices, {})[1])
    assert not numa.find_visible(devices, {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})[1]


def test_nvidia_smi_texts(numa: Any) -> None:
    """Addresses and UUIDs from the query, MIG devices from the list, as those commands print."""
    query = "0, 00000000:07:00.0, GPU-aa\n1, 00000000:0F:00.0, GPU-bb\n"
    listing = (
        "GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aa)\n"
        "  MIG 3g.20gb     Device  0: (UUID: MIG-11)\n"
        "  MIG 3g.20gb     Device  1: (UUID: MIG-22)\n"
        "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bb)\n"
    )
    assert numa.parse_nvidia_list(query, listing) == [
        (0, "00000000:07:00.0", "GPU-aa", ["MIG-11", "MIG-22"]),
        (1, "00000000:0F:00.0", "GPU-bb", []),
    ]
    assert numa.normalise_address("00000000:0F:00.0") == "0000:0f:00.0"
    assert numa.normalise_address("00010000:0F:1A.3") == "10000:0f:1a.3"


def test_the_drivers_folder_comes_before_the_bus(numa: Any, dgx: Path) -> None:
    """A container sees all of the PCI bus, and of the driver's folder only its own GPUs."""
    files = {"0000:d1:00.0": "GPU-x", "0000:43:00.0": "GPU-y"}
    write_files(
        dgx / "proc" / "driver/nvidia/gpus",
        {f"{a}/information": f"Model: \t NVIDIA\nGPU UUID: \t {u}" for a, u in files.items()},
    )
    devices = numa.find_accelerators(dgx, dgx / "proc")
    assert [(d.address, d.uuid, d.node) for d in devices] == [
        ("0000:43:00.0", "GPU-y", 0),
        ("0000:d1:00.0", "GPU-x", 1),
    ]


def test_a_rank_that_sees_one_gpu_has_that_one(numa: Any, dgx: Path) -> None:
    """Slurm shows each task its own GPU: local rank 6 with one visible device has device 0."""
    made = plan(numa, dgx, 8, {"CUDA_VISIBLE_DEVICES": "6"})
    assert made[6].device.address == "0000:d1:00.0"
    assert made[6].node == 1


def test_more_ranks_than_devices_is_wrong_use(numa: Any, dgx: Path) -> None:
    """Nobody knows which of two devices a third rank has, so it has to be said."""
    with pytest.raises(numa.WrongUse, match=r"local rank 2 has no device 2: 2 are visible"):
        plan(numa, dgx, 3, {"CUDA_VISIBLE_DEVICES": "0,1"})
    assert plan(numa, dgx, 3, {"CUDA_VISIBLE_DEVICES": "0,1"}, device=1)[2].node == 0


def test_a_gpu_on_no_node_is_left_unbound(numa: Any, tmp_path: Path) -> None:
    """numa_node is -1 where firmware does not tell: nothing is guessed."""
    write_machine(tmp_path, [range(4), range(4, 8)])
    write_nvidia(tmp_path, {"0000:10:00.0": -1})
    write_files(tmp_path, {"bus/pci/devices/0000:10:00.0/local_cpulist": "0-7"})
    [binding] = plan(numa, tmp_path, 1)
    assert (binding.verdict, binding.is_bound) == ("unknown", False)
    write_files(tmp_path, {"bus/pci/devices/0000:10:00.0/local_cpulist": "4-7"})
    [binding] = plan(numa, tmp_path, 1)
    assert (binding.verdict, show(numa, [binding])) == ("ok", ["4-7"])


def test_the_bus_tells_where_the_device_does_not(numa: Any, tmp_path: Path) -> None:
    """cpulistaffinity of the PCI bus is what older kernels have."""
    write_machine(tmp_path, [range(4), range(4, 8)])
    write_nvidia(tmp_path, {"0000:10:00.0": -1})
    write_files(tmp_path, {"class/pci_bus/0000:10/cpulistaffinity": "0-3"})
    assert show(numa, plan(numa, tmp_path, 1)) == ["0-3"]


def test_what_a_cgroup_leaves_out_stays_out(numa: Any, dgx: Path) -> None:
    """CPUs of an allocation on node 0: its GPUs get those, a GPU of node 1 is not allowed."""
    made = plan(numa, dgx, 8, allowed=range(10, 20), memory_allowed=frozenset({0}))
    assert show(numa, made)[0] == "10-19"
    assert [binding.verdict for binding in made] == ["ok"] * 4 + ["not allowed"] * 4
    assert not made[7].is_bound
    assert plan(numa, dgx, 8, memory_allowed=frozenset({0}))[7].memory_nodes == ()


def test_a_quota_of_cpu_time_limits_threads(numa: Any, dgx: Path) -> None:
    """16 CPUs' time for 8 ranks are 2 threads each, however many cores they may run on."""
    assert {b.omp_threads for b in plan(numa, dgx, 8, quota=16.0)} == {2}
    assert {b.omp_threads for b in plan(numa, dgx, 8, quota=0.5)} == {1}


def test_the_smallest_quota_of_all_cgroups_counts(numa: Any, tmp_path: Path) -> None:
    """cpu.max of a cgroup and of those above it: `max` is none, the smallest limits."""
    write_files(
        tmp_path,
        {
            "fs/cgroup/job/step/cpu.max": "max 100000",
            "fs/cgroup/job/cpu.max": "250000 100000",
            "fs/cgroup/cpu.max": "800000 100000",
            "proc/self/cgroup": "0::/job/step",
            "proc/self/status": "Name:\tx\nMems_allowed_list:\t0,2-3",
        },
    )
    assert numa.read_cpu_quota(tmp_path, tmp_path / "proc") == 2.5
    assert numa.read_cpu_quota(tmp_path / "none", tmp_path / "none") is None
    assert numa.read_allowed_nodes(tmp_path / "proc") == frozenset({0, 2, 3})


def test_one_node_is_nothing_to_choose(numa: Any, tmp_path: Path) -> None:
    """A machine with one node, or a kernel without NUMA, binds to all CPUs or to shares."""
    write_machine(tmp_path, [range(8)], threads=2)
    write_nvidia(tmp_path, {"0000:10:00.0": -1, "0000:20:00.0": -1})
    assert {b.verdict for b in plan(numa, tmp_path, 2)} == {"one node"}
    assert show(numa, plan(numa, tmp_path, 2, mode="exclusive")) == ["0-1,4-5", "2-3,6-7"]
    shutil.rmtree(tmp_path / "devices/system/node")
    assert show(numa, plan(numa, tmp_path, 2)) == ["0-7", "0-7"]


def test_fewer_cores_than_ranks_are_shared(numa: Any, tmp_path: Path) -> None:
    """Three ranks on two cores: no shares, and a verdict that says so."""
    write_machine(tmp_path, [range(4)], threads=2)
    made = plan(numa, tmp_path, 3, mode="exclusive")
    assert [(b.verdict, b.sharing, b.omp_threads) for b in made] == [("crowded", 3, 1)] * 3


def test_nodes_without_cpus_or_memory(numa: Any, tmp_path: Path) -> None:
    """A node of memory alone is nobody's; a node without memory sets no memory policy."""
    write_machine(tmp_path, [range(2), range(2, 4), []], memory={1: 0})
    assert [node.number for node in numa.read_topology(tmp_path).nodes] == [0, 1]
    made = plan(numa, tmp_path, 2)
    assert [(b.node, b.memory_nodes, b.source) for b in made] == [
        (0, (0,), "spread over nodes"),
        (1, (), "spread over nodes"),
    ]


def test_without_a_topology_ranks_run_unbound(numa: Any, tmp_path: Path) -> None:
    """Where /sys tells of no CPU all ranks keep those that they may use, unless a map says more."""
    bindings = plan(numa, tmp_path, 2, allowed={0, 3}, mode="exclusive")
    assert [(b.cpus, b.verdict, b.omp_threads) for b in bindings] == [({0, 3}, "unknown", 1)] * 2
    assert numa.apply_binding(bindings[0], "preferred") == ["not bound: unknown"]
    mapped = plan(numa, tmp_path, 1, allowed={0, 3}, cpu_map=(frozenset({3}),))
    assert [(b.cpus, b.verdict) for b in mapped] == [({3}, "ok")]


def test_maps_that_do_not_fit_are_wrong_use(numa: Any, dgx: Path) -> None:
    """A map that is too short, or names a node or CPU that is not there, is refused."""
    with pytest.raises(numa.WrongUse, match="has 2 entries, and none for local rank 2"):
        plan(numa, dgx, 3, node_map=(0, 1))
    with pytest.raises(numa.WrongUse, match="no node 5 with CPUs; there are 0, 1"):
        plan(numa, dgx, 1, node_map=(5,))
    with pytest.raises(numa.WrongUse, match="has no CPU 999"):
        plan(numa, dgx, 1, cpu_map=(frozenset({1, 999}),))


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "8", "SLURM_LOCALID": "0"}, (3, 8)),
        ({"SLURM_LOCALID": "2", "SLURM_TASKS_PER_NODE": "4(x2)"}, (2, 4)),
        ({"SLURM_LOCALID": "2", "SLURM_TASKS_PER_NODE": "4,3"}, (2, None)),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "1"}, (1, None)),
        ({}, None),
    ],
)
def test_local_rank_of_launchers(numa: Any, environ: dict[str, str], expected: Any) -> None:
    """Local rank and size from torchrun, Slurm and Open MPI."""
    assert numa.read_local_place(environ) == expected


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        ({"LOCAL_RANK": "abc"}, "LOCAL_RANK is 'abc'"),
        ({"LOCAL_RANK": "-1", "SLURM_LOCALID": "2"}, "LOCAL_RANK is '-1'"),
        ({"LOCAL_RANK": "\u00b2"}, "LOCAL_RANK is"),
        ({"LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "two"}, "LOCAL_WORLD_SIZE is 'two'"),
        ({"SLURM_LOCALID": "0.5"}, "SLURM_LOCALID is '0.5'"),
    ],
)
def test_a_rank_that_is_none_is_not_guessed(numa: Any, environ: dict[str, str], name: str) -> None:
    """A launcher's variable that holds no number is told, and not taken for rank 0."""
    with pytest.raises(numa.WrongUse, match=f"the variable {name}"):
        numa.read_local_place(environ)
    assert numa.read_local_place({"LOCAL_RANK": "", "SLURM_LOCALID": "2"}) == (2, None)


def test_a_rank_outside_of_the_ranks_is_refused(numa: Any) -> None:
    """bind() refuses a rank that is not among the size it is given."""
    with pytest.raises(numa.WrongUse, match="local rank 9 is not among 2"):
        numa.bind(9, 2)


@pytest.mark.parametrize(
    ("arguments", "environ", "message"),
    [
        ([], {"LOCAL_RANK": "abc"}, "LOCAL_RANK is 'abc'"),
        (["--local_rank", "9", "--ranks", "2"], {}, "local rank 9 is not among 2"),
        (["--ranks", "2"], {"LOCAL_RANK": "2"}, "local rank 2 is not among 2"),
        (["--strict", "--device", "3"], {"CUDA_VISIBLE_DEVICES": ""}, "no accelerator is visible"),
        (["--device", "0"], {"CUDA_VISIBLE_DEVICES": ""}, "no accelerator is visible"),
    ],
)
def test_no_program_is_started_at_a_place_that_is_not_there(
    run_tool: Callable[..., Any], arguments: list[str], environ: dict[str, str], message: str
) -> None:
    """A rank or a device that does not exist ends with status 2, before the program."""
    hidden = {"ROCR_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "LOCAL_RANK": ""}
    program = [sys.executable, "-c", "print('started')"]
    done = run_tool(TOOL, *arguments, "--", *program, environ={**hidden, **environ})
    assert done.returncode == 2, done.stderr
    assert message in " ".join(done.stderr.split())
    assert done.stdout == ""


@given(st.sets(st.integers(0, 300), min_size=1))
def test_cpu_lists_come_back(numa: Any, cpus: set[int]) -> None:
    """Any set of CPUs survives being written as a list and read again."""
    assert numa.parse_cpu_list(numa.format_cpu_list(cpus)) == cpus


@given(st.sets(st.integers(0, 63), min_size=1), st.integers(1, 12), st.sampled_from([1, 2, 4]))
def test_shares_are_fair_and_of_whole_cores(
    numa: Any, cpus: set[int], parts: int, threads: int
) -> None:
    """Shares are disjoint, make up all CPUs, split no core and differ by one core at most."""
    cores = {cpu: cpu - cpu % threads for cpu in range(64)}
    topology = numa.Topology((numa.NumaNode(0, frozenset(range(64)), True),), cores, {})
    shares = numa.split_cores(topology, frozenset(cpus), parts)
    assert len(shares) == parts
    owned = [{cores[cpu] for cpu in share} for share in shares]
    if len({cores[cpu] for cpu in cpus}) < parts:
        assert set(shares) == {frozenset(cpus)}
        return
    assert sorted(cpu for share in shares for cpu in share) == sorted(cpus)
    assert sum(map(len, owned)) == len(set().union(*owned))
    assert max(map(len, owned)) - min(map(len, owned)) <= 1


@given(
    st.sets(st.integers(0, 31), min_size=1),
    st.integers(1, 9),
    st.sampled_from(["node", "exclusive"]),
    st.sampled_from(["node", "socket"]),
    st.lists(st.integers(0, 3), min_size=9, max_size=9),
)
def test_no_plan_leaves_what_is_allowed(
    numa: Any, allowed: set[int], ranks: int, mode: str, scope: str, node_map: list[int]
) -> None:
    """Whatever is asked for, every rank gets CPUs, and only such as it may use."""
    nodes = tuple(numa.NumaNode(n, frozenset(range(8 * n, 8 * n + 8)), True) for n in range(4))
    topology = numa.Topology(nodes, {c: c for c in range(32)}, {c: c // 16 for c in range(32)})
    chosen = numa.BindSettings(mode=mode, scope=scope, node_map=tuple(node_map))
    for binding in numa.plan_bindings(topology, [], ranks, allowed, chosen):
        assert binding.cpus
        assert binding.cpus <= allowed
        if scope == "node" and binding.verdict == "ok":
            assert binding.node == node_map[binding.local_rank]


PRINT = """
import json, os, sys
maps = "/proc/self/numa_maps"
print(json.dumps({
    "cpus": sorted(os.sched_getaffinity(0)),
    "arguments": sys.argv[1:],
    "omp": os.environ.get("OMP_NUM_THREADS"),
    "maps": open(maps).readline() if os.path.exists(maps) else "",
}))
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """A program that prints what it runs on, as one line of JSON."""
    path = tmp_path / "train.py"
    path.write_text(PRINT)
    return path


def bind_and_run(
    script: Path, *arguments: str, environ: dict[str, str] | None = None, after: Sequence[str] = ()
) -> tuple[dict[str, Any], str]:
    """What the program printed when it was started through the tool, and the tool's notes."""
    cleared = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "LOCAL_RANK")}
    done = subprocess.run(
        [sys.executable, str(SCRIPTS / TOOL), *arguments, str(script), *after],
        capture_output=True,
        text=True,
        timeout=60,
        env={**cleared, **(environ or {})},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def test_a_program_runs_on_the_cpus_of_a_map(script: Path) -> None:
    """The child's own sched_getaffinity is the planned one, and OMP_NUM_THREADS is set."""
    last = max(os.sched_getaffinity(0))
    seen, notes = bind_and_run(
        script, "--cpu_map", str(last), after=["--lr", "1", "--", "-x"], environ={"LOCAL_RANK": "0"}
    )
    assert seen["cpus"] == [last]
    assert seen["arguments"] == ["--lr", "1", "--", "-x"]
    assert seen["omp"] == "1"
    assert f"1 CPUs {last}" in notes


def test_omp_threads_are_kept_or_replaced(script: Path) -> None:
    """A value that is set stays, unless auto or a number is asked for."""
    environ = {"OMP_NUM_THREADS": "7"}
    last = str(max(os.sched_getaffinity(0)))
    assert bind_and_run(script, "--quiet", environ=environ)[0]["omp"] == "7"
    auto = ["--cpu_map", last, "--omp_threads"]
    assert bind_and_run(script, *auto, "auto", environ=environ)[0]["omp"] == "1"
    assert bind_and_run(script, *auto, "3", environ=environ)[0]["omp"] == "3"
    assert bind_and_run(script, *auto, "keep")[0]["omp"] is None


@pytest.mark.needs("/sys/devices/system/node")
def test_memory_policy_reaches_the_program(numa: Any, script: Path) -> None:
    """The kernel shows the preferred node in the program's own memory map."""
    if not Path("/proc/self/numa_maps").exists() or numa.read_memory_policy() is None:
        pytest.skip("the kernel tells of no memory policies: run on one with NUMA")
    seen, notes = bind_and_run(script, "--ranks", "1")
    if "no memory policy was set" in notes:
        pytest.skip("memory policies are not allowed here")
    assert " prefer" in seen["maps"]
    assert " default" in bind_and_run(script, "--memory", "none")[0]["maps"]


def test_bind_inside_a_program_binds_its_threads_and_children() -> None:
    """bind() binds threads that are there already, and passes on to what starts later."""
    last = max(os.sched_getaffinity(0))
    code = f"""
import os, subprocess, sys, threading
sys.path.insert(0, {str(SCRIPTS / "training")!r})
hold = threading.Event()
thread = threading.Thread(target=hold.wait)
thread.start()
import numa_bind
made = numa_bind.bind(0, cpu_map=(frozenset([{last}]),), memory="none")
look = "import os; print(os.sched_getaffinity(0))"
child = subprocess.check_output([sys.executable, "-c", look], text=True).strip()
print(made.verdict, os.sched_getaffinity(0), os.sched_getaffinity(thread.native_id), child)
hold.set()
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == f"ok {{{last}}} {{{last}}} {{{last}}}"


@pytest.mark.skipif(
    hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs"
)
def test_show_verifies_shares_with_real_programs(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """--show --verify starts a program for each rank, and both have CPUs of their own."""
    path = tmp_path / "plan.json"
    own = sorted(os.sched_getaffinity(0))
    done = run_tool(
        TOOL, "--show", "--verify", "--cpu_map", f"{own[0]}/{own[-1]}", "--json", str(path)
    )
    assert done.returncode == 0, done.stderr
    rows = read_json(path)["results"]
    assert [row["cpus"] for row in rows] == [str(own[0]), str(own[-1])]
    assert [row["verified"] for row in rows] == [True, True]
    assert done.stdout.count("| given CPUs |") == 2


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.skipif(
    hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs"
)
def test_torchrun_starts_ranks_through_it(script: Path) -> None:
    """Two ranks of a real torchrun run on CPUs that they do not share."""
    if shutil.which("nvidia-smi"):
        pytest.skip("the ranks would follow this machine's GPUs")
    own = sorted(os.sched_getaffinity(0))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python"]
    tool = [sys.executable, str(SCRIPTS / TOOL), "--cpu_map", f"{own[0]}/{own[-1]}"]
    command = [*launcher, "--nproc_per_node", "2", *tool, str(script)]
    done = execute_subprocess_async(command, timeout=120, quiet=True)
    cpus = sorted(json.loads(line)["cpus"] for line in done.stdout if line[:1] == "{")
    assert cpus == [[own[0]], [own[-1]]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a program to start, or --show"),
        (["--show", "x"], "leave the program out"),
        (["--json", "x.json", "y"], "--json is for --show"),
        (["--verify", "x"], "--verify is for --show"),
        (["--show", "--strict"], "--strict is for starting a program"),
        (["--show", "--local_rank", "1"], "--show shows all ranks"),
        (["--show", "--node_map", "0", "--cpu_map", "0"], "say the same twice"),
        (["--show", "--cpu_map", "0", "--mode", "exclusive"], "--cpu_map says all"),
        (["--show", "--cpu_map", "0-"], "is no list of CPUs"),
        (["--show", "--cpu_map", "3-1"], "is no list of CPUs"),
        (["--show", "--node_map", "a"], "is no list of nodes"),
        (["--show", "--device", "0", "--node_map", "0"], "a map does without it"),
        (["--omp_threads", "0", "x"], "write unset, auto, keep or a number"),
        (["--", "/no/such/program"], "could not start /no/such/program"),
    ],
)
def test_wrong_use_is_told(
    run_tool: Callable[..., Any], arguments: list[str], message: str
) -> None:
    """What makes no sense ends with status 2 and says what to do."""
    done = run_tool(TOOL, *arguments)
    assert done.returncode == 2, done.stderr
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_the_programs_exit_status_is_that_of_the_tool(run_tool: Callable[..., Any]) -> None:
    """The tool becomes the program: its exit status is the program's."""
    done = run_tool(TOOL, "--quiet", "--", sys.executable, "-c", "raise SystemExit(37)")
    assert done.returncode == 37
    assert done.stderr == ""


@pytest.mark.nightly
def test_a_stop_while_the_plan_is_checked_keeps_it(tmp_path: Path) -> None:
    """SIGTERM in the middle of --verify leaves JSON that says it is not complete."""
    path = tmp_path / "plan.json"
    options = ["--show", "--verify", "--ranks", "200", "--json", str(path)]
    process = subprocess.Popen(
        [sys.executable, str(SCRIPTS / TOOL), *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    time.sleep(2.5)
    process.send_signal(signal.SIGTERM)
    _, notes = process.communicate(timeout=60)
    assert process.returncode == 1, notes
    assert "stopped by SIGTERM" in notes
    assert json.loads(path.read_text())["complete"] is False
