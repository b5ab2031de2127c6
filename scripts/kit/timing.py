"""Timing work on a device: by its events where it has them, by the host clock on a CPU."""

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kit.device import synchronize
from kit.files import read_text


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


def make_cache_flush(torch: Any, device: Any) -> Callable[[], None]:
    """A function that overwrites more memory than the last-level caches hold."""
    size = 512 * 1024**2 if device.type != "cpu" else max(64 * 1024**2, 2 * read_cpu_cache())
    buffer = torch.empty(size, dtype=torch.uint8, device=device)
    return lambda: buffer.zero_()


def read_cpu_cache(sysfs: Path = Path("/sys/devices/system/cpu")) -> int:
    """Bytes of all level-3 caches of this machine; 0 where the system does not say."""
    sizes: dict[str, int] = {}
    for folder in sysfs.glob("cpu[0-9]*/cache/index3"):
        with contextlib.suppress(ValueError):
            owners = read_text(folder / "shared_cpu_list")
            sizes[owners] = int(read_text(folder / "size").strip("K")) * 1024
    return sum(sizes.values())
