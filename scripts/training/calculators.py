#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""How much memory, traffic, time and money will this training take?

The formulas that a training is planned with, each with the publication it comes from: memory of
weights, gradients and optimizer states, activations, KV cache, floating-point operations, MFU and
HFU, collectives, pipeline bubble, checkpoints, storage, time and cost. They are bounds and
estimates on paper: hold a measurement against them, not in their place.

Physics
    Each calculator prints its formula and its source with the result. An example, the bytes of
    a training step on each rank with AdamW in mixed precision, P parameters on N ranks:
        stage 0  (2 + 2 + 12) P      stage 1  (2 + 2) P + 12 P / N
        stage 2  2 P + 14 P / N      stage 3  16 P / N          (Rajbhandari et al., ZeRO)
    Hand check: 7.5e9 parameters, 64 ranks, stage 1: 30 + 90/64 = 31.4 GB.
What is counted and what is not
    Nothing is measured. Units are bytes, seconds, FLOP and FLOP/s; 1 GB is 1e9 bytes. Memory of
    the CUDA context, of fragmentation and of communication buffers is in none of the formulas;
    a real job needs some GB more. Ranks share evenly, links carry their full bandwidth both ways.

How to run
    all questions   python calculators.py --help
    one             python calculators.py memory --parameters 7.5G --zero_stage 0 1 2 3
    what is assumed an input that is not given has a default, and is named as assumed
    many values     several values of an input make a column for each, of two inputs all pairs
    numbers         7.5e9, 7.5G, 80Gi (binary), durations as 90s, 10m, 1h30m, 30d; what is
                    counted, parameters and tokens, also as 70B, 1.5T, 128K (128 000)
    a whole plan    python calculators.py parameters ..., then flops, mfu, run with what it said
    a format        python calculators.py number-format --exponent_bits 5 8 --mantissa_bits 10
    for a program   python calculators.py --describe          the registry of all calculators
                    python calculators.py --cases 100 --seed 1  rows to test another version with
    Slurm, pdsh     not needed: run it anywhere, it takes no accelerator and no torch

A good answer: a plan in which the memory per rank leaves a tenth of the device free, the traffic
takes less time than the computing it hides behind, checkpoints cost one or two percent, and the
assumed MFU is one that somebody has measured on such hardware.

Exit status: 0 done, 1 a self-test failed, or an answer is beyond what is possible (more than the
peak), 2 wrong use, also inputs that do not fit each other.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import itertools
import json
import math
import os
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
# fmt: off
PROFILES = {
    "toy": ["memory", "--parameters", "7.5G", "--zero_stage", "0", "1", "2", "3"],
    "full": ["checkpoint", "--devices", "400", "1600", "6400", "25600"],
    "traffic": [
        "zero-traffic", "--parameters", "8G", "--ranks", "64", "--zero_stage", "0", "3",
        "--bandwidth", "5e9", "10e9", "20e9", "40e9", "80e9", "160e9", "320e9", "640e9",
    ],
    "algorithms": [
        "all-reduce", "--algorithm", "ring", "double-tree", "--ranks", "64", "1024",
        "--payload_bytes", "1e3", "1e4", "1e5", "1e6", "1e7", "1e8", "1e9", "1e10",
        "--bandwidth", "320e9", "--latency", "5e-6",
    ],
    "optimizers": [
        "memory", "--parameters", "8.03G", "--zero_stage", "0", "--data_ranks", "1", "--mode",
        "adamw-fp32", "adamw-mixed", "adamw-mixed-fp32-gradients", "adamw-bf16",
        "adamw-8bit-mixed", "adamw-8bit-bf16", "momentum-mixed", "sgd-mixed", "adafactor-mixed",
    ],
    "lengths": ["flops", "--sequence", "2048", "8192", "32768", "131072", "--causal", "no", "yes"],
    "recomputation": ["flops", "--sequence", "8192", "--recompute", "none", "selective", "full"],
    "activations": [
        "activations", "--layer", "llama", "llama-fused",
        "--recompute", "none", "selective", "full",
    ],
    "accumulation": [
        "batch", "--micro_batch", "1", "--accumulation", "1", "2", "4", "8", "16",
        "--data_ranks", "64", "--sequence", "8192",
    ],
    "formats": [
        "number-format", "--exponent_bits", "5", "8", "--mantissa_bits", "2", "7", "10", "23",
        "--special", "ieee",
    ],
    "small-formats": [
        "number-format", "--exponent_bits", "2", "3", "4", "5", "--mantissa_bits", "1", "2", "3",
        "--special", "fn", "fnuz", "finite",
    ],
    "kv": [
        "kv-cache", "--attention", "mha", "gqa", "mqa", "mla", "--layers", "80", "--heads", "64",
        "--kv_heads", "8", "--head_size", "128", "--value_bytes", "1", "2",
        "--tokens", "1024", "8192", "32768", "131072", "--sequences", "1",
    ],
    "decode": [
        "decode", "--weight_bytes", "16.06e9", "--kv_token_bytes", "131072",
        "--context", "1024", "8192", "32768", "--memory_bandwidth", "3.35e12",
        "--batch", "1", "2", "4", "8", "16", "32", "64", "128", "256", "512",
    ],
}
# fmt: on

Row = dict[str, Any]

# Bytes for each parameter: weights, gradients, a master copy of the weights, optimizer states.
MODES = {
    "adamw-mixed": (2.0, 2.0, 4.0, 8.0),
    "adamw-mixed-fp32-gradients": (2.0, 4.0, 4.0, 8.0),
    "adamw-fp32": (4.0, 4.0, 0.0, 8.0),
    "adamw-bf16": (2.0, 2.0, 0.0, 4.0),
    "adamw-8bit-mixed": (2.0, 2.0, 4.0, 2.0),
    "adamw-8bit-bf16": (2.0, 2.0, 0.0, 2.0),
    "momentum-mixed": (2.0, 2.0, 4.0, 4.0),
    "momentum-fp32": (4.0, 4.0, 0.0, 4.0),
    "sgd-mixed": (2.0, 2.0, 4.0, 0.0),
    "sgd-fp32": (4.0, 4.0, 0.0, 0.0),
    "adafactor-mixed": (2.0, 2.0, 4.0, 0.0),
}
RECOMPUTE = ("none", "selective", "full")
# Llama as in Transformers; with fused norms and SwiGLU; GPT with attention matrices in memory.
LAYERS = ("llama", "llama-fused", "gpt")
# What the last patterns of bits of a floating-point format mean, by the letters of ml_dtypes.
SPECIAL = ("ieee", "fn", "fnuz", "finite")
# The constants of the loss law L = E + A / N**alpha + B / D**beta.
FITS = {
    "hoffmann-2022": (1.69, 406.4, 410.7, 0.34, 0.28),
    "besiroglu-2024": (1.8172, 482.01, 2085.43, 0.3478, 0.3658),
}

LANGUAGE = (
    "each line is `name = expression`, in order; expressions have the names of inputs, tables and "
    'earlier lines, numbers, "text", + - * / ** ( ), comparisons, table[key], and the functions '
    "sqrt exp expm1 log2 ceil min max and when(condition, then, otherwise)"
)

MOST_COLUMNS = 64


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


class Input(NamedTuple):
    """One number, choice or yes-or-no that a calculator asks for; numbers in base units."""

    name: str
    label: str
    unit: str
    default: Any
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[Any, ...] = ()

    @property
    def kind(self) -> str:
        """`choice`, `boolean`, `integer` or `number`."""
        if self.choices:
            return "choice"
        if isinstance(self.default, bool):
            return "boolean"
        return "integer" if isinstance(self.default, int) else "number"


class Output(NamedTuple):
    """One number that a calculator answers with, in base units."""

    name: str
    label: str
    unit: str


class Calculator(NamedTuple):
    """A question, its inputs and outputs, the formula as text and as a function, and a case."""

    name: str
    title: str
    question: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    function: Callable[..., Row]
    formula: tuple[str, ...]
    source: str
    worked: tuple[Row, Row]
    tables: Mapping[str, Mapping[str, float]] = {}
    # Conditions that the inputs have to meet, and those that an answer meets if it can be true.
    requires: tuple[tuple[str, str], ...] = ()
    possible: tuple[tuple[str, str], ...] = ()


def count_transformer_parameters(
    *,
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    head_size: int,
    ffn: int,
    vocab: int,
    positions: int,
    gated: bool,
    biases: bool,
    tied: bool,
    experts: int,
    active_experts: int,
) -> Row:
    """Parameters of a decoder transformer, by counting its matrices (Vaswani et al. 2017).

    Grouped-query attention as in Ainslie et al. 2023, gated MLPs as in Shazeer 2020, experts as
    in Mixtral (Jiang et al. 2024). With `biases` linear layers have biases and norms a shift, as
    in GPT-2; without, norms have a scale alone, as in Llama. `layer_matmul_parameters` are those
    that one token is multiplied with in the layers; `output_parameters` those of the logits.
    """
    shift = 1 if biases else 0
    attention_matrices = hidden * head_size * 2 * (heads + kv_heads)
    attention = attention_matrices + shift * (head_size * (heads + 2 * kv_heads) + hidden)
    mlp_matrices = hidden * ffn * (3 if gated else 2)
    mlp = mlp_matrices + shift * (ffn * (2 if gated else 1) + hidden)
    router = hidden * experts if experts > 1 else 0
    norms = 2 * hidden * (1 + shift)
    layer = attention + experts * mlp + router + norms
    output = vocab * hidden
    embedding = vocab * hidden + positions * hidden
    total = layers * layer + embedding + (0 if tied else output) + hidden * (1 + shift)
    return {
        "attention_parameters": attention,
        "mlp_parameters": mlp,
        "layer_parameters": layer,
        "total_parameters": total,
        "active_parameters": total - layers * (experts - active_experts) * mlp,
        "layer_matmul_parameters": layers
        * (attention_matrices + active_experts * mlp_matrices + router),
        "output_parameters": output,
    }


def compute_training_memory(
    *,
    parameters: float,
    mode: str,
    zero_stage: int,
    data_ranks: int,
    model_ranks: int,
    matrix_size: int,
) -> Row:
    """Bytes on each rank for weights, gradients, master weights and optimizer states.

    Rajbhandari et al. 2020 (ZeRO, arXiv:1910.02054, section 3.1 and figure 1): with 16-bit
    weights and gradients AdamW keeps 12 further bytes for each parameter, and stages 1, 2 and 3
    divide optimizer states, gradients and weights by the number of data-parallel ranks. 8-bit
    states: Dettmers et al. 2022 (arXiv:2110.02861), without their scales of each block.
    Adafactor without momentum keeps a row and a column of fp32 for each matrix (Shazeer and
    Stern 2018, arXiv:1804.04235), here for square matrices of `matrix_size`: 8 / matrix_size
    bytes for each parameter.
    """
    weights, gradients, master, states = MODES[mode]
    if mode == "adafactor-mixed":
        states = 8 / matrix_size
    share = parameters / model_ranks
    parts = {
        "weights_bytes": share * weights / (data_ranks if zero_stage >= 3 else 1),
        "gradients_bytes": share * gradients / (data_ranks if zero_stage >= 2 else 1),
        "master_bytes": share * master / (data_ranks if zero_stage >= 1 else 1),
        "states_bytes": share * states / (data_ranks if zero_stage >= 1 else 1),
    }
    rank = sum(parts.values())
    return {
        "bytes_per_parameter": weights + gradients + master + states,
        **parts,
        "rank_bytes": rank,
        "all_ranks_bytes": rank * data_ranks * model_ranks,
    }


