#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Why is this checkpoint so much larger than its tensors, and how do I get it down to them?

torch.save writes the whole storage that a tensor lies in, not only the part that the tensor shows.
A slice of a large buffer, a shard of a flat parameter, one row of a table: each drags all of
it along. This tool finds such storages in checkpoints, and saves the files again with only the
bytes that their tensors show.

Arithmetic
    Bytes of a file = sum of its storages; bytes needed = those between the first and the last
    element of each group of tensors that overlap, or their elements alone where one tensor skips
    some. Hand check: torch.zeros(1000, 1000)[:10] saves 4 MB and needs 40 kB. Of x[:, :10] all
    rows lie between the first element and the last, so its 10000 elements are written apart.

What is changed
    Storages that are larger than what their tensors show: each group of overlapping tensors gets
    one of its own. Tied tensors stay tied: names for the same elements are names for the same
    elements afterwards, and views keep their place in one another. Tensors that lie side by side
    in one storage and do not overlap become storages of their own, if that saves anything.
What is not
    Values, types, shapes, names, and whatever else is in the file: dicts, lists and tuples at any
    depth, optimizer states, numbers, text. Sparse and quantised tensors are left as they are.
    Tensors saved on an accelerator come back on the CPU where they are loaded without map_location;
    the note says where that is so.

How it is trusted
    weights_only=True, always: a file that wants to run code is refused, and its name and what it
    wanted are told. The new file is written under a temporary name and compared with the old one:
    every tensor bit by bit, what is tied, and all else. Then the old file gets a second name
    (NAME.before_shrink), the new one takes its place in one step, and is read and compared once
    more before the second name is removed (--keep_backup keeps it). A file that somebody has
    written meanwhile is left as it is; so is one that would not be smaller, and one with tensors
    that cannot be compared bit by bit. Links are not followed. Files are called by their place in
    the folder that was named, and a folder that cannot be read is a problem, and named.

How to run
    look first      python checkpoint_shrink.py checkpoints --dry_run
    do it           python checkpoint_shrink.py checkpoints
    some files      python checkpoint_shrink.py checkpoints --patterns "*model_states.pt" "*.bin"
    a trial         python checkpoint_shrink.py --demo
    Slurm           srun --nodes 1 --ntasks 1 python checkpoint_shrink.py /shared/checkpoints
    pdsh            pdsh -w node[01-08] 'python /shared/checkpoint_shrink.py /local/checkpoints'
    One process for each folder. Memory: what is cut out, not what is dragged along.

A good answer: `nothing to gain` for all files; a file that shrank says that whatever saved it
should clone() slices before it saves them.

Seen running so far: on a CPU, with files of torch 2.13, and older formats written by it.

Exit status: 0 done, 1 a file was refused or did not verify, or stopped by a signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import fnmatch
import functools
import json
import os
import platform
import re
import shutil
import signal
import stat
import tempfile
import time
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {
    "toy": ["--demo"],
    "full": ["--demo", "--demo_size", "1GiB"],
}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "tensors": "1",
    "storages": "1",
    "too_large": "1",
    "source_bytes": "B",
    "dragged_bytes": "B",
    "target_bytes": "B",
    "seconds": "s",
}

PATTERNS = ("*.pt", "*.pth", "*.bin", "*.ckpt")
BACKUP_SUFFIX = ".before_shrink"
OLDEST_TORCH = (2, 6)  # before it weights_only could be got round in old files (CVE-2025-32434)
# Where a part of a storage may begin: elements of every type stay whole numbers of elements.
PART_ALIGNMENT = 16

Row = dict[str, Any]


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


class Stopped(Exception):
    """The run ends here, by a signal or by the budget; what was measured is kept."""


class Refused(Exception):
    """A file that this tool leaves alone, and why; in one line with the file's name."""


class Mismatch(Exception):
    """What was written is not what it has to be: where, in a sentence."""


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


class Part(NamedTuple):
    """Bytes of a storage that overlapping tensors show, and what they take when saved alone."""

    begin: int
    end: int
    users: tuple[tuple[str, Any], ...]
    is_compact: bool
    """Whether the elements are written without the gaps between them."""
    new_bytes: int


