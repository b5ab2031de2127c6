#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""How do I get a bf16 copy of this checkpoint, verified bit by bit?

Converts the weights in a folder, `.safetensors` and `.bin`, single or sharded, into a new folder.
Index files and config.json are adapted; everything else but other weights is copied. The source is
only read.

## Formula

A value becomes the nearest bfloat16, and of two equally near ones the one whose last bit is 0 (IEEE
754, roundTiesToEven). The relative error is at most 1/257. Values above 3.39e38 become infinite,
and are counted. float64 is rounded to float32 first.

## What is converted

float32, float16 and float64 weights. All other types stay as they are, and so do tensors whose name
matches `--keep`. Tensors that share memory in a `.bin` (tied weights) share it in the copy.

`.bin` files are loaded with `weights_only=True`: one that wants to run code is refused. All files
are checked before anything is written, and each copy is read back and compared bit by bit. The
folder is called `.NAME.partial` until all is in it. `.safetensors` need the package safetensors.

## How to run

    python checkpoint_to_bf16.py model-fp32 model-bf16 --dry-run
    python checkpoint_to_bf16.py in out --keep "*.inv_freq" "*router*" "*norm*"
    srun --nodes 1 --ntasks 1 python checkpoint_to_bf16.py model-fp32 model-bf16

## A good answer

`ok` for each file, about half of the bytes, and no value that became infinite.

