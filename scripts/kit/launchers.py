"""Which rank this process is, as the launcher that started it says."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from kit.files import read_text
from kit.slurm import expand_counts, expand_nodelist

LAUNCHERS = {
    "torchrun": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "TORCHELASTIC_RUN_ID"),
    "Open MPI": tuple(f"OMPI_COMM_WORLD_{x}" for x in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE")),
    "PALS": ("PALS_RANKID", "PMI_SIZE", "PALS_LOCAL_RANKID", "PALS_LOCAL_SIZE"),
    "Hydra": ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    "Slurm": (),
    "the environment": ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
}
"""Variables with rank, size, local rank and local size; a fifth one has to be set too. The first
ones are often started by the last."""
JOB_VARIABLES = ("TORCHELASTIC_RUN_ID", "PMIX_NAMESPACE", "PALS_APID", "SLURM_JOB_ID", "PBS_JOBID")


class Task(NamedTuple):
    """A rank of a job; `node` is None where nodes have different numbers of ranks."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    node: int | None
    hosts: tuple[str, ...] = ()
    job: str = ""
    step: int = 0
    launcher: str = "Slurm"


def find_task(environ: Mapping[str, str]) -> Task | None:
    """The rank that the innermost launcher gave to this process; None without a launcher."""
    tasks = (read_task(launcher, environ) for launcher in LAUNCHERS)
    return next(filter(None, tasks), None)


def read_numbers(environ: Mapping[str, str], names: Sequence[str]) -> list[int] | None:
    """The values of variables; None where one of them is not a number."""
    values = [environ.get(name, "") for name in names]
    return list(map(int, values)) if all(map(str.isdecimal, values)) else None


def read_task(launcher: str, environ: Mapping[str, str]) -> Task | None:
    """What a launcher of LAUNCHERS says; None without it."""
    if launcher == "Slurm":
        return read_step(environ)
    names = LAUNCHERS[launcher]
    numbers = read_numbers(environ, names[:4])
    if numbers is None or not all(name in environ for name in names[4:]):
        return None
    rank, size, local_rank, local_size = numbers
    node, rest = divmod(rank - local_rank, max(local_size, 1))
    hosts: Sequence[str] = ()
    if size > local_size and environ.get("SLURM_JOB_NODELIST"):
        hosts = expand_nodelist(environ["SLURM_JOB_NODELIST"])
    elif size > local_size and environ.get("PBS_NODEFILE"):
        hosts = list(dict.fromkeys(read_text(Path(environ["PBS_NODEFILE"])).split()))
    job = next((environ[name] for name in JOB_VARIABLES if environ.get(name)), "")
    return Task(rank, size, local_rank, local_size, None if rest else node, tuple(hosts), job,
                launcher=launcher)  # fmt: skip


def read_step(environ: Mapping[str, str]) -> Task | None:
    """What srun says; None outside a step, for example in a batch script."""
    names = ("PROCID", "STEP_NUM_TASKS", "LOCALID", "NODEID", "STEP_ID")
    numbers = read_numbers(environ, [f"SLURM_{name}" for name in names])
    if numbers is None:
        return None
    rank, size, local_rank, node, step = numbers
    local_size = expand_counts(environ["SLURM_STEP_TASKS_PER_NODE"])[node]
    hosts = tuple(expand_nodelist(environ["SLURM_STEP_NODELIST"]))
    return Task(rank, size, local_rank, local_size, node, hosts, environ["SLURM_JOB_ID"], step)
