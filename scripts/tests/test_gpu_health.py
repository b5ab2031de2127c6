"""gpu_health: the texts of the vendors' tools are read, and what is wrong is named."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

TOOL = "compute/gpu_health.py"
FIXTURES = Path(__file__).resolve().parent / "fixtures" / "gpu_health"


@pytest.fixture(scope="module")
def health(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def read_gpus(health: Any, name: str) -> list[dict[str, Any]]:
    """The judged GPUs of a saved text."""
    rows = health.parse_node((FIXTURES / name).read_text(encoding="utf-8"), "node")
    health.judge_gpus(rows)
    return list(rows)


def test_nvidia_smi_text(health: Any) -> None:
    """A pending remap, an NVLink that is down, and an Xid 63 at its address."""
    first, second = read_gpus(health, "nvidia_q.txt")
    assert first["model"] == "NVIDIA H100 80GB HBM3"
    assert first["vbios"] == "96.00.89.00.01"
    assert (first["pcie_generation"], first["pcie_generation_max"]) == (1, 5)
    assert (first["pcie_width"], first["pcie_width_max"]) == (16, 16)
    assert (first["nvlinks_up"], first["nvlinks"]) == (18, 18)
    assert first["nvlink_bytes_per_second_min"] == 26.562e9
    assert first["throttle_reasons"] == "idle"
    assert first["temperature_celsius"] == 33.0
    assert first["power_limit_watts"] == 700.0
    # An idle GPU lowers its PCIe generation; and no Xid is not the same as no log.
    assert (first["verdict"], first["xids"]) == ("ok", "")
    assert (second["remap_pending"], second["remapped_rows_correctable"]) == (True, 1)
    assert second["banks_without_spares"] == 0
    assert second["ecc_correctable_volatile"] == 177
    assert second["nvlink_crc_errors"] == 12
    assert second["xids"] == "63"
    assert second["verdict"] == "fault"
    assert second["reasons"].split("; ") == [
        "17 of 18 NVLinks are up",
        "remapped rows wait for a reset",
        "Xid 63: a row of memory was marked for remapping",
        "12 NVLink CRC errors",
    ]


def test_nvidia_smi_xml_says_the_same_as_the_text(health: Any) -> None:
    """What the XML and the text of one GPU have in common is read alike."""
    (from_xml,) = read_gpus(health, "nvidia_q.xml")
    from_text = read_gpus(health, "nvidia_q.txt")[0]
    for name in (*health.FLAGS, "model", "vbios", "ecc_mode", "throttle_reasons"):
        assert from_xml[name] == from_text[name], name
    for name in ("ecc_uncorrectable_volatile", "pcie_width", "pcie_width_max", "pcie_replays"):
        assert from_xml[name] == from_text[name], name
    assert from_xml["verdict"] == "ok"


def test_amd_smi_json(health: Any) -> None:
    """static and metric, one after the other in one file, are put together by GPU."""
    first, second = read_gpus(health, "amd_smi.txt")
    assert first["model"] == "AMD Instinct MI300X"
    assert first["vbios"] == "022.040.003.041.000001"
    assert (first["pcie_generation"], first["pcie_generation_max"]) == (5, 5)
    assert (first["pcie_width"], first["power_limit_watts"]) == (16, 750.0)
    assert (first["ecc_uncorrectable_volatile"], first["verdict"]) == (0, "ok")
    assert (second["verdict"], second["pcie_width"]) == ("fault", 8)
    assert "PCIe x8 of x16" in second["reasons"]
    assert "too hot" in second["reasons"]


def test_rocm_smi_text(health: Any) -> None:
    """The list of rocm-smi, with its table of RAS blocks."""
    first, second = read_gpus(health, "rocm_smi.txt")
    assert first["vbios"] == "113-M3000100-102"
    assert (first["pcie_replays"], first["pcie_generation"], first["pcie_width"]) == (0, 5, 16)
    assert (first["xgmi_errors"], first["verdict"], first["driver"]) == (0, "ok", "6.8.5")
    assert first["temperature_celsius"] == 45.0
    assert (second["xgmi_errors"], second["ecc_correctable_volatile"]) == (2, 3)
    assert second["verdict"] == "watch"


def test_rocm_smi_json(health: Any) -> None:
    """The JSON of rocm-smi has one object for each card, all values as text."""
    text = json.dumps(
        {
            "card0": {"VBIOS version": "113-X", "PCIe Replay Count": "147"},
            "card1": {"VBIOS version": "113-X", "pcie clock level": "1 (16.0GT/s x16)"},
            "system": {"Driver version": "6.8.5"},
        }
    )
    first, second = health.parse_node(text, "node")
    assert (first["vbios"], first["pcie_replays"], first["driver"]) == ("113-X", 147, "6.8.5")
    assert (second["pcie_generation"], second["pcie_width"]) == (4, 16)


@pytest.mark.parametrize(
    ("old", "new", "verdict", "reason"),
    [
        (
            "Remapping Failure Occurred        : No",
            "Remapping Failure Occurred : Yes",
            "fault",
            "could not be remapped",
        ),
        (
            "SRAM Threshold Exceeded       : No",
            "SRAM Threshold Exceeded : Yes",
            "fault",
            "SRAM errors",
        ),
        (
            "Product Name",
            "Serial Number : 1\n    Product Name",
            "ok",
            "",
        ),
        (
            "GPU Recovery Action                   : None",
            "GPU Recovery Action : Reset",
            "reset",
            "asks for: Reset",
        ),
        (
            "HW Thermal Slowdown           : Not",
            "HW Thermal Slowdown : ",
            "watch",
            "too hot",
        ),
        (
            "Clocks Event Reasons",
            "Clocks Throttle Reasons",
            "ok",
            "",
        ),
        (
            "GPU Current Temp                  : 33 C",
            "GPU Current Temp : 60 C",
            "watch",
            "median of its kind is 33 °C",
        ),
        (
            "Limit               : 700.00 W",
            "Limit : 500.00 W",
            "odd",
            "power limit 500.0, 7 others have 700.0",
        ),
        (
            "Low                           : 0 bank(s)",
            "Low : 2 bank(s)",
            "watch",
            "2 memory banks",
        ),
        (
            "Idle                              : Active",
            "Idle : Not Active",
            "ok",
            "",
        ),
    ],
)
def test_one_gpu_of_eight(health: Any, old: str, new: str, verdict: str, reason: str) -> None:
    """One change in the text of the last GPU is found there, and nowhere else."""
    text = health.make_sample(8, **{old: new})
    assert text != health.make_sample(8)
    rows = health.parse_node(text, "node")
    health.judge_gpus(rows)
    assert [row["verdict"] for row in rows] == ["ok"] * 7 + [verdict]
    assert reason in rows[-1]["reasons"]


def test_sram_errors_of_an_older_driver(health: Any) -> None:
    """Without the threshold flag, more than 4 uncorrectable SRAM errors in a life are a fault."""
    for count, verdict in (("4", "ok"), ("5", "fault")):
        changes = {"            SRAM Threshold Exceeded       : No\n": ""}
        text = health.make_sample(1, **changes)
        aggregate = text.index("Aggregate")
        tail = text[aggregate:].replace("Parity     : 0", f"Parity     : {count}")
        (row,) = health.parse_node(text[:aggregate] + tail, "node")
        health.judge_gpus([row])
        assert row["verdict"] == verdict


def test_the_odd_one_of_several_nodes(health: Any) -> None:
    """One VBIOS among three nodes is found, and two kinds of GPU are each compared apart."""
    rows = []
    for node in ("a", "b", "c"):
        text = health.make_sample(2)
        if node == "c":
            text = health.make_sample(2, **{"96.00.00.00.01": "96.00.00.00.07"})
        rows += health.parse_node(text, node)
    health.judge_gpus(rows)
    odd = [(row["node"], row["gpu"]) for row in rows if row["verdict"] != "ok"]
    assert odd == [("c", 1)]
    assert rows[-1]["reasons"] == "VBIOS 96.00.00.00.07, 5 others have 96.00.00.00.01"


def test_half_and_half_is_nobodys_fault(health: Any) -> None:
    """Where no value is that of most GPUs none of them is the odd one."""
    rows = []
    for version in ("1", "2"):
        text = health.make_sample(2).replace("96.00.00.00.01", version)
        rows += health.parse_node(text, version)
    health.judge_gpus(rows)
    assert {row["verdict"] for row in rows} == {"ok"}


def test_a_lost_gpu_is_a_row(health: Any) -> None:
    """A GPU that fell off the bus is not listed by nvidia-smi, but the kernel log knows it."""
    log = "\n[99.1] NVRM: Xid (PCI:0000:8b:00): 79, pid=7, GPU has fallen off the bus."
    rows = health.parse_node(health.make_sample(7) + log, "node")
    health.judge_gpus(rows)
    assert [row["verdict"] for row in rows] == ["ok"] * 7 + ["fault"]
    assert rows[-1]["model"] == "not listed"
    assert health.find_missing(rows, ["node"], 8) == ["node has 7 GPUs, and 8 are asked for"]


def test_verdicts_of_xids_are_those_of_the_book(health: Any) -> None:
    """The table of the book and the tool say the same of each Xid."""
    table = Path(__file__).resolve().parents[2] / "book" / "data" / "xid_codes.csv"
    verdicts: dict[int, str] = {}
    with table.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            first = int(row["code"])
            numbers = range(first, int(row["last"] or first) + 1)
            verdicts |= dict.fromkeys(numbers, row["verdict"])
    told = {number: verdict for number, verdict in verdicts.items() if verdict}
    assert told == {number: verdict for number, (verdict, _) in health.XIDS.items()}
    assert set(told.values()) <= set(health.SEVERITIES)


def test_xid_lines(health: Any) -> None:
    """Both forms of the address, with and without the function and an instance of MIG."""
    log = """
    [1] NVRM: Xid (PCI:0000:10:1c): 63, pid=1896, Row Remapper: New row marked for remapping
    [2] NVRM: Xid (PCI:0000:10:1c.0): 48, pid=2
    [3] NVRM: Xid (PCI:0000:01:00 GPU-I:05): 94, pid=7194, Contained
    """
    assert health.parse_xids(log) == {"10:1c": [63, 48], "01:00": [94]}
    assert health.shorten_address("00000000:10:1C.0") == "10:1c"


@pytest.mark.parametrize(
    ("code", "kind", "verdict", "reason"),
    [
        (20034, "Fatal", "reset", "SXid 20034, fatal: reset the GPU of its link and its job's"),
        (12020, "Fatal", "reset", "SXid 12020: reset all GPUs and NVSwitches, or restart"),
        (12028, "Non-fatal", "watch", "SXid 12028, non-fatal: no reset by itself"),
    ],
)
def test_an_nvswitch_error_is_a_row(
    health: Any, code: int, kind: str, verdict: str, reason: str
) -> None:
    """The switches get one row, which is no GPU, whatever the GPUs themselves say."""
    start = f"\n[9.1] nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): {code}, "
    log = f"{start}{kind}, Link 46 text (First){start}Severity 0 Engine instance 46"
    rows = health.parse_node(health.make_sample(8) + log, "node")
    health.judge_gpus(rows)
    assert [row["verdict"] for row in rows] == ["ok"] * 8 + [verdict]
    assert (rows[-1]["model"], rows[-1]["reasons"]) == ("NVSwitch", reason)
    assert health.find_missing(rows, ["node"], 8) == []


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(health: Any, text: str) -> None:
    """Whatever is in a file, it gives rows or one clear message."""
    try:
        rows = health.parse_node(text, "node")
    except health.WrongUse:
        return
    health.judge_gpus(rows)


@given(st.integers(0, 5000))
def test_a_text_that_was_cut_off(health: Any, end: int) -> None:
    """A saved text that ends anywhere gives fewer facts, never a traceback."""
    try:
        rows = health.parse_node(health.make_sample(2)[:end], "node")
    except health.WrongUse:
        return
    health.judge_gpus(rows)
    assert len(rows) <= 2


def test_files_of_several_nodes(
    health: Any, call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """One file is one node; the odd one and the missing GPU are named, and the status is 1."""
    for name, count in (("n1", 4), ("n2", 4), ("n3", 3)):
        changes = {"96.00.00.00.01": "96.00.00.00.02"} if name == "n2" else {}
        (tmp_path / f"{name}.txt").write_text(health.make_sample(count, **changes))
    files = [str(tmp_path / f"{name}.txt") for name in ("n1", "n2", "n3")]
    path = tmp_path / "out.json"
    done = call_tool(TOOL, *files, "--brief", "--json", str(path))
    assert done.returncode == 1, done.stderr
    assert "problem: n3 has 3 GPUs, and 4 are usual here" in done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 3
    assert "| n2 3" in lines[2]
    assert "**odd**" in lines[2]
    document = read_json(path)
    assert len(document["results"]) == 11
    assert document["details"]["missing"]
    assert str(tmp_path) not in path.read_text()


def test_nothing_that_names_a_machine_is_written(
    health: Any, call_tool: Callable[..., Any], tmp_path: Path
) -> None:
    """Serial numbers, UUIDs and addresses of the input are in no output."""
    path = tmp_path / "out.json"
    done = call_tool(TOOL, str(FIXTURES / "nvidia_q.txt"), "--json", str(path))
    for secret in ("1650000000000", "GPU-00000000", "10:1C", "10:1c"):
        assert secret in (FIXTURES / "nvidia_q.txt").read_text()
        assert secret not in done.stdout + done.stderr + path.read_text()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["nowhere.txt"], "could not read nowhere.txt"),
        (["--sample", "x.txt"], "reads what is in this tool"),
        (["--expect", "0"], "whole number from 1"),
    ],
)
def test_wrong_use(call_tool: Callable[..., Any], arguments: list[str], complaint: str) -> None:
    """What makes no sense ends with status 2 and one clear line."""
    done = call_tool(TOOL, *arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_text_without_a_gpu_is_refused(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """A file that is something else says what to save."""
    path = tmp_path / "n.txt"
    path.write_text("bash: nvidia-smi: command not found\n")
    done = call_tool(TOOL, str(path))
    assert done.returncode == 2
    assert re.search("no GPU in this text; save nvidia-smi -q", done.stderr)
    path.write_text("<nvidia_smi_log><gpu>")
    assert "ends in the middle" in call_tool(TOOL, str(path)).stderr


def test_no_accelerator_is_one_line_and_status_1(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """A machine whose vendor's command is gone is one that a sweep over a cluster should find."""
    path = tmp_path / "out.json"
    environ = {"PATH": str(tmp_path)}
    done = call_tool(TOOL, "--json", str(path), environ=environ)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "no accelerator was found" in done.stderr
    assert read_json(path)["complete"] is False


