"""ib_report: the texts of four programs, and the verdict of each port; all GUIDs are invented."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from testing_utils import write_file_tree

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "network/ib_report.py"
UNREAD = "errors not read"  # the verdict of a good port of which no error counter was read


def print_ibstat(*ports: dict[str, Any], first: int = 0) -> str:
    """What ibstat prints of cards with one port each."""
    text = ""
    for index, port in enumerate(ports, start=first):
        values = {
            "type": "MT4129",
            "firmware": "28.40.1000",
            "state": "Active",
            "physical": "LinkUp",
            "rate": "400",
            "lid": 20 + index,
            "layer": "InfiniBand",
        } | port
        text += (
            f"CA 'mlx5_{index - first}'\n"
            f"\tCA type: {values['type']}\n"
            "\tNumber of ports: 1\n"
            f"\tFirmware version: {values['firmware']}\n"
            "\tHardware version: 0\n"
            f"\tNode GUID: 0x00000000000{index:02x}000\n"
            f"\tSystem image GUID: 0x00000000000{index:02x}000\n"
            "\tPort 1:\n"
            f"\t\tState: {values['state']}\n"
            f"\t\tPhysical state: {values['physical']}\n"
            f"\t\tRate: {values['rate']}\n"
            f"\t\tBase lid: {values['lid']}\n"
            "\t\tLMC: 0\n"
            "\t\tSM lid: 1\n"
            "\t\tCapability mask: 0xa751e848\n"
            f"\t\tPort GUID: 0x00000000000{index:02x}001\n"
            f"\t\tLink layer: {values['layer']}\n"
        )
    return text


def print_perfquery(lid: int, extended: bool = True, **counters: int) -> str:
    """What perfquery prints of a port, with -x or without."""
    kind = "extended counters" if extended else "counters"
    more = " CapMask2: 0x0000000" if extended else ""
    values = {
        "PortSelect": "1",
        "CounterSelect": "0x0000",
        "PortXmitData": 1000,
        "PortRcvData": 2000,
        "PortXmitPkts": 5,
        "PortRcvPkts": 6,
        "SymbolErrorCounter": 0,
        "LinkErrorRecoveryCounter": 0,
        "LinkDownedCounter": 0,
        "PortRcvErrors": 0,
        "PortRcvRemotePhysicalErrors": 0,
        "PortRcvSwitchRelayErrors": 0,
        "PortXmitDiscards": 0,
        "PortXmitConstraintErrors": 0,
        "PortRcvConstraintErrors": 0,
        "LocalLinkIntegrityErrors": 0,
        "ExcessiveBufferOverrunErrors": 0,
        "VL15Dropped": 0,
        "PortXmitWait": 9,
        "QP1Dropped": 0,
    } | counters
    lines = [f"# Port {kind}: Lid {lid} port 1 (CapMask: 0x5A00{more})"]
    lines += [f"{name + ':':.<33}{value}" for name, value in values.items()]
    return "\n".join(lines) + "\n"


IBV_DEVINFO = """\
hca_id:\tmlx5_0
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t\t28.40.1000
\tnode_guid:\t\t\t0000:0000:0000:0001
\tsys_image_guid:\t\t\t0000:0000:0000:0001
\tvendor_id:\t\t\t0x02c9
\tvendor_part_id:\t\t\t4129
\thw_ver:\t\t\t\t0x0
\tboard_id:\t\t\tMT_0000000000
\tphys_port_cnt:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_ACTIVE (4)
\t\t\tmax_mtu:\t\t4096 (5)
\t\t\tactive_mtu:\t\t4096 (5)
\t\t\tsm_lid:\t\t\t1
\t\t\tport_lid:\t\t20
\t\t\tport_lmc:\t\t0x00
\t\t\tlink_layer:\t\tInfiniBand
\t\t\tactive_width:\t\t4X (2)
\t\t\tactive_speed:\t\t100.0 Gbps (128)
\t\t\tphys_state:\t\tLINK_UP (5)

