"""testing_utils: as a pytest plugin, with xdist and without, and as the base class of unittest."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "testing/testing_utils.py"
FOLDER = (SCRIPTS / TOOL).parent

Output = Any  # what execute_subprocess_async gives

WORKERS = ["-p", "xdist", "-n", "2"]

MARKS = """
import os, sys
import pytest

@pytest.mark.require_package("pytest>=7", "pluggy")
def test_runs():
    pass

@pytest.mark.require_package("pytest<7")
def test_old(made_too_early):
    raise AssertionError

@pytest.fixture
def made_too_early():
    raise AssertionError("a fixture of a test that is skipped")

@pytest.mark.require_program("no-such-program")
class TestProgram:
    def test_one(self):
        raise AssertionError

@pytest.mark.require_env("TU_SLOW")
def test_slow():
    assert os.environ["TU_SLOW"] == "1"

@pytest.mark.require_torch_device("cuda")
def test_torch():
    pass

def test_no_torch_was_imported():
    assert "torch" not in sys.modules
"""

SEEDED = """
import random
import pytest
import torch

@pytest.mark.parametrize("n", [1, 2])
def test_a(seeded, n):
    assert seeded == 42
    with open("drawn", "a") as file:
        file.write(f"{random.random()} {torch.rand(())}\\n")

@pytest.mark.require_torch_device("hpu", "none")
def test_other_device():
    raise AssertionError

@pytest.mark.require_torch
def test_torch(gpu_count):
    assert gpu_count == torch.accelerator.device_count()
"""

DECORATORS = """
import unittest
from testing_utils import *
import testing_utils

@require_package("no-such-package")
def test_function():
    raise AssertionError

@require_package("no-such-package")
class TestPlain:
    def test_method(self):
        raise AssertionError

@require_package("no-such-package")
class TestCase(unittest.TestCase):
    def test_method(self):
        raise AssertionError

class TestMethods(TestCasePlus):
    @require_program("no-such-program")
    def test_skipped(self):
        raise AssertionError

    @slow
    def test_slow(self):
        raise AssertionError

    @require_package("pytest")
    @mockenv(TU_NAME="value")
    def test_runs(self):
        import os
        assert os.environ["TU_NAME"] == "value"
"""

PATHS = """
import os
from pathlib import Path
from testing_utils import TestCasePlus

class PathsTest(TestCasePlus):
    def setUp(self):
        pass  # without super().setUp()

    def test_paths(self):
        root = Path(os.environ["TU_ROOT"])
        assert self.test_file_path == root / "tests/unit/test_paths.py"
        assert self.test_file_dir == root / "tests/unit"
        assert self.tests_dir == root / "tests"
        assert self.examples_dir == root / "examples"
        assert self.repo_root_dir == root
        assert self.src_dir == root / "src"
        names = "test_file_path test_file_dir tests_dir examples_dir repo_root_dir src_dir"
        for name in names.split():
            assert getattr(self, f"{name}_str") == str(getattr(self, name))

    def test_environment(self):
        environ = self.get_env()
        parts = environ["PYTHONPATH"].split(os.pathsep)
        assert parts[:2] == [self.tests_dir_str, self.src_dir_str]
        assert parts[2:] == os.environ["PYTHONPATH"].split(os.pathsep)
        environ["TU_NEW"] = "1"
        assert "TU_NEW" not in os.environ

    def test_folders(self):
        folder = self.get_auto_remove_tmp_dir()
        (folder / "sub").mkdir()
        (folder / "sub/file").write_text("x")
        (folder / "sub").chmod(0o500)
        kept = self.get_auto_remove_tmp_dir(after=False)
        Path(os.environ["TU_LOG"]).write_text(f"{folder}\\n{kept}")

    def test_folder_of_a_failing_test(self):
        folder = self.get_auto_remove_tmp_dir("./failed", after=True)
        (folder / "file").write_text("x")
        raise AssertionError("on purpose")

    def test_named_folder(self):
        assert list(self.get_auto_remove_tmp_dir("./debug").iterdir()) == []
        names = [p.name for p in self.get_auto_remove_tmp_dir("./more", before=False).iterdir()]
        assert names == ["old"]
        (self.repo_root_dir / "debug/new").write_text("x")
"""

REPORTS = """
import warnings
import pytest

def help_it():
    raise ValueError("deep\\nsecond line")

def test_passes():
    warnings.warn("be warned", UserWarning)

def test_fails():
    print("printed by the test")
    help_it()

@pytest.fixture
def broken():
    raise OSError("no setup")

def test_setup(broken):
    pass

@pytest.mark.skip(reason="not now")
def test_skipped():
    pass

@pytest.mark.xfail(reason="known")
def test_known():
    assert 0

@pytest.mark.xfail(reason="was known")
def test_known_no_more():
    pass

@pytest.mark.xfail(strict=True, reason="strictly")
def test_strict():
    pass
