"""all_reduce_bench: factors and models by hand, and real runs of gloo ranks with their endings."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from needs import need

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "network/all_reduce_bench.py"
PATH = SCRIPTS / TOOL
TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
COLLECTIVES = (
    *("all_reduce", "all_gather", "reduce_scatter", "all_to_all"),
    *("broadcast", "reduce", "p2p"),
)

# A straight loop beside the tool's own, call by call in turn, in one job. busbw is worked out here
# from the factors of nccl-tests' doc/PERFORMANCE.md, with the tensors that its sources use.
STRAIGHT = """
import importlib.util, json, os, statistics, sys, time
spec = importlib.util.spec_from_file_location("bench", sys.argv[1])
bench = importlib.util.module_from_spec(spec)
sys.modules["bench"] = bench
spec.loader.exec_module(bench)
import torch
import torch.distributed as dist

job = bench.join_job(torch, bench.read_rank(os.environ), "cpu", 60)
meeting = bench.Meeting(job, bench.StopSign())
watch = bench.Stopwatch(torch, job.device)
n, rank, size = job.size, job.rank, int(sys.argv[2])
gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor

def ring(out, into):
    pair = [dist.P2POp(dist.isend, into, (rank + 1) % n)]
    pair.append(dist.P2POp(dist.irecv, out, (rank - 1) % n))
    for work in dist.batch_isend_irecv(pair):
        work.wait()

loops = {
    "all_reduce": (2 * (n - 1) / n, lambda out, into: dist.all_reduce(into)),
    "all_gather": ((n - 1) / n, gather),
    "reduce_scatter": ((n - 1) / n, scatter),
    "all_to_all": ((n - 1) / n, dist.all_to_all_single),
    "broadcast": (1, lambda out, into: dist.broadcast(into, 0)),
    "reduce": (1, lambda out, into: dist.reduce(into, 0)),
    "p2p": (1, ring),
}

def run_straight(call, collective):
    collective.fill()
    dist.all_reduce(torch.zeros(1))
    started = time.perf_counter()
    call(collective.got, collective.given)
    return time.perf_counter() - started

def find_median(seconds, name):
    together = max if name in ("broadcast", "reduce") else statistics.fmean
    return statistics.median(map(together, zip(*bench.gather_values(job, seconds))))

def run_tool(collective):
    collective.fill()
    meeting.hold()
    started = time.perf_counter()
    seconds = bench.time_iteration(watch, [collective], "blocking")
    around.append((time.perf_counter() - started) / seconds)
    return seconds

def find_doubt(seconds):
    # The standard error of a median: 1.25 sigma / sqrt(n), with sigma from the quartiles.
    low, middle, high = statistics.quantiles(seconds, n=4)
    return 1.25 * (high - low) / 1.349 / middle / len(seconds) ** 0.5

answer = {}
for name, (factor, call) in loops.items():
    collective = bench.Collective(job, name, size, "float32")
    mine, straight, around = [], [], []
    for turn in range(256):
        for way in (0, 1) if turn % 2 else (1, 0):
            if way:
                straight.append(run_straight(call, collective))
            else:
                mine.append(run_tool(collective))
        # Warm, or after 64 turns that something else on the machine has disturbed: anew.
        if turn % 64 == 1:
            mine, straight, around = [], [], []
        if turn % 16 == 15:
            expected = factor * size / find_median(straight, name)
            row = bench.summarise_ranks(bench.gather_values(job, mine), name, size)
            ratio = row["busbw_bytes_per_second_median"] / expected
            doubt = (find_doubt(mine) ** 2 + find_doubt(straight) ** 2) ** 0.5
            answer[name] = [ratio, statistics.median(around), doubt]
            if bench.gather_values(job, abs(ratio - 1) <= 0.03)[0]:
                break
    assert collective.count_wrong() == 0
if rank == 0:
    print(json.dumps(answer))
