"""mem_watch: programs that really take memory, and are otherwise left alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).resolve().parent.parent
PATH = SCRIPTS / "debug" / "mem_watch.py"
MIB = 1024**2

pytestmark = pytest.mark.needs("/proc/self/smaps_rollup")

HOLDER = "import sys, time; block = bytearray(b'x') * (int(sys.argv[1]) << 20); time.sleep(2)"


@pytest.fixture
def wrap(tmp_path: Path, read_json: Any) -> Any:
    """Run a command under the tool; what it printed, and its JSON as `document`."""

    def run(*command: str, **options: Any) -> Any:
        path = tmp_path / "out.json"
        words = [sys.executable, str(PATH), "--interval", "50ms", "--json", str(path), "--"]
        done = subprocess.run([*words, *command], capture_output=True, text=True, check=False,
                              **options)  # fmt: skip
        done.document = read_json(path) if path.exists() else None
        return done

    return run


def test_the_whole_tree_is_added_up(wrap: Any) -> None:
    """With a process whose parent has ended. Each sample, each process and the peaks are in the
    JSON."""
    holder = f'{sys.executable} -c "{HOLDER}"'
    done = wrap("bash", "-c", f"({holder} 30 & sleep 0.3); {holder} 50")
    assert done.returncode == 0, done.stderr
    details, rows = done.document["details"], done.document["results"]
    assert 80 * MIB < details["peaks"]["pss_bytes"] < details["peaks"]["rss_bytes"] < 140 * MIB
    assert max(row["processes"] for row in rows) >= 3
    largest = [one["peak_rss_bytes"] for one in details["processes"]]
    assert largest[0] - largest[1] == pytest.approx(20 * MIB, abs=4 * MIB)
    assert "peak of the sums: RSS " in done.stderr
    assert "% of a core" in done.stderr


def test_the_command_is_left_alone(wrap: Any) -> None:
    """Input, output, arguments and status are the command's; where a signal ended it, the status is
    128 and more, and the JSON is not complete."""
    code = "import sys; print(sys.argv[1:], sys.stdin.read()); sys.exit(37)"
    done = wrap(sys.executable, "-c", code, "--json", "--", "-x", input="hello")
    assert done.stdout == "['--json', '--', '-x'] hello\n"
    assert (done.returncode, done.document["complete"]) == (37, True)
    done = wrap(sys.executable, "-c", "import os, time; time.sleep(0.2); os.kill(os.getpid(), 9)")
    assert (done.returncode, done.document["complete"]) == (137, False)


HEARS = """
import signal, time
heard = []
for name in ("SIGUSR1", "SIGINT"):
    signal.signal(getattr(signal, name), lambda number, _: heard.append(number))
print("up", flush=True)
while len(heard) < 2:
    time.sleep(0.01)
print(sorted(heard), flush=True)
time.sleep(60)
"""


def test_signals_reach_the_command() -> None:
    """Each of them; where one ends it, what was sampled is reported."""
    process = subprocess.Popen(
        [sys.executable, PATH, "--interval", "50ms", "--", sys.executable, "-c", HEARS],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout
    assert process.stdout.readline() == "up\n"
    process.send_signal(signal.SIGUSR1)
    process.send_signal(signal.SIGINT)
    assert process.stdout.readline() == "[2, 10]\n"
    process.send_signal(signal.SIGTERM)
    _, notes = process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert "peak of the sums" in notes
