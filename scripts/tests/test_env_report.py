"""env_report: the facts as the vendors' commands and the kernel give them, and nobody's name."""

from __future__ import annotations

import getpass
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from testing_utils import write_file_tree

TOOL = "env_report.py"

GIB = 1024**3


def answer(**values: str) -> Callable[..., str]:
    """A stand-in for nvidia-smi that knows these fields (with `_` for `.`)."""

    def ask(_program: str, query: str, *_: str) -> str:
        fields = query.removeprefix("--query-gpu=").split(",")
        return ", ".join(values.get(field.replace(".", "_"), "[N/A]") for field in fields)

    return ask


def test_nvidia_smi_in_base_units(module: Any) -> None:
    """Memory is in MiB, clocks in MHz, power in watts; the reasons are a bit mask."""
    ask = answer(
        name="NVIDIA A100-SXM4-80GB", memory_total="81920", enforced_power_limit="275.50",
        clocks_max_sm="1410", clocks_mem="1512", driver_version="535.104.05",
        clocks_event_reasons_active="0x0000000000000044",
    )  # fmt: skip
    facts = {
        "model": "NVIDIA A100-SXM4-80GB", "memory_bytes": 80 * GIB, "power_limit_watts": 275.5,
        "clock_max_hertz": 1_410_000_000, "memory_clock_hertz": 1_512_000_000,
        "driver": "535.104.05",
        # 0x44 = 0x40 + 0x4
        "throttle_reasons": ["sw_power_cap", "hw_thermal_slowdown"],
    }  # fmt: skip
    [gpu] = module.read_nvidia(ask)
    assert gpu.items() >= facts.items()
    assert gpu["temperature_celsius"] is None  # [N/A], never zero
    assert module.read_nvidia(lambda *_: "No devices were found") == []


@pytest.mark.parametrize("wrapped", [False, True])
def test_amd_smi_in_both_shapes(module: Any, wrapped: bool) -> None:
    """A list of GPUs, or since ROCm 7 an object with the list inside."""
    first = {
        "asic": {"market_name": "AMD Instinct MI300X OAM", "asic_serial": "0x1234"},
        "driver": {"name": "amdgpu", "version": "6.10.5"},
        "vram": {"type": "HBM", "size": {"value": 196592, "unit": "MB"}},
        "limit": {"max_power": {"value": 750, "unit": "W"}, "socket_power": {"value": 550}},
    }
    entries = [first, {"asic": {"market_name": "AMD Instinct MI300X OAM"}, "vram": "N/A"}]
    text = json.dumps({"gpu_data": entries} if wrapped else entries)
    one, other = module.read_amd([], lambda *_: text)
    assert (one["model"], one["driver"]) == ("AMD Instinct MI300X OAM", "6.10.5")
    assert (one["memory_bytes"], one["power_limit_watts"]) == (196592 * 1024**2, 550)
    assert (other["memory_bytes"], other["power_limit_watts"]) == (None, None)
    assert "0x1234" not in json.dumps([one, other])
    notes: list[str] = []
    assert module.read_amd(notes, lambda *_: "WARNING: no permission") == []
    assert notes == ["amd-smi answered, but its JSON could not be read"]


def test_cpu_topology(module: Any, tmp_path: Path) -> None:
    """Two sockets of two cores with two threads each, on four NUMA nodes of 1 GiB."""
    files = {}
    for thread in range(8):
        core = thread % 4
        files[f"cpu/cpu{thread}/topology/physical_package_id"] = f"{core // 2}\n"
        files[f"cpu/cpu{thread}/topology/core_id"] = f"{core % 2}\n"
    for node in range(4):
        files[f"node/node{node}/cpulist"] = f"{node},{node + 4}\n"
        files[f"node/node{node}/meminfo"] = f"Node {node} MemTotal:       1048576 kB\n"
    write_file_tree(tmp_path, files)
    cpuinfo = "model name : X\nflags\t\t: fpu amx_bf16 avx2 hypervisor avx512f sse4_2\n"
    cpu = module.read_cpu([], cpuinfo, tmp_path)
    assert cpu["numa"][3] == {"index": 3, "threads": 2, "memory_bytes": GIB}
    shape = [cpu[key] for key in ("sockets", "cores", "threads", "numa_nodes")]
    assert shape == [2, 4, 8, 4]
    assert (cpu["model"], cpu["instruction_sets"]) == (
        "X",
        ["sse4_2", "avx2", "avx512f", "amx_bf16"],
    )


