#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""How much memory do this process and its GPU use at this line, and what changed since the last?

Paste it into your program. It prints one line per call and rank; mem_watch.py does the same for a
whole command, from outside.

    from see_mem_usage import see_memory_usage
    see_memory_usage("after the forward")               # on every rank; ranks=[0] for one
    see_memory_usage("step", reset_peaks=True)          # peaks count from here

    12:03:11 rank 0 after the forward | cpu RSS 1.23 GiB (+12 MiB) PSS 1.1 GiB peak 1.5 GiB
        | cuda:0 allocated 2 GiB (+1.5 GiB) reserved 2.2 GiB peak 2.1 GiB device 10.1 GiB of 80 GiB

## What is measured

- RSS: the process in RAM. PSS: the same with shared memory divided among those who share it.
- peak: the largest RSS of the process so far; for a device the largest `allocated`.
- allocated: torch's tensors. reserved: what its allocator holds from the driver.
- device: used by all programs, from NVML, else from the driver through torch. torch counts only the
  visible GPUs, so NVML is asked by UUID. A device that this process does not use yet is not
  touched: looking would create a context of some hundred MiB.

1 GiB = 1073741824 bytes. `(+...)` is the change since the previous call.

PSS makes the kernel walk the page tables: a call takes 6 ms with torch imported, and 30 ms with
1 GiB of tensors in main memory. Measured on a CPU with pages of 4 KiB.

## How to run

    python see_mem_usage.py --demo    # take 64 MiB, give them back, check the numbers

## A good answer

RSS that stays level from the second epoch on, `reserved` that no longer grows, and some GiB free on
the device at its peak. PSS that grows for hours is a leak, often in DataLoader workers.

Exit status of --demo: 0 the growth matches what was taken, 1 not, 2 usage error.
"""

import argparse
import contextlib
import mmap
import os
import re
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__version__ = "0.2.0"

_last: dict[str, Any] = {}


def read_process() -> dict[str, int | None]:
    """RSS, PSS and peak RSS of this process in bytes, from Linux's /proc; None where unknown."""
    found: dict[str, int] = {}
    for name in ("status", "smaps_rollup"):
        with contextlib.suppress(OSError):
            text = Path(f"/proc/self/{name}").read_text(encoding="utf-8", errors="replace")
            found |= {key: 1024 * int(kib) for key, kib in re.findall(r"(\w+):\s+(\d+) kB", text)}
    rss = found.get("Rss", found.get("VmRSS"))  # Rss is of the same moment as Pss
    peak = max(found.get("VmHWM", 0), rss or 0) or None
    return {"rss_bytes": rss, "pss_bytes": found.get("Pss"), "peak_rss_bytes": peak}


def read_device() -> dict[str, Any]:
    """Memory of the accelerator that this process uses, where it has imported torch and has a
    context; without one everything is None, and none is created."""
    names = ("device", "allocated_bytes", "reserved_bytes", "peak_allocated_bytes",
             "device_used_bytes", "device_total_bytes")  # fmt: skip
    row: dict[str, Any] = dict.fromkeys(names)
    torch = sys.modules.get("torch")
    if torch is None or not torch.accelerator.is_available():
        return row
    kind = torch.accelerator.current_accelerator().type
    module = torch.get_device_module(kind)
    if not getattr(module, "is_initialized", lambda: True)():
        return row
    index = torch.accelerator.current_device_index()
    row["device"] = f"{kind}:{index}"
    for name in ("memory_allocated", "memory_reserved", "max_memory_allocated"):
        with contextlib.suppress(AttributeError, RuntimeError):
            column = name.replace("max_memory", "peak").removeprefix("memory_")
            row[f"{column}_bytes"] = int(getattr(module, name)())
    try:
        import pynvml  # nvidia-ml-py

        pynvml.nvmlInit()  # counted, so that it costs nothing from the second call on
        uuid = module.get_device_properties(index).uuid  # torch counts only the visible GPUs
        memory = pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}"))
        row["device_used_bytes"], row["device_total_bytes"] = int(memory.used), int(memory.total)
    except Exception:  # no NVML, a driver without it, ROCm, XPU, MIG
        with contextlib.suppress(AttributeError, RuntimeError):
            free, total = module.mem_get_info(index)
            row["device_used_bytes"], row["device_total_bytes"] = total - free, total
    return row


