#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""How do I get a bf16 copy of this checkpoint, of the same values and within this memory?

Converts the weights of a folder, `.safetensors` and `.bin`, single or in shards with an index, into
a new folder: index files and config.json say what is true of the new weights, configs and
tokenizers are copied. The source is only ever read.

Arithmetic
    bfloat16 is the upper half of a float32: 8 bits of exponent, 7 of fraction. A value becomes the
    nearest one that bfloat16 has, and of two as near the one whose last bit is 0 (IEEE 754,
    roundTiesToEven); float64 is rounded once, not twice. Hand check: 1 + 1/128 is kept; 1 + 1/256
    lies in the middle and becomes 1; 1 + 3/256 becomes 1 + 1/64. The relative error is at most
    1/257; float16 loses 3 bits of fraction. Infinities and NaN stay what they are; what lies above
    3.39e38 becomes infinite, and is counted.

What is converted
    float32, float16 and float64 weights. Whole numbers, bool, bfloat16, float8 and complex numbers
    stay bit by bit as they are, and so do tensors whose name fits --keep: "*.inv_freq" and
    "optimizer*" unless you say otherwise with --keep (it replaces these two).
    Tensors that share memory in a `.bin` (tied weights) share it in the copy: all of them are
    converted, or none. Parameters stay parameters; what else is in the file is taken over.
What is not
    Weights in sub-folders, optimizer.bin, training_args.bin and the like: they are named, and left
    out (--copy PATTERN takes them along unchanged). Frameworks other than torch.

How it is trusted
    Pickles are read with weights_only=True alone: one that wants to run code is refused, with the
    name of what it wanted, before anything is written. All files are looked at first. Each file is
    written under a temporary name, read back, and compared with the source bit by bit by integer
    arithmetic, which knows nothing of torch's conversion. The folder is called .NAME.partial until
    all is there, and config.json and the indexes come last. A run that was ended leaves that
    behind; --resume goes on with the files that are missing.
    Memory: tensors are read, converted and written piece by piece, so that the whole process with
    torch in it stays below --max_memory, however large a tensor is. Files of torch before 1.6 have
    to be read whole: where they do not fit they are refused.

How to run
    the usual       python checkpoint_to_bf16.py model-fp32 model-bf16
    look first      python checkpoint_to_bf16.py model-fp32 model-bf16 --dry_run
    keep some       python checkpoint_to_bf16.py in out --keep "*.inv_freq" "*router*" "*norm*"
    a trial         python checkpoint_to_bf16.py --demo 16MiB
    Slurm           srun --nodes 1 --ntasks 1 python checkpoint_to_bf16.py model-fp32 model-bf16
    pdsh            pdsh -w node01 'python /shared/checkpoint_to_bf16.py /data/fp32 /data/bf16'
    On one node: it is bound by the disk, and one process is enough.

A good answer: `ok` for each file and about half of the bytes. Values that became infinite are a
warning that the model holds numbers no training should have left.

Seen running so far: on a CPU, with checkpoints of torch.save, of the safetensors package and of
transformers, up to ones larger than --max_memory.

Exit status: 0 done, 1 a file was refused, did not verify or took more memory, or stopped by a
signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import ctypes
import datetime
import errno
import fnmatch
import functools
import io
import json
import math
import mmap
import os
import pickle
import platform
import re
import shutil
import signal
import struct
import tempfile
import time
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {
    "toy": ["--demo", "2MiB"],
    "full": ["--demo", "4GiB"],
}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "tensors": "1",
    "converted": "1",
    "kept": "1",
    "sharing": "1",
    "source_bytes": "B",
    "target_bytes": "B",
    "tensor_bytes": "B",
    "became_infinite": "1",
    "seconds": "s",
}

KEEP = ("*.inv_freq", "optimizer*")
PICKLES = ("pytorch_model*.bin", "diffusion_pytorch_model*.bin", "adapter_model*.bin", "model*.bin")
COPIED = (
    *("*.json", "*.txt", "*.model", "*.py", "*.md", "*.jinja", "*.yaml", "*.yml", "*.tiktoken"),
    *("*.spm", "*.vocab", "*.bpe", "LICENSE*", "NOTICE*", "USE_POLICY*", ".gitattributes"),
)
PARTIAL_PREFIX = "."
PARTIAL_SUFFIX = ".partial"
PROGRESS = ".progress.json"

# Names in a safetensors header, as the package has them; those that this tool computes with.
CONVERTED_CODES = {"F64": "float64", "F32": "float32", "F16": "float16"}
CODE_BYTES = {
    "F64": 8,
    "I64": 8,
    "U64": 8,
    "C64": 8,
    "F32": 4,
    "I32": 4,
    "U32": 4,
    "F16": 2,
    "BF16": 2,
    "I16": 2,
    "U16": 2,
    "I8": 1,
    "U8": 1,
    "BOOL": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "F8_E8M0": 1,
}
LARGEST_HEADER = 100_000_000
# The classes that torch.save names for the types it has had since the beginning.
STORAGE_CLASSES = {
    "float64": "DoubleStorage",
    "float32": "FloatStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int64": "LongStorage",
    "int32": "IntStorage",
    "int16": "ShortStorage",
    "int8": "CharStorage",
    "uint8": "ByteStorage",
    "bool": "BoolStorage",
    "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
}
OLDEST_TORCH = (2, 6)  # before it weights_only could be got round in old files (CVE-2025-32434)
LARGEST_PIECE = 16 * 1024**2
SMALLEST_PIECE = 256 * 1024
# Comparing takes whole numbers of 64 bits, several at a time.
PIECES_AT_ONCE = 24
# What torch and Python take besides, the first time that they read, compute and write.
RESERVE = 32 * 1024**2
ALIGNMENT = 64
ZIP64_FROM = 2**30
INFINITE_BITS = 0x7F80
NAN_BITS = 0x7FC0
MADV_DONTNEED = 4
LIBC = ctypes.CDLL(None)

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


class Entry(NamedTuple):
    """A tensor of a safetensors file; `begin` and `end` are bytes behind its header."""

    name: str
    code: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    """What stands at the beginning of a safetensors file, its entries in the order of the file."""

    start: int
    entries: tuple[Entry, ...]
    metadata: dict[str, str] | None


class StoragePlan(NamedTuple):
    """A piece of memory of a `.bin`, the names of the tensors in it, and what becomes of it."""

    key: str
    storage: Any
    dtype: str
    names: tuple[str, ...]
    is_converted: bool
    source_bytes: int
    target_bytes: int


class FilePlan(NamedTuple):
    """What becomes of a file of weights."""

    name: str
    kind: str
    names: tuple[str, ...]
    converted: int
    sharing: int
    source_bytes: int
    tensor_bytes: int


class StorageMark(NamedTuple):
    """Stands for a storage in the pickle of a `.bin`."""

    key: str
    dtype: str
    items: int


