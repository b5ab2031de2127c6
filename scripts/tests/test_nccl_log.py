"""nccl_log: logs in the forms there are, what is inferred from them, and lines that disagree."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

TOOL = "network/nccl_log.py"

HEADER = """\
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
"""  # noqa: E501 - as nccl-tests prints them
NOISE = "node1:101:205 [3] NCCL INFO comm 0x55aa rank 3 nranks {} cudaDev 3 busId 3b000 - {}\n"
TIMES = {1024: [20.0, 21.0], 1048576: [80.0, 82.5], 16777216: [400.0, 401.0]}

OSU = """
# OSU MPI Allreduce Latency Test v7.5
# Datatype: MPI_INT.
# Size       Avg Latency(us)
4                      11.69
1048576              3576.91

# OSU MPI-CUDA Allgather Latency Test v7.3
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
8                      11.50              9.10             13.20        1000

# OSU MPI Bandwidth Test v7.5
# Size      Bandwidth (MB/s)
268435456           12254.16
"""


def show_figure(value: float, width: int) -> str:
    """A number as getFloatStr of nccl-tests prints it in so many columns."""
    for digits in (2, 1, 0):
        if len(text := f"{value:{width}.{digits}f}") <= width:
            return text
    return f"{value:{width}.1e}"


def print_line(size: int, times: list[float], factor: float, kind: str, wrong: str = "0") -> str:
    """One line of nccl-tests for out-of-place and in-place times in microseconds."""
    line = f"{size:12d}  {size // 4:12d}  {'float':>8}  {kind}"
    for taken in times:
        algbw = size / taken * 1e-3
        rates = f"{show_figure(algbw, 6)}  {show_figure(algbw * factor, 6)}"
        line += f"  {show_figure(taken, 7)}  {rates}  {wrong:>6}"
    return line + "\n"


def print_log(
    times: dict[int, list[float]], factor: float, ranks: int | None = None, kind: str = "sum -1"
) -> str:
    """A log of nccl-tests, with lines of NCCL where `ranks` is given."""
    rows = "".join(print_line(size, taken, factor, kind) for size, taken in times.items())
    noise = [NOISE.format(ranks, what) if ranks else "" for what in ("Init", "Destroy")]
    return f"{HEADER}{noise[0]}{rows}{noise[1]}# Avg bus bandwidth    : 1.0 \n"


def read(module: Any, text: str, ranks: int | None = None) -> tuple[list[Any], list[str], Any]:
    """The tables of one log, its problems, and the notes on what was inferred."""
    tables, unread = module.read_log(text, "a.log", None)
    notes = [module.infer_run(table, ranks) for table in tables]
    problems = unread + [problem for table in tables for problem in module.judge(table)]
    return tables, problems, notes


def test_what_is_printed_is_read(module: Any) -> None:
    """No line of a right log disagrees, whatever the rounding: the digits are as nccl-tests has
    them, from 4 B in 1 us to 32 GiB in 0.9 s."""
    rng = random.Random(0)
    for ranks in (2, 3, 8, 64, 1000, 4096):
        times = {4 * 2**n: [10 ** rng.uniform(0, 5.9) for _ in "oi"] for n in range(34)}
        text = "# all_reduce_perf\n" + print_log(times, 2 * (ranks - 1) / ranks, ranks)
        (table,), problems, _ = read(module, text)
        assert problems == []
        assert (table.ranks, table.collective) == (ranks, "all_reduce")
        assert [row["size_bytes"] for row in table.rows] == [size for size in times for _ in "oi"]


@pytest.mark.parametrize(
    ("factor", "kind", "stated", "collective", "ranks"),
    [
        (1.0, "sum -1", None, "all_reduce", 2),
        (1.75, "sum -1", 8, "all_reduce", 8),
        (0.875, "sum -1", None, "reduce_scatter", 8),
        (1.0, "sum 0", 4, "reduce", 4),
    ],
)
def test_collective_and_ranks_are_inferred(
    module: Any, factor: float, kind: str, stated: int | None, collective: str, ranks: int
) -> None:
    """From busbw / algbw, operation and root, where the log does not say them."""
    (table,), problems, (note,) = read(module, print_log(TIMES, factor, stated, kind))
    assert (table.collective, table.ranks, problems) == (collective, ranks, [])
    assert kind != "sum -1" or f"inferred {collective} of {ranks} ranks" in note


def test_what_several_runs_fit_is_said(module: Any) -> None:
    """0.75 without an operation is an all-gather as well as an all-to-all; 1.996 may be 480 ranks
    or more, until --ranks says so."""
    (table,), _, (note,) = read(module, print_log(TIMES, 0.75, None, "none -1"))
    assert table.collective is None
    assert "fits all_gather or all_to_all or gather" in note
    text = print_log(TIMES, 2 * 511 / 512)
    assert "ranks: use --ranks" in read(module, text)[2][0]
    (table,), problems, _ = read(module, text, ranks=512)
    assert (table.ranks, problems) == (512, [])


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("41.94   73.40", "43.94   73.40", "algbw 43.94 is not size / time, 41.94"),
        ("41.94   73.40", "41.94   72.40", "busbw 72.4 is not 1.75 * algbw, 73.39"),
        ("400.0", "480.0", "algbw 41.94 is not size / time, 34.95"),
    ],
)
def test_a_mistyped_number_is_named(module: Any, right: str, wrong: str, message: str) -> None:
    """At its own line, with or without knowing the ranks, and no other number."""
    for ranks in (8, None):
        text = re.sub(" +", " ", print_log(TIMES, 1.75, ranks))
        text = text.replace(re.sub(" +", " ", right), re.sub(" +", " ", wrong), 1)
        (table,), problems, _ = read(module, text)
        assert problems == [f"a.log:{6 if ranks else 5}: out-of-place {message}"]
        assert [row["verdict"] for row in table.rows].count("disagrees") == 1


def test_forms_of_logs(module: Any) -> None:
    """In a diary under a heading, commented lines, labels of launchers, a device list, a timestamp,
    no operation, no table."""
    plain = "./build/all_reduce_perf -g 8\n" + print_log(TIMES, 1.75, 8)
    stamped = plain.replace("#wrong\n", "#wrong           timestamp\n")
    stamped = re.sub(r"(     0)\n", r"\1  2031-02-03 10:11:12\n", stamped)
    for text in (
        f"7 days later\n```\n# NCCL Ring\n{plain}```\n8 days\n",
        "".join(f"# {line}\n" for line in plain.splitlines()),
        "".join(f"[1,0]<stdout>: {line}\n" for line in plain.splitlines()),
        "".join(f" 0: {line}\n" for line in plain.splitlines()),
        "".join(f"#  Rank {n} Group  0 Pid 60 on node{n // 8} device {n % 8}\n" for n in range(8))
        + "./build/all_reduce_perf\n" + print_log(TIMES, 1.75),
        stamped,
    ):  # fmt: skip
        (table,), problems, _ = read(module, text)
        assert (len(table.rows), table.ranks, problems) == (6, 8, []), text
        assert table.name == ("NCCL Ring" if "Ring" in text else "a")
    short = "  size   time  algbw  busbw\n   (B)   (us) (GB/s) (GB/s)\n32768  43.83   0.75   1.31\n"
    (row,) = read(module, short)[0][0].rows
    assert (row["size_bytes"], row["placement"], row["wrong"]) == (32768, None, None)
    assert read(module, "nothing\n")[0] == []


def test_osu(module: Any) -> None:
    """OSU latencies are microseconds, its bandwidths 10**6 B/s."""
    (first, full, bandwidth), problems, _ = read(module, OSU)
    assert problems == []
    names = [table.collective for table in (first, full, bandwidth)]
    assert names == ["all_reduce", "all_gather", None]
    assert [row["time_seconds"] for row in first.rows] == pytest.approx([11.69e-6, 3576.91e-6])
    assert full.rows[0]["time_seconds"] == pytest.approx(11.5e-6)
    assert bandwidth.rows[0]["algbw_bytes_per_second"] == pytest.approx(12254.16e6)


def test_two_files_against_each_other(run_json: Any, tmp_path: Path) -> None:
    """Compared at equal sizes, without the line that has wrong values, and drawn; other ranks
    are not compared."""
    ring, tree, four = (tmp_path / name for name in ("a.txt", "tree.txt", "pat.txt"))
    ring.write_text(print_log(TIMES, 1.75, 8))
    fast = {1024: [10.0, 10.5], 1048576: [80.0, 82.5], 16777216: [800.0, 802.0]}
    bad = print_line(1048576, fast[1048576], 1.75, "sum -1")
    spoilt = print_line(1048576, fast[1048576], 1.75, "sum -1", "17")
    tree.write_text(print_log(fast, 1.75, 8).replace(bad, spoilt))
    four.write_text(print_log(TIMES, 1.5, 4))
    plot = tmp_path / "speed.svg"
    arguments = [f"ring={ring}", str(tree), str(four), "--against", "ring"]
    done = run_json(TOOL, *arguments, "--plot", str(plot))
    assert done.returncode == 1
    assert "problem: tree.txt:5: out-of-place 17 wrong values" in done.stderr
    assert "pat is not compared: ('all_reduce', 4," in done.stderr
    assert "tree, out: slower than ring from between 1 KiB and 16 MiB" in done.stdout
    document = done.document
    assert len(document["results"]) == 18
    assert list(document["details"]["comparisons"][0]["speedups"]) == ["1024", "16777216"]
    assert "<svg" in plot.read_text()
