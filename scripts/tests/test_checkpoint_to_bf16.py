"""checkpoint_to_bf16: rounding bit by bit, both formats against their packages, nothing lost."""

from __future__ import annotations

import contextlib
import fractions
import json
import math
import os
import pickle
import re
import signal
import struct
import subprocess
import sys
import time
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "training/checkpoint_to_bf16.py"


@pytest.fixture(scope="module")
def bf16(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


@pytest.fixture(scope="module")
def torch() -> Any:
    """torch, where it is installed."""
    return pytest.importorskip("torch")


@pytest.fixture
def converter(bf16: Any, torch: Any) -> Any:
    """A converter with pieces of a few values, so that every tensor is cut into some."""
    made = bf16.Converter(torch, bf16.KEEP, bf16.read_own_memory("VmRSS") + 2**30, bf16.StopSign())
    made.piece = 64
    return made


def read_bytes(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Contents and times of all files of a folder."""
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def list_names(folder: Path) -> list[str]:
    """Names in a folder, in order."""
    return sorted(path.name for path in folder.iterdir())


# --- rounding ---


def round_by_fractions(value: float) -> float:
    """The nearest bfloat16, ties to even, by exact fractions: 7 bits behind the highest one."""
    if value == 0 or not math.isfinite(value):
        return value
    exact = fractions.Fraction(value)
    power = max(math.frexp(value)[1] - 1, -126)
    unit = fractions.Fraction(2) ** (power - 7)
    rounded = round(exact / unit) * unit  # Python rounds halves to the even one
    largest = fractions.Fraction(255) * fractions.Fraction(2) ** 120
    if abs(rounded) > largest:
        return math.copysign(math.inf, value)
    return math.copysign(float(rounded), value)


@pytest.mark.torch
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        *((1 + 1 / 128, 1 + 1 / 128), (1 + 1 / 256, 1.0), (1 + 3 / 256, 1 + 1 / 64)),
        *((-1 - 1 / 256, -1.0), (1 + 1 / 256 + 2**-23, 1 + 1 / 128)),
        *((255 * 2.0**120, 255 * 2.0**120), (3.4e38, math.inf), (-3.4e38, -math.inf)),
        *((2.0**-133, 2.0**-133), (2.0**-134, 0.0), (3 * 2.0**-134, 2.0**-132), (-0.0, -0.0)),
    ],
)
def test_rounding_by_hand(bf16: Any, torch: Any, value: float, expected: float) -> None:
    """Cases worked by hand, in both ways to round: ties, the largest, and subnormal numbers."""
    values = torch.tensor([value], dtype=torch.float32)
    written = bf16.round_to_bf16(torch, values)
    assert str(written.item()) == str(expected)
    assert bf16.compare_converted(torch, values, written, "x") == int(math.isinf(expected))


@pytest.mark.torch
@given(st.lists(st.floats(width=64), min_size=1, max_size=50))
def test_every_float64_is_rounded_once(bf16: Any, torch: Any, numbers: list[float]) -> None:
    """Any float64 becomes what exact fractions say, in torch's way and by whole numbers."""
    values = torch.tensor(numbers, dtype=torch.float64)
    written = bf16.round_to_bf16(torch, values)
    expected = torch.tensor([round_by_fractions(x) for x in numbers], dtype=torch.float64)
    assert torch.equal(written.isnan(), values.isnan())
    assert torch.equal(written.double().nan_to_num(7.0), expected.nan_to_num(7.0))
    bf16.compare_converted(torch, values, written, "x")


@pytest.mark.torch
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=200))
def test_every_float32_is_rounded_alike(bf16: Any, torch: Any, patterns: list[int]) -> None:
    """Any bits of a float32: torch, the quick and the slow way by whole numbers, and fractions."""
    data = bytearray(struct.pack(f"<{len(patterns)}I", *patterns))
    values = torch.frombuffer(data, dtype=torch.float32)
    written = bf16.round_to_bf16(torch, values)
    bf16.compare_converted(torch, values, written, "x")
    slow = bf16.compute_bf16_bits(torch, values)
    assert torch.equal(bf16.find_wanted_bits(torch, values).long(), slow)
    for value, result in zip(values.tolist(), written.tolist(), strict=True):
        assert math.isnan(result) if math.isnan(value) else result == round_by_fractions(value)


@pytest.mark.torch
def test_every_float16_is_rounded_right(bf16: Any, torch: Any) -> None:
    """All 65536 of them."""
    values = torch.arange(65536, dtype=torch.int32).to(torch.int16).view(torch.float16)
    written = bf16.round_to_bf16(torch, values)
    bf16.compare_converted(torch, values, written, "x")
    for value, result in zip(values.tolist(), written.tolist(), strict=True):
        assert math.isnan(result) if math.isnan(value) else result == round_by_fractions(value)


