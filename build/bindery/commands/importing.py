"""`bindery import`: chapters.yaml from the list of chapters of another system."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bindery.model import ConfigError, Finding, Span


def import_book(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of the book.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Where to write; DIR/chapters.yaml by default."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write chapters.yaml for a book that has a chapters-md.txt."""
    from bindery.importing import import_chapter_list
    from bindery.render.output import write_whole

    target = out or folder / "chapters.yaml"
    if target.exists() and not force:
        message = f"'{target}' is there already"
        raise ConfigError(
            Finding(Span.whole(str(target)), "config", message, "replace it with --force")
        )
    text, summary = import_chapter_list(folder)
    write_whole(target, text.encode())
    print(f"{target}: {summary}")
