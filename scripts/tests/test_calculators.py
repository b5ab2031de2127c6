"""calculators: each formula against a case worked by hand, against its own text, and its laws."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "training/calculators.py"

COUNTS = st.integers(min_value=1, max_value=512)
BYTES = st.floats(min_value=1e3, max_value=1e13)
# Enough to meet each branch of a formula, and still quick on a slow machine.


@pytest.fixture(scope="module")
def calculators(load_tool: Callable[[str], ModuleType]) -> ModuleType:
    """The tool as a module."""
    return load_tool(TOOL)


@pytest.fixture(scope="module")
def answer(calculators: ModuleType) -> Callable[..., dict[str, Any]]:
    """The outputs of a calculator for some inputs, with the defaults of all others."""
    by_name = {calculator.name: calculator for calculator in calculators.CALCULATORS}

    def ask(name: str, **inputs: Any) -> dict[str, Any]:
        return dict(calculators.calculate(by_name[name], inputs)[1])

    return ask


Answer = Callable[..., dict[str, Any]]


def test_parameters_of_models_that_everybody_can_count(answer: Answer) -> None:
    """The counts are exactly those of published models, biases, ties and experts included."""
    # Llama 3.1 8B, a layer: attention 4096 * 128 * 2 * (32 + 8) = 41943040, MLP
    # 3 * 4096 * 14336 = 176160768, two norms 8192: together 218112000. 32 layers 6979584000,
    # embedding and output 2 * 128256 * 4096 = 1050673152, last norm 4096: 8030261248.
    assert answer("parameters")["total_parameters"] == 8_030_261_248
    # GPT-2, a layer: attention 4 * 768**2 = 2359296 and biases 4 * 768 = 3072, MLP
    # 2 * 768 * 3072 = 4718592 and biases 3840, norms 3072: 7087872. 12 layers 85054464, embedding
    # 50257 * 768 = 38597376, positions 1024 * 768 = 786432, last norm 1536: 124439808.
    gpt2 = answer(
        "parameters",
        layers=12,
        hidden=768,
        heads=12,
        kv_heads=12,
        head_size=64,
        ffn=3072,
        vocab=50_257,
        positions=1024,
        gated=False,
        biases=True,
        tied=True,
    )
    assert gpt2["total_parameters"] == gpt2["active_parameters"] == 124_439_808
    # Mixtral 8x7B, a layer: attention 41943040, 8 experts of 176160768 = 1409286144, router
    # 4096 * 8 = 32768, norms 8192: 1451270144. 32 layers 46440644608, embedding and output
    # 2 * 32000 * 4096 = 262144000, last norm 4096: 46702792704. Of each layer 6 experts rest:
    # 32 * 6 * 176160768 = 33822867456 less leaves 12879925248.
    mixtral = answer("parameters", vocab=32_000, experts=8, active_experts=2)
    assert mixtral["total_parameters"] == 46_702_792_704
    assert mixtral["active_parameters"] == 12_879_925_248


def test_memory_is_that_of_the_zero_paper(answer: Answer) -> None:
    """7.5e9 parameters on 64 ranks take 120, 31.4, 16.6 and 1.9 GB, as the paper has it."""
    # Stage 0: 16 * 7.5 = 120. Stage 1: 4 * 7.5 + 12 * 7.5 / 64 = 30 + 1.40625 = 31.40625.
    # Stage 2: 2 * 7.5 + 14 * 7.5 / 64 = 15 + 1.640625 = 16.640625. Stage 3: 120 / 64 = 1.875.
    taken = [
        answer("memory", parameters=7.5e9, zero_stage=stage)["rank_bytes"] for stage in range(4)
    ]
    assert taken == [120e9, 31.40625e9, 16.640625e9, 1.875e9]


def test_bytes_of_each_mode(answer: Answer) -> None:
    """Weights + gradients + master weights + states, added up by hand."""
    by_hand = {
        "adamw-mixed": 2 + 2 + 4 + 8,
        "adamw-mixed-fp32-gradients": 2 + 4 + 4 + 8,
        "adamw-fp32": 4 + 4 + 0 + 8,
        "adamw-bf16": 2 + 2 + 0 + 4,
        "adamw-8bit-mixed": 2 + 2 + 4 + 2,
        "adamw-8bit-bf16": 2 + 2 + 0 + 2,
        "momentum-mixed": 2 + 2 + 4 + 4,
        "momentum-fp32": 4 + 4 + 0 + 4,
        "sgd-mixed": 2 + 2 + 4 + 0,
        "sgd-fp32": 4 + 4 + 0 + 0,
        # A matrix of 4096 x 4096 keeps 2 * 4096 numbers of 4 bytes: 32768 / 4096**2 = 1 / 512.
        "adafactor-mixed": 2 + 2 + 4 + 1 / 512,
    }
    for mode, expected in by_hand.items():
        assert answer("memory", mode=mode)["bytes_per_parameter"] == expected


def test_activations_of_a_layer(answer: Answer) -> None:
    """The five lines of the paper's table 2, for the shape of GPT-3."""
    # s b h = 2048 * 12288 = 25165824; 5 a s / h = 5 * 96 * 2048 / 12288 = 80.
    size = 25_165_824
    gpt3 = {"layer": "gpt", "hidden": 12_288, "heads": 96, "sequence": 2048, "vocab": 51_200}

    def kept(**inputs: Any) -> Any:
        return answer("activations", **{**gpt3, "tensor_ranks": 8, **inputs})["layer_bytes"]

    assert kept(tensor_ranks=1) == size * (34 + 80)
    assert kept(sequence_parallel=False) == size * (10 + (24 + 80) / 8)
    assert kept() == size * (34 + 80) / 8
    assert kept(sequence_parallel=False, recompute="selective") == size * (10 + 24 / 8)
    assert kept(recompute="selective") == size * 34 / 8
    assert kept(recompute="full") == size * 2
    # Outside: 5 s b h / 8 = 15728640 and 4 s b V / 8 = 4 * 2048 * 51200 / 8 = 52428800.
    outside = answer("activations", **gpt3, tensor_ranks=8)["outside_bytes"]
    assert outside == 15_728_640 + 52_428_800


