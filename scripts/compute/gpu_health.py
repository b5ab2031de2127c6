#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Are all GPUs of these nodes healthy, and do they match each other?

Reads the error counters and settings of each GPU, from the vendor's commands or from their saved
output, prints a row per GPU with a verdict and the reasons, and names the outliers.

## What is read

ECC errors, remapped rows, NVLinks and their errors, PCIe width, generation and replays, current
throttle reasons, Xid and SXid lines of the kernel log, and what should be the same on all GPUs of a
model: VBIOS, driver, ECC mode, power limit. The verdict is the worst that applies:

- `fault`: take the GPU out of service; it or its link has failed
- `reset`: reset the GPU or reboot the node
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

Every row is `ok`, every node has its GPUs, and the last line says that they match.

Exit status: 0 all is well; 1 a problem, or no accelerator, was found; 2 usage error.
"""

import contextlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, positive_int, start
from kit.report import Report, Row, format_table

__version__ = "0.5.0"
METHOD = 4

PROFILES = {"demo": ["--demo"], "full": []}
ECC = "ECC Errors/Volatile/"
# Column: its unit, `text` or `flag`, and where nvidia-smi -q, amd-smi --json and rocm-smi have it.
# Of places separated by `|` the first found counts; those joined by `+` are added up.
COLUMNS = {
    "model": ("text", "Product Name", "asic/market_name", "Card Series|Card series|Card model"),
    "vbios": ("text", "VBIOS Version", "vbios/version|ifwi/version", "VBIOS version"),
    "driver": ("text", "Driver Version", "driver/version"),
    "ecc_mode": ("text", "ECC Mode/Current"),
    "recovery_action": ("text", "GPU Recovery Action"),
    "throttle_reasons": ("text",),
    "xids": ("text",),
    "sxids": ("text",),
    "sram_threshold_exceeded": ("flag", "ECC Errors/Aggregate/SRAM Threshold Exceeded"),
    "remap_pending": ("flag", "Remapped Rows/Pending"),
    "remap_failure": ("flag", "Remapped Rows/Remapping Failure Occurred"),
    "ecc_uncorrectable_volatile": (
        "1", ECC + "SRAM Uncorrectable Parity+SRAM Uncorrectable SEC-DED+DRAM Uncorrectable",
        "ecc/total_uncorrectable_count",
    ),
    "ecc_correctable_volatile": (
        "1", ECC + "SRAM Correctable+DRAM Correctable", "ecc/total_correctable_count"
    ),
    "remapped_rows_correctable": ("1", "Remapped Rows/Correctable Error"),
    "remapped_rows_uncorrectable": ("1", "Remapped Rows/Uncorrectable Error"),
    "banks_without_spares": ("1", "Remapped Rows/Bank Remap Availability Histogram/Low+None"),
    "pcie_generation_max": ("1", "PCI/GPU Link Info/PCIe Generation/Max"),
    "pcie_width": ("1", "PCI/GPU Link Info/Link Width/Current", "pcie/width"),
    "pcie_width_max": ("1", "PCI/GPU Link Info/Link Width/Max", "bus/max_pcie_width"),
    "pcie_replays": ("1", "PCI/Replays Since Reset", "pcie/replay_count", "PCIe Replay Count"),
    "nvlinks_up": ("1",),
    "nvlinks": ("1",),
    "nvlink_replay_errors": ("1",),
    "nvlink_recovery_errors": ("1",),
    "nvlink_crc_errors": ("1",),
    "xgmi_errors": ("1", "", "xgmi_err", "XGMI Error count"),
    "power_limit_watts": (
        "W", "GPU Power Readings/Current Power Limit", "limit/socket_power|limit/max_power",
        "Max Graphics Package Power (W)",
    ),
}  # fmt: skip
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
ACTIVE = ("Active", "ACTIVE")
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
DEMO_GPU = {
    "Product Name": "DEMO-GPU 80GB",
    "VBIOS Version": "96.00.00.00.01",
    "GPU Recovery Action": "None",
    "PCI/GPU Link Info/Link Width/Max": "16x",
    "PCI/GPU Link Info/Link Width/Current": "16x",
    "Clocks Event Reasons/Idle": "Active",
    "Clocks Event Reasons/HW Thermal Slowdown": "Not Active",
    "ECC Errors/Volatile/DRAM Correctable": "0",
    "ECC Errors/Volatile/DRAM Uncorrectable": "0",
    "ECC Errors/Aggregate/SRAM Threshold Exceeded": "No",
    "Remapped Rows/Pending": "No",
    "Remapped Rows/Remapping Failure Occurred": "No",
    "Remapped Rows/Bank Remap Availability Histogram/Low": "0 bank(s)",
    "GPU Power Readings/Current Power Limit": "700.00 W",
}
DEMO_CHANGES = {3: {"Remapped Rows/Pending": "Yes"}, 5: {"VBIOS Version": "95.00.00.00.01"}}
DEMO_ANSWER = ["ok", "ok", "ok", "reset", "ok", "odd", "ok", "ok"]


def make_row(node: str, index: int, program: int, values: Mapping[str, Any]) -> Row:
    """A GPU, with its columns taken from what a program printed, by their places."""
    row: Row = {"node": node, "gpu": index, **dict.fromkeys(COLUMNS)}
    for column, (kind, *places) in COLUMNS.items():
        for place in places[program].split("|") if program < len(places) else ():
            folder = place[: place.rfind("/") + 1]
            names = place.removeprefix(folder).split("+")
            read = [read_value(kind, values.get(folder + name)) for name in names]
            known = [value for value in read if value is not None]
            if known and row[column] is None:
                row[column] = known[0] if kind in ("text", "flag") else sum(known)
    throttles = [path for path in values if path.startswith(("Clocks Event", "throttle/"))]
    active = [path.split("/")[-1].lower() for path in throttles if values[path] in ACTIVE]
    if throttles:
        names = [name.replace(" ", "_").removesuffix("_violation_status") for name in active]
        row["throttle_reasons"] = " ".join(names)
    return row


def read_value(kind: str, value: Any) -> Any:
    """A text, a flag (`Yes`, `No`) or the number that a value starts with; None for `N/A`."""
    text = " ".join(str(value).split())
    if kind == "flag":
        return {"yes": True, "no": False}.get(text.lower())
    if kind == "text":
        return None if text.upper() in ("", "N/A", "NONE", "[N/A]", "NOT SUPPORTED") else text
    found = re.match(r"\d+(\.\d+)?", text)
    return found and (float(found[0]) if found[1] else int(found[0]))


def parse_nvidia(text: str) -> list[dict[str, str]]:
    """The GPUs of `nvidia-smi -q`, values by the path of their names and `address`.

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
    return gpus


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


