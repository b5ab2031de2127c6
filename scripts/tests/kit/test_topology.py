"""CPUs, NUMA nodes and PCI devices, from files in the form of /sys."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit import topology
from kit.cli import UsageError
from kit.files import SHARED_FILE_SYSTEMS, find_file_system
from testing_utils import write_file_tree


def test_cpu_lists() -> None:
    """The notation of /sys, and masks for srun."""
    assert topology.format_cpus({0, 1, 2, 3, 8}) == "0-3,8"
    assert topology.format_cpus([]) == "-"
    assert topology.parse_cpus("0-3,8") == {0, 1, 2, 3, 8}
    for text in ("3-1", "a", "0-"):
        with pytest.raises(UsageError, match="write 0-3,8"):
            topology.parse_cpus(text)


def test_a_machine_of_two_nodes(tmp_path: Path) -> None:
    """Cores with two threads; CPUs that are offline and nodes without CPUs do not count. Other
    machines show nothing, or have a kernel without NUMA: one node."""
    assert topology.read_topology(tmp_path) == topology.Topology({}, {})
    write_file_tree(tmp_path, {"sys/devices/system/cpu/online": "0-3"})
    assert topology.format_cpus(topology.read_topology(tmp_path).nodes[0]) == "0-3"
    system = "sys/devices/system"
    write_file_tree(
        tmp_path,
        {f"{system}/cpu/online": "0-6", f"{system}/node/node0/cpulist": "0-1,4-5",
         f"{system}/node/node1/cpulist": "2-3,6-7", f"{system}/node/node2/cpulist": ""}
        | {f"{system}/cpu/cpu{n}/topology/thread_siblings_list": f"{n % 4},{n % 4 + 4}"
           for n in range(8)},
    )  # fmt: skip
    found = topology.read_topology(tmp_path)
    assert {n: topology.format_cpus(cpus) for n, cpus in found.nodes.items()} == {
        0: "0-1,4-5",
        1: "2-3,6",
    }
    assert found.count_cores({0, 4, 1}) == 2


def test_pci_devices(tmp_path: Path) -> None:
    """The node of a device; firmware may not report it."""
    folder = "sys/bus/pci/devices"
    files = {f"{folder}/0000:1a:00.0/numa_node": "1", f"{folder}/0000:2b:00.0/numa_node": "-1"}
    write_file_tree(tmp_path, files)
    assert topology.find_numa_node("0000:1a:00.0", tmp_path) == 1
    assert topology.find_numa_node("0000:2b:00.0", tmp_path) is None


def test_file_systems(tmp_path: Path) -> None:
    """NFS is shared; the mount deepest in the path counts, also with a blank in its name."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda rw\n2 1 0:5 / /my\\040data rw shared:1 - nfs4 s:/x rw\n"
    )
    assert find_file_system(Path("/my data/x"), mounts) in SHARED_FILE_SYSTEMS
    assert find_file_system(Path("/scratch"), mounts) == "ext4"
    assert find_file_system(Path("/"), tmp_path / "none") == "unknown"