@pytest.mark.parametrize(("layer", "copies"), [("llama", 24.5), ("llama-fused", 17.0)])
def test_activations_of_llama_with_fused_attention(
    answer: Answer, layer: str, copies: float
) -> None:
    """Llama 3.1 8B: 24.5 copies of the hidden state, as autograd saves them in Transformers 5.23.

    Norms 2 * (4 + 2 + 2) = 16 bytes per element, query 2, key and value 2 * 0.5, output 2, SwiGLU
    8 * 3.5 = 28: 49 bytes, 24.5 copies. Fused norms 8, fused SwiGLU 6 * 3.5 = 21: 34, 17 copies.
    """
    copy = 2 * 8192 * 4096
    found = answer("activations", layer=layer)
    assert found["layer_bytes"] == copies * copy
    assert found["layers_bytes"] == 32 * copies * copy
    # The outputs of the matmuls and of attention, and the input:
    # 2 + 2 + 2 * 0.5 + 2 + 2 + 14 + 2 = 25 bytes.
    selective = answer("activations", layer=layer, recompute="selective")
    assert selective["copies"] == 12.5
    full = answer("activations", layer=layer, recompute="full")
    assert full["copies"] == 1
    assert full["recomputed_bytes"] == found["layer_bytes"]
    assert answer("activations", layer=layer, tensor_ranks=8)["copies"] == copies / 8


def test_kv_cache_of_known_models(answer: Answer) -> None:
    """131 kB a token for Llama 3.1 8B, 70272 bytes for DeepSeek-V3."""
    # 2 * 32 layers * 8 heads * 128 * 2 bytes = 131072; 61 layers * (512 + 64) * 2 bytes = 70272.
    assert answer("kv-cache")["token_bytes"] == 131_072
    assert answer("kv-cache", attention="mla", layers=61)["token_bytes"] == 70_272


def test_flops_are_those_of_megatron(answer: Answer) -> None:
    """For N = 12 L h**2 + V h the count is equations 3 of Narayanan et al., by another way."""
    layers, hidden, vocab, sequence = 96, 12_288, 51_200, 2048
    found = answer(
        "flops",
        layer_matmul_parameters=12.0 * layers * hidden**2,
        output_parameters=1.0 * vocab * hidden,
        layers=layers,
        attention_width=hidden,
        sequence=sequence,
        recompute="full",
    )
    # 96 L h**2 = 1391569403904; s / (6 h) of it 38654705664; V / (16 L h) of it 3774873600.
    assert found["hardware_flop"] == 1_391_569_403_904 + 38_654_705_664 + 3_774_873_600
    # 72 L h**2 = 1043677052928; s / (6 h) of it 28991029248; V / (12 L h) of it 3774873600.
    assert found["model_flop"] == 1_043_677_052_928 + 28_991_029_248 + 3_774_873_600


def test_utilisation_of_a_bloom_step(answer: Answer) -> None:
    """52e9 parameters, 2097152 tokens in 127 s on 64 devices: 107 TFLOPS with recomputation."""
    # 8 * 52e9 = 4.16e11; * 2097152 = 8.72415232e17; / 127 = 6.86941e15; / 64 = 1.07335e14.
    found = answer(
        "mfu",
        model_flop=3.12e11,
        hardware_flop=4.16e11,
        step_tokens=2_097_152.0,
        step_seconds=127.0,
        devices=64,
        peak=312e12,
    )
    assert found["device_hardware_rate"] == pytest.approx(1.07335e14, rel=1e-5)
    assert found["hfu"] == pytest.approx(1.07335 / 3.12, rel=1e-5)
    assert found["mfu"] == pytest.approx(found["hfu"] * 3 / 4)