def parse_amd_smi(text: str) -> list[dict[str, Any]]:
    """The GPUs of `amd-smi static --json` and `amd-smi metric --json`, merged by number."""
    merged: dict[int, dict[str, Any]] = {}
    for found in re.finditer(r"^[\[{]", text, re.MULTILINE):
        with contextlib.suppress(ValueError):
            document, _ = json.JSONDecoder().raw_decode(text, found.start())
            for entry in document.get("gpu_data", []) if isinstance(document, dict) else document:
                if isinstance(entry, dict) and "gpu" in entry:  # `[12.3]` opens a line of dmesg
                    merged.setdefault(entry["gpu"], {}).update(flatten(entry))
    return [merged[index] for index in sorted(merged)]


def flatten(entry: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Values by the path of their names; of `{"value": 16, "unit": "GT/s"}` the value."""
    flat: dict[str, Any] = {}
    for name, value in entry.items():
        if isinstance(value, dict) and "value" not in value:
            flat |= flatten(value, f"{prefix}{name}/")
        else:
            flat[f"{prefix}{name}"] = value["value"] if isinstance(value, dict) else value
    return flat


def parse_rocm_smi(text: str) -> list[dict[str, str]]:
    """The GPUs of rocm-smi."""
    gpus: dict[int, dict[str, str]] = {}
    for index, name, value in re.findall(r"^GPU\[(\d+)\]\s*:\s*(.+?):\s*(.*)$", text, re.MULTILINE):
        gpus.setdefault(int(index), {})[name] = value
    return [gpus[index] for index in sorted(gpus)]


def parse_node(text: str, node: str) -> list[Row]:
    """The GPUs of one node; one that fell off the bus, and the NVSwitches, have no counters."""
    parsed = [parse(text) for parse in (parse_nvidia, parse_amd_smi, parse_rocm_smi)]
    program, gpus = next(((i, gpus) for i, gpus in enumerate(parsed) if gpus), (0, []))
    if not gpus:
        return []
    rows = [make_row(node, index, program, values) for index, values in enumerate(gpus)]
    add_nvlinks(rows, text)
    xids: dict[str, set[int]] = {}
    pattern = r"NVRM: Xid \(PCI:([0-9a-fA-F:]+?)(?:\.\d)?(?: [^)]*)?\): (\d+)"
    for address, number in re.findall(pattern, text):
        xids.setdefault(shorten_address(address), set()).add(int(number))
    has_log = "NVRM:" in text or "dmesg" in text
    for row, values in zip(rows, gpus, strict=True):
        seen = sorted(xids.pop(shorten_address(values.get("address", "")), ()))
        row["xids"] = " ".join(map(str, seen)) if has_log else None
    empty = make_row(node, len(rows), 0, {})
    if xids:
        seen = sorted(set().union(*xids.values()))
        rows.append(empty | {"model": LOST, "xids": " ".join(map(str, seen))})
    if lines := re.findall(r"SXid \(PCI:[^)]*\): (\d+), (Fatal|Non-fatal)", text):
        sxids = ", ".join(sorted({f"{number} {kind.lower()}" for number, kind in lines}))
        rows.append(empty | {"gpu": len(rows), "model": SWITCH, "sxids": sxids})
    return rows


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


def make_demo(count: int, changes: Mapping[int, Mapping[str, str]]) -> str:
    """The output of nvidia-smi for `count` healthy GPUs, with values changed in some of them."""
    lines = ["Driver Version : 570.00.00"]
    for index in range(count):
        lines.append(f"GPU 00000000:{index + 1:02X}:00.0")
        for path, value in {**DEMO_GPU, **changes.get(index, {})}.items():
            names = path.split("/")
            lines += [f"{'    ' * depth}{name}" for depth, name in enumerate(names, start=1)]
            lines[-1] += f" : {value}"
    for index in range(count):
        lines.append(f"GPU {index}: DEMO-GPU 80GB")
        for link in range(18):
            lines += [f"\t Link {link}: 26.562 GB/s", f"\t Link {link}: CRC Errors: 0"]
    return "\n".join([*lines, ""])


def print_gpus(rows: Sequence[Row]) -> None:
    """Print the table, a row per GPU."""
    cells = []
    for row in rows:
        values = {**row, "xids": f"SXid {row['sxids']}" if row["sxids"] else row["xids"]}
        shown = [f"{row['node']} {row['gpu']}"]
        for columns in TABLE.values():
            parts = ["-" if values[name] is None else str(values[name]) for name in columns]
            shown.append("-" if set(parts) == {"-"} else "/".join(parts) or "none")
        cells.append(shown)
    print(format_table(["GPU", *TABLE], cells))


def build_parser() -> Parser:
    parser = Parser(__doc__, "gpu_health", __version__, METHOD, PROFILES["demo"])
    add = parser.add_argument
    add("files", nargs="*", type=Path, metavar="FILE", help="saved output, one file per node")
    add("--expect", type=positive_int, metavar="N", help="GPUs that each node should have")
    add("--brief", action="store_true", help="print only GPUs that are not ok")
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    report = Report("gpu_health", __version__, METHOD, options.json)
    if options.demo:
        texts = {"demo": make_demo(8, DEMO_CHANGES)}
    elif options.files:
        if len({path.stem for path in options.files}) < len(options.files):
            raise UsageError("two files have the same name: one file is one node")
        texts = {path.stem: path.read_text(errors="replace") for path in options.files}
    else:
        texts = {"this node": read_this_node(report)}
    for node, text in texts.items():
        rows = parse_node(text, node)
        if options.files and not rows:
            raise UsageError(f"{node}: no GPU here; save nvidia-smi -q or amd-smi static --json")
        report.rows += rows
    judge_gpus(report.rows)
    listed = [row["node"] for row in report.rows if row["model"] not in (LOST, SWITCH)]
    missing = [
        f"{node} has {listed.count(node)} GPUs, and {options.expect} are expected"
        for node in texts
        if options.expect not in (None, listed.count(node))
    ]
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
    ending = ": all are ok and match" if set(verdicts) == {"ok"} and not missing else ""
    print(f"{gpus} GPUs of {len(texts)} nodes: {', '.join(counts)}{ending}", file=sys.stderr)
    report.details = {"nodes": list(texts), "missing": missing, "expected": options.expect}
    report.complete = bool(report.rows)
    report.save()
    if options.demo:
        return int(verdicts != DEMO_ANSWER)
    return int(bool(missing) or set(verdicts) != {"ok"})


if __name__ == "__main__":
    start(main)
