#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""How much memory does this process, and its device, use now, and since when?

One line for each call, on each rank, with what changed since the call before:

    12:03:11 rank 0 after the forward | cpu RSS 1.23 GiB (+12.0 MiB) PSS 1.10 GiB peak 1.50 GiB
        | cuda:0 allocated 2.00 GiB (+1.50 GiB) reserved 2.20 GiB peak 2.10 GiB device 10.1 GiB of
        79.6 GiB                                              (in one line)

    from see_mem_usage import see_memory_usage
    see_memory_usage("after the forward")                 on every rank; ranks=[0] on some
    see_memory_usage("...", reset_peaks=True)             peaks from here on
    with watch_memory("optimizer step"): ...              a line before and a line after

As a wrapper around any program it samples the whole tree of its processes (DataLoader workers,
torchrun's ranks) and prints a line now and then and what the largest was at the end.

What the words mean
    RSS         memory of the process in RAM; memory shared with others counts in each of them
    PSS         the same with shared memory divided among those who share it: PSS may be added
                up over processes, RSS may not
    peak        the largest RSS since the process began (VmHWM); of a device the largest allocated
    allocated   what torch's tensors take; reserved: what its allocator holds from the driver
    device      used of all memory of the device, by all programs: from NVML, without it from the
                driver through torch, or for AMD from the kernel's files. No context is made for
                it: a device that the process does not use yet is not touched.
    Units are binary: 1 GiB = 1073741824 bytes. (+...) is the change since the call before.

Physics
    There is none. The cost: reading RSS takes microseconds; PSS makes the kernel walk the page
    tables, some milliseconds for tens of GiB (pss=False leaves it out). The wrapper stretches its
    interval so that sampling takes at most a twentieth of one core; both costs are measured and
    printed. Hand check of --demo: allocating and writing 64 MiB makes RSS and PSS grow by 64 MiB.
    A peak that is shorter than the interval is not seen by the wrapper; `peak` of each process is
    the kernel's, and is not missed.

How to run
    what it shows   python see_mem_usage.py --demo
    a program       python see_mem_usage.py --interval 1s --report 30s -- python train.py --lr 1
    with a record   python see_mem_usage.py --json mem.json -- torchrun --nproc_per_node 8 train.py
    Slurm           srun --ntasks-per-node 1 bash -c 'python see_mem_usage.py \
                        --json mem.$SLURM_NODEID.json -- torchrun --nproc_per_node 8 train.py'
    pdsh            pdsh -w node[01-08] python /shared/see_mem_usage.py -- /shared/run.sh
    The program's input, output, signals and exit status are its own. Without a program's help the
    wrapper sees devices as a whole, and with NVML what each process of the tree has on them. Where
    a signal ended the program, or SIGINT, SIGTERM or SIGHUP was passed on to it, the JSON is not
    complete, and says why.

A good answer: RSS that stays where it is from the second epoch on, a reserved that no longer
grows, and a device with some GiB free at its peak. A PSS that grows for hours is a leak, often in
DataLoader workers.

Seen running so far: on Linux, CPUs alone. What NVML, torch on CUDA, ROCm and XPU and the kernel's
amdgpu files say is read as their documentation has it, and has not been seen.

Exit status: that of the program (128 and more: the number of the signal that ended it, plus 128).
Of the tool itself: 0 done, 1 a demonstration that failed or was stopped by a signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import json
import math
import os
import platform
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {
    "toy": ["--demo", "--size", "16MiB"],
    "full": ["--demo", "--size", "1GiB"],
}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "seconds": "s",
    "processes": "1",
    "rss_bytes": "B",
    "rss_growth_bytes": "B",
    "pss_bytes": "B",
    "pss_growth_bytes": "B",
    "peak_rss_bytes": "B",
    "allocated_bytes": "B",
    "allocated_growth_bytes": "B",
    "reserved_bytes": "B",
    "peak_allocated_bytes": "B",
    "device_used_bytes": "B",
    "device_total_bytes": "B",
    "tree_device_bytes": "B",
    "cost_seconds": "s",
}

# More samples than this are thinned: of two neighbours the larger one is kept.
KEPT_SAMPLES = 2000
# What sampling may take of the time.
SAMPLING_SHARE = 0.05

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


def find_rank_number(environ: Mapping[str, str]) -> int | None:
    """The rank that torchrun, Slurm or Open MPI gave this process; None without a launcher."""
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        if environ.get(name, "").isdigit():
            return int(environ[name])
    return None


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


def format_change(size: int | None) -> str:
    """`(+12.0 MiB)`, `(-3.00 KiB)`, `(+0 B)`; nothing where it is unknown."""
    if size is None:
        return ""
    return f" ({'-' if size < 0 else '+'}{format_memory(abs(size))})"


