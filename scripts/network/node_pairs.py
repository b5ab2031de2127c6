#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Which node, or which link between two nodes, is slow or dead?

One slow node or one bad cable slows the collectives of a whole job, and a benchmark over all nodes
only shows that something is slow. This tool measures pairs of nodes in a round-robin tournament: in
each round every node has one partner, all pairs run all_reduce at the same time, and the partners
change from round to round.

## Formulas

The circle method gives N-1 rounds of N/2 disjoint pairs for an even number of nodes, and N rounds
with one node resting for an odd one. Every pair meets exactly once: in round r, node a meets node
`(2 r - a) mod (N - 1)`, and node r meets node N-1.

A pair is as fast as the slowest of three: node a, node b, and the link between them. A fast pair
therefore clears both nodes. A slow pair of two cleared nodes is a slow link. A node that nothing
clears, slow with at least two cleared partners, is a slow node. What cannot be told is `unclear`.

`busbw = size / time * 2 (n-1) / n`, as nccl-tests defines it, with n the ranks of both nodes.

## What is called slow

The rounds are played again, in another order, as long as something looks slow, at most `--repeats`
times. The best repeat of a pair counts, compared with the best repeat of the typical pair (the
lower quartile, so that many slow pairs do not hide themselves). It is slow above `--slower` times
that, and above what the same pair differs by from repeat to repeat: the largest such ratio, or the
99th percentile of many. So noise accuses nobody; it raises the limit, which the table shows as
`slow from`. A pair is fast below the square root of the limit.

## What is timed

One all_reduce over the ranks of both nodes, from a synchronized device to a synchronized device, by
the host clock; the median of `--num-iterations`. Each pair has a process group of its own, so no
rank holds more than one communicator. Not timed: making the group, filling the buffer, warm-up, and
checking the sums.

## How to run

    # one machine: each rank counts as a node
    python node_pairs.py --ranks 8
    # Slurm
    export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
    srun --ntasks-per-node 8 --gpus-per-node 8 --kill-on-bad-exit=0 \
        python node_pairs.py --ranks-per-node 8 --rounds 4 --json pairs.json
    # pdsh
    pdsh -w node[01-16] 'torchrun --nnodes 16 --nproc-per-node 8 --rdzv-backend c10d --rdzv-id 1 \
        --rdzv-endpoint node01:29500 /shared/node_pairs.py'
    # without a cluster
    python node_pairs.py --simulate 4096 --rounds 4 --slow-node 17:2 --slow-link 100-2000:3

Ranks are counted node by node. `--rounds 4` finds slow nodes in a cluster of any size, but sees
only 4 of N-1 links of each node. A signal to rank 0 ends the run after its round.

## A good answer

No slow node, no slow link, and `slow from` 1.2. Take a slow node out and run the rest again. Of a
slow link, look at cable, port and switch (ib_report.py). If a third of the pairs is slow and no
node is, the network has two speeds: near and far, or one rail of several.

Exit status: 0 nothing is slow; 1 something is slow, dead or wrong, or a signal; 2 wrong use.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import itertools
import json
import math
import os
import random
import re
import socket
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, positive_float, positive_int, size, start
from kit.device import choose_device, describe_run, import_torch, synchronize
from kit.ranks import (
    Place,
    add_rank_options,
    choose_backend,
    exit_status,
    first_line,
    place_or_launch,
)
from kit.report import Report, Row, format_seconds, format_table
from kit.stats import scaled, summarize
from kit.stop import Stop, Stopped

__version__ = "0.2.0"
METHOD = 2  # 2: slow is what every repeat of the tournament shows, and more than repeats differ by

