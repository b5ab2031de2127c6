#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""What does torch.compile gain on this machine, and after how many steps has it paid for itself?

The price of fused kernels is compile time, at the first call and again for each new shape.

## Formulas

`speedup = eager seconds / compiled seconds` of one step (medians), `compile time = seconds of the
first call - seconds of a steady call`, `break-even = compile time / (eager - compiled)`: from that
step on the compiled run is ahead. Graphs and breaks are those that `torch._dynamo.explain` counts.

## What is timed

One call of the model, with `--backward` the call and its backward pass, between two device events,
or by the host clock on a CPU. The first call is timed by the host clock, with an empty compiler
cache, or with that of `--cache`. Not timed: the check of the output (and the gradient of the input)
against the eager model's.

## How to run

    python compile_bench.py --modes default reduce-overhead max-autotune
    srun --gpus 1 python compile_bench.py --backward --json compile.json
    # the second of these finds the compiler cache of the first
    python compile_bench.py --cache cache; python compile_bench.py --cache cache
    # a graph break, on any machine: aot_eager captures the graph and compiles nothing
    python compile_bench.py --model broken --backend aot_eager

On a CPU Inductor needs g++ or clang++.

## A good answer

One graph, no breaks; a speedup above 1 that is larger than the spread; a break-even far below the
number of steps of your run.

