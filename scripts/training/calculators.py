#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""How much memory, traffic, time and money will this training run take?

The formulas for planning a training run, each with the publication it comes from. They are
estimates and bounds on paper, to compare measurements with. Nothing is measured.

## Formulas

`NAME --help` shows the formula of a calculator as the function that computes it, and its source.
Example: with AdamW in mixed precision, P parameters on N ranks take `(2 + 2) P + 12 P / N` bytes
per rank at ZeRO stage 1. For 7.5e9 parameters on 64 ranks that is 30 + 90/64 = 31.4 GB.

Units are bytes, seconds, FLOP and FLOP/s; 1 GB is 1e9 bytes. The CUDA context, fragmentation and
communication buffers are in none of the formulas: a real job needs some GB more.

## How to run

    python calculators.py memory --model llama-3-70b --gpus 256 --gpu h100 --zero-stage 0 1 2 3
    python calculators.py run --model llama-3-70b --gpu h100 --gpus 256 --tokens 2T
    python calculators.py checkpoint --help

`--model` and `--gpu` fill in what follows from a model and an accelerator, `--parameters` alone
counts 6 FLOPs per parameter and token. Several values of an input make a column each; of two
inputs, all combinations. Numbers: 7.5e9, 7.5G, 80Gi (binary), counts also as 70B, 1.5T, 128K;
durations: 90s, 10m, 1h30m, 30d.

## A good answer

A plan in which memory per rank leaves a tenth of the device free, traffic takes less time than the
compute that it overlaps with, checkpoints cost one or two percent, and the assumed MFU has been
measured on such hardware.

