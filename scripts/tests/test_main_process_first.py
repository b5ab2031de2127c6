"""main_process_first: one rank goes first, and the others hear what became of it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1] / "training"
PROGRAM = """
import os, sys, time
from pathlib import Path
from main_process_first import main_process_first

def look():
    with main_process_first() as is_first:
        if is_first:
            time.sleep(0.3)
            Path("made").touch()
        return is_first, Path("made").exists()

def attempt(**options):
    try:
        with main_process_first(**options) as is_first:
            if is_first:
                raise OSError("disk full")
    except Exception as error:
        return f"{type(error).__name__}: {error}"

results = [look(), attempt(), attempt(scope="node")]
import torch.distributed as dist
rank = int(os.environ.get("RANK", os.environ.get("SLURM_PROCID")))
dist.init_process_group("gloo", rank=rank, world_size=2)
results.append(attempt())
dist.barrier()  # rank 0 may host the store
dist.destroy_process_group()
Path(f"rank{rank}").write_text(repr(results))
"""


@pytest.mark.torch
@pytest.mark.parametrize("launcher", ["torchrun", "srun"])
def test_waiting_rank_hears_what_became_of_the_first(
    tmp_path: Path, launcher: str, unique_port: int
) -> None:
    """It finds what was made and hears of the error in either scope, before and after
    init_process_group, by the store of torchrun and by that of rank 0."""
    (tmp_path / "program.py").write_text(PROGRAM)
    base = {**os.environ, "PYTHONPATH": str(FOLDER), "OMP_NUM_THREADS": "1"}
    if launcher == "torchrun":
        options = ["-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
        environs = [base]
    else:
        options = []
        base |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(unique_port), "SLURM_NTASKS": "2"}
        environs = [base | {"SLURM_PROCID": rank, "SLURM_LOCALID": rank} for rank in "01"]
    command = [sys.executable, *options, "program.py"]
    started = [subprocess.Popen(command, cwd=tmp_path, env=environ) for environ in environs]
    assert [process.wait(120) for process in started] == [0] * len(environs)
    first, waiting = (ast.literal_eval((tmp_path / f"rank{i}").read_text()) for i in (0, 1))
    error = "RuntimeError: the first rank ({}) failed: OSError: disk full"
    own = "OSError: disk full"
    assert first == [(True, True), own, own, own]
    heard = error.format("global")
    assert waiting == [(False, True), heard, error.format("node"), heard]


def test_single_process_goes_straight_on(tmp_path: Path, torch_trap: dict[str, str]) -> None:
    """Without a launcher there is nobody to wait for, and torch is not imported."""
    text = "import main_process_first as m\nwith m.main_process_first() as first: print(first)"
    environ = {k: v for k, v in os.environ.items() if k != "MASTER_ADDR"} | torch_trap
    command = [sys.executable, "-c", text]
    assert subprocess.check_output(command, cwd=FOLDER, env=environ) == b"True\n"


def test_the_demo_starts_ranks_below_torchrun_too(run_tool: Any) -> None:
    """torchrun tells its ranks that it hosts their store; the demo's ranks have another one."""
    environ = {"TORCHELASTIC_USE_AGENT_STORE": "True"}
    done = run_tool("training/main_process_first.py", "--demo", environ=environ)
    assert done.returncode == 0, done.stderr
    assert "rank 1: first False, the data was made by rank 0" in done.stdout
