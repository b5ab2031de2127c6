#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Which module makes the first inf or nan of this model, and what did the numbers do before it?

A loss that is nan says nothing of where it began. DebugUnderflowOverflow looks at weights, inputs
and outputs of every module right after its forward, ends the run at the first value that is not
finite, names the module, and prints the frames before it: that is where the numbers grew.

    debug = DebugUnderflowOverflow(model)                      then train as ever
    DebugUnderflowOverflow(model, max_frames_to_save=100)      more frames (default 21)
    DebugUnderflowOverflow(model, trace_batch_nums=[1, 3])     print all frames of these batches
    ..., abort_after_batch_num=3)                              end when batch 4 begins
    DebugUnderflowOverflow(model, low_overhead=True)           for long runs, see below
    DebugUnderflowOverflow(model, check_gradients=True)        backward too
    ..., ignore=["attention_mask"])                            a mask of -inf is meant so
    ..., stop=False)                                           report the first, and go on
    detect_overflow(tensor, "after the norm")                  one tensor, anywhere
    count_lost(gradients, torch.float16, scale=2.0**16)        what a format would lose of them

What is looked at
    The largest and smallest absolute value of each tensor: of the module's own weights, of its
    arguments and of what it returns; in lists, tuples, dicts and dataclasses at any depth; float8
    as float32; of a DTensor the part of this rank. A batch is one forward of the model given,
    from 0. Frames in the backward are marked: `recomputed` where activations are checkpointed,
    `backward` for gradients. Where the culprit cannot be one module (a function between modules),
    the two frames around it are named.
    An output of zeros alone from an input of more is told as an underflow, and is no error.
Whose fault
    weight          it was there before this forward: the optimizer's last step, or the checkpoint
    output          finite went in: this module made it
    input           made between modules, or in the data
    gradient        finite came from the module before (in the order of the backward): that one's
                    backward made it, or what stands between. With a loss scaler in fp16 an inf now
                    and then is the scaler's business.

Physics
    The largest float16 is 65504, of bfloat16 and float32 about 3.4e38, of float8_e4m3fn 448. Hand
    check: 1e4 squared is 1e8, beyond float16: activations of 1e4 are close to the end.
What a format loses
    count_lost multiplies, rounds to the format and counts what was not zero and is, what is
    subnormal (has fewer digits), and what is beyond the largest number. `--demo --lost` does it
    to the gradients of the small model, computed in float32, at loss scales from 2**-20 to 2**40.
    Nothing is lost in a window of scales that is as much wider as the format's range is than
    that of the gradients; where it lies is a matter of the model.
Cost
    All frames: several kernels and one wait for the device for each module. low_overhead: one
    reduction for each output and one number for each module, kept on the device and read once for
    each batch, when the next one begins (or by debug.check()): no waits between. It names the
    first module in the order of the forward, with the largest output of those before it; run that
    batch again without it to see inputs and weights. measure_cost times all three, and so does
    the demonstration.

With others
    Activation checkpointing (both kinds), DDP, FSDP1 and FSDP2 (fully_shard): wrap first, then
    attach. A rank that finds something raises, and its launcher ends the others. Compiled models:
    attach before torch.compile, with low_overhead=True: reading values at every module breaks
    the graph at every module, low_overhead breaks it once.

How to run
    This file is a library: copy it beside the training script, or put it on PYTHONPATH. The
    command plays an overflow planted in a small model:
    one process     python underflow_overflow.py --demo --dtype float16 --plant blocks.1.mlp.down
    FSDP            torchrun --nproc_per_node 2 underflow_overflow.py --demo --fsdp
    Slurm           srun --ntasks-per-node 8 python underflow_overflow.py --demo --fsdp
                    (with MASTER_ADDR set), and a training script that has the lines above
    pdsh            pdsh -w node[01-08] python /shared/underflow_overflow.py --demo

A good answer: of the demonstration, that the planted module is named. Of training, that nothing is
raised, and that the largest values stay well below the largest of the data type.

Seen running so far: on CPUs, one process and FSDP over gloo. The code is the same on accelerators
and has not been run on one yet.

Exit status: 0 done, 1 the planted module was not found, or stopped by a signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import collections
import contextlib
import dataclasses
import datetime
import errno
import functools
import io
import json
import math
import os
import platform
import re
import signal
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TextIO

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {
    "toy": ["--demo", "--device", "cpu", "--repeats", "3"],
    "full": ["--demo", "--width", "1024", "--layers", "8", "--repeats", "20"],
    "lost": ["--demo", "--lost", "--device", "cpu"],
}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {"frame": "1", "batch": "1", "abs_min": "1", "abs_max": "1"}
LOST_UNITS = {
    "scale": "1",
    "scale_power": "1",
    "values": "1",
    "zero_share": "1",
    "subnormal_share": "1",
    "too_large_share": "1",
}

DTYPES = ("float16", "bfloat16", "float32")
OUTPUTS = ("tensor", "tuple", "dict", "dataclass")
LOST_DTYPES = ("bfloat16", "float16", "float8_e5m2", "float8_e4m3fn")
LOST_POWERS = tuple(range(-20, 41, 2))
# What wrappers put into the names of the modules in them.
WRAPPERS = {"_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod"}
# Nothing nests deeper, unless it holds itself.
DEPTH = 12
STEP_TIMEOUT_SECONDS = 60.0
MOST_WIDTH = 2**20
MOST_LAYERS = 1024

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


class NonFiniteDetected(ValueError):
    """A tensor has an inf or a nan; `report` tells where, and what was before."""

    def __init__(self, report: OverflowReport) -> None:
        where = "" if report.rank is None else f"rank {report.rank}: "
        super().__init__(f"{where}{report.headline}")
        self.report = report


class BatchLimitReached(ValueError):
    """The batch of abort_after_batch_num is over."""


class TensorReading(NamedTuple):
    """One tensor of a frame: its smallest and largest absolute value, or why there is none."""

    name: str
    dtype: str
    abs_min: float | None
    abs_max: float | None
    words: str = ""
    largest: float | None = None  # that its data type can hold

    @property
    def state(self) -> str:
        """`finite`, `inf`, `nan`, or `none` where there are no numbers."""
        if self.abs_max is None:
            return "none"
        if math.isnan(self.abs_max):
            return "nan"
        return "inf" if math.isinf(self.abs_max) else "finite"

    @property
    def is_bad(self) -> bool:
        """Whether it has an inf or a nan."""
        return self.state in ("inf", "nan")