def compute_activation_memory(
    *,
    layer: str,
    layers: int,
    hidden: int,
    ffn: int,
    heads: int,
    kv_heads: int,
    sequence: int,
    micro_batch: int,
    vocab: int,
    tensor_ranks: int,
    sequence_parallel: bool,
    recompute: str,
) -> Row:
    """Bytes of activations that one rank keeps for the backward pass, in 16-bit precision.

    The tensors that autograd saves, counted. `llama` is the layer as Hugging Face Transformers
    runs it: RMSNorm in float32 (input 4, normalized 2, output 2 bytes per element), query, key,
    value and output of a fused attention kernel, SwiGLU in separate operations (four tensors of
    width `ffn`). `llama-fused` has fused kernels for the norms (input and output) and for SwiGLU
    (gate, up and their product), as Megatron-LM has. `gpt` is the layer of Korthikanti et al. 2022
    (arXiv:2205.05198, table 2 and section 4.3): MLP of 4 x hidden, multi-head attention with its
    matrices in memory, dropout. The split over tensor and sequence ranks is that paper's.
    Selective checkpointing keeps the layer's input and the outputs of matmuls and attention, and
    of `gpt` everything except the attention matrices, as in the paper. What is recomputed lives
    for one layer at a time: it is added once. Without pipeline stages; with stages the first one
    holds as much under 1F1B. Logits are counted once, in float32.
    """
    size = sequence * micro_batch * hidden
    shared = tensor_ranks if sequence_parallel else 1
    matrices = 5 * heads * sequence * sequence * micro_batch / tensor_ranks
    keys = 4 * kv_heads / heads
    wide = ffn / hidden
    norm = {"llama": 8, "llama-fused": 4, "gpt": 5}[layer]
    of_tensors, again_of_tensors = {
        "llama": (4 + keys + 8 * wide, 2 + keys / 2 + 4 * wide),
        "llama-fused": (4 + keys + 6 * wide, 2 + keys / 2 + 2 * wide),
        "gpt": (24.0, 0.0),
    }[layer]
    fused = size * (2 * norm / shared + of_tensors / tensor_ranks)
    whole = fused + (matrices if layer == "gpt" else 0)
    outputs = size * (6 / shared + (4 + keys + 4 * wide) / tensor_ranks)
    cheap = size * (2 * norm / shared + again_of_tensors / tensor_ranks)
    kept, again = {
        "none": (whole, 0.0),
        "selective": (fused, matrices) if layer == "gpt" else (outputs, cheap),
        "full": (2.0 * size / (1 if layer == "gpt" else shared), whole),
    }[recompute]
    outside = norm * size / shared + 4 * sequence * micro_batch * vocab / tensor_ranks
    return {
        "layer_bytes": kept,
        "copies": kept / (2 * size),
        "layers_bytes": layers * kept,
        "recomputed_bytes": again,
        "outside_bytes": outside,
        "activation_bytes": layers * kept + again + outside,
    }


def compute_kv_cache(
    *,
    attention: str,
    layers: int,
    heads: int,
    kv_heads: int,
    head_size: int,
    latent_size: int,
    rope_size: int,
    value_bytes: float,
    tokens: int,
    sequences: int,
) -> Row:
    """Bytes of cached keys and values: two vectors for each layer, key-value head and token.

    Multi-query attention has one such head (Shazeer 2019, arXiv:1911.02150), grouped-query
    attention one for each group (Ainslie et al. 2023, arXiv:2305.13245). Multi-head latent
    attention caches one latent vector and one rotated key for each layer and token (DeepSeek-AI
    2024, arXiv:2405.04434, section 2.1).
    """
    cached_heads = {"mha": heads, "gqa": kv_heads, "mqa": 1, "mla": 0}[attention]
    values = 2 * cached_heads * head_size if attention != "mla" else latent_size + rope_size
    token = layers * values * value_bytes
    return {
        "values_per_layer": values,
        "token_bytes": token,
        "sequence_bytes": token * tokens,
        "cache_bytes": token * tokens * sequences,
    }


def count_flops(
    *,
    layer_matmul_parameters: float,
    output_parameters: float,
    layers: int,
    attention_width: int,
    sequence: int,
    causal: bool,
    recompute: str,
    tokens: float,
) -> Row:
    """FLOP of training for each token: two for each parameter and pass, and the attention.

    6 N + 12 L w s: Chowdhery et al. 2022 (PaLM, arXiv:2204.02311, appendix B), with N the
    parameters in matmuls, L layers, w = heads x head size, s tokens of context. With `causal`
    only the half of the attention that is not masked counts. Full recomputation repeats the
    forward pass of the layers, not that of the logits: Narayanan et al. 2021 (arXiv:2104.04473,
    equation 3, which is this sum for N = 12 L h**2 + V h). Selective recomputation repeats the two
    matmuls of the attention (Korthikanti et al. 2022, arXiv:2205.05198); counted here as one
    forward pass of them. Megatron-LM's published HFU counts more: 2.7 % for its 175B model,
    where this has 0.9 %.
    """
    attention = 4 * layers * attention_width * sequence * (0.5 if causal else 1)
    forward = 2 * (layer_matmul_parameters + output_parameters) + attention
    again = {
        "none": 0.0,
        "selective": attention,
        "full": 2 * layer_matmul_parameters + attention,
    }[recompute]
    return {
        "forward_flop": forward,
        "model_flop": 3 * forward,
        "hardware_flop": 3 * forward + again,
        "attention_share": attention / forward,
        "total_model_flop": 3 * forward * tokens,
        "total_hardware_flop": (3 * forward + again) * tokens,
    }


def compute_utilisation(
    *,
    model_flop: float,
    hardware_flop: float,
    step_tokens: float,
    step_seconds: float,
    devices: int,
    peak: float,
) -> Row:
    """MFU and HFU: the needed and the executed FLOP/s over the peak of all devices.

    Chowdhery et al. 2022 (PaLM, arXiv:2204.02311, appendix B).
    """
    needed = model_flop * step_tokens / (step_seconds * devices)
    executed = hardware_flop * step_tokens / (step_seconds * devices)
    return {
        "tokens_per_second": step_tokens / step_seconds,
        "device_model_rate": needed,
        "device_hardware_rate": executed,
        "mfu": needed / peak,
        "hfu": executed / peak,
    }


def compute_peak(*, clock: float, units: int, fma_per_clock: int) -> Row:
    """The FLOP/s of a datasheet: clock x units x 2 x fused multiply-adds of a unit and clock."""
    return {"peak": clock * units * fma_per_clock * 2}


def compute_all_reduce(
    *, algorithm: str, payload_bytes: float, ranks: int, bandwidth: float, latency: float
) -> Row:
    """Seconds of an all-reduce in the model latency x steps + bytes / bandwidth.

    Ring: Patarasuk and Yuan 2009. Recursive halving and doubling (Rabenseifner's algorithm):
    Thakur, Rabenseifner and Gropp 2005. Two binary trees that share the work: Sanders, Speck and
    Traeff 2009, as used by NCCL; large payloads, so that the pipeline is full. The time of adding
    is left out. Bus bandwidth as nccl-tests defines it: payload / time x 2 (n - 1) / n.
    """
    hops = math.ceil(math.log2(ranks))
    factor = 2 * (ranks - 1) / ranks
    steps = 2 * (ranks - 1) if algorithm == "ring" else 2 * hops
    sent = payload_bytes * (2.0 if algorithm == "double-tree" else factor)
    seconds = steps * latency + sent / bandwidth
    return {
        "steps": steps,
        "sent_bytes": sent,
        "collective_seconds": seconds,
        "algbw": payload_bytes / seconds,
        "busbw": payload_bytes / seconds * factor,
    }


def compute_zero_traffic(
    *,
    parameters: float,
    zero_stage: int,
    ranks: int,
    weight_bytes: float,
    gradient_bytes: float,
    accumulation: int,
    bandwidth: float,
) -> Row:
    """Bytes that a rank sends in a training step, and the seconds, with nothing overlapped.

    Rajbhandari et al. 2020 (ZeRO, arXiv:1910.02054, section 7): stage 0 all-reduces gradients,
    stages 1 and 2 reduce-scatter them and all-gather the weights, stage 3 gathers the weights in
    the forward and in the backward pass. In ring form each collective sends (n - 1) / n of its
    bytes, an all-reduce twice. With gradient accumulation stage 2 reduces in each micro-step, for
    it has no room for whole gradients, and stage 3 does all of its traffic in each.
    """
    gradients = parameters * gradient_bytes
    weights = parameters * weight_bytes
    moved = (
        2 * gradients,
        gradients + weights,
        accumulation * gradients + weights,
        accumulation * (gradients + 2 * weights),
    )[zero_stage]
    sent = moved * (ranks - 1) / ranks
    return {"traffic_bytes": sent, "traffic_seconds": sent / bandwidth}


def compute_bubble(*, stages: int, micro_batches: int, chunks: int) -> Row:
    """How much of a pipeline's time its devices wait, with equal stages.

    GPipe (Huang et al. 2019) and 1F1B have the same bubble, (p - 1) / m of the ideal time; with v
    chunks of layers on each device, interleaved, it is 1/v of that: Narayanan et al. 2021
    (arXiv:2104.04473, sections 2.2.1 and 2.2.2).
    """
    work = micro_batches * chunks
    return {
        "bubble_over_ideal": (stages - 1) / work,
        "bubble_share": (stages - 1) / (work + stages - 1),
        "efficiency": work / (work + stages - 1),
    }


def choose_young_interval(write_seconds: float, mtbf: float) -> float:
    """Seconds of work between two checkpoints: sqrt(2 delta M) (Young 1974)."""
    return math.sqrt(2 * write_seconds * mtbf)


def choose_daly_first_interval(write_seconds: float, mtbf: float, restart: float) -> float:
    """sqrt(2 delta (M + R)) - delta, at least 0: Daly's first-order estimate (Daly 2006)."""
    return max(0.0, math.sqrt(2 * write_seconds * (mtbf + restart)) - write_seconds)


def choose_daly_interval(write_seconds: float, mtbf: float) -> float:
    """Daly's higher-order estimate; M where writing takes 2 M or longer (Daly 2006)."""
    if write_seconds >= 2 * mtbf:
        return mtbf
    x = write_seconds / (2 * mtbf)
    return math.sqrt(2 * write_seconds * mtbf) * (1 + math.sqrt(x) / 3 + x / 9) - write_seconds


def compute_lost_share(interval: float, write_seconds: float, restart: float, mtbf: float) -> float:
    """Share of the wall-clock time that is no useful work, for failures at random (Daly 2006).

    Daly's complete model: wall / work = M / tau x exp(R / M) x (exp((tau + delta) / M) - 1).
    """
    wall = (
        mtbf / interval * math.exp(restart / mtbf) * math.expm1((interval + write_seconds) / mtbf)
    )
    return 1 - 1 / wall