PROFILES = {
    "demo": ["--device", "cpu", "--ranks", "4", "--size", "256K", "--num-iterations", "5"],
    "full": ["--size", "256M"],
}
RANKS = {"demo": 4, "full": "accelerators"}
GPUS = {"full": 8}
UNITS = {
    **dict.fromkeys(("repeat", "round", "node_a", "node_b", "samples", "spread", "drift"), "1"),
    **dict.fromkeys([f"seconds_{s}" for s in ("median", "mean", "iqr", "min", "max")], "s"),
    "busbw_bytes_per_second": "B/s",
    "times_typical": "1",
}
DEFAULT_SIZE = {"cpu": 4 * 1024**2, "accelerator": 256 * 1024**2}
WARMUP_ITERATIONS = 2
TYPICAL_SHARE = 0.25
NOISE_SHARE = 0.99
FAST_SHARE = 0.25
"""A node is cleared where at least this share of its pairs is fast."""
BLAMING_PARTNERS = 2
LISTED_PAIRS = 60
ARRIVAL_SECONDS = 300.0
GLOO_CONNECT_TIMEOUTS = 5
"""gloo waits this many times its timeout for a connection."""

Pair = tuple[int, int]


def find_opponent(nodes: int, number: int, node: int) -> int | None:
    """Whom a node meets in a round of the circle method; None where it rests."""
    even = nodes + nodes % 2
    if node == even - 1:
        opponent = number
    else:
        opponent = (2 * number - node) % (even - 1)
        if opponent == node:
            opponent = even - 1
    return opponent if opponent < nodes else None


def make_round(nodes: int, number: int) -> list[Pair]:
    """The pairs of a round, the smaller node first."""
    opponents = ((node, find_opponent(nodes, number, node)) for node in range(nodes))
    return [(node, other) for node, other in opponents if other is not None and node < other]


def order_rounds(nodes: int, wanted: int | None, repeat: int) -> list[int]:
    """The numbers of the rounds of a repeat: the same in every repeat, in another order."""
    whole = nodes - 1 + nodes % 2
    # Evenly spaced rounds can split the nodes into groups that never meet; drawn ones hardly do.
    chosen = random.Random(1).sample(range(whole), min(wanted or whole, whole))
    random.Random(repeat).shuffle(chosen)
    return chosen


@dataclass
class Judgement:
    """What is slow or dead. Factors are relative to the typical pair; infinite for no answer."""

    typical: list[float] = field(default_factory=list)
    """Seconds of the typical pair, per repeat."""
    limit: float = 1.0
    """Slow is what takes longer than this many times the typical pair."""
    looks_slow: bool = False
    """Whether the repeats so far leave anything slow, noise aside."""
    slow_pairs: dict[Pair, float] = field(default_factory=dict)
    nodes: dict[int, float] = field(default_factory=dict)
    links: dict[Pair, float] = field(default_factory=dict)
    unclear: dict[Pair, float] = field(default_factory=dict)


def find_typical(values: Sequence[float]) -> float:
    """The lower quartile of the finite values; 1 where there are none."""
    finite = sorted(value for value in values if value < math.inf)
    return finite[int(TYPICAL_SHARE * (len(finite) - 1))] if finite else 1.0


def judge(times: dict[Pair, list[float]], slower: float) -> Judgement:
    """Which nodes and links are slow, from the seconds of each pair in each repeat.

    Infinite seconds are no answer; a pair that was not tried in a repeat is not in `times` at all,
    or has fewer repeats than the others.
    """
    judgement = Judgement()
    for repeat in range(max(map(len, times.values()), default=0)):
        column = [values[repeat] for values in times.values() if len(values) > repeat]
        judgement.typical.append(find_typical(column))
    factors = {
        pair: [value / typical for value, typical in zip(values, judgement.typical, strict=False)]
        for pair, values in times.items()
    }
    differences = sorted(max(f) / min(f) for f in factors.values() if max(f) < math.inf)
    noise = differences[math.ceil(NOISE_SHARE * len(differences)) - 1] if differences else 1.0
    judgement.limit = max(slower, noise)
    best = {pair: min(values) for pair, values in factors.items()}
    base = find_typical(list(best.values()))
    best = {pair: factor / base for pair, factor in best.items()}
    judgement.looks_slow = any(slower < factor < math.inf for factor in best.values())
    if len(judgement.typical) < 2:  # no answer twice is enough
        judgement.looks_slow = any(factor > slower for factor in best.values())
    judgement.slow_pairs = {
        pair: factor
        for pair, factor in best.items()
        if factor > judgement.limit and len(times[pair]) > 1  # one repeat accuses nobody
    }
    blame(judgement, best)
    return judgement


