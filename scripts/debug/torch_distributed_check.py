#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Can all ranks of all nodes talk to each other, and if not, which one is the reason?

A job that hangs at the start prints nothing for half an hour, and then an error on every rank. This
tool goes through the same steps with a short `--timeout`, and names the ranks, and where it can the
nodes, that did not come.

## What each rank does

1. `arrival`: reach the store of rank 0 (MASTER_ADDR:MASTER_PORT), and wait for the others.
2. `device`: fill device memory with numbers and read them back.
3. `group`: `torch.distributed.init_process_group` with the backend of the device.
4. `reduction`: an all_reduce of integers, checked element by element: over n ranks, rank r adds
   (r + 1) (i mod 5 + 1) to element i, so the sum is (i mod 5 + 1) n (n + 1) / 2.
5. `barrier`.

Each rank writes how far it is into the store over a connection of its own, with a heartbeat. So
rank 0 can tell a rank that `never arrived`, one that is `gone` (dead or cut off: no heartbeat), one
that `hangs` (heartbeat, but it does not enter the step), one that `failed` with an error, and the
ranks that only `wait` for those in a collective. Missing nodes are named if `--hosts` or Slurm say
which nodes there should be.

The seconds of each step show what starting a job costs; nothing is benchmarked.

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

## A good answer

`all N ranks on M nodes can talk`, exit status 0, within seconds. Otherwise the lines below the
table say which rank is the reason, and what to type next. The JSON has no names of hosts.

Exit status: 0 all ranks can talk; 1 they cannot, an answer is wrong, or versions differ; 2 wrong
use.
"""

from __future__ import annotations

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
from kit.ranks import Place, add_rank_options, choose_backend, first_line, place_or_launch
from kit.report import Report, Row, format_bytes, format_spans, format_table

__version__ = "0.2.0"
METHOD = 1

PROFILES = {
    "demo": ["--device", "cpu", "--memory", "16MiB", "--timeout", "30s"],
    "full": ["--timeout", "60s"],
}
RANKS = {"demo": 2, "full": "accelerators"}
GPUS = {"full": 2}
STEPS = ("arrival", "device", "group", "reduction", "barrier")
UNITS = {
    **dict.fromkeys(("rank", "node", "device_numa_node"), "1"),
    **dict.fromkeys([f"{step}_seconds" for step in STEPS], "s"),
    **dict.fromkeys([f"memory_{s}_bytes" for s in ("used", "free", "total")], "B"),
}
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
            "done": {},
            "in": None,
            "trouble": None,
            "facts": {},
            "late": False,
        }
        """What this rank writes into the store: seconds of the steps done, the collective that it
        has entered, what went wrong, and its device and versions."""
        self.began = time.monotonic()
        self.beat = 0

    def publish(self, store: Any) -> None:
        """Write the state of this rank, with a heartbeat."""
        self.beat += 1
        place = {"beat": self.beat, "host": socket.gethostname(), "pid": os.getpid()}
        store.set(f"state/{self.place.rank}", json.dumps({**self.state, **place}))

    def enter(self, collective: str) -> None:
        """Note that this rank is in a collective, where it waits for the others."""
        self.state["in"] = collective
        self.publish(self.store)

    def run(self) -> None:
        """Do all steps; the first error ends it."""
        steps = (self.arrive, self.use_device, self.make_group, self.reduce, self.meet_all)
        for step, do in zip(STEPS, steps, strict=True):
            self.began = time.monotonic()
            try:
                self.inject(step)
                do()
            except Exception as error:
                self.state["trouble"] = f"{step}: {first_line(error)}"
                return
            self.state["in"] = None
            self.state["done"][step] = time.monotonic() - self.began
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
        self.state["facts"]["memory_used_bytes"] = used

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
    facts |= {"backend": backend, "device": device.type, "compute_capability": None}
    facts["memory_free_bytes"] = free_memory(torch, device)
    facts["memory_total_bytes"] = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    facts["numa_nodes"], facts["device_numa_node"] = list_numa_nodes(), None
    if device.type != "cpu":
        facts["memory_total_bytes"] = None
        with contextlib.suppress(AttributeError, RuntimeError, TypeError):
            properties = torch.get_device_module(device.type).get_device_properties(device)
            facts["memory_total_bytes"] = properties.total_memory
            facts["compute_capability"] = getattr(properties, "gcnArchName", None)
            if torch.version.cuda:
                facts["compute_capability"] = f"{properties.major}.{properties.minor}"
            ids = (properties.pci_domain_id, properties.pci_bus_id, properties.pci_device_id)
            address = "{:04x}:{:02x}:{:02x}.0".format(*ids)
            text = Path(f"/sys/bus/pci/devices/{address}/numa_node").read_text()
            facts["device_numa_node"] = int(text) if int(text) >= 0 else None
    return facts


def list_numa_nodes() -> str | None:
    """The NUMA nodes on whose CPUs this process may run: `0`, `0,1`."""
    nodes = []
    for folder in sorted(Path("/sys/devices/system/node").glob("node[0-9]*")):
        spans = re.findall(r"(\d+)(?:-(\d+))?", (folder / "cpulist").read_text())
        cpus = {cpu for a, b in spans for cpu in range(int(a), int(b or a) + 1)}
        if cpus & os.sched_getaffinity(0):
            nodes.append(folder.name[4:])
    return ",".join(nodes) or None


class Link(threading.Thread):
    """Writes the state of this rank into the store and, on rank 0, reads that of all others."""

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
                if state["beat"] != self.states.get(rank, {}).get("beat"):
                    self.heard[rank] = time.monotonic()
                self.states[rank] = state

    def is_gone(self, rank: int) -> bool:
        """Whether a rank that has arrived sends no heartbeat any more."""
        return time.monotonic() - self.heard[rank] > GONE_SECONDS


def watch_step(steps: Steps, timeout: float) -> None:
    """Note where this rank's step takes too long."""
    late = time.monotonic() - steps.began > timeout
    steps.state["late"] = late and steps.is_alive()


