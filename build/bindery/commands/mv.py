"""`bindery mv`: a chapter, a folder or a file gets another path, and no link breaks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bindery.console import CLEAN, Root


def mv(
    old: Annotated[str, typer.Argument(metavar="OLD", help="A file or folder of the book.")],
    new: Annotated[
        str, typer.Argument(metavar="NEW", help="Its new path, or a folder that takes it in.")
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
    ] = False,
    root: Root = Path(),
) -> None:
    """Move a chapter, a folder or a file: links in and out, chapters.yaml, the old address."""
    from bindery.checks import RULES
    from bindery.config import load_config
    from bindery.documents import read_documents
    from bindery.load import load_book
    from bindery.moving.transfer import arrange_moves, find_path, make_plan, transfer
    from bindery.moving.wording import describe_plan, format_plan

    config = load_config(root, RULES)
    loaded = load_book(config)
    folder = loaded.tree.root
    source = find_path(old, folder, Path.cwd(), must_exist=True)
    target = find_path(new, folder, Path.cwd())
    moves = arrange_moves(config, loaded.tree, source, target, into=new.endswith("/"))
    documents = read_documents(loaded.tree, config, loaded.book.chapters)
    plan = make_plan(config, loaded.tree, documents, moves)
    if dry_run:
        print(format_plan(plan, loaded.tree), end="")
    else:
        transfer(folder, plan)
    print(describe_plan(plan, would=dry_run))
    raise typer.Exit(CLEAN)
