"""Checkpoints: nothing runs while one is read, and no difference is missed."""

from __future__ import annotations

import math
import os
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kit.checkpoints import (
    Refused,
    find_difference,
    load_checkpoint,
)
from kit.cli import UsageError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


class Evil:
    """Pickles as a call of os.mkdir."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.folder),)


@pytest.mark.parametrize("form", ["zip", "old", "bare"])
def test_a_file_that_wants_to_run_code_is_refused(tmp_path: Path, form: str) -> None:
    """With the name of what it wanted, and without running it; so is a file that is cut off."""
    (tmp_path / "cut.bin").write_bytes(b"PK\x03\x04 cut off")
    with pytest.raises(Refused, match=r"not loaded as weights only: .+"):
        load_checkpoint(torch, tmp_path / "cut.bin")
    state = {"weight": torch.ones(2), "extra": Evil(tmp_path / "ran")}
    path = tmp_path / "x.bin"
    if form == "bare":
        path.write_bytes(pickle.dumps(Evil(tmp_path / "ran"), protocol=2))
    else:
        torch.save(state, path, _use_new_zipfile_serialization=form == "zip")
    with pytest.raises(Refused, match=r"it wants to call posix\.mkdir; none of its code was run"):
        load_checkpoint(torch, path)
    assert not (tmp_path / "ran").exists()


def test_a_planted_difference_is_found() -> None:
    """A value, a type, a tie, a key, a number; a NaN in the same place is not a difference."""
    weight = torch.tensor([1.0, 2.0])
    good = {"a": weight, "b": weight, "c": [1, math.nan]}

    def differ(other: Any) -> str | None:
        return find_difference(torch, good, other, torch.equal)

    copied = weight.clone()
    assert differ({"a": copied, "b": copied, "c": [1, math.nan]}) is None
    assert differ({**good, "a": torch.tensor([1.0, 3.0])}) == "'a' is not what it was"
    for other in ({"c": [2, math.nan]}, {"c": (1, math.nan)}, {"b": torch.ones(3)}, {"d": 1}):
        assert differ({**good, **other}).startswith("something other than the values of tensors")
    assert differ({**good, "b": copied}) == "other tensors share memory than before"


def test_an_old_torch_is_refused() -> None:
    """weights_only can be bypassed in it."""
    with pytest.raises(UsageError, match=r"safe from 2\.6 on"):
        load_checkpoint(SimpleNamespace(__version__="2.5.1"), Path("x.pt"))
