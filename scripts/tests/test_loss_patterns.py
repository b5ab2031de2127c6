"""loss_patterns: parts by hand, short runs on the CPU, and what the record of the book shows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "experiments/loss_patterns.py"
ONE_THREAD = {"OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def patterns(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


@pytest.fixture(scope="module")
def torch() -> Any:
    """PyTorch, on one thread as in the tool's own runs."""
    module = pytest.importorskip("torch")
    module.set_num_threads(1)
    return module


@pytest.fixture(scope="module")
def train(patterns: Any, torch: Any) -> Callable[..., list[dict[str, Any]]]:
    """The rows of a short run on the CPU."""

    def run(**settings: Any) -> list[dict[str, Any]]:
        plan = patterns.TrainingPlan("test", "short", **{"steps": 12, **settings})
        return list(patterns.train(torch, plan, torch.device("cpu"), patterns.StopSign()))

    return run


def test_rates_by_hand(patterns: Any) -> None:
    """Warm-up of ten steps to 1, then half a cosine to 0.1, or level and linear to 0.01."""
    plan = patterns.TrainingPlan("", "", steps=110, rate=1.0, warmup=10)
    assert [patterns.compute_rate(plan, step) for step in (0, 4, 9, 109)] == [0.1, 0.5, 1.0, 1.0]
    cosine = plan._replace(decay="cosine")
    assert patterns.compute_rate(cosine, 10) == pytest.approx(1.0)
    assert patterns.compute_rate(cosine, 60) == pytest.approx(0.55)
    assert patterns.compute_rate(cosine, 110) == pytest.approx(0.1)
    # The last fifth of 110 steps is 22 of them: half-way through it 11 are left.
    tail = plan._replace(decay="tail")
    assert patterns.compute_rate(tail, 88) == pytest.approx(1.0)
    assert patterns.compute_rate(tail, 99) == pytest.approx(0.5)
    surge = plan._replace(surge=(50, 10, 30.0))
    found = [patterns.compute_rate(surge, step) for step in (49, 50, 59, 60)]
    assert found == [1.0, 30.0, 30.0, 1.0]


def test_batches_by_hand(patterns: Any) -> None:
    """From 4 to 32 over 1000 symbols: 18 half-way, 32 from the end on."""
    plan = patterns.TrainingPlan("", "", batch=32, grows=(4, 1000))
    assert [patterns.count_windows(plan, seen) for seen in (0, 500, 1000, 5000)] == [4, 18, 32, 32]
    assert patterns.count_windows(plan._replace(grows=None), 0) == 32


def test_languages_differ_and_repeat(patterns: Any) -> None:
    """A seed makes the same words again, another one others, and each word has its followers."""
    one, again, other = (patterns.Words(seed, 30) for seed in (1, 1, 2))
    assert one.words == again.words
    assert one.followers == again.followers
    assert one.words != other.words
    assert len(set(one.words)) == 30
    assert all(2 <= len(word) <= 6 for word in one.words)
    assert all(len(set(chosen)) == 8 for chosen in one.followers.values())


@pytest.mark.torch
def test_windows_are_text(patterns: Any, torch: Any) -> None:
    """Windows hold whole words of the language, one after the other, across their borders."""
    words = patterns.Words(3, 30)
    windows = words.write_windows(torch, 20, 5)
    assert windows.shape == (20, patterns.WINDOW + 1)
    text = "".join(" " if s == 0 else chr(96 + s) for s in windows.flatten().tolist())
    found = text.split(" ")[:-1]
    assert set(found) <= set(words.words)
    pairs = itertools.pairwise(found)
    assert all(second in words.followers[first] for first, second in pairs)


@pytest.mark.torch
def test_adam_is_that_of_torch(patterns: Any, torch: Any) -> None:
    """Ten steps of ours and of torch.optim.Adam end at the same weights."""
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(50, generator=generator)
    theirs = torch.nn.Parameter(start.clone())
    optimizer = torch.optim.Adam([theirs], lr=0.01, betas=(0.9, 0.95), eps=1e-6)
    state = patterns.State(start, torch.zeros(50), torch.zeros(50), 0, 0)
    for _ in range(10):
        gradient = torch.randn(50, generator=generator)
        theirs.grad = gradient.clone()
        optimizer.step()
        state = patterns.advance_adam(state, gradient, 0.01, 0.95, 1e-6)
    assert torch.allclose(state.weights, theirs.detach(), atol=1e-6)
    assert state.updates == 10


