#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Which width near 8/3 of the hidden size makes a SwiGLU MLP fastest on this accelerator?

A SwiGLU MLP has three matrices where a plain one has two. To keep the number of parameters its
inner width d_ff is taken as 8/3 of the hidden size instead of 4 times it, and 8/3 of a round
number is not round: 10922 for 4096. Matrix units work on tiles, and a width that fits them badly
can cost a third of the speed. This tool measures the widths nearby and names better ones.

Physics
    out = (silu(x @ G) * (x @ U)) @ D   with x of tokens x h, G and U of h x d_ff, D of d_ff x h.
    parameters = 3 * h * d_ff.   Forward: 2 * 3 * tokens * h * d_ff operations, matrix products
    only; forward and backward: three times as many. Hand check: h = 4096, d_ff = 10922 and 1 token
    have 134209536 parameters and take 268419072 operations forward.
    With tensor parallelism each of tp ranks holds d_ff / tp columns: that has to be whole, and it
    is that width, not d_ff, which has to be aligned. One rank's share is measured, on one device.

Why widths differ
    8           16-bit rows of 16 bytes: below that the fast loads of the matrix units do not work
    64          rows of 128 bytes, one memory transaction or cache line of an accelerator
    128, 256    whole tiles of the usual kernels, so that no tile is computed for nothing
    waves       a device with 132 units computes 132 tiles at a time; a last wave with one tile
                takes as long as a full one. No multiple protects from that: only measuring does
    The table of alignments at the end says what the multiples were worth here.

What is timed
    The three products and the activation of one rank, forward, or with --mode fwd_bwd forward and
    backward including the gradients of weights and input: between two device events, or with the
    host's clock on a CPU. Widths are visited in several rounds, each in another order, so that
    slow heating falls on all alike.
What is not timed
    Allocation, random numbers, warm-up, the check of the answer (each width against float64), and
    the communication of tensor parallelism. Caches are as one call leaves them to the next.

How to run
    one GPU       python swiglu_search.py --hidden 4096
    with tp       python swiglu_search.py --hidden 8192 --tp 8 --window 512 --json swiglu.json
    coarser       python swiglu_search.py --hidden 4096 --step 64 --window 512
    Slurm         srun --gpus=1 python swiglu_search.py --hidden 4096 --json swiglu.json
    pdsh          pdsh -w node[01-08] 'python /shared/swiglu_search.py --hidden 4096 \
                      --json /shared/$(hostname).json'

A good answer: the best few widths are multiples of 64 or more, lie within a percent of each
other, and stay the best when the run is repeated. Then choose by the number of parameters. Run it
with the number of tokens that one rank really has, on the hardware that will train the model.

Exit status: 0 done, 1 a wrong answer, a rate above --peak, or stopped by a signal, 2 wrong use.
Seen running so far: on a CPU. The code for accelerators follows PyTorch's documentation.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import json
import math
import os
import platform
import random
import re
import signal
import statistics
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
        "--device", "cpu", "--hidden", "192", "--batch_tokens", "64", "--window", "32",
        "--step", "16", "--dtype", "float32", "--num_iterations", "8",
    ],
    "full": ["--hidden", "4096", "--window", "256"],
}
# fmt: on

# Which results stand beside which, by which column, and what else has to be equal for that.
COMPARE = {
    "keys": ["dtype", "mode", "hidden", "tp", "batch_tokens", "d_ff"],
    "value": "flops_per_second_median",
    "better": "higher",
    "spread": "spread",
    "trusted": {"verdict": ["ok", "unsteady"]},
    "alike": [
        "details.header.device_kind",
        "details.header.device_model",
        "details.header.threads",
    ],
}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "hidden": "1",
    "tp": "1",
    "batch_tokens": "1",
    "d_ff": "1",
    "d_ff_per_rank": "1",
    "alignment": "1",
    "parameters": "1",
    "operations": "FLOP",
    "samples": "1",
    "seconds_median": "s",
    "seconds_mean": "s",
    "seconds_iqr": "s",
    "seconds_min": "s",
    "seconds_max": "s",
    "flops_per_second_median": "FLOP/s",
    "flops_per_second_max": "FLOP/s",
    "relative": "1",
    "spread": "1",
    "drift": "1",
    "answer_error": "1",
}