Exit status: 0 done; 1 the demo's answer is wrong; 2 usage error, or inputs that contradict each
other or exceed the peak.
"""

import argparse
import inspect
import itertools
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, duration, large_number, start
from kit.report import Report, Row, format_table

__version__ = "0.2.0"
METHOD = 1

# fmt: off
PROFILES = {
    "demo": ["memory", "--parameters", "7.5G", "--zero-stage", "0", "1", "2", "3"],
    "full": ["checkpoint", "--devices", "400", "1600", "6400", "25600"],
    "traffic": [
        "zero-traffic", "--parameters", "8G", "--ranks", "64", "--zero-stage", "0", "3",
        "--bandwidth", "5e9", "10e9", "20e9", "40e9", "80e9", "160e9", "320e9", "640e9",
    ],
    "algorithms": [
        "all-reduce", "--algorithm", "ring", "double-tree", "--ranks", "64", "1024",
        "--payload-bytes", "1e3", "1e4", "1e5", "1e6", "1e7", "1e8", "1e9", "1e10",
        "--bandwidth", "320e9", "--latency", "5e-6",
    ],
    "optimizers": [
        "memory", "--parameters", "8.03G", "--zero-stage", "0", "--data-ranks", "1", "--mode",
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
        "batch", "--micro-batch", "1", "--accumulation", "1", "2", "4", "8", "16",
        "--data-ranks", "64", "--sequence", "8192",
    ],
    "formats": [
        "number-format", "--exponent-bits", "5", "8", "--mantissa-bits", "2", "7", "10", "23",
        "--special", "ieee",
    ],
    "small-formats": [
        "number-format", "--exponent-bits", "2", "3", "4", "5", "--mantissa-bits", "1", "2", "3",
        "--special", "fn", "fnuz", "finite",
    ],
    "kv": [
        "kv-cache", "--attention", "mha", "gqa", "mqa", "mla", "--layers", "80", "--heads", "64",
        "--kv-heads", "8", "--head-size", "128", "--value-bytes", "1", "2",
        "--tokens", "1024", "8192", "32768", "131072", "--sequences", "1",
    ],
    "decode": [
        "decode", "--weight-bytes", "16.06e9", "--kv-token-bytes", "131072",
        "--context", "1024", "8192", "32768", "--memory-bandwidth", "3.35e12",
        "--batch", "1", "2", "4", "8", "16", "32", "64", "128", "256", "512",
    ],
}
# fmt: on
SHAPE = ("layers", "hidden", "heads", "kv_heads", "head_size", "ffn", "vocab")
MODELS = {
    "llama-3-8b": ("Llama 3.1 8B", 32, 4096, 32, 8, 128, 14_336, 128_256),
    "llama-3-70b": ("Llama 3.1 70B", 80, 8192, 64, 8, 128, 28_672, 128_256),
    "llama-3-405b": ("Llama 3.1 405B", 126, 16_384, 128, 8, 128, 53_248, 128_256),
    "qwen3-32b": ("Qwen3 32B", 64, 5120, 64, 8, 128, 25_600, 151_936),
}
"""Name in book/data/model_shapes.csv, and the shape as config.json of the model has it."""
EXPERTS = {"deepseek-v3": ("DeepSeek-V3", 671e9, 37e9)}
"""Mixtures of experts: name in the same file, all parameters, those that a token uses."""
ACCELERATORS = {
    "a100": ("NVIDIA A100 SXM", 312, 80, 2039),
    "h100": ("NVIDIA H100 SXM", 989, 80, 3350),
    "h200": ("NVIDIA H200 SXM", 989, 141, 4800),
    "b200": ("NVIDIA B200 SXM", 2250, 180, 8000),
    "b300": ("NVIDIA B300 SXM", 2250, 288, 8000),
    "gb200": ("NVIDIA GB200", 2500, 186, 8000),
    "l40s": ("NVIDIA L40S", 362, 48, 864),
    "mi300x": ("AMD MI300X", 1307, 192, 5300),
    "mi325x": ("AMD MI325X", 1307, 256, 6000),
    "mi355x": ("AMD MI355X", 2500, 288, 8000),
    "gaudi-3": ("Intel Gaudi 3", 1677, 128, 3700),
}
"""Name in book/data/accelerator_*.csv, dense bf16 TFLOPS, memory in GiB, its bandwidth in GB/s."""
# Bytes per parameter: weights, gradients, master weights, optimizer states.
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
# What the last bit patterns of a floating-point format mean, named as in ml_dtypes.
SPECIAL = ("ieee", "fn", "fnuz", "finite")


class Input(NamedTuple):
    """A number, choice or yes-or-no that a calculator asks for; numbers in base units."""

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
    """A number that a calculator answers with, in base units."""

    name: str
    label: str
    unit: str


class Calculator(NamedTuple):
    """A question, its inputs and outputs, and the function that answers it."""

    name: str
    title: str
    question: str
    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    function: Callable[..., Row]
    source: str
    requires: tuple[tuple[str, str], ...] = ()
    """Conditions on the inputs, and what to say where one does not hold."""
    also: tuple[Input, ...] = ()
    """What it can start from too."""


def count_transformer_parameters(
    *, layers: int, hidden: int, heads: int, kv_heads: int, head_size: int, ffn: int, vocab: int,
    tied: bool, experts: int, active_experts: int,
) -> Row:  # fmt: skip
    """Parameters of a decoder transformer like Llama, by counting its matrices and norms.

    `layer_matmul_parameters` are those that a token is multiplied with in the layers;
    `output_parameters` those of the logits.
    """
    attention = hidden * head_size * 2 * (heads + kv_heads)
    mlp = 3 * hidden * ffn
    router = hidden * experts if experts > 1 else 0
    layer = attention + experts * mlp + router + 2 * hidden
    output = vocab * hidden
    total = layers * layer + output * (1 if tied else 2) + hidden
    return {
        "attention_parameters": attention,
        "mlp_parameters": mlp,
        "layer_parameters": layer,
        "total_parameters": total,
        "active_parameters": total - layers * (experts - active_experts) * mlp,
        "layer_matmul_parameters": layers * (attention + active_experts * mlp + router),
        "output_parameters": output,
    }


def compute_training_memory(
    *, parameters: float, mode: str, zero_stage: int, data_ranks: int, model_ranks: int,
    matrix_size: int,
) -> Row:  # fmt: skip
    """Bytes per rank for weights, gradients, master weights and optimizer states.

    ZeRO stages 1, 2 and 3 shard optimizer states, gradients and weights over the data-parallel
    ranks. 8-bit states are without the scales of their blocks. Adafactor without momentum keeps a
    row and a column in fp32 per matrix, here for square matrices of `matrix_size`:
    8 / matrix_size bytes per parameter.
    """
    weights, gradients, master, states = MODES[mode]
    states = 8 / matrix_size if mode == "adafactor-mixed" else states
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
    *, layer: str, layers: int, hidden: int, ffn: int, heads: int, kv_heads: int, sequence: int,
    micro_batch: int, vocab: int, tensor_ranks: int, recompute: str,
) -> Row:  # fmt: skip
    """Bytes of activations that a rank keeps for the backward pass, in 16-bit precision.

    The tensors that autograd saves. `llama` is the layer of Transformers: RMSNorm in float32 (input
    4, normalized 2, output 2 bytes per element), query, key, value and output of a fused attention
    kernel, SwiGLU as four tensors of width `ffn`. `llama-fused` has fused kernels for norms (input
    and output) and SwiGLU (gate, up, product), as Megatron-LM has. Tensor parallelism comes with
    sequence parallelism. Selective checkpointing keeps the layer's input and the outputs of matmuls
    and attention. What is recomputed lives for one layer at a time. The first pipeline stage holds
    as much under 1F1B. Logits are counted once, in float32.
    """
    elements = sequence * micro_batch * hidden
    size = elements / tensor_ranks
    keys = 2 * kv_heads / heads
    wide = 2 * ffn / hidden
    norm = 8 if layer == "llama" else 4
    attention = 4 + 2 * keys
    swiglu = wide * (4 if layer == "llama" else 3)
    whole = size * (2 * norm + attention + swiglu)
    outputs = size * (6 + attention + 2 * wide)
    kept = {"none": whole, "selective": outputs, "full": 2.0 * size}[recompute]
    again = {
        "none": 0.0,
        "selective": size * (2 * norm + 2 + keys + swiglu - 2 * wide),
        "full": whole,
    }[recompute]
    outside = norm * size + 4 * sequence * micro_batch * vocab / tensor_ranks
    return {
        "layer_bytes": kept,
        "copies": kept / (2 * elements),
        "layers_bytes": layers * kept,
        "recomputed_bytes": again,
        "outside_bytes": outside,
        "activation_bytes": layers * kept + again + outside,
    }


def compute_kv_cache(
    *, attention: str, layers: int, heads: int, kv_heads: int, head_size: int, latent_size: int,
    rope_size: int, value_bytes: float, tokens: int, sequences: int,
) -> Row:  # fmt: skip
    """Bytes of cached keys and values: two vectors per layer, key-value head and token.

    Multi-query attention has one such head, grouped-query attention one per group. Multi-head
    latent attention caches a latent vector and a rotated key per layer and token.
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
    *, layer_matmul_parameters: float, output_parameters: float, layers: int, attention_width: int,
    sequence: int, causal: bool, recompute: str,
) -> Row:  # fmt: skip
    """FLOPs of training per token: two per parameter and pass, and the attention.

    6 N + 12 L w s, with N the parameters in matmuls, L layers, w = heads x head size, s tokens of
    context. With `causal` only the half of the attention that is not masked counts. Full
    recomputation repeats the forward pass of the layers, without the logits; selective, that of the
    attention (Megatron-LM's HFU counts more: 2.7 % for its 175B model, where this has 0.9 %).
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
    }


def compute_utilization(
    *, model_flop: float, hardware_flop: float, step_tokens: float, step_seconds: float,
    devices: int, peak: float,
) -> Row:  # fmt: skip
    """MFU and HFU: the needed and the executed FLOP/s over the peak of all devices."""
    needed = model_flop * step_tokens / (step_seconds * devices)
    executed = hardware_flop * step_tokens / (step_seconds * devices)
    return {
        "tokens_per_second": step_tokens / step_seconds,
        "device_model_rate": needed,
        "device_hardware_rate": executed,
        "mfu": needed / peak,
        "hfu": executed / peak,
    }


def compute_all_reduce(
    *, algorithm: str, payload_bytes: float, ranks: int, bandwidth: float, latency: float
) -> Row:
    """Seconds of an all-reduce in the model latency x steps + bytes / bandwidth.

    `double-tree` are two binary trees that share the work, as in NCCL, for payloads that fill the
    pipeline. The time of adding is left out. Bus bandwidth as nccl-tests defines it:
    payload / time x 2 (n - 1) / n.
    """
    factor = 2 * (ranks - 1) / ranks
    steps = 2 * (ranks - 1 if algorithm == "ring" else math.ceil(math.log2(ranks)))
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
    *, parameters: float, zero_stage: int, ranks: int, weight_bytes: float, gradient_bytes: float,
    accumulation: int, bandwidth: float,
) -> Row:  # fmt: skip
    """Bytes that a rank sends per training step, and the seconds, with nothing overlapped.

    Stage 0 all-reduces gradients, stages 1 and 2 reduce-scatter them and all-gather the weights,
    stage 3 gathers the weights in the forward and in the backward pass. In ring form a collective
    sends (n - 1) / n of its bytes, an all-reduce twice. With gradient accumulation, stage 2 reduces
    in each micro-step, and stage 3 does all of its traffic in each.
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
    """How much of its time a device of a pipeline with equal stages is idle.

    GPipe and 1F1B have the same bubble, (p - 1) / m of the ideal time; with v interleaved chunks of
    layers per device, 1/v of that.
    """
    work = micro_batches * chunks
    return {
        "bubble_over_ideal": (stages - 1) / work,
        "bubble_share": (stages - 1) / (work + stages - 1),
    }


