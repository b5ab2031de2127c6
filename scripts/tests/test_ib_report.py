"""ib_report: the texts of four programs, and the verdict of each port; all GUIDs are invented."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from testing_utils import write_file_tree

TOOL = "network/ib_report.py"
UNREAD = "errors not read"  # the verdict of a good port of which no error counter was read


CARD = """CA '{card}'
\tCA type: {type}
\tNumber of ports: 1
\tFirmware version: {firmware}
\tPort 1:
\t\tState: {state}
\t\tPhysical state: {physical}
\t\tRate: {rate}
\t\tBase lid: {lid}
\t\tPort GUID: 0x{guid:016x}
\t\tLink layer: {layer}
"""
GOOD = {"type": "MT4129", "firmware": "28.40.1000", "state": "Active", "physical": "LinkUp",
        "rate": "400", "layer": "InfiniBand"}  # fmt: skip


def print_ibstat(*ports: dict[str, Any], first: int = 0) -> str:
    """What ibstat prints of NICs with one port each; LIDs and GUIDs count from the first."""
    places = [
        {"card": f"mlx5_{index}", "lid": 20 + first + index, "guid": 4096 * (first + index) + 1}
        for index in range(len(ports))
    ]
    cards = (CARD.format(**GOOD | place | port) for place, port in zip(places, ports, strict=True))
    return "".join(cards)


def print_perfquery(lid: int, extended: bool = True, **counters: int) -> str:
    """What perfquery prints of a port, with -x or without."""
    values = {"PortXmitData": 1000, "PortRcvData": 2000, "SymbolErrorCounter": 0,
              "LinkDownedCounter": 0, "PortRcvErrors": 0, "PortXmitWait": 9}  # fmt: skip
    lines = [f"# Port {'extended ' * extended}counters: Lid {lid} port 1 (CapMask: 0x5A00)"]
    lines += [f"{name + ':':.<33}{value}" for name, value in (values | counters).items()]
    return "\n".join(lines) + "\n"


IBV_DEVINFO = """\
hca_id:\tmlx5_0
\tfw_ver:\t\t\t\t28.40.1000
\tvendor_part_id:\t\t\t4129
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tport_lid:\t\t20
\t\t\tlink_layer:\t\tInfiniBand
\t\t\tactive_width:\t\t4X (2)
\t\t\tactive_speed:\t\t100.0 Gbps (128)
\t\t\tphys_state:\t\tLINK_UP (5)
"""

IBLINKINFO = """\
CA: node01 mlx5_0:
      0x0000000000000001     20    1[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>       1    3[  ] "leaf1" ( )
Switch: 0x0000000000000099 leaf1:
           1    3[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>      20    1[  ] "node01 mlx5_0" ( )
           1    4[  ] ==( 2X        106.25 Gbps Active/  LinkUp)==>      21    1[  ] "node02 mlx5_0" ( Could be 4X)
           1    6[  ] ==(                Down/ Polling)==>             [  ] "" ( )
"""  # noqa: E501 - the lines of iblinkinfo are that long


def read(
    module: Any, *ports: dict[str, Any], before: str = "", after: str = ""
) -> tuple[list[Any], Any]:
    """The judged ports of one node, with one or two readings of counters, and the fabric."""
    fabric: dict[Any, Any] = {}
    module.read_cards(fabric, print_ibstat(*ports), "node01")
    module.read_perfquery(fabric, before, "node01")
    module.read_perfquery(fabric, after, "node01", later=True)
    found = list(fabric.values())
    module.judge_ports(found)
    return found, fabric


def test_ibv_devinfo_adds_lanes_and_speed(module: Any) -> None:
    """With -v the width and the speed of a lane are known: 4 lanes of 100 Gbps are NDR, 50 GB/s."""
    fabric: dict[Any, Any] = {}
    assert module.read_cards(fabric, IBV_DEVINFO, "node01") == 1
    (port,) = fabric.values()
    speed = {"lanes": 4, "speed": "NDR", "rate_bytes_per_second": 50e9, "card_type": "MT4129"}
    state = {"state": "Active", "physical_state": "LinkUp", "lid": 20, "firmware": "28.40.1000"}
    assert port.items() >= (speed | state).items()
    module.read_cards(fabric, print_ibstat({}), "node01")
    assert len(fabric) == 1


def test_iblinkinfo_finds_narrow_and_dead_links(module: Any) -> None:
    """A link of 2 lanes that could have 4 is slow, a port that polls is down."""
    fabric: dict[Any, Any] = {}
    assert module.read_iblinkinfo(fabric, IBLINKINFO, "all") == 4
    ports = list(fabric.values())
    module.judge_ports(ports)
    columns = ("lanes", "speed", "rate_bytes_per_second", "verdict")
    assert {
        module.name_port(port): tuple(port[column] for column in columns) for port in ports
    } == {
        "node01 mlx5_0/1": (4, "NDR", 50e9, UNREAD),
        "leaf1 port/3": (4, "NDR", 50e9, UNREAD),
        "leaf1 port/4": (2, "NDR", 25e9, "slow"),
        "leaf1 port/6": (None, None, None, "down"),
    }


@pytest.mark.parametrize(
    ("change", "verdict", "reason"),
    [
        ({"state": "Down", "physical": "Polling"}, "down", "physical state Polling, state Down"),
        ({"state": "Initializing"}, "not active", "linked, but state Initializing: is a subnet"),
        ({"rate": "200"}, "slow", "200 Gbps, where others have 400"),
        ({"firmware": "28.30.1000"}, "firmware unlike", "28.30.1000, where others have 28.40.1000"),
    ],
)
def test_one_port_unlike_the_others(
    module: Any, change: dict[str, Any], verdict: str, reason: str
) -> None:
    """Each fault of one port of three has its verdict and reason; the others have none."""
    ports, _ = read(module, {}, change, {})
    assert [port["verdict"] for port in ports] == [UNREAD, verdict, UNREAD]
    assert ports[1]["verdict_reason"].startswith(reason)


def test_counters_by_hand(module: Any) -> None:
    """Data counters count words of 4 bytes; the errors are summed without harmless relay errors.
    Only what came between two readings is growth; none of it is a good port."""
    errors = {"SymbolErrorCounter": 3, "PortXmitDiscards": 2, "PortRcvSwitchRelayErrors": 50}
    first, last = (print_perfquery(20, **errors, LinkDownedCounter=n) for n in (7, 9))
    [port], _ = read(module, {}, before=first)
    assert (port["transmitted_bytes"], port["received_bytes"]) == (4000, 8000)
    assert (port["errors"], port["errors_grown"]) == (12, None)
    reason = "SymbolErrorCounter 3, LinkDownedCounter 7, PortXmitDiscards 2"
    assert (port["verdict"], port["verdict_reason"]) == ("errors counted", reason)
    [port], _ = read(module, {}, before=first, after=last)
    assert (port["errors_grown"], port["verdict"]) == (2, "errors growing")
    [port], _ = read(module, {}, before=first, after=first)
    assert (port["errors_grown"], port["verdict"]) == (0, "ok")


def keep_data(text: str) -> str:
    """A reading with -x of an older adapter: data and packets, no error counter."""
    kinds = ("# Port", "PortXmitData", "PortRcvData")
    return "".join(line for line in text.splitlines(True) if line.startswith(kinds))


def test_a_file_of_pdsh_holds_many_nodes(module: Any) -> None:
    """Lines labelled by node, interleaved as they come, are read node by node."""
    texts = {"node01": print_ibstat({}), "node02": print_ibstat({"rate": "200"}, first=1)}
    lines = [[f"{host}: {line}" for line in text.splitlines()] for host, text in texts.items()]
    mixed = "\n".join(line for pair in zip(*lines, strict=True) for line in pair)
    hosts = module.split_hosts(mixed, module.MARKS["ibstat"], "all")
    assert hosts == {host: text.rstrip("\n") for host, text in texts.items()}
    assert module.split_hosts(texts["node01"], module.MARKS["ibstat"], "all") == {
        "all": texts["node01"]
    }


def test_saved_texts_of_two_nodes(run_json: Callable[..., Any], tmp_path: Path) -> None:
    """Files of nodes, counters matched by LID, two readings: one table, problems, and JSON."""
    broken = {"state": "Down", "physical": "Polling"}
    lids = (20, 21, 22)
    files = {
        "node01.txt": print_ibstat({}, {}),
        "node02.txt": print_ibstat({}, broken, first=2),
        "before.txt": "".join(print_perfquery(lid) for lid in lids),
        "after.txt": "".join(print_perfquery(lid, LinkDownedCounter=22 - lid) for lid in lids),
    }
    write_file_tree(tmp_path, files)
    ibstat = ("--ibstat", "node01.txt", "other=node02.txt")
    counters = ("--perfquery", "before.txt", "--later", "after.txt")
    done = run_json(TOOL, *ibstat, *counters, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "problem: node01 mlx5_0/1: errors growing: LinkDownedCounter 2" in done.stderr
    assert "problem: other mlx5_1/1: down: physical state Polling" in done.stderr
    verdicts = [port["verdict"] for port in done.document["results"]]
    assert verdicts == ["errors growing", "errors growing", "ok", "down"]
    assert "guid" not in (tmp_path / "out.json").read_text().lower()
    done = run_json(TOOL, *ibstat, "--ignore", "mlx5_1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("errors not read") == 2


def test_programs_are_run_here(run_tool: Callable[..., Any], tmp_path: Path) -> None:
    """Without files the programs are run, and with --again the counters are read twice."""
    texts = {
        "ibstat.txt": print_ibstat({}),
        "devinfo.txt": IBV_DEVINFO,
        "0": print_perfquery(20, False),
        "1": print_perfquery(20, False, SymbolErrorCounter=8),
        "wide": keep_data(print_perfquery(20)),
    }
    write_file_tree(tmp_path, texts)
    programs = {
        "ibstat": f"cat {tmp_path}/ibstat.txt",
        "ibv_devinfo": f"cat {tmp_path}/devinfo.txt",
        "perfquery": f'cd {tmp_path}; [ "$*" = "-x -C mlx5_0 -P 1" ] && exec cat wide; '
        '[ "$*" = "-C mlx5_0 -P 1" ] || exit 9; '
        "if [ -e seen ]; then cat 1; else cat 0; touch seen; fi",
    }
    for name, script in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    environ = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = run_tool(TOOL, "--again", "0.3s", "--fabric", environ=environ)
    assert done.returncode == 1, done.stderr
    assert "here mlx5_0/1: errors growing: SymbolErrorCounter 8" in done.stderr
    assert "NDR" in done.stdout
    assert "note: iblinkinfo is not installed" in done.stderr