def test_the_commands_are_asked(
    health: Any, call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """With an nvidia-smi on the PATH its answers are read; a command that fails is a caveat."""
    script = tmp_path / "nvidia-smi"
    (tmp_path / "q.xml").write_text((FIXTURES / "nvidia_q.xml").read_text())
    script.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = -q ] && exec /bin/cat {tmp_path}/q.xml\n'
        "echo 'NVLink is not supported' >&2\nexit 3\n"
    )
    script.chmod(0o755)
    path = tmp_path / "out.json"
    done = call_tool(TOOL, "--json", str(path), environ={"PATH": str(tmp_path)})
    document = read_json(path)
    assert done.returncode == 0, done.stderr
    assert document["results"][0]["verdict"] == "ok"
    assert "nvidia-smi nvlink -s: NVLink is not supported" in document["caveats"]
    assert any(caveat.startswith("dmesg could not be started") for caveat in document["caveats"])


def test_a_text_that_ends_too_early_is_refused(health: Any) -> None:
    """nvidia-smi says how many GPUs there are: a text that holds fewer was cut off."""
    text = (FIXTURES / "nvidia_q.txt").read_text(encoding="utf-8")
    with pytest.raises(health.WrongUse, match="counts 2 GPUs and the text ends after 1"):
        health.parse_node(text[: text.index("GPU 00000000:10")], "node")


def test_the_most_common_model_is_not_odd(health: Any) -> None:
    """Where no model has more than half of the GPUs, none is odd for being another one."""
    rows = [health.make_row("node", index) for index in range(5)]
    for row, model in zip(rows, ("H100", "H100", "MI300X", "MI300X", "A100"), strict=True):
        row["model"] = model
    assert health.find_odd_ones(rows) == {}
    rows[2]["model"] = "H100"
    assert set(health.find_odd_ones(rows)) == {("node", 3), ("node", 4)}
