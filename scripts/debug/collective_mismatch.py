#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Which rank called a different collective than the others, and how could you have seen it?

A collective works if all ranks of a group call the same one, with the same shape, in the same
order. If one does not, the job usually hangs, and half an hour later every rank reports a timeout.
`play` shows such faults with real ranks of gloo, and what names the outlier. `read` compares the
flight recorder dumps of a real job.

## The faults

- `op`: one rank calls broadcast where the others call all_reduce
- `shape`: one rank has a tensor of another shape with as many elements (gloo reports nothing)
- `order`: one rank calls the same two collectives in the opposite order
- `missing`: one rank does not come

## What can name the rank

- `recorder`: torch's flight recorder. Each rank keeps its last collectives in a ring buffer, with
  shape, state and call site.
- `detail`: `TORCH_DISTRIBUTED_DEBUG=DETAIL`. torch compares the ranks before each collective and
  raises an error on all of them; slow, for debugging only.
- `barrier`: `torch.distributed.monitored_barrier` (gloo) before each collective. It names ranks
  that do not come, and sees nothing else.

## How dumps are compared

Each rank numbers the collectives of a group. At the first number at which ranks differ in
operation, shape or data type, the smaller side is named, or both where they are equal. If ranks 0
and 1 have all_reduce as number 3 and rank 2 has broadcast, rank 2 is named, at 3. Otherwise the
ranks are named that have not come to the number at which others wait. all_to_all, gather, scatter
and the uneven forms may differ in shape. A dump is a pickle, which can run code: only lists,
numbers and text are accepted.

## How to run

    python collective_mismatch.py play
    python collective_mismatch.py play shape --by recorder --keep dumps
    python collective_mismatch.py read dumps
    # a real job with NCCL: dumps are written when a collective times out
    export TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1
    export TORCH_FR_DUMP_TEMP_FILE=/shared/fr/rank_
    srun python train.py    # Slurm
    pdsh -w node[01-08] TORCH_FR_DUMP_TEMP_FILE=/shared/fr/rank_ torchrun ...    # pdsh
    python collective_mismatch.py read /shared/fr
    # before the timeout, and with gloo, which writes no dumps: in the program
    from collective_mismatch import keep_ready
    keep_ready("/shared/fr", rank)
    # and when it hangs
    touch /shared/fr/dump_now

## A good answer

Of `play`: the recorder and DETAIL name every fault, the barrier only the missing rank. Of `read`:
`no rank differs`, or the rank, its collective and its line of code.

Exit status: 0 each fault was named as it should be, or no rank differs; 1 not so; 2 wrong use.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import io
import json
import os
import pickle
import re
import sys
import tempfile
import threading
import time
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, duration, natural_int, positive_int, start
from kit.device import import_torch
from kit.ranks import Place, first_line, place_or_launch
from kit.report import Report, Row, format_spans, format_table

__version__ = "0.2.0"
METHOD = 1

PROFILES = {
    "demo": ["play", "--timeout", "2s"],
    "full": ["play", "--ranks", "8", "--timeout", "5s"],
}
UNITS = {"play": {"seconds": "s"}, "read": {"count": "1", "number": "1"}}
FAULTS = ("op", "shape", "order", "missing")
WAYS = {"recorder": "flight recorder", "detail": "DETAIL", "barrier": "monitored barrier"}
CAN_NAME = {"recorder": FAULTS, "detail": FAULTS, "barrier": ("missing",)}
UNEVEN = ("gather", "scatter", "all_to_all", "all_to_all_single", "coalesced")
LIBRARIES = ("/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3", "<frozen")
KINDS = ("op", "order", "left out", "shape", "type", "missing", "no dump")


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


class Group(NamedTuple):
    """A process group: its members, and the calls of each rank by number."""

    name: str
    members: tuple[int, ...]
    calls: dict[int, dict[int, Call]]


class Finding(NamedTuple):
    """A difference between ranks."""

    kind: str
    group: str
    number: int
    ranks: list[int]
    words: str


class PlainUnpickler(pickle.Unpickler):
    """Builds lists, numbers and text, and nothing that needs code."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse. Raises UnpicklingError."""
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def name_ranks(ranks: Sequence[int], one: str, many: str) -> str:
    """`rank 3 calls`, `ranks 0-2,5 call`."""
    if len(ranks) == 1:
        return f"rank {ranks[0]} {one}"
    return f"ranks {format_spans(ranks)} {many}"


