#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which InfiniBand port is down, slower than the others, or counting errors?

One port that came up at half its width, or a cable that loses symbols, slows every job that
crosses it, and nothing says so. This tool puts what ibstat, ibv_devinfo, iblinkinfo and perfquery
tell into one table, a line for each port, with a verdict. It runs them, or reads what they printed
elsewhere: files of many nodes, and files in which pdsh has put the node before each line.

Physics
    rate = lanes * rate of a lane: 2.5 Gbps (SDR), 5 (DDR), 10 (QDR), 14 (FDR), 25 (EDR), 50 (HDR),
    100 (NDR), 200 (XDR). iblinkinfo prints the signalling rate of one lane (106.25 for NDR), ibstat
    the data rate of the port. Hand check: 4 lanes of NDR are 400 Gbps, that is 50 GBps.
    PortXmitData and PortRcvData count units of 4 bytes. Error counters without -x stop at their
    largest value: 65535 symbol errors may be any number of them, from there on. With -x older
    adapters and firmware count data and packets only, so both readings are needed.
    Errors say little by themselves: a reboot of the other side counts too. Errors that grow between
    two readings do: --again 60, or a second reading in a file with --later.
Verdicts, the first of these that applies
    down              the cable or the other side: physical state is not LinkUp
    not active        linked, but no subnet manager has brought the port up
    slow              a lower rate, or fewer lanes, than most ports of its kind, or than the others
                      where none is most, or than the link could do as iblinkinfo says
    errors growing    an error counter went up between the two readings
    firmware unlike   another firmware than most cards of its type
    errors counted    counters are not 0, of unknown age: read again
    errors not read   no error counter was read, so the port may be bad or good: read perfquery
                      with -x and without
    ok
What is timed
    Nothing; --again waits as long as it is told.

