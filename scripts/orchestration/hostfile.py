#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which hosts does this job have, and how many slots has each, in the form my launcher reads?

DeepSpeed, mpirun and pdsh want a file with a line for each host. Slurm gives one variable, short
(`gpu[08-11,17]`) or long (`gpu08,gpu09`), and the numbers per node in another notation (`8(x4),4`).
This tool turns one into the other, without scontrol, which containers and Kubernetes pods lack.

How it is done
    hosts   --nodelist, or SLURM_JOB_NODELIST; of a heterogeneous job all its groups. Brackets may
            stand anywhere and several times (`rack[0-1]node[00-15]-ib`), leading zeros are kept,
            and names come in the order in which `scontrol show hostnames` has them.
    slots   --slots N, or gpus, tasks or cpus as Slurm tells them. By default gpus where the job
            asked for some, tasks otherwise.
            gpus    SLURM_GPUS_PER_NODE; else those of this node (SLURM_GPUS_ON_NODE, of the step
                    or of the job), taken for all nodes, with a note
            tasks   SLURM_TASKS_PER_NODE        cpus    SLURM_JOB_CPUS_PER_NODE
    forms   deepspeed, openmpi   host slots=8
            mpich, intel         host:8
            plain                host
    Hand check: n[09-10],x with 4(x2),2 is n09 4, n10 4, x 2.

How to run
    a look          python hostfile.py --nodelist 'gpu[08-11]' --slots 8
    DeepSpeed       python hostfile.py --output hostfile && deepspeed --hostfile hostfile train.py
    to a pipe       python hostfile.py --form plain --slots 1 --first 1 --output -     (rank 0)
    a spare node    python hostfile.py --exclude gpu10 --first 16 --output hostfile
    Slurm           in a batch file, before the launcher: it needs no srun
    pdsh            python hostfile.py --form plain --output hosts; WCOLL=hosts pdsh hostname

A good answer: as many hosts as nodes were asked for, and the slots that the launcher should fill.
The JSON has host names only with --names.

Exit status: 0 done, 1 stopped by a signal, 2 wrong use, or a list that is none.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import itertools
import json
import math
import os
import re
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
# fmt: off
PROFILES = {
    "toy": [
        "--nodelist", "gpu[08-11],rack[1-2]-[1,3]-ib", "--slots", "8", "--exclude", "gpu10",
    ],
    "full": [],
}
# fmt: on

# The unit of each column of the JSON's results that holds numbers.
UNITS = {"node": "1", "slots": "1"}

FORMS = {
    "deepspeed": "{host} slots={slots}",
    "openmpi": "{host} slots={slots}",
    "mpich": "{host}:{slots}",
    "intel": "{host}:{slots}",
    "plain": "{host}",
}
SLOT_KINDS = ("auto", "gpus", "tasks", "cpus")
# Slurm itself takes no more in one range.
MOST_HOSTS = 65536

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


class HostSlots(NamedTuple):
    """A line of the hostfile."""

    host: str
    slots: int


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def parse_slots(text: str) -> str:
    """`auto`, `gpus`, `tasks`, `cpus`, or a number from 1."""
    if text in SLOT_KINDS or re.fullmatch(r"[1-9]\d{0,8}", text, re.ASCII):
        return text
    raise argparse.ArgumentTypeError(f"'{text}': write {', '.join(SLOT_KINDS)} or a number from 1")


def parse_cpu_list(text: str) -> set[int]:
    """Processors of a list in the notation of /sys: `0-3,8`."""
    cpus: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            cpus |= set(range(int(first), int(last or first) + 1))
    return cpus


def split_nodelist(text: str) -> list[str]:
    """The parts of a list of hosts, at the commas outside of brackets. Raises WrongUse."""
    part = r"(?:[^,\[\]\s]|\[[^\[\]\s]*\])+"
    if not re.fullmatch(f"{part}(?:,+{part})*,*", text.strip()):
        raise WrongUse(f"'{text}' is no list of hosts: write node[01-04,7] or a,b,c")
    return re.findall(part, text)


def read_number_range(text: str, item: str) -> range:
    """`7` or `01-04` as numbers. Raises WrongUse for anything else, and for too many."""
    found = re.fullmatch(r"(\d{1,18})(?:-(\d{1,18}))?", item, re.ASCII)
    if found is None:
        raise WrongUse(f"'{text}' is no list of hosts: '{item}' is no range of numbers")
    first, last = int(found.group(1)), int(found.group(2) or found.group(1))
    if last < first:
        raise WrongUse(f"'{text}' is no list of hosts: '{item}' runs backwards")
    if last - first >= MOST_HOSTS:
        raise WrongUse(f"'{text}' has more than {MOST_HOSTS} hosts")
    return range(first, last + 1)


