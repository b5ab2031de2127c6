#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
r"""Which tests can run on this machine, and how do I write tests that leave nothing behind?

What tests of training code need again and again, as a pytest plugin and as a base class of
unittest. Run as a program this file says which requirements this machine meets, and shows that a
time-out ends a whole tree of processes.

    pytest -p testing_utils                    with this file's folder in PYTHONPATH
    pytest_plugins = ["testing_utils"]         or this line in the conftest.py of the root

As pytest plugin
    marks       require_torch, require_torch_gpu, require_torch_multi_gpu,
                require_torch_non_multi_gpu, require_torch_up_to_2_gpus, require_torch_tpu,
                require_torch_device("cuda", ...), require_package("numpy>=2", ...),
                require_program("fio", ...), require_env("RUN_SLOW", ...). They are looked at when
                the tests have been chosen, so torch is imported only where a chosen test asks.
    fixtures    auto_remove_tmp_dir, unique_port, seeded, subprocess_env, run_subprocess,
                test_paths, gpu_count
    option      --make-reports=NAME writes reports/NAME/ with durations.txt, errors.txt,
                failures_line.txt, failures_short.txt, failures_long.txt, stats.txt,
                summary_short.txt, warnings.txt

To import, with pytest or without
    decorators  all names of the marks, as @require_torch_gpu or @require_package("numpy>=2"), on
                functions, methods and classes; @slow, which is require_env("RUN_SLOW");
                @mockenv(NAME="value") and mockenv_context("TO_REMOVE", NAME="value")
    TestCasePlus, a unittest.TestCase with test_file_path, test_file_dir, tests_dir, examples_dir,
                repo_root_dir, src_dir (and each with _str), get_auto_remove_tmp_dir, get_env
    captures    CaptureStd, CaptureStdout, CaptureStderr, CaptureLogger, ExtendSysPath
    torch       get_gpu_count, get_torch_device, set_seed, keep_random_state, torch_assert_equal,
                torch_assert_close
    the rest    execute_subprocess_async, get_unique_port, load_json, save_json, load_json_lines,
                save_json_lines, write_file_tree, read_file_tree

Physics
    There is none. Hand check of ports: 2 workers share the ports from 10000 up to 32767, where
    Linux begins to give out its own: gw0 has 10000 to 21383, gw1 21384 to 32767.

How a time-out ends a process tree
    The tree is: all descendants, all processes of the session that was started, and all that have
    inherited a mark in their environment or write to the command's stdout or stderr, so that those
    are found too that have left the session and whose parent is dead. All get SIGTERM, and after
    the grace (2 s) SIGKILL, until none is left. What a command leaves running when it ends by
    itself is ended likewise. This needs Linux's /proc; elsewhere it is the process group alone.

What is timed
    In the demonstration, the time from its start until its last process was gone. Nothing else.

How to run
    this machine    python testing_utils.py
    more of it      python testing_utils.py --packages "transformers>=5" datasets --programs fio
    Slurm           srun --ntasks-per-node 1 python testing_utils.py
    pdsh            pdsh -w node[01-08] python /shared/testing_utils.py

A good answer: `runs` beside all that your tests require, and `all ended` for the time-out, a
little after the time-out plus the grace. `skipped` says what is missing.

Seen running so far: on Linux without a GPU, with pytest 9, with xdist and without, with unittest
alone. The requirements of GPUs and TPUs have been seen to skip, not yet to run.

Exit status: 0 done, 1 a process outlived the time-out, or stopped by a signal, 2 wrong use.
"""

from __future__ import annotations

import sys

if __name__ == "__main__":  # Ctrl-C ends in silence, also while the rest is imported
    sys.excepthook = lambda *e: None if e[0] is KeyboardInterrupt else sys.__excepthook__(*e)

import argparse
import contextlib
import datetime
import errno
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import io
import json
import logging
import operator
import os
import platform
import queue
import random
import re
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import traceback
import unittest
from collections import Counter
from collections.abc import Callable, Container, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self, TextIO

__version__ = "0.1.0"
METHOD = 1

# Plain literals: a runner reads them without importing this file.
PROFILES = {
    "toy": ["--packages", "pytest", "pytest-xdist", "--timeout", "1s"],
    "full": ["--packages", "pytest", "pytest-xdist", "numpy", "transformers", "--timeout", "5s"],
}

# The unit of each column of the JSON's results that holds numbers.
UNITS = {"seconds": "s"}

DEFAULT_SEED = 42
DEFAULT_TIMEOUT = 180.0
GRACE_SECONDS = 2.0
KILL_SECONDS = 10.0
# How long the pipes of a command that has ended may stay open before its leftovers are ended.
LEFTOVER_SECONDS = 0.5
PAUSE_SECONDS = 0.02
TREE_NAME = "TESTING_UTILS_TREE"

FIRST_PORT = 10000
# Where Linux begins to give out ports by itself, unless told otherwise.
USUAL_LAST_PORT = 32767

LEAST_DURATION = 0.005
REPORT_NAMES = (
    "durations",
    "errors",
    "failures_line",
    "failures_short",
    "failures_long",
    "stats",
    "summary_short",
    "warnings",
)
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
ROOT_SIGNS = (".git", "pyproject.toml", "setup.py", "setup.cfg")

Row = dict[str, Any]


class CommandFailed(RuntimeError):
    """A command ended with another status than 0; `output` is what it wrote."""

    def __init__(self, message: str, output: CommandOutput) -> None:
        super().__init__(message)
        self.output = output


class CommandTimedOut(CommandFailed):
    """A command did not end in time, and it and all it had started was ended."""


class CommandOutput(NamedTuple):
    """What became of a command."""

    returncode: int
    stdout: list[str]
    stderr: list[str]
    left: int
    """How many processes it had left running, which were ended."""


# --- what a test requires ---


def find_missing_torch() -> str | None:
    """Why tests of torch cannot run; None where they can."""
    return None if importlib.util.find_spec("torch") else "needs torch, which is not installed"


def get_gpu_count() -> int:
    """How many accelerators torch sees, of any vendor; 0 without torch."""
    if find_missing_torch() is not None:
        return 0
    import torch

    if hasattr(torch, "accelerator"):
        return int(torch.accelerator.device_count())
    return int(torch.cuda.device_count())


def get_torch_device() -> str:
    """The kind of the device that tests run on: `cuda` (ROCm too), `xpu`, `mps`, ... or `cpu`."""
    if get_gpu_count() == 0:
        return "cpu"
    import torch

    if hasattr(torch, "accelerator"):
        return str(torch.accelerator.current_accelerator().type)
    return "cuda"


def find_missing_gpus(least: int = 0, most: int | None = None) -> str | None:
    """Why a test for so many accelerators cannot run; None where it can."""
    reason = find_missing_torch()
    if reason is not None:
        return reason
    count = get_gpu_count()
    has = f"{count or 'none'} is here" if count < 2 else f"{count} are here"
    if count < least:
        return f"needs {least} or more GPUs, {has}"
    if most is not None and count > most:
        return f"needs at most {most} GPU{'s' if most > 1 else ''}, {has}"
    return None


def find_missing_device(*kinds: str) -> str | None:
    """Why a test for one of these kinds of device cannot run; None where it can."""
    reason = find_missing_torch()
    if reason is not None:
        return reason
    device = get_torch_device()
    return None if device in kinds else f"needs {' or '.join(kinds)}, the device is {device}"


def find_missing_tpu() -> str | None:
    """Why a test for a TPU cannot run; None where it can."""
    reason = find_missing_torch() or find_missing_packages("torch_xla")
    if reason is not None:
        return reason
    import torch_xla.runtime

    kind = torch_xla.runtime.device_type()
    return None if kind == "TPU" else f"needs a TPU, torch_xla has {kind}"