@pytest.mark.torch
def test_wrong_bits_are_found(bf16: Any, torch: Any) -> None:
    """A copy that was cut off instead of rounded, or lost a NaN, does not pass."""
    values = torch.tensor([1.0, 1 + 3 / 256, 2.0])
    cut = torch.tensor([1.0, 1 + 1 / 128, 2.0]).to(torch.bfloat16)
    with pytest.raises(bf16.Mismatch, match="has to be 0x3F82"):
        bf16.compare_converted(torch, values, cut, "x")
    values[2] = math.nan
    with pytest.raises(bf16.Mismatch, match="nan was written"):
        bf16.compare_converted(torch, values, values.nan_to_num(0.0).to(torch.bfloat16), "x")


# --- safetensors ---


def make_tensors(torch: Any) -> dict[str, Any]:
    """Tensors of many types and shapes, with numbers that are none."""
    torch.manual_seed(1)
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
        "model.odd": torch.arange(3, dtype=torch.uint8),
    }


def check_tensors(torch: Any, old: dict[str, Any], new: dict[str, Any]) -> None:
    """What was to be converted has been, by torch's own conversion; all else is bit by bit."""
    assert sorted(old) == sorted(new)
    for name, before in old.items():
        after = new[name]
        assert after.shape == before.shape
        is_kept = name.endswith("inv_freq") or before.dtype not in (
            *(torch.float64, torch.float32, torch.float16),
        )
        if is_kept:
            assert after.dtype == before.dtype
            flat = [t.contiguous().reshape(-1).view(torch.uint8) for t in (before, after)]
            assert torch.equal(*flat)
        else:
            assert after.dtype == torch.bfloat16
            assert torch.equal(after.isnan(), before.isnan())
            assert torch.equal(after.nan_to_num(7.0), before.to(torch.bfloat16).nan_to_num(7.0))


@pytest.mark.torch
def test_safetensors_package_reads_what_is_written(
    converter: Any, bf16: Any, torch: Any, tmp_path: Path
) -> None:
    """A file of the safetensors package, converted, is read by that package: values, types,
    metadata; and its bytes are those that the package itself would have written."""
    package = pytest.importorskip("safetensors.torch")
    tensors = make_tensors(torch)
    package.save_file(tensors, tmp_path / "in.safetensors", metadata={"format": "pt", "é": "ü"})
    bf16.convert_safetensors(converter, tmp_path / "in.safetensors", tmp_path / "out.safetensors")
    files = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    assert bf16.compare_safetensors(converter, *files) == 1
    check_tensors(torch, tensors, package.load_file(tmp_path / "out.safetensors"))
    with package.safe_open(tmp_path / "out.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt", "é": "ü"}


@pytest.mark.torch
@pytest.mark.parametrize(
    "damage",
    [
        *("empty", "short", "cut", "longer", "hole", "size", "no json", "no dict", "huge"),
        *("beyond numbers", "half a character"),
    ],
)
def test_damaged_safetensors_are_refused(bf16: Any, tmp_path: Path, damage: str) -> None:
    """A file that is cut off, too long, or tells of tensors where they are not, is refused."""
    offsets = {"hole": [4, 12], "size": [0, 7]}.get(damage, [0, 8])
    entry = {"dtype": "F32", "shape": [2], "data_offsets": offsets}
    odd = {"no json": b"{x", "no dict": b"[3]", "half a character": b'{"\\ud800": '}
    odd["half a character"] += json.dumps(entry).encode() + b"}"
    odd["beyond numbers"] = json.dumps({"a": entry}).replace("[2]", "[1e999]").encode()
    text = odd.get(damage, json.dumps({"a": entry}).encode())
    length = 2**60 if damage == "huge" else len(text)
    data = length.to_bytes(8, "little") + text + bytes(offsets[1])
    data = {"empty": b"", "short": data[:12], "cut": data[:-1], "longer": data + b"x"}.get(
        damage, data
    )
    path = tmp_path / "x.safetensors"
    path.write_bytes(data)
    with pytest.raises(bf16.Refused, match=r"^x\.safetensors: "):
        bf16.read_header(path)


@pytest.mark.torch
def test_changed_byte_is_found(converter: Any, bf16: Any, torch: Any, tmp_path: Path) -> None:
    """One bit that differs in the copy, converted or kept, does not verify."""
    package = pytest.importorskip("safetensors.torch")
    source, target = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    package.save_file({"a": torch.randn(100), "b": torch.arange(10)}, source)
    bf16.convert_safetensors(converter, source, target)
    good = target.read_bytes()
    for place in (-1, -150, len(good) - 200 - 40):
        data = bytearray(good)
        data[place] ^= 1
        target.write_bytes(data)
        with pytest.raises(bf16.Mismatch):
            bf16.compare_safetensors(converter, source, target)


# --- .bin ---