@pytest.mark.torch
def test_a_long_memory_lets_a_large_gradient_through(patterns: Any, torch: Any) -> None:
    """By hand: after a thousand gradients of 1, one of 30 gives an update of
    (0.9 + 0.1 * 30) / sqrt(0.999 + 0.001 * 900) = 2.83 rates at 0.999, and of
    3.9 / sqrt(0.95 + 0.05 * 900) = 0.575 at 0.95."""
    for beta2, expected in ((0.999, 3.9 / 1.899**0.5), (0.95, 3.9 / 45.95**0.5)):
        one = torch.ones(1)
        state = patterns.State(torch.zeros(1), one, one, 10**6, 0)
        moved = patterns.advance_adam(state, 30 * one, 1.0, beta2, 0.0)
        assert float(moved.weights) == pytest.approx(-expected, rel=1e-3)


@pytest.mark.torch
def test_rounding_to_bfloat16(patterns: Any, torch: Any) -> None:
    """Near 1 bfloat16 has steps of 1/128: 1.003 is 1, by chance 1.0078 in 38.4 % of cases."""
    value = torch.full((50_000,), 1.003)
    assert set(patterns.round_to_bfloat16(torch, value).tolist()) == {1.0}
    chance = torch.Generator().manual_seed(0)
    drawn = patterns.round_to_bfloat16(torch, value, chance)
    assert set(drawn.tolist()) == {1.0, 1.0078125}
    assert float((drawn > 1).float().mean()) == pytest.approx(0.003 * 128, abs=0.01)
    negative = patterns.round_to_bfloat16(torch, -value, chance)
    assert float(negative.mean()) == pytest.approx(-1.003, abs=2e-4)


@pytest.mark.torch
def test_first_loss_is_that_of_knowing_nothing(train: Any) -> None:
    """The loss begins near ln 27, and after twelve steps it is lower."""
    rows = train(every=1)
    assert rows[0]["loss"] == pytest.approx(math.log(27), abs=0.05)
    assert rows[-1]["loss"] < rows[0]["loss"]
    assert [row["step"] for row in rows] == list(range(1, 13))
    assert [row["symbols"] for row in rows] == [512 * step for step in range(1, 13)]
    assert [row["ended"] for row in rows] == [""] * 11 + ["done"]


@pytest.mark.torch
def test_same_seed_same_run(train: Any) -> None:
    """Two runs of a seed are equal to the last bit, two seeds are not."""
    assert train() == train()
    assert train()[0]["loss"] != train(seed=1)[0]["loss"]


@pytest.mark.torch
def test_resumes(train: Any) -> None:
    """Resumed whole it is the same run; without moments, or with a sampler that begins anew, it
    is another one, and batches that come twice are easier the second time."""
    never = train(every=1)
    stops = range(6, 12, 6)
    assert train(every=1, stops=stops) == never
    for mistake in ("sampler", "moments"):
        rows = train(every=1, stops=stops, restart=mistake)
        assert rows[:6] == never[:6]
        assert rows[6]["loss"] != never[6]["loss"] or mistake == "moments"
        assert rows[-1]["held_out_loss"] != never[-1]["held_out_loss"]
    again = train(every=1, steps=60, batch=4, stops=range(4, 60, 4), restart="sampler")
    assert again[-1]["loss"] < again[-1]["held_out_loss"] - 0.1