def find_missing_packages(*wanted: str) -> str | None:
    """What is missing of packages such as `numpy` or `transformers>=5,<6`; None where all is here.

    Raises ValueError for what names no package.
    """
    for text in wanted:
        found = re.fullmatch(r"(\w[\w.-]*)((?:\s*(?:[<>=!]=|[<>])\s*[\w.+!]+\s*,?)*)", text)
        if found is None:
            raise ValueError(f"'{text}' is no package: write numpy or 'numpy>=2,<3'")
        name, limits = found.groups()
        version = find_package_version(name)
        if version is None:
            return f"needs {text}, which is not installed"
        for sign, limit in re.findall(r"([<>=!]=|[<>])\s*([\w.+!]+)", limits):
            if not version:
                return f"needs {text}, and the version that is here is not known"
            if not COMPARISONS[sign](*align_versions(version, limit)):
                return f"needs {text}, {version} is here"
    return None


def find_package_version(name: str) -> str | None:
    """The version of a distribution or of a module; empty where not known, None where not here."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    module = name.replace("-", "_")
    with contextlib.suppress(ImportError, ValueError):
        if importlib.util.find_spec(module) is not None:
            owners = importlib.metadata.packages_distributions().get(module.split(".")[0], [])
            return importlib.metadata.version(owners[0]) if owners else ""
    return None


def align_versions(*versions: str) -> list[tuple[int, ...]]:
    """The release numbers of versions, of equal length. 2.1rc1 and 2.1+cpu count as 2.1."""
    numbers = [
        tuple(int(part) for part in re.match(r"[\d.]*", version)[0].split(".") if part)  # type: ignore[index]
        for version in versions
    ]
    length = max(map(len, numbers))
    return [number + (0,) * (length - len(number)) for number in numbers]


def find_missing_programs(*names: str) -> str | None:
    """Which of these programs is not installed; None where all are."""
    missing = [name for name in names if shutil.which(name) is None]
    return f"needs the program {missing[0]}, which is not installed" if missing else None


def is_flag_set(name: str) -> bool:
    """Whether an environment variable says yes: set, and neither 0, no, off nor false."""
    return os.environ.get(name, "").strip().lower() not in ("", "0", "no", "n", "off", "f", "false")


def find_missing_env(*names: str) -> str | None:
    """Which of these environment variables does not say yes; None where all do."""
    missing = [name for name in names if not is_flag_set(name)]
    return f"runs only with {missing[0]}=1" if missing else None


# By name of the mark, and of the decorator: what says why a test cannot run.
REQUIREMENTS: dict[str, Callable[..., str | None]] = {
    "require_torch": find_missing_torch,
    "require_torch_gpu": functools.partial(find_missing_gpus, 1),
    "require_torch_multi_gpu": functools.partial(find_missing_gpus, 2),
    "require_torch_non_multi_gpu": functools.partial(find_missing_gpus, 0, 1),
    "require_torch_up_to_2_gpus": functools.partial(find_missing_gpus, 0, 2),
    "require_torch_tpu": find_missing_tpu,
    "require_torch_device": find_missing_device,
    "require_package": find_missing_packages,
    "require_program": find_missing_programs,
    "require_env": find_missing_env,
}
# Those that say what they require in brackets.
NAMING = ("require_torch_device", "require_package", "require_program", "require_env")


def skip_for(reason: str | None) -> Callable[[Any], Any]:
    """A decorator that skips a test, or a class of tests, where there is a reason to."""

    def decorate(item: Any) -> Any:
        if reason is None:
            return item
        is_case = isinstance(item, type) and issubclass(item, unittest.TestCase)
        is_function = not isinstance(item, type)
        if is_case or is_function:
            item = unittest.skip(reason)(item)
        # pytest then skips before any fixture is made, and knows classes that are no TestCase.
        if not is_case and "pytest" in sys.modules:
            item = sys.modules["pytest"].mark.skip(reason=reason)(item)
        return item

    return decorate


def require_torch(test: Any) -> Any:
    """Skip a test where torch is not installed."""
    return skip_for(find_missing_torch())(test)


def require_torch_gpu(test: Any) -> Any:
    """Skip a test without an accelerator."""
    return skip_for(find_missing_gpus(1))(test)


def require_torch_multi_gpu(test: Any) -> Any:
    """Skip a test with fewer than 2 accelerators."""
    return skip_for(find_missing_gpus(2))(test)


def require_torch_non_multi_gpu(test: Any) -> Any:
    """Skip a test with 2 or more accelerators."""
    return skip_for(find_missing_gpus(0, 1))(test)


def require_torch_up_to_2_gpus(test: Any) -> Any:
    """Skip a test with 3 or more accelerators."""
    return skip_for(find_missing_gpus(0, 2))(test)


def require_torch_tpu(test: Any) -> Any:
    """Skip a test without torch_xla and a TPU."""
    return skip_for(find_missing_tpu())(test)


def require_torch_device(*kinds: str) -> Callable[[Any], Any]:
    """Skip a test where the device is of none of these kinds: `cuda`, `xpu`, `cpu`, ..."""
    check_named("require_torch_device", kinds)
    return skip_for(find_missing_device(*kinds))


def require_package(*wanted: str) -> Callable[[Any], Any]:
    """Skip a test where one of these packages is missing or of another version."""
    check_named("require_package", wanted)
    return skip_for(find_missing_packages(*wanted))


def require_program(*names: str) -> Callable[[Any], Any]:
    """Skip a test where one of these programs is not installed."""
    check_named("require_program", names)
    return skip_for(find_missing_programs(*names))


def require_env(*names: str) -> Callable[[Any], Any]:
    """Skip a test where one of these environment variables does not say yes."""
    check_named("require_env", names)
    return skip_for(find_missing_env(*names))


def slow(test: Any) -> Any:
    """Skip a test unless RUN_SLOW=1."""
    return skip_for(find_missing_env("RUN_SLOW"))(test)


def check_named(requirement: str, arguments: Sequence[Any]) -> None:
    """Raises TypeError for @require_package without brackets, or with nothing in them."""
    if not arguments or not all(isinstance(argument, str) for argument in arguments):
        raise TypeError(f"write what it requires in brackets: @{requirement}('...')")


# --- seeds and tensors ---


def set_seed(seed: int = DEFAULT_SEED, *, deterministic: bool = False) -> int:
    """Seed random, and NumPy and torch (all devices) where they are installed; the seed.

    `deterministic` asks torch for algorithms that give the same result each time; those that have
    none then raise RuntimeError. Hashes of strings are not touched: that is PYTHONHASHSEED.
    """
    random.seed(seed)
    if importlib.util.find_spec("numpy"):
        import numpy

        numpy.random.seed(seed % 2**32)
    if importlib.util.find_spec("torch"):
        import torch

        torch.manual_seed(seed)
        if deterministic:
            # cuBLAS reads it when it starts.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True)
            torch.backends.cudnn.benchmark = False
    return seed


@contextlib.contextmanager
def keep_random_state() -> Iterator[None]:
    """Random, NumPy and torch (CPU, CUDA, ROCm, XPU) go on afterwards as if nothing had been."""
    state = random.getstate()
    numpy: Any = None
    if importlib.util.find_spec("numpy"):
        numpy = importlib.import_module("numpy")
    numpy_state = numpy.random.get_state() if numpy else None
    fork: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
    if importlib.util.find_spec("torch"):
        import torch

        kind = get_torch_device()
        # Only these keep one state for each device, as fork_rng asks for.
        devices = range(get_gpu_count()) if kind in ("cuda", "xpu") else ()
        kind = kind if devices else "cuda"
        fork = torch.random.fork_rng(devices=devices, device_type=kind)
    try:
        with fork:
            yield
    finally:
        random.setstate(state)
        if numpy:
            numpy.random.set_state(numpy_state)


def torch_assert_equal(actual: Any, expected: Any, **options: Any) -> None:
    """Raises AssertionError where tensors (or lists and dicts of them) are not the same.

    Shape, dtype, device and all values count; nan equals nothing, unless equal_nan=True. Options
    are those of torch.testing.assert_close.
    """
    import torch

    torch.testing.assert_close(actual, expected, rtol=0.0, atol=0.0, **options)


def torch_assert_close(actual: Any, expected: Any, **options: Any) -> None:
    """Raises AssertionError where tensors (or lists and dicts of them) are not close.

    Options are those of torch.testing.assert_close: rtol and atol, both or neither.
    """
    import torch

    torch.testing.assert_close(actual, expected, **options)


# --- captures ---


def apply_print_resets(text: str) -> str:
    """What a terminal shows in the end: of a line with carriage returns, what follows the last."""
    lines = []
    for line in text.replace("\r\n", "\n").split("\n"):
        # A return at the very end has not been written over yet.
        kept = line.rstrip("\r")
        lines.append(kept.rsplit("\r", 1)[-1])
    return "\n".join(lines)


class CaptureStd:
    """Capture what Python writes to stdout and stderr, and by default repeat it at the end.

    `out` and `err` are what was written so far, as a terminal would show it. Not seen: what C
    libraries and other processes write; for those pytest has capfd.
    """

    def __init__(self, out: bool = True, err: bool = True, replay: bool = True) -> None:
        self.replay = replay
        self._buffers = {"stdout": io.StringIO() if out else None}
        self._buffers["stderr"] = io.StringIO() if err else None
        self._before: dict[str, TextIO] = {}

    @property
    def out(self) -> str:
        """What was written to stdout."""
        return self._read("stdout")

    @property
    def err(self) -> str:
        """What was written to stderr."""
        return self._read("stderr")

    def _read(self, name: str) -> str:
        buffer = self._buffers[name]
        if buffer is None:
            raise AttributeError(f"{name} is not captured here")
        return apply_print_resets(buffer.getvalue())

    def __enter__(self) -> Self:
        for name, buffer in self._buffers.items():
            if buffer is not None:
                buffer.seek(0)
                buffer.truncate()
                self._before[name] = getattr(sys, name)
                setattr(sys, name, buffer)
        return self

    def __exit__(self, *_: object) -> None:
        for name, stream in self._before.items():
            setattr(sys, name, stream)
        for name, stream in self._before.items():
            buffer = self._buffers[name]
            if self.replay and buffer is not None:
                stream.write(buffer.getvalue())
                stream.flush()
        self._before.clear()

    def __repr__(self) -> str:
        parts = [f"{name}: {self._read(name)!r}" for name, b in self._buffers.items() if b]
        return f"{type(self).__name__}({', '.join(parts)})"


class CaptureStdout(CaptureStd):
    """Capture stdout alone."""

    def __init__(self, replay: bool = True) -> None:
        super().__init__(err=False, replay=replay)


class CaptureStderr(CaptureStd):
    """Capture stderr alone."""

    def __init__(self, replay: bool = True) -> None:
        super().__init__(out=False, replay=replay)


class CaptureLogger:
    """Capture what a logger, or one below it, logs: the messages, in `out`.

    `level` is the logger's for as long.
    """

    def __init__(self, logger: logging.Logger, level: int | str | None = None) -> None:
        self.logger = logger
        self.level = level
        self._buffer = io.StringIO()
        self._handler = logging.StreamHandler(self._buffer)
        self._level_before = logger.level

    @property
    def out(self) -> str:
        """The messages so far, one per line."""
        return self._buffer.getvalue()

    def __enter__(self) -> Self:
        self.logger.addHandler(self._handler)
        self._level_before = self.logger.level
        if self.level is not None:
            self.logger.setLevel(self.level)
        return self

    def __exit__(self, *_: object) -> None:
        self.logger.removeHandler(self._handler)
        if self.level is not None:
            self.logger.setLevel(self._level_before)

    def __repr__(self) -> str:
        return f"CaptureLogger({self.out!r})"


class ExtendSysPath:
    """Put a folder first in sys.path, for as long as the block runs.

    What was imported from it stays imported.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = str(Path(path).resolve())

    def __enter__(self) -> Self:
        sys.path.insert(0, self.path)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ValueError):  # where the block took it out itself
            sys.path.remove(self.path)


