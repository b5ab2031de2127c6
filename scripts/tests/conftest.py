"""What the tests of the companion tools share: loading them, running them."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

# The last is a companion tool itself: what it gives to tests, these tests use.
pytest_plugins = ["needs", "examples", "slurm_cluster", "slurm_user", "demo_runs", "testing_utils"]

SCRIPTS = Path(__file__).resolve().parent.parent

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP)

Completed = subprocess.CompletedProcess[str]


@pytest.fixture(scope="session")
def load_tool() -> Callable[[str], ModuleType]:
    """Import a tool from its path under scripts/, as a module of its own."""
    loaded: dict[str, ModuleType] = {}

    def load(name: str) -> ModuleType:
        if name not in loaded:
            path = SCRIPTS / name
            spec = importlib.util.spec_from_file_location(f"tool_{path.stem}", path)
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
            loaded[name] = module
        return loaded[name]

    return load


@pytest.fixture(scope="module")
def module(request: pytest.FixtureRequest, load_tool: Callable[[str], ModuleType]) -> ModuleType:
    """The tool that the test file names in TOOL, as a module."""
    return load_tool(request.module.TOOL)


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A Slurm of two nodes, with what the test file says in CLUSTER."""
    from slurm_cluster import open_cluster  # a plugin, which pytest imports itself

    with open_cluster(2, **getattr(request.module, "CLUSTER", {})) as opened:
        yield opened


@pytest.fixture(scope="session")
def run_tool() -> Callable[..., Completed]:
    """Run a tool as a reader does: the exit status, stdout and stderr."""

    def run(
        tool: Path | str, *arguments: str, environ: dict[str, str] | None = None, **options: Any
    ) -> Completed:
        return subprocess.run(
            [sys.executable, str(SCRIPTS / tool), *arguments],
            capture_output=True,
            text=True,
            timeout=options.pop("timeout", 300),
            env={**os.environ, **(environ or {})},
            check=False,
            **options,
        )

    return run


@pytest.fixture
def call_tool(
    load_tool: Callable[[str], ModuleType], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Completed]:
    """Run a tool like run_tool, but in this process: nothing has to start or to import torch. What
    the tool changes in the process is restored."""

    def call(tool: str, *arguments: str, environ: dict[str, str] | None = None) -> Completed:
        module, torch = load_tool(tool), sys.modules.get("torch")
        threads = torch.get_num_threads() if torch else None
        handlers = {number: signal.getsignal(number) for number in SIGNALS}
        out, err = io.StringIO(), io.StringIO()
        with (
            monkeypatch.context() as patch,
            mock.patch.dict(os.environ, environ or {}),
            warnings.catch_warnings(action="ignore"),
        ):
            patch.setattr(sys, "argv", [str(SCRIPTS / tool), *arguments])
            try:
                with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                    status = module.main(list(arguments))
            except SystemExit as ended:
                status = ended.code
            finally:
                for number, handler in handlers.items():
                    signal.signal(number, handler)
                if torch:
                    torch.set_num_threads(threads)
        words = [tool, *arguments]
        return subprocess.CompletedProcess(words, status or 0, out.getvalue(), err.getvalue())

    return call


@pytest.fixture
def mount_tmpfs(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mount a file system in memory; skip if mounting is not allowed here."""
    from needs import need  # a plugin, which pytest imports itself

    need("root")
    point = tmp_path / "disk"
    point.mkdir()

    def mount(options: str) -> Path:
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(point)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no tmpfs can be mounted here: {done.stderr.strip()}")
        return point

    yield mount
    subprocess.run(["umount", "--lazy", str(point)], capture_output=True, check=False)


@pytest.fixture(scope="session")
def read_json() -> Callable[[Path], Any]:
    """Read a JSON file."""
    return lambda path: json.loads(path.read_text(encoding="utf-8"))


def add_json(run: Callable[..., Any], path: Path) -> Callable[..., Any]:
    """Have a tool write JSON too, and read it into the result's `document`."""

    def run_json(tool: Path | str, *arguments: str, **options: Any) -> Any:
        done = run(tool, *arguments, "--json", str(path), **options)
        done.document = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        return done

    return run_json


@pytest.fixture
def run_json(run_tool: Callable[..., Completed], tmp_path: Path) -> Callable[..., Any]:
    return add_json(run_tool, tmp_path / "out.json")


@pytest.fixture
def call_json(call_tool: Callable[..., Completed], tmp_path: Path) -> Callable[..., Any]:
    return add_json(call_tool, tmp_path / "out.json")


@pytest.fixture
def run_broken(run_json: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Run a tool of network/ on CPUs, after code that breaks `dist` or the `tool`."""

    def run(name: str, code: str, *options: str) -> Any:
        begin = f"import os, sys, time\nsys.path.insert(0, {str(SCRIPTS / 'network')!r})\n"
        imports = f"import torch.distributed as dist\nimport {name} as tool\n"
        script = tmp_path / "broken.py"
        script.write_text(f"{begin}{imports}{code}\ntool.start(tool.main)\n")
        return run_json(script, "--device", "cpu", *options)

    return run


@pytest.fixture
def torch_trap(tmp_path: Path) -> dict[str, str]:
    """An environment in which `import torch` fails loudly."""
    package = tmp_path / "trap" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('torch was imported')\n")
    return {"PYTHONPATH": str(package.parent)}