def choose_daly_interval(write_seconds: float, mtbf: float) -> float:
    """Daly's higher-order estimate; M where writing takes 2 M or longer."""
    if write_seconds >= 2 * mtbf:
        return mtbf
    x = write_seconds / (2 * mtbf)
    return math.sqrt(2 * write_seconds * mtbf) * (1 + math.sqrt(x) / 3 + x / 9) - write_seconds


def compute_lost_share(interval: float, write_seconds: float, restart: float, mtbf: float) -> float:
    """Share of the wall-clock time that is not useful work, for failures at random.

    Daly's complete model: wall / work = M / tau x exp(R / M) x (exp((tau + delta) / M) - 1).
    """
    wall = (
        mtbf / interval * math.exp(restart / mtbf) * math.expm1((interval + write_seconds) / mtbf)
    )
    return 1 - 1 / wall


def plan_checkpoints(
    *, parameters: float, bytes_per_parameter: float, write_bandwidth: float, device_mtbf: float,
    devices: int, restart_seconds: float, own_interval: float,
) -> Row:  # fmt: skip
    """Size and write time of a checkpoint, and how often to write one.

    Failures are independent and equally likely at any time: the job's mean time between failures is
    that of a device over their number. A checkpoint has no gradients: 14 bytes per parameter with
    AdamW in mixed precision. Writing blocks the training. Without `own_interval` its share is that
    of Daly's interval.
    """
    size = parameters * bytes_per_parameter
    write = size / write_bandwidth
    mtbf = device_mtbf / devices
    interval = choose_daly_interval(write, mtbf)
    own = own_interval if own_interval > 0 else interval
    return {
        "checkpoint_bytes": size,
        "write_seconds": write,
        "job_mtbf": mtbf,
        "young_interval": math.sqrt(2 * write * mtbf),
        "daly_interval": interval,
        "write_share": write / (interval + write),
        "lost_share": compute_lost_share(interval, write, restart_seconds, mtbf),
        "own_lost_share": compute_lost_share(own, write, restart_seconds, mtbf),
    }


def plan_run(
    *, model_flop: float, tokens: float, devices: int, peak: float, mfu: float, useful_share: float,
    device_hour_price: float,
) -> Row:  # fmt: skip
    """Time and cost of a run: its FLOPs over the FLOP/s that the devices achieve.

    `useful_share` is what failures, restarts and checkpoints leave of the wall-clock time.
    """
    flop = model_flop * tokens
    seconds = flop / (devices * peak * mfu * useful_share)
    gpu_hours = seconds * devices / 3600
    return {
        "run_flop": flop,
        "run_seconds": seconds,
        "gpu_hours": gpu_hours,
        "run_tokens_per_second": tokens / seconds,
        "cost": gpu_hours * device_hour_price,
    }


def compute_batch(
    *, micro_batch: int, accumulation: int, data_ranks: int, sequence: int, tokens: float
) -> Row:
    """Sequences and tokens per step, and the steps of a run."""
    batch = micro_batch * accumulation * data_ranks
    return {
        "global_batch": batch,
        "step_tokens": batch * sequence,
        "steps": math.ceil(tokens / (batch * sequence)),
    }


def compute_decode(
    *, weight_bytes: float, kv_token_bytes: float, context: int, batch: int,
    memory_bandwidth: float, devices: int,
) -> Row:  # fmt: skip
    """The shortest decode step that memory allows: it reads all weights and the KV cache. Compute
    and communication are left out."""
    read = weight_bytes + kv_token_bytes * context * batch
    seconds = read / (memory_bandwidth * devices)
    return {
        "step_read_bytes": read,
        "decode_seconds": seconds,
        "sequence_tokens_per_second": 1 / seconds,
        "decode_tokens_per_second": batch / seconds,
    }