def test_peaks_of_datasheets(answer: Answer) -> None:
    """A100: 312 TFLOPS. MI300X: 1307 TFLOPS."""
    # 1.41e9 * 432 * 256 * 2 = 3.1186944e14; 2.1e9 * 1216 * 256 * 2 = 1.3074432e15.
    assert answer("peak")["peak"] == pytest.approx(3.1186944e14)
    mi300x = answer("peak", clock=2.1e9, units=1216, fma_per_clock=256)
    assert mi300x["peak"] == pytest.approx(1.3074432e15)


def test_all_reduce(answer: Answer) -> None:
    """8 GB over 8 ranks at 280 GB/s: 14 GB sent in 0.05 s, and 14 steps of 10 microseconds."""
    ring = answer("all-reduce")
    assert ring["sent_bytes"] == 8e9 * 2 * 7 / 8
    assert ring["collective_seconds"] == pytest.approx(0.05 + 14e-5)
    # 6 steps: log2(8) = 3 to halve, 3 to double.
    assert answer("all-reduce", algorithm="recursive")["collective_seconds"] == pytest.approx(
        0.05 + 6e-5
    )
    # The trees send all of it twice: 16e9 / 280e9 = 0.0571428...
    assert answer("all-reduce", algorithm="double-tree")["collective_seconds"] == pytest.approx(
        16 / 280 + 6e-5
    )


def test_zero_traffic(answer: Answer) -> None:
    """10e9 parameters in 2 bytes move 40 GB a step with DDP, 60 GB with stage 3, times 63 / 64."""
    share = 63 / 64

    def sent(stage: int, **inputs: Any) -> Any:
        found = answer("zero-traffic", parameters=1e10, zero_stage=stage, **inputs)
        return found["traffic_bytes"]

    assert [sent(stage) / share for stage in range(4)] == [40e9, 40e9, 40e9, 60e9]
    # Four micro-steps: stages 0 and 1 as before, 4 * 20 + 20 = 100, 4 * 60 = 240.
    assert [sent(s, accumulation=4) / share for s in range(4)] == [40e9, 40e9, 100e9, 240e9]


def test_bubble(answer: Answer) -> None:
    """8 stages and 32 micro-batches wait 7 of 39; with 2 chunks 7 of 71."""
    assert answer("bubble")["bubble_share"] == 7 / 39
    assert answer("bubble")["bubble_over_ideal"] == 7 / 32
    assert answer("bubble", chunks=2)["bubble_share"] == 7 / 71


def test_checkpoint_interval(answer: Answer) -> None:
    """40 s to write and 20 h between failures: 40 min by Young, 39 min 33 s by Daly."""
    # 176e9 * 14 = 2.464e12; / 61.6e9 = 40 s. 2.88e7 / 400 = 72000 s.
    # Young: sqrt(2 * 40 * 72000) = sqrt(5760000) = 2400.
    # Daly: 40 / 144000 = 1 / 3600, its root 1 / 60: 2400 * (1 + 1/180 + 1/32400) - 40
    # = 2400 + 13.33333 + 0.07407 - 40 = 2373.40741.
    found = answer("checkpoint")
    assert found["write_seconds"] == 40
    assert found["young_interval"] == 2400
    assert found["daly_interval"] == pytest.approx(2373.40741, abs=1e-4)
    # wall / work: 72000 / 2373.40741 = 30.336132; exp(100 / 72000) = 1.0013899;
    # exp(2413.40741 / 72000) - 1 = 0.0340877; their product 1.035525, so 3.43 % are lost.
    assert found["lost_share"] == pytest.approx(0.0343, abs=1e-4)


def test_run(answer: Answer) -> None:
    """4.8e22 FLOP at 1000 devices x 1e15 x 0.4 x 0.96 take 125000 s and cost 100000."""
    found = answer("run", peak=1e15)
    assert found["run_seconds"] == pytest.approx(125_000)
    # 125000 s * 1000 / 3600 = 34722.2 hours; * 2.88 = 100000.
    assert found["cost"] == pytest.approx(100_000)
    # 1.25e8 s * 1000 W * 1.2 = 1.5e11 J.
    assert found["energy"] == pytest.approx(1.5e11)


def test_loss_of_chinchilla(answer: Answer) -> None:
    """70e9 parameters and 1.4e12 tokens: 1.69 + 0.0835 + 0.1632 = 1.937."""
    assert answer("loss")["loss"] == pytest.approx(1.937, abs=5e-4)


def test_rest_by_hand(answer: Answer) -> None:
    """Batch, storage, generating and transfer, each by hand."""
    assert answer("batch")["global_batch"] == 8 * 32 * 4
    assert answer("batch")["steps"] == math.ceil(1e12 / (1024 * 2048))
    # 1e13 * 4 + 25 * 2.4e12 = 1e14; / 0.8 = 1.25e14. 86400 / 10800 = 8 checkpoints of 2.4e12.
    assert answer("storage")["bought_bytes"] == 1.25e14
    assert answer("storage")["written_per_day"] == pytest.approx(8 * 2.4e12)
    # 16e9 + 131072 * 4096 * 16 = 24589934592; / 3.35e12 = 7.340279 ms; 16 / that = 2179.75.
    assert answer("decode")["decode_tokens_per_second"] == pytest.approx(2179.75, abs=0.01)
    # 80e9 parameters * 4 bytes over 200 Gbit/s = 25e9 bytes/s: 12.8 s.
    assert answer("transfer", efficiency=1.0)["transfer_seconds"] == pytest.approx(12.8)