class Converter:
    """What all steps need: torch, which names are kept, how much is read at once, when to end."""

    def __init__(self, torch: Any, keep: Sequence[str], limit: int, stop: StopSign) -> None:
        self.torch = torch
        self.keep = tuple(keep)
        self.limit = limit
        self.piece = choose_piece(limit)
        self.stop = stop

    def is_kept(self, name: str) -> bool:
        """Whether the name of a tensor fits one of the patterns."""
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.keep)

    def split(self, size: int, item: int) -> Iterator[tuple[int, int]]:
        """First and last byte of each piece, of whole items of so many bytes. Raises Stopped."""
        step = max(self.piece // item, 1) * item
        for begin in range(0, size, step):
            self.stop.check()
            yield begin, min(begin + step, size)


# --- rounding ---


def round_to_bf16(torch: Any, values: Any) -> Any:
    """The nearest bfloat16 of each value, ties to even; float64 is rounded once."""
    if values.dtype != torch.float64:
        return values.to(torch.bfloat16)
    # Towards zero with the last bit set where something was cut off ("to odd"): the second
    # rounding then never takes a value for one that lies in the middle.
    near = values.to(torch.float32)
    bits = near.view(torch.int32)
    is_exact = (near.to(torch.float64) == values) | values.isnan()
    is_beyond = (near.to(torch.float64).abs() > values.abs()).to(torch.int32)
    odd = torch.where(is_exact, bits, (bits - is_beyond) | 1)
    return odd.view(torch.float32).to(torch.bfloat16)


def compute_bf16_bits(torch: Any, values: Any) -> Any:
    """The bits that each value has to have as bfloat16; NAN_BITS for all that is no number.

    From the bits of the source by whole numbers, without any conversion of torch's.
    """
    types = {
        torch.float64: (torch.int64, 52, 1023),
        torch.float32: (torch.int32, 23, 127),
        torch.float16: (torch.int16, 10, 15),
    }
    whole_type, width, bias = types[values.dtype]
    bits = values.view(whole_type).to(torch.int64)
    top = 2 * bias + 1
    exponent = (bits >> width) & top
    fraction = bits & ((1 << width) - 1)
    # value = whole * 2 ** (power - width)
    is_small = exponent == 0
    whole = torch.where(is_small, fraction, fraction | (1 << width))
    power = torch.where(is_small, 1, exponent) - bias
    # What is subnormal in float16 is not in bfloat16: its highest bit goes to its place.
    for step in (8, 4, 2, 1):
        has_room = (whole < (1 << (width + 1 - step))) & (whole > 0) & (power - step >= -126)
        whole = torch.where(has_room, whole << step, whole)
        power = torch.where(has_room, power - step, power)
    power = torch.where(whole == 0, -126, power)
    # Bits to cut off: more of them where the value is subnormal in bfloat16.
    cut = torch.clamp(width - 7 + torch.clamp(-126 - power, min=0), max=62)
    kept = whole >> cut
    rest = whole - (kept << cut)
    middle = torch.ones_like(cut) << (cut - 1)
    goes_up = (rest > middle) | ((rest == middle) & ((kept & 1) == 1))
    # A carry out of the fraction goes into the exponent, as it should.
    result = (torch.clamp(power + 126, min=0) << 7) + kept + goes_up.to(torch.int64)
    result = torch.clamp(result, max=INFINITE_BITS)
    result = torch.where(exponent == top, INFINITE_BITS, result)
    result = torch.where(bits < 0, result | 0x8000, result)
    return torch.where((exponent == top) & (fraction != 0), NAN_BITS, result)


@functools.cache
def make_half_table(torch: Any) -> Any:
    """compute_bf16_bits of all 65536 values of float16, by their bits as a whole number."""
    every = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.float16)
    return compute_bf16_bits(torch, every).to(torch.int32)


def find_wanted_bits(torch: Any, values: Any) -> Any:
    """What compute_bf16_bits says, sooner."""
    if values.dtype == torch.float16:
        return make_half_table(torch)[values.view(torch.int16).to(torch.int64) & 0xFFFF]
    if values.dtype != torch.float32:
        return compute_bf16_bits(torch, values).to(torch.int32)
    # The lower half is cut off; half of its range is added first, and a little less where the
    # last bit that stays is 0, so that what lies in the middle goes to the even one.
    bits = values.view(torch.int32)
    size = bits & 0x7FFFFFFF
    result = (size + 0x7FFF + ((size >> 16) & 1)) >> 16
    result |= (bits >> 16) & 0x8000
    is_nan = size > (INFINITE_BITS << 16)
    return result.masked_fill_(is_nan, NAN_BITS) if bool(is_nan.any()) else result


def compare_converted(torch: Any, values: Any, written: Any, title: str) -> int:
    """How many values became infinite. Raises Mismatch where one is not what it has to be."""
    wanted = find_wanted_bits(torch, values)
    found = written.view(torch.int16).to(torch.int32) & 0xFFFF
    if not torch.equal(wanted, found):
        is_right = torch.where(
            wanted == NAN_BITS, (found & 0x7FFF) > INFINITE_BITS, found == wanted
        )
        if not bool(is_right.all()):
            place = int((~is_right).nonzero()[0])
            raise Mismatch(
                f"{title}: {values[place].item()!r} was written as 0x{int(found[place]):04X}, and "
                f"has to be 0x{int(wanted[place]):04X}"
            )
    is_infinite = (found & 0x7FFF) == INFINITE_BITS
    return int((is_infinite & values.isfinite()).sum()) if bool(is_infinite.any()) else 0


# --- safetensors ---


