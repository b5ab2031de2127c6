"""`bindery run --on slurm`: options and actions."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bindery.cli.console import refuse_given
from bindery.core.model import BookError, refuse

if TYPE_CHECKING:
    from bindery.runs.plan_run import Plan
    from bindery.runs.slurm_run import Collected

_COUNT = click.IntRange(min=1)
_OPTIONS = (
    click.option("--nodes", type=_COUNT, default=1, help="Slurm: number of nodes."),
    click.option("--cpus", type=_COUNT, help="Slurm: CPUs per node."),
    click.option("--gpus", type=_COUNT, help="Slurm: GPUs per node."),
    click.option("--partition", default="", show_default=False, help="Slurm: partition."),
    click.option("--account", default="", show_default=False, help="Slurm: account."),
    click.option("--qos", default="", show_default=False, help="Slurm: quality of service."),
    click.option(
        "--sbatch",
        multiple=True,
        metavar="OPTION",
        help="Slurm: extra sbatch option; repeatable.",
    ),
    click.option(
        "--container",
        default="",
        metavar="IMAGE",
        show_default=False,
        help="Slurm: container image to run in.",
    ),
    click.option(
        "--container-runtime",
        type=click.Choice(("pyxis", "apptainer")),
        help="Slurm: container runtime.",
    ),
    click.option(
        "--sweep",
        multiple=True,
        metavar="NAME=V1,V2",
        help="Slurm: one task per value, passed as --NAME V; repeat it for all combinations.",
    ),
    click.option("--repeat", type=_COUNT, default=1, help="Slurm: number of tasks per setting."),
    click.option("--no-wait", is_flag=True, help="Slurm: submit the job and return."),
)


_REQUESTED = ("nodes", "cpus", "gpus", "partition", "account", "qos", "container")
_NAMES = (
    *_REQUESTED,
    *("sbatch", "container_runtime", "sweep", "repeat", "no_wait"),
)


def slurm_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the Slurm options to a command, which gets them as one mapping, `slurm`."""

    @functools.wraps(command)
    def call(**given: Any) -> None:
        command(slurm={name: given.pop(name) for name in _NAMES}, **given)

    for option in reversed(_OPTIONS):
        call = option(call)
    return call


def refuse_slurm_options(context: click.Context) -> None:
    """Raise ConfigError if a Slurm option was given."""
    refuse_given(context, _NAMES, "is for runs on a cluster", "add `--on slurm`")


def submit(
    plan: Plan,
    slurm: Mapping[str, Any],
    *,
    seconds: float,
    memory_bytes: int | None,
    log_bytes: int,
    python: str,
    quiet: bool,
) -> None:
    """Run a plan on the cluster and print the records."""
    from bindery.runs.jobs import Request, parse_sweep, spread_tasks
    from bindery.runs.slurm_run import run_on_slurm

    if bool(slurm["container"]) != bool(slurm["container_runtime"]):
        message = "--container and --container-runtime must be given together"
        hint = "runtimes: pyxis, apptainer"
        raise refuse("--container", message, hint)
    try:
        tasks = spread_tasks([parse_sweep(text) for text in slurm["sweep"]], slurm["repeat"])
    except ValueError as error:
        raise refuse("--sweep", str(error)) from None
    request = Request(
        seconds=seconds,
        log_bytes=log_bytes,
        memory_bytes=memory_bytes,
        options=slurm["sbatch"],
        runtime=slurm["container_runtime"],
        python=python or ("python3" if slurm["container"] else sys.executable),
        **{name: slurm[name] for name in _REQUESTED},
    )

    def show(line: str) -> None:
        if not quiet:
            print(line, file=sys.stderr)

    _print_collected(run_on_slurm(plan, request, show, tasks=tasks, waits=not slurm["no_wait"]))


def collect(root: Path, folder: Path) -> None:
    """Collect and print the records of a run submitted with --no-wait."""
    from bindery.runs.slurm_run import collect_run

    _print_collected(collect_run(root, folder))


def _print_collected(collected: Collected) -> None:
    for path in collected.records:
        print(f"recorded {path}")
    if collected.findings:
        raise BookError(*collected.findings)
