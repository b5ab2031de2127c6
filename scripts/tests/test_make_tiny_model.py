"""make_tiny_model: models that are saved, loaded and run by transformers itself, offline."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "debug/tiny/make_tiny_model.py"

pytestmark = [pytest.mark.torch]

# What a reader's program does with the folders, without this tool.
USE = """
import os, sys
os.environ["HF_HUB_OFFLINE"] = "1"
import transformers as tf
from PIL import Image
folder = sys.argv[1]
for name in sorted(os.listdir(folder)):
    path = os.path.join(folder, name)
    if name.startswith("llava"):
        model = tf.AutoModelForImageTextToText.from_pretrained(path)
        words = tf.AutoProcessor.from_pretrained(path)
        image = Image.new("RGB", (40, 30), (200, 10, 10))
        inputs = words(images=[image], text=["<image>two dogs"], return_tensors="pt")
    else:
        kind = tf.AutoModelForSeq2SeqLM if name.startswith("t5") else tf.AutoModelForCausalLM
        model = kind.from_pretrained(path)
        words = tf.AutoTokenizer.from_pretrained(path)
        inputs = words(["two dogs"], return_tensors="pt")
    inputs.pop("token_type_ids", None)
    made = model.generate(**inputs, min_new_tokens=3, max_new_tokens=3, do_sample=False)
    print(name, type(model).__name__, model.dtype, made.shape[0])
"""


# The snippet of the chapter on the default configurations of current models.
SHRINK = """
import os, sys
os.environ["HF_HUB_OFFLINE"] = "1"
import torch
import transformers as tf
text = open(sys.argv[1], encoding="utf-8").read()
block = next(b for b in text.split("```python")[1:] if "get_text_config" in b).split("```")[0]
for name in sys.argv[2:]:
    getattr(tf, name)().save_pretrained(name)
    exec(block.replace('"your/model"', repr(name)), {})
    model = tf.AutoModelForCausalLM.from_pretrained("tiny")
    tokens = torch.randint(3, 1000, (1, 16))
    loss = model(tokens, labels=tokens).loss.item()
    kinds = getattr(model.config, "layer_types", None) or []
    print("made", name, model.num_parameters(), len(set(kinds)), 6 < loss < 8)