def read_dump(path: Path) -> dict[str, tuple[tuple[int, ...], dict[int, Call]]]:
    """Members and calls by number of each group in a dump (pickle or JSON). Raises UsageError."""
    try:
        data = path.read_bytes()
        if data.lstrip()[:1] == b"{":
            document = json.loads(data)
        else:
            document = PlainUnpickler(io.BytesIO(data)).load()
        members = {
            str(group.get("name", name)): tuple(
                json.loads(group["ranks"]) if isinstance(group["ranks"], str) else group["ranks"]
            )
            for name, group in document.get("pg_config", {}).items()
        }
        groups: dict[str, tuple[tuple[int, ...], dict[int, Call]]] = {}
        for entry in document["entries"] or []:
            if not entry.get("is_p2p"):
                number, description = map(str, entry["process_group"])
                is_named = description not in ("None", "", "undefined")
                name = description if is_named else f"group {number}"
                if is_named and name != "default_pg":
                    name += f" ({number})"
                ranks = members.get(number) or (members.get("", ()) if number == "0" else ())
                calls = groups.setdefault(name, (ranks, {}))[1]
                add_call(calls, int(entry["collective_seq_id"]), read_call(entry))
        return groups
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except pickle.UnpicklingError as error:
        raise UsageError(f"{path}: not a flight recorder dump: {error}") from error
    except (ValueError, EOFError, LookupError, TypeError, AttributeError) as error:
        raise UsageError(f"{path}: not a flight recorder dump, or cut off") from error


def read_call(entry: dict[str, Any]) -> Call:
    """An entry of a dump."""
    sizes = [[f"[{'x'.join(map(str, size))}]" for size in entry[name]]
             for name in ("input_sizes", "output_sizes")]  # fmt: skip
    inputs, outputs = map(" ".join, sizes)
    backend, _, operation = entry["profiling_name"].rpartition(":")
    types_ = dict.fromkeys([*entry["input_dtypes"], *entry["output_dtypes"]])
    is_done = backend == "gloo" and entry.get("retired")  # gloo never sets the state
    sites = [(frame["filename"], frame["line"]) for frame in entry.get("frames") or []]
    own = [site for site in sites if site[0].endswith(".py")
           and not any(folder in site[0] for folder in LIBRARIES)]  # fmt: skip
    file, line = next(iter(own or sites), ("?", 0))
    return Call(
        operation,
        inputs if inputs == outputs else f"{inputs} to {outputs}",
        "/".join(types_),
        "completed" if is_done else str(entry["state"]),
        f"{Path(file).name}:{line}",
    )


def add_call(calls: dict[int, Call], number: int, call: Call) -> None:
    """Add a call; coalesced operations share a number."""
    if other := calls.get(number):
        operation = call.operation if call.operation == other.operation else "coalesced"
        call = call._replace(operation=operation, shapes=f"{other.shapes} {call.shapes}")
    calls[number] = call


def find_dumps(path: Path) -> dict[Path, list[Path]]:
    """The dumps in a folder and its subfolders, by folder: a job each. Raises UsageError."""
    if path.is_file():
        return {path.parent: [path]}
    found: dict[Path, list[Path]] = {}
    for one in sorted(path.rglob("[!.]*")):
        if re.search(r"\d(\.(pickle|pkl|json))?$", one.name) and one.is_file():
            found.setdefault(one.parent, []).append(one)
    if not found:
        raise UsageError(f"{path}: no dumps here (files with a name that ends with a rank: rank_0)")
    return found


def read_groups(files: Sequence[Path]) -> tuple[list[Group], list[int]]:
    """All groups of the dumps of one job, and the ranks of the dumps. Raises UsageError."""
    dumps = {}
    for path in files:
        found = re.search(r"(\d+)(?:\.\w+)?$", path.name)
        if found is None:
            raise UsageError(f"{path}: the name does not end with a rank, such as rank_0")
        if int(found[1]) in dumps:
            raise UsageError(f"{path}: a second dump of rank {int(found[1])}")
        dumps[int(found[1])] = read_dump(path)
    groups: dict[tuple[str, tuple[int, ...]], Group] = {}
    for rank, dump in sorted(dumps.items()):
        for name, (members, calls) in dump.items():
            members = members or tuple(sorted(r for r, one in dumps.items() if name in one))
            group = groups.setdefault((name, members), Group(name, members, {}))
            group.calls[rank] = calls
    for group in groups.values():  # a member with a dump and no call of this group
        for rank in set(group.members) & dumps.keys():
            group.calls.setdefault(rank, {})
    return list(groups.values()), sorted(dumps)


