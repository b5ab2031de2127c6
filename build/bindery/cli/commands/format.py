"""`bindery format`: format the Markdown without changing its text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bindery.cli.console import CLEAN, FINDINGS, find_path, root_option
from bindery.core.model import Finding, Severity, Span, refuse
from bindery.core.report import count_noun, format_diff

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bindery.book.markdown_files import Document


@click.command("format")
@click.argument("paths", nargs=-1, help="Markdown files and folders.  [default: all chapters]")
@click.option(
    "--check", "only_check", is_flag=True, help="Show what would change, but write nothing."
)
@root_option
def format_sources(
    paths: tuple[str, ...],
    only_check: bool,
    root: Path,
) -> None:
    """Pad tables, put each paragraph on one line, sort link definitions. No word changes."""
    from bindery.book.load import load_book
    from bindery.book.markdown_files import read_documents
    from bindery.check.baseline_use import prepare_carrying
    from bindery.check.rules import RULES
    from bindery.core.config import load_config
    from bindery.core.report import format_finding
    from bindery.core.transaction import Change, change_files, find_obstacle
    from bindery.rewrite.formatting.chapters import RULE, format_document

    config = load_config(root, RULES)
    loaded = load_book(config)
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
        if obstacle := find_obstacle(loaded.tree.root, document.path):
            whole = Span.whole(document.path)
            findings.append(Finding(whole, RULE, *obstacle, Severity.WARNING))
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
            print(f"{path}: updated the accepted findings")
    verb = "would format" if only_check else "formatted"
    print(f"{verb} {len(texts)} of {count_noun(len(chosen), 'file')}")
    raise SystemExit(FINDINGS if findings or (only_check and texts) else CLEAN)


def _choose(
    documents: Iterable[Document], root: Path, paths: Sequence[str], listed: Sequence[str]
) -> list[Document]:
    """The documents under the given paths. Raises ConfigError for a path without any."""
    from bindery.check.choose_findings import is_below

    if not paths:
        return [document for document in documents if document.path in listed]
    found: dict[str, Document] = {}
    for typed in paths:
        folder = find_path(typed, root)
        under = {d.path: d for d in documents if is_below(d.path, [folder])}
        if not under:
            message = f"there is no Markdown file at '{typed}'"
            hint = "name files or folders in the book's folder"
            raise refuse(typed, message, hint)
        found |= under
    return list(found.values())