def wait_for_end(link: Link, timeout: float) -> None:
    """As rank 0: return once all ranks are done, or a failure has had time to settle."""
    failed_at: float | None = None
    while link.lost is None:
        watch_step(link.steps, timeout)
        states = dict(link.states)
        if len(states) == link.place.size and all(is_done(state) for state in states.values()):
            return
        fails = [
            state["trouble"] or state["late"] or (not is_done(state) and link.is_gone(rank))
            for rank, state in states.items()
        ]
        failed_at = (failed_at or time.monotonic()) if any(fails) else None
        if failed_at and time.monotonic() - failed_at > SETTLE_SECONDS:
            return
        time.sleep(0.05)


def wait_for_verdict(link: Link, timeout: float) -> bool:
    """As any rank but the first: what rank 0 concludes. Raises RuntimeError without its store."""
    while link.verdict is None:
        watch_step(link.steps, timeout)
        silent = time.monotonic() - link.contact
        if link.lost or silent > timeout:
            raise RuntimeError(link.lost or f"no answer of the store for {silent:.0f} s")
        time.sleep(0.05)
    return link.verdict


def is_done(state: dict[str, Any]) -> bool:
    """Whether a rank has done all steps."""
    return len(state["done"]) == len(STEPS)


def name_verdict(link: Link, rank: int) -> str:
    """What became of a rank."""
    state = link.states.get(rank)
    if state is None:
        return "never arrived"
    if is_done(state):
        return "ok"
    if link.is_gone(rank):
        return "gone"
    if state["trouble"]:
        return "failed"
    return "waits" if state["in"] else "hangs"


def list_expected_hosts(option: str | None) -> list[str]:
    """The hosts of --hosts or of the Slurm job: `node[01-03,7],login`."""
    text = option or os.environ.get("SLURM_STEP_NODELIST") or os.environ.get("SLURM_JOB_NODELIST")
    hosts = []
    for head, ranges, tail in re.findall(r"([^,\[]+)(?:\[([^\]]*)\])?([^,\[]*)", text or ""):
        for span in ranges.split(","):
            first, _, last = span.partition("-")
            numbers = range(int(first or 0), int(last or first or 0) + 1)
            names = [f"{n:0{len(first)}d}" for n in numbers] if first else [""]
            hosts += [head.strip() + name + tail for name in names]
    return hosts


def make_rows(link: Link, hosts: list[str]) -> list[Row]:
    """A row per rank, with nodes as numbers."""
    rows = []
    for rank in range(link.place.size):
        state = link.states.get(rank, {"done": {}, "facts": {}})
        facts, done = state["facts"], state["done"]
        row: Row = {"rank": rank, "node": None}
        if "host" in state:
            row["node"] = hosts.index(state["host"].split(".")[0])
        names = ("device", "device_model", "compute_capability", "numa_nodes", "device_numa_node")
        row |= {name: facts.get(name) for name in names}
        row["reached"] = list(done)[-1] if done else None
        row |= {f"{step}_seconds": done.get(step) for step in STEPS}
        row |= {
            f"memory_{s}_bytes": facts.get(f"memory_{s}_bytes") for s in ("used", "free", "total")
        }
        row["verdict"] = name_verdict(link, rank)
        rows.append(row)
    return rows


