#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["torch>=2.6"]
# ///
r"""How much memory does one transformer layer keep from its forward pass for the backward pass?

The unit is the hidden state: a tensor of batch x sequence x hidden. A layer keeps some tens of such
copies; which ones depends on its kernels, activation checkpointing and autocast. From a config
alone this tool builds one layer like Llama's with random weights in plain torch (RMSNorm, rotary
positions, grouped k and v heads, SwiGLU), runs it, and counts:
`copies = bytes / (batch x sequence x hidden x bytes per element)`.

## What is measured

The storages that autograd saves in forward (torch.autograd.graph.saved_tensors_hooks): each one
once, however many views of it are saved, for the first operation that saves it. On accelerators
also the growth of torch's allocated memory. The layer's input counts, its output is the next
layer's. Not counted: parameters, constants that all layers share, peaks, gradients. Copies of
weights, which autocast makes, have their own column. Recomputation has to give the same
gradients. A library's own layer may keep more, for norms written out in float32 or of q and k.

## How to run

    python activation_memory.py --config config.json --sequence 4096 --attention eager sdpa \
        --recompute none selective full --autocast off on
    srun --gpus 1 python activation_memory.py --config config.json --json out.json

## A good answer

`--recompute full` keeps 1 copy. Without recomputation and with sdpa a Llama-like layer keeps 20 to
40. Where eager keeps much more than sdpa, use the fused kernel before you recompute anything.

Exit status: 0 done; 1 gradients differ, a layer did not fit, or a signal; 2 usage error.
"""

import argparse
import contextlib
import functools
import itertools
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from kit.cli import Parser, UsageError, positive_int, start
from kit.device import choose_device, describe_run, import_torch, is_out_of_memory, synchronize
from kit.report import Report, Row, format_table, read_json
from kit.stop import until_stopped

__version__ = "0.2.0"
METHOD = 1
PROFILES = {
    "demo": [
        "--device", "cpu", "--hidden", "128", "--heads", "4", "--batch", "2", "--sequence", "64",
        "--attention", "eager", "--recompute", "none", "selective", "full",
    ],
    "full": [
        "--sequence", "4096", "--attention", "eager", "sdpa",
        "--recompute", "none", "selective", "full", "--autocast", "off", "on",
    ],
}  # fmt: skip
GPUS = {"full": 1}
GRADIENT_LIMITS = {"bfloat16": 2e-2, "float16": 5e-3, "float32": 1e-5}
"""Relative difference (Frobenius norm): the same sums, but for kernels with another order."""


class Spec(NamedTuple):
    """The sizes of a layer, by default those of Llama 3.1 8B."""

    hidden: int = 4096
    heads: int = 32
    kv_heads: int = 8
    head_dim: int = 128
    intermediate: int = 14336


Sums = Counter[tuple[str, str]]
"""Bytes that autograd saved, by operation and data type."""


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
    config = document.get("text_config", document)
    for name in ("num_local_experts", "num_experts", "n_routed_experts", "kv_lora_rank"):
        if config.get(name):
            raise UsageError(f"--config: {name} is set; only dense decoder layers are known here")
    if "rms_norm_eps" not in config:
        raise UsageError("--config: no rms_norm_eps; only layers like Llama's are known here")
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    kv_heads, head_dim = config.get("num_key_value_heads"), config.get("head_dim")
    return Spec(
        hidden, heads, kv_heads or heads, head_dim or hidden // heads, config["intermediate_size"]
    )


