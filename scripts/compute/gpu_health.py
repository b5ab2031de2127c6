#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Are all GPUs of this node, and of these nodes, healthy and alike?

A training job runs at the speed of its worst GPU, and fails with it. Most of what goes wrong shows
in counters first. This tool reads them, from the vendor's commands or from output saved on many
nodes, prints a row per GPU with a verdict and the reasons, and names the outliers.

## What is read

- ECC errors: volatile since the driver was loaded, aggregate since the GPU was made. Corrected
  errors are harmless in small numbers; uncorrectable ones end the job.
- Remapped rows: a failed row of memory is replaced by a spare one at the next reset. Pending means
  reset the GPU; failed means that no spare could be used.
- NVLink: links that are up, their speed, replays, recoveries and CRC errors.
- PCIe: width, generation and replays. A lower generation is normal while the GPU is idle; a lower
  width never is.
- Throttle reasons of this moment. idle and sw_power_cap are normal; heat and the hardware's own
  brake are not.
- Xid: errors in the kernel log, by GPU. SXid: the same for the NVSwitches of boards up to Hopper,
  which get their own row.
- VBIOS, driver, ECC mode, power limit, which should be the same on all GPUs of a kind.

The verdict is the worst that applies:

- `fault`: take the GPU out of service; it or its link has failed
- `reset`: a reset of the GPU, or a reboot of the node, is due
- `watch`: an early sign, or a state that should not be; look again after the next job
- `odd`: healthy by itself, but unlike most others of its model
- `ok`: counters are clean, which does not prove correct results under load

