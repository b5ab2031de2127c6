"""underflow_overflow: overflows planted at known modules, in models of all kinds, on real ranks."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import io
import itertools
import json
import math
import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "debug/underflow_overflow.py"
PATH = SCRIPTS / TOOL

pytestmark = pytest.mark.torch

# The modules of the demonstration's model in the order in which their forward ends.
BLOCK = ("norm", "mlp.up", "mlp.act", "mlp.gate", "mlp.down", "mlp")
ORDER = ["embed"]
for number in (0, 1):
    ORDER += [f"blocks.{number}.{name}" for name in BLOCK] + [f"blocks.{number}"]
ORDER += ["norm", "head", ""]


@pytest.fixture(scope="module")
def overflow(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


@pytest.fixture(scope="module")
def torch() -> Any:
    """torch, with one thread: there are few cores, and nothing here is large."""
    import torch

    torch.set_num_threads(1)
    return torch


def play(overflow: Any, *arguments: str) -> tuple[Any, str]:
    """The demonstration in this process, and what it says."""
    options = overflow.build_parser().parse_args(
        ["--demo", "--device", "cpu", "--repeats", "1", *arguments]
    )
    overflow.check_options(options)
    notes = io.StringIO()
    with contextlib.redirect_stderr(notes):
        found = overflow.play_overflow(options, overflow.StopSign())
    return found, notes.getvalue()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize(
    ("outputs", "checkpoint"),
    [
        *(("tensor", "off"), ("dict", "off"), ("tuple", "off"), ("dataclass", "off")),
        *(("tensor", "on"), ("dict", "on"), ("tensor", "reentrant"), ("tuple", "reentrant")),
    ],
)
@pytest.mark.parametrize("plant", ["blocks.1.mlp.down", "blocks.0.norm"])
def test_planted_module_is_named(
    overflow: Any, dtype: str, outputs: str, checkpoint: str, plant: str
) -> None:
    """The report names the planted module and has all frames before it, in order."""
    found, notes = play(
        overflow,
        *("--dtype", dtype, "--outputs", outputs, "--checkpoint", checkpoint, "--plant", plant),
    )
    assert found.complete
    assert found.problems == []
    report = found.report
    assert (report.module, report.maker, report.reading.state) == (plant, plant, "inf")
    assert report.reading.name == "output"
    assert [frame.module for frame in report.frames] == ORDER[: ORDER.index(plant) + 1]
    bad = [(f.module, r.name) for f in report.frames for r in f.readings if r.is_bad]
    assert bad == [(plant, "output")]
    assert notes.startswith(f"inf in output of {plant} (")


@pytest.mark.parametrize("outputs", ["tensor", "dict"])
@pytest.mark.parametrize("checkpoint", ["off", "on"])
def test_planted_module_is_named_with_low_overhead(
    overflow: Any, outputs: str, checkpoint: str
) -> None:
    """One number for each module is enough to name the first one, and those before it."""
    found, notes = play(
        overflow, "--low_overhead", "--outputs", outputs, "--checkpoint", checkpoint
    )
    assert found.problems == []
    frames = found.report.frames
    assert [f.module for f in frames] == ORDER[: ORDER.index("blocks.1.mlp.down") + 1]
    assert all(0 < frame.readings[0].abs_max < 100 for frame in frames[:-1])
    assert "without low_overhead its inputs are shown" in notes


@pytest.mark.parametrize("checkpoint", ["off", "on", "reentrant"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradient_that_overflows_is_found(overflow: Any, dtype: str, checkpoint: str) -> None:
    """The module in whose backward the gradient becomes inf is named, with the frames before."""
    found, notes = play(
        overflow, "--gradients", "--dtype", dtype, "--checkpoint", checkpoint, "--frames", "99"
    )
    assert found.problems == []
    report = found.report
    assert (report.module, report.maker) == ("blocks.1.mlp.act", "blocks.1.mlp.gate")
    assert report.frame.phase == "backward"
    assert report.reading.name == "gradient of output"
    assert "finite before, in blocks.1.mlp.gate (Gate)" in notes
    recomputed = [f.module for f in report.frames if f.phase == "recomputed"]
    assert bool(recomputed) is (checkpoint != "off")
    assert all(name.startswith("blocks.1") for name in recomputed)


def make_chain(torch: Any, scale: float, dtype: Any) -> Any:
    """Two linear layers with known numbers: the first multiplies by scale, the second by 2."""
    first, second = (torch.nn.Linear(2, 2, bias=False, dtype=dtype) for _ in range(2))
    with torch.no_grad():
        first.weight.copy_(torch.eye(2) * scale)
        second.weight.copy_(torch.eye(2) * 2)
    return torch.nn.Sequential(collections.OrderedDict(first=first, second=second))


def test_report_by_hand(overflow: Any, torch: Any) -> None:
    """[1, -3] times 2e4 is 6e4; times 2 beyond 65504. The report tells it number by number."""
    model = make_chain(torch, 2e4, torch.float16)
    stream = io.StringIO()
    overflow.DebugUnderflowOverflow(model, stream=stream)
    with pytest.raises(overflow.NonFiniteDetected) as caught:
        model(torch.tensor([[1.0, -3.0]], dtype=torch.float16))
    assert caught.value.report.maker == "second"
    assert isinstance(caught.value, ValueError)
    assert stream.getvalue() == (
        "inf in output of second (Linear), forward of batch 0: finite went in, "
        "this module made it\n"
        "the last 2 frames:\n"
        "abs min  abs max  what\n"
        "                  first Linear\n"
        "0.00e+00 2.00e+04 weight float16, 31% of its largest\n"
        "1.00e+00 3.00e+00 input[0] float16\n"
        "2.00e+04 6.00e+04 output float16, 92% of its largest\n"
        "                  second Linear\n"
        "0.00e+00 2.00e+00 weight float16\n"
        "2.00e+04 6.00e+04 input[0] float16, 92% of its largest\n"
        "4.00e+04      inf output float16\n"
        "already large before: weight of first (Linear), 2.00e+04, 31% of float16's largest\n"
    )


def test_healthy_model_is_left_in_peace(overflow: Any, torch: Any) -> None:
    """The same numbers in bfloat16 raise nothing, and batches are counted."""
    model = make_chain(torch, 2e4, torch.bfloat16)
    with overflow.DebugUnderflowOverflow(model, check_gradients=True) as debug:
        for _ in range(3):
            model(torch.tensor([[1.0, -3.0]], dtype=torch.bfloat16)).sum().backward()
    assert (debug.batch_number, debug.report) == (2, None)


def test_nan_is_told_from_inf(overflow: Any, torch: Any) -> None:
    """inf less inf is nan, and is called so."""

    class Less(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return x / 0 - x / 0

    model = torch.nn.Sequential(Less())
    overflow.DebugUnderflowOverflow(model, stream=io.StringIO())
    with pytest.raises(overflow.NonFiniteDetected, match=r"^nan in output of 0 \(Less\)"):
        model(torch.ones(2))


def make_parent(torch: Any, between: Callable[[Any], Any]) -> Any:
    """A module that calls a function between two modules of its own."""

    class Parent(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one = torch.nn.Identity()
            self.two = torch.nn.Identity()

        def forward(self, x: Any, mask: Any = None) -> Any:
            return self.two(between(self.one(x)) if mask is None else x)

    return torch.nn.ModuleDict({"parent": Parent()})["parent"]


def test_function_between_modules_is_placed(overflow: Any, torch: Any) -> None:
    """What no module made is placed in the parent's forward, after the module before."""
    model = torch.nn.Sequential(make_parent(torch, lambda x: x * 1e30 * 1e30))
    overflow.DebugUnderflowOverflow(model, stream=io.StringIO())
    with pytest.raises(overflow.NonFiniteDetected) as caught:
        model(torch.ones(2))
    report = caught.value.report
    assert (report.module, report.maker) == ("0.two", "0")
    assert "look in the forward of 0, after 0.one (Identity)" in report.headline


