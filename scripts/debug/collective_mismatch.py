#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Which rank called another collective than the others, and how would one have seen it?

A collective works when all ranks of a group call the same one, with the same shape, in the same
order. Where one does not, the job seldom says so: it hangs, and half an hour later every rank
complains of a time-out. This tool plays such faults with real ranks, so that one has seen them
before they happen, and it reads what the flight recorder of a real job has kept.

The faults (`play`)
    op          one rank broadcasts where the others all_reduce
    shape       one rank brings a tensor of another shape and as many numbers: nobody complains
                (of another size gloo ends a rank beside it by SIGABRT, nccl hangs)
    order       one rank does the same two collectives the other way round
    missing     one rank does not come: it is somewhere else
The ways to have them named
    recorder    torch's flight recorder: each rank keeps its last collectives in a ring, with shape,
                state and place in the code, at hardly any cost; the rings side by side tell all
    detail      TORCH_DISTRIBUTED_DEBUG=DETAIL: torch compares what ranks are about to do before
                each collective, and raises an error on all of them; slow, for looking only
    barrier     torch.distributed.monitored_barrier (gloo) before each collective: names who does
                not come, and sees nothing else

How dumps are read
    Collectives of a group are numbered by each rank on its own. At the first number at which ranks
    differ in operation, shape or type the smaller side is named; where sides are equal, both. Then
    who is behind: ranks that have not come to the number at which the others wait. Hand check:
    ranks 0 and 1 have all_reduce as 3, rank 2 has broadcast as 3: rank 2 is named, at 3.
    all_to_all, gather, scatter and uneven forms may differ in shape, and are compared by operation.
    Python's pickle can run code: here it may build lists, numbers and text, and nothing else.

How to run
    see the faults  python collective_mismatch.py play
    one of them     python collective_mismatch.py play shape --by recorder --keep dumps
    a real job      export TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1
                    export TORCH_FR_DUMP_TEMP_FILE=/shared/fr/rank_
                    and when it has timed out:   python collective_mismatch.py read /shared/fr
    before that     in the program, also with gloo, which dumps nothing by itself:
                        from collective_mismatch import keep_ready
                        keep_ready("/shared/fr", rank)
                    and when it hangs:           touch /shared/fr/dump_now
    Slurm           srun --export=ALL,TORCH_FR_DUMP_TEMP_FILE=/shared/fr/rank_ python train.py
    pdsh            pdsh -w node[01-08] TORCH_FR_DUMP_TEMP_FILE=/shared/fr/rank_ torchrun ...
    torch's own     torchfrtrace reads the same files, gloo's too where keep_ready wrote them
                    (gloo leaves open who belongs to which group). Whom it calls the culprit
                    differs from the rank that called first, right or wrong
    The ranks of `play` are CPU processes of this machine, whatever started this tool.

A good answer, of play: the recorder names every fault, detail too, the barrier the missing rank.
Of read: "no rank differs", or the rank, its collective and its line of code beside the others'.

Seen running: gloo on a CPU with torch 2.13. Dumps of nccl have the same form, and have not been
read yet.

Exit status: 0 done (play: each fault was named as it should be; read: no rank differs), 1 a
difference, a rank that is behind, or stopped by a signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import io
import json
import os
import pickle
import re
import signal
import subprocess
import tempfile
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
# fmt: off
PROFILES = {
    "toy": ["--toy"],
    "full": ["play", "--ranks", "8", "--timeout", "5s"],
}
# fmt: on

# The unit of each column of the JSON's results that holds numbers.
UNITS = {"count": "1", "number": "1", "seconds": "s"}

FAULTS = ("op", "shape", "order", "missing")
WAYS = ("recorder", "detail", "barrier")
# Which way can name which fault; the others are not expected to.
NAMES = {"recorder": FAULTS, "detail": FAULTS, "barrier": ("missing",)}
WAY_NAMES = {
    "recorder": "flight recorder",
    "detail": "DETAIL",
    "barrier": "monitored barrier",
}
# Good collectives before the fault.
HEALTHY_STEPS = 2
# Ranks may bring different shapes to these.
UNEVEN = frozenset(("gather", "scatter", "all_to_all", "all_to_all_single", "coalesced"))
LIBRARY_FOLDERS = ("/site-packages/", "/dist-packages/", "/lib/python3", "/lib64/python3")
DUMP_NAME = "rank_"
DUMP_REQUEST = "dump_now"
SHOWN_ROWS = 60
# More ranks side by side would make each other late.
RANKS_AT_ONCE = 48

Row = dict[str, Any]


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


class RecordedCall(NamedTuple):
    """A collective that a rank has called."""

    operation: str
    inputs: str
    outputs: str
    types: str
    state: str
    place: str

    @property
    def signature(self) -> tuple[str, ...]:
        """What has to be the same on all ranks."""
        if self.operation in UNEVEN or "_v" in self.operation:
            return (self.operation, self.types)
        return (self.operation, self.inputs, self.outputs, self.types)


class RecorderRing(NamedTuple):
    """What a rank's recorder has kept of a group: its collectives by number."""

    calls: dict[int, RecordedCall]
    open_transfers: list[str]


class RankDump(NamedTuple):
    """What a rank's recorder has kept: members and ring of each group."""

    rank: int
    groups: dict[str, tuple[int, ...]]
    rings: dict[str, RecorderRing]


class CallDifference(NamedTuple):
    """A difference between ranks."""

    kind: str
    group: str
    number: int
    ranks: list[int]
    words: str


