"""Any accelerator that torch knows, or the CPU."""

import contextlib
import importlib
import os
import platform
from pathlib import Path
from typing import Any

from kit.cli import UsageError


def import_torch() -> Any:
    """The torch module. Raises UsageError that says how to install it."""
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        advice = "see https://pytorch.org/get-started/locally"
        raise UsageError(f"cannot import torch ({error}); {advice}") from error


def choose_device(torch: Any, name: str | None = None, local_rank: int = 0) -> Any:
    """The device asked for, or this rank's accelerator or CPU, made current. Raises UsageError."""
    present = torch.accelerator.is_available()
    kind = torch.accelerator.current_accelerator().type if present else "cpu"
    try:
        device = torch.device(name or kind)
    except RuntimeError as error:
        raise UsageError(f"--device {name}: not a device of torch; here it is {kind}") from error
    if device.type == "cpu":
        return device
    if device.type != kind:
        raise UsageError(f"--device {name}: torch sees {kind} here")
    index = local_rank if device.index is None else device.index
    count = torch.accelerator.device_count()
    if index >= count:
        raise UsageError(f"there is no {kind} device {index}: torch sees {count}")
    torch.accelerator.set_device_index(index)
    return torch.device(kind, index)


def synchronize(torch: Any, device: Any) -> None:
    """Wait until the device has finished all queued work."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


def name_device(torch: Any, device: Any) -> str:
    """What the vendor calls the device: `NVIDIA H100 80GB HBM3`, or `x86_64` for a CPU."""
    if device.type == "cpu":
        return platform.machine() or "cpu"
    with contextlib.suppress(AttributeError, RuntimeError, TypeError):
        properties = torch.get_device_module(device.type).get_device_properties(device)
        return str(properties.name)
    return str(device.type)


def free_memory(torch: Any, device: Any) -> int | None:
    """Free bytes on the device, or available bytes of main memory for a CPU; None if unknown."""
    if device.type != "cpu":
        with contextlib.suppress(AttributeError, RuntimeError, TypeError):
            return int(torch.get_device_module(device.type).mem_get_info(device)[0])
        return None
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return None


def is_out_of_memory(error: BaseException) -> bool:
    """True where torch failed because the device or the machine has too little memory."""
    text = str(error).lower()
    return type(error).__name__ == "OutOfMemoryError" or "allocate memory" in text


def describe_run(torch: Any, device: Any, **more: Any) -> dict[str, Any]:
    """Device, software and environment variables that decide the speed of a run; `env_report`
    has the rest."""
    prefixes = (
        "NCCL_", "RCCL_", "GLOO_", "TORCH_", "PYTORCH_", "UCX_", "FI_", "OMP_", "MKL_", "ONEDNN_",
        "HIP", "CUBLAS", "CUDA_DEVICE_MAX", "CUDA_LAUNCH", "NVIDIA_TF32", "AMD_SERIALIZE",
    )  # fmt: skip
    names_hosts = ("NCCL_COMM_ID", "NCCL_HOSTID")
    return {
        "device_kind": device.type,
        "device_model": name_device(torch, device),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "rocm": torch.version.hip,
        "threads": torch.get_num_threads() if device.type == "cpu" else None,
        "environment": {
            name: Path(value).name if value.startswith("/") else value
            for name, value in sorted(os.environ.items())
            if name.startswith(prefixes) and name not in names_hosts
        },
        **more,
    }
