#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which InfiniBand port is down, slower than the others, or counting errors?

A port that came up with one lane instead of four, or a cable that corrupts symbols, slows every job
that crosses it, silently. This tool puts the output of ibstat, ibv_devinfo, iblinkinfo and
perfquery into one table, a row per port, with a verdict. It runs them on this node, or reads what
they printed on others.

## Formulas

`rate = lanes * rate of a lane`: four lanes of NDR (100 Gbps) are 400 Gbps, 50 GB/s. iblinkinfo
prints the signalling rate of a lane (106.25 for NDR), ibstat the data rate of the port. An error
count alone says little, because a reboot of the other side counts too. Errors that grow between two
readings are a fault. The verdict of a port is the first of these that applies:

- `down`: the cable or the other side; the physical state is not LinkUp
- `not active`: linked, but no subnet manager has brought the port up
- `slow`: a lower rate or fewer lanes than most ports of its kind (of two that differ, the slower),
  or than iblinkinfo says the link could have
- `errors growing`: an error counter went up between the two readings
- `firmware unlike`: another firmware than most NICs of its type
- `errors not read`: read perfquery with `-x` and without, as older adapters need both
- `errors counted`: counters are not 0, of unknown age; read them again
- `ok`

## How to run

    sudo python3 ib_report.py --again 60s    # this node, counters read twice
    sudo python3 ib_report.py --fabric       # all links of the fabric too, by iblinkinfo
    # pdsh
    pdsh -w node[01-16] ibstat > all.txt
    pdsh -w node[01-16] 'perfquery -C mlx5_0 -P 1; perfquery -x -C mlx5_0 -P 1' > before.txt
    python ib_report.py --ibstat all.txt --perfquery before.txt --later after.txt

A file belongs to the node it is named after, unless pdsh has put the node before each line;
`NODE=FILE` names another. Counters are matched to ports by LID.

## A good answer

Every port `ok`, all with the same rate and width, one firmware per NIC type, and no error that
grows under load. If a single port is not: reseat or replace the cable, then suspect the port.

Exit status: 0 all ports are ok, or only their errors are of unknown age or not read; 1 a port has
another verdict, or no port was found; 2 wrong use.
"""

from __future__ import annotations

import argparse
import functools
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, duration, start
from kit.report import Report, format_table

__version__ = "0.3.0"
METHOD = 2

PROFILES = {"demo": ["--demo"], "full": ["--again", "60"]}

ERROR_COUNTERS = (
    "SymbolErrorCounter", "LinkErrorRecoveryCounter", "LinkDownedCounter", "PortRcvErrors",
    "PortRcvRemotePhysicalErrors", "PortXmitDiscards", "PortXmitConstraintErrors",
    "PortRcvConstraintErrors", "LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors",
    "VL15Dropped", "QP1Dropped",
)  # fmt: skip
"""What means damage or loss. PortRcvSwitchRelayErrors is harmless: a multicast packet that no port
of the switch wants."""
TEXTS = ("card_type", "firmware", "state", "physical_state", "link_layer", "speed")
UNITS = {
    **dict.fromkeys(("port", "lid", "lanes", "errors", "errors_grown"), "1"),
    **dict.fromkeys(("transmitted_bytes", "received_bytes"), "B"),
    "rate_bytes_per_second": "B/s",
}
LANES = (
    (2.5, 2.5, "SDR"), (5.0, 5.0, "DDR"), (10.0, 10.0, "QDR"), (10.3125, 10.0, "FDR10"),
    (14.0625, 14.0, "FDR"), (25.78125, 25.0, "EDR"), (53.125, 50.0, "HDR"), (106.25, 100.0, "NDR"),
    (212.5, 200.0, "XDR"),
)  # fmt: skip
"""Signalling rate of a lane in Gbps, its data rate, its name."""
GIGABIT = 1e9 / 8
MARKS = {"ibstat": "CA '", "ibv_devinfo": "hca_id:", "iblinkinfo": "(?:CA|Switch): ",
         "perfquery": "# Port"}  # fmt: skip
"""How some line of each program's output starts."""
LINK = re.compile(
    r"^\s*(?P<guid>0x[0-9a-fA-F]+)?\s*(?:\"(?P<name>[^\"]*)\")?\s*(?P<lid>\d+)\s+(?P<port>\d+)\[\s*\]"
    r"\s*==\(\s*(?:(?P<lanes>\d+)X\s+(?P<speed>[\d.]+)\s*Gbps\s+)?(?P<state>\w+)/\s*(?P<physical>\w+)"
    r"\)==>.*?\(\s*(?P<remark>[^)]*?)\s*\)\s*$"
)
FAULTS = ("down", "not active", "slow", "errors growing", "firmware unlike")
DEMO_CARD = """CA 'mlx5_{0}'
	CA type: MT4129
	Number of ports: 1
	Firmware version: 28.40.1000
	Port 1:
		State: Active
		Physical state: LinkUp
		Rate: {1}
		Base lid: {2}
		Port GUID: 0x00000000000000a{0}
		Link layer: InfiniBand
"""
DEMO_COUNTERS = """# Port extended counters: Lid {0} port 1 (CapMask: 0x5A00 CapMask2: 0x0000000)
PortXmitData:....................250
PortRcvData:.....................500
SymbolErrorCounter:..............{1}
LinkDownedCounter:...............0
PortXmitWait:....................7
"""
DEMO_ANSWER = ["ok", "slow", "errors growing", "errors counted"]

