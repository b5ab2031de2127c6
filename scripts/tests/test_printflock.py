"""printflock: lines of many processes arrive whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "training" / "printflock.py"
WRITER = """
import sys
from printflock import printflock
class Nested:
    def __str__(self): printflock("inner"); return "outer"
printflock(Nested())
try: printflock("lost", sep=1)
except TypeError: pass
sys.stdin.read()
for _ in range(100): printflock("{0}", "{0}" * 20_000, "end")
"""


def test_processes_do_not_interleave(tmp_path: Path) -> None:
    """Unbuffered processes with two copies of the file; neither a print within a print nor one
    that fails leaves the lock behind."""
    (out, into), (go, start), writers = os.pipe(), os.pipe(), []
    for letter in "abcd":
        folder = tmp_path / ("one" if letter in "ab" else "two")
        folder.mkdir(exist_ok=True)
        shutil.copy(SOURCE, folder)
        command = [sys.executable, "-u", "-c", WRITER.format(letter)]
        writers.append(subprocess.Popen(command, stdin=go, stdout=into, cwd=folder))
    os.close(into)
    os.close(go)
    with os.fdopen(out) as pipe:
        lines = [next(pipe) for _ in range(8)]
        os.close(start)  # now that all are up
        lines += pipe
    assert [writer.wait() for writer in writers] == [0] * 4
    assert len(lines) == 4 * 102
    assert set(lines) == {*(f"{x} {x * 20_000} end\n" for x in "abcd"), "inner\n", "outer\n"}
