#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""Which tests can run on this machine, and how do I write tests that leave nothing behind?

Helpers for tests of training code: a pytest plugin, a base class for unittest, and functions to
import. Run as a program, this file shows which requirements this machine meets.

As a pytest plugin (`pytest_plugins = ["testing_utils"]` in the conftest.py of the root, with this
file's folder in PYTHONPATH) it adds marks that skip what cannot run here, and fixtures for folders,
ports and processes. The marks are decorators too: `@require_package("numpy>=2")`. `pytest
--markers` and `pytest --fixtures` list them.

execute_subprocess_async marks the environment of a command. When it ends or its timeout is over,
every process that carries the mark gets SIGTERM, and after 2 s SIGKILL: also those that left the
session and whose parent is dead. It needs Linux.

## How to run

    python testing_utils.py --packages "transformers>=5" datasets --programs fio
    srun --ntasks-per-node 1 python testing_utils.py
    python testing_utils.py --demo    # a timeout on processes that ignore SIGTERM

A good answer: `runs` for everything that your tests require, and `all ended` for the timeout.

Exit status: 0 done, 1 a process outlived the timeout, 2 usage error.
"""

import argparse
import contextlib
import functools
import importlib
import importlib.metadata
import inspect
import io
import logging
import math
import os
import random
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

try:
    import pytest
except ImportError:  # the rest works without it
    pytest = None

__version__ = "0.2.0"

GRACE_SECONDS = 2.0
PORTS = range(10000, 32768)
"""Linux gives out the ports above these by itself."""
MARK = "TESTING_UTILS_TREE"
"""The environment variable that names the commands that started a process."""

AnyPath = str | os.PathLike[str]


# What a test requires: each of these gives the reason why it cannot run, or None.


def get_gpu_count() -> int:
    """The number of accelerators that torch sees, of any vendor; 0 without torch."""
    if find_missing_packages("torch"):
        return 0
    return int(importlib.import_module("torch").accelerator.device_count())


def get_torch_device() -> str:
    """The kind of device that tests run on: `cuda` (ROCm too), `xpu`, `mps`, ... or `cpu`."""
    if get_gpu_count() == 0:
        return "cpu"
    return str(importlib.import_module("torch").accelerator.current_accelerator().type)


def find_missing_gpus(least: int, most: float = math.inf) -> str | None:
    """Why a test for this many accelerators cannot run."""
    count = get_gpu_count()
    if least <= count <= most:
        return find_missing_packages("torch")
    bound = f"at least {least}" if count < least else f"at most {most}"
    return f"needs {bound} GPUs, this machine has {count}"


def find_missing_device(*kinds: str) -> str | None:
    """Why a test for one of these kinds of device cannot run."""
    device = get_torch_device()
    return None if device in kinds else f"needs {' or '.join(kinds)}, the device is {device}"


def find_missing_packages(*wanted: str) -> str | None:
    """Which of packages such as `numpy` or `transformers>=5,<6` is missing."""
    for text in wanted:
        name = re.split(r"[^\w.-]", text)[0]
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            return f"needs {text}, which is not installed"
        if name != text:
            from packaging.requirements import Requirement  # comes with pytest

            if not Requirement(text).specifier.contains(version, prereleases=True):
                return f"needs {text}, {version} is installed"
    return None


def find_missing_programs(*names: str) -> str | None:
    """Which of these programs is missing."""
    missing = [name for name in names if shutil.which(name) is None]
    return f"needs the program {missing[0]}, which is not installed" if missing else None


def find_missing_env(*names: str) -> str | None:
    """Which of these environment variables is not set, or set to 0 or no."""
    missing = [name for name in names if os.environ.get(name, "0") in ("", "0", "no")]
    return f"runs only with {missing[0]}=1" if missing else None


REQUIREMENTS: dict[str, Callable[..., str | None]] = {}
"""The mark of each requirement, and what finds out why it is not met."""


def declare(name: str, find_missing: Callable[..., str | None], *fixed: Any) -> Any:
    """Declare a mark; the decorator of the same name, which skips a test or a TestCase."""
    REQUIREMENTS[name] = functools.partial(find_missing, *fixed)

    def require(*names: str) -> Callable[[Any], Any]:
        def decorate(item: Any) -> Any:
            reason = REQUIREMENTS[name](*names)
            return unittest.skip(reason)(item) if reason else item

        return decorate

    return require() if fixed else require


require_torch = declare("require_torch", find_missing_packages, "torch")
require_torch_gpu = declare("require_torch_gpu", find_missing_gpus, 1)
require_torch_multi_gpu = declare("require_torch_multi_gpu", find_missing_gpus, 2)
require_torch_non_multi_gpu = declare("require_torch_non_multi_gpu", find_missing_gpus, 0, 1)
require_torch_up_to_2_gpus = declare("require_torch_up_to_2_gpus", find_missing_gpus, 0, 2)
require_torch_tpu = declare("require_torch_tpu", find_missing_packages, "torch_xla")
require_torch_device = declare("require_torch_device", find_missing_device)
require_package = declare("require_package", find_missing_packages)
require_program = declare("require_program", find_missing_programs)
require_env = declare("require_env", find_missing_env)
slow = require_env("RUN_SLOW")


def set_seed(seed: int = 42, *, deterministic: bool = False) -> int:
    """Seed random, NumPy and torch (all devices) where they are installed; the seed."""
    random.seed(seed)
    with contextlib.suppress(ImportError):
        importlib.import_module("numpy").random.seed(seed)
    with contextlib.suppress(ImportError):
        torch = importlib.import_module("torch")
        torch.manual_seed(seed)
        if deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before cuBLAS starts
            torch.use_deterministic_algorithms(True)
    return seed


def torch_assert_equal(actual: Any, expected: Any, **options: Any) -> None:
    """Raises AssertionError unless tensors (or lists and dicts of them) are the same to the bit."""
    torch_assert_close(actual, expected, rtol=0.0, atol=0.0, **options)


def torch_assert_close(actual: Any, expected: Any, **options: Any) -> None:
    """torch.testing.assert_close, for tensors and lists and dicts of them."""
    import torch

    torch.testing.assert_close(actual, expected, **options)


@contextlib.contextmanager
def CaptureStd(out: bool = True, err: bool = True) -> Iterator[Any]:  # noqa: N802
    """Capture what Python writes to stdout and stderr, and repeat it at the end.

    `out` and `err` of the result are what a terminal would show: of a line with carriage returns,
    the last part. pytest's capfd also captures C libraries and processes.
    """
    buffers = {"out": io.StringIO(), "err": io.StringIO()}
    captured = types.SimpleNamespace(out="", err="")
    try:
        with (
            contextlib.redirect_stdout(buffers["out"] if out else sys.stdout),
            contextlib.redirect_stderr(buffers["err"] if err else sys.stderr),
        ):
            yield captured
    finally:
        for name, buffer in buffers.items():
            lines = buffer.getvalue().replace("\r\n", "\n").split("\n")
            shown = [line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines]
            setattr(captured, name, "\n".join(shown))
            getattr(sys, f"std{name}").write(buffer.getvalue())


CaptureStdout = functools.partial(CaptureStd, err=False)
CaptureStderr = functools.partial(CaptureStd, out=False)


@contextlib.contextmanager
def CaptureLogger(logger: logging.Logger, level: int | str | None = None) -> Iterator[Any]:  # noqa: N802
    """Capture the messages of a logger and those below it, one per line, in `out`."""
    captured, buffer, before = types.SimpleNamespace(out=""), io.StringIO(), logger.level
    handler = logging.StreamHandler(buffer)
    logger.addHandler(handler)
    logger.setLevel(before if level is None else level)
    try:
        yield captured
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        captured.out = buffer.getvalue()


@contextlib.contextmanager
def ExtendSysPath(path: AnyPath) -> Iterator[None]:  # noqa: N802 - the name that readers know
    """Put a folder first in sys.path. What was imported from it stays imported."""
    with mock.patch.object(sys, "path", [str(Path(path).resolve()), *sys.path]):
        yield


def mockenv(**values: str) -> Any:
    """Set environment variables for a test, a class of tests, or a `with` block."""
    return mock.patch.dict(os.environ, values)


@contextlib.contextmanager
def mockenv_context(*remove: str, **update: str) -> Iterator[None]:
    """Without these environment variables, and with those."""
    with mock.patch.dict(os.environ, update):
        for name in remove:
            os.environ.pop(name, None)
        yield


class ProjectPaths(NamedTuple):
    """Where a project keeps its things, seen from a test file."""

    test_file: Path
    tests: Path
    root: Path
    src: Path


def find_project_paths(test_file: AnyPath) -> ProjectPaths:
    """The folders of the project that a test file belongs to.

    The root is the nearest folder above with .git or pyproject.toml, else the test file's own;
    tests is the outermost folder named `tests` or `test` on the way to it.
    """
    path = Path(test_file).resolve()
    above = list(path.parents)
    signs = (".git", "pyproject.toml")
    root = next((f for f in above if any((f / sign).exists() for sign in signs)), path.parent)
    tests = [f for f in above[: above.index(root)] if f.name in ("tests", "test")]
    src = root / "src" if (root / "src").is_dir() else root
    return ProjectPaths(path, tests[-1] if tests else root / "tests", root, src)


def make_subprocess_env(paths: ProjectPaths) -> dict[str, str]:
    """A copy of the environment in which programs import from the project under test: PYTHONPATH
    is the folder of tests, that of the sources, and the old one."""
    folders = [str(paths.tests), str(paths.src), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, dict.fromkeys(folders)))}


class TestCasePlus(unittest.TestCase):
    """A unittest.TestCase that knows its paths, and removes its temporary folders."""

    @property
    def paths(self) -> ProjectPaths:
        """The folders of the project, seen from the file of this test."""
        return find_project_paths(inspect.getfile(type(self)))

    tests_dir = property(lambda self: self.paths.tests)
    repo_root_dir = property(lambda self: self.paths.root)
    src_dir = property(lambda self: self.paths.src)

    def get_env(self) -> dict[str, str]:
        """As make_subprocess_env."""
        return make_subprocess_env(self.paths)

    def get_auto_remove_tmp_dir(self, after: bool = True) -> Path:
        """A new folder to write into; removed when this test ends unless `after` is False."""
        folder = Path(tempfile.mkdtemp(prefix="test_")).resolve()
        if after:
            self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        return folder


def write_file_tree(folder: AnyPath, files: Mapping[str, str]) -> None:
    """Write files by their paths below a folder, and the folders they need."""
    for name, text in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


given_ports: set[int] = set()


def get_unique_port() -> int:
    """A TCP port that is free now, and that this process gives to no other test and pytest-xdist
    to no other worker. Another program may still take it."""
    worker = re.search(r"\d+$", os.environ.get("PYTEST_XDIST_WORKER", ""))
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    share = PORTS[int(worker[0]) :: count] if worker else PORTS
    for port in random.SystemRandom().sample(share, len(share)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            if port not in given_ports:
                probe.bind(("", port))
                given_ports.add(port)
                return port
    raise RuntimeError(f"no port is free from {PORTS[0]} to {PORTS[-1]}")


class CommandOutput(NamedTuple):
    """What became of a command. `left` is how many of its processes outlived SIGKILL."""

    returncode: int
    stdout: list[str]
    stderr: list[str]
    left: int


class CommandFailed(RuntimeError):
    """A command ended with another status than 0; `output` is what it wrote."""

    def __init__(self, message: str, output: CommandOutput) -> None:
        super().__init__("\n    ".join([message, *(output.stderr or output.stdout)[-20:]]))
        self.output = output


class CommandTimedOut(CommandFailed):
    """A command did not end in time; it was ended with everything it had started."""


def execute_subprocess_async(
    cmd: Sequence[AnyPath],
    env: Mapping[str, str] | None = None,
    timeout: float = 180.0,
    quiet: bool = False,
    *,
    cwd: AnyPath | None = None,
    check: bool = True,
) -> CommandOutput:
    """Run a command, and repeat each line it writes at once unless `quiet`; what became of it.

    When it ends, or `timeout` seconds are over, everything it has started is ended. Raises
    CommandTimedOut, and CommandFailed where the status is not 0 (unless check=False).
    """
    words = [os.fspath(word) for word in cmd]
    if not quiet:
        print(f"\nRunning: {shlex.join(words)}", flush=True)
    mark = secrets.token_hex(16)
    environ = dict(os.environ if env is None else env)
    environ[MARK] = f"{os.environ.get(MARK, '')} {mark}"  # a command within a command has both
    process = subprocess.Popen(
        words, env=environ, cwd=cwd, start_new_session=True, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
    )  # fmt: skip
    lines: dict[str, list[str]] = {"stdout": [], "stderr": []}

    def read(name: str) -> None:
        with getattr(process, name) as stream:
            for line in stream:
                lines[name].append(line.rstrip("\n"))
                if not quiet:
                    print(f"{name}: {lines[name][-1]}", file=getattr(sys, name), flush=True)

    readers = [threading.Thread(target=read, args=(name,), daemon=True) for name in lines]
    for reader in readers:
        reader.start()
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout)
        is_late = process.poll() is None
    finally:
        end_tree(process, mark)
        for reader in readers:
            reader.join(timeout=5.0)
    left = len(find_tree(process, mark))
    status = process.wait()
    output = CommandOutput(status, lines["stdout"], lines["stderr"], left)
    if is_late:
        raise CommandTimedOut(f"'{shlex.join(words)}' did not end within {timeout:g} s", output)
    if check and status != 0:
        raise CommandFailed(f"'{shlex.join(words)}' ended with status {status}", output)
    return output


def end_tree(process: subprocess.Popen[str], mark: str) -> None:
    """End a command and everything it has started."""
    for number, seconds in ((signal.SIGTERM, GRACE_SECONDS), (signal.SIGKILL, 10.0)):
        for pid in find_tree(process, mark):
            with contextlib.suppress(OSError):
                os.kill(pid, number)
        deadline = time.monotonic() + seconds
        while find_tree(process, mark) and time.monotonic() < deadline:
            time.sleep(0.02)


def find_tree(process: subprocess.Popen[str], mark: str) -> set[int]:
    """The running processes that a command has started, itself included."""
    found = {process.pid} if process.poll() is None else set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                found.add(int(path.parent.name))
    return found


def pytest_configure(config: Any) -> None:
    """Declare the marks."""
    for name in REQUIREMENTS:
        config.addinivalue_line("markers", f"{name}(*names): skip where it is missing")


if pytest:

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(items: list[Any]) -> None:
        """Skip what cannot run; last, so that nothing is looked up for deselected tests."""
        for item in items:
            marks = [one for one in item.iter_markers() if one.name in REQUIREMENTS]
            reasons = [REQUIREMENTS[mark.name](*mark.args) for mark in marks]
            for reason in filter(None, reasons):
                item.add_marker(pytest.mark.skip(reason=reason))

    @pytest.fixture
    def test_paths(request: Any) -> ProjectPaths:
        """The folders of the project, seen from the file of this test."""
        return find_project_paths(request.path)

    @pytest.fixture
    def auto_remove_tmp_dir() -> Iterator[Callable[..., Path]]:
        """Makes new folders, removed when the test ends unless made with after=False."""
        case = TestCasePlus()
        yield case.get_auto_remove_tmp_dir
        case.doCleanups()

    @pytest.fixture
    def subprocess_env(test_paths: ProjectPaths) -> dict[str, str]:
        """As make_subprocess_env."""
        return make_subprocess_env(test_paths)

    @pytest.fixture
    def run_subprocess(subprocess_env: dict[str, str]) -> Callable[..., CommandOutput]:
        """execute_subprocess_async in the environment of subprocess_env."""
        return functools.partial(execute_subprocess_async, env=subprocess_env)

    unique_port = pytest.fixture(get_unique_port, name="unique_port")
    gpu_count = pytest.fixture(get_gpu_count, name="gpu_count")
    seeded = pytest.fixture(lambda: set_seed(), name="seeded")


def try_timeout(timeout: float) -> str:
    """Whether a command that ignores SIGTERM is ended, with a process that left its session."""
    script = "trap '' TERM; echo 1; setsid sh -c 'echo 2; sleep 600' & sleep 600"
    try:
        execute_subprocess_async(["sh", "-c", script], timeout=timeout, quiet=True)
    except CommandTimedOut as error:
        if len(error.output.stdout) == 2:
            return "outlived" if error.output.left else "all ended"
    return "not seen"


def build_parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("testing_utils.py", description=__doc__, formatter_class=raw)
    add = parser.add_argument
    add("--packages", nargs="+", default=[], metavar="NAME", help='such as "transformers>=5"')
    add("--programs", nargs="+", default=[], metavar="NAME", help="such as fio")
    add("--demo", action="store_true", help="check that a timeout ends all processes of a command")
    add("--version", action="version", version=f"testing_utils {__version__}")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Print what can run here; the exit status."""
    options = build_parser().parse_args(arguments)
    wanted = [(name,) for name in REQUIREMENTS if name.startswith("require_torch")]
    wanted.remove(("require_torch_device",))
    wanted += [("require_package", name) for name in options.packages]
    wanted += [("require_program", name) for name in options.programs]
    print("| tests that | verdict | why |\n| :-- | :-- | :-- |")
    for name, *names in wanted:
        reason = REQUIREMENTS[name](*names)
        title = f"{name}({names[0]!r})" if names else name
        print(f"| {title} | {'skipped' if reason else 'runs'} | {reason or ''} |")
    verdict = try_timeout(1.0) if options.demo else ""
    if options.demo:
        print(f"| a timeout on processes that ignore SIGTERM | {verdict} | |")
    return int(verdict == "outlived")


if __name__ == "__main__":
    sys.exit(main())
