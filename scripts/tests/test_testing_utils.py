"""testing_utils: as a pytest plugin, with xdist and without, and as the base class of unittest."""

from __future__ import annotations

import logging
import os
import random
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import testing_utils as utils

FOLDER = Path(utils.__file__).parent
Run = Callable[..., Any]


@pytest.fixture
def run_pytest(tmp_path: Path) -> Run:
    """Run pytest over a project of these files; what it printed."""

    def run(files: dict[str, str], *options: str, status: int = 0, **environ: str) -> str:
        utils.write_file_tree(tmp_path, {"pyproject.toml": "", **files})
        env = {**os.environ, "PYTHONPATH": str(FOLDER), "PYTEST_ADDOPTS": "", **environ}
        command = [sys.executable, "-m", "pytest", "-p", "testing_utils", "-rs", *options]
        done = utils.execute_subprocess_async(
            command, {k: v for k, v in env.items() if "XDIST" not in k}, cwd=tmp_path, check=False
        )
        assert done.returncode == status, done.stdout
        return "\n".join([*done.stdout, *done.stderr])

    return run


MARKS = """
import sys
import pytest
@pytest.mark.require_package("pytest>=7", "pluggy")
def test_runs(): pass
@pytest.mark.require_package("pytest<7")
def test_old(missing_fixture): pass
@pytest.mark.require_program("no-such-program")
class TestProgram:
    def test_one(self): raise AssertionError
@pytest.mark.require_env("TU_SLOW")
def test_slow(): pass
@pytest.mark.require_torch_device("cuda")
def test_torch(): pass
def test_no_torch_was_imported(): assert "torch" not in sys.modules
"""


def test_marks_skip_what_cannot_run(run_pytest: Run) -> None:
    """With a reason, before fixtures are made; what is deselected costs no import of torch."""
    out = run_pytest({"test_marks.py": MARKS}, "-k", "not test_torch", TU_SLOW="0")
    assert "2 passed, 3 skipped" in out
    for reason in (
        "needs pytest<7, 9",
        "needs the program no-such-program, which is not installed",
        "runs only with TU_SLOW=1",
    ):
        assert reason in out


UNITTEST = """
import os, unittest
from testing_utils import *
@require_package("no-such-package")
class TestCase(unittest.TestCase):
    def test_method(self): raise AssertionError
class TestMethods(TestCasePlus):
    @require_program("no-such-program")
    def test_skipped(self): raise AssertionError
    @slow
    def test_slow(self): raise AssertionError
    @mockenv(TU_NAME="value")
    def test_paths(self):
        folder = self.get_auto_remove_tmp_dir()
        self.addCleanup(lambda: self.assertTrue(folder.exists()))
        print("made", folder, os.environ["TU_NAME"])
        assert self.repo_root_dir == self.src_dir == self.paths.test_file.parents[1]
        assert self.tests_dir == self.paths.test_file.parent
        assert self.get_env()["PYTHONPATH"].startswith(f"{self.tests_dir}:{self.src_dir}")
"""


def test_decorators_and_base_class(tmp_path: Path) -> None:
    """Under unittest alone; the temporary folder is gone afterwards."""
    utils.write_file_tree(tmp_path, {"pyproject.toml": "", "tests/test_case.py": UNITTEST})
    env = {**os.environ, "PYTHONPATH": str(FOLDER), "RUN_SLOW": "no"}
    command = [sys.executable, "-m", "unittest", "tests/test_case.py"]
    done = utils.execute_subprocess_async(command, env, cwd=tmp_path)
    assert done.stderr[-1] == "OK (skipped=3)"
    folder, value = re.search(r"made (\S+) (\w+)", "\n".join(done.stdout)).groups()
    assert value == "value"
    assert not Path(folder).exists()


@pytest.mark.torch
def test_seeds_and_tensors() -> None:
    """The same seed gives the same numbers; equal means to the bit."""
    import torch

    drawn = [(utils.set_seed(7), random.random(), float(torch.rand(()))) for _ in range(2)]
    assert drawn[0] == drawn[1]
    one = {"a": [torch.ones(2)]}
    utils.torch_assert_equal(one, {"a": [torch.ones(2)]})
    utils.torch_assert_close(one, {"a": [torch.ones(2) + 1e-7]})
    with pytest.raises(AssertionError):
        utils.torch_assert_equal(one, {"a": [torch.ones(2) + 1e-7]})