def blame(judgement: Judgement, best: dict[Pair, float]) -> None:
    """Give each slow pair its reason: a node, the link, or neither can be told."""
    is_fast: dict[int, list[bool]] = {}
    for pair, factor in best.items():
        for node in pair:
            is_fast.setdefault(node, []).append(factor <= math.sqrt(judgement.limit))
    cleared = {n for n, fast in is_fast.items() if sum(fast) >= max(1, FAST_SHARE * len(fast))}
    evidence: dict[int, list[float]] = {}
    for pair, factor in judgement.slow_pairs.items():
        for node, other in (pair, pair[::-1]):
            if node not in cleared and other in cleared:
                evidence.setdefault(node, []).append(factor)
    judgement.nodes = {
        node: statistics.median_low(factors)
        for node, factors in evidence.items()
        if len(factors) >= BLAMING_PARTNERS
    }
    for pair, factor in judgement.slow_pairs.items():
        if not judgement.nodes.keys() & set(pair):
            found = judgement.links if set(pair) <= cleared else judgement.unclear
            found[pair] = factor


MeasureRound = Callable[[int, list[Pair]], dict[Pair, dict[str, Any]]]
"""Measures the pairs of a round, given its number: `seconds_median` and more, or `failure`."""


def play(
    measure_round: MeasureRound, nodes: int, options: argparse.Namespace, report: Report
) -> None:
    """Play the tournament until nothing looks slow, or all repeats are done, into the report."""
    for repeat in range(options.repeats):
        for number in order_rounds(nodes, options.rounds, repeat):
            for (a, b), row in measure_round(number, make_round(nodes, number)).items():
                place = {"repeat": repeat, "round": number, "node_a": a, "node_b": b}
                report.rows.append({**place, **row})
            report.save(force=False)
        if not judge(collect_times(report.rows), options.slower).looks_slow:
            break
    report.complete = True


def collect_times(rows: Sequence[Row]) -> dict[Pair, list[float]]:
    """The seconds of each pair in each repeat; infinite where it did not answer."""
    times: dict[Pair, list[float]] = {}
    for row in rows:
        seconds = row.get("seconds_median") or math.inf
        times.setdefault((row["node_a"], row["node_b"]), []).append(seconds)
    return times


def list_found(judgement: Judgement) -> list[tuple[str, Any, float]]:
    """What is slow, dead or unclear, which node or pair, and by what factor; the worst first."""
    found = [("node", one, factor) for one, factor in judgement.nodes.items()]
    found += [("link", one, factor) for one, factor in judgement.links.items()]
    named = [(f"{'dead' if math.isinf(f) else 'slow'} {kind}", one, f) for kind, one, f in found]
    named += [("unclear", one, factor) for one, factor in judgement.unclear.items()]
    return sorted(named, key=lambda entry: -entry[2])


