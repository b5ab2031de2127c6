"""numa_bind: which CPUs a rank gets, and that its program runs on them. How CPUs are chosen next to
GPUs is tested in kit/test_binding.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from testing_utils import write_file_tree

SCRIPTS = Path(__file__).resolve().parent.parent
TOOL = "training/numa_bind.py"
PRINT = "import json, os, sys; print(json.dumps([sorted(os.sched_getaffinity(0)), "
PRINT += "os.environ.get('OMP_NUM_THREADS'), sys.argv[1:]]))"

pytestmark = pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity"), reason="binding needs Linux's CPU affinity"
)


def test_a_node_map(module: ModuleType, tmp_path: Path) -> None:
    """GPUs 0 to 7 of a LUMI node are on NUMA nodes 3, 3, 1, 1, 0, 0, 2, 2: two ranks share 16
    cores. A map that does not fit is refused."""
    files = {"sys/devices/system/cpu/online": "0-63"}
    for node in range(4):
        cpus = f"{16 * node}-{16 * node + 15}"
        files[f"sys/devices/system/node/node{node}/cpulist"] = cpus
    write_file_tree(tmp_path, files)

    def plan(ranks: int, given: str) -> tuple[list[Any], list[str]]:
        made: tuple[list[Any], list[str]]
        made = module.plan(ranks, module.node_map(given), tmp_path, frozenset(range(64)))
        return made

    made, notes = plan(8, "3,3,1,1,0,0,2,2")
    assert [module.format_cpus(each.cpus) for each in made[:3]] == ["48-63", "48-63", "16-31"]
    assert {each.omp_threads for each in made} == {8}
    assert ({each.source for each in made}, notes) == ({"given node"}, [])
    with pytest.raises(module.UsageError, match="has 2 entries, and none for local rank 2"):
        plan(3, "0,1")
    with pytest.raises(module.UsageError, match="no NUMA node 5"):
        plan(1, "5")


def test_the_program_runs_on_the_cpus_of_its_rank(run_tool: Callable[..., Any]) -> None:
    """With its own arguments and exit status, also where they look like options of the tool."""
    cpus = sorted(os.sched_getaffinity(0))
    code = (sys.executable, "-c", f"{PRINT}; sys.exit(37)", "--node_map", "--demo", "--", "-x")
    place = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2"}
    done = run_tool(TOOL, *code, environ=place)
    own, threads, arguments = json.loads(done.stdout)
    assert set(own) <= set(cpus)
    assert int(threads) <= len(own)
    assert arguments == ["--node_map", "--demo", "--", "-x"]
    assert done.returncode == 37
    assert "local rank 1: " in done.stderr


def test_bind_in_a_program() -> None:
    """The library call returns what it bound."""
    code = f"import sys; sys.path.insert(0, {str(SCRIPTS / 'training')!r})\n"
    code += "import os, numa_bind\nprint(numa_bind.bind().cpus "
    code += "== os.sched_getaffinity(0))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


@pytest.mark.parametrize(
    ("environ", "arguments", "message"),
    [
        ({}, (), "name a program to run, or --show"),
        ({}, ("--show", "x"), "name a program to run, or --show"),
        ({}, ("--verify", "x"), "--verify and --json need --show"),
        ({}, ("--", "/no/such/program"), "could not start /no/such/program"),
        ({}, ("--show", "--node-map", "0-"), "is not a list of NUMA nodes: write 0,0,1,1"),
    ],
)
def test_wrong_use(
    run_tool: Callable[..., Any], environ: dict[str, str], arguments: tuple[str, ...], message: str
) -> None:
    """Status 2 and what to do; nothing is started."""
    done = run_tool(TOOL, *arguments, environ=environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
