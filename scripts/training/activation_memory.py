#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""How much memory does one transformer layer keep from its forward pass for the backward pass?

The unit is the hidden state: a tensor of batch x sequence x hidden. A layer keeps some tens of such
copies; which ones depends on its kernels, dropout, activation checkpointing and autocast. From a
config alone this tool builds one layer with random weights, runs it, and counts.

## Formulas

A plain GPT layer in 16 bit keeps `s b h (34 + 5 a s / h)` bytes, for sequence s, batch b, hidden
size h and a heads (Korthikanti et al. 2022, arXiv:2205.05198, section 4.1): attention with all its
matrices, an MLP of 4 h, dropout masks of 1 byte. `copies = bytes / (s b h * bytes per element)`.
GPT-3 (s = 2048, h = 12288, a = 96) has 5 a s / h = 80, so 114 bytes per element, 57 copies. Without
the attention matrices (selective recomputation, or a fused kernel) it is 34 bytes, 17 copies; with
full recomputation the input alone, 1 copy. Each row shows the formula's value for its variant.

## What is measured

The storages that autograd saves in forward (torch.autograd.graph.saved_tensors_hooks): each one
once, however many views of it are saved, for the first operation that saves it. On accelerators
also the growth of torch's allocated memory, which differs where a kernel keeps what autograd does
not know of. The layer's input counts, its output is the next layer's. Not counted: parameters,
constants that all layers share, peaks, gradients. Copies of weights, which autocast makes, are a
column of their own. A second run has to give the same bytes, and recomputation the same gradients.

The layer is plain torch: `llama` has RMSNorm, rotary positions, grouped k and v heads and SwiGLU;
`gpt` LayerNorm, multi-head attention, GELU, biases and dropout. `--norm rms_float32` is RMSNorm
written out in float32, as many model libraries have it. A library's own layer may keep more.

## How to run

    # a Hugging Face config.json is enough; no library and no network are needed
    python activation_memory.py --config config.json --sequence 4096 --attention eager sdpa \
        --recompute none selective full --autocast off on
    # Slurm, pdsh
    srun --gpus 1 python activation_memory.py --config config.json --json out.json
    pdsh -w node1 'python /shared/activation_memory.py --config /shared/config.json'

## A good answer

`--recompute full` keeps 1 copy. Without recomputation and with sdpa a Llama-like layer keeps 20 to
40. Where eager keeps much more than sdpa, use the fused kernel before you recompute anything.

Exit status: 0 done; 1 gradients or two runs differ, a layer did not fit into memory, or a signal;
2 wrong use.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import math
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, positive_int, start
from kit.device import choose_device, describe_run, import_torch, is_out_of_memory, synchronize
from kit.report import Report, Row, format_table, read_json
from kit.stop import Stop, Stopped

__version__ = "0.2.0"
METHOD = 1

PROFILES = {
    "demo": [
        "--device", "cpu", "--layer", "gpt", "--hidden", "128", "--heads", "4", "--batch", "2",
        "--sequence", "64", "--attention", "eager", "--recompute", "none", "selective", "full",
    ],
    "full": [
        "--layer", "llama", "--sequence", "4096", "--attention", "eager", "sdpa",
        "--recompute", "none", "selective", "full", "--autocast", "off", "on",
    ],
}  # fmt: skip
GPUS = {"full": 1}
COUNTS = ("hidden", "heads", "kv_heads", "intermediate", "dropout", "batch", "sequence", "samples")
SIZES = ("saved", "formula", "weight_copy", "allocated", "all_layers")
UNITS = {
    **dict.fromkeys((*COUNTS, "copies", "formula_copies", "gradient_error"), "1"),
    **{f"{name}_bytes": "B" for name in SIZES},
}
GRADIENT_LIMITS = {"bfloat16": 2e-2, "float16": 5e-3, "float32": 1e-5}
"""Relative difference (Frobenius norm): the same sums, but for kernels with another order."""
ALLOCATOR_MARGIN = 0.02


class Spec(NamedTuple):
    """The sizes and parts of a layer; a size of 0 follows from the others."""

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


