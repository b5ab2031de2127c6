#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""Which model is small enough to debug with in seconds, yet built like the large one?

Makes tiny models of random weights, each with a tokenizer of its own that is trained in place, and
proves them: saved, loaded again, run forward and made to generate. Nothing is downloaded. Models
of a few kilobytes find the errors of code, not those of numbers: what they say is noise.

    t5      encoder-decoder
    llama   decoder, with grouped-query attention
    gpt2    decoder, with learned positions and a tied head
    llava   image and text: a CLIP encoder, a projector, a llama; with its image processor

Tokenizers
    bpe             byte-level BPE: knows every character, needs 261 entries or more
    unigram         a unigram model with blanks as part of the words
    sentencepiece   a SentencePiece model, trained in place or given by --sentencepiece, cut down to
                    the vocabulary that is asked for (t5 alone): special pieces, single characters
                    and bytes stay, of the others the most probable, all with their scores

Physics
    The number of parameters, for V entries, width h, L layers, MLP width f, P positions:
    llama   2 V h + L (2 h h + 2 h k + 3 h f + 2 h) + h, with k the width of keys
    gpt2    V h + P h + L (12 h h + 13 h) + 2 h
    t5      V h + L (12 h h + 4 h f + 5 h) + 2 h + 64 heads, with heads times d_kv = h
    llava   llama + CLIP + projector
    By hand: gpt2 with V = 400, h = 16, L = 2, P = 128 has 6400 + 2048 + 2 (3072 + 208) + 32 =
    15040. Each model is counted and has to have as many. Two bytes or four for each, by --dtype.

What is timed
    For each model all of it, from the training of its tokenizer on; for the first one also what
    transformers imports only when it is used.

How to run
    all of them     python make_tiny_model.py
    to keep them    python make_tiny_model.py --out models
    one of them     python make_tiny_model.py --models llama --tokenizers unigram --out models
    other sizes     python make_tiny_model.py --models gpt2 --hidden 64 --layers 4 --heads 4
    a real one cut  python make_tiny_model.py --models t5 --sentencepiece spiece.model --out models
    your own text   python make_tiny_model.py --corpus text.txt --vocabulary 1000
    Slurm           srun --ntasks 1 python make_tiny_model.py --out /shared/models
    pdsh            pdsh -w node01 python /shared/make_tiny_model.py --out /local/models

It needs transformers, and sentencepiece with protobuf, or pillow, for what uses them. Where one is
missing the table has the sizes alone.

A good answer: `works` for each model. The folders of --out then are to be named wherever a program
takes the name of a model: from_pretrained("models/llama-bpe").

Seen running so far: transformers 5.23 on a CPU.

Exit status: 0 done, 1 a model does not work, or stopped by a signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import importlib
import importlib.util
import io
import json
import math
import os
import platform
import random
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {"toy": [], "full": ["--tokenizers", "bpe", "unigram", "sentencepiece"]}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "vocabulary": "1",
    "parameters": "1",
    "parameters_by_formula": "1",
    "bytes": "B",
    "tokens_generated": "1",
    "seconds": "s",
}

MODELS = {
    "t5": "encoder-decoder",
    "llama": "decoder",
    "gpt2": "decoder",
    "llava": "image and text",
}
TOKENIZERS = ("bpe", "unigram", "sentencepiece")
DTYPES = ("float32", "bfloat16", "float16")
PAD, EOS, UNKNOWN, BOS, IMAGE = SPECIALS = ("<pad>", "</s>", "<unk>", "<s>", "<image>")
LEAST_BPE = 256 + len(SPECIALS)
POSITIONS = 128
IMAGE_SIDE, PATCH_SIDE = 16, 8
NEW_TOKENS = 6
# Of T5's relative positions, for each head.
T5_BUCKETS = 32
T5_EXTRA = 4
SAMPLE = "the quick brown fox sees a small model"
WORDS = """
the a one two some every old new small large quick slow warm cold brown green quiet bright model
token tensor layer weight batch step loss fox dog bird river table lamp garden engine letter number
sees takes makes finds keeps drops reads writes counts holds turns opens and or but then while near
under over with without before after
"""

Row = dict[str, Any]


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


