#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Which rank called a different collective than the others, and how could you have seen it?

If one rank of a group calls another collective, with another shape or in another order, the job
usually hangs, and half an hour later every rank reports a timeout. `play` shows such faults with
real ranks of gloo, and what names the rank: the flight recorder, `TORCH_DISTRIBUTED_DEBUG=DETAIL`,
or a monitored barrier before each collective. `read` compares the flight recorder dumps of a job.

## How dumps are compared

Each rank numbers the collectives of a group. At the first number at which ranks differ in
operation, shape or data type, the smaller side is named, or both where they are equal. If ranks 0
and 1 have all_reduce as number 3 and rank 2 has broadcast, rank 2 is named, at 3. Otherwise it
names the ranks that have not reached the number at which others wait. all_to_all, gather, scatter
and the uneven forms may differ in shape. A dump is a pickle, which can run code: only lists,
numbers and text are accepted.

## How to run

    python collective_mismatch.py play shape --by recorder --keep dumps
    # a real job with NCCL: dumps are written when a collective times out
    export TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1
    export TORCH_FR_DUMP_TEMP_FILE=/shared/fr/rank_
    python collective_mismatch.py read /shared/fr
    # before the timeout, and with gloo, which writes no dumps: in the program
    from collective_mismatch import keep_ready
    keep_ready("/shared/fr", rank)
    # and when it hangs
    touch /shared/fr/dump_now

A good answer from `play`: the recorder and DETAIL name every fault, the barrier only the missing
rank. From `read`: `no rank differs`, or the rank, its collective and its line of code.

Exit status: 0 each fault was named as it should be, or no rank differs; 1 otherwise; 2 usage error.
"""

import argparse
import datetime
import io
import itertools
import json
import os
import pickle
import re
import sys
import threading
import time
import types
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, duration, positive_int, start
from kit.device import import_torch
from kit.ranks import Place, first_line, place_or_launch
from kit.report import Report, Row, format_spans, format_table

__version__ = "0.2.0"
METHOD = 1

PROFILES = {
    "demo": ["play", "--timeout", "2s"],
    "full": ["play", "--ranks", "8", "--timeout", "5s"],
}
FAULTS = {
    "op": (["all_reduce"], ["broadcast"]),
    "shape": (["all_reduce"], ["all_reduce 2x2"]),  # as many elements: gloo reports nothing
    "order": (["all_reduce", "broadcast"], ["broadcast", "all_reduce"]),
    "missing": (["all_reduce"], []),
}
"""What the ranks call, and what the last one calls."""
CAN_NAME = {"recorder": tuple(FAULTS), "detail": tuple(FAULTS), "barrier": ("missing",)}
PLAYED = ("fault", "way", "named", "ranks", "words")
COLUMNS = ("verdict", "group", "number", "ranks", "words")
UNEVEN = ("gather", "scatter", "all_to_all", "all_to_all_single", "coalesced")
LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3", "<frozen")


class Call(NamedTuple):
    """A collective as one rank has called it."""

    operation: str
    shapes: str
    types: str
    state: str
    site: str

    def alike(self) -> tuple[str, ...]:
        """What has to be the same on all ranks."""
        is_uneven = self.operation in UNEVEN or "_v" in self.operation
        return (self.operation, self.types) if is_uneven else self[:3]

    def __str__(self) -> str:
        return f"{self.operation} {self.shapes} {self.types} at {self.site}"


class Group(NamedTuple):
    """A process group: its members, and the calls of each rank by number."""

    name: str
    members: tuple[int, ...]
    calls: dict[int, dict[int, Call]]


class PlainUnpickler(pickle.Unpickler):
    """Builds lists, numbers and text, and nothing that needs code."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse. Raises UnpicklingError."""
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def read_call(entry: dict[str, Any]) -> Call:
    """An entry of a dump."""
    inputs, outputs = (
        " ".join(f"[{'x'.join(map(str, shape))}]" for shape in entry[name])
        for name in ("input_sizes", "output_sizes")
    )
    backend, _, operation = entry["profiling_name"].rpartition(":")
    is_done = backend == "gloo" and entry.get("retired")  # gloo never sets the state
    sites = [(frame["filename"], frame["line"]) for frame in entry.get("frames") or []]
    own = [site for site in sites if not any(folder in site[0] for folder in LIBRARIES)]
    file, line = next(iter(own or sites), ("?", 0))
    return Call(
        operation,
        inputs if inputs == outputs else f"{inputs} to {outputs}",
        "/".join(dict.fromkeys([*entry["input_dtypes"], *entry["output_dtypes"]])),
        "completed" if is_done else str(entry["state"]),
        f"{Path(file).name}:{line}",
    )


