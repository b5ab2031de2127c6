#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which CPUs are next to the GPU of this rank, and does the rank run on them?

A server with several NUMA nodes has memory and GPUs near to some of its CPUs and far from others.
A rank that runs on far CPUs copies to its GPU through the link between the sockets, which all
others share. This tool finds the CPUs next to each rank's GPU and binds the rank to them: as a
wrapper around the program, or as a call inside of it.

Physics
    There is none to compute. What is far costs time in copies from the host, in loading data and
    in launching kernels, and nothing in the kernels themselves: look for a few percent, or none.
    Hand check: 2 nodes with 52 cores of 2 threads each and 4 GPUs each: --mode node gives ranks
    0 to 3 the 104 CPUs of node 0; --mode exclusive gives each of them 13 cores, 26 CPUs.

How a rank's CPUs are chosen
    1. its GPU          the visible one of its local rank. CUDA_VISIBLE_DEVICES (indices, UUIDs,
                        MIG devices), or ROCR_, GPU_DEVICE_ORDINAL and HIP_VISIBLE_DEVICES in
                        their order. Where a rank sees one GPU only, it is that one.
    2. its NUMA node    what the kernel says of the GPU's PCI address. Partitions of an MI300 are
                        GPUs of their own that share one address and so one node.
    3. its CPUs         those of the node (or with --scope socket of the whole socket) that this
                        process may use: what a cgroup, Slurm or taskset left out stays out.
    4. --mode node      all of these, shared with the other ranks of the node: the default
       --mode exclusive an equal share of whole cores for each rank
       --threads one    only one hardware thread of each core
    Without accelerators ranks are spread over the nodes in blocks. --node_map and --cpu_map say it
    yourself, for a machine whose firmware knows nothing (a GPU on node -1) or says it wrong.

What is set
    CPU affinity (sched_setaffinity); a memory policy (set_mempolicy: by default the nodes of the
    CPUs are preferred, and others are used when they are full); OMP_NUM_THREADS where it is not
    set: the cores divided by the ranks that share them. torchrun sets it to 1 before that;
    --omp_threads auto replaces it. All of it passes on to threads and processes that start later.
    What is not: interrupts, the network cards' affinity, and memory that is there already.

How to run
    what would be   python numa_bind.py --show --verify
    torchrun        torchrun --nproc_per_node 8 --no-python python numa_bind.py train.py --lr 1
    any program     LOCAL_RANK=3 python numa_bind.py --mode exclusive -- ./program --its options
    in a program    from numa_bind import bind; bind()    (before torch and before a DataLoader:
                    threads and workers that are there already are bound too, their memory not)
    Slurm           srun --ntasks-per-node 8 --cpu-bind=none python numa_bind.py train.py
    pdsh            pdsh -w node[01-08] python /shared/numa_bind.py --show
    LUMI-like       python numa_bind.py --show --node_map 3,3,1,1,0,0,2,2
    torchrun of torch 2.9 and later has --numa-binding {node,socket,exclusive,core-complex} for
    CUDA devices: use that where it does what you need.