class Stopped(Exception):
    """The run ends here, by a signal or by the budget; what was measured is kept."""


class StopSign:
    """Why the run has to end, if it has to: a signal, the budget, or the parent process."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.by_signal = False
        self.deadline: float | None = None

    def listen(self) -> None:
        """End the run on Ctrl-C, on SIGTERM, and on Slurm's early warning."""
        for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._receive)

    def _receive(self, number: int, _frame: Any) -> None:
        self.reason = f"stopped by {signal.Signals(number).name}"
        self.by_signal = True
        # A second signal of the same kind ends a run that hangs.
        signal.signal(number, signal.SIG_DFL)

    def check(self) -> None:
        """Raise Stopped where there is a reason to end."""
        if self.reason is None and self.deadline is not None and time.monotonic() > self.deadline:
            self.reason = "the budget is used up"
        if self.reason is not None:
            raise Stopped(self.reason)


class Sizes(NamedTuple):
    """How large a model is."""

    hidden: int
    layers: int
    heads: int

    @property
    def inner(self) -> int:
        """The width of the MLP."""
        return 2 * self.hidden

    @property
    def key_heads(self) -> int:
        """How many heads of keys and values a llama has."""
        return self.heads // 2 if self.heads % 2 == 0 else self.heads

    @property
    def keys(self) -> int:
        """The width of keys and of values of a llama."""
        return self.hidden // self.heads * self.key_heads


# --- how many parameters ---


def count_tiny_parameters(model: str, vocabulary: int, sizes: Sizes) -> int:
    """The number of parameters by formula."""
    hidden, layers, inner = sizes.hidden, sizes.layers, sizes.inner
    if model == "gpt2":
        per_layer = 12 * hidden * hidden + 13 * hidden
        return (vocabulary + POSITIONS) * hidden + layers * per_layer + 2 * hidden
    if model == "t5":
        per_layer = 12 * hidden * hidden + 4 * hidden * inner + 5 * hidden
        return vocabulary * hidden + layers * per_layer + 2 * hidden + 2 * T5_BUCKETS * sizes.heads
    per_layer = 2 * hidden * hidden + 2 * hidden * sizes.keys + 3 * hidden * inner + 2 * hidden
    llama = 2 * vocabulary * hidden + layers * per_layer + hidden
    if model == "llama":
        return llama
    patches = (IMAGE_SIDE // PATCH_SIDE) ** 2
    embedding = hidden + 3 * PATCH_SIDE**2 * hidden + (patches + 1) * hidden
    per_layer = 4 * (hidden * hidden + hidden) + 2 * hidden * inner + inner + hidden + 4 * hidden
    projector = 2 * (hidden * hidden + hidden)
    return llama + embedding + layers * per_layer + 4 * hidden + projector


# --- tokenizers ---


def make_corpus(lines: int = 400) -> list[str]:
    """Sentences of a few words, the same ones each time."""
    draw = random.Random(0)
    words = WORDS.split()
    sentences = [" ".join(draw.choices(words, k=draw.randint(4, 12))) for _ in range(lines)]
    return [SAMPLE, "0 1 2 3 4 5 6 7 8 9", *sentences]


def read_corpus(path: Path) -> list[str]:
    """The lines of a text. Raises WrongUse."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise WrongUse(f"--corpus: could not read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise WrongUse(f"--corpus: {path} is not UTF-8 (byte {error.start})") from error
    lines = [line for line in lines if line.strip()]
    if not lines:
        raise WrongUse(f"--corpus: {path} has no text")
    # What the models are tried with has to be known to the tokenizer.
    return [SAMPLE, *lines]


def make_fast_tokenizer(kind: str, corpus: Sequence[str], vocabulary: int) -> Any:
    """Train a tokenizer of Hugging Face's on the corpus."""
    transformers = import_package("transformers")
    import_package("tokenizers")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    if kind == "bpe":
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        trainer: Any = trainers.BpeTrainer(
            vocab_size=vocabulary,
            special_tokens=list(SPECIALS),
            initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
    else:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(
            vocab_size=vocabulary,
            special_tokens=list(SPECIALS),
            unk_token=UNKNOWN,
            show_progress=False,
        )
    try:
        tokenizer.train_from_iterator(corpus, trainer)
    except Exception as error:  # tokenizers has no kinds of errors of its own
        raise WrongUse(f"--vocabulary {vocabulary}: {kind}: {find_first_line(error)}") from error
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNKNOWN,
        bos_token=BOS,
        extra_special_tokens={"image_token": IMAGE},
        model_max_length=POSITIONS,
    )


def train_sentencepiece(corpus: Sequence[str], vocabulary: int) -> bytes:
    """Train a SentencePiece model with twice the entries that are asked for; its file."""
    sentencepiece = import_package("sentencepiece")
    buffer = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(corpus),
            model_writer=buffer,
            vocab_size=2 * vocabulary,
            hard_vocab_limit=False,
            minloglevel=2,
            pad_id=0,
            eos_id=1,
            unk_id=2,
            bos_id=-1,
            # The tables of any other are ten times as large as the models that are made here.
            normalization_rule_name="identity",
        )
    except RuntimeError as error:
        words = f"sentencepiece, trained with twice as many: {find_first_line(error)}"
        raise WrongUse(f"--vocabulary {vocabulary}: {words}") from error
    return buffer.getvalue()


