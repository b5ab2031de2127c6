#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Why is this checkpoint so much larger than its tensors, and how do I shrink it?

`torch.save` writes the whole storage that a tensor is a view of, not only the part that the tensor
shows. A slice of a large buffer, a shard of a flat parameter, one row of a table: each drags all of
it along. This tool finds such files, and saves them again with only the bytes that their tensors
show: `torch.zeros(1000, 1000)[:10]` saves 4 MB and needs 40 kB.

## What is changed

Storages that are larger than what their tensors show. Each group of overlapping tensors gets a
storage of its own, so tied weights stay tied. Values, types, shapes, names, and everything else in
the file stay. Tensors that were saved on a GPU load on the CPU afterwards.

Files are loaded with `weights_only=True`: one that wants to run code is refused. The new file is
loaded and compared with the old one, every tensor bit by bit, and only then replaces it, in one
step. A file that would not shrink, that was written meanwhile, or that holds sparse or quantized
tensors stays as it is.

## How to run

    python checkpoint_shrink.py checkpoints --dry-run
    python checkpoint_shrink.py checkpoints --patterns "*model_states.pt" "*.bin"
    pdsh -w node[01-08] 'python /shared/checkpoint_shrink.py /local/checkpoints'

## A good answer

`nothing to gain` for all files. Where a file shrank, add `.clone()` to the slice in the code that
saved it: otherwise the next one will be just as large.