hca_id:\tmlx5_1
\ttransport:\t\t\tInfiniBand (0)
\tfw_ver:\t\t\t\t28.40.1000
\tvendor_part_id:\t\t\t4129
\tphys_port_cnt:\t\t\t1
\t\tport:\t1
\t\t\tstate:\t\t\tPORT_DOWN (1)
\t\t\tport_lid:\t\t0
\t\t\tlink_layer:\t\tEthernet
\t\t\tactive_width:\t\t4X (2)
\t\t\tactive_speed:\t\t10.0 Gbps (4)
\t\t\tphys_state:\t\tDISABLED (3)
"""

IBLINKINFO = """\
CA: node01 mlx5_0:
      0x0000000000000001     20    1[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>       1    3[  ] "leaf1" ( )
CA: node02 mlx5_0:
      0x0000000000000011     21    1[  ] ==( 2X        106.25 Gbps Active/  LinkUp)==>       1    4[  ] "leaf1" ( Could be 4X)
Switch: 0x0000000000000099 leaf1:
           1    3[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>      20    1[  ] "node01 mlx5_0" ( )
           1    4[  ] ==( 2X        106.25 Gbps Active/  LinkUp)==>      21    1[  ] "node02 mlx5_0" ( Could be 4X)
           1    5[  ] ==( 4X        106.25 Gbps Active/  LinkUp)==>      22    1[  ] "node03 mlx5_0" ( )
           1    6[  ] ==(                Down/ Polling)==>             [  ] "" ( )
"""  # noqa: E501 - the lines of iblinkinfo are that long


@pytest.fixture(scope="module")
def ib(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def judge(ib: Any, *ports: dict[str, Any], before: str = "", after: str = "") -> list[Any]:
    """The judged ports of one node, with one or two readings of counters."""
    fabric = ib.Fabric()
    ib.read_ibstat(fabric, print_ibstat(*ports), "node01")
    ib.read_perfquery(fabric, before, "node01")
    ib.read_perfquery(fabric, after, "node01", later=True)
    ib.judge_ports(fabric)
    found: list[Any] = ib.sort_ports(fabric)
    return found


def test_lanes_by_hand(ib: Any) -> None:
    """4 lanes of 106.25 signal 400 Gbps of data (NDR), 4 of 25.78125 100 (EDR), 4 of 14.0625 56."""
    assert ib.describe_lane(106.25) == ib.describe_lane(100.0) == (100.0, "NDR")
    assert ib.describe_lane(25.78125) == (25.0, "EDR")
    assert 4 * ib.describe_lane(14.0625)[0] == 56
    assert ib.describe_lane(10.0) == (10.0, "QDR")
    assert ib.describe_lane(10.3125) == (10.0, "FDR10")
    assert ib.describe_lane(77.0) is None


@pytest.mark.parametrize("rate", ["400", "400 Gb/s (NDR)"])
def test_ibstat(ib: Any, rate: str) -> None:
    """All that ibstat says of a port, in base units: 400 Gbps are 50 GBps."""
    (port,) = judge(ib, {"rate": rate})
    assert (port.node, port.card, port.port, port.card_type) == ("node01", "mlx5_0", 1, "MT4129")
    assert (port.state, port.physical_state, port.link_layer) == ("Active", "LinkUp", "InfiniBand")
    assert (port.lid, port.guid, port.rate) == (20, 1, 50e9)
    assert (port.firmware, port.verdict) == ("28.40.1000", UNREAD)


def test_ibv_devinfo_adds_lanes_and_speed(ib: Any) -> None:
    """With -v the width and the speed of a lane are known; ibstat's words go first."""
    fabric = ib.Fabric()
    assert ib.read_ibv_devinfo(fabric, IBV_DEVINFO, "node01") == 2
    first, second = ib.sort_ports(fabric)
    assert (first.lanes, first.speed, first.rate) == (4, "NDR", 50e9)
    assert (first.state, first.physical_state, first.lid) == ("Active", "LinkUp", 20)
    assert (first.card_type, first.firmware) == ("MT4129", "28.40.1000")
    assert (second.state, second.physical_state, second.link_layer) == (
        *("Down", "Disabled", "Ethernet"),
    )
    ib.read_ibstat(fabric, print_ibstat({}, {"state": "Down", "physical": "Disabled"}), "node01")
    assert len(fabric.ports) == 2


def test_iblinkinfo_finds_narrow_and_dead_links(ib: Any) -> None:
    """A link of 2 lanes that could have 4 is slow on both sides, a port that polls is down."""
    fabric = ib.Fabric()
    assert ib.read_iblinkinfo(fabric, IBLINKINFO, "all") == 6
    ib.judge_ports(fabric)
    found = {ib.name_place(p): (p.lanes, p.speed, p.rate, p.verdict) for p in ib.sort_ports(fabric)}
    assert found == {
        "node01 mlx5_0/1": (4, "NDR", 50e9, UNREAD),
        "node02 mlx5_0/1": (2, "NDR", 25e9, "slow"),
        "leaf1 port/3": (4, "NDR", 50e9, UNREAD),
        "leaf1 port/4": (2, "NDR", 25e9, "slow"),
        "leaf1 port/5": (4, "NDR", 50e9, UNREAD),
        "leaf1 port/6": (None, None, None, "down"),
    }


def test_iblinkinfo_meets_ibstat_by_guid(ib: Any) -> None:
    """A card that ibstat has told of is the same port in iblinkinfo, whatever its names."""
    fabric = ib.Fabric()
    ib.read_ibstat(fabric, print_ibstat({}), "rack7-3")
    ib.read_iblinkinfo(fabric, IBLINKINFO, "all")
    port = fabric.find_by_guid(1)
    assert (port.node, port.lanes, port.peer) == ("rack7-3", 4, "leaf1")
    assert not any(p.node == "node01" for p in fabric.ports.values())


@pytest.mark.parametrize(
    ("change", "verdict", "reason"),
    [
        ({"state": "Down", "physical": "Polling"}, "down", "physical state Polling"),
        ({"state": "Down", "physical": "Disabled"}, "down", "physical state Disabled"),
        ({"state": "Initializing"}, "not active", "is a subnet manager running?"),
        ({"state": "Down"}, "not active", "linked, but state Down"),
        ({"rate": "200"}, "slow", "200 Gbps, where most have 400"),
        ({"firmware": "28.30.1000"}, "firmware unlike", "28.30.1000, where most have 28.40.1000"),
    ],
)
def test_one_port_unlike_the_others(
    ib: Any, change: dict[str, Any], verdict: str, reason: str
) -> None:
    """Each fault of one port of three has its verdict and reason; the others have none."""
    ports = judge(ib, {}, change, {})
    assert [port.verdict for port in ports] == [UNREAD, verdict, UNREAD]
    assert reason in ports[1].reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rate": "200"}, "200 Gbps, where others have 400"),
        ({"firmware": "28.30.1000"}, "28.30.1000, where others have 28.40.1000"),
    ],
)
def test_one_of_two_is_not_most(ib: Any, change: dict[str, Any], reason: str) -> None:
    """Of two ports that differ neither is called what most have."""
    first, second = judge(ib, {}, change)
    assert (first.verdict, second.reason) == (UNREAD, reason)