class ProcessMemory(NamedTuple):
    """Memory of one process in bytes; None is what the system does not tell."""

    rss: int | None
    pss: int | None
    peak: int | None

    @property
    def is_known(self) -> bool:
        """Whether anything is known: not of a process that has ended."""
        return self.rss is not None


def parse_status(text: str) -> dict[str, int]:
    """Bytes by name, from the lines of /proc/PID/status or smaps_rollup that are in kB."""
    found = re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)
    return {name: 1024 * int(number) for name, number in found}


def read_memory_of(pid: int | str = "self", pss: bool = True) -> ProcessMemory:
    """RSS, PSS and the largest RSS of a process."""
    folder = Path(f"/proc/{pid}")
    try:
        status = parse_status((folder / "status").read_text())
    except OSError:
        return read_own_usage() if pid == "self" else ProcessMemory(None, None, None)
    share: dict[str, int] = {}
    if pss:
        # Not readable of processes of other users, and not on old kernels.
        with contextlib.suppress(OSError):
            share = parse_status((folder / "smaps_rollup").read_text())
    # RSS of the same moment as PSS, where there is one: status counts in batches, and lags.
    rss = share.get("Rss", status.get("VmRSS"))
    peak = status.get("VmHWM")
    if rss is not None and peak is not None:
        peak = max(peak, rss)
    return ProcessMemory(rss, share.get("Pss"), peak)


def read_own_usage() -> ProcessMemory:
    """The largest RSS of this process where there is no /proc; macOS counts it in bytes."""
    try:
        import resource
    except ImportError:
        return ProcessMemory(None, None, None)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return ProcessMemory(None, None, peak if sys.platform == "darwin" else 1024 * peak)


class DeviceMemory(NamedTuple):
    """Memory of one device in bytes; None is what nobody tells."""

    name: str
    allocated: int | None
    reserved: int | None
    peak: int | None
    used: int | None
    total: int | None


class Nvml:
    """NVML, opened once; without the package, or without a driver, it knows nothing."""

    def __init__(self) -> None:
        self.module: Any = None
        self.trouble: str | None = None

    def open(self) -> bool:
        """Whether NVML answers."""
        if self.module is None and self.trouble is None:
            try:
                import pynvml
            except ImportError:
                self.trouble = "NVML was not read: pip install nvidia-ml-py"
                return False
            try:
                pynvml.nvmlInit()
            except pynvml.NVMLError as error:
                self.trouble = f"NVML was not read: {error}"
                return False
            self.module = pynvml
        return self.module is not None

    def read_device(self, identifier: str) -> tuple[int, int] | None:
        """Used and all bytes of the device with this UUID."""
        if not self.open():
            return None
        try:
            handle = self.module.nvmlDeviceGetHandleByUUID(identifier)
            memory = self.module.nvmlDeviceGetMemoryInfo(handle)
        except self.module.NVMLError:
            return None
        return int(memory.used), int(memory.total)

    def read_all(self) -> list[tuple[int, int, dict[int, int]]]:
        """Used and all bytes of each device, and what each process has on it."""
        if not self.open():
            return []
        devices = []
        with contextlib.suppress(self.module.NVMLError):
            for index in range(self.module.nvmlDeviceGetCount()):
                handle = self.module.nvmlDeviceGetHandleByIndex(index)
                memory = self.module.nvmlDeviceGetMemoryInfo(handle)
                owners: dict[int, int] = {}
                with contextlib.suppress(self.module.NVMLError):
                    for each in self.module.nvmlDeviceGetComputeRunningProcesses(handle):
                        owners[each.pid] = owners.get(each.pid, 0) + int(each.usedGpuMemory or 0)
                devices.append((int(memory.used), int(memory.total), owners))
        return devices


NVML = Nvml()


def read_amd_devices(root: Path = Path("/sys/class/drm")) -> list[tuple[int, int]]:
    """Used and all bytes of each AMD GPU, from the kernel's files."""
    devices = []
    for folder in sorted(root.glob("card[0-9]*/device")):
        with contextlib.suppress(OSError, ValueError):
            used, total = (
                int((folder / f"mem_info_vram_{name}").read_text()) for name in ("used", "total")
            )
            devices.append((used, total))
    return devices


def find_used_device(torch: Any) -> tuple[str, Any, Any] | None:
    """The accelerator that this process uses: its kind, torch's module of it, and its index.

    None on a CPU, and where the process has not used one yet: looking would make a context there,
    of some hundred MiB.
    """
    if not (hasattr(torch, "accelerator") and torch.accelerator.is_available()):
        return None
    kind = torch.accelerator.current_accelerator().type
    module = torch.get_device_module(kind)
    is_initialized = getattr(module, "is_initialized", None)
    if is_initialized is not None and not is_initialized():
        return None
    current = getattr(module, "current_device", None)
    return kind, module, current() if current is not None else None