DTYPES = ("bfloat16", "float16", "float32")
# Largest relative error (Frobenius norm) of the checked rows against float64: rounding of the
# weights' products to the data type, three times in a row, and sums in reduced precision.
ERROR_LIMITS = {"bfloat16": 2e-2, "float16": 1e-2, "float32": 1e-3}
CHECKED_TOKENS = 2
ALIGNMENTS = (256, 128, 64, 32, 16, 8)
QUARTILE_SAMPLES = 4
JSON_EVERY_SECONDS = 5.0
# Tokens, samples of each round, untimed calls before them.
DEFAULTS = {"accelerator": (16384, 20, 10), "cpu": (256, 10, 3)}

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


class SwigluSettings(NamedTuple):
    """What decides the numbers of a run, apart from the widths."""

    hidden: int
    tp: int
    batch_tokens: int
    dtype: str
    mode: str
    iterations: int
    warmup_iterations: int
    rounds: int
    peak_flops_per_second: float | None


class Progressing(NamedTuple):
    """Where a run shows how far it is, and where it keeps what it has."""

    progress: Progress
    path: Path | None
    command: list[str]
    origin: float


class Progress:
    """A line on the terminal that is rewritten, or now and then a line in a log."""

    def __init__(self, total: int, noun: str, is_quiet: bool = False) -> None:
        self.total = total
        self.noun = noun
        self.is_quiet = is_quiet
        self.on_terminal = sys.stderr.isatty()
        self.shown = time.monotonic()

    def show(self, done: int, text: str) -> None:
        """Tell how far the run is."""
        if self.is_quiet:
            return
        line = f"{done}/{self.total} {self.noun}, {text}"
        if self.on_terminal:
            print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
        elif time.monotonic() - self.shown > 30:
            print(line, file=sys.stderr, flush=True)
            self.shown = time.monotonic()

    def close(self) -> None:
        """Leave the terminal on an empty line."""
        if self.on_terminal and not self.is_quiet:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def parse_count_or_none(text: str) -> int:
    """A number of things to do that may be none: a whole number from 0."""
    if not re.fullmatch(r"0|[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 0")
    return int(text)


def parse_positive(text: str) -> float:
    """A finite number above 0."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a number above 0")
    return value


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


def is_out_of_memory(error: RuntimeError) -> bool:
    """The device, or the machine, has no memory for this shape."""
    text = str(error).lower()
    return type(error).__name__ == "OutOfMemoryError" or "allocate memory" in text


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


def summarise_samples_of(name: str, samples: Sequence[float]) -> Row:
    """`NAME_median`, mean, iqr, min and max of the samples, their number, spread and drift.

    The quartiles are those of linear interpolation between the samples (numpy's default); fewer
    than QUARTILE_SAMPLES samples have none, so IQR and spread are None. `spread` is the IQR over
    the median. `drift` is the median of the second half over that of the first half, less one.
    """
    ordered = sorted(samples)
    median = statistics.median(ordered)
    iqr = None
    if len(ordered) >= QUARTILE_SAMPLES:
        low, _, high = statistics.quantiles(ordered, n=4, method="inclusive")
        iqr = high - low
    half = len(samples) // 2
    drift = None
    if half >= 5 and statistics.median(samples[:half]) > 0:
        drift = statistics.median(samples[-half:]) / statistics.median(samples[:half]) - 1
    return {
        "samples": len(ordered),
        f"{name}_median": median,
        f"{name}_mean": statistics.fmean(ordered),
        f"{name}_iqr": iqr,
        f"{name}_min": ordered[0],
        f"{name}_max": ordered[-1],
        "spread": iqr / median if iqr is not None and median > 0 else None,
        "drift": drift,
    }


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


def can_time_events(torch: Any, device: Any) -> bool:
    """Whether this device has events that take the time; a CPU has none."""
    if device.type == "cpu":
        return False
    try:
        start, end = (torch.Event(device=device, enable_timing=True) for _ in range(2))
        start.record()
        end.record()
        torch.accelerator.synchronize(device)
        start.elapsed_time(end)
    except (RuntimeError, NotImplementedError, TypeError):
        return False
    return True


def synchronise(torch: Any, device: Any) -> None:
    """Wait until the device has done all that it was given."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def time_calls(
    torch: Any, device: Any, call: Callable[[], Any], count: int, stop: StopSign
) -> list[float]:
    """Seconds of each of so many calls, one after the other on the device.

    Between two device events where it has them: all calls are queued at once, so that the time
    between the events holds the work and no wait for its launch. Else by the host's clock, with
    the device synchronised before both readings.
    """
    seconds = []
    if can_time_events(torch, device):
        pairs = []
        for _ in range(count):
            stop.check()
            start, end = (torch.Event(device=device, enable_timing=True) for _ in range(2))
            start.record()
            call()
            end.record()
            pairs.append((start, end))
        synchronise(torch, device)
        return [start.elapsed_time(end) / 1e3 for start, end in pairs]
    for _ in range(count):
        stop.check()
        synchronise(torch, device)
        started = time.perf_counter_ns()
        call()
        synchronise(torch, device)
        seconds.append((time.perf_counter_ns() - started) / 1e9)
    return seconds