def choose_spec(options: argparse.Namespace) -> Spec:
    """The layer of the command line. Raises UsageError for a config of another kind."""
    if options.config:
        return read_spec(options.config)
    if not options.hidden:
        return Spec()
    heads = options.heads or Spec().heads
    width = math.ceil(8 * options.hidden / 3 / 64) * 64  # three matrices as large as two of 4
    return Spec(options.hidden, heads, heads, options.hidden // heads, width)


class Layer:
    """One transformer layer with random weights, in plain operations that report their names."""

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
            **dict.fromkeys(("up", "gate"), (spec.intermediate, spec.hidden)),
        }  # fmt: skip
        values = {name: torch.randn(size) * 0.02 for name, size in matrices.items()}
        values |= {name: torch.ones(spec.hidden) for name in ("norm 1", "norm 2")}
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

        def normalize(name: str, value: Any) -> Any:
            return functional.rms_norm(value, (spec.hidden,), weights[name], 1e-5)

        def rotate(value: Any) -> Any:
            one, other = value.chunk(2, dim=-1)
            return value * constants["cos"] + torch.cat((-other, one), dim=-1) * constants["sin"]

        def attend(q: Any, k: Any, v: Any) -> Any:
            if variant.attention == "sdpa":
                self.tell("attention kernel")
                return functional.scaled_dot_product_attention(
                    q, k, v, is_causal=True, enable_gqa=groups > 1
                )
            self.tell("scores")
            if groups > 1:
                k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)
            scores = q @ k.transpose(-2, -1) * spec.head_dim**-0.5 + constants["mask"]
            self.tell("softmax")
            shares = scores.softmax(-1)
            self.tell("context")
            return shares @ v

        self.tell("norm 1")
        y = normalize("norm 1", x)
        self.tell("q k v projections")
        parts = ((y @ weights[name].t()).unflatten(-1, (-1, spec.head_dim)) for name in "qkv")
        q, k, v = (part.transpose(1, 2) for part in parts)
        self.tell("rotary positions")
        q, k = rotate(q), rotate(k)
        is_selective = variant.recompute == "selective"
        y = self.checkpoint("attention input", attend, q, k, v) if is_selective else attend(q, k, v)
        self.tell("output projection")
        x = x + y.transpose(1, 2).flatten(2) @ weights["o"].t()
        self.tell("norm 2")
        y = normalize("norm 2", x)
        self.tell("MLP projections")
        up, gate = y @ weights["up"].t(), y @ weights["gate"].t()
        self.tell("MLP activation")
        y = functional.silu(gate) * up
        self.tell("MLP output")
        return x + y @ weights["down"].t()

    def checkpoint(self, operation: str, work: Callable[..., Any], *given: Any) -> Any:
        """The result of work, keeping only its arguments, under that operation."""
        tell, self.tell = self.tell, lambda part: None
        tell(operation)
        result = self.torch.utils.checkpoint.checkpoint(work, *given, use_reentrant=True)
        self.tell = tell
        return result


def is_weight_copy(torch: Any, weights: Iterable[Any], tensor: Any) -> bool:
    """Whether it has the numbers of a weight in another data type, as autocast makes them."""
    views = (tensor, tensor.t()) if tensor.dim() == 2 else (tensor,)
    return any(
        weight.dtype != view.dtype
        and weight.shape == view.shape
        and torch.equal(weight.detach().to(view.dtype), view)
        for weight in weights
        for view in views
    )


def measure(
    torch: Any, layer: Layer, variant: Variant, x: Any, dtype: Any
) -> tuple[Sums, int, int | None, Any]:
    """What autograd saves in a forward pass, how many bytes of copies of weights beside it, what
    the allocator grows by, and the gradient of x. Raises RuntimeError where memory is short."""

    def read_allocated() -> int:
        synchronize(torch, x.device)
        count = getattr(torch.get_device_module(x.device.type), "memory_allocated", lambda _: 0)
        return int(count(x.device))

    weights = list(layer.weights.values())
    constants = (*weights, *layer.constants.values())
    seen = {tensor.untyped_storage().data_ptr() for tensor in constants}
    sums: Sums = Counter()
    alive: list[Any] = []  # a storage that lives cannot give its address to another
    operation, copied = "", 0

    def tell(name: str) -> None:
        nonlocal operation
        operation = name

    def pack(tensor: Any) -> Any:
        nonlocal copied
        storage = tensor.untyped_storage()
        if storage.nbytes() and storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            alive.append(tensor.detach())
            if is_weight_copy(torch, weights, tensor):
                copied += storage.nbytes()
            else:
                kind = str(tensor.dtype).removeprefix("torch.")
                sums[operation, kind] += storage.nbytes()
        return tensor

    torch.manual_seed(1)
    x = x.detach().requires_grad_()
    for weight in weights:
        weight.grad = None
    before = read_allocated()
    cast = torch.autocast(x.device.type, dtype) if variant.autocast else contextlib.nullcontext()
    layer.tell = tell
    with cast, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run = functools.partial(layer.run, variant)
        out = layer.checkpoint("layer input", run, x) if variant.recompute == "full" else run(x)
    after = read_allocated()
    # x was there before, and the layer keeps it.
    grown = after - before - out.untyped_storage().nbytes() + x.untyped_storage().nbytes()
    out.float().pow(2).mean().backward()
    return sums, copied, grown if after else None, x.grad.float()