def call_counter(module: Any, *names: str) -> int | None:
    """The first of these counters that the module of a device has."""
    for name in names:
        counter = getattr(module, name, None)
        if counter is not None:
            with contextlib.suppress(RuntimeError, NotImplementedError):
                return int(counter())
    return None


def read_device(torch: Any) -> DeviceMemory | None:
    """Memory of the accelerator that this process uses now; None where it uses none."""
    found = find_used_device(torch)
    if found is None:
        return None
    kind, module, index = found
    name = kind if index is None else f"{kind}:{index}"
    is_rocm = kind == "cuda" and torch.version.hip is not None
    whole: tuple[int | None, int | None] | None = None
    if kind == "cuda" and not is_rocm:
        # torch counts the visible GPUs, NVML all of them: the identifier joins them.
        with contextlib.suppress(AttributeError, RuntimeError):
            whole = NVML.read_device(f"GPU-{module.get_device_properties(index).uuid}")
    if whole is None:
        with contextlib.suppress(AttributeError, RuntimeError, NotImplementedError):
            free, total = module.mem_get_info(index)
            whole = int(total) - int(free), int(total)
    used, total_size = whole or (None, call_counter(module, "recommended_max_memory"))
    return DeviceMemory(
        f"{name} (ROCm)" if is_rocm else name,
        call_counter(module, "memory_allocated", "current_allocated_memory"),
        call_counter(module, "memory_reserved", "driver_allocated_memory"),
        call_counter(module, "max_memory_allocated"),
        used,
        total_size,
    )


class MemoryReading(NamedTuple):
    """What one call has read, and what changed since the one before."""

    message: str
    rank: int | None
    process: ProcessMemory
    device: DeviceMemory | None
    rss_growth: int | None
    pss_growth: int | None
    allocated_growth: int | None
    seconds: float  # that the reading took

    def format(self) -> str:
        """All of it in one line."""
        parts = [time.strftime("%H:%M:%S")]
        if self.rank is not None:
            parts.append(f"rank {self.rank}")
        parts += [self.message] if self.message else []
        memory = self.process
        texts = [
            f"RSS {format_memory(memory.rss)}{format_change(self.rss_growth)}",
            f"PSS {format_memory(memory.pss)}{format_change(self.pss_growth)}",
            f"peak {format_memory(memory.peak)}",
        ]
        sizes = (memory.rss, memory.pss, memory.peak)
        known = [text for text, size in zip(texts, sizes, strict=True) if size is not None]
        columns = [" ".join(parts), f"cpu {' '.join(known) or 'unknown'}"]
        if self.device is not None:
            columns.append(self._format_device(self.device))
        return " | ".join(columns)

    def _format_device(self, device: DeviceMemory) -> str:
        texts = [device.name]
        if device.allocated is not None:
            change = format_change(self.allocated_growth)
            texts.append(f"allocated {format_memory(device.allocated)}{change}")
        if device.reserved is not None:
            texts.append(f"reserved {format_memory(device.reserved)}")
        if device.peak is not None:
            texts.append(f"peak {format_memory(device.peak)}")
        if device.used is not None:
            texts.append(f"device {format_memory(device.used)} of {format_memory(device.total)}")
        return " ".join(texts)


# What the call before has read, of this process: a forked one begins anew.
LAST: dict[int, MemoryReading] = {}


def subtract(now: int | None, then: int | None) -> int | None:
    """What grew; None where one of them is unknown."""
    return None if now is None or then is None else now - then


def see_memory_usage(
    message: str = "",
    *,
    ranks: Iterable[int] | None = None,
    pss: bool = True,
    reset_peaks: bool = False,
    stream: TextIO | None = None,
) -> MemoryReading | None:
    """Print one line of the memory of this process and its device, and return what it says.

    With `ranks` it does so on these alone, and returns None elsewhere. torch is asked only where
    the process has imported it. `pss=False` leaves out what takes longest. `reset_peaks` lets the
    peaks begin here.
    """
    rank = find_rank_number(os.environ)
    if ranks is not None and rank is not None and rank not in ranks:
        return None
    started = time.perf_counter()
    process = read_memory_of("self", pss)
    torch = sys.modules.get("torch")
    device = read_device(torch) if torch is not None and hasattr(torch, "accelerator") else None
    last = LAST.get(os.getpid())
    if last is not None and process.peak is not None and last.process.peak is not None:
        # The kernel's mark lags a little behind.
        process = process._replace(peak=max(process.peak, last.process.peak))
    before = last.device if last is not None and last.device is not None else None
    is_same = before is not None and device is not None and before.name == device.name
    reading = MemoryReading(
        message,
        rank,
        process,
        device,
        subtract(process.rss, last.process.rss) if last else None,
        subtract(process.pss, last.process.pss) if last else None,
        subtract(device.allocated, before.allocated) if is_same and device and before else None,
        time.perf_counter() - started,
    )
    LAST.clear()
    LAST[os.getpid()] = reading
    if reset_peaks:
        reset_peak_memory(torch)
        LAST[os.getpid()] = reading._replace(process=process._replace(peak=None))
    target = stream or sys.stderr
    target.write(reading.format() + "\n")
    target.flush()
    return reading