class PlainUnpickler(pickle.Unpickler):
    """Builds lists, numbers and text, and refuses whatever would need code."""

    def find_class(self, module: str, name: str) -> Any:
        """Refuse. Raises UnpicklingError."""
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


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


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def is_library_file(file: str) -> bool:
    """Whether a file belongs to Python, to a package or to a compiled library."""
    return (
        file.startswith("<frozen")
        or any(folder in file for folder in LIBRARY_FOLDERS)
        or not (file.endswith((".py", ".pyw", ".ipynb")) or file.startswith("<"))
    )


def format_rank_list(ranks: Iterable[int]) -> str:
    """`0-2,5`: numbers in as few words as they take, as Slurm writes them."""
    spans: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)


def name_ranks(ranks: Sequence[int]) -> str:
    """`rank 3`, `ranks 0-2,5`."""
    return f"rank{'' if len(ranks) == 1 else 's'} {format_rank_list(ranks)}"


# --- dumps ---


def read_dump_rank(path: Path) -> int:
    """The rank in a file's name: the digits at its end. Raises WrongUse."""
    found = re.search(r"(\d+)(?:\.(?:pickle|pkl|json))?$", path.name)
    if found is None:
        raise WrongUse(f"{path}: there is no rank at the end of this name; write rank_0")
    return int(found.group(1))


def load_recorder_dump(path: Path) -> RankDump:
    """A dump of the flight recorder, as pickle or as JSON. Raises WrongUse."""
    rank = read_dump_rank(path)
    try:
        data = path.read_bytes()
        if data.lstrip()[:1] in (b"{", b"["):
            document = json.loads(data)
        else:
            document = PlainUnpickler(io.BytesIO(data)).load()
        return make_rank_dump(rank, document)
    except OSError as error:
        raise WrongUse(f"{path}: {error.strerror}") from error
    except pickle.UnpicklingError as error:
        if str(error).startswith("it asks for"):
            raise WrongUse(f"{path}: refused: {error}, and a dump has no code in it") from error
        raise WrongUse(f"{path}: this is no dump of the flight recorder, or was cut off") from error
    except (
        *(ValueError, EOFError, IndexError, KeyError, TypeError, AttributeError),
        *(OverflowError, RecursionError, MemoryError),
    ) as error:
        raise WrongUse(f"{path}: this is no dump of the flight recorder, or was cut off") from error


def make_rank_dump(rank: int, document: Mapping[str, Any]) -> RankDump:
    """What of a dump is compared. Raises KeyError, TypeError or ValueError where it is none."""
    document["version"]
    members: dict[str, tuple[int, ...]] = {}
    for name, group in document.get("pg_config", {}).items():
        listed = group["ranks"]
        listed = json.loads(listed) if isinstance(listed, str) else listed
        if listed:
            members[str(group.get("name", name))] = tuple(sorted(int(one) for one in listed))
    groups: dict[str, tuple[int, ...]] = {}
    rings: dict[str, RecorderRing] = {}
    for entry in document["entries"] or []:
        name, description = entry["process_group"]
        group = name_group(name, description)
        ring = rings.setdefault(group, RecorderRing({}, []))
        # gloo's own dumps have one nameless group; with several its ranks are none.
        ranks = members.get(str(name)) or (members.get("") if str(name) == "0" else None)
        if ranks is not None:
            groups[group] = ranks
        backend, _, operation = str(entry["profiling_name"]).rpartition(":")
        # gloo's recorder says so when an operation has ended, and never that it was completed.
        is_done = backend == "gloo" and entry.get("retired")
        state = "completed" if is_done else str(entry["state"])
        place = find_call_place(entry.get("frames") or [])
        if entry.get("is_p2p"):
            if state != "completed":
                ring.open_transfers.append(f"{operation} at {place}")
            continue
        call = RecordedCall(
            sys.intern(operation),
            sys.intern(format_sizes(entry["input_sizes"])),
            sys.intern(format_sizes(entry["output_sizes"])),
            sys.intern("/".join(dict.fromkeys([*entry["input_dtypes"], *entry["output_dtypes"]]))),
            sys.intern(state),
            sys.intern(place),
        )
        number = int(entry["collective_seq_id"])
        other = ring.calls.get(number)
        # Coalesced operations share a number.
        ring.calls[number] = call if other is None else join_calls(other, call)
    return RankDump(rank, groups, rings)


def name_group(name: Any, description: Any) -> str:
    """What a group is called: its description, and its name beside it where that says more."""
    if description in (None, "", "undefined"):
        return f"group {name}"
    return str(description) if description == "default_pg" else f"{description} ({name})"


def join_calls(first: RecordedCall, second: RecordedCall) -> RecordedCall:
    """Two operations under one number."""
    operation = first.operation if first.operation == second.operation else "coalesced"
    state = first.state if first.state != "completed" else second.state
    return first._replace(
        operation=operation,
        inputs=f"{first.inputs} {second.inputs}",
        outputs=f"{first.outputs} {second.outputs}",
        state=state,
    )


def format_sizes(sizes: Sequence[Sequence[int]]) -> str:
    """`[4x16]`, `[4] [8]`."""
    return " ".join(f"[{'x'.join(str(int(n)) for n in size)}]" for size in sizes)


def find_call_place(frames: Sequence[Mapping[str, Any]]) -> str:
    """`train.py:41`: the innermost line of the user's own code, else the innermost one."""
    for frame in frames:
        file = str(frame["filename"])
        if not is_library_file(file):
            return f"{Path(file).name}:{frame['line']}"
    if frames:
        return f"{Path(str(frames[0]['filename'])).name}:{frames[0]['line']}"
    return "?"


def list_recorder_dumps(paths: Iterable[Path]) -> list[Path]:
    """The files given, and those of folders whose names end with a rank. Raises WrongUse."""
    found = []
    for path in paths:
        if path.is_dir():
            pattern = re.compile(r"\d(\.(pickle|pkl|json))?$")
            inside = [
                one
                for one in sorted(path.iterdir())
                if one.is_file() and not one.name.startswith(".") and pattern.search(one.name)
            ]
            if not inside:
                raise WrongUse(f"{path}: no dumps in this folder (names that end with a rank)")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise WrongUse(f"{path}: there is no such file")
    return list(dict.fromkeys(found))