def format_memory(size: float | None) -> str:
    """`2.87 GiB`, `512 MiB`, `0 B`."""
    if size is None:
        return "-"
    power = 0
    while abs(size) >= 999.5 and power < 4:
        size, power = size / 1024, power + 1
    return f"{size:.3g} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def see_memory_usage(
    message: str = "",
    *,
    ranks: Iterable[int] | None = None,
    reset_peaks: bool = False,
) -> dict[str, Any] | None:
    """Print one line about the memory of this process and its device, and return its numbers.

    With `ranks` only these ranks do, and the others return None. `reset_peaks` restarts the peaks
    from here.
    """
    rank = os.environ.get("RANK", os.environ.get("SLURM_PROCID"))
    if ranks is not None and rank is not None and int(rank) not in ranks:
        return None
    row: dict[str, Any] = read_process() | read_device()
    before = _last if _last.get("pid") == os.getpid() else {}  # a forked process starts again
    for name in ("rss", "pss", "allocated"):
        now, then = row[f"{name}_bytes"], before.get(f"{name}_bytes")
        row[f"{name}_growth_bytes"] = None if now is None or then is None else now - then
    _last.clear()
    _last.update(row, pid=os.getpid())

    def show(label: str, name: str) -> str:
        growth = row.get(f"{name}_growth_bytes")
        sign = "-" if (growth or 0) < 0 else "+"
        change = "" if growth is None else f" ({sign}{format_memory(abs(growth))})"
        value = row[f"{name}_bytes"]
        return "" if value is None else f" {label} {format_memory(value)}{change}"

    line = f"{time.strftime('%H:%M:%S')}{f' rank {rank}' if rank else ''} {message} | cpu"
    line += show("RSS", "rss") + show("PSS", "pss") + show("peak", "peak_rss")
    if row["device"]:
        line += f" | {row['device']}" + show("allocated", "allocated")
        line += show("reserved", "reserved") + show("peak", "peak_allocated")
        line += show("device", "device_used") + f" of {format_memory(row['device_total_bytes'])}"
    print(line, file=sys.stderr, flush=True)
    if reset_peaks:
        with contextlib.suppress(OSError):
            Path("/proc/self/clear_refs").write_text("5")
        if row["device"] and (torch := sys.modules.get("torch")):
            torch.get_device_module(row["device"].partition(":")[0]).reset_peak_memory_stats()
    return row


def run_demo() -> int:
    """Take memory and give it back; 0 if exactly that is seen."""
    size = 64 * 1024**2
    see_memory_usage("start", reset_peaks=True)
    block = mmap.mmap(-1, size)
    for first in range(0, size, mmap.PAGESIZE):
        block[first] = 1
    taken = see_memory_usage("taken") or {}
    block.close()
    gone = see_memory_usage("given back") or {}
    changes = (taken["rss_growth_bytes"] or 0, -(gone["rss_growth_bytes"] or 0))
    is_right = all(abs(change - size) < 4 * 1024**2 for change in changes)
    print(f"took {format_memory(size)}, gave it back: {'seen' if is_right else 'NOT SEEN'}")
    return int(not is_right)


def build_parser() -> argparse.ArgumentParser:
    """The command line of the demonstration."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=form)
    parser.add_argument("--version", action="version", version=f"see_mem_usage {__version__}")
    parser.add_argument(
        "--demo", action="store_true", required=True, help="take memory, give it back, check"
    )
    return parser


if __name__ == "__main__":
    build_parser().parse_args()
    sys.exit(run_demo())
