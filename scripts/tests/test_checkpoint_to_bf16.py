"""checkpoint_to_bf16: rounding by hand, both formats against their own packages, whole folders."""

from __future__ import annotations

import json
import math
import pickle
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
TOOL = "training/checkpoint_to_bf16.py"


@pytest.fixture
def options(module: Any) -> Any:
    return module.Options(torch=torch, keep=module.KEEP, max_memory=2**30)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((1 + 1 / 128, 1 + 1 / 128), (1 + 1 / 256, 1.0), (1 + 3 / 256, 1 + 1 / 64)),
        *((-1 - 1 / 256, -1.0), (1 + 1 / 256 + 2**-23, 1 + 1 / 128)),
        *((255 * 2.0**120, 255 * 2.0**120), (3.4e38, math.inf), (-3.4e38, -math.inf)),
        *((2.0**-133, 2.0**-133), (2.0**-134, 0.0), (3 * 2.0**-134, 2.0**-132), (-0.0, -0.0)),
    ],
)
def test_rounding_by_hand(module: Any, value: float, expected: float) -> None:
    """Ties, the largest numbers, subnormal ones; what became infinite is counted."""
    values = torch.tensor([value], dtype=torch.float32)
    written = torch.tensor([expected]).to(torch.bfloat16)
    assert module.count_infinite(torch, values, written, "x") == int(math.isinf(expected))
    assert torch.equal(values.to(torch.bfloat16), written)


def test_wrong_bits_are_found(module: Any) -> None:
    """A copy that was cut off instead of rounded, lost a NaN, or lost a sign."""
    values = torch.tensor([1 + 3 / 256, math.nan, -0.0])
    good = values.to(torch.bfloat16)
    for place, wrong in ((0, 1 + 1 / 128), (1, 0.0), (2, 0.0)):
        bad = good.clone()
        bad[place] = wrong
        with pytest.raises(module.Refused, match=rf"'x' did not verify: .* was written as {wrong}"):
            module.count_infinite(torch, values, bad, "x")


def make_tensors() -> dict[str, Any]:
    """Tensors of many types and shapes."""
    special = torch.tensor([math.nan, math.inf, -math.inf, 3.4e38, 1e-40, -0.0])
    return {
        "model.weight": torch.cat([torch.randn(501), special]),
        "model.half": torch.randn(33).half(),
        "model.double": torch.randn(5, 3, dtype=torch.float64),
        "model.rotary.inv_freq": torch.randn(9),
        "model.ids": torch.arange(-3, 4),
        "model.mask": torch.tensor([True, False, True]),
        "model.small": torch.randn(7).to(torch.bfloat16),
        "model.tiny": torch.randn(5).to(torch.float8_e4m3fn),
        "model.none": torch.zeros(0, 4),
        "model.one": torch.tensor(1.5),
    }


