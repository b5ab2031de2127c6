#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""Which tests can run on this machine, and how do I write tests that leave nothing behind?

Helpers for tests of training code: a pytest plugin, a base class for unittest, and functions to
import. Run as a program, this file shows which requirements this machine meets.

## As a pytest plugin

Write `pytest_plugins = ["testing_utils"]` in the conftest.py of the root, or start
`pytest -p testing_utils`, with this file's folder in PYTHONPATH. `pytest --markers` and
`pytest --fixtures` then show what you get:

- marks that skip a test with a reason: `require_torch`, `require_torch_gpu`,
  `require_torch_multi_gpu`, `require_torch_non_multi_gpu`, `require_torch_up_to_2_gpus`,
  `require_torch_tpu`, `require_torch_device("cuda", ...)`, `require_package("numpy>=2", ...)`,
  `require_program("fio", ...)`, `require_env("RUN_SLOW", ...)`. They are looked at after
  selection, so torch is imported only where a selected test asks for it.
- fixtures: `auto_remove_tmp_dir`, `unique_port`, `seeded`, `subprocess_env`, `run_subprocess`,
  `test_paths`, `gpu_count`
- `--make-reports=NAME`, which writes failures, errors, durations and warnings to reports/NAME/

## To import, with pytest or without

The marks are decorators too: `@require_package("numpy>=2")`, and `@slow` for RUN_SLOW=1. With
`TestCasePlus`, a unittest.TestCase, come the paths of the project and temporary folders. The rest:
captures of output, seeds, comparison of tensors, the environment, ports, files, and
`execute_subprocess_async`.

## What a timeout ends

execute_subprocess_async marks the environment of the command. When the command ends or the timeout
is over, every process that carries the mark gets SIGTERM, and after 2 s SIGKILL: also those that
left the session and whose parent is dead. It needs Linux; elsewhere only the process group is
ended. `--demo` shows it with processes that ignore SIGTERM.

## How to run

    python testing_utils.py --packages "transformers>=5" datasets --programs fio
    srun --ntasks-per-node 1 python testing_utils.py
    pdsh -w node[01-08] python /shared/testing_utils.py

A good answer: `runs` for everything that your tests require, and `all ended` for the timeout.

Exit status: 0 done, 1 a process outlived the timeout, 2 wrong use.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.metadata
import importlib.util
import inspect
import io
import json
import logging
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
import unittest
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, TextIO
from unittest import mock

__version__ = "0.2.0"

GRACE_SECONDS = 2.0
PORTS = range(10000, 32768)
"""Linux gives out the ports above these by itself."""
MARK = "TESTING_UTILS_TREE"
"""The environment variable that tells which commands have started a process."""
ROOT_SIGNS = (".git", "pyproject.toml", "setup.py", "setup.cfg")

AnyPath = str | os.PathLike[str]


# What a test requires: each of these gives the reason why it cannot run, or None.


def find_missing_torch() -> str | None:
    """Why tests of torch cannot run."""
    return None if importlib.util.find_spec("torch") else "needs torch, which is not installed"


def get_gpu_count() -> int:
    """The number of accelerators that torch sees, of any vendor; 0 without torch."""
    if find_missing_torch():
        return 0
    import torch

    return int(torch.accelerator.device_count())


def get_torch_device() -> str:
    """The kind of device that tests run on: `cuda` (ROCm too), `xpu`, `mps`, ... or `cpu`."""
    if get_gpu_count() == 0:
        return "cpu"
    import torch

    return str(torch.accelerator.current_accelerator().type)


def find_missing_gpus(least: int = 0, most: int | None = None) -> str | None:
    """Why a test for this many accelerators cannot run."""
    if reason := find_missing_torch():
        return reason
    count = get_gpu_count()
    if count < least:
        return f"needs at least {least} GPU{'s' if least > 1 else ''}, this machine has {count}"
    if most is not None and count > most:
        return f"needs at most {most} GPU{'s' if most > 1 else ''}, this machine has {count}"
    return None