@pytest.mark.torch
def test_bad_batches(train: Any) -> None:
    """A bad batch has a large gradient; clipped or left out it does less; noise spoils one
    language alone."""
    settings = {"every": 1, "steps": 40, "beta2": 0.999, "pocket": (30, 2)}
    nothing = train(**settings)
    assert nothing[30]["gradient_norm"] > 3 * nothing[29]["gradient_norm"]
    left_out = train(**settings, skip=3.0)
    assert left_out[31]["held_out_loss"] < nothing[31]["held_out_loss"] - 0.1
    mixed = train(every=1, steps=30, mixed=True, pocket=(28, 2), bad="noise")
    last = {row["arm"]: row for row in mixed[-3:]}
    assert last["language B"]["loss"] > last["average"]["loss"] > last["language A"]["loss"]
    assert last["language B"]["held_out_loss"] is None
    half = (last["language A"]["loss"] + last["language B"]["loss"]) / 2
    assert last["average"]["loss"] == pytest.approx(half, rel=1e-4)


@pytest.mark.torch
def test_float16_needs_a_scale(train: Any) -> None:
    """Too small a scale makes gradients 0, too large a one makes them infinite and leaves each
    step out; bfloat16 needs none."""
    small = train(dtype="float16", scale=2.0**-20)[-1]
    assert small["zero_gradient_share"] > 0.99
    large = train(dtype="float16", scale=2.0**24)[-1]
    assert large["gradient_norm"] is None
    untouched = train(steps=1, rate=0.0)[-1]["held_out_loss"]
    assert large["held_out_loss"] == pytest.approx(untouched)
    brain = train(dtype="bfloat16", scale=2.0**-20)[-1]
    assert brain["zero_gradient_share"] < 0.1
    assert brain["held_out_loss"] < untouched - 0.1


@pytest.mark.torch
def test_updates_vanish_in_bfloat16(train: Any) -> None:
    """At a low rate most weights kept in bfloat16 stay as they are."""
    low, high = (train(weights="bfloat16", rate=rate)[-1] for rate in (1e-5, 1e-2))
    assert low["unchanged_share"] > 0.5 > high["unchanged_share"]
    assert train()[-1]["unchanged_share"] is None


@pytest.mark.torch
def test_ends(train: Any) -> None:
    """A run ends at its target, at its symbols, or where its numbers are no numbers any more."""
    assert [row["ended"] for row in train(target=3.3, every=4)] == ["target"]
    rows = train(symbols=2000, steps=100, batch=16)
    assert (rows[-1]["step"], rows[-1]["symbols"]) == (4, 2048)
    assert train(rate=1e30, warmup=0)[-1]["ended"] == "diverged"


@pytest.mark.nightly
@pytest.mark.torch
def test_one_experiment(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """The tool runs what it is told, and says what it showed."""
    path = tmp_path / "out.json"
    done = call_tool(TOOL, "--experiment", "mixed", "--json", str(path), environ=ONE_THREAD)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("shown: mixed: ") == 2
    document = read_json(path)
    assert {row["experiment"] for row in document["results"]} == {"mixed"}
    assert document["details"]["header"]["weights"] == 59664
    assert all(claim["shown"] for claim in document["details"]["shown"]["mixed"])


def test_claims_can_fail(patterns: Any) -> None:
    """Rows that show nothing are told apart from those that do."""
    names = ("average", "language A", "language B")
    row = {"experiment": "mixed", "held_out_loss": None, "ended": ""}
    flat = [{**row, "arm": arm, "step": step, "loss": 1.0} for arm in names for step in (320, 330)]
    assert not any(is_shown for _, is_shown in patterns.judge_experiment(flat, "mixed"))
    risen = {"average": 2.5, "language A": 1.2, "language B": 4.0}
    steep = [{**r, "loss": risen[r["arm"]]} if r["step"] == 330 else r for r in flat]
    assert all(is_shown for _, is_shown in patterns.judge_experiment(steep, "mixed"))


def test_record_shows_what_the_chapter_says(
    patterns: Any, read_json: Callable[[Path], Any]
) -> None:
    """In the full record of the book each experiment shows what it is for."""
    records = [read_json(path) for path in (SCRIPTS / "records/loss_patterns").glob("*_2*.json")]
    full = [r for r in records if r["profile"] == "full" and r["method"] == patterns.METHOD]
    assert full
    for record in full:
        for experiment in patterns.PLANS:
            claims = patterns.judge_experiment(record["results"], experiment)
            assert claims
            assert all(is_shown for _, is_shown in claims), (experiment, claims)