# --- the environment ---


def mockenv(**values: str) -> Any:
    """A decorator of a test, or of a class of tests, that sets environment variables for it.

    Afterwards the environment is what it was before. Usable with `with` as well.
    """
    from unittest import mock

    return mock.patch.dict(os.environ, values)


@contextlib.contextmanager
def mockenv_context(*remove: str, **update: str) -> Iterator[None]:
    """Without these environment variables, and with those, for as long as the block runs."""
    from unittest import mock

    with mock.patch.dict(os.environ, update):
        for name in remove:
            os.environ.pop(name, None)
        yield


# --- paths and temporary folders ---


class ProjectPaths(NamedTuple):
    """Where the things of a project are, seen from a test file. They need not be there."""

    test_file: Path
    tests: Path
    examples: Path
    root: Path
    src: Path


def find_project_paths(test_file: str | os.PathLike[str]) -> ProjectPaths:
    """The folders of the project that a test file belongs to.

    The root is the nearest folder above with .git, pyproject.toml, setup.py or setup.cfg (else the
    test file's own); tests, the outermost folder named `tests` or `test` on the way to it.
    """
    path = Path(test_file).resolve()
    above = list(path.parents)
    root = next((f for f in above if any((f / sign).exists() for sign in ROOT_SIGNS)), path.parent)
    within = above[: above.index(root)]
    tests = [folder for folder in within if folder.name in ("tests", "test")]
    src = root / "src"
    return ProjectPaths(
        path, tests[-1] if tests else root / "tests", root / "examples", root,
        src if src.is_dir() else root,
    )  # fmt: skip


def make_subprocess_env(paths: ProjectPaths) -> dict[str, str]:
    """A copy of the environment in which programs import from the project under test.

    PYTHONPATH is the folder of tests (or examples, for a test below it), that of the sources, and
    what it was before.
    """
    environ = dict(os.environ)
    first = paths.examples if paths.examples in paths.test_file.parents else paths.tests
    folders = [str(first), str(paths.src), environ.get("PYTHONPATH", "")]
    environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(folder for folder in folders if folder))
    return environ


def make_tmp_dir(
    paths: ProjectPaths,
    tmp_dir: str | os.PathLike[str] | None = None,
    before: bool | None = None,
    after: bool | None = None,
) -> tuple[Path, bool]:
    """A folder for a test to write into, and whether it is to be removed afterwards.

    Without `tmp_dir`, a new one of a random name, to be removed. With it, that folder, emptied
    first and kept afterwards, so that one can look into it. `before` says whether to empty it,
    `after` whether to remove it. Raises ValueError for a folder that is not a test's to empty: one
    outside the project, one that holds the test, sources, examples or files that git knows (or may
    know: in a repository without git), or a link.
    """
    if tmp_dir is None:
        if before is False:
            raise ValueError("before=False: a new folder is empty; name one to keep what is in it")
        return Path(tempfile.mkdtemp(prefix="test_")).resolve(), after is not False
    named = Path(tmp_dir)
    folder = named.resolve()
    if paths.root not in folder.parents:
        raise ValueError(f"{tmp_dir} is not below {paths.root}: name a folder in the project")
    own = (paths.src, paths.tests, paths.examples)
    if folder in (*paths.test_file.parents, *Path.cwd().parents, Path.cwd(), *own):
        raise ValueError(f"{tmp_dir} holds more than this test's own: name a new folder")
    if named.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise ValueError(f"{tmp_dir} is a link or a file: name a folder")
    if ".git" in folder.relative_to(paths.root).parts:
        raise ValueError(f"{tmp_dir} belongs to git: name a new folder")
    is_emptied = before is not False
    if (is_emptied or after) and folder.exists() and holds_tracked_files(folder):
        raise ValueError(f"{tmp_dir} holds files that git knows, or may know: name a new folder")
    if is_emptied and folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return folder, bool(after)


