#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Can all ranks of all nodes talk to each other, and if not, which one is it?

A job that hangs at its start says nothing for half an hour, and then it says it on every rank. This
tool goes through the same steps with a short --timeout, and names the ranks, and where it can the
nodes, that did not come.

The steps, of every rank
    arrival     reach the store of rank 0 (MASTER_ADDR:MASTER_PORT) and sign the list of arrivals
    device      use the device: fill memory with numbers and read them back
    group       torch.distributed.init_process_group with the backend of the device
    reduction   an all_reduce of whole numbers, its answer checked element by element
    barrier     a barrier; with gloo torch's monitored_barrier
    Each may take --timeout. Ranks write how far they came into the store, beside the collectives,
    over connections of their own, and a heartbeat twice a second. So rank 0 can tell a rank that
    never arrived, one that is gone (dead, or cut off: no heartbeat), and one that hangs (heartbeat,
    no progress).
    A node is named where nobody arrived from it: the nodes that should be there come from --hosts,
    or from Slurm. Without either, ranks are counted off by LOCAL_WORLD_SIZE.

Physics
    There is none to measure: seconds are given for each step, and say only what a job's start
    costs.  Hand check: over n ranks, rank r adds (r + 1) (i mod 5 + 1) to element i, so the sum is
    (i mod 5 + 1) n (n + 1) / 2: with 4 ranks element 2 is 30.

What is reported
    One line for each rank: node, device, free memory, NUMA nodes it may run on and that of its
    device, how far it came, a verdict. Versions and compute capability are those of rank 0; ranks
    that differ are listed. stdout and stderr name hosts; the JSON numbers them, so that it can be
    passed on.

How to run
    one node        python torch_distributed_check.py         (starts a rank for each accelerator)
    or              torchrun --nproc_per_node 8 torch_distributed_check.py
    Slurm           srun --ntasks-per-node 8 --gpus-per-node 8 bash -c 'MASTER_ADDR=$(scontrol \
                        show hostnames $SLURM_JOB_NODELIST | head -n 1) \
                        python torch_distributed_check.py --timeout 30s'
    pdsh            pdsh -R exec -w node[01-04] ssh %h 'RANK=%n WORLD_SIZE=4 LOCAL_RANK=0 \
                        MASTER_ADDR=node01 python /shared/torch_distributed_check.py \
                        --hosts node[01-04]'
    rehearse        python torch_distributed_check.py --ranks 4 --rehearse die:2:barrier
                        what it looks like when a rank dies; also hang:RANK:STEP, absent:RANK
    Start the ranks themselves, as above, where a node may be missing: torchrun waits for all nodes
    before it starts this tool, and says less.

A good answer: "all N ranks on M nodes can talk", exit status 0, within seconds. If not, the lines
below the table say what to look at and what to type next.

Seen running so far: gloo on CPUs, with ranks that never came, died and hung, and over network
namespaces with a link taken down. The path for accelerators follows PyTorch's documentation and
has not been run on one yet.

Exit status: 0 all ranks can talk, 1 they cannot, an answer is wrong, ranks have other versions than
rank 0, or stopped by a signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import itertools
import json
import math
import os
import platform
import queue
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {
    "toy": ["--device", "cpu", "--memory", "16MiB", "--timeout", "30s"],
    "full": ["--timeout", "60s"],
}
RANKS = {"toy": 2, "full": "accelerators"}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "rank": "1",
    "node": "1",
    "arrival_seconds": "s",
    "device_seconds": "s",
    "group_seconds": "s",
    "reduction_seconds": "s",
    "barrier_seconds": "s",
    "memory_free_bytes": "B",
    "memory_total_bytes": "B",
    "memory_used_bytes": "B",
    "device_numa_node": "1",
}

STEPS = ("arrival", "device", "group", "reduction", "barrier")
BEAT_SECONDS = 0.5
# How long rank 0 listens for heartbeats before it says that a rank has none. launch_ranks, like
# other launchers, gives the rest of a job some seconds after the first rank is gone.
LISTEN_SECONDS = 2.0
DEFAULT_MEMORY = {"accelerator": 1024**3, "cpu": 16 * 1024**2}
ELEMENTS = 1000
LOCAL_INTERFACES = ("lo", "ifb", "docker", "veth", "br-", "virbr", "dummy", "tun", "sit", "cni")
# With more ranks than this the table shows those that matter; the JSON has all.
SHOWN_RANKS = 64
# What has to be the same on every rank for a job to work, and what only ought to be.
SOFTWARE = ("torch", "backend", "backend_version", "python")
HARDWARE = ("device_model", "compute_capability", "device_count")

Row = dict[str, Any]

# Slurm itself takes no more in one range.
MOST_HOSTS = 65536


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


