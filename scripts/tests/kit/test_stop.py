"""Signals and budgets."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from kit.stop import Stop, Stopped

SCRIPTS = Path(__file__).resolve().parents[2]


def test_a_spent_budget_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before its time."""
    clock = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    stop = Stop(budget=10)
    stop.check()
    clock[0] = 111.0
    with pytest.raises(Stopped, match="the time budget is spent"):
        stop.check()
    assert not stop.by_signal


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGUSR1"])
def test_the_first_signal_asks_and_the_second_ends(name: str) -> None:
    """So a run can keep its results, and one that hangs can be ended."""
    code = f"""
import signal, sys
sys.path.insert(0, {str(SCRIPTS)!r})
from kit.stop import Stop
stop = Stop()
stop.listen()
signal.raise_signal(signal.{name})
print(stop.is_due(), stop.by_signal, stop.reason, flush=True)
signal.raise_signal(signal.{name})
print("still there", flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == f"True True stopped by {name}\n"
    assert done.stderr.startswith("stopping after this step")
    assert done.returncode < 0 or name == "SIGINT"
