"""`bindery links`: check the links of built outputs, or links to the web."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from bindery.cli.console import (
    CLEAN,
    FINDINGS,
    Format,
    find_out,
    format_option,
    out_option,
    print_findings,
    quiet_option,
    refuse_given,
    root_option,
    show_progress,
)
from bindery.core.report import count_noun

_WEB_OPTIONS = ("since", "fix", "dry_run", "archive", "delay")


@click.command("links")
@root_option
@out_option
@quiet_option
@format_option
@click.option(
    "--external",
    is_flag=True,
    help="Request every web address in the book, with polite delays, and remember the answers.",
)
@click.option(
    "--since",
    default="",
    metavar="REV",
    show_default=False,
    help="Web: check only links on lines added since this revision.",
)
@click.option("--fix", is_flag=True, help="Web: write new addresses into the chapters.")
@click.option("--dry-run", is_flag=True, help="Web: show what --fix would change.")
@click.option("--archive", is_flag=True, help="Web: look up dead pages in the Wayback Machine.")
@click.option(
    "--delay",
    type=click.FloatRange(min=1.0),
    default=1.0,
    metavar="SECONDS",
    help="Web: seconds between requests to the same host, at least 1.",
)
@click.pass_context
def links(
    context: click.Context,
    root: Path,
    out: Path | None,
    quiet: bool,
    output: Format,
    external: bool,
    since: str,
    fix: bool,
    dry_run: bool,
    archive: bool,
    delay: float,
) -> None:
    """Cross-check every link in the built outputs against its source with linkchecker; with
    --external, check links to the web."""
    from bindery.check.inspect import inspect_book

    if external:
        from bindery.cli.commands.links_external import Web, Wishes, ask_web
        from bindery.web.manners import Manners

        refuse_given(context, ("out",), "is for the built outputs", "omit --external")
        if not fix:
            refuse_given(context, ("dry_run",), "shows what --fix would change", "add --fix")
        inspection = inspect_book(root)
        shelf_life = timedelta(days=inspection.config.link_days)
        wishes = Wishes(since, fix, dry_run, archive, shelf_life, output, quiet)
        raise SystemExit(ask_web(inspection, wishes, Web(Manners(delay=delay))))
    from bindery.book.this_edition import find_edition
    from bindery.check.baseline_use import read_listed, sift_listed
    from bindery.crawl.outputs import crawl_outputs

    refuse_given(context, _WEB_OPTIONS, "is for links to the web", "add --external")
    inspection = inspect_book(root)
    read_listed(inspection.config)  # reports a broken list before the crawl
    edition = find_edition(inspection.config)
    folder = find_out(root, out)
    with show_progress("links", len(inspection.book.chapters), quiet) as progress:
        findings, summary = crawl_outputs(inspection, edition, folder, progress)
    sifted = sift_listed(inspection, findings)
    if sifted.accepted:
        summary += f", {count_noun(len(sifted.accepted), 'finding')} of them accepted"
    print_findings(sifted.fresh, inspection, output, summary=summary)
    raise SystemExit(FINDINGS if sifted.fresh else CLEAN)
