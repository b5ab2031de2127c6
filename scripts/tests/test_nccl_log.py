"""nccl_log: every figure of logs in all the forms there are, and each line that disagrees."""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "network/nccl_log.py"

HEADER = (
    "#                                                       out-of-place           in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time"
    "   algbw   busbw #wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)"
    "  (GB/s)  (GB/s)\n"
)
NOISE = "node1:101:205 [3] NCCL INFO comm 0x55aa rank 3 nranks {} cudaDev 3 busId 3b000 - {}\n"

OSU_ALLREDUCE = """
# OSU MPI Allreduce Latency Test v7.5
# Datatype: MPI_INT.
# Size       Avg Latency(us)
4                      11.69
1048576              3576.91
"""
OSU_FULL = """
# OSU MPI-CUDA Allgather Latency Test v7.3
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
8                      11.50              9.10             13.20        1000
"""
OSU_BANDWIDTH = """
# OSU MPI Bandwidth Test v7.5
# Datatype: MPI_CHAR.
# Size      Bandwidth (MB/s)
268435456           12254.16
"""


@pytest.fixture(scope="module")
def nccl_log(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def show_figure(value: float, width: int) -> str:
    """A figure as getFloatStr of nccl-tests prints it in so many columns."""
    for digits in (2, 1, 0):
        if len(text := f"{value:{width}.{digits}f}") <= width:
            return text
    return f"{value:{width}.1e}"


def print_line(size: int, times: list[float], factor: float, wrong: str = "0") -> str:
    """One line of nccl-tests for out-of-place and in-place times in microseconds."""
    line = f"{size:12d}  {size // 4:12d}  {'float':>8}  {'sum':>6}  {-1:6d}"
    for taken in times:
        algbw = size / taken * 1e-3
        rates = f"{show_figure(algbw, 6)}  {show_figure(algbw * factor, 6)}"
        line += f"  {show_figure(taken, 7)}  {rates}  {wrong:>6}"
    return line + "\n"


def print_log(times: dict[int, list[float]], ranks: int, *, noise: bool = True) -> str:
    """A log of all_reduce_perf."""
    factor = 2 * (ranks - 1) / ranks
    rows = [print_line(size, taken, factor) for size, taken in times.items()]
    rates = [size / t * 1e-3 * factor for size, taken in times.items() for t in taken]
    parts = [HEADER, NOISE.format(ranks, "Init COMPLETE") if noise else "", *rows]
    parts += [NOISE.format(ranks, "Destroy COMPLETE") if noise else ""]
    parts += ["# Out of bounds values : 0 OK\n", f"# Avg bus bandwidth    : {mean(rates):g} \n"]
    return "".join(parts)


def mean(values: list[float]) -> float:
    """The arithmetic mean."""
    return sum(values) / len(values)


def comment_out(text: str) -> str:
    """Each line behind a mark, as in a diary."""
    return "".join(f"# {line}\n" for line in text.splitlines())


def read(nccl_log: Any, text: str, label: str | None = None) -> Any:
    """A checked reading of one log."""
    reading = nccl_log.read_log(text, "a.log", label)
    nccl_log.check_tables(reading)
    return reading


TIMES = {1024: [20.0, 21.0], 1048576: [80.0, 82.5], 16777216: [400.0, 401.0]}


def test_units_by_hand(nccl_log: Any) -> None:
    """16 MiB in 281.4 us is 59.63 GB/s; with 8 ranks the bus carries 1.75 times that."""
    text = HEADER + (
        "    16777216       4194304     float     sum      -1    281.4   59.63  104.35      0"
        "    280.9   59.72  104.51      0\n"
    )
    out, inside = read(nccl_log, text + NOISE.format(8, "Destroy COMPLETE")).tables[0].rows
    assert (out.line, out.size, out.elements, out.datatype) == (4, 16777216, 4194304, "float")
    assert (out.redop, out.root, out.placement, out.wrong) == ("sum", -1, "out", 0)
    assert out.seconds.value == pytest.approx(281.4e-6)
    assert out.algbw.value == pytest.approx(59.63e9)
    assert out.busbw.value == pytest.approx(104.35e9)
    assert (inside.placement, inside.seconds.value) == ("in", pytest.approx(280.9e-6))
    rate = 16777216 / 281.4e-6 / 1e9
    assert rate == pytest.approx(59.63, abs=0.015)
    assert rate * 2 * 7 / 8 == pytest.approx(104.35, abs=0.03)


@pytest.mark.parametrize(
    ("collective", "factor"),
    [
        ("all_reduce", 1.5),
        ("all_gather", 0.75),
        ("reduce_scatter", 0.75),
        ("all_to_all", 0.75),
        ("broadcast", 1.0),
        ("reduce", 1.0),
        ("sendrecv", 1.0),
    ],
)
def test_factors_of_four_ranks(nccl_log: Any, collective: str, factor: float) -> None:
    """The factors of doc/PERFORMANCE.md of nccl-tests, for n = 4."""
    assert nccl_log.BUS_FACTORS[collective](4) == factor


@given(
    st.dictionaries(
        st.integers(0, 33).map(lambda power: 4 * 2**power),
        st.lists(st.floats(1.0, 9e5), min_size=2, max_size=2),
        min_size=1,
        max_size=8,
    ),
    st.integers(2, 4096),
)
def test_what_is_printed_is_read(nccl_log: Any, times: dict[int, list[float]], ranks: int) -> None:
    """Every figure comes back within its rounding, and nothing disagrees, for any run."""
    text = "# Collective test starting: all_reduce_perf\n" + print_log(times, ranks)
    reading = read(nccl_log, text)
    assert reading.findings == []
    (table,) = reading.tables
    assert (table.ranks, table.collective) == (ranks, "all_reduce")
    assert [row.size for row in table.rows] == [size for size in times for _ in range(2)]
    for row, taken in zip(table.rows, [t for pair in times.values() for t in pair], strict=True):
        assert abs(row.seconds.value - taken * 1e-6) <= row.seconds.half * 1.001
        assert abs(row.algbw.value - row.size / taken * 1e6) <= row.algbw.half * 1.001


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("41.94   73.40", "43.94   73.40", "algbw 43.94 is not size / time, 41.94 GBps"),
        ("41.94   73.40", "41.94   72.40", "busbw 72.4 is not algbw * 1.75 (all_reduce of 8 ranks"),
        ("400.0", "480.0", "algbw 41.94 is not size / time, 34.95 GBps"),
    ],
)
def test_a_line_that_disagrees_is_named(
    nccl_log: Any, right: str, wrong: str, message: str
) -> None:
    """A mistyped time, algbw or busbw is a finding at its own line, and the others are not."""
    text = re.sub(" +", " ", print_log(TIMES, 8)).replace(
        re.sub(" +", " ", right), re.sub(" +", " ", wrong), 1
    )
    findings = read(nccl_log, text).findings
    (finding,) = [f for f in findings if "average" not in f.message]
    assert finding.line == 7
    assert finding.message.startswith(f"out-of-place {message}")


