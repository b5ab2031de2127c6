#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Which setting or mistake in training causes which loss curve?

A loss curve that looks wrong has few causes, and each gives it another shape. This tool makes the
mistakes on purpose, one at a time, in a network so small that each run takes seconds on one CPU
core.

- `clip`: four bad batches with beta2 at 0.999: nothing done, gradients clipped, steps skipped
- `resume`: stopped and restarted: with everything, with the sampler reset, without Adam's moments
- `rate`: learning rates from too low to diverging, with and without warm-up
- `weights`: weights in bfloat16, rounded to nearest or stochastically, and in float32

The language is made up: 120 words of two to six random letters; eight words may follow each of
them. A decoder with 2 layers, width 48, 4 heads and 59,664 weights reads windows of 32 symbols and
predicts the next one; before training its loss is ln 27 = 3.30 nats per symbol. Which picture
belongs to which mistake carries over to large models; the numbers do not.

## What is measured

The mean training loss since the previous reading, and the loss on 64 windows that no run trains on.

## How to run

    python loss_patterns.py --experiment clip resume --json loss.json
    python loss_patterns.py --experiment rate --seed 1

## A good answer

With seed 0 on a CPU, the losses are those of the book to some digits: another version of torch adds
in another order. A pattern that only one seed shows is not one.