def reset_peak_memory(torch: Any = None) -> None:
    """Let the peaks of this process, and of its device, begin at what they are now."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")
    found = find_used_device(torch) if torch is not None else None
    if found is not None:
        reset = getattr(found[1], "reset_peak_memory_stats", None)
        if reset is not None:
            reset()


@contextlib.contextmanager
def watch_memory(message: str, **options: Any) -> Iterator[None]:
    """A line before the block and one after it, which tells what the block has changed."""
    see_memory_usage(f"before {message}", **options)
    try:
        yield
    finally:
        see_memory_usage(f"after {message}", **options)


# The wrapper: a tree of processes, sampled.


def list_children(pid: int, proc: Path = Path("/proc")) -> list[int]:
    """The processes that a process, in any of its threads, has started and that still run."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        for task in (proc / str(pid) / "task").iterdir():
            with contextlib.suppress(OSError):
                children += map(int, (task / "children").read_text().split())
    return children


def read_start_time(pid: int, proc: Path = Path("/proc")) -> str | None:
    """When a process began, in the kernel's ticks: with its number it is one process only."""
    try:
        text = (proc / str(pid) / "stat").read_text()
    except OSError:
        return None
    # The name in parentheses may hold anything.
    fields = text.rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] != "Z" else None


class Tree:
    """The processes below a first one, also those whose parent has ended since."""

    def __init__(self, root: int) -> None:
        self.known: dict[int, str] = {}
        self._add(root)

    def _add(self, pid: int) -> None:
        started = read_start_time(pid)
        if started is not None:
            self.known[pid] = started

    def list_processes(self) -> list[int]:
        """The processes that run now."""
        self.known = {p: start for p, start in self.known.items() if read_start_time(p) == start}
        waiting = list(self.known)
        while waiting:
            for child in list_children(waiting.pop()):
                if child not in self.known:
                    self._add(child)
                    waiting.append(child)
        return list(self.known)


class TreeSampler:
    """Samples of a tree of processes, thinned where there are many, and its largest values."""

    def __init__(self, root: int, pss: bool = True) -> None:
        self.tree = Tree(root)
        self.pss = pss
        self.rows: list[Row] = []
        self.step = 1
        self.samples = 0
        self.seconds = 0.0
        self.origin = time.monotonic()
        self.peaks: dict[int, tuple[str, int]] = {}  # process -> its name and largest RSS
        NVML.open()  # takes its time, and is no part of a sample

    def sample(self) -> Row | None:
        """Read all processes and devices; None where no process runs any more."""
        started = time.perf_counter()
        readings: list[ProcessMemory] = []
        pids = self.tree.list_processes()
        for pid in pids:
            reading = read_memory_of(pid, self.pss)
            if reading.is_known:
                readings.append(reading)
                name, largest = self.peaks.get(pid, ("", 0))
                name = name or read_name(pid)
                self.peaks[pid] = (name, max(largest, reading.peak or 0, reading.rss or 0))
        if not readings:
            return None
        used, total, own = read_all_devices(pids)
        shares = [reading.pss for reading in readings if reading.pss is not None]
        row: Row = {
            "seconds": round(time.monotonic() - self.origin, 3),
            "processes": len(readings),
            "rss_bytes": sum(reading.rss or 0 for reading in readings),
            # Of some processes alone it would be less than it is.
            "pss_bytes": sum(shares) if len(shares) == len(readings) else None,
            "device_used_bytes": used,
            "device_total_bytes": total,
            "tree_device_bytes": own,
        }
        self._keep(row)
        self.seconds += time.perf_counter() - started
        return row

    def _keep(self, row: Row) -> None:
        self.samples += 1
        if self.step > 1 and (self.samples - 1) % self.step and self.rows:
            self.rows[-1] = choose_larger(self.rows[-1], row)
        else:
            self.rows.append(row)
        if len(self.rows) > KEPT_SAMPLES:
            pairs = zip(self.rows[::2], [*self.rows[1::2], None], strict=False)
            self.rows = [choose_larger(a, b) if b else a for a, b in pairs]
            self.step *= 2

    def choose_interval(self, wanted: float) -> float:
        """The interval that keeps sampling within its share of the time."""
        each = self.seconds / self.samples if self.samples else 0.0
        return max(wanted, each / SAMPLING_SHARE)