def test_wrong_values_and_a_wrong_average_are_found(nccl_log: Any) -> None:
    """Wrong values and an average that is not that of the lines are findings."""
    text = print_log(TIMES, 8)
    line = print_line(1024, [20.0, 21.0], 1.75)
    spoilt = text.replace(line, print_line(1024, [20.0, 21.0], 1.75, "17"))
    spoilt = spoilt.replace("values : 0 OK", "values : 34 FAILED")
    messages = [finding.message for finding in read(nccl_log, spoilt).findings]
    assert "34 values were out of bounds" in messages
    assert "out-of-place 17 wrong values" in messages
    missing = [finding.message for finding in read(nccl_log, text.replace(line, "")).findings]
    assert len(missing) == 1
    assert "is a line missing?" in missing[0]


def test_a_diary_is_read_whole(nccl_log: Any) -> None:
    """Two tables in a block, commented lines, noise, headings as algorithms, an empty section."""
    ring, tree, pair = (
        print_log({s: [t * f for t in ts] for s, ts in TIMES.items()}, 8) for f in (1.0, 0.5, 2.0)
    )
    text = (
        "# 2031-02-03\n\n- some thoughts on rings\n\n```python\n# Tree of 3\nx = 1\n```\n\n"
        f"### baseline\n\n```\n# NCCL Ring\n{comment_out(ring)}\n# NCCL Tree\n{tree}```\n\n"
        f"### msccl allreduce_allpair\n\n```\n{pair}```\n\n### hier 1 1\n\n```\n```\n"
    )
    reading = read(nccl_log, text)
    assert reading.findings == []
    assert [t.algorithm for t in reading.tables] == ["ring", "tree", "msccl allpair"]
    assert [t.section for t in reading.tables] == [
        "baseline",
        "baseline",
        "msccl allreduce_allpair",
    ]
    assert [len(t.rows) for t in reading.tables] == [6, 6, 6]
    assert [t.ranks for t in reading.tables] == [8, 8, 8]
    assert [t.collective_is_inferred for t in reading.tables] == [True, True, False]
    lines = text.splitlines()
    for table in reading.tables:
        for row in table.rows:
            assert str(row.size) in lines[row.line - 1]
    assert [section for _, _, section in reading.empty_sections] == ["hier 1 1"]
    assert "section 'hier 1 1' is empty: no figures" in reading.caveats[-1]


