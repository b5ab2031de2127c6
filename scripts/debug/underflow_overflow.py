#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
"""Which module produces the first inf or nan, and what did the numbers do before it?

    from underflow_overflow import DebugUnderflowOverflow, count_lost, detect_overflow

    debug = DebugUnderflowOverflow(model)                   # then train as always
    DebugUnderflowOverflow(model, max_frames_to_save=100)   # more frames (default 21)
    DebugUnderflowOverflow(model, trace_batch_nums=[1, 3])  # print all frames of these batches
    DebugUnderflowOverflow(model, abort_after_batch_num=3)  # stop when batch 4 begins
    DebugUnderflowOverflow(model, low_overhead=True)        # for long runs, see below
    DebugUnderflowOverflow(model, check_gradients=True)     # the backward too
    DebugUnderflowOverflow(model, ignore=["attention_mask"])
    DebugUnderflowOverflow(model, stop=False)               # report the first one and go on
    detect_overflow(tensor, "after the norm")               # one tensor, anywhere
    count_lost(gradients, torch.float16, scale=2.0**16)     # what a format loses of them

The detector reads the smallest and largest absolute value of each module's own weights, arguments
and return value after its forward: in lists, tuples, dicts and dataclasses, float8 as float32, of
a DTensor this rank's shard. A batch is one forward of the model, counted from 0. At the first inf
or nan the run stops with the last frames, oldest first. The message says where the number comes
from: a weight that was already bad, this module, code between two modules, the data, or with
`check_gradients` the backward, where an fp16 loss scaler makes an inf now and then normal.

`low_overhead=True` reads one number per module, when the next batch begins or in debug.check(). It
names the first bad module, without its inputs and weights. All frames wait for the device at every
tensor; `--demo` times both.

Wrap the model first (DDP, FSDP, activation checkpointing), then attach. torch.compile breaks its
graphs at hooks: find the fault in eager mode.

## How to run

    python underflow_overflow.py --demo           # plant an overflow in a small model, and find it
    python underflow_overflow.py --demo --lost    # what formats lose of gradients, by loss scale

A good answer: the module with the planted overflow is named. Exit status: 0 it is,
1 it is not, 2 usage error.
"""

import argparse
import collections
import contextlib
import dataclasses
import datetime
import functools
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.2.0"

PROFILES = {
    "demo": ["--demo", "--device", "cpu"],
    "full": ["--demo"],
    "lost": ["--demo", "--lost", "--device", "cpu"],
}
WRAPPERS = {"module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module", "_orig_mod"}
PLANT = "blocks.1.mlp.down"


class Reading(NamedTuple):
    """One tensor: its largest absolute value (0 if it cannot be read), and a line about it."""

    name: str
    abs_max: float
    line: str

    @property
    def is_bad(self) -> bool:
        """Whether it has an inf or a nan."""
        return not math.isfinite(self.abs_max)


class Frame(NamedTuple):
    """A module's `forward`, or a gradient of the `backward`."""

    batch: int
    phase: str
    module: str
    kind: str
    readings: tuple[Reading, ...]

    @property
    def title(self) -> str:
        """`blocks.1.mlp (Mlp)`."""
        return f"{self.module or 'the model'} ({self.kind})"

    def format(self) -> str:
        """The module, and a line per tensor."""
        mark = "" if self.phase == "forward" else " (backward)"
        head = f"{'':17} {self.module or '(model)'} {self.kind}{mark}"
        return "\n".join([head, *(reading.line for reading in self.readings)])


class NonFiniteDetected(ValueError):
    """The first bad number, the frames up to it, and the module that probably produced it."""

    def __init__(self, words: str, frames: Iterable[Frame], reading: Reading, maker: str) -> None:
        super().__init__(words)
        self.frames, self.reading, self.maker = tuple(frames), reading, maker


class BatchLimitReached(ValueError):
    """The batch of abort_after_batch_num is over."""


