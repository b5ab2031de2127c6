#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""How do I get a bf16 copy of this checkpoint, verified bit by bit?

Converts the weights in a folder, `.safetensors` and `.bin`, single or sharded, into a new folder.
Index files and config.json are adapted; configurations and tokenizers are copied. The source is
only read.

## Formula

A value becomes the nearest bfloat16, and of two equally near ones the one whose last bit is 0 (IEEE
754, roundTiesToEven): 1 + 1/128 is kept, 1 + 1/256 becomes 1, 1 + 3/256 becomes 1 + 1/64. The
relative error is at most 1/257. Infinities and NaN stay what they are; values above 3.39e38 become
infinite, and are counted. float64 is rounded to float32 first.

## What is converted

float32, float16 and float64 weights. All other types stay as they are, and so do tensors whose name
fits `--keep`. Tensors that share memory in a `.bin` (tied weights) share it in the copy.

`.bin` files are loaded with `weights_only=True`: one that wants to run code is refused. All files
are looked at before anything is written. Each one is read back and compared with the source by
integer arithmetic, which does not use torch's conversion. The folder is called `.NAME.partial`
until all is in it. Safetensors are converted in pieces; a `.bin` needs memory for its converted
tensors, and one that needs more than `--max-memory` is refused.

## How to run

    python checkpoint_to_bf16.py model-fp32 model-bf16 --dry-run
    python checkpoint_to_bf16.py in out --keep "*.inv_freq" "*router*" "*norm*"
    srun --nodes 1 --ntasks 1 python checkpoint_to_bf16.py model-fp32 model-bf16

## A good answer

`ok` for each file, and about half of the bytes. If values became infinite, the model holds numbers
that training should not have left there.

Exit status: 0 done; 1 a file was refused or did not verify, or a signal; 2 wrong use.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import math
import mmap
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.checkpoints import Refused, check_torch, group_by_storage, list_tensors, load_checkpoint
from kit.cli import Parser, UsageError, size, start
from kit.device import free_memory, import_torch
from kit.report import Report, Row, format_bytes, format_table, read_json, write_json
from kit.stop import Stop, Stopped

__version__ = "0.2.0"
METHOD = 1
PROFILES = {"demo": ["--demo"], "full": ["--demo"]}
UNITS = {
    **dict.fromkeys(("tensors", "converted", "became_infinite"), "1"),
    **dict.fromkeys(("source_bytes", "target_bytes", "tensor_bytes"), "B"),
    "seconds": "s",
}
KEEP = ("*.inv_freq", "optimizer*")
WEIGHTS = ("*.safetensors", "pytorch_model*.bin", "diffusion_pytorch_model*.bin",
           "adapter_model*.bin", "model*.bin")  # fmt: skip
COPIED = ("*.json", "*.txt", "*.model", "*.py", "*.md", "*.jinja", "*.yaml", "*.yml", "*.tiktoken",
          "*.spm", "*.vocab", "*.bpe", "LICENSE*", "NOTICE*", "USE_POLICY*")  # fmt: skip