def expand_nodelist(text: str) -> list[str]:
    """The hosts of a list as Slurm writes it, `node[01-03,7],login` say, in Slurm's order.

    Raises WrongUse where it is none.
    """
    hosts: list[str] = []
    for part in split_nodelist(text):
        pieces = re.split(r"\[([^\]]*)\]", part)
        texts, brackets = pieces[::2], pieces[1::2]
        choices = []
        for bracket in brackets:
            items = [(item, read_number_range(part, item)) for item in bracket.split(",")]
            width = {item: len(item.partition("-")[0]) for item, _ in items}
            choices.append([str(n).zfill(width[item]) for item, numbers in items for n in numbers])
        if len(hosts) + math.prod(map(len, choices)) > MOST_HOSTS:
            raise WrongUse(f"'{text}' has more than {MOST_HOSTS} hosts")
        # Slurm counts the last bracket fastest, then the first, the second and so on.
        order = [*range(len(choices) - 2, -1, -1), len(choices) - 1] if choices else []
        for numbers in itertools.product(*(choices[place] for place in order)):
            by_place = dict(zip(order, numbers, strict=True))
            names = [by_place[place] for place in range(len(choices))] + [""]
            hosts.append("".join(map("".join, zip(texts, names, strict=True))))
    return hosts


def expand_counts(text: str) -> list[int]:
    """Numbers per node in Slurm's notation: `8(x3),4` is 8 8 8 4. Raises WrongUse where not."""
    counts: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d{1,9})(?:\(x(\d{1,6})\))?", part.strip(), re.ASCII)
        if found is None:
            raise WrongUse(f"'{text}' is no list of numbers per node: write 8(x3),4")
        counts += [int(found.group(1))] * int(found.group(2) or 1)
    return counts


def count_gpus_of(text: str) -> int:
    """GPUs of a value of SLURM_GPUS_PER_NODE: `8`, `a100:4` or `a100:4,v100:2`. WrongUse if not."""
    numbers = [part.rpartition(":")[2] for part in text.split(",")]
    if not all(re.fullmatch(r"\d{1,6}", number, re.ASCII) for number in numbers):
        raise WrongUse(f"'{text}' is no number of GPUs: write 8 or a100:4")
    return sum(map(int, numbers))