def read_header(path: Path) -> Header:
    """The header of a safetensors file. Raises Refused where it is none."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 2 <= length <= min(LARGEST_HEADER, size - 8):
            raise Refused(f"{path.name}: this is no safetensors file, or a part of one is missing")
        try:
            header = json.loads(file.read(length))
            metadata = header.pop("__metadata__", None)
            entries = [
                Entry(
                    name, str(e["dtype"]), tuple(map(int, e["shape"])), *map(int, e["data_offsets"])
                )
                for name, e in header.items()
            ]
            json.dumps([metadata, list(header)], ensure_ascii=False).encode()  # half characters?
        except (
            *(ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError),
        ) as error:
            raise Refused(f"{path.name}: the header of this file cannot be read") from error
    entries.sort(key=lambda entry: (entry.begin, entry.end))
    place = 0
    for entry in entries:
        count = math.prod(entry.shape)
        expected = count * CODE_BYTES[entry.code] if entry.code in CODE_BYTES else None
        is_odd = expected is not None and entry.end - entry.begin != expected
        if (
            entry.begin != place
            or entry.end < entry.begin
            or is_odd
            or min(entry.shape, default=0) < 0
        ):
            raise Refused(f"{path.name}: '{entry.name}' is not where and as large as it should be")
        place = entry.end
    if 8 + length + place != size:
        raise Refused(f"{path.name}: {size} bytes, and its header tells of {8 + length + place}")
    return Header(8 + length, tuple(entries), metadata)


def is_entry_converted(converter: Converter, entry: Entry) -> bool:
    """Whether a tensor of a safetensors file becomes bfloat16."""
    return entry.code in CONVERTED_CODES and not converter.is_kept(entry.name)


def make_new_header(converter: Converter, header: Header) -> tuple[Header, bytes]:
    """The header of the converted file, and its bytes: what takes most bytes each comes first."""
    changed = []
    for entry in header.entries:
        code, size = entry.code, entry.end - entry.begin
        if is_entry_converted(converter, entry):
            code, size = "BF16", 2 * (size // CODE_BYTES[code])
        changed.append(entry._replace(code=code, begin=0, end=size))
    changed.sort(key=lambda entry: -CODE_BYTES.get(entry.code, 1))
    place, entries = 0, []
    for entry in changed:
        entries.append(entry._replace(begin=place, end=place + entry.end))
        place += entry.end
    document: dict[str, Any] = {}
    if header.metadata is not None:
        document["__metadata__"] = header.metadata
    for entry in entries:
        offsets = [entry.begin, entry.end]
        document[entry.name] = {"dtype": entry.code, "shape": entry.shape, "data_offsets": offsets}
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return Header(8 + len(text), tuple(entries), header.metadata), text


def plan_safetensors(converter: Converter, path: Path) -> FilePlan:
    """What becomes of a safetensors file. Raises Refused."""
    header = read_header(path)
    converted = sum(is_entry_converted(converter, entry) for entry in header.entries)
    new, _ = make_new_header(converter, header)
    names = tuple(entry.name for entry in header.entries)
    total = new.entries[-1].end if new.entries else 0
    return FilePlan(path.name, "safetensors", names, converted, 0, path.stat().st_size, total)


def convert_safetensors(converter: Converter, source: Path, target: Path) -> None:
    """Write the converted file. Raises Refused, Stopped, OSError."""
    header = read_header(source)
    new, text = make_new_header(converter, header)
    old = {entry.name: entry for entry in header.entries}
    with source.open("rb") as reader, target.open("xb") as writer:
        writer.write(len(text).to_bytes(8, "little") + text)
        for entry in new.entries:
            before = old[entry.name]
            if entry.code == before.code:
                for part in read_tensor_parts(converter, reader, header.start, before, 1):
                    writer.write(part)
            else:
                kind = getattr(converter.torch, CONVERTED_CODES[before.code])
                item = CODE_BYTES[before.code]
                for part in read_tensor_parts(converter, reader, header.start, before, item):
                    values = converter.torch.frombuffer(part, dtype=kind)
                    write_tensor(converter.torch, writer, round_to_bf16(converter.torch, values))
        flush_to_disk(writer)


def read_tensor_parts(
    converter: Converter, reader: Any, start: int, entry: Entry, item: int
) -> Iterator[bytearray]:
    """The bytes of a tensor, piece by piece. Raises Refused where the file is too short."""
    for begin, end in converter.split(entry.end - entry.begin, item):
        part = bytearray(end - begin)
        reader.seek(start + entry.begin + begin)
        if reader.readinto(part) != len(part):
            raise Refused(f"{Path(reader.name).name}: the file ends within '{entry.name}'")
        yield part


def write_tensor(torch: Any, writer: Any, values: Any) -> None:
    """Write the bytes of a tensor without gaps, by its buffer: there may be no NumPy."""
    if values.numel():
        data = bytearray(values.numel() * values.element_size())
        torch.frombuffer(data, dtype=values.dtype).copy_(values.reshape(-1))
        writer.write(data)


def compare_safetensors(converter: Converter, source: Path, target: Path) -> int:
    """Hold the written file against the source; how many values became infinite.

    Raises Mismatch.
    """
    torch = converter.torch
    old, new = read_header(source), read_header(target)
    found = {entry.name: entry for entry in new.entries}
    if old.metadata != new.metadata or sorted(found) != sorted(entry.name for entry in old.entries):
        raise Mismatch(f"{source.name}: the copy has other names than the source")
    infinite = 0
    with source.open("rb") as before, target.open("rb") as after:
        for entry in old.entries:
            other = found[entry.name]
            is_converted = is_entry_converted(converter, entry)
            code = "BF16" if is_converted else entry.code
            if (other.shape, other.code) != (entry.shape, code):
                raise Mismatch(f"{source.name}: '{entry.name}' has another shape or type")
            title = f"{source.name}, '{entry.name}'"
            if not is_converted:
                pairs = zip(
                    read_tensor_parts(converter, before, old.start, entry, 1),
                    read_tensor_parts(converter, after, new.start, other, 1),
                    strict=True,
                )
                if any(one != two for one, two in pairs):
                    raise Mismatch(f"{title}: the bytes differ")
                continue
            kind, item = getattr(torch, CONVERTED_CODES[entry.code]), CODE_BYTES[entry.code]
            place = 0
            for part in read_tensor_parts(converter, before, old.start, entry, item):
                values = torch.frombuffer(part, dtype=kind)
                data = bytearray(2 * values.numel())
                after.seek(new.start + other.begin + place)
                if after.readinto(data) != len(data):
                    raise Mismatch(f"{title}: the copy ends too early")
                place += len(data)
                written = torch.frombuffer(data, dtype=torch.bfloat16)
                infinite += compare_converted(torch, values, written, title)
    return infinite


# --- pickles ---


def load_pickle(converter: Converter, path: Path) -> tuple[Any, bool]:
    """What torch.save wrote, and whether its tensors are the file itself and no copy in memory.

    With weights_only=True, always. Raises Refused.
    """
    is_mapped = zipfile.is_zipfile(path)
    room = converter.limit - read_own_memory("VmRSS")
    if not is_mapped and 2 * path.stat().st_size > room:
        raise Refused(
            f"{path.name}: torch before 1.6 wrote this file, which has to be read whole: give "
            f"--max_memory {format_mib(2 * path.stat().st_size + converter.limit - room)}"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = converter.torch.load(path, map_location="cpu", mmap=is_mapped, weights_only=True)
    except MemoryError:
        raise
    except Exception as error:  # a pickle raises what it likes
        raise Refused(f"{path.name}: {explain_refusal(error)}") from error
    return tree, is_mapped


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


def check_tensor(torch: Any, name: str, tensor: Any, file: str) -> None:
    """Raises Refused for a tensor that is more than numbers in memory."""
    what = None
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        what = type(tensor).__name__
    elif tensor.layout != torch.strided or tensor.is_nested:
        what = f"a tensor of layout {tensor.layout}"
    elif tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
        what = "a quantised or lazily changed tensor"
    elif tensor.device.type != "cpu":
        what = f"a tensor without values (device {tensor.device.type})"
    elif type(tensor) is torch.Tensor and tensor.__dict__:
        what = "a tensor with attributes of its own"
    if what:
        raise Refused(
            f"{file}: '{name}' is {what}; leave this file out, or save it as plain tensors"
        )


def plan_storages(converter: Converter, tree: Any, file: str) -> list[StoragePlan]:
    """What becomes of each piece of memory that the tensors of a file lie in. Raises Refused."""
    torch = converter.torch
    storages: dict[int, Any] = {}
    users: dict[int, list[tuple[str, Any]]] = {}
    for name, tensor in walk_tensors(torch, tree):
        check_tensor(torch, name, tensor, file)
        storage = tensor.untyped_storage()
        storages.setdefault(storage._cdata, storage)
        users.setdefault(storage._cdata, []).append((name, tensor))
    plans = []
    for place, (number, storage) in enumerate(storages.items()):
        names = tuple(name for name, _ in users[number])
        kinds = {tensor.dtype for _, tensor in users[number]}
        if len(kinds) > 1:
            raise Refused(f"{file}: '{names[0]}' and '{names[-1]}' are one memory of two types")
        kind = kinds.pop()
        dtype, size = str(kind).removeprefix("torch."), storage.nbytes()
        is_converted = (
            dtype in CONVERTED_CODES.values()
            and size % kind.itemsize == 0
            and not any(converter.is_kept(name) for name in names)
        )
        new_size = 2 * (size // kind.itemsize) if is_converted else size
        plan = StoragePlan(str(place), storage, dtype, names, is_converted, size, new_size)
        plans.append(plan)
    return plans


def plan_pickle(converter: Converter, path: Path) -> FilePlan:
    """What becomes of a `.bin` file. Raises Refused."""
    tree, _ = load_pickle(converter, path)
    plans = plan_storages(converter, tree, path.name)
    names = tuple(name for plan in plans for name in plan.names)
    converted = sum(len(plan.names) for plan in plans if plan.is_converted)
    sharing = sum(len(plan.names) for plan in plans if len(plan.names) > 1)
    total = sum(plan.target_bytes for plan in plans)
    size = path.stat().st_size
    return FilePlan(path.name, "pickle", names, converted, sharing, size, total)


def make_pickle(torch: Any, tree: Any, plans: Sequence[StoragePlan]) -> bytes:
    """The pickle of a tree as torch.save would write it, with the new types of its storages."""
    marks = {}
    for plan in plans:
        dtype = "bfloat16" if plan.is_converted else plan.dtype
        kind = getattr(torch, dtype)
        count = (
            plan.target_bytes // kind.itemsize if dtype in STORAGE_CLASSES else plan.target_bytes
        )
        marks[plan.storage._cdata] = StorageMark(plan.key, dtype, count)
    rebuild = torch._utils

    class Writer(pickle.Pickler):
        """Writes a tensor as torch does: what rebuilds it, and a mark of its storage."""

        def persistent_id(self, item: Any) -> Any:
            if not isinstance(item, StorageMark):
                return None
            kind = getattr(torch, STORAGE_CLASSES.get(item.dtype, "UntypedStorage"))
            return ("storage", kind, item.key, "cpu", item.items)

        def reducer_override(self, item: Any) -> Any:
            hooks: OrderedDict[str, Any] = OrderedDict()
            if isinstance(item, torch.nn.Parameter):
                state = rebuild._get_obj_state(item)
                parts = (item.data, item.requires_grad, hooks)
                if state:
                    return rebuild._rebuild_parameter_with_state, (*parts, state)
                return rebuild._rebuild_parameter, parts
            if isinstance(item, torch.Tensor):
                mark = marks[item.untyped_storage()._cdata]
                place = (mark, item.storage_offset(), tuple(item.size()), item.stride())
                arguments = (*place, item.requires_grad, hooks)
                if mark.dtype in STORAGE_CLASSES:
                    return rebuild._rebuild_tensor_v2, arguments
                return rebuild._rebuild_tensor_v3, (*arguments, getattr(torch, mark.dtype))
            return NotImplemented

    buffer = io.BytesIO()
    Writer(buffer, protocol=2).dump(tree)
    return buffer.getvalue()


def convert_pickle(converter: Converter, source: Path, target: Path) -> None:
    """Write the converted file. Raises Refused, Stopped, OSError."""
    torch = converter.torch
    tree, is_mapped = load_pickle(converter, source)
    plans = plan_storages(converter, tree, source.name)
    try:
        pickled = make_pickle(torch, tree, plans)
    except (KeyError, pickle.PicklingError, TypeError, AttributeError) as error:
        raise Refused(f"{source.name}: there is more in it than can be written again") from error
    with target.open("xb") as writer:
        with zipfile.ZipFile(writer, "w", zipfile.ZIP_STORED) as archive:
            with open_record(archive, writer, "data.pkl", len(pickled)) as record:
                record.write(pickled)
            with open_record(archive, writer, "byteorder", len(sys.byteorder)) as record:
                record.write(sys.byteorder.encode())
            for plan in plans:
                with open_record(archive, writer, f"data/{plan.key}", plan.target_bytes) as record:
                    for values in read_storage(converter, plan.storage, plan.dtype, is_mapped):
                        if plan.is_converted:
                            values = round_to_bf16(torch, values)
                        else:
                            values = values.view(torch.uint8)
                        write_tensor(torch, record, values)
            with open_record(archive, writer, "version", 2) as record:
                record.write(b"3\n")
        flush_to_disk(writer)


def open_record(archive: zipfile.ZipFile, file: Any, name: str, size: int) -> Any:
    """Open a record of a `.bin` for writing, its bytes at a multiple of 64, as torch has it."""
    info = zipfile.ZipInfo(f"archive/{name}")
    info.file_size = size
    is_large = size >= ZIP64_FROM
    start = file.tell() + 30 + len(info.filename) + 4 + (20 if is_large else 0)
    padding = -start % ALIGNMENT
    info.extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
    return archive.open(info, "w", force_zip64=is_large)


def read_storage(converter: Converter, storage: Any, dtype: str, is_mapped: bool) -> Iterator[Any]:
    """The values of a storage, piece by piece; pages of a file are given back after each."""
    torch = converter.torch
    kind = getattr(torch, dtype)
    data = torch.empty(0, dtype=torch.uint8).set_(storage)
    item = kind.itemsize if storage.nbytes() % kind.itemsize == 0 else 1
    for begin, end in converter.split(storage.nbytes(), item):
        part = data[begin:end]
        yield part.view(kind) if item == kind.itemsize else part
        if is_mapped:
            give_pages_back(part.data_ptr(), end - begin)


def give_pages_back(address: int, size: int) -> None:
    """Let the kernel take back pages of a mapped file that were read; they can be read again."""
    if sys.platform == "linux":
        begin = address - address % mmap.PAGESIZE
        LIBC.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(address + size - begin), MADV_DONTNEED)


def compare_pickles(converter: Converter, source: Path, target: Path) -> int:
    """Hold the written file against the source; how many values became infinite.

    Raises Mismatch.
    """
    torch = converter.torch
    old, is_mapped = load_pickle(converter, source)
    new, is_new_mapped = load_pickle(converter, target)
    plans = plan_storages(converter, old, source.name)
    pairs = list(match_trees(torch, old, new, source.name))
    is_converted = {plan.storage._cdata: plan.is_converted for plan in plans}
    partner: dict[int, int] = {}
    storages = {}
    for name, one, two in pairs:
        first, second = one.untyped_storage(), two.untyped_storage()
        kind = torch.bfloat16 if is_converted[first._cdata] else one.dtype
        looks = [
            (t.shape, t.stride(), t.storage_offset(), t.requires_grad, type(t)) for t in (one, two)
        ]
        if looks[0] != looks[1] or two.dtype != kind:
            raise Mismatch(f"{source.name}: '{name}' has another shape, place or type")
        if partner.setdefault(first._cdata, second._cdata) != second._cdata:
            raise Mismatch(
                f"{source.name}: '{name}' has lost the tensors that it shares memory with"
            )
        storages[first._cdata] = second
    if len(set(partner.values())) != len(partner):
        raise Mismatch(f"{source.name}: tensors share memory that did not")
    infinite = 0
    for plan in plans:
        other = storages[plan.storage._cdata]
        title = f"{source.name}, '{plan.names[0]}'"
        if other.nbytes() != plan.target_bytes:
            raise Mismatch(f"{title}: the copy has {other.nbytes()} bytes")
        written = torch.empty(0, dtype=torch.uint8).set_(other)
        place = 0
        for values in read_storage(converter, plan.storage, plan.dtype, is_mapped):
            size = values.numel() * (2 if plan.is_converted else values.element_size())
            part = written[place : place + size]
            if plan.is_converted:
                infinite += compare_converted(torch, values, part.view(torch.bfloat16), title)
            elif not torch.equal(values.view(torch.uint8), part):
                raise Mismatch(f"{title}: the bytes differ")
            if is_new_mapped:
                give_pages_back(part.data_ptr(), size)
            place += size
    return infinite


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


# --- the folder ---


KINDS: dict[str, tuple[Callable[..., Any], ...]] = {
    "safetensors": (plan_safetensors, convert_safetensors, compare_safetensors),
    "pickle": (plan_pickle, convert_pickle, compare_pickles),
}


def read_json_file(path: Path) -> Any:
    """What a JSON file says. Raises Refused where it is none, or cannot be read."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise Refused(f"{path.name}: this is no JSON: {str(error)[:100]}") from error
    except OSError as error:
        raise Refused(f"{path.name}: {error.strerror}") from error


