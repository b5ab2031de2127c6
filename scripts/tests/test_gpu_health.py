"""gpu_health: the output of the vendors' commands is read, and what is wrong is named."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import pytest

TOOL = "compute/gpu_health.py"
FIXTURES = Path(__file__).resolve().parent / "fixtures" / "gpu_health"


SXID = """
[9.1] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): {0}, {1}, Link 46 text (First)
[9.1] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): {0}, Severity 0 Engine instance 46
"""


def judge(module: Any, *texts: str) -> list[dict[str, Any]]:
    """The judged GPUs of nodes."""
    rows = [
        row for number, text in enumerate(texts) for row in module.parse_node(text, f"n{number}")
    ]
    module.judge_gpus(rows)
    return rows


NVIDIA = [
    {"model": "NVIDIA H100 80GB HBM3", "vbios": "96.00.89.00.01", "driver": "550.90.12",
     "pcie_generation_max": 5, "pcie_width": 16, "nvlinks_up": 18, "throttle_reasons": "idle",
     # No Xid is not the same as no log; an idle GPU lowers its PCIe generation.
     "power_limit_watts": 700.0, "xids": "", "verdict": "ok"},
    {"remap_pending": True, "remapped_rows_correctable": 1, "banks_without_spares": 0,
     "ecc_correctable_volatile": 177, "xids": "63", "verdict": "fault",
     "reasons": "17 of 18 NVLinks are up; remapped rows wait for a reset; 12 NVLink CRC errors; "
     "Xid 63 in the kernel log"},
]  # fmt: skip
AMD = [
    {"model": "AMD Instinct MI300X", "vbios": "022.040.003.041.000001", "pcie_width": 16,
     "power_limit_watts": 750, "ecc_uncorrectable_volatile": 0, "verdict": "ok"},
    {"pcie_width": 8, "verdict": "fault", "throttle_reasons": "socket_thermal", "reasons":
     "PCIe x8 of x16: reseat it, or look at its riser; clocks lowered: socket_thermal"},
]  # fmt: skip
ROCM = [
    {"vbios": "113-M3000100-102", "pcie_replays": 0, "xgmi_errors": 0, "verdict": "ok"},
    {"xgmi_errors": 2, "verdict": "watch"},
]


@pytest.mark.parametrize(
    ("name", "expected"), [("nvidia_q", NVIDIA), ("amd_smi", AMD), ("rocm_smi", ROCM)]
)
def test_saved_output(module: Any, name: str, expected: list[dict[str, Any]]) -> None:
    """A good and a bad GPU of each program; amd-smi's static and metric are merged."""
    rows = judge(module, (FIXTURES / f"{name}.txt").read_text(encoding="utf-8"))
    assert [row | facts for row, facts in zip(rows, expected, strict=True)] == rows


@pytest.mark.parametrize(
    ("path", "value", "verdict", "reason"),
    [
        ("Remapped Rows/Remapping Failure Occurred", "Yes", "fault", "could not be remapped"),
        ("Clocks Event Reasons/HW Thermal Slowdown", "Active", "watch", "hw_thermal"),
        ("GPU Power Readings/Current Power Limit", "500 W", "odd", "limit watts 500, most have"),
        ("Product Name", "Other GPU", "odd", "model Other GPU, most have"),
        ("PCI/GPU Link Info/Link Width/Current", "8x", "fault", "PCIe x8 of x16"),
        ("Remapped Rows/Pending", "Yes", "reset", "remapped rows wait"),
    ],
)
def test_one_gpu_of_eight(module: Any, path: str, value: str, verdict: str, reason: str) -> None:
    """One change of the last GPU is found there, and nowhere else."""
    assert path in module.DEMO_GPU
    rows = judge(module, module.make_demo(8, {7: {path: value}}))
    assert [row["verdict"] for row in rows] == ["ok"] * 7 + [verdict]
    assert reason in rows[-1]["reasons"]


def test_no_nvlink_is_up(module: Any) -> None:
    """A GPU that is cut off from NVLink is a fault. Where none of a node has a link up, as on
    boards without bridges, nothing is wrong unless most GPUs of the model have links."""
    good = module.make_demo(8, {})
    cut_off = re.sub(r"( Link \d+:) 26.562 GB/s", r"\1 <inactive>", good)
    last = good.index("GPU 7: ")
    rows = judge(module, good[:last] + cut_off[cut_off.index("GPU 7: ") :])
    assert [row["verdict"] for row in rows] == ["ok"] * 7 + ["fault"]
    assert rows[-1]["reasons"].startswith("0 of 18 NVLinks are up")
    assert {row["verdict"] for row in judge(module, cut_off)} == {"ok"}
    rows = judge(module, good, good, cut_off)
    assert [row["verdict"] for row in rows] == ["ok"] * 16 + ["odd"] * 8
    assert rows[-1]["reasons"] == "nvlinks up 0, most have 18"


def test_half_and_half_is_nobodys_fault(module: Any) -> None:
    """Only what more than half of the GPUs have is usual."""
    other = module.make_demo(2, {}).replace("96.00.00.00.01", "1")
    assert {row["verdict"] for row in judge(module, module.make_demo(2, {}), other)} == {"ok"}


