#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""What do init_process_group and the first collective cost in device memory?

Before a model has a single weight, each rank has lost a part of its device: to the context with its
kernels, and to the communication library with its buffers. torch's own counters do not show it.
This tool goes through the start of a job step by step and reads, after each step, what the driver
says beside what torch says.

Physics
    There is no formula: libraries decide. Buffers grow with the number of channels and of peers, so
    measure with as many ranks as the job has. Units are binary: 1 GiB = 1024^3 bytes.  Hand check:
    a rank whose NVML number goes from 0.5 GiB to 2.0 GiB between two rows has lost 1.5 GiB there,
    of which torch's allocator reports nothing.

The steps, which all ranks take together
    start           torch is imported
    device          the device is used for the first time: its context and first kernels
    store           a connection to the store through which ranks find each other
    group           init_process_group. With --device_id on (the default where this torch takes it
                    safely) nccl makes its communicator here, without it at the first
                    collective. Buffers come with the first collective of each kind (nccl 2.22 on)
    barrier         the first collective
    barrier again   what a collective costs that is not the first
    all_reduce      of --payload bytes, its answer checked. The payload itself is freed again, and
                    torch's allocator is asked to return it to the driver
    destroy         destroy_process_group
    group to destroy are repeated --rounds times: what the second round costs is given back by
    destroy and taken again, the rest is paid once.

What is read
    NVML, process   what the driver counts for this process on this device (nvidia-ml-py)
    device used     of the whole device, other processes included: NVML, or mem_get_info
    torch           allocated, and reserved (what the allocator took from the driver)
    RSS, PSS        of the process on the host: resident pages, and the same with shared pages
                    divided among those who share them. PSS falls when another process maps the
                    same library
    All ranks stand still while memory is read. One run is one sample: libraries load once in a
    process. Growth is that since the step before.

How to run
    one node        python dist_mem_usage.py              (starts a rank for each accelerator)
    or              torchrun --nproc_per_node 8 dist_mem_usage.py
    before and after    the same with --device_id off, then on
    Slurm           srun --ntasks-per-node 8 --gpus-per-node 8 bash -c 'MASTER_ADDR=$(scontrol \
                        show hostnames $SLURM_JOB_NODELIST | head -n 1) \
                        python dist_mem_usage.py --json dist.json'
    pdsh            pdsh -R exec -w node[01-04] ssh %h 'RANK=%n WORLD_SIZE=4 LOCAL_RANK=0 \
                        MASTER_ADDR=node01 python /shared/dist_mem_usage.py'
    CUDA_MODULE_LOADING=EAGER loads all kernels at once and shows the most that a context takes.

A good answer: all ranks pay about the same, and the second round costs nothing that stays. A rank 0
that pays more than the others, and processes of other ranks on device 0, mean that ranks made a
context on a device that is not theirs: set the device first.

Seen running so far: gloo on CPUs, where there is no device memory to lose. The path for
accelerators and NVML follows their documentation and has not been run yet.

Exit status: 0 done, 1 a rank failed or an answer is wrong, or stopped by a signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import functools
import gc
import json
import math
import os
import platform
import re
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {
    "toy": ["--device", "cpu", "--rounds", "1", "--payload", "1MiB", "--timeout", "60s"],
    "full": ["--rounds", "2", "--payload", "64MiB"],
}
RANKS = {"toy": 2, "full": "accelerators"}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "rank": "1",
    "round": "1",
    "seconds": "s",
    "process_device_bytes": "B",
    "process_device_growth_bytes": "B",
    "device_used_bytes": "B",
    "device_used_growth_bytes": "B",
    "torch_allocated_bytes": "B",
    "torch_reserved_bytes": "B",
    "torch_reserved_growth_bytes": "B",
    "rss_bytes": "B",
    "rss_growth_bytes": "B",
    "pss_bytes": "B",
    "pss_growth_bytes": "B",
}

ONCE = ("start", "device", "store")
EACH_ROUND = ("group", "barrier", "barrier again", "all_reduce", "destroy")
GROWING = ("process_device", "device_used", "torch_reserved", "rss", "pss")
# With more ranks than this the table by rank shows the first and the extremes; the JSON has all.
SHOWN_RANKS = 8
POLL_SECONDS = 0.02

