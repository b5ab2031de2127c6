"""What NVML says, from a stand-in for pynvml: there is no GPU here."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from kit.nvml import ClockSampler, open_nvml

NVML = SimpleNamespace(
    NVMLError=OSError,
    NVML_CLOCK_SM=1,
    NVML_TEMPERATURE_GPU=0,
    nvmlInit=lambda: None,
    nvmlDeviceGetHandleByUUID=lambda uuid: f"handle of {uuid}",
    nvmlDeviceGetClockInfo=lambda _gpu, _kind: 1980,
    nvmlDeviceGetTemperature=lambda _gpu, _kind: 61,
    nvmlDeviceGetPowerUsage=lambda _gpu: 699_500,
    nvmlDeviceGetCurrentClocksEventReasons=lambda _gpu: 4,
)


@pytest.mark.parametrize(
    ("kind", "hip", "pynvml", "reason"),
    [
        ("cuda", None, NVML, None),
        ("cpu", None, NVML, "NVML is for NVIDIA GPUs"),
        ("cuda", "7.0", NVML, "NVML is for NVIDIA GPUs"),
        ("cuda", None, None, "pip install nvidia-ml-py"),
    ],
)
def test_the_uuid_joins_torch_and_nvml(
    monkeypatch: pytest.MonkeyPatch, kind: str, hip: str | None, pynvml: Any, reason: str | None
) -> None:
    """torch counts only the visible GPUs. Where there is no NVML, the reason is given."""
    cuda = SimpleNamespace(get_device_properties=lambda _: SimpleNamespace(uuid="1-2-3"))
    torch = SimpleNamespace(version=SimpleNamespace(hip=hip), cuda=cuda)
    monkeypatch.setitem(sys.modules, "pynvml", pynvml)
    if reason is None:
        assert open_nvml(torch, SimpleNamespace(type=kind)) == (NVML, "handle of GPU-1-2-3")
        return
    with pytest.raises(LookupError, match=reason):
        open_nvml(torch, SimpleNamespace(type=kind))


def test_samples_are_in_base_units_and_summarized() -> None:
    """Median clock and power, highest temperature, and every reason that was seen."""
    sampler = ClockSampler(NVML, None)
    assert sampler.summarize() == {}
    assert sampler.read() == (1.98e9, 61, 699.5, 4)
    sampler.samples = [(1.98e9, 50, 400.0, 0), (1.7e9, 61, 699.0, 4), (1.6e9, 60, 700.0, 0x24)]
    assert sampler.summarize() == {
        "clock_hertz_median": 1.70e9,
        "temperature_celsius_max": 61,
        "power_watts_median": 699.0,
        "throttle_reasons": "sw_power_cap sw_thermal_slowdown",
    }