bench.leave_job(job)
"""

# The tool with a network that changes one element on rank 1.
BROKEN = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("bench", sys.argv[1])
bench = importlib.util.module_from_spec(spec)
sys.modules["bench"] = bench
spec.loader.exec_module(bench)
import torch.distributed as dist
reduce = dist.all_reduce

def damage(tensor, **options):
    work = reduce(tensor, **options)
    if work is not None:
        work.wait()
        tensor[tensor.numel() // 3] += 1.0 if os.environ["RANK"] == "1" else 0.0
    return work

dist.all_reduce = damage
sys.exit(bench.main(sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def bench(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def make_row(bench: Any, size: int, seconds: float, **changes: Any) -> dict[str, Any]:
    """A result of two ranks with equal samples, judged as alone."""
    row = {"collective": "all_reduce", "mode": "blocking", "dtype": "float32", "device": "cpu"}
    row |= {"size_bytes": size, "count": size // 4, "ranks": 2, "calls": 1}
    row |= bench.summarise_ranks([[seconds] * 10] * 2, "all_reduce", size)
    row |= {"wrong_elements": 0, "answer_ok": True, "share_of_peak": None, "above_peak": None}
    return row | {"verdict": "ok", "verdict_reason": None} | changes


def make_document(bench: Any, rows: list[dict[str, Any]], ranks: int = 2) -> dict[str, Any]:
    """What the tool writes, as far as a comparison reads it."""
    header = {"device_kind": "cpu", "device_model": "x86_64", "backend": "gloo"}
    header |= {"ranks": ranks, "nodes": 1}
    details = {"header": header, "settings": {"depth": 10}}
    return {"method": bench.METHOD, "complete": True, "results": rows, "details": details}


def make_baseline(bench: Any, rows: list[list[Any]]) -> dict[str, Any]:
    """A baseline of one record on two ranks."""
    settings = {"details.header.device_kind": "cpu", "details.header.device_model": "x86_64"}
    settings |= {"details.header.backend": "gloo", "details.settings.depth": 10}
    record = {"name": "all_reduce_bench/x", "started": "2026-01-02T03:04:05Z", "method": 1}
    record |= {"hardware": "some CPU", "nodes": 1, "ranks": 2, "settings": settings}
    record |= {"rows": rows, "untrusted": []}
    keys = bench.COMPARE["keys"]
    return {"schema": 1, "tool": "all_reduce_bench", "keys": keys, "records": [record]}


@pytest.mark.parametrize(
    ("collective", "ranks", "factor"),
    [
        # doc/PERFORMANCE.md of nccl-tests: 2(n-1)/n, (n-1)/n three times, 1 for the others.
        ("all_reduce", 2, 1.0),
        ("all_reduce", 8, 1.75),
        ("reduce_scatter", 8, 0.875),
        ("all_gather", 4, 0.75),
        ("all_to_all", 2, 0.5),
        ("broadcast", 8, 1.0),
        ("reduce", 8, 1.0),
        ("p2p", 8, 1.0),
    ],
)
def test_bus_factors_are_those_of_nccl_tests(
    bench: Any, collective: str, ranks: int, factor: float
) -> None:
    """The factor of each collective is the one of nccl-tests."""
    assert bench.get_bus_factor(collective, ranks) == factor


def test_bandwidth_by_hand(bench: Any) -> None:
    """1 GiB over 8 ranks in 10 ms: algbw 107.37 GB/s, times 1.75 is busbw 187.9 GB/s."""
    row = bench.summarise_ranks([[0.010] * 4] * 8, "all_reduce", 2**30)
    assert row["algbw_bytes_per_second_median"] == pytest.approx(107.3741824e9)
    assert row["busbw_bytes_per_second_median"] == pytest.approx(187.9048192e9)


def test_mean_over_ranks_and_slowest_rank_by_hand(bench: Any) -> None:
    """Iterations of 1 and 3 s, 2 and 4, 3 and 5: means 2, 3, 4; rank 1 is slowest with 4 s."""
    row = bench.summarise_ranks([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]], "all_reduce", 120)
    assert (row["seconds_median"], row["seconds_min"], row["seconds_max"]) == (3.0, 2.0, 4.0)
    assert row["busbw_bytes_per_second_median"] == 40.0
    assert (row["slowest_rank"], row["slowest_rank_seconds_median"]) == (1, 4.0)
    assert row["slowest_rank_busbw_bytes_per_second"] == 30.0


@given(
    by_rank=st.integers(2, 5).flatmap(
        lambda count: st.lists(
            st.lists(st.floats(1e-6, 1e3), min_size=count, max_size=count), min_size=1, max_size=9
        )
    ),
    collective=st.sampled_from(["all_reduce", "p2p", "broadcast"]),
)
def test_slowest_rank_is_never_faster_than_the_mean(
    bench: Any, by_rank: list[list[float]], collective: str
) -> None:
    """Whatever the samples, the slowest takes at least the mean, in JSON and table alike."""
    seconds = [list(of_rank) for of_rank in zip(*by_rank, strict=True)]
    row = bench.summarise_ranks(seconds, collective, 1 << 20)
    slowest = row["slowest_rank_busbw_bytes_per_second"]
    assert slowest <= row["busbw_bytes_per_second_median"]
    assert 1 / len(seconds) <= row["slowest_rank_share"] <= 1
    row |= {"mode": "blocking", "size_bytes": 1 << 20, "collective": collective, "verdict": "ok"}
    row |= {"share_of_peak": None}
    cells = bench.format_bench_rows([row]).splitlines()[2].split("|")
    busbw, shown = (cell.strip(" ~").partition(" ")[0] for cell in (cells[2], cells[4]))
    assert float(shown) <= float(busbw)


def test_slowest_in_turns_is_no_slow_rank(bench: Any) -> None:
    """Ranks that are last in turns: the mean 2, the slowest 3, and nobody is named for it."""
    row = bench.summarise_ranks([[1.0, 3.0, 1.0, 3.0], [3.0, 1.0, 3.0, 1.0]], "all_reduce", 120)
    assert (row["seconds_median"], row["slowest_rank_seconds_median"]) == (2.0, 3.0)
    assert row["slowest_rank_share"] == 0.5
    for share, count in ((0.5, 0), (0.75, 1)):
        journal = bench.BenchJournal([], 0.0, None)
        named = {"verdict": "ok", "collective": "all_reduce", "size_bytes": 120}
        journal.rows = [row | named | {"slowest_rank_share": share, "mode": "blocking"}]
        found = [text for text in bench.find_bench_remarks(journal) if "node_pairs" in text]
        assert len(found) == count


def test_what_ended_first_is_named_first(bench: Any) -> None:
    """A lost rank comes before the rank that lost it, without the frames of C++."""
    error = RuntimeError("[/a/b/pair.cc:553] Connection closed by peer [127.0.0.1]:1234\nmore")
    reason = bench.shorten_error(error)
    assert bench.describe_rank_failure(0, reason, [2]) == (
        "rank 2 has ended, and rank 0 has lost it: Connection closed by peer a host"
    )
    assert bench.describe_rank_failure(1, "no memory", []) == "rank 1 failed: no memory"
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    me = bench.describe_neighbour()
    ranks = [me, me._replace(process=child.pid), me._replace(host="another", process=child.pid)]
    assert bench.find_ended_ranks(ranks, 0, 30.0) == [1]  # a zombie: nobody has waited for it
    child.wait()
    assert bench.has_ended(child.pid)
    assert bench.find_ended_ranks([me, me], 0, 0.0) == []


def test_rooted_collective_takes_as_long_as_its_slowest_rank(bench: Any) -> None:
    """The root of a broadcast is done at once; the data has arrived when the last rank has it."""
    row = bench.summarise_ranks([[0.1, 0.1, 0.1], [3.0, 4.0, 5.0]], "broadcast", 120)
    assert (row["seconds_median"], row["busbw_bytes_per_second_median"]) == (4.0, 30.0)


def test_sizes_are_divided_among_ranks(bench: Any) -> None:
    """1000 bytes of 4-byte elements for 3 ranks: 250, or where each gets a part 249."""
    assert bench.count_elements("all_reduce", 1000, 4, 3) == 250
    assert bench.count_elements("all_to_all", 1000, 4, 3) == 249
    assert bench.list_sizes(32, 256) == [32, 64, 128, 256]
    assert bench.list_sizes(48, 100) == [48, 96]


@pytest.mark.parametrize(
    ("text", "size"),
    [
        *(("32KiB", 32768), ("32K", 32768), ("4MB", 4_000_000), ("4GB", 4_000_000_000)),
        *(("16G", 16 * 2**30), ("1.5MiB", 1572864), ("1kB", 1000), ("8B", 8), ("8", 8)),
    ],
)
def test_sizes_are_read(bench: Any, text: str, size: int) -> None:
    """`iB` and a bare letter are binary, `B` alone is decimal."""
    assert bench.parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "0", "-1", "1X", "0.3B", "1iB", "KiB", "1e3", "nan"])
def test_what_is_no_size_is_refused(bench: Any, text: str) -> None:
    """What is no whole number of bytes is refused."""
    with pytest.raises(argparse.ArgumentTypeError):
        bench.parse_bytes(text)


@given(size=st.integers(1, 2**50))
def test_formatted_size_reads_back(bench: Any, size: int) -> None:
    """A size as shown is the same size when it is typed."""
    assert bench.parse_bytes(bench.format_bytes(size)) == size


@given(latency=st.floats(1e-6, 1e-1), rate=st.floats(1e6, 1e12))
def test_fit_finds_the_line_again(bench: Any, latency: float, rate: float) -> None:
    """Times that follow the model give its latency and its bandwidth back."""
    sizes = [latency * rate * share for share in (0.1, 0.5, 1.0, 4.0, 30.0)]
    fit = bench.fit_line(sizes, [latency + size / rate for size in sizes])
    assert fit.latency_seconds == pytest.approx(latency, rel=1e-6)
    assert fit.bytes_per_second == pytest.approx(rate, rel=1e-6)
    assert fit.worst_miss < 1e-6


def test_fit_by_hand(bench: Any) -> None:
    """Too few sizes have no model; times that do not grow have no bandwidth; none is negative."""
    assert bench.fit_line([1, 2], [1.0, 2.0]) is None
    flat = bench.fit_line([1, 2, 3], [2.0, 2.0, 2.0])
    assert (flat.latency_seconds, flat.bytes_per_second, flat.worst_miss) == (2.0, None, 0.0)
    # Steeper than a line through the origin: the best line would begin below 0.
    assert bench.fit_line([1, 2, 4], [1.0, 3.0, 7.0]).latency_seconds == 0.0


@given(ranks=st.integers(2, 300), exact=st.sampled_from([2**8, 2**11, 2**24]))
def test_sums_are_exact_in_every_data_type(bench: Any, ranks: int, exact: int) -> None:
    """What the ranks give adds up to what is expected, without passing the exact numbers."""
    parts = [bench.list_sum_pattern(rank, ranks, exact) for rank in range(ranks)]
    totals = [sum(column) for column in zip(*parts, strict=True)]
    assert totals == bench.list_total_pattern(ranks, exact)
    assert max(totals) <= exact
    assert all(any(part) for part in parts), "a rank that gives nothing would not be missed"


def test_verdicts_by_hand(bench: Any) -> None:
    """Where half of the time is latency the row says so; what is worse goes first."""
    # 10 us and 1 GB/s: 1000 bytes take 11 us, 100000 take 110.
    rows = [make_row(bench, size, 1e-5 + size / 1e9) for size in (1000, 9000, 100000)]
    bench.judge_bandwidths(rows, bench.fit_rows(rows))
    assert [row["verdict"] for row in rows] == ["latency", "latency", "ok"]
    rows[0] |= {"answer_ok": False}
    rows[1] |= {"above_peak": True}
    rows[2] |= {"steady": False}
    bench.judge_bandwidths(rows, bench.fit_rows(rows))
    assert [row["verdict"] for row in rows] == ["WRONG ANSWER", "above peak", "unsteady"]


def test_peak_by_hand(bench: Any) -> None:
    """100 bytes in 1 s by two ranks are 100 B/s: half of a peak of 200, above one of 99."""
    row = make_row(bench, 100, 1.0)
    assert bench.judge_bus_peak(row, 200.0) == {"share_of_peak": 0.5, "above_peak": False}
    assert bench.judge_bus_peak(row, 99.0)["above_peak"] is True


@pytest.mark.parametrize(
    ("version", "backend", "may"),
    [
        *(("2.8.0+cu128", "nccl", True), ("2.13.0", "nccl", True), ("2.13.0", "gloo", False)),
        *(("2.7.1", "nccl", False), ("2.6.0", "nccl", False)),
    ],
)
def test_device_is_bound_where_that_is_safe(
    bench: Any, version: str, backend: str, may: bool
) -> None:
    """device_id goes to nccl alone, and only to versions without the known hang."""
    assert bench.may_bind_device(version, backend) is may


def test_run_is_compared_with_one_of_as_many_ranks(bench: Any) -> None:
    """A record of the same hardware, ranks and payload is met; with other ranks it is not."""
    rows = [make_row(bench, 1000, 1e-5), make_row(bench, 2000, 1e-5)]
    baseline = make_baseline(bench, [["all_reduce", "blocking", "float32", 1000, 2e8, 0.01]])
    found = bench.compare_job(make_document(bench, rows), baseline, "Some CPU")
    assert found["ratio"] == pytest.approx(0.5)
    assert found["verdict"] == "far below"
    assert found["left_out"][0].endswith("the record has no such row")
    other = bench.compare_job(make_document(bench, rows, ranks=4), baseline, None)
    assert other["record"] is None
    assert "is of 2 ranks, yours is of 4 ranks: not compared" in other["sentences"][0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--payload_size_in_gib", "1", "--max_size", "1MiB"], "one payload"),
        (["--min_size", "2MiB", "--max_size", "1MiB"], "above --max_size"),
        (["--collective", "all", "p2p"], "name no other"),
        (["--facts", "x.json"], "give both"),
        (["--ranks", "1"], "nobody to talk to"),
        (["--ranks", "3", "--min_size", "3"], "3 B has less than one element of float32"),
        (
            ["--ranks", "3", "--min_size", "8", "--collective", "all_reduce", "all_gather"],
            "for each of 3 ranks, as all_gather needs it",
        ),
        (
            ["--ranks", "2", "--payload_size_in_gib", "1e-12", "--dtype", "float16"],
            "0 B has less than one element of float16",
        ),
        (["--plot", "x.gif"], "has to end in .svg or .png"),
        (["--compare", "none.json"], "could not read"),
    ],
)
def test_wrong_use_is_told_at_once(
    call_tool: Callable[..., Any], arguments: list[str], words: str
) -> None:
    """What makes no sense ends with status 2 and one line, before torch is imported."""
    done = call_tool(TOOL, *arguments, without_torch=True)
    assert done.returncode == 2
    assert done.stderr.count(words) == 1
    assert "Traceback" not in done.stderr


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("ranks", [2, 4])
def test_busbw_is_that_of_a_straight_loop(tmp_path: Path, ranks: int) -> None:
    """For each collective busbw is that of a plain loop in the same job, call by call; within a
    factor of 2, because others use this machine as well."""
    script = tmp_path / "straight.py"
    script.write_text(STRAIGHT)
    command = [*TORCHRUN, "--nproc_per_node", str(ranks), str(script), str(PATH), str(8 * 2**20)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert set(answer) == set(COLLECTIVES)
    for name, (ratio, around, _) in answer.items():
        assert 0.5 < ratio < 2.0, name
        assert 0.5 < around < 2.0, name


@pytest.mark.torch
def test_all_collectives_under_torchrun(tmp_path: Path, read_json: Callable[[Path], Any]) -> None:
    """torchrun with a stray --local_rank: all collectives and modes, right answers, and a plot."""
    path, plot = tmp_path / "out.json", tmp_path / "out.svg"
    command = [*TORCHRUN, "--nproc_per_node", "2", str(PATH), "--local_rank=0", "--device", "cpu"]
    command += ["--collective", "all", "--mode", "both", "--dtype", "bfloat16"]
    command += ["--min_size", "1000", "--max_size", "32K", "--num_iterations", "4"]
    command += ["--profile_stability", "--peak", "1e-9", "--json", str(path), "--plot", str(plot)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1, done.stderr  # all of it is above so low a peak
    assert "rows are above --peak" in done.stderr
    assert done.stdout.startswith("| Size")
    document = read_json(path)
    assert document["complete"] is True
    rows = document["results"]
    assert len(rows) == 7 * 2 * 6
    assert all(row["answer_ok"] and row["verdict"] == "above peak" for row in rows)
    assert {row["collective"] for row in rows} == set(COLLECTIVES)
    for row in rows:
        product = row["busbw_bytes_per_second_median"] * row["seconds_median"]
        factor = {"all_reduce": 1, "broadcast": 1, "reduce": 1, "p2p": 1}.get(
            row["collective"], 0.5
        )
        assert product == pytest.approx(factor * row["size_bytes"])
    kept = document["details"]["iterations"]
    assert len(kept) == len(rows)
    assert all(len(of_rank) == 4 for entry in kept for of_rank in entry["seconds_of_each_rank"])
    assert "<svg" in plot.read_text()


@pytest.mark.torch
def test_wrong_answer_is_status_1(tmp_path: Path, read_json: Callable[[Path], Any]) -> None:
    """One wrong element on one rank marks the row, is counted, and ends with status 1."""
    script, path = tmp_path / "broken.py", tmp_path / "out.json"
    script.write_text(BROKEN)
    command = [*TORCHRUN, "--nproc_per_node", "2", str(script), str(PATH), "--device", "cpu"]
    command += ["--max_size", "32KiB", "--num_iterations", "4", "--json", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "problem: 1 of 1 rows have wrong answers (all_reduce 32 KiB)" in done.stderr
    row = read_json(path)["results"][0]
    assert (row["verdict"], row["answer_ok"]) == ("WRONG ANSWER", False)
    assert row["wrong_elements"] == 2, "after the warm-up and after the last iteration"


@pytest.mark.torch
def test_signal_to_one_rank_keeps_what_was_measured(
    tmp_path: Path, read_json: Callable[[Path], Any]
) -> None:
    """A signal that reaches rank 1 alone ends all ranks; the rows so far are kept, status 1."""
    path = tmp_path / "out.json"
    environ = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29641"}
    environ |= {"WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(PATH), "--device", "cpu", "--num_iterations", "300"]
    command += ["--json", str(path)]
    ranks = [
        subprocess.Popen(
            command,
            env={**environ, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        end = time.monotonic() + 60
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.1)
        ranks[1].send_signal(signal.SIGUSR1)
        words = [rank.communicate(timeout=60)[1] for rank in ranks]
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
                rank.wait()
    assert [rank.returncode for rank in ranks] == [1, 1], words
    document = read_json(path)
    assert document["complete"] is False
    assert 1 <= len(document["results"]) < 12
    assert any("stopped" in caveat for caveat in document["caveats"])
    assert not list(tmp_path.glob(".*"))


def wait_for_children(process: subprocess.Popen[str], count: int) -> list[int]:
    """The ranks that a run has started, once there are so many."""
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    end = time.monotonic() + 60
    while len(found := path.read_text().split()) < count and time.monotonic() < end:
        time.sleep(0.02)
    return [int(one) for one in found]


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("ranks", [3, 4])
def test_rank_that_is_killed_is_named_first(tmp_path: Path, ranks: int) -> None:
    """Rank 2 is killed: its name comes first, also for ranks that do not talk to it."""
    path = tmp_path / "out.json"
    command = [sys.executable, str(PATH), "--device", "cpu", "--ranks", str(ranks)]
    command += ["--num_iterations", "300", "--timeout", "30s", "--json", str(path)]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        children = wait_for_children(process, ranks)
        end = time.monotonic() + 60
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.05)
        os.kill(children[2], signal.SIGKILL)
        words = process.communicate(timeout=60)[1]
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=60)
    assert process.returncode == 1
    assert "problem: rank 2 has ended, and rank 0 has lost it: " in words
    assert "rank 2 was ended by SIGKILL" in words
    assert not any(f"rank {rank} failed" in words for rank in range(ranks)), words
    assert ".cc:" not in words
    assert json.loads(path.read_text())["complete"] is False


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.parametrize("seconds", [0.6, 2.5])
def test_ctrl_c_is_answered_at_once(tmp_path: Path, seconds: float) -> None:
    """Ctrl-C while torch is imported or later: a word within a second or two, and JSON."""
    path = tmp_path / "out.json"
    command = [sys.executable, str(PATH), "--device", "cpu", "--json", str(path)]
    process = subprocess.Popen(
        [*command, "--num_iterations", "500"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        time.sleep(seconds)
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr is not None
        assert process.stderr.readline().startswith("SIGINT: stopping after what runs now")
        words = process.communicate(timeout=60)[1]
    finally:
        if process.poll() is None:
            process.terminate()
            process.communicate(timeout=60)
    assert process.returncode == 1, words
    assert "Traceback" not in words
    assert json.loads(path.read_text())["complete"] is False


# --- a network of our own ---

HOLD = "ip link set lo up && echo ready && exec sleep 600"


@pytest.fixture
def two_nodes(can_unshare: None) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Two network namespaces joined by a link of 1 Gbit/s; starts a command in one of them."""
    need("tc")
    holders = [
        subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "--net", "bash", "-c", HOLD],
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]

    def enter(node: int, *command: str) -> list[str]:
        return ["nsenter", f"--target={holders[node].pid}", "--net", *command]

    def do(node: int, command: str) -> None:
        subprocess.run(enter(node, *command.split()), check=True, timeout=10)

    def start(node: int, command: list[str], environ: dict[str, str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            enter(node, *command),
            env={**os.environ, **environ},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    try:
        for holder in holders:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "ready\n"
        do(0, f"ip link add eth0 type veth peer name eth0 netns {holders[1].pid}")
        for node in range(2):
            do(node, f"ip addr add 10.79.0.{node + 1}/24 dev eth0")
            do(node, "ip link set eth0 up")
            do(node, "tc qdisc add dev eth0 root tbf rate 1gbit burst 256kb latency 50ms")
        yield start
    finally:
        for holder in holders:
            holder.kill()
            holder.communicate()


@pytest.mark.nightly
@pytest.mark.torch
def test_limited_link_is_measured(
    two_nodes: Callable[..., subprocess.Popen[str]],
    tmp_path: Path,
    read_json: Callable[[Path], Any],
) -> None:
    """Over 1 Gbit/s nothing passes the wire rate, and all_reduce reaches 85 % of it at least."""
    path = tmp_path / "out.json"
    command = [sys.executable, str(PATH), "--device", "cpu", "--collective", "all_reduce"]
    command += ["broadcast", "all_to_all", "p2p", "--payload_size_in_gib", "0.0625"]
    command += ["--num_iterations", "4"]
    command += ["--num_warmup_iterations", "1", "--peak", "0.125", "--json", str(path)]
    environ = {"MASTER_ADDR": "10.79.0.1", "MASTER_PORT": "29500", "WORLD_SIZE": "2"}
    environ |= {"LOCAL_RANK": "0", "GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": "1"}
    ranks = [two_nodes(node, command, {**environ, "RANK": str(node)}) for node in range(2)]
    try:
        words = [rank.communicate(timeout=240)[1] for rank in ranks]
    finally:
        for rank in ranks:
            if rank.poll() is None:
                rank.kill()
                rank.wait()
    assert [rank.returncode for rank in ranks] == [0, 0], words
    rows = read_json(path)["results"]
    assert len(rows) == 4
    for row in rows:
        assert row["answer_ok"]
        assert row["above_peak"] is False
        where = f"{row['collective']} {row['size_bytes']}"
        # Where both directions carry data gloo now and then uses one after the other.
        least = 0.85 if row["collective"] in ("all_reduce", "broadcast") else 0.4
        assert least <= row["share_of_peak"] <= 1.0, where
        assert math.isclose(row["share_of_peak"] * 0.125e9, row["busbw_bytes_per_second_median"]), (
            where
        )