def find_missing_device(*kinds: str) -> str | None:
    """Why a test for one of these kinds of device cannot run."""
    if reason := find_missing_torch():
        return reason
    device = get_torch_device()
    return None if device in kinds else f"needs {' or '.join(kinds)}, the device is {device}"


def find_missing_packages(*wanted: str) -> str | None:
    """Which of packages such as `numpy` or `transformers>=5,<6` is missing. Raises ValueError."""
    for text in wanted:
        name = re.split(r"[^\w.-]", text)[0]
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if name != text or not importlib.util.find_spec(name.replace("-", "_")):
                return f"needs {text}, which is not installed"
        else:
            if name == text:
                continue
            from packaging.requirements import Requirement  # comes with pytest

            if not Requirement(text).specifier.contains(version, prereleases=True):
                return f"needs {text}, {version} is installed"
    return None


def find_missing_programs(*names: str) -> str | None:
    """Which of these programs is missing."""
    missing = [name for name in names if shutil.which(name) is None]
    return f"needs the program {missing[0]}, which is not installed" if missing else None


def find_missing_env(*names: str) -> str | None:
    """Which of these environment variables is not set, or set to 0, no, off or false."""
    nos = ("", "0", "no", "n", "off", "f", "false")
    missing = [name for name in names if os.environ.get(name, "").strip().lower() in nos]
    return f"runs only with {missing[0]}=1" if missing else None


REQUIREMENTS: dict[str, Callable[..., str | None]] = {
    "require_torch": find_missing_torch,
    "require_torch_gpu": functools.partial(find_missing_gpus, 1),
    "require_torch_multi_gpu": functools.partial(find_missing_gpus, 2),
    "require_torch_non_multi_gpu": functools.partial(find_missing_gpus, 0, 1),
    "require_torch_up_to_2_gpus": functools.partial(find_missing_gpus, 0, 2),
    "require_torch_tpu": functools.partial(find_missing_packages, "torch_xla"),
    "require_torch_device": find_missing_device,
    "require_package": find_missing_packages,
    "require_program": find_missing_programs,
    "require_env": find_missing_env,
}
WITH_NAMES = ("require_torch_device", "require_package", "require_program", "require_env")
"""The requirements that take arguments."""


def find_missing(requirement: str, *names: str) -> str | None:
    """Why a test with this requirement cannot run. Raises TypeError for wrong arguments."""
    if requirement not in WITH_NAMES and names:
        raise TypeError(f"{requirement} takes no arguments")
    if requirement in WITH_NAMES and not (names and all(isinstance(n, str) for n in names)):
        raise TypeError(f"write what it requires in brackets: {requirement}('...')")
    return REQUIREMENTS[requirement](*names)


def skip_where_missing(requirement: str, *names: str) -> Callable[[Any], Any]:
    """A decorator that skips a test, or a class of tests, where the requirement is not met."""

    def decorate(item: Any) -> Any:
        reason = find_missing(requirement, *names)
        if reason is None:
            return item
        is_case = isinstance(item, type) and issubclass(item, unittest.TestCase)
        if is_case or not isinstance(item, type):
            item = unittest.skip(reason)(item)
        # pytest then skips before it makes fixtures, and knows classes that are no TestCase.
        if not is_case and "pytest" in sys.modules:
            item = sys.modules["pytest"].mark.skip(reason=reason)(item)
        return item

    return decorate


require_torch = skip_where_missing("require_torch")
require_torch_gpu = skip_where_missing("require_torch_gpu")
require_torch_multi_gpu = skip_where_missing("require_torch_multi_gpu")
require_torch_non_multi_gpu = skip_where_missing("require_torch_non_multi_gpu")
require_torch_up_to_2_gpus = skip_where_missing("require_torch_up_to_2_gpus")
require_torch_tpu = skip_where_missing("require_torch_tpu")
require_torch_device = functools.partial(skip_where_missing, "require_torch_device")
require_package = functools.partial(skip_where_missing, "require_package")
require_program = functools.partial(skip_where_missing, "require_program")
require_env = functools.partial(skip_where_missing, "require_env")
slow = skip_where_missing("require_env", "RUN_SLOW")