def test_bad_data_is_not_blamed_on_the_model(overflow: Any, torch: Any) -> None:
    """A nan in the batch itself is said to come with the data."""
    model = make_chain(torch, 1.0, torch.float32)
    overflow.DebugUnderflowOverflow(model, stream=io.StringIO())
    model(torch.ones(1, 2))
    with pytest.raises(overflow.NonFiniteDetected, match="batch 1: it came with the data"):
        model(torch.tensor([[1.0, math.nan]]))


def test_bad_weight_is_blamed_on_the_step_before(overflow: Any, torch: Any) -> None:
    """A weight that is inf already is named as such, not its output."""
    model = make_chain(torch, 1.0, torch.float32)
    with torch.no_grad():
        model.second.weight[0, 0] = math.inf
    overflow.DebugUnderflowOverflow(model, stream=io.StringIO())
    with pytest.raises(overflow.NonFiniteDetected, match=r"^inf in weight of second .*optimizer"):
        model(torch.ones(1, 2))


def test_mask_of_inf_can_be_ignored(overflow: Any, torch: Any) -> None:
    """A keyword argument that is -inf on purpose is left out by its name; others are not."""
    model = make_parent(torch, lambda x: x)
    mask = torch.full((2,), -math.inf)
    with overflow.DebugUnderflowOverflow(model, ignore=["mask"]):
        model(torch.ones(2), mask=mask)
    with (
        overflow.DebugUnderflowOverflow(model, ignore=["other"], stream=io.StringIO()),
        pytest.raises(overflow.NonFiniteDetected, match=r"inf in input\[mask\]"),
    ):
        model(torch.ones(2), mask=mask)


