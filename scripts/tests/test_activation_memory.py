"""activation_memory: the published formula by hand, and real layers against sums by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

TOOL = "training/activation_memory.py"

SMALL = ["--device", "cpu", "--hidden", "64", "--heads", "4", "--sequence", "16", "--batch", "2"]
TOKENS = 2 * 16
LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "hidden_act": "silu",
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
}  # fmt: skip


@pytest.fixture
def study(call_json: Any) -> Any:
    """The JSON of a run with these options."""
    return lambda *arguments: call_json(TOOL, *SMALL, *arguments).document


@pytest.mark.torch
def test_a_llama_layer_in_copies_by_hand(study: Any, tmp_path: Path) -> None:
    """sdpa, half the k and v heads, MLP of 3 x hidden: the input of q k v 1, kernel q 1, k and v 1,
    output 1, MLP's input 1, 9 and 3: 17 copies beside the two norms, and a number per head."""
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    path = write_config(tmp_path, {**LLAMA, **sizes, "intermediate_size": 192})
    document = study("--config", path, "--dtype", "float32")
    [row], [parts] = document["results"], document["details"]["operations"]
    norms = sum(part["bytes"] for part in parts if part["operation"].startswith("norm"))
    assert row["saved_bytes"] == norms + 17 * 4 * TOKENS * 64 + 4 * 4 * TOKENS
    assert row["verdict"] == "ok"


@pytest.mark.torch
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_recomputation_keeps_less_and_gives_the_same_gradients(study: Any, attention: str) -> None:
    """Full recomputation keeps the input, selective q, k and v instead of the matrices."""
    ways = ["--attention", attention, "--recompute", "none", "selective", "full"]
    document = study(*ways, "--dtype", "float32")
    none, selective, full = document["results"]
    assert full["copies"] == 1.0
    if attention == "eager":
        assert none["saved_bytes"] - selective["saved_bytes"] == 4 * (2 * 4 * 16 * 16)  # shares
    assert all(row["verdict"] == "ok" for row in document["results"])
    parts = document["details"]["operations"]
    assert parts[2] == [{"operation": "layer input", "dtype": "float32", "bytes": 4 * TOKENS * 64}]
    sizes = {part["operation"]: part["bytes"] for part in parts[1]}
    assert sizes["attention input"] == 3 * 4 * TOKENS * 64
    for row, own in zip(document["results"], parts, strict=True):
        assert sum(part["bytes"] for part in own) == row["saved_bytes"]


@pytest.mark.torch
def test_autocast_keeps_weights_in_two_precisions(study: Any) -> None:
    """All seven matrices of a Llama-like layer are kept again in bfloat16, apart from the rest."""
    document = study("--autocast", "on")
    [row] = document["results"]
    assert row["weight_copy_bytes"] == 2 * (4 * 64 * 64 + 3 * 64 * 192)
    assert {p["dtype"] for p in document["details"]["operations"][0]} == {"float32", "bfloat16"}


@pytest.mark.torch
def test_a_wrong_recomputation_is_found(
    module: Any, monkeypatch: pytest.MonkeyPatch, study: Any
) -> None:
    """One whose gradient is off."""
    usual = module.Layer.checkpoint
    monkeypatch.setattr(module.Layer, "checkpoint", lambda *given: usual(*given) * 1.01)
    document = study("--recompute", "none", "full")
    assert [row["verdict"] for row in document["results"]] == ["ok", "WRONG GRADIENT"]


def write_config(tmp_path: Path, config: Any) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return str(path)


def test_configs_of_known_families(module: Any, tmp_path: Path) -> None:
    """Sizes of a Llama, and of a model whose text part is nested."""
    llama = module.Spec(4096, 32, 8, 128, 14336)
    assert module.read_spec(write_config(tmp_path, LLAMA)) == llama
    assert module.read_spec(write_config(tmp_path, {"text_config": LLAMA})) == llama
    other = {**LLAMA, "head_dim": 64, "num_key_value_heads": None}
    assert module.read_spec(write_config(tmp_path, other))[2:4] == (32, 64)


def test_a_config_that_is_not_here_is_refused(module: Any, tmp_path: Path) -> None:
    """Experts, latent attention and encoders have other layers, and are not guessed at."""
    path = write_config(tmp_path, {**LLAMA, "num_local_experts": 8})
    with pytest.raises(module.UsageError, match="num_local_experts is set"):
        module.main(["--config", path])