def plan_checkpoints(
    *,
    parameters: float,
    bytes_per_parameter: float,
    write_bandwidth: float,
    device_mtbf: float,
    devices: int,
    restart_seconds: float,
    tokens_per_second: float,
    own_interval: float,
) -> Row:
    """Size and writing time of a checkpoint, and how often to write one.

    Young 1974 (a first order approximation to the optimum checkpoint interval) and Daly 2006 (a
    higher order estimate of the optimum checkpoint interval for restart dumps). Failures are
    independent and as likely at any time, so the job's mean time between failures is that of a
    device over their number. A checkpoint has weights, master weights and optimizer states, no
    gradients: 14 bytes for each parameter with AdamW in mixed precision. The writing blocks the
    training. Half of an interval and its writing is lost by a failure, on average. The share that
    is lost is given for Young's interval, for Daly's of higher order, and for `own_interval`, which
    is Daly's too where it is 0.
    """
    size = parameters * bytes_per_parameter
    write = size / write_bandwidth
    mtbf = device_mtbf / devices
    young = choose_young_interval(write, mtbf)
    interval = choose_daly_interval(write, mtbf)
    own = own_interval if own_interval > 0 else interval
    return {
        "checkpoint_bytes": size,
        "write_seconds": write,
        "job_mtbf": mtbf,
        "young_interval": young,
        "daly_first_interval": choose_daly_first_interval(write, mtbf, restart_seconds),
        "daly_interval": interval,
        "write_share": write / (interval + write),
        "young_lost_share": compute_lost_share(young, write, restart_seconds, mtbf),
        "lost_share": compute_lost_share(interval, write, restart_seconds, mtbf),
        "own_lost_share": compute_lost_share(own, write, restart_seconds, mtbf),
        "tokens_lost_by_failure": tokens_per_second * (interval + write) / 2,
    }


def plan_run(
    *,
    model_flop: float,
    tokens: float,
    devices: int,
    peak: float,
    mfu: float,
    useful_share: float,
    device_hour_price: float,
    device_watts: float,
    power_usage_effectiveness: float,
) -> Row:
    """Time, cost and energy of a run: its FLOP over what the devices do of them in a second.

    The definition of MFU turned round (Chowdhery et al. 2022, arXiv:2204.02311, appendix B).
    `useful_share` is what failures, restarts and checkpoints leave of the wall-clock time.
    """
    flop = model_flop * tokens
    seconds = flop / (devices * peak * mfu * useful_share)
    return {
        "run_flop": flop,
        "run_seconds": seconds,
        "device_seconds": seconds * devices,
        "run_tokens_per_second": tokens / seconds,
        "cost": seconds * devices / 3600 * device_hour_price,
        "energy": seconds * devices * device_watts * power_usage_effectiveness,
    }


def estimate_loss(*, parameters: float, tokens: float, fit: str) -> Row:
    """Loss in nats for each token by L = E + A / N**alpha + B / D**beta.

    Hoffmann et al. 2022 (arXiv:2203.15556, equation 10, approach 3), and the constants that
    Besiroglu et al. 2024 (arXiv:2404.10102) fitted to the same runs again. FLOP by 6 N D. A law
    of one data set and tokenizer: use it for ratios, not for your loss.
    """
    floor, a, b, alpha, beta = FITS[fit]
    of_size = a / parameters**alpha
    of_data = b / tokens**beta
    return {
        "loss": floor + of_size + of_data,
        "loss_of_size": of_size,
        "loss_of_data": of_data,
        "tokens_per_parameter": tokens / parameters,
        "loss_flop": 6 * parameters * tokens,
    }


def compute_batch(
    *, micro_batch: int, accumulation: int, data_ranks: int, sequence: int, tokens: float
) -> Row:
    """Sequences and tokens of a step: micro-batch x accumulation steps x data-parallel ranks."""
    batch = micro_batch * accumulation * data_ranks
    return {
        "global_batch": batch,
        "step_tokens": batch * sequence,
        "steps": math.ceil(tokens / (batch * sequence)),
    }


def compute_storage(
    *,
    dataset_tokens: float,
    token_bytes: float,
    tokens_per_second: float,
    checkpoint_bytes: float,
    checkpoint_interval: float,
    checkpoints_kept: int,
    usable_share: float,
) -> Row:
    """Bytes that a run needs on its file system, and the rates it reads and writes at, averaged.

    Counted from the quantities themselves. `usable_share` is how full the file system may become
    before it fails or slows down; buy more by that much.
    """
    needed = dataset_tokens * token_bytes + checkpoint_bytes * checkpoints_kept
    return {
        "read_rate": tokens_per_second * token_bytes,
        "write_rate": checkpoint_bytes / checkpoint_interval,
        "written_per_day": checkpoint_bytes / checkpoint_interval * 86400,
        "needed_bytes": needed,
        "bought_bytes": needed / usable_share,
    }


def compute_decode(
    *,
    weight_bytes: float,
    kv_token_bytes: float,
    context: int,
    batch: int,
    memory_bandwidth: float,
    devices: int,
) -> Row:
    """The fastest that memory allows for generating: weights and KV cache are read at each step.

    Pope et al. 2022 (arXiv:2211.05102, section 2). No computing, no communication.
    """
    read = weight_bytes + kv_token_bytes * context * batch
    seconds = read / (memory_bandwidth * devices)
    return {
        "step_read_bytes": read,
        "decode_seconds": seconds,
        "sequence_tokens_per_second": 1 / seconds,
        "decode_tokens_per_second": batch / seconds,
    }


def compute_transfer(*, payload_bytes: float, bandwidth: float, efficiency: float) -> Row:
    """Seconds for bytes over a link of so many bytes a second, of which a share is reached."""
    return {"transfer_seconds": payload_bytes / (bandwidth * efficiency)}


PARAMETERS = Input("parameters", "parameters of the model", "1", 8.03e9, 1e6, 1e14)
ZERO_STAGE = Input("zero_stage", "ZeRO stage", "1", 1, choices=(0, 1, 2, 3))
RECOMPUTED = Input("recompute", "activations recomputed", "1", "none", choices=RECOMPUTE)
PEAK = Input("peak", "peak of a device, dense", "FLOP/s", 989e12, 1e9, 1e17)


def describe_number_format(*, exponent_bits: int, mantissa_bits: int, special: str) -> Row:
    """Range, fineness and count of the numbers that a floating-point format has.

    IEEE 754-2019, section 3.3, with a sign bit, a hidden bit and subnormal numbers: the exponent
    has the bias 2**(e - 1) - 1, and its last value is infinity and NaN. The formats of 8 bits
    and less reuse these patterns (Micikevicius et al. 2022, arXiv:2209.05433; OCP Microscaling
    Formats 1.0; ml_dtypes): `fn` has no infinity, and NaN where all bits are ones; `fnuz` has one
    NaN in the place of -0 and a bias larger by 1; `finite` has neither.
    """
    bias = 2 ** (exponent_bits - 1) - (0 if special == "fnuz" else 1)
    top = 2**exponent_bits - (2 if special == "ieee" else 1) - bias
    step = 2.0**-mantissa_bits
    largest = (2 - step * (2 if special == "fn" else 1)) * 2.0**top
    smallest_normal = 2.0 ** (1 - bias)
    reserved = 2 * 2**mantissa_bits if special == "ieee" else 2 if special == "fn" else 0
    return {
        "number_bits": 1 + exponent_bits + mantissa_bits,
        "bias": bias,
        "largest": largest,
        "smallest_normal": smallest_normal,
        "smallest": smallest_normal * step,
        "step": step,
        "relative_error": step / (2 + step),
        "decimal_digits": (mantissa_bits + 1) / math.log2(10),
        "doublings": math.log2(largest) - math.log2(smallest_normal) + mantissa_bits,
        "distinct_values": 2 ** (1 + exponent_bits + mantissa_bits) - 1 - reserved,
    }


