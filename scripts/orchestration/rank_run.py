#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which rank am I, where is rank 0, and which CPUs, network and caches are mine?

Put before the command that a launcher starts once per rank. It sets what torch.distributed reads
and what a rank should have of its own, says so in a line, and becomes the command: signals reach
the command itself, and its exit status is that of the rank.

Physics
    There is none to compute. Hand check of the port: job 1234, step 0 is
    20000 + (16 * 1234 + 0) % 10000 = 29744: below the ports that the kernel gives out, equal on
    all ranks, and another one for each of 625 jobs in a row and 16 steps of a job.

What is set, and from what
    RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE NODE_RANK
                    torchrun, Open MPI, PALS, Hydra (Intel MPI, MPICH) or Slurm, in this order,
                    because the ones are often started by the others. They replace what was there:
                    a RANK exported in the batch file is the same for all.
    MASTER_ADDR     as it was set, or --master_addr, or the first node of the step. No scontrol is
                    needed, which containers lack.
    MASTER_PORT     as it was set, or from the number of job and step
    CPUs            those next to the GPU of this rank, in equal shares of whole cores, from /sys
                    (numa_bind.py tells how); where the launcher has bound the rank already, nothing
                    is changed (--cpus auto), nor where Slurm gave the job a part of the node and
                    does not say which. --cpus exclusive and node bind anew, within what the
                    cgroup of the job allows; --cpus keep never binds.
    OMP_NUM_THREADS as it was set, or the cores of this rank
    NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME
                    as they were set, or --interfaces; by itself the Slingshot cards (hsn0, hsn1
                    ...) where there are some, else the card that the way to MASTER_ADDR leaves by.
                    RCCL reads NCCL's variables.
    MIOPEN_USER_DB_PATH MIOPEN_CUSTOM_CACHE_DIR TRITON_CACHE_DIR TORCHINDUCTOR_CACHE_DIR
                    as they were set, or folders on this node: --cache_root, $SLURM_TMPDIR, $TMPDIR
                    or /tmp, the first that is no shared file system. A thousand ranks that compile
                    into one home folder wait for its locks.
    --env N=V       whatever else; {rank}, {size}, {local_rank}, {node} and {host} are filled in
    --profile-rank 14 --profiler 'nsys profile -o trace.{rank}'
                    puts the profiler before the command, on these ranks alone (0,8-9 is a list)
What is not: GPUs are neither hidden nor chosen; the program takes that of LOCAL_RANK.

How to run
    Slurm           srun --ntasks-per-node 8 python rank_run.py train.py --lr 1
    a container     srun ... singularity exec image.sif python rank_run.py -- ./train --its options
    Open MPI        mpirun -n 16 -N 8 --bind-to none python rank_run.py train.py
    a look          srun -n1 python rank_run.py --dry-run       or without srun, with --ranks 8
    other machines  python rank_run.py --dry-run --ranks 8 --topology lumi.xml    (lstopo lumi.xml
                    writes it there); the masks are those for srun --cpu-bind=mask_cpu:...
    LUMI-like       srun ... python rank_run.py --env NCCL_NET_GDR_LEVEL=PHB train.py
    pdsh            starts no ranks; a look: pdsh -w node[01-08] python /shared/rank_run.py \
                    --dry-run --ranks 8

A good answer: one line per rank, each with a rank and CPUs of its own, all with one address and
port. `bound by the launcher` to one core where a rank should have eight: --cpus exclusive.

Seen running so far: under Slurm on several nodes, under Open MPI and torchrun on one, on machines
without accelerators; the shares of CPUs next to GPUs with made-up topologies. PALS and Hydra are
read as users of these report their variables.

Exit status: that of the command; with --dry-run 0 done, 1 stopped by a signal; 2 wrong use.
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
import fcntl
import itertools
import json
import math
import os
import platform
import re
import shlex
import shutil
import signal
import socket
import stat
import struct
import subprocess
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {
    "toy": ["--dry-run", "--ranks", "2", "--cpus", "exclusive", "--cache_root", "keep"],
    "full": ["--dry-run"],
}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {"rank": "1"}

CPU_MODES = ("auto", "exclusive", "node", "keep")
FIRST_PORT = 20000
PORTS = 10000
STEPS = 16

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
VISIBLE_NAMES = (
    "CUDA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    "HIP_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
)
SHARED_FILE_SYSTEMS = (
    "nfs nfs4 lustre gpfs wekafs beegfs ceph cifs smb3 afs fuse.sshfs panfs orangefs glusterfs "
    "fuse.glusterfs fuse.juicefs daos fuse.daos 9p"
).split()
CACHES = {
    "MIOPEN_USER_DB_PATH": "miopen",
    "MIOPEN_CUSTOM_CACHE_DIR": "miopen",
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
}
CARD_VARIABLES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")
# ioctl(2) of a socket: the IPv4 address of a network card.
GET_CARD_ADDRESS = 0x8915
PCI_DISPLAY_CLASSES = ("0300", "0302", "0380", "1200")
# Slurm itself takes no more in one range.
MOST_HOSTS = 65536
MOST_CPUS = 65536

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


class RankPlace(NamedTuple):
    """Which rank this process is, of how many, and who says so."""

    launcher: str
    rank: int
    size: int
    local_rank: int
    local_size: int
    node: int | None
    hosts: tuple[str, ...]
    job: str
    step: int


class RunVariable(NamedTuple):
    """A variable of the command: its value, and where it comes from."""

    name: str
    value: str
    source: str


