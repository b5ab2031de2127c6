"""underflow_overflow: planted overflows are named, in models of all kinds and on real ranks."""

from __future__ import annotations

import collections
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TOOL = "debug/underflow_overflow.py"
FOLDER = Path(__file__).parents[1] / "debug"

pytestmark = pytest.mark.torch


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


def test_report_by_hand(module: Any, torch: Any, capsys: Any) -> None:
    """[1, -3] times 2e4 is 6e4; times 2 is above 65504. The report shows each number."""
    model = make_chain(torch, 2e4, torch.float16)
    module.DebugUnderflowOverflow(model)
    with pytest.raises(module.NonFiniteDetected) as caught:
        model(torch.tensor([[1.0, -3.0]], dtype=torch.float16))
    assert caught.value.maker == "second"
    assert capsys.readouterr().err == (
        "inf in output of second (Linear), forward of batch 0: finite numbers went "
        "in, this module produced it\n"
        "the last 2 frames:\n"
        "abs min  abs max  what\n"
        "                  first Linear\n"
        "0.00e+00 2.00e+04 weight float16\n"
        "1.00e+00 3.00e+00 input[0] float16\n"
        "2.00e+04 6.00e+04 output float16\n"
        "                  second Linear\n"
        "0.00e+00 2.00e+00 weight float16\n"
        "2.00e+04 6.00e+04 input[0] float16\n"
        "4.00e+04      inf output float16\n"
    )


def test_tensors_inside_values_are_found(module: Any, torch: Any, capsys: Any) -> None:
    """In dicts and lists and of float8; what has no numbers is passed over."""
    small = torch.tensor([1.0, math.nan]).to(torch.float8_e5m2)
    value = {"mask": torch.ones(2, dtype=torch.bool), "a": [torch.empty(0), small]}
    assert module.detect_overflow(value, "output")
    assert capsys.readouterr().err == "output[a][1] has nan\n"
    assert not module.detect_overflow(torch.ones(2, device="meta"), "output")


def make_parent(torch: Any, between: Callable[[Any], Any]) -> Any:
    """A module that calls a function between two modules of its own."""
    model = torch.nn.Module()
    model.one, model.two = torch.nn.Identity(), torch.nn.Identity()
    model.forward = lambda x, mask=None: model.two(between(model.one(x)))
    return model


def test_function_between_modules_is_located(module: Any, torch: Any) -> None:
    """What no module made is located in the parent's forward, after the module before."""
    model = torch.nn.Sequential(make_parent(torch, lambda x: x * 1e30 * 1e30))
    module.DebugUnderflowOverflow(model)
    with pytest.raises(module.NonFiniteDetected, match=r"look in the forward of 0, after 0\.one"):
        model(torch.ones(2))


def test_mask_of_inf_can_be_ignored(module: Any, torch: Any) -> None:
    """A keyword argument that is -inf on purpose is ignored by its name; others are not."""
    model = make_parent(torch, lambda x: x)
    mask = torch.full((2,), -math.inf)
    debug = module.DebugUnderflowOverflow(model, ignore=["mask"])
    model(torch.ones(2), mask=mask)
    debug.close()
    module.DebugUnderflowOverflow(model, ignore=["other"])
    with pytest.raises(module.NonFiniteDetected, match=r"inf in input\[mask\]"):
        model(torch.ones(2), mask=mask)


def test_chosen_batches_are_traced(module: Any, torch: Any, capsys: Any) -> None:
    """All frames of batches 1 and 3 are printed, nothing of others, and 4 does not begin."""
    model = make_chain(torch, 1.0, torch.float32)
    module.DebugUnderflowOverflow(model, trace_batch_nums=[1, 3], abort_after_batch_num=3)
    for number in range(4):
        model(torch.full((1, 2), float(number)))
    with pytest.raises(module.BatchLimitReached, match="batch 3 is over"):
        model(torch.ones(1, 2))
    printed = capsys.readouterr().err
    titles = [line.strip() for line in printed.splitlines() if line[0] not in "0123456789"]
    frames = ["abs min  abs max  what", "first Linear", "second Linear", "(model) Sequential"]
    assert titles == ["*** batch 1 ***", *frames, "*** batch 3 ***", *frames]
    assert "6.00e+00 6.00e+00 output float32" in printed


