"""`bindery init`: start a book, or make one of existing Markdown files."""

from __future__ import annotations

from pathlib import Path

import click

from bindery.cli.commands.new import begin, read_starter
from bindery.core.model import refuse


@click.command("init")
@click.argument("folder", default=".", type=click.Path(path_type=Path), metavar="[DIR]")
def init(folder: Path) -> None:
    """Start a new book, or turn existing Markdown into one.

    Writes chapters.yaml and a GitHub workflow that checks and publishes the book. If there is no
    Markdown, also writes two chapters, a table and a tool. Existing files are not changed.
    """
    from bindery.book.importing import import_contents
    from bindery.core.repository import MARKDOWN, Tree
    from bindery.core.whole_files import write_whole

    if (folder / "chapters.yaml").exists():
        message = f"there is already a book in '{folder}'"
        raise refuse(str(folder / "chapters.yaml"), message, "run `bindery check`")
    folder.mkdir(parents=True, exist_ok=True)
    written: list[str] = []
    is_new = not any(path.endswith(MARKDOWN) for path in Tree(folder).walk_files(""))
    if is_new:
        written = ["README.md", "beginnings.md"]
        for name in written:
            write_whole(folder / name, read_starter(name).encode())
    imported = import_contents(folder)
    ours = {".gitignore": "/dist/\n", ".github/workflows/book.yml": read_starter("book.yml")}
    ours |= {"SKILL.md": read_starter("SKILL.md")} if is_new else {}
    for name, text in {"chapters.yaml": imported.write_yaml("init"), **ours}.items():
        if not (folder / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_whole(folder / name, text.encode())
            written.append(name)
    if is_new:
        written += begin(folder, "view", "example", "beginnings.md", "invented for this example")
        written += begin(folder, "tool", "sort_time")
    print(*(f"wrote {folder / name}" for name in dict.fromkeys(written)), sep="\n")
    print(imported.summarise())
    print("next: bindery check, bindery serve --open, bindery build")