def test_the_ranks_of_a_device_list_count(nccl_log: Any) -> None:
    """The list of devices says how many ranks there are, and the program which collective."""
    devices = "".join(
        f"#  Rank {n:2d} Group  0 Pid {6000 + n} on node{n // 8} device {n % 8} [0000:04:00] GPU\n"
        for n in range(16)
    )
    text = (
        "# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 1 minBytes 8\n"
        f"# Using devices\n{devices}{print_log(TIMES, 16, noise=False)}"
    )
    reading = read(nccl_log, text)
    assert (reading.tables[0].ranks, reading.tables[0].collective) == (16, "all_reduce")
    assert reading.findings == []
    assert reading.caveats == []


def test_unknown_ranks_are_a_caveat_with_what_would_fit(nccl_log: Any) -> None:
    """Without the ranks nothing is accused: a caveat says which number of ranks would fit."""
    text = "./build/all_reduce_perf -b 1K -e 16M\n" + print_log(TIMES, 12, noise=False)
    reading = read(nccl_log, text)
    assert reading.findings == []
    (caveat,) = reading.caveats
    assert "would fit 12 ranks" in caveat


def test_communicators_of_several_sizes_leave_the_ranks_open(nccl_log: Any) -> None:
    """Where NCCL speaks of 8 and of 2 ranks nobody knows which of them was measured."""
    text = NOISE.format(2, "Init COMPLETE") + print_log(TIMES, 8)
    reading = read(nccl_log, text)
    assert reading.findings == []
    assert any("communicators of several sizes" in caveat for caveat in reading.caveats)