def test_number_formats_by_hand(answer: Answer) -> None:
    """The largest and smallest numbers that the publications of the formats print."""

    def ask(exponent_bits: int, mantissa_bits: int, special: str = "ieee") -> list[Any]:
        found = answer(
            "number-format",
            exponent_bits=exponent_bits,
            mantissa_bits=mantissa_bits,
            special=special,
        )
        return [found["largest"], found["smallest_normal"], found["smallest"]]

    # (2 - 2**-10) * 2**15 = 65504; 2**-14; 2**-24.
    assert ask(5, 10) == [65504, 2.0**-14, 2.0**-24]
    assert ask(8, 23) == [(2 - 2.0**-23) * 2.0**127, 2.0**-126, 2.0**-149]
    assert ask(11, 52) == [1.7976931348623157e308, 2.2250738585072014e-308, 5e-324]
    # Micikevicius et al., table 1: 57344 and 2**-16; 448 and 2**-9.
    assert ask(5, 2) == [57344, 2.0**-14, 2.0**-16]
    assert ask(4, 3, "fn") == [448, 2.0**-6, 2.0**-9]
    # ml_dtypes: 240 and 57344, each with the bias larger by 1.
    assert ask(4, 3, "fnuz") == [240, 2.0**-7, 2.0**-10]
    assert ask(5, 2, "fnuz") == [57344, 2.0**-15, 2.0**-17]
    # OCP Microscaling Formats 1.0, section 5.3: 28, 7.5 and 6.
    assert ask(3, 2, "finite") == [28, 0.25, 0.0625]
    assert ask(2, 3, "finite") == [7.5, 1, 0.125]
    assert ask(2, 1, "finite") == [6, 1, 0.5]


def decode(pattern: int, exponent_bits: int, mantissa_bits: int, special: str) -> float:
    """The number that a pattern of bits without sign stands for; NaN where it is none."""
    exponent, mantissa = divmod(pattern, 2**mantissa_bits)
    last = 2**exponent_bits - 1
    if special == "ieee" and exponent == last:
        return math.nan
    if special == "fn" and pattern == 2 ** (exponent_bits + mantissa_bits) - 1:
        return math.nan
    bias = 2 ** (exponent_bits - 1) - 1 + (special == "fnuz")
    if exponent == 0:
        return float(mantissa * 2.0 ** (1 - bias - mantissa_bits))
    return float((2**mantissa_bits + mantissa) * 2.0 ** (exponent - bias - mantissa_bits))


@given(st.integers(2, 6), st.integers(1, 5), st.sampled_from(["ieee", "fn", "fnuz", "finite"]))
def test_number_format_laws(
    calculators: ModuleType, exponent_bits: int, mantissa_bits: int, special: str
) -> None:
    """All patterns of a small format, read one by one, have these ends, steps and count."""
    found = calculators.describe_number_format(
        exponent_bits=exponent_bits, mantissa_bits=mantissa_bits, special=special
    )
    patterns = range(2 ** (exponent_bits + mantissa_bits))
    every = [decode(one, exponent_bits, mantissa_bits, special) for one in patterns]
    numbers = [one for one in every if not math.isnan(one)]
    assert numbers == sorted(set(numbers))
    assert found["largest"] == numbers[-1]
    assert found["smallest"] == numbers[1]
    assert found["smallest_normal"] == numbers[2**mantissa_bits]
    assert found["distinct_values"] == 2 * len(numbers) - 1
    if found["largest"] > 1:
        assert numbers[numbers.index(1.0) + 1] - 1 == found["step"]
    assert 2 ** found["doublings"] == pytest.approx(numbers[-1] / numbers[1])
    # Half way between 1 and the next number is where rounding errs most.
    half = 1 + found["step"] / 2
    assert found["relative_error"] == pytest.approx((half - 1) / half)


def test_numbers_without_a_prefix_are_short(calculators: ModuleType) -> None:
    """The largest bfloat16 has no name among thousands."""
    assert calculators.format_quantity(3.3895313892515355e38, "1") == "3.39e+38"
    assert calculators.format_quantity(10**20, "1") == "100,000,000,000,000,000,000"


@given(COUNTS, COUNTS, st.floats(min_value=1e6, max_value=1e13))
def test_memory_laws(
    calculators: ModuleType, ranks: int, model_ranks: int, parameters: float
) -> None:
    """A higher stage never takes more; all ranks of stage 3 hold exactly one training state."""
    taken = [
        calculators.compute_training_memory(
            parameters=parameters,
            mode="adamw-mixed",
            zero_stage=stage,
            data_ranks=ranks,
            model_ranks=model_ranks,
            matrix_size=4096,
        )
        for stage in range(4)
    ]
    by_rank = [found["rank_bytes"] for found in taken]
    assert by_rank == sorted(by_rank, reverse=True)
    assert taken[3]["all_ranks_bytes"] == pytest.approx(16 * parameters)
    assert taken[0]["rank_bytes"] * model_ranks == pytest.approx(16 * parameters)


