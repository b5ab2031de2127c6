"""nicer_trace: the lines are those that run, and the program notices nothing of being traced."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

TOOL = "debug/nicer_trace.py"
PATH = Path(__file__).parents[1] / TOOL
CLEAN = {k: v for k, v in os.environ.items() if k not in ("RANK", "SLURM_PROCID")}


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """Run a program of this text under the tool."""

    def start(text: str, *options: str, **environ: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "program.py").write_text(text)
        program = [] if "program.py" in options else ["program.py"]
        command = [sys.executable, str(PATH), *options, *program]
        return subprocess.run(
            command, cwd=tmp_path, env=CLEAN | environ, capture_output=True, text=True, timeout=60
        )

    return start


def strip(line: str) -> str:
    """A line without its time and process."""
    found = re.fullmatch(r"\d\d:\d\d:\d\d (?:r\d+ )?\d+(?:/\d+)? (.*)", line)
    assert found, line
    return found[1]


PROGRAM = """\
class Net:
    def forward(self, x):
        return x + 1
def main():
    try:
        return Net().forward(1) + None
    except TypeError:
        pass
main()
"""
LINES = """\
call  __main__.<module>:1
line  __main__:1 class Net:
call  __main__.Net:1 from __main__.<module>:1
line  __main__:1 class Net:
line  __main__:2     def forward(self, x):
line  __main__:4 def main():
line  __main__:9 main()
call  __main__.main:4 from __main__.<module>:9
line  __main__:5     try:
line  __main__:6         return Net().forward(1) + None
call  __main__.Net.forward:2 from __main__.main:6
line  __main__:3         return x + 1
line  __main__:7     except TypeError:
line  __main__:8         pass
"""


def test_lines_by_hand(run: Any) -> None:
    """Each call with its caller and each line, in order; Python's own library is left out."""
    *lines, count = run(PROGRAM).stderr.splitlines()
    assert [strip(line) for line in lines] == LINES.splitlines()
    assert count == "nicer_trace: 14 lines"


@pytest.mark.parametrize(
    "ending",
    ["raise SystemExit(37)", "1 / 0", "import ctypes; ctypes.string_at(0)", "open('/none')"],
)
def test_program_ends_as_it_would_untraced(run: Any, tmp_path: Path, ending: str) -> None:
    """With its exit status, output, last line of the traceback and arguments, also after a
    segmentation fault."""
    text = f"import sys\nprint(sys.argv[1:], __name__, sys.path[0])\n{ending}\n"
    command = [sys.executable, str(tmp_path / "program.py"), "--a", "--", "b"]
    traced = run(text, "--log-dir", "logs", "--quiet", "--", "program.py", "--a", "--", "b")
    plain = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (traced.returncode, traced.stdout) == (plain.returncode, plain.stdout)
    assert plain.stderr[-30:] in traced.stderr
    assert next(tmp_path.glob("logs/trace.*")).read_text().splitlines()[-1].endswith(ending)


def test_last_line_of_a_hang_is_kept(run: Any, tmp_path: Path) -> None:
    """Where the process is killed, the file ends with the line that hangs."""
    (tmp_path / "hang.py").write_text("import signal\nsignal.pause()\n")
    command = [sys.executable, str(PATH), "--log-dir", "hang", "--quiet", "hang.py"]
    process = subprocess.Popen(command, cwd=tmp_path)
    while not any("pause" in path.read_text() for path in tmp_path.glob("hang/*")):
        assert process.poll() is None
        time.sleep(0.02)
    process.kill()
    process.wait()
    assert next(tmp_path.glob("hang/*")).read_text().endswith("signal.pause()\n")


def test_forks_and_threads_are_told_apart(run: Any, tmp_path: Path) -> None:
    """A forked process has its own file; the lines of a thread have its number; ranks their own."""
    text = """\
import os, threading
def work():
    return 1
thread = threading.Thread(target=work)
thread.start(); thread.join()
if os.fork() == 0:
    raise SystemExit(3)
os.wait()
"""
    done = run(text, "--log-dir", "logs", "--ranks", "0,5", RANK="5")
    assert done.stderr.count("nicer_trace: ") == 1
    parent, child = sorted((path.read_text() for path in tmp_path.glob("logs/trace.*.5.*.txt")),
                           key=len, reverse=True)  # fmt: skip
    assert child.endswith("raise SystemExit(3)\n")
    assert child.count("\n") == 1
    assert re.search(r"r5 \d+/\d+ line  __main__:3     return 1\n", parent)
    assert not run(text, "--ranks", "0,5", RANK="3").stderr
