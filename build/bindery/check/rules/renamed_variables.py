"""Renamed environment variables, as documented by their sources on 2026-11-21.

Many releases still accept the old names, others ignore them silently: no run fails, so nobody
notices.
"""

from __future__ import annotations

from msgspec import Struct


class Rename(Struct, frozen=True):
    """An environment variable and its new name."""

    old: str
    new: str
    """A command-line option where no variable replaces the old one."""
    source: str
    since: str = ""
    """The first release with the new name, if known."""
    note: str = ""


_PYTORCH = "https://github.com/pytorch/pytorch/pull"
_NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
_TRANSFORMERS = (
    "https://github.com/huggingface/transformers/blob/1a585c1222a56bcaecc070966d558d4a9d862e83"
    "/src/transformers/utils/hub.py"
)
_HUB = "https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables"
_SLURM = "https://github.com/SchedMD/slurm/blob/master/doc/man/man1/sbatch.1"

_RENAMES = (
    Rename(
        "NCCL_ASYNC_ERROR_HANDLING",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING",
        f"{_PYTORCH}/114077",
        "PyTorch 2.2",
    ),
    Rename("NCCL_BLOCKING_WAIT", "TORCH_NCCL_BLOCKING_WAIT", f"{_PYTORCH}/114077", "PyTorch 2.2"),
    Rename("NCCL_DESYNC_DEBUG", "TORCH_NCCL_DESYNC_DEBUG", f"{_PYTORCH}/114077", "PyTorch 2.2"),
    Rename("NCCL_ENABLE_TIMING", "TORCH_NCCL_ENABLE_TIMING", f"{_PYTORCH}/114077", "PyTorch 2.2"),
    Rename(
        "ENABLE_NCCL_HEALTH_CHECK",
        "TORCH_ENABLE_NCCL_HEALTH_CHECK",
        f"{_PYTORCH}/114077",
        "PyTorch 2.2",
    ),
    Rename(
        "NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
        "TORCH_NCCL_USE_TENSOR_REGISTER_ALLOCATOR_HOOK",
        f"{_PYTORCH}/114077",
        "PyTorch 2.2",
    ),
    Rename(
        "TORCH_NCCL_TRACE_BUFFER_SIZE", "TORCH_FR_BUFFER_SIZE", f"{_PYTORCH}/152563", "PyTorch 2.8"
    ),
    Rename(
        "TORCH_NCCL_DEBUG_INFO_TEMP_FILE",
        "TORCH_FR_DUMP_TEMP_FILE",
        f"{_PYTORCH}/152563",
        "PyTorch 2.8",
    ),
    Rename(
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_ALLOC_CONF",
        f"{_PYTORCH}/167659",
        "PyTorch 2.9",
        "2.9.1 does not take expandable_segments from the new name (pytorch issue 183387)",
    ),
    Rename("PYTORCH_HIP_ALLOC_CONF", "PYTORCH_ALLOC_CONF", f"{_PYTORCH}/167659", "PyTorch 2.9"),
    Rename("NCCL_IB_GDR_LEVEL", "NCCL_NET_GDR_LEVEL", _NCCL, "NCCL 2.4"),
    Rename(
        "NCCL_MAX_NRINGS",
        "NCCL_MAX_NCHANNELS",
        _NCCL,
        "NCCL 2.5",
        "the new one is deprecated in turn since NCCL 2.17",
    ),
    Rename(
        "NCCL_MIN_NRINGS",
        "NCCL_MIN_NCHANNELS",
        _NCCL,
        "NCCL 2.5",
        "the new one is deprecated in turn since NCCL 2.17",
    ),
    Rename(
        "TRANSFORMERS_CACHE",
        "HF_HOME",
        _TRANSFORMERS,
        "Transformers 4.36, gone in 5",
        "models lie in its folder hub",
    ),
    Rename("PYTORCH_TRANSFORMERS_CACHE", "HF_HOME", _TRANSFORMERS, "Transformers 4.36, gone in 5"),
    Rename(
        "PYTORCH_PRETRAINED_BERT_CACHE", "HF_HOME", _TRANSFORMERS, "Transformers 4.36, gone in 5"
    ),
    Rename(
        "HUGGINGFACE_HUB_CACHE",
        "HF_HUB_CACHE",
        f"{_HUB}#deprecated-environment-variables",
        "huggingface_hub 0.19",
    ),
    Rename(
        "HUGGINGFACE_ASSETS_CACHE",
        "HF_ASSETS_CACHE",
        f"{_HUB}#deprecated-environment-variables",
        "huggingface_hub 0.19",
    ),
    Rename(
        "HUGGING_FACE_HUB_TOKEN",
        "HF_TOKEN",
        f"{_HUB}#deprecated-environment-variables",
        "huggingface_hub 0.19",
    ),
    Rename(
        "HUGGINGFACE_HUB_VERBOSITY",
        "HF_HUB_VERBOSITY",
        f"{_HUB}#deprecated-environment-variables",
        "huggingface_hub 0.19",
    ),
    Rename(
        "HF_HUB_ENABLE_HF_TRANSFER",
        "HF_XET_HIGH_PERFORMANCE",
        f"{_HUB}#hfxethighperformance",
        "huggingface_hub 1.0",
        "the old one is ignored",
    ),
    Rename(
        "VLLM_ATTENTION_BACKEND",
        "--attention-backend",
        "https://github.com/vllm-project/vllm/pull/26315",
        "vLLM 0.13",
        "later releases ignore the variable (vllm issue 50292)",
    ),
    Rename("SLURM_JOBID", "SLURM_JOB_ID", _SLURM),
    Rename("SLURM_NPROCS", "SLURM_NTASKS", _SLURM),
)

RENAMES = {rename.old: rename for rename in _RENAMES}
"""By old name."""