def make_state(torch: Any) -> OrderedDict[str, Any]:
    """A state with tied weights, views, parameters, other strides, and nested things."""
    state: OrderedDict[str, Any] = OrderedDict(make_tensors(torch))
    embed = torch.nn.Parameter(torch.randn(40, 8))
    state["embed.weight"], state["head.weight"] = embed, embed.detach()
    state["same.object"] = embed
    state["rows"] = embed.detach()[3:5]
    state["turned"] = torch.randn(6, 4).t()
    state["wide"] = torch.randn(1).expand(50)
    freq = torch.randn(4)
    state["a.inv_freq"], state["b.tied_to_it"] = freq, freq
    state["optimizer"] = {"state": {0: {"step": torch.tensor(3.0), "exp_avg": torch.randn(5)}}}
    state["nested"] = [{"deep": (torch.randn(3), torch.arange(2), "text", None)}, 2.5]
    state._metadata = OrderedDict({"": {"version": 1}})  # type: ignore[attr-defined]
    return state


@pytest.mark.torch
@pytest.mark.parametrize("is_old", [False, True])
def test_bin_keeps_all_but_the_type(
    converter: Any, bf16: Any, torch: Any, tmp_path: Path, is_old: bool
) -> None:
    """A `.bin`, of today and of torch before 1.6: ties, views, strides, parameters and the rest
    are as they were; what fits a pattern, and what is tied to it, keeps its type."""
    state = make_state(torch)
    if is_old:
        del state["model.tiny"]  # torch itself cannot write float8 so
    source, target = tmp_path / "pytorch_model.bin", tmp_path / "new.bin"
    torch.save(state, source, _use_new_zipfile_serialization=not is_old)
    bf16.convert_pickle(converter, source, target)
    assert bf16.compare_pickles(converter, source, target) == 1
    new = torch.load(target, weights_only=True)
    assert list(new) == list(state)
    assert new._metadata == {"": {"version": 1}}
    names = [name for name in state if name.startswith("model.")]
    check_tensors(torch, {n: state[n] for n in names}, {n: new[n] for n in names})
    assert type(new["embed.weight"]) is torch.nn.Parameter
    assert new["same.object"] is new["embed.weight"]
    assert new["head.weight"].data_ptr() == new["embed.weight"].data_ptr()
    assert new["rows"].data_ptr() == new["embed.weight"].data_ptr() + 3 * 8 * 2
    assert torch.equal(new["rows"], state["rows"].to(torch.bfloat16))
    assert new["turned"].stride() == (1, 4)
    assert torch.equal(new["turned"], state["turned"].to(torch.bfloat16))
    assert new["wide"].untyped_storage().nbytes() == 2
    assert new["a.inv_freq"].dtype == new["b.tied_to_it"].dtype == torch.float32
    assert new["a.inv_freq"].data_ptr() == new["b.tied_to_it"].data_ptr()
    assert new["optimizer"]["state"][0]["step"].dtype == torch.float32
    deep = new["nested"][0]["deep"]
    assert (deep[0].dtype, deep[2:], new["nested"][1]) == (torch.bfloat16, ("text", None), 2.5)
    with zipfile.ZipFile(target) as archive:
        assert archive.testzip() is None
    assert torch.load(target, weights_only=True, mmap=True)["model.one"].item() == 1.5