Row = dict[str, Any]


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


class RankFailed(Exception):
    """A rank failed, or did not come within the time: the job ends here."""


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


def parse_smaps(text: str) -> tuple[int, int] | None:
    """RSS and PSS in bytes from /proc/PID/smaps_rollup; None where they are not both there."""
    found = dict(re.findall(r"^(Rss|Pss):\s+(\d+) kB", text, re.MULTILINE))
    if len(found) < 2:
        return None
    return 1024 * int(found["Rss"]), 1024 * int(found["Pss"])


def read_process_memory(pid: int) -> tuple[int, int] | None:
    """RSS and PSS of a process; None where the system does not tell."""
    try:
        return parse_smaps(Path(f"/proc/{pid}/smaps_rollup").read_text())
    except OSError:
        return None


class DriverMemory:
    """What the driver says of one device's memory: NVML, or torch's question to the driver."""

    def __init__(self, torch: Any, device: Any) -> None:
        self.torch = torch
        self.device = device
        self.caveats: list[str] = []
        self.nvml: Any = None
        self.handle: Any = None
        if device.type == "cuda" and torch.version.hip is None:
            self._open_nvml()
        elif device.type != "cpu":
            self.caveats.append(
                f"there is no NVML for {device.type} here: memory of the process on the device "
                "was not read, only that of the whole device"
            )

    def _open_nvml(self) -> None:
        try:
            import pynvml
        except ImportError:
            self.caveats.append("NVML was not read: pip install nvidia-ml-py")
            return
        try:
            pynvml.nvmlInit()
            # torch counts only the visible GPUs, NVML counts all: the identifier joins them.
            uuid = self.torch.cuda.get_device_properties(self.device).uuid
            self.handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
            self.nvml = pynvml
        except (pynvml.NVMLError, AttributeError) as error:
            self.caveats.append(f"NVML was not read: {error}")

    def read_process(self) -> int | None:
        """Bytes of this process on the device; None where the driver does not say."""
        if self.nvml is None:
            return None
        try:
            processes = self.nvml.nvmlDeviceGetComputeRunningProcesses(self.handle)
        except self.nvml.NVMLError as error:
            self.caveats.append(f"NVML tells nothing of processes: {error}")
            return None
        own = [process.usedGpuMemory for process in processes if process.pid == os.getpid()]
        if not own or own[0] is None:
            self.caveats.append(
                "NVML does not know this process by its number (in a container it has another): "
                "start the container with --pid=host, or read the numbers of the whole device"
            )
            return None
        return int(own[0])

    def read_whole(self) -> int | None:
        """Bytes in use of the whole device; None where nobody says."""
        if self.device.type == "cpu":
            return None
        if self.nvml is not None:
            with contextlib.suppress(self.nvml.NVMLError):
                return int(self.nvml.nvmlDeviceGetMemoryInfo(self.handle).used)
        module = self.torch.get_device_module(self.device.type)
        try:
            free, total = module.mem_get_info(self.device)
        except (AttributeError, RuntimeError, NotImplementedError):
            return None
        return int(total) - int(free)


def read_torch_memory(torch: Any, device: Any) -> tuple[int | None, int | None]:
    """Bytes that torch has given out on the device, and that it has taken from the driver."""
    if device.type == "cpu":
        return None, None
    module = torch.get_device_module(device.type)
    values = []
    for name in ("memory_allocated", "memory_reserved"):
        count = getattr(module, name, None)
        values.append(None if count is None else int(count(device)))
    return values[0], values[1]


def add_growth(rows: Sequence[Row]) -> None:
    """Give each row of one rank what grew since the row before; None where either is unknown.

    A process has nothing on a device before it first uses it, so that growth starts from 0.
    """
    for number, row in enumerate(rows):
        before = rows[number - 1] if number else None
        for name in GROWING:
            now = row[f"{name}_bytes"]
            then = before[f"{name}_bytes"] if before else None
            if row["step"] == "device" and name in ("process_device", "torch_reserved"):
                then = 0
            known = now is not None and then is not None
            row[f"{name}_growth_bytes"] = now - then if known else None


