"""`bindery mv`: a chapter, a folder or a file gets another path, and no link breaks."""

from __future__ import annotations

from pathlib import Path

import click

from bindery.cli.console import (
    CLEAN,
    root_option,
)
from bindery.core.model import ConfigError, Finding, Span


@click.command("mv")
@click.argument("old", metavar="OLD", required=False, help="A file or folder of the book.")
@click.argument(
    "new", metavar="NEW", required=False, help="Its new path, or a folder that takes it in."
)
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--force", is_flag=True, help="Move files with uncommitted changes too.")
@root_option
def mv(
    old: str | None,
    new: str | None,
    dry_run: bool,
    force: bool,
    root: Path,
) -> None:
    """Move a chapter, a folder or a file: links in and out, chapters.yaml, the old address."""
    from bindery.book.load import load_book
    from bindery.book.markdown_files import read_documents
    from bindery.check.baseline_use import prepare_carrying
    from bindery.check.rules import RULES
    from bindery.core.config import load_config
    from bindery.core.transaction import refuse_uncommitted
    from bindery.rewrite.moving.plan import RULE
    from bindery.rewrite.moving.transfer import (
        arrange_moves,
        find_path,
        make_change,
        make_plan,
        transfer,
    )
    from bindery.rewrite.moving.wording import describe_plan, format_plan

    typed = _read_paths(old, new)
    config = load_config(root, RULES)
    loaded = load_book(config)
    folder = loaded.tree.root
    source = find_path(typed[0], folder, Path.cwd(), must_exist=True)
    target = find_path(typed[1], folder, Path.cwd())
    moves = arrange_moves(config, loaded.tree, source, target, into=typed[1].endswith("/"))
    documents = read_documents(loaded.tree, config, loaded.book.chapters)
    plan = make_plan(config, loaded.tree, documents, moves)
    if dry_run:
        print(format_plan(plan, loaded.tree), end="")
        print(describe_plan(plan, would=True))
        raise SystemExit(CLEAN)
    if not force:
        refuse_uncommitted(folder, make_change(plan))
    carried = transfer(folder, plan, prepare_carrying(config, RULE, moves.map))
    print(describe_plan(plan))
    for path in carried:
        print(f"{moves.map(path)}: the accepted findings follow")
    raise SystemExit(CLEAN)


def _read_paths(old: str | None, new: str | None) -> tuple[str, str]:
    """The two paths as they were typed. Raises ConfigError where one is missing."""
    if not (old and new):
        missing = "NEW" if old else "OLD"
        message = f"{missing} is missing: what is moved, and where to"
        hint = "`bindery mv OLD NEW`"
        raise ConfigError(Finding(Span.whole("mv"), "config", message, hint))
    return old, new
