#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which machine and which software made these numbers?

Every record of the book includes this report. CPU, memory and NUMA nodes come from /proc and /sys
(Linux), NVIDIA GPUs from nvidia-smi, AMD GPUs from amd-smi (which does not list clocks), other
accelerators from torch. CUDA and ROCm are those that the installed torch was built with.

Units are bytes, hertz, watts, degrees Celsius. A fact that could not be read is null. Host name,
user, serial numbers, UUIDs, addresses and job names are left out; `--with-hostname` adds the first.

## How to run

    python env_report.py --json facts.json
    srun --ntasks-per-node=1 python env_report.py --with-hostname
    pdsh -w node[01-08] python /shared/env_report.py --with-hostname

## A good answer

Every accelerator that you paid for, with the same model, memory, power limit and driver; no
throttle reason but gpu_idle on an idle machine; no note that you cannot explain.

Exit status: 0 done; 1 the demo found a wrong fact; 2 usage error.
"""

import contextlib
import csv
import importlib
import importlib.util
import json
import os
import platform
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
from kit.cli import Parser, start
from kit.files import read_text
from kit.nvml import THROTTLE_REASONS
from kit.report import check_writable, format_table, write_json
from kit.topology import parse_cpus

__version__ = "0.3.0"

PROFILES = {"demo": ["--demo"], "full": []}
GIB, MIB, MEGAHERTZ = 1024**3, 1024**2, 1e6
INSTRUCTION_SETS = """sse4_2 avx avx2 avx512f avx512_vnni avx_vnni avx512_bf16 avx512_fp16 amx_int8
amx_bf16 amx_fp16 asimd asimdhp asimddp bf16 i8mm sve sve2 svebf16 sme sme2""".split()
"""Weakest first: each multiplies more numbers per instruction than those before it."""
NVIDIA_SMI = {
    "model": ("name", None), "driver": ("driver_version", None),
    "memory_bytes": ("memory.total", MIB), "power_limit_watts": ("enforced.power.limit", 1.0),
    "power_limit_default_watts": ("power.default_limit", 1.0),
    "power_limit_max_watts": ("power.max_limit", 1.0),
    "clock_max_hertz": ("clocks.max.sm", MEGAHERTZ), "clock_hertz": ("clocks.sm", MEGAHERTZ),
    "memory_clock_max_hertz": ("clocks.max.mem", MEGAHERTZ),
    "memory_clock_hertz": ("clocks.mem", MEGAHERTZ),
    "temperature_celsius": ("temperature.gpu", 1.0),
    "throttle_reasons": ("clocks_event_reasons.active", None),
}  # fmt: skip
"""Fact -> field of nvidia-smi, and the factor to base units; None for words."""
HYPERVISORS = {"qemu": "kvm", "openstack": "kvm", "vmware,": "vmware", "microsoft": "hyper-v",
               "amazon": "amazon", "google": "google", "xen": "xen"}  # fmt: skip
"""The vendor of a virtual machine, and what it runs on."""
SLURM = {
    "nodes": ("SLURM_JOB_NUM_NODES", 1), "tasks": ("SLURM_NTASKS", 1),
    "cpus_per_task": ("SLURM_CPUS_PER_TASK", 1), "cpus_on_node": ("SLURM_CPUS_ON_NODE", 1),
    "gpus_on_node": ("SLURM_GPUS_ON_NODE", 1), "memory_per_node_bytes": ("SLURM_MEM_PER_NODE", MIB),
    "memory_per_cpu_bytes": ("SLURM_MEM_PER_CPU", MIB),
}  # fmt: skip
VENDORS = {"cuda": "nvidia", "xpu": "intel", "hpu": "intel", "mps": "apple", "npu": "huawei"}

Facts = dict[str, Any]


def run_command(*command: str) -> str | None:
    """What a command prints, None where it is missing, fails or hangs."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def read_number(value: Any, factor: float = 1.0) -> float | int | None:
    """The first number in `700.00 W` in base units, None for `[N/A]`."""
    found = re.search(r"-?\d+(?:\.\d+)?", str(value))
    if found is None:
        return None
    return float(found[0]) if factor == 1.0 else round(float(found[0]) * factor)


