#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Are all GPUs of this node, and of these nodes, healthy and alike?

A training job runs at the speed of its worst GPU, and fails with it. Much of what goes wrong shows
in counters that nobody reads until then. This tool reads them all, from the vendor's command or
from texts that were saved on many nodes, puts one GPU in each row, says which one to look at and
why, and which one is not like the others.

What is read, and what it means
    ECC errors          volatile: since the driver was loaded; aggregate: since the GPU was made.
                        Corrected ones are harmless in small numbers, uncorrectable ones end the job
    remapped rows       a row of memory that failed is replaced by a spare one at the next reset:
                        pending means reset it, failed means no spare could be used
    NVLink              links that are up, their speed, and replays, recoveries and CRC errors
    PCIe                width and generation of the link now and at most, and replays. A lower
                        generation is normal while the GPU idles; a lower width never is
    throttle reasons    why the clocks are held back at this moment. idle and sw_power_cap are
                        normal; heat and the hardware's own brake are not
    Xid                 what the NVIDIA driver wrote to the kernel log, by GPU
    SXid                what it wrote about the NVSwitches of a board up to Hopper; they get a row
                        of their own, because a line names a switch and not a GPU
    VBIOS, driver       which should be one and the same on all GPUs of a kind
Verdicts, the worst that applies
    fault    take it out of service: the hardware or its link has failed
    reset    a reset of the GPU, or a reboot of the node, is due
    watch    an early sign, or a state that should not be; look again after the next job
    odd      healthy by itself, but not like most others of its model
    ok       none of these: counters are clean, which is no proof of right results under load

