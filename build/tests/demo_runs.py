"""The demo run of each companion tool: made once for a run of the tests, however many processes it
has, from the bundle alone in an empty folder."""

import ast
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from bindery.tools import tool_source
from bindery.tools.bundle import bundle_tool
from needs import need

NEEDS = {
    "checkpoint_to_bf16": "python:safetensors",
    "fio_scan": "fio",
    "make_tiny_model": "python:transformers",
}
"""What a tool drives and does not bring along."""


@dataclass(frozen=True)
class DemoRun:
    """How the demo run of a tool ended."""

    status: int
    stdout: str
    stderr: str
    json: Path
    left: list[str]
    """What it has left in its folder beside its JSON."""


def read_constants(tool: Path) -> dict[str, Any]:
    """The module-level constants that are plain literals, read without importing the tool."""
    constants = {}
    for name, node in tool_source.read_constants(tool.read_text(encoding="utf-8")).items():
        with contextlib.suppress(ValueError):
            constants[name] = ast.literal_eval(node)
    return constants


def write_bundle(tool: Path, folder: Path) -> Path:
    """The single file of a tool, alone in a folder."""
    copy = folder / tool.name
    copy.write_text(bundle_tool(str(tool), lambda path: Path(path).read_text(encoding="utf-8")))
    return copy


def _run(tool: Path, folder: Path, *, writes_json: bool) -> None:
    home = folder / "home"
    home.mkdir()
    copy = write_bundle(tool, home)
    output = ["--json", str(home / "out.json")] if writes_json else []
    done = subprocess.run(
        [sys.executable, str(copy), "--demo", *output],
        cwd=home, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    ended = {"status": done.returncode, "stdout": done.stdout, "stderr": done.stderr}
    (folder / "ended.json").write_text(json.dumps(ended), encoding="utf-8")


@pytest.fixture(scope="session")
def run_demo_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., DemoRun]:
    """The demo run of a tool; skips where the machine lacks what the tool drives."""
    from whole_sites import make_once  # a plugin of the other tests, which pytest imports itself

    def run(tool: Path, *, writes_json: bool = True) -> DemoRun:
        if thing := NEEDS.get(tool.stem):
            need(thing)
        folder = make_once(
            tmp_path_factory,
            f"demo run of {tool.stem}",
            lambda folder: _run(tool, folder, writes_json=writes_json),
        )
        ended = json.loads((folder / "ended.json").read_text(encoding="utf-8"))
        home = folder / "home"
        left = {path.name for path in home.iterdir()} - {tool.name, "out.json"}
        return DemoRun(**ended, json=home / "out.json", left=sorted(left))

    return run