Saving = tuple[str, int, str, bool]
"""A storage that autograd saved: operation, bytes, data type, and whether it is a weight's copy."""
PRESETS = {
    "llama": Spec(4096, 32, 8, 128, 14336, None, "rms", True, True, False, False, 0.0),
    "gpt": Spec(1600, 25, 25, 64, 6400, None, "layer", False, False, True, False, 0.1),
}
"""Llama 3.1 8B, and GPT-2 XL with the dropout of its time."""


class Variant(NamedTuple):
    """One way to run the layer."""

    attention: str
    recompute: str
    autocast: bool

    def __str__(self) -> str:
        return f"{self.attention}, recompute {self.recompute}" + ", autocast" * self.autocast


def read_spec(path: str) -> Spec:
    """The layer of a Hugging Face config.json. Raises UsageError for a kind that is not here."""
    document = read_json("--config", path)
    config = document.get("text_config") or document if isinstance(document, dict) else {}

    def find(*names: str, default: Any = None) -> Any:
        return next((config[name] for name in names if config.get(name) is not None), default)

    for name in ("num_local_experts", "num_experts", "n_routed_experts", "kv_lora_rank",
                 "is_encoder_decoder"):  # fmt: skip
        if config.get(name):
            raise UsageError(f"--config: {name} is set; only dense decoder layers are known here")
    hidden = find("hidden_size", "n_embd", "d_model")
    heads = find("num_attention_heads", "n_head", "num_heads", "n_heads")
    if not hidden or not heads:
        raise UsageError("--config: it lacks hidden_size or num_attention_heads")
    is_rms = "rms_norm_eps" in config
    activation = find("hidden_act", "hidden_activation", "activation_function")
    model = str(config.get("model_type", ""))
    return Spec(
        hidden=hidden,
        heads=heads,
        kv_heads=1 if config.get("multi_query") else find("num_key_value_heads", default=heads),
        head_dim=find("head_dim", default=0),
        intermediate=find("intermediate_size", "n_inner", "ffn_dim", default=4 * hidden),
        layers=find("num_hidden_layers", "n_layer", "num_layers"),
        norm="rms" if is_rms else "layer",
        gated=is_rms or activation in ("silu", "swish"),
        rope=is_rms or bool(find("rope_theta", "rope_parameters", "rope_scaling")),
        bias=not is_rms,
        qk_norm=bool(config.get("use_qk_norm")) or model.startswith(("qwen3", "gemma3", "olmo2")),
        dropout=float(find("hidden_dropout", "resid_pdrop", "hidden_dropout_prob", default=0.0)),
    )