def load_recorder_dumps(paths: Iterable[Path]) -> dict[int, RankDump]:
    """The dumps by rank. Raises WrongUse where one is twice there, or none."""
    dumps: dict[int, RankDump] = {}
    files: dict[int, Path] = {}
    for path in list_recorder_dumps(paths):
        dump = load_recorder_dump(path)
        if dump.rank in dumps:
            raise WrongUse(f"rank {dump.rank} is there twice: {files[dump.rank]} and {path}")
        dumps[dump.rank], files[dump.rank] = dump, path
    return dict(sorted(dumps.items()))


# --- comparing ---


class GroupView:
    """A group of ranks, and what each of them has called."""

    def __init__(self, name: str, members: Sequence[int], dumps: Mapping[int, RankDump]) -> None:
        self.name = name
        self.members = list(members)
        self.dumped = [rank for rank in members if rank in dumps]
        empty = RecorderRing({}, [])
        self.rings = {rank: dumps[rank].rings.get(name, empty) for rank in self.dumped}
        self.calls = {rank: ring.calls for rank, ring in self.rings.items()}
        self.last = {rank: max(calls, default=0) for rank, calls in self.calls.items()}

    @property
    def first(self) -> int:
        """The first number that every ring still has: older ones have been written over."""
        return max((min(calls) for calls in self.calls.values() if calls), default=0)

    def get(self, rank: int, number: int) -> RecordedCall | None:
        """What a rank has called under a number."""
        return self.calls[rank].get(number)


def list_group_views(dumps: Mapping[int, RankDump]) -> list[GroupView]:
    """All groups of the dumps; groups of one name and other members are different ones."""
    found: dict[tuple[str, tuple[int, ...]], None] = {}
    for dump in dumps.values():
        for name in dump.rings:
            members = dump.groups.get(name)
            if members is None:
                members = tuple(rank for rank, one in dumps.items() if name in one.rings)
            found[name, members] = None
    return [GroupView(name, members, dumps) for name, members in found]


def divide_ranks(view: GroupView, number: int) -> list[tuple[tuple[str, ...], list[int]]]:
    """The ranks that have come to a number by what they call there, the fewest first."""
    sides: dict[tuple[str, ...], list[int]] = {}
    for rank in view.dumped:
        call = view.get(rank, number)
        if call is not None:
            sides.setdefault(call.signature, []).append(rank)
    return sorted(sides.items(), key=lambda side: (len(side[1]), -side[1][0]))


def find_difference(view: GroupView) -> CallDifference | None:
    """The first collective at which ranks of a group differ."""
    last = max(view.last.values(), default=0)
    for number in range(view.first, last + 1):
        sides = divide_ranks(view, number)
        if len(sides) < 2:
            continue
        usual = sides[-1][1]
        is_even = len(sides[-2][1]) == len(usual)
        odd = sorted(rank for _, ranks in sides[:-1] for rank in ranks)
        parts = [describe_call(view, ranks, number) for _, ranks in sides]
        kind = name_difference(view, sides[0][1][0], usual[0], number)
        words = f"{'; '.join(parts)}: collective {number} of {view.name}"
        hint = {
            "order": f"{name_ranks(sides[0][1])} has them in another order",
            "left out": f"{name_ranks(sides[0][1])} seems to have left out one",
        }.get(kind)
        if hint:
            words += f"; {hint}"
        ranks = sorted([*odd, *usual]) if is_even else odd
        return CallDifference(kind, view.name, number, ranks, words)
    return None


def describe_call(view: GroupView, ranks: Sequence[int], number: int) -> str:
    """`rank 2 calls broadcast [4] Float at train.py:12`."""
    call = view.get(ranks[0], number)
    assert call is not None
    shape = call.inputs if call.inputs == call.outputs else f"{call.inputs} to {call.outputs}"
    verb = "calls" if len(ranks) == 1 else "call"
    return f"{name_ranks(ranks)} {verb} {call.operation} {shape} {call.types} at {call.place}"


def name_difference(view: GroupView, odd: int, usual: int, number: int) -> str:
    """What kind of difference it is: by the operation, the shape, the type, or what comes next."""
    own, other = view.get(odd, number), view.get(usual, number)
    own_next, other_next = view.get(odd, number + 1), view.get(usual, number + 1)
    assert own is not None
    assert other is not None
    if other_next is not None and own.signature == other_next.signature:
        if own_next is not None and own_next.signature == other.signature:
            return "order"
        return "left out"
    if own.operation != other.operation:
        return "op"
    return "type" if own.types != other.types else "shape"


def find_laggards(view: GroupView) -> CallDifference | None:
    """Ranks that have not come to the collective in which others wait."""
    if not view.last:
        return None
    front = max(view.last.values())
    behind = sorted(rank for rank, last in view.last.items() if last < front)
    waiting = [
        rank
        for rank, last in view.last.items()
        if last == front and (call := view.get(rank, front)) and call.state != "completed"
    ]
    if not behind or not waiting:
        return None
    # A rank that is behind and waits itself is held up by somebody else.
    free = [
        rank
        for rank in behind
        if (call := view.get(rank, view.last[rank])) is None or call.state == "completed"
    ]
    guilty = free or behind
    text = f"{name_ranks(guilty)} {'has' if len(guilty) == 1 else 'have'} not come to collective "
    text += f"{front} of {view.name}, in which {name_ranks(waiting)} "
    text += f"{'waits' if len(waiting) == 1 else 'wait'}: "
    call = view.get(waiting[0], front)
    assert call is not None
    text += f"{call.operation} {call.inputs} at {call.place}"
    before = view.get(guilty[0], view.last[guilty[0]])
    if before is not None:
        text += f"; rank {guilty[0]} was last in {before.operation} at {before.place}"
    return CallDifference("missing", view.name, front, guilty, text)


