"""Timing work on a device: by its events where it has them, by the host clock on a CPU."""

import time
from collections.abc import Callable
from typing import Any

from kit.device import synchronize


class Stopwatch:
    """Times work that is queued on a device."""

    def __init__(self, torch: Any, device: Any) -> None:
        self.torch = torch
        self.device = device
        self.uses_events = device.type != "cpu"
        try:
            self.time(lambda: None)
        except (RuntimeError, NotImplementedError, TypeError, ValueError):
            self.uses_events = False

    @property
    def clock(self) -> str:
        """What measures the time: `device events` or `host clock`."""
        return "device events" if self.uses_events else "host clock"

    def time(self, work: Callable[[], object]) -> float:
        """Seconds from the start of `work` on the device until the device has finished it."""
        return self.time_each(work, 1)[0]

    def time_each(
        self, work: Callable[[], object], count: int, before: Callable[[], object] = lambda: None
    ) -> list[float]:
        """Seconds of each of `count` calls of `work`, each after an untimed call of `before`.

        With events all calls are queued at once, so that the device does not wait for launches.
        """
        events, seconds = [], []
        for _ in range(count):
            before()
            if self.uses_events:
                began, ended = (self.torch.Event(self.device, enable_timing=True) for _ in range(2))
                began.record()
                work()
                ended.record()
                events.append((began, ended))
            else:
                synchronize(self.torch, self.device)
                start_time = time.perf_counter()
                work()
                synchronize(self.torch, self.device)
                seconds.append(time.perf_counter() - start_time)
        synchronize(self.torch, self.device)
        return seconds or [began.elapsed_time(ended) / 1e3 for began, ended in events]
