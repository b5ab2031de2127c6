"""The toy run of each companion tool: made once for a run of the tests, however many processes it
has, from a copy of the single file alone in an empty folder."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from needs import need

NEEDS = {"fio_scan": "fio", "make_tiny_model": "python:transformers"}
"""What a tool drives and does not bring along."""


@dataclass(frozen=True)
class ToyRun:
    """How the toy run of a tool ended."""

    status: int
    stdout: str
    stderr: str
    json: Path
    left: list[str]
    """What it has left in its folder beside its JSON."""


def read_constants(tool: Path) -> dict[str, Any]:
    """The module-level constants that are plain literals, read without importing the tool."""
    constants = {}
    for node in ast.parse(tool.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            try:
                constants[node.targets[0].id] = ast.literal_eval(node.value)
            except ValueError:
                continue
    return constants


def _run(tool: Path, folder: Path) -> None:
    home = folder / "home"
    home.mkdir()
    copy = shutil.copyfile(tool, home / tool.name)
    done = subprocess.run(
        [sys.executable, str(copy), *read_constants(tool)["PROFILES"]["toy"],
         "--json", str(home / "out.json")],
        cwd=home, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    ended = {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
    (folder / "ended.json").write_text(json.dumps(ended), encoding="utf-8")


@pytest.fixture(scope="session")
def run_toy_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], ToyRun]:
    """The toy run of a tool; skips where the machine lacks what it drives."""
    from whole_sites import make_once  # a plugin of the other tests, which pytest imports itself

    def run(tool: Path) -> ToyRun:
        if thing := NEEDS.get(tool.stem):
            need(thing)
        name = f"toy run of {tool.stem}"
        folder = make_once(tmp_path_factory, name, lambda folder: _run(tool, folder))
        ended = json.loads((folder / "ended.json").read_text(encoding="utf-8"))
        home = folder / "home"
        left = {path.name for path in home.iterdir()} - {tool.name, "out.json"}
        return ToyRun(**ended, json=home / "out.json", left=sorted(left))

    return run
