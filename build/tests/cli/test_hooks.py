"""The hooks that other books run with pre-commit are commands that work."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ruamel.yaml import YAML

if TYPE_CHECKING:
    from collections.abc import Callable

    from conftest import Runner

ROOT = Path(__file__).resolve().parents[3]
BOOKS = Path(__file__).parents[1] / "books"
HOOKS = {hook["id"]: hook for hook in YAML(typ="safe").load(ROOT / ".pre-commit-hooks.yaml")}


@pytest.mark.parametrize("name", list(HOOKS))
def test_a_hook_passes_a_clean_book(
    name: str, run_bindery: Runner, copy_book: Callable[[Path], Path]
) -> None:
    """What a hook enters is a command of ours, about the whole book, and 0 where all is well."""
    hook = HOOKS[name]
    program, *arguments = hook["entry"].split()
    assert program == "bindery"
    assert arguments[0] == name.removeprefix("bindery-")
    assert (hook["language"], hook["pass_filenames"]) == ("python", False)
    assert run_bindery(*arguments, folder=copy_book(BOOKS / "clean")).status == 0


@pytest.mark.parametrize("name", ["bindery-check", "bindery-fill"])
def test_a_hook_sees_what_was_deleted(name: str) -> None:
    """pre-commit names no deleted file, so a hook that waits for names misses what they break."""
    assert HOOKS[name]["always_run"] is True