def check_links(source: Path) -> None:
    """Raises Refused for a link to what is not there, as caches of downloads may have them."""
    wanted = ("*.safetensors", *PICKLES, *COPIED)
    for path in sorted(source.iterdir()) if source.is_dir() else ():
        is_lost = path.is_symlink() and not path.exists()
        if is_lost and any(fnmatch.fnmatchcase(path.name, pattern) for pattern in wanted):
            raise Refused(f"{path.name}: a link to what is not there; fetch it first")


def find_indexes(source: Path) -> dict[str, Any]:
    """The index files by name, and what they say. Raises Refused where one leads elsewhere."""
    indexes = {}
    for path in sorted(source.glob("*.index.json")):
        index = read_json_file(path)
        files = index.get("weight_map") if isinstance(index, dict) else None
        if not isinstance(files, dict) or not isinstance(index.get("metadata") or {}, dict):
            raise Refused(f"{path.name}: there is no weight_map in this index, or odd metadata")
        for file in sorted({str(file) for file in files.values()}):
            if Path(file).name != file or not file.endswith((".bin", ".safetensors")):
                raise Refused(f"{path.name}: '{file}' is no .bin or .safetensors of this folder")
            if not (source / file).is_file():
                raise Refused(f"{path.name}: '{file}' is not there; fetch it first")
        indexes[path.name] = index
    return indexes