def choose_larger(a: Row, b: Row) -> Row:
    """Of two samples the one with more memory."""
    name = "pss_bytes" if a["pss_bytes"] is not None and b["pss_bytes"] is not None else "rss_bytes"
    return a if a[name] >= b[name] else b


def read_name(pid: int) -> str:
    """What a process is called, without folders and arguments."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return "?"


def read_all_devices(pids: Iterable[int]) -> tuple[int | None, int | None, int | None]:
    """Used and all bytes of all devices of this machine, and what these processes have on them."""
    nvidia = NVML.read_all()
    if nvidia:
        wanted = set(pids)
        own = sum(size for _, _, owners in nvidia for pid, size in owners.items() if pid in wanted)
        return sum(used for used, _, _ in nvidia), sum(total for _, total, _ in nvidia), own
    amd = read_amd_devices()
    if amd:
        return sum(used for used, _ in amd), sum(total for _, total in amd), None
    return None, None, None


def format_sample(row: Mapping[str, Any], before: Mapping[str, Any] | None) -> str:
    """One sample in one line."""
    count = row["processes"]
    noun = "process" if count == 1 else "processes"
    changes = {
        name: subtract(row[name], before[name]) if before else None
        for name in ("rss_bytes", "pss_bytes")
    }
    texts = [f"{time.strftime('%H:%M:%S')} {count} {noun}"]
    memory = f"cpu RSS {format_memory(row['rss_bytes'])}{format_change(changes['rss_bytes'])}"
    if row["pss_bytes"] is not None:
        memory += f" PSS {format_memory(row['pss_bytes'])}{format_change(changes['pss_bytes'])}"
    texts.append(memory)
    if row["device_used_bytes"] is not None:
        used, total = format_memory(row["device_used_bytes"]), row["device_total_bytes"]
        own = row["tree_device_bytes"]
        mine = "" if own is None else f", of it {format_memory(own)} by these processes"
        texts.append(f"devices {used} of {format_memory(total)}{mine}")
    return " | ".join(texts)


def sample_program(
    options: argparse.Namespace, program: Sequence[str], arguments: Sequence[str], origin: float
) -> int:
    """Start the program, sample it until it ends, and report; its exit status."""
    if not hasattr(signal, "sigtimedwait") or not Path("/proc/self/status").exists():
        raise WrongUse("the wrapper reads /proc and needs Linux; see_memory_usage() does not")
    watched = {
        *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2),
        signal.SIGCHLD,
    }
    # Held back, so that each is either waited for below or passed on, and none ends this process.
    former = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        process = subprocess.Popen(
            program, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, former)
        )
    except OSError as error:
        raise WrongUse(f"could not start {program[0]}: {error.strerror}") from error
    sampler = TreeSampler(process.pid, not options.no_pss)
    status, reason = follow_program(options, process, sampler, watched)
    print_samples(sampler)
    if options.json:
        try:
            write_document(options.json, make_samples_document(sampler, arguments, origin, reason))
        except WrongUse as error:  # the program's exit status is its own
            print(f"see_mem_usage: {error}", file=sys.stderr)
    return status


def follow_program(
    options: argparse.Namespace,
    process: subprocess.Popen[bytes],
    sampler: TreeSampler,
    watched: Iterable[int],
) -> tuple[int, str]:
    """Sample until the program has ended, and pass signals on; its exit status, and what made it
    end before its time, if anything did."""
    reason = ""
    told: Row | None = None
    told_at = time.monotonic()
    wake_at = time.monotonic()
    while process.poll() is None:
        if time.monotonic() >= wake_at:
            row = sampler.sample()
            wake_at = time.monotonic() + sampler.choose_interval(options.interval)
            if row is not None and options.report and time.monotonic() - told_at >= options.report:
                print(format_sample(row, told), file=sys.stderr, flush=True)
                told, told_at = row, time.monotonic()
        received = signal.sigtimedwait(watched, max(0.0, wake_at - time.monotonic()))
        if received is None or received.si_signo == signal.SIGCHLD:
            continue
        if received.si_signo in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            reason = f"stopped by {signal.Signals(received.si_signo).name}"
        # One typed at the terminal (by the kernel) reaches the program by itself.
        if received.si_code <= 0:
            process.send_signal(received.si_signo)
    if process.returncode >= 0:
        return process.returncode, reason
    return 128 - process.returncode, reason or f"ended by signal {-process.returncode}"


def find_largest(sampler: TreeSampler, name: str) -> int | None:
    """The largest value of a column."""
    return max((row[name] for row in sampler.rows if row[name] is not None), default=None)


def print_samples(sampler: TreeSampler) -> None:
    """What the largest was, in lines of their own."""
    if not sampler.rows:
        print("see_mem_usage: the program ended before it could be sampled", file=sys.stderr)
        return
    texts = [f"largest RSS of all processes {format_memory(find_largest(sampler, 'rss_bytes'))}"]
    pss = find_largest(sampler, "pss_bytes")
    texts += [f"PSS {format_memory(pss)}"] if pss is not None else []
    device = find_largest(sampler, "device_used_bytes")
    texts += [f"devices {format_memory(device)}"] if device is not None else []
    own = find_largest(sampler, "tree_device_bytes")
    texts += [f"of these processes {format_memory(own)}"] if own is not None else []
    pid, (name, peak) = max(sampler.peaks.items(), key=lambda item: item[1][1])
    texts.append(f"largest process {name} ({pid}), peak {format_memory(peak)}")
    passed = time.monotonic() - sampler.origin
    print(f"see_mem_usage: {', '.join(texts)}", file=sys.stderr)
    share = sampler.seconds / passed if passed else 0.0
    print(
        f"see_mem_usage: {sampler.samples} samples in {format_time(passed)}; sampling took "
        f"{format_time(sampler.seconds)} ({share:.1%})",
        file=sys.stderr,
    )


def make_samples_document(
    sampler: TreeSampler, arguments: Sequence[str], origin: float, reason: str
) -> dict[str, Any]:
    """The JSON of a program: its samples, each process's largest RSS, and why it was not whole."""
    command = make_portable_command(arguments)
    head = make_document_head("see_mem_usage", (__version__, METHOD), command, origin)
    names = set(sampler.rows[0]) if sampler.rows else set()
    caveats = [f"the program was {reason}"] if reason else []
    caveats += [NVML.trouble] if NVML.trouble and "not read: pip" not in NVML.trouble else []
    if sampler.step > 1:
        caveats.append(f"of {sampler.step} samples in a row the largest was kept")
    return {
        **head,
        "complete": not reason,
        "units": {name: unit for name, unit in UNITS.items() if name in names},
        "results": sampler.rows,
        "caveats": caveats,
        "details": {
            "samples": sampler.samples,
            "cost_seconds": sampler.seconds,
            "largest_rss_bytes": find_largest(sampler, "rss_bytes"),
            "largest_pss_bytes": find_largest(sampler, "pss_bytes"),
            "processes": [
                {"name": name, "peak_rss_bytes": peak} for name, peak in sampler.peaks.values()
            ],
        },
    }


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