def test_headers_of_other_versions(nccl_log: Any) -> None:
    """Without a root, with `error` for `#wrong`, with a blank operation, with a timestamp."""
    old = (
        "# all_gather_perf\n"
        "#       size  count   type   time  algbw  busbw  error   time  algbw  busbw  error\n"
        "     1048576  32768  float  80.00  13.11  11.47  0e+00  80.00  13.11  11.47  4e-07\n"
    )
    reading = nccl_log.read_log(old, "a.log")
    reading.tables[0].ranks = 8
    nccl_log.check_tables(reading)
    assert reading.findings == []
    assert [(r.wrong, r.redop, r.root) for r in reading.tables[0].rows] == [(None, None, None)] * 2
    assert any("largest deviation" in caveat for caveat in reading.caveats)
    blank = print_log(TIMES, 8).replace("     sum", "        ")
    assert [row.redop for row in read(nccl_log, blank).tables[0].rows] == [None] * 6
    stamped = print_log(TIMES, 8).replace("#wrong\n", "#wrong           timestamp\n")
    stamped = re.sub(r"(      0)\n", r"\1  2031-02-03 10:11:12\n", stamped)
    assert len(read(nccl_log, stamped).tables[0].rows) == 6
    assert read(nccl_log, stamped).findings == []


def test_a_massaged_table_is_read(nccl_log: Any) -> None:
    """Size, time and rates alone, with grouped digits, as people put them into a chapter."""
    text = "  size   time  algbw  busbw\n   (B)   (us) (GB/s) (GB/s)\n32_768  43.83   0.75   1.31\n"
    (row,) = read(nccl_log, text).tables[0].rows
    assert (row.size, row.placement, row.wrong) == (32768, None, None)
    assert row.busbw.value == pytest.approx(1.31e9)


@pytest.mark.parametrize("label", ["[1,0]<stdout>:", "[1,0]<stdout> ", " 0: "])
def test_labels_of_launchers_are_taken_off(nccl_log: Any, label: str) -> None:
    """`mpirun --tag-output` and `srun --label` mark each line."""
    text = "".join(label + line for line in print_log(TIMES, 8).splitlines(keepends=True))
    reading = read(nccl_log, text)
    assert len(reading.tables[0].rows) == 6
    assert reading.findings == []


def test_a_log_that_was_cut_off(nccl_log: Any) -> None:
    """The whole lines count; a torn last line is left out with a caveat, not an accusation."""
    text = print_log(TIMES, 8)
    cut = text[: text.index("400.0") + 9]
    reading = read(nccl_log, cut)
    assert len(reading.tables[0].rows) == 4
    assert reading.findings == []
    assert any("ends in the middle of line 7" in caveat for caveat in reading.caveats)
    assert any("may be cut off" in caveat for caveat in reading.caveats)
    torn = cut + "\n" + text[text.index("# Out of") :]
    assert any("cannot be read" in f.message for f in read(nccl_log, torn).findings)