CALCULATORS = (
    Calculator(
        "parameters",
        "Parameters of a transformer",
        "How many parameters does a decoder transformer have, and how many work on each token?",
        (
            Input("layers", "layers", "1", 32, 1, 1000),
            Input("hidden", "hidden size", "1", 4096, 1, 100_000),
            Input("heads", "attention heads", "1", 32, 1, 1000),
            Input("kv_heads", "key-value heads", "1", 8, 1, 1000),
            Input("head_size", "size of a head", "1", 128, 1, 1024),
            Input("ffn", "hidden size of the MLP (of one expert)", "1", 14336, 1, 400_000),
            Input("vocab", "vocabulary", "1", 128_256, 1, 1_000_000),
            Input("positions", "learned positions", "1", 0, 0, 1_000_000),
            Input("gated", "gated MLP (SwiGLU: three matrices)", "1", True),
            Input("biases", "biases, and norms with a shift", "1", False),
            Input("tied", "output shares the embedding's weights", "1", False),
            Input("experts", "experts of each layer", "1", 1, 1, 1024),
            Input("active_experts", "experts of each token", "1", 1, 1, 1024),
        ),
        (
            Output("attention_parameters", "attention of a layer", "1"),
            Output("mlp_parameters", "MLP of a layer, or one expert", "1"),
            Output("layer_parameters", "a layer", "1"),
            Output("total_parameters", "the model", "1"),
            Output("active_parameters", "active for each token", "1"),
            Output("layer_matmul_parameters", "in matmuls of all layers, active", "1"),
            Output("output_parameters", "in the matmul of the logits", "1"),
        ),
        count_transformer_parameters,
        (
            "shift = when(biases, 1, 0)",
            "attention_matrices = hidden * head_size * 2 * (heads + kv_heads)",
            (
                "attention_parameters = attention_matrices"
                " + shift * (head_size * (heads + 2 * kv_heads) + hidden)"
            ),
            "mlp_matrices = hidden * ffn * when(gated, 3, 2)",
            "mlp_parameters = mlp_matrices + shift * (ffn * when(gated, 2, 1) + hidden)",
            "router = when(experts > 1, hidden * experts, 0)",
            (
                "layer_parameters = attention_parameters + experts * mlp_parameters + router"
                " + 2 * hidden * (1 + shift)"
            ),
            "output_parameters = vocab * hidden",
            (
                "total_parameters = layers * layer_parameters + output_parameters"
                " + positions * hidden + when(tied, 0, output_parameters) + hidden * (1 + shift)"
            ),
            (
                "active_parameters = total_parameters"
                " - layers * (experts - active_experts) * mlp_parameters"
            ),
            (
                "layer_matmul_parameters = layers"
                " * (attention_matrices + active_experts * mlp_matrices + router)"
            ),
        ),
        "Vaswani et al. 2017, arXiv:1706.03762; Ainslie et al. 2023, arXiv:2305.13245; "
        "Shazeer 2020, arXiv:2002.05202; Jiang et al. 2024, arXiv:2401.04088",
        (
            {},
            {
                "attention_parameters": 41_943_040,
                "mlp_parameters": 176_160_768,
                "layer_parameters": 218_112_000,
                "total_parameters": 8_030_261_248,
                "active_parameters": 8_030_261_248,
                "layer_matmul_parameters": 6_979_321_856,
                "output_parameters": 525_336_576,
            },
        ),
        requires=(
            ("kv_heads <= heads", "there are at most as many key-value heads as heads"),
            (
                "ceil(heads / kv_heads) == heads / kv_heads",
                "heads share key-value heads evenly: heads is a multiple of kv_heads",
            ),
            ("active_experts <= experts", "there are at most as many active experts as experts"),
        ),
    ),
    Calculator(
        "memory",
        "Memory of training",
        "How much memory do weights, gradients and optimizer states take on each rank?",
        (
            PARAMETERS,
            Input("mode", "optimizer and precision", "1", "adamw-mixed", choices=tuple(MODES)),
            ZERO_STAGE,
            Input("data_ranks", "data-parallel ranks", "1", 64, 1, 1_000_000),
            Input("model_ranks", "tensor x pipeline ranks", "1", 1, 1, 100_000),
            Input("matrix_size", "size of a matrix (Adafactor)", "1", 4096, 1, 1_000_000),
        ),
        (
            Output("bytes_per_parameter", "each parameter, not sharded", "B"),
            Output("weights_bytes", "weights", "B"),
            Output("gradients_bytes", "gradients", "B"),
            Output("master_bytes", "master weights", "B"),
            Output("states_bytes", "optimizer states", "B"),
            Output("rank_bytes", "each rank", "B"),
            Output("all_ranks_bytes", "all ranks", "B"),
        ),
        compute_training_memory,
        (
            'states = when(mode == "adafactor-mixed", 8 / matrix_size, states_table[mode])',
            (
                "bytes_per_parameter = weights_table[mode] + gradients_table[mode]"
                " + master_table[mode] + states"
            ),
            "share = parameters / model_ranks",
            "weights_bytes = share * weights_table[mode] / when(zero_stage >= 3, data_ranks, 1)",
            (
                "gradients_bytes = share * gradients_table[mode]"
                " / when(zero_stage >= 2, data_ranks, 1)"
            ),
            "master_bytes = share * master_table[mode] / when(zero_stage >= 1, data_ranks, 1)",
            "states_bytes = share * states / when(zero_stage >= 1, data_ranks, 1)",
            "rank_bytes = weights_bytes + gradients_bytes + master_bytes + states_bytes",
            "all_ranks_bytes = rank_bytes * data_ranks * model_ranks",
        ),
        "Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 3.1 and figure 1; "
        "Dettmers et al. 2022, arXiv:2110.02861; Shazeer and Stern 2018, arXiv:1804.04235",
        (
            {"parameters": 7.5e9},
            {
                "bytes_per_parameter": 16,
                "weights_bytes": 15e9,
                "gradients_bytes": 15e9,
                "master_bytes": 468_750_000,
                "states_bytes": 937_500_000,
                "rank_bytes": 31_406_250_000,
                "all_ranks_bytes": 2_010_000_000_000,
            },
        ),
        tables={
            f"{part}_table": {mode: sizes[place] for mode, sizes in MODES.items()}
            for place, part in enumerate(("weights", "gradients", "master", "states"))
        },
    ),
    Calculator(
        "activations",
        "Memory of activations",
        "How much memory do the activations of a layer take, with and without checkpointing?",
        (
            Input("layer", "code of the layer", "1", "llama", choices=LAYERS),
            Input("layers", "layers", "1", 32, 1, 1000),
            Input("hidden", "hidden size", "1", 4096, 1, 100_000),
            Input("ffn", "hidden size of the MLP (llama)", "1", 14_336, 1, 400_000),
            Input("heads", "attention heads", "1", 32, 1, 1000),
            Input("kv_heads", "key-value heads (llama)", "1", 8, 1, 1000),
            Input("sequence", "tokens of a sequence", "1", 8192, 1, 10_000_000),
            Input("micro_batch", "sequences of a micro-batch", "1", 1, 1, 1024),
            Input("vocab", "vocabulary", "1", 128_256, 1, 1_000_000),
            Input("tensor_ranks", "tensor-parallel ranks", "1", 1, 1, 1024),
            Input("sequence_parallel", "sequence parallel", "1", True),
            Input("recompute", "activation checkpointing", "1", "none", choices=RECOMPUTE),
        ),
        (
            Output("layer_bytes", "kept of a layer", "B"),
            Output("copies", "the same in copies of the hidden state", "1"),
            Output("layers_bytes", "kept of all layers", "B"),
            Output("recomputed_bytes", "recomputed, one layer at a time", "B"),
            Output("outside_bytes", "last norm and logits", "B"),
            Output("activation_bytes", "all activations", "B"),
        ),
        compute_activation_memory,
        (
            "size = sequence * micro_batch * hidden",
            "shared = when(sequence_parallel, tensor_ranks, 1)",
            "matrices = 5 * heads * sequence * sequence * micro_batch / tensor_ranks",
            "keys = 4 * kv_heads / heads",
            "wide = ffn / hidden",
            'norm = when(layer == "gpt", 5, when(layer == "llama", 8, 4))',
            (
                'of_tensors = when(layer == "gpt", 24,'
                ' 4 + keys + wide * when(layer == "llama", 8, 6))'
            ),
            (
                'again_of_tensors = when(layer == "gpt", 0,'
                ' 2 + keys / 2 + wide * when(layer == "llama", 4, 2))'
            ),
            "fused = size * (2 * norm / shared + of_tensors / tensor_ranks)",
            'whole = fused + when(layer == "gpt", matrices, 0)',
            "outputs = size * (6 / shared + (4 + keys + 4 * wide) / tensor_ranks)",
            "cheap = size * (2 * norm / shared + again_of_tensors / tensor_ranks)",
            (
                'layer_bytes = when(recompute == "full",'
                ' 2 * size / when(layer == "gpt", 1, shared), when(recompute == "selective",'
                ' when(layer == "gpt", fused, outputs), whole))'
            ),
            "copies = layer_bytes / (2 * size)",
            "layers_bytes = layers * layer_bytes",
            (
                'recomputed_bytes = when(recompute == "full", whole,'
                ' when(recompute == "selective", when(layer == "gpt", matrices, cheap), 0))'
            ),
            (
                "outside_bytes = norm * size / shared"
                " + 4 * sequence * micro_batch * vocab / tensor_ranks"
            ),
            "activation_bytes = layers_bytes + recomputed_bytes + outside_bytes",
        ),
        "the tensors that autograd saves, counted; gpt and the split over ranks: "
        "Korthikanti et al. 2022, arXiv:2205.05198, table 2 and section 4.3",
        (
            {},
            {
                "layer_bytes": 1_644_167_168,
                "copies": 24.5,
                "layers_bytes": 52_613_349_376,
                "recomputed_bytes": 0,
                "outside_bytes": 4_471_128_064,
                "activation_bytes": 57_084_477_440,
            },
        ),
        requires=(
            (
                "ceil(heads / tensor_ranks) == heads / tensor_ranks",
                "tensor-parallel ranks have whole heads: heads is a multiple of tensor_ranks",
            ),
            ("kv_heads <= heads", "there are at most as many key-value heads as heads"),
        ),
    ),
    Calculator(
        "kv-cache",
        "KV cache",
        "How much memory do the cached keys and values of a batch take?",
        (
            Input("attention", "attention", "1", "gqa", choices=("mha", "gqa", "mqa", "mla")),
            Input("layers", "layers", "1", 32, 1, 1000),
            Input("heads", "attention heads (mha)", "1", 32, 1, 1000),
            Input("kv_heads", "key-value heads (gqa)", "1", 8, 1, 1000),
            Input("head_size", "size of a head", "1", 128, 1, 1024),
            Input("latent_size", "size of the latent vector (mla)", "1", 512, 1, 100_000),
            Input("rope_size", "size of the rotated key (mla)", "1", 64, 0, 100_000),
            Input("value_bytes", "bytes of a value", "B", 2.0, 0.25, 8.0),
            Input("tokens", "tokens of a sequence", "1", 1024, 1, 10_000_000),
            Input("sequences", "sequences", "1", 128, 1, 1_000_000),
        ),
        (
            Output("values_per_layer", "values of a token and layer", "1"),
            Output("token_bytes", "a token", "B"),
            Output("sequence_bytes", "a sequence", "B"),
            Output("cache_bytes", "all sequences", "B"),
        ),
        compute_kv_cache,
        (
            'cached_heads = when(attention == "mha", heads, when(attention == "gqa", kv_heads, 1))',
            (
                'values_per_layer = when(attention == "mla", latent_size + rope_size,'
                " 2 * cached_heads * head_size)"
            ),
            "token_bytes = layers * values_per_layer * value_bytes",
            "sequence_bytes = token_bytes * tokens",
            "cache_bytes = sequence_bytes * sequences",
        ),
        "Shazeer 2019, arXiv:1911.02150; Ainslie et al. 2023, arXiv:2305.13245; "
        "DeepSeek-AI 2024, arXiv:2405.04434, section 2.1",
        (
            {},
            {
                "values_per_layer": 2048,
                "token_bytes": 131_072,
                "sequence_bytes": 134_217_728,
                "cache_bytes": 17_179_869_184,
            },
        ),
        requires=(
            ("kv_heads <= heads", "there are at most as many key-value heads as heads"),
            (
                'when(attention == "gqa", ceil(heads / kv_heads) - heads / kv_heads, 0) == 0',
                "heads share key-value heads evenly: heads is a multiple of kv_heads",
            ),
        ),
    ),
    Calculator(
        "flops",
        "Operations of training",
        "How many floating-point operations does training take for each token, and in all?",
        (
            Input(
                "layer_matmul_parameters",
                "parameters in matmuls of the layers",
                "1",
                6.98e9,
                1e3,
                1e14,
            ),
            Input("output_parameters", "parameters of the logits' matmul", "1", 0.525e9, 1.0, 1e13),
            Input("layers", "layers", "1", 32, 1, 1000),
            Input("attention_width", "heads x size of a head", "1", 4096, 1, 100_000),
            Input("sequence", "tokens of a sequence", "1", 8192, 1, 10_000_000),
            Input("causal", "count only the attention that is not masked", "1", False),
            RECOMPUTED,
            Input("tokens", "tokens in all (of a step, of a run)", "1", 1e12, 1.0, 1e16),
        ),
        (
            Output("forward_flop", "forward pass of a token", "FLOP"),
            Output("model_flop", "training on a token", "FLOP"),
            Output("hardware_flop", "training on a token, with recomputation", "FLOP"),
            Output("attention_share", "share of the attention", "1"),
            Output("total_model_flop", "all tokens", "FLOP"),
            Output("total_hardware_flop", "all tokens, with recomputation", "FLOP"),
        ),
        count_flops,
        (
            "attention = 4 * layers * attention_width * sequence * when(causal, 0.5, 1)",
            "forward_flop = 2 * (layer_matmul_parameters + output_parameters) + attention",
            "model_flop = 3 * forward_flop",
            (
                'again = when(recompute == "full", 2 * layer_matmul_parameters + attention,'
                ' when(recompute == "selective", attention, 0))'
            ),
            "hardware_flop = model_flop + again",
            "attention_share = attention / forward_flop",
            "total_model_flop = model_flop * tokens",
            "total_hardware_flop = hardware_flop * tokens",
        ),
        "Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B; "
        "Narayanan et al. 2021, arXiv:2104.04473, equation 3; "
        "Korthikanti et al. 2022, arXiv:2205.05198",
        (
            {
                "layer_matmul_parameters": 173_946_175_488.0,
                "output_parameters": 629_145_600.0,
                "layers": 96,
                "attention_width": 12_288,
                "sequence": 2048,
                "recompute": "full",
                "tokens": 1000.0,
            },
            {
                "forward_flop": 358_814_318_592,
                "model_flop": 1_076_442_955_776,
                "hardware_flop": 1_433_998_983_168,
                "attention_share": 0.026932248,
                "total_model_flop": 1_076_442_955_776_000,
                "total_hardware_flop": 1_433_998_983_168_000,
            },
        ),
    ),
    Calculator(
        "mfu",
        "Model and hardware FLOPS utilisation",
        "Which share of the peak does a training run reach?",
        (
            Input("model_flop", "training on a token", "FLOP", 4.8e10, 1e3, 1e16),
            Input("hardware_flop", "the same, with recomputation", "FLOP", 6.4e10, 1e3, 1e16),
            Input("step_tokens", "tokens of a step", "1", 4.0e6, 1.0, 1e10),
            Input("step_seconds", "seconds of a step", "s", 5.0, 1e-6, 1e6),
            Input("devices", "devices", "1", 128, 1, 1_000_000),
            PEAK,
        ),
        (
            Output("tokens_per_second", "tokens in a second", "1/s"),
            Output("device_model_rate", "needed, of a device", "FLOP/s"),
            Output("device_hardware_rate", "executed, of a device", "FLOP/s"),
            Output("mfu", "MFU", "1"),
            Output("hfu", "HFU", "1"),
        ),
        compute_utilisation,
        (
            "tokens_per_second = step_tokens / step_seconds",
            "device_model_rate = model_flop * step_tokens / (step_seconds * devices)",
            "device_hardware_rate = hardware_flop * step_tokens / (step_seconds * devices)",
            "mfu = device_model_rate / peak",
            "hfu = device_hardware_rate / peak",
        ),
        "Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B",
        (
            {
                "model_flop": 3.12e11,
                "hardware_flop": 4.16e11,
                "step_tokens": 2_097_152.0,
                "step_seconds": 127.0,
                "devices": 64,
                "peak": 312e12,
            },
            {
                "tokens_per_second": 16_513.0078740,
                "device_model_rate": 8.05009133858e13,
                "device_hardware_rate": 1.07334551181e14,
                "mfu": 0.258015748,
                "hfu": 0.344020997,
            },
        ),
        requires=(("hardware_flop >= model_flop", "recomputation only adds to the operations"),),
        possible=(
            (
                "hfu <= 1",
                "more is executed than the peak of all devices: one of the inputs is wrong",
            ),
        ),
    ),
    Calculator(
        "peak",
        "Theoretical peak",
        "How many FLOP/s can an accelerator do by its datasheet?",
        (
            Input("clock", "boost clock", "Hz", 1.41e9, 1e6, 1e11),
            Input("units", "tensor cores or matrix engines", "1", 432, 1, 100_000),
            Input("fma_per_clock", "multiply-adds of a unit and clock", "1", 256, 1, 1_000_000),
        ),
        (Output("peak", "peak, dense", "FLOP/s"),),
        compute_peak,
        ("peak = clock * units * fma_per_clock * 2",),
        "the definition: a fused multiply-add is two operations",
        ({}, {"peak": 3.1186944e14}),
    ),
    Calculator(
        "all-reduce",
        "All-reduce",
        "How long does an all-reduce take at best?",
        (
            Input(
                "algorithm", "algorithm", "1", "ring", choices=("ring", "recursive", "double-tree")
            ),
            Input("payload_bytes", "payload", "B", 8e9, 1.0, 1e13),
            Input("ranks", "ranks", "1", 8, 2, 1_000_000),
            Input("bandwidth", "bandwidth of a rank's link, each way", "B/s", 280e9, 1e3, 1e14),
            Input("latency", "latency of a step", "s", 1e-5, 1e-9, 1.0),
        ),
        (
            Output("steps", "steps one after another", "1"),
            Output("sent_bytes", "sent by each rank", "B"),
            Output("collective_seconds", "time", "s"),
            Output("algbw", "algorithm bandwidth", "B/s"),
            Output("busbw", "bus bandwidth", "B/s"),
        ),
        compute_all_reduce,
        (
            "factor = 2 * (ranks - 1) / ranks",
            'steps = when(algorithm == "ring", 2 * (ranks - 1), 2 * ceil(log2(ranks)))',
            'sent_bytes = payload_bytes * when(algorithm == "double-tree", 2, factor)',
            "collective_seconds = steps * latency + sent_bytes / bandwidth",
            "algbw = payload_bytes / collective_seconds",
            "busbw = payload_bytes / collective_seconds * factor",
        ),
        "Patarasuk and Yuan 2009, doi:10.1016/j.jpdc.2008.09.002; Thakur, Rabenseifner and Gropp "
        "2005, doi:10.1177/1094342005051521; Sanders, Speck and Traeff 2009, "
        "doi:10.1016/j.parco.2009.09.001; nccl-tests, doc/PERFORMANCE.md",
        (
            {},
            {
                "steps": 14,
                "sent_bytes": 14e9,
                "collective_seconds": 0.05014,
                "algbw": 1.595532508975e11,
                "busbw": 2.792181890706e11,
            },
        ),
    ),
    Calculator(
        "zero-traffic",
        "Traffic of data parallelism",
        "How much does each rank send in a training step with DDP or ZeRO, and how long?",
        (
            PARAMETERS,
            ZERO_STAGE,
            Input("ranks", "data-parallel ranks", "1", 64, 2, 1_000_000),
            Input("weight_bytes", "bytes of a weight", "B", 2.0, 0.25, 8.0),
            Input("gradient_bytes", "bytes of a gradient", "B", 2.0, 0.25, 8.0),
            Input("accumulation", "gradient accumulation steps", "1", 1, 1, 100_000),
            Input("bandwidth", "bus bandwidth of a rank", "B/s", 40e9, 1e3, 1e14),
        ),
        (
            Output("traffic_bytes", "sent by each rank in a step", "B"),
            Output("traffic_seconds", "time, nothing overlapped", "s"),
        ),
        compute_zero_traffic,
        (
            "gradients = parameters * gradient_bytes",
            "weights = parameters * weight_bytes",
            (
                "moved = when(zero_stage == 0, 2 * gradients, when(zero_stage == 1,"
                " gradients + weights, when(zero_stage == 2, accumulation * gradients + weights,"
                " accumulation * (gradients + 2 * weights))))"
            ),
            "traffic_bytes = moved * (ranks - 1) / ranks",
            "traffic_seconds = traffic_bytes / bandwidth",
        ),
        "Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 7",
        (
            {"parameters": 1e10, "zero_stage": 3},
            {"traffic_bytes": 59_062_500_000, "traffic_seconds": 1.4765625},
        ),
    ),
    Calculator(
        "bubble",
        "Pipeline bubble",
        "Which share of the time do the devices of a pipeline wait?",
        (
            Input("stages", "pipeline stages", "1", 8, 1, 1024),
            Input("micro_batches", "micro-batches of a step", "1", 32, 1, 100_000),
            Input("chunks", "chunks of layers on each device (1: GPipe, 1F1B)", "1", 1, 1, 128),
        ),
        (
            Output("bubble_over_ideal", "bubble, of the ideal time", "1"),
            Output("bubble_share", "bubble, of the whole time", "1"),
            Output("efficiency", "work, of the whole time", "1"),
        ),
        compute_bubble,
        (
            "work = micro_batches * chunks",
            "bubble_over_ideal = (stages - 1) / work",
            "bubble_share = (stages - 1) / (work + stages - 1)",
            "efficiency = work / (work + stages - 1)",
        ),
        "Narayanan et al. 2021, arXiv:2104.04473, section 2.2; Huang et al. 2019, arXiv:1811.06965",
        (
            {"chunks": 2},
            {
                "bubble_over_ideal": 0.109375,
                "bubble_share": 0.0985915493,
                "efficiency": 0.9014084507,
            },
        ),
        requires=(
            (
                "when(chunks > 1, ceil(micro_batches / stages) - micro_batches / stages, 0) == 0",
                "interleaving (chunks above 1) needs micro_batches to be a multiple of stages",
            ),
        ),
    ),
    Calculator(
        "checkpoint",
        "Checkpoints",
        "How large is a checkpoint, how often should one be written, and what does that cost?",
        (
            Input("parameters", "parameters of the model", "1", 176e9, 1e6, 1e14),
            Input("bytes_per_parameter", "bytes of a parameter in it", "B", 14.0, 0.5, 32.0),
            Input("write_bandwidth", "bandwidth of writing, all ranks", "B/s", 61.6e9, 1e6, 1e14),
            Input("device_mtbf", "mean time between failures of a device", "s", 2.88e7, 1e5, 1e10),
            Input("devices", "devices", "1", 400, 1, 1_000_000),
            Input("restart_seconds", "time to be back at work", "s", 100.0, 0.0, 1e5),
            Input("tokens_per_second", "tokens in a second", "1/s", 1e5, 1.0, 1e10),
            Input("own_interval", "interval of your own, 0 for none", "s", 0.0, 0.0, 1e7),
        ),
        (
            Output("checkpoint_bytes", "checkpoint", "B"),
            Output("write_seconds", "writing it", "s"),
            Output("job_mtbf", "mean time between failures of the job", "s"),
            Output("young_interval", "interval after Young", "s"),
            Output("daly_first_interval", "interval after Daly, first order", "s"),
            Output("daly_interval", "interval after Daly, higher order", "s"),
            Output("write_share", "share of the time that writing takes, after Daly", "1"),
            Output("young_lost_share", "share of the time lost in all, after Young", "1"),
            Output("lost_share", "share of the time lost in all, after Daly", "1"),
            Output("own_lost_share", "the same with your own interval (0: Daly's)", "1"),
            Output("tokens_lost_by_failure", "tokens lost by a failure, after Daly", "1"),
        ),
        plan_checkpoints,
        (
            "checkpoint_bytes = parameters * bytes_per_parameter",
            "write_seconds = checkpoint_bytes / write_bandwidth",
            "job_mtbf = device_mtbf / devices",
            "young_interval = sqrt(2 * write_seconds * job_mtbf)",
            (
                "daly_first_interval = max(0,"
                " sqrt(2 * write_seconds * (job_mtbf + restart_seconds)) - write_seconds)"
            ),
            "x = write_seconds / (2 * job_mtbf)",
            (
                "daly_interval = when(write_seconds >= 2 * job_mtbf, job_mtbf,"
                " young_interval * (1 + sqrt(x) / 3 + x / 9) - write_seconds)"
            ),
            "write_share = write_seconds / (daly_interval + write_seconds)",
            (
                "wall = job_mtbf / daly_interval * exp(restart_seconds / job_mtbf)"
                " * expm1((daly_interval + write_seconds) / job_mtbf)"
            ),
            "lost_share = 1 - 1 / wall",
            (
                "young_wall = job_mtbf / young_interval * exp(restart_seconds / job_mtbf)"
                " * expm1((young_interval + write_seconds) / job_mtbf)"
            ),
            "young_lost_share = 1 - 1 / young_wall",
            "used_interval = when(own_interval > 0, own_interval, daly_interval)",
            (
                "own_wall = job_mtbf / used_interval * exp(restart_seconds / job_mtbf)"
                " * expm1((used_interval + write_seconds) / job_mtbf)"
            ),
            "own_lost_share = 1 - 1 / own_wall",
            "tokens_lost_by_failure = tokens_per_second * (daly_interval + write_seconds) / 2",
        ),
        "Young 1974, doi:10.1145/361147.361115; Daly 2006, doi:10.1016/j.future.2004.11.016",
        (
            {"own_interval": 600.0},
            {
                "checkpoint_bytes": 2_464_000_000_000,
                "write_seconds": 40,
                "job_mtbf": 72_000,
                "young_interval": 2400,
                "daly_first_interval": 2361.666088,
                "daly_interval": 2373.407407407,
                "write_share": 0.016574077,
                "young_lost_share": 0.0343081,
                "lost_share": 0.0343062,
                "own_lost_share": 0.0679559,
                "tokens_lost_by_failure": 120_670_370.37,
            },
        ),
        requires=(
            (
                (
                    "(max(daly_interval, used_interval) + write_seconds + restart_seconds)"
                    " / job_mtbf < 100"
                ),
                "the job fails far more often than a checkpoint would be written",
            ),
        ),
    ),
    Calculator(
        "run",
        "Time and cost of a run",
        "How long does a training run take, and what does it cost?",
        (
            Input("model_flop", "training on a token", "FLOP", 4.8e10, 1e3, 1e16),
            Input("tokens", "tokens", "1", 1e12, 1.0, 1e16),
            Input("devices", "devices", "1", 1000, 1, 1_000_000),
            PEAK,
            Input("mfu", "MFU", "1", 0.4, 1e-4, 1.0),
            Input("useful_share", "share of the time at work", "1", 0.96, 0.01, 1.0),
            Input("device_hour_price", "price of a device for an hour", "1", 2.88, 0.0, 1e4),
            Input(
                "device_watts", "power of a device and its share of the node", "W", 1000.0, 0, 1e5
            ),
            Input(
                "power_usage_effectiveness",
                "power of the building, of the nodes",
                "1",
                1.2,
                1.0,
                4.0,
            ),
        ),
        (
            Output("run_flop", "operations", "FLOP"),
            Output("run_seconds", "time", "s"),
            Output("device_seconds", "time of all devices", "s"),
            Output("run_tokens_per_second", "tokens in a second", "1/s"),
            Output("cost", "cost, in the currency of the price", "1"),
            Output("energy", "energy", "J"),
        ),
        plan_run,
        (
            "run_flop = model_flop * tokens",
            "run_seconds = run_flop / (devices * peak * mfu * useful_share)",
            "device_seconds = run_seconds * devices",
            "run_tokens_per_second = tokens / run_seconds",
            "cost = device_seconds / 3600 * device_hour_price",
            "energy = device_seconds * device_watts * power_usage_effectiveness",
        ),
        "the definition of MFU in Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B",
        (
            {"peak": 1e15},
            {
                "run_flop": 4.8e22,
                "run_seconds": 125_000,
                "device_seconds": 1.25e8,
                "run_tokens_per_second": 8e6,
                "cost": 100_000,
                "energy": 1.5e11,
            },
        ),
    ),
    Calculator(
        "loss",
        "Loss from size and data",
        "Which loss does the scaling law of Chinchilla expect?",
        (
            Input("parameters", "parameters of the model", "1", 70e9, 1e6, 1e14),
            Input("tokens", "tokens", "1", 1.4e12, 1e6, 1e16),
            Input("fit", "constants", "1", "hoffmann-2022", choices=tuple(FITS)),
        ),
        (
            Output("loss", "loss (nats for each token)", "1"),
            Output("loss_of_size", "of it, by the size", "1"),
            Output("loss_of_data", "of it, by the data", "1"),
            Output("tokens_per_parameter", "tokens for each parameter", "1"),
            Output("loss_flop", "operations, 6 N D", "FLOP"),
        ),
        estimate_loss,
        (
            "loss_of_size = a_table[fit] / parameters ** alpha_table[fit]",
            "loss_of_data = b_table[fit] / tokens ** beta_table[fit]",
            "loss = floor_table[fit] + loss_of_size + loss_of_data",
            "tokens_per_parameter = tokens / parameters",
            "loss_flop = 6 * parameters * tokens",
        ),
        "Hoffmann et al. 2022, arXiv:2203.15556, equation 10; Besiroglu et al. 2024, "
        "arXiv:2404.10102",
        (
            {"parameters": 1e10, "tokens": 1e12},
            {
                "loss": 2.031068,
                "loss_of_size": 0.161791,
                "loss_of_data": 0.179277,
                "tokens_per_parameter": 100,
                "loss_flop": 6e22,
            },
        ),
        tables={
            f"{part}_table": {fit: constants[place] for fit, constants in FITS.items()}
            for place, part in enumerate(("floor", "a", "b", "alpha", "beta"))
        },
    ),
    Calculator(
        "batch",
        "Global batch",
        "How many sequences and tokens are in a step, and how many steps in a run?",
        (
            Input("micro_batch", "sequences of a micro-batch", "1", 8, 1, 10_000),
            Input("accumulation", "gradient accumulation steps", "1", 32, 1, 100_000),
            Input("data_ranks", "data-parallel ranks", "1", 4, 1, 1_000_000),
            Input("sequence", "tokens of a sequence", "1", 2048, 1, 10_000_000),
            Input("tokens", "tokens of the run", "1", 1e12, 1.0, 1e16),
        ),
        (
            Output("global_batch", "sequences of a step", "1"),
            Output("step_tokens", "tokens of a step", "1"),
            Output("steps", "steps", "1"),
        ),
        compute_batch,
        (
            "global_batch = micro_batch * accumulation * data_ranks",
            "step_tokens = global_batch * sequence",
            "steps = ceil(tokens / step_tokens)",
        ),
        "the definition",
        ({}, {"global_batch": 1024, "step_tokens": 2_097_152, "steps": 476_838}),
    ),
    Calculator(
        "storage",
        "Storage of a run",
        "How much storage does a run need, and how fast?",
        (
            Input("dataset_tokens", "tokens of the data set", "1", 1e13, 0.0, 1e16),
            Input("token_bytes", "bytes of a token on disk", "B", 4.0, 0.5, 1e6),
            Input("tokens_per_second", "tokens in a second", "1/s", 1e6, 0.0, 1e10),
            Input("checkpoint_bytes", "checkpoint", "B", 2.4e12, 0.0, 1e15),
            Input("checkpoint_interval", "time between checkpoints", "s", 10_800.0, 1.0, 1e7),
            Input("checkpoints_kept", "checkpoints kept", "1", 25, 0, 100_000),
            Input("usable_share", "share that may be filled", "1", 0.8, 0.05, 1.0),
        ),
        (
            Output("read_rate", "reading, averaged", "B/s"),
            Output("write_rate", "writing, averaged", "B/s"),
            Output("written_per_day", "written in a day", "B"),
            Output("needed_bytes", "data and checkpoints", "B"),
            Output("bought_bytes", "to be bought", "B"),
        ),
        compute_storage,
        (
            "read_rate = tokens_per_second * token_bytes",
            "write_rate = checkpoint_bytes / checkpoint_interval",
            "written_per_day = write_rate * 86400",
            "needed_bytes = dataset_tokens * token_bytes + checkpoint_bytes * checkpoints_kept",
            "bought_bytes = needed_bytes / usable_share",
        ),
        "counted from the quantities themselves",
        (
            {},
            {
                "read_rate": 4e6,
                "write_rate": 222_222_222.2222,
                "written_per_day": 1.92e13,
                "needed_bytes": 1e14,
                "bought_bytes": 1.25e14,
            },
        ),
    ),
    Calculator(
        "decode",
        "Bound of generating",
        "How many tokens in a second does the memory bandwidth allow a model to generate?",
        (
            Input("weight_bytes", "weights read at each step", "B", 16e9, 1e3, 1e15),
            Input("kv_token_bytes", "KV cache of a token", "B", 131_072.0, 0.0, 1e9),
            Input("context", "tokens of context, averaged", "1", 4096, 0, 10_000_000),
            Input("batch", "sequences at once", "1", 16, 1, 1_000_000),
            Input("memory_bandwidth", "memory bandwidth of a device", "B/s", 3.35e12, 1e6, 1e15),
            Input("devices", "devices that share the work", "1", 1, 1, 100_000),
        ),
        (
            Output("step_read_bytes", "read at each step", "B"),
            Output("decode_seconds", "a step, at least", "s"),
            Output("sequence_tokens_per_second", "tokens of a sequence, at most", "1/s"),
            Output("decode_tokens_per_second", "tokens of all sequences, at most", "1/s"),
        ),
        compute_decode,
        (
            "step_read_bytes = weight_bytes + kv_token_bytes * context * batch",
            "decode_seconds = step_read_bytes / (memory_bandwidth * devices)",
            "sequence_tokens_per_second = 1 / decode_seconds",
            "decode_tokens_per_second = batch / decode_seconds",
        ),
        "Pope et al. 2022, arXiv:2211.05102, section 2",
        (
            {},
            {
                "step_read_bytes": 24_589_934_592,
                "decode_seconds": 0.007340279,
                "sequence_tokens_per_second": 136.234599,
                "decode_tokens_per_second": 2179.75358,
            },
        ),
    ),
    Calculator(
        "transfer",
        "Transfer",
        "How long do bytes take over a link?",
        (
            Input("payload_bytes", "payload", "B", 320e9, 1.0, 1e18),
            Input("bandwidth", "bandwidth (1 Gbit/s is 0.125e9)", "B/s", 25e9, 1.0, 1e15),
            Input("efficiency", "share of it that is reached", "1", 0.8, 0.001, 1.0),
        ),
        (Output("transfer_seconds", "time", "s"),),
        compute_transfer,
        ("transfer_seconds = payload_bytes / (bandwidth * efficiency)",),
        "the definition",
        ({}, {"transfer_seconds": 16}),
    ),
    Calculator(
        "number-format",
        "Number format",
        "How far does a floating-point format reach, and how fine is it?",
        (
            Input("exponent_bits", "bits of the exponent", "1", 8, 2, 11),
            Input("mantissa_bits", "bits of the mantissa", "1", 7, 1, 52),
            Input("special", "what the last patterns mean", "1", "ieee", choices=SPECIAL),
        ),
        (
            Output("number_bits", "bits of a number, with the sign", "1"),
            Output("bias", "bias of the exponent", "1"),
            Output("largest", "largest number", "1"),
            Output("smallest_normal", "smallest with all digits", "1"),
            Output("smallest", "smallest above zero", "1"),
            Output("step", "from 1 to the next", "1"),
            Output("relative_error", "error of rounding, at most, of a normal number", "1"),
            Output("decimal_digits", "decimal digits", "1"),
            Output("doublings", "doublings from the smallest to the largest", "1"),
            Output("distinct_values", "different finite numbers", "1"),
        ),
        describe_number_format,
        (
            'bias = 2 ** (exponent_bits - 1) - when(special == "fnuz", 0, 1)',
            'top = 2 ** exponent_bits - when(special == "ieee", 2, 1) - bias',
            "number_bits = 1 + exponent_bits + mantissa_bits",
            "step = 2 ** (0 - mantissa_bits)",
            'largest = (2 - step * when(special == "fn", 2, 1)) * 2 ** top',
            "smallest_normal = 2 ** (1 - bias)",
            "smallest = smallest_normal * step",
            "relative_error = step / (2 + step)",
            "decimal_digits = (mantissa_bits + 1) / log2(10)",
            "doublings = log2(largest) - log2(smallest_normal) + mantissa_bits",
            'patterns = when(special == "ieee", 2 ** mantissa_bits, when(special == "fn", 1, 0))',
            "distinct_values = 2 ** (1 + exponent_bits + mantissa_bits) - 1 - 2 * patterns",
        ),
        "IEEE 754-2019, section 3.3; Micikevicius et al. 2022, arXiv:2209.05433; OCP Microscaling "
        "Formats 1.0; ml_dtypes, README",
        (
            {},
            {
                "number_bits": 16,
                "bias": 127,
                "largest": 3.3895313892515355e38,
                "smallest_normal": 1.1754943508222875e-38,
                "smallest": 9.183549615799121e-41,
                "step": 0.0078125,
                "relative_error": 0.00389105058,
                "decimal_digits": 2.40824,
                "doublings": 260.994353,
                "distinct_values": 65_279,
            },
        ),
    ),
)

