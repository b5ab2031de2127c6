"""`bindery links`: the second opinion on the links of the outputs, or the word of the web."""

from __future__ import annotations

import sys
from datetime import timedelta
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
    refuse_given,
    show_progress,
)
from bindery.report import count_noun

_WEB_OPTIONS = ("since", "fix", "dry_run", "archive", "delay")


def links(
    context: typer.Context,
    root: Root = Path(),
    out: Out = None,
    quiet: Quiet = False,
    output: Annotated[
        Format, typer.Option("--format", help="How findings are printed.")
    ] = Format.TEXT,
    external: Annotated[
        bool,
        typer.Option(
            "--external", help="Ask the web about every link of the book, politely, and remember."
        ),
    ] = False,
    since: Annotated[
        str,
        typer.Option(metavar="REV", help="Web: only links on lines that are new since then."),
    ] = "",
    fix: Annotated[
        bool, typer.Option("--fix", help="Web: write new addresses into the chapters.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Web: show what --fix would change."),
    ] = False,
    archive: Annotated[
        bool, typer.Option("--archive", help="Web: look for copies of dead pages in the archive.")
    ] = False,
    delay: Annotated[
        float,
        typer.Option(metavar="SECONDS", help="Web: least time between two requests of a host."),
    ] = 1.0,
) -> None:
    """Hold every link of the built outputs against its source, with linkchecker as a second
    opinion; with --external ask the web instead."""
    from bindery.pipeline import inspect_book

    if external:
        from bindery.commands.links_external import check_web

        refuse_given(context, ("out",), "belongs to the built outputs", "leave out --external")
        if fix and not dry_run:
            from bindery.changes import take_back

            if said := take_back(root):
                print(said, file=sys.stderr)
        inspection = inspect_book(root)
        status = check_web(
            inspection,
            since=since,
            fix=fix,
            dry_run=dry_run,
            archive=archive,
            shelf_life=timedelta(days=inspection.config.link_days),
            delay=delay,
            output=output,
            quiet=quiet,
        )
        raise typer.Exit(status)
    from bindery.acceptance import sift_listed
    from bindery.edition import find_edition
    from bindery.opinions.outputs import crawl_outputs

    refuse_given(context, _WEB_OPTIONS, "is for links to the web", "add --external")
    inspection = inspect_book(root)
    edition = find_edition(inspection.config)
    folder = find_out(root, out)
    with show_progress("links", len(inspection.book.chapters), quiet) as progress:
        findings, summary = crawl_outputs(inspection, edition, folder, progress)
    sifted = sift_listed(inspection, findings)
    if sifted.accepted:
        summary += f", {count_noun(len(sifted.accepted), 'finding')} of them accepted"
    print_findings(sifted.fresh, inspection, output, summary=summary)
    findings = list(sifted.fresh)
    raise typer.Exit(FINDINGS if findings else CLEAN)
