"""`bindery format`: the sources typed evenly, without a word changed."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from bindery.console import CLEAN, FINDINGS, Root
from bindery.model import BookError, ConfigError, Finding, Span
from bindery.report import count_noun

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bindery.config import Config
    from bindery.documents import Document
    from bindery.load import Loaded


def format_sources(
    paths: Annotated[
        list[str] | None,
        typer.Argument(help="Markdown files and folders; the chapters of the book by default."),
    ] = None,
    only_check: Annotated[
        bool, typer.Option("--check", help="Show what would change, and write nothing.")
    ] = False,
    images: Annotated[
        bool,
        typer.Option("--images", help="Shrink images: large ones, or PATHS."),
    ] = False,
    root: Root = Path(),
) -> None:
    """Pad tables, put each paragraph on one line, sort definitions of links; change no word."""
    from bindery.checks import RULES
    from bindery.config import load_config
    from bindery.documents import read_documents
    from bindery.formatting.chapters import format_document
    from bindery.load import load_book, read_line
    from bindery.render.output import write_whole
    from bindery.report import format_finding

    config = load_config(root, RULES)
    loaded = load_book(config)
    if images:
        _shrink(config, loaded, paths or [], write=not only_check)
    documents = read_documents(loaded.tree, config, loaded.book.chapters)
    listed = [entry.path for entry in config.chapters]
    chosen = _choose(documents.values(), loaded.tree.root, paths, listed)
    changed, findings = 0, 0
    for document in chosen:
        formatted = format_document(document, maths=config.maths)
        for finding in formatted.findings:
            print(format_finding(finding, lambda s: read_line(loaded.tree, s)), end="\n\n")
            findings += 1
        if formatted.text == document.text:
            continue
        changed += 1
        if only_check:
            sys.stdout.writelines(_compare(document.path, document.text, formatted.text))
            continue
        path = (loaded.tree.root / document.path).resolve()
        if path.read_bytes() != document.text.encode():
            message = f"'{document.path}' has changed meanwhile, and stays as it is"
            raise BookError(Finding(Span.whole(document.path), "unformatted", message, "run again"))
        mode = path.stat().st_mode
        write_whole(path, formatted.text.encode())
        path.chmod(mode)
        counts = {
            "table": formatted.tables,
            "paragraph": formatted.paragraphs,
            "list of definitions": formatted.definitions,
        }
        parts = (count_noun(n, noun) for noun, n in counts.items() if n)
        print(f"{document.path}: {', '.join(parts)}")
    verb = "would format" if only_check else "formatted"
    print(f"{verb} {changed} of {count_noun(len(chosen), 'file')}")
    raise typer.Exit(FINDINGS if findings or (only_check and changed) else CLEAN)


def _shrink(config: Config, loaded: Loaded, paths: Sequence[str], *, write: bool) -> NoReturn:
    from bindery.resolve import resolve_book
    from bindery.shrinking import find_large, list_shown_images, shrink_images

    tree = loaded.tree
    wanted = []
    for typed in paths:
        places = [(start / typed).resolve() for start in (Path.cwd(), tree.root)]
        inside = (p.relative_to(tree.root) for p in places if p.is_relative_to(tree.root))
        path = next((p.as_posix() for p in inside if tree.find_kind(p.as_posix()) == "file"), "")
        if not path:
            hint = "name images below the folder of the book"
            message = f"no file lies at '{typed}'"
            raise ConfigError(Finding(Span.whole(typed), "config", message, hint))
        wanted.append(path)
    if not paths:
        resolved = resolve_book(loaded.book, tree, config.allowed_schemes)
        shown = list_shown_images(config, tree, resolved)
        wanted = [path for path in shown if find_large(tree, path)]
    shrunk = shrink_images(tree, wanted, write=write)
    for image in shrunk:
        print(f"{image.path}: {image.before:,} to {image.after:,} bytes".replace(",", "\u00a0"))
    print(f"{'shrank' if write else 'would shrink'} {count_noun(len(shrunk), 'image')}")
    raise typer.Exit(FINDINGS if shrunk and not write else CLEAN)


def _choose(
    documents: Iterable[Document], root: Path, paths: Sequence[str] | None, listed: Sequence[str]
) -> list[Document]:
    """The documents under the given paths. A path without any is wrong use."""
    if not paths:
        return [document for document in documents if document.path in listed]
    found: dict[str, Document] = {}
    for typed in paths:
        places = {(start / typed).resolve() for start in (Path.cwd(), root)}
        under = [
            document
            for document in documents
            if any((root / document.path).resolve().is_relative_to(place) for place in places)
        ]
        if not under:
            message = f"no Markdown file lies at '{typed}'"
            hint = "name files or folders below the folder of the book"
            raise ConfigError(Finding(Span.whole(typed), "config", message, hint))
        found |= {document.path: document for document in under}
    return list(found.values())


def _compare(path: str, before: str, after: str) -> Iterable[str]:
    old, new = (text.splitlines(keepends=True) for text in (before, after))
    for line in difflib.unified_diff(old, new, f"a/{path}", f"b/{path}"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