def make_json(times: dict[int, list[float]], key: str = "bandwidth", **changes: Any) -> Any:
    """What nccl-tests writes with -J for 2 processes of 4 GPUs each."""
    factor = 2 * 7 / 8
    rates = [size / t * 1e-3 * factor for size, taken in times.items() for t in taken]
    results = []
    for size, taken in times.items():
        result: dict[str, Any] = {"size": size, "count": size // 4, "type": "float", "redop": "sum"}
        result["root"] = "    -1"
        for name, micro in zip(("out_of_place", "in_place"), taken, strict=True):
            algbw = size / micro * 1e-3
            result[name] = {"time": micro, "alg_bw": algbw, "bus_bw": algbw * factor, "nwrong": 0.0}
        results.append(result | {"actual_iterations": 20, "experiment_name": "AllReduce"})
    device = {"rank": 0, "group": 0, "pid": 7, "hostname": "node1", "device": 0}
    document = {
        "version": 2,
        "start_time": "2031-02-03 10:11:12",
        "args": ["./build/all_reduce_perf", "-g", "4"],
        "env": ["HOME=/home/somebody", "NCCL_ALGO=Tree"],
        "nccl_version": 22703,
        "config": {"nthreads": 1, "ngpus": 4, "devices": [device, {**device, "rank": 4}]},
        "results": results,
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {key: mean(rates), "okay": "unchecked"},
        "errors": [],
    }
    return document | changes


@pytest.mark.parametrize("key", ["bandwidth", "bandwidith"])
def test_json_of_nccl_tests(nccl_log: Any, key: str) -> None:
    """The JSON gives the same as the text, by either spelling of the average."""
    reading = read(nccl_log, json.dumps(make_json(TIMES, key)))
    (table,) = reading.tables
    assert reading.findings == []
    assert (table.ranks, table.collective, table.algorithm) == (8, "all_reduce", "tree")
    assert table.average is not None
    assert [row.seconds.value for row in table.rows] == pytest.approx(
        [t * 1e-6 for pair in TIMES.values() for t in pair]
    )


def test_json_faults(nccl_log: Any) -> None:
    """A wrong average, a null of a result, a file cut off, and JSON of another program."""
    document = make_json(TIMES)
    document["average_bus_bandwidth"]["bandwidth"] *= 1.1
    (finding,) = read(nccl_log, json.dumps(document)).findings
    assert "average" in finding.message
    document = make_json(TIMES, average_bus_bandwidth={})
    document["results"][0]["out_of_place"] = None
    document["results"][1]["in_place"]["nwrong"] = None
    rows = read(nccl_log, json.dumps(document)).tables[0].rows
    assert [row.placement for row in rows] == ["in", "out", "in", "out", "in"]
    assert [row.wrong for row in rows] == [0, 0, None, 0, 0]
    text = json.dumps(make_json(TIMES))
    reading = read(nccl_log, text[: text.index("16777216") + 30])
    assert len(reading.tables[0].rows) == 4
    assert reading.tables[0].ranks == 8
    assert reading.findings == []
    assert "cut off" in reading.caveats[0]
    (finding,) = read(nccl_log, '{"jobs": []}').findings
    assert "not that of nccl-tests" in finding.message


def test_osu(nccl_log: Any) -> None:
    """OSU latencies are microseconds, bandwidths are 10**6 bytes a second; nothing is made up."""
    reading = read(nccl_log, OSU_ALLREDUCE + OSU_FULL + OSU_BANDWIDTH)
    assert reading.findings == []
    first, full, bandwidth = reading.tables
    assert [first.collective, full.collective, bandwidth.collective] == [
        *("all_reduce", "all_gather", "p2p_bandwidth"),
    ]
    assert [(r.size, r.seconds.value, r.algbw, r.datatype) for r in first.rows] == [
        (4, pytest.approx(11.69e-6), None, "int"),
        (1048576, pytest.approx(3576.91e-6), None, "int"),
    ]
    assert full.rows[0].seconds.value == pytest.approx(11.5e-6)
    assert bandwidth.rows[0].algbw.value == pytest.approx(12254.16e6)
    assert bandwidth.rows[0].seconds is None


def test_crossovers_by_hand(nccl_log: Any) -> None:
    """Twice as fast at 1 KiB and half as fast at 4 KiB cross at 2 KiB; within the band is equal."""
    (turn,) = nccl_log.find_crossovers({1024: 2.0, 4096: 0.5}, 0.02)
    assert (turn["above_bytes"], turn["below_bytes"]) == (1024, 4096)
    assert turn["size_bytes"] == pytest.approx(2048)
    assert turn["faster_from_here"] is False
    assert nccl_log.find_crossovers({1: 1.01, 2: 0.99, 4: 1.01}, 0.02) == []
    turns = nccl_log.find_crossovers({1: 0.5, 2: 1.0, 4: 1.01, 8: 2.0, 16: 0.5}, 0.02)
    assert [(t["above_bytes"], t["below_bytes"]) for t in turns] == [(1, 8), (8, 16)]
    assert turns[0]["size_bytes"] == pytest.approx(2)


@given(
    st.dictionaries(st.integers(0, 30).map(lambda p: 2**p), st.floats(0.01, 100.0), min_size=1),
    st.floats(0, 0.5),
)
def test_crossovers_alternate_and_lie_between(
    nccl_log: Any, speedups: dict[int, float], band: float
) -> None:
    """Each crossover lies between its two sizes, which are on clearly different sides."""
    turns = nccl_log.find_crossovers(speedups, band)
    for turn in turns:
        low, high = speedups[turn["above_bytes"]], speedups[turn["below_bytes"]]
        assert (low < 1 < high) if turn["faster_from_here"] else (high < 1 < low)
        assert turn["above_bytes"] <= turn["size_bytes"] <= turn["below_bytes"]
    sides = [turn["faster_from_here"] for turn in turns]
    assert all(a != b for a, b in itertools.pairwise(sides))


def write_logs(folder: Path) -> tuple[Path, Path]:
    """A log of a ring and one of a tree that is faster below 1 MiB."""
    ring, tree = folder / "first.txt", folder / "tree.txt"
    ring.write_text("# all_reduce_perf\n" + print_log(TIMES, 8))
    fast = {1024: [10.0, 10.5], 1048576: [80.0, 82.5], 16777216: [800.0, 802.0]}
    tree.write_text("# all_reduce_perf\n" + print_log(fast, 8))
    return ring, tree


@pytest.mark.needs("python:matplotlib")
def test_two_files_against_each_other(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Named files are compared at equal sizes, with crossover, JSON and a picture."""
    ring, tree = write_logs(tmp_path)
    out, plot = tmp_path / "out.json", tmp_path / "speed.svg"
    arguments = [f"ring={ring}", str(tree), "--against", "ring"]
    done = call_tool(TOOL, *arguments, "--json", str(out), "--plot", str(plot))
    assert done.returncode == 0, done.stderr
    assert re.search(r"\| 1 KiB +\| 2.00 \|", done.stdout)
    assert "- tree against ring: slower from between 1 KiB and 16 MiB, about 1 MiB" in done.stdout
    document = read_json(out)
    assert len(document["results"]) == 12
    assert {row["algorithm"] for row in document["results"]} == {"ring", "tree"}
    first = document["results"][0]
    assert (first["source"], first["size_bytes"], first["type"]) == ("first.txt", 1024, "float")
    assert first["time_seconds"] == pytest.approx(20e-6)
    assert first["verdict"] == "ok"
    comparison = document["details"]["comparisons"][0]
    assert (comparison["base"], comparison["other"]) == ("ring", "tree")
    text = ElementTree.parse(plot).getroot()
    assert text.tag.endswith("svg")
    again = tmp_path / "again.svg"
    assert call_tool(TOOL, *arguments, "--plot", str(again)).returncode == 0
    assert again.read_bytes() == plot.read_bytes()
    assert str(tmp_path) not in out.read_text()


def test_unlike_runs_are_not_compared(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """8 ranks beside 4: a note says why there is no speed-up."""
    ring, tree = write_logs(tmp_path)
    tree.write_text("# all_reduce_perf\n" + print_log(TIMES, 4))
    done = call_tool(TOOL, f"ring={ring}", str(tree), "--against", "ring")
    assert done.returncode == 0
    assert "'tree' is not compared with 'ring'" in done.stderr


def test_findings_end_with_status_1(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """A line that disagrees, and a file without a table, are problems with file and line."""
    ring, _ = write_logs(tmp_path)
    ring.write_text(ring.read_text().replace("73.40", "75.40", 1))
    done = call_tool(TOOL, str(ring))
    assert done.returncode == 1
    assert "problem: first.txt:8: out-of-place busbw 75.4" in done.stderr
    ring.write_text("nothing here\n")
    done = call_tool(TOOL, str(ring))
    assert done.returncode == 1
    assert "problem: first.txt:1: no table of results in this file" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a log to read"),
        (["none.txt"], "could not read none.txt: No such file"),
        (["--toy", "a.txt"], "--toy reads a log of its own"),
        (["--toy", "--against", "star"], "no such algorithm; there are 'ring', 'tree'"),
        (["--toy", "--band", "200%"], "has to be a share"),
        (["--toy", "--plot", "x.pdf"], "has to end in .svg or .png"),
        (["-", "-"], "once only"),
    ],
)
def test_wrong_use(call_tool: Callable[..., Any], arguments: list[str], message: str) -> None:
    """What makes no sense is refused with a message, and status 2."""
    done = call_tool(TOOL, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_standard_input_and_given_ranks(run_tool: Callable[..., Any]) -> None:
    """A pipe is read, and --ranks fills what the log does not say."""
    text = "# all_reduce_perf\n" + print_log(TIMES, 8, noise=False)
    done = run_tool(TOOL, "-", "--ranks", "8", input=text)
    assert done.returncode == 0, done.stderr
    assert "would fit" not in done.stderr
    done = run_tool(TOOL, "-", "--ranks", "4", input=text)
    assert done.returncode == 1
    assert "all_reduce of 4 ranks" in done.stderr


@pytest.mark.parametrize("ranks", [1, 4])
def test_given_ranks_that_the_log_contradicts_are_told(
    run_tool: Callable[..., Any], ranks: int
) -> None:
    """A log that says how many ranks there are keeps its number, and a note says so."""
    text = "# all_reduce_perf\n" + print_log(TIMES, 8)
    done = run_tool(TOOL, "-", "--ranks", str(ranks), input=text)
    assert done.returncode == 0, done.stderr
    assert f"--ranks {ranks} was not used, because the log itself says 8" in done.stderr
    assert "was not used" not in run_tool(TOOL, "-", "--ranks", "8", input=text).stderr


def test_given_ranks_settle_a_dispute(nccl_log: Any) -> None:
    """Where communicators of several sizes leave the ranks open, --ranks says which it is."""
    disputed = print_log(TIMES, 8).replace("nranks 8", "nranks 2", 1)
    (table,) = nccl_log.read_log("# all_reduce_perf\n" + disputed, "x").tables
    assert table.ranks_are_disputed
    assert nccl_log.give_ranks([table], 8) == []
    assert nccl_log.find_bus_factor(table) == 1.75


def test_a_wrong_line_is_not_the_best(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """The best busbw is that of a right line, and a table has one name in all tables."""
    times = {1 << 20: [100.0, 100.0], 1 << 24: [500.0, 520.0]}
    path = tmp_path / "noted.txt"
    path.write_text("# all_reduce_perf\n" + print_log(times, 8))
    done = call_tool(TOOL, str(path))
    summary = done.stdout.splitlines()[2].split("|")
    assert [cell.strip() for cell in summary[6:8]] == ["58.72", "16 MiB"], done.stdout
    size, taken = 1 << 24, times[1 << 24]
    whole, wrong = print_line(size, taken, 1.75), print_line(size, taken, 1.75, "2")
    path.write_text(path.read_text().replace(whole, wrong))
    done = call_tool(TOOL, str(path))
    assert done.returncode == 1
    assert "2 wrong values" in done.stderr
    summary = done.stdout.splitlines()[2].split("|")
    assert [cell.strip() for cell in summary[6:8]] == ["18.35", "1 MiB"], done.stdout
    names = {line.split("|")[1].strip() for line in done.stdout.splitlines() if "MiB" in line}
    assert names == {"noted"}


@pytest.mark.nightly
def test_a_signal_keeps_what_was_read(read_json: Callable[[Path], Any], tmp_path: Path) -> None:
    """Ctrl-C while a pipe is awaited: what was read stands in the JSON, marked as partial."""
    ring, _ = write_logs(tmp_path)
    out = tmp_path / "out.json"
    command = [sys.executable, str(SCRIPTS / TOOL), str(ring), "-", "--json", str(out)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        _, errors = process.communicate("", timeout=30)
    finally:
        process.kill()
        process.wait(timeout=30)
    assert process.returncode == 1, errors
    document = read_json(out)
    assert document["complete"] is False
    assert len(document["results"]) == 6
