"""calculators: each formula against a case worked by hand, its laws, and how they compose."""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).resolve().parents[2] / "book" / "data"
TOOL = "training/calculators.py"


@pytest.fixture(scope="module")
def answer(module: Any) -> Any:
    """The outputs of a calculator for some inputs, with the defaults of all others."""
    by_name = {calculator.name: calculator for calculator in module.CALCULATORS}

    def ask(name: str, **inputs: Any) -> dict[str, Any]:
        return dict(module.calculate(by_name[name], inputs)[1])

    return ask


Answer = Callable[..., dict[str, Any]]


FLOP = 6 * 69_501_714_432 + 12 * 80 * 8192 * 8192
"""Per token, of Llama 3 70B."""
COPY = 2 * 8192 * 4096
"""Bytes of a hidden state of Llama 3.1 8B, in 16 bits, for 8192 tokens."""
BLOOM = {"parameters": 52e9, "recompute": "full", "peak": 312e12, "step_tokens": 2_097_152.0,
         "step_seconds": 127.0, "devices": 64}  # fmt: skip
GPT3 = {"layer_matmul_parameters": 12.0 * 96 * 12_288**2, "output_parameters": 51_200.0 * 12_288,
        "layers": 96, "attention_width": 12_288, "sequence": 2048, "recompute": "full"}  # fmt: skip