def find_difference(group: Group) -> Finding | None:
    """The first number at which ranks of a group differ."""
    # Older calls have been overwritten in some of the ring buffers.
    first = max((min(calls) for calls in group.calls.values() if calls), default=0)
    for number in range(first, max(map(max, filter(None, group.calls.values())), default=0) + 1):
        sides: dict[tuple[str, ...], list[int]] = {}
        for rank, calls in sorted(group.calls.items()):
            if number in calls:
                sides.setdefault(calls[number].alike(), []).append(rank)
        if len(sides) > 1:
            ordered = sorted(sides.values(), key=lambda ranks: (len(ranks), -ranks[0]))
            return describe_difference(group, number, ordered)
    return None


def describe_difference(group: Group, number: int, sides: list[list[int]]) -> Finding:
    """What kind of difference it is, the smaller sides, and what each side calls."""
    ours, theirs = group.calls[sides[0][0]], group.calls[sides[-1][0]]
    mine, usual = ours[number], theirs[number]
    kind = "op" if mine.operation != usual.operation else "shape"
    kind = "type" if kind == "shape" and mine.types != usual.types else kind
    words = "; ".join(
        f"{name_ranks(ranks, 'calls', 'call')} {call.operation} {call.shapes} {call.types} at "
        f"{call.site}"
        for ranks in sides
        for call in [group.calls[ranks[0]][number]]
    )
    words += f": collective {number} of {group.name}"
    later = theirs.get(number + 1)
    if later and mine.alike() == later.alike():
        mine_later = ours.get(number + 1)
        is_swapped = mine_later is not None and mine_later.alike() == usual.alike()
        kind = "order" if is_swapped else "left out"
        text = "them in another order" if is_swapped else "left out a collective"
        words += f"; {name_ranks(sides[0], 'has', 'have')} {text}"
    is_even = len(sides[-2]) == len(sides[-1])
    named = sides if is_even else sides[:-1]
    return Finding(kind, group.name, number, sorted(r for side in named for r in side), words)


def find_missing(group: Group) -> Finding | None:
    """The ranks that have not come to the collective in which others wait."""
    last = {rank: max(calls, default=0) for rank, calls in group.calls.items()}
    front = max(last.values(), default=0)

    def waits(rank: int) -> bool:
        call = group.calls[rank].get(last[rank])
        return call is not None and call.state != "completed"

    waiting = sorted(rank for rank in last if last[rank] == front and waits(rank))
    behind = sorted(rank for rank in last if last[rank] < front)
    if not waiting or not behind:
        return None
    # A rank that is behind and waits itself is held up by another one.
    named = [rank for rank in behind if not waits(rank)] or behind
    call = group.calls[waiting[0]][front]
    words = (
        f"{name_ranks(named, 'has', 'have')} not come to collective {front} of {group.name}, in "
        f"which {name_ranks(waiting, 'waits', 'wait')}: {call.operation} {call.shapes} at "
        f"{call.site}"
    )
    if before := group.calls[named[0]].get(last[named[0]]):
        words += f"; rank {named[0]} was last in {before.operation} at {before.site}"
    return Finding("missing", group.name, front, named, words)


