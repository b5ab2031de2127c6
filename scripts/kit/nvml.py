"""What an NVIDIA GPU says of itself while a tool measures, through nvidia-ml-py (pynvml)."""

import contextlib
import importlib
import statistics
import threading
import time
from typing import Any

SAMPLING_SECONDS = 0.1
THROTTLE_REASONS = (
    "gpu_idle applications_clocks_setting sw_power_cap hw_slowdown sync_boost sw_thermal_slowdown "
    "hw_thermal_slowdown hw_power_brake_slowdown display_clock_setting board_limit reliability"
).split()
"""The bits of nvmlClocksEventReasons in NVIDIA's NVML API reference, from the lowest."""


def open_nvml(torch: Any, device: Any) -> tuple[Any, Any]:
    """The pynvml module and its handle of a device. Raises LookupError with the reason."""
    if device.type != "cuda" or torch.version.hip is not None:
        raise LookupError("NVML is for NVIDIA GPUs")
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
        clocks, heats, powers, masks = zip(*self.samples, strict=True)
        names = list(enumerate(THROTTLE_REASONS))[1:]  # without gpu_idle
        return {
            "clock_hertz_median": statistics.median(clocks),
            "temperature_celsius_max": max(heats),
            "power_watts_median": statistics.median(powers),
            "throttle_reasons": " ".join(
                name for bit, name in names if any(mask >> bit & 1 for mask in masks)
            ),
        }