Exit status: 0 done; 1 a file was refused or did not verify, or a signal; 2 usage error.
"""

import argparse
import fnmatch
import importlib.util
import math
import re
import shutil
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
    has_same_bits,
    list_tensors,
    load_checkpoint,
)
from kit.cli import Parser, UsageError, size, start
from kit.device import free_memory, import_torch
from kit.report import Report, Row, format_bytes, format_table, read_json, write_json
from kit.stop import Stop, Stopped

__version__ = "0.2.0"
METHOD = 1
PROFILES = {"demo": ["--demo"], "full": ["--demo"]}
NUMBERS = ("tensors", "converted", "became_infinite", "seconds", "source_bytes", "target_bytes")
KEEP = ("*.inv_freq", "optimizer*")
WEIGHTS = ("*.safetensors", "*model*.bin")
NOT_COPIED = (".*", "*.index.json", "*.bin", "*.pt", "*.pth", "*.ckpt", "*.h5", "*.msgpack",
              "*.onnx", "*.gguf", "*.safetensors")  # fmt: skip
FLOAT_TYPE = r'("(?:torch_)?dtype": *)"(?:torch\.)?(?:float(?:16|32|64)|auto)"'
"""The type of the weights in a config.json."""


def read_weights(torch: Any, path: Path) -> tuple[Any, Any]:
    """The tensors of a file, mapped into memory, and its metadata. Raises Refused."""
    if path.suffix == ".bin":
        return load_checkpoint(torch, path), None
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise UsageError("safetensors is missing: pip install safetensors") from error
    try:
        with safe_open(path, "pt") as file:
            return {name: file.get_tensor(name) for name in [*file.keys()]}, file.metadata()
    except SafetensorError as error:
        raise Refused(f"not a safetensors file, or a part of it is missing: {error}") from error


def write_weights(torch: Any, tree: Any, metadata: Any, path: Path) -> None:
    """Write a file that read_weights reads."""
    if path.suffix == ".bin":
        torch.save(tree, path)
    else:
        from safetensors.torch import save_file

        save_file(tree, path, metadata)


def choose_groups(torch: Any, tree: Any, keep: Sequence[str]) -> tuple[list[Group], list[Group]]:
    """The tensors to convert, and the others. Raises Refused."""
    converted: list[Group] = []
    others: list[Group] = []
    for _, groups in group_by_storage(list_tensors(torch, tree)):
        for group in groups:
            kinds = {tensor.dtype for _, tensor in group.members}
            is_float = len(kinds) == 1 and kinds <= {torch.float64, torch.float32, torch.float16}
            is_kept = any(fnmatch.fnmatchcase(n, one) for n, _ in group.members for one in keep)
            (converted if is_float and not is_kept else others).append(group)
    return converted, others


def plan_file(options: argparse.Namespace, path: Path) -> Row:
    """The row of a file, before anything is written. Raises Refused, OSError."""
    tree, _ = read_weights(options.torch, path)
    converted, others = choose_groups(options.torch, tree, options.keep)
    needed = sum(2 * (g.end - g.begin) // g.members[0][1].element_size() for g in converted)
    if needed > options.max_memory:
        raise Refused(f"needs {format_bytes(needed)} of memory, more than --max-memory")
    return {
        "file": path.name,
        **dict.fromkeys(NUMBERS),
        "tensors": sum(len(group.members) for group in [*converted, *others]),
        "converted": sum(len(group.members) for group in converted),
        "source_bytes": path.stat().st_size,
        "tensor_bytes": needed + sum(group.end - group.begin for group in others),
        "verdict": "would be converted",
    }


def convert_group(torch: Any, group: Group) -> None:
    """Round overlapping tensors of one type to bfloat16; they overlap as before."""
    first = group.members[0][1]
    begin, end = (place // first.element_size() for place in group[1:])
    whole = torch.empty(0, dtype=first.dtype).set_(first.untyped_storage(), begin, (end - begin,))
    rounded = whole.to(torch.bfloat16)
    for _, tensor in group.members:
        offset = tensor.storage_offset() - begin
        tensor.data = rounded.as_strided(tensor.shape, tensor.stride(), offset)


def compare_files(torch: Any, source: Path, target: Path) -> int:
    """How many values became infinite. Raises Refused where the copy is not what it has to be."""
    infinite = 0

    def is_copy(before: Any, after: Any) -> bool:
        nonlocal infinite
        if after.dtype != before.dtype:
            infinite += int((after.isinf() & ~before.isinf()).sum())
            before = before.to(torch.bfloat16)
        return has_same_bits(torch, before, after)

    trees = [read_weights(torch, path)[0] for path in (source, target)]
    if found := find_difference(torch, *trees, is_copy):
        raise Refused(f"the copy did not verify: {found}")
    return infinite


def convert_file(options: argparse.Namespace, path: Path, folder: Path, row: Row) -> None:
    """Convert and verify a file. Raises Refused, OSError."""
    torch, target = options.torch, folder / path.name
    began = time.monotonic()
    tree, metadata = read_weights(torch, path)
    for group in choose_groups(torch, tree, options.keep)[0]:
        convert_group(torch, group)
    write_weights(torch, tree, metadata, target)
    shutil.copymode(path, target)  # the package makes files that only their owner can read
    row |= {"became_infinite": compare_files(torch, path, target), "verdict": "ok"}
    row |= {"target_bytes": target.stat().st_size, "seconds": round(time.monotonic() - began, 6)}


def find_weights(source: Path) -> tuple[dict[str, Any], list[Path]]:
    """Index files with their content, and the files of weights. Raises UsageError."""
    indexes = {}
    names = {path.name for pattern in WEIGHTS for path in source.glob(pattern) if path.is_file()}
    for path in sorted(source.glob("*.index.json")):
        indexes[path.name] = read_json(path.name, path)
        listed = {Path(name).name for name in indexes[path.name].get("weight_map", {}).values()}
        if missing := sorted(name for name in listed if not (source / name).is_file()):
            raise UsageError(f"{path.name}: '{missing[0]}' is missing; download it first")
        names |= listed
    if not names:
        raise UsageError(f"{source}: no .safetensors or .bin weights in this folder")
    return indexes, [source / name for name in sorted(names)]


def convert_folder(options: argparse.Namespace, source: Path, target: Path, report: Report) -> bool:
    """Look at all files, then convert them into the new folder; False if that failed."""
    indexes, weights = find_weights(source)
    for path in weights:
        try:
            report.rows.append(plan_file(options, path))
        except (Refused, OSError) as error:
            report.note(f"{path.name}: {error}")
    report.complete = True
    if report.notes or options.dry_run:
        return not report.notes
    folder = target.with_name(f".{target.name}.partial")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns(*NOT_COPIED))
    for path in folder.rglob("config.json"):
        changed = re.sub(FLOAT_TYPE, r'\1"bfloat16"', path.read_text(encoding="utf-8"))
        path.write_text(changed, encoding="utf-8")
    stop = Stop()
    stop.listen()
    for path, row in zip(weights, report.rows, strict=True):
        try:
            stop.check()
            convert_file(options, path, folder, row)
        except (Refused, Stopped, OSError, RuntimeError, MemoryError) as error:
            row["verdict"] = "not converted"
            report.complete = not stop.is_due()
            report.note(f"{path.name}: {error}; what is done so far is in {folder}")
            return False
    sizes = {row["file"]: row["tensor_bytes"] for row in report.rows}
    for name, index in indexes.items():
        total = sum(sizes[file] for file in set(index["weight_map"].values()))
        write_json(folder / name, {**index, "metadata": index["metadata"] | {"total_size": total}})
    folder.rename(target)
    return True


def make_demo(torch: Any, folder: Path) -> None:
    """A small checkpoint: a shard with an index, a `.bin`, a configuration. The shard is a `.bin`
    too where the package safetensors is missing."""
    folder.mkdir()
    has_safetensors = importlib.util.find_spec("safetensors") is not None
    shard = f"model-00001-of-00001.{'safetensors' if has_safetensors else 'bin'}"
    tree = {f"layers.0.{part}": torch.randn(2048) for part in ("up", "down", "norm", "inv_freq")}
    write_weights(torch, tree, {"format": "pt"}, folder / shard)
    index = {"metadata": {"total_size": 4 * 2048 * 4}, "weight_map": dict.fromkeys(tree, shard)}
    write_json(folder / "model.safetensors.index.json", index)
    table = torch.randn(64, 16)
    state = {"embed": table, "head": table, "steps": torch.arange(7)}
    write_weights(torch, state, None, folder / "pytorch_model.bin")
    write_json(folder / "config.json", {"model_type": "demo", "torch_dtype": "float32"})


def build_parser() -> Parser:
    parser = Parser(__doc__, tool="checkpoint_to_bf16", version=__version__, method=METHOD, demo=[])
    add = parser.add_argument
    # fmt: off
    add("source", nargs="?", type=Path, help="folder with weights")
    add("target", nargs="?", type=Path, help="new folder")
    add("--keep", nargs="*", default=KEEP, metavar="PATTERN",
        help=f"names of tensors that stay as they are (default: {' '.join(KEEP)})")
    add("--max-memory", type=size, metavar="SIZE",
        help="most memory for the converted tensors of a file (default: 80%% of what is free)")
    add("--dry-run", action="store_true", help="show what would be converted; write nothing")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    report = Report("checkpoint_to_bf16", __version__, METHOD, options.json)
    with tempfile.TemporaryDirectory(prefix="checkpoint_to_bf16_") as folder:
        if options.demo:
            options.source, options.target = Path(folder, "demo-fp32"), Path(folder, "demo-bf16")
        elif options.target is None:
            raise UsageError("name the folder to read and the new one to write, or use --demo")
        source, target = options.source.resolve(), options.target.resolve()
        if target.is_relative_to(source) or target.exists():
            raise UsageError(f"{target} exists, or is in the source; name a new folder")
        options.torch = import_torch()
        free = free_memory(options.torch, options.torch.device("cpu")) or math.inf
        options.max_memory = options.max_memory or 0.8 * free
        if options.demo:
            make_demo(options.torch, source)
        is_good = convert_folder(options, source, target, report)
    cells = []
    for row in report.rows:
        sizes = (row["source_bytes"], row["target_bytes"] or row["tensor_bytes"])
        cells.append([row["file"], row["tensors"], row["converted"], *map(format_bytes, sizes),
                      row["became_infinite"], row["verdict"]])  # fmt: skip
    headings = ["file", "tensors", "converted", "size", "new size", "became infinite", "verdict"]
    print(format_table(headings, cells))
    report.save()
    return int(not is_good)


if __name__ == "__main__":
    start(main)
