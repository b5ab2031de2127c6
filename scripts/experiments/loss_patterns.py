#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Which mistake in training draws which loss curve, and how soon does the curve come back?

A loss curve that looks wrong has few causes, and each draws its own picture. This tool makes the
mistakes on purpose, one at a time, in a network so small that each run takes seconds on one CPU
core: compare your curve with its curves, change a number, and look again.

Experiments
    spike       bad batches, or a learning rate that is too high for ten steps: back at once, back
                slowly, never back
    clip        four bad batches with Adam's beta2 at 0.999: nothing done, clipped, left out
    mixed       two languages in one run, noise for a while in one of them
    resume      stopped and started: whole, with a sampler that begins anew, without Adam's moments
    rate        learning rates from too low to diverging, with and without warm-up
    schedule    constant, half a cosine, and constant with a linear end
    batch       steps until a loss is reached, by batch size; the better of two learning rates
    ramp        a small batch, a large one, and one that grows, over the same number of symbols
    init        the standard deviation of the first weights
    epsilon     Adam's epsilon
    precision   float16, bfloat16 and float32, by what the loss is multiplied with
    weights     weights kept in bfloat16: rounded to nearest, stochastically, or kept in float32
    seeds       the same run with eight seeds, for two values of beta2

The run
    A made-up language: 120 words of two to six random letters, after each of them eight words may
    follow. A decoder of 2 layers, width 48, 4 heads and 59664 weights reads windows of 32 symbols,
    and predicts the next; 16 windows are a batch. Adam, no weight decay. All steps of a run see new
    text unless its mistake is to repeat it. All of this is a toy: which picture belongs to which
    mistake carries over to large models, the numbers do not.
Physics
    The loss is the cross-entropy in nats per symbol: ln 27 = 3.30 before anything is learnt. Adam
    moves a weight by at most about the learning rate in a step, however large the gradient is:
    update = rate * first moment / (sqrt(second moment) + epsilon). After one gradient G times the
    usual the second moment remembers it for 1 / (1 - beta2) steps: 20 at 0.95, 1000 at 0.999.
    The smallest float16 is 2^-24 = 6e-8, the largest 65504; what is smaller is 0. A bfloat16 has 8
    bits: an update below 1/512 of the weight is rounded away.
What is measured
    Mean training loss, largest norm of the gradient, share of the gradient that is exactly 0, and
    share of weights that an update did not change, each since the reading before; and the loss of
    64 windows that no run trains on. Nothing is timed.

How to run
    all of it     python loss_patterns.py --json loss.json
    one           python loss_patterns.py --experiment spike clip
    another seed  python loss_patterns.py --experiment rate --seed 1
                      a pattern that one seed alone shows is none
    Slurm         srun --ntasks=1 python loss_patterns.py --json loss.json
    pdsh          pdsh -w node01 python /shared/loss_patterns.py --experiment resume

A good answer: each experiment ends with what it was made to show, as `shown`; what this run did not
show is told on stderr, with status 1. With the seed 0, on a CPU, the losses are those of the book
to some digits: another version of torch adds in another order.

Ctrl-C, SIGTERM and SIGUSR1 keep the runs that are done.

Exit status: 0 done, 1 an experiment did not show what it is for, or stopped by a signal, 2 wrong
use. Seen running so far: on CPUs.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import functools
import json
import math
import os
import platform
import random
import re
import signal
import statistics
import string
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {"toy": ["--experiment", "mixed"], "full": []}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "setting": "1",
    "seed": "1",
    "step": "1",
    "symbols": "1",
    "loss": "1",
    "held_out_loss": "1",
    "gradient_norm": "1",
    "zero_gradient_share": "1",
    "unchanged_share": "1",
}

SYMBOLS = 27
WINDOW = 32
WIDTH = 48
LAYERS = 2
HEADS = 4
BETA1 = 0.9
FOLLOWERS = 8
# The first follower comes most often, as in languages.
FOLLOWER_WEIGHTS = tuple(1 / (place + 1) for place in range(FOLLOWERS))
POOL = 20480
HELD_OUT = 64
# Seed and number of words.
LANGUAGE, SECOND_LANGUAGE = (7, 120), (8, 20)
# A bad batch: one letter again and again, or noise.
BAD_SYMBOL = 17
# Steps whose median norm is the usual size of a gradient.
USUAL_STEPS = 20

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


class Words:
    """A made-up language: words of random letters, and of each word those that may follow it."""

    def __init__(self, seed: int, count: int) -> None:
        chance = random.Random(seed)
        words: dict[str, None] = {}
        while len(words) < count:
            letters = [chance.choice(string.ascii_lowercase) for _ in range(chance.randint(2, 6))]
            words["".join(letters)] = None
        self.words = list(words)
        self.followers = {word: chance.sample(self.words, FOLLOWERS) for word in self.words}

    def write_windows(self, torch: Any, count: int, seed: int) -> Any:
        """So many windows of WINDOW + 1 symbols of one long text: 0 is a space, 1 to 26 letters."""
        chance = random.Random(seed)
        needed = count * (WINDOW + 1)
        symbols: list[int] = []
        word = chance.choice(self.words)
        while len(symbols) < needed:
            symbols.extend([*(ord(letter) - 96 for letter in word), 0])
            word = chance.choices(self.followers[word], FOLLOWER_WEIGHTS)[0]
        return torch.tensor(symbols[:needed]).view(count, WINDOW + 1)