def holds_tracked_files(folder: Path) -> bool:
    """Whether git knows a file in this folder, or cannot say; False outside of repositories."""
    if not any((above / ".git").exists() for above in (folder, *folder.parents)):
        return False
    # Of a repository of another user, as in containers, it answers only who says it may; and runs
    # what that one's settings name, unless told not to.
    command = ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "ls-files", "."]
    try:
        listed = subprocess.run(command, cwd=folder, capture_output=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return True
    return bool(listed.stdout)


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that is in it, also what a test has made read-only."""
    if not folder.exists():
        return
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o700)
    shutil.rmtree(folder)


class TestCasePlus(unittest.TestCase):
    """A unittest.TestCase that knows its paths, and removes its temporary folders."""

    @property
    def paths(self) -> ProjectPaths:
        """Where the things of the project are, seen from the file of this test."""
        return find_project_paths(inspect.getfile(type(self)))

    @property
    def test_file_path(self) -> Path:
        """The file of this test."""
        return self.paths.test_file

    @property
    def test_file_dir(self) -> Path:
        """The folder of this test's file."""
        return self.paths.test_file.parent

    @property
    def tests_dir(self) -> Path:
        """The folder of all tests."""
        return self.paths.tests

    @property
    def examples_dir(self) -> Path:
        """The folder of the examples."""
        return self.paths.examples

    @property
    def repo_root_dir(self) -> Path:
        """The folder of the project."""
        return self.paths.root

    @property
    def src_dir(self) -> Path:
        """The folder to import the project from: src where there is one, else its root."""
        return self.paths.src

    @property
    def test_file_path_str(self) -> str:
        """As test_file_path, in text."""
        return str(self.test_file_path)

    @property
    def test_file_dir_str(self) -> str:
        """As test_file_dir, in text."""
        return str(self.test_file_dir)

    @property
    def tests_dir_str(self) -> str:
        """As tests_dir, in text."""
        return str(self.tests_dir)

    @property
    def examples_dir_str(self) -> str:
        """As examples_dir, in text."""
        return str(self.examples_dir)

    @property
    def repo_root_dir_str(self) -> str:
        """As repo_root_dir, in text."""
        return str(self.repo_root_dir)

    @property
    def src_dir_str(self) -> str:
        """As src_dir, in text."""
        return str(self.src_dir)

    def get_env(self) -> dict[str, str]:
        """A copy of the environment in which programs import from the project under test."""
        return make_subprocess_env(self.paths)

    def get_auto_remove_tmp_dir(
        self,
        tmp_dir: str | os.PathLike[str] | None = None,
        before: bool | None = None,
        after: bool | None = None,
    ) -> Path:
        """A folder to write into, as make_tmp_dir says; removed when this test ends."""
        folder, is_removed = make_tmp_dir(self.paths, tmp_dir, before, after)
        if is_removed:
            self.addCleanup(remove_folder, folder)
        return folder


# --- files ---


def load_json(path: str | os.PathLike[str]) -> Any:
    """What a JSON file says."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def save_json(path: str | os.PathLike[str], value: Any) -> Path:
    """Write a JSON file, and the folders above it; its path."""
    return write_file_tree(Path(path).parent, {Path(path).name: json.dumps(value) + "\n"})[0]


def load_json_lines(path: str | os.PathLike[str]) -> list[Any]:
    """What each line of a file says in JSON."""
    # splitlines() would split within a text that holds U+2028.
    lines = Path(path).read_text(encoding="utf-8").split("\n")
    return [json.loads(line) for line in lines if line.strip()]


def save_json_lines(path: str | os.PathLike[str], values: Iterable[Any]) -> Path:
    """Write one line of JSON for each value, and the folders above the file; its path."""
    text = "".join(f"{json.dumps(value)}\n" for value in values)
    return write_file_tree(Path(path).parent, {Path(path).name: text})[0]


def write_file_tree(folder: str | os.PathLike[str], files: Mapping[str, str | bytes]) -> list[Path]:
    """Write files by their paths below a folder, and all folders they need; the paths."""
    written = []
    for name, content in files.items():
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
        written.append(path)
    return written


def read_file_tree(folder: str | os.PathLike[str]) -> dict[str, bytes]:
    """The content of all files below a folder, by their paths below it."""
    root = Path(folder)
    files = sorted(path for path in root.rglob("*") if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in files}


# --- ports ---


given_ports: Counter[int] = Counter()


def get_unique_port() -> int:
    """A TCP port that is free now and that no other worker of pytest-xdist is given.

    No port is given twice by one process while there are others. Another program may still take
    it before the test does.
    """
    worker = re.search(r"\d+$", os.environ.get("PYTEST_XDIST_WORKER", ""))
    count = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT") or 1)
    ports = choose_port_share(int(worker[0]) if worker else 0, count, read_last_port())
    # From a random place on, for other sessions of tests; and not of a generator that tests seed.
    start = secrets.randbelow(len(ports))
    rotated: list[int] = [*ports[start:], *ports[:start]]
    for port in sorted(rotated, key=given_ports.__getitem__):
        with socket.socket() as probe:
            try:
                probe.bind(("", port))
            except OSError:
                continue
        given_ports[port] += 1
        return port
    raise RuntimeError(f"no port is free from {ports[0]} to {ports[-1]}")


def choose_port_share(worker: int, count: int, last: int) -> range:
    """The ports of one of so many workers, of those up to `last`."""
    count = max(count, worker + 1)
    share = max((last - FIRST_PORT + 1) // count, 1)
    first = FIRST_PORT + worker * share
    return range(first, first + share)


def read_last_port() -> int:
    """The last port below those that the system gives out by itself."""
    path = Path("/proc/sys/net/ipv4/ip_local_port_range")
    with contextlib.suppress(OSError, ValueError):
        last = int(path.read_text(encoding="ascii").split()[0]) - 1
        # Where the system takes nearly all for itself there is no room below.
        if last >= FIRST_PORT + 1000:
            return last
    return USUAL_LAST_PORT


# --- processes ---


def execute_subprocess_async(
    cmd: Sequence[str],
    env: Mapping[str, str] | None = None,
    stdin: Any = None,
    timeout: float = DEFAULT_TIMEOUT,
    quiet: bool = False,
    echo: bool = True,
    *,
    cwd: str | os.PathLike[str] | None = None,
    check: bool = True,
    grace: float = GRACE_SECONDS,
) -> CommandOutput:
    """Run a command and repeat each line that it writes at once; what became of it.

    After `timeout` seconds it is ended with all that it has started, however these try to stay:
    SIGTERM, and SIGKILL `grace` seconds later. What it leaves running when it ends by itself is
    ended too. `echo` shows the command first, `quiet` repeats nothing, `stdin` is empty by default.
    Raises CommandTimedOut, CommandFailed where the status is not 0 (unless check=False), and
    OSError where the command cannot be started.
    """
    if isinstance(cmd, str):
        raise TypeError("the command is a list of words: [sys.executable, 'train.py']")
    words = [os.fspath(word) for word in cmd]
    if echo and not quiet:
        print(f"\nRunning: {shlex.join(words)}", flush=True)
    tree = ProcessTree(words, env, stdin, cwd)
    lines: dict[str, list[str]] = {"stdout": [], "stderr": []}

    def keep(name: str, line: str) -> None:
        lines[name].append(line)
        if not quiet:
            print(f"{name}: {line}", file=getattr(sys, name), flush=True)

    try:
        is_late = not tree.follow(keep, timeout)
        status = tree.process.poll()
    finally:
        left = tree.end(grace)
        tree.drain(keep)
    output = CommandOutput(
        tree.process.returncode if status is None else status,
        lines["stdout"],
        lines["stderr"],
        0 if is_late else left,
    )
    if is_late:
        alive = tree.find()
        ended = "all it started was ended" if not alive else f"could not be ended: {sorted(alive)}"
        message = f"'{shlex.join(words)}' did not end within {timeout:g} s; {ended}"
        raise CommandTimedOut(add_last_lines(message, output), output)
    if check and output.returncode != 0:
        message = f"'{shlex.join(words)}' ended with {name_status(output.returncode)}"
        raise CommandFailed(add_last_lines(message, output), output)
    return output


def name_status(status: int) -> str:
    """An exit status in words."""
    if status >= 0:
        return f"status {status}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-status).name
    return f"signal {-status}"


def add_last_lines(message: str, output: CommandOutput, count: int = 20) -> str:
    """The message with the last lines of stderr, or of stdout where stderr is empty."""
    lines = output.stderr or output.stdout
    return "\n".join([message, *(f"    {line}" for line in lines[-count:])])


class ProcessTree:
    """A command that was started, and all that it starts."""

    def __init__(
        self,
        words: Sequence[str],
        env: Mapping[str, str] | None,
        stdin: Any,
        cwd: str | os.PathLike[str] | None,
    ) -> None:
        self.mark = secrets.token_hex(16)
        environ = dict(os.environ if env is None else env)
        # Those around this one stay: a tree within a tree belongs to both.
        outer = os.environ.get(TREE_NAME, "")
        environ[TREE_NAME] = f"{outer},{self.mark}" if outer else self.mark
        self.process = subprocess.Popen(
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
        self.lines: queue.Queue[tuple[str, str | None]] = queue.Queue()
        self.open_streams = 2
        self.pipes: set[str] = set()
        for name in ("stdout", "stderr"):
            stream = getattr(self.process, name)
            self.pipes.add(f"pipe:[{os.fstat(stream.fileno()).st_ino}]")
            threading.Thread(target=self._read, args=(name, stream), daemon=True).start()

    def _read(self, name: str, stream: TextIO) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in stream:
                self.lines.put((name, line.rstrip("\n")))
        self.lines.put((name, None))

    def _take(self, keep: Callable[[str, str], None], seconds: float) -> bool:
        try:
            name, line = self.lines.get(timeout=max(seconds, 0.001))
        except queue.Empty:
            return False
        if line is None:
            self.open_streams -= 1
        else:
            keep(name, line)
        return True

    def follow(self, keep: Callable[[str, str], None], timeout: float) -> bool:
        """Hand on the lines until the command has ended; False where it did not in time."""
        deadline = time.monotonic() + timeout
        quiet_since: float | None = None
        while True:
            now = time.monotonic()
            is_running = self.process.poll() is None
            if is_running and now > deadline:
                return False
            if not is_running and self.open_streams == 0:
                return True
            if self.open_streams == 0:
                time.sleep(PAUSE_SECONDS)
                continue
            has_line = self._take(keep, PAUSE_SECONDS if is_running else 0.0)
            if is_running or has_line:
                quiet_since = None
            elif quiet_since is None:
                quiet_since = now
            # Something it has started holds the pipes open: that is ended next.
            if quiet_since is not None and now > quiet_since + LEFTOVER_SECONDS:
                return True
            if not is_running and now > deadline:
                return True

    def drain(self, keep: Callable[[str, str], None]) -> None:
        """Hand on what was written before the end."""
        deadline = time.monotonic() + LEFTOVER_SECONDS
        while self.open_streams and time.monotonic() < deadline:
            self._take(keep, PAUSE_SECONDS)
        if self.open_streams == 0:
            for stream in (self.process.stdout, self.process.stderr):
                if stream is not None:
                    stream.close()

    def find(self) -> set[int]:
        """The processes of this tree that run."""
        table = read_process_table()
        if table is None:  # no /proc
            return {self.process.pid} if self.process.poll() is None else set()
        # Its number may be another process's by now.
        found = {self.process.pid} if self.process.poll() is None else set()
        found |= {pid for pid in table if has_mark(pid, self.mark) or has_output(pid, self.pipes)}
        found |= {pid for pid, (_, session) in table.items() if session == self.process.pid}
        while True:
            more = {pid for pid, (parent, _) in table.items() if parent in found} - found
            if not more:
                return found & set(table)
            found |= more

    def end(self, grace: float) -> int:
        """End all processes of the tree; how many there were."""
        first = self.find()
        for pid in first:
            send_signal(pid, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while self.find() and time.monotonic() < deadline:
            time.sleep(PAUSE_SECONDS)
        deadline = time.monotonic() + KILL_SECONDS
        while (left := self.find()) and time.monotonic() < deadline:
            for pid in left:
                send_signal(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
            if os.name == "posix" and self.process.poll() is None:
                with contextlib.suppress(OSError):
                    os.killpg(self.process.pid, signal.SIGKILL)
            time.sleep(PAUSE_SECONDS)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=1.0)
        return len(first)


def send_signal(pid: int, number: int) -> None:
    """Send a signal to a process, if it is still there."""
    with contextlib.suppress(OSError):
        os.kill(pid, number)


def read_process_table() -> dict[int, tuple[int, int]] | None:
    """Parent and session of all processes that have not ended; None where there is no /proc."""
    if not Path("/proc/self/stat").exists():
        return None
    table = {}
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            with contextlib.suppress(OSError, ValueError):
                text = (path / "stat").read_text(encoding="utf-8", errors="replace")
                # The name of a process may hold brackets and blanks itself.
                state, parent, _, session = text.rpartition(")")[2].split()[:4]
                if state not in "ZX":
                    table[int(path.name)] = (int(parent), int(session))
    return table


def has_mark(pid: int, mark: str) -> bool:
    """Whether a process was started with this mark in its environment."""
    with contextlib.suppress(OSError):
        return mark.encode() in Path("/proc", str(pid), "environ").read_bytes()
    return False


def has_output(pid: int, pipes: Container[str]) -> bool:
    """Whether a process writes to one of these pipes, by its stdout or its stderr."""
    for number in ("1", "2"):
        with contextlib.suppress(OSError):
            if str(Path("/proc", str(pid), "fd", number).readlink()) in pipes:
                return True
    return False


# --- the pytest plugin ---


def pytest_addoption(parser: Any) -> None:
    """Add --make-reports."""
    group = parser.getgroup("testing_utils")
    group.addoption(
        "--make-reports",
        metavar="NAME",
        default=None,
        help="write reports/NAME/*.txt: failures, errors, durations, warnings, summaries",
    )


def pytest_configure(config: Any) -> None:
    """Make the marks known, and add the fixtures and, where asked for, the reports."""
    for name in REQUIREMENTS:
        brackets = "(*names)" if name in NAMING else ""
        words = globals()[name].__doc__.splitlines()[0]
        config.addinivalue_line("markers", f"{name}{brackets}: {words}")
    config.pluginmanager.register(make_fixtures(), "testing_utils_fixtures")
    name = config.getoption("--make-reports")
    if name is None:
        return
    config.pluginmanager.register(make_report_notes(), "testing_utils_notes")
    # Under xdist it is the controller that hears of all tests.
    if not hasattr(config, "workerinput"):
        folder = choose_report_folder(name, config.invocation_params.dir)
        config.pluginmanager.register(ReportFiles(folder), "testing_utils_reports")


def choose_report_folder(name: str, here: Path) -> Path:
    """The folder of the reports. Raises pytest.UsageError for a name that leads elsewhere."""
    if not re.fullmatch(r"[\w][\w.+-]*", name):
        import pytest

        raise pytest.UsageError(f"--make-reports: '{name}' is no name of a folder: write tests-1")
    return here / "reports" / name


def make_fixtures() -> object:
    """The fixtures and the marks, as a plugin of its own."""
    import pytest

    class Fixtures:
        """What pytest finds the fixtures in."""

        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(self, items: list[Any]) -> None:
            """Skip what cannot run. Last, so that nothing is looked up for tests not chosen."""
            for item in items:
                reason = find_missing_of(item)
                if reason is not None:
                    item.add_marker(pytest.mark.skip(reason=reason))

        @pytest.fixture
        def test_paths(self, request: Any) -> ProjectPaths:
            """Where the things of the project are, seen from the file of this test."""
            return find_project_paths(request.path)

        @pytest.fixture
        def auto_remove_tmp_dir(self, test_paths: ProjectPaths) -> Iterator[Callable[..., Path]]:
            """Makes folders as make_tmp_dir says; those to be removed are when the test ends."""
            with contextlib.ExitStack() as stack:

                def make(
                    tmp_dir: Any = None, before: bool | None = None, after: bool | None = None
                ) -> Path:
                    folder, is_removed = make_tmp_dir(test_paths, tmp_dir, before, after)
                    if is_removed:
                        stack.callback(remove_folder, folder)
                    return folder

                yield make

        @pytest.fixture
        def subprocess_env(self, test_paths: ProjectPaths) -> dict[str, str]:
            """A copy of the environment in which programs import from the project under test."""
            return make_subprocess_env(test_paths)

        @pytest.fixture
        def run_subprocess(self, subprocess_env: dict[str, str]) -> Callable[..., CommandOutput]:
            """execute_subprocess_async, in the environment of subprocess_env."""

            def run(cmd: Sequence[str], **options: Any) -> CommandOutput:
                return execute_subprocess_async(cmd, **{"env": subprocess_env, **options})

            return run

        @pytest.fixture
        def unique_port(self) -> int:
            """A TCP port that is free, and of this test alone among all workers."""
            return get_unique_port()

        @pytest.fixture
        def seeded(self) -> Iterator[int]:
            """Random, NumPy and torch are seeded with 42, and go on afterwards as before."""
            with keep_random_state():
                yield set_seed(DEFAULT_SEED)

        @pytest.fixture
        def gpu_count(self) -> int:
            """How many accelerators torch sees."""
            return get_gpu_count()

    return Fixtures()


def find_missing_of(item: Any) -> str | None:
    """Why a test cannot run, by its marks; None where it can. Raises pytest.UsageError."""
    for mark in item.iter_markers():
        find = REQUIREMENTS.get(mark.name)
        if find is None:
            continue
        try:
            if mark.name in NAMING:
                check_named(mark.name, mark.args)
            reason = find(*mark.args, **mark.kwargs)
        except (TypeError, ValueError) as error:
            import pytest

            raise pytest.UsageError(f"{item.nodeid}: {mark.name}: {error}") from error
        if reason is not None:
            return reason
    return None


def make_report_notes() -> object:
    """What adds the last frame of a failure to its report, where the error is still at hand."""
    import pytest

    class ReportNotes:
        """Runs in the process of the test."""

        @pytest.hookimpl(wrapper=True)
        def pytest_runtest_makereport(self, item: Any, call: Any) -> Generator[None, Any, Any]:
            """Note where a test failed, in text, for another process may write the reports."""
            report = yield
            if call.excinfo is not None and report.outcome == "failed":
                report.testing_utils_note = describe_error_place(
                    call.excinfo.value, Path(item.path), Path(item.config.rootpath)
                )
            return report

    return ReportNotes()


def describe_error_place(error: BaseException, test_file: Path, root: Path) -> list[str]:
    """Three texts: where it failed, the lines there, and the error in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename).is_relative_to(root)]
    in_test = [frame for frame in frames if Path(frame.filename) == test_file]
    frame = next(reversed(own or in_test or list(frames)), None)
    words = "".join(traceback.format_exception_only(error)).strip()
    first = next((line.strip() for line in words.splitlines() if line.strip()), "")
    if frame is None:
        return ["", words, first]
    path = Path(frame.filename)
    name = path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
    code = f">   {frame.line}\n" if frame.line else ""
    errors = "\n".join(f"E   {line}" for line in words.splitlines())
    return [
        f"{name}:{frame.lineno}",
        f"{name}:{frame.lineno}: in {frame.name}\n{code}{errors}",
        first,
    ]


