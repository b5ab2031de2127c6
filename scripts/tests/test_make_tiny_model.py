"""make_tiny_model: models that a program can load, of the size that the formulas give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TOOL = "debug/tiny/make_tiny_model.py"


@pytest.fixture(scope="module")
def tiny(load_tool: Callable[[str], Any]) -> Any:
    return load_tool(TOOL)


def test_parameters_by_hand(tiny: Any) -> None:
    """V = 400, h = 16, L = 2, 2 heads, f = 32, P = 128."""
    sizes = tiny.Sizes(16, 2, 2)
    counts = {model: tiny.count_tiny_parameters(model, 400, sizes) for model in tiny.MODELS}
    assert counts == {
        "gpt2": 6400 + 2048 + 2 * (3072 + 208) + 32,
        "llama": 12800 + 2 * (512 + 256 + 1536 + 32) + 16,
        "t5": 6400 + 2 * (3072 + 2048 + 80) + 32 + 128,
        "llava": 17488 + 16 + 3072 + 80 + 2 * (1088 + 1024 + 32 + 16 + 64) + 64 + 544,
    }


@pytest.mark.torch
@pytest.mark.needs("python:transformers", "python:sentencepiece", "python:google.protobuf")
def test_models_are_kept_and_load(tiny: Any, call_tool: Callable[..., Any], tmp_path: Path) -> None:
    """A given SentencePiece file is shrunk, a model in bfloat16 loads, and none is overwritten."""
    source = tmp_path / "spiece.model"
    source.write_bytes(tiny.train_sentencepiece(tiny.make_corpus(None), 200))
    out = tmp_path / "models"
    arguments = ["--models", "t5", "--tokenizers", "sentencepiece", "unigram", "--out", str(out)]
    more = ["--sentencepiece", str(source), "--vocabulary", "60", "--dtype", "bfloat16"]
    done = call_tool(TOOL, *arguments, *more)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in out.iterdir()) == ["t5-sentencepiece", "t5-unigram"]
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model = AutoModelForSeq2SeqLM.from_pretrained(out / "t5-sentencepiece")
    tokenizer = AutoTokenizer.from_pretrained(out / "t5-sentencepiece")
    assert str(model.dtype) == "torch.bfloat16"
    assert len(tokenizer) == 60 + tiny.T5_EXTRA
    with pytest.raises(tiny.UsageError, match="t5-sentencepiece exists already"):
        call_tool(TOOL, *arguments, *more)


@pytest.mark.torch
@pytest.mark.needs("python:transformers")
def test_broken_model_is_found(
    tiny: Any, monkeypatch: pytest.MonkeyPatch, call_tool: Callable[..., Any], tmp_path: Path
) -> None:
    """Weights that change while loading: the row says so, and the model is not kept."""
    load = tiny.load_model

    def damage(model: str, folder: Path) -> Any:
        loaded, processor = load(model, folder)
        loaded.transformer.wte.weight.data[0] += 1
        return loaded, processor

    monkeypatch.setattr(tiny, "load_model", damage)
    done = call_tool(TOOL, "--models", "gpt2", "--out", str(tmp_path / "models"))
    assert done.returncode == 1
    assert "weights differ after loading; logits differ after loading" in done.stdout
    assert not any((tmp_path / "models").iterdir())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--hidden", "18", "--heads", "6"], "even number times --heads"),
        (["--vocabulary", "260"], "bpe needs at least 261 entries"),
        (["--models", "gpt2", "--tokenizers", "sentencepiece"], "goes with t5 only"),
        (["--sentencepiece", "x"], "goes with --tokenizers sentencepiece"),
        (["--corpus", "/none"], "--corpus: cannot read /none"),
    ],
)
def test_wrong_use(
    tiny: Any, call_tool: Callable[..., Any], arguments: list[str], words: str
) -> None:
    """Before anything is made."""
    with pytest.raises(tiny.UsageError, match=words):
        call_tool(TOOL, *arguments)


@pytest.mark.needs("python:sentencepiece", "python:google.protobuf")
def test_other_files_are_refused(tiny: Any) -> None:
    """As a SentencePiece model."""
    for data in (b"", b"not a model"):
        with pytest.raises(tiny.UsageError, match="not a SentencePiece model"):
            tiny.shrink_sentencepiece(data, 100)