def describe_number_format(*, exponent_bits: int, mantissa_bits: int, special: str) -> Row:
    """Range, precision and number of values of a floating-point format with a sign bit.

    The exponent has the bias 2**(e - 1) - 1. `ieee`, and every format of more than 8 exponent bits:
    its last value is infinity and NaN. Formats of 8 bits and less reuse these patterns: `fn` has no
    infinity, and NaN where all bits are ones; `fnuz` has one NaN instead of -0, and a bias that is
    larger by 1; `finite` has neither.
    """
    kind = special if exponent_bits <= 8 else "ieee"
    bias = 2 ** (exponent_bits - 1) - (0 if kind == "fnuz" else 1)
    top = 2**exponent_bits - (2 if kind == "ieee" else 1) - bias
    step = 2.0**-mantissa_bits
    largest = (2 - step * (2 if kind == "fn" else 1)) * 2.0**top
    smallest_normal = 2.0 ** (1 - bias)
    reserved = 2 * 2**mantissa_bits if kind == "ieee" else 2 if kind == "fn" else 0
    return {
        "largest": largest,
        "smallest_normal": smallest_normal,
        "smallest": smallest_normal * step,
        "step": step,
        "relative_error": step / (2 + step),
        "decimal_digits": (mantissa_bits + 1) / math.log2(10),
        "doublings": math.log2(largest) - math.log2(smallest_normal) + mantissa_bits,
        "distinct_values": 2 ** (1 + exponent_bits + mantissa_bits) - 1 - reserved,
    }


PARAMETERS = Input("parameters", "parameters of the model", "1", 8.03e9, 1e6, 1e14)
PEAK = Input("peak", "peak per device, dense", "FLOP/s", 989e12, 1e9, 1e17)
DEVICES = Input("devices", "devices (GPUs)", "1", 128, 1, 1_000_000)
SEQUENCE = Input("sequence", "tokens per sequence", "1", 8192, 1, 10_000_000)
ZERO_STAGE = Input("zero_stage", "ZeRO stage", "1", 1, choices=(0, 1, 2, 3))
CAUSAL = Input("causal", "count only the attention that is not masked", "1", False)
RECOMPUTED = Input("recompute", "activation checkpointing", "1", "none", choices=RECOMPUTE)
LAYER_COUNT = Input("layers", "layers", "1", 32, 1, 1000)
HIDDEN = Input("hidden", "hidden size", "1", 4096, 1, 100_000)
HEADS = Input("heads", "attention heads", "1", 32, 1, 1000)
KV_HEADS = Input("kv_heads", "key-value heads", "1", 8, 1, 1000)
HEAD_SIZE = Input("head_size", "head size", "1", 128, 1, 1024)
FFN = Input("ffn", "hidden size of the MLP (of one expert)", "1", 14_336, 1, 400_000)
VOCAB = Input("vocab", "vocabulary size", "1", 128_256, 1, 1_000_000)
OF_FLOPS = (SEQUENCE, CAUSAL, RECOMPUTED)
WHOLE_GROUPS = (
    "ceil(heads / kv_heads) == heads / kv_heads",
    "heads share key-value heads evenly: heads is a multiple of kv_heads",
)

