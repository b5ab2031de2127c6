"""Files of torch.save: read them without running code, find what their tensors share, compare."""

import functools
import re
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kit.cli import UsageError

Named = tuple[str, Any]
"""A tensor and its name, like `model.layers.0.weight`."""


class Group(NamedTuple):
    """Tensors that overlap in a storage, their first byte there, and the one behind the last."""

    members: list[Named]
    begin: int
    end: int


class Refused(Exception):
    """A file that is left alone, and why."""


def load_checkpoint(torch: Any, path: Path) -> Any:
    """The content of a file of torch.save, with its tensors on the CPU. A zip archive is mapped
    into memory instead of being read. Raises Refused for a file that is more than data, and
    UsageError for a torch whose weights_only can be bypassed (CVE-2025-32434)."""
    if torch.__version__ < "2.6":
        raise UsageError(f"torch {torch.__version__}: weights_only is safe from 2.6 on; update it")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            mapped = zipfile.is_zipfile(path)
            return torch.load(path, map_location="cpu", mmap=mapped, weights_only=True)
    except MemoryError:
        raise
    except Exception as error:  # a pickle can raise anything
        text = str(error)
        if found := re.search(r"GLOBAL ([\w.]+)", text):
            reason = f"it wants to call {found[1]}"
        else:
            words = text.partition("WeightsUnpickler error:")[2] or text or type(error).__name__
            reason = words.strip().splitlines()[0][:200]
        raise Refused(f"not loaded as weights only: {reason}; none of its code was run") from error


def list_tensors(torch: Any, tree: Any, name: str = "") -> list[Named]:
    """All tensors in dicts, lists and tuples. Raises Refused for one that is more than numbers in
    main memory: sparse, quantized, without values, or of another class."""
    if isinstance(tree, torch.Tensor):
        is_plain = type(tree) in (torch.Tensor, torch.nn.Parameter) and tree.device.type == "cpu"
        if not is_plain or tree.layout != torch.strided or tree.is_quantized or tree.is_nested:
            kind = f"{type(tree).__name__}, {tree.layout}, {tree.device.type}"
            raise Refused(f"'{name}' is not a plain tensor ({kind})")
        return [(name, tree)]
    if not isinstance(tree, dict | list | tuple):
        return []
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    named = [(f"{name}.{key}" if name else str(key), value) for key, value in items]
    return [found for key, value in named for found in list_tensors(torch, value, key)]


def measure_span(tensor: Any) -> tuple[int, int]:
    """The bytes of a tensor in its storage: the first, and the one behind the last."""
    begin = tensor.storage_offset() * tensor.element_size()
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    steps = sum((size - 1) * stride for size, stride in pairs)
    return begin, begin + (steps + 1) * tensor.element_size() if tensor.numel() else begin


def group_by_storage(tensors: Sequence[Named]) -> list[tuple[Any, list[Group]]]:
    """Each storage with its tensors, in groups that overlap."""
    storages: dict[int, tuple[Any, list[Named]]] = {}
    for name, tensor in tensors:
        storage = tensor.untyped_storage()
        storages.setdefault(storage._cdata, (storage, []))[1].append((name, tensor))
    grouped = []
    for storage, users in storages.values():
        groups: list[Group] = []
        for user in sorted(users, key=lambda user: (measure_span(user[1]), user[0])):
            begin, end = measure_span(user[1])
            if groups and begin < groups[-1].end:
                last = groups.pop()
                groups.append(Group([*last.members, user], last.begin, max(end, last.end)))
            else:
                groups.append(Group([user], begin, end))
        grouped.append((storage, groups))
    return grouped


def find_ties(tensors: Sequence[Named]) -> dict[str, tuple[str, int]]:
    """For each tensor the first one that it overlaps, and where it begins in that one's memory, in
    elements: equal for two checkpoints whose tensors share memory alike."""
    ties = {}
    for _, groups in group_by_storage(tensors):
        for members, _, _ in groups:
            begin = members[0][1].storage_offset()
            first = min(name for name, _ in members)
            ties |= {name: (first, tensor.storage_offset() - begin) for name, tensor in members}
    return ties


def has_same_bits(torch: Any, one: Any, two: Any) -> bool:
    """True if two tensors of one shape are equal bit by bit, NaN included."""
    if one.dtype != two.dtype:
        return False
    flat = [tensor.detach().contiguous().flatten().clone() for tensor in (one, two)]
    return bool(torch.equal(flat[0].view(torch.uint8), flat[1].view(torch.uint8)))


def outline(torch: Any, tree: Any) -> Any:
    """The tree, with the type and shape of each tensor in its place."""
    if isinstance(tree, torch.Tensor):
        return type(tree), tree.shape, tree.requires_grad
    if isinstance(tree, dict):
        return {key: outline(torch, value) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree), [outline(torch, value) for value in tree]
    return tree


def find_difference(
    torch: Any, old: Any, new: Any, is_same: Callable[[Any, Any], bool] | None = None
) -> str | None:
    """Where two checkpoints differ in more than their storages; `is_same` compares tensors, by
    default bit by bit."""
    is_same = is_same or functools.partial(has_same_bits, torch)
    if repr(outline(torch, old)) != repr(outline(torch, new)):  # equal for a NaN too
        return "something other than the values of tensors is not what it was"
    tensors, others = list_tensors(torch, old), list_tensors(torch, new)
    for (name, one), (_, two) in zip(tensors, others, strict=True):
        if not is_same(one, two):
            return f"'{name}' is not what it was"
    if find_ties(tensors) != find_ties(others):
        return "other tensors share memory than before"
    return None