IN_CARDS = {
    "CA type": "card_type", "Firmware version": "firmware", "State": "state",
    "Physical state": "physical_state", "Link layer": "link_layer",
    "vendor_part_id": "card_type", "fw_ver": "firmware", "state": "state",
    "phys_state": "physical_state", "link_layer": "link_layer",
}  # fmt: skip
"""The words of ibstat and ibv_devinfo, and the columns."""

Port = dict[str, Any]
Ports = dict[tuple[str, str, int], Port]
"""By node, card and number."""


def get_port(ports: Ports, node: str, card: str, number: int) -> Port:
    """The port in this place, added where it is not known yet."""
    place = {"node": node, "kind": "card", "card": card, "port": number}
    hidden = dict.fromkeys(("_guid", "_could_be", "_counters", "_growth"))
    empty = dict.fromkeys(("node", "kind", "card", "port", *TEXTS, *UNITS))
    return ports.setdefault((node, card, number), empty | hidden | place)


def fill(port: Port, **facts: Any) -> None:
    """Add facts that no other program has told yet."""
    port.update({name: value for name, value in facts.items() if port[name] is None})


def set_speed(port: Port, gigabits: float) -> None:
    """Note the speed of the port's lanes, from their signalling or data rate, and the rate."""
    for signalling, data, name in LANES:
        if abs(gigabits - signalling) < 0.02 or gigabits == data:
            fill(port, speed=name)
            if port["lanes"]:
                fill(port, rate_bytes_per_second=port["lanes"] * data * GIGABIT)
            return


def read_cards(ports: Ports, text: str, node: str) -> int:
    """Take in what ibstat or ibv_devinfo (with or without -v) printed; the number of ports."""
    card: Port = {}
    port: Port | None = None
    count = 0
    for line in text.splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        value = re.sub(r"\s*\(\d+\)$", "", value)
        if found := re.match(r"\s*(?:CA '|hca_id:\s*)([^\s']+)", line):
            card, port = {"name": found[1]}, None
        elif found := re.match(r"\s*[Pp]ort:?\s+(\d+):?\s*$", line):
            port = get_port(ports, node, card["name"], int(found[1]))
            fill(port, card_type=card.get("card_type"), firmware=card.get("firmware"))
            count += 1
        elif column := IN_CARDS.get(key):
            words = value.removeprefix("PORT_")
            if key in ("state", "phys_state"):  # PORT_ACTIVE, LINK_UP
                words = words.replace("_", " ").title().replace(" ", "")
            words = f"MT{words}" if key == "vendor_part_id" else words
            if port is None:
                card[column] = words
            else:
                fill(port, **{column: words})
        elif port is not None and key == "Rate":
            fill(port, rate_bytes_per_second=float(value.split()[0]) * GIGABIT)
        elif port is not None and key in ("Base lid", "port_lid"):
            fill(port, lid=int(value, 0))
        elif port is not None and key == "Port GUID":
            fill(port, _guid=int(value, 16))
        elif port is not None and key == "active_width":
            fill(port, lanes=int(value.rstrip("X")))
        elif port is not None and key == "active_speed":
            set_speed(port, float(value.split()[0]))
    return count