def test_a_lost_gpu_is_a_row(module: Any) -> None:
    """A GPU that fell off the bus is not listed by nvidia-smi, but the kernel log knows it."""
    log = """
    [9] NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained
    [99.1] NVRM: Xid (PCI:0000:8b:00.0): 79, pid=7, GPU has fallen off the bus."""
    rows = judge(module, module.make_demo(7, {}) + log)
    assert [row["verdict"] for row in rows] == ["reset", *["ok"] * 6, "fault"]
    assert (rows[0]["xids"], rows[-1]["xids"], rows[-1]["model"]) == ("94", "79", "not listed")


def test_verdicts_of_xids_are_those_of_the_book(module: Any) -> None:
    """The table of the book and the tool say the same of each Xid."""
    table = Path(__file__).resolve().parents[2] / "book" / "data" / "xid_codes.csv"
    verdicts: dict[int, str] = {}
    with table.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            numbers = range(int(row["code"]), int(row["last"] or row["code"]) + 1)
            verdicts |= dict.fromkeys(numbers, row["verdict"])
    told = {number: verdict for number, verdict in verdicts.items() if verdict}
    assert told == module.XIDS


@pytest.mark.parametrize(
    ("code", "kind", "verdict", "reason"),
    [
        (20034, "Fatal", "reset", "SXid 20034 fatal: reset the GPU of its link and its job's"),
        (12020, "Fatal", "reset", "SXid 12020 fatal: reset all GPUs and NVSwitches, or restart"),
        (12028, "Non-fatal", "watch", "SXid 12028 non-fatal: no reset by itself"),
    ],
)
def test_an_nvswitch_error_is_a_row(
    module: Any, code: int, kind: str, verdict: str, reason: str
) -> None:
    """The switches get one row, whatever the GPUs themselves say."""
    rows = judge(module, module.make_demo(8, {}) + SXID.format(code, kind))
    assert [row["verdict"] for row in rows] == ["ok"] * 8 + [verdict]
    assert (rows[-1]["model"], rows[-1]["reasons"]) == ("NVSwitch", reason)


def test_files_of_several_nodes(module: Any, run_json: Any, tmp_path: Path) -> None:
    """One file is one node; the outlier and the missing GPU are named, and the status is 1."""
    lost = "NVRM: Xid (PCI:0000:8b:00.0): 79, pid=7, GPU has fallen off the bus.\n"
    (tmp_path / "n0.txt").write_text(module.make_demo(4, {}))
    (tmp_path / "n1.txt").write_text(module.make_demo(4, {3: {"VBIOS Version": "97"}}))
    (tmp_path / "n2.txt").write_text(module.make_demo(3, {}) + lost)
    files = ("n0.txt", "n1.txt", "n2.txt")
    done = run_json(TOOL, *files, "--brief", "--expect", "4", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "problem: n2 has 3 GPUs, and 4 are expected" in done.stderr
    assert "12 GPUs of 3 nodes: 1 fault, 1 odd, 10 ok" in done.stderr
    shown = [line.split("|")[1].strip() for line in done.stdout.splitlines()[2:]]
    assert shown == ["n1 3", "n2 3"]
    assert done.document["results"][7]["reasons"] == "vbios 97, most have 96.00.00.00.01"


def test_nothing_that_names_a_machine_is_written(run_json: Any) -> None:
    """Serial numbers, UUIDs and addresses of the input are in no output."""
    done = run_json(TOOL, str(FIXTURES / "nvidia_q.txt"))
    for secret in ("1650000000000", "GPU-00000000", "10:1C", "10:1c"):
        assert secret in (FIXTURES / "nvidia_q.txt").read_text()
        assert secret not in done.stdout + done.stderr + str(done.document)


def test_no_accelerator_is_status_1(run_tool: Any, tmp_path: Path) -> None:
    """A machine without a vendor's command is one that a sweep over a cluster should find."""
    done = run_tool(TOOL, environ={"PATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, "")
    assert "no accelerator was found" in done.stderr


def test_the_commands_are_run(run_tool: Any, tmp_path: Path) -> None:
    """With an nvidia-smi on the PATH its output is read; a command that fails is a note."""
    (tmp_path / "q.txt").write_text((FIXTURES / "nvidia_q.txt").read_text())
    (tmp_path / "nvidia-smi").write_text(
        "#!/bin/sh\n"
        f'[ "$1" = -q ] && exec /bin/cat {tmp_path}/q.txt\n'
        "echo 'NVLink is not supported' >&2\nexit 3\n"
    )
    (tmp_path / "nvidia-smi").chmod(0o755)
    done = run_tool(TOOL, environ={"PATH": str(tmp_path)})
    assert done.returncode == 1, done.stderr
    assert "2 GPUs of 1 nodes: 1 fault, 1 ok" in done.stderr
    assert "note: nvidia-smi nvlink -s: NVLink is not supported" in done.stderr
    assert "note: dmesg: [Errno 2] No such file or directory" in done.stderr