def read_kib(path: Path) -> int | None:
    """MemTotal of a meminfo file in bytes; its kB are 1024 bytes."""
    found = re.search(r"MemTotal:\s+(\d+) kB", read_text(path))
    return int(found[1]) * 1024 if found else None


def read_cpu(notes: list[str], cpuinfo: str, sysfs: Path = Path("/sys/devices/system")) -> Facts:
    """Model, architecture, instruction sets, topology and NUMA nodes."""
    cpus = [path for path in sysfs.glob("cpu/cpu[0-9]*") if (path / "topology").is_dir()]
    names = ("physical_package_id", "die_id", "core_id")
    cores = {tuple(read_text(cpu / "topology" / name) or "0" for name in names) for cpu in cpus}
    threads = len(cpus) or os.cpu_count()
    nodes = []
    for folder in sorted(sysfs.glob("node/node[0-9]*"), key=lambda path: int(path.name[4:])):
        near, memory = len(parse_cpus(read_text(folder / "cpulist"))), read_kib(folder / "meminfo")
        nodes.append({"index": int(folder.name[4:]), "threads": near, "memory_bytes": memory})
    governors = {read_text(path) for path in sysfs.glob("cpu/cpu[0-9]*/cpufreq/scaling_governor")}
    found = re.search(r"^(?:model name|cpu model|Model|Processor|cpu)\s*:\s*(.+)$", cpuinfo, re.M)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", cpuinfo, re.M)
    known = set(flags[1].split()) if flags else set()
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else threads
    if threads and allowed and allowed < threads:
        notes.append(f"this process may use {allowed} of {threads} threads (CPU affinity)")
    return {
        "model": found[1].strip() if found else platform.processor() or None,
        "architecture": platform.machine(),
        "instruction_sets": [name for name in INSTRUCTION_SETS if name in known] or None,
        "sockets": len({core[0] for core in cores}) or None,
        "cores": len(cores) or None,
        "threads": threads,
        "numa_nodes": len(nodes) or None,
        "numa": nodes,
        "governor": ", ".join(sorted(governors)) or None,
    }


def read_nvidia(ask: Callable[..., str | None] = run_command) -> list[Facts]:
    """NVIDIA GPUs by nvidia-smi."""
    fields = ",".join(field for field, _ in NVIDIA_SMI.values())
    text = ask("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits") or ""
    found = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        if len(row) != len(NVIDIA_SMI):  # `No devices were found`
            continue
        cells = [None if cell.startswith("[") else cell.strip() or None for cell in row]
        facts = {
            name: read_number(cell, factor) if factor else cell
            for (name, (_, factor)), cell in zip(NVIDIA_SMI.items(), cells, strict=True)
        }
        if mask := facts["throttle_reasons"]:  # such as 0x0000000000000004
            reasons = enumerate(THROTTLE_REASONS)
            facts["throttle_reasons"] = [name for bit, name in reasons if int(mask, 16) >> bit & 1]
        found.append({"vendor": "nvidia", **facts, "source": "nvidia-smi"})
    return found


def read_amd(notes: list[str], ask: Callable[..., str | None] = run_command) -> list[Facts]:
    """AMD GPUs by amd-smi: a list, or since ROCm 7 a list in `gpu_data`."""
    try:
        document = json.loads(ask("amd-smi", "static", "--json") or "[]")
    except ValueError:
        notes.append("amd-smi answered, but its JSON could not be read")
        return []

    def get(entry: Any, *path: str) -> Any:
        for name in path:
            entry = entry.get(name) if isinstance(entry, dict) else None
        return entry.get("value") if isinstance(entry, dict) else entry

    found = []
    for entry in document["gpu_data"] if isinstance(document, dict) else document:
        power = get(entry, "limit", "socket_power") or get(entry, "limit", "max_power")
        facts = {
            "vendor": "amd",
            **dict.fromkeys(NVIDIA_SMI),
            "model": get(entry, "asic", "market_name"),
            "memory_bytes": read_number(get(entry, "vram", "size"), MIB),
            "power_limit_watts": read_number(power),
            "driver": get(entry, "driver", "version"),
            "source": "amd-smi",
        }
        found.append(facts)
    return found


