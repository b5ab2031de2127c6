"""`bindery refs`: find references to a file, anchor, tool, record, view or address."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from bindery.cli.console import (
    CLEAN,
    ListFormat,
    list_format_option,
    root_option,
)


@click.command("refs")
@click.argument(
    "target",
    metavar="TARGET",
    help="A path, path#anchor, #anchor, an address, or the name of a tool, record or view.",
)
@list_format_option
@root_option
def refs(
    target: str,
    output: ListFormat,
    root: Path,
) -> None:
    """List references to a file, an anchor, a tool, a record, a view or an address."""
    from bindery.book.markdown_files import read_documents
    from bindery.check.inspect import inspect_book
    from bindery.check.who_refers import find_references, format_references, format_references_json

    inspection = inspect_book(root)
    documents = read_documents(inspection.tree, inspection.config, inspection.book.chapters)
    found = find_references(inspection, documents, _read_path(target, inspection.tree.root))
    if output is ListFormat.JSON:
        sys.stdout.write(format_references_json(found))
    else:
        sys.stdout.write(format_references(found, target))
    raise SystemExit(CLEAN)


def _read_path(target: str, root: Path) -> str:
    """A target with its path, if any, converted from the current folder to the root."""
    path, mark, anchor = target.partition("#")
    here = Path.cwd() / path
    if not path or not here.exists() or not here.resolve().is_relative_to(root):
        return target
    return f"{here.resolve().relative_to(root).as_posix()}{mark}{anchor}"
