"""The readers of env_report against texts as the vendors' commands print them."""

from __future__ import annotations

import getpass
import json
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from testing_utils import write_file_tree

GIB = 1024**3


@pytest.fixture(scope="module")
def env(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool("env_report.py")


def put_command(folder: Path, name: str, body: str) -> None:
    """A command of that name in the folder, as a shell script."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_nvidia_smi_table_in_base_units(env: Any) -> None:
    """Memory is in MiB, clocks in MHz, power in watts; the reasons are a bit mask."""
    text = (
        "NVIDIA A100-SXM4-80GB, 81920, 400.00, 1410, 1593, 210, 29, 535.104.05, "
        "1593, 400.00, 400.00, 00000000:07:00.0, 0x0000000000000001\n"
        "NVIDIA A100-SXM4-80GB, 81920, 275.50, 1410, 1593, 1095, 83, 535.104.05, "
        "1512, 400.00, 500.00, 00000000:0A:00.0, 0x0000000000000844\n"
    )
    first, second = env.parse_nvidia_smi(text)
    assert first["memory_bytes"] == 80 * GIB
    assert first["clock_max_hertz"] == 1_410_000_000
    assert first["memory_clock_max_hertz"] == 1_593_000_000
    assert first["throttle_reasons"] == ["gpu_idle"]
    assert second["power_limit_watts"] == 275.5
    assert (second["power_limit_default_watts"], second["power_limit_max_watts"]) == (400, 500)
    assert second["memory_clock_hertz"] == 1_512_000_000
    assert second["temperature_celsius"] == 83
    # 0x844 = 0x800 (not in NVIDIA's list) + 0x40 + 0x4
    assert second["throttle_reasons"] == ["sw_power_cap", "hw_thermal_slowdown", "0x800"]
    assert second["driver"] == "535.104.05"


def test_what_nvidia_smi_does_not_know_is_null(env: Any) -> None:
    """[N/A] and [Not Supported] become null, never zero."""
    text = "GRID T4-8C, 8192, [N/A], [Not Supported], [N/A], [N/A], [N/A], 470.1, [N/A], [N/A], "
    text += "[N/A], [N/A], [N/A]\n"
    (gpu,) = env.parse_nvidia_smi(text)
    assert gpu["memory_bytes"] == 8 * GIB
    for key in (
        "power_limit_watts",
        "power_limit_max_watts",
        "clock_max_hertz",
        "memory_clock_hertz",
    ):
        assert gpu[key] is None
    for key in ("temperature_celsius", "throttle_reasons", "numa_node"):
        assert gpu[key] is None


def test_nvidia_smi_that_does_not_know_a_field(
    env: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A driver that refuses the new name of a field is asked by the old one."""
    put_command(
        tmp_path,
        "nvidia-smi",
        'case "$*" in *clocks_event_reasons*) exit 2;; esac\n'
        'echo "Tesla V100-SXM2-32GB, 32768, 300.00, 1530, 877, 135, 30, 450.80.02, 877, '
        '300.00, 300.00, 00000000:3B:00.0, 0x1"',
    )
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    caveats: list[str] = []
    (gpu,) = env.read_nvidia_smi(caveats)
    assert gpu["model"] == "Tesla V100-SXM2-32GB"
    assert gpu["throttle_reasons"] == ["gpu_idle"]
    assert caveats == []


def test_nvml_in_base_units(env: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """NVML's MHz and mW become hertz and watts; a question that fails is null and a caveat."""

    class NVMLError(Exception):
        """What NVML raises."""

    def refuse(*_arguments: Any) -> None:
        raise NVMLError("Not Supported")

    nvml = SimpleNamespace(
        NVMLError=NVMLError,
        NVML_CLOCK_SM=1,
        NVML_CLOCK_MEM=2,
        NVML_TEMPERATURE_GPU=0,
        NVML_DEVICE_MIG_ENABLE=1,
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlSystemGetDriverVersion=lambda: b"580.95.05",
        nvmlDeviceGetCount=lambda: 1,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda _handle: "NVIDIA H200",
        nvmlDeviceGetMemoryInfo=lambda _handle: SimpleNamespace(total=150_754_820_096),
        nvmlDeviceGetEnforcedPowerLimit=lambda _handle: 700_000,
        nvmlDeviceGetMaxClockInfo=lambda _handle, kind: {1: 1980, 2: 3201}[kind],
        nvmlDeviceGetClockInfo=lambda _handle, kind: {1: 345, 2: 3201}[kind],
        nvmlDeviceGetPowerManagementDefaultLimit=lambda _handle: 700_000,
        nvmlDeviceGetPowerManagementLimitConstraints=lambda _handle: [200_000, 750_000],
        nvmlDeviceGetPciInfo=lambda _handle: SimpleNamespace(busId=b"00000000:19:00.0"),
        nvmlDeviceGetTemperature=refuse,
        nvmlDeviceGetCurrentClocksThrottleReasons=lambda _handle: 5,
        nvmlDeviceGetMigMode=lambda _handle: [1, 1],
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    caveats: list[str] = []
    (gpu,) = env.read_nvml(caveats)
    assert (gpu["model"], gpu["driver"]) == ("NVIDIA H200", "580.95.05")
    assert gpu["power_limit_watts"] == 700
    assert (gpu["clock_max_hertz"], gpu["clock_hertz"]) == (1_980_000_000, 345_000_000)
    assert gpu["memory_clock_max_hertz"] == gpu["memory_clock_hertz"] == 3_201_000_000
    assert (gpu["power_limit_default_watts"], gpu["power_limit_max_watts"]) == (700, 750)
    assert gpu["throttle_reasons"] == ["gpu_idle", "sw_power_cap"]
    assert gpu["temperature_celsius"] is None
    assert "NVML gave no temperature of GPU 0: Not Supported" in caveats
    assert any("MIG" in caveat for caveat in caveats)


@pytest.mark.parametrize("wrapped", [False, True])
def test_amd_smi_in_both_shapes(env: Any, wrapped: bool) -> None:
    """A list of GPUs, or since ROCm 7 an object with the list inside, read alike."""
    entries = [
        {
            "gpu": 0,
            "asic": {"market_name": "AMD Instinct MI300X OAM", "asic_serial": "0x1234"},
            "driver": {"name": "amdgpu", "version": "6.10.5"},
            "vram": {"type": "HBM", "size": {"value": 196592, "unit": "MB"}},
            "limit": {
                "max_power": {"value": 750, "unit": "W"},
                "socket_power": {"value": 550, "unit": "W"},
            },
        },
        {"gpu": 1, "asic": {"market_name": "AMD Instinct MI300X OAM"}, "vram": "N/A"},
    ]
    text = json.dumps({"gpu_data": entries} if wrapped else entries)
    first, second = env.parse_amd_smi(text)
    assert first["model"] == "AMD Instinct MI300X OAM"
    assert first["memory_bytes"] == 196592 * 1024**2
    assert first["power_limit_watts"] == 550
    assert first["driver"] == "6.10.5"
    assert second["memory_bytes"] is None
    assert second["power_limit_watts"] is None
    assert "0x1234" not in json.dumps([first, second])


def test_rocm_smi_text_values(env: Any) -> None:
    """rocm-smi writes every value as text, and its spelling of the keys changed."""
    document = {
        "card0": {
            "Card series": "AMD Instinct MI250X",
            "VRAM Total Memory (B)": "68702699520",
            "Max Graphics Package Power (W)": "560.0",
            "Unique ID": "0xdeadbeef",
        },
        "card1": {"Card Series": "AMD Instinct MI250X", "VRAM Total Memory (B)": "N/A"},
        "system": {"Driver version": "5.16.9"},
    }
    first, second = env.parse_rocm_smi(json.dumps(document))
    assert first["memory_bytes"] == 68702699520
    assert first["power_limit_watts"] == 560
    assert second["model"] == "AMD Instinct MI250X"
    assert second["memory_bytes"] is None
    assert first["driver"] == second["driver"] == "5.16.9"
    assert "deadbeef" not in json.dumps([first, second])


def test_broken_vendor_json_is_a_caveat(
    env: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command whose JSON cannot be read is named, and the next command is asked."""
    put_command(tmp_path, "amd-smi", 'echo "WARNING: no permission"')
    put_command(tmp_path, "rocm-smi", """echo '{"card0": {"Card Series": "MI210"}}'""")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    caveats: list[str] = []
    (gpu,) = env.read_amd_commands(caveats)
    assert (gpu["model"], gpu["source"]) == ("MI210", "rocm-smi")
    assert caveats[0] == "amd-smi answered, but its JSON could not be read"


def test_power_cap_in_watts_or_microwatts(env: Any) -> None:
    """AMD's library gives the power cap in watts or in microwatts, by version."""
    assert env.scale_watts(750.0) == 750.0
    assert env.scale_watts(750_000_000.0) == 750.0
    assert env.scale_watts(None) is None


def test_cpu_topology_of_a_given_machine(env: Any, tmp_path: Path) -> None:
    """Two sockets of two cores with two threads each, on four NUMA nodes."""
    files = {}
    for thread in range(8):
        core = thread % 4
        files[f"cpu/cpu{thread}/topology/physical_package_id"] = f"{core // 2}\n"
        files[f"cpu/cpu{thread}/topology/core_id"] = f"{core % 2}\n"
    for node in range(4):
        files[f"node/node{node}/cpulist"] = f"{node},{node + 4}\n"
        files[f"node/node{node}/meminfo"] = f"Node {node} MemTotal:       1048576 kB\n"
    write_file_tree(tmp_path, files)
    cpu = env.read_cpu([], tmp_path)
    node = {"index": 3, "threads": 2, "memory_bytes": GIB}
    assert cpu["numa"][3] == node
    assert env.format_numa(cpu) == "4: each 2 threads and 1.0 GiB"
    shape = {key: cpu[key] for key in ("sockets", "cores", "threads", "numa_nodes")}
    assert shape == {"sockets": 2, "cores": 4, "threads": 8, "numa_nodes": 4}


@pytest.mark.parametrize(
    ("sizes", "is_said"),
    [([8, 8], False), ([8, 7.9], False), ([4, 4], True), ([16, 16], True), ([8, None], False)],
)
def test_memory_that_contradicts_itself_is_said(
    env: Any, sizes: list[float | None], is_said: bool
) -> None:
    """NUMA nodes that have far more or less memory than the machine are a caveat, as long as all
    of them tell."""
    nodes = [{"memory_bytes": None if size is None else int(size * GIB)} for size in sizes]
    said = env.find_memory_contradiction(16 * GIB, nodes)
    assert (said is not None) == is_said
    assert env.find_memory_contradiction(None, nodes) is None
    assert env.find_memory_contradiction(16 * GIB, []) is None


def test_unreadable_topology_is_null_with_a_caveat(env: Any, tmp_path: Path) -> None:
    """Without /sys the counts are null and a caveat says so."""
    caveats: list[str] = []
    cpu = env.read_cpu(caveats, tmp_path)
    assert cpu["sockets"] is None
    assert cpu["cores"] is None
    assert cpu["numa_nodes"] is None
    assert any("topology" in caveat for caveat in caveats)


@pytest.mark.parametrize(
    ("address", "node"),
    [
        ("00000000:19:00.0", 1),
        ("0000:19:00.0", 1),
        ("0000:20:00.0", None),
        ("0000:99:00.0", None),
        ("../../../etc", None),
        (None, None),
    ],
)
def test_numa_node_of_a_device(env: Any, tmp_path: Path, address: str, node: int | None) -> None:
    """The kernel tells on which NUMA node a PCI device hangs, -1 being its word for unknown."""
    nodes = {"0000:19:00.0/numa_node": "1\n", "0000:20:00.0/numa_node": "-1\n"}
    write_file_tree(tmp_path / "devices", nodes)
    assert env.read_device_node(address, tmp_path) == node


@pytest.mark.parametrize(
    ("flags", "architecture", "files", "expected"),
    [
        ("flags : fpu hypervisor lm", "x86_64", {"sys_vendor": "QEMU"}, "kvm"),
        ("flags : fpu hypervisor lm", "x86_64", {"sys_vendor": "Amazon EC2"}, "amazon"),
        ("flags : fpu hypervisor lm", "x86_64", {}, "unknown hypervisor"),
        ("flags : fpu lm", "x86_64", {"sys_vendor": "Amazon EC2"}, "none"),
        ("flags : fpu lm", "x86_64", {}, "none"),
        ("Features : fp asimd", "aarch64", {"product_name": "KVM Virtual Machine"}, "kvm"),
        ("Features : fp asimd", "aarch64", {}, None),
    ],
)
def test_virtual_machines_are_told_from_real_ones(
    env: Any,
    tmp_path: Path,
    flags: str,
    architecture: str,
    files: dict[str, str],
    expected: str | None,
) -> None:
    """A guest is named by what runs it; a cloud's real machine is none."""
    folder = tmp_path / "sys/class/dmi/id"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")
    assert env.find_virtualisation(flags, architecture, tmp_path) == expected


def test_amdsmi_in_base_units(env: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks in MHz become hertz, caps in microwatts watts, and active violations have names."""
    amdsmi = SimpleNamespace(
        AmdSmiMemoryType=SimpleNamespace(VRAM=0),
        AmdSmiClkType=SimpleNamespace(GFX=0, MEM=4),
        AmdSmiTemperatureType=SimpleNamespace(HOTSPOT=1),
        AmdSmiTemperatureMetric=SimpleNamespace(CURRENT=0),
        amdsmi_init=lambda: None,
        amdsmi_shut_down=lambda: None,
        amdsmi_get_processor_handles=lambda: [0],
        amdsmi_get_gpu_asic_info=lambda _handle: {"market_name": "AMD Instinct MI300X"},
        amdsmi_get_gpu_memory_total=lambda _handle, _kind: 206141652992,
        amdsmi_get_power_cap_info=lambda _handle: {
            "power_cap": 550_000_000,
            "default_power_cap": 750_000_000,
            "max_power_cap": 750_000_000,
        },
        amdsmi_get_clock_info=lambda _handle, kind: {
            0: {"clk": 132, "max_clk": 2100},
            4: {"clk": 900, "max_clk": 1300},
        }[kind],
        amdsmi_get_temp_metric=lambda _handle, _type, _metric: 43,
        amdsmi_get_violation_status=lambda _handle: {
            "active_ppt_pwr": 1,
            "active_socket_thrm": 0,
            "active_hbm_thrm": "N/A",
        },
        amdsmi_get_gpu_driver_info=lambda _handle: {"driver_version": "6.10.5"},
        amdsmi_get_gpu_device_bdf=lambda _handle: "0000:c1:00.0",
    )
    monkeypatch.setitem(sys.modules, "amdsmi", amdsmi)
    caveats: list[str] = []
    (gpu,) = env.read_amdsmi(caveats)
    assert caveats == []
    assert (gpu["power_limit_watts"], gpu["power_limit_default_watts"]) == (550, 750)
    assert (gpu["clock_hertz"], gpu["clock_max_hertz"]) == (132_000_000, 2_100_000_000)
    assert (gpu["memory_clock_hertz"], gpu["temperature_celsius"]) == (900_000_000, 43)
    assert gpu["throttle_reasons"] == ["power_cap"]
    assert env.name_amd_violations({"active_ppt_pwr": "N/A"}) is None


def test_instruction_sets_are_read_weakest_first(env: Any) -> None:
    """What makes two processors of one name unlike is told, on x86 as on Arm."""
    x86 = "processor : 0\nflags\t\t: fpu amx_bf16 avx2 hypervisor avx512f amx_tile sse4_2\n"
    assert env.parse_instruction_sets(x86) == ["sse4_2", "avx2", "avx512f", "amx_bf16"]
    assert env.parse_instruction_sets("Features\t: fp asimd sve2 bf16 sve\n") == (
        ["asimd", "bf16", "sve", "sve2"]
    )
    assert env.parse_instruction_sets("model name : x\nflags : fpu\n") is None
    assert env.parse_instruction_sets("") is None


def test_label_is_a_short_slug(env: Any) -> None:
    """Accelerators give the label with their count, and the processor where there is none."""
    cpu = {"architecture": "x86_64", "instruction_sets": None, "cores": 2, "threads": 2}
    fast = cpu | {"instruction_sets": ["avx2", "amx_bf16"]}
    gpu = {"model": "NVIDIA H100 80GB HBM3", "vendor": "nvidia"}
    assert env.make_label(cpu, []) == "cpu-x86_64-2core"
    assert env.make_label(fast, []) == "cpu-x86_64-amx_bf16-2core"
    assert env.make_label(cpu, [gpu] * 8) == "nvidia-h100-80gb-hbm3-8x"
    assert env.make_label(cpu, [{"model": None, "vendor": "amd"}]) == "amd-1x"


def test_slurm_shape_has_no_names(env: Any) -> None:
    """The shape of a job is read, and who runs it under which name is not."""
    environ = {
        "SLURM_JOB_ID": "4711",
        "SLURM_JOB_NAME": "secret-project",
        "SLURM_JOB_USER": "alice",
        "SLURM_JOB_NODELIST": "gpu[01-02]",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_NTASKS": "16",
        "SLURM_TASKS_PER_NODE": "8(x2)",
        "SLURM_GPUS_ON_NODE": "8",
        "SLURM_MEM_PER_NODE": "2048",
    }
    slurm = env.read_slurm(environ)
    assert (slurm["nodes"], slurm["tasks"], slurm["gpus_on_node"]) == (2, 16, 8)
    assert slurm["tasks_per_node"] == "8(x2)"
    assert slurm["memory_per_node_bytes"] == 2 * GIB
    for name in ("4711", "secret", "alice", "gpu["):
        assert name not in json.dumps(slurm)
    assert env.read_slurm({}) is None


@pytest.mark.parametrize(
    ("environ", "file", "expected"),
    [
        ({}, None, None),
        ({}, ".dockerenv", "docker"),
        ({}, "run/.containerenv", "podman"),
        ({"container": "lxc"}, None, "lxc"),
        ({"APPTAINER_CONTAINER": "/home/alice/x.sif"}, ".dockerenv", "apptainer"),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, ".dockerenv", "kubernetes"),
        ({"container": "/home/alice"}, None, None),
    ],
)
def test_container_by_its_signs(
    env: Any, tmp_path: Path, environ: dict[str, str], file: str | None, expected: str | None
) -> None:
    """The kind of container is named, and never a path or an address."""
    if file:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert env.find_container(environ, tmp_path) == expected


def test_torch_version_file(env: Any) -> None:
    """CUDA and ROCm of a torch are read from its version file, in both spellings."""
    text = "from typing import Optional\n__version__ = '2.9.0'\ncuda: Optional[str] = '12.8'\n"
    values = env.parse_torch_version(text + "hip: Optional[str] = None\n")
    assert (values["__version__"], values["cuda"], values["hip"]) == ("2.9.0", "12.8", None)


def test_report_names_nobody(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Neither host nor user is in the report, and the host is there when it is asked for."""
    path = tmp_path / "facts.json"
    done = run_tool("env_report.py", "--no-torch", "--json", str(path))
    assert done.returncode == 0, done.stderr
    report = read_json(path)
    assert set(report) == {"tool", "version", "method", "machine", "software", "caveats"}
    assert "hostname" not in report["machine"]
    values = [v for v in report["machine"].values() if isinstance(v, str)]
    values += [v for v in report["software"].values() if isinstance(v, str)]
    assert socket.gethostname() not in values
    assert getpass.getuser() not in values
    named = run_tool("env_report.py", "--no-torch", "--with-hostname")
    assert socket.gethostname() in named.stdout


def test_facts_of_this_machine(env: Any) -> None:
    """What is read here agrees with what Python knows of this machine."""
    machine = env.collect_report(with_torch=False)["machine"]
    assert machine["cpu"]["threads"] >= len(os.sched_getaffinity(0))
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert machine["memory_bytes"] == pages
    assert machine["kernel"] == os.uname().release


def test_missing_torch_is_said(
    run_tool: Callable[..., Any], torch_trap: dict[str, str], tmp_path: Path
) -> None:
    """A torch that does not import is a caveat with its reason, not a failure."""
    done = run_tool("env_report.py", environ=torch_trap)
    assert done.returncode == 0
    assert "torch is installed but does not import: torch was imported" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.torch
def test_torch_version_without_importing_it(env: Any) -> None:
    """The version read from the file is the one that torch tells of itself."""
    import torch

    build = env.read_torch_build()
    assert build["__version__"] == str(torch.__version__)
    assert build.get("cuda") == torch.version.cuda
    assert build.get("hip") == torch.version.hip