def test_low_overhead_reads_when_the_next_batch_begins(module: Any, torch: Any) -> None:
    """A bad batch is reported when the next one begins, by its own number, or by check()."""
    model = make_chain(torch, 2e4, torch.float16)
    good, bad = (torch.full((1, 2), value, dtype=torch.float16) for value in (1.0, 3.0))
    debug = module.DebugUnderflowOverflow(model, low_overhead=True)
    for x in (good, good, bad):
        model(x)
    with pytest.raises(module.NonFiniteDetected, match=r"output of second .*of batch 2"):
        model(good)
    debug.close()
    debug = module.DebugUnderflowOverflow(model, low_overhead=True)
    model(bad)
    with pytest.raises(module.NonFiniteDetected, match="batch 0"):
        debug.check()


@pytest.mark.parametrize(
    ("numbers", "cause", "maker"),
    [
        ((1.0, 1.0, 1.0, math.inf), "the backward begins with it: look at the loss", "second"),
        ((1e-6, 1.0, 1e36, 1e6), "its own backward produced this", "first"),
        ((1e-20, 1e20, 1.0, 1e30), r"still finite at second \(Linear\)", "second"),
    ],
)
def test_gradient_that_overflows_is_found(
    module: Any, torch: Any, numbers: tuple[float, ...], cause: str, maker: str
) -> None:
    """In the loss, in a weight's gradient, and between two modules."""
    first, second, x, factor = numbers
    model = make_chain(torch, first, torch.float32)
    model.second.weight.data.mul_(second)
    module.DebugUnderflowOverflow(model, check_gradients=True)
    loss = (model(torch.full((1, 2), x)) * factor).sum()
    with pytest.raises(module.NonFiniteDetected, match=cause) as caught:
        loss.backward()
    assert caught.value.maker == maker


def test_lost_numbers_are_counted(module: Any, torch: Any) -> None:
    """What was zero or infinite before is not the format's fault; scaling moves the window."""
    # float16: half of 2**-24 is rounded to the even 0, more than that to 2**-24; 65504 is the
    # largest. float8_e4m3fn: 2**-9 to 448.
    numbers = torch.tensor([0.0, math.inf, 2.0**-25, 1.5 * 2.0**-25, 2.0**-14, -65504.0, 65536.0])
    assert module.count_lost([numbers], torch.float16) == (5, 1, 1, 1)
    assert module.count_lost([numbers], torch.float16, 2.0**11) == (5, 0, 0, 2)
    assert module.count_lost([numbers[2:5], numbers[5:]], torch.float8_e4m3fn) == (5, 3, 0, 2)


@pytest.mark.parametrize("more", [{}, {"low_overhead": True}, {"check_gradients": True}])
def test_training_is_not_changed(module: Any, torch: Any, more: dict[str, bool]) -> None:
    """With activation checkpointing outputs and gradients are the same to the last bit, and
    close() leaves no hook behind."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    results = []
    for is_watched in (False, True):
        model = module.build_model()
        model.blocks[1] = checkpoint_wrapper(model.blocks[1])
        debug = module.DebugUnderflowOverflow(model, 99, **more) if is_watched else None
        output = model(torch.arange(12).reshape(2, 6))
        output.square().sum().backward()
        results.append([output.detach(), *(p.grad for p in model.parameters())])
    debug.close()
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module")
@pytest.mark.parametrize("wrap", ["fsdp", "ddp"])
@pytest.mark.parametrize("low_overhead", [False, True])
def test_overflow_is_found_in_wrapped_models(
    module: Any, torch: Any, capsys: Any, monkeypatch: Any, wrap: str, low_overhead: bool
) -> None:
    """Under FSDP2 and DDP by the module's own name, with the rank."""
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    dtype = torch.float16 if wrap == "fsdp" else torch.float32
    model = module.build_model().to(dtype)
    monkeypatch.setenv("RANK", "3")
    model.blocks[1].norm = torch.nn.Identity()  # a norm would take the factor out again
    model.blocks[1].mlp.down.weight.data.fill_(torch.finfo(dtype).max / 4)
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    try:
        if wrap == "fsdp":
            mesh = torch.distributed.init_device_mesh("cpu", (1,))
            for part in (*model.blocks, model):
                fully_shard(part, mesh=mesh)
        else:
            model = DistributedDataParallel(model)
        options = {"stop": False, "low_overhead": low_overhead}
        debug = module.DebugUnderflowOverflow(model, 99, **options)
        model(torch.arange(8).reshape(1, 8))
        debug.check()
        debug.close()
    finally:
        torch.distributed.destroy_process_group()
    err = capsys.readouterr().err
    assert "[rank 3] inf in output of blocks.1.mlp.down (Linear)" in err
    assert re.search(r"\[rank 3\] +blocks\.0 (FSDP)?Block\n", err)
