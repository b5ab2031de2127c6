#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""What does torch.compile gain on this machine, and after how many steps has it paid for itself?

torch.compile turns a model into fused kernels. The gain depends on the model, the mode and the
device; the price is the time of compiling, paid at the first call, and again for each graph break
and each new shape. This tool measures both apart: the steady time of a step, eager and compiled,
and the time to the first result.

Physics
    speedup        = eager seconds / compiled seconds, of one step (medians)
    compile time   = seconds of the first call - seconds of a steady call
    break-even     = compile time / (eager seconds - compiled seconds): from that step on a run
                     with torch.compile is ahead. Hand check: 30 s of compiling, 100 ms eager and
                     70 ms compiled break even after 1000 steps.
    A graph break ends one compiled graph and begins another: fusion stops there, and Python runs
    in between. Graphs and breaks are those that torch._dynamo.explain counts: a break in code that
    several layers share counts once.

What is timed
    One call of the model, or with --backward one call and its backward pass, between two device
    events, or with the host's clock on a CPU. The first call is timed apart, with the host's clock:
    `cold` with an empty compiler cache, and with --warm_cache in a second process that finds the
    first one's cache, as the second start of a job does.
What is not timed
    Building the model, the warm-up, counting the graph breaks, and the check of the answer: the
    output (with --backward also the gradient of the input) against that of the eager model.

How to run
    one GPU       python compile_bench.py --model block --hidden 4096
    modes         python compile_bench.py --modes default reduce-overhead max-autotune
    training      python compile_bench.py --backward --warm_cache --json compile.json
    no compiler   python compile_bench.py --backend aot_eager
                      Inductor writes C++ for a CPU and needs g++ or clang++; the backends eager and
                      aot_eager capture the graph and compile nothing: they gain nothing, but count
                      graph breaks and find what cannot be captured. The row of the backend eager is
                      called `captured`
    a break       python compile_bench.py --model broken: what a graph break looks like
    Slurm         srun --gpus=1 python compile_bench.py --json compile.json
    pdsh          pdsh -w node[01-08] 'python /shared/compile_bench.py \
                      --json /shared/$(hostname).json'

A good answer: one graph and no break; a speedup above 1 that is larger than the spread; a
break-even far below the number of steps of your run; the same answer as eager within rounding.
Where compiled is slower, the model is bound by large matrix products that were at their limit
already, or the steps are too small: reduce-overhead is for those.

Ctrl-C, SIGTERM and SIGUSR1 end the compiler too, and keep the variants that are done.

Exit status: 0 done, 1 a wrong answer, a mode that failed, or stopped by a signal, 2 wrong use.
Seen running so far: on a CPU, with the backends inductor, aot_eager and eager. The code for
accelerators follows PyTorch's documentation.
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
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
# fmt: off
PROFILES = {
    "toy": [
        "--device", "cpu", "--backend", "aot_eager", "--model", "mlp", "--hidden", "64",
        "--layers", "2", "--batch", "2", "--sequence", "16", "--dtype", "float32",
        "--num_iterations", "10",
    ],
    "full": ["--modes", "default", "reduce-overhead", "max-autotune", "--warm_cache"],
}
# fmt: on

# Which results stand beside which, by which column, and what else has to be equal for that.
COMPARE = {
    "keys": ["model", "dtype", "pass", "variant"],
    "value": "calls_per_second_median",
    "better": "higher",
    "spread": "spread",
    "trusted": {"verdict": ["ok", "unsteady"]},
    "alike": [
        "details.header.device_kind",
        "details.header.device_model",
        "details.header.threads",
        "details.settings.backend",
        "details.settings.hidden",
        "details.settings.layers",
        "details.settings.batch",
        "details.settings.sequence",
    ],
}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "samples": "1",
    "seconds_median": "s",
    "seconds_mean": "s",
    "seconds_iqr": "s",
    "seconds_min": "s",
    "seconds_max": "s",
    "calls_per_second_median": "1/s",
    "spread": "1",
    "drift": "1",
    "first_call_seconds": "s",
    "compile_seconds": "s",
    "compile_seconds_warm_cache": "s",
    "speedup": "1",
    "break_even_calls": "1",
    "graphs": "1",
    "graph_breaks": "1",
    "answer_error": "1",
}

