"""A run as a Slurm job: its resource request and its files.

The templates in this folder become three files in a run folder: `job.sbatch` for sbatch, `node.sh`,
which srun starts once per node, and for apptainer `enter.sh` in between.
"""

from __future__ import annotations

import itertools
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Literal

from jinja2 import Environment, PackageLoader, StrictUndefined
from msgspec import Struct, field

from bindery.runs.plan_run import Plan

GRACE_SECONDS = 30
"""Time to write results after SIGTERM."""
_MARGIN_SECONDS = 120 + GRACE_SECONDS
"""Time for a job to start, read the facts of its nodes, and end."""
_WARNING_SECONDS = 60
"""How long before the time limit Slurm sends SIGTERM; it may be up to that much earlier."""

Runtime = Literal["pyxis", "apptainer"]
Sweep = tuple[str, tuple[str, ...]]
"""A tool's argument and its values, one task each."""


class Request(Struct, frozen=True):
    """A run's resource request to Slurm. Counts are per node and equal on all nodes."""

    seconds: float
    """Time for the tool itself."""
    log_bytes: int
    nodes: int = 1
    cpus: int | None = None
    gpus: int | None = None
    memory_bytes: int | None = None
    partition: str = ""
    account: str = ""
    qos: str = ""
    options: tuple[str, ...] = ()
    """Extra sbatch options, such as `--constraint=h100`."""
    container: str = ""
    runtime: Runtime | None = None
    python: str = "python3"
    """The Python interpreter on the nodes or in the container."""

    @property
    def minutes(self) -> int:
        """The time limit of the job, in Slurm's unit."""
        return math.ceil((self.seconds + _MARGIN_SECONDS) / 60)


class Job(Struct, frozen=True):
    """A run folder: the plan, the arguments of each task, and what is needed to collect results.
    Stored in plan.json."""

    folder: Path
    plan: Plan
    tasks: tuple[tuple[str, ...], ...]
    """Extra arguments of the tool, one entry per array task."""
    ranks: int | None
    """Ranks per node for torchrun; None to start the tool directly."""
    exports: tuple[str, ...]
    """Environment variables that the job gets from the submitting shell."""
    keeps: tuple[str, ...]
    """Shell patterns of a node's variables that the tool gets."""
    adds: Mapping[str, str] = field(default_factory=dict)
    """Extra variables for the tool."""
    nodes: int = 1
    seconds: float = 0.0
    log_bytes: int = 0


def parse_sweep(text: str) -> Sweep:
    """Parse `NAME=V1,V2`. Raises ValueError with an explanation."""
    name, sign, rest = text.partition("=")
    name = name.strip().removeprefix("--")
    values = tuple(value.strip() for value in rest.split(","))
    if not sign or not name:
        raise ValueError(f"'{text}' is not a sweep; write NAME=V1,V2,...")
    if not all(values):
        raise ValueError(f"the sweep of '{name}' has an empty value")
    if len(set(values)) < len(values):
        raise ValueError(f"the sweep of '{name}' repeats a value; use --repeat to repeat runs")
    return name, values


def spread_tasks(sweeps: Sequence[Sweep], repeat: int) -> tuple[tuple[str, ...], ...]:
    """The arguments of each task: all combinations of values, each `repeat` times."""
    pairs = [[(f"--{name}", value) for value in values] for name, values in sweeps]
    combinations = [tuple(itertools.chain(*chosen)) for chosen in itertools.product(*pairs)]
    return tuple(combination for combination in combinations for _ in range(repeat))


def _list_options(job: Job, request: Request) -> Mapping[str, str]:
    """The sbatch options by name; empty for an option without a value."""
    # In output file names, % starts a pattern.
    output = str(job.folder).replace("%", "%%") + "/slurm_%j.out"
    if len(job.tasks) > 1:
        output = output.replace("%j.out", "%A_%a.out")
    options = {
        "job-name": job.plan.tool.name,
        "nodes": str(request.nodes),
        "ntasks-per-node": "1",
        "time": str(request.minutes),
        "signal": f"TERM@{_WARNING_SECONDS}",
        "no-requeue": "",
        "export": ",".join(job.exports) or "NIL",
        "output": output,
        "cpus-per-task": str(request.cpus or ""),
        "gpus-per-node": str(request.gpus or ""),
        "mem": "" if request.memory_bytes is None else f"{-(-request.memory_bytes // 1024)}K",
        "partition": request.partition,
        "account": request.account,
        "qos": request.qos,
        "array": f"0-{len(job.tasks) - 1}" if len(job.tasks) > 1 else "",
    }
    return {name: text for name, text in options.items() if text or name == "no-requeue"}


def write_texts(job: Job, request: Request) -> dict[str, str]:
    """The files of the run folder by name."""
    named = _list_options(job, request).items()
    options = [f"--{name}={shlex.quote(text)}" if text else f"--{name}" for name, text in named]
    # Without --export=ALL, srun would apply the job's list of variables again.
    launch = ["--export=ALL", "--kill-on-bad-exit=1"]
    if request.runtime == "pyxis":
        mount = f"{job.folder}:{job.folder}"
        launch += [f"--container-image={request.container}", f"--container-mounts={mount}"]
    entry = "enter.sh" if request.runtime == "apptainer" else "node.sh"
    launch += ["bash", str(job.folder / entry)]
    texts = {
        "job.sbatch": _render(
            "job.sbatch",
            tool=job.plan.tool.name,
            profile=job.plan.profile,
            options=[*options, *request.options],
            launch=shlex.join(launch),
        ),
        "node.sh": _render(
            "node.sh",
            folder=shlex.quote(str(job.folder)),
            python=shlex.quote(request.python),
            tasks=[shlex.join((*job.plan.arguments, *further)) for further in job.tasks],
            # A container has its own variables, like its own files.
            keeps="" if request.container else "|".join(job.keeps),
            adds=[f"{name}={shlex.quote(value)}" for name, value in job.adds.items()],
            ranks=job.ranks,
            script=shlex.quote(PurePosixPath(job.plan.tool.path).name),
            seconds=f"{request.seconds:g}",
            grace=GRACE_SECONDS,
            log_bytes=request.log_bytes,
        ),
    }
    if request.runtime == "apptainer":
        folder, image = shlex.quote(str(job.folder)), shlex.quote(request.container)
        texts["enter.sh"] = _render("enter.sh", folder=folder, image=image)
    return texts


def _render(template: str, **values: object) -> str:
    # No HTML escaping: values are quoted for the shell before they get here.
    environment = Environment(
        loader=PackageLoader("bindery.runs", "jobs"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    return environment.get_template(template).render(values)
