#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""Which machine and which software made these numbers?

A measurement without its machine cannot be compared with anything. This tool reads the facts
that decide how fast a machine is: processor, memory, NUMA nodes, accelerators with their clocks
and power limits, driver, kernel, operating system, container, hypervisor, the shape of the Slurm
job, and the versions of Python, torch, CUDA or ROCm, and NCCL or RCCL. It is the one place that
knows them: a record is what a measuring tool printed, beside what this tool printed on the same
machine.

Where the facts come from
    processor, memory     /proc and /sys (Linux)
    NVIDIA accelerators   NVML through the package nvidia-ml-py, else the nvidia-smi command
    AMD accelerators      the package amdsmi, else the commands amd-smi or rocm-smi
    their NUMA nodes      /sys/bus/pci
    any other             torch, where it can be imported and --no-torch was not given
    torch, CUDA, ROCm     torch's own version file, which is read without importing torch; where
                          there is no torch, nvcc and the ROCm installation
    NCCL, RCCL            torch, or the installed package where --no-torch was given

Units are bytes, hertz, watts, degrees Celsius. A fact that could not be read is null, and
`caveats` says why. Clock, temperature and throttle reasons are those of the moment of reading:
run it on the machine while it is warm if you want those of a warm machine.

What is left out on purpose: host name, user, serial numbers, UUIDs, PCI and network addresses,
job names. `--with-hostname` adds the host name, for telling the nodes of a cluster apart.

How to run
    one node   python env_report.py --json facts.json
    Slurm      srun --ntasks-per-node=1 python env_report.py --with-hostname
    pdsh       pdsh -w node[01-08] python /shared/env_report.py --no-torch --with-hostname

A good answer: every accelerator you paid for is listed, with the same model, memory, power limit
and driver on all of them; no throttle reason other than gpu_idle on an idle machine; no caveat
that you cannot explain.

Exit status: 0 done (caveats included), 1 a self-test failed or the run was stopped, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import ast
import csv
import errno
import importlib.metadata
import importlib.util
import io
import json
import os
import platform
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

__version__ = "0.2.0"
METHOD = 1

PROFILES = {"toy": ["--no-torch"], "full": []}

GIB = 1024**3
MIB = 1024**2
MEGAHERTZ = 1e6
COMMAND_SECONDS = 30

# Bits of nvmlClocksEventReasons in NVIDIA's NVML API reference.
THROTTLE_BITS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}

VENDOR_OF_DEVICE_TYPE = {
    "cuda": "nvidia",
    "xpu": "intel",
    "hpu": "intel",
    "mps": "apple",
    "npu": "huawei",
}

NVIDIA_SMI_FIELDS = (
    "name",
    "memory.total",
    "enforced.power.limit",
    "clocks.max.sm",
    "clocks.max.mem",
    "clocks.sm",
    "temperature.gpu",
    "driver_version",
    "clocks.mem",
    "power.default_limit",
    "power.max_limit",
    "pci.bus_id",
)
# Renamed by NVIDIA; a driver knows one of the two or both.
NVIDIA_SMI_THROTTLE_FIELDS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")

# Fields of amdsmi_get_violation_status in AMD's library reference; unsupported ones are "N/A".
AMD_VIOLATIONS = {
    "active_prochot_thrm": "processor_hot",
    "active_ppt_pwr": "power_cap",
    "active_socket_thrm": "socket_thermal",
    "active_vr_thrm": "voltage_regulator_thermal",
    "active_hbm_thrm": "memory_thermal",
}

# What the firmware of a virtual machine calls itself, in small letters, and what it runs on.
HYPERVISORS = {
    "qemu": "kvm",
    "kvm": "kvm",
    "openstack": "kvm",
    "ovirt": "kvm",
    "vmware": "vmware",
    "virtualbox": "virtualbox",
    "innotek": "virtualbox",
    "microsoft": "hyper-v",
    "amazon": "amazon",
    "google": "google",
    "parallels": "parallels",
    "bhyve": "bhyve",
    "xen": "xen",
}

# Only the tables that are read here: with --showallinfo some versions of rocm-smi abort.
ROCM_SMI_FLAGS = (
    "--showproductname",
    "--showmeminfo",
    "vram",
    "--showmaxpower",
    "--showdriverversion",
)

Facts = dict[str, Any]


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


def read_text(path: str | Path) -> str | None:
    """The stripped text of a small system file, or None where it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def run_command(command: list[str]) -> str | None:
    """What the command printed, or None where it is absent, fails, or takes too long."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def read_number(text: Any) -> float | None:
    """The first number in a text such as `700.00 W` or `[N/A]`, or None."""
    if isinstance(text, bool) or text is None:
        return None
    if isinstance(text, int | float):
        return float(text)
    found = re.search(r"-?\d+(?:\.\d+)?", str(text))
    return float(found.group()) if found else None


def scale(value: float | None, factor: float) -> int | None:
    """The value in base units, as a whole number, or None."""
    return None if value is None else round(value * factor)


def name_throttle_reasons(bits: int) -> list[str]:
    """Names of the set bits; a bit that is not in NVIDIA's list is given as hexadecimal."""
    names = [name for bit, name in THROTTLE_BITS.items() if bits & bit]
    rest = bits & ~sum(THROTTLE_BITS)
    return names + ([hex(rest)] if rest else [])