def read_iblinkinfo(ports: Ports, text: str, _node: str) -> int:
    """Take in the links of a fabric as iblinkinfo printed them; their number."""
    owner, kind, count = "fabric", "card", 0
    by_guid = {port["_guid"]: port for port in ports.values() if port["_guid"]}
    for line in text.splitlines():
        if found := re.match(r"\s*(CA|Switch): (?:0x[0-9a-fA-F]+ )?(.*?):?\s*$", line):
            owner, kind = found[2], "switch" if found[1] == "Switch" else "card"
        elif found := LINK.match(line):
            count += 1
            port = by_guid.get(int(found["guid"], 16)) if found["guid"] else None
            if port is None or kind == "switch":
                # The description of a channel adapter is host and device: `node01 mlx5_0`.
                node, _, card = (found["name"] or owner).rpartition(" " if kind == "card" else "\0")
                port = get_port(ports, node or card, card if node else "port", int(found["port"]))
            port["kind"] = kind
            fill(port, lid=int(found["lid"]), state=found["state"], link_layer="InfiniBand")
            fill(port, physical_state=found["physical"])
            fill(port, _could_be=found["remark"] if "Could be" in found["remark"] else None)
            if found["lanes"]:
                fill(port, lanes=int(found["lanes"]))
                set_speed(port, float(found["speed"]))
    return count


def read_perfquery(ports: Ports, text: str, node: str, *, later: bool = False) -> int:
    """Take in counters, or with `later` how far they have grown; the number of ports.

    perfquery with -x and without print a block each; a wide counter (-x) replaces a narrow one.
    """
    blocks: dict[tuple[int, int], tuple[dict[str, int], dict[str, int]]] = {}
    counters: dict[str, int] = {}
    for line in text.splitlines():
        if found := re.match(r"# Port (extended )?counters: .*?Lid (\d+) port (\d+)", line):
            place = int(found[2]), int(found[3])
            counters = blocks.setdefault(place, ({}, {}))[bool(found[1])]
        elif found := re.match(r"(\w+):\.*(\d+)\s*$", line):
            counters[found[1]] = int(found[2])
    for (lid, number), (narrow, wide) in blocks.items():
        known = [p for p in ports.values() if (p["lid"], p["port"]) == (lid, number)]
        known = [port for port in known if port["node"] == node] or known
        port = known[0] if known else get_port(ports, node, f"lid {lid}", number)
        fill(port, lid=lid)
        read = narrow | wide
        if later and port["_counters"]:
            before = port["_counters"]
            growth = {name: read[name] - before[name] for name in read.keys() & before.keys()}
            if min(growth.values(), default=0) < 0:  # they were reset in between
                growth = {name: read[name] for name in growth}
            port["_growth"] = growth
        port["_counters"] = read
    return len(blocks)


def count_errors(counters: Mapping[str, int] | None) -> int | None:
    """The sum of all that mean damage or loss; None where no such counter was read."""
    found = [counters[name] for name in ERROR_COUNTERS if name in counters] if counters else []
    return sum(found) if found else None


def list_errors(counters: Mapping[str, int]) -> str:
    """`SymbolErrorCounter 12, LinkDownedCounter 1`: those that are not 0."""
    return ", ".join(f"{name} {counters[name]}" for name in ERROR_COUNTERS if counters.get(name))


def judge_ports(ports: Sequence[Port]) -> None:
    """Give each port its counters and its verdict, compared with the others of its kind."""
    for port in ports:
        counters = port["_counters"] or {}
        port["errors"] = count_errors(port["_counters"])
        port["errors_grown"] = count_errors(port["_growth"])
        for column, name in (("transmitted_bytes", "Xmit"), ("received_bytes", "Rcv")):
            words = counters.get(f"Port{name}Data")  # of 4 bytes
            port[column] = words and 4 * words
        kind = ("kind", "card_type", "link_layer")
        peers = [peer for peer in ports if all(peer[name] == port[name] for name in kind)]
        usual = {
            name: find_usual([peer[name] for peer in peers if name == "firmware" or is_up(peer)])
            for name in ("rate_bytes_per_second", "lanes", "firmware")
        }
        port["verdict"], port["verdict_reason"] = judge(port, usual)