@functools.cache
def get_windows(torch: Any, language: tuple[int, int], device: Any) -> tuple[Any, Any]:
    """The windows of a language to train on, and those that are held out."""
    words = Words(*language)
    pools = (words.write_windows(torch, POOL, 1), words.write_windows(torch, HELD_OUT, 2))
    return pools[0].to(device), pools[1].to(device)


class TrainingPlan(NamedTuple):
    """One training run: what decides its losses, and how often they are read."""

    experiment: str
    arm: str
    setting: float | None = None
    """The number that is varied, where it is one."""
    seed: int = 0
    steps: int = 300
    symbols: int | None = None
    """End after so many symbols, whatever the steps."""
    batch: int = 16
    grows: tuple[int, int] | None = None
    """The first batch size, and the symbols over which it grows to `batch`."""
    rate: float = 1e-2
    warmup: int = 20
    decay: str = ""
    """`cosine` down to a tenth, or `tail`: the last fifth of the steps linearly to a hundredth."""
    beta2: float = 0.95
    epsilon: float = 1e-8
    clip: float | None = None
    """The largest norm of a gradient."""
    skip: float | None = None
    """Leave out a step whose gradient is so many times the usual size."""
    std: float = 0.02
    dtype: str = "float32"
    """What the network computes in."""
    weights: str = "float32"
    """How weights are kept: `float32`, `bfloat16` or `stochastic`, which is bfloat16 too."""
    scale: float = 1.0
    """What the loss is multiplied with before the backward pass, and gradients divided by."""
    pocket: tuple[int, int] | None = None
    """The first bad batch, counted from 0, and how many there are."""
    bad: str = "letter"
    """What is in a bad batch: one `letter` again and again, or `noise`."""
    surge: tuple[int, int, float] | None = None
    """The first step with too high a learning rate, how many there are, and the factor."""
    stops: range = range(0)
    """Steps before which the run is stopped and started again."""
    restart: str = "whole"
    """What such a start restores: `whole`, all but the `sampler`, or all but `moments`."""
    target: float | None = None
    """End when the held-out loss is this low."""
    mixed: bool = False
    """Half of each batch is a second language, the one that a pocket spoils."""
    every: int = 0
    """Steps between two readings; 0 reads the end alone."""
    read_from: int = 0
    """Readings before this step are not kept."""


class State(NamedTuple):
    """All that a checkpoint of this training needs; where the sampler stands is one of them."""

    weights: Any
    first: Any
    second: Any
    updates: int
    position: int


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
    """All weights in one vector: norms of one, everything else normally distributed."""
    generator = torch.Generator().manual_seed(seed)
    parts = [
        torch.ones(shape) if len(shape) == 1 else torch.randn(shape, generator=generator).mul_(std)
        for shape in list_shapes().values()
    ]
    return torch.cat([part.flatten() for part in parts])