@given(COUNTS, st.integers(1, 64), st.integers(1, 64), st.integers(1, 1024))
def test_kv_cache_laws(
    calculators: ModuleType, layers: int, groups: int, per_group: int, tokens: int
) -> None:
    """MQA <= GQA <= MHA, each linear in tokens; as many groups as heads is MHA."""

    def size(attention: str, kv_heads: int = groups, many: int = tokens) -> float:
        found = calculators.compute_kv_cache(
            attention=attention,
            layers=layers,
            heads=groups * per_group,
            kv_heads=kv_heads,
            head_size=128,
            latent_size=512,
            rope_size=64,
            value_bytes=2.0,
            tokens=many,
            sequences=3,
        )
        return float(found["cache_bytes"])

    assert size("mqa") <= size("gqa") <= size("mha")
    assert size("gqa", kv_heads=groups * per_group) == size("mha")
    assert size("gqa", kv_heads=1) == size("mqa")
    for attention in ("mha", "gqa", "mqa", "mla"):
        assert size(attention, many=2 * tokens) == 2 * size(attention)


@given(
    st.sampled_from(["llama", "llama-fused", "gpt"]),
    st.integers(1, 200),
    st.integers(1, 64),
    st.integers(1, 65_536),
    st.integers(1, 16),
)
def test_activation_laws(
    calculators: ModuleType, layer: str, layers: int, heads: int, sequence: int, tensor_ranks: int
) -> None:
    """Recomputing keeps less of a layer: full <= selective <= none; two sequences take twice."""

    def find(recompute: str, micro_batch: int = 1) -> dict[str, float]:
        found = calculators.compute_activation_memory(
            layer=layer,
            layers=layers,
            hidden=128 * heads,
            ffn=448 * heads,
            heads=heads,
            kv_heads=1,
            sequence=sequence,
            micro_batch=micro_batch,
            vocab=50_000,
            tensor_ranks=tensor_ranks,
            sequence_parallel=True,
            recompute=recompute,
        )
        return dict(found)

    none, selective, full = (find(kind)["layer_bytes"] for kind in ("none", "selective", "full"))
    assert full <= selective <= none
    twice = find("none", micro_batch=2)["activation_bytes"]
    assert twice == pytest.approx(2 * find("none")["activation_bytes"])


@given(st.floats(1e6, 1e13), st.integers(1, 200), st.integers(1, 1_000_000), st.booleans())
def test_flop_laws(
    calculators: ModuleType, parameters: float, layers: int, sequence: int, causal: bool
) -> None:
    """Training is three forward passes, full recomputation at most a fourth; 6 N at the least."""

    def count(recompute: str) -> dict[str, float]:
        found = calculators.count_flops(
            layer_matmul_parameters=parameters,
            output_parameters=1.0,
            layers=layers,
            attention_width=4096,
            sequence=sequence,
            causal=causal,
            recompute=recompute,
            tokens=1.0,
        )
        return dict(found)

    none, selective, full = (count(kind) for kind in ("none", "selective", "full"))
    assert none["hardware_flop"] == none["model_flop"] > 6 * parameters
    assert none["hardware_flop"] <= selective["hardware_flop"] <= full["hardware_flop"]
    assert full["hardware_flop"] <= 4 / 3 * full["model_flop"] * (1 + 1e-12)


@given(st.integers(2, 100_000), BYTES, st.floats(1e6, 1e13), st.floats(1e-9, 1e-2))
def test_all_reduce_laws(
    calculators: ModuleType, ranks: int, payload: float, bandwidth: float, latency: float
) -> None:
    """No algorithm beats its link; without latency the ring's bus bandwidth is the link's."""

    def find(algorithm: str, latency: float = latency) -> dict[str, float]:
        found = calculators.compute_all_reduce(
            algorithm=algorithm,
            payload_bytes=payload,
            ranks=ranks,
            bandwidth=bandwidth,
            latency=latency,
        )
        return dict(found)

    for algorithm in ("ring", "recursive", "double-tree"):
        assert find(algorithm)["busbw"] <= bandwidth * (1 + 1e-9)
    assert find("ring", latency=0.0)["busbw"] == pytest.approx(bandwidth)
    assert find("recursive")["collective_seconds"] <= find("ring")["collective_seconds"]


@given(st.integers(1, 512), st.integers(1, 4096), st.integers(1, 16))
def test_bubble_laws(calculators: ModuleType, stages: int, micro_batches: int, chunks: int) -> None:
    """Bubble and work are the whole; more micro-batches or chunks make it smaller, never larger."""
    find = calculators.compute_bubble
    bubble = find(stages=stages, micro_batches=micro_batches, chunks=chunks)
    assert bubble["bubble_share"] + bubble["efficiency"] == pytest.approx(1)
    more = find(stages=stages, micro_batches=2 * micro_batches, chunks=chunks)
    assert more == find(stages=stages, micro_batches=micro_batches, chunks=2 * chunks)
    assert more["bubble_share"] <= bubble["bubble_share"]