class Evil:
    """Pickles as a call of os.mkdir."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


@pytest.mark.torch
@pytest.mark.parametrize("form", ["zip", "old", "bare", "late"])
def test_pickle_that_would_run_code_is_refused(
    call_tool: Callable[..., Any], torch: Any, tmp_path: Path, form: str
) -> None:
    """A `.bin` with code in it: one line that names what it wanted, nothing of it was run, nothing
    was written; not even where the environment asks torch to trust all files."""
    source, ran = tmp_path / "in", tmp_path / "ran"
    source.mkdir()
    torch.save({"w": torch.ones(3)}, source / "pytorch_model-00001-of-00002.bin")
    bad = source / "pytorch_model-00002-of-00002.bin"
    if form in ("bare", "late"):
        bad.write_bytes(pickle.dumps(Evil(ran), protocol=2 if form == "bare" else 5))
    else:
        evil = {"w": torch.ones(3), "x": Evil(ran)}
        torch.save(evil, bad, _use_new_zipfile_serialization=form == "zip")
    before = read_bytes(source)
    environ = {"TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "1"}
    done = call_tool(TOOL, str(source), str(tmp_path / "out"), environ=environ)
    assert done.returncode == 1
    problems = [line for line in done.stderr.splitlines() if line.startswith("problem: ")]
    assert len(problems) == 1
    # Of later pickles torch reads nothing at all, so it does not know what they wanted.
    assert ("Unsupported operand" if form == "late" else "mkdir") in problems[0]
    assert "nothing of it was run" in problems[0]
    assert "Traceback" not in done.stderr
    assert list_names(tmp_path) == ["in"]
    assert read_bytes(source) == before
    # The file is what the test says it is.
    with contextlib.suppress(RuntimeError, pickle.UnpicklingError):
        torch.load(bad, weights_only=False)
    assert ran.is_dir()


@pytest.mark.torch
def test_what_is_no_plain_tensor_is_refused(
    converter: Any, bf16: Any, torch: Any, tmp_path: Path
) -> None:
    """A sparse tensor is named, with what to do."""
    path = tmp_path / "pytorch_model.bin"
    torch.save({"a": torch.eye(3).to_sparse()}, path)
    with pytest.raises(bf16.Refused, match=r"'a' is a tensor of layout .*leave this file out"):
        bf16.plan_pickle(converter, path)


@pytest.mark.torch
def test_lost_tie_is_found(converter: Any, bf16: Any, torch: Any, tmp_path: Path) -> None:
    """A copy in which tied weights are two, or two are one, does not verify."""
    one, two = tmp_path / "one.bin", tmp_path / "two.bin"
    weight = torch.arange(8)
    torch.save({"a": weight, "b": weight}, one)
    torch.save({"a": weight, "b": weight.clone()}, two)
    with pytest.raises(bf16.Mismatch, match="has lost the tensors"):
        bf16.compare_pickles(converter, one, two)
    with pytest.raises(bf16.Mismatch, match="share memory that did not"):
        bf16.compare_pickles(converter, two, one)


# --- whole folders ---


@pytest.fixture
def sharded(torch: Any, tmp_path: Path) -> Path:
    """A checkpoint in two shards of each format, with indexes, configuration and other files."""
    package = pytest.importorskip("safetensors.torch")
    folder = tmp_path / "in"
    folder.mkdir()
    shards = [{"a": torch.randn(300), "b": torch.arange(4)}, {"c": torch.randn(50, 2)}]
    for save, stem, ending in (
        (package.save_file, "model", "safetensors"),
        (torch.save, "pytorch_model", "bin"),
    ):
        weights = {}
        for number, shard in enumerate(shards, start=1):
            name = f"{stem}-{number:05d}-of-00002.{ending}"
            save(shard, folder / name)
            weights |= dict.fromkeys(shard, name)
        index = {"metadata": {"total_size": 1632, "more": 1}, "weight_map": weights}
        (folder / f"{stem}.{ending}.index.json").write_text(json.dumps(index))
    config = {"model_type": "x", "torch_dtype": "float32", "text_config": {"dtype": "float16"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text('{"é": 1}', encoding="utf-8")
    (folder / "1_Pooling").mkdir()
    pooling = {"size": 3, "torch_dtype": "float32"}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    (folder / "1_Pooling" / "model.safetensors.index.json").write_text("{}")
    (folder / "training_args.bin").write_bytes(pickle.dumps(Evil(tmp_path / "ran")))
    return folder


@pytest.mark.torch
def test_folder_is_whole(
    call_tool: Callable[..., Any], read_json: Callable[[Path], Any], torch: Any, sharded: Path
) -> None:
    """Shards, indexes, configuration, tokenizer: all there and true; the source was only read;
    what is left out is named, and a training_args.bin was never unpickled."""
    package = pytest.importorskip("safetensors.torch")
    before = read_bytes(sharded)
    out, report = sharded.parent / "out", sharded.parent / "out.json"
    done = call_tool(TOOL, str(sharded), str(out), "--json", str(report))
    assert done.returncode == 0, done.stderr
    assert read_bytes(sharded) == before
    assert list_names(sharded.parent) == ["in", "out", "out.json"]
    left = {"1_Pooling/model.safetensors.index.json", "training_args.bin"}
    assert set(read_bytes(out)) == set(before) - left
    assert f"left out: {', '.join(sorted(left))};" in done.stderr
    for name in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        old, new = read_json(sharded / name), read_json(out / name)
        assert new["weight_map"] == old["weight_map"]
        assert new["metadata"] == {"total_size": 300 * 2 + 4 * 8 + 100 * 2, "more": 1}
    config = read_json(out / "config.json")
    assert config["torch_dtype"] == config["text_config"]["dtype"] == "bfloat16"
    # Weights of sub-folders are not converted, and so theirs is as it was.
    pooling = read_json(out / "1_Pooling" / "config.json")
    assert pooling == {"size": 3, "torch_dtype": "float32"}
    first = package.load_file(out / "model-00001-of-00002.safetensors")
    second = torch.load(out / "pytorch_model-00001-of-00002.bin", weights_only=True)
    assert torch.equal(first["a"], second["a"])
    rows = read_json(report)["results"]
    assert [row["verdict"] for row in rows] == ["ok"] * 4
    assert all(row["verified"] for row in rows)


@pytest.mark.torch
def test_single_file_and_dry_run(
    call_tool: Callable[..., Any], sharded: Path, read_json: Callable[[Path], Any]
) -> None:
    """A dry run writes nothing and says what would be; one file goes into a folder of its own."""
    file, out = sharded / "model-00001-of-00002.safetensors", sharded.parent / "out"
    done = call_tool(TOOL, str(file), str(out), "--dry_run")
    assert done.returncode == 0, done.stderr
    assert "would be converted" in done.stdout
    assert not out.exists()
    done = call_tool(TOOL, str(file), str(out), "--keep", "a")
    assert done.returncode == 0, done.stderr
    assert list_names(out) == [file.name]
    assert (out / file.name).stat().st_size == file.stat().st_size


@pytest.mark.torch
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("missing shard", "'model-00002-of-00002.safetensors' is not there; fetch it first"),
        ("outside", "'../x.safetensors' is no .bin or .safetensors of this folder"),
        ("no index", "model.safetensors.index.json: this is no JSON"),
        ("other name", "model.safetensors.index.json: 'zz' is not in"),
        ("cut shard", "model-00002-of-00002.safetensors: "),
        ("lost index", "model.safetensors.index.json: a link to what is not there; fetch it first"),
        ("lost config", "config.json: a link to what is not there; fetch it first"),
        ("no config", "config.json: this is no JSON"),
        ("odd metadata", "model.safetensors.index.json: there is no weight_map in this index"),
    ],
)
def test_broken_checkpoint_is_told_before_anything_is_written(
    call_tool: Callable[..., Any], sharded: Path, change: str, words: str
) -> None:
    """A shard that is missing, cut or elsewhere, and an index that is wrong: one line each."""
    index, shard = sharded / "model.safetensors.index.json", "model-00002-of-00002.safetensors"
    document = json.loads(index.read_text())
    if change == "missing shard":
        (sharded / shard).unlink()
    elif change == "cut shard":
        (sharded / shard).write_bytes((sharded / shard).read_bytes()[:-5])
    elif change == "no index":
        index.write_text("{")
    elif change == "no config":
        (sharded / "config.json").write_text("{")
    elif change.startswith("lost "):
        # As in a cache of downloads whose blobs were removed.
        path = index if change == "lost index" else sharded / "config.json"
        path.unlink()
        path.symlink_to("../blobs/0123")
    elif change == "odd metadata":
        index.write_text(json.dumps({**document, "metadata": [3]}))
    else:
        name = "../x.safetensors" if change == "outside" else shard
        document["weight_map"]["zz"] = name
        index.write_text(json.dumps(document))
    done = call_tool(TOOL, str(sharded), str(sharded.parent / "out"))
    assert done.returncode == 1
    assert words in done.stderr
    assert done.stderr.count("problem: ") == 1
    assert "Traceback" not in done.stderr
    assert list_names(sharded.parent) == ["in"]


@pytest.mark.torch
def test_run_that_was_killed_is_resumed(
    run_tool: Callable[..., Any], torch: Any, tmp_path: Path, read_json: Callable[[Path], Any]
) -> None:
    """SIGKILL in the middle: the source is as it was, no folder looks complete, a second run is
    refused without --resume, and with it does only what is missing."""
    package = pytest.importorskip("safetensors.torch")
    source, out, partial = tmp_path / "in", tmp_path / "out", tmp_path / ".out.partial"
    source.mkdir()
    for number in range(6):
        file = source / f"model-{number}.safetensors"
        package.save_file({f"w{number}": torch.randn(2_000_000)}, file)
    (source / "config.json").write_text('{"model_type": "x"}')
    before = read_bytes(source)
    command = [sys.executable, str(SCRIPTS / TOOL), str(source), str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while len(list(partial.glob("*.safetensors"))) < 2:
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.002)
    finally:
        process.kill()
        process.wait(timeout=10)
    assert read_bytes(source) == before
    assert not out.exists()
    assert not (partial / "config.json").exists()
    done = run_tool(TOOL, str(source), str(out))
    assert done.returncode == 2
    assert "go on with --resume" in done.stderr
    done = run_tool(TOOL, str(source), str(out), "--resume", "--keep", "w0")
    assert done.returncode == 2
    assert "with other options: remove it" in done.stderr
    report = tmp_path / "x.json"
    done = run_tool(TOOL, str(source), str(out), "--resume", "--json", str(report))
    assert done.returncode == 0, done.stderr
    verdicts = [row["verdict"] for row in read_json(report)["results"]]
    # Of two files with their names the second one may not have been noted yet.
    assert verdicts[0] == "done before"
    assert verdicts[-1] == "ok"
    assert read_bytes(source) == before
    assert list_names(out) == sorted(before)
    assert list_names(tmp_path) == ["in", "out", "x.json"]
    for number in range(6):
        old = package.load_file(source / f"model-{number}.safetensors")[f"w{number}"]
        new = package.load_file(out / f"model-{number}.safetensors")[f"w{number}"]
        assert torch.equal(new, old.to(torch.bfloat16))


@pytest.mark.torch
@pytest.mark.parametrize("foreign", ["folder", "link", "empty"])
def test_what_this_tool_did_not_leave_is_not_cleared(
    run_tool: Callable[..., Any], sharded: Path, foreign: str
) -> None:
    """--resume removes nothing of a folder of that name that is somebody else's, nor through a
    link; an empty one, of a run that was ended at once, is taken. An index without metadata gets
    it."""
    index = sharded / "model.safetensors.index.json"
    document = json.loads(index.read_text())
    index.write_text(json.dumps({**document, "metadata": None}))
    partial, other = sharded.parent / ".out.partial", sharded.parent / "other"
    home = other if foreign == "link" else partial
    home.mkdir()
    if foreign == "link":
        partial.symlink_to(other)
    if foreign != "empty":
        (home / "thesis.tex").write_text("precious")
    out = sharded.parent / "out"
    done = run_tool(TOOL, str(sharded), str(out), "--resume")
    if foreign == "empty":
        assert done.returncode == 0, done.stderr
        total = json.loads((out / index.name).read_text())["metadata"]["total_size"]
        assert total == 300 * 2 + 4 * 8 + 100 * 2
        assert list_names(sharded.parent) == ["in", "out"]
        return
    assert done.returncode == 2
    assert "remove it" in done.stderr if foreign == "link" else "'thesis.tex'" in done.stderr
    assert (home / "thesis.tex").read_text() == "precious"
    assert not out.exists()


@pytest.mark.torch
def test_end_of_a_run_is_one_step(
    bf16: Any, torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed between the last two steps, the move and the removal of its notes, a run has left
    the whole folder under its name; an empty folder that was there is replaced."""
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    torch.save({"w": torch.ones(3)}, source / "pytorch_model.bin")
    (source / "config.json").write_text('{"model_type": "x"}')
    ended, unlink = ChildProcessError("killed here"), Path.unlink

    def end(path: Path, missing_ok: bool = False) -> None:
        if path.name == bf16.PROGRESS:
            raise ended
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", end)
    converter = bf16.Converter(torch, bf16.KEEP, 2**40, bf16.StopSign())
    options = bf16.build_parser().parse_args(["in", "out"])
    result = bf16.convert_folder(converter, source, out, options)
    assert len(result.problems) == 1
    assert list_names(tmp_path) == ["in", "out"]
    assert set(list_names(out)) >= {"pytorch_model.bin", "config.json"}
    assert torch.load(out / "pytorch_model.bin", weights_only=True)["w"].dtype == torch.bfloat16