class ReportFiles:
    """The files of --make-reports: all that was told about the tests, written at the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.started = time.monotonic()
        self.outcomes: Counter[str] = Counter()
        self.summary: dict[str, list[str]] = {}
        self.durations: list[tuple[float, str, str]] = []
        self.failures: list[tuple[str, Any]] = []
        self.errors: list[tuple[str, Any]] = []
        self.warnings: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: Any) -> None:
        """One phase of one test has ended."""
        self.durations.append((report.duration, report.when, report.nodeid))
        outcome = name_outcome(report)
        if outcome is None:
            return
        self.outcomes[outcome] += 1
        title = report.nodeid
        if outcome == "error":
            title = f"{report.when} of {report.nodeid}"
            self.errors.append((title, report))
        elif outcome == "failed":
            self.failures.append((title, report))
        reason = describe_outcome(outcome, report)
        word = outcome.upper()
        self.summary.setdefault(word, []).append(f"{word} {title}{reason and f' - {reason}'}")

    def pytest_collectreport(self, report: Any) -> None:
        """A file or a class was read for tests."""
        if report.outcome == "failed":
            self.outcomes["error"] += 1
            title = f"collection of {report.nodeid or 'the tests'}"
            self.errors.append((title, report))
            last = (report.longreprtext.strip().splitlines() or [""])[-1].removeprefix("E").strip()
            self.summary.setdefault("ERROR", []).append(f"ERROR {title} - {last}")
        elif report.outcome == "skipped":
            self.outcomes["skipped"] += 1
            reason = describe_outcome("skipped", report)
            self.summary.setdefault("SKIPPED", []).append(f"SKIPPED {report.nodeid} - {reason}")

    def pytest_warning_recorded(
        self, warning_message: Any, when: str, nodeid: str, location: Any
    ) -> None:
        """Somebody warned."""
        kind = warning_message.category.__name__
        place = f"{warning_message.filename}:{warning_message.lineno}"
        self.warnings[f"{nodeid or when}\n  {place}: {kind}: {warning_message.message}\n"] += 1

    def pytest_sessionfinish(self) -> None:
        """Write all files."""
        for name, text in self.make_texts(time.monotonic() - self.started).items():
            self.folder.mkdir(parents=True, exist_ok=True)
            path = self.folder / f"{name}.txt"
            partial = path.with_name(f".{path.name}.{os.getpid()}")
            # A test may have printed half of a character.
            partial.write_text(text, encoding="utf-8", errors="backslashreplace")
            partial.replace(path)

    def make_texts(self, seconds: float) -> dict[str, str]:
        """The text of each file by its name, without the ending."""
        slow_ones = sorted(self.durations, key=lambda entry: -entry[0])
        shown = [entry for entry in slow_ones if entry[0] >= LEAST_DURATION]
        durations = [f"{spent:9.3f} s  {when:8}  {nodeid}" for spent, when, nodeid in shown]
        if len(shown) < len(slow_ones):
            hidden = len(slow_ones) - len(shown)
            durations.append(f"and {hidden} of less than {LEAST_DURATION:g} s each")
        counts = [f"{self.outcomes[o]} {o}" for o in OUTCOMES if self.outcomes[o]]
        if self.warnings:
            counts.append(f"{sum(self.warnings.values())} warnings")
        order = sorted(self.summary, key=lambda word: SUMMARY_ORDER.index(word))
        texts = {
            "durations": "\n".join(durations),
            "errors": "\n\n".join(
                make_titled_block(title, r.longreprtext) for title, r in self.errors
            ),
            "failures_line": "\n".join(make_failure_line(t, r) for t, r in self.failures),
            "failures_short": "\n\n".join(
                make_titled_block(t, get_failure_note(r)[1]) for t, r in self.failures
            ),
            "failures_long": "\n\n".join(
                make_titled_block(title, "\n".join([r.longreprtext, *format_sections(r)]))
                for title, r in self.failures
            ),
            "stats": f"{', '.join(counts) or 'no tests ran'} in {seconds:.2f} s",
            "summary_short": "\n".join(line for word in order for line in self.summary[word]),
            "warnings": "\n".join(
                f"{count} times: {text}" if count > 1 else text
                for text, count in self.warnings.items()
            ),
        }
        return {name: f"{texts[name].rstrip()}\n".lstrip("\n") for name in REPORT_NAMES}


OUTCOMES = ("failed", "error", "passed", "skipped", "xfailed", "xpassed")
SUMMARY_ORDER = ("FAILED", "ERROR", "XPASSED", "XFAILED", "SKIPPED", "PASSED")


def name_outcome(report: Any) -> str | None:
    """What the report of one phase of a test says about the test; None where it says nothing."""
    is_expected = hasattr(report, "wasxfail")
    if report.outcome == "skipped":
        return "xfailed" if is_expected else "skipped"
    if report.outcome == "failed":
        return "failed" if report.when == "call" else "error"
    # Plugins have outcomes of their own, such as a rerun; a part of a test is none itself.
    is_part = hasattr(report, "context")
    if report.outcome == "passed" and report.when == "call" and not is_part:
        return "xpassed" if is_expected else "passed"
    return None


def describe_outcome(outcome: str, report: Any) -> str:
    """The reason in one line; empty where a test has passed."""
    if outcome in ("failed", "error"):
        return get_failure_note(report)[2]
    if outcome in ("xfailed", "xpassed"):
        return str(report.wasxfail).removeprefix("reason: ")
    if outcome == "skipped" and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return ""


def get_failure_note(report: Any) -> list[str]:
    """What describe_error_place noted, or the like out of the report where there was no error."""
    note = getattr(report, "testing_utils_note", None)
    if note is not None:
        return list(note)
    lines = [line for line in report.longreprtext.strip().splitlines() if line.strip()]
    return ["", report.longreprtext.strip(), lines[-1] if lines else ""]


def make_failure_line(title: str, report: Any) -> str:
    """One failure in one line, as compilers write it."""
    place, _, error = get_failure_note(report)
    return f"{place or title}: {error}"


def make_titled_block(title: str, text: str) -> str:
    """A text under its title."""
    return f"{f' {title} ':_^100}\n{text.rstrip()}"


def format_sections(report: Any) -> list[str]:
    """What a test printed and logged."""
    return [f"{f' {name} ':-^100}\n{text.rstrip()}" for name, text in report.sections]


# --- the program ---


class WrongUse(Exception):
    """The command line asks for what this tool or this device cannot do; exit status 2."""


class Stopped(Exception):
    """The run ends here, by a signal or by the budget; what was measured is kept."""


class StopSign:
    """Why the run has to end, if it has to: a signal, the budget, or the parent process."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self.by_signal = False
        self.deadline: float | None = None

    def listen(self) -> None:
        """End the run on Ctrl-C, on SIGTERM, and on Slurm's early warning."""
        for name in ("SIGINT", "SIGTERM", "SIGUSR1"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), self._receive)

    def _receive(self, number: int, _frame: Any) -> None:
        self.reason = f"stopped by {signal.Signals(number).name}"
        self.by_signal = True
        # A second signal of the same kind ends a run that hangs.
        signal.signal(number, signal.SIG_DFL)

    def check(self) -> None:
        """Raise Stopped where there is a reason to end."""
        if self.reason is None and self.deadline is not None and time.monotonic() > self.deadline:
            self.reason = "the budget is used up"
        if self.reason is not None:
            raise Stopped(self.reason)