def read_groups(dumps: Mapping[int, bytes]) -> list[Group]:
    """All groups of one job, from the dump of each rank. Raises UsageError."""
    groups: dict[tuple[str, tuple[int, ...]], Group] = {}
    for rank, data in sorted(dumps.items()):
        try:
            document = PlainUnpickler(io.BytesIO(data)).load()
            config = document["pg_config"]
            for entry in (entry for entry in document["entries"] if not entry["is_p2p"]):
                number, description = map(str, entry["process_group"])
                name = description if description == "default_pg" else f"group {number}"
                members = tuple(json.loads(config[number]["ranks"]) if number in config else ())
                # A member with a dump and no call of this group has called nothing.
                empty: dict[int, dict[int, Call]] = {one: {} for one in members if one in dumps}
                group = groups.setdefault((name, members), Group(name, members, empty))
                # Coalesced operations share a number: the first one counts.
                calls = group.calls.setdefault(rank, {})
                calls.setdefault(int(entry["collective_seq_id"]), read_call(entry))
        except (pickle.UnpicklingError, ValueError, EOFError, LookupError, TypeError) as error:
            words = f"the file of rank {rank} is not a whole flight recorder dump"
            raise UsageError(f"{words}: {error}") from error
    return list(groups.values())


def find_difference(group: Group) -> Row | None:
    """The first number at which ranks of a group differ, the smaller sides, and what all call."""
    # Older calls have been overwritten in some of the ring buffers.
    first = max((min(calls) for calls in group.calls.values() if calls), default=0)
    for number in sorted({number for calls in group.calls.values() for number in calls}):
        by_call: dict[tuple[str, ...], list[int]] = {}
        for rank, calls in sorted(group.calls.items()):
            if number in calls and number >= first:
                by_call.setdefault(calls[number].alike(), []).append(rank)
        if len(by_call) > 1:
            break
    else:
        return None
    sides = sorted(by_call.values(), key=lambda ranks: (len(ranks), -ranks[0]))
    words = "; ".join(
        f"rank {format_spans(ranks)}: {group.calls[ranks[0]][number]}" for ranks in sides
    )
    ours, theirs = group.calls[sides[0][0]], group.calls[sides[-1][0]]
    kind = "op" if ours[number].operation != theirs[number].operation else "shape"
    later = [calls[number + 1].alike() for calls in (theirs, ours) if number + 1 in calls]
    if later == [ours[number].alike(), theirs[number].alike()]:
        kind = "order"
        words += f"; rank {format_spans(sides[0])} has them in another order"
    is_even = len(sides[-2]) == len(sides[-1])
    named = [rank for side in (sides if is_even else sides[:-1]) for rank in side]
    return make_row(kind, group, number, named, words)


def find_missing(group: Group) -> Row | None:
    """The ranks that have not come to the collective in which others wait."""
    last = {rank: max(calls, default=0) for rank, calls in group.calls.items()}
    front = max(last.values())

    def waits(rank: int) -> bool:
        call = group.calls[rank].get(last[rank])
        return call is not None and call.state != "completed"

    waiting = sorted(rank for rank in last if last[rank] == front and waits(rank))
    behind = sorted(rank for rank in last if last[rank] < front)
    if not waiting or not behind:
        return None
    # A rank that is behind and waits itself is held up by another one.
    named = [rank for rank in behind if not waits(rank)] or behind
    words = f"rank {format_spans(waiting)}: waits in {group.calls[waiting[0]][front]}"
    if before := group.calls[named[0]].get(last[named[0]]):
        words = f"rank {named[0]}: was last in {before}; {words}"
    return make_row("missing", group, front, named, words)


def make_row(kind: str, group: Group, number: int, ranks: Iterable[int], words: str) -> Row:
    """What differs in a group, or `ok`."""
    return dict(zip(COLUMNS, (kind, group.name, number, format_spans(ranks), words), strict=True))


def compare_dumps(dumps: Mapping[int, bytes]) -> list[Row]:
    """What differs in each group, causes first, or what all call. Raises UsageError."""
    rows = []
    for group in read_groups(dumps):
        last = max(number for calls in group.calls.values() for number in calls)
        found = find_difference(group) or find_missing(group)
        if absent := sorted(set(group.members) - dumps.keys()):
            rows.append(make_row("no dump", group, last, absent, "no file with this rank"))
        elif not found:
            call = next(calls[last] for calls in group.calls.values() if last in calls)
            found = make_row("ok", group, last, group.calls, f"all ranks call {call}")
        rows += [found] if found else []
    order = ("op", "order", "shape", "missing", "no dump", "ok")
    return sorted(rows, key=lambda row: order.index(row["verdict"]))