def choose_spec(options: argparse.Namespace) -> Spec:
    """The layer of the command line. Raises UsageError where its sizes do not fit together."""
    spec = read_spec(options.config) if options.config else PRESETS[options.layer]
    if not options.config and (options.hidden or options.heads):
        heads = options.heads or spec.heads
        spec = spec._replace(heads=heads, kv_heads=heads, head_dim=0, intermediate=0)
    given = {name: getattr(options, name, None) for name in Spec._fields}
    spec = spec._replace(**{name: value for name, value in given.items() if value is not None})
    spec = spec._replace(head_dim=spec.head_dim or spec.hidden // spec.heads)
    if not spec.intermediate:  # 8/3 of hidden: three matrices with the parameters of two of 4
        width = math.ceil(8 * spec.hidden / 3 / 64) * 64 if spec.gated else 4 * spec.hidden
        spec = spec._replace(intermediate=width)
    if spec.heads % spec.kv_heads:
        raise UsageError(f"{spec.heads} heads cannot share {spec.kv_heads} k and v heads evenly")
    if spec.rope and spec.head_dim % 2:
        raise UsageError(f"rotary positions need an even head size, not {spec.head_dim}")
    return spec


def count_formula(spec: Spec, sizes: tuple[int, int, int], variant: Variant) -> int:
    """Bytes that the formula has for a variant; `sizes` are batch, sequence and element bytes."""
    batch, sequence, element = sizes
    state = batch * sequence * spec.hidden
    if variant.recompute == "full":
        return state * element
    has_matrices = variant.attention == "eager" and variant.recompute == "none"
    matrices = spec.heads * sequence * sequence * batch if has_matrices else 0
    # 16 numbers and 2 masks per element of the hidden state, 2 and 1 per element of the matrices.
    return state * (16 * element + 2) + matrices * (2 * element + 1)


class Layer:
    """One transformer layer with random weights, in plain operations that tell their names."""

    def __init__(
        self, torch: Any, device: Any, spec: Spec, dtype: Any, options: argparse.Namespace
    ) -> None:
        self.torch, self.spec = torch, spec
        self.tell: Callable[[str], None] = lambda operation: None
        torch.manual_seed(0)
        queries, keys = spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim
        matrices = {
            "q": (queries, spec.hidden), "k": (keys, spec.hidden), "v": (keys, spec.hidden),
            "o": (spec.hidden, queries), "down": (spec.hidden, spec.intermediate),
            **dict.fromkeys(("up", "gate")[: 1 + spec.gated], (spec.intermediate, spec.hidden)),
        }  # fmt: skip
        norms = {"norm 1": spec.hidden, "norm 2": spec.hidden}
        norms |= dict.fromkeys(("q norm", "k norm"), spec.head_dim) if spec.qk_norm else {}
        values = {name: torch.randn(size) * 0.02 for name, size in matrices.items()}
        values |= {name: torch.ones(size) for name, size in norms.items()}
        with_bias = [*(matrices if spec.bias else ()), *(norms if spec.norm == "layer" else ())]
        values |= {f"{name} bias": torch.zeros(values[name].shape[0]) for name in with_bias}
        self.weights = {n: v.to(device, dtype).requires_grad_() for n, v in values.items()}
        places = torch.arange(options.sequence)
        steps = torch.arange(0, spec.head_dim, 2) / spec.head_dim
        angles = torch.outer(places.float(), 10000.0**-steps).repeat(1, 2)
        constants = {"cos": angles.cos(), "sin": angles.sin()}
        if "eager" in options.attention:
            constants["mask"] = (places[:, None] < places[None, :]) * -1e4
        self.constants = {name: value.to(device, dtype) for name, value in constants.items()}

    def run(self, variant: Variant, x: Any) -> Any:
        """The output of the layer."""
        torch, spec, weights, constants = self.torch, self.spec, self.weights, self.constants
        functional, groups = torch.nn.functional, spec.heads // spec.kv_heads

        def linear(name: str, value: Any) -> Any:
            return functional.linear(value, weights[name], weights.get(f"{name} bias"))

        def normalize(name: str, value: Any) -> Any:
            weight = weights[name]
            if spec.norm == "layer":
                return functional.layer_norm(value, weight.shape, weight, weights[f"{name} bias"])
            if spec.norm == "rms":
                return functional.rms_norm(value, weight.shape, weight, 1e-5)
            wide = value.float()
            wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
            return weight * wide.to(value.dtype)

        def rotate(value: Any) -> Any:
            one, other = value.chunk(2, dim=-1)
            return value * constants["cos"] + torch.cat((-other, one), dim=-1) * constants["sin"]

        def drop(operation: str, value: Any) -> Any:
            self.tell(operation)
            return functional.dropout(value, spec.dropout) if spec.dropout else value

        def attend(q: Any, k: Any, v: Any) -> Any:
            if variant.attention == "sdpa":
                self.tell("attention kernel")
                return functional.scaled_dot_product_attention(
                    q, k, v, dropout_p=spec.dropout, is_causal=True, enable_gqa=groups > 1
                )
            self.tell("scores")
            if groups > 1:
                k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
            scores = q @ k.transpose(-2, -1) * spec.head_dim**-0.5 + constants["mask"]
            self.tell("softmax")
            shares = drop("attention dropout", scores.softmax(-1))
            self.tell("context")
            return shares @ v

        self.tell("norm 1")
        y = normalize("norm 1", x)
        self.tell("q k v projections")
        parts = (linear(name, y).unflatten(-1, (-1, spec.head_dim)) for name in "qkv")
        q, k, v = (part.transpose(1, 2) for part in parts)
        if spec.qk_norm:
            self.tell("q k norms")
            q, k = normalize("q norm", q), normalize("k norm", k)
        if spec.rope:
            self.tell("rotary positions")
            q, k = rotate(q), rotate(k)
        is_selective = variant.recompute == "selective"
        y = self.checkpoint("attention input", attend, q, k, v) if is_selective else attend(q, k, v)
        self.tell("output projection")
        y = linear("o", y.transpose(1, 2).flatten(2))
        x = x + drop("output dropout", y)
        self.tell("norm 2")
        y = normalize("norm 2", x)
        self.tell("MLP projections")
        up = linear("up", y)
        gate = linear("gate", y) if spec.gated else None
        self.tell("MLP activation")
        y = functional.gelu(up) if gate is None else functional.silu(gate) * up
        self.tell("MLP output")
        return x + drop("MLP dropout", linear("down", y))

    def checkpoint(self, operation: str, work: Callable[..., Any], *given: Any) -> Any:
        """The result of work, of which only what is given is kept, under that operation."""
        from torch.utils.checkpoint import checkpoint

        tell, self.tell = self.tell, lambda part: None
        tell(operation)
        try:
            return checkpoint(work, *given, use_reentrant=True)
        finally:
            self.tell = tell


def is_weight_copy(torch: Any, weights: Iterable[Any], tensor: Any) -> bool:
    """Whether it has the numbers of a weight in another data type, as autocast makes them."""
    for weight in weights:
        if weight.dtype != tensor.dtype and weight.numel() == tensor.numel():
            same = weight.detach().to(tensor.dtype)
            views = (tensor, tensor.t() if tensor.dim() == 2 else tensor)
            if any(view.shape == same.shape and torch.equal(view, same) for view in views):
                return True
    return False


def read_allocated(torch: Any, device: Any) -> int:
    """Bytes that torch has given out on the device; 0 where it does not count them."""
    synchronize(torch, device)
    count = getattr(torch.get_device_module(device.type), "memory_allocated", lambda _: 0)
    return int(count(device))


def measure(
    torch: Any, layer: Layer, variant: Variant, x: Any, dtype: Any, stop: Stop
) -> tuple[list[Saving], int | None, Any]:
    """What autograd saves in a forward pass, what the allocator grows by, and the gradient of x.
    Raises Stopped, and RuntimeError where memory is short."""
    weights = list(layer.weights.values())
    constants = (*weights, *layer.constants.values())
    seen = {tensor.untyped_storage().data_ptr() for tensor in constants}
    savings: list[Saving] = []
    alive: list[Any] = []  # a storage that lives cannot give its address to another
    operation = ""

    def tell(name: str) -> None:
        nonlocal operation
        stop.check()
        operation = name

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.nbytes() and storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            kind = str(tensor.dtype).removeprefix("torch.")
            is_copy = is_weight_copy(torch, weights, tensor)
            savings.append((operation, storage.nbytes(), kind, is_copy))
            alive.append(tensor.detach())
        return tensor

    torch.manual_seed(1)
    x = x.detach().requires_grad_()
    for weight in weights:
        weight.grad = None
    before = read_allocated(torch, x.device)
    cast = torch.autocast(x.device.type, dtype) if variant.autocast else contextlib.nullcontext()
    layer.tell = tell
    with cast, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run = functools.partial(layer.run, variant)
        out = layer.checkpoint("layer input", run, x) if variant.recompute == "full" else run(x)
    after = read_allocated(torch, x.device)
    # x was there before, and the layer keeps it.
    grown = after - before - out.untyped_storage().nbytes() + x.untyped_storage().nbytes()
    layer.tell = lambda name: stop.check()
    out.float().pow(2).mean().backward()
    return savings, grown if after else None, x.grad.float()


def study(
    torch: Any, layer: Layer, variant: Variant, options: argparse.Namespace, stop: Stop,
    references: dict[tuple[str, bool], Any],
) -> tuple[Row, list[Row]]:  # fmt: skip
    """The row of a variant, and its operations. `references` holds the gradients of variants that
    recompute nothing."""
    spec, dtype, weight = layer.spec, getattr(torch, options.dtype), layer.weights["q"]
    torch.manual_seed(2)
    x = torch.randn(options.batch, options.sequence, spec.hidden).to(weight.device, weight.dtype)
    if x.device.type != "cpu":  # libraries take workspaces at their first call and keep them
        measure(torch, layer, variant, x, dtype, stop)
    savings, allocated, gradient = measure(torch, layer, variant, x, dtype, stop)
    again, _, other = measure(torch, layer, variant, x, dtype, stop)
    key = (variant.attention, variant.autocast)
    if variant.recompute == "none":
        references[key] = gradient
    reference = references.get(key, other)
    error = float((gradient - reference).norm() / reference.norm())
    sizes = (options.batch, options.sequence, dtype.itemsize)
    unit, formula = math.prod(sizes) * spec.hidden, count_formula(spec, sizes, variant)
    sums: dict[tuple[str, str], int] = {}
    for operation, size, kind, is_copy in savings:
        if not is_copy:
            sums[operation, kind] = sums.get((operation, kind), 0) + size
    saved = sum(sums.values())
    row: Row = {
        **variant._asdict(),
        "dtype": options.dtype,
        "mlp": "gated" if spec.gated else "plain",
        **{name: getattr(spec, name) for name in ("norm", *COUNTS[:5])},
        **{name: getattr(options, name) for name in ("batch", "sequence")},
        "samples": 2,
        "saved_bytes": saved,
        "copies": saved / unit,
        "formula_bytes": formula,
        "formula_copies": formula / unit,
        "weight_copy_bytes": sum(size for _, size, _, is_copy in savings if is_copy),
        "allocated_bytes": allocated,
        "all_layers_bytes": spec.layers and saved * spec.layers,
        "repeats": savings == again,
        "gradient_error": error if math.isfinite(error) else None,
        "gradient_ok": error <= GRADIENT_LIMITS[options.dtype],
    }
    row["verdict"] = judge(row)
    parts = [
        variant._asdict() | {"operation": operation, "dtype": kind, "bytes": size}
        for (operation, kind), size in sums.items()
    ]
    return row, parts


def judge(row: Row) -> str:
    """The worst that applies; copies of weights are the allocator's too."""
    kept, allocated = row["saved_bytes"] + row["weight_copy_bytes"], row["allocated_bytes"]
    if not row["gradient_ok"]:
        return "WRONG GRADIENT"
    if not row["repeats"]:
        return "not repeatable"
    is_far = allocated is not None and abs(allocated - kept) > ALLOCATOR_MARGIN * kept
    return "allocator differs" if is_far else "ok"


def run(options: argparse.Namespace, spec: Spec, stop: Stop, report: Report) -> None:
    """Measure all variants into the report."""
    torch = import_torch()
    device = choose_device(torch, options.device)
    options.sequence = options.sequence or (256 if device.type == "cpu" else 2048)
    report.details["header"] = describe_run(torch, device, spec=spec._asdict())
    report.details["operations"] = operations = []
    references: dict[tuple[str, bool], Any] = {}
    choices = itertools.product(options.autocast, options.attention, options.recompute)
    variants = [Variant(a, r, autocast == "on") for autocast, a, r in dict.fromkeys(choices)]
    report.complete = True
    for variant in variants:
        # Under autocast weights and hidden states are float32.
        dtype = torch.float32 if variant.autocast else getattr(torch, options.dtype)
        try:
            layer = Layer(torch, device, spec, dtype, options)
            row, parts = study(torch, layer, variant, options, stop, references)
        except Stopped as stopped:
            report.note(f"{stopped}, after {len(report.rows)} of {len(variants)} variants")
            report.complete = False
            return
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            report.note(f"{variant}: does not fit into memory; use a smaller --sequence")
            report.complete = False
            continue
        report.rows.append(row)
        operations += parts


def print_results(report: Report, is_long: bool) -> bool:
    """Print the tables and notes; True if the numbers can be used."""
    rows = report.rows

    def show(size: int | None) -> str | None:
        return None if size is None else f"{size / 2**20:,.2f}"

    cells = [
        (
            f"{row['attention']}, {row['recompute']}",
            "on" if row["autocast"] else "off",
            show(row["saved_bytes"]),
            f"{row['copies']:.2f}",
            f"{row['formula_copies']:.2f}",
            *(show(row[f"{name}_bytes"]) for name in ("weight_copy", "allocated", "all_layers")),
            row["verdict"],
        )
        for row in rows
    ]
    headings = ("attention, recompute", "autocast", "kept, MiB", "copies", "formula, copies",
                "weights cast, MiB", "allocator, MiB", "all layers, MiB", "verdict")  # fmt: skip
    print(format_table(headings, cells))
    for row in rows[: None if is_long else 1]:
        parts = [
            (part["operation"], part["dtype"], show(part["bytes"]),
             f"{part['bytes'] / row['saved_bytes'] * row['copies']:.2f}")
            for part in report.details["operations"]
            if all(part[name] == row[name] for name in Variant._fields)
        ]  # fmt: skip
        heading = Variant(*(row[name] for name in Variant._fields))
        print(f"\n{heading}\n\n{format_table(('operation', 'dtype', 'MiB', 'copies'), parts)}")
    kept = {(r["attention"], r["autocast"]): r["copies"] for r in rows if r["recompute"] == "none"}
    for autocast in (False, True):
        eager, sdpa = (kept.get((name, autocast), 0.0) for name in ("eager", "sdpa"))
        if 0 < eager < sdpa:
            report.note(f"no fused kernel here: sdpa keeps {sdpa:.2f} copies, eager {eager:.2f}")
    return all(row["verdict"] in ("ok", "allocator differs") for row in rows)


def build_parser() -> Parser:
    """The command line."""
    parser = Parser(
        __doc__, tool="activation_memory", version=__version__, method=METHOD, demo=PROFILES["demo"]
    )
    add = parser.add_argument
    # fmt: off
    add("--config", metavar="PATH", help="a Hugging Face config.json")
    add("--layer", choices=tuple(PRESETS), default="llama",
        help="without --config (default: llama, in the sizes of 8B)")
    for name in ("hidden", "heads", "kv-heads", "head-dim", "intermediate", "layers"):
        add(f"--{name}", type=positive_int, help="overrides --config and --layer")
    add("--norm", choices=("rms", "rms_float32", "layer"), help="kind of norm")
    add("--qk-norm", action="store_const", const=True, help="normalize q and k of each head")
    add("--dropout", type=float, help="dropout rate (default: that of the config or layer)")
    add("--attention", choices=("eager", "sdpa"), nargs="+", default=["sdpa"], help="kernel")
    add("--recompute", choices=("none", "selective", "full"), nargs="+", default=["none"],
        help="activation checkpointing (default: none)")
    add("--autocast", choices=("off", "on"), nargs="+", default=["off"], help="(default: off)")
    add("--batch", type=positive_int, default=1, help="sequences (default: 1)")
    add("--sequence", type=positive_int, help="tokens (default: 2048, on a CPU 256)")
    add("--dtype", choices=tuple(GRADIENT_LIMITS), default="bfloat16", help="(default: bfloat16)")
    add("--device", help="cuda:1, xpu, cpu (default: the accelerator, else the CPU)")
    add("--breakdown", action="store_true", help="print the operations of every variant")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    options = build_parser().parse_args(arguments)
    if "on" in options.autocast and options.dtype == "float32":
        raise UsageError("--autocast lowers the precision: --dtype has to be bfloat16 or float16")
    spec = choose_spec(options)
    report = Report("activation_memory", __version__, METHOD, UNITS, options.json)
    stop = Stop()
    stop.listen()
    run(options, spec, stop, report)
    usable = print_results(report, options.breakdown)
    report.save()
    return int(not (usable and report.complete))


if __name__ == "__main__":
    start(main)