DTYPES = ("bfloat16", "float16", "float32")
MODELS = ("mlp", "block", "broken")
BACKENDS = ("inductor", "aot_eager", "eager")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
# Largest relative difference (Frobenius norm) from the eager output: another order of the same
# sums, a few layers deep, and intermediate results that fused kernels do not round.
ERROR_LIMITS = {"bfloat16": 4e-2, "float16": 1e-2, "float32": 1e-4}
QUARTILE_SAMPLES = 4
# Hidden size, layers, batch, sequence, samples, warm-ups.
DEFAULTS = {"accelerator": (4096, 2, 8, 2048, 50, 10), "cpu": (256, 2, 2, 64, 20, 5)}
WARM_SECONDS = 1800.0

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


def tell_of_signals() -> None:
    """Say on stderr that a signal ends the run, at the moment it comes.

    Python runs a handler between two calls, and one call of torch may take minutes. A thread hears
    of a signal at once, and ends the process where the same signal comes again before the handler
    could run.
    """
    if os.name != "posix":
        return
    listening, speaking = os.pipe()
    os.set_blocking(speaking, False)
    signal.set_wakeup_fd(speaking, warn_on_full_buffer=False)

    def listen() -> None:
        heard: set[str] = set()
        while number := os.read(listening, 1):
            name = signal.Signals(number[0]).name
            if name not in ("SIGINT", "SIGTERM", "SIGUSR1"):
                continue
            if name in heard:
                print(f"{name} again: ended without results", file=sys.stderr, flush=True)
                os._exit(1)
            heard.add(name)
            text = f"{name}: the run stops after the call that is at work, with the results so far"
            print(text, file=sys.stderr, flush=True)

    threading.Thread(target=listen, daemon=True).start()


