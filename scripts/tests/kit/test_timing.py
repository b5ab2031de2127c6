"""Devices and clocks, on a CPU."""

from __future__ import annotations

import pytest
from kit.cli import UsageError
from kit.device import choose_device, describe_run, free_memory, import_torch, is_out_of_memory
from kit.timing import Stopwatch, make_cache_flush

pytestmark = pytest.mark.torch


def test_the_cpu_is_timed_by_the_host_clock() -> None:
    """And the work is done once."""
    torch = import_torch()
    watch = Stopwatch(torch, torch.device("cpu"))
    calls: list[int] = []
    assert watch.time(lambda: calls.append(1)) > 0
    assert (watch.clock, calls) == ("host clock", [1])
    make_cache_flush(torch, torch.device("cpu"))()


def test_devices_that_are_not_there_are_refused() -> None:
    """A name that torch does not know, and an accelerator this machine lacks."""
    torch = import_torch()
    assert choose_device(torch, "cpu").type == "cpu"
    with pytest.raises(UsageError, match="not a device of torch"):
        choose_device(torch, "abacus")
    if not torch.accelerator.is_available():
        with pytest.raises(UsageError, match="torch sees cpu here"):
            choose_device(torch, "cuda")


def test_what_decides_the_speed_is_described() -> None:
    """Without the folders and hosts of this machine."""
    torch = import_torch()
    facts = describe_run(torch, torch.device("cpu"), ranks=2)
    assert facts["device_kind"] == "cpu"
    assert facts["ranks"] == 2
    assert not any("/" in value for value in facts["environment"].values())
    assert free_memory(torch, torch.device("cpu")) > 0


def test_memory_errors_are_told_from_others() -> None:
    """What torch says on a CPU where memory is short."""
    torch = import_torch()
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60)
    assert is_out_of_memory(caught.value)
    assert not is_out_of_memory(RuntimeError("shape mismatch"))