class StorageUse(NamedTuple):
    """A storage, and the parts of it that are needed."""

    size: int
    parts: tuple[Part, ...]

    @property
    def dragged_bytes(self) -> int:
        """Bytes that need not be saved."""
        return max(self.size - sum(part.new_bytes for part in self.parts), 0)


class Loaded(NamedTuple):
    """What is in a checkpoint, and the devices that its tensors were saved on."""

    tree: Any
    devices: tuple[str, ...]


def load_checkpoint(torch: Any, path: Path) -> Loaded:
    """What torch.save wrote, with weights_only=True, always. Raises Refused."""
    devices: dict[str, None] = {}

    def put_on_cpu(storage: Any, device: str) -> Any:
        devices[device] = None
        return storage

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            is_mapped = zipfile.is_zipfile(path)
            tree = torch.load(path, map_location=put_on_cpu, mmap=is_mapped, weights_only=True)
    except (MemoryError, Stopped):
        raise
    except Exception as error:  # a pickle raises what it likes
        raise Refused(explain_refusal(error)) from error
    return Loaded(tree, tuple(device for device in devices if device != "cpu"))


def is_checkpoint(path: Path) -> bool:
    """Whether a file begins like one of torch.save: a zip archive or a pickle."""
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would have to be waited for
        return False
    with path.open("rb") as file:
        head = file.read(2)
    return head == b"PK" or head[:1] in (b"\x80", b"c", b"(")