# fmt: off
CALCULATORS = (
    Calculator(
        "parameters", "Parameters of a transformer",
        "How many parameters does a decoder transformer have, and how many does a token use?",
        (LAYER_COUNT, HIDDEN, HEADS, KV_HEADS, HEAD_SIZE, FFN, VOCAB,
         Input("tied", "output shares the embedding's weights", "1", False),
         Input("experts", "experts per layer", "1", 1, 1, 1024),
         Input("active_experts", "experts per token", "1", 1, 1, 1024)),
        (Output("attention_parameters", "attention of a layer", "1"),
         Output("mlp_parameters", "MLP of a layer, or one expert", "1"),
         Output("layer_parameters", "a layer", "1"),
         Output("total_parameters", "the model", "1"),
         Output("active_parameters", "active per token", "1"),
         Output("layer_matmul_parameters", "in matmuls of all layers, active", "1"),
         Output("output_parameters", "in the matmul of the logits", "1")),
        count_transformer_parameters,
        "Ainslie et al. 2023, arXiv:2305.13245; Shazeer 2020, arXiv:2002.05202; "
        "Jiang et al. 2024, arXiv:2401.04088",
        (WHOLE_GROUPS,
         ("active_experts <= experts", "there are at most as many active experts as experts")),
    ),
    Calculator(
        "memory", "Memory of training",
        "How much memory do weights, gradients and optimizer states take per rank?",
        (PARAMETERS,
         Input("mode", "optimizer and precision", "1", "adamw-mixed", choices=tuple(MODES)),
         ZERO_STAGE,
         Input("data_ranks", "data-parallel ranks", "1", 64, 1, 1_000_000),
         Input("model_ranks", "tensor x pipeline ranks", "1", 1, 1, 100_000),
         Input("matrix_size", "matrix size (Adafactor)", "1", 4096, 1, 1_000_000)),
        (Output("bytes_per_parameter", "per parameter, not sharded", "B"),
         Output("weights_bytes", "weights", "B"),
         Output("gradients_bytes", "gradients", "B"),
         Output("master_bytes", "master weights", "B"),
         Output("states_bytes", "optimizer states", "B"),
         Output("rank_bytes", "per rank", "B"),
         Output("all_ranks_bytes", "all ranks", "B")),
        compute_training_memory,
        "Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 3.1 and figure 1; "
        "Dettmers et al. 2022, arXiv:2110.02861; Shazeer and Stern 2018, arXiv:1804.04235",
    ),
    Calculator(
        "activations", "Memory of activations",
        "How much memory do activations take, with and without checkpointing?",
        (Input("layer", "code of the layer", "1", "llama", choices=("llama", "llama-fused")),
         LAYER_COUNT, HIDDEN, FFN, HEADS, KV_HEADS, SEQUENCE,
         Input("micro_batch", "sequences per micro-batch", "1", 1, 1, 1024),
         VOCAB,
         Input("tensor_ranks", "tensor-parallel ranks", "1", 1, 1, 1024),
         RECOMPUTED),
        (Output("layer_bytes", "kept per layer", "B"),
         Output("copies", "the same in copies of the hidden state", "1"),
         Output("layers_bytes", "kept for all layers", "B"),
         Output("recomputed_bytes", "recomputed, one layer at a time", "B"),
         Output("outside_bytes", "last norm and logits", "B"),
         Output("activation_bytes", "all activations", "B")),
        compute_activation_memory,
        "the tensors that autograd saves, counted; the split over ranks: "
        "Korthikanti et al. 2022, arXiv:2205.05198, section 4.3",
        (("ceil(heads / tensor_ranks) == heads / tensor_ranks",
          "tensor-parallel ranks have whole heads: heads is a multiple of tensor_ranks"),
         WHOLE_GROUPS),
    ),
    Calculator(
        "kv-cache", "KV cache",
        "How much memory do the cached keys and values of a batch take?",
        (Input("attention", "attention", "1", "gqa", choices=("mha", "gqa", "mqa", "mla")),
         LAYER_COUNT, HEADS, KV_HEADS, HEAD_SIZE,
         Input("latent_size", "size of the latent vector (mla)", "1", 512, 1, 100_000),
         Input("rope_size", "size of the rotated key (mla)", "1", 64, 0, 100_000),
         Input("value_bytes", "bytes per value", "B", 2.0, 0.25, 8.0),
         Input("tokens", "tokens per sequence", "1", 1024, 1, 10_000_000),
         Input("sequences", "sequences", "1", 128, 1, 1_000_000)),
        (Output("values_per_layer", "values per token and layer", "1"),
         Output("token_bytes", "per token", "B"),
         Output("sequence_bytes", "per sequence", "B"),
         Output("cache_bytes", "all sequences", "B")),
        compute_kv_cache,
        "Shazeer 2019, arXiv:1911.02150; Ainslie et al. 2023, arXiv:2305.13245; "
        "DeepSeek-AI 2024, arXiv:2405.04434, section 2.1",
        (WHOLE_GROUPS,),
    ),
    Calculator(
        "flops", "FLOPs of training",
        "How many floating-point operations does training take per token?",
        (Input("layer_matmul_parameters", "in matmuls of the layers", "1", 6.98e9, 1e3, 1e14),
         Input("output_parameters", "in the matmul of the logits", "1", 0.525e9, 1.0, 1e13),
         LAYER_COUNT,
         Input("attention_width", "heads x head size", "1", 4096, 1, 100_000),
         SEQUENCE, CAUSAL, RECOMPUTED),
        (Output("forward_flop", "forward pass per token", "FLOP"),
         Output("model_flop", "training per token", "FLOP"),
         Output("hardware_flop", "training per token, with recomputation", "FLOP"),
         Output("attention_share", "share of the attention", "1")),
        count_flops,
        "Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B; "
        "Narayanan et al. 2021, arXiv:2104.04473, equation 3; "
        "Korthikanti et al. 2022, arXiv:2205.05198",
    ),
    Calculator(
        "mfu", "Model and hardware FLOPS utilization",
        "What share of the peak does a training run achieve?",
        (Input("model_flop", "training per token", "FLOP", 4.8e10, 1e3, 1e16),
         Input("hardware_flop", "the same, with recomputation", "FLOP", 6.4e10, 1e3, 1e16),
         Input("step_tokens", "tokens per step", "1", 4.0e6, 1.0, 1e10),
         Input("step_seconds", "seconds per step", "s", 5.0, 1e-6, 1e6),
         DEVICES, PEAK),
        (Output("tokens_per_second", "tokens per second", "1/s"),
         Output("device_model_rate", "needed, per device", "FLOP/s"),
         Output("device_hardware_rate", "executed, per device", "FLOP/s"),
         Output("mfu", "MFU", "1"),
         Output("hfu", "HFU", "1")),
        compute_utilization,
        "Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B",
        (("hardware_flop >= model_flop", "recomputation only adds to the FLOPs"),
         ("hardware_flop * step_tokens <= peak * devices * step_seconds",
          "this is more than the peak of all devices: one of the inputs is wrong")),
        also=(PARAMETERS, SEQUENCE, CAUSAL, RECOMPUTED),
    ),
    Calculator(
        "all-reduce", "All-reduce",
        "How long does an all-reduce take at best?",
        (Input("algorithm", "algorithm", "1", "ring", choices=("ring", "double-tree")),
         Input("payload_bytes", "payload", "B", 8e9, 1.0, 1e13),
         Input("ranks", "ranks", "1", 8, 2, 1_000_000),
         Input("bandwidth", "bandwidth of a rank's link, each way", "B/s", 280e9, 1e3, 1e14),
         Input("latency", "latency of a step", "s", 1e-5, 1e-9, 1.0)),
        (Output("steps", "steps, one after another", "1"),
         Output("sent_bytes", "sent by each rank", "B"),
         Output("collective_seconds", "time", "s"),
         Output("algbw", "algorithm bandwidth", "B/s"),
         Output("busbw", "bus bandwidth", "B/s")),
        compute_all_reduce,
        "Patarasuk and Yuan 2009, doi:10.1016/j.jpdc.2008.09.002; Sanders, Speck and Traeff 2009, "
        "doi:10.1016/j.parco.2009.09.001; nccl-tests, doc/PERFORMANCE.md",
    ),
    Calculator(
        "zero-traffic", "Traffic of data parallelism",
        "How much does each rank send per training step with DDP or ZeRO, and how long?",
        (PARAMETERS, ZERO_STAGE,
         Input("ranks", "data-parallel ranks", "1", 64, 2, 1_000_000),
         Input("weight_bytes", "bytes per weight", "B", 2.0, 0.25, 8.0),
         Input("gradient_bytes", "bytes per gradient", "B", 2.0, 0.25, 8.0),
         Input("accumulation", "gradient accumulation steps", "1", 1, 1, 100_000),
         Input("bandwidth", "bus bandwidth of a rank", "B/s", 40e9, 1e3, 1e14)),
        (Output("traffic_bytes", "sent by each rank per step", "B"),
         Output("traffic_seconds", "time, nothing overlapped", "s")),
        compute_zero_traffic,
        "Rajbhandari et al. 2020 (ZeRO), arXiv:1910.02054, section 7",
    ),
    Calculator(
        "bubble", "Pipeline bubble",
        "What share of the time are the devices of a pipeline idle?",
        (Input("stages", "pipeline stages", "1", 8, 1, 1024),
         Input("micro_batches", "micro-batches per step", "1", 32, 1, 100_000),
         Input("chunks", "chunks of layers per device (1: GPipe, 1F1B)", "1", 1, 1, 128)),
        (Output("bubble_over_ideal", "bubble, of the ideal time", "1"),
         Output("bubble_share", "bubble, of the whole time", "1")),
        compute_bubble,
        "Narayanan et al. 2021, arXiv:2104.04473, section 2.2; Huang et al. 2019, arXiv:1811.06965",
        (("ceil(micro_batches / stages) == micro_batches / stages if chunks > 1 else True",
          "interleaving (chunks above 1) needs micro_batches to be a multiple of stages"),),
    ),
    Calculator(
        "checkpoint", "Checkpoints",
        "How large is a checkpoint, how often should one be written, and what does that cost?",
        (Input("parameters", "parameters of the model", "1", 176e9, 1e6, 1e14),
         Input("bytes_per_parameter", "bytes per parameter in it", "B", 14.0, 0.5, 32.0),
         Input("write_bandwidth", "write bandwidth, all ranks", "B/s", 61.6e9, 1e6, 1e14),
         Input("device_mtbf", "mean time between failures of a device", "s", 2.88e7, 1e5, 1e10),
         Input("devices", "devices (GPUs)", "1", 400, 1, 1_000_000),
         Input("restart_seconds", "time to be back at work", "s", 100.0, 0.0, 1e5),
         Input("own_interval", "your own interval, 0 for none", "s", 0.0, 0.0, 1e7)),
        (Output("checkpoint_bytes", "checkpoint", "B"),
         Output("write_seconds", "writing it", "s"),
         Output("job_mtbf", "mean time between failures of the job", "s"),
         Output("young_interval", "interval after Young", "s"),
         Output("daly_interval", "interval after Daly", "s"),
         Output("write_share", "share of the time spent writing, after Daly", "1"),
         Output("lost_share", "share of the time lost in all, after Daly", "1"),
         Output("own_lost_share", "the same with your own interval (0: Daly's)", "1")),
        plan_checkpoints,
        "Young 1974, doi:10.1145/361147.361115; Daly 2006, doi:10.1016/j.future.2004.11.016",
        (("(own_interval + restart_seconds) * devices / device_mtbf < 99",
          "the job fails far more often than you restart or write checkpoints"),
         ("parameters * bytes_per_parameter * devices < write_bandwidth * device_mtbf",
          "the job fails far more often than a checkpoint can be written")),
    ),
    Calculator(
        "run", "Time and cost of a run",
        "How long does a training run take, and what does it cost?",
        (Input("model_flop", "training per token", "FLOP", 4.8e10, 1e3, 1e16),
         Input("tokens", "tokens", "1", 1e12, 1.0, 1e16),
         Input("devices", "devices (GPUs)", "1", 1000, 1, 1_000_000),
         PEAK,
         Input("mfu", "MFU", "1", 0.4, 1e-4, 1.0),
         Input("useful_share", "share of the time at work", "1", 0.96, 0.01, 1.0),
         Input("device_hour_price", "price per GPU-hour", "1", 2.88, 0.0, 1e4)),
        (Output("run_flop", "FLOPs", "FLOP"),
         Output("run_seconds", "time", "s"),
         Output("gpu_hours", "GPU-hours", "1"),
         Output("run_tokens_per_second", "tokens per second", "1/s"),
         Output("cost", "cost, in the currency of the price", "1")),
        plan_run,
        "the definition of MFU in Chowdhery et al. 2022 (PaLM), arXiv:2204.02311, appendix B",
        also=(PARAMETERS, SEQUENCE, CAUSAL),
    ),
    Calculator(
        "batch", "Global batch",
        "How many sequences and tokens are in a step, and how many steps in a run?",
        (Input("micro_batch", "sequences per micro-batch", "1", 8, 1, 10_000),
         Input("accumulation", "gradient accumulation steps", "1", 32, 1, 100_000),
         Input("data_ranks", "data-parallel ranks", "1", 4, 1, 1_000_000),
         Input("sequence", "tokens per sequence", "1", 2048, 1, 10_000_000),
         Input("tokens", "tokens of the run", "1", 1e12, 1.0, 1e16)),
        (Output("global_batch", "sequences per step", "1"),
         Output("step_tokens", "tokens per step", "1"),
         Output("steps", "steps", "1")),
        compute_batch,
        "the definition",
    ),
    Calculator(
        "decode", "Upper bound of generation",
        "How many tokens per second does the memory bandwidth allow a model to generate?",
        (Input("weight_bytes", "weights read per step", "B", 16e9, 1e3, 1e15),
         Input("kv_token_bytes", "KV cache per token", "B", 131_072.0, 0.0, 1e9),
         Input("context", "tokens of context, average", "1", 4096, 0, 10_000_000),
         Input("batch", "sequences at once", "1", 16, 1, 1_000_000),
         Input("memory_bandwidth", "memory bandwidth per device", "B/s", 3.35e12, 1e6, 1e15),
         Input("devices", "devices that share the work", "1", 1, 1, 100_000)),
        (Output("step_read_bytes", "read per step", "B"),
         Output("decode_seconds", "a step, at least", "s"),
         Output("sequence_tokens_per_second", "tokens per second per sequence, at most", "1/s"),
         Output("decode_tokens_per_second", "tokens per second in all, at most", "1/s")),
        compute_decode,
        "Pope et al. 2022, arXiv:2211.05102, section 2",
        also=(PARAMETERS,),
    ),
    Calculator(
        "number-format", "Number format",
        "Which range and precision does a floating-point format have?",
        (Input("exponent_bits", "exponent bits", "1", 8, 2, 11),
         Input("mantissa_bits", "mantissa bits", "1", 7, 1, 52),
         Input("special", "what the last bit patterns mean", "1", "ieee", choices=SPECIAL)),
        (Output("largest", "largest number", "1"),
         Output("smallest_normal", "smallest normal number", "1"),
         Output("smallest", "smallest above zero", "1"),
         Output("step", "from 1 to the next", "1"),
         Output("relative_error", "rounding error of a normal number, at most", "1"),
         Output("decimal_digits", "decimal digits", "1"),
         Output("doublings", "doublings from the smallest to the largest", "1"),
         Output("distinct_values", "different finite numbers", "1")),
        describe_number_format,
        "IEEE 754-2019, section 3.3; Micikevicius et al. 2022, arXiv:2209.05433; OCP Microscaling "
        "Formats 1.0; ml_dtypes, README",
    ),
)
# fmt: on
UNITS = {each.name: each.unit for one in CALCULATORS for each in (*one.inputs, *one.outputs)}
OF_MODEL = {*SHAPE, "parameters", "output_parameters", "model_flop", "kv_token_bytes"}
FILLS_MEMORY = {"rank_bytes", "activation_bytes", "cache_bytes"}
OF_GPU = {"peak", "memory_bandwidth", *FILLS_MEMORY}
ZERO_PAPER = [120e9, 31.40625e9, 16.640625e9, 1.875e9]
"""Bytes per rank by ZeRO stage for 7.5e9 parameters on 64 ranks: figure 1 of the paper."""


