#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""How much memory does one transformer layer keep from its forward pass for the backward pass?

The unit is the hidden state: a tensor of batch x sequence x hidden. A layer keeps some tens of such
copies, and which ones depends on its kernels, on dropout, on recomputation and on autocast. From a
config alone this tool builds one layer with random weights, runs it, and counts.

Physics
    A plain GPT layer in 16 bit keeps  s b h (34 + 5 a s / h)  bytes, for sequence s, batch b,
    hidden size h and a heads (Korthikanti et al. 2022, arXiv:2205.05198, section 4.1): multi-head
    attention with all its matrices, an MLP of 4 h, dropout with masks of 1 byte.
    copies = bytes / (s b h x bytes of the data type).  Hand check: s = 2048, h = 12288, a = 96
    (GPT-3) has 5 a s / h = 80, so 114 bytes for each element, 57 copies, and with b = 1 a layer
    keeps 2.87 GB. Without the attention matrices (selective recomputation, or a fused kernel) it is
    34 bytes, 17 copies; with full recomputation the input alone, 2 bytes, 1 copy. Each row has the
    formula's own value for its variant.

What is measured
    The storages that autograd saves during forward (torch.autograd.graph.saved_tensors_hooks): each
    storage once, whole, however many views of it are saved; the first operation that saves it has
    it in the breakdown. On accelerators the growth of torch's allocated memory beside it, without
    the output: the two differ where a kernel keeps what autograd does not know of. The layer's
    input is part of it, its output is the next layer's.
What is not
    Parameters, and constants that all layers share (masks, rotary tables). Copies of weights in
    lower precision, which autocast makes, are told apart. Peaks within an operation, gradients, and
    what backward needs for itself: with recomputation that is the memory of one layer more.
    Shapes decide, values do not: a second run has to give the same bytes, and recomputation has to
    give the same gradients. Both are checked.

The layer
    Written here in plain torch, not taken from a library: --layer llama has RMSNorm, rotary
    positions, grouped k and v heads and SwiGLU; --layer gpt LayerNorm, multi-head attention, GELU,
    biases and dropout. --attention eager has the matrices by themselves; sdpa leaves the kernel to
    torch, which takes a fused one where it has one for this device, data type and dropout (on a CPU
    none with dropout), and else one that may keep more than eager. A note tells where that is so.
    --norm rms_float32 is RMSNorm by hand in float32, as many model libraries have it. --config
    reads the sizes of a Hugging Face config.json; no library and no network are needed.
    A library's own layer may keep more: copies of k and v for each head, casts to float32.

How to run
    a laptop        python activation_memory.py --layer gpt --hidden 1024 --heads 16 --sequence 512
    your model      python activation_memory.py --config config.json --sequence 4096
    what to do      python activation_memory.py --config config.json --attention eager sdpa \
                        --recompute none selective full
    autocast        python activation_memory.py --config config.json --autocast off on
    Slurm           srun --gpus 1 python activation_memory.py --config config.json --json out.json
    pdsh            pdsh -w node01 python /shared/activation_memory.py --config /shared/config.json

A good answer: --recompute full keeps 1 copy. Without recomputation and with sdpa a Llama-like layer
keeps 20 to 40 copies. Where eager keeps much more than sdpa, the attention matrices grow with the
square of the sequence: use the fused kernel before you recompute anything.

Seen running so far: on CPUs. The path for accelerators follows PyTorch's documentation and has not
been run on one yet; kernels of an accelerator save other things (RMSNorm and dropout save less).

Ctrl-C, SIGTERM and SIGUSR1 end the run between two operations: variants that are done are kept. One
operation of a large layer may take long on a CPU, and a second signal does not wait for it.

Exit status: 0 done, 1 gradients differ, two runs differ, a layer did not fit into memory, or
stopped by a signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import inspect
import json
import math
import os
import platform
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
# fmt: off
PROFILES = {
    "toy": [
        "--device", "cpu", "--layer", "gpt", "--hidden", "128", "--heads", "4",
        "--batch", "2", "--sequence", "64", "--attention", "eager", "--recompute", "none",
        "selective", "full",
    ],
    "full": [
        "--layer", "llama", "--sequence", "4096", "--attention", "eager", "sdpa",
        "--recompute", "none", "selective", "full", "--autocast", "off", "on",
    ],
}
# fmt: on

# The unit of each column of the JSON's results that holds numbers.
UNITS = {
    "hidden": "1",
    "heads": "1",
    "kv_heads": "1",
    "intermediate": "1",
    "dropout": "1",
    "batch": "1",
    "sequence": "1",
    "samples": "1",
    "saved_bytes": "B",
    "copies": "1",
    "formula_bytes": "B",
    "formula_copies": "1",
    "weight_copy_bytes": "B",
    "allocated_bytes": "B",
    "all_layers_bytes": "B",
    "gradient_error": "1",
}

DTYPES = {"bfloat16": 2, "float16": 2, "float32": 4}
ATTENTIONS = ("eager", "sdpa")
RECOMPUTE = ("none", "selective", "full")
NORMS = ("rms", "rms_float32", "layer")

# What Korthikanti et al. 2022 count for each part of a GPT layer: numbers and masks, of
# sequence x batch x hidden and of heads x sequence x sequence x batch. Masks have one byte each.
FORMULA = {
    "norm 1": (1, 0, 0, 0),
    "q k v projections": (1, 0, 0, 0),
    "rotary positions": (0, 0, 0, 0),
    "scores": (2, 0, 0, 0),
    "softmax": (0, 0, 1, 0),
    "attention dropout": (0, 0, 0, 1),
    "context": (1, 0, 1, 0),
    "output projection": (1, 0, 0, 0),
    "output dropout": (0, 1, 0, 0),
    "norm 2": (1, 0, 0, 0),
    "MLP projections": (1, 0, 0, 0),
    "MLP activation": (4, 0, 0, 0),
    "MLP output": (4, 0, 0, 0),
    "MLP dropout": (0, 1, 0, 0),
}
FUSED = ("scores", "softmax", "attention dropout", "context")
# What this layer names besides: one kernel, and what recomputation starts from.
FUSED_NAME = "attention kernel"
LAYER_INPUT = "layer input"