def skip_interruption(told: Any) -> None:
    """Say nothing of an interruption where nobody can take one, as when memory is cleared away: the
    sign is set, and the next look at it ends the run."""
    if not isinstance(told.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(told)


@contextlib.contextmanager
def end_at_once(stop: StopSign) -> Iterator[None]:
    """Within the block a signal ends what is at work, and does not wait for the next look at the
    sign: a compiler takes minutes. Raises Stopped."""
    stop.check()
    usual: dict[int, Callable[[int, Any], Any]] = {}

    def interrupt(number: int, frame: Any) -> None:
        usual[number](number, frame)
        # Now, for a compiler's own children are nobody's once it is gone.
        end_descendants()
        # No library takes this for a fault of its own, which it could go on after.
        raise KeyboardInterrupt

    for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
        number = getattr(signal, name, None)
        handler = signal.getsignal(number) if number else None
        if number and callable(handler):
            usual[number] = handler
            signal.signal(number, interrupt)
    hook = sys.unraisablehook
    sys.unraisablehook = skip_interruption
    try:
        yield
    except Exception:
        stop.check()
        raise
    except KeyboardInterrupt:
        stop.check()
        raise
    finally:
        sys.unraisablehook = hook
        for number, handler in usual.items():
            # After a signal it is the system's own again, which ends a run that hangs.
            if signal.getsignal(number) is interrupt:
                signal.signal(number, handler)


def list_descendants(root: int) -> list[int]:
    """The processes that a process started, and those that they started; none without /proc."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            # The name of the program is in brackets, and may hold anything.
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    found = [root]
    for parent in found:
        found += children.get(parent, [])
    return found[1:]


def end_descendants() -> None:
    """End what this process has started: compilers, which would go on without it."""
    for number in list_descendants(os.getpid()):
        with contextlib.suppress(OSError):
            os.kill(number, signal.SIGKILL)


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


class CompileSettings(NamedTuple):
    """What decides the numbers of a run, apart from the mode."""

    model: str
    hidden: int
    layers: int
    batch: int
    sequence: int
    dtype: str
    backend: str
    backward: bool
    iterations: int
    warmup_iterations: int


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


def format_time(seconds: float) -> str:
    """`12.0 µs`, `8.02 ms` or `2.3 s`: a time in a sentence, to about one percent."""
    factor, unit = next(
        ((f, u) for f, u in ((1.0, "s"), (1e-3, "ms")) if seconds >= 0.9995 * f), (1e-6, "µs")
    )
    return f"{format_earned(seconds / factor, 1e-2 * seconds / factor)} {unit}"


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


def compute_break_even(compile_seconds: float, eager: float, compiled: float) -> float | None:
    """Calls after which compiling has paid for itself; None where it never does."""
    saved = eager - compiled
    return compile_seconds / saved if saved > 0 else None


def find_cpp_compiler(environ: Mapping[str, str]) -> str | None:
    """The C++ compiler that Inductor would use on a CPU: $CXX, or one on the PATH."""
    for name in (environ.get("CXX", ""), "g++", "clang++", "c++"):
        if name and shutil.which(name.split()[0]):
            return name
    return None


def build_model(torch: Any, settings: CompileSettings) -> Any:
    """A stack of MLPs or transformer blocks; `broken` has a graph break in each layer."""
    nn, functional = torch.nn, torch.nn.functional

    class Mlp(nn.Module):  # type: ignore[misc, name-defined]
        """Norm, two matrices with a GELU between them, and the way around."""

        def __init__(self, hidden: int) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(hidden)
            self.up = nn.Linear(hidden, 4 * hidden)
            self.down = nn.Linear(4 * hidden, hidden)

        def forward(self, x: Any) -> Any:
            return x + self.down(functional.gelu(self.up(self.norm(x))))

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        """Causal attention and an MLP, each behind a norm."""

        def __init__(self, hidden: int) -> None:
            super().__init__()
            self.heads = max(1, hidden // 64)
            self.norm = nn.LayerNorm(hidden)
            self.qkv = nn.Linear(hidden, 3 * hidden)
            self.out = nn.Linear(hidden, hidden)
            self.mlp = Mlp(hidden)

        def forward(self, x: Any) -> Any:
            batch, sequence, hidden = x.shape
            parts = self.qkv(self.norm(x)).view(batch, sequence, 3, self.heads, -1)
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            return self.mlp(x + self.out(mixed.transpose(1, 2).reshape(batch, sequence, hidden)))

    class Broken(Mlp):
        """An MLP that cannot be one graph."""

        def forward(self, x: Any) -> Any:
            x = super().forward(x)
            torch._dynamo.graph_break()
            return x * 0.5

    layer = {"mlp": Mlp, "block": Block, "broken": Broken}[settings.model]
    return nn.Sequential(*(layer(settings.hidden) for _ in range(settings.layers)))


class Subject:
    """A model on a device with an input, and the call to time."""

    def __init__(self, torch: Any, device: Any, settings: CompileSettings) -> None:
        torch.manual_seed(0)
        kind = getattr(torch, settings.dtype)
        self.torch = torch
        self.device = device
        self.settings = settings
        self.model = build_model(torch, settings).to(device, kind)
        size = (settings.batch, settings.sequence, settings.hidden)
        self.x = torch.randn(size, device=device).to(kind)
        self.gradient = torch.randn(size, device=device).to(kind)
        if settings.backward:
            self.x.requires_grad_()
        else:
            self.model.requires_grad_(False)

    def make_call(self, model: Any) -> Callable[[], Any]:
        """One call of the model, and its backward pass where that is asked for."""

        def infer() -> Any:
            with self.torch.no_grad():
                return model(self.x)

        def train() -> Any:
            self.x.grad = None
            self.model.zero_grad(set_to_none=True)
            out = model(self.x)
            out.backward(self.gradient)
            return out

        return train if self.settings.backward else infer

    def compute_answer(self, model: Any) -> Any:
        """The output, and with --backward the gradient of the input, in float64 on the host."""
        found = [self.make_call(model)().detach()]
        if self.settings.backward:
            found.append(self.x.grad)
        return self.torch.cat([part.to("cpu", self.torch.float64).flatten() for part in found])


def compare_answers(torch: Any, found: Any, expected: Any) -> float:
    """Relative difference in the Frobenius norm; infinite where a value is not finite."""
    if not bool(torch.isfinite(found).all()):
        return math.inf
    return float((found - expected).norm() / expected.norm().clamp_min(1e-300))


def count_graphs(torch: Any, subject: Subject) -> tuple[int, int, list[str]]:
    """Graphs and graph breaks of the model as torch.compile sees it, and the reasons."""
    torch._dynamo.reset()
    with torch.set_grad_enabled(subject.settings.backward):
        explained = torch._dynamo.explain(subject.model)(subject.x)
    torch._dynamo.reset()
    reasons = [str(reason.reason).strip().splitlines()[0] for reason in explained.break_reasons]
    return explained.graph_count, explained.graph_break_count, reasons


def compile_model(torch: Any, subject: Subject, mode: str) -> Any:
    """The compiled model; nothing is compiled before its first call."""
    torch._dynamo.reset()
    backend = subject.settings.backend
    # Only Inductor has modes.
    chosen = {"mode": mode} if backend == "inductor" else {}
    return torch.compile(subject.model, backend=backend, **chosen)


def time_first_call(torch: Any, subject: Subject, call: Callable[[], Any]) -> float:
    """Seconds until the first result is there, by the host's clock."""
    synchronise(torch, subject.device)
    started = time.perf_counter()
    call()
    synchronise(torch, subject.device)
    return time.perf_counter() - started


def make_variant_row(settings: CompileSettings, variant: str) -> Row:
    """A row without results."""
    names = [*UNITS, "answer_ok"]
    return {
        "model": settings.model,
        "dtype": settings.dtype,
        "pass": "forward_backward" if settings.backward else "forward",
        "variant": variant,
        **dict.fromkeys(names),
        "verdict": "failed",
    }


def name_backend(backend: str) -> str:
    """What the row of a backend without modes is called: "eager" is the model as it is."""
    return "captured" if backend == "eager" else backend


def measure_variant(torch: Any, subject: Subject, variant: str, stop: StopSign) -> Row:
    """One row: first call, steady calls. Raises Stopped, and what torch raises."""
    settings = subject.settings
    row = make_variant_row(settings, variant)
    stop.check()
    model = subject.model if variant == "eager" else compile_model(torch, subject, variant)
    call = subject.make_call(model)
    row["first_call_seconds"] = time_first_call(torch, subject, call)
    time_calls(torch, subject.device, call, settings.warmup_iterations, stop)
    seconds = time_calls(torch, subject.device, call, settings.iterations, stop)
    row |= summarise_samples_of("seconds", seconds)
    median = row["seconds_median"]
    row["calls_per_second_median"] = 1 / median if median > 0 else None
    if variant != "eager":
        row["compile_seconds"] = max(0.0, row["first_call_seconds"] - median)
    row["verdict"] = judge_steadiness(row)
    return row


def relate_to_eager(row: Row, eager: Row) -> None:
    """Set the speedup and the break-even of a compiled row."""
    if not row["seconds_median"] or not eager["seconds_median"]:
        return
    row["speedup"] = eager["seconds_median"] / row["seconds_median"]
    row["break_even_calls"] = compute_break_even(
        row["compile_seconds"], eager["seconds_median"], row["seconds_median"]
    )


def measure_warm_cache(arguments: Sequence[str], mode: str, folder: Path) -> float | None:
    """Compile seconds of a second process that finds the compiler cache of the first one.

    None where it does not tell. Whatever ends the wait ends the process and its compilers.
    """
    path = folder / f"{mode}.json"
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).resolve()), *arguments, "--json", str(path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Ctrl-C reaches the parent alone, which then ends this process.
        start_new_session=True,
    )
    try:
        process.wait(timeout=WARM_SECONDS)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.poll() is None:
            for number in (*list_descendants(process.pid), process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
            process.wait()
    with contextlib.suppress(OSError, ValueError):
        rows = json.loads(path.read_text(encoding="utf-8"))["results"]
        return next((row["compile_seconds"] for row in rows if row["variant"] == mode), None)
    return None


def list_warm_arguments(options: argparse.Namespace, device: Any, mode: str) -> list[str]:
    """The command line of the process that starts with a warm cache."""
    arguments = ["--device", str(device), "--modes", mode, "--num_iterations", "5"]
    names = ("model", "hidden", "layers", "batch", "sequence", "dtype", "backend")
    for name in names:
        if getattr(options, name) is not None:
            arguments += [f"--{name}", str(getattr(options, name))]
    return [*arguments, "--backward"] if options.backward else arguments


class CompileRun:
    """The rows of a run so far, and the JSON made of them."""

    def __init__(self, command: list[str], origin: float, path: Path | None) -> None:
        self.command = command
        self.origin = origin
        self.path = path
        self.rows: list[Row] = []
        self.caveats: list[str] = []
        self.header: dict[str, Any] = {}
        self.settings: dict[str, Any] = {}
        self.breaks: list[str] = []
        self.failures: list[str] = []
        self.complete = False
        self.unwritten: str | None = None

    def write(self) -> None:
        """Write the JSON file where one was asked for. Where it cannot be, on a disk that has
        filled, the run goes on, and says so at its end."""
        if self.path is None:
            return
        head = make_document_head("compile_bench", (__version__, METHOD), self.command, self.origin)
        document = {
            **head,
            "complete": self.complete,
            "units": UNITS,
            "results": self.rows,
            "caveats": list(dict.fromkeys(self.caveats)),
            "details": {
                "header": self.header,
                "settings": self.settings,
                "graph_break_reasons": self.breaks,
                "failures": self.failures,
            },
        }
        try:
            write_document(self.path, document)
            self.unwritten = None
        except WrongUse as error:
            self.unwritten = str(error)


def explain_failure(error: BaseException) -> str:
    """The first line of what torch says, which is long."""
    lines = [line.strip() for line in str(error).strip().splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:200]


def measure_modes(
    torch: Any,
    subject: Subject,
    options: argparse.Namespace,
    run: CompileRun,
    stop: StopSign,
    folder: Path,
) -> None:
    """The eager row and one for each mode, into the run. Raises Stopped."""
    settings = subject.settings
    modes = options.modes if settings.backend == "inductor" else [name_backend(settings.backend)]
    progress = Progress(1 + len(modes), "variants")
    try:
        with end_at_once(stop):
            eager = measure_variant(torch, subject, "eager", stop)
        eager |= {"answer_ok": True, "answer_error": 0.0, "speedup": 1.0}
        run.rows.append(eager)
        graphs: int | None = None
        breaks: int | None = None
        with end_at_once(stop):
            expected = subject.compute_answer(subject.model)
        try:
            with end_at_once(stop):
                graphs, breaks, run.breaks = count_graphs(torch, subject)
        except Stopped:
            raise
        except Exception as error:  # torch raises many kinds where it cannot capture a model
            run.caveats.append(f"graph breaks could not be counted: {explain_failure(error)}")
        for number, mode in enumerate(modes, 1):
            progress.show(number, f"{mode} compiles")
            try:
                with end_at_once(stop):
                    row = measure_variant(torch, subject, mode, stop)
                    found = subject.compute_answer(compile_model(torch, subject, mode))
                    error_size = compare_answers(torch, found, expected)
            except Stopped:
                raise
            except Exception as error:  # one mode that fails says nothing of the others
                run.failures.append(f"{mode} failed: {explain_failure(error)}")
                run.rows.append(make_variant_row(settings, mode))
                continue
            row |= {"graphs": graphs, "graph_breaks": breaks}
            row["answer_ok"] = error_size <= ERROR_LIMITS[settings.dtype]
            row["answer_error"] = error_size if math.isfinite(error_size) else None
            row["verdict"] = row["verdict"] if row["answer_ok"] else "WRONG ANSWER"
            relate_to_eager(row, eager)
            run.rows.append(row)
            run.write()
            if options.warm_cache:
                stop.check()
                arguments = list_warm_arguments(options, subject.device, mode)
                with end_at_once(stop):
                    row["compile_seconds_warm_cache"] = measure_warm_cache(arguments, mode, folder)
    finally:
        progress.close()


def run_bench(
    options: argparse.Namespace, command: list[str], stop: StopSign, origin: float
) -> CompileRun:
    """Measure what was asked for; the run with its JSON file written."""
    torch = import_torch()
    device = choose_device(torch, options.device)
    tier = "cpu" if device.type == "cpu" else "accelerator"
    if options.backend == "inductor" and tier == "cpu" and find_cpp_compiler(os.environ) is None:
        raise WrongUse(
            "--backend inductor writes C++ for a CPU, and there is no compiler for it: install g++ "
            "or clang++, or use --backend aot_eager"
        )
    hidden, layers, batch, sequence, iterations, warmups = DEFAULTS[tier]
    given = options.num_warmup_iterations
    settings = CompileSettings(
        model=options.model,
        hidden=options.hidden or hidden,
        layers=options.layers or layers,
        batch=options.batch or batch,
        sequence=options.sequence or sequence,
        dtype=options.dtype,
        backend=options.backend,
        backward=options.backward,
        iterations=options.num_iterations or iterations,
        warmup_iterations=warmups if given is None else given,
    )
    run = CompileRun(command, origin, options.json)
    run.header = describe_torch_device(torch, device)
    run.settings = settings._asdict()
    if settings.backend != "inductor":
        run.caveats.append(
            f"the backend {settings.backend} captures the graph and compiles nothing: its speedup "
            "says what capturing costs, not what compiling gains"
        )
    shared = os.environ.get("TORCHINDUCTOR_CACHE_DIR")
    # A compiler that was ended may still be writing.
    with tempfile.TemporaryDirectory(prefix="compile_bench_", ignore_cleanup_errors=True) as folder:
        if shared is None:
            # An empty cache: the compile time of a first start, and nothing left behind.
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
            os.environ.setdefault("TRITON_CACHE_DIR", str(Path(folder) / "triton"))
        else:
            run.caveats.append("TORCHINDUCTOR_CACHE_DIR is set: its cache may have been warm")
        try:
            with end_at_once(stop):
                subject = Subject(torch, device, settings)
            measure_modes(torch, subject, options, run, stop, Path(folder))
            run.complete = not run.failures
        except Stopped as stopped:
            end_descendants()
            run.caveats.append(f"{stopped}, with {len(run.rows)} variants measured")
        finally:
            if shared is None:
                os.environ.pop("TORCHINDUCTOR_CACHE_DIR", None)
    run.caveats += run.failures
    run.write()
    return run


def format_variants(rows: Sequence[Row]) -> str:
    """The table of eager and the modes."""

    def show_seconds(value: float | None) -> str:
        return "-" if value is None else format_time(value)

    lines = []
    for row in rows:
        median, spread = row["seconds_median"], row["spread"]
        # Medians of two rows, so about twice the doubt of one.
        doubt = None if spread is None else spread * (row["speedup"] or 1.0)
        lines.append(
            [
                row["variant"],
                show_seconds(median),
                "-" if spread is None else f"{100 * spread:.1f}",
                format_earned(row["speedup"], doubt) if row["variant"] != "eager" else "1",
                show_seconds(row["compile_seconds"]),
                show_seconds(row["compile_seconds_warm_cache"]),
                "-" if row["break_even_calls"] is None else f"{row['break_even_calls']:.2g}",
                "-" if row["graphs"] is None else str(row["graphs"]),
                "-" if row["graph_breaks"] is None else str(row["graph_breaks"]),
                row["verdict"],
            ]
        )
    headings = ["Variant", "Median", "IQR, %", "Speedup", "Compile, cold", "Compile, warm"]
    return format_table([*headings, "Break-even", "Graphs", "Breaks", "Verdict"], lines)


def print_report(run: CompileRun) -> int:
    """The table to stdout, notes to stderr; the number of problems."""
    if run.rows:
        print(format_variants(run.rows))
    for text in dict.fromkeys(run.caveats):
        if text not in run.failures:
            write_note(text)
    for reason in dict.fromkeys(run.breaks):
        write_note(f"graph break: {reason}")
    slower = [row["variant"] for row in run.rows if row["speedup"] and row["speedup"] < 0.98]
    if slower and run.settings["backend"] == "inductor":
        write_note(f"compiled is slower than eager with {', '.join(slower)}")
    if any(row["verdict"] == "unsteady" for row in run.rows):
        write_note(
            "the samples are not steady: a speedup smaller than the spread means nothing. Try: "
            "nothing else running, more --num_iterations and --num_warmup_iterations"
        )
    problems = list(run.failures)
    wrong = [row["variant"] for row in run.rows if row["answer_ok"] is False]
    if wrong:
        problems.append(f"the answer differs from eager with {', '.join(wrong)}")
    if not run.rows:
        problems.append("nothing was measured")
    for text in problems:
        print(f"problem: {text}", file=sys.stderr)
    return len(problems)


def run_self_test() -> int:
    """Check formulas and each model with a backend that needs no compiler; 0, or 1."""
    checks: list[bool] = []

    def check(name: str, passed: bool) -> None:
        checks.append(passed)
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    check("30 s, 100 ms, 70 ms: 1000 calls", round(compute_break_even(30, 0.1, 0.07) or 0) == 1000)
    check("what is not faster never breaks even", compute_break_even(30, 0.1, 0.1) is None)
    torch = import_torch()
    base = CompileSettings("mlp", 64, 2, 2, 8, "float32", "aot_eager", True, 4, 1)
    for model, is_whole in (("mlp", True), ("block", True), ("broken", False)):
        subject = Subject(torch, torch.device("cpu"), base._replace(model=model))
        graphs, found, _ = count_graphs(torch, subject)
        name = "one graph" if is_whole else "a graph break is counted"
        check(f"{model}: {name}", (graphs == 1) == (found == 0) == is_whole)
        expected = subject.compute_answer(subject.model)
        answer = subject.compute_answer(compile_model(torch, subject, "default"))
        error = compare_answers(torch, answer, expected)
        check(f"{model}: compiled gives the answer of eager", error <= ERROR_LIMITS["float32"])
    subject = Subject(torch, torch.device("cpu"), base)
    answer = subject.compute_answer(subject.model)
    check(
        "an answer that is 1 % off is found", compare_answers(torch, 1.01 * answer, answer) > 5e-3
    )
    row = measure_variant(torch, subject, "default", StopSign())
    check("the first call is timed apart", row["first_call_seconds"] > row["seconds_min"] > 0)
    torch._dynamo.reset()
    failed = sum(not passed for passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="compile_bench.py",
        description="Measure eager against torch.compile, with the compile time apart.",
        epilog="The docstring at the top of this file tells what is timed and how to run it.",
        allow_abbrev=False,
    )
    model = parser.add_argument_group("model")
    model.add_argument(
        "--model", choices=MODELS, default="block", help="what is measured (default: block)"
    )
    for name, noun in (
        ("hidden", "hidden size"),
        ("layers", "layers"),
        ("batch", "sequences in one call"),
        ("sequence", "tokens in a sequence"),
    ):
        large, small = (
            DEFAULTS[tier][("hidden", "layers", "batch", "sequence").index(name)]
            for tier in ("accelerator", "cpu")
        )
        model.add_argument(
            f"--{name}",
            type=parse_count,
            metavar="N",
            help=f"{noun} (default: {large}, on a CPU {small})",
        )
    model.add_argument("--dtype", choices=DTYPES, default="bfloat16", help="(default: bfloat16)")
    model.add_argument("--backward", action="store_true", help="time the backward pass too")
    how = parser.add_argument_group("compiling")
    how.add_argument(
        "--modes",
        nargs="+",
        choices=MODES,
        default=["default"],
        help="modes of Inductor (default: default)",
    )
    how.add_argument("--backend", choices=BACKENDS, default="inductor", help="(default: inductor)")
    how.add_argument(
        "--warm_cache",
        action="store_true",
        help="measure each mode's compile time in a second process too",
    )
    timing = parser.add_argument_group("timing")
    timing.add_argument(
        "--num_iterations", type=parse_count, metavar="N", help="samples (default: 50)"
    )
    timing.add_argument(
        "--num_warmup_iterations",
        type=parse_count_or_none,
        metavar="N",
        help="untimed calls after the first one (default: 10)",
    )
    other = parser.add_argument_group("other")
    other.add_argument("--device", metavar="DEVICE", help="cuda:1, xpu, cpu (default: the first)")
    other.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    other.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    other.add_argument(
        "--version", action="version", version=f"compile_bench {__version__} (method {METHOD})"
    )
    return parser


def leave_at_once() -> NoReturn:
    """End with status 1 now: Python would wait for threads that have more to compile."""
    end_descendants()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1)


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense, before anything is measured or imported."""
    check_json_path(options.json)
    if options.backend != "inductor":
        if options.modes != ["default"]:
            raise WrongUse(f"--modes are those of Inductor, and --backend is {options.backend}")
        if options.warm_cache:
            raise WrongUse(f"--warm_cache: the backend {options.backend} has no cache")
    if options.hidden and options.model == "block" and options.hidden > 64 and options.hidden % 64:
        raise WrongUse(f"--hidden {options.hidden}: heads of 64 need a multiple of 64")


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
        tell_of_signals()
        run = run_bench(options, make_portable_command(arguments), stop, origin)
        problems = print_report(run)
        if run.unwritten:
            write_note(f"{run.unwritten}; the JSON has less than the table")
            problems += 1
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a run listens for signals itself
        print("stopped", file=sys.stderr)
        return 1
    if stop.by_signal and not run.complete:
        leave_at_once()
    return 1 if problems else 0


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
