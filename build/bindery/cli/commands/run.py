"""`bindery run`: run a companion tool within limits, here or on a cluster."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bindery.cli.commands.run_on_slurm import (
    collect,
    refuse_slurm_options,
    slurm_options,
    submit,
)
from bindery.cli.console import python_option, quiet_option, read_amount, root_option
from bindery.core.model import BookError, refuse

if TYPE_CHECKING:
    from bindery.core.processes import Limits, Show, Watch
    from bindery.runs.plan_run import Plan


@click.command("run", context_settings={"allow_extra_args": True})
@click.argument("tool", required=False, help="A tool listed in chapters.yaml.")
@click.option("--profile", default="demo", help="Arguments to use: demo or full.")
@click.option(
    "--timeout", default="1h", metavar="TIME", help="Stop after this time, such as 90s, 10m or 2h."
)
@click.option(
    "--memory",
    metavar="SIZE",
    help="Stop above this much memory, such as 8GiB or 500MiB.  [default: 90 % of the free memory]",
)
@click.option("--output", default="16MiB", metavar="SIZE", help="Stop after this much output.")
@click.option("--ranks", type=click.IntRange(min=1), help="Ranks per node, started by torchrun.")
@click.option(
    "--env", multiple=True, metavar="NAME", help="Environment variable to pass on; repeatable."
)
@python_option
@click.option(
    "--text", multiple=True, metavar="NAME", help="Only store the tool's output for this text."
)
@click.option("--texts", is_flag=True, help="Only store the tool's output for all its texts.")
@click.option(
    "--on",
    type=click.Choice(("local", "slurm")),
    default="local",
    help="Where to run the tool.",
)
@slurm_options
@click.option(
    "--collect",
    "collected",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Write the records of a Slurm run that was submitted with --no-wait.",
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
    python: str,
    text: tuple[str, ...],
    texts: bool,
    on: str,
    slurm: Mapping[str, Any],
    collected: Path | None,
    root: Path,
    quiet: bool,
) -> None:
    """Run a companion tool within limits and record it. Arguments after -- go to the tool."""
    if on == "local":
        refuse_slurm_options(context)
    if collected is not None:
        collect(root, collected)
        return
    if tool is None:
        hint = "`bindery run TOOL`; chapters.yaml lists the tools under `tools:`"
        raise refuse("run", "no tool is named", hint)
    if text or texts:
        _record_texts(root, tool, text, python)
        return
    from bindery.core.units import parse_bytes, parse_seconds
    from bindery.runs.plan_run import plan_run

    seconds = read_amount("--timeout", timeout, parse_seconds)
    memory_bytes = memory and int(read_amount("--memory", memory, parse_bytes, "GiB"))
    output_bytes = int(read_amount("--output", output, parse_bytes, "MiB"))
    local = python if on == "local" else ""
    plan = plan_run(root, tool, profile, context.args, ranks=ranks, passed=env, python=local)
    if on == "slurm":
        submit(
            plan,
            slurm,
            seconds=seconds,
            memory_bytes=memory_bytes or None,
            log_bytes=output_bytes,
            python=python,
            quiet=quiet,
        )
        return
    import psutil

    from bindery.core.processes import Limits

    free = psutil.virtual_memory().available
    _run_here(plan, Limits(seconds, memory_bytes or free * 9 // 10, output_bytes), quiet)


def _record_texts(root: Path, tool: str, texts: Sequence[str], python: str) -> None:
    from bindery.runs.verify import record_texts

    paths = record_texts(root, tool, texts, python)
    for path in paths:
        print(f"recorded {path}")
    if not paths:
        print("every text is unchanged")


def _run_here(plan: Plan, limits: Limits, quiet: bool) -> None:
    from bindery.runs.record_run import record_run

    tool = plan.tool.name
    with _show_run(tool, limits.seconds, quiet) as (show, watch):
        record, finding = record_run(plan, limits, show=show, watch=watch)
    if record:
        print(f"recorded {record}")
        print(_advise(plan.root, tool, plan.profile))
    if finding:
        raise BookError(finding)


def _advise(root: Path, tool: str, profile: str) -> str:
    """The next steps after a new record."""
    from bindery.check.rules import RULES
    from bindery.core.config import load_config

    name = re.compile(rf"\b{re.escape(tool)}\b")
    views = load_config(root, RULES).views
    folder = root / views
    texts = {path.stem: path.read_text() for path in sorted(folder.glob("*.sql"))}
    reading = [view for view, text in texts.items() if name.search(text)]
    if profile == "demo":
        reading = [view for view in reading if "'demo'" in texts[view]]
        if not reading:
            return "next: nothing; a demo record shows that the tool runs, and no table quotes it"
    steps = "next: read the record and its log, run `bindery fill`, and commit what changed"
    if reading:
        return f"{steps}; views that read {tool}: {', '.join(reading)}"
    return f"{steps}; no view reads {tool} yet: add one to {views}/"


@contextmanager
def _show_run(tool: str, seconds: float, quiet: bool) -> Iterator[tuple[Show | None, Watch | None]]:
    """Show the output of a run on standard error; on a terminal, also its time and memory."""
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
