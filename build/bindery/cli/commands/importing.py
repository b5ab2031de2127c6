"""`bindery import`: chapters.yaml from another tool's table of contents, and syntax rewritten."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bindery.core.report import count_noun, format_diff

if TYPE_CHECKING:
    from bindery.book.importing import Imported
    from bindery.core.repository import Tree
    from bindery.core.transaction import Change


@click.command("import")
@click.argument(
    "folder", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the book."
)
@click.option(
    "--convert", is_flag=True, help="Rewrite the syntax of the other tool as GitHub Markdown."
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and write nothing.")
@click.option(
    "--force", is_flag=True, help="Replace chapters.yaml; also convert files that are not in git."
)
def import_book(
    folder: Path,
    convert: bool,
    dry_run: bool,
    force: bool,
) -> None:
    """Write chapters.yaml from another tool's table of contents, or from the folders.

    Reads chapters-md.txt, SUMMARY.md (mdBook), mkdocs.yml, _toc.yml (Jupyter Book), myst.yml,
    _quarto.yml, _toctree.yml (Hugging Face), or the toctree of an index.md (Sphinx, d2l). Without
    any of them, each top-level folder becomes a part. An existing chapters.yaml gains new chapters
    and loses those whose file is gone; nothing else in it changes.
    """
    from bindery.book.importing import holds_formula, import_contents
    from bindery.core.repository import Tree

    imported = import_contents(folder)
    if convert:
        change = _plan_conversion(Tree(folder), imported)
        maths = imported.maths or any(holds_formula(after) for _, after in change.texts.values())
        imported = imported.rename(dict(change.moves), maths=maths)
        if not dry_run:
            _convert(folder, change, force)
    _write_list(folder, imported, force, dry_run)
    if convert and not dry_run:
        _report_rest(folder)


def _plan_conversion(tree: Tree, imported: Imported) -> Change:
    """What a conversion changes; its diff is printed."""
    from bindery.core.transaction import Change
    from bindery.rewrite.converting.books import convert_book

    found = convert_book(tree, imported.chapters, imported.folder)
    moves = dict(found.moves)
    for path, (before, after) in found.texts.items():
        sys.stdout.write(format_diff(path, before, after, moves.get(path, path)))
    for old, new in moves.items():
        print(f"{old} becomes {new}")
    counts = [count_noun(count, noun) for noun, count in found.counts.items() if count]
    print(f"rewrites {count_noun(len(found.texts), 'file')}: {', '.join(counts) or 'nothing'}")
    return Change("convert", found.texts, found.moves)


def _convert(folder: Path, change: Change, force: bool) -> None:
    from bindery.core.transaction import change_files, refuse_uncommitted

    if not force:
        refuse_uncommitted(folder, change)
    change_files(folder, change)


def _write_list(folder: Path, imported: Imported, force: bool, dry_run: bool) -> None:
    """Write chapters.yaml, or bring the one that is there up to date."""
    from bindery.book.updating import update_list
    from bindery.check.rules import RULES
    from bindery.core.config import FILE_NAME, load_config
    from bindery.core.repository import Tree
    from bindery.core.whole_files import write_whole

    target = folder / FILE_NAME
    text, summary, before = imported.write_yaml(), imported.summarise(), ""
    if target.exists():
        before = target.read_text(encoding="utf-8")
        if not force:
            config = load_config(folder, RULES)
            text, said = update_list(before, config, imported.contents, Tree(folder))
            summary = "\n".join(said) or "up to date"
    if dry_run:
        sys.stdout.write(format_diff(FILE_NAME, before, text))
    elif text != before:
        write_whole(target, text.encode())
    print(f"{target}: {summary}")


def _report_rest(folder: Path) -> None:
    """List the syntax of other tools that is left."""
    from bindery.check.inspect import inspect_book
    from bindery.check.rules import foreign_syntax
    from bindery.cli.console import Format, print_findings

    inspection = inspect_book(folder)
    left = [found for found in inspection.findings if found.rule == foreign_syntax.RULE.id]
    summary = f"left for you: {count_noun(len(left), 'kind')} of syntax; then `bindery check`"
    print_findings(left, inspection, Format.TEXT, summary=summary)
