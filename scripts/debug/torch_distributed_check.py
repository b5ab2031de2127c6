#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Can all ranks of all nodes talk to each other, and if not, which one is to blame?

A job that hangs at the start prints nothing for half an hour, and then an error on every rank. This
tool goes through the same steps with a short `--timeout`, and names the ranks and nodes that are
missing.

## What each rank does

1. `arrival`: reach the store of rank 0 (MASTER_ADDR:MASTER_PORT), and wait for the others.
2. `device`: fill device memory with numbers and read them back.
3. `group`: `torch.distributed.init_process_group` with the backend of the device.
4. `reduction`: an all_reduce of integers, each element of the answer checked.
5. `barrier`.

Each rank writes its progress and a heartbeat into the store. So rank 0 can tell a rank that `never
arrived`, one that is `gone` (dead or cut off: no heartbeat), one that `hangs` (heartbeat, but it
does not enter the step), one that `failed` with an error, and the ranks that only `wait` for those
in a collective. The seconds of each step show what starting a job costs.

## How to run

    # one node: starts a rank per accelerator
    python torch_distributed_check.py
    # Slurm, a task per GPU
    export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)
    srun --ntasks-per-node 8 --gpus-per-node 8 python torch_distributed_check.py --timeout 30s
    # pdsh
    pdsh -R exec -w node[01-04] ssh %h 'RANK=%n WORLD_SIZE=4 LOCAL_RANK=0 MASTER_ADDR=node01 \
        python /shared/torch_distributed_check.py --hosts node[01-04]'
    # see what a dead rank looks like; also hang:RANK:STEP and absent:RANK
    python torch_distributed_check.py --device cpu --ranks 4 --timeout 5s --inject die:2:barrier

Start the ranks directly, as above, where a node may be missing: torchrun waits for all nodes before
it starts anything.

A good answer: `all N ranks on M nodes can talk`, within seconds. Otherwise the lines below the
table say which rank is to blame, and what to type next.