Exit status: 0 done; 1 a file was refused or not written, or a signal; 2 usage error.
"""

import contextlib
import fnmatch
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.checkpoints import (
    Group,
    Refused,
    find_difference,
    group_by_storage,
    list_tensors,
    load_checkpoint,
)
from kit.cli import Parser, UsageError, start
from kit.device import import_torch
from kit.ranks import first_line
from kit.report import Report, Row, format_table
from kit.stop import until_stopped

__version__ = "0.2.0"
METHOD = 1
PROFILES = {"demo": ["--demo"], "full": ["--demo"]}
NUMBERS = ("tensors", "seconds", "source_bytes", "dragged_bytes", "target_bytes")
PATTERNS = ("*.pt", "*.pth", "*.bin", "*.ckpt")


def count_needed(group: Group) -> int:
    """How many bytes overlapping tensors need: a single one that skips elements needs only them."""
    looks = {(t.storage_offset(), t.shape, t.stride(), t.dtype) for _, t in group.members}
    tensor, whole = group.members[0][1], group.end - group.begin
    return min(tensor.numel() * tensor.element_size(), whole) if len(looks) == 1 else whole


def cut_out(torch: Any, storage: Any, groups: Sequence[Group]) -> None:
    """Give each group of tensors a storage of its own; the tensors stay the same objects."""
    for group in groups:
        members, begin, end = group
        if count_needed(group) < end - begin:  # one tensor, perhaps under several names
            compact = members[0][1].detach().contiguous().clone()
            for _, tensor in members:
                tensor.data = compact
            continue
        whole = torch.empty(0, dtype=torch.uint8).set_(storage)
        part = whole[begin:end].clone().untyped_storage()
        for _, tensor in members:
            offset = tensor.storage_offset() - begin // tensor.element_size()
            empty = torch.empty(0, dtype=tensor.dtype)
            tensor.data = empty.set_(part, offset, tensor.size(), tensor.stride())


def shrink_file(torch: Any, path: Path, row: Row, dry_run: bool) -> None:
    """Shrink a file if that saves anything. Raises Refused, OSError, RuntimeError."""
    began = time.monotonic()
    before = path.stat()
    tree = load_checkpoint(torch, path)
    tensors = list_tensors(torch, tree)
    large, dragged = [], 0
    for storage, groups in group_by_storage(tensors):
        extra = storage.nbytes() - sum(map(count_needed, groups))
        if extra > 0:
            large.append((storage, groups))
            dragged += extra
    row |= {"tensors": len(tensors), "source_bytes": before.st_size, "dragged_bytes": dragged}
    row["verdict"] = "nothing to gain"
    if large and dry_run:
        row |= {"verdict": "would shrink", "target_bytes": before.st_size - dragged}
    elif large:
        for storage, groups in large:
            cut_out(torch, storage, groups)
        if replace_file(torch, path, before, tree):
            row |= {"verdict": "shrunk", "target_bytes": path.stat().st_size}
    row["seconds"] = round(time.monotonic() - began, 6)


def replace_file(torch: Any, path: Path, before: os.stat_result, tree: Any) -> bool:
    """Write the tree, verify it, replace the file; False if it would not be smaller."""
    partial = path.with_name(f".{path.name}.part")
    try:
        with partial.open("wb") as file:
            torch.save(tree, file)
            os.fsync(file.fileno())
        trees = [load_checkpoint(torch, one) for one in (path, partial)]
        if found := find_difference(torch, *trees):
            raise Refused(f"the new file did not verify: {found}")
        if partial.stat().st_size >= before.st_size:
            return False
        if path.stat().st_mtime_ns != before.st_mtime_ns:
            raise Refused("another program has written this file meanwhile; run again")
        partial.chmod(before.st_mode & 0o7777)
        with contextlib.suppress(OSError):  # only root may give files away
            os.chown(partial, before.st_uid, before.st_gid)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return True


def find_files(paths: Sequence[Path], patterns: Sequence[str]) -> dict[Path, str]:
    """The files that fit the patterns, with their names in the folder. Raises UsageError."""
    files = {}
    for path in paths:
        if path.is_file():
            files[path.resolve()] = path.name
        elif not path.is_dir():
            raise UsageError(f"there is no {path}")
        for found in sorted(path.rglob("*")):
            fits = any(fnmatch.fnmatchcase(found.name, pattern) for pattern in patterns)
            if fits and found.is_file() and not found.is_symlink():
                files[found] = found.relative_to(path).as_posix()
    if not files:
        raise UsageError(f"no file in {paths[0]} fits {' '.join(patterns)}")
    return files


def shrink_files(torch: Any, files: dict[Path, str], report: Report, dry_run: bool) -> bool:
    """Shrink all files; False if one of them failed. A signal ends it between two files."""
    failed = False
    with until_stopped(report) as stop:
        for path, name in files.items():
            row: Row = {"file": name, **dict.fromkeys(NUMBERS), "verdict": "refused"}
            stop.check()
            try:
                shrink_file(torch, path, row, dry_run)
            except (Refused, OSError, RuntimeError, MemoryError) as error:
                report.note(f"{name}: {first_line(error)}; the file is as it was")
                failed = True
            report.rows.append(row)
    return report.complete and not failed


def print_results(rows: Sequence[Row]) -> None:
    sizes = ("source_bytes", "dragged_bytes", "target_bytes")
    cells = []
    for row in rows:
        texts = [None if row[name] is None else f"{row[name] / 1e6:.3f}" for name in sizes]
        cells.append([row["file"], row["tensors"], *texts, row["verdict"]])
    print(format_table(["file", "tensors", "MB", "dragged MB", "new MB", "verdict"], cells))


def make_demo(torch: Any, folder: Path) -> None:
    """Two checkpoints: `demo.pt` drags storages along, `well.pt` does not."""
    buffer = torch.arange(2**18, dtype=torch.float32)
    table = torch.ones(2**12, 64)
    model = {"slice": buffer[10:110], "tied": buffer[10:110], "column": table[:, :2], "step": [7]}
    torch.save({"model": model, "optimizer": ({"exp_avg": buffer[500:600]},)}, folder / "demo.pt")
    torch.save({"weight": torch.ones(64, 8)}, folder / "well.pt")


def build_parser() -> Parser:
    parser = Parser(__doc__, tool="checkpoint_shrink", version=__version__, method=METHOD, demo=[])
    add = parser.add_argument
    # fmt: off
    add("paths", nargs="*", type=Path, help="checkpoint files, or folders of them")
    add("--patterns", nargs="+", default=PATTERNS, metavar="PATTERN",
        help=f"names of files in folders (default: {' '.join(PATTERNS)})")
    add("--dry-run", action="store_true", help="show the sizes before and after; write nothing")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    report = Report("checkpoint_shrink", __version__, METHOD, options.json)
    if options.demo == bool(options.paths):
        raise UsageError("name checkpoint files or folders, or use --demo alone")
    torch = import_torch()
    with tempfile.TemporaryDirectory(prefix="checkpoint_shrink_") as folder:
        if options.demo:
            make_demo(torch, Path(folder))
        paths = [Path(folder)] if options.demo else options.paths
        is_good = shrink_files(torch, find_files(paths, options.patterns), report, options.dry_run)
    print_results(report.rows)
    report.save()
    if options.demo and not options.dry_run:
        is_good &= [row["verdict"] for row in report.rows] == ["shrunk", "nothing to gain"]
    return int(not is_good)


if __name__ == "__main__":
    start(main)