def parse_duration(text: str) -> float:
    """Seconds from `90`, `45s`, `10m`, `1h30m`."""
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", text.strip())
    if not text.strip() or found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no duration: write 90s, 10m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    total = 3600 * hours + 60 * minutes + seconds
    if total <= 0:
        raise argparse.ArgumentTypeError(f"'{text}': a duration has to be longer than nothing")
    return total


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def parse_bytes(text: str) -> int:
    """Bytes from `32KiB`, `16G` (binary, as nccl-tests has it), `4GB` (decimal), or `8`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)(B?)", text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no size: write 32KiB, 4MB or 16GiB")
    number, prefix, binary, unit = found.groups()
    base = 1000 if unit and not binary else 1024
    size = float(number) * base ** " KMGT".index(prefix.upper() or " ")
    if (binary and not prefix) or size < 1 or size != int(size):
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number of bytes from 1")
    return int(size)


def format_bytes(size: int) -> str:
    """`32 KiB`, `4 MB`, `12345 B`: exactly so many bytes, in the unit with the fewest digits."""
    texts = [f"{size} B"]
    for base, units in ((1024, ("KiB", "MiB", "GiB", "TiB")), (1000, ("kB", "MB", "GB", "TB"))):
        for power, unit in enumerate(units, start=1):
            if size % base**power == 0 and size:
                texts.append(f"{size // base**power} {unit}")
    return min(texts, key=lambda text: len(text.split()[0]))


def choose_device(torch: Any, name: str | None, local_rank: int = 0) -> Any:
    """The torch.device asked for, or the accelerator of this rank, or the CPU.

    Raises WrongUse where this torch has no such device.
    """
    has_accelerator = hasattr(torch, "accelerator") and torch.accelerator.is_available()
    present = torch.accelerator.current_accelerator().type if has_accelerator else "cpu"
    try:
        device = torch.device(name or present)
    except RuntimeError as error:
        known = f"{present} or cpu" if has_accelerator else "cpu"
        raise WrongUse(f"--device {name}: no device of torch; here it is {known}") from error
    if device.type == "cpu":
        return device
    if device.type != present:
        here = present if has_accelerator else "no accelerator, only cpu"
        raise WrongUse(f"--device {name}: this torch sees {here}")
    count = torch.accelerator.device_count()
    index = device.index if device.index is not None else local_rank
    if index >= count:
        raise WrongUse(f"device {index} of {device.type} is not there: there are {count}, from 0")
    device = torch.device(device.type, index)
    set_device = getattr(torch.get_device_module(device.type), "set_device", None)
    if set_device:  # a kind that is only ever one device has none
        set_device(index)
    return device


def choose_backend(torch: Any, device: Any) -> str:
    """The backend of a process group on this kind of device: gloo for CPU, nccl for CUDA and ROCm.

    Raises WrongUse where this torch has none.
    """
    distributed = torch.distributed
    if not distributed.is_available():
        raise WrongUse("this torch was built without torch.distributed")
    known = getattr(distributed.Backend, "default_device_backend_map", {})
    backend = known.get(device.type) or {"cpu": "gloo", "cuda": "nccl"}.get(device.type)
    if backend is None:
        raise WrongUse(f"torch.distributed has no backend for {device.type}; use --device cpu")
    is_there = getattr(distributed, f"is_{backend}_available", None)
    if is_there is not None and not is_there():
        raise WrongUse(f"this torch was built without {backend}, the backend of {device.type}")
    return str(backend)


def may_bind_device(version: str, backend: str) -> bool:
    """Whether device_id may be given to init_process_group: nccl from torch 2.8 on.

    With it some versions before hang now and then (pytorch issue 153960). Without it nothing here
    has to guess a device: each tensor names its own.
    """
    found = re.match(r"(\d+)\.(\d+)", version)
    return backend == "nccl" and found is not None and tuple(map(int, found.groups())) >= (2, 8)


def describe_device(torch: Any, device: Any) -> str:
    """What the vendor calls the device."""
    if device.type == "cpu":
        return platform.machine() or "cpu"
    try:
        properties = torch.get_device_module(device.type).get_device_properties(device)
    except (AttributeError, RuntimeError, TypeError):
        return str(device.type)
    return str(getattr(properties, "name", None) or device.type)


def read_network_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that steer the communication libraries, as far as they are set."""
    prefixes = ("NCCL_", "RCCL_", "GLOO_", "TORCH_NCCL_", "UCX_", "FI_", "CCL_", "HCCL_")
    names = (*("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_MAX_CONNECTIONS"), "OMP_NUM_THREADS")
    hosts = ("NCCL_COMM_ID", "NCCL_HOSTID")  # these name machines
    return {
        name: hide_folders(value)
        for name, value in sorted(environ.items())
        if (name.startswith(prefixes) or name in names) and name not in hosts
    }


class Rehearsal(NamedTuple):
    """A failure that is played: what happens to which rank at which step."""

    kind: str
    rank: int
    step: str


def parse_rehearsal(text: str) -> Rehearsal:
    """`die:2:barrier`, `hang:3` (at the barrier) or `absent:1`."""
    found = re.fullmatch(r"(die|hang):(\d+)(?::(\w+))?|absent:(\d+)", text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"'{text}': write die:RANK:STEP, hang:RANK:STEP or absent:RANK"
        )
    kind, rank, step, absent = found.groups()
    if absent is not None:
        return Rehearsal("absent", int(absent), "arrival")
    step = step or "barrier"
    if step not in STEPS[1:]:
        raise argparse.ArgumentTypeError(f"'{text}': STEP is one of {', '.join(STEPS[1:])}")
    return Rehearsal(kind, int(rank), step)


def check_rehearsals(rehearsals: Iterable[Rehearsal], ranks: int) -> None:
    """Raises WrongUse where a failure is to happen to a rank that there is not."""
    for rehearsal in rehearsals:
        if rehearsal.rank >= ranks:
            there = f"ranks 0 to {ranks - 1}" if ranks > 1 else "rank 0 alone"
            raise WrongUse(
                f"--rehearse {rehearsal.kind}:{rehearsal.rank}: there is no rank {rehearsal.rank}, "
                f"only {there}"
            )


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


def expand_tasks(text: str) -> list[int]:
    """Tasks of each node in Slurm's notation: `8(x3),4` is 8 8 8 4; empty where it is not that."""
    tasks: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if found is None:
            return []
        tasks += [int(found.group(1))] * int(found.group(2) or 1)
    return tasks