def find_usual(values: Sequence[Any]) -> Any:
    """What most have; of two that as many have, the larger; None where nothing is known."""
    counts = Counter(value for value in values if value is not None)
    return max(counts, key=lambda value: (counts[value], value), default=None)


def is_up(port: Port) -> bool:
    """Linked and active, as far as it is known."""
    return port["physical_state"] in (None, "LinkUp") and port["state"] in (None, "Active")


def judge(port: Port, usual: Mapping[str, Any]) -> tuple[Any, Any]:
    """Verdict and reason of a port, given what most of its kind have."""
    state, physical = port["state"], port["physical_state"]
    rate, lanes = port["rate_bytes_per_second"], port["lanes"]
    if physical not in (None, "LinkUp") or (physical is None and state == "Down"):
        return "down", f"physical state {physical or 'unknown'}, state {state}"
    if state not in (None, "Active"):
        return "not active", f"linked, but state {state}: is a subnet manager running?"
    if rate and rate < (best := usual["rate_bytes_per_second"]):
        return "slow", f"{rate / GIGABIT:g} Gbps, where others have {best / GIGABIT:g}"
    if lanes and lanes < usual["lanes"]:
        return "slow", f"{lanes} lanes, where others have {usual['lanes']}"
    if port["_could_be"]:
        return "slow", port["_could_be"]
    if port["errors_grown"]:
        return "errors growing", list_errors(port["_growth"])
    if port["firmware"] and port["firmware"] != usual["firmware"]:
        return "firmware unlike", f"{port['firmware']}, where others have {usual['firmware']}"
    if port["errors"] is None:
        return "errors not read", "no error counter was read: perfquery with -x and without"
    if port["errors"] and port["errors_grown"] is None:
        return "errors counted", list_errors(port["_counters"])
    return "ok", None


def split_hosts(text: str, mark: str, name: str) -> dict[str, str]:
    """The text of each node: of lines that pdsh has labelled, or all of one node."""
    if not re.search(rf"^[\w.-]+: {mark}", text, re.MULTILINE):
        return {name: text}
    lines: dict[str, list[str]] = {}
    for line in text.splitlines():
        host, _, rest = line.partition(":")
        lines.setdefault(host, []).append(rest.removeprefix(" "))
    return {host: "\n".join(rest) for host, rest in lines.items()}


def read_files(ports: Ports, options: argparse.Namespace) -> None:
    """Take in saved texts. Raises OSError, and UsageError for a file without ports."""
    later = functools.partial(read_perfquery, later=True)
    readers = (read_cards, read_cards, read_iblinkinfo, read_perfquery, later)
    for program, read in zip((*MARKS, "later"), readers, strict=True):
        for argument in getattr(options, program):
            node, _, path = argument.rpartition("=")
            node = node or Path(path).stem
            text = Path(path).read_text(encoding="utf-8", errors="replace")
            hosts = split_hosts(text, MARKS.get(program, MARKS["perfquery"]), node)
            if not sum(read(ports, part, host) for host, part in hosts.items()):
                option = program.replace("_", "-")
                raise UsageError(f"--{option}: {path} has no port as {program} prints them")


def read_here(ports: Ports, options: argparse.Namespace, report: Report) -> None:
    """Run the programs on this node, with a note on each that is missing or fails."""

    def ask(*command: str) -> str:
        if shutil.which(command[0]) is None:
            report.note(f"{command[0]} is not installed (infiniband-diags, ibverbs-utils); run it "
                        "where it is and read its output")  # fmt: skip
            return ""
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr or done.stdout).strip().rpartition("\n")[2]
            report.note(f"{' '.join(command)} ended with {done.returncode}: {last}")
        return "" if done.returncode else done.stdout

    read_cards(ports, ask("ibstat"), "here")
    read_cards(ports, ask("ibv_devinfo", "-v"), "here")
    mine = [(port["card"], str(port["port"])) for port in ports.values()
            if is_up(port) and port["link_layer"] == "InfiniBand"]  # fmt: skip
    if options.fabric:
        read_iblinkinfo(ports, ask("iblinkinfo"), "here")
    for later in (False, True) if options.again and mine else (False,):
        time.sleep(options.again if later else 0)
        for card, port in mine:
            address = ("-C", card, "-P", port)
            text = ask("perfquery", *address) + ask("perfquery", "-x", *address)
            read_perfquery(ports, text, "here", later=later)


