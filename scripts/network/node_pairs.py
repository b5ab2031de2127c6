#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Which node, or which link between two nodes, is slow or dead?

One slow node or one bad cable slows the collectives of a whole job, and a benchmark over all nodes
only shows that something is slow. This tool measures pairs of nodes in a round-robin tournament: in
each round all pairs run all_reduce at the same time, then the partners change.

## What is called slow

A pair is as fast as the slowest of three: node a, node b, and the link between them. A fast pair
therefore clears both nodes. A slow pair of two cleared nodes is a slow link. A node that nothing
clears, slow with at least two cleared partners, is a slow node. Everything else is `unclear`.

The rounds are repeated as long as something looks slow, at most `--repeats` times. The best repeat
of a pair counts, compared with the typical pair (the lower quartile). It is slow above `--slower`
times that, and above what the same pair differs by from repeat to repeat (the 99th percentile of
that ratio). So noise blames no node; it raises the limit, which the table shows as `slow from`.

## What is timed

One all_reduce over the ranks of both nodes, from a synchronized device to a synchronized device, by
the host clock; the median of `--num-iterations`. `busbw = size / time * 2 (n-1) / n`, with n the
ranks of both nodes. Not timed: making the group, filling the buffer, and checking the sums.

## How to run

    # one machine: each rank counts as a node
    python node_pairs.py --ranks 8
    # Slurm
    export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
    srun --ntasks-per-node 8 --gpus-per-node 8 --kill-on-bad-exit=0 \
        python node_pairs.py --ranks-per-node 8 --rounds 4 --json pairs.json
    # without a cluster
    python node_pairs.py --simulate 4096 --rounds 4 --slow-node 17:2 --slow-link 100-2000:3

Ranks are counted node by node. `--rounds 4` finds slow nodes in a cluster of any size, but sees
only 4 of N-1 links of each node. A signal to rank 0 ends the run after its round.

## A good answer

No slow node, no slow link, and `slow from` 1.2. Take a slow node out and run the rest again. For a
slow link, check cable, port and switch (ib_report.py). Many slow pairs without a slow node are a
network of two speeds: near and far, or one rail of several.

Exit status: 0 nothing is slow; 1 something is slow, dead or wrong, or a signal; 2 usage error.
"""

import argparse
import contextlib
import datetime
import functools
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
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, positive_float, positive_int, size, start
from kit.device import choose_device, describe_run, import_torch, synchronize
from kit.plot import draw_map
from kit.ranks import (
    Place,
    add_rank_options,
    choose_backend,
    exit_status,
    first_line,
    open_store,
    place_or_launch,
)  # fmt: skip
from kit.report import Report, Row, format_seconds, format_table
from kit.stats import summarize
from kit.stop import Stop, Stopped

__version__ = "0.2.0"
METHOD = 2  # 2: slow is what every repeat of the tournament shows, and more than repeats differ by

PROFILES = {
    "demo": ["--device", "cpu", "--ranks", "4", "--size", "256K", "--num-iterations", "5"],
    "full": ["--size", "256M"],
}
RANKS = {"demo": 4, "full": "accelerators"}
GPUS = {"full": 8}
WARMUP_ITERATIONS = 2
TYPICAL_SHARE = 0.25
NOISE_SHARE = 0.99
FAST_SHARE = 0.25
"""A node is cleared where at least this share of its pairs is faster than the root of the limit."""
BLAMING_PARTNERS = 2
SIMULATED_NOISE = 0.02
ARRIVAL_SECONDS = 300.0
GLOO_CONNECT_TIMEOUTS = 5
"""gloo waits this many times its timeout for a connection."""

Pair = tuple[int, int]


def make_round(nodes: int, number: int) -> list[Pair]:
    """The pairs of a round of the circle method, the smaller node first; an odd one rests."""
    last = nodes - 1 + nodes % 2
    pairs = [(number, last)]
    pairs += [((number + i) % last, (number - i) % last) for i in range(1, (last + 1) // 2)]
    return [(min(pair), max(pair)) for pair in pairs if max(pair) < nodes]


def order_rounds(nodes: int, wanted: int | None, repeat: int) -> list[int]:
    """The numbers of the rounds of a repeat: the same in every repeat, in another order."""
    whole = nodes - 1 + nodes % 2
    # Evenly spaced rounds can split the nodes into groups that never meet; drawn ones hardly do.
    chosen = random.Random(1).sample(range(whole), min(wanted or whole, whole))
    random.Random(repeat).shuffle(chosen)
    return chosen


class Judgement(NamedTuple):
    """Slow nodes, links and pairs: their time over the typical pair's, infinite if silent."""

    typical: list[float]
    """Seconds of the typical pair, per repeat."""
    limit: float
    """Slow is what takes longer than this many times the typical pair."""
    looks_slow: bool
    """Whether the repeats so far leave anything slow, noise aside."""
    nodes: dict[int, float]
    links: dict[Pair, float]
    unclear: dict[Pair, float]


