"""`bindery import`: chapters.yaml from the list of chapters of another system."""

from __future__ import annotations

from pathlib import Path

import click

from bindery.core.model import refuse


@click.command("import")
@click.argument(
    "folder", type=click.Path(path_type=Path), metavar="DIR", help="The folder of the book."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Where to write; DIR/chapters.yaml by default.",
)
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def import_book(
    folder: Path,
    out: Path | None,
    force: bool,
) -> None:
    """Write chapters.yaml from the contents of another tool, or from the folders.

    Reads what is there of chapters-md.txt, SUMMARY.md (mdBook), mkdocs.yml, _toc.yml (Jupyter
    Book), myst.yml, _quarto.yml and _toctree.yml (Hugging Face). Without any, each folder at the
    top is a part.
    """
    from bindery.book.importing import import_contents
    from bindery.core.whole_files import write_whole

    target = out or folder / "chapters.yaml"
    if target.exists() and not force:
        message = f"'{target}' is there already"
        raise refuse(str(target), message, "replace it with --force")
    text, summary = import_contents(folder)
    write_whole(target, text.encode())
    print(f"{target}: {summary}")