def print_ports(ports: Sequence[Port]) -> None:
    """Print the table, a row per port."""
    cells = []
    for port in ports:
        rate = port["rate_bytes_per_second"]
        columns = ("lanes", "speed", "lid", "firmware", "errors", "errors_grown", "verdict")
        link = f"{port['state']}, {port['physical_state']}"
        shown = rate and f"{rate / GIGABIT:g}"
        cells.append((name_port(port), link, shown, *(port[column] for column in columns)))
    headings = ("port", "state", "Gbps", "lanes", "speed", "LID", "firmware", "errors", "grown",
                "verdict")  # fmt: skip
    print(format_table(headings, cells))


def name_port(port: Port) -> str:
    """`node1 mlx5_0/1`."""
    return f"{port['node']} {port['card']}/{port['port']}"


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(__doc__, "ib_report", __version__, METHOD, PROFILES["demo"])
    add = parser.add_argument
    for program in MARKS:
        option = f"--{program.replace('_', '-')}"
        text = f"saved output of {program}, of one node, or of many by pdsh"
        add(option, nargs="+", default=[], metavar="[NODE=]FILE", help=text)
    # fmt: off
    add("--later", nargs="+", default=[], metavar="[NODE=]FILE",
        help="a second reading of perfquery: report what has grown")
    add("--again", type=duration, metavar="DURATION",
        help="read the counters of this node again after 60s, 5m: report what has grown")
    add("--fabric", action="store_true", help="all links of the fabric, by iblinkinfo")
    add("--ignore", nargs="+", default=[], metavar="CARD[/PORT]",
        help="NICs and ports to leave out: mlx5_4, mlx5_0/2")
    # fmt: on
    return parser


def read_demo(ports: Ports) -> None:
    """Four ports: a good one, one at half the rate, one with new errors, one with old errors."""
    cards = [DEMO_CARD.format(i, 200 if i == 1 else 400, 10 + i) for i in range(4)]
    read_cards(ports, "".join(cards), "demo")
    for lid, before, after in ((10, 0, 0), (11, 0, 0), (12, 0, 3)):
        read_perfquery(ports, DEMO_COUNTERS.format(lid, before), "demo")
        read_perfquery(ports, DEMO_COUNTERS.format(lid, after), "demo", later=True)
    read_perfquery(ports, DEMO_COUNTERS.format(13, 5), "demo")


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    options = build_parser().parse_args(arguments)
    report = Report("ib_report", __version__, METHOD, UNITS, options.json)
    found: Ports = {}
    if options.demo:
        read_demo(found)
    elif any(getattr(options, program) for program in (*MARKS, "later")):
        read_files(found, options)
    else:
        read_here(found, options, report)
    ports = sorted(found.values(), key=lambda port: port["kind"])
    ignored = set(options.ignore)
    ports = [p for p in ports if not ignored & {p["card"], f"{p['card']}/{p['port']}"}]
    judge_ports(ports)
    report.rows = [{k: v for k, v in port.items() if not k.startswith("_")} for port in ports]
    report.complete = True
    print_ports(ports)
    verdicts = [port["verdict"] for port in ports]
    if "errors counted" in verdicts:
        report.note("--again 60s or --later shows whether the errors still grow")
    faults = [port for port in ports if port["verdict"] in FAULTS]
    for port in faults:
        words = f"{name_port(port)}: {port['verdict']}: {port['verdict_reason']}"
        print(f"problem: {words}", file=sys.stderr)
    if not ports:
        print("problem: no port was found", file=sys.stderr)
    report.save()
    return int(verdicts != DEMO_ANSWER if options.demo else not ports or bool(faults))


if __name__ == "__main__":
    start(main)