# Seeds and tensors.


def set_seed(seed: int = 42, *, deterministic: bool = False) -> int:
    """Seed random, NumPy and torch (all devices) where they are installed; the seed.

    `deterministic` has torch use algorithms that repeat, and raise RuntimeError where it has none.
    """
    random.seed(seed)
    if importlib.util.find_spec("numpy"):
        import numpy

        numpy.random.seed(seed % 2**32)
    if importlib.util.find_spec("torch"):
        import torch

        torch.manual_seed(seed)
        if deterministic:
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # before cuBLAS starts
            torch.use_deterministic_algorithms(True)
            torch.backends.cudnn.benchmark = False
    return seed


def torch_assert_equal(actual: Any, expected: Any, **options: Any) -> None:
    """Raises AssertionError unless tensors (or lists and dicts of them) are the same to the bit."""
    torch_assert_close(actual, expected, rtol=0.0, atol=0.0, **options)


def torch_assert_close(actual: Any, expected: Any, **options: Any) -> None:
    """torch.testing.assert_close, for tensors and lists and dicts of them."""
    import torch

    torch.testing.assert_close(actual, expected, **options)


# Captures, paths for imports, and the environment.


def apply_print_resets(text: str) -> str:
    """What a terminal shows in the end: of a line with carriage returns, the last part."""
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines)


class CaptureStd:
    """Capture what Python writes to stdout and stderr, and by default repeat it at the end.

    `out` and `err` are what was written so far, as a terminal would show it. What C libraries and
    other processes write is not captured; pytest's capfd does that.
    """

    def __init__(self, out: bool = True, err: bool = True, replay: bool = True) -> None:
        self.names = ["stdout"] * out + ["stderr"] * err
        self.replay = replay

    def __enter__(self) -> Self:
        self.buffers = {name: io.StringIO() for name in self.names}
        self.before: dict[str, TextIO] = {name: getattr(sys, name) for name in self.names}
        for name, buffer in self.buffers.items():
            setattr(sys, name, buffer)
        return self

    def __exit__(self, *_: object) -> None:
        for name, stream in self.before.items():
            setattr(sys, name, stream)
            if self.replay:
                stream.write(self.buffers[name].getvalue())
                stream.flush()

    @property
    def out(self) -> str:
        """What was written to stdout."""
        return apply_print_resets(self.buffers["stdout"].getvalue())

    @property
    def err(self) -> str:
        """What was written to stderr."""
        return apply_print_resets(self.buffers["stderr"].getvalue())


CaptureStdout = functools.partial(CaptureStd, err=False)
CaptureStderr = functools.partial(CaptureStd, out=False)


class CaptureLogger:
    """Capture the messages of a logger and those below it, one per line, in `out`.

    `level` is the logger's level meanwhile.
    """

    def __init__(self, logger: logging.Logger, level: int | str | None = None) -> None:
        self.logger, self.level = logger, level
        self.buffer = io.StringIO()
        self.handler = logging.StreamHandler(self.buffer)

    def __enter__(self) -> Self:
        self.level_before = self.logger.level
        self.logger.addHandler(self.handler)
        if self.level is not None:
            self.logger.setLevel(self.level)
        return self

    def __exit__(self, *_: object) -> None:
        self.logger.removeHandler(self.handler)
        self.logger.setLevel(self.level_before)

    @property
    def out(self) -> str:
        """The messages so far."""
        return self.buffer.getvalue()


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


# Paths and temporary folders.


class ProjectPaths(NamedTuple):
    """Where a project keeps its things, seen from a test file. They need not be there."""

    test_file: Path
    tests: Path
    examples: Path
    root: Path
    src: Path


