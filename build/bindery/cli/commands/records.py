"""`bindery records`: list the records."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from bindery.cli.console import (
    CLEAN,
    FINDINGS,
    ListFormat,
    list_format_option,
    root_option,
)


@click.command("records")
@click.argument("name", metavar="[NAME]", required=False, help="Show this record in full.")
@click.option("--stale", is_flag=True, help="List stale records only; exit status 1 if any.")
@click.option("--unused", is_flag=True, help="List unused records only; exit status 1 if any.")
@click.option(
    "--tool", default="", metavar="TOOL", show_default=False, help="List records of this tool only."
)
@click.option(
    "--machine",
    default="",
    metavar="TEXT",
    show_default=False,
    help="List only records whose machine or hardware contains this.",
)
@list_format_option
@root_option
def records(
    name: str | None,
    stale: bool,
    unused: bool,
    tool: str,
    machine: str,
    output: ListFormat,
    root: Path,
) -> None:
    """List the records: what was measured, when, on which machine, and whether it is stale."""
    from bindery.check.inspect import inspect_book
    from bindery.core.build_date import read_today
    from bindery.core.report import count_noun
    from bindery.evidence import record_list

    inspection = inspect_book(root)
    listed = record_list.list_records(
        inspection.evidence, inspection.quotations, inspection.findings, read_today()
    )
    if name is not None:
        entry = record_list.find_record(name, listed)
        listed = (entry,)
        text = record_list.format_record(entry, inspection.evidence.records.get(entry.record))
    else:
        listed = record_list.choose_records(
            listed, inspection.config.tools, tool=tool, machine=machine, stale=stale, unused=unused
        )
        text = record_list.format_list(listed) + f"{count_noun(len(listed), 'record')}\n"
    if output is ListFormat.JSON:
        text = record_list.format_list_json(listed)
    sys.stdout.write(text)
    raise SystemExit(FINDINGS if (stale or unused) and listed and name is None else CLEAN)