def find_findings(views: Sequence[GroupView], ranks: Sequence[int]) -> list[CallDifference]:
    """All differences, those first that may have caused the others."""
    found = []
    for view in views:
        difference = find_difference(view)
        laggards = find_laggards(view)
        if difference is not None:
            found.append(difference)
        # After a difference numbers say nothing any more of who is behind.
        if laggards is not None and difference is None:
            found.append(laggards)
        absent = [rank for rank in view.members if rank not in ranks]
        if absent:
            words = f"no dump of {name_ranks(absent)}, which belong to {view.name}"
            found.append(CallDifference("no dump", view.name, 0, absent, words))
    order = ["op", "order", "left out", "shape", "type", "missing", "no dump"]
    return sorted(found, key=lambda finding: order.index(finding.kind))


def make_position_rows(views: Sequence[GroupView], findings: Sequence[CallDifference]) -> list[Row]:
    """One row for ranks of a group that are at the same collective; those named come first."""
    rows = []
    for view in views:
        places: dict[tuple[int, RecordedCall | None], list[int]] = {}
        own = [finding for finding in findings if finding.group == view.name]
        first = next((f.number for f in own if f.kind not in ("missing", "no dump")), None)
        for rank in view.dumped:
            # Where ranks differ, what they were to do together says more than their last call.
            number = view.last[rank] if first is None else min(first, view.last[rank])
            places.setdefault((number, view.get(rank, number)), []).append(rank)
        named = {rank for finding in own for rank in finding.ranks}
        for (number, call), ranks in places.items():
            for part, verdict in (
                ([rank for rank in ranks if rank in named], "named"),
                ([rank for rank in ranks if rank not in named], "-" if own else "ok"),
            ):
                if part:
                    rows.append(make_position_row(view.name, number, call, part, verdict))
    rows.sort(key=lambda row: row["verdict"] != "named")
    return rows


def make_position_row(
    group: str, number: int, call: RecordedCall | None, ranks: Sequence[int], verdict: str
) -> Row:
    """One row of the JSON."""
    return {
        "ranks": format_rank_list(ranks),
        "count": len(ranks),
        "group": group,
        "number": number,
        "operation": call.operation if call else None,
        "inputs": call.inputs if call else None,
        "outputs": call.outputs if call else None,
        "types": call.types if call else None,
        "state": call.state if call else None,
        "place": call.place if call else None,
        "verdict": verdict,
    }


def format_positions(rows: Sequence[Row]) -> str:
    """The table of read."""
    cells = [
        [
            row["ranks"],
            row["group"],
            str(row["number"]),
            row["operation"] or "-",
            row["inputs"] or "-",
            row["types"] or "-",
            row["state"] or "-",
            row["place"] or "-",
            row["verdict"],
        ]
        for row in rows[:SHOWN_ROWS]
    ]
    headings = ["ranks", "group", "number", "operation", "shape", "type", "state", "at", "verdict"]
    return format_table(headings, cells)


def find_read_caveats(views: Sequence[GroupView]) -> list[str]:
    """What should be known before the answer is used."""
    caveats = []
    for view in views:
        transfers = {rank: ring.open_transfers for rank, ring in view.rings.items()}
        ranks = [rank for rank, found in transfers.items() if found]
        if ranks:
            caveats.append(
                f"{name_ranks(ranks)} of {view.name} with sends or receives that have not ended, "
                f"the first: {transfers[ranks[0]][0]}; they are not compared"
            )
        starts = {min(calls) for calls in view.calls.values() if calls}
        ends = {max(calls) for calls in view.calls.values() if calls}
        if starts and min(ends) < max(starts):
            caveats.append(
                f"the rings of {view.name} do not overlap: raise TORCH_FR_BUFFER_SIZE, or take the "
                "dumps at one time"
            )
    return caveats


def read_dumps(paths: Sequence[Path]) -> tuple[list[Row], list[CallDifference], list[str]]:
    """Rows, findings and caveats of saved dumps. Raises WrongUse."""
    dumps = load_recorder_dumps(paths)
    views = list_group_views(dumps)
    findings = find_findings(views, list(dumps))
    caveats = find_read_caveats(views)
    if not views:
        caveats.append("the recorders are empty: TORCH_FR_BUFFER_SIZE=0, or no collective yet")
    rows = make_position_rows(views, findings)
    if not rows:
        rows = [make_position_row("none", 0, None, list(dumps), "-")]
    return rows, findings, caveats


# --- keeping dumps of a job that hangs ---


@contextlib.contextmanager
def without_inductor(torch: Any) -> Iterator[None]:
    """Keep a dump from importing torch._inductor, 800 modules that only say where compiled code
    comes from: in a job that hangs this takes long, and may hang as well."""
    if "torch._inductor" in sys.modules:
        yield
        return
    empty = types.ModuleType("torch._inductor")
    torch._inductor = empty
    try:
        yield
    finally:
        if vars(torch).get("_inductor") is empty:
            del torch._inductor


def write_recorder_dump(folder: Path, rank: int) -> Path:
    """Write what this process's flight recorder has kept.

    gloo's dumps do not say who belongs to which group; torch's readers and this one want to know.
    """
    torch = import_torch()
    with without_inductor(torch):
        document = pickle.loads(torch._C._distributed_c10d._dump_fr_trace())
    called = {str(entry["process_group"][0]) for entry in document["entries"] or []}
    if not called <= {str(name) for name in document.get("pg_config") or {}}:
        names = torch.distributed.distributed_c10d._world.pg_names
        document["pg_config"] = {
            str(name): {
                "name": str(name),
                "desc": "default_pg" if group is torch.distributed.group.WORLD else "undefined",
                "ranks": str(torch.distributed.get_process_group_ranks(group)),
            }
            for group, name in names.items()
        }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{DUMP_NAME}{rank}"
    partial = folder / f".{path.name}.{os.getpid()}"
    partial.write_bytes(pickle.dumps(document))
    partial.replace(path)
    return path


