"""What an NVIDIA GPU says of itself while a tool measures, through nvidia-ml-py (pynvml)."""

from __future__ import annotations

import contextlib
import importlib
import statistics
import threading
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from kit.device import name_device

SAMPLING_SECONDS = 0.1
THROTTLE_BITS = {
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
}
"""Bits of nvmlClocksEventReasons (NVML API reference) that slow a busy GPU down."""


class ClockSample(NamedTuple):
    """The state of a GPU at a moment of time.monotonic()."""

    moment: float
    clock_hertz: float
    temperature_celsius: float
    power_watts: float
    reasons: int


def open_nvml(torch: Any, device: Any) -> tuple[Any, Any]:
    """The pynvml module and its handle of a device. Raises LookupError that says why there is
    none: not an NVIDIA GPU, no nvidia-ml-py, or no driver."""
    if device.type != "cuda" or torch.version.hip is not None:
        raise LookupError(f"there is no NVML for {name_device(torch, device)}")
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError as error:
        raise LookupError("pip install nvidia-ml-py") from error
    try:
        nvml.nvmlInit()
        # torch counts the visible GPUs, NVML counts all of them: the UUID joins them.
        uuid = torch.cuda.get_device_properties(device).uuid
        return nvml, nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except (nvml.NVMLError, AttributeError) as error:
        raise LookupError(f"NVML: {error}") from error


class ClockSampler(threading.Thread):
    """Reads clock, temperature, power and throttle reasons of a GPU in the background."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        super().__init__(daemon=True)
        self.nvml, self.handle = nvml, handle
        self.samples: list[ClockSample] = []

    def run(self) -> None:
        """Sample until the process ends."""
        while True:
            with contextlib.suppress(self.nvml.NVMLError):
                self.samples.append(self.read())
            time.sleep(SAMPLING_SECONDS)

    def read(self) -> ClockSample:
        """The state of the GPU now. Raises NVMLError."""
        nvml, gpu = self.nvml, self.handle
        read_reasons = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        read_reasons = read_reasons or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
        return ClockSample(
            time.monotonic(),
            nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM) * 1e6,
            float(nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU)),
            nvml.nvmlDeviceGetPowerUsage(gpu) / 1e3,
            int(read_reasons(gpu)),
        )


def summarize_clocks(samples: Sequence[ClockSample]) -> dict[str, Any]:
    """Median clock and power, highest temperature, throttle reasons; None without samples."""
    reasons = {bit for sample in samples for bit in THROTTLE_BITS if sample.reasons & bit}
    if not samples:
        names = ("clock_hertz_median", "temperature_celsius_max", "power_watts_median")
        return dict.fromkeys((*names, "throttle_reasons"))
    return {
        "clock_hertz_median": statistics.median(sample.clock_hertz for sample in samples),
        "temperature_celsius_max": max(sample.temperature_celsius for sample in samples),
        "power_watts_median": statistics.median(sample.power_watts for sample in samples),
        "throttle_reasons": " ".join(THROTTLE_BITS[bit] for bit in sorted(reasons)),
    }
