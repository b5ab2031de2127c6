"""`bindery init`: a new book, or a book of the Markdown files that are there."""

from __future__ import annotations

from pathlib import Path

import click

from bindery.core.model import refuse

_FIRST = """\
# A new book

What this book is about, in two sentences. The first chapter is [Beginnings](beginnings.md).
"""
_SECOND = """\
# Beginnings

| Way | Result |
|:----|:-------|
| `bindery serve --open` | the book in a browser, while you write |
| `bindery check` | what is false in it: dead links, wrong sums, broken code |

Back to [the front](README.md#a-new-book).
"""
_WORKFLOW = """\
name: book
on: [push, pull_request]
permissions:
  contents: read
jobs:
  book:
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@v7
      - uses: executable-field-book/ml-engineering@v0.1.0
      - uses: actions/upload-artifact@v7
        with:
          name: book
          path: dist
"""


@click.command("init")
@click.argument("folder", default=".", type=click.Path(path_type=Path), metavar="[DIR]")
def init(folder: Path) -> None:
    """Begin a book, or make one of the Markdown files that are there.

    Writes chapters.yaml, a workflow for GitHub, and two chapters where there is none. Nothing that
    is there is changed.
    """
    from bindery.book.importing import import_contents
    from bindery.core.repository import MARKDOWN, Tree
    from bindery.core.whole_files import write_whole

    if (folder / "chapters.yaml").exists():
        message = f"there is a book in '{folder}' already"
        raise refuse(str(folder / "chapters.yaml"), message, "go on with `bindery check`")
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, str] = {}
    if not any(path.endswith(MARKDOWN) for path in Tree(folder).walk_files("")):
        files = {"README.md": _FIRST, "beginnings.md": _SECOND}
        for name, text in files.items():
            write_whole(folder / name, text.encode())
    imported = import_contents(folder)
    ours = {".gitignore": "/dist/\n", ".github/workflows/book.yml": _WORKFLOW}
    for name, text in {"chapters.yaml": imported.write_yaml(), **ours}.items():
        if not (folder / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            write_whole(folder / name, text.encode())
            files[name] = text
    print(*(f"wrote {folder / name}" for name in files), imported.summarise(), sep="\n")
    print("next: bindery check, bindery serve --open, bindery html, bindery pdf, bindery epub")