@pytest.mark.nightly
@pytest.mark.torch
@pytest.mark.usefixtures("can_mount")
def test_resumed_run_needs_room_for_the_rest_alone(
    run_tool: Callable[..., Any], torch: Any, tmp_path: Path
) -> None:
    """On a disk with room for the rest of a run and not for all of it --resume goes on; a disk
    that has no room for a first note is told in a line."""
    source, disk = tmp_path / "in", tmp_path / "disk"
    source.mkdir()
    disk.mkdir()
    for number in range(3):
        state = {f"w{number}": torch.randn(250_000)}
        torch.save(state, source / f"pytorch_model-{number}.bin")
    (source / "tokenizer.json").write_text("x" * 600_000)
    arguments = [str(source), str(disk / "out")]
    mount = ["mount", "-t", "tmpfs", "-o", "size=1900k", "none", disk]
    subprocess.run(mount, check=True, timeout=10)
    try:
        done = run_tool(TOOL, *arguments)
        assert done.returncode == 1
        assert "No space left on device" in done.stderr
        assert len(list((disk / ".out.partial").glob("*.bin"))) == 3
        (disk / ".out.partial" / "pytorch_model-2.bin").unlink()
        (source / "tokenizer.json").write_text("{}")
        done = run_tool(TOOL, *arguments, "--resume")
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("done before") == 2
    finally:
        subprocess.run(["umount", disk], check=True, timeout=10)
    # Two inodes: the disk itself, and the new folder.
    mount = ["mount", "-t", "tmpfs", "-o", "nr_inodes=2", "none", disk]
    subprocess.run(mount, check=True, timeout=10)
    try:
        done = run_tool(TOOL, *arguments)
        assert done.returncode == 1
        assert "No space left on device" in done.stderr
        assert "Traceback" not in done.stderr
    finally:
        subprocess.run(["umount", disk], check=True, timeout=10)


