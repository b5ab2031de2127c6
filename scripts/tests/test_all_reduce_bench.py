"""all_reduce_bench: factors and sums by hand, every collective on gloo ranks, and a known link."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "network/all_reduce_bench.py"

# The tool on a network that changes one element on rank 1.
BROKEN = """
reduce = dist.all_reduce

def damage(tensor, *options, async_op=False):
    work = reduce(tensor, *options, async_op=async_op)
    if async_op:
        work.wait()
        tensor[tensor.numel() // 3] += 1.0 if os.environ["RANK"] == "1" else 0.0
    return work

dist.all_reduce = damage
"""


def make_row(module: Any, size: int, seconds: float) -> dict[str, Any]:
    """A row of two ranks with equal samples."""
    row = {"collective": "all_reduce", "mode": "async", "calls": 20, "ranks": 2}
    row |= {"size_bytes": size, "above_peak": False, "wrong_elements": 0}
    return row | module.summarize_ranks([[seconds] * 10] * 2, "all_reduce", size)


def test_rows_by_hand(module: Any) -> None:
    """1 GiB over 8 ranks in 10 ms: algbw 107.37 GB/s, times 1.75 is busbw 187.9 GB/s. Samples of
    1 and 3 s, 2 and 4, 3 and 5: means 2, 3, 4; rank 1 is slowest with 4 s."""
    row = module.summarize_ranks([[0.010] * 4] * 8, "all_reduce", 2**30)
    assert row["algbw_bytes_per_second_median"] == pytest.approx(107.3741824e9)
    assert row["busbw_bytes_per_second_median"] == pytest.approx(187.9048192e9)
    row = module.summarize_ranks([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0]], "all_reduce", 120)
    assert (row["seconds_median"], row["seconds_min"], row["seconds_max"]) == (3.0, 2.0, 4.0)
    assert (row["slowest_rank"], row["busbw_bytes_per_second_median"]) == (1, 40.0)
    assert row["slowest_rank_busbw_bytes_per_second"] == 30.0


@pytest.mark.torch
@pytest.mark.parametrize("ranks", [2, 7, 256])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_sums_are_exact_in_every_data_type(module: Any, ranks: int, dtype: str) -> None:
    """The sum of all ranks is a whole number that the type represents, and every rank counts."""
    import torch

    jobs = [module.Job(torch, torch.device("cpu"), "gloo", rank, ranks, 0) for rank in range(ranks)]
    calls = [module.Call(job, "all_reduce", 16 * ranks, dtype) for job in jobs]
    index = torch.arange(len(calls[0].sent))
    parts = [call.sent_value(index).to(call.sent.dtype) for call in calls]
    assert torch.equal(sum(parts), calls[0].right_value(index).to(calls[0].sent.dtype))
    assert all(bool(part.any()) for part in parts)


def test_verdicts(module: Any) -> None:
    """Latency where it is half of the time: with 10 us and 1 GB/s, below 10,000 bytes. What is
    worse goes first."""
    rows = [make_row(module, size, 1e-5 + size / 1e9) for size in (4500, 9000, 18000, 36000)]
    module.judge(rows)
    assert [row["verdict"] for row in rows] == ["latency", "latency", "ok", "ok"]
    rows[0] |= {"wrong_elements": 1, "above_peak": True}
    rows[1] |= {"above_peak": True}
    rows[2] |= {"steady": False}
    module.judge(rows)
    assert [row["verdict"] for row in rows] == ["WRONG ANSWER", "above peak", "unsteady", "ok"]


@pytest.mark.torch
def test_every_collective_under_torchrun(tmp_path: Path, read_json: Any) -> None:
    """With the stray --local_rank of old launchers: right answers in both modes, and a plot."""
    path, plot = tmp_path / "out.json", tmp_path / "out.svg"
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
    command += ["2", str(SCRIPTS / TOOL), "--local_rank=0", "--device", "cpu", "--collective"]
    command += ["all", "--mode", "both", "--dtype", "bfloat16", "--min_size", "1000"]
    command += ["--max-size", "4KiB", "--num-iterations", "4", "--peak", "1e-9"]
    command += ["--json", str(path), "--plot", str(plot)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr  # all of it is above so low a peak
    assert "rows are above --peak" in done.stderr
    document = read_json(path)
    assert document["complete"] is True
    rows = document["results"]
    assert len(rows) == 6 * 2 * 3
    assert all(row["verdict"] == "above peak" for row in rows)
    for row in rows:
        seconds = row["busbw_bytes_per_second_median"] * row["seconds_median"]
        halved = row["collective"] in ("all_gather", "reduce_scatter", "all_to_all")
        assert seconds == pytest.approx(row["size_bytes"] / (2 if halved else 1))
        assert row["calls"] == (20 if row["mode"] == "async" else 1)
    assert "<svg" in plot.read_text()


@pytest.mark.torch
def test_a_wrong_element_is_found(run_broken: Any) -> None:
    """One element on one rank marks the row, is counted, and ends with status 1."""
    done = run_broken("all_reduce_bench", BROKEN, "--max-size", "32KiB")
    assert done.returncode == 1, done.stderr
    assert "WRONG ANSWERS (all_reduce 32 KiB)" in done.stderr
    row = done.document["results"][0]
    assert row["verdict"] == "WRONG ANSWER"
    assert row["wrong_elements"] == 2, "before and after the timing"


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.needs("root", "tc", "unshare", "nsenter")
def test_a_link_of_known_speed(tmp_path: Path) -> None:
    """Between two network namespaces with 1 Gbit/s no collective exceeds the rate of the link, and
    all_reduce reaches half of it."""
    hold = ["unshare", "--net", "sh", "-c", "echo; exec sleep 300"]
    nodes = [subprocess.Popen(hold, stdout=subprocess.PIPE) for _ in range(2)]
    assert all(node.stdout and node.stdout.readline() for node in nodes)
    enter = [["nsenter", f"--target={node.pid}", "--net"] for node in nodes]
    path = tmp_path / "out.json"
    tool = [sys.executable, str(SCRIPTS / TOOL), "--device", "cpu", "--mode", "blocking"]
    tool += ["--collective", "all_reduce", "broadcast", "all_to_all", "sendrecv"]
    tool += ["--payload-size-in-gib", "0.03125", "--num-iterations", "4", "--peak", "0.125"]
    place = {"WORLD_SIZE": "2", "LOCAL_RANK": "0", "OMP_NUM_THREADS": "1"}
    place |= {"MASTER_ADDR": "10.79.0.1", "MASTER_PORT": "29511", "GLOO_SOCKET_IFNAME": "eth0"}
    try:
        ends = [f"eth0 netns {node.pid}" for node in nodes]
        wire = f"ip link add {ends[0]} type veth peer {ends[1]}"
        subprocess.run(["sh", "-ec", wire], check=True)
        for rank, inside in enumerate(enter):
            script = f"""ip link set lo up; ip link set eth0 up
                ip addr add 10.79.0.{rank + 1}/24 dev eth0
                tc qdisc add dev eth0 root tbf rate 1gbit burst 256kb latency 500ms"""
            subprocess.run([*inside, "sh", "-ec", script], check=True)
        ranks = [
            subprocess.Popen(
                [*inside, *tool, "--json", str(path)],
                env={**os.environ, **place, "RANK": str(rank)},
                stdout=subprocess.DEVNULL,
            )
            for rank, inside in enumerate(enter)
        ]
        assert [rank.wait(timeout=300) for rank in ranks] == [0, 0]
    finally:
        for node in nodes:
            node.kill()
            node.communicate()
    rows = json.loads(path.read_text(encoding="utf-8"))["results"]
    assert len(rows) == 4
    assert not any(row["wrong_elements"] or row["above_peak"] for row in rows)
    assert rows[0]["busbw_bytes_per_second_median"] > 0.0625e9


@pytest.mark.torch
def test_stability_keeps_every_sample_of_every_rank(run_json: Any, tmp_path: Path) -> None:
    """Each sample is in the JSON and in the plot."""
    pytest.importorskip("matplotlib", reason="matplotlib is missing: pip install matplotlib")
    plot = tmp_path / "stability.svg"
    options = ("--payload-size-in-gib", "0.001", "--num-iterations", "3", "--profile-stability")
    done = run_json(TOOL, "--device", "cpu", "--ranks", "2", *options, "--plot", str(plot))
    assert done.returncode == 0, done.stderr
    (samples,) = done.document["details"]["samples"]
    assert [len(seconds) for seconds in samples["seconds_by_rank"]] == [3, 3]
    assert "sample" in plot.read_text()
