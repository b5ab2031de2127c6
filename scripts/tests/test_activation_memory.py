"""activation_memory: the published formula by hand, and real layers against sums by hand."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "training/activation_memory.py"

SMALL = ["--device", "cpu", "--hidden", "64", "--heads", "4", "--sequence", "16", "--batch", "2"]


@pytest.fixture(scope="module")
def memory(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


def make_gpt(memory: Any, hidden: int, heads: int) -> Any:
    """A plain GPT layer."""
    sizes = (hidden, heads, heads, hidden // heads, 4 * hidden, None)
    return memory.Spec(*sizes, "layer", False, False, True, False, 0.1)


def study(memory: Any, *arguments: str) -> Any:
    """What the tool finds out with these options."""
    options = memory.build_parser().parse_args(list(arguments))
    memory.check_options(options)
    return memory.study_variants(options, memory.StopSign())


def test_gpt3_by_hand(memory: Any) -> None:
    """GPT-3, s = 2048: 5 a s / h is 80 (Korthikanti et al. 2022), so 114 s b h bytes a layer."""
    spec = make_gpt(memory, 12288, 96)
    plain = memory.Variant("eager", "none", False)
    size = memory.count_formula_total(spec, (1, 2048, 2), plain)
    assert size == 114 * 2048 * 12288 == 2868903936
    assert memory.format_memory(2868903936) == "2.67 GiB"


def test_parts_of_the_formula_by_hand(memory: Any) -> None:
    """Attention 11 s b h and 5 a s^2 b, MLP 19 s b h, two LayerNorms 4 s b h."""
    spec = make_gpt(memory, 64, 4)
    unit, matrix = 2 * 16 * 64, 4 * 16 * 16 * 2
    plain = memory.Variant("eager", "none", False)

    def count(*names: str) -> int:
        return sum(memory.count_formula_bytes(name, spec, (2, 16, 2), plain) for name in names)

    attention = ["q k v projections", *memory.FUSED, "output projection", "output dropout"]
    assert count(*attention) == 11 * unit + 5 * matrix
    assert count("MLP projections", "MLP activation", "MLP output", "MLP dropout") == 19 * unit
    assert count("norm 1", "norm 2") == 4 * unit


@given(st.integers(1, 8), st.integers(1, 4096), st.integers(1, 64), st.integers(1, 128))
def test_the_formula_is_that_of_the_paper(
    memory: Any, batch: int, sequence: int, heads: int, head_dim: int
) -> None:
    """For any sizes in 16 bit: s b h (34 + 5 a s / h)."""
    spec = make_gpt(memory, heads * head_dim, heads)
    expected = 34 * sequence * batch * spec.hidden + 5 * heads * sequence**2 * batch
    plain = memory.Variant("eager", "none", False)
    assert memory.count_formula_total(spec, (batch, sequence, 2), plain) == expected


@pytest.mark.parametrize(
    ("attention", "recompute", "copies"),
    [
        ("eager", "none", 57.0),
        ("eager", "selective", 17.0),
        ("eager", "full", 1.0),
        ("sdpa", "none", 17.0),
        ("sdpa", "selective", 17.0),
        ("sdpa", "full", 1.0),
    ],
)
def test_the_formula_of_each_variant(
    memory: Any, attention: str, recompute: str, copies: float
) -> None:
    """Of GPT-3, s = 2048: 57 copies with the matrices, 17 without, 1 where all is recomputed."""
    variant = memory.Variant(attention, recompute, False)
    size = memory.count_formula_total(make_gpt(memory, 12288, 96), (1, 2048, 2), variant)
    assert size / (2048 * 12288 * 2) == copies


@pytest.mark.torch
def test_a_gpt_layer_is_the_formula_but_for_what_is_told(memory: Any) -> None:
    """On a CPU masks have two bytes instead of one and LayerNorm keeps two numbers a token."""
    found = study(memory, "--layer", "gpt", *SMALL, "--attention", "eager")
    [row] = found.rows
    tokens, matrix = 2 * 16, 4 * 16 * 16 * 2
    statistics = 2 * 2 * tokens * 2
    assert row["saved_bytes"] == row["formula_bytes"] + (2 * tokens * 64 + matrix) + statistics
    reasons = {p["operation"]: p["why"] for p in found.breakdowns[0]["operations"] if p["why"]}
    # The sizes are so small that the numbers of LayerNorm are three copies in a hundred.
    masks = {name: why for name, why in reasons.items() if "dropout" in name}
    assert masks == dict.fromkeys(
        ("attention dropout", "output dropout", "MLP dropout"),
        "mask in the data type, not in bytes",
    )


@pytest.mark.torch
def test_a_llama_layer_in_copies_by_hand(memory: Any) -> None:
    """sdpa, half the k and v heads, MLP of 3 x hidden: norms 1 (a LayerNorm here), q k v 1, kernel
    q 1, k and v 1, output 1, MLP 1 + 9 + 3 and the norm's input 1: 19 copies and some numbers."""
    spec = ["--kv_heads", "2", "--intermediate", "192", "--norm", "layer", "--dtype", "float32"]
    [row] = study(memory, *SMALL, *spec).rows
    tokens = 2 * 16
    small = 4 * (4 * tokens + 4 * tokens)  # each LayerNorm two numbers, the kernel one a head
    assert row["saved_bytes"] == 19 * 4 * tokens * 64 + small
    assert row["verdict"] == "ok"