@pytest.mark.torch
@pytest.mark.usefixtures("can_mount")
def test_mount_is_no_new_folder(
    run_tool: Callable[..., Any], torch_trap: dict[str, str], sharded: Path
) -> None:
    """An empty mount, and a link, are refused at once, not after hours of work that cannot be
    moved there."""
    disk, link = sharded.parent / "disk", sharded.parent / "link"
    disk.mkdir()
    link.symlink_to(disk)
    subprocess.run(["mount", "-t", "tmpfs", "none", disk], check=True)
    try:
        for target in (disk, link):
            done = run_tool(TOOL, str(sharded), str(target), environ=torch_trap)
            assert done.returncode == 2
            assert f"{target.name} is a link or a mount" in done.stderr
    finally:
        subprocess.run(["umount", disk], check=True)


@pytest.mark.torch
@pytest.mark.usefixtures("can_mount")
def test_full_disk_is_told(run_tool: Callable[..., Any], torch: Any, tmp_path: Path) -> None:
    """On a small tmpfs that fills, before and during the run: one line, and no complete folder."""
    source, disk = tmp_path / "in", tmp_path / "disk"
    source.mkdir()
    disk.mkdir()
    torch.save({"w": torch.randn(500_000)}, source / "pytorch_model.bin")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "none", disk], check=True)
    try:
        done = run_tool(TOOL, str(source), str(disk / "out"))
        assert done.returncode == 2
        assert "1.0 MB are needed, 0.6 MB are free" in done.stderr
        assert list_names(disk) == []
        # It fits when looked at, and not with the other file that is copied.
        torch.save({"w": torch.randn(250_000)}, source / "pytorch_model.bin")
        (source / "tokenizer.json").write_text("x" * 200_000)
        done = run_tool(TOOL, str(source), str(disk / "out"))
        assert done.returncode == 1
        assert "No space left on device" in done.stderr
        assert "Traceback" not in done.stderr
        assert list_names(disk) == [".out.partial"]
    finally:
        subprocess.run(["umount", disk], check=True)