def choose_measure(rows: Sequence[Row]) -> str:
    """The number that tells most: of the process on its device, of the device, or PSS or RSS."""
    for name in ("process_device", "device_used", "pss"):
        if any(row[f"{name}_bytes"] is not None for row in rows):
            return name
    return "rss"


def sum_growth(rows: Sequence[Row], measure: str, number: int, steps: Sequence[str]) -> list[int]:
    """For each rank what these steps of a round took together; ranks with a gap are left out.

    What torch's allocator holds is no cost of theirs, and is taken off.
    """
    sums: dict[int, list[int | None]] = {}
    for row in rows:
        if row["round"] == number and row["step"] in steps:
            growth = row[f"{measure}_growth_bytes"]
            if growth is not None and measure in ("process_device", "device_used"):
                growth -= row["torch_reserved_growth_bytes"] or 0
            sums.setdefault(row["rank"], []).append(growth)
    return [
        sum(part for part in parts if part is not None)
        for parts in sums.values()
        if None not in parts and len(parts) == len(steps)
    ]


MEASURE_NAMES = {
    "process_device": "device memory of the process (NVML)",
    "device_used": "memory of the whole device",
    "pss": "memory of the process on the host (PSS)",
    "rss": "memory of the process on the host (RSS)",
}


def describe_costs(rows: Sequence[Row], rounds: int) -> list[str]:
    """What the steps cost a rank, in sentences."""
    measure = choose_measure(rows)
    taking = [step for step in EACH_ROUND if step != "destroy"]
    texts = []
    for number in range(1, rounds + 1):
        costs = sum_growth(rows, measure, number, taking)
        back = sum_growth(rows, measure, number, ["destroy"])
        if costs:
            text = f"round {number}: group and collectives cost {format_range(costs)} a rank"
            if back:
                text += f"; destroy changes that by {format_range(back)}"
            texts.append(text)
    if texts:
        texts[0] = f"{MEASURE_NAMES[measure]}, {texts[0]}"
    return texts


def find_strays(rows: Sequence[Row]) -> list[str]:
    """Ranks that pay much more than others at a step, on the number that tells most."""
    measure = choose_measure(rows)
    if measure not in ("process_device", "device_used"):
        return []
    texts = []
    for number, step in dict.fromkeys((row["round"], row["step"]) for row in rows):
        own = {
            row["rank"]: row[f"{measure}_growth_bytes"]
            for row in rows
            if (row["round"], row["step"]) == (number, step)
            and row[f"{measure}_growth_bytes"] is not None
        }
        if len(own) < 3:
            continue
        usual = statistics.median(own.values())
        # A context of its own is some hundred MiB; differences of buffers are less.
        far = [rank for rank, size in own.items() if size > usual + 256 * 1024**2]
        if far and len(far) < len(own) / 2:
            texts.append(
                f"ranks {', '.join(map(str, far))} take over 256 MiB more than others at '{step}': "
                "do other ranks use their device?"
            )
    return texts