"""

REPORT_FILES = [
    "durations.txt",
    "errors.txt",
    "failures_line.txt",
    "failures_long.txt",
    "failures_short.txt",
    "stats.txt",
    "summary_short.txt",
    "warnings.txt",
]


@pytest.fixture(scope="module")
def utils(load_tool: Callable[[str], Any]) -> Any:
    """The tool as a module."""
    return load_tool(TOOL)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The folder of an empty project."""
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\naddopts = --strict-markers -p no:cacheprovider\n"
    )
    return tmp_path


@pytest.fixture
def run_python(utils: Any, project: Path) -> Callable[..., Output]:
    """Runs a module of Python in the project, by the tool's own hand."""

    def run(*words: str, environ: dict[str, str] | None = None) -> Output:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "RUN_SLOW"))}
        clean |= {"PYTHONPATH": str(FOLDER), "PYTHONDONTWRITEBYTECODE": "1"}
        clean |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **(environ or {})}
        return utils.execute_subprocess_async(
            [sys.executable, "-m", *words], env=clean, timeout=300, check=False, cwd=project
        )

    return run


def read_outcomes(lines: list[str]) -> dict[str, int]:
    """The counts of pytest's last line."""
    return {word.rstrip("s"): int(n) for n, word in re.findall(r"(\d+) ([a-z]+)", lines[-1])}


# --- what a test requires ---


def test_marks_skip_what_cannot_run(run_python: Callable[..., Output], project: Path) -> None:
    """A mark skips a test before its fixtures are made, with the reason; the others run."""
    (project / "test_marks.py").write_text(MARKS)
    chosen = ["-k", "not test_torch"]
    done = run_python("pytest", "-q", "-rs", "-p", "testing_utils", *chosen)
    assert "1 deselected" in done.stdout[-1]
    assert done.returncode == 0, done.stdout
    assert read_outcomes(done.stdout) == {"passed": 2, "skipped": 3, "deselected": 1}
    text = "\n".join(done.stdout)
    assert "needs pytest<7, " in text
    assert "needs the program no-such-program, which is not installed" in text
    assert "runs only with TU_SLOW=1" in text
    more = run_python("pytest", "-q", "-p", "testing_utils", *chosen, environ={"TU_SLOW": "1"})
    assert "3 passed" in more.stdout[-1]


def test_marks_work_under_xdist(run_python: Callable[..., Output], project: Path) -> None:
    """Workers skip and run the same tests."""
    pytest.importorskip("xdist")
    (project / "test_marks.py").write_text(MARKS)
    done = run_python("pytest", "-q", *WORKERS, "-p", "testing_utils", "-k", "not test_torch")
    assert done.returncode == 0, done.stdout
    assert "2 passed, 3 skipped" in done.stdout[-1]


def test_plugin_named_in_conftest(run_python: Callable[..., Output], project: Path) -> None:
    """pytest_plugins in the conftest.py of the root is as good as -p."""
    (project / "conftest.py").write_text("pytest_plugins = ['testing_utils']\n")
    (project / "test_port.py").write_text("def test_port(unique_port):\n    assert unique_port\n")
    done = run_python("pytest", "-q", "--make-reports", "a")
    assert done.returncode == 0, done.stdout
    assert (project / "reports/a/stats.txt").read_text().startswith("1 passed in ")


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ("require_package", "write what it requires in brackets"),
        ("require_package('a b')", "'a b' is no package"),
        ("require_torch('cuda')", "takes 0 positional arguments"),
    ],
)
def test_wrong_mark_is_one_line(
    run_python: Callable[..., Output], project: Path, mark: str, words: str
) -> None:
    """A mark that cannot be understood ends the run, with the test's name and what to write."""
    (project / "test_a.py").write_text(
        f"import pytest\n@pytest.mark.{mark}\ndef test_a():\n    pass\n"
    )
    done = run_python("pytest", "-q", "-p", "testing_utils")
    assert done.returncode == 4
    (line,) = [line for line in done.stderr if line]
    assert "test_a.py::test_a" in line
    assert words in line


def test_marks_are_listed(run_python: Callable[..., Output], utils: Any) -> None:
    """pytest --markers names each mark, and --fixtures each fixture with its words."""
    done = run_python("pytest", "--markers", "-p", "testing_utils")
    for name in utils.REQUIREMENTS:
        assert any(line.startswith(f"@pytest.mark.{name}") for line in done.stdout), name
    done = run_python("pytest", "--fixtures", "-p", "testing_utils")
    text = "\n".join(done.stdout)
    for name in (
        "auto_remove_tmp_dir unique_port seeded subprocess_env run_subprocess test_paths gpu_count"
    ).split():
        assert re.search(rf"^{name} -- .*\n    \w", text, re.MULTILINE), name


def test_decorators_under_pytest(run_python: Callable[..., Output], project: Path) -> None:
    """Decorators skip functions, methods, plain classes and those of unittest under pytest."""
    (project / "test_decorators.py").write_text(DECORATORS)
    done = run_python("pytest", "-q")
    assert done.returncode == 0, done.stdout
    assert "1 passed, 5 skipped" in done.stdout[-1]


def test_decorators_under_unittest(run_python: Callable[..., Output], project: Path) -> None:
    """The same decorators skip the same tests under unittest, which runs no plain ones."""
    (project / "test_decorators.py").write_text(DECORATORS)
    done = run_python("unittest", "-v", "test_decorators")
    assert done.returncode == 0, done.stderr
    assert done.stderr[-1] == "OK (skipped=3)"
    assert "Ran 4 tests" in done.stderr[-3]


