"""Where the CPUs, memory and PCI devices of a machine are, from /sys.

`root` is the folder with sys/ and proc/ in it, so that another machine's files can be read too.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kit.cli import UsageError
from kit.files import read_text
from kit.report import format_spans

Cpus = frozenset[int]


class Topology(NamedTuple):
    """The CPUs of each NUMA node that has some, and the first CPU of the core of each CPU; both are
    empty where the machine does not show them."""

    nodes: dict[int, Cpus]
    core_of: dict[int, int]

    @property
    def cpus(self) -> Cpus:
        """All CPUs."""
        return frozenset(self.core_of)

    def count_cores(self, cpus: Iterable[int]) -> int:
        """How many cores these CPUs belong to."""
        return len({self.core_of.get(cpu, cpu) for cpu in cpus})


def parse_cpus(text: str) -> Cpus:
    """The CPUs of a list such as `0-3,8`. Raises UsageError where the text is not one."""
    cpus: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        found = re.fullmatch(r"(\d{1,5})(?:-(\d{1,5}))?", part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if last < first:
            raise UsageError(f"'{text}' is not a list of CPUs: write 0-3,8")
        cpus |= set(range(first, last + 1))
    return frozenset(cpus)


def format_cpus(cpus: Iterable[int]) -> str:
    """`0-3,8`; `-` for no CPU."""
    return format_spans(cpus) or "-"


def read_topology(root: Path = Path("/")) -> Topology:
    """NUMA nodes and cores; a kernel without NUMA has one node."""
    system = root / "sys/devices/system"
    online = parse_cpus(read_text(system / "cpu/online"))
    core_of = {}
    for cpu in sorted(online):
        siblings = read_text(system / f"cpu/cpu{cpu}/topology/thread_siblings_list")
        core_of[cpu] = min({*parse_cpus(siblings), cpu})
    nodes = {}
    for folder in (system / "node").glob("node[0-9]*"):
        cpus = parse_cpus(read_text(folder / "cpulist")) & online
        if cpus:  # a node of memory alone (CXL, or the memory of a GPU) has no CPU to bind to
            nodes[int(folder.name[4:])] = cpus
    if online and not nodes:
        nodes = {0: online}
    return Topology(dict(sorted(nodes.items())), core_of)


def read_affinity(topology: Topology) -> tuple[Cpus, Cpus]:
    """The CPUs that this process runs on, and those that its cgroup would let it bind to; both
    empty where the system has no CPU affinity (macOS)."""
    if not hasattr(os, "sched_getaffinity"):
        return frozenset(), frozenset()
    own = frozenset(os.sched_getaffinity(0))
    try:
        os.sched_setaffinity(0, topology.cpus | own)
        return own, frozenset(os.sched_getaffinity(0))
    except OSError:
        return own, own
    finally:
        os.sched_setaffinity(0, own)


def find_numa_node(address: str, root: Path = Path("/")) -> int | None:
    """The NUMA node of a PCI device; firmware that does not report it leaves -1."""
    node = read_text(root / "sys/bus/pci/devices" / address / "numa_node")
    return int(node) if node.isdigit() else None
