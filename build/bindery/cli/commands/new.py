"""`bindery new`: start a chapter, a tool or a view."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files
from pathlib import Path

import click

from bindery.cli.console import root_option


@click.command("new")
@click.argument("kind", type=click.Choice(("chapter", "tool", "view")))
@click.argument(
    "name",
    help="Path of a chapter, such as storage/nfs; name of a tool, with its folder below scripts/"
    " if it is in one; name of a view.",
)
@click.option(
    "--in",
    "chapter",
    default="",
    show_default=False,
    metavar="CHAPTER",
    help="Chapter to quote a new view in.",
)
@root_option
def new(kind: str, name: str, chapter: str, root: Path) -> None:
    """Start a chapter, a tool or a view; list chapters and tools in chapters.yaml.

    A tool comes with a test and the kit modules it imports, a view with two example rows of data.
    """
    print(*(f"wrote {path}" for path in begin(root, kind, name, chapter)), sep="\n")
    if kind == "tool":
        print(f"next: bindery run {Path(name).name} --profile demo")
        print(f"when its options change: bindery run {Path(name).name} --texts")
    elif kind == "view":
        from bindery.rewrite.new_parts import quote_view

        print("next: replace the example rows and name their source, then bindery fill")
        if not chapter:
            print(f"quote the table in a chapter:\n\n{quote_view(name)}", end="")


def begin(root: Path, kind: str, name: str, chapter: str = "", source: str = "") -> Iterable[str]:
    """Write the files of a new part. Returns the paths of new and changed files. `source` is the
    source of a view's figures."""
    from bindery.check.inspect import read_book
    from bindery.check.rules import RULES
    from bindery.check.rules.stale_skill import FILE
    from bindery.cli.commands.fill import fill_book, fill_skill
    from bindery.core.build_date import read_today
    from bindery.core.config import load_config
    from bindery.core.model import refuse
    from bindery.core.repository import Tree
    from bindery.core.whole_files import write_whole
    from bindery.rewrite.new_parts import begin_chapter, begin_tool, begin_view
    from bindery.runs.verify import record_texts

    tree, config = Tree(root), load_config(root, RULES)
    if chapter and (kind != "view" or chapter not in {one.path for one in config.chapters}):
        hint = "name a chapter of chapters.yaml" if kind == "view" else "only a view is quoted"
        raise refuse("--in", f"'{chapter}' cannot quote the new {kind}", hint)
    if kind == "chapter":
        made = begin_chapter(tree, config, name)
    elif kind == "tool":
        made = begin_tool(tree, config, name, read_starter)
    else:
        made = begin_view(tree, config, name, chapter, source, read_today(), read_starter)
    for path, text in made.items():
        write_whole(root / path, text.encode())
    if chapter:
        fill_book(read_book(root, only=(chapter,)))
    if kind != "view" and tree.find_kind(FILE) == "file":
        fill_skill(read_book(root))
    known = {tool.name for tool in config.tools}
    new = [tool.name for tool in load_config(root, RULES).tools if tool.name not in known]
    return [*made, *(path for tool in new for path in record_texts(root, tool))]


def read_starter(name: str) -> str:
    """The text of a file of the starter."""
    return files("bindery.cli").joinpath("starter", name).read_text(encoding="utf-8")