def find_typical(values: Iterable[float | None]) -> float:
    """The lower quartile of the finite values; 1 without any."""
    finite = sorted(value for value in values if value is not None and value < math.inf)
    return finite[int(TYPICAL_SHARE * (len(finite) - 1))] if finite else 1.0


def judge(times: dict[Pair, list[float]], slower: float) -> Judgement:
    """Which nodes and links are slow, from the seconds of each pair in each repeat (infinite
    without an answer; the last repeat may lack pairs)."""
    typical = [find_typical(column) for column in itertools.zip_longest(*times.values())]
    factors = {
        pair: [value / base for value, base in zip(values, typical, strict=False)]
        for pair, values in times.items()
    }
    differences = sorted(max(f) / min(f) for f in factors.values() if max(f) < math.inf)
    noise = differences[math.ceil(NOISE_SHARE * len(differences)) - 1] if differences else 1.0
    limit = max(slower, noise)
    base = find_typical(min(values) for values in factors.values())
    best = {pair: min(values) / base for pair, values in factors.items()}
    doubts = [f for f in best.values() if f > slower and (f < math.inf or len(typical) < 2)]
    slow = {pair: f for pair, f in best.items() if f > limit and len(times[pair]) > 1}

    is_fast: dict[int, list[bool]] = {}
    for pair, factor in best.items():
        for node in pair:
            is_fast.setdefault(node, []).append(factor <= math.sqrt(limit))
    cleared = {n for n, fast in is_fast.items() if sum(fast) >= max(1, FAST_SHARE * len(fast))}
    evidence: dict[int, list[float]] = {}
    for pair, factor in slow.items():
        if len(accused := set(pair) - cleared) == 1:
            evidence.setdefault(accused.pop(), []).append(factor)
    nodes = {
        node: statistics.median_low(factors)
        for node, factors in evidence.items()
        if len(factors) >= BLAMING_PARTNERS
    }
    rest = {pair: factor for pair, factor in slow.items() if not nodes.keys() & set(pair)}
    links = {pair: factor for pair, factor in rest.items() if cleared.issuperset(pair)}
    unclear = {pair: factor for pair, factor in rest.items() if pair not in links}
    return Judgement(typical, limit, bool(doubts), nodes, links, unclear)


def play(
    measure_round: Callable[[int, list[Pair]], dict[Pair, Row]],
    nodes: int,
    options: argparse.Namespace,
    stop: Stop,
    report: Report,
) -> None:
    """Play the tournament until nothing looks slow, or all repeats are done, into the report."""
    try:
        for repeat in range(options.repeats):
            for number in order_rounds(nodes, options.rounds, repeat):
                stop.check()
                for (a, b), row in measure_round(number, make_round(nodes, number)).items():
                    place = {"repeat": repeat, "round": number, "node_a": a, "node_b": b}
                    report.rows.append({**place, "failure": None, **row})
                report.save(force=False)
            if not judge(collect_times(report.rows), options.slower).looks_slow:
                break
        report.complete = True
    except Stopped as stopped:
        report.note(f"{stopped}: judged by the rounds before that")


def collect_times(rows: Sequence[Row]) -> dict[Pair, list[float]]:
    """The seconds of each pair in each repeat; infinite where it did not answer."""
    times: dict[Pair, list[float]] = {}
    for row in rows:
        seconds = row.get("seconds_median") or math.inf
        times.setdefault((row["node_a"], row["node_b"]), []).append(seconds)
    return times


