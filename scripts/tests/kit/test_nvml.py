"""What NVML says, from a stand-in for pynvml: there is no GPU here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from kit.nvml import ClockSampler, open_nvml

CPU = SimpleNamespace(type="cpu")
CUDA = SimpleNamespace(type="cuda")


def make_torch(hip: str | None = None) -> Any:
    """A torch that sees one GPU."""
    properties = SimpleNamespace(name="a GPU", uuid="1-2-3")
    cuda = SimpleNamespace(get_device_properties=lambda _: properties)
    return SimpleNamespace(
        version=SimpleNamespace(hip=hip), cuda=cuda, get_device_module=lambda _: cuda
    )


class NVMLError(Exception):
    """What pynvml raises."""


def make_nvml(**changes: Any) -> Any:
    """A pynvml with one GPU."""
    return SimpleNamespace(
        NVMLError=NVMLError,
        NVML_CLOCK_SM=1,
        NVML_TEMPERATURE_GPU=0,
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByUUID=lambda uuid: f"handle of {uuid}",
        nvmlDeviceGetClockInfo=lambda _gpu, _kind: 1980,
        nvmlDeviceGetTemperature=lambda _gpu, _kind: 61,
        nvmlDeviceGetPowerUsage=lambda _gpu: 699_500,
        nvmlDeviceGetCurrentClocksEventReasons=lambda _gpu: 4,
        **changes,
    )


def test_the_uuid_joins_torch_and_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch counts only the visible GPUs."""
    nvml = make_nvml()
    monkeypatch.setitem(__import__("sys").modules, "pynvml", nvml)
    assert open_nvml(make_torch(), CUDA) == (nvml, "handle of GPU-1-2-3")


@pytest.mark.parametrize(
    ("torch", "device", "pynvml", "reason"),
    [
        (make_torch(), CPU, make_nvml(), "there is no NVML for"),
        (make_torch(hip="7.0"), CUDA, make_nvml(), "there is no NVML for a GPU"),
        (make_torch(), CUDA, None, "pip install nvidia-ml-py"),
    ],
)
def test_a_reason_is_given_where_there_is_none(
    monkeypatch: pytest.MonkeyPatch, torch: Any, device: Any, pynvml: Any, reason: str
) -> None:
    """Not an NVIDIA GPU, or no package."""
    monkeypatch.setitem(__import__("sys").modules, "pynvml", pynvml)
    with pytest.raises(LookupError, match=reason):
        open_nvml(torch, device)


def test_samples_are_in_base_units_and_summarized() -> None:
    """Median clock and power, highest temperature, and every reason that was seen."""
    sampler = ClockSampler(make_nvml(), None)
    assert sampler.summarize() == {}
    assert sampler.read() == (1.98e9, 61, 699.5, 4)
    sampler.samples = [
        (1.98e9, 50, 400.0, 0x0),
        (1.70e9, 61, 699.0, 0x4),
        (1.60e9, 60, 700.0, 0x24),
    ]
    assert sampler.summarize() == {
        "clock_hertz_median": 1.70e9,
        "temperature_celsius_max": 61,
        "power_watts_median": 699.0,
        "throttle_reasons": "sw_power_cap sw_thermal_slowdown",
    }
