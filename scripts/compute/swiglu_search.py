#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Which width near 8/3 of the hidden size makes a SwiGLU MLP fastest on this accelerator?

To keep the parameters of a plain MLP, d_ff is 8/3 of the hidden size: 10922 for 4096. A width that
fits the tiles of the matrix units badly can cost a third of the speed.

## Formulas

`out = (silu(x @ G) * (x @ U)) @ D` with x of tokens x h, G and U of h x d_ff, D of d_ff x h.
`parameters = 3 * h * d_ff`; forward takes `2 * 3 * tokens * h * d_ff` FLOPs, with backward three
times as many. With tensor parallelism each of tp ranks holds d_ff / tp columns, and that share has
to be aligned: to 8 for loads of 16 bytes, 64 for whole cache lines, 128 or 256 for whole tiles.

## What is timed

The three matmuls and the activation of one rank, forward, or with `--mode fwd_bwd` forward and
backward, between two device events, or by the host clock on a CPU. Widths are visited in `--rounds`
rounds, each in another order, so that slow heating affects all equally. Not timed: warm-up,
communication, and the check of each answer against float64.

## How to run

    python swiglu_search.py --hidden 4096 --mode fwd_bwd
    srun --gpus 1 python swiglu_search.py --hidden 8192 --tp 8 --window 512 --json swiglu.json

## A good answer

The best few widths are multiples of 64 or more, are within a percent of each other, and stay the
best when the run is repeated. Use the number of tokens that one rank really has.

