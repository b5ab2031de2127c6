#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Which node, or which link between two nodes, is slow or dead?

One slow node or one bad cable slows the collectives of a whole job, and a benchmark over all nodes
only says that something is. This tool measures pairs of nodes: in each round every node has one
partner, all pairs reduce a buffer at the same time, and the partners change from round to round
as in a tournament. From the times of the pairs follows who is to blame.

Physics
    The circle method gives N - 1 rounds of N / 2 disjoint pairs for an even number of nodes, and
    N rounds with one node resting for an odd one; every pair meets exactly once. In round r of an
    even N, node a meets (2 r - a) mod (N - 1), and node r meets node N - 1.
    A pair is as fast as the slowest of three: node a, node b, and what lies between them. So a
    fast pair clears both nodes. A slow pair of two cleared nodes is a slow link; a node that is
    slow with every partner that is cleared is a slow node; where nothing clears either of the
    two, the pair is named, to be run again.
    busbw = size / time * 2 (n - 1) / n, as nccl-tests defines it for all_reduce, with n the ranks
    of both nodes. Hand check: 1 GB in 10 ms between two ranks is 100 GBps.
What slow means
    The typical time is the median of the logarithms of the times of pairs that are not slow. A
    pair is slow that takes more than --slower times that (default 1.2), and more than the noise
    (1.4826 * MAD of the logarithms) explains for so many pairs, one false alarm in a hundred runs.
Few rounds
    With --rounds K each node is seen K times, in rounds drawn by --seed; K = 4 tells slow nodes in
    a cluster of any size, but sees only K in N - 1 of the links. --confirm adds a second stage:
    each suspect is run again with up to 3 known-good nodes, and each slow pair once more. What is
    not slow again is reported as passing, and not blamed. A pair of two cleared nodes that is slow
    again is a slow link, also where a node was suspected for it at first; one that is slow in the
    second stage alone is named, to be run again.
    4,096 nodes: at an estimated 2 s a round, 4 rounds are done in seconds, all 4,095 in more than
    two hours. --plan N and --simulate N try that out without any node.
What is timed
    One all_reduce over the ranks of both nodes, from a synchronised device to a synchronised
    device, by the clock of the host; the median of --num_iterations. Every pair has a process
    group of its own for the round, so no rank holds more than one communicator at a time.
What is not timed
    Making the group, filling the buffer, the warm-up, and the check of the sums.

How to run
    one machine     python node_pairs.py --ranks 8       each rank counts as a node
    torchrun        torchrun --nnodes 16 --nproc_per_node 8 --rdzv_backend c10d \
                        --rdzv_endpoint $HEAD:29500 node_pairs.py --confirm --json pairs.json
    Slurm           export MASTER_ADDR=$(scontrol show hostnames | head -1) MASTER_PORT=29500
                    srun --ntasks-per-node=8 --gpus-per-node=8 --kill-on-bad-exit=0 \
                        python node_pairs.py --ranks_per_node 8 --rounds 6 --confirm
    pdsh            pdsh -w node[01-16] 'torchrun --nnodes 16 --nproc_per_node 8 \
                        --rdzv_backend c10d --rdzv_endpoint node01:29500 /shared/node_pairs.py'
    dry             python node_pairs.py --plan 7
                    python node_pairs.py --simulate 4096 --rounds 4 --confirm \
                        --slow-node 17:2 --slow-link 100-2000:3 --noise 0.03
    Ranks are counted node by node. A node is a number here; the report adds its host name, the
    JSON only with --names. Ctrl-C, SIGTERM and SIGUSR1, in any rank, end the run after its round.

A good answer: no slow node, no slow link, and a spread of the typical pairs of a few percent. Take
a slow node out and run the rest again; of a slow link look at cable, port and switch (ib_report),
and whether other slow links share one. Where a third of the pairs is slow and no node is, the
network itself has two speeds: near and far, or one rail of several.

Seen running: gloo on CPUs, on one machine and between network namespaces with a slowed node, a
slowed link and a dead link. The code for accelerators follows PyTorch's documentation and has not
been run on one yet; a rank that hangs in a call for good takes no further part in the run.

Exit status: 0 done and nothing is slow, 1 something is slow, dead or wrong, or stopped by a
signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import importlib.util
import json
import math
import os
import queue
import random
import re
import signal
import socket
import statistics
import subprocess
import threading
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
# Ranks of one busy machine wait for each other: a toy run shows that it works, and accuses nobody.
PROFILES = {
    "toy": ["--toy", "--slower", "1000"],
    "full": ["--size", "256M", "--confirm"],
}
# Three have one resting each round, and as many rounds as pairs.
RANKS = {"toy": 3, "full": "accelerators"}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "round": "1",
    "node_a": "1",
    "node_b": "1",
    "samples": "1",
    "seconds_median": "s",
    "seconds_mean": "s",
    "seconds_iqr": "s",
    "seconds_min": "s",
    "seconds_max": "s",
    "spread": "1",
    "drift": "1",
    "busbw_bytes_per_second": "B/s",
    "times_typical": "1",
}

DEFAULT_SIZES = {"accelerator": 256 * 1024**2, "cpu": 4 * 1024**2, "toy": 256 * 1024}
DEFAULT_ITERATIONS = {"accelerator": 10, "cpu": 5, "toy": 5}
WARMUP_ITERATIONS = 2
DEFAULT_TIMEOUT_SECONDS = 60.0
TOY_RANKS = 3
# Backends that a kind of device talks through; gloo is for the rest.
BACKENDS = {"cuda": "nccl", "xpu": "xccl", "hpu": "hccl", "npu": "hccl"}

# How many false alarms a whole run may have where the noise is normal.
FALSE_ALARMS = 0.01
# A node is cleared where at least this share of its pairs is fast.
FAST_SHARE = 0.25
# So many slow pairs with cleared partners blame the node instead of the links.
BLAMING_PARTNERS = 2
# The reference is sought among the fastest: with few nodes one slow node slows half of all pairs.
REFERENCE_SHARE = 0.10
# Beyond so many pairs the reference is taken from a sample of them, evenly spread.
REFERENCE_PAIRS = 100_000
CONFIRM_PARTNERS = 3
# A node in more suspicious pairs than this is looked into as a node; the pairs follow from it.
CONFIRM_PAIRS = 3
# JSON and table hold no more ordinary pairs than this.
LISTED_PAIRS = 20_000
TWO_SPEEDS_SHARE = 1 / 3
QUARTILE_SAMPLES = 4
# What a round takes beside its reductions, for the estimate of --plan: making the groups.
ROUND_SECONDS = 2.0
JSON_EVERY_SECONDS = 30.0
# Nodes start a job, and import torch from a shared file system, minutes apart.
ARRIVAL_SECONDS = 300.0
FAREWELL_SECONDS = 10.0
# gloo waits so many times its timeout for a connection before it gives up.
GLOO_CONNECT_TIMEOUTS = 5

Row = dict[str, Any]
Pair = tuple[int, int]


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


class Stopped(Exception):
    """The run ends here, by a signal or by the budget; what was measured is kept."""


class StopSign:
    """Why the run has to end, if it has to: a signal, the budget, or the parent process."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.by_signal = False
        self.deadline: float | None = None

    def listen(self) -> None:
        """End the run on Ctrl-C, on SIGTERM, and on Slurm's early warning."""
        for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._receive)

    def _receive(self, number: int, _frame: Any) -> None:
        self.reason = f"stopped by {signal.Signals(number).name}"
        self.by_signal = True
        # A second signal of the same kind ends a run that hangs.
        signal.signal(number, signal.SIG_DFL)

    def check(self) -> None:
        """Raise Stopped where there is a reason to end."""
        if self.reason is None and self.deadline is not None and time.monotonic() > self.deadline:
            self.reason = "the budget is used up"
        if self.reason is not None:
            raise Stopped(self.reason)


def count_rounds(nodes: int) -> int:
    """Rounds of a whole tournament: N - 1, or N for an odd number, where one node rests."""
    return nodes - 1 if nodes % 2 == 0 else nodes


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
    pairs = []
    for node in range(nodes):
        opponent = find_opponent(nodes, number, node)
        if opponent is not None and node < opponent:
            pairs.append((node, opponent))
    return pairs


def choose_rounds(nodes: int, wanted: int | None, seed: int) -> list[int]:
    """Which rounds to play: all, or so many drawn by the seed, without one twice."""
    whole = count_rounds(nodes)
    if wanted is None or wanted >= whole:
        return list(range(whole))
    # Evenly spaced rounds can split the nodes into groups that never meet; drawn ones hardly do.
    return random.Random(seed).sample(range(whole), wanted)


class Trials:
    """Pairs that were measured, with the logarithms of their seconds; infinite where dead."""

    def __init__(self) -> None:
        self.rounds = array("l")
        self.first = array("l")
        self.second = array("l")
        self.logs = array("d")

    def add(self, number: int, pair: Pair, log_seconds: float) -> None:
        """One pair, in its round."""
        self.rounds.append(number)
        self.first.append(pair[0])
        self.second.append(pair[1])
        self.logs.append(log_seconds)

    def __len__(self) -> int:
        return len(self.logs)


class Typical(NamedTuple):
    """The pairs that are not slow: centre and spread of the logarithms, and where slow begins."""

    centre: float
    sigma: float
    line: float
    pairs: int

    @property
    def noise(self) -> float | None:
        """The spread as a share; None where one pair is all, which has nothing to differ from."""
        return math.exp(self.sigma) - 1 if self.pairs > 1 else None