def test_skip_without_importing_pytest(run_python: Callable[..., Output], project: Path) -> None:
    """The base class and the decorators need no pytest, and import none."""
    text = "import sys\nfrom testing_utils import *\nassert 'pytest' not in sys.modules\n"
    text += "assert 'torch' not in sys.modules\nassert 'numpy' not in sys.modules\n"
    (project / "alone.py").write_text(text)
    done = run_python("alone")
    assert done.returncode == 0, done.stderr


def test_brackets_are_asked_for(utils: Any) -> None:
    """A decorator that has forgotten its brackets says so, instead of dropping the test."""
    with pytest.raises(TypeError, match="in brackets"):
        utils.require_package(lambda: None)
    with pytest.raises(TypeError, match="in brackets"):
        utils.require_program()


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("require_torch", [0, 1, 2, 3]),
        ("require_torch_gpu", [1, 2, 3]),
        ("require_torch_multi_gpu", [2, 3]),
        ("require_torch_non_multi_gpu", [0, 1]),
        ("require_torch_up_to_2_gpus", [0, 1, 2]),
    ],
)
def test_requirements_by_count(
    utils: Any, monkeypatch: pytest.MonkeyPatch, name: str, counts: list[int]
) -> None:
    """Each requirement is met by the counts of GPUs that its name says."""
    met = []
    for count in range(4):
        # No machine has all of these counts.
        monkeypatch.setattr(utils, "get_gpu_count", lambda count=count: count)
        if utils.REQUIREMENTS[name]() is None:
            met.append(count)
    assert met == counts


@pytest.mark.torch
def test_gpu_count_is_that_of_torch(utils: Any) -> None:
    """The count and the kind of the device are those that torch itself tells."""
    import torch

    assert utils.get_gpu_count() == torch.accelerator.device_count()
    accelerator = torch.accelerator.current_accelerator()
    here = accelerator.type if accelerator and utils.get_gpu_count() else "cpu"
    assert utils.get_torch_device() == here


def test_no_torch_means_no_gpu(run_python: Callable[..., Output], project: Path) -> None:
    """Without torch there are 0 GPUs, and a test for torch says what is missing."""
    text = "import sys, importlib.util as u\nfind = u.find_spec\n"
    text += "u.find_spec = lambda n, *a: None if n == 'torch' else find(n, *a)\n"
    text += "import testing_utils as t\nprint(t.get_gpu_count(), t.find_missing_gpus(1))\n"
    (project / "bare.py").write_text(text)
    done = run_python("bare")
    assert done.stdout == ["0 needs torch, which is not installed"]


releases = st.lists(st.integers(0, 30), min_size=1, max_size=4).map(
    lambda parts: ".".join(map(str, parts))
)


@given(releases, releases)
def test_versions_compare_as_packages_do(utils: Any, left: str, right: str) -> None:
    """Release numbers compare as the packaging library compares them."""
    packaging = pytest.importorskip("packaging.version")
    numbers = utils.align_versions(left, right)
    for sign, compare in utils.COMPARISONS.items():
        wanted = compare(packaging.Version(left), packaging.Version(right))
        assert compare(*numbers) == wanted, sign


def test_package_limits(utils: Any) -> None:
    """All limits of a package count, and a module counts under its own name."""
    assert utils.find_missing_packages("pytest>=7,<1000", "pytest != 3") is None
    assert utils.find_missing_packages("_pytest>=7") is None
    assert "is here" in utils.find_missing_packages("pytest>=7,<8.0")
    assert "not installed" in utils.find_missing_packages("pytest", "no.such.module")
    assert utils.find_missing_packages("json") is None
    assert "not known" in utils.find_missing_packages("json>=2")
    with pytest.raises(ValueError, match="is no package"):
        utils.find_missing_packages("pytest>>3")


# --- seeds and tensors ---


@pytest.mark.torch
def test_same_seed_same_numbers(utils: Any) -> None:
    """One seed gives the same numbers of random, NumPy and torch; afterwards all go on."""
    import random

    import numpy as np
    import torch

    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    with utils.keep_random_state():
        assert utils.set_seed(3) == 3
        first = draw()
        follows = draw()
        utils.set_seed(3)
        assert draw() == first
        utils.set_seed(4)
        assert not set(draw()) & set(first)
        utils.set_seed(3)
        draw()
        with utils.keep_random_state():
            utils.set_seed(2**40)
            draw()
        assert draw() == follows


@pytest.mark.torch
def test_plugin_with_torch(run_python: Callable[..., Output], project: Path, utils: Any) -> None:
    """Tests with the fixture `seeded` draw the same numbers, in any order; and a test for another
    device than the one here is skipped, with both named."""
    (project / "test_a.py").write_text(SEEDED)
    done = run_python("pytest", "-q", "-rs", "-p", "testing_utils")
    assert "3 passed, 1 skipped" in done.stdout[-1]
    here = utils.get_torch_device()
    assert any(f"needs hpu or none, the device is {here}" in line for line in done.stdout)
    lines = (project / "drawn").read_text().splitlines()
    assert len(lines) == 2
    assert lines[0] == lines[1]