@pytest.mark.torch
def test_recomputation_keeps_less_and_gives_the_same_gradients(memory: Any) -> None:
    """Full recomputation keeps one copy, selective leaves out the matrices; gradients agree."""
    ways = ["--attention", "eager", "--recompute", "none", "selective", "full"]
    found = study(memory, "--layer", "gpt", *SMALL, *ways, "--dtype", "float32")
    none, selective, full = found.rows
    assert full["copies"] == 1.0
    matrices = 3 * 4 * (4 * 16 * 16 * 2)  # softmax, mask and dropped shares, in float32
    assert none["saved_bytes"] - selective["saved_bytes"] == matrices
    assert all(row["gradient_ok"] and row["repeats"] for row in found.rows)
    assert none["gradient_error"] == 0.0


@pytest.mark.torch
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_what_recomputation_keeps_has_its_place_in_the_breakdown(
    memory: Any, attention: str
) -> None:
    """Full recomputation keeps the layer's input and nothing else; selective q, k and v, at the
    operation where the attention begins."""
    ways = ["--attention", attention, "--recompute", "full", "selective"]
    full, selective = study(memory, "--layer", "gpt", *SMALL, *ways).breakdowns
    assert [(p["operation"], p["copies"]) for p in full["operations"]] == [("layer input", 1.0)]
    copies = {part["operation"]: part["copies"] for part in selective["operations"]}
    assert copies["scores" if attention == "eager" else "attention kernel"] == 3.0
    assert copies.get("context", 0.0) == 0.0


@pytest.mark.torch
def test_both_ways_of_torch_to_recompute_keep_the_same(memory: Any) -> None:
    """What the tool uses and use_reentrant=False both keep the input and nothing else."""
    torch = pytest.importorskip("torch")
    from torch.utils.checkpoint import checkpoint

    x = torch.randn(4, 64, requires_grad=True)
    for is_reentrant in (True, False):
        ears = memory.SavedTensors(torch, [], [], memory.StopSign())
        with ears.listen():
            checkpoint(lambda y: y.sin().exp().tanh(), x, use_reentrant=is_reentrant)
        assert [saving.size for saving in ears.list_activations()] == [4 * 64 * 4]


@pytest.mark.torch
def test_autocast_keeps_weights_in_two_precisions(memory: Any) -> None:
    """All seven matrices of a Llama-like layer are kept again in bfloat16, apart from the rest."""
    found = study(memory, *SMALL, "--intermediate", "192", "--autocast", "on")
    [row] = found.rows
    assert row["weight_copy_bytes"] == 2 * (4 * 64 * 64 + 3 * 64 * 192)
    assert set(found.breakdowns[0]["by_dtype"]) == {"float32", "bfloat16"}


@pytest.mark.torch
def test_rmsnorm_by_hand_keeps_float32_and_the_cast(memory: Any) -> None:
    """Of bfloat16 hidden states RMSNorm by hand keeps 4 + 2 bytes a number, and a root a token."""
    found = study(memory, *SMALL, "--norm", "rms_float32")
    part = found.breakdowns[0]["operations"][0]
    tokens = 2 * 16
    assert part["operation"] == "norm 1"
    assert part["by_dtype"] == {
        "float32": 4 * tokens * 64 + 4 * tokens,
        "bfloat16": 2 * tokens * 64,
    }
    assert part["why"] == "float32 values and the cast are kept"