def keep_ready(folder: str | Path, rank: int, interval: float = 2.0) -> threading.Thread:
    """Let this rank write its recorder's dump whenever a file `dump_now` in the folder is touched.

    A rank that hangs in a collective heeds no signal in Python; this thread goes on. A request
    that was there before is an old one.
    """
    request = Path(folder) / DUMP_REQUEST

    def look() -> int | None:
        try:
            return request.stat().st_mtime_ns
        except OSError:
            return None

    seen = look()

    def wait_for_requests(seen: int | None) -> None:
        while True:
            time.sleep(interval)
            asked = look()
            if asked is not None and asked != seen:
                try:
                    write_recorder_dump(Path(folder), rank)
                except Exception as error:
                    print(f"rank {rank} could not dump: {error}", file=sys.stderr, flush=True)
            seen = asked

    thread = threading.Thread(
        target=wait_for_requests, args=(seen,), name="keep_ready", daemon=True
    )
    thread.start()
    return thread


# --- playing faults ---


class FaultPlay(NamedTuple):
    """A fault that is played, and the way in which it is to be named."""

    fault: str
    way: str
    ranks: int
    odd: int
    timeout: float
    folder: Path


def call_collectives(torch: Any, play: FaultPlay, rank: int) -> None:
    """What this rank calls where the fault is, and the wait for it. Raises what torch raises."""
    distributed = torch.distributed
    is_odd = rank == play.odd

    def reduce_gradients(*shape: int) -> Any:
        return distributed.all_reduce(torch.ones(shape or (4,)), async_op=True)

    def share_seed() -> Any:
        return distributed.broadcast(torch.ones(4), 0, async_op=True)

    if is_odd and play.fault == "missing":
        time.sleep(3 * play.timeout)  # the data of this rank does not come
        return
    if play.way == "barrier":
        limit = datetime.timedelta(seconds=play.timeout)
        distributed.monitored_barrier(timeout=limit, wait_all_ranks=True)
    works = []
    if play.fault == "op":
        works.append(share_seed() if is_odd else reduce_gradients())
    elif play.fault == "shape":
        works.append(reduce_gradients(2, 2) if is_odd else reduce_gradients())
    elif play.fault == "order" and is_odd:
        works += [share_seed(), reduce_gradients()]
    elif play.fault == "order":
        works += [reduce_gradients(), share_seed()]
    else:
        works.append(reduce_gradients())
    # As after nccl's asynchronous launch: what a rank is about to do next is recorded already.
    for work in works:
        work.wait()


def play_rank_of(torch: Any, play: FaultPlay, rank: int) -> None:
    """One rank of a fault: good collectives, then the fault; its end is written to a file."""
    distributed = torch.distributed
    if play.way == "detail":
        distributed.set_debug_level(distributed.DebugLevel.DETAIL)
    store = distributed.FileStore(str(play.folder / "store"), play.ranks)
    distributed.init_process_group(
        "gloo",
        store=store,
        rank=rank,
        world_size=play.ranks,
        timeout=datetime.timedelta(seconds=play.timeout),
    )
    keep_ready(play.folder / "dumps", rank, 0.05)
    for _ in range(HEALTHY_STEPS):
        distributed.all_reduce(torch.ones(4))
    began = time.monotonic()
    (play.folder / f"began_{rank}").touch()
    words = None
    try:
        call_collectives(torch, play, rank)
    except Exception as error:
        words = str(error)
    outcome = {"words": words, "seconds": time.monotonic() - began}
    partial = play.folder / f".end_{rank}"
    partial.write_text(json.dumps(outcome), encoding="utf-8")
    partial.replace(play.folder / f"end_{rank}")