def find_first_line(error: Exception) -> str:
    """What an error says first."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def shrink_sentencepiece(data: bytes, vocabulary: int) -> bytes:
    """A SentencePiece model with at most so many pieces, as far as those that have to stay allow.

    Special pieces, bytes and single characters stay; of the others the most probable. Order and
    scores are as they were. Raises WrongUse for what is no such model.
    """
    import_package("sentencepiece")
    import_package("google.protobuf", "protobuf")
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2 as format_of_model

    model = format_of_model.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise WrongUse("--sentencepiece: this file is no SentencePiece model") from error
    if not model.pieces:
        raise WrongUse("--sentencepiece: this file is no SentencePiece model, or has no pieces")
    normal = format_of_model.ModelProto.SentencePiece.NORMAL
    stay: list[int] = []
    others: list[int] = []
    for index, piece in enumerate(model.pieces):
        is_word = piece.type == normal and len(piece.piece) > 1
        (others if is_word else stay).append(index)
    others.sort(key=lambda index: (-model.pieces[index].score, index))
    kept = sorted([*stay, *others[: max(vocabulary - len(stay), 0)]])
    shrunk = format_of_model.ModelProto()
    shrunk.CopyFrom(model)
    del shrunk.pieces[:]
    shrunk.pieces.extend(model.pieces[index] for index in kept)
    shrunk.trainer_spec.vocab_size = len(kept)
    return bytes(shrunk.SerializeToString())


def make_sentencepiece_tokenizer(
    folder: Path, corpus: Sequence[str], vocabulary: int, source: Path | None
) -> Any:
    """T5's tokenizer over a SentencePiece model that was cut down; its file goes to the folder."""
    transformers = import_package("transformers")
    if source is None:
        data = train_sentencepiece(corpus, vocabulary)
    else:
        try:
            data = source.read_bytes()
        except OSError as error:
            raise WrongUse(f"--sentencepiece: could not read {source}: {error.strerror}") from error
    path = folder / "spiece.model"
    path.write_bytes(shrink_sentencepiece(data, vocabulary))
    return transformers.T5Tokenizer.from_pretrained(
        folder, extra_ids=T5_EXTRA, model_max_length=POSITIONS
    )


# --- models ---


def make_text_settings(model: str, tokenizer: Any, sizes: Sizes) -> dict[str, Any]:
    """The settings of the configuration of a text model."""
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    vocabulary = {"vocab_size": len(tokenizer)}
    if model == "t5":
        return {
            **vocabulary,
            **ids,
            "decoder_start_token_id": tokenizer.pad_token_id,
            "d_model": sizes.hidden,
            "d_kv": sizes.hidden // sizes.heads,
            "d_ff": sizes.inner,
            "num_layers": sizes.layers,
            "num_heads": sizes.heads,
            "relative_attention_num_buckets": T5_BUCKETS,
        }
    ids["bos_token_id"] = tokenizer.bos_token_id
    if model == "gpt2":
        return {
            **vocabulary,
            **ids,
            "n_embd": sizes.hidden,
            "n_layer": sizes.layers,
            "n_head": sizes.heads,
            "n_positions": POSITIONS,
        }
    return {
        **vocabulary,
        **ids,
        "hidden_size": sizes.hidden,
        "intermediate_size": sizes.inner,
        "num_hidden_layers": sizes.layers,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.key_heads,
        "max_position_embeddings": POSITIONS,
    }