def format_time(seconds: float) -> str:
    """`12.0 µs`, `8.02 ms` or `2.3 s`: a time in a sentence, to about one percent."""
    factor, unit = next(
        ((f, u) for f, u in ((1.0, "s"), (1e-3, "ms")) if seconds >= 0.9995 * f), (1e-6, "µs")
    )
    return f"{format_earned(seconds / factor, 1e-2 * seconds / factor)} {unit}"


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


def print_to_stdout(text: str) -> bool:
    """Print at once; False, with a line that says so, where stdout could not be written."""
    try:
        print(text, flush=True)
    except OSError as error:
        # Python would write once more what is left, as it ends: that goes nowhere now.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"problem: stdout could not be written: {error.strerror}", file=sys.stderr)
        return False
    return True


def write_note(text: str) -> None:
    """One note for the reader, beside the table."""
    print(f"note: {text}", file=sys.stderr)


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


# The demonstration: memory taken and given back, seen by calls.


def make_reading_row(step: str, reading: MemoryReading) -> Row:
    """One call's row."""
    device = reading.device
    return {
        "step": step,
        "rss_bytes": reading.process.rss,
        "rss_growth_bytes": reading.rss_growth,
        "pss_bytes": reading.process.pss,
        "pss_growth_bytes": reading.pss_growth,
        "peak_rss_bytes": reading.process.peak,
        "device": device.name if device else None,
        "allocated_bytes": device.allocated if device else None,
        "allocated_growth_bytes": reading.allocated_growth,
        "reserved_bytes": device.reserved if device else None,
        "peak_allocated_bytes": device.peak if device else None,
        "device_used_bytes": device.used if device else None,
        "device_total_bytes": device.total if device else None,
        "cost_seconds": reading.seconds,
    }


def take_memory(size: int) -> Any:
    """So many bytes, written, that the system takes back as soon as they are let go.

    Raises WrongUse where it does not give so many.
    """
    import mmap

    try:
        block = mmap.mmap(-1, size)
    except (OSError, OverflowError) as error:
        raise WrongUse(f"--size {format_memory(size)}: there is not so much memory here") from error
    for start in range(0, size, mmap.PAGESIZE):
        block[start] = 1
    return block