Exit status: 0 all ranks can talk; 1 they cannot, an answer is wrong, or versions differ; 2 wrong
use.
"""

import argparse
import contextlib
import datetime
import json
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, size, start
from kit.device import choose_device, describe_run, free_memory, import_torch, synchronize
from kit.ranks import (
    Place,
    add_rank_options,
    choose_backend,
    find_store,
    first_line,
    open_store,
    place_or_launch,
)  # fmt: skip
from kit.report import Report, Row, format_bytes, format_table, name_ranks
from kit.slurm import expand_nodelist
from kit.topology import find_numa_node, read_topology

__version__ = "0.2.0"
METHOD = 1

PROFILES = {
    "demo": ["--device", "cpu", "--memory", "16MiB", "--timeout", "30s"],
    "full": ["--timeout", "60s"],
}
RANKS = {"demo": 2, "full": "accelerators"}
GPUS = {"full": 2}
STEPS = ("arrival", "device", "group", "reduction", "barrier")
DEFAULT_MEMORY = {"cpu": 64 * 1024**2, "accelerator": 1024**3}
ELEMENTS = 1000
BEAT_SECONDS = 0.3
GONE_SECONDS = 3.0
"""A rank without a heartbeat for this long is gone."""
SETTLE_SECONDS = GONE_SECONDS + 1.0
"""How long rank 0 listens after the first failure, to tell the cause from those that wait."""
SHOWN_RANKS = 64


class Steps(threading.Thread):
    """The steps of this rank, in a thread: a step that hangs does not hang the report."""

    def __init__(self, options: argparse.Namespace, place: Place, store: Any) -> None:
        super().__init__(daemon=True)
        self.options, self.place, self.store = options, place, store
        self.state: dict[str, Any] = {
            "done": {}, "entered": None, "trouble": None, "facts": {}, "beat": 0,
            "host": socket.gethostname(), "pid": os.getpid(),
        }  # fmt: skip

    def publish(self, store: Any) -> None:
        """Write the state of this rank into the store, with a heartbeat."""
        self.state["beat"] += 1
        store.set(f"state/{self.place.rank}", json.dumps(self.state))

    def enter(self, collective: str) -> None:
        """Note that this rank is in a collective, where it waits for the others."""
        self.state["entered"] = collective
        self.publish(self.store)

    def run(self) -> None:
        """Do all steps; the first error ends it."""
        steps = (self.arrive, self.use_device, self.make_group, self.reduce, self.meet_all)
        for step, do in zip(STEPS, steps, strict=True):
            began = time.monotonic()
            try:
                self.inject(step)
                do()
            except Exception as error:
                self.state["trouble"] = f"{step}: {first_line(error)}"
                return
            self.state["entered"] = None
            self.state["done"][step] = time.monotonic() - began
            self.publish(self.store)

    def inject(self, step: str) -> None:
        """The failures that --inject asks of this rank."""
        if f"die:{self.place.rank}:{step}" in self.options.inject:
            os.kill(os.getpid(), signal.SIGKILL)
        if f"hang:{self.place.rank}:{step}" in self.options.inject:
            time.sleep(1e6)

    def arrive(self) -> None:
        self.enter("arrival")
        self.store.add("arrivals", 1)
        while self.store.add("arrivals", 0) < self.place.size:
            time.sleep(0.05)

    def use_device(self) -> None:
        torch = self.torch = import_torch()
        self.device = choose_device(torch, self.options.device, self.place.local_rank)
        self.backend = choose_backend(torch, self.device)
        kind = "cpu" if self.device.type == "cpu" else "accelerator"
        used = self.options.memory or DEFAULT_MEMORY[kind]
        block = torch.full((used // 4,), 7, dtype=torch.int32, device=self.device)
        block += 1
        if int((block != 8).sum()):
            raise RuntimeError(f"{format_bytes(used)} of memory do not keep what is written")
        self.state["facts"] = read_facts(torch, self.device, self.backend)

    def make_group(self) -> None:
        distributed = self.torch.distributed
        self.enter("group")
        distributed.init_process_group(
            self.backend,
            store=distributed.PrefixStore("group", self.store),
            rank=self.place.rank,
            world_size=self.place.size,
            timeout=datetime.timedelta(seconds=2 * self.options.timeout),
        )

    def reduce(self) -> None:
        torch, ranks = self.torch, self.place.size
        numbers = torch.arange(ELEMENTS, dtype=torch.int64, device=self.device) % 5 + 1
        right = numbers * (ranks * (ranks + 1) // 2)
        numbers *= self.place.rank + 1
        self.enter("reduction")
        torch.distributed.all_reduce(numbers)
        wrong = int((numbers != right).sum())
        if wrong:
            raise RuntimeError(f"the answer is wrong in {wrong} of {ELEMENTS} elements")

    def meet_all(self) -> None:
        self.enter("barrier")
        on_device = {} if self.device.type == "cpu" else {"device_ids": [self.device.index]}
        self.torch.distributed.barrier(**on_device)
        synchronize(self.torch, self.device)


def read_facts(torch: Any, device: Any, backend: str) -> dict[str, Any]:
    """Versions, device, memory, compute capability and NUMA nodes of this rank."""
    run = describe_run(torch, device)
    facts = {name: run[name] for name in ("torch", "python", "cuda", "rocm", "device_model")}
    cpus = os.sched_getaffinity(0)
    nodes = ",".join(str(node) for node, near in read_topology().nodes.items() if near & cpus)
    facts |= {"backend": backend, "memory_free_bytes": free_memory(torch, device)}
    facts |= {"numa_nodes": nodes, "device_numa_node": None}
    if device.type != "cpu":
        with contextlib.suppress(AttributeError, RuntimeError, TypeError):
            properties = torch.get_device_module(device.type).get_device_properties(device)
            facts["compute_capability"] = getattr(properties, "gcnArchName", None)
            if torch.version.cuda:
                facts["compute_capability"] = f"{properties.major}.{properties.minor}"
            ids = (properties.pci_domain_id, properties.pci_bus_id, properties.pci_device_id)
            facts["device_numa_node"] = find_numa_node("{:04x}:{:02x}:{:02x}.0".format(*ids))
    return facts


class Link(threading.Thread):
    """Writes the state of this rank into the store and, on rank 0, reads that of all others. A
    thread, because a store that cannot be reached any more may never answer."""

    def __init__(self, store: Any, steps: Steps) -> None:
        super().__init__(daemon=True)
        self.store, self.steps, self.place = store, steps, steps.place
        self.contact = time.monotonic()
        self.verdict: bool | None = None
        self.lost: str | None = None
        self.states: dict[int, dict[str, Any]] = {}
        """On rank 0, the last state of each rank that has arrived."""
        self.heard: dict[int, float] = {}
        """When the heartbeat of a rank was last seen to change."""
        self.moved = self.contact
        """When a rank was last seen to arrive or to finish a step."""

    def run(self) -> None:
        """Exchange states until the store is gone."""
        try:
            while True:
                self.steps.publish(self.store)
                if self.place.rank == 0:
                    self.read_states()
                elif self.store.check(["verdict"]):
                    self.verdict = json.loads(self.store.get("verdict"))
                self.contact = time.monotonic()
                time.sleep(BEAT_SECONDS)
        except RuntimeError as error:
            self.lost = first_line(error)

    def read_states(self) -> None:
        """Read the states of all ranks, and note which heartbeats go on."""
        for rank in range(self.place.size):
            if rank in self.states or self.store.check([f"state/{rank}"]):
                state = json.loads(self.store.get(f"state/{rank}"))
                before = self.states.get(rank, {"beat": 0, "done": None})
                if state["beat"] != before["beat"]:
                    self.heard[rank] = time.monotonic()
                if state["done"] != before["done"]:
                    self.moved = time.monotonic()
                self.states[rank] = state

    def name_verdict(self, rank: int) -> str:
        """What became of a rank."""
        state = self.states.get(rank)
        if state is None:
            return "never arrived"
        if len(state["done"]) == len(STEPS):
            return "ok"
        if time.monotonic() - self.heard[rank] > GONE_SECONDS:
            return "gone"
        if state["trouble"]:
            return "failed"
        return "waits" if state["entered"] else "hangs"

    def wait_for_end(self, timeout: float) -> None:
        """As rank 0: return once all ranks are done, or a failure has had time to settle."""
        failed_at: float | None = None
        while self.lost is None:
            verdicts = {rank: self.name_verdict(rank) for rank in range(self.place.size)}
            if set(verdicts.values()) == {"ok"}:
                return
            has_failed = not {"gone", "failed"}.isdisjoint(verdicts.values())
            has_failed |= time.monotonic() - self.moved > timeout
            failed_at = (failed_at or time.monotonic()) if has_failed else None
            if failed_at and time.monotonic() - failed_at > SETTLE_SECONDS:
                return
            time.sleep(0.05)

    def wait_for_verdict(self, timeout: float) -> bool:
        """As any other rank: what rank 0 concludes. Raises RuntimeError without its store."""
        while self.verdict is None:
            silent = time.monotonic() - self.contact
            if self.lost or silent > timeout:
                raise RuntimeError(self.lost or f"no answer of the store for {silent:.0f} s")
            time.sleep(0.05)
        return self.verdict


def find_problems(
    states: dict[int, dict[str, Any]],
    found: dict[str, list[int]],
    missing: Sequence[str],
    timeout: float,
) -> tuple[list[str], list[str]]:
    """What is wrong, and what to type next; only the cause, not the ranks that wait for it."""
    problems, advice = [], []
    address, port = find_store()
    if absent := found.get("never arrived"):
        where = f", and no rank of {', '.join(missing)}" if missing else ""
        problems.append(f"{name_ranks(absent)} never arrived within {timeout:g} s{where}")
        probe = f'getent hosts {address}; bash -c "echo > /dev/tcp/{address}/{port}"'
        advice.append(f"ssh {missing[0] if missing else 'THAT_NODE'} '{probe}'")
    for rank in (found.get("gone", []) + found.get("hangs", []))[:8]:
        state = states[rank]
        is_gone = rank in found.get("gone", [])
        what = "is gone: dead, stopped or cut off" if is_gone else "hangs"
        after = [*state["done"], "its start"][len(state["done"]) - 1]
        problems.append(f"rank {rank} on {state['host']} {what}, after {after}")
        look = "dmesg -T | tail -n 40" if is_gone else f"py-spy dump --native --pid {state['pid']}"
        advice.append(f"ssh {state['host']} '{look}'")
    if not problems:  # otherwise the errors follow from a rank that is not there
        texts = {rank: states[rank]["trouble"] for rank in found.get("failed", [])}
        for text in dict.fromkeys(texts.values()):
            problems.append(f"{name_ranks([r for r in texts if texts[r] == text])}: {text}")
        waits = found.get("waits", [])
        if waits and not problems:
            step = states[waits[0]]["entered"]
            problems.append(f"{name_ranks(waits)} entered {step}, and it did not end in "
                            f"{timeout:g} s: the network for the data")  # fmt: skip
        if problems:
            variable = "GLOO" if states[0]["facts"].get("backend") == "gloo" else "NCCL"
            names = ", ".join(name for _, name in socket.if_nameindex() if name != "lo")
            advice.append(f"{variable}_SOCKET_IFNAME=NAME ...    # here: {names or 'only lo'}")
            advice.append("NCCL_DEBUG=INFO ...    # which network does it use?")
    for name in ("torch", "python", "cuda", "rocm", "backend", "device_model"):
        values = {rank: one["facts"].get(name) for rank, one in states.items() if one["facts"]}
        odd = [rank for rank, value in values.items() if value != values.get(0)]
        if odd and 0 in values:
            other = f"{name} is {values[odd[0]]}, on rank 0 it is {values[0]}"
            problems.append(f"{name_ranks(odd)}: {other}")
    return problems, advice


def print_results(link: Link, report: Report, options: argparse.Namespace) -> bool:
    """Print the table, what is wrong, and what to type next; True if all ranks can talk."""
    states = link.states
    nodelist = options.hosts or os.environ.get("SLURM_STEP_NODELIST", "")
    expected = [name.split(".")[0] for name in expand_nodelist(nodelist)] if nodelist else []
    seen = {rank: state["host"].split(".")[0] for rank, state in sorted(states.items())}
    hosts = list(dict.fromkeys([*expected, *seen.values()]))
    found: dict[str, list[int]] = {}
    far: list[int] = []
    for rank in range(link.place.size):
        state = states.get(rank, {"done": {}, "facts": {}})
        verdict = link.name_verdict(rank)
        found.setdefault(verdict, []).append(rank)
        row: Row = {"rank": rank, "node": hosts.index(seen[rank]) if rank in seen else None}
        names = ("device_model", "memory_free_bytes", "numa_nodes", "device_numa_node")
        row |= {name: state["facts"].get(name) for name in names}
        row |= {"reached": next(reversed(state["done"]), None), "verdict": verdict}
        row |= {f"{step}_seconds": state["done"].get(step) for step in STEPS}
        report.rows.append(row)
        numa = row["device_numa_node"]
        if numa is not None and str(numa) not in row["numa_nodes"].split(","):
            far.append(rank)
    shown = [row for row in report.rows if row["verdict"] != "ok"] or report.rows
    cells = [
        (row["rank"], seen.get(row["rank"]), row["device_model"],
         format_bytes(row["memory_free_bytes"] or 0), row["reached"], row["verdict"])
        for row in shown[:SHOWN_RANKS]
    ]  # fmt: skip
    headings = ("rank", "node", "device", "free memory", "reached", "verdict")
    print(format_table(headings, cells), flush=True)
    if far:
        report.note(f"{name_ranks(far)}: not bound to the NUMA node of the device (numa_bind.py)")
    missing = [name for name in expected if name not in seen.values()]
    problems, advice = find_problems(states, found, missing, options.timeout)
    lines = [f"problem: {text}" for text in problems] + [f"next: {text}" for text in advice]
    if not problems:
        count = len(set(seen.values()))
        lines = [f"all {len(seen)} ranks on {count} node{'' if count == 1 else 's'} can talk"]
    print("\n".join(lines), file=sys.stderr)
    header = {**states[0]["facts"], "ranks": link.place.size, "nodes": len(hosts)}
    report.details = {"header": header, "problems": problems, "can_talk": not problems}
    report.complete = True
    return not problems


def run_rank(place: Place, options: argparse.Namespace, report: Report) -> bool:
    """Check as one of the ranks; True if all can talk."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # no stack traces among the findings
    torch = import_torch()
    try:
        store = open_store(torch, place, "check", options.timeout)
        steps = Steps(options, place, store)
        # Its own connection, because one that waits for the store blocks all other calls.
        own = open_store(torch, place, "check", options.timeout, hosts=False)
        link = Link(own, steps)
        steps.start()
        link.start()
        if place.rank:
            return link.wait_for_verdict(options.timeout)
        link.wait_for_end(options.timeout)
        usable = print_results(link, report, options)
        store.set("verdict", json.dumps(usable))
        time.sleep(3 * BEAT_SECONDS)  # the others read it from this process
    except RuntimeError as error:
        address, port = find_store()
        where = f"rank {place.rank} on {socket.gethostname()}"
        print(
            f"problem: {where} cannot reach the store of rank 0 at {address}:{port}: "
            f"{first_line(error)}\nnext: ip -br addr; getent hosts {address}",
            file=sys.stderr,
        )
        return False
    return usable


