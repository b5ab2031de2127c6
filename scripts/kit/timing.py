"""Timing work on a device: by its events where it has them, by the host clock on a CPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kit.device import synchronize


class Stopwatch:
    """Times work that is queued on a device."""

    def __init__(self, torch: Any, device: Any) -> None:
        self.torch = torch
        self.device = device
        self.uses_events = device.type != "cpu" and self._can_use_events()

    def _can_use_events(self) -> bool:
        try:
            self._time_events(lambda: None)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            return False
        return True

    @property
    def clock(self) -> str:
        """What takes the time: `device events` or `host clock`."""
        return "device events" if self.uses_events else "host clock"

    def time(self, work: Callable[[], object]) -> float:
        """Seconds from the start of `work` on the device until the device has finished it."""
        if self.uses_events:
            return self._time_events(work)
        synchronize(self.torch, self.device)
        began = time.perf_counter()
        work()
        synchronize(self.torch, self.device)
        return time.perf_counter() - began

    def _time_events(self, work: Callable[[], object]) -> float:
        began, ended = (self.torch.Event(self.device, enable_timing=True) for _ in range(2))
        began.record()
        work()
        ended.record()
        synchronize(self.torch, self.device)
        return float(began.elapsed_time(ended)) / 1e3


def make_cache_flush(torch: Any, device: Any, size: int = 512 * 1024**2) -> Callable[[], None]:
    """A function that overwrites `size` bytes on the device, so that nothing measured next is
    still in its last-level cache; it does nothing on a CPU."""
    if device.type == "cpu":
        return lambda: None
    buffer = torch.empty(size // 4, dtype=torch.int32, device=device)
    return lambda: buffer.zero_()