@pytest.mark.torch
def test_deterministic_is_torchs(utils: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """deterministic=True asks torch for algorithms that repeat themselves."""
    import torch

    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with utils.keep_random_state():
        try:
            utils.set_seed(1, deterministic=True)
            assert torch.are_deterministic_algorithms_enabled()
            assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
        finally:
            torch.use_deterministic_algorithms(False)
            monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)


@pytest.mark.torch
def test_tensor_asserts(utils: Any) -> None:
    """Equal means the same bits, shape and dtype; close means within the tolerances."""
    import torch

    tensor = torch.tensor([1.0, 2.0, float("nan")])
    utils.torch_assert_equal({"a": [tensor]}, {"a": [tensor.clone()]}, equal_nan=True)
    with pytest.raises(AssertionError):
        utils.torch_assert_equal(tensor, tensor)
    one = torch.ones(3)
    utils.torch_assert_close(one, one + 1e-6)
    utils.torch_assert_close(one, one + 0.1, rtol=0.2, atol=0.0)
    for other in (one + 1e-6, one.double(), one[:2], one.reshape(1, 3), one + 1):
        with pytest.raises(AssertionError):
            utils.torch_assert_equal(one, other)
    with pytest.raises(AssertionError):
        utils.torch_assert_close(one, one + 0.1)


# --- captures ---