How to run
    this node    python gpu_health.py --expect 8
    many nodes   on each:  (nvidia-smi -q; nvidia-smi nvlink -s; nvidia-smi nvlink -e; \
                               dmesg | grep -i xid) > /shared/$(hostname).txt
                 then once:  python gpu_health.py --expect 8 /shared/*.txt
                 AMD:  (amd-smi static --json; amd-smi metric --json), or rocm-smi -a \
                               --showrasinfo --showxgmierr
    Slurm        srun --ntasks-per-node=1 python gpu_health.py --expect 8 --brief
    pdsh         pdsh -w node[01-08] python /shared/gpu_health.py --expect 8 --brief
    One file is one node, whatever texts are in it: nvidia-smi -q as text or XML (-x), nvlink -s
    and -e, the kernel log, amd-smi in JSON, rocm-smi as text or JSON.

A good answer: every row is ok, every node has its GPUs, and the last line says that all are alike.

Exit status: 0 all is well, 1 something was found, no accelerator was found, or stopped by a
signal, 2 wrong use. Seen running so far: on saved texts of the forms above, never beside a GPU.
Serial numbers, UUIDs and addresses are never written; a node is called as its file is.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

__version__ = "0.3.0"
METHOD = 3

# Plain literals: a runner reads them without importing this file.
PROFILES = {"toy": ["--sample"], "full": []}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "gpu": "1",
    "ecc_uncorrectable_volatile": "1",
    "ecc_uncorrectable_aggregate": "1",
    "ecc_correctable_volatile": "1",
    "sram_uncorrectable_aggregate": "1",
    "remapped_rows_correctable": "1",
    "remapped_rows_uncorrectable": "1",
    "banks_without_spares": "1",
    "pcie_generation": "1",
    "pcie_generation_max": "1",
    "pcie_width": "1",
    "pcie_width_max": "1",
    "pcie_replays": "1",
    "nvlinks_up": "1",
    "nvlinks": "1",
    "nvlink_bytes_per_second_min": "B/s",
    "nvlink_replay_errors": "1",
    "nvlink_recovery_errors": "1",
    "nvlink_crc_errors": "1",
    "xgmi_errors": "1",
    "temperature_celsius": "degC",
    "power_limit_watts": "W",
}
TEXTS = (
    "model",
    "vbios",
    "driver",
    "ecc_mode",
    "recovery_action",
    "throttle_reasons",
    "xids",
    "sxids",
)
FLAGS = (
    *("sram_threshold_exceeded", "remap_pending", "remap_failure", "retirement_pending"),
    *("repair_pending", "unrepairable_memory"),
)

# What a GPU has to share with most others of its model.
ALIKE = {
    "vbios": "VBIOS",
    "driver": "driver",
    "ecc_mode": "ECC mode",
    "pcie_generation_max": "highest PCIe generation",
    "pcie_width_max": "highest PCIe width",
    "nvlinks": "number of NVLinks",
    "power_limit_watts": "power limit",
}
FEWEST_TO_COMPARE = 3
HOT_CELSIUS = 15.0
MANY_REPLAYS = 1000
# More uncorrectable SRAM errors than this in a GPU's life are a reason to have it replaced, where
# the driver is too old to say that its threshold is exceeded.
SRAM_LIMIT = 4
SEVERITIES = ("fault", "reset", "watch", "odd", "ok")
COMMAND_SECONDS = 60.0

# Numbers of NVIDIA's Xid catalogue that say something of the hardware, with what they ask for; the
# same verdicts stand in the book, in data/xid_codes.csv. Others (13, 31, 43, 45, 137) are usually
# the application's.
XIDS = {
    32: ("watch", "a broken stream of commands: examine PCIe if it comes back"),
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
# Numbers of the Fabric Manager guide that are fatal to the whole fabric, not to one GPU.
FABRIC_SXIDS = {10003, 12020, 22003, 22011, *range(23001, 23018)}
# What a row is called that is no GPU of the list: one that is lost, and the switches.
LOST, SWITCH = "not listed", "NVSwitch"
# Throttle reasons that are not those of a healthy machine under load.
BAD_THROTTLES = {
    "hw_slowdown": "the hardware slows the clocks down (heat or power)",
    "hw_thermal_slowdown": "too hot: the hardware halves the clocks",
    "hw_power_brake_slowdown": "the power supply asks for lower clocks",
    "sw_thermal_slowdown": "too hot: the driver lowers the clocks",
    "thermal": "too hot: clocks are lowered",
}
# GT/s of a lane by generation of PCI Express.
PCIE_SPEEDS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}

NVIDIA_COMMANDS = (
    ["nvidia-smi", "-q", "-x"],
    ["nvidia-smi", "nvlink", "-s"],
    ["nvidia-smi", "nvlink", "-e"],
)
AMD_COMMANDS = (["amd-smi", "static", "--json"], ["amd-smi", "metric", "--json"])
ROCM_COMMANDS = (
    ["rocm-smi", "--showproductname", "--showvbios", "--showdriverversion", "--showtemp"],
    ["rocm-smi", "--showreplaycount", "--showclocks", "--showrasinfo", "--showxgmierr"],
)

Row = dict[str, Any]


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


class Stopped(Exception):
    """The run ends here, by a signal or by the budget; what was measured is kept."""


class StopSign:
    """Why the run has to end, if it has to: a signal, the budget, or the parent process."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.by_signal = False
        self.deadline: float | None = None

    def listen(self) -> None:
        """End the run on Ctrl-C, on SIGTERM, and on Slurm's early warning."""
        for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._receive)

    def _receive(self, number: int, _frame: Any) -> None:
        self.reason = f"stopped by {signal.Signals(number).name}"
        self.by_signal = True
        # A second signal of the same kind ends a run that hangs.
        signal.signal(number, signal.SIG_DFL)

    def check(self) -> None:
        """Raise Stopped where there is a reason to end."""
        if self.reason is None and self.deadline is not None and time.monotonic() > self.deadline:
            self.reason = "the budget is used up"
        if self.reason is not None:
            raise Stopped(self.reason)


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def hide_folders(text: str) -> str:
    """The text with absolute paths cut down to their last part: folders name people and hosts."""
    name, equals, value = text.partition("=")
    if equals and value.startswith(("/", "~")):
        return f"{name}={Path(value).name}"
    return Path(text).name if text.startswith(("/", "~")) else text


def make_portable_command(arguments: Sequence[str]) -> list[str]:
    """The command line as another machine would type it, without absolute paths."""
    script = Path(__file__)
    with contextlib.suppress(ValueError, OSError):  # a folder that was deleted has no name
        script = script.resolve().relative_to(Path.cwd().resolve())
    name = script.name if script.is_absolute() else script.as_posix()
    return ["python", name, *(hide_folders(argument) for argument in arguments)]


def write_note(text: str) -> None:
    """One note for the reader, beside the table."""
    print(f"note: {text}", file=sys.stderr)


def format_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and all others to the right."""
    cells = [list(headings), *(list(row) for row in rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(headings))]

    def join(row: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [f":{'-' * (w - 1)}" if i == 0 else f"{'-' * (w - 1)}:" for i, w in enumerate(widths)]
    return "\n".join([join(cells[0]), f"| {' | '.join(rule)} |", *map(join, cells[1:])])


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write the JSON whole: under another name, then moved; a pipe or a device is written to, and
    a symbolic link followed. Raises WrongUse where it cannot be."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    target = path.resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def make_document_head(
    tool: str, numbers: tuple[str, int], command: Sequence[str], origin: float
) -> dict[str, Any]:
    """The opening of the JSON: tool, version and method, command, start, and seconds until now.

    `origin` is the reading of time.monotonic() when the run began.
    """
    seconds = time.monotonic() - origin
    started = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    return {
        "tool": tool,
        "version": numbers[0],
        "method": numbers[1],
        "command": list(command),
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(seconds, 3),
    }


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


def make_row(node: str, index: int) -> Row:
    """A GPU of which nothing is known yet."""
    return {"node": node, "gpu": index} | dict.fromkeys(
        (*TEXTS, *FLAGS, *(name for name in UNITS if name != "gpu"))
    )


def read_leading_number(text: Any) -> int | None:
    """The whole number at the beginning of a value, or None: `16x`, `0 bank(s)`, `N/A`."""
    found = re.match(r"\s*(\d+)", str(text))
    return int(found.group(1)) if found else None


def read_float(text: Any) -> float | None:
    """The number at the beginning of a value, or None."""
    found = re.match(r"\s*(\d+(?:\.\d+)?)", str(text))
    return float(found.group(1)) if found else None


def read_flag(text: Any) -> bool | None:
    """True for Yes, False for No, None for what is neither."""
    return {"yes": True, "no": False}.get(str(text).strip().lower())


def read_words(text: Any) -> str | None:
    """The value, or None where there is none."""
    value = " ".join(str(text).split()) if text is not None else ""
    return None if value.upper() in ("", "N/A", "NONE", "[N/A]", "NOT SUPPORTED") else value


def add_up(values: Iterable[int | None]) -> int | None:
    """The sum of the numbers that are known; None where none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def parse_tree(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """The GPUs in the text of `nvidia-smi -q`: address, and values by the path of their names.

    Names are nested by indentation; a name can have a value and names below it.
    """
    address = ""
    values: dict[str, str] = {}
    stack: list[tuple[int, str]] = []
    driver = ""
    for line in text.splitlines():
        head = re.match(
            r"GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$", line
        )
        if head:
            if address:
                yield address, values
            address, values, stack = head.group(1), {"driver": driver}, []
            continue
        found = re.match(r"(\s*)(\S.*?)\s*(?::(?:\s+(.*))?)?$", line)
        if not found:
            continue
        indent, name, value = len(found.group(1).expandtabs(8)), found.group(2), found.group(3)
        if indent == 0:
            if name == "Driver Version" and value:
                driver = value.strip()
            elif address and ":" not in line[:4] and not line.startswith((" ", "\t")):
                yield address, values
                address = ""
            continue
        if not address:
            continue
        while stack and stack[-1][0] >= indent:
            stack.pop()
        stack.append((indent, name))
        if value is not None:
            values["/".join(part for _, part in stack)] = value.strip()
    if address:
        yield address, values


def parse_nvidia_text(text: str, node: str) -> list[tuple[str, Row]]:
    """The GPUs of `nvidia-smi -q`, each with its address."""
    rows = []
    for index, (address, values) in enumerate(parse_tree(text)):

        def get(*parts: str, values: dict[str, str] = values) -> str | None:
            return values.get("/".join(parts))

        reasons = next(
            (
                name
                for name in ("Clocks Event Reasons", "Clocks Throttle Reasons")
                if any(path.startswith(name + "/") for path in values)
            ),
            "",
        )
        active = [
            path.rpartition("/")[2].lower().replace(" ", "_")
            for path, value in values.items()
            if reasons and path.startswith(reasons + "/") and value == "Active"
        ]
        ecc = "ECC Errors"
        sram = ("SRAM Uncorrectable", "SRAM Uncorrectable Parity", "SRAM Uncorrectable SEC-DED")
        row = make_row(node, index) | {
            "model": read_words(get("Product Name")),
            "vbios": read_words(get("VBIOS Version")),
            "driver": read_words(get("driver")),
            "ecc_mode": read_words(get("ECC Mode", "Current") or get("Ecc Mode", "Current")),
            "recovery_action": read_words(get("GPU Recovery Action")),
            "throttle_reasons": " ".join(active) if reasons else None,
            "ecc_uncorrectable_volatile": add_up(
                read_leading_number(get(ecc, "Volatile", name))
                for name in (*sram, "DRAM Uncorrectable")
            ),
            "ecc_uncorrectable_aggregate": add_up(
                read_leading_number(get(ecc, "Aggregate", name))
                for name in (*sram, "DRAM Uncorrectable")
            ),
            "ecc_correctable_volatile": add_up(
                read_leading_number(get(ecc, "Volatile", name))
                for name in ("SRAM Correctable", "DRAM Correctable")
            ),
            "sram_uncorrectable_aggregate": add_up(
                read_leading_number(get(ecc, "Aggregate", name)) for name in sram
            ),
            "sram_threshold_exceeded": read_flag(get(ecc, "Aggregate", "SRAM Threshold Exceeded")),
            "repair_pending": join_flags(
                read_flag(get(ecc, "Channel Repair Pending")),
                read_flag(get(ecc, "TPC Repair Pending")),
            ),
            "unrepairable_memory": read_flag(get(ecc, "Unrepairable Memory")),
            "retirement_pending": read_flag(
                get("Retired Pages", "Pending Page Blacklist")
                or get("Retired pages", "Pending Page Blacklist")
            ),
            "remapped_rows_correctable": read_leading_number(
                get("Remapped Rows", "Correctable Error")
            ),
            "remapped_rows_uncorrectable": read_leading_number(
                get("Remapped Rows", "Uncorrectable Error")
            ),
            "remap_pending": read_flag(get("Remapped Rows", "Pending")),
            "remap_failure": read_flag(get("Remapped Rows", "Remapping Failure Occurred")),
            "banks_without_spares": add_up(
                read_leading_number(get("Remapped Rows", "Bank Remap Availability Histogram", name))
                for name in ("Low", "None")
            ),
            "pcie_generation": read_leading_number(
                get("PCI", "GPU Link Info", "PCIe Generation", "Current")
            ),
            "pcie_generation_max": read_leading_number(
                get("PCI", "GPU Link Info", "PCIe Generation", "Max")
            ),
            "pcie_width": read_leading_number(get("PCI", "GPU Link Info", "Link Width", "Current")),
            "pcie_width_max": read_leading_number(get("PCI", "GPU Link Info", "Link Width", "Max")),
            "pcie_replays": read_leading_number(get("PCI", "Replays Since Reset")),
            "temperature_celsius": read_float(get("Temperature", "GPU Current Temp")),
            "power_limit_watts": read_float(
                get("GPU Power Readings", "Current Power Limit")
                or get("Power Readings", "Power Limit")
            ),
        }
        rows.append((address, row))
    return rows


def join_flags(*flags: bool | None) -> bool | None:
    """Whether any of the flags is set; None where nothing is known of any."""
    known = [flag for flag in flags if flag is not None]
    return any(known) if known else None


def parse_nvidia_xml(text: str, node: str) -> list[tuple[str, Row]]:
    """The GPUs of `nvidia-smi -q -x`, each with its address.

    Raises WrongUse where it cannot be read.
    """
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise WrongUse(f"{node}: the XML of nvidia-smi cannot be read: {error}") from error
    rows = []
    for index, gpu in enumerate(root.iter("gpu")):

        def get(path: str, gpu: ElementTree.Element = gpu) -> str | None:
            return gpu.findtext(path)

        reasons = gpu.find("clocks_event_reasons")
        if reasons is None:
            reasons = gpu.find("clocks_throttle_reasons")
        active = [
            re.sub(r"^clocks_(?:event|throttle)_reason_", "", reason.tag).removeprefix("gpu_")
            for reason in (() if reasons is None else reasons)
            if reason.text == "Active"
        ]
        sram = ("sram_uncorrectable", "sram_uncorrectable_parity", "sram_uncorrectable_secded")
        link = "pci/pci_gpu_link_info"
        histogram = "remapped_rows/row_remapper_histogram/row_remapper_histogram"
        row = make_row(node, index) | {
            "model": read_words(get("product_name")),
            "vbios": read_words(get("vbios_version")),
            "driver": read_words(root.findtext("driver_version")),
            "ecc_mode": read_words(get("ecc_mode/current_ecc")),
            "recovery_action": read_words(get("gpu_recovery_action")),
            "throttle_reasons": None if reasons is None else " ".join(active),
            "ecc_uncorrectable_volatile": add_up(
                read_leading_number(get(f"ecc_errors/volatile/{name}"))
                for name in (*sram, "dram_uncorrectable")
            ),
            "ecc_uncorrectable_aggregate": add_up(
                read_leading_number(get(f"ecc_errors/aggregate/{name}"))
                for name in (*sram, "dram_uncorrectable")
            ),
            "ecc_correctable_volatile": add_up(
                read_leading_number(get(f"ecc_errors/volatile/{name}"))
                for name in ("sram_correctable", "dram_correctable")
            ),
            "sram_uncorrectable_aggregate": add_up(
                read_leading_number(get(f"ecc_errors/aggregate/{name}")) for name in sram
            ),
            "sram_threshold_exceeded": read_flag(
                get("ecc_errors/aggregate/sram_threshold_exceeded")
            ),
            "repair_pending": join_flags(
                read_flag(get("ecc_errors/channel_repair_pending")),
                read_flag(get("ecc_errors/tpc_repair_pending")),
            ),
            "unrepairable_memory": read_flag(get("ecc_errors/unrepairable_memory")),
            "retirement_pending": join_flags(
                read_flag(get("retired_pages/pending_blacklist")),
                read_flag(get("retired_pages/pending_retirement")),
            ),
            "remapped_rows_correctable": read_leading_number(
                get("remapped_rows/remapped_row_corr")
            ),
            "remapped_rows_uncorrectable": read_leading_number(
                get("remapped_rows/remapped_row_unc")
            ),
            "remap_pending": read_flag(get("remapped_rows/remapped_row_pending")),
            "remap_failure": read_flag(get("remapped_rows/remapped_row_failure")),
            "banks_without_spares": add_up(
                read_leading_number(get(f"{histogram}_{name}")) for name in ("low", "none")
            ),
            "pcie_generation": read_leading_number(get(f"{link}/pcie_gen/current_link_gen")),
            "pcie_generation_max": read_leading_number(get(f"{link}/pcie_gen/max_link_gen")),
            "pcie_width": read_leading_number(get(f"{link}/link_widths/current_link_width")),
            "pcie_width_max": read_leading_number(get(f"{link}/link_widths/max_link_width")),
            "pcie_replays": read_leading_number(get("pci/replay_counter")),
            "temperature_celsius": read_float(get("temperature/gpu_temp")),
            "power_limit_watts": read_float(
                get("gpu_power_readings/current_power_limit") or get("power_readings/power_limit")
            ),
        }
        rows.append((gpu.get("id", ""), row))
    return rows


def parse_nvlink(text: str) -> dict[int, Row]:
    """Links and their errors by GPU, from `nvidia-smi nvlink -s` and `-e`."""
    gpus: dict[int, Row] = {}
    speeds: dict[int, dict[int, float | None]] = {}
    index = -1
    for line in text.splitlines():
        head = re.match(r"GPU (\d+): ", line)
        if head:
            index = int(head.group(1))
            continue
        found = re.match(r"\s+Link (\d+): (.+?)\s*$", line)
        if not found or index < 0:
            continue
        link, rest = int(found.group(1)), found.group(2)
        error = re.match(r"(Replay|Recovery|CRC) Errors: (\d+)", rest)
        if error:
            name = f"nvlink_{error.group(1).lower()}_errors"
            gpu = gpus.setdefault(index, {})
            gpu[name] = gpu.get(name, 0) + int(error.group(2))
        elif re.match(r"[\d.]+ GB/s", rest):
            speeds.setdefault(index, {})[link] = read_float(rest)
        elif "inactive" in rest.lower():
            speeds.setdefault(index, {})[link] = None
    for index, links in speeds.items():
        up = [speed for speed in links.values() if speed is not None]
        gpus.setdefault(index, {}).update(
            nvlinks=len(links),
            nvlinks_up=len(up),
            nvlink_bytes_per_second_min=min(up) * 1e9 if up else None,
        )
    return gpus


def parse_xids(text: str) -> dict[str, list[int]]:
    """Xid numbers of a kernel log by the address of the GPU, as far as bus and device."""
    found: dict[str, list[int]] = {}
    for bus, number in re.findall(
        r"NVRM: Xid \(PCI:([0-9a-fA-F:]+?)(?:\.\d)?(?: [^)]*)?\): (\d+)", text
    ):
        found.setdefault(shorten_address(bus), []).append(int(number))
    return found


def parse_sxids(text: str) -> list[tuple[int, bool]]:
    """SXid numbers of a kernel log and whether each was fatal, every pair once."""
    lines = re.findall(r"SXid \(PCI:[^)]*\): (\d+), (Fatal|Non-fatal)", text, re.IGNORECASE)
    return sorted({(int(number), kind.lower() == "fatal") for number, kind in lines})


def shorten_address(address: str) -> str:
    """`0a:1c` from `00000000:0A:1C.0`, `0000:0a:1c.0` and `0000:0a:1c`."""
    parts = address.lower().partition(".")[0].split(":")
    return ":".join(parts[-2:])


def find_json(text: str) -> list[Any]:
    """The JSON documents in a text, which may follow each other with other lines between them."""
    decoder = json.JSONDecoder()
    documents: list[tuple[Any, int]] = []
    for found in re.finditer(r"^[\[{]", text, re.MULTILINE):
        if documents and found.start() < documents[-1][1]:
            continue
        try:
            document, end = decoder.raw_decode(text, found.start())
        except ValueError:
            continue
        documents.append((document, end))
    return [document for document, _ in documents]


def get_value(entry: Any, *path: str) -> Any:
    """What is at the end of a path of names; of `{"value": 16, "unit": "GT/s"}` the value."""
    for name in path:
        entry = entry.get(name) if isinstance(entry, dict) else None
    return entry.get("value") if isinstance(entry, dict) else entry


def parse_amd_json(documents: Sequence[Any], node: str) -> list[tuple[str, Row]]:
    """The GPUs of `amd-smi static --json` and `amd-smi metric --json`, put together by number."""
    merged: dict[int, dict[str, Any]] = {}
    for document in documents:
        entries = document.get("gpu_data") if isinstance(document, dict) else document
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("gpu"), int):
                merged.setdefault(entry["gpu"], {}).update(entry)
    rows = []
    for index, entry in sorted(merged.items()):
        throttle = entry.get("throttle")
        active = [
            name.removesuffix("_violation_status")
            for name, value in (throttle.items() if isinstance(throttle, dict) else ())
            if name.endswith("_violation_status") and str(value).upper() == "ACTIVE"
        ]
        heat = [name for name in active if "thermal" in name]
        top = read_float(get_value(entry, "bus", "max_pcie_speed"))
        speed = read_float(get_value(entry, "pcie", "speed"))
        width = get_value(entry, "pcie", "width")
        row = make_row(node, index) | {
            "model": read_words(get_value(entry, "asic", "market_name")),
            "vbios": read_words(
                get_value(entry, "vbios", "version") or get_value(entry, "ifwi", "version")
            ),
            "driver": read_words(get_value(entry, "driver", "version")),
            "throttle_reasons": (
                " ".join([*active, *(["thermal"] if heat else [])])
                if isinstance(throttle, dict)
                else None
            ),
            "ecc_uncorrectable_volatile": read_leading_number(
                get_value(entry, "ecc", "total_uncorrectable_count")
            ),
            "ecc_correctable_volatile": read_leading_number(
                get_value(entry, "ecc", "total_correctable_count")
            ),
            "pcie_generation": PCIE_SPEEDS.get(speed) if speed else None,
            "pcie_generation_max": PCIE_SPEEDS.get(top) if top else None,
            "pcie_width": read_leading_number(width),
            "pcie_width_max": read_leading_number(get_value(entry, "bus", "max_pcie_width")),
            "pcie_replays": read_leading_number(get_value(entry, "pcie", "replay_count")),
            "xgmi_errors": read_leading_number(get_value(entry, "xgmi_err")),
            "temperature_celsius": read_float(get_value(entry, "temperature", "hotspot")),
            "power_limit_watts": read_float(
                get_value(entry, "limit", "socket_power") or get_value(entry, "limit", "max_power")
            ),
        }
        rows.append((str(get_value(entry, "bus", "bdf") or ""), row))
    return rows


ROCM_NAMES = {
    "vbios": ("vbios version",),
    "model": ("card series", "card model"),
    "pcie_replays": ("pcie replay count",),
    "xgmi_errors": ("xgmi error count",),
    "temperature_celsius": ("temperature (sensor junction) (c)",),
    "power_limit_watts": ("max graphics package power (w)",),
}


def fill_rocm(row: Row, name: str, value: str) -> None:
    """Take one value of rocm-smi into the row of its GPU."""
    name = name.strip().lower().rstrip(":")
    for column, names in ROCM_NAMES.items():
        if name in names and row[column] is None:
            reader: Callable[[Any], Any] = read_words
            if column in UNITS:
                reader = (
                    read_float if column.endswith(("celsius", "watts")) else read_leading_number
                )
            row[column] = reader(value)
    link = re.search(r"([\d.]+)GT/s,? x(\d+)", value)
    if name.startswith("pcie clock") and link:
        row["pcie_generation"] = PCIE_SPEEDS.get(float(link.group(1)))
        row["pcie_width"] = int(link.group(2))


def parse_rocm(text: str, documents: Sequence[Any], node: str) -> list[tuple[str, Row]]:
    """The GPUs of rocm-smi, from its text or its JSON of one object for each card."""
    rows: dict[int, Row] = {}
    driver = None
    index = -1
    for document in documents:
        for card, values in document.items() if isinstance(document, dict) else ():
            if re.fullmatch(r"card\d+", card) and isinstance(values, dict):
                row = rows.setdefault(int(card[4:]), make_row(node, int(card[4:])))
                for name, value in values.items():
                    fill_rocm(row, name, str(value))
            elif card == "system" and isinstance(values, dict):
                driver = read_words(values.get("Driver version"))
    for line in text.splitlines():
        found = re.match(r"GPU\[(\d+)\]\s*:\s*(.+?)(?::\s*(.*))?$", line)
        block = re.match(r"\s+([A-Z][A-Z0-9_]*)\s+[A-Z ]+?\s+(\d+)\s+(\d+)\s*$", line)
        if found:
            index = int(found.group(1))
            row = rows.setdefault(index, make_row(node, index))
            fill_rocm(row, found.group(2), found.group(3) or "")
        elif line.lower().startswith("driver version:"):
            driver = read_words(line.partition(":")[2])
        elif block and index in rows:
            # Versions of rocm-smi disagree on which of the two columns is the uncorrectable one,
            # and one labels them the wrong way round: only the sum is safe.
            errors = int(block.group(2)) + int(block.group(3))
            rows[index]["ecc_correctable_volatile"] = errors + (
                rows[index]["ecc_correctable_volatile"] or 0
            )
    for row in rows.values():
        row["driver"] = driver
    return [("", row) for _, row in sorted(rows.items())]


def parse_node(text: str, node: str) -> list[Row]:
    """The GPUs of one node, from whatever texts of the vendors' tools there are.

    Raises WrongUse where the text holds none of them.
    """
    text = text.replace("\r\n", "\n")
    markup = re.search(r"<nvidia_smi_log>.*?</nvidia_smi_log>", text, re.DOTALL)
    documents = find_json(text)
    if markup:
        rows = parse_nvidia_xml(markup.group(0), node)
    elif "<nvidia_smi_log>" in text:
        raise WrongUse(f"{node}: the XML of nvidia-smi ends in the middle: save it again")
    else:
        rows = (
            parse_nvidia_text(text, node)
            or parse_amd_json(documents, node)
            or parse_rocm(text, documents, node)
        )
    links = parse_nvlink(text)
    if not rows and links:
        rows = [("", make_row(node, index)) for index in sorted(links)]
    for _, row in rows:
        row |= links.get(row["gpu"], {})
    xids = parse_xids(text)
    has_log = "NVRM:" in text or "dmesg" in text
    for address, row in rows:
        seen = xids.pop(shorten_address(address), []) if address else []
        if seen or has_log:
            row["xids"] = " ".join(str(number) for number in sorted(set(seen)))
    attached = re.search(r"^Attached GPUs\s*: (\d+)$", text, re.MULTILINE)
    if attached and not markup and rows and len(rows) < int(attached[1]):
        raise WrongUse(
            f"{node}: nvidia-smi counts {attached[1]} GPUs and the text ends after {len(rows)}: "
            "save it again"
        )
    if xids and rows:
        # A GPU that fell off the bus is not in the list of GPUs any more.
        lost = make_row(node, max(row["gpu"] for _, row in rows) + 1)
        numbers = {number for seen in xids.values() for number in seen}
        lost |= {"model": LOST, "xids": " ".join(map(str, sorted(numbers)))}
        rows.append(("", lost))
    sxids = parse_sxids(text)
    if sxids and rows:
        switch = make_row(node, max(row["gpu"] for _, row in rows) + 1)
        words = (f"{number} {'fatal' if fatal else 'non-fatal'}" for number, fatal in sxids)
        rows.append(("", switch | {"model": SWITCH, "sxids": ", ".join(words)}))
    if not rows:
        raise WrongUse(
            f"{node}: no GPU in this text; save nvidia-smi -q (and nvlink -s, nvlink -e), "
            "amd-smi static --json and metric --json, or rocm-smi -a"
        )
    return [row for _, row in rows]


def find_signs(row: Row) -> list[tuple[str, str]]:
    """What is wrong with a GPU by itself: how bad it is, and in words."""
    signs: list[tuple[str, str]] = []

    def note(applies: Any, severity: str, words: str) -> None:
        if applies:
            signs.append((severity, words))

    note(row["remap_failure"], "fault", "a row of memory could not be remapped: have it replaced")
    note(row["unrepairable_memory"], "fault", "its memory cannot be repaired")
    note(row["sram_threshold_exceeded"], "fault", "too many uncorrectable SRAM errors in its life")
    sram = row["sram_uncorrectable_aggregate"] or 0
    is_told = row["sram_threshold_exceeded"] is not None
    note(
        not is_told and sram > SRAM_LIMIT,
        "fault",
        f"{sram} uncorrectable SRAM errors in its life, and more than {SRAM_LIMIT} are too many",
    )
    note(row["remap_pending"], "reset", "remapped rows wait for a reset")
    note(row["retirement_pending"], "reset", "retired pages wait for a reset")
    note(row["repair_pending"], "reset", "a repair of its memory or units waits for a reset")
    note(row["recovery_action"], "reset", f"the driver asks for: {row['recovery_action']}")
    volatile = row["ecc_uncorrectable_volatile"]
    note(volatile, "reset", f"{volatile} uncorrectable ECC errors since the driver was loaded")
    for number in map(int, (row["xids"] or "").split()):
        severity, words = XIDS.get(number, ("", ""))
        note(severity, severity, f"Xid {number}: {words}")
    for entry in filter(None, (row["sxids"] or "").split(", ")):
        number, _, kind = entry.partition(" ")
        if kind != "fatal":
            note(True, "watch", f"SXid {number}, non-fatal: no reset by itself")
        elif int(number) in FABRIC_SXIDS:
            note(True, "reset", f"SXid {number}: reset all GPUs and NVSwitches, or restart")
        else:
            note(True, "reset", f"SXid {number}, fatal: reset the GPU of its link and its job's")
    width, widest = row["pcie_width"], row["pcie_width_max"]
    note(
        width and widest and width < widest,
        "fault",
        f"PCIe x{width} of x{widest}: reseat it, or look at its riser",
    )
    reasons = (row["throttle_reasons"] or "").split()
    is_idle = "idle" in reasons or row["throttle_reasons"] is None
    now, top = row["pcie_generation"], row["pcie_generation_max"]
    note(
        now and top and now < top and not is_idle,
        "watch",
        f"PCIe generation {now} of {top} though it is not idle",
    )
    up, links = row["nvlinks_up"], row["nvlinks"]
    note(up is not None and 0 < up < (links or 0), "fault", f"{up} of {links} NVLinks are up")
    for kind in ("replay", "recovery", "crc"):
        errors = row[f"nvlink_{kind}_errors"]
        name = "CRC" if kind == "crc" else kind
        note(errors, "watch", f"{errors} NVLink {name} errors")
    note(row["xgmi_errors"], "watch", f"{row['xgmi_errors']} XGMI errors since they were last read")
    for reason in reasons:
        note(reason in BAD_THROTTLES, "watch", BAD_THROTTLES.get(reason, ""))
    low = row["banks_without_spares"]
    note(low, "watch", f"{low} memory banks have few or no spare rows left")
    remapped = row["remapped_rows_uncorrectable"]
    note(remapped, "watch", f"{remapped} rows were remapped for uncorrectable errors")
    replays = row["pcie_replays"] or 0
    note(replays > MANY_REPLAYS, "watch", f"{replays} PCIe replays")
    return signs


def find_odd_ones(rows: Sequence[Row]) -> dict[tuple[str, int], list[tuple[str, str]]]:
    """GPUs that are not like most others of their model, over all nodes together."""
    odd: dict[tuple[str, int], list[tuple[str, str]]] = {}
    for model in dict.fromkeys(row["model"] for row in rows):
        ours = [row for row in rows if row["model"] == model]
        if len(ours) < FEWEST_TO_COMPARE:
            continue
        for column, name in ALIKE.items():
            values = [row[column] for row in ours if row[column] is not None]
            usual = max(dict.fromkeys(values), key=values.count, default=None)
            if usual is None or 2 * values.count(usual) <= len(values):
                continue
            for row in ours:
                if row[column] is not None and row[column] != usual:
                    words = f"{name} {row[column]}, {values.count(usual)} others have {usual}"
                    odd.setdefault((row["node"], row["gpu"]), []).append(("odd", words))
        heats = [row["temperature_celsius"] for row in ours if row["temperature_celsius"]]
        middle = statistics.median(heats) if heats else 0.0
        for row in ours:
            heat = row["temperature_celsius"]
            if heat and heat > middle + HOT_CELSIUS:
                words = f"{heat:.0f} °C, the median of its kind is {middle:.0f} °C"
                odd.setdefault((row["node"], row["gpu"]), []).append(("watch", words))
    models = [row["model"] for row in rows if row["model"] not in (None, LOST, SWITCH)]
    usual = max(dict.fromkeys(models), key=models.count, default=None)
    if usual is not None and len(models) >= FEWEST_TO_COMPARE:
        for row in rows:
            is_other = row["model"] in models and row["model"] != usual
            if is_other and 2 * models.count(usual) > len(models):
                words = f"model {row['model']}, {models.count(usual)} others are {usual}"
                odd.setdefault((row["node"], row["gpu"]), []).append(("odd", words))
    return odd


def judge_gpus(rows: Sequence[Row]) -> None:
    """Set the verdict of each GPU, the worst that applies, with its reasons, the worst first."""
    odd = find_odd_ones(rows)
    for row in rows:
        signs = [*find_signs(row), *odd.get((row["node"], row["gpu"]), [])]
        signs.sort(key=lambda sign: SEVERITIES.index(sign[0]))
        row["verdict"] = signs[0][0] if signs else "ok"
        row["reasons"] = "; ".join(words for _, words in signs)


def find_missing(rows: Sequence[Row], nodes: Sequence[str], expected: int | None) -> list[str]:
    """Nodes that do not have the GPUs that were asked for, or that most others have."""
    listed = [row["node"] for row in rows if row["model"] not in (LOST, SWITCH)]
    counts = {node: listed.count(node) for node in nodes}
    found = list(counts.values())
    usual = expected or (max(found, key=found.count) if len(found) >= FEWEST_TO_COMPARE else None)
    if usual is None:
        return []
    reason = "asked for" if expected else "usual here"
    return [
        f"{node} has {count} GPUs, and {usual} are {reason}"
        for node, count in counts.items()
        if count != usual
    ]


def run_tool(command: Sequence[str], caveats: list[str]) -> str:
    """What a command prints, or nothing, with a caveat that says why."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMMAND_SECONDS,
            check=False,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        caveats.append(f"{' '.join(command)} did not answer in {COMMAND_SECONDS:.0f} s")
        return ""
    except OSError as error:
        caveats.append(f"{' '.join(command)} could not be started: {error.strerror}")
        return ""
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines()
        why = words[0][:200] if words else f"status {done.returncode}"
        caveats.append(f"{' '.join(command)}: {why}")
    return done.stdout


def read_this_node(caveats: list[str], stop: StopSign) -> str:
    """The texts of the vendor's commands on this machine. Raises Stopped."""
    commands: Sequence[list[str]] = ()
    if shutil.which("nvidia-smi"):
        commands = (*NVIDIA_COMMANDS, ["dmesg"])
    elif shutil.which("amd-smi"):
        commands = AMD_COMMANDS
    elif shutil.which("rocm-smi"):
        commands = ROCM_COMMANDS
    texts = []
    for command in commands:
        stop.check()
        text = run_tool(command, caveats)
        if command == ["dmesg"]:
            lines = [line for line in text.splitlines() if re.search(r"NVRM: Xid|SXid", line)]
            text = "\n".join(["dmesg", *lines] if text else [])
        texts.append(text)
    stop.check()
    return "\n".join(texts)


def make_sample(count: int, **changes: str) -> str:
    """The text of `nvidia-smi -q` and `nvlink -s -e` of so many invented, healthy GPUs.

    `changes` are texts to replace in the last of them, by what they become.
    """
    parts = ["Driver Version                            : 570.00.00", ""]
    links = []
    for index in range(count):
        text = SAMPLE_GPU.replace("@", f"{index + 1:02X}")
        if index == count - 1:
            for old, new in changes.items():
                text = text.replace(old, new)
        parts.append(text)
        links.append(f"GPU {index}: SAMPLE-GPU 80GB (UUID: GPU-sample)")
        links += [f"\t Link {link}: 26.562 GB/s" for link in range(18)]
        for link in range(18):
            links += [f"\t Link {link}: {kind} Errors: 0" for kind in ("Replay", "Recovery", "CRC")]
    return "\n".join([*parts, *links])


SAMPLE_SXID = (
    "[1.0] nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"
)
# Trimmed to what is read.
SAMPLE_GPU = """GPU 00000000:@:00.0
    Product Name                          : SAMPLE-GPU 80GB
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


def show_pair(now: Any, top: Any) -> str:
    """`16/16`: what is, of what can be."""
    return "-" if now is None else f"{now}/{'?' if top is None else top}"


def format_gpus(rows: Sequence[Row], with_reasons: bool = True) -> str:
    """The table with one GPU in each row."""

    def show(value: Any) -> str:
        return "-" if value is None else str(value)

    lines = []
    for row in rows:
        errors = [row[f"nvlink_{kind}_errors"] for kind in ("replay", "recovery", "crc")]
        remapped = (row["remapped_rows_correctable"], row["remapped_rows_uncorrectable"])
        lines.append(
            [
                f"{row['node']} {row['gpu']}",
                show(row["model"]),
                show(row["vbios"]),
                show(row["ecc_uncorrectable_volatile"]),
                show(row["ecc_correctable_volatile"]),
                "/".join(show(count) for count in remapped) if remapped != (None, None) else "-",
                show_pair(row["nvlinks_up"], row["nvlinks"]),
                "/".join(show(count) for count in errors)
                if any(e is not None for e in errors)
                else "-",
                f"{show_pair(row['pcie_width'], row['pcie_width_max'])}",
                f"{show_pair(row['pcie_generation'], row['pcie_generation_max'])}",
                show(row["throttle_reasons"]) or "none",
                f"SXid {row['sxids']}" if row["sxids"] else show(row["xids"]) or "none",
                f"**{row['verdict']}**" if row["verdict"] != "ok" else "ok",
                *([row["reasons"] or "-"] if with_reasons else []),
            ]
        )
    headings = ["GPU", "Model", "VBIOS", "ECC unc.", "ECC corr.", "Remapped c/u", "NVLinks"]
    headings += ["Replay/Rec./CRC", "PCIe x", "PCIe gen.", "Throttle", "Xid", "Verdict"]
    return format_table([*headings, *(["Why"] if with_reasons else [])], lines)


def run_self_test() -> int:
    """Check the readers and the verdicts on invented GPUs; 0, or 1 where a check fails."""
    checks: list[bool] = []

    def check(name: str, passed: bool) -> None:
        checks.append(passed)
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    def judge(text: str) -> list[str]:
        rows = parse_node(text, "node")
        judge_gpus(rows)
        return [row["verdict"] for row in rows]

    check("8 healthy GPUs are ok", judge(make_sample(8)) == ["ok"] * 8)
    pending = make_sample(4, **{"Pending                           : No": "Pending : Yes"})
    check("a pending remap asks for a reset", judge(pending) == ["ok", "ok", "ok", "reset"])
    failed = make_sample(
        4, **{"Remapping Failure Occurred        : No": "Remapping Failure Occurred : Yes"}
    )
    check("a failed remap is a fault", judge(failed)[3] == "fault")
    untold = make_sample(4, **{": 0": ": N/A", ": 16x": ": N/A", ": No\n": ": N/A\n"})
    check("what is not told is no fault", judge(untold) == ["ok"] * 4)
    narrow = make_sample(4, **{"Current                   : 16x": "Current : 8x"})
    check("8 of 16 PCIe lanes are a fault", judge(narrow)[3] == "fault")
    other = make_sample(4, **{"96.00.00.00.01": "96.00.00.00.02"})
    check("another VBIOS is odd", judge(other) == ["ok", "ok", "ok", "odd"])
    down = make_sample(2).replace("\t Link 17: 26.562 GB/s", "\t Link 17: <inactive>", 1)
    check("17 of 18 NVLinks are a fault", judge(down) == ["fault", "ok"])
    log = (
        make_sample(2)
        + "\n[1.0] NVRM: Xid (PCI:0000:02:00): 79, pid=1, GPU has fallen off the bus."
    )
    check("Xid 79 is a fault of the GPU at its address", judge(log) == ["ok", "fault"])
    switch = make_sample(2) + "\n" + SAMPLE_SXID
    check("a fatal SXid is a row of its own", judge(switch) == ["ok", "ok", "reset"])
    check("too few GPUs are named", len(find_missing(parse_node(log, "n"), ["n"], 8)) == 1)
    failed_count = sum(not passed for passed in checks)
    print(
        f"self-test: {len(checks) - failed_count} of {len(checks)} checks passed", file=sys.stderr
    )
    return 1 if failed_count else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="gpu_health.py",
        description="Read the health counters of GPUs, judge them, and name the odd one out.",
        epilog="The docstring at the top of this file tells what is read and what it means.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "files",
        nargs="*",
        type=Path,
        metavar="FILE",
        help="saved texts, one file for each node; without one this machine is asked",
    )
    parser.add_argument(
        "--expect", type=parse_count, metavar="N", help="GPUs that each node should have"
    )
    parser.add_argument(
        "--brief", action="store_true", help="only GPUs that are not ok; without any, one line"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write all that was read as JSON")
    parser.add_argument(
        "--sample", action="store_true", help="read the sample that is in this tool, for a trial"
    )
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"gpu_health {__version__} (method {METHOD})"
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense, before anything is read."""
    check_json_path(options.json)
    if options.sample and options.files:
        raise WrongUse("--sample reads what is in this tool, and no files")


def read_nodes(
    options: argparse.Namespace, caveats: list[str], stop: StopSign
) -> tuple[list[Row], list[str]]:
    """All GPUs, and the names of the nodes. Raises WrongUse and Stopped."""
    if options.sample:
        caveats.append("these GPUs are invented: the sample that comes with the tool")
        return parse_node(make_sample(8), "sample"), ["sample"]
    if not options.files:
        text = read_this_node(caveats, stop)
        if not text.strip():
            caveats.append(
                "no accelerator was found: no nvidia-smi, amd-smi or rocm-smi answers here"
            )
            return [], ["this node"]
        try:
            return parse_node(text, "this node"), ["this node"]
        except WrongUse:
            caveats.append("no accelerator was found: the vendor's command lists none")
            return [], ["this node"]
    rows: list[Row] = []
    nodes: list[str] = []
    for path in options.files:
        stop.check()
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise WrongUse(f"could not read {path}: {error.strerror}") from error
        node = path.stem if path.stem not in nodes else path.name
        rows += parse_node(text, node)
        nodes.append(node)
    return rows, nodes


def print_report(
    rows: Sequence[Row], missing: Sequence[str], caveats: Sequence[str], brief: bool
) -> None:
    """The table to stdout, notes and the summary to stderr."""
    shown = [row for row in rows if row["verdict"] != "ok"] if brief else rows
    if shown:
        print(format_gpus(shown))
    for text in caveats:
        write_note(text)
    for text in missing:
        print(f"problem: {text}", file=sys.stderr)
    verdicts = [row["verdict"] for row in rows]
    counts = [f"{verdicts.count(word)} {word}" for word in SEVERITIES if word in verdicts]
    nodes = len({row["node"] for row in rows})
    if rows:
        ending = ": all are ok and alike" if set(verdicts) == {"ok"} and not missing else ""
        gpus = sum(row["model"] != SWITCH for row in rows)
        print(f"{gpus} GPUs of {nodes} nodes: {', '.join(counts)}{ending}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    stop = StopSign()
    rows: list[Row] = []
    nodes: list[str] = []
    caveats: list[str] = []
    is_complete = True
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_options(options)
        stop.listen()
        try:
            rows, nodes = read_nodes(options, caveats, stop)
        except Stopped as stopped:
            caveats.append(f"{stopped}, before all was read")
            is_complete = False
        judge_gpus(rows)
        missing = find_missing(rows, nodes, options.expect)
        try:
            if options.json:
                head = make_document_head(
                    "gpu_health", (__version__, METHOD), make_portable_command(arguments), origin
                )
                body = {"complete": is_complete and bool(rows), "units": UNITS, "results": rows}
                details = {"nodes": nodes, "missing": missing, "expected": options.expect}
                write_document(
                    options.json, {**head, **body, "caveats": caveats, "details": details}
                )
        finally:  # a disk that is full loses no table
            print_report(rows, missing, caveats, options.brief)
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a run listens for signals itself
        print("stopped", file=sys.stderr)
        return 1
    is_well = bool(rows) and not missing and all(row["verdict"] == "ok" for row in rows)
    return 0 if is_well and is_complete else 1


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