class Frame(NamedTuple):
    """One module's forward, or one gradient of the backward."""

    batch: int
    phase: str  # forward, recomputed, backward
    module: str
    kind: str
    readings: tuple[TensorReading, ...]

    @property
    def title(self) -> str:
        """`blocks.1.mlp (Mlp)`; the model itself has no name."""
        return f"{self.module} ({self.kind})" if self.module else f"the model ({self.kind})"


@dataclasses.dataclass(frozen=True)
class OverflowReport:
    """What was found first, and the frames up to it; the last of them is the one at fault."""

    frames: tuple[Frame, ...]
    reading: TensorReading
    maker: str
    cause: str
    rank: int | None
    underflows: tuple[str, ...]

    @property
    def frame(self) -> Frame:
        """The frame in which it was found."""
        return self.frames[-1]

    @property
    def module(self) -> str:
        """The module in whose frame it was found."""
        return self.frame.module

    @property
    def headline(self) -> str:
        """All of it in one sentence."""
        frame = self.frame
        return (
            f"{self.reading.state} in {self.reading.name} of {frame.title}, "
            f"{frame.phase} of batch {frame.batch}: {self.cause}"
        )


def find_rank_number(environ: Mapping[str, str]) -> int | None:
    """The rank that torchrun, Slurm or Open MPI gave this process; None without a launcher."""
    for name in ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"):
        if environ.get(name, "").isdigit():
            return int(environ[name])
    return None


def clean_name(name: str) -> str:
    """The name of a module as its author knows it, without the parts that wrappers added."""
    return ".".join(part for part in name.split(".") if part not in WRAPPERS)