def find_best_interval(write: float, mtbf: float) -> float:
    """The interval where Daly's complete model has its minimum: 1 - x = exp(-(x + d)).

    With x = tau / M and d = delta / M the derivative of (exp(x + d) - 1) / x is zero there.
    """
    low, high, d = 0.0, 1.0, write / mtbf
    for _ in range(200):
        middle = (low + high) / 2
        if 1 - middle > math.exp(-(middle + d)):
            low = middle
        else:
            high = middle
    return low * mtbf


@pytest.mark.parametrize(
    ("hours", "minutes"), [(24.0, 117.0), (6.0, 57.0), (0.25, 9.1)], ids=["24h", "6h", "15min"]
)
def test_daly_is_as_published(calculators: ModuleType, hours: float, minutes: float) -> None:
    """Dumps of 5 minutes, failures each 24 h, 6 h and 15 min: captions of figures 3, 4 and 5."""
    found = calculators.choose_daly_interval(300.0, hours * 3600) / 60
    assert found == pytest.approx(minutes, abs=0.5 if minutes > 10 else 0.05)


@given(st.floats(1.0, 1e4), st.floats(1.0, 1e6))
def test_daly_is_near_the_true_optimum(calculators: ModuleType, write: float, ratio: float) -> None:
    """Daly's higher order is where the complete model is lowest; Young tends to it for large M."""
    mtbf = write * ratio
    best = find_best_interval(write, mtbf)
    daly = calculators.choose_daly_interval(write, mtbf)
    lost = [calculators.compute_lost_share(x, write, 0.0, mtbf) for x in (best, daly)]
    assert lost[0] <= lost[1] + 1e-9
    assert (1 - lost[1]) / (1 - lost[0]) > 0.995
    if ratio > 1e4:
        assert daly == pytest.approx(best, rel=1e-3)
        assert calculators.choose_young_interval(write, mtbf) == pytest.approx(daly, rel=0.01)


@given(st.floats(1e6, 1e13), st.floats(1e6, 1e15), st.sampled_from(["hoffmann-2022"]))
def test_loss_laws(calculators: ModuleType, parameters: float, tokens: float, fit: str) -> None:
    """More parameters or tokens never hurt, and the floor is never reached."""
    here = calculators.estimate_loss(parameters=parameters, tokens=tokens, fit=fit)
    larger = calculators.estimate_loss(parameters=2 * parameters, tokens=tokens, fit=fit)
    longer = calculators.estimate_loss(parameters=parameters, tokens=2 * tokens, fit=fit)
    assert min(larger["loss"], longer["loss"]) > 1.69
    assert max(larger["loss"], longer["loss"]) < here["loss"]


def test_registry_is_whole(calculators: ModuleType) -> None:
    """Each calculator says all of itself, and each name of a column has one unit only."""
    units: dict[str, str] = {}
    for calculator in calculators.CALCULATORS:
        assert calculator.question.endswith("?")
        assert calculator.source
        assert calculator.function is calculators.compute_peak or calculator.function.__doc__
        names = [column.name for column in (*calculator.inputs, *calculator.outputs)]
        assert len(set(names)) == len(names)
        for column in (*calculator.inputs, *calculator.outputs):
            assert units.setdefault(column.name, column.unit) == column.unit
        set_by_formula = {line.split(" = ", 1)[0] for line in calculator.formula}
        assert {output.name for output in calculator.outputs} <= set_by_formula
    assert units == calculators.UNITS


def test_formula_text_and_function_agree(calculators: ModuleType) -> None:
    """For 200 random cases of each calculator the text of the formula gives the same outputs."""
    for calculator in calculators.CALCULATORS:
        for inputs, outputs in calculators.draw_cases(calculator, 200, 7):
            names = calculators.evaluate_formula(calculator, inputs)
            for name, value in outputs.items():
                assert calculators.is_near(names[name], value, 1e-9), (
                    calculator.name,
                    name,
                    inputs,
                )
                assert math.isfinite(value)


def test_cases_are_the_same_for_the_same_seed(call_tool: Callable[..., Any]) -> None:
    """--cases prints as many JSON lines as asked for, and the seed alone decides which."""
    runs = [call_tool(TOOL, "--cases", "3", "--seed", seed).stdout for seed in ("1", "1", "2")]
    assert runs[0] == runs[1] != runs[2]
    lines = [json.loads(line) for line in runs[0].splitlines()]
    assert len(lines) == 3 * len({line["calculator"] for line in lines})
    one = call_tool(TOOL, "bubble", "--cases", "2").stdout.splitlines()
    assert [json.loads(line)["calculator"] for line in one] == ["bubble", "bubble"]