def list_tensors(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Every tensor in a value with its place, such as `output[logits]` or `output.hidden[0]`."""
    import torch

    parts: Iterable[tuple[str, Any]] = ()
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, Mapping):
        parts = ((f"[{key}]", part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        parts = ((f"[{number}]", part) for number, part in enumerate(value))
    elif dataclasses.is_dataclass(value):
        parts = ((f".{key}", part) for key, part in vars(value).items())
    for place, part in parts:
        yield from list_tensors(part, name + place)


def get_values(tensor: Any) -> Any:
    """The tensor as something that can be reduced: this rank's shard, no float8."""
    values = tensor.detach()
    if hasattr(values, "to_local"):  # a DTensor: no rank may wait for others here
        values = values.to_local()
    return values.float() if values.dtype.itemsize == 1 else values


def read_tensor(name: str, tensor: Any) -> Reading:
    """The smallest and largest absolute value, waiting for the device."""
    import torch

    try:
        low, high = (float(value) for value in torch.aminmax(get_values(tensor).abs()))
    except (RuntimeError, TypeError):  # empty, on the meta device, or a type of 4 bits
        return Reading(name, 0.0, f"{'cannot be read':>17} {name}")
    kind = str(tensor.dtype).removeprefix("torch.")
    return Reading(name, high, f"{low:.2e} {high:8.2e} {name} {kind}")


def detect_overflow(tensor: Any, name: str) -> bool:
    """True if the tensor, or one in a list or dict, has an inf or a nan, which is then printed."""
    bad = [r for r in (read_tensor(*found) for found in list_tensors(tensor, name)) if r.is_bad]
    for reading in bad:
        print(f"{reading.name} has {reading.abs_max}", file=sys.stderr)
    return bool(bad)


class Lost(NamedTuple):
    """What became of numbers that are finite and not zero, after rounding to a format."""

    values: int
    zero: int
    subnormal: int
    too_large: int


def count_lost(tensors: Iterable[Any], dtype: Any, scale: float = 1.0) -> Lost:
    """Count what `dtype` loses of the tensors, each number multiplied by `scale` first."""
    import torch

    limits = torch.finfo(dtype)
    total = [0, 0, 0, 0]
    for tensor in tensors:
        wide = tensor.detach().to(torch.float32)
        scaled = (wide[(wide != 0) & wide.isfinite()] * scale).abs()
        rounded = scaled.to(dtype).to(torch.float32)
        subnormal = (rounded > 0) & (rounded < limits.smallest_normal)
        counts = (scaled == scaled, rounded == 0, subnormal, scaled > limits.max)
        total = [a + int(b.sum()) for a, b in zip(total, counts, strict=True)]
    return Lost(*total)


class DebugUnderflowOverflow:
    """Finds the first inf or nan of a model, and shows the frames before it.

    Raises NonFiniteDetected where it appears unless `stop` is False (`report` has it then), and
    BatchLimitReached when the batch after `abort_after_batch_num` begins.
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
    ) -> None:
        self.traced = frozenset(trace_batch_nums)
        if low_overhead and (self.traced or check_gradients):
            raise ValueError("low_overhead looks at outputs only: no traces and no gradients")
        self.abort_after, self.checks_gradients = abort_after_batch_num, check_gradients
        self.is_light, self.stops, self.ignored = low_overhead, stop, tuple(ignore)
        rank = os.environ.get("RANK", os.environ.get("SLURM_PROCID"))
        self.prefix = "" if rank is None else f"[rank {rank}] "
        self.batch_number = -1
        self.report: NonFiniteDetected | None = None
        self.frames: collections.deque[Frame] = collections.deque(maxlen=max_frames_to_save)
        self.peaks: dict[int, Any] = {}
        """Of low_overhead: a number on the device per module, in the order of the forward."""

        self.names: list[tuple[str, str]] = []
        self.handles = [model.register_forward_pre_hook(self._begin_batch, prepend=True)]
        for number, (path, module) in enumerate(model.named_modules()):
            name = ".".join(part for part in path.split(".") if part not in WRAPPERS)
            self.names.append((name, type(module).__name__))
            hook = functools.partial(self._after_forward, number)
            # Before all other hooks: those of FSDP take the weights away.
            handle = module.register_forward_hook(hook, prepend=True, with_kwargs=True)
            self.handles.append(handle)
            for own, weight in module.named_parameters(recurse=False) if check_gradients else ():
                if weight.requires_grad:
                    hook = functools.partial(self._after_backward, number, own)
                    handle = weight.register_post_accumulate_grad_hook(lambda w, h=hook: h(w.grad))
                    self.handles.append(handle)

    def close(self) -> None:
        """Remove all hooks."""
        for handle in self.handles:
            handle.remove()

    def _begin_batch(self, _module: Any, _arguments: Any) -> None:
        self.check()
        if self.abort_after is not None and self.batch_number >= self.abort_after:
            raise BatchLimitReached(f"batch {self.batch_number} is over: abort_after_batch_num")
        self.batch_number += 1
        if self.batch_number in self.traced:
            self._print(f"*** batch {self.batch_number} ***\nabs min  abs max  what")

    def _after_forward(
        self, number: int, module: Any, arguments: Any, named: Any, output: Any
    ) -> None:
        if self.is_light:
            self._note_peak(number, output)
            return
        outputs = list(list_tensors(output, "output"))
        inputs = [*list_tensors(arguments, "input"), *list_tensors(named, "input")]
        self._take("forward", number, [*module.named_parameters(recurse=False), *inputs, *outputs])
        for name, tensor in outputs if self.checks_gradients else ():
            if tensor.requires_grad:
                tensor.register_hook(functools.partial(self._after_backward, number, name))

    def _after_backward(self, number: int, name: str, gradient: Any) -> None:
        self._take("backward", number, [(f"gradient of {name}", gradient)])

    def _take(self, phase: str, number: int, tensors: Iterable[tuple[str, Any]]) -> None:
        """Keep a frame; print it if its batch is traced, and judge it if none is."""
        if self.traced and self.batch_number not in self.traced:
            return
        readings = tuple(read_tensor(*found) for found in tensors)
        frame = Frame(self.batch_number, phase, *self.names[number], readings)
        self.frames.append(frame)
        if self.traced:
            self._print(frame.format())
            return
        bad = [r for r in readings if r.is_bad and not self._is_ignored(r.name)]
        if bad and self.report is None:
            self._raise(*judge_frame(frame, bad, list(self.frames)[:-1]))

    def _is_ignored(self, name: str) -> bool:
        return any(name == n or name.endswith((f"[{n}]", f".{n}")) for n in self.ignored)

    def _raise(self, reading: Reading, maker: str, cause: str) -> None:
        last = self.frames[-1]
        what = f"{reading.abs_max} in {reading.name} of {last.title}"
        headline = f"{what}, {last.phase} of batch {last.batch}: {cause}"
        lines = [headline, f"the last {len(self.frames)} frames:", "abs min  abs max  what"]
        self._print("\n".join([*lines, *(frame.format() for frame in self.frames)]))
        self.report = NonFiniteDetected(self.prefix + headline, self.frames, reading, maker)
        if self.stops:
            raise self.report

    def _print(self, text: str) -> None:
        sys.stderr.write("".join(f"{self.prefix}{line}\n" for line in text.splitlines()))
        sys.stderr.flush()

    def _note_peak(self, number: int, output: Any) -> None:
        """Have the device remember the largest value of the outputs; nothing waits for it."""
        import torch

        with torch.inference_mode(False), torch.no_grad(), contextlib.suppress(RuntimeError):
            for name, tensor in list_tensors(output, "output"):
                if self._is_ignored(name) or not tensor.dtype.is_floating_point:
                    continue
                # Both let nan pass.
                peak = torch.linalg.vector_norm(get_values(tensor), math.inf, dtype=torch.float32)
                self.peaks[number] = torch.maximum(peak, self.peaks.get(number, peak))

    def check(self) -> NonFiniteDetected | None:
        """With low_overhead: read what the device remembers of this batch, waiting for it.

        Raises NonFiniteDetected for the first bad module unless `stop` is False.
        """
        peaks, self.peaks = self.peaks, {}
        if peaks:
            self.frames.clear()
        for number, peak in peaks.items():
            value = float(peak)
            reading = Reading("output", value, f"{value:17.2e} output")
            frame = Frame(self.batch_number, "forward", *self.names[number], (reading,))
            self.frames.append(frame)
            if reading.is_bad and self.report is None:
                cause = "the first of this forward; without low_overhead you see its inputs"
                self._raise(reading, frame.module, cause)
                break
        return self.report


def judge_frame(frame: Frame, bad: list[Reading], earlier: list[Frame]) -> tuple[Reading, str, str]:
    """The reading to name, the module that probably produced it, and the cause."""
    weights = [r for r in bad if not r.name.startswith(("input", "output", "gradient"))]
    inputs = [r for r in bad if r.name.startswith("input")]
    if weights:
        cause = "it was bad before this forward: look at the last optimizer step or the checkpoint"
        return weights[0], frame.module, cause
    if bad[0].name.startswith("gradient of output"):
        gradients = [f for f in earlier if (f.batch, f.phase) == (frame.batch, "backward")]
        if not gradients:
            return bad[0], frame.module, "the backward begins with it: look at the loss"
        before = gradients[-1]
        cause = f"still finite at {before.title}: produced in its backward, or after it"
        return bad[0], before.module, cause
    if frame.phase == "backward":
        return bad[0], frame.module, "its gradient was finite, its own backward produced this"
    if not inputs:
        return bad[0], frame.module, "finite numbers went in, this module produced it"
    if not earlier or earlier[-1][:2] != frame[:2]:
        return inputs[0], "", "it came with the data"
    parent = frame.module.rpartition(".")[0] or "the model"
    cause = f"no module produced it: look in the forward of {parent}, after {earlier[-1].title}"
    return inputs[0], parent, cause


def build_model() -> Any:
    """A model of two residual blocks, with the same weights each time."""
    import torch
    from torch import nn

    width = 32

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(width)
            up, down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
            self.mlp = nn.Sequential(collections.OrderedDict(up=up, act=nn.ReLU(), down=down))

        def forward(self, x: Any) -> Any:
            return x + self.mlp(self.norm(x))

    torch.manual_seed(0)
    blocks = nn.Sequential(Block(), Block())
    embed, norm, head = nn.Embedding(64, width), nn.LayerNorm(width), nn.Linear(width, 64)
    parts = collections.OrderedDict(embed=embed, blocks=blocks, norm=norm, head=head)
    return nn.Sequential(parts)


def time_step(step: Callable[[], Any]) -> float:
    """The median time of a step after the first."""
    seconds = []
    for _ in range(6):
        began = time.perf_counter()
        float(step())
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[1:])


def run_demo(model: Any, tokens: Any) -> tuple[list[Any], str]:
    """Rows of the frames before a planted overflow, and what is wrong with the answer."""
    import torch

    model.half()

    def step() -> Any:
        model.zero_grad()
        loss = model(tokens).float().mean()
        loss.backward()
        return loss.detach()

    plain = time_step(step)
    print(f"note: a step takes {plain * 1e3:.2g} ms", file=sys.stderr)
    for is_light, name in ((True, "low_overhead"), (False, "all frames")):
        debug = DebugUnderflowOverflow(model, low_overhead=is_light)
        print(f"note: with {name} {time_step(step) / plain:.2g} times as long", file=sys.stderr)
        debug.close()
    # The largest finite weight, whose products are not finite.
    model.get_submodule(PLANT).weight.data.fill_(torch.finfo(torch.float16).max)
    debug = DebugUnderflowOverflow(model, stop=False)
    with contextlib.redirect_stderr(sys.stdout):
        step()
    if debug.report is None or debug.report.maker != PLANT:
        return [], f"the overflow of {PLANT} was not found"
    rows = [
        {"frame": number, "module": frame.module, "class": frame.kind, "phase": frame.phase,
         "is_bad": any(reading.is_bad for reading in frame.readings)}
        for number, frame in enumerate(debug.report.frames)
    ]  # fmt: skip
    return rows, ""


def run_lost(model: Any, tokens: Any) -> list[Any]:
    """Rows of what formats lose of the model's gradients, by loss scale."""
    import torch

    model(tokens).square().mean().backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    rows = []
    print("| dtype | scale | zero | subnormal | too large |\n| :-- | --: | --: | --: | --: |")
    for dtype in ("bfloat16", "float16", "float8_e5m2", "float8_e4m3fn"):
        for power in range(-20, 41, 2):
            values, *lost = count_lost(gradients, getattr(torch, dtype), 2.0**power)
            zero, subnormal, too_large = (count / values for count in lost)
            print(f"| {dtype} | 2**{power} | {zero:.2%} | {subnormal:.2%} | {too_large:.2%} |")
            rows.append(
                {"dtype": dtype, "scale": 2.0**power, "scale_power": power, "values": values,
                 "zero_share": zero, "subnormal_share": subnormal, "too_large_share": too_large}
            )  # fmt: skip
    return rows


def build_parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "underflow_overflow.py", description=__doc__, formatter_class=raw
    )
    add = parser.add_argument
    # fmt: off
    add("--demo", action="store_true", required=True,
        help="plant an overflow in a small model, and find it")
    add("--lost", action="store_true", help="count what formats lose of the model's gradients")
    add("--device", help="cuda, xpu, cpu (default: the accelerator, else the CPU)")
    add("--json", type=Path, metavar="PATH", help="write the results as JSON")
    add("--version", action="version", version=f"underflow_overflow {__version__}")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    began = time.time()
    parser = build_parser()
    options = parser.parse_args(arguments)
    if options.json and not options.json.absolute().parent.is_dir():
        parser.error(f"--json: there is no folder {options.json.parent}")
    import torch

    kind = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else "cpu"
    device = torch.device(options.device or kind)
    model = build_model().to(device)
    tokens = torch.randint(0, 64, (4, 16), generator=torch.Generator().manual_seed(1)).to(device)
    rows, problem = (run_lost(model, tokens), "") if options.lost else run_demo(model, tokens)
    if problem:
        print(f"problem: {problem}", file=sys.stderr)
    if options.json:
        command = ["python", "underflow_overflow.py", *(arguments or sys.argv[1:])]
        document = {
            "tool": "underflow_overflow", "version": __version__, "method": 1, "command": command,
            "started": datetime.datetime.fromtimestamp(began, datetime.UTC).strftime("%FT%TZ"),
            "seconds": round(time.time() - began, 3), "complete": True,
            "units": {k: "1" for row in rows for k, v in row.items() if type(v) in (int, float)},
            "results": rows, "caveats": [problem] if problem else [],
        }  # fmt: skip
        options.json.write_text(json.dumps(document, indent=1, allow_nan=False) + "\n")
    return int(bool(problem))


if __name__ == "__main__":
    sys.exit(main())