# The unit of each column of the JSON's results that holds numbers; all calculators together.
UNITS: dict[str, str] = {
    **{asked.name: asked.unit for one in CALCULATORS for asked in one.inputs},
    **{output.name: output.unit for one in CALCULATORS for output in one.outputs},
}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "expm1": math.expm1,
    "log2": math.log2,
    "ceil": math.ceil,
    "min": min,
    "max": max,
    "when": lambda condition, then, otherwise: then if condition else otherwise,
}


def evaluate_formula(calculator: Calculator, given: Mapping[str, Any]) -> dict[str, Any]:
    """Every name that the lines of the formula set, computed from the text alone."""
    names = {**calculator.tables, **given}
    for line in calculator.formula:
        name, expression = line.split(" = ", 1)
        names[name] = eval(expression, {"__builtins__": {}, **FUNCTIONS}, names)
    return names


def format_bound(value: Any) -> str:
    """`1,000,000`, `0.25` or `1e+14`: a number as people write it."""
    is_short = float(value).is_integer() and abs(value) < 1e9
    return f"{value:,.0f}" if is_short else f"{value:g}"


def fill_inputs(calculator: Calculator, given: Mapping[str, Any]) -> dict[str, Any]:
    """All inputs, with the defaults where none is given. Raises WrongUse out of their bounds."""
    filled = {}
    for asked in calculator.inputs:
        value = given.get(asked.name, asked.default)
        if asked.kind in ("integer", "number"):
            if asked.kind == "integer" and value != int(value):
                raise WrongUse(f"--{asked.name} {value}: this has to be a whole number")
            value = int(value) if asked.kind == "integer" else float(value)
            for word, bound, is_beyond in (
                ("least", asked.minimum, asked.minimum is not None and value < asked.minimum),
                ("most", asked.maximum, asked.maximum is not None and value > asked.maximum),
            ):
                if is_beyond:
                    raise WrongUse(
                        f"--{asked.name} has to be at {word} {format_bound(bound)}, and "
                        f"{format_bound(value)} was given"
                    )
        filled[asked.name] = value
    try:
        names = evaluate_formula(calculator, filled)
        broken = find_broken(calculator.requires, names)
    except (OverflowError, ZeroDivisionError) as error:
        broken = [message for _, message in calculator.requires]
        if not broken:
            raise WrongUse(f"{calculator.name}: these numbers are too extreme") from error
    if broken:
        raise WrongUse(f"{calculator.name}: {broken[0]}")
    return filled