def test_returns_of_a_progress_bar(utils: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """What is captured is what the terminal shows in the end, and all of it is repeated."""
    with utils.CaptureStdout() as captured:
        print("Secret message\rHello World")
        assert captured.out == "Hello World\n"
        print("50%\r100%\r", end="")
    assert captured.out == "Hello World\n100%"
    assert capsys.readouterr().out == "Secret message\rHello World\n50%\r100%\r"


@given(st.text(alphabet="ab\r\n"))
def test_no_return_is_left(utils: Any, text: str) -> None:
    """No carriage return is left, and lines stay lines."""
    shown = utils.apply_print_resets(text)
    assert "\r" not in shown
    assert shown.count("\n") == text.count("\n")
    assert utils.apply_print_resets(shown) == shown


def test_streams_are_given_back(utils: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Captures nest, keep what was written before an error, and give the streams back."""
    before = sys.stdout, sys.stderr
    outer = utils.CaptureStd()
    with contextlib.suppress(ValueError), outer:
        print("one")
        print("err", file=sys.stderr)
        with utils.CaptureStderr(replay=False) as inner:
            print("two")
            print("hidden", file=sys.stderr)
        raise ValueError
    assert (sys.stdout, sys.stderr) == before
    assert (outer.out, outer.err) == ("one\ntwo\n", "err\n")
    assert inner.err == "hidden\n"
    with pytest.raises(AttributeError, match="stdout is not captured"):
        _ = inner.out
    assert capsys.readouterr() == ("one\ntwo\n", "err\n")


def test_logger_is_captured(utils: Any) -> None:
    """Messages of the logger and of those below it are captured, with a level for as long."""
    logger = logging.getLogger("tu.above")
    below = logging.getLogger("tu.above.below")
    with utils.CaptureLogger(logger, level="INFO") as captured:
        logger.info("Testing %d", 1)
        below.warning("2")
        logger.debug("not this")
    logger.warning("after")
    assert captured.out == "Testing 1\n2\n"
    assert logger.level == logging.NOTSET
    assert logger.handlers == []


def test_sys_path_is_given_back(utils: Any, tmp_path: Path) -> None:
    """A module of the folder can be imported inside the block, first of its name."""
    (tmp_path / "tu_only_here.py").write_text("VALUE = 5\n")
    before = list(sys.path)
    with utils.ExtendSysPath(tmp_path / "x" / ".."):
        import tu_only_here  # type: ignore[import-not-found]
    assert tu_only_here.VALUE == 5
    assert sys.path == before


def test_environment_is_given_back(utils: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables are set and removed for the block alone, also where it fails."""
    monkeypatch.setenv("TU_OLD", "old")
    monkeypatch.delenv("TU_NEW", raising=False)
    before = dict(os.environ)

    @utils.mockenv(TU_NEW="new")
    def read() -> str:
        os.environ["TU_INSIDE"] = "1"
        return os.environ["TU_NEW"]

    assert read() == "new"
    assert dict(os.environ) == before
    with contextlib.suppress(ValueError), utils.mockenv_context("TU_OLD", "TU_NONE", TU_NEW="1"):
        assert "TU_OLD" not in os.environ
        assert os.environ["TU_NEW"] == "1"
        raise ValueError
    assert dict(os.environ) == before


# --- paths and folders ---


@pytest.mark.parametrize("runner", ["pytest", "unittest"])
def test_base_class(
    utils: Any, run_python: Callable[..., Output], project: Path, runner: str
) -> None:
    """Paths, environment and folders of TestCasePlus, under pytest and under unittest."""
    utils.write_file_tree(
        project,
        {"tests/unit/test_paths.py": PATHS, "src/a.py": "", "debug/old": "", "more/old": ""},
    )
    words = (
        ["pytest", "-q", "tests"] if runner == "pytest" else ["unittest", "discover", "tests/unit"]
    )
    log = project / "log"
    environ = {"TU_ROOT": str(project), "TU_LOG": str(log), "PYTHONPATH": str(FOLDER)}
    done = run_python(*words, environ=environ)
    text = "\n".join([*done.stdout, *done.stderr])
    assert "on purpose" in text
    assert "1 failed, 4 passed" in text or "FAILED (failures=1)" in text
    removed, kept = map(Path, log.read_text().split())
    assert not removed.exists()
    assert kept.is_dir()
    kept.rmdir()
    assert not (project / "failed").exists()
    assert utils.read_file_tree(project / "debug") == {"new": b"x"}
    assert utils.read_file_tree(project / "more") == {"old": b""}


def test_folder_fixture(run_python: Callable[..., Output], project: Path) -> None:
    """The fixture makes the same folders for plain tests, and removes them also on failure."""
    text = "def test_a(auto_remove_tmp_dir, subprocess_env, test_paths):\n"
    text += "    folder = auto_remove_tmp_dir()\n    (folder / 'x').write_text('x')\n"
    text += "    open('log', 'w').write(str(folder))\n    auto_remove_tmp_dir('./kept')\n"
    text += "    assert str(test_paths.root) in subprocess_env['PYTHONPATH']\n    assert 0\n"
    (project / "test_a.py").write_text(text)
    done = run_python("pytest", "-q", "-p", "testing_utils")
    assert "1 failed" in done.stdout[-1]
    assert "assert 0" in "\n".join(done.stdout)
    assert not Path((project / "log").read_text()).exists()
    assert (project / "kept").is_dir()


@pytest.mark.needs("git")
def test_no_folder_but_a_tests_own_is_emptied(
    utils: Any,
    project: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What lies outside the project, holds the test, sources or examples, or git knows is refused
    whole; also where git does not want to say, or is not there."""
    outside = tmp_path_factory.mktemp("outside")
    utils.write_file_tree(outside, {"file": "x"})
    tree = {"tests/test_a.py": "", "src/a.py": "", "data/sub/known": "x", "examples/b.py": ""}
    utils.write_file_tree(project, tree)
    git = ["git", "-C", str(project)]
    for words in (["init", "-q"], ["add", "data"]):
        subprocess.run([*git, *words], check=True, timeout=60)
    (project / "link").symlink_to(project / "data")
    (project / "away").symlink_to(outside)
    before = utils.read_file_tree(project), utils.read_file_tree(outside)
    paths = utils.find_project_paths(project / "tests/test_a.py")
    for name in ("", "tests", "src", "data", "data/sub", ".git", ".git/hooks", "link", "away",
                 "pytest.ini", "..", "away/sub", "examples"):  # fmt: skip
        with pytest.raises(ValueError, match=r"name a|name one"):
            utils.make_tmp_dir(paths, project / name)
    for wrong in (outside, "/", "~"):
        with pytest.raises(ValueError, match="name a"):
            utils.make_tmp_dir(paths, wrong)
    with pytest.raises(ValueError, match="holds files that git knows"):
        utils.make_tmp_dir(paths, project / "data", before=False, after=True)
    assert (utils.read_file_tree(project), utils.read_file_tree(outside)) == before
    own = subprocess.run([*git, "status"], capture_output=True, timeout=60, check=False)
    assert own.returncode == 0
    with monkeypatch.context() as patch:  # a machine without git
        patch.setenv("PATH", str(outside))
        with pytest.raises(ValueError, match="or may know"):
            utils.make_tmp_dir(paths, project / "data")
    if os.geteuid() == 0:  # a repository of somebody else, as in a container
        for path in [project, *project.rglob("*")]:
            os.chown(path, 12345, 12345, follow_symlinks=False)
        refusal = subprocess.run([*git, "ls-files"], capture_output=True, timeout=60, check=False)
        assert b"dubious ownership" in refusal.stderr
        with pytest.raises(ValueError, match="holds files that git knows"):
            utils.make_tmp_dir(paths, project / "data")
        (project / "debug").mkdir()
        assert utils.make_tmp_dir(paths, project / "debug") == (project / "debug", False)
        (project / "debug").rmdir()
    assert (utils.read_file_tree(project), utils.read_file_tree(outside)) == before
    # Not emptied and not removed: then it may be anybody's.
    assert utils.make_tmp_dir(paths, project / "data", before=False) == (project / "data", False)


def test_files_are_read_as_written(utils: Any, tmp_path: Path) -> None:
    """What the file helpers write they read, with all folders on the way."""
    values = [{"a": [1, None, "é"]}, "\u2028", 1.5]
    assert utils.load_json_lines(utils.save_json_lines(tmp_path / "a/b.jsonl", values)) == values
    assert utils.load_json(utils.save_json(tmp_path / "c/d.json", values)) == values
    files = {"x/y": b"\x00\xff", "z": "é".encode()}
    utils.write_file_tree(tmp_path / "tree", {"x/y": b"\x00\xff", "z": "é"})
    assert utils.read_file_tree(tmp_path / "tree") == files


# --- ports ---


def test_ports_of_workers_differ(run_python: Callable[..., Output], project: Path) -> None:
    """No two tests of a run under xdist are given the same port, and each can be bound."""
    pytest.importorskip("xdist")
    text = "import os, socket, pytest\n"
    text += "@pytest.mark.parametrize('n', range(30))\ndef test_port(unique_port, n):\n"
    text += "    with socket.socket() as s:\n        s.bind(('127.0.0.1', unique_port))\n"
    text += "    worker = os.environ['PYTEST_XDIST_WORKER']\n"
    text += "    open(f'ports-{worker}', 'a').write(f'{unique_port}\\n')\n"
    (project / "test_port.py").write_text(text)
    done = run_python("pytest", "-q", *WORKERS, "-p", "testing_utils")
    assert "30 passed" in done.stdout[-1], done.stdout
    files = sorted(project.glob("ports-*"))
    assert len(files) == 2
    ports = [int(port) for path in files for port in path.read_text().split()]
    assert len(ports) == len(set(ports)) == 30


def test_taken_port_is_passed_over(utils: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that somebody listens on is not given."""
    import socket

    first, second = utils.get_unique_port(), utils.get_unique_port()
    ports = range(min(first, second), min(first, second) + 1)
    monkeypatch.setattr(utils, "choose_port_share", lambda *_: ports)
    assert utils.get_unique_port() == ports[0]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", ports[0]))
        taken.listen()
        with pytest.raises(RuntimeError, match="no port is free"):
            utils.get_unique_port()


@given(st.integers(1, 300), st.integers(12000, 65535))
def test_shares_of_ports_are_apart(utils: Any, count: int, last: int) -> None:
    """The ports of all workers are apart, within the limits, and none has none."""
    shares = [utils.choose_port_share(worker, count, last) for worker in range(count)]
    ports = [port for share in shares for port in share]
    assert all(shares)
    assert len(ports) == len(set(ports))
    assert min(ports) == 10000
    assert max(ports) <= last


# --- processes ---

# Prints the numbers of three processes, none of which heeds SIGTERM: itself, a child whose parent
# has died, and one in a session of its own with an environment that no longer names the tree.
STUBBORN = """
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
TELL = "import os; os.write(1, b'%d\\\\n' % os.getpid());"
exec(TELL)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        exec(TELL)
        time.sleep(600)
    os._exit(0)
if os.fork() == 0:
    os.setsid()
    os.execve(sys.executable, [sys.executable, '-c', TELL + 'import time; time.sleep(600)'], {})
time.sleep(0.8)
os.write(1, b'no end of line')
time.sleep(SECONDS)
"""


@pytest.fixture
def written_pids() -> Iterator[list[int]]:
    """Numbers of processes that a test has seen start; any that are left are ended."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        if is_alive(pid):
            os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    """Whether a process runs, and is no zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return text.rpartition(")")[2].split()[0] not in "ZX"


def read_pids(lines: list[str]) -> list[int]:
    """The numbers among the lines."""
    return [int(found) for line in lines for found in re.findall(r"\d+", line)]


def test_time_out_ends_the_tree(
    utils: Any, written_pids: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    """The time-out ends children and grandchildren that ignore SIGTERM, left the session, lost
    their parent or their environment; what they wrote is kept and was repeated."""
    command = [sys.executable, "-c", STUBBORN.replace("SECONDS", "600")]
    with pytest.raises(utils.CommandTimedOut, match="did not end within 4 s; all it") as caught:
        utils.execute_subprocess_async(command, timeout=4, grace=0.5)
    written_pids += read_pids(caught.value.output.stdout)
    assert len(written_pids) == 3
    assert not [pid for pid in written_pids if is_alive(pid)]
    assert any(line.endswith("no end of line") for line in caught.value.output.stdout)
    assert caught.value.output.returncode == -signal.SIGKILL
    assert f"stdout: {written_pids[0]}" in capsys.readouterr().out


def test_leftovers_are_ended(utils: Any, written_pids: list[int]) -> None:
    """What a command leaves running when it ends well is ended, and does not hold up the test."""
    command = [sys.executable, "-c", STUBBORN.replace("SECONDS", "1")]
    done = utils.execute_subprocess_async(command, timeout=60, quiet=True, grace=0.3)
    written_pids += read_pids(done.stdout)
    assert done.returncode == 0
    assert done.left == 2
    assert len(written_pids) == 3
    assert not [pid for pid in written_pids if is_alive(pid)]


def test_command_that_heeds_the_signal_may_tidy_up(utils: Any, tmp_path: Path) -> None:
    """SIGTERM comes first, so that a command can tidy up within the grace."""
    mark = tmp_path / "tidy"
    text = "import pathlib, signal, sys, time\n"
    text += f"def tidy(*_):\n    pathlib.Path({str(mark)!r}).touch()\n    sys.exit(0)\n"
    text += "signal.signal(signal.SIGTERM, tidy)\nprint('up', flush=True)\ntime.sleep(600)\n"
    with pytest.raises(utils.CommandTimedOut):
        utils.execute_subprocess_async([sys.executable, "-c", text], timeout=4, grace=60)
    assert mark.exists()


def test_interrupt_ends_the_tree(utils: Any, project: Path, written_pids: list[int]) -> None:
    """Ctrl-C in the test ends what it has started."""
    text = "import sys, testing_utils as t\n"
    text += f"words = [sys.executable, '-c', {STUBBORN!r}.replace('SECONDS', '600')]\n"
    text += "t.execute_subprocess_async(words, grace=0.3)\n"
    (project / "run.py").write_text(text)
    process = subprocess.Popen(
        [sys.executable, "run.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(FOLDER)},
    )
    assert process.stdout is not None
    while len(written_pids) < 3:
        line = process.stdout.readline()
        assert line, "it ended too early"
        if line.startswith("stdout:"):
            written_pids += read_pids([line])
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT
    assert not [pid for pid in written_pids if is_alive(pid)]


def test_tree_within_a_tree(utils: Any, project: Path, written_pids: list[int]) -> None:
    """The outer time-out ends what an inner call has started, in whatever session."""
    text = "import sys, testing_utils as t\n"
    text += f"words = [sys.executable, '-c', {STUBBORN!r}.replace('SECONDS', '600')]\n"
    text += "t.execute_subprocess_async(words)\n"
    (project / "run.py").write_text(text)
    environ = {**os.environ, "PYTHONPATH": str(FOLDER)}
    with pytest.raises(utils.CommandTimedOut) as caught:
        utils.execute_subprocess_async(
            [sys.executable, "run.py"], timeout=3, grace=0.2, cwd=project, env=environ
        )
    lines = [line for line in caught.value.output.stdout if line.startswith("stdout:")]
    written_pids += read_pids(lines)
    assert len(written_pids) == 3
    assert not [pid for pid in written_pids if is_alive(pid)]


def test_lines_come_at_once(utils: Any, project: Path) -> None:
    """A line is repeated when it is written, not when the command has ended."""
    inner = "import os, time\nprint('first', flush=True)\n"
    inner += "while not os.path.exists('read'): time.sleep(0.05)\nprint('last')\n"
    text = "import sys, testing_utils as t\n"
    text += f"t.execute_subprocess_async([sys.executable, '-c', {inner!r}], echo=False)\n"
    (project / "run.py").write_text(text)
    process = subprocess.Popen(
        [sys.executable, "run.py"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(FOLDER)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "stdout: first\n"
    (project / "read").touch()
    assert process.stdout.readline() == "stdout: last\n"
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_failure_is_raised_with_its_words(
    utils: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A status that is not 0 is raised with the last lines; check=False gives it instead."""
    text = "import sys; sys.stderr.write('why\\n'); print(sys.stdin.read() or 'empty'); sys.exit(3)"
    command = [sys.executable, "-c", text]
    with pytest.raises(RuntimeError, match=r"ended with status 3\n    why") as caught:
        utils.execute_subprocess_async(command)
    assert caught.value.output == (3, ["empty"], ["why"], 0)
    assert "Running: " in capsys.readouterr().out
    done = utils.execute_subprocess_async(command, check=False, quiet=True)
    assert done == (3, ["empty"], ["why"], 0)
    assert capsys.readouterr() == ("", "")
    killed = [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"]
    with pytest.raises(utils.CommandFailed, match="ended with SIGKILL"):
        utils.execute_subprocess_async(killed, cwd=tmp_path, quiet=True)
    with pytest.raises(FileNotFoundError):
        utils.execute_subprocess_async([str(tmp_path / "none")], quiet=True)
    with pytest.raises(TypeError, match="list of words"):
        utils.execute_subprocess_async("ls -l")


def test_long_output_is_whole(utils: Any) -> None:
    """Much output on both streams at once neither blocks nor is lost, whatever its bytes."""
    text = "import sys\nfor i in range(20000):\n    print(i)\n    print(-i, file=sys.stderr)\n"
    text += "sys.stdout.flush(); sys.stdout.buffer.write(b'\\xff\\n')"
    done = utils.execute_subprocess_async([sys.executable, "-c", text], quiet=True)
    assert done.stdout == [*map(str, range(20000)), "\ufffd"]
    assert done.stderr == [str(-i) for i in range(20000)]


def test_closed_streams_are_not_the_end(utils: Any) -> None:
    """A command that closes its streams is waited for, and ended in time as any other."""
    text = "import os, time; os.close(1); os.close(2); time.sleep({})"
    done = utils.execute_subprocess_async(
        [sys.executable, "-c", text.format(0.5) + "; os._exit(4)"], check=False
    )
    assert done.returncode == 4
    with pytest.raises(utils.CommandTimedOut):
        utils.execute_subprocess_async([sys.executable, "-c", text.format(600)], timeout=1)


def test_run_subprocess_fixture(run_python: Callable[..., Output], project: Path) -> None:
    """The fixture runs commands that import from the project under test."""
    (project / "src").mkdir()
    (project / "src/tu_source.py").write_text("print('imported')\n")
    text = "import sys\ndef test_a(run_subprocess):\n"
    text += (
        "    assert run_subprocess([sys.executable, '-m', 'tu_source']).stdout == ['imported']\n"
    )
    (project / "test_a.py").write_text(text)
    done = run_python("pytest", "-q", "-p", "testing_utils")
    assert "1 passed" in done.stdout[-1], done.stdout


# --- reports ---


@pytest.mark.parametrize("workers", [[], WORKERS], ids=["alone", "xdist"])
def test_reports(run_python: Callable[..., Output], project: Path, workers: list[str]) -> None:
    """--make-reports writes its files, the same ones with workers and without."""
    if workers:
        pytest.importorskip("xdist")
    (project / "test_a.py").write_text(REPORTS)
    (project / "test_broken.py").write_text("import no_such_module\n")
    done = run_python(
        "pytest", "-q", *workers, "-p", "testing_utils", "--continue-on-collection-errors",
        "--make-reports=mine",
    )  # fmt: skip
    assert done.returncode == 1, done.stdout
    folder = project / "reports/mine"
    assert sorted(path.name for path in folder.iterdir()) == REPORT_FILES
    texts = {path.stem: path.read_text() for path in folder.iterdir()}
    stats = texts["stats"].partition(" in ")[0]
    assert stats == "2 failed, 2 error, 1 passed, 1 skipped, 1 xfailed, 1 xpassed, 1 warnings"
    assert sorted(texts["failures_line"].splitlines()) == [
        "test_a.py:6: ValueError: deep",
        "test_a.py::test_strict: [XPASS(strict)] strictly",
    ]
    short = texts["failures_short"]
    assert "test_a.py:6: in help_it\n>   raise ValueError(" in short
    assert "E   ValueError: deep\nE   second line" in short
    assert "def test_fails" not in short
    long = texts["failures_long"]
    assert "def test_fails" in long
    assert "printed by the test" in long
    assert "OSError: no setup" in texts["errors"]
    assert "no_such_module" in texts["errors"]
    summary = sorted(texts["summary_short"].splitlines())
    missing = "ModuleNotFoundError: No module named 'no_such_module'"
    assert summary == [
        f"ERROR collection of test_broken.py - {missing}",
        "ERROR setup of test_a.py::test_setup - OSError: no setup",
        "FAILED test_a.py::test_fails - ValueError: deep",
        "FAILED test_a.py::test_strict - [XPASS(strict)] strictly",
        "PASSED test_a.py::test_passes",
        "SKIPPED test_a.py::test_skipped - not now",
        "XFAILED test_a.py::test_known - known",
        "XPASSED test_a.py::test_known_no_more - was known",
    ]
    assert "UserWarning: be warned" in texts["warnings"]
    assert "test_a.py::test_passes" in texts["warnings"]
    assert re.search(r"^and \d+ of less than 0.005 s each$", texts["durations"], re.MULTILINE)


def test_reports_of_a_run_that_is_cut(run_python: Callable[..., Output], project: Path) -> None:
    """Ctrl-C in a test leaves the reports of those before it."""
    text = "def test_a():\n    pass\ndef test_b():\n    raise KeyboardInterrupt\n"
    (project / "test_a.py").write_text(text)
    done = run_python("pytest", "-q", "-p", "testing_utils", "--make-reports=cut")
    assert done.returncode == 2
    assert (project / "reports/cut/stats.txt").read_text().startswith("1 passed in ")


@pytest.mark.parametrize("name", ["", "../x", "a/b", "..", ".git", "a b"])
def test_reports_stay_in_their_folder(
    run_python: Callable[..., Output], project: Path, name: str
) -> None:
    """A name that leads out of the folder of reports is refused in one line."""
    done = run_python("pytest", "-q", "-p", "testing_utils", f"--make-reports={name}")
    assert done.returncode == 4
    assert "is no name of a folder" in "\n".join(done.stderr)
    assert not (project / "reports").exists()


# --- the program ---


def test_program_says_what_can_run(
    run_tool: Callable[..., Any], read_json: Callable[[Path], Any], tmp_path: Path
) -> None:
    """The table and the JSON say what runs here, what does not and why."""
    path = tmp_path / "out.json"
    done = run_tool(
        TOOL, "--packages", "pytest", "nope>=2", "--programs", "sh", "nope", "--devices", "cpu",
        "--timeout", "1.5s", "--json", str(path),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = {row["name"]: (row["verdict"], row["why"]) for row in read_json(path)["results"]}
    assert rows["require_package('pytest')"] == ("runs", "")
    assert rows["require_package('nope>=2')"] == (
        "skipped",
        "needs nope>=2, which is not installed",
    )
    assert rows["require_program('sh')"] == ("runs", "")
    assert rows["require_program('nope')"][0] == "skipped"
    assert [v for n, (v, _) in rows.items() if n.startswith("a time-out")] == ["all ended"]


def test_package_that_is_none_is_wrong_use(call_tool: Callable[..., Any]) -> None:
    """What names no package is refused in one line."""
    done = call_tool(TOOL, "--packages", "a b")
    assert done.returncode == 2
    assert "'a b' is no package" in done.stderr
    assert json.dumps(done.stdout) == '""'