@pytest.mark.torch
def test_operations_and_types_add_up(memory: Any) -> None:
    """The breakdown by operation and that by data type both make up the whole."""
    ways = ["--attention", "eager", "sdpa", "--recompute", "none", "selective", "full"]
    found = study(memory, *SMALL, *ways, "--qk_norm", "--dropout", "0.1")
    assert len(found.rows) == 6
    for row, breakdown in zip(found.rows, found.breakdowns, strict=True):
        parts = breakdown["operations"]
        assert sum(part["bytes"] for part in parts) == row["saved_bytes"]
        assert sum(breakdown["by_dtype"].values()) == row["saved_bytes"]
        assert sum(part["formula_bytes"] for part in parts) == row["formula_bytes"]


@pytest.mark.torch
def test_sdpa_without_a_fused_kernel_is_told(memory: Any) -> None:
    """On a CPU sdpa with dropout keeps more than eager: a caveat says so, and why; without dropout
    there is a kernel, and none."""
    ways = ["--layer", "gpt", *SMALL, "--sequence", "128", "--attention", "eager", "sdpa"]
    found = study(memory, *ways)
    eager, sdpa = found.rows
    assert sdpa["saved_bytes"] > eager["saved_bytes"]
    [caveat] = found.caveats
    assert caveat.startswith("sdpa, recompute none: torch has no fused kernel for this layer here")
    assert "keeps more than eager" in caveat
    assert study(memory, *ways, "--dropout", "0").caveats == []


class StopAfter:
    """A sign that says stop when it was looked at so often."""

    def __init__(self, memory: Any, looks: int) -> None:
        self.stopped = memory.Stopped("stopped by a test")
        self.left = looks

    def check(self) -> None:
        """Raise Stopped at the last look."""
        self.left -= 1
        if self.left < 0:
            raise self.stopped


@pytest.mark.torch
def test_a_run_ends_between_any_two_operations(memory: Any) -> None:
    """Wherever a run ends, in forward, in backward, or in the second run, a variant that is half
    done is left out, and the study is not complete."""
    arguments = ["--layer", "gpt", *SMALL, "--attention", "eager", "--recompute", "none", "full"]
    options = memory.build_parser().parse_args(arguments)
    memory.check_options(options)
    counts = []
    for looks in range(1000):
        found = memory.study_variants(options, StopAfter(memory, looks))
        counts.append(len(found.rows))
        if found.complete:
            break
        assert found.caveats == [f"stopped by a test, after {counts[-1]} of 2 variants"]
    assert counts == sorted(counts)
    assert [counts.count(n) > 40 for n in (0, 1)] == [True, True]
    assert counts[-1] == 2