def test_virtual_machines_are_told_from_real_ones(module: Any, tmp_path: Path) -> None:
    """A guest is named by what runs it; a cloud's bare-metal machine is not a guest."""
    write_file_tree(tmp_path / "sys/class/dmi/id", {"sys_vendor": "QEMU"})
    assert module.find_virtualisation("flags : fpu hypervisor lm", tmp_path) == "kvm"
    assert module.find_virtualisation("Features : fp asimd", tmp_path) is None
    write_file_tree(tmp_path / "sys/class/dmi/id", {"sys_vendor": "Amazon EC2"})
    assert module.find_virtualisation("flags : fpu lm", tmp_path) == "none"


def test_label_is_a_short_slug(module: Any) -> None:
    """Accelerators with their count, and the CPU where there is none."""
    cpu = {"architecture": "x86_64", "instruction_sets": None, "cores": 2, "threads": 2}
    gpu = {"model": "NVIDIA H100 80GB HBM3", "vendor": "nvidia"}
    assert module.make_label(cpu, []) == "cpu-x86_64-2core"
    fast = cpu | {"instruction_sets": ["avx2", "amx_bf16"]}
    assert module.make_label(fast, []) == "cpu-x86_64-amx_bf16-2core"
    assert module.make_label(cpu, [gpu] * 8) == "nvidia-h100-80gb-hbm3-8x"
    assert module.make_label(cpu, [{"model": None, "vendor": "amd"}]) == "amd-1x"


def test_slurm_shape_has_no_names(module: Any) -> None:
    """The shape of a job is read, and who runs it under which name is not."""
    environ = {
        "SLURM_JOB_ID": "4711", "SLURM_JOB_NAME": "secret", "SLURM_JOB_NODELIST": "gpu[01-02]",
        "SLURM_NTASKS": "16", "SLURM_TASKS_PER_NODE": "8(x2)", "SLURM_MEM_PER_NODE": "2048",
    }  # fmt: skip
    slurm = module.read_slurm(environ)
    assert (slurm["tasks"], slurm["tasks_per_node"]) == (16, "8(x2)")
    assert slurm["memory_per_node_bytes"] == 2 * GIB
    assert not any(name in json.dumps(slurm) for name in ("4711", "secret", "gpu["))
    assert module.read_slurm({}) is None


def test_container_by_its_signs(module: Any, tmp_path: Path) -> None:
    """The kind of container is named, and never a path or an address."""
    assert module.find_container({}, tmp_path) is None
    write_file_tree(tmp_path, {".dockerenv": ""})
    assert module.find_container({}, tmp_path) == "docker"
    apptainer = {"APPTAINER_CONTAINER": "/home/alice/x.sif"}
    assert module.find_container(apptainer, tmp_path) == "apptainer"


@pytest.mark.torch
def test_torch_version_without_importing_it(module: Any) -> None:
    """The version read from the file is the one that torch gives."""
    import torch

    software = module.read_software(None, [], [])
    assert software["torch"] == str(torch.__version__)
    assert (software["cuda"], software["rocm"]) == (torch.version.cuda, torch.version.hip)


def test_report_names_nobody(run_tool: Any, tmp_path: Path) -> None:
    """Neither host nor user is in the report, and the host is there when it is asked for."""
    path = tmp_path / "facts.json"
    done = run_tool("env_report.py", "--json", str(path))
    assert done.returncode == 0, done.stderr
    report = json.loads(path.read_text())
    values = {**report["machine"], **report["software"]}.values()
    assert not {socket.gethostname(), getpass.getuser()} & {v for v in values if isinstance(v, str)}
    named = run_tool("env_report.py", "--with-hostname")
    assert socket.gethostname() in named.stdout