def read_gpu_slots(environ: Mapping[str, str], nodes: int) -> tuple[list[int], str]:
    """GPUs of each node and who says so; empty where nobody does."""
    if environ.get("SLURM_GPUS_PER_NODE"):
        count = count_gpus_of(environ["SLURM_GPUS_PER_NODE"])
        return [count] * nodes, "SLURM_GPUS_PER_NODE"
    for name in ("SLURM_GPUS_ON_NODE", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS"):
        value = environ.get(name, "")
        here = int(value) if name.endswith("ON_NODE") and value.isdigit() else 0
        here = here or (len(parse_cpu_list(value)) if not name.endswith("ON_NODE") else 0)
        if here:
            return [here] * nodes, f"{name} of this node"
    return [], ""


def read_listed_slots(
    environ: Mapping[str, str], name: str, groups: Sequence[str], hosts: Sequence[Sequence[str]]
) -> list[int]:
    """What a variable of numbers per node says of each host; empty where it is not there.

    Raises WrongUse where it speaks of another number of nodes.
    """
    counts = []
    for group, names in zip(groups, hosts, strict=True):
        if not environ.get(name + group):
            return []
        listed = expand_counts(environ[name + group])
        if len(listed) != len(names):
            raise WrongUse(
                f"{name + group} speaks of {len(listed)} nodes, and the list has {len(names)} "
                "hosts: give --slots a number"
            )
        counts += listed
    return counts


def find_groups(environ: Mapping[str, str]) -> list[str]:
    """The endings of the variables of each group of nodes: one empty one, unless the job is
    heterogeneous."""
    size = environ.get("SLURM_HET_SIZE", "")
    groups = [f"_HET_GROUP_{number}" for number in range(int(size))] if size.isdigit() else []
    return [g for g in groups if environ.get(f"SLURM_JOB_NODELIST{g}")] or [""]


def read_hosts(environ: Mapping[str, str], given: str | None) -> tuple[list[str], list[list[str]]]:
    """The groups of this job and the hosts of each. Raises WrongUse where there are none."""
    if given is not None:
        return [""], [expand_nodelist(given)]
    groups = find_groups(environ)
    lists = [environ.get(f"SLURM_JOB_NODELIST{group}", "") for group in groups]
    if not lists[0]:
        raise WrongUse("SLURM_JOB_NODELIST is not set here: run this in a job, or give --nodelist")
    return groups, [expand_nodelist(text) for text in lists]


def make_slots(
    environ: Mapping[str, str], wanted: str, groups: Sequence[str], hosts: Sequence[Sequence[str]]
) -> tuple[list[int], str, list[str]]:
    """The slots of each host, who says so, and caveats. Raises WrongUse where nobody does."""
    total = sum(map(len, hosts))
    if wanted.isdigit():
        return [int(wanted)] * total, "--slots", []
    if wanted in ("auto", "gpus"):
        counts, source = read_gpu_slots(environ, total)
        if counts:
            alone = source.endswith("of this node") and total > 1
            caveat = f"all nodes are taken to have as many GPUs as {source}: {counts[0]}"
            return counts, source, [caveat] if alone else []
    for kind, name in (("tasks", "SLURM_TASKS_PER_NODE"), ("cpus", "SLURM_JOB_CPUS_PER_NODE")):
        if wanted == kind or (wanted == "auto" and kind == "tasks"):
            counts = read_listed_slots(environ, name, groups, hosts)
            if counts:
                return counts, name, []
    raise WrongUse(f"nothing tells the slots ({wanted}) of each node here: give --slots a number")


def choose_lines(
    hosts: Sequence[str], slots: Sequence[int], exclude: Iterable[str], first: int | None
) -> tuple[list[HostSlots], list[str]]:
    """The lines of the hostfile, each host once, and what was left out. Raises WrongUse."""
    excluded = list(exclude)
    strange = [host for host in excluded if host not in hosts]
    if strange:
        raise WrongUse(f"--exclude: {strange[0]} is not among the hosts")
    caveats = []
    lines: dict[str, HostSlots] = {}
    for host, count in zip(hosts, slots, strict=True):
        if host in lines:
            caveats.append(f"{host} is listed more than once, and was taken once")
        elif host not in excluded:
            lines[host] = HostSlots(host, count)
    if first is not None and first > len(lines):
        raise WrongUse(f"--first {first}: only {len(lines)} hosts are left")
    if not lines:
        raise WrongUse("--exclude leaves no host")
    chosen = list(lines.values())[:first]
    empty = [line.host for line in chosen if line.slots == 0]
    if empty:
        raise WrongUse(f"{empty[0]} has no slot: give --slots a number, or --exclude it")
    return chosen, list(dict.fromkeys(caveats))


def format_hostfile(lines: Sequence[HostSlots], form: str) -> str:
    """The text of the file."""
    return "".join(f"{FORMS[form].format(host=line.host, slots=line.slots)}\n" for line in lines)


def write_hostfile(path: Path, text: str) -> None:
    """Write the file whole: under another name, then moved; a pipe or a device is written to, and
    a symbolic link followed. Raises WrongUse where it cannot be."""
    target = path.resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise WrongUse(f"--output: could not write {path}: {error.strerror}") from error


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


def write_note(text: str) -> None:
    """One note for the reader, beside the table."""
    print(f"note: {text}", file=sys.stderr)


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


def make_host_rows(lines: Sequence[HostSlots], with_names: bool) -> list[Row]:
    """The results of the JSON."""
    return [
        {"node": number, "host": line.host if with_names else None, "slots": line.slots}
        for number, line in enumerate(lines)
    ]


def make_hostfile(
    options: argparse.Namespace, arguments: Sequence[str], stop: StopSign, origin: float
) -> int:
    """Read, write and print; the exit status. Raises WrongUse and Stopped."""
    groups, hosts = read_hosts(os.environ, options.nodelist)
    slots, source, caveats = make_slots(os.environ, options.slots, groups, hosts)
    exclude = expand_nodelist(options.exclude) if options.exclude else []
    names = [host for group in hosts for host in group]
    lines, remarks = choose_lines(names, slots, exclude, options.first)
    caveats += remarks
    text = format_hostfile(lines, options.form)
    stop.check()
    # The files first: a stdout that is full is no reason to be without them.
    if options.output not in (None, "-"):
        write_hostfile(Path(options.output), text)
    try:
        if options.json:
            # A list on the command line names hosts.
            shown = [
                "HOSTS" if before in ("--nodelist", "--exclude") and not options.names else argument
                for before, argument in zip(["", *arguments], arguments, strict=False)
            ]
            shown = [
                f"{part.partition('=')[0]}=HOSTS"
                if part.startswith(("--nodelist=", "--exclude=")) and not options.names
                else part
                for part in shown
            ]
            head = make_document_head(
                "hostfile", (__version__, METHOD), make_portable_command(shown), origin
            )
            document = {
                **head,
                "complete": True,
                "units": UNITS,
                "results": make_host_rows(lines, options.names),
                "caveats": [caveat for caveat in caveats if options.names or caveat not in remarks],
                "details": {"form": options.form, "slots_by": source, "groups": len(groups)},
            }
            write_document(options.json, document)
    finally:  # a disk that is full loses no table
        if options.output == "-":
            sys.stdout.write(text)
        else:
            print(format_table(["host", "slots"], ([line.host, str(line.slots)] for line in lines)))
    for caveat in caveats:
        write_note(caveat)
    total = sum(line.slots for line in lines)
    written = "" if options.output in (None, "-") else f", written to {options.output}"
    print(f"{len(lines)} hosts, {total} slots by {source}{written}", file=sys.stderr)
    return 0


def run_self_test() -> int:
    """Check lists and files worked by hand; 0, or 1 where a check fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    check("n[09-11],x", expand_nodelist("n[09-11],x") == ["n09", "n10", "n11", "x"])
    dimensions = expand_nodelist("r[0-1]n[1-2]-ib")
    check("two brackets and an ending", dimensions == ["r0n1-ib", "r0n2-ib", "r1n1-ib", "r1n2-ib"])
    check("8(x2),4", expand_counts("8(x2),4") == [8, 8, 4])
    refused = 0
    for text in ("n[3-1]", "n[1-2", "n]", "n[a]", "", "n[0-99999]", "a b"):
        try:
            expand_nodelist(text)
        except WrongUse:
            refused += 1
    check("what is no list is refused", refused == 7)
    job = {"SLURM_JOB_NODELIST": "n[09-10],x", "SLURM_TASKS_PER_NODE": "4(x2),2"}
    groups, hosts = read_hosts(job, None)
    slots, _, _ = make_slots(job, "auto", groups, hosts)
    check("tasks of each node", slots == [4, 4, 2])
    lines, _ = choose_lines(hosts[0], slots, ["n10"], None)
    check("a host left out", format_hostfile(lines, "deepspeed") == "n09 slots=4\nx slots=2\n")
    with tempfile.TemporaryDirectory(prefix="hostfile_") as folder:
        path = Path(folder) / "hosts"
        write_hostfile(path, format_hostfile(lines, "mpich"))
        check("the file is written whole", path.read_text(encoding="utf-8") == "n09:4\nx:2\n")
        check("and nothing else is", [each.name for each in Path(folder).iterdir()] == ["hosts"])
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="hostfile.py",
        description="Turn the nodes of a Slurm job into a hostfile.",
        epilog="The docstring at the top of this file tells where hosts and slots come from.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--nodelist", metavar="LIST", help="hosts in Slurm's notation (default: those of the job)"
    )
    parser.add_argument(
        "--slots",
        type=parse_slots,
        default="auto",
        metavar="N",
        help="for each host: a number, gpus, tasks, cpus or auto (default: auto)",
    )
    parser.add_argument(
        "--form", choices=FORMS, default="deepspeed", help="of the lines (default: deepspeed)"
    )
    parser.add_argument("--exclude", metavar="LIST", help="hosts to leave out")
    parser.add_argument("--first", type=parse_count, metavar="N", help="so many hosts at most")
    parser.add_argument(
        "--output", metavar="PATH", help="write the hostfile there; - is stdout, without the table"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--names", action="store_true", help="host names in the JSON too")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"hostfile {__version__} (method {METHOD})"
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense together."""
    check_json_path(options.json)
    if options.json and str(options.json) == "-":
        raise WrongUse("--json: - is not stdout here, which is for the hostfile: name a file")
    if options.output not in (None, "-"):
        path = Path(options.output)
        if path.is_dir():
            raise WrongUse(f"--output: {path} is a folder; name a file in it")
        if not path.resolve().parent.is_dir():
            raise WrongUse(f"--output: there is no folder {path.resolve().parent}")
        if options.json and path.resolve() == options.json.resolve():
            raise WrongUse("--output and --json name the same file")
    if options.names and not options.json:
        raise WrongUse("--names is for --json")


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    stop = StopSign()
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_options(options)
        stop.listen()
        return make_hostfile(options, arguments, stop, origin)
    except WrongUse as error:
        parser.error(str(error))
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
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