def find_broken(conditions: Sequence[tuple[str, str]], names: Mapping[str, Any]) -> list[str]:
    """What is said of the conditions that do not hold for these values."""
    return [
        message
        for expression, message in conditions
        if not eval(expression, {"__builtins__": {}, **FUNCTIONS}, dict(names))
    ]


def calculate(calculator: Calculator, given: Mapping[str, Any]) -> tuple[Row, Row]:
    """Inputs and outputs of one case. Raises WrongUse for inputs that make no sense."""
    filled = fill_inputs(calculator, given)
    answers = calculator.function(**filled)
    return filled, {output.name: answers[output.name] for output in calculator.outputs}


def describe_calculator(calculator: Calculator) -> dict[str, Any]:
    """What a site needs to build a page and a twin of the calculator in another language."""
    inputs, outputs = calculator.worked
    return {
        "name": calculator.name,
        "title": calculator.title,
        "question": calculator.question,
        "inputs": [
            {
                "name": asked.name,
                "label": asked.label,
                "unit": asked.unit,
                "type": asked.kind,
                "default": asked.default,
                "min": asked.minimum,
                "max": asked.maximum,
                "choices": list(asked.choices),
            }
            for asked in calculator.inputs
        ],
        "outputs": [output._asdict() for output in calculator.outputs],
        "formula": list(calculator.formula),
        "tables": {name: dict(table) for name, table in calculator.tables.items()},
        "requires": [
            {"condition": condition, "message": message}
            for condition, message in calculator.requires
        ],
        "possible": [
            {"condition": condition, "message": message}
            for condition, message in calculator.possible
        ],
        "source": calculator.source,
        "worked": {"inputs": fill_inputs(calculator, inputs), "outputs": dict(outputs)},
    }