def test_first_is_reported_and_training_goes_on(overflow: Any, torch: Any) -> None:
    """With stop=False nothing is raised, and the first one alone is reported."""
    model = make_chain(torch, 2e4, torch.float16)
    stream = io.StringIO()
    debug = overflow.DebugUnderflowOverflow(model, stop=False, stream=stream)
    for _ in range(3):
        model(torch.full((1, 2), 3.0, dtype=torch.float16))
    assert debug.report.frame.batch == 0
    assert debug.batch_number == 2
    assert stream.getvalue().count("the last ") == 1


def test_so_many_frames_are_kept(overflow: Any, torch: Any) -> None:
    """max_frames_to_save frames, the newest, and no fewer than one."""
    found, notes = play(overflow, "--frames", "4")
    assert [f.module for f in found.report.frames] == ORDER[9:13]
    assert "the last 4 frames:" in notes
    with pytest.raises(ValueError, match="1 or more"):
        overflow.DebugUnderflowOverflow(torch.nn.Identity(), max_frames_to_save=0)


def test_chosen_batches_are_traced(overflow: Any, torch: Any) -> None:
    """All frames of batches 1 and 3 are printed, nothing of others, and 4 does not begin."""
    model = make_chain(torch, 1.0, torch.float32)
    stream = io.StringIO()
    overflow.DebugUnderflowOverflow(
        model, trace_batch_nums=[1, 3], abort_after_batch_num=3, stream=stream
    )
    for number in range(4):
        model(torch.full((1, 2), float(number)))
    with pytest.raises(overflow.BatchLimitReached, match="batch 3 is over"):
        model(torch.ones(1, 2))
    text = stream.getvalue()
    assert [line for line in text.splitlines() if "***" in line] == [
        "*** batch 1 ***",
        "*** batch 3 ***",
    ]
    assert text.count("first Linear") == text.count("second Linear") == 2
    assert text.count("(model) Sequential") == 2
    assert "1.00e+00 1.00e+00 input[0] float32" in text
    assert "6.00e+00 6.00e+00 output float32" in text
    assert "2.00e+00 2.00e+00 input[0] float32" not in text.split("batch 3")[0].split("second")[0]


def test_low_overhead_reads_when_the_next_batch_begins(overflow: Any, torch: Any) -> None:
    """A bad batch is told when the next one begins, by its own number, or by check()."""
    model = make_chain(torch, 2e4, torch.float16)
    good, bad = (torch.full((1, 2), value, dtype=torch.float16) for value in (1.0, 3.0))
    debug = overflow.DebugUnderflowOverflow(model, low_overhead=True, stream=io.StringIO())
    for x in (good, good, bad):
        model(x)
    with pytest.raises(overflow.NonFiniteDetected, match=r"output of second .*of batch 2"):
        model(good)
    debug.close()
    with (
        pytest.raises(overflow.NonFiniteDetected, match="batch 0"),
        overflow.DebugUnderflowOverflow(model, low_overhead=True, stream=io.StringIO()),
    ):
        model(bad)


def test_low_overhead_forgets_the_batch_before(overflow: Any, torch: Any) -> None:
    """The largest values told are those of the bad batch, not of one before it."""
    model = make_chain(torch, 1.0, torch.float32)
    model.append(torch.nn.Linear(2, 2))
    debug = overflow.DebugUnderflowOverflow(model, low_overhead=True, stream=io.StringIO())
    model(torch.full((1, 2), 100.0))
    assert debug.check() is None
    with torch.no_grad():
        model[2].bias.fill_(math.nan)
    model(torch.full((1, 2), 3.0))
    with pytest.raises(overflow.NonFiniteDetected, match=r"^nan in output of 2 .*of batch 1"):
        debug.check()
    assert [frame.readings[0].abs_max for frame in debug.report.frames[:2]] == [3.0, 6.0]


