"""`bindery verify`: repeat runs and compare their results with the book."""

from __future__ import annotations

from pathlib import Path

import click

from bindery.cli.console import (
    root_option,
)
from bindery.core.model import BookError


@click.command("verify")
@click.argument("tools", nargs=-1, help="Tools of the book.  [default: all]")
@root_option
def verify(
    tools: tuple[str, ...],
    root: Path,
) -> None:
    """Repeat runs of tools: texts must match exactly, demo results in value or shape."""
    from bindery.core.report import count_noun
    from bindery.runs.verify import verify_tools

    verified = verify_tools(root, tools)
    errors = count_noun(len(verified.findings), "error")
    counts = ((verified.tools, "tool"), (verified.texts, "text"), (verified.runs, "run"))
    what = ", ".join(count_noun(number, noun) for number, noun in counts)
    print(f"verified {what}: {errors}")
    if verified.findings:
        raise BookError(*verified.findings)