def dump_recorder(since_ns: int = 0) -> bytes:
    """What the flight recorder has kept since a time, with the members of gloo's groups."""
    torch = import_torch()
    spared = "torch._inductor" not in sys.modules  # a dump would import it, with 800 modules
    if spared:
        torch._inductor = types.ModuleType("torch._inductor")
    try:
        document = pickle.loads(torch._C._distributed_c10d._dump_fr_trace())
    finally:
        if spared:
            del torch._inductor
    kept = [one for one in document["entries"] or [] if one["time_created_ns"] >= since_ns]
    distributed = torch.distributed
    config = {
        str(name): {
            "name": str(name),
            "desc": "default_pg" if group is distributed.group.WORLD else "undefined",
            "ranks": str(distributed.get_process_group_ranks(group)),
        }
        for group, name in distributed.distributed_c10d._world.pg_names.items()
    }
    return pickle.dumps({**document, "entries": kept, "pg_config": config})


def keep_ready(folder: str | Path, rank: int, interval: float = 2.0) -> None:
    """Write this rank's dump whenever a file `dump_now` in the folder is touched.

    A rank that hangs in a collective does not run Python's signal handlers; this thread goes on.
    """
    request, partial = Path(folder) / "dump_now", Path(folder) / f".rank_{rank}"

    def wait_for_requests(answered: float) -> None:
        while True:
            time.sleep(interval)
            if request.exists() and (asked := request.stat().st_mtime) > answered:
                partial.write_bytes(dump_recorder())
                partial.replace(Path(folder) / f"rank_{rank}")
                answered = asked

    old = request.stat().st_mtime if request.exists() else 0.0
    threading.Thread(target=wait_for_requests, args=(old,), daemon=True).start()


def start_collective(torch: Any, name: str) -> Any:
    """Start one; what has to be waited for."""
    if name == "broadcast":
        return torch.distributed.broadcast(torch.ones(4), 0, async_op=True)
    shape = (2, 2) if name == "all_reduce 2x2" else (4,)
    return torch.distributed.all_reduce(torch.ones(shape), async_op=True)


def play_fault(
    torch: Any, store: Any, place: Place, fault: str, way: str, timeout: float
) -> tuple[list[str], dict[int, bytes]]:
    """One rank: two good collectives, then the fault. The errors and dumps of all ranks."""
    distributed, rank, size = torch.distributed, place.rank, place.size
    level = distributed.DebugLevel.DETAIL if way == "detail" else distributed.DebugLevel.OFF
    distributed.set_debug_level(level)
    own = distributed.PrefixStore(f"{fault}/{way}", store)
    limit = datetime.timedelta(seconds=timeout)
    began_ns = time.time_ns()
    distributed.init_process_group("gloo", store=own, rank=rank, world_size=size, timeout=limit)
    for _ in range(2):
        distributed.all_reduce(torch.ones(4))
    # Late enough for all ranks to have called, and before the timeout.
    delay = timeout / 2 if way == "recorder" else 0
    dump = threading.Timer(delay, lambda: own.set(f"dump/{rank}", dump_recorder(began_ns)))
    dump.start()
    calls = FAULTS[fault][rank == size - 1]
    error = ""
    try:
        if not calls:
            own.wait([f"error/{other}" for other in range(size - 1)])  # until all others gave up
        elif way == "barrier":
            torch.distributed.monitored_barrier(timeout=limit, wait_all_ranks=True)
        for work in [start_collective(torch, name) for name in calls]:
            work.wait()
    except RuntimeError as raised:
        error = str(raised)
    dump.join()
    own.set(f"error/{rank}", error)
    # A rank that leaves takes the connections of the others along: this waits for all.
    errors = [own.get(f"error/{other}").decode() for other in range(size)]
    distributed.destroy_process_group()
    return errors, {other: own.get(f"dump/{other}") for other in range(size)}


def name_by_torch(errors: Sequence[str]) -> tuple[str, str]:
    """The ranks that torch's own messages name, and their words.

    DETAIL: each rank's message begins with its own call, and the smaller side is named. What it
    says of another rank's call is not used, because torch 2.13 misreads some shapes.
    """
    sides: dict[str, list[int]] = {}
    pattern = r"Rank (\d+) is running collective: CollectiveFingerPrint\((.*?)(?:, TensorDevice|\))"
    for error in errors:
        if found := re.search(r"Ranks? ([\d, ]+) failed to pass monitoredBarrier[^\n]*", error):
            return found[1].strip(), found[0]
        if found := re.search(pattern, error):
            sides.setdefault(found[2], []).append(int(found[1]))
    if len(sides) < 2:
        return "", first_line(RuntimeError(errors[0])) if errors else "nothing"
    ordered = sorted(sides.items(), key=lambda side: len(side[1]))
    words = "; ".join(f"rank {format_spans(ranks)}: {call}" for call, ranks in ordered)
    return format_spans(ordered[0][1]), words