def fork_rank(torch: Any, play: FaultPlay, rank: int) -> int:
    """Start a rank as a copy of this process, which has imported torch already; its number."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        os.setpgid(0, 0)  # Ctrl-C at the terminal is for the parent, which ends this one
        output = os.open(play.folder / f"said_{rank}", os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        play_rank_of(torch, play, rank)
        dumped = play.folder / "dumps" / f"{DUMP_NAME}{rank}"
        deadline = time.monotonic() + 3 * play.timeout
        # Whoever leaves takes the connections of the others along.
        while play.way == "recorder" and not dumped.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        status = 0
    finally:
        os._exit(status)


def run_plays(torch: Any, plays: Sequence[FaultPlay], stop: StopSign) -> dict[FaultPlay, float]:
    """Play faults side by side, and end what is left of them; seconds until all have dumped.

    Raises Stopped.
    """
    running: dict[int, tuple[FaultPlay, int]] = {}
    asked: dict[FaultPlay, float] = {}
    dumped: dict[FaultPlay, float] = {}
    deadline = time.monotonic() + 30 + 4 * max(play.timeout for play in plays)
    try:
        for play in plays:
            (play.folder / "dumps").mkdir(parents=True)
            for rank in range(play.ranks):
                running[fork_rank(torch, play, rank)] = (play, rank)
        while running and time.monotonic() < deadline:
            stop.check()
            for play in plays:
                began = [play.folder / f"began_{rank}" for rank in range(play.ranks)]
                if play not in asked and all(path.exists() for path in began):
                    asked[play] = time.monotonic()
                # Long enough for all to have called, and before the first time-out.
                late = play in asked and time.monotonic() - asked[play] > play.timeout / 2
                request = play.folder / "dumps" / DUMP_REQUEST
                if play.way == "recorder" and late and not request.exists():
                    request.touch()
                files = [play.folder / "dumps" / f"{DUMP_NAME}{r}" for r in range(play.ranks)]
                if play in asked and play not in dumped and all(map(Path.exists, files)):
                    dumped[play] = time.monotonic() - asked[play]
            for pid in list(running):
                if os.waitpid(pid, os.WNOHANG)[0]:
                    del running[pid]
            for pid, (play, rank) in running.items():
                if rank == play.odd and is_settled(play):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
    finally:
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in running:
            os.waitpid(pid, 0)
    return dumped


def is_settled(play: FaultPlay) -> bool:
    """Whether nobody waits any more for the rank that does not come."""
    others = [rank for rank in range(play.ranks) if rank != play.odd]
    has_ended = all((play.folder / f"end_{rank}").exists() for rank in others)
    dump = play.folder / "dumps" / f"{DUMP_NAME}{play.odd}"
    return play.fault == "missing" and has_ended and (play.way != "recorder" or dump.exists())


def read_ends(play: FaultPlay) -> dict[int, tuple[str, float]]:
    """What torch said on each rank, and after how many seconds."""
    ends = {}
    for rank in range(play.ranks):
        with contextlib.suppress(OSError, ValueError):
            found = json.loads((play.folder / f"end_{rank}").read_text(encoding="utf-8"))
            ends[rank] = (str(found["words"] or ""), float(found["seconds"]))
    return ends


def judge_fault_play(play: FaultPlay, dumped: Mapping[FaultPlay, float]) -> Row:
    """Whether the way has named the rank of the fault, and in which words."""
    ends = read_ends(play)
    ranks: list[int] = []
    words, seconds = "nothing", None
    if play.way == "recorder":
        seconds = dumped.get(play)
        if seconds is not None:
            _, findings, _ = read_dumps([play.folder / "dumps"])
            if findings:
                ranks, words = findings[0].ranks, findings[0].words
    else:
        read = name_by_detail if play.way == "detail" else name_by_barrier
        ranks, words = read([text for text, _ in ends.values() if text])
        said = [after for text, after in ends.values() if text]
        seconds = max(said) if said else None
    is_named = ranks == [play.odd]
    return {
        "fault": play.fault,
        "way": play.way,
        "named": is_named,
        "ranks": format_rank_list(ranks) or None,
        "seconds": None if seconds is None else round(seconds, 3),
        "words": words,
    }


def name_by_barrier(texts: Sequence[str]) -> tuple[list[int], str]:
    """The ranks that a monitored barrier has missed, and its words."""
    for text in texts:
        found = re.search(r"Ranks? ([\d, ]+) failed to pass monitoredBarrier", text)
        if found:
            ranks = [int(number) for number in re.findall(r"\d+", found.group(1))]
            return ranks, f"torch: {first_sentence(text[found.start() :])}"
    return [], first_sentence(texts[0]) if texts else "nothing"


def name_by_detail(texts: Sequence[str]) -> tuple[list[int], str]:
    """The ranks that torch's comparison before a collective has named, and its words.

    Each rank's message begins with its own call. What it says of another rank's is not used: where
    tensors differ in their number of dimensions torch 2.13 reads it wrongly.
    """
    sides: dict[str, list[int]] = {}
    for text in texts:
        found = re.search(
            r"Rank (\d+) is running collective: CollectiveFingerPrint\("
            r"((?:(?!, TensorDeviceTypes|\)).)*)",
            text,
        )
        if found:
            sides.setdefault(found.group(2), []).append(int(found.group(1)))
    if len(sides) < 2:
        return name_by_barrier(texts)
    ordered = sorted(sides.items(), key=lambda side: len(side[1]))
    words = "; ".join(f"{name_ranks(ranks)}: {fingerprint}" for fingerprint, ranks in ordered)
    fewest = len(ordered[0][1])
    odd = [rank for _, ranks in ordered if len(ranks) == fewest for rank in ranks]
    return sorted(odd), f"torch: {words}"


def first_sentence(text: str) -> str:
    """The first line of a message, cut where it grows too long for a table."""
    line = (text.strip().splitlines() or ["nothing"])[0]
    return line if len(line) <= 400 else f"{line[:400]} ..."


def list_plays(options: argparse.Namespace, folder: Path) -> list[FaultPlay]:
    """What the command line asks for, each with a folder of its own."""
    numbers = (options.ranks, options.odd, options.timeout)
    return [
        FaultPlay(fault, way, *numbers, folder / f"{fault}_{way}")
        for fault in options.faults
        for way in options.by
    ]


def play_faults(torch: Any, plays: list[FaultPlay], stop: StopSign, rows: list[Row]) -> None:
    """Play them, and add a row for each; one that is played again takes its place in both lists.

    Raises Stopped, with the rows of those that were played.
    """
    batch = max(1, RANKS_AT_ONCE // plays[0].ranks)
    for first in range(0, len(plays), batch):
        part = plays[first : first + batch]
        dumped = run_plays(torch, part, stop)
        rows += [judge_fault_play(play, dumped) for play in part]
    for number, row in enumerate(rows):
        if not is_as_expected(row):
            play = plays[number]
            write_note(f"{row['fault']}, {WAY_NAMES[row['way']]}: played again, with more time")
            own = play.folder.with_name(f"{play.folder.name}_again")
            plays[number] = play._replace(timeout=4 * play.timeout, folder=own)
            dumped = run_plays(torch, [plays[number]], stop)
            rows[number] = judge_fault_play(plays[number], dumped)


def is_as_expected(row: Row) -> bool:
    """Whether a way has named what it can name, and nobody else."""
    if row["fault"] in NAMES[row["way"]]:
        return bool(row["named"])
    return not row["ranks"]


def format_plays(rows: Sequence[Row]) -> str:
    """The table of play: faults down, ways across."""
    ways = list(dict.fromkeys(row["way"] for row in rows))
    cells = []
    for fault in dict.fromkeys(row["fault"] for row in rows):
        line = [fault]
        for way in ways:
            row = next((r for r in rows if (r["fault"], r["way"]) == (fault, way)), None)
            if row is None:  # the run was ended before
                line.append("-")
            elif row["named"]:
                line.append(f"rank {row['ranks']}, {row['seconds']:.1f} s")
            else:
                line.append(f"names {row['ranks']}" if row["ranks"] else "does not see it")
        cells.append(line)
    return format_table(["fault", *(WAY_NAMES[way] for way in ways)], cells)


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


def print_to_stdout(text: str) -> bool:
    """Print at once; False, with a line that says so, where stdout could not be written."""
    try:
        print(text, flush=True)
    except OSError as error:
        # Python would write once more what is left, as it ends: that goes nowhere now.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"problem: stdout could not be written: {error.strerror}", file=sys.stderr)
        return False
    return True


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


def make_mismatch_document(
    head: Mapping[str, Any],
    rows: Sequence[Row],
    caveats: Sequence[str],
    details: Mapping[str, Any],
    is_complete: bool,
) -> dict[str, Any]:
    """The JSON document: base units, no NaN."""
    columns = rows[0] if rows else {}
    return {
        **head,
        "complete": is_complete,
        "units": {name: unit for name, unit in UNITS.items() if name in columns},
        "results": list(rows),
        "caveats": list(caveats),
        "details": dict(details),
    }


def do_play(options: argparse.Namespace, command: list[str], stop: StopSign, origin: float) -> int:
    """Play faults, print and write what named them; the exit status."""
    torch = import_torch()
    if not torch.distributed.is_available() or not torch.distributed.is_gloo_available():
        raise WrongUse("this torch was built without gloo, over which the faults are played")
    if not hasattr(torch._C._distributed_c10d, "_dump_fr_trace"):
        raise WrongUse(f"torch {torch.__version__} keeps no recorder of gloo; 2.13 does")
    os.environ["TORCH_FR_BUFFER_SIZE"] = "100"
    for name in ("TORCH_DISTRIBUTED_DEBUG", "TORCH_NCCL_TRACE_BUFFER_SIZE"):
        os.environ.pop(name, None)
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)  # and so no threads that a copy of this process would miss
    if options.keep:
        try:
            options.keep.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WrongUse(f"--keep: no folder {options.keep}: {error.strerror}") from error
    rows: list[Row] = []
    is_complete = True
    problems = 0
    with tempfile.TemporaryDirectory(prefix="mismatch_") as name:
        plays = list_plays(options, Path(name))
        try:
            play_faults(torch, plays, stop, rows)
        except Stopped as stopped:
            write_note(f"{stopped}, after {len(rows)} of {len(plays)}")
            is_complete = False
        try:
            for play in plays[: len(rows)]:
                if options.keep and play.way == "recorder":
                    keep_dumps(play, options.keep)
        except OSError as error:
            print(f"problem: --keep: {error.filename}: {error.strerror}", file=sys.stderr)
            problems += 1
    if rows:
        problems += not print_to_stdout(format_plays(rows))
    for row in rows:
        if row["named"]:
            write_note(f"{row['fault']}, {WAY_NAMES[row['way']]}: {row['words']}")
    wrong = [row for row in rows if not is_as_expected(row)]
    for row in wrong:
        said = f"it said: {row['words']}"
        print(f"problem: {row['fault']}, {WAY_NAMES[row['way']]}: {said}", file=sys.stderr)
    if options.json:
        head = make_document_head("collective_mismatch", (__version__, METHOD), command, origin)
        details = {"torch": torch.__version__, "ranks": options.ranks, "odd": options.odd}
        document = make_mismatch_document(head, rows, [], details, is_complete)
        write_document(options.json, document)
    return 0 if is_complete and not wrong and not problems else 1


def keep_dumps(play: FaultPlay, folder: Path) -> None:
    """Copy the dumps of a fault to a folder of the user's."""
    target = folder / play.fault
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted((play.folder / "dumps").glob(f"{DUMP_NAME}*")):
        partial = target / f".{path.name}.{os.getpid()}"
        partial.write_bytes(path.read_bytes())
        partial.replace(target / path.name)
    write_note(f"the dumps of {play.fault} are in {target}")