def finish(report: Report, nodes: int, slower: float, hosts: dict[int, str]) -> bool:
    """Judge, print tables and notes; True where nothing is slow and all sums are right."""
    times = collect_times(report.rows)
    judgement = judge(times, slower)
    found = list_found(judgement)
    kinds = {one: kind for kind, one, _ in found}
    for row in report.rows:
        pair = (row["node_a"], row["node_b"])
        names = [kinds[one] for one in (pair, *pair) if one in kinds]
        row["verdict"] = names[0] if pair in judgement.slow_pairs else "ok"
        seconds = row.get("seconds_median")
        row["times_typical"] = seconds and seconds / judgement.typical[row["repeat"]]
    for kind in ("slow node", "dead node", "slow link", "dead link", "unclear"):
        name = kind.replace(" ", "_") + "s" * (kind != "unclear")
        report.details[name] = sorted(one for what, one, _ in found if what == kind)
    report.details |= {"nodes": nodes, "slow_from_times_typical": judgement.limit}
    print_tables(report.rows, judgement, found, nodes, hosts)
    wrong = {(r["node_a"], r["node_b"]) for r in report.rows if r["failure"] == "wrong sums"}
    if wrong:
        report.note(f"WRONG SUMS between nodes {sorted(wrong)}")
    whole = nodes * (nodes - 1) // 2
    if len(times) < whole:
        report.note(f"{len(times)} of {whole} links were measured: a slow one among the others is "
                    "not found")  # fmt: skip
    if judgement.limit > max(2, slower):
        report.note(
            f"the same pair differs by a factor of up to {judgement.limit:.1f} from repeat to "
            "repeat, and what is less slow than that is not found: use a larger --size or more "
            "--num-iterations, with nothing else running"
        )
    if not judgement.nodes and 3 * len(judgement.slow_pairs) > len(times):
        report.note(
            f"{len(judgement.slow_pairs)} of {len(times)} links are slow and no node is: the "
            "network has two speeds (near and far nodes, one rail of several?)"
        )
    return not found and not wrong


def print_tables(
    rows: Sequence[Row],
    judgement: Judgement,
    found: Sequence[tuple[str, Any, float]],
    nodes: int,
    hosts: dict[int, str],
) -> None:
    """The run, what is slow or dead, and the pairs of a small run."""

    def name(one: int | Pair) -> str:
        numbers = [one] if isinstance(one, int) else one
        return " - ".join(f"{n} ({hosts[n]})" if n in hosts else str(n) for n in numbers)

    measured = hosts and any("seconds_median" in row for row in rows)
    shown = format_seconds(statistics.median(judgement.typical)) if measured else None
    counts = [sum(kind.endswith(what) for kind, _, _ in found) for what in ("node", "link")]
    seen = len({(row["node_a"], row["node_b"]) for row in rows})
    cells = (nodes, seen, len(judgement.typical), shown, f"{judgement.limit:.2f}", *counts)
    headings = ("nodes", "pairs", "repeats", "typical", "slow from", "bad nodes", "bad links")
    print(format_table(headings, [cells]))
    if found:
        blamed = [
            (name(one), kind, "no answer" if math.isinf(factor) else f"{factor:.2f}")
            for kind, one, factor in found
        ]
        print("\n" + format_table(("node or link", "verdict", "times typical"), blamed))
    if hosts and len(rows) <= LISTED_PAIRS:
        lines = [
            (
                row["repeat"],
                row["round"],
                name((row["node_a"], row["node_b"])),
                format_seconds(row["seconds_median"]) if "seconds_median" in row else None,
                scaled(row, "busbw_bytes_per_second", 1e9) if "seconds_median" in row else None,
                row["times_typical"] and f"{row['times_typical']:.2f}",
                row["failure"] or row["verdict"],
            )
            for row in rows
        ]
        headings = ("repeat", "round", "pair", "time", "busbw GB/s", "times typical", "verdict")
        print("\n" + format_table(headings, lines))