# fmt: off
WORKED = [
    # Llama 3.1 8B, a layer: attention 4096 * 128 * 2 * (32 + 8) = 41943040, MLP
    # 3 * 4096 * 14336 = 176160768, two norms 8192: together 218112000. 32 layers 6979584000,
    # embedding and output 2 * 128256 * 4096 = 1050673152, last norm 4096: 8030261248.
    ("parameters", {}, {"total_parameters": 8_030_261_248}),
    ("parameters", {"tied": True}, {"total_parameters": 8_030_261_248 - 128_256 * 4096}),
    # Mixtral 8x7B, a layer: attention 41943040, 8 experts of 176160768 = 1409286144, router
    # 4096 * 8 = 32768, norms 8192: 1451270144. 32 layers 46440644608, embedding and output
    # 2 * 32000 * 4096 = 262144000, last norm 4096: 46702792704. Of each layer 6 experts rest:
    # 32 * 6 * 176160768 = 33822867456 less leaves 12879925248.
    ("parameters", {"vocab": 32_000, "experts": 8, "active_experts": 2},
     {"total_parameters": 46_702_792_704, "active_parameters": 12_879_925_248}),
    # The ZeRO paper, 7.5e9 parameters on 64 ranks. Stage 0: 16 * 7.5 = 120. Stage 1:
    # 4 * 7.5 + 12 * 7.5 / 64 = 31.40625. Stage 2: 2 * 7.5 + 14 * 7.5 / 64 = 16.640625. Stage 3:
    # 120 / 64 = 1.875.
    *(("memory", {"parameters": 7.5e9, "zero_stage": stage}, {"rank_bytes": taken})
      for stage, taken in enumerate((120e9, 31.40625e9, 16.640625e9, 1.875e9))),
    # Weights + gradients + master weights + states.
    *(("memory", {"mode": mode}, {"bytes_per_parameter": taken}) for mode, taken in {
        "adamw-mixed": 2 + 2 + 4 + 8, "adamw-mixed-fp32-gradients": 2 + 4 + 4 + 8,
        "adamw-fp32": 4 + 4 + 0 + 8, "adamw-bf16": 2 + 2 + 0 + 4,
        "adamw-8bit-mixed": 2 + 2 + 4 + 2, "adamw-8bit-bf16": 2 + 2 + 0 + 2,
        "momentum-mixed": 2 + 2 + 4 + 4, "momentum-fp32": 4 + 4 + 0 + 4,
        "sgd-mixed": 2 + 2 + 4 + 0, "sgd-fp32": 4 + 4 + 0 + 0,
        # A matrix of 4096 x 4096 keeps 2 * 4096 numbers of 4 bytes: 32768 / 4096**2 = 1 / 512.
        "adafactor-mixed": 2 + 2 + 4 + 1 / 512,
    }.items()),
    # As autograd saves them in Transformers 5.23: norms 2 * (4 + 2 + 2) = 16 bytes per element,
    # query 2, key and value 2 * 0.5, output 2, SwiGLU 8 * 3.5 = 28: 49 bytes, 24.5 copies.
    ("activations", {"layer": "llama"},
     {"layer_bytes": 24.5 * COPY, "layers_bytes": 32 * 24.5 * COPY}),
    # Fused norms 8, fused SwiGLU 6 * 3.5 = 21: 34 bytes, 17 copies.
    ("activations", {"layer": "llama-fused"},
     {"layer_bytes": 17 * COPY, "layers_bytes": 32 * 17 * COPY}),
    # The outputs of the matmuls and of attention, and the input:
    # 2 + 2 + 2 * 0.5 + 2 + 2 + 14 + 2 = 25 bytes.
    *(("activations", {"layer": layer, "recompute": "selective"}, {"copies": 12.5})
      for layer in ("llama", "llama-fused")),
    ("activations", {"layer": "llama", "recompute": "full"},
     {"copies": 1, "recomputed_bytes": 24.5 * COPY}),
    ("activations", {"layer": "llama", "tensor_ranks": 8}, {"copies": 24.5 / 8}),
    # 2 * 32 layers * 8 heads * 128 * 2 bytes = 131072; DeepSeek-V3: 61 layers * (512 + 64) * 2.
    ("kv-cache", {}, {"token_bytes": 131_072}),
    ("kv-cache", {"attention": "mla", "layers": 61}, {"token_bytes": 70_272}),
    # Equation 3 of Narayanan et al., with L = 96, h = 12288, V = 51200, s = 2048: 96 L h**2 =
    # 1391569403904; s / (6 h) of it 38654705664; V / (16 L h) of it 3774873600. Without
    # recomputation 72 L h**2 = 1043677052928; s / (6 h) of it 28991029248; V / (12 L h) as before.
    ("flops", GPT3, {"hardware_flop": 1_391_569_403_904 + 38_654_705_664 + 3_774_873_600,
                     "model_flop": 1_043_677_052_928 + 28_991_029_248 + 3_774_873_600}),
    # 8 GB over 8 ranks at 280 GB/s: 14 GB sent in 0.05 s, and 14 steps of 10 microseconds.
    ("all-reduce", {}, {"sent_bytes": 8e9 * 2 * 7 / 8, "collective_seconds": 0.05 + 14e-5}),
    # 6 steps, log2(8) = 3 up and 3 down; the trees send all twice: 16e9 / 280e9.
    ("all-reduce", {"algorithm": "double-tree"}, {"collective_seconds": 16 / 280 + 6e-5}),
    # 10e9 parameters in 2 bytes over 64 ranks, without and with four micro-steps: stages 0 and 1
    # as before, 4 * 20 + 20 = 100, 4 * 60 = 240.
    *(("zero-traffic", {"parameters": 1e10, "zero_stage": stage, "accumulation": steps},
       {"traffic_bytes": sent * 63 / 64})
      for steps, all_sent in ((1, (40e9, 40e9, 40e9, 60e9)), (4, (40e9, 40e9, 100e9, 240e9)))
      for stage, sent in enumerate(all_sent)),
    ("bubble", {}, {"bubble_share": 7 / 39, "bubble_over_ideal": 7 / 32}),
    ("bubble", {"chunks": 2}, {"bubble_share": 7 / 71}),
    # 176e9 * 14 = 2.464e12; / 61.6e9 = 40 s. 2.88e7 / 400 = 72000 s.
    # Young: sqrt(2 * 40 * 72000) = sqrt(5760000) = 2400.
    # Daly: 40 / 144000 = 1 / 3600, its root 1 / 60: 2400 * (1 + 1/180 + 1/32400) - 40
    # = 2400 + 13.33333 + 0.07407 - 40 = 2373.40741.
    # wall / work: 72000 / 2373.40741 = 30.336132; exp(100 / 72000) = 1.0013899;
    # exp(2413.40741 / 72000) - 1 = 0.0340877; their product 1.035525, so 3.43 % are lost.
    ("checkpoint", {}, {"write_seconds": 40, "young_interval": 2400, "daly_interval": 2373.40741,
                        "lost_share": 0.03430617, "own_lost_share": 0.03430617}),
    # 72000 / 600 = 120; exp(640 / 72000) - 1 = 0.00892851; with 1.0013899 their product is
    # 1.0729102, so 6.80 % are lost.
    ("checkpoint", {"own_interval": 600.0}, {"own_lost_share": 0.0679559}),
    # 4.8e22 FLOP at 1000 devices x 1e15 x 0.4 x 0.96 take 125000 s: 34722.2 hours, * 2.88.
    ("run", {"peak": 1e15},
     {"run_seconds": 125_000, "gpu_hours": 125_000 / 3.6, "cost": 100_000}),
    ("batch", {}, {"global_batch": 8 * 32 * 4, "steps": math.ceil(1e12 / (1024 * 2048))}),
    # 16e9 + 131072 * 4096 * 16 = 24589934592; / 3.35e12 = 7.340279 ms; 16 / that = 2179.75.
    ("decode", {}, {"decode_tokens_per_second": 2179.754}),
    # 8 * 52e9 = 4.16e11; * 2097152 = 8.72415232e17; / 127 = 6.86941e15; / 64 = 1.07335e14.
    ("mfu", BLOOM, {"device_hardware_rate": 1.073346e14, "hfu": 1.073346 / 3.12,
                    "mfu": 1.073346 / 3.12 * 3 / 4}),
    # Llama 3 70B in matmuls: 80 * (8192 * 128 * 2 * 72 + 3 * 8192 * 28672) + 128256 * 8192 =
    # 69,501,714,432; attention 12 * 80 * 8192 * 8192.
    ("run", {"model": "llama-3-70b", "gpu": "h100", "devices": 256, "mfu": 0.5,
             "useful_share": 1.0},
     {"run_flop": FLOP * 1e12, "gpu_hours": FLOP * 1e12 / (989e12 * 0.5) / 3600}),
    # Of experts, those that a token uses. Without attention it is 6 N; what is given wins.
    ("run", {"model": "deepseek-v3"}, {"run_flop": 6 * 37e9 * 1e12}),
    ("run", {"model": "llama-3-70b", "model_flop": 1e9}, {"run_flop": 1e21}),
    # 256 GPUs with 8 ranks per model are 32 data-parallel ranks.
    ("memory", {"parameters": 70e9, "zero_stage": 3, "model_ranks": 8, "gpus": 256},
     {"rank_bytes": 16 * 70e9 / 256}),
    *(("number-format", {"exponent_bits": exponent, "mantissa_bits": mantissa, "special": special},
       {"largest": largest, "smallest_normal": normal, "smallest": smallest})
      for exponent, mantissa, special, largest, normal, smallest in (
          # (2 - 2**-10) * 2**15 = 65504; 2**-14; 2**-24.
          (5, 10, "ieee", 65504, 2.0**-14, 2.0**-24),
          (8, 23, "ieee", (2 - 2.0**-23) * 2.0**127, 2.0**-126, 2.0**-149),
          # Micikevicius et al., table 1: 57344 and 2**-16; 448 and 2**-9.
          (5, 2, "ieee", 57344, 2.0**-14, 2.0**-16),
          (4, 3, "fn", 448, 2.0**-6, 2.0**-9),
          # ml_dtypes: 240, with the bias larger by 1.
          (4, 3, "fnuz", 240, 2.0**-7, 2.0**-10),
          # OCP Microscaling Formats 1.0, section 5.3.
          (2, 1, "finite", 6, 1, 0.5))),
]
# fmt: on


