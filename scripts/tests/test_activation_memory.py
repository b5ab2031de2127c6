"""activation_memory: the published formula by hand, and real layers against sums by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SMALL = ["--device", "cpu", "--hidden", "64", "--heads", "4", "--sequence", "16", "--batch", "2"]
TOKENS = 2 * 16
LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "hidden_act": "silu",
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
}  # fmt: skip
GPT2 = {
    "model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_inner": None,
    "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "resid_pdrop": 0.1,
}  # fmt: skip


@pytest.fixture(scope="module")
def memory(load_tool: Callable[[str], Any]) -> Any:
    return load_tool("training/activation_memory.py")


@pytest.fixture
def study(memory: Any, tmp_path: Path, read_json: Callable[[Path], Any]) -> Callable[..., Any]:
    """The JSON of a run with these options, which has to be good."""

    def run(*arguments: str, status: int = 0) -> Any:
        path = tmp_path / "out.json"
        assert memory.main([*SMALL, *arguments, "--json", str(path)]) == status
        return read_json(path)

    return run


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 8), st.integers(1, 4096), st.integers(1, 64), st.integers(1, 128))
def test_the_formula_is_that_of_the_paper(
    memory: Any, batch: int, sequence: int, heads: int, head_dim: int
) -> None:
    """For any sizes in 16 bit: s b h (34 + 5 a s / h)."""
    spec = memory.PRESETS["gpt"]._replace(hidden=heads * head_dim, heads=heads)
    expected = 34 * sequence * batch * spec.hidden + 5 * heads * sequence**2 * batch
    plain = memory.Variant("eager", "none", False)
    assert memory.count_formula(spec, (batch, sequence, 2), plain) == expected


@pytest.mark.parametrize(
    ("attention", "recompute", "copies"),
    [("eager", "none", 57), ("eager", "selective", 17), ("sdpa", "none", 17), ("sdpa", "full", 1)],
)
def test_gpt3_by_hand(memory: Any, attention: str, recompute: str, copies: int) -> None:
    """s = 2048: 57 copies with the matrices, 17 without, 1 where all is recomputed."""
    spec = memory.PRESETS["gpt"]._replace(hidden=12288, heads=96)
    variant = memory.Variant(attention, recompute, False)
    assert memory.count_formula(spec, (1, 2048, 2), variant) == copies * 2048 * 12288 * 2


@pytest.mark.torch
def test_a_gpt_layer_is_the_formula_but_for_masks(study: Callable[..., Any]) -> None:
    """On a CPU masks have two bytes instead of one, and LayerNorm keeps two numbers per token."""
    [row] = study("--layer", "gpt", "--attention", "eager")["results"]
    matrix = 4 * 16 * 16 * 2
    statistics = 2 * 2 * TOKENS * 2
    assert row["saved_bytes"] == row["formula_bytes"] + 2 * TOKENS * 64 + matrix + statistics


@pytest.mark.torch
def test_a_llama_layer_in_copies_by_hand(study: Callable[..., Any]) -> None:
    """sdpa, half the k and v heads, MLP of 3 x hidden: norms 1 (a LayerNorm here), q k v 1, kernel
    q 1, k and v 1, output 1, MLP 1 + 9 + 3 and the norm's input 1: 19 copies and some numbers."""
    more = ["--kv-heads", "2", "--intermediate", "192", "--norm", "layer", "--dtype", "float32"]
    [row] = study(*more)["results"]
    small = 4 * (4 * TOKENS + 4 * TOKENS)  # each LayerNorm two numbers, the kernel one per head
    assert row["saved_bytes"] == 19 * 4 * TOKENS * 64 + small
    assert row["verdict"] == "ok"


@pytest.mark.torch
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_recomputation_keeps_less_and_gives_the_same_gradients(
    study: Callable[..., Any], attention: str
) -> None:
    """Full recomputation keeps the input, selective q, k and v instead of the matrices."""
    ways = ["--attention", attention, "--recompute", "none", "selective", "full"]
    document = study("--layer", "gpt", *ways, "--dtype", "float32")
    none, selective, full = document["results"]
    assert full["copies"] == 1.0
    if attention == "eager":
        matrices = 3 * 4 * (4 * 16 * 16 * 2)  # softmax, mask and dropped shares, in float32
        assert none["saved_bytes"] - selective["saved_bytes"] == matrices
    assert all(row["gradient_ok"] and row["repeats"] for row in document["results"])
    parts = document["details"]["operations"]
    sizes = {(p["recompute"], p["operation"]): p["bytes"] for p in parts}
    assert sizes["full", "layer input"] == 4 * TOKENS * 64
    assert sizes["selective", "attention input"] == 3 * 4 * TOKENS * 64
    for row in document["results"]:
        own = [p["bytes"] for p in parts if p["recompute"] == row["recompute"]]
        assert sum(own) == row["saved_bytes"]