TWIN = """
const {sqrt, exp, expm1, log2, ceil, min, max} = Math;
const when = (condition, then, otherwise) => condition ? then : otherwise;
const twins = {%s};
const lines = require("fs").readFileSync(0, "utf8").trim().split("\\n").map(JSON.parse);
for (const {calculator, inputs, outputs} of lines) {
  const found = twins[calculator](inputs);
  for (const [name, value] of Object.entries(outputs)) {
    const apart = Math.abs(found[name] - value);
    if (!(apart <= 1e-12 || apart <= 1e-9 * Math.abs(value))) {
      console.log(calculator, name, found[name], value, JSON.stringify(inputs));
    }
  }
}
console.log(lines.length);
"""


def write_twin(described: dict[str, Any]) -> str:
    """The description of a calculator as a JavaScript function of its inputs."""
    names = ", ".join(asked["name"] for asked in described["inputs"])
    tables = [f"const {name} = {json.dumps(t)};" for name, t in described["tables"].items()]
    lines = [f"const {line};" for line in described["formula"]]
    outputs = ", ".join(output["name"] for output in described["outputs"])
    body = " ".join([*tables, *lines, f"return {{{outputs}}};"])
    return f"{json.dumps(described['name'])}: ({{{names}}}) => {{ {body} }}"