def find_project_paths(test_file: AnyPath) -> ProjectPaths:
    """The folders of the project that a test file belongs to.

    The root is the nearest folder above with .git, pyproject.toml, setup.py or setup.cfg, else the
    test file's own; tests is the outermost folder named `tests` or `test` on the way to it.
    """
    path = Path(test_file).resolve()
    above = list(path.parents)
    root = next((f for f in above if any((f / sign).exists() for sign in ROOT_SIGNS)), path.parent)
    tests = [f for f in above[: above.index(root)] if f.name in ("tests", "test")]
    src = root / "src" if (root / "src").is_dir() else root
    return ProjectPaths(path, tests[-1] if tests else root / "tests", root / "examples", root, src)


def make_subprocess_env(paths: ProjectPaths) -> dict[str, str]:
    """A copy of the environment in which programs import from the project under test: PYTHONPATH
    is the folder of tests (or examples, for a test in it), that of the sources, and the old one."""
    first = paths.examples if paths.examples in paths.test_file.parents else paths.tests
    folders = [str(first), str(paths.src), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, dict.fromkeys(folders)))}


def make_tmp_dir(paths: ProjectPaths, tmp_dir: AnyPath | None = None) -> tuple[Path, bool]:
    """A folder for a test to write into, and whether to remove it afterwards.

    Without `tmp_dir` a new one, to be removed. With it, that folder in the project, emptied first
    and kept afterwards, so that you can look into it. Raises ValueError for a folder that is not a
    test's to empty: one outside the project, around this test, or with files that git tracks.
    """
    if tmp_dir is None:
        return Path(tempfile.mkdtemp(prefix="test_")).resolve(), True
    folder = Path(tmp_dir).resolve()
    around = (*paths.test_file.parents, Path.cwd(), paths.src, paths.tests, paths.examples)
    if paths.root not in folder.parents or folder in around or ".git" in folder.parts:
        raise ValueError(f"{tmp_dir}: name a new folder in the project, for this test alone")
    if folder.exists():
        tracked = subprocess.run(["git", "ls-files", "."], cwd=folder, capture_output=True)
        if tracked.stdout or Path(tmp_dir).is_symlink():
            raise ValueError(f"{tmp_dir} is a link, or git tracks files in it: name a new folder")
        remove_folder(folder)
    folder.mkdir(parents=True)
    return folder, False


def remove_folder(folder: Path) -> None:
    """Remove a folder with everything in it, also what a test has made read-only."""
    for path in [folder, *folder.rglob("*")] if folder.exists() else []:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(folder, ignore_errors=True)


class TestCasePlus(unittest.TestCase):
    """A unittest.TestCase that knows its paths, and removes its temporary folders."""

    @property
    def paths(self) -> ProjectPaths:
        """The folders of the project, seen from the file of this test."""
        return find_project_paths(inspect.getfile(type(self)))

    test_file_path = property(lambda self: self.paths.test_file)
    test_file_dir = property(lambda self: self.paths.test_file.parent)
    tests_dir = property(lambda self: self.paths.tests)
    examples_dir = property(lambda self: self.paths.examples)
    repo_root_dir = property(lambda self: self.paths.root)
    src_dir = property(lambda self: self.paths.src)

    def get_env(self) -> dict[str, str]:
        """As make_subprocess_env."""
        return make_subprocess_env(self.paths)

    def get_auto_remove_tmp_dir(self, tmp_dir: AnyPath | None = None) -> Path:
        """A folder to write into, as make_tmp_dir; a new one is removed when this test ends."""
        folder, is_removed = make_tmp_dir(self.paths, tmp_dir)
        if is_removed:
            self.addCleanup(remove_folder, folder)
        return folder


# Files.