def read_torch_accelerators(torch: Any, notes: list[str]) -> list[Facts]:
    """What torch knows of its accelerators: model and memory, no clocks, no limits."""
    if not torch.accelerator.is_available():
        return []
    kind = torch.accelerator.current_accelerator().type
    notes.append(f"{kind} devices were read through torch: no clocks and no power limits")
    vendor = "amd" if torch.version.hip else VENDORS.get(kind, kind)
    found = []
    for index in range(torch.accelerator.device_count()):
        facts = {"vendor": vendor, **dict.fromkeys(NVIDIA_SMI), "model": kind, "source": "torch"}
        with contextlib.suppress(AttributeError, RuntimeError):  # mps has no properties
            properties = torch.get_device_module(kind).get_device_properties(index)
            facts |= {"model": properties.name, "memory_bytes": properties.total_memory}
        found.append(facts)
    return found


def read_software(torch: Any, accelerators: Sequence[Facts], notes: list[str]) -> Facts:
    """Versions of Python, of torch, its CUDA or ROCm and NCCL or RCCL, and of the driver."""
    spec = importlib.util.find_spec("torch")
    source = read_text(Path(spec.origin).parent / "version.py") if spec and spec.origin else ""
    build = dict(re.findall(r"^(\w+)\b[^=\n]*=\s*['\"](.+?)['\"]", source, re.M))
    nccl = None
    if not build:
        notes.append("torch is not installed for this Python: no versions of CUDA, ROCm and NCCL")
    elif torch is not None:
        with contextlib.suppress(AttributeError, RuntimeError):  # a build without NCCL
            nccl = ".".join(map(str, torch.cuda.nccl.version()))
    drivers = {accelerator["driver"] for accelerator in accelerators} - {None}
    for module in ("nvidia", "amdgpu"):
        drivers = drivers or {read_text(Path(f"/sys/module/{module}/version"))} - {""}
    return {
        "python": platform.python_version(),
        "torch": build.get("__version__"),
        "cuda": build.get("cuda"),
        "rocm": build.get("hip"),
        "nccl": nccl,
        "driver": ", ".join(sorted(drivers)) or None,
    }


def find_container(environ: Mapping[str, str], root: Path = Path("/")) -> str | None:
    """The kind of container that this process runs in, None where no sign of one is seen."""
    signs = {
        "apptainer": environ.get("APPTAINER_CONTAINER") or environ.get("SINGULARITY_CONTAINER"),
        "kubernetes": environ.get("KUBERNETES_SERVICE_HOST"),
        "podman": (root / "run/.containerenv").exists(),
        "docker": (root / ".dockerenv").exists(),
    }
    return next((name for name, is_seen in signs.items() if is_seen), None)


def find_virtualisation(cpuinfo: str, root: Path = Path("/")) -> str | None:
    """What the machine is virtual by, `none` for a real one, None where that is not known."""
    if not (flags := re.search(r"^flags\s*:.*$", cpuinfo, re.M)):
        return None  # not an x86 CPU
    if not re.search(r"\bhypervisor\b", flags[0]):
        return "none"  # also with a vendor like Amazon: the CPU itself marks a guest
    vendor = read_text(root / "sys/class/dmi/id/sys_vendor")
    return HYPERVISORS.get(vendor.lower().partition(" ")[0], "unknown hypervisor")


def read_slurm(environ: Mapping[str, str]) -> Facts | None:
    """The shape of the Slurm job, without names, None outside of a job."""
    if "SLURM_JOB_ID" not in environ:
        return None
    facts: Facts = {"tasks_per_node": environ.get("SLURM_TASKS_PER_NODE")}
    for name, (variable, factor) in SLURM.items():
        value = environ.get(variable, "")
        facts[name] = int(value) * factor if value.isdigit() else None
    return facts


