"""The CPUs next to GPUs, on made-up machines, and real bindings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from kit import binding
from kit.topology import Cpus, Topology, format_cpus
from testing_utils import write_file_tree


def make_dgx() -> Topology:
    """Two NUMA nodes with 52 cores of 2 threads each; the second thread is 104 CPUs further."""
    halves = [frozenset({*range(a, a + 52), *range(a + 104, a + 156)}) for a in (0, 52)]
    return Topology(dict(enumerate(halves)), {cpu: cpu % 104 for cpu in range(208)})


def make_gpus(nodes: Sequence[int | None]) -> list[binding.Gpu]:
    return [
        binding.Gpu(n, "nvidia", f"0000:{n:02x}:00.0", f"GPU-{n}a", node, "test")
        for n, node in enumerate(nodes)
    ]


def plan(
    machine: Topology, gpus: Sequence[binding.Gpu], ranks: int, allowed: Cpus | None = None,
    exclusive: bool = False,
) -> list[binding.Binding]:  # fmt: skip
    cpus = machine.cpus if allowed is None else allowed
    return binding.plan_bindings(machine, gpus, ranks, cpus, exclusive=exclusive)


@pytest.mark.parametrize(
    ("exclusive", "lists"),
    [
        (False, ["0-51,104-155"] * 4 + ["52-103,156-207"] * 4),
        (True, ["0-12,104-116", "13-25,117-129"]),
    ],
)
def test_four_gpus_per_node(exclusive: bool, lists: list[str]) -> None:
    """52 cores of 2 threads per node are 104 CPUs for 4 ranks, 13 threads each; or 13 cores for
    each."""
    made = plan(make_dgx(), make_gpus([0, 0, 0, 0, 1, 1, 1, 1]), 8, exclusive=exclusive)
    assert [format_cpus(each.cpus) for each in made][: len(lists)] == lists
    assert {(each.verdict, each.omp_threads) for each in made} == {("ok", 13)}


def test_what_a_cgroup_excludes() -> None:
    """With CPUs of node 0 only, ranks of node 1 are `not allowed`, and stay unbound."""
    made = plan(make_dgx(), make_gpus([0, 1]), 2, allowed=frozenset(range(10, 20)))
    assert format_cpus(made[0].cpus) == "10-19"
    assert (made[1].verdict, made[1].is_bound) == ("not allowed", False)
    assert binding.apply_binding(made[1]) == "runs unbound: not allowed"


def test_without_gpus_or_topology() -> None:
    """Ranks are spread over the nodes; without nodes they keep what they have, and so does a rank
    whose GPU is on an unknown node."""
    made = plan(make_dgx(), [], 2)
    assert [each.nodes for each in made] == [(0,), (1,)]
    assert plan(make_dgx(), make_gpus([None]), 1)[0].verdict == "unknown"
    made = plan(Topology({}, {}), [], 2, allowed=frozenset({0, 3}))
    assert [(each.cpus, each.verdict) for each in made] == [({0, 3}, "unknown")] * 2
    one = Topology({0: frozenset(range(4))}, {cpu: cpu // 2 for cpu in range(4)})
    assert {each.verdict for each in plan(one, [], 3, exclusive=True)} == {"crowded"}
    # A single visible GPU is another one for each rank.
    assert plan(make_dgx(), make_gpus([1]), 3)[2].nodes == (1,)


@pytest.mark.parametrize(
    ("vendor", "environ", "expected"),
    [
        *[("nvidia", {"CUDA_VISIBLE_DEVICES": value}, expected) for value, expected in (
            (" 2,0", [2, 0]), ("", []), ("0,-1,2", [0]), ("0,7,1", [0]), ("1,1", []),
            ("GPU-1a,GPU-0", [1, 0]), ("GPU-", []), ("MIG-77", []))],
        ("amd", {"ROCR_VISIBLE_DEVICES": "3,2,1", "HIP_VISIBLE_DEVICES": "1,0",
                 "CUDA_VISIBLE_DEVICES": "2"}, [2, 3]),
    ],
)  # fmt: skip
def test_visible_devices(vendor: str, environ: dict[str, str], expected: list[int]) -> None:
    """Indices, UUIDs and their beginnings; the first entry that names no GPU ends the list. ROCR
    hides first, and HIP's variable wins over CUDA's."""
    gpus = [gpu._replace(vendor=vendor) for gpu in make_gpus([0, 0, 1, 1])]
    assert [gpu.number for gpu in binding.choose_visible(gpus, environ)] == expected


def test_nvidia_gpus_of_a_container(tmp_path: Path) -> None:
    """The driver lists all GPUs of the node; those whose device file is here count."""
    for minor, bus in enumerate(("0f", "07", "47")):
        write_file_tree(tmp_path, {
            f"proc/driver/nvidia/gpus/0000:{bus}:00.0/information":
                f"Model: \t NVIDIA H200\nGPU UUID: \t GPU-{bus}\nDevice Minor: \t {minor}",
            f"sys/bus/pci/devices/0000:{bus}:00.0/numa_node": str(minor % 2),
        })  # fmt: skip
    write_file_tree(tmp_path, {"dev/nvidia0": "", "dev/nvidia1": ""})
    found = [(gpu.number, gpu.uuid, gpu.node) for gpu in binding.find_gpus(tmp_path)]
    assert found == [(0, "GPU-07", 1), (1, "GPU-0f", 0)]


@pytest.mark.parametrize("is_new", [True, False])
def test_mi300_partitions(tmp_path: Path, is_new: bool) -> None:
    """Two MI300 in CPX mode are 16 GPUs with 2 addresses; one that a cgroup hides has none."""
    nodes = "sys/class/kfd/kfd/topology/nodes"
    files = {f"{nodes}/{n}/properties": "cpu_cores_count 64\nsimd_count 0" for n in range(2)}
    files[f"{nodes}/99/properties"] = ""
    for number in range(16):
        bus, partition = (0x05, 0x85)[number // 8], number % 8
        location = bus << 8 | (partition << 28 if is_new else partition)
        files[f"{nodes}/{number + 2}/properties"] = (
            f"simd_count 304\nvendor_id 4098\ndomain 0\nlocation_id {location}\nunique_id 7"
        )
        files[f"sys/bus/pci/devices/0000:{bus:02x}:00.0/numa_node"] = str(number // 8)
    write_file_tree(tmp_path, files)
    gpus = binding.find_gpus(tmp_path)
    assert [gpu.address for gpu in gpus] == ["0000:05:00.0"] * 8 + ["0000:85:00.0"] * 8
    assert [gpu.node for gpu in gpus] == [0] * 8 + [1] * 8