def is_out_of_memory(error: RuntimeError) -> bool:
    """The device, or the machine, has no memory for this shape."""
    text = str(error).lower()
    return type(error).__name__ == "OutOfMemoryError" or "allocate memory" in text


def play_memory(size: int, device_name: str | None, stop: StopSign) -> tuple[list[Row], list[str]]:
    """Take memory and give it back, here and on an accelerator; the rows and the caveats.

    Raises Stopped with what was read so far in its `rows`.
    """
    rows: list[Row] = []
    caveats: list[str] = []
    torch, device = open_demo_device(device_name, caveats)
    LAST.clear()

    def look(step: str, **more: Any) -> None:
        reading = see_memory_usage(step, **more)
        assert reading is not None
        rows.append(make_reading_row(step, reading))
        stop.check()

    tensor: Any = None
    block: Any = None
    try:
        look("start", reset_peaks=True)
        block = take_memory(size)
        look("taken")
        block.close()
        look("given back")
        if device is not None:
            try:
                tensor = torch.ones(size, dtype=torch.uint8, device=device)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                words = f"--size {format_memory(size)}: there is not so much memory on {device}"
                raise WrongUse(words) from error
            look("tensor made")
            del tensor
            look("tensor gone")
        look("end")
    except Stopped as stopped:
        caveats.append(f"{stopped}, after {len(rows)} steps")
    return rows, caveats


def open_demo_device(name: str | None, caveats: list[str]) -> tuple[Any, Any]:
    """torch and the accelerator to show, or None for both where there is none."""
    try:
        import torch
    except ImportError:
        if name is not None:
            raise WrongUse(f"--device {name} needs torch, which is not installed") from None
        caveats.append("torch is not installed: no device was looked at")
        return None, None
    device = choose_device(torch, name)
    if device.type == "cpu":
        return torch, None
    torch.ones(1, device=device)
    return torch, device


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


def find_memory_problems(rows: Sequence[Row], size: int) -> list[str]:
    """What did not grow as it was taken; other parts of the process may take a few MiB."""
    steps = {row["step"]: row for row in rows}
    expected = {
        ("taken", "rss_growth_bytes"): size,
        ("taken", "pss_growth_bytes"): size,
        ("given back", "rss_growth_bytes"): -size,
        ("tensor made", "allocated_growth_bytes"): size,
        ("tensor gone", "allocated_growth_bytes"): -size,
    }
    problems = []
    for (step, name), wanted in expected.items():
        value = steps.get(step, {}).get(name)
        if value is not None and abs(value - wanted) > 4 * 1024**2 + size // 20:
            problems.append(
                f"{step}: {name} is {format_memory(value)}, taken were {format_memory(wanted)}"
            )
    return problems


def format_reading_rows(rows: Sequence[Row]) -> str:
    """The demonstration as a table."""
    shown = {
        "rss_bytes": "RSS",
        "rss_growth_bytes": "RSS, growth",
        "pss_bytes": "PSS",
        "peak_rss_bytes": "Peak RSS",
        "allocated_bytes": "Allocated",
        "reserved_bytes": "Reserved",
        "device_used_bytes": "Device used",
    }
    names = [name for name in shown if any(row[name] is not None for row in rows)]
    lines = [
        [
            row["step"],
            *(format_memory(row[name]) for name in names),
            format_time(row["cost_seconds"]),
        ]
        for row in rows
    ]
    return format_table(["Step", *(shown[name] for name in names), "Call took"], lines)


def show_memory(options: argparse.Namespace, arguments: list[str], origin: float) -> int:
    """Play the demonstration and report it; the exit status."""
    stop = StopSign()
    stop.listen()
    rows, caveats = play_memory(options.size, options.device, stop)
    problems = find_memory_problems(rows, options.size)
    is_printed = not rows or print_to_stdout(format_reading_rows(rows))
    for text in caveats:
        write_note(text)
    for text in problems:
        print(f"problem: {text}", file=sys.stderr)
    complete = stop.reason is None
    if options.json:
        command = make_portable_command(arguments)
        head = make_document_head("see_mem_usage", (__version__, METHOD), command, origin)
        names = set(rows[0]) if rows else set()
        document = {
            **head,
            "complete": complete,
            "units": {name: unit for name, unit in UNITS.items() if name in names},
            "results": rows,
            "caveats": caveats + problems,
            "details": {"size_bytes": options.size, "python": platform.python_version()},
        }
        write_document(options.json, document)
    return 1 if problems or not complete or not is_printed else 0


# Holds 48 MiB, and starts itself once more to hold 32 MiB.
SELF_TEST_PROGRAM = """\
import subprocess, sys, time
block = bytearray(b"x") * (int(sys.argv[1]) * 1024 ** 2)
if len(sys.argv) > 2:
    subprocess.run([sys.executable, "-c", sys.argv[2], "32"])
time.sleep(0.5)
sys.exit(37)
"""