def name_ranks(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 0-3,7`."""
    return f"rank{'' if len(ranks) == 1 else 's'} {format_spans(ranks)}"


def find_problems(
    link: Link, rows: Sequence[Row], missing: Sequence[str], timeout: float
) -> tuple[list[str], list[str]]:
    """What is wrong, and what to type next; only the cause, not the ranks that wait for it."""
    problems, advice = [], []
    found: dict[str, list[int]] = {}
    for row in rows:
        found.setdefault(row["verdict"], []).append(row["rank"])
    address, port = os.environ["MASTER_ADDR"], os.environ.get("MASTER_PORT", "29500")
    if absent := found.get("never arrived"):
        where = f", and no rank of {', '.join(missing)}" if missing else ""
        problems.append(f"{name_ranks(absent)} never arrived within {timeout:g} s{where}")
        host = missing[0] if missing else "THAT_NODE"
        advice += [
            f"ssh {host} hostname    # is the node up?",
            f"ssh {host} 'getent hosts {address}; bash -c \"echo > /dev/tcp/{address}/{port}\"'",
        ]
    for verdict, what in (("gone", "is gone: dead, stopped or cut off"), ("hangs", "hangs")):
        for rank in found.get(verdict, [])[:8]:
            state = link.states[rank]
            after = list(state["done"])[-1] if state["done"] else "its start"
            problems.append(f"rank {rank} on {state['host']} {what}, after {after}")
            command = f"py-spy dump --native --pid {state['pid']}"
            command = "dmesg -T | tail -n 40" if verdict == "gone" else command
            advice.append(f"ssh {state['host']} '{command}'")
    texts = {rank: link.states[rank]["trouble"] for rank in found.get("failed", [])}
    if not problems:  # otherwise their errors follow from a rank that is not there
        for text in dict.fromkeys(texts.values()):
            problems.append(f"{name_ranks([r for r in texts if texts[r] == text])}: {text}")
        waits = found.get("waits", [])
        if waits and not problems:
            step = link.states[waits[0]]["in"]
            problems.append(f"{name_ranks(waits)} entered {step}, and it did not end in "
                            f"{timeout:g} s: the network for the data")  # fmt: skip
        if problems:
            variable = "GLOO" if link.states[0]["facts"].get("backend") == "gloo" else "NCCL"
            names = [name for _, name in socket.if_nameindex() if name != "lo"]
            advice.append(f"{variable}_SOCKET_IFNAME={names[0] if names else 'eth0'} ...    # this "
                          f"node has {', '.join(names) or 'only lo'}")  # fmt: skip
            advice.append("NCCL_DEBUG=INFO ...    # which network does it use?")
    for name in ("torch", "python", "cuda", "rocm", "backend", "device_model"):
        values = {rank: state["facts"].get(name) for rank, state in link.states.items()
                  if state["facts"]}  # fmt: skip
        odd = sorted(rank for rank, value in values.items() if value != values.get(0))
        if odd and 0 in values:
            problems.append(
                f"{name_ranks(odd)}: {name} is {values[odd[0]]}, on rank 0 it is {values[0]}"
            )
    return problems, advice


def print_results(link: Link, report: Report, options: argparse.Namespace) -> bool:
    """Print the table, what is wrong, and what to type next; True if all ranks can talk."""
    expected = [name.split(".")[0] for name in list_expected_hosts(options.hosts)]
    seen = {rank: state["host"].split(".")[0] for rank, state in sorted(link.states.items())}
    hosts = list(dict.fromkeys([*expected, *seen.values()]))
    rows = report.rows = make_rows(link, hosts)
    missing = [name for name in expected if name not in seen.values()]
    problems, advice = find_problems(link, rows, missing, options.timeout)
    shown = rows if len(rows) <= SHOWN_RANKS else [r for r in rows if r["verdict"] != "ok"]
    cells = [
        (
            row["rank"],
            seen.get(row["rank"]),
            row["device_model"],
            row["memory_free_bytes"] and f"{row['memory_free_bytes'] / 1024**3:.1f}",
            row["numa_nodes"],
            row["device_numa_node"],
            row["reached"],
            row["verdict"],
        )
        for row in shown[:SHOWN_RANKS]
    ]
    headings = ("rank", "node", "device", "free GiB", "NUMA", "of device", "reached", "verdict")
    print(format_table(headings, cells), flush=True)
    far = [
        row["rank"]
        for row in rows
        if str(row["device_numa_node"]) not in ("None", *(row["numa_nodes"] or "").split(","))
    ]
    if far:
        report.note(f"{name_ranks(far)}: not bound to the NUMA node of the device (numa_bind.py)")
    for text in problems:
        print(f"problem: {text}", file=sys.stderr)
        for number, host in enumerate(hosts):  # the JSON can be passed on
            text = re.sub(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", f"node {number}", text)
        report.notes.append(text)
    for text in advice:
        print(f"next: {text}", file=sys.stderr)
    if not problems:
        count = len(set(seen.values()))
        text = f"all {len(rows)} ranks on {count} node{'' if count == 1 else 's'} can talk"
        print(text, file=sys.stderr)
    facts = link.states[0]["facts"]
    report.details = {
        "header": {**facts, "ranks": len(rows), "nodes": len(hosts)},
        "settings": {"timeout_seconds": options.timeout},
        "can_talk": not problems,
    }
    report.complete = True
    return not problems


def open_store(torch: Any, place: Place, timeout: float, is_host: bool) -> Any:
    """A connection to the store of rank 0, unless torchrun has one. Raises RuntimeError."""
    by_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    store = torch.distributed.TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ.get("MASTER_PORT", "29500")),
        place.size,
        is_host and not by_agent,
        datetime.timedelta(seconds=timeout),
        wait_for_workers=False,
    )
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return torch.distributed.PrefixStore(f"check{attempt}", store)


def run_rank(place: Place, options: argparse.Namespace, report: Report) -> bool:
    """Check as one of the ranks; True if all can talk."""
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")  # no stack traces among the findings
    torch = import_torch()
    where = f"rank {place.rank} on {socket.gethostname()}"
    address = ":".join((os.environ["MASTER_ADDR"], os.environ.get("MASTER_PORT", "29500")))
    try:
        store = open_store(torch, place, options.timeout, place.rank == 0)
        steps = Steps(options, place, store)
        # A connection of its own, because one that waits for the store lets no other call in.
        link = Link(open_store(torch, place, options.timeout, is_host=False), steps)
        steps.start()
        link.start()
        if place.rank:
            return wait_for_verdict(link, options.timeout)
        wait_for_end(link, options.timeout)
        usable = print_results(link, report, options)
        store.set("verdict", json.dumps(usable))
        time.sleep(3 * BEAT_SECONDS)  # the others read it from this process
    except RuntimeError as error:
        print(
            f"problem: {where} cannot reach the store of rank 0 at {address}: {first_line(error)}\n"
            f"next: ip -br addr; getent hosts {address.partition(':')[0]}",
            file=sys.stderr,
        )
        return False
    return usable


def injection(text: str) -> str:
    """`die:2:barrier`, `hang:2:reduction` or `absent:1`."""
    if not re.fullmatch(rf"(die|hang):\d+:({'|'.join(STEPS[1:])})|absent:\d+", text):
        raise argparse.ArgumentTypeError(
            f"'{text}': write die:RANK:STEP, hang:RANK:STEP or absent:RANK; the steps are "
            f"{', '.join(STEPS[1:])}"
        )
    return text


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(
        __doc__,
        tool="torch_distributed_check",
        version=__version__,
        method=METHOD,
        demo=PROFILES["demo"],
    )
    add = parser.add_argument
    # fmt: off
    add("--memory", type=size, help="memory to fill per rank (default: 1GiB, on a CPU 64MiB)")
    add("--hosts", metavar="LIST",
        help="nodes that should be there, such as node[01-04] (default: those of the Slurm job)")
    add("--inject", type=injection, action="append", default=[], metavar="FAULT",
        help="a failure to see: die:RANK:STEP, hang:RANK:STEP or absent:RANK")
    # fmt: on
    add_rank_options(parser)
    parser.set_defaults(timeout=30.0)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    options = build_parser().parse_args(arguments)
    place = place_or_launch(options, arguments, 1, grace=options.timeout + 30)
    if isinstance(place, int):
        return place
    if f"absent:{place.rank}" in options.inject:
        return 0
    path = options.json if place.rank == 0 else None
    report = Report("torch_distributed_check", __version__, METHOD, UNITS, path)
    usable = run_rank(place, options, report)
    report.save()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0 if usable else 1)  # a step that hangs in a thread would keep the process alive


if __name__ == "__main__":
    start(main)