# Relative difference of gradients (Frobenius norm) with and without recomputation, which does the
# same sums again: equal, but for kernels that add up in another order.
GRADIENT_LIMITS = {"bfloat16": 2e-2, "float16": 5e-3, "float32": 1e-5}
# Of the allocator's growth beside what autograd saves: rounding to blocks of 512 bytes is less.
ALLOCATOR_MARGIN = 0.02
# A difference of copies in the breakdown that is worth a word.
NOTABLE_COPIES = 0.02

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


def tell_of_signals() -> None:
    """Say on stderr that a signal ends the run, at the moment it comes.

    Python runs a handler between two calls, and one call of torch may take minutes. A thread hears
    of a signal at once, and ends the process where the same signal comes again before the handler
    could run.
    """
    if os.name != "posix":
        return
    listening, speaking = os.pipe()
    os.set_blocking(speaking, False)
    signal.set_wakeup_fd(speaking, warn_on_full_buffer=False)

    def listen() -> None:
        heard: set[str] = set()
        while number := os.read(listening, 1):
            name = signal.Signals(number[0]).name
            if name not in ("SIGINT", "SIGTERM", "SIGUSR1"):
                continue
            if name in heard:
                print(f"{name} again: ended without results", file=sys.stderr, flush=True)
                os._exit(1)
            heard.add(name)
            text = f"{name}: the run stops after the call that is at work, with the results so far"
            print(text, file=sys.stderr, flush=True)

    threading.Thread(target=listen, daemon=True).start()


class Spec(NamedTuple):
    """The sizes and parts of a layer."""

    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    layers: int | None
    norm: str
    gated: bool
    rope: bool
    bias: bool
    qk_norm: bool
    dropout: float


class Variant(NamedTuple):
    """One way to run the layer."""

    attention: str
    recompute: str
    autocast: bool


class Saving(NamedTuple):
    """One storage that autograd saved: which operation was first, bytes, and data type."""

    operation: str
    size: int
    dtype: str
    is_weight_copy: bool


def parse_count(text: str) -> int:
    """A number of things to do or to show: a whole number from 1."""
    if not re.fullmatch(r"[1-9]\d*", text):
        raise argparse.ArgumentTypeError(f"'{text}' has to be a whole number from 1")
    return int(text)