class StepStore:
    """Where ranks wait for each other without a collective, and leave what they have read."""

    def __init__(
        self, store: Any, place: tuple[int, int, int], timeout: float, stop: StopSign
    ) -> None:
        self.store = store
        self.rank, self.size, _ = place
        self.timeout = timeout
        self.stop = stop

    def meet(self, step: str) -> None:
        """Wait until all ranks are here. Raises Stopped on all of them where one has to end, and
        RankFailed where one failed or does not come."""
        # A rank that wants to end says so before it counts itself, so that all hear of it here.
        if self.stop.reason is not None:
            self.store.add(f"{step}/stop", 1)
        self.store.set(f"{step}/{self.rank}", "here")
        self.store.add(f"{step}/count", 1)
        deadline = time.monotonic() + self.timeout
        while self.store.add(f"{step}/count", 0) < self.size:
            if self.store.add("failed", 0):
                raise RankFailed("another rank failed")
            if time.monotonic() > deadline:
                missing = [r for r in range(self.size) if not self.store.check([f"{step}/{r}"])]
                names = ", ".join(map(str, missing)) or "none"
                raise RankFailed(f"at '{step}' these ranks did not come: {names}")
            time.sleep(POLL_SECONDS)
        if self.store.add(f"{step}/stop", 0):
            raise Stopped(self.stop.reason or "another rank was stopped")

    def fail(self) -> None:
        """Tell all ranks that this one failed."""
        with contextlib.suppress(RuntimeError):
            self.store.add("failed", 1)

    def leave(self, report: Mapping[str, Any]) -> None:
        """Leave what this rank has read, for rank 0."""
        with contextlib.suppress(RuntimeError):
            self.store.set(f"report/{self.rank}", json.dumps(report))

    def collect(self, seconds: float) -> tuple[list[dict[str, Any]], list[int]]:
        """The reports of all ranks that left one in time, and the ranks that did not."""
        deadline = time.monotonic() + seconds
        reports = []
        absent = []
        for rank in range(self.size):
            key = f"report/{rank}"
            while not self.store.check([key]) and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
            if self.store.check([key]):
                reports.append(json.loads(self.store.get(key)))
            else:
                absent.append(rank)
        return reports, absent


def join_store(torch: Any, place: tuple[int, int, int], timeout: float) -> Any:
    """A connection to the job's store, which rank 0 holds unless torchrun does.

    Raises RankFailed where nothing answers.
    """
    rank, size, _ = place
    by_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    try:
        store = torch.distributed.TCPStore(
            os.environ["MASTER_ADDR"],
            int(os.environ.get("MASTER_PORT", "29500")),
            size,
            rank == 0 and not by_agent,
            datetime.timedelta(seconds=timeout),
            wait_for_workers=False,
        )
    except (RuntimeError, ValueError) as error:
        raise RankFailed(f"no store at MASTER_ADDR: {shorten_failure(error)}") from error
    return torch.distributed.PrefixStore("dist_mem_usage", store)


