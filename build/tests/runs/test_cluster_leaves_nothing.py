"""Clusters of the tests: nothing of them stays, however the tests end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster_guard import find_processes
from slurm_cluster import skip_without_cluster

pytestmark = [pytest.mark.nightly, pytest.mark.slurm]

# A cluster with a job on both nodes and a program on the login node, which have forgotten whose
# children they are. It stays until it is ended.
BUSY = """
import time
from pathlib import Path

from slurm_cluster import open_cluster

FORGETFUL = "env -i setsid sleep 600"

with open_cluster(2) as cluster:
    cluster.start(FORGETFUL.split())
    cluster.ask("sbatch", "--nodes=2", "--output=/dev/null", f"--wrap=srun {FORGETFUL}")
    look = ["pgrep", "sleep"]
    cluster.wait_for(
        lambda: all(cluster.run(look, on=n).stdout.count("\\n") > 1 for n in cluster.nodes),
        "no job",
    )
    print(cluster.folder, flush=True)
    input()
"""


def wait_until(holds: Callable[[], object], seconds: float = 30) -> bool:
    """Whether something came to hold in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.parametrize("number", [None, signal.SIGINT, signal.SIGKILL])
def test_nothing_of_a_cluster_stays(
    script_environment: dict[str, str], number: signal.Signals | None
) -> None:
    """Whether the tests end well, by Ctrl-C or killed, no process and no file of the cluster is
    there afterwards."""
    skip_without_cluster()
    process = subprocess.Popen(
        [sys.executable, "-c", BUSY],
        env=script_environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    assert folder.name.startswith("slurm-")
    names = {Path(f"/proc/{each}/comm").read_text().strip() for each in find_processes(folder)}
    assert names >= {"munged", "slurmctld", "slurmd", "slurmstepd", "sleep"}
    if number is None:
        process.communicate("\n", timeout=60)
    else:
        os.kill(process.pid, number)
        process.communicate(timeout=60)
    assert wait_until(lambda: not find_processes(folder) and not folder.exists())
