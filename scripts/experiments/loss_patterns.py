#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Which setting or mistake in training draws which loss curve?

A loss curve that looks wrong has few causes, and each draws its own picture. This tool makes the
mistakes on purpose, one at a time, in a network so small that each run takes seconds on one CPU
core. Compare your curve with its curves, change a number, and look again.

## Experiments

- `clip`: four bad batches with beta2 at 0.999: nothing done, gradients clipped, steps skipped
- `resume`: stopped and restarted: with everything, with the sampler reset, without Adam's moments
- `rate`: learning rates from too low to diverging, with and without warm-up
- `schedule`: constant learning rate, half a cosine, constant with a linear end
- `batch`: steps until a loss is reached, by batch size, the better of two learning rates
- `ramp`: a small batch, a large one, and one that grows, over the same number of symbols
- `init`: the standard deviation of the initial weights
- `epsilon`: Adam's epsilon
- `weights`: weights in bfloat16, rounded to nearest or stochastically, and in float32

## The runs

A made-up language: 120 words of two to six random letters; eight words may follow each of them. A
decoder with 2 layers, width 48, 4 heads and 59,664 weights reads windows of 32 symbols and predicts
the next one. A batch has 16 windows. Adam without weight decay. Which picture belongs to which
mistake carries over to large models; the numbers do not.

## Formulas

The loss is the cross-entropy in nats per symbol: ln 27 = 3.30 before training. Adam moves a weight
by at most about the learning rate per step, however large the gradient is:
`update = rate * first / (sqrt(second) + epsilon)`. The second moment remembers an unusually large
gradient for 1 / (1 - beta2) steps: 20 at 0.95, 1000 at 0.999. A bfloat16 has 8 significant bits: an
update below 1/512 of the weight is rounded away.

## What is measured

The mean training loss, the largest gradient norm, and the share of weights that an update did not
change, each since the previous reading; and the loss on 64 windows that no run trains on.

## How to run

    python loss_patterns.py --json loss.json
    python loss_patterns.py --experiment clip resume
    python loss_patterns.py --experiment rate --seed 1

## A good answer

With seed 0 on a CPU, the losses are those of the book to some digits: another version of torch adds
in another order. A pattern that only one seed shows is not one.