@pytest.mark.parametrize(("name", "inputs", "expected"), WORKED)
def test_worked_cases(
    answer: Answer, name: str, inputs: dict[str, Any], expected: dict[str, float]
) -> None:
    """What the publications print, or the comments work out; other inputs are the defaults."""
    found = answer(name, **inputs)
    exact = {key: value for key, value in found.items() if key in expected}
    assert exact == pytest.approx(expected, rel=1e-6, abs=0)


def read_data(name: str, key: str, **chosen: str) -> dict[str, dict[str, str]]:
    """A table of the book's data by its first column."""
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {row[key]: row for row in rows if chosen.items() <= row.items()}


def test_accelerators_are_those_of_the_book(module: Any) -> None:
    """Peak, memory and bandwidth."""
    rates = read_data("accelerator_tflops.csv", "accelerator", dtype="bf16")
    memories = read_data("accelerator_memory.csv", "accelerator")
    for name, tflops, memory, bandwidth in module.ACCELERATORS.values():
        assert float(rates[name]["tflops"]) == tflops
        assert float(memories[name]["memory"]) == memory
        assert float(memories[name]["bandwidth"]) == bandwidth


def test_models_are_those_of_the_book(module: Any, answer: Answer) -> None:
    """Layers and heads; and the shape has as many parameters as the model is said to have."""
    shapes = read_data("model_shapes.csv", "model")
    for model, (name, *values) in module.MODELS.items():
        shape = dict(zip(module.SHAPE, values, strict=True))
        for column in ("layers", "heads", "kv_heads", "head_size"):
            assert int(shapes[name][column]) == shape[column]
        total = answer("parameters", model=model)["total_parameters"] / 1e9
        stated = shapes[name]["parameters"]
        assert f"{total:.{len(stated.partition('.')[2])}f}" == stated, model
    for name, parameters, active in module.EXPERTS.values():
        assert float(shapes[name]["parameters"]) * 1e9 == parameters
        assert float(shapes[name]["active"]) * 1e9 == active


