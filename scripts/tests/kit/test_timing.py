"""Devices and clocks, on a CPU."""

from __future__ import annotations

import types

import pytest
from kit.cli import UsageError
from kit.device import choose_device, import_torch
from kit.timing import Stopwatch

pytestmark = pytest.mark.torch


class HostEvent:
    """An event as torch's are: it counts milliseconds, here those of a clock that stands still
    but for the work."""

    now = 0.0

    def __init__(self, _device: object, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.moment = HostEvent.now

    def elapsed_time(self, end: HostEvent) -> float:
        return end.moment - self.moment


def test_events_hold_only_the_work() -> None:
    """With events all calls are queued, and milliseconds become seconds."""
    torch = import_torch()
    watch = Stopwatch(torch, torch.device("cpu"))
    watch.torch, watch.uses_events = types.SimpleNamespace(Event=HostEvent), True

    def spend(milliseconds: float) -> None:
        HostEvent.now += milliseconds

    assert watch.time_each(lambda: spend(3), 2, lambda: spend(50)) == [0.003, 0.003]
    assert watch.time(lambda: spend(2)) == 0.002


def test_devices_that_are_not_there_are_refused() -> None:
    """A name that torch does not know, and an accelerator this machine lacks."""
    torch = import_torch()
    assert choose_device(torch, "cpu").type == "cpu"
    with pytest.raises(UsageError, match="not a device of torch"):
        choose_device(torch, "abacus")
    if not torch.accelerator.is_available():
        with pytest.raises(UsageError, match="torch sees cpu here"):
            choose_device(torch, "cuda")
