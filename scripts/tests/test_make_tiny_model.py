"""make_tiny_model: models that a program can load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

TOOL = "debug/tiny/make_tiny_model.py"


@pytest.mark.torch
@pytest.mark.needs("python:transformers", "python:sentencepiece", "python:google.protobuf")
def test_models_are_kept_and_load(module: Any, call_tool: Any, tmp_path: Path) -> None:
    """A given SentencePiece file is shrunk, the model loads, and none is overwritten."""
    import sentencepiece

    source, out = tmp_path / "spiece.model", tmp_path / "models"
    with source.open("wb") as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(module.make_corpus(None)), model_writer=file, vocab_size=200,
            hard_vocab_limit=False, minloglevel=2, pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
        )  # fmt: skip
    arguments = ["--models", "t5", "--sentencepiece", str(source), "--vocabulary", "261"]
    arguments += ["--out", str(out)]
    done = call_tool(TOOL, *arguments)
    assert done.returncode == 0, done.stderr
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    AutoModelForSeq2SeqLM.from_pretrained(out / "t5-sentencepiece")
    tokenizer = AutoTokenizer.from_pretrained(out / "t5-sentencepiece")
    assert len(tokenizer) < 200
    with pytest.raises(module.UsageError, match="t5-sentencepiece exists already"):
        call_tool(TOOL, *arguments)


@pytest.mark.needs("python:sentencepiece", "python:google.protobuf")
def test_the_most_probable_pieces_stay(module: Any) -> None:
    """Of four words two; special pieces and characters are not touched."""
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    for piece, score, kind in (
        ("<unk>", 0, 2), ("a", -9, 1), ("ab", -3, 1), ("bc", -1, 1), ("cd", -2, 1), ("de", -4, 1)
    ):  # fmt: skip
        model.pieces.add(piece=piece, score=score, type=kind)
    shrunk = sentencepiece_model_pb2.ModelProto()
    shrunk.ParseFromString(module.shrink_sentencepiece(model.SerializeToString(), 4))
    assert [piece.piece for piece in shrunk.pieces] == ["<unk>", "a", "bc", "cd"]


@pytest.mark.torch
@pytest.mark.needs("python:transformers")
def test_broken_model_is_found(
    module: Any, monkeypatch: pytest.MonkeyPatch, call_tool: Any, tmp_path: Path
) -> None:
    """Weights that change while loading: the row says so, and the model is not kept."""
    load = module.load_model

    def damage(model: str, folder: Path) -> Any:
        loaded, processor = load(model, folder)
        loaded.transformer.wte.weight.data[0] += 1
        return loaded, processor

    monkeypatch.setattr(module, "load_model", damage)
    done = call_tool(TOOL, "--models", "gpt2", "--out", str(tmp_path / "models"))
    assert done.returncode == 1
    assert "logits differ after loading" in done.stdout
    assert not (tmp_path / "models").exists()