def play_faults(place: Place, options: argparse.Namespace, report: Report) -> bool:
    """Play all faults as one of the ranks; rank 0 prints. True if all went as expected."""
    os.environ |= {"TORCH_FR_BUFFER_SIZE": "1000", "GLOO_SOCKET_IFNAME": "lo"}
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    torch = import_torch()
    if not hasattr(torch._C._distributed_c10d, "_dump_fr_trace"):
        raise UsageError(f"torch {torch.__version__} has no flight recorder for gloo; 2.13 has")
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = torch.distributed.TCPStore(address, port, place.size, place.rank == 0)
    odd = str(place.size - 1)
    for fault, way in itertools.product(options.names or FAULTS, options.by):
        errors, dumps = play_fault(torch, store, place, fault, way, options.timeout)
        if place.rank:
            continue
        if way == "recorder":
            first = compare_dumps(dumps)[0]
            ranks, words = first["ranks"] if first["verdict"] != "ok" else "", first["words"]
            for rank, data in dumps.items() if options.keep else ():
                path = Path(options.keep) / fault / f"rank_{rank}"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
        else:
            ranks, words = name_by_torch([error for error in errors if error])
        row = (fault, way, ranks == odd, ranks or None, words)
        report.rows.append(dict(zip(PLAYED, row, strict=True)))
        if ranks != (odd if fault in CAN_NAME[way] else ""):
            report.note(f"UNEXPECTED: {fault}, {way}: {words}")
    store.set(f"bye/{place.rank}", "1")
    if place.rank == 0:
        store.wait([f"bye/{rank}" for rank in range(place.size)])
        print(format_table(PLAYED, [list(row.values()) for row in report.rows]))
    return not report.notes


def read_folders(options: argparse.Namespace, report: Report) -> bool:
    """Compare the dumps of each folder and print what differs; True if nothing does."""
    for name in options.names:
        jobs: dict[Path, dict[int, bytes]] = {}  # by folder
        for path in sorted(Path(name).rglob("[!.]*[0-9]")):
            if path.is_file():
                rank = int(re.findall(r"\d+$", path.name)[0])
                jobs.setdefault(path.parent, {})[rank] = path.read_bytes()
        if not jobs:
            raise UsageError(f"{name}: no dumps here (files with a name that ends with a rank)")
        for folder, dumps in jobs.items():
            rows = compare_dumps(dumps)
            print(f"{folder}:\n{format_table(COLUMNS, [list(row.values()) for row in rows])}")
            report.rows += rows
    if not report.rows:
        raise UsageError("the dumps hold no collective: set TORCH_FR_BUFFER_SIZE")
    usable = all(row["verdict"] == "ok" for row in report.rows)
    if usable:
        print("no rank differs")
    return usable


def build_parser() -> Parser:
    parser = Parser(__doc__, "collective_mismatch", __version__, METHOD, PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    add("task", choices=("play", "read"), help="play faults, or read the dumps of a job")
    add("names", nargs="*", metavar="FAULT|FOLDER",
        help=f"for play: {', '.join(FAULTS)} (default: all); for read: folders with dumps")
    add("--by", nargs="+", choices=tuple(CAN_NAME), default=list(CAN_NAME),
        help="ways to name the rank (default: all)")
    add("--ranks", type=positive_int, default=3, metavar="N",
        help="ranks of play; the last one differs (default: 3)")
    add("--timeout", type=duration, default=3.0, metavar="TIME",
        help="timeout of each collective (default: 3s)")
    add("--keep", metavar="FOLDER", help="keep the flight recorder dumps of play in this folder")
    # fmt: on
    parser.set_defaults(device="cpu")
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    if options.task == "play" and (unknown := set(options.names) - set(FAULTS)):
        raise UsageError(f"there is no fault {min(unknown)}: write {', '.join(FAULTS)}")
    place = place_or_launch(options, arguments, 3) if options.task == "play" else None
    report = Report("collective_mismatch", __version__, METHOD, options.json)
    usable = play_faults(place, options, report) if place else read_folders(options, report)
    report.complete = True
    report.save()
    return int(not usable)


if __name__ == "__main__":
    start(main)