# A child, and a grandchild in a session of its own that heeds no SIGTERM and outlives its parent.
STUBBORN = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def tell():
    os.write(1, b'%d\\n' % os.getpid())
tell()
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
        tell()
        time.sleep(600)
    tell()
    os._exit(0)
time.sleep(600)
"""


def show_time_out(timeout: float) -> Row:
    """One row: whether a command that does not want to end was ended with all it had started."""
    started = time.monotonic()
    lines: list[str] = []
    try:
        command = [sys.executable, "-c", STUBBORN]
        execute_subprocess_async(command, timeout=timeout, quiet=True, grace=0.5)
    except CommandTimedOut as error:
        lines = error.output.stdout
    seconds = time.monotonic() - started
    running = set(read_process_table() or {})
    left = [pid for pid in lines if int(pid) in running]
    if len(lines) < 3:
        verdict, why = "not seen", f"{len(lines)} of 3 processes began in {timeout:g} s"
    else:
        verdict, why = ("outlived", f"left: {' '.join(left)}") if left else ("all ended", "")
    name = f"a time-out of {timeout:g} s on 3 processes that heed no SIGTERM"
    return {"name": name, "verdict": verdict, "why": why, "seconds": round(seconds, 3)}


def list_requirements(options: argparse.Namespace) -> list[tuple[str, Callable[[], str | None]]]:
    """What is to be looked at, in words, and what tells why it is not met."""
    plain = [(n, find) for n, find in REQUIREMENTS.items() if n not in NAMING]
    devices = [(f"require_torch_device('{k}')", functools.partial(find_missing_device, k))
               for k in options.devices]  # fmt: skip
    packages = [
        (f"require_package('{p}')", functools.partial(find_missing_packages, p))
        for p in options.packages
    ]
    programs = [
        (f"require_program('{p}')", functools.partial(find_missing_programs, p))
        for p in options.programs
    ]
    return [*plain, *devices, *packages, *programs, ("slow", lambda: find_missing_env("RUN_SLOW"))]


def print_report(rows: Sequence[Row]) -> bool:
    """The table to stdout; False where that was not written."""
    cells = [
        [
            row["name"],
            row["verdict"],
            row["why"],
            "" if row["seconds"] is None else f"{row['seconds']:.2f}",
        ]
        for row in rows
    ]
    table = format_table(["tests that", "verdict", "why", "seconds"], cells)
    return not cells or print_to_stdout(table)


def show_machine(
    options: argparse.Namespace, command: Sequence[str], stop: StopSign, origin: float
) -> int:
    """Print and write what tests can run here, and how a time-out ends; the exit status."""
    rows: list[Row] = []
    caveats: list[str] = []
    stopped = ""
    count: int | None = None
    try:
        for name, find in list_requirements(options):
            stop.check()
            reason = find()
            rows.append(
                {
                    "name": name,
                    "verdict": "skipped" if reason else "runs",
                    "why": reason or "",
                    "seconds": None,
                }
            )
        count = get_gpu_count()
        stop.check()
        if os.name == "posix":
            rows.append(show_time_out(options.timeout))
        stop.check()
    except Stopped as reason:
        stopped = str(reason)
        caveats.append(f"{stopped}, after {len(rows)} rows")
    last = rows[-1]["verdict"] if rows else ""
    if last == "not seen":
        caveats.append("the machine is too busy to show the time-out: try a longer --timeout")
    is_printed = print_report(rows)
    for caveat in caveats:
        write_note(caveat)
    if last == "outlived":
        print(f"problem: a process outlived the time-out, {rows[-1]['why']}", file=sys.stderr)
    if options.json:
        document = {
            **make_document_head("testing_utils", (__version__, METHOD), command, origin),
            "complete": not stopped,
            "units": UNITS,
            "results": rows,
            "caveats": caveats,
            "details": {
                "gpu_count": count,
                "platform": f"{platform.system()} {platform.machine()}",
                "python": platform.python_version(),
            },
        }
        write_document(options.json, document)
    return 1 if stopped or last == "outlived" or not is_printed else 0


def hide_folders(text: str) -> str:
    """The text with absolute paths cut down to their last part: folders name people and hosts."""
    name, equals, value = text.partition("=")
    if equals and value.startswith(("/", "~")):
        return f"{name}={Path(value).name}"
    return Path(text).name if text.startswith(("/", "~")) else text


def make_portable_command(arguments: Sequence[str]) -> list[str]:
    """The command line as another machine would type it, without absolute paths."""
    script = Path(__file__)
    with contextlib.suppress(ValueError, OSError):  # a folder that was deleted has no name
        script = script.resolve().relative_to(Path.cwd().resolve())
    name = script.name if script.is_absolute() else script.as_posix()
    return ["python", name, *(hide_folders(argument) for argument in arguments)]


def write_document(path: Path, document: Mapping[str, Any]) -> None:
    """Write the JSON whole: under another name, then moved; a pipe or a device is written to, and
    a symbolic link followed. Raises WrongUse where it cannot be."""
    text = json.dumps(document, indent=1, allow_nan=False) + "\n"
    target = path.resolve()
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if path.exists() and not path.is_file():
            path.write_text(text, encoding="utf-8")
            return
        partial.write_text(text, encoding="utf-8")
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def check_json_path(path: Path | None) -> None:
    """Raises WrongUse where --json names a folder, or a file in a folder that is not there or takes
    no files."""
    if path is None:
        return
    if path.is_dir():
        raise WrongUse(f"--json: {path} is a folder; name a file in it")
    target = path.resolve()
    if not target.parent.is_dir():
        raise WrongUse(f"--json: there is no folder {target.parent}")
    if path.exists() and not path.is_file():  # a pipe or a device, which writing shows
        return
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise WrongUse(f"--json: could not write {path}: {error.strerror}") from error


def make_document_head(
    tool: str, numbers: tuple[str, int], command: Sequence[str], origin: float
) -> dict[str, Any]:
    """The opening of the JSON: tool, version and method, command, start, and seconds until now.

    `origin` is the reading of time.monotonic() when the run began.
    """
    seconds = time.monotonic() - origin
    started = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    return {
        "tool": tool,
        "version": numbers[0],
        "method": numbers[1],
        "command": list(command),
        "started": started.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "seconds": round(seconds, 3),
    }


def print_to_stdout(text: str) -> bool:
    """Print at once; False, with a line that says so, where stdout could not be written."""
    try:
        print(text, flush=True)
    except OSError as error:
        # Python would write once more what is left, as it ends: that goes nowhere now.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        print(f"problem: stdout could not be written: {error.strerror}", file=sys.stderr)
        return False
    return True


def write_note(text: str) -> None:
    """One note for the reader, beside the table."""
    print(f"note: {text}", file=sys.stderr)


def format_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, the first column to the left and all others to the right."""
    cells = [list(headings), *(list(row) for row in rows)]
    widths = [max(3, *(len(row[i]) for row in cells)) for i in range(len(headings))]

    def join(row: Sequence[str]) -> str:
        padded = [
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [f":{'-' * (w - 1)}" if i == 0 else f"{'-' * (w - 1)}:" for i, w in enumerate(widths)]
    return "\n".join([join(cells[0]), f"| {' | '.join(rule)} |", *map(join, cells[1:])])


def parse_duration(text: str) -> float:
    """Seconds from `90`, `45s`, `10m`, `1h30m`."""
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s?)?", text.strip())
    if not text.strip() or found is None:
        raise argparse.ArgumentTypeError(f"'{text}' is no duration: write 90s, 10m or 1h30m")
    hours, minutes, seconds = (float(part or 0) for part in found.groups())
    total = 3600 * hours + 60 * minutes + seconds
    if total <= 0:
        raise argparse.ArgumentTypeError(f"'{text}': a duration has to be longer than nothing")
    return total