def test_low_overhead_never_waits_for_the_device(overflow: Any, torch: Any) -> None:
    """The forward reads no value of a tensor: it runs on tensors that have none, which the
    detector with all frames cannot."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

    with FakeTensorMode():
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
        x = torch.ones(1, 2)
        debug = overflow.DebugUnderflowOverflow(model, low_overhead=True)
        model(x).sum().backward()
        with pytest.raises((DataDependentOutputException, RuntimeError)):
            debug.check()
        debug.close()
        overflow.DebugUnderflowOverflow(model)
        with pytest.raises((DataDependentOutputException, RuntimeError)):
            model(x)


@pytest.mark.parametrize("checkpoint", ["off", "on", "reentrant"])
@pytest.mark.parametrize("more", [{}, {"low_overhead": True}, {"check_gradients": True}])
def test_training_is_not_changed(
    overflow: Any, torch: Any, checkpoint: str, more: dict[str, bool]
) -> None:
    """Outputs and gradients are the same to the last bit, and close() leaves no hook behind."""
    options = overflow.build_parser().parse_args(["--demo", "--checkpoint", checkpoint])
    tokens = torch.arange(12).reshape(2, 6)
    results = []
    for is_watched in (False, True):
        model = overflow.build_demo_model(torch, options)
        debug = overflow.DebugUnderflowOverflow(model, **more) if is_watched else None
        output = model(tokens)
        output.square().sum().backward()
        results.append([output.detach(), *(p.grad for p in model.parameters())])
        if debug is not None:
            debug.check()
            debug.close()
            for module in model.modules():
                assert not module._forward_hooks
                assert not module._forward_pre_hooks
    for plain, watched in zip(*results, strict=True):
        assert torch.equal(plain, watched)


@pytest.mark.parametrize("is_light", [False, True])
def test_inference_and_autocast_work(overflow: Any, torch: Any, is_light: bool) -> None:
    """Under inference_mode, no_grad and autocast the detector reads and finds as ever."""
    model = make_chain(torch, 2e38, torch.float32)
    with overflow.DebugUnderflowOverflow(model, low_overhead=is_light, stream=io.StringIO()) as d:
        with torch.inference_mode():
            model(torch.full((1, 2), 1e-3))
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            model(torch.full((1, 2), 1e-3))
        model(torch.full((1, 2), 1e-3)).sum().backward()
        assert d.check() is None
    with overflow.DebugUnderflowOverflow(model, low_overhead=is_light, stop=False) as d:
        with torch.inference_mode():
            model(torch.full((1, 2), 1.5))
        assert d.check().maker == "second"


Point = collections.namedtuple("Point", "x y")


@dataclasses.dataclass
class Output:
    logits: Any
    extra: Any = None


def test_places_of_tensors_are_named(overflow: Any, torch: Any) -> None:
    """Dicts, tuples, named tuples and dataclasses at any depth; numbers and texts are no tensors,
    and something that holds itself does not end in a loop."""
    t = torch.ones(1)
    value = {
        "a": [t, (t, None)],
        "p": Point(t, 3),
        "o": Output(t, {"k": "text", "n": {1, 2}}),
    }
    value["self"] = value
    places = dict(overflow.list_tensors(torch, value, "output"))
    own = [p for p, v in places.items() if isinstance(v, torch.Tensor) and "[self]" not in p]
    assert own == ["output[a][0]", "output[a][1][0]", "output[p].x", "output[o].logits"]
    assert places["output[a][1][1]"] is None
    assert places["output[o].extra[n]"] == {1, 2}
    assert not any("text" in place for place in places)


def test_all_kinds_of_tensors_are_read(overflow: Any, torch: Any) -> None:
    """float8 of each kind, integers, bool, complex, sparse and float64 have numbers; tensors
    without values say why they have none."""
    make = torch.tensor
    kinds = {
        "e4m3": make([2.0, -448.0]).to(torch.float8_e4m3fn),
        "e5m2": make([2.0, 1e9]).to(torch.float8_e5m2),
        "int": make([2, -7]),
        "bool": make([True, False]),
        "complex": make([3 + 4j, 0]),
        "sparse": make([0.0, 5.0, -2.0]).to_sparse(),
        "double": make([1e300, 2.0], dtype=torch.float64),
        "meta": torch.ones(2, device="meta"),
        "empty": torch.ones(0),
        "none": None,
        "other": {1},
    }
    found = {r.name: r for r in overflow.read_tensors(torch, kinds.items())}
    numbers = {name: (r.abs_min, r.abs_max) for name, r in found.items()}
    assert numbers["e4m3"] == (2.0, 448.0)
    assert (found["e5m2"].abs_min, found["e5m2"].state) == (2.0, "inf")
    assert numbers["int"] == (2, 7)
    assert numbers["bool"] == (0, 1)
    assert numbers["complex"] == (0, 5)
    assert numbers["sparse"] == (2, 5)
    assert numbers["double"] == (2, 1e300)
    words = {name: found[name].words for name in ("meta", "empty", "none", "other")}
    assert words == {
        "meta": "on the meta device",
        "empty": "empty",
        "none": "None",
        "other": "not a tensor: set",
    }


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch calls nested tensors a prototype
@pytest.mark.parametrize("more", [{}, {"low_overhead": True}])
def test_what_cannot_be_read_does_not_end_the_training(
    overflow: Any, torch: Any, more: dict[str, Any]
) -> None:
    """Outputs that no reduction is known for, nested tensors and numbers of 4 bits, are passed
    over, and what is beside them is looked at."""
    four = getattr(torch, "float4_e2m1fn_x2", None)

    class Odd(torch.nn.Module):  # type: ignore[misc,name-defined]
        def forward(self, x: Any) -> Any:
            nested = torch.nested.nested_tensor([x, x])
            tiny = torch.zeros(4, dtype=torch.uint8)
            return nested, tiny if four is None else tiny.view(four), x

    notes = io.StringIO()
    debug = overflow.DebugUnderflowOverflow(Odd(), stream=notes, **more)
    debug.model(torch.ones(2))
    assert debug.check() is None
    with contextlib.suppress(overflow.NonFiniteDetected):
        debug.model(torch.full((2,), math.inf))
        debug.check()
    assert debug.report is not None
    assert debug.report.reading.state == "inf"
    assert more or "could not be read" in notes.getvalue()


def test_float8_overflow_is_found(overflow: Any, torch: Any) -> None:
    """A module that casts 1e6 to float8_e5m2, whose largest is 57344, makes an inf."""

    class Cast(torch.nn.Module):
        def forward(self, x: Any) -> dict[str, Any]:
            return {"x": x.to(torch.float8_e5m2), "scale": x.abs().max()}

    model = torch.nn.Sequential(Cast())
    for is_light in (False, True):
        stream = io.StringIO()
        with overflow.DebugUnderflowOverflow(
            model, low_overhead=is_light, stop=False, stream=stream
        ) as debug:
            model(torch.full((2,), 448.0))
            assert debug.check() is None
            model(torch.full((2,), 1e6))
            assert debug.check().maker == "0"


def test_underflow_is_told(overflow: Any, torch: Any) -> None:
    """An output of zeros alone from an input of more is told beside the first inf."""
    model = make_chain(torch, 1e-7, torch.float16)
    third = torch.nn.Linear(2, 2, dtype=torch.float16)
    with torch.no_grad():
        third.bias.fill_(math.inf)
    model.append(third)
    overflow.DebugUnderflowOverflow(model, stream=(stream := io.StringIO()))
    with pytest.raises(overflow.NonFiniteDetected) as caught:
        model(torch.full((1, 2), 0.2, dtype=torch.float16))
    assert caught.value.report.underflows == ("first (Linear)",)
    assert "outputs of zeros alone: first (Linear)" in stream.getvalue()


def test_loss_that_is_inf_is_told(overflow: Any, torch: Any) -> None:
    """A backward that begins with inf is the loss's fault; a bad weight gradient its module's."""
    model = make_chain(torch, 1.0, torch.float32)
    with overflow.DebugUnderflowOverflow(model, check_gradients=True, stream=io.StringIO()):
        loss = model(torch.ones(1, 2)).sum() * math.inf
        with pytest.raises(overflow.NonFiniteDetected, match="begins with it: look at the loss"):
            loss.backward()
    model = make_chain(torch, 1e-6, torch.float32)
    with overflow.DebugUnderflowOverflow(model, check_gradients=True, stream=io.StringIO()) as d:
        with pytest.raises(overflow.NonFiniteDetected, match="its own backward made it"):
            (model(torch.full((1, 2), 1e36)) * 1e6).sum().backward()
        assert d.report.reading.name == "gradient of weight"
        assert d.report.maker == "first"


def test_lost_numbers_are_counted(overflow: Any, torch: Any) -> None:
    """What was zero or infinite before is not the format's fault; scaling moves the window."""
    # float16: half of 2**-24 is rounded to the even 0, more than that to 2**-24; 65504 is the
    # largest. float8_e4m3fn: 2**-9 to 448.
    numbers = torch.tensor([0.0, math.inf, 2.0**-25, 1.5 * 2.0**-25, 2.0**-14, -65504.0, 65536.0])
    assert overflow.count_lost([numbers], torch.float16) == (5, 1, 1, 1)
    assert overflow.count_lost([numbers], torch.float16, 2.0**11) == (5, 0, 0, 2)
    assert overflow.count_lost([numbers], torch.bfloat16) == (5, 0, 0, 0)
    assert overflow.count_lost([numbers[2:5], numbers[5:]], torch.float8_e4m3fn) == (5, 3, 0, 2)