@pytest.mark.torch
def test_autocast_keeps_weights_in_two_precisions(study: Callable[..., Any]) -> None:
    """All seven matrices of a Llama-like layer are kept again in bfloat16, apart from the rest."""
    document = study("--intermediate", "192", "--autocast", "on")
    [row] = document["results"]
    assert row["weight_copy_bytes"] == 2 * (4 * 64 * 64 + 3 * 64 * 192)
    assert {p["dtype"] for p in document["details"]["operations"]} == {"float32", "bfloat16"}


@pytest.mark.torch
def test_rmsnorm_by_hand_keeps_float32_and_the_cast(study: Callable[..., Any]) -> None:
    """Of bfloat16 hidden states RMSNorm by hand keeps 4 + 2 bytes a number, and a root a token."""
    parts = study("--norm", "rms_float32")["details"]["operations"]
    sizes = {p["dtype"]: p["bytes"] for p in parts if p["operation"] == "norm 1"}
    assert sizes == {"float32": 4 * TOKENS * 64 + 4 * TOKENS, "bfloat16": 2 * TOKENS * 64}


@pytest.mark.torch
def test_sdpa_without_a_fused_kernel_is_told(study: Callable[..., Any]) -> None:
    """On a CPU sdpa with dropout keeps more than eager; without dropout there is a kernel."""
    ways = ["--layer", "gpt", "--sequence", "128", "--attention", "eager", "sdpa"]
    [note] = study(*ways)["caveats"]
    assert note.startswith("no fused kernel here: sdpa keeps")
    assert study(*ways, "--dropout", "0")["caveats"] == []


@pytest.mark.torch
def test_a_wrong_recomputation_is_found(
    memory: Any, monkeypatch: pytest.MonkeyPatch, study: Callable[..., Any]
) -> None:
    """One whose gradient is off."""
    usual = memory.Layer.checkpoint
    monkeypatch.setattr(memory.Layer, "checkpoint", lambda *given: usual(*given) * 1.01)
    document = study("--recompute", "none", "full", status=1)
    assert [row["verdict"] for row in document["results"]] == ["ok", "WRONG GRADIENT"]


@pytest.mark.torch
def test_a_layer_that_does_not_fit_leaves_the_others(
    memory: Any, monkeypatch: pytest.MonkeyPatch, study: Callable[..., Any]
) -> None:
    """Said in one line, with what to try."""
    usual = memory.Layer.run

    def run(layer: Any, variant: Any, x: Any) -> Any:
        if variant.attention == "eager":
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return usual(layer, variant, x)

    monkeypatch.setattr(memory.Layer, "run", run)
    document = study("--attention", "eager", "sdpa", status=1)
    assert [row["attention"] for row in document["results"]] == ["sdpa"]
    note = "eager, recompute none: does not fit into memory; use a smaller --sequence"
    assert document["caveats"] == [note]
    assert document["complete"] is False


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, "ok"),
        ({"gradient_ok": False, "repeats": False}, "WRONG GRADIENT"),
        ({"repeats": False}, "not repeatable"),
        ({"allocated_bytes": 1010}, "ok"),
        ({"allocated_bytes": 1200}, "allocator differs"),
        ({"allocated_bytes": 1200, "weight_copy_bytes": 200}, "ok"),
    ],
)
def test_verdicts(memory: Any, change: dict[str, Any], verdict: str) -> None:
    """The worst that applies; copies of weights are the allocator's too."""
    row = {"gradient_ok": True, "repeats": True, "allocated_bytes": None}
    row |= {"saved_bytes": 1000, "weight_copy_bytes": 0}
    assert memory.judge({**row, **change}) == verdict


def write_config(tmp_path: Path, config: Any) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return str(path)


def test_configs_of_known_families(memory: Any, tmp_path: Path) -> None:
    """Sizes and parts of a Llama, a GPT-2, a Qwen3 and a model whose text part is nested."""

    def read(config: Any) -> Any:
        path = write_config(tmp_path, config)
        return memory.choose_spec(memory.build_parser().parse_args(["--config", path]))

    llama = read(LLAMA)
    assert llama == memory.Spec(4096, 32, 8, 128, 14336, 32, "rms", True, True, False, False, 0.0)
    gpt2 = read(GPT2)
    assert gpt2 == memory.Spec(768, 12, 12, 64, 3072, 12, "layer", False, False, True, False, 0.1)
    qwen3 = read({**LLAMA, "model_type": "qwen3", "hidden_size": 2560, "head_dim": 128})
    assert (qwen3.qk_norm, qwen3.head_dim, qwen3.hidden) == (True, 128, 2560)
    assert read({"model_type": "x", "text_config": LLAMA}) == llama


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_local_experts": 8}, "num_local_experts is set"),
        ({"kv_lora_rank": 512}, "only dense decoder layers"),
        ({"hidden_size": None}, "lacks hidden_size"),
        ({"num_key_value_heads": 7}, "cannot share 7"),
        ({"head_dim": 33}, "need an even head size"),
    ],
)
def test_a_config_that_is_not_here_is_refused(
    memory: Any, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    """Experts, latent attention and encoders have other layers, and are not guessed at."""
    with pytest.raises(memory.UsageError, match=message):
        memory.main(["--config", write_config(tmp_path, {**LLAMA, **change})])
