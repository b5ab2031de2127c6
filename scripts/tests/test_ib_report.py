"""ib_report: the texts of four programs, and the verdict of each port; all GUIDs are invented."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from testing_utils import write_file_tree

TOOL = "network/ib_report.py"
UNREAD = "errors not read"  # the verdict of a good port whose error counters were not read

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

Change = tuple[str, str]
HEALTHY: Change = ("", "")


def print_ibstat(module: Any, *changes: Change, first: int = 0) -> str:
    """What ibstat prints of NICs with one port each, with a text replaced in each."""
    cards = [module.DEMO_CARD.format(i, 400, 20 + first + i) for i in range(len(changes))]
    return "".join(card.replace(*change) for card, change in zip(cards, changes, strict=True))


def judge(module: Any, *changes: Change, before: str = "", after: str = "") -> list[Any]:
    """The judged ports of one node, with one or two readings of counters."""
    fabric: dict[Any, Any] = {}
    module.take_in(fabric, [("node01", print_ibstat(module, *changes) + before)])
    module.take_in(fabric, [("node01", after)], "_after")
    ports = list(fabric.values())
    module.judge_ports(ports)
    return ports


def test_ibv_devinfo_and_ibstat_are_one_port(module: Any) -> None:
    """ibv_devinfo -v adds lanes and their speed: 4 lanes of 100 Gbps are NDR, 50 GB/s."""
    fabric: dict[Any, Any] = {}
    module.take_in(fabric, [("node01", IBV_DEVINFO)])
    module.judge_ports(list(fabric.values()))
    (port,) = fabric.values()
    speed = {"lanes": 4, "speed": "NDR", "rate_bytes_per_second": 50e9, "card_type": "MT4129"}
    state = {"state": "Active", "physical_state": "LinkUp", "lid": 20, "firmware": "28.40.1000"}
    assert port.items() >= (speed | state).items()
    module.take_in(fabric, [("node01", print_ibstat(module, HEALTHY))])
    assert len(fabric) == 1


def test_iblinkinfo_finds_narrow_and_dead_links(module: Any) -> None:
    """A link of 2 lanes that could have 4 is slow, a port that polls is down."""
    fabric: dict[Any, Any] = {}
    module.take_in(fabric, [("all", IBLINKINFO)])
    module.judge_ports(list(fabric.values()))
    columns = ("lanes", "speed", "rate_bytes_per_second", "verdict")
    assert {
        module.name_port(p): tuple(p[column] for column in columns) for p in fabric.values()
    } == {
        "node01 mlx5_0/1": (4, "NDR", 50e9, UNREAD),
        "leaf1 port/3": (4, "NDR", 50e9, UNREAD),
        "leaf1 port/4": (2, "NDR", 25e9, "slow"),
        "leaf1 port/6": (None, None, None, "down"),
    }


@pytest.mark.parametrize(
    ("change", "verdict", "reason"),
    [
        (("State: Active", "State: Initializing"), "not active", "linked, but state Initializing"),
        (("LinkUp", "Polling"), "down", "physical state Polling, state Active"),
        (("Rate: 400", "Rate: 200"), "slow", "200 Gbps, where others have 400"),
        (("28.40.", "28.30."), "firmware unlike", "28.30.1000, where others have 28.40.1000"),
    ],
)
def test_one_port_unlike_the_others(module: Any, change: Change, verdict: str, reason: str) -> None:
    """Each fault of one port of three has its verdict and reason; the others have none."""
    ports = judge(module, HEALTHY, change, HEALTHY)
    assert [port["verdict"] for port in ports] == [UNREAD, verdict, UNREAD]
    assert ports[1]["verdict_reason"].startswith(reason)


def test_counters_by_hand(module: Any) -> None:
    """Data counters count words of 4 bytes; the errors are summed without harmless relay errors.
    Only what came between two readings is growth, also after a reset; none of it is a good port."""
    first = module.DEMO_COUNTERS.format(20, 3)
    first += "PortXmitDiscards:...2\nPortRcvSwitchRelayErrors:...50\n"
    last = first.replace("LinkDownedCounter:...............0", "LinkDownedCounter:...4")
    (port,) = judge(module, HEALTHY, before=first)
    assert (port["transmitted_bytes"], port["received_bytes"]) == (1000, 2000)
    assert (port["errors"], port["errors_grown"]) == (5, None)
    reason = "SymbolErrorCounter 3, PortXmitDiscards 2"
    assert (port["verdict"], port["verdict_reason"]) == ("errors counted", reason)
    for before, after, grown, verdict in (
        (first, last, 4, "errors growing"),
        (first, first, 0, "ok"),
        (last, first, 5, "errors growing"),
    ):
        (port,) = judge(module, HEALTHY, before=before, after=after)
        assert (port["errors_grown"], port["verdict"]) == (grown, verdict)


def test_saved_texts_of_many_nodes(module: Any, run_json: Any, tmp_path: Path) -> None:
    """Lines labelled by pdsh, interleaved as they come, and a file of a node; counters matched by
    LID, two readings: one table, problems, and JSON."""
    texts = [print_ibstat(module, HEALTHY, first=first) for first in (0, 1)]
    labelled = zip(*(text.splitlines() for text in texts), strict=True)
    counters = module.DEMO_COUNTERS
    files = {
        "all.txt": "".join(f"node1: {a}\nnode2: {b}\n" for a, b in labelled),
        "last.txt": print_ibstat(module, HEALTHY, ("LinkUp", "Polling"), first=2),
        "before.txt": counters.format(20, 0) + counters.format(21, 0),
        "after.txt": counters.format(20, 2) + counters.format(21, 0),
    }
    write_file_tree(tmp_path, files)
    ibstat = ("--ibstat", "all.txt", "other=last.txt")
    options = ("--perfquery", "before.txt", "--later", "after.txt")
    done = run_json(TOOL, *ibstat, *options, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "problem: node1 mlx5_0/1: errors growing: SymbolErrorCounter 2" in done.stderr
    assert "problem: other mlx5_1/1: down: physical state Polling" in done.stderr
    verdicts = [port["verdict"] for port in done.document["results"]]
    assert verdicts == ["errors growing", "ok", UNREAD, "down"]
    assert "guid" not in (tmp_path / "out.json").read_text().lower()
    done = run_json(TOOL, *ibstat, "--ignore", "mlx5_1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count(UNREAD) == 3


def test_programs_are_run_here(module: Any, run_tool: Any, tmp_path: Path) -> None:
    """Without files the programs are run, and with --again the counters are read twice, also by an
    older adapter that reports no errors with -x."""
    narrow = module.DEMO_COUNTERS.replace("extended ", "")
    texts = {
        "ibstat.txt": print_ibstat(module, HEALTHY),
        "devinfo.txt": IBV_DEVINFO,
        "0": narrow.format(20, 0),
        "1": narrow.format(20, 8),
        "wide": "".join(module.DEMO_COUNTERS.format(20, 0).splitlines(True)[:3]),
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