def derive_inputs(calculator: Calculator, given: Row) -> Row:
    """What was given, and what follows: from a model, an accelerator, a number of GPUs, or from
    parameters alone (6 FLOPs per parameter and token, 8 with full checkpointing)."""
    found: Row = {}
    if "gpu" in given:
        _, tflops, _, bandwidth = ACCELERATORS[given["gpu"]]
        found |= {"peak": tflops * 1e12, "memory_bandwidth": bandwidth * 1e9}
    if "gpus" in given:
        found["data_ranks"] = given["gpus"] / given.get("model_ranks", 1)
    active = given.get("parameters")
    if given.get("model") in EXPERTS:
        _, found["parameters"], active = EXPERTS[given["model"]]
    elif "model" in given:
        shape = dict(zip(SHAPE, MODELS[given["model"]][1:], strict=True))
        counted = count_transformer_parameters(**shape, tied=False, experts=1, active_experts=1)
        asked = {
            "layers": shape["layers"],
            "attention_width": shape["heads"] * shape["head_size"],
            "layer_matmul_parameters": counted["layer_matmul_parameters"],
            "output_parameters": counted["output_parameters"],
        }
        chosen = {one.name: given.get(one.name, one.default) for one in OF_FLOPS}
        flops = count_flops(**asked, **chosen)
        keys = shape["layers"] * shape["kv_heads"] * shape["head_size"]
        found |= {**shape, **asked, "parameters": counted["total_parameters"]}
        found |= {"model_flop": flops["model_flop"], "hardware_flop": flops["hardware_flop"]}
        found["kv_token_bytes"] = 2 * 2.0 * keys  # keys and values, in 16 bits
    found |= given
    if active and "model_flop" not in found:
        found["model_flop"] = 6 * active
        found["hardware_flop"] = (8 if found.get("recompute") == "full" else 6) * active
    if "parameters" in found and calculator.name == "decode":
        found.setdefault("weight_bytes", 2.0 * found["parameters"])
    return found