def compare_dumps(files: Sequence[Path]) -> tuple[list[Row], list[Finding]]:
    """A row per group and call, and what differs, causes first. Raises UsageError."""
    groups, ranks = read_groups(files)
    findings, rows = [], []
    for group in groups:
        found = find_difference(group) or find_missing(group)
        own = [found] if found else []
        if absent := sorted(set(group.members) - set(ranks)):
            words = f"no dump of {name_ranks(absent, 'is', 'are')} there, of {group.name}"
            own.append(Finding("no dump", group.name, 0, absent, words))
        findings += own
        places: dict[tuple[int, Call | None, bool], list[int]] = {}
        for rank, calls in sorted(group.calls.items()):
            number = max(calls, default=0)
            if found and found.kind != "missing":
                number = min(number, found.number)
            is_named = any(rank in finding.ranks for finding in own)
            places.setdefault((number, calls.get(number), is_named), []).append(rank)
        for (number, call, is_named), members in places.items():
            row: Row = {"ranks": format_spans(members), "count": len(members), "group": group.name}
            row |= {"number": number, **(call or Call(*[None] * 5))._asdict()}
            row["verdict"] = "named" if is_named else "-" if own else "ok"
            rows.append(row)
    rows.sort(key=lambda row: row["verdict"] != "named")
    return rows, sorted(findings, key=lambda finding: KINDS.index(finding.kind))


@contextlib.contextmanager
def without_inductor(torch: Any) -> Iterator[None]:
    """Keep a dump from importing torch._inductor, 800 modules, in a job that hangs."""
    if "torch._inductor" in sys.modules:
        yield
        return
    torch._inductor = types.ModuleType("torch._inductor")
    try:
        yield
    finally:
        del torch._inductor


def write_dump(folder: Path, rank: int, since_ns: int = 0) -> None:
    """Write what this process's flight recorder has kept since a time, with the members of gloo's
    groups, which torch leaves out."""
    torch = import_torch()
    with without_inductor(torch):
        document = pickle.loads(torch._C._distributed_c10d._dump_fr_trace())
    kept = [one for one in document["entries"] or [] if one["time_created_ns"] >= since_ns]
    document["entries"] = kept
    called = {str(entry["process_group"][0]) for entry in kept}
    if not called <= {str(name) for name in document.get("pg_config") or {}}:
        distributed = torch.distributed
        document["pg_config"] = {
            str(name): {
                "name": str(name),
                "desc": "default_pg" if group is distributed.group.WORLD else "undefined",
                "ranks": str(distributed.get_process_group_ranks(group)),
            }
            for group, name in distributed.distributed_c10d._world.pg_names.items()
        }
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".rank_{rank}.{os.getpid()}"
    partial.write_bytes(pickle.dumps(document))
    partial.replace(folder / f"rank_{rank}")


def keep_ready(folder: str | Path, rank: int, interval: float = 2.0) -> threading.Thread:
    """Write this rank's dump whenever a file `dump_now` in the folder is touched.

    A rank that hangs in a collective does not run Python's signal handlers; this thread goes on.
    """
    request = Path(folder) / "dump_now"

    def look() -> int | None:
        return request.stat().st_mtime_ns if request.exists() else None

    seen = look()  # a request from before is an old one

    def wait_for_requests() -> None:
        nonlocal seen
        while True:
            time.sleep(interval)
            if (asked := look()) != seen and asked is not None:
                try:
                    write_dump(Path(folder), rank)
                except Exception as error:
                    print(
                        f"rank {rank} cannot write its dump: {error}", file=sys.stderr, flush=True
                    )
            seen = asked

    thread = threading.Thread(target=wait_for_requests, name="keep_ready", daemon=True)
    thread.start()
    return thread


def call_collectives(torch: Any, fault: str, way: str, is_odd: bool, timeout: float) -> None:
    """What a rank calls where the fault is, and the wait for it. Raises what torch raises."""
    distributed = torch.distributed

    def reduce(*shape: int) -> Any:
        return distributed.all_reduce(torch.ones(shape or (4,)), async_op=True)

    def share() -> Any:
        return distributed.broadcast(torch.ones(4), 0, async_op=True)

    if way == "barrier":
        limit = datetime.timedelta(seconds=timeout)
        distributed.monitored_barrier(timeout=limit, wait_all_ranks=True)
    if fault == "order":
        works = [share(), reduce()] if is_odd else [reduce(), share()]
    elif fault == "op" and is_odd:
        works = [share()]
    else:
        works = [reduce(2, 2) if fault == "shape" and is_odd else reduce()]
    for work in works:
        work.wait()


