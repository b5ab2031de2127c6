"""underflow_overflow: planted overflows are named, in models of all kinds and on real ranks."""

from __future__ import annotations

import collections
import io
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TOOL = "debug/underflow_overflow.py"
FOLDER = Path(__file__).parents[1] / "debug"

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def overflow(load_tool: Callable[[str], Any]) -> Any:
    return load_tool(TOOL)


@pytest.fixture(scope="module")
def torch() -> Any:
    import torch

    torch.set_num_threads(1)
    return torch


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
    assert caught.value.maker == "second"
    assert isinstance(caught.value, ValueError)
    assert stream.getvalue() == (
        "inf in output of second (Linear), forward of batch 0: finite numbers went "
        "in, this module produced it\n"
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
    )


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
    report = caught.value
    assert (report.frames[-1].module, report.maker) == ("0.two", "0")
    assert "look in the forward of 0, after 0.one (Identity)" in str(report)


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


def test_loss_that_is_inf_is_told(overflow: Any, torch: Any) -> None:
    """A backward that begins with inf is the loss's fault; a bad weight gradient its module's."""
    model = make_chain(torch, 1.0, torch.float32)
    with overflow.DebugUnderflowOverflow(model, check_gradients=True, stream=io.StringIO()):
        loss = model(torch.ones(1, 2)).sum() * math.inf
        with pytest.raises(overflow.NonFiniteDetected, match="begins with it: look at the loss"):
            loss.backward()
    model = make_chain(torch, 1e-6, torch.float32)
    with overflow.DebugUnderflowOverflow(model, check_gradients=True, stream=io.StringIO()) as d:
        with pytest.raises(overflow.NonFiniteDetected, match="its own backward produced this"):
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


@pytest.mark.parametrize("wrap", ["plain", "checkpointed"])
@pytest.mark.parametrize("more", [{}, {"low_overhead": True}, {"check_gradients": True}])
def test_training_is_not_changed(
    overflow: Any, torch: Any, wrap: str, more: dict[str, bool]
) -> None:
    """Outputs and gradients are the same to the last bit, and close() leaves no hook behind."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    results = []
    for is_watched in (False, True):
        model = overflow.build_model()
        if wrap == "checkpointed":
            model.blocks[1] = checkpoint_wrapper(model.blocks[1])
        debug = overflow.DebugUnderflowOverflow(model, 99, **more) if is_watched else None
        output = model(torch.arange(12).reshape(2, 6))
        output.square().sum().backward()
        results.append([output.detach(), *(p.grad for p in model.parameters())])
    debug.close()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_gradient_that_overflows_is_found(overflow: Any, torch: Any) -> None:
    """The module in whose backward the gradient becomes inf is named."""

    class Boost(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient * 1e30 * 1e30

    model = overflow.build_model()
    model.blocks[1].mlp.gate.forward = Boost.apply
    overflow.DebugUnderflowOverflow(model, check_gradients=True, stream=io.StringIO())
    loss = model(torch.arange(4)).square().sum()
    with pytest.raises(overflow.NonFiniteDetected) as caught:
        loss.backward()
    report = caught.value
    assert report.maker == "blocks.1.mlp.gate"
    assert (report.frames[-1].module, report.frames[-1].phase) == ("blocks.1.mlp.act", "backward")


# Only the data of rank 1 overflows. It goes on, because rank 0 waits for it in the collectives.
PROGRAM = """
import sys, time, torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
import underflow_overflow as tool

dist.init_process_group("gloo")
for wrap, dtype in (("fsdp", torch.float16), ("fsdp", torch.bfloat16), ("ddp", torch.float32)):
    model = tool.build_model().to(dtype)
    model.blocks[1].norm = torch.nn.Identity()  # a norm would take the factor out again
    model.norm = torch.nn.Identity()
    model.blocks[1].mlp.down.weight.data.fill_(torch.finfo(dtype).max / 2**14)
    if dist.get_rank() == 1:
        model.embed.register_forward_hook(lambda m, i, o: o * 4096)
    if wrap == "fsdp":
        mesh = dist.init_device_mesh("cpu", (2,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    else:
        model = DistributedDataParallel(model)
    for is_light in (False, True):
        debug = tool.DebugUnderflowOverflow(
            model, 99, stop=False, low_overhead=is_light, stream=sys.stdout)
        model(torch.arange(8).reshape(1, 8)).float().mean().backward()
        debug.check()
        debug.close()
dist.destroy_process_group()
time.sleep(0.5)  # a thread of gloo that lets go of a tensor while Python ends would abort it
"""


@pytest.mark.nightly
def test_overflow_of_one_rank_is_named_by_it_alone(tmp_path: Path) -> None:
    """Under FSDP2 and DDP, with all frames and low overhead."""
    (tmp_path / "train.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    environ = {**os.environ, "PYTHONPATH": str(FOLDER), "OMP_NUM_THREADS": "1"}
    out = subprocess.check_output([*command, str(tmp_path / "train.py")], env=environ, text=True)
    assert out.count("[rank 1] inf in output of blocks.1.mlp.down (Linear)") == 6
    assert len(re.findall(r"\[rank 1\] +blocks\.0 (FSDP)?Block\n", out)) == 6
    assert "[rank 0]" not in out


def test_demo_names_what_was_planted(call_tool: Any) -> None:
    """Where the reader asks for it."""
    done = call_tool(TOOL, "--demo", "--device", "cpu", "--dtype", "bfloat16", "--plant", "head")
    assert done.returncode == 0
    assert "inf in output of head" in done.stdout
