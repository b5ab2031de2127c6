"""The environment variables that a tool gets, and those that a record keeps."""

from __future__ import annotations

import re
import site
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bindery.core.model import refuse
from bindery.core.suggestions import suggest
from bindery.runs.anonymize import hide_folders

_PASSED = frozenset(
    """PATH LANG LANGUAGE TZ LD_LIBRARY_PATH DYLD_LIBRARY_PATH LD_PRELOAD""".split()
)
_PASSED_PREFIXES = ("LC_", "SLURM_", "ROCM_", "NVIDIA_", "ONEAPI_")
_NEVER_PASSED = ("SLURM_JWT",)
# Variables that change how a command runs. The record keeps their values.
_STEERING_PREFIXES = tuple(
    """NCCL_ RCCL_ TORCH_ PYTORCH_ TORCHINDUCTOR_ TRITON_ UCX_ FI_ GLOO_ OMP_ GOMP_ KMP_
    MKL_ OPENBLAS_ CUDA_ CUBLAS_ CUBLASLT_ CUDNN_ NVTE_ HIP_ HSA_ ROCR_ AMD_ MIOPEN_ HIPBLASLT_
    ROCBLAS_ GPU_ ZE_ SYCL_ MALLOC_""".split()
)
# Folders and host addresses.
_NOT_STEERING = re.compile(r"(_HOME|_PATH|_ROOT|_DIR|_COMM_ID)$")
# Passed on, but not recorded.
_PRIVATE = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL|HOST|ADDR|USER", re.IGNORECASE)
_STEERING = tuple(
    """LD_PRELOAD ATEN_CPU_CAPABILITY DNNL_MAX_CPU_ISA ONEDNN_MAX_CPU_ISA NVIDIA_TF32_OVERRIDE
    OMPI_MCA_btl OMPI_MCA_coll OMPI_MCA_pml""".split()
)
_SERIAL_NUMBER = re.compile(r"\b(GPU|MIG)-[0-9a-f]{8}[0-9a-f/-]*")


def choose_environment(
    environ: Mapping[str, str], passed: Sequence[str] = (), *, folder: Path | None = None
) -> dict[str, str]:
    """The environment of a run: variables for finding programs, using accelerators and tuning.
    `folder` becomes its home and temporary folder. Raises ConfigError if a variable to pass is not
    set."""
    if values := [name for name in passed if "=" in name]:
        name = values[0].partition("=")[0]
        message = f"'{values[0]}' is not the name of a variable"
        raise refuse("--env", message, f"set it in your shell, and pass `--env {name}`")
    if missing := [name for name in passed if name not in environ]:
        message = f"the environment variable '{missing[0]}' is not set"
        raise refuse("--env", message, suggest(missing[0], environ, "set it, or omit it"))
    chosen = {
        name: value
        for name, value in environ.items()
        if name in (*_PASSED, *_STEERING, *passed)
        or (name.startswith((*_PASSED_PREFIXES, *_STEERING_PREFIXES)) and name not in _NEVER_PASSED)
    }
    # With another home, Python would not find packages installed with pip --user.
    chosen |= {"PYTHONUNBUFFERED": "1", "PYTHONUSERBASE": site.getuserbase()}
    chosen |= {"PYTHONDONTWRITEBYTECODE": "1", "COLUMNS": "80", "NO_COLOR": "1"}
    if folder is not None:
        chosen |= {"HOME": str(folder), "TMPDIR": str(folder)}
    return chosen


def list_passed(passed: Iterable[str] = ()) -> tuple[str, ...]:
    """The variables that `choose_environment` passes on, as shell patterns for cluster nodes."""
    prefixes = (f"{prefix}*" for prefix in (*_PASSED_PREFIXES, *_STEERING_PREFIXES))
    return (*sorted({*_PASSED, *_STEERING, *passed}), *prefixes)


def find_steering(environment: Mapping[str, str]) -> dict[str, str]:
    """The tuning variables to record: no folders of this machine, and no names that suggest a
    secret, host or user."""
    return {
        name: _SERIAL_NUMBER.sub(r"\1", hide_folders(value))
        for name, value in sorted(environment.items())
        if (name.startswith(_STEERING_PREFIXES) and not _NOT_STEERING.search(name))
        or name in _STEERING
        if not _PRIVATE.search(name)
    }