CONVERTED = ("float64", "float32", "float16")
DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""Types in a safetensors header, by their names in torch; the others keep their name."""
FLOAT_TYPE = r'("(?:torch_)?dtype": *)"(?:torch\.)?(?:float(?:16|32|64)|auto)"'
"""The type of the weights in a config.json."""
PIECE = 2**21
"""Elements that are converted, written or compared at once."""


Options = argparse.Namespace


class Part(NamedTuple):
    """Memory that tensors share in a file: a storage of a `.bin`, a tensor of a `.safetensors`."""

    names: list[str]
    dtype: str
    looks: list[Any]
    """Shape of each tensor; in a `.bin` strides and offset too."""
    values: Any
    """All elements in one dimension, or all bytes if they stay as they are."""
    is_converted: bool
    tensors: Sequence[Any] = ()
    """The tensors themselves, in a `.bin`."""

    @property
    def new_dtype(self) -> str:
        """The type in the copy."""
        return "bfloat16" if self.is_converted else self.dtype

    @property
    def new_bytes(self) -> int:
        """The bytes in the copy."""
        return int(self.values.numel()) * (2 if self.is_converted else 1)


def fits(name: str, patterns: Sequence[str]) -> bool:
    """True if a name fits one of the patterns."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def count_infinite(torch: Any, values: Any, written: Any, name: str) -> int:
    """How many values became infinite. Raises Refused where a bit is not what it has to be.

    0x7FFF or, if the last bit that stays is 1, 0x8000 is added to a float32, and the lower 16 bits
    are cut off: so what is in the middle goes to the even one.
    """
    infinite = 0
    for before, after in zip(values.split(PIECE), written.split(PIECE), strict=True):
        bits = before.to(torch.float32).view(torch.int32)
        magnitude = bits & 0x7FFFFFFF
        expected = (magnitude + 0x7FFF + ((magnitude >> 16) & 1)) >> 16 | (bits >> 16) & 0x8000
        right = after.view(torch.int16).to(torch.int32) & 0xFFFF == expected
        right |= before.isnan() & after.isnan()
        if not right.all():
            place = int((~right).nonzero()[0])
            pair = f"{before[place].item()!r} was written as {after[place].item()!r}"
            raise Refused(f"'{name}' did not verify: {pair}")
        infinite += int((after.isinf() & ~before.isinf()).sum())
    return infinite


def read_safetensors(options: Options, path: Path) -> tuple[Any, list[Part]]:
    """Metadata and parts of a file: 8 bytes with the length of the header, the header as JSON, the
    tensors. Raises Refused for a damaged one."""
    parts = []
    place = 0
    try:
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
        begin = 8 + int.from_bytes(mapped[:8], "little")
        header = json.loads(mapped[8:begin])
        metadata = header.pop("__metadata__", None)
        data = options.torch.frombuffer(mapped, dtype=options.torch.uint8)[begin:]
        for name, one in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            first, last = one["data_offsets"]
            dtype, shape = DTYPES.get(one["dtype"], one["dtype"]), one["shape"]
            if first != place or last > len(data):
                raise Refused(f"'{name}' has the wrong place")
            values = data[first:last]
            converted = dtype in CONVERTED and not fits(name, options.keep)
            if converted:
                values = values if (begin + first) % 8 == 0 else values.clone()  # aligned
                values = values.view(getattr(options.torch, dtype))
                if values.numel() != math.prod(shape):
                    raise Refused(f"'{name}' has the wrong size")
            parts.append(Part([name], dtype, [shape], values, converted))
            place = last
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        raise Refused("not a safetensors file, or a part of it is missing") from error
    if place != len(data):
        raise Refused(f"{len(data)} bytes of tensors, and the header describes {place}")
    return metadata, parts


def write_safetensors(options: Options, metadata: Any, parts: list[Part], file: BinaryIO) -> None:
    """Write a file with the converted parts. Wide elements come first, so that all are aligned."""
    torch = options.torch
    codes = {dtype: code for code, dtype in DTYPES.items()}
    header = {} if metadata is None else {"__metadata__": metadata}
    place = 0
    parts = sorted(parts, key=lambda part: -part.new_bytes / max(math.prod(part.looks[0]), 1))
    for part in parts:
        code, offsets = codes.get(part.new_dtype, part.new_dtype), [place, place + part.new_bytes]
        header[part.names[0]] = {"dtype": code, "shape": part.looks[0], "data_offsets": offsets}
        place += part.new_bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for part in parts:
        for piece in part.values.split(PIECE):
            values = piece.to(torch.bfloat16) if part.is_converted else piece
            data = bytearray(values.numel() * values.element_size())
            if data:
                torch.frombuffer(data, dtype=values.dtype).copy_(values)
            file.write(data)