Exit status: 0 done; 1 a wrong answer, a rate above `--peak`, or a signal; 2 usage error.
"""

import argparse
import itertools
import math
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, natural_int, positive_float, positive_int, start
from kit.device import choose_device, describe_run, import_torch
from kit.report import Progress, Report, Row, format_table
from kit.stats import scaled, summarize, verdict_of_samples
from kit.stop import Stop, until_stopped
from kit.timing import Stopwatch

__version__ = "0.2.0"
METHOD = 1

PROFILES = {
    "demo": ["--device", "cpu", "--hidden", "192", "--batch-tokens", "64", "--window", "32",
             "--step", "16", "--dtype", "float32", "--num-iterations", "8"],
    "full": ["--hidden", "4096", "--window", "256"],
}  # fmt: skip
GPUS = {"full": 1}
COMPARE = {
    "keys": ["dtype", "mode", "hidden", "tp", "batch_tokens", "d_ff"],
    "value": "flops_per_second_median", "better": "higher", "spread": "spread",
    "trusted": {"verdict": ["ok", "unsteady"]},
    "alike": ["details.header.device_kind", "details.header.device_model",
              "details.header.threads"],
}  # fmt: skip
ERROR_LIMITS = {"bfloat16": 2e-2, "float16": 1e-2, "float32": 1e-3}
"""Largest relative error (Frobenius norm): three matmuls in a row, rounded to the data type."""
PRINTED = 6


def list_widths(hidden: int, tp: int, window: int, step: int) -> list[int]:
    """8/3 of the hidden size, rounded down to a multiple of tp; then all widths in the window
    around it whose share per rank is a multiple of `step`."""
    baseline, unit = 8 * hidden // 3 // tp * tp, step * tp
    first = -(-max(unit, baseline - window) // unit) * unit
    widths = [width for width in range(first, baseline + window + 1, unit) if width != baseline]
    if not baseline or not widths:
        raise UsageError(f"--window {window} has no multiple of --step times --tp, {unit}")
    return [baseline, *widths]


def measure(
    torch: Any, watch: Stopwatch, options: argparse.Namespace, width: int, stop: Stop
) -> tuple[list[float], float]:
    """Seconds of each call at a width, and the relative error of the answer. Raises Stopped."""
    functional = torch.nn.functional
    share, is_training = width // options.tp, options.mode == "fwd_bwd"
    kind = {"dtype": getattr(torch, options.dtype), "device": watch.device}

    def make(rows: int, columns: int, scale: float) -> Any:
        return (torch.randn(rows, columns, **kind) * scale).requires_grad_(is_training)

    # Scaled as layers are when training begins, so that float16 does not overflow.
    x = make(options.batch_tokens, options.hidden, 1.0)
    gate, up = (make(share, options.hidden, options.hidden**-0.5) for _ in range(2))
    down = make(options.hidden, share, share**-0.5)
    gradient = torch.randn_like(x)

    def forward() -> Any:
        gated = functional.silu(functional.linear(x, gate)) * functional.linear(x, up)
        return functional.linear(gated, down)

    def call() -> None:
        if is_training:
            torch.autograd.grad(forward(), (x, gate, up, down), gradient)
        else:
            forward()

    with torch.set_grad_enabled(is_training):
        watch.time_each(call, options.num_warmup_iterations, stop.check)
        seconds = watch.time_each(call, options.num_iterations, stop.check)
    with torch.no_grad():
        parts = (forward()[-2:], x[-2:], gate, up, down)  # two tokens are enough to find a fault
        found, x, gate, up, down = (part.to("cpu", torch.float64) for part in parts)
        expected = forward()
    return seconds, float((found - expected).norm() / expected.norm())


def make_row(
    options: argparse.Namespace, width: int, seconds: Sequence[float], error: float
) -> Row:
    """The row of a width, from the samples of all rounds."""
    share = width // options.tp
    passes = 3 if options.mode == "fwd_bwd" else 1  # backward takes twice the FLOPs of forward
    flops = passes * 2 * 3 * options.batch_tokens * options.hidden * share
    names = ("dtype", "mode", "hidden", "tp", "batch_tokens")
    row: Row = {
        **{name: getattr(options, name) for name in names},
        "d_ff": width,
        "d_ff_per_rank": share,
        "alignment": min(256, share & -share),  # the largest power of two that divides it
        "parameters": 3 * options.hidden * width,
        "operations": flops,
        **summarize("seconds", seconds),
        "answer_error": error if math.isfinite(error) else None,
        "answer_ok": error <= ERROR_LIMITS[options.dtype],
    }
    row["flops_per_second_median"] = flops / row["seconds_median"]
    row["flops_per_second_max"] = flops / row["seconds_min"]
    row["above_peak"] = options.peak and row["flops_per_second_max"] > options.peak * 1e12
    verdict = "above peak" if row["above_peak"] else verdict_of_samples(row)
    row["verdict"] = verdict if row["answer_ok"] else "WRONG ANSWER"
    return row


def run(options: argparse.Namespace, widths: Sequence[int], report: Report) -> None:
    """Measure all widths, round by round, into the report."""
    torch = import_torch()
    device = choose_device(torch, options.device)
    options.batch_tokens = options.batch_tokens or (256 if device.type == "cpu" else 16384)
    watch = Stopwatch(torch, device)
    torch.manual_seed(0)
    report.details["header"] = describe_run(torch, device, timer=watch.clock)
    samples: dict[int, list[float]] = {}
    errors: dict[int, float] = {}
    progress = Progress(len(widths) * options.rounds, "measurements")
    orders = [random.Random(n).sample(widths, len(widths)) for n in range(options.rounds)]
    with until_stopped(report) as stop:
        for number, width in enumerate(itertools.chain(*orders), 1):
            seconds, errors[width] = measure(torch, watch, options, width, stop)
            samples.setdefault(width, []).extend(seconds)
            progress.show(number, f"d_ff {width}")
    progress.close()
    rows = {width: make_row(options, width, samples[width], errors[width]) for width in samples}
    base = rows.get(widths[0], {}).get("flops_per_second_median")
    for width, row in sorted(rows.items()):
        relative = row["flops_per_second_median"] / base - 1 if base else None
        report.rows.append({**row, "is_baseline": width == widths[0], "relative": relative})


def print_results(report: Report) -> bool:
    """Print the table and notes; True if the numbers can be used."""
    rows = report.rows
    largest = max((row["flops_per_second_max"] for row in rows), default=0.0)
    unit, factor = ("TFLOPS", 1e12) if largest >= 1e12 else ("GFLOPS", 1e9)
    order = sorted(rows, key=lambda r: (not r["is_baseline"], -r["flops_per_second_median"]))
    cells = []
    for row in order[:PRINTED]:
        width = f"{row['d_ff']}{' (8/3)' if row['is_baseline'] else ''}"
        rate = scaled(row, "flops_per_second_median", factor)
        shares = [row[n] and f"{100 * row[n]:.1f}" for n in ("relative", "spread")]
        cells.append((width, row["d_ff_per_rank"], row["alignment"], rate, *shares,
                      f"{row['parameters']:,}", row["verdict"]))  # fmt: skip
    headings = ("d_ff", "per rank", "multiple of", f"median, {unit}", "% from 8/3", "IQR %",
                "MLP parameters", "verdict")  # fmt: skip
    print(format_table(headings, cells))
    report.note("a share should be a multiple of 8 (16-byte loads), 64 (cache lines), 128 (tiles)")
    return bool(rows) and all(row["answer_ok"] and not row["above_peak"] for row in rows)


def build_parser() -> Parser:
    parser = Parser(__doc__, "swiglu_search", __version__, METHOD, PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    add("--hidden", type=positive_int, default=4096, help="hidden size (default: 4096)")
    add("--tp", type=positive_int, default=1, help="tensor-parallel ranks (default: 1)")
    add("--batch-tokens", type=positive_int,
        help="tokens per call: batch times sequence (default: 16384, on a CPU 256)")
    add("--dtype", choices=tuple(ERROR_LIMITS), default="bfloat16", help="(default: bfloat16)")
    add("--mode", choices=("fwd", "fwd_bwd"), default="fwd", help="what is timed (default: fwd)")
    add("--window", type=positive_int, default=128, help="largest distance from 8/3 (default: 128)")
    add("--step", type=positive_int, default=8, help="d_ff / tp is a multiple of this (default: 8)")
    add("--num-iterations", type=positive_int, default=20, help="samples per round (default: 20)")
    add("--num-warmup-iterations", type=natural_int, default=10, help="(default: 10)")
    add("--rounds", type=positive_int, default=3, help="visits to each width (default: 3)")
    add("--peak", type=positive_float, metavar="TFLOPS", help="dense peak: flags rates above it")
    add("--device", help="cuda:1, xpu, cpu (default: the accelerator, else the CPU)")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    widths = list_widths(options.hidden, options.tp, options.window, options.step)
    units = {"operations": "FLOP"}
    report = Report("swiglu_search", __version__, METHOD, options.json, COMPARE, units)
    run(options, widths, report)
    usable = print_results(report)
    report.save()
    return int(not usable or not report.complete)


if __name__ == "__main__":
    start(main)
