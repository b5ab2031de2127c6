#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which InfiniBand port is down, slower than the others, or counting errors?

A port that came up with one lane instead of four, or a bad cable, silently slows every job that
uses it. This tool runs ibstat, ibv_devinfo, iblinkinfo and perfquery on this node, or reads what
they printed on others, and prints a row per port with a verdict.

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
another verdict, or no port was found; 2 usage error.
"""

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
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
NUMBERS = ("lid", "lanes", "errors", "errors_grown", "transmitted_bytes", "received_bytes",
           "rate_bytes_per_second")  # fmt: skip
TEXTS = ("card_type", "firmware", "state", "physical_state", "link_layer", "speed")
LANES = (
    (2.5, 2.5, "SDR"), (5.0, 5.0, "DDR"), (10.0, 10.0, "QDR"), (10.3125, 10.0, "FDR10"),
    (14.0625, 14.0, "FDR"), (25.78125, 25.0, "EDR"), (53.125, 50.0, "HDR"), (106.25, 100.0, "NDR"),
    (212.5, 200.0, "XDR"),
)  # fmt: skip
"""Signalling rate of a lane in Gbps, its data rate, its name."""
GIGABIT = 1e9 / 8
PROGRAMS = ("ibstat", "ibv_devinfo", "iblinkinfo", "perfquery")
MARK = "(?:CA '|hca_id:|(?:CA|Switch): |# Port)"
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

Port = dict[str, Any]
Ports = dict[tuple[str, str, int], Port]
"""By node, card and number."""


def get_port(ports: Ports, node: str, card: str, number: int) -> Port:
    """The port in this place, added where it is not known yet."""
    place = {"node": node, "kind": "card", "card": card, "port": number}
    hidden = ("_guid", "_lane", "_could_be", "_before", "_after")
    return ports.setdefault(
        (node, card, number), dict.fromkeys((*place, *TEXTS, *NUMBERS, *hidden)) | place
    )


def name_state(value: str) -> str:
    """`Active` from `PORT_ACTIVE (4)`, `LinkUp` from `LINK_UP (5)`."""
    return value.partition(" ")[0].removeprefix("PORT_").replace("_", " ").title().replace(" ", "")


def first_number(value: str) -> float:
    """100 from `100.0 Gbps (128)`, 4 from `4X (2)`."""
    return float(re.split("[X ]", value)[0])


# What ibstat and ibv_devinfo (with or without -v) call it: the column, and how its value is read.
IN_CARDS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "CA type": ("card_type", str), "vendor_part_id": ("card_type", "MT{}".format),
    "Firmware version": ("firmware", str), "fw_ver": ("firmware", str),
    "State": ("state", str), "state": ("state", name_state),
    "Physical state": ("physical_state", str), "phys_state": ("physical_state", name_state),
    "Link layer": ("link_layer", str), "link_layer": ("link_layer", str),
    "Base lid": ("lid", int), "port_lid": ("lid", int), "Port GUID": ("_guid", str),
    "Rate": ("rate_bytes_per_second", lambda value: first_number(value) * GIGABIT),
    "active_width": ("lanes", lambda value: int(first_number(value))),
    "active_speed": ("_lane", first_number),
}  # fmt: skip


def read_cards(ports: Ports, text: str, node: str) -> None:
    """Read what ibstat or ibv_devinfo printed."""
    name = ""
    facts: Port = {}
    for line in text.splitlines():
        key, _, value = (part.strip() for part in line.partition(":"))
        if found := re.match(r"\s*(?:CA '|hca_id:\s*)([^\s']+)", line):
            name, facts = found[1], {}
        elif found := re.match(r"\s*[Pp]ort:?\s+(\d+):?\s*$", line):
            port = get_port(ports, node, name, int(found[1]))
            port |= {column: facts[column] for column in facts.keys() & {"card_type", "firmware"}}
            facts = port
        elif key in IN_CARDS:
            column, read = IN_CARDS[key]
            facts[column] = read(value)


def read_links(ports: Ports, text: str, _node: str) -> None:
    """Read the links of a fabric as iblinkinfo printed them."""
    owner, kind = "fabric", "card"
    by_guid = {port["_guid"]: port for port in ports.values()}
    for line in text.splitlines():
        if found := re.match(r"\s*(CA|Switch): (?:0x[0-9a-fA-F]+ )?(.*?):?\s*$", line):
            owner, kind = found[2], "switch" if found[1] == "Switch" else "card"
        elif found := LINK.match(line):
            port = by_guid.get(found["guid"] or "") if kind == "card" else None
            if port is None:
                # The description of a channel adapter is host and device: `node01 mlx5_0`.
                node, _, card = (found["name"] or owner).rpartition(" " if kind == "card" else "\0")
                port = get_port(ports, node or card, card if node else "port", int(found["port"]))
            port |= {"kind": kind, "lid": int(found["lid"]), "link_layer": "InfiniBand"}
            port |= {"state": found["state"], "physical_state": found["physical"]}
            port["_could_be"] = found["remark"] if "Could be" in found["remark"] else None
            if found["lanes"]:
                port |= {"lanes": int(found["lanes"]), "_lane": float(found["speed"])}


def read_counters(ports: Ports, text: str, node: str, reading: str) -> None:
    """Read the counters of one reading (`_before` or `_after`) as perfquery printed them.

    perfquery with -x and without print a block each. A narrow counter stops at its largest value,
    so of two the larger counts.
    """
    counters: dict[str, int] = {}
    for line in text.splitlines():
        if found := re.match(r"# Port (?:extended )?counters: .*?Lid (\d+) port (\d+)", line):
            lid, number = int(found[1]), int(found[2])
            known = [p for p in ports.values() if (p["lid"], p["port"]) == (lid, number)]
            known = [port for port in known if port["node"] == node] or known
            port = known[0] if known else get_port(ports, node, f"lid {lid}", number)
            counters = port[reading] = port[reading] or {}
            port["lid"] = lid
        elif found := re.match(r"(\w+):\.*(\d+)\s*$", line):
            counters[found[1]] = max(int(found[2]), counters.get(found[1], 0))


def take_in(ports: Ports, texts: Sequence[tuple[str, str]], reading: str = "_before") -> None:
    """Read texts after their nodes; ports first, because counters and links need them."""
    for node, text in texts:
        read_cards(ports, text, node)
    for node, text in texts:
        read_links(ports, text, node)
        read_counters(ports, text, node, reading)


def find_errors(counters: Mapping[str, int]) -> dict[str, int]:
    """The counters that mean damage or loss."""
    return {name: counters[name] for name in ERROR_COUNTERS if name in counters}


def judge_ports(ports: Sequence[Port]) -> None:
    """Give each port its counters and its verdict, compared with the others of its kind."""
    for port in ports:
        before, after = port["_before"] or {}, port["_after"] or {}
        growth = {name: after[name] - before[name] for name in after.keys() & before.keys()}
        if min(growth.values(), default=0) < 0:  # they were reset in between
            growth = after
        counters = after or before
        errors, grown = find_errors(counters), find_errors(growth)
        port["errors"] = sum(errors.values()) if errors else None
        port["errors_grown"] = sum(grown.values()) if grown else None
        seen = grown if port["errors_grown"] else errors
        port["_errors"] = ", ".join(f"{name} {count}" for name, count in seen.items() if count)
        for column, name in (("transmitted_bytes", "Xmit"), ("received_bytes", "Rcv")):
            words = counters.get(f"Port{name}Data")  # of 4 bytes
            port[column] = words and 4 * words
        for signalling, data, name in LANES if port["_lane"] else ():
            if abs(port["_lane"] - signalling) < 0.02 or port["_lane"] == data:
                port["speed"] = name
                port["rate_bytes_per_second"] = port["lanes"] * data * GIGABIT
    for port in ports:
        kind = ("kind", "card_type", "link_layer")
        peers = [peer for peer in ports if all(peer[name] == port[name] for name in kind)]
        usual = {
            name: find_usual([peer[name] for peer in peers if name == "firmware" or is_up(peer)])
            for name in ("rate_bytes_per_second", "firmware")
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
    rate = port["rate_bytes_per_second"]
    if physical not in (None, "LinkUp") or (physical is None and state == "Down"):
        return "down", f"physical state {physical or 'unknown'}, state {state}"
    if state not in (None, "Active"):
        return "not active", f"linked, but state {state}: is a subnet manager running?"
    if rate and rate < (best := usual["rate_bytes_per_second"]):
        return "slow", f"{rate / GIGABIT:g} Gbps, where others have {best / GIGABIT:g}"
    if port["_could_be"]:
        return "slow", port["_could_be"]
    if port["errors_grown"]:
        return "errors growing", port["_errors"]
    if port["firmware"] and port["firmware"] != usual["firmware"]:
        return "firmware unlike", f"{port['firmware']}, where others have {usual['firmware']}"
    if port["errors"] is None:
        return "errors not read", "no error counter was read: perfquery with -x and without"
    if port["errors"] and port["errors_grown"] is None:
        return "errors counted", port["_errors"]
    return "ok", None


def read_files(arguments: Sequence[str]) -> list[tuple[str, str]]:
    """Saved texts with their nodes, by line (pdsh) or by file. Raises OSError, UsageError."""
    texts: list[tuple[str, str]] = []
    for argument in arguments:
        node, _, path = argument.rpartition("=")
        text = Path(path).read_text(encoding="utf-8", errors="replace")
        found = re.search(rf"^([\w.-]+: )?{MARK}", text, re.MULTILINE)
        if found is None:
            raise UsageError(f"{path} has no port as {', '.join(PROGRAMS)} print them")
        lines: dict[str, list[str]] = {}
        for line in text.splitlines():
            host, _, rest = line.partition(": ") if found[1] else (node, "", line)
            lines.setdefault(host or Path(path).stem, []).append(rest)
        texts += [(host, "\n".join(rest)) for host, rest in lines.items()]
    return texts


def read_here(ports: Ports, options: argparse.Namespace, report: Report) -> None:
    """Run the programs on this node, with a note on each that is missing or fails."""

    def ask(command: str) -> tuple[str, str]:
        program, *_ = words = command.split()
        if shutil.which(program) is None:
            report.note(f"{program} is not installed (infiniband-diags, ibverbs-utils); run it "
                        "where it is and read its output")  # fmt: skip
            return "here", ""
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr or done.stdout).strip().rpartition("\n")[2]
            report.note(f"{command} ended with {done.returncode}: {last}")
        return "here", "" if done.returncode else done.stdout

    take_in(ports, [ask("ibstat"), ask("ibv_devinfo -v")])
    mine = [p for p in ports.values() if is_up(p) and p["link_layer"] == "InfiniBand"]
    if options.fabric:
        take_in(ports, [ask("iblinkinfo")])
    addresses = [f"-C {port['card']} -P {port['port']}" for port in mine]
    for reading in ("_before", "_after") if options.again and mine else ("_before",):
        time.sleep(options.again if reading == "_after" else 0)
        for address in addresses:
            answers = [ask(f"perfquery {address}"), ask(f"perfquery -x {address}")]
            take_in(ports, answers, reading)


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
    parser = Parser(__doc__, "ib_report", __version__, METHOD, PROFILES["demo"])
    add = parser.add_argument
    for program in PROGRAMS:
        option = f"--{program.replace('_', '-')}"
        text = f"saved output of {program}, of one node, or of many by pdsh"
        add(option, dest="files", nargs="+", action="extend", default=[], metavar="[NODE=]FILE",
            help=text)  # fmt: skip
    # fmt: off
    add("--later", nargs="+", default=[], metavar="[NODE=]FILE",
        help="a second reading of perfquery: report what has grown")
    add("--again", type=duration, metavar="DURATION",
        help="read the counters of this node again after 60s, 5m: report what has grown")
    add("--fabric", action="store_true", help="all links of the fabric, by iblinkinfo")
    add("--ignore", nargs="+", default=[], metavar="NIC[/PORT]",
        help="NICs and ports to leave out: mlx5_4, mlx5_0/2")
    # fmt: on
    return parser


def read_demo(ports: Ports) -> None:
    """Four ports: a good one, one at half the rate, one with new errors, one with old errors."""
    cards = [DEMO_CARD.format(i, 200 if i == 1 else 400, 10 + i) for i in range(4)]
    before = [DEMO_COUNTERS.format(10 + i, 5 if i == 3 else 0) for i in range(4)]
    after = [DEMO_COUNTERS.format(10 + i, 3 if i == 2 else 0) for i in range(3)]
    take_in(ports, [("demo", "".join(cards + before))])
    take_in(ports, [("demo", "".join(after))], "_after")


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    report = Report("ib_report", __version__, METHOD, options.json)
    found: Ports = {}
    if options.demo:
        read_demo(found)
    elif options.files or options.later:
        take_in(found, read_files(options.files))
        take_in(found, read_files(options.later), "_after")
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