def finish(report: Report, nodes: int, options: argparse.Namespace, hosts: dict[int, str]) -> bool:
    """Judge, print tables and notes; True where nothing is slow and all sums are right."""
    times = collect_times(report.rows)
    judgement = judge(times, options.slower)
    failures: dict[str, set[Pair]] = {}
    for row in report.rows:
        if row["failure"]:
            failures.setdefault(row["failure"], set()).add((row["node_a"], row["node_b"]))
    typical = format_seconds(statistics.median(judgement.typical or [0]))
    cells = (nodes, len(times), len(judgement.typical), typical, f"{judgement.limit:.2f}")
    print(format_table(("nodes", "pairs", "repeats", "typical", "slow from"), [cells]))
    found: list[tuple[float, str, str]] = []
    for kind, verdict in (("nodes", "slow node"), ("links", "slow link"), ("unclear", "unclear")):
        ones = getattr(judgement, kind)
        report.details[f"slow_{kind}"] = sorted(ones)
        for one, factor in ones.items():
            numbers = (one,) if isinstance(one, int) else one
            name = " - ".join(f"{n} ({hosts[n]})" if n in hosts else str(n) for n in numbers)
            found.append((factor, name, verdict))
    if found:
        blamed = [
            (name, verdict, "no answer" if math.isinf(factor) else f"{factor:.2f}")
            for factor, name, verdict in sorted(found, reverse=True)
        ]
        print("\n" + format_table(("node or link", "verdict", "times typical"), blamed))
    for words, pairs in failures.items():
        report.note(f"{words}: {len(pairs)} pairs, such as {min(pairs)}")
    whole = nodes * (nodes - 1) // 2
    if len(times) < whole:
        report.note(f"{len(times)} of {whole} links were measured: a slow one among the others is "
                    "not found")  # fmt: skip
    if judgement.limit > max(2, options.slower):
        spread = f"repeats of a pair differ by up to {judgement.limit:.1f} times"
        report.note(f"{spread}; what is less slow is not found: larger --size or --num-iterations")
    if options.plot and times:
        best = {pair: min(values) for pair, values in times.items()}
        base = find_typical(best.values())
        factors = {pair: min(seconds / base, 100) for pair, seconds in best.items()}
        both = factors | {(b, a): factor for (a, b), factor in factors.items()}
        draw_map(options.plot, both, "node node", "time, times the typical pair")
    return not found and not failures