def make_model(model: str, tokenizer: Any, sizes: Sizes) -> Any:
    """A model of random weights, the same ones each time."""
    torch = import_package("torch")
    transformers = import_package("transformers")
    settings = make_text_settings(model, tokenizer, sizes)
    torch.manual_seed(0)
    if model == "t5":
        made = transformers.T5ForConditionalGeneration(transformers.T5Config(**settings))
    elif model == "gpt2":
        made = transformers.GPT2LMHeadModel(transformers.GPT2Config(**settings))
    elif model == "llama":
        made = transformers.LlamaForCausalLM(transformers.LlamaConfig(**settings))
    else:
        image = tokenizer.convert_tokens_to_ids(IMAGE)
        config = transformers.LlavaConfig(
            vision_config=transformers.CLIPVisionConfig(
                hidden_size=sizes.hidden,
                intermediate_size=sizes.inner,
                num_hidden_layers=sizes.layers,
                num_attention_heads=sizes.heads,
                image_size=IMAGE_SIDE,
                patch_size=PATCH_SIDE,
                projection_dim=sizes.hidden,
            ),
            text_config=transformers.LlamaConfig(**settings),
            image_token_index=image,
            vision_feature_layer=-1,
            image_seq_length=(IMAGE_SIDE // PATCH_SIDE) ** 2,
        )
        made = transformers.LlavaForConditionalGeneration(config)
    return made.eval()


def make_processor(tokenizer: Any) -> Any:
    """What makes the inputs of llava out of an image and a text."""
    transformers = import_package("transformers")
    import_package("PIL", "pillow")
    side = {"height": IMAGE_SIDE, "width": IMAGE_SIDE}
    # The other one needs torchvision, and says so where it is missing.
    kind = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
    return transformers.LlavaProcessor(
        image_processor=kind(size={"shortest_edge": IMAGE_SIDE}, crop_size=side),
        tokenizer=tokenizer,
        patch_size=PATCH_SIDE,
        vision_feature_select_strategy="default",
        image_token=IMAGE,
        num_additional_image_tokens=1,
    )


def load_model(model: str, folder: Path) -> tuple[Any, Any]:
    """The model and its tokenizer, or processor, as a program would load them."""
    transformers = import_package("transformers")
    if model == "llava":
        loaded = transformers.AutoModelForImageTextToText.from_pretrained(folder)
        return loaded.eval(), transformers.AutoProcessor.from_pretrained(folder)
    kind = "AutoModelForSeq2SeqLM" if model == "t5" else "AutoModelForCausalLM"
    loaded = getattr(transformers, kind).from_pretrained(folder)
    return loaded.eval(), transformers.AutoTokenizer.from_pretrained(folder)


def make_inputs(model: str, processor: Any, dtype: Any) -> dict[str, Any]:
    """What a model is run on: the sample text, and an image where it takes one."""
    if model == "llava":
        from PIL import Image

        pixels = bytes(random.Random(0).randbytes(3 * 20 * 30))
        image = Image.frombytes("RGB", (20, 30), pixels)
        inputs = processor(images=image, text=f"{IMAGE}{SAMPLE}", return_tensors="pt")
        inputs["pixel_values"] = inputs["pixel_values"].to(dtype)
    else:
        inputs = processor(SAMPLE, return_tensors="pt")
    # gpt2 and llama know no types of tokens, and some tokenizers give them.
    return {name: value for name, value in inputs.items() if name != "token_type_ids"}


def find_model_faults(
    model: str, made: Any, before: Any, loaded: Any, after: Any
) -> tuple[list[str], int]:
    """What is wrong with a model that was saved and loaded again; and how many tokens it made."""
    torch = import_package("torch")
    faults = []
    weights, again = made.state_dict(), loaded.state_dict()
    if weights.keys() != again.keys():
        faults.append("other weights after loading")
    elif not all(torch.equal(weights[name], again[name]) for name in weights):
        faults.append("weights differ after loading")
    inputs = make_inputs(model, before, made.dtype)
    reloaded_inputs = make_inputs(model, after, made.dtype)
    same = inputs.keys() == reloaded_inputs.keys()
    if not same or not all(torch.equal(inputs[n], reloaded_inputs[n]) for n in inputs):
        faults.append("other inputs after loading")
    words = getattr(after, "tokenizer", after)
    ids = words(SAMPLE).input_ids
    if words.decode(ids, skip_special_tokens=True).strip() != SAMPLE:
        faults.append("the text does not come back from its tokens")
    if max(ids) >= len(words) or words.unk_token_id in ids:
        faults.append("the tokenizer does not know its own text")
    with torch.no_grad():
        labels = inputs["input_ids"]
        out = made(**inputs, labels=labels)
        out_again = loaded(**reloaded_inputs, labels=reloaded_inputs["input_ids"])
        if out.logits.shape != (*labels.shape, len(words)):
            faults.append(f"logits of shape {tuple(out.logits.shape)}")
        if not torch.isfinite(out.logits).all() or not math.isfinite(out.loss.item()):
            faults.append("logits or loss are not finite")
        if not torch.equal(out.logits, out_again.logits):
            faults.append("other logits after loading")
        generated = loaded.generate(
            **reloaded_inputs, min_new_tokens=NEW_TOKENS, max_new_tokens=NEW_TOKENS, do_sample=False
        )
    start = 1 if model == "t5" else reloaded_inputs["input_ids"].shape[1]
    count = generated.shape[1] - start
    if count != NEW_TOKENS or int(generated.max()) >= len(words):
        faults.append(f"{count} of {NEW_TOKENS} tokens were generated")
    return faults, count


def make_tiny(model: str, kind: str, options: argparse.Namespace, corpus: Sequence[str]) -> Row:
    """Make, save, load and try one model, and move it where it is to be; its row."""
    torch = import_package("torch")
    started = time.monotonic()
    name = f"{model}-{kind}"
    parent = options.out or Path(tempfile.gettempdir())
    partial = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=parent))
    try:
        if kind == "sentencepiece":
            words = make_sentencepiece_tokenizer(
                partial, corpus, options.vocabulary, options.sentencepiece
            )
        else:
            words = make_fast_tokenizer(kind, corpus, options.vocabulary)
        made = make_model(model, words, options.sizes)
        for parameter in made.parameters():
            # Not made.to(): tables that are no weights, as of rotary positions, stay as they are.
            parameter.data = parameter.data.to(getattr(torch, options.dtype))
        processor = make_processor(words) if model == "llava" else words
        made.save_pretrained(partial)
        processor.save_pretrained(partial)
        faults, count = find_model_faults(model, made, processor, *load_model(model, partial))
        row = make_unmade_row(model, kind, len(words), options.sizes)
        row["parameters"] = sum(parameter.numel() for parameter in made.parameters())
        row["bytes"] = sum(path.stat().st_size for path in partial.rglob("*") if path.is_file())
        if row["parameters"] != row["parameters_by_formula"]:
            faults.append("not as many parameters as by formula")
        row["tokens_generated"] = count
        row["verdict"] = "; ".join(faults) or "works"
        if options.out and not faults:
            partial.chmod(0o755)
            partial.rename(options.out / name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    row["seconds"] = round(time.monotonic() - started, 3)
    return row


def make_unmade_row(model: str, kind: str, vocabulary: int, sizes: Sizes) -> Row:
    """The row of a model that has not been made yet."""
    return {
        "model": model,
        "kind": MODELS[model],
        "tokenizer": kind,
        "vocabulary": vocabulary,
        "parameters": None,
        "parameters_by_formula": count_tiny_parameters(model, vocabulary, sizes),
        "bytes": None,
        "tokens_generated": None,
        "seconds": None,
        "verdict": "not made",
    }


def import_package(name: str, distribution: str | None = None) -> Any:
    """Import a package that not everybody has. Raises WrongUse."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        wanted = distribution or name
        raise WrongUse(f"this needs {wanted}: pip install {wanted} ({error})") from error


def find_missing_for(model: str, kind: str) -> list[str]:
    """The packages that are missing to make a model."""
    wanted = {"torch": "torch", "transformers": "transformers", "tokenizers": "tokenizers"}
    if kind == "sentencepiece":
        wanted |= {"sentencepiece": "sentencepiece", "google.protobuf": "protobuf"}
    if model == "llava":
        wanted |= {"PIL": "pillow"}
    missing = []
    for module, distribution in wanted.items():
        with contextlib.suppress(ModuleNotFoundError):  # of the part before the dot
            if importlib.util.find_spec(module) is not None:
                continue
        missing.append(distribution)
    return missing


def quieten_transformers() -> None:
    """No progress bars, and no news but errors."""
    transformers = import_package("transformers")
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()


def make_models(
    options: argparse.Namespace, command: Sequence[str], stop: StopSign, origin: float
) -> int:
    """Make the models, print and write what became of them; the exit status."""
    corpus = read_corpus(options.corpus) if options.corpus else make_corpus()
    rows: list[Row] = []
    caveats: list[str] = []
    stopped = ""
    wanted = [(model, kind) for model in options.models for kind in options.tokenizers]
    wanted = [(model, kind) for model, kind in wanted if kind != "sentencepiece" or model == "t5"]
    missing = sorted({name for model, kind in wanted for name in find_missing_for(model, kind)})
    if missing:
        words = f"{', '.join(missing)}: pip install {' '.join(missing)}"
        if options.out:
            raise WrongUse(f"--out: this needs {words}")
        caveats.append(f"some were not made, for want of {words}")
    is_new_out = options.out is not None and not options.out.exists()
    if is_new_out:
        options.out.mkdir()
    try:
        for model, kind in wanted:
            stop.check()
            if find_missing_for(model, kind):
                rows.append(make_unmade_row(model, kind, options.vocabulary, options.sizes))
                continue
            quieten_transformers()
            try:
                rows.append(make_tiny(model, kind, options, corpus))
            except WrongUse:
                raise
            except Exception as error:  # of a full disk safetensors has one of its own
                row = make_unmade_row(model, kind, options.vocabulary, options.sizes)
                rows.append({**row, "verdict": f"failed: {find_first_line(error)}"})
        stop.check()
    except Stopped as reason:
        stopped = str(reason)
        caveats.append(f"{stopped}, after {len(rows)} of {len(wanted)} models")
    finally:
        if is_new_out:
            with contextlib.suppress(OSError):  # there is something in it
                options.out.rmdir()
    is_printed = print_report(rows, caveats)
    problems = [row for row in rows if row["verdict"] not in ("works", "not made")]
    for row in problems:
        print(f"problem: {row['model']}-{row['tokenizer']}: {row['verdict']}", file=sys.stderr)
    if options.json:
        document = {
            **make_document_head("make_tiny_model", (__version__, METHOD), command, origin),
            "complete": not stopped,
            "units": UNITS,
            "results": rows,
            "caveats": caveats,
            "details": {
                "dtype": options.dtype,
                "sizes": options.sizes._asdict(),
                "platform": f"{platform.system()} {platform.machine()}",
                "python": platform.python_version(),
            },
        }
        write_document(options.json, document)
    return 1 if problems or stopped or not is_printed else 0


def print_report(rows: Sequence[Row], notes: Sequence[str]) -> bool:
    """The table to stdout, notes to stderr; False where stdout was not written."""
    cells = [
        [
            f"{row['model']}-{row['tokenizer']}",
            row["kind"],
            str(row["vocabulary"]),
            str(row["parameters_by_formula"]),
            "" if row["bytes"] is None else f"{row['bytes'] / 1000:.0f}",
            "" if row["tokens_generated"] is None else str(row["tokens_generated"]),
            "" if row["seconds"] is None else f"{row['seconds']:.1f}",
            row["verdict"],
        ]
        for row in rows
    ]
    headings = ["model", "kind", "vocabulary", "parameters", "KB", "generated", "seconds"]
    is_printed = not cells or print_to_stdout(format_table([*headings, "verdict"], cells))
    for note in notes:
        write_note(note)
    return is_printed


def hide_folders(text: str) -> str:
    """The text with absolute paths cut down to their last part: folders name people and hosts."""
    name, equals, value = text.partition("=")
    if equals and value.startswith(("/", "~")):
        return f"{name}={Path(value).name}"
    return Path(text).name if text.startswith(("/", "~")) else text


def make_portable_command(arguments: Sequence[str]) -> list[str]:
    """The command line as another machine would type it, without absolute paths."""
    script = Path(__file__)
    with contextlib.suppress(ValueError, OSError):  # a folder that was deleted has no name
        script = script.resolve().relative_to(Path.cwd().resolve())
    name = script.name if script.is_absolute() else script.as_posix()
    return ["python", name, *(hide_folders(argument) for argument in arguments)]


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write the JSON whole: under another name, then moved; a pipe or a device is written to, and
    a symbolic link followed. Raises WrongUse where it cannot be."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    target = path.resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def check_json_path(path: Path | None) -> None:
    """Raises WrongUse where --json names a folder, or a file in a folder that is not there or takes
    no files."""
    if path is None:
        return
    if path.is_dir():
        raise WrongUse(f"--json: {path} is a folder; name a file in it")
    target = path.resolve()
    if not target.parent.is_dir():
        raise WrongUse(f"--json: there is no folder {target.parent}")
    if path.exists() and not path.is_file():  # a pipe or a device, which writing shows
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def make_document_head(
    tool: str, numbers: tuple[str, int], command: Sequence[str], origin: float
) -> dict[str, Any]:
    """The opening of the JSON: tool, version and method, command, start, and seconds until now.

    `origin` is the reading of time.monotonic() when the run began.
    """
    seconds = time.monotonic() - origin
    started = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    return {
        "tool": tool,
        "version": numbers[0],
        "method": numbers[1],
        "command": list(command),
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(seconds, 3),
    }


def print_to_stdout(text: str) -> bool:
    """Print at once; False, with a line that says so, where stdout could not be written."""
    try:
        print(text, flush=True)
    except OSError as error:
        # Python would write once more what is left, as it ends: that goes nowhere now.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"problem: stdout could not be written: {error.strerror}", file=sys.stderr)
        return False
    return True


def write_note(text: str) -> None:
    """One note for the reader, beside the table."""
    print(f"note: {text}", file=sys.stderr)


def format_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and all others to the right."""
    cells = [list(headings), *(list(row) for row in rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(headings))]

    def join(row: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [f":{'-' * (w - 1)}" if i == 0 else f"{'-' * (w - 1)}:" for i, w in enumerate(widths)]
    return "\n".join([join(cells[0]), f"| {' | '.join(rule)} |", *map(join, cells[1:])])


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def run_self_test() -> int:
    """Check formulas, corpus and, where transformers is, one model; 0, or 1."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    sizes = Sizes(16, 2, 2)
    check("gpt2 by hand", count_tiny_parameters("gpt2", 400, sizes) == 15040)
    # 12800 + 2 (512 + 256 + 1536 + 32) + 16
    check("llama by hand", count_tiny_parameters("llama", 400, sizes) == 17488)
    # 6400 + 2 (3072 + 2048 + 80) + 32 + 128
    check("t5 by hand", count_tiny_parameters("t5", 400, sizes) == 16960)
    # 17488 + 16 + 3072 + 80 + 2 (1088 + 1024 + 32 + 16 + 64) + 64 + 544
    check("llava by hand", count_tiny_parameters("llava", 400, sizes) == 25712)
    check("the corpus is the same each time", make_corpus() == make_corpus())
    check("and holds the sample", SAMPLE in make_corpus())
    if find_missing_for("gpt2", "bpe"):
        write_note("models are left out: transformers is not installed")
    else:
        with tempfile.TemporaryDirectory(prefix="make_tiny_model_") as name:
            options = build_parser().parse_args(["--out", name])
            check_options(options)
            quieten_transformers()
            row = make_tiny("gpt2", "bpe", options, make_corpus())
            check(f"a gpt2 ({row['verdict']})", row["verdict"] == "works")
            left = [path.name for path in Path(name).iterdir()]
            check("is where it is to be", left == ["gpt2-bpe"])
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="make_tiny_model.py",
        description="Make tiny models with tokenizers of their own, offline, and try them.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--models", nargs="+", choices=MODELS, default=list(MODELS), help="which (default: all)"
    )
    parser.add_argument(
        "--tokenizers",
        nargs="+",
        choices=TOKENIZERS,
        default=["bpe"],
        help="which for each model (default: bpe)",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FOLDER",
        help="keep them there; it is made where it is not there yet (default: they are tried only)",
    )
    parser.add_argument("--corpus", type=Path, metavar="FILE", help="text to train tokenizers on")
    parser.add_argument(
        "--sentencepiece", type=Path, metavar="FILE", help="a SentencePiece model to cut down"
    )
    parser.add_argument(
        "--vocabulary",
        type=parse_count,
        default=400,
        metavar="N",
        help="entries of the tokenizers, at most (default: 400)",
    )
    parser.add_argument(
        "--hidden", type=parse_count, default=16, metavar="N", help="width (default: 16)"
    )
    parser.add_argument(
        "--layers", type=parse_count, default=2, metavar="N", help="layers (default: 2)"
    )
    parser.add_argument(
        "--heads", type=parse_count, default=2, metavar="N", help="of attention (default: 2)"
    )
    parser.add_argument(
        "--dtype", choices=DTYPES, default="float32", help="of the weights (default: float32)"
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"make_tiny_model {__version__} (method {METHOD})"
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense, before anything is made."""
    check_json_path(options.json)
    options.models = list(dict.fromkeys(options.models))
    options.tokenizers = list(dict.fromkeys(options.tokenizers))
    options.sizes = Sizes(options.hidden, options.layers, options.heads)
    if options.hidden % options.heads or options.hidden // options.heads % 2:
        raise WrongUse("--hidden has to be an even number times --heads")
    if options.sentencepiece and options.tokenizers == ["bpe"]:
        options.tokenizers = ["sentencepiece"]
    if options.sentencepiece and "sentencepiece" not in options.tokenizers:
        raise WrongUse("--sentencepiece goes with --tokenizers sentencepiece")
    if "sentencepiece" in options.tokenizers and "t5" not in options.models:
        raise WrongUse("--tokenizers sentencepiece goes with t5 alone")
    if "bpe" in options.tokenizers and options.vocabulary < LEAST_BPE:
        raise WrongUse(f"--vocabulary: bpe needs {LEAST_BPE} entries or more")
    if options.out is None:
        return
    if os.path.lexists(options.out) and not options.out.is_dir():
        raise WrongUse(f"--out: {options.out} is no folder")
    if not options.out.resolve().parent.is_dir():
        raise WrongUse(f"--out: there is no folder {options.out.resolve().parent}")
    for model in options.models:
        for kind in options.tokenizers:
            if os.path.lexists(options.out / f"{model}-{kind}"):
                raise WrongUse(f"--out: {model}-{kind} is there already; move it away first")


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    # Nothing is looked up anywhere; what reads this does so when it is imported.
    os.environ["HF_HUB_OFFLINE"] = "1"
    stop = StopSign()
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_options(options)
        stop.listen()
        return make_models(options, make_portable_command(arguments), stop, origin)
    except WrongUse as error:
        parser.error(str(error))
    except OSError as error:
        print(f"problem: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # in a self-test: a run listens for signals itself
        print("stopped", file=sys.stderr)
        return 1


def run_to_stdout(run: Callable[[], int]) -> int:
    """What `run` returns, once all that it printed is written; where stdout takes no more, a full
    disk or a closed pipe, one line says so, and it is 1."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, by `>&-`: then nobody wants to read it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - to the end
    try:
        try:
            status = run()
        except SystemExit as ended:  # --help, --version, and wrong use
            status = int(ended.code or 0)
        sys.stdout.flush()
    except OSError as error:
        kinds = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        if error.filename is not None or error.errno not in kinds:
            raise
        # What still waits would be complained of again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"stdout could not be written: {error.strerror}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(run_to_stdout(main))