def shorten_failure(error: BaseException) -> str:
    """The first line of an error, without addresses."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return re.sub(r"\[?(?:\d{1,3}\.){3}\d{1,3}\]?(?::\d+)?", "a host", lines[0])[:160]


class MemoryWalk:
    """One rank's way through the steps, with a row of memory for each."""

    def __init__(
        self, options: argparse.Namespace, place: tuple[int, int, int], stop: StopSign
    ) -> None:
        self.options = options
        self.place = place
        self.rank, self.size, self.local_rank = place
        self.stop = stop
        self.rows: list[Row] = []
        self.facts: dict[str, Any] = {}
        self.caveats: list[str] = []
        self.torch = import_torch()
        self.device: Any = None
        self.driver: DriverMemory | None = None
        self.meeting: StepStore | None = None
        self.store: Any = None

    def read(self, step: str, number: int, seconds: float, answer_ok: bool | None = None) -> None:
        """Add a row with all memory as it is now."""
        process = read_process_memory(os.getpid())
        row: Row = {
            "rank": self.rank,
            "round": number,
            "step": step,
            "seconds": seconds,
            "answer_ok": answer_ok,
            "process_device_bytes": self.driver.read_process() if self.driver else None,
            "device_used_bytes": self.driver.read_whole() if self.driver else None,
            "torch_allocated_bytes": None,
            "torch_reserved_bytes": None,
            "rss_bytes": process[0] if process else None,
            "pss_bytes": process[1] if process else None,
        }
        if self.driver:
            allocated, reserved = read_torch_memory(self.torch, self.device)
            row |= {"torch_allocated_bytes": allocated, "torch_reserved_bytes": reserved}
        self.rows.append(row)

    def take(self, step: str, number: int, work: Callable[[], bool | None]) -> None:
        """Do a step together with all ranks, and read memory while they stand still."""
        assert self.meeting is not None
        self.meeting.meet(f"{number}/{step}/before")
        started = time.perf_counter()
        answer_ok = work()
        if self.device.type != "cpu":
            self.torch.accelerator.synchronize(self.device)
        seconds = time.perf_counter() - started
        gc.collect()
        empty = getattr(self.torch.get_device_module(self.device.type), "empty_cache", None)
        if empty:
            empty()
        self.meeting.meet(f"{number}/{step}/after")
        self.read(step, number, seconds, answer_ok)

    def walk(self) -> None:
        """All steps. Raises Stopped, RankFailed, WrongUse, and RuntimeError of torch."""
        torch, options = self.torch, self.options
        self.read("start", 0, 0.0)
        started = time.perf_counter()
        self.device = choose_device(torch, options.device, self.local_rank)
        backend = choose_backend(torch, self.device)
        values = torch.ones(1024, device=self.device)
        if float((values + values).sum()) != 2048.0:
            raise RankFailed("the device adds wrongly")
        del values
        self.driver = DriverMemory(torch, self.device)
        self.read("device", 0, time.perf_counter() - started)
        started = time.perf_counter()
        self.store = join_store(torch, self.place, options.timeout)
        self.meeting = StepStore(self.store, self.place, options.timeout, self.stop)
        self.meeting.meet("store")
        self.read("store", 0, time.perf_counter() - started)
        is_bound = may_bind_device(torch.__version__, backend)
        if options.device_id != "auto":
            is_bound = options.device_id == "on"
        self.facts = {
            "device_kind": self.device.type,
            "device_model": describe_device(torch, self.device),
            "backend": backend,
            "device_id": is_bound,
            "host": socket.gethostname(),
        }
        for number in range(1, options.rounds + 1):
            join = functools.partial(self._join, backend, is_bound, number)
            self.take("group", number, join)
            self.take("barrier", number, self._wait)
            self.take("barrier again", number, self._wait)
            self.take("all_reduce", number, self._reduce)
            self.take("destroy", number, self._destroy)

    def _join(self, backend: str, is_bound: bool, number: int) -> None:
        distributed = self.torch.distributed
        distributed.init_process_group(
            backend,
            store=distributed.PrefixStore(f"round {number}", self.store),
            rank=self.rank,
            world_size=self.size,
            timeout=datetime.timedelta(seconds=self.options.timeout),
            **({"device_id": self.device} if is_bound else {}),
        )

    def _wait(self) -> None:
        # Without the device's number nccl guesses one, and may make a context on another device.
        more = {} if self.device.type == "cpu" else {"device_ids": [self.device.index]}
        self.torch.distributed.barrier(**more)

    def _reduce(self) -> bool:
        block = self.torch.full(
            (max(1, self.options.payload // 4),), float(self.rank + 1), device=self.device
        )
        self.torch.distributed.all_reduce(block)
        expected = self.size * (self.size + 1) / 2
        return bool((block == expected).all())

    def _destroy(self) -> None:
        self.torch.distributed.destroy_process_group()


class JobReport:
    """What all ranks have read."""

    def __init__(self) -> None:
        self.header: dict[str, Any] = {}
        self.rows: list[Row] = []
        self.caveats: list[str] = []
        self.problems: list[str] = []
        self.complete = False


def walk_rank(
    options: argparse.Namespace, place: tuple[int, int, int], stop: StopSign
) -> JobReport:
    """Go through the steps as one rank; on rank 0 the report of the job, elsewhere its problems."""
    walk = MemoryWalk(options, place, stop)
    failure: str | None = None
    stopped: str | None = None
    is_finished = False
    try:
        walk.walk()
        is_finished = True
        ignore_signals()
    except Stopped as reason:
        stopped = str(reason)
    except (RankFailed, RuntimeError, ValueError, NotImplementedError) as error:
        failure = f"rank {place[0]} failed: {shorten_failure(error)}"
        if isinstance(error, RankFailed) and str(error) == "another rank failed":
            failure = None
        if walk.meeting:
            walk.meeting.fail()
    report = JobReport()
    add_growth(walk.rows)
    caveats = walk.caveats + (walk.driver.caveats if walk.driver else [])
    own = {"rows": walk.rows, "facts": walk.facts, "failure": failure, "caveats": caveats}
    reports: list[dict[str, Any]] = [own]
    absent: list[int] = []
    with contextlib.suppress(RuntimeError, ValueError, AssertionError):
        if stopped and walk.torch.distributed.is_initialized():
            walk.torch.distributed.destroy_process_group()
    if walk.meeting:
        walk.meeting.leave(own)
        if place[0] == 0:
            # launch_ranks gives the ranks five seconds after the first one that fails.
            seconds = options.timeout if is_finished else 3.0
            reports, absent = walk.meeting.collect(seconds)
    failures = [text for each in reports if (text := each["failure"])]
    report.problems = failures or ([failure] if failure else [])
    report.complete = is_finished
    if place[0] != 0:
        return report
    report.rows = sorted(
        (row for each in reports for row in each["rows"]), key=lambda row: int(row["rank"])
    )
    report.header = make_header(reports, walk)
    report.caveats = list(dict.fromkeys(text for each in reports for text in each["caveats"]))
    if stopped:
        report.caveats.append(f"{stopped}, after {len(walk.rows)} steps")
    if absent:
        report.caveats.append(f"ranks {', '.join(map(str, absent))} left no numbers")
    report.caveats += report.problems
    wrong = sorted({row["rank"] for row in report.rows if row["answer_ok"] is False})
    if wrong:
        report.problems.append(f"all_reduce is wrong on ranks {', '.join(map(str, wrong))}")
    report.complete = is_finished and not (absent or report.problems)
    return report


def ignore_signals() -> None:
    """From here on there is nothing to stop: what was asked for is done, and will be written."""
    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)


def make_header(reports: Sequence[Mapping[str, Any]], walk: MemoryWalk) -> dict[str, Any]:
    """What the job ran on; hosts are counted, not named."""
    facts = dict(walk.facts)
    facts.pop("host", None)
    hosts = {each["facts"].get("host") for each in reports}
    return {
        **facts,
        "ranks": walk.size,
        "nodes": len(hosts),
        "rounds": walk.options.rounds,
        "payload_bytes": walk.options.payload,
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": walk.torch.__version__,
        "environment": read_network_environment(os.environ),
    }


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


def format_time(seconds: float) -> str:
    """`12.0 µs`, `8.02 ms` or `2.3 s`: a time in a sentence, to about one percent."""
    factor, unit = next(
        ((f, u) for f, u in ((1.0, "s"), (1e-3, "ms")) if seconds >= 0.9995 * f), (1e-6, "µs")
    )
    return f"{format_earned(seconds / factor, 1e-2 * seconds / factor)} {unit}"


def format_earned(value: float | None, uncertainty: float | None) -> str:
    """The value with the digits that its uncertainty leaves, one per thousand at best.

    The last digit shown stands where the first digit of the uncertainty stands. Where the
    uncertainty is as large as the value it leaves none: then one digit after a `~` says how
    large the value is, roughly. Where nobody knows the uncertainty, it is two digits after a `~`.
    """
    if value is None or not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    size = abs(value)
    doubt = 0.1 * size if uncertainty is None else max(abs(uncertainty), size * 1e-3)
    is_rough = uncertainty is None or doubt >= size
    decimals = -math.floor(math.log10(min(doubt, size)))
    # Rounding first: 9.99 to one digit is 10, and then no digit after the point.
    rounded = round(value, decimals)
    return f"{'~' if is_rough else ''}{rounded:.{max(decimals, 0)}f}"


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


def format_memory(size: float | None) -> str:
    """`2.87 GiB`: three digits in the binary unit that leaves 1 to 1023; a dash for None."""
    if size is None:
        return "-"
    power = 0
    while abs(size) >= 999.5 and power < 4:
        size /= 1024
        power += 1
    digits = 0 if power == 0 else max(0, 2 - math.floor(math.log10(max(abs(size), 1.0))))
    return f"{size:.{digits}f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def format_range(sizes: Sequence[int]) -> str:
    """`1.50 GiB`, or `1.20 GiB to 1.50 GiB` where ranks differ."""
    low, high = format_memory(min(sizes)), format_memory(max(sizes))
    return low if low == high else f"{low} to {high}"


SHOWN = {
    "process_device": "NVML, process",
    "device_used": "Device used",
    "torch_reserved": "Torch reserved",
    "rss": "RSS",
    "pss": "PSS",
}


def list_shown(rows: Sequence[Row]) -> list[str]:
    """The numbers that anybody has."""
    return [name for name in SHOWN if any(row[f"{name}_bytes"] is not None for row in rows)]


def format_steps(rows: Sequence[Row]) -> str:
    """A table by step: the slowest rank, and for each number what it grew by, over all ranks."""
    names = list_shown(rows)
    lines = []
    for number, step in dict.fromkeys((row["round"], row["step"]) for row in rows):
        own = [row for row in rows if (row["round"], row["step"]) == (number, step)]
        line = [step, str(number or "-"), format_time(max(row["seconds"] for row in own))]
        for name in names:
            sizes = [row[f"{name}_growth_bytes"] for row in own]
            known = [size for size in sizes if size is not None]
            line.append(format_range(known) if known else "-")
        lines.append(line if step != "start" else [*line[:2], "-", *line[3:]])
    headings = ["Step", "Round", "Slowest", *(f"{SHOWN[name]}, growth" for name in names)]
    return format_table(headings, lines)


def format_ranks_of(rows: Sequence[Row]) -> str:
    """A table by rank and step, with what each rank has in all."""
    names = list_shown(rows)
    ranks = sorted({row["rank"] for row in rows})[:SHOWN_RANKS]
    lines = []
    for row in rows:
        if row["rank"] in ranks:
            line = [str(row["rank"]), row["step"], str(row["round"] or "-")]
            lines.append([*line, *(format_memory(row[f"{name}_bytes"]) for name in names)])
    headings = ["Rank", "Step", "Round", *(SHOWN[name] for name in names)]
    return format_table(headings, lines)


def print_report(report: JobReport, command: Sequence[str], rounds: int) -> int:
    """The tables to stdout, notes to stderr; the number of problems."""
    print(f"dist_mem_usage {__version__} (method {METHOD})", file=sys.stderr)
    print(f"command: {' '.join(command)}", file=sys.stderr)
    for name, value in report.header.items():
        if name == "environment":
            value = " ".join(f"{k}={v}" for k, v in value.items()) or "nothing set"
        elif name == "payload_bytes":
            name, value = "payload", format_bytes(value)
        print(f"{name.replace('_', ' ')}: {value}", file=sys.stderr)
    if report.rows:
        print(format_steps(report.rows))
        print(f"\n{format_ranks_of(report.rows)}")
        hidden = report.header["ranks"] - SHOWN_RANKS
        if hidden > 0:
            write_note(f"{hidden} more ranks are in the JSON")
    for text in [*report.caveats, *find_strays(report.rows)]:
        write_note(text)
    for text in describe_costs(report.rows, rounds):
        print(text, file=sys.stderr)
    for text in report.problems:
        print(f"problem: {text}", file=sys.stderr)
    return len(report.problems)


def make_job_document(report: JobReport, command: Sequence[str], origin: float) -> dict[str, Any]:
    """The JSON document: base units, no NaN."""
    head = make_document_head("dist_mem_usage", (__version__, METHOD), command, origin)
    return {
        **head,
        "complete": report.complete,
        "units": UNITS,
        "results": report.rows,
        "caveats": report.caveats + find_strays(report.rows),
        "details": {"header": report.header},
    }


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


def make_test_rows() -> list[Row]:
    """Two ranks with numbers by hand: a context of 0.5, a group of 1.5 GiB, 0.7 given back."""
    gib = 1024**3
    rows = []
    for rank in range(2):
        own: list[Row] = []
        sizes = {"start": None, "device": gib // 2, "store": gib // 2, "group": 2 * gib}
        sizes |= {"barrier": 2 * gib, "barrier again": 2 * gib, "all_reduce": 2 * gib}
        sizes["destroy"] = int(1.3 * gib)
        for step, size in sizes.items():
            row: Row = {"rank": rank, "round": int(step not in ONCE), "step": step}
            row |= {f"{name}_bytes": None for name in GROWING}
            row["process_device_bytes"] = size
            own.append(row)
        add_growth(own)
        rows += own
    return rows


def run_self_test() -> int:
    """Check the sums, and a real job of two ranks; 0, or 1 where a check fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    rows = make_test_rows()
    gib = 1024**3
    check(
        "a context of 0.5 GiB grew from nothing", rows[1]["process_device_growth_bytes"] == gib / 2
    )
    taking = [step for step in EACH_ROUND if step != "destroy"]
    costs = sum_growth(rows, "process_device", 1, taking)
    check("group and collectives cost 1.5 GiB on both ranks", costs == [1.5 * gib] * 2)
    check("NVML's number of the process tells most", choose_measure(rows) == "process_device")
    check("RSS and PSS are read", parse_smaps("Rss: 12 kB\nPss: 5 kB\n") == (12288, 5120))
    check("1610612736 bytes are 1.50 GiB", format_memory(1610612736) == "1.50 GiB")
    with tempfile.TemporaryDirectory(prefix="dist_mem_") as folder:
        path = Path(folder) / "run.json"
        command = [sys.executable, str(Path(__file__).resolve()), *PROFILES["toy"], "--ranks", "2"]
        environ = {k: v for k, v in os.environ.items() if k not in ("RANK", "SLURM_PROCID")}
        done = subprocess.run(
            [*command, "--json", str(path)],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            env=environ,
        )
        if done.returncode:
            print(done.stderr, file=sys.stderr)
        document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    results = document.get("results", [])
    steps = [row["step"] for row in results if row["rank"] == 1]
    check(
        "both ranks have a row for each step", steps == [*ONCE, *EACH_ROUND] and len(results) == 16
    )
    answers = [row["answer_ok"] for row in results if row["step"] == "all_reduce"]
    check("the reduction is right on both", answers == [True, True])
    check("every rank has memory", bool(results) and all(r["rss_bytes"] != 0 for r in results))
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="dist_mem_usage.py",
        description="Read what init_process_group and the first collectives cost in memory.",
        epilog="The docstring at the top of this file tells what is read and how to run it.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--rounds", type=parse_count, default=2, metavar="N", help="of init to destroy (default: 2)"
    )
    parser.add_argument(
        "--payload",
        type=parse_bytes,
        default=64 * 1024**2,
        metavar="SIZE",
        help="of the all_reduce, of each rank (default: 64MiB)",
    )
    parser.add_argument(
        "--device_id",
        choices=("auto", "on", "off"),
        default="auto",
        help="give init_process_group the device (default: where this torch takes it safely)",
    )
    parser.add_argument("--device", metavar="KIND", help="cuda, xpu, cpu (default: what is there)")
    parser.add_argument(
        "--ranks",
        type=parse_count,
        metavar="N",
        help="without a launcher: start so many here (default: all accelerators, or 2 on a CPU)",
    )
    parser.add_argument(
        "--timeout",
        type=parse_duration,
        default=120.0,
        metavar="DURATION",
        help="what the other ranks, or one step, may take (default: 2m)",
    )
    # Old launchers add it; the environment says the same.
    parser.add_argument("--local_rank", "--local-rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"dist_mem_usage {__version__} (method {METHOD})"
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
    problems = 0
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_json_path(options.json)
        if options.device_id == "on" and (options.device or "").startswith("cpu"):
            raise WrongUse("--device_id on: a CPU has no number to give")
        stop.listen()
        if place is None:
            count = count_local_ranks(options.ranks, options.device)
            return 1 if stop.by_signal else launch_ranks(count, arguments)
        report = walk_rank(options, place, stop)
        if place[0] != 0:
            for problem in report.problems:
                print(problem, file=sys.stderr)
            return 1 if report.problems or not report.complete else 0
        problems = run_to_stdout(lambda: print_report(report, command, options.rounds))
        if options.json:
            write_document(options.json, make_job_document(report, command, origin))
    except WrongUse as error:
        if place is not None and place[0] != 0:
            print(f"rank {place[0]}: {error}", file=sys.stderr)
            return 2
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a run listens for signals itself
        print("stopped", file=sys.stderr)
        return 1
    return 1 if problems or not report.complete else 0


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
