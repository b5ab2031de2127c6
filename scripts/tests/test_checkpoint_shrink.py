"""checkpoint_shrink: what is dragged along goes, everything else stays as it was."""

from __future__ import annotations

import math
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
TOOL = "training/checkpoint_shrink.py"


def save_state(path: Path, **options: Any) -> dict[str, Any]:
    """A checkpoint that drags storages along at every depth."""
    flat, table = torch.randn(100_000), torch.randn(2000, 50)
    table[0, 0] = math.nan
    model: OrderedDict[str, Any] = OrderedDict(
        weight=torch.nn.Parameter(flat[10:1010].view(20, 50)),
        tied=flat[10:1010].view(20, 50),
        part=flat[20:40],
        other=flat[5000:5010],
        column=table[:, :2],
        turned=torch.randn(40, 3).t(),
        none=flat[:0],
        waves=torch.ones(9000, dtype=torch.complex64)[:9],
    )
    model._metadata = OrderedDict({"": {"version": 1}})  # type: ignore[attr-defined]
    state = {"model": model, "rng": (torch.arange(1000, dtype=torch.uint8)[100:108], [1, "x"])}
    torch.save(state, path, **options)
    return state


@pytest.mark.parametrize("is_old", [False, True])
def test_what_is_dragged_along_goes(call_json: Any, tmp_path: Path, is_old: bool) -> None:
    """In dicts, lists and tuples, in files of today and of torch before 1.6. The dry run tells the
    size after; the mode stays; nothing is left behind; a second run gains nothing."""
    path = tmp_path / "c" / "step_1" / "model_states.pt"
    path.parent.mkdir(parents=True)
    state = save_state(path, _use_new_zipfile_serialization=not is_old)
    path.chmod(0o640)
    size = path.stat().st_size
    rows = []
    for more in (["--dry-run"], [], []):
        done = call_json(TOOL, str(tmp_path / "c"), *more)
        assert done.returncode == 0, done.stderr
        rows += done.document["results"]
    planned, shrunk, again = rows
    assert [row["verdict"] for row in rows] == ["would shrink", "shrunk", "nothing to gain"]
    assert planned["source_bytes"] == size
    assert planned["dragged_bytes"] == shrunk["dragged_bytes"] > 800_000
    assert shrunk["target_bytes"] == again["source_bytes"] == path.stat().st_size
    assert abs(planned["target_bytes"] - shrunk["target_bytes"]) < 4000
    assert path.stat().st_mode & 0o777 == 0o640
    assert [one.name for one in path.parent.iterdir()] == ["model_states.pt"]

    new = torch.load(path, weights_only=True)
    model = new["model"]
    assert model._metadata == {"": {"version": 1}}
    for name, tensor in state["model"].items():
        assert type(model[name]) is type(tensor)
        assert torch.equal(model[name].nan_to_num(5), tensor.nan_to_num(5)), name
    assert model["weight"].data_ptr() == model["tied"].data_ptr()
    assert model["part"].data_ptr() == model["weight"].data_ptr() + 10 * 4
    assert model["weight"].untyped_storage().nbytes() <= 1000 * 4 + 16
    assert model["column"].untyped_storage().nbytes() == 2000 * 2 * 4
    assert model["turned"].stride() == (1, 3)
    assert new["rng"][0].tolist() == list(range(100, 108))
    assert new["rng"][1] == [1, "x"]


def test_a_file_that_does_not_verify_stays(
    call_tool: Any, module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that loses a value: the old file is as it was."""
    path = tmp_path / "x.pt"
    torch.save({"w": torch.arange(9000.0)[:5]}, path)
    before = path.read_bytes()
    cut = module.cut_out

    def lose(*arguments: Any) -> None:
        cut(*arguments)
        arguments[2][0].members[0][1][3] = 7.0

    monkeypatch.setattr(module, "cut_out", lose)
    done = call_tool(TOOL, str(tmp_path))
    assert done.returncode == 1
    assert "x.pt: the new file did not verify: 'w' is not what it was" in done.stderr
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["x.pt"]


def test_one_bad_file_does_not_stop_the_others(call_tool: Any, tmp_path: Path) -> None:
    """Refused files are named; links are not followed."""
    torch.save({"w": torch.eye(3).to_sparse()}, tmp_path / "a.pt")
    torch.save({"w": torch.zeros(9000)[:5]}, tmp_path / "b.pt")
    (tmp_path / "c.pt").symlink_to("b.pt")
    done = call_tool(TOOL, str(tmp_path))
    assert done.returncode == 1
    assert "a.pt: 'w' is not a plain tensor (Tensor, torch.sparse_coo, cpu)" in done.stderr
    assert done.stdout.count("refused") == done.stdout.count("shrunk") == 1
    assert (tmp_path / "c.pt").is_symlink()