def draw(rows: Sequence[Row], nodes: int, path: str) -> None:
    """A heat map of all pairs, as SVG or PNG: the fastest repeat, in times of the typical."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    grid = [[math.nan] * nodes for _ in range(nodes)]
    for row in rows:
        for a, b in ((row["node_a"], row["node_b"]), (row["node_b"], row["node_a"])):
            grid[a][b] = min(row["times_typical"] or 100, grid[a][b] if grid[a][b] > 0 else 100)
    figure, axes = pyplot.subplots(figsize=(6.4, 5.2))
    image = axes.imshow(grid, origin="lower", cmap="magma_r", vmin=1)
    figure.colorbar(image, ax=axes, label="time, times the typical pair")
    axes.set(xlabel="node", ylabel="node")
    figure.savefig(path, bbox_inches="tight")


def simulate(options: argparse.Namespace) -> MeasureRound:
    """Draws seconds instead of measuring them; the slowest part of a pair decides."""
    slow, noise = dict(options.slow_node) | dict(options.slow_link), random.Random(1)

    def measure_round(_number: int, pairs: list[Pair]) -> dict[Pair, Row]:
        rows = {}
        for pair in pairs:
            factor = max(slow.get(part, 1.0) for part in (*pair, pair))
            seconds = factor * math.exp(noise.gauss(0, options.noise))
            answered = {"seconds_median": seconds} if seconds < math.inf else {}
            rows[pair] = {**answered, "failure": None if answered else "no answer"}
        return rows

    return measure_round


class Node:
    """A rank, and the store through which rank 0 calls the rounds."""

    def __init__(self, place: Place, options: argparse.Namespace) -> None:
        torch = self.torch = import_torch()
        self.place, self.options = place, options
        self.per_node = options.ranks_per_node or int(os.environ.get("LOCAL_WORLD_SIZE", 1))
        if self.per_node == place.size:  # one machine: each rank counts as a node
            self.per_node = 1
        self.nodes, self.node = place.size // self.per_node, place.rank // self.per_node
        if place.size % self.per_node or self.nodes < 3:
            text = f"{place.size} ranks with {self.per_node} per node"
            raise UsageError(f"{text}: needs at least 3 whole nodes, to compare a pair with others")
        self.device = choose_device(torch, options.device, place.local_rank)
        self.backend = choose_backend(torch, self.device)
        kind = "cpu" if self.device.type == "cpu" else "accelerator"
        count = (options.size or DEFAULT_SIZE[kind]) // 4
        self.buffer = torch.empty(max(1, count), device=self.device)
        self.gone: set[int] = set()
        self.calls = itertools.count()
        # A call that does not end raises after the timeout, instead of ending the process.
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
        self.store = torch.distributed.TCPStore(
            os.environ["MASTER_ADDR"],
            int(os.environ.get("MASTER_PORT", "29500")),
            is_master=place.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
            timeout=datetime.timedelta(seconds=ARRIVAL_SECONDS),
            wait_for_workers=False,
        )

    def measure_pair(self, pair: Pair, call: int) -> Row:
        """All ranks of both nodes run all_reduce: statistics of the seconds, or what failed."""
        dist = self.torch.distributed
        members = [node * self.per_node + i for node in pair for i in range(self.per_node)]
        rank, ranks = members.index(self.place.rank), len(members)
        share = GLOO_CONNECT_TIMEOUTS if self.backend == "gloo" else 1
        try:
            dist.init_process_group(
                self.backend,
                store=dist.PrefixStore(f"node_pairs/pair/{call}/{pair[0]}", self.store),
                rank=rank,
                world_size=ranks,
                timeout=datetime.timedelta(seconds=self.options.timeout / share),
            )
            seconds = []
            for _ in range(WARMUP_ITERATIONS + self.options.num_iterations):
                self.buffer.fill_(rank + 1)
                synchronize(self.torch, self.device)
                began = time.perf_counter()
                dist.all_reduce(self.buffer)
                synchronize(self.torch, self.device)
                seconds.append(time.perf_counter() - began)
            right = bool((self.buffer == ranks * (ranks + 1) // 2).all())
            dist.destroy_process_group()
        except RuntimeError as error:
            self.leave_broken_group()
            return {"failure": first_line(error)}
        if not right:
            return {"failure": "wrong sums"}
        row = summarize("seconds", seconds[WARMUP_ITERATIONS:])
        bus = self.buffer.nbytes * 2 * (ranks - 1) / ranks
        return {**row, "busbw_bytes_per_second": bus / row["seconds_median"], "failure": None}

    def leave_broken_group(self) -> None:
        """Make the next group independent of one that failed.

        torch numbers groups, and a group that failed keeps its number, so the next partner would
        look for other keys in the store. Ending a group of one resets the count.
        """
        dist = self.torch.distributed
        with contextlib.suppress(RuntimeError):
            if not dist.is_initialized():
                dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
            dist.destroy_process_group()

    def answer_calls(self) -> None:
        """As any rank but the first: measure in each round that is called, until the end."""
        call = 0
        while (order := json.loads(self.wait_for(f"call/{call}"))) is not None:
            self.take_part(order, call)
            call += 1
        self.store.set(f"node_pairs/bye/{self.place.rank}", "1")

    def take_part(self, order: dict[str, Any], call: int) -> None:
        """Measure with the partner of this round, if there is one, and send the answer."""
        opponent = find_opponent(self.nodes, order["round"], self.node)
        if opponent is None or {opponent, self.node} & set(order["gone"]):
            return
        row = self.measure_pair((min(self.node, opponent), max(self.node, opponent)), call)
        if self.place.rank % self.per_node == 0:
            self.store.set(f"node_pairs/answer/{call}/{self.node}", json.dumps(row))

    def wait_for(self, key: str, seconds: float = 1e6) -> str:
        """The value of a key of the store. Raises RuntimeError where it does not come in time."""
        self.store.wait([f"node_pairs/{key}"], datetime.timedelta(seconds=max(0.1, seconds)))
        return str(self.store.get(f"node_pairs/{key}").decode())

    def call_rounds(self, stop: Stop) -> MeasureRound:
        """As rank 0: a function that has all ranks play a round, and collects their answers."""

        def measure_round(number: int, pairs: list[Pair]) -> dict[Pair, Row]:
            stop.check()
            call = next(self.calls)
            order = {"round": number, "gone": sorted(self.gone)}
            self.store.set(f"node_pairs/call/{call}", json.dumps(order))
            deadline = time.monotonic() + 2 * self.options.timeout + 20
            self.take_part(order, call)
            rows = {}
            for pair in pairs:
                if not self.gone & set(pair):
                    answers = [self.collect(call, node, deadline) for node in pair]
                    rows[pair] = max(answers, key=lambda row: row.get("seconds_median", math.inf))
                elif not self.arrived >= set(pair):
                    rows[pair] = {"failure": "never arrived"}
            return rows

        return measure_round

    def collect(self, call: int, node: int, deadline: float) -> Row:
        """The answer of a node. One that sends none in time is left out of all later rounds."""
        try:
            text = self.wait_for(f"answer/{call}/{node}", deadline - time.monotonic())
        except RuntimeError:
            self.gone.add(node)
            return {"failure": "no answer"}
        row: Row = json.loads(text)
        return row

    def end_calls(self) -> None:
        """As rank 0: end the other ranks, and wait until they know: the store ends with this."""
        self.store.set(f"node_pairs/call/{next(self.calls)}", "null")
        ranks = range(1, self.place.size)
        with contextlib.suppress(RuntimeError):
            for rank in (rank for rank in ranks if rank // self.per_node not in self.gone):
                self.wait_for(f"bye/{rank}", 10)

    def collect_hosts(self) -> dict[int, str]:
        """As rank 0: the host of each node whose first rank arrives in time."""
        deadline = time.monotonic() + ARRIVAL_SECONDS
        hosts = {}
        for node in range(self.nodes):
            with contextlib.suppress(RuntimeError):
                key = f"host/{node * self.per_node}"
                hosts[node] = self.wait_for(key, deadline - time.monotonic())
        self.arrived = set(hosts)
        self.gone = set(range(self.nodes)) - self.arrived
        return hosts


def run_rank(place: Place, options: argparse.Namespace, stop: Stop, report: Report) -> bool:
    """Play the tournament as one of the ranks; True where rank 0 finds nothing slow."""
    node = Node(place, options)
    node.store.set(f"node_pairs/host/{place.rank}", socket.gethostname())
    if place.rank:
        node.answer_calls()
        return True
    hosts = node.collect_hosts()
    report.details["header"] = describe_run(
        node.torch, node.device, backend=node.backend, ranks=place.size
    )
    if options.names:
        report.details["hosts"] = hosts
    try:
        play(node.call_rounds(stop), node.nodes, options, report)
    except Stopped as stopped:
        report.note(f"{stopped}: judged by the rounds before that")
    node.end_calls()
    usable = finish(report, node.nodes, options.slower, hosts)
    if node.gone:
        report.note(f"nodes {sorted(node.gone)} did not arrive, or stopped to answer")
    if options.plot and report.rows:
        draw(report.rows, node.nodes, options.plot)
    return usable and not node.gone


def fault(text: str) -> tuple[int | Pair, float]:
    """A node or a link and how slow it is: `17:2`, `17:dead`, `100-2000:3`."""
    found = re.fullmatch(r"(\d+)(?:-(\d+))?:(dead|\d+(?:\.\d+)?)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"'{text}': write 17:2, 17:dead or 100-2000:3")
    first, second = int(found[1]), int(found[2] or found[1])
    factor = math.inf if found[3] == "dead" else float(found[3])
    return (min(first, second), max(first, second)) if found[2] else first, factor


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(
        __doc__, tool="node_pairs", version=__version__, method=METHOD, demo=PROFILES["demo"]
    )
    add = parser.add_argument
    # fmt: off
    add("--ranks-per-node", type=positive_int, metavar="N",
        help="ranks per node (default: what torchrun says, else 1)")
    add("--rounds", type=positive_int, metavar="K", help="rounds per repeat (default: all)")
    add("--repeats", type=positive_int, default=5, metavar="N",
        help="play all rounds up to N times, while something looks slow (default: 5)")
    add("--slower", type=positive_float, default=1.2, metavar="FACTOR",
        help="a pair is slow above this many times the typical time (default: 1.2)")
    add("--size", type=size, help="buffer per rank (default: 256MiB, on a CPU 4MiB)")
    add("--num-iterations", type=positive_int, default=10, metavar="N",
        help="samples per pair and repeat (default: 10)")
    add("--names", action="store_true", help="host names in the JSON too")
    add("--plot", metavar="PATH", help="heat map of all pairs as SVG or PNG")
    add("--simulate", type=positive_int, metavar="N", help="draw the times of N nodes at random")
    add("--slow-node", type=fault, action="append", default=[], metavar="NODE:FACTOR",
        help="a simulated fault; FACTOR may be dead")
    add("--slow-link", type=fault, action="append", default=[], metavar="NODE-NODE:FACTOR",
        help="a simulated fault between two nodes")
    add("--noise", type=float, default=0.02, metavar="SHARE",
        help="standard deviation of the simulated times (default: 0.02)")
    # fmt: on
    add_rank_options(parser)
    parser.set_defaults(timeout=60.0)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    options = build_parser().parse_args(arguments)
    if options.repeats < 2:
        raise UsageError("--repeats: one measurement cannot accuse anybody; use 2 or more")
    place = Place(0, 1, 0) if options.simulate else place_or_launch(options, arguments, 3)
    if isinstance(place, int):
        return place
    path = options.json if place.rank == 0 else None
    report = Report("node_pairs", __version__, METHOD, UNITS, path)
    stop = Stop(options.budget)
    stop.listen(quiet=place.rank > 0)
    if options.simulate:
        play(simulate(options), options.simulate, options, report)
        usable = finish(report, options.simulate, options.slower, {})
    else:
        usable = run_rank(place, options, stop, report)
    return exit_status(report, stop, usable=usable)


if __name__ == "__main__":
    start(main)