def study(
    torch: Any, layer: Layer, variant: Variant, options: argparse.Namespace,
    references: dict[tuple[str, bool], Any],
) -> tuple[Row, list[Row]]:  # fmt: skip
    """The row of a variant, and its operations; `references` are the first gradients."""
    spec, dtype, weight = layer.spec, getattr(torch, options.dtype), layer.weights["q"]
    torch.manual_seed(2)
    x = torch.randn(options.batch, options.sequence, spec.hidden).to(weight.device, weight.dtype)
    if x.device.type != "cpu":  # libraries take workspaces at their first call and keep them
        measure(torch, layer, variant, x, dtype)
    sums, copied, allocated, gradient = measure(torch, layer, variant, x, dtype)
    reference = references.setdefault((variant.attention, variant.autocast), gradient)
    error = float((gradient - reference).norm() / reference.norm())
    row: Row = {
        **variant._asdict(),
        "dtype": options.dtype,
        "norm": "rms",
        **spec._asdict(),
        "batch": options.batch,
        "sequence": options.sequence,
        "saved_bytes": sums.total(),
        "copies": sums.total() / (options.batch * options.sequence * spec.hidden * dtype.itemsize),
        "weight_copy_bytes": copied,
        "allocated_bytes": allocated,
        "gradient_error": error if math.isfinite(error) else None,
        "verdict": "ok" if error <= GRADIENT_LIMITS[options.dtype] else "WRONG GRADIENT",
    }
    return row, [
        {"operation": operation, "dtype": kind, "bytes": size}
        for (operation, kind), size in sums.items()
    ]


def run(options: argparse.Namespace, spec: Spec, report: Report) -> None:
    """Measure all variants into the report."""
    torch = import_torch()
    device = choose_device(torch, options.device)
    options.sequence = options.sequence or (256 if device.type == "cpu" else 2048)
    report.details["header"] = describe_run(torch, device, spec=spec._asdict())
    report.details["operations"] = operations = []
    references: dict[tuple[str, bool], Any] = {}
    choices = itertools.product(options.autocast, options.attention, options.recompute)
    variants = [Variant(a, r, autocast == "on") for autocast, a, r in dict.fromkeys(choices)]
    with until_stopped(report) as stop:
        for variant in variants:
            stop.check()
            # Under autocast weights and hidden states are float32.
            dtype = torch.float32 if variant.autocast else getattr(torch, options.dtype)
            try:
                layer = Layer(torch, device, spec, dtype, options)
                row, parts = study(torch, layer, variant, options, references)
                report.rows.append(row)
                operations.append(parts)
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
                report.note(f"{variant}: does not fit into memory; use a smaller --sequence")
    report.complete = len(report.rows) == len(variants)


def print_results(report: Report, count: int | None) -> None:
    """Print the table, and the operations of the first variants."""

    def show(size: int | None) -> str | None:
        return None if size is None else f"{size / 2**20:,.2f}"

    cells = []
    for row in report.rows:
        sizes = [show(row[f"{name}_bytes"]) for name in ("saved", "weight_copy", "allocated")]
        sizes.insert(1, f"{row['copies']:.2f}")
        autocast = "on" if row["autocast"] else "off"
        name = f"{row['attention']}, {row['recompute']}"
        cells.append((name, autocast, *sizes, row["verdict"]))
    headings = ("attention, recompute", "autocast", "kept, MiB", "copies", "weights cast, MiB",
                "allocator, MiB", "verdict")  # fmt: skip
    print(format_table(headings, cells))
    for row, parts in list(zip(report.rows, report.details["operations"], strict=True))[:count]:
        unit = row["saved_bytes"] / row["copies"]
        lines = [
            (p["operation"], p["dtype"], show(p["bytes"]), f"{p['bytes'] / unit:.2f}")
            for p in parts
        ]
        heading = Variant(*(row[name] for name in Variant._fields))
        print(f"\n{heading}\n\n{format_table(('operation', 'dtype', 'MiB', 'copies'), lines)}")


def build_parser() -> Parser:
    parser = Parser(__doc__, "activation_memory", __version__, METHOD, PROFILES["demo"])
    add = parser.add_argument
    # fmt: off
    add("--config", metavar="PATH", help="a Hugging Face config.json")
    for name in ("hidden", "heads"):
        add(f"--{name}", type=positive_int, help="without --config (default: as Llama 3.1 8B)")
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
    options = build_parser().parse_args(arguments)
    if "on" in options.autocast and options.dtype == "float32":
        raise UsageError("--autocast lowers the precision: --dtype has to be bfloat16 or float16")
    spec = choose_spec(options)
    report = Report("activation_memory", __version__, METHOD, options.json)
    run(options, spec, report)
    print_results(report, None if options.breakdown else 1)
    report.save()
    if options.demo and report.rows[-1]["copies"] != 1:
        print("problem: full recomputation keeps more than its input", file=sys.stderr)
        return 1
    return int(not report.complete or any(row["verdict"] != "ok" for row in report.rows))


if __name__ == "__main__":
    start(main)