def play_fault(
    torch: Any, store: Any, place: Place, fault: str, way: str, options: argparse.Namespace
) -> None:
    """One rank of a fault: two good collectives, then the fault. How it ends is in the store."""
    distributed, key = torch.distributed, f"{fault}/{way}"
    ends = [f"{key}/{rank}" for rank in range(place.size)]
    level = distributed.DebugLevel.DETAIL if way == "detail" else distributed.DebugLevel.OFF
    distributed.set_debug_level(level)
    began_ns = time.time_ns()
    distributed.init_process_group(
        "gloo",
        store=distributed.PrefixStore(key, store),
        rank=place.rank,
        world_size=place.size,
        timeout=datetime.timedelta(seconds=options.timeout),
    )
    for _ in range(2):
        distributed.all_reduce(torch.ones(4))
    folder = Path(store.get("folder").decode()) / fault
    # Late enough for all ranks to have called, and before the timeout.
    dump = threading.Timer(options.timeout / 2, write_dump, (folder, place.rank, began_ns))
    if way == "recorder":
        dump.start()
    began, words = time.monotonic(), ""
    try:
        if fault == "missing" and place.rank == options.odd:
            store.wait([end for end in ends if end != ends[place.rank]])  # until all gave up
        else:
            call_collectives(torch, fault, way, place.rank == options.odd, options.timeout)
    except RuntimeError as error:
        words = str(error)
    seconds = time.monotonic() - began
    if way == "recorder":
        dump.join()
    store.set(ends[place.rank], json.dumps([words, seconds]))
    store.wait(ends)  # a rank that leaves takes the connections of the others along
    distributed.destroy_process_group()


def judge_fault(store: Any, fault: str, way: str, options: argparse.Namespace, folder: Path) -> Row:
    """Whether the way has named the rank of the fault, and in which words."""
    ranks: list[int] = []
    words = "nothing"
    seconds: float | None = options.timeout / 2
    if way == "recorder":
        _, findings = compare_dumps(sorted((folder / fault).glob("rank_*")))
        if findings:
            ranks, words = findings[0].ranks, findings[0].words
    else:
        ends = [json.loads(store.get(f"{fault}/{way}/{rank}")) for rank in range(options.ranks)]
        seconds = max((after for text, after in ends if text), default=None)
        ranks, words = name_by_torch([text for text, _ in ends if text])
    row: Row = {"fault": fault, "way": way, "named": ranks == [options.odd]}
    row |= {"ranks": format_spans(ranks) or None, "seconds": seconds and round(seconds, 3)}
    return {**row, "words": words}


def name_by_torch(texts: Sequence[str]) -> tuple[list[int], str]:
    """The ranks that torch's own messages name, and their words.

    DETAIL: each rank's message begins with its own call, and the smaller side is named. What it
    says of another rank's call is not used, because torch 2.13 misreads some shapes.
    """
    sides: dict[str, list[int]] = {}
    for text in texts:
        if found := re.search(r"Ranks? ([\d, ]+) failed to pass monitoredBarrier[^\n]*", text):
            return [int(number) for number in re.findall(r"\d+", found[1])], f"torch: {found[0]}"
        pattern = (
            r"Rank (\d+) is running collective: CollectiveFingerPrint\("
            r"((?:(?!, TensorDeviceTypes|\)).)*)"
        )
        if found := re.search(pattern, text):
            sides.setdefault(found[2], []).append(int(found[1]))
    if len(sides) < 2:
        return [], first_line(RuntimeError(texts[0])) if texts else "nothing"
    ordered = sorted(sides.items(), key=lambda side: len(side[1]))
    words = "; ".join(f"{name_ranks(ranks, 'has', 'have')} {call}" for call, ranks in ordered)
    return ordered[0][1], f"torch: {words}"


def is_expected(row: Row) -> bool:
    """Whether a way has named what it can name, and no other rank."""
    return bool(row["named"]) if row["fault"] in CAN_NAME[row["way"]] else not row["ranks"]