def test_shares_of_what_formats_lose(call_tool: Any, torch: Any, tmp_path: Path) -> None:
    """More scale, less that is zero and more that is too large; bfloat16 loses nothing here."""
    path = tmp_path / "lost.json"
    done = call_tool(TOOL, "--demo", "--lost", "--device", "cpu", "--json", str(path))
    assert done.returncode == 0, done.stderr
    rows = json.loads(path.read_text())["results"]
    for name in ("float16", "float8_e5m2", "float8_e4m3fn"):
        own = [row for row in rows if row["dtype"] == name]
        zero, large = ([row[key] for row in own] for key in ("zero_share", "too_large_share"))
        assert zero == sorted(zero, reverse=True)
        assert large == sorted(large)
        assert zero[0] > 0.5
        assert large[-1] > 0.5
    assert not any(r["zero_share"] + r["too_large_share"] for r in rows if r["dtype"] == "bfloat16")


def test_one_tensor_is_looked_at(overflow: Any, torch: Any) -> None:
    """detect_overflow says which tensor is bad, and whether one is."""
    stream = io.StringIO()
    assert not overflow.detect_overflow(torch.ones(2), "fine", stream)
    assert overflow.detect_overflow({"a": torch.tensor([math.nan])}, "after the norm", stream)
    assert stream.getvalue() == "after the norm[a] has nan\n"