def check_tensors(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Floats became bfloat16 as torch converts them, all else is the same bit by bit."""
    assert sorted(old) == sorted(new)
    for name, before in old.items():
        after = new[name]
        assert after.shape == before.shape
        if before.dtype in (torch.float64, torch.float32, torch.float16) and "freq" not in name:
            assert after.dtype == torch.bfloat16
            assert torch.equal(after.nan_to_num(7.0), before.to(torch.bfloat16).nan_to_num(7.0))
        else:
            assert after.dtype == before.dtype
            flat = [t.contiguous().reshape(-1).view(torch.uint8) for t in (before, after)]
            assert torch.equal(*flat)


def convert(module: Any, options: Any, folder: Path, name: str) -> Path:
    """Convert a file of a folder into its subfolder."""
    (folder / "out").mkdir()
    row = module.plan_file(options, folder / name)
    module.convert_file(options, folder / name, folder / "out", row)
    assert (row["verdict"], row["became_infinite"]) == ("ok", 1)
    return folder / "out" / name


@pytest.mark.needs("python:safetensors")
def test_the_safetensors_package_reads_the_copy(module: Any, options: Any, tmp_path: Path) -> None:
    """Values, types and metadata; a flipped bit, converted or kept, is found."""
    import safetensors.torch as package

    tensors = make_tensors()
    source = tmp_path / "a.safetensors"
    package.save_file(tensors, source, metadata={"format": "pt", "é": "ü"})
    copy = convert(module, options, tmp_path, source.name)
    check_tensors(tensors, package.load_file(copy))
    with package.safe_open(copy, "pt") as file:
        assert file.metadata() == {"format": "pt", "é": "ü"}
    good = copy.read_bytes()
    length = int.from_bytes(good[:8], "little")
    for place in range(8 + length, len(good), 97):
        data = bytearray(good)
        data[place] ^= 1
        copy.write_bytes(data)
        with pytest.raises(module.Refused, match="did not verify"):
            module.compare_files(options, source, copy)


@pytest.mark.parametrize("damage", ["empty", "cut", "longer", "hole", "size"])
def test_damaged_safetensors_are_refused(
    module: Any, options: Any, tmp_path: Path, damage: str
) -> None:
    """Cut off, too long, or with tensors where they are not."""
    offsets = {"hole": [4, 12], "size": [0, 7]}.get(damage, [0, 8])
    header = {"a": {"dtype": "F32", "shape": [2], "data_offsets": offsets}}
    text = json.dumps(header).encode()
    data = len(text).to_bytes(8, "little") + text + bytes(offsets[1])
    damaged = {"empty": b"", "cut": data[:-1], "longer": data + b"x"}
    path = tmp_path / "x.safetensors"
    path.write_bytes(damaged.get(damage, data))
    with pytest.raises(module.Refused):
        module.read_safetensors(options, path)


@pytest.mark.parametrize("is_old", [False, True])
def test_a_bin_keeps_all_but_the_type(
    module: Any, options: Any, tmp_path: Path, is_old: bool
) -> None:
    """Of today and of torch before 1.6: ties, views, strides, parameters and everything else. What
    is tied to a kept tensor keeps its type."""
    state: OrderedDict[str, Any] = OrderedDict(make_tensors())
    embed = torch.nn.Parameter(torch.randn(40, 8))
    state |= {"embed": embed, "head": embed.detach(), "rows": embed.detach()[3:5]}
    freq = torch.randn(4)
    state |= {"turned": torch.randn(6, 4).t(), "a.inv_freq": freq, "b.tied_to_it": freq}
    state._metadata = OrderedDict({"": {"version": 1}})  # type: ignore[attr-defined]
    if is_old:
        del state["model.tiny"]  # torch itself cannot write float8 in this format
    source = tmp_path / "pytorch_model.bin"
    torch.save(state, source, _use_new_zipfile_serialization=not is_old)
    new = torch.load(convert(module, options, tmp_path, source.name), weights_only=True)
    assert list(new) == list(state)
    assert new._metadata == {"": {"version": 1}}
    names = [name for name in state if name.startswith("model.")]
    check_tensors({n: state[n] for n in names}, {n: new[n] for n in names})
    assert type(new["embed"]) is torch.nn.Parameter
    assert new["head"].data_ptr() == new["embed"].data_ptr()
    assert new["rows"].data_ptr() == new["embed"].data_ptr() + 3 * 8 * 2
    assert torch.equal(new["rows"], state["rows"].to(torch.bfloat16))
    assert torch.equal(new["turned"], state["turned"].to(torch.bfloat16))
    assert new["a.inv_freq"].dtype == new["b.tied_to_it"].dtype == torch.float32


@pytest.fixture
def model(module: Any, options: Any, tmp_path: Path) -> Path:
    """A checkpoint with shards, an index, a `.bin`, a configuration and more."""
    folder = tmp_path / "in"
    module.make_demo(options, folder)
    (folder / "tokenizer.json").write_text("{}")
    config = {"torch_dtype": "float32", "text_config": {"dtype": "float16"}, "size": 3}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "optimizer.bin").write_bytes(b"\0" * 9)
    return folder


def test_a_folder_is_whole(call_tool: Callable[..., Any], model: Path, tmp_path: Path) -> None:
    """Index and configuration describe the new weights, the source stays, the rest is named. A dry
    run writes nothing."""
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    target = tmp_path / "out"
    done = call_tool(TOOL, str(model), str(target), "--dry-run")
    assert (done.returncode, target.exists()) == (0, False)
    done = call_tool(TOOL, str(model), str(target))
    assert done.returncode == 0, done.stderr
    assert "not copied: optimizer.bin" in done.stderr
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before
    assert {path.name for path in target.iterdir()} == {*before} - {"optimizer.bin"}
    config = json.loads((target / "config.json").read_text())
    expected = {"torch_dtype": "bfloat16", "text_config": {"dtype": "bfloat16"}, "size": 3}
    assert config == expected
    index = json.loads((target / "model.safetensors.index.json").read_text())
    # 2048 elements in each of 8 tensors: 6 in bf16, 2 inv_freq in float32.
    assert index["metadata"]["total_size"] == 2048 * (6 * 2 + 2 * 4)


class Evil:
    def __reduce__(self) -> Any:
        return print, ("ran",)


def test_what_cannot_be_converted_is_told_before_anything_is_written(
    call_tool: Callable[..., Any], model: Path, tmp_path: Path
) -> None:
    """A pickle with code in it, and one that needs too much memory."""
    (model / "pytorch_model-2.bin").write_bytes(pickle.dumps(Evil(), protocol=2))
    done = call_tool(TOOL, str(model), str(tmp_path / "out"), "--max-memory", "1KiB")
    assert done.returncode == 1
    assert "pytorch_model-2.bin: not loaded as weights only: it wants to call" in done.stderr
    assert "pytorch_model.bin: needs 2 KiB of memory, more than --max-memory" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