def injection(text: str) -> str:
    """`die:2:barrier`, `hang:2:reduction` or `absent:1`."""
    if not re.fullmatch(rf"(die|hang):\d+:({'|'.join(STEPS[1:])})|absent:\d+", text):
        raise argparse.ArgumentTypeError(f"'{text}': see --help; steps: {', '.join(STEPS[1:])}")
    return text


def build_parser() -> Parser:
    parser = Parser(__doc__, "torch_distributed_check", __version__, METHOD, PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    add("--memory", type=size, help="memory to fill per rank (default: 1GiB, on a CPU 64MiB)")
    add("--hosts", metavar="LIST",
        help="nodes that should be there, such as node[01-04] (default: those of the Slurm job)")
    add("--inject", type=injection, action="append", default=[], metavar="FAULT",
        help="a failure to inject: die:RANK:STEP, hang:RANK:STEP or absent:RANK")
    # fmt: on
    add_rank_options(parser)
    parser.set_defaults(timeout=30.0)
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    place = place_or_launch(options, arguments, 1, grace=options.timeout + 30)
    if f"absent:{place.rank}" in options.inject:
        return 0
    report = Report("torch_distributed_check", __version__, METHOD, options.json)
    usable = run_rank(place, options, report)
    report.save()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if usable else 1)  # a step that hangs in a thread would keep the process alive


if __name__ == "__main__":
    start(main)
