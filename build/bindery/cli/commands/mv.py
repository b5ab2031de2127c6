"""`bindery mv`: move a chapter, a folder or a file without breaking links."""

from __future__ import annotations

from pathlib import Path

import click

from bindery.cli.console import CLEAN, find_path, root_option


@click.command("mv")
@click.argument("old", metavar="OLD", help="A file or folder of the book.")
@click.argument("new", metavar="NEW", help="Its new path, or an existing folder to move it into.")
@click.option("--dry-run", is_flag=True, help="Show what would change, but change nothing.")
@click.option("--force", is_flag=True, help="Also move files with uncommitted changes.")
@root_option
def mv(
    old: str,
    new: str,
    dry_run: bool,
    force: bool,
    root: Path,
) -> None:
    """Move a chapter, folder or file, update links and chapters.yaml, and redirect the address."""
    from bindery.book.load import load_book
    from bindery.book.markdown_files import read_documents
    from bindery.check.baseline_use import prepare_carrying
    from bindery.check.rules import RULES
    from bindery.core.config import load_config
    from bindery.core.transaction import change_files, refuse_uncommitted
    from bindery.rewrite.moving.arrange import (
        arrange_moves,
        make_change,
        make_plan,
    )
    from bindery.rewrite.moving.plan import RULE
    from bindery.rewrite.moving.wording import describe_plan, format_plan

    config = load_config(root, RULES)
    loaded = load_book(config)
    folder = loaded.tree.root
    source, target = find_path(old, folder), find_path(new, folder, must_exist=False)
    moves = arrange_moves(config, loaded.tree, source, target, into=new.endswith("/"))
    documents = read_documents(loaded.tree, config, loaded.book.chapters)
    plan = make_plan(config, loaded.tree, documents, moves)
    if dry_run:
        print(format_plan(plan), end="")
        print(describe_plan(plan, would=True))
        raise SystemExit(CLEAN)
    change = make_change(plan)
    if not force:
        refuse_uncommitted(folder, change)
    carried = change_files(folder, change, prepare_carrying(config, RULE, moves.map))
    print(describe_plan(plan))
    for path in carried:
        print(f"{moves.map(path)}: updated the accepted findings")
    raise SystemExit(CLEAN)