def run_self_test() -> int:
    """Check memory that is taken here and in a tree of processes; 0, or 1 where a check fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    check("1610612736 bytes are 1.50 GiB", format_memory(1610612736) == "1.50 GiB")
    check("less is -3.00 KiB", format_change(-3072) == " (-3.00 KiB)")
    check("VmHWM: 12 kB are 12288 bytes", parse_status("VmHWM:\t  12 kB\n") == {"VmHWM": 12288})
    rows, _ = play_memory(32 * 1024**2, "cpu" if has_torch() else None, StopSign())
    check("32 MiB that are taken are seen", not find_memory_problems(rows, 32 * 1024**2))
    by_step = {row["step"]: row for row in rows}
    if by_step["start"]["peak_rss_bytes"] is not None:
        peak = by_step["end"]["peak_rss_bytes"]
        check("the peak stays", peak >= by_step["taken"]["rss_bytes"] - 1024**2)
    if hasattr(signal, "sigtimedwait") and Path("/proc/self/status").exists():
        with tempfile.TemporaryDirectory(prefix="see_mem_") as folder:
            path = Path(folder) / "out.json"
            done = subprocess.run(
                [
                    *(sys.executable, str(Path(__file__).resolve()), "--interval", "100ms"),
                    *("--json", str(path), "--", sys.executable, "-c", SELF_TEST_PROGRAM),
                    *("48", SELF_TEST_PROGRAM),
                ],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
            document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        check("the program's exit status is kept", done.returncode == 37)
        details = document.get("details", {})
        largest = details.get("largest_rss_bytes") or 0
        check("two processes took 80 MiB together", 80 * 1024**2 < largest < 200 * 1024**2)
        check("both are listed", len(details.get("processes", [])) >= 2)
        check("the largest is told", "largest RSS of all processes" in done.stderr)
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def has_torch() -> bool:
    """Whether torch is installed."""
    import importlib.util

    return importlib.util.find_spec("torch") is not None


def parse_interval(text: str) -> float:
    """Seconds from `100ms`, or as a duration is written."""
    found = re.fullmatch(r"(\d+)ms", text.strip())
    seconds = float(found[1]) / 1000 if found else parse_duration(text)
    if seconds < 0.01:
        raise argparse.ArgumentTypeError(f"'{text}': an interval has to be 10ms or more")
    return seconds


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="see_mem_usage.py",
        usage="see_mem_usage.py [options] [--] PROGRAM [ARGUMENTS], or see_mem_usage.py --demo",
        description="Print the memory of a process and its device: a library, and a wrapper.",
        epilog="The docstring at the top of this file tells what is read and how to call it.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--interval",
        type=parse_interval,
        metavar="DURATION",
        help="between two samples of the program, 100ms or 5s (default: 1s)",
    )
    parser.add_argument(
        "--report",
        type=parse_interval,
        metavar="DURATION",
        help="between two lines (default: 60s)",
    )
    parser.add_argument(
        "--no_pss", action="store_true", help="leave out what takes longest to read"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the samples as JSON")
    demo = parser.add_argument_group("demonstration")
    demo.add_argument("--demo", action="store_true", help="take memory, give it back, and look")
    demo.add_argument("--size", type=parse_bytes, metavar="SIZE", help="to take (default: 64MiB)")
    demo.add_argument("--device", metavar="KIND", help="cuda, xpu, cpu (default: what is there)")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"see_mem_usage {__version__} (method {METHOD})"
    )
    parser.add_argument(
        "program", nargs=argparse.REMAINDER, metavar="PROGRAM", help="what to start, with arguments"
    )
    return parser


def check_options(options: argparse.Namespace, program: Sequence[str]) -> None:
    """Raises WrongUse where options do not go together."""
    check_json_path(options.json)
    if options.demo and program:
        raise WrongUse("--demo starts nothing; leave it out, or the program")
    if not options.demo and not program:
        raise WrongUse("name the program to start, or --demo")
    if not options.demo and (options.size or options.device):
        raise WrongUse("--size and --device belong to --demo")
    if options.demo and (options.interval or options.report or options.no_pss):
        raise WrongUse("--interval, --report and --no_pss belong to a program")
    options.interval = options.interval or 1.0
    options.report = options.report or 60.0


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    # What stands behind the first -- is the program's, whatever it looks like.
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:cut])
    program = options.program + (arguments[cut:] if options.program else arguments[cut + 1 :])
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_options(options, program)
        if not options.demo:
            return sample_program(options, program, arguments, origin)
        options.size = options.size or 64 * 1024**2
        return show_memory(options, arguments, origin)
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a demonstration listens for signals itself
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
