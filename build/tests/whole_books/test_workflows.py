"""What the workflows run on GitHub runs in a fresh clone."""

import os
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
STEP = re.compile(r"uv run noxfile\.py -s (.+)")
# What a step stands for here: a short run, the tests collected and not run again.
SHORT = {
    "tests": "tests -- --collect-only",
    "tests_toolchain": "tests_toolchain -- --collect-only",
    "tests_nightly": "tests_nightly -- --collect-only",
    "run": "run -- hostfile --profile demo",
}


def find_sessions() -> list[str]:
    """The nox sessions of all workflows with their arguments, except the one that needs the web."""
    texts = [path.read_text(encoding="utf-8") for path in ROOT.glob(".github/workflows/*.yml")]
    steps = {step.split(" ||")[0] for text in texts for step in STEP.findall(text)}
    return sorted({SHORT.get(step.split()[0], step) for step in steps if "--external" not in step})


@pytest.mark.nightly
@pytest.mark.needs("git", "python:uv")
@pytest.mark.parametrize("session", find_sessions())
def test_a_session_of_a_workflow_runs_in_a_fresh_clone(session: str, tmp_path: Path) -> None:
    """As a step of the workflow does it: with uv, and with nothing but the clone."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    done = subprocess.run(
        ["uv", "run", "noxfile.py", "-s", *session.split()],
        cwd=clone,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