def find_weights(source: Path, indexes: Mapping[str, Any]) -> list[Path]:
    """The files of weights of a folder, or the one file that was named."""
    if source.is_file():
        return [source]
    names = {str(file) for index in indexes.values() for file in index["weight_map"].values()}
    for pattern in ("*.safetensors", *PICKLES):
        names |= {path.name for path in source.glob(pattern) if path.is_file()}
    return [source / name for name in sorted(names)]


def check_indexes(indexes: Mapping[str, Any], plans: Sequence[FilePlan]) -> None:
    """Raises Refused where an index names tensors that are not in the file it says."""
    names = {plan.name: set(plan.names) for plan in plans}
    for title, index in indexes.items():
        for tensor, file in index["weight_map"].items():
            if tensor not in names[str(file)]:
                raise Refused(f"{title}: '{tensor}' is not in '{file}'")


def find_others(source: Path, taken: Iterable[str], more: Sequence[str]) -> list[list[str]]:
    """Files besides those taken, by their place in the folder: to copy, and left out."""
    copied: list[str] = []
    left: list[str] = []
    if source.is_dir():
        taken = set(taken)
        for path in sorted(source.rglob("*")):
            name = path.relative_to(source).as_posix()
            if path.is_dir() or name in taken:
                continue
            fits = any(fnmatch.fnmatchcase(path.name, pattern) for pattern in COPIED)
            # An index goes with its weights, and those of sub-folders stay.
            fits = fits and not path.name.endswith(".index.json")
            asked = any(fnmatch.fnmatchcase(name, pattern) for pattern in more)
            (copied if (fits or asked) and path.is_file() else left).append(name)
    return [copied, left]


def change_dtypes(config: Any, is_top: bool = True) -> Any:
    """The configuration with bfloat16 as the type of the weights, in configurations within too."""
    if isinstance(config, list):
        return [change_dtypes(item, False) for item in config]
    if not isinstance(config, dict):
        return config
    changed = {}
    for key, value in config.items():
        is_type = key in ("torch_dtype", "dtype") and re.fullmatch(
            r"(torch\.)?(float(16|32|64)|auto)", str(value)
        )
        changed[key] = "bfloat16" if is_type else change_dtypes(value, False)
    is_model = "model_type" in config or "architectures" in config
    if is_top and is_model and not {"torch_dtype", "dtype"} & set(changed):
        changed["torch_dtype"] = "bfloat16"
    return changed