def compute_logits(torch: Any, weights: Any, symbols: Any) -> Any:
    """The network: a decoder with a norm before each part, in the type of its weights. Its logits
    are float32."""
    functional = torch.nn.functional
    shapes = list_shapes()
    parts = weights.split([math.prod(shape) for shape in shapes.values()])
    named = {
        name: part.view(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }
    batch, length = symbols.shape
    x = named["token"][symbols] + named["position"][:length]
    for layer in range(LAYERS):
        normed = functional.layer_norm(x, (WIDTH,), named[f"{layer}.norm"])
        mixed = functional.linear(normed, named[f"{layer}.qkv"])
        query, key, value = mixed.view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        heads = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        joined = heads.transpose(1, 2).reshape(batch, length, WIDTH)
        x = x + functional.linear(joined, named[f"{layer}.out"])
        normed = functional.layer_norm(x, (WIDTH,), named[f"{layer}.mlp_norm"])
        wide = functional.gelu(functional.linear(normed, named[f"{layer}.up"]))
        x = x + functional.linear(wide, named[f"{layer}.down"])
    x = functional.layer_norm(x, (WIDTH,), named["last_norm"])
    return functional.linear(x, named["head"]).float()


def compute_losses(torch: Any, weights: Any, windows: Any) -> Any:
    """The cross-entropy of each window, in nats per symbol."""
    logits = compute_logits(torch, weights, windows[:, :-1])
    losses = torch.nn.functional.cross_entropy(
        logits.transpose(1, 2), windows[:, 1:], reduction="none"
    )
    return losses.mean(dim=1)


def compute_rate(plan: TrainingPlan, step: int) -> float:
    """The learning rate of a step, counted from 0."""
    rate = plan.rate
    if plan.surge is not None and plan.surge[0] <= step < plan.surge[0] + plan.surge[1]:
        rate *= plan.surge[2]
    if step < plan.warmup:
        return rate * (step + 1) / plan.warmup
    if plan.decay == "cosine":
        done = (step - plan.warmup) / max(1, plan.steps - plan.warmup)
        return rate * (0.1 + 0.45 * (1 + math.cos(math.pi * done)))
    if plan.decay == "tail":
        left = (plan.steps - step) / (0.2 * plan.steps)
        return rate * max(0.01, min(1.0, left))
    return rate


def count_windows(plan: TrainingPlan, symbols: int) -> int:
    """Windows in the next batch, after so many symbols."""
    if plan.grows is None:
        return plan.batch
    first, over = plan.grows
    return int(first + (plan.batch - first) * min(1.0, symbols / over))


def advance_adam(state: State, gradient: Any, rate: float, beta2: float, epsilon: float) -> State:
    """One step of Adam, as torch.optim.Adam takes it."""
    count = state.updates + 1
    first = BETA1 * state.first + (1 - BETA1) * gradient
    second = beta2 * state.second + (1 - beta2) * gradient.square()
    size = (second / (1 - beta2**count)).sqrt() + epsilon
    weights = state.weights - rate / (1 - BETA1**count) * first / size
    return state._replace(weights=weights, first=first, second=second, updates=count)


def round_to_bfloat16(torch: Any, values: Any, generator: Any | None = None) -> Any:
    """float32 values that bfloat16 can hold: the nearest, or with a generator one of the two
    neighbours, the nearer the likelier."""
    if generator is None:
        return values.to(torch.bfloat16).to(torch.float32)
    # bfloat16 is the upper half of float32: noise in the lower half carries over, or does not.
    bits = values.contiguous().view(torch.int32)
    noise = torch.randint(0, 1 << 16, bits.shape, generator=generator, dtype=torch.int32)
    return ((bits + noise.to(bits.device)) & -(1 << 16)).view(torch.float32)


def restart_from(torch: Any, state: State, plan: TrainingPlan) -> State:
    """The state after a stop: what was saved, less what the mistake of this run forgets."""
    saved = State(*(part.clone() if isinstance(part, torch.Tensor) else part for part in state))
    if plan.restart == "sampler":
        return saved._replace(position=1000 * plan.seed)
    if plan.restart == "moments":
        nothing = torch.zeros_like(saved.first)
        return saved._replace(first=nothing, second=nothing, updates=0)
    return saved


class Readings:
    """What was seen since the reading before."""

    def __init__(self, plan: TrainingPlan) -> None:
        self.plan = plan
        self.names = ("average", "language A", "language B") if plan.mixed else (plan.arm,)
        self.seen: list[tuple[tuple[float, ...], float, float, float | None]] = []

    def add(self, losses: Any, norm: float, zeros: float, unchanged: float | None) -> None:
        """Note one step: the loss of each window, and three numbers."""
        means = [float(losses.mean())]
        if self.plan.mixed:
            half = len(losses) // 2
            means += [float(losses[:half].mean()), float(losses[half:].mean())]
        self.seen.append((tuple(means), norm, zeros, unchanged))

    def read(self, step: int, symbols: int, held_out: float, ended: str) -> list[Row]:
        """The rows of this reading; the next one begins."""

        def keep(value: float) -> float | None:
            return value if math.isfinite(value) else None

        rows = []
        unchanged = [seen[3] for seen in self.seen if seen[3] is not None]
        for number, name in enumerate(self.names):
            rows.append(
                {
                    "experiment": self.plan.experiment,
                    "arm": name,
                    "setting": self.plan.setting,
                    "seed": self.plan.seed,
                    "step": step,
                    "symbols": symbols,
                    "loss": keep(statistics.fmean(seen[0][number] for seen in self.seen)),
                    "held_out_loss": keep(held_out)
                    if name in (self.plan.arm, "language A")
                    else None,
                    "gradient_norm": keep(max(seen[1] for seen in self.seen)),
                    "zero_gradient_share": statistics.fmean(seen[2] for seen in self.seen),
                    "unchanged_share": statistics.fmean(unchanged) if unchanged else None,
                    "ended": ended,
                }
            )
        self.seen.clear()
        return rows


def draw_batch(
    torch: Any, pools: Sequence[Any], plan: TrainingPlan, size: int, position: int, step: int
) -> Any:
    """The windows of this step, spoiled where the plan says so."""
    share = size // len(pools)
    places = torch.arange(position, position + share, device=pools[0].device) % POOL
    parts = [pool[places] for pool in pools]
    if plan.pocket is not None and plan.pocket[0] <= step < sum(plan.pocket):
        spoilt = torch.full_like(parts[-1], BAD_SYMBOL)
        if plan.bad == "noise":
            chance = torch.Generator().manual_seed(step)
            spoilt = torch.randint(SYMBOLS, spoilt.shape, generator=chance).to(spoilt.device)
        parts[-1] = spoilt
    return torch.cat(parts)


def train(torch: Any, plan: TrainingPlan, device: Any, stop: StopSign) -> Iterator[Row]:
    """Train as the plan says; the rows of its readings, the last of them with how it ended."""
    languages = (LANGUAGE, SECOND_LANGUAGE) if plan.mixed else (LANGUAGE,)
    pools = [get_windows(torch, language, device)[0] for language in languages]
    held_out = get_windows(torch, LANGUAGE, device)[1]
    chance = torch.Generator().manual_seed(plan.seed) if plan.weights == "stochastic" else None
    weights = make_weights(torch, plan.seed, plan.std).to(device)
    nothing = torch.zeros_like(weights)
    state = State(weights, nothing, nothing, 0, 1000 * plan.seed)
    dtype = getattr(torch, plan.dtype)
    readings = Readings(plan)
    norms: list[float] = []
    symbols = 0
    for step in range(plan.steps):
        stop.check()
        if step in plan.stops:
            state = restart_from(torch, state, plan)
        size = count_windows(plan, symbols)
        batch = draw_batch(torch, pools, plan, size, state.position, step)
        leaf = state.weights.clone().requires_grad_()
        losses = compute_losses(torch, leaf.to(dtype), batch)
        (losses.mean() * plan.scale).backward()
        gradient = leaf.grad / plan.scale
        norm = float(gradient.norm())
        zeros = float((leaf.grad == 0).float().mean())
        usual = statistics.median(norms[-USUAL_STEPS:]) if len(norms) >= USUAL_STEPS else math.inf
        norms.append(norm)
        is_left_out = plan.skip is not None and norm > plan.skip * usual
        unchanged = None
        if math.isfinite(norm) and not is_left_out:
            if plan.clip is not None and norm > plan.clip:
                gradient = gradient * (plan.clip / norm)
            before = state.weights
            rate = compute_rate(plan, step)
            state = advance_adam(state, gradient, rate, plan.beta2, plan.epsilon)
            if plan.weights != "float32":
                rounded = round_to_bfloat16(torch, state.weights, chance)
                unchanged = float((rounded == before).float().mean())
                state = state._replace(weights=rounded)
        state = state._replace(position=state.position + len(batch) // len(pools))
        symbols += batch[:, 1:].numel()
        readings.add(losses.detach(), norm, zeros, unchanged)
        is_last = step + 1 == plan.steps or (plan.symbols is not None and symbols >= plan.symbols)
        if not is_last and (plan.every == 0 or (step + 1) % plan.every):
            continue
        with torch.no_grad():
            reached = float(compute_losses(torch, state.weights, held_out).mean())
        is_there = plan.target is not None and reached <= plan.target
        ended = "target" if is_there else "done" if is_last else ""
        if ended == "done" and not math.isfinite(reached):
            ended = "diverged"
        rows = readings.read(step + 1, symbols, reached, ended)
        if ended or (step + 1 >= plan.read_from and plan.target is None):
            yield from rows
        if ended:
            return


def plan_spike(seed: int) -> list[TrainingPlan]:
    """Bad batches and a learning rate that is too high for a while."""
    base = TrainingPlan("spike", "", seed=seed, steps=480, every=5, read_from=270)
    return [
        base._replace(arm="undisturbed"),
        base._replace(arm="1 bad batch", pocket=(300, 1)),
        base._replace(arm="16 bad batches, beta2 0.999", pocket=(300, 16), beta2=0.999),
        base._replace(arm="rate times 30 for 10 steps", surge=(300, 10, 30.0)),
    ]


def plan_clip(seed: int) -> list[TrainingPlan]:
    """Three answers to the same four bad batches."""
    base = TrainingPlan("clip", "", seed=seed, steps=420, beta2=0.999, every=5, read_from=270)
    base = base._replace(pocket=(300, 4))
    return [
        base._replace(arm="nothing done"),
        base._replace(arm="clipped to a norm of 1", clip=1.0),
        base._replace(arm="left out beyond 3 times the usual", skip=3.0),
    ]


def plan_mixed(seed: int) -> list[TrainingPlan]:
    """Two languages, one of them with a pocket of bad batches."""
    base = TrainingPlan("mixed", "", seed=seed, steps=460, every=10, read_from=200, mixed=True)
    return [base._replace(pocket=(320, 10), bad="noise")]


def plan_resume(seed: int) -> list[TrainingPlan]:
    """Stops and starts, and what each start forgets."""
    base = TrainingPlan("resume", "", seed=seed, steps=800, every=10, read_from=380)
    often = range(400, 660, 20)
    return [
        base._replace(arm="never stopped"),
        base._replace(arm="resumed whole", stops=often, every=0),
        base._replace(arm="sampler begins anew", stops=often, restart="sampler"),
        base._replace(arm="moments lost", stops=range(400, 800, 100), restart="moments"),
    ]


def plan_rate(seed: int) -> list[TrainingPlan]:
    """Learning rates, with a warm-up of 20 steps and without one."""
    plans = []
    for rate in (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1):
        base = TrainingPlan("rate", "", setting=rate, seed=seed, rate=rate)
        every = 10 if rate in (3e-4, 1e-2, 3e-1) else 0
        plans.append(base._replace(arm="warm-up of 20 steps", every=every))
        plans.append(base._replace(arm="no warm-up", warmup=0))
    return plans


def plan_schedule(seed: int) -> list[TrainingPlan]:
    """What the learning rate does after its warm-up."""
    base = TrainingPlan("schedule", "", seed=seed, steps=480, every=10, read_from=100)
    return [
        base._replace(arm="constant"),
        base._replace(arm="half a cosine", decay="cosine"),
        base._replace(arm="constant, then linear", decay="tail"),
    ]


def plan_batch(seed: int) -> list[TrainingPlan]:
    """Batch sizes, each with two learning rates, until a loss is reached."""
    base = TrainingPlan("batch", "", seed=seed, target=1.5, every=10)
    low, middle, high = (1e-3, 3e-3), (3e-3, 1e-2), (1e-2, 3e-2)
    sizes = {
        2: (1600, low), 4: (1000, middle), 8: (700, middle), 16: (500, middle),
        32: (400, high), 64: (320, high), 128: (200, high),
    }  # fmt: skip
    return [
        base._replace(arm=f"rate {rate:g}", setting=size, batch=size, rate=rate, steps=steps)
        for size, (steps, rates) in sizes.items()
        for rate in rates
    ]


def plan_ramp(seed: int) -> list[TrainingPlan]:
    """The same symbols in small batches, in large ones, and in batches that grow."""
    base = TrainingPlan("ramp", "", seed=seed, steps=10_000, symbols=1024 * 300)
    return [
        base._replace(arm="batch of 4", batch=4, every=64),
        base._replace(arm="batch of 32", batch=32, every=8),
        base._replace(arm="4 growing to 32", batch=32, grows=(4, 512 * 300), every=16),
    ]


def plan_init(seed: int) -> list[TrainingPlan]:
    """Standard deviations of the first weights."""
    return [
        TrainingPlan("init", "300 steps", setting=std, seed=seed, std=std)
        for std in (0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
    ]


def plan_epsilon(seed: int) -> list[TrainingPlan]:
    """Values of Adam's epsilon."""
    return [
        TrainingPlan("epsilon", "300 steps", setting=epsilon, seed=seed, epsilon=epsilon)
        for epsilon in (1e-12, 1e-10, 1e-8, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
    ]


def plan_precision(seed: int) -> list[TrainingPlan]:
    """Types to compute in, by what the loss is multiplied with."""
    powers = {
        "float32": (-20, 0, 20),
        "bfloat16": (-20, 0, 20),
        "float16": (-20, -16, -12, -10, -8, -4, 0, 8, 16, 20),
    }
    return [
        TrainingPlan(
            "precision", dtype, 2.0**power, seed=seed, steps=200, dtype=dtype, scale=2.0**power
        )
        for dtype, chosen in powers.items()
        for power in chosen
    ]


def plan_weights(seed: int) -> list[TrainingPlan]:
    """How weights are kept between two steps."""
    base = TrainingPlan("weights", "", seed=seed, rate=1e-3, steps=600, decay="cosine", every=20)
    return [
        base._replace(arm="float32"),
        base._replace(arm="bfloat16, to nearest", weights="bfloat16"),
        base._replace(arm="bfloat16, stochastic", weights="stochastic"),
    ]


def plan_seeds(seed: int) -> list[TrainingPlan]:
    """Eight seeds of two settings."""
    return [
        TrainingPlan("seeds", f"beta2 {beta2}", setting=beta2, seed=seed + number, beta2=beta2)
        for beta2 in (0.95, 0.98)
        for number in range(8)
    ]


PLANS: dict[str, Callable[[int], list[TrainingPlan]]] = {
    "spike": plan_spike,
    "clip": plan_clip,
    "mixed": plan_mixed,
    "resume": plan_resume,
    "rate": plan_rate,
    "schedule": plan_schedule,
    "batch": plan_batch,
    "ramp": plan_ramp,
    "init": plan_init,
    "epsilon": plan_epsilon,
    "precision": plan_precision,
    "weights": plan_weights,
    "seeds": plan_seeds,
}


class Rows:
    """The rows of one experiment, and questions about them."""

    def __init__(self, rows: Iterable[Row], experiment: str) -> None:
        self.rows = [row for row in rows if row["experiment"] == experiment]

    def get(self, arm: str, column: str, step: int | None = None) -> float:
        """A number of an arm, at its end or at a step; infinite where it is none."""
        for row in reversed(self.rows):
            if row["arm"] == arm and (row["ended"] if step is None else row["step"] == step):
                return math.inf if row[column] is None else row[column]
        raise KeyError(f"{arm}, step {step}")

    def list_ends(self, arm: str, column: str = "held_out_loss") -> dict[float, float]:
        """The last number of an arm by its setting."""
        ends = [row for row in self.rows if row["arm"] == arm and row["ended"]]
        return {r["setting"]: math.inf if r[column] is None else r[column] for r in ends}

    def find_return(self, arm: str, level: float, after: int) -> float:
        """The first step after `after` at which the held-out loss is at or below a level."""
        steps = [
            row["step"]
            for row in self.rows
            if row["arm"] == arm and row["step"] > after and (row["held_out_loss"] or 99) <= level
        ]
        return min(steps, default=math.inf)


Claims = list[tuple[str, bool]]


def judge_spike(rows: Rows) -> Claims:
    """Back at once, back slowly, not back."""
    level = rows.get("undisturbed", "held_out_loss", 300) * 1.05
    fast = rows.find_return("1 bad batch", level, 305)
    slow = rows.find_return("16 bad batches, beta2 0.999", level, 305)
    never = rows.find_return("rate times 30 for 10 steps", level, 305)
    return [
        ("one bad batch is forgotten within 30 steps", fast <= 330),
        ("sixteen with a long memory take more than twice as long", 300 + 2 * (fast - 300) < slow),
        ("ten steps at 30 times the rate are not made good by the end", math.isinf(never)),
    ]


def judge_clip(rows: Rows) -> Claims:
    """Clipping and leaving out keep what bad batches would undo."""
    arms = ("nothing done", "clipped to a norm of 1", "left out beyond 3 times the usual")
    nothing, clipped, left_out = (rows.get(arm, "held_out_loss", 310) for arm in arms)
    return [
        ("clipping keeps the loss lower after bad batches", clipped < nothing - 0.3),
        ("so does leaving them out", left_out < nothing - 0.3),
    ]


def judge_mixed(rows: Rows) -> Claims:
    """The language without bad batches keeps its loss during those of the other."""
    before = {arm: rows.get(arm, "loss", 320) for arm in ("language A", "language B", "average")}
    bad = {arm: rows.get(arm, "loss", 330) for arm in before}
    rises = {arm: bad[arm] - before[arm] for arm in before}
    return [
        ("the loss of the spoilt language rises most", rises["language B"] > rises["average"] > 0),
        ("that of the other less than half as much", rises["language A"] < rises["language B"] / 2),
    ]


def judge_resume(rows: Rows) -> Claims:
    """A whole resume is no event; repeated data lies; lost moments show."""
    same = rows.get("never stopped", "held_out_loss") == rows.get("resumed whole", "held_out_loss")
    repeated, fresh = (rows.get("sampler begins anew", "loss", step) for step in (660, 680))
    lie = rows.get("sampler begins anew", "held_out_loss", 660) - repeated
    honest = rows.get("never stopped", "held_out_loss", 660) - rows.get(
        "never stopped", "loss", 660
    )
    lost = rows.get("moments lost", "loss", 410) - rows.get("never stopped", "loss", 410)
    return [
        ("resumed whole, the losses are the same to the last bit", same),
        ("on repeated data the training loss is far below the held-out loss", lie > 0.2 + honest),
        ("it rises when new data comes, and nothing is wrong", fresh > repeated + 0.2),
        ("without its moments Adam's first steps raise the loss", lost > 0.02),
    ]


def judge_rate(rows: Rows) -> Claims:
    """A best rate in the middle, and what a warm-up is for."""
    warm, cold = rows.list_ends("warm-up of 20 steps"), rows.list_ends("no warm-up")
    best = min(warm, key=lambda rate: warm[rate])
    return [
        ("the best rate is neither the lowest nor the highest", min(warm) < best < max(warm)),
        ("the highest learns next to nothing", warm[max(warm)] > 2.5),
        ("at the best rate a run without warm-up ends higher", cold[best] > warm[best] + 0.1),
    ]


def judge_schedule(rows: Rows) -> Claims:
    """Decay ends lower."""
    constant = rows.get("constant", "held_out_loss")
    return [
        (f"{arm} ends below a constant rate", rows.get(arm, "held_out_loss") < constant)
        for arm in ("half a cosine", "constant, then linear")
    ]


def find_fewest(rows: Iterable[Row]) -> dict[float, int]:
    """Steps to the target by batch size, of the best learning rate."""
    fewest: dict[float, int] = {}
    for row in rows:
        if row["ended"] == "target":
            size = row["setting"]
            fewest[size] = min(fewest.get(size, row["step"]), row["step"])
    return fewest


def judge_batch(rows: Rows) -> Claims:
    """Doubling a batch saves steps, and less and less of them."""
    fewest = find_fewest(rows.rows)
    sizes = sorted(fewest)
    first, last = (fewest[a] / fewest[b] for a, b in (sizes[:2], sizes[-2:]))
    return [
        ("all sizes reach the target", len(sizes) == 7),
        ("doubling the smallest batch saves more of the steps than the largest", first > last),
        ("the largest batch needs more symbols", 128 * fewest[128] > 1.5 * 2 * fewest[2]),
    ]


def judge_ramp(rows: Rows) -> Claims:
    """A batch that grows is nearly as good as a small one, in fewer steps."""
    small, large, grown = (
        rows.get(arm, "held_out_loss") for arm in ("batch of 4", "batch of 32", "4 growing to 32")
    )
    steps = [rows.get(arm, "step") for arm in ("batch of 4", "4 growing to 32")]
    return [
        ("over the same symbols the large batch from the start ends higher", large > grown),
        ("growing takes less than half of the small batch's steps", steps[1] < steps[0] / 2),
        ("and is never worse than the worse of the two", grown <= max(small, large)),
    ]


def judge_init(rows: Rows) -> Claims:
    """Too large a deviation costs most."""
    ends = rows.list_ends("300 steps")
    best = min(ends, key=lambda std: ends[std])
    return [
        ("the best deviation is far below 1", best <= 0.2),
        ("a deviation of 1 ends far above it", ends[1.0] > ends[best] + 0.3),
    ]


def judge_epsilon(rows: Rows) -> Claims:
    """No matter while it is small, a brake when it is not."""
    ends = rows.list_ends("300 steps")
    small = [ends[epsilon] for epsilon in ends if epsilon <= 1e-6]
    return [
        ("up to 1e-6 it makes little difference", max(small) - min(small) < 0.15),
        ("0.1 slows the run down", ends[0.1] > max(small) + 0.3),
    ]


def judge_precision(rows: Rows) -> Claims:
    """float16 needs a scale that fits, the others none."""
    half = rows.list_ends("float16")
    zeros = rows.list_ends("float16", "zero_gradient_share")
    full, brain = rows.list_ends("float32")[1.0], rows.list_ends("bfloat16")
    return [
        ("bfloat16 does as well at each scale", max(brain.values()) < full + 0.1),
        ("float16 does as well at a scale that fits", min(half.values()) < full + 0.1),
        (
            "with too small a one its gradient is 0",
            zeros[min(zeros)] > 0.99 and half[min(half)] > 3,
        ),
        ("with too large a one nothing is learnt", half[max(half)] > 3),
    ]


def judge_weights(rows: Rows) -> Claims:
    """Updates vanish in bfloat16 unless rounded stochastically."""
    full, nearest, chance = (
        rows.get(arm, "held_out_loss")
        for arm in ("float32", "bfloat16, to nearest", "bfloat16, stochastic")
    )
    return [
        (
            "rounded to nearest, most updates vanish in the end",
            rows.get("bfloat16, to nearest", "unchanged_share") > 0.5,
        ),
        ("and the loss stays behind", nearest > full + 0.05),
        ("stochastic rounding is closer to float32", abs(chance - full) < abs(nearest - full)),
    ]


def judge_seeds(rows: Rows) -> Claims:
    """Seeds alone make a spread."""
    spreads = []
    for arm in ("beta2 0.95", "beta2 0.98"):
        ends = [row["held_out_loss"] for row in rows.rows if row["arm"] == arm]
        spreads.append(max(ends) - min(ends))
    return [("the seed alone moves the loss by more than 0.02", min(spreads) > 0.02)]


JUDGES: dict[str, Callable[[Rows], Claims]] = {
    "spike": judge_spike,
    "clip": judge_clip,
    "mixed": judge_mixed,
    "resume": judge_resume,
    "rate": judge_rate,
    "schedule": judge_schedule,
    "batch": judge_batch,
    "ramp": judge_ramp,
    "init": judge_init,
    "epsilon": judge_epsilon,
    "precision": judge_precision,
    "weights": judge_weights,
    "seeds": judge_seeds,
}


def judge_experiment(rows: Iterable[Row], experiment: str) -> Claims:
    """What the experiment is for, and whether these rows show it."""
    return JUDGES[experiment](Rows(rows, experiment))


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


def parse_count_or_none(text: str) -> int:
    """A number of things to do that may be none: a whole number from 0."""
    if not re.fullmatch(r"0|[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 0")
    return int(text)


class PatternRun:
    """The rows of a run so far, and the JSON made of them."""

    def __init__(self, command: list[str], origin: float, path: Path | None) -> None:
        self.command = command
        self.origin = origin
        self.path = path
        self.rows: list[Row] = []
        self.claims: dict[str, Claims] = {}
        self.caveats: list[str] = []
        self.header: dict[str, Any] = {}
        self.complete = False
        self.unwritten: str | None = None

    def write(self) -> None:
        """Write the JSON file where one was asked for. Where it cannot be, on a disk that has
        filled, the run goes on, and says so at its end."""
        if self.path is None:
            return
        head = make_document_head("loss_patterns", (__version__, METHOD), self.command, self.origin)
        document = {
            **head,
            "complete": self.complete,
            "units": UNITS,
            "results": self.rows,
            "caveats": list(dict.fromkeys(self.caveats)),
            "details": {
                "header": self.header,
                "shown": {
                    name: [{"claim": text, "shown": is_shown} for text, is_shown in claims]
                    for name, claims in self.claims.items()
                },
            },
        }
        try:
            write_document(self.path, document)
            self.unwritten = None
        except WrongUse as error:
            self.unwritten = str(error)


def describe_run(torch: Any, device: Any) -> dict[str, Any]:
    """What decides the numbers beside the plans."""
    return {
        "device_kind": device.type,
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads() if device.type == "cpu" else None,
        "weights": sum(math.prod(shape) for shape in list_shapes().values()),
    }


def run_experiments(
    options: argparse.Namespace, command: list[str], stop: StopSign, origin: float
) -> PatternRun:
    """Run what was asked for; the run with its JSON file written."""
    torch = import_torch()
    device = choose_device(torch, options.device)
    # One thread: the same sums in the same order on every machine of a kind.
    torch.set_num_threads(1)
    run = PatternRun(command, origin, options.json)
    run.header = describe_run(torch, device)
    plans = {name: PLANS[name](options.seed) for name in dict.fromkeys(options.experiment)}
    progress = Progress(sum(map(len, plans.values())), "runs")
    done = 0
    try:
        for name, chosen in plans.items():
            for plan in chosen:
                progress.show(done, f"{name} {plan.arm}".strip())
                run.rows.extend(train(torch, plan, device, stop))
                done += 1
            run.claims[name] = judge_experiment(run.rows, name)
            run.write()
        run.complete = True
    except Stopped as stopped:
        run.caveats.append(f"{stopped}, after {done} runs")
    finally:
        progress.close()
    run.write()
    return run


def format_ends(rows: Iterable[Row]) -> str:
    """The table of how each run ended."""

    def show(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    lines = [
        [
            f"{row['experiment']}: {row['arm']}",
            show(row["setting"], ".3g"),
            str(row["seed"]),
            str(row["step"]),
            show(row["loss"], ".3f"),
            show(row["held_out_loss"], ".3f"),
            row["ended"],
        ]
        for row in rows
        if row["ended"]
    ]
    headings = ["Run", "Setting", "Seed", "Steps", "Loss", "Held-out loss", "Ended"]
    return format_table(headings, lines)


def print_report(run: PatternRun) -> int:
    """The table to stdout, notes to stderr; the number of problems."""
    if run.rows:
        print(format_ends(run.rows))
    for text in dict.fromkeys(run.caveats):
        write_note(text)
    problems = 0 if run.complete else 1
    for name, claims in run.claims.items():
        for text, is_shown in claims:
            problems += not is_shown
            print(f"{'shown' if is_shown else 'NOT SHOWN'}: {name}: {text}", file=sys.stderr)
    return problems


def run_self_test() -> int:
    """Check the parts by hand, and two short runs; 0, or 1."""
    checks: list[bool] = []

    def check(name: str, passed: bool) -> None:
        checks.append(passed)
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    torch = import_torch()
    torch.set_num_threads(1)
    cpu = torch.device("cpu")
    plan = TrainingPlan("", "", steps=100, rate=1.0, warmup=10, decay="cosine")
    check("half of the warm-up is half of the rate", compute_rate(plan, 4) == 0.5)
    check("after half of a cosine 0.55 of it", abs(compute_rate(plan, 55) - 0.55) < 1e-9)
    check(
        "a batch from 4 to 32 is 18 half-way",
        count_windows(plan._replace(batch=32, grows=(4, 100)), 50) == 18,
    )
    start = torch.tensor([1.0, -2.0])
    state = State(start, torch.zeros(2), torch.zeros(2), 0, 0)
    moved = advance_adam(state, torch.tensor([1e3, -1e-3]), 0.1, 0.95, 1e-8).weights - start
    check(
        "Adam's first step is the rate, whatever the gradient",
        torch.allclose(moved, torch.tensor([-0.1, 0.1]), atol=1e-5),
    )
    check("1.001 is 1 in bfloat16", round_to_bfloat16(torch, torch.tensor([1.001])).item() == 1.0)
    chance = torch.Generator().manual_seed(0)
    drawn = round_to_bfloat16(torch, torch.full((20000,), 1.001), chance)
    check("and on average 1.001, rounded by chance", abs(float(drawn.mean()) - 1.001) < 2e-4)
    short = TrainingPlan("test", "short", steps=12, every=6)
    rows = list(train(torch, short, cpu, StopSign()))
    check("the first loss is near ln 27", abs(rows[0]["loss"] - math.log(27)) < 0.2)
    resumed = list(train(torch, short._replace(stops=range(3, 12, 3)), cpu, StopSign()))
    check("resumed whole it is the same run", rows == resumed)
    tiny = list(train(torch, short._replace(dtype="float16", scale=2.0**-24), cpu, StopSign()))
    check("float16 loses gradients that are too small", tiny[-1]["zero_gradient_share"] > 0.9)
    failed = sum(not passed for passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="loss_patterns.py",
        description="Make the mistakes of training on purpose, and draw their loss curves.",
        epilog="The docstring at the top of this file tells what each experiment does.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--experiment",
        nargs="+",
        choices=tuple(PLANS),
        default=list(PLANS),
        help="which ones (default: all)",
    )
    parser.add_argument(
        "--seed", type=parse_count_or_none, default=0, metavar="N", help="(default: 0)"
    )
    parser.add_argument(
        "--device", default="cpu", metavar="DEVICE", help="cuda, xpu, cpu (default: cpu)"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"loss_patterns {__version__} (method {METHOD})"
    )
    return parser


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
        check_json_path(options.json)
        stop.listen()
        run = run_experiments(options, make_portable_command(arguments), stop, origin)
        problems = print_report(run)
        if run.unwritten:
            write_note(f"{run.unwritten}; the JSON has less than the table")
            problems += 1
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a run listens for signals itself
        print("stopped", file=sys.stderr)
        return 1
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
