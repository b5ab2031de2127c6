"""`bindery format`: the sources typed evenly, without a word changed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from bindery.cli.console import CLEAN, FINDINGS, find_path, root_option
from bindery.core.model import Finding, Severity, Span, refuse
from bindery.core.report import count_noun, format_diff, group_digits

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bindery.book.load import Loaded
    from bindery.book.markdown_files import Document
    from bindery.core.config import Config


@click.command("format")
@click.argument(
    "paths", nargs=-1, help="Markdown files and folders; the chapters of the book by default."
)
@click.option(
    "--check", "only_check", is_flag=True, help="Show what would change, and write nothing."
)
@click.option("--images", is_flag=True, help="Shrink images: large ones, or PATHS.")
@root_option
def format_sources(
    paths: tuple[str, ...],
    only_check: bool,
    images: bool,
    root: Path,
) -> None:
    """Pad tables, put each paragraph on one line, sort definitions of links; change no word."""
    from bindery.book.load import load_book
    from bindery.book.markdown_files import read_documents
    from bindery.check.baseline_use import prepare_carrying
    from bindery.check.rules import RULES
    from bindery.core.config import load_config
    from bindery.core.report import format_finding
    from bindery.core.transaction import Change, change_files
    from bindery.rewrite.formatting.chapters import RULE, format_document

    config = load_config(root, RULES)
    loaded = load_book(config)
    if images:
        _shrink(config, loaded, paths, write=not only_check)
    documents = read_documents(loaded.tree, config, loaded.book.chapters)
    listed = [entry.path for entry in config.chapters]
    chosen = _choose(documents.values(), loaded.tree.root, paths, listed)
    findings: list[Finding] = []
    texts: dict[str, tuple[str, str]] = {}
    for document in chosen:
        text, found = format_document(document, maths=config.maths)
        findings += found
        if text == document.text:
            continue
        if problem := _find_problem(loaded.tree.root, document.path):
            findings.append(problem)
            continue
        texts[document.path] = document.text, text
    for finding in findings:
        print(format_finding(finding, loaded.tree.read_line), end="\n\n")
    if only_check:
        for path, (before, after) in texts.items():
            sys.stdout.write(format_diff(path, before, after))
    elif texts:
        carry = prepare_carrying(config, RULE)
        carried = change_files(loaded.tree.root, Change(RULE, texts), carry)
        print(*(f"{path}: formatted" for path in texts), sep="\n")
        for path in carried:
            print(f"{path}: the accepted findings follow")
    verb = "would format" if only_check else "formatted"
    print(f"{verb} {len(texts)} of {count_noun(len(chosen), 'file')}")
    raise SystemExit(FINDINGS if findings or (only_check and texts) else CLEAN)


def _find_problem(root: Path, path: str) -> Finding | None:
    """Why a file may not be written where it is."""
    from bindery.core.transaction import find_obstacle
    from bindery.rewrite.formatting.chapters import RULE

    if obstacle := find_obstacle(root, path):
        return Finding(Span.whole(path), RULE, *obstacle, Severity.WARNING)
    return None


def _shrink(config: Config, loaded: Loaded, paths: Sequence[str], *, write: bool) -> NoReturn:
    from bindery.book.image_sizes import find_large, list_shown_images, shrink_image
    from bindery.book.resolve import resolve_book
    from bindery.core.report import format_finding
    from bindery.core.whole_files import write_whole

    tree = loaded.tree
    wanted = []
    for typed in paths:
        path = find_path(typed, tree.root)
        if tree.find_kind(path) != "file":
            hint = "name images below the folder of the book"
            message = f"no file is at '{typed}'"
            raise refuse(typed, message, hint)
        wanted.append(path)
    if not paths:
        resolved = resolve_book(loaded.book, tree, config.allowed_schemes)
        shown = list_shown_images(config, tree, resolved)
        wanted = [path for path in shown if find_large(tree, path)]
    shrunk = locked = 0
    for path in dict.fromkeys(wanted):
        if problem := _find_problem(tree.root, path):
            print(format_finding(problem, lambda span: ""), end="\n\n")
            locked += 1
            continue
        data = tree.read_bytes(path)
        smaller = shrink_image(data)
        if len(smaller) < len(data):
            shrunk += 1
            sizes = f"{group_digits(len(data))} to {group_digits(len(smaller))}"
            print(f"{path}: {sizes} bytes")
            if write:
                write_whole((tree.root / path).resolve(), smaller)
    print(f"{'shrank' if write else 'would shrink'} {count_noun(shrunk, 'image')}")
    raise SystemExit(FINDINGS if locked or (shrunk and not write) else CLEAN)


def _choose(
    documents: Iterable[Document], root: Path, paths: Sequence[str], listed: Sequence[str]
) -> list[Document]:
    """The documents under the given paths. A path without any is wrong use."""
    from bindery.check.choose_findings import is_below

    if not paths:
        return [document for document in documents if document.path in listed]
    found: dict[str, Document] = {}
    for typed in paths:
        folder = find_path(typed, root)
        under = {d.path: d for d in documents if is_below(d.path, [folder])}
        if not under:
            message = f"no Markdown file is at '{typed}'"
            hint = "name files or folders below the folder of the book"
            raise refuse(typed, message, hint)
        found |= under
    return list(found.values())