def do_read(options: argparse.Namespace, command: list[str], origin: float) -> int:
    """Read dumps, print and write who is where; the exit status."""
    rows, findings, caveats = read_dumps(options.dumps)
    is_printed = print_to_stdout(format_positions(rows))
    for text in caveats:
        write_note(text)
    for finding in findings:
        print(f"problem: {finding.words}", file=sys.stderr)
    if not findings:
        print("no rank differs", file=sys.stderr)
    if options.json:
        head = make_document_head("collective_mismatch", (__version__, METHOD), command, origin)
        details = {
            "findings": [
                {**finding._asdict(), "ranks": format_rank_list(finding.ranks)}
                for finding in findings
            ]
        }
        write_document(options.json, make_mismatch_document(head, rows, caveats, details, True))
    return 1 if findings or not is_printed else 0


def make_recorder_entry(number: int, operation: str, size: int, line: int, state: str) -> Row:
    """An entry as the flight recorder writes it."""
    return {
        "process_group": ("0", "default_pg"),
        "collective_seq_id": number,
        "profiling_name": f"nccl:{operation}",
        "input_sizes": [[size]],
        "output_sizes": [[size]],
        "input_dtypes": ["Float"],
        "output_dtypes": ["Float"],
        "state": state,
        "is_p2p": False,
        "frames": [{"name": "step", "filename": "/home/u/train.py", "line": line}],
    }