@pytest.mark.needs("node")
def test_a_twin_in_another_language_gives_the_same(
    call_tool: Callable[..., Any], tmp_path: Path
) -> None:
    """JavaScript made from --describe alone agrees with the rows of --cases."""
    document = json.loads(call_tool(TOOL, "--describe").stdout)
    program = tmp_path / "twin.js"
    program.write_text(TWIN % ", ".join(write_twin(one) for one in document["calculators"]))
    cases = call_tool(TOOL, "--cases", "50", "--seed", "3").stdout
    done = subprocess.run(
        ["node", str(program)],
        input=cases,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == [str(len(cases.splitlines()))]


def test_several_values_make_columns(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """Two values of one input and two of another are four cases, in the table and in the JSON."""
    path = tmp_path / "out.json"
    done = call_tool(
        TOOL,
        *("memory", "--zero_stage", "1", "3", "--data_ranks", "8", "16", "--parameters", "8Gi"),
        *("--json", str(path)),
    )
    assert done.returncode == 0, done.stderr
    assert "zero_stage 1, data_ranks 8" in done.stdout.splitlines()[0]
    document = json.loads(path.read_text(encoding="utf-8"))
    schema = json.loads((SCRIPTS / "schemas" / "tool-output-2.json").read_text(encoding="utf-8"))
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
    found = [(row["zero_stage"], row["data_ranks"]) for row in document["results"]]
    assert found == [(1, 8), (1, 16), (3, 8), (3, 16)]
    assert document["results"][0]["parameters"] == 8 * 1024**3
    assert "formula: rank_bytes" in done.stderr
    assert "arXiv:1910.02054" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a calculator: parameters, memory"),
        (["memory", "--parameters", "1e30"], "has to be at most 1e+14, and 1e+30 was given"),
        (["memory", "--parameters", "0"], "--parameters has to be at least 1,000,000, and 0 was"),
        (["parameters", "--kv_heads", "7"], "heads is a multiple of kv_heads"),
        (["kv-cache", "--kv_heads", "7"], "heads is a multiple of kv_heads"),
        (["activations", "--tensor_ranks", "7"], "heads is a multiple of tensor_ranks"),
        (["bubble", "--micro_batches", "3", "--chunks", "2"], "to be a multiple of stages"),
        (["checkpoint", "--own_interval", "100d", "--devices", "10000"], "fails far more often"),
        (["memory", "--parameters", "8GB"], "'8GB' is no number: write 7.5e9, 7.5B or 7.5G"),
        (["transfer", "--payload_bytes", "8B"], "'8B' is no number: write 7.5e9, 7.5G or 80Gi"),
        (["memory", "--data_ranks", "2.5"], "--data_ranks 2.5: this has to be a whole number"),
        (["memory", "--zero_stage", "4"], "invalid choice: 4"),
        (["kv-cache", "--kv_heads", "64"], "at most as many key-value heads as heads"),
        (["checkpoint", "--device_mtbf", "100ks"], "is no duration"),
        (["checkpoint", "--devices", "1e6", "--write_bandwidth", "1e6"], "fails far more often"),
        (["bubble", "--stages", *map(str, range(1, 66))], "65 combinations"),
        (["flops", "--causal", "maybe"], "has to be yes or no"),
        (["--describe", "--cases", "3"], "either --describe or --cases"),
    ],
)
def test_wrong_use_is_told(
    call_tool: Callable[..., Any], arguments: list[str], message: str
) -> None:
    """What makes no sense ends with status 2 and a sentence that says what does."""
    done = call_tool(TOOL, *arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_numbers_are_written_as_on_the_card_of_a_model(call_tool: Callable[..., Any]) -> None:
    """70B parameters and 7.5T tokens are 70e9 and 7.5e12; rates have no unit but 1/s."""
    tables = [
        call_tool(TOOL, "loss", "--parameters", parameters, "--tokens", tokens).stdout
        for parameters, tokens in (("70B", "7.5T"), ("70e9", "7.5e12"))
    ]
    assert tables[0] == tables[1] != ""
    assert (
        "given: parameters 70,000,000,000"
        in call_tool(TOOL, "memory", "--parameters", "70B").stderr
    )
    rate = call_tool(TOOL, "mfu", "--step_tokens", "64M", "--step_seconds", "11.7").stdout
    assert "5.470 M/s" in rate


def test_what_fits_together_is_not_refused(answer: Answer) -> None:
    """Conditions on inputs hold only where they matter: pipelines without chunks, other caches."""
    assert answer("bubble", micro_batches=3)["bubble_share"] == 7 / 10
    assert answer("bubble", stages=4, micro_batches=8, chunks=3)["bubble_share"] == 3 / 27
    assert answer("kv-cache", attention="mla", kv_heads=7)["values_per_layer"] == 576


def test_an_interval_of_ones_own(answer: Answer) -> None:
    """What a checkpoint every 10 minutes costs, beside Young's and Daly's interval."""
    found = answer("checkpoint", own_interval=600.0)
    # wall / work: 72000 / 600 = 120; exp(100 / 72000) = 1.0013899; exp(640 / 72000) - 1 =
    # 0.00892851; their product 1.0729102, so 6.80 % are lost.
    assert found["own_lost_share"] == pytest.approx(0.0680, abs=1e-4)
    assert found["lost_share"] <= found["young_lost_share"] < found["own_lost_share"]
    without = answer("checkpoint")
    assert without["own_lost_share"] == without["lost_share"] == found["lost_share"]


def test_more_than_the_peak_is_a_fault(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """An MFU that needs more than the peak is printed, called a problem, and ends with status 1."""
    path = tmp_path / "out.json"
    done = call_tool(TOOL, "mfu", "--peak", "1T", "989T", "--json", str(path))
    assert done.returncode == 1
    assert "problem: column 1: more is executed than the peak of all devices" in done.stderr
    assert done.stdout.startswith("| Model and hardware")
    assert any("more is executed" in caveat for caveat in read_json(path)["caveats"])
    assert call_tool(TOOL, "mfu", "--peak", "989T").returncode == 0


def test_what_is_assumed_is_said(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Defaults are named as assumed, apart from what was given, in the note and in the JSON."""
    path = tmp_path / "out.json"
    done = call_tool(TOOL, "checkpoint", "--parameters", "1G", "--json", str(path))
    assert "note: given: parameters 1,000,000,000\n" in done.stderr
    [line] = [line for line in done.stderr.splitlines() if "assumed, for it was not given" in line]
    assert "devices 400, " in line
    assert "tokens_per_second 100,000 /s" in line
    assert "parameters 1,000" not in line
    assert "devices" in read_json(path)["details"]["assumed"]
    assert "parameters" not in read_json(path)["details"]["assumed"]


def test_energy_is_also_what_a_bill_has(calculators: ModuleType) -> None:
    """1.5e11 J are 150 GJ and, over 3.6e6, 41.67 MWh; less than 1 kWh is joules alone."""
    assert calculators.format_quantity(1.5e11, "J") == "150.0 GJ (41.67 MWh)"
    assert calculators.format_quantity(3.6e6, "J") == "3.600 MJ (1.000 kWh)"
    assert calculators.format_quantity(1000.0, "J") == "1.000 kJ"


def test_bytes_come_in_both_counts(calculators: ModuleType) -> None:
    """A cache of 2.5 GiB is 2.684 GB, and no reader should have to know that by heart."""
    assert calculators.format_quantity(2_684_354_560, "B") == "2.684 GB (2.500 GiB)"
    assert calculators.format_quantity(327_680, "B") == "327.7 kB (320.0 KiB)"
    assert calculators.format_quantity(2.0, "B") == "2.000 B"
    assert calculators.format_quantity(4e11, "B/s") == "400.0 GB/s"


def test_durations_and_prefixes(call_tool: Callable[..., Any]) -> None:
    """`30d`, `1h30m`, `1e-5` and `400G` are read as what they say."""
    done = call_tool(TOOL, "checkpoint", "--device_mtbf", "1000d", "--restart_seconds", "1h30m")
    assert "device_mtbf 1000 days, " in done.stderr
    assert "restart_seconds 90.00 min" in done.stderr
    done = call_tool(TOOL, "all-reduce", "--latency", "5e-6", "--bandwidth", "400G")
    assert "bandwidth 400.0 GB/s, latency 5.000 µs" in done.stderr


def test_json_goes_where_its_path_leads(call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """A symbolic link is followed and stays one; a device is written to and stays a device."""
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to("real.json")
    done = call_tool(TOOL, "memory", "--json", str(tmp_path / "link.json"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "link.json").is_symlink()
    assert json.loads((tmp_path / "real.json").read_text())["complete"] is True
    os.mkfifo(tmp_path / "pipe")
    reader = subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.PIPE)
    done = call_tool(TOOL, "memory", "--json", str(tmp_path / "pipe"))
    text, _ = reader.communicate(timeout=60)
    assert json.loads(text)["complete"] is True
    assert (tmp_path / "pipe").is_fifo()