def parse_quantity(text: str) -> float:
    """A number with its unit: `7.5e9`, `7.5G` or `7.5GB`, `80Gi`."""
    text = text.strip()
    if text.endswith(("K", "B")) and text[-2:-1].isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not a number: write 7.5e9, 7.5G or 80Gi")
    return large_number(text.removesuffix("B"))


def parse_seconds(text: str) -> float:
    """Seconds from `90`, `1e-5`, `10m`, `1h30m` or `30d`."""
    try:
        return float(text)
    except ValueError:
        return duration(text)


def yes_or_no(text: str) -> bool:
    """True from `yes`, False from `no`; ValueError otherwise."""
    return ("no", "yes").index(text) == 1


def format_significant(value: float) -> str:
    """Four significant digits, all of them before the point, with commas."""
    if value == 0:
        return "0"
    digits = max(0, 3 - math.floor(math.log10(abs(value))))
    return f"{value:,.{digits}f}" if digits <= 8 else f"{value:.4g}"


def format_prefixed(value: float, unit: str, base: int = 1000) -> str:
    """`1.875 GB`, or with a base of 1024 `1.746 GiB`."""
    power = 0
    while abs(value) >= base and power < 8:
        value, power = value / base, power + 1
    prefix = ("", "k" if base == 1000 else "K", "M", "G", "T", "P", "E", "Z", "Y")[power]
    binary = "i" if base == 1024 and power else ""
    return f"{format_significant(value)} {prefix}{binary}{unit}".rstrip()