def find_typical(logs: Sequence[float], slower: float, comparisons: int) -> Typical | None:
    """Centre and spread of ordinary pairs; None where no pair answered.

    It begins with the fastest tenth and takes in, again and again, what is not slow by its own
    measure, so that neither many slow pairs nor much noise lead it astray.
    """
    step = max(1, len(logs) // REFERENCE_PAIRS)
    ordered = sorted(value for value in logs[::step] if math.isfinite(value))
    if not ordered:
        return None
    margin = math.log(slower)
    deviations = statistics.NormalDist().inv_cdf(1 - FALSE_ALARMS / max(comparisons, 2))
    line = ordered[int(REFERENCE_SHARE * (len(ordered) - 1))] + margin
    typical = Typical(ordered[0], 0.0, line, 1)
    for _ in range(50):
        usual = [value for value in ordered if value <= typical.line]
        centre = statistics.median(usual)
        distances = [abs(value - centre) for value in usual]
        sigma = 1.4826 * statistics.median(distances)
        line = centre + max(margin, deviations * sigma)
        is_settled = abs(line - typical.line) < 1e-9
        typical = Typical(centre, sigma, line, len(usual))
        if is_settled:
            break
    return typical


@dataclass
class Judgement:
    """Who is to blame: nodes and pairs by what they are, and the pairs that were slow."""

    typical: Typical | None
    slow_nodes: dict[int, float] = field(default_factory=dict)
    dead_nodes: set[int] = field(default_factory=set)
    slow_links: dict[Pair, float] = field(default_factory=dict)
    dead_links: set[Pair] = field(default_factory=set)
    unclear: dict[Pair, float] = field(default_factory=dict)
    passing: dict[Pair, float] = field(default_factory=dict)
    cleared: set[int] = field(default_factory=set)
    slow_pairs: list[tuple[Pair, float]] = field(default_factory=list)
    is_confirmed: bool = False

    @property
    def has_blame(self) -> bool:
        """Whether anything is slow or dead."""
        found = (self.slow_nodes, self.dead_nodes, self.slow_links, self.dead_links, self.unclear)
        return any(found)


def judge_trials(trials: Trials, nodes: int, slower: float) -> Judgement:
    """Tell slow nodes from slow links, by the rule that a fast pair clears both of its nodes."""
    typical = find_typical(trials.logs, slower, len(trials))
    line = typical.line if typical else -math.inf
    degree, slow = [0] * nodes, [0] * nodes
    for node, count in Counter(trials.first).items():
        degree[node] += count
    for node, count in Counter(trials.second).items():
        degree[node] += count
    slow_pairs: list[tuple[Pair, float]] = []
    for index, value in enumerate(trials.logs):
        if value > line:
            pair = (trials.first[index], trials.second[index])
            slow_pairs.append((pair, value))
            slow[pair[0]] += 1
            slow[pair[1]] += 1
    judgement = Judgement(typical, slow_pairs=slow_pairs)
    judgement.cleared = {
        node
        for node in range(nodes)
        if degree[node] > slow[node] and degree[node] - slow[node] >= FAST_SHARE * degree[node]
    }
    blame_pairs(judgement)
    return judgement


def blame_pairs(judgement: Judgement) -> None:
    """Give each slow pair its reason: a node, the link, or neither can be told."""
    centre = judgement.typical.centre if judgement.typical else 0.0
    evidence: dict[int, list[float]] = {}
    for pair, value in judgement.slow_pairs:
        for node, other in (pair, pair[::-1]):
            if node not in judgement.cleared and other in judgement.cleared:
                evidence.setdefault(node, []).append(value)
    blamed = {node for node, values in evidence.items() if len(values) >= BLAMING_PARTNERS}
    for node in blamed:
        middle = statistics.median_low(evidence[node])
        if math.isinf(middle):
            judgement.dead_nodes.add(node)
        else:
            judgement.slow_nodes[node] = math.exp(middle - centre)
    for pair, value in judgement.slow_pairs:
        if blamed & set(pair):
            continue
        times = math.exp(value - centre) if math.isfinite(value) else math.inf
        if not set(pair) <= judgement.cleared:
            judgement.unclear[pair] = times
        elif math.isinf(value):
            judgement.dead_links.add(pair)
        else:
            judgement.slow_links[pair] = times


def match_disjoint(pairs: Sequence[Pair]) -> list[list[Pair]]:
    """The pairs in as few rounds as going through them once gives, no node twice in a round."""
    rounds: list[list[Pair]] = []
    busy: list[set[int]] = []
    for pair in pairs:
        for members, taken in zip(rounds, busy, strict=True):
            if not taken & set(pair):
                members.append(pair)
                taken.update(pair)
                break
        else:
            rounds.append([pair])
            busy.append(set(pair))
    return rounds


def plan_confirmation(judgement: Judgement, seed: int) -> list[list[Pair]]:
    """The second stage: suspects with known-good nodes, and suspicious pairs once more.

    Empty where nothing is suspicious, or where no node is known to be good.
    """
    suspicious = [*judgement.slow_links, *judgement.dead_links, *judgement.unclear]
    counts = Counter(node for pair in suspicious for node in pair)
    nodes = sorted({*judgement.slow_nodes, *judgement.dead_nodes, *counts})
    # A partner should have nothing to do with any suspicion.
    good = sorted(judgement.cleared - set(nodes))
    if not nodes or not good:
        return []
    random.Random(seed).shuffle(good)
    again = [pair for pair in suspicious if all(counts[node] <= CONFIRM_PAIRS for node in pair)]
    wanted = []
    for turn in range(min(CONFIRM_PARTNERS, len(good))):
        for place, node in enumerate(nodes):
            partner = good[(place + turn * max(1, len(good) // CONFIRM_PARTNERS)) % len(good)]
            wanted.append((min(node, partner), max(node, partner)))
    return match_disjoint([*again, *dict.fromkeys(wanted)])


def confirm_judgement(first: Judgement, trials: Trials) -> Judgement:
    """The judgement after the second stage: what was slow again is blamed, the rest has passed.

    A pair that was slow in the second stage alone is unclear: it was slow when last seen, once.
    """
    assert first.typical is not None
    centre, line = first.typical.centre, first.typical.line
    with_good: dict[int, list[float]] = {}
    again: dict[Pair, float] = {}
    suspicious = {*first.slow_links, *first.dead_links, *first.unclear}
    suspects = {*first.slow_nodes, *first.dead_nodes, *(n for pair in suspicious for n in pair)}
    for index, value in enumerate(trials.logs):
        pair = (trials.first[index], trials.second[index])
        again[pair] = value
        if pair not in suspicious:
            (node,) = suspects & set(pair)
            with_good.setdefault(node, []).append(value)
    result = Judgement(first.typical, cleared=set(first.cleared), slow_pairs=first.slow_pairs)
    result.is_confirmed = True
    for node, values in with_good.items():
        middle = statistics.median_low(values)
        if math.isinf(middle):
            result.dead_nodes.add(node)
        elif middle > line:
            result.slow_nodes[node] = math.exp(middle - centre)
        else:
            result.cleared.add(node)
            continue
        result.cleared.discard(node)
    # Of a node that was not run again, because the run was stopped, the first blame is what is
    # known.
    result.dead_nodes |= first.dead_nodes - with_good.keys()
    result.slow_nodes |= {n: t for n, t in first.slow_nodes.items() if n not in with_good}
    blamed = {*result.slow_nodes, *result.dead_nodes}
    slow_before = dict(first.slow_pairs)
    slow_again = {pair for pair, value in again.items() if value > line}
    # Every pair that was slow in one of the stages gets its reason, so that none is lost where a
    # node that was blamed for it is cleared.
    for pair in [*slow_before, *sorted(slow_again - slow_before.keys())]:
        if blamed & set(pair):
            continue
        last = again.get(pair)
        if last is None and pair in suspicious:
            # Its nodes are in many such pairs: what is known of it is the first measurement.
            last = slow_before[pair]
        if last is None or last <= line:
            result.passing[pair] = math.exp(slow_before[pair] - centre)
        elif pair not in slow_before or not set(pair) <= result.cleared:
            result.unclear[pair] = math.exp(last - centre)
        elif math.isinf(last):
            result.dead_links.add(pair)
        else:
            result.slow_links[pair] = math.exp(last - centre)
    return result


def summarise_samples_of(name: str, samples: Sequence[float]) -> Row:
    """`NAME_median`, mean, iqr, min and max of the samples, their number, spread and drift.

    The quartiles are those of linear interpolation between the samples (numpy's default); fewer
    than QUARTILE_SAMPLES samples have none, so IQR and spread are None. `spread` is the IQR over
    the median. `drift` is the median of the second half over that of the first half, less one.
    """
    ordered = sorted(samples)
    median = statistics.median(ordered)
    iqr = None
    if len(ordered) >= QUARTILE_SAMPLES:
        low, _, high = statistics.quantiles(ordered, n=4, method="inclusive")
        iqr = high - low
    half = len(samples) // 2
    drift = None
    if half >= 5 and statistics.median(samples[:half]) > 0:
        drift = statistics.median(samples[-half:]) / statistics.median(samples[:half]) - 1
    return {
        "samples": len(ordered),
        f"{name}_median": median,
        f"{name}_mean": statistics.fmean(ordered),
        f"{name}_iqr": iqr,
        f"{name}_min": ordered[0],
        f"{name}_max": ordered[-1],
        "spread": iqr / median if iqr is not None and median > 0 else None,
        "drift": drift,
    }


NO_SAMPLES: Row = {
    "samples": 0,
    **dict.fromkeys(f"seconds_{name}" for name in ("median", "mean", "iqr", "min", "max")),
    "spread": None,
    "drift": None,
}


class PairResult(NamedTuple):
    """What became of a pair in a round: seconds, or why there are none."""

    seconds: tuple[float, ...]
    failure: str | None = None


class Simulation:
    """Times of a cluster that does not exist: noise, slow nodes, slow links, dead ones."""

    def __init__(
        self,
        slow_nodes: Mapping[int, float],
        slow_links: Mapping[Pair, float],
        noise: float,
        seed: int,
    ) -> None:
        self.slow_nodes = slow_nodes
        self.slow_links = slow_links
        self.noise = noise
        self.random = random.Random(seed)
        self.log_nodes = {node: math.log(factor) for node, factor in slow_nodes.items()}
        self.log_links = {pair: math.log(factor) for pair, factor in slow_links.items()}

    def draw(self, pair: Pair) -> float:
        """Logarithm of the time of a pair, in units of the typical: the slowest part decides."""
        log = self.random.gauss(0.0, self.noise)
        if self.log_nodes or self.log_links:
            a, b = pair
            log += max(
                self.log_nodes.get(a, 0.0),
                self.log_nodes.get(b, 0.0),
                self.log_links.get(pair, 0.0),
            )
        return log


class Tournament:
    """A run: its trials, the rows of the JSON, and the judgement in the end."""

    def __init__(self, nodes: int, size: int, ranks_per_pair: int, slower: float) -> None:
        self.nodes = nodes
        self.size = size
        self.ranks_per_pair = ranks_per_pair
        self.slower = slower
        self.trials = Trials()
        self.second_stage = Trials()
        self.results: dict[tuple[int, Pair], PairResult] = {}
        self.judgement: Judgement | None = None
        self.rounds_played = 0
        self.rounds_planned = 0
        self.failures: list[str] = []
        self.caveats: list[str] = []
        self.complete = False

    def record(self, number: int, pair: Pair, result: PairResult, is_second: bool) -> None:
        """Take in what a pair has measured."""
        self.results[number, pair] = result
        trials = self.second_stage if is_second else self.trials
        if result.seconds:
            trials.add(number, pair, math.log(statistics.median(result.seconds)))
        elif result.failure != "not tried":
            trials.add(number, pair, math.inf)

    def judge(self) -> Judgement:
        """The judgement of what is there, after the second stage if there was one."""
        judgement = judge_trials(self.trials, self.nodes, self.slower)
        if len(self.second_stage) and judgement.typical is not None:
            judgement = confirm_judgement(judgement, self.second_stage)
        self.judgement = judgement
        return judgement

    def make_rows(self) -> list[Row]:
        """A row for each pair of each round; of very many pairs, those that are not ok."""
        judgement = self.judgement or self.judge()
        rows: list[Row] = []
        seen: set[int] = set()
        for trials, stage in ((self.trials, "tournament"), (self.second_stage, "confirmation")):
            short = len(trials) > LISTED_PAIRS
            line = judgement.typical.line if judgement.typical else -math.inf
            for index, value in enumerate(trials.logs):
                if short and value <= line:
                    continue
                number = trials.rounds[index]
                pair = (trials.first[index], trials.second[index])
                seen.add(number)
                rows.append(self.make_row(number, stage, pair, value, judgement))
        return rows

    def make_row(
        self, number: int, stage: str, pair: Pair, value: float, judgement: Judgement
    ) -> Row:
        """One pair of one round."""
        result = self.results.get((number, pair))
        seconds = result.seconds if result else ()
        samples = summarise_samples_of("seconds", seconds) if seconds else dict(NO_SAMPLES)
        median = samples["seconds_median"]
        ratio = None
        if judgement.typical is not None and math.isfinite(value):
            ratio = math.exp(value - judgement.typical.centre)
        factor = 2 * (self.ranks_per_pair - 1) / self.ranks_per_pair
        return {
            "round": number,
            "stage": stage,
            "node_a": pair[0],
            "node_b": pair[1],
            **samples,
            "busbw_bytes_per_second": self.size / median * factor if median else None,
            "times_typical": ratio,
            "verdict": name_pair_verdict(pair, value, judgement),
            "failure": result.failure if result else None,
        }


def name_pair_verdict(pair: Pair, value: float, judgement: Judgement) -> str:
    """What a pair's time says, in the light of all others."""
    if judgement.typical is not None and value <= judgement.typical.line:
        return "ok"
    if judgement.dead_nodes & set(pair):
        return "dead node"
    if set(judgement.slow_nodes) & set(pair):
        return "slow node"
    if pair in judgement.dead_links:
        return "dead link"
    if pair in judgement.slow_links:
        return "slow link"
    if pair in judgement.passing:
        return "passing"
    return "no answer" if math.isinf(value) else "unclear"


def play_simulation(
    tournament: Tournament,
    simulation: Simulation,
    rounds: Sequence[int],
    stop: StopSign,
    confirm: bool,
    seed: int,
) -> None:
    """Both stages with times drawn instead of measured. Raises Stopped on a signal."""
    trials, draw = tournament.trials, simulation.draw
    for number in rounds:
        stop.check()
        for pair in make_round(tournament.nodes, number):
            trials.add(number, pair, draw(pair))
        tournament.rounds_played += 1
    judgement = judge_trials(trials, tournament.nodes, tournament.slower)
    if confirm:
        for turn, pairs in enumerate(plan_confirmation(judgement, seed)):
            for pair in pairs:
                tournament.second_stage.add(len(rounds) + turn, pair, draw(pair))
    tournament.judge()
    tournament.complete = True


class Bench:
    """What a rank needs to measure with its partners: device, buffer, store. Lives in a thread."""

    def __init__(self, options: argparse.Namespace, place: Place) -> None:
        torch = import_torch()
        self.torch, self.dist = torch, torch.distributed
        self.options = options
        self.place = place
        name = "cpu" if options.toy and options.device is None else options.device
        self.device = choose_device(torch, name, place.local_rank)
        self.backend = options.backend or BACKENDS.get(self.device.type, "gloo")
        share = GLOO_CONNECT_TIMEOUTS if self.backend == "gloo" else 1
        self.group_timeout = datetime.timedelta(seconds=options.timeout / share)
        self.store = open_pair_store(self.dist, place, is_host=False)
        size, self.iterations = choose_amounts(options, self.device.type)
        self.buffer = torch.empty(max(1, size // 4), dtype=torch.float32, device=self.device)

    def synchronise(self) -> None:
        """Wait for the device; a CPU has nothing to wait for."""
        if self.device.type != "cpu":
            self.torch.accelerator.synchronize(self.device)

    def measure(self, number: int, pair: Pair) -> PairResult:
        """All ranks of both nodes reduce the buffer; the seconds of each time, or what failed."""
        per_node, dist = self.place.ranks_per_node, self.dist
        members = [node * per_node + i for node in pair for i in range(per_node)]
        rank = members.index(self.place.rank)
        try:
            # A group of this pair alone: no rank keeps communicators of partners it had before,
            # and a partner that does not answer harms no other pair.
            dist.init_process_group(
                self.backend,
                store=dist.PrefixStore(f"pair/{number}/{pair[0]}", self.store),
                rank=rank,
                world_size=len(members),
                timeout=self.group_timeout,
            )
            seconds = self.time_reductions(rank, len(members))
        except RuntimeError as error:
            self.close_group()
            self.start_afresh()
            return PairResult((), shorten_error(error))
        self.close_group()
        if seconds is None:
            return PairResult((), "wrong sums")
        return PairResult(tuple(seconds))

    def close_group(self) -> None:
        """Leave the group of this pair, if it came to one."""
        if self.dist.is_initialized():
            with contextlib.suppress(RuntimeError):
                self.dist.destroy_process_group()

    def start_afresh(self) -> None:
        """Make the next group independent of one that failed.

        Groups are numbered, and the number is part of their keys in the store. One that failed
        has taken a number and not given it back, which only the end of a whole group does; the
        next partner would then look for other keys. So a group of one is made and ended.
        """
        with contextlib.suppress(RuntimeError):
            self.dist.init_process_group("gloo", store=self.dist.HashStore(), rank=0, world_size=1)
        self.close_group()
        # After a wait that ran out, a connection may still expect the answer to it.
        with contextlib.suppress(WrongUse):
            self.store = open_pair_store(self.dist, self.place, is_host=False)

    def time_reductions(self, rank: int, size: int) -> list[float] | None:
        """Seconds of each reduction, or None where a sum is wrong."""
        expected = float(size * (size + 1) // 2)
        seconds = []
        for turn in range(WARMUP_ITERATIONS + self.iterations):
            self.buffer.fill_(rank + 1)
            self.synchronise()
            started = time.perf_counter()
            self.dist.all_reduce(self.buffer)
            self.synchronise()
            if turn >= WARMUP_ITERATIONS:
                seconds.append(time.perf_counter() - started)
        is_right = bool((self.buffer == expected).all().item())
        return seconds if is_right else None


class Place(NamedTuple):
    """Where a rank stands."""

    rank: int
    ranks: int
    local_rank: int
    ranks_per_node: int

    @property
    def node(self) -> int:
        """The number of its node: ranks are counted node by node."""
        return self.rank // self.ranks_per_node

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return self.ranks // self.ranks_per_node


def find_place(environ: Mapping[str, str], wanted: int | None) -> Place | None:
    """Where this rank stands, by its launcher and --ranks_per_node; None without a launcher.

    Ranks of one machine alone count as a node each. Raises WrongUse where the numbers do not fit.
    """
    found = read_rank(environ)
    if found is None:
        return None
    rank, ranks, local_rank = found
    per_node = wanted
    if per_node is None:
        local = environ.get("LOCAL_WORLD_SIZE", "")
        per_node = int(local) if local.isdigit() and int(local) > 0 else 1
        per_node = 1 if per_node == ranks else per_node
    if ranks % per_node:
        raise WrongUse(f"--ranks_per_node {per_node}: {ranks} ranks are no whole number of nodes")
    return Place(rank, ranks, local_rank, per_node)


def open_pair_store(dist: Any, place: Place, is_host: bool) -> Any:
    """A connection to the job's store, which rank 0 holds unless torchrun does.

    Raises WrongUse where nothing answers at MASTER_ADDR and MASTER_PORT.
    """
    address, port = os.environ.get("MASTER_ADDR", ""), os.environ.get("MASTER_PORT", "29500")
    try:
        store = dist.TCPStore(
            address,
            int(port),
            is_master=is_host and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True",
            timeout=datetime.timedelta(seconds=ARRIVAL_SECONDS),
            wait_for_workers=False,
        )
    except (RuntimeError, ValueError) as error:
        raise WrongUse(f"no store at {address}:{port}: {shorten_error(error)}") from error
    return dist.PrefixStore("node_pairs", store)


def shorten_error(error: Exception) -> str:
    """The first line of an error, without the C++ frames below it and without addresses."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    text = re.sub(r"\[[^\]]*\.(?:cc|cpp|h):\d+\]\s*", "", lines[0])
    text = re.sub(r"\[?(?:\d{1,3}\.){3}\d{1,3}\]?(?::\d+)?", "a host", text)
    return text[:120]


def choose_amounts(options: argparse.Namespace, kind: str) -> tuple[int, int]:
    """Bytes of the buffer and iterations: what was asked for, else what suits the device."""
    tier = "toy" if options.toy else "cpu" if kind == "cpu" else "accelerator"
    return options.size or DEFAULT_SIZES[tier], options.num_iterations or DEFAULT_ITERATIONS[tier]


class PairWorker(threading.Thread):
    """Measures in a thread of its own, so that a call that never returns does not stop the rank."""

    def __init__(self, options: argparse.Namespace, place: Place) -> None:
        super().__init__(daemon=True)
        self.options = options
        self.place = place
        self.orders: queue.Queue[tuple[int, Pair]] = queue.Queue()
        self.answers: queue.Queue[PairResult | Exception] = queue.Queue()
        self.is_stuck = False
        self.kind = "cpu"

    def run(self) -> None:
        """Say that the device is there, then measure what is ordered."""
        try:
            bench = Bench(self.options, self.place)
            self.kind = bench.device.type
            self.answers.put(PairResult(()))
            while True:
                self.answers.put(bench.measure(*self.orders.get()))
        except Exception as error:
            self.answers.put(error)

    def wait(self, seconds: float) -> PairResult:
        """The next answer; from a thread that is stuck, that it did not come."""
        try:
            answer = self.answers.get(timeout=seconds)
        except queue.Empty:
            self.is_stuck = True
            return PairResult((), "hangs")
        if isinstance(answer, Exception):
            raise answer
        return answer

    def describe_kind(self) -> str:
        """The type of the device that the thread has found."""
        return self.kind

    def measure(self, number: int, pair: Pair) -> PairResult:
        """Measure, unless an earlier pair hangs for good."""
        if self.is_stuck:
            return PairResult((), "not tried")
        self.orders.put((number, pair))
        # Making the group and each call may take the timeout once.
        return self.wait(2 * self.options.timeout + 10)


def tell_signal(store: Any, place: Place, stop: StopSign) -> None:
    """Have rank 0 end the run where a signal has come to this rank."""
    if stop.reason:
        store.set("stop", f"rank {place.rank} was {stop.reason}")


def follow_rounds(worker: PairWorker, store: Any, place: Place, stop: StopSign) -> None:
    """What every rank does: ask for the round, measure, answer, until the end is called."""
    number = 0
    while True:
        text = wait_for_key(store, f"round/{number}")
        tell_signal(store, place, stop)
        order = json.loads(text)
        if "end" in order:
            return
        pair = find_own_pair(order, place)
        if pair is not None:
            result = worker.measure(number, pair)
            if place.rank % place.ranks_per_node == 0:
                answer = {"seconds": result.seconds, "failure": result.failure}
                store.set(f"answer/{number}/{place.node}", json.dumps(answer))
        number += 1


def find_own_pair(order: Mapping[str, Any], place: Place) -> Pair | None:
    """The pair of this rank's node in a round; None where it rests."""
    if "circle" in order:
        opponent = find_opponent(place.nodes, order["circle"], place.node)
        if opponent is None or opponent in order["gone"]:
            return None
        return min(place.node, opponent), max(place.node, opponent)
    for a, b in order["pairs"]:
        if place.node in (a, b) and not {a, b} & set(order["gone"]):
            return a, b
    return None


def wait_for_key(store: Any, key: str) -> str:
    """The value of a key of the store, however long it takes to appear."""
    while True:
        with contextlib.suppress(RuntimeError):
            store.wait([key], datetime.timedelta(seconds=20))
            return str(store.get(key).decode())
        # A wait that ran out and a store that is gone raise the same; a probe tells them apart.
        store.add("alive", 1)


class Referee:
    """Rank 0: calls the rounds, collects the answers, and keeps the JSON up to date."""

    def __init__(
        self,
        tournament: Tournament,
        store: Any,
        options: argparse.Namespace,
        write: Callable[[], None],
        stop: StopSign,
        absent: set[int],
    ) -> None:
        self.absent = absent
        self.stuck: set[int] = set()
        self.tournament = tournament
        self.store = store
        self.options = options
        self.write = write
        self.stop = stop
        self.number = 0
        self.written = time.monotonic()

    def call(self, order: Mapping[str, Any], worker: PairWorker, place: Place) -> None:
        """One round: call it, measure the own pair, collect all answers."""
        tournament = self.tournament
        gone = self.absent | self.stuck
        order = {**order, "gone": sorted(gone)}
        self.store.set(f"round/{self.number}", json.dumps(order))
        pairs = (
            make_round(tournament.nodes, order["circle"])
            if "circle" in order
            else [(a, b) for a, b in order["pairs"]]
        )
        own = find_own_pair(order, place)
        if own is not None and place.node not in gone:
            result = worker.measure(self.number, own)
            answer = {"seconds": result.seconds, "failure": result.failure}
            self.store.set(f"answer/{self.number}/{place.node}", json.dumps(answer))
        deadline = time.monotonic() + 2 * self.options.timeout + 20
        for pair in pairs:
            if gone & set(pair):
                # A node that is stuck may be so through the fault of the partner it had then.
                failure = "never arrived" if self.absent & set(pair) else "not tried"
                tournament.record(self.number, pair, PairResult((), failure), "pairs" in order)
                continue
            answers = [self.collect(node, deadline) for node in pair]
            hanging = zip(pair, answers, strict=True)
            self.stuck |= {node for node, a in hanging if a.failure in ("hangs", "silent")}
            result = join_answers(answers)
            if result.failure == "wrong sums":
                tournament.failures.append(f"nodes {pair[0]} and {pair[1]}: the sums are wrong")
            tournament.record(self.number, pair, result, "pairs" in order)
        tournament.rounds_played += 1
        self.number += 1
        if time.monotonic() - self.written > JSON_EVERY_SECONDS:
            self.write()
            self.written = time.monotonic()

    def check_signals(self) -> None:
        """Raise Stopped where a signal has come, to this rank or to another."""
        if self.stop.reason is None and self.store.check(["stop"]):
            self.stop.reason = str(self.store.get("stop").decode())
        self.stop.check()

    def collect(self, node: int, deadline: float) -> PairResult:
        """The answer of a node; that there is none where it does not come in time."""
        key = f"answer/{self.number}/{node}"
        left = max(0.1, deadline - time.monotonic())
        try:
            self.store.wait([key], datetime.timedelta(seconds=left))
        except RuntimeError:
            return PairResult((), "silent")
        answer = json.loads(self.store.get(key).decode())
        self.store.delete_key(key)
        return PairResult(tuple(answer["seconds"]), answer["failure"])


def join_answers(answers: Sequence[PairResult]) -> PairResult:
    """What a pair has measured: the times of the side that took longer, or the failure of one."""
    failures = [answer.failure for answer in answers if answer.failure]
    if failures:
        # One side that could not try says nothing against the other.
        return PairResult((), "not tried" if "not tried" in failures else failures[0])
    return max(answers, key=lambda answer: statistics.median(answer.seconds))


def play_rounds(
    referee: Referee, rounds: Sequence[int], worker: PairWorker, place: Place, progress: Progress
) -> None:
    """Both stages on the real cluster. Raises Stopped on a signal, after its round."""
    tournament, options = referee.tournament, referee.options
    tournament.rounds_planned = len(rounds)
    for done, number in enumerate(rounds):
        referee.check_signals()
        progress.show(done, f"{len(tournament.trials)} pairs")
        referee.call({"circle": number}, worker, place)
    if options.confirm:
        judgement = judge_trials(tournament.trials, tournament.nodes, tournament.slower)
        plan = plan_confirmation(judgement, options.seed)
        if judgement.has_blame and not plan:
            tournament.caveats.append("--confirm: no node is known to be good, so nobody can tell")
        for pairs in plan:
            referee.check_signals()
            referee.call({"pairs": pairs}, worker, place)
    tournament.complete = True


class Progress:
    """A line on the terminal that is rewritten, or now and then a line in a log."""

    def __init__(self, total: int, noun: str, is_quiet: bool = False) -> None:
        self.total = total
        self.noun = noun
        self.is_quiet = is_quiet
        self.on_terminal = sys.stderr.isatty()
        self.shown = time.monotonic()

    def show(self, done: int, text: str) -> None:
        """Tell how far the run is."""
        if self.is_quiet:
            return
        line = f"{done}/{self.total} {self.noun}, {text}"
        if self.on_terminal:
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self.shown > 30:
            print(line, file=sys.stderr, flush=True)
            self.shown = time.monotonic()

    def close(self) -> None:
        """Leave the terminal on an empty line."""
        if self.on_terminal and not self.is_quiet:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def choose_device(torch: Any, name: str | None, local_rank: int = 0) -> Any:
    """The torch.device asked for, or the accelerator of this rank, or the CPU.

    Raises WrongUse where this torch has no such device.
    """
    has_accelerator = hasattr(torch, "accelerator") and torch.accelerator.is_available()
    present = torch.accelerator.current_accelerator().type if has_accelerator else "cpu"
    try:
        device = torch.device(name or present)
    except RuntimeError as error:
        known = f"{present} or cpu" if has_accelerator else "cpu"
        raise WrongUse(f"--device {name}: no device of torch; here it is {known}") from error
    if device.type == "cpu":
        return device
    if device.type != present:
        here = present if has_accelerator else "no accelerator, only cpu"
        raise WrongUse(f"--device {name}: this torch sees {here}")
    count = torch.accelerator.device_count()
    index = device.index if device.index is not None else local_rank
    if index >= count:
        raise WrongUse(f"device {index} of {device.type} is not there: there are {count}, from 0")
    device = torch.device(device.type, index)
    set_device = getattr(torch.get_device_module(device.type), "set_device", None)
    if set_device:  # a kind that is only ever one device has none
        set_device(index)
    return device


def find_free_port() -> int:
    """A TCP port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def read_rank(environ: Mapping[str, str]) -> tuple[int, int, int] | None:
    """Rank, world size and local rank from torchrun, Slurm or Open MPI; None without a launcher."""
    for names in (
        ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
        ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ):
        # A shell inside an allocation has SLURM_PROCID too: it is a rank only beside an address.
        if all(environ.get(name, "").isdigit() for name in names) and "MASTER_ADDR" in environ:
            rank, size, local = (int(environ[name]) for name in names)
            return rank, size, local
    return None


def launch_ranks(count: int, arguments: Sequence[str]) -> int:
    """Run this file once for each rank on this machine, and return the exit status of the job.

    The first rank that fails ends the others, and is named. A signal goes to all of them.
    """
    port = find_free_port()
    ranks: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _frame: Any) -> None:
        for process in ranks:
            if process.poll() is None:
                process.send_signal(number)

    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), pass_on)
    for rank in range(count):
        environ = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(count),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        environ.setdefault("OMP_NUM_THREADS", "1")
        # A group of its own: Ctrl-C at the terminal reaches a rank once, through pass_on.
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), *arguments],
            env=environ,
            start_new_session=True,
        )
        ranks.append(process)
    failed: tuple[int, int] | None = None
    deadline: float | None = None
    while any(process.poll() is None for process in ranks):
        for rank, process in enumerate(ranks):
            if process.poll() and failed is None:
                failed = (rank, process.returncode)
                deadline = time.monotonic() + 5.0
        if deadline is not None and time.monotonic() > deadline:
            for process in ranks:
                if process.poll() is None:
                    process.kill()
        time.sleep(0.02)
    statuses = [process.returncode for process in ranks]
    if failed is None:
        failed = next(((rank, status) for rank, status in enumerate(statuses) if status), None)
    if failed is None:
        return 0
    rank, status = failed
    if status < 0:
        print(f"rank {rank} was ended by {signal.Signals(-status).name}", file=sys.stderr)
        return 1
    if status not in (1, 2):
        print(f"rank {rank} ended with status {status}", file=sys.stderr)
        return 1
    return status


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write the JSON whole: under another name, then moved; a pipe or a device is written to, and
    a symbolic link followed. Raises WrongUse where it cannot be."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    target = path.resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def check_json_path(path: Path | None) -> None:
    """Raises WrongUse where --json names a folder, or a file in a folder that is not there or takes
    no files."""
    if path is None:
        return
    if path.is_dir():
        raise WrongUse(f"--json: {path} is a folder; name a file in it")
    target = path.resolve()
    if not target.parent.is_dir():
        raise WrongUse(f"--json: there is no folder {target.parent}")
    if path.exists() and not path.is_file():  # a pipe or a device, which writing shows
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def make_document_head(
    tool: str, numbers: tuple[str, int], command: Sequence[str], origin: float
) -> dict[str, Any]:
    """The opening of the JSON: tool, version and method, command, start, and seconds until now.

    `origin` is the reading of time.monotonic() when the run began.
    """
    seconds = time.monotonic() - origin
    started = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    return {
        "tool": tool,
        "version": numbers[0],
        "method": numbers[1],
        "command": list(command),
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(seconds, 3),
    }


def hide_folders(text: str) -> str:
    """The text with absolute paths cut down to their last part: folders name people and hosts."""
    name, equals, value = text.partition("=")
    if equals and value.startswith(("/", "~")):
        return f"{name}={Path(value).name}"
    return Path(text).name if text.startswith(("/", "~")) else text


def make_portable_command(arguments: Sequence[str]) -> list[str]:
    """The command line as another machine would type it, without absolute paths."""
    script = Path(__file__)
    with contextlib.suppress(ValueError, OSError):  # a folder that was deleted has no name
        script = script.resolve().relative_to(Path.cwd().resolve())
    name = script.name if script.is_absolute() else script.as_posix()
    return ["python", name, *(hide_folders(argument) for argument in arguments)]


def write_note(text: str) -> None:
    """One note for the reader, beside the table."""
    print(f"note: {text}", file=sys.stderr)


def import_torch() -> Any:
    """The torch module; raises WrongUse with what to do where there is none."""
    try:
        import torch
    except ImportError as error:
        raise WrongUse(
            f"torch does not import ({error}); install it: https://pytorch.org/get-started/locally"
        ) from error
    return torch


def format_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and all others to the right."""
    cells = [list(headings), *(list(row) for row in rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(headings))]

    def join(row: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [f":{'-' * (w - 1)}" if i == 0 else f"{'-' * (w - 1)}:" for i, w in enumerate(widths)]
    return "\n".join([join(cells[0]), f"| {' | '.join(rule)} |", *map(join, cells[1:])])


def format_earned(value: float | None, uncertainty: float | None) -> str:
    """The value with the digits that its uncertainty leaves, one per thousand at best.

    The last digit shown stands where the first digit of the uncertainty stands. Where the
    uncertainty is as large as the value it leaves none: then one digit after a `~` says how
    large the value is, roughly. Where nobody knows the uncertainty, it is two digits after a `~`.
    """
    if value is None or not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    size = abs(value)
    doubt = 0.1 * size if uncertainty is None else max(abs(uncertainty), size * 1e-3)
    is_rough = uncertainty is None or doubt >= size
    decimals = -math.floor(math.log10(min(doubt, size)))
    # Rounding first: 9.99 to one digit is 10, and then no digit after the point.
    rounded = round(value, decimals)
    return f"{'~' if is_rough else ''}{rounded:.{max(decimals, 0)}f}"


def format_time(seconds: float) -> str:
    """`12.0 µs`, `8.02 ms` or `2.3 s`: a time in a sentence, to about one percent."""
    factor, unit = next(
        ((f, u) for f, u in ((1.0, "s"), (1e-3, "ms")) if seconds >= 0.9995 * f), (1e-6, "µs")
    )
    return f"{format_earned(seconds / factor, 1e-2 * seconds / factor)} {unit}"


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def parse_duration(text: str) -> float:
    """Seconds from `90`, `45s`, `10m`, `1h30m`."""
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", text.strip())
    if not text.strip() or found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no duration: write 90s, 10m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    total = 3600 * hours + 60 * minutes + seconds
    if total <= 0:
        raise argparse.ArgumentTypeError(f"'{text}': a duration has to be longer than nothing")
    return total


def parse_positive(text: str) -> float:
    """A finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a number above 0")
    return value


def check_picture_path(path: Path | None) -> None:
    """Raises WrongUse where --plot cannot be written, or matplotlib is not there to draw it."""
    if path is None:
        return
    if path.suffix.lower() not in (".svg", ".png"):
        raise WrongUse(f"--plot: {path} has to end in .svg or .png")
    if not path.resolve().parent.is_dir():
        raise WrongUse(f"--plot: there is no folder {path.resolve().parent}")
    if importlib.util.find_spec("matplotlib") is None:
        raise WrongUse("--plot needs matplotlib: pip install matplotlib")


def parse_bytes(text: str) -> int:
    """Bytes from `32KiB`, `16G` (binary, as nccl-tests has it), `4GB` (decimal), or `8`."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)(B?)", text.strip())
    if found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no size: write 32KiB, 4MB or 16GiB")
    number, prefix, binary, unit = found.groups()
    base = 1000 if unit and not binary else 1024
    size = float(number) * base ** " KMGT".index(prefix.upper() or " ")
    if (binary and not prefix) or size < 1 or size != int(size):
        raise argparse.ArgumentTypeError(f"'{text}' is no whole number of bytes from 1")
    return int(size)


def parse_slower(text: str) -> float:
    """A factor above 1."""
    value = parse_positive(text)
    if value <= 1:
        raise argparse.ArgumentTypeError(f"'{text}' has to be above 1: 1.2 is 20 % more time")
    return value


def parse_slow_node(text: str) -> tuple[int, float]:
    """`17:2` is node 17, twice as slow; `17:dead` does not answer."""
    name, _, factor = text.partition(":")
    if not name.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}': write NODE:FACTOR, 17:2 or 17:dead")
    return int(name), math.inf if factor == "dead" else parse_slower(factor)


def parse_slow_link(text: str) -> tuple[Pair, float]:
    """`3-17:2` is the link between nodes 3 and 17, twice as slow; `3-17:dead` does not answer."""
    found = re.fullmatch(r"(\d+)-(\d+):(.+)", text)
    if found is None or found.group(1) == found.group(2):
        raise argparse.ArgumentTypeError(f"'{text}': write NODE-NODE:FACTOR, 3-17:2 or 3-17:dead")
    a, b = sorted(map(int, found.groups()[:2]))
    factor = found.group(3)
    return (a, b), math.inf if factor == "dead" else parse_slower(factor)


def parse_share(text: str) -> float:
    """A number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"'{text}' has to be a number from 0 to 1")
    return value


def find_node_times(trials: Trials, judgement: Judgement, nodes: int) -> list[float | None]:
    """The median of each node's pairs, in times of the typical pair; None where none answered."""
    if judgement.typical is None:
        return [None] * nodes
    logs = [array("d") for _ in range(nodes)]
    for a, b, value in zip(trials.first, trials.second, trials.logs, strict=True):
        logs[a].append(value)
        logs[b].append(value)
    times: list[float | None] = []
    for values in logs:
        middle = statistics.median_low(values) if values else math.inf
        times.append(math.exp(middle - judgement.typical.centre) if math.isfinite(middle) else None)
    return times


def name_node(node: int, hosts: Mapping[int, str]) -> str:
    """`3 (host)`, or the number alone."""
    return f"{node} ({hosts[node]})" if hosts.get(node) else str(node)


def list_blamed(judgement: Judgement, hosts: Mapping[int, str]) -> list[list[str]]:
    """The lines of the table of what is slow or dead, the worst first."""

    def name_pair(pair: Pair) -> str:
        return " - ".join(name_node(node, hosts) for node in pair)

    def show(times: float) -> str:
        return f"{times:.2f}" if math.isfinite(times) else "no answer"

    rows = [[name_node(node, hosts), "dead node", "no answer"] for node in judgement.dead_nodes]
    rows += [[name_pair(pair), "dead link", "no answer"] for pair in sorted(judgement.dead_links)]
    for node, times in sorted(judgement.slow_nodes.items(), key=lambda entry: -entry[1]):
        rows.append([name_node(node, hosts), "slow node", show(times)])
    for kind, found in (
        ("slow link", judgement.slow_links),
        ("unclear: run this pair again", judgement.unclear),
        ("passing: not slow again", judgement.passing),
    ):
        for pair, times in sorted(found.items(), key=lambda entry: -entry[1]):
            rows.append([name_pair(pair), kind, show(times)])
    return rows


def format_verdict(tournament: Tournament, hosts: Mapping[int, str], top: int) -> str:
    """The tables of the report: the run, who is to blame, and the pairs of a small run."""
    judgement = tournament.judgement or tournament.judge()
    typical = judgement.typical
    noise = typical.noise if typical else None
    has_seconds = bool(tournament.results)
    cells = [
        str(tournament.nodes),
        str(tournament.rounds_played),
        str(len(tournament.trials) + len(tournament.second_stage)),
        format_time(math.exp(typical.centre)) if typical and has_seconds else "-",
        "-" if noise is None else f"{100 * noise:.1f}",
        f"{math.exp(typical.line - typical.centre):.2f}" if typical else "-",
        str(len(judgement.slow_nodes)),
        str(len(judgement.slow_links)),
        str(len(judgement.dead_nodes) + len(judgement.dead_links)),
    ]
    headings = ["Nodes", "Rounds", "Pairs", "Typical", "Noise [%]", "Slow from", "Slow nodes"]
    parts = [format_table([*headings, "Slow links", "Dead"], [cells])]
    blamed = list_blamed(judgement, hosts)
    if blamed:
        parts.append(format_table(["Node or link", "Verdict", "Times typical"], blamed[:top]))
    if len(blamed) > top:
        parts.append(f"and {len(blamed) - top} more: see --top, and the JSON")
    if has_seconds and len(tournament.trials) <= top:
        parts.append(format_pairs(tournament.make_rows(), hosts))
    return "\n\n".join(parts)


def format_pairs(rows: Sequence[Row], hosts: Mapping[int, str]) -> str:
    """All pairs of a small run, round by round."""
    cells = []
    for row in rows:
        median, iqr, busbw = (
            row[name] for name in ("seconds_median", "seconds_iqr", "busbw_bytes_per_second")
        )
        doubt = None if median is None or iqr is None else busbw * iqr / median / 2
        cells.append(
            [
                str(row["round"]),
                f"{name_node(row['node_a'], hosts)} - {name_node(row['node_b'], hosts)}",
                format_time(median) if median is not None else "-",
                format_earned(busbw / 1e9, None if doubt is None else doubt / 1e9)
                if busbw is not None
                else "-",
                "-" if row["times_typical"] is None else f"{row['times_typical']:.2f}",
                row["verdict"],
            ]
        )
    return format_table(
        ["Round", "Pair", "Median", "busbw [GBps]", "Times typical", "Verdict"], cells
    )


def find_pair_remarks(tournament: Tournament) -> list[str]:
    """What a reader should know about the verdict, and what to try."""
    judgement = tournament.judgement or tournament.judge()
    remarks = []
    pairs, whole = len(tournament.trials), tournament.nodes * (tournament.nodes - 1) // 2
    if tournament.nodes < 3:
        remarks.append("one pair has nothing to be compared with: three nodes are the least")
    if pairs < whole:
        remarks.append(
            f"{pairs} of {whole} links were seen ({100 * pairs / whole:.2g} %): a slow link among "
            "the others is not found"
        )
    # What was slow and passed says nothing of the network.
    links = (judgement.slow_links, judgement.dead_links, judgement.unclear)
    slow = sum(map(len, links))
    if slow > TWO_SPEEDS_SHARE * pairs and not judgement.slow_nodes and not judgement.dead_nodes:
        remarks.append(
            f"{slow} of {pairs} pairs are slow, and no node is to blame: the network has two "
            "speeds (near and far nodes, one rail of several?)"
        )
    counts = Counter(node for pair in judgement.slow_links for node in pair)
    for node, count in counts.most_common(3):
        if count >= 3:
            remarks.append(
                f"node {node} is in {count} slow links: look at its cables and ports first"
            )
    if judgement.has_blame and not judgement.is_confirmed:
        remarks.append("each pair was seen once: --confirm runs the suspects again")
    reach = judgement.typical.line - judgement.typical.centre if judgement.typical else 0.0
    if reach > max(math.log(2), math.log(tournament.slower) + 1e-9):
        remarks.append(
            "the noise hides whatever is not more than twice as slow: use a larger --size or more "
            "--num_iterations, with nothing else running"
        )
    return remarks


def make_pairs_document(
    tournament: Tournament, command: Sequence[str], origin: float, details: Mapping[str, Any]
) -> dict[str, Any]:
    """The JSON document."""
    judgement = tournament.judge()
    typical = judgement.typical

    def list_pairs(found: Iterable[Pair]) -> list[list[int]]:
        return [list(pair) for pair in sorted(found)]

    document = make_document_head("node_pairs", (__version__, METHOD), command, origin)
    is_short = len(tournament.trials) <= LISTED_PAIRS
    node_times = find_node_times(tournament.trials, judgement, tournament.nodes) if is_short else []
    caveats = [*tournament.caveats, *find_pair_remarks(tournament)]
    if not is_short:
        caveats.append(f"of {len(tournament.trials)} pairs, only those that are not ok are listed")
    return document | {
        "complete": tournament.complete,
        "units": UNITS,
        "results": tournament.make_rows(),
        "caveats": list(dict.fromkeys(caveats)),
        "details": {
            **details,
            "nodes": tournament.nodes,
            "ranks_per_pair": tournament.ranks_per_pair,
            "size_bytes": tournament.size,
            "rounds_planned": tournament.rounds_planned,
            "rounds_played": tournament.rounds_played,
            "slower": tournament.slower,
            "is_confirmed": judgement.is_confirmed,
            "noise": typical.noise if typical else None,
            "slow_from_times_typical": math.exp(typical.line - typical.centre) if typical else None,
            "node_times_typical": node_times,
            "slow_nodes": sorted(judgement.slow_nodes),
            "slow_links": list_pairs(judgement.slow_links),
            "dead_nodes": sorted(judgement.dead_nodes),
            "dead_links": list_pairs(judgement.dead_links),
            "unclear_pairs": list_pairs(judgement.unclear),
            "passing_pairs": list_pairs(judgement.passing),
            "failures": tournament.failures,
        },
    }


def draw_pair_map(tournament: Tournament, path: Path) -> None:
    """A heat map of all pairs, in times of the typical; of many nodes, the worst of each block."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "node_pairs"
    from matplotlib import pyplot

    judgement = tournament.judgement or tournament.judge()
    centre = judgement.typical.centre if judgement.typical else 0.0
    block = math.ceil(tournament.nodes / 256)
    cells = math.ceil(tournament.nodes / block)
    grid = [[math.nan] * cells for _ in range(cells)]
    top = 2.0
    trials = tournament.trials
    for a, b, value in zip(trials.first, trials.second, trials.logs, strict=True):
        times = math.exp(min(value - centre, math.log(100)))
        top = max(top, times)
        for i, j in ((a // block, b // block), (b // block, a // block)):
            if not grid[i][j] >= times:
                grid[i][j] = times
    figure, axis = pyplot.subplots(figsize=(6.4, 5.2))
    edge = tournament.nodes - 0.5
    image = axis.imshow(
        grid, origin="lower", cmap="magma_r", vmin=1, vmax=top, extent=(-0.5, edge, -0.5, edge)
    )
    figure.colorbar(image, ax=axis, label="time, times the typical")
    axis.set_xlabel("node")
    axis.set_ylabel("node")
    axis.set_title(
        "Time of each pair" if block == 1 else f"Slowest pair of {block} x {block} nodes"
    )
    figure.tight_layout()
    # Without a date the same results give the same bytes.
    figure.savefig(path, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
    pyplot.close(figure)


def print_plan(nodes: int, rounds: Sequence[int], top: int) -> None:
    """The schedule: who meets whom, and what it costs."""
    rows = []
    for turn, number in enumerate(rounds[:top]):
        pairs = make_round(nodes, number)
        shown = ", ".join(f"{a}-{b}" for a, b in pairs[:12])
        more = f", and {len(pairs) - 12} more" if len(pairs) > 12 else ""
        resting = next((n for n in range(nodes) if find_opponent(nodes, number, n) is None), None)
        rows.append([str(turn), shown + more, "-" if resting is None else str(resting)])
    print(format_table(["Round", "Pairs", "Rests"], rows))
    if len(rounds) > top:
        print(f"\nand {len(rounds) - top} more rounds: see --top, and the JSON")
    whole = nodes * (nodes - 1) // 2
    seen = len(rounds) * (nodes // 2)
    write_note(
        f"{len(rounds)} rounds of {nodes // 2} pairs see {seen} of {whole} links "
        f"({100 * seen / whole:.3g} %); at {ROUND_SECONDS:.0f} s a round, with the making of the "
        f"groups, that is {format_time(len(rounds) * ROUND_SECONDS)}"
    )


def make_plan_rows(nodes: int, rounds: Sequence[int]) -> list[Row]:
    """The schedule as rows of the JSON, as far as it is not too long."""
    rows: list[Row] = []
    for turn, number in enumerate(rounds):
        for a, b in make_round(nodes, number):
            if len(rows) == LISTED_PAIRS:
                return rows
            rows.append({"round": turn, "node_a": a, "node_b": b})
    return rows


def run_plan(options: argparse.Namespace, command: list[str], origin: float) -> int:
    """Print the schedule of a tournament."""
    rounds = choose_rounds(options.plan, options.rounds, options.seed)
    print_plan(options.plan, rounds, options.top)
    if options.json:
        rows = make_plan_rows(options.plan, rounds)
        units = {name: UNITS[name] for name in ("round", "node_a", "node_b")}
        document = make_document_head("node_pairs", (__version__, METHOD), command, origin)
        document |= {"complete": True, "units": units, "results": rows, "caveats": []}
        if len(rows) == LISTED_PAIRS:
            document["caveats"] = [f"only the first {LISTED_PAIRS} pairs are listed"]
        write_document(options.json, document | {"details": {"nodes": options.plan}})
    return 0


def judge_simulation(tournament: Tournament, simulation: Simulation) -> dict[str, Any]:
    """Which planted faults were missed, which could not be seen, and who was blamed wrongly."""
    judgement = tournament.judgement or tournament.judge()
    blamed_nodes = {*judgement.slow_nodes, *judgement.dead_nodes}
    blamed_links = {*judgement.slow_links, *judgement.dead_links, *judgement.unclear}
    trials = tournament.trials
    planted = set(simulation.slow_links)
    seen = {pair for pair in zip(trials.first, trials.second, strict=True) if pair in planted}
    hidden = {pair for pair in planted if set(pair) & set(simulation.slow_nodes)}
    return {
        "missed_nodes": sorted(set(simulation.slow_nodes) - blamed_nodes),
        "missed_links": [list(pair) for pair in sorted((seen - hidden) - blamed_links)],
        "unseen_links": [list(pair) for pair in sorted(planted - seen)],
        "wrongly_blamed_nodes": sorted(blamed_nodes - set(simulation.slow_nodes)),
        "wrongly_blamed_links": [list(pair) for pair in sorted(blamed_links - planted)],
    }


def run_simulation(
    options: argparse.Namespace, command: list[str], stop: StopSign, origin: float
) -> int:
    """Play a tournament with drawn times; the exit status."""
    tournament = Tournament(options.simulate, 0, 2, options.slower)
    simulation = Simulation(
        dict(options.slow_node), dict(options.slow_link), options.noise, options.seed
    )
    rounds = choose_rounds(options.simulate, options.rounds, options.seed)
    tournament.rounds_planned = len(rounds)
    tournament.caveats.append("the times are simulated")
    with contextlib.suppress(Stopped):
        play_simulation(tournament, simulation, rounds, stop, options.confirm, options.seed)
    verdict = judge_simulation(tournament, simulation)
    if options.json:
        document = make_pairs_document(tournament, command, origin, {"simulation": verdict})
        write_document(options.json, document)
    status = finish_report(tournament, {}, options, stop)
    for name, found in verdict.items():
        if found:
            write_note(f"{name.replace('_', ' ')}: {found[:10]}{' ...' if found[10:] else ''}")
    return status


def finish_report(
    tournament: Tournament, hosts: Mapping[int, str], options: argparse.Namespace, stop: StopSign
) -> int:
    """Tables, notes, problems and picture; the exit status."""
    judgement = tournament.judge()
    print(format_verdict(tournament, hosts, options.top))
    for text in dict.fromkeys([*tournament.caveats, *find_pair_remarks(tournament)]):
        write_note(text)
    problems = list(dict.fromkeys(tournament.failures))
    if judgement.has_blame:
        blamed = list_blamed(judgement, hosts)
        listed = "; ".join(f"{row[1]} {row[0]}" for row in blamed[:5] if "passing" not in row[1])
        problems.append(listed + (" ..." if len(blamed) > 5 else ""))
    if not tournament.trials.logs:
        problems.append("nothing was measured")
    if stop.reason and not tournament.complete:
        problems.append(f"{stop.reason}: the verdict is on the rounds before that")
    for text in problems:
        print(f"problem: {text}", file=sys.stderr)
    if options.plot and tournament.trials.logs:
        draw_pair_map(tournament, options.plot)
    return 1 if problems else 0


def run_rank(
    options: argparse.Namespace, place: Place, command: list[str], stop: StopSign, origin: float
) -> int:
    """One rank of a real tournament; the exit status of the run on rank 0, else 0."""
    if place.nodes < 2:
        raise WrongUse("one node alone has nobody to be paired with")
    dist = import_torch().distributed
    # Let a call that does not end raise an error after the timeout, instead of ending the process.
    os.environ.setdefault("TORCH_NCCL_BLOCKING_WAIT", "1")
    store = open_pair_store(dist, place, is_host=place.rank == 0)
    worker = PairWorker(options, place)
    worker.start()
    worker.wait(options.timeout)
    if place.rank:
        tell_signal(store, place, stop)
    store.set(f"ready/{place.rank}", socket.gethostname())
    status = 0
    try:
        if place.rank == 0:
            status = lead_tournament(options, place, command, stop, origin, store, worker)
        else:
            follow_rounds(worker, store, place, stop)
            store.set(f"bye/{place.rank}", "1")
    except RuntimeError as error:
        print(f"rank {place.rank}: rank 0 is gone ({shorten_error(error)})", file=sys.stderr)
        status = 1
    if worker.is_stuck:
        # The call that hangs would keep the process from ending in the usual way.
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    return status


def lead_tournament(
    options: argparse.Namespace,
    place: Place,
    command: list[str],
    stop: StopSign,
    origin: float,
    store: Any,
    worker: PairWorker,
) -> int:
    """Rank 0: play, judge, report; the exit status."""
    hosts = collect_hosts(store, place, max(options.timeout, ARRIVAL_SECONDS))
    kind = worker.describe_kind()
    size, iterations = choose_amounts(options, kind)
    tournament = Tournament(place.nodes, size, 2 * place.ranks_per_node, options.slower)
    rounds = choose_rounds(place.nodes, options.rounds, options.seed)
    details = {"device_kind": kind, "iterations": iterations}
    if options.names:
        details["hosts"] = [hosts.get(node) for node in range(place.nodes)]

    unwritten: list[str] = []

    def write() -> None:
        # On a disk that has filled the tournament goes on.
        unwritten.clear()
        try:
            if options.json:
                document = make_pairs_document(tournament, command, origin, details)
                write_document(options.json, document)
        except WrongUse as error:
            unwritten.append(str(error))

    absent = {node for node in range(place.nodes) if node not in hosts}
    for node in sorted(absent):
        tournament.failures.append(f"node {node} has not arrived")
    referee = Referee(tournament, store, options, write, stop, absent)
    progress = Progress(len(rounds), "rounds")
    try:
        play_rounds(referee, rounds, worker, place, progress)
    except Stopped as stopped:
        tournament.caveats.append(str(stopped))
    progress.close()
    store.set(f"round/{referee.number}", json.dumps({"end": True}))
    write()
    # The other ranks wait for the farewell, also where stdout takes nothing.
    status = run_to_stdout(lambda: finish_report(tournament, hosts, options, stop))
    for text in unwritten:
        write_note(f"{text}; the JSON has less than the table")
        status = 1
    say_farewell(store, place, absent | referee.stuck)
    return status


def collect_hosts(store: Any, place: Place, timeout: float) -> dict[int, str]:
    """The host of each node all of whose ranks are there in time."""
    deadline = time.monotonic() + timeout
    hosts: dict[int, str] = {}
    for node in range(place.nodes):
        first = node * place.ranks_per_node
        keys = [f"ready/{rank}" for rank in range(first, first + place.ranks_per_node)]
        left = max(0.1, deadline - time.monotonic())
        with contextlib.suppress(RuntimeError):
            store.wait(keys, datetime.timedelta(seconds=left))
            hosts[node] = store.get(keys[0]).decode()
    return hosts


def say_farewell(store: Any, place: Place, gone: set[int]) -> None:
    """Wait until the others have read that it is over: the store ends with this process."""
    keys = [
        f"bye/{rank}" for rank in range(1, place.ranks) if rank // place.ranks_per_node not in gone
    ]
    with contextlib.suppress(RuntimeError):
        if keys:
            store.wait(keys, datetime.timedelta(seconds=FAREWELL_SECONDS))


def choose_rank_count(options: argparse.Namespace) -> int:
    """How many ranks to start on this machine: as asked for, else one for each accelerator."""
    if options.ranks:
        return int(options.ranks)
    if options.toy or options.device == "cpu":
        return TOY_RANKS
    torch = import_torch()
    if hasattr(torch, "accelerator") and torch.accelerator.is_available():
        count = int(torch.accelerator.device_count())
        if count < 2:
            raise WrongUse("one accelerator has nobody to be paired with; --device cpu for a trial")
        return count
    return TOY_RANKS


def run_self_test() -> int:
    """Check schedule and verdict by hand, and a real tournament on this machine; 0, or 1."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    check(
        "4 nodes meet in 3 rounds",
        [make_round(4, r) for r in range(3)]
        == [[(0, 3), (1, 2)], [(0, 2), (1, 3)], [(0, 1), (2, 3)]],
    )
    check(
        "of 3 nodes one rests", [len(make_round(3, r)) for r in range(count_rounds(3))] == [1] * 3
    )
    met = Counter(pair for r in range(count_rounds(9)) for pair in make_round(9, r))
    check("9 nodes: 36 pairs, each once", len(met) == 36 and set(met.values()) == {1})
    for name, nodes, links in (
        ("a node twice as slow is found", {5: 2.0}, {}),
        ("a link three times as slow is found", {}, {(2, 9): 3.0}),
        ("a dead node and a slow link are told apart", {1: math.inf}, {(4, 6): 2.0}),
        ("nobody is blamed for noise", {}, {}),
    ):
        tournament = Tournament(16, 0, 2, 1.2)
        simulation = Simulation(nodes, links, 0.03, 1)
        play_simulation(tournament, simulation, range(15), StopSign(), True, 1)
        found = judge_simulation(tournament, simulation)
        check(name, not any(found.values()) and tournament.complete)
    command = [sys.executable, str(Path(__file__).resolve()), "--toy", "--ranks", "3"]
    # Whatever is slow on a busy machine: here the answers are checked, and that all pairs met.
    done = subprocess.run(
        [*command, "--slower", "1000"], capture_output=True, text=True, timeout=120, check=False
    )
    check("3 real ranks meet in 3 pairs, with right sums", done.returncode == 0)
    check("their table has all pairs", all(p in done.stdout for p in ("0 (", "1 (", "2 (")))
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="node_pairs.py",
        description="Measure pairs of nodes in a tournament; tell slow nodes from slow links.",
        epilog="The docstring at the top of this file tells what is timed and how to run it.",
        allow_abbrev=False,
    )
    run = parser.add_argument_group("run")
    run.add_argument(
        "--ranks",
        type=parse_count,
        metavar="N",
        help="start N ranks on this machine (default: one for each accelerator, 3 on a CPU)",
    )
    run.add_argument(
        "--ranks_per_node",
        type=parse_count,
        metavar="N",
        help="ranks of one node (default: what torchrun says, else 1)",
    )
    run.add_argument("--device", metavar="DEVICE", help="cuda, xpu, cpu (default: accelerator)")
    run.add_argument("--backend", metavar="NAME", help="nccl, gloo, ... (default: by the device)")
    run.add_argument(
        "--size",
        type=parse_bytes,
        metavar="BYTES",
        help="buffer of each rank: 64K, 256M, 1G (default: 256M, 4M on a CPU)",
    )
    run.add_argument(
        "--num_iterations", type=parse_count, metavar="N", help="samples of a pair (default: 10)"
    )
    run.add_argument(
        "--timeout",
        type=parse_duration,
        default=DEFAULT_TIMEOUT_SECONDS,
        metavar="DURATION",
        help="a pair that does not answer within this is dead (default: 60s)",
    )
    games = parser.add_argument_group("tournament")
    games.add_argument(
        "--rounds", type=parse_count, metavar="K", help="play K rounds only (default: all)"
    )
    games.add_argument(
        "--confirm", action="store_true", help="run suspects again, with known-good nodes"
    )
    games.add_argument(
        "--slower",
        type=parse_slower,
        default=1.2,
        metavar="FACTOR",
        help="slow is what takes so many times the typical time (default: 1.2)",
    )
    games.add_argument(
        "--seed", type=int, default=1, metavar="N", help="draws rounds and partners (default: 1)"
    )
    dry = parser.add_argument_group("without a cluster")
    dry.add_argument("--plan", type=parse_count, metavar="N", help="print the schedule of N nodes")
    dry.add_argument(
        "--simulate", type=parse_count, metavar="N", help="judge drawn times of N nodes"
    )
    dry.add_argument(
        "--slow-node",
        type=parse_slow_node,
        action="append",
        default=[],
        metavar="NODE:FACTOR",
        help="a simulated fault; FACTOR may be `dead`; may be given again",
    )
    dry.add_argument(
        "--slow-link",
        type=parse_slow_link,
        action="append",
        default=[],
        metavar="NODE-NODE:FACTOR",
        help="a simulated fault between two nodes",
    )
    dry.add_argument(
        "--noise",
        type=parse_share,
        default=0.02,
        metavar="SHARE",
        help="standard deviation of the simulated logarithms (default: 0.02)",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    output.add_argument("--names", action="store_true", help="host names in the JSON too")
    output.add_argument("--plot", type=Path, metavar="PATH", help="heat map, SVG or PNG")
    output.add_argument(
        "--top", type=parse_count, default=40, metavar="N", help="lines shown (default: 40)"
    )
    other = parser.add_argument_group("other")
    other.add_argument(
        "--toy", "--dry-run", action="store_true", help="a small buffer, 3 ranks, on the CPU"
    )
    other.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    other.add_argument(
        "--version", action="version", version=f"node_pairs {__version__} (method {METHOD})"
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense, before anything is measured or imported."""
    check_json_path(options.json)
    check_picture_path(options.plot)
    if options.plan and options.simulate:
        raise WrongUse("--plan and --simulate are two things; give one of them")
    if options.plan and options.plot:
        raise WrongUse("--plan has no picture")
    nodes = options.plan or options.simulate
    if nodes == 1:
        raise WrongUse("one node alone has nobody to be paired with")
    if nodes and (options.ranks or options.ranks_per_node or options.toy):
        raise WrongUse("--plan and --simulate start no ranks")
    if (options.slow_node or options.slow_link) and not options.simulate:
        raise WrongUse("--slow-node and --slow-link are for --simulate")
    faulty = [node for node, _ in options.slow_node]
    faulty += [node for pair, _ in options.slow_link for node in pair]
    for node in faulty:
        if node >= options.simulate:
            raise WrongUse(f"there is no node {node}: --simulate {options.simulate} counts from 0")
    if options.ranks == 1:
        raise WrongUse("--ranks 1: one rank alone has nobody to be paired with")


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    command = make_portable_command(arguments)
    stop = StopSign()
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_options(options)
        if options.plan:
            return run_plan(options, command, origin)
        place = None if options.simulate else find_place(os.environ, options.ranks_per_node)
        if place is None and not options.simulate:
            return launch_ranks(choose_rank_count(options), arguments)
        stop.listen()
        if place is None:
            return run_simulation(options, command, stop, origin)
        return run_rank(options, place, command, stop, origin)
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a run listens for signals itself
        print("stopped", file=sys.stderr)
        return 1


def run_to_stdout(run: Callable[[], int]) -> int:
    """What `run` returns, once all that it printed is written; where stdout takes no more, a full
    disk or a closed pipe, one line says so, and it is 1."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, by `>&-`: then nobody wants to read it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - to the end
    try:
        try:
            status = run()
        except SystemExit as ended:  # --help, --version, and wrong use
            status = int(ended.code or 0)
        sys.stdout.flush()
    except OSError as error:
        kinds = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        if error.filename is not None or error.errno not in kinds:
            raise
        # What still waits would be complained of again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"stdout could not be written: {error.strerror}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(run_to_stdout(main))