def read_pickle(options: Options, path: Path) -> tuple[Any, list[Part]]:
    """Content and parts of a `.bin`. Raises Refused, also where there is too little memory."""
    torch = options.torch
    tree = load_checkpoint(torch, path)
    parts = []
    for storage, groups in group_by_storage(list_tensors(torch, tree)):
        users = [user for group in groups for user in group]
        names, tensors = [name for name, _ in users], [tensor for _, tensor in users]
        if len({tensor.dtype for tensor in tensors}) > 1:
            raise Refused(f"'{names[0]}' and '{names[-1]}' share memory and have two types")
        dtype = str(tensors[0].dtype).removeprefix("torch.")
        converted = dtype in CONVERTED and not any(fits(name, options.keep) for name in names)
        kind = tensors[0].dtype if converted else torch.uint8
        values = torch.empty(0, dtype=kind).set_(storage)
        looks = [(tensor.shape, tensor.stride(), tensor.storage_offset()) for tensor in tensors]
        parts.append(Part(names, dtype, looks, values, converted, tensors))
    needed = sum(part.new_bytes for part in parts if part.is_converted)
    if needed > options.max_memory:
        raise Refused(f"needs {format_bytes(needed)} of memory, more than --max-memory")
    return tree, parts


def write_pickle(options: Options, tree: Any, parts: list[Part], file: BinaryIO) -> None:
    """Write a file with the converted parts; tensors that share memory share it in the copy."""
    for part in parts:
        if part.is_converted:
            whole = part.values.to(options.torch.bfloat16)
            for tensor, view in zip(part.tensors, part.looks, strict=True):
                tensor.data = whole.as_strided(*view)
    options.torch.save(tree, file)


FORMATS = {
    ".safetensors": (read_safetensors, write_safetensors),
    ".bin": (read_pickle, write_pickle),
}


def plan_file(options: Options, path: Path) -> Row:
    """The row of a file, before anything is written. Raises Refused, OSError."""
    _, parts = FORMATS[path.suffix][0](options, path)
    return {
        "file": path.name,
        **dict.fromkeys(UNITS),
        "tensors": sum(len(part.names) for part in parts),
        "converted": sum(len(part.names) for part in parts if part.is_converted),
        "source_bytes": path.stat().st_size,
        "tensor_bytes": sum(part.new_bytes for part in parts),
        "verdict": "would be converted",
    }


def compare_files(options: Options, source: Path, target: Path) -> int:
    """How many values became infinite. Raises Refused where the copy is not what it has to be."""
    torch = options.torch
    read, _ = FORMATS[source.suffix]
    both = (read(options, path)[1] for path in (source, target))
    parts, copies = (sorted(each, key=lambda part: part.names) for each in both)
    wanted = [(part.names, part.new_dtype, part.looks) for part in parts]
    if wanted != [(copy.names, copy.dtype, copy.looks) for copy in copies]:
        raise Refused("did not verify: other names, types, shapes or ties")
    infinite = 0
    for part, copy in zip(parts, copies, strict=True):
        if part.is_converted:
            written = copy.values.view(torch.bfloat16)
            infinite += count_infinite(torch, part.values, written, part.names[0])
        elif not torch.equal(part.values, copy.values):
            raise Refused(f"'{part.names[0]}' did not verify: other bytes")
    return infinite


def convert_file(options: Options, path: Path, folder: Path, row: Row) -> None:
    """Convert and verify a file. Raises Refused, OSError."""
    read, write = FORMATS[path.suffix]
    began = time.monotonic()
    content, parts = read(options, path)
    target = folder / path.name
    with target.open("wb") as file:
        write(options, content, parts, file)
        os.fsync(file.fileno())
    row |= {"became_infinite": compare_files(options, path, target), "verdict": "ok"}
    row |= {"target_bytes": target.stat().st_size, "seconds": round(time.monotonic() - began, 6)}


def find_weights(source: Path) -> tuple[dict[str, Any], list[Path]]:
    """Index files with their content, and the files of weights. Raises UsageError where there are
    none, or where a file of an index is missing."""
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


def copy_others(source: Path, folder: Path, taken: set[str]) -> list[str]:
    """Copy configurations and tokenizers; the names of all other files."""
    skipped = []
    for path in sorted(source.rglob("*")):
        name = path.relative_to(source).as_posix()
        if name in taken or not path.is_file():
            continue
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".index.json") or not fits(path.name, COPIED):
            skipped.append(name)
        elif path.name == "config.json":
            changed = re.sub(FLOAT_TYPE, r'\1"bfloat16"', path.read_text(encoding="utf-8"))
            (folder / name).write_text(changed, encoding="utf-8")
        else:
            shutil.copyfile(path, folder / name)
    return skipped


