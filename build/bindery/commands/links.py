"""`bindery links`: the second opinion on the links of the outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bindery.console import (
    CLEAN,
    FINDINGS,
    Format,
    Out,
    Quiet,
    Root,
    find_out,
    print_findings,
    show_progress,
)


def links(
    root: Root = Path(),
    out: Out = None,
    quiet: Quiet = False,
    external: Annotated[
        bool, typer.Option("--external", help="Follow links to the web too, one a second.")
    ] = False,
) -> None:
    """Crawl the built outputs: the second opinion on every link, from linkchecker."""
    from bindery.edition import find_edition
    from bindery.opinions.outputs import crawl_outputs
    from bindery.pipeline import inspect_book

    inspection = inspect_book(root)
    edition = find_edition(inspection.config)
    folder = find_out(root, out)
    with show_progress("links", len(inspection.book.chapters), quiet) as progress:
        findings, summary = crawl_outputs(inspection, edition, folder, progress, external=external)
    print_findings(findings, inspection, Format.TEXT, summary=summary)
    raise typer.Exit(FINDINGS if findings else CLEAN)
