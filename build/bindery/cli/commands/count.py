"""`bindery count`: count what the book contains."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from bindery.cli.console import CLEAN, ListFormat, list_format_option, root_option


@click.command("count")
@click.option("--chapters", is_flag=True, help="Count per chapter, not per part.")
@list_format_option
@root_option
def count(*, chapters: bool, output: ListFormat, root: Path) -> None:
    """Count words, tables, figures, links, calculations, and quoted numbers by class."""
    from bindery.check import counts
    from bindery.check.inspect import inspect_book

    inspection = inspect_book(root)
    counted = counts.count_chapters(inspection) if chapters else counts.count_parts(inspection)
    if output is ListFormat.JSON:
        sys.stdout.write(counts.format_counts_json(counted))
    else:
        sys.stdout.write(counts.format_counts(counted, "chapter" if chapters else "part"))
    raise SystemExit(CLEAN)
