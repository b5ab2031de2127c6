"""`bindery run`: a companion tool within limits, here or on a cluster."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import click

from bindery.cli.console import (
    quiet_option,
    read_amount,
    refuse_given,
    root_option,
)
from bindery.core.model import BookError, ConfigError, Finding, Span

if TYPE_CHECKING:
    from bindery.runs.slurm_run import Collected


Place = Literal["local", "slurm"]
Via = Literal["sbatch", "submitit"]
Runtime = Literal["pyxis", "apptainer"]


@click.command("run", context_settings={"allow_extra_args": True})
@click.argument("tool", required=False, help="A tool that chapters.yaml names.")
@click.option("--profile", default="demo", help="Which set of arguments: demo or full.")
@click.option(
    "--timeout", default="1h", metavar="TIME", help="The run is ended after it: 90, 10m, 2h."
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="The run is ended above it: 8, 8GiB, 500MiB. Nine tenths of what is free else.",
)
@click.option(
    "--output", default="16MiB", metavar="SIZE", help="The run is ended when it has printed more."
)
@click.option(
    "--ranks", type=click.IntRange(min=1), help="Ranks on each node, started by torchrun."
)
@click.option(
    "--env", multiple=True, metavar="NAME", help="An environment variable to hand on; repeatable."
)
@click.option(
    "--text",
    multiple=True,
    metavar="NAME",
    help="Store what the tool prints for this text instead.",
)
@click.option("--texts", is_flag=True, help="Store what the tool prints for each of its texts.")
@click.option(
    "--on",
    type=click.Choice(get_args(Place)),
    default="local",
    help="Where it runs: on this machine, or on a cluster.",
)
@click.option("--nodes", type=click.IntRange(min=1), default=1, help="Slurm: number of nodes.")
@click.option("--cpus", type=click.IntRange(min=1), help="Slurm: CPUs on each node.")
@click.option("--gpus", type=click.IntRange(min=1), help="Slurm: GPUs on each node.")
@click.option("--partition", default="", show_default=False, help="Slurm: the partition.")
@click.option("--account", default="", show_default=False, help="Slurm: the account.")
@click.option("--qos", default="", show_default=False, help="Slurm: the quality of service.")
@click.option(
    "--sbatch",
    multiple=True,
    metavar="OPTION",
    help="Slurm: a further option of sbatch; repeatable.",
)
@click.option(
    "--container",
    default="",
    metavar="IMAGE",
    show_default=False,
    help="Slurm: the container that it runs in.",
)
@click.option(
    "--container-runtime",
    type=click.Choice(get_args(Runtime)),
    help="Slurm: what starts the container.",
)
@click.option(
    "--python",
    default="",
    metavar="PATH",
    show_default=False,
    help="Python that runs the tool, with the torch to measure; this one by default, python3 in a"
    " container.",
)
@click.option(
    "--sweep",
    multiple=True,
    metavar="NAME=V1,V2",
    help="Slurm: a task for each value, given as --NAME V; repeatable: each combination.",
)
@click.option(
    "--repeat", type=click.IntRange(min=1), default=1, help="Slurm: so many tasks of each kind."
)
@click.option(
    "--via",
    type=click.Choice(get_args(Via)),
    default="sbatch",
    help="Slurm: how the job is submitted.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Slurm: the folder of the run, which the nodes see too; below dist/runs/ else.",
)
@click.option("--no-wait", is_flag=True, help="Slurm: submit the job, and leave it to itself.")
@click.option(
    "--collect",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Make the records of a run that was not waited for.",
)
@root_option
@quiet_option
@click.pass_context
def run(
    context: click.Context,
    tool: str | None,
    profile: str,
    timeout: str,
    memory: str | None,
    output: str,
    ranks: int | None,
    env: tuple[str, ...],
    text: tuple[str, ...],
    texts: bool,
    on: Place,
    nodes: int,
    cpus: int | None,
    gpus: int | None,
    partition: str,
    account: str,
    qos: str,
    sbatch: tuple[str, ...],
    container: str,
    container_runtime: Runtime | None,
    python: str,
    sweep: tuple[str, ...],
    repeat: int,
    via: Via,
    folder: Path | None,
    no_wait: bool,
    collect: Path | None,
    root: Path,
    quiet: bool,
) -> None:
    """Run a companion tool within limits and leave a record. Arguments behind -- go to the tool."""
    if on == "local":
        refuse_given(context, _CLUSTER_OPTIONS, "is for runs on a cluster", "add `--on slurm`")
    if collect is not None:
        from bindery.runs.slurm_run import collect_run

        _print_collected(collect_run(root, collect))
        return
    if tool is None:
        hint = "`bindery run TOOL`; chapters.yaml lists the tools under `tools:`"
        raise ConfigError(Finding(Span.whole("run"), "config", "no tool is named", hint))
    if text or texts:
        from bindery.runs.verify import record_texts

        paths = record_texts(root, tool, () if texts else text)
        for path in paths:
            print(f"recorded {path}")
        if not paths:
            print("every text is as it was stored")
        return
    from bindery.core.units import parse_bytes, parse_seconds
    from bindery.runs.record_run import Limits, plan_run, record_run

    limits = Limits(
        read_amount("--timeout", timeout, parse_seconds),
        None if memory is None else int(read_amount("--memory", memory, parse_bytes, "GiB")),
        int(read_amount("--output", output, parse_bytes, "MiB")),
    )
    local = python if on == "local" else ""
    plan = plan_run(root, tool, profile, context.args, ranks=ranks, passed=env, python=local)
    if on == "slurm":
        from bindery.runs.jobs import Request
        from bindery.runs.slurm_run import run_on_slurm

        if bool(container) != bool(container_runtime):
            message = "--container and --container-runtime belong together"
            hint = "the runtimes are pyxis and apptainer"
            raise ConfigError(Finding(Span.whole("--container"), "config", message, hint))
        request = Request(
            seconds=limits.seconds,
            log_bytes=limits.output_bytes,
            nodes=nodes,
            cpus=cpus,
            gpus=gpus,
            memory_bytes=limits.memory_bytes,
            partition=partition,
            account=account,
            qos=qos,
            options=sbatch,
            container=container,
            runtime=container_runtime,
            python=python or ("python3" if container else sys.executable),
        )
        collected = run_on_slurm(
            plan,
            request,
            (lambda _line: None) if quiet else lambda line: print(line, file=sys.stderr),
            tasks=_read_tasks(sweep, repeat),
            folder=folder,
            via=via,
            waits=not no_wait,
        )
        _print_collected(collected)
        return
    with _show_run(tool, limits.seconds, quiet) as (show, watch):
        recorded = record_run(plan, limits, show=show, watch=watch)
    if recorded.record:
        print(f"recorded {recorded.record}")
        print(_advise(root, tool, plan.profile))
    if recorded.finding:
        raise BookError(recorded.finding)


def _advise(root: Path, tool: str, profile: str) -> str:
    """What to do with a record that has just been made."""
    if profile == "demo":
        return "next: nothing; a demo record shows that the tool runs, and no table quotes it"
    from bindery.check.rules import RULES
    from bindery.core.config import load_config

    name = re.compile(rf"\b{re.escape(tool)}\b")
    views = load_config(root.resolve(), RULES).views
    folder = root / views
    reading = [path.stem for path in sorted(folder.glob("*.sql")) if name.search(path.read_text())]
    steps = "next: read the record and its log, run `bindery fill`, and commit what changed"
    if reading:
        return f"{steps}; views that read {tool}: {', '.join(reading)}"
    return f"{steps}; no view reads {tool} yet: add one to {views}/"


# What makes sense on a cluster alone.
_CLUSTER_OPTIONS = """nodes cpus gpus partition account qos sbatch container container_runtime
sweep repeat via folder no_wait""".split()


def _read_tasks(sweeps: Sequence[str], repeat: int) -> tuple[tuple[str, ...], ...]:
    from bindery.runs.jobs import parse_sweep, spread_tasks

    try:
        return spread_tasks([parse_sweep(text) for text in sweeps], repeat)
    except ValueError as error:
        raise ConfigError(Finding(Span.whole("--sweep"), "config", str(error))) from None


def _print_collected(collected: Collected) -> None:
    for path in collected.records:
        print(f"recorded {path}")
    if collected.findings:
        raise BookError(*collected.findings)


@contextmanager
def _show_run(
    tool: str, seconds: float, quiet: bool
) -> Iterator[tuple[Callable[[str, str], None] | None, Callable[[float, int], None] | None]]:
    """What shows a run: its lines on standard error, and on a terminal how long it has run and
    how much memory it has."""
    if quiet:
        yield None, None
        return
    if not sys.stderr.isatty():
        yield lambda _stream, line: print(line, end="", file=sys.stderr, flush=True), None
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    with console.status(f"{tool} begins") as status:

        def show(_stream: str, line: str) -> None:
            console.print(Text.from_ansi(line.rstrip("\r\n")))

        def watch(passed: float, memory: int) -> None:
            status.update(f"{tool}: {passed:.0f} s of {seconds:.0f} s, {memory / 2**30:.2f} GiB")

        yield show, watch