def convert_folder(options: Options, source: Path, target: Path, report: Report) -> bool:
    """Look at all files, then convert them into the new folder; False where that failed. A signal
    ends it between two files. Raises UsageError."""
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
    folder.mkdir()
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
    if skipped := copy_others(source, folder, {*(path.name for path in weights), *indexes}):
        report.note(f"not copied: {', '.join(skipped)}")
    sizes = {row["file"]: row["tensor_bytes"] for row in report.rows}
    for name, index in indexes.items():
        total = sum(sizes[file] for file in set(index["weight_map"].values()))
        write_json(folder / name, {**index, "metadata": index["metadata"] | {"total_size": total}})
    folder.rename(target)
    return True


def print_results(rows: Sequence[Row]) -> None:
    """Print the table."""
    cells = []
    for row in rows:
        sizes = (row["source_bytes"], row["target_bytes"] or row["tensor_bytes"])
        cells.append([row["file"], row["tensors"], row["converted"], *map(format_bytes, sizes),
                      row["became_infinite"], row["verdict"]])  # fmt: skip
    headings = ["file", "tensors", "converted", "size", "new size", "became infinite", "verdict"]
    print(format_table(headings, cells))


def make_demo(options: Options, folder: Path) -> None:
    """A small checkpoint: two shards with an index, a `.bin`, a configuration."""
    torch = options.torch
    folder.mkdir()
    weights = {}
    for shard in range(2):
        name = f"model-{shard + 1:05d}-of-00002.safetensors"
        names = [f"layers.{shard}.{part}" for part in ("up", "down", "norm", "inv_freq")]
        weights |= dict.fromkeys(names, name)
        values = torch.randn(2048).view(torch.uint8)
        parts = [Part([one], "float32", [[2048]], values, False) for one in names]
        with (folder / name).open("wb") as file:
            write_safetensors(options, {"format": "pt"}, parts, file)
    index = {"metadata": {"total_size": 8 * 2048 * 4}, "weight_map": weights}
    write_json(folder / "model.safetensors.index.json", index)
    table = torch.randn(64, 16)
    state = {"embed": table, "head": table, "steps": torch.arange(7)}
    torch.save(state, folder / "pytorch_model.bin")
    write_json(folder / "config.json", {"model_type": "demo", "torch_dtype": "float32"})


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(__doc__, tool="checkpoint_to_bf16", version=__version__, method=METHOD, demo=[])
    add = parser.add_argument
    # fmt: off
    add("source", nargs="?", type=Path, help="folder with weights")
    add("target", nargs="?", type=Path, help="new folder")
    add("--keep", nargs="*", default=KEEP, metavar="PATTERN",
        help=f"names of tensors that stay as they are (default: {' '.join(KEEP)})")
    add("--max-memory", type=size, metavar="SIZE",
        help="most memory for the converted tensors of a .bin (default: 80%% of what is free)")
    add("--dry-run", action="store_true", help="show what would be converted; write nothing")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    options = build_parser().parse_args(arguments)
    report = Report("checkpoint_to_bf16", __version__, METHOD, UNITS, options.json)
    with tempfile.TemporaryDirectory(prefix="checkpoint_to_bf16_") as folder:
        if options.demo:
            options.source, options.target = Path(folder, "demo-fp32"), Path(folder, "demo-bf16")
        elif options.target is None:
            raise UsageError("name the folder to read and the new one to write, or use --demo")
        source, target = options.source.resolve(), options.target.resolve()
        if target.is_relative_to(source) or target.exists():
            raise UsageError(f"{target} exists, or is in the source; name a new folder")
        options.torch = import_torch()
        check_torch(options.torch)
        if options.max_memory is None:
            free = free_memory(options.torch, options.torch.device("cpu")) or math.inf
            options.max_memory = 0.8 * free
        if options.demo:
            make_demo(options, source)
        is_good = convert_folder(options, source, target, report)
    print_results(report.rows)
    report.save()
    return int(not is_good)


if __name__ == "__main__":
    start(main)