def run_self_test() -> int:
    """Check what needs no pytest, and torch where it is installed; 0, or 1 where a check fails."""
    checks: list[tuple[str, bool]] = []

    def check(name: str, passed: bool) -> None:
        checks.append((name, passed))
        print(f"{'ok    ' if passed else 'FAILED'} {name}", file=sys.stderr)

    check("of a line with returns the last part shows", apply_print_resets("a\rb\nc\r") == "b\nc")
    check("a package that is not here", find_missing_packages("no-such-package") is not None)
    check("2.10 is newer than 2.9", operator.gt(*align_versions("2.10", "2.9")))
    check("2.1+cpu is 2.1.0", operator.eq(*align_versions("2.1+cpu", "2.1.0")))
    shares = [choose_port_share(worker, 2, USUAL_LAST_PORT) for worker in (0, 1)]
    check("workers share the ports", [s[0] for s in shares] == [10000, 21384])
    check("no port is given twice", len({get_unique_port() for _ in range(20)}) == 20)
    with CaptureStd(replay=False) as captured:
        print("seen")
        print("also", file=sys.stderr)
    check("both streams are captured", (captured.out, captured.err) == ("seen\n", "also\n"))
    with mockenv_context(TESTING_UTILS_TRIED="yes"):
        inside = os.environ.get("TESTING_UTILS_TRIED")
    check(
        "the environment is as before",
        (inside, is_flag_set("TESTING_UTILS_TRIED")) == ("yes", False),
    )
    with tempfile.TemporaryDirectory(prefix="testing_utils_") as name:
        root = Path(name).resolve()
        write_file_tree(root, {"pyproject.toml": "", "tests/unit/test_a.py": "", "src/a.py": ""})
        paths = find_project_paths(root / "tests/unit/test_a.py")
        check(
            "the project is found",
            paths[1:] == tuple(root / n for n in ("tests", "examples", "", "src")),
        )
        folder, is_removed = make_tmp_dir(paths, root / "debug")
        check("a folder by name is kept", folder == root / "debug" and not is_removed)
        refused = 0
        for wrong in (root, root / "tests", root.parent, "/tmp"):
            with contextlib.suppress(ValueError):
                make_tmp_dir(paths, wrong)
                refused -= 1
            refused += 1
        check("no other folder is emptied", refused == 4 and (root / "src/a.py").exists())
        check(
            "read as written",
            load_json_lines(save_json_lines(root / "x/y", [1, "é\u2028"])) == [1, "é\u2028"],
        )
    with keep_random_state():
        set_seed(7)
        first = random.random()
        set_seed(7)
        check("the same seed, the same number", random.random() == first)
    if find_missing_torch() is None:
        import torch

        tensor = torch.tensor([1.0, 2.0])
        torch_assert_equal({"a": tensor}, {"a": tensor.clone()})
        torch_assert_close(tensor, tensor + 1e-7)
        differing = 0
        for other in (
            tensor + 1e-6,
            tensor.double(),
            tensor[:1],
            torch.tensor([1.0, float("nan")]),
        ):
            try:
                torch_assert_equal(tensor, other)
            except AssertionError:
                differing += 1
        check("tensors that differ are not equal", differing == 4)
    else:
        write_note("tensors are left out: torch is not installed")
    if os.name == "posix":
        row = show_time_out(2.0)
        check(f"a time-out ends all processes ({row['verdict']})", row["verdict"] == "all ended")
    failed = sum(not passed for _, passed in checks)
    print(f"self-test: {len(checks) - failed} of {len(checks)} checks passed", file=sys.stderr)
    return 1 if failed else 0


