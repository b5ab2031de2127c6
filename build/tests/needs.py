"""What a test needs of the machine: a test that lacks something is skipped, and the run ends with
one line for each thing that is missing, which says how to install it."""

import importlib.util
import os
import shutil
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

PACKAGES = {
    "chromium": "chromium",
    "du": "coreutils",
    "fio": "fio",
    "g++": "g++",
    "git": "git",
    "ip": "iproute2",
    "java": "default-jre-headless",
    "mkfs.ext4": "e2fsprogs",
    "mpirun": "openmpi-bin",
    "node": "nodejs",
    "openssl": "openssl",
    "pdftotext": "poppler-utils",
    "pdftoppm": "poppler-utils",
    "pgrep": "procps",
    "qpdf": "qpdf",
    "setpriv": "util-linux",
    "shellcheck": "shellcheck",
    "sbatch": "slurm-wlm",
    "taskset": "util-linux",
    "tc": "iproute2",
    "unshare": "util-linux",
}
"""Program -> the Debian package that has it."""


def find_missing(thing: str) -> str | None:
    """Why this cannot be had here and what to install; None where it is there.

    A thing is a program ("git"), a Python package ("python:torch"), a path ("/sys/devices"), or
    "root".
    """
    if thing == "root":
        return None if os.geteuid() == 0 else "root is needed: run the tests as root"
    if thing.startswith("/"):
        return None if Path(thing).exists() else f"{thing} is missing: mount it"
    if thing.startswith("python:"):
        name = thing.removeprefix("python:")
        if importlib.util.find_spec(name):
            return None
        return f"{name} is missing: pip install {name}"
    if shutil.which(thing):
        return None
    if thing == "mmdc":
        return "mmdc is missing: npm install -g @mermaid-js/mermaid-cli"
    return f"{thing} is missing: apt install {PACKAGES.get(thing, thing)}"


def need(*things: str) -> None:
    """Skip the test that is running, or the fixture's, where one of these things is missing."""
    for thing in things:
        if reason := find_missing(thing):
            pytest.skip(reason)


def git(root: Path, *arguments: str) -> str:
    """What git prints in a folder, as somebody who may commit; the test is skipped without git."""
    need("git")
    who = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    command = ["git", *who, *arguments]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout


def heed_signals() -> None:
    """Restore the handlers of signals that tests send. A shell that starts pytest in the
    background, or with nohup, makes it ignore them, and so does all that it starts."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    for number, handler in usual.items():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_configure(config: pytest.Config) -> None:
    heed_signals()
    config.addinivalue_line("markers", "needs(*things): skip where a program or package is missing")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        need(*marker.args)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List what was skipped, by reason."""
    reasons = Counter(
        report.longrepr[2].removeprefix("Skipped: ").splitlines()[0]
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    )
    if not reasons:
        return
    terminalreporter.section("skipped")
    for reason, count in reasons.most_common():
        terminalreporter.line(f"{count:5}  {reason}")