Exit status: 0 done; 1 the demo's runs did not end as they have to, or a signal; 2 usage error.
"""

import functools
import io
import math
import random
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, natural_int, start
from kit.device import describe_run, import_torch
from kit.report import Report, Row, format_table
from kit.stop import Stop, until_stopped

__version__ = "0.2.0"
METHOD = 1
PROFILES = {"demo": ["--experiment", "demo"], "full": []}
SYMBOLS, WINDOW, WIDTH, LAYERS, HEADS = 27, 32, 48, 2, 4
BETA1, EPSILON = 0.9, 1e-8
POOL, HELD_OUT = 20480, 64  # windows to train on, and windows that no run trains on


class Plan(NamedTuple):
    """What decides the losses of a run."""

    arm: str
    setting: float | None = None  # the number that is varied, if it is one
    steps: int = 300
    batch: int = 16
    rate: float = 1e-2
    warmup: int = 20
    decay: str = ""  # `cosine`: down to a tenth
    beta2: float = 0.95
    clip: float = math.inf  # largest norm of a gradient
    skip: float = math.inf  # skip a gradient that is so many times the median of the last 20
    weights: str = "float32"  # or bfloat16, rounded to `nearest` or `stochastic`
    bad: range = range(0)  # steps with a bad batch
    stops: range = range(0)  # steps before which the run is stopped and restarted
    forgets: str = ""  # what a restart does not restore: `sampler` or `moments`
    every: int = 0  # steps between two readings; 0 reads the end alone
    read_from: int = 0


DEMO: Row = {"steps": 60, "batch": 4, "every": 20}
CLIP: Row = {"steps": 420, "beta2": 0.999, "every": 5, "read_from": 270, "bad": range(300, 304)}
RESUME: Row = {"steps": 800, "every": 10, "read_from": 380}
WEIGHTS: Row = {"steps": 600, "rate": 1e-3, "decay": "cosine", "every": 20}
OFTEN, RARELY = range(400, 660, 20), range(400, 800, 100)

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
        letters = (chr(97 + chance.randrange(26)) for _ in range(chance.randint(2, 6)))
        words["".join(letters)] = None
    followers = {word: chance.sample(list(words), 8) for word in words}
    chance = random.Random(seed)
    symbols: list[int] = []
    word = chance.choice(list(words))
    while len(symbols) < count * (WINDOW + 1):
        symbols.extend([*(ord(letter) - 96 for letter in word), 0])
        word = chance.choices(followers[word], [1 / place for place in range(1, 9)])[0]
    return torch.tensor(symbols[: count * (WINDOW + 1)]).view(count, WINDOW + 1)


BLOCK = {"norm": (WIDTH,), "qkv": (3 * WIDTH, WIDTH), "out": (WIDTH, WIDTH), "mlp_norm": (WIDTH,),
         "up": (4 * WIDTH, WIDTH), "down": (WIDTH, 4 * WIDTH)}  # fmt: skip
SHAPES: dict[str, tuple[int, ...]] = {
    "token": (SYMBOLS, WIDTH),
    "position": (WINDOW, WIDTH),
    **{f"{i}.{name}": shape for i in range(LAYERS) for name, shape in BLOCK.items()},
    "last_norm": (WIDTH,),
    "head": (SYMBOLS, WIDTH),
}
"""Name and shape of each weight of the network."""


def make_weights(torch: Any, seed: int) -> Any:
    """All weights in one vector: norms are one, everything else is normally distributed."""
    generator = torch.Generator().manual_seed(seed)
    parts = [
        torch.ones(shape) if len(shape) == 1 else torch.randn(shape, generator=generator).mul_(0.02)
        for shape in SHAPES.values()
    ]
    return torch.cat([part.flatten() for part in parts])


def compute_loss(torch: Any, weights: Any, windows: Any) -> Any:
    """The cross-entropy of a decoder with pre-norm, in nats per symbol."""
    functional = torch.nn.functional
    parts = weights.split([math.prod(shape) for shape in SHAPES.values()])
    named = {n: part.view(s) for (n, s), part in zip(SHAPES.items(), parts, strict=True)}
    x = named["token"][windows[:, :-1]] + named["position"]
    for layer in range(LAYERS):
        normed = functional.layer_norm(x, (WIDTH,), named[f"{layer}.norm"])
        mixed = functional.linear(normed, named[f"{layer}.qkv"])
        query, key, value = mixed.view(len(x), WINDOW, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        heads = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + functional.linear(heads.transpose(1, 2).reshape(x.shape), named[f"{layer}.out"])
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
    return plan.rate


def round_to_bfloat16(torch: Any, values: Any, generator: Any | None) -> Any:
    """float32 values that bfloat16 can represent: the nearest, or with a generator one of the two
    neighbours, the nearer the likelier: noise in the lower half of the bits carries over or not."""
    if generator is None:
        return values.to(torch.bfloat16).to(torch.float32)
    bits = values.view(torch.int32)
    noise = torch.randint(0, 1 << 16, bits.shape, generator=generator, dtype=torch.int32)
    return ((bits + noise) & -(1 << 16)).view(torch.float32)


def train(torch: Any, plan: Plan, seed: int, stop: Stop) -> Iterator[Row]:
    """Train as planned; the readings, the last of them with how it ended. Raises Stopped."""
    pool, held_out = write_windows(torch, POOL, 1), write_windows(torch, HELD_OUT, 2)
    chance = torch.Generator().manual_seed(seed) if plan.weights == "stochastic" else None
    weights = make_weights(torch, seed)
    first = second = torch.zeros_like(weights)
    updates, position = 0, 1000 * seed
    norms: list[float] = []
    losses: list[float] = []
    for step in range(plan.steps):
        stop.check()
        if step in plan.stops:
            file = io.BytesIO()
            torch.save((weights, first, second, updates, position), file)
            file.seek(0)
            weights, first, second, updates, position = torch.load(file)
            if plan.forgets == "sampler":
                position = 1000 * seed
            elif plan.forgets == "moments":
                first, second, updates = torch.zeros_like(first), torch.zeros_like(second), 0
        batch = pool[torch.arange(position, position + plan.batch) % POOL]
        if step in plan.bad:
            batch = torch.full_like(batch, 17)  # the same letter again and again
        leaf = weights.clone().requires_grad_()
        loss = compute_loss(torch, leaf, batch)
        loss.backward()
        gradient, norm = leaf.grad, float(leaf.grad.norm())
        usual = statistics.median(norms[-20:]) if len(norms) >= 20 else math.inf
        norms.append(norm)
        if math.isfinite(norm) and norm <= plan.skip * usual:
            if norm > plan.clip:
                gradient = gradient * (plan.clip / norm)
            updates += 1
            first = BETA1 * first + (1 - BETA1) * gradient
            second = plan.beta2 * second + (1 - plan.beta2) * gradient.square()
            size_of_step = (second / (1 - plan.beta2**updates)).sqrt() + EPSILON
            rate = compute_rate(plan, step) / (1 - BETA1**updates)
            weights = weights - rate * first / size_of_step
            if plan.weights != "float32":
                weights = round_to_bfloat16(torch, weights, chance)
        position += plan.batch
        losses.append(float(loss.detach()))
        is_last = step + 1 == plan.steps
        if not is_last and (plan.every == 0 or (step + 1) % plan.every):
            continue
        reached = float(compute_loss(torch, weights, held_out))
        row: Row = {"arm": plan.arm, "setting": plan.setting, "seed": seed, "step": step + 1}
        readings = {"loss": statistics.fmean(losses), "held_out_loss": reached}
        row |= {name: one if math.isfinite(one) else None for name, one in readings.items()}
        row["ended"] = ("done" if math.isfinite(reached) else "diverged") if is_last else ""
        if is_last or step + 1 >= plan.read_from:
            yield row
        losses.clear()


def build_parser() -> Parser:
    parser = Parser(__doc__, "loss_patterns", __version__, METHOD, PROFILES["demo"])
    more = {"default": list(EXPERIMENTS)[1:], "help": "(default: all but demo)"}
    parser.add_argument("--experiment", nargs="+", choices=list(EXPERIMENTS), **more)
    parser.add_argument("--seed", type=natural_int, default=0, help="(default: 0)")
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    report = Report("loss_patterns", __version__, METHOD, options.json)
    torch = import_torch()
    torch.set_num_threads(1)  # the same sums in the same order on every machine of a kind
    report.details["header"] = describe_run(torch, torch.device("cpu"))
    with until_stopped(report) as stop:
        for name in options.experiment:
            for plan in EXPERIMENTS[name]:
                rows = train(torch, plan, options.seed, stop)
                report.rows += [{"experiment": name, **row} for row in rows]
    names = ("experiment", "arm", "setting", "step", "loss", "held_out_loss", "ended")
    cells = [[row[name] for name in names] for row in report.rows if row["ended"]]
    cells = [[f"{c:.4g}" if isinstance(c, float) else c for c in row] for row in cells]
    print(format_table(names, cells))
    report.save()
    if options.demo and report.complete:  # the same to the last bit, and higher without moments
        never, whole, lost = (row["held_out_loss"] for row in report.rows if row["ended"])
        return int(never != whole or never + 0.05 > lost)
    return int(not report.complete)


if __name__ == "__main__":
    start(main)