@pytest.mark.nightly
@pytest.mark.torch
def test_a_signal_is_heard_at_once_and_keeps_no_half_variant(
    read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """SIGTERM in the middle of a variant is told at once; the JSON is not complete, status 1."""
    path = tmp_path / "out.json"
    arguments = ["--device", "cpu", "--layer", "gpt", "--hidden", "2048", "--heads", "16"]
    arguments += ["--sequence", "2048", "--batch", "2", "--dtype", "float32"]
    process = subprocess.Popen(
        [sys.executable, str(SCRIPTS / TOOL), *arguments, "--json", str(path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        maps = Path(f"/proc/{process.pid}/maps")
        while "libtorch" not in maps.read_text():
            time.sleep(0.05)
        time.sleep(3)
        process.send_signal(signal.SIGTERM)
        line = process.stderr.readline()
        _, notes = process.communicate(timeout=120)
    finally:
        process.kill()
        process.wait()
    assert line.startswith("SIGTERM: the run stops"), line + notes
    assert process.returncode == 1, notes
    assert "Traceback" not in notes
    document = read_json(path)
    assert document["complete"] is False
    assert document["results"] == []
    assert document["caveats"] == ["stopped by SIGTERM, after 0 of 1 variants"]


@pytest.mark.torch
def test_a_wrong_gradient_is_found(memory: Any) -> None:
    """A gradient that is off, or not finite, is an error and no ok."""
    torch = pytest.importorskip("torch")
    right = torch.ones(8)
    assert memory.measure_gradient_error(torch, right, right) == 0.0
    assert memory.measure_gradient_error(torch, right * 1.5, right) == 0.5
    assert memory.measure_gradient_error(torch, right * float("nan"), right) == float("inf")


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        ({}, "ok"),
        ({"gradient_ok": False, "repeats": False}, "WRONG GRADIENT"),
        ({"repeats": False}, "not repeatable"),
        ({"allocated_bytes": 1010}, "ok"),
        ({"allocated_bytes": 1200}, "allocator differs"),
        ({"allocated_bytes": 1200, "weight_copy_bytes": 200}, "ok"),
    ],
)
def test_verdicts(memory: Any, row: dict[str, Any], verdict: str) -> None:
    """The worst that applies; copies of weights are the allocator's too."""
    whole = {"gradient_ok": True, "repeats": True, "allocated_bytes": None}
    whole |= {"saved_bytes": 1000, "weight_copy_bytes": 0}
    assert memory.choose_variant_verdict({**whole, **row}) == verdict


LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "hidden_act": "silu",
    "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32,
    "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
}  # fmt: skip
GPT2 = {
    "model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_inner": None,
    "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "resid_pdrop": 0.1,
}  # fmt: skip
QWEN3 = {**LLAMA, "model_type": "qwen3", "hidden_size": 2560, "head_dim": 128}


def test_configs_of_known_families(memory: Any) -> None:
    """Sizes and parts of a Llama, a GPT-2, a Qwen3 and a model whose text part is nested."""
    llama = memory.read_config_spec(LLAMA)
    assert llama == memory.Spec(4096, 32, 8, 128, 14336, 32, "rms", True, True, False, False, 0.0)
    gpt2 = memory.read_config_spec(GPT2)
    assert gpt2 == memory.Spec(768, 12, 12, 64, 3072, 12, "layer", False, False, True, False, 0.1)
    qwen3 = memory.read_config_spec(QWEN3)
    assert (qwen3.qk_norm, qwen3.head_dim, qwen3.hidden) == (True, 128, 2560)
    assert memory.read_config_spec({"model_type": "x", "text_config": LLAMA}) == llama


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_local_experts": 8}, "this model has experts"),
        ({"kv_lora_rank": 512}, "latent attention"),
        ({"is_encoder_decoder": True}, "an encoder and a decoder"),
        ({"hidden_size": None}, "are not both in it"),
        ({"num_key_value_heads": 7}, "cannot share 7"),
        ({"head_dim": 33}, "need an even head size"),
    ],
)
def test_a_config_that_is_not_here_is_refused(
    memory: Any, change: dict[str, Any], message: str
) -> None:
    """Experts, latent attention and encoders have other layers, and are not guessed at."""
    with pytest.raises(memory.WrongUse, match=message):
        memory.read_config_spec({**LLAMA, **change})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--config", "none.json"], "could not read none.json"),
        (["--config", "broken.json"], "is no JSON"),
        (["--config", "list.json"], "is no config"),
        (["--config", "list.json", "--layer", "gpt"], "leave --layer out"),
        (["--hidden", "100", "--heads", "3"], "no multiple of 3 heads"),
        (["--attention", "sdpa", "sdpa"], "names something twice"),
        (["--autocast", "on", "--dtype", "float32"], "has to be bfloat16 or float16"),
        (["--dropout", "1"], "below 1"),
        (["--sequence", "0"], "a whole number from 1"),
    ],
)
def test_wrong_use_is_told(
    tmp_path: Path,
    call_tool: Callable[..., Any],
    arguments: list[str],
    message: str,
) -> None:
    """What makes no sense ends with status 2 before torch is imported."""
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[1]")
    done = call_tool(TOOL, *arguments, without_torch=True, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.torch
def test_a_config_from_the_command_line(
    tmp_path: Path, call_tool: Callable[..., Any], read_json: Callable[[Path], Any]
) -> None:
    """A config's sizes reach the results, options change single ones, layers are multiplied."""
    config = {**LLAMA, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
    (tmp_path / "config.json").write_text(json.dumps({**config, "intermediate_size": 128}))
    done = call_tool(
        TOOL, "--config", str(tmp_path / "config.json"), "--device", "cpu", "--sequence", "8",
        "--kv_heads", "4", "--json", str(tmp_path / "out.json"),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document = read_json(tmp_path / "out.json")
    [row] = document["results"]
    assert (row["hidden"], row["kv_heads"], row["intermediate"]) == (64, 4, 128)
    assert row["all_layers_bytes"] == 32 * row["saved_bytes"]
    assert "config.json" in document["command"]
    assert "| All layers |" in done.stdout


@pytest.mark.torch
@pytest.mark.nightly
def test_a_layer_that_does_not_fit_is_a_problem_and_no_traceback(tmp_path: Path) -> None:
    """Out of memory is said in one line, with what to try, and keeps the other rows."""
    code = (
        "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30));"
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    arguments = ["--device", "cpu", "--hidden", "64", "--heads", "32", "--sequence", "12288"]
    done = subprocess.run(
        [sys.executable, "-c", code, str(SCRIPTS / TOOL), *arguments, "--attention", "eager"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "it did not fit into memory; try a lower --sequence" in done.stderr
    assert "Traceback" not in done.stderr
