"""gpu_health: the output of the vendors' commands is read, and what is wrong is named."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TOOL = "compute/gpu_health.py"
FIXTURES = Path(__file__).resolve().parent / "fixtures" / "gpu_health"


@pytest.fixture(scope="module")
def health(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def judge(health: Any, *texts: str) -> list[dict[str, Any]]:
    """The judged GPUs of nodes."""
    rows = [
        row for number, text in enumerate(texts) for row in health.parse_node(text, f"n{number}")
    ]
    health.judge_gpus(rows)
    return rows


def read_fixture(health: Any, name: str) -> list[dict[str, Any]]:
    """The judged GPUs of a saved text."""
    return judge(health, (FIXTURES / name).read_text(encoding="utf-8"))


def test_nvidia_smi(health: Any) -> None:
    """A pending remap, an NVLink that is down, and an Xid 63 at its address."""
    first, second = read_fixture(health, "nvidia_q.txt")
    facts = {
        "model": "NVIDIA H100 80GB HBM3",
        "vbios": "96.00.89.00.01",
        "driver": "550.90.12",
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "nvlinks_up": 18,
        "throttle_reasons": "idle",
        "power_limit_watts": 700.0,
        "xids": "",  # no Xid is not the same as no log
        "verdict": "ok",  # an idle GPU lowers its PCIe generation
    }
    assert first.items() >= facts.items()
    facts = {
        "remap_pending": True,
        "remapped_rows_correctable": 1,
        "banks_without_spares": 0,
        "ecc_correctable_volatile": 177,
        "xids": "63",
        "verdict": "fault",
    }
    assert second.items() >= facts.items()
    assert second["reasons"].split("; ") == [
        "17 of 18 NVLinks are up",
        "remapped rows wait for a reset",
        "12 NVLink CRC errors",
        "Xid 63 in the kernel log",
    ]


def test_amd_smi(health: Any) -> None:
    """static and metric, one after the other in one file, are merged by GPU."""
    first, second = read_fixture(health, "amd_smi.txt")
    assert first["model"] == "AMD Instinct MI300X"
    assert first["vbios"] == "022.040.003.041.000001"
    assert (first["pcie_width"], first["power_limit_watts"]) == (16, 750)
    assert (first["ecc_uncorrectable_volatile"], first["verdict"]) == (0, "ok")
    assert (second["verdict"], second["pcie_width"]) == ("fault", 8)
    assert "PCIe x8 of x16" in second["reasons"]
    assert "clocks lowered: " in second["reasons"]


def test_rocm_smi(health: Any) -> None:
    """An error on a link between GPUs."""
    first, second = read_fixture(health, "rocm_smi.txt")
    assert first["vbios"] == "113-M3000100-102"
    assert (first["pcie_replays"], first["xgmi_errors"], first["verdict"]) == (0, 0, "ok")
    assert (second["xgmi_errors"], second["verdict"]) == (2, "watch")


@pytest.mark.parametrize(
    ("old", "new", "verdict", "reason"),
    [
        ("Remapping Failure Occurred        : No", "Yes", "fault", "could not be remapped"),
        ("SRAM Threshold Exceeded       : No", "Yes", "fault", "SRAM errors"),
        ("GPU Recovery Action                   : None", "Reset", "reset", "asks for: Reset"),
        ("HW Thermal Slowdown           : Not Active", "Active", "watch", "hw_thermal"),
        ("Limit               : 700.00 W", "500 W", "odd", "power limit watts 500, most have"),
        ("Product Name                          : D", "X", "odd", "model XEMO-GPU 80GB, most"),
        ("Low                           : 0 bank(s)", "2 bank(s)", "watch", "2 memory banks"),
        ("Current                   : 16x", "8x", "fault", "PCIe x8 of x16"),
        ("Pending                           : No", "Yes", "reset", "remapped rows wait"),
        ("Pending                           : No", "N/A", "ok", ""),
        ("Idle                              : Active", "Not Active", "ok", ""),
    ],
)
def test_one_gpu_of_eight(health: Any, old: str, new: str, verdict: str, reason: str) -> None:
    """One change in the text of the last GPU is found there, and nowhere else."""
    text = health.make_demo(8, {7: (old, f"{old.partition(':')[0]}: {new}")})
    assert text != health.make_demo(8)
    rows = judge(health, text)
    assert [row["verdict"] for row in rows] == ["ok"] * 7 + [verdict]
    assert reason in rows[-1]["reasons"]


def test_no_nvlink_is_up(health: Any) -> None:
    """A GPU that is cut off from NVLink is a fault. Where none of a node has a link up, as on
    boards without bridges, nothing is wrong unless most GPUs of the model have links."""
    good = health.make_demo(8)
    cut_off = re.sub(r"( Link \d+:) 26.562 GB/s", r"\1 <inactive>", good)
    last = good.index("GPU 7: ")
    rows = judge(health, good[:last] + cut_off[cut_off.index("GPU 7: ") :])
    assert [row["verdict"] for row in rows] == ["ok"] * 7 + ["fault"]
    assert rows[-1]["reasons"].startswith("0 of 18 NVLinks are up")
    assert {row["verdict"] for row in judge(health, cut_off)} == {"ok"}
    rows = judge(health, good, good, cut_off)
    assert [row["verdict"] for row in rows] == ["ok"] * 16 + ["odd"] * 8
    assert rows[-1]["reasons"] == "nvlinks up 0, most have 18"


def test_the_outlier_of_several_nodes(health: Any) -> None:
    """One VBIOS among three nodes is found; half and half is nobody's fault."""
    other = health.make_demo(2, {1: ("96.00.00.00.01", "96.00.00.00.07")})
    rows = judge(health, health.make_demo(2), health.make_demo(2), other)
    assert [row["verdict"] for row in rows] == ["ok"] * 5 + ["odd"]
    assert rows[-1]["reasons"] == "vbios 96.00.00.00.07, most have 96.00.00.00.01"
    other = health.make_demo(2).replace("96.00.00.00.01", "1")
    rows = judge(health, health.make_demo(2), other)
    assert {row["verdict"] for row in rows} == {"ok"}