def test_text_that_ends_in_the_middle_is_known(ib: Any) -> None:
    """Wherever ibstat's text is cut it is said, but for a cut behind a whole card."""
    first, text = print_ibstat({}), print_ibstat({}, {"layer": "Ethernet"})
    assert text.startswith(first)
    old_end = text.index("\n\t\tLink layer")
    unknowable = {0, len(first) - 1, len(first), len(text) - 1, len(text)}
    unknowable |= set(range(old_end, old_end + 4))  # older versions end here
    for length in range(len(text) + 1):
        fabric = ib.Fabric()
        ib.read_ibstat(fabric, text[:length], "node01")
        assert bool(fabric.cut_texts) != (length in unknowable), text[:length]
    old = text.replace("\t\tLink layer: InfiniBand\n", "").replace("\t\tLink layer: Ethernet\n", "")
    assert ib.find_cut_card(old) is None
    assert ib.find_cut_card(old[:-3]) == "mlx5_1"
    assert ib.find_cut_card(text.replace("ports: 1", "ports: 0")) is None
    devices = IBV_DEVINFO.split("hca_id:")
    assert ib.find_cut_device(IBV_DEVINFO) is None
    for cut in (devices[1][:-200], devices[1][:200], devices[1][:20]):
        assert ib.find_cut_device("hca_id:" + cut) == "mlx5_0"