def change_index(index: Mapping[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
    """The index with the bytes that the tensors of its files take now."""
    files = {str(file) for file in index["weight_map"].values()}
    size = sum(sizes[file] for file in files)
    return {**index, "metadata": {**(index.get("metadata") or {}), "total_size": size}}


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


def write_whole_text(path: Path, text: str) -> None:
    """Write a file whole: under another name, then moved."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with partial.open("w", encoding="utf-8") as file:
        file.write(text)
        flush_to_disk(file)
    partial.replace(path)


class WorkPlace:
    """The folder under its temporary name, with what is already done in it.

    Raises WrongUse where it is there already, and may not or cannot be gone on with; OSError.
    """

    def __init__(self, target: Path, task: Mapping[str, Any], resume: bool) -> None:
        self.path = target.with_name(f"{PARTIAL_PREFIX}{target.name}{PARTIAL_SUFFIX}")
        self.target = target
        self.task = json.loads(json.dumps(task))
        self.done: dict[str, Row] = {}
        if self.path.is_symlink():
            raise WrongUse(f"{self.path} is a link, which this tool does not make: remove it")
        if self.path.exists() and not resume:
            raise WrongUse(
                f"{self.path} was left by a run that was ended: go on with --resume, or remove it"
            )
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise WrongUse(f"{self.path} cannot be made: {error.strerror}") from error
        self.lock()
        self.read_progress()
        self.write_progress()

    def lock(self) -> None:
        """Keep other runs out of the folder until this process ends."""
        with contextlib.suppress(ImportError):
            import fcntl

            self.number = os.open(self.path, os.O_RDONLY)
            try:
                fcntl.flock(self.number, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise WrongUse(f"another run writes into {self.path} now") from error
            except OSError:  # a file system without locks
                pass

    def read_progress(self) -> None:
        """Read what is done. Raises WrongUse where that was another task, or is not this tool's."""
        if not (self.path / PROGRESS).exists():
            # A run may have been ended while it wrote its first note.
            others = [path for path in self.path.iterdir() if PROGRESS not in path.name]
            if others:
                raise WrongUse(
                    f"{self.path} was not left by this tool: '{others[0].name}' is in it, and no "
                    f"{PROGRESS}; move it away"
                )
            return
        try:
            progress = json.loads((self.path / PROGRESS).read_text(encoding="utf-8"))
            task, done = progress["task"], dict(progress["done"])
            sizes = {name: int(row["target_bytes"]) for name, row in done.items()}
        except (ValueError, KeyError, TypeError) as error:
            raise WrongUse(f"{self.path / PROGRESS} cannot be read; remove {self.path}") from error
        if task != self.task:
            raise WrongUse(
                f"{self.path} was made from other files, or with other options: remove it"
            )
        for name, row in done.items():
            file = self.path / name
            if file.is_file() and file.stat().st_size == sizes[name]:
                self.done[name] = row

    def write_progress(self) -> None:
        """Note what is done."""
        text = json.dumps({"task": self.task, "done": self.done})
        write_whole_text(self.path / PROGRESS, text)

    def clear(self) -> None:
        """Remove all but the files that are done."""
        for path in self.path.iterdir():
            if path.name not in self.done and path.name != PROGRESS:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def check_room(self, plans: Sequence[FilePlan]) -> None:
        """Raises WrongUse where the disk has no room for what is not done yet."""
        needed = sum(plan.tensor_bytes for plan in plans if plan.name not in self.done)
        free = shutil.disk_usage(self.path).free
        if free < needed:
            if not self.done:
                shutil.rmtree(self.path)
            raise WrongUse(
                f"{self.target.parent}: {needed / 1e6:.1f} MB are needed, {free / 1e6:.1f} MB are "
                "free"
            )

    def finish(self) -> None:
        """Give the folder its name, now that all is there. Raises OSError."""
        flush_folder(self.path)
        self.path.rename(self.target)  # an empty folder of that name is replaced
        (self.target / PROGRESS).unlink()
        flush_folder(self.target.parent)


def convert_file(converter: Converter, plan: FilePlan, source: Path, place: WorkPlace) -> Row:
    """Convert a file, hold it against its source, and only then give it its name.

    Raises Refused, Mismatch, Stopped, OSError.
    """
    started = time.monotonic()
    _, convert, compare = KINDS[plan.kind]
    partial = place.path / f".{plan.name}.part"
    partial.unlink(missing_ok=True)
    convert(converter, source, partial)
    infinite = compare(converter, source, partial)
    row = make_weights_row(plan, "ok")
    row["target_bytes"] = partial.stat().st_size
    row["became_infinite"] = infinite
    row["verified"] = True
    row["seconds"] = round(time.monotonic() - started, 6)
    partial.rename(place.path / plan.name)
    return row


def make_weights_row(plan: FilePlan, verdict: str) -> Row:
    """One row of results, before anything was written."""
    return {
        "file": plan.name,
        "format": plan.kind,
        "tensors": len(plan.names),
        "converted": plan.converted,
        "kept": len(plan.names) - plan.converted,
        "sharing": plan.sharing,
        "source_bytes": plan.source_bytes,
        "target_bytes": None,
        "tensor_bytes": plan.tensor_bytes,
        "became_infinite": None,
        "seconds": None,
        "verified": None,
        "verdict": verdict,
    }


def look_at_state(paths: Iterable[Path]) -> dict[str, list[int]]:
    """Size and time of the last change of files: what tells whether somebody wrote to them."""
    return {path.name: [path.stat().st_size, path.stat().st_mtime_ns] for path in paths}


class Conversion(NamedTuple):
    """What a run came to."""

    rows: list[Row]
    caveats: list[str]
    problems: list[str]
    stopped: str


def convert_folder(
    converter: Converter, source: Path, target: Path, options: argparse.Namespace
) -> Conversion:
    """Look at all files, then convert them into the new folder. Raises WrongUse, OSError."""
    result = Conversion([], [], [], "")
    try:
        check_links(source)
        indexes = {} if source.is_file() else find_indexes(source)
        weights = find_weights(source, indexes)
    except Refused as error:
        return result._replace(problems=[str(error)])
    if not weights:
        raise WrongUse(f"{source}: there are no .safetensors or .bin weights in this folder")
    before = look_at_state(weights)
    plans = []
    for path in weights:
        kind = "safetensors" if path.suffix == ".safetensors" else "pickle"
        try:
            converter.stop.check()
            plans.append(KINDS[kind][0](converter, path))
        except (Refused, OSError) as error:
            result.problems.append(str(error))
        except Stopped as reason:
            return result._replace(stopped=str(reason))
    copied, left = find_others(source, [*(path.name for path in weights), *indexes], options.copy)
    try:
        if not result.problems:
            check_indexes(indexes, plans)
            if "config.json" in copied:
                read_json_file(source / "config.json")
    except Refused as error:
        result.problems.append(str(error))
    if left:
        shown = ", ".join(left[:8]) + (f" and {len(left) - 8} more" if len(left) > 8 else "")
        result.caveats.append(f"left out: {shown}; --copy PATTERN takes files along unchanged")
    if result.problems or options.dry_run:
        verdict = "would be converted" if options.dry_run else "not converted"
        result.rows.extend(make_weights_row(plan, verdict) for plan in plans)
        return result
    place = WorkPlace(
        target, {"files": before, "keep": converter.keep, "method": METHOD}, options.resume
    )
    stopped = ""
    try:
        place.clear()
        place.check_room(plans)
        for plan, path in zip(plans, weights, strict=True):
            if plan.name in place.done:
                result.rows.append({**place.done[plan.name], "verdict": "done before"})
                continue
            place.done[plan.name] = convert_file(converter, plan, path, place)
            place.write_progress()
            result.rows.append(place.done[plan.name])
        if look_at_state(weights) != before:
            raise Mismatch("the source was changed while it was read; run again")
        sizes = {plan.name: plan.tensor_bytes for plan in plans}
        copy_others(converter, source, place.path, copied)
        for name, index in indexes.items():
            text = json.dumps(change_index(index, sizes), indent=2, ensure_ascii=False) + "\n"
            write_whole_text(place.path / name, text)
        place.finish()
    except Stopped as reason:
        stopped = str(reason)
    except (Refused, Mismatch) as error:
        result.problems.append(str(error))
    except OSError as error:
        result.problems.append(f"{error.filename or place.path}: {error.strerror or error}")
    if stopped or result.problems:
        result.caveats.append(f"{place.path.name} holds what is done so far: --resume goes on")
    return result._replace(stopped=stopped)


def copy_others(converter: Converter, source: Path, folder: Path, names: Sequence[str]) -> None:
    """Copy configurations, tokenizers and the like; that of the weights tells the new type.

    Raises Refused, Stopped, OSError.
    """
    for name in names:
        converter.stop.check()
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if name != "config.json":  # those of sub-folders belong to other weights
            with (source / name).open("rb") as reader, target.open("xb") as writer:
                shutil.copyfileobj(reader, writer)
                flush_to_disk(writer)
            continue
        config = read_json_file(source / name)
        text = json.dumps(change_dtypes(config), indent=2, ensure_ascii=False) + "\n"
        write_whole_text(target, text)


# --- the run ---


def read_own_memory(name: str) -> int:
    """Bytes of a line of /proc/self/status, VmRSS now or VmHWM at its highest; 0 elsewhere."""
    with contextlib.suppress(OSError):
        text = Path("/proc/self/status").read_text(encoding="ascii")
        found = re.search(rf"^{name}:\s+(\d+) kB$", text, re.MULTILINE)
        if found:
            return 1024 * int(found.group(1))
    return 0


def format_mib(size: int) -> str:
    """`512MiB`: whole mebibytes, rounded up."""
    return f"{-(-size // 2**20)}MiB"


def choose_piece(limit: int) -> int:
    """How many bytes to read at once. Raises WrongUse where the limit leaves too little."""
    base = read_own_memory("VmRSS")
    piece = (limit - base - RESERVE) // PIECES_AT_ONCE
    if piece < SMALLEST_PIECE:
        least = base + RESERVE + PIECES_AT_ONCE * SMALLEST_PIECE
        raise WrongUse(
            f"--max_memory {format_mib(limit)}: Python and torch alone take {format_mib(base)}; "
            f"give at least {format_mib(least)}"
        )
    return int(min(piece, LARGEST_PIECE))


def check_torch(torch: Any) -> None:
    """Raises WrongUse for a torch whose weights_only can be got round."""
    found = re.match(r"(\d+)\.(\d+)", str(torch.__version__))
    if found is None or tuple(map(int, found.groups())) < OLDEST_TORCH:
        raise WrongUse(f"torch {torch.__version__}: weights_only is safe from 2.6 on; update it")


def print_report(conversion: Conversion, target: str) -> bool:
    """The table to stdout, notes and problems to stderr; False where stdout was not written."""

    def show(value: Any) -> str:
        return "-" if value is None else str(value)

    cells = [
        [
            row["file"],
            *(show(row[name]) for name in ("tensors", "converted", "kept", "sharing")),
            f"{row['source_bytes'] / 1e6:.1f}",
            "-" if row["target_bytes"] is None else f"{row['target_bytes'] / 1e6:.1f}",
            show(row["became_infinite"]),
            row["verdict"],
        ]
        for row in conversion.rows
    ]
    headings = ["file", "tensors", "converted", "kept", "sharing", "MB", "new MB", "to inf"]
    is_printed = not cells or print_to_stdout(format_table([*headings, "verdict"], cells))
    for caveat in conversion.caveats:
        write_note(caveat)
    if conversion.stopped:
        write_note(conversion.stopped)
    for problem in conversion.problems:
        print(f"problem: {problem}", file=sys.stderr)
    if target and not conversion.problems and not conversion.stopped:
        print(f"verdict: {target} is complete, every file verified", file=sys.stderr)
    return is_printed


def run_conversion(
    options: argparse.Namespace, command: Sequence[str], stop: StopSign, origin: float
) -> int:
    """Convert, print and write; the exit status."""
    torch = import_torch()
    check_torch(torch)
    converter = Converter(torch, options.keep, options.max_memory, stop)
    with contextlib.ExitStack() as stack:
        source, target = options.source, options.target
        if options.demo:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="to_bf16_")))
            source, target = folder / "demo-fp32", folder / "demo-bf16"
            make_demo_weights(converter, source, options.demo)
        conversion = convert_folder(converter, source, target, options)
    peak = read_own_memory("VmHWM")
    if peak > options.max_memory:
        conversion.problems.append(
            f"{format_mib(peak)} were used at the highest, more than --max_memory"
        )
    infinite = sum(row["became_infinite"] or 0 for row in conversion.rows)
    if infinite:
        conversion.caveats.append(f"{infinite} values were too large for bfloat16 and are infinite")
    is_whole = not options.dry_run and bool(conversion.rows)
    is_printed = print_report(conversion, target.name if is_whole else "")
    if options.json:
        document = {
            **make_document_head("checkpoint_to_bf16", (__version__, METHOD), command, origin),
            "complete": not conversion.stopped,
            "units": UNITS,
            "results": conversion.rows,
            "caveats": [*conversion.caveats, *conversion.problems],
            "details": {
                "max_memory_bytes": options.max_memory,
                "peak_memory_bytes": peak or None,
                "piece_bytes": converter.piece,
                "keep": list(options.keep),
                "dry_run": options.dry_run,
                "torch": str(torch.__version__),
                "platform": f"{platform.system()} {platform.machine()}",
                "python": platform.python_version(),
            },
        }
        write_document(options.json, document)
    return 1 if conversion.problems or conversion.stopped or not is_printed else 0