def describe_torch_device(torch: Any, device: Any) -> dict[str, Any]:
    """What decides the numbers beside the settings: device, threads and software."""
    model = platform.machine() or "cpu"
    if device.type != "cpu":
        module = torch.get_device_module(device.type)
        try:
            model = str(module.get_device_name(device))
        except (AttributeError, RuntimeError, TypeError):
            model = device.type
    return {
        "device_kind": device.type,
        "device_model": model,
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "rocm": torch.version.hip,
        "timer": "device events" if can_time_events(torch, device) else "host clock",
        "threads": torch.get_num_threads() if device.type == "cpu" else None,
    }


def judge_steadiness(row: dict[str, Any]) -> str:
    """`ok`, `unsteady`, `few samples` or `one sample`: how far to trust the median of a row."""
    if row["samples"] < 4:
        return "one sample" if row["samples"] == 1 else "few samples"
    wide = row["spread"] is None or row["spread"] > 0.05
    drifts = row["drift"] is not None and abs(row["drift"]) > 0.05
    return "unsteady" if wide or drifts else "ok"


def count_parameters(hidden: int, width: int) -> int:
    """Parameters of the three matrices of the whole MLP: 3 * h * d_ff."""
    return 3 * hidden * width


def count_mlp_operations(settings: SwigluSettings, width: int) -> int:
    """Operations of one rank's matrix products: 2 * 3 * tokens * h * d_ff / tp, forward.

    Backward takes twice as many again: the gradient of the input and that of the weight.
    """
    forward = 6 * settings.batch_tokens * settings.hidden * (width // settings.tp)
    return forward * (3 if settings.mode == "fwd_bwd" else 1)


def find_alignment(width: int) -> int:
    """The largest power of two up to 256 that divides the width."""
    return min(256, width & -width)


def choose_baseline(hidden: int, tp: int) -> int:
    """8/3 of the hidden size, cut down to a multiple of tp: what nobody has tuned."""
    return max(1, 8 * hidden // 3 // tp) * tp


def list_widths(baseline: int, window: int, step: int, tp: int) -> list[int]:
    """The baseline, and within the window around it each width of whole, aligned shares.

    A width is aligned where the share of one rank is a multiple of `step`.
    """
    unit = step * tp
    first = -(-max(unit, baseline - window) // unit) * unit
    return [baseline, *(w for w in range(first, baseline + window + 1, unit) if w != baseline)]


class Mlp:
    """The matrices of one rank's share of a SwiGLU MLP, and the call to time."""

    def __init__(self, torch: Any, device: Any, settings: SwigluSettings, width: int) -> None:
        kind = getattr(torch, settings.dtype)
        share = width // settings.tp
        trains = settings.mode == "fwd_bwd"
        self.torch = torch
        self.trains = trains

        def make(rows: int, columns: int, scale: float) -> Any:
            values = torch.randn(rows, columns, dtype=kind, device=device) * scale
            return values.requires_grad_(trains)

        self.x = make(settings.batch_tokens, settings.hidden, 1.0)
        # Scaled as layers are when training begins, so that no product overflows float16.
        self.gate = make(share, settings.hidden, settings.hidden**-0.5)
        self.up = make(share, settings.hidden, settings.hidden**-0.5)
        self.down = make(settings.hidden, share, share**-0.5)
        self.gradient = torch.randn(
            settings.batch_tokens, settings.hidden, dtype=kind, device=device
        )

    def forward(self) -> Any:
        """The output of the MLP."""
        functional = self.torch.nn.functional
        gated = functional.silu(functional.linear(self.x, self.gate))
        return functional.linear(gated * functional.linear(self.x, self.up), self.down)

    def call(self) -> None:
        """What is timed: forward, and backward where the mode says so."""
        if not self.trains:
            with self.torch.no_grad():
                self.forward()
            return
        inputs = (self.x, self.gate, self.up, self.down)
        self.torch.autograd.grad(self.forward(), inputs, self.gradient)

    def measure_error(self) -> float:
        """Relative error of the output of the first tokens against float64."""
        torch = self.torch
        with torch.no_grad():
            found = self.forward()
            if not bool(torch.isfinite(found).all()):
                return math.inf
            x, gate, up, down = (
                matrix.detach().to("cpu", torch.float64)
                for matrix in (self.x[:CHECKED_TOKENS], self.gate, self.up, self.down)
            )
            expected = (torch.nn.functional.silu(x @ gate.t()) * (x @ up.t())) @ down.t()
            found = found[:CHECKED_TOKENS].to("cpu", torch.float64)
        return float((found - expected).norm() / expected.norm().clamp_min(1e-300))


def make_width_row(
    settings: SwigluSettings, baseline: int, width: int, seconds: list[float]
) -> Row:
    """One row of results from the samples of all rounds, before rows are compared."""
    operations = count_mlp_operations(settings, width)
    summary = summarise_samples_of("seconds", seconds)
    median, fastest = summary["seconds_median"], summary["seconds_min"]
    rate = operations / median if median > 0 else None
    highest = operations / fastest if fastest > 0 else None
    peak = settings.peak_flops_per_second
    row = {
        "d_ff": width,
        "d_ff_per_rank": width // settings.tp,
        "alignment": find_alignment(width // settings.tp),
        "is_baseline": width == baseline,
        "parameters": count_parameters(settings.hidden, width),
        "dtype": settings.dtype,
        "mode": settings.mode,
        "hidden": settings.hidden,
        "tp": settings.tp,
        "batch_tokens": settings.batch_tokens,
        "operations": operations,
        **summary,
        "flops_per_second_median": rate,
        "flops_per_second_max": highest,
        "above_peak": None if peak is None else highest is None or highest > peak,
        "relative": None,
        "answer_ok": None,
        "answer_error": None,
    }
    row["verdict"] = judge_steadiness(row)
    return row


def compare_widths(rows: list[Row], errors: Mapping[int, float]) -> None:
    """Set the answer's error, the rate relative to the baseline's, and the verdict of each row."""
    base = next((row["flops_per_second_median"] for row in rows if row["is_baseline"]), None)
    for row in rows:
        error = errors.get(row["d_ff"])
        if error is not None:
            row["answer_ok"] = error <= ERROR_LIMITS[row["dtype"]]
            row["answer_error"] = error if math.isfinite(error) else None
        if base and row["flops_per_second_median"]:
            row["relative"] = row["flops_per_second_median"] / base - 1
        if row["answer_ok"] is False:
            row["verdict"] = "WRONG ANSWER"
        elif row["above_peak"]:
            row["verdict"] = "above peak"


def group_alignments(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The median rate of the widths of each alignment, the best aligned first."""
    groups: dict[int, list[float]] = {}
    for row in rows:
        if row["flops_per_second_median"] and row["answer_ok"] is not False:
            groups.setdefault(row["alignment"], []).append(row["flops_per_second_median"])
    unaligned = [rate for power, rates in groups.items() if power < 8 for rate in rates]
    listed = [(power, groups[power]) for power in ALIGNMENTS if power in groups]
    if unaligned:
        listed.append((1, unaligned))
    best = max((statistics.median(rates) for _, rates in listed), default=1.0)
    return [
        {
            "multiple_of": power,
            "widths": len(rates),
            "flops_per_second_median": statistics.median(rates),
            "relative": statistics.median(rates) / best - 1,
        }
        for power, rates in listed
    ]


class WidthJournal:
    """The samples of a run so far, and the JSON made of them."""

    def __init__(self, settings: SwigluSettings, widths: list[int], place: Progressing) -> None:
        self.settings = settings
        self.widths = widths
        self.place = place
        self.samples: dict[int, list[float]] = {}
        self.errors: dict[int, float] = {}
        self.skipped: list[int] = []
        self.caveats: list[str] = []
        self.header: dict[str, Any] = {}
        self.complete = False
        self.written = 0.0
        self.unwritten: str | None = None

    def make_rows(self) -> list[Row]:
        """The rows of all widths that have samples, the narrowest first."""
        rows = [
            make_width_row(self.settings, self.widths[0], width, samples)
            for width, samples in sorted(self.samples.items())
        ]
        compare_widths(rows, self.errors)
        return rows

    def write(self, force: bool = True) -> None:
        """Write the JSON file; without force only where the last one is seconds old.

        Where it cannot be, on a disk that has filled, the run goes on, and says so at its end.
        """
        path = self.place.path
        if path is None or (not force and time.monotonic() - self.written < JSON_EVERY_SECONDS):
            return
        rows = self.make_rows()
        head = make_document_head(
            "swiglu_search", (__version__, METHOD), self.place.command, self.place.origin
        )
        document = {
            **head,
            "complete": self.complete,
            "units": UNITS,
            "results": rows,
            "caveats": list(dict.fromkeys(self.caveats)),
            "details": {
                "header": self.header,
                "settings": self.settings._asdict(),
                "baseline": self.widths[0],
                "widths_planned": len(self.widths),
                "widths_skipped": self.skipped,
                "alignments": group_alignments(rows),
            },
        }
        try:
            write_document(path, document)
            self.unwritten = None
        except WrongUse as error:
            self.unwritten = str(error)
        self.written = time.monotonic()


def measure_widths(torch: Any, device: Any, journal: WidthJournal, stop: StopSign) -> None:
    """All rounds over all widths, into the journal. Raises Stopped."""
    settings = journal.settings
    order = list(journal.widths)
    done = 0
    for number in range(settings.rounds):
        random.Random(number).shuffle(order)
        for width in order:
            stop.check()
            if width in journal.skipped:
                continue
            try:
                mlp = Mlp(torch, device, settings, width)
                time_calls(torch, device, mlp.call, settings.warmup_iterations, stop)
                seconds = time_calls(torch, device, mlp.call, settings.iterations, stop)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                journal.skipped.append(width)
                continue
            if width not in journal.errors:
                journal.errors[width] = mlp.measure_error()
            journal.samples.setdefault(width, []).extend(seconds)
            done += 1
            rate = count_mlp_operations(settings, width) / max(1e-12, statistics.median(seconds))
            journal.place.progress.show(done, f"d_ff {width}: {rate / 1e12:.4g} TFLOPS")
            journal.write(force=False)


def run_search(
    options: argparse.Namespace, command: list[str], stop: StopSign, origin: float
) -> WidthJournal:
    """Measure what was asked for; the journal with its JSON file written."""
    torch = import_torch()
    device = choose_device(torch, options.device)
    tokens, iterations, warmups = DEFAULTS["cpu" if device.type == "cpu" else "accelerator"]
    given = options.num_warmup_iterations
    settings = SwigluSettings(
        hidden=options.hidden,
        tp=options.tp,
        batch_tokens=options.batch_tokens or tokens,
        dtype=options.dtype,
        mode=options.mode,
        iterations=options.num_iterations or iterations,
        warmup_iterations=warmups if given is None else given,
        rounds=options.rounds,
        peak_flops_per_second=options.peak * 1e12 if options.peak else None,
    )
    baseline = choose_baseline(options.hidden, options.tp)
    widths = list_widths(baseline, options.window, options.step, options.tp)
    progress = Progress(len(widths) * settings.rounds, "measurements")
    journal = WidthJournal(settings, widths, Progressing(progress, options.json, command, origin))
    journal.header = describe_torch_device(torch, device)
    if device.type != "cpu" and journal.header["timer"] == "host clock":
        journal.caveats.append("this device has no events to time with: launches are counted too")
    if options.tp > 1:
        journal.caveats.append(
            f"one rank's share of {options.tp} was measured, without the communication of the ranks"
        )
    torch.manual_seed(0)
    try:
        measure_widths(torch, device, journal, stop)
        journal.complete = not journal.skipped
    except Stopped as stopped:
        journal.caveats.append(f"{stopped}, with {len(journal.samples)} of {len(widths)} widths")
    finally:
        progress.close()
    if journal.skipped:
        journal.caveats.append(f"no memory for the widths {', '.join(map(str, journal.skipped))}")
    journal.write()
    return journal


def format_widths(rows: Sequence[Row], top: int) -> str:
    """The baseline, and then the fastest widths."""
    largest = max(row["flops_per_second_max"] or 0.0 for row in rows)
    unit, factor = ("TFLOPS", 1e12) if largest >= 1e12 else ("GFLOPS", 1e9)
    base = [row for row in rows if row["is_baseline"]]
    others = sorted(
        (row for row in rows if not row["is_baseline"] and not row["above_peak"]),
        key=lambda row: -(row["flops_per_second_median"] or 0.0),
    )
    lines = []
    for row in (*base, *others[:top]):
        rate, spread = row["flops_per_second_median"], row["spread"]
        doubt = None if spread is None or rate is None else spread / 2 * rate / factor
        relative = "-"
        if row["relative"] is not None:
            steady = row["verdict"] == "ok" and base[0]["verdict"] == "ok"
            relative = (
                f"{100 * row['relative']:+.1f}" if steady else f"~{100 * row['relative']:+.0f}"
            )
        lines.append(
            [
                f"{row['d_ff']}{' (8/3)' if row['is_baseline'] else ''}",
                str(row["d_ff_per_rank"]),
                str(row["alignment"]),
                format_earned(rate / factor if rate else None, doubt),
                relative,
                "-" if spread is None else f"{100 * spread:.1f}",
                str(row["parameters"]),
                row["verdict"],
            ]
        )
    headings = ["d_ff", "Per rank", "Multiple of", f"Median, {unit}", "% from 8/3", "IQR, %"]
    return format_table([*headings, "MLP parameters", "Verdict"], lines)


def format_alignments(groups: Sequence[dict[str, Any]]) -> str:
    """What each power of two was worth: the median over the widths of that alignment."""
    lines = [
        [
            "none of 8" if group["multiple_of"] == 1 else str(group["multiple_of"]),
            str(group["widths"]),
            f"{100 * group['relative']:+.1f}",
        ]
        for group in groups
    ]
    return format_table(["Share is a multiple of", "Widths", "% from the best group"], lines)


def print_report(journal: WidthJournal, top: int) -> int:
    """Tables to stdout, notes to stderr; the number of problems."""
    rows = journal.make_rows()
    if rows:
        print(format_widths(rows, top))
        print("\n" + format_alignments(group_alignments(rows)))
    for text in dict.fromkeys(journal.caveats):
        write_note(text)
    unsteady = [row for row in rows if row["verdict"] == "unsteady"]
    if unsteady:
        write_note(
            f"{len(unsteady)} of {len(rows)} widths are not steady: differences smaller than their "
            "IQR mean nothing. Try: nothing else running, more --rounds and --num_iterations"
        )
    problems = []
    wrong = [row["d_ff"] for row in rows if row["answer_ok"] is False]
    if wrong:
        problems.append(f"wrong answers at d_ff {', '.join(map(str, wrong))}")
    if any(row["above_peak"] for row in rows):
        problems.append("rates above --peak: is it the dense peak of this data type?")
    if not rows:
        problems.append("nothing was measured")
    for text in problems:
        print(f"problem: {text}", file=sys.stderr)
    return len(problems)


def run_self_test() -> int:
    """Check formulas, widths and a real search on the CPU; 0, or 1 where a check fails."""
    checks: list[bool] = []

    def check(name: str, passed: bool) -> None:
        checks.append(passed)
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    check("8/3 of 4096 is 10922", choose_baseline(4096, 1) == 10922)
    check("3 * 4096 * 10922 = 134209536 parameters", count_parameters(4096, 10922) == 134209536)
    settings = SwigluSettings(4096, 1, 1, "float32", "fwd", 4, 1, 1, None)
    check("2 * 134209536 operations", count_mlp_operations(settings, 10922) == 268419072)
    shares = [width // 8 for width in list_widths(choose_baseline(8192, 8), 512, 64, 8)[1:]]
    check("with tp 8 each share is a multiple of 64", all(share % 64 == 0 for share in shares))
    check("11008 is a multiple of 256, 10944 of 64", find_alignment(11008) == 256)
    torch = import_torch()
    for mode in ("fwd", "fwd_bwd"):
        small = settings._replace(hidden=48, batch_tokens=16, mode=mode)
        mlp = Mlp(torch, torch.device("cpu"), small, 128)
        seconds = time_calls(torch, torch.device("cpu"), mlp.call, 4, StopSign())
        check(f"{mode}: 4 times above 0", len(seconds) == 4 and min(seconds) > 0)
        check(f"{mode}: the answer is right", mlp.measure_error() <= ERROR_LIMITS["float32"])
    mlp = Mlp(torch, torch.device("cpu"), settings._replace(hidden=48, batch_tokens=16), 128)
    found = mlp.forward()
    mlp.forward = lambda: found * 1.01  # type: ignore[method-assign]
    check("an output that is 1 % off is found", mlp.measure_error() > ERROR_LIMITS["float32"])
    failed = sum(not passed for passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="swiglu_search.py",
        description="Measure SwiGLU MLP widths near 8/3 of the hidden size and name the fastest.",
        epilog="The docstring at the top of this file tells what is timed and how to run it.",
        allow_abbrev=False,
    )
    model = parser.add_argument_group("model")
    model.add_argument(
        "--hidden", type=parse_count, default=4096, metavar="H", help="hidden size (default: 4096)"
    )
    model.add_argument(
        "--tp",
        type=parse_count,
        default=1,
        metavar="N",
        help="ranks of tensor parallelism: one rank's share is measured (default: 1)",
    )
    model.add_argument(
        "--batch_tokens",
        type=parse_count,
        metavar="N",
        help="tokens in one call: batch times sequence (default: 16384, on a CPU 256)",
    )
    model.add_argument("--dtype", choices=DTYPES, default="bfloat16", help="(default: bfloat16)")
    model.add_argument(
        "--mode", choices=("fwd", "fwd_bwd"), default="fwd", help="what is timed (default: fwd)"
    )
    search = parser.add_argument_group("search")
    search.add_argument(
        "--window",
        type=parse_count,
        default=128,
        metavar="N",
        help="how far from 8/3 of the hidden size (default: 128)",
    )
    search.add_argument(
        "--step",
        type=parse_count,
        default=8,
        metavar="N",
        help="the share of one rank is a multiple of this (default: 8)",
    )
    timing = parser.add_argument_group("timing")
    timing.add_argument(
        "--num_iterations", type=parse_count, metavar="N", help="samples per round (default: 20)"
    )
    timing.add_argument(
        "--num_warmup_iterations",
        type=parse_count_or_none,
        metavar="N",
        help="untimed calls before them (default: 10)",
    )
    timing.add_argument(
        "--rounds",
        type=parse_count,
        default=3,
        metavar="N",
        help="visits of each width, each time in another order (default: 3)",
    )
    output = parser.add_argument_group("output")
    output.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    output.add_argument(
        "--top", type=parse_count, default=5, metavar="N", help="widths shown (default: 5)"
    )
    output.add_argument(
        "--peak",
        type=parse_positive,
        metavar="TFLOPS",
        help="theoretical dense peak: flags what is above",
    )
    other = parser.add_argument_group("other")
    other.add_argument("--device", metavar="DEVICE", help="cuda:1, xpu, cpu (default: the first)")
    other.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    other.add_argument(
        "--version", action="version", version=f"swiglu_search {__version__} (method {METHOD})"
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense, before anything is measured or imported."""
    check_json_path(options.json)
    if 8 * options.hidden // 3 < options.tp:
        raise WrongUse(f"--tp {options.tp}: 8/3 of --hidden {options.hidden} has fewer columns")
    baseline = choose_baseline(options.hidden, options.tp)
    if len(list_widths(baseline, options.window, options.step, options.tp)) == 1:
        raise WrongUse(
            f"--window {options.window} around {baseline} holds no multiple of --step times --tp, "
            f"{options.step * options.tp}: widen it"
        )


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
        journal = run_search(options, make_portable_command(arguments), stop, origin)
        problems = print_report(journal, options.top)
        if journal.unwritten:
            write_note(f"{journal.unwritten}; the JSON has less than the table")
            problems += 1
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a run listens for signals itself
        print("stopped", file=sys.stderr)
        return 1
    return 1 if problems or (stop.by_signal and not journal.complete) else 0


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