def test_options_that_make_no_sense_are_refused(overflow: Any, torch: Any) -> None:
    """low_overhead has nothing to trace and no gradients."""
    for more in ({"check_gradients": True}, {"trace_batch_nums": [1]}):
        with pytest.raises(ValueError, match="low_overhead looks at outputs alone"):
            overflow.DebugUnderflowOverflow(torch.nn.Identity(), low_overhead=True, **more)


def test_cost_is_measured(overflow: Any, torch: Any) -> None:
    """measure_cost times a step in three ways, and leaves no hooks."""
    model = make_chain(torch, 1.0, torch.float32)
    costs = overflow.measure_cost(model, lambda: model(torch.ones(1, 2)), repeats=3)
    assert set(costs) == {"plain", "low_overhead", "all_frames"}
    assert 0 < costs["plain"] < costs["all_frames"]
    assert not model._forward_hooks
    text = overflow.describe_costs_of_hooks({"plain": 1.0, "low_overhead": 1.1, "all_frames": 3.0})
    assert text == (
        "a step takes 1.00 s; with low_overhead 1.10 s (1.1x), with all frames 3.00 s (3x)"
    )


@given(
    values=st.lists(
        st.floats(width=32) | st.sampled_from([math.inf, -math.inf, math.nan]), min_size=1
    )
)
def test_smallest_and_largest_are_those_of_python(
    overflow: Any, torch: Any, values: list[float]
) -> None:
    """For any numbers, also several tensors at once and with low overhead's reduction."""
    tensor = torch.tensor(values, dtype=torch.float32)
    other = torch.tensor([1.0, -2.0])
    first, second = overflow.read_tensors(torch, [("a", tensor), ("b", other)])
    assert (second.abs_min, second.abs_max) == (1.0, 2.0)
    norm = float(torch.linalg.vector_norm(tensor, math.inf))
    if any(math.isnan(value) for value in values):
        assert first.state == "nan"
        assert math.isnan(norm)
    else:
        sizes = [abs(value) for value in tensor.tolist()]
        assert (first.abs_min, first.abs_max) == (min(sizes), max(sizes))
        assert first.state == ("inf" if math.inf in sizes else "finite")
        assert norm == max(sizes)


@given(parts=st.lists(st.sampled_from(["blocks", "0", "mlp"]), max_size=4), data=st.data())
def test_names_lose_what_wrappers_added(overflow: Any, parts: list[str], data: Any) -> None:
    """Wherever wrappers put their parts, the name is that of the bare model."""
    wrapped = []
    for part in parts:
        wrapped += data.draw(st.lists(st.sampled_from(sorted(overflow.WRAPPERS)), max_size=2))
        wrapped.append(part)
    assert overflow.clean_name(".".join(wrapped)) == ".".join(parts)


