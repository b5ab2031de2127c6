"""`bindery import`: make chapters.yaml from another tool's list of chapters, and convert syntax."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bindery.core.report import count_noun, format_diff

if TYPE_CHECKING:
    from bindery.book.importing import Imported
    from bindery.core.config import Config


@click.command("import")
@click.argument(
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The folder of the book.",
)
@click.option(
    "--convert", is_flag=True, help="Rewrite the syntax of the other tool as GitHub Markdown."
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and write nothing.")
@click.option(
    "--force",
    is_flag=True,
    help="Replace chapters.yaml; with --convert, convert even what git cannot restore.",
)
def import_book(
    folder: Path,
    convert: bool,
    dry_run: bool,
    force: bool,
) -> None:
    """Write chapters.yaml from another tool's list of chapters, or from the folders.

    Reads the first of these that it finds: chapters-md.txt, SUMMARY.md (mdBook), mkdocs.yml,
    _toc.yml (Jupyter Book), myst.yml, _quarto.yml, _toctree.yml (Hugging Face), or the toctree of
    an index.md (Sphinx, d2l). If there is none, each top-level folder becomes a part. In an
    existing chapters.yaml, new chapters are added and deleted ones removed; the rest stays.
    """
    from bindery.book.importing import import_contents
    from bindery.check.rules import RULES
    from bindery.core.config import FILE_NAME, load_config

    is_new = not (folder / FILE_NAME).exists() or (force and not convert)
    config = None if is_new else load_config(folder, RULES)
    imported = import_contents(folder, config)
    has_formulas = False
    if convert:
        imported, has_formulas = _convert(folder, imported, force, dry_run)
    _write_list(folder, imported, config, has_formulas, dry_run)
    if convert and not dry_run:
        _report_rest(folder)


def _convert(folder: Path, imported: Imported, force: bool, dry_run: bool) -> tuple[Imported, bool]:
    """Print the changes of a conversion and make them. Returns the converted book, and whether
    formulas were converted."""
    from bindery.core.repository import Tree
    from bindery.core.transaction import Change, change_files, refuse_uncommitted
    from bindery.rewrite.converting.books import convert_book

    language = imported.contents.about.get("language", "en")
    found = convert_book(Tree(folder), imported.chapters, imported.folder, language)
    moves = dict(found.moves)
    for path, (before, after) in found.texts.items():
        sys.stdout.write(format_diff(path, before, after, moves.get(path, path)))
    for old, new in moves.items():
        print(f"{old} becomes {new}")
    counts = [count_noun(count, noun) for noun, count in found.counts.items() if count]
    print(f"rewrites {count_noun(len(found.texts), 'file')}: {', '.join(counts) or 'nothing'}")
    if not dry_run:
        change = Change("convert", found.texts, found.moves)
        if not force:
            refuse_uncommitted(folder, change, needs_git=True)
        change_files(folder, change)
    has_formulas = "formula" in found.counts
    return imported.rename(moves, maths=imported.maths or has_formulas), has_formulas


def _write_list(
    folder: Path, imported: Imported, config: Config | None, has_formulas: bool, dry_run: bool
) -> None:
    """Write chapters.yaml, or update the existing one, which was read as `config`."""
    from bindery.core.config import FILE_NAME
    from bindery.core.repository import Tree
    from bindery.core.whole_files import write_whole
    from bindery.rewrite.updating import update_list

    target = folder / FILE_NAME
    text, summary, before = imported.write_yaml("import"), imported.summarise(), ""
    if target.exists():
        before = target.read_text(encoding="utf-8")
        if config:
            text, said = update_list(
                before, config, imported.contents, Tree(folder), maths=has_formulas
            )
            summary = "\n".join(said) or "up to date"
    if dry_run:
        sys.stdout.write(format_diff(FILE_NAME, before, text))
    elif text != before:
        write_whole(target, text.encode())
    print(f"{target}: {summary}")


def _report_rest(folder: Path) -> None:
    """List the remaining syntax of other tools."""
    from bindery.check.inspect import inspect_book
    from bindery.check.rules import foreign_syntax
    from bindery.cli.console import Format, print_findings

    inspection = inspect_book(folder)
    left = [found for found in inspection.findings if found.rule == foreign_syntax.RULE.id]
    summary = f"{count_noun(len(left), 'kind')} of syntax left to convert by hand"
    print_findings(left, inspection, Format.TEXT, summary=summary)