Exit status: 0 done; 1 a wrong answer, a mode that failed, or a signal; 2 usage error.
"""

import argparse
import math
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, positive_int, start
from kit.device import choose_device, describe_run, import_torch, synchronize
from kit.ranks import first_line
from kit.report import Report, Row, format_seconds, format_table
from kit.stats import earned, summarize, verdict_of_samples
from kit.stop import Stop, Stopped, until_stopped
from kit.timing import Stopwatch

__version__ = "0.2.0"
METHOD = 1
PROFILES = {
    "demo": [
        "--device", "cpu", "--backend", "aot_eager", "--model", "mlp", "--hidden", "64",
        "--layers", "2", "--batch", "2", "--sequence", "16", "--dtype", "float32",
        "--num-iterations", "10",
    ],
    "full": ["--modes", "default", "reduce-overhead", "max-autotune"],
}  # fmt: skip
GPUS = {"full": 1}
COMPARE = {
    "keys": ["model", "dtype", "pass", "variant"],
    "value": "calls_per_second_median",
    "better": "higher",
    "spread": "spread",
    "trusted": {"verdict": ["ok", "unsteady"]},
    "alike": ["details.header.device_kind", "details.header.device_model",
              "details.header.threads", "details.settings.backend", "details.settings.hidden",
              "details.settings.layers", "details.settings.batch", "details.settings.sequence"],
}  # fmt: skip
OF_COMPILING = ("compile_seconds", "break_even_calls", "graphs", "graph_breaks")
SETTINGS = ("model", "hidden", "layers", "batch", "sequence", "dtype", "backend")
SIZES = {"hidden": (4096, 256), "layers": (2, 2), "batch": (8, 2), "sequence": (2048, 64)}
"""On an accelerator, and on a CPU."""
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
ERROR_LIMITS = {"bfloat16": 4e-2, "float16": 1e-2, "float32": 1e-4}
"""Largest relative difference (Frobenius norm) from eager: the same sums in another order."""


def build_model(torch: Any, name: str, hidden: int, layers: int) -> Any:
    """A stack of MLPs or transformer blocks; `broken` has a graph break in each layer."""
    nn = torch.nn
    heads = hidden // 64 if hidden % 64 == 0 else 1

    class Mlp(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            up, down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)
            self.body = nn.Sequential(nn.LayerNorm(hidden), up, nn.GELU(), down)

        def forward(self, x: Any) -> Any:
            return x + self.body(x)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.LayerNorm(hidden)
            self.qkv = nn.Linear(hidden, 3 * hidden)
            self.out = nn.Linear(hidden, hidden)
            self.mlp = Mlp()

        def forward(self, x: Any) -> Any:
            parts = self.qkv(self.norm(x)).unflatten(-1, (3, heads, -1))
            query, key, value = parts.permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            return self.mlp(x + self.out(mixed.transpose(1, 2).flatten(2)))

    class Broken(Mlp):
        def forward(self, x: Any) -> Any:
            x = super().forward(x)
            torch._dynamo.graph_break()
            return x * 0.5

    layer = {"mlp": Mlp, "block": Block, "broken": Broken}[name]
    return nn.Sequential(*(layer() for _ in range(layers)))


def measure(torch: Any, options: argparse.Namespace, variant: str, stop: Stop) -> tuple[Row, Any]:
    """The row of a variant and its answer. Raises Stopped, and what torch raises."""
    device = options.device
    torch.manual_seed(0)
    torch._dynamo.reset()
    kind = getattr(torch, options.dtype)
    model = build_model(torch, options.model, options.hidden, options.layers).to(device, kind)
    size = (options.batch, options.sequence, options.hidden)
    x, gradient = (torch.randn(size).to(device, kind) for _ in range(2))
    x.requires_grad_(options.backward)
    mode = {"mode": variant} if options.backend == "inductor" else {}
    step = model if variant == "eager" else torch.compile(model, backend=options.backend, **mode)

    def call() -> Any:
        if not options.backward:
            return step(x)
        x.grad = None
        model.zero_grad(set_to_none=True)
        out = step(x)
        out.backward(gradient)
        return out

    watch = Stopwatch(torch, device)
    with torch.set_grad_enabled(options.backward):
        synchronize(torch, device)
        began = time.perf_counter()
        call()
        synchronize(torch, device)
        first = time.perf_counter() - began
        watch.time_each(call, 10, stop.check)  # warm-up
        seconds = watch.time_each(call, options.num_iterations, stop.check)
        answer = [call().detach(), *([x.grad] if options.backward else [])]
    row = {"first_call_seconds": first, **summarize("seconds", seconds)}
    row["calls_per_second_median"] = 1 / row["seconds_median"]
    row["verdict"] = verdict_of_samples(row)
    return row, torch.cat([part.to("cpu", torch.float64).flatten() for part in answer])


def count_graphs(torch: Any, options: argparse.Namespace) -> tuple[int, list[str]]:
    """The number of graphs of the model, and the reasons of the breaks; at a small size."""
    torch._dynamo.reset()
    with torch.no_grad():
        model = build_model(torch, options.model, 64, options.layers)
        found = torch._dynamo.explain(model)(torch.randn(1, 8, 64))
    return found.graph_count, [str(one.reason).strip() for one in found.break_reasons]


def run(options: argparse.Namespace, stop: Stop, report: Report) -> None:
    """Measure eager and each mode into the report. Raises Stopped."""
    torch = import_torch()
    options.device = choose_device(torch, options.device)
    for name, sizes in SIZES.items():
        setattr(options, name, getattr(options, name) or sizes[options.device.type == "cpu"])
    report.details["header"] = describe_run(torch, options.device)
    report.details["settings"] = {name: getattr(options, name) for name in SETTINGS}
    names = options.modes if options.backend == "inductor" else [options.backend]
    kind = {"model": options.model, "dtype": options.dtype,
            "pass": "forward_backward" if options.backward else "forward"}  # fmt: skip
    graphs, breaks = count_graphs(torch, options)
    for reason in breaks:
        report.note(f"graph break: {reason.splitlines()[0]}")
    eager, expected = measure(torch, options, "eager", stop)
    eager |= {"answer_ok": True, "answer_error": 0.0, "speedup": 1.0}
    report.rows.append({**kind, "variant": "eager", **eager, **dict.fromkeys(OF_COMPILING)})
    for name in names:
        row = dict.fromkeys(report.rows[0]) | kind | {"variant": name, "verdict": "failed"}
        row |= {"graphs": graphs, "graph_breaks": len(breaks)}
        try:
            stop.check()
            measured, answer = measure(torch, options, name, stop)
            error = float((answer - expected).norm() / expected.norm())
            saved = eager["seconds_median"] - measured["seconds_median"]
            compiling = max(0.0, measured["first_call_seconds"] - measured["seconds_median"])
            row |= measured | {
                "compile_seconds": compiling,
                "speedup": eager["seconds_median"] / measured["seconds_median"],
                "break_even_calls": compiling / saved if saved > 0 else None,
                "answer_ok": error <= ERROR_LIMITS[options.dtype],
                "answer_error": error if math.isfinite(error) else None,
            }
            row["verdict"] = row["verdict"] if row["answer_ok"] else "WRONG ANSWER"
        except Stopped:
            raise
        except Exception as error:  # torch raises many kinds; the other modes may work
            report.note(f"{name} failed: {first_line(error)}")
        report.rows.append(row)
        report.save()


def print_results(rows: Sequence[Row]) -> None:
    cells = []
    for row in rows:
        names = ("seconds_median", "compile_seconds")
        median, compiling = (row[name] and format_seconds(row[name]) for name in names)
        spread, speedup, steps = row["spread"], row["speedup"], row["break_even_calls"]
        digits = earned(speedup, spread and speedup and spread * speedup)
        steps = steps and f"{float(f'{steps:.2g}'):,.0f}"
        cells.append((row["variant"], median, spread and f"{100 * spread:.1f}", digits, compiling,
                      steps, row["graphs"], row["graph_breaks"], row["verdict"]))  # fmt: skip
    headings = ("variant", "median", "IQR %", "speedup", "compile", "break-even, steps", "graphs",
                "breaks", "verdict")  # fmt: skip
    print(format_table(headings, cells))


def build_parser() -> Parser:
    parser = Parser(__doc__, "compile_bench", __version__, METHOD, PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    add("--model", choices=("mlp", "block", "broken"), default="block", help="(default: block)")
    for name, (large, small) in SIZES.items():
        add(f"--{name}", type=positive_int, help=f"(default: {large}, on a CPU {small})")
    add("--dtype", choices=tuple(ERROR_LIMITS), default="bfloat16", help="(default: bfloat16)")
    add("--backward", action="store_true", help="time the backward pass too")
    add("--modes", nargs="+", choices=MODES, default=["default"], help="(default: default)")
    add("--backend", choices=("inductor", "aot_eager"), default="inductor",
        help="(default: inductor)")
    add("--cache", type=Path, metavar="FOLDER", help="compiler cache to use (default: empty)")
    add("--num-iterations", type=positive_int, default=50, help="samples (default: 50)")
    add("--device", help="cuda:1, xpu, cpu (default: the accelerator, else the CPU)")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    if options.backend != "inductor" and options.modes != ["default"]:
        raise UsageError(f"--modes are for inductor, not for {options.backend}")
    report = Report("compile_bench", __version__, METHOD, options.json, COMPARE)
    with tempfile.TemporaryDirectory(prefix="compile_bench_", ignore_cleanup_errors=True) as folder:
        cache = (options.cache or Path(folder)).resolve()
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
        os.environ["TRITON_CACHE_DIR"] = str(cache / "triton")
        with until_stopped(report) as stop:
            run(options, stop, report)
    report.complete &= all(row["verdict"] != "failed" for row in report.rows)
    print_results(report.rows)
    report.save()
    return int(not report.complete or not all(row["answer_ok"] for row in report.rows))


if __name__ == "__main__":
    start(main)