def is_plain(torch: Any, tensor: Any) -> bool:
    """Whether a tensor is numbers in memory of its own, which can be moved."""
    return bool(
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout == torch.strided
        and not (tensor.is_nested or tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        and tensor.device.type == "cpu"
    )


def measure_span(tensor: Any) -> tuple[int, int]:
    """The first byte of a tensor in its storage, and the one behind its last."""
    item = tensor.element_size()
    begin = tensor.storage_offset() * item
    if tensor.numel() == 0:
        return begin, begin
    steps = sum(
        (size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )
    return begin, begin + (steps + 1) * item


def plan_storage(size: int, users: Sequence[tuple[str, Any]]) -> StorageUse:
    """The parts of a storage that its tensors show: each of tensors that overlap."""
    spans = sorted(((measure_span(tensor), name, tensor) for name, tensor in users), key=by_span)
    groups: list[list[tuple[str, Any]]] = []
    end = -1
    for (first, last), name, tensor in spans:
        if not groups or first >= end:
            groups.append([])
        groups[-1].append((name, tensor))
        end = max(end, last) if len(groups[-1]) > 1 else last
    return StorageUse(size, tuple(plan_part(group) for group in groups))


def by_span(item: tuple[tuple[int, int], str, Any]) -> tuple[tuple[int, int], str]:
    """What to sort by."""
    return item[0], item[1]


def plan_part(users: Sequence[tuple[str, Any]]) -> Part:
    """What a group of overlapping tensors takes when saved alone."""
    spans = [measure_span(tensor) for _, tensor in users]
    begin, end = min(first for first, _ in spans), max(last for _, last in spans)
    looks = {(t.storage_offset(), t.shape, t.stride(), t.dtype) for _, t in users}
    tensor = users[0][1]
    alone = tensor.numel() * tensor.element_size()
    is_compact = len(looks) == 1 and alone < end - begin
    if not is_compact:
        begin -= begin % PART_ALIGNMENT
    return Part(begin, end, tuple(users), is_compact, alone if is_compact else end - begin)


def plan_checkpoint(torch: Any, tree: Any) -> tuple[list[StorageUse], int]:
    """The storages of a checkpoint and what is needed of them; the number of its tensors."""
    sizes: dict[int, int] = {}
    users: dict[int, dict[int, tuple[str, Any]]] = {}
    count = 0
    untouched: set[int] = set()
    for name, tensor in walk_tensors(torch, tree):
        count += 1
        if not is_plain(torch, tensor):
            with contextlib.suppress(NotImplementedError, RuntimeError):
                untouched.add(tensor.untyped_storage()._cdata)
            continue
        storage = tensor.untyped_storage()
        sizes[storage._cdata] = storage.nbytes()
        # The same object under two names is one tensor.
        users.setdefault(storage._cdata, {}).setdefault(id(tensor), (name, tensor))
    uses = [
        plan_storage(sizes[number], list(found.values()))
        for number, found in users.items()
        if number not in untouched
    ]
    return uses, count


def cut_out(torch: Any, use: StorageUse) -> None:
    """Give each part of a storage a storage of its own; its tensors stay the same objects."""
    for part in use.parts:
        tensor = part.users[0][1]
        if part.is_compact:
            base = tensor.detach().contiguous()
            for _, user in part.users:
                user.data = base.view_as(base)
            continue
        whole = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
        storage = whole[part.begin : part.end].clone().untyped_storage()
        for _, user in part.users:
            place = (measure_span(user)[0] - part.begin) // user.element_size()
            empty = torch.empty(0, dtype=user.dtype)
            user.data = empty.set_(storage, place, user.size(), user.stride())


def match_checkpoints(torch: Any, old: Any, new: Any, file: str) -> None:
    """Raises Mismatch where two checkpoints differ in more than the size of their storages."""
    for name, one, two in match_trees(torch, old, new, file):
        looks = [(t.dtype, t.shape, t.requires_grad, type(t), t.layout) for t in (one, two)]
        try:
            is_same = looks[0] == looks[1] and has_same_bytes(torch, one, two)
        except Mismatch as error:
            raise Mismatch(f"{file}: '{name}': {error}") from error
        if not is_same:
            raise Mismatch(f"{file}: '{name}' is not what it was")
    ties = [list_ties(torch, tree) for tree in (old, new)]
    if ties[0] != ties[1]:
        raise Mismatch(f"{file}: other tensors share memory than did before")


def has_same_bytes(torch: Any, one: Any, two: Any) -> bool:
    """Whether two tensors of one shape and type are equal bit by bit, NaN included.

    Raises Mismatch for a kind of tensor that cannot be taken apart.
    """
    if is_plain(torch, one) and is_plain(torch, two):
        # A single element, or none, may have any stride, and is then no row of bytes to torch.
        flat = [t.detach().contiguous().reshape(-1) for t in (one, two)]
        flat = [t.clone(memory_format=torch.contiguous_format) if len(t) < 2 else t for t in flat]
        return bool(torch.equal(*(t.view(torch.uint8) for t in flat)))
    facts, others = take_apart(torch, one), take_apart(torch, two)
    if facts[0] != others[0] or len(facts[1]) != len(others[1]):
        return False
    return all(map(functools.partial(has_same_bytes, torch), facts[1], others[1]))


def take_apart(torch: Any, tensor: Any) -> tuple[tuple[Any, ...], list[Any]]:
    """Numbers, and plain tensors, that together are all that a tensor of another kind holds.

    Raises Mismatch where there is no knowing that they are all.
    """
    parts: list[Any] | None = None
    facts: tuple[Any, ...] = (tensor.layout, tensor.device.type)
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.is_nested:
        pass
    elif tensor.is_meta:
        parts = []
    elif tensor.layout == torch.sparse_coo:
        facts = (*facts, tensor.is_coalesced())
        parts = [tensor._indices(), tensor._values()]
    elif tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        parts = [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    elif tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        parts = [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    elif tensor.is_quantized and tensor.qscheme() == torch.per_tensor_affine:
        facts = (*facts, tensor.q_scale(), tensor.q_zero_point())
        parts = [tensor.int_repr()]
    elif tensor.is_conj() or tensor.is_neg():
        facts = (*facts, tensor.is_conj(), tensor.is_neg())
        parts = [tensor.resolve_conj().resolve_neg()]
    if parts is None or any(not is_plain(torch, part.detach()) for part in parts):
        raise Mismatch(f"a tensor of type {type(tensor).__name__} and {facts} cannot be compared")
    return facts, [part.detach() for part in parts]


def list_ties(torch: Any, tree: Any) -> set[tuple[tuple[str, int], ...]]:
    """Which tensors overlap, and how far from the first byte of their group each begins."""
    groups: dict[int, list[tuple[str, Any]]] = {}
    for name, tensor in walk_tensors(torch, tree):
        if is_plain(torch, tensor):
            groups.setdefault(tensor.untyped_storage()._cdata, []).append((name, tensor))
    ties = set()
    for users in groups.values():
        for part in plan_storage(0, users).parts:
            begin = min(measure_span(tensor)[0] for _, tensor in part.users)
            places = sorted((name, measure_span(tensor)[0] - begin) for name, tensor in part.users)
            if len(places) > 1:
                ties.add(tuple(places))
    return ties


# --- files ---


def find_checkpoints(
    paths: Sequence[Path], patterns: Sequence[str]
) -> tuple[dict[Path, str], dict[str, str]]:
    """The files that were named, and those in the folders that fit a pattern, each with its name
    in the folder that holds all that was named; and by such names what could not be read, and why.
    """
    paths = [Path(os.path.abspath(path)) for path in paths]  # noqa: PTH100 - links stay links
    base = Path(os.path.commonpath([path if path.is_dir() else path.parent for path in paths]))
    found: dict[Path, str] = {}
    unread: dict[str, str] = {}

    def note_unread(error: OSError) -> None:
        path = Path(error.filename)
        name = path.name if path == base else path.relative_to(base).as_posix()
        unread[name] = error.strerror or str(error)

    for path in paths:
        if not path.is_dir():
            found[path] = path.relative_to(base).as_posix()
            continue
        files = [
            Path(folder, name)
            for folder, _, names in os.walk(path, onerror=note_unread)
            for name in names
            if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
        ]
        for file in sorted(files):
            is_ours = file.name.startswith(".") or file.name.endswith(BACKUP_SUFFIX)
            try:
                if file.is_file() and not is_ours:
                    found[file] = file.relative_to(base).as_posix()
            except OSError as error:  # a folder whose names can be read, and nothing else
                note_unread(error)
    return found, unread


def make_shrink_row(path: Path, name: str, verdict: str) -> Row:
    """One row of results, of a file that was not looked into."""
    size = None
    with contextlib.suppress(OSError):  # whoever writes checkpoints may have removed it since
        size = path.lstat().st_size
    return {
        "file": name,
        "tensors": None,
        "storages": None,
        "too_large": None,
        "source_bytes": size,
        "dragged_bytes": None,
        "target_bytes": None,
        "seconds": None,
        "verified": None,
        "verdict": verdict,
    }


def shrink_file(
    torch: Any, path: Path, name: str, options: argparse.Namespace, stop: StopSign
) -> Row:
    """Shrink a file, if that saves anything. Raises Refused, Mismatch, Stopped, OSError."""
    started = time.monotonic()
    if path.is_symlink():
        return make_shrink_row(path, name, "a link")
    if not is_checkpoint(path):
        return make_shrink_row(path, name, "no checkpoint")
    clear_backup(path)
    state = path.stat()
    loaded = load_checkpoint(torch, path)
    uses, count = plan_checkpoint(torch, loaded.tree)
    large = [use for use in uses if use.dragged_bytes > 0]
    row = make_shrink_row(path, name, "nothing to gain")
    row["tensors"], row["storages"], row["too_large"] = count, len(uses), len(large)
    row["dragged_bytes"] = sum(use.dragged_bytes for use in large)
    if large:
        row["verdict"] = "would shrink"
        if loaded.devices:
            write_note(f"{name}: tensors of {', '.join(loaded.devices)} become those of cpu")
        if state.st_nlink > 1:
            write_note(f"{name} has other names (hard links), which keep the old file")
        if not options.dry_run:
            for use in large:
                stop.check()
                cut_out(torch, use)
            if replace_file(torch, path, name, state, loaded.tree, options.keep_backup, stop):
                row["verdict"], row["verified"] = "shrunk", True
                row["target_bytes"] = path.stat().st_size
            else:
                row["verdict"] = "nothing to gain"
    row["seconds"] = round(time.monotonic() - started, 6)
    return row


def clear_backup(path: Path) -> None:
    """Remove the second name that a run has left which was ended before it changed anything.

    Raises Refused where it is the name of something else.
    """
    backup = path.with_name(path.name + BACKUP_SUFFIX)
    if not backup.exists():
        return
    if not backup.samefile(path):
        raise Refused(
            f"{backup.name} is there already, kept or left by an earlier run; look which of them "
            "you want, and remove the other"
        )
    backup.unlink()


def replace_file(
    torch: Any,
    path: Path,
    name: str,
    state: os.stat_result,
    tree: Any,
    keep_backup: bool,
    stop: StopSign,
) -> bool:
    """Write the tree, verify it, and let it take the place of the file in one step; False where
    it would not be smaller. `state` is that of the file before the tree was read from it.

    Raises Mismatch with the old file in its place, and so do Stopped, Refused and OSError.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    backup = path.with_name(path.name + BACKUP_SUFFIX)
    try:
        with open_own_file(partial) as file:
            torch.save(tree, file)
            flush_to_disk(file)
        if partial.stat().st_size >= state.st_size:
            return False
        match_checkpoints(
            torch,
            load_checkpoint(torch, path).tree,
            load_checkpoint(torch, partial).tree,
            name,
        )
        with contextlib.suppress(OSError):
            os.chown(partial, state.st_uid, state.st_gid)
        partial.chmod(stat.S_IMODE(state.st_mode))
        written = partial.stat()
        stop.check()
        give_second_name(path, backup)
        try:
            check_unchanged(path, state)
            partial.replace(path)
        except BaseException:
            backup.unlink()
            raise
    finally:
        partial.unlink(missing_ok=True)
    flush_folder(path.parent)
    try:
        before, after = load_checkpoint(torch, backup).tree, load_checkpoint(torch, path).tree
        match_checkpoints(torch, before, after, name)
    except Exception:
        try:
            check_unchanged(path, written)
        except (Refused, OSError):  # what its program has saved since is newer than both
            backup.unlink()
            raise
        backup.replace(path)
        raise
    if not keep_backup:
        backup.unlink()
    return True


def open_own_file(path: Path) -> BinaryIO:
    """A new file that nobody else may read, for who may not read the old one either."""
    return open(path, "xb", opener=functools.partial(os.open, mode=0o600))


def check_unchanged(path: Path, state: os.stat_result) -> None:
    """Raises Refused where a file was written, or another was put in its place, since then."""
    now = path.stat()
    looks = [(s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns) for s in (state, now)]
    if looks[0] != looks[1]:
        raise Refused("somebody has written this file meanwhile; run again")


def give_second_name(path: Path, backup: Path) -> None:
    """Let the old file be there under another name too: a link, or a copy where links cannot be.

    Raises Refused where that name is taken.
    """
    try:
        os.link(path, backup)
    except FileExistsError as error:
        raise Refused(f"{backup.name} has appeared meanwhile; run again") from error
    except OSError:
        copy = backup.with_name(f".{backup.name}.{os.getpid()}.part")
        try:
            with path.open("rb") as source, open_own_file(copy) as target:
                shutil.copyfileobj(source, target)
                flush_to_disk(target)
            shutil.copystat(path, copy)
            copy.rename(backup)
        finally:
            copy.unlink(missing_ok=True)


def print_report(
    rows: Sequence[Row], caveats: Sequence[str], problems: Sequence[str], is_dry: bool
) -> bool:
    """The table to stdout, notes and problems to stderr; False where stdout was not written."""

    def show(value: int | None, scale: float = 0) -> str:
        if value is None:
            return "-"
        return f"{value / scale:.3f}" if scale else str(value)

    cells = [
        [
            row["file"],
            *(show(row[name]) for name in ("tensors", "storages", "too_large")),
            *(show(row[name], 1e6) for name in ("source_bytes", "dragged_bytes", "target_bytes")),
            row["verdict"],
        ]
        for row in rows
    ]
    headings = ["file", "tensors", "storages", "too large", "MB", "dragged MB", "new MB", "verdict"]
    is_printed = not cells or print_to_stdout(format_table(headings, cells))
    for caveat in caveats:
        write_note(caveat)
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    total = sum(row["dragged_bytes"] or 0 for row in rows)
    if total and is_dry:
        print(f"verdict: {total / 1e6:.3f} MB can be saved", file=sys.stderr)
    return is_printed


def run_shrinking(
    options: argparse.Namespace, command: Sequence[str], stop: StopSign, origin: float
) -> int:
    """Shrink, print and write; the exit status."""
    torch = import_torch()
    check_torch(torch)
    rows: list[Row] = []
    caveats: list[str] = []
    problems: list[str] = []
    reason = ""
    with contextlib.ExitStack() as stack:
        paths = options.paths
        if options.demo:
            paths = [Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shrink_")))]
            make_demo_checkpoints(torch, paths[0], options.demo_size)
        files, unread = find_checkpoints(paths, options.patterns)
        problems.extend(f"{name}: could not be read: {why}" for name, why in unread.items())
        if not files:
            words = f"no file fits {' '.join(options.patterns)} in {paths[0]}"
            raise WrongUse("; ".join(problems) or words)
        for path, name in files.items():
            try:
                stop.check()
                rows.append(shrink_file(torch, path, name, options, stop))
            except Refused as error:
                rows.append(make_shrink_row(path, name, "refused"))
                problems.append(f"{name}: {error}")
            except Mismatch as error:
                rows.append(make_shrink_row(path, name, "NOT VERIFIED"))
                problems.append(f"{error}; the file is as it was")
            except FileNotFoundError:
                rows.append(make_shrink_row(path, name, "gone"))
                problems.append(f"{name}: somebody has removed this file meanwhile")
            except OSError as error:
                rows.append(make_shrink_row(path, name, "not written"))
                problems.append(f"{name}: {error.strerror or error}; the file is as it was")
            except (RuntimeError, MemoryError) as error:
                # torch.save has errors of its own for a full disk.
                rows.append(make_shrink_row(path, name, "not written"))
                words = (str(error).strip().splitlines() or ["out of memory"])[0][:200]
                problems.append(f"{name}: {words}; the file is as it was")
            except Stopped as stopped:
                reason = str(stopped)
                caveats.append(f"{reason}, after {len(rows)} of {len(files)} files")
                break
    is_printed = print_report(rows, caveats, problems, options.dry_run)
    if options.json:
        document = {
            **make_document_head("checkpoint_shrink", (__version__, METHOD), command, origin),
            "complete": not reason,
            "units": UNITS,
            "results": rows,
            "caveats": [*caveats, *problems],
            "details": {
                "dry_run": options.dry_run,
                "patterns": list(options.patterns),
                "torch": str(torch.__version__),
                "platform": f"{platform.system()} {platform.machine()}",
                "python": platform.python_version(),
            },
        }
        write_document(options.json, document)
    return 1 if problems or reason or not is_printed else 0


def make_demo_checkpoints(torch: Any, folder: Path, size: int) -> None:
    """Two checkpoints of about so many bytes together: one drags storages along, one does not."""
    count = max(size // 8, 1024)
    buffer = torch.arange(count, dtype=torch.float32)
    table = torch.ones(count // 64, 64)
    state = OrderedDict(slice=buffer[10:110], tied=buffer[10:110], column=table[:, :2], step=[7])
    torch.save({"model": state, "optimizer": ({"exp_avg": buffer[500:600]},)}, folder / "demo.pt")
    torch.save({"weight": torch.ones(64, 8)}, folder / "well.pt")


def explain_refusal(error: Exception) -> str:
    """Why torch would not read a file, in a line."""
    text = str(error)
    found = re.search(r"GLOBAL ([\w.]+)", text)
    if found:
        return (
            f"refused, because it wants to call {found.group(1)}, which weights have no use for; "
            "nothing of it was run"
        )
    words = re.search(r"WeightsUnpickler error:\s*(.+)", text)
    line = words.group(1) if words else (text.strip().splitlines() or [type(error).__name__])[0]
    return (
        f"refused, because torch cannot read it as weights alone ({line.strip()[:200]}); nothing "
        "of it was run"
    )


def walk_tensors(torch: Any, tree: Any) -> Iterator[tuple[str, Any]]:
    """All tensors in dicts, lists and tuples, with names like `model.layers.0.weight`."""
    waiting: list[tuple[str, Any]] = [("", tree)]
    seen: set[int] = set()
    while waiting:
        name, item = waiting.pop()
        children: list[tuple[Any, Any]] = []
        if isinstance(item, torch.Tensor):
            yield name, item
        elif isinstance(item, dict):
            children = list(item.items())
        elif isinstance(item, list | tuple | set | frozenset):
            children = list(enumerate(item))
        if children and id(item) not in seen:
            seen.add(id(item))
            named = [(f"{name}.{key}" if name else str(key), child) for key, child in children]
            waiting.extend(reversed(named))


def match_trees(torch: Any, old: Any, new: Any, file: str) -> Iterator[tuple[str, Any, Any]]:
    """All tensors of two trees side by side. Raises Mismatch where anything else differs."""
    waiting: list[tuple[str, Any, Any]] = [("", old, new)]
    seen: set[int] = set()
    while waiting:
        name, one, two = waiting.pop()
        if isinstance(one, torch.Tensor) and isinstance(two, torch.Tensor):
            yield name, one, two
            continue
        if type(one) is not type(two):
            raise Mismatch(f"{file}: '{name}' became something else")
        keys: list[Any] = []
        if isinstance(one, dict):
            keys = list(one)
            is_same = keys == list(two) and vars_of(one).keys() == vars_of(two).keys()
        elif isinstance(one, list | tuple):
            keys = list(range(len(one)))
            is_same = len(one) == len(two)
        else:
            is_same = one == two or (one != one and two != two)
        if not is_same:
            raise Mismatch(f"{file}: '{name}' is not what it was")
        if keys and id(one) not in seen:
            seen.add(id(one))
            waiting.extend(
                (f"{name}.{key}" if name else str(key), one[key], two[key]) for key in keys
            )


def vars_of(item: Any) -> dict[str, Any]:
    """What an object has besides its contents, as the `_metadata` of a module's state."""
    return getattr(item, "__dict__", {})


def flush_to_disk(file: Any) -> None:
    """Have the contents of an open file on the disk, not in memory alone."""
    file.flush()
    os.fsync(file.fileno())


def flush_folder(path: Path) -> None:
    """Have the names in a folder on the disk, where one can ask for that."""
    with contextlib.suppress(OSError):
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def check_torch(torch: Any) -> None:
    """Raises WrongUse for a torch whose weights_only can be got round."""
    found = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    if found is None or tuple(map(int, found.groups())) < OLDEST_TORCH:
        raise WrongUse(f"torch {torch.__version__}: weights_only is safe from 2.6 on; update it")


def import_torch() -> Any:
    """The torch module; raises WrongUse with what to do where there is none."""
    try:
        import torch
    except ImportError as error:
        raise WrongUse(
            f"torch does not import ({error}); install it: https://pytorch.org/get-started/locally"
        ) from error
    return torch


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


def run_self_test() -> int:
    """Check what is cut out, what stays tied, and what is refused; 0, or 1 where a check fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    torch = import_torch()
    check_torch(torch)
    rows = torch.zeros(1000, 1000)
    use = plan_storage(rows.untyped_storage().nbytes(), [("rows", rows[:10])])
    check("10 of 1000 rows need 40 kB of 4 MB", use.dragged_bytes == 4_000_000 - 40_000)
    use = plan_storage(rows.untyped_storage().nbytes(), [("columns", rows[:, :10])])
    check("10 columns as well", use.parts[0].is_compact and use.parts[0].new_bytes == 40_000)
    halves = [("a", rows[:500]), ("b", rows[500:])]
    use = plan_storage(rows.untyped_storage().nbytes(), halves)
    check("two halves drag nothing along", use.dragged_bytes == 0 and len(use.parts) == 2)
    wide = torch.zeros(1).expand(1000)
    check("an expanded number stays one number", plan_storage(4, [("e", wide)]).dragged_bytes == 0)
    with tempfile.TemporaryDirectory(prefix="shrink_") as name:
        folder = Path(name)
        make_demo_checkpoints(torch, folder, 2**16)
        path = folder / "demo.pt"
        old = load_checkpoint(torch, path).tree
        size = path.stat().st_size
        options = build_parser().parse_args(["x", "--dry_run"])
        row = shrink_file(torch, path, "demo.pt", options, StopSign())
        is_kept = path.stat().st_size == size and row["verdict"] == "would shrink"
        check("a dry run changes nothing", is_kept)
        options = build_parser().parse_args(["x"])
        row = shrink_file(torch, path, "demo.pt", options, StopSign())
        check("the file shrinks", row["verdict"] == "shrunk" and path.stat().st_size < size // 4)
        new = load_checkpoint(torch, path).tree
        try:
            match_checkpoints(torch, old, new, "demo.pt")
            is_same = True
        except Mismatch:
            is_same = False
        check("and holds the same", is_same)
        model = new["model"]
        check("what was tied is tied", model["slice"].data_ptr() == model["tied"].data_ptr())
        row = shrink_file(torch, path, "demo.pt", options, StopSign())
        check("the second time there is nothing to gain", row["verdict"] == "nothing to gain")
        names = sorted(item.name for item in folder.iterdir())
        check("nothing else is left in the folder", names == ["demo.pt", "well.pt"])
        evil = folder / "evil.pt"
        evil.write_bytes(b"cos\nmkdir\n(V" + str(folder / "ran").encode() + b"\ntR.")
        try:
            load_checkpoint(torch, evil)
            refused = ""
        except Refused as error:
            refused = str(error)
        is_safe = "mkdir" in refused and not (folder / "ran").exists()
        check("a pickle that runs code is refused, and has not run", is_safe)
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="checkpoint_shrink.py",
        description="Save checkpoints again without the storage that their tensors drag along.",
        epilog="The docstring at the top of this file tells what is changed and how to run it.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "paths", nargs="*", type=Path, metavar="PATH", help="checkpoints, or folders of them"
    )
    parser.add_argument(
        "--patterns",
        nargs="+",
        default=list(PATTERNS),
        metavar="PATTERN",
        help=f"which files of a folder, at any depth (default: {' '.join(PATTERNS)})",
    )
    parser.add_argument(
        "--dry_run", "--dry-run", action="store_true", help="say what would shrink; write nothing"
    )
    parser.add_argument(
        "--keep_backup", action="store_true", help=f"keep the old file as NAME{BACKUP_SUFFIX}"
    )
    parser.add_argument(
        "--demo", action="store_true", help="make checkpoints in a temporary folder; shrink those"
    )
    parser.add_argument("--demo_size", type=parse_bytes, metavar="SIZE", help="(default: 2MiB)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version",
        action="version",
        version=f"checkpoint_shrink {__version__} (method {METHOD})",
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense, before anything is read."""
    check_json_path(options.json)
    if options.demo and (options.paths or options.keep_backup):
        raise WrongUse("--demo makes its own checkpoints; leave paths and --keep_backup out")
    if options.demo_size and not options.demo:
        raise WrongUse("--demo_size belongs to --demo")
    if options.dry_run and options.keep_backup:
        raise WrongUse("--dry_run writes nothing; leave --keep_backup out")
    options.demo_size = options.demo_size or 2**21
    if not options.demo and not options.paths:
        raise WrongUse("name checkpoints or a folder of them, or --demo")
    for path in options.paths:
        try:
            if not path.exists():
                raise WrongUse(f"there is no {path}")
        except OSError as error:
            raise WrongUse(f"could not read {path}: {error.strerror}") from error


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
        return run_shrinking(options, make_portable_command(arguments), stop, origin)
    except WrongUse as error:
        parser.error(str(error))
    except (KeyboardInterrupt, Stopped):
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