def make_label(cpu: Facts, accelerators: Sequence[Facts]) -> str:
    """A short slug: `nvidia-h100-80gb-hbm3-8x`, or `cpu-x86_64-avx2-2core` without accelerators."""
    models = [str(one["model"] or one["vendor"]).lower() for one in accelerators]
    slugs = Counter(re.sub(r"[^a-z0-9]+", "-", m).strip("-") or "accelerator" for m in models)
    if slugs:
        return "-".join(f"{slug}-{count}x" for slug, count in slugs.items())
    architecture = re.sub(r"[^a-z0-9_]+", "-", str(cpu["architecture"]).lower())
    strongest = f"-{cpu['instruction_sets'][-1]}" if cpu["instruction_sets"] else ""
    return f"cpu-{architecture}{strongest}-{cpu['cores'] or cpu['threads'] or 0}core"


def collect_report(with_hostname: bool) -> Facts:
    """The whole report, ready for JSON."""
    notes: list[str] = []
    cpuinfo = read_text(Path("/proc/cpuinfo"))
    torch = None
    try:
        torch = importlib.import_module("torch")
    except Exception as error:  # a broken install raises OSError, ImportError, AttributeError
        if importlib.util.find_spec("torch"):
            notes.append(f"torch is installed but does not import: {error}")
    cpu = read_cpu(notes, cpuinfo)
    memory = read_kib(Path("/proc/meminfo"))
    limit = read_text(Path("/sys/fs/cgroup/memory.max"))
    if memory and limit.isdigit() and int(limit) < memory:
        notes.append(f"the cgroup allows {int(limit) / GIB:.1f} GiB of main memory")
    accelerators = read_nvidia() + read_amd(notes)
    if torch is not None and not accelerators:
        accelerators = read_torch_accelerators(torch, notes)
    if not accelerators:
        notes.append("no accelerator was found")
    release = re.search(r'^PRETTY_NAME="?([^"\n]+)', read_text(Path("/etc/os-release")), re.M)
    machine: Facts = {
        "label": make_label(cpu, accelerators),
        "cpu": cpu,
        "memory_bytes": memory,
        "accelerators": accelerators,
        "kernel": platform.release() or None,
        "os": release[1] if release else platform.system() or None,
        "container": find_container(os.environ),
        "virtualisation": find_virtualisation(cpuinfo),
        "slurm": read_slurm(os.environ),
    }
    if with_hostname:
        machine["hostname"] = socket.gethostname()
    software = read_software(torch, accelerators, notes)
    head = {"tool": "env_report", "version": __version__, "method": 1}
    return {**head, "machine": machine, "software": software, "caveats": list(dict.fromkeys(notes))}


def print_report(report: Facts) -> None:
    """Print a table of facts and values, equal accelerators in one row."""
    machine = report["machine"]
    shown = []
    for part in (machine, machine["cpu"], machine["slurm"] or {}, report["software"]):
        for name, value in part.items():
            fact = name.replace("_", " ")
            if name == "accelerators":
                names = ("model", "memory_bytes", "power_limit_watts", "clock_max_hertz",
                         "throttle_reasons")  # fmt: skip
                lines = Counter(", ".join(str(one[n]) for n in names) for one in value)
                shown += [(fact, f"{count} x {line}") for line, count in lines.items()]
            elif name.endswith("bytes") and value:
                shown.append((fact.removesuffix(" bytes"), f"{value / GIB:.1f} GiB"))
            elif value and not isinstance(value, dict) and name != "numa":
                shown.append((fact, ", ".join(value) if isinstance(value, list) else value))
    print(format_table(("fact", "value"), shown))


def build_parser() -> Parser:
    parser = Parser(__doc__, "env_report", __version__, demo=[])
    parser.add_argument("--with-hostname", action="store_true", help="add the host name")
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    path = check_writable("--json", options.json) if options.json else None
    report = collect_report(options.with_hostname)
    print_report(report)
    for note in report["caveats"]:
        print(f"note: {note}", file=sys.stderr)
    if path:
        write_json(path, report)
    if options.demo and report["machine"]["memory_bytes"]:
        pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return int(report["machine"]["memory_bytes"] != pages)
    return 0


if __name__ == "__main__":
    start(main)
