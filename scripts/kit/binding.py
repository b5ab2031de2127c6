"""The CPUs next to the GPU of each local rank, and how to bind a process to them.

`root` is the folder with sys/ and proc/ in it.
"""

import contextlib
import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from kit.cli import UsageError
from kit.files import read_text
from kit.topology import Cpus, Topology, find_numa_node


class Gpu(NamedTuple):
    """A GPU, or a partition of one, the NUMA node it is attached to, and what says so."""

    number: int
    vendor: str
    address: str
    uuid: str
    node: int | None
    source: str


class Binding(NamedTuple):
    """What one rank is bound to. `sharing` is the number of ranks on the same CPUs."""

    local_rank: int
    gpu: Gpu | None
    cpus: Cpus
    cores: int
    nodes: tuple[int, ...]
    sharing: int
    omp_threads: int
    source: str
    verdict: str

    @property
    def is_bound(self) -> bool:
        """Whether there is something to set."""
        return self.verdict in ("ok", "one node", "crowded")


def find_gpus(root: Path = Path("/")) -> list[Gpu]:
    """The NVIDIA or AMD GPUs that this process may use, numbered as CUDA or ROCm does."""
    return _read_nvidia_driver(root) or _read_kfd(root)


def _read_nvidia_driver(root: Path) -> list[Gpu]:
    """The GPUs that the driver lists and that have their device file here, as in a container."""
    gpus: list[Gpu] = []
    for folder in sorted((root / "proc/driver/nvidia/gpus").glob("*:*:*.*")):
        text = read_text(folder / "information")
        facts = dict(re.findall(r"^(GPU UUID|Device Minor):\s*(\S+)", text, re.MULTILINE))
        if (root / f"dev/nvidia{facts.get('Device Minor')}").exists():
            uuid, node = facts.get("GPU UUID", ""), find_numa_node(folder.name, root)
            gpus.append(Gpu(len(gpus), "nvidia", folder.name, uuid, node, "NVIDIA driver"))
    return gpus


def _read_kfd(root: Path) -> list[Gpu]:
    """The GPUs of AMD's KFD driver. A node's location_id has bus and device of its PCI address; the
    partitions of an MI300 share that of function 0."""
    gpus: list[Gpu] = []
    nodes = root / "sys/class/kfd/kfd/topology/nodes"
    for folder in sorted(nodes.glob("[0-9]*"), key=lambda path: int(path.name)):
        text = read_text(folder / "properties")  # empty for a GPU that a cgroup hides
        values = {k: int(v) for k, v in re.findall(r"^(\w+) (\d+)$", text, re.MULTILINE)}
        if not values.get("simd_count"):  # a CPU
            continue
        place = values.get("location_id", 0)
        address = f"{values.get('domain', 0):04x}:{place >> 8 & 0xFF:02x}:{place >> 3 & 0x1F:02x}.0"
        uuid = f"GPU-{values.get('unique_id', 0):016x}"
        gpus.append(Gpu(len(gpus), "amd", address, uuid, find_numa_node(address, root), "KFD"))
    return gpus


def choose_visible(gpus: Sequence[Gpu] | None, environ: Mapping[str, str]) -> list[Gpu]:
    """The GPUs (None: all of this machine) that the program sees, in its order. A list of them ends
    at an entry that names no GPU (MIG devices too); with an entry twice it is empty, as in CUDA."""
    visible = list(find_gpus() if gpus is None else gpus)
    names = ["CUDA_VISIBLE_DEVICES"]
    if visible and visible[0].vendor == "amd":  # ROCR hides first, HIP counts what it leaves
        hip = "HIP_VISIBLE_DEVICES"
        names = ["ROCR_VISIBLE_DEVICES", hip if hip in environ else names[0]]
    for name in names:
        if name not in environ:
            continue
        tokens = [token.strip() for token in environ[name].split(",")]
        chosen: list[Gpu] = []
        for token in tokens if len(set(tokens)) == len(tokens) else []:
            found = [
                gpu
                for number, gpu in enumerate(visible)
                if token == str(number) or (token.startswith("GPU-") and gpu.uuid.startswith(token))
            ]
            if len({gpu.address for gpu in found}) != 1:  # partitions may share a UUID
                break
            chosen.append(found[0])
        visible = chosen
    return visible