def list_tensors(torch: Any, value: Any, name: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """Every tensor in a value with its place, as `output[logits]`, `output.hidden[0]`.

    None, and what cannot be looked into, comes too; plain numbers and texts do not.
    """
    if value is None or isinstance(value, torch.Tensor) or depth > DEPTH:
        yield name, value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from list_tensors(torch, part, f"{name}[{key}]", depth + 1)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        for key, part in zip(value._fields, value, strict=True):
            yield from list_tensors(torch, part, f"{name}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from list_tensors(torch, part, f"{name}[{number}]", depth + 1)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            part = getattr(value, field.name, None)
            yield from list_tensors(torch, part, f"{name}.{field.name}", depth + 1)
    elif not isinstance(value, str | bytes | int | float | complex):
        yield name, value


def get_wide_dtype(torch: Any, device: Any) -> Any:
    """A data type that holds the values of all others, on this device."""
    return torch.float64 if device.type in ("cpu", "cuda") else torch.float32


def get_plain_values(torch: Any, tensor: Any) -> Any:
    """The tensor's values as something that can be reduced: this rank's part, dense, no float8."""
    values = tensor.detach()
    if hasattr(values, "to_local"):  # a DTensor: no rank may wait for others here
        values = values.to_local()
    if values.layout is not torch.strided:
        values = values.coalesce().values() if values.is_sparse else values.values()
    if values.is_quantized:
        values = values.dequantize()
    if values.dtype is torch.bool:
        values = values.to(torch.uint8)
    if values.dtype.is_floating_point and values.dtype.itemsize == 1:
        values = values.to(torch.float32)
    return values


def read_tensors(torch: Any, named: Iterable[tuple[str, Any]]) -> tuple[TensorReading, ...]:
    """The smallest and largest absolute value of each tensor, with one wait for each device."""
    readings: list[TensorReading] = []
    pending: dict[Any, list[tuple[int, Any]]] = {}
    for name, tensor in named:
        if not isinstance(tensor, torch.Tensor):
            words = "None" if tensor is None else f"not a tensor: {type(tensor).__name__}"
            readings.append(TensorReading(name, "", None, None, words))
            continue
        dtype = str(tensor.dtype).removeprefix("torch.")
        largest, words = None, ""
        try:
            # Neither is there for the smallest types, as those of 4 bits.
            largest = torch.finfo(tensor.dtype).max if tensor.dtype.is_floating_point else None
            values = get_plain_values(torch, tensor)
            if values.is_meta:
                words = "on the meta device"
            elif values.numel() == 0:
                words = "empty"
            else:
                low, high = torch.aminmax(values.abs())
                both = torch.stack([low, high]).to(get_wide_dtype(torch, values.device))
                pending.setdefault(values.device, []).append((len(readings), both))
        except (RuntimeError, TypeError, NotImplementedError, AttributeError) as error:
            words = f"could not be read: {(str(error).splitlines() or ['?'])[0][:60]}"
        readings.append(TensorReading(name, dtype, None, None, words, largest))
    for waiting in pending.values():
        numbers = torch.stack([both for _, both in waiting]).tolist()
        for (index, _), (low, high) in zip(waiting, numbers, strict=True):
            readings[index] = readings[index]._replace(abs_min=low, abs_max=high)
    return tuple(readings)


def detect_overflow(tensor: Any, name: str, stream: TextIO | None = None) -> bool:
    """Whether the tensor, or one in a list or dict, has an inf or a nan; then it is said."""
    torch = import_torch()
    with torch.no_grad():
        readings = read_tensors(torch, list_tensors(torch, tensor, name))
    for reading in readings:
        if reading.is_bad:
            print(f"{reading.name} has {reading.state}", file=stream or sys.stderr)
    return any(reading.is_bad for reading in readings)


class Lost(NamedTuple):
    """What became of numbers that were finite and not zero, when they were rounded to a format."""

    values: int
    zero: int
    subnormal: int
    too_large: int


def count_lost(tensors: Iterable[Any], dtype: Any, scale: float = 1.0) -> Lost:
    """Count what `dtype` loses of the tensors, each number multiplied with `scale` before.

    `too_large` is what lies beyond the largest number: it becomes infinite, NaN or that number,
    by format and version of torch. For one step:
    `count_lost([p.grad for p in model.parameters() if p.grad is not None], torch.float16)`.
    """
    torch = import_torch()
    limits = torch.finfo(dtype)
    counts = [0, 0, 0, 0]
    for tensor in tensors:
        wide = tensor.detach().to(torch.float32)
        kept = wide[(wide != 0) & wide.isfinite()]
        scaled = (kept * scale).abs()
        rounded = scaled.to(dtype).to(torch.float32)
        counts[0] += kept.numel()
        counts[1] += int((rounded == 0).sum())
        counts[2] += int(((rounded > 0) & (rounded < limits.smallest_normal)).sum())
        counts[3] += int((scaled > limits.max).sum())
    return Lost(*counts)


class DebugUnderflowOverflow:
    """Finds the first inf or nan of a model, and tells what was before it.

    Raises NonFiniteDetected in the forward (or the backward) in which it appears, unless `stop` is
    false; `report` has it then. Raises BatchLimitReached when the batch after
    `abort_after_batch_num` begins. close() takes all hooks away; it is a context manager too.
    """

    def __init__(
        self,
        model: Any,
        max_frames_to_save: int = 21,
        trace_batch_nums: Iterable[int] = (),
        abort_after_batch_num: int | None = None,
        *,
        check_gradients: bool = False,
        low_overhead: bool = False,
        ignore: Iterable[str] = (),
        stop: bool = True,
        stream: TextIO | None = None,
    ) -> None:
        self.torch = import_torch()
        self.traced = frozenset(trace_batch_nums)
        if low_overhead and (self.traced or check_gradients):
            raise ValueError("low_overhead looks at outputs alone: no trace and no gradients")
        if max_frames_to_save < 1:
            raise ValueError("max_frames_to_save has to be 1 or more")
        self.model = model
        self.abort_after = abort_after_batch_num
        self.checks_gradients = check_gradients
        self.is_light = low_overhead
        self.ignored = tuple(ignore)
        self.stops = stop
        self.stream = stream
        self.rank = find_rank_number(os.environ)
        self.batch_number = -1
        self.report: OverflowReport | None = None
        self.frames: collections.deque[Frame] = collections.deque(maxlen=max_frames_to_save)
        self.underflows: dict[str, None] = {}
        self._in_forward = False
        self._handles: list[Any] = []
        # For low_overhead: modules in the order in which their forward ended, and one number each.
        self._modules: list[tuple[str, str]] = []
        self._order: list[int] = []
        self._peaks: dict[Any, tuple[Any, tuple[Any, ...]]] = {}
        self._attach()

    def _attach(self) -> None:
        keep = self._handles.append
        keep(self.model.register_forward_pre_hook(self._begin_batch, prepend=True))
        is_replica = type(self.model).__name__ in ("DistributedDataParallel", "DataParallel")
        for number, (name, module) in enumerate(self.model.named_modules()):
            bare = name.removeprefix("module").removeprefix(".") if is_replica else name
            known = (clean_name(bare), type(module).__name__)
            self._modules.append(known)
            call = functools.partial(self._after_forward, number)
            # First of all hooks: those of FSDP take the weights away.
            keep(module.register_forward_hook(call, prepend=True, with_kwargs=True))
            if self.checks_gradients:
                for own, weight in module.named_parameters(recurse=False):
                    if weight.requires_grad:
                        seen = functools.partial(self._after_accumulation, known, own)
                        keep(weight.register_post_accumulate_grad_hook(seen))

    def close(self) -> None:
        """Take all hooks away."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def __enter__(self) -> DebugUnderflowOverflow:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close()
        if kind is None and self.is_light:
            self.check()

    # Where batches begin and modules end.

    def _begin_batch(self, _module: Any, _arguments: Any) -> None:
        if self.is_light:
            self.check()
        if self.abort_after is not None and self.batch_number >= self.abort_after:
            raise BatchLimitReached(f"batch {self.batch_number} is over: abort_after_batch_num")
        self.batch_number += 1
        self._in_forward = True
        self._order.clear()
        if self.batch_number in self.traced:
            self._print(f"*** batch {self.batch_number} ***\nabs min  abs max  what")

    def _after_forward(
        self, number: int, module: Any, arguments: Any, named: Any, output: Any
    ) -> None:
        name, kind = self._modules[number]
        phase = "forward" if self._in_forward else "recomputed"
        if number == 0:
            self._in_forward = False
        if self.is_light:
            if phase == "forward":
                self._order.append(number)
            self._raise_peak(number, output)
            return
        if self.traced and self.batch_number not in self.traced:
            return
        torch = self.torch
        tensors = [
            *module.named_parameters(recurse=False),
            *list_tensors(torch, arguments, "input"),
            *list_tensors(torch, named, "input"),
            *list_tensors(torch, output, "output"),
        ]
        with torch.no_grad():
            frame = Frame(self.batch_number, phase, name, kind, read_tensors(torch, tensors))
        if self.checks_gradients:
            self._watch_gradients((name, kind), output)
        self._take(frame)

    def _take(self, frame: Frame) -> None:
        """Keep a frame, print it where its batch is traced, and judge it where none is."""
        self.frames.append(frame)
        if self.traced:
            self._print(format_frame(frame))
            return
        if is_underflow(frame):
            self.underflows[frame.title] = None
        bad = [r for r in frame.readings if r.is_bad and not self._is_ignored(r.name)]
        if bad and self.report is None:
            self._raise_report(judge_frame(frame, bad, list(self.frames)[:-1]))

    def _is_ignored(self, name: str) -> bool:
        return any(name == n or name.endswith((f"[{n}]", f".{n}")) for n in self.ignored)

    def _raise_report(self, judged: tuple[TensorReading, str, str]) -> None:
        reading, maker, cause = judged
        self.report = OverflowReport(
            tuple(self.frames), reading, maker, cause, self.rank, tuple(self.underflows)
        )
        self._print(format_overflow(self.report))
        if self.stops:
            raise NonFiniteDetected(self.report)

    def _print(self, text: str) -> None:
        stream = self.stream or sys.stderr
        prefix = "" if self.rank is None else f"[rank {self.rank}] "
        stream.write("".join(f"{prefix}{line}\n" for line in text.splitlines()))
        stream.flush()

    # Gradients.

    def _watch_gradients(self, known: tuple[str, str], output: Any) -> None:
        for name, tensor in list_tensors(self.torch, output, "output"):
            if isinstance(tensor, self.torch.Tensor) and tensor.requires_grad:
                call = functools.partial(self._after_backward, self.batch_number, known, name)
                tensor.register_hook(call)

    def _after_backward(self, batch: int, known: tuple[str, str], name: str, grad: Any) -> None:
        with self.torch.no_grad():
            readings = read_tensors(self.torch, [(f"gradient of {name}", grad)])
        self._take(Frame(batch, "backward", *known, readings))

    def _after_accumulation(self, known: tuple[str, str], name: str, weight: Any) -> None:
        if self.traced and self.batch_number not in self.traced:
            return
        with self.torch.no_grad():
            readings = read_tensors(self.torch, [(f"gradient of {name}", weight.grad)])
        self._take(Frame(self.batch_number, "backward", *known, readings))

    # Low overhead.

    def _raise_peak(self, number: int, output: Any) -> None:
        """Let the device remember the largest value of the outputs; nothing waits for it."""
        torch = self.torch
        with torch.no_grad():
            for name, tensor in list_tensors(torch, output, "output"):
                if not isinstance(tensor, torch.Tensor) or not tensor.dtype.is_floating_point:
                    continue
                if self.ignored and self._is_ignored(name):
                    continue
                # What cannot be read, as numbers of 4 bits, must not end the training.
                with contextlib.suppress(RuntimeError, TypeError, AttributeError):
                    values = get_plain_values(torch, tensor)
                    if values.is_meta or values.numel() == 0:
                        continue
                    # nan goes through both of these as it is.
                    peak = torch.linalg.vector_norm(values, math.inf)
                    slot = self._get_peaks(values.device)[1][number]
                    torch.maximum(slot, peak.to(slot.dtype), out=slot)

    def _get_peaks(self, device: Any) -> tuple[Any, tuple[Any, ...]]:
        if device not in self._peaks:
            dtype = get_wide_dtype(self.torch, device)
            # Also in an inference forward: these numbers are written again later.
            with self.torch.inference_mode(False):
                whole = self.torch.zeros(len(self._modules), dtype=dtype, device=device)
                self._peaks[device] = (whole, whole.unbind())
        return self._peaks[device]

    def check(self) -> OverflowReport | None:
        """With low_overhead: read what the device remembers of this batch, waiting for it.

        The report of the first bad module, if there is one. Raises NonFiniteDetected unless `stop`
        is false.
        """
        if not self.is_light or not self._peaks or not self._order:
            return self.report
        peaks = [0.0] * len(self._modules)
        with self.torch.no_grad():
            for whole, _ in self._peaks.values():
                for number, value in enumerate(whole.tolist()):
                    peaks[number] = max_with_nan(peaks[number], value)
                whole.zero_()
        order = list(dict.fromkeys(self._order))
        first = next((n for n, i in enumerate(order) if not math.isfinite(peaks[i])), None)
        self._order.clear()
        if first is None or self.report is not None:
            return self.report
        self.frames.clear()
        for index in order[: first + 1]:
            reading = TensorReading("output", "", None, peaks[index])
            frame = Frame(self.batch_number, "forward", *self._modules[index], (reading,))
            self.frames.append(frame)
        frame = self.frames[-1]
        cause = "the first in the order of the forward; without low_overhead its inputs are shown"
        self._raise_report((frame.readings[0], frame.module, cause))
        return self.report


def max_with_nan(a: float, b: float) -> float:
    """The larger one; nan where one of them is nan."""
    return a if math.isnan(a) else b if math.isnan(b) else max(a, b)


def is_underflow(frame: Frame) -> bool:
    """Whether all outputs are zeros although an input is more: too small for the data type, or
    masked on purpose."""
    tops: dict[bool, list[float]] = {True: [], False: []}
    for reading in frame.readings:
        is_output = reading.name.startswith(("output", "gradient"))
        if reading.abs_max is not None and (is_output or reading.name.startswith("input")):
            tops[is_output].append(reading.abs_max)
    return bool(tops[True]) and not any(tops[True]) and any(tops[False])


def judge_frame(
    frame: Frame, bad: Sequence[TensorReading], earlier: Sequence[Frame]
) -> tuple[TensorReading, str, str]:
    """The reading to name, the module that made it as far as one can tell, and the cause."""
    if frame.phase == "backward":
        if not bad[0].name.startswith("gradient of output"):
            return bad[0], frame.module, "finite came to its output, its own backward made it"
        for before in reversed(earlier):
            if before.phase == "backward" and before.readings[0].name.startswith(
                "gradient of output"
            ):
                cause = f"finite before, in {before.title}: made in its backward, or after it"
                return bad[0], before.module, cause
        return bad[0], frame.module, "the backward begins with it: look at the loss"
    weights = [r for r in bad if not r.name.startswith(("input", "output"))]
    inputs = [r for r in bad if r.name.startswith("input")]
    if weights:
        cause = "it was there before this forward: look at the last optimizer step, or what loaded"
        return weights[0], frame.module, cause
    if inputs:
        parent = frame.module.rpartition(".")[0] or "the model"
        last = earlier[-1] if earlier else None
        if last is None or (last.batch, last.phase) != (frame.batch, frame.phase):
            return inputs[0], "", "it came with the data"
        cause = f"no module made it: look in the forward of {parent}, after {last.title}"
        return inputs[0], parent, cause
    return bad[0], frame.module, "finite went in, this module made it"


def format_number(value: float | None) -> str:
    """Eight columns: `6.27e+04`, `inf`, `nan`."""
    return f"{value:8.2e}" if value is not None and math.isfinite(value) else f"{value or '':>8}"


def format_reading(reading: TensorReading) -> str:
    """One line: smallest, largest, what, and how near it is to the end of its data type."""
    if reading.abs_max is None:
        return f"{reading.words:>17} {reading.name}"
    near = ""
    if reading.largest and math.isfinite(reading.abs_max):
        share = reading.abs_max / reading.largest
        near = f", {share:.0%} of its largest" if share >= 0.1 else ""
    low = format_number(reading.abs_min)
    dtype = f" {reading.dtype}" if reading.dtype else ""
    return f"{low:>8} {format_number(reading.abs_max)} {reading.name}{dtype}{near}"


def format_frame(frame: Frame) -> str:
    """The module, and a line for each of its tensors."""
    mark = "" if frame.phase == "forward" else f" ({frame.phase})"
    name = frame.module or "(model)"
    lines = [f"{'':17} {name} {frame.kind}{mark}"]
    return "\n".join([*lines, *map(format_reading, frame.readings)])


def format_overflow(report: OverflowReport) -> str:
    """The headline, then the frames, oldest first."""
    count = len(report.frames)
    lines = [report.headline, f"the last {count} frames:", "abs min  abs max  what"]
    lines += [format_frame(frame) for frame in report.frames]
    near = find_large(report)
    if near:
        lines.append(near)
    if report.underflows:
        lines.append(f"outputs of zeros alone: {', '.join(report.underflows)}")
    return "\n".join(lines)


def find_large(report: OverflowReport) -> str:
    """Where the numbers were already near the end of their data type, in a sentence; or nothing."""
    for frame in report.frames[:-1]:
        for reading in frame.readings:
            if reading.state == "finite" and reading.largest and reading.abs_max is not None:
                share = reading.abs_max / reading.largest
                if share >= 0.1:
                    return (
                        f"already large before: {reading.name} of {frame.title}, "
                        f"{reading.abs_max:.2e}, {share:.0%} of {reading.dtype}'s largest"
                    )
    return ""


def measure_cost(model: Any, step: Callable[[], Any], repeats: int = 10) -> dict[str, float]:
    """Seconds of a step (median) without hooks, with low_overhead, and with all frames.

    `step` runs the model once, with whatever belongs to a step of training. The three take turns.
    """
    torch = import_torch()
    device = next((parameter.device for parameter in model.parameters()), torch.device("cpu"))
    seconds: dict[str, list[float]] = {"plain": [], "low_overhead": [], "all_frames": []}
    for number in range(repeats + 1):
        for way, samples in seconds.items():
            debug = None
            if way != "plain":
                debug = DebugUnderflowOverflow(model, low_overhead=way == "low_overhead")
            started = time.perf_counter()
            step()
            if debug is not None:
                debug.check()
            if device.type != "cpu":
                torch.accelerator.synchronize(device)
            if number:  # the first round warms up
                samples.append(time.perf_counter() - started)
            if debug is not None:
                debug.close()
    return {way: statistics.median(samples) for way, samples in seconds.items()}


# The demonstration: a small model with an overflow planted in it.


def is_out_of_memory(error: RuntimeError) -> bool:
    """The device, or the machine, has no memory for this shape."""
    text = str(error).lower()
    return type(error).__name__ == "OutOfMemoryError" or "allocate memory" in text


def build_demo_model(torch: Any, options: argparse.Namespace) -> Any:
    """A stack of blocks that return tensors, tuples, dicts or dataclasses."""
    from torch.utils.checkpoint import checkpoint

    nn = torch.nn
    width = options.width

    @dataclasses.dataclass
    class BlockOutput:
        hidden: Any
        extra: Any = None

    def pack(hidden: Any) -> Any:
        if options.outputs == "tuple":
            return hidden, (None, [hidden * 0.5])
        if options.outputs == "dict":
            return {"hidden": hidden, "extra": {"half": hidden * 0.5, "name": "block"}}
        if options.outputs == "dataclass":
            return BlockOutput(hidden, [hidden * 0.5])
        return hidden

    def unpack(output: Any) -> Any:
        if options.outputs == "tuple":
            return output[0]
        if options.outputs == "dict":
            return output["hidden"]
        return output.hidden if options.outputs == "dataclass" else output

    class Boost(torch.autograd.Function):  # type: ignore[misc]
        """As it is forward; in the backward beyond what any data type can hold."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            largest = torch.finfo(torch.float32).max
            return (grad.float() * largest * largest).to(grad.dtype)

    class Gate(nn.Module):  # type: ignore[misc,name-defined]
        is_planted = False

        def forward(self, x: Any) -> Any:
            return Boost.apply(x) if self.is_planted else x * 1

    class Mlp(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.Linear(width, 2 * width)
            self.act = nn.ReLU()
            self.gate = Gate()
            self.down = nn.Linear(2 * width, width)

        def forward(self, x: Any) -> Any:
            return self.down(self.gate(self.act(self.up(x))))

    class Block(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(width)
            self.mlp = Mlp()

        def forward(self, x: Any, *, scale: Any = None) -> Any:
            return pack(x + self.mlp(self.norm(x)) * (1 if scale is None else scale))

    class Model(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(64, width)
            self.blocks = nn.ModuleList(Block() for _ in range(options.layers))
            self.norm = nn.LayerNorm(width)
            self.head = nn.Linear(width, 64)

        def forward(self, tokens: Any) -> Any:
            x = self.embed(tokens)
            for block in self.blocks:
                if options.checkpoint == "off":
                    x = unpack(block(x, scale=torch.ones((), dtype=x.dtype, device=x.device)))
                else:
                    # The kind that recomputes by hand passes tensors and tuples only.
                    reentrant = options.checkpoint == "reentrant"
                    x = unpack(checkpoint(block, x, use_reentrant=reentrant))
            return pack(self.head(self.norm(x)))

    torch.manual_seed(0)
    model = Model()
    model.unpack = unpack
    return model


def plant_overflow(torch: Any, model: Any, options: argparse.Namespace) -> None:
    """Plant an overflow at a module: in its forward, or with --gradients in its backward.

    Raises WrongUse where there is no such module, or none can be planted in it.
    """
    modules = dict(model.named_modules())
    module = modules.get(options.plant)
    if module is None:
        raise WrongUse(f"--plant {options.plant}: there is no such module; try {list(modules)[-1]}")
    if options.gradients:
        if not hasattr(module, "is_planted"):
            raise WrongUse(
                f"--gradients: plant it at a gate, as blocks.{options.layers - 1}.mlp.gate"
            )
        module.is_planted = True
        return
    largest = torch.finfo(getattr(torch, options.dtype)).max
    with torch.no_grad():
        if isinstance(module, torch.nn.Linear):
            # Each output is one input times the largest number: any input above 1 overflows.
            module.weight.zero_()
            for number in range(module.out_features):
                module.weight[number, number % module.in_features] = largest
        elif isinstance(module, torch.nn.LayerNorm):
            module.weight.fill_(largest)
        else:
            kind = type(module).__name__
            raise WrongUse(f"--plant {options.plant}: plant it at a Linear or LayerNorm, no {kind}")


class OverflowDemo:
    """What the demonstration found."""

    def __init__(self) -> None:
        self.report: OverflowReport | None = None
        self.costs: dict[str, float] = {}
        self.caveats: list[str] = []
        self.problems: list[str] = []
        self.complete = False


def play_overflow(options: argparse.Namespace, stop: StopSign) -> OverflowDemo:
    """Build the model, plant the overflow, run a step, and see what is named."""
    torch = import_torch()
    place = read_rank(os.environ)
    found = OverflowDemo()
    device = choose_device(torch, options.device, place[2] if place else 0)
    if device.type == "cpu":
        torch.set_num_threads(1)  # products this small only wait for other threads
    dtype = getattr(torch, options.dtype)
    model = build_demo_model(torch, options).to(device=device, dtype=dtype)
    torch.manual_seed(1)
    tokens = torch.randint(0, 64, (4, 16), device=device)

    def step() -> None:
        output = model(tokens)
        for parameter in model.parameters():
            parameter.grad = None
        model.unpack(output).float().mean().backward()

    try:
        if not options.fsdp:
            stop.check()
            found.costs = measure_cost(model, step, options.repeats)
        stop.check()
        plant_overflow(torch, model, options)
        if options.fsdp:
            shard_model(torch, model, device)
        debug = DebugUnderflowOverflow(
            model,
            options.frames,
            check_gradients=options.gradients,
            low_overhead=options.low_overhead,
        )
        try:
            step()
            debug.check()
        except NonFiniteDetected as detected:
            found.report = detected.report
        debug.close()
        found.complete = True
    except Stopped as stopped:
        found.caveats.append(str(stopped))
    if found.complete:
        named = found.report.maker if found.report else "nothing"
        if named != options.plant:
            found.problems.append(f"planted at {options.plant}, and named was {named}")
    return found


def shard_model(torch: Any, model: Any, device: Any) -> None:
    """Shard each block and the model over all ranks, by FSDP2. Raises WrongUse without ranks."""
    from torch.distributed.fsdp import fully_shard

    place = read_rank(os.environ)
    if place is None:
        raise WrongUse("--fsdp needs ranks: start it with torchrun, or with --ranks 2")
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group(
            choose_backend(torch, device),
            rank=place[0],
            world_size=place[1],
            timeout=datetime.timedelta(seconds=STEP_TIMEOUT_SECONDS),
        )
    mesh = torch.distributed.init_device_mesh(device.type, (place[1],))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)


def make_lost_rows(options: argparse.Namespace) -> list[Row]:
    """For each format and loss scale, what is lost of the gradients of the small model."""
    torch = import_torch()
    device = choose_device(torch, options.device)
    if device.type == "cpu":
        torch.set_num_threads(1)
    model = build_demo_model(torch, options).to(device=device, dtype=torch.float32)
    torch.manual_seed(1)
    tokens = torch.randint(0, 64, (4, 16), device=device)
    model.unpack(model(tokens)).square().mean().backward()
    gradients = [p.grad for p in model.parameters() if p.grad is not None]
    rows: list[Row] = []
    for name in LOST_DTYPES:
        for power in LOST_POWERS:
            lost = count_lost(gradients, getattr(torch, name), 2.0**power)
            rows.append(
                {
                    "dtype": name,
                    "scale": 2.0**power,
                    "scale_power": power,
                    "values": lost.values,
                    "zero_share": lost.zero / lost.values,
                    "subnormal_share": lost.subnormal / lost.values,
                    "too_large_share": lost.too_large / lost.values,
                }
            )
    return rows


def show_lost(options: argparse.Namespace, arguments: list[str]) -> int:
    """Print what formats lose of the gradients of the small model; the exit status."""
    origin = time.monotonic()
    rows = make_lost_rows(options)
    headings = ["Format", "Loss scale", "Became zero, %", "Fewer digits, %", "Too large, %"]
    shares = ("zero_share", "subnormal_share", "too_large_share")
    lines = [
        [
            row["dtype"],
            f"2^{row['scale_power']}",
            *(f"{row[name] * 100:.1f}" for name in shares),
        ]
        for row in rows
    ]
    is_printed = print_to_stdout(format_table(headings, lines))
    write_note(f"of {rows[0]['values']} numbers that are not zero in float32")
    if options.json:
        command = make_portable_command(arguments)
        document = {
            **make_document_head("underflow_overflow", (__version__, METHOD), command, origin),
            "complete": True,
            "units": LOST_UNITS,
            "results": rows,
            "caveats": ["a small model: where its window of scales lies says nothing of yours"],
            "details": {"width": options.width, "layers": options.layers},
        }
        write_document(options.json, document)
    return 0 if is_printed else 1


def make_frame_rows(report: OverflowReport | None) -> list[Row]:
    """One row for each tensor of each frame; what is not finite has no number in JSON."""
    rows: list[Row] = []
    for number, frame in enumerate(report.frames if report else ()):
        for reading in frame.readings:
            numbers = {"abs_min": reading.abs_min, "abs_max": reading.abs_max}
            is_known = {k: v is not None and math.isfinite(v) for k, v in numbers.items()}
            rows.append(
                {
                    "frame": number,
                    "batch": frame.batch,
                    "phase": frame.phase,
                    "module": frame.module,
                    "class": frame.kind,
                    "tensor": reading.name,
                    "dtype": reading.dtype or None,
                    **{k: v if is_known[k] else None for k, v in numbers.items()},
                    "state": reading.state,
                }
            )
    return rows


def format_earned(value: float | None, uncertainty: float | None) -> str:
    """The value with the digits that its uncertainty leaves, one per thousand at best.

    The last digit shown stands where the first digit of the uncertainty stands. Where the
    uncertainty is as large as the value it leaves none: then one digit after a `~` says how
    large the value is, roughly. Where nobody knows the uncertainty, it is two digits after a `~`.
    """
    if value is None or not math.isfinite(value):
        return "-"
    if value == 0:
        return "0"
    size = abs(value)
    doubt = 0.1 * size if uncertainty is None else max(abs(uncertainty), size * 1e-3)
    is_rough = uncertainty is None or doubt >= size
    decimals = -math.floor(math.log10(min(doubt, size)))
    # Rounding first: 9.99 to one digit is 10, and then no digit after the point.
    rounded = round(value, decimals)
    return f"{'~' if is_rough else ''}{rounded:.{max(decimals, 0)}f}"


def format_time(seconds: float) -> str:
    """`12.0 µs`, `8.02 ms` or `2.3 s`: a time in a sentence, to about one percent."""
    factor, unit = next(
        ((f, u) for f, u in ((1.0, "s"), (1e-3, "ms")) if seconds >= 0.9995 * f), (1e-6, "µs")
    )
    return f"{format_earned(seconds / factor, 1e-2 * seconds / factor)} {unit}"


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


def format_rows_of_frames(rows: Sequence[Row]) -> str:
    """The frames as a table."""

    def show(row: Row, name: str) -> str:
        value = row[name]
        if value is not None:
            return f"{value:.2e}"
        return row["state"] if row["state"] in ("inf", "nan") and name == "abs_max" else "-"

    headings = ["Module", "Class", "Tensor", "Dtype", "Abs min", "Abs max"]
    lines = [
        [
            *(row["module"] or "(model)", row["class"], row["tensor"], row["dtype"] or "-"),
            *(show(row, "abs_min"), show(row, "abs_max")),
        ]
        for row in rows
    ]
    return format_table(headings, lines)


def describe_costs_of_hooks(costs: Mapping[str, float]) -> str:
    """What the hooks cost, in a sentence."""
    plain = costs["plain"]
    light, heavy = costs["low_overhead"], costs["all_frames"]
    return (
        f"a step takes {format_time(plain)}; with low_overhead {format_time(light)} "
        f"({light / plain:.3g}x), with all frames {format_time(heavy)} ({heavy / plain:.3g}x)"
    )


def choose_device(torch: Any, name: str | None, local_rank: int = 0) -> Any:
    """The torch.device asked for, or the accelerator of this rank, or the CPU.

    Raises WrongUse where this torch has no such device.
    """
    has_accelerator = hasattr(torch, "accelerator") and torch.accelerator.is_available()
    present = torch.accelerator.current_accelerator().type if has_accelerator else "cpu"
    try:
        device = torch.device(name or present)
    except RuntimeError as error:
        known = f"{present} or cpu" if has_accelerator else "cpu"
        raise WrongUse(f"--device {name}: no device of torch; here it is {known}") from error
    if device.type == "cpu":
        return device
    if device.type != present:
        here = present if has_accelerator else "no accelerator, only cpu"
        raise WrongUse(f"--device {name}: this torch sees {here}")
    count = torch.accelerator.device_count()
    index = device.index if device.index is not None else local_rank
    if index >= count:
        raise WrongUse(f"device {index} of {device.type} is not there: there are {count}, from 0")
    device = torch.device(device.type, index)
    set_device = getattr(torch.get_device_module(device.type), "set_device", None)
    if set_device:  # a kind that is only ever one device has none
        set_device(index)
    return device


def choose_backend(torch: Any, device: Any) -> str:
    """The backend of a process group on this kind of device: gloo for CPU, nccl for CUDA and ROCm.

    Raises WrongUse where this torch has none.
    """
    distributed = torch.distributed
    if not distributed.is_available():
        raise WrongUse("this torch was built without torch.distributed")
    known = getattr(distributed.Backend, "default_device_backend_map", {})
    backend = known.get(device.type) or {"cpu": "gloo", "cuda": "nccl"}.get(device.type)
    if backend is None:
        raise WrongUse(f"torch.distributed has no backend for {device.type}; use --device cpu")
    is_there = getattr(distributed, f"is_{backend}_available", None)
    if is_there is not None and not is_there():
        raise WrongUse(f"this torch was built without {backend}, the backend of {device.type}")
    return str(backend)


def import_torch() -> Any:
    """The torch module; raises WrongUse with what to do where there is none."""
    try:
        import torch
    except ImportError as error:
        raise WrongUse(
            f"torch does not import ({error}); install it: https://pytorch.org/get-started/locally"
        ) from error
    return torch


def find_free_port() -> int:
    """A TCP port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def read_rank(environ: Mapping[str, str]) -> tuple[int, int, int] | None:
    """Rank, world size and local rank from torchrun, Slurm or Open MPI; None without a launcher."""
    for names in (
        ("RANK", "WORLD_SIZE", "LOCAL_RANK"),
        ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ):
        # A shell inside an allocation has SLURM_PROCID too: it is a rank only beside an address.
        if all(environ.get(name, "").isdigit() for name in names) and "MASTER_ADDR" in environ:
            rank, size, local = (int(environ[name]) for name in names)
            return rank, size, local
    return None


def launch_ranks(count: int, arguments: Sequence[str]) -> int:
    """Run this file once for each rank on this machine, and return the exit status of the job.

    The first rank that fails ends the others, and is named. A signal goes to all of them.
    """
    port = find_free_port()
    ranks: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, _frame: Any) -> None:
        for process in ranks:
            if process.poll() is None:
                process.send_signal(number)

    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), pass_on)
    for rank in range(count):
        environ = {
            **os.environ,
            "RANK": str(rank),
            "WORLD_SIZE": str(count),
            "LOCAL_RANK": str(rank),
            "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        environ.setdefault("OMP_NUM_THREADS", "1")
        # A group of its own: Ctrl-C at the terminal reaches a rank once, through pass_on.
        process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve()), *arguments],
            env=environ,
            start_new_session=True,
        )
        ranks.append(process)
    failed: tuple[int, int] | None = None
    deadline: float | None = None
    while any(process.poll() is None for process in ranks):
        for rank, process in enumerate(ranks):
            if process.poll() and failed is None:
                failed = (rank, process.returncode)
                deadline = time.monotonic() + 5.0
        if deadline is not None and time.monotonic() > deadline:
            for process in ranks:
                if process.poll() is None:
                    process.kill()
        time.sleep(0.02)
    statuses = [process.returncode for process in ranks]
    if failed is None:
        failed = next(((rank, status) for rank, status in enumerate(statuses) if status), None)
    if failed is None:
        return 0
    rank, status = failed
    if status < 0:
        print(f"rank {rank} was ended by {signal.Signals(-status).name}", file=sys.stderr)
        return 1
    if status not in (1, 2):
        print(f"rank {rank} ended with status {status}", file=sys.stderr)
        return 1
    return status


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


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def show_overflow(options: argparse.Namespace, arguments: list[str], stop: StopSign) -> int:
    """Play the demonstration and report it; the exit status."""
    origin = time.monotonic()
    place = read_rank(os.environ)
    if options.fsdp and place is None:
        return launch_ranks(options.ranks or 2, arguments)
    found = play_overflow(options, stop)
    torch = import_torch()
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    is_good = found.complete and not found.problems
    if place is not None and place[0] != 0:
        for text in found.problems:
            print(f"problem: rank {place[0]}: {text}", file=sys.stderr)
        return 0 if is_good else 1
    rows = make_frame_rows(found.report)
    is_printed = not rows or print_to_stdout(format_rows_of_frames(rows))
    if found.costs:
        print(describe_costs_of_hooks(found.costs), file=sys.stderr)
    for text in found.caveats:
        write_note(text)
    for text in found.problems:
        print(f"problem: {text}", file=sys.stderr)
    if options.json:
        report = found.report
        command = make_portable_command(arguments)
        head = make_document_head("underflow_overflow", (__version__, METHOD), command, origin)
        names = ("plant", "dtype", "outputs", "checkpoint", "fsdp", "low_overhead", "gradients")
        details = {
            "settings": {name: getattr(options, name) for name in names},
            "headline": report.headline if report else None,
            "found_in": report.module if report else None,
            "made_by": report.maker if report else None,
            "underflows": list(report.underflows) if report else [],
            "cost_seconds": found.costs,
            "torch": torch.__version__,
            "python": platform.python_version(),
        }
        document = {
            **head,
            "complete": found.complete,
            "units": UNITS if rows else {},
            "results": rows,
            "caveats": found.caveats + found.problems,
            "details": details,
        }
        write_document(options.json, document)
    return 0 if is_good and is_printed else 1


SELF_TEST_CASES = (
    (),
    ("--dtype", "bfloat16", "--outputs", "dict"),
    ("--outputs", "dataclass", "--checkpoint", "on"),
    ("--outputs", "tuple", "--low_overhead", "--plant", "blocks.0.norm"),
    ("--gradients", "--plant", "blocks.1.mlp.gate", "--checkpoint", "on"),
    ("--dtype", "bfloat16", "--plant", "head"),
)


def run_self_test() -> int:
    """Check planted overflows of all kinds; 0, or 1 where a check fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    torch = import_torch()
    values = {"a": torch.tensor([1.0, -3.0]), "b": [torch.tensor([0.5, math.inf])]}
    first, second = read_tensors(torch, list_tensors(torch, values, "x"))
    check("|1|, |-3| are 1 to 3", (first.abs_min, first.abs_max, first.state) == (1, 3, "finite"))
    check("x[b][0] has inf", (second.name, second.state) == ("x[b][0]", "inf"))
    small = torch.tensor([448.0, 2.0]).to(torch.float8_e4m3fn)
    check("float8 is read", read_tensors(torch, [("x", small)])[0].abs_max == 448.0)
    parser = build_parser()
    for case in SELF_TEST_CASES:
        arguments = [*PROFILES["toy"], "--repeats", "1", *case]
        with contextlib.redirect_stderr(io.StringIO()):
            found = play_overflow(parser.parse_args(arguments), StopSign())
        name = " ".join(case) or "float16"
        check(f"{name}: the module is named", found.complete and not found.problems)
        frames = [frame.module for frame in found.report.frames] if found.report else []
        check(f"{name}: frames are before it", len(frames) > 1)
    with tempfile.TemporaryDirectory(prefix="overflow_") as folder:
        path = Path(folder) / "out.json"
        environ = {k: v for k, v in os.environ.items() if k not in ("RANK", "SLURM_PROCID")}
        done = subprocess.run(
            [
                *(sys.executable, str(Path(__file__).resolve()), *PROFILES["toy"]),
                *("--fsdp", "--json", str(path)),
            ],
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
            env=environ,
        )
        document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    if done.returncode:
        print(done.stderr, file=sys.stderr)
    tiny = torch.tensor([0.0, 1.0, 2.0**-20, 2.0**-30, 70000.0])
    lost = count_lost([tiny], torch.float16)
    check("float16: of four one is zero, one subnormal, one too large", lost == (4, 1, 1, 1))
    saved = count_lost([tiny[:4]], torch.float16, 2.0**15)
    check("float16, scaled by 2**15: 2**-30 is there", saved == (3, 0, 1, 0))
    rows = make_lost_rows(parser.parse_args(PROFILES["lost"]))
    safe = {row["dtype"] for row in rows if row["zero_share"] == row["too_large_share"] == 0}
    check("bfloat16 loses nothing at some scale", "bfloat16" in safe)
    made_by = document.get("details", {}).get("made_by")
    check("FSDP on two ranks: the module is named", made_by == "blocks.1.mlp.down")
    check("by both ranks", done.stderr.count("inf in output of blocks.1.mlp.down") == 2)
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="underflow_overflow.py",
        description="Find the first inf or nan of a model: a library, shown here by a planted one.",
        epilog="The docstring at the top of this file tells how to use it in a training script.",
        allow_abbrev=False,
    )
    parser.add_argument("--demo", action="store_true", help="play an overflow planted in a model")
    parser.add_argument(
        "--lost", action="store_true", help="with --demo: count what formats lose of gradients"
    )
    what = parser.add_argument_group("the model of the demonstration")
    what.add_argument("--dtype", choices=DTYPES, default="float16", help="(default: float16)")
    what.add_argument(
        "--plant", default="blocks.1.mlp.down", metavar="MODULE", help="where the overflow is"
    )
    what.add_argument("--outputs", choices=OUTPUTS, default="tensor", help="what its blocks return")
    what.add_argument(
        "--checkpoint",
        choices=("off", "on", "reentrant"),
        default="off",
        help="recompute activations of blocks in the backward",
    )
    what.add_argument("--width", type=parse_count, default=32, metavar="N", help="(default: 32)")
    what.add_argument("--layers", type=parse_count, default=2, metavar="N", help="(default: 2)")
    what.add_argument("--fsdp", action="store_true", help="shard it over ranks")
    what.add_argument(
        "--ranks",
        type=parse_count,
        metavar="N",
        help="with --fsdp, without a launcher (default: 2)",
    )
    what.add_argument("--device", metavar="KIND", help="cuda, xpu, cpu (default: what is there)")
    how = parser.add_argument_group("the detector")
    how.add_argument("--low_overhead", action="store_true", help="one number for each module")
    how.add_argument("--gradients", action="store_true", help="plant and find it in the backward")
    how.add_argument(
        "--frames", type=parse_count, default=21, metavar="N", help="to keep (default: 21)"
    )
    how.add_argument(
        "--repeats", type=parse_count, default=10, metavar="N", help="to time it (default: 10)"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the frames as JSON")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"underflow_overflow {__version__} (method {METHOD})"
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse where options do not go together."""
    check_json_path(options.json)
    if not options.demo:
        raise WrongUse("this is a library (its docstring shows how to use it); see it with --demo")
    if options.width > MOST_WIDTH:
        raise WrongUse(f"--width: at most {MOST_WIDTH}; more is no demonstration")
    if options.layers > MOST_LAYERS:
        raise WrongUse(f"--layers: at most {MOST_LAYERS}; more is no demonstration")
    if options.lost and (options.fsdp or options.low_overhead or options.gradients):
        raise WrongUse("--lost counts, and detects nothing: leave out the options of the detector")
    if options.low_overhead and options.gradients:
        raise WrongUse("--low_overhead looks at outputs alone: leave out --gradients")
    if options.ranks and not options.fsdp:
        raise WrongUse("--ranks belongs to --fsdp")
    if options.gradients and options.plant == "blocks.1.mlp.down":
        options.plant = "blocks.1.mlp.gate"
    if options.checkpoint == "reentrant" and options.outputs in ("dict", "dataclass"):
        raise WrongUse("--checkpoint reentrant passes tensors and tuples only")


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
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
        if options.lost:
            return show_lost(options, arguments)
        stop.listen()
        return show_overflow(options, arguments, stop)
    except WrongUse as error:
        parser.error(str(error))
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        sizes = f"--width {options.width} and --layers {options.layers}"
        parser.error(f"{sizes} take more memory than there is: make one of them smaller")
    except KeyboardInterrupt:  # in a self-test: a demonstration listens for signals itself
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