Exit status: 0 done; 1 the demo's runs did not end as they have to, or a signal; 2 wrong use.
"""

from __future__ import annotations

import functools
import io
import math
import random
import statistics
import string
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, natural_int, start
from kit.device import describe_run, import_torch
from kit.report import Progress, Report, Row, format_table
from kit.stop import Stop, Stopped

__version__ = "0.2.0"
METHOD = 1

PROFILES = {"demo": ["--experiment", "demo"], "full": []}
UNITS = dict.fromkeys(
    ("setting", "seed", "step", "symbols", "loss", "held_out_loss", "gradient_norm",
     "unchanged_share"), "1",
)  # fmt: skip
SYMBOLS, WINDOW, WIDTH, LAYERS, HEADS = 27, 32, 48, 2, 4
BETA1 = 0.9
POOL, HELD_OUT = 20480, 64
"""Windows to train on, and windows that no run trains on."""
BAD_SYMBOL = 17
"""A bad batch is this letter again and again."""


Options = dict[str, Any]


class Plan(NamedTuple):
    """What decides the losses of a run."""

    arm: str
    setting: float | None = None  # the number that is varied, if it is one
    seed: int = 0
    steps: int = 300
    symbols: float = math.inf  # end after so many
    target: float | None = None  # end when the held-out loss is this low
    batch: int = 16
    grows: tuple[int, int] | None = None  # first batch size, symbols over which it grows to `batch`
    rate: float = 1e-2
    warmup: int = 20
    decay: str = ""  # `cosine` down to a tenth, or `linear` over the last fifth of the steps
    beta2: float = 0.95
    epsilon: float = 1e-8
    clip: float = math.inf  # largest norm of a gradient
    skip: float = math.inf  # skip a gradient that is so many times the median of the last 20
    std: float = 0.02
    weights: str = "float32"  # or bfloat16, rounded to `nearest` or `stochastic`
    bad: range = range(0)  # steps with a bad batch
    stops: range = range(0)  # steps before which the run is stopped and restarted
    forgets: str = ""  # what a restart does not restore: `sampler` or `moments`
    every: int = 0  # steps between two readings; 0 reads the end alone
    read_from: int = 0


DEMO: Options = {"steps": 60, "batch": 4, "every": 20}
CLIP: Options = {"steps": 420, "beta2": 0.999, "every": 5, "read_from": 270, "bad": range(300, 304)}
RESUME: Options = {"steps": 800, "every": 10, "read_from": 380}
SCHEDULE: Options = {"steps": 480, "every": 10, "read_from": 100}
RAMP: Options = {"steps": 10_000, "symbols": 1024 * 300}
WEIGHTS: Options = {"steps": 600, "rate": 1e-3, "decay": "cosine", "every": 20}
OFTEN, RARELY = range(400, 660, 20), range(400, 800, 100)
SIZES = {2: (1600, 1e-3), 4: (1000, 3e-3), 8: (700, 3e-3), 16: (500, 3e-3), 32: (400, 1e-2),
         64: (320, 1e-2), 128: (200, 1e-2)}  # fmt: skip
"""Batch sizes with most steps and the lower of two learning rates."""
HIGHER = {1e-3: 3e-3, 3e-3: 1e-2, 1e-2: 3e-2}

EXPERIMENTS = {
    "demo": [
        Plan("never stopped", **DEMO),
        Plan("resumed whole", stops=range(20, 60, 10), **DEMO),
        Plan("moments lost", stops=range(20, 60, 10), forgets="moments", **DEMO),
    ],
    "clip": [
        Plan("nothing done", **CLIP),
        Plan("clipped to a norm of 1", clip=1.0, **CLIP),
        Plan("left out beyond 3 times the usual", skip=3.0, **CLIP),
    ],
    "resume": [
        Plan("never stopped", **RESUME),
        Plan("resumed whole", stops=OFTEN, **RESUME | {"every": 0}),
        Plan("sampler begins anew", stops=OFTEN, forgets="sampler", **RESUME),
        Plan("moments lost", stops=RARELY, forgets="moments", **RESUME),
    ],
    "rate": [
        Plan(arm, rate, rate=rate, warmup=warmup)
        for rate in (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)
        for arm, warmup in (("warm-up of 20 steps", 20), ("no warm-up", 0))
    ],
    "schedule": [
        Plan("constant", **SCHEDULE),
        Plan("half a cosine", decay="cosine", **SCHEDULE),
        Plan("constant, then linear", decay="linear", **SCHEDULE),
    ],
    "batch": [
        Plan(f"rate {rate:g}", size, steps=steps, batch=size, rate=rate, target=1.5, every=10)
        for size, (steps, lower) in SIZES.items()
        for rate in (lower, HIGHER[lower])
    ],
    "ramp": [
        Plan("batch of 4", batch=4, every=64, **RAMP),
        Plan("batch of 32", batch=32, every=8, **RAMP),
        Plan("4 growing to 32", batch=32, grows=(4, 512 * 300), every=16, **RAMP),
    ],
    "init": [
        Plan("300 steps", std, std=std)
        for std in (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    ],
    "epsilon": [
        Plan("300 steps", epsilon, epsilon=epsilon)
        for epsilon in (1e-12, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    ],
    "weights": [
        Plan("float32", **WEIGHTS),
        Plan("bfloat16, to nearest", weights="nearest", **WEIGHTS),
        Plan("bfloat16, stochastic", weights="stochastic", **WEIGHTS),
    ],
}


@functools.cache
def write_windows(torch: Any, count: int, seed: int) -> Any:
    """Windows of WINDOW + 1 symbols of one long text: 0 is a space, 1 to 26 are letters. Of the
    words that may follow a word, the first comes most often, as in languages."""
    chance = random.Random(7)
    words: dict[str, None] = {}
    while len(words) < 120:
        letters = [chance.choice(string.ascii_lowercase) for _ in range(chance.randint(2, 6))]
        words["".join(letters)] = None
    followers = {word: chance.sample(list(words), 8) for word in words}
    chance = random.Random(seed)
    symbols: list[int] = []
    word = chance.choice(list(words))
    while len(symbols) < count * (WINDOW + 1):
        symbols.extend([*(ord(letter) - 96 for letter in word), 0])
        word = chance.choices(followers[word], [1 / place for place in range(1, 9)])[0]
    return torch.tensor(symbols[: count * (WINDOW + 1)]).view(count, WINDOW + 1)


def list_shapes() -> dict[str, tuple[int, ...]]:
    """Name and shape of each weight of the network."""
    shapes: dict[str, tuple[int, ...]] = {"token": (SYMBOLS, WIDTH), "position": (WINDOW, WIDTH)}
    for layer in range(LAYERS):
        shapes |= {
            f"{layer}.norm": (WIDTH,),
            f"{layer}.qkv": (3 * WIDTH, WIDTH),
            f"{layer}.out": (WIDTH, WIDTH),
            f"{layer}.mlp_norm": (WIDTH,),
            f"{layer}.up": (4 * WIDTH, WIDTH),
            f"{layer}.down": (WIDTH, 4 * WIDTH),
        }
    return shapes | {"last_norm": (WIDTH,), "head": (SYMBOLS, WIDTH)}


def make_weights(torch: Any, seed: int, std: float) -> Any:
    """All weights in one vector: norms are one, everything else is normally distributed."""
    generator = torch.Generator().manual_seed(seed)
    parts = [
        torch.ones(shape) if len(shape) == 1 else torch.randn(shape, generator=generator).mul_(std)
        for shape in list_shapes().values()
    ]
    return torch.cat([part.flatten() for part in parts])


def compute_loss(torch: Any, weights: Any, windows: Any) -> Any:
    """The cross-entropy of a decoder with pre-norm, in nats per symbol."""
    functional = torch.nn.functional
    shapes = list_shapes()
    parts = weights.split([math.prod(shape) for shape in shapes.values()])
    named = {n: part.view(s) for (n, s), part in zip(shapes.items(), parts, strict=True)}
    x = named["token"][windows[:, :-1]] + named["position"]
    for layer in range(LAYERS):
        normed = functional.layer_norm(x, (WIDTH,), named[f"{layer}.norm"])
        mixed = functional.linear(normed, named[f"{layer}.qkv"])
        query, key, value = mixed.view(len(x), WINDOW, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        heads = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        joined = heads.transpose(1, 2).reshape(x.shape)
        x = x + functional.linear(joined, named[f"{layer}.out"])
        normed = functional.layer_norm(x, (WIDTH,), named[f"{layer}.mlp_norm"])
        wide = functional.gelu(functional.linear(normed, named[f"{layer}.up"]))
        x = x + functional.linear(wide, named[f"{layer}.down"])
    x = functional.layer_norm(x, (WIDTH,), named["last_norm"])
    logits = functional.linear(x, named["head"]).transpose(1, 2)
    losses = functional.cross_entropy(logits, windows[:, 1:], reduction="none")
    return losses.mean(dim=1).mean()


def compute_rate(plan: Plan, step: int) -> float:
    """The learning rate of a step, counted from 0."""
    if step < plan.warmup:
        return plan.rate * (step + 1) / plan.warmup
    if plan.decay == "cosine":
        done = (step - plan.warmup) / max(1, plan.steps - plan.warmup)
        return plan.rate * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))
    if plan.decay == "linear":
        return plan.rate * max(0.01, min(1.0, (plan.steps - step) / (0.2 * plan.steps)))
    return plan.rate


def round_to_bfloat16(torch: Any, values: Any, generator: Any | None) -> Any:
    """float32 values that bfloat16 can represent: the nearest, or with a generator one of the two
    neighbours, the nearer the likelier: noise in the lower half of the bits carries over or not."""
    if generator is None:
        return values.to(torch.bfloat16).to(torch.float32)
    bits = values.view(torch.int32)
    noise = torch.randint(0, 1 << 16, bits.shape, generator=generator, dtype=torch.int32)
    return ((bits + noise) & -(1 << 16)).view(torch.float32)


def train(torch: Any, plan: Plan, stop: Stop) -> Iterator[Row]:
    """Train as planned; the readings, the last of them with how it ended. Raises Stopped."""
    pool, held_out = write_windows(torch, POOL, 1), write_windows(torch, HELD_OUT, 2)
    chance = torch.Generator().manual_seed(plan.seed) if plan.weights == "stochastic" else None
    weights = make_weights(torch, plan.seed, plan.std)
    first = second = torch.zeros_like(weights)
    updates, position, symbols = 0, 1000 * plan.seed, 0
    norms: list[float] = []
    seen: list[tuple[float, float, float]] = []
    for step in range(plan.steps):
        stop.check()
        if step in plan.stops:
            file = io.BytesIO()
            torch.save((weights, first, second, updates, position), file)
            file.seek(0)
            weights, first, second, updates, position = torch.load(file)
            if plan.forgets == "sampler":
                position = 1000 * plan.seed
            elif plan.forgets == "moments":
                first, second, updates = torch.zeros_like(first), torch.zeros_like(second), 0
        size = plan.batch
        if plan.grows:
            small, over = plan.grows
            size = int(small + (plan.batch - small) * min(1.0, symbols / over))
        batch = pool[torch.arange(position, position + size) % POOL]
        if step in plan.bad:
            batch = torch.full_like(batch, BAD_SYMBOL)
        leaf = weights.clone().requires_grad_()
        loss = compute_loss(torch, leaf, batch)
        loss.backward()
        gradient, norm = leaf.grad, float(leaf.grad.norm())
        usual = statistics.median(norms[-20:]) if len(norms) >= 20 else math.inf
        norms.append(norm)
        unchanged = 0.0
        if math.isfinite(norm) and norm <= plan.skip * usual:
            if norm > plan.clip:
                gradient = gradient * (plan.clip / norm)
            updates += 1
            first = BETA1 * first + (1 - BETA1) * gradient
            second = plan.beta2 * second + (1 - plan.beta2) * gradient.square()
            size_of_step = (second / (1 - plan.beta2**updates)).sqrt() + plan.epsilon
            rate = compute_rate(plan, step) / (1 - BETA1**updates)
            before, weights = weights, weights - rate * first / size_of_step
            if plan.weights != "float32":
                weights = round_to_bfloat16(torch, weights, chance)
                unchanged = float((weights == before).float().mean())
        position += size
        symbols += size * WINDOW
        seen.append((float(loss.detach()), norm, unchanged))
        is_last = step + 1 == plan.steps or symbols >= plan.symbols
        if not is_last and (plan.every == 0 or (step + 1) % plan.every):
            continue
        with torch.no_grad():
            reached = float(compute_loss(torch, weights, held_out))
        ended = "done" if is_last else ""
        if plan.target is not None and reached <= plan.target:
            ended = "target"
        elif is_last and not math.isfinite(reached):
            ended = "diverged"
        losses, largest, shares = zip(*seen, strict=True)
        seen.clear()
        if ended or (step + 1 >= plan.read_from and plan.target is None):
            yield {
                "arm": plan.arm,
                "setting": plan.setting,
                "seed": plan.seed,
                "step": step + 1,
                "symbols": symbols,
                "loss": finite(statistics.fmean(losses)),
                "held_out_loss": finite(reached),
                "gradient_norm": finite(max(largest)),
                "unchanged_share": statistics.fmean(shares) if plan.weights != "float32" else None,
                "ended": ended,
            }
        if ended:
            return


def finite(value: float) -> float | None:
    """The value, or None for infinity and NaN, which JSON does not have."""
    return value if math.isfinite(value) else None


def print_results(rows: Sequence[Row]) -> None:
    """Print how each run ended."""
    names = ("experiment", "arm", "setting", "step", "loss", "held_out_loss", "ended")
    cells = [[row[name] for name in names] for row in rows if row["ended"]]
    cells = [[f"{c:.4g}" if isinstance(c, float) else c for c in row] for row in cells]
    print(format_table(names, cells))


def check_demo(rows: Sequence[Row]) -> bool:
    """True if a run that was resumed with everything is the same to the last bit, and one that lost
    Adam's moments ends higher."""
    never, whole, lost = (row["held_out_loss"] for row in rows if row["ended"])
    return bool(never == whole and never + 0.05 < lost)


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(
        __doc__, tool="loss_patterns", version=__version__, method=METHOD, demo=PROFILES["demo"]
    )
    names = list(EXPERIMENTS)
    parser.add_argument(
        "--experiment", nargs="+", choices=names, default=names[1:], help="(default: all but demo)"
    )
    parser.add_argument("--seed", type=natural_int, default=0, help="(default: 0)")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    options = build_parser().parse_args(arguments)
    report = Report("loss_patterns", __version__, METHOD, UNITS, options.json)
    torch = import_torch()
    torch.set_num_threads(1)  # the same sums in the same order on every machine of a kind
    report.details["header"] = describe_run(torch, torch.device("cpu"))
    stop = Stop()
    stop.listen()
    progress = Progress(sum(len(EXPERIMENTS[name]) for name in options.experiment), "runs")
    done = 0
    try:
        for name in options.experiment:
            for plan in EXPERIMENTS[name]:
                progress.show(done, f"{name}: {plan.arm}")
                seeded = plan._replace(seed=options.seed)
                rows = [{"experiment": name, **row} for row in train(torch, seeded, stop)]
                report.rows += rows
                done += 1
            report.save()
        report.complete = True
    except Stopped as stopped:
        report.note(f"{stopped}, after {done} runs")
    finally:
        progress.close()
    print_results(report.rows)
    report.save()
    return int(not report.complete or (options.demo and not check_demo(report.rows)))


if __name__ == "__main__":
    start(main)