def load_json(path: AnyPath) -> Any:
    """The content of a JSON file."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def save_json(path: AnyPath, value: Any) -> Path:
    """Write a JSON file, and the folders above it; its path."""
    return write_file_tree(Path(path).parent, {Path(path).name: json.dumps(value) + "\n"})[0]


def write_file_tree(folder: AnyPath, files: Mapping[str, str | bytes]) -> list[Path]:
    """Write files by their paths below a folder, and the folders they need; the paths."""
    written = [Path(folder) / name for name in files]
    for path, content in zip(written, files.values(), strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return written


def read_file_tree(folder: AnyPath) -> dict[str, bytes]:
    """The content of all files below a folder, by their paths below it."""
    files = sorted(path for path in Path(folder).rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


# Ports and processes.

given_ports: set[int] = set()


def get_unique_port() -> int:
    """A TCP port that is free now, and that this process gives to no other test and pytest-xdist
    to no other worker. Another program may still take it."""
    worker = re.search(r"\d+$", os.environ.get("PYTEST_XDIST_WORKER", ""))
    share = (
        PORTS[int(worker[0]) :: int(os.environ["PYTEST_XDIST_WORKER_COUNT"])] if worker else PORTS
    )
    for port in random.SystemRandom().sample(share, len(share)):
        with socket.socket() as probe, contextlib.suppress(OSError):
            if port not in given_ports:
                probe.bind(("", port))
                given_ports.add(port)
                return port
    raise RuntimeError(f"no port is free from {PORTS[0]} to {PORTS[-1]}")


class CommandOutput(NamedTuple):
    """What became of a command."""

    returncode: int
    stdout: list[str]
    stderr: list[str]
    left: int
    """How many processes it left running, which were ended; after a timeout, how many remain."""


class CommandFailed(RuntimeError):
    """A command ended with another status than 0; `output` is what it wrote."""

    def __init__(self, message: str, output: CommandOutput) -> None:
        lines = (output.stderr or output.stdout)[-20:]
        super().__init__("\n".join([message, *(f"    {line}" for line in lines)]))
        self.output = output


class CommandTimedOut(CommandFailed):
    """A command did not end in time; it was ended with everything it had started."""


def execute_subprocess_async(
    cmd: Sequence[AnyPath],
    env: Mapping[str, str] | None = None,
    stdin: Any = None,
    timeout: float = 180.0,
    quiet: bool = False,
    echo: bool = True,
    *,
    cwd: AnyPath | None = None,
    check: bool = True,
    grace: float = GRACE_SECONDS,
) -> CommandOutput:
    """Run a command, and repeat each line it writes at once unless `quiet`; what became of it.

    When it ends, or `timeout` seconds are over, everything it has started is ended: SIGTERM, and
    SIGKILL `grace` seconds later. `echo` prints the command first; `stdin` is empty by default.
    Raises CommandTimedOut, and CommandFailed where the status is not 0 (unless check=False).
    """
    if isinstance(cmd, str):
        raise TypeError("the command is a list of words: [sys.executable, 'train.py']")
    words = [os.fspath(word) for word in cmd]
    if echo and not quiet:
        print(f"\nRunning: {shlex.join(words)}", flush=True)
    mark = secrets.token_hex(16)
    environ = dict(os.environ if env is None else env)
    environ[MARK] = f"{os.environ.get(MARK, '')} {mark}"  # a command within a command has both
    process = subprocess.Popen(
        words,
        env=environ,
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=cwd,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
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
    is_late = False
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        is_late = True
    finally:
        left = end_tree(process, mark, grace)
        for reader in readers:
            reader.join(timeout=5.0)
    status = process.wait()
    left = len(find_tree(process, mark)) if is_late else left
    output = CommandOutput(status, lines["stdout"], lines["stderr"], left)
    if is_late:
        raise CommandTimedOut(f"'{shlex.join(words)}' did not end within {timeout:g} s", output)
    if check and status != 0:
        name = signal.Signals(-status).name if status < 0 else f"status {status}"
        raise CommandFailed(f"'{shlex.join(words)}' ended with {name}", output)
    return output


def end_tree(process: subprocess.Popen[str], mark: str, grace: float) -> int:
    """End a command and everything it has started; how many processes there were."""
    count = len(find_tree(process, mark))
    for number, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, 10.0)):
        deadline = time.monotonic() + seconds
        is_sent = False
        while (left := find_tree(process, mark)) and time.monotonic() < deadline:
            for pid in left if number == signal.SIGKILL or not is_sent else ():
                with contextlib.suppress(OSError):
                    os.kill(pid, number)
            is_sent = True
            time.sleep(0.02)
        with contextlib.suppress(OSError):
            os.killpg(process.pid, number)  # those without the mark
    return count


def find_tree(process: subprocess.Popen[str], mark: str) -> set[int]:
    """The running processes that a command has started, itself included."""
    found = {process.pid} if process.poll() is None else set()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                found.add(int(path.parent.name))
    return found


# The pytest plugin.


def pytest_addoption(parser: Any) -> None:
    """Add --make-reports."""
    text = "write reports/NAME/*.txt: failures, errors, durations, warnings, summaries"
    parser.getgroup("testing_utils").addoption("--make-reports", metavar="NAME", help=text)


def pytest_configure(config: Any) -> None:
    """Declare the marks, and add the fixtures and the reports."""
    import pytest

    for name in REQUIREMENTS:
        brackets = "(*names)" if name in WITH_NAMES else ""
        config.addinivalue_line("markers", f"{name}{brackets}: skip where it is missing")
    config.pluginmanager.register(make_fixtures(pytest), "testing_utils_fixtures")


def make_fixtures(pytest: Any) -> object:
    """The marks and fixtures, in a plugin, so that this file can be imported without pytest."""

    class Fixtures:
        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, items: list[Any]) -> None:
            """Skip what cannot run; last, so that nothing is looked up for deselected tests."""
            for item in items:
                for one in item.iter_markers():
                    if one.name not in REQUIREMENTS:
                        continue
                    try:
                        reason = find_missing(one.name, *one.args)
                    except (TypeError, ValueError) as error:
                        raise pytest.UsageError(f"{item.nodeid}: {one.name}: {error}") from error
                    if reason:
                        item.add_marker(pytest.mark.skip(reason=reason))
                        break

        @pytest.fixture
        def test_paths(self, request: Any) -> ProjectPaths:
            """The folders of the project, seen from the file of this test."""
            return find_project_paths(request.path)

        @pytest.fixture
        def auto_remove_tmp_dir(self, test_paths: ProjectPaths) -> Iterator[Callable[..., Path]]:
            """Makes folders as make_tmp_dir does, and removes them when the test ends."""
            with contextlib.ExitStack() as stack:

                def make(tmp_dir: AnyPath | None = None) -> Path:
                    folder, is_removed = make_tmp_dir(test_paths, tmp_dir)
                    if is_removed:
                        stack.callback(remove_folder, folder)
                    return folder

                yield make

        @pytest.fixture
        def subprocess_env(self, test_paths: ProjectPaths) -> dict[str, str]:
            """As make_subprocess_env."""
            return make_subprocess_env(test_paths)

        @pytest.fixture
        def run_subprocess(self, subprocess_env: dict[str, str]) -> Callable[..., CommandOutput]:
            """execute_subprocess_async in the environment of subprocess_env."""
            return functools.partial(execute_subprocess_async, env=subprocess_env)

        @pytest.fixture
        def unique_port(self) -> int:
            """As get_unique_port."""
            return get_unique_port()

        @pytest.fixture
        def seeded(self) -> int:
            """Random, NumPy and torch are seeded with 42."""
            return set_seed()

        @pytest.fixture
        def gpu_count(self) -> int:
            """As get_gpu_count."""
            return get_gpu_count()

    return Fixtures()


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    """Write the files of --make-reports."""
    name = config.getoption("--make-reports")
    if not name:
        return
    stats = terminalreporter.stats
    failed, errors, skipped = (stats.get(kind, []) for kind in ("failed", "error", "skipped"))
    timed = [r for those in stats.values() for r in those if hasattr(r, "duration")]
    timed.sort(key=lambda r: -r.duration)
    crashes = {r.nodeid: describe_crash(r) for r in (*failed, *errors)}
    first_lines = {nodeid: text.split("\n")[0] for nodeid, text in crashes.items()}
    reports = {
        "durations": [f"{r.duration:9.3f} s  {r.when:8}  {r.nodeid}" for r in timed],
        "errors": [f"{r.nodeid}\n{r.longreprtext}\n" for r in errors],
        "failures_line": [first_lines[r.nodeid] for r in failed],
        "failures_short": [f"{r.nodeid}\n{crashes[r.nodeid]}\n" for r in failed],
        "failures_long": [
            f"{r.nodeid}\n{r.longreprtext}\n{r.capstdout}{r.capstderr}" for r in failed
        ],
        "stats": [", ".join(f"{len(those)} {kind}" for kind, those in stats.items() if kind)],
        "summary_short": [
            *(f"FAILED {r.nodeid} - {first_lines[r.nodeid]}" for r in failed),
            *(f"ERROR {r.nodeid} - {first_lines[r.nodeid]}" for r in errors),
            *(f"SKIPPED {r.nodeid} - {r.longrepr[2]}" for r in skipped),
        ],
        "warnings": [f"{w.nodeid}\n{w.message}" for w in stats.get("warnings", [])],
    }
    texts = {f"{kind}.txt": "\n".join([*lines, ""]) for kind, lines in reports.items()}
    folder = config.invocation_params.dir / "reports" / name
    write_file_tree(folder, {k: t.encode(errors="backslashreplace") for k, t in texts.items()})


def describe_crash(report: Any) -> str:
    """File, line and error of a failed report."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return f"{crash.path}:{crash.lineno}: {crash.message}" if crash else report.longreprtext