def play_faults(place: Place, options: argparse.Namespace, report: Report) -> bool:
    """Play all faults as one of the ranks; on rank 0, print what named them. True if all went as
    expected."""
    os.environ |= {"TORCH_FR_BUFFER_SIZE": "1000", "GLOO_SOCKET_IFNAME": "lo"}
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    torch = import_torch()
    if not hasattr(torch._C._distributed_c10d, "_dump_fr_trace"):
        raise UsageError(f"torch {torch.__version__} has no flight recorder for gloo; 2.13 has")
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = torch.distributed.TCPStore(address, port, place.size, place.rank == 0)
    plays = [(fault, way) for fault in options.names or FAULTS for way in options.by]
    with tempfile.TemporaryDirectory(prefix="mismatch_") as name:
        folder = Path(options.keep or name).resolve()
        if place.rank == 0:
            store.set("folder", str(folder))
        for fault, way in plays:
            play_fault(torch, store, place, fault, way, options)
            if place.rank == 0:
                report.rows.append(judge_fault(store, fault, way, options, folder))
        store.set(f"bye/{place.rank}", "1")
        if place.rank:
            return True
        store.wait([f"bye/{rank}" for rank in range(place.size)])
    cells = [
        (
            fault,
            *(
                f"rank {row['ranks']}, {row['seconds']:.1f} s"
                if row["ranks"]
                else "does not see it"
                for row in report.rows
                if row["fault"] == fault
            ),
        )
        for fault in options.names or FAULTS
    ]
    print(format_table(("fault", *(WAYS[way] for way in options.by)), cells))
    for row in report.rows:
        if row["named"]:
            print(f"{row['fault']}, {WAYS[row['way']]}: {row['words']}")
        if not is_expected(row):
            report.note(f"UNEXPECTED: {row['fault']}, {WAYS[row['way']]}: {row['words']}")
    if options.keep:
        report.note(f"the dumps are there: collective_mismatch.py read {options.keep}")
    report.details = {"torch": torch.__version__, "ranks": options.ranks, "odd": options.odd}
    return all(map(is_expected, report.rows))


def read_folders(options: argparse.Namespace, report: Report) -> bool:
    """Compare the dumps of each folder and print what differs; True if nothing does."""
    found: list[Finding] = []
    for name in options.names:
        for folder, files in find_dumps(Path(name)).items():
            rows, findings = compare_dumps(files)
            print(f"{folder}:")
            headings = ("ranks", "group", "number", "operation", "shape", "type", "state", "at",
                        "verdict")  # fmt: skip
            cells = [[row[key] for key in row if key != "count"] for row in rows]
            print(format_table(headings, cells))
            for finding in findings:
                print(f"problem: {finding.words}", file=sys.stderr)
            if not findings:
                print("no rank differs", file=sys.stderr)
            report.rows += rows
            found += findings
    report.details["findings"] = [one._asdict() for one in found]
    return not found


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(
        __doc__,
        tool="collective_mismatch",
        version=__version__,
        method=METHOD,
        demo=PROFILES["demo"],
    )
    add = parser.add_argument
    # fmt: off
    add("task", choices=("play", "read"), help="play faults, or read the dumps of a job")
    add("names", nargs="*", metavar="FAULT|DUMPS",
        help=f"{', '.join(FAULTS)} (default: all); for read, folders or files")
    add("--by", nargs="+", choices=tuple(WAYS), default=list(WAYS),
        help="ways to name the rank (default: all)")
    add("--ranks", type=positive_int, default=3, metavar="N", help="(default: 3)")
    add("--odd", type=natural_int, metavar="RANK",
        help="rank that is different (default: the last)")
    add("--timeout", type=duration, default=3.0, metavar="TIME",
        help="timeout of each collective (default: 3s)")
    add("--keep", metavar="FOLDER", help="keep the flight recorder dumps of play in this folder")
    # fmt: on
    parser.set_defaults(device="cpu")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    options = build_parser().parse_args(arguments)
    place: Place | int = Place(0, 1, 0)
    if options.task == "play":
        options.odd = options.ranks - 1 if options.odd is None else options.odd
        if unknown := set(options.names) - set(FAULTS):
            raise UsageError(f"there is no fault {min(unknown)}: write {', '.join(FAULTS)}")
        if options.ranks < 3 or not 0 < options.odd < options.ranks:
            raise UsageError("play needs 3 or more --ranks, and --odd from 1 to the last")
        place = place_or_launch(options, arguments, 3)
        if isinstance(place, int):
            return place
        options.ranks = place.size
    elif not options.names:
        raise UsageError("read: name the folder of the dumps")
    path = options.json if place.rank == 0 else None
    report = Report("collective_mismatch", __version__, METHOD, UNITS[options.task], path)
    if options.task == "play":
        usable = play_faults(place, options, report)
    else:
        usable = read_folders(options, report)
    report.complete = True
    report.save()
    return int(not usable)


if __name__ == "__main__":
    start(main)