A good answer: "ok" for each rank; ranks of one node share that node's CPUs and no others. `one
node` is no fault: there is nothing to choose. `unknown`: the firmware does not tell; look at
nvidia-smi topo -m or rocm-smi --showtoponuma and use --node_map. `not allowed`: none of the near
CPUs may be used, so nothing was bound: the launcher gave this rank the CPUs of another node.
`crowded`: fewer cores than ranks.

Seen running so far: on a Linux machine with one node and without accelerators, and as planning over
trees of files in the form of /sys for two sockets, sub-NUMA clusters, NPS4 and MI300 partitions.
What NVML and nvidia-smi say is read as their documentation has it, and has not been seen.

Exit status: 0 done, or that of the program; 1 with --show: a rank has none of its near CPUs, or a
check of the binding failed, or stopped by a signal; with --strict: the rank could not be bound; 2
wrong use, also a launcher's variable that holds no rank.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import ctypes
import datetime
import errno
import itertools
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {
    "toy": ["--show", "--verify", "--ranks", "2", "--mode", "exclusive"],
    "full": ["--show", "--verify"],
}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "local_rank": "1",
    "device": "1",
    "partition": "1",
    "numa_node": "1",
    "cpu_count": "1",
    "core_count": "1",
    "ranks_sharing": "1",
    "omp_threads": "1",
}

MODES = ("node", "exclusive")
SCOPES = ("node", "socket")
THREADS = ("all", "one")
MEMORY = ("preferred", "bind", "interleave", "none")

# set_mempolicy(2): numbers of the policies, and of the two system calls by machine.
POLICIES = {"preferred": 1, "bind": 2, "interleave": 3}
PREFERRED_MANY = 5
SYSTEM_CALLS = {
    "x86_64": (238, 239),
    "aarch64": (237, 236),
    "riscv64": (237, 236),
    "ppc64le": (261, 260),
}
MASK_BITS = 1024

NVIDIA_VENDOR = "0x10de"
AMD_VENDOR_ID = 0x1002
VERIFY_SECONDS = 30.0
LOCAL_RANK_NAMES = (
    ("LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    ("SLURM_LOCALID", "SLURM_NTASKS_PER_NODE"),
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ("PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"),
)
VISIBLE_NAMES = (
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "HIP_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
)

Row = dict[str, Any]
Cpus = frozenset[int]


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


class Stopped(Exception):
    """The run ends here, by a signal or by the budget; what was measured is kept."""


class StopSign:
    """Why the run has to end, if it has to: a signal, the budget, or the parent process."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.by_signal = False
        self.deadline: float | None = None

    def listen(self) -> None:
        """End the run on Ctrl-C, on SIGTERM, and on Slurm's early warning."""
        for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._receive)

    def _receive(self, number: int, _frame: Any) -> None:
        self.reason = f"stopped by {signal.Signals(number).name}"
        self.by_signal = True
        # A second signal of the same kind ends a run that hangs.
        signal.signal(number, signal.SIG_DFL)

    def check(self) -> None:
        """Raise Stopped where there is a reason to end."""
        if self.reason is None and self.deadline is not None and time.monotonic() > self.deadline:
            self.reason = "the budget is used up"
        if self.reason is not None:
            raise Stopped(self.reason)


class NumaNode(NamedTuple):
    """A NUMA node: its CPUs, and whether it has memory of its own."""

    number: int
    cpus: Cpus
    has_memory: bool


class Topology(NamedTuple):
    """Nodes of a machine, and for each CPU the first CPU of its core and its socket."""

    nodes: tuple[NumaNode, ...]
    core_of: dict[int, int]
    socket_of: dict[int, int]

    @property
    def cpus(self) -> Cpus:
        """All CPUs of all nodes."""
        return frozenset[int]().union(*(node.cpus for node in self.nodes))


class Accelerator(NamedTuple):
    """A GPU, or a partition that counts as one, and where it is attached."""

    number: int
    vendor: str
    address: str
    uuid: str
    mig_uuids: tuple[str, ...]
    partition: int | None
    node: int | None
    local_cpus: Cpus
    model: str
    source: str


class BindSettings(NamedTuple):
    """How ranks are bound."""

    mode: str = "node"
    scope: str = "node"
    threads: str = "all"
    memory: str = "preferred"
    node_map: tuple[int, ...] | None = None
    cpu_map: tuple[Cpus, ...] | None = None
    device: int | None = None


class Binding(NamedTuple):
    """What one rank is bound to, and how far to trust it."""

    local_rank: int
    device: Accelerator | None
    node: int | None
    cpus: Cpus
    cores: int
    memory_nodes: tuple[int, ...]
    sharing: int
    omp_threads: int
    source: str
    verdict: str

    @property
    def is_bound(self) -> bool:
        """Whether there is something to set."""
        return self.verdict in ("ok", "one node", "crowded")


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def parse_count_or_none(text: str) -> int:
    """A number of things to do that may be none: a whole number from 0."""
    if not re.fullmatch(r"0|[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 0")
    return int(text)


def parse_cpu_list(text: str) -> set[int]:
    """Processors of a list in the notation of /sys: `0-3,8`."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def parse_strict_cpu_list(text: str) -> Cpus:
    """CPUs of a list like `0-3,8` that a person typed. Raises WrongUse for anything else."""
    if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text.strip()):
        raise WrongUse(f"'{text}' is no list of CPUs: write 0-15,32-47")
    cpus = frozenset(parse_cpu_list(text))
    if not cpus:
        raise WrongUse(f"'{text}' is no list of CPUs: a range runs from the lower to the higher")
    return cpus


def format_cpu_list(cpus: Iterable[int]) -> str:
    """`0-3,8`: the notation of /sys, from the lowest; `-` for none."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][1] + 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in parts) or "-"


def read_line(path: Path) -> str | None:
    """The text of a small file without the space around it; None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def read_topology(sysfs: Path = Path("/sys")) -> Topology:
    """Nodes, cores and sockets; a kernel without NUMA has one node, and no /sys none."""
    system = sysfs / "devices" / "system"
    core_of: dict[int, int] = {}
    socket_of: dict[int, int] = {}
    online = frozenset(parse_cpu_list(read_line(system / "cpu" / "online") or ""))
    for cpu in online:
        folder = system / "cpu" / f"cpu{cpu}" / "topology"
        siblings = read_line(folder / "core_cpus_list") or read_line(
            folder / "thread_siblings_list"
        )
        core_of[cpu] = min({*parse_cpu_list(siblings or ""), cpu})
        socket_of[cpu] = int(read_line(folder / "physical_package_id") or 0)
    nodes = []
    for folder in (system / "node").glob("node[0-9]*"):
        cpus = frozenset(parse_cpu_list(read_line(folder / "cpulist") or "")) & online
        total = re.search(r"MemTotal:\s*(\d+)", read_line(folder / "meminfo") or "MemTotal: 1")
        # A node of memory alone (a CXL card, or the memory of a GPU) has no CPU to bind to.
        if cpus:
            has_memory = total is not None and int(total.group(1)) > 0
            nodes.append(NumaNode(int(folder.name[4:]), cpus, has_memory))
    if not nodes and online:
        nodes = [NumaNode(0, online, True)]
    return Topology(tuple(sorted(nodes)), core_of, socket_of)


def normalise_address(text: str) -> str:
    """A PCI address as /sys writes it: `00000000:1A:00.0` is 0000:1a:00.0."""
    found = re.fullmatch(r"([0-9a-fA-F]+):([0-9a-fA-F]+):([0-9a-fA-F]+)\.([0-9a-fA-F])", text)
    if found is None:
        return text.lower()
    domain, bus, device, function = (int(part, 16) for part in found.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


def locate_device(sysfs: Path, address: str) -> tuple[int | None, Cpus, str]:
    """NUMA node, near CPUs and model of a PCI device; None and empty where nobody tells."""
    folder = sysfs / "bus" / "pci" / "devices" / address
    text = read_line(folder / "numa_node") or ""
    node = int(text) if re.fullmatch(r"\d+", text) else None
    near = read_line(folder / "local_cpulist")
    if near is None:
        near = read_line(sysfs / "class" / "pci_bus" / address[:-5] / "cpulistaffinity")
    return node, frozenset(parse_cpu_list(near or "")), read_line(folder / "device") or ""


def make_nvidia(
    sysfs: Path, index: int, address: str, uuid: str, migs: Sequence[str], source: str
) -> Accelerator:
    """An NVIDIA GPU with what /sys says of its place."""
    address = normalise_address(address)
    node, near, model = locate_device(sysfs, address)
    return Accelerator(index, "nvidia", address, uuid, tuple(migs), None, node, near, model, source)


def find_nvidia_by_nvml(sysfs: Path) -> list[Accelerator] | None:
    """The GPUs that NVML lets this process see; None where there is no NVML."""
    try:
        import pynvml
    except ImportError:
        return None
    found: list[Accelerator] = []
    try:
        pynvml.nvmlInit()
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            address = read_nvml_text(pynvml.nvmlDeviceGetPciInfo(handle).busId)
            uuid = read_nvml_text(pynvml.nvmlDeviceGetUUID(handle))
            migs = list_nvml_migs(pynvml, handle)
            found.append(make_nvidia(sysfs, index, address, uuid, migs, "NVML"))
        pynvml.nvmlShutdown()
    except pynvml.NVMLError:
        return None
    return found


def read_nvml_text(value: str | bytes) -> str:
    """A text of NVML: bytes in older bindings."""
    return value.decode() if isinstance(value, bytes) else value


def list_nvml_migs(pynvml: Any, handle: Any) -> list[str]:
    """The UUIDs of the MIG devices of a GPU; empty where it has none."""
    uuids = []
    with contextlib.suppress(pynvml.NVMLError, AttributeError):
        for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            with contextlib.suppress(pynvml.NVMLError):
                device = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
                uuids.append(read_nvml_text(pynvml.nvmlDeviceGetUUID(device)))
    return uuids


def parse_nvidia_list(query: str, listing: str) -> list[tuple[int, str, str, list[str]]]:
    """Index, address, UUID and MIG UUIDs from two texts of nvidia-smi: the query of
    index,pci.bus_id,uuid in CSV, and the list of -L."""
    migs: dict[str, list[str]] = {}
    owner = ""
    for line in listing.splitlines():
        found = re.search(r"UUID:\s*((GPU|MIG)-[^)\s]+)", line)
        if found and found.group(2) == "GPU":
            owner = found.group(1)
        elif found:
            migs.setdefault(owner, []).append(found.group(1))
    gpus = []
    for line in query.splitlines():
        parts = [part.strip() for part in line.split(",")]
        if len(parts) == 3 and parts[0].isdigit():
            gpus.append((int(parts[0]), parts[1], parts[2], migs.get(parts[2], [])))
    return gpus


def find_nvidia_by_command(sysfs: Path) -> list[Accelerator] | None:
    """The GPUs of nvidia-smi; None where there is no such command, or it fails."""
    if shutil.which("nvidia-smi") is None:
        return None
    texts = []
    query = ["--query-gpu=index,pci.bus_id,uuid", "--format=csv,noheader"]
    for arguments in (query, ["-L"]):
        try:
            done = subprocess.run(
                ["nvidia-smi", *arguments], capture_output=True, text=True, timeout=30, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        if done.returncode:
            return None
        texts.append(done.stdout)
    return [make_nvidia(sysfs, *gpu, "nvidia-smi") for gpu in parse_nvidia_list(*texts)]


def find_nvidia_by_driver(sysfs: Path, procfs: Path) -> list[Accelerator] | None:
    """The GPUs under /proc/driver/nvidia, which a container masks; None where there are none."""
    found: list[Accelerator] = []
    for folder in sorted((procfs / "driver" / "nvidia" / "gpus").glob("*:*:*.*")):
        uuid = re.search(r"GPU UUID:\s*(\S+)", read_line(folder / "information") or "")
        text = uuid.group(1) if uuid else ""
        found.append(make_nvidia(sysfs, len(found), folder.name, text, (), "NVIDIA driver"))
    return found or None


def find_nvidia_by_pci(sysfs: Path) -> list[Accelerator] | None:
    """The GPUs by vendor and class of the PCI bus; None where there are none."""
    found: list[Accelerator] = []
    for folder in sorted((sysfs / "bus" / "pci" / "devices").glob("*:*:*.*")):
        is_gpu = (read_line(folder / "class") or "").startswith(("0x0302", "0x0300"))
        if is_gpu and read_line(folder / "vendor") == NVIDIA_VENDOR:
            found.append(make_nvidia(sysfs, len(found), folder.name, "", (), "PCI bus"))
    return found or None


def find_amd(sysfs: Path) -> list[Accelerator] | None:
    """The GPUs of the KFD driver in the order of ROCm, partitions included; None without it.

    A node's location_id is bus, device and function of its PCI address. With partitions the
    number of the partition is in its upper four bits, or in those of the function with kernels
    that had it there; partitions share the address with function 0.
    """
    found: list[Accelerator] = []
    nodes = sysfs / "class" / "kfd" / "kfd" / "topology" / "nodes"
    for folder in sorted(nodes.glob("[0-9]*"), key=lambda path: int(path.name)):
        # A GPU that a cgroup hides from this process has properties that cannot be read.
        text = read_line(folder / "properties") or ""
        values = {k: int(v) for k, v in re.findall(r"^(\w+) (\d+)$", text, re.MULTILINE)}
        if not values.get("simd_count") or values.get("vendor_id") != AMD_VENDOR_ID:
            continue
        place, domain = values.get("location_id", 0), values.get("domain", 0)
        stem = f"{domain:04x}:{(place >> 8) & 0xFF:02x}:{(place >> 3) & 0x1F:02x}"
        partition, address = place >> 28, f"{stem}.{place & 7}"
        if place & 7 and not (sysfs / "bus" / "pci" / "devices" / address).exists():
            partition, address = place & 7, f"{stem}.0"
        node, near, model = locate_device(sysfs, address)
        uuid = f"GPU-{values.get('unique_id', 0):016x}"
        found.append(
            Accelerator(len(found), "amd", address, uuid, (), partition, node, near, model, "KFD")
        )
    if not found:
        return None
    shared = [device.address for device in found]
    return [
        device if shared.count(device.address) > 1 else device._replace(partition=None)
        for device in found
    ]


def find_accelerators(
    sysfs: Path = Path("/sys"), procfs: Path = Path("/proc")
) -> list[Accelerator]:
    """All GPUs of this machine that this process may see, by the best source there is."""
    if sysfs == Path("/sys"):
        for find in (find_nvidia_by_nvml, find_nvidia_by_command):
            if devices := find(sysfs):
                return devices
    return (
        find_nvidia_by_driver(sysfs, procfs) or find_amd(sysfs) or find_nvidia_by_pci(sysfs) or []
    )


def match_identifier(device: Accelerator, token: str) -> bool:
    """Whether a UUID, the beginning of one, or a MIG device's name, is of this GPU."""
    if token.startswith("MIG-GPU-"):  # the older names: MIG-<UUID of the GPU>/instance/instance
        return bool(device.uuid) and token.removeprefix("MIG-").split("/")[0] == device.uuid
    names = (device.uuid, *device.mig_uuids)
    return any(name.startswith(token) for name in names if name)


def select_devices(devices: Sequence[Accelerator], value: str) -> list[Accelerator]:
    """The devices of a list of indices and UUIDs, in its order, up to the first that is not there.

    A list that names something twice selects nothing, as CUDA has it.
    """
    tokens = [token.strip() for token in value.split(",")]
    if len(set(tokens)) < len(tokens):
        return []
    chosen = []
    for token in tokens:
        if re.fullmatch(r"\d+", token):
            matching = list(devices[int(token) : int(token) + 1])
        elif token.startswith(("GPU-", "MIG-")):
            matching = [device for device in devices if match_identifier(device, token)]
        else:
            matching = []
        # Partitions of one GPU may share its UUID: they share its place too.
        if not matching or len({device.address for device in matching}) > 1:
            break
        chosen.append(matching[0])
    return chosen


def find_visible(
    devices: Sequence[Accelerator], environ: Mapping[str, str]
) -> tuple[list[Accelerator], list[str]]:
    """The devices in the order that the program numbers them, and what is doubtful about it."""
    visible = list(devices)
    caveats = []
    if devices and devices[0].vendor == "amd":
        # ROCR hides first; the others count what it leaves.
        names = ["ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"]
        names.append("HIP_VISIBLE_DEVICES" if "HIP_VISIBLE_DEVICES" in environ else "")
        names[2] = names[2] or "CUDA_VISIBLE_DEVICES"
    else:
        names = ["CUDA_VISIBLE_DEVICES"]
        models = {device.model for device in devices}
        if len(models) > 1 and environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            caveats.append(
                "the GPUs are not all of one model, and CUDA then numbers them by speed: set "
                "CUDA_DEVICE_ORDER=PCI_BUS_ID to be sure which is which"
            )
    for name in names:
        if name in environ and visible:
            before, visible = len(visible), select_devices(visible, environ[name])
            wanted = len(environ[name].split(",")) if environ[name] else 0
            if len(visible) < wanted:
                caveats.append(
                    f"{name}={environ[name]} selects {len(visible)} of {before} devices: the rest "
                    "of it names none, or one twice, or a MIG device without NVML or nvidia-smi"
                )
    return visible, caveats


def read_local_place(environ: Mapping[str, str]) -> tuple[int, int | None] | None:
    """Local rank and number of local ranks, from the launcher's variables; None without one.

    Raises WrongUse where such a variable is set to something else: no rank is guessed.
    """
    for rank_name, size_name in LOCAL_RANK_NAMES:
        if environ.get(rank_name):
            rank = read_launcher_number(environ, rank_name)
            size: int | None = None
            if environ.get(size_name):
                size = read_launcher_number(environ, size_name)
            elif rank_name == "SLURM_LOCALID":
                # `8(x3)` is 8 tasks on each of 3 nodes; unequal nodes cannot be told apart here.
                found = re.fullmatch(r"(\d+)(?:\(x\d+\))?", environ.get("SLURM_TASKS_PER_NODE", ""))
                size = int(found.group(1)) if found else None
            return rank, size
    return None


def read_launcher_number(environ: Mapping[str, str], name: str) -> int:
    """The number in a launcher's variable. Raises WrongUse where it holds something else."""
    if not re.fullmatch(r"[0-9]+", environ[name]):
        raise WrongUse(f"the variable {name} is '{environ[name]}', which is no whole number from 0")
    return int(environ[name])


def check_rank(rank: int, size: int | None) -> None:
    """Raises WrongUse where a local rank is not among so many; of an unknown number any is."""
    if size is not None and rank >= size:
        raise WrongUse(
            f"local rank {rank} is not among {size}: local ranks are from 0 to {size - 1}"
        )


def read_allowed_nodes(procfs: Path = Path("/proc")) -> frozenset[int] | None:
    """The nodes whose memory this process may use; None where nobody tells."""
    found = re.search(
        r"^Mems_allowed_list:\s*(\S+)", read_line(procfs / "self" / "status") or "", re.MULTILINE
    )
    return frozenset(parse_cpu_list(found.group(1))) if found else None


def read_cpu_quota(sysfs: Path = Path("/sys"), procfs: Path = Path("/proc")) -> float | None:
    """How many CPUs' time the cgroups (version 2) of this process grant it; None for no limit."""
    found = re.search(r"^0::/(.*)$", read_line(procfs / "self" / "cgroup") or "", re.MULTILINE)
    root = sysfs / "fs" / "cgroup"
    folder = root / (found.group(1) if found else "")
    quotas = []
    while folder == root or root in folder.parents:
        limit = re.fullmatch(r"(\d+) (\d+)", read_line(folder / "cpu.max") or "")
        if limit:
            quotas.append(int(limit.group(1)) / int(limit.group(2)))
        folder = folder.parent
    return min(quotas, default=None)


def split_cores(topology: Topology, cpus: Cpus, parts: int) -> list[Cpus]:
    """The CPUs in so many shares of whole cores, which differ by one core at most.

    Cores stay in the order of their numbers, so that neighbours share a cache. Where there are
    fewer cores than parts, each part is all of them.
    """
    cores: dict[int, set[int]] = {}
    for cpu in sorted(cpus):
        cores.setdefault(topology.core_of.get(cpu, cpu), set()).add(cpu)
    ordered = [cores[first] for first in sorted(cores)]
    if len(ordered) < parts:
        return [cpus] * parts
    ends = [len(ordered) * part // parts for part in range(parts + 1)]
    return [frozenset[int]().union(*ordered[start:end]) for start, end in itertools.pairwise(ends)]


def keep_one_thread(topology: Topology, cpus: Cpus) -> Cpus:
    """One CPU of each core: the lowest of those given."""
    first: dict[int, int] = {}
    for cpu in sorted(cpus):
        first.setdefault(topology.core_of.get(cpu, cpu), cpu)
    return frozenset(first.values())


def choose_device_of_rank(
    rank: int, visible: Sequence[Accelerator], settings: BindSettings
) -> Accelerator | None:
    """The GPU of a local rank; None without any. Raises WrongUse where there are too few."""
    if not visible:
        if settings.device is not None:
            raise WrongUse(
                f"--device {settings.device}: no accelerator is visible here; leave it out, or say "
                "the CPUs with --node_map or --cpu_map"
            )
        return None
    if len(visible) == 1 and settings.device is None:
        return visible[0]
    index = rank if settings.device is None else settings.device
    if index >= len(visible):
        raise WrongUse(
            f"local rank {rank} has no device {index}: {len(visible)} are visible; name one with "
            "--device, or say it with --node_map or --cpu_map"
        )
    return visible[index]


def choose_from_map(name: str, given: Sequence[Any], rank: int) -> Any:
    """The entry of a local rank. Raises WrongUse where the map is too short."""
    if rank >= len(given):
        raise WrongUse(f"--{name} has {len(given)} entries, and none for local rank {rank}")
    return given[rank]


class Near(NamedTuple):
    """The CPUs near to a rank before anything else is asked; empty where nobody tells."""

    device: Accelerator | None
    cpus: Cpus
    source: str


def find_near_cpus(
    topology: Topology,
    visible: Sequence[Accelerator],
    rank: int,
    ranks: int,
    settings: BindSettings,
) -> Near:
    """Which CPUs are next to a rank's GPU, and who says so. Raises WrongUse for a wrong map."""
    by_number = {node.number: node.cpus for node in topology.nodes}
    if settings.cpu_map is not None:
        cpus = choose_from_map("cpu_map", settings.cpu_map, rank)
        if topology.nodes and not cpus <= topology.cpus:
            strange = format_cpu_list(cpus - topology.cpus)
            raise WrongUse(f"--cpu_map: this machine has no CPU {strange}")
        return Near(None, cpus, "given CPUs")
    if settings.node_map is not None:
        number = choose_from_map("node_map", settings.node_map, rank)
        if number not in by_number:
            here = ", ".join(map(str, by_number))
            raise WrongUse(f"--node_map: there is no node {number} with CPUs; there are {here}")
        return Near(None, by_number[number], "given node")
    device = choose_device_of_rank(rank, visible, settings)
    if not topology.nodes:
        return Near(device, frozenset(), "nothing")
    if device is None:
        spread = topology.nodes[rank * len(topology.nodes) // max(ranks, rank + 1)]
        return Near(None, spread.cpus, "spread over nodes")
    if device.node is not None and device.node in by_number:
        return Near(device, by_number[device.node], device.source)
    # The CPUs near to a bus on no node are all CPUs, which says nothing.
    near = device.local_cpus & topology.cpus
    if near and (near != topology.cpus or len(topology.nodes) == 1):
        return Near(device, near, device.source)
    if len(topology.nodes) == 1:
        return Near(device, topology.cpus, "only node")
    return Near(device, frozenset(), device.source)


def widen_to_sockets(topology: Topology, cpus: Cpus) -> Cpus:
    """All CPUs of the sockets of these CPUs."""
    sockets = {topology.socket_of.get(cpu, 0) for cpu in cpus}
    return frozenset(cpu for cpu in topology.cpus if topology.socket_of.get(cpu, 0) in sockets)


def plan_bindings(
    topology: Topology,
    visible: Sequence[Accelerator],
    ranks: int,
    allowed: Iterable[int],
    settings: BindSettings,
    memory_allowed: frozenset[int] | None = None,
    quota: float | None = None,
) -> list[Binding]:
    """What each of the local ranks is bound to. Raises WrongUse where a map or --device is wrong.

    `allowed` are the CPUs that this process may use, `memory_allowed` the nodes, and `quota` how
    many CPUs' time it is granted.
    """
    may_use = frozenset(allowed) & topology.cpus or topology.cpus or frozenset(allowed)
    nears = [find_near_cpus(topology, visible, rank, ranks, settings) for rank in range(ranks)]
    usable = []
    for near in nears:
        is_given = settings.cpu_map is not None
        wide = settings.scope == "socket" and not is_given
        usable.append((widen_to_sockets(topology, near.cpus) if wide else near.cpus) & may_use)
    plan = []
    for rank, (near, cpus) in enumerate(zip(nears, usable, strict=True)):
        alike = [other for other, theirs in enumerate(usable) if theirs == cpus]
        verdict = "one node" if len(topology.nodes) == 1 and not settings.cpu_map else "ok"
        sharing = len(alike)
        if not cpus:
            verdict = "not allowed" if near.cpus else "unknown"
            cpus, sharing = may_use, ranks
        elif settings.mode == "exclusive" and settings.cpu_map is None:
            shares = split_cores(topology, cpus, len(alike))
            is_crowded = len(alike) > 1 and shares[0] == shares[1]
            verdict = "crowded" if is_crowded else verdict
            cpus, sharing = shares[alike.index(rank)], sharing if is_crowded else 1
        if settings.threads == "one" and verdict not in ("not allowed", "unknown"):
            cpus = keep_one_thread(topology, cpus)
        nodes = [node for node in topology.nodes if node.cpus & cpus]
        cores = len({topology.core_of.get(cpu, cpu) for cpu in cpus})
        granted = cores / sharing if quota is None else min(cores / sharing, quota / ranks)
        plan.append(
            Binding(
                local_rank=rank,
                device=near.device,
                node=nodes[0].number if len(nodes) == 1 else None,
                cpus=cpus,
                cores=cores,
                memory_nodes=tuple(
                    node.number
                    for node in nodes
                    if node.has_memory and (memory_allowed is None or node.number in memory_allowed)
                ),
                sharing=sharing,
                omp_threads=max(1, int(granted)),
                source=near.source,
                verdict=verdict,
            )
        )
    return plan


def find_plan_remarks(
    topology: Topology, plan: Sequence[Binding], may_use: Cpus, settings: BindSettings
) -> list[str]:
    """What a reader of the plan should know: unknown nodes, idle CPUs, hidden neighbours."""
    remarks = []
    unknown = [binding for binding in plan if binding.verdict == "unknown"]
    if unknown and not topology.nodes:
        remarks.append("/sys tells of no CPU here, so ranks were left unbound; see --cpu_map")
    elif unknown:
        remarks.append(
            f"nobody tells to which node the device of {len(unknown)} of {len(plan)} ranks is "
            "attached, so they were left unbound; say it with --node_map"
        )
    if any(binding.verdict == "not allowed" for binding in plan):
        remarks.append(
            "some ranks may use none of the CPUs next to their device: the launcher, a container "
            "or taskset gave them others. Let it bind nothing (srun --cpu-bind=none), or right"
        )
    if any(binding.verdict == "crowded" for binding in plan):
        remarks.append("there are fewer cores than ranks, so exclusive shares were not made")
    if len(may_use) < len(topology.cpus):
        remarks.append(
            f"this process may use {len(may_use)} of {len(topology.cpus)} CPUs: "
            f"{format_cpu_list(may_use)}"
        )
    used = frozenset[int]().union(*(binding.cpus for binding in plan))
    near = {topology.socket_of.get(cpu, 0) for cpu in used}
    idle = [
        node.number
        for node in topology.nodes
        if not node.cpus & used and {topology.socket_of.get(cpu, 0) for cpu in node.cpus} <= near
    ]
    if idle and settings.scope == "node" and any(b.device for b in plan):
        remarks.append(
            f"nodes {', '.join(map(str, idle))} have no GPU, but share a socket with nodes that "
            "have: --scope socket uses their CPUs too"
        )
    devices = [binding.device for binding in plan if binding.device]
    is_alone = len({device.address for device in devices}) == 1 and devices[0].partition is None
    if settings.mode == "exclusive" and len(plan) > 1 and is_alone:
        remarks.append(
            "all ranks see the same one device. If the launcher shows each rank another one, "
            "their shares cannot be told apart: use --mode node"
        )
    return remarks


def call_system(number: int, *arguments: Any) -> int:
    """A system call by its number; the errno, or 0."""
    library = ctypes.CDLL(None, use_errno=True)
    done = library.syscall(ctypes.c_long(number), *arguments)
    return ctypes.get_errno() if done else 0


def set_memory_policy(memory: str, nodes: Sequence[int]) -> str | None:
    """Set the policy of the calling thread, which threads and programs it starts inherit; None, or
    why not."""
    numbers = SYSTEM_CALLS.get(platform.machine())
    if numbers is None:
        return f"the number of set_mempolicy on {platform.machine()} is not known here"
    if not nodes:
        return "none of the nodes has memory that this process may use"
    mask = (ctypes.c_ulong * (MASK_BITS // 64))()
    for node in nodes:
        mask[node // 64] |= 1 << (node % 64)
    policy = POLICIES[memory]
    if memory == "preferred" and len(nodes) > 1:
        policy = PREFERRED_MANY
    # The kernel takes one off the number of bits.
    error = call_system(numbers[0], ctypes.c_int(policy), mask, ctypes.c_ulong(MASK_BITS + 1))
    return os.strerror(error) if error else None


def read_memory_policy() -> tuple[int, tuple[int, ...]] | None:
    """The policy of the calling thread, and its nodes; None where it cannot be asked."""
    numbers = SYSTEM_CALLS.get(platform.machine())
    if numbers is None:
        return None
    mode = ctypes.c_int()
    mask = (ctypes.c_ulong * (MASK_BITS // 64))()
    bits = ctypes.c_ulong(MASK_BITS + 1)
    if call_system(numbers[1], ctypes.byref(mode), mask, bits, ctypes.c_void_p(), ctypes.c_ulong()):
        return None
    nodes = tuple(n for n in range(MASK_BITS) if mask[n // 64] >> (n % 64) & 1)
    return mode.value, nodes


def apply_binding(binding: Binding, memory: str) -> list[str]:
    """Bind all threads of this process, and set the memory policy; what could not be done."""
    if not binding.is_bound:
        return [f"not bound: {binding.verdict}"]
    remarks = []
    # The policy first: its numbers are wanted where the pages of what follows will be.
    if memory != "none":
        reason = set_memory_policy(memory, binding.memory_nodes)
        if reason:
            remarks.append(f"no memory policy was set: {reason}")
    try:
        os.sched_setaffinity(0, binding.cpus)
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), binding.cpus)
    except OSError as error:
        remarks.append(f"not bound: {error.strerror}")
    return remarks


def check_platform() -> None:
    """Raises WrongUse where the system has no CPU affinity."""
    if not hasattr(os, "sched_setaffinity"):
        raise WrongUse(f"binding needs Linux; this is {platform.system()}")


def plan_here(
    ranks: int, settings: BindSettings, environ: Mapping[str, str]
) -> tuple[list[Binding], list[str]]:
    """The plan for so many ranks of this machine, and remarks on it. Raises WrongUse."""
    check_platform()
    topology = read_topology()
    needs_devices = settings.node_map is None and settings.cpu_map is None
    devices = find_accelerators() if needs_devices else []
    visible, remarks = find_visible(devices, environ)
    if devices and not visible:
        remarks.append("no device is visible, so ranks are spread over the nodes")
    own = frozenset(os.sched_getaffinity(0))
    may_use = own & topology.cpus if topology.nodes else own
    plan = plan_bindings(
        topology, visible, ranks, may_use, settings, read_allowed_nodes(), read_cpu_quota()
    )
    return plan, remarks + find_plan_remarks(topology, plan, may_use, settings)


def bind(local_rank: int | None = None, local_size: int | None = None, **settings: Any) -> Binding:
    """Bind this process to the CPUs next to its GPU; the binding. For use inside a program.

    Rank and size come from the launcher's variables where they are not given; settings are the
    fields of BindSettings. Call it before torch is imported. What cannot be bound is left as it is,
    and `verdict` says why. Raises WrongUse for a wrong setting, and for a rank that is not among
    the local_size that is given.
    """
    place = read_local_place(os.environ)
    if local_rank is None:
        local_rank = place[0] if place else 0
    check_rank(local_rank, local_size)
    size = local_size or (place[1] if place else None) or 1
    chosen = BindSettings(**settings)
    plan, _ = plan_here(max(size, local_rank + 1), chosen, os.environ)
    binding = plan[local_rank]
    for remark in apply_binding(binding, chosen.memory):
        write_note(f"local rank {local_rank}: {remark}")
    return binding


def describe_binding(binding: Binding, settings: BindSettings) -> str:
    """One line on what a rank is bound to."""
    where = f"device {binding.device.number} " if binding.device else ""
    node = "" if binding.node is None else f"node {binding.node}, "
    memory = f", memory {settings.memory}" if settings.memory != "none" else ""
    return (
        f"local rank {binding.local_rank}: {where}{node}{len(binding.cpus)} CPUs "
        f"{format_cpu_list(binding.cpus)}{memory} ({binding.verdict}, by {binding.source})"
    )


def hide_folders(text: str) -> str:
    """The text with absolute paths cut down to their last part: folders name people and hosts."""
    name, equals, value = text.partition("=")
    if equals and value.startswith(("/", "~")):
        return f"{name}={Path(value).name}"
    return Path(text).name if text.startswith(("/", "~")) else text


def make_portable_command(arguments: Sequence[str]) -> list[str]:
    """The command line as another machine would type it, without absolute paths."""
    script = Path(__file__)
    with contextlib.suppress(ValueError, OSError):  # a folder that was deleted has no name
        script = script.resolve().relative_to(Path.cwd().resolve())
    name = script.name if script.is_absolute() else script.as_posix()
    return ["python", name, *(hide_folders(argument) for argument in arguments)]


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write the JSON whole: under another name, then moved; a pipe or a device is written to, and
    a symbolic link followed. Raises WrongUse where it cannot be."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    target = path.resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def check_json_path(path: Path | None) -> None:
    """Raises WrongUse where --json names a folder, or a file in a folder that is not there or takes
    no files."""
    if path is None:
        return
    if path.is_dir():
        raise WrongUse(f"--json: {path} is a folder; name a file in it")
    target = path.resolve()
    if not target.parent.is_dir():
        raise WrongUse(f"--json: there is no folder {target.parent}")
    if path.exists() and not path.is_file():  # a pipe or a device, which writing shows
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def make_document_head(
    tool: str, numbers: tuple[str, int], command: Sequence[str], origin: float
) -> dict[str, Any]:
    """The opening of the JSON: tool, version and method, command, start, and seconds until now.

    `origin` is the reading of time.monotonic() when the run began.
    """
    seconds = time.monotonic() - origin
    started = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    return {
        "tool": tool,
        "version": numbers[0],
        "method": numbers[1],
        "command": list(command),
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(seconds, 3),
    }


def write_note(text: str) -> None:
    """One note for the reader, beside the table."""
    print(f"note: {text}", file=sys.stderr)


def format_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and all others to the right."""
    cells = [list(headings), *(list(row) for row in rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(headings))]

    def join(row: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [f":{'-' * (w - 1)}" if i == 0 else f"{'-' * (w - 1)}:" for i, w in enumerate(widths)]
    return "\n".join([join(cells[0]), f"| {' | '.join(rule)} |", *map(join, cells[1:])])


CHILD = (
    "import json, os; print(json.dumps([sorted(os.sched_getaffinity(0)), "
    "os.environ.get('OMP_NUM_THREADS')]))"
)


def verify_binding(binding: Binding, ranks: int, arguments: Sequence[str]) -> bool | None:
    """Whether a program started through this tool has the planned CPUs; None where none was bound.

    `arguments` are the options of the plan.
    """
    if not binding.is_bound:
        return None
    environ = {**os.environ, "LOCAL_RANK": str(binding.local_rank)}
    environ["LOCAL_WORLD_SIZE"] = str(ranks)
    command = [sys.executable, str(Path(__file__).resolve()), *arguments, "--quiet", "--"]
    try:
        done = subprocess.run(
            [*command, sys.executable, "-c", CHILD],
            capture_output=True,
            text=True,
            timeout=VERIFY_SECONDS,
            check=False,
            env=environ,
        )
        cpus, _ = json.loads(done.stdout)
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return False
    return done.returncode == 0 and set(cpus) == binding.cpus


def make_binding_row(binding: Binding, verified: bool | None) -> Row:
    """One row of results."""
    device = binding.device
    return {
        "local_rank": binding.local_rank,
        "device": device.number if device else None,
        "vendor": device.vendor if device else None,
        "pci_address": device.address if device else None,
        "partition": device.partition if device else None,
        "numa_node": binding.node,
        "cpus": format_cpu_list(binding.cpus),
        "cpu_count": len(binding.cpus),
        "core_count": binding.cores,
        "memory_nodes": ",".join(map(str, binding.memory_nodes)) or None,
        "ranks_sharing": binding.sharing,
        "omp_threads": binding.omp_threads,
        "source": binding.source,
        "verdict": binding.verdict,
        "verified": verified,
    }


def print_report(rows: Sequence[Row], remarks: Sequence[str], is_complete: bool) -> int:
    """The table to stdout, notes and the verdict to stderr; the number of problems."""
    lines = []
    for row in rows:
        device = "-" if row["device"] is None else f"{row['device']} {row['pci_address']}"
        if row["partition"] is not None:
            device += f" partition {row['partition']}"
        node = "-" if row["numa_node"] is None else str(row["numa_node"])
        checked = {True: "yes", False: "NO", None: "-"}[row["verified"]]
        place = [str(row["local_rank"]), device, node, row["cpus"], str(row["core_count"])]
        lines.append([*place, str(row["omp_threads"]), row["source"], checked, row["verdict"]])
    headings = ["Rank", "Device", "NUMA node", "CPUs", "Cores", "OMP threads", "By", "Verified"]
    if lines:
        print(format_table([*headings, "Verdict"], lines))
    for remark in remarks:
        write_note(remark)
    problems = []
    wrong = [row["local_rank"] for row in rows if row["verified"] is False]
    if wrong:
        problems.append(f"ranks {', '.join(map(str, wrong))} did not get the CPUs of the plan")
    if any(row["verdict"] == "not allowed" for row in rows):
        problems.append("some ranks may use none of the CPUs next to their device")
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    if is_complete and not problems:
        print(f"verdict: {choose_plan_verdict(rows)}", file=sys.stderr)
    return len(problems)


def choose_plan_verdict(rows: Sequence[Row]) -> str:
    """The plan in a sentence."""
    verdicts = {row["verdict"] for row in rows}
    has_devices = any(row["device"] is not None for row in rows)
    if "unknown" in verdicts and not has_devices:
        return "this machine does not tell where its CPUs are: ranks run anywhere"
    if "unknown" in verdicts:
        return "the place of some devices is unknown: those ranks run anywhere"
    if verdicts <= {"one node", "crowded"}:
        return "this machine has one NUMA node, so every CPU is as near as any other"
    if not has_devices:
        return "there is no accelerator here: ranks are bound as the map says, or spread over nodes"
    return f"each of {len(rows)} ranks runs on the CPUs next to its device"


def show_plan(
    options: argparse.Namespace, arguments: Sequence[str], stop: StopSign, origin: float
) -> int:
    """Print, check and write the plan of this machine; the exit status."""
    settings = read_settings(options)
    place = read_local_place(os.environ)
    ranks = options.ranks or (place[1] if place else None)
    if ranks is None:
        visible, _ = find_visible(find_accelerators(), os.environ)
        ranks = len(settings.cpu_map or settings.node_map or visible) or 2
    plan, remarks = plan_here(ranks, settings, os.environ)
    rows: list[Row] = []
    is_complete = True
    try:
        for binding in plan:
            verified = None
            stop.check()
            if options.verify:
                verified = verify_binding(binding, ranks, list_plan_options(options))
            rows.append(make_binding_row(binding, verified))
        stop.check()
    except Stopped as stopped:
        is_complete = False
        remarks.append(f"{stopped}, after {len(rows)} of {len(plan)} ranks")
    try:
        if options.json:
            head = make_document_head(
                "numa_bind", (__version__, METHOD), make_portable_command(arguments), origin
            )
            topology = read_topology()
            names = [name for name in VISIBLE_NAMES if name in os.environ]
            nodes = {str(node.number): format_cpu_list(node.cpus) for node in topology.nodes}
            document = {
                **head,
                "complete": is_complete,
                "units": UNITS,
                "results": rows,
                "caveats": remarks,
                "details": {
                    "nodes": nodes,
                    "sockets": len(set(topology.socket_of.values())),
                    "settings": {k: getattr(settings, k) for k in ("mode", "scope", "threads")},
                    "memory": settings.memory,
                    "variables_set": names,
                    "platform": f"{platform.system()} {platform.machine()}",
                    "python": platform.python_version(),
                },
            }
            write_document(options.json, document)
    finally:  # a disk that is full loses no table
        problems = print_report(rows, remarks, is_complete)
    return 1 if problems or not is_complete else 0


def run_program(options: argparse.Namespace, program: Sequence[str]) -> int:
    """Bind this process and become the program; returns only where that fails."""
    settings = read_settings(options)
    place = read_local_place(os.environ)
    rank = options.local_rank if options.local_rank is not None else (place[0] if place else 0)
    check_rank(rank, options.ranks)
    size = options.ranks or (place[1] if place else None) or 1
    plan, remarks = plan_here(max(size, rank + 1), settings, os.environ)
    binding = plan[rank]
    failures = apply_binding(binding, settings.memory)
    if not options.quiet:
        print(describe_binding(binding, settings), file=sys.stderr)
        # What holds for all ranks is said once.
        for remark in [*failures, *(remarks if rank == 0 else [])]:
            write_note(f"local rank {rank}: {remark}")
    if options.strict and any(failure.startswith("not bound") for failure in failures):
        print(f"local rank {rank} is not bound, and --strict is given", file=sys.stderr)
        return 1
    wanted = options.omp_threads
    if wanted == "auto" or (wanted == "unset" and "OMP_NUM_THREADS" not in os.environ):
        os.environ["OMP_NUM_THREADS"] = str(binding.omp_threads)
    elif wanted.isdigit():
        os.environ["OMP_NUM_THREADS"] = wanted
    command = list(program)
    if command[0].endswith(".py"):
        command = [sys.executable, *command]
    sys.stdout.flush()
    sys.stderr.flush()
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and the program would inherit that
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise WrongUse(f"could not start {command[0]}: {error.strerror}") from error


def parse_node_map(text: str) -> tuple[int, ...]:
    """`3,3,1,1`: the node of each local rank."""
    if not re.fullmatch(r"\d+(,\d+)*", text):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of nodes: write 0,0,1,1")
    return tuple(int(part) for part in text.split(","))


def parse_cpu_map(text: str) -> tuple[Cpus, ...]:
    """`0-15/16-31`: the CPUs of each local rank."""
    try:
        return tuple(parse_strict_cpu_list(part) for part in text.split("/"))
    except WrongUse as error:
        raise argparse.ArgumentTypeError(f"{error}, and a / between ranks") from error


def parse_omp_threads(text: str) -> str:
    """`unset`, `auto`, `keep` or a number from 1."""
    if text in ("unset", "auto", "keep") or re.fullmatch(r"[1-9]\d*", text):
        return text
    raise argparse.ArgumentTypeError(f"'{text}': write unset, auto, keep or a number from 1")


def read_settings(options: argparse.Namespace) -> BindSettings:
    """The settings of the command line."""
    return BindSettings(**{name: getattr(options, name) for name in BindSettings._fields})


def list_plan_options(options: argparse.Namespace) -> list[str]:
    """The options of the plan as another run of this tool takes them."""
    arguments = []
    for name in ("mode", "scope", "threads", "memory", "device"):
        if getattr(options, name) is not None:
            arguments += [f"--{name}", str(getattr(options, name))]
    if options.node_map is not None:
        arguments += ["--node_map", ",".join(map(str, options.node_map))]
    if options.cpu_map is not None:
        arguments += ["--cpu_map", "/".join(map(format_cpu_list, options.cpu_map))]
    return arguments


def run_self_test() -> int:
    """Check the planning on made-up machines, and a real binding; 0, or 1 where a check fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    check("0-3,8 is five CPUs, and back", format_cpu_list(parse_cpu_list("0-3,8")) == "0-3,8")
    with tempfile.TemporaryDirectory(prefix="numa_") as folder:
        sysfs = Path(folder)
        write_fake_machine(sysfs, sockets=2, cores=4, gpus=2)
        topology = read_topology(sysfs)
        devices = find_accelerators(sysfs, sysfs / "proc")
    check("a machine of two sockets has two nodes of 8 CPUs", len(topology.nodes) == 2)
    check("its four GPUs are found", [d.node for d in devices] == [0, 0, 1, 1])
    everything = topology.cpus
    plan = plan_bindings(topology, devices, 4, everything, BindSettings())
    lists = [format_cpu_list(b.cpus) for b in plan]
    check("ranks share their node", lists == ["0-3,8-11"] * 2 + ["4-7,12-15"] * 2)
    plan = plan_bindings(topology, devices, 4, everything, BindSettings(mode="exclusive"))
    check("exclusive shares are cores", format_cpu_list(plan[1].cpus) == "2-3,10-11")
    visible, _ = find_visible(devices, {"CUDA_VISIBLE_DEVICES": "3,0"})
    plan = plan_bindings(topology, visible, 2, everything, BindSettings())
    check("CUDA_VISIBLE_DEVICES=3,0 turns nodes round", [b.node for b in plan] == [1, 0])
    plan = plan_bindings(topology, devices, 4, range(4), BindSettings())
    check("forbidden CPUs are not planned", [b.verdict for b in plan][2] == "not allowed")
    if hasattr(os, "sched_getaffinity"):
        own = sorted(os.sched_getaffinity(0))
        binding = plan_here(1, BindSettings(cpu_map=(frozenset(own[:1]),)), {})[0][0]
        verified = verify_binding(binding, 1, ["--cpu_map", str(own[0]), "--memory", "none"])
        check("a program started through this tool has the planned CPU", verified is True)
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def write_fake_machine(sysfs: Path, sockets: int, cores: int, gpus: int) -> None:
    """A tree in the form of /sys: so many sockets, each with cores of two threads and GPUs."""
    total = sockets * cores
    files = {"devices/system/cpu/online": f"0-{2 * total - 1}"}
    for cpu in range(2 * total):
        core = cpu % total
        place = f"devices/system/cpu/cpu{cpu}/topology"
        files[f"{place}/core_cpus_list"] = f"{core},{core + total}"
        files[f"{place}/physical_package_id"] = str(core // cores)
    for socket in range(sockets):
        first = socket * cores
        cpus = f"{first}-{first + cores - 1},{first + total}-{first + total + cores - 1}"
        files[f"devices/system/node/node{socket}/cpulist"] = cpus
        for gpu in range(gpus):
            place = f"bus/pci/devices/0000:{16 * (socket + 1) + gpu:02x}:00.0"
            files[f"{place}/vendor"] = NVIDIA_VENDOR
            files[f"{place}/class"] = "0x030200"
            files[f"{place}/numa_node"] = str(socket)
    for name, text in files.items():
        path = sysfs / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n", encoding="utf-8")


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="numa_bind.py",
        usage="numa_bind.py [options] [--] PROGRAM [ARGUMENTS], or numa_bind.py --show",
        description="Bind a rank to the CPUs next to its GPU, and start a program there.",
        epilog="The docstring at the top of this file tells how CPUs are chosen.",
        allow_abbrev=False,
    )
    how = parser.add_argument_group("binding")
    how.add_argument("--mode", choices=MODES, default="node", help="shared or own (default: node)")
    how.add_argument("--scope", choices=SCOPES, default="node", help="how far is near")
    how.add_argument("--threads", choices=THREADS, default="all", help="of each core")
    how.add_argument(
        "--memory", choices=MEMORY, default="preferred", help="policy (default: preferred)"
    )
    how.add_argument(
        "--omp_threads",
        type=parse_omp_threads,
        default="unset",
        metavar="N",
        help="OMP_NUM_THREADS: unset (set it where it is not), auto, keep, or a number",
    )
    given = parser.add_argument_group("where the machine does not tell")
    given.add_argument(
        "--node_map", type=parse_node_map, metavar="N,N", help="NUMA node of each local rank"
    )
    given.add_argument(
        "--cpu_map", type=parse_cpu_map, metavar="LIST/LIST", help="CPUs of each local rank"
    )
    given.add_argument(
        "--device", type=parse_count_or_none, metavar="N", help="the visible device of this rank"
    )
    given.add_argument(
        "--local_rank", type=parse_count_or_none, metavar="N", help="instead of the launcher's"
    )
    given.add_argument("--ranks", type=parse_count, metavar="N", help="local ranks")
    output = parser.add_argument_group("output")
    output.add_argument("--show", action="store_true", help="print the plan; start nothing")
    output.add_argument(
        "--verify", action="store_true", help="with --show: start a program for each rank and look"
    )
    output.add_argument("--json", type=Path, metavar="PATH", help="with --show: the plan as JSON")
    output.add_argument("--quiet", action="store_true", help="say nothing before the program")
    output.add_argument(
        "--strict", action="store_true", help="do not start the program where it is not bound"
    )
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"numa_bind {__version__} (method {METHOD})"
    )
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, metavar="PROGRAM", help="what to start, with arguments"
    )
    return parser


def check_options(options: argparse.Namespace, program: Sequence[str]) -> None:
    """Raises WrongUse for what makes no sense together."""
    check_json_path(options.json)
    if options.show and program:
        raise WrongUse("--show starts nothing: leave the program out, or --show")
    if not options.show and not program:
        raise WrongUse("name a program to start, or --show to see what would be bound")
    for name in ("verify", "json"):
        if getattr(options, name) and not options.show:
            raise WrongUse(f"--{name} is for --show")
    for name in ("quiet", "strict"):
        if getattr(options, name) and options.show:
            raise WrongUse(f"--{name} is for starting a program, not for --show")
    if options.show and options.local_rank is not None:
        raise WrongUse("--local_rank is for starting a program; --show shows all ranks")
    if options.node_map is not None and options.cpu_map is not None:
        raise WrongUse("--node_map and --cpu_map say the same twice; give one")
    if options.cpu_map is not None and (options.mode, options.scope) != ("node", "node"):
        raise WrongUse("--cpu_map says all: --mode and --scope have nothing to choose")
    if options.device is not None and (options.node_map or options.cpu_map):
        raise WrongUse("--device finds CPUs by the device; a map does without it")


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    # What stands behind the first -- is the program's, whatever it looks like.
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:cut])
    program = options.program + (arguments[cut:] if options.program else arguments[cut + 1 :])
    stop = StopSign()
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_options(options, program)
        if not options.show:
            return run_program(options, program)
        stop.listen()
        return show_plan(options, arguments, stop, origin)
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a plan listens for signals itself
        print("stopped", file=sys.stderr)
        return 1


def run_to_stdout(run: Callable[[], int]) -> int:
    """What `run` returns, once all that it printed is written; where stdout takes no more, a full
    disk or a closed pipe, one line says so, and it is 1."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, by `>&-`: then nobody wants to read it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - to the end
    try:
        try:
            status = run()
        except SystemExit as ended:  # --help, --version, and wrong use
            status = int(ended.code or 0)
        sys.stdout.flush()
    except OSError as error:
        kinds = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        if error.filename is not None or error.errno not in kinds:
            raise
        # What still waits would be complained of again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"stdout could not be written: {error.strerror}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(run_to_stdout(main))