def make_recorder_document(entries: Sequence[Row], ranks: int) -> Row:
    """A dump as the flight recorder writes it."""
    members = str(list(range(ranks)))
    return {
        "version": "2.10",
        "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": members}},
        "entries": list(entries),
    }


def run_self_test() -> int:
    """Check the comparison by hand, and all faults with real ranks; 0, or 1 where one fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    def compare(*tails: Sequence[Row]) -> list[tuple[str, list[int]]]:
        begin = make_recorder_entry(1, "all_reduce", 4, 9, "completed")
        dumps = {
            rank: make_rank_dump(rank, make_recorder_document([begin, *tail], len(tails)))
            for rank, tail in enumerate(tails)
        }
        findings = find_findings(list_group_views(dumps), list(dumps))
        return [(finding.kind, finding.ranks) for finding in findings]

    usual = make_recorder_entry(2, "all_reduce", 4, 12, "scheduled")
    other = make_recorder_entry(2, "broadcast", 4, 14, "scheduled")
    larger = make_recorder_entry(2, "all_reduce", 8, 12, "scheduled")
    check("ranks that agree", compare([usual], [usual], [usual]) == [])
    check("another operation", compare([usual], [usual], [other]) == [("op", [2])])
    check("another shape", compare([larger], [usual], [usual]) == [("shape", [0])])
    check("one that is missing", compare([usual], [], [usual]) == [("missing", [1])])
    check("two sides of one rank", compare([usual], [other]) == [("op", [0, 1])])
    with tempfile.TemporaryDirectory(prefix="check_") as folder:
        path = Path(folder) / "rank_0"
        path.write_bytes(pickle.dumps(Path(folder)))
        try:
            load_recorder_dump(path)
            is_refused = False
        except WrongUse as error:
            is_refused = "refused" in str(error)
        check("a pickle with code in it is refused", is_refused)
        out = Path(folder) / "out.json"
        done = subprocess.run(
            [sys.executable, str(Path(__file__).resolve()), *PROFILES["toy"], "--json", str(out)],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        document = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    rows = document.get("results", [])
    named = {(row["fault"], row["way"]) for row in rows if row["named"]}
    for way in WAYS:
        wanted = {(fault, way) for fault in NAMES[way]}
        found = {one for one in named if one[1] == way}
        check(f"{WAY_NAMES[way]} names what it can", done.returncode == 0 and found == wanted)
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="collective_mismatch.py",
        description="Play collectives that do not match, or read what a flight recorder kept.",
        epilog="The docstring at the top of this file tells what is played and what is compared. "
        "Options of one task: collective_mismatch.py TASK --help.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--toy", action="store_true", help="play all faults with three ranks and short time-outs"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version",
        action="version",
        version=f"collective_mismatch {__version__} (method {METHOD})",
    )
    tasks = parser.add_subparsers(dest="task", metavar="TASK", title="tasks")
    words = "play faults with real ranks of gloo"
    play = tasks.add_parser("play", help=words, description=words, allow_abbrev=False)
    play.add_argument(
        "faults",
        nargs="*",
        default=list(FAULTS),
        metavar="FAULT",
        help=f"{', '.join(FAULTS)} (default: all)",
    )
    play.add_argument(
        "--by", nargs="+", choices=WAYS, default=list(WAYS), help="ways to name them (default: all)"
    )
    play.add_argument(
        "--ranks", type=parse_count, default=3, metavar="N", help="how many ranks (default: 3)"
    )
    play.add_argument(
        "--odd", type=int, metavar="RANK", help="the rank that is different (default: the last)"
    )
    play.add_argument(
        "--timeout",
        type=parse_duration,
        default=3.0,
        metavar="DURATION",
        help="after which a collective gives up (default: 3s)",
    )
    play.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the recorders' dumps there")
    words = "read the dumps of a real job"
    read = tasks.add_parser("read", help=words, description=words, allow_abbrev=False)
    read.add_argument("dumps", nargs="+", type=Path, metavar="DUMPS", help="files, or their folder")
    for task in (play, read):
        task.add_argument(
            "--json",
            type=Path,
            default=argparse.SUPPRESS,
            metavar="PATH",
            help="write the results as JSON",
        )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse where options make no sense together, and fills in what they leave open."""
    if options.task is None and not options.toy:
        raise WrongUse("name a task: play, or read DUMPS (or --toy, all faults in seconds)")
    if options.task is not None and options.toy:
        raise WrongUse(f"--toy takes no task; leave out {options.task}")
    if options.task == "read":
        return
    if options.toy:
        options.faults, options.by = list(FAULTS), list(WAYS)
        options.ranks, options.odd, options.timeout, options.keep = 3, 2, 3.0, None
    options.faults = list(dict.fromkeys(options.faults))
    for fault in options.faults:
        if fault not in FAULTS:
            raise WrongUse(f"there is no fault '{fault}': write {', '.join(FAULTS)}")
    if options.ranks < 3:
        raise WrongUse("--ranks: of fewer than 3 ranks nobody can tell which one is different")
    options.odd = options.ranks - 1 if options.odd is None else options.odd
    if not 0 < options.odd < options.ranks:
        raise WrongUse(f"--odd: write a rank from 1 to {options.ranks - 1}; rank 0 looks on")
    if not hasattr(os, "fork"):
        raise WrongUse("faults are played on Linux and macOS; dumps can be read anywhere")


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
        check_json_path(options.json)
        check_options(options)
        if options.task == "read":
            return do_read(options, command, origin)
        stop.listen()
        return do_play(options, command, stop, origin)
    except WrongUse as error:
        parser.error(str(error))


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
