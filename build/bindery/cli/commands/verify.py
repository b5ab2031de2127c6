"""`bindery verify`: repeat runs and compare their results with the book."""

from __future__ import annotations

from pathlib import Path

import click

from bindery.cli.console import python_option, root_option
from bindery.core.model import BookError


@click.command("verify")
@click.argument("tools", nargs=-1, help="Tools of the book.  [default: all]")
@python_option
@root_option
def verify(
    tools: tuple[str, ...],
    python: str,
    root: Path,
) -> None:
    """Run tools again: texts must be identical, demo results the same in value or in shape.

    Tools that need a package that is not installed are skipped.
    """
    from bindery.core.report import count_noun
    from bindery.runs.verify import verify_tools

    verified = verify_tools(root, tools, python)
    errors = count_noun(len(verified.findings), "error")
    counts = ((verified.tools, "tool"), (verified.texts, "text"), (verified.runs, "run"))
    what = ", ".join(count_noun(number, noun) for number, noun in counts)
    for package in dict.fromkeys(verified.skipped.values()):
        names = ", ".join(name for name, lacks in verified.skipped.items() if lacks == package)
        advice = f"install {package}, or name a Python that has it with --python"
        print(f"skipped {names}: {advice}")
    print(f"verified {what}: {errors}")
    if verified.findings:
        raise BookError(*verified.findings)