def draw_input(asked: Input, chance: random.Random) -> Any:
    """A random value of an input: of its choices, or between its bounds on a log scale."""
    if asked.choices:
        return chance.choice(asked.choices)
    if asked.kind == "boolean":
        return chance.random() < 0.5
    low, high = asked.minimum or 0.0, asked.maximum or 1.0
    if low > 0:
        value = math.exp(chance.uniform(math.log(low), math.log(high)))
    else:
        value = chance.choice((0.0, math.exp(chance.uniform(0.0, math.log(max(high, 2.0))))))
    value = min(max(value, low), high)
    return round(value) if asked.kind == "integer" else float(f"{value:.6g}")


def draw_cases(calculator: Calculator, count: int, seed: int) -> Iterator[tuple[Row, Row]]:
    """So many cases with random inputs, the same ones for the same seed."""
    chance = random.Random(f"{calculator.name} {seed}")
    while count:
        given = {asked.name: draw_input(asked, chance) for asked in calculator.inputs}
        try:
            case = calculate(calculator, given)
        except WrongUse:
            continue
        count -= 1
        yield case


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def parse_quantity(text: str) -> float:
    """A number that may end in k, M, G, T, P, E (powers of 1000) or Ki ... Ei (of 1024)."""
    found = re.fullmatch(r"([0-9.eE+-]+?)(?:([kMGTPE])(i?)B?)?", text.strip())
    try:
        number = float(found[1]) if found else math.nan
    except ValueError:
        number = math.nan
    if found is None or not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"'{text}' is no number: write 7.5e9, 7.5G or 80Gi")
    power = "kMGTPE".index(found[2]) + 1 if found[2] else 0
    return number * (1024.0 if found[3] else 1000.0) ** power


def parse_amount(text: str) -> float:
    """A number of things, none of which is a byte: as `parse_quantity`, and 70B and 128K as they
    stand on the cards of models, for 70e9 and 128e3."""
    found = re.fullmatch(r"([0-9.eE+-]+?)(?:([kKMGBTPE])|([KMGTPE]i))?", text.strip())
    try:
        number = float(found[1]) if found else math.nan
    except ValueError:
        number = math.nan
    if found is None or not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"'{text}' is no number: write 7.5e9, 7.5B or 7.5G")
    if found[3]:
        return number * 1024.0 ** ("KMGTPE".index(found[3][0]) + 1)
    power = {"K": 1, "B": 3}.get(found[2]) or "kMGTPE".index(found[2]) + 1 if found[2] else 0
    return number * 1000.0**power


def parse_seconds(text: str) -> float:
    """Seconds from `90`, `1e-5`, `10m`, `1h30m` or `30d`."""
    with contextlib.suppress(ValueError):
        return float(text)
    if found := re.fullmatch(r"(\d+(?:\.\d+)?)d", text):
        return 86400 * float(found[1])
    return parse_duration(text)


def parse_duration(text: str) -> float:
    """Seconds from `90`, `45s`, `10m`, `1h30m`."""
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", text.strip())
    if not text.strip() or found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no duration: write 90s, 10m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    total = 3600 * hours + 60 * minutes + seconds
    if total <= 0:
        raise argparse.ArgumentTypeError(f"'{text}': a duration has to be longer than nothing")
    return total


def parse_yes(text: str) -> bool:
    """True from `yes`, False from `no`."""
    if text not in ("yes", "no"):
        raise argparse.ArgumentTypeError(f"'{text}' has to be yes or no")
    return text == "yes"


def hide_folders(text: str) -> str:
    """The text with absolute paths cut down to their last part: folders name people and hosts."""
    name, equals, value = text.partition("=")
    if equals and value.startswith(("/", "~")):
        return f"{name}={Path(value).name}"
    return Path(text).name if text.startswith(("/", "~")) else text


def make_portable_command(arguments: Sequence[str]) -> list[str]:
    """The command line as another machine would type it, without absolute paths."""
    script = Path(__file__)
    with contextlib.suppress(ValueError, OSError):  # a folder that was deleted has no name
        script = script.resolve().relative_to(Path.cwd().resolve())
    name = script.name if script.is_absolute() else script.as_posix()
    return ["python", name, *(hide_folders(argument) for argument in arguments)]


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write the JSON whole: under another name, then moved; a pipe or a device is written to, and
    a symbolic link followed. Raises WrongUse where it cannot be."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    target = path.resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def check_json_path(path: Path | None) -> None:
    """Raises WrongUse where --json names a folder, or a file in a folder that is not there or takes
    no files."""
    if path is None:
        return
    if path.is_dir():
        raise WrongUse(f"--json: {path} is a folder; name a file in it")
    target = path.resolve()
    if not target.parent.is_dir():
        raise WrongUse(f"--json: there is no folder {target.parent}")
    if path.exists() and not path.is_file():  # a pipe or a device, which writing shows
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def make_document_head(
    tool: str, numbers: tuple[str, int], command: Sequence[str], origin: float
) -> dict[str, Any]:
    """The opening of the JSON: tool, version and method, command, start, and seconds until now.

    `origin` is the reading of time.monotonic() when the run began.
    """
    seconds = time.monotonic() - origin
    started = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    return {
        "tool": tool,
        "version": numbers[0],
        "method": numbers[1],
        "command": list(command),
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(seconds, 3),
    }


def print_to_stdout(text: str) -> bool:
    """Print at once; False, with a line that says so, where stdout could not be written."""
    try:
        print(text, flush=True)
    except OSError as error:
        # Python would write once more what is left, as it ends: that goes nowhere now.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"problem: stdout could not be written: {error.strerror}", file=sys.stderr)
        return False
    return True


def write_note(text: str) -> None:
    """One note for the reader, beside the table."""
    print(f"note: {text}", file=sys.stderr)