def place_ranks(hosts: Sequence[str], tasks: Sequence[int], ranks: int) -> list[str] | None:
    """The host of each rank where ranks fill one node after the other; None where sums differ."""
    if not tasks and hosts and ranks % len(hosts) == 0:
        tasks = [ranks // len(hosts)] * len(hosts)
    if len(tasks) != len(hosts) or sum(tasks) != ranks:
        return None
    return [host for host, count in zip(hosts, tasks, strict=True) for _ in range(count)]


def read_expected_hosts(option: str | None, environ: Mapping[str, str]) -> list[str]:
    """The hosts that should be there: of --hosts, else of Slurm's step or job; else none."""
    if option:
        return expand_nodelist(option)
    for name in ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"):
        if environ.get(name):
            with contextlib.suppress(WrongUse):
                return expand_nodelist(environ[name])
    return []


def read_expected_tasks(environ: Mapping[str, str]) -> list[int]:
    """How many ranks each of Slurm's nodes has, as far as Slurm tells."""
    for name in ("SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"):
        if environ.get(name):
            return expand_tasks(environ[name])
    return []


def shorten_host(name: str) -> str:
    """A host's name as it is compared: without its domain, in small letters."""
    return name.split(".")[0].lower()


def parse_cpu_list(text: str) -> set[int]:
    """Processors of a list in the notation of /sys: `0-3,8`."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def read_numa_processors(sysfs: Path = Path("/sys/devices/system/node")) -> dict[int, set[int]]:
    """The processors of each NUMA node of this machine; empty where nobody tells."""
    nodes = {}
    for folder in sysfs.glob("node[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            nodes[int(folder.name[4:])] = parse_cpu_list((folder / "cpulist").read_text())
    return {node: cpus for node, cpus in sorted(nodes.items()) if cpus}


def find_own_numa_nodes(nodes: Mapping[int, set[int]]) -> list[int]:
    """The NUMA nodes on which this process may run."""
    if not hasattr(os, "sched_getaffinity"):
        return []
    allowed = os.sched_getaffinity(0)
    return [node for node, cpus in nodes.items() if cpus & allowed]


def find_device_numa_node(
    properties: Any, sysfs: Path = Path("/sys/bus/pci/devices")
) -> int | None:
    """The NUMA node that the device is attached to, or None where nobody tells."""
    parts = [getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device")]
    if None in parts:
        return None
    domain, bus, device = (int(part or 0) for part in parts)
    address = f"{domain:04x}:{bus:02x}:{device:02x}.0"
    with contextlib.suppress(OSError, ValueError):
        node = int((sysfs / address / "numa_node").read_text())
        return node if node >= 0 else None
    return None


def read_facts(torch: Any, device: Any, backend: str) -> dict[str, Any]:
    """What this rank is made of: versions, device, compute capability, NUMA nodes."""
    properties: Any = None
    library = capability = count = None
    if device.type != "cpu":
        module = torch.get_device_module(device.type)
        with contextlib.suppress(AttributeError, RuntimeError, TypeError):
            properties = module.get_device_properties(device)
        with contextlib.suppress(AttributeError, RuntimeError, TypeError):
            count = int(module.device_count())
        capability = getattr(properties, "gcnArchName", None)
        if torch.version.hip is None and hasattr(properties, "major"):
            capability = f"{properties.major}.{properties.minor}"
    if backend == "nccl":
        with contextlib.suppress(AttributeError, RuntimeError, TypeError):
            library = ".".join(str(part) for part in torch.cuda.nccl.version())
    nodes = read_numa_processors()
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "rocm": torch.version.hip,
        "python": platform.python_version(),
        "backend": backend,
        "backend_version": library,
        "device": device.type,
        "device_model": describe_device(torch, device),
        "device_count": count,
        "compute_capability": capability,
        "numa_count": len(nodes),
        "numa_nodes": find_own_numa_nodes(nodes),
        "device_numa_node": find_device_numa_node(properties),
    }


def use_memory(torch: Any, device: Any, size: int) -> dict[str, int | None]:
    """Fill so many bytes of the device, read them back, and tell what memory it has.

    Raises RuntimeError where the numbers read are not those written, or do not fit.
    """
    block = torch.full((size // 4,), 7, dtype=torch.int32, device=device)
    block += 1
    if int((block != 8).sum()):
        raise RuntimeError(f"{format_bytes(size)} of memory do not keep what is written to them")
    free = total = None
    if device.type == "cuda":
        free, total = (int(value) for value in torch.cuda.mem_get_info(device))
    elif device.type == "cpu":
        with contextlib.suppress(OSError):
            found = dict(re.findall(r"^(\w+):\s+(\d+) kB", Path("/proc/meminfo").read_text(), re.M))
            free = 1024 * int(found["MemAvailable"]) if "MemAvailable" in found else None
            total = 1024 * int(found["MemTotal"]) if "MemTotal" in found else None
    return {"memory_used_bytes": size, "memory_free_bytes": free, "memory_total_bytes": total}


def list_expected_sums(ranks: int) -> list[int]:
    """What the reduction has to give, by the hand check of the docstring."""
    return [(index % 5 + 1) * ranks * (ranks + 1) // 2 for index in range(ELEMENTS)]


class Trouble(Exception):
    """A step of this rank failed, with the reason in one line."""


class RankChecks:
    """The steps of one rank, as functions that raise where they fail."""

    def __init__(
        self, options: argparse.Namespace, place: tuple[int, int, int], store: Any
    ) -> None:
        self.options = options
        self.rank, self.size, self.local_rank = place
        self.store = store
        self.facts: dict[str, Any] = {}
        self.device: Any = None
        self.entered: str | None = None
        """The collective step that this rank has come to, in which it waits for the others."""

    def run(self, step: str) -> None:
        """Do one step. Raises Trouble, or what torch raises."""
        for rehearsal in self.options.rehearse:
            if (rehearsal.rank, rehearsal.step) == (self.rank, step):
                if rehearsal.kind == "die":
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(3600)
        getattr(self, f"_check_{step}")()

    def _check_device(self) -> None:
        torch = import_torch()
        try:
            self.device = choose_device(torch, self.options.device, self.local_rank)
            self.backend = choose_backend(torch, self.device)
        except WrongUse as error:
            raise Trouble(str(error)) from error
        self.facts |= read_facts(torch, self.device, self.backend)
        tier = "cpu" if self.device.type == "cpu" else "accelerator"
        self.facts |= use_memory(torch, self.device, self.options.memory or DEFAULT_MEMORY[tier])

    def _check_group(self) -> None:
        torch = import_torch()
        distributed = torch.distributed
        # The collectives' own limit is longer: this tool wants to speak first.
        limit = datetime.timedelta(seconds=2 * self.options.timeout)
        self.entered = "group"
        bound = {}
        if may_bind_device(torch.__version__, self.backend):
            bound["device_id"] = self.device
        distributed.init_process_group(
            self.backend,
            store=distributed.PrefixStore("group", self.store),
            rank=self.rank,
            world_size=self.size,
            timeout=limit,
            **bound,
        )

    def _check_reduction(self) -> None:
        torch = import_torch()
        numbers = torch.arange(ELEMENTS, dtype=torch.int64, device=self.device) % 5 + 1
        numbers *= self.rank + 1
        self.entered = "reduction"
        torch.distributed.all_reduce(numbers)
        found = numbers.tolist()  # waits for the device
        wrong = sum(a != b for a, b in zip(found, list_expected_sums(self.size), strict=True))
        if wrong:
            raise Trouble(f"the answer is wrong in {wrong} of {ELEMENTS} elements")

    def _check_barrier(self) -> None:
        torch = import_torch()
        self.entered = "barrier"
        if self.backend == "gloo":
            limit = datetime.timedelta(seconds=self.options.timeout)
            torch.distributed.monitored_barrier(timeout=limit, wait_all_ranks=True)
        else:
            torch.distributed.barrier(device_ids=[self.device.index or 0])
            torch.accelerator.synchronize(self.device)


class StepWorker(threading.Thread):
    """Does the steps on a thread of its own, so that one that hangs does not hang the report."""

    def __init__(self, checks: RankChecks) -> None:
        super().__init__(daemon=True)
        self.checks = checks
        self.step: str | None = None
        self.wanted: queue.Queue[str] = queue.Queue()
        self.ended: queue.Queue[str | None] = queue.Queue()

    def is_busy(self) -> bool:
        """Whether a step is being done."""
        return self.step is not None

    def run(self) -> None:
        """Do the steps as they are asked for; each ends with None, or with what was wrong."""
        while True:
            self.step = self.wanted.get()
            try:
                self.checks.run(self.step)
            except Exception as error:
                lines = str(error).strip().splitlines() or [type(error).__name__]
                answer: str | None = lines[0][:300]
            else:
                answer = None
            self.step = None
            self.ended.put(answer)


def open_store(place: tuple[int, int, int], timeout: float, is_second: bool = False) -> Any:
    """The store of rank 0, which it also hosts unless torchrun does. Raises RuntimeError."""
    torch = import_torch()
    rank, size, _ = place
    by_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return torch.distributed.TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ.get("MASTER_PORT", "29500")),
        size,
        rank == 0 and not by_agent and not is_second,
        datetime.timedelta(seconds=timeout),
        wait_for_workers=False,
    )


def read_pid_space() -> str | None:
    """What two processes have in common that can see each other by their numbers."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return None


def is_process_dead(pid: int) -> bool:
    """Whether a process of this machine has ended, reaped or not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return True
    return state in "ZX"


class Board:
    """What the ranks tell each other beside the collectives, in the store of rank 0."""

    def __init__(self, torch: Any, store: Any, rank: int, size: int) -> None:
        # Of each start of its own: torchrun keeps its store when it starts the ranks again.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        self.store = torch.distributed.PrefixStore(f"check{attempt}", store)
        self.rank = rank
        self.size = size
        self.neighbours: list[int] | None = None
        self.asked: float | None = None
        """Since when an answer of the store is outstanding."""

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        self.asked = time.monotonic()
        yield
        self.asked = None

    def watch(self, timeout: float, give_up: Callable[[], None]) -> None:
        """Call `give_up`, on a thread of its own, where the store has not answered for so long.

        A store that is cut off does not fail: the connection waits for minutes.
        """

        def look() -> None:
            while True:
                time.sleep(0.2)
                asked = self.asked
                if asked is not None and time.monotonic() - asked > timeout:
                    give_up()

        threading.Thread(target=look, daemon=True).start()

    def sign(self, host: str) -> None:
        """Write this rank into the list of arrivals."""
        signature = {"host": host, "pid": os.getpid(), "pid_space": read_pid_space()}
        self.store.set(f"arrived/{self.rank}", json.dumps(signature))
        self.store.add("arrivals", 1)

    def count_arrivals(self) -> int:
        """How many ranks have arrived."""
        with self._asking():
            return int(self.store.add("arrivals", 0))

    def read(self, key: str) -> Any:
        """What is written there, or None."""
        with self._asking():
            return json.loads(self.store.get(key)) if self.store.check([key]) else None

    def tell(self, state: Mapping[str, Any]) -> None:
        """Write how far this rank has come."""
        with self._asking():
            self.store.set(f"state/{self.rank}", json.dumps(state))
            if state.get("trouble"):
                self.store.add("troubles", 1)

    def has_trouble(self) -> bool:
        """Whether some rank has failed at something, or has died on this machine."""
        with self._asking():
            troubles = int(self.store.add("troubles", 0))
        return troubles > 0 or self._has_dead_neighbour()

    def _has_dead_neighbour(self) -> bool:
        if self.rank or read_pid_space() is None:
            return False
        if self.neighbours is None:
            signed = [self.read(f"arrived/{rank}") for rank in range(self.size)]
            self.neighbours = [
                one["pid"] for one in signed if one and one["pid_space"] == read_pid_space()
            ]
        return any(map(is_process_dead, self.neighbours))

    def beat(self) -> None:
        """One heartbeat of this rank."""
        self.store.add(f"beat/{self.rank}", 1)

    def read_beats(self, ranks: Iterable[int]) -> dict[int, int]:
        """The heartbeats of these ranks so far."""
        return {rank: int(self.store.add(f"beat/{rank}", 0)) for rank in ranks}

    def conclude(self, is_good: bool) -> None:
        """Let all ranks go."""
        self.store.set("verdict", json.dumps(is_good))

    def read_verdict(self) -> bool | None:
        """What rank 0 has concluded, or None where it has not yet."""
        verdict = self.read("verdict")
        return None if verdict is None else bool(verdict)


def keep_beating(board: Board) -> None:
    """Tell the store that this rank lives, on a thread of its own, until the store is gone."""

    def beat() -> None:
        interval = max(BEAT_SECONDS, board.size / 2000)
        with contextlib.suppress(Exception):
            while True:
                board.beat()
                time.sleep(interval)

    threading.Thread(target=beat, daemon=True).start()


class Outcome(NamedTuple):
    """What rank 0 knows of a rank at the end."""

    rank: int
    host: str | None
    state: dict[str, Any]
    is_alive: bool | None
    """Whether it had a heartbeat while rank 0 listened; None where nobody had to listen."""
    pid: int | None


def choose_rank_verdict(outcome: Outcome) -> str:
    """One or two words on a rank: the worst that applies."""
    if outcome.host is None:
        return "never arrived"
    if len(outcome.state.get("seconds", {})) == len(STEPS):
        return "ok"
    if outcome.is_alive is False:
        return "gone"
    if outcome.state.get("trouble") and not outcome.state.get("hangs"):
        return "failed"
    return "hangs"


def name_missing_nodes(
    outcomes: Sequence[Outcome], hosts: Sequence[str], tasks: Sequence[int]
) -> tuple[list[str], dict[int, str]]:
    """The expected hosts from which no rank arrived, and the host of each missing rank.

    A missing rank has a host where the ranks that arrived are where Slurm's block distribution
    puts them, or where one node alone is missing.
    """
    arrived = {o.rank: shorten_host(o.host) for o in outcomes if o.host is not None}
    missing = [host for host in hosts if shorten_host(host) not in arrived.values()]
    absent = [o.rank for o in outcomes if o.host is None]
    placed = place_ranks(hosts, tasks, len(outcomes))
    if placed and all(shorten_host(placed[rank]) == host for rank, host in arrived.items()):
        return missing, {rank: placed[rank] for rank in absent}
    if len(missing) == 1 and not tasks:
        return missing, dict.fromkeys(absent, missing[0])
    return missing, {}


def format_ranks(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 0-3, 7`: numbers in as few words as they take."""
    spans: list[list[int]] = []
    for rank in sorted(ranks):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    return f"rank{'' if len(ranks) == 1 else 's'} {text}"


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


def import_torch() -> Any:
    """The torch module; raises WrongUse with what to do where there is none."""
    try:
        import torch
    except ImportError as error:
        raise WrongUse(
            f"torch does not import ({error}); install it: https://pytorch.org/get-started/locally"
        ) from error
    return torch


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


def find_differences_of_ranks(
    outcomes: Sequence[Outcome], names: Sequence[str]
) -> list[tuple[str, Any, Any, list[int]]]:
    """Name, value of rank 0, another value, and the ranks that have it."""
    facts = {o.rank: o.state.get("facts") or {} for o in outcomes if o.state.get("facts")}
    first = facts.get(0)
    if not first:
        return []
    others: dict[tuple[str, str], list[int]] = {}
    for rank, ours in facts.items():
        for name in names:
            if ours.get(name) != first.get(name):
                others.setdefault((name, str(ours.get(name))), []).append(rank)
    return [(name, first.get(name), value, ranks) for (name, value), ranks in others.items()]


def list_interfaces() -> list[str]:
    """The network interfaces of this machine, without those that lead nowhere else."""
    try:
        names = [name for _, name in socket.if_nameindex()]
    except OSError:
        return []
    return [name for name in names if not name.startswith(LOCAL_INTERFACES)]


class Report:
    """What rank 0 has found, ready to be printed and written."""

    def __init__(self, outcomes: list[Outcome], hosts: list[str], tasks: list[int]) -> None:
        self.outcomes = outcomes
        self.verdicts = {o.rank: choose_rank_verdict(o) for o in outcomes}
        self.missing_hosts, self.missing_places = name_missing_nodes(outcomes, hosts, tasks)
        names = [*map(shorten_host, hosts), *(shorten_host(o.host) for o in outcomes if o.host)]
        self.node_numbers = {name: i for i, name in enumerate(dict.fromkeys(names))}
        self.caveats: list[str] = []
        self.problems: list[str] = []
        self.advice: list[str] = []

    def get_host(self, outcome: Outcome) -> str | None:
        """Where the rank is, or should be."""
        return outcome.host or self.missing_places.get(outcome.rank)

    def list_ranks(self, verdict: str) -> list[int]:
        """The ranks of that verdict."""
        return [rank for rank, word in self.verdicts.items() if word == verdict]

    def make_rows(self) -> list[Row]:
        """The rows of the JSON, without names of hosts."""
        rows = []
        for outcome in self.outcomes:
            seconds = outcome.state.get("seconds", {})
            facts = outcome.state.get("facts") or {}
            host = self.get_host(outcome)
            row: Row = {"rank": outcome.rank}
            row["node"] = self.node_numbers.get(shorten_host(host)) if host else None
            row["device"] = facts.get("device")
            row["device_model"] = facts.get("device_model")
            row["compute_capability"] = facts.get("compute_capability")
            row["reached"] = list(seconds)[-1] if seconds else None
            row |= {f"{step}_seconds": seconds.get(step) for step in STEPS}
            for name in ("memory_used_bytes", "memory_free_bytes", "memory_total_bytes"):
                row[name] = facts.get(name)
            row["numa_nodes"] = ",".join(map(str, facts.get("numa_nodes", []))) or None
            row["device_numa_node"] = facts.get("device_numa_node")
            row["verdict"] = self.verdicts[outcome.rank]
            rows.append(row)
        return rows


def complete_report(report: Report, timeout: float, address: str) -> None:
    """Put into words what is wrong, and what to do next."""
    by_rank = {outcome.rank: outcome for outcome in report.outcomes}
    absent, gone = report.list_ranks("never arrived"), report.list_ranks("gone")
    hanging, failed = report.list_ranks("hangs"), report.list_ranks("failed")
    if absent:
        report.problems.append(f"{format_ranks(absent)} never arrived within {timeout:g} s")
        if report.missing_hosts:
            report.problems.append(
                f"nobody arrived from {', '.join(report.missing_hosts)}: the node is down, its "
                "link is down, or nothing was started there"
            )
            if (
                len(report.missing_hosts) > 1
                and len({o.host for o in report.outcomes if o.host}) == 1
            ):
                report.problems.append(
                    f"all who arrived are on {by_rank[0].host}: maybe it is this node that the "
                    "others cannot reach"
                )
        elif report.missing_places:
            where = sorted(set(report.missing_places.values()))
            report.problems.append(f"they belong on {', '.join(where)}, where others have arrived")
        report.advice += advise_on_absence(report, address)
    for ranks, words in (
        (gone, "arrived, and is gone: dead, stopped, or cut off from rank 0"),
        (hanging, "is alive and hangs"),
    ):
        for rank in ranks[:8]:
            done = list(by_rank[rank].state.get("seconds", {}))
            after = f"after {done[-1]}" if done else "before its first step"
            following = STEPS[len(done)] if len(done) < len(STEPS) else "its end"
            report.problems.append(
                f"rank {rank} on {by_rank[rank].host} {words}, {after}, in or before {following}"
            )
        if len(ranks) > 8:
            report.problems.append(f"and so do {len(ranks) - 8} more: {format_ranks(ranks)}")
    if gone:
        host = by_rank[gone[0]].host
        report.advice += [
            f"ssh {host} 'dmesg -T | tail -n 40'    # out of memory? Xid? link down?",
            f"ssh {host} 'ip -br addr; ip -s link'",
        ]
    if hanging:
        outcome = by_rank[hanging[0]]
        report.advice.append(f"ssh {outcome.host} 'py-spy dump --native --pid {outcome.pid}'")
    causes: dict[str, list[int]] = {}
    for rank in failed:
        causes.setdefault(str(by_rank[rank].state["trouble"]), []).append(rank)
    # What the others say follows from a rank that is not there any more.
    if failed and not (absent or gone or hanging):
        for cause, ranks in list(causes.items())[:8]:
            report.problems.append(f"{format_ranks(ranks)}: {cause}")
        report.advice += advise_on_backend(by_rank[failed[0]].state.get("facts") or {})
    elif failed:
        report.caveats.append(
            f"{format_ranks(failed)} could not go on without the others; the first of them says: "
            f"{by_rank[failed[0]].state['trouble']}"
        )
    for name, own, value, ranks in find_differences_of_ranks(report.outcomes, SOFTWARE):
        report.problems.append(f"{format_ranks(ranks)}: {name} is {value}, on rank 0 it is {own}")
    for name, own, value, ranks in find_differences_of_ranks(report.outcomes, HARDWARE):
        report.caveats.append(f"{format_ranks(ranks)}: {name} is {value}, on rank 0 it is {own}")
    report.caveats += find_numa_remarks(report.outcomes)


def advise_on_absence(report: Report, address: str) -> list[str]:
    """What to type next where a rank never arrived."""
    hosts = report.missing_hosts or sorted(set(report.missing_places.values())) or ["THAT_NODE"]
    name = Path(__file__).name
    host, port = address.rpartition(":")[::2]
    if os.environ.get("SLURM_JOB_ID"):
        enter = f"srun --overlap --jobid {os.environ['SLURM_JOB_ID']} -w {hosts[0]} "
    else:
        enter = f"ssh {hosts[0]} "
    if not report.missing_hosts and report.missing_places:
        return [f"{enter}ps -ef | grep {name}    # was it started? what did it say before?"]
    look = f"ip -br addr; getent hosts {host}; echo > /dev/tcp/{host}/{port}"
    return [
        f"{enter}hostname    # does it answer at all?",
        f"{enter}bash -c '{look}'    # link up? name known? port open?",
        f"sudo iptables -L -n; sudo nft list ruleset    # does a firewall drop port {port}?",
    ]


def advise_on_backend(facts: Mapping[str, Any]) -> list[str]:
    """What to type next where the collectives themselves do not work."""
    names = list_interfaces()
    choice = names[0] if names else "eth0"
    listed = f"    # this node has {', '.join(names)}" if names else ""
    if facts.get("backend") == "gloo":
        return [f"GLOO_SOCKET_IFNAME={choice} TORCH_DISTRIBUTED_DEBUG=INFO ...{listed}"]
    return [
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET ...    # which interface does it choose?",
        f"NCCL_SOCKET_IFNAME={choice} ...{listed}",
        "NCCL_IB_DISABLE=1 ...    # works without InfiniBand? then look there: ibstat",
    ]


def find_numa_remarks(outcomes: Sequence[Outcome]) -> list[str]:
    """Ranks that may not run beside their device, and ranks that may run anywhere."""
    far, free = [], []
    for outcome in outcomes:
        facts = outcome.state.get("facts") or {}
        own, device = facts.get("numa_nodes") or [], facts.get("device_numa_node")
        if device is not None and own and device not in own:
            far.append(outcome.rank)
        elif device is not None and facts.get("numa_count", 0) > 1 and len(own) > 1:
            free.append(outcome.rank)
    remarks = []
    if far:
        remarks.append(
            f"{format_ranks(far)}: the NUMA node of the device is not among those the rank may run "
            "on; bind it there (srun --cpu-bind, numactl --cpunodebind)"
        )
    if free:
        remarks.append(
            f"{format_ranks(free)}: not bound to one NUMA node; binding each rank to that of its "
            "device is faster"
        )
    return remarks


def format_check_table(report: Report) -> str:
    """The table of the ranks."""
    lines = []
    outcomes = report.outcomes
    if len(outcomes) > SHOWN_RANKS:
        outcomes = [o for o in outcomes if o.rank == 0 or report.verdicts[o.rank] != "ok"]
    for outcome in outcomes[:SHOWN_RANKS]:
        facts = outcome.state.get("facts") or {}
        free, total = facts.get("memory_free_bytes"), facts.get("memory_total_bytes")
        numa = ",".join(map(str, facts.get("numa_nodes", []))) or "-"
        if facts.get("device_numa_node") is not None:
            numa += f" / {facts['device_numa_node']}"
        seconds = outcome.state.get("seconds", {})
        lines.append(
            [
                str(outcome.rank),
                report.get_host(outcome) or "?",
                str(facts.get("device_model") or "-"),
                f"{free / 1024**3:.1f} of {total / 1024**3:.1f}" if free and total else "-",
                numa,
                list(seconds)[-1] if seconds else "-",
                report.verdicts[outcome.rank],
            ]
        )
    headings = ["Rank", "Node", "Device", "Free memory, GiB", "NUMA, own / device"]
    return format_table([*headings, "Reached", "Verdict"], lines)


def make_check_document(
    report: Report, head: dict[str, Any], timeout: float, is_complete: bool
) -> dict[str, Any]:
    """The JSON document: base units, no NaN, no names of hosts."""
    first = report.outcomes[0].state.get("facts") or {}
    seen = {o.host for o in report.outcomes if o.host}

    def hide_hosts(text: str) -> str:
        for name in sorted({*seen, *report.missing_hosts}, key=len, reverse=True):
            number = report.node_numbers[shorten_host(name)]
            text = re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", f"node {number}", text)
        return text

    return {
        **head,
        "complete": is_complete,
        "units": UNITS,
        "results": report.make_rows(),
        "caveats": [hide_hosts(text) for text in (*report.problems, *report.caveats)],
        "details": {
            "header": {
                **{name: first.get(name) for name in (*SOFTWARE, *HARDWARE, "cuda", "rocm")},
                "ranks": len(report.outcomes),
                "nodes": len(report.node_numbers),
                "environment": read_network_environment(os.environ),
            },
            "settings": {"timeout_seconds": timeout},
            "can_talk": not report.problems,
        },
    }


def print_report(report: Report) -> int:
    """The table to stdout; what was found, and what to do, to stderr. The number of problems."""
    print(format_check_table(report), flush=True)
    facts = report.outcomes[0].state.get("facts") or {}
    if facts:
        print(
            "rank 0: "
            + ", ".join(
                f"{name.replace('_', ' ')} {facts[name]}"
                for name in (*SOFTWARE, *HARDWARE, "cuda", "rocm")
                if facts.get(name) is not None
            ),
            file=sys.stderr,
        )
    for text in report.caveats:
        write_note(text)
    for text in report.problems:
        print(f"problem: {text}", file=sys.stderr)
    for text in dict.fromkeys(report.advice):
        print(f"next: {text}", file=sys.stderr)
    if not report.problems:
        nodes = len({outcome.host for outcome in report.outcomes})
        print(
            f"all {len(report.outcomes)} ranks on {nodes} node{'' if nodes == 1 else 's'} can talk",
            file=sys.stderr,
        )
    sys.stderr.flush()
    return len(report.problems)


def find_free_port() -> int:
    """A TCP port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def read_rank(environ: Mapping[str, str]) -> tuple[int, int, int] | None:
    """Rank, world size and local rank from torchrun, Slurm or Open MPI; None without a launcher."""
    for names in (
        ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
        ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ):
        # A shell inside an allocation has SLURM_PROCID too: it is a rank only beside an address.
        if all(environ.get(name, "").isdigit() for name in names) and "MASTER_ADDR" in environ:
            rank, size, local = (int(environ[name]) for name in names)
            return rank, size, local
    return None


def count_local_ranks(wanted: int | None, device_name: str | None) -> int:
    """How many ranks to start here: as asked for, else one for each accelerator, or 2 on a CPU."""
    if wanted:
        return wanted
    if device_name is not None and device_name.startswith("cpu"):
        return 2
    torch = import_torch()
    if hasattr(torch, "accelerator") and torch.accelerator.is_available():
        return int(torch.accelerator.device_count())
    return 2


def launch_ranks(count: int, arguments: Sequence[str]) -> int:
    """Run this file once for each rank on this machine, and return the exit status of the job.

    The first rank that fails ends the others, and is named. A signal goes to all of them.
    """
    port = find_free_port()
    ranks: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _frame: Any) -> None:
        for process in ranks:
            if process.poll() is None:
                process.send_signal(number)

    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), pass_on)
    for rank in range(count):
        environ = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(count),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        environ.setdefault("OMP_NUM_THREADS", "1")
        # A group of its own: Ctrl-C at the terminal reaches a rank once, through pass_on.
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), *arguments],
            env=environ,
            start_new_session=True,
        )
        ranks.append(process)
    failed: tuple[int, int] | None = None
    deadline: float | None = None
    while any(process.poll() is None for process in ranks):
        for rank, process in enumerate(ranks):
            if process.poll() and failed is None:
                failed = (rank, process.returncode)
                deadline = time.monotonic() + 5.0
        if deadline is not None and time.monotonic() > deadline:
            for process in ranks:
                if process.poll() is None:
                    process.kill()
        time.sleep(0.02)
    statuses = [process.returncode for process in ranks]
    if failed is None:
        failed = next(((rank, status) for rank, status in enumerate(statuses) if status), None)
    if failed is None:
        return 0
    rank, status = failed
    if status < 0:
        print(f"rank {rank} was ended by {signal.Signals(-status).name}", file=sys.stderr)
        return 1
    if status not in (1, 2):
        print(f"rank {rank} ended with status {status}", file=sys.stderr)
        return 1
    return status


def collect_outcomes(board: Board, seconds: float, stop: StopSign) -> list[Outcome]:
    """What became of every rank: waits until all have an end, or so many seconds at most.

    Ranks without an end are listened to for their heartbeats all the while.
    """
    deadline = time.monotonic() + seconds
    arrivals = {rank: board.read(f"arrived/{rank}") for rank in range(board.size)}
    before: dict[int, int] = {}
    listening_since = time.monotonic()
    states: dict[int, dict[str, Any]] = {}
    while True:
        open_ranks = []
        for rank in range(board.size):
            if arrivals[rank] is None:
                continue
            if not is_ended(states.get(rank, {})):
                states[rank] = board.read(f"state/{rank}") or {}
            if not is_ended(states[rank]):
                open_ranks.append(rank)
        if not before:
            before, listening_since = board.read_beats(open_ranks), time.monotonic()
        now = time.monotonic()
        has_listened = now - listening_since >= LISTEN_SECONDS
        is_late = now >= deadline or stop.reason is not None or board.has_trouble()
        if not open_ranks or (is_late and has_listened):
            break
        time.sleep(0.1)
    after = board.read_beats(open_ranks)
    outcomes = []
    for rank in range(board.size):
        signed = arrivals[rank] or {}
        is_alive = after[rank] > before.get(rank, -1) if rank in after else None
        outcomes.append(
            Outcome(rank, signed.get("host"), states.get(rank, {}), is_alive, signed.get("pid"))
        )
    return outcomes


def is_ended(state: Mapping[str, Any]) -> bool:
    """A rank that has done all steps, or failed at one, has nothing more to tell."""
    return bool(state.get("trouble")) or len(state.get("seconds", {})) == len(STEPS)


def wait_for_arrivals(board: Board, timeout: float, stop: StopSign) -> str | None:
    """Wait until all ranks have arrived; else the reason why not."""
    deadline = time.monotonic() + timeout
    while board.count_arrivals() < board.size:
        stop.check()
        if board.read_verdict() is not None:
            return "rank 0 has ended the check"
        if time.monotonic() > deadline:
            return "not all ranks arrived"
        time.sleep(0.05)
    return None


def wait_for_step(worker: StepWorker, board: Board, timeout: float, stop: StopSign) -> str | None:
    """Wait until the worker has done its step; None, or the reason why it has not."""
    deadline = time.monotonic() + timeout
    looked = time.monotonic()
    troubled: float | None = None
    while True:
        try:
            return worker.ended.get(timeout=0.02)
        except queue.Empty:
            stop.check()
        now = time.monotonic()
        if now > deadline:
            return f"not done within {timeout:g} s"
        if now - looked > 0.5:
            looked = now
            if board.read_verdict() is not None:
                return "rank 0 has ended the check"
            troubled = troubled or (now if board.has_trouble() else None)
            # Where another rank has failed the answer will not come.
            if troubled is not None and now - troubled > 1.0:
                return "another rank failed"


def go_through_steps(
    checks: RankChecks, board: Board, state: dict[str, Any], stop: StopSign, arrived: float
) -> None:
    """All steps of this rank; `state` tells how far it came, and why not further."""
    timeout = checks.options.timeout
    trouble = wait_for_arrivals(board, timeout, stop)
    if trouble is None:
        state["seconds"]["arrival"] = time.monotonic() - arrived
        board.tell(state)
        worker = StepWorker(checks)
        worker.start()
        for step in STEPS[1:]:
            started = time.monotonic()
            worker.wanted.put(step)
            trouble = wait_for_step(worker, board, timeout, stop)
            if step == "device":
                state["facts"] = dict(checks.facts)
            if trouble is not None:
                # Others wait in the collective; a rank that has not even come to it hangs.
                state["hangs"] = worker.is_busy() and checks.entered != step
                trouble = f"{step}: {trouble}"
                break
            state["seconds"][step] = time.monotonic() - started
            board.tell(state)
    if trouble is not None:
        state["trouble"] = trouble
        board.tell(state)


def run_check_rank(
    options: argparse.Namespace,
    place: tuple[int, int, int],
    command: list[str],
    stop: StopSign,
    origin: float,
) -> int:
    """Check as one of the ranks; the exit status."""
    rank, size, _ = place
    host = socket.gethostname()
    address = f"{os.environ['MASTER_ADDR']}:{os.environ.get('MASTER_PORT', '29500')}"
    if any((r.kind, r.rank) == ("absent", rank) for r in options.rehearse):
        return 0
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # no stack traces among the findings
    torch = import_torch()
    raise_file_limit()
    try:
        store = open_store(place, options.timeout)
        # Of its own, because a store that waits for one thread lets no other one in.
        board = Board(torch, open_store(place, options.timeout, True), rank, size)
        board.sign(host)
    except (RuntimeError, ValueError) as error:
        words = (str(error).strip().splitlines() or [type(error).__name__])[0]
        print(
            f"problem: rank {rank} on {host} cannot reach rank 0's store at {address}: {words}\n"
            f"next: ip -br addr; getent hosts {os.environ['MASTER_ADDR']}    # link up? name known?"
            f"\nnext: bash -c 'echo > /dev/tcp/{address.replace(':', '/')}'    # is rank 0 there, "
            "and its port open?",
            file=sys.stderr,
        )
        return 1

    def give_up() -> None:
        print(
            f"problem: rank {rank} on {host} has had no answer of rank 0's store at {address} for "
            f"{options.timeout:g} s: this node or that of rank 0 is cut off\n"
            "next: ip -br addr; ip -s link    # link up?",
            file=sys.stderr,
            flush=True,
        )
        os._exit(1)

    board.watch(options.timeout, give_up)
    keep_beating(board)
    state: dict[str, Any] = {"seconds": {}, "facts": {}, "trouble": None}
    checks = RankChecks(options, place, store)
    is_stopped = False
    try:
        try:
            go_through_steps(checks, board, state, stop, time.monotonic())
        except Stopped as stopped:
            is_stopped = True
            state["trouble"] = str(stopped)
            board.tell(state)
        if rank:
            return follow_verdict(board, options.timeout, state)
        outcomes = collect_outcomes(board, options.timeout, stop)
    except (RuntimeError, ValueError) as error:
        words = (str(error).strip().splitlines() or [type(error).__name__])[0]
        print(
            f"problem: rank {rank} on {host} lost rank 0's store at {address} ({words}): rank 0 is "
            "gone, or the way to it is cut",
            file=sys.stderr,
        )
        return 1
    hosts = read_expected_hosts(options.hosts, os.environ) or count_off_nodes(outcomes)
    report = Report(outcomes, hosts, [] if options.hosts else read_expected_tasks(os.environ))
    if is_stopped:
        report.caveats.append(str(state["trouble"]))
    complete_report(report, options.timeout, address)
    head = make_document_head("torch_distributed_check", (__version__, METHOD), command, origin)
    problems = run_to_stdout(lambda: print_report(report))
    if options.json:
        document = make_check_document(report, head, options.timeout, not is_stopped)
        write_document(options.json, document)
    is_good = not problems and not is_stopped
    board.conclude(is_good)
    time.sleep(0.3)  # the others read it from this rank
    return 0 if is_good else 1


def count_off_nodes(outcomes: Sequence[Outcome]) -> list[str]:
    """Names for nodes where nobody tells which there should be, by LOCAL_WORLD_SIZE ranks each.

    A node from which somebody arrived has its own name; others are called by their number.
    """
    each = os.environ.get("LOCAL_WORLD_SIZE", "")
    if not each.isdigit() or int(each) < 1 or len(outcomes) % int(each):
        return []
    names = []
    for first in range(0, len(outcomes), int(each)):
        known = {o.host for o in outcomes[first : first + int(each)] if o.host}
        if len(known) > 1:
            return []
        names.append(known.pop() if known else f"node-number-{first // int(each)}")
    return names if len(set(names)) == len(names) else []


def follow_verdict(board: Board, timeout: float, state: Mapping[str, Any]) -> int:
    """Wait for what rank 0 concludes; the exit status."""
    deadline = time.monotonic() + 2 * timeout
    with contextlib.suppress(RuntimeError, ValueError):  # rank 0 has taken its store along
        while time.monotonic() < deadline:
            verdict = board.read_verdict()
            if verdict is not None:
                return 0 if verdict else 1
            time.sleep(0.05)
    return 1 if state.get("trouble") else 0


def raise_file_limit() -> None:
    """Allow as many open connections as this user may have: rank 0 has some of every rank."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft != hard:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def run_self_test() -> int:
    """Check the host lists and two real runs, a good and a bad one; 0, or 1 where one fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    check("node[08-10],x is four hosts", expand_nodelist("node[08-10],x")[2:] == ["node10", "x"])
    check("8(x2),4 tasks are 8, 8 and 4", expand_tasks("8(x2),4") == [8, 8, 4])
    placed = place_ranks(["a", "b"], [2, 1], 3)
    check("2 ranks on a, 1 on b", placed == ["a", "a", "b"])
    check("with 4 ranks element 2 is 30", list_expected_sums(4)[2] == 30)
    check("ranks 0-2, 5", format_ranks([5, 0, 1, 2]) == "ranks 0-2, 5")
    environ = {k: v for k, v in os.environ.items() if k not in ("RANK", "SLURM_PROCID")}
    command = [sys.executable, str(Path(__file__).resolve()), *PROFILES["toy"], "--ranks", "2"]
    with tempfile.TemporaryDirectory(prefix="check_") as folder:
        results: list[tuple[int, list[str], str]] = []
        for more in ([], ["--timeout", "3s", "--rehearse", "absent:1"]):
            path = Path(folder) / f"run{len(results)}.json"
            done = subprocess.run(
                [*command, *more, "--json", str(path)],
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
                env=environ,
            )
            document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
            verdicts = [row["verdict"] for row in document.get("results", [])]
            results.append((done.returncode, verdicts, done.stderr))
    (good, good_verdicts, words), (bad, bad_verdicts, complaint) = results
    check("two ranks can talk", good == 0 and good_verdicts == ["ok", "ok"])
    check("that is said in words", "all 2 ranks on 1 node can talk" in words)
    check("a rank that is not there is found", bad == 1 and bad_verdicts[1:] == ["never arrived"])
    check("and named", "rank 1 never arrived" in complaint)
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="torch_distributed_check.py",
        description="Check that all ranks can talk to each other, and name those that cannot.",
        epilog="The docstring at the top of this file tells what is checked and how to run it.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--timeout",
        type=parse_duration,
        default=30.0,
        metavar="DURATION",
        help="what each step may take, and what the others may take to arrive (default: 30s)",
    )
    parser.add_argument(
        "--hosts",
        metavar="LIST",
        help="the nodes that should be there, node[01-04] or a,b,c (default: those of Slurm)",
    )
    parser.add_argument(
        "--memory",
        type=parse_bytes,
        metavar="SIZE",
        help="memory to use on each device (default: 1GiB, on a CPU 16MiB)",
    )
    parser.add_argument("--device", metavar="KIND", help="cuda, xpu, cpu (default: what is there)")
    parser.add_argument(
        "--ranks",
        type=parse_count,
        metavar="N",
        help="without a launcher: start so many here (default: all accelerators, or 2 on a CPU)",
    )
    parser.add_argument(
        "--rehearse",
        type=parse_rehearsal,
        nargs="+",
        default=[],
        metavar="FAILURE",
        help="play a failure: die:RANK:STEP, hang:RANK:STEP, absent:RANK",
    )
    # Old launchers add it; the environment says the same.
    parser.add_argument("--local_rank", "--local-rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version",
        action="version",
        version=f"torch_distributed_check {__version__} (method {METHOD})",
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    command = make_portable_command(arguments)
    stop = StopSign()
    place = read_rank(os.environ)
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_json_path(options.json)
        if options.hosts:
            expand_nodelist(options.hosts)
        stop.listen()
        if place is not None:
            check_rehearsals(options.rehearse, place[1])
        else:
            count = count_local_ranks(options.ranks, options.device)
            check_rehearsals(options.rehearse, count)
            return 1 if stop.by_signal else launch_ranks(count, arguments)
        status = run_check_rank(options, place, command, stop, origin)
    except WrongUse as error:
        if place is not None and place[0] != 0:
            print(f"rank {place[0]}: {error}", file=sys.stderr)
            return 2
        parser.error(str(error))
    except (KeyboardInterrupt, Stopped):
        print("stopped", file=sys.stderr)
        return 1
    # A collective that hangs, or a group that has lost a rank, would keep the process from ending.
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


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