class CpuShare(NamedTuple):
    """The CPUs of this rank: what to bind, or None for what it has, and what to say about it."""

    binding: Binding | None
    cpus: Cpus
    threads: int
    source: str
    plan: tuple[Binding, ...]
    remarks: tuple[str, ...]


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def parse_cpu_list(text: str) -> set[int]:
    """Processors of a list in the notation of /sys: `0-3,8`."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            cpus |= set(range(int(first), int(last or first) + 1))
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


def parse_ranks(text: str) -> frozenset[int]:
    """Ranks of a list like `0,8-9`."""
    if not re.fullmatch(r"\d{1,7}(-\d{1,7})?(,\d{1,7}(-\d{1,7})?)*", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of ranks: write 14 or 0,8-9")
    ranks = frozenset(parse_cpu_list(text))
    if not ranks:
        raise argparse.ArgumentTypeError(f"'{text}' is no list of ranks: it runs backwards")
    return ranks


def parse_variable(text: str) -> tuple[str, str]:
    """`NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not equals or not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        raise argparse.ArgumentTypeError(f"'{text}': write NAME=VALUE")
    return name, value


def parse_profiler(text: str) -> list[str]:
    """The words of a profiler's command, split as a shell does."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"'{text}': {str(error).lower()}") from error
    if not words:
        raise argparse.ArgumentTypeError("name the profiler's command")
    return words


def split_nodelist(text: str) -> list[str]:
    """The parts of a list of hosts, at the commas outside of brackets. Raises WrongUse."""
    part = r"(?:[^,\[\]\s]|\[[^\[\]\s]*\])+"
    if not re.fullmatch(f"{part}(?:,+{part})*,*", text.strip()):
        raise WrongUse(f"'{text}' is no list of hosts: write node[01-04,7] or a,b,c")
    return re.findall(part, text)


def read_number_range(text: str, item: str) -> range:
    """`7` or `01-04` as numbers. Raises WrongUse for anything else, and for too many."""
    found = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", item, re.ASCII)
    if found is None:
        raise WrongUse(f"'{text}' is no list of hosts: '{item}' is no range of numbers")
    first, last = int(found.group(1)), int(found.group(2) or found.group(1))
    if last < first:
        raise WrongUse(f"'{text}' is no list of hosts: '{item}' runs backwards")
    if last - first >= MOST_HOSTS:
        raise WrongUse(f"'{text}' has more than {MOST_HOSTS} hosts")
    return range(first, last + 1)


def expand_nodelist(text: str) -> list[str]:
    """The hosts of a list as Slurm writes it, `node[01-03,7],login` say, in Slurm's order.

    Raises WrongUse where it is none.
    """
    hosts: list[str] = []
    for part in split_nodelist(text):
        pieces = re.split(r"\[([^\]]*)\]", part)
        texts, brackets = pieces[::2], pieces[1::2]
        choices = []
        for bracket in brackets:
            items = [(item, read_number_range(part, item)) for item in bracket.split(",")]
            width = {item: len(item.partition("-")[0]) for item, _ in items}
            choices.append([str(n).zfill(width[item]) for item, numbers in items for n in numbers])
        if len(hosts) + math.prod(map(len, choices)) > MOST_HOSTS:
            raise WrongUse(f"'{text}' has more than {MOST_HOSTS} hosts")
        # Slurm counts the last bracket fastest, then the first, the second and so on.
        order = [*range(len(choices) - 2, -1, -1), len(choices) - 1] if choices else []
        for numbers in itertools.product(*(choices[place] for place in order)):
            by_place = dict(zip(order, numbers, strict=True))
            names = [by_place[place] for place in range(len(choices))] + [""]
            hosts.append("".join(map("".join, zip(texts, names, strict=True))))
    return hosts


def expand_counts(text: str) -> list[int]:
    """Numbers per node in Slurm's notation: `8(x3),4` is 8 8 8 4. Raises WrongUse where not."""
    counts: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d{1,9})(?:\(x(\d{1,6})\))?", part.strip(), re.ASCII)
        if found is None:
            raise WrongUse(f"'{text}' is no list of numbers per node: write 8(x3),4")
        counts += [int(found.group(1))] * int(found.group(2) or 1)
    return counts


def read_numbers(environ: Mapping[str, str], *names: str) -> list[int] | None:
    """The values of these variables; None where one is missing or is no number."""
    values = [environ.get(name, "") for name in names]
    return [int(value) for value in values] if all(map(str.isdecimal, values)) else None


def make_place(
    launcher: str,
    numbers: Sequence[int],
    node: int | None,
    hosts: Sequence[str] = (),
    job: str = "",
    step: int = 0,
) -> RankPlace:
    """The place of rank, size, local rank and local size, in this order."""
    rank, size, local_rank, local_size = numbers
    return RankPlace(launcher, rank, size, local_rank, local_size, node, tuple(hosts), job, step)


def guess_node(rank: int, local_rank: int, local_size: int) -> int | None:
    """The number of the node where ranks fill one node after the other; None where they do not."""
    return (rank - local_rank) // local_size if (rank - local_rank) % local_size == 0 else None


def read_torchrun_place(environ: Mapping[str, str]) -> RankPlace | None:
    """What torchrun says; None without it."""
    numbers = read_numbers(environ, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    if "TORCHELASTIC_RUN_ID" not in environ or numbers is None:
        return None
    node = read_numbers(environ, "GROUP_RANK")
    job = environ["TORCHELASTIC_RUN_ID"]
    return make_place("torchrun", numbers, node[0] if node else None, job=job)


def read_openmpi_place(environ: Mapping[str, str]) -> RankPlace | None:
    """What mpirun of Open MPI says; None without it."""
    stem = "OMPI_COMM_WORLD_"
    names = [stem + end for end in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")]
    numbers = read_numbers(environ, *names)
    if numbers is None:
        return None
    rank, size, local_rank, local_size = numbers
    job = environ.get("PMIX_NAMESPACE") or environ.get("OMPI_MCA_ess_base_jobid", "")
    node = guess_node(rank, local_rank, local_size)
    hosts = () if size == local_size else read_mpi_hosts(environ)
    return make_place("Open MPI", numbers, node, hosts, job)


def read_pals_place(environ: Mapping[str, str]) -> RankPlace | None:
    """What mpiexec of HPE's PALS says; None without it."""
    found = read_numbers(environ, "PALS_RANKID", "PALS_LOCAL_RANKID")
    sizes = read_numbers(environ, "PMI_SIZE")
    local = read_numbers(environ, "PALS_LOCAL_SIZE") or read_numbers(environ, "PMI_LOCAL_SIZE")
    if found is None or sizes is None or local is None:
        return None
    node = read_numbers(environ, "PALS_NODEID")
    number = node[0] if node else guess_node(found[0], found[1], local[0])
    job = environ.get("PALS_APID") or environ.get("PBS_JOBID", "")
    hosts = () if sizes == local else read_mpi_hosts(environ)
    return make_place("PALS", (found[0], sizes[0], found[1], local[0]), number, hosts, job)


def read_hydra_place(environ: Mapping[str, str]) -> RankPlace | None:
    """What mpiexec of MPICH or Intel MPI says; None without it."""
    names = ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS")
    numbers = read_numbers(environ, *names)
    if numbers is None:
        return None
    rank, size, local_rank, local_size = numbers
    job = environ.get("SLURM_JOB_ID") or environ.get("PBS_JOBID", "")
    node = guess_node(rank, local_rank, local_size)
    hosts = () if size == local_size else read_mpi_hosts(environ)
    return make_place("Hydra", numbers, node, hosts, job)


def read_mpi_hosts(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The hosts of the allocation around mpirun: Slurm's, or those of PBS; none where neither."""
    if environ.get("SLURM_JOB_NODELIST"):
        return tuple(expand_nodelist(environ["SLURM_JOB_NODELIST"]))
    if environ.get("PBS_NODEFILE"):
        with contextlib.suppress(OSError):
            text = Path(environ["PBS_NODEFILE"]).read_text(encoding="utf-8")
            return tuple(dict.fromkeys(line.split()[0] for line in text.splitlines() if line))
    return ()


def read_slurm_place(environ: Mapping[str, str]) -> RankPlace | None:
    """What srun says; None without it. Raises WrongUse for several tasks in a batch file."""
    found = read_numbers(environ, "SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID")
    if found is None:
        return None
    rank, local_rank, node = found
    step = read_numbers(environ, "SLURM_STEP_ID")
    sizes = read_numbers(environ, "SLURM_STEP_NUM_TASKS") if step else None
    sizes = sizes or read_numbers(environ, "SLURM_NTASKS") or [1]
    if step is None and sizes[0] > 1:
        raise WrongUse(
            f"this is the batch file of a job of {sizes[0]} tasks, and none of these tasks: write "
            "srun before python"
        )
    stem = "SLURM_STEP_" if step else "SLURM_"
    counts = environ.get(f"{stem}TASKS_PER_NODE") or environ.get("SLURM_TASKS_PER_NODE", "")
    per_node = expand_counts(counts) if counts else []
    local_size = per_node[node] if node < len(per_node) else max(1, sizes[0])
    nodes = environ.get("SLURM_STEP_NODELIST") if step else None
    nodes = nodes or environ.get("SLURM_JOB_NODELIST", "")
    hosts = tuple(expand_nodelist(nodes)) if nodes else ()
    numbers = (rank, sizes[0], local_rank, max(local_size, local_rank + 1))
    job = environ.get("SLURM_JOB_ID", "")
    return make_place("Slurm", numbers, node, hosts, job, step[0] if step else 0)


def read_given_place(environ: Mapping[str, str]) -> RankPlace | None:
    """What RANK, WORLD_SIZE and LOCAL_RANK say by themselves; None where one is missing."""
    numbers = read_numbers(environ, "RANK", "WORLD_SIZE", "LOCAL_RANK")
    if numbers is None:
        return None
    local = read_numbers(environ, "LOCAL_WORLD_SIZE") or [max(1, numbers[1])]
    node = read_numbers(environ, "NODE_RANK") or read_numbers(environ, "GROUP_RANK")
    return make_place("the environment", (*numbers, local[0]), node[0] if node else None)


PLACE_READERS: dict[str, Callable[[Mapping[str, str]], RankPlace | None]] = {
    "torchrun": read_torchrun_place,
    "openmpi": read_openmpi_place,
    "pals": read_pals_place,
    "hydra": read_hydra_place,
    "slurm": read_slurm_place,
    "given": read_given_place,
}


def find_rank_place(environ: Mapping[str, str], launcher: str, ranks: int | None) -> RankPlace:
    """Which rank this is. Raises WrongUse where a launcher that was named says nothing."""
    if ranks is not None:
        return make_place("--ranks", (0, ranks, 0, ranks), 0)
    if launcher != "auto":
        place = PLACE_READERS[launcher](environ)
        if place is None:
            raise WrongUse(f"--launcher {launcher}: its variables are not here")
    else:
        found = (read(environ) for read in PLACE_READERS.values())
        place = next((each for each in found if each is not None), None)
    if place is None:
        return make_place("nobody", (0, 1, 0, 1), 0)
    if not (place.rank < place.size and place.local_rank < place.local_size <= place.size):
        raise WrongUse(
            f"{place.launcher} says rank {place.rank} of {place.size}, on its node "
            f"{place.local_rank} of {place.local_size}: that cannot be"
        )
    return place


def choose_port(job: str, step: int) -> int:
    """A port that all ranks of a step agree on, and steps and jobs nearby do not."""
    number = int(job) if job.isdecimal() else zlib.crc32(job.encode())
    return FIRST_PORT + (STEPS * number + step % STEPS) % PORTS


def choose_address(place: RankPlace, given: str | None) -> tuple[str, str]:
    """The address of rank 0, and who says so. Raises WrongUse where nobody does."""
    if given is not None:
        return given, "--master_addr"
    if place.hosts:
        return place.hosts[0], "first node"
    if place.size == place.local_size:
        return "127.0.0.1", "one node"
    raise WrongUse(
        f"{place.launcher} does not say where rank 0 is: give --master_addr, or set MASTER_ADDR "
        "(mpirun -x MASTER_ADDR)"
    )


def read_card_addresses(procfs: Path = Path("/proc")) -> dict[str, str]:
    """Network cards by their addresses, IPv4 and IPv6."""
    cards = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            with contextlib.suppress(OSError):
                answer = fcntl.ioctl(probe.fileno(), GET_CARD_ADDRESS, request)
                cards[socket.inet_ntoa(answer[20:24])] = name
    for line in (read_line(procfs / "net" / "if_inet6") or "").splitlines():
        fields = line.split()
        if len(fields) == 6:
            cards[socket.inet_ntop(socket.AF_INET6, bytes.fromhex(fields[0]))] = fields[5]
    return cards


def find_way_to(address: str, port: int) -> str | None:
    """The network card by which packets to an address leave; None where nobody can tell.

    On the host itself it is the card that has the address.
    """
    try:
        found = socket.getaddrinfo(address, port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return None
    cards = read_card_addresses()
    for family, kind, protocol, _, target in found:
        with contextlib.suppress(OSError), socket.socket(family, kind, protocol) as probe:
            probe.connect(target)  # of a datagram socket: nothing is sent
            card = cards.get(probe.getsockname()[0].partition("%")[0])
            if card is not None:
                return card
    return None


def list_slingshot_cards(sysfs: Path = Path("/sys")) -> list[str]:
    """HPE Slingshot's cards that are up, in their order."""
    cards = [
        folder.name
        for folder in (sysfs / "class" / "net").glob("hsn[0-9]*")
        if read_line(folder / "operstate") == "up"
    ]
    return sorted(cards, key=lambda name: (len(name), name))


def choose_interfaces(
    wanted: str, address: str, port: int, nodes_differ: bool, sysfs: Path = Path("/sys")
) -> tuple[dict[str, str], str, list[str]]:
    """NCCL's and gloo's variables, who says so, and remarks. Raises WrongUse for a card that is
    not there."""
    if wanted == "keep":
        return {}, "", []
    if wanted != "auto":
        cards = wanted.split(",")
        present = {folder.name for folder in (sysfs / "class" / "net").glob("*")}
        missing = [card for card in cards if card not in present]
        if missing:
            here = ", ".join(sorted(present))
            raise WrongUse(f"--interfaces: there is no card {missing[0]} here; there are {here}")
        source = "--interfaces"
    elif cards := list_slingshot_cards(sysfs):
        source = "Slingshot"
    else:
        card = find_way_to(address, port)
        if card is None:
            return {}, "", [f"no network card leads to {address}: --interfaces names one"]
        if card == "lo":
            hint = f"{address} is this host's loopback, which other nodes cannot reach: look at "
            return {}, "", [f"{hint}/etc/hosts, or give --master_addr"] if nodes_differ else []
        cards, source = [card], "way to MASTER_ADDR"
    return (
        {
            "NCCL_SOCKET_IFNAME": f"={','.join(cards)}",
            "GLOO_SOCKET_IFNAME": cards[0],
        },
        source,
        [],
    )


def find_file_system(path: Path, mounts: Path = Path("/proc/self/mountinfo")) -> str:
    """The type of the file system that a path lies on, as the kernel names it; `unknown` else."""
    try:
        lines = mounts.read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    kind, deepest = "unknown", -1
    for line in lines:
        fields = line.split()
        if "-" not in fields or len(fields) < 7:
            continue
        # The kernel writes a blank in a name as \040.
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        inside = path.resolve().is_relative_to(point)
        if inside and len(Path(point).parts) >= deepest:
            kind, deepest = fields[fields.index("-") + 1], len(Path(point).parts)
    return kind


def find_cache_root(environ: Mapping[str, str], given: str | None) -> tuple[Path, str]:
    """A folder on this node for caches, and who says so. Raises WrongUse where there is none."""
    if given is not None:
        if not Path(given).is_dir():
            raise WrongUse(f"--cache_root: there is no folder {given} on this node")
        return Path(given), "--cache_root"
    named = [(environ.get(name, ""), f"${name}") for name in ("SLURM_TMPDIR", "TMPDIR")]
    for text, source in [*named, ("/tmp", "/tmp")]:
        path = Path(text)
        is_there = bool(text) and path.is_dir() and os.access(path, os.W_OK)
        if is_there and find_file_system(path) not in SHARED_FILE_SYSTEMS:
            return path, source
    raise WrongUse("no folder for caches is on this node: give --cache_root, or keep")


def make_own_folder(path: Path) -> None:
    """Make a folder that is this user's alone. Raises WrongUse where somebody else holds it."""
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise WrongUse(f"{path} cannot be made: {error.strerror}; give --cache_root") from error
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        raise WrongUse(f"{path} is not a folder of this user: give --cache_root")


def plan_caches(environ: Mapping[str, str], given: str | None) -> tuple[dict[str, str], str]:
    """The variables of the caches that are not set, and who chose the place. Raises WrongUse."""
    missing = [name for name in CACHES if name not in environ]
    if given == "keep" or not missing:
        return {}, ""
    root, source = find_cache_root(environ, given)
    own = root.resolve() / f"rank_run-{os.geteuid()}"
    return {name: str(own / CACHES[name]) for name in missing}, source


def make_caches(variables: Mapping[str, str]) -> None:
    """Make the folders. Raises WrongUse."""
    for path in dict.fromkeys(map(Path, variables.values())):
        make_own_folder(path.parent)
        make_own_folder(path)


def read_widest_affinity(topology: Topology) -> tuple[Cpus, Cpus]:
    """The CPUs that this process runs on, and those it could: the kernel keeps it within its
    cgroup. The affinity is as it was afterwards."""
    own = frozenset(os.sched_getaffinity(0))
    try:
        os.sched_setaffinity(0, topology.cpus)
        widest = frozenset(os.sched_getaffinity(0))
    except OSError:
        return own, own
    finally:
        os.sched_setaffinity(0, own)
    return own, widest


def plan_share(
    place: RankPlace,
    mode: str,
    topology: Topology,
    visible: Sequence[Accelerator],
    own: Cpus,
    widest: Cpus,
    quota: float | None = None,
    memory_allowed: frozenset[int] | None = None,
) -> CpuShare:
    """What this rank should run on, planned for all ranks of its node together."""
    remarks = []
    is_bound = own < widest
    if visible and len(visible) < place.local_size and len(visible) != 1:
        remarks.append(
            f"{len(visible)} devices are visible to {place.local_size} ranks, so CPUs were shared "
            "out without them"
        )
        visible = ()
    is_one = place.local_size > 1 and len(visible) == 1
    if is_one:
        remarks.append("each rank sees one device, so ranks share the CPUs next to it")
    settings = BindSettings(mode="node" if mode == "node" or is_one else "exclusive")
    ranks = place.local_size
    plan = plan_bindings(topology, visible, ranks, widest, settings, memory_allowed, quota)
    cores = len({topology.core_of.get(cpu, cpu) for cpu in own})
    sharing = 1 if is_bound else ranks
    granted = cores / sharing if quota is None else min(cores / sharing, quota / ranks)
    threads = max(1, int(granted))
    if mode == "keep" or (mode == "auto" and is_bound):
        source = "bound by the launcher" if is_bound else "not bound"
        return CpuShare(None, own, threads, source, tuple(plan), tuple(remarks))
    binding = plan[place.local_rank]
    if not binding.is_bound:
        remarks.append(f"its CPUs were left as they are: {binding.verdict}")
        return CpuShare(None, own, threads, "not bound", tuple(plan), tuple(remarks))
    if binding.verdict == "crowded":
        remarks.append("there are fewer cores than ranks, so ranks share all of them")
    source = f"{binding.verdict}, by {binding.source}"
    return CpuShare(binding, binding.cpus, binding.omp_threads, source, tuple(plan), tuple(remarks))


def format_mask(cpus: Iterable[int]) -> str:
    """`0xff00`: a mask as srun --cpu-bind=mask_cpu takes it."""
    return hex(sum(1 << cpu for cpu in cpus))


def read_hwloc_set(text: str) -> Cpus:
    """Numbers of a set as hwloc writes it: `0x0000000f,0xff000000`, 32 of them in each part."""
    value = 0
    for part in text.split(","):
        value = value << 32 | (int(part, 16) if part else 0)
    return frozenset(bit for bit in range(value.bit_length()) if value >> bit & 1)


def read_hwloc(path: Path) -> tuple[Topology, list[Accelerator]]:
    """Topology and GPUs of the machine of an XML file of lstopo. Raises WrongUse for another."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError, LookupError, ValueError) as error:
        raise WrongUse(f"--topology: {path} cannot be read: {error}") from error
    core_of: dict[int, int] = {}
    socket_of: dict[int, int] = {}
    nodes: list[NumaNode] = []
    devices: list[Accelerator] = []

    def walk(element: ElementTree.Element, core: Cpus, package: int, near: Cpus) -> None:
        kind = element.get("type", "")
        cpus = read_hwloc_set(element.get("cpuset") or "0x0")
        near = cpus or near
        if kind == "Package":
            package = int(element.get("os_index", 0))
        elif kind == "Core":
            core = cpus
        elif kind == "PU":
            number = int(element.get("os_index", 0))
            if not 0 <= number < MOST_CPUS:
                raise ValueError(f"there is no CPU {number}")
            core_of[number] = min(core or {number})
            socket_of[number] = package
        elif kind == "NUMANode":
            has_memory = int(element.get("local_memory", 1)) > 0
            nodes.append(NumaNode(int(element.get("os_index", 0)), cpus, has_memory))
        elif kind == "PCIDev" and element.get("pci_type", "").startswith(PCI_DISPLAY_CLASSES):
            found = re.search(r"\[([0-9a-f]{4}):([0-9a-f]{4})\]", element.get("pci_type", ""))
            vendor = {"10de": "nvidia", "1002": "amd"}.get(found.group(1) if found else "")
            if vendor and found:
                address = normalise_address(element.get("pci_busid", ""))
                devices.append(
                    Accelerator(
                        0, vendor, address, "", (), None, None, near, found.group(2), "hwloc"
                    )
                )
        for child in element:
            walk(child, core, package, near)

    try:
        walk(root, frozenset(), 0, frozenset())
    except (ValueError, RecursionError) as error:
        raise WrongUse(f"--topology: {path} is no XML of lstopo: {error}") from error
    if not core_of:
        raise WrongUse(f"--topology: {path} names no CPU: write it with lstopo FILE.xml")
    online = frozenset(core_of)
    nodes = [node._replace(cpus=node.cpus & online) for node in nodes if node.cpus & online]
    nodes = nodes or [NumaNode(0, online, True)]
    devices.sort(key=lambda device: device.address)
    by_node = [
        device._replace(
            number=number,
            node=next((n.number for n in nodes if device.local_cpus <= n.cpus), None),
        )
        for number, device in enumerate(devices)
    ]
    return Topology(tuple(sorted(nodes)), core_of, socket_of), by_node


def fill_in(text: str, place: RankPlace) -> str:
    """The text with {rank}, {size}, {local_rank}, {node} and {host} replaced."""
    values = {
        "rank": place.rank,
        "size": place.size,
        "local_rank": place.local_rank,
        "node": "" if place.node is None else place.node,
        "host": platform.node().partition(".")[0],
    }
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", str(value))
    return text


def list_rank_variables(
    place: RankPlace, environ: Mapping[str, str], options: argparse.Namespace
) -> tuple[list[RunVariable], list[str]]:
    """Ranks, the address and the port, and remarks. Raises WrongUse where nobody tells."""
    remarks = []
    numbers = {
        "RANK": place.rank,
        "WORLD_SIZE": place.size,
        "LOCAL_RANK": place.local_rank,
        "LOCAL_WORLD_SIZE": place.local_size,
        **({} if place.node is None else {"NODE_RANK": place.node}),
    }
    variables = []
    for name, number in numbers.items():
        before = environ.get(name)
        variables.append(RunVariable(name, str(number), place.launcher))
        if before is not None and before != str(number):
            remarks.append(f"{name} was {before}, which is not what {place.launcher} says")
    if options.master_addr is None and environ.get("MASTER_ADDR"):
        variables.append(RunVariable("MASTER_ADDR", environ["MASTER_ADDR"], "set before"))
    else:
        variables.append(RunVariable("MASTER_ADDR", *choose_address(place, options.master_addr)))
    if options.master_port is None and environ.get("MASTER_PORT"):
        variables.append(RunVariable("MASTER_PORT", environ["MASTER_PORT"], "set before"))
    elif options.master_port is not None:
        variables.append(RunVariable("MASTER_PORT", str(options.master_port), "--master_port"))
    else:
        source = f"job and step of {place.launcher}" if place.job else "no job"
        port = str(choose_port(place.job or "0", place.step))
        variables.append(RunVariable("MASTER_PORT", port, source))
    return variables, remarks


def list_all_variables(
    place: RankPlace, environ: Mapping[str, str], options: argparse.Namespace, share: CpuShare
) -> tuple[list[RunVariable], list[str]]:
    """All that is set for this rank, and remarks. Raises WrongUse."""
    variables, remarks = list_rank_variables(place, environ, options)
    known = {each.name: each.value for each in variables}
    if not re.fullmatch(r"\d{1,5}", known["MASTER_PORT"], re.ASCII) or not (
        0 < int(known["MASTER_PORT"]) < 65536
    ):
        raise WrongUse(f"MASTER_PORT is '{known['MASTER_PORT']}', which is no port")
    cards: dict[str, str] = {}
    source = ""
    # Where the user has said it all there is nothing to find, and nothing to remark on.
    if options.interfaces != "auto" or not all(name in environ for name in CARD_VARIABLES):
        is_wide = place.size > place.local_size
        port = int(known["MASTER_PORT"])
        cards, source, more = choose_interfaces(
            options.interfaces, known["MASTER_ADDR"], port, is_wide
        )
        remarks += more
    caches, where = plan_caches(environ, options.cache_root)
    chosen = {
        "OMP_NUM_THREADS": (str(share.threads), "cores of this rank"),
        **{name: (value, source) for name, value in cards.items()},
        **{name: (value, f"node-local, {where}") for name, value in caches.items()},
    }
    for name in ("OMP_NUM_THREADS", *CARD_VARIABLES, *CACHES):
        is_asked = name in cards and source == "--interfaces"
        if name in environ and not is_asked:
            variables.append(RunVariable(name, environ[name], "set before"))
        elif name in chosen:
            variables.append(RunVariable(name, *chosen[name]))
    given = [RunVariable(name, fill_in(value, place), "--env") for name, value in options.env]
    by_name = {each.name: each for each in [*variables, *given]}
    return list(by_name.values()), remarks


def plan_share_here(place: RankPlace, mode: str, environ: Mapping[str, str]) -> CpuShare:
    """The share of this rank of the machine at hand."""
    check_platform()
    topology = read_topology()
    visible, remarks = find_visible(find_accelerators(), environ)
    if not topology.nodes:
        remarks.append("/sys tells of no CPU here, so nothing can be bound")
    own, widest = read_widest_affinity(topology)
    quota, memory = read_cpu_quota(), read_allowed_nodes()
    given = read_numbers(environ, "SLURM_CPUS_ON_NODE") if place.launcher == "Slurm" else None
    cores = len({topology.core_of.get(cpu, cpu) for cpu in widest})
    if mode == "auto" and own == widest and given and given[0] < cores:
        # Which ones are the job's is not known, and others may be another job's.
        mode = "keep"
        remarks.append(
            f"Slurm gave this job {given[0]} CPUs of a node with {cores} cores and confines it to "
            "none of them, so nothing was bound"
        )
    share = plan_share(place, mode, topology, visible, own, widest, quota, memory)
    return share._replace(remarks=(*remarks, *share.remarks))


def plan_share_of(path: Path, place: RankPlace, mode: str) -> CpuShare:
    """The share of a rank of the machine of an XML file of lstopo. Raises WrongUse."""
    topology, devices = read_hwloc(path)
    return plan_share(place, mode, topology, devices, topology.cpus, topology.cpus)


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


def describe_rank(place: RankPlace, known: Mapping[str, str], share: CpuShare) -> str:
    """One line on a rank."""
    node = "" if place.node is None else f" of node {place.node}"
    return (
        f"rank {place.rank} of {place.size} ({place.launcher}): local rank {place.local_rank} of "
        f"{place.local_size}{node}, {known['MASTER_ADDR']}:{known['MASTER_PORT']}, CPUs "
        f"{format_cpu_list(share.cpus)} ({share.source})"
    )


def make_command(
    program: Sequence[str], place: RankPlace, options: argparse.Namespace
) -> list[str]:
    """What becomes of this process: the program, behind the profiler on the ranks that have one."""
    command = list(program)
    if command and command[0].endswith(".py"):
        command = [sys.executable, *command]
    if options.profile_rank is not None and place.rank in options.profile_rank:
        command = [*(fill_in(word, place) for word in options.profiler), *command]
    return command


def make_rank_rows(
    place: RankPlace, variables: Sequence[RunVariable], share: CpuShare, command: Sequence[str]
) -> list[Row]:
    """What is set, as rows: variables, CPUs, masks of all local ranks, command."""
    masks = ",".join(format_mask(binding.cpus) for binding in share.plan)
    rows = [each._asdict() for each in variables]
    rows.append({"name": "CPUs", "value": format_cpu_list(share.cpus), "source": share.source})
    rows.append({"name": "mask_cpu", "value": masks, "source": "plan of all local ranks"})
    if command:
        rows.append({"name": "command", "value": shlex.join(command), "source": "arguments"})
    return [{"rank": place.rank, **row} for row in rows]


def hide_names(rows: Sequence[Row]) -> list[Row]:
    """The rows without hosts and folders, for the JSON."""
    shown = []
    for row in rows:
        value = hide_folders(str(row["value"]))
        if row["name"] == "MASTER_ADDR" and value != "127.0.0.1":
            value = "HOST"
        if row["name"] == "command":
            value = shlex.join(hide_folders(word) for word in shlex.split(str(row["value"])))
        host = platform.node().partition(".")[0]
        shown.append({**row, "value": value.replace(host, "HOST") if len(host) > 2 else value})
    return shown


def show_rank(
    options: argparse.Namespace,
    program: Sequence[str],
    arguments: Sequence[str],
    stop: StopSign,
    origin: float,
) -> int:
    """Print what would be set, and set nothing; the exit status. Raises WrongUse."""
    place = find_rank_place(os.environ, options.launcher, options.ranks)
    if options.topology:
        share = plan_share_of(options.topology, place, options.cpus)
    else:
        share = plan_share_here(place, options.cpus, os.environ)
    variables, remarks = list_all_variables(place, os.environ, options, share)
    remarks += share.remarks
    command = make_command(program, place, options)
    rows = make_rank_rows(place, variables, share, command)
    stop.check()
    address = next(each.value for each in variables if each.name == "MASTER_ADDR")
    try:
        if options.json and place.rank == 0:
            head = make_document_head(
                "rank_run", (__version__, METHOD), make_portable_command(arguments), origin
            )
            document = {
                **head,
                "complete": True,
                "units": UNITS,
                "results": hide_names(rows),
                "caveats": [remark.replace(address, "HOST") for remark in remarks],
                "details": {
                    "launcher": place.launcher,
                    "shares": [binding.verdict for binding in share.plan],
                    "platform": f"{platform.system()} {platform.machine()}",
                    "python": platform.python_version(),
                },
            }
            write_document(options.json, document)
    finally:  # a disk that is full loses no table
        heading = f"rank {place.rank} of {place.size}"
        cells = [[row["name"], row["value"], row["source"]] for row in rows]
        print(format_table([heading, "value", "from"], cells), flush=True)
    for remark in remarks:
        write_note(remark)
    return 0


def exec_rank(options: argparse.Namespace, program: Sequence[str]) -> int:
    """Set all of it and become the program; returns only by WrongUse."""
    place = find_rank_place(os.environ, options.launcher, None)
    share = plan_share_here(place, options.cpus, os.environ)
    variables, remarks = list_all_variables(place, os.environ, options, share)
    remarks += share.remarks
    if share.binding is not None:
        remarks += apply_binding(share.binding, "preferred")
    caches = {each.name: each.value for each in variables if each.source.startswith("node-local")}
    make_caches(caches)
    known = {each.name: each.value for each in variables}
    if not options.quiet:
        print(describe_rank(place, known, share), file=sys.stderr)
        # What holds for all ranks is said once, and for a node by its first rank.
        if place.rank == 0:
            for remark in remarks:
                write_note(remark)
        if place.local_rank == 0 and caches:
            folders = ", ".join(dict.fromkeys(Path(value).name for value in caches.values()))
            root = Path(next(iter(caches.values()))).parent
            write_note(f"caches of this node ({folders}) are in {root}")
    command = make_command(program, place, options)
    os.environ.update(known)
    sys.stdout.flush()
    sys.stderr.flush()
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores them, and the program would inherit that
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise WrongUse(f"could not start {command[0]}: {error.strerror}") from error


CHILD = (
    "import json, os; print(json.dumps([dict(os.environ), sorted(os.sched_getaffinity(0))])); "
    "raise SystemExit(7)"
)


def try_child(environ: Mapping[str, str], *options: str) -> tuple[int, dict[str, str], list[int]]:
    """The exit status, variables and CPUs of a program that was started through this tool."""
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
    done = subprocess.run(
        [
            sys.executable,
            str(Path(__file__).resolve()),
            *options,
            "--",
            sys.executable,
            "-c",
            CHILD,
        ],
        env={**kept, **environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    seen, cpus = json.loads(done.stdout or "[{}, []]")
    return done.returncode, seen, cpus


def make_square_machine() -> tuple[Topology, list[Accelerator]]:
    """Two sockets, each a node of four cores with two threads, and two GPUs at each."""
    halves = [frozenset({*range(4 * n, 4 * n + 4), *range(4 * n + 8, 4 * n + 12)}) for n in (0, 1)]
    nodes = tuple(NumaNode(n, cpus, True) for n, cpus in enumerate(halves))
    core_of = {cpu: cpu % 8 for cpu in range(16)}
    topology = Topology(nodes, core_of, {cpu: cpu % 8 // 4 for cpu in range(16)})
    devices = [
        Accelerator(n, "nvidia", f"0000:{n:02x}:00.0", "", (), None, n // 2, halves[n // 2], "", "")
        for n in range(4)
    ]
    return topology, devices


def run_self_test() -> int:
    """Check launchers and shares on made-up machines, and a real child; 0, or 1 where one fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    slurm = {
        "SLURM_PROCID": "5",
        "SLURM_LOCALID": "1",
        "SLURM_NODEID": "1",
        "SLURM_STEP_ID": "0",
        "SLURM_NTASKS": "6",
        "SLURM_STEP_NUM_TASKS": "6",
        "SLURM_STEP_TASKS_PER_NODE": "4,2",
        "SLURM_STEP_NODELIST": "node[09-10]",
        "SLURM_JOB_ID": "1234",
    }
    place = find_rank_place(slurm, "auto", None)
    numbers = (place.rank, place.size, place.local_rank, place.local_size, place.node)
    check("Slurm: rank 5 of 6, 1 of 2 on node 1", numbers == (5, 6, 1, 2, 1))
    check("the first node", choose_address(place, None) == ("node09", "first node"))
    check("the port of job 1234", choose_port(place.job, place.step) == 29744)
    openmpi = {f"OMPI_COMM_WORLD_{end}": "1" for end in ("RANK", "LOCAL_RANK")}
    openmpi |= {f"OMPI_COMM_WORLD_{end}": "2" for end in ("SIZE", "LOCAL_SIZE")}
    check("Open MPI inside of Slurm", find_rank_place(slurm | openmpi, "auto", None).rank == 1)
    try:
        find_rank_place({k: v for k, v in slurm.items() if "STEP" not in k}, "auto", None)
        check("a batch file without srun is refused", False)
    except WrongUse:
        check("a batch file without srun is refused", True)
    topology, devices = make_square_machine()
    four = make_place("none", (3, 4, 3, 4), 0)
    share = plan_share(four, "auto", topology, devices, topology.cpus, topology.cpus)
    check("four ranks share 8 cores by their GPUs", format_cpu_list(share.cpus) == "6-7,14-15")
    check("and the masks say it", format_mask(share.plan[0].cpus) == "0x303")
    bound = plan_share(four, "auto", topology, devices, frozenset({0}), topology.cpus)
    check("what the launcher has bound stays so", (bound.binding, bound.threads) == (None, 1))
    if hasattr(os, "sched_getaffinity"):
        own = sorted(os.sched_getaffinity(0))
        given = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
        given |= {"MASTER_ADDR": "127.0.0.1"}
        options = ["--cache_root", "keep", "--env", "LOG=r{rank}.txt", "--quiet"]
        status, seen, cpus = try_child(given, *options, "--cpus", "keep")
        check("the exit status is the program's", status == 7)
        check("and so are the variables", (seen.get("RANK"), seen.get("LOG")) == ("1", "r1.txt"))
        check("and the CPUs", cpus == own)
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def parse_port(text: str) -> int:
    """A port that a user may listen on."""
    if not re.fullmatch(r"\d{4,5}", text) or not 1024 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"'{text}' is no port: write 1024 to 65535")
    return int(text)


def parse_interfaces(text: str) -> str:
    """`auto`, `keep`, or names of network cards."""
    if not re.fullmatch(r"[\w.:-]+(,[\w.:-]+)*", text):
        raise argparse.ArgumentTypeError(f"'{text}': write auto, keep, or cards like hsn0,hsn1")
    return text


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="rank_run.py",
        usage="rank_run.py [options] [--] PROGRAM [ARGUMENTS], or rank_run.py --dry-run",
        description="Set what a rank needs, and start a program there.",
        epilog="The docstring at the top of this file tells what is set, and from what.",
        allow_abbrev=False,
    )
    ranks = parser.add_argument_group("ranks")
    ranks.add_argument(
        "--launcher", choices=("auto", *PLACE_READERS), default="auto", help="who tells the rank"
    )
    ranks.add_argument("--master_addr", metavar="HOST", help="where rank 0 is")
    ranks.add_argument("--master_port", type=parse_port, metavar="N", help="and its port")
    own = parser.add_argument_group("what a rank has of its own")
    own.add_argument(
        "--cpus",
        choices=CPU_MODES,
        default="auto",
        help="auto (a share, unless the launcher has bound it), exclusive, node or keep",
    )
    own.add_argument(
        "--interfaces",
        type=parse_interfaces,
        default="auto",
        metavar="CARDS",
        help="network cards for NCCL, RCCL and gloo: a list, auto or keep (default: auto)",
    )
    own.add_argument(
        "--cache_root", metavar="FOLDER", help="for caches, on this node; keep leaves them"
    )
    own.add_argument(
        "--env",
        type=parse_variable,
        action="append",
        default=[],
        metavar="N=V",
        help="set this too",
    )
    profile = parser.add_argument_group("profiling")
    profile.add_argument(
        "--profile-rank",
        "--profile_rank",
        type=parse_ranks,
        metavar="LIST",
        help="ranks that run under --profiler",
    )
    profile.add_argument(
        "--profiler", type=parse_profiler, metavar="COMMAND", help="what stands before the program"
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--dry-run", "--dry_run", action="store_true", help="show what would be set; start nothing"
    )
    output.add_argument(
        "--ranks", type=parse_count, metavar="N", help="with --dry-run: as rank 0 of N on this node"
    )
    output.add_argument(
        "--topology", type=Path, metavar="XML", help="with --ranks: the machine of a file of lstopo"
    )
    output.add_argument("--json", type=Path, metavar="PATH", help="with --dry-run: rank 0 as JSON")
    output.add_argument("--quiet", action="store_true", help="say nothing before the program")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"rank_run {__version__} (method {METHOD})"
    )
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, metavar="PROGRAM", help="what to start, with arguments"
    )
    return parser


def check_options(options: argparse.Namespace, program: Sequence[str]) -> None:
    """Raises WrongUse for what makes no sense together."""
    check_json_path(options.json)
    if not options.dry_run and not program:
        raise WrongUse("name a program to start, or --dry-run to see what would be set")
    for name in ("json", "ranks", "topology"):
        if getattr(options, name) is not None and not options.dry_run:
            raise WrongUse(f"--{name} is for --dry-run")
    if options.topology is not None and options.ranks is None:
        raise WrongUse("--topology is of another machine: say with --ranks how many run there")
    if options.ranks is not None and options.launcher != "auto":
        raise WrongUse("--ranks and --launcher say the same twice; give one")
    if options.dry_run and options.quiet:
        raise WrongUse("--quiet is for starting a program, not for --dry-run")
    if (options.profile_rank is None) != (options.profiler is None):
        raise WrongUse("--profile-rank and --profiler go together")


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
        if not options.dry_run:
            return exec_rank(options, program)
        stop.listen()
        return show_rank(options, program, arguments, stop, origin)
    except WrongUse as error:
        parser.error(str(error))
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # before the program: a plan listens for signals itself
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