# Two ranks; only the second one's data overflows, and only it may say so. It goes on (stop=False),
# because the other rank waits for it in the collectives.
RANKS_PROGRAM = """\
import json, os, sys
import torch
import torch.distributed as dist
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

import underflow_overflow as tool

torch.set_num_threads(1)
dist.init_process_group("gloo")
rank = dist.get_rank()
mesh = dist.init_device_mesh("cpu", (2,))
found = {}


def build(dtype, outputs="dict"):
    options = tool.build_parser().parse_args(["--demo", "--outputs", outputs])
    return tool.build_demo_model(torch, options).to(dtype)


def plant(model, dtype):
    # Finite as it is; what rank 1 sends through it is not.
    model.blocks[1].mlp.down.weight.data.fill_(torch.finfo(dtype).max / 2**14)


def run(name, model, dtype, embed, unpack, **more):
    debug = tool.DebugUnderflowOverflow(model, 99, stop=False, stream=sys.stdout, **more)
    if rank == 1:
        embed.register_forward_hook(lambda m, i, o: o * 4096)
    unpack(model(torch.arange(8).reshape(1, 8))).float().mean().backward()
    report = debug.check()
    debug.close()
    frames = [f.module for f in report.frames] if report else []
    weights = [r for f in report.frames for r in f.readings if r.name == "weight"] if report else []
    found[name] = {
        "module": report and report.module,
        "frames": frames,
        "dtype": report and report.reading.dtype,
        "weights": len(weights),
    }


def shard(model):
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


# Without the norms, which would take the factor out again.
def flatten(model):
    model.blocks[1].norm = torch.nn.Identity()
    model.norm = torch.nn.Identity()
    return model


for name, dtype in (("fsdp2 float16", torch.float16), ("fsdp2 bfloat16", torch.bfloat16)):
    model = flatten(build(dtype))
    plant(model, dtype)
    run(name, shard(model), dtype, model.embed, model.unpack)
model = flatten(build(torch.float16))
plant(model, torch.float16)
run("fsdp2 light", shard(model), torch.float16, model.embed, model.unpack, low_overhead=True)
model = flatten(build(torch.bfloat16, "tensor"))
plant(model, torch.bfloat16)
unpack, embed = model.unpack, model.embed
for number, block in enumerate(model.blocks):
    model.blocks[number] = checkpoint_wrapper(block)
run("fsdp2 checkpointed", shard(model), torch.bfloat16, embed, unpack)
model = flatten(build(torch.float32, "tensor"))
plant(model, torch.float32)
embed = model.embed
run("ddp", DistributedDataParallel(model), torch.float32, embed, unpack)
model = flatten(build(torch.float32, "tensor"))
plant(model, torch.float32)
embed = model.embed
whole = FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
run("fsdp1", whole, torch.float32, embed, unpack)
# The same overflow on both ranks, in the backward.
model = build(torch.bfloat16)
model.blocks[1].mlp.gate.is_planted = True
shard(model)
with tool.DebugUnderflowOverflow(
    model, stop=False, check_gradients=True, stream=open(os.devnull, "w")
) as debug:
    model.unpack(model(torch.arange(8).reshape(1, 8))).float().mean().backward()
gradient = [debug.report.module, debug.report.maker, debug.report.frame.phase]
with open(os.path.join(sys.argv[1], f"{rank}.json"), "w") as file:
    json.dump([found, gradient], file)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.nightly
def test_overflow_of_one_rank_is_named_by_it_alone(tmp_path: Path) -> None:
    """Under FSDP2 in fp16 and bf16, with dicts, checkpointing and low overhead, under FSDP1 and
    DDP: the rank whose data overflows names the module, and the other one nothing. A gradient that
    overflows under FSDP2 is named by both."""
    script = tmp_path / "train.py"
    script.write_text(RANKS_PROGRAM)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"),
            *("--rdzv_endpoint=localhost:0", "--rdzv_backend=c10d", "--local-addr=127.0.0.1"),
            *(str(script), str(tmp_path)),
        ],
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PATH.parent), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert done.returncode == 0, done.stderr + done.stdout
    (quiet, *gradients), (loud, *others) = (
        json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)
    )
    assert gradients == others == [["blocks.1.mlp.act", "blocks.1.mlp.gate", "backward"]]
    assert {name: row["module"] for name, row in quiet.items()} == dict.fromkeys(quiet)
    named = {name: row["module"] for name, row in loud.items()}
    assert named == dict.fromkeys(loud, "blocks.1.mlp.down")
    assert len(loud) == 6
    for name, row in loud.items():
        # A wrapper's frame has the name of what it wraps.
        frames = [module for module, _ in itertools.groupby(row["frames"])]
        assert frames == ORDER[: ORDER.index("blocks.1.mlp.down") + 1], name
        assert row["weights"] == (0 if "light" in name else 6), name
    assert done.stdout.count("[rank 1] inf in output of blocks.1.mlp.down (Linear)") == 6
    assert "[rank 0]" not in done.stdout


@pytest.mark.nightly
def test_transformers_model_is_looked_through(
    overflow: Any, torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tiny T5 with its output class, masks and cache: in peace when healthy, and in float16 the
    feed-forward layer that overflows is named."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.T5Config(
        vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
        decoder_start_token_id=0,
    )  # fmt: skip
    torch.manual_seed(0)
    model = transformers.T5ForConditionalGeneration(config)
    ids = torch.arange(2, 14).reshape(2, 6)
    mask = torch.ones_like(ids)
    mask[0, 4:] = 0
    with overflow.DebugUnderflowOverflow(model, check_gradients=True) as debug:
        model(input_ids=ids, attention_mask=mask, labels=ids).loss.backward()
    assert debug.report is None
    model = model.half().eval()
    planted = "encoder.block.1.layer.1.DenseReluDense.wo"
    with torch.no_grad():
        model.get_submodule(planted).weight.fill_(6e4)
    overflow.DebugUnderflowOverflow(model, stream=io.StringIO())
    with pytest.raises(overflow.NonFiniteDetected) as caught, torch.no_grad():
        model(input_ids=ids, attention_mask=mask, labels=ids)
    report = caught.value.report
    assert report.maker == planted
    before = "encoder.block.1.layer.1.DenseReluDense.dropout"
    assert report.frames[-2].module == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "this is a library"),
        (["--demo", "--plant", "blocks.7"], "there is no such module"),
        (["--demo", "--plant", "embed"], "plant it at a Linear or LayerNorm, no Embedding"),
        (["--demo", "--low_overhead", "--gradients"], "looks at outputs alone"),
        (["--demo", "--ranks", "2"], "--ranks belongs to --fsdp"),
        (["--demo", "--lost", "--fsdp"], "--lost counts, and detects nothing"),
        (["--demo", "--width", "99999999"], "--width: at most 1048576"),
        (["--demo", "--layers", "99999999"], "--layers: at most 1024"),
        (["--demo", "--checkpoint", "reentrant", "--outputs", "dict"], "tensors and tuples only"),
    ],
)
def test_wrong_use_is_one_line(
    overflow: Any, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    """What makes no sense ends with status 2 and one line."""
    with pytest.raises(SystemExit) as ended:
        overflow.main([*arguments, *(["--repeats", "1"] if arguments else [])])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_too_little_memory_is_told() -> None:
    """A model that the memory does not hold ends with status 2 and a line that says what to do."""
    limit = 8 * 2**30  # a layer of it alone takes 8.6 GB

    def lower_limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    done = subprocess.run(
        [sys.executable, str(PATH), *("--demo", "--device", "cpu", "--width", "32768")],
        preexec_fn=lower_limit,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert "--width 32768 and --layers 2 take more memory than there is" in done.stderr
    assert "Traceback" not in done.stderr


def test_json_has_all_frames(
    tmp_path: Path, call_tool: Callable[..., Any], read_json: Callable[[Path], Any]
) -> None:
    """The frames as rows with base units, inf as a state and not as a number."""
    path = tmp_path / "out.json"
    arguments = ["--demo", "--device", "cpu", "--repeats", "1", "--outputs", "dict"]
    done = call_tool(TOOL, *arguments, "--json", str(path))
    assert done.returncode == 0, done.stderr
    document = read_json(path)
    last = document["results"][-1]
    assert (last["module"], last["tensor"]) == ("blocks.1.mlp.down", "output")
    assert (last["abs_max"], last["state"]) == (None, "inf")
    assert {row["state"] for row in document["results"][:-1]} == {"finite"}
    assert document["details"]["made_by"] == "blocks.1.mlp.down"
    assert all(seconds > 0 for seconds in document["details"]["cost_seconds"].values())
    assert "a step takes" in done.stderr
