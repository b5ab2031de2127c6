#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
"""Which model is small enough to debug with in seconds, yet built like the large one?

Makes models with random weights, each with a tokenizer trained on the spot, and tests them: saves
them, loads them again by the Auto classes, runs them forward, and has them generate. Nothing is
downloaded. Such models find bugs in code; what they generate is noise.

| model | kind |
|:--|:--|
| t5 | encoder-decoder |
| llama | decoder with grouped-query attention |
| gpt2 | decoder with learned positions and a tied head |
| llava | image and text: CLIP encoder, projector, llama; with its image processor |

Tokenizers: `bpe` is byte-level BPE, which knows every character and needs at least 261 entries;
`unigram` has the spaces as part of the words; `--sentencepiece FILE` (t5 only) shrinks a
SentencePiece model to `--vocabulary`: special pieces, single characters and bytes stay, of the
others the most probable.

## How to run

    python make_tiny_model.py --out models        # all four; without --out they are only tested
    python make_tiny_model.py --models gpt2 --hidden 64 --layers 4 --heads 4 --out models
    python make_tiny_model.py --models t5 --sentencepiece spiece.model --out models

It needs transformers; sentencepiece and protobuf for that tokenizer, pillow for llava. A good
answer: `works` for each model. Then use the folders wherever a program takes the name of a model,
as in `from_pretrained("models/llama-bpe")`.

Exit status: 0 done, 1 a model does not work, 2 usage error.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from kit.cli import Parser, UsageError, positive_int, start
from kit.ranks import first_line
from kit.report import Report, Row, format_bytes, format_table

__version__ = "0.2.0"

PROFILES = {"demo": [], "full": ["--tokenizers", "bpe", "unigram"]}
MODELS = {
    "t5": ("encoder-decoder", "AutoModelForSeq2SeqLM"),
    "llama": ("decoder", "AutoModelForCausalLM"),
    "gpt2": ("decoder", "AutoModelForCausalLM"),
    "llava": ("image and text", "AutoModelForImageTextToText"),
}
PAD, EOS, UNKNOWN, BOS, IMAGE = SPECIALS = ("<pad>", "</s>", "<unk>", "<s>", "<image>")
POSITIONS = 128
IMAGE_SIDE, PATCH_SIDE = 16, 8
NEW_TOKENS = 6
SAMPLE = "the quick brown fox sees a small model"
WORDS = """
the a one two some every old new small large quick slow warm cold brown green quiet bright model
token tensor layer weight batch step loss fox dog bird river table lamp garden engine letter number
sees takes makes finds keeps drops reads writes counts holds turns opens and or but then while near
under over with without before after
"""


def make_corpus(path: Path | None) -> list[str]:
    """The lines of a text file, or sentences of a few words, the same each time."""
    draw, words = random.Random(0), WORDS.split()
    lines = [" ".join(draw.choices(words, k=draw.randint(4, 12))) for _ in range(400)]
    lines = path.read_text(encoding="utf-8").splitlines() if path else lines
    return [SAMPLE, "0 1 2 3 4 5 6 7 8 9", *filter(str.strip, lines)]


def train_tokenizer(kind: str, corpus: Sequence[str], vocabulary: int) -> Any:
    """A byte-level BPE or unigram tokenizer, trained on the corpus."""
    import tokenizers
    import transformers

    kinds = {
        "bpe": (tokenizers.ByteLevelBPETokenizer(), {"min_frequency": 0}),
        "unigram": (tokenizers.SentencePieceUnigramTokenizer(), {"unk_token": UNKNOWN}),
    }
    trained, more = kinds[kind]
    more |= {"vocab_size": vocabulary, "special_tokens": list(SPECIALS)}
    trained.train_from_iterator(corpus, show_progress=False, **more)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(trained.to_str()),
        extra_special_tokens={"image_token": IMAGE},
        model_max_length=POSITIONS,
        model_input_names=["input_ids", "attention_mask"],
        pad_token=PAD, eos_token=EOS, unk_token=UNKNOWN, bos_token=BOS,
    )  # fmt: skip


def shrink_sentencepiece(data: bytes, vocabulary: int) -> bytes:
    """A SentencePiece model with at most this many pieces: special pieces, bytes and single
    characters stay; of the others the most probable, in their order."""
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    model.ParseFromString(data)
    normal = sentencepiece_model_pb2.ModelProto.SentencePiece.NORMAL
    words = [i for i, p in enumerate(model.pieces) if p.type == normal and len(p.piece) > 1]
    words.sort(key=lambda index: (-model.pieces[index].score, index))
    dropped = set(words[max(vocabulary - (len(model.pieces) - len(words)), 0) :])
    kept = [piece for index, piece in enumerate(model.pieces) if index not in dropped]
    del model.pieces[:]
    model.pieces.extend(kept)
    model.trainer_spec.vocab_size = len(kept)
    return bytes(model.SerializeToString())


def make_model(model: str, tokenizer: Any, options: argparse.Namespace) -> Any:
    """A model with random weights, the same each time."""
    import torch
    import transformers

    torch.manual_seed(0)
    make_config = transformers.AutoConfig.for_model
    hidden, layers, heads = options.hidden, options.layers, options.heads
    shared = {"hidden_size": hidden, "intermediate_size": 2 * hidden, "num_hidden_layers": layers,
              "num_attention_heads": heads}  # fmt: skip
    decoder = "llama" if model == "llava" else model
    key_heads = heads // 2 if heads % 2 == 0 else heads
    sizes = {
        "t5": {"d_model": hidden, "d_kv": hidden // heads, "d_ff": 2 * hidden, "num_heads": heads,
               "num_layers": layers, "decoder_start_token_id": tokenizer.pad_token_id},
        "gpt2": {"n_embd": hidden, "n_layer": layers, "n_head": heads, "n_positions": POSITIONS},
        "llama": {"num_key_value_heads": key_heads, "max_position_embeddings": POSITIONS} | shared,
    }  # fmt: skip
    special = {f"{n}_token_id": getattr(tokenizer, f"{n}_token_id") for n in ("pad", "eos", "bos")}
    config = make_config(decoder, vocab_size=len(tokenizer), **special, **sizes[decoder])
    if model == "llava":
        image = {"image_size": IMAGE_SIDE, "patch_size": PATCH_SIDE, "projection_dim": hidden}
        config = make_config(
            "llava",
            vision_config=make_config("clip_vision_model", **shared, **image),
            text_config=config,
            image_token_index=tokenizer.convert_tokens_to_ids(IMAGE),
            image_seq_length=(IMAGE_SIDE // PATCH_SIDE) ** 2,
        )
    return getattr(transformers, MODELS[model][1]).from_config(config).eval()


def make_processor(tokenizer: Any) -> Any:
    """What turns an image and a text into the inputs of llava."""
    import transformers

    # The other one needs torchvision.
    kind = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
    return transformers.LlavaProcessor(
        image_processor=kind(size={"shortest_edge": IMAGE_SIDE}, crop_size=IMAGE_SIDE),
        tokenizer=tokenizer,
        patch_size=PATCH_SIDE,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )


def load_model(model: str, folder: Path) -> tuple[Any, Any]:
    """The model and its tokenizer or processor, as a program would load them."""
    import transformers

    loaded = getattr(transformers, MODELS[model][1]).from_pretrained(folder)
    return loaded.eval(), transformers.AutoProcessor.from_pretrained(folder)


def make_inputs(model: str, processor: Any) -> dict[str, Any]:
    """The sample text, and an image where the model takes one."""
    if model == "llava":
        from PIL import Image

        image = Image.frombytes("RGB", (20, 30), random.Random(0).randbytes(3 * 20 * 30))
        return dict(processor(images=image, text=f"{IMAGE}{SAMPLE}", return_tensors="pt"))
    return dict(processor(SAMPLE, return_tensors="pt"))


def find_model_faults(
    model: str, made: Any, before: Any, loaded: Any, after: Any
) -> tuple[list[str], int]:
    """What is wrong with a model after saving and loading it, and how many tokens it generates."""
    import torch

    inputs, inputs_again = make_inputs(model, before), make_inputs(model, after)
    tokenizer = getattr(after, "tokenizer", after)
    with torch.no_grad():
        logits = made(**inputs, labels=inputs["input_ids"]).logits
        again = loaded(**inputs_again, labels=inputs_again["input_ids"]).logits
        generated = loaded.generate(**inputs_again, max_new_tokens=NEW_TOKENS, do_sample=False,
                                    min_new_tokens=NEW_TOKENS)  # fmt: skip
    count = generated.shape[1] - (1 if model == "t5" else inputs["input_ids"].shape[1])
    text = tokenizer.decode(tokenizer(SAMPLE).input_ids, skip_special_tokens=True)
    checks = {
        "logits differ after loading": torch.equal(logits, again),
        "the text does not come back from its tokens": text.strip() == SAMPLE,
        f"{count} of {NEW_TOKENS} tokens were generated": count == NEW_TOKENS,
    }
    return [fault for fault, is_right in checks.items() if not is_right], count


def make_tiny(model: str, kind: str, options: argparse.Namespace) -> Row:
    """Make a model, save it, load it again, test it, and keep it in --out. Raises UsageError."""
    import transformers

    name, began = f"{model}-{kind}", time.monotonic()
    if options.out and (options.out / name).exists():
        raise UsageError(f"--out: {name} exists already")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place, name)
        folder.mkdir()
        if kind == "sentencepiece":
            data = shrink_sentencepiece(options.sentencepiece.read_bytes(), options.vocabulary)
            (folder / "spiece.model").write_bytes(data)
            more = {"extra_ids": 4, "model_max_length": POSITIONS}
            tokenizer = transformers.T5Tokenizer.from_pretrained(folder, **more)
        else:
            tokenizer = train_tokenizer(kind, make_corpus(options.corpus), options.vocabulary)
        made = make_model(model, tokenizer, options)
        processor = make_processor(tokenizer) if model == "llava" else tokenizer
        made.save_pretrained(folder)
        processor.save_pretrained(folder)
        faults, count = find_model_faults(model, made, processor, *load_model(model, folder))
        row = {"model": model, "kind": MODELS[model][0], "tokenizer": kind}
        row |= {"vocabulary": len(tokenizer), "parameters": made.num_parameters()}
        row |= {"bytes": sum(path.stat().st_size for path in folder.iterdir())}
        row |= {"tokens_generated": count, "seconds": round(time.monotonic() - began, 3)}
        row |= {"verdict": "; ".join(faults) or "works"}
        if options.out and not faults:
            shutil.copytree(folder, options.out / name)
    return row


def build_parser() -> Parser:
    parser = Parser(__doc__, tool="make_tiny_model", version=__version__, demo=PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    add("--models", nargs="+", choices=MODELS, default=list(MODELS), help="(default: all)")
    add("--tokenizers", nargs="+", choices=("bpe", "unigram"), default=["bpe"],
        help="(default: bpe)")
    add("--out", type=Path, metavar="FOLDER", help="keep the models here, as MODEL-TOKENIZER")
    add("--corpus", type=Path, metavar="FILE", help="text to train the tokenizers on")
    add("--sentencepiece", type=Path, metavar="FILE",
        help="a SentencePiece model to shrink: the tokenizer of t5")
    add("--vocabulary", type=positive_int, default=400,
        help="largest number of tokenizer entries (default: 400)")
    add("--hidden", type=positive_int, default=16, help="hidden size (default: 16)")
    add("--layers", type=positive_int, default=2, help="number of layers (default: 2)")
    add("--heads", type=positive_int, default=2, help="attention heads (default: 2)")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    options = build_parser().parse_args(arguments)
    if options.hidden % options.heads or options.hidden // options.heads % 2:
        raise UsageError("--hidden has to be an even number times --heads")
    if "bpe" in options.tokenizers and options.vocabulary < 256 + len(SPECIALS):
        raise UsageError(f"--vocabulary: bpe needs at least {256 + len(SPECIALS)} entries")
    report = Report("make_tiny_model", __version__, 1, options.json)
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    os.environ["TRANSFORMERS_VERBOSITY"] = "error"  # all read when transformers is imported
    try:
        for model in options.models:
            own = options.sentencepiece and model == "t5"
            for kind in ["sentencepiece"] if own else options.tokenizers:
                report.rows.append(make_tiny(model, kind, options))
    except ImportError as error:
        advice = "pip install torch transformers sentencepiece protobuf pillow"
        raise UsageError(f"{first_line(error)}: {advice}") from error
    report.complete = True
    headings = ("model", "kind", "vocabulary", "parameters", "size", "seconds", "verdict")
    cells = [
        (f"{row['model']}-{row['tokenizer']}", row["kind"], row["vocabulary"], row["parameters"],
         format_bytes(row["bytes"]), f"{row['seconds']:.1f}", row["verdict"])
        for row in report.rows
    ]  # fmt: skip
    print(format_table(headings, cells))
    report.save()
    return int(any(row["verdict"] != "works" for row in report.rows))


if __name__ == "__main__":
    start(main)