def test_captures(capsys: Any) -> None:
    """What a terminal would show, repeated at the end; loggers below the one; all is restored."""
    with utils.CaptureStd() as both:
        print("10 %\r100 %\nleft\r")
        print("bad", file=sys.stderr)
    assert (both.out, both.err) == ("100 %\nleft\n", "bad\n")
    assert capsys.readouterr().out == "10 %\r100 %\nleft\r\n"
    with utils.CaptureStdout() as out, pytest.raises(ZeroDivisionError):
        print("seen", 1 / 0)
    assert (out.out, out.err) == ("", "")
    logger = logging.getLogger("tu")
    with utils.CaptureLogger(logger, "INFO") as log:
        logging.getLogger("tu.inner").info("saved")
    logger.info("late")
    assert (log.out, logger.level) == ("saved\n", 0)


def test_environment_and_path_are_restored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After mockenv, mockenv_context and ExtendSysPath."""
    monkeypatch.setenv("TU_A", "1")
    before, path = dict(os.environ), list(sys.path)
    with utils.mockenv_context("TU_A", "TU_NONE", TU_B="2"), utils.ExtendSysPath(tmp_path):
        assert ("TU_A" in os.environ, os.environ["TU_B"]) == (False, "2")
        assert sys.path[0] == str(tmp_path)
    assert (dict(os.environ), sys.path) == (before, path)


def test_ports_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a process, and those of two workers."""
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")
    ports = {}
    for worker in ("gw0", "gw1"):
        monkeypatch.setenv("PYTEST_XDIST_WORKER", worker)
        ports[worker] = {utils.get_unique_port() % 2 for _ in range(20)}
    assert ports == {"gw0": {0}, "gw1": {1}}
    assert len(utils.given_ports) >= 40


def test_what_a_command_leaves_behind_is_ended(capsys: Any) -> None:
    """Also in a command within a command; its own end and words are kept. The demo checks that a
    timeout ends the tree."""
    with pytest.raises(utils.CommandTimedOut, match=r"'sleep 60' did not end within 0.1 s"):
        utils.execute_subprocess_async(["sleep", "60"], timeout=0.1)
    assert capsys.readouterr().out == "\nRunning: sleep 60\n"
    command = ["sh", "-c", "setsid sleep 600 & setsid sleep 600 & echo done >&2; exit 3"]
    with pytest.raises(utils.CommandFailed, match=r"ended with status 3\n    done"):
        utils.execute_subprocess_async(command)
    inner = f"import testing_utils as t; t.execute_subprocess_async({command})"
    environ = {**os.environ, "PYTHONPATH": str(FOLDER)}
    command = [sys.executable, "-c", inner]
    done = utils.execute_subprocess_async(command, environ, check=False, quiet=True)
    assert (done.returncode, done.left, done.stderr[-1]) == (1, 0, "    done")


def test_lines_come_at_once_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line is repeated while the command still runs; long output of both streams is kept."""
    monkeypatch.setattr(
        utils, "print", lambda *a, **_: "go" in a[0] and seen.touch(), raising=False
    )
    seen = tmp_path / "seen"
    script = f"""
import os, sys, time
print("go", flush=True)
while not os.path.exists({str(seen)!r}): time.sleep(0.01)
print("x" * 200_000); print("y" * 200_000, file=sys.stderr)
"""
    done = utils.execute_subprocess_async([sys.executable, "-c", script])
    assert done == (0, ["go", "x" * 200_000], ["y" * 200_000], 0)


def test_fixtures(run_pytest: Run, tmp_path: Path) -> None:
    """Folder, port, seed, paths and process, all in one test."""
    text = """
import sys
def test_all(auto_remove_tmp_dir, unique_port, seeded, test_paths, run_subprocess, gpu_count):
    assert auto_remove_tmp_dir().is_dir() and auto_remove_tmp_dir(after=False).is_dir()
    assert 10000 <= unique_port < 32768 and seeded == 42 and gpu_count >= 0
    words = [sys.executable, "-c", "import helper; print(helper.x)"]
    assert run_subprocess(words).stdout == [str(test_paths.root)]
"""
    helper = "from pathlib import Path\nx = Path(__file__).parents[1]\n"
    run_pytest({"tests/test_all.py": text, "tests/helper.py": helper}, TMPDIR=str(tmp_path))
    assert len(list(tmp_path.glob("test_*"))) == 1  # made with after=False


def test_program(call_tool: Any) -> None:
    """A row per requirement, with the reason: versions are compared as pip does."""
    names = ["pytest>=7,<1000", "pytest<2", "no-such-package>=1"]
    out = call_tool("testing/testing_utils.py", "--packages", *names, "--programs", "sh").stdout
    assert "| require_package('pytest>=7,<1000') | runs |  |" in out
    assert (
        f"| require_package('pytest<2') | skipped | needs pytest<2, {pytest.__version__} is" in out
    )
    assert "| skipped | needs no-such-package>=1, which is not installed |" in out
    assert "| require_program('sh') | runs |  |" in out