How to run
    this node       python ib_report.py --again 60           perfquery usually needs root
    the fabric      python ib_report.py --fabric             all links, by iblinkinfo
    saved texts     python ib_report.py --ibstat node1.txt node2.txt --perfquery q1.txt q2.txt
    two readings    python ib_report.py --perfquery before.txt --later after.txt
    pdsh            pdsh -w node[01-16] ibstat > all.txt
                    pdsh -w node[01-16] 'perfquery -C mlx5_0 -P 1; perfquery -x -C mlx5_0 -P 1' \
                        > before.txt
                    and then python ib_report.py --ibstat all.txt --perfquery before.txt
    Slurm           srun --nodes=16 --ntasks-per-node=1 \
                        bash -c 'ibstat > /shared/$(hostname).txt'
                    and then --ibstat /shared/*.txt
    A file belongs to the node of its name; NODE=FILE says another. Counters are matched to ports
    by LID. Ports that are meant to be down: --ignore mlx5_4. The JSON has numbers for the nodes
    and no GUIDs; --names puts the names in.

A good answer: every port ok, all of one rate and width, one firmware for each type of card, and no
error that grows under load. A single port that is not: reseat or change the cable, then the port.

Seen running: on texts in the form these programs print, and with stand-ins in their place; not on
InfiniBand hardware.

Exit status: 0 no port is down, inactive, slow, growing errors or unlike, 1 one is, nothing was
found, a text of ibstat or ibv_devinfo ends in the middle, or stopped by a signal, 2 wrong use.
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
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.2.0"
METHOD = 2

# Plain literals: a runner reads them without importing this file.
PROFILES = {"toy": ["--toy"], "full": ["--again", "60"]}

# Counters that mean damage or loss, as perfquery names them now -> as columns.
ERROR_COUNTERS = {
    "SymbolErrorCounter": "symbol_errors",
    "LinkErrorRecoveryCounter": "link_error_recoveries",
    "LinkDownedCounter": "link_downed",
    "PortRcvErrors": "receive_errors",
    "PortRcvRemotePhysicalErrors": "receive_remote_physical_errors",
    "PortRcvSwitchRelayErrors": "receive_switch_relay_errors",
    "PortXmitDiscards": "transmit_discards",
    "PortXmitConstraintErrors": "transmit_constraint_errors",
    "PortRcvConstraintErrors": "receive_constraint_errors",
    "LocalLinkIntegrityErrors": "local_link_integrity_errors",
    "ExcessiveBufferOverrunErrors": "buffer_overrun_errors",
    "VL15Dropped": "vl15_dropped",
    "QP1Dropped": "qp1_dropped",
}
# As older versions of infiniband-diags write them.
OLD_COUNTERS = {
    "SymbolErrors": "SymbolErrorCounter",
    "LinkRecovers": "LinkErrorRecoveryCounter",
    "LinkDowned": "LinkDownedCounter",
    "RcvErrors": "PortRcvErrors",
    "RcvRemotePhysErrors": "PortRcvRemotePhysicalErrors",
    "RcvSwRelayErrors": "PortRcvSwitchRelayErrors",
    "XmtDiscards": "PortXmitDiscards",
    "XmtConstraintErrors": "PortXmitConstraintErrors",
    "RcvConstraintErrors": "PortRcvConstraintErrors",
    "LinkIntegrityErrors": "LocalLinkIntegrityErrors",
    "ExcBufOverrunErrors": "ExcessiveBufferOverrunErrors",
    "XmtData": "PortXmitData",
    "RcvData": "PortRcvData",
    "XmtPkts": "PortXmitPkts",
    "RcvPkts": "PortRcvPkts",
    "XmtWait": "PortXmitWait",
}
# A multicast packet that nobody on the switch wants counts as a relay error: that is no damage.
HARMLESS = {"PortRcvSwitchRelayErrors"}
# Largest values of the counters without -x (PortCounters of the InfiniBand specification).
SATURATED = {
    "SymbolErrorCounter": 0xFFFF,
    "LinkErrorRecoveryCounter": 0xFF,
    "LinkDownedCounter": 0xFF,
    "PortRcvErrors": 0xFFFF,
    "PortXmitDiscards": 0xFFFF,
    "PortXmitData": 0xFFFFFFFF,
    "PortRcvData": 0xFFFFFFFF,
}
WORD_BYTES = 4

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "port": "1",
    "lid": "1",
    "lanes": "1",
    "rate_bytes_per_second": "B/s",
    **dict.fromkeys(ERROR_COUNTERS.values(), "1"),
    "errors": "1",
    "errors_grown": "1",
    "transmitted_bytes": "B",
    "received_bytes": "B",
    "transmit_waits": "1",
}

# Signalling rate of a lane in Gbps -> its data rate as ibstat counts it, and its name.
LANES = (
    (2.5, 2.5, "SDR"),
    (5.0, 5.0, "DDR"),
    (10.0, 10.0, "QDR"),
    (10.3125, 10.0, "FDR10"),
    (14.0625, 14.0, "FDR"),
    (25.78125, 25.0, "EDR"),
    (53.125, 50.0, "HDR"),
    (106.25, 100.0, "NDR"),
    (212.5, 200.0, "XDR"),
)
GIGABIT = 1e9 / 8
COMMAND_SECONDS = 120.0
PACKAGES = {
    "ibstat": "infiniband-diags",
    "perfquery": "infiniband-diags",
    "iblinkinfo": "infiniband-diags",
    "ibv_devinfo": "ibverbs-utils (libibverbs-utils)",
}
# What a text of each program holds at the beginning of some line.
MARKS = {
    "ibstat": r"CA '",
    "ibv_devinfo": r"hca_id:",
    "perfquery": r"# Port",
    "iblinkinfo": r"(?:CA|Switch): ",
}
BAD_VERDICTS = ("down", "not active", "slow", "errors growing", "firmware unlike")

WHOLE_NUMBER = re.compile(r"0x[0-9a-fA-F]+|0|[1-9]\d*")
GUID = re.compile(r"0x[0-9a-fA-F]{16}")
LINK_LAYERS = ("InfiniBand", "Ethernet")

LINK_LINE = re.compile(
    r"^\s*(?P<guid>0x[0-9a-fA-F]+)?\s*(?:\"(?P<name>[^\"]*)\")?\s*"
    r"(?P<lid>\d+)\s+(?P<port>\d+)\[\s*\]\s*"
    r"==\(\s*(?:(?P<lanes>\d+)X\s+(?P<speed>[\d.]+)\s*Gbps\s+)?(?P<state>\w+)/\s*(?P<physical>\w+)\)==>"
    r"\s*(?:0x[0-9a-fA-F]+)?\s*(?P<peer_lid>\d*)\s*(?P<peer_port>\d*)\[\s*\]\s*\"(?P<peer>[^\"]*)\""
    r"\s*\(\s*(?P<remark>[^)]*?)\s*\)"
)

TOY_IBSTAT = """\
CA 'mlx5_0'
	CA type: MT4129
	Number of ports: 1
	Firmware version: 28.40.1000
	Hardware version: 0
	Node GUID: 0x00000000000000a0
	System image GUID: 0x00000000000000a0
	Port 1:
		State: Active
		Physical state: LinkUp
		Rate: 400
		Base lid: 11
		LMC: 0
		SM lid: 1
		Capability mask: 0xa751e848
		Port GUID: 0x00000000000000a1
		Link layer: InfiniBand
CA 'mlx5_1'
	CA type: MT4129
	Number of ports: 1
	Firmware version: 28.40.1000
	Hardware version: 0
	Node GUID: 0x00000000000000b0
	System image GUID: 0x00000000000000b0
	Port 1:
		State: Active
		Physical state: LinkUp
		Rate: 400
		Base lid: 12
		LMC: 0
		SM lid: 1
		Capability mask: 0xa751e848
		Port GUID: 0x00000000000000b1
		Link layer: InfiniBand
"""
TOY_PERFQUERY = """\
# Port extended counters: Lid 11 port 1 (CapMask: 0x5A00 CapMask2: 0x0000000)
PortSelect:......................1
CounterSelect:...................0x0000
PortXmitData:....................250
PortRcvData:.....................500
PortXmitPkts:....................10
PortRcvPkts:.....................20
SymbolErrorCounter:..............0
LinkErrorRecoveryCounter:........0
LinkDownedCounter:...............0
PortRcvErrors:...................0
PortXmitDiscards:................0
PortXmitWait:....................7
# Port extended counters: Lid 12 port 1 (CapMask: 0x5A00 CapMask2: 0x0000000)
PortSelect:......................1
CounterSelect:...................0x0000
PortXmitData:....................250
PortRcvData:.....................500
SymbolErrorCounter:..............0
LinkDownedCounter:...............0
"""

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


@dataclass
class IbPort:
    """All that is known of a port; what nobody told is None."""

    node: str
    card: str | None
    port: int
    is_switch: bool = False
    card_type: str | None = None
    firmware: str | None = None
    state: str | None = None
    physical_state: str | None = None
    link_layer: str | None = None
    lid: int | None = None
    guid: int | None = None
    lanes: int | None = None
    speed: str | None = None
    rate: float | None = None
    peer: str | None = None
    could_be: str | None = None
    counters: dict[str, int] | None = None
    growth: dict[str, int] | None = None
    verdict: str = "ok"
    reason: str | None = None


class CounterReading(dict[str, int]):
    """The counters of a port by name; `extended` where they are wide enough never to saturate."""

    extended = False


@dataclass
class Fabric:
    """The ports by node, card and number, and what could not be told of them."""

    ports: dict[tuple[str, str | None, int], IbPort] = field(default_factory=dict)
    caveats: list[str] = field(default_factory=list)
    cut_texts: list[str] = field(default_factory=list)

    def get(self, node: str, card: str | None, port: int) -> IbPort:
        """The port of that place, which is made where it is not known yet."""
        return self.ports.setdefault((node, card, port), IbPort(node, card, port))

    def find_by_lid(self, lid: int, port: int, node: str | None) -> IbPort | None:
        """The one port with a LID, on a node if it is known; a card's LID goes with its port."""
        fitting = [p for p in self.ports.values() if p.lid == lid and p.port == port]
        if len(fitting) > 1:
            fitting = [p for p in fitting if p.node == node] or fitting
        return fitting[0] if len(fitting) == 1 else None

    def find_by_guid(self, guid: int) -> IbPort | None:
        """The port with that port GUID."""
        return next((port for port in self.ports.values() if port.guid == guid), None)


def describe_lane(gigabits: float) -> tuple[float, str] | None:
    """Data rate and name of a lane from its signalling or data rate; None where there is none."""
    for signalling, data, name in LANES:
        if abs(gigabits - signalling) < 0.02 or (abs(gigabits - data) < 1e-6 and name != "FDR10"):
            return data, name
    return None


def split_hosts(text: str, mark: str, name: str) -> dict[str, str]:
    """The text of each node: lines that pdsh has labelled, or all of one node."""
    if not re.search(rf"^[\w.-]+: {mark}", text, re.MULTILINE):
        return {name: text}
    lines: dict[str, list[str]] = {}
    for line in text.splitlines():
        host, colon, rest = line.partition(": ")
        if colon:
            lines.setdefault(host, []).append(rest)
        elif line.endswith(":"):  # an empty line of that node
            lines.setdefault(line[:-1], []).append("")
    return {host: "\n".join(rest) for host, rest in lines.items()}


def read_ibstat(fabric: Fabric, text: str, node: str) -> int:
    """Take in what ibstat printed on a node; the number of ports in it."""
    note_cut_text(fabric, "ibstat", node, find_cut_card(text))
    card: dict[str, str] = {}
    name: str | None = None
    port: IbPort | None = None
    count = 0
    for line in text.splitlines():
        if found := re.match(r"\s*CA '([^']*)", line):
            name, card, port = found.group(1), {}, None
            continue
        if found := re.match(r"\s*Port (\d+):\s*$", line):
            port = fabric.get(node, name, int(found.group(1)))
            port.card_type = card.get("CA type", port.card_type)
            port.firmware = card.get("Firmware version", port.firmware)
            count += 1
            continue
        key, colon, value = (part.strip() for part in line.partition(":"))
        if not colon:
            continue
        if port is None:
            card[key] = value
        elif key == "State":
            port.state = value
        elif key == "Physical state":
            port.physical_state = value
        elif key == "Rate" and (found := re.match(r"[\d.]+", value)):
            port.rate = float(found.group()) * GIGABIT
        elif key == "Base lid" and WHOLE_NUMBER.fullmatch(value):
            port.lid = int(value, 0)
        elif key == "Port GUID" and GUID.fullmatch(value):
            port.guid = int(value, 16)
        elif key == "Link layer":
            port.link_layer = value
    return count


def find_cut_card(text: str) -> str | None:
    """The last card in ibstat's text, where the text ends before the last port of it does.

    A card says how many ports it has, and each port tells its GUID and, but for old versions, its
    link layer last.
    """
    name, told, ports, values = "", None, 0, dict[str, str]()
    has_layers = "Link layer:" in text
    is_named = True
    for line in text.splitlines():
        if found := re.fullmatch(r"CA '([^']*).*|CA?", line.strip()):
            name, told, ports, values = found.group(1) or "without a name", None, 0, {}
        elif re.match(r"\s*Port \d+:\s*$", line):
            ports, values = ports + 1, {}
        else:
            key, colon, value = (part.strip() for part in line.partition(":"))
            values[key] = value
            is_named = bool(colon) or not line.strip()
            told = int(value) if key == "Number of ports" and value.isdigit() else told
    if not name:
        return None
    layer = values.get("Link layer", "" if has_layers else LINK_LAYERS[0])
    is_whole = GUID.fullmatch(values.get("Port GUID", "")) is not None and not is_begun(layer)
    is_last = told is not None and ports >= told and is_named
    return None if is_last and (is_whole or not told) else name


def is_begun(layer: str) -> bool:
    """Whether this is the beginning of a link layer's name, and not the whole of it."""
    return any(name != layer and name.startswith(layer) for name in LINK_LAYERS)


def note_cut_text(fabric: Fabric, program: str, node: str, card: str | None) -> None:
    """Remember that a text ends in the middle, where it does."""
    if card is not None:
        fabric.cut_texts.append(
            f"{node}: the text of {program} ends in the middle of card {card}: what came after "
            "that is missing"
        )


def find_cut_device(text: str) -> str | None:
    """The last card in ibv_devinfo's text, where the text ends before the last port of it does."""
    name, told, ports = "", None, 0
    layer: str | None = None
    for line in text.splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if key == "hca_id":
            name, told, ports = value, None, 0
        elif key == "phys_port_cnt" and value.isdigit():
            told = int(value)
        elif key == "port" and value.isdigit():
            ports, layer = ports + 1, None
        elif key == "link_layer":
            layer = value
    if not name:
        return None
    is_whole = layer is not None and not is_begun(layer)
    return None if told is not None and ports >= told and (is_whole or not told) else name


def read_ibv_devinfo(fabric: Fabric, text: str, node: str) -> int:
    """Take in what ibv_devinfo printed on a node, with or without -v; the number of ports."""
    note_cut_text(fabric, "ibv_devinfo", node, find_cut_device(text))
    card: dict[str, str] = {}
    name: str | None = None
    port: IbPort | None = None
    count = 0
    for line in text.splitlines():
        key, colon, value = (part.strip() for part in line.partition(":"))
        if not colon:
            continue
        if key == "hca_id":
            name, card, port = value, {}, None
        elif key == "port" and value.isdigit():
            port = fabric.get(node, name, int(value))
            port.firmware = port.firmware or card.get("fw_ver")
            if port.card_type is None and "vendor_part_id" in card:
                port.card_type = f"MT{card['vendor_part_id']}"
            count += 1
        elif port is None:
            card[key] = value
        else:
            read_devinfo_value(port, key, value)
    return count


def read_devinfo_value(port: IbPort, key: str, value: str) -> None:
    """One line of a port in ibv_devinfo's text; ibstat's word for it goes first."""
    plain = re.sub(r"\s*\(\d+\)$", "", value)
    if key == "state":
        port.state = port.state or plain.removeprefix("PORT_").capitalize()
    elif key == "phys_state":
        words = "".join(word.capitalize() for word in plain.split("_"))
        port.physical_state = port.physical_state or words
    elif key == "port_lid":
        if port.lid is None and WHOLE_NUMBER.fullmatch(value):
            port.lid = int(value, 0)
    elif key == "link_layer":
        port.link_layer = port.link_layer or value
    elif key == "active_width" and (found := re.match(r"(\d+)X", plain)):
        port.lanes = int(found.group(1))
    elif key == "active_speed" and (found := re.match(r"([\d.]+)\s*Gbps", plain)):
        set_lane(port, float(found.group(1)))


def set_lane(port: IbPort, gigabits: float) -> None:
    """Note the speed of a lane, and from it the rate where nobody has told it."""
    lane = describe_lane(gigabits)
    if lane is None:
        return
    data, port.speed = lane
    if port.rate is None and port.lanes is not None:
        port.rate = port.lanes * data * GIGABIT


def read_iblinkinfo(fabric: Fabric, text: str, _node: str) -> int:
    """Take in what iblinkinfo printed of a fabric; the number of links in it."""
    owner, is_switch = "fabric", False
    count = 0
    for line in text.splitlines():
        if found := re.match(r"\s*(CA|Switch): (?:0x[0-9a-fA-F]+ )?(.*?):?\s*$", line):
            owner, is_switch = found.group(2), found.group(1) == "Switch"
            continue
        found = LINK_LINE.match(line)
        if found is None:
            continue
        count += 1
        guid = found["guid"]
        port = None if is_switch or guid is None else fabric.find_by_guid(int(guid, 16))
        if port is None:
            # `node01 mlx5_0`: a host channel adapter is described by host and device.
            name = (found["name"] or owner).strip()
            host, space, device = name.rpartition(" ")
            is_card = not is_switch and bool(space)
            port = fabric.get(
                host if is_card else name, device if is_card else None, int(found["port"])
            )
        port.is_switch = is_switch
        port.lid = port.lid if port.lid is not None else int(found["lid"])
        port.state = port.state or found["state"]
        port.physical_state = port.physical_state or found["physical"]
        port.link_layer = port.link_layer or "InfiniBand"
        port.peer = found["peer"] or None
        port.could_be = found["remark"] if "Could be" in found["remark"] else None
        if found["lanes"]:
            port.lanes = int(found["lanes"])
            set_lane(port, float(found["speed"]))
    return count


def read_counters(text: str) -> list[tuple[int, int, CounterReading]]:
    """LID, port and counters of each block that perfquery printed."""
    blocks: list[tuple[int, int, CounterReading]] = []
    for line in text.splitlines():
        if found := re.match(r"# Port (extended )?counters: .*?Lid (\d+) port (\d+)", line):
            reading = CounterReading()
            reading.extended = bool(found.group(1))
            blocks.append((int(found.group(2)), int(found.group(3)), reading))
        elif blocks and (found := re.match(r"(\w+):\.*(0x[0-9a-fA-F]+|\d+)\s*$", line)):
            name = OLD_COUNTERS.get(found.group(1), found.group(1))
            blocks[-1][2][name] = int(found.group(2), 0)
    return blocks


def read_perfquery(fabric: Fabric, text: str, node: str, later: bool = False) -> int:
    """Take in counters, or with `later` how far they have grown; the number of ports."""
    blocks = read_counters(text)
    for (lid, number), readings in group_blocks(blocks).items():
        port = fabric.find_by_lid(lid, number, node)
        if port is None:
            port = fabric.get(node, f"lid {lid}", number)
            port.lid = lid
        take_counters(fabric, port, readings, later)
    return len(blocks)


def group_blocks(
    blocks: Iterable[tuple[int, int, CounterReading]],
) -> dict[tuple[int, int], list[CounterReading]]:
    """The readings of each LID and port: perfquery with -x and without print a block each."""
    groups: dict[tuple[int, int], list[CounterReading]] = {}
    for lid, number, reading in blocks:
        groups.setdefault((lid, number), []).append(reading)
    return groups


def take_counters(
    fabric: Fabric, port: IbPort, readings: Sequence[CounterReading], later: bool
) -> None:
    """Note the counters of a port, or with `later` their growth; a wide counter goes first."""
    counters: dict[str, int] = {}
    wide: set[str] = set()
    for reading in sorted(readings, key=lambda reading: reading.extended):
        counters.update(reading)
        wide |= set(reading) if reading.extended else set()
    if later:
        measure_growth(fabric, port, counters)
        return
    port.counters = counters
    full = [n for n, top in SATURATED.items() if n not in wide and counters.get(n) == top]
    if full:
        fabric.caveats.append(
            f"{name_place(port)}: {', '.join(full)} at the largest value of a narrow counter; "
            "perfquery -x reads the wide ones, perfquery -R sets them to 0"
        )


def measure_growth(fabric: Fabric, port: IbPort, later: Mapping[str, int]) -> None:
    """What the counters have gained since the first reading."""
    if port.counters is None:
        fabric.caveats.append(f"{name_place(port)}: counters in the second reading only")
        port.counters = dict(later)
        return
    growth = {}
    for name, value in later.items():
        before = port.counters.get(name)
        if before is not None:
            growth[name] = value - before
    if any(change < 0 for change in growth.values()):
        # Somebody set the counters to 0 in between: all that they show has come since.
        fabric.caveats.append(f"{name_place(port)}: the counters were reset between the readings")
        growth = {name: later[name] for name in growth}
    port.growth = growth
    port.counters = dict(later)


def name_place(port: IbPort) -> str:
    """`node1 mlx5_0/1`."""
    return f"{port.node} {port.card or 'port'}/{port.port}"


def count_errors(counters: Mapping[str, int] | None) -> int | None:
    """All errors together that mean damage or loss; None where no such counter was read."""
    known = counters or {}
    read = [known[name] for name in ERROR_COUNTERS if name in known and name not in HARMLESS]
    return sum(read) if read else None


def list_errors(counters: Mapping[str, int]) -> str:
    """`SymbolErrorCounter 12, LinkDownedCounter 1`: those that are not 0."""
    return ", ".join(
        f"{name} {counters[name]}"
        for name in ERROR_COUNTERS
        if name not in HARMLESS and counters.get(name)
    )


def find_usual(values: Iterable[Any]) -> Any:
    """What most have; of two that as many have, the larger; None where nobody has anything."""
    counts = Counter(value for value in values if value is not None)
    return max(counts, key=lambda value: (counts[value], value), default=None)


class Usual(NamedTuple):
    """What is usual in a group of ports, and whether it is that of more than half of them."""

    value: Any
    is_most: bool

    def describe(self, shown: str) -> str:
        """`where most have 400`; of two ports that differ nobody has the majority."""
        return f"where {'most' if self.is_most else 'others'} have {shown}"


def measure_usual(values: Iterable[Any]) -> Usual:
    """What most have, or of those that as many have the largest."""
    told = [value for value in values if value is not None]
    usual = find_usual(told)
    return Usual(usual, 2 * told.count(usual) > len(told))


def judge_ports(fabric: Fabric) -> None:
    """Give each port its verdict, beside the others of its kind."""
    groups: dict[tuple[Any, ...], list[IbPort]] = {}
    for port in fabric.ports.values():
        groups.setdefault((port.is_switch, port.card_type, port.link_layer), []).append(port)
    for group in groups.values():
        up = [port for port in group if is_up(port)]
        rate = measure_usual(port.rate for port in up)
        lanes = measure_usual(port.lanes for port in up)
        firmware = measure_usual(port.firmware for port in group)
        for port in group:
            port.verdict, port.reason = judge_port(port, rate, lanes, firmware)


def is_up(port: IbPort) -> bool:
    """Linked and active, as far as it is known."""
    return port.physical_state in (None, "LinkUp") and port.state in (None, "Active")


def judge_port(port: IbPort, rate: Usual, lanes: Usual, firmware: Usual) -> tuple[str, str | None]:
    """Verdict and reason of a port, given what is usual among its kind."""
    if port.physical_state not in (None, "LinkUp") or (
        port.physical_state is None and port.state == "Down"
    ):
        return "down", f"physical state {port.physical_state or 'unknown'}, state {port.state}"
    if port.state not in (None, "Active"):
        return "not active", f"linked, but state {port.state}: is a subnet manager running?"
    if port.rate is not None and rate.value is not None and port.rate < rate.value:
        usual = rate.describe(f"{rate.value / GIGABIT:g}")
        return "slow", f"{port.rate / GIGABIT:g} Gbps, {usual}"
    if port.lanes is not None and lanes.value is not None and port.lanes < lanes.value:
        return "slow", f"{port.lanes} lanes, {lanes.describe(str(lanes.value))}"
    if port.could_be:
        return "slow", port.could_be
    if port.growth and count_errors(port.growth):
        return "errors growing", list_errors(port.growth)
    if port.firmware is not None and port.firmware != firmware.value:
        return "firmware unlike", f"{port.firmware}, {firmware.describe(str(firmware.value))}"
    if port.counters and count_errors(port.growth) is None and count_errors(port.counters):
        return "errors counted", list_errors(port.counters)
    if count_errors(port.counters) is None:
        return "errors not read", "no error counter was read: perfquery with -x and without"
    return "ok", None


def sort_ports(fabric: Fabric) -> list[IbPort]:
    """The ports, cards before switches, in the order of their nodes."""
    nodes = list(dict.fromkeys(port.node for port in fabric.ports.values()))
    return sorted(
        fabric.ports.values(),
        key=lambda port: (port.is_switch, nodes.index(port.node), port.card or "", port.port),
    )


def number_nodes(ports: Sequence[IbPort]) -> dict[str, str]:
    """`node0`, `switch0` ... in the place of names, which say whose cluster this is."""
    numbers: dict[str, str] = {}
    counts = Counter[str]()
    for port in ports:
        if port.node not in numbers:
            kind = "switch" if port.is_switch else "node"
            numbers[port.node] = f"{kind}{counts[kind]}"
            counts[kind] += 1
    return numbers


def make_port_rows(ports: Sequence[IbPort], with_names: bool) -> list[Row]:
    """The rows of the JSON, in base units, without GUIDs."""
    numbers = number_nodes(ports)
    rows = []
    for port in ports:
        counters = port.counters or {}

        def read_words(name: str, counters: Mapping[str, int] = counters) -> int | None:
            return counters[name] * WORD_BYTES if name in counters else None

        rows.append(
            {
                "node": port.node if with_names else numbers[port.node],
                "kind": "switch" if port.is_switch else "card",
                "card": port.card,
                "port": port.port,
                "card_type": port.card_type,
                "firmware": port.firmware,
                "state": port.state,
                "physical_state": port.physical_state,
                "link_layer": port.link_layer,
                "lid": port.lid,
                "lanes": port.lanes,
                "speed": port.speed,
                "rate_bytes_per_second": port.rate,
                **{column: counters.get(name) for name, column in ERROR_COUNTERS.items()},
                "errors": count_errors(port.counters),
                "errors_grown": count_errors(port.growth),
                "transmitted_bytes": read_words("PortXmitData"),
                "received_bytes": read_words("PortRcvData"),
                "transmit_waits": counters.get("PortXmitWait"),
                "verdict": port.verdict,
                "verdict_reason": port.reason,
            }
        )
    return rows


def format_ports(ports: Sequence[IbPort]) -> str:
    """The table: a line for each port."""

    def show(value: Any) -> str:
        return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)

    headings = ["Port", "State", "Link", "Rate [Gbps]", "Lanes", "Speed", "Layer", "LID"]
    headings += ["Firmware", "Errors", "Grown", "Verdict"]
    return format_table(
        headings,
        [
            [
                name_place(port),
                show(port.state),
                show(port.physical_state),
                show(None if port.rate is None else port.rate / GIGABIT),
                show(port.lanes),
                show(port.speed),
                show(port.link_layer),
                show(port.lid),
                show(port.firmware),
                show(count_errors(port.counters)),
                show(count_errors(port.growth)),
                port.verdict,
            ]
            for port in ports
        ],
    )


def run_ib_program(command: Sequence[str]) -> str:
    """What a program prints. Raises WrongUse where it is not there or does not succeed."""
    if shutil.which(command[0]) is None:
        raise WrongUse(
            f"{command[0]} is not on this machine (package {PACKAGES[command[0]]}); run it where "
            f"it is and read the text: --{command[0]} FILE"
        )
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WrongUse(f"{' '.join(command)}: {error}") from error
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise WrongUse(f"{' '.join(command)} ended with {done.returncode}: {lines[-1]}")
    return done.stdout


def read_here(fabric: Fabric, with_fabric: bool) -> None:
    """Run the programs on this node. Raises WrongUse where not even ibstat works."""
    node = "here"
    read_ibstat(fabric, run_ib_program(["ibstat"]), node)
    for command, read in (
        (["ibv_devinfo", "-v"], read_ibv_devinfo),
        *([(["iblinkinfo"], read_iblinkinfo)] if with_fabric else []),
    ):
        try:
            read(fabric, run_ib_program(command), node)
        except WrongUse as error:
            fabric.caveats.append(str(error))


def query_counters(fabric: Fabric, later: bool) -> None:
    """Run perfquery for each port of this node that is up."""
    for port in list(fabric.ports.values()):
        if port.node != "here" or not is_up(port) or port.link_layer != "InfiniBand":
            continue
        readings = []
        for wide in ([], ["-x"]):
            command = ["perfquery", *wide, "-C", str(port.card), "-P", str(port.port)]
            try:
                text = run_ib_program(command)
            except WrongUse as error:
                fabric.caveats.append(f"no counters: {error}")
                continue
            readings += [reading for _, _, reading in read_counters(text)]
        if not readings:
            return
        take_counters(fabric, port, readings, later)


def read_files(
    fabric: Fabric,
    program: str,
    names: Sequence[str],
    read: Callable[[Fabric, str, str], int],
    stop: StopSign,
) -> None:
    """Take in the texts of a program. Raises WrongUse where a file holds none, and Stopped."""
    for argument in names:
        stop.check()
        node, equals, name = argument.partition("=")
        if not equals or Path(argument).exists():
            node, name = Path(argument).stem, argument
        try:
            text = Path(name).read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            raise WrongUse(f"could not read {name}: {error.strerror}") from error
        mark = MARKS["perfquery" if program == "later" else program]
        hosts = split_hosts(text, mark, node)
        count = sum(read(fabric, part, host) for host, part in hosts.items())
        if count == 0:
            raise WrongUse(f"--{program}: {name} holds no port as {program} prints them")


def ignore_ports(fabric: Fabric, patterns: Sequence[str]) -> None:
    """Leave out cards, or ports `card/number`, that are named; a caveat for what names nothing."""
    for pattern in patterns:
        named = [
            key
            for key, port in fabric.ports.items()
            if pattern in (port.card, f"{port.card}/{port.port}", name_place(port), port.node)
        ]
        if not named:
            fabric.caveats.append(f"--ignore {pattern}: there is no such port")
        for key in named:
            del fabric.ports[key]


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


def parse_duration(text: str) -> float:
    """Seconds from `90`, `45s`, `10m`, `1h30m`."""
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", text.strip())
    if not text.strip() or found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no duration: write 90s, 10m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    total = 3600 * hours + 60 * minutes + seconds
    if total <= 0:
        raise argparse.ArgumentTypeError(f"'{text}': a duration has to be longer than nothing")
    return total


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


def run_self_test() -> int:
    """Check the readers and the verdicts on texts worked out by hand; 0, or 1 on failure."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    def judge(ibstat: str, before: str = "", after: str = "") -> list[IbPort]:
        fabric = Fabric()
        read_ibstat(fabric, ibstat, "n")
        read_perfquery(fabric, before, "n")
        read_perfquery(fabric, after, "n", later=True)
        judge_ports(fabric)
        return sort_ports(fabric)

    first, second = judge(TOY_IBSTAT, TOY_PERFQUERY)
    check("two ports of 400 Gbps, which is 50 GBps", first.rate == second.rate == 50e9)
    check("both are ok", (first.verdict, second.verdict) == ("ok", "ok"))
    check("LID 11 has the counters of LID 11", (first.counters or {}).get("PortXmitWait") == 7)
    (row, _) = make_port_rows([first, second], False)
    check("250 words are 1000 bytes", row["transmitted_bytes"] == 1000)
    check("no name and no GUID in the row", row["node"] == "node0" and "guid" not in row)
    slow = TOY_IBSTAT.replace("Rate: 400", "Rate: 200", 1)
    pair = [p.verdict for p in judge(slow, TOY_PERFQUERY)]
    check("200 Gbps beside 400 is slow", pair == ["slow", "ok"])
    bare = re.sub(r"^(Symbol|Link|PortRcvErr|PortXmitDisc).*\n", "", TOY_PERFQUERY, flags=re.M)
    unread = judge(TOY_IBSTAT, bare, bare)
    check("data counters alone are not ok", {p.verdict for p in unread} == {"errors not read"})
    down = TOY_IBSTAT.replace("LinkUp", "Polling", 1).replace("Active", "Down", 1)
    check("a port that is polling is down", judge(down)[0].verdict == "down")
    waits = TOY_IBSTAT.replace("Active", "Initializing", 1)
    check("a port without a subnet manager is not active", judge(waits)[0].verdict == "not active")
    after = TOY_PERFQUERY.replace(
        "SymbolErrorCounter:..............0", "SymbolErrorCounter:...3", 1
    )
    grown = judge(TOY_IBSTAT, TOY_PERFQUERY, after)[0]
    check("3 new symbol errors are growing errors", grown.verdict == "errors growing")
    check("and are named", grown.reason == "SymbolErrorCounter 3")
    check("4 lanes of NDR are 400 Gbps", describe_lane(106.25) == (100.0, "NDR"))
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="ib_report.py",
        description="One table and a verdict for all InfiniBand ports of a node or a cluster.",
        epilog="The docstring at the top of this file tells what the verdicts mean.",
        allow_abbrev=False,
    )
    texts = parser.add_argument_group("saved texts, in the place of running the programs here")
    for program in MARKS:
        texts.add_argument(
            f"--{program}",
            nargs="+",
            default=[],
            metavar="[NODE=]FILE",
            help=f"what {program} printed, of one node or by pdsh of many",
        )
    texts.add_argument(
        "--later",
        nargs="+",
        default=[],
        metavar="[NODE=]FILE",
        help="a second reading of perfquery, for what has grown",
    )
    here = parser.add_argument_group("this node")
    here.add_argument(
        "--again",
        type=parse_duration,
        metavar="DURATION",
        help="read the counters again after 60s, 5m, and tell what has grown",
    )
    here.add_argument(
        "--fabric", action="store_true", help="all links of the fabric, by iblinkinfo"
    )
    output = parser.add_argument_group("output")
    output.add_argument(
        "--ignore",
        nargs="+",
        default=[],
        metavar="CARD[/PORT]",
        help="cards and ports that are not in use: mlx5_4, mlx5_0/2",
    )
    output.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    output.add_argument("--names", action="store_true", help="names of nodes in the JSON too")
    other = parser.add_argument_group("other")
    other.add_argument("--toy", action="store_true", help="read a small text of an invented node")
    other.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    other.add_argument(
        "--version", action="version", version=f"ib_report {__version__} (method {METHOD})"
    )
    return parser


def has_files(options: argparse.Namespace) -> bool:
    """Whether saved texts are given."""
    return any(getattr(options, program) for program in (*MARKS, "later"))


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense, before anything is read."""
    check_json_path(options.json)
    if options.toy and (has_files(options) or options.again or options.fabric):
        raise WrongUse("--toy reads a text of its own; give nothing to read with it")
    if has_files(options) and (options.again or options.fabric):
        raise WrongUse(
            "--again and --fabric run programs here; with files use --later, --iblinkinfo"
        )
    if options.later and not options.perfquery:
        raise WrongUse("--later is a second reading: give the first with --perfquery")


def collect_ports(options: argparse.Namespace, fabric: Fabric, stop: StopSign) -> None:
    """Everything that was asked for. Raises WrongUse, and Stopped on a signal."""
    if options.toy:
        read_ibstat(fabric, TOY_IBSTAT, "toy")
        read_perfquery(fabric, TOY_PERFQUERY, "toy")
    elif has_files(options):
        read_files(fabric, "ibstat", options.ibstat, read_ibstat, stop)
        read_files(fabric, "ibv_devinfo", options.ibv_devinfo, read_ibv_devinfo, stop)
        read_files(fabric, "iblinkinfo", options.iblinkinfo, read_iblinkinfo, stop)
        read_files(fabric, "perfquery", options.perfquery, read_perfquery, stop)
        read_files(
            fabric,
            "later",
            options.later,
            lambda fabric, text, node: read_perfquery(fabric, text, node, later=True),
            stop,
        )
    else:
        read_here(fabric, options.fabric)
        query_counters(fabric, later=False)
        if options.again:
            wait_until(time.monotonic() + options.again, stop)
            query_counters(fabric, later=True)


def wait_until(moment: float, stop: StopSign) -> None:
    """Sleep in small steps. Raises Stopped on a signal."""
    while time.monotonic() < moment:
        stop.check()
        time.sleep(0.1)
    stop.check()


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    stop = StopSign()
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_options(options)
        stop.listen()
        return run_report(options, make_portable_command(arguments), stop, origin)
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a run listens for signals itself
        print("stopped", file=sys.stderr)
        return 1


def run_report(
    options: argparse.Namespace, command: list[str], stop: StopSign, origin: float
) -> int:
    """Collect, judge, write; the exit status."""
    fabric = Fabric()
    try:
        collect_ports(options, fabric, stop)
    except Stopped as stopped:
        fabric.caveats.append(f"{stopped}: what was to be read after that is missing")
    ignore_ports(fabric, options.ignore)
    judge_ports(fabric)
    ports = sort_ports(fabric)
    caveats = list(dict.fromkeys(fabric.caveats))
    cut_texts = list(dict.fromkeys(fabric.cut_texts))
    try:
        if options.json:
            document = make_document_head("ib_report", (__version__, METHOD), command, origin)
            hidden = {} if options.names else number_nodes(ports)
            document |= {
                "complete": not stop.by_signal and not cut_texts,
                "units": UNITS,
                "results": make_port_rows(ports, options.names),
                "caveats": [replace_names(text, hidden) for text in (*cut_texts, *caveats)],
                "details": {"verdicts": dict(Counter(port.verdict for port in ports))},
            }
            write_document(options.json, document)
    finally:  # a disk that is full loses no table
        if ports:
            print(format_ports(ports))
    for text in caveats:
        write_note(text)
    if unread := sum(port.verdict == "errors not read" for port in ports):
        write_note(
            f"no error counter was read of {unread} of {len(ports)} ports: perfquery with -x and "
            "without has them"
        )
    counted = sum(port.verdict == "errors counted" for port in ports)
    if counted:
        counting = "1 port has" if counted == 1 else f"{counted} ports have"
        still = "it still does" if counted == 1 else "they still do"
        write_note(
            f"{counting} counted errors at some time: --again 60 or --later tells whether {still}"
        )
    bad = [port for port in ports if port.verdict in BAD_VERDICTS]
    for port in bad:
        print(f"problem: {name_place(port)}: {port.verdict}: {port.reason}", file=sys.stderr)
    for text in cut_texts:
        print(f"problem: {text}", file=sys.stderr)
    if not ports:
        print("problem: no port was found", file=sys.stderr)
    return 1 if bad or cut_texts or not ports or stop.by_signal else 0


def replace_names(text: str, numbers: Mapping[str, str]) -> str:
    """The text with nodes as numbers."""
    for name in sorted(numbers, key=len, reverse=True):
        text = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", numbers[name], text)
    return text


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