def test_cut_text_is_a_problem(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """A card that is lost at the end of a text is named, the run ends with 1 and is partial."""
    text = print_ibstat({}, {})
    (tmp_path / "node01.txt").write_text(text[: text.index("Port 1:", text.index("mlx5_1"))])
    out = tmp_path / "out.json"
    done = call_tool(TOOL, "--ibstat", "node01.txt", "--json", str(out), cwd=tmp_path)
    assert done.returncode == 1
    assert "problem: node01: the text of ibstat ends in the middle of card mlx5_1" in done.stderr
    document = read_json(out)
    assert document["complete"] is False
    assert document["caveats"][0].startswith("node0: the text of ibstat ends")


def test_one_port_is_one_port(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """A single port with errors is spoken of as one."""
    texts = {"node01.txt": print_ibstat({}), "q.txt": print_perfquery(20, PortRcvErrors=3)}
    write_file_tree(tmp_path, texts)
    done = call_tool(TOOL, "--ibstat", "node01.txt", "--perfquery", "q.txt", cwd=tmp_path)
    assert "note: 1 port has counted errors at some time" in done.stderr
    assert "whether it still does" in done.stderr


def test_unlike_cards_are_not_held_against_each_other(ib: Any) -> None:
    """An Ethernet card and an older type have rates and firmware of their own."""
    other = {"type": "MT4119", "firmware": "16.35.1000", "rate": "25", "layer": "Ethernet"}
    assert {port.verdict for port in judge(ib, {}, {}, other)} == {UNREAD}


def test_counters_by_hand(ib: Any) -> None:
    """Data counters count words of 4 bytes; the errors are summed without harmless relay errors."""
    text = print_perfquery(
        20, SymbolErrorCounter=3, PortXmitDiscards=2, PortRcvSwitchRelayErrors=50
    )
    (port,) = judge(ib, {}, before=text)
    (row,) = ib.make_port_rows([port], False)
    assert (row["transmitted_bytes"], row["received_bytes"]) == (4000, 8000)
    assert (row["symbol_errors"], row["transmit_discards"], row["errors"]) == (3, 2, 5)
    assert (row["receive_switch_relay_errors"], row["errors_grown"]) == (50, None)
    assert row["transmit_waits"] == 9
    assert (port.verdict, port.reason) == (
        *("errors counted", "SymbolErrorCounter 3, PortXmitDiscards 2"),
    )


@given(
    st.fixed_dictionaries(
        {
            name: st.tuples(st.integers(0, 10**12), st.integers(0, 10**6))
            for name in ("SymbolErrorCounter", "LinkDownedCounter", "PortRcvErrors")
        }
    )
)
def test_growth_is_the_difference(ib: Any, counters: dict[str, tuple[int, int]]) -> None:
    """Whatever the counters were, only what came between the readings is growth."""
    before = print_perfquery(20, **{name: first for name, (first, _) in counters.items()})
    after = print_perfquery(20, **{name: first + more for name, (first, more) in counters.items()})
    (port,) = judge(ib, {}, before=before, after=after)
    grown = sum(more for _, more in counters.values())
    assert ib.count_errors(port.growth) == grown
    assert port.verdict == ("errors growing" if grown else "ok")


def test_counters_that_were_reset(ib: Any) -> None:
    """Counters that are smaller than before were set to 0: what they show has come since."""
    fabric = ib.Fabric()
    ib.read_ibstat(fabric, print_ibstat({}), "node01")
    ib.read_perfquery(fabric, print_perfquery(20, SymbolErrorCounter=90), "node01")
    ib.read_perfquery(fabric, print_perfquery(20, SymbolErrorCounter=4), "node01", later=True)
    ib.judge_ports(fabric)
    (port,) = ib.sort_ports(fabric)
    assert port.reason == "SymbolErrorCounter 4"
    assert any("were reset" in caveat for caveat in fabric.caveats)


def test_narrow_counters_that_are_full(ib: Any) -> None:
    """Without -x a counter at its largest value may be any number: a caveat says so."""
    for extended, caveats in ((False, 1), (True, 0)):
        fabric = ib.Fabric()
        ib.read_ibstat(fabric, print_ibstat({}), "node01")
        text = print_perfquery(20, extended, SymbolErrorCounter=65535)
        ib.read_perfquery(fabric, text, "node01")
        assert len(fabric.caveats) == caveats


def keep_data(text: str) -> str:
    """A reading with -x of an older adapter: data and packets, no error counter."""
    kinds = ("# Port", "PortSelect", "CounterSelect", "PortXmitData", "PortRcvData")
    return "".join(line for line in text.splitlines(True) if line.startswith(kinds))


def test_data_alone_is_not_ok(ib: Any) -> None:
    """A port of which no error counter was read is not called ok, and has no sum of errors."""
    data = keep_data(print_perfquery(20, PortXmitData=70))
    (port,) = judge(ib, {}, before=data, after=data)
    assert (port.verdict, ib.count_errors(port.counters)) == (UNREAD, None)
    (row,) = ib.make_port_rows([port], False)
    assert (row["errors"], row["errors_grown"], row["transmitted_bytes"]) == (None, None, 280)


def test_wide_and_narrow_counters_make_one_reading(ib: Any) -> None:
    """The errors of perfquery, the data of perfquery -x, in either order: growth is of both."""
    narrow, wide = print_perfquery(20, False, PortXmitData=2**32 - 1), print_perfquery(20)
    after = print_perfquery(20, False, PortXmitData=2**32 - 1, LinkDownedCounter=2)
    for before in (narrow + keep_data(wide), keep_data(wide) + narrow):
        fabric = ib.Fabric()
        ib.read_ibstat(fabric, print_ibstat({}), "node01")
        ib.read_perfquery(fabric, before, "node01")
        assert (fabric.caveats, fabric.ports["node01", "mlx5_0", 1].counters["PortXmitData"]) == (
            *([], 1000),
        )
        ib.read_perfquery(fabric, after + keep_data(wide), "node01", later=True)
        ib.judge_ports(fabric)
        (port,) = ib.sort_ports(fabric)
        assert (port.verdict, port.reason) == ("errors growing", "LinkDownedCounter 2")


def test_names_of_older_versions(ib: Any) -> None:
    """SymbolErrors, XmtDiscards and XmtData are what they were."""
    text = "# Port counters: Lid 20 port 1\nSymbolErrors:....................7\n"
    text += "XmtDiscards:.....................2\nXmtData:.........................10\n"
    ((lid, port, reading),) = ib.read_counters(text)
    assert (lid, port) == (20, 1)
    assert reading == {"SymbolErrorCounter": 7, "PortXmitDiscards": 2, "PortXmitData": 10}


def label(host: str, text: str) -> str:
    """The lines as pdsh prints them."""
    return "".join(f"{host}: {line}\n" for line in text.splitlines())


def test_a_file_of_pdsh_holds_many_nodes(ib: Any) -> None:
    """Lines labelled by node, interleaved as they come, are read node by node."""
    one = label("node01", print_ibstat({})).splitlines()
    two = label("node02", print_ibstat({"rate": "200"}, first=1)).splitlines()
    mixed = "\n".join(line for pair in zip(one, two, strict=True) for line in pair)
    hosts = ib.split_hosts(mixed, ib.MARKS["ibstat"], "all")
    assert hosts == {
        "node01": print_ibstat({}).rstrip("\n"),
        "node02": print_ibstat({"rate": "200"}, first=1).rstrip("\n"),
    }
    plain = print_ibstat({})
    assert ib.split_hosts(plain, ib.MARKS["ibstat"], "all") == {"all": plain}


def test_saved_texts_of_two_nodes(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Files of nodes, counters matched by LID, two readings: one table, problems, and JSON."""
    broken = {"state": "Down", "physical": "Polling"}
    before = "".join(print_perfquery(lid) for lid in (20, 21, 22))
    after = before.replace("Lid 22", "Lid 122").replace("Lid 21", "Lid 221")
    after = after.replace(
        "LinkDownedCounter:...............0", "LinkDownedCounter:...............2", 1
    )
    after = after.replace("Lid 122", "Lid 22").replace("Lid 221", "Lid 21")
    nodes = {"node01.txt": print_ibstat({}, {}), "node02.txt": print_ibstat({}, broken, first=2)}
    write_file_tree(tmp_path, nodes | {"before.txt": before, "after.txt": after})
    out = tmp_path / "out.json"
    done = call_tool(
        TOOL,
        *("--ibstat", "node01.txt", "node02.txt", "--perfquery", "before.txt"),
        *("--later", "after.txt", "--json", str(out)),
        cwd=tmp_path,
    )
    assert done.returncode == 1, done.stderr
    assert done.stdout.count("\n") == 2 + 4
    assert "problem: node01 mlx5_0/1: errors growing: LinkDownedCounter 2" in done.stderr
    assert "problem: node02 mlx5_1/1: down: physical state Polling" in done.stderr
    document = read_json(out)
    text = out.read_text()
    assert "node01" not in re.sub(r'"command": \[.*?\]', "", text, flags=re.DOTALL)
    assert "guid" not in text.lower()
    assert [row["node"] for row in document["results"]] == ["node0", "node0", "node1", "node1"]
    assert document["details"]["verdicts"] == {"errors growing": 1, "ok": 2, "down": 1}
    done = call_tool(
        TOOL,
        *("--ibstat", "node01.txt", "other=node02.txt", "--ignore", "mlx5_1"),
        *("--names", "--json", str(out)),
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert [row["node"] for row in read_json(out)["results"]] == ["node01", "other"]


def install_programs(folder: Path, **texts: str) -> dict[str, str]:
    """Stand-ins for the programs, which print a text; an environment that finds them alone."""
    for name, script in texts.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def test_programs_are_run_here(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Without files the programs are run, counters twice with --again, and growth is told."""
    texts = {
        "ibstat.txt": print_ibstat({}),
        "devinfo.txt": IBV_DEVINFO.partition("\n\n")[0] + "\n",
        "0": print_perfquery(20, False),
        "1": print_perfquery(20, False, SymbolErrorCounter=8),
        "wide": keep_data(print_perfquery(20)),
    }
    write_file_tree(tmp_path, texts)
    environ = install_programs(
        tmp_path,
        ibstat=f"cat {tmp_path}/ibstat.txt",
        ibv_devinfo=f"cat {tmp_path}/devinfo.txt",
        perfquery=(
            f'cd {tmp_path}; [ "$*" = "-x -C mlx5_0 -P 1" ] && exec cat wide; '
            '[ "$*" = "-C mlx5_0 -P 1" ] || exit 9; '
            "if [ -e seen ]; then cat 1; else cat 0; touch seen; fi"
        ),
    )
    out = tmp_path / "out.json"
    done = call_tool(TOOL, "--again", "0.3s", "--json", str(out), environ=environ)
    assert done.returncode == 1, done.stderr
    assert "here mlx5_0/1: errors growing: SymbolErrorCounter 8" in done.stderr
    (row,) = read_json(out)["results"]
    assert (row["lanes"], row["speed"], row["errors_grown"]) == (4, "NDR", 8)


def test_programs_that_fail_are_caveats(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """Without the right to read counters there is still a table; without ibstat there is none."""
    (tmp_path / "ibstat.txt").write_text(print_ibstat({}))
    environ = install_programs(
        tmp_path,
        ibstat=f"cat {tmp_path}/ibstat.txt",
        perfquery="echo 'ibwarn: open /dev/infiniband/umad0 failed' >&2; exit 1",
        ibv_devinfo="exit 1",
    )
    done = call_tool(TOOL, environ=environ)
    assert done.returncode == 0, done.stderr
    assert "no error counter was read of 1 of 1 ports" in done.stderr
    assert "no counters: perfquery -x -C mlx5_0 -P 1 ended with 1: ibwarn: open" in done.stderr
    (tmp_path / "ibstat").unlink()
    done = call_tool(TOOL, environ=environ)
    assert done.returncode == 2
    assert "ibstat is not on this machine (package infiniband-diags)" in done.stderr


@pytest.mark.nightly
def test_a_signal_while_waiting(read_json: Callable[[Path], Any], tmp_path: Path) -> None:
    """Ctrl-C during --again keeps the first reading, marked as partial."""
    write_file_tree(tmp_path, {"ibstat.txt": print_ibstat({}), "0": print_perfquery(20)})
    environ = install_programs(
        tmp_path,
        ibstat=f"cat {tmp_path}/ibstat.txt",
        perfquery=f"cat {tmp_path}/0; touch {tmp_path}/counted",
        ibv_devinfo="exit 1",
    )
    out = tmp_path / "out.json"
    process = subprocess.Popen(
        [sys.executable, str(SCRIPTS / TOOL), "--again", "10m", "--json", str(out)],
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + 30
        while not (tmp_path / "counted").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    finally:
        process.kill()
        process.wait(timeout=30)
    assert process.returncode == 1
    assert "stopped by SIGINT" in errors
    document = read_json(out)
    assert document["complete"] is False
    assert document["results"][0]["symbol_errors"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ibstat", "none.txt"], "could not read none.txt"),
        (["--ibstat", "empty.txt"], "empty.txt holds no port as ibstat prints them"),
        (["--later", "empty.txt"], "give the first with --perfquery"),
        (["--ibstat", "empty.txt", "--again", "3"], "with files use --later"),
        (["--toy", "--fabric"], "--toy reads a text of its own"),
    ],
)
def test_wrong_use(
    call_tool: Callable[..., Any], tmp_path: Path, arguments: list[str], message: str
) -> None:
    """What makes no sense is refused with a message, and status 2."""
    (tmp_path / "empty.txt").write_text("nothing\n")
    done = call_tool(TOOL, *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