def build_parser() -> argparse.ArgumentParser:
    """The command line of this tool, for its own use and for checkers of documentation."""
    parser = argparse.ArgumentParser(
        prog="testing_utils.py",
        description="Say which tests can run here, and show that a time-out leaves nothing behind.",
        epilog="The docstring at the top of this file tells how to use it in tests.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--packages",
        nargs="+",
        default=["pytest"],
        metavar="NAME",
        help="to look for, also as 'numpy>=2' (default: pytest)",
    )
    parser.add_argument(
        "--programs", nargs="+", default=[], metavar="NAME", help="to look for (default: none)"
    )
    parser.add_argument(
        "--devices",
        nargs="+",
        default=["cpu", "cuda"],
        metavar="KIND",
        help="of torch, to look for (default: cpu cuda)",
    )
    parser.add_argument(
        "--timeout",
        type=parse_duration,
        default=2.0,
        metavar="DURATION",
        help="of the command that is shown to be ended (default: 2s)",
    )
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--self-test", action="store_true", help="check this tool, then stop")
    parser.add_argument(
        "--version", action="version", version=f"testing_utils {__version__} (method {METHOD})"
    )
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run the tool; the exit status."""
    origin = time.monotonic()
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = build_parser()
    options = parser.parse_args(arguments)
    stop = StopSign()
    try:
        if options.self_test:
            if arguments != ["--self-test"]:
                raise WrongUse("--self-test takes no other option")
            return run_self_test()
        check_json_path(options.json)
        for package in options.packages:
            try:
                find_missing_packages(package)
            except ValueError as error:
                raise WrongUse(f"--packages: {error}") from error
        stop.listen()
        return show_machine(options, make_portable_command(arguments), stop, origin)
    except WrongUse as error:
        parser.error(str(error))
    except KeyboardInterrupt:  # in a self-test: a run listens for signals itself
        print("stopped", file=sys.stderr)
        return 1


def run_to_stdout(run: Callable[[], int]) -> int:
    """What `run` returns, once all that it printed is written; where stdout takes no more, a full
    disk or a closed pipe, one line says so, and it is 1."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed, by `>&-`: then nobody wants to read it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115 - to the end
    try:
        try:
            status = run()
        except SystemExit as ended:  # --help, --version, and wrong use
            status = int(ended.code or 0)
        sys.stdout.flush()
    except OSError as error:
        kinds = (errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
        if error.filename is not None or error.errno not in kinds:
            raise
        # What still waits would be complained of again at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        print(f"stdout could not be written: {error.strerror}", file=sys.stderr)
        return 1
    return status


if __name__ == "__main__":
    sys.exit(run_to_stdout(main))