def make_demo_weights(converter: Converter, folder: Path, size: int) -> None:
    """A checkpoint of about so many bytes: shards with an index, a `.bin`, a configuration."""
    torch = converter.torch
    folder.mkdir()
    torch.manual_seed(0)
    count = max(size // 4 // 8, 64)
    weights: dict[str, str] = {}
    for shard in range(2):
        name = f"model-{shard + 1:05d}-of-00002.safetensors"
        tensors = {f"layers.{shard}.{part}.weight": "F32" for part in ("up", "down", "norm")}
        tensors[f"layers.{shard}.inv_freq"] = "F32"
        write_demo_shard(converter, folder / name, tensors, count)
        weights |= dict.fromkeys(tensors, name)
    total = 4 * count * len(weights)
    index = {"metadata": {"total_size": total}, "weight_map": weights}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    table = torch.randn(max(count // 32, 8), 16)
    state = OrderedDict(embed=table, head=table, steps=torch.arange(7))
    torch.save(state, folder / "pytorch_model.bin")
    config = {"model_type": "demo", "torch_dtype": "float32"}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (folder / "tokenizer.json").write_text("{}", encoding="utf-8")


def write_demo_shard(
    converter: Converter, path: Path, tensors: Mapping[str, str], count: int
) -> None:
    """A safetensors file of random float32 numbers, written piece by piece."""
    torch = converter.torch
    header = {
        name: {
            "dtype": code,
            "shape": [count],
            "data_offsets": [4 * count * i, 4 * count * (i + 1)],
        }
        for i, (name, code) in enumerate(tensors.items())
    }
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    with path.open("xb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for begin, end in converter.split(4 * count * len(tensors), 4):
            write_tensor(torch, file, torch.randn((end - begin) // 4))


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
    """Check the rounding, both formats, and what is refused; 0, or 1 where a check fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    torch = import_torch()
    check_torch(torch)
    limit = read_own_memory("VmRSS") + 512 * 2**20
    converter = Converter(torch, KEEP, limit, StopSign())
    values = torch.tensor([1 + 1 / 128, 1 + 1 / 256, 1 + 3 / 256, -math.inf, math.nan, 3.4e38])
    rounded = round_to_bf16(torch, values).tolist()
    check("1 + 1/256 becomes 1", rounded[:3] == [1 + 1 / 128, 1.0, 1 + 1 / 64])
    check("inf and NaN stay", rounded[3] == -math.inf and math.isnan(rounded[4]))
    check("3.4e38 becomes infinite", rounded[5] == math.inf)
    for kind, whole in ((torch.float16, torch.int16), (torch.float32, torch.int32)):
        low, high = torch.iinfo(whole).min, torch.iinfo(whole).max
        step = max((high - low) // 65536, 1)
        bits = torch.arange(low, high - step, step, dtype=torch.int64)
        values = torch.cat([bits, bits + step // 2, bits + 1]).to(whole).view(kind)
        written = round_to_bf16(torch, values)
        try:
            compare_converted(torch, values, written, "test")
            agrees = True
        except Mismatch:
            agrees = False
        check(f"torch and whole numbers round alike all over {kind}", agrees)
        quick = find_wanted_bits(torch, values)
        slow = compute_bf16_bits(torch, values)
        check("and so does the quicker way", torch.equal(quick.to(torch.int64), slow))
    double = torch.tensor([1 + 2**-8 + 2**-40], dtype=torch.float64)
    check("float64 is rounded once", round_to_bf16(torch, double).item() == 1 + 2**-7)
    with tempfile.TemporaryDirectory(prefix="to_bf16_") as name:
        folder = Path(name)
        make_demo_weights(converter, folder / "in", 2**16)
        before = {path.name: path.read_bytes() for path in (folder / "in").iterdir()}
        options = build_parser().parse_args(["in", "out"])
        result = convert_folder(converter, folder / "in", folder / "out", options)
        verdicts = [row["verdict"] for row in result.rows]
        check("a small checkpoint is converted", verdicts == ["ok"] * 3 and not result.problems)
        after = {path.name: path.read_bytes() for path in (folder / "in").iterdir()}
        check("the source is as it was", before == after)
        check("nothing else is left", sorted(p.name for p in folder.iterdir()) == ["in", "out"])
        index = read_json_file(folder / "out" / "model.safetensors.index.json")
        headers = [read_header(path) for path in (folder / "out").glob("*.safetensors")]
        total = sum(header.entries[-1].end for header in headers)
        check("the index has the new size", index["metadata"]["total_size"] == total)
        config = read_json_file(folder / "out" / "config.json")
        check("config.json has the new type", config["torch_dtype"] == "bfloat16")
        tree = torch.load(folder / "out" / "pytorch_model.bin", weights_only=True)
        tied = tree["embed"].data_ptr() == tree["head"].data_ptr()
        check("tied weights are tied", tied and tree["embed"].dtype == torch.bfloat16)
        evil = folder / "evil.bin"
        evil.write_bytes(b"cos\nmkdir\n(V" + str(folder / "ran").encode() + b"\ntR.")
        try:
            load_pickle(converter, evil)
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
        prog="checkpoint_to_bf16.py",
        description="Convert the weights of a checkpoint to bfloat16, into a new folder.",
        epilog="The docstring at the top of this file tells what is converted and how to run it.",
        allow_abbrev=False,
    )
    parser.add_argument("source", nargs="?", type=Path, help="a folder with weights, or one file")
    parser.add_argument("target", nargs="?", type=Path, help="the new folder")
    parser.add_argument(
        "--max_memory",
        type=parse_bytes,
        default=2**30,
        metavar="SIZE",
        help="what the whole process may take; too little is refused with the least that is "
        "enough (default: 1GiB)",
    )
    parser.add_argument(
        "--keep",
        nargs="*",
        default=list(KEEP),
        metavar="PATTERN",
        help=f"names of tensors that stay as they are (default: {' '.join(KEEP)})",
    )
    parser.add_argument(
        "--copy", nargs="+", default=[], metavar="PATTERN", help="other files to take along"
    )
    parser.add_argument(
        "--resume", action="store_true", help="go on with what a run that was ended has left"
    )
    parser.add_argument(
        "--dry_run", "--dry-run", action="store_true", help="say what would be done; write nothing"
    )
    parser.add_argument(
        "--demo",
        type=parse_bytes,
        metavar="SIZE",
        help="make a checkpoint of this size in a temporary folder, and convert that",
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version",
        action="version",
        version=f"checkpoint_to_bf16 {__version__} (method {METHOD})",
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense, before anything is read."""
    check_json_path(options.json)
    if options.demo:
        if options.source or options.resume or options.dry_run:
            raise WrongUse("--demo makes its own source and target; leave the others out")
        return
    if options.dry_run and options.resume:
        raise WrongUse("--dry_run goes on with nothing; leave --resume out")
    if not options.source or not options.target:
        raise WrongUse("name the folder to read and the new one to write, or --demo 16MiB")
    if not options.source.exists():
        raise WrongUse(f"there is no {options.source}")
    if options.source.is_file() and options.source.suffix not in (".bin", ".safetensors"):
        raise WrongUse(f"{options.source}: only .bin and .safetensors are converted")
    if options.source.is_file() and options.copy:
        raise WrongUse("--copy takes files of a folder along; here is one file alone")
    options.source = options.source.absolute()
    options.target = options.target.absolute()
    if not options.target.parent.is_dir():
        raise WrongUse(f"there is no folder {options.target.parent} to put the new one into")
    source, target = options.source.resolve(), options.target.resolve()
    if target == source or target.is_relative_to(source) or source.is_relative_to(target):
        raise WrongUse("the new folder has to be another one, and neither may be within the other")
    if options.target.is_symlink() or os.path.ismount(options.target):
        raise WrongUse(f"{options.target} is a link or a mount: name a new folder, here or in it")
    if options.target.exists() and not (options.target.is_dir() and is_empty(options.target)):
        raise WrongUse(f"{options.target} is there already; name a new folder")


def is_empty(folder: Path) -> bool:
    """Whether there is nothing in a folder."""
    return next(folder.iterdir(), None) is None


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
        return run_conversion(options, make_portable_command(arguments), stop, origin)
    except WrongUse as error:
        parser.error(str(error))
    except (KeyboardInterrupt, Stopped):
        print("stopped", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"problem: {error.filename or 'a file'}: {error.strerror}", file=sys.stderr)
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