def test_memory_is_compared_with_the_accelerator(call_tool: Any) -> None:
    """16 * 8.03e9 / 64 bytes are 2.34 % of 80 GiB."""
    arguments = ["--model", "llama-3-8b", "--gpus", "64", "--gpu", "h100", "--zero_stage", "3"]
    last = call_tool(TOOL, "memory", *arguments).stdout.splitlines()[-1]
    assert [cell.strip() for cell in last.split("|")[1:3]] == [
        "share of the GPU's memory",
        "2.34 %",
    ]


def test_the_answer_says_where_inputs_come_from(call_json: Any) -> None:
    """One line for the defaults; GPU-hours with commas; several values are columns; the JSON has
    base units."""
    arguments = ["--model", "llama-3-70b", "--gpu", "h100", "--gpus", "256", "512"]
    done = call_json(TOOL, "run", *arguments, "--tokens", "1T")
    assert done.returncode == 0, done.stderr
    lines = [[cell.strip() for cell in line.split("|")] for line in done.stdout.splitlines()]
    assert lines[0][1:4] == ["Time and cost of a run", "devices 256", "devices 512"]
    assert lines[4][1:4] == ["GPU-hours", "352,134", "352,134"]
    first, second = done.stderr.splitlines()
    assert first.startswith("defaults used: mfu 0.4, useful_share 0.96, device_hour_price 2.88")
    assert first.endswith("sequence 8,192, causal no")
    assert second.startswith("source: ")
    assert [row["devices"] for row in done.document["results"]] == [256, 512]
    assert done.document["results"][0]["peak"] == 989e12
    assert done.document["units"]["run_seconds"] == "s"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a calculator: parameters, memory"),
        (["memory", "--parameters", "1e30"], "1e+30: this has to be from 1e+06 to 1e+14"),
        (["parameters", "--kv-heads", "7"], "heads is a multiple of kv_heads"),
        (["mfu", "--peak", "1T"], "more than the peak of all devices"),
        (["bubble", "--micro-batches", "3", "--chunks", "2"], "to be a multiple of stages"),
        (["checkpoint", "--own-interval", "100d", "--devices", "10000"], "fails far more often"),
        (["memory", "--gpus", "256", "--model-ranks", "3"], "this has to be a whole number"),
    ],
)
def test_inputs_that_make_no_sense(module: Any, arguments: list[str], message: str) -> None:
    """The error says what would."""
    with pytest.raises(module.UsageError) as caught:
        module.main(arguments)
    assert message in str(caught.value)


def test_help_shows_the_function(module: Any, capsys: Any) -> None:
    """With the formula and its source."""
    with pytest.raises(SystemExit):
        module.main(["checkpoint", "--help"])
    out = capsys.readouterr().out
    assert "interval = choose_daly_interval(write, mtbf)" in out
    assert "Source: Young 1974" in out


@pytest.mark.parametrize(
    ("text", "value"),
    [("7.5e9", 7.5e9), ("7.5G", 7.5e9), ("7.5GB", 7.5e9), ("80Gi", 80 * 2**30),
     (" 80GiB ", 80 * 2**30), ("400k", 4e5)],
)  # fmt: skip
def test_quantities(module: Any, text: str, value: float) -> None:
    """Decimal prefixes, and binary ones with an i."""
    assert module.parse_quantity(text) == value


def test_seconds_and_switches(module: Any) -> None:
    """Plain numbers, zero too, and durations; 8B could be 8 bytes or 8 billion."""
    with pytest.raises(argparse.ArgumentTypeError, match="is not a number"):
        module.parse_quantity("8B")
    assert [module.parse_seconds(text) for text in ("0", "5e-6", "1h30m", "30d")] == [
        0, 5e-6, 5400, 2_592_000,
    ]  # fmt: skip
    assert [module.yes_or_no(text) for text in ("yes", "no")] == [True, False]
    with pytest.raises(ValueError, match="not in"):
        module.yes_or_no("maybe")


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (120e9, "B", "120.0 GB (111.8 GiB)"),
        (4e11, "B/s", "400.0 GB/s"),
        (0.0, "B", "0 B"),
        (352_133.6, "1", "352,134"),
        (70_553_706_496, "1", "70,553,706,496"),
        (3.3895313892515355e38, "1", "3.39e+38"),
        (5_425_347.5, "1/s", "5.425 M/s"),
        (4_951_878.7, "s", "57.31 days"),
        (90.0, "s", "1.500 min"),
        (5e-6, "s", "5.000 µs"),
        (True, "1", "yes"),
        ("ring", "1", "ring"),
    ],
)
def test_values_as_people_read_them(module: Any, value: object, unit: str, text: str) -> None:
    """Four digits, prefixes for units, commas in counts, what an electricity bill has."""
    assert module.format_quantity(value, unit) == text