def format_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and all others to the right."""
    cells = [list(headings), *(list(row) for row in rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(headings))]

    def join(row: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [f":{'-' * (w - 1)}" if i == 0 else f"{'-' * (w - 1)}:" for i, w in enumerate(widths)]
    return "\n".join([join(cells[0]), f"| {' | '.join(rule)} |", *map(join, cells[1:])])


def format_significant(value: float) -> str:
    """Four significant digits, without an exponent where the number is of common size."""
    if value == 0:
        return "0"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:.{digits}f}" if digits <= 8 else f"{value:.4g}"


def format_energy(joules: float) -> str:
    """`150.0 GJ (41.67 MWh)`: joules, and from 1 kWh on what an electricity bill has."""
    value, power = joules, 0
    while abs(value) >= 1000 and power < 8:
        value, power = value / 1000, power + 1
    text = f"{format_significant(value)} {('', 'k', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y')[power]}J"
    hours, unit = joules / 3.6e6, "kWh"
    for larger in ("MWh", "GWh", "TWh"):
        if hours >= 1000:
            hours, unit = hours / 1000, larger
    return f"{text} ({format_significant(hours)} {unit})" if joules >= 3.6e6 else text


def format_binary(size: float) -> str:
    """Bytes in powers of 1024, as capacities of memory are counted: `2.500 GiB`."""
    power = 0
    while size >= 1024 and power < 8:
        size, power = size / 1024, power + 1
    return f"{format_significant(size)} {('', 'K', 'M', 'G', 'T', 'P', 'E', 'Z', 'Y')[power]}iB"


def format_quantity(value: Any, unit: str) -> str:
    """A value as people read it: prefixes of 1000 for units, days and hours for long times.

    Bytes come in both counts: `2.684 GB (2.500 GiB)`.
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if unit == "J":
        return format_energy(value)
    if unit == "s" and value >= 60:
        for seconds, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
            if value >= 2 * seconds or name == "min":
                return f"{format_significant(value / seconds)} {name}"
    if unit == "s" and 0 < value < 1:
        scale, name = (1e3, "ms") if value >= 1e-3 else (1e6, "µs")
        return f"{format_significant(value * scale)} {name}"
    if unit == "1" and abs(value) >= 1e21:
        return f"{value:.4g}"
    if unit in ("1", "1/s") and (float(value).is_integer() or abs(value) < 1e6):
        text = f"{int(value):,}" if float(value).is_integer() else format_significant(value)
        return text if unit == "1" else f"{text} /s"
    power = 0
    scaled = value
    while abs(scaled) >= 1000 and power < 8:
        scaled, power = scaled / 1000, power + 1
    prefix = ("", "k", "M", "G", "T", "P", "E", "Z", "Y")[power]
    text = f"{format_significant(scaled)} {prefix}{unit.removeprefix('1')}".rstrip()
    return f"{text} ({format_binary(value)})" if unit == "B" and value >= 1024 else text


def find_varied(cases: Sequence[tuple[Row, Row]]) -> list[str]:
    """The inputs that are not the same in all cases."""
    first = cases[0][0]
    return [name for name in first if any(inputs[name] != first[name] for inputs, _ in cases)]


def format_cases(calculator: Calculator, cases: Sequence[tuple[Row, Row]]) -> str:
    """The table: a row for each output, a column for each case, and base units for one case."""
    varied = find_varied(cases)
    units = {asked.name: asked.unit for asked in calculator.inputs}
    if len(cases) == 1:
        _, outputs = cases[0]
        rows = [
            [
                output.label,
                format_quantity(outputs[output.name], output.unit),
                f"{float(outputs[output.name]):.10g} {output.unit}".removesuffix(" 1"),
            ]
            for output in calculator.outputs
        ]
        return format_table([calculator.title, "value", "in base units"], rows)
    heads = [
        ", ".join(
            f"{name} {format_quantity(inputs[name], units[name]).partition(' (')[0]}"
            for name in varied
        )
        for inputs, _ in cases
    ]
    rows = [
        [
            output.label,
            *(format_quantity(outputs[output.name], output.unit) for _, outputs in cases),
        ]
        for output in calculator.outputs
    ]
    return format_table([calculator.title, *heads], rows)


def expand_options(calculator: Calculator, options: argparse.Namespace) -> list[dict[str, Any]]:
    """The inputs of each case: all combinations of what was given. Raises WrongUse for too many."""
    given = {
        asked.name: list(dict.fromkeys(getattr(options, asked.name)))
        for asked in calculator.inputs
        if getattr(options, asked.name) is not None
    }
    count = math.prod(len(values) for values in given.values())
    if count > MOST_COLUMNS:
        raise WrongUse(f"these are {count} combinations; give values for at most {MOST_COLUMNS}")
    return [dict(zip(given, values, strict=True)) for values in itertools.product(*given.values())]


def find_faults(calculator: Calculator, cases: Sequence[tuple[Row, Row]]) -> list[str]:
    """What is beyond the possible in the answers; each fault once, with where it is first."""
    faults: dict[str, str] = {}
    for number, (inputs, outputs) in enumerate(cases, 1):
        for message in find_broken(calculator.possible, {**inputs, **outputs}):
            place = "" if len(cases) == 1 else f"column {number}: "
            faults.setdefault(message, f"{place}{message}")
    return list(faults.values())


def make_case_document(
    calculator: Calculator,
    cases: Sequence[tuple[Row, Row]],
    assumed: Sequence[str],
    command: Sequence[str],
    origin: float,
) -> dict[str, Any]:
    """The JSON document: one row for each case, with inputs and outputs.

    `assumed` are the inputs that nobody gave.
    """
    rows = [{"calculator": calculator.name, **inputs, **outputs} for inputs, outputs in cases]
    numbers = {
        name
        for row in rows
        for name, value in row.items()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    return {
        **make_document_head("calculators", (__version__, METHOD), command, origin),
        "complete": True,
        "units": {name: UNITS[name] for name in rows[0] if name in numbers},
        "results": rows,
        "caveats": [
            "computed from formulas, nothing was measured",
            *find_faults(calculator, cases),
        ],
        "details": {"calculator": describe_calculator(calculator), "assumed": list(assumed)},
    }


def is_near(left: Any, right: Any, tolerance: float) -> bool:
    """Two numbers agree to such a part of the larger one, or are both next to nothing."""
    return math.isclose(left, right, rel_tol=tolerance, abs_tol=1e-12)


def run_self_test() -> int:
    """Check each calculator's worked case, and its function against its formula's text."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    for calculator in CALCULATORS:
        inputs, expected = calculator.worked
        _, outputs = calculate(calculator, inputs)
        right = set(outputs) == set(expected) and all(
            is_near(outputs[name], value, 1e-5) for name, value in expected.items()
        )
        check(f"{calculator.name}: the case worked by hand", right)
        same = True
        for inputs, outputs in draw_cases(calculator, 25, 1):
            names = evaluate_formula(calculator, inputs)
            same = same and all(is_near(names[n], v, 1e-9) for n, v in outputs.items())
        check(f"{calculator.name}: 25 random cases give what the formula's text gives", same)
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def add_shared_options(parser: argparse.ArgumentParser, default: Any) -> None:
    """The options that may stand before and after the name of a calculator."""
    parser.add_argument(
        "--json", type=Path, metavar="PATH", default=default, help="write the results as JSON"
    )
    parser.add_argument(
        "--describe",
        action="store_true",
        default=default or False,
        help="print what a program needs to know of the calculators, as JSON",
    )
    parser.add_argument(
        "--cases",
        type=parse_count,
        metavar="N",
        default=default,
        help="print N random cases of each calculator, as JSON lines",
    )
    parser.add_argument(
        "--seed",
        type=int,
        metavar="S",
        default=0 if default is None else default,
        help="other random cases (default: 0)",
    )


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="calculators.py",
        description="Compute what a training takes: memory, operations, traffic, time, money.",
        epilog="The docstring at the top of this file tells what is counted. Options of one "
        "calculator: calculators.py NAME --help.",
        allow_abbrev=False,
    )
    add_shared_options(parser, None)
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"calculators {__version__} (method {METHOD})"
    )
    names = parser.add_subparsers(dest="calculator", metavar="NAME", title="calculators")
    for calculator in CALCULATORS:
        one = names.add_parser(
            calculator.name,
            help=calculator.question,
            description=calculator.question,
            epilog=f"Source: {calculator.source}".replace("%", "%%"),
            allow_abbrev=False,
        )
        for asked in calculator.inputs:
            unit = "" if asked.unit == "1" else f" in {asked.unit}"
            shown = format_quantity(asked.default, asked.unit)
            parse: Callable[[str], Any] = parse_quantity
            if asked.choices:
                parse = type(asked.choices[0])
            elif asked.kind == "boolean":
                parse = parse_yes
            elif asked.unit == "s":
                parse = parse_seconds
            elif asked.unit in ("1", "1/s"):
                parse = parse_amount
            one.add_argument(
                f"--{asked.name}",
                nargs="+",
                metavar={"choice": None, "boolean": "yes|no"}.get(asked.kind, "NUMBER"),
                help=f"{asked.label}{unit} (default: {shown})".replace("%", "%%"),
                type=parse,
                choices=asked.choices or None,
            )
        add_shared_options(one, argparse.SUPPRESS)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    chosen = [c for c in CALCULATORS if options.calculator in (None, c.name)]
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_json_path(options.json)
        if options.describe and options.cases:
            raise WrongUse("give either --describe or --cases")
        if (options.describe or options.cases) and options.json:
            raise WrongUse("--describe and --cases print JSON; --json is for results")
        if options.describe:
            described = [describe_calculator(calculator) for calculator in chosen]
            head = {"tool": "calculators", "version": __version__, "method": METHOD}
            print(
                json.dumps(
                    {**head, "language": LANGUAGE, "calculators": described}, allow_nan=False
                )
            )
            return 0
        if options.cases:
            for calculator in chosen:
                for inputs, outputs in draw_cases(calculator, options.cases, options.seed):
                    case = {"calculator": calculator.name, "inputs": inputs, "outputs": outputs}
                    print(json.dumps(case, allow_nan=False))
            return 0
        if options.calculator is None:
            raise WrongUse(f"name a calculator: {', '.join(c.name for c in CALCULATORS)}")
        calculator = chosen[0]
        cases = [calculate(calculator, given) for given in expand_options(calculator, options)]
        is_printed = print_to_stdout(format_cases(calculator, cases))
        varied = find_varied(cases)
        assumed = [name for name in cases[0][0] if getattr(options, name) is None]
        given = [name for name in cases[0][0] if name not in (*varied, *assumed)]
        for title, names in (("given", given), ("assumed, for it was not given", assumed)):
            if names:
                shown = [f"{n} {format_quantity(cases[0][0][n], UNITS[n])}" for n in names]
                write_note(f"{title}: {', '.join(shown)}")
        for line in calculator.formula:
            write_note(f"formula: {line}")
        write_note(f"source: {calculator.source}")
        if options.json:
            command = make_portable_command(arguments)
            document = make_case_document(calculator, cases, assumed, command, origin)
            write_document(options.json, document)
        faults = find_faults(calculator, cases)
        for fault in faults:
            print(f"problem: {fault}", file=sys.stderr)
        return 0 if is_printed and not faults else 1
    except WrongUse as error:
        parser.error(str(error))
    except BrokenPipeError:  # the reader of --cases has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def run_to_stdout(run: Callable[[], int]) -> int:
    """What `run` returns, once all that it printed is written; where stdout takes no more, a full
    disk or a closed pipe, one line says so, and it is 1."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, by `>&-`: then nobody wants to read it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - to the end
    try:
        try:
            status = run()
        except SystemExit as ended:  # --help, --version, and wrong use
            status = int(ended.code or 0)
        sys.stdout.flush()
    except OSError as error:
        kinds = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        if error.filename is not None or error.errno not in kinds:
            raise
        # What still waits would be complained of again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"stdout could not be written: {error.strerror}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(run_to_stdout(main))