def measure_highest(command: list[str], seconds: float) -> tuple[int, int, str]:
    """The most memory that a program took (VmHWM), its exit status, and what it said."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    highest, deadline = 0, time.monotonic() + seconds
    try:
        while process.poll() is None and time.monotonic() < deadline:
            try:
                text = Path(f"/proc/{process.pid}/status").read_text()
            except OSError:
                break
            lines = [line for line in text.splitlines() if line.startswith("VmHWM")]
            highest = max([highest, *(1024 * int(line.split()[1]) for line in lines)])
            time.sleep(0.005)
        said = process.communicate(timeout=30)[0]
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    return highest, process.returncode, said


@pytest.mark.torch
@pytest.mark.nightly
@pytest.mark.parametrize("ending", ["safetensors", "bin"])
def test_checkpoint_larger_than_the_limit(torch: Any, tmp_path: Path, ending: str) -> None:
    """One file of one tensor, larger than --max_memory: the process with torch in it stays below,
    by the kernel's own figure from outside."""
    package = pytest.importorskip("safetensors.torch")
    source = tmp_path / "in"
    source.mkdir()
    # What Python and torch take by themselves differs from one environment to the next.
    alone, _, _ = measure_highest([sys.executable, "-c", "import torch; torch.zeros(1)"], 240)
    refused = subprocess.run(
        [sys.executable, str(SCRIPTS / TOOL), "--demo", "1MiB", "--max_memory", "20MiB"],
        capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    found = re.search(r"give at least (\d+)MiB", refused.stderr)
    assert found, refused.stderr
    limit = max(alone // 2**20 + 66, int(found[1]) + 16)
    count = limit * 2**20 // 4
    tensor = {"w": torch.full((count,), 1 + 3 / 256), "v": torch.ones(count // 10)}
    if ending == "bin":
        torch.save(tensor, source / "pytorch_model.bin")
    else:
        package.save_file(tensor, source / "model.safetensors")
    size = (count + count // 10) * 4
    assert next(source.iterdir()).stat().st_size >= size > limit * 2**20
    command = [sys.executable, str(SCRIPTS / TOOL), str(source), str(tmp_path / "out")]
    highest, status, said = measure_highest([*command, "--max_memory", f"{limit}MiB"], 240)
    assert status == 0, said
    assert 100 * 2**20 < highest <= limit * 2**20
    (file,) = (tmp_path / "out").iterdir()
    assert size / 2 <= file.stat().st_size < size / 2 + 10_000


@pytest.mark.torch
def test_too_little_memory_is_told(
    run_tool: Callable[..., Any], torch: Any, tmp_path: Path
) -> None:
    """A limit below what torch takes by itself, and an old file that has to be read whole."""
    torch.save(
        {"w": torch.zeros(60_000_000)},
        tmp_path / "pytorch_model.bin",
        _use_new_zipfile_serialization=False,
    )
    arguments = [str(tmp_path / "pytorch_model.bin"), str(tmp_path / "out")]
    done = run_tool(TOOL, *arguments, "--max_memory", "20MiB")
    assert done.returncode == 2
    assert "Python and torch alone take" in done.stderr
    # The least that it names is enough, and it is the same truth as that of --help.
    found = re.search(r"give at least (\d+)MiB", done.stderr)
    assert found
    least = f"{int(found[1]) + 8}MiB"  # the next run's Python may be somewhat larger
    done = run_tool(TOOL, "--demo", "32MiB", "--max_memory", least)
    assert done.returncode == 0, done.stderr
    assert "MiB or more" not in run_tool(TOOL, "--help").stdout
    done = run_tool(TOOL, *arguments, "--max_memory", f"{int(found[1]) + 100}MiB")
    assert done.returncode == 1
    assert "has to be read whole: give --max_memory" in done.stderr


@pytest.mark.torch
def test_model_of_transformers_runs_after_it(
    call_tool: Callable[..., Any], torch: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tiny model that transformers saved in shards, with tied weights: converted, loaded by
    transformers without naming a type, the same as the model cast to bfloat16."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(config).float().eval()
    model.save_pretrained(tmp_path / "in", max_shard_size="8kB")
    assert len(list((tmp_path / "in").glob("*.safetensors"))) > 1
    done = call_tool(TOOL, str(tmp_path / "in"), str(tmp_path / "out"))
    assert done.returncode == 0, done.stderr
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out", dtype="auto")
    assert loaded.dtype == torch.bfloat16
    tied = loaded.lm_head.weight.data_ptr() == loaded.model.embed_tokens.weight.data_ptr()
    assert tied
    cast = model.to(torch.bfloat16).state_dict()
    for name, tensor in loaded.state_dict().items():
        assert torch.equal(tensor, cast[name]), name


# --- small things ---


def test_config_says_the_new_type(bf16: Any) -> None:
    """Types of weights at any depth, not those of something else; one is added to a model's."""
    config = {
        "model_type": "x",
        "dtype": "torch.float32",
        "vision": [{"torch_dtype": "auto", "dtype": "int8"}],
        "quantization_config": {"bnb_4bit_compute_dtype": "float16"},
    }
    changed = bf16.change_dtypes(config)
    assert changed["dtype"] == "bfloat16"
    assert changed["vision"] == [{"torch_dtype": "bfloat16", "dtype": "int8"}]
    assert changed["quantization_config"] == config["quantization_config"]
    assert bf16.change_dtypes({"architectures": ["X"]})["torch_dtype"] == "bfloat16"
    assert bf16.change_dtypes({"size": 3}) == {"size": 3}


def test_old_torch_is_refused(bf16: Any) -> None:
    """A torch whose weights_only can be got round is wrong use; a later one is not."""
    with pytest.raises(bf16.WrongUse, match=r"from 2\.6 on"):
        bf16.check_torch(SimpleNamespace(__version__="2.5.1+cu121"))
    bf16.check_torch(SimpleNamespace(__version__="2.13.0+cpu"))
    bf16.check_torch(SimpleNamespace(__version__="3.0"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name the folder to read and the new one to write"),
        (["none", "out"], "there is no none"),
        (["in", "in"], "has to be another one"),
        (["in", "in/out"], "neither may be within the other"),
        (["in", "full"], "full is there already"),
        (["in", "none/out"], "to put the new one into"),
        (["--demo", "1MiB", "--resume"], "--demo makes its own source"),
        (["in", "out", "--dry_run", "--resume"], "--dry_run goes on with nothing"),
        (["file.txt", "out"], "only .bin and .safetensors"),
        (["a.bin", "out", "--copy", "x"], "--copy takes files of a folder along"),
    ],
)
def test_wrong_use_is_told(
    call_tool: Callable[..., Any],
    tmp_path: Path,
    arguments: list[str],
    words: str,
) -> None:
    """What makes no sense ends with status 2 before torch is imported."""
    work = tmp_path / "work"
    for name in ("in", "full/x"):
        (work / name).mkdir(parents=True)
    for name in ("file.txt", "a.bin"):
        (work / name).write_text("")
    done = call_tool(TOOL, *arguments, without_torch=True, cwd=work)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.nightly
@pytest.mark.torch
def test_ctrl_c_leaves_something_to_resume(torch: Any, tmp_path: Path) -> None:
    """SIGTERM in the middle of a file: status 1, the source as it was, and --resume is named."""
    source = tmp_path / "in"
    source.mkdir()
    torch.save({"w": torch.zeros(60_000_000)}, source / "pytorch_model.bin")
    command = [sys.executable, str(SCRIPTS / TOOL), str(source), str(tmp_path / "out")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".out.partial/.*.part")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.send_signal(signal.SIGTERM)
        _, notes = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
    assert process.returncode == 1, notes
    assert "stopped by SIGTERM" in notes
    assert "--resume goes on" in notes
    assert not (tmp_path / "out").exists()