def simulate(
    slow: dict[int | Pair, float], noise: random.Random, _number: int, pairs: list[Pair]
) -> dict[Pair, Row]:
    """Draw seconds instead of measuring them; the slowest part of a pair decides."""
    rows: dict[Pair, Row] = {}
    for pair in pairs:
        factor = max(slow.get(part, 1.0) for part in (*pair, pair))
        seconds = factor * math.exp(noise.gauss(0, SIMULATED_NOISE))
        rows[pair] = {"failure": "no answer"} if factor == math.inf else {"seconds_median": seconds}
    return rows


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
        size_bytes = options.size or (4 if self.device.type == "cpu" else 256) * 1024**2
        self.buffer = torch.empty(size_bytes // 4, device=self.device)
        self.gone: set[int] = set()
        self.calls = itertools.count()
        # A call that does not end raises after the timeout, instead of ending the process.
        os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
        self.store = open_store(torch, place, "node_pairs", ARRIVAL_SECONDS)

    def measure_pair(self, pair: Pair, call: int) -> Row:
        """All ranks of both nodes run all_reduce: statistics of the seconds, or what failed."""
        dist = self.torch.distributed
        members = [node * self.per_node + i for node in pair for i in range(self.per_node)]
        rank, ranks = members.index(self.place.rank), len(members)
        share = GLOO_CONNECT_TIMEOUTS if self.backend == "gloo" else 1
        try:
            dist.init_process_group(
                self.backend,
                store=dist.PrefixStore(f"pair/{call}/{pair[0]}", self.store),
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
            # torch numbers groups, and one that failed keeps its number, so that the next partner
            # would look for other keys in the store. Ending a group of one resets the count.
            with contextlib.suppress(RuntimeError):
                if not dist.is_initialized():
                    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
                dist.destroy_process_group()
            return {"failure": first_line(error)}
        if not right:
            return {"failure": "wrong sums"}
        row = summarize("seconds", seconds[WARMUP_ITERATIONS:])
        bus = self.buffer.nbytes * 2 * (ranks - 1) / ranks
        return {**row, "busbw_bytes_per_second": bus / row["seconds_median"], "failure": None}

    def take_part(self, order: dict[str, Any], call: int) -> None:
        """Measure with the partner of this round, if there is one, and send the answer."""
        for pair in make_round(self.nodes, order["round"]):
            if self.node in pair and not set(order["gone"]) & set(pair):
                row = self.measure_pair(pair, call)
                if self.place.rank % self.per_node == 0:
                    self.store.set(f"answer/{call}/{self.node}", json.dumps(row))

    def wait_for(self, key: str, seconds: float = 1e6) -> str:
        """The value of a key of the store. Raises RuntimeError where it does not come in time."""
        self.store.wait([key], datetime.timedelta(seconds=max(0.1, seconds)))
        return str(self.store.get(key).decode())

    def call_round(self, number: int, pairs: list[Pair]) -> dict[Pair, Row]:
        """As rank 0: have all ranks play a round, and collect their answers. A node that sends
        none in time is left out of all later rounds."""
        call = next(self.calls)
        order = {"round": number, "gone": sorted(self.gone)}
        self.store.set(f"call/{call}", json.dumps(order))
        deadline = time.monotonic() + 2 * self.options.timeout + 20
        self.take_part(order, call)
        rows: dict[Pair, Row] = {}
        for pair in pairs:
            if self.gone & set(pair):
                continue
            answers = []
            for node in pair:
                try:
                    text = self.wait_for(f"answer/{call}/{node}", deadline - time.monotonic())
                    answers.append(json.loads(text))
                except RuntimeError:
                    self.gone.add(node)
                    answers.append({"failure": "no answer"})
            rows[pair] = max(answers, key=lambda row: row.get("seconds_median", math.inf))
        return rows


def run_rank(place: Place, options: argparse.Namespace, stop: Stop, report: Report) -> bool:
    """Play the tournament as one of the ranks; True where rank 0 finds nothing slow."""
    node = Node(place, options)
    node.store.set(f"host/{place.rank}", socket.gethostname())
    if place.rank:
        for call in itertools.count():
            if (order := json.loads(node.wait_for(f"call/{call}"))) is None:
                break
            node.take_part(order, call)
        node.store.set(f"bye/{place.rank}", "1")
        return True
    deadline, hosts = time.monotonic() + ARRIVAL_SECONDS, {}
    for one in range(node.nodes):
        try:
            hosts[one] = node.wait_for(f"host/{one * node.per_node}", deadline - time.monotonic())
        except RuntimeError:
            node.gone.add(one)
    report.details["header"] = describe_run(
        node.torch, node.device, backend=node.backend, ranks=place.size
    )
    play(node.call_round, node.nodes, options, stop, report)
    node.store.set(f"call/{next(node.calls)}", "null")
    with contextlib.suppress(RuntimeError):  # wait for all, because the store ends with this rank
        for rank in range(1, place.size):
            if rank // node.per_node not in node.gone:
                node.wait_for(f"bye/{rank}", 10)
    usable = finish(report, node.nodes, options, hosts)
    if node.gone:
        report.note(f"nodes {sorted(node.gone)} did not arrive, or stopped answering")
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
    parser = Parser(__doc__, "node_pairs", __version__, METHOD, PROFILES["demo"])
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
    add("--plot", metavar="PATH", help="heat map of all pairs as SVG or PNG")
    add("--simulate", type=positive_int, metavar="N", help="draw the times of N nodes at random")
    add("--slow-node", "--slow-link", dest="slow", type=fault, action="append", default=[],
        metavar="FAULT", help="a simulated fault: 17:2, 17:dead or 100-2000:3")
    # fmt: on
    add_rank_options(parser)
    parser.set_defaults(timeout=60.0)
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    if options.repeats < 2:
        raise UsageError("--repeats: a single measurement cannot blame a node; use 2 or more")
    place = Place(0, 1, 0) if options.simulate else place_or_launch(options, arguments, 3)
    report = Report("node_pairs", __version__, METHOD, options.json)
    stop = Stop(options.budget)
    stop.listen(quiet=place.rank > 0)
    if options.simulate:
        draw_round = functools.partial(simulate, dict(options.slow), random.Random(1))
        play(draw_round, options.simulate, options, stop, report)
        usable = finish(report, options.simulate, options, {})
    else:
        usable = run_rank(place, options, stop, report)
    return exit_status(report, stop, usable=usable)


if __name__ == "__main__":
    start(main)