def find_near(topology: Topology, gpus: Sequence[Gpu], ranks: int) -> list[tuple[Cpus, str]]:
    """The CPUs next to the GPU of each local rank, and what says so; empty where that is unknown.
    Without GPUs, ranks are spread over the nodes. A single GPU is another one for each rank."""
    if not topology.nodes:
        return [(frozenset(), "nothing")] * ranks
    if not gpus:
        nears = list(topology.nodes.values())
        return [(nears[rank * len(nears) // ranks], "spread over nodes") for rank in range(ranks)]
    if 1 < len(gpus) < ranks:
        raise UsageError(f"local rank {len(gpus)} has no GPU: {len(gpus)} are visible")
    own = gpus[:ranks] if len(gpus) > 1 else [gpus[0]] * ranks
    if len(topology.nodes) == 1 and own[0].node not in topology.nodes:
        return [(topology.cpus, "only node")] * ranks
    return [(topology.nodes.get(gpu.node, frozenset()), gpu.source) for gpu in own]


def plan_bindings(
    topology: Topology, gpus: Sequence[Gpu], ranks: int, allowed: Cpus, *, exclusive: bool = False
) -> list[Binding]:
    """What each local rank is bound to: the CPUs next to its GPU that are allowed, or with
    `exclusive` an equal share of their cores. Raises UsageError where there are fewer GPUs than
    ranks, but for a single one."""
    nears = find_near(topology, gpus, ranks)
    usable = [near & allowed for near, _ in nears]
    plan = []
    for rank, ((near, source), cpus) in enumerate(zip(nears, usable, strict=True)):
        alike = [other for other, theirs in enumerate(usable) if theirs == cpus]
        verdict, sharing = "one node" if len(topology.nodes) == 1 else "ok", len(alike)
        if not cpus:
            verdict = "not allowed" if near else "unknown"
            cpus, sharing = allowed, ranks
        elif exclusive and topology.count_cores(cpus) < sharing:
            verdict = "crowded"
        elif exclusive:
            cpus, sharing = split_cores(topology, cpus, sharing)[alike.index(rank)], 1
        cores = topology.count_cores(cpus)
        plan.append(
            Binding(
                local_rank=rank,
                gpu=gpus[rank if len(gpus) > 1 else 0] if gpus else None,
                cpus=cpus,
                cores=cores,
                nodes=tuple(n for n, near in topology.nodes.items() if near & cpus),
                sharing=sharing,
                omp_threads=max(1, cores // sharing),
                source=source,
                verdict=verdict,
            )
        )
    return plan


def split_cores(topology: Topology, cpus: Cpus, parts: int) -> list[Cpus]:
    """The CPUs in shares of whole cores that differ by one core at most. Cores stay in the order of
    their numbers, so that neighbors share a cache."""
    cores: dict[int, set[int]] = {}
    for cpu in sorted(cpus):
        cores.setdefault(topology.core_of.get(cpu, cpu), set()).add(cpu)
    ordered = [cores[first] for first in sorted(cores)]
    ends = [len(ordered) * part // parts for part in range(parts + 1)]
    return [frozenset[int]().union(*ordered[a:b]) for a, b in itertools.pairwise(ends)]


def apply_binding(binding: Binding) -> str:
    """Bind this process, all its threads and what they start; why that failed, or nothing."""
    if not binding.is_bound:
        return f"runs unbound: {binding.verdict}"
    try:
        os.sched_setaffinity(0, binding.cpus)
        for task in Path("/proc/self/task").iterdir():
            with contextlib.suppress(ProcessLookupError):
                os.sched_setaffinity(int(task.name), binding.cpus)
    except OSError as error:
        return f"runs unbound: {error.strerror}"
    return ""


def verify_binding(binding: Binding) -> bool | None:
    """Whether a program that is bound like this runs on the CPUs of the plan; None where nothing
    would be bound."""
    if not binding.is_bound:
        return None
    done = subprocess.run(
        [sys.executable, "-c", "import os; print(*os.sched_getaffinity(0))"],
        preexec_fn=lambda: apply_binding(binding),
        capture_output=True,
        text=True,
        check=False,
    )
    return frozenset(map(int, done.stdout.split())) == binding.cpus


def become(command: Sequence[str]) -> NoReturn:
    """Replace this process by a program, so that signals and exit status are the program's; a
    Python file is run by this Python. Raises UsageError where it cannot be started."""
    words = [sys.executable, *command] if command[0].endswith(".py") else list(command)
    sys.stdout.flush()
    sys.stderr.flush()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, a program does not
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(words[0], words)
    except OSError as error:
        raise UsageError(f"could not start {words[0]}: {error.strerror}") from error
