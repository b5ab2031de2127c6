"""`bindery check`: every rule over the sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bindery.console import CLEAN, FINDINGS, Format, Root, print_findings
from bindery.model import ConfigError, Finding, Span

if TYPE_CHECKING:
    from bindery.pipeline import Inspection


def check(
    paths: Annotated[
        list[str] | None, typer.Argument(help="Only findings in these files and folders.")
    ] = None,
    root: Root = Path(),
    output: Annotated[
        Format, typer.Option("--format", help="How findings are printed.")
    ] = Format.TEXT,
) -> None:
    """Report everything in the sources that is false: links, anchors, images, tables."""
    from bindery.pipeline import inspect_book

    inspection = inspect_book(root)
    chosen = _choose_findings(inspection, root, paths or [])
    print_findings(chosen, inspection, output)
    raise typer.Exit(FINDINGS if chosen else CLEAN)


def _choose_findings(inspection: Inspection, root: Path, paths: Sequence[str]) -> list[Finding]:
    """The findings under the given paths. A path that holds nothing of the book is wrong use."""
    if not paths:
        return list(inspection.findings)
    wanted = []
    known = [
        *(entry.path for entry in inspection.config.chapters),
        *(finding.span.path for finding in inspection.findings),
    ]
    for path in paths:
        try:
            relative = Path(path).resolve().relative_to(root.resolve()).as_posix()
        except ValueError:
            relative = Path(path).as_posix()
        relative = "" if relative == "." else relative
        if not any(_is_under(name, relative) for name in known):
            raise ConfigError(
                Finding(
                    Span.whole(path),
                    "config",
                    f"no chapter of the book lies at '{path}'",
                    "name chapters or folders of this book, relative to the folder you are in",
                )
            )
        wanted.append(relative)
    return [f for f in inspection.findings if any(_is_under(f.span.path, w) for w in wanted)]


def _is_under(path: str, folder: str) -> bool:
    return not folder or path == folder or path.startswith(f"{folder}/")