def parse_probability(text: str) -> float:
    """A number from 0 and below 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' has to be a number from 0 and below 1")
    return value


def has_formula_matrices(variant: Variant) -> bool:
    """Whether the formula has attention matrices for a variant: a fused kernel makes none, and
    recomputation does not keep them."""
    return variant.attention == "eager" and variant.recompute == "none"


def count_formula_bytes(
    operation: str, spec: Spec, sizes: tuple[int, int, int], variant: Variant
) -> int:
    """What the published formula has for an operation of a variant, as if the layer were a GPT's.

    Multi-head attention of the layer's heads, an MLP of 4 x hidden, and dropout. `sizes` are
    batch, sequence and the bytes of the data type.
    """
    batch, sequence, element_bytes = sizes
    parts = FUSED if operation == FUSED_NAME else (operation,)
    hidden_size = batch * sequence * spec.hidden
    if variant.recompute == "full":
        return hidden_size * element_bytes if operation == LAYER_INPUT else 0
    matrix_size = spec.heads * sequence * sequence * batch if has_formula_matrices(variant) else 0
    total = 0
    for part in parts:
        numbers, masks, matrices, matrix_masks = FORMULA.get(part, (0, 0, 0, 0))
        total += hidden_size * (numbers * element_bytes + masks)
        total += matrix_size * (matrices * element_bytes + matrix_masks)
    return total


def count_formula_total(spec: Spec, sizes: tuple[int, int, int], variant: Variant) -> int:
    """The formula for the whole layer: in 16 bit  s b h (34 + 5 a s / h)  bytes.

    34 s b h  where no attention matrices are kept, and  2 s b h  with full recomputation.
    """
    return sum(count_formula_bytes(n, spec, sizes, variant) for n in (LAYER_INPUT, *FORMULA))


def find_first(config: Mapping[str, Any], *names: str) -> Any:
    """The value of the first of these names that is there and is not null."""
    return next((config[name] for name in names if config.get(name) is not None), None)


def read_config_spec(document: Mapping[str, Any]) -> Spec:
    """The layer of a Hugging Face config. Raises WrongUse for a kind that is not here."""
    config = document.get("text_config") or document
    for name in ("num_local_experts", "num_experts", "n_routed_experts"):
        if config.get(name):
            raise WrongUse(f"--config: this model has experts ({name}); only dense layers are here")
    if config.get("kv_lora_rank"):
        raise WrongUse(
            "--config: this model has latent attention (kv_lora_rank), which is not here"
        )
    if config.get("is_encoder_decoder"):
        raise WrongUse("--config: this model has an encoder and a decoder; only decoders are here")
    hidden = find_first(config, "hidden_size", "n_embd", "d_model")
    heads = find_first(config, "num_attention_heads", "n_head", "num_heads", "n_heads")
    if not (isinstance(hidden, int) and isinstance(heads, int) and hidden > 0 and heads > 0):
        raise WrongUse("--config: hidden_size and num_attention_heads are not both in it")
    norm = "rms" if "rms_norm_eps" in config else "layer"
    activation = str(find_first(config, "hidden_act", "hidden_activation", "activation_function"))
    model = str(config.get("model_type", ""))
    dropout = find_first(config, "hidden_dropout", "resid_pdrop", "hidden_dropout_prob") or 0.0
    kv_heads = find_first(config, "num_key_value_heads") or heads
    if config.get("multi_query"):
        kv_heads = 1
    spec = Spec(
        hidden=hidden,
        heads=heads,
        kv_heads=int(kv_heads),
        head_dim=int(find_first(config, "head_dim") or hidden // heads),
        intermediate=int(
            find_first(config, "intermediate_size", "n_inner", "ffn_dim") or 4 * hidden
        ),
        layers=find_first(config, "num_hidden_layers", "n_layer", "num_layers"),
        norm=norm,
        gated=norm == "rms" or activation in ("silu", "swish"),
        rope=bool(find_first(config, "rope_theta", "rope_parameters", "rope_scaling"))
        or norm == "rms",
        bias=norm == "layer",
        qk_norm=bool(config.get("use_qk_norm")) or model.startswith(("qwen3", "gemma3", "olmo2")),
        dropout=float(dropout),
    )
    check_spec(spec)
    return spec


def check_spec(spec: Spec) -> None:
    """Raises WrongUse where the sizes do not fit each other."""
    if spec.heads % spec.kv_heads:
        raise WrongUse(f"{spec.heads} heads cannot share {spec.kv_heads} k and v heads evenly")
    if spec.rope and spec.head_dim % 2:
        raise WrongUse(f"rotary positions need an even head size, and it is {spec.head_dim}")


def read_config(path: Path) -> Mapping[str, Any]:
    """The document of a config file. Raises WrongUse where it cannot be read."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongUse(f"--config: could not read {path}: {error.strerror}") from error
    except ValueError as error:
        raise WrongUse(f"--config: {path} is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise WrongUse(f"--config: {path} is no config: it holds no object")
    return document


def choose_spec(options: argparse.Namespace) -> Spec:
    """The layer of the command line. Raises WrongUse where it cannot be built."""
    if options.config:
        spec = read_config_spec(read_config(options.config))
    elif options.layer == "llama":
        # The sizes of Llama 3.1 8B.
        hidden, heads = options.hidden or 4096, options.heads or 32
        is_known = not (options.hidden or options.heads)
        spec = Spec(
            hidden, heads, 8 if is_known else heads, 0, 14336 if is_known else 0, None, "rms",
            True, True, False, False, 0.0,
        )  # fmt: skip
    else:
        # The sizes of GPT-2 XL, with the dropout of that time.
        hidden, heads = options.hidden or 1600, options.heads or 25
        spec = Spec(
            hidden, heads, heads, 0, 4 * hidden, None, "layer", False, False, True, False, 0.1
        )
    given = {
        name: getattr(options, name)
        for name in (
            "hidden heads kv_heads head_dim intermediate layers norm dropout qk_norm"
        ).split()
        if getattr(options, name) is not None
    }
    spec = spec._replace(**given)
    if not spec.head_dim:
        if spec.hidden % spec.heads:
            raise WrongUse(
                f"a hidden size of {spec.hidden} is no multiple of {spec.heads} heads; "
                "say --head_dim"
            )
        spec = spec._replace(head_dim=spec.hidden // spec.heads)
    if not spec.intermediate:
        # 8/3 of hidden, so that three matrices have the parameters of two of 4 x hidden.
        width = math.ceil(8 * spec.hidden / 3 / 64) * 64
        spec = spec._replace(intermediate=width)
    check_spec(spec)
    return spec


class SavedTensors:
    """What autograd saves while it listens, storage by storage."""

    def __init__(
        self, torch: Any, weights: Iterable[Any], constants: Iterable[Any], stop: StopSign
    ) -> None:
        self.torch = torch
        self.stop = stop
        self.weights = list(weights)
        self.operation = LAYER_INPUT
        self.ignored = {t.untyped_storage().data_ptr() for t in (*self.weights, *constants)}
        self.savings: dict[int, Saving] = {}
        # A storage that lives on cannot give its address to another one.
        self.alive: list[Any] = []

    def name(self, operation: str) -> None:
        """What is saved from here on is saved by this operation. Raises Stopped."""
        self.stop.check()
        self.operation = operation

    def pack(self, tensor: Any) -> Any:
        """Note a tensor that autograd saves, and let it be saved as it is."""
        storage = tensor.untyped_storage()
        address, size = storage.data_ptr(), storage.nbytes()
        if size and address not in self.ignored and address not in self.savings:
            dtype = str(tensor.dtype).removeprefix("torch.")
            copied = self._is_weight_copy(tensor)
            self.savings[address] = Saving(self.operation, size, dtype, copied)
            self.alive.append(tensor.detach())
        return tensor

    def unpack(self, tensor: Any) -> Any:
        """Give a tensor back to backward, between two operations of it. Raises Stopped."""
        self.stop.check()
        return tensor

    def _is_weight_copy(self, tensor: Any) -> bool:
        """Whether these are the numbers of a weight in another data type, as autocast makes."""
        for weight in self.weights:
            if weight.dtype == tensor.dtype or weight.numel() != tensor.numel():
                continue
            same = weight.detach().to(tensor.dtype)
            for seen in (tensor.detach(), tensor.detach().t() if tensor.dim() == 2 else None):
                if seen is not None and seen.shape == same.shape and self.torch.equal(seen, same):
                    return True
        return False

    @contextlib.contextmanager
    def listen(self) -> Iterator[None]:
        """Note what is saved within the block."""
        with self.torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack):
            yield

    def list_activations(self) -> list[Saving]:
        """What was saved without copies of weights."""
        return [saving for saving in self.savings.values() if not saving.is_weight_copy]


class Layer:
    """One transformer layer with random weights, in plain operations that say their names."""

    def __init__(self, torch: Any, device: Any, spec: Spec, dtype: Any, sequence: int) -> None:
        self.torch = torch
        self.spec = spec
        self.tell: Callable[[str], None] = lambda operation: None
        queries, keys = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
        sizes = {
            "q": (queries, spec.hidden),
            "k": (keys, spec.hidden),
            "v": (keys, spec.hidden),
            "o": (spec.hidden, queries),
            "up": (spec.intermediate, spec.hidden),
            "down": (spec.hidden, spec.intermediate),
        }
        if spec.gated:
            sizes["gate"] = (spec.intermediate, spec.hidden)
        generator = torch.Generator(device="cpu").manual_seed(0)
        self.weights: dict[str, Any] = {}
        for name, size in sizes.items():
            values = torch.randn(size, generator=generator) * 0.02
            self.weights[name] = values.to(device, dtype).requires_grad_()
            if spec.bias:
                self.weights[f"{name} bias"] = self._fill(size[0], 0.0, device, dtype)
        norms = {"norm1": spec.hidden, "norm2": spec.hidden}
        if spec.qk_norm:
            norms |= {"q norm": spec.head_dim, "k norm": spec.head_dim}
        for name, size_of_norm in norms.items():
            self.weights[name] = self._fill(size_of_norm, 1.0, device, dtype)
            if spec.norm == "layer":
                self.weights[f"{name} bias"] = self._fill(size_of_norm, 0.0, device, dtype)
        self.constants: dict[str, Any] = {}
        if spec.rope:
            steps = torch.arange(0, spec.head_dim, 2) / spec.head_dim
            angles = torch.outer(torch.arange(sequence).float(), 10000.0**-steps)
            angles = torch.cat((angles, angles), dim=-1)
            self.constants["cos"] = angles.cos().to(device, dtype)
            self.constants["sin"] = angles.sin().to(device, dtype)
        self.sequence = sequence

    def _fill(self, size: int, value: float, device: Any, dtype: Any) -> Any:
        return self.torch.full((size,), value, device=device, dtype=dtype).requires_grad_()

    def make_mask(self, device: Any, dtype: Any) -> None:
        """The causal mask that eager attention adds, once for all layers."""
        full = self.torch.full((self.sequence, self.sequence), -1e4, device=device, dtype=dtype)
        self.constants["mask"] = full.triu(1)

    def _apply(self, name: str, value: Any) -> Any:
        linear = self.torch.nn.functional.linear
        return linear(value, self.weights[name], self.weights.get(f"{name} bias"))

    def _normalise(self, name: str, value: Any) -> Any:
        weight = self.weights[name]
        functional = self.torch.nn.functional
        if self.spec.norm == "layer":
            return functional.layer_norm(value, weight.shape, weight, self.weights[f"{name} bias"])
        if self.spec.norm == "rms":
            return functional.rms_norm(value, weight.shape, weight, 1e-5)
        wide = value.float()
        wide = wide * self.torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return weight * wide.to(value.dtype)

    def _rotate(self, value: Any) -> Any:
        half = self.spec.head_dim // 2
        turned = self.torch.cat((-value[..., half:], value[..., :half]), dim=-1)
        return value * self.constants["cos"] + turned * self.constants["sin"]

    def _attend(self, q: Any, k: Any, v: Any, attention: str) -> Any:
        functional = self.torch.nn.functional
        groups = self.spec.heads // self.spec.kv_heads
        if attention == "sdpa":
            self.tell(FUSED_NAME)
            more = {"enable_gqa": True} if groups > 1 else {}
            return functional.scaled_dot_product_attention(
                q, k, v, dropout_p=self.spec.dropout, is_causal=True, **more
            )
        self.tell("scores")
        if groups > 1:
            k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
        scores = q @ k.transpose(-2, -1) * self.spec.head_dim**-0.5
        scores = scores + self.constants["mask"]
        self.tell("softmax")
        shares = scores.softmax(-1)
        self.tell("attention dropout")
        shares = functional.dropout(shares, self.spec.dropout) if self.spec.dropout else shares
        self.tell("context")
        return shares @ v

    def _drop(self, operation: str, value: Any) -> Any:
        self.tell(operation)
        if not self.spec.dropout:
            return value
        return self.torch.nn.functional.dropout(value, self.spec.dropout)

    def run(self, x: Any, attention: str, is_selective: bool = False) -> Any:
        """The output of the layer. Recomputes attention where that is asked for."""
        spec, functional = self.spec, self.torch.nn.functional
        self.tell("norm 1")
        y = self._normalise("norm1", x)
        self.tell("q k v projections")
        q, k, v = (
            self._apply(name, y).unflatten(-1, (-1, spec.head_dim)).transpose(1, 2)
            for name in "qkv"
        )
        if spec.qk_norm:
            self.tell("q k norms")
            q, k = self._normalise("q norm", q), self._normalise("k norm", k)
        if spec.rope:
            self.tell("rotary positions")
            q, k = self._rotate(q), self._rotate(k)
        if is_selective:
            y = self._recompute(
                "scores" if attention == "eager" else FUSED_NAME,
                lambda *qkv: self._attend(qkv[0], qkv[1], qkv[2], attention),
                *(q, k, v),
            )
        else:
            y = self._attend(q, k, v, attention)
        self.tell("output projection")
        y = self._apply("o", y.transpose(1, 2).flatten(2))
        x = x + self._drop("output dropout", y)
        self.tell("norm 2")
        y = self._normalise("norm2", x)
        self.tell("MLP projections")
        up = self._apply("up", y)
        gate = self._apply("gate", y) if spec.gated else None
        self.tell("MLP activation")
        y = functional.gelu(up) if gate is None else functional.silu(gate) * up
        self.tell("MLP output")
        y = self._apply("down", y)
        return x + self._drop("MLP dropout", y)

    def _recompute(self, operation: str, work: Callable[..., Any], *given: Any) -> Any:
        """What the work makes of what is given, which alone is kept: as that of the operation."""
        from torch.utils.checkpoint import checkpoint

        # The older of torch's two ways keeps the same bytes. The newer one, and what wraps both,
        # first import torch's compiler, which is not at work here.
        tell = self.tell
        # What is given is saved when the work is done: until then no part of it has the name.
        self.tell = lambda part: tell(operation)
        self.tell(operation)
        try:
            return inspect.unwrap(checkpoint)(work, *given, use_reentrant=True)
        finally:
            self.tell = tell

    def run_variant(self, x: Any, variant: Variant) -> Any:
        """The output of the layer as the variant has it."""
        if variant.recompute == "full":
            return self._recompute(LAYER_INPUT, lambda given: self.run(given, variant.attention), x)
        return self.run(x, variant.attention, variant.recompute == "selective")


class LayerRun(NamedTuple):
    """One run of a variant: what was saved, what the allocator grew by, and the gradient."""

    savings: list[Saving]
    weight_copy_bytes: int
    allocated_bytes: int | None
    gradient: Any


def measure_layer(
    torch: Any, device: Any, layer: Layer, variant: Variant, x: Any, dtype: Any, stop: StopSign
) -> LayerRun:
    """Run the layer forward with ears open, and backward.

    Raises RuntimeError without memory, and Stopped.
    """
    torch.manual_seed(1)
    x = x.detach().requires_grad_()
    for weight in layer.weights.values():
        weight.grad = None
    ears = SavedTensors(torch, layer.weights.values(), layer.constants.values(), stop)
    layer.tell = ears.name
    allocated = read_allocated(torch, device)
    with contextlib.ExitStack() as stack:
        if variant.autocast:
            stack.enter_context(torch.autocast(device.type, dtype))
        stack.enter_context(ears.listen())
        out = layer.run_variant(x, variant)
    grown = None
    if allocated is not None:
        after = read_allocated(torch, device)
        grown = None if after is None else after - allocated - out.untyped_storage().nbytes()
        # x was there before, and is part of what the layer keeps.
        grown = None if grown is None else grown + x.untyped_storage().nbytes()
    layer.tell = lambda operation: stop.check()
    out.float().pow(2).mean().backward()
    copied = sum(saving.size for saving in ears.savings.values() if saving.is_weight_copy)
    return LayerRun(ears.list_activations(), copied, grown, x.grad.float())


def read_allocated(torch: Any, device: Any) -> int | None:
    """Bytes that torch has given out on the device; None where it does not count them."""
    if device.type == "cpu":
        return None
    module = torch.get_device_module(device.type)
    if not hasattr(module, "memory_allocated"):
        return None
    torch.accelerator.synchronize(device)
    return int(module.memory_allocated(device))


def measure_gradient_error(torch: Any, gradient: Any, reference: Any) -> float:
    """How far a gradient is from another, relative to it; infinite where it is not finite."""
    size = float(torch.linalg.vector_norm(reference))
    error = float(torch.linalg.vector_norm(gradient - reference))
    if not (math.isfinite(error) and size > 0):
        return math.inf
    return error / size


def sum_by(savings: Iterable[Saving], field: str) -> dict[str, int]:
    """Bytes by operation or by data type, in the order in which they were saved."""
    sums: dict[str, int] = {}
    for saving in savings:
        name = getattr(saving, field)
        sums[name] = sums.get(name, 0) + saving.size
    return sums


def explain_difference(
    operation: str,
    spec: Spec,
    variant: Variant,
    device_kind: str,
    difference: float,
    has_float32: bool = False,
    has_kernel: bool = True,
) -> str:
    """Why an operation keeps another amount than the published formula has; empty where no cause
    is known. `difference` is in copies; `has_float32` tells that some of it is in float32, and
    `has_kernel` that sdpa took a fused kernel."""
    reasons = []
    is_attention = operation in FUSED or operation == FUSED_NAME
    if variant.recompute == "selective" and is_attention:
        return "q, k and v are kept, the rest is recomputed"
    if operation.startswith("norm"):
        if spec.norm == "rms_float32":
            reasons.append("float32 values and the cast are kept")
        elif spec.norm == "rms" and difference > NOTABLE_COPIES:
            wide = ", in float32" if has_float32 else ""
            reasons.append(f"kernel keeps the normalised values too{wide}")
    if operation == FUSED_NAME:
        no_kernel = "no fused kernel for this: matrices are kept"
        reasons.append("q, k, v and the output" if has_kernel else no_kernel)
    if operation == FUSED_NAME and spec.kv_heads < spec.heads:
        reasons.append(f"k and v of {spec.kv_heads} heads")
    if spec.heads * spec.head_dim != spec.hidden and (is_attention or operation.startswith("out")):
        reasons.append(f"heads are {spec.heads * spec.head_dim / spec.hidden:.3g} x hidden wide")
    if operation in ("scores", "context") and difference > NOTABLE_COPIES:
        reasons.append("heads are made contiguous")
    if operation == "output projection" and variant.attention == "sdpa" and difference < 0:
        reasons.append("its input is the kernel's output, counted there")
    if operation in ("MLP activation", "MLP output"):
        width = spec.intermediate / spec.hidden
        if spec.gated and operation == "MLP activation":
            reasons.append(f"SwiGLU keeps 3 x {width:.3g}")
        elif width != 4:
            reasons.append(f"{width:.3g} x hidden wide")
    if "dropout" in operation:
        if not spec.dropout:
            reasons.append("no dropout")
        elif device_kind == "cpu" and difference > 0:
            reasons.append("mask in the data type, not in bytes")
    if operation in ("q k norms", "rotary positions"):
        reasons.append("not in a GPT")
    if variant.autocast and difference > NOTABLE_COPIES:
        if operation.endswith("projections"):
            reasons.append("autocast casts the input for each projection")
        elif has_float32:
            reasons.append("in float32 by autocast")
    return "; ".join(reasons)


def is_fused(
    savings: Sequence[Saving], spec: Spec, sizes: tuple[int, int, int], variant: Variant
) -> bool | None:
    """Whether sdpa keeps less than the formula has with matrices; None where it is not asked for,
    or recomputed."""
    if variant.attention != "sdpa" or variant.recompute != "none":
        return None
    with_matrices = count_formula_bytes(
        FUSED_NAME, spec, sizes, variant._replace(attention="eager")
    )
    return sum_by(savings, "operation").get(FUSED_NAME, 0) < with_matrices


def find_kernel_caveats(study: LayerStudy) -> list[str]:
    """Where sdpa took no fused kernel: the variants, and whether they keep more than eager."""
    caveats = []
    for row, breakdown in zip(study.rows, study.breakdowns, strict=True):
        if breakdown["fused"] is not False:
            continue
        alike = [
            other["saved_bytes"]
            for other in study.rows
            if other["attention"] == "eager"
            and (other["recompute"], other["autocast"]) == ("none", row["autocast"])
        ]
        more = ""
        if alike and row["saved_bytes"] > alike[0]:
            kept = f"{format_memory(row['saved_bytes'])} against {format_memory(alike[0])}"
            more = f", and keeps more than eager ({kept})"
        caveats.append(
            f"{breakdown['variant']}: torch has no fused kernel for this layer here{more}; "
            "see --breakdown"
        )
    return caveats


def make_breakdown(
    savings: Sequence[Saving],
    spec: Spec,
    variant: Variant,
    sizes: tuple[int, int, int],
    device_kind: str,
) -> list[Row]:
    """Each operation's bytes beside the formula's, in the order of the layer.

    `sizes` are batch, sequence and the bytes of the data type.
    """
    batch, sequence, element = sizes
    unit = batch * sequence * spec.hidden * element
    saved = sum_by(savings, "operation")
    has_kernel = is_fused(savings, spec, sizes, variant)
    order = [LAYER_INPUT, "norm 1", "q k v projections", "q k norms", "rotary positions"]
    order += [FUSED_NAME] if variant.attention == "sdpa" else list(FUSED)
    order += ["output projection", "output dropout", "norm 2", "MLP projections"]
    order += ["MLP activation", "MLP output", "MLP dropout"]
    rows = []
    for operation in order:
        size = saved.get(operation, 0)
        formula = count_formula_bytes(operation, spec, sizes, variant)
        if not (size or formula):
            continue
        difference = (size - formula) / unit
        by_dtype = sum_by([saving for saving in savings if saving.operation == operation], "dtype")
        why = ""
        if abs(difference) > NOTABLE_COPIES:
            why = explain_difference(
                operation,
                spec,
                variant,
                device_kind,
                difference,
                "float32" in by_dtype,
                has_kernel is not False,
            )
        rows.append(
            {
                "operation": operation,
                "bytes": size,
                "copies": size / unit,
                "formula_bytes": formula,
                "formula_copies": formula / unit,
                "by_dtype": by_dtype,
                "why": why,
            }
        )
    return rows


def choose_variant_verdict(row: Row) -> str:
    """One or two words on how far to trust a row: the worst that applies."""
    if not row["gradient_ok"]:
        return "WRONG GRADIENT"
    if not row["repeats"]:
        return "not repeatable"
    allocated = row["allocated_bytes"]
    if allocated is not None:
        kept = row["saved_bytes"] + row["weight_copy_bytes"]
        if abs(allocated - kept) > ALLOCATOR_MARGIN * max(allocated, kept):
            return "allocator differs"
    return "ok"


def choose_device(torch: Any, name: str | None, local_rank: int = 0) -> Any:
    """The torch.device asked for, or the accelerator of this rank, or the CPU.

    Raises WrongUse where this torch has no such device.
    """
    has_accelerator = hasattr(torch, "accelerator") and torch.accelerator.is_available()
    present = torch.accelerator.current_accelerator().type if has_accelerator else "cpu"
    try:
        device = torch.device(name or present)
    except RuntimeError as error:
        known = f"{present} or cpu" if has_accelerator else "cpu"
        raise WrongUse(f"--device {name}: no device of torch; here it is {known}") from error
    if device.type == "cpu":
        return device
    if device.type != present:
        here = present if has_accelerator else "no accelerator, only cpu"
        raise WrongUse(f"--device {name}: this torch sees {here}")
    count = torch.accelerator.device_count()
    index = device.index if device.index is not None else local_rank
    if index >= count:
        raise WrongUse(f"device {index} of {device.type} is not there: there are {count}, from 0")
    device = torch.device(device.type, index)
    set_device = getattr(torch.get_device_module(device.type), "set_device", None)
    if set_device:  # a kind that is only ever one device has none
        set_device(index)
    return device


def describe_device(torch: Any, device: Any) -> str:
    """What the vendor calls the device."""
    if device.type == "cpu":
        return platform.machine() or "cpu"
    try:
        properties = torch.get_device_module(device.type).get_device_properties(device)
    except (AttributeError, RuntimeError, TypeError):
        return str(device.type)
    return str(getattr(properties, "name", None) or device.type)


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


def write_note(text: str) -> None:
    """One note for the reader, beside the table."""
    print(f"note: {text}", file=sys.stderr)


def is_out_of_memory(error: RuntimeError) -> bool:
    """The device, or the machine, has no memory for this shape."""
    text = str(error).lower()
    return type(error).__name__ == "OutOfMemoryError" or "allocate memory" in text


def import_torch() -> Any:
    """The torch module; raises WrongUse with what to do where there is none."""
    try:
        import torch
    except ImportError as error:
        raise WrongUse(
            f"torch does not import ({error}); install it: https://pytorch.org/get-started/locally"
        ) from error
    return torch


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


def format_memory(size: float | None) -> str:
    """`2.87 GiB`: three digits in the binary unit that leaves 1 to 1023; a dash for None."""
    if size is None:
        return "-"
    power = 0
    while abs(size) >= 999.5 and power < 4:
        size /= 1024
        power += 1
    digits = 0 if power == 0 else max(0, 2 - math.floor(math.log10(max(abs(size), 1.0))))
    return f"{size:.{digits}f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


class LayerStudy:
    """What was measured so far."""

    def __init__(self) -> None:
        self.header: dict[str, Any] = {}
        self.rows: list[Row] = []
        self.breakdowns: list[dict[str, Any]] = []
        self.caveats: list[str] = []
        self.complete = False
        self.failures: list[str] = []


def study_variants(options: argparse.Namespace, stop: StopSign) -> LayerStudy:
    """Measure all variants that were asked for. Raises WrongUse."""
    spec = choose_spec(options)
    torch = import_torch()
    device = choose_device(torch, options.device)
    dtype = getattr(torch, options.dtype)
    study = LayerStudy()
    study.header = {
        "device_kind": device.type,
        "device_model": describe_device(torch, device),
        "spec": spec._asdict(),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    variants = [
        Variant(attention, recompute, autocast == "on")
        for autocast in options.autocast
        for attention in options.attention
        for recompute in options.recompute
    ]
    references: dict[tuple[str, bool], Any] = {}
    layers: dict[Any, Layer] = {}
    sequence = options.sequence or (2048 if device.type != "cpu" else 256)
    try:
        for variant in variants:
            stop.check()
            # Autocast lowers the precision of operations; weights and hidden states are float32.
            own_dtype = torch.float32 if variant.autocast else dtype
            if own_dtype not in layers:
                layers.clear()
                layers[own_dtype] = Layer(torch, device, spec, own_dtype, sequence)
            layer = layers[own_dtype]
            if variant.attention == "eager" and "mask" not in layer.constants:
                layer.make_mask(device, own_dtype)
            try:
                row, breakdown = study_variant(
                    torch, device, layer, variant, options, references, sequence, stop
                )
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                name = name_variant(variant)
                study.failures.append(f"{name}: it did not fit into memory; try a lower --sequence")
                continue
            study.rows.append(row)
            study.breakdowns.append(breakdown)
        study.complete = not study.failures
    except Stopped as stopped:
        study.caveats.append(f"{stopped}, after {len(study.rows)} of {len(variants)} variants")
    study.caveats += find_kernel_caveats(study) + study.failures
    return study


def name_variant(variant: Variant) -> str:
    """`sdpa, recompute none`: a variant in a few words."""
    autocast = ", autocast" if variant.autocast else ""
    return f"{variant.attention}, recompute {variant.recompute}{autocast}"


def study_variant(
    torch: Any,
    device: Any,
    layer: Layer,
    variant: Variant,
    options: argparse.Namespace,
    references: dict[tuple[str, bool], Any],
    sequence: int,
    stop: StopSign,
) -> tuple[Row, dict[str, Any]]:
    """A row of results and its breakdown.

    Raises RuntimeError where it does not fit into memory, and Stopped.
    """
    spec = layer.spec
    dtype = getattr(torch, options.dtype)
    own_dtype = torch.float32 if variant.autocast else dtype
    generator = torch.Generator(device="cpu").manual_seed(2)
    x = torch.randn((options.batch, sequence, spec.hidden), generator=generator)
    x = x.to(device, own_dtype)
    if device.type != "cpu":
        # Libraries take workspaces at their first call, which stay allocated.
        measure_layer(torch, device, layer, variant, x, dtype, stop)
    first = measure_layer(torch, device, layer, variant, x, dtype, stop)
    again = measure_layer(torch, device, layer, variant, x, dtype, stop)
    key = (variant.attention, variant.autocast)
    if variant.recompute == "none":
        references[key] = first.gradient
    # Without the variant that recomputes nothing there is the second run to compare with.
    reference = references.get(key, again.gradient)
    error = measure_gradient_error(torch, first.gradient, reference)
    element = DTYPES[options.dtype]
    saved = sum(saving.size for saving in first.savings)
    sizes = (options.batch, sequence, element)
    formula = count_formula_total(spec, sizes, variant)
    unit = options.batch * sequence * spec.hidden * element
    row: Row = {
        "attention": variant.attention,
        "recompute": variant.recompute,
        "autocast": variant.autocast,
        "dtype": options.dtype,
        "norm": spec.norm,
        "mlp": "gated" if spec.gated else "plain",
        "hidden": spec.hidden,
        "heads": spec.heads,
        "kv_heads": spec.kv_heads,
        "intermediate": spec.intermediate,
        "dropout": spec.dropout,
        "batch": options.batch,
        "sequence": sequence,
        "samples": 2,
        "saved_bytes": saved,
        "copies": saved / unit,
        "formula_bytes": formula,
        "formula_copies": formula / unit,
        "weight_copy_bytes": first.weight_copy_bytes,
        "allocated_bytes": first.allocated_bytes,
        "all_layers_bytes": saved * spec.layers if spec.layers else None,
        "repeats": first.savings == again.savings,
        "gradient_error": error if math.isfinite(error) else None,
        "gradient_ok": error <= GRADIENT_LIMITS[options.dtype],
    }
    row["verdict"] = choose_variant_verdict(row)
    breakdown = {
        "variant": name_variant(variant),
        "fused": is_fused(first.savings, spec, sizes, variant),
        "operations": make_breakdown(first.savings, spec, variant, sizes, device.type),
        "by_dtype": sum_by(first.savings, "dtype"),
    }
    return row, breakdown


def print_breakdown(breakdown: Mapping[str, Any]) -> None:
    """The table of one variant's operations."""
    lines = [
        [
            part["operation"],
            format_memory(part["bytes"]),
            f"{part['copies']:.2f}",
            f"{part['formula_copies']:.2f}",
            part["why"],
        ]
        for part in breakdown["operations"]
    ]
    types = ", ".join(f"{format_memory(v)} {k}" for k, v in breakdown["by_dtype"].items())
    print(f"\n{breakdown['variant']}: {types}\n")
    headings = ["Operation", "Kept", "Copies", "Formula", "Why they differ"]
    print(format_table(headings, lines))


def print_report(study: LayerStudy, command: Sequence[str], is_long: bool) -> int:
    """The tables to stdout, notes to stderr; the number of problems."""
    print(f"activation_memory {__version__} (method {METHOD})", file=sys.stderr)
    print(f"command: {' '.join(command)}", file=sys.stderr)
    for name, value in study.header.items():
        shown = value
        if name == "spec":
            shown = " ".join(f"{k}={v}" for k, v in value.items() if v is not None)
        print(f"{name.replace('_', ' ')}: {shown}", file=sys.stderr)
    lines = []
    has_layers = any(row["all_layers_bytes"] for row in study.rows)
    for row in study.rows:
        line = [
            f"{row['attention']}, {row['recompute']}",
            "on" if row["autocast"] else "off",
            format_memory(row["saved_bytes"]),
            f"{row['copies']:.2f}",
            f"{row['formula_copies']:.2f}",
            format_memory(row["weight_copy_bytes"]) if row["weight_copy_bytes"] else "-",
            format_memory(row["allocated_bytes"]),
        ]
        line += [format_memory(row["all_layers_bytes"])] if has_layers else []
        lines.append([*line, row["verdict"]])
    headings = ["Attention, recompute", "Autocast", "Kept", "Copies", "Formula, copies"]
    headings += ["Weights cast", "Allocator"] + (["All layers"] if has_layers else [])
    if lines:
        print(format_table([*headings, "Verdict"], lines))
    shown = study.breakdowns if is_long else study.breakdowns[:1]
    for breakdown in shown:
        print_breakdown(breakdown)
    if len(shown) < len(study.breakdowns):
        write_note("--breakdown prints the operations of the other variants too")
    for caveat in study.caveats:
        write_note(caveat)
    problems = list(study.failures)
    for verdict in ("WRONG GRADIENT", "not repeatable"):
        count = sum(row["verdict"] == verdict for row in study.rows)
        if count:
            problems.append(f"{count} of {len(study.rows)} rows: {verdict}")
    if not study.rows:
        problems.append("nothing was measured")
    if any(row["verdict"] == "allocator differs" for row in study.rows):
        write_note(
            "the allocator grew by another amount than autograd saved: a kernel keeps what "
            "autograd does not know of, or something else allocates on this device"
        )
    for problem in problems:
        print(f"problem: {problem}", file=sys.stderr)
    return len(problems)


def make_study_document(study: LayerStudy, command: Sequence[str], origin: float) -> dict[str, Any]:
    """The JSON document: base units, no NaN."""
    head = make_document_head("activation_memory", (__version__, METHOD), command, origin)
    return {
        **head,
        "complete": study.complete,
        "units": UNITS,
        "results": study.rows,
        "caveats": study.caveats,
        "details": {"header": study.header, "breakdowns": study.breakdowns},
    }


def run_self_test() -> int:
    """Check the formula, and a real layer against sums by hand; 0, or 1 where a check fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    gpt3 = Spec(12288, 96, 96, 128, 49152, 96, "layer", False, False, True, False, 0.1)
    unit, sizes = 2048 * 12288, (1, 2048, 2)
    for attention, recompute, size in (
        ("eager", "none", 34 + 80),
        ("sdpa", "none", 34),
        ("eager", "selective", 34),
        ("eager", "full", 2),
    ):
        variant = Variant(attention, recompute, False)
        found = count_formula_total(gpt3, sizes, variant)
        check(f"GPT-3, {name_variant(variant)}: {size} s b h bytes", found == size * unit)
    plain = Variant("eager", "none", False)
    fused = sum(count_formula_bytes(name, gpt3, sizes, plain) for name in FUSED)
    check(
        "one kernel stands for its parts",
        fused == count_formula_bytes(FUSED_NAME, gpt3, sizes, plain),
    )
    with tempfile.TemporaryDirectory(prefix="activation_") as folder:
        path = Path(folder) / "config.json"
        config = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}
        config |= {"intermediate_size": 192, "num_hidden_layers": 3, "rms_norm_eps": 1e-5}  # type: ignore[dict-item]
        path.write_text(json.dumps(config), encoding="utf-8")
        arguments = ["--config", str(path), "--device", "cpu", "--dtype", "float32"]
        arguments += ["--norm", "layer", "--batch", "2", "--sequence", "16", "--attention", "eager"]
        options = build_parser().parse_args([*arguments, "--recompute", "none", "full"])
        study = study_variants(options, StopSign())
    check("both variants were measured", [row["verdict"] for row in study.rows] == ["ok", "ok"])
    # Of 64 x 2 x 16 numbers: x, norm, q and k copied to 4 heads, v likewise, context, x, norm, and
    # 4 x 3 of the MLP make 8 + 12; softmax 4 heads x 16 / 64; each LayerNorm 2 numbers a token.
    by_hand = 2 * 16 * (64 * (8 + 12) + 4 * 16 + 4)
    check(
        "a Llama-like layer keeps what a sum by hand has",
        study.rows[0]["saved_bytes"] == 4 * by_hand,
    )
    check("recomputing all keeps one copy", study.rows[1]["copies"] == 1.0)
    parts = study.breakdowns[0]["operations"]
    total = sum(part["bytes"] for part in parts)
    check("the operations add up to the layer", total == study.rows[0]["saved_bytes"])
    check("three layers are three times one", study.rows[0]["all_layers_bytes"] == 3 * total)
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="activation_memory.py",
        description="Measure what one transformer layer keeps in forward, in hidden states.",
        epilog="The docstring at the top of this file tells what is counted and how to run it.",
        allow_abbrev=False,
    )
    layer = parser.add_argument_group("layer")
    layer.add_argument("--config", type=Path, metavar="PATH", help="a Hugging Face config.json")
    layer.add_argument(
        "--layer", choices=("llama", "gpt"), help="without --config (default: llama, of 8B sizes)"
    )
    for name in ("hidden", "heads", "kv_heads", "head_dim", "intermediate", "layers"):
        layer.add_argument(f"--{name}", type=parse_count, metavar="N", help="instead of the above")
    layer.add_argument("--norm", choices=NORMS, help="RMSNorm in one call, by hand, or LayerNorm")
    layer.add_argument(
        "--qk_norm", action="store_const", const=True, help="normalise q and k of each head"
    )
    layer.add_argument(
        "--dropout", type=parse_probability, metavar="P", help="(default: the config's)"
    )
    variants = parser.add_argument_group("variants: each with each")
    variants.add_argument("--attention", choices=ATTENTIONS, nargs="+", default=["sdpa"])
    variants.add_argument("--recompute", choices=RECOMPUTE, nargs="+", default=["none"])
    variants.add_argument("--autocast", choices=("off", "on"), nargs="+", default=["off"])
    sizes = parser.add_argument_group("sizes")
    sizes.add_argument("--batch", type=parse_count, default=1, metavar="N", help="(default: 1)")
    sizes.add_argument(
        "--sequence", type=parse_count, metavar="N", help="(default: 2048, and 256 on a CPU)"
    )
    sizes.add_argument("--dtype", choices=tuple(DTYPES), default="bfloat16")
    parser.add_argument("--device", metavar="DEVICE", help="cuda:1, xpu, cpu (default: the first)")
    parser.add_argument("--breakdown", action="store_true", help="print all variants' operations")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"activation_memory {__version__} (method {METHOD})"
    )
    return parser


def check_options(options: argparse.Namespace) -> None:
    """Raises WrongUse for what makes no sense, before torch is imported."""
    check_json_path(options.json)
    if options.config and options.layer:
        raise WrongUse("--config tells the kind of layer; leave --layer out")
    for name in ("attention", "recompute", "autocast"):
        given = getattr(options, name)
        if len(set(given)) < len(given):
            raise WrongUse(f"--{name} names something twice")
    if "on" in options.autocast and options.dtype == "float32":
        raise WrongUse("--autocast lowers the precision: --dtype has to be bfloat16 or float16")
    options.layer = options.layer or "llama"
    choose_spec(options)


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    command = make_portable_command(arguments)
    stop = StopSign()
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_options(options)
        stop.listen()
        tell_of_signals()
        study = study_variants(options, stop)
        problems = run_to_stdout(lambda: print_report(study, command, options.breakdown))
        if options.json:
            write_document(options.json, make_study_document(study, command, origin))
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a run listens for signals itself
        print("stopped", file=sys.stderr)
        return 1
    return 1 if problems or not study.complete else 0


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
