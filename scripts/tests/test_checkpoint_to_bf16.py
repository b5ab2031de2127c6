"""checkpoint_to_bf16: rounding by hand, both formats against their own packages, whole folders."""

from __future__ import annotations

import json
import math
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.needs("python:safetensors")]
TOOL = "training/checkpoint_to_bf16.py"

ROUNDED = {
    1 + 1 / 128: 1 + 1 / 128, 1 + 1 / 256: 1.0, 1 + 3 / 256: 1 + 1 / 64, -1 - 1 / 256: -1.0,
    1 + 1 / 256 + 2**-23: 1 + 1 / 128, 255 * 2.0**120: 255 * 2.0**120, 3.4e38: math.inf,
    -3.4e38: -math.inf, math.inf: math.inf, 2.0**-133: 2.0**-133, 2.0**-134: 0.0,
    3 * 2.0**-134: 2.0**-132, -0.0: -0.0,
}  # fmt: skip
"""By hand: ties, the largest numbers, subnormal ones."""


@pytest.fixture
def convert(call_json: Any, tmp_path: Path) -> Any:
    """Convert a folder with one file; the copy, and how many values became infinite."""

    def run(source: Path) -> tuple[Path, int]:
        done = call_json(TOOL, str(source.parent), str(tmp_path / "out"))
        assert done.returncode == 0, done.stderr
        [row] = done.document["results"]
        return tmp_path / "out" / source.name, row["became_infinite"]

    return run


def make_tensors() -> dict[str, Any]:
    """Tensors of many types and shapes."""
    return {
        "by_hand": torch.tensor([*ROUNDED, math.nan]),
        "half": torch.randn(33).half(),
        "double": torch.randn(5, 3, dtype=torch.float64),
        "rotary.inv_freq": torch.randn(9),
        "ids": torch.arange(-3, 4),
        "mask": torch.tensor([True, False, True]),
        "small": torch.randn(7).to(torch.bfloat16),
        "tiny": torch.randn(5).to(torch.float8_e4m3fn),
        "none": torch.zeros(0, 4),
        "one": torch.tensor(1.5),
    }


