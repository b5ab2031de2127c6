"""What an NVIDIA GPU says of itself while a tool measures, through nvidia-ml-py (pynvml)."""

from __future__ import annotations

import contextlib
import importlib
import statistics
import threading
import time
from typing import Any

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
        self.samples: list[tuple[float, float, float, int]] = []

    def run(self) -> None:
        """Sample until the process ends."""
        while True:
            with contextlib.suppress(self.nvml.NVMLError):
                self.samples.append(self.read())
            time.sleep(SAMPLING_SECONDS)

    def read(self) -> tuple[float, float, float, int]:
        """Clock in hertz, temperature, watts and the bits of throttle reasons now."""
        nvml, gpu = self.nvml, self.handle
        return (
            nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM) * 1e6,
            nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
            nvml.nvmlDeviceGetPowerUsage(gpu) / 1e3,
            nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu),
        )

    def summarize(self) -> dict[str, Any]:
        """Median clock and power, highest temperature, throttle reasons; nothing if too short."""
        if not self.samples:
            return {}
        clocks, heats, powers, reasons = zip(*self.samples, strict=True)
        return {
            "clock_hertz_median": statistics.median(clocks),
            "temperature_celsius_max": max(heats),
            "power_watts_median": statistics.median(powers),
            "throttle_reasons": " ".join(
                name for bit, name in THROTTLE_BITS.items() if any(seen & bit for seen in reasons)
            ),
        }