def test_a_lost_gpu_is_a_row(health: Any) -> None:
    """A GPU that fell off the bus is not listed by nvidia-smi, but the kernel log knows it."""
    log = """
    [9] NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained
    [99.1] NVRM: Xid (PCI:0000:8b:00.0): 79, pid=7, GPU has fallen off the bus."""
    rows = judge(health, health.make_demo(7) + log)
    assert [row["verdict"] for row in rows] == ["reset", *["ok"] * 6, "fault"]
    assert (rows[0]["xids"], rows[-1]["xids"], rows[-1]["model"]) == ("94", "79", "not listed")
    assert health.find_missing(rows, ["n0"], 8) == ["n0 has 7 GPUs, and 8 are expected"]


def test_verdicts_of_xids_are_those_of_the_book(health: Any) -> None:
    """The table of the book and the tool say the same of each Xid."""
    table = Path(__file__).resolve().parents[2] / "book" / "data" / "xid_codes.csv"
    verdicts: dict[int, str] = {}
    with table.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            numbers = range(int(row["code"]), int(row["last"] or row["code"]) + 1)
            verdicts |= dict.fromkeys(numbers, row["verdict"])
    told = {number: verdict for number, verdict in verdicts.items() if verdict}
    assert told == health.XIDS


@pytest.mark.parametrize(
    ("code", "kind", "verdict", "reason"),
    [
        (20034, "Fatal", "reset", "SXid 20034 fatal: reset the GPU of its link and its job's"),
        (12020, "Fatal", "reset", "SXid 12020 fatal: reset all GPUs and NVSwitches, or restart"),
        (12028, "Non-fatal", "watch", "SXid 12028 non-fatal: no reset by itself"),
    ],
)
def test_an_nvswitch_error_is_a_row(
    health: Any, code: int, kind: str, verdict: str, reason: str
) -> None:
    """The switches get one row, which is not a GPU, whatever the GPUs themselves say."""
    start = f"\n[9.1] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): {code}, "
    log = f"{start}{kind}, Link 46 text (First){start}Severity 0 Engine instance 46"
    rows = judge(health, health.make_demo(8) + log)
    assert [row["verdict"] for row in rows] == ["ok"] * 8 + [verdict]
    assert (rows[-1]["model"], rows[-1]["reasons"]) == ("NVSwitch", reason)
    assert health.find_missing(rows, ["n0"], 8) == []


def test_files_of_several_nodes(
    health: Any, run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """One file is one node; the outlier and the missing GPU are named, and the status is 1."""
    texts = [health.make_demo(4), health.make_demo(4, {3: ("96.00.00", "97.00.00")})]
    for number, text in enumerate([*texts, health.make_demo(3)]):
        (tmp_path / f"n{number}.txt").write_text(text)
    files = ("n0.txt", "n1.txt", "n2.txt")
    done = run_tool(TOOL, *files, "--brief", "--expect", "4", "--json", "out.json", cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "problem: n2 has 3 GPUs, and 4 are expected" in done.stderr
    assert "11 GPUs of 3 nodes: 1 odd, 10 ok" in done.stderr
    assert [line.split("|")[1].strip() for line in done.stdout.splitlines()[2:]] == ["n1 3"]
    assert len(read_json(tmp_path / "out.json")["results"]) == 11


def test_nothing_that_names_a_machine_is_written(
    run_tool: Callable[..., Any], tmp_path: Path
) -> None:
    """Serial numbers, UUIDs and addresses of the input are in no output."""
    path = tmp_path / "out.json"
    done = run_tool(TOOL, str(FIXTURES / "nvidia_q.txt"), "--json", str(path))
    for secret in ("1650000000000", "GPU-00000000", "10:1C", "10:1c"):
        assert secret in (FIXTURES / "nvidia_q.txt").read_text()
        assert secret not in done.stdout + done.stderr + path.read_text()


@pytest.mark.parametrize("driver", [False, True])
def test_no_accelerator_is_status_1(
    run_tool: Callable[..., Any], tmp_path: Path, driver: bool
) -> None:
    """A machine whose vendor's command is gone, or whose driver does not answer, is one that a
    sweep over a cluster should find."""
    if driver:
        for name, text in (("nvidia-smi", "NVIDIA-SMI has failed"), ("dmesg", "[ 0.12] x")):
            (tmp_path / name).write_text(f"#!/bin/sh\necho '{text}'; exit 9\n")
            (tmp_path / name).chmod(0o755)
    done = run_tool(TOOL, environ={"PATH": str(tmp_path)})
    assert (done.returncode, done.stdout) == (1, "")
    assert ("note: nvidia-smi -q: NVIDIA-SMI has failed" in done.stderr) == driver
    assert "no accelerator was found" in done.stderr


def test_the_commands_are_run(run_tool: Callable[..., Any], tmp_path: Path) -> None:
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