def check_tensors(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Floats became bfloat16 as torch converts them, all else is the same bit by bit."""
    assert new["by_hand"].tolist()[:-1] == list(ROUNDED.values())
    for name, before in old.items():
        is_float = before.dtype in (torch.float64, torch.float32, torch.float16)
        expected = before.to(torch.bfloat16) if is_float and "freq" not in name else before
        assert (new[name].shape, new[name].dtype) == (expected.shape, expected.dtype)
        flat = [t.contiguous().reshape(-1).view(torch.uint8) for t in (expected, new[name])]
        assert torch.equal(*flat)


def test_the_safetensors_package_reads_the_copy(module: Any, convert: Any, tmp_path: Path) -> None:
    """Values, types and metadata; a flipped bit, converted or kept, is found."""
    import safetensors.torch as package

    tensors, source = make_tensors(), tmp_path / "in/model.safetensors"
    source.parent.mkdir()
    package.save_file(tensors, source, metadata={"format": "pt", "é": "ü"})
    source.chmod(0o640)
    copy, infinite = convert(source)
    assert infinite == 2
    assert copy.stat().st_mode & 0o777 == 0o640
    check_tensors(tensors, package.load_file(copy))
    with package.safe_open(copy, "pt") as file:
        assert file.metadata() == {"format": "pt", "é": "ü"}
    good = copy.read_bytes()
    for place in range(8 + int.from_bytes(good[:8], "little"), len(good), 97):
        data = bytearray(good)
        data[place] ^= 1
        copy.write_bytes(data)
        with pytest.raises(module.Refused, match=r"the copy did not verify: '.+' is not what it"):
            module.compare_files(torch, source, copy)


@pytest.mark.parametrize("is_old", [False, True])
def test_a_bin_keeps_all_but_the_type(convert: Any, tmp_path: Path, is_old: bool) -> None:
    """Of today and of torch before 1.6: ties, views, strides, parameters and everything else. What
    is tied to a kept tensor keeps its type."""
    plain = make_tensors()
    if is_old:
        del plain["tiny"]  # torch itself cannot write float8 in this format
    embed, freq = torch.nn.Parameter(torch.randn(40, 8)), torch.randn(4)
    state: OrderedDict[str, Any] = OrderedDict(
        **plain, embed=embed, head=embed.detach(), rows=embed.detach()[3:5],
        turned=torch.randn(6, 4).t(), **{"a.inv_freq": freq, "b.tied_to_it": freq},
    )  # fmt: skip
    state._metadata = OrderedDict({"": {"version": 1}})  # type: ignore[attr-defined]
    (tmp_path / "in").mkdir()
    torch.save(state, tmp_path / "in/model.bin", _use_new_zipfile_serialization=not is_old)
    new = torch.load(convert(tmp_path / "in/model.bin")[0], weights_only=True)
    assert list(new) == list(state)
    assert new._metadata == {"": {"version": 1}}
    check_tensors(plain, new)
    assert type(new["embed"]) is torch.nn.Parameter
    assert new["head"].data_ptr() == new["embed"].data_ptr()
    assert new["rows"].data_ptr() == new["embed"].data_ptr() + 3 * 8 * 2
    assert torch.equal(new["rows"], state["rows"].to(torch.bfloat16))
    assert torch.equal(new["turned"], state["turned"].to(torch.bfloat16))
    assert new["a.inv_freq"].dtype == new["b.tied_to_it"].dtype == torch.float32


@pytest.fixture
def model(module: Any, tmp_path: Path) -> Path:
    """A checkpoint with shards, an index, a `.bin`, a configuration and more."""
    folder = tmp_path / "in"
    module.make_demo(torch, folder)
    (folder / "tokenizer.json").write_text("{}")
    config = {"torch_dtype": "float32", "text_config": {"dtype": "float16"}, "size": 3}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "optimizer.bin").write_bytes(b"\0" * 9)
    return folder


def test_a_folder_is_whole(call_tool: Any, model: Path, tmp_path: Path) -> None:
    """Index and configuration describe the new weights, the source stays. A dry run writes
    nothing."""
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    target = tmp_path / "out"
    done = call_tool(TOOL, str(model), str(target), "--dry-run")
    assert (done.returncode, target.exists()) == (0, False)
    done = call_tool(TOOL, str(model), str(target))
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before
    assert {path.name for path in target.iterdir()} == {*before} - {"optimizer.bin"}
    config = json.loads((target / "config.json").read_text())
    expected = {"torch_dtype": "bfloat16", "text_config": {"dtype": "bfloat16"}, "size": 3}
    assert config == expected
    index = json.loads((target / "model.safetensors.index.json").read_text())
    # 2048 elements in each of 4 tensors: 3 in bf16, inv_freq in float32.
    assert index["metadata"]["total_size"] == 2048 * (3 * 2 + 4)


def test_what_cannot_be_converted_is_told_before_anything_is_written(
    call_tool: Any, model: Path, tmp_path: Path
) -> None:
    """Files that are cut off, and one that needs too much memory."""
    (model / "pytorch_model-2.bin").write_bytes(b"PK\x03\x04 cut off")
    (model / "cut.safetensors").write_bytes(b"\x09" + bytes(7) + b'{"a')
    done = call_tool(TOOL, str(model), str(tmp_path / "out"), "--max-memory", "1KiB")
    assert done.returncode == 1
    assert "pytorch_model-2.bin: not loaded as weights only: " in done.stderr
    assert "pytorch_model.bin: needs 2 KiB of memory, more than --max-memory" in done.stderr
    assert "cut.safetensors: not a safetensors file, or a part of it is missing" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_the_demo_needs_only_torch(
    module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without safetensors its shard is a .bin file."""
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    module.make_demo(torch, tmp_path / "demo")
    assert [path.suffix for path in module.find_weights(tmp_path / "demo")[1]] == [".bin", ".bin"]