# The program.


def try_timeout(timeout: float) -> tuple[str, str]:
    """Whether a command that ignores SIGTERM is ended, with a process that left its session."""
    script = "trap '' TERM; echo 1; setsid sh -c 'echo 2; sleep 600' & sleep 600"
    try:
        execute_subprocess_async(["sh", "-c", script], timeout=timeout, quiet=True, grace=0.5)
    except CommandTimedOut as error:
        if error.output.left:
            return "outlived", f"{error.output.left} processes are still running"
        if len(error.output.stdout) == 2:
            return "all ended", ""
    return "not seen", f"not all processes began within {timeout:g} s"


def build_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="testing_utils.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    # fmt: off
    add("--packages", nargs="+", default=[], metavar="NAME", help='such as "transformers>=5"')
    add("--programs", nargs="+", default=[], metavar="NAME", help="such as fio")
    add("--demo", action="store_true", help="check that a timeout ends all processes of a command")
    add("--version", action="version", version=f"testing_utils {__version__}")
    # fmt: on
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Print what can run here; the exit status."""
    parser = build_parser()
    options = parser.parse_args(arguments)
    wanted = [(name,) for name in REQUIREMENTS if name not in WITH_NAMES]
    wanted += [("require_package", name) for name in options.packages]
    wanted += [("require_program", name) for name in options.programs]
    print("| tests that | verdict | why |\n| :-- | :-- | :-- |")
    for name, *names in wanted:
        try:
            reason = find_missing(name, *names)
        except ValueError as error:
            parser.error(f"--packages {names[0]}: {error}")
        title = f"{name}({names[0]!r})" if names else name
        print(f"| {title} | {'skipped' if reason else 'runs'} | {reason or ''} |")
    verdict = ""
    if options.demo:
        verdict, why = try_timeout(1.0)
        print(f"| a timeout on processes that ignore SIGTERM | {verdict} | {why} |")
    return int(verdict == "outlived")


if __name__ == "__main__":
    sys.exit(main())