def format_quantity(value: Any, unit: str) -> str:
    """A value as people read it: prefixes, days and hours, commas, and GiB beside GB."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if unit == "s" and value >= 60:
        for seconds, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
            if value >= 2 * seconds or name == "min":
                return f"{format_significant(value / seconds)} {name}"
    if unit == "s" and 0 < value < 1:
        scale, name = (1e3, "ms") if value >= 1e-3 else (1e6, "µs")
        return f"{format_significant(value * scale)} {name}"
    if unit == "1":
        if abs(value) >= 1e21:
            return f"{value:.4g}"
        if float(value).is_integer():
            return f"{int(value):,}"
        return f"{value:,.0f}" if abs(value) >= 1000 else format_significant(value)
    if unit == "1/s" and abs(value) < 1e6:
        return f"{format_quantity(value, '1')} /s"
    binary = f" ({format_prefixed(value, 'B', 1024)})" if unit == "B" and value >= 1024 else ""
    return format_prefixed(value, unit.removeprefix("1")) + binary


def calculate(calculator: Calculator, given: Row) -> tuple[Row, Row]:
    """Inputs and outputs of one case. Raises UsageError for inputs that make no sense."""
    found = derive_inputs(calculator, given)
    values: Row = {}
    for asked in calculator.inputs:
        value = found.get(asked.name, asked.default)
        option = f"--{asked.name.replace('_', '-')}"
        if asked.kind in ("integer", "number"):
            if asked.kind == "integer" and value != int(value):
                raise UsageError(f"{option} {value}: this has to be a whole number")
            low, high = asked.minimum or 0.0, asked.maximum or math.inf
            if not low <= value <= high:
                raise UsageError(f"{option} {value:g}: this has to be from {low:g} to {high:g}")
            value = int(value) if asked.kind == "integer" else float(value)
        values[asked.name] = value
    known = {"__builtins__": {}, "ceil": math.ceil}
    for condition, message in calculator.requires:
        if not eval(condition, known, dict(values)):
            raise UsageError(f"{calculator.name}: {message}")
    answers = calculator.function(**values)
    return values, {output.name: answers[output.name] for output in calculator.outputs}


def print_answer(calculator: Calculator, given: Sequence[Row], rows: Sequence[Row]) -> None:
    """Print the table with a column per case; then the defaults that were used, and the source."""

    def show(name: str, value: Any) -> str:
        is_plain = UNITS.get(name, "1") == "1" and isinstance(value, float) and abs(value) < 1000
        text = f"{value:g}" if is_plain else format_quantity(value, UNITS.get(name, "1"))
        return f"{name} {text.partition(' (')[0]}"

    varied = [name for name in given[0] if any(one[name] != given[0][name] for one in given)]
    heads = [", ".join(show(name, one[name]) for name in varied) or "value" for one in given]
    cells = [
        [one.label, *(format_quantity(row[one.name], one.unit) for row in rows)]
        for one in calculator.outputs
    ]
    for name in FILLS_MEMORY & set(rows[0]) if "gpu" in given[0] else ():
        pairs = zip(given, rows, strict=True)
        shares = [100 * row[name] / (ACCELERATORS[case["gpu"]][2] * 2**30) for case, row in pairs]
        texts = [f"{share:,.0f} %" if share >= 100 else f"{share:.3g} %" for share in shares]
        cells.append(["share of the GPU's memory", *texts])
    print(format_table([calculator.title, *heads], cells))
    found = derive_inputs(calculator, given[0])
    asked = [*calculator.inputs, *(calculator.also if given[0].get("model") in MODELS else ())]
    defaults = [show(one.name, one.default) for one in asked if one.name not in found]
    print(f"defaults used: {', '.join(defaults) or 'none'}", file=sys.stderr)
    print(f"source: {calculator.source}", file=sys.stderr)


def add_calculator(commands: Any, calculator: Calculator) -> None:
    """The subcommand of a calculator: its help shows its function."""
    formula = inspect.getsource(calculator.function).replace("  # fmt: skip", "")
    doc = f"{calculator.question}\n\n{formula}\nSource: {calculator.source}"
    add = commands.add_parser(calculator.name, help=calculator.question, doc=doc).add_argument
    asked = (*calculator.inputs, *calculator.also)
    names = {each.name for each in (*asked, *calculator.outputs)}
    if names & OF_MODEL:
        models = (*MODELS, *(() if names & {"layers", "kv_token_bytes"} else EXPERTS))
        add("--model", nargs="+", choices=models, help="fill in what follows from a model")
    if names & OF_GPU:
        text = "fill in what follows from an accelerator"
        add("--gpu", nargs="+", choices=tuple(ACCELERATORS), help=text)
    if "data_ranks" in names:
        add("--gpus", nargs="+", type=large_number, metavar="N", help="GPUs, instead of ranks")
    for one in asked:
        parse: Callable[[str], Any] = parse_quantity
        if one.choices:
            parse = type(one.choices[0])
        elif one.kind == "boolean":
            parse = yes_or_no
        elif one.unit == "s":
            parse = parse_seconds
        elif one.unit in ("1", "1/s"):
            parse = large_number
        text = one.label + ("" if one.unit == "1" else f" in {one.unit}")
        if one in calculator.inputs:
            text += f" (default: {format_quantity(one.default, one.unit)})"
        options = [f"--{one.name.replace('_', '-')}"]
        options += ["--gpus"] if one.name in ("devices", "ranks") else []
        metavar = None if one.choices else "yes|no" if one.kind == "boolean" else "N"
        add(
            *options, nargs="+", type=parse, dest=one.name, choices=one.choices or None,
            help=text.replace("%", "%%"), metavar=metavar,
        )  # fmt: skip
    add("--json", metavar="PATH", default=argparse.SUPPRESS, help="write the results as JSON")


def build_parser() -> Parser:
    parser = Parser(__doc__, "calculators", __version__, METHOD, PROFILES["demo"])
    commands = parser.add_subparsers(dest="calculator", metavar="NAME", title="calculators")
    for calculator in CALCULATORS:
        add_calculator(commands, calculator)
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    by_name = {one.name: one for one in CALCULATORS}
    if options.calculator is None:
        raise UsageError(f"name a calculator: {', '.join(by_name)}")
    calculator = by_name[options.calculator]
    report = Report("calculators", __version__, METHOD, options.json, units=UNITS)
    names = [each.name for each in (*calculator.inputs, *calculator.also)]
    values = {name: getattr(options, name, None) for name in ("model", "gpu", "gpus", *names)}
    asked = {name: list(dict.fromkeys(v)) for name, v in values.items() if v is not None}
    given = [dict(zip(asked, case, strict=True)) for case in itertools.product(*asked.values())]
    for case in given:
        inputs, outputs = calculate(calculator, case)
        named = {name: case[name] for name in ("model", "gpu") if name in case}
        report.rows.append({"calculator": calculator.name, **named, **inputs, **outputs})
    print_answer(calculator, given, report.rows)
    report.notes.append("computed from formulas; nothing was measured")
    report.complete = True
    report.save()
    if options.demo and [row["rank_bytes"] for row in report.rows] != ZERO_PAPER:
        print("problem: these are not the numbers of the ZeRO paper", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    start(main)
