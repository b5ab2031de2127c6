#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Are all GPUs of this node, and of these nodes, healthy and alike?

Reads the error counters and settings of each GPU, from the vendor's commands or from their saved
output, prints a row per GPU with a verdict and the reasons, and names the outliers.

## What is read

ECC errors, remapped rows, NVLinks and their errors, PCIe width, generation and replays, throttle
reasons of this moment, Xid and SXid lines of the kernel log, and what should be the same on all
GPUs of a model: VBIOS, driver, ECC mode, power limit. The verdict is the worst that applies:

- `fault`: take the GPU out of service; it or its link has failed
- `reset`: a reset of the GPU, or a reboot of the node, is due
- `watch`: an early sign, or a state that should not be; look again after the next job
- `odd`: healthy by itself, but unlike most others of its model
- `ok`: counters are clean, which does not prove correct results under load

## How to run

    sudo python3 gpu_health.py --expect 8    # root for the kernel log
    srun --ntasks-per-node=1 python gpu_health.py --expect 8 --brief
    # many nodes: save on each, then read once
    (nvidia-smi -q; nvidia-smi nvlink -s; nvidia-smi nvlink -e; dmesg | grep -i xid) \
        > /shared/$(hostname).txt
    (amd-smi static --json; amd-smi metric --json) > /shared/$(hostname).txt
    python gpu_health.py --expect 8 /shared/*.txt

One file is one node. The text of `rocm-smi -a --showrasinfo --showxgmierr` is read too. Serial
numbers, UUIDs and addresses are never written.

## A good answer

Every row is `ok`, every node has its GPUs, and the last line says that all are alike.

Exit status: 0 all is well; 1 something was found, or no accelerator was; 2 wrong use.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, positive_int, start
from kit.report import Report, Row, format_table

__version__ = "0.5.0"
METHOD = 4

PROFILES = {"demo": ["--demo"], "full": []}
COUNTS = (
    "gpu", "ecc_uncorrectable_volatile", "ecc_correctable_volatile", "remapped_rows_correctable",
    "remapped_rows_uncorrectable", "banks_without_spares", "pcie_generation_max", "pcie_width",
    "pcie_width_max", "pcie_replays", "nvlinks_up", "nvlinks", "nvlink_replay_errors",
    "nvlink_recovery_errors", "nvlink_crc_errors", "xgmi_errors",
)  # fmt: skip
UNITS = {**dict.fromkeys(COUNTS, "1"), "power_limit_watts": "W"}
FLAGS = ("sram_threshold_exceeded", "remap_pending", "remap_failure")
TEXTS = ("model", "vbios", "driver", "ecc_mode", "recovery_action", "throttle_reasons", "xids",
         "sxids")  # fmt: skip
# Column -> where its value is; `|` separates places of which the first counts, `+` those that are
# added up.
NVIDIA = {
    "model": "Product Name",
    "vbios": "VBIOS Version",
    "driver": "Driver Version",
    "ecc_mode": "ECC Mode/Current",
    "recovery_action": "GPU Recovery Action",
    "ecc_uncorrectable_volatile": "ECC Errors/Volatile/SRAM Uncorrectable Parity"
    "+ECC Errors/Volatile/SRAM Uncorrectable SEC-DED+ECC Errors/Volatile/DRAM Uncorrectable",
    "ecc_correctable_volatile": "ECC Errors/Volatile/SRAM Correctable"
    "+ECC Errors/Volatile/DRAM Correctable",
    "sram_threshold_exceeded": "ECC Errors/Aggregate/SRAM Threshold Exceeded",
    "remapped_rows_correctable": "Remapped Rows/Correctable Error",
    "remapped_rows_uncorrectable": "Remapped Rows/Uncorrectable Error",
    "remap_pending": "Remapped Rows/Pending",
    "remap_failure": "Remapped Rows/Remapping Failure Occurred",
    "banks_without_spares": "Remapped Rows/Bank Remap Availability Histogram/Low"
    "+Remapped Rows/Bank Remap Availability Histogram/None",
    "pcie_generation_max": "PCI/GPU Link Info/PCIe Generation/Max",
    "pcie_width": "PCI/GPU Link Info/Link Width/Current",
    "pcie_width_max": "PCI/GPU Link Info/Link Width/Max",
    "pcie_replays": "PCI/Replays Since Reset",
    "power_limit_watts": "GPU Power Readings/Current Power Limit",
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
    "power_limit_watts": "limit/socket_power|limit/max_power",
}
ROCM_SMI = {
    "model": "Card Series|Card series|Card model",
    "vbios": "VBIOS version",
    "pcie_replays": "PCIe Replay Count",
    "xgmi_errors": "XGMI Error count",
    "power_limit_watts": "Max Graphics Package Power (W)",
}
ALIKE = ("vbios", "driver", "ecc_mode", "pcie_generation_max", "pcie_width_max", "nvlinks",
         "nvlinks_up", "power_limit_watts")  # fmt: skip
"""What a GPU has to share with most others of its model."""
FEWEST_TO_COMPARE = 3
SEVERITIES = ("fault", "reset", "watch", "odd", "ok")
XIDS = {
    **dict.fromkeys((54, 79), "fault"),
    **dict.fromkeys((46, 48, 62, 64, 74, 94, 95, 109, 110, 119, 120, 136, 140, 143), "reset"),
    **dict.fromkeys((155, 156, 158, 171, 172), "reset"),
    **dict.fromkeys((32, 63, 92, 121, *range(144, 151), 154, 157), "watch"),
}
"""Numbers of NVIDIA's Xid catalogue that concern the hardware, as in
book/data/xid_codes.csv."""
FABRIC_SXIDS = {10003, 12020, 22003, 22011, *range(23001, 23018)}
"""Numbers of the Fabric Manager guide that are fatal to the whole fabric, not to one GPU."""
LOST, SWITCH = "not listed", "NVSwitch"
"""The model of a row that is not a GPU of the list: one that is lost, and the switches."""
BAD_THROTTLES = re.compile("hw_.*slowdown|.*thermal.*")
"""Heat or the power supply lowers the clocks; idle and sw_power_cap are normal."""
# Severity, column that must not be set (or not be above 0), and words with its value.
RULES = (
    ("fault", "remap_failure", "a row of memory could not be remapped: replace the GPU"),
    ("fault", "sram_threshold_exceeded", "too many uncorrectable SRAM errors in its life"),
    ("reset", "remap_pending", "remapped rows wait for a reset"),
    ("reset", "recovery_action", "the driver asks for: {}"),
    ("reset", "ecc_uncorrectable_volatile", "{} uncorrectable ECC errors since the driver loaded"),
    ("watch", "nvlink_replay_errors", "{} NVLink replay errors"),
    ("watch", "nvlink_recovery_errors", "{} NVLink recovery errors"),
    ("watch", "nvlink_crc_errors", "{} NVLink CRC errors"),
    ("watch", "xgmi_errors", "{} XGMI errors since they were last read"),
    ("watch", "banks_without_spares", "{} memory banks have few or no spare rows left"),
    ("watch", "remapped_rows_uncorrectable", "{} rows were remapped for uncorrectable errors"),
)
# Heading -> columns.
TABLE = {
    "model": ["model"],
    "VBIOS": ["vbios"],
    "ECC u/c": ["ecc_uncorrectable_volatile", "ecc_correctable_volatile"],
    "remapped u/c": ["remapped_rows_uncorrectable", "remapped_rows_correctable"],
    "NVLinks": ["nvlinks_up", "nvlinks"],
    "replay/rec./CRC": ["nvlink_replay_errors", "nvlink_recovery_errors", "nvlink_crc_errors"],
    "PCIe x": ["pcie_width", "pcie_width_max"],
    "throttle": ["throttle_reasons"],
    "Xid": ["xids"],
    "verdict": ["verdict"],
    "why": ["reasons"],
}
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
            Link Width
                Max                       : 16x
                Current                   : 16x
    Clocks Event Reasons
        Idle                              : Active
        HW Slowdown                       : Not Active
            HW Thermal Slowdown           : Not Active
    ECC Errors
        Volatile
            DRAM Correctable              : 0
            DRAM Uncorrectable            : 0
        Aggregate
            SRAM Threshold Exceeded       : No
    Remapped Rows
        Pending                           : No
        Remapping Failure Occurred        : No
        Bank Remap Availability Histogram
            Low                           : 0 bank(s)
    GPU Power Readings
        Current Power Limit               : 700.00 W"""
DEMO_CHANGES = {
    3: ("Pending                           : No", "Pending : Yes"),
    5: ("VBIOS Version                         : 96", "VBIOS Version : 95"),
}
DEMO_ANSWER = ["ok", "ok", "ok", "reset", "ok", "odd", "ok", "ok"]


def make_row(node: str, index: int, table: Mapping[str, str], values: Mapping[str, Any]) -> Row:
    """A GPU, with the columns of a table taken from values by their places."""
    row: Row = {"node": node, **dict.fromkeys((*TEXTS, *FLAGS, *UNITS)), "gpu": index}
    for column, places in table.items():
        for place in places.split("|"):
            read = [read_value(column, values.get(part)) for part in place.split("+")]
            known = [value for value in read if value is not None]
            if known and row[column] is None:
                row[column] = sum(known) if column in UNITS else known[0]
    return row


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
        row = make_row(node, index, NVIDIA, values)
        reasons = {path: value for path, value in values.items() if path.startswith("Clocks Event")}
        if reasons:
            active = [path.rpartition("/")[2] for path in reasons if reasons[path] == "Active"]
            row["throttle_reasons"] = " ".join(name.lower().replace(" ", "_") for name in active)
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


def parse_amd_smi(text: str, node: str) -> list[Row]:
    """The GPUs of `amd-smi static --json` and `amd-smi metric --json`, merged by number."""
    merged: dict[int, dict[str, Any]] = {}
    for document in find_json(text):
        entries = document.get("gpu_data", []) if isinstance(document, dict) else document
        for entry in entries:
            if isinstance(entry, dict) and "gpu" in entry:  # `[12.3]` opens a line of dmesg
                merged.setdefault(entry["gpu"], {}).update(flatten(entry))
    rows = []
    for index, values in sorted(merged.items()):
        row = make_row(node, index, AMD_SMI, values)
        active = [
            path.split("/")[1].removesuffix("_violation_status")
            for path, value in values.items()
            if re.fullmatch("throttle/.*_violation_status", path) and value == "ACTIVE"
        ]
        row["throttle_reasons"] = " ".join(active)
        rows.append(row)
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


def parse_rocm_smi(text: str, node: str) -> list[Row]:
    """The GPUs of rocm-smi."""
    gpus: dict[int, dict[str, str]] = {}
    for index, name, value in re.findall(r"^GPU\[(\d+)\]\s*:\s*(.+?):\s*(.*)$", text, re.MULTILINE):
        gpus.setdefault(int(index), {})[name] = value
    return [make_row(node, index, ROCM_SMI, gpus[index]) for index in sorted(gpus)]


def parse_node(text: str, node: str) -> list[Row]:
    """The GPUs of one node, from the output of the vendors' commands."""
    found = parse_nvidia(text, node)
    rows = [row for _, row in found] or parse_amd_smi(text, node) or parse_rocm_smi(text, node)
    if not rows:
        raise UsageError(f"{node}: no GPU here; save nvidia-smi -q or amd-smi static --json")
    add_nvlinks(rows, text)
    xids = parse_xids(text)
    has_log = "NVRM:" in text or "dmesg" in text
    for address, row in found:
        seen = xids.pop(shorten_address(address), set())
        row["xids"] = " ".join(map(str, sorted(seen))) if seen or has_log else None
    if xids:  # a GPU that fell off the bus is not in the list any more
        numbers = sorted(set().union(*xids.values()))
        lost = {"model": LOST, "xids": " ".join(map(str, numbers))}
        rows.append(make_row(node, len(rows), {}, {}) | lost)
    lines = re.findall(r"SXid \(PCI:[^)]*\): (\d+), (Fatal|Non-fatal)", text, re.IGNORECASE)
    if lines:
        words = sorted({f"{number} {kind.lower()}" for number, kind in lines})
        switch = {"model": SWITCH, "sxids": ", ".join(words)}
        rows.append(make_row(node, len(rows), {}, {}) | switch)
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


def find_signs(row: Row, linked: bool) -> list[tuple[str, str]]:
    """What is wrong with a GPU: how bad it is, and in words; linked: NVLinks of its node are up."""
    signs = [(how, words.format(row[column])) for how, column, words in RULES if row[column]]
    for number in map(int, (row["xids"] or "").split()):
        if number in XIDS:
            signs.append((XIDS[number], f"Xid {number} in the kernel log"))
    for entry in filter(None, (row["sxids"] or "").split(", ")):
        if "non-fatal" in entry:
            signs.append(("watch", f"SXid {entry}: no reset by itself"))
        elif int(entry.partition(" ")[0]) in FABRIC_SXIDS:
            signs.append(("reset", f"SXid {entry}: reset all GPUs and NVSwitches, or restart"))
        else:
            signs.append(("reset", f"SXid {entry}: reset the GPU of its link and its job's"))
    width, widest = row["pcie_width"], row["pcie_width_max"]
    if width and widest and width < widest:
        signs.append(("fault", f"PCIe x{width} of x{widest}: reseat it, or look at its riser"))
    reasons = (row["throttle_reasons"] or "").split()
    signs += [("watch", f"clocks lowered: {name}") for name in reasons if BAD_THROTTLES.match(name)]
    up, links = row["nvlinks_up"], row["nvlinks"]
    if links and up < links and linked:  # a node without bridges has none up
        signs.append(("fault", f"{up} of {links} NVLinks are up"))
    return signs


def find_outliers(rows: Sequence[Row]) -> list[tuple[Row, str, str]]:
    """GPUs that are not like more than half of all or of their model, over all nodes together."""
    outliers = []
    gpus = [row for row in rows if row["model"] not in (None, LOST, SWITCH)]
    groups = [("model", gpus)]
    for model in dict.fromkeys(row["model"] for row in gpus):
        groups += [(column, [row for row in gpus if row["model"] == model]) for column in ALIKE]
    for column, ours in groups:
        known = [row[column] for row in ours if row[column] is not None]
        usual = max(dict.fromkeys(known), key=known.count, default=None)
        if len(known) >= FEWEST_TO_COMPARE and 2 * known.count(usual) > len(known):
            words = f"{column.replace('_', ' ')} {{}}, most have {usual}"
            odd = [row for row in ours if row[column] not in (None, usual)]
            outliers += [(row, "odd", words.format(row[column])) for row in odd]
    return outliers


def judge_gpus(rows: Sequence[Row]) -> None:
    """Set the verdict of each GPU, the worst that applies, with its reasons, the worst first."""
    outliers = find_outliers(rows)
    linked = {row["node"] for row in rows if row["nvlinks_up"]}
    for row in rows:
        signs = find_signs(row, row["node"] in linked)
        signs += [(how, why) for one, how, why in outliers if one is row]
        signs.sort(key=lambda sign: SEVERITIES.index(sign[0]))
        row["verdict"] = signs[0][0] if signs else "ok"
        row["reasons"] = "; ".join(words for _, words in signs)


def find_missing(rows: Sequence[Row], nodes: Sequence[str], expected: int | None) -> list[str]:
    """Nodes that do not have the expected GPUs."""
    listed = [row["node"] for row in rows if row["model"] not in (LOST, SWITCH)]
    return [
        f"{node} has {listed.count(node)} GPUs, and {expected} are expected"
        for node in nodes
        if expected not in (None, listed.count(node))
    ]


def read_this_node(report: Report) -> str:
    """The output of the vendor's commands on this machine, with a note on each that failed."""
    program = next((name for name in COMMANDS if shutil.which(name)), None)
    texts = []
    for command in COMMANDS[program] if program else ():
        try:
            done = subprocess.run(command.split(), capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired) as error:
            report.note(f"{command}: {error}")
            continue
        if done.returncode:
            report.note(f"{command}: {(done.stderr or done.stdout).strip()}")
        texts += [command, done.stdout]
    return "\n".join(texts)


def make_demo(count: int, changes: Mapping[int, tuple[str, str]] | None = None) -> str:
    """The output of `nvidia-smi -q`, `nvlink -s` and `-e` for so many healthy GPUs, with a text
    replaced in some of them."""
    text = "Driver Version                            : 570.00.00\n"
    for index in range(count):
        gpu = DEMO_GPU.replace("@", f"{index + 1:02X}")
        text += gpu.replace(*(changes or {}).get(index, ("", ""))) + "\n"
    for index in range(count):
        text += f"GPU {index}: DEMO-GPU 80GB\n"
        for link in range(18):
            text += f"\t Link {link}: 26.562 GB/s\n\t Link {link}: CRC Errors: 0\n"
    return text


def print_gpus(rows: Sequence[Row]) -> None:
    """Print the table, a row per GPU."""
    cells = []
    for row in rows:
        values = {**row, "xids": f"SXid {row['sxids']}" if row["sxids"] else row["xids"]}
        texts = [
            ["-" if values[c] is None else str(values[c]) for c in cs] for cs in TABLE.values()
        ]
        shown = ["-" if set(parts) == {"-"} else "/".join(parts) or "none" for parts in texts]
        cells.append([f"{row['node']} {row['gpu']}", *shown])
    print(format_table(["GPU", *TABLE], cells))


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
    if options.demo:
        texts = {"demo": make_demo(8, DEMO_CHANGES)}
    elif options.files:
        if len({path.stem for path in options.files}) < len(options.files):
            raise UsageError("two files have the same name: one file is one node")
        texts = {path.stem: path.read_text(errors="replace") for path in options.files}
    else:
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