def parse_cpu_model(cpuinfo: str) -> str | None:
    """The model name in the text of /proc/cpuinfo, which names it differently by architecture."""
    for key in ("model name", "cpu model", "Model", "Processor", "cpu"):
        found = re.search(rf"^{key}\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
        if found:
            return found.group(1).strip()
    return None


# Weakest first: each of them multiplies more numbers with one instruction than those before, so
# the last one says most about the speed of a product of matrices.
INSTRUCTION_SETS = """sse4_2 avx avx2 avx512f avx512_vnni avx_vnni avx512_bf16 avx512_fp16 amx_int8
amx_bf16 amx_fp16 asimd asimdhp asimddp bf16 i8mm sve sve2 svebf16 sme sme2""".split()


def parse_instruction_sets(cpuinfo: str) -> list[str] | None:
    """The vector and matrix instructions in the text of /proc/cpuinfo, by the kernel's names,
    weakest first; None where it names none. Processors of one name may differ in them, virtual
    ones above all, and then by a factor of ten in speed."""
    found = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    named = set(found.group(1).split()) if found else set()
    return [name for name in INSTRUCTION_SETS if name in named] or None


def parse_meminfo(meminfo: str) -> int | None:
    """MemTotal of /proc/meminfo in bytes; the file's kB are 1024 bytes."""
    found = re.search(r"^MemTotal:\s+(\d+) kB", meminfo, re.MULTILINE)
    return int(found.group(1)) * 1024 if found else None


def count_listed(text: str) -> int:
    """How many numbers a list of the kernel has: `0-3,8-11` has 8."""
    count = 0
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def read_numa_nodes(sysfs: Path) -> list[Facts]:
    """Threads and memory that are near to each NUMA node, by its number."""
    nodes = []
    for folder in sysfs.glob("node/node[0-9]*"):
        listed = read_text(folder / "cpulist")
        memory = re.search(r"MemTotal:\s+(\d+) kB", read_text(folder / "meminfo") or "")
        nodes.append(
            {
                "index": int(folder.name.removeprefix("node")),
                "threads": None if listed is None else count_listed(listed),
                "memory_bytes": int(memory.group(1)) * 1024 if memory else None,
            }
        )
    return sorted(nodes, key=lambda node: node["index"])


def read_device_node(address: str | None, sysfs: Path = Path("/sys/bus/pci")) -> int | None:
    """The NUMA node that a PCI device hangs on, by its address, which goes no further."""
    found = re.fullmatch(r"(?:0000)?([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", address or "")
    node = read_text(sysfs / "devices" / found.group(1) / "numa_node") if found else None
    return int(node) if node and node.isdigit() else None  # -1 is the kernel's word for unknown


def read_cpu(caveats: list[str], sysfs: Path = Path("/sys/devices/system")) -> Facts:
    """Model, architecture, the numbers of sockets, cores and threads, and the NUMA nodes."""
    folders = [p for p in sysfs.glob("cpu/cpu[0-9]*") if (p / "topology").is_dir()]
    sockets: set[str] = set()
    cores: set[tuple[str, str, str]] = set()
    for folder in folders:
        package = read_text(folder / "topology/physical_package_id") or "0"
        die = read_text(folder / "topology/die_id") or "0"
        sockets.add(package)
        cores.add((package, die, read_text(folder / "topology/core_id") or folder.name))
    nodes = read_numa_nodes(sysfs)
    governors = {read_text(path) for path in sysfs.glob("cpu/cpu[0-9]*/cpufreq/scaling_governor")}
    threads = len(folders) or os.cpu_count()
    model = parse_cpu_model(read_text("/proc/cpuinfo") or "") or platform.processor() or None
    if model is None:
        caveats.append("could not read the processor's model")
    if not folders:
        caveats.append("could not read the processor's topology: no sockets, cores and NUMA nodes")
    if hasattr(os, "sched_getaffinity") and threads:
        allowed = len(os.sched_getaffinity(0))
        if allowed < threads:
            caveats.append(f"this process may use {allowed} of {threads} threads (CPU affinity)")
    return {
        "model": model,
        "architecture": platform.machine(),
        "instruction_sets": parse_instruction_sets(read_text("/proc/cpuinfo") or ""),
        "sockets": len(sockets) or None,
        "cores": len(cores) or None,
        "threads": threads,
        "numa_nodes": len(nodes) or None,
        "numa": nodes,
        "governor": ", ".join(sorted(filter(None, governors))) or None,
    }


def read_memory(caveats: list[str]) -> int | None:
    """Bytes of main memory; a smaller limit of the control group is a caveat."""
    total = parse_meminfo(read_text("/proc/meminfo") or "")
    if total is None:
        caveats.append("could not read the size of the main memory")
        return None
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        limit = read_text(path)
        if limit and limit.isdigit() and int(limit) < total:
            gibibytes = int(limit) / GIB
            caveats.append(f"the control group allows {gibibytes:.1f} GiB of main memory")
            break
    return total


def find_memory_contradiction(memory: int | None, nodes: list[Facts]) -> str | None:
    """What to say where the NUMA nodes have another memory than the machine, as the kernel of some
    virtual machines has it."""
    sizes = [node["memory_bytes"] for node in nodes]
    if memory is None or not sizes or None in sizes or abs(sum(sizes) - memory) <= 0.02 * memory:
        return None
    together, whole = sum(sizes) / GIB, memory / GIB
    return f"the NUMA nodes have {together:.1f} GiB of memory together, the machine {whole:.1f} GiB"


def describe_accelerator(vendor: str, source: str, **known: Any) -> Facts:
    """One accelerator with every key present, null where nothing is known."""
    facts: Facts = {
        "vendor": vendor,
        "model": None,
        "memory_bytes": None,
        "power_limit_watts": None,
        "power_limit_default_watts": None,
        "power_limit_max_watts": None,
        "clock_max_hertz": None,
        "memory_clock_max_hertz": None,
        "clock_hertz": None,
        "memory_clock_hertz": None,
        "temperature_celsius": None,
        "throttle_reasons": None,
        "numa_node": None,
        "driver": None,
        "source": source,
    }
    facts.update(known)
    return facts


def read_nvml(caveats: list[str]) -> list[Facts] | None:
    """NVIDIA accelerators by NVML, or None where the package or the driver is absent."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None

    def ask(what: str, question: Callable[[], Any]) -> Any:
        try:
            answer = question()
        except (pynvml.NVMLError, AttributeError) as error:
            caveats.append(f"NVML gave no {what}: {error}")
            return None
        return answer.decode() if isinstance(answer, bytes) else answer

    try:
        driver = ask("driver version", pynvml.nvmlSystemGetDriverVersion)
        found = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            found.append(read_nvml_device(pynvml, handle, index, driver, ask))
            try:
                if pynvml.nvmlDeviceGetMigMode(handle)[0] == pynvml.NVML_DEVICE_MIG_ENABLE:
                    caveats.append(f"GPU {index} is in MIG mode: the facts are the whole GPU's")
            except (pynvml.NVMLError, AttributeError):
                pass  # no MIG on this model, so nothing to say
        return found
    finally:
        pynvml.nvmlShutdown()


def read_nvml_device(
    pynvml: Any,
    handle: Any,
    index: int,
    driver: str | None,
    ask: Callable[[str, Callable[[], Any]], Any],
) -> Facts:
    """The facts of one NVML handle; a question that fails becomes null and a caveat."""
    gpu = f"of GPU {index}"
    memory = ask(f"memory {gpu}", lambda: pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    limit = ask(f"power limit {gpu}", lambda: pynvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    usual = ask(
        f"default power limit {gpu}",
        lambda: pynvml.nvmlDeviceGetPowerManagementDefaultLimit(handle),
    )
    highest = ask(
        f"highest power limit {gpu}",
        lambda: pynvml.nvmlDeviceGetPowerManagementLimitConstraints(handle)[1],
    )
    sm, mem = pynvml.NVML_CLOCK_SM, pynvml.NVML_CLOCK_MEM
    sm_max = ask(f"max clock {gpu}", lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, sm))
    mem_max = ask(f"max memory clock {gpu}", lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, mem))
    sm_now = ask(f"clock {gpu}", lambda: pynvml.nvmlDeviceGetClockInfo(handle, sm))
    mem_now = ask(f"memory clock {gpu}", lambda: pynvml.nvmlDeviceGetClockInfo(handle, mem))
    address = ask(f"PCI address {gpu}", lambda: pynvml.nvmlDeviceGetPciInfo(handle).busId)
    if isinstance(address, bytes):
        address = address.decode()
    temperature = ask(
        f"temperature {gpu}",
        lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
    )
    # Renamed by NVIDIA: the first name is absent from older packages.
    reasons = getattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons", None) or getattr(
        pynvml, "nvmlDeviceGetCurrentClocksThrottleReasons", None
    )
    bits = ask(f"throttle reasons {gpu}", lambda: reasons(handle)) if reasons else None
    return describe_accelerator(
        "nvidia",
        "nvml",
        model=ask(f"name {gpu}", lambda: pynvml.nvmlDeviceGetName(handle)),
        memory_bytes=memory,
        power_limit_watts=None if limit is None else limit / 1000,
        power_limit_default_watts=None if usual is None else usual / 1000,
        power_limit_max_watts=None if highest is None else highest / 1000,
        clock_max_hertz=scale(sm_max, MEGAHERTZ),
        memory_clock_max_hertz=scale(mem_max, MEGAHERTZ),
        clock_hertz=scale(sm_now, MEGAHERTZ),
        memory_clock_hertz=scale(mem_now, MEGAHERTZ),
        temperature_celsius=temperature,
        throttle_reasons=None if bits is None else name_throttle_reasons(int(bits)),
        numa_node=read_device_node(address and address.lower()),
        driver=driver,
    )


def parse_nvidia_smi(text: str) -> list[Facts]:
    """Accelerators from `nvidia-smi --query-gpu=... --format=csv,noheader,nounits`.

    The columns are NVIDIA_SMI_FIELDS, with the throttle bits as an optional last one. In that
    format memory is in MiB, power in watts, clocks in MHz.
    """
    found = []
    for row in csv.reader(io.StringIO(text), skipinitialspace=True):
        if len(row) < len(NVIDIA_SMI_FIELDS):
            continue
        (name, memory, limit, sm_max, mem_max, sm_now, temperature, driver, mem_now) = row[:9]
        usual, highest, address, *rest = row[9:]
        bits = rest[0].strip() if rest else ""
        found.append(
            describe_accelerator(
                "nvidia",
                "nvidia-smi",
                model=name.strip(),
                memory_bytes=scale(read_number(memory), MIB),
                power_limit_watts=read_number(limit),
                power_limit_default_watts=read_number(usual),
                power_limit_max_watts=read_number(highest),
                clock_max_hertz=scale(read_number(sm_max), MEGAHERTZ),
                memory_clock_max_hertz=scale(read_number(mem_max), MEGAHERTZ),
                clock_hertz=scale(read_number(sm_now), MEGAHERTZ),
                memory_clock_hertz=scale(read_number(mem_now), MEGAHERTZ),
                temperature_celsius=read_number(temperature),
                throttle_reasons=(
                    name_throttle_reasons(int(bits, 16))
                    if re.fullmatch(r"0x[0-9a-fA-F]+", bits)
                    else None
                ),
                numa_node=read_device_node(address.strip().lower()),
                driver=driver.strip() or None,
            )
        )
    return found


def read_nvidia_smi(caveats: list[str]) -> list[Facts] | None:
    """NVIDIA accelerators by the nvidia-smi command, or None where it does not answer."""
    plain = ",".join(NVIDIA_SMI_FIELDS)
    for fields in (*(f"{plain},{field}" for field in NVIDIA_SMI_THROTTLE_FIELDS), plain):
        text = run_command(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"])
        if text is not None:
            found = parse_nvidia_smi(text)
            if not found:
                caveats.append("nvidia-smi answered, but its table could not be read")
            return found
    return None


def scale_watts(value: float | None) -> float | None:
    """Watts from a power cap that AMD's library gives in watts or, by version, in microwatts."""
    if value is None:
        return None
    return value / 1e6 if value > 10_000 else value


def read_amdsmi(caveats: list[str]) -> list[Facts] | None:
    """AMD accelerators by the package amdsmi, or None where it or the driver is absent."""
    try:
        import amdsmi
    except (ImportError, OSError, KeyError):
        return None  # the package raises OSError or KeyError where its library is missing
    try:
        amdsmi.amdsmi_init()
    except Exception:  # its exceptions share no base class across versions
        return None

    def ask(what: str, question: Callable[[], Any]) -> Any:
        try:
            answer = question()
        except Exception as error:
            caveats.append(f"amdsmi gave no {what}: {error}")
            return None
        return None if answer in ("N/A", "") else answer

    try:
        handles = amdsmi.amdsmi_get_processor_handles()
        return [read_amdsmi_device(amdsmi, h, i, ask) for i, h in enumerate(handles)]
    finally:
        amdsmi.amdsmi_shut_down()


def read_amd_clock(clock: Facts) -> int | None:
    """The clock of the moment in hertz; its key changed with the library."""
    return scale(read_number(clock.get("clk", clock.get("cur_clk"))), MEGAHERTZ)


def name_amd_violations(states: Facts) -> list[str] | None:
    """What holds the clock down now, or None where the library does not tell."""
    told = {key: states.get(key) for key in AMD_VIOLATIONS}
    known = {key: bool(value) for key, value in told.items() if isinstance(value, bool | int)}
    return [AMD_VIOLATIONS[key] for key, is_active in known.items() if is_active] if known else None


def read_amdsmi_device(
    amdsmi: Any, handle: Any, index: int, ask: Callable[[str, Callable[[], Any]], Any]
) -> Facts:
    """The facts of one amdsmi handle; a question that fails becomes null and a caveat."""
    gpu = f"of GPU {index}"
    asic = ask(f"name {gpu}", lambda: amdsmi.amdsmi_get_gpu_asic_info(handle)) or {}
    vram, gfx = amdsmi.AmdSmiMemoryType.VRAM, amdsmi.AmdSmiClkType.GFX
    memory = ask(f"memory {gpu}", lambda: amdsmi.amdsmi_get_gpu_memory_total(handle, vram))
    cap = ask(f"power limit {gpu}", lambda: amdsmi.amdsmi_get_power_cap_info(handle)) or {}
    clock = ask(f"clock {gpu}", lambda: amdsmi.amdsmi_get_clock_info(handle, gfx)) or {}
    mem = ask(
        f"memory clock {gpu}",
        lambda: amdsmi.amdsmi_get_clock_info(handle, amdsmi.AmdSmiClkType.MEM),
    )
    temperature = ask(
        f"temperature {gpu}",
        lambda: amdsmi.amdsmi_get_temp_metric(
            handle,
            amdsmi.AmdSmiTemperatureType.HOTSPOT,
            amdsmi.AmdSmiTemperatureMetric.CURRENT,
        ),
    )
    # Data center models from MI300 on; others and older libraries do not have it.
    states = ask(f"throttle reasons {gpu}", lambda: amdsmi.amdsmi_get_violation_status(handle))
    address = ask(f"PCI address {gpu}", lambda: amdsmi.amdsmi_get_gpu_device_bdf(handle))
    driver = ask(f"driver {gpu}", lambda: amdsmi.amdsmi_get_gpu_driver_info(handle)) or {}
    return describe_accelerator(
        "amd",
        "amdsmi",
        model=asic.get("market_name"),
        memory_bytes=scale(read_number(memory), 1),
        power_limit_watts=scale_watts(read_number(cap.get("power_cap"))),
        power_limit_default_watts=scale_watts(read_number(cap.get("default_power_cap"))),
        power_limit_max_watts=scale_watts(read_number(cap.get("max_power_cap"))),
        clock_max_hertz=scale(read_number(clock.get("max_clk")), MEGAHERTZ),
        memory_clock_max_hertz=scale(read_number((mem or {}).get("max_clk")), MEGAHERTZ),
        clock_hertz=read_amd_clock(clock),
        memory_clock_hertz=read_amd_clock(mem or {}),
        temperature_celsius=read_number(temperature),
        throttle_reasons=name_amd_violations(states or {}),
        numa_node=read_device_node(str(address).lower() if address else None),
        driver=driver.get("driver_version"),
    )


def read_amd_quantity(value: Any, default_unit: str) -> float | None:
    """A number in base units from `{"value": 300, "unit": "W"}`, `300` or `300 W`."""
    factors = {"B": 1, "KB": 1024, "MB": MIB, "GB": GIB, "MIB": MIB, "GIB": GIB, "W": 1}
    unit = default_unit
    if isinstance(value, dict):
        unit, value = str(value.get("unit", default_unit)), value.get("value")
    elif isinstance(value, str):
        named = re.search(r"[A-Za-z]+\s*$", value)
        unit = named.group().strip() if named and read_number(value) is not None else default_unit
    number = read_number(value)
    return None if number is None else number * factors.get(unit.upper(), 1)


def parse_amd_smi(text: str) -> list[Facts]:
    """Accelerators from `amd-smi static --json`: a list, or since ROCm 7 a list in `gpu_data`."""
    document = json.loads(text)
    entries = document.get("gpu_data", []) if isinstance(document, dict) else document
    found = []
    for entry in entries:
        if not isinstance(entry, dict) or "asic" not in entry:
            continue

        def section(name: str, entry: Facts = entry) -> Facts:
            value = entry.get(name)
            return value if isinstance(value, dict) else {}

        limit = section("limit")
        cap = limit.get("socket_power", limit.get("max_power"))
        memory = read_amd_quantity(section("vram").get("size"), "MB")
        found.append(
            describe_accelerator(
                "amd",
                "amd-smi",
                model=section("asic").get("market_name"),
                memory_bytes=scale(memory, 1),
                power_limit_watts=read_amd_quantity(cap, "W"),
                driver=section("driver").get("version", section("driver").get("driver_version")),
            )
        )
    return found


def parse_rocm_smi(text: str) -> list[Facts]:
    """Accelerators from `rocm-smi ... --json`: one object per card, all values are text."""
    document = json.loads(text)
    driver = (document.get("system") or {}).get("Driver version")
    found = []
    for name, card in document.items():
        if not name.startswith("card") or not isinstance(card, dict):
            continue
        lowered = {key.lower(): value for key, value in card.items()}
        memory = read_number(lowered.get("vram total memory (b)"))
        found.append(
            describe_accelerator(
                "amd",
                "rocm-smi",
                model=lowered.get("card series") or lowered.get("card model"),
                memory_bytes=scale(memory, 1),
                power_limit_watts=read_number(lowered.get("max graphics package power (w)")),
                driver=driver,
            )
        )
    return found


def read_amd_commands(caveats: list[str]) -> list[Facts] | None:
    """AMD accelerators by the command amd-smi, else rocm-smi, or None where neither answers."""
    questions = (
        (["amd-smi", "static", "--json"], parse_amd_smi),
        (["rocm-smi", *ROCM_SMI_FLAGS, "--json"], parse_rocm_smi),
    )
    for command, parse in questions:
        text = run_command(command)
        if not text:
            continue
        try:
            found = parse(text)
        except (ValueError, AttributeError):
            caveats.append(f"{command[0]} answered, but its JSON could not be read")
            continue
        if found:
            caveats.append(f"{command[0]} tells no clocks: install the package amdsmi for them")
            return found
    return None


def load_torch(caveats: list[str]) -> Any:
    """The torch module, or None with a caveat where it is installed and does not import."""
    if importlib.util.find_spec("torch") is None:
        return None
    try:
        import torch
    except Exception as error:  # a broken install raises OSError, ImportError, AttributeError
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        caveats.append(f"torch is installed but does not import: {first}")
        return None
    return torch


def read_torch_accelerators(torch: Any, caveats: list[str]) -> list[Facts]:
    """What torch itself knows of its accelerators: model and memory, no clocks, no limits."""
    if not hasattr(torch, "accelerator") or not torch.accelerator.is_available():
        return []
    kind = torch.accelerator.current_accelerator().type
    vendor = VENDOR_OF_DEVICE_TYPE.get(kind, kind)
    if kind == "cuda" and torch.version.hip:
        vendor = "amd"
    module = torch.get_device_module(kind)
    found = []
    for index in range(torch.accelerator.device_count()):
        try:
            properties = module.get_device_properties(index)
        except (AttributeError, RuntimeError):
            properties = None
        model = getattr(properties, "name", None) or kind
        memory = getattr(properties, "total_memory", None)
        found.append(describe_accelerator(vendor, "torch", model=model, memory_bytes=memory))
    if found:
        caveats.append(f"{kind} devices were read through torch: no clocks and no power limits")
    return found


def read_accelerators(torch: Any, caveats: list[str]) -> list[Facts]:
    """All accelerators of the machine, each vendor from the first source that answers."""
    found: list[Facts] = []
    for sources in ((read_nvml, read_nvidia_smi), (read_amdsmi, read_amd_commands)):
        for source in sources:
            answer = source(caveats)
            if answer:
                found.extend(answer)
                break
    if not found and torch is not None:
        found = read_torch_accelerators(torch, caveats)
    if found:
        for name in ("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"):
            if os.environ.get(name):
                caveats.append(f"{name} is set: a program may see fewer than are listed here")
    return found


def parse_torch_version(source: str) -> dict[str, str | None]:
    """The assignments of torch/version.py: `__version__`, `cuda`, `hip`, `xpu`."""
    values: dict[str, str | None] = {}
    for node in ast.parse(source).body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        for target in targets:
            value = getattr(node, "value", None)
            if isinstance(target, ast.Name) and isinstance(value, ast.Constant):
                values[target.id] = value.value if isinstance(value.value, str) else None
    return values


def read_torch_build() -> dict[str, str | None]:
    """Version, CUDA and ROCm of the installed torch, without importing it; empty if absent."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return {}
    text = read_text(Path(spec.origin).parent / "version.py")
    try:
        return parse_torch_version(text) if text else {}
    except SyntaxError:
        return {}


def read_nccl(torch: Any) -> str | None:
    """Version of NCCL or RCCL: the one torch was built with, else of the installed package."""
    if torch is not None:
        try:
            version = torch.cuda.nccl.version()
        except (AttributeError, RuntimeError):
            version = None
        if isinstance(version, tuple):
            return ".".join(str(part) for part in version)
    for name in ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return None


def read_software(torch: Any, accelerators: list[Facts], caveats: list[str]) -> Facts:
    """Versions of Python, torch, CUDA, ROCm, NCCL (or RCCL) and the accelerator's driver."""
    build = read_torch_build()
    cuda, rocm = build.get("cuda"), build.get("hip")
    if not build:  # a torch without CUDA must not be credited with the toolkit beside it
        nvcc = re.search(r"release (\d+\.\d+)", run_command(["nvcc", "--version"]) or "")
        cuda = nvcc.group(1) if nvcc else None
        rocm = read_text("/opt/rocm/.info/version")
    drivers = {a["driver"] for a in accelerators if a["driver"]}
    drivers = drivers or {v for v in [read_text("/sys/module/nvidia/version")] if v}
    drivers = drivers or {v for v in [read_text("/sys/module/amdgpu/version")] if v}
    nccl = read_nccl(torch)
    if not build:
        caveats.append("torch is not installed for this Python")
    elif torch is None and nccl is None and (cuda or rocm):
        caveats.append("the version of NCCL or RCCL was not read, because torch was not imported")
    return {
        "python": platform.python_version(),
        "torch": build.get("__version__"),
        "cuda": cuda,
        "rocm": rocm,
        "nccl": nccl,
        "driver": ", ".join(sorted(drivers)) or None,
    }


def parse_os_release(text: str) -> str | None:
    """The readable name of the distribution in the text of /etc/os-release."""
    found = re.search(r'^PRETTY_NAME="?([^"\n]+)"?$', text, re.MULTILINE)
    return found.group(1) if found else None


def find_container(environ: Mapping[str, str], root: Path = Path("/")) -> str | None:
    """The kind of container that this process runs in, or None where no sign of one is seen."""
    if environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER"):
        return "apptainer"
    if environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    manager = environ.get("container") or read_text(root / "run/systemd/container")
    if manager and re.fullmatch(r"[a-z][a-z-]{1,20}", manager):
        return manager
    if (root / "run/.containerenv").exists():
        return "podman"
    if (root / ".dockerenv").exists():
        return "docker"
    return None


def find_virtualisation(cpuinfo: str, architecture: str, root: Path = Path("/")) -> str | None:
    """What the machine is virtual by, `none` for a real one, None where that cannot be told."""
    kind = read_text(root / "sys/hypervisor/type")
    if kind and re.fullmatch(r"[a-z][a-z-]{1,20}", kind):
        return kind
    names = [read_text(root / "sys/class/dmi/id" / n) or "" for n in ("sys_vendor", "product_name")]
    words = " ".join(names).lower()
    named = next((HYPERVISORS[word] for word in HYPERVISORS if word in words), None)
    if architecture in ("x86_64", "i686", "AMD64"):
        # Real machines have such vendors too; the processor itself tells a guest.
        if re.search(r"^flags\s*:.*\bhypervisor\b", cpuinfo, re.MULTILINE) is None:
            return "none" if cpuinfo else None
        return named or "unknown hypervisor"
    if (root / "proc/device-tree/hypervisor").exists():
        return named or "unknown hypervisor"
    return named if named == "kvm" else None


def read_slurm(environ: Mapping[str, str]) -> Facts | None:
    """The shape of the Slurm job, without names, or None outside of a job."""
    if "SLURM_JOB_ID" not in environ:
        return None

    def whole(*names: str) -> int | None:
        for name in names:
            if environ.get(name, "").isdigit():
                return int(environ[name])
        return None

    memory, memory_of_cpu = whole("SLURM_MEM_PER_NODE"), whole("SLURM_MEM_PER_CPU")
    return {
        "nodes": whole("SLURM_JOB_NUM_NODES", "SLURM_NNODES"),
        "tasks": whole("SLURM_NTASKS", "SLURM_NPROCS"),
        "tasks_per_node": environ.get("SLURM_TASKS_PER_NODE"),
        "cpus_per_task": whole("SLURM_CPUS_PER_TASK"),
        "cpus_on_node": whole("SLURM_CPUS_ON_NODE"),
        "gpus_on_node": whole("SLURM_GPUS_ON_NODE"),
        # Slurm gives it in megabytes of 1024 * 1024 bytes.
        "memory_per_node_bytes": scale(memory, MIB),
        "memory_per_cpu_bytes": scale(memory_of_cpu, MIB),
    }


def make_label(cpu: Facts, accelerators: list[Facts]) -> str:
    """A short slug: accelerator models with their counts, or the processor where there is none.

    `nvidia-h100-80gb-hbm3-8x`, `cpu-x86_64-avx2-2core`.
    """
    counts: dict[str, int] = {}
    for accelerator in accelerators:
        name = str(accelerator["model"] or accelerator["vendor"])
        slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "accelerator"
        counts[slug] = counts.get(slug, 0) + 1
    if counts:
        return "-".join(f"{slug}-{count}x" for slug, count in counts.items())
    architecture = re.sub(r"[^a-z0-9_]+", "-", str(cpu["architecture"]).lower())
    sets = cpu["instruction_sets"]
    architecture += f"-{sets[-1]}" if sets else ""
    return f"cpu-{architecture}-{cpu['cores'] or cpu['threads'] or 0}core"


def collect_report(with_torch: bool = True, with_hostname: bool = False) -> Facts:
    """The whole report as plain values, ready for JSON."""
    caveats: list[str] = []
    torch = load_torch(caveats) if with_torch else None
    cpu = read_cpu(caveats)
    memory = read_memory(caveats)
    if contradiction := find_memory_contradiction(memory, cpu["numa"]):
        caveats.append(contradiction)
    accelerators = read_accelerators(torch, caveats)
    machine: Facts = {
        "label": make_label(cpu, accelerators),
        "cpu": cpu,
        "memory_bytes": memory,
        "accelerators": accelerators,
        "kernel": platform.release() or None,
        "os": parse_os_release(read_text("/etc/os-release") or "") or platform.system() or None,
        "container": find_container(os.environ),
        "virtualisation": find_virtualisation(read_text("/proc/cpuinfo") or "", platform.machine()),
        "slurm": read_slurm(os.environ),
    }
    if with_hostname:
        machine["hostname"] = socket.gethostname()
    if not accelerators:
        hint = "" if torch is not None else " (torch was not asked)"
        caveats.append(f"no accelerator was found{hint}")
    software = read_software(torch, accelerators, caveats)
    return {
        "tool": "env_report",
        "version": __version__,
        "method": METHOD,
        "machine": machine,
        "software": software,
        "caveats": list(dict.fromkeys(caveats)),
    }


def format_numa(cpu: Facts) -> str | None:
    """The number of NUMA nodes, with threads and memory of each where there are several."""
    nodes = cpu["numa"]
    if len(nodes) < 2:
        return None if cpu["numa_nodes"] is None else str(cpu["numa_nodes"])
    shapes = []
    for node in nodes:
        memory = node["memory_bytes"]
        size = "unknown size" if memory is None else f"{memory / GIB:.1f} GiB"
        shapes.append(f"{node['threads']} threads and {size}")
    alike = f"each {shapes[0]}" if len(set(shapes)) == 1 else "; ".join(shapes)
    return f"{len(nodes)}: {alike}"


def format_accelerator(accelerator: Facts) -> str:
    """Model, memory, power limit and clocks in one readable line."""
    parts = [str(accelerator["model"] or "unknown model")]
    if accelerator["memory_bytes"]:
        parts.append(f"{accelerator['memory_bytes'] / GIB:.1f} GiB")
    if accelerator["power_limit_watts"]:
        parts.append(f"limit {accelerator['power_limit_watts']:.0f} W")
    if accelerator["clock_max_hertz"]:
        parts.append(f"up to {accelerator['clock_max_hertz'] / MEGAHERTZ:.0f} MHz")
    if accelerator["clock_hertz"]:
        parts.append(f"now {accelerator['clock_hertz'] / MEGAHERTZ:.0f} MHz")
    if accelerator["numa_node"] is not None:
        parts.append(f"NUMA node {accelerator['numa_node']}")
    if accelerator["throttle_reasons"]:
        parts.append("throttle: " + " ".join(accelerator["throttle_reasons"]))
    return ", ".join(parts)


def format_report(report: Facts) -> str:
    """The report as a Markdown table of facts and values."""
    machine, software = report["machine"], report["software"]
    cpu = machine["cpu"]
    rows: list[tuple[str, Any]] = [("label", machine["label"])]
    if "hostname" in machine:
        rows.append(("host name", machine["hostname"]))
    rows += [
        ("processor", cpu["model"]),
        ("architecture", cpu["architecture"]),
        ("instruction sets", " ".join(cpu["instruction_sets"] or ()) or None),
        ("sockets", cpu["sockets"]),
        ("cores", cpu["cores"]),
        ("threads", cpu["threads"]),
        ("NUMA nodes", format_numa(cpu)),
        ("governor", cpu["governor"]),
    ]
    memory = machine["memory_bytes"]
    rows.append(("memory", f"{memory / GIB:.1f} GiB" if memory else None))
    if not machine["accelerators"]:
        rows.append(("accelerators", "none found"))
    for index, accelerator in enumerate(machine["accelerators"]):
        rows.append((f"accelerator {index}", format_accelerator(accelerator)))
    rows += [(key, machine[key]) for key in ("kernel", "os", "container", "virtualisation")]
    if machine["slurm"]:
        shape = ", ".join(f"{k} {v}" for k, v in machine["slurm"].items() if v is not None)
        rows.append(("slurm", shape))
    rows += list(software.items())
    cells = [(name, "-" if value is None else str(value)) for name, value in rows]
    cells = [(name, value.replace("|", "\\|")) for name, value in cells]
    left = max(len(name) for name, _ in cells)
    right = max(len(value) for _, value in cells)
    lines = [
        f"| {'Fact':<{left}} | {'Value':<{right}} |",
        f"| :{'-' * (left - 1)} | :{'-' * (right - 1)} |",
    ]
    lines += [f"| {name:<{left}} | {value:<{right}} |" for name, value in cells]
    return "\n".join(lines)


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


def write_json(path: Path, document: Facts) -> None:
    """Write the document whole or not at all; a pipe or a device is written to, and a symbolic
    link followed. NaN and Infinity are refused."""
    text = json.dumps(document, indent=2, allow_nan=False) + "\n"
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    target = path.resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def run_self_test() -> int:
    """Check the readers against answers worked by hand and against this machine; 0 or 1."""
    smi = (
        "NVIDIA H100 80GB HBM3, 81559, 700.00, 1980, 2619, 1755, 41, 550.54.15, 2619, 700.00, "
        "700.00, 00000000:19:00.0, 0x0000000000000004"
    )
    gpu = parse_nvidia_smi(smi)[0]
    amd = parse_amd_smi(
        '[{"gpu": 0, "asic": {"market_name": "MI300X"},'
        ' "vram": {"size": {"value": 196592, "unit": "MB"}},'
        ' "limit": {"socket_power": {"value": 750, "unit": "W"}}}]'
    )[0]
    rocm = parse_rocm_smi(
        '{"card0": {"Card Series": "MI250X", "VRAM Total Memory (B)": "68702699520"}}'
    )[0]
    slurm = read_slurm({"SLURM_JOB_ID": "7", "SLURM_NNODES": "2", "SLURM_MEM_PER_NODE": "1024"})
    report = collect_report(with_torch=False)
    text = json.dumps(report, allow_nan=False)
    cpu = report["machine"]["cpu"]
    checks = {
        "nvidia-smi memory: 81559 MiB are 85520809984 bytes": gpu["memory_bytes"] == 85520809984,
        "nvidia-smi clock: 1980 MHz": gpu["clock_max_hertz"] == 1980000000,
        "nvidia-smi throttle bit 4 is the power cap": gpu["throttle_reasons"] == ["sw_power_cap"],
        "amd-smi memory: 196592 MiB are 206141652992 bytes": amd["memory_bytes"] == 206141652992,
        "amd-smi power limit": amd["power_limit_watts"] == 750,
        "rocm-smi memory": rocm["memory_bytes"] == 68702699520,
        "slurm memory: 1024 MiB are 1 GiB": slurm is not None
        and slurm["memory_per_node_bytes"] == GIB,
        "meminfo's kB are 1024 bytes": parse_meminfo("MemTotal:  8 kB") == 8192,
        "threads here agree with Python": cpu["threads"] is None or cpu["threads"] >= 1,
        "no host name unless asked": socket.gethostname() not in re.findall(r"[\w.-]+", text)
        or len(socket.gethostname()) < 4,
        "host name when asked": "hostname" in collect_report(False, True)["machine"],
        "the kernel's list 0-3,8 has 5 numbers": count_listed("0-3,8") == 5,
        "every key of the contract": set(report["machine"])
        == {
            "label",
            "cpu",
            "memory_bytes",
            "accelerators",
            "kernel",
            "os",
            "container",
            "virtualisation",
            "slurm",
        },
    }
    for name, passed in checks.items():
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)
    failed = sum(not passed for passed in checks.values())
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="env_report.py",
        description="Print the facts of this machine and its software that decide its speed.",
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="also write the facts as JSON")
    parser.add_argument(
        "--no-torch", action="store_true", help="do not import torch (faster; no RCCL version)"
    )
    parser.add_argument(
        "--with-hostname",
        action="store_true",
        help="add the host name, which is left out otherwise",
    )
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"env_report {__version__} (method {METHOD})"
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.self_test:
        if options.json or options.with_hostname:
            parser.error("--self-test takes no other option")
        return run_self_test()
    try:
        check_json_path(options.json)
        report = collect_report(not options.no_torch, options.with_hostname)
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print("stopped; nothing was written", file=sys.stderr)
        return 1
    try:
        if options.json:
            write_json(options.json, report)
    except OSError as error:
        parser.error(f"--json: could not write {options.json}: {error.strerror}")
    finally:  # a disk that is full loses no table
        print(format_report(report))
    for caveat in report["caveats"]:
        print(f"note: {caveat}", file=sys.stderr)
    return 0


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