"""


@pytest.fixture(scope="module")
def tiny(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    return load_tool(TOOL)


@pytest.fixture(scope="module")
def pieces(tiny: Any) -> bytes:
    """A SentencePiece model with characters and words."""
    pytest.importorskip("sentencepiece")
    return tiny.train_sentencepiece(tiny.make_corpus(), 200)


def read_pieces(data: bytes) -> list[tuple[str, float, int]]:
    """Text, score and type of all pieces."""
    from sentencepiece import sentencepiece_model_pb2 as format_of_model

    model = format_of_model.ModelProto()
    model.ParseFromString(data)
    return [(piece.piece, piece.score, piece.type) for piece in model.pieces]


@pytest.mark.nightly
def test_all_models_with_all_tokenizers(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """Every model works with every tokenizer it has, and a plain program can use the folders."""
    pytest.importorskip("transformers")
    pytest.importorskip("sentencepiece")
    out = tmp_path / "models"
    out.mkdir()
    path = tmp_path / "out.json"
    done = call_tool(
        TOOL, "--tokenizers", "bpe", "unigram", "sentencepiece", "--dtype", "bfloat16",
        "--out", str(out), "--json", str(path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = read_json(path)["results"]
    assert [row["verdict"] for row in rows] == ["works"] * 9
    assert all(row["parameters"] == row["parameters_by_formula"] for row in rows)
    assert all(2 * row["parameters"] < row["bytes"] < 300_000 for row in rows)
    used = subprocess.run(
        [sys.executable, "-c", USE, str(out)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert used.returncode == 0, used.stderr
    assert used.stdout.splitlines() == [
        "gpt2-bpe GPT2LMHeadModel torch.bfloat16 1",
        "gpt2-unigram GPT2LMHeadModel torch.bfloat16 1",
        "llama-bpe LlamaForCausalLM torch.bfloat16 1",
        "llama-unigram LlamaForCausalLM torch.bfloat16 1",
        "llava-bpe LlavaForConditionalGeneration torch.bfloat16 1",
        "llava-unigram LlavaForConditionalGeneration torch.bfloat16 1",
        "t5-bpe T5ForConditionalGeneration torch.bfloat16 1",
        "t5-sentencepiece T5ForConditionalGeneration torch.bfloat16 1",
        "t5-unigram T5ForConditionalGeneration torch.bfloat16 1",
    ]
    before = {p: p.read_bytes() for p in out.rglob("*") if p.is_file()}
    again = call_tool(TOOL, "--models", "gpt2", "--out", str(out))
    assert again.returncode == 2
    assert "gpt2-bpe is there already" in again.stderr
    assert {p: p.read_bytes() for p in out.rglob("*") if p.is_file()} == before


def test_real_file_is_cut_down(
    call_tool: Callable[..., Any], tmp_path: Path, pieces: bytes
) -> None:
    """A SentencePiece model from a file is cut to the vocabulary, and the file stays as it was."""
    pytest.importorskip("transformers")
    source = tmp_path / "spiece.model"
    source.write_bytes(pieces)
    out = tmp_path / "models"
    done = call_tool(
        TOOL, "--models", "t5", "--sentencepiece", str(source), "--vocabulary", "50",
        "--out", str(out),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr  # a new folder is made
    cut = (out / "t5-sentencepiece/spiece.model").read_bytes()
    assert len(read_pieces(cut)) == 50
    assert source.read_bytes() == pieces
    assert [path.name for path in out.iterdir()] == ["t5-sentencepiece"]


@pytest.mark.parametrize("vocabulary", [1, 50, 60, 1000])
def test_shrinking_keeps_what_has_to_stay(tiny: Any, pieces: bytes, vocabulary: int) -> None:
    """Special pieces and characters stay, of the others the best; order and scores stay too."""
    import sentencepiece

    before = read_pieces(pieces)
    cut = tiny.shrink_sentencepiece(pieces, vocabulary)
    after = read_pieces(cut)
    assert [piece for piece in before if piece in after] == after
    stay = [piece for piece in before if piece[2] != 1 or len(piece[0]) == 1]
    assert set(stay) <= set(after)
    assert len(after) == min(max(vocabulary, len(stay)), len(before))
    left_out = [piece[1] for piece in before if piece not in after]
    chosen = [piece[1] for piece in after if piece not in stay]
    assert not left_out or not chosen or max(left_out) <= min(chosen)
    words = sentencepiece.SentencePieceProcessor(model_proto=cut)
    assert words.get_piece_size() == len(after)
    assert words.decode(words.encode(tiny.SAMPLE)) == tiny.SAMPLE
    assert words.unk_id() not in words.encode(tiny.SAMPLE)


def test_bytes_and_own_symbols_stay(tiny: Any) -> None:
    """The pieces for bytes and those that a user has defined are not cut away."""
    sentencepiece = pytest.importorskip("sentencepiece")
    buffer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(tiny.make_corpus()),
        model_writer=buffer,
        vocab_size=400,
        hard_vocab_limit=False,
        byte_fallback=True,
        user_defined_symbols=["<mine>"],
        minloglevel=2,
    )
    cut = tiny.shrink_sentencepiece(buffer.getvalue(), 1)
    words = sentencepiece.SentencePieceProcessor(model_proto=cut)
    assert words.decode(words.encode("<mine>Ωß")) == "<mine>Ωß"
    assert len(read_pieces(cut)) < len(read_pieces(buffer.getvalue()))


@pytest.mark.parametrize("model", ["t5", "llama", "gpt2", "llava"])
@pytest.mark.parametrize("sizes", [(8, 1, 1), (32, 3, 4), (24, 2, 3)])
def test_parameters_by_formula(tiny: Any, model: str, sizes: tuple[int, int, int]) -> None:
    """The formula counts what transformers makes, at any size."""
    pytest.importorskip("transformers")
    words = tiny.make_fast_tokenizer("bpe", tiny.make_corpus(), 300)
    made = tiny.make_model(model, words, tiny.Sizes(*sizes))
    counted = sum(parameter.numel() for parameter in made.parameters())
    assert tiny.count_tiny_parameters(model, len(words), tiny.Sizes(*sizes)) == counted


def test_damage_is_found(tiny: Any, tmp_path: Path) -> None:
    """A model whose file says something else is found out, and so is another tokenizer."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    tiny.quieten_transformers()
    words = tiny.make_fast_tokenizer("bpe", tiny.make_corpus(), 300)
    made = tiny.make_model("gpt2", words, tiny.Sizes(16, 1, 2))
    made.save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    loaded, again = tiny.load_model("gpt2", tmp_path)
    assert tiny.find_model_faults("gpt2", made, words, loaded, again) == ([], 6)
    with torch.no_grad():
        loaded.transformer.wte.weight[5] += 1
    faults, _ = tiny.find_model_faults("gpt2", made, words, loaded, again)
    assert faults == ["weights differ after loading", "other logits after loading"]
    other = tiny.make_fast_tokenizer("bpe", ["zzz yyy"] * 9, 300)
    faults, _ = tiny.find_model_faults("gpt2", made, words, made, other)
    assert "other inputs after loading" in faults


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--hidden", "15"], "--hidden has to be"),
        (["--vocabulary", "100"], "bpe needs 261 entries"),
        (["--models", "llama", "--tokenizers", "sentencepiece"], "goes with t5 alone"),
        (["--tokenizers", "unigram", "--sentencepiece", "x"], "goes with --tokenizers"),
        (["--out", "none/there"], "there is no folder"),
        (["--out", "latin.txt"], "latin.txt is no folder"),
        # A folder that would be made is gone again where nothing came of it.
        (["--out", "new", "--models", "t5", "--sentencepiece", "latin.txt"], "no SentencePiece"),
        (["--corpus", "none.txt"], "could not read none.txt"),
        (["--corpus", "latin.txt"], "is not UTF-8"),
        (["--corpus", "empty.txt"], "has no text"),
        (["--models", "t5", "--sentencepiece", "latin.txt"], "is no SentencePiece model"),
        (["--models", "t5", "--sentencepiece", "none.model"], "could not read none.model"),
        (["--tokenizers", "unigram", "--vocabulary", "3"], "--vocabulary 3: unigram: The vocab"),
        (["--tokenizers", "sentencepiece", "--vocabulary", "9"], "--vocabulary 9: sentencepiece"),
    ],
)
def test_wrong_use_is_one_line(
    call_tool: Callable[..., Any], tmp_path: Path, arguments: list[str], words: str
) -> None:
    """What cannot be done is refused with what to do, and nothing is left behind."""
    pytest.importorskip("sentencepiece")
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9")
    (tmp_path / "empty.txt").write_text("\n")
    done = call_tool(TOOL, *arguments, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty.txt", "latin.txt"]


@pytest.mark.usefixtures("can_mount")
def test_full_disk_is_told(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """On a disk that has no room for the weights: a row and a line, and nothing is left on it."""
    pytest.importorskip("transformers")
    disk, out = tmp_path / "disk", tmp_path / "out.json"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32k", "none", disk]
    subprocess.run(mount, check=True)
    try:
        done = call_tool(TOOL, "--models", "gpt2", "--out", str(disk), "--json", str(out))
        assert done.returncode == 1, done.stderr
        assert "problem: gpt2-bpe: failed: " in done.stderr
        assert "No space left on device" in done.stderr
        assert "Traceback" not in done.stderr
        assert [row["model"] for row in read_json(out)["results"]] == ["gpt2"]
        assert list(disk.iterdir()) == []
    finally:
        subprocess.run(["umount", disk], check=True)


def test_missing_package_is_named(
    run_tool: Callable[..., Any], torch_trap: dict[str, str], tmp_path: Path
) -> None:
    """Without transformers there is nothing to keep: --out says what to install."""
    hide = tmp_path / "hide"
    hide.mkdir()
    (hide / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda n, *a: None if n == 'transformers' else find(n, *a)\n"
    )
    environ = {"PYTHONPATH": f"{hide}{os.pathsep}{torch_trap['PYTHONPATH']}"}
    done = run_tool(TOOL, "--out", str(tmp_path), environ=environ)
    assert done.returncode == 2
    assert "pip install transformers" in done.stderr
    done = run_tool(TOOL, environ=environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("not made") == 4


def test_shrunken_configurations_of_the_chapter(tmp_path: Path) -> None:
    """The chapter's recipe makes less than half a million parameters of dense, hybrid and mixed
    models alike, keeps a layer of each kind, and what it saves loads again."""
    chapter = SCRIPTS.parent / "book/debug/tiny/README.md"
    kinds = {
        "LlamaConfig": 0, "Qwen3Config": 1, "Qwen3MoeConfig": 0, "GptOssConfig": 2,
        "DeepseekV3Config": 0, "Qwen3NextConfig": 2, "Gemma3TextConfig": 2,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", SHRINK, str(chapter), *kinds],
        cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("made ")]
    assert [name for name, *_ in made] == list(kinds)
    for name, parameters, layers, is_near in made:
        assert int(parameters) < 500_000, name
        assert int(layers) == kinds[name], name
        assert is_near == "True", name