## How to run

    sudo python3 gpu_health.py --expect 8    # root for the kernel log
    # Slurm, pdsh
    srun --ntasks-per-node=1 python gpu_health.py --expect 8 --brief
    pdsh -w node[01-08] python /shared/gpu_health.py --expect 8 --brief
    # many nodes: save on each, then read once
    (nvidia-smi -q; nvidia-smi nvlink -s; nvidia-smi nvlink -e; dmesg | grep -i xid) \
        > /shared/$(hostname).txt
    (amd-smi static --json; amd-smi metric --json) > /shared/$(hostname).txt
    python gpu_health.py --expect 8 /shared/*.txt

One file is one node. The text of `rocm-smi -a --showrasinfo --showxgmierr` is read too. Serial
numbers, UUIDs and addresses are never written.

## A good answer

Every row is `ok`, every node has its GPUs, and the last line says that all are alike.

Exit status: 0 all is well; 1 something was found, no accelerator was found, or a signal; 2 wrong
use.
"""

from __future__ import annotations

import json
import re
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, positive_int, start
from kit.report import Report, Row, format_table

__version__ = "0.4.0"
METHOD = 3

PROFILES = {"demo": ["--demo"], "full": []}
UNITS = {
    **dict.fromkeys(
        ("gpu", "ecc_uncorrectable_volatile", "ecc_uncorrectable_aggregate",
         "ecc_correctable_volatile", "sram_uncorrectable_aggregate", "remapped_rows_correctable",
         "remapped_rows_uncorrectable", "banks_without_spares", "pcie_generation",
         "pcie_generation_max", "pcie_width", "pcie_width_max", "pcie_replays", "nvlinks_up",
         "nvlinks", "nvlink_replay_errors", "nvlink_recovery_errors", "nvlink_crc_errors",
         "xgmi_errors"),
        "1",
    ),
    "nvlink_bytes_per_second_min": "B/s",
    "temperature_celsius": "degC",
    "power_limit_watts": "W",
}  # fmt: skip
FLAGS = ("sram_threshold_exceeded", "remap_pending", "remap_failure", "retirement_pending",
         "repair_pending", "unrepairable_memory")  # fmt: skip
TEXTS = ("model", "vbios", "driver", "ecc_mode", "recovery_action", "throttle_reasons", "xids",
         "sxids")  # fmt: skip
SRAM = ("SRAM Uncorrectable", "SRAM Uncorrectable Parity", "SRAM Uncorrectable SEC-DED")
# Column -> where its value is; `|` separates places of which the first counts, `+` those that are
# added up.
NVIDIA = {
    "model": "Product Name",
    "vbios": "VBIOS Version",
    "driver": "Driver Version",
    "ecc_mode": "ECC Mode/Current|Ecc Mode/Current",
    "recovery_action": "GPU Recovery Action",
    **{
        f"ecc_uncorrectable_{kind.lower()}": "+".join(
            f"ECC Errors/{kind}/{name}" for name in (*SRAM, "DRAM Uncorrectable")
        )
        for kind in ("Volatile", "Aggregate")
    },
    "ecc_correctable_volatile": "ECC Errors/Volatile/SRAM Correctable"
    "+ECC Errors/Volatile/DRAM Correctable",
    "sram_uncorrectable_aggregate": "+".join(f"ECC Errors/Aggregate/{name}" for name in SRAM),
    "sram_threshold_exceeded": "ECC Errors/Aggregate/SRAM Threshold Exceeded",
    "repair_pending": "ECC Errors/Channel Repair Pending+ECC Errors/TPC Repair Pending",
    "unrepairable_memory": "ECC Errors/Unrepairable Memory",
    "retirement_pending": "Retired Pages/Pending Page Blacklist",
    "remapped_rows_correctable": "Remapped Rows/Correctable Error",
    "remapped_rows_uncorrectable": "Remapped Rows/Uncorrectable Error",
    "remap_pending": "Remapped Rows/Pending",
    "remap_failure": "Remapped Rows/Remapping Failure Occurred",
    "banks_without_spares": "Remapped Rows/Bank Remap Availability Histogram/Low"
    "+Remapped Rows/Bank Remap Availability Histogram/None",
    "pcie_generation": "PCI/GPU Link Info/PCIe Generation/Current",
    "pcie_generation_max": "PCI/GPU Link Info/PCIe Generation/Max",
    "pcie_width": "PCI/GPU Link Info/Link Width/Current",
    "pcie_width_max": "PCI/GPU Link Info/Link Width/Max",
    "pcie_replays": "PCI/Replays Since Reset",
    "temperature_celsius": "Temperature/GPU Current Temp",
    "power_limit_watts": "GPU Power Readings/Current Power Limit|Power Readings/Power Limit",
}
AMD_SMI = {
    "model": "asic/market_name",
    "vbios": "vbios/version|ifwi/version",
    "driver": "driver/version",
    "ecc_uncorrectable_volatile": "ecc/total_uncorrectable_count",
    "ecc_correctable_volatile": "ecc/total_correctable_count",
    "pcie_width": "pcie/width",
    "pcie_width_max": "bus/max_pcie_width",
    "pcie_replays": "pcie/replay_count",
    "xgmi_errors": "xgmi_err",
    "temperature_celsius": "temperature/hotspot",
    "power_limit_watts": "limit/socket_power|limit/max_power",
}
ROCM_SMI = {
    "model": "Card Series|Card series|Card model",
    "vbios": "VBIOS version",
    "driver": "Driver version",
    "pcie_replays": "PCIe Replay Count",
    "xgmi_errors": "XGMI Error count",
    "temperature_celsius": "Temperature (Sensor junction) (C)",
    "power_limit_watts": "Max Graphics Package Power (W)",
}
PCIE_SPEEDS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""Generation of PCI Express by GT/s of a lane."""
ALIKE = {
    "vbios": "VBIOS",
    "driver": "driver",
    "ecc_mode": "ECC mode",
    "pcie_generation_max": "highest PCIe generation",
    "pcie_width_max": "highest PCIe width",
    "nvlinks": "number of NVLinks",
    "power_limit_watts": "power limit",
}
"""What a GPU has to share with most others of its model."""
FEWEST_TO_COMPARE = 3
HOT_CELSIUS = 15.0
MANY_REPLAYS = 1000
SRAM_LIMIT = 4
"""More uncorrectable SRAM errors in its life are a reason to replace a GPU, where the driver is too
old to say that its threshold is exceeded."""
SEVERITIES = ("fault", "reset", "watch", "odd", "ok")
# Numbers of NVIDIA's Xid catalogue that concern the hardware, and what they ask for; the same
# verdicts are in book/data/xid_codes.csv. Others (13, 31, 43, 45, 137) are usually the
# application's.
XIDS = {
    32: ("watch", "a broken command stream: examine PCIe if it comes back"),
    46: ("reset", "the GPU stopped processing"),
    48: ("reset", "an uncorrectable memory error"),
    54: ("fault", "auxiliary power is not connected"),
    62: ("reset", "the GPU's internal controller stopped"),
    63: ("watch", "a row of memory was marked for remapping"),
    64: ("reset", "a row of memory could not be remapped: report it"),
    74: ("reset", "an NVLink error; the far end may be at fault"),
    79: ("fault", "the GPU has fallen off the bus"),
    92: ("watch", "many correctable memory errors"),
    94: ("reset", "a contained memory error: its job was hit"),
    95: ("reset", "an uncontained memory error"),
    109: ("reset", "a switch of context took too long"),
    110: ("reset", "a protection of the GPU was violated"),
    119: ("reset", "the GPU's system processor did not answer"),
    120: ("reset", "the GPU's system processor failed"),
    121: ("watch", "corrected errors on the link between CPU and GPU"),
    136: ("reset", "a link could not be trained"),
    140: ("reset", "an unrecovered memory error"),
    143: ("reset", "the GPU could not be initialised"),
    **dict.fromkeys(range(144, 151), ("watch", "an NVLink 5 error: see Xid 154 beside it")),
    154: ("watch", "the driver recommends what the log says"),
    155: ("reset", "an NVLink went down, if not on purpose"),
    156: ("reset", "a resource of the GPU was retired"),
    157: ("watch", "no resource is left for a repair: report it"),
    158: ("reset", "a fatal timeout of the GPU"),
    171: ("reset", "an uncorrectable error in DRAM"),
    172: ("reset", "an uncorrectable error in SRAM"),
}
FABRIC_SXIDS = {10003, 12020, 22003, 22011, *range(23001, 23018)}
"""Numbers of the Fabric Manager guide that are fatal to the whole fabric, not to one GPU."""
LOST, SWITCH = "not listed", "NVSwitch"
"""The model of a row that is not a GPU of the list: one that is lost, and the switches."""
BAD_THROTTLES = {
    "hw_slowdown": "the hardware lowers the clocks (heat or power)",
    "hw_thermal_slowdown": "too hot: the hardware halves the clocks",
    "hw_power_brake_slowdown": "the power supply asks for lower clocks",
    "sw_thermal_slowdown": "too hot: the driver lowers the clocks",
    "thermal": "too hot: clocks are lowered",
}
# Severity, column that must not be set (or not be above 0), and words with its value.
RULES = (
    ("fault", "remap_failure", "a row of memory could not be remapped: replace the GPU"),
    ("fault", "unrepairable_memory", "its memory cannot be repaired"),
    ("fault", "sram_threshold_exceeded", "too many uncorrectable SRAM errors in its life"),
    ("reset", "remap_pending", "remapped rows wait for a reset"),
    ("reset", "retirement_pending", "retired pages wait for a reset"),
    ("reset", "repair_pending", "a repair of its memory or units waits for a reset"),
    ("reset", "recovery_action", "the driver asks for: {}"),
    ("reset", "ecc_uncorrectable_volatile", "{} uncorrectable ECC errors since the driver loaded"),
    ("watch", "nvlink_replay_errors", "{} NVLink replay errors"),
    ("watch", "nvlink_recovery_errors", "{} NVLink recovery errors"),
    ("watch", "nvlink_crc_errors", "{} NVLink CRC errors"),
    ("watch", "xgmi_errors", "{} XGMI errors since they were last read"),
    ("watch", "banks_without_spares", "{} memory banks have few or no spare rows left"),
    ("watch", "remapped_rows_uncorrectable", "{} rows were remapped for uncorrectable errors"),
)
COMMANDS = {
    "nvidia-smi": ("nvidia-smi -q", "nvidia-smi nvlink -s", "nvidia-smi nvlink -e", "dmesg"),
    "amd-smi": ("amd-smi static --json", "amd-smi metric --json"),
    "rocm-smi": ("rocm-smi -a --showrasinfo --showxgmierr",),
}
DEMO_GPU = """GPU 00000000:@:00.0
    Product Name                          : DEMO-GPU 80GB
    VBIOS Version                         : 96.00.00.00.01
    GPU Recovery Action                   : None
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : 5
            Link Width
                Max                       : 16x
                Current                   : 16x
        Replays Since Reset               : 0
    Clocks Event Reasons
        Idle                              : Active
        SW Power Cap                      : Not Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
    ECC Mode
        Current                           : Enabled
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
        Aggregate
            SRAM Correctable              : 0
            SRAM Uncorrectable Parity     : 0
            SRAM Uncorrectable SEC-DED    : 0
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
            SRAM Threshold Exceeded       : No
    Remapped Rows
        Correctable Error                 : 0
        Uncorrectable Error               : 0
        Pending                           : No
        Remapping Failure Occurred        : No
        Bank Remap Availability Histogram
            Max                           : 2560 bank(s)
            Low                           : 0 bank(s)
            None                          : 0 bank(s)
    Temperature
        GPU Current Temp                  : 33 C
    GPU Power Readings
        Current Power Limit               : 700.00 W"""
DEMO_CHANGES = {3: ("Pending                           : No", "Pending : Yes"),
                5: ("VBIOS Version                         : 96", "VBIOS Version : 95"),
                }  # fmt: skip
"""What is planted in the demo's GPUs: a pending remap, and another VBIOS."""
DEMO_ANSWER = ["ok", "ok", "ok", "reset", "ok", "odd", "ok", "ok"]


def make_row(node: str, index: int) -> Row:
    """A GPU of which nothing is known yet."""
    return {"node": node, **dict.fromkeys((*TEXTS, *FLAGS, *UNITS)), "gpu": index}


def fill_columns(row: Row, table: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Take the columns of a table from values by their places, each read as its column needs."""
    for column, places in table.items():
        for place in places.split("|"):
            read = [read_value(column, values.get(part)) for part in place.split("+")]
            known = [value for value in read if value is not None]
            if known and row[column] is None:
                row[column] = known[0] if column in TEXTS else sum(known)
                if column in FLAGS:
                    row[column] = any(known)


def read_value(column: str, value: Any) -> Any:
    """A word, a flag (`Yes`, `No`) or the number that a value starts with; None for `N/A`."""
    text = " ".join(str(value).split())
    if column in FLAGS:
        return {"yes": True, "no": False}.get(text.lower())
    if column in TEXTS:
        return None if text.upper() in ("", "N/A", "NONE", "[N/A]", "NOT SUPPORTED") else text
    found = re.match(r"\d+(\.\d+)?", text)
    return found and (float(found[0]) if found[1] else int(found[0]))


def parse_nvidia(text: str, node: str) -> list[tuple[str, Row]]:
    """The GPUs of `nvidia-smi -q`, each with its address.

    Names are nested by indentation; a name can have a value and names below it.
    """
    gpus: list[dict[str, str]] = []
    values: dict[str, str] = {}
    stack: list[tuple[int, str]] = []
    driver = ""
    for line in text.splitlines():
        if found := re.match(r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+)\s*$", line):
            values, stack = {"address": found[1], "Driver Version": driver}, []
            gpus.append(values)
        elif found := re.match(r"(\s*)(\S.*?)\s*(?::(?:\s+(.*))?)?$", line):
            indent, name, value = len(found[1].expandtabs(8)), found[2], found[3]
            if indent == 0:  # the output of another command
                driver = value if name == "Driver Version" and value else driver
                values = {}
            stack = [(depth, above) for depth, above in stack if depth < indent]
            stack.append((indent, name))
            if value:
                values["/".join(part for _, part in stack)] = value.strip()
    rows = []
    for index, values in enumerate(gpus):
        row = make_row(node, index)
        fill_columns(row, NVIDIA, values)
        reasons = {
            path.rpartition("/")[2].lower().replace(" ", "_"): value
            for path, value in values.items()
            if re.match(r"Clocks (Event|Throttle) Reasons/", path)
        }
        if reasons:
            active = [name for name, value in reasons.items() if value == "Active"]
            row["throttle_reasons"] = " ".join(active)
        rows.append((values["address"], row))
    return rows


def add_nvlinks(rows: Sequence[Row], text: str) -> None:
    """Add links and their errors, from `nvidia-smi nvlink -s` and `-e`."""
    by_index = {row["gpu"]: row for row in rows}
    row: Row = {}
    for line in text.splitlines():
        if found := re.match(r"GPU (\d+): ", line):
            row = by_index.get(int(found[1]), {})
        elif row and (found := re.match(r"\s+Link \d+: (Replay|Recovery|CRC) Errors: (\d+)", line)):
            column = f"nvlink_{found[1].lower()}_errors"
            row[column] = (row[column] or 0) + int(found[2])
        elif row and (found := re.match(r"\s+Link \d+: (?:([\d.]+) GB/s|.*inactive)", line, re.I)):
            row["nvlinks"] = (row["nvlinks"] or 0) + 1
            row["nvlinks_up"] = (row["nvlinks_up"] or 0) + bool(found[1])
            if found[1]:
                speeds = (float(found[1]) * 1e9, row["nvlink_bytes_per_second_min"])
                row["nvlink_bytes_per_second_min"] = min(filter(None, speeds))


def parse_amd_smi(text: str, node: str) -> list[tuple[str, Row]]:
    """The GPUs of `amd-smi static --json` and `amd-smi metric --json`, merged by number."""
    merged: dict[int, dict[str, Any]] = {}
    for document in find_json(text):
        entries = document.get("gpu_data") if isinstance(document, dict) else document
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("gpu"), int):
                merged.setdefault(entry["gpu"], {}).update(flatten(entry))
    rows = []
    for index, values in sorted(merged.items()):
        row = make_row(node, index)
        fill_columns(row, AMD_SMI, values)
        for column, place in (("", "pcie/speed"), ("_max", "bus/max_pcie_speed")):
            row[f"pcie_generation{column}"] = PCIE_SPEEDS.get(values.get(place))
        throttle = {
            path.removeprefix("throttle/").removesuffix("_violation_status"): value
            for path, value in values.items()
            if path.startswith("throttle/") and path.endswith("_violation_status")
        }
        if throttle:
            active = [name for name, value in throttle.items() if str(value).upper() == "ACTIVE"]
            hot = ["thermal"] if any("thermal" in name for name in active) else []
            row["throttle_reasons"] = " ".join([*active, *hot])
        rows.append(("", row))
    return rows


def find_json(text: str) -> Iterator[Any]:
    """The JSON documents in a text, which may follow each other with other lines in between."""
    position = 0
    for found in re.finditer(r"^[\[{]", text, re.MULTILINE):
        if found.start() >= position:
            try:
                document, position = json.JSONDecoder().raw_decode(text, found.start())
            except (ValueError, RecursionError):
                continue
            yield document


def flatten(entry: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values by the path of their names; of `{"value": 16, "unit": "GT/s"}` the value."""
    flat = {}
    for name, value in entry.items():
        if isinstance(value, dict) and "value" not in value:
            flat |= flatten(value, f"{prefix}{name}/")
        else:
            flat[f"{prefix}{name}"] = value["value"] if isinstance(value, dict) else value
    return flat


def parse_rocm_smi(text: str, node: str) -> list[tuple[str, Row]]:
    """The GPUs of rocm-smi."""
    gpus: dict[int, dict[str, str]] = {}
    errors: dict[int, int] = {}
    driver, index = "", -1
    for line in text.splitlines():
        if found := re.match(r"GPU\[(\d+)\]\s*:\s*(.+?)(?::\s*(.*))?$", line):
            index = int(found[1])
            gpus.setdefault(index, {})[found[2].strip()] = found[3] or ""
        elif found := re.match(r"Driver version:\s*(.*)", line):
            driver = found[1]
        elif found := re.match(r"\s+[A-Z][A-Z0-9_]*\s+[A-Z ]+?\s+(\d+)\s+(\d+)\s*$", line):
            # Versions disagree on which of the two is the uncorrectable one: only the sum is safe.
            errors[index] = errors.get(index, 0) + int(found[1]) + int(found[2])
    rows = []
    for index, values in sorted(gpus.items()):
        row = make_row(node, index) | {"ecc_correctable_volatile": errors.get(index)}
        fill_columns(row, ROCM_SMI, values | {"Driver version": driver})
        link = re.search(r"([\d.]+)GT/s,? x(\d+)", values.get("pcie clock level", ""))
        if link:
            row["pcie_generation"] = PCIE_SPEEDS.get(float(link[1]))
            row["pcie_width"] = int(link[2])
        rows.append(("", row))
    return rows


def parse_node(text: str, node: str) -> list[Row]:
    """The GPUs of one node, from the output of the vendors' commands. Raises UsageError for a text
    without any, or one that is cut off."""
    found = parse_nvidia(text, node) or parse_amd_smi(text, node) or parse_rocm_smi(text, node)
    if not found:
        advice = "without -x" if "<nvidia_smi_log>" in text else "or amd-smi static --json"
        raise UsageError(f"{node}: no GPU in this text; save nvidia-smi -q, {advice}")
    rows = [row for _, row in found]
    attached = re.search(r"^Attached GPUs\s*: (\d+)$", text, re.MULTILINE)
    if attached and len(rows) < int(attached[1]):
        raise UsageError(f"{node}: the text is cut off: it has {len(rows)} of {attached[1]} GPUs")
    add_nvlinks(rows, text)
    xids = parse_xids(text)
    has_log = "NVRM:" in text or "dmesg" in text
    for address, row in found:
        seen = xids.pop(shorten_address(address), set())
        row["xids"] = " ".join(map(str, sorted(seen))) if seen or has_log else None
    if xids:  # a GPU that fell off the bus is not in the list any more
        numbers = sorted(set().union(*xids.values()))
        lost = {"model": LOST, "xids": " ".join(map(str, numbers))}
        rows.append(make_row(node, len(rows)) | lost)
    lines = re.findall(r"SXid \(PCI:[^)]*\): (\d+), (Fatal|Non-fatal)", text, re.IGNORECASE)
    if lines:
        words = sorted({f"{number} {kind.lower()}" for number, kind in lines})
        rows.append(make_row(node, len(rows)) | {"model": SWITCH, "sxids": ", ".join(words)})
    return rows


def parse_xids(text: str) -> dict[str, set[int]]:
    """Xid numbers of a kernel log by the address of the GPU, as far as bus and device."""
    found: dict[str, set[int]] = {}
    pattern = r"NVRM: Xid \(PCI:([0-9a-fA-F:]+?)(?:\.\d)?(?: [^)]*)?\): (\d+)"
    for address, number in re.findall(pattern, text):
        found.setdefault(shorten_address(address), set()).add(int(number))
    return found


def shorten_address(address: str) -> str:
    """`0a:1c` from `00000000:0A:1C.0`, `0000:0a:1c.0` and `0000:0a:1c`."""
    return ":".join(address.lower().partition(".")[0].split(":")[-2:])


def find_signs(row: Row) -> list[tuple[str, str]]:
    """What is wrong with a GPU by itself: how bad it is, and in words."""
    signs = [(how, words.format(row[column])) for how, column, words in RULES if row[column]]
    sram = row["sram_uncorrectable_aggregate"] or 0
    if row["sram_threshold_exceeded"] is None and sram > SRAM_LIMIT:
        signs.append(("fault", f"{sram} uncorrectable SRAM errors in its life"))
    for number in map(int, (row["xids"] or "").split()):
        if number in XIDS:
            severity, words = XIDS[number]
            signs.append((severity, f"Xid {number}: {words}"))
    for entry in filter(None, (row["sxids"] or "").split(", ")):
        number, _, kind = entry.partition(" ")
        if kind != "fatal":
            signs.append(("watch", f"SXid {number}, non-fatal: no reset by itself"))
        elif int(number) in FABRIC_SXIDS:
            signs.append(("reset", f"SXid {number}: reset all GPUs and NVSwitches, or restart"))
        else:
            words = f"SXid {number}, fatal: reset the GPU of its link and its job's"
            signs.append(("reset", words))
    width, widest = row["pcie_width"], row["pcie_width_max"]
    if width and widest and width < widest:
        signs.append(("fault", f"PCIe x{width} of x{widest}: reseat it, or look at its riser"))
    reasons = (row["throttle_reasons"] or "").split()
    signs += [("watch", BAD_THROTTLES[name]) for name in reasons if name in BAD_THROTTLES]
    now, top = row["pcie_generation"], row["pcie_generation_max"]
    if now and top and now < top and row["throttle_reasons"] is not None and "idle" not in reasons:
        signs.append(("watch", f"PCIe generation {now} of {top} though it is not idle"))
    up, links = row["nvlinks_up"], row["nvlinks"]
    if up and up < links:
        signs.append(("fault", f"{up} of {links} NVLinks are up"))
    if (row["pcie_replays"] or 0) > MANY_REPLAYS:
        signs.append(("watch", f"{row['pcie_replays']} PCIe replays"))
    return signs


def find_usual(values: Sequence[Any]) -> tuple[Any, int]:
    """What more than half of the known values are, and how many; (None, 0) where nothing is."""
    known = [value for value in values if value is not None]
    usual = max(dict.fromkeys(known), key=known.count, default=None)
    count = known.count(usual)
    return (usual, count) if 2 * count > len(known) else (None, 0)


def find_outliers(rows: Sequence[Row]) -> list[tuple[Row, str, str]]:
    """GPUs that are not like most others, of all or of their model, over all nodes together."""
    outliers = []
    gpus = [row for row in rows if row["model"] not in (None, LOST, SWITCH)]
    groups = [("model", gpus)]
    for model in dict.fromkeys(row["model"] for row in gpus):
        ours = [row for row in gpus if row["model"] == model]
        groups += [(column, ours) for column in (*ALIKE, "temperature_celsius")]
    for column, ours in groups:
        if len(ours) < FEWEST_TO_COMPARE:
            continue
        known = [row[column] for row in ours if row[column] is not None]
        usual, count = find_usual(known)
        middle = statistics.median(known) if known and column == "temperature_celsius" else 0
        for row in ours:
            value = row[column]
            if middle and (value or 0) > middle + HOT_CELSIUS:
                words = f"{value:.0f} °C, the median of its kind is {middle:.0f} °C"
                outliers.append((row, "watch", words))
            elif not middle and usual is not None and value not in (None, usual):
                words = f"{ALIKE.get(column, column)} {value}, {count} others have {usual}"
                outliers.append((row, "odd", words))
    return outliers


def judge_gpus(rows: Sequence[Row]) -> None:
    """Set the verdict of each GPU, the worst that applies, with its reasons, the worst first."""
    outliers = find_outliers(rows)
    for row in rows:
        signs = find_signs(row) + [(how, why) for one, how, why in outliers if one is row]
        signs.sort(key=lambda sign: SEVERITIES.index(sign[0]))
        row["verdict"] = signs[0][0] if signs else "ok"
        row["reasons"] = "; ".join(words for _, words in signs)


def find_missing(rows: Sequence[Row], nodes: Sequence[str], expected: int | None) -> list[str]:
    """Nodes that do not have the expected GPUs, or as many as most others."""
    listed = [row["node"] for row in rows if row["model"] not in (LOST, SWITCH)]
    counts = {node: listed.count(node) for node in nodes}
    usual, reason = expected, "expected"
    if usual is None and len(nodes) >= FEWEST_TO_COMPARE:
        usual, reason = find_usual(list(counts.values()))[0], "usual here"
    return [
        f"{node} has {count} GPUs, and {usual} are {reason}"
        for node, count in counts.items()
        if usual not in (None, count)
    ]


def read_this_node(report: Report) -> str:
    """The output of the vendor's commands on this machine, with a note on each that failed."""
    program = next((name for name in COMMANDS if shutil.which(name)), None)
    texts = []
    for command in COMMANDS[program] if program else ():
        try:
            done = subprocess.run(
                command.split(), capture_output=True, text=True, errors="replace", check=False,
                timeout=60,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            report.note(f"{command}: {error}")
            continue
        if done.returncode:
            first = (done.stderr or done.stdout).strip().partition("\n")[0]
            report.note(f"{command}: {first or f'status {done.returncode}'}")
        texts.append(f"{command}\n{done.stdout}" if done.stdout else "")
    return "\n".join(texts)


def make_demo(count: int, changes: Mapping[int, tuple[str, str]] | None = None) -> str:
    """The output of `nvidia-smi -q`, `nvlink -s` and `-e` for so many healthy GPUs, with a text
    replaced in some of them."""
    text = "Driver Version                            : 570.00.00\n"
    for index in range(count):
        old, new = (changes or {}).get(index, ("", ""))
        gpu = DEMO_GPU.replace("@", f"{index + 1:02X}")
        text += (gpu.replace(old, new) if old else gpu) + "\n"
    for index in range(count):
        text += f"GPU {index}: DEMO-GPU 80GB\n"
        for link in range(18):
            text += f"\t Link {link}: 26.562 GB/s\n\t Link {link}: CRC Errors: 0\n"
    return text


def print_gpus(rows: Sequence[Row]) -> None:
    """Print the table, a row per GPU."""

    def show(row: Row, *columns: str) -> str:
        values = [row[column] for column in columns]
        known = any(value is not None for value in values)
        return "/".join("-" if v is None else str(v) for v in values) if known else "-"

    cells = [
        (
            f"{row['node']} {row['gpu']}",
            row["model"],
            row["vbios"],
            show(row, "ecc_uncorrectable_volatile", "ecc_correctable_volatile"),
            show(row, "remapped_rows_uncorrectable", "remapped_rows_correctable"),
            show(row, "nvlinks_up", "nvlinks"),
            show(row, "nvlink_replay_errors", "nvlink_recovery_errors", "nvlink_crc_errors"),
            show(row, "pcie_width", "pcie_width_max"),
            show(row, "pcie_generation", "pcie_generation_max"),
            "none" if row["throttle_reasons"] == "" else row["throttle_reasons"],
            f"SXid {row['sxids']}"
            if row["sxids"]
            else "none"
            if row["xids"] == ""
            else row["xids"],
            "ok" if row["verdict"] == "ok" else f"**{row['verdict']}**",
            row["reasons"] or "-",
        )
        for row in rows
    ]
    headings = ("GPU", "model", "VBIOS", "ECC u/c", "remapped u/c", "NVLinks", "replay/rec./CRC",
                "PCIe x", "PCIe gen.", "throttle", "Xid", "verdict", "why")  # fmt: skip
    print(format_table(headings, cells))


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(
        __doc__, tool="gpu_health", version=__version__, method=METHOD, demo=PROFILES["demo"]
    )
    add = parser.add_argument
    add("files", nargs="*", type=Path, metavar="FILE", help="saved output, one file per node")
    add("--expect", type=positive_int, metavar="N", help="GPUs that each node should have")
    add("--brief", action="store_true", help="print only GPUs that are not ok")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    options = build_parser().parse_args(arguments)
    report = Report("gpu_health", __version__, METHOD, UNITS, options.json)
    texts = {}
    for path in options.files:
        try:
            name = path.name if path.stem in texts else path.stem
            texts[name] = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror}") from error
    if options.demo:
        texts = {"demo": make_demo(8, DEMO_CHANGES)}
    elif not texts:
        texts = {"this node": read_this_node(report)}
    for node, text in texts.items():
        try:
            report.rows += parse_node(text, node)
        except UsageError:
            if options.files:
                raise
    judge_gpus(report.rows)
    missing = find_missing(report.rows, list(texts), options.expect)
    if not report.rows:
        missing.append("no accelerator was found: no nvidia-smi, amd-smi or rocm-smi answers here")
    shown = [row for row in report.rows if row["verdict"] != "ok" or not options.brief]
    if shown:
        print_gpus(shown)
    for text in missing:
        print(f"problem: {text}", file=sys.stderr)
    verdicts = [row["verdict"] for row in report.rows]
    if verdicts:
        counts = [f"{verdicts.count(word)} {word}" for word in SEVERITIES if word in verdicts]
        gpus = sum(row["model"] != SWITCH for row in report.rows)
        ending = ": all are ok and alike" if set(verdicts) == {"ok"} and not missing else ""
        print(f"{gpus} GPUs of {len(texts)} nodes: {', '.join(counts)}{ending}", file=sys.stderr)
    report.details = {"nodes": list(texts), "missing": missing, "expected": options.expect}
    report.complete = bool(report.rows)
    report.save()
    if options.demo:
        return int(verdicts != DEMO_ANSWER)
    return int(bool(missing) or set(verdicts) != {"ok"})


if __name__ == "__main__":
    start(main)
